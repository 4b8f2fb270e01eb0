"""The time of a validation: what is left of the wall clock without waiting for a busy processor.

A machine that does other work beside it must not change what a validation has time to find.
"""

from __future__ import annotations

import time
from pathlib import Path


def waited(process: int | str = "thread-self") -> float:
    """Seconds that the first thread of a process was ready to run and had no processor; 0 where no kernel counts them.

    Linux counts them in the second number of ``/proc/PID/schedstat``, in nanoseconds.
    """
    try:
        return int(Path(f"/proc/{process}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def now() -> float:
    """Seconds of this thread without its waiting; what two calls differ by counts."""
    return time.monotonic() - waited()
