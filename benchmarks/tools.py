"""Tools and terminals: a call's price beside GEM's, a search in 100,000 documents, 64 terminals at once.

    python benchmarks/tools.py [--gem PYTHON] [--rounds 5] [--seconds 4] [--terminals 64] [--out benchmarks/results]

``--gem`` names an interpreter in which ``import gem`` works (gem-llm 0.1.0); without it the comparison is left out. A
call of ours is a whole step of an environment with ``tools=["python"]``: the reply is parsed, the code runs in the
sandbox in an interpreter that keeps its names, the output comes back as the observation. A call of GEM's is
``PythonCodeTool().execute_action``, without an environment and without a sandbox (it has one that needs bubblewrap and
a ``python`` outside virtual environments); its limit of 10 s is lifted to 120, for many calls at once on a busy machine
would not keep it. Both compute the same sums, and only right answers count. They take turns.

The terminals are episodes of rlvr/Terminal-v0, played by its expert, of every level. One is lost if its
verdict is invalid or its reward is not 1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs.agentic.terminal import Terminal, TerminalState
from rlvr.envs.sandbox import probe
from rlvr.envs.tools import Call, write_call
from rlvr.envs.tools.search import Document, Index

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

AT_ONCE = 64
LEVELS, CHORES = range(1, 6), 12  # of a round of terminals
CALLS = 40  # of one episode
GEM = """
import statistics, sys, time
from concurrent.futures import ThreadPoolExecutor
from gem.tools.python_code_tool import PythonCodeTool
from gem.utils import sandbox

sandbox.subprocess_run.__defaults__ = (None, 120)

def call(number):
    started = time.perf_counter()
    said = PythonCodeTool().execute_action(f"<python>print(sum(range({number})))</python>")[2]
    return (time.perf_counter() - started) * 1e3 if str(sum(range(number))) in said.split() else None

def many(threads, seconds):
    until = time.perf_counter() + float(seconds)
    def work(seed):
        right = 0
        while time.perf_counter() < until:
            right += call(seed) is not None
            seed += 1
        return right
    started = time.perf_counter()
    with ThreadPoolExecutor(int(threads)) as pool:
        right = sum(pool.map(work, range(1000, 1000 + int(threads))))
    return right / (time.perf_counter() - started)

def one(count):
    return statistics.median(took for took in map(call, range(2000, 2000 + int(count))) if took is not None)

for line in sys.stdin:
    name, *words = line.split()
    print(globals()[name](*words), flush=True)
