"""The names that a LeetCode solution may use without importing them, as its site and LiveCodeBench's judge allow."""

from __future__ import annotations

import builtins
import importlib
import re
from functools import cache
from typing import Final

# Where two have the same name, the first counts.
_MODULES: Final = (
    *("typing", "collections", "heapq", "bisect", "math", "itertools", "functools", "string", "re", "random"),
    *("operator", "statistics", "copy", "datetime", "json", "io", "sys"),
)
_WORD = re.compile(r"[A-Za-z_]\w{0,40}+")
_DEPTH = "import sys\nsys.setrecursionlimit(50_000)\n"


@cache
def _customary() -> dict[str, str]:
    """Name -> the line that imports it."""
    lines = {name: f"import {name}" for name in _MODULES}
    for name in _MODULES:
        module = importlib.import_module(name)
        for word in getattr(module, "__all__", None) or [w for w in vars(module) if not w.startswith("_")]:
            if not hasattr(builtins, word):
                lines.setdefault(word, f"from {name} import {word}")
    return lines


def imports_for(code: str) -> str:
    """Lines to run before a program, which bind those of the names that it mentions."""
    customary = _customary()
    words = dict.fromkeys(_WORD.findall(code))
    return _DEPTH + "".join(f"{customary[word]}\n" for word in words if word in customary)
