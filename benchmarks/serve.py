"""Speed of a served environment: GuessNumber behind `rlvr serve`, its server in a process of its own.

    python benchmarks/serve.py [--rounds 5] [--out benchmarks/results]

64 sessions are stepped with an action that never ends a game; the infos are read, verdicts included. By wall clock, and
by the CPU-seconds of the server and of the client: those hardly change when other programs want the same processors,
and the load while it was measured stands below the tables.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlvr.adapters import connect, connect_vector

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

SESSIONS = 64
ACTION = "\\boxed{7}"
BATCH = "one connection, 64 sessions a message"

# Serves; says the seconds of CPU that it has used whenever it is asked.
SERVER = """
import sys, time
from rlvr.adapters.serving.serve import EnvServer
with EnvServer("rlvr/GuessNumber-v0", {"level": 5, "max_turns": 10**9}, limit=64, token=None) as server:
    print(server.url, flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
"""


class Process:
    """The server's process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.url = self._line()

    def cpu(self) -> float:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def batched(url: str) -> Iterator[Callable[[int], int]]:
    """Steps of 64 sessions in one message."""
    vector = connect_vector(url, SESSIONS)
    vector.reset(seed=0)
    actions = [ACTION] * SESSIONS

    def play(steps: int) -> int:
        for _ in range(steps // SESSIONS):
            vector.step(actions)[4].get("verdict")
        return steps // SESSIONS * SESSIONS

    yield play
    vector.close()


@contextmanager
def threaded(url: str) -> Iterator[Callable[[int], int]]:
    """64 clients, each with a connection and a thread of its own."""
    envs = [connect(url) for _ in range(SESSIONS)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)

    def several(env: Any, steps: int) -> None:
        for _ in range(steps):
            env.step(ACTION)

    def play(steps: int) -> int:
        each = steps // SESSIONS
        list(threads.map(several, envs, [each] * SESSIONS))
        return each * SESSIONS

    with ThreadPoolExecutor(SESSIONS) as threads:
        yield play
    for env in envs:
        env.close()


@contextmanager
def single(url: str) -> Iterator[Callable[[int], int]]:
    """One client that waits for each answer."""
    with connect(url) as env:
        env.reset(seed=0)

        def play(steps: int) -> int:
            for _ in range(steps):
                env.step(ACTION)
            return steps

        yield play


@contextmanager
def posted(url: str) -> Iterator[Callable[[int], int]]:
    """The same over HTTP, by a client of the standard library."""
    link = http.client.HTTPConnection(url.removeprefix("http://"))

    def ask(number: int, op: str, **fields: Any) -> Any:
        link.request("POST", "/v1", json.dumps({"id": f"{number}", "op": op, **fields}))
        return json.load(link.getresponse())

    session = ask(0, "open")["sessions"][0]
    ask(1, "reset", items=[{"session": session, "seed": 0}])
    count = 1

    def play(steps: int) -> int:
        nonlocal count
        for _ in range(steps):
            count += 1
            ask(count, "step", items=[{"session": session, "action": ACTION}])
        return steps

    yield play
    ask(count + 1, "close", items=[{"session": session}])
    link.close()


CONTENDERS = {
    BATCH: (batched, 19_200),
    "64 connections, a thread each": (threaded, 3_200),
    "one session, one step at a time": (single, 500),
    "the same over HTTP": (posted, 500),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    wall = Table("steps per second", "by wall clock, higher is better", BATCH)
    server_cpu = Table("steps per CPU-second of the server", "higher is better", BATCH)
    client_cpu = Table("steps per CPU-second of the client", "higher is better", BATCH)
    loads, server = [], Process()
    for _ in range(options.rounds):
        for name, (contender, steps) in CONTENDERS.items():
            with contender(server.url) as play:
                play(SESSIONS)
                loads.append(os.getloadavg()[0])
                began = time.perf_counter(), server.cpu(), time.process_time()
                done = play(steps)
                ended = time.perf_counter(), server.cpu(), time.process_time()
            for table, start, end in zip((wall, server_cpu, client_cpu), began, ended, strict=True):
                table.add(name, done / (end - start))
    server.close()
    facts = {
        "load average of a minute meanwhile": f"{min(loads):.1f} to {max(loads):.1f}",
        "processors": os.cpu_count(),
        "latency of one step alone (median)": f"{1e3 / wall.median('one session, one step at a time'):.2f} ms",
    }
    write_results("serve", [wall, server_cpu, client_cpu], facts, options.out)


if __name__ == "__main__":
    main()
