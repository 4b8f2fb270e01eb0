"""Renamed public names: the old one works for one version and warns. Nothing is renamed before 0.1.0."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Say that ``old`` is now ``new``."""
    warnings.warn(f"{old} is now called {new}; the old name goes in the next version", DeprecationWarning, stacklevel)


class RenamedAttribute:
    """An attribute of instances under its old name; a class has none of that name.

    Args:
        old: the name that this is an attribute by.
        new: the name of the attribute that it gives.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._old!r}")
        warn_renamed(f"{owner.__name__}.{self._old}", self._new)
        return getattr(instance, self._new)


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
