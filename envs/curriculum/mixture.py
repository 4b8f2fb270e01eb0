"""Mixture: one environment whose tasks come from several, in given proportions.

Task ``index`` of a seed in a mixture is task ``index`` of that seed in the environment that the draw falls on: it keeps
its split, and ``info`` holds all that it takes to make it alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlvr.envs.core.code_rule import make_env
from rlvr.envs.core.seeding import SPLITS, digest_of_texts, stream
from rlvr.envs.core.task import MultipleChoice, Task, Transition
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import Verdict


class MixturePart(NamedTuple):
    """An environment of a mixture, and the level it stays at; None to follow the mixture's."""

    env: TextEnv
    level: int | None = None

    def level_at(self, level: int) -> int:
        """The part's level where the mixture has ``level``."""
        return self.level or min(level, self.env.task.levels)


class Mixed(NamedTuple):
    """Which part a task is of, and its state there."""

    part: int
    inner: Any


class Mixture(Task[Mixed]):
    """The tasks of several environments as one; each call goes to the part that the state belongs to."""

    def __init__(self, parts: Sequence[MixturePart], weights: Sequence[float]) -> None:
        self.parts, self.weights = tuple(parts), tuple(weights)
        tasks = [part.env.task for part in parts]
        self.levels = max((part.env.task.levels for part in parts if part.level is None), default=1)
        self.splits = tuple(name for name in SPLITS if all(name in task.splits for task in tasks))
        self.always_solvable = all(task.always_solvable for task in tasks)
        images = {task.image_shape for task in tasks}
        if len(images) > 1:
            raise ValueError(
                "the parts of a mixture show images of one size, or none does; these have "
                + ", ".join(f"{part.env.name}: {part.env.task.image_shape or 'none'}" for part in parts)
            )
        self.image_shape = images.pop()

    def choose(self, rng: random.Random) -> int:
        """The number of a part, in proportion to the weights."""
        return rng.choices(range(len(self.parts)), self.weights)[0]

    def start(self, rng: random.Random, level: int) -> Mixed:
        """Draws a part by weight, then a row or a task of it at the part's level."""
        number = self.choose(rng)
        task = self.parts[number].env.task
        if task.size is not None:
            return Mixed(number, task.row(rng.randrange(task.size), rng))
        return Mixed(number, task.start(rng, self.parts[number].level_at(level)))

    def turns(self, level: int) -> int:
        """The most that any part allows; a reset sets the drawn part's own limit."""
        return max(_limit(part, level) for part in self.parts)

    def env_id(self, state: Mixed) -> str:
        """The id of the environment that a task is of."""
        env = self.parts[state.part].env
        return env.spec.id if env.spec is not None else env.name

    def rows_digest(self) -> str | None:
        """Of the rows of all parts; None where each part is generated."""
        digests = [part.env.task.rows_digest() for part in self.parts]
        return None if digests == [None] * len(digests) else digest_of_texts(map(str, digests))

    def content(self, state: Mixed) -> str:
        """The part's id before its own content: equal questions of two environments are two tasks."""
        return f"{self.env_id(state)}: {self._task(state).content(state.inner)}"

    def observe(self, state: Mixed) -> str:
        return self._task(state).observe(state.inner)

    def worked_examples(self, state: Mixed) -> Sequence[tuple[str, str]]:
        return self._task(state).worked_examples(state.inner)

    def apply(self, state: Mixed, action: str) -> Transition:
        """The part's transition; the state keeps the number of the part."""
        inner, verdict, terminated, role = self._task(state).apply(state.inner, action)
        return Transition(Mixed(state.part, inner), verdict, terminated, role)

    def tool_schemas(self, state: Mixed) -> Sequence[Mapping[str, Any]] | None:
        return self._task(state).tool_schemas(state.inner)

    def image(self, state: Mixed) -> Any:
        return self._task(state).image(state.inner)

    def solve(self, state: Mixed) -> str:
        return self._task(state).solve(state.inner)

    def direct_answer(self, state: Mixed) -> str | None:
        return self._task(state).direct_answer(state.inner)

    def sample_action(self, state: Mixed, rng: random.Random) -> str | None:
        return self._task(state).sample_action(state.inner, rng)

    def choices(self, state: Mixed) -> MultipleChoice | None:
        return self._task(state).choices(state.inner)

    def form_example(self, state: Mixed) -> str | None:
        return self._task(state).form_example(state.inner)

    def out_of_turns(self, state: Mixed, turns: int) -> Verdict:
        return self._task(state).out_of_turns(state.inner, turns)

    def detached(self, state: Mixed) -> Mixed:
        return Mixed(state.part, self._task(state).detached(state.inner))

    def close(self) -> None:
        """Closes the environments of all parts."""
        for part in self.parts:
            part.env.close()

    def _task(self, state: Mixed) -> Task[Any]:
        return self.parts[state.part].env.task


