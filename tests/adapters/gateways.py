"""A gateway that keeps every law, and the faults that are planted into what it says.

    PYTHONPATH=. .venv/bin/python -m tests.adapters.gateways    # the table of docs/conform.md

`RightGateway` is the chat server of ``rlvr serve-model`` with what it lacks: streams, stop strings, calls and thoughts
as fields. At temperature 0 it says what a script says, byte by byte, so that its ids are none that an encoder would
choose; above it samples from the model. `FaultyGateway` stands before it and alters requests or answers.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlvr.adapters.conformance.probes import LONG, THINK_TURNS, TOOL_TURNS, UNICODE, UNICODE_TURNS, WORDS
from rlvr.adapters.serving.generate_server import CHAT_PATH, ChatServer
from rlvr.adapters.serving.loopback import Answer, HttpRequest, LoopbackServer, ServerEvent
from rlvr.adapters.testing import score

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "Zürich", "days": 3}}\n</tool_call>'
CALL_PARTS = re.compile(r'<tool_call>\n\{"name": "(\w+)", "arguments": (\{.*?\})\}\n</tool_call>', re.DOTALL)
THOUGHT_PARTS = re.compile(r"<think>(.*?)</think>(.*)", re.DOTALL)
SCRIPT = {
    WORDS[0]: " What is red, blue and gray? \n",
    WORDS[1]: "the sky has blue",
    WORDS[2]: "Then  good day!",
    UNICODE_TURNS[0]: UNICODE,
    UNICODE_TURNS[1]: f"{UNICODE}{UNICODE}"[:30],
    THINK_TURNS[0]: "<think>17 and 25 makes 42</think>\n\n42",
    THINK_TURNS[1]: "<think>times 2</think>84",
    TOOL_TURNS[0]: f"I look.{CALL}",
    TOOL_TURNS[1]: "It does.",
    LONG: "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen and more",
}


class RightGateway(ChatServer):
    """Keeps every law."""

    def __init__(self, policy: Any, **options: Any) -> None:
        model, tokenizer = policy
        super().__init__(model, tokenizer, max_length=4_096, **options)

    def _answer(self, request: HttpRequest) -> dict[str, Any] | Any:
        if request.path != CHAT_PATH:
            return super()._answer(request)
        body = dict(request.body)
        stops, is_stream = body.pop("stop", None), body.pop("stream", False)
        body.pop("stream_options", None)
        body["messages"] = [as_text(message) for message in body["messages"]]
        answer = self._chat(body)
        for choice in answer["choices"]:
            for stop in stops or ():
                self._stop(choice, stop)
            split_message(choice["message"], choice)
        sampled = sum(len(choice["token_ids"]) for choice in answer["choices"]) if stops else None
        if sampled is not None:
            answer["usage"]["completion_tokens"] = sampled
            answer["usage"]["total_tokens"] = sampled + answer["usage"]["prompt_tokens"]
        return pieces(answer, self.renderer) if is_stream else answer

    def _stop(self, choice: dict[str, Any], stop: str) -> None:
        text, ids = choice["message"]["content"], choice["token_ids"]
        end = text.find(stop)
        if end < 0:
            return
        count = next(n for n in range(1, len(ids) + 1) if stop in self.renderer.decode(ids[:n]))
        choice["message"]["content"], choice["token_ids"] = text[:end], ids[:count]
        choice["logprobs"]["content"] = choice["logprobs"]["content"][:count]
        choice["finish_reason"] = "stop"

    def _sample(self, jobs: list[Any], ends: frozenset[int], sampling: Any) -> None:
        """The script's words, scored by the model; sampled by it above temperature 0."""
        if not sampling.greedy:
            super()._sample(jobs, ends, sampling)
            return
        for job in jobs:
            text = self.renderer.tokenizer.decode(job.prompt)
            asked = max(SCRIPT, key=text.rfind)
            words = SCRIPT[asked] if asked in text else f"as you said, {text[-24:-13]}"
            ids = [*words.encode(), self.renderer.end_id][: job.limit]
            scores = score(self.model, job.prompt + ids)[len(job.prompt) :]
            job.done.set_result((ids, [min(0.0, each) for each in scores], self.version))


