"""Whether settings may name code: a module to import, a function, a command, a task that is not registered.

Who calls Python wrote the code already, and may. A config, a flag's value or a row of a table comes from anybody: the
command line and `rlvr.adapters.spec` take such names only where ``--allow-code`` or ``RLVR_ALLOW_CODE=1`` says so.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.core.registry import playable

VARIABLE: Final = "RLVR_ALLOW_CODE"  # 1: everywhere; 0: nowhere, not even from Python; inherited by processes
_ADDRESS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
# Gymnasium's own whose texts are data; any other foreign environment may do anything with a text.
_PLAIN = ("rlvr.", "gymnasium.envs.toy_text", "gymnasium.envs.classic_control", "gymnasium.envs.box2d")
_data: ContextVar[bool] = ContextVar("data", default=False)


class CodeRefused(ValueError):
    """A config or a row names code, and nobody allowed it."""


def code_allowed() -> bool:
    """Whether settings that are read now may name code."""
    variable = os.environ.get(VARIABLE)
    return variable == "1" or (variable != "0" and not _data.get())


@contextmanager
def settings_are_data(data: bool = True) -> Iterator[None]:
    """Within, settings come from somebody else, and may name registered things alone."""
    token = _data.set(data)
    try:
        yield
    finally:
        _data.reset(token)


@contextmanager
def command_line(allow_code: bool) -> Iterator[None]:
    """What a command does, in its threads and processes too. ``RLVR_ALLOW_CODE=1`` stands for the flag."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1" if allow_code or before == "1" else "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def require_code(what: str) -> None:
    """Go on only where settings may name code; ``what`` is what they name.

    Raises:
        CodeRefused: they may not.
    """
    if not code_allowed():
        raise CodeRefused(
            f"{what} is code, and a config or a row names only what is registered: "
            f"if you trust it, give --allow-code or set {VARIABLE}=1, or use the Python API"
        )


def import_named(address: str) -> Any:
    """What "module:name" names.

    Raises:
        CodeRefused: settings may not name code.
        ValueError: it is no such text, or names nothing.
    """
    module, _, name = address.partition(":")
    if not module or not name:
        raise ValueError(f'{address!r} names no function: write "module:function"')
    require_code(f"the function {address!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{address!r} names no function: {error}") from error


def require_registered_task(address: str) -> None:
    """Check that a task's "module:Class" is a registered environment's, or that settings may name code.

    Raises:
        CodeRefused: neither.
    """
    if not code_allowed() and not any(spec.kwargs.get("task") == address for spec in gym.registry.values()):
        require_code(f"the task {address!r}")


def make_env(env_id: str, /, **settings: Any) -> gym.Env[Any, Any]:
    """``gym.make`` for an id and settings that may come from somebody else; foreign environments are played in words.

    See `rlvr.envs.core.registry.playable`.

    Raises:
        CodeRefused: the id names a module, or a setting could be code, where settings may not name code.
    """
    require_registered(env_id, settings)
    return gym.make(playable(env_id), **settings)


def require_registered(env_id: str, settings: Mapping[str, Any]) -> None:
    """Check that an id names no module, and that settings of foreign environments hold nothing that could be code.

    Raises:
        CodeRefused: they do, and settings may not name code.
    """
    if code_allowed():
        return
    if not isinstance(env_id, str) or ":" in env_id:
        require_code(f"the module in the id {env_id!r}")
    spec = gym.registry.get(env_id)
    if spec is None:
        return  # gym.make says so
    entry = spec.entry_point
    task = str(spec.kwargs.get("task", ""))
    ours = isinstance(entry, str) and entry.startswith(_PLAIN)
    if not ours:
        require_plain(f"{env_id}, which is not registered by rlvr.register", settings)
    elif task and not task.startswith("rlvr."):
        for name, value in settings.items():
            for text in filter(_ADDRESS.fullmatch, _texts(value)):
                require_code(f"{name}={text!r:.80} of {env_id}")


def require_plain(owner: str, settings: Mapping[str, Any]) -> None:
    """Check that settings of an environment that this project knows nothing of hold no text, which may name anything.

    Raises:
        CodeRefused: they do, and settings may not name code.
    """
    for name, value in settings.items():
        text = next(_texts(value), None)
        if text is not None and name != "render_mode":
            require_code(f"{name}={text!r:.80} of {owner}: any text")


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain values, without recursion."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
