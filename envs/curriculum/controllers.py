"""Who decides what is asked next: a level controller, easy to hard, by 1 - success rate, or by signal per cost.

All have one face, for any trainer::

    key = controller.draw()                # a level, or whatever names a prompt
    controller.record(key, [1, 0, 0, 1])   # the outcomes of the episodes on it, each in [0, 1]
    state = controller.state_dict()        # plain JSON, for the checkpoint

A draw is a function of the seed, of how many draws there were, and of what was recorded: a run that goes on from its
checkpoint draws what it would have drawn. Record valid outcomes only; a fault of ours says nothing about difficulty.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from rlvr.envs.core.seeding import stream
from rlvr.envs.curriculum.rates import PassRates, Retirement, from_json, outcomes_in


class LevelController:
    """Draws levels so that the policy succeeds in a given share of its episodes.

    The difficulty is a number between 1 and the highest level; a draw is the level below or above it, by chance, so
    that their mean is the difficulty. Each group of outcomes moves it by ``gain * (success rate - target)``: up when
    there is too much success, down when there is too little (Robbins and Monro, 1951; weighted staircases of
    psychophysics). As the gain does not fall, it follows a policy that learns.

    Args:
        levels: how many levels there are; they count from 1.
        target: success rate to hold. At 0.5 the variance of a reward of 0 or 1 is largest.
        gain: levels to move when a group is off its target by 1.
        start: difficulty to begin at.
        rehearsal: share of draws that are any level up to the difficulty, so that easy ones are not forgotten.
        seed: of the draws.
    """

    def __init__(
        self,
        levels: int,
        *,
        target: float = 0.5,
        gain: float = 0.1,
        start: float = 1.0,
        rehearsal: float = 0.1,
        seed: int = 0,
    ) -> None:
        _check(levels=levels, rehearsal=rehearsal)
        if not 0 < target < 1:
            raise ValueError(f"target must be in (0, 1), got {target!r}")
        if not (gain > 0 and math.isfinite(gain)):
            raise ValueError(f"gain must be a positive number, got {gain!r}")
        if not 1 <= start <= levels:
            raise ValueError(f"start must be a level from 1 to {levels}, got {start!r}")
        self.levels, self.target, self.gain = levels, target, gain
        self.rehearsal, self.seed = rehearsal, seed
        self.difficulty = float(start)
        self.draws = 0

    def draw(self) -> int:
        """The level of the next task."""
        rng = stream("level", self.seed, self.draws)
        self.draws += 1
        floor = int(self.difficulty)
        if rng.random() < self.rehearsal:
            return rng.randint(1, floor)
        return floor + (rng.random() < self.difficulty - floor)

    def record(self, key: int, outcomes: Iterable[float]) -> None:
        """Outcomes of one group at a level; a whole level away or further, they say nothing of the difficulty."""
        outcomes = outcomes_in(outcomes)
        if not outcomes or abs(key - self.difficulty) >= 1:
            return
        moved = self.difficulty + self.gain * (sum(outcomes) / len(outcomes) - self.target)
        self.difficulty = min(float(self.levels), max(1.0, moved))

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as plain JSON."""
        return {"difficulty": self.difficulty, "draws": self.draws}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.difficulty, self.draws = float(state["difficulty"]), int(state["draws"])


