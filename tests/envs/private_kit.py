"""A kit whose sessions draw at random and count, in this process."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from rlvr.envs.tools import Kit, tool


def draw(session: dict[str, Any]) -> str:
    """Draw a number that no other session has."""
    session["drawn"] = session["random"]()
    return str(session["drawn"])


def tell(session: dict[str, Any]) -> str:
    """Tell the number that was drawn."""
    return str(session.get("drawn", "none"))


def add(session: dict[str, Any]) -> str:
    """Count one up."""
    session["count"] = session.get("count", 0) + 1
    return str(session["count"])


def seven() -> int:
    return 7


class Drawing(Kit):
    """Sessions in this process that draw; ``kinds`` gives the source of each session's numbers, in turn."""

    remembers = True
    tools = (tool(draw, given=1), tool(tell, given=1), tool(add, given=1))

    def __init__(self, *kinds: Callable[[], Any]) -> None:
        self.kinds = kinds or (secrets.token_hex,)
        self.opened: list[dict[str, Any]] = []
        self.closed: list[dict[str, Any]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Drawing, self.kinds

    def open(self) -> dict[str, Any]:
        session = {"random": self.kinds[len(self.opened) % len(self.kinds)]}
        self.opened.append(session)
        return session

    def close(self, session: dict[str, Any]) -> None:
        self.closed.append(session)

    @property
    def alive(self) -> int:
        return len(self.opened) - len(self.closed)
