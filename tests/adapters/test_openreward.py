"""The Open Reward Standard: our server, spoken to by hand over HTTP and by the client of ``openreward``."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import ClassVar

import gymnasium as gym
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters import testing as kit
from rlvr.adapters.suites.openreward import MAX_LISTED, OpenRewardServer
from rlvr.envs import Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.tools.calls import read_calls

GUESS, SQL, VISUAL = "rlvr/GuessNumber-v0", "rlvr/SQL-v0", "rlvr/VisualCounting-v0"
TOKEN = "sixteen-or-more-letters"
foreign = pytest.mark.foreign


class Echo(gym.Env[str, str]):
    """Says what it is told, hangs until the test lets it go, or fails."""

    observation_space = action_space = Text(10**6)
    released = threading.Event()
    steps: ClassVar[list[str]] = []  # the actions that were carried out in this test

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return f"seed {seed}", {}

    def step(self, action):
        steps = Echo.steps  # a step that an earlier test left behind counts there
        if action == "hang":
            Echo.released.wait(60)
        if action == "raise":
            raise OSError("on purpose, in /etc/secret/file")
        steps.append(action)
        words = {"verdict": Verdict(0.0, "verifier_error", reason="no judge")} if action == "judge" else {}
        return " ".join([action] * 3_000), 0.5, action == "end", False, words


gym.register("rlvr-testing/Echo-v0", Echo)
ECHO = "rlvr-testing/Echo-v0"


class Client:
    """Speaks the standard by hand."""

    def __init__(self, server, key=None, **headers):
        self.port, self.headers = server.port, headers
        if key := server.token if key is None else key:
            self.headers = {"X-API-Key": key, **headers}
        self.sid = None

    def ask(self, method, path, body=None, **headers):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            sid = {"X-Session-ID": self.sid} if self.sid else {}
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, data, {**self.headers, **sid, **headers})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def get(self, path):
        status, text = self.ask("GET", path)
        assert status == 200, text
        return json.loads(text)

    def post(self, path, body=None):
        status, text = self.ask("POST", path, {} if body is None else body)
        assert status == 200, text
        return json.loads(text)

    def open(self, **task):
        self.sid = None
        self.sid = events(self.ask("POST", "/create_session")[1])[0][1]
        return self.ask("POST", "/create", task)

    def call(self, name, input, **others):
        status, text = self.ask("POST", "/call", {"name": name, "input": input, **others})
        return outcome(text) if status == 200 else (status, json.loads(text)["detail"])

    def reply(self, message):
        return self.call("reply", {"message": message})


def events(text):
    """As the standard's client reads them, which strips each piece."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(":", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"].strip(), lines["data"].lstrip()))
    return found


def outcome(text):
    found = events(text)
    assert found[0][0] == "task_id"
    if found[-1][0] == "error":
        return "error", found[-1][1]
    assert {event for event, _ in found[1:-1]} <= {"chunk"}
    assert found[-1][0] == "end"
    return "ok", json.loads("".join(data for _, data in found[1:]))


@pytest.fixture(scope="module")
def server():
    with OpenRewardServer([GUESS, SQL], {"level": 1}, token=TOKEN, limit=8, tasks=50) as found:
        yield found


@pytest.fixture
def echo():
    Echo.released.clear()
    Echo.steps = []
    try:
        with OpenRewardServer([ECHO], limit=2) as found:
            yield found
            Echo.released.set()
    finally:
        Echo.released.set()


def served(stack, specs):
    """A server for each set of arguments, and the task as the standard names it."""
    found = {}
    for spec in specs:
        key = spec.env_id, json.dumps(spec.kwargs)
        if key not in found:
            found[key] = stack.enter_context(OpenRewardServer([spec.env_id], dict(spec.kwargs), limit=16))
    return lambda spec: found[spec.env_id, json.dumps(spec.kwargs)]


def play_one(server, spec, engine):
    client = Client(server)
    status, text = client.open(task_spec={"seed": spec.seed, **spec.options})
    if status != 200:
        assert status == 500
        assert "on purpose" in text
        return kit.PlayedEpisode(spec, None)
    shown = json.dumps(client.get("/task_tools")["tools"])
    said = shown + "\n".join(block["text"] for block in client.get("/prompt"))
    actions, rewards = [], []
    while True:
        actions.append(engine.reply(said))
        kind, told = client.reply(actions[-1])
        if kind == "error":
            assert "on purpose" in told
            return kit.PlayedEpisode(spec, None, actions=actions)
        output = told["output"]
        rewards.append(output["reward"])
        said += "\n".join(block["text"] for block in output["blocks"])
        if output["finished"]:
            client.post("/delete")
            return kit.PlayedEpisode(
                spec, sum(rewards), None, actions, Verdict.from_dict(output["metadata"]["verdict"])
            )


