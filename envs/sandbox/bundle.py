"""The code that travels into a sandbox: this package's own files, as one JSON text in memory.

The sandbox sees neither this package nor the folder it is installed in, and need not run the same version of Python:
a file goes along as compiled code and as source, and the other side takes what it can read.
"""

from __future__ import annotations

import binascii
import importlib.util
import json
import marshal
import sys
from functools import cache
from types import CodeType

_PACKAGE = "rlvr.envs.sandbox"
_INSIDE = (
    *("inside.kernel", "inside.scratch", "inside.channel", "inside.wire", "inside.referee", "inside.terminal"),
    *("inside.program", "inside.cleaner", "inside.zygote", "inside.container"),
)
_SUPERVISOR = ("inside.kernel", "inside.scratch", "inside.channel", "cgroups", "supervisor")

# Reads a bundle (from descriptor 4, or framed from standard input) and starts one of its modules.
_LOAD = """
import binascii, json, marshal, sys, types
def load(text):
    bundle = json.loads(text)
    for name in ("rlvr", "rlvr.envs", "rlvr.envs.sandbox", "rlvr.envs.sandbox.inside"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    for name, code, source in bundle["modules"]:
        module = sys.modules[name] = types.ModuleType(name)
        module.__file__ = name
        same = bundle["python"] == sys.hexversion
        exec(marshal.loads(binascii.a2b_base64(code)) if same else compile(source, name, "exec"), module.__dict__)
    return module
"""
BOOT_FROM_DESCRIPTOR = f"""{_LOAD}
import os
module = load(os.pread(4, 1 << 24, 0))
if sys.argv[1] == "supervisor":
    module.main(3)
sys.modules["rlvr.envs.sandbox.inside.zygote"].serve(3, json.loads(sys.argv[2]))
"""
BOOT_FROM_INPUT = f"""{_LOAD}
import os
def take():
    size, text = b"", b""
    while not size.endswith(b"\\n"):
        size += os.read(0, 1)
    while len(text) < int(size):
        text += os.read(0, min(1 << 16, int(size) - len(text)))
    return text
load(take()).run(json.loads(take()))
"""


def _packed(names: tuple[str, ...]) -> bytes:
    modules = []
    for name in names:
        full = f"{_PACKAGE}.{name}"
        spec = importlib.util.find_spec(full)
        if spec is None or spec.loader is None:
            raise ImportError(f"{full} is missing from this installation")
        source, code = spec.loader.get_source(full), spec.loader.get_code(full)  # type: ignore[attr-defined]
        packed = binascii.b2a_base64(marshal.dumps(_renamed(code, full)), newline=False)
        modules.append([full, packed.decode(), source])
    return json.dumps({"python": sys.hexversion, "modules": modules}).encode()


def _renamed(code: CodeType, name: str) -> CodeType:
    """The same code without the path it was installed under: tracebacks in the sandbox must not tell it."""
    constants = tuple(_renamed(c, name) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=name, co_consts=constants)


@cache
def inside() -> bytes:
    """What runs within a sandbox."""
    return _packed(_INSIDE)


@cache
def supervisor() -> bytes:
    """What the supervisor runs."""
    return _packed(_SUPERVISOR)
