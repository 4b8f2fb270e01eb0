"""MCP: the tools of any Model Context Protocol server as a kit, by the official ``mcp`` package.

A server is a command that speaks over its standard input and output, or a URL of streamable HTTP. Its arguments are
checked here against its JSON schemas before it sees them. Regular expressions in a schema are left to the server: what
a policy writes is not matched against patterns that may backtrack.

Revision 2026-07-28 of the protocol is spoken with servers that have it, the handshake of those before with others. The
newer has no sessions. A server over HTTP that is to remember something for each episode is therefore asked for one of
2025-11-25, and refused where it gives none: its episodes would be played into one another.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, NamedTuple

from rlvr.envs.core.code_rule import require_code
from rlvr.envs.tools.kits import Kit
from rlvr.envs.tools.mcp_schema import MAX_DESCRIPTION, ServedTool, schema_fault, served_tool
from rlvr.envs.tools.tool import SessionLost, Tool, ToolError, ToolFault, shown

MAX_TOOLS: Final = 200
HTTP_SECONDS: Final = 30.0
NO_HANDSHAKE: Final = (-32601, -32022)  # no such method, no such revision
NO_SESSION: Final = (
    "the MCP server at {} gives no sessions over HTTP (2026-07-28 has none): episodes would see each other's calls: "
    "give a command, which is started for each episode, or remembers=False for a server whose calls change nothing or "
    "that gives out handles"
)
_LIVE: weakref.WeakSet[Connection] = weakref.WeakSet()


class _NoSession(ConnectionError):
    """A server over HTTP gives no session where one is to be had."""


# a running server


class Server(NamedTuple):
    """Where a server is: a command to run, or a URL; and whether a connection to it is to have a session of its own."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    log: str = os.devnull
    session: bool = False

    @property
    def mode(self) -> str:
        """How the client asks for a revision: the newest that both have, or one that has sessions over HTTP."""
        return "legacy" if self.url and self.session else "auto"


