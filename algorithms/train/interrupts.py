"""How a run is asked to stop: Ctrl-C or SIGTERM, after the step that is under way, or in the middle of a long one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class RunInterrupted(Exception):
    """The run was asked to stop; what it had is saved.

    Attributes:
        status: the exit status that the shell expects, 128 and the signal's number.
    """

    def __init__(self, message: str, signum: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.status = 128 + signum


# What a step has after SIGTERM, to end and to be saved. Twenty and more are what Slurm and Kubernetes leave.
GRACE_SECONDS = 15.0


class StopSignal:
    """The signal that asked a run to stop.

    Attributes:
        signum: its number; None while nobody has asked.
    """

    def __init__(self) -> None:
        self.signum: int | None = None

    @contextmanager
    def listening(self, say: Callable[[str], None]) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM ends the run after this step, saved; a second Ctrl-C at once.

        SIGTERM is how Slurm and Kubernetes announce the SIGKILL that follows; they may send it more than once. A run
        that has not ended `GRACE_SECONDS` after it ends where it is, as after SIGKILL: what its last checkpoint does
        not hold is done again by the run that goes on, to the same bytes.
        """
        # Python lets the main thread alone set handlers.
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(signum: int, frame: Any) -> None:
            again = self.signum is not None
            self.signum = signum
            if signum == signal.SIGINT:
                signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one raises KeyboardInterrupt
            # It came in the middle of anything: of printing, or of importing what prints. The run must not end of that.
            with suppress(Exception):
                if not again:
                    more = f", or in {GRACE_SECONDS:g} s" if signum == signal.SIGTERM else "; once more to stop at once"
                    say(f"stopping after this step{more}")

        before = {signum: signal.signal(signum, ask) for signum in (signal.SIGINT, signal.SIGTERM)}
        try:
            with _ending_after_sigterm():
                yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


@contextmanager
def _ending_after_sigterm() -> Iterator[None]:
    """End the process `GRACE_SECONDS` after a SIGTERM, whatever the main thread does.

    A handler in Python waits until the main thread is back from a call in C, such as a long forward pass; the wakeup
    file descriptor is written to at once, and another thread reads it.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over = threading.Event()

    def wait() -> None:
        while numbers := os.read(reading, 1):
            if numbers[0] == signal.SIGTERM:
                break
        if over.wait(GRACE_SECONDS) or not numbers:
            return
        show_cursor = "\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""  # the display has hidden it
        text = f"{show_cursor}rlvr: stopped in the middle of a step; what was not saved is done again with --resume\n"
        with suppress(OSError):
            os.write(2, text.encode())
        os._exit(128 + signal.SIGTERM)

    watcher = threading.Thread(target=wait, daemon=True, name="rlvr-sigterm")
    watcher.start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        over.set()
        os.close(writing)  # whom no signal has woken is woken by the end of the pipe
        watcher.join()
        os.close(reading)