def test_the_server_conforms_over_http():
    def play(specs, engine):
        with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
            at = served(stack, specs)
            return list(pool.map(lambda spec: play_one(at(spec), spec, engine), specs))

    print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False, groups=4)))


def test_environments_splits_and_tasks_are_listed(server):
    client = Client(server)
    assert client.get("/list_environments") == ["guessnumber-v0", "sql-v0"]
    assert [split["type"] for split in client.get("/SQL-v0/splits")] == ["train", "validation", "test"]
    for start in ("", "/guessnumber-v0"):
        assert client.post(f"{start}/num_tasks", {"split": "test"}) == {"num_tasks": 50}
    listed = client.post("/tasks", {"split": "test"})
    assert len(listed["tasks"]) == 50
    assert listed["env_name"] == "guessnumber-v0"
    assert client.post("/task", {"split": "test", "index": 3})["task"] == listed["tasks"][3]
    assert client.post("/task_range", {"split": "test", "start": -2})["tasks"] == listed["tasks"][-2:]
    for path, body, status in [
        ("/task", {"split": "test", "index": 50}, 400),
        ("/task", {"split": "test", "index": -1}, 400),
        ("/task", {"split": "tests", "index": 0}, 400),
        ("/task_range", {"split": "test", "start": "1"}, 400),
        ("/nothing-v0/num_tasks", {"split": "test"}, 404),
        ("/nothing", {}, 404),
    ]:
        assert client.ask("POST", path, body)[0] == status, path


def test_a_split_without_end_is_not_listed_whole():
    with OpenRewardServer([GUESS], limit=1, tasks=MAX_LISTED + 1) as server:
        client = Client(server)
        assert client.ask("POST", "/tasks", {"split": "train"})[0] == 413
        last = client.post("/task_range", {"split": "train", "start": MAX_LISTED})["tasks"]
        assert last == [{"split": "train", "index": MAX_LISTED}]


def test_a_task_is_the_same_however_it_is_named(server):
    env = gym.make(GUESS, level=1)
    expected, info = env.reset(seed=0, options={"split": "test", "index": 7})
    for task in ({"split": "test", "index": 7}, {"task_spec": {"split": "test", "index": 7, "seed": 0}}):
        client = Client(server)
        assert client.open(**task)[0] == 200
        assert client.get("/messages") == [
            {"role": role, "blocks": [{"text": text, "detail": None, "type": "text"}]}
            for role, text in (("system", info.get("system")), ("user", expected))
            if text
        ]
        kind, told = client.reply(env.unwrapped.solve())
        step = gym.make(GUESS, level=1)
        step.reset(seed=0, options={"split": "test", "index": 7})
        _observation, reward, terminated, truncated, info_after = step.step(env.unwrapped.solve())
        assert kind == "ok"
        assert told["ok"]
        assert (told["output"]["reward"], told["output"]["finished"]) == (reward, terminated or truncated)
        assert told["output"]["metadata"]["verdict"] == info_after["verdict"].to_dict()
        client.post("/delete")


def test_tools_of_an_environment_are_tools_of_the_standard(server):
    env = gym.make(SQL, level=1)
    client = Client(server)
    assert client.open(env_name="sql-v0", split="train", index=0)[0] == 200
    tools = client.get("/sql-v0/task_tools")["tools"]
    assert [tool["name"] for tool in tools] == ["list_tables", "describe_table", "run_query", "reply"]
    assert client.get("/sql-v0/tools")["tools"] == tools
    assert "<tool_call>" not in client.get("/sql-v0/prompt")[0]["text"]
    env.reset(seed=0, options={"split": "train", "index": 0})
    while True:
        action = env.unwrapped.solve()
        calls = read_calls(action, "hermes", {}).calls
        status, told = client.call(calls[0].name, dict(calls[0].arguments)) if calls else client.reply(action)
        observation, reward, over, _, _ = env.step(action)
        assert (status, told["output"]["reward"], told["output"]["finished"]) == ("ok", reward, over)
        if over:
            break
        assert told["output"]["blocks"][0]["text"] == observation
    assert reward == 1.0
    assert client.reply("again")[1]["reason"] == "episode_finished"


