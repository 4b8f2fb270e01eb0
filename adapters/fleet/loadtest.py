"""A load test of servers that run: what they bear, as a trainer (a message for all) or as many clients (one for each).

rlvr loadtest http://127.0.0.1:8765 --sessions 1000 --single
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rlvr.adapters.fleet.cluster import ClusterVectorEnv
from rlvr.adapters.fleet.members import resolved
from rlvr.adapters.serving.answers import MAX_SECONDS
from rlvr.adapters.serving.connection import WireConnection
from rlvr.adapters.serving.wire import MAX_ITEMS

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

TOGETHER = 20  # sessions of one connection, where each step is a message: a server takes 32 requests of one at once
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
        """Steps per second."""
        return self.steps / self.seconds if self.seconds else 0.0

    def figures(self) -> dict[str, Any]:
        """The figures by their names."""
        found = {name: value for name, value in asdict(self).items() if name != "waits"}
        times = {f"p{share}_ms": round(1e3 * self.quantile(share / 100), 3) for share in (50, 99)}
        times["max_ms"] = round(1e3 * max(self.waits, default=float("nan")), 3)
        return {**found, "seconds": round(self.seconds, 3), "steps_per_second": round(self.rate, 1), **times}

    def to_json(self) -> str:
        """The figures on one line."""
        return json.dumps(self.figures())

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
    restore: bool = False,
) -> LoadReport:
    """Step all sessions with a message for each server, again and again.

    Raises:
        ConnectionError, PermissionError, ValueError, RemoteError: as `rlvr.adapters.connect_vector`.
    """
    _check(sessions, seconds)
    report = LoadReport("all of a server in a message", sessions)
    vector = ClusterVectorEnv(list(urls), sessions, token=token, env=env, restore=restore)
    try:
        vector.reset(seed=0)
        actions = [action] * sessions
        over = vector.step(actions)[2]  # not counted: what is made at the first step is made
        began = time.perf_counter()
        while (now := time.perf_counter()) - began < seconds:
            _, _, terminations, truncations, given = vector.step(actions)
            infos: Any = given
            report.waits.append(time.perf_counter() - now)
            fresh, over = over, terminations | truncations
            report.episodes += int(over.sum())
            report.steps += sessions - int(fresh.sum())
            if "verdict" in infos:
                rows = zip(infos.rows, fresh, strict=True)
                report.faults += sum(not new and not row["verdict"].valid for row, new in rows if row.get("verdict"))
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
    known = []
    for address in urls:
        found = resolved(address)
        known += [WireConnection(url, token, None, None, env, ip=ip) for url, ip in found]
        if not found:
            raise ConnectionError(f"there is no server at {address.partition('?')[0]}")
    for connection in known:
        connection.close()
    report = LoadReport("a message each", sessions)
    asyncio.run(_single(known, report, seconds, pause, action))
    return report


def _check(sessions: int, seconds: float) -> None:
    if sessions < 1 or not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"there must be 1 session or more, and some seconds; got {sessions}, {seconds}")


async def _single(
    known: Sequence[WireConnection], report: LoadReport, seconds: float, pause: float, action: str
) -> None:
    groups = [min(TOGETHER, report.sessions - first) for first in range(0, report.sessions, TOGETHER)]
    clients = [_Client(known[index % len(known)], count, report) for index, count in enumerate(groups)]
    try:
        for first in range(0, len(clients), 32):  # a server listens for so many at once
            await asyncio.gather(*(client.begin() for client in clients[first : first + 32]))
        began = time.perf_counter()
        players = [client.play(name, began + seconds, pause, action) for client in clients for name in client.names]
        await asyncio.gather(*players)
        report.seconds = time.perf_counter() - began
    finally:
        await asyncio.gather(*(client.end() for client in clients), return_exceptions=True)


class _Client:
    """One connection, and its sessions."""

    def __init__(self, known: WireConnection, count: int, report: LoadReport) -> None:
        self._known, self._count, self._report = known, min(count, MAX_ITEMS), report
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._link: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._number = 0
        self.names: list[str] = []

    async def begin(self) -> None:
        """Connect, open the sessions, and reset them."""
        from websockets.asyncio.client import connect as open_socket

        known = self._known
        there: dict[str, Any] = {}
        if known.ip is not None:
            there = {"host": known.ip, "port": known.port}
        try:
            self._link = await open_socket(
                known.address,
                additional_headers=known.headers,
                compression=None,
                max_size=None,
                open_timeout=60,
                proxy=None,
                **there,
            )
            await self._link.recv()  # the greeting
        except Exception as error:  # the library's own exceptions, and those of a socket
            raise ConnectionError(f"{known.url} takes no more connections: {error}") from error
        self._reading = asyncio.create_task(self._read())
        answer = await self._ask("open", count=self._count)
        if "error" in answer:
            raise ConnectionError(f"{self._known.url} opens no {self._count} sessions: {answer['error']['message']}")
        self.names = answer["sessions"]
        items = [{"session": name, "seed": index} for index, name in enumerate(self.names)]
        await self._ask("reset", items=items)

    async def play(self, name: str, until: float, pause: float, action: str) -> None:
        """Step a session until the time is up."""
        report, rng = self._report, random.Random(name)
        await asyncio.sleep(rng.uniform(0, pause))
        while (began := time.perf_counter()) < until:
            result = await self._result("step", {"session": name, "action": action})
            report.waits.append(time.perf_counter() - began)
            report.steps += "error" not in result
            report.faults += "error" in result
            if "error" in result or result["terminated"] or result["truncated"]:
                report.episodes += "error" not in result
                again = await self._result("reset", {"session": name})
                report.faults += "error" in again
                if "error" in again:
                    return
            if pause:
                await asyncio.sleep(min(rng.expovariate(1 / pause), max(0.0, until - time.perf_counter())))

    async def end(self) -> None:
        """Close the sessions, and the connection."""
        with suppress(Exception):
            await self._ask("close", items=[{"session": name} for name in self.names])
        if self._reading is not None:
            self._reading.cancel()
        if self._link is not None:
            await self._link.close()

    async def _result(self, op: str, item: dict[str, Any]) -> dict[str, Any]:
        answer = await self._ask(op, items=[item])
        return answer if "error" in answer else answer["results"][0]

    async def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        assert self._link is not None, "it begins first"
        self._number += 1
        name = f"load-{self._number}"
        self._waiting[name] = future = asyncio.get_running_loop().create_future()
        try:
            await self._link.send(json.dumps({"id": name, "op": op, **fields}))
            return await asyncio.wait_for(future, ANSWER_SECONDS)
        except Exception as error:
            return {"error": {"code": "closing", "message": f"no answer: {error}"}}
        finally:
            self._waiting.pop(name, None)

    async def _read(self) -> None:
        assert self._link is not None, "it begins first"
        try:
            async for data in self._link:
                answer = json.loads(data)
                if (future := self._waiting.get(answer.get("id"))) is not None and not future.done():
                    future.set_result(answer)
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the connection was lost"))
