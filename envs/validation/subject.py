"""The environment under validation: any Gymnasium environment whose actions are texts or numbers, spoken to in texts.

Whatever it raises, `SystemExit` included, ends the episode and stands in it; only what is not of the right form at all
is an `ApiFault`.
"""

from __future__ import annotations

import inspect
import json
import math
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import gymnasium as gym
import numpy as np

from rlvr.envs.core.spaces import Text
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import PROVOKED, Verdict
from rlvr.envs.validation.clock import now
from rlvr.envs.validation.report import Replay

MAX_TURNS: Final = 200  # of an episode that a check plays
LONG: Final = 20_000  # characters of numbers in an observation
TEXT_KEYS: Final = ("text", "prompt", "question", "observation", "message", "content")
EXPERTS: Final = ("solve", "oracle", "expert", "solution", "gold")  # attributes that may know the solution
# What a reset or step may raise; not what is raised in it from elsewhere, as Ctrl-C and a test's time limit are.
RAISED: Final = (Exception, SystemExit, GeneratorExit, CancelledError)
SUCCESS: Final = ("success", "is_success", "solved", "won")  # entries of the last info


class ApiFault(Exception):
    """What an environment returned is not what Gymnasium's API asks for."""


class OutOfTime(Exception):
    """The validation's time is up."""


class NotApplicable(Exception):
    """A text names no action of an environment whose actions are numbers, or it is longer than actions may be."""


@dataclass(frozen=True, slots=True)
class TaskRef:
    """One task: a seed, and options where the environment takes them."""

    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def level(self) -> int:
        """The level of difficulty; 1 where there are none."""
        return int(self.options.get("level", 1))

    def __str__(self) -> str:
        named = [f"{name} {value}" for name, value in self.options.items()]
        return ", ".join([*named[:1], f"seed {self.seed}", *named[1:]])


@dataclass(slots=True)
class ValidationEpisode:
    """One episode as it was played.

    Attributes:
        observations: texts; the first is the reset's, so there is one more than actions where nothing was raised.
        error: what ``step`` raised, with its type; "" where it did not.
        slowest: seconds of the slowest step, without waiting for a processor.
    """

    ref: TaskRef
    first_info: Mapping[str, Any] = field(default_factory=dict)
    observations: list[str] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[Mapping[str, Any]] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    error: str = ""
    slowest: float = 0.0

    @property
    def total(self) -> float:
        """The return."""
        return math.fsum(self.rewards)

    @property
    def ended(self) -> bool:
        """Whether the environment ended it."""
        return self.terminated or self.truncated

    @property
    def last(self) -> Mapping[str, Any]:
        """The info of the last step; empty before one."""
        return self.infos[-1] if self.infos else {}

    @property
    def verdict(self) -> Verdict | None:
        """The last step's verdict, where the environment gives verdicts."""
        verdict = self.last.get("verdict")
        return verdict if isinstance(verdict, Verdict) else None

    @property
    def valid(self) -> bool:
        """Whether its reward is about the policy: nothing was raised, and no verdict says that the fault was ours."""
        return not self.error and (self.verdict is None or self.verdict.valid)

    @property
    def provoked(self) -> bool:
        """Whether it was scored 0 because the environment failed on what the policy wrote."""
        return self.verdict is not None and PROVOKED in self.verdict.reason

    @property
    def success(self) -> bool | None:
        """What the environment says itself; None where it says nothing."""
        if self.verdict is not None and "success" not in self.last:
            return self.verdict.success
        for key in SUCCESS:
            if isinstance(self.last.get(key), (bool, np.bool_)):
                return bool(self.last[key])
        return None

    @property
    def asked(self) -> str:
        """All that the policy is told before its first action."""
        parts = [str(self.first_info.get("system") or ""), self.observations[0]]
        parts += [
            json.dumps(self.first_info[key], default=str) for key in ("examples", "tools") if key in self.first_info
        ]
        return "\n".join(part for part in parts if part)

    @property
    def replay(self) -> Replay:
        """What plays it again."""
        return Replay(self.ref.seed, dict(self.ref.options), tuple(self.actions))

    def transcript(self) -> tuple[Any, ...]:
        """Everything that a second playing must repeat."""
        return self.observations, self.images, self.rewards, self.terminated, self.truncated, self.error


