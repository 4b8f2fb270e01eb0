"""A live session belongs to one episode instance: no group member, fork, copy or restored episode gets another's."""

from __future__ import annotations

import copy
import gc
import importlib
import json
import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.agents import Conversation, Reply, Rollout, RolloutRequest
from rlvr.envs import TextEnv
from rlvr.envs.agentic import terminal
from rlvr.envs.sandbox import SandboxUnavailable, shared
from rlvr.envs.tools import MCP, Call, Kit, Tool, tool, write_call
from rlvr.envs.tools.kits import Workspace
from rlvr.envs.tools.sessions import Handle, Sessions
from rlvr.envs.vector import VectorEnv

from ..group_isolation import PrivateValue, check_members

# A worker process must be able to import it, so it cannot be part of this file, which pytest imports its own way.
sys.path.insert(0, str(Path(__file__).parent))
private_kit = importlib.import_module("private_kit")
Drawing, seven = private_kit.Drawing, private_kit.seven

SUMS = "rlvr/OrderOfOperations-v0"
SERVER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("number_server.py"))]


def call(name: str, /, **arguments: Any) -> str:
    return write_call(Call(name, arguments), "hermes")


def sandboxed() -> bool:
    try:
        shared()
    except SandboxUnavailable:
        return False
    return True


def has_terminals() -> bool:
    try:
        terminal.require()
        import pyte  # noqa: F401
    except (SandboxUnavailable, ImportError):
        return False
    return True


in_sandbox = pytest.mark.skipif(not sandboxed(), reason="no sandbox tier holds here; `rlvr doctor` says why")
at_terminal = pytest.mark.skipif(not has_terminals(), reason="no sandbox tier holds a terminal, or no pyte")


class Mixed(Drawing):
    """The fault itself: whoever comes is served by the session that was used last, as with one pool for all."""

    def run(self, session: Any, used: Tool, arguments: Any, seconds: float) -> str:
        return super().run(self.opened[-1], used, arguments, seconds)


PRIVATE = PrivateValue(lambda _: call("draw"), lambda _: call("tell"), str)


def made(kit: Kit, count: int = 8, **settings: Any) -> list[TextEnv]:
    """Members of one group as the rollout makes them: one environment's, over one task."""
    first = gym.make(SUMS, tools={"tools": [kit], "max_calls": 50, **settings}).unwrapped
    return [first, *(first.spawn() for _ in range(count - 1))]


def begun(kit: Kit, *actions: str) -> TextEnv:
    (env,) = made(kit, 1)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env


def until(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


# the law: no value crosses, in any world


def test_no_value_crosses_in_a_group_and_the_law_sees_it_where_one_does():
    for seed in range(100):
        check_members(made(Drawing()), PRIVATE, seed=seed)
    with pytest.raises(AssertionError, match="was given another's value"):
        check_members(made(Mixed()), PRIVATE)
    with pytest.raises(AssertionError, match="not all differ"):
        check_members(made(Drawing(seven)), PRIVATE)


def number_in(text: str) -> str:
    return (re.findall(r"\bn=(\w+)", text) or [""])[-1]


SHELL = "echo n=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ') > n; cat n"
CODE = "import secrets; n = secrets.token_hex(8); print(f'n={n}')"
WORLDS: dict[str, tuple[str, Callable[[], dict[str, Any]], PrivateValue]] = {
    "python": (
        SUMS,
        lambda: {"tools": ["python"]},
        PrivateValue(lambda _: call("python", code=CODE), lambda _: call("python", code="print(f'n={n}')"), number_in),
    ),
    "shell": (
        SUMS,
        lambda: {"tools": ["shell"]},
        PrivateValue(lambda _: call("shell", command=SHELL), lambda _: call("shell", command="cat n"), number_in),
    ),
    "MCP": (
        SUMS,
        lambda: {"tools": [MCP(SERVER)]},
        PrivateValue(lambda _: call("draw_number"), lambda _: call("last_number"), str.strip),
    ),
    "terminal": (
        "rlvr/Terminal-v0",
        dict,
        PrivateValue(lambda _: f"clear; {SHELL}<Enter>", lambda _: "clear; cat n<Enter>", number_in),
    ),
    # Nothing is drawn in a pure world: each member brings a value of its own.
    "SQL": (
        "rlvr/SQL-v0",
        dict,
        PrivateValue(
            lambda number: call("run_query", sql=f"SELECT 'n={number}' AS x"),
            lambda number: call("run_query", sql=f"SELECT 'n={number}' AS x"),
            number_in,
        ),
    ),
}
MARKS = {"python": in_sandbox, "shell": in_sandbox, "terminal": at_terminal}
EVERY = [pytest.param(name, marks=MARKS.get(name, ())) for name in WORLDS]


def group(name: str, count: int, way: str) -> list[TextEnv]:
    """Members that are spawned from one environment, as in the rollout, or made one by one, as in a vector."""
    env_id, settings, _ = WORLDS[name]
    if name == "MCP":
        pytest.importorskip("mcp")
    if way == "made":
        return [gym.make(env_id, **settings()).unwrapped for _ in range(count)]
    first = gym.make(env_id, **settings()).unwrapped
    return [first, *(first.spawn() for _ in range(count - 1))]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["spawned", "made"])
