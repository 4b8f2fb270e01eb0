"""What an episode costs before it begins: games with resets beside GEM's, vectors of games, tables of any length.

    python benchmarks/resets.py [--rounds 5] [--gem PYTHON] [--out benchmarks/results]

``--gem`` names an interpreter in which ``import gem`` works (gem-llm 0.1.0). Both sides stay open for the whole run and
take turns in every round; rates are per CPU-second of the contender's process. All games are of GuessNumber's kind with
a million numbers, played with an action that never ends one before its last turn. Then how long a reset of every id
takes at every level; ids whose tasks are rows of a data set are left out.
"""

from __future__ import annotations

import argparse
import importlib
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym

import rlvr
from rlvr.envs import TextEnv
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import wrong
from rlvr.envs.games.guess_number import GuessNumber
from rlvr.envs.vector import VectorEnv

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ACTION = "\\boxed{7}"
SLOWEST = 50  # milliseconds that 99 resets in 100 may take

# Reads "one TURNS", "many TURNS", "steps COUNT" or "resets COUNT", answers with a rate.
GEM = """
import contextlib, io, sys, time
import gem

GAME = dict(max_number=1_000_000)

def made(count, turns):
    with contextlib.redirect_stdout(io.StringIO()):
        return gem.make_vec(["game:GuessTheNumber-v0-hard"] * count, async_mode=False, max_turns=turns, **GAME)

def one(turns):
    env = gem.make("game:GuessTheNumber-v0-hard", max_turns=turns, **GAME)
    env.reset(seed=0)
    start = time.process_time()
    for _ in range(14_000):
        if any(env.step("\\\\boxed{7}")[2:4]):
            env.reset()
    return 14_000 / (time.process_time() - start)

def many(turns):
    vector = made(256, turns)
    vector.reset(seed=0)
    actions = ["\\\\boxed{7}"] * 256
    start = time.process_time()
    for _ in range(60):
        vector.step(actions)
    return 256 * 60 / (time.process_time() - start)

def steps(count):
    vector = made(count, 20)
    vector.reset(seed=0)
    actions = ["\\\\boxed{7}"] * count
    start = time.process_time()
    for _ in range(10):
        vector.step(actions)
    return 10 * count / (time.process_time() - start)

def resets(count):
    vector = made(count, 7)
    vector.reset(seed=0)
    start = time.process_time()
    vector.reset(seed=1)
    return count / (time.process_time() - start)

for line in sys.stdin:
    name, word = line.split()
    print(globals()[name](int(word)), flush=True)
"""


def one(turns: int) -> float:
    env = TextEnv(GuessNumber(), level=5, max_turns=turns)
    env.reset(seed=0)
    start = time.process_time()
    for _ in range(14_000):
        if env.step(ACTION)[3]:
            env.reset()
    return 14_000 / (time.process_time() - start)


def games(count: int, turns: int) -> VectorEnv:
    settings = {"level": 5, "max_turns": turns}
    return VectorEnv("rlvr/GuessNumber-v0", count, autoreset_mode="SameStep", env_settings=settings)


def many(turns: int) -> float:
    with games(256, turns) as vector:
        vector.reset(seed=0)
        start = time.process_time()
        for _ in range(60):
            vector.step((ACTION,) * 256)
        return 256 * 60 / (time.process_time() - start)


def steps(count: int) -> float:
    with games(count, 20) as vector:
        vector.reset(seed=0)
        start = time.process_time()
        for _ in range(10):
            vector.step((ACTION,) * count)
        return 10 * count / (time.process_time() - start)


def resets(count: int) -> float:
    with games(count, 7) as vector:
        vector.reset(seed=0)
        start = time.process_time()
        vector.reset(seed=1)
        return count / (time.process_time() - start)


class Rows(Task[str]):
    """A table that costs nothing but its order."""

    splits = ("train",)

    def __init__(self, size: int) -> None:
        self.size = size

    def row(self, index: int, rng: random.Random) -> str:
        return "a row"

    def observe(self, state: str) -> str:
        return state

    def apply(self, state: str, action: str) -> Transition:
        return Transition(state, wrong(), terminated=True)


