"""Processes that tests start: they have default signals, and none outlives its test."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rlvr.envs.endpoint import Endpoint, EndpointError, call

_PDEATHSIG = 1
_DEFAULT = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
try:
    _PRCTL = ctypes.CDLL(None).prctl
except AttributeError:  # not Linux
    _PRCTL = None


def take_default_signals() -> None:
    """A job in the background, as under nohup or cron, ignores Ctrl-C, and what it starts would inherit that."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def _prepare() -> None:
    """In the child, before its program."""
    for number in _DEFAULT:
        signal.signal(number, signal.SIG_DFL)
    if _PRCTL is not None:
        _PRCTL(_PDEATHSIG, signal.SIGKILL)


def start(command: Sequence[Any], **options: Any) -> subprocess.Popen[Any]:
    """A process with default signals that ends with this one at the latest; arguments as for ``subprocess.Popen``."""
    return subprocess.Popen(command, preexec_fn=_prepare, **options)


def wait_for_server(process: subprocess.Popen[Any], endpoint: Endpoint) -> None:
    """Until an OpenAI-compatible server answers; it fails once the process has ended, or after ten minutes."""
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        try:
            call(endpoint, "/models")
        except EndpointError:
            time.sleep(1)
        else:
            return
    raise AssertionError("the server does not answer")


@contextmanager
def child(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """`start`, for the length of a block, however the block ends."""
    process = start(command, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait(timeout=60)
