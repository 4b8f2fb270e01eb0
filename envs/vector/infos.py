"""Infos: the infos of many environments in Gymnasium's layout, gathered when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]


class Infos(dict[str, Any]):
    """What ``gymnasium.vector`` calls infos: ``infos[key][i]`` of environment i, and ``infos["_" + key][i]`` whether it
    present that key at all.

    Gymnasium fills an array for every key of every environment at every step, which costs more than the steps. Here a
    key costs when it is read, once. To everybody else this is a dict; only C code that reads a dict's memory without
    asking it sees the keys that were read so far. A pickle or a deep copy is a plain dict.

    An array has the type of its values: numbers of one type, arrays of one shape, a nested dict for dicts, and objects
    (None where a key is missing) for everything else, mixed types included.

    Attributes:
        rows: the infos as the environments gave them; None for one without infos.
    """

    def __init__(self, rows: Sequence[Row | None]) -> None:
        super().__init__()
        self.rows = rows
        self._whole = False

    def __missing__(self, key: str) -> Any:
        if not self._whole and isinstance(key, str):
            for name in (key, key.removeprefix("_")):
                column = _column(self.rows, name)
                if column is not None:
                    super().setdefault(name, column[0])
                    super().setdefault(f"_{name}", column[1])
                    return super().__getitem__(key)
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, as in a dictionary."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and self.get(key, self) is not self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()),)

    def fill(self) -> None:
        """Gather every key that was not read yet."""
        if not self._whole:
            names = dict.fromkeys(name for row in self.rows if row for name in row)
            for name in names:
                if not super().__contains__(name):
                    _ = self[name]
            self._whole = True


def _filled_first(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def call(self: Infos, *args: Any, **kwargs: Any) -> Any:
        self.fill()
        return method(self, *args, **kwargs)

    call.__name__, call.__doc__ = name, method.__doc__
    return call


for _name in (
    *("__iter__", "__reversed__", "__len__", "__eq__", "__ne__", "__repr__", "__or__", "__ror__", "__delitem__"),
    *("keys", "values", "items", "copy", "pop", "popitem", "setdefault", "clear"),
):
    setattr(Infos, _name, _filled_first(_name))


def _column(rows: Sequence[Row | None], name: str) -> tuple[Any, np.ndarray[Any, Any]] | None:
    """The values of a key and which environments have it; None if none has."""
    count = len(rows)
    try:
        values = [row[name] for row in rows]  # type: ignore[index]
        mask = np.ones(count, dtype=np.bool_)
    except (KeyError, TypeError):  # not every environment has it
        present = [bool(row) and name in row for row in rows]  # type: ignore[operator]
        mask = np.array(present, dtype=np.bool_)
        values = [row[name] for row in rows if row and name in row]
    if not values:
        return None
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 and name != "final_obs" else object
    if kind is dict:
        return Infos([row[name] if row and name in row else None for row in rows]), mask
    return _array(kind, values, mask), mask


def _array(kind: type, values: list[Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values where the mask is True; zeros, or None, elsewhere."""
    if kind in (int, float, bool) or issubclass(kind, np.number):
        numbers = np.zeros(len(mask), dtype=kind)
        try:
            numbers[mask] = values
            return numbers
        except OverflowError:  # a whole number of more than 64 bits
            pass
    if kind is np.ndarray and len({(value.shape, value.dtype) for value in values}) == 1:
        stacked = np.zeros((len(mask), *values[0].shape), dtype=values[0].dtype)
        stacked[mask] = values
        return stacked
    things = np.full(len(mask), None, dtype=object)
    things[mask] = np.fromiter(values, object, len(values))
    return things