@pytest.mark.parametrize("name", EVERY)
def test_no_value_crosses_in_this_world(name: str, way: str):
    envs = group(name, 4, way)
    for seed in range(2):
        check_members(envs, WORLDS[name][2], seed=seed)
    for env in envs[::-1]:
        env.close()


def test_no_value_crosses_between_visits_of_a_site():
    """Equal clicks lead every member to the same form; what each writes into it is its own."""
    first = gym.make("rlvr/Browser-v0").unwrapped
    first.reset(seed=1)  # a table guide: its form has a field for a name
    way = list(iter(lambda: _clicked(first), ""))
    envs = [first.spawn() for _ in range(4)]
    for env in envs:
        env.reset(seed=1)
        for action in way:
            page = env.step(action)[0]
    field = int(re.search(r"\[(\d+)\] name:", page)[1])
    for number, env in enumerate(envs):
        env.step(call("type", element=field, text=f"n={number}"))
    assert [number_in(env.step(call("submit"))[0]) for env in envs] == ["0", "1", "2", "3"]


def _clicked(env: TextEnv) -> str:
    """The expert's next click, carried out; empty once there is none."""
    action = env.solve()
    if '"click"' not in action:
        return ""
    env.step(action)
    return action


def named_its_own(outcome) -> bool:
    return outcome.call("last_number") == outcome.reply.strip()


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 2, 4, 8])
def test_rewards_do_not_depend_on_the_number_of_samples(samples: int):
    pytest.importorskip("mcp")
    tasks = {"train": [{"question": "Draw a number and name it."}]}
    first = gym.make("rlvr/MCP-v0", server=MCP(SERVER), tasks=tasks, checker=named_its_own).unwrapped
    envs = [first, *(first.spawn() for _ in range(samples - 1))]
    for env in envs:
        env.reset(seed=0)
    told = [env.step(call("draw_number"))[0] for env in envs]
    for env in envs[::-1]:
        env.step(call("last_number"))
    assert [env.step(value)[1] for env, value in zip(envs, told, strict=True)] == [1.0] * samples
    first.close()


