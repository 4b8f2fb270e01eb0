"""The verifier of an exported Harbor folder: its file ``tests/verify.py``, beside ``wire.py`` and ``expected.json``.

It runs as root in a container of its own, on a copy of the agent's ``/app``. What the agent wrote is read as data, or
run as another user that can neither read ``/tests`` nor outlive the run. The reward is written last; a fault of the
verifier writes none, so that Harbor reports an error instead of a 0.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from rlvr.envs.sandbox.inside import wire

APP, TESTS, LOGS = Path("/app"), Path("/tests"), Path("/logs/verifier")
STRANGER = 61_111  # the user that the agent's programs run as
MAX_FILE, MAX_ANSWER = 1 << 20, 1 << 20  # bytes
SECONDS, TOTAL_SECONDS = 10.0, 100.0  # for one run, and for all of them
WORKER = """
import json, os, sys, types
request = json.loads(sys.stdin.buffer.read())
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
wire = types.ModuleType("wire")
exec(request["wire"], wire.__dict__)
space = {"__name__": "solution"}
exec(compile(request["code"], "solution.py", "exec"), space)
owner = space[request["entry"]]() if request["form"] == "class" else None
values = []
for call in request["calls"]:
    target = space[call["name"]] if owner is None else getattr(owner, call["name"])
    values.append(wire.encode(target(*[wire.decode(each) for each in call["args"]])))
os.write(out, wire.dump(values))
"""


def judged(expected: dict[str, Any]) -> tuple[int, str]:
    """The reward of what stands in ``APP``, and why."""
    problem = _program(expected) if expected["kind"] == "program" else _workspace(expected)
    return (0, problem) if problem else (1, "all is as it was asked")


def _workspace(expected: dict[str, Any]) -> str:
    """What is wrong with the files; "" if nothing is."""
    kinds = _kinds()
    for path, digest in expected["files"].items():
        if digest is None and path in kinds:
            return f"{path} should not be there"
        if digest is not None and _digest(_content(path, kinds)) != digest:
            return f"{path} is not as it should be"
    for path, value in expected["data"].items():
        if not _holds(_content(path, kinds), value):
            return f"{path} does not hold the JSON that it should"
    for path, target in expected["links"].items():
        if kinds.get(path) != "link" or os.readlink(APP / path) != target:
            return f"{path} is no link to {target}"
    for path, files in expected["archives"].items():
        if _unpacked(_content(path, kinds)) != files:
            return f"{path} does not hold what it should"
    return ""


def _program(expected: dict[str, Any]) -> str:
    """Which test the function or class fails; "" if it passes all."""
    code = _content(expected["path"], _kinds())
    if code is None:
        return f"{expected['path']} is no file of at most {MAX_FILE} bytes"
    source = Path(wire.__file__).read_text(encoding="utf-8")
    until = time.monotonic() + TOTAL_SECONDS
    for number, test in enumerate(expected["tests"], 1):
        request = {"wire": source, "code": code.decode("utf-8", "replace"), "calls": test["calls"]}
        if time.monotonic() > until:
            return f"test {number} was not reached in time"
        answer = _run(
            ["-I", "-c", WORKER], json.dumps(request | {key: expected[key] for key in ("entry", "form")}).encode()
        )
        try:
            got = wire.check(wire.load(answer))
        except wire.NotPlain:
            return f"test {number} got no value"
        if not wire.same(test["expected"], got, tolerance=0.0):
            return f"test {number} got another value"
    return ""


def _kinds() -> dict[str, str]:
    """What stands at each path of the workspace, symbolic links not followed."""
    kinds: dict[str, str] = {}
    folders = [APP]
    while folders:
        for entry in os.scandir(folders.pop()):
            path = str(Path(entry.path).relative_to(APP))
            if entry.is_symlink():
                kinds[path] = "link"
            elif entry.is_dir(follow_symlinks=False):
                kinds[path] = "folder"
                folders.append(Path(entry.path))
            else:
                kinds[path] = "file" if entry.is_file(follow_symlinks=False) else "other"
    return kinds


def _content(path: str, kinds: dict[str, str]) -> bytes | None:
    """A plain file's bytes; None if it is none, or too large."""
    if kinds.get(path) != "file" or (APP / path).stat().st_size > MAX_FILE:
        return None
    return (APP / path).read_bytes()


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _holds(content: bytes | None, value: Any) -> bool:
    try:
        loaded = wire.load(content or b"")
        return json.dumps(loaded, sort_keys=True) == json.dumps(value, sort_keys=True)
    except (ValueError, RecursionError):
        return False


def _unpacked(content: bytes | None) -> dict[str, str] | None:
    """The digests of a tar.gz's files; None if it is none, or holds something else than files."""
    held: dict[str, str] = {}
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(content or b"")).read(MAX_FILE)
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
            for entry in tar:
                file = tar.extractfile(entry) if entry.isreg() else None
                name = entry.name.removeprefix("./")
                if file is None or name in held:
                    return None
                held[name] = _digest(file.read(MAX_FILE))
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error):
        return None
    return held


def _run(arguments: list[str], stdin: bytes) -> bytes:
    """What Python prints as the other user, in an empty folder; b"" if it is too slow or fails."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as read:
        os.chmod(folder, 0o755)
        read.write(stdin)
        read.seek(0)
        # Files, since a pipe may be filled without end, or held open by a child of the program.
        process = _start(arguments, cwd=folder, stdin=read, stdout=printed)
        try:
            failed = process.wait(SECONDS) != 0
        except subprocess.TimeoutExpired:
            failed = True
        finally:
            _end_all()
            process.wait()
        printed.seek(0)
        return b"" if failed else printed.read(MAX_ANSWER)


def _start(arguments: list[str], **settings: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        start_new_session=True,
        preexec_fn=_limit,
        stderr=subprocess.DEVNULL,
        **settings,
    )


def _limit() -> None:
    limits = {
        resource.RLIMIT_AS: 1 << 30,
        resource.RLIMIT_CPU: int(SECONDS),
        resource.RLIMIT_FSIZE: MAX_ANSWER,
        resource.RLIMIT_NPROC: 32,
        resource.RLIMIT_CORE: 0,
    }
    for name, limit in limits.items():
        resource.setrlimit(name, (limit, limit))


def _end_all() -> None:
    """End every process of the other user, however many it has started."""
    code = "import os; os.kill(-1, 9)"
    subprocess.run([sys.executable, "-I", "-c", code], user=STRANGER, group=STRANGER, extra_groups=[], check=False)


def main() -> None:
    """Judge, and write the reward over whatever stands there."""
    os.chmod(TESTS, 0o700)
    expected = json.loads((TESTS / "expected.json").read_text(encoding="utf-8"))
    reward, reason = judged(expected)
    for name in os.listdir(LOGS):
        path = LOGS / name
        if name.startswith("reward"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with open(LOGS / "reward.txt", "x", encoding="utf-8") as file:
        file.write(f"{reward}\n")
    print(reason)


if __name__ == "__main__":
    main()
