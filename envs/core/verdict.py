"""Verdict: a reward and the reason for it. Every grader returns one, every environment reports one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from rlvr.envs.core.deprecation import warn_renamed

Status = Literal["correct", "partial", "wrong", "unparsable", "timeout", "verifier_error", "env_error"]

STATUSES: frozenset[str] = frozenset(get_args(Status))
# Faults of ours, not of the policy: masked out of training, never a silent zero.
INVALID: frozenset[str] = frozenset({"timeout", "verifier_error", "env_error"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader decided, and why.

    Attributes:
        reward: finite number; 1.0 is right and 0.0 is wrong unless the environment says otherwise.
        status: ``correct``, ``partial``, ``wrong``, ``unparsable`` judge the policy; ``timeout``,
            ``verifier_error`` and ``env_error`` are faults of ours and make the verdict invalid.
        answer: the answer as it was extracted from the text, if one was found.
        reason: one line for the person who reads the transcript.
        parts: named components of the reward.

    Raises:
        ValueError: the reward is not finite, or the status is not one of the seven.
    """

    reward: float
    status: Status
    answer: str | None = None
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is not one of {sorted(STATUSES)}")
        if not math.isfinite(self.reward):
            raise ValueError(f"a reward must be finite, got {self.reward!r}")

    @property
    def valid(self) -> bool:
        """Whether the verdict is about the policy; an invalid one must not enter the training signal."""
        return self.status not in INVALID

    @property
    def success(self) -> bool:
        """Whether the answer is right."""
        return self.status == "correct"

    def replace(self, **changes: Any) -> Verdict:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def but(self, **changes: Any) -> Verdict:
        """The old name of ``replace``."""
        warn_renamed("Verdict.but()", "Verdict.replace()")
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; ``Verdict.from_dict`` reads it back."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["parts"] = dict(self.parts)
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Verdict:
        """The verdict that ``to_dict`` wrote."""
        return cls(**record)


def correct(answer: str | None = None, reason: str = "correct", reward: float = 1.0) -> Verdict:
    return Verdict(reward, "correct", answer, reason)


def wrong(answer: str | None = None, reason: str = "wrong answer") -> Verdict:
    return Verdict(0.0, "wrong", answer, reason)


def unparsable(reason: str, answer: str | None = None) -> Verdict:
    return Verdict(0.0, "unparsable", answer, reason)
