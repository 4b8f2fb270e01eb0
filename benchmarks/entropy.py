"""What holds the entropy up, and whether that helps: each on the tasks, seeds and settings of the learning curves.

    python benchmarks/entropy.py --work runs/warm   # what is not measured yet, then the figure and the table
    python benchmarks/entropy.py --draw             # these alone

All arms are one algorithm (z-scores of groups, a mean over tokens) but for what the arm names, at the papers' settings.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from curves import ENDS, SEEDS, TASKS, measure, settings

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "entropy.json"
PAGE = ROOT / "docs" / "algorithms" / "curves.md"
PICTURE = ROOT / "docs" / "images" / "entropy.png"
MARKS = ("<!-- entropy -->", "<!-- end of entropy -->")
LOGGED = {"entropy_coef": 1e-9}  # too small to act; the log then has the entropy
PPO = {"clip": "ppo", **LOGGED}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "none of them": ("clip_cov", {"overrides": PPO}),
    "entropy_share 0.2": ("clip_cov", {"overrides": {**PPO, "entropy_share": 0.2}}),
    "entropy_target 0.2": ("clip_cov", {"overrides": PPO, "learner": {"entropy_target": 0.2}}),
    "clip_cov": ("clip_cov", {"overrides": LOGGED}),
    "kl_cov": ("kl_cov", {"overrides": LOGGED}),
}
COLOURS = dict(zip(ARMS, ("#555555", "#3465a4", "#b8502f", "#4e9a06", "#75507b"), strict=True))
Runs = dict[str, dict[str, dict[str, Any]]]  # by task, arm, seed


def load() -> Runs:
    """What is measured already with these settings."""
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    same = record.get("settings") == json.loads(json.dumps([ARMS, [settings(task) for task in TASKS]]))
    return record["runs"] if same else {}


def save(runs: Runs) -> None:
    """Write the record, whole or not at all."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    record = {"command": "python benchmarks/entropy.py", "machine": machine, "runs": runs}
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(json.dumps(record | {"settings": [ARMS, [settings(task) for task in TASKS]]}, indent=1) + "\n")
    draft.replace(RESULTS)


def ends(runs: dict[str, Any], what: str) -> str:
    """The mean over the first and over the last steps, seeds together; the last with its lowest and highest seed."""
    first = statistics.fmean(x for run in runs.values() for x in run[what][:ENDS])
    last = [statistics.fmean(run[what][-ENDS:]) for run in runs.values()]
    return f"{first:.2f} to {statistics.fmean(last):.2f} ({min(last):.2f} to {max(last):.2f})"


def draw(runs: Runs) -> None:
    """Success and entropy by step, the mean over seeds; and the table of the page."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(TASKS), sharex=True)
    lines = ["| task | what | success | entropy, nats a token | seeds |", "|---|---|---|---|---|"]
    for column, (task, arms) in enumerate(runs.items()):
        for arm, by_seed in arms.items():
            for row, what in enumerate(("success", "entropy")):
                curve = [statistics.fmean(x) for x in zip(*(run[what] for run in by_seed.values()), strict=True)]
                panels[row][column].plot(range(1, len(curve) + 1), curve, color=COLOURS[arm], lw=1.3, label=arm)
                panels[row][column].set(title=f"{task}: {what}")
            lines.append(
                f"| {task} | {arm} | {ends(by_seed, 'success')} | {ends(by_seed, 'entropy')} | {len(by_seed)} |"
            )
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ARMS), fontsize=8)
    figure.savefig(PICTURE, metadata={"Software": None})
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    PAGE.write_text("\n".join([before + MARKS[0], *lines, MARKS[1] + rest.partition(MARKS[1])[2]]), encoding="utf-8")


def main() -> int:
    """Measure what is missing, seed by seed, each result written at once; then the figure and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="write the figure and the table from what is measured")
    parser.add_argument("--work", type=Path, help="folder that keeps the warmed-up policies, for another call")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    runs = load()
    with tempfile.TemporaryDirectory() as temporary:
        for seed, task, arm in ((s, t, a) for s in SEEDS for t in TASKS for a in ARMS if not options.draw):
            by_seed = runs.setdefault(task, {}).setdefault(arm, {})
            if str(seed) not in by_seed:
                algorithm, change = ARMS[arm]
                by_seed[str(seed)] = run = measure(task, algorithm, seed, options.work or Path(temporary), change)
                print(task, arm, seed, run["success"], run["entropy"], run["cpu_seconds"], flush=True)
                save(runs)
    draw(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
