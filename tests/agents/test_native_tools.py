"""Native tools: calls are carried out as they were given, each answered by itself; and those of chat templates."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlvr
from rlvr.agents import Conversation, Episode, ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.evaluation.journal import Journal
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.cli import main
from rlvr.envs.endpoint import Endpoint
from rlvr.envs.tools import STYLES, read_calls
from rlvr.envs.tools.calls import ActionWithCalls, NativeCall, Reading
from rlvr.envs.tools.turn import ANSWER_NOW

SQL, SUMS, SERVICE = "rlvr/SQL-v0", "rlvr/Sums-v0", "rlvr/Service-v0"
Script = Callable[[dict[str, Any]], Any]


class Server(ThreadingHTTPServer):
    """Answers each request by ``script``: a completion, or a status and an error's message."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: Script = lambda body: says("I do not know.")
        self.bodies: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        reply = self.server.script(body)
        status, value = reply if isinstance(reply, tuple) else (200, reply)
        value = {"error": {"message": value}} if isinstance(value, str) else value
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def says(text: str | None, *calls: tuple[str | None, str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    """A completion with calls, each an id, a name and arguments."""
    made = [
        {"type": "function", "function": {"name": name, "arguments": arguments}} | ({"id": i} if i is not None else {})
        for i, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **more} | ({"tool_calls": made} if made else {})
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if made else finish}]}


def in_turn(*replies: Any) -> Script:
    """The replies, chosen by how many the conversation has."""
    return lambda body: replies[sum(message["role"] == "assistant" for message in body["messages"])]


def agent(server: Server, **options: Any) -> OpenAIAgent:
    return OpenAIAgent(Endpoint(server.url, "a-model", deadline=20.0, retries=0), **options)


SEEN: list[Any] = []


def note(value: Any, more: list[int] | None = None) -> str:
    """Note a value.

    Args:
        value: anything.
        more: numbers.
    """
    SEEN.append((value, more))
    return f"noted {len(SEEN)}"


def play(server: Server, **settings: Any) -> Episode:
    SEEN.clear()
    tools = {"tools": [note], "max_calls": 8, **settings}
    rollout = Rollout(SUMS, agent(server), env_settings={"tools": tools}, native_tools=True)
    (episode,) = rollout([RolloutRequest(seed=3)])
    return episode


# what travels


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text() | st.floats(allow_nan=False, width=32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.sampled_from(STYLES), st.text())
def test_arguments_never_pass_through_text(arguments: dict[str, Any], style: str, words: str) -> None:
    action = ActionWithCalls("whatever <tool_call> says", words, [NativeCall("a", "note", json.dumps(arguments))])
    reading = read_calls(action, style, {})
    if any(isinstance(value, float) and value in (float("inf"), -float("inf")) for value in arguments.values()):
        return
    (call,) = reading.native
    if not isinstance(call, str):  # Infinity is no number of JSON
        assert (call.name, call.arguments) == ("note", arguments)
        assert reading == Reading((call,), "", (call,))


def test_an_action_with_calls_survives_copies_processes_and_records() -> None:
    calls = [NativeCall("x1", "note", '{"value": '), NativeCall("x2", "note", "{}")]
    action = ActionWithCalls("text", "words", calls)
    twins = [pickle.loads(pickle.dumps(action)), copy.deepcopy(action), copy.copy(action)]
    for twin in twins:
        assert (twin, twin.words, twin.calls) == ("text", "words", tuple(calls))
    assert json.dumps(action) == '"text"'


def test_each_of_several_calls_is_answered_under_its_id_and_carried_out_as_it_was_given(server: Server) -> None:
    raw = '{"value":  {"a": [1, 2.0, "</tool_call>"]}, "more": [3]}'
    server.script = in_turn(
        says("I look. \\boxed{7}", ("c1", "note", raw), ("c2", "note", '{"value": '), ("c3", "nope", "{}"),
             ("c4", "note", {"value": 4}), (None, "note", '{"value": 5}'), ("c4", "note", '{"value": 6, "value": 7}')),
        says("It is \\boxed{0}."),
    )  # fmt: skip
    episode = play(server, style="xml")
    assert SEEN == [({"a": [1, 2.0, "</tool_call>"]}, [3]), (4, None), (5, None)]
    history = server.bodies[1]["messages"][-7:]
    assert history[0]["content"] == "I look. \\boxed{7}"  # beside calls it is graded by nobody
    sent = history[0]["tool_calls"]
    assert [call["function"]["arguments"] for call in sent[:1] + sent[3:5]] == [raw, '{"value": 4}', '{"value": 5}']
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in sent)
    ids = [call["id"] for call in sent]
    assert ids[:4] == ["c1", "c2", "c3", "c4"]
    assert len(set(ids)) == 6
    answers = history[1:]
    assert [answer["tool_call_id"] for answer in answers] == ids
    assert {answer["role"] for answer in answers} == {"tool"}
    said = [answer["content"] for answer in answers]
    assert said[0] == "noted 1"
    assert said[1].startswith("error: the text of the arguments of note is not JSON")
    assert said[2] == "error: there is no tool 'nope'; there are note"
    assert said[3:5] == ["noted 2", "noted 3"]
    assert "'value' stands twice" in said[5]
    assert "tools" in server.bodies[0]
    assert "note" not in server.bodies[0]["messages"][0]["content"]
    assert episode.verdict is not None
    assert (episode.verdict.valid, episode.agent) == (True, {})
    assert "noted 1" in episode.turns[1].observation


