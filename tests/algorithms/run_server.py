"""A process that imports torch once, and then forks a child for each command it is asked to run.

Lines of JSON come in: {"arguments": [...], "output": path, "seconds": s, "processes": p, "fault": {"where":
"module:Class.function", "count": n, "do": ...} | null}. The child calls `rlvr` with the arguments; at the n-th call of
the function named in the fault it is killed ("kill"), gets Ctrl-C ("interrupt", twice for "interrupt twice") or SIGTERM
("terminate"), or finds the disk full ("full"). With "hang and terminate" it gets SIGTERM in a call in C that takes
hours, and has a fifth of a second to end. With seconds above 0 the kernel kills it after so many, wherever it is. With
processes above 0 there are so many children, each with the variables that torchrun would give it. For each line two
come out: the (last) process's id, and at the end its exit status, negative for a signal; of several the first that is
not 0, which ends the others.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from functools import reduce
from pathlib import Path
from typing import Any

# What a run imports: a child then has it from the start.
import matplotlib.backends.backend_agg  # noqa: F401
import peft  # noqa: F401
import torch.distributed.fsdp  # noqa: F401
import transformers.models.qwen3.modeling_qwen3  # noqa: F401

import rlvr.algorithms.runs.display
import rlvr.algorithms.runs.report
import rlvr.algorithms.train.run
import rlvr.cli.train_command
from rlvr.algorithms.train import interrupts
from rlvr.cli import main


def plant(where: str, count: int, do: str) -> None:
    """Let something happen at the ``count``-th call of a function."""
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner: Any = reduce(getattr, owners, importlib.import_module(module))
    function, calls = getattr(owner, name), [0]

    def called(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == count:
            happen(do)
        return function(*args, **kwargs)

    setattr(owner, name, called)


def happen(do: str) -> None:
    if do == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "hang" in do:
        interrupts.GRACE_SECONDS = 0.2
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    signum = signal.SIGTERM if "terminate" in do else signal.SIGINT
    for _ in range(2 if "twice" in do else 1):
        os.kill(os.getpid(), signum)


def child(request: dict[str, Any]) -> int:
    output = os.open(request["output"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.setpgid(0, 0)
    if request["fault"]:
        plant(**request["fault"])
    if request["seconds"]:
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])  # nobody handles its signal, so it kills
    try:
        return main(request["arguments"])
    except SystemExit as stop:
        return int(stop.code or 0)


def worlds(processes: int) -> list[dict[str, str]]:
    """The variables of each process under torchrun; none of the one that nothing started but its caller."""
    if processes == 0:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    world = store | {"WORLD_SIZE": str(processes), "TORCHELASTIC_RUN_ID": "none"}
    return [world | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def wait(pids: set[int]) -> int:
    failed = 0
    while pids:
        pid, status = os.wait()
        pids.remove(pid)
        if status and not failed:
            failed = os.waitstatus_to_exitcode(status)
            for other in pids:
                os.kill(other, signal.SIGTERM)
    return failed


def serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rlvr.algorithms.runs.report.draw_curve([], Path(folder) / "curve.png")  # the first picture takes longest
    for line in sys.stdin:
        request = json.loads(line)
        pids = set()
        for variables in worlds(request["processes"]):
            pid = os.fork()
            if pid == 0:
                os.environ.update(variables)
                status = 70
                try:
                    status = child(request)
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(status)
            pids.add(pid)
        print(pid, flush=True)
        print(wait(pids), flush=True)


if __name__ == "__main__":
    serve()
