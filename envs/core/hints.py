"""Hints: what somebody probably meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: object, known: Iterable[str]) -> str | None:
    """The known name that is spelt most alike; None where none is like it."""
    return next(iter(difflib.get_close_matches(str(given), list(known), 1)), None)


def did_you_mean(given: object, known: Iterable[str], otherwise: str = "there are") -> str:
    """The end of an error's sentence: the nearest name, or all there are behind ``otherwise``.

    >>> did_you_mean("indx", ("index", "split"))
    "; did you mean 'index'?"
    >>> did_you_mean("x", ("index", "split"))
    '; there are index, split'
    """
    names = list(known)
    near = nearest(given, names)
    return f"; did you mean {near!r}?" if near else f"; {otherwise} {', '.join(names)}"