def test_calls_of_no_tool_or_with_wrong_arguments_cost_no_turn(server):
    client = Client(server)
    client.open(split="train", index=0)
    for name, given, reason in [
        ("nothing", {}, "not_found"),
        ("reply", {}, "input_validation"),
        ("reply", {"message": 3}, "input_validation"),
        ("reply", {"message": "3", "more": 1}, "input_validation"),
    ]:
        kind, told = client.call(name, given)
        assert (kind, told["ok"], told["reason"]) == ("ok", False, reason)
    assert client.reply("\\boxed{1}")[1]["output"]["metadata"]["turn"] == 1
    for body in (
        {"name": "reply"},
        {"name": 3, "input": {}},
        {"name": "reply", "input": []},
        {"x": 1},
        b"[",
        b"{" * 99,
    ):
        assert client.ask("POST", "/call", body)[0] in (200, 400)
    assert client.reply("\\boxed{1}")[1]["output"]["metadata"]["turn"] == 2


def test_a_fault_is_an_error_and_no_reward(echo):
    for action, reason in (("raise", "env_error"), ("judge", "verifier_error")):
        client = Client(echo)
        assert client.open(split="train", index=1)[0] == 200
        assert client.reply("go on")[1]["output"]["reward"] == 0.5  # the control
        kind, told = client.reply(action)
        assert kind == "error"
        assert reason in told
        assert "secret" not in told
        assert client.reply("go on")[0] == "error"  # what a lost episode would earn is no reward either
        client.post("/delete")
        assert client.ask("POST", "/ping")[0] == 404


def test_a_step_that_the_action_makes_late_earns_nothing():
    Echo.released.clear()
    try:
        with OpenRewardServer([ECHO], limit=1, timeout=0.2) as server:
            client = Client(server)
            client.open(split="train", index=0)
            kind, told = client.reply("hang")
            assert (kind, told["output"]["reward"], told["output"]["finished"]) == ("ok", 0.0, True)
    finally:
        Echo.released.set()


def test_a_call_that_is_asked_again_is_carried_out_once(echo):
    client = Client(echo)
    client.open(split="train", index=0)
    connection = http.client.HTTPConnection("127.0.0.1", echo.port, timeout=60)
    body = json.dumps({"name": "reply", "input": {"message": "hang"}})
    connection.request("POST", "/call", body, {**client.headers, "X-Session-ID": client.sid})
    line = connection.getresponse().readline, None
    response_lines = [line[0]() for _ in range(2)]
    name = response_lines[1].decode().split(":", 1)[1].strip()
    connection.close()  # in the middle of the call
    assert client.reply("again")[0] == 409
    Echo.released.set()
    kind, told = client.call("reply", {"message": "hang"}, task_id=name)
    assert kind == "ok"
    assert told["output"]["blocks"][0]["text"].startswith("hang")
    assert client.call("reply", {"message": "hang"}, task_id=name) == (kind, told)
    assert len(Echo.steps) == 1
    other = Client(echo)
    other.open(split="train", index=1)
    status, text = other.ask("POST", "/call", {"name": "reply", "input": {"message": "x"}, "task_id": name})
    assert status == 200
    assert events(text)[0][0] == "error"
    assert len(Echo.steps) == 1


def test_create_that_is_sent_again_begins_once_and_ids_are_the_server_s(echo):
    client = Client(echo)
    assert client.open(split="train", index=0)[0] == 200
    assert client.ask("POST", "/create", {"split": "train", "index": 0})[0] == 200
    assert client.ask("POST", "/create", {"split": "train", "index": 1})[0] == 400
    other = Client(echo)
    other.sid = "chosen"
    assert other.ask("POST", "/create", {"split": "train", "index": 0})[0] == 404
    for body in ({}, {"split": "train"}, {"split": "train", "index": 0, "task_spec": {}}, {"task_spec": {"x": 1}}):
        assert other.open(**body)[0] == 400, body
    assert other.open(split="train", index=0, toolset_name="claude-code")[0] == 400
    assert other.open(task_spec={"seed": 5})[0] == 200
    assert other.get("/prompt")[0]["text"] == "seed 5"
    third = Client(echo)
    status, text = third.open(split="train", index=0)
    assert status == 503
    assert "0 of 2 are free" in text
    other.post("/delete")
    assert third.open(split="train", index=0)[0] == 200


