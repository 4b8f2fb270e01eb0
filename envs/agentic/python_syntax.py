"""Parsing Python from several threads."""

from __future__ import annotations

import ast
import threading

_PARSING = threading.RLock()


def parse_python(source: str) -> ast.Module:
    """`ast.parse`, one thread at a time.

    CPython counts the depth of a tree for the whole interpreter while it makes it. Where garbage is collected in
    between and another thread parses, too, it raises SystemError (gh-106905, seen in 3.11.7).
    """
    with _PARSING:
        return ast.parse(source)
