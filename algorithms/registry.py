"""All algorithms by name: `rlvr algorithms`, `rlvr train`, the docs and the examples read this table and no other.

What is listed trains, and what trains is listed. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rlvr.algorithms.objectives import OBJECTIVES, Objective
from rlvr.algorithms.presets import PRESETS, Preset

Algorithm = Preset | Objective

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({**PRESETS, **OBJECTIVES})


def table() -> str:
    """All algorithms as text: the policy losses, one column per choice, then likelihoods and preferences."""
    presets = [preset for preset in ALGORITHMS.values() if isinstance(preset, Preset)]
    header = ("algorithm", "advantage", "ratio", "clip", "aggregation", "KL", "corrections", "filters", "source")
    lines = _aligned([header, *(_cells(preset) for preset in presets)])
    others = [one for one in ALGORITHMS.values() if isinstance(one, Objective)]
    more = _aligned(
        [
            ("algorithm", "loss", "learns from", "source"),
            *((one.name, one.formula, one.learns_from, one.arxiv) for one in others),
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
