"""Graders of one's own: any callable that takes a completion and a reference, wherever a grader's name may stand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.verdict import Verdict, as_verdict


@dataclass(frozen=True, slots=True)
class CustomGrader:
    """A grader that a user wrote: whatever it gives becomes a verdict.

    Args:
        function: takes a completion, a reference and its options; gives a ``Verdict``, True or False, or a reward from
            0 to 1.
        name: in messages.
    """

    function: Callable[..., Any]
    name: str

    def __call__(self, completion: str, reference: Any, /, **options: Any) -> Verdict:
        try:
            return as_verdict(self.function(completion, reference, **options), "a grader")
        except SystemExit as error:  # a reply must not end the run
            raise RuntimeError(f"it exits, with {error}") from error


def as_grader(value: Any) -> Callable[..., Verdict]:
    """A function or an object with ``__call__`` as a grader; one of this package as it is.

    Raises:
        TypeError: it cannot be called with a completion and a reference.
    """
    if isinstance(value, CustomGrader) or getattr(value, "__module__", "").startswith("rlvr.envs.rewards.graders."):
        return value  # type: ignore[no-any-return]
    if isinstance(value, type):
        raise TypeError(f"a grader is a function or an object, not the class {value.__name__}: give an object of it")
    if not callable(value):
        raise TypeError(f"a grader is a function of a completion and a reference, not {value!r:.80}")
    name = str(getattr(value, "name", "") or getattr(value, "__name__", "") or type(value).__name__)
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise TypeError(f"the grader {name!r} is async, and grades are not awaited: define it with def")
    signature = signature_of(value)
    try:
        signature.bind_partial("", None)
    except TypeError:
        raise TypeError(f"a grader takes a completion and a reference, and {name}{signature} does not") from None
    return CustomGrader(value, name)


def require_options(grader: Callable[..., Any], name: str, options: Mapping[str, Any]) -> None:
    """Check the names of a grader's options.

    Raises:
        TypeError: one is unknown, and the nearest is named; or one is missing that has no default.
    """
    parameters = signature_of(grader.function if isinstance(grader, CustomGrader) else grader).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes = [*positional[2:], *(each for each in parameters if each.kind is each.KEYWORD_ONLY)]
    option_names = [each.name for each in takes]
    unknown = [option for option in options if option not in option_names]
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in parameters):
        others = did_you_mean(unknown[0], option_names, "it has") if option_names else ", nor any other"
        raise TypeError(f"the grader {name!r} has no option {unknown[0]!r}{others}")
    if missing := [each.name for each in takes if each.default is each.empty and each.name not in options]:
        raise TypeError(f"the grader {name!r} needs the option {', '.join(missing)}")


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a callable; one that takes anything where Python knows none, as of some builtins."""
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(lambda *args, **options: None)


def package_of_grader(grader: Callable[..., Verdict]) -> str:
    """The package whose source decides what a grader pays."""
    function = grader.function if isinstance(grader, CustomGrader) else grader
    owner = function if inspect.isroutine(function) else type(function)
    return str(owner.__module__).partition(".")[0]
