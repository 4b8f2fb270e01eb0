"""``grade(kind, completion, reference)``: every grader behind one name; what a model wrote never raises."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rlvr.envs.core.verdict import Verdict, is_provoked, provoked_verdict
from rlvr.envs.rewards.errors import BadOption, BadReference

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Grader = Callable[..., Verdict]

# kind -> "module:function"; imported when first used.
GRADERS: Final[dict[str, str]] = {
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
# What generated tasks give to the graders of values: an answer is to be worked out. Rows of a data set are as they are.
WORKED_OUT: Final[dict[str, dict[str, Any]]] = {"number": {"simplest": True}, "math": {"simplest": True}}
# Kinds that start a process for every grade.
SLOW: Final = frozenset(["code"])


@cache
def grader(kind: str) -> Grader:
    """The grading function of a kind.

    Raises:
        BadOption: there is no such kind.
    """
    if kind not in GRADERS:
        raise BadOption(f"no grader is called {kind!r}; there are {', '.join(sorted(GRADERS))}")
    module, _, name = GRADERS[kind].partition(":")
    function: Grader = getattr(import_module(module), name)
    return function


def grade(kind: str, completion: str, reference: Any, **options: Any) -> Verdict:
    """Grade one reply: ``grade("number", "... \\\\boxed{72}", "72")``.

    Args:
        kind: one of ``GRADERS``.
        completion: the model's reply; hostile text is expected.
        reference: what the kind compares with.
        options: those of the kind's own function, by name.

    Returns:
        A verdict. A reference that cannot be graded against and a fault of the grader give ``verifier_error``, which
        is not valid and so stays out of training; they are never a silent 0. A grader that fails on this reply, but
        grades an empty one, gives 0 and logs why.

    Raises:
        BadOption: an unknown kind, or an option with a value that makes no sense.
        TypeError: an option that the kind does not take.
        SandboxUnavailable: the kind runs code, and no sandbox holds on this machine.
    """
    function = grader(kind)
    if not isinstance(completion, str):
        return Verdict(0.0, "verifier_error", reason=f"a completion is text, got {type(completion).__name__}")
    try:
        return function(completion, reference, **options)
    except BadOption:
        raise
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise
        return _failed(error, kind, lambda text: function(text, reference, **options), completion)
    except Exception as error:
        if kind in SLOW and _refused(error):
            raise
        return _failed(error, kind, lambda text: function(text, reference, **options), completion)


def _refused(error: Exception) -> bool:
    """Whether no sandbox holds on this machine: nothing to grade with, so nothing to give a verdict on."""
    from rlvr.envs.sandbox import SandboxUnavailable

    return isinstance(error, SandboxUnavailable)


def _failed(error: Exception, kind: str, again: Callable[[str], object], completion: str) -> Verdict:
    """A fault of the grader: a 0 where an empty reply is graded against the same reference."""
    bad_row = isinstance(error, BadReference)
    if not bad_row and is_provoked(partial(again, completion), partial(again, "")):
        return provoked_verdict(f"the grader {kind}", error)
    return Verdict(0.0, "verifier_error", reason=f"{type(error).__name__}: {error}"[:300])


def grade_batch(kind: str, completions: Iterable[str], references: Iterable[Any], **options: Any) -> list[Verdict]:
    """Grade replies against references, pair by pair and in order; one bad pair leaves the others as they are.

    What needs the worker pool runs side by side there.

    Raises:
        ValueError: there are not as many references as completions.
        BadOption, TypeError: as in ``grade``.
    """
    pairs = list(zip(completions, references, strict=True))
    if kind in SLOW and len(pairs) > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(pairs), 16), thread_name_prefix="rlvr-grade") as threads:
            return list(threads.map(lambda pair: grade(kind, *pair, **options), pairs))
    if kind == "math":
        from rlvr.envs.rewards.graders.mathematical import grade_math_batch

        return grade_math_batch(pairs, **options)
    return [grade(kind, text, gold, **options) for text, gold in pairs]


async def agrade(kind: str, completion: str, reference: Any, **options: Any) -> Verdict:
    """``grade`` from asyncio: kinds that may wait for a process run in a thread, so that the event loop stays free."""
    if kind == "math":
        from rlvr.envs.rewards.graders.mathematical import agrade_math

        return await agrade_math(_threads(), completion, reference, **options)
    if kind in SLOW:
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
