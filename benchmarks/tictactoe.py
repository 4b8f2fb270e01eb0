"""Self-play in tic-tac-toe over its steps: examples/tictactoe_selfplay.yaml, one run a seed.

    python benchmarks/tictactoe.py --work runs/tictactoe   # trains what is not there yet, then writes

A point is the share of matches from the start of the game, half of them in each seat, that an evaluation of the run did
not lose against a bot: with the likeliest tokens (greedy) and with sampled ones. Step 0 is the warm start alone.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import torch

from rlvr.algorithms.config import load_config, read_yaml
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.trainer import Trainer

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "tictactoe_selfplay.yaml"
RESULTS = ROOT / "benchmarks" / "results" / "tictactoe.json"


class Silent:
    """A callback that says nothing."""

    def phase(self, name: str, steps: int) -> None: ...

    def step(self, record: dict[str, Any]) -> None: ...

    def say(self, text: str) -> None: ...


def measure(seed: int, work: Path) -> dict[str, Any] | None:
    """The curve of one seed, trained if its folder is not there; None where its run has not ended."""
    out = work / f"seed-{seed}"
    if not out.exists():
        Trainer(load_config({**read_yaml(EXAMPLE), "seed": seed, "out": str(out)}), Silent()).run()
    records = [record for record in read_jsonl(out / "metrics.jsonl") if record["phase"] == "evaluation"]
    if not records or records[-1]["name"] != "after":
        print(f"the run of seed {seed} in {out} has not ended: left out")
        return None
    curve = [
        {"step": record["step"]}
        | {
            way: {bot: {"not_lost": score["not_lost"], "forfeits": score["forfeits"]} for bot, score in bots.items()}
            for way, bots in record["panel"].items()
        }
        for record in records
    ]
    cpu = sum(record["cpu_seconds"] for record in read_jsonl(out / "timing.jsonl"))
    return {"curve": curve, "matches": read_yaml(EXAMPLE)["evaluation"]["episodes"], "cpu_seconds": round(cpu)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("runs/tictactoe"), help="folder of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    options = parser.parse_args()
    runs = {str(seed): run for seed in options.seeds if (run := measure(seed, options.work)) is not None}
    record = {
        "command": f"python benchmarks/tictactoe.py --seeds {' '.join(runs)}",
        "machine": f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}",
        "runs": runs,
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
