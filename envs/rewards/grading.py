"""``grade(kind, completion, reference)``: every grader behind one name; what a model wrote never raises."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.verdict import Verdict, goes_through, is_provoked, provoked_verdict
from rlvr.envs.open_registry import OpenRegistry
from rlvr.envs.rewards.custom import CustomGrader, as_grader, require_options
from rlvr.envs.rewards.errors import BadOption, BadReference

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Grader = Callable[..., Verdict]  # of a completion, a reference and options by name
GraderChoice = str | Callable[..., Verdict | bool | float]  # a name, or a function or object of the user's own

BUILT_IN: Final[Mapping[str, str]] = {
    "number": "rlvr.envs.rewards.graders.number:grade_number",
    "math": "rlvr.envs.rewards.graders.mathematical:grade_math",
    "choice": "rlvr.envs.rewards.graders.choice:grade_choice",
    "countdown": "rlvr.envs.rewards.graders.countdown:grade_countdown",
    "format": "rlvr.envs.rewards.graders.format:grade_format",
    "action": "rlvr.envs.rewards.graders.action:grade_action",
    "json": "rlvr.envs.rewards.graders.json_schema:grade_json",
    "exact": "rlvr.envs.rewards.graders.question:grade_exact",
    "f1": "rlvr.envs.rewards.graders.question:grade_f1",
    "code": "rlvr.envs.rewards.graders.code:grade_code",
}
GRADERS: OpenRegistry[Grader] = OpenRegistry("grader", "rlvr.graders", BUILT_IN, as_grader)
# What generated tasks give to the graders of values: an answer is to be worked out. Rows of a data set are as they are.
WORKED_OUT: Final[dict[str, dict[str, Any]]] = {"number": {"simplest": True}, "math": {"simplest": True}}
# Kinds that start a process for every grade.
SLOW: Final = frozenset(["code"])


def register_grader(grader: Callable[..., Verdict | bool | float], name: str = "") -> Grader:
    """Add a grader; its name may then stand wherever a grader is chosen by name.

    Args:
        grader: a function or an object, called with a completion, a reference and the options by name. It gives a
            ``Verdict``, True or False, or a reward from 0 to 1, and takes bounded time.
        name: of the grader; its own, or that of the function, by default.

    Raises:
        TypeError: it cannot be called so.
        ValueError: the name is taken.
    """
    return GRADERS.register(grader, name)


def grader(kind: GraderChoice) -> Grader:
    """The grading function of a kind, or that of a user's own function or object.

    Raises:
        BadOption: there is no such kind.
        CodeRefused: it is "module:name", and settings may not name code.
        TypeError: an object that is no grader.
    """
    if not isinstance(kind, str):
        return as_grader(kind)
    try:
        return GRADERS[kind]
    except KeyError:
        raise BadOption(f"no grader is called {kind!r}{did_you_mean(kind, GRADERS)}") from None


def grade(kind: GraderChoice, completion: str, reference: Any, **options: Any) -> Verdict:
    """Grade one reply: ``grade("number", "... \\\\boxed{72}", "72")``.

    Args:
        kind: one of ``GRADERS``, or a function or object as `register_grader` takes it.
        completion: the model's reply; hostile text is expected.
        reference: what the kind compares with.
        options: those of the kind's own function, by name.

    Returns:
        A verdict. A reference that cannot be graded against and a fault of the grader give ``verifier_error``, which
        is not valid and so stays out of training; they are never a silent 0. A grader that fails on this reply, but
        grades an empty one, gives 0 and logs why. So does one of your own that grades the reference as a reply.

    Raises:
        BadOption: an unknown kind, or an option with a value that makes no sense.
        TypeError: an option that the kind does not take, or no grader.
        SandboxUnavailable: the kind runs code, and no sandbox holds on this machine.
    """
    function = grader(kind)
    if not isinstance(completion, str):
        return Verdict(0.0, "verifier_error", reason=f"a completion is text, got {type(completion).__name__}")
    try:
        verdict = function(completion, reference, **options)
    except Exception as error:
        custom = isinstance(function, CustomGrader)
        if isinstance(error, TypeError):
            require_options(function, grader_name(kind), options)
        if (isinstance(error, BadOption) and not custom) or ((custom or _is_slow(kind)) and _refused(error)):
            raise
        again = partial(_require_valid, function, reference, options)
        return _failed(error, kind, again, completion, _controls(function, reference))
    if not verdict.valid and isinstance(function, CustomGrader):
        # ours have controls of their own
        again = partial(_require_valid, function, reference, options)
        if is_provoked(partial(again, completion), partial(_control, again, _controls(function, reference))):
            return provoked_verdict(f"the grader {function.name}", verdict.reason)
    return verdict


def grader_name(kind: GraderChoice) -> str:
    """The name of a kind, or of a user's own grader."""
    return kind if isinstance(kind, str) else as_grader(kind).name  # type: ignore[attr-defined]


