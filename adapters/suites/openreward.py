"""Our environments behind the HTTP of the Open Reward Standard, for ``openreward`` and whatever else speaks it.

    rlvr serve-ors rlvr/WordProblems-v0 rlvr/SQL-v0

There a policy acts by tool calls alone, each answered with blocks, a reward and whether that was the end. An
environment's own tools are served as tools, and ``reply`` takes the text of any other turn. A fault is never a reward:
it is an error of the call, or of ``/create``. Neither ``openreward`` nor FastAPI is needed. docs/adapters/openreward.md
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlvr.adapters.rows import LISTED_TASKS, MAX_LISTED
from rlvr.adapters.serving.bounded_json import kind_of
from rlvr.adapters.serving.events import event_stream, events_of, events_of_call, json_response
from rlvr.adapters.serving.guard import bears_key
from rlvr.adapters.serving.serve import SMALL, EnvServer, ServerApp, answered, sweep
from rlvr.adapters.serving.sessions import Result, SessionTable
from rlvr.adapters.serving.wire import CODES, MAX_BITS, ProtocolError, WireRequest, read_json, unpack, write
from rlvr.agents.conversation import Message, as_one_text, opening_messages
from rlvr.envs import Verdict
from rlvr.envs.core.registry import splits_of
from rlvr.envs.core.task import Task
from rlvr.envs.tools.calls import Call, write_call
from rlvr.envs.tools.with_tools import call_style, with_native_tools

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

ISSUED = 4  # session ids that wait for /create, for each session there may be
REPLY = "reply"
TASK_FIELDS = frozenset({"seed", "split", "level", "index"})
BUILD = {"version": "rlvr", "build_sha": None}
Json = dict[str, Any]
log = logging.getLogger("rlvr.serve")


@dataclass(slots=True, eq=False)
class _Rollout:
    """A session that was created.

    Attributes:
        key: of the session in its table.
        asked: what ``/create`` was given; the same again is answered again.
        style: how its environment reads a call.
        call: the last call, and the name by which a client asks for its answer again.
        over: why no call is carried out any more; "" while one is.
        lost: whether that is a fault.
    """

    name: str
    key: str
    asked: Json
    messages: list[Json]
    tools: dict[str, Json]
    reply: str
    style: str
    call: tuple[str, asyncio.Task[str]] | None = None
    over: str = ""
    lost: bool = False
    numbers: itertools.count[int] = field(default_factory=itertools.count)


class OpenRewardApp:
    """What the network sees of the standard.

    Args:
        tables: by the name that stands in paths; the first is played where a path names none.
        token: what requests must bear, as ``X-API-Key`` or ``Authorization: Bearer``; "" for none.
        hosts: as in `ServerApp`.
        tasks: how many of each split are listed where tasks are generated without end.
    """

    def __init__(
        self, tables: Mapping[str, SessionTable], token: str, hosts: Collection[str] = (), tasks: int = LISTED_TASKS
    ) -> None:
        if not 1 <= tasks <= 1 << 53:
            raise ValueError(f"tasks must be at least 1, got {tasks}")
        self.tables, self._token, self._tasks = dict(tables), token, tasks
        self._first = next(iter(self.tables))
        self._limit = sum(table.limit for table in self.tables.values())
        self._most, self._under_way = 2 * self._limit + 16, 0  # requests at once
        self.gate = ServerApp(self.tables, "", self._most, hosts)
        self._issued: OrderedDict[str, None] = OrderedDict()
        self._creating: set[str] = set()
        self._rollouts: dict[str, _Rollout] = {}

    # requests

    def route(self, answer: Callable[[Request], Any], public: bool = False) -> Callable[[Request], Any]:
        """A request's answer, or the error that keeps it from one."""

        async def answered(request: Request) -> Response:
            self._under_way += 1
            try:
                self._admit(request, public)
                result = await answer(request)
                return json_response(result) if isinstance(result, dict | list) else result
            except ProtocolError as refusal:
                return json_response({"detail": refusal.message[:500]}, CODES[refusal.code])
            except Exception:
                log.exception("a request failed")
                return json_response({"detail": "the server made a mistake; its log says which"}, 500)
            finally:
                self._under_way -= 1

        return answered

    def _admit(self, request: Request, public: bool) -> None:
        self.gate.admit(request)
        if self._under_way > self._most and not public:
            raise ProtocolError("overloaded", f"{self._most} requests are under way: try later")
        key = request.headers.get("x-api-key", "").encode("utf-8", "surrogateescape")
        has_key = hmac.compare_digest(key, self._token.encode()) or bears_key(request.headers, self._token)
        if self._token and not public and not has_key:
            raise ProtocolError(
                "unauthorised", "the header X-API-Key, or Authorization: Bearer, is missing or not right"
            )

    async def _body(self, request: Request, *fields: str) -> Json:
        data = await self.gate.body(request)
        large = len(data) > SMALL  # read beside the event loop
        record = await asyncio.to_thread(read_json, data) if large else read_json(data) if data.strip() else {}
        if unknown := sorted(record.keys() - set(fields)):
            raise ProtocolError(
                "bad_request", f"there is no field {unknown[0]!r:.60} here; there are {', '.join(fields)}"
            )
        return record

    def _named(self, name: Any) -> str:
        env_name = self._first if name is None else str(name).lower()
        if env_name not in self.tables:
            raise ProtocolError(
                "not_found", f"there is no environment {env_name!r:.100}; there are {', '.join(self.tables)}"
            )
        return env_name

    def _of_path(self, request: Request) -> str:
        return self._named(request.path_params.get("env"))

    def _sid(self, request: Request) -> str:
        sid = request.headers.get("x-session-id", "").strip()
        if not sid:
            raise ProtocolError("bad_request", "the header X-Session-ID is missing: POST /create_session gives one")
        return sid

    def _rollout(self, request: Request) -> _Rollout:
        rollout = self._rollouts.get(sid := self._sid(request))
        if rollout is None or rollout.key not in self.tables[rollout.name]:
            self._rollouts.pop(sid, None)
            raise ProtocolError("unknown_session", "there is no such session: it was deleted, or not used for too long")
        if "env" in request.path_params and self._of_path(request) != rollout.name:
            raise ProtocolError("not_found", f"this session plays {rollout.name}")
        return rollout

    # what there is

    def always(self, answer: Any) -> Callable[[Request], Any]:
        """A request's answer that is the same for all."""

        async def answer_it(request: Request) -> Any:
            return answer

        return answer_it

    async def splits(self, request: Request) -> list[Json]:
        """The names of an environment's splits."""
        return [{"name": name, "type": name} for name in self._splits(self._of_path(request))]

    async def tools(self, request: Request) -> Json:
        """The tools that every session has."""
        return self._listed(_schemas(self._task(self._of_path(request)).get("tools")))

    async def tasks(self, request: Request) -> Json:
        """All of a split, where they are not too many."""
        name, count = await self._counted(request)
        if count > MAX_LISTED:
            raise ProtocolError(
                "too_large", f"there are {count} tasks: ask /num_tasks, and /task_range for some of them"
            )
        return {"tasks": [_task(name[1], index) for index in range(count)], "env_name": name[0]}

    async def num_tasks(self, request: Request) -> Json:
        """How many a split has."""
        return {"num_tasks": (await self._counted(request))[1]}

    async def task(self, request: Request) -> Json:
        """The task of a split at an index."""
        name, body = self._of_path(request), await self._body(request, "split", "index")
        return {"task": self._at(name, body.get("split"), body.get("index")), "env_name": name}

    async def task_range(self, request: Request) -> Json:
        """Some of a split; bounds below 0 count from its end, as in Python."""
        name, body = self._of_path(request), await self._body(request, "split", "start", "stop")
        bounds = [body.get("start"), body.get("stop")]
        if any(bound is not None and type(bound) is not int for bound in bounds):
            raise ProtocolError("bad_request", f"start and stop are whole numbers or null; got {bounds!r:.60}")
        indices = range(self._count(name, body.get("split")))[slice(*bounds)]
        if len(indices) > MAX_LISTED:
            raise ProtocolError("too_large", f"an answer has at most {MAX_LISTED} tasks")
        return {"tasks": [_task(body["split"], index) for index in indices], "env_name": name}

    def _task(self, name: str) -> Json:
        task = getattr(self.tables[name].first.unwrapped, "task", None)
        facts = {"style": call_style(self.tables[name].first), "tools": getattr(task, "tools", None)}
        return {**facts, "size": getattr(task, "size", None), "ours": task is not None}

    def _splits(self, name: str) -> Sequence[str]:
        return splits_of(self.tables[name].first)

    def _count(self, name: str, split: Any) -> int:
        if split not in self._splits(name):
            raise ProtocolError("invalid", f"{name} has no split {split!r:.60}; it has {', '.join(self._splits(name))}")
        size = self._task(name)["size"]
        return self._tasks if size is None else int(size)

    async def _counted(self, request: Request) -> tuple[tuple[str, str], int]:
        name, body = self._of_path(request), await self._body(request, "split")
        return (name, body.get("split", "")), self._count(name, body.get("split"))

    def _at(self, name: str, split: Any, index: Any) -> Json:
        count = self._count(name, split)
        if type(index) is not int or not 0 <= index < count:
            raise ProtocolError("invalid", f"index must be a whole number from 0 to {count - 1}; got {index!r:.60}")
        return _task(split, index)

    # sessions

    async def create_session(self, request: Request) -> Response:
        """An id for a session; it begins with ``/create``."""
        sid = secrets.token_hex(16)
        self._issued[sid] = None
        while len(self._issued) > ISSUED * self._limit + 16:
            self._issued.popitem(last=False)
        return event_stream(events_of([("task_id", sid), ("end", "")]))

    async def create(self, request: Request) -> Json:
        """Begin the task of a session; asked twice for the same, it begins once."""
        sid = self._sid(request)
        body = await self._body(request, "env_name", "task_spec", "split", "index", "toolset_name", "secrets")
        if (rollout := self._rollouts.get(sid)) and rollout.key in self.tables[rollout.name]:
            if rollout.asked != body:
                raise ProtocolError("invalid", "the session exists already, with another task")
            return {"sid": sid}
        if body.get("toolset_name") is not None or body.get("secrets"):
            raise ProtocolError("invalid", "our environments take neither a toolset nor secrets")
        if sid in self._creating:
            raise ProtocolError("busy", "the session is being created")
        if sid not in self._issued:
            raise ProtocolError("unknown_session", "this X-Session-ID is not one that /create_session gave")
        name = self._named(body.get("env_name"))
        self._creating.add(sid)
        try:
            self._rollouts[sid] = await self._begin(name, self._item(name, body), body)
            self._issued.pop(sid, None)
        finally:
            self._creating.discard(sid)
        self._forget()
        return {"sid": sid}

    def _item(self, name: str, body: Json) -> Json:
        """The seed and options of ``reset``, for what ``/create`` was given."""
        spec, by_index = body.get("task_spec"), (body.get("split"), body.get("index"))
        if (spec is None) == (by_index == (None, None)):
            raise ProtocolError("bad_request", "give a task_spec, or a split and an index, and not both")
        spec = self._at(name, *by_index) if spec is None else spec
        if not isinstance(spec, dict) or (unknown := sorted(map(str, spec.keys() - TASK_FIELDS))):
            what = kind_of(spec) if not isinstance(spec, dict) else f"{unknown[0]!r:.60}"
            raise ProtocolError("invalid", f"a task has {', '.join(sorted(TASK_FIELDS))}; got {what}")
        options = {key: value for key, value in spec.items() if key != "seed" and value is not None}
        seed = spec.get("seed", 0)
        if not self._task(name)["ours"]:  # it knows neither splits nor indices: an index is its seed
            seed, options = spec.get("seed", options.get("index", 0)), {}
        if type(seed) is not int or seed < 0 or seed.bit_length() > MAX_BITS:
            raise ProtocolError("invalid", f"seed must be a whole number from 0; got {seed!r:.60}")
        return {"seed": seed, "options": options or None}

    async def _begin(self, name: str, item: Json, body: Json) -> _Rollout:
        table = self.tables[name]
        (key,) = await table.open(WireRequest(_new(), "open", [], 1), None)
        try:
            result = _carried_out(await table.play(WireRequest(_new(), "reset", [{"session": key, **item}]), None))
            info = unpack(result["info"])
            opening = opening_messages(info.get("system"), info.get("examples", ()))
            messages: list[Json] = [{"role": each["role"], "blocks": [_text(each["content"])]} for each in opening]
            messages.append({"role": "user", "blocks": _blocks(result["observation"])})
            tools = _schemas(info.get("tools"))
            reply = next(
                free
                for free in itertools.chain([REPLY], map("reply_{}".format, itertools.count()))
                if free not in tools
            )
        except BaseException:
            await table.play(WireRequest(_new(), "close", [{"session": key}]), None)
            raise
        return _Rollout(name, key, body, messages, tools, reply, self._task(name)["style"])

    def _forget(self) -> None:
        """Let go of sessions that the tables have ended."""
        for sid, rollout in list(self._rollouts.items()):
            if rollout.key not in self.tables[rollout.name]:
                del self._rollouts[sid]

    async def ping(self, request: Request) -> Json:
        """Begin a session's time anew."""
        rollout = self._rollout(request)
        _carried_out(await self._play(rollout, "ping", {}))
        return {"status": "ok"}

    async def delete(self, request: Request) -> Json:
        """End a session, if there is one."""
        sid = self._sid(request)
        self._issued.pop(sid, None)
        if rollout := self._rollouts.pop(sid, None):
            await self._play(rollout, "close", {})
        return {"sid": sid}

    async def prompt(self, request: Request) -> list[Json]:
        """What the policy reads first: the system prompt, if any, worked examples and the first observation."""
        messages = self._rollout(request).messages
        if any(message["role"] == "assistant" for message in messages):  # no role tells question and answer apart
            shown = [Message(role=each["role"], content=each["blocks"][0]["text"]) for each in messages]
            return [_text(as_one_text(shown))]
        return [block for message in messages for block in message["blocks"]]

    async def messages(self, request: Request) -> list[Json]:
        """What the policy reads first, as messages with roles."""
        return self._rollout(request).messages

    async def task_tools(self, request: Request) -> Json:
        """The tools of a session."""
        rollout = self._rollout(request)
        return self._listed(rollout.tools, rollout.reply)

    def _listed(self, tools: Mapping[str, Json], reply: str = REPLY) -> Json:
        says = (
            "Say something that is no call of another tool: an answer, a move, the next message. It is the whole turn."
        )
        schema = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
        specs = [*tools.values(), {"name": reply, "description": says, "input_schema": schema}]
        return {
            "tools": specs,
            "terminal_tool": None,
            "supports_score_group": False,
            "message_block_types": ["text", "image"],
        }

    async def no_scores(self, request: Request) -> Json:
        """Groups are not compared here."""
        raise ProtocolError("not_found", "score_group is not served here: every call has its own reward")

    # calls

    async def call(self, request: Request) -> Response:
        """Play a turn; asked again with its ``task_id``, the same answer again."""
        rollout = self._rollout(request)
        body = await self._body(request, "name", "input", "task_id")
        name, arguments, task_id = body.get("name"), body.get("input", {}), body.get("task_id")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ProtocolError("bad_request", "a call has a name, a text, and an input, an object")
        if task_id is not None:
            if rollout.call is None or rollout.call[0] != task_id:
                return event_stream(
                    events_of([("error", "there is no such call in this session, or a later one followed it")])
                )
            return event_stream(events_of_call(*rollout.call))
        if rollout.call is not None and not rollout.call[1].done():
            raise ProtocolError(
                "busy", "the session is still at a call: wait for its end, or ask for it by its task_id"
            )
        rollout.call = (_new(), asyncio.create_task(self._called(rollout, name, arguments)))
        return event_stream(events_of_call(*rollout.call))

    async def _called(self, rollout: _Rollout, name: str, arguments: Json) -> str:
        """The answer to a call, as JSON; raises `ProtocolError` for a fault."""
        if rollout.lost:
            raise ProtocolError("env_error", rollout.over)
        if rollout.over:
            return _refused("episode_finished", rollout.over)
        if name == rollout.reply:
            if arguments.keys() != {"message"} or not isinstance(arguments["message"], str):
                return _refused("input_validation", f"{name} takes a message, a text, and nothing else")
            action = arguments["message"]
        elif name in rollout.tools:
            try:
                names = list((rollout.tools[name]["input_schema"] or {}).get("properties") or {})
                action = write_call(Call(name, arguments), rollout.style, names)
            except ValueError as error:
                return _refused("input_validation", str(error))
        else:
            tools = ", ".join([*rollout.tools, rollout.reply])
            return _refused("not_found", f"{name!r:.60} is not a valid tool; there are {tools}")
        try:
            result = _carried_out(await self._play(rollout, "step", {"action": action}))
            return self._answered(rollout, result)
        except ProtocolError as fault:
            rollout.over, rollout.lost = fault.message, True
            raise

    def _answered(self, rollout: _Rollout, result: Result) -> str:
        info = unpack(result["info"])
        verdict = info.get("verdict")
        if isinstance(verdict, Verdict) and not verdict.valid:
            raise ProtocolError("env_error", f"{verdict.status}: {verdict.reason}")
        finished = result["terminated"] or result["truncated"]
        blocks = _blocks(result["observation"])
        if finished:
            rollout.over = "the episode is over: delete the session"
            blocks = [block for block in blocks if block.get("text") != ""] or [
                _text(verdict.reason if verdict else "")
            ]
        facts: Json = {"truncated": result["truncated"], "turn": info.get("turn"), "role": info.get("role")}
        if isinstance(verdict, Verdict):
            facts["verdict"] = verdict.to_dict()
        output = {"blocks": blocks, "metadata": facts, "reward": float(result["reward"]), "finished": finished}
        return write({"ok": True, "output": output})

    async def _play(self, rollout: _Rollout, op: str, item: Json) -> list[Result]:
        request = WireRequest(_new(), op, [{"session": rollout.key, **item}], number=next(rollout.numbers))
        return await self.tables[rollout.name].play(request, None)

    def shutdown(self) -> None:
        """End all sessions and their environments."""
        self.gate.shutdown()


