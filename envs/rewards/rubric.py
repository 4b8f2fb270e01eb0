"""Reward algebra: graders and scores combined by weighted sum, product, gate and clip, each part named in the verdict.

    answer = Grade("number")
    shape = Grade("format", tags=("think", "answer"))
    reward = (0.9 * answer + 0.1 * shape).gate(shape).clip(0.0, 1.0)
    verdict = reward(completion, "72")

A part that is not valid (a judge that failed, a timeout of ours) makes the whole verdict invalid: it is never counted
as 0. The status of a combination is that of its first part, so accuracy stays measurable whatever is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.verdict import Verdict, is_provoked, provoked_verdict
from rlvr.envs.rewards.custom import require_options
from rlvr.envs.rewards.errors import BadOption
from rlvr.envs.rewards.grading import GraderChoice, grade, grader, grader_name


@dataclass(frozen=True, slots=True)
class Sample:
    """What a reward may look at: one completion and what is known about it."""

    completion: str
    reference: Any = None
    prompt: str = ""
    tokens: int | None = None
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


class Rubric:
    """A reward: a function from a sample to a verdict, and the operators that combine such functions."""

    def evaluate(self, sample: Sample) -> Verdict:
        """The verdict on a sample."""
        raise NotImplementedError

    def __call__(
        self,
        completion: str,
        reference: Any = None,
        *,
        prompt: str = "",
        tokens: int | None = None,
        truncated: bool = False,
        info: Mapping[str, Any] | None = None,
    ) -> Verdict:
        return self.evaluate(Sample(completion, reference, prompt, tokens, truncated, info or {}))

    def __add__(self, other: Rubric) -> Rubric:
        return Weighted(((1.0, self), (1.0, other)))

    def __mul__(self, other: Rubric | float) -> Rubric:
        return Product((self, other)) if isinstance(other, Rubric) else Weighted(((float(other), self),))

    def __rmul__(self, weight: float) -> Rubric:
        return Weighted(((float(weight), self),))

    def clip(self, low: float, high: float) -> Rubric:
        """The reward held between two bounds."""
        return Clip(self, low, high)

    def gate(self, condition: Rubric, *, threshold: float = 1.0, otherwise: float = 0.0) -> Rubric:
        """The reward where ``condition`` reaches ``threshold``, else ``otherwise``."""
        return Gate(self, condition, threshold, otherwise)


class Grade(Rubric):
    """A grader by kind, or one of your own, with its options: ``Grade("choice", letters="ABCD")``. Named after the kind
    unless named.
    """

    def __init__(self, kind: GraderChoice, *, name: str | None = None, **options: Any) -> None:
        function = grader(kind)
        require_options(function, grader_name(kind), options)
        self.kind: GraderChoice = kind if isinstance(kind, str) else function
        self.name = name or grader_name(kind)
        self.options = options

    def evaluate(self, sample: Sample) -> Verdict:
        """The grader's verdict; its own parts are listed below this part's name."""
        verdict = grade(self.kind, sample.completion, sample.reference, **self.options)
        return verdict.replace(
            parts={self.name: verdict.reward, **{f"{self.name}.{k}": v for k, v in verdict.parts.items()}}
        )


class Score(Rubric):
    """A number computed from the sample, as a reward: ``Score("length", lambda s: soft_overlong(s.tokens or 0))``.

    A function that raises or returns what is not finite gives 0 where it has a number for an empty completion, and
    ``verifier_error`` where it has none for that either.
    """

    def __init__(self, name: str, function: Callable[[Sample], float]) -> None:
        self.name = name
        self.function = function

    def evaluate(self, sample: Sample) -> Verdict:
        """The function's number; 1 or more counts as correct, above 0 as partial."""
        try:
            value = self._value(sample)
        except Exception as error:
            if is_provoked(lambda: self._value(sample), lambda: self._value(replace(sample, completion=""))):
                return provoked_verdict(f"the reward {self.name}", error)
            return Verdict(0.0, "verifier_error", reason=f"{self.name}: {type(error).__name__}: {error}"[:300])
        status = "correct" if value >= 1.0 else "partial" if value > 0.0 else "wrong"
        return Verdict(value, status, reason=f"{self.name} {value:.4g}", parts={self.name: value})  # type: ignore[arg-type]

    def _value(self, sample: Sample) -> float:
        value = float(self.function(sample))
        if not math.isfinite(value):
            raise ValueError(f"it is not finite: {value!r}")
        return value


