"""Whose doing it is that a step does not return, or ends its process: the action again, and a control, elsewhere.

The law of docs/verification.md. The step is the policy's own doing where, in fresh environments that play the same
task, the same actions fail again and a control of as many turns does not: the expert, else random actions.
"""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium.vector import AutoresetMode

from rlvr.envs.core.images import text_of
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector.env_slot import Command, Env, Make, Outcome

START_SECONDS = 60.0  # what making an environment may take where steps have a time limit
REPLAY = 2.0  # times a step's limit: what the turns before the last may take together, and what a control may
TASK = ("index", "split", "level")
Phase = tuple[Callable[[Env], object], float]  # what is done with a fresh environment, and the seconds that it may take
# How the first phase ended that did not end in time, and its index.
TrialResult = tuple[Literal["late", "died", "raised", "ended"], int]
Trial = Callable[[Sequence[Phase]], TrialResult]


class StepHistory:
    """What an episode has to be played again with: its reset, the first observation, and the actions since.

    Attributes:
        start: seed and options; None where the same task cannot be had again.
    """

    def __init__(
        self,
        start: tuple[int, dict[str, Any] | None] | None = None,
        first: Any = None,
        actions: Sequence[Any] = (),
    ) -> None:
        self.start, self.first, self.actions = start, first, [*actions]
        self._over = True

    @staticmethod
    def is_step(command: Command) -> bool:
        """Whether a command is a step, which is played again where it does not return."""
        return command[0] == "step"

    def send(self, command: Command) -> None:
        """Note what the environment is sent."""
        if command[0] == "step" and not self._over:
            self.actions.append(command[1])

    def receive(self, command: Command, outcome: Outcome, mode: AutoresetMode) -> None:
        """Note what came of a command."""
        if command[0] not in ("reset", "step", "again"):
            return
        ended = outcome[2] or outcome[3]
        if command[0] == "reset" or (self._over and not ended):
            self._begin(command[1] if command[0] == "reset" else (None, None), outcome)
        elif ended and mode is AutoresetMode.SAME_STEP:
            self._begin((None, None), outcome)
        elif ended:
            self._over, self.start, self.actions = True, None, []

    def _begin(self, asked: tuple[int | None, Any], outcome: Outcome) -> None:
        info, (seed, options) = outcome[4], asked
        self.first, self.actions, self._over = outcome[0], [], False
        if seed is not None:
            self.start = seed, options
        elif type(info.get("seed")) is int and type(info.get("index")) is int:  # as our environments name their task
            self.start = info["seed"], {name: info[name] for name in TASK if info.get(name) is not None}
        else:
            self.start = None

    def copy(self) -> StepHistory:
        """As it is now."""
        return StepHistory(self.start, self.first, self.actions)


def is_provoked(played: StepHistory, trial: Trial, seconds: float) -> bool:
    """Whether the last action of an episode is why its step did not return within ``seconds``, or ended its process."""
    if played.start is None or not played.actions:
        return False
    begin = partial(_begun, start=played.start, first=played.first)
    *before, last = played.actions
    control = (partial(_play_control, begin=begin, turns=len(played.actions)), REPLAY * seconds)
    if trial([control]) != ("ended", 0):
        return False
    again = [(partial(_play, begin=begin, actions=before), REPLAY * seconds), (partial(_step, action=last), seconds)]
    how, phase = trial(again)
    return phase == 1 and how in ("late", "died")


def in_threads(make: Make, phases: Sequence[Phase]) -> TrialResult:
    """A trial in a thread of this process, which is left behind where it does not return."""
    done = [threading.Event() for _ in range(len(phases) + 1)]
    errors: list[BaseException] = []

    def play() -> None:
        env: Env | None = None
        try:
            env = make()
            done[0].set()
            for (function, _), event in zip(phases, done[1:], strict=True):
                function(env)
                event.set()
        except BaseException as error:
            errors.append(error)
            for event in done:
                event.set()
        finally:
            if env is not None:
                env.close()

    thread = threading.Thread(target=play, name="vector-env-trial", daemon=True)
    thread.start()
    for phase, (event, seconds) in enumerate(zip(done, (START_SECONDS, *(s for _, s in phases)), strict=True), -1):
        if not event.wait(seconds):
            # Ends a loop of Python, which would compute on for ever beside the rest.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            return "late", phase
        if errors:
            return "raised", phase
    return "ended", len(phases) - 1


def _begun(env: Env, *, start: tuple[int, dict[str, Any] | None], first: Any) -> None:
    seed, options = start
    observation, _ = env.reset(seed=seed, options=options)
    if not _equal(observation, first):
        raise ValueError("the environment begins another episode with the same seed and options")


def _equal(observation: Any, other: Any) -> bool:
    if isinstance(other, str):
        return text_of(observation) == other
    if isinstance(observation, dict) and isinstance(other, dict):
        return observation.keys() == other.keys() and all(_equal(observation[key], other[key]) for key in other)
    return bool(np.array_equal(observation, other))


def _play(env: Env, *, begin: Callable[[Env], None], actions: Sequence[Any]) -> None:
    begin(env)
    for action in actions:
        env.step(action)


def _step(env: Env, *, action: Any) -> None:
    env.step(action)


def _play_control(env: Env, *, begin: Callable[[Env], None], turns: int) -> None:
    begin(env)
    rng = random.Random(0)
    for _ in range(turns):
        _, _, terminated, truncated, info = env.step(_control_action(env, rng))
        verdict = info.get("verdict")
        if verdict is not None and not verdict.valid:
            raise RuntimeError(verdict.reason)
        if terminated or truncated:
            return


def _control_action(env: Env, rng: random.Random) -> Any:
    """The expert's, else a random one."""
    for name, arguments in (("solve", ()), ("sample_action", (rng,))):
        ask: Any = getattr(env.unwrapped, name, None)
        if ask is not None:
            try:
                return ask(*arguments)
            except NotImplementedError:
                continue
    return "" if isinstance(env.action_space, Text) else env.action_space.sample()
