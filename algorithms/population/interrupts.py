"""How a run is asked to stop: Ctrl-C or SIGTERM, after the step that is under way."""

from __future__ import annotations

import signal
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

        SIGTERM is how Slurm and Kubernetes announce the SIGKILL that follows; they may send it more than once.
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
                    once_more = "; once more to stop at once" if signum == signal.SIGINT else ""
                    say(f"stopping after this step{once_more}")

        before = {signum: signal.signal(signum, ask) for signum in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
