"""What one server bears: sessions open at once and their memory, steps in batches, and latency of steps one by one.

    python benchmarks/sessions.py [--seconds 15] [--out benchmarks/results]

`rlvr serve` in a process of its own, GuessNumber, measured by what `rlvr loadtest` runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from rlvr.adapters.fleet.loadtest import LoadReport, batched, single

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

COMMAND = [sys.executable, "-m", "rlvr", "serve", "rlvr/GuessNumber-v0", "--port", "0", "--no-token"]
SETTINGS = ["--set", "max_turns=1000000", "--level", "5", "--sessions", "4200"]
ACTION = "\\boxed{7}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    process = subprocess.Popen([*COMMAND, *SETTINGS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url, server = process.stdout.readline().split()[2], psutil.Process(process.pid)
    base = "64 sessions, all in a message"
    rate, wait = Table("steps per second", "by wall clock", base), Table("milliseconds to an answer, p99", "", base)
    cpu = Table("steps per CPU-second of the server", "higher is better", base)
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            peak[0] = max(peak[0], server.memory_info().rss / 1e6)

    threading.Thread(target=watch, daemon=True).start()
    facts: dict[str, object] = {"memory of the server before, MB": f"{server.memory_info().rss / 1e6:.0f}"}

    def measure(name: str, report: LoadReport, used: float) -> None:
        rate.add(name, report.rate)
        wait.add(name, 1e3 * report.quantile(0.99))
        cpu.add(name, report.steps / used)
        facts[f"{name}: p50, faults"] = f"{1e3 * report.quantile(0.5):.1f} ms, {report.faults}"

    for sessions in (64, 512, 4096):
        began = sum(server.cpu_times()[:2])
        report = batched([url], sessions, options.seconds, action=ACTION)
        measure(f"{sessions:,} sessions, all in a message", report, sum(server.cpu_times()[:2]) - began)
        facts[f"memory of the server with {sessions:,} sessions open (most), MB"] = f"{peak[0]:.0f}"
    for sessions in (64, 1000):
        began = sum(server.cpu_times()[:2])
        report = single([url], sessions, options.seconds, pause=1.0, action=ACTION)
        measure(f"{sessions:,} sessions, a message each, a step a second", report, sum(server.cpu_times()[:2]) - began)
    ended.set()
    process.terminate()
    process.wait(60)
    facts["load average of a minute"] = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    write_results("sessions", [rate, cpu, wait], facts, options.out)


if __name__ == "__main__":
    main()
