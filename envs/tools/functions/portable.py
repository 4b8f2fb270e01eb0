"""Which functions can run in another process as they do here: those that use nothing that lives in this one."""

from __future__ import annotations

import builtins
import dis
import re
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

_CONSTANTS: frozenset[type] = frozenset(
    (type(None), type(...), bool, int, float, complex, str, bytes, range, re.Pattern)
) | {Decimal, Fraction, date, datetime, time, timedelta}
_ERRORS = "rlvr.envs.tools.tool"  # what a tool may raise


class NeedsThisProcess(Exception):
    """A function uses something that another process would not have, or have another of."""


def portable_copy(function: Any) -> FunctionType:
    """A copy of a function that can be pickled with all that it uses.

    That is: its arguments, constants, the standard library, the errors of tools, and functions that use no more. A list
    or an object of the user's could change here and not there.

    Raises:
        NeedsThisProcess: it uses something else.
    """
    if not isinstance(function, FunctionType):
        raise NeedsThisProcess(f"{function!r} is no function of Python")
    return _Copier().function(function)


class _Copier:
    def __init__(self) -> None:
        self._namespaces: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, FunctionType] = {}

    def function(self, original: FunctionType) -> FunctionType:
        if id(original) in self._copies:
            return self._copies[id(original)]
        theirs = original.__globals__
        namespace = self._namespaces.setdefault(id(theirs), {"__name__": "__main__", "__builtins__": builtins})
        cells = tuple(CellType() for _ in original.__closure__ or ())
        copy = FunctionType(original.__code__, namespace, original.__name__, None, cells or None)
        self._copies[id(original)] = copy  # before what it uses, which may be itself
        copy.__module__ = "__main__"  # so that it is pickled by its code, and not by its name
        copy.__defaults__ = self._value(original.__defaults__)
        copy.__kwdefaults__ = {name: self._value(value) for name, value in (original.__kwdefaults__ or {}).items()}
        for cell, its in zip(cells, original.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self._value(its.cell_contents)
            except ValueError:  # an empty one
                raise NeedsThisProcess(f"{original.__name__} uses a name without a value") from None
        for name in _global_names(original.__code__):
            if name in theirs:
                namespace[name] = self._value(theirs[name])
        return copy

    def _value(self, value: Any) -> Any:
        if type(value) in _CONSTANTS:
            return value
        if type(value) in (tuple, frozenset):
            return type(value)(map(self._value, value))
        if isinstance(value, ModuleType) and _is_standard(value.__name__):
            return value
        if isinstance(value, type | FunctionType | BuiltinFunctionType) and (
            _is_standard(value.__module__) or value.__module__ == _ERRORS
        ):
            return value
        if isinstance(value, FunctionType):
            return self.function(value)
        raise NeedsThisProcess(f"it uses {type(value).__name__}")


def _global_names(code: CodeType) -> Iterator[str]:
    """The global names that code reads, that of inner functions and classes included.

    Raises:
        NeedsThisProcess: it changes one, or imports what is not of the standard library.
    """
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise NeedsThisProcess(f"it changes {step.argval}")
        if step.opname == "IMPORT_NAME" and not _is_standard(step.argval):
            raise NeedsThisProcess(f"it imports {step.argval}")
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _is_standard(module: str | None) -> bool:
    return bool(module) and str(module).partition(".")[0] in sys.stdlib_module_names