class Connection:
    """A connection to a server, which a command starts, in a thread with an event loop: none waits for another's.

    Attributes:
        listed: the server's tools.
        revision: of the protocol, as it is spoken here.
        instructions: what the server says of itself; "" for nothing.

    Raises:
        ToolFault: the server does not start, or not in time, or gives no session where one is to be had.
    """

    def __init__(self, server: Server, seconds: float) -> None:
        import asyncio

        self._asyncio = asyncio
        self.revision = self.instructions = ""
        self._started: Future[list[Any]] = Future()
        self._calls = 0
        self._retired = False
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] = lambda: None
        self._give_up: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._live, args=(server,), name="rlvr-mcp", daemon=True)
        self._thread.start()
        _LIVE.add(self)
        try:
            self.listed = self._started.result(seconds)
        except NotInTime:
            self.close()
            self._give_up()
            raise ToolFault(f"the MCP server did not start within {seconds:g} s", "timeout") from None
        except _NoSession as error:
            raise ToolFault(NO_SESSION.format(server.url)[:500]) from error
        except ConnectionError as error:
            raise ToolFault(f"the MCP server does not start: {error}"[:500]) from error

    def _live(self, server: Server) -> None:
        try:
            self._asyncio.run(self._serve(server))
        except BaseException as error:
            if not self._started.done():
                inner = _inner(error)
                lacking = isinstance(inner, _NoSession)
                self._started.set_exception(inner if lacking else ConnectionError(_innermost(error)))
        if not self._started.done():
            self._started.set_exception(ConnectionError("it was closed"))

    async def _serve(self, server: Server) -> None:
        import anyio
        from mcp import Client, MCPError

        self._loop = loop = self._asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            outer = stack.enter_context(anyio.CancelScope())
            self._give_up = lambda: self._ask(loop, outer.cancel)
            if self._retired:  # given up before there was anything to cancel
                return
            sessions: list[str] = []
            transport = await _transport(server, stack, sessions)
            try:
                client = await stack.enter_async_context(Client(transport, mode=server.mode))
            except* MCPError as refusals:
                if server.mode == "legacy" and getattr(_inner(refusals), "code", None) in NO_HANDSHAKE:
                    raise _NoSession from refusals
                raise
            if server.mode == "legacy" and not sessions:
                raise _NoSession
            self._client, self.revision, self.instructions = client, client.protocol_version, client.instructions or ""
            with anyio.CancelScope() as inner:
                self._cancel = lambda: self._ask(loop, inner.cancel)
                self._started.set_result(await _listed(client))
                await anyio.sleep_forever()

    @staticmethod
    def _ask(loop: Any, act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(act)

    def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        """The server's result of a call.

        Raises:
            ToolError: the server answers with an error.
            SessionLost: it does not answer, or not in time; the connection is of no use from then on.
        """
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        with self._lock:
            if self._retired or not self._thread.is_alive():  # no thread outlives a fork
                raise SessionLost("the MCP server is not there any more")
            self._calls += 1
        try:
            waiting = self._asyncio.run_coroutine_threadsafe(self._client.call_tool(name, dict(arguments)), self._loop)
            try:
                return waiting.result(seconds)
            except NotInTime:
                waiting.cancel()
                self.close()
                raise SessionLost(f"{name} did not end within {seconds:g} s") from None
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise ToolError(f"{name}: {error.message}"[:500]) from None
            self.close()
            raise SessionLost(f"the MCP server: {error.message}"[:500]) from error
        except SessionLost:
            raise
        except (Exception, CancelledError) as error:
            self.close()
            raise SessionLost(f"the MCP server: {_innermost(error)}"[:500]) from error
        finally:
            with self._lock:
                self._calls -= 1
                over = self._retired and not self._calls
            if over:
                self._cancel()

    @property
    def useful(self) -> bool:
        """Whether it may still be called; a server may have died since without anybody having noticed."""
        return self._thread.is_alive() and not self._retired

    def close(self) -> None:
        """Take no more calls, and end when those under way are over; does not wait for it."""
        with self._lock:
            self._retired = True
            over = not self._calls
        if over:
            self._cancel()

    def join(self, seconds: float = 8.0) -> None:
        """Close, and wait until nothing runs any more."""
        self.close()
        self._cancel()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._give_up()
            self._thread.join(seconds)


@atexit.register
def _end_all() -> None:
    for each in list(_LIVE):
        each.join(3.0)


async def _transport(server: Server, stack: AsyncExitStack, sessions: list[str]) -> Any:
    """What a client speaks through; the ids of sessions that the server gives go into the list."""
    if server.url:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async def note(response: httpx2.Response) -> None:
            sessions.extend(filter(None, [response.headers.get("mcp-session-id")]))

        client = httpx2.AsyncClient(
            headers=dict(server.headers),
            timeout=httpx2.Timeout(HTTP_SECONDS, read=None),  # a call has a limit of its own
            event_hooks={"response": [note]},
        )
        return streamable_http_client(server.url, http_client=await stack.enter_async_context(client))
    from mcp import StdioServerParameters, stdio_client

    command, *arguments = server.command
    log = stack.enter_context(open(server.log, "a", encoding="utf-8"))  # noqa: SIM115  (the stack closes it)
    started = StdioServerParameters(command=command, args=arguments, env=dict(server.env), cwd=server.cwd)
    return stdio_client(started, errlog=log)


async def _listed(client: Any) -> list[Any]:
    """Every tool of the server, page after page."""
    tools: list[Any] = []
    cursor = None
    while len(tools) < MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools[:MAX_TOOLS]


def _inner(error: BaseException) -> BaseException:
    """What went wrong, out of however many groups of exceptions it was put into."""
    while isinstance(inside := getattr(error, "exceptions", None), Sequence) and inside:
        error = inside[0]
    return error


def _innermost(error: BaseException) -> str:
    """The same in words."""
    error = _inner(error)
    return f"{type(error).__name__}: {error}"


def _written(result: Any) -> str:
    """A result as text: pictures, sounds and files are named, not shown."""
    parts = []
    for block in result.content:
        if block.type == "text":
            parts.append(block.text)
        elif block.type in ("image", "audio"):
            size = len(block.data) * 3 // 4 - block.data.count("=")  # in base64
            parts.append(f"[{block.type}, {block.mime_type}, {size:,} bytes: not shown]")
        elif block.type == "resource_link":
            parts.append(f"[resource {block.name}: {block.uri}]")
        elif isinstance(text := getattr(block.resource, "text", None), str):
            parts.append(text)
        else:
            parts.append(f"[resource {block.resource.uri}, {block.resource.mime_type or 'binary'}: not shown]")
    if not parts and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return "\n".join(parts) or "(no output)"


# the kit


class MCP(Kit):
    """The tools of an MCP server: ``gym.make(env_id, tools=[MCP(command=["my-server"])])``.

    Output is text: pictures and files are named and not shown. What the server reports as a tool's error is told to
    the policy, and so is that a call made the server die, break the protocol or not answer in time: the next call gets
    a new server, in which the episode's other calls were made again. Only a server that does not start any more ends
    the episode as invalid. ``env.close()`` ends all that is running.

    Args:
        command: the program and its arguments, spoken to over standard input and output. It runs outside the
            sandbox, with your rights: it is your server.
        url: of streamable HTTP, instead of a command.
        env: environment variables of the command beside the few harmless ones (PATH, HOME, …).
        cwd: folder that the command runs in.
        headers: sent along with HTTP, for example for authorisation.
        remembers: whether a call changes what later ones say. Then each episode has a server (over HTTP, a session)
            of its own, and a forked or restored episode makes its calls again in a fresh one. False is for servers
            that look things up: all episodes share one. Over HTTP the server must keep what it remembers by session;
            one that gives no sessions is refused.
        only: names of the tools that the policy gets; all if None.
        start_seconds: how long a server may take to start.
        log: file that gets what the command writes to standard error; nowhere if None.

    Attributes:
        instructions: what the server says of the use of its tools; not told to the policy.

    Raises:
        ValueError: neither or both of a command and a URL, or a name in ``only`` that the server does not have.
        ModuleNotFoundError: the ``mcp`` package is missing; the message names the extra.
        ToolFault: the server does not start, offers no tools, or gives no session where ``remembers`` asks for one.
    """

    _spare: Connection | None

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        headers: Mapping[str, str] | None = None,
        remembers: bool = True,
        only: Sequence[str] | None = None,
        start_seconds: float = 30.0,
        log: str | None = None,
    ) -> None:
        try:
            import jsonschema  # noqa: F401
            import mcp  # noqa: F401
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError('MCP servers need the tools extra: pip install "rlvr[tools]"') from error
        if isinstance(command, str):
            raise ValueError(f'command must be a list such as ["python", "server.py"], got the text {command!r}')
        if command:
            require_code(f"the command {' '.join(map(str, command))[:200]!r} of an MCP server")
        if bool(command) == bool(url):
            raise ValueError("an MCP server is either a command or a url: give one of them")
        if url and not url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, got {url!r}")
        pairs, headed = tuple((env or {}).items()), tuple((headers or {}).items())
        self.server = Server(tuple(command or ()), url or "", pairs, cwd, headed, log or os.devnull, remembers)
        self.remembers = remembers
        self.start_seconds = start_seconds
        self._prepare()
        first = self._connect()
        self._spare, self.instructions = first, shown(first.instructions, MAX_DESCRIPTION)
        everything = [_from_server(each) for each in first.listed]
        try:
            self.everything = {each.original: each for each in everything}
            self.tools = _chosen(everything, only)
        except (ValueError, ToolFault):
            self.shut()
            raise

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._spare = None

    def __getstate__(self) -> dict[str, Any]:
        live = ("_lock", "_connections", "_spare")
        return {name: value for name, value in self.__dict__.items() if name not in live}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _connect(self) -> Connection:
        connection = Connection(self.server, self.start_seconds)
        self._connections.add(connection)
        return connection

    def open(self) -> Connection | None:
        """A server for one episode; None where all share one."""
        if not self.remembers:
            return None
        with self._lock:
            ready, self._spare = self._spare, None
        return ready if ready is not None and ready.useful else self._connect()

    def _shared(self) -> Connection:
        with self._lock:
            if self._spare is None or not self._spare.useful:
                self._spare = self._connect()
            return self._spare

    def run(self, session: Connection | None, used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        original = used.original if isinstance(used, ServedTool) else used.name
        if session is None:
            result = self._call_shared(original, arguments, seconds)
        else:
            result = session.call(original, arguments, seconds)
        if result.is_error:
            raise ToolError(_written(result))
        return _written(result)

    def _call_shared(self, name: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        """A call of a server that all share; once more on a server of its own where another's call may have ended it.

        Raises:
            SessionLost: it ended that server, too.
            ToolFault: no other server can be had.
        """
        with suppress(SessionLost):
            return self._shared().call(name, arguments, seconds)
        alone = self._connect()
        try:
            return alone.call(name, arguments, seconds)
        finally:
            alone.close()

    def close(self, session: Connection | None) -> None:
        if session is not None:
            session.close()

    def shut(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()
        for each in [each for each in self._connections if not each.useful]:
            each.join()


def _from_server(each: Any) -> ServedTool:
    description = shown(each.description or each.title or each.name, MAX_DESCRIPTION)
    return served_tool(each.name, " ".join(description.split()), each.input_schema)


def _chosen(everything: Sequence[ServedTool], only: Sequence[str] | None) -> list[Tool]:
    names = [each.original for each in everything]
    missing = [name for name in only or () if name not in names]
    if missing:
        raise ValueError(f"the MCP server has no tool {missing[0]!r}; it has {', '.join(names)}")
    chosen: list[Tool] = [each for each in everything if only is None or each.original in only]
    if not chosen:
        raise ToolFault("the MCP server offers no tools")
    for each in chosen:
        if isinstance(each, ServedTool) and (fault := schema_fault(each.parameters)):
            raise ToolFault(f"the MCP server's tool {each.name} has a schema that cannot be used: {fault}")
    return chosen
