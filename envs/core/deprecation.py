"""Old public names: they still work for one version, and warn with the new name."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
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


def moved_names(module: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that gives the functions and classes which moved to other modules.

    Args:
        module: the module's ``__name__``.
        homes: for each module that took some in, their names.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", f"{home_of[name]}.{name}")
        return getattr(importlib.import_module(home_of[name]), name)

    return look_up


def moved_modules(
    package: str, folders: Mapping[str, Iterable[str]], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Let modules of a package be imported by the paths that they had before they were put into folders.

    Args:
        package: the package's ``__name__``.
        folders: names of its sub-packages, and the modules that moved into each: ``{"trainers": ["trl"]}`` lets
            ``import package.trl`` give the module ``package.trainers.trl`` itself, with a warning.
        elsewhere: names of modules that left the package, and their full names now.
    """
    homes = {f"{package}.{name}": f"{package}.{folder}.{name}" for folder, names in folders.items() for name in names}
    homes |= {f"{package}.{name}": home for name, home in (elsewhere or {}).items()}
    sys.meta_path.append(_MovedModules(homes))


class _MovedModules(MetaPathFinder, Loader):
    """Asked last, so that whatever is found under an old path itself is taken.

    Args:
        homes: old paths to new ones.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self._homes else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        home = self._homes[spec.name]
        warn_renamed(spec.name, home)
        module = importlib.import_module(home)
        self._specs[home] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._specs.pop(module.__name__)  # the import has put the old path's in its place
