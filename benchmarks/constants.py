"""Policies that learn nothing beside the expert: one or two actions said always, the first or last legal, random play.

    python benchmarks/constants.py [--only TEXT …] [--error 0.02] [--out benchmarks/results]

Each level of every id that has an expert is played by the expert, at random, and by each fixed policy that the actions
of the level suggest (`rlvr.envs.fixed_policies`), on the same tasks. A policy that comes near the expert is played
until the standard error of its mean is at most ``--error``. ``--only`` measures the ids that contain one of the texts;
the others keep what they have. The expert's figures below 1 are also written to ``envs/best_scores.json``, which the
environments read.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import rlvr
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.cards import card
from rlvr.envs.core.registry import store_best_scores
from rlvr.envs.fixed_policies import GAP, measure_fixed


def rows_of(env_id: str, error: float) -> list[dict[str, Any]]:
    """The figures of each level; none where there is no expert or no data set."""
    described = card(env_id)
    if not described.ready:
        return []
    scores = [measure_fixed(env_id, level, error) for level in range(1, described.levels + 1)]
    return [score.to_dict() for score in scores if score is not None]


def page(rows: dict[str, list[dict[str, Any]]], error: float) -> str:
    """Levels at which the expert earns less than ``GAP`` more, then the table of all."""
    lines, near = [], []
    for env_id, scores in rows.items():
        for score in scores:
            best = max(score["random"], score["constant"])
            name = score["policy"] if score["constant"] > score["random"] else "random play"
            name = " ".join(name.replace("|", "/").replace("`", "'").split())[-60:]
            figures = f"{score['expert']:.2f} | {score['random']:.2f} | {score['constant']:.2f}"
            lines.append(f"| {env_id} | {score['level']} | {figures} | `{name}` |\n")
            if score["expert"] - best < GAP:
                near.append(f"- {env_id} level {score['level']}: expert {score['expert']:.2f}, `{name}` {best:.2f}\n")
    near = near or ["None.\n"]
    return (
        "# Policies that learn nothing\n\n`python benchmarks/constants.py`: mean returns of the expert, of random play "
        "and of the best fixed policy: one action said always, two that are never legal together, the first or last "
        "legal move, the own last move. "
        f"Figures near the expert's have a standard error of at most {error}.\n\n"
        f"## Within {GAP} of the expert\n\n{''.join(near)}\n"
        "## All levels\n\n| id | level | expert | random | best fixed policy | which |\n|---|---|---|---|---|---|\n"
        + "".join(lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[""], help="ids that contain one of these texts")
    parser.add_argument("--error", type=float, default=0.02, help="standard error of means near the expert's")
    parser.add_argument("--missing", action="store_true", help="ids that have no figures yet")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.pop("RLVR_DATA", None)  # scores on made-up rows would say nothing
    path = options.out / "constants.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else {}
    ids = [env_id for env_id in rlvr.list_envs() if not env_id.startswith(PREFIXES)]
    rows = {env_id: scores for env_id, scores in rows.items() if env_id in ids}
    for env_id in ids:
        if not any(text.lower() in env_id.lower() for text in options.only) or (options.missing and env_id in rows):
            continue
        rows[env_id] = rows_of(env_id, options.error)
        gaps = [f"{each['expert']:.2f}-{max(each['random'], each['constant']):.2f}" for each in rows[env_id]]
        print(env_id, *gaps, flush=True)
        rows = dict(sorted(rows.items()))
        path.write_text(json.dumps({"error": options.error, "rows": rows}, indent=1) + "\n")
    (options.out / "constants.md").write_text(page(rows, options.error))
    experts = {env_id: [round(each["expert"], 3) for each in scores] for env_id, scores in rows.items()}
    store_best_scores({env_id: scores for env_id, scores in experts.items() if scores and min(scores) < 1})


if __name__ == "__main__":
    main()
