"""MCP: the tools of any Model Context Protocol server as a kit, by the official ``mcp`` package.

A server is a command that speaks over its standard input and output, or a URL of streamable HTTP. Its arguments are
checked here against its JSON schemas before it sees them. Regular expressions in a schema are left to the server: what
a policy writes is not matched against patterns that may backtrack.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from rlvr.envs.core.code_rule import require_code
from rlvr.envs.tools.kits import Kit
from rlvr.envs.tools.tool import MAX_ARGUMENTS, Tool, ToolError, ToolFault, shown, shown_schema

MAX_DESCRIPTION: Final = 2_000
MAX_TOOLS: Final = 200
MAX_SCHEMA: Final = 100_000
MAX_CHECKS: Final = 300_000  # keywords of a schema that are applied to the arguments of one call
CHECK_SECONDS: Final = 2.0  # of processor time
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_LIVE: weakref.WeakSet[Connection] = weakref.WeakSet()


def _carried_out_by_the_server(**arguments: Any) -> str:
    raise NotImplementedError("carried out by MCP.run")


@dataclass(frozen=True, slots=True)
class ServedTool(Tool):
    """A tool of a server.

    Attributes:
        parameters: the JSON schema of the arguments.
        original: its name on the server; ``name`` has only what can be written in every style of calls.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    original: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _served, (self.original, self.description, self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._properties())

    @property
    def described(self) -> Mapping[str, str]:
        schemas = {name: each for name, each in self._properties().items() if isinstance(each, Mapping)}
        texts = {name: schema.get("description") for name, schema in schemas.items()}
        return {name: shown(text, MAX_DESCRIPTION) for name, text in texts.items() if isinstance(text, str)}

    def _properties(self) -> Mapping[str, Any]:
        found = self.parameters.get("properties")
        return found if isinstance(found, Mapping) else {}

    def schema(self) -> dict[str, Any]:
        return shown_schema(self.name, self.description, self.parameters)

    def signature(self) -> str:
        required = self.parameters.get("required", ())
        parts = []
        for name, each in self._properties().items():
            choices = each.get("enum") if isinstance(each, Mapping) else None
            written = [json.dumps(choice) for choice in choices] if isinstance(choices, list) else []
            kind = "|".join(written or sorted(_kinds(each, self.parameters))) or "any"
            parts.append(f"{name}: {kind}" + ("" if name in required else " (optional)"))
        return f"{self.name}({', '.join(parts)})"

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the server wants them; what was written as text and is none is read as JSON.

        Raises:
            ToolError: they do not fit the schema, have over 100,000 characters, or hold what is no plain text.
            ToolFault: the schema itself cannot be worked with.
        """
        size = 0
        for text in _texts(dict(arguments)):
            size += len(text)
            if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
                raise ToolError(f"{self.name}: an argument is no plain text")
        if size > MAX_ARGUMENTS:
            raise ToolError(f"{self.name}: the arguments have {size:,} characters, allowed are {MAX_ARGUMENTS:,}")
        known = self._properties()
        given = {name: _read(value, known.get(name), self.parameters) for name, value in arguments.items()}
        unknown = sorted(given.keys() - known.keys())
        open_ended = "patternProperties" in self.parameters or self.parameters.get("additionalProperties")
        if unknown and not open_ended:
            raise ToolError(f"{self.name}: there is no argument {unknown[0][:50]!r}; it takes {self.signature()}")
        try:
            problem = next(_validator(self.parameters).iter_errors(given), None)
        except Exception as error:
            if fault := schema_fault(self.parameters):
                raise ToolFault(f"the schema of {self.name} cannot be used: {fault}"[:300]) from None
            raise ToolError(f"{self.name}: the arguments cannot be checked: {error}"[:300]) from None
        if problem is not None:
            path = ".".join(map(str, problem.absolute_path))
            fault = f"{path}: {problem.message[:200]}" if path else problem.message[:200]
            raise ToolError(f"{self.name}: {fault}; it takes {self.signature()}")
        return given


def _served(original: str, description: str, parameters: Mapping[str, Any]) -> ServedTool:
    name = _NO_NAME.sub("_", original)[:64]
    if not name or not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"[:64]
    return ServedTool(
        name, description, BaseModel, _carried_out_by_the_server, parameters=parameters, original=original
    )


def _texts(value: Any) -> Iterator[str]:
    """All text in a JSON value, keys too; numbers as they are written."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
        else:
            yield each if isinstance(each, str) else repr(each)


