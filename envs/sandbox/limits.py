"""What a run may use, what came of it, and the errors of a sandbox."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Tier = Literal["T3", "T2", "T1", "T0"]
RunStatus = Literal["ok", "error", "killed", "time_limit", "output_limit", "disk_limit", "memory_limit"]


class SandboxError(RuntimeError):
    """The sandbox itself failed: nothing is known about the program, and no score may be drawn from it."""


class SandboxDied(SandboxError):
    """The sandbox, or the first process of the program, was killed, and not by us. The program is tried again.

    Attributes:
        may_be_program: whether the program may have done it itself. If so it is held to account after a few tries;
            if not, nothing is known about it.
    """

    def __init__(self, message: str, *, may_be_program: bool) -> None:
        super().__init__(message)
        self.may_be_program = may_be_program

    def try_again(self, number: int, *, late: bool) -> bool:
        """Whether the program is started again after ``number`` tries before this one. Where it may have killed itself,
        it is held to account after eight, or once its time is over: kills from outside seldom hit one so often.

        Raises:
            SandboxDied: this one, after three tries that were not the program's doing.
        """
        if self.may_be_program:
            return number < 7 and not late
        if number >= 2:
            raise self
        return True


class SandboxStarved(SandboxError):
    """The machine was too busy to give the program its time: nothing is known about the program."""


class SandboxUnavailable(SandboxError):
    """No tier holds on this machine; the message names each missing piece and the command that adds it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run, or one call of a session, may use.

    Attributes:
        seconds: the program's own time: all that passes but what it could run and got no processor because of others.
            What it sleeps, waits for and burns is its own. Bounded by the same figure: processor time, of all its
            processes together.
        memory_mb: address space of *each process*, in MiB. The whole sandbox is bounded as well
            (``Sandbox(total_memory_mb=...)``).
        disk_mb: size of the scratch folder, in MiB, and of any one file.
        processes: processes and threads at one time.
        output_bytes: of standard output and of standard error each; a program that writes more is ended.
        open_files: descriptors of each process.

    Raises:
        ValueError: a limit is not positive.
    """

    seconds: float = 10.0
    memory_mb: int = 512
    disk_mb: int = 64
    processes: int = 32
    output_bytes: int = 1 << 20
    open_files: int = 256

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
                raise ValueError(f"limit {field.name} must be a positive number, got {value!r}")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run.

    Attributes:
        status: ``ok`` (exit code 0), ``error`` (another exit code), ``killed`` (by a signal), or the limit that
            ended it: ``time_limit``, ``output_limit``, ``disk_limit``, ``memory_limit`` (of the whole sandbox).
        exit_code: the program's, negative for a signal; None if a limit ended it.
        stdout, stderr: text, cut at ``Limits.output_bytes``; bytes that are not UTF-8 are replaced.
        seconds, cpu_seconds: wall and processor time of the run.
        held_seconds: how much of ``seconds`` the machine kept from it, as far as that was looked at; 0 for short runs.
        tier: what it ran in, ``T3`` to ``T1``, or ``T0`` for an unsafe local run.
        unsafe: True if it ran on this machine without a sandbox, because somebody typed ``unsafe_local=True``.
    """

    status: RunStatus
    exit_code: int | None
    stdout: str
    stderr: str
    seconds: float
    cpu_seconds: float
    tier: Tier
    unsafe: bool = False
    held_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.status == "ok"