class Drawer:
    """An agent that draws, asks for what it drew, and says what both gave."""

    def act(self, conversations: list[Conversation]) -> list[Reply]:
        return [
            Reply((call("draw"), call("tell"), "\\boxed{0}")[len(each.messages) // 2 - 1]) for each in conversations
        ]


def test_no_value_crosses_in_a_rollout_of_groups():
    (env,) = made(Drawing(), 1)
    episodes = Rollout(env, Drawer(), batch_size=16)([RolloutRequest(seed=0, index=0, group=0) for _ in range(24)])
    pairs = [(episode.turns[1].observation, episode.turns[2].observation) for episode in episodes]
    assert all(drawn == told for drawn, told in pairs)
    assert len(set(pairs)) == 24


# one episode's session is nobody else's: forks, snapshots, copies, other threads and processes


def ways(env: TextEnv) -> dict[str, TextEnv]:
    """Every way to a second instance of an episode."""
    snapshot = env.get_state()
    restored = [env.spawn(), env.spawn()]
    for each in restored:
        each.set_state(snapshot)
    return {
        "fork": env.fork(),
        "fork of a fork": env.fork().fork(),
        "one restored": restored[0],
        "another restored": restored[1],
        "copy": copy.copy(env),
        "deep copy": copy.deepcopy(env),
        "pickle": pickle.loads(pickle.dumps(env)),
    }


WAYS = ("fork", "fork of a fork", "one restored", "another restored", "copy", "deep copy", "pickle")


@pytest.mark.parametrize("first", ["original", "others"])
def test_every_second_instance_goes_on_in_a_session_of_its_own(first: str):
    env = begun(Drawing(), call("add"), call("add"))
    others = ways(env)
    ahead = [] if first == "others" else [env.step(call("add"))[0]]
    assert {name: other.step(call("add"))[0] for name, other in others.items()} == dict.fromkeys(WAYS, "3")
    assert {name: other.step(call("add"))[0] for name, other in others.items()} == dict.fromkeys(WAYS, "4")
    assert [*ahead, env.step(call("add"))[0], env.step(call("add"))[0]][:2] == ["3", "4"]


@pytest.mark.parametrize("way", WAYS)
def test_an_instance_that_cannot_be_brought_back_says_so_and_the_first_goes_on(way: str):
    env = begun(Drawing())
    drawn = env.step(call("draw"))[0]
    other = ways(env)[way]
    observation, reward, terminated, _, info = other.step(call("tell"))
    assert (reward, terminated, info["verdict"].valid) == (0.0, False, True)
    assert "not carried out" in observation
    assert other.step(call("tell"))[0] == "none"
    assert env.step(call("tell"))[0] == drawn
    assert env.step(env.solve())[1] == 1.0


@pytest.mark.parametrize("way", WAYS)
def test_what_draws_the_same_again_is_brought_back(way: str):
    """The control of the test above."""
    env = begun(Drawing(seven), call("draw"))
    assert ways(env)[way].step(call("tell"))[0] == "7"


def test_a_replay_that_differs_is_tried_a_second_time():
    kit = Drawing(seven, lambda: 8, seven)
    env = begun(kit, call("draw"))
    fork = env.fork()
    assert fork.step(call("tell"))[0] == "7"
    assert len(kit.opened) == 3
    assert kit.alive == 2


def test_errors_are_compared_like_outputs():
    def fail(session: dict[str, Any]) -> str:
        """Fail with a number."""
        from rlvr.envs.tools import ToolError

        raise ToolError(f"number {session['random']()}")

    class Failing(Drawing):
        tools = (*Drawing.tools, tool(fail, given=1))

    same, other = begun(Failing(seven), call("fail")), begun(Failing(), call("fail"))
    assert same.fork().step(call("tell"))[0] == "none"
    assert "not carried out" in other.fork().step(call("tell"))[0]


def test_going_back_on_the_same_instance_takes_a_fresh_session():
    env = begun(Drawing(), call("add"))
    early = env.get_state()
    env.step(call("add"))
    env.set_state(early)
    assert env.step(call("add"))[0] == "2"
    private = begun(Drawing(), call("draw"))
    private.set_state(private.get_state())
    assert "not carried out" in private.step(call("tell"))[0]


def test_an_environment_that_is_reset_begins_anew():
    kit = Drawing()
    env = begun(kit)
    drawn = env.step(call("draw"))[0]
    env.reset(seed=0)
    assert env.step(call("tell"))[0] == "none"
    assert env.step(call("draw"))[0] != drawn
    assert kit.alive == 1


def test_states_of_the_same_episode_go_on_apart_without_an_environment():
    """A search over states: two that differ in nothing but their sessions."""
    env = begun(Drawing())
    task, root = env.task, env.get_state().state
    states = [task.apply(root, call("draw"))[0] for _ in range(4)]
    for state in states[::-1]:
        assert task.observe(task.apply(state, call("tell"))[0]) == task.observe(state)
    assert len({task.observe(state) for state in states}) == 4


def test_states_look_alike_whatever_runs_behind_them():
    one, two = (begun(Drawing(seven), call("draw")) for _ in range(2))
    assert (one._state, repr(one._state)) == (two._state, repr(two._state))
    assert hash(one._state.live) == hash(two._state.live)
    assert pickle.dumps(one.get_state()) == pickle.dumps(two.get_state()) == pickle.dumps(one.fork().get_state())
    assert pickle.loads(pickle.dumps(one._state)).live is None


def test_threads_that_step_a_group_at_once_keep_their_own():
    envs = made(Drawing(), 16)
    gate = threading.Barrier(16)

    def play(env: TextEnv) -> bool:
        env.reset(seed=0)
        for _ in range(10):
            gate.wait(60)
            drawn = env.step(call("draw"))[0]
            gate.wait(60)
            if env.step(call("tell"))[0] != drawn:
                return False
        return True

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(play, envs))


@pytest.mark.parametrize("name", EVERY)
def test_a_forked_process_takes_nothing_of_its_parents(name: str):
    """The child makes the episode again, or says that it cannot; the parent's goes on undisturbed."""
    (env,) = group(name, 1, "made")
    private = WORLDS[name][2]
    env.reset(seed=0)
    drawn = private.read(env.step(private.draw(0))[0])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            observation, _, _, _, info = env.step(private.tell(0))
            os.write(write, json.dumps([private.read(observation), info["verdict"].status]).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    said = os.read(read, 1_000)
    os.close(read)
    told, status = json.loads(said)
    assert status == {"SQL": "partial", "terminal": "env_error"}.get(name, "unparsable")
    assert (told == drawn) == (name == "SQL")
    assert private.read(env.step(private.tell(0))[0]) == drawn
    env.close()


def vector_values(vector: Any) -> tuple[list[str], list[str]]:
    count = vector.num_envs
    vector.reset(seed=[0] * count)
    return list(vector.step([call("draw")] * count)[0]), list(vector.step([call("tell")] * count)[0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sync", "thread", "asyncio", "process"])
def test_members_in_a_vector_keep_their_own(backend: str):
    with VectorEnv(SUMS, 4, backend=backend, env_settings={"tools": [Drawing()]}) as vector:
        drawn, told = vector_values(vector)
        assert drawn == told
        assert len(set(drawn)) == 4


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_members_in_gymnasiums_vectors_keep_their_own(mode: str):
    vector = gym.make_vec(SUMS, num_envs=4, vectorization_mode=mode, tools=[Drawing()])
    drawn, told = vector_values(vector)
    vector.close()
    assert drawn == told
    assert len(set(drawn)) == 4


# nobody's end is another's, and nothing is left


def test_an_episode_that_breaks_does_not_end_the_sessions_of_others():
    kit = Drawing()
    first, *others = made(kit, 4)
    for env in others:
        env.reset(seed=0)
    drawn = [env.step(call("draw"))[0] for env in others]
    others[0].close()
    assert kit.alive == 2
    assert [env.step(call("tell"))[0] for env in others[1:]] == drawn[1:]
    first.close()
    assert kit.alive == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "drop", "restore", "close", "end"])
def test_what_is_abandoned_is_closed(how: str):
    kit = Drawing()
    _, env = made(kit, 2)
    env.reset(seed=0)
    early = env.get_state()
    env.step(call("draw"))
    kept = env.get_state()  # a snapshot keeps nothing open
    assert kit.alive == 1
    match how:
        case "reset":
            env.reset(seed=1)
        case "drop":
            del env
            gc.collect()
        case "restore":
            env.set_state(early)
        case "close":
            env.close()
        case "end":
            env.step("\\boxed{0}")
    assert until(lambda: kit.alive == 0)
    assert kept.state.made


def test_abandoned_episodes_do_not_pile_up():
    kit = Drawing()
    (env,) = made(kit, 1)
    for seed in range(1_000):
        env.reset(seed=seed)
        env.step(call("draw"))
        assert kit.alive <= 2
    twins = [env.spawn() for _ in range(300)]
    for each in twins:
        each.reset(seed=0)
        each.step(call("add"))
    assert kit.alive == len(twins) + 1
    assert {each.step(call("add"))[0] for each in twins} == {"2"}
    del twins, each
    assert kit.alive == 1


@pytest.mark.slow
def test_the_garbage_collector_closes_sessions_outside_of_anybodys_lock():
    lock, closed = threading.Lock(), threading.Event()

    def close(session: str) -> None:
        with lock:
            closed.set()

    sessions: Sessions[str] = Sessions(close)
    ring: list[Any] = [sessions.give("one")]
    ring.append(ring)
    done = threading.Event()

    def collect() -> None:
        nonlocal ring
        with lock:  # as a sandbox holds its own while it starts a program
            del ring
            gc.collect()
        done.set()

    threading.Thread(target=collect, daemon=True).start()
    assert done.wait(60)
    assert closed.wait(60)
    assert len(sessions) == 0


def test_a_handle_names_one_session_once():
    closed: list[str] = []
    sessions: Sessions[str] = Sessions(closed.append)
    handle = sessions.give("one")
    assert (sessions.take(handle), sessions.take(handle), sessions.take(None), sessions.take(Handle())) == (
        "one",
        None,
        None,
        None,
    )
    handles = [sessions.give(name) for name in "abcd"]
    assert closed == []
    assert [sessions.take(each) for each in handles[:2]] == ["a", "b"]
    assert copy.copy(handles[2]) is None
    del handles
    assert sorted(closed) == ["c", "d"]


@in_sandbox
def test_an_interpreter_that_ends_between_calls_is_not_replaced_in_silence():
    env = gym.make(SUMS, tools=["python"]).unwrapped
    env.reset(seed=0)
    leaves = """import os, threading, time
def leave():
    while "late" not in globals():
        time.sleep(0.001)
    os._exit(3)
n = 1
threading.Thread(target=leave, daemon=True).start()"""
    env.step(call("python", code=leaves))
    late = call("python", code="late = True; time.sleep(600); print(f'n={n}')")
    assert "the interpreter was ended" in env.step(late)[0]
    assert "NameError" in env.step(call("python", code="print(n)"))[0]
    assert env.fork().step(call("python", code="print(2)"))[4]["verdict"].valid
    env.close()


@in_sandbox
def test_an_interpreter_that_was_ended_between_calls_is_said_and_replaced():
    kit = Workspace("python")
    session = kit.open()
    (python,) = kit.tools
    assert kit.run(session, python, {"code": "n = 1; print(n)"}, 10.0) == "1"
    session[0].close()
    assert "ended (between calls)" in kit.run(session, python, {"code": "print(2)"}, 10.0)
    assert "NameError" in kit.run(session, python, {"code": "print(n)"}, 10.0)
    kit.close(session)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["thread", "process"])
def test_members_that_are_served_keep_their_own(backend: str):
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    pytest.importorskip("websockets")
    from rlvr.adapters import connect
    from rlvr.adapters.serving.serve import EnvServer

    with EnvServer(SUMS, {"tools": [Drawing()]}, backend=backend, limit=4) as server:
        envs = [connect(server.url) for _ in range(4)]
        for seed in range(3):
            check_members(envs, PRIVATE, seed=seed)
        for env in envs:
            env.close()