class MixtureEnv(TextEnv):
    """``gym.make("rlvr/Mixture-v0", envs=["rlvr/Countdown-v0", …], weights=[…])``.

    A ``TextEnv`` in every respect: seeds, splits, restore, forks, vectors. ``info["part"]`` names the environment that
    a task is of, ``info["part_level"]`` and ``info["part_index"]`` the task there; seed and split are the same. The
    mixture's level is that of each part, or the part's highest.

    Args:
        envs: ids, or an id and what ``gym.make`` is given besides: ``{"id": "rlvr/Countdown-v0", "level": 2}``. A part
            with a level of its own stays there. A data set's rows come in an order of the seed's own.
        weights: how often each is drawn, in proportion; None draws all alike.

    Raises:
        TypeError: ``envs`` is no sequence, or one is no environment of this project.
        ValueError: there are none, the weights do not go with them, or some show images and others do not.
    """

    task: Mixture

    def __init__(
        self,
        envs: Sequence[str | Mapping[str, Any] | MixturePart] = (),
        *,
        weights: Sequence[float] | None = None,
        split: str | None = "train",
        level: int = 1,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if isinstance(envs, str | Mapping) or not isinstance(envs, Sequence):
            raise TypeError(f"envs must be a sequence of ids, got {type(envs).__name__}")
        if not envs:
            raise ValueError('a mixture needs parts: envs=["rlvr/Countdown-v0", "rlvr/GuessNumber-v0"]')
        weights = [1.0] * len(envs) if weights is None else list(weights)
        good = all(isinstance(weight, int | float) and 0 <= weight < math.inf for weight in weights)
        if len(weights) != len(envs) or not good or not sum(weights):
            raise ValueError(f"weights must be {len(envs)} numbers from 0, one for each part, got {weights}")
        mixture = Mixture([_part(env, split) for env in envs], weights)
        super().__init__(mixture, split=split, level=level, max_turns=max_turns, render_mode=render_mode)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a task of a part that is drawn by weight; ``info`` names the part, its level and its index."""
        observation, info = super().reset(seed=seed, options=options)
        part = self.task.parts[self._state.part]
        self._limit = self.max_turns or _limit(part, info["level"])
        there = {
            "part": self.task.env_id(self._state),
            "part_level": part.level_at(info["level"]),
            "part_index": self._row(part.env, info["seed"], info["index"]),
        }
        self._info = {**self._identity, **there, "turn": 0, "role": "user"}
        info |= there
        if system := part.env.task.system:
            info["system"] = system
        return observation, info

    def _draw(self, split: str | None, level: int, seed: int, index: int) -> Mixed:
        number = self.task.choose(stream("mixture", seed, index))
        part = self.task.parts[number]
        part.env._checked_options({"split": split})
        return Mixed(number, part.env._draw(split, part.level_at(level), seed, self._row(part.env, seed, index)))

    def _row(self, env: TextEnv, seed: int, index: int) -> int:
        return index if env.size is None else env._shuffled(seed, index, env.size)

    def spawn(self) -> MixtureEnv:
        """A mixture of spawned parts with the same weights, split, level and limits."""
        twin = MixtureEnv(
            [part._replace(env=part.env.spawn()) for part in self.task.parts],
            weights=self.task.weights,
            split=self.split,
            level=self.level,
            max_turns=self.max_turns,
            render_mode=self.render_mode,
        )
        twin.spec, twin._spawned = self.spec, True
        return twin


def _limit(part: MixturePart, level: int) -> int:
    return part.env.max_turns or part.env.task.turns(part.level_at(level))


def _part(part: Any, split: str | None) -> MixturePart:
    if isinstance(part, MixturePart):
        return part
    settings: dict[str, Any] = (
        {"id": part} if isinstance(part, str) else dict(part) if isinstance(part, Mapping) else {}
    )
    env_id = settings.pop("id", None)
    if not isinstance(env_id, str):
        raise TypeError(f"a part of a mixture is an id, or a table with an id in it; got {part!r}")
    if "split" in settings:
        raise ValueError("the split is the mixture's: give it there")
    env = make_env(env_id, split=split, **settings).unwrapped
    if type(env) is not TextEnv:
        raise TypeError(f"a part of a mixture is an environment with a task of its own, and {env_id} is none")
    return MixturePart(env, env.level if "level" in settings else None)
