"""Whether a foreign framework is here, and is one that its adapter was tested with."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any


def require(package: str, tested: str, below: str) -> str:
    """The installed version of a framework.

    Args:
        package: its distribution.
        tested: the version whose tests passed; no older one is taken.
        below: the first version about which nothing is known. A newer one is tried, with a warning.

    Raises:
        ImportError: it is missing, or older.
    """
    needs = f"{package}>={tested},<{below}"
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise ImportError(f"{package} is not installed; the adapter was tested with: pip install '{needs}'") from error
    if numbers(version) < numbers(tested):
        raise ImportError(f"{package} {version} is too old; the adapter was tested with: pip install '{needs}'")
    if numbers(version) >= numbers(below):
        warnings.warn(f"{package} {version} is newer than what was tested ({needs})", RuntimeWarning, stacklevel=3)
    return version


def check_call(theirs: Any, tested: tuple[str, str, str], *arguments: str) -> None:
    """Look whether a framework's function, not a public one, can be called as an adapter calls it.

    Args:
        theirs: the function, or the bound method; None where the framework has it no more.
        tested: what `require` is called with.
        arguments: names of what the adapter gives, by position.

    Raises:
        ImportError: it cannot; names the function, what it takes, and what it would be given.
    """
    if theirs is None:
        raise ImportError(_changed(tested, f"lacks the function that its adapter gives ({', '.join(arguments)})"))
    accepted = _signature(theirs)
    if accepted is not None and not _binds(accepted, len(arguments), ()):
        called = f"{_name(theirs)} takes {accepted}, and its adapter gives ({', '.join(arguments)})"
        raise ImportError(_changed(tested, called))


def check_override(theirs: Any, ours: Callable[..., Any], tested: tuple[str, str, str]) -> None:
    """Look whether a method of an adapter's can stand in for the framework's: whatever that takes, ours must take.

    Args:
        theirs: the method of the framework's class; None where it has it no more.
        ours: the method of the adapter's.
        tested: what `require` is called with.

    Raises:
        ImportError: it cannot; names both, and what each takes.
    """
    if theirs is None:
        raise ImportError(_changed(tested, f"calls {_name(ours)} of its adapter no more"))
    required, accepted = _signature(theirs), _signature(ours)
    if required is None or accepted is None:
        return
    kinds = inspect.Parameter
    parameters = required.parameters.values()
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    if not _binds(accepted, len(positional), [p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY]):
        raise ImportError(
            _changed(tested, f"calls {_name(theirs)}{required}, and {_name(ours)} of its adapter takes {accepted}")
        )


def _changed(tested: tuple[str, str, str], what: str) -> str:
    package, least, below = tested
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = "of another kind"
    return f"{package} {version} {what}: the adapter was tested with: pip install '{package}>={least},<{below}'"


def _signature(function: Any) -> inspect.Signature | None:
    """What a function takes, without annotations; None where that is not known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)


def _binds(signature: inspect.Signature, positional: int, named: Any) -> bool:
    try:
        signature.bind(*[None] * positional, **dict.fromkeys(named))
    except TypeError:
        return False
    return True


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))


def numbers(version: str) -> tuple[int, ...]:
    """The release's numbers: of 1.16.0rc1+cpu, 1, 16, 0; zeros at the end do not count."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in release[0].split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
