"""Precision: the calculator demo with bfloat16 weights and with AdamW's state in eight bits, beside float32.

    python benchmarks/precision.py                     # seeds 0, 1 and 2; nine runs of about a CPU-minute each
    python benchmarks/precision.py --runs runs/precision    # keeps the runs, and reads those that have ended

Every run has its own warm start, so all of its weights were trained in its precision. A token that is sampled otherwise
once gives another run from there on, as another seed does: so runs of one seed are compared with how far the seeds
differ. A reward is the mean of the sampled episodes of so many steps. Bytes are those of the optimiser in a checkpoint,
master weights among them. CPU-seconds are those of a process with one thread beside other work.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rlvr.algorithms.runs.checkpoints import latest_checkpoint

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results
from whole_runs import has_ended, records_of

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "calculator.yaml"
WINDOW = 7  # steps; the demo has 35
VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16 with float32 masters": {"model": {"dtype": "bfloat16"}},
    "float32, adamw_8bit": {"learner": {"optimiser": "adamw_8bit"}},
}


def measure(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """The figures of one run, which is trained where its folder is missing."""
    records, cpu = records_of(EXAMPLE, seed, folder, VARIANTS[name])
    if not has_ended(records):
        raise SystemExit(f"the run in {folder} has not ended: remove it, or go on with rlvr train --resume")
    checkpoint, _ = latest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None
    evaluations = {record["name"]: record for record in records if record["phase"] == "evaluation"}
    return {
        "rewards": [record["reward"] for record in records if record["phase"] == "train"],
        "before": evaluations["before"]["greedy_success"],
        "after": evaluations["after"]["greedy_success"],
        "bytes": sum(value.numel() * value.element_size() for value in checkpoint.optimiser.values()),
        "parameters": sum(value.numel() for value in checkpoint.model.values()),
        "cpu": cpu,
    }


def tables_of(measured: dict[str, list[dict[str, Any]]]) -> list[Table]:
    steps = len(measured["float32"][0]["rewards"])
    tables = []
    for start in range(0, steps, WINDOW):
        table = Table(f"steps {start + 1} to {start + WINDOW}", "mean reward, a figure for each seed", "float32")
        tables.append(table)
        for name, runs in measured.items():
            table.rounds[name] = [statistics.fmean(run["rewards"][start : start + WINDOW]) for run in runs]
    for key, title, unit in (
        ("after", "held-out tasks, greedy, after training", "success"),
        ("bytes", "optimiser in a checkpoint", "bytes"),
        ("cpu", "whole run", "CPU-seconds"),
    ):
        tables.append(
            Table(title, unit, "float32", {name: [run[key] for run in runs] for name, runs in measured.items()})
        )
    return tables


def spread(measured: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """How far the mean curves are from float32's, and float32's seeds from their own mean."""

    def mean(runs: list[dict[str, Any]]) -> list[float]:
        return [statistics.fmean(values) for values in zip(*(run["rewards"] for run in runs), strict=True)]

    def far(first: list[float], second: list[float]) -> float:
        return statistics.fmean(abs(a - b) for a, b in zip(first, second, strict=True))

    base = mean(measured["float32"])
    facts = {
        f"mean distance a step of the mean curve of {name} from that of float32": f"{far(mean(runs), base):.3f}"
        for name, runs in measured.items()
        if name != "float32"
    }
    seeds = statistics.fmean(far(run["rewards"], base) for run in measured["float32"])
    return facts | {"mean distance of a seed of float32 from their mean": f"{seeds:.3f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, help="folder for the runs; by default one that is removed")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = arguments.runs or Path(scratch)
        measured: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
        for seed in arguments.seeds:
            for name in VARIANTS:
                folder = runs / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
                measured[name].append(measure(name, seed, folder))
                print(name, seed, measured[name][-1], flush=True)
    facts = {"parameters": measured["float32"][0]["parameters"], **spread(measured)}
    write_results("precision", tables_of(measured), facts, arguments.out)


if __name__ == "__main__":
    main()
