"""Writes what the docs and the examples say of the algorithms, from the registries; `make docs` calls it.

    python benchmarks/algorithm_pages.py

A block of a preset on a page of docs/algorithms/ is brought up to date where it stands; table.md and the configs in
examples/algorithms/ are written anew. `tests/algorithms/test_docs.py` compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from rlvr.algorithms.advantages.compute import needed_entries
from rlvr.algorithms.recipe.advantage import ADVANTAGES
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS, Algorithm
from rlvr.algorithms.recipe.loss_parts import AGGREGATIONS, CLIP_RULES, CORRECTIONS
from rlvr.algorithms.recipe.objectives import Objective
from rlvr.algorithms.recipe.presets import PRESETS, Preset

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "algorithms"
EXAMPLES = ROOT / "examples" / "algorithms"
SAMPLING = "sampling: {max_new_tokens: 24, max_length: 96}"
BOXED = 'thinking_phrase: "\\\\boxed{"'
# The few algorithms that need a setting of their own on the calculator: the line of `sampling`, and one more.
SETTINGS = {
    "kimi": ("sampling: {max_new_tokens: 24, max_length: 96, segment: 8}  # longer replies go on in the next step", ""),
    "brpo": (
        f"sampling: {{max_new_tokens: 24, max_length: 128, {BOXED}}}",
        "credit: {budgets: [4, 8, 16], answers: 2, answer_tokens: 12}",
    ),
    "scalerl": (
        f"sampling: {{max_new_tokens: 24, max_length: 128, thinking_budget: 12, thinking_spread: 2, {BOXED}}}",
        "",
    ),
    "sdpo": ("sampling: {max_new_tokens: 24, max_length: 256}  # a teacher reads hints, too", ""),
    "vineppo": (SAMPLING, "overrides: {continuations: 2}  # continuations a state; the paper has 9"),
}
BLOCK = re.compile(r"```text\n(\w+)\nA = .*\nL = .*\n```")


def block(preset: Preset) -> str:
    """Name, advantage and loss of a preset, as they stand on a page."""
    return f"```text\n{preset.name}\nA = {preset.estimator.formula}\nL = {preset.formula}\n```"


def refreshed(text: str) -> str:
    """A page with its blocks as the registry says; a preset that is gone is an error."""
    return BLOCK.sub(lambda match: block(PRESETS[match[1]]), text)


def example(algorithm: Algorithm) -> str:
    """The config of examples/algorithms/ that trains the calculator with this algorithm."""
    name = algorithm.name
    sampling, more = SETTINGS.get(name, (SAMPLING, ""))
    if isinstance(algorithm, Preset):
        head = [f"A = {algorithm.estimator.formula}", f"L = {algorithm.formula}"]
    else:
        head = [f"L = {algorithm.formula}", f"learns from {algorithm.learns_from}"]
    lines = [
        f"# {name} ({algorithm.arxiv}), as `make docs` writes it",
        *(f"# {line}" for line in (*head, algorithm.note) if line),
        "env: {id: rlvr/Calculator-v0, system: false}",
        "model: {name: rlvr/tiny}",
        sampling,
        "warm_start: {steps: 200, lr: 3.0e-3, mixed_steps: 20, mixed_lr: 1.0e-3, direct_answer_share: 0.65}",
        f"algorithm: {name}",
        *([more] if more else []),
        "learner: {lr: 3.0e-4, warmup_steps: 2, minibatches: 2}",
        "evaluation: {episodes: 128}",
        "steps: 20",
        "prompts: 8",
        "group_size: 8",
        f"out: runs/algorithms/{name}",
    ]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text that can stand in a cell of a table."""
    return text.replace("|", "\\|")


def table() -> str:
    """The page of all registries."""
    lines = [
        "# All algorithms",
        "",
        f"{len(ALGORITHMS)} algorithms: {len(PRESETS)} policy losses and {len(ALGORITHMS) - len(PRESETS)} others. Each"
        " trains by its name: `rlvr train --algorithm NAME`. This page is written by `benchmarks/algorithm_pages.py`.",
        "",
        "## Policy losses",
        "",
        "| name | A | L | source |",
        "|---|---|---|---|",
        *(f"| `{p.name}` | {cell(p.estimator.formula)} | {cell(p.formula)} | {p.arxiv} |" for p in PRESETS.values()),
        "",
        "## Likelihood and preference",
        "",
        "| name | L | learns from | source |",
        "|---|---|---|---|",
        *(
            f"| `{algorithm.name}` | {cell(algorithm.formula)} | {cell(algorithm.learns_from)} | {algorithm.arxiv} |"
            for algorithm in ALGORITHMS.values()
            if isinstance(algorithm, Objective)
        ),
        "",
        "## Advantages",
        "",
        "| name | A | per | needs beside rewards and groups | source |",
        "|---|---|---|---|---|",
        *(
            f"| `{a.name}` | {cell(a.formula)} | {'token' if a.per_token else 'sequence'} | {needed_entries(a)} "
            f"| {a.source} |"
            for a in ADVANTAGES.values()
        ),
        "",
        "## Clip rules",
        "",
        "| name | ratio levels | choices it reads | what it is |",
        "|---|---|---|---|",
        *(
            f"| `{rule.name}` | {', '.join(rule.ratio_levels)} | {', '.join(rule.reads)} | {cell(rule.__doc__ or '')} |"
            for rule in CLIP_RULES.values()
        ),
        "",
        "## Corrections and aggregations",
        "",
        "| name | formula |",
        "|---|---|",
        *(f"| `{rule.name}` | {cell(rule.formula)} |" for rule in CORRECTIONS.values()),
        *(f"| `{name}` | {cell(each.formula)} |" for name, each in AGGREGATIONS.items()),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the pages."""
    for page in sorted(PAGES.glob("*.md")):
        if page.name != "table.md":
            page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
    (PAGES / "table.md").write_text(table(), encoding="utf-8")
    for path in EXAMPLES.glob("*.yaml"):
        if path.stem not in ALGORITHMS:
            path.unlink()
    for name, algorithm in ALGORITHMS.items():
        (EXAMPLES / f"{name}.yaml").write_text(example(algorithm), encoding="utf-8")


if __name__ == "__main__":
    main()