def test_sessions_that_nobody_uses_end(echo):
    table = next(iter(echo._tables))
    table._clock = lambda: now
    now = 0.0
    client, kept = Client(echo), Client(echo)
    client.open(split="train", index=0)
    kept.open(split="train", index=1)
    now = 500.0
    assert kept.post("/ping") == {"status": "ok"}
    now = 900.0
    deadline = threading.Event()
    while len(table) > 1:
        deadline.wait(0.05)
    assert client.ask("POST", "/ping")[0] == 404
    assert client.reply("x")[0] == 404
    assert kept.reply("x")[0] == "ok"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"key": ""}, 401),
        ({"key": "another-of-sixteen"}, 401),
        ({"key": "", "Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({}, 200),
    ],
)
def test_who_may_come_in(server, headers, status):
    client = Client(server, **headers)
    assert client.ask("GET", "/list_environments")[0] == status
    assert client.ask("POST", "/create_session")[0] == status
    assert client.ask("GET", "/health")[0] == (status if status != 401 else 200)


def test_a_body_that_is_too_large_or_too_deep_is_refused(server):
    client = Client(server)
    client.open(split="train", index=0)
    assert client.ask("POST", "/call", b'{"name": "' + b"x" * (17 << 20) + b'"}')[0] == 413
    assert client.ask("POST", "/call", json.dumps({"name": "reply", "input": {"x": [0] * 70_000}}).encode())[0] == 413
    assert (
        client.ask("POST", "/call", b'{"name": "reply", "input": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001)[0] == 400
    )
    assert client.reply("x" * (2 << 20))[1]["ok"]  # the control: large, and no more than that


def test_requests_that_never_end_do_not_pile_up():
    with OpenRewardServer([ECHO], limit=1) as server, ExitStack() as stack:
        client = Client(server)
        slow = b"POST /create_session HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        key = f"X-API-Key: {server.token}\r\nX-Session-ID: x\r\nContent-Length: 9\r\n\r\n".encode()
        for _ in range(18):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            link.sendall(slow.replace(b"create_session", b"create") + key)
        until = time.monotonic() + 60
        while (answer := client.ask("GET", "/list_environments"))[0] != 503:
            assert time.monotonic() < until
        assert "18 requests are under way" in answer[1]
        assert client.ask("GET", "/health")[0] == 200
        stack.close()
        while client.ask("GET", "/list_environments")[0] != 200:
            assert time.monotonic() < until


def test_spaces_at_the_edge_of_a_piece_arrive(echo):
    client = Client(echo)
    client.open(split="train", index=0)
    for word in (" " * 99, 'é \\ "', "a b"):
        assert client.reply(word)[1]["output"]["blocks"][0]["text"] == " ".join([word] * 3_000)


def test_an_image_is_a_block_beside_the_text():
    pytest.importorskip("PIL")
    from rlvr.envs.core.images import read_data_url

    with OpenRewardServer([VISUAL], limit=1) as server:
        client = Client(server)
        client.open(split="train", index=4)
        blocks = client.get("/prompt")
        observation, _info = gym.make(VISUAL).reset(seed=0, options={"split": "train", "index": 4})
        text, image = blocks[-2:]
        assert text["text"] == observation["text"]
        assert image["mimeType"] == "image/png"
        assert (read_data_url(f"data:image/png;base64,{image['data']}") == observation["image"]).all()


def test_sigterm_drains_the_command_and_another_ends_it(child):
    """No task begins any more, the one under way is played to its end, and then the server ends."""
    command = [sys.executable, "-m", "rlvr", "serve-ors", GUESS, "--port", "0", "--no-token"]
    for signals, status in ((1, 0), (2, -signal.SIGTERM)):
        with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            port = int(process.stdout.readline().split()[2].rpartition(":")[2].rstrip(","))
            client, other = (Client(SimpleNamespace(port=port, token="")) for _ in range(2))
            assert client.open(split="train", index=0)[0] == 200
            assert client.get("/ready")["ready"]
            process.send_signal(signal.SIGTERM)
            until = time.monotonic() + 60
            while client.ask("GET", "/ready")[0] != 503:
                assert time.monotonic() < until
            status_code, text = other.open(split="train", index=1)
            assert status_code == 503
            assert "begins nothing new" in text
            assert client.get("/health") == {"status": "ok"}
            assert client.reply("no number")[1]["output"]["finished"] is False  # the episode goes on
            if signals == 2:
                process.send_signal(signal.SIGTERM)
            else:
                client.post("/delete")
            assert process.wait(60) == status


def test_two_environments_of_one_name_are_refused():
    with pytest.raises(ValueError, match="different names"):
        OpenRewardServer([GUESS, GUESS])
    with pytest.raises(ValueError, match="different names"):
        OpenRewardServer([])


# the standard's own client


async def play_foreign(base_url, key, spec, engine):
    from openreward.api.environments.client import AsyncEnvironmentsAPI
    from openreward.api.errors import ToolFailed

    async with AsyncEnvironmentsAPI(base_url, key) as api:
        env = api.get(spec.env_id.rpartition("/")[2].lower())
        (task,) = await env.get_task_range("train", 0, 1)
        task.task_spec = {"seed": spec.seed, **spec.options}
        try:
            async with env.session(task=task) as session:
                shown = "\n".join(f"{tool.name}: {tool.description}" for tool in await session.list_tools())
                said = shown + "\n".join(block.text for block in await session.get_prompt())
                actions, rewards = [], []
                while True:
                    actions.append(engine.reply(said))
                    try:
                        told = await session.call_tool("reply", {"message": actions[-1]})
                    except ToolFailed as error:
                        if "on purpose" not in str(error):
                            raise
                        return kit.PlayedEpisode(spec, None, actions=actions)
                    said += "\n".join(block.text for block in told.blocks)
                    rewards.append(told.reward)
                    if told.finished:
                        verdict = Verdict.from_dict(told.metadata["verdict"])
                        return kit.PlayedEpisode(spec, sum(rewards), None, actions, verdict)
        except Exception as error:
            if "on purpose" not in str(error):
                raise
            if isinstance(error, kit.EngineFault):
                raise
            return kit.PlayedEpisode(spec, None)


@foreign
def test_the_server_conforms_with_the_client_of_openreward():
    pytest.importorskip("openreward")
    from openreward.api._session.ping import ping_thread

    # Its thread for pings, and that one's own pool, live as long as the process.
    pool = ThreadPoolExecutor(1)
    pool.submit(int).result()
    loop = ping_thread._ensure_started()
    loop.call_soon_threadsafe(loop.set_default_executor, pool)

    def play(specs, engine):
        async def all_of_them(at):
            tasks = [play_foreign(at(spec).origin, at(spec).token, spec, engine) for spec in specs]
            return await asyncio.gather(*tasks)

        with ExitStack() as stack:
            return asyncio.run(all_of_them(served(stack, specs)))

    print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False, groups=4)))