class Watch(Protocol):
    """Is told of each call before it is made, so that a call that never returns can be named."""

    def __call__(self, replay: Replay | None) -> None:
        """A call begins, and what it plays; None: it has returned."""


Policy = Callable[[gym.Env[Any, Any], ValidationEpisode], str | None]


def always(text: str) -> Policy:
    """The policy that says the same again and again."""
    return lambda env, episode: text


def in_order(actions: Sequence[str]) -> Policy:
    """The policy that plays the actions one after the other, and then stops."""
    return _InOrder(actions)


class _InOrder:
    def __init__(self, actions: Sequence[str]) -> None:
        self.actions = actions

    def __call__(self, env: gym.Env[Any, Any], episode: ValidationEpisode) -> str | None:
        turn = len(episode.actions)
        return self.actions[turn] if turn < len(self.actions) else None


class Subject:
    """An environment, as often as a check wants it.

    Args:
        make: makes a new one.
        name: how it is named in reports.
        deadline: the time of ``clock.now`` at which `OutOfTime` is raised; None for no limit.
        watch: told of each call. Who is watched has a process of its own: whatever is raised there is raised by it.
    """

    def __init__(
        self,
        make: Callable[[], gym.Env[Any, Any]],
        name: str,
        *,
        make_split: Callable[[str], gym.Env[Any, Any]] | None = None,
        deadline: float | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.make, self.name = make, name
        self.make_split = make_split
        self.deadline, self.watch = deadline, watch
        self.raised = RAISED if watch is None else (BaseException,)
        self.check_deadline = deadline
        self.env = make()
        bare = self.env.unwrapped
        self.text_env = bare if isinstance(bare, TextEnv) else None
        space = getattr(self.env, "action_space", None)
        self.space: Any = space  # which what is no gymnasium.Env may lack
        self.discrete = isinstance(space, gym.spaces.Discrete)
        is_text = isinstance(space, (gym.spaces.Text, Text)) or not isinstance(space, gym.Space)
        self.texts = self.text_env is not None or is_text
        self.max_length = space.max_length if isinstance(space, gym.spaces.Text) and self.text_env is None else None
        self.steps = self.episodes = 0

    @property
    def levels(self) -> int:
        """How many levels of difficulty there are."""
        return self.text_env.task.levels if self.text_env is not None else 1

    def refs(self, count: int, seed: int, split: str | None = None) -> list[TaskRef]:
        """``count`` tasks of each level, or rows of a table, or seeds."""
        if self.text_env is None:
            return [TaskRef(seed + i) for i in range(count)]
        size = self.text_env.size
        named = {} if split is None or size is not None else {"split": split}
        indices = range(count if size is None else min(count, size))
        return [
            TaskRef(seed, {"level": level, "index": index, **named})
            for level in range(1, self.levels + 1)
            for index in indices
        ]

    # playing

    def play(
        self,
        ref: TaskRef,
        policy: Policy,
        *,
        env: gym.Env[Any, Any] | None = None,
        turns: int | None = None,
        until: Callable[[ValidationEpisode], bool] | None = None,
    ) -> ValidationEpisode:
        """An episode: until it ends, ``policy`` gives None, ``until`` says so, or ``turns`` are over.

        By default, a list of actions is played to its end, and any other policy for ``MAX_TURNS``.

        Raises:
            NotApplicable: a text of the policy names no action.
            ApiFault: ``reset`` raised, or something is not of the right form.
        """
        env = self.env if env is None else env
        if turns is None:
            turns = len(policy.actions) if isinstance(policy, _InOrder) else MAX_TURNS
        episode = self.begin(ref, env)
        while not episode.ended and not episode.error and len(episode.actions) < turns:
            text = policy(env, episode)
            if text is None:
                break
            self.step(env, episode, text)
            if until is not None and until(episode):
                break
        return episode

    def begin(self, ref: TaskRef, env: gym.Env[Any, Any]) -> ValidationEpisode:
        """The episode after ``reset``."""
        self._before(Replay(ref.seed, dict(ref.options)))
        self.episodes += 1
        try:
            result = env.reset(seed=ref.seed, options=dict(ref.options) or None)
        except OutOfTime:
            raise
        except self.raised as error:
            raise ApiFault(f"reset raised {described(error)} at {ref}") from error
        finally:
            self._after()
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
            raise ApiFault(f"reset gives an observation and an info, not {type(result).__name__} {str(result)[:80]!r}")
        episode = ValidationEpisode(ref, result[1])
        self._observe(episode, result[0])
        return episode

    def step(self, env: gym.Env[Any, Any], episode: ValidationEpisode, text: str) -> None:
        """Play one action; the episode is changed."""
        action = self.action_of(text)
        episode.actions.append(text)
        self._before(episode.replay)
        self.steps += 1
        began = now()
        try:
            result = env.step(action)
        except OutOfTime:
            raise
        except self.raised as error:
            episode.error = described(error)
            return
        finally:
            self._after()
        episode.slowest = max(episode.slowest, now() - began)
        if not isinstance(result, tuple) or len(result) != 5:
            raise ApiFault(f"step gives five values, not {type(result).__name__} {str(result)[:80]!r}")
        observation, reward, terminated, truncated, info = result
        try:
            episode.rewards.append(float(reward))
        except (TypeError, ValueError):
            raise ApiFault(f"a reward is a number, not {type(reward).__name__} {str(reward)[:80]!r}") from None
        episode.terminated, episode.truncated = bool(terminated), bool(truncated)
        if not isinstance(info, Mapping):
            raise ApiFault(f"info is a mapping, not {type(info).__name__} {str(info)[:80]!r}")
        episode.infos.append(info)
        self._observe(episode, observation)

    def fresh(self, ref: TaskRef, policy: Policy, **limits: Any) -> ValidationEpisode:
        """As `play`, on a new environment."""
        with self.new() as env:
            return self.play(ref, policy, env=env, **limits)

    @contextmanager
    def new(self) -> Iterator[gym.Env[Any, Any]]:
        """A new environment, closed afterwards.

        Raises:
            ApiFault: none can be made beside the one that there is.
        """
        try:
            env = self.make()
        except OutOfTime:
            raise
        except self.raised as error:
            raise ApiFault(f"a second environment beside the first cannot be made: {described(error)}") from error
        try:
            yield env
        finally:
            closed(env)

    def close(self) -> None:
        """Close the environment that most episodes are played on."""
        closed(self.env)

    def action_of(self, text: str) -> Any:
        """The action that a text names."""
        if self.texts:
            if self.max_length is not None and len(text) > self.max_length:
                raise NotApplicable(f"actions have at most {self.max_length} characters")
            return text
        space = self.space
        try:
            action = json.loads(text)
            if isinstance(space, gym.spaces.Discrete):
                valid = isinstance(action, int) and space.start <= action < space.start + space.n
            else:
                action = np.asarray(action, getattr(space, "dtype", None))
                valid = bool(space.contains(action))
        except (ValueError, TypeError, OverflowError, RecursionError):
            valid = False
        if not valid:
            raise NotApplicable(f"{text[:40]!r} names no action of {space}")
        return action

    def sampled(self, env: gym.Env[Any, Any], episode: ValidationEpisode, rng: np.random.Generator) -> str:
        """A random action: a legal one where the environment lists them, else one of its action space."""
        if legal := legal_actions(episode):
            return str(legal[rng.integers(len(legal))])
        if self.text_env is not None:
            import random

            bare = env.unwrapped
            assert isinstance(bare, TextEnv)
            return bare.sample_action(random.Random(int(rng.integers(1 << 32))))
        if self.texts:
            words = words_of(episode.observations[-1]) or ["0"]
            return str(words[rng.integers(len(words))])
        self.space.seed(int(rng.integers(1 << 31)))
        return json.dumps(np.asarray(self.space.sample()).tolist())

    # the expert

    def expert(self, env: gym.Env[Any, Any]) -> Policy | None:
        """The policy of the environment's own expert; None where it has none.

        An attribute of the environment or its task: ``solve``, or ``oracle``, ``expert``, ``solution``, ``gold``; a
        text, a list of texts, or a function of nothing, the observation, or the observation and the info.
        """
        if self.text_env is not None:
            return lambda env, episode: env.unwrapped.solve()  # type: ignore[attr-defined]
        for name in EXPERTS:
            knows = getattr(env.unwrapped, name, None)
            if callable(knows) or isinstance(knows, (str, list, tuple)):
                return _asked_expert(name)
        return None

    # inside

    def _before(self, replay: Replay) -> None:
        limit = self.check_deadline
        if limit is not None and now() > limit:
            raise OutOfTime
        if self.watch is not None:
            self.watch(replay)

    def _after(self) -> None:
        if self.watch is not None:
            self.watch(None)

    def _observe(self, episode: ValidationEpisode, observation: Any) -> None:
        arrays = list(array_bytes(observation))
        episode.images.append(arrays[0] if len(arrays) == 1 else b"".join(arrays))  # a copy of an image takes its time
        episode.observations.append(observation_text(observation))


def described(error: BaseException) -> str:
    """An exception in one line, with its type."""
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
    except Exception:
        return type(error).__name__


def closed(env: gym.Env[Any, Any]) -> None:
    """Close an environment; what its ``close`` raises is no matter of a check's."""
    try:
        env.close()
    except Exception:
        return


def observation_text(observation: Any) -> str:
    """An observation as the policy reads it: a text, a text of a mapping, messages, or numbers as they are written."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        texts = [observation[key] for key in TEXT_KEYS if isinstance(observation.get(key), str)]
        if texts:
            return "\n".join(texts)
        if isinstance(observation.get("messages"), Sequence):
            return observation_text(observation["messages"])
    if isinstance(observation, Sequence) and observation and all(isinstance(each, Mapping) for each in observation):
        return "\n".join(str(each.get("content", each)) for each in observation)
    return str(_plain(observation))[:LONG]


def _plain(observation: Any) -> Any:
    """An observation with lists in the places of arrays: numpy writes a long array with dots in its middle."""
    if isinstance(observation, (np.ndarray, np.generic)):
        return observation.tolist()
    if isinstance(observation, Mapping):
        return {key: _plain(value) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(map(_plain, observation))
    return observation


def array_bytes(observation: Any) -> Iterator[bytes]:
    """The bytes of all arrays in an observation, images among them: a text of them is cut."""
    if isinstance(observation, np.ndarray):
        yield str(observation.tolist()).encode() if observation.dtype.hasobject else observation.tobytes()
    elif isinstance(observation, Mapping):
        for value in observation.values():
            yield from array_bytes(value)
    elif isinstance(observation, (list, tuple)):
        for value in observation:
            yield from array_bytes(value)


def legal_actions(episode: ValidationEpisode) -> list[str]:
    """The legal moves that the last info lists; none where it lists none."""
    info = episode.last or episode.first_info
    for key in ("legal_actions", "legal_moves", "available_actions", "valid_actions", "admissible_commands"):
        moves = info.get(key)
        if isinstance(moves, Iterable) and not isinstance(moves, (str, Mapping)):
            return [move if isinstance(move, str) else json.dumps(move, default=str) for move in moves]
    mask = info.get("action_mask")
    if mask is not None and not isinstance(mask, (str, Mapping)):
        return [str(index) for index, allowed in enumerate(mask) if allowed]
    return []


def words_of(text: str) -> list[str]:
    """The words of a text, each once, without punctuation around them."""
    return list(dict.fromkeys(word.strip(".,;:!?\"'`()[]{}<>") for word in text.split() if any(map(str.isalnum, word))))


def _asked_expert(name: str) -> Policy:
    """The policy that asks an attribute; a plan is asked for once, as a later one may begin where the episode is."""
    planned: tuple[ValidationEpisode | None, Sequence[Any]] = None, ()

    def policy(env: gym.Env[Any, Any], episode: ValidationEpisode) -> str | None:
        nonlocal planned
        turn = len(episode.actions)
        knows = planned[1] if planned[0] is episode else _known(env, episode, name)
        if not isinstance(knows, (list, tuple)):
            return knows if isinstance(knows, str) or knows is None else str(knows)
        planned = episode, knows
        return str(knows[turn]) if turn < len(knows) else None

    return policy


def _known(env: gym.Env[Any, Any], episode: ValidationEpisode, name: str) -> Any:
    knows = getattr(env.unwrapped, name)
    if callable(knows):
        needed = [each for each in inspect.signature(knows).parameters.values() if each.default is each.empty]
        given = (episode.observations[-1], episode.last or episode.first_info)[: len(needed)]
        knows = knows(*given)
    return knows