def table(size: int) -> float:
    """Resets with a new seed each."""
    env = TextEnv(Rows(size))
    env.reset(seed=0)
    start = time.process_time()
    for seed in range(5_000):
        env.reset(seed=seed)
    return 5_000 / (time.process_time() - start)


def listing() -> float:
    """CPU-seconds of ``rlvr envs -l``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "rlvr", "envs", "-l"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def distribution(max_resets: int, seconds: float) -> dict[str, str]:
    """CPU-milliseconds of a reset of each id at each level: median and 99th percentile, and the slowest of all."""
    rows, slow = {}, []
    for env_id in rlvr.list_envs("rlvr/"):
        module, _, name = gym.spec(env_id).kwargs["task"].partition(":")
        if getattr(importlib.import_module(module), name).reads_split:
            continue  # rows of a data set
        env = gym.make(env_id, disable_env_checker=True).unwrapped
        assert isinstance(env, TextEnv)
        durations = []
        for level in range(1, env.task.levels + 1):
            env.reset(seed=0, options={"level": level})  # what is built once is no part of it
            times: list[float] = []
            while len(times) < max_resets and (sum(times) < seconds or len(times) < 30):
                began = time.process_time()
                env.reset(options={"level": level})
                times.append(time.process_time() - began)
            times.sort()
            p50, p99 = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
            durations.append(f"{p50:.2g}/{p99:.2g}")
            slow.append((p99, f"{env_id} level {level}: {p99:.0f} ms"))
        env.close()
        rows[env_id] = ", ".join(durations)
    slow.sort(reverse=True)
    over = [text for p99, text in slow if p99 > SLOWEST]
    facts = {
        f"ids and levels whose p99 of reset is over {SLOWEST} ms": "; ".join(over) or f"none of {len(slow)}",
        "the slowest": "; ".join(text for _, text in slow[:10]),
        "columns": "CPU-milliseconds of a reset, median/p99, at each level",
    }
    return facts | rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gem", metavar="PYTHON")
    parser.add_argument("--resets", type=int, default=200, help="resets of each id and level")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU-seconds for them, where that is fewer")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    works = [
        ("one game at a time, a reset each 7 turns", one, "one", 7),
        ("one game at a time, a reset each 20 turns", one, "one", 20),
        ("256 games in a vector environment, 7 turns each", many, "many", 7),
        ("256 games in a vector environment, 20 turns each", many, "many", 20),
        ("10,000 games in a vector environment, ten steps of all", steps, "steps", 10_000),
        ("10,000 games in a vector environment, reset at once", resets, "resets", 10_000),
    ]
    tables = [Table(title, "per CPU-second, higher is better", "rlvr") for title, *_ in works]
    lengths = Table("reset with a new seed each, rows of a table", "per CPU-second, higher is better", "7,473 rows")
    short = Table("rlvr envs -l", "CPU-seconds, lower is better", "rlvr envs -l")
    ratios: dict[str, list[float]] = {title: [] for title, *_ in works}
    gem = None
    if options.gem:
        gem = subprocess.Popen([options.gem, "-c", GEM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(options.rounds):
        for ratio_table, (title, work, name, word) in zip(tables, works, strict=True):
            ratio_table.add("rlvr", ours := work(word))
            if gem is not None and gem.stdin is not None and gem.stdout is not None:
                print(name, word, file=gem.stdin, flush=True)
                ratio_table.add("GEM", theirs := float(gem.stdout.readline()))
                ratios[title].append(ours / theirs)
        for size in (7_473, 1_000_000):
            lengths.add(f"{size:,} rows", table(size))
        short.add("rlvr envs -l", listing())
    if gem is not None:
        gem.stdin.close()  # type: ignore[union-attr]
        gem.wait()
    facts = {
        f"{title}: median of the rounds' ratios to GEM": f"{statistics.median(ratio_table):.2f}"
        for title, ratio_table in ratios.items()
        if ratio_table
    } | distribution(options.resets, options.seconds)
    write_results("resets", [*tables, lengths, short], facts, options.out)


if __name__ == "__main__":
    main()
