"""A deadline for a chat template, which came with a model and may loop for hours although it has a few characters."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Final, TypeVar

SECONDS: Final = 20.0  # thousands of times what a template takes
Result = TypeVar("Result")


class TemplateTooLong(ValueError):
    """A chat template did not finish in time."""


def in_time(render: Callable[[], Result], seconds: float | None = None) -> Result:
    """Call ``render`` in this thread, interrupting it between two Python instructions when its time is up.

    Raises:
        TemplateTooLong: it took more than ``seconds``.
    """
    done = False
    lock = threading.Lock()
    thread = threading.get_ident()

    def interrupt() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TemplateTooLong))

    limit = SECONDS if seconds is None else seconds
    timer = threading.Timer(limit, interrupt)
    timer.daemon = True
    timer.start()
    try:
        try:
            return render()
        finally:
            with lock:
                done = True
            timer.cancel()
    except TemplateTooLong:
        raise TemplateTooLong(f"the chat template did not finish within {limit:g} s") from None