@foreign
def test_the_client_of_openreward_lists_and_plays_by_tools_and_index(server):
    pytest.importorskip("openreward")
    from openreward.api.environments.client import AsyncEnvironmentsAPI, ToolCallError

    async def play():
        async with AsyncEnvironmentsAPI(server.origin, server.token) as api:
            env = api.get("sql-v0", variant="sql-v0")
            assert await env.list_splits() == ["train", "validation", "test"]
            assert await env.num_tasks("test") == 50
            tasks = await env.list_tasks("test")
            assert tasks[7] == await env.get_task("test", 7)
            async with env.session(split="test", index=7) as session:
                assert [tool["function"]["name"] for tool in await session.list_tools("openrouter")]
                messages = await session.get_messages("openai")
                assert [message["role"] for message in messages] == ["system", "user"]
                with pytest.raises(ToolCallError, match="is not a valid tool"):
                    await session.call_tool("nothing", {})
                first = await session.call_tool("run_query", {"query": "SELECT 1"})
                assert (first.finished, first.reward) == (False, 0.0)
                last = await session.call_tool("reply", {"message": "I give up"})
                assert (last.finished, last.reward) == (True, 0.0)
                with pytest.raises(ToolCallError, match="the episode is over"):
                    await session.call_tool("reply", {"message": "again"})
        async with AsyncEnvironmentsAPI(server.origin, "not-the-token-at-all") as api:
            with pytest.raises(Exception, match="Authentication Failed"):
                await api.get("sql-v0").list_splits()

    asyncio.run(play())
