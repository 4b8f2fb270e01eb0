"""Learning curves of every algorithm: two tasks, three seeds, the settings of examples/algorithms/, one figure.

    python benchmarks/curves.py                      # what is not measured yet, then the figure
    python benchmarks/curves.py --again grpo ppo     # measures these anew
    python benchmarks/curves.py --draw               # the figure alone
    python benchmarks/curves.py --explain            # changes that show why one does not learn

For each task and seed one policy is warmed up, and every algorithm starts from its weights. A point is the share of
successes among the episodes that a step samples: each on a task that was never played before, so nothing is learned
by heart. Replies are not spread over steps (kimi), so that each step's episodes are its own policy's. Where an
algorithm throws groups away or draws more, all that was played is counted. On a task all algorithms have one learning
rate and one batch size, which is fair to none of them: read the figure for which ones learn, not for a rank.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from rlvr.algorithms.config import load_config, read_yaml
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.run import Trainer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from whole_runs import Silent

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "algorithms"
RESULTS = ROOT / "benchmarks" / "results" / "curves.json"
PICTURE = ROOT / "docs" / "images" / "algorithms.png"
SEEDS = (0, 1, 2)
STEPS, PROMPTS, GROUP = 16, 8, 8
RATES = {"Calculator": 3e-4, "WordProblems": 2e-4}  # copying stands larger steps than arithmetic does
ENDS = 3  # steps at each end that are averaged to say whether something was learned
LEARNED = 0.2  # a rise of the success rate that three seeds agree on is no chance
TASKS: dict[str, dict[str, Any]] = {
    "Calculator": {
        "env": {"id": "rlvr/Calculator-v0", "system": False},
        "sampling": {"max_new_tokens": 24, "max_length": 128},
        "warm_start": {"steps": 200, "mixed_steps": 20, "direct_answer_share": 0.65},
    },
    "WordProblems": {
        "env": {"id": "rlvr/WordProblems-v0", "system": False},
        "sampling": {"max_new_tokens": 40, "max_length": 128},
        "warm_start": {"steps": 600, "batch_size": 32, "mixed_steps": 15, "direct_answer_share": 0.6},
    },
}
# Where an algorithm does not learn: the one change that shows why, measured with the same seeds beside the figure.
CHANGED: dict[tuple[str, str], dict[str, Any]] = {
    ("Calculator", "gfpo"): {"overrides": {"group_keep": 7}},
    ("WordProblems", "scalerl"): {"sampling": {"thinking_budget": 30, "thinking_spread": 4}},
    ("WordProblems", "brpo"): {"credit": {"budgets": [12, 20, 32]}},
}
COLOURS = {"Calculator": "#3465a4", "WordProblems": "#b8502f"}
Runs = dict[str, dict[str, dict[str, Any]]]  # by task, algorithm, seed


def train(config: dict[str, Any]) -> Path:
    """Run a config; the folder of the run."""
    loaded = load_config(config)
    Trainer(loaded, Silent()).run()
    return loaded.out


def warm(task: str, seed: int, work: Path, algorithm: str = "on_policy_distillation") -> Path:
    """The run folder of a warm start: ``policy`` is where training begins, ``teacher`` the policy before mixing."""
    out = work / f"{task}-{seed}-warm-{algorithm}"
    if not (out / "policy" / "config.json").exists():
        shutil.rmtree(out, ignore_errors=True)  # what an interrupted call left
        start = {**TASKS[task], "algorithm": algorithm, "steps": 0, "evaluation": {"episodes": 8}}
        train({**start, "seed": seed, "out": str(out)})
    return out


def measure(task: str, algorithm: str, seed: int, work: Path, change: dict[str, Any] | None = None) -> dict[str, Any]:
    """One run, perhaps with sections changed: success and reward of each step, and CPU seconds."""
    config = read_yaml(EXAMPLES / f"{algorithm}.yaml")
    # fcp plays behind the words of a success, which another policy has never read
    warmed = warm(task, seed, work, "fcp") if algorithm == "fcp" else warm(task, seed, work)
    config["model"] = {"name": str(warmed / "policy")}
    del config["warm_start"]
    if algorithm == "on_policy_distillation":
        config["credit"] = {"teacher": str(warmed / "teacher")}
    sampling = {**config["sampling"], **TASKS[task]["sampling"], "segment": 0}
    sampling["max_length"] = max(sampling["max_length"], config["sampling"]["max_length"])  # hints take room (sdpo)
    config |= {"env": TASKS[task]["env"], "sampling": sampling}
    config["learner"] = {**config["learner"], "lr": RATES[task]}
    config |= {"steps": STEPS, "prompts": PROMPTS, "group_size": GROUP, "seed": seed}
    config |= {"evaluation": {"episodes": 8}, "checkpoint_every": STEPS, "episodes_every": STEPS + 1}
    for section, values in (change or {}).items():
        config[section] = {**config.get(section, {}), **values}
    config["out"] = str(work / f"{task}-{seed}-{algorithm}")
    shutil.rmtree(config["out"], ignore_errors=True)  # what an interrupted call left
    cpu = time.process_time()
    out = train(config)
    steps = [record for record in read_jsonl(out / "metrics.jsonl") if record["phase"] == "train"]
    shutil.rmtree(out)
    return {
        "success": [round(record["success"], 4) for record in steps],
        "reward": [round(record["reward"], 4) for record in steps],
        **({"entropy": [round(record["entropy"], 4) for record in steps]} if "entropy" in steps[0] else {}),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }


def settings(task: str) -> dict[str, Any]:
    """What has to be equal for runs to stand in one figure."""
    return {"steps": STEPS, "prompts": PROMPTS, "group_size": GROUP, "lr": RATES[task], **TASKS[task]}


def load() -> Runs:
    """What is measured already with these settings."""
    if not RESULTS.exists():
        return {}
    record = json.loads(RESULTS.read_text())
    return {task: by for task, by in record["runs"].items() if record["settings"].get(task) == settings(task)}


def explain(work: Path) -> None:
    """Measure what ``CHANGED`` names, and write it beside the runs."""
    record = json.loads(RESULTS.read_text())
    record["changed"] = []
    for (task, algorithm), change in CHANGED.items():
        seeds = {str(seed): measure(task, algorithm, seed, work, change) for seed in SEEDS}
        written = {"task": task, "algorithm": algorithm, "change": change, "rise": rise(seeds), "runs": seeds}
        record["changed"].append(written)
        print(f"{task} {algorithm} with {change}: {written['rise']}", flush=True)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


def save(runs: Runs) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "command": "python benchmarks/curves.py",
        "machine": f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}",
        "settings": {task: settings(task) for task in TASKS},
        "cpu_minutes": round(
            sum(r["cpu_seconds"] for by in runs.values() for s in by.values() for r in s.values()) / 60
        ),
        "rise": {task: {name: rise(seeds) for name, seeds in by.items()} for task, by in runs.items()},
        "runs": runs,
    }
    if RESULTS.exists() and "changed" in (before := json.loads(RESULTS.read_text())):
        record["changed"] = before["changed"]
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(json.dumps(record, indent=1) + "\n")
    draft.replace(RESULTS)


def rise(seeds: dict[str, Any]) -> dict[str, Any]:
    """Success in the first and in the last steps, each the median over seeds, and the worst seed's rise."""
    first = [statistics.fmean(run["success"][:ENDS]) for run in seeds.values()]
    last = [statistics.fmean(run["success"][-ENDS:]) for run in seeds.values()]
    worst = min(b - a for a, b in zip(first, last, strict=True))
    return {
        "first": round(statistics.median(first), 3),
        "last": round(statistics.median(last), 3),
        "worst_rise": round(worst, 3),
        "learned": worst > LEARNED,
        "seeds": len(seeds),
    }


