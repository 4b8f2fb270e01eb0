"""What the rollout loop costs beside the environment and the agent, in CPU-microseconds a turn.

``python benchmarks/rollout.py`` measures this checkout; ``--beside FOLDER`` another checkout as well, in alternating
rounds, each in a process of its own; ``--out benchmarks/results`` writes the figures. ``--states`` measures what
it costs to find equal states, for `gigpo` and `gigpo_state`, beside the rollout that they are found in.

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
import tempfile
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


# Two games, a hidden number, a world to search, a database, a world of services, a calculator: the constant replies.
STATES = {
    "FrozenLake": r"\boxed{right}",
    "TicTacToe": r"\boxed{a1}",
    "GuessNumber": r"\boxed{0}",
    "WorldSearch": r"\boxed{x}",
    "SQL": "x",
    "ServiceDesk": "x",
    "Calculator": "<tool>1+1</tool>",
}
TASKS, GROUP, STATES_TURNS = 8, 8, 4
AGENTS = ("rlvr/tiny", "a constant reply")


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


def measure_states(name: str, rounds: int, folder: Path) -> list[Table]:
    """CPU of rollouts of the smallest language model and of a constant reply, and of the states of their episodes."""
    from whole_runs import Silent

    from rlvr.agents import ConstantAgent
    from rlvr.algorithms.advantages.turn_baselines import observed_states, true_states
    from rlvr.algorithms.config import load_config
    from rlvr.algorithms.recipe.advantage import Played
    from rlvr.algorithms.sampling.collect import TaskOrder
    from rlvr.algorithms.train.run import Trainer

    env = {"id": f"rlvr/{name}-v0", "level": 1, "system": False, "settings": {"max_turns": STATES_TURNS}}
    sampling = {"max_new_tokens": 16, "max_length": 2048}
    config = {"model": {"name": "rlvr/tiny"}, "algorithm": "gigpo_state", "env": env, "sampling": sampling}
    run = Trainer(load_config({**config, "prompts": TASKS, "group_size": GROUP, "out": str(folder / name)}), Silent())
    unit = f"CPU-microseconds a turn, at most {STATES_TURNS} turns, {TASKS} tasks of {GROUP} episodes"
    tables = [Table(f"{name}, {agent}", unit, "rollout") for agent in AGENTS]
    try:
        run.prepare()
        for number in range(rounds):
            for table, agent in zip(tables, (run.play_agent(greedy=False), ConstantAgent(STATES[name])), strict=True):
                rollout = run.rollout_of(agent, "train")
                order = TaskOrder(rollout.env.unwrapped, f"round {number}", 0)
                requests = [
                    order.request(index, level=1, group=index, sample=sample, salt="states")
                    for index in range(TASKS)
                    for sample in range(GROUP)
                ]
                start = time.process_time()
                played = Played(rollout(requests), [0.0] * len(requests))
                spent = {"rollout": time.process_time() - start}
                for what, gather in (("gigpo", observed_states), ("gigpo_state", true_states)):
                    start = time.process_time()
                    gather(played, run.method.sources)
                    spent[what] = time.process_time() - start
                for what, seconds in spent.items():
                    table.add(what, seconds * 1e6 / sum(len(episode.turns) for episode in played.episodes))
    finally:
        run.close()
    return tables


def states(rounds: int, out: Path | None) -> None:
    """The costs of equal states for each id, and the largest share of a rollout."""
    with tempfile.TemporaryDirectory() as folder:
        of_ids = [measure_states(name, rounds, Path(folder)) for name in STATES]
    largest = {
        f"largest share of a rollout, {what}, {agent}": f"{max(1 / of_id[k].ratio(what) for of_id in of_ids):.1%}"
        for k, agent in enumerate(AGENTS)
        for what in ("gigpo", "gigpo_state")
    }
    tables = [table for of_id in of_ids for table in of_id]
    if out:
        write_results("rollout_states", tables, largest, out)
    else:
        print("\n".join(table.markdown() for table in tables), largest)


def main() -> None:
    """Measure in alternating rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in alternating rounds")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--states", action="store_true", help="the cost of equal states beside rollouts, and no other")
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure()))
        return
    if options.states:
        states(options.rounds, options.out)
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