def as_text(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose thought and calls stand in its text, as they were written."""
    content = message.get("content") or ""
    if thought := message.get("reasoning_content"):
        content = f"<think>{thought}</think>{content}"
    for call in message.get("tool_calls") or ():
        function = call["function"]
        written = f'{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}'
        content += f"<tool_call>\n{written}\n</tool_call>"
    return {"role": message["role"], "content": content}


def split_message(message: dict[str, Any], choice: dict[str, Any]) -> None:
    """Put the thought and the calls of a message into fields of their own."""
    text = message["content"]
    if thought := THOUGHT_PARTS.fullmatch(text):
        message["reasoning_content"], text = thought.groups()
    if calls := CALL_PARTS.findall(text):
        functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": function}
            for number, function in enumerate(functions)
        ]
        text = CALL_PARTS.sub("", text)
        choice["finish_reason"] = "tool_calls"
    message["content"] = text


def pieces(answer: Mapping[str, Any], renderer: Any) -> list[dict[str, Any]]:
    """The chunks of a stream: one for each token, with as many whole characters as there are by then."""
    head = {"id": answer["id"], "object": "chat.completion.chunk", "model": answer["model"]}
    chunks: list[dict[str, Any]] = []
    for choice in answer["choices"]:
        message, shown = choice["message"], 0
        whole, ids = message["content"], choice.get("token_ids") or []
        plain = "reasoning_content" not in message and "tool_calls" not in message
        scores = (choice.get("logprobs") or {}).get("content")
        for at, token in enumerate(ids):
            text = renderer.decode(ids[: at + 1]).rstrip("\ufffd") if plain else ""
            delta: dict[str, Any] = {"content": whole[shown : len(text)]} if plain else {}
            shown = max(shown, min(len(text), len(whole)))
            piece = {"index": choice["index"], "delta": delta, "token_ids": [token], "finish_reason": None}
            chunks.append(head | {"choices": [piece | ({"logprobs": {"content": [scores[at]]}} if scores else {})]})
        rest: dict[str, Any] = {name: message[name] for name in ("reasoning_content",) if name in message}
        rest |= {"content": whole[shown:]}
        if "tool_calls" in message:
            rest["tool_calls"] = [call | {"index": number} for number, call in enumerate(message["tool_calls"])]
        last = {"index": choice["index"], "delta": rest, "finish_reason": choice["finish_reason"]}
        chunks.append(head | {"choices": [last]})
    chunks[0]["prompt_token_ids"] = answer.get("prompt_token_ids")
    return [*chunks, head | {"choices": [], "usage": answer["usage"]}]


Body = dict[str, Any]


@dataclass(frozen=True)
class GatewayFault:
    """One fault.

    Attributes:
        name, sentence: what the gateway does.
        law: the law that it breaks; others may break with it.
        request: alters the body of a request.
        answer: alters a whole answer.
        chunks: alters the chunks of a stream; by default each choice is altered as a whole answer's is not.
        server: wraps how the right gateway answers, for what no body shows.
    """

    name: str
    sentence: str
    law: str
    request: Callable[[Body], None] | None = None
    answer: Callable[[Body], None] | None = None
    chunks: Callable[[list[Body]], list[Body]] | None = None
    server: Callable[[RightGateway, Body, Callable[[Body], Any]], Any] | None = None


class FaultyGateway:
    """Stands before a right gateway and alters what passes; what the right one said to the same body is remembered.

    Args:
        right: the gateway.
        fault: None alters nothing.
        remembered: answers by request, shared between the gateways of one test run; None asks each time.
    """

    def __init__(self, right: RightGateway, fault: GatewayFault | None, remembered: dict[str, Any] | None) -> None:
        self.right, self.fault, self.remembered = right, fault, remembered
        self._server = LoopbackServer(self._reply, key=None, name="faulty gateway")
        self.url = f"{self._server.url}/v1"

    def __enter__(self) -> FaultyGateway:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _ask(self, body: Body) -> Any:
        """The right gateway's own answer: an object, or the chunks of a stream."""
        key = json.dumps(body, sort_keys=True)
        if self.remembered is None:
            return self.right._answer(HttpRequest("POST", CHAT_PATH, {}, body))
        if key not in self.remembered:
            self.remembered[key] = self.right._answer(HttpRequest("POST", CHAT_PATH, {}, body))
        return copy.deepcopy(self.remembered[key])

    def _reply(self, request: HttpRequest) -> Answer:
        body, fault = copy.deepcopy(request.body), self.fault
        if fault and fault.request:
            fault.request(body)
        answer = fault.server(self.right, body, self._ask) if fault and fault.server else self._ask(body)
        if isinstance(answer, dict):
            if fault and fault.answer:
                fault.answer(answer)
            return answer
        return events(fault.chunks(answer) if fault and fault.chunks else answer)


def events(chunks: list[Body]) -> Iterator[ServerEvent]:
    """The events of a stream."""
    for chunk in chunks:
        yield ServerEvent(json.dumps(chunk, ensure_ascii=False))
    yield ServerEvent("[DONE]")


# what the faults do


def each_choice(change: Callable[[Body], None]) -> Callable[[Body], None]:
    def answer(body: Body) -> None:
        for choice in body["choices"]:
            change(choice)

    return answer


def logprobs_of(choice: Body) -> list[Body]:
    return (choice.get("logprobs") or {}).get("content") or []


def shift_left(choice: Body) -> None:
    scores = logprobs_of(choice)
    values = [each["logprob"] for each in scores]
    for each, value in zip(scores, [*values[1:], 0.0], strict=False):
        each["logprob"] = value


def shift_right(choice: Body) -> None:
    scores = logprobs_of(choice)
    values = [each["logprob"] for each in scores]
    for each, value in zip(scores, [0.0, *values[:-1]], strict=False):
        each["logprob"] = value


def top_instead(right: RightGateway, body: Body, ask: Callable[[Body], Any]) -> Any:
    import torch

    answer = ask(body)
    if isinstance(answer, dict) and "prompt_token_ids" in answer:
        for choice in answer["choices"]:
            ids = answer["prompt_token_ids"] + choice["token_ids"]
            with torch.no_grad():
                logits = right.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
            best = logits.log_softmax(-1).max(-1).values.tolist()[len(answer["prompt_token_ids"]) - 1 : -1]
            for each, value in zip(logprobs_of(choice), best, strict=False):
                each["logprob"] = min(0.0, value)
    return answer


def set_logprob(value: float) -> Callable[[Body], None]:
    def change(choice: Body) -> None:
        for each in logprobs_of(choice)[2:3]:
            each["logprob"] = value

    return change


def drop_token(choice: Body) -> None:
    if len(choice.get("token_ids", ())) > 3:
        del choice["token_ids"][2]


def strip_end(body: Body) -> None:
    """Ids, log-probabilities and usage agree: the end token is in none of them."""
    for choice in body["choices"]:
        if choice["finish_reason"] != "length" and choice.get("token_ids"):
            choice["token_ids"].pop()
            logprobs_of(choice)[-1:] = []
            body["usage"]["completion_tokens"] -= 1
            body["usage"]["total_tokens"] -= 1


def forget(right: RightGateway, body: Body, ask: Callable[[Body], Any]) -> Any:
    """The history is encoded anew from its text."""
    forgetful = copy.copy(right)
    forgetful._replies = OrderedDict()
    return forgetful._answer(HttpRequest("POST", CHAT_PATH, {}, body))


class PlainRenderer:
    """A renderer that reads special tokens in anybody's text."""

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._renderer, name)

    def render(self, conversation: Any) -> list[int]:
        if conversation.rendered:
            return list(self._renderer.render(conversation))
        text = self._renderer.tokenizer.apply_chat_template(
            conversation.messages, add_generation_prompt=True, tokenize=False
        )
        return list(self._renderer.tokenizer.encode(text, add_special_tokens=False))


