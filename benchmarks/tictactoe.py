"""Self-play in tic-tac-toe over its steps: examples/tictactoe_selfplay.yaml, one run a seed.

    python benchmarks/tictactoe.py --work runs/tictactoe   # trains what is not there yet, then writes

A point is the share of matches from the start of the game, half of them in each seat, that an evaluation of the run did
not lose against a bot: with the likeliest tokens (greedy) and with sampled ones. Step 0 is the warm start alone. Of a
run that was stopped stands what it had, and how many steps it made.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import torch
from whole_runs import has_ended, records_of

from rlvr.algorithms.config import read_yaml

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "tictactoe_selfplay.yaml"
RESULTS = ROOT / "benchmarks" / "results" / "tictactoe.json"


def measure(seed: int, work: Path) -> dict[str, Any]:
    """The curve of one seed, trained if its folder is not there."""
    records, cpu = records_of(EXAMPLE, seed, work / f"seed-{seed}")
    curve = [
        {"step": record["step"]}
        | {
            way: {bot: {"not_lost": score["not_lost"], "forfeits": score["forfeits"]} for bot, score in bots.items()}
            for way, bots in record["panel"].items()
        }
        for record in records
        if record["phase"] == "evaluation"
    ]
    steps = max(record["step"] for record in records)
    return {
        "steps": steps,
        "ended": has_ended(records),
        "curve": curve,
        "matches": read_yaml(EXAMPLE)["evaluation"]["episodes"],
        "cpu_seconds": cpu,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("runs/tictactoe"), help="folder of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    options = parser.parse_args()
    runs = {str(seed): measure(seed, options.work) for seed in options.seeds}
    record = json.loads(RESULTS.read_text()) | {
        "command": f"python benchmarks/tictactoe.py --seeds {' '.join(runs)}",
        "machine": f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}",
        "runs": runs,
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
