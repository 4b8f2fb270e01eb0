"""verifiers' tasksets (v1) as environments: their tasks, prompts and scoring; our seeds, resets, splits and restore.

>>> gym.make("rlvr/verifiers.Taskset-v0", taskset="reverse-text", config={"dataset_split": "train"})   # doctest: +SKIP

There, an environment cannot be stepped: it asks a model server through a harness program in a sandbox. Here the policy
sits in the seat of its agent, in a worker process without any of the three (see ``workers.verifiers``). A state is the
task's number and the actions so far. The reward is 1 where their rewards come to ``full`` and 0 for all else; their own
sum, and each reward by its name, stand in the verdict's ``parts``. A scorer that raises is an invalid verdict.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import gymnasium as gym

from rlvr.envs.bridges.pools import call, verdict_on_fault
from rlvr.envs.bridges.worker_episodes import named
from rlvr.envs.core.code_rule import require_code
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, env_error, wrong
from rlvr.envs.rewards.extraction import visible_text
from rlvr.envs.rewards.workers import WorkerError
from rlvr.envs.tools.sessions import Handle

WORKER: Final = "verifiers"
SECONDS: Final = 60.0
LOAD_SECONDS: Final = 600.0
LONGEST: Final = 20_000  # characters of an action that a scorer is given: its end
MOST: Final = 1_000


class VerifiersState(NamedTuple):
    """An episode so far: which task, and what the policy reads next."""

    number: int
    actions: tuple[str, ...]
    text: str
    content: str
    record: str = ""
    live: Handle | None = None


class Verifiers(Task[VerifiersState]):
    """Args:
        taskset: its id, which names an installed module (``reverse-text`` is ``reverse_text``).
        config: what ``--env.taskset.*`` sets; plain JSON.
        tasks: how many of its first tasks there are; they are loaded in each worker.
        turns: how many actions an episode may take.
        full: the sum of rewards that counts as success.

    Raises:
        TypeError: the configuration is no JSON.
        ValueError: a number below 1; later, in ``reset``: the taskset cannot be loaded, or not be played here.
    """

    source = "verifiers, the installed version and package of tasks"
    always_solvable = False

    def __init__(
        self,
        *,
        taskset: str,
        config: Mapping[str, Any] | None = None,
        tasks: int = MOST,
        turns: int = 32,
        full: float = 1.0,
    ) -> None:
        if tasks < 1 or turns < 1:
            raise ValueError(f"tasks={tasks} and turns={turns} must be at least 1")
        env_id = f"rlvr/verifiers.{taskset}-v0"
        if env_id not in gym.registry:
            require_code(f"the module of the taskset {taskset!r}")
        if config:
            require_code(f"the config of the taskset {taskset!r}, which verifiers reads,")
        self.packages = ("verifiers", taskset.replace("-", "_"))
        self.taskset, self.max_tasks, self.full, self._turns = taskset, tasks, full, turns
        self.config = json.dumps(dict(config or {}), sort_keys=True, allow_nan=False)
        self.asks = f"the tasks of verifiers' {taskset}"

    @property
    def name(self) -> str:
        """The taskset and its whole configuration: another one has other tasks by the same numbers."""
        return f"Verifiers {self.taskset} {self.config}"

    @cached_property
    def count(self) -> int:
        """How many tasks there are.

        Raises:
            ValueError: the taskset cannot be loaded, or not be played here.
        """
        try:
            description: dict[str, int] = call(WORKER, "describe", self._named(), LOAD_SECONDS)
        except WorkerError as error:
            raise ValueError(str(error)) from None
        return description["tasks"]

    def turns(self, level: int) -> int:
        """The setting ``turns``, at every level."""
        return self._turns

    def start(self, rng: random.Random, level: int) -> VerifiersState:
        """Draws the number of a task and begins it in a worker, which may load the taskset first."""
        number = rng.randrange(self.count)
        begun = call(WORKER, "begin", [*self._named(), number, (live := Handle()).number], LOAD_SECONDS)
        return VerifiersState(number, (), begun["text"], begun["content"], begun["record"], live)

    def detached(self, state: VerifiersState) -> VerifiersState:
        """The state without its live episode in a worker, which then plays the actions again."""
        return state._replace(live=None)

    def content(self, state: VerifiersState) -> str:
        """What the worker says identifies the task."""
        return state.content

    def observe(self, state: VerifiersState) -> str:
        """What the taskset says next."""
        return state.text

    def apply(self, state: VerifiersState, action: str) -> Transition:
        """Hands over the visible text; 1 where the rewards add up to ``full``, a scorer that raises is
        ``env_error``.
        """
        # What a policy thought is left out, as model servers leave it out of the reply.
        action_text = visible_text(action).encode("utf-8", "replace").decode()[-LONGEST:]
        actions = (*state.actions, action_text)
        try:
            episode = named(state.live, live := Handle(), state.record)
            played = call(WORKER, "play", [*self._named(), state.number, list(actions), episode], SECONDS)
        except WorkerError as error:
            return Transition(state, verdict_on_fault(error, lambda: self._begin_again(state)), True)
        after = state._replace(actions=actions, text=played["text"], record=played["record"], live=None)
        if not played["done"]:
            return Transition(after._replace(live=live), Verdict(0.0, "partial", reason="the episode goes on"))
        if played["error"]:
            return Transition(after, env_error(played["error"]), True)
        reason = f"its own score is {played['score']:g}; ended: {played['stopped']}"
        verdict = correct(reason=reason) if played["score"] >= self.full - 1e-9 else wrong(reason=reason)
        return Transition(after, verdict.replace(parts={"its own score": played["score"], **played["scores"]}), True)

    def _begin_again(self, state: VerifiersState) -> None:
        """Begin the same episode without any action of the policy.

        Raises:
            WorkerError: that fails, too.
        """
        call(WORKER, "begin", [*self._named(), state.number, None], SECONDS)

    def _named(self) -> list[Any]:
        return [self.taskset, self.config, self.max_tasks]
