"""`rlvr serve`: an environment behind WebSocket and HTTP, for `rlvr.adapters.connect` or any client of the wire.

    rlvr serve rlvr/GuessNumber-v0 --set max_turns=20

docs/serve.md describes the messages (`rlvr.adapters.serving.wire`) and what is promised about them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Dict

from rlvr.adapters.fleet.metrics import CONTENT_TYPE, exposition
from rlvr.adapters.serving.guard import bears_key, is_loopback, limited_log, wrong_host, wrong_origin
from rlvr.adapters.serving.server_messages import MAX_SECONDS
from rlvr.adapters.serving.sessions import SessionTable
from rlvr.adapters.serving.web_server import (
    PATIENCE,
    WAITING,
    Client,
    WebServer,
    allowed_files,
    require_serving,
    web_server,
)
from rlvr.adapters.serving.wire import (
    CODES,
    MAX_FRAME,
    MAX_ITEMS,
    MAX_UNDER_WAY,
    PATH,
    SOCKET_PATH,
    VERSION,
    ProtocolError,
    WireRequest,
    answer_length,
    fitting,
    id_of,
    parse_request,
    read_json,
)
from rlvr.envs.core.images import text_space

if TYPE_CHECKING:
    from types import FrameType

    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection
    from starlette.requests import Request as HTTPRequest
    from starlette.responses import Response
    from starlette.websockets import WebSocket

MIN_TOKEN = 16  # characters
SMALL = 1 << 16  # bytes of a message that is read in the event loop
MAX_HELD = 64 << 20  # bytes of the larger messages that are read or answered at once
SWITCH_SECONDS = 0.0005  # that a step which computes holds Python's lock while others, and the event loop, want it
LEAST_WAITING = 16  # connections that have not said what they ask for, where few files may be open
OTHER_FILES = 256  # that a server has open beside its connections
DRAIN_SECONDS = 30.0  # that running episodes have after SIGTERM
log = limited_log("rlvr.serve")
Endpoint = Callable[["HTTPRequest"], Awaitable["Response"]]


class ServerApp:
    """What the network sees: who may come in, and how messages arrive and leave.

    Args:
        sessions: what is served: one table, or several by the ids of their environments.
        token: what every request must bear, or "" for none.
        max_connections: WebSockets at once.
        hosts: names of the server in ``Host``, beside those of the loopback.

    Attributes:
        tables: what is served, by the ids of the environments.
        sessions: the first of them.
        draining: whether no session and no episode begins any more.
        max_connections: WebSockets at once.
    """

    def __init__(
        self,
        sessions: SessionTable | Mapping[str, SessionTable],
        token: str,
        max_connections: int,
        hosts: Collection[str] = (),
    ) -> None:
        self.tables = dict(sessions) if isinstance(sessions, Mapping) else {sessions.env_id: sessions}
        self.sessions = next(iter(self.tables.values()))
        self.draining = False
        self.loop: asyncio.AbstractEventLoop | None = None  # while it serves
        self._hosts = frozenset(hosts)
        self._held = 0
        self._threads = ThreadPoolExecutor(2, "rlvr-serve-json")  # large messages, away from the event loop
        self._poster = Client()  # all who come by HTTP
        self.instance = secrets.token_hex(8)  # tells a client that the server it knew is gone
        self._token = token
        self.max_connections = max_connections
        self._connections = 0
        self._posts = 0

    def table_of(self, connection: HTTPConnection) -> SessionTable:
        """What a connection asks for: ``?env=`` its id, or the only one.

        Raises:
            ProtocolError: it is not served here, or several are and none is named.
        """
        name = connection.query_params.get("env", "")
        if not name and len(self.tables) == 1:
            return self.sessions
        if name not in self.tables:
            reason = f"{name!r:.100} is not served here" if name else "several environments are served here"
            raise ProtocolError(
                "not_found", f"{reason}: the address may end in ?env= and {' or '.join(self.tables)}"[:500]
            )
        return self.tables[name]

    def hello(self, sessions: SessionTable) -> dict[str, Any]:
        """What a client receives first."""
        first = sessions.first.unwrapped
        space = sessions.first.observation_space
        env = {
            "id": sessions.env_id,
            **{name: _plain(getattr(first, name, None)) for name in ("size", "split", "level", "max_turns")},
            "observation_length": text_space(space).max_length,  # type: ignore[attr-defined]
            "image": list(space["image"].shape or ()) if isinstance(space, Dict) else None,
            "action_length": sessions.first.action_space.max_length,  # type: ignore[attr-defined]
            "render_mode": sessions.first.render_mode,
            "rewards": list(sessions.rewards),
            "digest": sessions.env_digest,
        }
        limits: dict[str, Any] = {
            "frame": MAX_FRAME,
            "items": MAX_ITEMS,
            "under_way": MAX_UNDER_WAY,
            "sessions": sessions.limit,
        }
        limits |= {"ttl": sessions.ttl, "timeout": sessions.timeout}  # seconds
        greeting = {
            "version": VERSION,
            "instance": self.instance,
            "expert": sessions.expert,
            "limits": limits,
            "numbered": True,
            "free": sessions.free,
        }
        return {"hello": {**greeting, "env": env}}

    async def answer(self, data: str | bytes, client: Client, sessions: SessionTable) -> dict[str, Any]:
        """The answer to a message about the sessions of a table, whatever it is."""
        owner = None if client is self._poster else client
        weight = len(data) if len(data) > SMALL else 0
        if self._held + weight > MAX_HELD:
            return _refusal(self._too_much())
        self._held += weight
        name: list[str | None] = [None]
        try:
            if weight:
                async with client.large:
                    request = await asyncio.get_running_loop().run_in_executor(self._threads, _read, data, name)
            else:
                request = _read(data, name)
            if request.op == "open":
                return {"id": request.id, "sessions": await sessions.open(request, owner)}
            return {"id": request.id, "results": await sessions.play(request, owner)}
        except ProtocolError as refusal:
            return _refusal(refusal, name[0])
        except Exception:
            log.exception("a request failed")
            return _refusal(ProtocolError("internal", "the server made a mistake; its log says which"), name[0])
        finally:
            self._held -= weight

    def _too_much(self) -> ProtocolError:
        return ProtocolError("overloaded", f"large messages of {self._held} bytes are under way: try later")

    def shutdown(self) -> None:
        """End the sessions, and the threads."""
        for table in self.tables.values():
            table.shutdown()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def drain(self, seconds: float) -> None:
        """Begin nothing new, and wait until no episode is under way, ``seconds`` at most."""
        self.draining = True
        for table in self.tables.values():
            table.draining = True
        until = time.monotonic() + seconds
        log.warning("draining: %d episodes may go on for %g s", self.playing, seconds)
        while self.playing and time.monotonic() < until:
            await asyncio.sleep(0.05)
        for table in self.tables.values():
            table.metrics.cut += table.playing
        log.warning("drained: %d episodes were under way", self.playing)

    @property
    def playing(self) -> int:
        """How many episodes are under way whose clients are there."""
        return sum(table.playing for table in self.tables.values())

    # who may come in

    def admit(self, connection: HTTPConnection) -> None:
        """Raise `ProtocolError` for a request that may not come in."""
        self._check_origin(connection, self._hosts)
        self._check_token(connection)

    def _check_token(self, connection: HTTPConnection) -> None:
        if self._token and not bears_key(connection.headers, self._token):
            raise ProtocolError("unauthorised", "the header 'Authorization: Bearer <token>' is missing, or not right")

    def _check_origin(self, connection: HTTPConnection, hosts: Collection[str]) -> None:
        if wrong := wrong_origin(connection.headers) or wrong_host(connection.headers, _arrived_at(connection), hosts):
            raise ProtocolError("forbidden", wrong)

    def _admit_probe(self, connection: HTTPConnection) -> None:
        """As `admit`, without a token. A probe goes to an address of this machine, and calls the server by that."""
        self._check_origin(connection, self._hosts if is_loopback(_arrived_at(connection)) else ())

    # WebSocket

    async def socket(self, socket: WebSocket) -> None:
        """One connection, to its end."""
        try:
            self.admit(socket)
            if self._connections >= self.max_connections:
                raise ProtocolError("full", f"there are {self._connections} connections already: try later")
            sessions = self.table_of(socket)
        except ProtocolError as refusal:
            await socket.send_denial_response(_response(_refusal(refusal)))
            return
        self._connections += 1
        client = Client()
        reading = asyncio.create_task(self._read(socket, client, sessions))
        try:
            await asyncio.wait([reading])
            if not reading.cancelled() and (error := reading.exception()) is not None:
                log.info("a connection was lost: %s: %s", type(error).__name__, error)
        finally:
            reading.cancel()
            self._connections -= 1
            sessions.disconnected(client)

    async def _read(self, socket: WebSocket, client: Client, sessions: SessionTable) -> None:
        """Take requests as they come; each is answered by a task of its own."""
        answering: set[asyncio.Task[None]] = set()
        reading = asyncio.current_task()

        def finish(task: asyncio.Task[None]) -> None:
            answering.discard(task)
            if not task.cancelled() and task.exception() is not None and reading is not None:
                reading.cancel()  # a client that takes no answers is cut off

        try:
            await socket.accept()
            await self._send(socket, self.hello(sessions), client)
            while (event := await socket.receive())["type"] == "websocket.receive":
                await client.turn()
                data = event.get("text") or event.get("bytes") or ""
                if len(answering) >= MAX_UNDER_WAY:
                    await self._send(socket, _overloaded(data), client)
                    continue
                task = asyncio.create_task(self._serve(socket, data, client, sessions))
                answering.add(task)
                task.add_done_callback(finish)
        finally:
            for task in list(answering):
                task.cancel()

    async def _serve(self, socket: WebSocket, data: str | bytes, client: Client, sessions: SessionTable) -> None:
        await self._send(socket, await self.answer(data, client, sessions), client)

    async def _send(self, socket: WebSocket, message: dict[str, Any], client: Client) -> None:
        if "error" in message:
            client.refuse()
        async with self._written(message, client) as text, asyncio.timeout(PATIENCE):
            await socket.send_text(text)

    @contextlib.asynccontextmanager
    async def _written(self, message: dict[str, Any], client: Client) -> AsyncIterator[str]:
        """A message as text; of the large ones a client has one at a time, until it has taken it."""
        if answer_length(message) <= SMALL:
            yield fitting(message)
            return
        async with client.large:
            yield await asyncio.get_running_loop().run_in_executor(self._threads, fitting, message)

    # HTTP

    async def post(self, request: HTTPRequest) -> Response:
        """One request in the body of a POST."""
        self.admit(request)
        if self._posts >= self.max_connections:
            raise ProtocolError("overloaded", f"{self._posts} requests are under way: try later")
        self._posts += 1
        try:
            sessions = self.table_of(request)
            answer = await self.answer(await self.body(request), self._poster, sessions)
            async with self._written(answer, self._poster) as text:
                return _response(answer, text)
        finally:
            self._posts -= 1

    async def body(self, request: HTTPRequest) -> bytes:
        """The body of a request; `ProtocolError` for one that is too large, or does not arrive in time."""
        data = bytearray()
        try:
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    if self._held + len(part) > MAX_HELD:
                        raise self._too_much()
                    self._held += len(part)
                    data += part
                    if len(data) > MAX_FRAME:
                        raise ProtocolError("too_large", f"a message has at most {MAX_FRAME} bytes")
        except TimeoutError:
            raise ProtocolError("bad_request", f"the request did not arrive within {PATIENCE:g} s") from None
        finally:
            self._held -= len(data)
        return bytes(data)

    async def get(self, request: HTTPRequest) -> Response:
        """The greeting, for who wants to know what is served."""
        self.admit(request)
        return _response(self.hello(self.table_of(request)))

    async def health(self, request: HTTPRequest) -> Response:
        """Health probe: no token needed, no data returned. ``/ready`` is 503 while the server drains."""
        self._admit_probe(request)
        status = "draining" if self.draining else "ok"
        answer = _response({"status": status, "ready": not self.draining, "draining": self.draining})
        answer.status_code = 503 if self.draining and request.url.path == "/ready" else 200
        return answer

    async def metrics(self, request: HTTPRequest) -> Response:
        """The counts of the sessions, for Prometheus."""
        from starlette.responses import Response

        self._admit_probe(request)
        self._check_token(request)
        try:
            return Response(exposition(self.tables), media_type=CONTENT_TYPE)
        except ImportError as error:
            raise ProtocolError("not_found", str(error)) from error


def _arrived_at(connection: HTTPConnection) -> str:
    """The address of this machine that a connection came to."""
    return str((connection.scope.get("server") or ("", None))[0])


def answered(answer: Endpoint) -> Endpoint:
    """An endpoint whose refusals are answers."""

    async def endpoint(request: HTTPRequest) -> Response:
        try:
            return await answer(request)
        except ProtocolError as refusal:
            return _response(_refusal(refusal))

    return endpoint


def _read(data: str | bytes, name: list[str | None]) -> WireRequest:
    """The request in a message; its id is put into ``name`` as soon as it is known."""
    record = read_json(data)
    name[0] = id_of(record)
    return parse_request(record)


def _refusal(refusal: ProtocolError, name: str | None = None) -> dict[str, Any]:
    return {"id": name, **refusal.to_dict()}


def _overloaded(data: str | bytes) -> dict[str, Any]:
    name = None
    with contextlib.suppress(ProtocolError):
        name = id_of(read_json(data)) if len(data) <= SMALL else None
    reason = f"{MAX_UNDER_WAY} requests of this connection wait for answers: take one first"
    return _refusal(ProtocolError("overloaded", reason), name)


def _plain(value: Any) -> int | str | None:
    return value if isinstance(value, int | str) else None


def _response(message: dict[str, Any], text: str = "") -> Response:
    """An answer by HTTP; ``text`` is the message, where it has been written."""
    from starlette.responses import Response

    status = CODES[message["error"]["code"]] if "error" in message else 200
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Response(text or fitting(message), status, headers, "application/json")


def application(server_app: ServerApp) -> Starlette:
    """The ASGI application; its lifespan starts and ends the sessions."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route, WebSocketRoute

    tables = server_app.tables.values()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        server_app.loop = asyncio.get_running_loop()
        for table in tables:
            table.start()
        sweeping = [asyncio.create_task(sweep(table)) for table in tables]
        try:
            yield
        finally:
            for task in sweeping:
                task.cancel()
            server_app.shutdown()

    async def unknown(request: HTTPRequest, error: Exception) -> Response:
        served = f"there are GET and POST {PATH}, WebSocket {SOCKET_PATH}, and GET /health, /ready and /metrics"
        return _response(_refusal(ProtocolError("not_found", served)))

    gets = {
        PATH: server_app.get,
        "/health": server_app.health,
        "/ready": server_app.health,
        "/metrics": server_app.metrics,
    }
    routes = [
        Route(PATH, answered(server_app.post), methods=["POST"]),
        *(Route(path, answered(answer), methods=["GET"]) for path, answer in gets.items()),
        WebSocketRoute(SOCKET_PATH, server_app.socket),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: unknown})


