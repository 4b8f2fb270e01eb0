"""Three servers of which one is killed again and again, and a vector environment that goes on.

    python benchmarks/failover.py [--seconds 300] [--every 10] [--sessions 48] [--out benchmarks/results]

Each server is a process of `rlvr serve`; the one whose turn it is gets SIGKILL, and is started again at once. The
client
checks at every step that none was lost or played twice (the environment counts its turns), that every episode which
began ends once, that a fault is one of the killed server's, and how long it went without an answer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rlvr.adapters import connect_vector

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ENV, NOTHING, TURNS = "rlvr/GuessNumber-v0", "no number", 12
PAUSE = 0.01  # seconds between two steps, so that the servers' starts find a processor


class Server:
    """A process that serves, and can be killed."""

    def __init__(self, sessions: int) -> None:
        self._sessions, self.url = sessions, ""
        self.killed = 0
        self.start()

    def start(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "rlvr", "serve", ENV, "--port", port, "--no-token"]
        command += ["--set", f"max_turns={TURNS}", "--sessions", str(self._sessions)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[2]

    def kill(self) -> None:
        self.killed += 1
        self.process.kill()
        self.process.wait()


class Client:
    """Steps all sessions, and counts what it sees."""

    def __init__(self, servers: list[Server], sessions: int) -> None:
        self.vector: Any = connect_vector([server.url for server in servers], sessions)
        self.count, self.turns, self.over = sessions, [0] * sessions, [False] * sessions
        self.steps = self.ended = self.faults = self.foreign = self.wrong = 0
        self.begun = sessions
        self.gaps: list[float] = []
        self.vector.reset(seed=0)

    def step(self, kills: _Kills, kills_before: dict[str, int], earlier: dict[str, int]) -> None:
        """Step all; both mappings say how often each server was killed before this step, and before the one before."""
        urls = [remote and remote.member.url for remote in self.vector._remotes]
        began = time.perf_counter()
        _, rewards, terminations, truncations, infos = self.vector.step([NOTHING] * self.count)
        self.gaps.append(time.perf_counter() - began)
        for index, info in enumerate(infos.rows):
            if self.over[index]:  # this step began another episode
                self.over[index], self.turns[index] = False, 0
                self.begun += 1
                self.wrong += bool(terminations[index] or truncations[index])
                continue
            if info["verdict"].valid:
                self.steps += 1
                self.turns[index] += 1
                self.wrong += info["turn"] != self.turns[index]
            else:
                self.faults += 1
                url = urls[index]  # None where the session was lost in the last step
                since = kills_before if url else earlier
                self.foreign += all(kills.get(address, 0) == since[address] for address in ([url] if url else since))
                self.wrong += bool(rewards[index])
            self.over[index] = bool(terminations[index] or truncations[index])
            self.ended += self.over[index]
        self.wrong += self.begun - self.ended != self.over.count(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=48)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    servers = [Server(options.sessions) for _ in range(3)]
    client = Client(servers, options.sessions)
    ended = threading.Event()
    late: list[float] = []

    def kill_in_turn() -> None:
        turn, due = 0, time.monotonic() + options.every
        while not ended.wait(max(0.0, due - time.monotonic())):
            servers[turn % 3].kill()
            began = time.monotonic()
            servers[turn % 3].start()
            late.append(time.monotonic() - began)
            turn, due = turn + 1, max(due + options.every, time.monotonic())

    killer = threading.Thread(target=kill_in_turn)
    killer.start()
    kills_before = earlier = {server.url: 0 for server in servers}
    loads = []
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        before = {server.url: server.killed for server in servers}
        client.step(_Kills(servers), kills_before, earlier)
        earlier, kills_before = kills_before, before
        loads.append(os.getloadavg()[0])
        time.sleep(PAUSE)
    ended.set()
    killer.join()
    client.vector.close()
    for server in servers:
        server.kill()
    killed = sum(server.killed for server in servers) - len(servers)
    gaps = Table("seconds from a step of all sessions to its answers", "lower is better", "all steps")
    gaps.rounds["all steps"] = client.gaps
    facts = {
        "servers, sessions": f"3, {options.sessions}",
        "seconds, kills": f"{options.seconds:g}, {killed}",
        "steps": f"{client.steps:,}",
        "episodes that began / ended / were under way at the end": (
            f"{client.begun:,} / {client.ended:,} / {client.begun - client.ended}"
        ),
        "steps lost or doubled, ends without a beginning": client.wrong,
        "faults": client.faults,
        "faults on a server that was not killed": client.foreign,
        "longest time without progress": f"{max(client.gaps):.3f} s",
        "a killed server is back after (median)": f"{sorted(late)[len(late) // 2]:.1f} s",
        "load average of a minute meanwhile": f"{min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} processors",
    }
    gaps.rounds["all steps"] = [round(gap, 5) for gap in sorted(client.gaps)[:: max(1, len(client.gaps) // 200)]]
    gaps.rounds["all steps"].append(round(max(client.gaps), 5))
    write_results("failover", [gaps], facts, options.out)


class _Kills:
    """How often each server was killed, as of now."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = {server.url: server for server in servers}

    def get(self, url: str, default: int) -> int:
        return self._servers[url].killed if url in self._servers else default


if __name__ == "__main__":
    main()