class DoublingRenderer(PlainRenderer):
    """A renderer whose template ends every reply, also one that has ended."""

    def render(self, conversation: Any) -> list[int]:
        ids = list(self._renderer.render(conversation))
        return [self._renderer.end_id, *ids] if conversation.rendered else ids


def with_renderer(kind: type[PlainRenderer]) -> Callable[..., Any]:
    def server(right: RightGateway, body: Body, ask: Callable[[Body], Any]) -> Any:
        other = copy.copy(right)
        other.renderer = kind(right.renderer)  # type: ignore[assignment]
        return other._answer(HttpRequest("POST", CHAT_PATH, {}, body))

    return server


def said_before(change: Callable[[Body], None]) -> Callable[[Body], None]:
    """Alters the assistant's messages of a request."""

    def request(body: Body) -> None:
        for message in body["messages"]:
            if message["role"] == "assistant":
                change(message)

    return request


def strip_thought(message: Body) -> None:
    message.pop("reasoning_content", None)
    message["content"] = re.sub(r"<think>.*?</think>\s*", "", message["content"] or "", flags=re.DOTALL)


def trim_sent(message: Body) -> None:
    message["content"] = (message["content"] or "").strip()


def trim_reply(choice: Body) -> None:
    choice["message"]["content"] = choice["message"]["content"].strip()


