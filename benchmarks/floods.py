"""What hostile clients of `rlvr serve` cost an honest one: its steps beside each flood, and beside none, in turn.

    python benchmarks/floods.py [--rounds 2] [--seconds 4] [--only NAME,NAME] [--out benchmarks/results]

The server, the floods and the honest client are processes of their own on the loopback. The honest client steps one
session of GuessNumber, and now and then a newcomer connects. Measured: the seconds of a step and of a newcomer's first
reset, the most memory and descriptors of the server, and the bytes of its log. "Nobody beside it" is the slowest of
its runs of a round, of which there is one before each flood.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import os
import re
import resource
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import gymnasium as gym
import psutil

from rlvr.adapters import connect
from rlvr.adapters.serving.connect import RemoteError
from rlvr.envs.core.spaces import Text

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

GUESS, HEAVY = "rlvr/GuessNumber-v0", "floods/Heavy-v0"
TOKEN = "a token of the benchmark".replace(" ", "-")
QUIET = "nobody beside it"
LARGE = 2 << 20  # characters of a large observation, of six bytes each in a message


class Heavy(gym.Env[str, str]):
    """Steps that compute for a second of Python, and steps whose observation is large."""

    observation_space, action_space = Text(LARGE), Text(LARGE)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "go", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        until = time.monotonic() + 1.0
        while action == "compute" and time.monotonic() < until:
            re.sub("a", "b", "a" * 200)
        return "é" * LARGE if action == "large" else "go", 0.0, False, False, {}


def serve() -> None:
    """The server's process."""
    from rlvr.adapters.serving.serve import EnvServer

    gym.register(HEAVY, Heavy)
    server = EnvServer([GUESS, HEAVY], {}, limit=64, token=TOKEN, drain=0)
    print(server.port, flush=True)
    server.run()


# what floods are made of