def test_no_calls_are_left_for_some_of_several(server: Server) -> None:
    calls = [(f"c{n}", "note", json.dumps({"value": n})) for n in range(3)]
    server.script = in_turn(says(None, *calls), says(None, *calls[:2]), says("\\boxed{0}"))
    play(server, max_calls=2)
    assert [value for value, _ in SEEN] == [0, 1]
    first = [message["content"] for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert first == ["noted 1", "noted 2", ANSWER_NOW]
    last = [message["content"] for message in server.bodies[2]["messages"] if message["role"] == "tool"]
    assert last[3:] == [ANSWER_NOW] * 2


def test_too_many_calls_of_one_reply_are_refused_one_by_one(server: Server) -> None:
    calls = [(f"c{n}", "note", json.dumps({"value": n})) for n in range(10)]
    server.script = in_turn(says(None, *calls), says("\\boxed{0}"))
    play(server, max_calls=20)
    assert len(SEEN) == 8
    answers = [message["content"] for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert answers[8:] == ["error: a reply may hold 8 calls"] * 2


def test_twice_a_call_that_cannot_be_read_shows_no_example_of_another_form(server: Server) -> None:
    bad = says(None, ("c1", "note", "[1]"))
    server.script = in_turn(bad, bad, says("\\boxed{0}"))
    play(server)
    answers = [message["content"] for message in server.bodies[2]["messages"] if message["role"] == "tool"]
    assert answers == ["error: the text of the arguments of note is not a JSON object"] * 2


def test_without_tools_in_the_environment_a_call_is_words(server: Server) -> None:
    server.script = lambda body: says(None, ("c1", "note", "{}"))
    (episode,) = Rollout(SUMS, agent(server), native_tools=True)([RolloutRequest(seed=3)])
    assert episode.valid
    assert not episode.success
    assert "tools" not in server.bodies[0]


@pytest.mark.parametrize("env_id", [SQL, SERVICE, "rlvr/ServiceDesk-v0", "rlvr/WorldSearch-v0"])
def test_the_experts_calls_made_natively_solve_the_worlds(server: Server, env_id: str) -> None:
    env: Any = gym.make(env_id, tools_in="template").unwrapped
    env.reset(seed=3)

    def expert(body: dict[str, Any]) -> dict[str, Any]:
        action = env.solve()
        env.step(action)
        calls = read_calls(action, "hermes", {}).calls
        made = [(f"x{env._turn}", name, json.dumps(dict(arguments))) for name, arguments in calls]
        return says(None if made else action, *made)

    server.script = expert
    (episode,) = Rollout(env_id, agent(server), native_tools=True)([RolloutRequest(seed=3)])
    assert episode.success, episode.verdict
    assert all(body["tools"] for body in server.bodies)
    last = server.bodies[-1]["messages"]
    asked = [call["id"] for message in last for call in message.get("tool_calls", ())]
    assert asked
    assert [message["tool_call_id"] for message in last if message["role"] == "tool"] == asked
    assert not any("<tool_call>" in str(message["content"]) for message in last)
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))).to_dict() == episode.to_dict()


def test_a_mixture_leaves_the_tools_of_each_of_its_parts(server: Server) -> None:
    parts = [SQL, {"id": SUMS, "tools": ["calculator"]}, {"id": "rlvr/Countdown-v0", "level": 2}]
    rollout = Rollout("rlvr/Mixture-v0", agent(server), env_settings={"envs": parts}, native_tools=True)
    rollout([RolloutRequest(seed=0, index=index) for index in range(12)])
    named = {tuple(sorted(each["function"]["name"] for each in body.get("tools", ()))) for body in server.bodies}
    assert len(named) == 3
    assert {(), ("calculator",)} < named


# refusals


