"""Names of choices: the nearest one for a wrong one, and the new one for an old one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(given: str, allowed: Iterable[str]) -> str:
    """``; did you mean 'grpo'?`` where something is near, else nothing."""
    close = difflib.get_close_matches(str(given), list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(what: str, given: str, allowed: Iterable[str]) -> None:
    """Refuse a name that is not allowed.

    Raises:
        ValueError: says which are, and the nearest.
    """
    allowed = list(allowed)
    if given not in allowed:
        raise ValueError(f"unknown {what} {given!r}{hint(given, allowed)}; allowed: {', '.join(allowed)}")
