"""How far it scales: a simulation of many sessions on many machines, beside what one server was measured to do.

    python benchmarks/scale.py [--seconds 8] [--out benchmarks/results]

The model, an event for each request: a session pauses (exponential), sends a step to its server, waits for its turn
there (one process answers all of a server's messages), then for a core of the machine that plays the step (none for an
environment that only computes for microseconds), and gets its answer. Sessions stand where fewest are. The time of a
message is lognormal; that of a slow environment has a Pareto tail. A message's CPU time is measured at 64 sessions of
this machine; 512 and 4,096 sessions are then predicted, and measured.
"""

from __future__ import annotations

import argparse
import heapq
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from rlvr.adapters.fleet.loadtest import single

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

COMMAND = [sys.executable, "-m", "rlvr", "serve", "rlvr/GuessNumber-v0", "--port", "0", "--no-token"]
COMMAND += ["--set", "max_turns=1000000", "--sessions", "4200"]
SIGMA = 0.5  # of the logarithm of a message's time
TAIL = 2.2  # exponent of the Pareto tail of a slow step


@dataclass(frozen=True)
class Load:
    """What is simulated: sessions on machines, the mean pause and the mean time of a step, and cores for the steps."""

    sessions: int
    machines: int
    pause: float
    step: float = 0.0
    cores: int = 16


def simulate(load: Load, message: float, seconds: float, seed: int = 0) -> dict[str, float]:
    """Steps per second, quantiles of the waits, and the busiest server's share of a processor.

    Args:
        message: mean seconds of a server's processor for a step's request and answer.
    """
    rng = np.random.default_rng(seed)
    drawn = int(2.5 * load.sessions * max(1.0, seconds / max(load.pause, 1e-3))) + load.sessions
    pauses = iter(rng.exponential(load.pause, drawn).tolist())
    messages = iter(rng.lognormal(np.log(message) - SIGMA**2 / 2, SIGMA, drawn).tolist())
    slow = rng.pareto(TAIL, drawn) + 1 if load.step else np.zeros(1)
    steps = iter((slow * load.step * (TAIL - 1) / TAIL).tolist())
    events = [(float(at), session) for session, at in enumerate(rng.uniform(0, load.pause, load.sessions))]
    heapq.heapify(events)
    server_free, busy = [0.0] * load.machines, [0.0] * load.machines
    cores = [[0.0] * load.cores for _ in range(load.machines)]
    waits, done = [], 0
    while events and events[0][0] < seconds:
        asked, session = heapq.heappop(events)
        machine = session % load.machines  # opened where fewest are
        cost = next(messages)
        ready = max(asked, server_free[machine]) + cost
        server_free[machine] = ready
        busy[machine] += cost
        if load.step:
            begun = max(ready, heapq.heappop(cores[machine]))
            ready = begun + next(steps)
            heapq.heappush(cores[machine], ready)
        waits.append(ready - asked)
        done += ready < seconds
        heapq.heappush(events, (ready + next(pauses), session))
    p50, p99 = np.quantile(waits, [0.5, 0.99])
    return {"rate": done / seconds, "p50": float(p50), "p99": float(p99), "busy": max(busy) / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url, server = process.stdout.readline().split()[2], psutil.Process(process.pid)
    rates = Table("steps per second", "one server, each session about every 2 s", "64 sessions, measured")
    used = Table("share of a processor that the server used", "the same", "64 sessions, measured")
    message = 0.0
    for sessions in (64, 512, 4096):
        pause = 2.0 if sessions < 4096 else 8.0  # as much as one server bears
        began = sum(server.cpu_times()[:2])
        report = single([url], sessions, options.seconds, pause=pause, action="\\boxed{7}")
        cpu = sum(server.cpu_times()[:2]) - began
        message = message or cpu / report.steps
        result = simulate(Load(sessions, 1, pause), message, options.seconds)
        for name, rate, share in (
            ("measured", report.rate, cpu / report.seconds),
            ("simulated", result["rate"], result["busy"]),
        ):
            rates.add(f"{sessions:,} sessions, {name}", rate)
            used.add(f"{sessions:,} sessions, {name}", share)
    process.terminate()
    process.wait(60)
    facts: dict[str, str] = {
        "CPU time of a message, measured at 64 sessions": f"{1e3 * message:.2f} ms",
        "load average of a minute": f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors",
    }
    for load in (
        Load(1_000, 1, 10.0),
        Load(10_000, 10, 10.0),
        Load(100_000, 100, 10.0),
        Load(100_000, 1_000, 1.0),
        Load(100_000, 1_000, 10.0, step=1.0),
        Load(100_000, 1_000, 10.0, step=1.5),
    ):
        result = simulate(load, message, 30.0 if load.pause > 5 else 5.0)
        what = f"{load.sessions:,} sessions, {load.machines:,} machines, pause {load.pause:g} s"
        what += f", steps of {load.step:g} s on {load.cores} cores each" if load.step else ""
        facts[f"simulated: {what}"] = (
            f"{result['rate']:,.0f} steps/s, p50 {1e3 * result['p50']:,.1f} ms, p99 {1e3 * result['p99']:,.1f} ms, "
            f"busiest server {100 * result['busy']:.0f} % of a processor"
        )
    write_results("scale", [rates, used], facts, options.out)


if __name__ == "__main__":
    main()
