"""The live display of a training run: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rlvr.envs.core.terminal import printable

LINES = 10  # a phase prints this many lines where there is no terminal


class Display:
    """A ``Callback`` that shows phases as bars, and the last step's figures beside them."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._progress = Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task: TaskID | None = None
        self._name, self._done, self._steps = "", 0, 0

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def phase(self, name: str, steps: int) -> None:
        """Begins a bar of ``steps`` steps; the one before stays on the screen."""
        self._name, self._done, self._steps = name, 0, steps
        self._task = self._progress.add_task(name, total=steps, figures="")

    def step(self, record: dict[str, Any]) -> None:
        """Advances the bar; without a terminal prints about ten lines a phase, and every evaluation."""
        text = figures(record)
        if record["phase"] == "evaluation":
            self.console.print(f"evaluation {escape(record['name'])}: {text}", highlight=False)
            return
        self._done += 1
        if self._task is not None:
            self._progress.update(self._task, advance=1, figures=text)
        every = max(1, self._steps // LINES)
        if not self.console.is_terminal and (self._done % every == 0 or self._done == self._steps):
            self.console.print(f"{self._name} {self._done}/{self._steps}: {text}", highlight=False)

    def say(self, text: str) -> None:
        """One line above the bars; markup and control characters are shown, not obeyed."""
        self.console.print(escape(printable(text)), highlight=False)


def figures(record: dict[str, Any]) -> str:
    """The few numbers of a step that a person follows."""
    if record["phase"] == "evaluation":
        shares = (f"{way} success {record[f'{way}_success']:.3f}" for way in ("greedy", "sampled"))
        return f"{', '.join(shares)} on {record['tasks']} held-out tasks"
    if record["phase"] != "train":
        return f"loss {record['loss']:.3f}"
    return (
        f"reward {record['reward']:.3f}  success {record['success']:.3f}  turns {record['turns']:.1f}  "
        f"tokens {record['sampled_tokens']:.0f}  signal {record['groups_with_signal']:.2f}"
    )
