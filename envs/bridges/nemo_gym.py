"""Any resources server of NeMo Gym, by its address, as a text environment; docs/bridges.md.

>>> gym.make("rlvr/nemo_gym.Remote-v0", url="http://127.0.0.1:9001", rows="train.jsonl")   # doctest: +SKIP

Does what their ``gymnasium_agent`` does (``/reset``, then ``/step`` with an answer of the Responses API, the session in
a cookie), or, where a server has no ``/reset``, their ``simple_agent`` (``/seed_session``, the paths of tools, in the
end ``/verify``), and needs none of their packages. There, a task is a row of a JSONL file that is sent along.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from rlvr.envs.bridges.remote import (
    BridgedEnv,
    Refused,
    ServerError,
    ServerReply,
    ServerStep,
    answer_if_any,
    exchange,
    listed_digest,
)
from rlvr.envs.core.hints import check_reset_options
from rlvr.envs.core.seeding import stream
from rlvr.envs.core.tables import DataError, read_table
from rlvr.envs.tasks.digests import ServerDigest
from rlvr.envs.tasks.turns import split_opening
from rlvr.envs.tools.calls import Reading, split_calls
from rlvr.envs.tools.tool import shown_tools

Row = dict[str, Any]
SCHEMA = ("name", "description", "parameters")
CLOSE_SECONDS = 5.0


class NeMoGym(BridgedEnv):
    """Episodes of a resources server, each about a row.

    The seed gives the order of the rows; ``options={"index": 3}`` names one; a reset without either goes on.

    Where a row names tools, ``info["tools"]`` has their schemas and calls are read from the policy's text as Hermes and
    Qwen write them (``<tool_call>{"name": …, "arguments": {…}}</tool_call>``).

    Args:
        url: of the resources server.
        rows: a file of JSON lines as NeMo Gym reads them, or such rows.
        settings: as `RemoteEnv`.

    Raises:
        DataError: the rows cannot be read, or are none.
    """

    def __init__(self, url: str, *, rows: str | Path | Sequence[Mapping[str, Any]], **settings: Any) -> None:
        super().__init__(url, **settings)
        self.rows = rows
        self._table = _read(rows)
        self._order: list[int] = []
        self._drawn, self._index = 0, 0
        self._row: Row = {}
        self._cookies: dict[str, str] = {}
        self._closes = False
        self._tools: dict[str, list[str]] = {}
        self._output: list[Row] = []  # what ``/verify`` is to read: answers, calls and their outputs

    elsewhere = BridgedEnv.elsewhere | {"rows"}

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self._table)

    def asked_and_hidden(self) -> tuple[str, list[Any]]:
        """What is asked, and the values of the row that the policy is not shown: the server may compare with one."""
        rest = [value for name, value in self._row.items() if name not in ("responses_create_params", "agent_ref")]
        return json.dumps(self._row.get("responses_create_params"), ensure_ascii=False), rest

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"rows": self.rows}

    def _asked_digest(self, until: float) -> ServerDigest:
        """The rows are here; NeMo Gym's servers say nothing of themselves."""
        return ServerDigest(rows=listed_digest(self._table))

    def _begin(self, seed: int | None, options: Mapping[str, Any]) -> ServerStep:
        self._leave()
        self._choose(seed, options)
        until = time.monotonic() + self.timeout
        self._cookies, self._output = {}, []
        if "verifies" not in self._known:
            listed = answer_if_any(f"{self.url}/openapi.json", None, self.headers, until)
            paths = listed.get("paths") if isinstance(listed, dict) else None
            self._known["verifies"] = isinstance(paths, dict) and "/verify" in paths and "/reset" not in paths
        path = "/seed_session" if self._known["verifies"] else "/reset"
        server_step = _object(self._post(path, self._row, until), path)
        info = server_step.get("info") or {}
        self._closes = info.get("supports_explicit_close") is True
        asked = self._row["responses_create_params"]
        system, examples, text = _conversation(asked.get("input"))
        text_shown = "\n\n".join(part for part in (text, server_step.get("observation")) if part)
        facts: Row = {"index": self._index}
        if system:
            facts["system"] = system
        if examples:
            facts["examples"] = examples
        tools = [tool for tool in asked.get("tools") or () if isinstance(tool, dict) and tool.get("type") == "function"]
        self._tools = {tool["name"]: list((tool.get("parameters") or {}).get("properties", {})) for tool in tools}
        if tools:
            schemas = ({k: tool[k] for k in SCHEMA if k in tool} for tool in tools)
            facts["tools"] = shown_tools({"type": "function", "function": schema} for schema in schemas)
        return ServerStep(text_shown, info=facts)

    def _play(self, action: str) -> ServerStep:
        if self._known["verifies"]:
            return self._called_or_verified(self._response(action))
        body = {**self._row, "response": self._response(action)}
        server_step = _object(self._post("/step", body, time.monotonic() + self.timeout), "/step")
        info = server_step.get("info") or {}
        outputs = [str(each.get("output")) for each in info.get("tool_outputs") or () if isinstance(each, dict)]
        text_shown = server_step.get("observation")
        terminated = server_step.get("terminated") is True
        truncated = server_step.get("truncated") is True and not terminated
        text = "\n\n".join([*outputs, *([text_shown] if isinstance(text_shown, str) and text_shown else [])])
        role = {"role": "tool"} if outputs and not text_shown else {}
        return ServerStep(text, server_step.get("reward"), terminated, truncated, {"index": self._index, **role})

    def _called_or_verified(self, response: Row) -> ServerStep:
        """Calls go to the paths of their tools; an answer without one ends the episode, and is scored."""
        until = time.monotonic() + self.timeout
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        if other := [call["name"] for call in calls if call["name"] not in self._tools]:
            raise Refused(f"There is no tool {other[0][:50]!r}.")
        self._output += response["output"]
        outputs: list[str] = []
        for call in calls:
            answer = self._post(f"/{call['name']}", json.loads(call["arguments"]), until).body
            outputs.append(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))  # as it was sent
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": outputs[-1]}
            self._output.append(output)
        if calls:
            return ServerStep("\n\n".join(outputs), info={"index": self._index, "role": "tool"})
        body = {**self._row, "response": {**response, "output": self._output}}
        scored = _object(self._post("/verify", body, until), "/verify")
        reward = None if scored.get("mask_sample") is True else scored.get("reward")  # it says that it could not score
        return ServerStep(str(scored.get("failure_reason") or ""), reward, True, info={"index": self._index})

    def _leave(self) -> None:
        if self._cookies and self._closes:
            with suppress(OSError, ServerError):  # it is gone, or forgets the session by itself
                self._post("/close", {}, time.monotonic() + min(CLOSE_SECONDS, self.timeout))
        self._cookies = {}

    def _choose(self, seed: int | None, options: Mapping[str, Any]) -> None:
        """The row of this episode."""
        options = check_reset_options(options, ("index",))
        if seed is not None:
            self._order, self._drawn = list(range(self.size)), 0
            stream("NeMoGym", "order", int(seed)).shuffle(self._order)
        index = options.get("index")
        if index is None:
            self._order = self._order or list(range(self.size))
            index, self._drawn = self._order[self._drawn % self.size], self._drawn + 1
        elif not isinstance(index, int) or not 0 <= index < self.size:
            raise ValueError(f"index must be a whole number below {self.size}, got {index!r}")
        self._index, self._row = index, self._table[index]

    def _response(self, action: str) -> Row:
        """The policy's text as an answer of the Responses API."""
        name = f"{self._seed}-{self._index}-{self._turn}"
        before, reading = split_calls(action, "hermes", self._tools) if self._tools else (action, Reading())
        if reading.problem:
            raise Refused(f"The call cannot be read: {reading.problem}")
        calls = reading.calls
        text_shown = before.strip() if calls else action
        output: list[Row] = []
        if text_shown or not calls:
            content = [{"type": "output_text", "text": text_shown, "annotations": []}]
            message = {"type": "message", "id": f"msg-{name}", "role": "assistant", "status": "completed"}
            output.append({**message, "content": content})
        for index, call in enumerate(calls):
            names = {"id": f"fc-{name}-{index}", "call_id": f"call-{name}-{index}", "name": call.name}
            arguments = json.dumps(dict(call.arguments))
            output.append({"type": "function_call", **names, "arguments": arguments, "status": "completed"})
        return {
            "id": f"resp-{name}",
            "created_at": 0.0,
            "model": "rlvr",
            "object": "response",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def _post(self, path: str, body: Row, until: float) -> ServerReply:
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        reply = exchange(self.url + path, body, self.headers | ({"Cookie": cookie} if cookie else {}), until)
        for line in reply.cookies:
            try:
                self._cookies |= {name: morsel.coded_value for name, morsel in SimpleCookie(line).items()}
            except CookieError as error:
                raise ServerError(f"{self.url}{path} set a cookie that cannot be read: {error}") from error
        return reply


def _read(rows: str | Path | Sequence[Mapping[str, Any]]) -> list[Row]:
    table = read_table(Path(rows)) if isinstance(rows, str | Path) else [dict(row) for row in rows]
    if not table:
        raise DataError("there are no rows: a task of NeMo Gym is a row")
    for index, row in enumerate(table):
        if not isinstance(row, dict) or not isinstance(row.get("responses_create_params"), dict):
            raise DataError(f"row {index} has no responses_create_params: it is no row of NeMo Gym")
    return table


def _object(reply: ServerReply, path: str) -> Row:
    if reply.status != 200 or not isinstance(reply.body, dict):
        raise ServerError(f"{path} was answered with status {reply.status}: {json.dumps(reply.body)[:500]}")
    if not isinstance(reply.body.get("info") or {}, dict):
        raise ServerError(f"{path} was answered with an info that is no object")
    return reply.body


def _conversation(messages: Any) -> tuple[str, list[dict[str, str]], str]:
    """The system prompt of a row's input, turns of worked examples, and what the policy reads first."""
    if isinstance(messages, str):
        return "", [], messages
    items = [item for item in messages or () if isinstance(item, dict)]
    return split_opening([(str(item.get("role", item.get("type", ""))), _words(item)) for item in items])


def _words(item: Mapping[str, Any]) -> str:
    content = item.get("content", item.get("output", item.get("arguments", "")))
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)
