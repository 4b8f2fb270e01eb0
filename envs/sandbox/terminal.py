"""The inside of a terminal: bash on a pseudo-terminal, keys in, what it draws out, and a copy of its workspace.

One shell, with programs that ran before it came (daemons). After each key the terminal *rests* before the next is
typed: nothing runs any more, and some program in the foreground waits for keys. Where the run has a ``/proc`` of its
own this is seen and not guessed; elsewhere a time of silence has to do.
Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import binascii
import contextlib
import fcntl
import os
import platform
import select
import signal
import stat
import struct
import subprocess
import termios
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from rlvr.envs.sandbox import kernel

KEPT_HEAD, KEPT_TAIL = 8_000, 24_000  # bytes of what one request printed; the middle of more is left out
MOST_PRINTED = 1 << 20  # a program that prints more in one request is left waiting for the next
MOST_FILES, MOST_BYTES, MOST_COPIED = 2_000, 64_000, 600_000  # of a copy: files, bytes of one, bytes of all
_GLANCE = 0.002  # seconds between two looks at the processes
_SILENCE, _LONG_SILENCE = 0.15, 3.0  # seconds that count as rest without /proc: at a prompt, and during a command
# System calls in which a program waits for keys: those that name the descriptor first, and those that wait for many.
_READS, _WAITS = {"x86_64": ({0}, {7, 23, 232, 270, 271, 281}), "aarch64": ({63}, {22, 72, 73})}.get(
    platform.machine(), (set(), set())
)


def serve(request: dict[str, Any], requests: Iterator[dict[str, Any]], reply: Callable[[dict[str, Any]], None]) -> int:
    """Answer requests until their channel closes: ``keys`` types, ``mark`` tells a checksum of the workspace, ``copy``
    ends all that runs and reads the workspace."""
    kernel.set_dumpable(0)  # what is typed into must not be read or written through /proc by what it types to
    terminal = _Terminal(request)
    for message in requests:
        if "keys" in message:
            answer = terminal.type(message["keys"], message["seconds"])
        else:
            answer = {"mark": terminal.mark()} if "mark" in message else terminal.copy()
        reply({"nonce": message["nonce"], **answer})
    return 0


class _Terminal:
    def __init__(self, request: dict[str, Any]) -> None:
        self._home, self._leads = request["home"], request.get("leads", False)
        pty: tuple[int, int] = request.get("pty") or os.openpty()
        self._master, self._slave = pty
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", request["rows"], request["columns"], 0, 0))
        os.set_blocking(self._master, False)
        if self._leads:  # nothing here may start a session: then this is the one
            fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": self._home, "LANG": "C.UTF-8", "TERM": "linux", **request["variables"]
        }  # fmt: skip
        os.umask(0o022)
        if request["setup"]:
            subprocess.run(
                ["bash", "-c", request["setup"]], cwd=self._home, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, check=True,
            )  # fmt: skip
        self._daemons = {name: self._daemon(argv, given) for name, argv, given in request["daemons"]}
        self._printed = _Printed()
        self._shell = self._open()
        self._rest(time.monotonic() + 5.0)
        self._printed.last_line()

    def _open(self) -> subprocess.Popen[bytes]:
        def prepare() -> None:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGTTOU):
                signal.signal(number, signal.SIG_DFL)
            if not self._leads:
                os.setsid()
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=self._slave, stdout=self._slave, stderr=self._slave,
            cwd=self._home, env=self._environment, preexec_fn=prepare,
        )  # fmt: skip
        if self._leads:  # process groups are refused as well: bash must not try
            os.write(self._master, b" set +m\r")
        return shell

    def _daemon(self, argv: list[str], given: str) -> subprocess.Popen[bytes]:
        """Start a program in the background and wait for the line with which it says that it is ready."""
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._home,
            env=self._environment, start_new_session=not self._leads,
        )  # fmt: skip
        if process.stdin is None or process.stdout is None:
            raise OSError("a pipe is missing")
        process.stdin.write(given.encode())
        process.stdin.close()
        if not process.stdout.readline():
            raise OSError(f"{argv} ended before it was ready")
        return process

    # --- keys ---

    def type(self, keys: list[list[Any]], seconds: float) -> dict[str, Any]:
        """Type keys, each once the one before it has had its effect.

        Args:
            keys: bytes as base64, and seconds to wait at least (for a negative number: at most, for anything new).
            seconds: after so many the rest is left out.
        """
        self._printed = _Printed()
        until, rests, typed = time.monotonic() + seconds, True, 0
        for data, pause in keys:
            if not self._write(binascii.a2b_base64(data), until):
                rests = False
                break
            typed += 1
            self._wait(pause, until)
            rests = self._rest(until)
            if not rests:
                break
        return {"printed": self._printed.packed(), "rests": rests, "untyped": len(keys) - typed}

    def _write(self, data: bytes, until: float) -> bool:
        while data:
            self._read()
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                time.sleep(_GLANCE)
        return True

    def _wait(self, pause: float, until: float) -> None:
        end = min(until, time.monotonic() + abs(pause))
        while (left := end - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._master, select.POLLIN)
            if poll.poll(left * 1000):
                self._read()
                if pause < 0:
                    return

    def _read(self) -> bool:
        """Take what has been printed; True if there was something. To poll an end makes the kernel hand on what is
        on its way to it, so nothing is in flight afterwards."""
        poll, found = select.poll(), False
        poll.register(self._slave, select.POLLIN)
        poll.poll(0)
        while not self._printed.full:
            poll = select.poll()
            poll.register(self._master, select.POLLIN)
            if not poll.poll(0):
                break
            try:
                self._printed.add(os.read(self._master, 1 << 16))
            except OSError:
                break
            found = True
        return found

    # --- rest ---

    def _rest(self, until: float) -> bool:
        """Wait until the terminal rests; False if it did not, in time or in the bytes it may print."""
        before, silent_since, shells = None, time.monotonic(), 0
        while not self._printed.full:
            if self._read():
                before, silent_since = None, time.monotonic()
            if self._shell.poll() is not None:
                shells += 1
                if shells > 3:
                    return False
                self._printed.add(b"\r\n[the shell ended; this is a new one]\r\n")
                self._shell = self._open()
            now = self._processes()
            if now is None:
                if time.monotonic() - silent_since > (_LONG_SILENCE if self._reads_lines() else _SILENCE):
                    return True
            elif now == before and not any(state in "RDW" for _, state, _ in now) and self._awaits_keys(now):
                return True
            before = now
            if time.monotonic() > until:
                return False
            time.sleep(_GLANCE)
        return False

    def _reads_lines(self) -> bool:
        """Whether lines are read and not keys: so it is while bash runs a command, and not at its prompt."""
        return bool(termios.tcgetattr(self._slave)[3] & termios.ICANON)

    def _processes(self) -> list[tuple[int, str, str]] | None:
        """Number, state and time run so far of every process here but this one; None where they cannot be seen."""
        found, own = [], os.getpid()
        if own != 1:  # what is to be seen are the machine's
            return None
        children = {self._shell.pid, *(process.pid for process in self._daemons.values())}
        try:
            names = os.listdir("/proc")
        except OSError:
            return None
        for name in names:
            if name.isdecimal() and (pid := int(name)) != own:
                with contextlib.suppress(OSError):
                    with open(f"/proc/{pid}/stat") as file:
                        state, parent, *_ = file.read().rpartition(") ")[2].split()
                    if state == "Z" and int(parent) == own and pid not in children:
                        os.waitpid(pid, os.WNOHANG)  # an orphan that came to us
                        continue
                    with open(f"/proc/{pid}/schedstat") as file:
                        found.append((pid, state, file.read()))
        return found or None

    def _awaits_keys(self, processes: list[tuple[int, str, str]]) -> bool:
        """Whether a program of the foreground waits for keys; True as well where that cannot be told."""
        try:
            group = os.tcgetpgrp(self._master)  # the slave tells only those of its own session
        except OSError:
            return True
        told = False
        for pid, _, _ in processes:
            with contextlib.suppress(OSError, ValueError):
                if os.getpgid(pid) != group:
                    continue
                with open(f"/proc/{pid}/syscall") as file:
                    call, first, *_ = file.read().split()
                told = True
                number = int(call)
                if number in _READS:
                    if _is_terminal(pid, int(first, 16)):
                        return True
                elif number in _WAITS and any(_is_terminal(pid, fd) for fd in range(3)):
                    return True
        return not told

    # --- the workspace ---

    def copy(self) -> dict[str, Any]:
        """End everything but this, and read all files: by path a kind, content or target, and permissions."""
        ended = {name: process.poll() for name, process in self._daemons.items()}
        if os.getpid() == 1:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
        for process in (self._shell, *self._daemons.values()):
            process.kill()
            process.wait()
        found, room = {}, MOST_COPIED
        for short, path, kept in self._entries():
            if stat.S_ISLNK(kept.st_mode):
                found[short] = ["link", os.readlink(path), 0]
            elif stat.S_ISREG(kept.st_mode):
                data = None
                if kept.st_size <= min(room, MOST_BYTES):
                    os.chmod(path, 0o600)
                    data = _content(path)
                    room -= len(data)
                text = None if data is None else binascii.b2a_base64(data, newline=False).decode()
                found[short] = ["file", text, kept.st_mode & 0o7777]
        return {"files": found, "daemons": ended}

    def mark(self) -> int:
        """A checksum of the workspace as it is now: names, permissions, links, and the contents of texts. Left out are
        the contents of what is no text (archives and git's index hold times) and the notes that programs keep for
        themselves, hidden files at the top."""
        mark, room = 0, MOST_COPIED
        for short, path, kept in self._entries():
            if short.startswith(".") and "/" not in short:
                continue
            mark = zlib.crc32(f"{short} {kept.st_mode}".encode("utf-8", "surrogateescape"), mark)
            with contextlib.suppress(OSError):
                if stat.S_ISLNK(kept.st_mode):
                    mark = zlib.crc32(os.fsencode(os.readlink(path)), mark)
                elif stat.S_ISREG(kept.st_mode) and kept.st_size <= min(room, MOST_BYTES):
                    data = _content(path)
                    room -= len(data)
                    mark = mark if b"\0" in data else zlib.crc32(data, mark)
        return mark

    def _entries(self) -> Iterator[tuple[str, str, os.stat_result]]:
        """All that is in the workspace and is no folder: its path there, its path here, what it is."""
        count = 0
        for folder, folders, names in os.walk(self._home):
            folders.sort()
            for name in sorted(names + folders):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    kept = os.lstat(path)
                    if not stat.S_ISDIR(kept.st_mode):
                        count += 1
                        yield os.path.relpath(path, self._home), path, kept
            if count > MOST_FILES:
                return


class _Printed:
    """What was printed during one request: its beginning and its end."""

    def __init__(self) -> None:
        self._data, self._size = b"", 0

    @property
    def full(self) -> bool:
        return self._size > MOST_PRINTED

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._data += chunk
        if len(self._data) > 4 * (KEPT_HEAD + KEPT_TAIL):
            self._cut()

    def last_line(self) -> None:
        """Forget all but what stands on the last line."""
        self._data = self._data.rpartition(b"\n")[2]

    def _cut(self) -> None:
        if len(self._data) > KEPT_HEAD + KEPT_TAIL:
            self._data = self._data[:KEPT_HEAD] + b"\r\n" + self._data[-KEPT_TAIL:].partition(b"\n")[2]

    def packed(self) -> str:
        self._cut()
        return binascii.b2a_base64(self._data, newline=False).decode()


def _content(path: str) -> bytes:
    """At most ``MOST_BYTES`` of a file that may have become something else meanwhile."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        data = b""
        while len(data) < MOST_BYTES and (chunk := os.read(fd, MOST_BYTES - len(data))):
            data += chunk
        return data
    finally:
        os.close(fd)


def _is_terminal(pid: int, fd: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:
        return False
