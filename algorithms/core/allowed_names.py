"""Names of choices: the nearest one for a wrong one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rlvr.envs.core.hints import nearest


def hint(given: str, allowed: Iterable[str]) -> str:
    """``; did you mean 'grpo'?`` where something is near, else nothing."""
    near = nearest(given, allowed)
    return f"; did you mean {near!r}?" if near else ""


def one_of(what: str, given: str, allowed: Collection[str]) -> None:
    """Refuse a name that is not allowed.

    Raises:
        ValueError: says which are, and the nearest.
    """
    if given not in allowed:
        raise ValueError(f"unknown {what} {given!r}{hint(given, allowed)}; allowed: {', '.join(allowed)}")
