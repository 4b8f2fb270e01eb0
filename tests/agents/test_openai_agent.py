"""The chat-endpoint agent against a real HTTP server with every fault a server can have."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.agents import Conversation, ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.models.calls import RECENT, AdaptiveLimit
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.cli import main
from rlvr.envs.endpoint import Endpoint, seconds_to_wait
from rlvr.envs.rewards.extraction import extract
from rlvr.envs.tools.calls import STYLES, Call, read_calls

from .dripping import drip

KEY = "sk-very-secret"
CALCULATOR = "rlvr/Calculator-v0"


def completion(text: Any = "four", finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


class Handler(BaseHTTPRequestHandler):
    """Answers as the first part of the path says."""

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mode = self.path.split("/")[1]
        with server.lock:
            call_number = server.calls[mode] = server.calls.get(mode, 0) + 1
            server.seen.append({"mode": mode, "path": self.path, "key": self.headers["Authorization"], "body": body})
        getattr(self, f"mode_{mode}")(call_number, body)

    def reply(self, value: Any, status: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def mode_good(self, number: int, body: Any) -> None:
        self.reply(completion())

    def mode_busy(self, number: int, body: Any) -> None:
        self.server.times.append(time.monotonic())
        self.reply({}, 429, Retry_After="0.4") if number % 3 else self.reply(completion())

    def mode_later(self, number: int, body: Any) -> None:
        self.reply({"error": {"message": "slow down"}}, 429, Retry_After="3600")

    def mode_broken(self, number: int, body: Any) -> None:
        self.reply(b"oops", 500)

    def mode_recovers(self, number: int, body: Any) -> None:
        self.reply({}, 403) if number <= 2 else self.reply(completion())

    def mode_refused(self, number: int, body: Any) -> None:
        self.reply({"error": {"message": f"wrong key {KEY}", "code": "invalid_api_key"}}, 401)

    def mode_malformed(self, number: int, body: Any) -> None:
        self.reply(b'{"choices": [{"message": {"content": "fo')

    def mode_torn(self, number: int, body: Any) -> None:
        self.reply(b'{"choi') if number % 2 else self.reply(completion())

    def mode_html(self, number: int, body: Any) -> None:
        self.reply(b"<html>login</html>")

    def mode_null(self, number: int, body: Any) -> None:
        self.reply({"choices": None})

    def mode_nothing(self, number: int, body: Any) -> None:
        self.reply(completion(None, None))

    def mode_parts(self, number: int, body: Any) -> None:
        self.reply(completion([{"type": "image"}, 5]))

    def mode_filtered(self, number: int, body: Any) -> None:
        self.reply(completion("half a", "content_filter"))

    def mode_deep(self, number: int, body: Any) -> None:
        self.reply(b"[" * 100_000)

    def mode_reset(self, number: int, body: Any) -> None:
        self.connection.close()

    def mode_cut(self, number: int, body: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"choices": [')

    def mode_redirect(self, number: int, body: Any) -> None:
        self.reply(b"", 307, Location="http://192.0.2.1/")

    def mode_hang(self, number: int, body: Any) -> None:
        self.server.stopped.wait(30)

    def mode_drip(self, number: int, body: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        drip(self, b" ", self.server.stopped)

    def mode_headers(self, number: int, body: Any) -> None:
        """A drip before the body has begun."""
        drip(self, b"H", self.server.stopped)

    def mode_full(self, number: int, body: Any) -> None:
        said = "This model's maximum context length is 16 tokens."
        self.reply({"error": {"message": said, "type": "BadRequestError", "code": 400}}, 400)

    def mode_thinks(self, number: int, body: Any) -> None:
        self.reply(completion("four", reasoning_content="2 and 2"))

    def mode_ponders(self, number: int, body: Any) -> None:
        self.reply(completion(None, "length", reasoning="2 and"))

    def mode_counts(self, number: int, body: Any) -> None:
        server: Any = self.server
        with server.lock:
            server.busy += 1
            server.most = max(server.most, server.busy)
        time.sleep(0.05)
        with server.lock:
            server.busy -= 1
        self.reply(completion(body["messages"][-1]["content"]))

    def mode_tender(self, number: int, body: Any) -> None:
        """Refuses its first 160 tries."""
        self.reply({}, 429) if number <= 160 else self.reply(completion(body["messages"][-1]["content"]))

    def mode_closed(self, number: int, body: Any) -> None:
        """Its first answer asks for patience; by then others have begun."""
        self.server.times.append(time.monotonic())
        self.reply({}, 429, Retry_After="0.5") if number == 1 else self.reply(completion())

    def mode_flooded(self, number: int, body: Any) -> None:
        """Refuses everybody for a second after the first call."""
        with self.server.lock:
            now = time.monotonic()
            self.server.flood_ends = getattr(self.server, "flood_ends", now + 1.0)
            refused = now < self.server.flood_ends
            self.server.times += [now] * refused
        self.reply({}, 429, Retry_After="1") if refused else self.reply(completion())

    def mode_tools(self, number: int, body: Any) -> None:
        """Plays the tool environment with real tool calls: as `tool_script` says."""
        self.reply(self.server.script(body))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: dict[str, int] = {}
        self.seen: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.busy = self.most = 0
        self.script: Any = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.stopped.set()
    server.shutdown()
    server.server_close()


def agent(server: Server, mode: str, *, deadline: float = 20.0, retries: int = 1, **options: Any) -> OpenAIAgent:
    endpoint = Endpoint(f"{server.base}/{mode}/v1", "a-model", KEY, deadline=deadline, retries=retries, max_tokens=9)
    return OpenAIAgent(endpoint, **options)


def conversation(text: str = "2+2?", key: str = "k") -> Conversation:
    return Conversation(key, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}])


def test_a_reply_and_what_was_sent(server: Server) -> None:
    asked = agent(server, "good")
    [reply] = asked.act([conversation("x \ud800")])
    assert (reply.text, reply.stop, reply.tokens, reply.error) == ("four", "stop", 3, "")
    [sent] = server.seen
    assert (sent["path"], sent["key"]) == ("/good/v1/chat/completions", f"Bearer {KEY}")
    assert sent["body"] == {
        "model": "a-model",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x \ufffd"}],
        "temperature": 0.0,
        "max_tokens": 9,
    }
    assert (asked.usage.calls, asked.usage.failed) == (1, 0)
    assert (asked.usage.prompt_tokens, asked.usage.completion_tokens) == (7, 3)


def test_fields_of_the_request_can_be_added_and_left_out(server: Server) -> None:
    changes = {"max_tokens": None, "max_completion_tokens": 5, "temperature": 1.0}
    body = agent(server, "good", request=changes).body(conversation())
    assert set(body) == {"model", "messages", "temperature", "max_completion_tokens"}
    assert body["temperature"] == 1.0


def test_seeds_belong_to_the_conversation_and_the_turn(server: Server) -> None:
    asked = agent(server, "good", seed=1)
    other = conversation(key="other")
    longer = conversation()
    longer.messages += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    seeds = [asked.body(c)["seed"] for c in (conversation(), other, longer)]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert asked.body(conversation())["seed"] == seeds[0]


FAULTS = {
    "later": "status 429: slow down; the next try would be after the deadline",
    "broken": "status 500: oops",
    "refused": "status 401: wrong key \\*\\*\\*",
    "malformed": "not a JSON object",
    "html": "not a JSON object",
    "deep": "not a JSON object",
    "null": "without choices, with status 200",
    "parts": "no chat completion",
    "nothing": "without text",
    "reset": "could not be reached",
    "cut": "in the middle of its reply",
    "redirect": "status 307",
}


@pytest.mark.parametrize("mode", FAULTS)
def test_a_failed_call_says_where_and_how(server: Server, mode: str) -> None:
    asked = agent(server, mode)
    [reply] = asked.act([conversation()])
    assert (reply.text, reply.stop) == ("", "error")
    assert reply.error.startswith(f"{server.base}/{mode}/v1/chat/completions ")
    assert KEY not in reply.error
    assert re.search(FAULTS[mode], reply.error)
    assert (asked.usage.calls, asked.usage.failed) == (1, 1)


@pytest.mark.parametrize("mode", ["hang", "drip", "headers"])
def test_the_deadline_is_total(server: Server, mode: str) -> None:
    start = time.monotonic()
    replies = agent(server, mode, deadline=0.6, retries=50).act([conversation(key=str(i)) for i in range(8)])
    assert {reply.stop for reply in replies} == {"error"}
    assert all("within the deadline of 0.6 s" in reply.error for reply in replies)
    assert time.monotonic() - start < 10.0  # the server itself would hold on for 30 s and for ever


def test_retry_after_is_waited_for(server: Server) -> None:
    [reply] = agent(server, "busy", retries=3).act([conversation()])
    assert reply.text == "four"
    first, second, third = server.times
    assert min(second - first, third - second) >= 0.4


def test_retry_after_as_a_date_and_as_nonsense() -> None:
    assert seconds_to_wait(email.utils.formatdate(time.time() + 100, usegmt=True)) == pytest.approx(100, abs=5)
    assert seconds_to_wait(email.utils.formatdate(0, usegmt=True)) == 0.0
    assert seconds_to_wait("-3") == 0.0
    for nonsense in (None, "", "soon", "nan", "Mon, 99 Foo 2000 00:00:00 GMT"):
        assert seconds_to_wait(nonsense) is None


def test_what_is_tried_again(server: Server) -> None:
    assert agent(server, "torn").act([conversation()])[0].text == "four"
    assert server.calls["torn"] == 2
    agent(server, "refused", retries=5).act([conversation()])
    assert server.calls["refused"] == 1  # the next try would be refused as well


def test_nobody_listens(server: Server) -> None:
    asked = OpenAIAgent(Endpoint("http://someone:pw@127.0.0.1:9/v1?key=pw", "m", KEY, deadline=2.0, retries=0))
    [reply] = asked.act([conversation()])
    assert reply.stop == "error"
    assert reply.error.startswith("http://127.0.0.1:9/v1/chat/completions could not be reached: ConnectionRefused")
    assert "pw" not in reply.error


def test_a_conversation_that_is_too_long_is_no_failed_call(server: Server) -> None:
    asked = agent(server, "full")
    assert asked.act([conversation()])[0].stop == "context"
    assert asked.usage.failed == 0


def test_thoughts_are_left_out_or_put_before(server: Server) -> None:
    assert agent(server, "thinks").act([conversation()])[0].text == "four"
    asked = agent(server, "thinks", keep_reasoning=True)
    said = conversation()
    text = asked.act([said])[0].text
    assert text == "<think>\n2 and 2\n</think>\n\nfour"
    said.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And?"}]
    assert asked.body(said)["messages"][2] == {"role": "assistant", "content": "four"}
    cut = agent(server, "ponders").act([conversation()])[0]
    assert (cut.text, cut.stop) == ("", "length")
    assert agent(server, "ponders", keep_reasoning=True).act([conversation()])[0].text == "<think>\n2 and"


def test_the_limit_of_calls_holds_and_replies_keep_their_order(server: Server) -> None:
    asked = agent(server, "counts", concurrency=3)
    texts = [f"text {i}" for i in range(12)]
    assert [reply.text for reply in asked.act([conversation(text) for text in texts])] == texts
    assert server.most == 3

    async def several() -> list[list[Any]]:
        halves = [texts[:6], texts[6:]]
        return await asyncio.gather(*(asked.act_async([conversation(text) for text in half]) for half in halves))

    first, second = asyncio.run(several())
    assert [reply.text for reply in (*first, *second)] == texts
    assert server.most == 3


def test_a_server_that_is_asked_too_much_is_asked_less_until_every_call_has_its_reply(server: Server) -> None:
    asked = agent(server, "tender", concurrency=64, retries=0, deadline=600.0)
    texts = [f"text {i}" for i in range(200)]
    assert [reply.text for reply in asked.act([conversation(text) for text in texts])] == texts
    assert (asked.usage.calls, asked.usage.failed) == (200, 0)
    assert asked.usage.requests == server.calls["tender"] == 360
    assert asked._limit.limit < 32  # 64 fell by 0.4 at a refusal, to no less than 1, and rose by 0.1 at a reply


def test_a_retry_after_is_obeyed_by_its_own_call_and_the_others_go_on(server: Server) -> None:
    asked = agent(server, "closed", concurrency=1)
    texts = [f"text {i}" for i in range(9)]
    assert len(asked.act([conversation(text) for text in texts])) == 9
    sent = [seen["body"]["messages"][-1]["content"] for seen in server.seen]
    assert sent[0] == texts[0] == sent[-1]  # the one that was refused waits, and holds nobody up
    assert sorted(sent[1:-1]) == texts[1:]
    assert server.times[-1] - server.times[0] >= 0.5


def test_a_server_that_refuses_nearly_all_is_left_alone_by_all(server: Server) -> None:
    """Thirty-two calls, and the server has told the first of them to come again in a second."""
    asked = agent(server, "flooded", concurrency=32, deadline=60.0)
    assert {reply.text for reply in asked.act([conversation(key=str(i)) for i in range(64)])} == {"four"}
    refused = server.times
    assert asked.usage.requests - 64 == len(refused)
    # RECENT is what it takes to see the overload; what had begun by then may be refused too.
    assert len(refused) <= 64 + RECENT


def refuse(limit: AdaptiveLimit, times: int, wait: float | None = None) -> None:
    for _ in range(times):
        assert limit.enter(math.inf)
        limit.leave(429, wait)


def answer(limit: AdaptiveLimit, times: int) -> None:
    for _ in range(times):
        assert limit.enter(math.inf)
        limit.leave(200, None)


def test_the_limit_falls_where_more_than_one_try_in_five_is_refused_and_rises_again() -> None:
    limit = AdaptiveLimit(32)
    for _ in range(100):  # one in ten
        refuse(limit, 1)
        answer(limit, 9)
    assert limit.limit >= 31
    for _ in range(100):  # two in five
        refuse(limit, 2)
        answer(limit, 3)
    assert limit.limit == 1
    answer(limit, 500)
    assert limit.limit == 32


def test_one_refusal_closes_nothing_and_many_close_the_endpoint_for_all() -> None:
    limit = AdaptiveLimit(32)
    for _ in range(20):  # one in four, with an hour to wait
        refuse(limit, 1, 3600.0)
        answer(limit, 3)
    assert limit.enter(time.monotonic() + 0.05)
    limit.leave(200, None)
    asked = 0
    while limit.enter(time.monotonic() + 0.05):
        limit.leave(429, 3600.0)
        asked += 1
    assert asked <= RECENT


@given(st.lists(st.sampled_from([200, 400, 429, 500, 503, 0]), max_size=200), st.integers(1, 64))
def test_the_limit_stays_between_one_and_the_most(statuses: list[int], most: int) -> None:
    limit = AdaptiveLimit(most)
    for status in statuses:
        assert limit.enter(time.monotonic() + 30)
        limit.leave(status, None)
        assert 1 <= limit.limit <= most
    assert limit.tries == len(statuses)


def test_who_waits_for_a_closed_endpoint_waits_until_its_deadline() -> None:
    limit = AdaptiveLimit(1)
    refuse(limit, RECENT)
    assert limit.enter(math.inf)
    limit.leave(429, 3600.0)
    assert not limit.enter(time.monotonic() + 0.05)


def test_an_awaited_call_can_be_cancelled(server: Server) -> None:
    asked = agent(server, "hang", deadline=30.0, retries=0, concurrency=1)

    async def impatient() -> None:
        await asyncio.wait_for(asked.act_async([conversation(), conversation()]), 0.3)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    server.stopped.set()
    for thread in [thread for thread in threading.enumerate() if thread.name == "rlvr-calls"]:
        thread.join(10)
    assert server.calls["hang"] == 1  # the one that waited for a slot was never made


@pytest.mark.slow
def test_sixty_four_calls_at_once_with_every_fault(server: Server) -> None:
    modes = ["good", *FAULTS, "drip", "hang", "good"] * 4
    agents = {mode: agent(server, mode, deadline=3.0, retries=0) for mode in modes}
    threads = [(mode, agents[mode].submit([conversation()])[0]) for mode in modes]
    for mode, future in threads:
        assert (future.result().stop == "stop") == (mode == "good"), mode


def test_a_failed_call_is_an_invalid_episode_and_never_a_zero(server: Server) -> None:
    rollout = Rollout(CALCULATOR, agent(server, "broken", retries=0))
    episodes = rollout([RolloutRequest(seed=0, index=index) for index in range(3)])
    for episode in episodes:
        assert episode.verdict is not None
        assert (episode.verdict.status, episode.valid) == ("env_error", False)
        assert "status 500" in episode.verdict.reason


class Mixed:
    """An agent of which every other reply fails."""

    def __init__(self, bad: OpenAIAgent) -> None:
        self.bad, self.good = bad, ExpertAgent()

    def act(self, conversations: Any) -> list[Any]:
        return [(self.bad if "/1/0" in c.key else self.good).act([c])[0] for c in conversations]


def test_the_other_episodes_go_on(server: Server) -> None:
    rollout = Rollout(CALCULATOR, Mixed(agent(server, "reset", retries=0)))
    episodes = rollout([RolloutRequest(seed=0, index=index) for index in range(3)])
    assert [episode.valid for episode in episodes] == [True, False, True]
    assert [episode.success for episode in episodes] == [True, False, True]


def test_tools_go_out_as_schemas_and_calls_come_back_as_text(server: Server) -> None:
    """The expert's own calls, sent as native tool calls by the server, solve the episode."""
    env_id = "rlvr/ServiceDesk-v0"
    env: Any = gym.make(env_id, tools_in="template").unwrapped
    env.reset(seed=3)

    def script(body: dict[str, Any]) -> dict[str, Any]:
        action = env.solve()
        env.step(action)
        calls = read_calls(action, "hermes", {}).calls
        functions = [{"name": made.name, "arguments": json.dumps(dict(made.arguments))} for made in calls]
        made = [{"id": f"x{i}", "type": "function", "function": each} for i, each in enumerate(functions)]
        return completion(None if made else action, "tool_calls" if made else "stop", tool_calls=made or None)

    server.script = script
    rollout = Rollout(env_id, agent(server, "tools"), env_settings={"tools_in": "template"})
    [episode] = rollout([RolloutRequest(seed=3)])
    assert episode.success, episode.verdict
    bodies = [seen["body"] for seen in server.seen]
    assert all(body["tools"][0]["type"] == "function" for body in bodies)
    history = bodies[-1]["messages"]
    answers = [message for message in history if message["role"] == "tool"]
    asked = [made["id"] for message in history for made in message.get("tool_calls", [])]
    assert asked
    assert [message["tool_call_id"] for message in answers] == asked


