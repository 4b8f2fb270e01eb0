"""Open registries: the values that a setting may name, to which a package or a script adds its own.

A text names what is registered; ``module:name`` imports it, where settings may name code (`rlvr.envs.core.code_rule`).
Entry points are loaded when a name is not there, or when all names are asked for.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from rlvr.envs.core.code_rule import import_named
from rlvr.envs.plugins import load_group_once

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class OpenRegistry(Mapping[str, T], Generic[T]):
    """Values by name, in the order in which they were registered; a name is never registered anew.

    Args:
        what: one of the values, in words, such as "advantage".
        group: of the entry points that register more.
        built_in: the values of this package, by name; a text is the "module:name" of one that is imported when it is
            first used.
        as_value: makes a value of what a user gives, an object or a function, or raises a TypeError that says which
            part is missing.
    """

    def __init__(self, what: str, group: str, built_in: Mapping[str, T | str], as_value: Callable[[Any], T]) -> None:
        self.what, self.group = what, group
        self._values: dict[str, T | str] = dict(built_in)
        self._as_value = as_value

    def register(self, value: Any, name: str = "") -> T:
        """Add a value under a name: the one that is given, or else the value's own.

        Raises:
            TypeError: it lacks a part.
            ValueError: the name is none, or is another value's.
        """
        return self[self._add(value, name)]

    def _add(self, entry: Any, name: str = "") -> str:
        value = self._as_value(entry)
        name = name or str(getattr(value, "name", "") or getattr(value, "__name__", ""))
        if not _NAME.fullmatch(name):
            raise ValueError(f"a name of a {self.what} has letters, digits and _, and begins with no digit: {name!r}")
        if name in self._values and not _same(self[name], value):
            raise ValueError(f"there is a {self.what} {name!r} already: choose another name")
        self._values[name] = value
        return name

    def name_of(self, choice: Any) -> Any:
        """The text of a choice: a text as it is; an object or function is registered first, under its own name."""
        if isinstance(choice, str):
            return choice
        registered = (name for name, value in self._values.items() if value is choice)
        return next(registered, None) or self._add(choice)

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            load_group_once(self.group)
        if name not in self._values:
            if isinstance(name, str) and ":" in name:
                return self._imported(name)
            raise KeyError(name)
        value = self._values[name]
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            value = self._values[name] = self._as_value(getattr(importlib.import_module(module), attribute))
        return value

    def _imported(self, address: str) -> T:
        value = import_named(address)
        try:
            return self._as_value(value)
        except TypeError as error:
            raise ValueError(f"{address!r} names no {self.what}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        load_group_once(self.group)
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _same(first: object, second: object) -> bool:
    """Whether two values are equal, or of one class and alike in all that they hold."""
    return first == second or (
        type(first) is type(second) and hasattr(first, "__dict__") and vars(first) == vars(second)
    )


def require_parts(value: Any, kind: type, what: str) -> Any:
    """Check that a value is an object of a kind, and has a name.

    Raises:
        TypeError: it is not, or has none.
    """
    if not isinstance(value, kind):
        raise TypeError(f"a {what} is an object of {kind.__module__}.{kind.__qualname__}, not {value!r:.80}")
    if not isinstance(getattr(value, "name", None), str):
        raise TypeError(f"the {what} {type(value).__name__} has no name: set its attribute name")
    return value


def require_methods(value: Any, base: type, names: tuple[str, ...], what: str) -> Any:
    """Check that an object's class has methods of its own in place of a base's.

    Raises:
        TypeError: one is the base's.
    """
    require_parts(value, base, what)
    for name in names:
        if getattr(type(value), name) is getattr(base, name):
            raise TypeError(f"the {what} {value.name!r} has no {name}: define it in its class")
    return value
