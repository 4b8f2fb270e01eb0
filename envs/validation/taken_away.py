"""Takes modules and programs away from an environment while it plays, to see whether it reports the fault."""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

from rlvr.envs.core.text_env import TextEnv

# What cannot be missing: Python's own, and this package.
PYTHONS = sys.stdlib_module_names | {"rlvr"}


def own_modules(env: gym.Env[Any, Any]) -> frozenset[str]:
    """The module of a stranger's environment or task; empty for those of this package, whose tests do the same."""
    bare = env.unwrapped
    kinds = [type(bare)] if not isinstance(bare, TextEnv) else [type(bare.task)]
    return frozenset(kind.__module__ for kind in kinds if not kind.__module__.startswith(("rlvr.", "gymnasium.")))


@contextmanager
def modules_missing(names: frozenset[str]) -> Iterator[set[str]]:
    """Within, no import that a line of these modules makes is successful, and no program that it starts is there.

    Gives the names of what was asked for.
    """
    taken: set[str] = set()
    real_import, real_popen = builtins.__import__, subprocess.Popen.__init__

    def asked_by_them(depth: int) -> bool:
        frame: Any = sys._getframe(depth)
        while frame is not None and frame.f_globals.get("__name__") in ("subprocess", __name__, "os"):
            frame = frame.f_back
        return frame is not None and frame.f_globals.get("__name__") in names

    def no_import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        theirs = globals is not None and globals.get("__name__") in names
        if theirs and level == 0 and name.partition(".")[0] not in PYTHONS:
            taken.add(f"the module {name}")
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real_import(name, globals, locals, fromlist, level)

    def no_program(self: Any, args: Any, *rest: Any, **named: Any) -> None:
        program = args if isinstance(args, str) else next(iter(args), "")
        if asked_by_them(2) and str(program) != sys.executable:
            taken.add(f"the program {str(program)[:40]}")
            raise FileNotFoundError(2, "No such file or directory", str(program)[:40])
        real_popen(self, args, *rest, **named)

    builtins.__import__ = no_import
    subprocess.Popen.__init__ = no_program  # type: ignore[method-assign]
    try:
        yield taken
    finally:
        builtins.__import__ = real_import
        subprocess.Popen.__init__ = real_popen  # type: ignore[method-assign]