async def sweep(sessions: SessionTable) -> None:
    """End sessions whose time is up, again and again."""
    while True:
        await asyncio.sleep(min(sessions.ttl / 4, 5.0))
        if ended := sessions.sweep():
            log.info("%d sessions were not used any more", ended)


class EnvServer(WebServer):
    """Environments served at an address; as a context manager it runs in a thread beside.

    Args:
        env_id: what is served: an id, or several. With several, clients name one: ``?env=…`` in the address.
        settings: given to ``gym.make`` of each.
        host, port: where; port 0 takes any that is free.
        token: what clients must show; by default a new secret one. None asks for none, at the loopback alone.
        hosts: names that clients may call the server by in ``Host``. Where a connection arrives at the loopback, names
            of the loopback are allowed as well; elsewhere any name is, unless some are given.
        drain: seconds that episodes may go on after SIGTERM, while none begins; what is under way then is lost, and its
            clients are told. 0 ends the server at once.
        processes: which of the ids are played in processes, whatever ``backend`` is.
        table_options: as for `rlvr.adapters.serving.sessions.SessionTable`; ``limit`` is for each id.

    Attributes:
        url: for `connect`: the address, and ``?token=…`` where the token is a new one.
        origin: the address without a token.
        token: what clients must show; "" for nothing.

    Raises:
        ValueError: a host that others can reach, without a token; a short token; other settings not allowed.
        ImportError: starlette, uvicorn or websockets is missing.
        OSError: the address is taken, or not this machine's.
    """

    def __init__(
        self,
        env_id: str | Sequence[str],
        settings: dict[str, Any] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = "",
        hosts: Collection[str] = (),
        drain: float = DRAIN_SECONDS,
        processes: Collection[str] = (),
        **table_options: Any,
    ) -> None:
        if token is None and not is_loopback(host):
            raise ValueError(f"{host} can be reached by others: ask for a token, or serve at 127.0.0.1")
        self.token = secrets.token_urlsafe(24) if token == "" else token or ""
        if token and (len(token) < MIN_TOKEN or not (token.isascii() and token.isprintable()) or " " in token):
            raise ValueError(f"a token has {MIN_TOKEN} characters at least, printable ASCII without spaces")
        ids = [env_id] if isinstance(env_id, str) else list(env_id)
        if not ids or len(set(ids)) < len(ids):
            raise ValueError(f"ids of environments must be different, one at least; got {', '.join(ids) or 'none'}")
        if strange := set(processes) - set(ids):
            raise ValueError(f"{min(strange)} is to be played in processes, and is not served")
        if not 0 <= drain <= MAX_SECONDS:
            raise ValueError(f"drain must be seconds from 0 to {MAX_SECONDS:g}, got {drain}")
        require_serving()
        self._listen(host, port)
        self.tables: dict[str, SessionTable] = {}
        self._drain = drain
        self._app: ServerApp | None = None
        try:
            for each in ids:
                backend = {"backend": "process"} if each in processes else {}
                self.tables[each] = self._table(each, settings, **table_options | backend)
            self.sessions = self.tables[ids[0]]
            served = self._application(hosts)
        except BaseException:
            self._socket.close()
            for table in self.tables.values():
                table.shutdown()
            raise
        self.url = f"{self.origin}/?token={self.token}" if token == "" else self.origin
        self._uvicorn = web_server(served, self._most_waiting())
        self._uvicorn.handle_exit = self._signalled  # type: ignore

    def _table(self, env_id: str, settings: dict[str, Any] | None, **table_options: Any) -> SessionTable:
        return SessionTable(env_id, settings, **table_options)

    def _application(self, hosts: Collection[str]) -> Starlette:
        max_connections = 2 * sum(table.limit for table in self.tables.values()) + 16
        self._app = ServerApp(self.tables, self.token, max_connections, hosts)
        return application(self._app)

    def _most_waiting(self) -> int:
        """How many connections may be open that have not said what they ask for, beside those that have."""
        connections = 0 if self._app is None else self._app.max_connections
        files = allowed_files(connections + max(connections, WAITING) + OTHER_FILES)
        if files < connections + OTHER_FILES:
            log.warning(
                "%d files may be open, for up to %d connections: raise the limit (ulimit -n)", files, connections
            )
        return min(max(connections, WAITING), max(LEAST_WAITING, files - connections - OTHER_FILES))

    def drain(self) -> None:
        """Begin nothing new, and end when no episode is under way, or the time for that is up; returns at once."""
        loop = None if self._app is None else self._app.loop
        if loop is None:
            self._uvicorn.should_exit = True
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
            loop.call_soon_threadsafe(lambda: loop.create_task(self._drained()))

    async def _drained(self) -> None:
        assert self._app is not None, "drain() looks"
        try:
            await self._app.drain(self._drain)
        finally:
            self._uvicorn.should_exit = True

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """The first SIGTERM drains; another one, and Ctrl-C, end the server at once."""
        if number == signal.SIGTERM and self._drain and self._app is not None and not self._app.draining:
            self._app.draining = True
            self.drain()
        else:
            type(self._uvicorn).handle_exit(self._uvicorn, number, frame)

    def run(self) -> None:
        """Serve until a signal; Ctrl-C raises KeyboardInterrupt when everything is shut down."""
        interval = sys.getswitchinterval()
        if threading.current_thread() is threading.main_thread():  # the process is the server's
            sys.setswitchinterval(SWITCH_SECONDS)
        try:
            super().run()
        finally:
            sys.setswitchinterval(interval)
