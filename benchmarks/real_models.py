"""Curves of a pretrained model: examples/real/ with several seeds, one run after another in processes of one thread.

    make smollm2                                             # the model, once
    python benchmarks/real_models.py                         # all that is missing, seed 0 of each task first
    python benchmarks/real_models.py --tasks sums --seeds 0  # these alone
    python benchmarks/real_models.py --dry-run               # what is missing

It may be killed at any time and begun again: a run that was cut short goes on, one that has ended is read. After each
run the JSON, the table in docs/real_models.md and the figure are written anew. "Zero-shot" is the model as it is,
"before" is after the warm start, "after" after reinforcement learning: success on held-out tasks, with 95 % intervals;
of self-play, the share of matches with a random player that were not lost.
A task has learned where the sampled intervals of before and after are apart. Tokens are those that were sampled in
training. Of a run that has ended its checkpoints and its policy (2 GB) are removed, unless --keep is given.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlvr.agents.evaluation.statistics import wilson
from rlvr.algorithms.config import load_config
from rlvr.algorithms.runs.run_folder import read_jsonl

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "real_models.json"
PAGE = ROOT / "docs" / "real_models.md"
FIGURE = ROOT / "docs" / "images" / "real_models.png"
FIRST = ROOT / "docs" / "images" / "real_models_first.png"  # of the first task, for the README
BEGIN, END = "<!-- table: python benchmarks/real_models.py -->", "<!-- end of table -->"
SEEDS = (0, 1, 2)
Row = dict[str, Any]
# Thirty times the rates of full weights; with ten times, adapters hardly move in so few steps.
ADAPTERS = ("--warm-start.mixed-lr", "1.5e-3", "--learner.lr", "6e-4")
# 2,400 demonstrations for 160, three a step; adapters make a step cheap. Twenty steps with rewards follow.
IMITATION = (
    *("--model.lora-rank", "16", "--model.chat-template", "chatml", "--sampling.max-length", "64"),
    *("--warm-start.mixed-steps", "800", "--warm-start.batch-size", "3", "--warm-start.mixed-lr", "7e-4"),
    *("--steps", "20", "--prompts", "12", "--learner.lr", "1e-4", "--learner.warmup-steps", "1"),
    *("--selection.filters", "[zero_gradient]", "--evaluation.episodes", "128"),
)
# By name: the config in examples/real/, and the flags that are added to it.
TASKS: dict[str, tuple[str, tuple[str, ...]]] = {
    name: (name, ())
    for name in (
        "calculator",
        "choice",
        "kuhn_bot",
        "reverse",
        "sums",
        "letter_counts",
        "dilemma_selfplay",
        "kuhn_selfplay",
        "higher_lower",
        "gsm8k",
    )
} | {
    "calculator, grpo": ("calculator", ("--algorithm", "grpo")),  # its KL term is on
    "calculator, gspo": ("calculator", ("--algorithm", "gspo")),
    "calculator, reinforce_baseline": ("calculator", ("--algorithm", "reinforce_baseline")),
    **{f"calculator, LoRA {rank}": ("calculator", (*ADAPTERS, "--model.lora-rank", str(rank))) for rank in (1, 8, 16)},
    "sums, imitation": ("sums", IMITATION),
}


def folder_of(runs: Path, task: str, seed: int) -> Path:
    return runs / f"{task.replace(', ', '-').replace(' ', '-')}-{seed}"


def config_of(task: str) -> Path:
    return ROOT / "examples" / "real" / f"{TASKS[task][0]}.yaml"


def train(task: str, seed: int, folder: Path, model: str) -> None:
    """Run to the end, or go on with what was begun.

    Raises:
        RuntimeError: the run failed; with what it said.
    """
    command = [sys.executable, "-m", "rlvr", "train"]
    if (folder / "config.yaml").exists():
        command += ["--resume", "--out", str(folder)]
    else:
        command += ["--config", str(config_of(task)), "--seed", str(seed), "--out", str(folder)]
        command += ["--model.name", model, *TASKS[task][1]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{task}, seed {seed} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")


def zero_shot(task: str, model: str) -> Row:
    """Success of the model as it is, sampled on the held-out tasks of seed 0; of tasks with a warm start."""
    from rlvr.agents.evaluation import summarise
    from rlvr.algorithms.sampling.collect import TaskOrder
    from rlvr.algorithms.train.run import Trainer

    config = load_config(config_of(task))
    with TemporaryDirectory() as scratch:
        plain = config.model.model_copy(update={"name": model})
        trainer = Trainer(config.model_copy(update={"model": plain, "out": Path(scratch) / "run"}))
        rollout = trainer.rollout_of(trainer.play_agent(greedy=False), config.evaluation.split)
        order = TaskOrder(rollout.env.unwrapped, "evaluation", config.seed)
        count = min(config.evaluation.episodes, order.size or config.evaluation.episodes)
        result = summarise(rollout([order.request(index, group=index, salt="evaluation") for index in range(count)]))
        trainer.close()
    return {"sampled": [round(value, 4) for value in (result.success, result.low, result.high)]}


def success_of(record: Row, way: str) -> list[float]:
    """The share of held-out tasks that were solved, and its 95 % interval."""
    return [round(record[f"{way}_{name}"], 4) for name in ("success", "low", "high")]


def not_lost(record: Row, way: str) -> list[float]:
    """The share of matches with a random player that were not lost, and its 95 % interval."""
    score = record["panel"][way]["random"]
    share, matches = score["not_lost"], score["matches"]
    return [round(value, 4) for value in (share, *wilson(share * matches, matches))]


def figures(task: str, seed: int, folder: Path) -> Row:
    """What a run that has ended came to."""
    metrics, timing = read_jsonl(folder / "metrics.jsonl"), read_jsonl(folder / "timing.jsonl")
    train_steps = [record for record in metrics if record["phase"] == "train"]
    evaluations = {record["name"]: record for record in metrics if record["phase"] == "evaluation"}
    row: Row = {"task": task, "seed": seed, "steps": len(train_steps), "tasks": evaluations["after"]["tasks"]}
    for name in ("before", "after"):
        of_way = not_lost if "panel" in evaluations[name] else success_of
        row[name] = {way: of_way(evaluations[name], way) for way in ("greedy", "sampled")}
        if "exploitability" in evaluations[name]:
            row[name]["exploitability"] = round(evaluations[name]["exploitability"], 4)
    row["rewards"] = [round(record["reward"], 4) for record in train_steps]
    row["signal"] = round(statistics.fmean(record["groups_with_signal"] for record in train_steps), 3)
    config = load_config(folder / "config.yaml")
    episodes = config.prompts * config.group_size
    row["tokens"] = round(sum(record["sampled_tokens"] for record in train_steps) * episodes)
    row["cpu_seconds"] = round(sum(record["cpu_seconds"] for record in timing))
    row["peak_mib"] = round(max(record["peak_mib"] for record in timing))
    return row


def learned(row: Row) -> bool:
    return bool(row["after"]["sampled"][1] > row["before"]["sampled"][2])


def store(record: Row) -> None:
    RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(record)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    if record["rows"]:
        draw(record["rows"])


def table(record: Row) -> str:
    """A line for each task: means over its seeds, and how many of them learned."""
    lines = [
        "| task | seeds | zero-shot, sampled | before | after | greedy, before | after | learned | tokens | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        rows = [row for row in record["rows"] if row["task"] == task]
        if not rows:
            lines.append(f"| {task} | none yet | | | | | | | | |")
            continue
        zero = record["zero_shot"].get(TASKS[task][0])
        cells = [task, str(len(rows)), interval(zero["sampled"]) if zero else "as before"]
        for way in ("sampled", "greedy"):
            for name in ("before", "after"):
                cells.append("; ".join(interval(row[name].get(way)) for row in rows))
        cells.append(f"{sum(map(learned, rows))} of {len(rows)}")
        cells += [f"{statistics.fmean(row[name] for row in rows):,.0f}" for name in ("tokens", "cpu_seconds")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def interval(success: list[float] | None) -> str:
    if success is None:
        return "not measured"
    return f"{success[0]:.2f} ({success[1]:.2f} to {success[2]:.2f})"


def draw(rows: list[Row]) -> None:
    """All tasks that were run in one figure, a panel each; and the first of them alone, for the README."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks = [task for task in TASKS if any(row["task"] == task for row in rows)]
    columns = min(4, len(tasks))
    height = -(-len(tasks) // columns)
    figure = Figure(figsize=(3 * columns, 2.4 * height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(height, columns, squeeze=False).flatten()
    for task, panel in zip(tasks, panels, strict=False):
        draw_task(panel, task, rows)
        panel.set(title=task)
    for panel in panels[len(tasks) :]:
        panel.axis("off")
    figure.savefig(FIGURE, metadata={"Software": None})
    alone = Figure(figsize=(4.32, 3.36), dpi=200, layout="constrained")
    FigureCanvasAgg(alone)
    panel = alone.subplots()
    draw_task(panel, tasks[0], rows)
    panel.set(title=f"SmolLM2-135M, {tasks[0]}", xlabel="step of reinforcement learning", ylabel="success")
    alone.savefig(FIRST, metadata={"Software": None})


def draw_task(panel: Any, task: str, rows: list[Row]) -> None:
    """The reward of each step of each seed, and held-out success before and after, sampled, with intervals."""
    for row in (row for row in rows if row["task"] == task):
        colour = f"C{row['seed']}"
        steps = range(1, len(row["rewards"]) + 1)
        panel.plot(steps, row["rewards"], color=colour, linewidth=0.9, label=f"seed {row['seed']}")
        for step, name in ((0, "before"), (row["steps"] + 1, "after")):
            success, low, high = row[name]["sampled"]
            place = step + 0.12 * (row["seed"] - 1)  # beside each other
            panel.errorbar(place, success, [[success - low], [high - success]], color=colour, marker="o", capsize=2)
    panel.set(ylim=(-0.03, 1.03))
    panel.grid(alpha=0.3)
    panel.legend(loc="best", fontsize="small")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--model", default=str(ROOT / "models" / "smollm2"), help="folder of the model")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "real_models", help="folder of the run folders")
    parser.add_argument("--keep", action="store_true", help="keep checkpoints and policies of runs that have ended")
    parser.add_argument("--dry-run", action="store_true", help="name what is missing, and run nothing")
    options = parser.parse_args()
    record: Row = {"rows": [], "zero_shot": {}}
    if RESULTS.exists():
        record = json.loads(RESULTS.read_text(encoding="utf-8"))
    record["machine"] = f"{platform.machine()}, one thread a run"
    stored = {(row["task"], row["seed"]) for row in record["rows"]}
    missing = [(task, seed) for seed in options.seeds for task in options.tasks if (task, seed) not in stored]
    if options.dry_run:
        print("\n".join(f"{task}, seed {seed}" for task, seed in missing) or "nothing is missing")
        return 0
    failed = False
    for task, seed in missing:
        folder = folder_of(options.runs.resolve(), task, seed)
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            name, start = TASKS[task][0], load_config(config_of(task)).warm_start
            if start.steps + start.mixed_steps + start.random_steps and name not in record["zero_shot"]:
                record["zero_shot"][name] = zero_shot(task, options.model)
                store(record)
            if not (folder / "report.html").exists():
                train(task, seed, folder, options.model)
            row = figures(task, seed, folder)
        except (RuntimeError, OSError, ValueError) as error:
            print(f"real_models: {error}", file=sys.stderr, flush=True)
            failed = True
            continue
        print(json.dumps(row | {"rewards": "…"}), flush=True)
        record["rows"] = sorted([*record["rows"], row], key=lambda row: (list(TASKS).index(row["task"]), row["seed"]))
        store(record)
        for heavy in () if options.keep else ("checkpoints", "policy"):
            shutil.rmtree(folder / heavy, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