class EasyToHard:
    """Level 1 first, and the next one after every ``stage`` draws; the highest stays.

    Args:
        levels: how many levels there are; they count from 1.
        stage: draws at each level.
        rehearsal: share of draws that are any level up to the present one.
        seed: of these.
    """

    def __init__(self, levels: int, *, stage: int, rehearsal: float = 0.0, seed: int = 0) -> None:
        _check(levels=levels, rehearsal=rehearsal)
        if stage < 1:
            raise ValueError(f"stage must be at least 1, got {stage!r}")
        self.levels, self.stage, self.rehearsal, self.seed = levels, stage, rehearsal, seed
        self.draws = 0

    @property
    def difficulty(self) -> int:
        """The present level."""
        return min(self.levels, 1 + self.draws // self.stage)

    def draw(self) -> int:
        """The level of the next task."""
        level, rng = self.difficulty, stream("easy to hard", self.seed, self.draws)
        self.draws += 1
        return rng.randint(1, level) if rng.random() < self.rehearsal else level

    def record(self, key: int, outcomes: Iterable[float]) -> None:
        """Nothing: the order does not depend on success."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as plain JSON."""
        return {"draws": self.draws}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.draws = int(state["draws"])


class RateSampler:
    """Draws prompts, levels or environments in proportion to 1 - success rate (Kimi k1.5, arXiv 2501.12599).

    Args:
        keys: what there is to draw: texts, numbers, or tuples of these.
        weights: of each key, by which its proportion is multiplied; 1 where one is missing.
        floor: 1 - success rate counts as at least so much, so that nothing is forgotten.
        retire_at: success rate from which a key is never drawn again; None retires nothing.
        min_episodes: outcomes a key must have before it is retired.
        decay: what earlier outcomes of a key are multiplied by when it is recorded again.
        seed: of the draws.

    Raises:
        LookupError: by ``draw``, when every key is retired.
    """

    def __init__(
        self,
        keys: Iterable[Hashable],
        *,
        weights: Mapping[Hashable, float] | None = None,
        floor: float = 0.05,
        retire_at: float | None = None,
        min_episodes: int = 1,
        decay: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.keys = tuple(dict.fromkeys(keys))
        weights_by_index = dict(weights or {})
        self._known = frozenset(self.keys)
        if unknown := [key for key in weights_by_index if key not in self._known]:
            raise ValueError(f"there are weights for {unknown}, which are no keys")
        if not self.keys or any(not (weight > 0 and math.isfinite(weight)) for weight in weights_by_index.values()):
            raise ValueError("a sampler needs at least one key, and positive weights")
        if not 0 < floor <= 1 or not 0 < decay <= 1:
            raise ValueError(f"floor and decay must be in (0, 1], got {floor!r} and {decay!r}")
        self.weights = [weights_by_index.get(key, 1.0) for key in self.keys] if weights_by_index else None
        self.floor, self.seed = floor, seed
        self.rates = PassRates(decay=decay)
        self.retirement = None if retire_at is None else Retirement(retire_at, min_episodes)
        self.draws = 0

    @property
    def open(self) -> Sequence[Hashable]:
        """The keys that are not retired."""
        if not self.retirement:
            return self.keys
        return [key for key in self.keys if key not in self.retirement]

    def draw(self) -> Any:
        """The key of the next task."""
        keys = self.open
        if not keys:
            raise LookupError(f"all {len(self.keys)} keys are retired: there is nothing left to draw")
        shares = self._shares(keys)
        if self.weights is not None:
            prior = dict(zip(self.keys, self.weights, strict=True))
            shares = [share * prior[key] for share, key in zip(shares, keys, strict=True)]
        rng: random.Random = stream("curriculum", self.seed, self.draws)
        self.draws += 1
        return rng.choices(keys, shares)[0]

    def _shares(self, keys: Sequence[Hashable]) -> list[float]:
        """What each key is drawn in proportion to."""
        return self.rates.weights(keys, floor=self.floor)

    def record(self, key: Hashable, outcomes: Iterable[float]) -> None:
        """Count the outcomes of one key, each from 0 to 1."""
        if key not in self._known:
            raise ValueError(f"{key!r} is not one of the {len(self.keys)} keys")
        self.rates.record(key, outcomes)
        if self.retirement is not None:
            self.retirement.look(key, self.rates)

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as plain JSON."""
        retired = self.retirement.state_dict() if self.retirement is not None else {"retired": []}
        return {"draws": self.draws, "rates": self.rates.state(), **retired}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.draws = int(state["draws"])
        self.rates = PassRates.restore(state["rates"], self.rates.decay)
        if self.retirement is not None:
            self.retirement.load_state_dict(state)


class SignalSampler(RateSampler):
    """Draws in proportion to the chance that a group holds both outcomes, per token that it costs (OpenEnv's RFC 013).

    ``w = (1 - p^G - (1 - p)^G + floor) / cost``, with p drawn for each key from Beta(1 + solved, 1 + failed), so that a
    key that was seldom asked is tried (Thompson sampling). A key without a cost takes the mean of the others.

    Args:
        keys, weights, floor, retire_at, min_episodes, decay, seed: as of `RateSampler`.
        group: G, the episodes of a group.
    """

    def __init__(self, keys: Iterable[Hashable], *, group: int, decay: float = 0.9, **settings: Any) -> None:
        super().__init__(keys, decay=decay, **settings)
        if isinstance(group, bool) or not isinstance(group, int) or group < 1:
            raise ValueError(f"group must be a whole number from 1, got {group!r}")
        self.group = group
        self.spent: dict[Hashable, float] = {}

    def record(self, key: Hashable, outcomes: Iterable[float], cost: float = 1.0) -> None:
        """Count the outcomes of one key; ``cost`` is the mean of its episodes, in tokens say."""
        if not (cost > 0 and math.isfinite(cost)):
            raise ValueError(f"a cost must be a positive number, got {cost!r}")
        outcomes = outcomes_in(outcomes)
        super().record(key, outcomes)
        if outcomes:
            self.spent[key] = self.rates.decay * self.spent.get(key, 0.0) + cost * len(outcomes)

    def _shares(self, keys: Sequence[Hashable]) -> list[float]:
        rng: random.Random = stream("signal", self.seed, self.draws)
        costs = {key: spent / self.rates.seen[key] for key, spent in self.spent.items()}
        unknown = sum(costs.values()) / len(costs) if costs else 1.0
        shares = []
        for key in keys:
            solved, asked = self.rates.solved.get(key, 0.0), self.rates.seen.get(key, 0.0)
            p = rng.betavariate(1 + solved, 1 + asked - solved)
            # w = (1 - p^G - (1 - p)^G + eps) / cost     P(both outcomes in G episodes), OpenEnv RFC 013
            signal = 1 - p**self.group - (1 - p) ** self.group
            shares.append((signal + self.floor) / costs.get(key, unknown))
        return shares

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as plain JSON."""
        return {**super().state_dict(), "spent": [[key, spent] for key, spent in self.spent.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        super().load_state_dict(state)
        self.spent = {from_json(key): spent for key, spent in state["spent"]}


def _check(levels: int, rehearsal: float) -> None:
    if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
        raise ValueError(f"levels must be a whole number from 1, got {levels!r}")
    if not 0 <= rehearsal <= 1:
        raise ValueError(f"rehearsal must be in [0, 1], got {rehearsal!r}")
