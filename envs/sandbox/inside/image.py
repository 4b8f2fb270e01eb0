"""The first process of a root filesystem of its own: it unpacks files, runs one command, and packs the files again.

It runs alone, as ``python -c``, so it imports nothing of ours. From its input it reads a line of JSON and a tar; it
writes a line of JSON and a tar. What the command left running is ended before the files are packed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import threading
import time
from typing import Any, BinaryIO

MAX_ENTRIES = 20_000
_BLOCK = 1 << 16
_LATEST = 1 << 40  # seconds: a time that every file system and os.utime take
_PR_SET_DUMPABLE = 4
_STOPPED_CHECK = 0.2  # seconds between looks whether the command has stopped itself


class TooMuch(Exception):
    """More files, or more bytes in them, than may be packed."""


def unpack(packed: bytes) -> None:
    """Files with their owners, modes and times below ``/``."""
    if packed:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:*") as tar:
            tar.extraction_filter = staticmethod(lambda entry, path: entry)  # what 3.12 asks for
            tar.extractall("/", numeric_owner=True)


def pack(folders: list[str], left_out: list[str], max_bytes: int) -> bytes:
    """The folders as a tar.

    Raises:
        TooMuch: over ``max_bytes`` bytes or 20,000 entries, or deeper than a path can name.
    """
    count = size = 0

    def counted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal count, size
        if f"/{entry.name}" in left_out:
            return None
        count, size = count + 1, size + entry.size
        if count > MAX_ENTRIES or size > max_bytes:
            raise TooMuch
        entry.mtime = min(max(entry.mtime, -_LATEST), _LATEST)
        return entry

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for folder in folders:
            try:
                tar.add(folder, filter=counted)
            except (RecursionError, OSError):
                raise TooMuch from None
    if packed.tell() > 2 * max_bytes:  # long names
        raise TooMuch
    return packed.getvalue()


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Run the command; its exit code (None past its time) and what it printed."""

    def limit() -> None:
        for name, bound in order["limits"].items():
            resource.setrlimit(getattr(resource, name), (bound, bound))
        os.umask(0o022)

    try:
        os.makedirs(order["cwd"], exist_ok=True)
    except OSError as error:
        return {"exit_code": 126, "output": f"there is no folder {order['cwd']}: {error.strerror}"}
    reading, writing = os.pipe()
    kept = _Output(os.fdopen(reading, "rb"), order["output_bytes"])  # begins first: the command may use up all threads
    try:
        process = subprocess.Popen(
            ["/bin/bash", "-c", order["command"]], cwd=order["cwd"], env=order["env"], stdin=subprocess.DEVNULL,
            stdout=writing, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limit,
        )  # fmt: skip
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        return {"exit_code": 126, "output": f"bash takes no script of {len(order['command'])} characters"}
    finally:
        os.close(writing)
    code = _waited(process, order["seconds"])
    _end_all()
    process.wait()
    kept.join()
    return {"exit_code": code, "output": kept.text()}


def _waited(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of the command; of one that has stopped itself, which nobody would let go on, as if the signal had
    ended it; None past its time."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, _STOPPED_CHECK))
        if os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None:
            return 128 + signal.SIGSTOP
    return None


def _end_all() -> None:
    """End every other process here: this is process 1, which a signal to all leaves out."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


class _Output(threading.Thread):
    """Reads what is printed to its end, and keeps the first and the last of it."""

    def __init__(self, stream: Any, max_bytes: int) -> None:
        super().__init__(daemon=True)
        self._stream, self._half = stream, max_bytes // 2
        self._first, self._last, self._count = bytearray(), bytearray(), 0
        self.start()

    def run(self) -> None:
        while block := self._stream.read1(_BLOCK):
            self._count += len(block)
            missing = self._half - len(self._first)
            self._first += block[:missing]
            self._last = (self._last + block[missing:])[-self._half :]

    def text(self) -> str:
        left_out = self._count - len(self._first) - len(self._last)
        middle = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return (bytes(self._first) + middle + bytes(self._last)).decode("utf-8", "replace")


def close_to_the_command() -> None:
    """Nothing that the command does reaches this process: not its memory, its descriptors, or its handlers.

    Raises:
        OSError: the kernel refuses that.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(dumpable)")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel drops what process 1 has no handler for
    tarfile.pwd = tarfile.grp = None  # type: ignore[attr-defined]  # names would be read from the command's /etc


def main(orders: BinaryIO, answers: BinaryIO) -> None:
    close_to_the_command()
    order = json.loads(orders.readline())
    unpack(orders.read())
    answer = run(order)
    files = b""
    try:
        files = pack(order["folders"], order["left_out"], order["most_bytes"])
    except TooMuch:
        answer["too_much"] = True
    answers.write(json.dumps(answer).encode() + b"\n" + files)
    answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