def _kinds(schema: Any, whole: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema names; none where it leaves them open."""
    kinds: set[str] = set()
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, Mapping) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(reference := each.get("$ref"), str) and reference.startswith("#/"):
            found: Any = whole
            for step in reference[2:].split("/"):
                found = found.get(step) if isinstance(found, Mapping) else None
            waiting.append(found)
            continue
        kind = each.get("type")
        kinds |= {kind} if isinstance(kind, str) else {name for name in kind or () if isinstance(name, str)}
        waiting += [*each.get("anyOf", ()), *each.get("oneOf", ())]
    return kinds


def _read(value: Any, schema: Any, whole: Mapping[str, Any]) -> Any:
    """A value that some styles can only write as text, in its own type."""
    if not isinstance(value, str):
        return value
    kinds = _kinds(schema, whole)
    if not kinds or "string" in kinds:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    if any(text.startswith(("http:", "https:", "file:")) for text in _references(schema)):
        raise ValueError("it refers to another document")
    left_out = ("pattern", "patternProperties", "format")
    work = _Work()
    checks = {**Draft202012Validator.VALIDATORS, "uniqueItems": _unique_items}
    kept = {name: work.counted(check) for name, check in checks.items() if name not in left_out}
    blank: dict[str, Any] = dict.fromkeys(left_out, lambda *_: None)
    return extend(Draft202012Validator, {**kept, **blank})(dict(schema))


class _Work:
    """Counts what one check of arguments does, and ends it when that is too much."""

    def __init__(self) -> None:
        self.left = MAX_CHECKS
        self.end = time.thread_time() + CHECK_SECONDS

    def counted(self, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def run(*given: Any) -> Iterator[Any]:
            self.left -= 1
            if self.left < 0 or time.thread_time() > self.end:
                raise ValueError("it takes too much work")
            yield from check(*given) or ()

        return run


def _unique_items(_: Any, unique: Any, instance: Any, __: Any) -> Iterator[Any]:
    """``uniqueItems`` in one pass; jsonschema's own compares each item with each."""
    from jsonschema import ValidationError

    if unique and isinstance(instance, list):
        seen = {json.dumps(_canonical(item), sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield ValidationError("an item stands there twice")


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def schema_fault(schema: Any) -> str:
    """Why a schema from a server cannot be used, in one line; empty when it can."""
    from jsonschema import Draft202012Validator

    try:
        if not isinstance(schema, Mapping):
            return "it is no object"
        if len(json.dumps(schema)) > MAX_SCHEMA:
            return f"it has over {MAX_SCHEMA:,} characters"
        Draft202012Validator.check_schema(dict(schema))
        validator = _validator(schema)
        for reference in _references(schema):
            step, seen = reference, set[str]()
            while step and step not in seen:
                seen.add(step)
                found = validator._resolver.lookup(step).contents
                step = str(found.get("$ref", "")) if isinstance(found, Mapping) else ""
            if step:
                return f"the reference {shown(step, 100)} leads to itself"
        list(validator.iter_errors({}))
    except Exception as error:  # whatever is wrong with what somebody else wrote
        message = str(getattr(error, "message", None) or error) or "no reason given"
        return f"{type(error).__name__}: {shown(' '.join(message.split()), 200)}"
    return ""


def _references(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
            yield from (str(each[name]) for name in ("$ref", "$dynamicRef", "$id") if name in each)
        elif isinstance(each, list):
            waiting += each


# a running server


class Server(NamedTuple):
    """Where a server is: a command to run, or a URL."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    log: str = os.devnull


class Connection:
    """A connection to a server, which a command starts, in a thread with an event loop: none waits for another's.

    Raises:
        ToolFault: the server does not start, or not in time.
    """

    def __init__(self, server: Server, seconds: float) -> None:
        import asyncio

        self._asyncio = asyncio
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
        except ConnectionError as error:
            raise ToolFault(f"the MCP server does not start: {error}"[:500]) from error

    def _live(self, server: Server) -> None:
        try:
            self._asyncio.run(self._serve(server))
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(ConnectionError(_innermost(error)))
        if not self._started.done():
            self._started.set_exception(ConnectionError("it was closed"))

    async def _serve(self, server: Server) -> None:
        import anyio
        from mcp import Client

        self._loop = loop = self._asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            outer = stack.enter_context(anyio.CancelScope())
            self._give_up = lambda: self._ask(loop, outer.cancel)
            if self._retired:  # given up before there was anything to cancel
                return
            client = await stack.enter_async_context(Client(await _transport(server, stack)))
            self._client = client
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
            ToolError: the server says that the arguments are wrong.
            ToolFault: it does not answer, or not in time; the connection is of no use from then on.
        """
        from mcp import MCPError
        from mcp.types import INVALID_PARAMS

        with self._lock:
            if self._retired or not self._thread.is_alive():  # no thread outlives a fork
                raise ToolFault("the MCP server is not there any more")
            self._calls += 1
        try:
            waiting = self._asyncio.run_coroutine_threadsafe(self._client.call_tool(name, dict(arguments)), self._loop)
            try:
                return waiting.result(seconds)
            except NotInTime:
                waiting.cancel()
                self.close()
                raise ToolFault(f"{name} did not end within {seconds:g} s", "timeout") from None
        except MCPError as error:
            if error.code == INVALID_PARAMS:
                raise ToolError(f"{name}: {error.message}"[:500]) from None
            self.close()
            raise ToolFault(f"the MCP server: {error.message}"[:500]) from error
        except ToolFault:
            raise
        except (Exception, CancelledError) as error:
            self.close()
            raise ToolFault(f"the MCP server: {_innermost(error)}"[:500]) from error
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


async def _transport(server: Server, stack: AsyncExitStack) -> Any:
    if server.url:
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        client = await stack.enter_async_context(create_mcp_http_client(headers=dict(server.headers)))
        return streamable_http_client(server.url, http_client=client)
    from mcp import StdioServerParameters, stdio_client

    command, *arguments = server.command
    log = stack.enter_context(open(server.log, "a", encoding="utf-8"))  # noqa: SIM115  (the stack closes it)
    started = StdioServerParameters(command=command, args=arguments, env=dict(server.env), cwd=server.cwd)
    return stdio_client(started, errlog=log)


async def _listed(client: Any) -> list[Any]:
    """Every tool of the server, page after page."""
    found: list[Any] = []
    cursor = None
    while len(found) < MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found[:MAX_TOOLS]


def _innermost(error: BaseException) -> str:
    """What went wrong, out of however many groups of exceptions it was put into."""
    while isinstance(inside := getattr(error, "exceptions", None), Sequence) and inside:
        error = inside[0]
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
    the policy. A server that dies, breaks the protocol or does not answer in time ends the episode as invalid, and the
    next call of any episode gets a new one. ``env.close()`` ends all that is running.

    Args:
        command: the program and its arguments, spoken to over standard input and output. It runs outside the
            sandbox, with your rights: it is your server.
        url: of streamable HTTP, instead of a command.
        env: environment variables of the command beside the few harmless ones (PATH, HOME, …).
        cwd: folder that the command runs in.
        headers: sent along with HTTP, for example for authorisation.
        remembers: whether a call changes what later ones say. Then each episode has a server (over HTTP, a session)
            of its own, and a forked or restored episode makes its calls again in a fresh one. False is for servers
            that look things up: all episodes share one.
        only: names of the tools that the policy gets; all if None.
        start_seconds: how long a server may take to start.
        log: file that gets what the command writes to standard error; nowhere if None.

    Raises:
        ValueError: neither or both of a command and a URL, or a name in ``only`` that the server does not have.
        ModuleNotFoundError: the ``mcp`` package is missing; the message names the extra.
        ToolFault: the server does not start, or offers no tools.
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
        self.server = Server(tuple(command or ()), url or "", pairs, cwd, headed, log or os.devnull)
        self.remembers = remembers
        self.start_seconds = start_seconds
        self._prepare()
        first = self._connect()
        self._spare = first
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
        made = Connection(self.server, self.start_seconds)
        self._connections.add(made)
        return made

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
        connection = self._shared() if session is None else session
        original = used.original if isinstance(used, ServedTool) else used.name
        result = connection.call(original, arguments, seconds)
        if result.is_error:
            raise ToolError(_written(result))
        return _written(result)

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
    return _served(each.name, " ".join(description.split()), each.input_schema)


def _chosen(everything: Sequence[ServedTool], only: Sequence[str] | None) -> list[Tool]:
    names = [each.original for each in everything]
    missing = [name for name in only or () if name not in names]
    if missing:
        raise ValueError(f"the MCP server has no tool {missing[0]!r}; it has {', '.join(names)}")
    found: list[Tool] = [each for each in everything if only is None or each.original in only]
    if not found:
        raise ToolFault("the MCP server offers no tools")
    for each in found:
        if isinstance(each, ServedTool) and (fault := schema_fault(each.parameters)):
            raise ToolFault(f"the MCP server's tool {each.name} has a schema that cannot be used: {fault}")
    return found
