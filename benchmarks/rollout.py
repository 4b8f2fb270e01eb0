"""What the rollout loop costs beside the environment and the agent, in CPU-microseconds a turn.

``python benchmarks/rollout.py`` measures this checkout; ``--beside FOLDER`` another checkout as well, in alternating
rounds, each in a process of its own; ``--out benchmarks/results`` writes the figures.

The environment does nothing and the agent gives one constant reply. What both cost when they are called by hand is
subtracted, so what is left is the loop: the record of the episode, the conversation, the hand-over to the environment's
thread. The last figure is whole episodes of GuessNumber, environment and agent included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ROOT = Path(__file__).resolve().parent.parent
TURNS, EPISODES, GUESSES = 8, 2000, 2000
CASES: dict[str, dict[str, Any]] = {
    "in turn, 256 at once": {},
    "in turn, 1 at once": {"batch_size": 1},
    "4 threads, 256 at once": {"workers": 4},
}
GUESSING = "GuessNumber, 256 at once"
UNITS = {GUESSING: "episodes of 4 turns per CPU-second, environment included, higher is better"}


class Nothing(gym.Env[str, str]):
    """Eight turns of the same words."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.turn = 0
        return "words", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        return "words", 0.0, self.turn == TURNS, False, {}


def measure() -> dict[str, float]:
    """One round of this process: CPU-microseconds a turn for each case, and GuessNumber's episodes a CPU-second."""
    from rlvr.agents import ConstantAgent, Rollout, episode

    request = getattr(episode, "RolloutRequest", None) or episode.Request  # the name in older checkouts
    requests = [request(seed=0, index=index, group=index) for index in range(EPISODES)]
    env, agent = Nothing(), ConstantAgent("words")
    start = time.process_time()
    for _ in requests:
        env.reset(seed=0)
        for _ in range(TURNS):
            env.step("words")
    for _ in range(EPISODES * TURNS // 250):
        agent.act([None] * 250)  # type: ignore[list-item]  # it looks at none of them
    by_hand = time.process_time() - start
    rates: dict[str, float] = {}
    for name, options in CASES.items():
        rollout = Rollout(Nothing, ConstantAgent("words"), **options)
        rollout(requests[:200])
        start = time.process_time()
        rollout(requests)
        rates[name] = (time.process_time() - start - by_hand) / (EPISODES * TURNS) * 1e6
    rollout = Rollout("rlvr/GuessNumber-v0", ConstantAgent("\\boxed{0}"))
    rollout(requests[:200])
    start = time.process_time()
    rollout(requests[:GUESSES])
    rates[GUESSING] = GUESSES / (time.process_time() - start)
    return rates


def main() -> None:
    """Measure in alternating rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in alternating rounds")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="where rollout.json and rollout.md go")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure()))
        return
    checkouts = {"here": ROOT} | ({"beside": options.beside.resolve()} if options.beside else {})
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(options.rounds):
        for name, root in checkouts.items():
            command = [sys.executable, str(Path(__file__).resolve()), "--one"]
            path = {**os.environ, "PYTHONPATH": str(root / "src")}
            done = subprocess.run(command, env=path, check=True, capture_output=True, text=True, timeout=600)
            rounds[name].append(json.loads(done.stdout))
    tables = []
    for case in rounds["here"][0]:
        table = Table(case, UNITS.get(case, "CPU-microseconds a turn, lower is better"), "here")
        for name, rates in rounds.items():
            for rate in rates:
                table.add(name, rate[case])
        tables.append(table)
    if options.out:
        write_results("rollout", tables, {}, options.out)
    else:
        print("\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    main()
