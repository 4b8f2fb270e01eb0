"""Learning: the example configs with several seeds, each in a process of its own with one thread.

    python benchmarks/learning.py                                  # all five, seeds 0, 1 and 2
    python benchmarks/learning.py --configs calculator --seeds 0   # measures these again, keeps the other rows

Before and after are success on held-out tasks, greedy and sampled; "last 10" is the mean reward of the last ten
training steps. CPU seconds are those of the warm start, the training and the evaluations, and grow by half or more on a
machine that does other work; peak memory is the process's. Tool calls are those of a held-out episode, in the mean.
The pictures show one seed each. The exit status is 1 if a run misses its target. With ``--runs`` the run folders are
kept, and one that holds the same run already, to its end, is read instead of run again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rlvr.algorithms.config import load_config

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
PICTURES = {("calculator", 0): "demo.png", ("world_search", 1): "world_search.png"}  # by config and seed
Row = dict[str, Any]
# What each run must reach: a bound, on a figure of its row, from below ("min") or above ("max").
TARGETS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "calculator": (
        ("before_sampled", "max", 0.40),
        ("last_10", "min", 0.80),
        ("after_greedy", "min", 0.85),
        ("cpu_seconds", "max", 90),
        ("peak_mib", "max", 1536),
    ),
    "word_problems": (("after_greedy", "min", 0.65), ("gain_greedy", "min", 0.35)),
    "guess_number": (
        ("before_sampled", "max", 0.50),
        ("last_10", "min", 0.80),
        ("after_greedy", "min", 0.80),
        ("cpu_seconds", "max", 600),
    ),
    "world_search": (
        ("before_sampled", "max", 0.40),
        ("last_10", "min", 0.80),
        ("after_greedy", "min", 0.80),
        ("cpu_seconds", "max", 360),
    ),
    "countdown": (
        ("before_sampled", "max", 0.50),
        ("last_10", "min", 0.80),
        ("after_greedy", "min", 0.80),
        ("cpu_seconds", "max", 600),
    ),
}
# What a table shows, where its rows have it.
COLUMNS = {
    "seed": "seed",
    "before_sampled": "before, sampled",
    "before_greedy": "before, greedy",
    "last_10": "last 10 steps",
    "after_sampled": "after, sampled",
    "after_greedy": "after, greedy",
    "before_sampled_tool_calls": "tool calls before, sampled",
    "after_sampled_tool_calls": "tool calls after, sampled",
    "before_greedy_tool_calls": "tool calls before, greedy",
    "after_greedy_tool_calls": "tool calls after, greedy",
    "cpu_seconds": "CPU s",
    "peak_mib": "peak MiB",
    "missed": "missed",
}


def measure(config: str, seed: int, folder: Path) -> Row:
    """What the run in the folder came to; it is run first, in a process of its own, unless it is there already.

    Raises:
        RuntimeError: the training failed.
    """
    if not finished(config, seed, folder):
        command = [sys.executable, "-m", "rlvr", "train", "--config", f"examples/{config}.yaml"]
        command += ["--seed", str(seed), "--out", str(folder)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    timing = read(folder / "timing.jsonl")
    row = {"config": config, "seed": seed, **curve_figures(read(folder / "metrics.jsonl"))}
    row["cpu_seconds"] = round(sum(record["cpu_seconds"] for record in timing), 1)
    row["wall_seconds"] = round(sum(record["seconds"] for record in timing), 1)
    row["peak_mib"] = round(max(record["peak_mib"] for record in timing))
    row["missed"] = [name for name, way, bound in TARGETS[config] if not holds(row[name], way, bound)]
    return row


def finished(config: str, seed: int, folder: Path) -> bool:
    """Whether the folder holds this very run, to its end; another run in it is an error of ``rlvr train``."""
    if not (folder / "report.html").exists():
        return False
    wanted = load_config(ROOT / "examples" / f"{config}.yaml").model_dump(exclude={"out", "seed"})
    saved = load_config(folder / "config.yaml")
    return saved.model_dump(exclude={"out", "seed"}) == wanted and saved.seed == seed


def curve_figures(metrics: list[Row]) -> Row:
    evaluations = {record["name"]: record for record in metrics if record["phase"] == "evaluation"}
    rewards = [record["reward"] for record in metrics if record["phase"] == "train"]
    row: Row = {}
    for name in ("before", "after"):
        for way in ("sampled", "greedy"):
            row[f"{name}_{way}"] = round(evaluations[name][f"{way}_success"], 4)
            if evaluations["after"].get(f"{way}_tool_calls"):
                row[f"{name}_{way}_tool_calls"] = round(evaluations[name][f"{way}_tool_calls"], 2)
    row["gain_greedy"] = round(row["after_greedy"] - row["before_greedy"], 4)
    row["held_out_tasks"] = evaluations["after"]["tasks"]
    return row | {"steps": len(rewards), "last_10": round(statistics.fmean(rewards[-10:]), 4)}


def holds(value: float, way: str, bound: float) -> bool:
    return value >= bound if way == "min" else value <= bound


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def draw(folder: Path, name: str) -> None:
    from rlvr.algorithms.runs.report import draw_curve

    IMAGES.mkdir(parents=True, exist_ok=True)
    draw_curve(read(folder / "metrics.jsonl"), IMAGES / name)


def write(rows: list[Row], command: str) -> None:
    """``learning.json`` with everything, ``learning.md`` with a table a config."""
    import torch
    import transformers

    order = list(TARGETS)
    rows.sort(key=lambda row: (order.index(row["config"]), row["seed"]))
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {versions}"
    record = {"command": command, "machine": machine, "rows": rows}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "learning.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = f"# learning\n\n`{command}` ({machine}; one thread a run)\n"
    for config in order:
        if mine := [row for row in rows if row["config"] == config]:
            page += "\n" + table(config, mine)
    (RESULTS / "learning.md").write_text(page, encoding="utf-8")


def table(config: str, rows: list[Row]) -> str:
    wanted = ", ".join(f"{name} {'≥' if way == 'min' else '≤'} {bound:g}" for name, way, bound in TARGETS[config])
    head = f"## {config}\n\n`rlvr train --config examples/{config}.yaml --seed N`, {rows[0]['steps']} steps. "
    columns = {name: title for name, title in COLUMNS.items() if all(name in row for row in rows)}
    head += f"Wanted: {wanted}.\n\n| {' | '.join(columns.values())} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(cell(row[name], name) for name in columns)} |\n" for row in rows)


def cell(value: Any, name: str) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    if name.endswith("tool_calls"):
        return f"{value:.2f}"
    return f"{value:.3f}" if isinstance(value, float) and abs(value) <= 1 else f"{value:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, help="folder of the run folders; a temporary one otherwise")
    options = parser.parse_args()
    command = " ".join(["python benchmarks/learning.py", *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as temporary:
        runs = options.runs or Path(temporary)
        runs.mkdir(parents=True, exist_ok=True)
        missed = False
        for config in options.configs:
            for seed in options.seeds:
                folder = runs.resolve() / f"{config}-{seed}"
                row = measure(config, seed, folder)
                missed |= bool(row["missed"])
                print(json.dumps(row), flush=True)
                stored = RESULTS / "learning.json"
                rows = json.loads(stored.read_text())["rows"] if stored.exists() else []
                others = [old for old in rows if (old["config"], old["seed"]) != (config, seed)]
                write([*others, row], command)
                if picture := PICTURES.get((config, seed)):
                    draw(folder, picture)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