def test_outputs_of_tools_that_the_endpoint_knows_nothing_of_are_a_users_words(server: Server) -> None:
    said = conversation()
    said.messages += [{"role": "assistant", "content": "<tool_call>"}, {"role": "tool", "content": "5"}]
    assert agent(server, "good").body(said)["messages"][3] == {"role": "user", "content": "5"}


def test_calls_that_cannot_be_read_stay_the_policys_fault(server: Server) -> None:
    asked = agent(server, "good")
    for arguments in ('{"a": ', "[1]", "{" * 50_000):
        message = {"tool_calls": [{"function": {"name": "sum", "arguments": arguments}}]}
        reply = asked._read(completion("Well.", "tool_calls", **message))
        assert reply.text.startswith('Well.\n<tool_call>\n{"name": "sum"')


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("words", ["", "Well.", "see </s> <|im_end|>", "<think>hm", "<tool_response>", "```", "<sum>"])
def test_an_endpoints_calls_arrive_as_they_were_made(server: Server, style: str, words: str) -> None:
    asked = agent(server, "good", tool_style=style)
    names = {"sum": ["a", "b"], "run": ["code"]}
    texts = [
        "</think>",
        "<tool_response>4</tool_response>",
        "</tool_call>",
        "a\n```\n",
        "</parameter></function>",
        "é\0",
    ]
    calls = [Call("run", {"code": text}) for text in texts] + [Call("sum", {"a": "{}", "b": "</a>"})]
    functions = [{"name": name, "arguments": json.dumps(dict(arguments))} for name, arguments in calls]
    message = {"tool_calls": [{"function": function} for function in functions]}
    reply = asked._read(completion(words, "tool_calls", **message), names)
    assert read_calls(reply.text, style, names).calls == tuple(calls)


