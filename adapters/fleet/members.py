"""The servers behind a vector environment: which are there, who is brought back, and where a session is opened."""

from __future__ import annotations

import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from rlvr.adapters.serving.connection import RemoteError, WireConnection
from rlvr.adapters.serving.server_messages import Greeting, differs

DNS = "dns+"  # before http:// or https://: every address of the name is a server
REACH_SECONDS = 5.0  # for a connection to be made
HEARTBEAT = 5.0  # seconds between pings, and for the pong: a machine that vanished is noticed within twice as long
LOOKUP_SECONDS = 2.0  # between two lookups of a name
RETRY_SECONDS = 0.2  # between two tries to reach a server that is away, doubled up to
RETRY_MOST = 5.0
HAS_NO_PLACE = ("full", "overloaded")  # codes of a server that opens no session now
SHUT_SECONDS = 1.0  # for which a server that is full or drains is passed over
log = logging.getLogger("rlvr.serve")
Connect = Callable[[str, str | None], WireConnection]


@dataclass(slots=True, eq=False)
class Member:
    """One server.

    Attributes:
        url: its address, and ``ip``, the one of several addresses behind a name.
        connection: None while it is away.
        sessions: how many this client has there.
        shut: until when it takes no session.
        retry, pause: when it is tried again, and how long after that.
        reason: why it is away.
    """

    url: str
    ip: str | None = None
    connection: WireConnection | None = None
    sessions: int = 0
    shut: float = 0.0
    retry: float = 0.0
    pause: float = RETRY_SECONDS
    reason: str = "it was not tried yet"

    @property
    def shown(self) -> str:
        """Its address without a token."""
        return self.url.partition("?")[0]

    def load(self, more: int = 0) -> float:
        """Sessions of this client for each that was free when the connection was made."""
        free = self.connection.greeting.free if self.connection is not None else 0
        return (self.sessions + more) / max(free, 1)


