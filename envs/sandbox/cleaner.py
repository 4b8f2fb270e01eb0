"""The process beside a T2 zygote that weighs the folder of a run, and empties it: it alone sees what is in there.

Programs are forked from the zygote and could read in its memory what it has seen of the runs before them, names of
files too. No program is ever forked from this process. Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import NoReturn

from rlvr.envs.sandbox import kernel, scratch

_ORDER = struct.Struct("=BQQ")  # what, the number of the run, the bytes that its folder may hold
_WATCH, _CLEAN = 1, 2
_FULL, _CLEANED = b"f", b"c"
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

    def watch(self, run: int, limit: int) -> None:
        """Weigh the folder of a run from now on. Called by the fork that runs it: the zygote knows no limits."""
        self._socket.sendall(_ORDER.pack(_WATCH, run, limit))

    def clean(self, run: int) -> None:
        """Remove the folder of a run; returns when it is gone."""
        self._socket.sendall(_ORDER.pack(_CLEAN, run, 0))
        while (answer := self._socket.recv(1)) != _CLEANED:
            if not answer:
                os._exit(1)


def _serve(channel: socket.socket, folder: str, zygote: int) -> NoReturn:
    watched, limit = None, 0
    poll, pause = select.poll(), None
    poll.register(channel, select.POLLIN)
    while True:
        if not poll.poll(pause):
            pause = _LOOK
            if watched is not None and scratch.weigh(watched, limit):
                watched, pause = None, None
                channel.sendall(_FULL)
            continue
        data = channel.recv(_ORDER.size, socket.MSG_WAITALL)
        if len(data) < _ORDER.size:
            break
        what, run, limit = _ORDER.unpack(data)
        home = f"{folder}/run{run}"
        if what == _WATCH:
            watched, pause = home, _FIRST_LOOK
        else:
            watched, pause = None, None
            scratch.remove_tree(home)
            channel.sendall(_CLEANED)
    os.waitpid(zygote, 0)
    for name in os.listdir(folder):
        scratch.remove_tree(f"{folder}/{name}")
    os._exit(0)