def test_a_thought_beside_a_reply_ends_neither_the_reply_nor_the_thought(server: Server) -> None:
    asked = agent(server, "good", keep_reasoning=True)
    for thought in ("plain", "a </think> b <think>", "<|im_end|>", "<tool_call>", "</s>"):
        reply = asked._read(completion("It is \\boxed{4}", "stop", reasoning_content=thought))
        assert reply.text.startswith("<think>\n")
        assert extract(reply.text).answer == "4"


def test_a_server_that_gives_thoughts_without_their_opening_tag_is_noticed(server: Server) -> None:
    asked = agent(server, "good")
    read = lambda text, finish: extract(asked._read(completion(text, finish)).text).answer  # noqa: E731
    assert read("Perhaps 1.</think> It is \\boxed{4}", "stop") == "4"
    assert read("Maybe \\boxed{4}, but let me check", "length") is None
    assert read("Maybe \\boxed{4}, but let me check", "stop") is None
    other = agent(server, "good")
    assert extract(other._read(completion("It is \\boxed{4}", "length")).text).answer == "4"


def test_wrong_options(server: Server) -> None:
    for options in ({"concurrency": 0}, {"tool_style": "morse"}):
        with pytest.raises(ValueError, match=r"must be|none of"):
            agent(server, "good", **options)
    for bad in ({"api_key": "a\nb"}, {"deadline": float("inf")}, {"base_url": "http://x:y/"}):
        with pytest.raises(ValueError, match="must"):
            Endpoint(**{"base_url": server.base, "model": "m", **bad})
    with pytest.raises(ValueError, match="no new message"):
        agent(server, "good").act([Conversation("k", [])])


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["eval", "--env", CALCULATOR, "--episodes", "2", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_eval_takes_an_endpoint(server: Server, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    url = f"{server.base}/good/v1"
    options = ["--model", "m", "--api-key-env", "THE_KEY", "--temperature", "0.5", "--options", '{"top_p": 0.9}']
    status, out, err = run(capsys, "--endpoint", url, *options, "--price", "1000,2000")
    assert (status, err) == (0, "")
    assert f"agent m at {url}" in out
    assert "endpoint: 2 calls in 2 requests; 14 prompt and 6 completion tokens\n" in out
    assert "; costs 0.0260\n" in out
    for seen in server.seen:
        assert seen["key"] == f"Bearer {KEY}"
        assert (seen["body"]["temperature"], seen["body"]["top_p"], seen["body"]["max_tokens"]) == (0.5, 0.9, 512)
    assert len({seen["body"]["seed"] for seen in server.seen}) == 2


def test_eval_tells_what_went_wrong(server: Server, capsys: Any) -> None:
    status, out, err = run(capsys, "--endpoint", f"{server.base}/refused/v1", "--model", "m")
    assert status == 1  # nothing was measured
    assert "env_error 2" in out
    assert err.startswith(
        "rlvr: 2 episodes failed through no fault of the policy and are not counted; the first: agent: http://127.0.0.1"
    )
    assert "status 401" in err


def test_eval_goes_on_with_what_could_not_be_played(server: Server, capsys: Any, tmp_path: Any) -> None:
    out = str(tmp_path / "episodes.jsonl")
    arguments = ["--endpoint", f"{server.base}/recovers/v1", "--model", "m", "--out", out, "--concurrency", "1"]
    assert run(capsys, *arguments)[0] == 1
    status, said, _ = run(capsys, *arguments)
    assert status == 0
    assert "env_error" not in said
    calls = len(server.seen)
    assert run(capsys, *arguments)[0] == 0
    assert len(server.seen) == calls  # nothing is left to play


@pytest.mark.parametrize("price", ["1", "1,2,3", "free", "1,nan", "-1,2"])
def test_a_price_is_two_numbers(price: str, capsys: Any) -> None:
    status, out, err = run(capsys, "--endpoint", "http://x/v1", "--model", "m", f"--price={price}")
    assert (status, out) == (2, "")
    assert f"two prices of a million tokens are wanted, as 0.15,0.6; got '{price}'" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--endpoint", "http://x/v1"], "--model NAME"),
        (["--endpoint", "ftp://x", "--model", "m"], "http or https"),
        (["--endpoint", "http://x/v1", "--model", "m", "--api-key-env", "NO_SUCH"], "NO_SUCH"),
        (["--endpoint", "http://x/v1", "--model", "m", "--options", "[1]"], "JSON object"),
        (["--endpoint", "http://x/v1", "--model", "m", "--concurrency", "0"], "concurrency"),
        (["--agent", "expert", "--options", "{}"], "--endpoint and --vllm"),
        (["--agent", "expert", "--tool-messages"], "--tool-messages is for --endpoint with --model"),
    ],
)
def test_eval_refuses_what_cannot_be(arguments: list[str], said: str, capsys: Any) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