@dataclass(eq=False)
class Members:
    """All servers of a vector environment.

    Args:
        addresses: of the servers; ``dns+http://name:port`` stands for every address of the name, which is looked up
            again and again: a server that is away, and that the name does not lead to any more, is forgotten.
        connect: makes a connection to an address.

    Raises:
        ConnectionError, RemoteError: none of them can be reached; what the first one answered.
        PermissionError, ValueError: one does not let us in, or serves something else than the first.
    """

    addresses: Sequence[str]
    connect: Connect
    all: list[Member] = field(default_factory=list)
    greeting: Greeting | None = None
    returned: bool = False  # whether a server came back, or came, since `settled`
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False
    _looked: float = 0.0  # when the names were looked up last
    _pool: ThreadPoolExecutor | None = None

    def __post_init__(self) -> None:
        if not self.addresses:
            raise ValueError("there must be one address at least")
        self._resolve()
        self._pool = ThreadPoolExecutor(max(4, 2 * len(self.all)), "rlvr-fleet")
        errors = self.each([(member, partial(self._reach, member)) for member in self.all])
        wrong = [error for error in errors.values() if isinstance(error, ValueError | PermissionError)]
        if wrong or not self.up():  # a server that is away may come back; one that serves something else will not do
            self.close()
            reasons = wrong or [error for error in errors.values() if error is not None]
            tried = ", ".join(address.partition("?")[0] for address in self.addresses)
            raise next(iter(reasons), ConnectionError(f"there is no server at {tried}"))
        self.returned = False
        threading.Thread(target=_mend, args=(weakref.ref(self),), name="rlvr-fleet-mend", daemon=True).start()

    def up(self) -> list[Member]:
        """The servers that are connected."""
        return [member for member in self.all if member.connection is not None]

    def open_to(self, now: float) -> list[Member]:
        """Those that may take sessions, the least loaded first."""
        return sorted((member for member in self.up() if member.shut <= now), key=Member.load)

    def wait(self, seconds: float) -> None:
        """Wait until a server comes back, ``seconds`` at most."""
        with self._changed:
            self._changed.wait(seconds)

    def each(self, jobs: Sequence[tuple[Member, Callable[[], Any]]]) -> dict[int, Any]:
        """What the jobs return or raise, by their index; those of different servers at the same time."""
        if len(jobs) == 1:
            return {0: _result(jobs[0][1])}
        assert self._pool is not None, "made at the beginning"
        futures = [self._pool.submit(_result, job) for _, job in jobs]
        return {index: future.result() for index, future in enumerate(futures)}

    def lose(self, member: Member, reason: str) -> None:
        """A server is gone, for now."""
        connection, member.connection = member.connection, None
        member.reason, member.retry, member.sessions = reason, time.monotonic() + member.pause, 0
        log.warning("the server at %s is away: %s", member.shown, reason)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections, and end the threads."""
        self._closed = True
        for member in self.all:
            if member.connection is not None:
                member.connection.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # reaching them

    def _resolve(self) -> None:
        self._looked = time.monotonic()
        servers = {(member.url, member.ip) for member in self.all}
        for address in self.addresses:
            addresses = resolved(address)
            for url, ip in addresses:
                if (url, ip) not in servers:
                    servers.add((url, ip))
                    self.all.append(Member(url, ip))
            if addresses and address.startswith(DNS):
                self.all = [member for member in self.all if not _left(member, addresses)]

    def _reach(self, member: Member) -> None:
        try:
            connection = self.connect(member.url, member.ip)
        except Exception as error:
            member.reason, member.retry = str(error), time.monotonic() + member.pause
            member.pause = min(2 * member.pause, RETRY_MOST)
            raise
        with self._changed:
            if self.greeting is None:
                self.greeting = connection.greeting
            if self._closed or (wrong := differs(self.greeting, connection.greeting)):
                connection.close()
                member.retry = time.monotonic() + RETRY_MOST
                member.reason = "closed" if self._closed else f"it serves something else: {wrong}"
                if not self._closed:
                    log.error("the server at %s is not used: %s", member.shown, member.reason)
                raise ValueError(f"{member.shown}: {member.reason}")
            member.connection, member.pause, member.shut = connection, RETRY_SECONDS, 0.0
            self.returned = True
            self._changed.notify_all()

    def mend(self) -> bool:
        """Try those that are away and whose time has come; whether to go on."""
        if self._closed:
            return False
        names = any(address.startswith(DNS) for address in self.addresses)
        if names and time.monotonic() - self._looked >= LOOKUP_SECONDS:
            self._resolve()
        for member in self.all:
            if member.connection is None and member.retry <= time.monotonic() and not self._closed:
                try:
                    self._reach(member)
                except Exception as error:
                    log.debug("the server at %s is still away: %s", member.shown, error)
        return not self._closed


def _mend(members: weakref.ref[Members]) -> None:
    """Bring servers back until nobody needs them any more."""
    while (here := members()) is not None and here.mend():
        del here
        time.sleep(RETRY_SECONDS)


def _result(job: Callable[[], Any]) -> Any:
    try:
        return job()
    except Exception as error:
        return error


def _left(member: Member, addresses: Sequence[tuple[str, str | None]]) -> bool:
    """Whether a server is away for good: its name leads elsewhere."""
    same_name = member.ip is not None and member.url == addresses[0][0]
    return same_name and member.connection is None and (member.url, member.ip) not in addresses


def resolved(address: str) -> list[tuple[str, str | None]]:
    """The servers behind an address, and the IP address of each where a name has several."""
    if not address.startswith(DNS):
        return [(address, None)]
    url = address.removeprefix(DNS)
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"an address of servers is dns+http://name:port, got {address.partition('?')[0]!r:.200}")
    try:
        entries = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except OSError as error:
        log.warning("%s has no address now: %s", parts.hostname, error)
        return []
    return [(url, ip) for ip in dict.fromkeys(str(entry[4][0]) for entry in entries)]


def opened(connection: WireConnection, count: int) -> list[str]:
    """Open up to ``count`` sessions, as many as the server has free; none when it is full or drains."""
    names: list[str] = []
    while count:
        part = min(count, connection.greeting.items)
        try:
            names += connection.open(part)
            count -= part
        except RemoteError as refused:
            if refused.code not in HAS_NO_PLACE:
                raise
            count = part // 2
    return names