def merge(body: Body) -> None:
    if len(body["messages"]) == 3:
        texts = [as_text(message)["content"] for message in body["messages"]]
        body["messages"] = [{"role": "user", "content": "\n\n".join(texts)}]


def drop_earlier(body: Body) -> None:
    if len(body["messages"]) > 3:
        body["messages"] = [body["messages"][0], *body["messages"][-3:]]


def drop_results(body: Body) -> None:
    for message in body["messages"]:
        if message["role"] == "tool":
            message["content"] = "ok"


def rewrite_arguments(choice: Body) -> None:
    for call in choice["message"].get("tool_calls", ()):
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True)


def normalise(body: Body) -> None:
    for message in body["messages"]:
        if isinstance(message.get("content"), str):
            message["content"] = unicodedata.normalize("NFKC", message["content"])


_numbers = itertools.count(1_000)


def other_seed(body: Body) -> None:
    if body.get("temperature"):
        body["seed"] = next(_numbers)


def never_greedy(body: Body) -> None:
    if not body.get("temperature"):
        body |= {"temperature": 1.0, "seed": next(_numbers)}


def set_finish(value: str) -> Callable[[Body], None]:
    def change(choice: Body) -> None:
        choice["finish_reason"] = value

    return change


def without(name: str) -> Callable[[Body], None]:
    def request(body: Body) -> None:
        body.pop(name, None)

    return request


def more_tokens(body: Body) -> None:
    body["max_tokens"] += 3


def count_wrong(body: Body) -> None:
    body["usage"]["prompt_tokens"] -= 1
    body["usage"]["total_tokens"] -= 1


def first_only(body: Body) -> None:
    del body["choices"][1:]
    count = len(body["choices"][0].get("token_ids", ()))
    body["usage"] |= {"completion_tokens": count, "total_tokens": body["usage"]["prompt_tokens"] + count}


def wrong_mask(choice: Body) -> None:
    choice["mask"] = [0] + [1] * (len(choice.get("token_ids", ())) - 1)


def lose_chunk(chunks: list[Body]) -> list[Body]:
    return [*chunks[:3], *chunks[4:]] if len(chunks) > 6 else chunks


def lose_end(chunks: list[Body]) -> list[Body]:
    return [chunk for chunk in chunks if not any(c["finish_reason"] for c in chunk["choices"])]


def zero_scores(chunks: list[Body]) -> list[Body]:
    for chunk in chunks:
        for choice in chunk["choices"]:
            for each in logprobs_of(choice):
                each["logprob"] = 0.0
    return chunks


def tear(chunks: list[Body]) -> list[Body]:
    """Each token decoded alone."""
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice.get("token_ids") and choice["delta"]:
                choice["delta"]["content"] = bytes(t for t in choice["token_ids"] if t < 256).decode("utf-8", "replace")
            elif choice.get("finish_reason") and "tool_calls" not in choice["delta"]:
                choice["delta"]["content"] = ""
    return chunks


def keep_stop(right: RightGateway, body: Body, ask: Callable[[Body], Any]) -> Any:
    """The stop string stays in the text of a stream, and not in that of a whole answer."""
    answer = ask(body)
    if body.get("stop") and not isinstance(answer, dict):
        answer[-2]["choices"][0]["delta"]["content"] = body["stop"][0]
    return answer


class Crossed:
    """Of two requests that are under way at once, one gets the reply of the other."""

    def __init__(self) -> None:
        self._waiting: list[Body] = []
        self._arrived = threading.Condition()

    def __call__(self, right: RightGateway, body: Body, ask: Callable[[Body], Any]) -> Any:
        if not body["messages"][-1]["content"].startswith("Count upwards"):
            return ask(body)
        with self._arrived:
            self._waiting.append(body)
            self._arrived.notify_all()
            self._arrived.wait_for(lambda: len(self._waiting) > 1, 0.2)
            answer = ask(next((other for other in self._waiting if other is not body), body))
            self._waiting.remove(body)
        return answer


