"""The record, the tables and the figures of the laboratory of credit, which `credit.py` and `credit_models.py` fill."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "credit.json"
PAGE = ROOT / "docs" / "credit.md"
SECTIONS = ("cells", "models")  # of the results
SHARES = (0.3, 0.6, 0.9)  # of turns that the expert plays, in a mixture
STAGES = ("few", "many", "reinforced")  # of a language model: steps of imitation, and reinforcement learning after
COLUMNS = ("spearman", "signs", "bias", "gradient", "variance", "cost")
BESIDE = "outcome (rloo)"  # that the others are compared with, cell by cell
DRAWN = (
    "expert score",
    "vine, 4 continuations",
    "rebn",
    BESIDE,
    "turn_rloo",
    "gigpo",
    "per turn index",
)  # in the figures
Results = dict[str, dict[str, Any]]  # cells of mixtures and of models, by name


def load() -> Results:
    """What is measured so far."""
    return {section: {} for section in SECTIONS} | (json.loads(RESULTS.read_text()) if RESULTS.exists() else {})


def store(results: Results) -> None:
    """A line for each entry, numbers to six digits."""
    short = json.loads(json.dumps(results), parse_float=lambda text: float(f"{float(text):.6g}"))
    sections = []
    for section, entries in short.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        sections.append(f"{json.dumps(section)}: {{\n{lines}\n}}")
    RESULTS.write_text("{" + ",\n".join(sections) + "}\n", encoding="utf-8")


def median(values: Sequence[float | None]) -> float | None:
    """Of those that are numbers; None without any."""
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers else None


def table(cells: dict[str, dict[str, Any]]) -> list[str]:
    """The rows of the page: medians over the cells; of Spearman's the quartiles, too."""
    lines = [
        "| rule | Spearman | quartiles | above rloo | wrong signs | bias | gradient | variance | cost | cells |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    rows = []
    for name in dict.fromkeys(name for cell in cells.values() for name in cell["rules"]):
        having = [cell["rules"] for cell in cells.values() if name in cell["rules"]]
        rules = [of_cell[name] for of_cell in having]
        row = {key: median([rule.get(key) for rule in rules]) for key in COLUMNS}
        both = [(of_cell[name]["spearman"], of_cell[BESIDE]["spearman"]) for of_cell in having]
        pairs = [(own, other) for own, other in both if None not in (own, other) and own != other]
        above = f"{sum(own > other for own, other in pairs)} of {len(pairs)}" if pairs else "-"
        ranked = [rule["spearman"] for rule in rules if rule["spearman"] is not None]
        low, _, high = statistics.quantiles(ranked, n=4) if len(ranked) > 1 else (None, None, None)
        quartiles = f"{_cell(low)} to {_cell(high)}"
        rows.append((name, row, [quartiles, above], sum(rule.get("variance") is not None for rule in rules)))
    for name, row, spread, count in sorted(rows, key=lambda each: -(each[1]["spearman"] or 0)):
        values = [_cell(row[key]) for key in COLUMNS]
        lines.append(f"| {' | '.join([name, values[0], *spread, *values[1:], str(count)])} |")
    return lines


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def with_signal(cells: dict[str, Any]) -> dict[str, Any]:
    """Those whose true advantages stand out of their errors."""
    return {name: cell for name, cell in cells.items() if cell["rms_truth"] > 1.5 * cell["mean_error"]}


def page(text: str, results: Results, bonus: Sequence[str]) -> str:
    """The page with what is between its markers written anew; ``bonus`` is the table of the chain in closed form."""
    cells, models = with_signal(results["cells"]), with_signal(results["models"])
    ids = {name.split()[0] for name in results["cells"]}
    minutes = {
        section: sum(entry["cpu_seconds"] for entry in entries.values()) / 60 for section, entries in results.items()
    }
    blocks = {
        "cells": [
            f"{len(results['cells'])} cells of {len(ids)} ids are measured, in {minutes['cells']:.1f} CPU-minutes.",
            f"In {len(cells)} of them the true advantages stand out of their errors: their root mean square is above",
            "1.5 times the mean error. These are tabled, each figure as the median over cells.",
        ],
        "all": table(cells),
        "bonus": list(bonus),
        "models": [
            f"{len(results['models'])} cells are measured, in {minutes['models']:.1f} CPU-minutes without training;",
            f"{len(models)} stand out of their errors and are tabled.",
            "",
            *table(models),
            "",
            *_model_rows(results["models"]),
        ],
    }
    for name, lines in blocks.items():
        text = with_block(text, name, lines)
    return text


def with_block(text: str, name: str, lines: Sequence[str]) -> str:
    """The page with what is between the markers of one block written anew."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"docs/credit.md must hold {start} and {end} once each")
    head, rest = text.split(start)
    return head + start + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def _model_rows(cells: dict[str, Any]) -> list[str]:
    """What the policies earn in the cells, by stage."""
    lines = [f"| reward, turns an episode | {' | '.join(STAGES)} |", "|---|" + "---|" * len(STAGES)]
    for where in dict.fromkeys(name.rpartition(" ")[0] for name in cells):
        of_stages = [cells.get(f"{where} {stage}") for stage in STAGES]
        row = ["-" if cell is None else f"{cell['reward']:.2f}, {cell['turns']:.1f}" for cell in of_stages]
        lines.append(f"| {' | '.join([where, *row])} |")
    return lines


def draw(results: Results, bonus: Sequence[str]) -> None:
    """The tables of the page, and its figures."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results, bonus), encoding="utf-8")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    policies = {
        "mixtures, by share of expert moves": (with_signal(results["cells"]), [f"share {s:g}" for s in SHARES]),
        "language models, by stage": (with_signal(results["models"]), list(STAGES)),
    }
    for column, label, file in (
        ("spearman", "Spearman's correlation with the truth", "credit_ranks.png"),
        ("gradient", "policy gradient over the true one", "credit_gradient.png"),
        ("variance", "variance at equal turns", "credit_variance.png"),
    ):
        figure = Figure(figsize=(10, 4), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, 2)
        for panel, (title, (cells, stages)) in zip(axes, policies.items(), strict=True):
            for rule in DRAWN:
                values = [
                    median([cell["rules"][rule].get(column) for name, cell in cells.items() if name.endswith(stage)])
                    for stage in stages
                ]
                panel.plot(range(len(stages)), [math.nan if v is None else v for v in values], marker="o", label=rule)
            panel.set_xticks(range(len(stages)), stages)
            panel.set_title(f"{title}: {len(cells)} cells", fontsize=9)
            panel.set_yscale("log" if column == "variance" else "linear")
            panel.grid(alpha=0.25)
        axes[0].set_ylabel(f"{label}, median over cells", fontsize=8)
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False
        )
        save_figure(figure, file)


def save_figure(figure: Any, file: str) -> None:
    """A small picture of the page."""
    from PIL import Image

    picture = PAGE.parent / "images" / file
    figure.savefig(picture, metadata={"Software": None})
    Image.open(picture).convert("RGB").quantize(64, Image.Quantize.MEDIANCUT).save(picture, optimize=True)
