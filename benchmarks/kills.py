"""Runs that are killed at any moment and gone on with, beside one that nothing disturbed.

    python benchmarks/kills.py            # 50 SIGKILL, 50 SIGTERM in sync, 25 of each in async; ten minutes

A child of this process plays `rlvr train`; it is sent a signal after a time drawn uniformly from the length of a whole
run, wherever it is by then, and `rlvr train --resume` plays what is left. In sync everything that does not depend on
the clock has to be the same bytes as in the run that nothing disturbed: metrics, episodes, policy, checkpoints. In
async which weights sample which token depends on time, so that what is compared is the work: each step was made
once, of the same episodes, none of them lost or doubled, and no token is older than the depth.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.backends.backend_agg  # noqa: F401
import torch  # noqa: F401
import transformers.models.qwen3.modeling_qwen3  # noqa: F401
import yaml

import rlvr.algorithms.population.population
import rlvr.algorithms.runs.display
import rlvr.algorithms.runs.report
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.cli import main as rlvr

RESULTS = Path(__file__).parent / "results"
DEPTH = 2
CONFIG: dict[str, Any] = {
    "env": {"id": "rlvr/GuessNumber-v0", "system": False},
    "model": {"hidden": 32, "layers": 1},
    "sampling": {"max_new_tokens": 6, "max_length": 128},
    "warm_start": {"steps": 8, "mixed_steps": 2, "batch_size": 8, "lr": 1e-2, "warmup_steps": 2},
    "learner": {"lr": 3e-3, "warmup_steps": 2},
    "evaluation": {"episodes": 4},
    "overrides": {"entropy_coef": 0.01},  # every step has a gradient, whatever the rewards
    "steps": 5,
    "prompts": 4,
    "group_size": 4,
    "checkpoint_every": 1,
    "episodes_every": 1,
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "sync": {"kind": "sync"},
    "async": {"kind": "async", "depth": DEPTH, "correction": "tis"},
}
# Where SIGTERM ends a run, which of the earlier checkpoints are kept differs: the step it stopped after was saved.
LAST = f"step-{CONFIG['steps']:06d}"


def play(arguments: list[str], log: Path, sent: signal.Signals | None = None, after: float = 0.0) -> int:
    """`rlvr` in a child that may be sent a signal after some seconds; its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            status = rlvr(arguments)
        except SystemExit as stop:
            status = int(stop.code or 0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    if sent is not None:
        time.sleep(after)
        os.kill(pid, sent)  # of a child that has ended and was not waited for: nothing happens
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def content(run: Path) -> dict[str, str]:
    """The digest of each file that does not depend on the clock."""
    paths = [
        run / "metrics.jsonl",
        *(p for name in ("policy", "episodes", "checkpoints") for p in (run / name).rglob("*")),
    ]
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()
    }


def work(run: Path) -> dict[str, Any]:
    """The episodes of each step by their keys, the steps that were logged, and whether a token was too old."""
    tasks: dict[str, Counter[str]] = {}
    for path in sorted((run / "episodes").glob("train-*.jsonl")):
        # Every episode has a key of its own, of its task, its member of the group and its step.
        tasks[path.name] = Counter(json.loads(line)["key"] for line in path.read_text().splitlines())
    train = [record for record in read_jsonl(run / "metrics.jsonl") if record["phase"] == "train"]
    oldest = max(float(record.get("staleness_max", 0)) for record in train)
    return {"episodes": tasks, "steps": [record["step"] for record in train], "within depth": oldest <= DEPTH}


def compare(kind: str, sent: signal.Signals, run: Path, unbroken: Path) -> list[str]:
    """What differs from the run that nothing disturbed."""
    if kind == "async":
        outcome, expected = work(run), work(unbroken)
        return [name for name in expected if outcome[name] != expected[name]]
    after_kills, without_kills = content(run), content(unbroken)
    names = sorted(
        name for name in after_kills.keys() | without_kills.keys() if after_kills.get(name) != without_kills.get(name)
    )
    return [name for name in names if sent is signal.SIGKILL or not name.startswith("checkpoints/") or LAST in name]


def where(run: Path) -> str:
    """How far a run had come."""
    if not (run / "config.yaml").exists():
        return "before its config"
    records = read_jsonl(run / "metrics.jsonl")
    phases = [record["phase"] for record in records]
    steps = phases.count("train")
    if not steps:
        return "evaluation before" if phases and phases[-1] == "evaluation" else "warm start"
    return "evaluation after, or writing the policy" if steps == CONFIG["steps"] else "steps"


