"""What a policy has learned by the clock when it samples ahead: sync and async from one policy, with slow tools.

    python benchmarks/ahead.py --runs FOLDER --seed 0     # four minutes, most of them asleep; a seed a call
    python benchmarks/ahead.py --runs FOLDER              # the figures of the runs that are there

The calculator of `examples/calculator.yaml`: a tool call, its result, an answer. The call and the grading of the answer
sleep for a lognormal time, cut to 0.2 to 2 s, one thread for each episode. Both runs of a seed begin with the same
policy, which was warmed up without sleep. The async one may make three times the steps, since the clock is what they
share: rewards are compared at the same second.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym

from rlvr.algorithms.config import load_config, read_yaml
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.run import Trainer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results
from whole_runs import Silent, changed

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MEDIAN, SIGMA, LEAST, MOST = 0.6, 0.7, 0.2, 2.0
STEPS, DEPTH, PROMPTS, GROUP = 24, 2, 8, 8
EPISODES = PROMPTS * GROUP
SCHEDULES: dict[str, dict[str, Any]] = {
    "sync": {"schedule": {"kind": "sync"}, "steps": STEPS},
    f"async {DEPTH}": {
        "schedule": {"kind": "async", "depth": DEPTH, "correction": "tis"},
        "steps": 3 * STEPS,
    },
}


class SlowSteps(gym.Wrapper[str, str, str, str]):
    """Sleeps before each step, as a tool or a verifier on another machine takes time."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        time.sleep(min(MOST, max(LEAST, MEDIAN * math.exp(random.gauss(0.0, SIGMA)))))
        result: Any = self.env.step(action)
        return result


def make(**settings: Any) -> gym.Env[str, str]:
    return SlowSteps(gym.make("rlvr/Calculator-v0", **settings).unwrapped)


def policy(seed: int, folder: Path) -> Path:
    """The policy of the warm start of the example, with the example's environment, which does not sleep."""
    out = folder / f"warm-{seed}"
    if not (out / "policy").exists():
        values = changed(read_yaml(ROOT / "examples" / "calculator.yaml"), {"steps": 0, "seed": seed, "out": str(out)})
        Trainer(load_config(values), Silent()).run()
    return out / "policy"


def train(name: str, seed: int, folder: Path) -> Path:
    out = folder / f"{name.replace(' ', '-')}-{seed}"
    if not out.exists():
        changes = {
            "env": {"id": "benchmark/SlowCalculator-v0", "workers": (DEPTH + 1) * EPISODES},
            "model": {"name": str(policy(seed, folder))},
            "warm_start": {"steps": 0, "mixed_steps": 0},
            "learner": {"lr": 3e-4, "schedule": "constant"},
            "evaluation": {"episodes": 1},
            "prompts": PROMPTS,
            "group_size": GROUP,
            "checkpoint_every": 1000,
            "seed": seed,
            "out": str(out),
            **SCHEDULES[name],
        }
        Trainer(load_config(changed(read_yaml(ROOT / "examples" / "calculator.yaml"), changes)), Silent()).run()
    return out


def curve(run: Path) -> tuple[list[float], list[float], float]:
    """Of each step: the second at which it ended, its mean reward; and the oldest token."""
    lines = [line for line in read_jsonl(run / "timing.jsonl") if line["phase"] == "train"]
    records = [record for record in read_jsonl(run / "metrics.jsonl") if record["phase"] == "train"]
    seconds, ends = 0.0, []
    for line in lines:
        seconds += line["seconds"]
        ends.append(seconds)
    return ends, [record["reward"] for record in records], max(r.get("staleness_max", 0) for r in records)


def between(ends: list[float], rewards: list[float], first: float, last: float) -> float:
    """The mean reward of the steps that ended in a stretch of time."""
    return fmean(reward for end, reward in zip(ends, rewards, strict=True) if first < end <= last)


def figures(seeds: list[int], folder: Path) -> None:
    names = list(SCHEDULES)
    parts = [
        Table(f"reward, part {part} of 4 of sync's time", "mean, a figure for each seed", "sync")
        for part in range(1, 5)
    ]
    speed = Table("episodes a second", "by the clock, a figure for each seed", names[1])
    facts: dict[str, Any] = {"seeds": ", ".join(map(str, seeds))}
    oldest = 0.0
    for seed in seeds:
        curves = {name: curve(folder / f"{name.replace(' ', '-')}-{seed}") for name in names}
        whole = curves["sync"][0][-1]  # seconds
        for name, (ends, rewards, age) in curves.items():
            for part, table in enumerate(parts):
                table.add(name, between(ends, rewards, whole * part / 4, whole * (part + 1) / 4))
            ended = [end for end in ends if end <= whole]
            speed.add(name, len(ended) * EPISODES / ended[-1])
            oldest = max(oldest, age)
        finished = {name: sum(end <= whole for end in ends) for name, (ends, _, _) in curves.items()}
        facts[f"seed {seed}"] = f"{finished} steps in {whole:.0f} s"
    facts |= {
        "oldest token": f"{oldest:.0f} updates, at a depth of {DEPTH}",
        "a step of the environment": f"{LEAST} to {MOST} s, lognormal, median {MEDIAN} s, sigma {SIGMA}",
        "episodes of a step": EPISODES,
        "correction of async": "tis",
    }
    write_results("ahead", [*parts, speed], facts, RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="where the runs are, or come")
    parser.add_argument("--seed", type=int, help="train this seed's two runs, and write nothing")
    options = parser.parse_args()
    gym.register("benchmark/SlowCalculator-v0", make)
    if options.seed is None:
        seeds = sorted(int(path.name.split("-")[1]) for path in options.runs.glob("sync-*"))
        figures(seeds, options.runs)
        return
    for name in SCHEDULES:
        ends, rewards, age = curve(train(name, options.seed, options.runs))
        print(name, f"{ends[-1]:.0f} s", [round(reward, 2) for reward in rewards], f"oldest {age}")


if __name__ == "__main__":
    main()
