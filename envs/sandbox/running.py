"""A started program, seen from the user's process: its output, its replies, its end, and the deadline over all.

One loop over ``poll`` and no signal, so it works in any thread. Output is read as it comes and cut at its limit;
the end of the program ends the reading, whoever still holds the pipes. A deadline is of the program's own time: when
the machine is busy with others, it is waited for many times as long.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import threading
import time
from dataclasses import dataclass
from typing import Protocol

from rlvr.envs.sandbox.idle import pause_soon
from rlvr.envs.sandbox.inside.channel import readable
from rlvr.envs.sandbox.inside.scratch import below, is_running
from rlvr.envs.sandbox.limits import Limits, Result, RunStatus, SandboxDied, SandboxError, SandboxStarved, Tier
from rlvr.envs.sandbox.progress import RunProgress, Watched

PATIENCE = 10.0  # wall time over the program's own, at most; more where many threads want each processor

_HANG_UP = 0.2  # seconds between the closing of a channel and the end of its program
_CONFIRMED = 60.0  # seconds in which the end of a program that is gone is confirmed, on a machine however busy
_LOOKS = 5  # at processes that end while they are looked at
_GRACE = 0.3  # seconds a killed program has until we stop waiting and leave it to the supervisor
_FIRST_LOOK = 0.03  # seconds after which a program's progress is looked at; most have ended by then
_OFTEN = (0.05, 0.5)  # seconds between looks, at least and at most


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. ``code`` is negative for a signal; ``disk`` and ``stopped`` mean that it was ended for a
    full folder, or because it had stopped itself; ``error`` means that it never started."""

    code: int
    cpu: float = 0.0
    peak_kb: int = 0
    disk: bool = False
    stopped: bool = False
    error: str | None = None


class ProgramHandle(Protocol):
    """What runs the program: a zygote, a container, a local process."""

    @property
    def tier(self) -> Tier:
        """The tier that the program runs on."""

    @property
    def unsafe(self) -> bool:
        """Whether it runs with all rights of the user."""

    def exit_fd(self) -> int | None:
        """A descriptor that becomes readable when there may be news of the end; None if there is no such thing."""

    def poll_exit(self) -> Ended | None:
        """How the program ended, if it has. Raises SandboxError if the sandbox itself is gone."""

    def lacks_disk(self) -> bool:
        """Whether the machine has less space left on its disk than the program may use."""

    def watched(self) -> Watched | None:
        """Where to look for the program's processes; None where they cannot be seen."""

    def pause(self) -> float | None:
        """Let all its processes stand still; returns after how many seconds to do so again, None for never."""

    def resume(self) -> None:
        """Let them go on."""

    def kill(self) -> None:
        """Ask for the end of the program."""

    def release(self, healthy: bool) -> None:
        """Give back, or throw away, what ran the program."""


class ProgramEnded(Exception):
    """The program ended, or broke the rules of the channel, before it answered."""

    def __init__(self, reason: RunStatus) -> None:
        super().__init__(reason)
        self.reason = reason


class OutOfTurn(ProgramEnded):
    """It wrote what was not asked for, or an answer to another question: its other answers do not count either."""


class _Stream:
    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)
        self.fd, self.limit, self.data, self.open = fd, limit, bytearray(), True

    def read(self) -> bool:
        """Take what is there; False once there is more than the limit."""
        while self.open and len(self.data) <= self.limit:
            asked = min(1 << 16, self.limit + 1 - len(self.data))
            try:
                chunk = os.read(self.fd, asked)
            except BlockingIOError:
                return True
            except OSError:
                chunk = b""
            if not chunk:
                self.open = False
            self.data += chunk
            if len(chunk) < asked:  # a pipe gives all it has
                break
        return len(self.data) <= self.limit

    def take(self) -> str:
        text = bytes(self.data[: self.limit]).decode("utf-8", "replace")
        self.data.clear()
        return text

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