"""


class Gem:
    """GEM's python tool in an interpreter of its own, which is also the ``python`` that the tool starts."""

    def __init__(self, python: str, folder: str) -> None:
        path = str(Path(python).absolute())
        self._process = subprocess.Popen(
            [path, "-c", GEM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=folder, env={**os.environ, "PATH": f"{Path(path).parent}:{os.environ['PATH']}"},
        )  # fmt: skip

    def ask(self, *words: object) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit("GEM could not be started")
        print(*words, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Caller:
    """An environment with an interpreter; its episode is ended, and a new one begun, after ``CALLS`` calls."""

    def __init__(self, seed: int, begun: int) -> None:
        tools = {"tools": ["python"], "max_calls": CALLS + 1}
        self._env = gym.make("rlvr/Sums-v0", tools=tools, max_turns=CALLS + 2).unwrapped
        self._number, self._calls = seed, 0
        self._begin()
        self._calls = begun  # as if so many had been made, so that not all episodes end at once

    def _begin(self) -> None:
        self._env.reset(seed=self._number)
        self._env.step(write_call(Call("python", {"code": "x = 1"}), "hermes"))  # opens the interpreter
        self._calls = 0

    def call(self) -> float:
        """One call: milliseconds, with the wrong ones counted as endless."""
        if self._calls >= CALLS:
            self._env.step("\\boxed{0}")
            self._begin()
        self._number += 1
        self._calls += 1
        action = write_call(Call("python", {"code": f"print(sum(range({self._number})))"}), "hermes")
        started = time.perf_counter()
        observation = self._env.step(action)[0]
        took = (time.perf_counter() - started) * 1e3
        return took if observation == str(sum(range(self._number))) else float("inf")

    def close(self) -> None:
        self._env.close()


def throughput(callers: list[Caller], seconds: float) -> float:
    """Right calls per second of all callers at once, a thread each; opening new interpreters is part of it."""
    until = time.perf_counter() + seconds

    def work(caller: Caller) -> int:
        right = 0
        while time.perf_counter() < until:
            right += caller.call() < float("inf")
        return right

    started = time.perf_counter()
    with ThreadPoolExecutor(len(callers)) as pool:
        right = sum(pool.map(work, callers))
    return right / (time.perf_counter() - started)


def calling(rounds: int, seconds: float, gem: Gem | None) -> list[Table]:
    single = Table("a warm python call", "milliseconds, median of a round, lower is better", "rlvr")
    many = Table(f"python calls, {AT_ONCE} at once", "calls per second, higher is better", "rlvr")
    callers = [Caller(1_000 * number, number * CALLS // AT_ONCE) for number in range(AT_ONCE)]
    for _ in range(rounds):
        single.add("rlvr", statistics.median(callers[0].call() for _ in range(200)))
        many.add("rlvr", throughput(callers, seconds))
        if gem is not None:
            single.add("GEM, no sandbox", gem.ask("one", 15))
            many.add("GEM, no sandbox", gem.ask("many", AT_ONCE, seconds))
    for caller in callers:
        caller.close()
    return [single, many]


def beside(python: str | None, rounds: int, seconds: float) -> tuple[list[Table], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        gem = Gem(python, folder) if python else None
        try:
            return calling(rounds, seconds, gem), {}
        finally:
            if gem is not None:
                gem.close()


def searching(rounds: int, documents: int = 100_000, queries: int = 100) -> tuple[list[Table], dict[str, Any]]:
    """BM25 over made-up documents of some 60 words, drawn as words of a language are: few often, many seldom. Queries
    are drawn in the same way, so they have words in them that nearly every document has."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(30_000)]
    sums = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    texts = (" ".join(rng.choices(words, cum_weights=sums, k=rng.randint(30, 90))) for _ in range(documents))
    corpus = [Document(f"Document {number}", text) for number, text in enumerate(texts)]
    started = time.perf_counter()
    index = Index(corpus)
    built = time.perf_counter() - started
    title = f"BM25 over {documents:,} documents"
    wall = Table(title, "milliseconds for a query, median of a round, lower is better", "4 words")
    work = Table(f"{title}, work", "CPU-milliseconds, which a busy machine changes little", "4 words")
    for _ in range(rounds):
        for count in (1, 4, 10):
            times = []
            for _ in range(queries):
                query = " ".join(rng.choices(words, cum_weights=sums, k=count))
                started, cpu = time.perf_counter(), time.process_time()
                index.search(query, 5)
                times.append(((time.perf_counter() - started) * 1e3, (time.process_time() - cpu) * 1e3))
            wall.add(f"{count} words", statistics.median(took for took, _ in times))
            work.add(f"{count} words", statistics.median(took for _, took in times))
    return [wall, work], {"seconds to build the index": round(built, 1)}


def episode(task: Terminal, state: TerminalState) -> tuple[float, list[float], bool]:
    """Seconds of the episode, milliseconds of its actions, and whether it was won."""
    over, times, verdict = False, [], None
    while not over:
        action, started = task.solve(state), time.perf_counter()
        state, verdict, over, _ = task.apply(state, action)
        times.append((time.perf_counter() - started) * 1e3)
    return sum(times) / 1e3, times, verdict is not None and verdict.valid and verdict.reward == 1.0


def sitting(rounds: int, at_once: int) -> tuple[list[Table], dict[str, Any]]:
    task = Terminal()
    levels = {f"level {level}": [TerminalState(level, seed, "") for seed in range(CHORES)] for level in LEVELS}
    whole = Table("a terminal episode, one at a time", "seconds, mean of its chores, lower is better", "level 1")
    action = Table("an action in a terminal, one at a time", "milliseconds, median", "level 1")
    episode(task, TerminalState(1, 0, ""))
    lost = 0
    for _ in range(rounds):
        for name, states in levels.items():
            played = [episode(task, state) for state in states]
            lost += sum(not won for _, _, won in played)
            whole.add(name, statistics.mean(seconds for seconds, _, _ in played))
            # The first opens the terminal, the last reads the workspace: neither is an action like the others.
            action.add(name, statistics.median(ms for _, times, _ in played for ms in times[1:-1] or [0.0]))
    states = [TerminalState(1 + number % len(LEVELS), number, "") for number in range(4 * at_once)]
    started = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(lambda state: episode(task, state), states))
    took = time.perf_counter() - started
    facts = {
        f"terminal episodes, one at a time: {rounds * CHORES * len(LEVELS)}, lost": lost,
        f"terminal episodes, {at_once} at once on {len(os.sched_getaffinity(0))} cores: {len(states)}, lost": sum(
            not won for _, _, won in results
        ),
        f"terminal episodes per second, {at_once} at once": round(len(states) / took, 2),
        f"seconds of the slowest action, {at_once} at once": round(max(max(times) for _, times, _ in results) / 1e3, 2),
    }
    return [whole, action], facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gem", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--terminals", type=int, default=AT_ONCE)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    parts: list[Callable[[], tuple[list[Table], dict[str, Any]]]] = [
        lambda: beside(options.gem, options.rounds, options.seconds),
        lambda: searching(options.rounds),
        lambda: sitting(options.rounds, options.terminals),
    ]
    tables: list[Table] = []
    facts: dict[str, Any] = {"sandbox": probe().tier}
    loads = [round(os.getloadavg()[0], 1)]
    for part in parts:
        more, more_facts = part()
        tables += more
        facts |= more_facts
        loads.append(round(os.getloadavg()[0], 1))
        print(*(table.markdown() for table in more), more_facts, flush=True)
    facts[f"load on {os.cpu_count()} cores before and after each part, this program included"] = loads
    write_results("tools", tables, facts, options.out)


if __name__ == "__main__":
    main()
