"""The figures of a training run as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rlvr.envs.core.terminal import printable

BARS: Final = "▁▂▃▄▅▆▇█"
POINTS: Final = 32  # of a small curve
# What is shown: its name, the record's, how it is written.
FIGURES: Final = (
    ("reward", "reward", "{:.3f}"),
    ("success, valid", "success", "{:.3f}"),
    ("success, all", "success_all", "{:.3f}"),
    ("hack rate", "hack_rate", "{:.3f}"),
    ("clean success", "clean_success", "{:.3f}"),
    ("signal", "groups_with_signal", "{:.2f}"),
    ("turns", "turns", "{:.1f}"),
    ("tokens", "sampled_tokens", "{:.0f}"),
    ("cut off", "hit_token_limit", "{:.2f}"),
    ("entropy", "entropy", "{:.3g}"),
    ("KL to the reference", "ref_kl_k3", "{:.2g}"),
    ("KL to the sampler", "behaviour_kl_k3", "{:.2g}"),
    ("clipped", "clipped", "{:.3f}"),
    ("gradient", "grad_norm", "{:.3g}"),
)
PARTS: Final = ("sample", "environment", "update", "sync")  # of a step's time


def dashboard(
    records: Sequence[Mapping[str, Any]], timing: Mapping[str, Any], complaints: Sequence[str]
) -> RenderableType:
    """The last step's figures with their curves, where its time goes, and what is wrong.

    Args:
        records: of the training steps so far; those of long ago may be left out.
        timing: of the last step, with ``left_seconds`` for the steps to come, where they are known.
        complaints: of `rlvr.algorithms.runs.health`.
    """
    if not records:
        return Text("")
    table = Table.grid(padding=(0, 2))
    cells: list[tuple[str, str, str]] = []
    for title, name, form in FIGURES:
        values = [value for value in (_value(record, name) for record in records) if value is not None]
        if values:
            cells.append((title, form.format(values[-1]), sparkline(values[-POINTS:])))
    # two figures a row: name, value, curve
    for first, second in zip(cells[::2], [*cells[1::2], ("", "", "")], strict=False):
        table.add_row(*(Text(word) for word in (*first, *second)))
    lines: list[RenderableType] = [table]
    if text := time_line(timing):
        lines.append(Text(text))
    lines += [Text(f"! {printable(each)}", style="bold yellow") for each in complaints]
    return Group(*lines)


def time_line(timing: Mapping[str, Any]) -> str:
    """Tokens a second, the shares of a step's time, and when the rest will be done; "" without times."""
    seconds = timing.get("seconds")
    if not isinstance(seconds, int | float) or seconds <= 0:
        return ""
    shares = [(part, timing.get(f"{part}_seconds")) for part in PARTS]
    words = [f"{part} {value / seconds:.0%}" for part, value in shares if isinstance(value, int | float)]
    rate = timing.get("tokens_per_second")
    words = [f"{rate:,.0f} tokens/s"] * isinstance(rate, int | float) + words
    left = timing.get("left_seconds")
    rest = [f"{duration(left)} left"] if isinstance(left, int | float) else []
    return "  ".join([*words, f"{seconds:.1f} s a step", *rest])


def duration(seconds: float) -> str:
    """``1 h 02 min``, ``3 min``, ``20 s``."""
    minutes = int(seconds // 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"


def sparkline(values: Sequence[float]) -> str:
    """A curve of one line, from the least value to the largest."""
    # an infinite value would flatten all others
    finite = [value for value in values if abs(value) < float("inf")]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    if high <= low:
        return BARS[0] * len(finite)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in finite)


def _value(record: Mapping[str, Any], name: str) -> float | None:
    if name == "clipped":
        # the two sides are apart in the record, and a person asks for both
        sides = [record.get("clip_frac_low"), record.get("clip_frac_high")]
        return sum(sides) if all(isinstance(side, int | float) for side in sides) else None  # type: ignore[arg-type]
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
