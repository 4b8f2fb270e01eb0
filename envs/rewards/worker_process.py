"""The child side of the worker pool: a clean zygote that has imported everything, and the workers it forks.

Run as a script by ``workers.py``, never imported by it. The zygote is started by exec, holds one thread and never does
a job, so forking it is safe and takes milliseconds; it dies when its control socket closes, and the kernel then kills
its workers. Requests and replies are lines of JSON; nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

MAX_REPLY = 8_000_000
SLOW_NICENESS = 5


def main() -> None:
    """Serve the control socket given as the first argument until it closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    stream = control.makefile("rb")
    settings = json.loads(stream.readline())
    sys.path[:] = settings["path"]
    try:
        for target in settings["preload"]:
            resolve(target)()
    except Exception as error:
        control.sendall(f"cannot load: {type(error).__name__}: {error}".replace("\n", " ")[:500].encode() + b"\n")
        return
    gc.collect()
    gc.freeze()
    control.sendall(b"ready\n")
    children: set[int] = set()
    try:
        serve(control, children, settings)
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def serve(control: socket.socket, children: set[int], settings: dict[str, Any]) -> None:
    ended: dict[int, int] = {}  # the signals that workers died of before anybody asked; 0 for none
    while True:
        ready, _, _ = select.select([control], [], [], 0.5)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            children.discard(pid)
            ended[pid] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if not ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        if not message:
            return
        command, _, argument = message.decode().strip().partition(" ")
        if command == "fork" and descriptors:
            zygote = os.getpid()
            child = os.fork()
            if child == 0:
                control.close()
                work(socket.socket(fileno=descriptors[0]), settings, zygote)
            os.close(descriptors[0])
            children.add(child)
            control.sendall(f"{child}\n".encode())
        elif command == "kill":
            control.sendall(f"{ended_by(int(argument), children, ended)}\n".encode())


def ended_by(pid: int, children: set[int], ended: dict[int, int]) -> int:
    """The signal that a worker died of; one that still runs is killed now."""
    if pid in children:
        os.kill(pid, signal.SIGKILL)  # without effect on one that has died already
        _, status = os.waitpid(pid, 0)
        children.discard(pid)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return ended.pop(pid, 0)


def work(channel: socket.socket, settings: dict[str, Any], zygote: int) -> None:
    """Do jobs one after the other until the channel closes; never returns."""
    status = 1
    try:
        confine(settings["memory"])
        if os.getppid() != zygote:  # it died before this worker could ask to die with it
            return
        stream = channel.makefile("rb")
        for line in iter(stream.readline, b""):
            request = json.loads(line)
            if request["slow"]:
                os.nice(SLOW_NICENESS)
            # The default action of SIGPROF ends the process, also inside of one long call into C.
            signal.setitimer(signal.ITIMER_PROF, request["cpu"])
            reply = run(request)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            channel.sendall(reply + b"\n")
        status = 0
    finally:
        os._exit(status)


def run(request: dict[str, Any]) -> bytes:
    try:
        reply = json.dumps({"result": resolve(request["target"])(*request["args"])}).encode()
        return reply if len(reply) <= MAX_REPLY else _error(f"a reply may have {MAX_REPLY:,} bytes")
    except MemoryError:
        return json.dumps({"spent": "out of memory"}).encode()
    except BaseException as error:
        return _error(f"{type(error).__name__}: {error}"[:500])


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


def resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def confine(memory: int) -> None:
    """Limits of one worker: address space, no files, no core, no new privileges, dead with the zygote."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, memory)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (value, value))


if __name__ == "__main__":
    main()
