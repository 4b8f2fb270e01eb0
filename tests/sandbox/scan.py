"""A program that searches its own memory for what other runs were about, and what is planted for it to find.

A canary is ``PREFIX`` and sixteen hexadecimal digits. The program never holds one itself (only the prefix, followed by
a quotation mark), unless it finds one or plants one. It needs no ``/proc``: the kernel says which addresses can be
read, for ``write(pipe, address)`` of one that cannot is an error and does no harm.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import Any

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, SandboxError

PREFIX = "KaNaRi"

SCANNER = r'''
import binascii, ctypes, os, re

def scan(prefix):
    """All canaries in this process: around the ends of its heap, its libraries, its stacks and its objects."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.write.argtypes, libc.write.restype = (ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t), ctypes.c_ssize_t
    libc.sbrk.argtypes, libc.sbrk.restype = (ctypes.c_ssize_t,), ctypes.c_size_t
    page, size, found = 4096, 61440, set()
    pattern = re.compile(prefix.encode() + rb"[0-9a-f]{16}")
    packed = re.compile(binascii.b2a_base64(prefix.encode(), newline=False) + rb"[A-Za-z0-9+/]{22}")
    wide = re.compile(b"".join(bytes([c, 0]) for c in prefix.encode()) + rb"(?:[0-9a-f]\0){16}")
    top = libc.sbrk(0)
    local, environ = ctypes.c_long(), ctypes.c_size_t.in_dll(libc, "environ")
    maps = [object() for _ in range(2000)] + [[0] * 3000 for _ in range(50)] + [bytearray(1 << 18) for _ in range(8)]
    anchors = {id(one) >> 20 for one in maps} | {id(type) >> 20, id(re) >> 20, ctypes.addressof(local) >> 20}
    anchors |= {environ.value >> 20, ctypes.cast(libc.write, ctypes.c_void_p).value >> 20}
    spans = [(top - (48 << 20), top)] + [((a << 20) - (24 << 20), (a << 20) + (24 << 20)) for a in sorted(anchors)]
    merged = []
    for low, high in sorted((max(low, 1 << 16), high) for low, high in spans):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low & -page, high])
    read, write = os.pipe()
    seen = 0
    for low, high in merged:
        at, tail = low, b""
        while at < high:
            got = libc.write(write, at, size)
            if got <= 0:
                at, tail = at + page, b""
                continue
            data = tail + os.read(read, got)
            seen += got
            for match in pattern.findall(data):
                found.add(match.decode())
            for match in wide.findall(data):
                found.add(match[::2].decode())
            for match in packed.findall(data):
                text = binascii.a2b_base64(match + b"==").decode("latin-1")[: len(prefix) + 16]
                if re.fullmatch(pattern.pattern.decode(), text):
                    found.add(text)
            tail, at = data[-64:], at + got
    os.close(read), os.close(write)
    return found, seen
'''

REPORT = f"""{SCANNER}
found, seen = scan({PREFIX!r})
print(len(found), seen, *sorted(found))
"""


class Canaries:
    """Makes canaries, and remembers which kind of request each went into. Any thread may ask for one."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def __call__(self, kind: str) -> str:
        canary = PREFIX + secrets.token_hex(8)
        self.made[canary] = kind
        return canary


def plant(box: Sandbox, new: Canaries, *, slow: bool = True) -> None:
    """Every kind of request there is, each with canaries in all that it is made of.

    Args:
        box: where.
        new: makes them.
        slow: with time-outs and with what fills a folder.
    """
    quick = Limits(seconds=0.3)
    long = "\n".join(f"# {new('long program')}" for _ in range(3000 if slow else 30))
    box.run_python(
        f"text = {new('program')!r} * 3\nprint(open('given').read(), text)  # é {new('wide program')} 😀\n{long}",
        f"{new('input')}\n" * 5, {"given": new("file"), f"name {new('name of a file')}": b"x"},
        argv=[new("argument")], env={"NAME": new("variable")},
    )  # fmt: skip
    box.run_shell(f"echo {new('command')} > {new('name in a folder')}; exit 3", new("input of a command"))
    box.run_python(f"def f():\n    raise ValueError({new('failure')!r})\nf()")
    box.run_python(f"syntax error {new('no program at all')}")
    box.run_python(f"import sys; sys.exit({new('last words')!r})")
    box.run_python(
        f"import threading\nkept = {new('program with threads')!r}\n"
        f"some = [threading.Thread(target=print, args=(kept + str(n),)) for n in range(8)]\n"
        "[one.start() for one in some]"
    )
    with contextlib.suppress(SandboxError):
        box.run_python("1", files={f"{new('program that cannot start')}\ud800": "x"})
    _sessions(box, new)
    for row, code in _graded(new):
        grade_code(f"```python\n{code}\n```", row, sandbox=box)
    if slow:
        box.run_python(f"x = {new('time-out')!r}\nwhile True: pass", new("input of a time-out"), limits=quick)
        box.run_python(f"while True: print({new('too much output')!r})", limits=Limits(output_bytes=5000))
        filling = f"for n in range(64): open({new('name of a large file')!r} + str(n), 'w').write('x' * 10**6)"
        box.run_python(filling + "\nimport time; time.sleep(2)", limits=Limits(seconds=5.0, disk_mb=2))


def _sessions(box: Sandbox, new: Canaries) -> None:
    with box.session(Limits(seconds=0.5), {"given": new("file of a session")}) as session:
        session.run(f"x = {new('call of a tool')!r}; x")
        session.run(f"raise ValueError({new('call of a tool that fails')!r})")
        session.run(f"open({new('name of a file of a tool')!r}, 'w').write('x')")
        session.run(f"x = {new('call of a tool past its deadline')!r}\nimport time; time.sleep(9)")
    with box.session() as session:
        session.run(f"x = {new('call out of turn')!r}\nimport os; os.write(4, b'x\\n')")
    with box.session() as session:
        session.run(f"x = {new('call that exits')!r}\nexit()")


def _graded(new: Canaries) -> list[tuple[dict[str, Any], str]]:
    """Rows of every form, with what solves them or does not."""
    secret = new("expected value")
    return [
        ({"entry_point": "f", "tests": [{"args": [new("argument of a call")], "expected": secret}]},
         f"def f(x): return {secret!r}"),
        ({"entry_point": "f", "tests": [{"args": [new("argument")], "expected": new("expected value")}]},
         f"def f(x): return {new('wrong answer')!r}"),
        ({"tests": [{"calls": [["C", [new("argument of a class")]], ["m", []]], "expected": [None, new("expected")]}]},
         "class C:\n    def __init__(self, x): self.x = x\n    def m(self): return self.x"),
        ({"tests": [{"stdin": new("input of a test"), "stdout": new("output of a test")}]}, "print(input())"),
        ({"prompt": f"# {new('prompt')}\n", "entry_point": "f",
          "test": f"def check(candidate):\n    assert candidate(1) == {new('assertion')!r}\n"
                  f"    assert candidate({new('argument in an assertion')!r}) == 3"},
         "def f(x): return 3"),
        ({"test_list": [f"assert f({new('argument in a list')!r}) == {new('assertion in a list')!r}"],
          "test_setup_code": f"SETUP = {new('setup of assertions')!r}"},
         f"def f(x): return {new('answer')!r}"),
    ]  # fmt: skip
