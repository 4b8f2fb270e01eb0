"""A deadline for a chat template, which came with a model and may loop for hours in a few characters."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Final, TypeVar

SECONDS: Final = 20.0  # thousands of times what a template takes
Result = TypeVar("Result")


class TemplateTooLong(ValueError):
    """A chat template did not come to its end in time."""


def in_time(render: Callable[[], Result], seconds: float | None = None) -> Result:
    """What ``render`` returns. It runs in this thread, and is interrupted between two instructions of Python.

    Raises:
        TemplateTooLong: it took more than ``seconds``.
    """
    over = False
    lock = threading.Lock()
    thread = threading.get_ident()

    def interrupt() -> None:
        with lock:
            if not over:
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
                over = True
            timer.cancel()
    except TemplateTooLong:
        raise TemplateTooLong(f"the chat template did not come to its end within {limit:g} s") from None