@dataclass(slots=True)
class Budget:
    """So many seconds of a program's own time, from now on."""

    seconds: float
    started: float
    held: float = 0.0
    ran: float = 0.0

    def spent(self, now: float, progress: RunProgress | None) -> float:
        """Seconds of the program's own that have passed."""
        return now - self.started - (0.0 if progress is None else progress.held - self.held)


_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def patience() -> float:
    """How many times its own time a program is waited for now: more where many threads want each processor."""
    try:
        with open("/proc/loadavg") as file:
            wanting = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return PATIENCE
    return PATIENCE * max(1.0, wanting / _PROCESSORS / 4)


class Running:
    """One program and its descriptors.

    Args:
        handle: what runs it.
        fds: ``stdout`` and ``stderr`` to read; ``requests`` to write and ``replies`` to read, if it has a channel.
        limits: the deadline counts from now.
        cancel: becomes readable when the caller has lost interest.
        reply_bytes: longest line of the channel.
    """

    def __init__(
        self,
        handle: ProgramHandle,
        fds: dict[str, int],
        limits: Limits,
        cancel: int | None = None,
        reply_bytes: int = 1 << 20,
    ) -> None:
        self._handle, self._limits, self._cancel = handle, limits, cancel
        self._out = _Stream(fds["stdout"], limits.output_bytes)
        self._err = _Stream(fds["stderr"], limits.output_bytes)
        self._replies = _Stream(fds["replies"], reply_bytes) if "replies" in fds else None
        self._requests = fds.get("requests")
        if self._requests is not None:
            os.set_blocking(self._requests, False)
        self._outgoing = b""
        self._started = time.monotonic()
        self._progress: RunProgress | None = None
        self._look_at, self._patience = self._started + _FIRST_LOOK, PATIENCE
        self._lock, self._asked, self._paused = threading.Lock(), 0, False
        self._ended: Ended | None = None
        self._status: RunStatus | None = None
        self._released = False

    @property
    def alive(self) -> bool:
        """Whether the program still runs within its limits."""
        return self._ended is None and self._status is None

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the channel ---

    def queue(self, data: bytes) -> None:
        """Bytes to send before anything else."""
        self._outgoing += data

    def budget(self, seconds: float) -> Budget:
        """So many seconds of the program's own, from now on."""
        now, progress = time.monotonic(), self._progress
        return Budget(seconds, now, progress.held, progress.ran) if progress else Budget(seconds, now)

    def spent(self, budget: Budget) -> float:
        """How much of a budget the program has spent, as far as that was looked at."""
        return budget.spent(time.monotonic(), self._progress)

    def exchange(self, line: bytes, budget: Budget) -> bytes:
        """Send one line, wait for one line.

        Raises:
            ProgramEnded: it ended, went silent past its budget, wrote too much, or spoke out of turn.
            SandboxStarved: the machine did not let it spend its budget.
        """
        replies = self._replies
        if replies is None:
            raise ValueError("this program has no channel")
        if not self.alive:
            raise ProgramEnded(self._status or "killed")
        if replies.data:
            self._refuse()
        self._outgoing += line
        self._write()
        self._resume()
        if self._progress is not None:
            self._progress.skip(budget.started)
        self._look_at = budget.started + _FIRST_LOOK
        late: RunStatus = "time_limit"
        self._patience = PATIENCE
        while b"\n" not in replies.data and self._ended is None:
            self._step(budget, late)
            if not replies.open and late == "time_limit":  # it hung up: it should be ending
                budget, late = self.budget(min(_HANG_UP, budget.seconds)), "killed"
        head, newline, rest = bytes(replies.data).partition(b"\n")
        if rest or (head and not newline):
            self._refuse()
        if not newline:
            raise ProgramEnded("killed")
        replies.data.clear()
        return head

    def check_disk(self) -> None:
        """After an error of the program's.

        Raises:
            SandboxDied: the machine has less space left on its disk than the program may use: others took it.
        """
        if self._handle.lacks_disk():
            raise SandboxDied("the disk of this machine is full", may_be_program=False)

    def rest(self) -> None:
        """Let the program, and all that it has started, stand still until it is asked again."""
        pause_soon(self, self._asked)

    def pause(self, asked: int) -> float | None:
        """Stop the processes, unless the program was asked something since ``asked``; returns after how many seconds
        to do so again, None for never."""
        with self._lock:
            if self._asked != asked or not self.alive or self._released:
                return None
            self._paused = True
            return self._handle.pause()

    def _resume(self) -> None:
        with self._lock:
            self._asked += 1
            if self._paused:
                self._paused = False
                self._handle.resume()

    def hang_up(self, seconds: float) -> bool:
        """Close the channel and wait for the end; True if nothing more was written to it."""
        if self._requests is not None:
            os.close(self._requests)
            self._requests = None
        budget = self.budget(seconds)
        with contextlib.suppress(ProgramEnded):
            while self._ended is None:
                self._step(budget, "killed")
        return self._replies is None or not self._replies.data

    def _refuse(self) -> None:
        self.kill()
        raise OutOfTurn("killed")

    def _stop(self, reason: RunStatus) -> None:
        """End the program for a reason, and say so."""
        if self._status is None:
            self._status = reason
        self._kill()
        raise ProgramEnded(self._status)

    # --- the loop ---

    def _step(self, budget: Budget, late: RunStatus = "time_limit") -> None:
        """Wait for one thing to happen and take it in.

        Raises:
            ProgramEnded: a limit has ended the program.
            SandboxStarved: the machine did not let it spend its budget.
        """
        now = time.monotonic()
        over = budget.spent(now, self._progress) >= budget.seconds
        exit_fd = self._handle.exit_fd()
        poll, wait = select.poll(), 0.0 if over else max(0.0, self._next_look(budget) - now)
        if exit_fd is None:
            wait = min(wait, 0.02)
        # The replies first, for they are looked at in this order: what was printed before a reply is then seen with it.
        streams = [s for s in (self._replies, self._out, self._err) if s and s.open]
        for fd in [*(s.fd for s in streams), exit_fd, self._cancel]:
            if fd is not None:
                poll.register(fd, select.POLLIN)
        if self._outgoing and self._requests is not None:
            poll.register(self._requests, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(0 if over else max(1, int(wait * 1000)))}
        if self._cancel is not None and self._cancel in ready:
            self._stop("killed")
        if self._requests in ready:
            self._write()
        if not all(s.read() for s in streams if s.fd in ready):
            self._stop("output_limit")
        if exit_fd is None or exit_fd in ready:
            self._ended = self._handle.poll_exit()
            if self._ended is not None:
                self._drain()
        # What was there in time counts, however late we come to look at it.
        answered = self._ended is not None or (self._replies is not None and b"\n" in self._replies.data)
        if not answered and (over or time.monotonic() >= self._look_at):
            self._judge(budget, late)

    def _next_look(self, budget: Budget) -> float:
        """When to look at the program's progress, or at its budget."""
        held = 0.0 if self._progress is None else self._progress.held - budget.held
        return min(self._look_at, budget.started + budget.seconds + held)

    def _judge(self, budget: Budget, late: RunStatus) -> None:
        """See what the program got of the machine, and end it if it has spent its budget.

        Raises:
            ProgramEnded: it has.
            SandboxStarved: it has not, and cannot be waited for any longer.
        """
        if self._progress is None:
            self._progress = RunProgress(self._handle.watched(), self._started)
        progress, due, now = self._progress, self._next_look(budget), time.monotonic()
        progress.look(now, due)
        watched = progress.watched
        if watched is not None and watched.is_over_memory():
            self._stop("memory_limit")
        bounded = watched is None or watched.memory is None  # memory can be had fast: it is looked at often
        often = min(max(budget.seconds / 8, _OFTEN[0]), _OFTEN[1]) if bounded else _OFTEN[0]
        self._look_at = now + often * random.uniform(0.5, 1.5)  # nobody can be good just when we look
        if max(budget.spent(now, progress), progress.ran - budget.ran) >= budget.seconds:
            if late == "killed" and now - budget.started < _CONFIRMED and self._is_gone():
                budget.seconds += _HANG_UP  # it has ended already: how, its sandbox will tell
                return
            self._stop(late)
        self._patience = max(self._patience, patience())
        if now - budget.started >= budget.seconds * self._patience:
            with contextlib.suppress(ProgramEnded):
                self._stop(late)
            if late != "time_limit":
                raise ProgramEnded(late)
            raise SandboxStarved(
                f"the machine was too busy: in {now - budget.started:.1f} s the program could spend only "
                f"{budget.spent(now, progress):.1f} s of its {budget.seconds:g} s"
            )

    def _is_gone(self) -> bool:
        """Whether no process of the program is left; False where that cannot be seen."""
        watched = self._handle.watched()
        if watched is None:
            return False
        for _ in range(_LOOKS):
            processes, all_seen = below(watched.root, watched.besides)
            if all_seen:
                return not any(map(is_running, processes))
        return False

    def _write(self) -> None:
        if self._requests is None:
            return
        try:
            self._outgoing = self._outgoing[os.write(self._requests, self._outgoing) :]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing = b""  # it closed its end; its silence will be noticed

    def _drain(self) -> None:
        if not all(s.read() for s in (self._out, self._err, self._replies) if s):
            self._status = self._status or "output_limit"

    def _kill(self) -> None:
        """Kill and wait for the confirmed end, for as long as the grace lasts."""
        if self._ended is not None:
            return
        self._handle.kill()
        until = time.monotonic() + _GRACE
        while self._ended is None and (left := until - time.monotonic()) > 0:
            exit_fd = self._handle.exit_fd()
            if exit_fd is None:
                time.sleep(min(left, 0.01))
            else:
                readable(exit_fd, left)
            try:
                self._ended = self._handle.poll_exit()
            except SandboxError:  # the sandbox is gone, and the program with it
                break
        self._drain()

    # --- the end ---

    def wait(self) -> Result:
        """Until the program ends by itself or by a limit.

        Raises:
            SandboxError: it could not be started. SandboxDied: the sandbox ended under it. SandboxStarved: the machine
                did not let it spend its time.
        """
        budget = Budget(self._limits.seconds, self._started)
        with contextlib.suppress(ProgramEnded):
            while self._ended is None:
                self._step(budget)
        return self.result()

    def kill(self) -> None:
        """End the program now."""
        if self.alive:
            with contextlib.suppress(ProgramEnded):
                self._stop("killed")

    def result(self, seconds: float | None = None) -> Result:
        """What came of the program, once it has ended."""
        ended = self._ended or Ended(-9)
        if ended.error is not None:
            printed = " ".join(self._err.take().split())
            raise SandboxError(ended.error + (f": {printed[-300:]}" if printed else ""))
        status = self._status
        if status is None and ended.disk:
            status = "disk_limit"
        if status is None and ended.code == -24:  # SIGXCPU
            status = "time_limit"
        by_itself = status is None
        if status is None:
            status = "ok" if ended.code == 0 else "error" if ended.code > 0 else "killed"
        return Result(
            status=status,
            exit_code=ended.code if by_itself else None,
            stdout=self._out.take(),
            stderr=self._err.take(),
            seconds=round(time.monotonic() - self._started if seconds is None else seconds, 6),
            cpu_seconds=ended.cpu,
            tier=self._handle.tier,
            unsafe=self._handle.unsafe,
            held_seconds=0.0 if self._progress is None else round(self._progress.held, 6),
        )

    def where(self) -> tuple[Tier, bool]:
        """The tier it runs in, and whether that is unsafe."""
        return self._handle.tier, self._handle.unsafe

    def output(self) -> tuple[str, str]:
        """What was printed since the last time."""
        self._drain()
        return self._out.take(), self._err.take()

    def close(self) -> None:
        """End the program if it still runs, and release everything."""
        with self._lock:
            if self._released:
                return
            self._released = True
        self.kill()
        if self._requests is not None:
            os.close(self._requests)
        for stream in (self._out, self._err, self._replies):
            if stream is not None:
                stream.close()
        self._handle.release(self._ended is not None)