def _is_slow(kind: GraderChoice) -> bool:
    return isinstance(kind, str) and kind in SLOW


def _refused(error: Exception) -> bool:
    """Whether no sandbox holds on this machine: nothing to grade with, so nothing to give a verdict on."""
    from rlvr.envs.sandbox import SandboxUnavailable

    return isinstance(error, SandboxUnavailable)


def _failed(
    error: Exception, kind: GraderChoice, again: Callable[[str], object], completion: str, controls: Iterable[str]
) -> Verdict:
    """A fault of the grader: a 0 where a control is graded against the same reference."""
    bad_row = isinstance(error, BadReference)
    if not bad_row and is_provoked(partial(again, completion), partial(_control, again, controls)):
        return provoked_verdict(f"the grader {grader_name(kind)}", error)
    return Verdict(0.0, "verifier_error", reason=f"{type(error).__name__}: {error}"[:300])


def _require_valid(function: Grader, reference: Any, options: Mapping[str, Any], completion: str) -> None:
    if not (verdict := function(completion, reference, **options)).valid:
        raise ValueError(verdict.reason)


def _controls(function: Grader, reference: Any) -> tuple[str, ...]:
    """Replies of ours: an empty one; for a user's own grader, which may read nothing there, the reference too."""
    if not isinstance(function, CustomGrader):
        return ("",)
    text = str(reference[0] if isinstance(reference, list | tuple) and reference else reference)
    return ("", text, f"\\boxed{{{text}}}")


def _control(again: Callable[[str], object], controls: Iterable[str]) -> None:
    """Goes through where one of the controls does."""
    if not any(goes_through(partial(again, text)) for text in controls):
        raise ValueError("no reply can be graded")


def grade_batch(
    kind: GraderChoice, completions: Iterable[str], references: Iterable[Any], **options: Any
) -> list[Verdict]:
    """Grade replies against references, pair by pair and in order; one bad pair leaves the others as they are.

    What needs the worker pool runs side by side there.

    Raises:
        ValueError: there are not as many references as completions.
        BadOption, TypeError: as in ``grade``.
    """
    pairs = list(zip(completions, references, strict=True))
    if _is_slow(kind) and len(pairs) > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(pairs), 16), thread_name_prefix="rlvr-grade") as threads:
            return list(threads.map(lambda pair: grade(kind, *pair, **options), pairs))
    if kind == "math":
        from rlvr.envs.rewards.graders.mathematical import grade_math_batch

        require_options(grader(kind), kind, options)
        return grade_math_batch(pairs, **options)
    return [grade(kind, text, gold, **options) for text, gold in pairs]


async def agrade(kind: GraderChoice, completion: str, reference: Any, **options: Any) -> Verdict:
    """``grade`` from asyncio: kinds that may wait for a process run in a thread, so that the event loop stays free."""
    if kind == "math":
        from rlvr.envs.rewards.graders.mathematical import agrade_math

        require_options(grader(kind), kind, options)
        return await agrade_math(_threads(), completion, reference, **options)
    if _is_slow(kind):
        import asyncio

        call = partial(grade, kind, completion, reference, **options)
        return await asyncio.get_running_loop().run_in_executor(_threads(), call)
    return grade(kind, completion, reference, **options)


@cache
def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(64, thread_name_prefix="rlvr-agrade")


if hasattr(os, "register_at_fork"):  # a forked child has none of the parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)