@dataclass(frozen=True)
class Weighted(Rubric):
    """The weighted sum of parts; nested sums are flattened."""

    terms: tuple[tuple[float, Rubric], ...]

    def __post_init__(self) -> None:
        if not self.terms or not all(math.isfinite(weight) for weight, _ in self.terms):
            raise BadOption("a weighted sum needs at least one part, and finite weights")

    def __add__(self, other: Rubric) -> Rubric:
        return Weighted(self.terms + (other.terms if isinstance(other, Weighted) else ((1.0, other),)))

    def evaluate(self, sample: Sample) -> Verdict:
        """Sum of weight times reward, with the status of the first part; one invalid part makes it invalid."""
        verdicts = [part.evaluate(sample) for _, part in self.terms]
        total = sum(weight * verdict.reward for (weight, _), verdict in zip(self.terms, verdicts, strict=True))
        return _combined(total, verdicts)


@dataclass(frozen=True)
class Product(Rubric):
    """The product of parts."""

    factors: tuple[Rubric, ...]

    def evaluate(self, sample: Sample) -> Verdict:
        """Product of the rewards, all of which are evaluated, with the status of the first."""
        verdicts = [factor.evaluate(sample) for factor in self.factors]
        return _combined(math.prod(verdict.reward for verdict in verdicts), verdicts)


@dataclass(frozen=True)
class Gate(Rubric):
    """One reward where another reaches a threshold, a constant elsewhere; a closed gate does not run the first."""

    inner: Rubric
    condition: Rubric
    threshold: float = 1.0
    otherwise: float = 0.0

    def evaluate(self, sample: Sample) -> Verdict:
        """Evaluates the condition first; closed, the reward is ``otherwise`` and the inner one never runs."""
        condition = self.condition.evaluate(sample)
        if not condition.valid:
            return condition
        if condition.reward < self.threshold:
            reason = f"the gate is closed: {condition.reason}"
            return Verdict(self.otherwise, "wrong", condition.answer, reason, condition.parts)
        inner = self.inner.evaluate(sample)
        return inner.replace(parts=_merged([inner, condition]))


@dataclass(frozen=True)
class Clip(Rubric):
    """A reward held between two bounds."""

    inner: Rubric
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise BadOption(f"clip needs low <= high, got {self.low} and {self.high}")

    def evaluate(self, sample: Sample) -> Verdict:
        """min(high, max(low, reward)); an invalid verdict stays as it is."""
        verdict = self.inner.evaluate(sample)
        return verdict.replace(reward=min(self.high, max(self.low, verdict.reward))) if verdict.valid else verdict


def weighted(parts: Mapping[str, Rubric], weights: Mapping[str, float] | None = None) -> Rubric:
    """A weighted sum with the names of a table, as a configuration file gives them; a missing weight is 1.

    Raises:
        BadOption: no part, or a weight for a part that does not exist.
    """
    weight_of = dict(weights or {})
    for name in weight_of:
        if name not in parts:
            raise BadOption(f"weights name no part {name!r}{did_you_mean(name, parts)}")
    return Weighted(tuple((weight_of.get(name, 1.0), Named(name, part)) for name, part in parts.items()))


@dataclass(frozen=True)
class Named(Rubric):
    """A reward under another name; what it was made of is listed below that name."""

    name: str
    inner: Rubric

    def evaluate(self, sample: Sample) -> Verdict:
        """The inner verdict with its reward under this name and its several parts below it."""
        verdict = self.inner.evaluate(sample)
        below = {f"{self.name}.{key}": value for key, value in verdict.parts.items()} if len(verdict.parts) > 1 else {}
        return verdict.replace(parts={self.name: verdict.reward, **below})


def _combined(reward: float, verdicts: list[Verdict]) -> Verdict:
    parts = _merged(verdicts)
    for verdict in verdicts:
        if not verdict.valid:
            return verdict.replace(reward=0.0, parts=parts)
    first = verdicts[0]
    if not math.isfinite(reward):
        return Verdict(0.0, "verifier_error", first.answer, f"the combined reward is not finite: {reward!r}", parts)
    return first.replace(reward=reward, parts=parts)


def _merged(verdicts: list[Verdict]) -> dict[str, float]:
    """The parts of all verdicts; a name that comes again gets a number."""
    parts: dict[str, float] = {}
    for verdict in verdicts:
        for name, value in verdict.parts.items():
            count, unique = 1, name
            while unique in parts:
                count += 1
                unique = f"{name}#{count}"
            parts[unique] = value
    return parts
