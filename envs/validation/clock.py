"""The time of a validation: what is left of the wall clock without waiting for a busy processor.

A machine that does other work beside it must not change what a validation has time to find.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final


def waited(process: int | str = "thread-self") -> float:
    """Seconds that the first thread of a process was ready to run and had no processor; 0 where no kernel counts them.

    Linux counts them in the second number of ``/proc/PID/schedstat``, in nanoseconds.
    """
    try:
        with open(f"/proc/{process}/schedstat", "rb", 0) as file:  # at each step: a Path takes twice as long
            return int(file.read(80).split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


OTHERS: Final[list[Callable[[], float]]] = []  # in a worker, as its parent counts them


def now() -> float:
    """Seconds of this thread without its waiting, nor that of what it waits for; what two calls differ by counts."""
    return time.monotonic() - waited() - sum(seconds() for seconds in OTHERS)


class ProcessorWaits:
    """How long a worker had no processor, or waited for what had none: its programs, and servers of this machine.

    Args:
        worker: its number; what its first thread waits for is counted by the kernel.
        servers: numbers of processes that it asks and has not started.
    """

    def __init__(self, worker: int, servers: Iterable[int] = ()) -> None:
        self.worker, self.servers = worker, set(servers)
        self.before: dict[str, float] = {}
        self.looked = time.monotonic()
        self.others = self.own = 0.0

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.own + self.others

    def look(self, members: Iterable[int]) -> None:
        """Count what has come since the last look: of threads that wait at once, the one that waits longest.

        Args:
            members: of the worker's processes that live.
        """
        before, self.before, most = self.before, {}, 0.0
        interval, self.looked = time.monotonic() - self.looked, time.monotonic()
        for number in {*members, *self.servers}:
            for thread in _threads(number):
                name = f"{number}/task/{thread}"
                self.before[name] = waited(name)
                # Who began since then has waited since then; of a server's first look, nothing is known.
                since = before.get(name, self.before[name] if number in self.servers else 0.0)
                most = max(most, self.before[name] - since)
        own, self.own = self.own, max(self.own, waited(self.worker))
        self.others += max(0.0, min(most, interval) - (self.own - own))


def _threads(number: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{number}/task")
    except OSError:
        return []


def listening(text: str) -> set[int]:
    """The processes that listen on the ports of this machine in the URLs of a text; none where no kernel tells."""
    ports = {int(port) for port in re.findall(r"//(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)", text)}
    if not ports:
        return set()
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(table).read_text(encoding="ascii").splitlines()[1:]]
        except OSError:
            continue
        sockets |= {
            f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) in ports
        }
    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit() and sockets & _open_files(entry)}


def _open_files(number: str) -> set[str]:
    found = set()
    try:
        for each in os.listdir(f"/proc/{number}/fd"):
            found.add(os.readlink(f"/proc/{number}/fd/{each}"))
    except OSError:
        pass  # it has ended, or is another's
    return found
