"""Sync and async runs whose environments sleep, beside the simulation of `rlvr plan`.

    python benchmarks/schedules.py               # two minutes, nearly all of it asleep

Each run is a real `Trainer` with rlvr/tiny and an environment of three turns whose steps sleep for a lognormal time of
0.6 s on average (most 0.2 to 2 s). The simulation is told the mean seconds of a call of the sampler and of an update,
as they were measured, and the distribution of the sleeps; the seconds of the run are what it has to find.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym

from rlvr.algorithms.config import load_config
from rlvr.algorithms.planning.simulation import SimulatedRun, simulate
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.run import Trainer
from rlvr.envs.core.spaces import Text

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results
from whole_runs import Silent

RESULTS = Path(__file__).parent / "results"
MEAN, TAIL, TURNS = 0.6, 0.6, 3
PROMPTS, GROUP, STEPS, PLACES = 8, 4, 8, 96


class Sleeper(gym.Env[str, str]):
    """Says a word, sleeps, and asks again."""

    action_space = observation_space = Text()

    def __init__(self, **settings: Any) -> None:
        pass  # split and level are the same to it

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.turn = 0
        return "go", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        time.sleep(math.exp(random.gauss(math.log(MEAN) - TAIL**2 / 2, TAIL)))
        return "go", float(len(action) % 2), self.turn == TURNS, False, {}


def measured(depth: int, out: Path, workers: int) -> dict[str, Any]:
    """One run: its seconds, and what the simulation is to be told."""
    schedule = {"kind": "async", "depth": depth, "correction": "tis"} if depth else {"kind": "sync"}
    config = load_config(
        {
            "env": {"id": "benchmark/Sleeper-v0", "workers": workers, "batch_size": PLACES, "system": False},
            "model": {"hidden": 32, "layers": 1},
            "sampling": {"max_new_tokens": 4, "max_length": 96},
            "overrides": {"entropy_coef": 0.01},
            "evaluation": {"episodes": 1},
            "prompts": PROMPTS,
            "group_size": GROUP,
            "steps": STEPS,
            "checkpoint_every": STEPS,
            "schedule": schedule,
            "out": str(out),
        }
    )
    trainer = Trainer(config, Silent())
    calls: list[float] = []
    act = trainer.agent.act

    def timed(conversations: Any) -> Any:
        start = time.perf_counter()
        replies = act(conversations)
        calls.append(time.perf_counter() - start)
        return replies

    vars(trainer.agent)["act"] = timed
    trainer.run()
    lines = [line for line in read_jsonl(out / "timing.jsonl") if "update_seconds" in line]
    assert len(lines) == STEPS
    simulated = {
        "steps": STEPS,
        "episodes": PROMPTS * GROUP,
        "turns": TURNS,
        "slots": PLACES,
        "turn_seconds": fmean(calls),
        "env_seconds": MEAN,
        "tail": TAIL,
        "workers": workers,
        "update_seconds": fmean(line["update_seconds"] for line in lines),
        "sync_seconds": fmean(line["sync_seconds"] for line in lines),
        "depth": depth,
        "continuous": False,
    }
    return {"seconds": sum(line["seconds"] for line in lines), "simulated": simulated}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    gym.register("benchmark/Sleeper-v0", Sleeper)
    random.seed(0)
    tables, runs = [], []
    for _ in range(options.rounds):
        for depth, workers in ((0, 32), (0, 8), (1, 96), (2, 96)):
            with tempfile.TemporaryDirectory() as folder:
                result = measured(depth, Path(folder) / "run", workers)
            simulated = dict(result["simulated"])
            turn = simulated.pop("turn_seconds")
            times = simulate(SimulatedRun(**simulated, turn_seconds=lambda active, seconds=turn: seconds))
            name = (f"async {depth}" if depth else "sync") + f", {workers} workers"
            table = next((each for each in tables if each.title == name), None)
            if table is None:
                tables.append(table := Table(name, "seconds of the run", "measured"))
            table.add("measured", result["seconds"])
            table.add("simulated", times.seconds)
            runs.append(result)
    write_results("schedules", tables, {"environment steps": f"lognormal, mean {MEAN} s, sigma {TAIL}"}, RESULTS)
    path = RESULTS / "schedules.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
