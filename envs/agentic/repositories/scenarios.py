"""Scenarios: texts of small programs with holes, what is drawn for the holes, and what the programs give.

A hole is ``<3..9>`` (a number), ``<red|blue>`` (one of these texts), ``<w>`` (a word), ``<4*1..9>`` or ``<4*w>`` (a
list of so many); ``<x=3..9>`` draws and names it, and ``<x>`` repeats it. The value of a program is that of its last
line, or ``raises`` and the name of the exception.
"""

from __future__ import annotations

import ast
import builtins
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any, Final

from rlvr.envs.agentic.mutations import Fuel, OutOfFuel, with_fuel
from rlvr.envs.agentic.python_syntax import parse_python
from rlvr.envs.sandbox.inside import wire

FUEL: Final = 20_000  # rounds of loops and calls of one program
UNENDING: Final = "does not end"
_HOLE: Final = re.compile(r"<(?:(\w+)=)?([^<>=\n]+)>")
_RANGE: Final = re.compile(r"(?:(\d+)\*)?(-?\d+)\.\.(-?\d+)")
WORDS: Final = (
    "amber", "birch", "cedar", "delta", "ember", "fern", "grove", "heron", "iris", "jade", "kite", "lark", "maple",
    "north", "olive", "pearl", "quill", "reed", "slate", "thorn",
)  # fmt: skip


def filled(rng: random.Random, scenario: str) -> str:
    """A program: the scenario with something drawn for each of its holes."""
    values: dict[str, str] = {}

    def fill(match: re.Match[str]) -> str:
        name, hole = match.groups()
        value = values.get(hole) or _drawn(rng, hole)
        if name:
            values[name] = value
        return value

    return _HOLE.sub(fill, scenario)


def _drawn(rng: random.Random, hole: str) -> str:
    bounds = _RANGE.fullmatch(hole)
    if bounds:
        count, low, high = bounds.groups()
        numbers = [rng.randint(int(low), int(high)) for _ in range(int(count or 1))]
        return repr(numbers if count else numbers[0])
    if hole == "w":
        return rng.choice(WORDS)
    if hole.endswith("*w"):
        return repr(rng.sample(WORDS, int(hole[:-2])))
    return rng.choice(hole.split("|"))


def outcomes(package: str, modules: Mapping[str, str], programs: Sequence[str]) -> list[Any]:
    """What each program gives: plain data, ``raises …``, or ``UNENDING`` where its fuel does not last.

    The modules are sources of ours, perhaps with a fault, and run in this process.

    Args:
        package: the name that the modules are imported from.
        modules: their texts by name, those that others import first.
    """
    tick = Fuel(FUEL)
    loaded: dict[str, ModuleType] = {}

    def imported(name: str, *rest: Any) -> Any:
        return loaded[name] if name in loaded else builtins.__import__(name, *rest)

    def scope(name: str) -> dict[str, Any]:
        return {"__name__": name, "__builtins__": {**vars(builtins), "__import__": imported}, "_tick": tick}

    for name, text in modules.items():
        full = f"{package}.{name}"
        module = ModuleType(full)
        vars(module).update(scope(full))
        try:
            exec(_compiled(text), vars(module))
        except (Exception, OutOfFuel) as error:
            return [f"raises {type(error).__name__}"] * len(programs)
        loaded[full] = module
    values = []
    for program in programs:
        tick.refill()
        values.append(_outcome(program, scope("__main__")))
    return values


def _outcome(program: str, scope: dict[str, Any]) -> Any:
    body, last = _split(program)
    try:
        exec(body, scope)
        value = eval(last, scope)
        wire.encode(value)
    except OutOfFuel:
        return UNENDING
    except Exception as error:
        return f"raises {type(error).__name__}"
    return value


@lru_cache(maxsize=4096)
def _compiled(text: str) -> CodeType:
    return compile(with_fuel(parse_python(text)), "module", "exec")


@lru_cache(maxsize=4096)
def _split(program: str) -> tuple[CodeType, CodeType]:
    tree = parse_python(program)
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise ValueError(f"the last line of a scenario must be a value: {program!r}")
    return compile(tree, "scenario", "exec"), compile(ast.Expression(last.value), "scenario", "eval")
