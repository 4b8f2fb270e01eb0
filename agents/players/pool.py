"""A pool of earlier policies to play against, and the rule that draws one of them for a match.

latest           the newest
uniform          each with the same probability
pfsp             p(i) ~ (1 - x_i)^2, with x_i the share that the policy wins against i: what still beats it is met most.
                 Prioritised fictitious self-play of AlphaStar, doi 10.1038/s41586-019-1724-z
pfsp_variance    p(i) ~ x_i (1 - x_i), of the same paper: opponents of like strength are met most

A draw counts half. x_i is a mean in which each match weighs 0.99 times the one after it, as the policy changes; it is
1/2 before the first match. Where all weights are 0, each has the same probability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rlvr.envs.core.seeding import stream

DECAY: Final = 0.99  # of a match's weight, with each later one against the same opponent
WEIGHTS: Final[Mapping[str, Callable[[float], float]]] = {
    "uniform": lambda won: 1.0,
    "pfsp": lambda won: (1 - won) ** 2,
    "pfsp_variance": lambda won: won * (1 - won),
}
RULES: Final = ("latest", *WEIGHTS)


@dataclass(slots=True)
class PoolRecord:
    """The matches of the policy against one member: their number, and decayed sums of scores and of matches."""

    matches: int = 0
    score: float = 0.0
    weight: float = 0.0

    @property
    def won(self) -> float:
        """The policy's share of the points, 1/2 before the first match."""
        return self.score / self.weight if self.weight else 0.5

    def add(self, score: float) -> None:
        """A match in which the policy had ``score`` of the one point."""
        self.matches += 1
        self.score = DECAY * self.score + score
        self.weight = DECAY * self.weight + 1.0


class OpponentPool:
    """Members by the step at which they were taken, oldest first.

    Args:
        rule: how a member is drawn, one of `RULES`.
        keep: members to keep; the oldest leaves.
        seed: of the draws.

    Raises:
        ValueError: an unknown rule, or fewer than one to keep.
    """

    def __init__(self, rule: str, keep: int, seed: int = 0) -> None:
        if rule not in RULES:
            raise ValueError(f"there is no rule {rule!r} for a pool; there are {', '.join(RULES)}")
        if keep < 1:
            raise ValueError(f"a pool keeps at least one policy, not {keep}")
        self.rule, self.keep, self.seed = rule, keep, seed
        self.records: dict[int, PoolRecord] = {}

    def add(self, step: int) -> list[int]:
        """Take the policy of a step in; the steps of those that leave."""
        self.records[step] = PoolRecord()
        gone = sorted(self.records)[: -self.keep]
        for old in gone:
            del self.records[old]
        return gone

    def probabilities(self) -> dict[int, float]:
        """Of each member, by its step; empty without members."""
        if self.rule == "latest":
            return {step: float(step == max(self.records)) for step in self.records}
        weights = {step: WEIGHTS[self.rule](record.won) for step, record in self.records.items()}
        total = sum(weights.values())
        if not total:
            return dict.fromkeys(weights, 1 / len(weights)) if weights else {}
        return {step: weight / total for step, weight in weights.items()}

    def draw(self, *key: object) -> int | None:
        """A member for a match, the same for equal keys and records; None without members."""
        chances = self.probabilities()
        if not chances:
            return None
        rng = stream("pool", self.seed, *map(str, key))
        return rng.choices([*chances], [*chances.values()])[0]

    def add_result(self, step: int, score: float) -> None:
        """A match against a member, which may have left since."""
        if step in self.records:
            self.records[step].add(score)

    def figures(self) -> dict[str, dict[str, float]]:
        """For each member its matches, the policy's share of the points, and the probability of being drawn."""
        chances = self.probabilities()
        return {
            f"step {step}": {"matches": record.matches, "won": record.won, "probability": chances[step]}
            for step, record in self.records.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """The records, plain."""
        return {str(step): [each.matches, each.score, each.weight] for step, each in self.records.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with these records."""
        self.records = {int(step): PoolRecord(*values) for step, values in state.items()}
