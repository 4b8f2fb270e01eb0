"""Speed of vector environments: steps of 256 GuessNumber games, and 64 environments whose tools are slow.

    python benchmarks/vector.py [--rounds 5] [--gem PYTHON] [--seconds 6] [--out benchmarks/results]

``--gem`` names an interpreter in which ``import gem`` works (gem-llm 0.1.0; its import needs numpy, nltk, msgspec and
reasoning-gym, and nothing else). It stays open for the whole run, and the contenders take turns in every round, so that
a busy machine slows all of them.

Steps are per CPU-second of the contender's process with all its threads. All play with the same action that never ends
a game, SameStep autoreset, 256 environments; once with games that never end, once with games of 20 turns, where the
next game's beginning is part of the price.

Slow tools: a step waits 50 ms in the median with a heavy tail (lognormal, sigma 0.8, at most 2 s). The ideal is that
all 64 environments always wait: 64 over the mean latency. Figures are shares of that, by wall clock.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

import rlvr  # noqa: F401
from rlvr.envs import TextEnv
from rlvr.envs.core.spaces import Text
from rlvr.envs.games.guess_number import GuessNumber
from rlvr.envs.vector import VectorEnv

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ENVS, TOOLS = 256, 64
ACTION = "\\boxed{7}"
FOREVER = 10**9
MEDIAN, SIGMA, LONGEST = 0.05, 0.8, 2.0

# Reads "steps MODE TURNS COUNT" or "tools SECONDS", answers with a rate.
GEM = """
import asyncio, contextlib, io, random, sys, time
import gem
from gem.core import Env
from gem.vector.async_vector_env import AsyncVectorEnv

def steps(mode, turns, count):
    with contextlib.redirect_stdout(io.StringIO()):
        vector = gem.make_vec(["game:GuessTheNumber-v0-hard"] * 256, async_mode=mode == "async",
                              max_turns=int(turns), max_number=1_000_000)
    vector.reset(seed=0)
    actions = ["\\\\boxed{7}"] * 256
    vector.step(actions)
    start = time.process_time()
    for _ in range(int(count)):
        vector.step(actions)
    return 256 * int(count) / (time.process_time() - start)

class Tool(Env):
    def __init__(self, seed):
        self.rng = random.Random(seed)
    def reset(self, seed=None):
        return "", {}
    def step(self, action):
        time.sleep(min(0.05 * self.rng.lognormvariate(0.0, 0.8), 2.0))
        return "", 0.0, False, False, {}
    def sample_random_action(self):
        return ""

def tools(seconds):
    vector = AsyncVectorEnv(["tool"] * 64, [lambda seed=seed: Tool(seed) for seed in range(64)])
    vector.reset()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < float(seconds):
        done += len(vector.step([""] * 64)[0])
    return done / (time.perf_counter() - start)

for line in sys.stdin:
    name, *words = line.split()
    print(globals()[name](*words), flush=True)
"""


class Gem:
    """GEM in an interpreter of its own."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", GEM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


class Tool(gym.Env[str, str]):
    """An environment that waits for something else."""

    def __init__(self, seed: int) -> None:
        self.observation_space = self.action_space = Text()
        self._random = random.Random(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        time.sleep(latency(self._random))
        return "", 0.0, False, False, {}

    async def step_async(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        await asyncio.sleep(latency(self._random))
        return "", 0.0, False, False, {}


def latency(rng: random.Random) -> float:
    return min(MEDIAN * rng.lognormvariate(0.0, SIGMA), LONGEST)


def guess_steps(turns: int, backend: str, count: int, read: bool = False) -> float:
    settings = {"level": 5, "max_turns": turns}
    with VectorEnv(
        "rlvr/GuessNumber-v0", ENVS, backend=backend, autoreset_mode="SameStep", env_settings=settings
    ) as vector:
        return step_rate(vector, count, read)


def gymnasium_steps(turns: int, count: int) -> float:
    vector = gym.vector.SyncVectorEnv(
        [lambda: TextEnv(GuessNumber(), level=5, max_turns=turns)] * ENVS, autoreset_mode="SameStep"
    )
    return step_rate(vector, count, False)


def step_rate(vector: Any, count: int, read: bool) -> float:
    vector.reset(seed=0)
    actions = (ACTION,) * ENVS
    vector.step(actions)
    start = time.process_time()
    for _ in range(count):
        infos = vector.step(actions)[4]
        if read:
            infos.get("verdict")
    return ENVS * count / (time.process_time() - start)


def tool_rate(backend: str, seconds: float, barrier: bool) -> float:
    """Steps in a second of wall time, after the first half second."""
    with VectorEnv([lambda seed=seed: Tool(seed) for seed in range(TOOLS)], backend=backend) as vector:
        vector.reset()
        if barrier:
            done, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                done += len(vector.step([""] * TOOLS)[0])
            return done / (time.perf_counter() - start)
        vector.send([""] * TOOLS)
        warm = time.perf_counter() + 0.5
        while time.perf_counter() < warm:
            ids = vector.recv().ids.tolist()
            vector.send([""] * len(ids), ids)
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            ids = vector.recv().ids.tolist()
            vector.send([""] * len(ids), ids)
            done += len(ids)
        return done / (time.perf_counter() - start)


def stepping(rounds: int, gem: Gem | None) -> list[Table]:
    tables = []
    for title, turns in ((f"steps of {ENVS} games without end", FOREVER), (f"steps of {ENVS} games of 20 turns", 20)):
        ours = "rlvr, sync"
        contenders: dict[str, Callable[[], float]] = {
            ours: lambda turns=turns: guess_steps(turns, "sync", 400),
            "rlvr, sync, every verdict read": lambda turns=turns: guess_steps(turns, "sync", 400, True),
            "rlvr, thread": lambda turns=turns: guess_steps(turns, "thread", 60),
            "rlvr, asyncio": lambda turns=turns: guess_steps(turns, "asyncio", 60),
            "the same games in Gymnasium's SyncVectorEnv": lambda turns=turns: gymnasium_steps(turns, 60),
        }
        if gem is not None:
            contenders["GEM, sync"] = lambda turns=turns: gem.ask("steps", "sync", turns, 200)
            contenders["GEM, async"] = lambda turns=turns: gem.ask("steps", "async", turns, 40)
        table = Table(title, "steps per CPU-second, higher is better", ours)
        for _ in range(rounds):
            for name, contender in contenders.items():
                table.add(name, contender())
        tables.append(table)
    return tables


def waiting(rounds: int, seconds: float, gem: Gem | None) -> Table:
    rng = random.Random(0)
    ideal = TOOLS / math.fsum(latency(rng) / 1_000_000 for _ in range(1_000_000))
    table = Table(f"{TOOLS} slow tools", f"share of the ideal, {ideal:,.0f} steps per second", "rlvr, asyncio, recv")
    for _ in range(rounds):
        table.add("rlvr, asyncio, recv", tool_rate("asyncio", seconds, False) / ideal)
        table.add("rlvr, thread, recv", tool_rate("thread", seconds, False) / ideal)
        table.add("rlvr, asyncio, step (a barrier)", tool_rate("asyncio", seconds, True) / ideal)
        if gem is not None:
            table.add("GEM, async (a barrier)", gem.ask("tools", seconds) / ideal)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--gem", metavar="PYTHON")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    gem = Gem(options.gem) if options.gem else None
    tables = [*stepping(options.rounds, gem), waiting(options.rounds, options.seconds, gem)]
    write_results("vector", tables, {}, options.out)


if __name__ == "__main__":
    main()
