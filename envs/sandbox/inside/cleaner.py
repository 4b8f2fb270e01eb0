"""The process beside a T2 zygote that empties the folder of a run, and measures it where no mount bounds it: it alone
sees what is in there.

Programs are forked from the zygote and could read in its memory what it has seen of the runs before them, names of
files too. No program is ever forked from this process. Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import NoReturn

from rlvr.envs.sandbox.inside import kernel, scratch

_ORDER = struct.Struct("=BQQ")  # what, the bytes that the folder of the run may hold, who hides files
_WATCH, _CLEAN, _HALT, _GO_ON = 1, 2, 3, 4
_FULL, _CLEANED = b"f", b"c"
_HIDDEN_LOOKS = 100  # at a process that has been started by a hidden one of ours
_FIRST_LOOK, _LOOK = 20, 50  # milliseconds from the start of a run, and between two looks


class Cleaner:
    """The zygote's end. Making one forks: the new process goes on as the zygote, the old one is the cleaner.

    So the cleaner is no child of the zygote, which waits for *all* its children at the end of a run.
    """

    def __init__(self, channel: socket.socket, folder: str) -> None:
        mine, theirs = socket.socketpair()
        child = os.fork()
        if child:
            channel.close()
            mine.close()
            _serve(theirs, folder, child)
        theirs.close()
        kernel.die_with_parent()
        self._socket = mine

    def fileno(self) -> int:
        """Readable when the folder of the run is full, or the cleaner has ended."""
        return self._socket.fileno()

    def is_full(self) -> bool:
        """Once readable: whether the folder is full; False if the cleaner has ended."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == _FULL
        except OSError:  # it has left something unread
            return False

    def watch(self, limit: int, hides: int = 0) -> None:
        """Measure the folder of a run from now on, and the files without a name that its processes hold open. Called by
        the fork that runs it: the zygote knows no limits. ``hides`` is a process of ours whose files nobody sees."""
        self._socket.sendall(_ORDER.pack(_WATCH, limit, hides))

    def halt(self, halted: bool) -> None:
        """Whether the run stands still, so that its folder need not be looked at."""
        self._socket.sendall(_ORDER.pack(_HALT if halted else _GO_ON, 0, 0))

    def clean(self) -> None:
        """Remove what the run has left; returns when it is gone."""
        self._socket.sendall(_ORDER.pack(_CLEAN, 0, 0))
        while (answer := self._socket.recv(1)) != _CLEANED:
            if not answer:
                os._exit(1)


class _DiskUsage:
    """The disk usage of a run: its folder, and the files without a name that its processes hold open.

    A process that hides what it holds makes the run full. What our own hidden process starts is hidden too until it has
    become another program; that takes a moment, the more so on a busy machine.
    """

    def __init__(self, zygote: int) -> None:
        self._zygote, self.hides, self._in_a_row = zygote, 0, 0

    def is_full(self, folder: str, limit: int) -> bool:
        processes, _ = scratch.below(self._zygote, (self._zygote, self.hides))
        unnamed, hiding = scratch.unnamed(processes)
        started = {pid for pid in hiding if self.hides and scratch.parent_of(pid) in (self.hides, 0)}
        self._in_a_row = self._in_a_row + 1 if started else 0
        return (
            hiding > started
            or self._in_a_row > _HIDDEN_LOOKS
            or scratch.disk_usage_exceeds(folder, limit, besides=unnamed)
        )


def _serve(channel: socket.socket, folder: str, zygote: int) -> NoReturn:
    watched, limit, usage = False, 0, _DiskUsage(zygote)
    poll, pause = select.poll(), None
    poll.register(channel, select.POLLIN)
    while True:
        if not poll.poll(pause):
            pause = _LOOK
            if watched and usage.is_full(folder, limit):
                watched, pause = False, None
                channel.sendall(_FULL)
            continue
        data = channel.recv(_ORDER.size, socket.MSG_WAITALL)
        if len(data) < _ORDER.size:
            break
        what, max_bytes, who = _ORDER.unpack(data)
        if what == _WATCH:
            watched, limit, usage.hides, pause = True, max_bytes, who, _FIRST_LOOK
        elif what == _CLEAN:
            watched, pause = False, None
            if not scratch.empty(folder):
                break
            channel.sendall(_CLEANED)
        else:
            pause = None if what == _HALT or not watched else _FIRST_LOOK
    channel.close()
    os.waitpid(zygote, 0)
    scratch.empty(folder)
    os._exit(0)
