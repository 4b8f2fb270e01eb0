"""Two evaluations of the same tasks, side by side: the difference, how sure it is, and which tasks changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.same_tasks import digest_notes
from rlvr.agents.evaluation.statistics import mean_interval, success_difference_interval
from rlvr.agents.evaluation.summary import TaskKey, samples_by_task


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A, task by task.

    Attributes:
        tasks: how many tasks have a valid episode in both; the rest enters nothing.
        only_a, only_b: tasks with a valid episode in one alone.
        success_a, success_b, reward_a, reward_b: means over the shared tasks of the means over their samples.
        success: the mean difference, B less A; ``success_interval`` bounds it (95 %, paired by task).
        reward, reward_interval: the same of the returns; without ends where all differences are equal, as nothing is
            known of the returns that were not seen.
        notes: what keeps the two from being compared, a sentence each, see `digest_notes`.
        gained, lost: the tasks that B solves more often than A, and less often.
        environments: the same of each environment by its id, where there are several.
        success_all_a, success_all_b: the success over all episodes of each, an invalid one as a failure.
        invalid_a, invalid_b: the share of all episodes of each that are invalid.
    """

    tasks: int
    only_a: int
    only_b: int
    success_a: float
    success_b: float
    reward_a: float
    reward_b: float
    success_interval: tuple[float, float]
    reward_interval: tuple[float, float]
    gained: tuple[TaskKey, ...]
    lost: tuple[TaskKey, ...]
    notes: tuple[str, ...]
    success_all_a: float
    success_all_b: float
    invalid_a: float
    invalid_b: float
    environments: Mapping[str, Comparison] = field(default_factory=dict)

    @property
    def success(self) -> float:
        """The mean difference of the success."""
        return self.success_b - self.success_a

    @property
    def reward(self) -> float:
        """The mean difference of the return."""
        return self.reward_b - self.reward_a

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; the ends of an interval that is not known are null."""
        record: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("success_interval", "reward_interval"):
            record[name] = [end if math.isfinite(end) else None for end in record[name]]
        record["notes"] = list(self.notes)
        record["environments"] = {env_id: each.to_dict() for env_id, each in self.environments.items()}
        for name in ("gained", "lost"):
            record[name] = [asdict(task) for task in record[name]]
        return record | {"success": self.success, "reward": self.reward}

    def __str__(self) -> str:
        return (
            f"{self.tasks} tasks in both ({self.only_a} in A alone, {self.only_b} in B alone)\n"
            f"success A {self.success_a:.3f}   B {self.success_b:.3f}   B - A {self.success:+.3f} "
            f"({_interval(self.success_interval)})\n"
            f"reward  A {self.reward_a:.3f}   B {self.reward_b:.3f}   B - A {self.reward:+.3f} "
            f"({_interval(self.reward_interval)})\n"
            f"over all episodes, the invalid ones as failures: success A {self.success_all_a:.3f} "
            f"({self.invalid_a:.1%} invalid)   B {self.success_all_b:.3f} ({self.invalid_b:.1%} invalid)\n"
            f"B solves {len(self.gained)} tasks more often, {len(self.lost)} less often"
            + "".join(f"\n{env_id}: {each._line()}" for env_id, each in self.environments.items())
        )

    def _line(self) -> str:
        """The comparison of one environment, in one line."""
        return (
            f"{self.tasks} tasks   A {self.success_a:.3f}   B {self.success_b:.3f}   B - A {self.success:+.3f} "
            f"({_interval(self.success_interval)})   gained {len(self.gained)}, lost {len(self.lost)}"
        )


def compare(a: Sequence[Episode], b: Sequence[Episode]) -> Comparison:
    """Set B against A, paired by task: what the tasks have in common does not widen the interval.

    Episodes with invalid verdicts enter ``success_all_a`` and ``success_all_b`` alone.

    Raises:
        ValueError: no task has a valid episode in both.
    """
    whole = _compared(a, b)
    env_ids = dict.fromkeys(episode.env_id for episode in (*a, *b))
    if len(env_ids) < 2:
        return whole
    each = {}
    for env_id in env_ids:
        with suppress(ValueError):  # no task of this environment is in both
            each[env_id] = _compared([e for e in a if e.env_id == env_id], [e for e in b if e.env_id == env_id])
    return replace(whole, environments=each)


def _compared(a: Sequence[Episode], b: Sequence[Episode]) -> Comparison:
    over_all = [sum(e.success for e in episodes) / max(1, len(episodes)) for episodes in (a, b)]
    invalid = [sum(not e.valid for e in episodes) / max(1, len(episodes)) for episodes in (a, b)]
    groups_a, groups_b = (samples_by_task(e for e in episodes if e.valid) for episodes in (a, b))
    shared = [task for task in groups_a if task in groups_b]
    if not shared:
        raise ValueError("the two have no task in common with a valid episode in both")
    success_a, success_b = ([_success(groups[task]) for task in shared] for groups in (groups_a, groups_b))
    reward_a, reward_b = ([_reward(groups[task]) for task in shared] for groups in (groups_a, groups_b))
    difference = [after - before for before, after in zip(success_a, success_b, strict=True)]
    return Comparison(
        tasks=len(shared),
        only_a=len(groups_a) - len(shared),
        only_b=len(groups_b) - len(shared),
        success_a=math.fsum(success_a) / len(shared),
        success_b=math.fsum(success_b) / len(shared),
        reward_a=math.fsum(reward_a) / len(shared),
        reward_b=math.fsum(reward_b) / len(shared),
        success_interval=success_difference_interval(difference),
        reward_interval=_reward_interval([after - before for before, after in zip(reward_a, reward_b, strict=True)]),
        gained=tuple(task for task, change in zip(shared, difference, strict=True) if change > 0),
        notes=tuple(digest_notes([("A", a), ("B", b)])),
        lost=tuple(task for task, change in zip(shared, difference, strict=True) if change < 0),
        success_all_a=over_all[0],
        success_all_b=over_all[1],
        invalid_a=invalid[0],
        invalid_b=invalid[1],
    )


def _success(samples: Sequence[Episode]) -> float:
    return sum(episode.success for episode in samples) / len(samples)


def _reward(samples: Sequence[Episode]) -> float:
    return math.fsum(episode.reward for episode in samples) / len(samples)


def _reward_interval(differences: Sequence[float]) -> tuple[float, float]:
    return mean_interval(differences) if min(differences) < max(differences) else (-math.inf, math.inf)


def _interval(ends: tuple[float, float]) -> str:
    text = f"95 % {ends[0]:+.3f} to {ends[1]:+.3f}"
    return text if math.isfinite(ends[0]) else "no interval: the difference is the same on every task"
