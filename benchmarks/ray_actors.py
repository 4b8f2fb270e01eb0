"""Environments in actors of Ray: steps per second, and what a step costs the driver.

    pip install "ray>=2.60,<3"
    python benchmarks/ray_actors.py [--envs 512] [--actors 2] [--rounds 5] [--out benchmarks/results]

GuessNumber with an action that never ends a game, infos and verdicts included, beside the same environments in the
driver itself (`sync`) and in processes of our own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from rlvr.envs.vector import VectorEnv

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

GUESS, ACTION = "rlvr/GuessNumber-v0", "\\boxed{7}"
STEPS = 40  # of each environment in a round


def main() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    from rlvr.adapters.serving.ray import actors

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    name = f"{options.actors} actors of Ray"
    backends: dict[str, Any] = {
        name: {"backend": actors(num_cpus=0), "workers": options.actors},
        f"{options.actors} processes of ours": {"backend": "process", "workers": options.actors},
        "in the driver itself": {"backend": "sync"},
    }
    wall = Table("steps per second", "by wall clock, higher is better", name)
    driver = Table("milliseconds of the driver for a step", "CPU time, lower is better", name)
    settings, actions = {"level": 5, "max_turns": 10**9}, [ACTION] * options.envs
    vectors = {key: VectorEnv(GUESS, options.envs, env_settings=settings, **more) for key, more in backends.items()}
    loads = []
    for vector in vectors.values():
        vector.reset(seed=0)
        for _ in range(10):  # until the calls have found their size
            vector.step(actions)
    for _ in range(options.rounds):
        for key, vector in vectors.items():
            began = time.perf_counter(), time.process_time()
            for _ in range(STEPS):
                vector.step(actions)
            seconds, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
            wall.add(key, STEPS * options.envs / seconds)
            driver.add(key, 1e3 * cpu / (STEPS * options.envs))
            loads.append(os.getloadavg()[0])
    for vector in vectors.values():
        vector.close()
    ray.shutdown()
    facts = {
        "environments, actors": f"{options.envs}, {options.actors}",
        "Ray": ray.__version__,
        "load average of a minute meanwhile": f"{min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} processors",
    }
    write_results("ray", [wall, driver], facts, options.out)


if __name__ == "__main__":
    main()
