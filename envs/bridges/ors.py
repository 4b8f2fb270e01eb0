"""Any server of the Open Reward Standard, by its address, as a text environment; docs/bridges.md.

>>> gym.make("rlvr/ors.Remote-v0", url="http://127.0.0.1:8080", split="test")   # doctest: +SKIP

Speaks the HTTP of ``openreward`` 0.1 (JSON, and server-sent events for what takes long) and needs none of its packages.
There, a policy acts by calls of tools, each of which may be worth something.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rlvr.envs.bridges.remote import (
    BridgedEnv,
    Refused,
    ServerError,
    ServerStep,
    answer_if_any,
    exchange,
    exchange_text,
    function_schema,
    listed_digest,
    reported_digest,
)
from rlvr.envs.core.hints import check_reset_options
from rlvr.envs.core.seeding import shuffled_index, stream
from rlvr.envs.tasks.digests import ServerDigest
from rlvr.envs.tasks.turns import split_opening
from rlvr.envs.tools.calls import read_calls
from rlvr.envs.tools.tool import shown_tools

Json = dict[str, Any]
CLOSE_SECONDS = 5.0
FULL_PAUSE = 0.2  # seconds until a server that was full, or still starting, is asked again
REPLY = "reply"


class OpenReward(BridgedEnv):
    """Sessions of a server, each about a task of a split.

    The seed gives the order of the tasks; ``options={"index": 3}`` names one, ``{"split": "test"}`` another split; a
    reset without a seed or an index goes on.

    ``info["tools"]`` has the schemas of the tools, and calls are read from the policy's text as Hermes and Qwen write
    them. Calls of one text are carried out in order, until the end, and their rewards are added. A text without a call
    goes to the tool ``text_tool``; where that is the only one, ``info`` has no tools.

    Args:
        url: of the server.
        env: name of the environment there; None: the server's first.
        split: of its tasks.
        text_tool: the tool that takes a text without a call, as its only argument. None: the server's terminal tool,
            else one called ``reply``, else the only one; a text without a call is refused where none takes a text.
        settings: as `BridgedEnv`; a key goes into ``headers``, as ``{"X-API-Key": …}``.
    """

    def __init__(
        self, url: str, *, env: str | None = None, split: str = "train", text_tool: str | None = None, **settings: Any
    ) -> None:
        super().__init__(url, **settings)
        if env is not None and (not env or set(env) & set("/?#% ")):
            raise ValueError(f"env must be the name of an environment, got {env!r:.60}")
        self.env, self.split, self.text_tool = env, split, text_tool
        self._sid: str | None = None
        self._counts: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        self._terminal: tuple[str, str | None] | None = None
        self._order, self._drawn = 0, 0

    @property
    def _start(self) -> str:
        """Where the environment's paths begin; the root is the first one's, and some servers redirect from there."""
        name = self.env or self._known.get("first")
        return f"/{name}" if name else ""

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"env": self.env, "split": self.split, "text_tool": self.text_tool}

    def _asked_digest(self, until: float) -> ServerDigest:
        """What ``/version`` reports: a server of rlvr the digest of each environment, others a version and a build.

        Their rows are the tasks that they list of the split.
        """
        about = answer_if_any(f"{self.url}/version", None, self.headers, until, required=True)
        about = about if isinstance(about, dict) else {}
        if isinstance(digests := about.get("env_digests"), dict) and digests:
            name = next(iter(digests)) if self.env is None else self.env.lower()
            if (reported := reported_digest(digests.get(name))) is not None:
                return reported
        listed = answer_if_any(f"{self.url}{self._start}/tasks", {"split": self.split}, self.headers, until)
        tasks = listed.get("tasks") if isinstance(listed, dict) else None
        code = " ".join(str(about[name]) for name in ("version", "build_sha") if about.get(name))
        return ServerDigest(listed_digest(tasks), code=code)

    def _begin(self, seed: int | None, options: Mapping[str, Any]) -> ServerStep:
        self._leave()
        until = time.monotonic() + self.timeout
        if self.env is None and "first" not in self._known:
            listed = answer_if_any(f"{self.url}/list_environments", None, self.headers, until)
            self._known["first"] = listed[0] if isinstance(listed, list) and listed else ""
        split, index = self._choose(seed, options, until)
        self._sid = self._opened(until)
        try:
            name = {} if self.env is None else {"env_name": self.env}
            self._created({**name, "split": split, "index": index}, until)
            system, examples, text = self._asked(until)
            tools = self._listed(until)
        except BaseException:
            self._leave()
            raise
        facts: Json = {"index": index, "split": split}
        facts |= {"system": system} if system else {}
        facts |= {"examples": examples} if examples else {}
        facts |= {"tools": shown_tools(tools)} if tools else {}
        return ServerStep(text, info=facts)

    def _play(self, action: str) -> ServerStep:
        if self._sid is None:
            raise ConnectionError(f"the session at {self.url} is closed")
        until = time.monotonic() + self.timeout
        parsed = read_calls(action, "hermes", self._names)
        if parsed.problem:
            raise Refused(parsed.problem)
        calls = [(call.name, dict(call.arguments)) for call in parsed.calls] or [self._as_text(action)]
        texts: list[str] = []
        rewards: list[Any] = []
        output: Json = {}
        for name, arguments in calls:
            try:
                output = self._called(name, arguments, until)
            except Refused as complaint:
                if not output:
                    raise
                texts.append(str(complaint))  # what was carried out before it counts
                break
            texts.append(_text_of(output.get("blocks")))
            rewards += [] if output.get("reward") is None else [output["reward"]]
            if output.get("finished") is True:
                break
        metadata = output.get("metadata")
        finished = output.get("finished") is True
        truncated = finished and isinstance(metadata, dict) and metadata.get("truncated") is True
        earned = sum(rewards) if rewards else None
        role = {"role": "tool"} if parsed.calls and not finished else {}
        return ServerStep("\n\n".join(texts), earned, finished and not truncated, truncated, role)

    def _leave(self) -> None:
        if self._sid is not None:
            with suppress(OSError, ServerError):  # it is gone, or forgets the session by itself
                self._ask("/delete", {}, time.monotonic() + min(CLOSE_SECONDS, self.timeout))
        self._sid = None

    # a task

    def _choose(self, seed: int | None, options: Mapping[str, Any], until: float) -> tuple[str, int]:
        options = check_reset_options(options, ("index", "split"))
        split = options.get("split") or self.split
        if split not in self._counts:
            count = self._object(f"{self._start}/num_tasks", {"split": split}, until).get("num_tasks")
            if type(count) is not int or count < 1:
                raise ServerError(f"{self.url} has no tasks in split {split!r:.60}: {count!r:.60}")
            self._counts[split] = count
        count, index = self._counts[split], options.get("index")
        if seed is not None:
            self._order, self._drawn = stream("OpenReward", "order", int(seed)).getrandbits(32), 0
        if index is None:
            epoch, position = divmod(self._drawn, count)
            index = shuffled_index(position, count, "OpenReward", self._order, epoch)
            self._drawn += 1
        elif type(index) is not int or not 0 <= index < count:
            raise ValueError(f"index must be a whole number below {count}, got {index!r:.60}")
        return split, index

    def _opened(self, until: float) -> str:
        self._sid = None
        sid = next(
            (data.strip() for event, data in self._events("/create_session", {}, until) if event == "task_id"), ""
        )
        if not sid or not sid.isprintable() or len(sid) > 200:
            raise ServerError(f"{self.url} gave no session: {sid!r:.60}")
        return sid

    def _created(self, task: Json, until: float) -> None:
        """Begin the task; waits while the server is full."""
        while True:
            status, body = self._ask("/create", task, until)
            if status == 200:
                return
            if status not in (429, 503):
                kind = ValueError if status in (400, 422) else ServerError
                raise kind(f"{self.url} cannot begin an episode: {_detail(status, body)}")
            if time.monotonic() + FULL_PAUSE > until:
                raise TimeoutError(f"{self.url} had no session within {self.timeout:g} s: {_detail(status, body)}")
            time.sleep(FULL_PAUSE)

    def _asked(self, until: float) -> tuple[str, list[dict[str, str]], str]:
        """The system prompt, turns of worked examples, and what the policy reads first."""
        status, body = self._ask(f"{self._start}/messages", None, until)
        if status == 404:  # a server before 0.1.157
            status, body = self._ask(f"{self._start}/prompt", None, until)
            body = [{"role": "user", "blocks": body}]
        if status != 200 or not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
            raise ServerError(f"{self.url} gave no prompt: {_detail(status, body)}")
        return split_opening([(str(each.get("role")), _text_of(each.get("blocks"))) for each in body])

    def _listed(self, until: float) -> list[Json]:
        """The schemas that the policy needs; decides what becomes of a text without a call."""
        status, body = self._ask(f"{self._start}/task_tools", None, until)
        if status == 404:
            status, body = self._ask(f"{self._start}/tools", None, until)
        listed = body.get("tools") if status == 200 and isinstance(body, dict) else None
        if not isinstance(listed, list) or not all(
            isinstance(t, dict) and isinstance(t.get("name"), str) for t in listed
        ):
            raise ServerError(f"{self.url} lists no tools: {_detail(status, body)}")
        schemas = {tool["name"]: tool.get("input_schema") or {} for tool in listed}
        self._names = {name: list(schema.get("properties") or {}) for name, schema in schemas.items()}
        self._terminal = self._taker(body.get("terminal_tool"), schemas)
        if self._terminal and list(schemas) == [self._terminal[0]]:
            return []
        return [function_schema(tool, {"type": "object", "properties": {}}) for tool in listed]

    def _taker(self, terminal: Any, schemas: Mapping[str, Any]) -> tuple[str, str | None] | None:
        """The tool that takes a text without a call, and its argument."""
        if self.text_tool is None and isinstance(terminal, dict) and isinstance(terminal.get("name"), str):
            return terminal["name"], terminal.get("arg")
        texts = {
            name: next(iter(schema["properties"]))
            for name, schema in schemas.items()
            if len(schema.get("properties") or {}) == 1
            and next(iter(schema["properties"].values())).get("type") == "string"
        }
        name = self.text_tool or (REPLY if REPLY in texts else next(iter(schemas)) if len(schemas) == 1 else None)
        if self.text_tool is not None and name not in texts:
            raise ValueError(f"no tool {name!r} of {self.url} takes one text; there are {', '.join(schemas)}")
        return (name, texts[name]) if name in texts else None

    # a call

    def _as_text(self, action: str) -> tuple[str, Json]:
        if self._terminal is None:
            raise Refused(f"Call a tool: {', '.join(self._names)}.")
        name, argument = self._terminal
        return name, {} if argument is None else {argument: action}

    def _called(self, name: str, arguments: Json, until: float) -> Json:
        """What a call gave. Raises `Refused` for one that was not carried out."""
        pieces: list[str] = []
        for event, data in self._events(f"{self._start}/call", {"name": name, "input": arguments}, until):
            if event == "error":
                raise ServerError(data)
            pieces += [data] if event in ("chunk", "end") else []
            if event == "end":
                break
        else:
            raise ServerError(f"the answer of {self.url} has no end")
        try:
            answer = json.loads("".join(pieces))
        except (ValueError, RecursionError) as error:
            raise ServerError(f"the answer of {self.url} is no JSON: {error}") from error
        if not isinstance(answer, dict) or answer.get("ok") not in (True, False):
            raise ServerError(f"the answer of {self.url} is none of the standard: {json.dumps(answer)[:200]}")
        if not answer["ok"]:
            complaint = str(answer.get("error"))
            if answer.get("reason") in (None, "not_found", "name_collision", "input_validation"):
                raise Refused(complaint)
            raise ServerError(complaint)
        output = answer.get("output")
        if not isinstance(output, dict) or not isinstance(output.get("finished"), bool):
            raise ServerError(f"the answer of {self.url} does not say whether that was the end")
        return output

    # the wire

    def _ask(self, path: str, body: Json | None, until: float) -> tuple[int, Any]:
        reply = exchange(self.url + path, body, self._bearing(), until)
        return reply.status, reply.body

    def _object(self, path: str, body: Json, until: float) -> Json:
        status, answer = self._ask(path, body, until)
        if status != 200 or not isinstance(answer, dict):
            kind = ValueError if status in (400, 422) else ServerError
            raise kind(f"{self.url}{path}: {_detail(status, answer)}")
        return answer

    def _events(self, path: str, body: Json, until: float) -> list[tuple[str, str]]:
        status, data, _ = exchange_text(self.url + path, body, self._bearing() | {"Accept": "text/event-stream"}, until)
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        if status != 200:
            with suppress(ValueError, RecursionError):
                text = _detail(status, json.loads(text))
            raise ServerError(f"{self.url}{path}: {text[:500]}")
        events = []
        for block in text.split("\n\n"):
            lines = [line.partition(":")[::2] for line in block.split("\n") if line and not line.startswith(":")]
            event = "".join(value.strip() for name, value in lines if name == "event")
            if event:
                events.append((event, "\n".join(v.removeprefix(" ") for name, v in lines if name == "data")))
        return events

    def _bearing(self) -> dict[str, str]:
        return self.headers | ({"X-Session-ID": self._sid} if self._sid else {})


def _detail(status: int, body: Any) -> str:
    detail = body.get("detail") if isinstance(body, dict) else body
    return f"status {status}, {json.dumps(detail)[:400]}"


def _text_of(blocks: Any) -> str:
    """The texts of blocks; a block that holds none is refused: a policy would miss what it shows."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise ServerError(f"blocks are a list of objects, got {json.dumps(blocks)[:200]}")
    if strange := [block for block in blocks if not isinstance(block.get("text"), str)]:
        kind = str(strange[0].get("type", "block"))[:40]
        raise ServerError(f"the server shows a block of type {kind!r}, and this bridge hands on texts alone")
    return "\n\n".join(block["text"] for block in blocks)
