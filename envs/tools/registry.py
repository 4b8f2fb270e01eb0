"""The tools that ``gym.make(env_id, tools=["python"])`` may name, and `register_tool`, which adds to them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.open_registry import OpenRegistry
from rlvr.envs.tools.kits import Functions, Kit, Workspace, calculator
from rlvr.envs.tools.tool import Tool, tool

ToolChoice = str | Kit | Callable[..., object]  # a name, a kit, a class of kits, or a function that the policy may call


@dataclass(frozen=True)
class KitSource:
    """What a kit is made of: a kit, a class of kits that takes no arguments, or a function that the policy may call."""

    source: Kit | type[Kit] | Callable[..., Any]

    @property
    def name(self) -> str:
        """Of a function or a class, and of a kit that has one tool; else empty."""
        if isinstance(self.source, Kit):
            return self.source.tools[0].name if len(self.source.tools) == 1 else ""
        return self.source.__name__

    def __call__(self) -> Kit:
        if isinstance(self.source, Kit):
            return self.source
        return self.source() if isinstance(self.source, type) else Functions(self.source)


def _as_source(value: Any) -> KitSource:
    if isinstance(value, KitSource):
        return value
    if isinstance(value, Kit):
        _require_tools(value)
    elif isinstance(value, type) and issubclass(value, Kit):
        try:
            inspect.signature(value).bind()
        except TypeError as error:
            raise TypeError(f"a class of kits takes no arguments, but {value.__name__}: {error}") from None
    elif inspect.isroutine(value):
        tool(value)  # says which part it lacks
    else:
        raise TypeError(f"a tool is a function, a Kit or a class of Kits, not {value!r:.80}")
    return KitSource(value)


def _require_tools(kit: Kit) -> None:
    if not kit.tools or not all(isinstance(each, Tool) for each in kit.tools):
        raise TypeError(f"the kit {type(kit).__name__} has no tools: set its attribute tools to a list of Tool")


_BUILT_IN: dict[str, Callable[[], Kit] | str] = {
    "calculator": lambda: Functions(calculator),
    "python": lambda: Workspace("python"),
    "shell": lambda: Workspace("shell"),
    "workspace": lambda: Workspace("python", "shell", "read_file", "write_file"),
}
KITS: OpenRegistry[Callable[[], Kit]] = OpenRegistry("tool", "rlvr.tools", _BUILT_IN, _as_source)


def register_tool(tool: Kit | type[Kit] | Callable[..., object], name: str = "") -> Callable[[], Kit]:
    """Add a tool; its name may then stand in ``tools``.

    Args:
        tool: a function with types and a docstring, as ``rlvr.envs.tools.tool`` takes it; a `Kit`; or a class of kits,
            of which each environment makes its own.
        name: by which it is chosen; that of the function, the class, or the one tool of a kit, by default. The policy
            reads the names of the functions.

    Raises:
        TypeError: it lacks a part: types, a docstring, or tools.
        ValueError: the name is taken, or there is none.
    """
    return KITS.register(tool, name)


def kit_of(choice: ToolChoice) -> Kit:
    """The kit of a name, of "module:name", of a function, or of a class; a kit as it is.

    Raises:
        CodeRefused: it is "module:name", and settings may not name code.
        TypeError: an object that is no tool, or a kit without tools.
        ValueError: there is no tool of that name; the nearest is named.
    """
    if isinstance(choice, str):
        try:
            make = KITS[choice]
        except KeyError:
            raise ValueError(f"there is no tool {choice!r}{did_you_mean(choice, KITS)}") from None
    else:
        make = _as_source(choice)
    kit = make()
    _require_tools(kit)
    return kit
