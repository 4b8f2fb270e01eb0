"""Worlds that run programs, many episodes at once: what is lost, and whether they end as they do one after another.

    python benchmarks/load.py [--ids Terminal RepoRepair] [--episodes 64] [--level 2] [--out benchmarks/results]

The experts play so many tasks of the test split: first one after another, then all at once, a thread each. Lost is an
episode that is invalid, as after a timeout or a fault of the environment; changed is one of which an observation or
the verdict differs from that of the quiet run. The exit status is 1 if one is lost, changed or not solved.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from rlvr.agents.episode import Episode
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.sampling.collect import TaskOrder

RESULTS = Path(__file__).parent / "results"
IDS = ("Terminal", "RepoRepair")
EVERY = 0.2  # seconds between two looks at the processes
COLUMNS = ("episodes", "at_once", "turns", "lost", "changed", "solved", "seconds", "most_processes", "most_mib")


class Watch(threading.Thread):
    """The most processes below this one, and the most memory of all of them, shared pages counted once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.processes, self.mib = 0, 0.0

    def run(self) -> None:
        me = psutil.Process()
        while not self.ended.wait(EVERY):
            below, total = me.children(recursive=True), 0
            for process in (me, *below):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:  # it has ended
                    continue
            self.processes, self.mib = max(self.processes, len(below)), max(self.mib, total / 2**20)


def play(env_id: str, level: int, count: int, at_once: int) -> tuple[list[Episode], dict[str, Any]]:
    """The expert's episodes on the first tasks, and what they took."""
    settings = {"split": "test", "level": level}
    rollout = Rollout(env_id, ExpertAgent(), batch_size=at_once, workers=at_once, env_settings=settings)
    order = TaskOrder(rollout.env.unwrapped, "evaluation", 0)
    watch, started = Watch(), time.perf_counter()
    watch.start()
    episodes = rollout([order.request(i, level=level, group=i, salt="evaluation") for i in range(count)])
    seconds = round(time.perf_counter() - started, 1)
    watch.ended.set()
    watch.join()
    return episodes, {"seconds": seconds, "most_processes": watch.processes, "most_mib": round(watch.mib)}


def course(episode: Episode) -> list[Any]:
    """What the policy was shown and what was decided."""
    verdict = episode.verdict
    return [[turn.observation for turn in episode.turns], verdict and (verdict.status, verdict.reward)]


def measure(name: str, level: int, count: int) -> list[dict[str, Any]]:
    quiet: list[Episode] = []
    rows = []
    for at_once in (1, count):
        episodes, took = play(f"rlvr/{name}-v0", level, count, at_once)
        quiet = quiet or episodes
        changed = sum(course(one) != course(other) for one, other in zip(quiet, episodes, strict=True))
        row = {"id": name, "level": level, "episodes": count, "at_once": at_once}
        row |= {"turns": sum(len(episode.turns) for episode in episodes), "changed": changed}
        row |= {"lost": sum(not episode.valid for episode in episodes)}
        rows.append(row | {"solved": sum(episode.reward == 1 for episode in episodes), **took})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def page(record: dict[str, Any]) -> str:
    lines = [
        f"# load\n\n`{record['command']}` ({record['machine']})\n",
        "Lost: invalid episodes. Changed: other observations or another verdict than one after another. Memory: of",
        "this process and all below it, shared pages counted once.\n",
        f"| world | level | {' | '.join(name.replace('_', ' ').replace('mib', 'MiB') for name in COLUMNS)} |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for row in record["rows"]:
        lines.append(f"| {row['id']} | {row['level']} | {' | '.join(str(row[name]) for name in COLUMNS)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", nargs="+", default=list(IDS), help="names of ids")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = [row for name in options.ids for row in measure(name, options.level, options.episodes)]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": " ".join(["python benchmarks/load.py", *sys.argv[1:]]), "machine": machine, "rows": rows}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "load.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / "load.md").write_text(page(record), encoding="utf-8")
    return int(any(row["lost"] or row["changed"] or row["solved"] < row["episodes"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
