"""Verdict: a reward and the reason for it. Every grader returns one, every environment reports one."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeVar, get_args

from rlvr.envs.core.hints import require_known

Status = Literal["correct", "partial", "wrong", "unparsable", "timeout", "verifier_error", "env_error"]

STATUSES: frozenset[str] = frozenset(get_args(Status))
# Faults of ours, not of the policy: masked out of training, never a silent zero.
MAX_REASON = 500  # characters of what a foreign exception says
INVALID: frozenset[str] = frozenset({"timeout", "verifier_error", "env_error"})
# The part of a last verdict that says what the episode was worth, 1 for right and 0 for worthless, where the reward
# may pay something else: it tells episodes that were paid and not right.
TRUE_REWARD: Final = "true_reward"


@dataclass(frozen=True, slots=True, init=False)
class Verdict:
    """What a grader decided, and why.

    Attributes:
        reward: finite number; 1.0 is right and 0.0 is wrong unless the environment says otherwise.
        status: ``correct``, ``partial``, ``wrong``, ``unparsable`` judge the policy; ``timeout``,
            ``verifier_error`` and ``env_error`` are faults of ours and make the verdict invalid.
        answer: the answer as it was extracted from the text, if one was found.
        reason: one line for the person who reads the transcript.
        parts: named components of the reward; of a last verdict also ``true_reward``, what the episode was worth.

    Raises:
        ValueError: the reward is not finite, or the status is not one of the seven.
    """

    reward: float
    status: Status
    answer: str | None = None
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    def __init__(
        self,
        reward: float,
        status: Status,
        answer: str | None = None,
        reason: str = "",
        parts: Mapping[str, float] | None = None,
    ) -> None:
        if status not in STATUSES:
            raise ValueError(f"status {status!r} is not one of {sorted(STATUSES)}")
        if not math.isfinite(reward):
            raise ValueError(f"a reward must be finite, got {reward!r}")
        # Once for every turn: what dataclass writes takes more than twice as long.
        _set_reward(self, reward)
        _set_status(self, status)
        _set_answer(self, answer)
        _set_reason(self, reason)
        _set_parts(self, {} if parts is None else parts)

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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; ``Verdict.from_dict`` reads it back."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["parts"] = dict(self.parts)
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Verdict:
        """The verdict that ``to_dict`` wrote.

        Raises:
            TypeError: a field is unknown, and the nearest is named; or one is missing.
        """
        require_known("a verdict", record, (each.name for each in fields(cls)), "field")
        return cls(**record)


_set_reward, _set_status, _set_answer, _set_reason, _set_parts = (
    vars(Verdict)[field.name].__set__ for field in fields(Verdict)
)


def correct(answer: str | None = None, reason: str = "correct", reward: float = 1.0) -> Verdict:
    """The verdict on a right answer."""
    return Verdict(reward, "correct", answer, reason)


def wrong(answer: str | None = None, reason: str = "wrong answer") -> Verdict:
    """The verdict on an answer that was read and is not right; reward 0."""
    return Verdict(0.0, "wrong", answer, reason)


def unparsable(reason: str, answer: str | None = None) -> Verdict:
    """The verdict on a reply in which no answer can be read; reward 0."""
    return Verdict(0.0, "unparsable", answer, reason)


def as_verdict(value: object, who: str) -> Verdict:
    """The verdict of a user's function: a ``Verdict`` as it is, True or False, or a reward from 0 to 1.

    Args:
        value: what the function gave.
        who: gave it, in words, such as "a grader".

    Raises:
        TypeError: it is none of these.
        ValueError: a number out of that range.
    """
    if isinstance(value, Verdict):
        return value
    try:
        reward = float(value) if hasattr(value, "__float__") else math.nan
    except (TypeError, ValueError):  # an array of several numbers
        reward = math.nan
    if math.isnan(reward) and not isinstance(value, float):
        raise TypeError(f"{who} gives a Verdict, True or False, or a reward from 0 to 1, not {value!r:.80}")
    if not 0.0 <= reward <= 1.0:
        raise ValueError(f"{who} gives a reward from 0 to 1, not {value!r:.80}")
    if reward in (0.0, 1.0):
        return correct() if reward else wrong()
    return Verdict(reward, "partial", reason="partly right")


def last_word(action: Verdict, outcome: Verdict) -> Verdict:
    """The outcome of an episode that was cut short, ``unparsable`` where its last action was not understood."""
    return (
        outcome.replace(status="unparsable") if (action.status, outcome.status) == ("unparsable", "wrong") else outcome
    )


def env_error(fault: BaseException | str, where: str = "", timeout: bool = False) -> Verdict:
    """The invalid verdict of an episode in which the environment, a tool or the agent failed: it is no training data.

    Args:
        fault: the exception, which the reason names with its type, or the reason itself.
        where: what failed, put in front of the reason.
        timeout: the status is ``timeout`` in place of ``env_error``: nothing is known to be broken.
    """
    reason = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
    reason = f"{where}: {reason}" if where else reason
    return Verdict(0.0, "timeout" if timeout else "env_error", reason=reason[:MAX_REASON])


# What the policy itself provokes: a valid 0, and loud, as it shows a bug (docs/verification.md, the law).

PROVOKED: Final = "failed on what the policy wrote: "
_LOG = logging.getLogger("rlvr.envs")
_logged: set[tuple[str, str, str]] = set()
MAX_LOGGED: Final = 100  # causes that are logged, each once


def provoked_verdict(where: str, error: BaseException | str, answer: str | None = None) -> Verdict:
    """``wrong``, with the reason that something failed on what the policy wrote; logged once for each cause.

    Args:
        where: what failed, such as "the environment Sums".
        error: how.
    """
    reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    _log(where, reason, error)
    return wrong(answer, f"{where} {PROVOKED}{reason}"[:MAX_REASON])


def _log(where: str, reason: str, error: BaseException | str) -> None:
    line = ""
    if isinstance(error, BaseException):
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        line = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
    cause = (where, type(error).__name__, line)
    if cause in _logged or len(_logged) >= MAX_LOGGED:
        return
    _logged.add(cause)
    at = f" ({line})" if line else ""
    _LOG.warning("%s %s%s%s: a bug that a policy can reach; its episodes get 0", where, PROVOKED, reason[:300], at)


def is_provoked(same: Callable[[], object], control: Callable[[], object]) -> bool:
    """Whether what failed fails again, and with a control in place of the policy's words does not.

    A module that is missing is never the policy's doing, though its words alone may have asked for it.
    """
    return fails_again(same) and goes_through(control)


def fails_again(call: Callable[[], object]) -> bool:
    """Whether a call raises, and not because the installation lacks a module."""
    try:
        call()
    except ImportError:
        return False
    except Exception:
        return True
    return False


def goes_through(control: Callable[[], object]) -> bool:
    """Whether a call with a control in place of the policy's words raises nothing."""
    try:
        control()
    except Exception:
        return False
    return True


Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Provoked(Exception):
    """Another side has no answer to what the policy wrote, and has one to a control; the failure is the cause."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(f"{failure}")
        self.__cause__ = failure


def answers_beside_controls(
    ask: Callable[[Sequence[Question]], Sequence[Answer | Exception]],
    questions: Sequence[Question],
    control: Callable[[int], Question],
) -> list[Answer | Exception]:
    """What another side answers to what the policy wrote, such as a judge, a simulated user or an opponent.

    Where it fails it is asked a control, and if it answers that, the question again: it may have been away for a
    moment.

    Args:
        ask: the answers to questions, all at once, or how they failed.
        control: the question of an index with harmless words in place of the policy's.

    Returns:
        For each question its answer; `Provoked` where the control alone was answered; else how it failed.
    """
    answers = [*ask(questions)]
    failed = {i: each for i, each in enumerate(answers) if isinstance(each, Exception)}
    failed = {i: each for i, each in failed.items() if not isinstance(each, ImportError)}
    controls = ask([control(i) for i in failed]) if failed else ()
    there = [i for i, each in zip(failed, controls, strict=True) if not isinstance(each, Exception)]
    for i, again in zip(there, ask([questions[i] for i in there]) if there else (), strict=True):
        answers[i] = Provoked(failed[i]) if isinstance(again, Exception) else again
    return answers


def answer_beside_control(ask: Callable[[Question], Answer], question: Question, control: Question) -> Answer:
    """As `answers_beside_controls`, for one question.

    Raises:
        Provoked: the control alone was answered.
        Exception: as ``ask`` raised it; the control fails, too.
    """

    def tried(questions: Sequence[Question]) -> list[Answer | Exception]:
        answers: list[Answer | Exception] = []
        for each in questions:
            try:
                answers.append(ask(each))
            except Exception as error:
                answers.append(error)
        return answers

    (answer,) = answers_beside_controls(tried, [question], lambda _: control)
    if isinstance(answer, Exception):
        raise answer
    return answer
