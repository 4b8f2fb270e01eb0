"""Figures of a benchmark: rounds in, medians and ratios out, as JSON and as a page that says how they were made."""

from __future__ import annotations

import json
import platform
import shlex
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Table:
    """One figure for several contenders; ``base`` is the one that the others are compared with."""

    title: str
    unit: str
    base: str
    rounds: dict[str, list[float]] = field(default_factory=dict)
    command: str = ""  # that measured it, where it is not the one that writes the page

    def add(self, name: str, value: float) -> None:
        self.rounds.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def ratio(self, name: str) -> float:
        """The base over this one: the median of the ratios round by round, so that drift of the machine cancels."""
        pairs = zip(self.rounds[self.base], self.rounds[name], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def markdown(self) -> str:
        by = f" (`{self.command}`)" if self.command else ""
        head = f"## {self.title}\n\n{self.unit}{by}\n\n| what | min | median | max | {self.base} / this |\n"
        head += "|---|---|---|---|---|\n"
        rows = (
            f"| {name} | {_short(min(values))} | {_short(self.median(name))} | {_short(max(values))} "
            f"| {self.ratio(name):.2f} |\n"
            for name, values in self.rounds.items()
        )
        return head + "".join(rows)


def write_results(name: str, tables: list[Table], facts: Mapping[str, Any], folder: Path) -> None:
    """Write ``<name>.json`` and ``<name>.md``, and print the page."""
    folder.mkdir(parents=True, exist_ok=True)
    command = this_command()
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    record = {
        "command": command,
        "machine": machine,
        "tables": {
            table.title: {"unit": table.unit, "rounds": table.rounds}
            | ({"command": table.command} if table.command else {})
            for table in tables
        },
        "facts": dict(facts),
    }
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = "".join(f"- {key}: {value}\n" for key, value in facts.items())
    page = f"# {name}\n\n`{command}` ({machine})\n\n" + "\n".join(table.markdown() for table in tables)
    page += f"\n{lines}" if lines else ""
    (folder / f"{name}.md").write_text(page)
    print(page)


def this_command() -> str:
    """The command that runs, as a shell takes it."""
    # A path of the machine that measured helps nobody: its last name is enough.
    words = [f"<{Path(word).name}>" if word.startswith("/") else shlex.quote(word) for word in sys.argv[1:]]
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def peak_memory(process: int | str = "self", *, reset: bool = False) -> int:
    """The most memory a process has held, in bytes; ``reset`` makes it what is held now (Linux)."""
    if reset:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