def frame(opcode: int, data: bytes = b"", end: bool = True) -> bytes:
    """A frame of a client; its mask is zero."""
    size = len(data)
    head = bytes([opcode | (0x80 if end else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += b"\xfe" + size.to_bytes(2, "big")
    else:
        head += b"\xff" + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + data


TEXT, BINARY, MORE, PING, PONG = 1, 2, 0, 9, 10


def request(op: str, number: int = 0, **fields: Any) -> bytes:
    return frame(TEXT, json.dumps({"id": f"{op}{number}", "op": op, **fields}).encode())


class Attacker:
    """Sockets of one flood, until its time is up."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.until = port, time.monotonic() + seconds
        self._open: list[socket.socket] = []

    def going(self) -> bool:
        return time.monotonic() < self.until

    def link(self, data: bytes = b"", *, reads: bool = True) -> socket.socket | None:
        """A connection that has sent this; None where the server took it not."""
        try:
            link = socket.create_connection(("127.0.0.1", self.port), timeout=2)
            link.sendall(data)
        except OSError:
            return None
        self._open.append(link)
        if reads:
            threading.Thread(target=self._drain, args=(link,), daemon=True).start()
        return link

    def upgraded(self, *, token: str = TOKEN, env: str = GUESS, reads: bool = True) -> socket.socket | None:
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        lines = [f"GET /v1/ws?env={env} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: Upgrade"]
        lines += ["Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        return self.link("\r\n".join([*lines, "", ""]).encode(), reads=reads)

    def flood(self, data: bytes, *, links: int = 1, reads: bool = True, upgrade: bool = True) -> None:
        """Send the same again and again; whoever is cut off comes back."""

        def pour() -> None:
            while self.going():
                link = self.upgraded(reads=reads) if upgrade else self.link(reads=reads)
                with suppress(OSError):
                    while link is not None and self.going():
                        link.sendall(data)
                if link is not None:
                    link.close()
                else:
                    time.sleep(0.05)

        threads = [threading.Thread(target=pour, daemon=True) for _ in range(links)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.until + 1 - time.monotonic()))

    def hold(self, count: int, data: bytes, drip: bytes = b"") -> None:
        """Keep connections that have sent this, and send a byte more each second."""
        links = [self.link(data, reads=False) for _ in range(count)]
        for index in range(10**6):
            if not self.going():
                return
            time.sleep(1)
            for link in links if drip else ():
                with suppress(OSError):
                    link is not None and link.send(drip[index % len(drip) :][:1])

    def ask(self, op: str, **fields: Any) -> Any:
        """One request by HTTP."""
        import urllib.request

        data = json.dumps({"id": secrets.token_hex(8), "op": op, **fields}).encode()
        head = {"Authorization": f"Bearer {TOKEN}"}
        address = f"http://127.0.0.1:{self.port}/v1?env={HEAVY}"
        with urllib.request.urlopen(urllib.request.Request(address, data, head), timeout=30) as answer:
            return json.load(answer)

    def heavy(self, count: int) -> list[dict[str, Any]]:
        """Sessions of the heavy environment, by items."""
        items = [{"session": name} for name in self.ask("open", count=count)["sessions"]]
        self.ask("reset", items=items)
        return items

    def _drain(self, link: socket.socket) -> None:
        with suppress(OSError):
            link.settimeout(None)
            while link.recv(1 << 16):
                pass


def steps(attacker: Attacker, action: str, count: int) -> None:
    """Step sessions of the heavy environment, all in a message, again and again."""
    items = [{**item, "action": action} for item in attacker.heavy(count)]
    while attacker.going():
        with suppress(OSError):
            attacker.ask("step", items=items)
    with suppress(OSError):
        attacker.ask("close", items=[{"session": item["session"]} for item in items])


def large_answers(attacker: Attacker) -> None:
    """One large answer, asked for again and again: the same request is answered, not played."""
    (item,) = attacker.heavy(1)
    while attacker.going():
        link = attacker.upgraded(env=HEAVY)
        again = request("step", items=[{**item, "action": "large"}])
        with suppress(OSError):
            while link is not None and attacker.going():
                link.sendall(again)
                time.sleep(0.002)
    with suppress(OSError):
        attacker.ask("close", items=[item])


def upgrades(attacker: Attacker, token: str) -> None:
    """Connect and go, again and again."""

    def loop() -> None:
        while attacker.going():
            link = attacker.upgraded(token=token, reads=False)
            with suppress(OSError):
                if link is not None:
                    link.recv(1 << 12)
                    link.close()

    threads = [threading.Thread(target=loop, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def post(body: bytes, token: str = TOKEN) -> bytes:
    lines = ["POST /v1?env=rlvr/GuessNumber-v0 HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, f"Authorization: Bearer {token}", "", ""]).encode() + body


HEAD = b"GET /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
ESCAPES = b'{"id": "large", "op": "ping", "x": "' + b'\\"' * 2_000_000 + b",:" * 70_000 + b'"}'
FLOODS: dict[str, Callable[[Attacker], object]] = {
    QUIET: lambda a: time.sleep(max(0.0, a.until - time.monotonic())),
    # without a token
    "400 idle connections": lambda a: a.hold(400, b""),
    "2,000 idle connections": lambda a: a.hold(2000, b""),
    "400 heads, a byte a second": lambda a: a.hold(400, HEAD + b"X-A: ", b"a"),
    "TLS": lambda a: a.flood(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 64, links=8, upgrade=False),
    "headers without end": lambda a: a.flood(HEAD + b"X-A: " + b"a" * 65_536, links=8, upgrade=False),
    "upgrades without a token": lambda a: upgrades(a, ""),
    "answers that nobody reads": lambda a: a.flood(HEALTH * 500, links=8, upgrade=False, reads=False),
    "posts without a token": lambda a: a.flood(post(b"{", "wrong") * 100, links=8, upgrade=False),
    # with a token
    "texts that are no JSON": lambda a: a.flood(frame(TEXT, b"{") * 4_000),
    "empty frames": lambda a: a.flood(frame(TEXT) * 10_000),
    "no UTF-8": lambda a: a.flood(frame(TEXT, b"\xff\xfe") * 1_000),
    "binary frames": lambda a: a.flood(frame(BINARY, b"\xff\xfe") * 8_000),
    "fragments": lambda a: a.flood(frame(TEXT, b"{", False) + frame(MORE, b"", False) * 10_000),
    "pings": lambda a: a.flood(frame(PING) * 10_000),
    "pings of 8 connections": lambda a: a.flood(frame(PING) * 10_000, links=8),
    "pings, pongs not read": lambda a: a.flood(frame(PING, b"x" * 125) * 1_000, reads=False),
    "pongs": lambda a: a.flood(frame(PONG) * 10_000),
    "requests": lambda a: a.flood(request("ping") * 1_000),
    "requests of 8 connections": lambda a: a.flood(request("ping") * 1_000, links=8),
    "requests, answers not read": lambda a: a.flood(request("ping") * 1_000, reads=False),
    "sessions opened and left": lambda a: a.flood(request("open") * 100),
    "messages of 4 MB of escapes": lambda a: a.flood(frame(TEXT, ESCAPES)),
    "answers of 12 MB, again": large_answers,
    "a session that computes": lambda a: steps(a, "compute", 1),
    "32 sessions that compute": lambda a: steps(a, "compute", 32),
    "connections opened and closed": lambda a: upgrades(a, TOKEN),
    "posts that are no JSON": lambda a: a.flood(post(b"{") * 100, upgrade=False),
}


def attack(name: str, port: int, seconds: float) -> None:
    FLOODS[name](Attacker(port, seconds))
    os._exit(0)  # its threads, too


# the honest client and what is measured


class Server:
    """The server's process and its log."""

    def __init__(self, log: IO[bytes]) -> None:
        argv = [sys.executable, __file__, "--serve"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.process = psutil.Process(self._process.pid)
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


def newcomers(server: Server, ended: threading.Event, took: list[float]) -> None:
    """Connect, reset, go: twice a second."""
    while not ended.wait(0.5):
        began = time.perf_counter()
        try:
            with connect(server.url, token=TOKEN, env=GUESS) as env:
                env.reset(seed=1)
        except (ConnectionError, RemoteError):  # every session is another's
            took.append(float("nan"))
        else:
            took.append(time.perf_counter() - began)


def beside(server: Server, name: str, seconds: float, log: Path) -> dict[str, Any]:
    """An honest client's steps beside a flood."""
    size, ended, met, waits = log.stat().st_size, threading.Event(), list[float](), list[float]()
    lost, memory, files = 0, 0, 0
    flood = multiprocessing.get_context("spawn").Process(target=attack, args=(name, server.port, seconds + 1.5))
    with connect(server.url, token=TOKEN, env=GUESS, timeout=60) as env:
        env.reset(seed=0)
        flood.start()
        time.sleep(1.5)  # an interpreter's start
        thread = threading.Thread(target=newcomers, args=(server, ended, met))
        thread.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            ends: Any = (None, None, True, True)
            try:
                ends = env.step("\\boxed{7}")
            except ConnectionError:
                lost += 1
            waits.append(time.perf_counter() - began)
            if ends[2] or ends[3]:
                env.reset(seed=0)
            memory = max(memory, server.process.memory_info().rss)
            files = max(files, server.process.num_fds())
            time.sleep(0.005)
        ended.set()
        thread.join()
    flood.join(10)
    flood.kill()
    time.sleep(0.5)
    met, away = [took for took in met if took == took], sum(took != took for took in met)
    points = statistics.quantiles([*waits, *waits], n=100, method="inclusive")
    return {
        "p50": points[49], "p99": points[98], "max": max(waits), "newcomer": max(met, default=seconds),
        "turned away": away, "lost": lost,
        "steps": len(waits), "MB": memory / 1e6, "files": files, "files after": server.process.num_fds(),
        "log": log.stat().st_size - size,
    }  # fmt: skip


def turns(names: list[str], rounds: int) -> Iterator[str]:
    """Each flood, and before each the same without one."""
    for _ in range(rounds):
        for name in names:
            yield QUIET
            yield name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.serve:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))  # what many systems allow
        serve()
        return
    names = options.only.split("|") if options.only else [name for name in FLOODS if name != QUIET]
    tables = {
        key: Table(f"seconds of an honest step, {key}", "lower is better", QUIET) for key in ("p50", "p99", "max")
    }
    tables["newcomer"] = Table("seconds of a newcomer's connection and first reset, the slowest", "", QUIET)
    worst: dict[str, dict[str, Any]] = {}
    rows: list[tuple[str, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            server = Server(file)
            for name in turns(names, options.rounds):
                row = beside(server, name, options.seconds, log)
                print(time.strftime("%H:%M:%S"), name, {k: round(v, 4) for k, v in row.items()}, flush=True)
                rows.append((name, row))
                before = worst.setdefault(name, dict.fromkeys(row, 0))
                worst[name] = {key: max(value, before[key]) for key, value in row.items()}
            server.close()
    for first in range(0, len(rows), 2 * len(names)):  # a round; the slowest of its runs without a flood
        for key, table in tables.items():
            table.add(QUIET, max(row[key] for name, row in rows[first : first + 2 * len(names)] if name == QUIET))
            for name, row in rows[first : first + 2 * len(names)]:
                if name != QUIET:
                    table.add(name, row[key])
    facts: dict[str, Any] = {
        f"{name}: most memory, most files, files afterwards, bytes of log, steps lost": (
            f"{row['MB']:.0f} MB, {row['files']}, {row['files after']}, {row['log']:,}, {row['lost']}"
        )
        for name, row in worst.items()
    }
    facts["load average of a minute"] = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    write_results("floods", list(tables.values()), facts, options.out)


if __name__ == "__main__":
    main()
