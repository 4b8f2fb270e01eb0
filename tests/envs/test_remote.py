"""Environments that servers play: deadlines, lost connections, seeds and hostile answers, over servers made for it."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.bridges.openenv import read_object
from rlvr.envs.bridges.remote import BridgedEnv, ServerStep
from rlvr.envs.core.tables import DataError

OPENENV, NEMO = "rlvr/openenv.Remote-v0", "rlvr/nemo_gym.Remote-v0"


# what is the same for all wires


class Scripted(BridgedEnv):
    """Says what it was told to say."""

    def __init__(self, *said, **settings):
        super().__init__("http://127.0.0.1:1", check_seed=False, **settings)
        self.said = iter(said)

    def _begin(self, seed, options):
        return ServerStep("begin")

    def _play(self, action):
        action.encode()
        server_step = next(self.said)
        if isinstance(server_step, Exception):
            raise server_step
        return server_step


def played(*said, **settings):
    env = Scripted(*said, **settings)
    env.reset(seed=1)
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step("\ud800 go"))
    with pytest.raises(gym.error.ResetNeeded):
        env.step("more")
    return steps


def test_rewards_are_passed_on_and_the_return_decides_about_success():
    steps = played(ServerStep("a", 0.25), ServerStep("b"), ServerStep("c", True, terminated=True))
    assert [step[1] for step in steps] == [0.25, 0.0, 1.0]
    assert [step[4]["verdict"].status for step in steps] == ["partial", "partial", "correct"]
    assert steps[-1][4]["success"]
    assert played(ServerStep("a", 0.5, terminated=True))[-1][4]["verdict"].status == "partial"
    assert played(ServerStep("a", 0.5, terminated=True), success=0.5)[-1][4]["success"]
    assert played(ServerStep("a", -1, terminated=True))[-1][4]["verdict"].status == "wrong"


def test_binary_pays_for_success_alone():
    steps = played(ServerStep("a", 0.9), ServerStep("b", 0.05, terminated=True), binary=True)
    assert [step[1] for step in steps] == [0.0, 0.0]
    assert steps[-1][4]["verdict"].parts == {"return": pytest.approx(0.95)}
    assert [s[1] for s in played(ServerStep("a", 0.9), ServerStep("b", 0.1, terminated=True), binary=True)] == [
        0.0,
        1.0,
    ]
    assert played(ServerStep("a", 2.0, truncated=True), binary=True)[-1][1] == 0.0


@pytest.mark.parametrize("reward", [None, math.nan, math.inf, "1", [1.0]])
def test_an_end_without_a_number_is_not_a_zero(reward):
    (step,) = played(ServerStep("a", reward, terminated=True))
    assert step[4]["verdict"].status == "verifier_error"
    assert step[3]
    assert not step[4]["success"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(TimeoutError("late"), "timeout"), (ConnectionError("gone"), "env_error"), (KeyError("x"), "env_error")],
)
def test_a_step_that_fails_ends_the_episode_with_an_invalid_verdict(error, status):
    *_, last = played(ServerStep("a", 0.5), error)
    assert (last[1], last[3], last[4]["verdict"].status) == (0.0, True, status)
    assert not last[4]["verdict"].valid


def test_no_episode_is_without_end():
    steps = played(*[ServerStep("on", 0.0)] * 9, max_turns=3)
    assert len(steps) == 3
    assert steps[-1][3]
    assert steps[-1][4]["verdict"].reason == "out of turns"
    (only,) = played(ServerStep("won", 1.0, terminated=True), max_turns=1)
    assert only[2]
    assert not only[3]


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "localhost:80"},
        {"url": "http://me:secret@here"},
        {"url": "http://here?key=secret"},
        {"timeout": 0},
        {"timeout": math.inf},
        {"max_turns": 0},
        {"nonsense": 1},
    ],
)
@pytest.mark.parametrize("env_id", [OPENENV, NEMO])
def test_settings_that_make_no_sense(env_id, settings):
    rows = {"rows": [row()]} if env_id == NEMO else {}
    with pytest.raises((ValueError, TypeError)):
        gym.make(env_id, **({"url": "http://127.0.0.1:1"} | rows | settings))


@given(st.text())
def test_reading_an_action_never_raises_more_than_a_complaint(text):
    with contextlib.suppress(ValueError):
        assert isinstance(read_object(text), dict)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 20_000, "```json\n" * 10_000, "\\" * 100_000])
def test_hostile_actions_are_refused_quickly(text):
    with pytest.raises(ValueError, match="An action is one JSON object"):
        read_object(text)


# OpenEnv


@contextlib.contextmanager
def socket_server(handle, headers=None, schema=None):
    """A server of WebSockets, which plays ``handle(message, count)``: a dict or text to send, or an exception.

    It tells the schema of its actions over HTTP.
    """
    server = pytest.importorskip("websockets.sync.server")

    def serve(link):
        if headers is not None:
            headers.append(link.request.headers["Authorization"])
        for count, raw in enumerate(link):
            message = json.loads(raw)
            if message["type"] == "close":
                return
            answer = handle(message, count)
            if isinstance(answer, Exception):
                link.socket.shutdown(2)
                return
            for each in answer if isinstance(answer, list) else [answer]:
                link.send(each if isinstance(each, str) else json.dumps(each))

    def answer_http(link, request):
        if request.path.endswith("/schema"):
            return link.respond(200 if schema else 404, json.dumps({"action": schema}))
        return None

    with server.serve(serve, "127.0.0.1", 0, process_request=answer_http) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.socket.getsockname()[1]}"
        finally:
            running.shutdown()
            thread.join()


def server_step(reward=None, done=False, **seen):
    return {"type": "observation", "data": {"observation": seen, "reward": reward, "done": done}}


def error(code, message="no"):
    return {"type": "error", "data": {"code": code, "message": message}}


def remote(url, **settings):
    return gym.make(OPENENV, url=url, **{"to_action": "message", "check_seed": False, "timeout": 10.0} | settings)


def test_what_goes_over_the_wire():
    heard, headers = [], []

    def handle(message, count):
        heard.append(message)
        return server_step(None if count < 2 else 1, count == 2, text="hello", metadata={"answer": "42"})

    with socket_server(handle, headers) as url:
        key = {"Authorization": "Bearer 7"}
        env = remote(url, reset_options={"split": "test"}, system="Be brief.", headers=key)
        observation, info = env.reset(seed=5, options={"index": 2})
        assert (observation, info["system"], info["seed"]) == ("hello", "Be brief.", 5)
        assert env.step("one")[:4] == ("hello", 0.0, False, False)
        *_, info = env.step("two")
        assert info["success"]
        assert "42" not in str(info)
        env.close()
    assert headers == ["Bearer 7"]
    assert heard == [
        {"type": "reset", "data": {"split": "test", "index": 2, "seed": 5}},
        {"type": "step", "data": {"message": "one"}},
        {"type": "step", "data": {"message": "two"}},
    ]


def test_a_late_answer_is_never_taken_for_the_next_one():
    release = threading.Event()

    def handle(message, count):
        if message["type"] == "step" and message["data"]["message"] == "slow":
            release.wait(20)
            return server_step(1.0, True, text="the answer to slow")
        return server_step(0.0, text=f"{message['type']} {count}")

    with socket_server(handle) as url:
        env = remote(url, timeout=0.5)
        env.reset()
        _, reward, terminated, _, info = env.step("slow")
        assert (reward, terminated, info["verdict"].status) == (0.0, True, "wrong")  # slow again, and an empty text not
        assert "TimeoutError" in info["verdict"].reason
        release.set()
        assert env.reset()[0] == "reset 0"  # a new session
        assert env.step("quick")[0] == "step 1"
        env.close()


@pytest.mark.parametrize("answer", [OSError(), "no JSON", error("EXECUTION_ERROR", "it broke")])
def test_a_server_that_fails_on_one_action_alone_gives_zero(answer):
    def handle(message, count):
        if message["type"] == "step" and message["data"]["message"] == "boom":
            return answer
        return server_step(0.0, text=f"{message['type']} {count}")

    with socket_server(handle) as url:
        env = remote(url)
        env.reset(seed=3)
        env.step("first")
        _, reward, terminated, truncated, info = env.step("boom")
        assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
        assert (info["verdict"].status, info["verdict"].valid) == ("wrong", True)
        assert "failed on what the policy wrote" in info["verdict"].reason
        env.reset(seed=3)
        assert env.step("first")[0] == "step 1"
        env.close()


@pytest.mark.parametrize(
    "answer",
    [
        OSError(),
        "no JSON",
        "[]",
        '{"type": "observation", "data": 3}',
        {"type": "observation", "data": {"observation": "text"}},
        error("EXECUTION_ERROR", "it broke"),
        "[" * 100_000,
    ],
)
def test_a_server_that_breaks_or_talks_nonsense_is_an_env_error(answer):
    with socket_server(lambda message, count: answer if message["type"] == "step" else server_step(text="go")) as url:
        env = remote(url)
        for _ in range(2):
            env.reset()
            _, reward, terminated, truncated, info = env.step("x")
            assert (reward, terminated, truncated) == (0.0, False, True)
            assert info["verdict"].status == "env_error"
        env.close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error("VALIDATION_ERROR"), ValueError),
        (error("FACTORY_ERROR"), RuntimeError),
        (error("CAPACITY_REACHED"), TimeoutError),
        (server_step(done=True, text="over"), RuntimeError),
        (OSError(), ConnectionError),
    ],
)
def test_a_reset_that_fails_raises(answer, kind):
    with socket_server(lambda message, count: answer) as url:
        env = remote(url, timeout=0.6)
        with pytest.raises(kind):
            env.reset(seed=1)
        env.close()


def test_where_there_is_no_server():
    with pytest.raises(ConnectionError, match="no OpenEnv server"):
        remote("http://127.0.0.1:9").reset()


def test_seeds_are_asked_about_once_for_an_environment_and_those_it_spawns():
    begun = []

    def handle(message, count):
        begun.append(message["data"]["seed"])
        return server_step(text=f"task {message['data']['seed']}")

    with socket_server(handle) as url:
        env = remote(url, check_seed=True).unwrapped
        twins = [env.spawn(), env.spawn()]
        for seed, each in enumerate([*twins, env]):
            assert each.reset(seed=seed)[0] == f"task {seed}"
            each.close()
    assert begun == [0, 0, 1, 2]


@pytest.mark.filterwarnings("error")
def test_gymnasiums_checker_has_nothing_to_say():
    from gymnasium.utils.env_checker import check_env

    with socket_server(lambda message, count: server_step(0.5, count == 3, text=f"{count}")) as url:
        env = remote(url, new_session=True, check_seed=True)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()


def test_texts_of_observations():
    seen = {"board": [[0, 1]], "hint": "left", "empty": None, "metadata": {"answer": 1}}
    with socket_server(lambda message, count: server_step(**seen)) as url:
        for to_text, expected in {
            None: '{"board": [[0, 1]], "hint": "left"}',
            "hint": "left",
            "board": "[[0, 1]]",
            (lambda s: s["hint"].upper()): "LEFT",
        }.items():
            env = remote(url, to_text=to_text)
            assert env.reset()[0] == expected
            assert env.unwrapped.spawn().reset()[0] == expected
            env.close()
        with pytest.raises(RuntimeError, match="no 'hintt'; it has board, hint"):
            remote(url, to_text="hintt").reset()


def test_actions_of_ones_own_and_refusals_of_the_server_are_told_to_the_policy():
    def handle(message, count):
        if message["type"] == "reset":
            return server_step(text="go")
        return (
            server_step(1.0, True, text="yes") if message["data"] == {"n": 7} else error("VALIDATION_ERROR", "n is 7")
        )

    with socket_server(handle) as url:
        env = remote(url, to_action=lambda text: {"n": int(text)})
        env.reset()
        assert "invalid literal" in env.step("seven")[0]
        assert "n is 7" in env.step("6")[0]
        assert env.step("7")[1] == 1.0
        env.close()


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("fields", "said", "sent"),
    [
        ({"message": TEXT, "metadata": {}}, "go <on>", {"message": "go <on>"}),
        ({"message": TEXT, "loud": {"type": "boolean"}}, '{"message": "go"}', {"message": "go"}),
        ({"move": {"type": "integer"}}, '```json\n{"move": 3}\n```', {"move": 3}),
    ],
)
def test_the_schema_says_how_to_act(fields, said, sent):
    heard = []

    def handle(message, count):
        heard.append(message["data"])
        return server_step(None, text="go")

    with socket_server(handle, schema={"properties": fields, "required": list(fields)[:1]}) as url:
        env = remote(url, to_action=None)
        _, info = env.reset()
        env.step(said)
        env.close()
    assert heard == [{}, sent]
    assert ("system" in info) == (said != "go <on>")


def test_tools_of_a_server_are_listed_once_and_called():
    heard = []

    def handle(message, count):
        heard.append(message["data"])
        if message["data"].get("type") == "list_tools":
            return server_step(
                0.0, tools=[{"name": "ask", "description": "Asks.", "input_schema": {"properties": {"q": TEXT}}}]
            )
        if message["type"] == "reset":
            return server_step(text="go")
        result = {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
        return server_step(1.0, True, tool_name="ask", result=result)

    schema = {"properties": {"type": {"const": "call_tool"}, "tool_name": TEXT, "arguments": {}}}
    with socket_server(handle, schema=schema) as url:
        env = remote(url, to_action=None)
        for _ in range(2):
            _, info = env.reset()
            assert info["tools"][0]["function"]["parameters"] == {"properties": {"q": TEXT}}
            assert "one call of a tool: ask" in env.step("hello")[0]
            text, reward, terminated, _, info = env.step(
                '<tool_call>{"name": "ask", "arguments": {"q": "x"}}</tool_call>'
            )
            assert (text, reward, terminated, info["role"]) == ("one\ntwo", 1.0, True, "tool")
        env.close()
    call = {"type": "call_tool", "tool_name": "ask", "arguments": {"q": "x"}}
    assert heard == [{}, {"type": "list_tools"}, call, {}, call]


@pytest.mark.parametrize("schema", [None, "text", {"properties": {"tool_name": TEXT, "arguments": {}}}])
def test_a_schema_that_says_nothing(schema):
    with socket_server(lambda message, count: server_step(text="go"), schema=schema) as url:
        env = remote(url, to_action=None)
        with pytest.raises(RuntimeError, match="give to_action"):
            env.reset()
        env.close()


# NeMo Gym


def row(**more):
    return {"responses_create_params": {"input": [{"role": "user", "content": "hello"}]}, **more}


class _Gym(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer, cookie = self.server.handle(self.path, body, self.headers.get("Cookie", ""))
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if cookie:
            self.send_header("Set-Cookie", f"session={cookie}; path=/; httponly")
        self.end_headers()
        for place in range(0, len(data), self.server.piece or len(data) or 1):
            try:
                self.wfile.write(data[place : place + (self.server.piece or len(data))])
            except OSError:
                return
            if self.server.piece:
                time.sleep(0.1)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def gym_server(handle, piece=0):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Gym)
    server.handle, server.piece, server.handle_error = handle, piece, lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_row_is_played_with_its_cookie_its_tools_and_its_system_prompt():
    heard = []
    parameters = {"type": "object", "properties": {"x": {"type": "integer"}}}

    def handle(path, body, cookie):
        heard.append((path, body, cookie))
        if path == "/reset":
            return 200, {"observation": "and go", "info": {"supports_explicit_close": True}}, "abc==.d"
        if len(heard) == 2:
            return 200, {"reward": 0.5, "info": {"tool_outputs": [{"call_id": "c", "output": "9"}]}}, "abc==.e"
        return 200, {"observation": None, "reward": 0.5, "terminated": True}, None

    system = {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]}
    asked = {"input": [system, {"role": "user", "content": "3 + 6?"}]}
    asked["tools"] = [{"type": "function", "name": "add", "parameters": parameters, "strict": True}]
    with gym_server(handle) as url:
        env = gym.make(NEMO, url=url, rows=[{"responses_create_params": asked, "secret": "9"}], check_seed=False)
        observation, info = env.reset(seed=1)
        assert (observation, info["system"], info["index"]) == ("3 + 6?\n\nand go", "Be brief.", 0)
        assert info["tools"] == [{"type": "function", "function": {"name": "add", "parameters": parameters}}]
        call = 'so\n<tool_call>\n{"name": "add", "arguments": {"x": 3}}\n</tool_call>'
        observation, reward, terminated, _, info = env.step(call)
        assert (observation, reward, terminated, info["role"]) == ("9", 0.5, False, "tool")
        assert env.step("nine")[4]["success"]
        env.close()
    assert [(path, cookie) for path, _, cookie in heard] == [
        ("/reset", ""),
        ("/step", "session=abc==.d"),
        ("/step", "session=abc==.e"),
        ("/close", "session=abc==.e"),
    ]
    said, calls = heard[1][1]["response"]["output"]
    assert said["content"][0]["text"] == "so"
    assert (calls["name"], json.loads(calls["arguments"])) == ("add", {"x": 3})
    assert heard[2][1]["secret"] == "9"


def test_rows_come_in_the_seeds_order_or_by_their_index(tmp_path):
    table = [row(name=f"task {place}") for place in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in table))
    with gym_server(lambda path, body, cookie: (200, {"observation": body["name"]}, None)) as url:
        env = gym.make(NEMO, url=url, rows=str(tmp_path / "rows.jsonl"))

        def names(seed):
            first = env.reset(seed=seed)[0]
            return [first] + [env.reset()[0] for _ in range(19)]

        assert names(1) == names(1) != names(2)
        assert len(set(names(1))) == 20
        assert env.reset(options={"index": 7})[0].endswith("task 7")
        for wrong in ({"index": 20}, {"index": -1}, {"index": "7"}, {"split": "test"}):
            with pytest.raises(ValueError, match="index"):
                env.reset(options=wrong)
        env.close()


@pytest.mark.parametrize("rows", [[], [{"prompt": "x"}], [{"responses_create_params": "x"}], "no/such/file.jsonl"])
def test_what_is_no_row(rows):
    with pytest.raises((DataError, OSError)):
        gym.make(NEMO, url="http://127.0.0.1:1", rows=rows)


@pytest.mark.parametrize(
    ("status", "answer"), [(500, {"detail": "it broke"}), (200, b"no JSON"), (200, []), (200, {"info": "x"})]
)
def test_a_resources_server_that_breaks_is_an_env_error(status, answer):
    with gym_server(lambda path, *_: (200, {}, None) if path == "/reset" else (status, answer, None)) as url:
        env = gym.make(NEMO, url=url, rows=[row()])
        env.reset(seed=1)
        *_, truncated, info = env.step("x")
        assert truncated
        assert info["verdict"].status == "env_error"
    with pytest.raises(ConnectionError):
        env.reset(seed=1)


def test_a_server_that_drips_is_cut_off_at_the_deadline():
    with gym_server(lambda *_: (200, {"observation": "x" * 100_000}, None), piece=1) as url:
        env = gym.make(NEMO, url=url, rows=[row()], timeout=0.5)
        with pytest.raises(TimeoutError):  # and not in hours
            env.reset(seed=1)


def test_a_servers_tasks_are_rows_for_any_trainer(tmp_path):
    from rlvr.adapters import read_spec, rows

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row(name=f"task {place}")) + "\n" for place in range(3)))
    with gym_server(lambda path, body, cookie: (200, {"observation": body["name"]}, None)) as url:
        table = rows(NEMO, kwargs={"url": url, "rows": str(tmp_path / "rows.jsonl")})
        prompts = [each["prompt"][-1]["content"] for each in table]
        assert sorted(prompts) == [f"hello\n\ntask {place}" for place in range(3)]
        for each, prompt in zip(table, prompts, strict=True):
            env, observation, _ = read_spec(each).start()
            assert observation == prompt
            env.close()
