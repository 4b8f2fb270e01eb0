"""How often each prompt was solved, and what follows: which to ask more, which to ask no more, which to keep at all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PassRates:
    """How often each prompt was solved: for curricula, difficulty filters and no-positive-resampling. Plain state.

    `seen` and `solved` map a prompt's id to counts; `restore`d runs get them back from `state()`. With a `decay` below
    1 older outcomes count less: each record of a prompt multiplies its earlier counts by it.
    """

    seen: dict[Hashable, float] = field(default_factory=dict)
    solved: dict[Hashable, float] = field(default_factory=dict)
    decay: float = 1.0

    def record(self, prompt: Hashable, rewards: Iterable[float]) -> None:
        """Add the outcomes of one group, each in [0, 1] (a pass rate counts successes)."""
        rewards = outcomes_in(rewards)
        if not rewards:
            return
        self.seen[prompt] = self.decay * self.seen.get(prompt, 0) + len(rewards)
        self.solved[prompt] = self.decay * self.solved.get(prompt, 0.0) + sum(rewards)

    def rate(self, prompt: Hashable, unseen: float = 0.0) -> float:
        """Share of successes so far; `unseen` for a prompt that was never asked."""
        return self.solved[prompt] / self.seen[prompt] if self.seen.get(prompt) else unseen

    def retired(self, prompt: Hashable, threshold: float = 0.9) -> bool:
        """Whether a prompt is solved often enough to leave the pool (ScaleRL, 2510.13786); see `Retirement`."""
        return bool(self.seen.get(prompt)) and self.rate(prompt) >= threshold

    def weights(self, prompts: Sequence[Hashable], floor: float = 0.0) -> list[float]:
        """Curriculum (Kimi k1.5, 2501.12599): proportional to 1 - success rate, at least `floor`; sums to 1."""
        raw = [max(1 - self.rate(prompt), floor) for prompt in prompts]
        total = sum(raw)
        return [w / total for w in raw] if total > 0 else [1 / len(raw)] * len(raw)

    def between(self, prompts: Iterable[Hashable], low: float = 0.0, high: float = 1.0) -> list[Hashable]:
        """Difficulty filter: prompts whose rate lies strictly between low and high (the model's own best-of-n)."""
        return [prompt for prompt in prompts if low < self.rate(prompt) < high]

    def state(self) -> dict[str, list[Any]]:
        """For a checkpoint: [[prompt, seen, solved], ...]."""
        return {"prompts": [[prompt, n, self.solved[prompt]] for prompt, n in self.seen.items()]}

    @classmethod
    def restore(cls, state: Mapping[str, Any], decay: float = 1.0) -> PassRates:
        """The rates that ``state_dict`` wrote."""
        rows = [(from_json(prompt), n, s) for prompt, n, s in state["prompts"]]
        return cls({p: n for p, n, _ in rows}, {p: s for p, _, s in rows}, decay)


class Retirement:
    """Prompts that leave the pool for good once they are nearly always solved (ScaleRL, arXiv 2510.13786).

    Args:
        at: pass rate from which a prompt is retired.
        min_episodes: how many outcomes it must have for that.
    """

    def __init__(self, at: float = 0.9, min_episodes: int = 1) -> None:
        if not 0 < at <= 1:
            raise ValueError(f"the pass rate to retire at must be in (0, 1], got {at!r}")
        if min_episodes < 1:
            raise ValueError(f"min_episodes must be at least 1, got {min_episodes!r}")
        self.at, self.min_episodes = at, min_episodes
        self._gone: dict[Hashable, None] = {}  # in the order they went

    def look(self, prompt: Hashable, rates: PassRates) -> None:
        """Retire the prompt if its rate says so; it stays so, whatever is recorded later."""
        if rates.seen.get(prompt, 0) >= self.min_episodes and rates.retired(prompt, self.at):
            self._gone[prompt] = None

    def __contains__(self, prompt: Hashable) -> bool:
        return prompt in self._gone

    def __len__(self) -> int:
        return len(self._gone)

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as plain JSON."""
        return {"retired": list(self._gone)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self._gone = dict.fromkeys(from_json(prompt) for prompt in state["retired"])


def difficulty_filter(
    attempts: Mapping[Hashable, Iterable[float]], *, low: float = 0.0, high: float = 1.0
) -> list[Hashable]:
    """Best-of-n difficulty filter: the prompts that some, and not all, of n attempts solve.

    Args:
        attempts: outcomes in [0, 1] of the model's own attempts at each prompt.
        low, high: the share of successes must lie strictly between them.

    Raises:
        ValueError: the bounds are out of order, an outcome is out of range, or a prompt has no attempt.
    """
    if not 0 <= low < high <= 1:
        raise ValueError(f"0 <= low < high <= 1 must hold, got {low} and {high}")
    rates = PassRates()
    for prompt, outcomes in attempts.items():
        rates.record(prompt, outcomes)
        if prompt not in rates.seen:
            raise ValueError(f"there is no attempt at {prompt!r}")
    return rates.between(attempts, low, high)


def easy_to_hard(difficulty: Mapping[Hashable, float]) -> list[Hashable]:
    """Prompts by rising difficulty (such as 1 - pass rate); equal ones stay in their order.

    Raises:
        ValueError: a difficulty is no number.
    """
    for prompt, value in difficulty.items():
        if value != value:
            raise ValueError(f"the difficulty of {prompt!r} is no number")
    return sorted(difficulty, key=difficulty.__getitem__)


def outcomes_in(rewards: Iterable[float]) -> list[float]:
    """The outcomes as numbers.

    Raises:
        ValueError: one is not in [0, 1].
    """
    rewards = [float(reward) for reward in rewards]
    if any(not 0 <= reward <= 1 for reward in rewards):
        raise ValueError(f"outcomes must lie in [0, 1], not {rewards}: count successes, not shaped rewards")
    return rewards


def from_json(prompt: Any) -> Any:
    """JSON has no tuples."""
    return tuple(map(from_json, prompt)) if isinstance(prompt, list) else prompt
