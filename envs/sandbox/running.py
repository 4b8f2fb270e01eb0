"""A started program, seen from the user's process: its output, its replies, its end, and the deadline over all.

One loop over ``poll`` and no signal, so it works in any thread. Output is read as it comes and cut at its limit;
the end of the program ends the reading, whoever still holds the pipes.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from dataclasses import dataclass
from typing import Protocol

from rlvr.envs.sandbox.channel import readable
from rlvr.envs.sandbox.limits import Limits, Result, RunStatus, SandboxError, Tier

_HANG_UP = 0.2  # seconds between the closing of a channel and the end of its program
_GRACE = 0.3  # seconds a killed program has until we stop waiting and leave it to the keeper


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. ``code`` is negative for a signal; ``error`` means that it never started."""

    code: int
    cpu: float = 0.0
    peak_kb: int = 0
    disk: bool = False
    error: str | None = None


class Handle(Protocol):
    """What runs the program: a zygote, a container, a local process."""

    @property
    def tier(self) -> Tier: ...

    @property
    def unsafe(self) -> bool: ...

    def exit_fd(self) -> int | None:
        """A descriptor that becomes readable when there may be news of the end; None if there is no such thing."""

    def poll_exit(self) -> Ended | None:
        """How the program ended, if it has. Raises SandboxError if the sandbox itself is gone."""

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
    """It said what nobody had asked, or not what was asked: whatever else it said counts for nothing."""


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
        self, handle: Handle, fds: dict[str, int], limits: Limits, cancel: int | None = None, reply_bytes: int = 1 << 20
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
        self._ended: Ended | None = None
        self._status: RunStatus | None = None
        self._released = False

    @property
    def alive(self) -> bool:
        return self._ended is None and self._status is None

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the channel ---

    def queue(self, data: bytes) -> None:
        """Bytes to send before anything else."""
        self._outgoing += data

    def exchange(self, line: bytes, deadline: float) -> bytes:
        """Send one line, wait for one line.

        Raises:
            ProgramEnded: it ended, went silent past the deadline, wrote too much, or spoke out of turn.
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
        late: RunStatus = "time_limit"
        while b"\n" not in replies.data and self._ended is None:
            self._step(deadline, late)
            if not replies.open and late == "time_limit":  # it hung up: it should be ending
                deadline, late = min(deadline, time.monotonic() + _HANG_UP), "killed"
        head, newline, rest = bytes(replies.data).partition(b"\n")
        if rest or (head and not newline):
            self._refuse()
        if not newline:
            raise ProgramEnded("killed")
        replies.data.clear()
        return head

    def hang_up(self, deadline: float) -> bool:
        """Close the channel and wait for the end; True if nothing more was said on it."""
        if self._requests is not None:
            os.close(self._requests)
            self._requests = None
        with contextlib.suppress(ProgramEnded):
            while self._ended is None:
                self._step(deadline)
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

    def _step(self, deadline: float, late: RunStatus = "time_limit") -> None:
        """Wait for one thing to happen and take it in.

        Raises:
            ProgramEnded: a limit has ended the program.
        """
        now = time.monotonic()
        if now >= deadline:
            self._stop(late)
        exit_fd = self._handle.exit_fd()
        poll, wait = select.poll(), deadline - now
        if exit_fd is None:
            wait = min(wait, 0.02)
        # The replies first, for they are looked at in this order: what was printed before a reply is then seen with it.
        streams = [s for s in (self._replies, self._out, self._err) if s and s.open]
        for fd in [*(s.fd for s in streams), exit_fd, self._cancel]:
            if fd is not None:
                poll.register(fd, select.POLLIN)
        if self._outgoing and self._requests is not None:
            poll.register(self._requests, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(max(1, int(wait * 1000)))}
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
            SandboxError: it could not be started. SandboxDied: the sandbox ended under it.
        """
        deadline = self._started + self._limits.seconds
        with contextlib.suppress(ProgramEnded):
            while self._ended is None:
                self._step(deadline)
        return self.result()

    def kill(self) -> None:
        """End the program now."""
        if self.alive:
            with contextlib.suppress(ProgramEnded):
                self._stop("killed")

    def result(self, seconds: float | None = None) -> Result:
        ended = self._ended or Ended(-9)
        if ended.error is not None:
            said = " ".join(self._err.take().split())
            raise SandboxError(ended.error + (f": {said[-300:]}" if said else ""))
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
