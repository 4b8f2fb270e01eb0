"""``rlvr report``: the report of a run, written again from what its folder holds."""

from __future__ import annotations

import argparse
import fcntl
from pathlib import Path
from typing import Any


def report(options: argparse.Namespace, rest: list[str]) -> int:
    """Write ``report.html`` and ``curve.png`` anew."""
    if not options.run.is_dir():
        raise ValueError(f"there is no folder {options.run}")
    if not (options.run / "config.yaml").is_file():
        raise ValueError(f"{options.run} holds no run: it has no config.yaml")
    _require_ended(options.run)
    try:
        from rlvr.algorithms.runs.report import write_report

        page = write_report(options.run)
    except ModuleNotFoundError as error:
        raise ImportError(f'a report needs {error.name}: pip install "rlvr[train]"') from error
    print(page)
    return 0


def _require_ended(run: Path) -> None:
    """Reading a file of episodes cuts a torn line off, which must not happen to one that is being written.

    Raises:
        ValueError: a process writes in the folder.
    """
    if not (run / "lock").is_file():
        return
    with (run / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{run} is being written: wait until its run has ended; `rlvr view` shows it now"
            ) from None


def add_parser(commands: Any) -> None:
    """Add ``report`` to the sub-commands of `rlvr`."""
    reporting = commands.add_parser("report", help="write the report of a run again")
    reporting.add_argument("run", type=Path, help="folder of a run")
    reporting.set_defaults(command=report)
