"""The live display of a training run: bars and a table of figures on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rlvr.algorithms.runs.complaints import Complaints
from rlvr.algorithms.runs.dashboard import dashboard
from rlvr.envs.core.terminal import printable

LINES = 10  # a phase prints this many lines where there is no terminal
MEAN = 20  # steps whose mean says how long the rest takes


class RunConsole(Console):
    """A console whose reader may leave, as `head` does: the run then stops as after SIGTERM, saved and resumable."""

    def on_broken_pipe(self) -> None:
        """Rich's own ends the process at once, with nothing saved."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.raise_signal(signal.SIGTERM)


class Display:
    """A ``Callback`` that shows phases as bars, and the last step's figures under them.

    ``label`` is the name of one of several policies of a run, and stands before all that is printed of it.
    A complaint of `health` is printed as a line when it first holds; on a terminal it stands under the figures.
    """

    def __init__(self, console: Console | None = None, label: str = "") -> None:
        self.console, self.label = console or RunConsole(), label
        # One of several policies has lines alone, above the bars of the run.
        self._lines = bool(label) or not self.console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
        )
        self._complaints = Complaints()
        self._times: list[float] = []
        self._timing: dict[str, Any] = {}
        self._task: TaskID | None = None
        self._name, self._done, self._steps = "", 0, 0
        self._live = Live(console=self.console, get_renderable=self._shown, refresh_per_second=4)

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def phase(self, name: str, steps: int) -> None:
        """Begins a bar of ``steps`` steps; the one before stays on the screen."""
        self._name, self._done, self._steps = name, 0, steps
        self._task = self._progress.add_task(name, total=steps, figures="")

    def member(self, name: str) -> Display:
        """The display of one of several policies that a run trains."""
        return Display(self.console, f"{name}: ")

    def look_back(self, records: Sequence[dict[str, Any]]) -> None:
        """Takes what a run that goes on has logged; what it logs again after its checkpoint is forgotten."""
        self._complaints.look_back(records)

    def step(self, record: dict[str, Any]) -> None:
        """Advances the bar; without a terminal prints about ten lines a phase, and every evaluation."""
        complaints, text = self._complaints.add(record), figures(record)
        if record["phase"] == "evaluation":
            self._print(f"evaluation {escape(record['name'])}: {text}")
        if self._lines:
            for complaint in complaints:
                self.say(f"step {self._complaints.records[-1]['step']}: {complaint}")
        if record["phase"] == "evaluation":
            return
        self._done += 1
        if self._task is not None:
            self._progress.update(self._task, advance=1, figures="" if record["phase"] == "train" else text)
        every = max(1, self._steps // LINES)
        if self._lines and (self._done % every == 0 or self._done == self._steps):
            self._print(f"{self._name} {self._done}/{self._steps}: {text}")

    def timed(self, timing: dict[str, Any]) -> None:
        """Takes the seconds of the last step."""
        if "collect_seconds" in timing:  # a training step, and no evaluation
            self._timing = timing
            self._times = [*self._times[1 - MEAN :], float(timing["seconds"])]

    def _shown(self) -> RenderableType:
        timing = dict(self._timing)
        if self._times:
            timing["left_seconds"] = sum(self._times) / len(self._times) * (self._steps - self._done)
        return Group(self._progress, dashboard(self._complaints.records, timing, self._complaints.current))

    def say(self, text: str) -> None:
        """One line above the bars; markup and control characters are shown, not obeyed."""
        self._print(escape(printable(text)))

    def _print(self, text: str) -> None:
        self.console.print(f"{self.label}{text}", highlight=False, soft_wrap=not self.console.is_terminal)


def figures(record: dict[str, Any]) -> str:
    """The few numbers of a step that a person follows."""
    if record["phase"] == "evaluation":
        shares = (
            f"{way} {_both(record, f'{way}_')}{_interval(record, way)}{_hacks(record, f'{way}_')}"
            for way in ("greedy", "sampled")
        )
        return (
            f"{', '.join(shares)} on {record['tasks']} held-out {record.get('held_out', 'tasks')}{game_figures(record)}"
        )
    if record["phase"] != "train":
        return f"loss {record['loss']:.3f}"
    return (
        f"reward {record['reward']:.3f}  {_both(record)}{_hacks(record)}  turns {record['turns']:.1f}  "
        f"tokens {record['sampled_tokens']:.0f}  signal {record['groups_with_signal']:.2f}"
    )


def _both(record: dict[str, Any], way: str = "") -> str:
    """The success over valid episodes, and over all."""
    return f"success {record[f'{way}success']:.3f} ({record[f'{way}success_all']:.3f} of all)"


def _hacks(record: dict[str, Any], way: str = "") -> str:
    """The share that was paid and not right; empty where no verdict says what an episode was worth."""
    if record.get(f"{way}hack_rate") is None:
        return ""
    return f", hack rate {record[f'{way}hack_rate']:.3f}, clean {record[f'{way}clean_success']:.3f}"


def _interval(record: dict[str, Any], way: str) -> str:
    """The 95 % interval of the success; empty in what a version before has logged."""
    low, high = record.get(f"{way}_low"), record.get(f"{way}_high")
    return "" if low is None or high is None else f" [95 % {low:.3f} to {high:.3f}]"


def game_figures(record: dict[str, Any]) -> str:
    """What an evaluation of a game of several seats has beside success; nothing of others."""
    bots = record.get("panel", {}).get("sampled", {})
    parts = [f"not lost against {name} {score['not_lost']:.3f}" for name, score in bots.items()]
    if "exploitability" in record:
        parts.append(f"exploitability {record['exploitability']:.3f}")
    return "".join(f", {part}" for part in parts)