REFUSALS = (
    (400, "a-model does not support tools"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (404, "No endpoints found that support tool use."),
    (422, "Unrecognized request argument supplied: tools"),
)


@pytest.mark.parametrize(("status", "message"), REFUSALS)
def test_an_endpoint_that_refuses_tools_is_one_sentence(server: Server, capsys: Any, status: int, message: str) -> None:
    server.script = lambda body: (status, message)
    command = ["eval", "--env", SQL, "--model", "m", "--endpoint", server.url, "--native-tools", "--concurrency", "1"]
    assert main([*command, "--episodes", "20"]) == 1
    error = capsys.readouterr().err
    assert "stopped: 3 calls in a row failed alike" in error
    assert message in error
    assert "without native_tools (--native-tools) they stand in the system prompt" in error
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", SUMS], f"{SUMS} has no tools for --native-tools"),
        (["--env", SQL, "--model", "rlvr/tiny"], "the chat template says nothing of the tools look_up"),
    ],
)
def test_what_has_no_tools_is_one_sentence(words: list[str], message: str, capsys: Any) -> None:
    who = [] if "--model" in words else ["--agent", "expert"]
    assert main(["eval", *words, *who, "--native-tools", "--episodes", "1"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_task_that_can_show_its_tools_in_the_text_alone_is_one_sentence() -> None:
    class Plain(rlvr.envs.tools.ToolTask[None]):
        def __init__(self) -> None:
            super().__init__()

    from rlvr.envs import TextEnv
    from rlvr.envs.tools.with_tools import with_native_tools

    Plain.toolset = [rlvr.envs.tools.tool(note)]
    with pytest.raises(ValueError, match="its constructor takes no tools_in"):
        with_native_tools(TextEnv(Plain()), {})


# records


def test_records_say_so_and_are_not_gone_on_with_otherwise(server: Server, tmp_path: Any, capsys: Any) -> None:
    server.script = in_turn(says("I ask.", ("c1", "schema", "{}"), ("c2", "run_query", "{")), says("done"))
    out = tmp_path / "native.jsonl"
    command = ["eval", "--env", SQL, "--model", "m", "--endpoint", server.url, "--episodes", "1"]
    assert main([*command, "--native-tools", "--out", str(out)]) == 0
    (line,) = out.read_text().splitlines()
    record = json.loads(line)
    assert record["agent"]["native_tools"] is True
    assert record["turns"][0]["native"] == {
        "words": "I ask.",
        "calls": [
            {"id": "c1", "name": "schema", "arguments": "{}"},
            {"id": "c2", "name": "run_query", "arguments": "{"},
        ],
    }
    assert len(record["turns"][1]["outputs"]) == 2
    asked = len(server.bodies)
    assert main([*command, "--native-tools", "--out", str(out)]) == 0
    assert len(server.bodies) == asked
    capsys.readouterr()
    assert main([*command, "--out", str(out)]) == 2
    assert "was made with another native_tools" in capsys.readouterr().err
    other = tmp_path / "text.jsonl"
    assert main([*command, "--out", str(other)]) == 0
    capsys.readouterr()
    assert main(["compare", str(out), str(other)]) == 0
    assert f"note: {SQL}: tools were native in A, and not in B\n" in capsys.readouterr().out
    assert main(["regrade", str(out), "--set", "tools_in=template"]) == 0
    assert "0 verdicts changed, 0 saw another observation" in capsys.readouterr().out


def test_a_record_of_calls_that_is_none_is_an_error() -> None:
    turn = {"observation": "", "role": "user", "action": "a", "stop": "stop", "verdict": None}
    good = {"words": "", "calls": [{"id": "1", "name": "n", "arguments": "{}"}]}
    for native in ({**good, "words": None}, {"words": ""}, {**good, "calls": [{"id": 1, "name": "n"}]}, "x", [1]):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Episode.from_dict({"env_id": "e", "key": "k", "seed": 0, "turns": [{**turn, "native": native}]})


def test_a_journal_gives_native_calls_back_as_they_were(tmp_path: Any) -> None:
    conversation = Conversation("k", [{"role": "user", "content": "2+2?"}])
    action = ActionWithCalls("text", "words", [NativeCall("c1", "note", '{"value": ')])
    journal = Journal(tmp_path / "j.jsonl")
    journal.write(conversation, rlvr.agents.Reply(action))
    journal.close(())
    reply = Journal(tmp_path / "j.jsonl").reply_to(conversation)
    assert reply is not None
    assert isinstance(reply.text, ActionWithCalls)
    assert reply.text.calls == action.calls


def test_in_python_it_is_the_same_word(server: Server) -> None:
    server.script = lambda body: says("done")
    rlvr.evaluate("SQL", agent(server), episodes=1, native_tools=True)
    assert server.bodies[0]["tools"]
    assert rlvr.evaluate("SQL", ExpertAgent(), episodes=2, native_tools=True).success == 1.0
    with pytest.raises(ValueError, match="given by its id"):
        Rollout(gym.make(SQL), agent(server), native_tools=True)
