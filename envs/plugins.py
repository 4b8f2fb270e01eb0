"""Plug-ins: what other packages add, found by their entry points.

A package names, in an entry-point group, a module or a function without arguments that registers what it adds. Those of
``rlvr.envs`` call ``rlvr.register``, and ``import rlvr`` loads them. What they import is paid by every ``import rlvr``,
so they should name their tasks as "module:Class" texts and import nothing else. The groups of open registries
(`rlvr.envs.open_registry`) are loaded when they are needed. ``RLVR_PLUGINS=0`` in the environment loads none.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import gymnasium as gym

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rlvr.envs"
_lock = threading.RLock()
_loading: dict[str, Iterator[EntryPoint]] = {}  # of each group that was begun, the rest
_origins: dict[str, EntryPoint] = {}  # of each id that a plug-in has registered


def load_plugins() -> list[str]:
    """Load every installed plug-in; the names of those that worked.

    One that fails is a warning that names it. One that takes an id which is registered already loses that id.
    """
    loaded = []
    before = dict(gym.registry)
    for point in entry_points_of(GROUP):
        loaded += [point.name] * load(point)
        for env_id, spec in before.items():
            if gym.registry.get(env_id) is not spec:
                gym.registry[env_id] = spec
                _warn(f"{label(point)} may not register {env_id}, which exists")
        _origins.update(dict.fromkeys(gym.registry.keys() - before.keys(), point))
        before = dict(gym.registry)
    return loaded


def package_of(env_id: str) -> tuple[str, str] | None:
    """The name and the version of the installed package that registers an id by its entry point; None of any other."""
    package = getattr(_origins.get(env_id), "dist", None)
    return None if package is None else (package.name, package.version)


def load_group_once(group: str) -> None:
    """Load the entry points of a group, unless that was done; a failure is a warning.

    One that asks for a name of another, as a preset does for its advantage, has the others loaded first.
    """
    with _lock:  # another thread waits for names that are being registered
        if group not in _loading:
            _loading[group] = iter(entry_points_of(group))
        for point in _loading[group]:
            load(point)


def entry_points_of(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name; none where the environment says so."""
    if os.environ.get("RLVR_PLUGINS") == "0" or not _named_by_any_package(group):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def load(point: EntryPoint) -> bool:
    """Load one entry point, and call what it names where that is a function; whether that worked.

    One that raises is a ``RuntimeWarning`` that names it and its package.
    """
    try:
        target = point.load()
        if callable(target):
            target()
    except Exception as error:
        _warn(f"{label(point)} could not be loaded: {type(error).__name__}: {error}")
        return False
    return True


def label(point: EntryPoint) -> str:
    """An entry point, for people."""
    package = getattr(getattr(point, "dist", None), "name", None)
    return f"plug-in {point.name!r} ({point.value}{f', package {package}' if package else ''})"


def _warn(message: str) -> None:
    """Warn of a plug-in."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _named_by_any_package(group: str) -> bool:
    """Whether an installed package has a group; takes one millisecond, where importlib.metadata takes thirty."""
    mark = f"[{group}]".encode()
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            if os.path.isfile(folder):  # a zip file, which only importlib.metadata can read
                return True
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    if mark in file.read():
                        return True
            except OSError:
                continue
    return False