def broken(kind: str, sent: signal.Signals, after: float, config: Path, out: Path) -> tuple[str, list[str]] | None:
    """Where a run was broken and the lines it could not be gone on with; None if it had ended before."""
    log = out.parent / "log"
    status = play(["train", "--config", str(config), "--out", str(out)], log, sent, after)
    if status == 0:
        return None
    if status not in (-sent, 128 + sent):
        return "not by the signal", [f"status {status}", *log.read_text().splitlines()[-5:]]
    point = where(out)
    again = ["--resume"] if (out / "config.yaml").exists() else ["--config", str(config)]
    status = play(["train", *again, "--out", str(out)], log)
    return point, [f"status {status}", *log.read_text().splitlines()[-5:]] if status else []


def trial(kind: str, kills: Mapping[signal.Signals, int], chance: random.Random, folder: Path) -> list[dict[str, Any]]:
    """So many runs of a schedule with each signal."""
    config = folder / f"{kind}.yaml"
    config.write_text(yaml.safe_dump({**CONFIG, "schedule": SCHEDULES[kind]}))
    lengths = []
    for name in ("first", kind):  # the first of a process is slower
        started = time.monotonic()
        if play(["train", "--config", str(config), "--out", str(folder / name)], folder / "log"):
            raise SystemExit((folder / "log").read_text())
        lengths.append(time.monotonic() - started)
        if name == "first":
            shutil.rmtree(folder / name)
    rows = []
    for sent, count in kills.items():
        points: Counter[str] = Counter()
        equal, faults, out = 0, [], folder / "run"
        while sum(points.values()) < count:
            after = chance.uniform(0.0, statistics.fmean(lengths))
            result = broken(kind, sent, after, config, out)
            if result is not None:
                point, lines = result
                points[point] += 1
                differing = lines or compare(kind, sent, out, folder / kind)
                equal += not differing
                if differing:
                    faults.append({"after": round(after, 3), "where": point, "what": differing})
                    print(kind, sent.name, faults[-1], flush=True)
            shutil.rmtree(out, ignore_errors=True)
        row = {
            "schedule": kind,
            "signal": sent.name,
            "runs": count,
            "equal": equal,
            "where": dict(points.most_common()),
        }
        rows.append(row | {"faults": faults})
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sync", type=int, default=50, help="runs of each signal in sync")
    parser.add_argument("--ahead", type=int, default=25, help="runs of each signal in async")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", action="store_true", help="keep what the file has of other schedules")
    options = parser.parse_args()
    chance, rows = random.Random(options.seed), []
    path = RESULTS / "kills.json"
    with tempfile.TemporaryDirectory() as folder:
        for kind, count in (("sync", options.sync), ("async", options.ahead)):
            if count:
                rows += trial(kind, {signal.SIGKILL: count, signal.SIGTERM: count}, chance, Path(folder))
    if options.add and path.exists():
        done = {row["schedule"] for row in rows}
        rows += [row for row in json.loads(path.read_text())["runs"] if row["schedule"] not in done]
    path.write_text(
        json.dumps({"seed": options.seed, "steps": CONFIG["steps"], "depth": DEPTH, "runs": rows}, indent=1) + "\n"
    )
    write_page(rows)


def write_page(rows: list[dict[str, Any]]) -> None:
    lines = ["# kills", "", "`python benchmarks/kills.py`", "", "| schedule | signal | runs | equal | broken in |"]
    lines += ["|---|---|---|---|---|"]
    for row in rows:
        points = ", ".join(f"{point} {number}" for point, number in row["where"].items())
        lines.append(f"| {row['schedule']} | {row['signal']} | {row['runs']} | {row['equal']} | {points} |")
    lines += [
        "",
        "Equal in sync: the same bytes; in async: the same steps of the same episodes, none lost or doubled, none of",
        "their tokens older than the depth.",
    ]
    notes = [f"- {row['schedule']}, {row['signal']}: {row['note']}" for row in rows if "note" in row]
    (RESULTS / "kills.md").write_text("\n".join([*lines, *([""] if notes else []), *notes]) + "\n")


if __name__ == "__main__":
    main()
