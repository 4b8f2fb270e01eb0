"""All algorithms by name: `rlvr algorithms`, `rlvr train`, the docs and the examples read this table and no other.

What is listed trains, and what trains is listed. Nothing here needs torch.
"""

from __future__ import annotations

import textwrap
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rlvr.algorithms.recipe.objectives import OBJECTIVES, Objective
from rlvr.algorithms.recipe.presets import PRESETS, Preset
from rlvr.envs.core.hints import did_you_mean

Algorithm = Preset | Objective

# Both are read when a name is looked up, so what is registered later is there; iteration begins with the last.
ALGORITHMS: Mapping[str, Algorithm] = ChainMap[str, Any](OBJECTIVES, PRESETS)  # type: ignore[arg-type]


def register_preset(preset: Preset) -> Preset:
    """Add an algorithm; ``algorithm: NAME`` in a config and ``NAME_loss`` then stand for it.

    Raises:
        TypeError: it is no `Preset`.
        ValueError: its name is taken.
    """
    if getattr(preset, "name", None) in OBJECTIVES:
        raise ValueError(f"there is an algorithm {preset.name!r} already: choose another name")
    return PRESETS.register(preset)


def table() -> str:
    """All algorithms as text: the policy losses, one column per choice, then likelihoods and preferences."""
    presets = [preset for preset in ALGORITHMS.values() if isinstance(preset, Preset)]
    header = ("algorithm", "advantage", "ratio", "clip", "aggregation", "KL", "corrections", "filters", "source")
    lines = _aligned([header, *(_cells(preset) for preset in presets)])
    others = [objective for objective in ALGORITHMS.values() if isinstance(objective, Objective)]
    more = _aligned(
        [
            ("algorithm", "loss", "learns from", "source"),
            *((objective.name, objective.formula, objective.learns_from, objective.arxiv) for objective in others),
        ]
    )
    return "\n".join([*lines, "", *more]) + "\n"


def _cells(p: Preset) -> tuple[str, ...]:
    ratio = "-" if p.ratio_level == "none" else f"{p.ratio_level} ({p.ratio_denominator})"
    kl = "-" if p.kl == "none" else f"{p.kl} {p.kl_in} {p.kl_coef:g}"
    corrections, filters = ", ".join(map(str, p.corrections)) or "-", ", ".join(p.filters) or "-"
    return (p.name, p.advantage, ratio, p.clip_rule.summary(p), p.aggregation, kl, corrections, filters, p.arxiv)


def _aligned(lines: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    texts = ["  ".join(cell.ljust(n) for cell, n in zip(line, widths, strict=True)).rstrip() for line in lines]
    return [texts[0], "-" * len(texts[0]), *texts[1:]]


_SHOWN = ("advantage", "ratio_level", "ratio_denominator", "aggregation", "kl")  # by `describe`, whatever they are


def describe(name: str, width: int = 100) -> str:
    """One algorithm as text: what it is made of, and each choice that is not the default, on a line of its own.

    Args:
        name: of an algorithm.
        width: characters of a line.

    Raises:
        ValueError: there is no such algorithm; the nearest is named.
    """
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}{did_you_mean(name, ALGORITHMS)}")
    algorithm = ALGORITHMS[name]
    chosen = [
        field.name
        for field in fields(algorithm)
        if field.name in _SHOWN or getattr(algorithm, field.name) != field.default
    ]
    rows = [(title, _shown(getattr(algorithm, title))) for title in chosen if title != "name"]
    if isinstance(algorithm, Preset):
        rows.append(("clip rule", algorithm.clip_rule.summary(algorithm)))
    rows = [(title, text) for title, text in rows if text]
    indent = max(len(title) for title, _ in rows) + 4
    lines = [
        textwrap.fill(f"  {title:<{indent - 2}}{text}", max(width, indent + 20), subsequent_indent=" " * indent)
        for title, text in rows
    ]
    return "\n".join([name, *lines])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