def draw(runs: Runs, names: list[str]) -> None:
    """Small multiples: one panel an algorithm, the mean over seeds, a band from the worst to the best seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    columns = 9
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(14, 1.55 * rows), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True).flat
    for panel, name in zip(panels, names, strict=False):
        for task, colour in COLOURS.items():
            curves = [run["success"] for run in runs.get(task, {}).get(name, {}).values()]
            if curves:
                steps = range(1, len(curves[0]) + 1)
                columns_of = list(zip(*curves, strict=True))
                panel.fill_between(
                    steps, *zip(*((min(c), max(c)) for c in columns_of), strict=True), color=colour, alpha=0.2, lw=0
                )
                panel.plot(steps, [statistics.fmean(c) for c in columns_of], color=colour, lw=1.3, label=task)
        panel.set_title(name, fontsize=7.5, pad=2)
        panel.set(ylim=(-0.03, 1.03))
        panel.tick_params(labelsize=6)
        panel.grid(alpha=0.25)
    for panel in list(panels)[len(names) :]:
        panel.set_visible(False)
    first = figure.axes[0]
    figure.legend(*first.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    figure.supxlabel("reinforcement learning step", fontsize=8)
    figure.supylabel("success of the sampled episodes", fontsize=8)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Software": None})
    Image.open(PICTURE).convert("RGB").quantize(64, Image.Quantize.MEDIANCUT).save(PICTURE, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="algorithms to measure anew")
    parser.add_argument("--draw", action="store_true", help="draw the figure from what is measured")
    parser.add_argument("--explain", action="store_true", help="measure the changes that show why one does not learn")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so many minutes")
    parser.add_argument("--work", type=Path, help="folder that keeps the warmed-up policies, for another call")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    names = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
    runs = load()
    if options.draw and not runs:
        raise SystemExit(f"{RESULTS.name} was measured with other settings: run without --draw")
    for by in runs.values():
        for name in options.again:
            by.pop(name, None)
    until = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary)
        if options.explain:
            explain(folder)
            return 0
        for seed, task in ((seed, task) for seed in SEEDS if not options.draw for task in TASKS):
            missing = [name for name in names if str(seed) not in runs.get(task, {}).get(name, {})]
            if not missing or time.monotonic() > until:
                continue
            for name in missing:
                if time.monotonic() > until:
                    break
                run = measure(task, name, seed, folder)
                runs.setdefault(task, {}).setdefault(name, {})[str(seed)] = run
                print(f"{task} {name} seed {seed}: {run['success']}", flush=True)
                save(runs)
    save(runs)
    draw(runs, names)
    failed = [(task, name) for task, by in runs.items() for name, seeds in by.items() if not rise(seeds)["learned"]]
    print("\n".join(f"{name} did not rise by {LEARNED} on {task} with every seed" for task, name in failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
