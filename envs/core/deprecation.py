"""Old public names: they still work for one version, and warn with the new name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Say that ``old`` is now ``new``."""
    warnings.warn(f"{old} is now called {new}; the old name goes in the next version", DeprecationWarning, stacklevel)


def renamed_in_module(module: str, names: Mapping[str, str], values: Mapping[str, Any]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that gives its classes and functions under their old names.

    Args:
        module: the module's ``__name__``.
        names: old name to new name.
        values: the module's ``globals()``.
    """

    def look_up(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", names[name])
        return values[names[name]]

    return look_up