FAULTS: tuple[GatewayFault, ...] = (
    GatewayFault(
        "shifted left", "each log-probability is that of the next token", "scored",
        answer=each_choice(shift_left),
    ),
    GatewayFault(
        "shifted right", "each log-probability is that of the token before", "scored",
        answer=each_choice(shift_right),
    ),
    GatewayFault(
        "top token", "log-probabilities of the most likely token instead of the sampled one", "scored",
        server=top_instead,
    ),
    GatewayFault("positive", "a log-probability above 0", "logprobs", answer=each_choice(set_logprob(0.25))),
    GatewayFault(
        "placeholder", "-9999 in the place of a log-probability", "logprobs",
        answer=each_choice(set_logprob(-9999.0)),
    ),
    GatewayFault(
        "token dropped", "one sampled token is missing from the ids", "logprobs",
        answer=each_choice(drop_token),
    ),
    GatewayFault(
        "end dropped", "the end token is missing from ids, log-probabilities and usage", "mask",
        answer=strip_end,
    ),
    GatewayFault(
        "end doubled", "the template ends a reply that has ended", "mask",
        server=with_renderer(DoublingRenderer),
    ),
    GatewayFault("wrong mask", "the gateway's mask is 0 on a sampled token", "mask", answer=each_choice(wrong_mask)),
    GatewayFault("retokenised", "earlier replies are encoded anew from their text", "prefix", server=forget),
    GatewayFault(
        "stripped thinking", "thoughts of earlier replies are left out", "prefix",
        request=said_before(strip_thought),
    ),
    GatewayFault(
        "trimmed history", "whitespace around earlier replies is trimmed", "prefix",
        request=said_before(trim_sent),
    ),
    GatewayFault("earlier turn dropped", "all but the last turns are left out", "prefix", request=drop_earlier),
    GatewayFault("merged turns", "three messages become one", "turns", request=merge),
    GatewayFault("trimmed reply", "whitespace around a reply is trimmed", "decoding", answer=each_choice(trim_reply)),
    GatewayFault(
        "roles in text", "special tokens in a user's text are parsed", "roles",
        server=with_renderer(PlainRenderer),
    ),
    GatewayFault(
        "arguments rewritten", "arguments of a call are parsed and written anew", "tools",
        answer=each_choice(rewrite_arguments),
    ),
    GatewayFault("result lost", "a tool's result does not reach the model", "tools", request=drop_results),
    GatewayFault("letters normalised", "texts are normalised (NFKC)", "unicode", request=normalise),
    GatewayFault(
        "always stop", "finish_reason is stop for a reply that was cut", "finish",
        answer=each_choice(set_finish("stop")),
    ),
    GatewayFault(
        "always length", "finish_reason is length for a reply that ended", "finish",
        answer=each_choice(set_finish("length")),
    ),
    GatewayFault("limit ignored", "a reply has more tokens than max_tokens", "finish", request=more_tokens),
    GatewayFault("wrong usage", "prompt_tokens is one too few", "usage", answer=count_wrong),
    GatewayFault("stop ignored", "stop strings are passed over", "stop", request=without("stop")),
    GatewayFault("stop kept in streams", "a stop string stays in the text of a stream alone", "stop", server=keep_stop),
    GatewayFault("one choice", "n is passed over", "choices", answer=first_only),
    GatewayFault("chunk lost", "one chunk of a stream is missing", "stream", chunks=lose_chunk),
    GatewayFault("end lost", "a stream names no finish_reason", "stream", chunks=lose_end),
    GatewayFault("zeros in streams", "log-probabilities of a stream are 0", "stream", chunks=zero_scores),
    GatewayFault("torn characters", "each token of a stream is decoded alone", "unicode", chunks=tear),
    GatewayFault("seed ignored", "each request has a seed of the gateway's", "seed", request=other_seed),
    GatewayFault("never greedy", "temperature 0 samples", "greedy", request=never_greedy),
    GatewayFault("crossed replies", "requests side by side get one another's replies", "together", server=Crossed()),
)  # fmt: skip


def table() -> str:
    """The faults as a table of Markdown."""
    rows = ["| fault | what the gateway does | law that breaks |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| {fault.name} | {fault.sentence} | `{fault.law}` |" for fault in FAULTS)])


if __name__ == "__main__":
    print(table())
