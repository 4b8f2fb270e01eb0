"""Load tests of running servers: one message for all sessions, as a trainer sends, or one for each, as many clients do.

rlvr loadtest http://127.0.0.1:8765 --sessions 1000 --single
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rlvr.adapters.fleet.cluster import ClusterVectorEnv
from rlvr.adapters.fleet.members import resolved
from rlvr.adapters.serving.connection import WireConnection
from rlvr.adapters.serving.server_messages import MAX_SECONDS
from rlvr.adapters.serving.web_server import allowed_files

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

CONNECTING = 32  # clients that connect at once
OTHER_FILES = 64  # that this process has open beside its connections
ANSWER_SECONDS = 120.0  # for an answer, before it is a fault


@dataclass(slots=True)
class LoadReport:
    """What came of a load test.

    Attributes:
        messages: how many sessions a message steps.
        sessions: that were open at once.
        seconds: that were measured.
        steps: that were answered.
        episodes: that ended.
        faults: items that failed, or verdicts that are not valid.
        waits: seconds from each message to its answer.
    """

    messages: str
    sessions: int
    seconds: float = 0.0
    steps: int = 0
    episodes: int = 0
    faults: int = 0
    waits: list[float] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Seconds within which this share of the messages was answered."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    @property
    def rate(self) -> float:
        """Steps per second; 0 where nothing was measured."""
        return self.steps / self.seconds if self.seconds else 0.0

    def figures(self) -> dict[str, Any]:
        """The figures by their names."""
        counts = {name: value for name, value in asdict(self).items() if name != "waits"}
        times = {f"p{share}_ms": round(1e3 * self.quantile(share / 100), 3) for share in (50, 99)}
        times["max_ms"] = round(1e3 * max(self.waits, default=float("nan")), 3)
        return {**counts, "seconds": round(self.seconds, 3), "steps_per_second": round(self.rate, 1), **times}

    def __str__(self) -> str:
        times = f"p50 {1e3 * self.quantile(0.5):.1f} ms, p99 {1e3 * self.quantile(0.99):.1f} ms"
        return (
            f"{self.sessions:,} sessions, {self.messages}: {self.rate:,.0f} steps/s, {times}, "
            f"{self.episodes:,} episodes, {self.faults:,} faults in {self.seconds:.1f} s"
        )


def batched(
    urls: Sequence[str],
    sessions: int,
    seconds: float,
    *,
    token: str | None = None,
    env: str | None = None,
    action: str = "",
) -> LoadReport:
    """Step all sessions with a message for each server, again and again.

    Raises:
        ConnectionError, PermissionError, ValueError, RemoteError: as `rlvr.adapters.connect_vector`.
    """
    _check(sessions, seconds)
    report = LoadReport("all of a server in a message", sessions)
    vector = ClusterVectorEnv(list(urls), sessions, token=token, env=env)
    try:
        vector.reset(seed=0)
        actions = [action] * sessions
        over = vector.step(actions)[2]  # not counted: what is made at the first step is made
        began = time.perf_counter()
        while (now := time.perf_counter()) - began < seconds:
            _, _, terminations, truncations, infos = vector.step(actions)
            report.waits.append(time.perf_counter() - now)
            fresh, over = over, terminations | truncations
            report.episodes += int(over.sum())
            report.steps += sessions - int(fresh.sum())
            verdicts = infos.get("verdict", [None] * sessions)
            report.faults += sum(
                bool(v and not v.valid and not begins) for v, begins in zip(verdicts, fresh, strict=True)
            )
        report.seconds = time.perf_counter() - began
    finally:
        vector.close()
    return report


def single(
    urls: Sequence[str],
    sessions: int,
    seconds: float,
    *,
    pause: float = 1.0,
    token: str | None = None,
    env: str | None = None,
    action: str = "",
) -> LoadReport:
    """Step each session by messages of its own, with pauses between them that are drawn at random.

    Args:
        pause: the mean, in seconds; 0 asks again at once.

    Raises:
        ConnectionError, PermissionError, ValueError, RemoteError: as `rlvr.adapters.connect`.
    """
    _check(sessions, seconds)
    if not 0 <= pause <= MAX_SECONDS:
        raise ValueError(f"pause must be seconds from 0, got {pause}")
    servers = []
    for address in urls:
        if not (addresses := resolved(address)):
            raise ConnectionError(f"there is no server at {address.partition('?')[0]}")
        servers += [WireConnection(url, token=token, env=env, ip=ip) for url, ip in addresses]
    for server in servers:  # it has said what a client sends to come in
        server.close()
    allowed_files(sessions + OTHER_FILES)
    report = LoadReport("a message each", sessions)
    asyncio.run(_step_alone(servers, report, seconds, pause, action))
    return report


def _check(sessions: int, seconds: float) -> None:
    if sessions < 1 or not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"there must be 1 session or more, and some seconds; got {sessions}, {seconds}")


async def _step_alone(
    servers: Sequence[WireConnection], report: LoadReport, seconds: float, pause: float, action: str
) -> None:
    clients = [_Client(servers[index % len(servers)], index, report) for index in range(report.sessions)]
    try:
        for first in range(0, len(clients), CONNECTING):
            await asyncio.gather(*(client.begin() for client in clients[first : first + CONNECTING]))
        began = time.perf_counter()
        await asyncio.gather(*(client.play(began + seconds, pause, action) for client in clients))
        report.seconds = time.perf_counter() - began
    finally:
        await asyncio.gather(*(client.end() for client in clients), return_exceptions=True)


class _Client:
    """A session with a connection of its own, which has one request under way at a time."""

    def __init__(self, server: WireConnection, seed: int, report: LoadReport) -> None:
        self._server, self._seed, self._report = server, seed, report
        self._link: ClientConnection | None = None
        self._numbers = itertools.count()
        self._session = ""

    async def begin(self) -> None:
        """Connect, open the session, and reset it."""
        from websockets.asyncio.client import connect as open_socket

        server = self._server
        destination: dict[str, Any] = {} if server.ip is None else {"host": server.ip, "port": server.port}
        try:
            self._link = await open_socket(
                server.address,
                additional_headers=server.headers,
                compression=None,
                max_size=None,
                open_timeout=60,
                proxy=None,
                **destination,
            )
            await self._link.recv()  # the greeting
        except Exception as error:  # the library's own exceptions, and those of a socket
            raise ConnectionError(f"{server.url} takes no more connections: {error}") from error
        answer = await self._ask("open", count=1)
        if "error" in answer:
            sessions = self._report.sessions
            raise ConnectionError(f"{server.url} opens no {sessions} sessions: {answer['error']['message']}")
        (self._session,) = answer["sessions"]
        await self._ask_session("reset", seed=self._seed)

    async def play(self, until: float, pause: float, action: str) -> None:
        """Step the session until the time is up."""
        report, rng = self._report, random.Random(self._seed)
        await asyncio.sleep(rng.uniform(0, pause))
        while (began := time.perf_counter()) < until:
            result = await self._ask_session("step", action=action)
            report.waits.append(time.perf_counter() - began)
            report.steps += "error" not in result
            report.faults += "error" in result
            if "error" in result or result["terminated"] or result["truncated"]:
                report.episodes += "error" not in result
                if "error" in await self._ask_session("reset"):
                    report.faults += 1
                    return
            if pause:
                await asyncio.sleep(min(rng.expovariate(1 / pause), max(0.0, until - time.perf_counter())))

    async def end(self) -> None:
        """Close the session, and the connection."""
        if self._link is not None:
            await self._ask_session("close")
            await self._link.close()

    async def _ask_session(self, op: str, **fields: Any) -> dict[str, Any]:
        answer = await self._ask(op, items=[{"session": self._session, **fields}])
        return answer if "error" in answer else answer["results"][0]

    async def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        assert self._link is not None, "it begins first"
        request = {"id": f"load-{next(self._numbers)}", "op": op, **fields}
        try:
            await self._link.send(json.dumps(request))
            answer: dict[str, Any] = json.loads(await asyncio.wait_for(self._link.recv(), ANSWER_SECONDS))
        except Exception as error:
            return {"error": {"code": "closing", "message": f"no answer: {error}"}}
        return answer