def application(app: OpenRewardApp) -> Starlette:
    """The ASGI application; its lifespan starts and ends the sessions."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    @contextlib.asynccontextmanager
    async def lifespan(served: Starlette) -> AsyncIterator[None]:
        app.gate.loop = asyncio.get_running_loop()
        for table in app.tables.values():
            table.start()
        sweeping = [asyncio.create_task(sweep(table)) for table in app.tables.values()]
        try:
            yield
        finally:
            for task in sweeping:
                task.cancel()
            app.shutdown()

    async def unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return json_response({"detail": f"there is no {request.method} {request.url.path[:100]} here"}, status)

    routes = [Route("/health", app.route(app.always({"status": "ok"}), public=True), methods=["GET"])]
    routes += [Route("/ready", answered(app.gate.health), methods=["GET"])]
    # What serves here, and what its tasks depend on (`rlvr.envs.tasks.digests`).
    version = {**BUILD, "env_digests": {name: table.env_digest for name, table in app.tables.items()}}
    for path, answer in {"/version": version, "/list_environments": list(app.tables)}.items():
        routes.append(Route(path, app.route(app.always(answer)), methods=["GET"]))
    posts: dict[str, Any] = {"/ping": app.ping, "/create": app.create, "/delete": app.delete}
    posts |= {"/create_session": app.create_session, "/delete_session": app.delete}
    routes += [Route(path, app.route(answer), methods=["POST"]) for path, answer in posts.items()]
    asked: dict[str, tuple[str, Any]] = {
        **{name: ("GET", getattr(app, name)) for name in ("tools", "splits", "task_tools", "prompt", "messages")},
        **{name: ("POST", getattr(app, name)) for name in ("tasks", "num_tasks", "task", "task_range", "call")},
        "score_group": ("POST", app.no_scores),
    }
    for name, (method, answer) in asked.items():
        routes += [Route(f"{start}/{name}", app.route(answer), methods=[method]) for start in ("", "/{env}")]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: unknown})


class OpenRewardServer(EnvServer):
    """Environments served by the standard at an address; as a context manager it runs in a thread beside.

    Args:
        env_ids: what is served. Each goes by its id's last part in lower case, such as ``sql-v0``.
        settings: given to ``gym.make`` of each. Tools are served as tools unless ``tools_in`` says otherwise.
        tasks: as in `OpenRewardApp`.
        options: as in `EnvServer`; ``limit`` is for each environment.

    Raises:
        ValueError: two environments of one name, or what `EnvServer` refuses.
    """

    def __init__(
        self,
        env_ids: Sequence[str],
        settings: dict[str, Any] | None = None,
        *,
        tasks: int = LISTED_TASKS,
        **options: Any,
    ) -> None:
        names = [env_id.rpartition("/")[2].lower() for env_id in env_ids]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"environments are served by different names, one at least; got {', '.join(names) or 'none'}"
            )
        self._env_ids, self._names, self._tasks = list(env_ids), names, tasks
        super().__init__(env_ids[0], settings, **options)

    def _table(self, env_id: str, settings: dict[str, Any] | None, **options: Any) -> SessionTable:
        self._tables: list[SessionTable] = []
        try:
            for each in self._env_ids:
                self._tables.append(_native(each, settings or {}, options))
        except BaseException:
            for table in self._tables:
                table.shutdown()
            raise
        return self._tables[0]

    def _application(self, hosts: Collection[str]) -> Starlette:
        tables = dict(zip(self._names, self._tables, strict=True))
        app = OpenRewardApp(tables, self.token, hosts, self._tasks)
        self._app = app.gate  # what drains
        return application(app)


def _native(env_id: str, settings: dict[str, Any], options: dict[str, Any]) -> SessionTable:
    """A table whose environments leave their tools to us. Where each task has tools of its own, they stay in the text:
    the standard lists an environment's before there is a task."""
    table = SessionTable(env_id, settings, **options)
    native = with_native_tools(table.first, settings)
    task = getattr(table.first.unwrapped, "task", None)
    each_has_its_own = isinstance(task, Task) and type(task).tool_schemas is not Task.tool_schemas
    if native == settings or getattr(task, "tools", None) or each_has_its_own:
        return table
    table.shutdown()
    return SessionTable(env_id, native, **options)


def _new() -> str:
    return secrets.token_hex(8)


def _task(split: str, index: int) -> Json:
    return {"split": split, "index": index}


def _text(text: str) -> Json:
    return {"text": text, "detail": None, "type": "text"}


def _blocks(observation: Any) -> list[Json]:
    """An observation of the table: a text, or a text and an image."""
    if isinstance(observation, str):
        return [_text(observation)]
    head, _, data = observation["image"]["$image"].partition(",")
    kind = head.removeprefix("data:").partition(";")[0]
    return [_text(observation["text"]), {"data": data, "mimeType": kind, "detail": None, "type": "image"}]


def _schemas(tools: Sequence[Mapping[str, Any]] | None) -> dict[str, Json]:
    functions = [tool.get("function", tool) for tool in tools or ()]
    return {
        tool["name"]: {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "input_schema": tool.get("parameters"),
        }
        for tool in functions
    }


def _carried_out(results: Sequence[Result]) -> Result:
    (result,) = results
    if "error" in result:
        raise ProtocolError(result["error"]["code"], result["error"]["message"])
    return result


def _refused(reason: str, error: str) -> str:
    return write({"ok": False, "error": error, "reason": reason})
