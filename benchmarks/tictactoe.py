"""Self-play in tic-tac-toe over its steps: examples/tictactoe_selfplay.yaml, one run a seed.

    python benchmarks/tictactoe.py --work runs/tictactoe          # trains what is not there yet, then writes
    python benchmarks/tictactoe.py --ways random_start --seeds 0  # from random moves, against itself and the pool alone

A point is the share of matches from the start of the game, half of them in each seat, that an evaluation of the run did
not lose against a bot: with the likeliest tokens (greedy) and with sampled ones. Step 0 is the warm start alone. Of a
run that was stopped stands what it had, and how many steps it made. Ways other than the example's are named with what
they change of it (`CHANGES`); what was measured of another way stays.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from rlvr.algorithms.config import read_yaml

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from whole_runs import has_ended, records_of

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "tictactoe_selfplay.yaml"
RESULTS = ROOT / "benchmarks" / "results" / "tictactoe.json"
ITSELF = {"settings": {"opponents": ["self", "pool"]}}
CHANGES: dict[str, dict[str, Any]] = {
    "example": {},
    "earlier": {
        "env": ITSELF,
        "learner": {"lr": 5e-4, "warmup_steps": 5, "ema": 0.0},
        "steps": 120,
        "prompts": 32,
        "group_size": 4,
    },
    "random_start": {
        "env": ITSELF,
        "warm_start": {"steps": 100, "random_steps": 600},
        "overrides": {"kl_coef": 0.01},
        "learner": {"lr": 1e-3, "warmup_steps": 20, "betas": [0.0, 0.999], "kl_coef_end": 0.001},
        "steps": 300,
    },
}


def measure(seed: int, work: Path, way: str) -> dict[str, Any]:
    """The curve of one seed, trained if its folder is not there."""
    folder = work / (f"seed-{seed}" if way == "example" else f"{way}-{seed}")
    records, cpu = records_of(EXAMPLE, seed, folder, CHANGES[way])
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
    parser.add_argument("--ways", nargs="+", choices=CHANGES, default=["example"])
    options = parser.parse_args()
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for way in options.ways:
        way_record = record.setdefault(way, {})
        runs = way_record.setdefault("runs", {})
        runs.update({str(seed): measure(seed, options.work, way) for seed in options.seeds})
        way_record.pop("note", None)
        way_record["changes"] = CHANGES[way]
        way_record["command"] = f"python benchmarks/tictactoe.py --ways {way} --seeds {' '.join(runs)}"
        way_record["machine"] = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
