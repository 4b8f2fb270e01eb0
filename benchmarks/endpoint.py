"""How much of what an endpoint can give reaches the episodes, where its latency has a heavy tail.

    python benchmarks/endpoint.py [--episodes 640] [--concurrency 64] [--rounds 3] [--out FOLDER]

The endpoint is an HTTP server in a process of its own that answers each call after a log-normal wait (median 0.15 s,
sigma 1: one call in a hundred takes ten times the median or more). The environment is GuessNumber, several turns an
episode. The ideal is computed from the waits that were served: each of ``--concurrency`` places takes the next episode
when its last one has ended, and nothing but the waits takes time. "Every episode by itself" is how `OpenAIAgent` is
asked; "turn by turn" waits for each batch of replies.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr.agents import Episode, Reply, Rollout, task_requests
from rlvr.agents.conversation import Conversation
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.envs.endpoint import Endpoint

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import stand_in
from results import Table, write_results
from stand_in import completed

ENV = "rlvr/GuessNumber-v0"
MEDIAN, SIGMA = 0.15, 1.0
WAITED = re.compile(r"after ([\d.]+) s")


async def serve() -> None:
    """Answer chat calls, each after a wait that its seed decides; print the port first."""

    async def respond(request: dict[str, Any]) -> bytes:
        rng = random.Random(request["seed"])
        wait = MEDIAN * rng.lognormvariate(0.0, SIGMA)
        await asyncio.sleep(wait)
        return completed(f"after {wait:.6f} s \\boxed{{{rng.randint(1, 20)}}}")

    await stand_in.serve(respond)


class TurnByTurn:
    """The same agent without ``submit``: a batch of replies is waited for."""

    def __init__(self, agent: OpenAIAgent) -> None:
        self._agent = agent

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return self._agent.act(conversations)


def ideal(episodes: Sequence[Episode], places: int) -> float:
    """Seconds that the episodes take where nothing but the endpoint's waits takes time."""
    free = [0.0] * places
    for episode in episodes:
        waits = sum(float(WAITED.search(turn.action)[1]) for turn in episode.turns)  # type: ignore[index]
        heapq.heappush(free, heapq.heappop(free) + waits)
    return max(free)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=640)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help="be the endpoint")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return

    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    share = Table("Share of the ideal throughput", "ideal seconds / seconds taken", "every episode by itself")
    cost = Table("CPU", "CPU-milliseconds of this process a call", "every episode by itself")
    turns = 0.0
    try:
        for seed in range(options.rounds):
            for name in ("every episode by itself", "turn by turn"):
                agent = OpenAIAgent(Endpoint(address, "m"), seed=seed, concurrency=options.concurrency)
                player = agent if name == "every episode by itself" else TurnByTurn(agent)
                rollout = Rollout(ENV, player, batch_size=options.concurrency)
                requests = task_requests(None, options.episodes, seed=seed)
                began, cpu = time.monotonic(), time.process_time()
                episodes = rollout(requests)
                taken, cpu = time.monotonic() - began, time.process_time() - cpu
                turns = sum(len(episode.turns) for episode in episodes) / len(episodes)
                share.add(name, ideal(episodes, options.concurrency) / taken)
                cost.add(name, 1000 * cpu / agent.usage.calls)
    finally:
        server.kill()
        server.wait()
    write_results("endpoint", [share, cost], {"turns an episode": f"{turns:.2f}"}, options.out)


if __name__ == "__main__":
    main()
