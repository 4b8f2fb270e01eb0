"""How much longer an evaluation takes where an endpoint refuses a share of the requests (429 with a `Retry-After`).

    python benchmarks/refusals.py [--calls 1600] [--concurrency 32] [--out FOLDER]

The endpoint is an HTTP server in a process of its own that answers each request after 0.2 s. It refuses a share of them
at once, drawn by a fixed seed, and asks to come again after the wait. "Overload" is another kind: the endpoint answers
so many requests a second and refuses all others, whatever the client does. There what counts is that few are refused.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rlvr.agents import Rollout, task_requests
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.envs.endpoint import Endpoint

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import stand_in
from results import Table, write_results
from stand_in import completed

ENV = "rlvr/Countdown-v0"
LATENCY = 0.2
SHARES = ((0.0, 1), (0.01, 1), (0.02, 1), (0.05, 1), (0.05, 3), (0.1, 1))  # of the requests; seconds to wait
RATES = (20.0, 5.0)  # requests a second of an overloaded endpoint


async def serve(share: float, wait: int, rate: float) -> None:
    """Answer or refuse chat calls; print the port first."""
    rng, answered_at = random.Random(0), [0.0]

    def is_refused() -> bool:
        if not rate:
            return rng.random() < share
        now = time.monotonic()
        if now < answered_at[0]:
            return True
        answered_at[0] = max(answered_at[0], now - 1 / rate) + 1 / rate
        return False

    async def respond(request: dict[str, Any]) -> bytes:
        if is_refused():
            return b"HTTP/1.1 429 Slow down\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n" % wait
        await asyncio.sleep(LATENCY)
        return completed(r"\boxed{1}")

    await stand_in.serve(respond)


def measure(share: float, wait: int, rate: float, calls: int, concurrency: int) -> tuple[float, int]:
    """The seconds that the calls take, and how many requests they took."""
    command = [sys.executable, __file__, "--serve", str(share), str(wait), str(rate)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        agent = OpenAIAgent(Endpoint(address, "m", deadline=300.0), concurrency=concurrency)
        rollout, requests = Rollout(ENV, agent, batch_size=256), task_requests(None, calls)
        began = time.monotonic()
        episodes = rollout(requests)
        taken = time.monotonic() - began
    finally:
        server.kill()
        server.wait()
    if not all(episode.valid for episode in episodes):
        raise RuntimeError("a call failed")
    return taken, agent.usage.requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=1600)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--serve", nargs=3, type=float, metavar=("SHARE", "WAIT", "RATE"), help="be the endpoint")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve[0], int(options.serve[1]), options.serve[2]))
        return
    seconds = Table("Seconds", "of all calls", "0% refused, 1 s to wait")
    tries = Table("Requests", "requests a call", "0% refused, 1 s to wait")
    for share, wait in SHARES:
        name = f"{share:.0%} refused, {wait} s to wait"
        taken, requests = measure(share, wait, 0.0, options.calls, options.concurrency)
        seconds.add(name, taken)
        tries.add(name, requests / options.calls)
    for rate in RATES:
        calls = int(20 * rate)
        taken, requests = measure(0.0, 1, rate, calls, options.concurrency)
        name = f"overload, {rate:g} a second answered, 1 s to wait: {calls} calls"
        seconds.add(name, taken)
        tries.add(name, requests / calls)
    write_results("refusals", [seconds, tries], {"concurrency": str(options.concurrency)}, options.out)


if __name__ == "__main__":
    main()
