"""The inside of a terminal: bash on a pseudo-terminal, keys in, what it draws out, and a copy of its workspace.

One shell, with programs that ran before it came (daemons). After each key the terminal *rests* before the next is
typed: nothing runs any more, and some program in the foreground waits for keys. That is known and not guessed, so it
does not depend on how busy the machine is:

- No key typed is left unread (``FIONREAD``).
- Where the run has a ``/proc`` of its own, it shows what every process does.
- Elsewhere the shell says when it begins a command and when it asks for the next, by marks in its prompts (OSC 133)
  that are taken out of what it printed; and the kernel says whether a program is blocked in reading the terminal. Only
  for a program that takes keys one by one, an editor say, a time of silence has to do.
Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import binascii
import contextlib
import fcntl
import functools
import math
import os
import platform
import queue
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rlvr.envs.sandbox.inside import kernel

KEPT_HEAD, KEPT_TAIL = 8_000, 24_000  # bytes of what one request printed; the middle of more is left out
MOST_PRINTED = 1 << 20  # a program that prints more in one request is left waiting for the next
MOST_FILES, MOST_BYTES, MOST_COPIED = 2_000, 64_000, 600_000  # of a copy: files, bytes of one, bytes of all
_GLANCE = 0.002  # seconds between two looks at the processes
# Silence, where it has to do: seconds, and as many looks, each of which waits for the processor like everybody else.
_SILENCE, _LONG_SILENCE, _BLIND_SILENCE = (0.15, 75), (1.0, 300), (3.0, 300)
_LATE = 0.05  # seconds between two looks that count at most: if there were more, the machine was busy with others
_OPENING = 30.0  # seconds until the shell must ask for its first command
# What bash adds to its prompts: A behind one, C before a command. An interactive dash shows the brackets as they stand.
_MARK = re.compile(rb"\x1b\]133;([AC])\x07")
_PRINTED_MARK = re.compile(rb"(?:\\\[)?\x1b\]133;[AC]\x07(?:\\\])?")
_PROMPTS = {"PS0": "\x1b]133;C\x07", "PS1": "\\[\x1b]133;A\x07\\]", "PS2": "\\[\x1b]133;A\x07\\]"}
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)
_ENDS, _SIGNALS = re.compile(rb"[\r\n]"), re.compile(rb"[\x03\x1a\x1c]")
# System calls in which a program waits for keys: those that name the descriptor first, and those that wait for many,
# with the argument that says how long: in milliseconds, or where a time of seconds and parts of one stands.
_READS, _WAITS = {
    "x86_64": ({0}, {7: (2, 0.0), 23: (4, 1e-6), 232: (3, 0.0), 270: (4, 1e-9), 271: (2, 1e-9), 281: (3, 0.0)}),
    "aarch64": ({63}, {22: (3, 0.0), 72: (4, 1e-9), 73: (2, 1e-9)}),
}.get(platform.machine(), (set(), {}))
# A program that waits for less goes on by itself soon: vi, on its way out, for 0.1 s, and then throws away what was
# typed. One that has waited so for long, again and again, has a clock; what it does between two waits, such as to bring
# a file to a busy disk, does not count.
_BRIEF, _LONG_BRIEF = 0.5, 1.0  # seconds


def serve(request: dict[str, Any], requests: Iterator[dict[str, Any]], reply: Callable[[dict[str, Any]], None]) -> int:
    """Answer requests until their channel closes: ``keys`` types, ``mark`` tells a checksum of the workspace, ``copy``
    ends all that runs and reads the workspace."""
    kernel.set_dumpable(0)  # what is typed into must not be read or written through /proc by what it types to
    try:
        terminal = _Terminal(request)
    except _NotOpened as reason:
        print(reason, file=sys.stderr)  # behind what the setup printed
        return 1
    for message in requests:
        if "keys" in message:
            answer = terminal.type(message["keys"], message["seconds"])
        else:
            answer = {"mark": terminal.mark()} if "mark" in message else terminal.copy()
        reply({"nonce": message["nonce"], **answer})
    return 0


class _NotOpened(Exception):
    """The setup failed, or a daemon did."""


class _Terminal:
    def __init__(self, request: dict[str, Any]) -> None:
        self._home, self._leads = request["home"], request.get("leads", False)
        pty: tuple[int, int, int] = request.get("pty") or kernel.open_terminal()
        self._master, self._slave, self._watch = pty
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", request["rows"], request["columns"], 0, 0))
        os.set_blocking(self._master, False)
        if self._leads:  # nothing here may start a session: then this is the one
            fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        for number in _OF_TERMINALS:
            signal.signal(number, signal.SIG_IGN)
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": self._home, "LANG": "C.UTF-8", "TERM": "linux",
            "PYTHONHASHSEED": "0", **request["variables"],
        }  # fmt: skip
        environment = {"PS0": "", "PS1": "\\s-\\v\\$ ", "PS2": "> ", **self._environment}
        self._shells_environment = {
            **environment,
            **{name: environment[name] + mark for name, mark in _PROMPTS.items()},
        }
        os.umask(0o022)
        self._starter = _Starter(shared_signals=not self._leads)
        if request["setup"]:
            setup = self._starter.start_process(
                ["bash", "-c", request["setup"]], cwd=self._home, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            if setup.wait():
                raise _NotOpened(f"(exit status {setup.returncode} of the setup)")
        self._daemons = {name: self._daemon(argv, environment) for name, argv, environment in request["daemons"]}
        self._printed, self._prompt_marks = _Printed(), _Said()
        self._hidden: set[tuple[int, str]] = set()  # processes that the last look could not look into
        self._shell = self._open()
        if not self._rest(_Clock(_OPENING), self._opened):
            raise OSError("the shell did not ask for a command")
        self._printed.last_line()

    def _open(self) -> subprocess.Popen[bytes]:
        def prepare() -> None:
            for number in _OF_TERMINALS:
                signal.signal(number, signal.SIG_DFL)
            if not self._leads:
                os.setsid()
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        shell = self._starter.start_process(
            ["bash", "--norc", "--noprofile"], stdin=self._slave, stdout=self._slave, stderr=self._slave,
            cwd=self._home, env=self._shells_environment, preexec_fn=prepare,
        )  # fmt: skip
        self._opened = _Awaited(self._prompt_marks.prompts + 1 + self._leads, entered=True)
        if self._leads:  # process groups are refused as well: bash must not try
            os.write(self._master, b" set +m\r")
        return shell

    def _daemon(self, argv: list[str], stdin_text: str) -> subprocess.Popen[bytes]:
        """Start a program in the background and wait for the line with which it says that it is ready."""
        process = self._starter.start_process(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._home,
            env=self._environment, start_new_session=not self._leads,
        )  # fmt: skip
        if process.stdin is None or process.stdout is None:
            raise OSError("a pipe is missing")
        process.stdin.write(stdin_text.encode())
        process.stdin.close()
        if not process.stdout.readline():
            raise _NotOpened(f"{argv} ended before it was ready")
        return process

    # --- keys ---

    def type(self, keys: list[list[Any]], seconds: float) -> dict[str, Any]:
        """Type keys, each once the one before it has had its effect.

        Args:
            keys: bytes as base64, and seconds to wait at least (for a negative number: at most, for anything new).
            seconds: after so many the rest is left out; those in which the machine was busy with others do not count.
        """
        self._printed = _Printed()
        clock, rests, typed = _Clock(seconds), True, 0
        for encoded, pause in keys:
            data = binascii.a2b_base64(encoded)
            lines = len(_ENDS.findall(data))
            awaited = _Awaited(self._prompt_marks.prompts + lines, lines > 0, bool(_SIGNALS.search(data)))
            rests = self._write(data, clock)
            if not rests:
                break
            typed += 1
            self._wait(pause, clock)
            rests = self._rest(clock, awaited)
            if not rests:
                break
        untyped = len(keys) - typed
        return {"printed": self._printed.packed(), "rests": rests, "untyped": untyped, "spent": clock.spent}

    def _write(self, data: bytes, clock: _Clock) -> bool:
        while data:
            self._read()
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                self._wake()
                clock.tick(self._processes())
                if clock.is_over():
                    return False
                time.sleep(_GLANCE)
        return True

    def _wait(self, pause: float, clock: _Clock) -> None:
        end = time.monotonic() + abs(pause)
        while (left := end - time.monotonic()) > 0 and not clock.is_over():
            poll = select.poll()
            poll.register(self._master, select.POLLIN)
            events = poll.poll(min(left, _LATE) * 1000)
            clock.tick(self._processes())
            if events:
                self._read()
                if pause < 0:
                    return

    def _read(self) -> bool:
        """Take what has been printed; True if there was something. To poll an end makes the kernel hand on what is
        on its way to it, so nothing is in flight afterwards."""
        poll, has_news = select.poll(), False
        poll.register(self._slave, select.POLLIN)
        poll.poll(0)
        while not self._printed.full:
            poll = select.poll()
            poll.register(self._master, select.POLLIN)
            if not poll.poll(0):
                break
            try:
                chunk = os.read(self._master, 1 << 16)
            except OSError:
                break
            self._printed.add(chunk)
            self._prompt_marks.take(chunk)
            has_news = True
        return has_news

    # --- rest ---

    def _rest(self, clock: _Clock, awaited: _Awaited) -> bool:
        """Wait until the terminal rests; False if it did not, in time or in the bytes it may print."""
        before, still, shells, printed, briefly = None, _Stillness(), 0, False, 0.0
        while not self._printed.full:
            if self._read():
                before, still, printed = None, _Stillness(), True
            if self._shell.poll() is not None:
                shells += 1
                if shells > 3:
                    return False
                self._printed.add(b"\r\n[the shell ended; this is a new one]\r\n")
                self._shell = self._open()
                awaited = self._opened
            self._wake()
            now, waits_briefly = self._processes(), False
            if self._unread():
                still = _Stillness()
            elif now is None:
                if self._is_still(still, awaited, printed):
                    if not self._read():  # what it waits in may have been entered after the last words, and both since
                        return True
                    still, printed = _Stillness(), True
            elif now == before and not any(state in "RDW" for _, state, _ in now):
                patience = self._patience(now)
                if patience >= _BRIEF:
                    return True
                waits_briefly = patience > 0
            before, spent = now, clock.spent
            clock.tick(now)
            if waits_briefly:
                briefly += clock.spent - spent
                if briefly > _LONG_BRIEF:
                    return True
            if clock.is_over():
                return False
            time.sleep(_GLANCE)
            still.looks += 1
        return False

    def _wake(self) -> None:
        """Let the shell go on if it was stopped: nobody else would."""
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, self._shell.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None:
                self._shell.send_signal(signal.SIGCONT)

    def _is_still(self, still: _Stillness, awaited: _Awaited, printed: bool) -> bool:
        """Whether the terminal rests, as far as it can be known without a list of processes."""
        silent, is_read = still.lasts(_SILENCE), self._is_read()
        if is_read:  # a program that a signal wakes may not have noticed it yet
            return silent if awaited.signalled else still.looks >= 10
        if self._reads_lines():  # so it is while bash runs a command, and not at its prompt
            return is_read is None and still.lasts(_BLIND_SILENCE)
        if self._prompt_marks.runs:
            return silent
        if self._prompt_marks.prompts < awaited.prompts:
            return still.lasts(_LONG_SILENCE)
        return silent or still.looks >= (3 if awaited.entered else 15 if printed else 75)

    def _unread(self) -> bool:
        """Whether keys were typed that nobody has read yet."""
        count: int = struct.unpack("i", fcntl.ioctl(self._slave, termios.FIONREAD, bytes(4)))[0]
        return count > 0

    def _is_read(self) -> bool | None:
        """Whether a program is blocked in reading the terminal; None where the kernel does not tell.

        Readers hold a lock, for which a read that must not wait, even of nothing, does not wait.
        """
        if self._watch < 0:
            return None
        try:
            os.read(self._watch, 0)
        except BlockingIOError:
            return True
        except OSError:
            return None
        return False

    def _reads_lines(self) -> bool:
        """Whether lines are read and not keys."""
        return bool(termios.tcgetattr(self._slave)[3] & termios.ICANON)

    def _processes(self) -> list[tuple[int, str, str]] | None:
        """Number, state and time run so far of every process here but this one; None where they cannot be seen."""
        processes, own_pid = [], os.getpid()
        if own_pid != 1:  # what is to be seen are the machine's
            return None
        children = {self._shell.pid, *(process.pid for process in self._daemons.values())}
        try:
            names = os.listdir("/proc")
        except OSError:
            return None
        for name in names:
            if name.isdecimal() and (pid := int(name)) != own_pid:
                with contextlib.suppress(OSError):
                    with open(f"/proc/{pid}/stat") as file:
                        state, parent, *_ = file.read().rpartition(") ")[2].split()
                    if state == "Z" and int(parent) == own_pid and pid not in children:
                        os.waitpid(pid, os.WNOHANG)  # an orphan that came to us
                        continue
                    with open(f"/proc/{pid}/schedstat") as file:
                        processes.append((pid, state, file.read()))
        return processes or None

    def _patience(self, processes: list[tuple[int, str, str]]) -> float:
        """Seconds for which a program of the foreground waits for keys: 0 if none does, infinite as well where that
        cannot be known."""
        try:
            group = os.tcgetpgrp(self._master)  # the slave knows only those of its own session
        except OSError:
            return math.inf
        longest, hidden = 0.0, set()
        for pid, _, counted in processes:
            try:
                if os.getpgid(pid) != group:
                    continue
                with open(f"/proc/{pid}/syscall") as file:
                    call, *arguments = file.read().split()
            except PermissionError:  # for good, or it is ending
                hidden.add((pid, counted))
                continue
            except OSError:  # it has ended since they were listed
                return 0.0
            if call == "running":  # so has its sleep
                return 0.0
            number = int(call)
            if number in _READS:
                if _is_terminal(pid, int(arguments[0], 16)):
                    return math.inf
            elif number in _WAITS and any(_is_terminal(pid, fd) for fd in range(3)):
                index, unit = _WAITS[number]
                longest = max(longest, _time_limit(pid, int(arguments[index], 16), unit))
        before, self._hidden = self._hidden, hidden
        return math.inf if hidden & before else longest

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
        entries, bytes_left = {}, MOST_COPIED
        for short, path, kept in self._entries():
            if stat.S_ISLNK(kept.st_mode):
                entries[short] = ["link", os.readlink(path), 0]
            elif stat.S_ISREG(kept.st_mode):
                data = None
                if kept.st_size <= min(bytes_left, MOST_BYTES):
                    os.chmod(path, 0o600)
                    data = _content(path)
                    bytes_left -= len(data)
                text = None if data is None else binascii.b2a_base64(data, newline=False).decode()
                entries[short] = ["file", text, kept.st_mode & 0o7777]
        return {"files": entries, "daemons": ended}

    def mark(self) -> int:
        """A checksum of the workspace as it is now: names, permissions, links, and the contents of texts. Left out are
        the contents of what is no text (archives and git's index hold times), numbers of processes, and the notes that
        programs keep for themselves, hidden files at the top."""
        mark, bytes_left = 0, MOST_COPIED
        for short, path, kept in self._entries():
            if short.startswith(".") and "/" not in short:
                continue
            mark = zlib.crc32(f"{short} {kept.st_mode}".encode("utf-8", "surrogateescape"), mark)
            if short.endswith(".pid"):
                continue
            with contextlib.suppress(OSError):
                if stat.S_ISLNK(kept.st_mode):
                    mark = zlib.crc32(os.fsencode(os.readlink(path)), mark)
                elif stat.S_ISREG(kept.st_mode) and kept.st_size <= min(bytes_left, MOST_BYTES):
                    data = _content(path)
                    bytes_left -= len(data)
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


class _Starter:
    """Starts all that runs in the terminal. Where there is no namespace of processes a thread does so, whose children
    can signal each other, and neither this process nor the thread.

    Args:
        shared_signals: whether the terminal has such a namespace.
    """

    def __init__(self, shared_signals: bool) -> None:
        self._orders: queue.SimpleQueue[tuple[list[str], dict[str, Any]]] = queue.SimpleQueue()
        self._started: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._shared, self._filter = shared_signals, b""
        threading.Thread(target=self._serve, name="starter", daemon=True).start()

    def start_process(self, argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """``subprocess.Popen(argv, **options)``."""
        self._orders.put((argv, options))
        started: subprocess.Popen[bytes] | BaseException = self._started.get()
        if isinstance(started, BaseException):
            raise started
        return started

    def _serve(self) -> None:
        if not self._shared:
            kernel.keep_signals_in()
            self._filter = kernel.refuse_signals_to([os.getpid(), threading.get_native_id()])
        while True:
            argv, options = self._orders.get()
            prepare = functools.partial(self._prepare, options.pop("preexec_fn", None))
            try:
                self._started.put(subprocess.Popen(argv, preexec_fn=prepare, **options))
            except BaseException as error:
                self._started.put(error)

    def _prepare(self, prepare: Callable[[], None] | None) -> None:
        if prepare is not None:
            prepare()
        if self._filter:
            kernel.install_seccomp(self._filter)


class _Clock:
    """Counts seconds up to a limit, without those in which the machine kept what runs here from running."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.spent = seconds, 0.0
        self._now = time.monotonic()
        self._last: dict[int, tuple[str, float, float]] = {}

    def is_over(self) -> bool:
        return self.spent > self.seconds

    def tick(self, processes: list[tuple[int, str, str]] | None) -> None:
        """Take in the time since the last look; without the processes, a look that comes late counts little."""
        before, self._now = self._now, time.monotonic()
        passed = self._now - before
        if processes is None:
            self.spent += min(passed, _LATE)
            return
        last, self._last = self._last, {}
        ran = held = 0.0
        for pid, state, counted in processes:
            now_ran, now_waited = (int(number) / 1e9 for number in counted.split()[:2])
            old_state, old_ran, old_waited = last.get(pid, (state, 0.0, 0.0))
            here, waited = now_ran - old_ran, now_waited - old_waited
            ran += here
            held += max(waited, passed - here) if old_state == state == "R" else waited
            self._last[pid] = state, now_ran, now_waited
        passed = min(passed, max(_LATE, ran))
        ended = not self._last.keys() >= last.keys()  # what it ran is not known
        self.spent += passed if ended else max(0.0, passed - min(held, max(0.0, passed - ran)))


class _Awaited(NamedTuple):
    """What follows from a key if it is the shell that reads it.

    Attributes:
        prompts: how many the shell will have shown in all.
        entered: whether a line was ended.
        signalled: whether the key was one of those that the kernel makes a signal of.
    """

    prompts: int
    entered: bool = False
    signalled: bool = False


class _Stillness:
    """How long nothing has happened: since when, and how often that was looked at."""

    def __init__(self) -> None:
        self.since, self.looks = time.monotonic(), 0

    def lasts(self, silence: tuple[float, int]) -> bool:
        return time.monotonic() - self.since >= silence[0] and self.looks >= silence[1]


class _Said:
    """What the shell has said about itself: the prompts it has shown, and whether it runs a command."""

    def __init__(self) -> None:
        self.prompts, self.runs, self._carry = 0, False, b""

    def take(self, chunk: bytes) -> None:
        data, end = self._carry + chunk, 0
        for mark in _MARK.finditer(data):
            self.runs, end = mark[1] == b"C", mark.end()
            self.prompts += not self.runs
        self._carry = data[end:][-7:]


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
        self._data = _PRINTED_MARK.sub(b"", self._data)
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


def _time_limit(pid: int, argument: int, unit: float) -> float:
    """Seconds that a system call waits at most: milliseconds for a unit of 0, else what stands at an address."""
    if not unit:
        return argument / 1000 if argument & 0xFFFFFFFF < 1 << 31 else math.inf
    if not argument:
        return math.inf
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(argument)
            seconds, parts = struct.unpack("qq", memory.read(16))
    except (OSError, struct.error, OverflowError):
        return math.inf
    return float(seconds + parts * unit) or _GLANCE
