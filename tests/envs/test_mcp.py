"""MCP: a real server over stdio and over HTTP; what it offers, what goes wrong, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.tables import DataError
from rlvr.envs.tools import MCP, Call, ToolError, ToolFault, instructions, write_call
from rlvr.envs.tools.mcp_schema import served_tool
from rlvr.envs.validation.attacks import HOPELESS_ATTACKS
from rlvr.envs.validation.context import CHECKS, Validation, run_check
from rlvr.envs.validation.hack import attack
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.subject import Subject

from ..children import start

pytest.importorskip("mcp")
SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
BARE = [sys.executable, str(Path(__file__).with_name("mcp_bare_server.py"))]
NEWEST, WITH_SESSIONS = "2026-07-28", "2025-11-25"
SUMS = "rlvr/OrderOfOperations-v0"
SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"$ref": "#/$defs/count", "description": "how many"},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "(a+)+$"}},
        "mode": {"enum": ["fast", "slow"]},
        "where": {"anyOf": [{"type": "object", "required": ["x"]}, {"type": "null"}]},
    },
    "required": ["count"],
    "$defs": {"count": {"type": "integer", "minimum": 1}},
}
COMPOSED = {  # what 2026-07-28 allows
    "type": "object",
    "oneOf": [{"$ref": "#/$defs/by_name"}, {"properties": {"number": {"type": "integer"}}, "required": ["number"]}],
    "allOf": [{"properties": {"loud": {"type": "boolean"}}}],
    "if": {"properties": {"loud": {"const": True}}},
    "then": {"properties": {"deep": {"type": "integer"}}},
    "else": {"properties": {"deep": {"type": "integer"}}},
    "dependentSchemas": {"deep": {"properties": {"why": {"type": "string"}}}},
    "$defs": {"by_name": {"properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
)


def call(name: str, **arguments: Any) -> str:
    return write_call(Call(name, arguments), "hermes")


def running(kit: MCP) -> list[int]:
    """Those of a kit's servers that run; each has written down its number."""
    written = Path(dict(kit.server.env)["PIDS"]).read_text().split()
    assert written
    return [int(pid) for pid in written if alive(int(pid))]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory):
    kit = MCP(SERVER, env={"PIDS": str(tmp_path_factory.mktemp("mcp") / "pids")})
    yield kit
    kit.shut()


@contextlib.contextmanager
def over_http(*command: str):
    """The address of a server that is started for a port, and perhaps with words behind it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program, words = command[:2], command[2:]
    process = start([*program, str(port), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url():
    with over_http(*SERVER) as found:
        yield found


# arguments, without a server


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "'count' is a required property"),
        ({"count": 0}, "count: 0 is less than the minimum"),
        ({"count": "many"}, "count: 'many' is not of type 'integer'"),
        ({"count": 1, "tags": [3]}, "tags.0: 3 is not of type 'string'"),
        ({"count": 1, "mode": "idle"}, "mode: 'idle' is not one of"),
        ({"count": 1, "colour": "red"}, "no argument 'colour'"),
        ({"count": 1, "tags": ["a\x00"]}, "no plain text"),
        ({"count": 1, "where": {"x": {"\ud800": 1}}}, "no plain text"),
        ({"count": 1, "tags": ["x" * 100_001]}, "characters, allowed are 100,000"),
    ],
)
def test_arguments_are_checked_against_the_schema(arguments: dict[str, Any], says: str):
    with pytest.raises(ToolError, match=says):
        served_tool("go", "Go.", SCHEMA).check(arguments)


def test_values_written_as_text_get_their_types_and_patterns_are_left_to_the_server():
    served = served_tool("go", "Go.", SCHEMA)
    assert served.check({"count": "3", "tags": '["a"]', "where": "null"}) == {"count": 3, "tags": ["a"], "where": None}
    assert served.check({"count": 1, "tags": ["a" * 50 + "!"]})["tags"]


@given(st.dictionaries(st.sampled_from(["count", "tags", "mode", "where", "else"]), JSON, max_size=4))
def test_any_arguments_are_taken_or_explained(arguments: dict[str, Any]):
    with contextlib.suppress(ToolError):
        assert served_tool("go", "Go.", SCHEMA).check(arguments).keys() == arguments.keys()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"type": 7}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
    ],
)
def test_a_schema_that_cannot_be_worked_with_is_the_tools_fault(schema: dict[str, Any]):
    with pytest.raises(ToolFault, match="the schema of go"):
        served_tool("go", "Go.", schema).check({"a": 1})


def test_arguments_may_stand_in_the_schemas_that_one_is_composed_of():
    served = served_tool("find", "Find.", COMPOSED)
    assert set(served.names) == {"name", "number", "loud", "deep", "why"}
    assert served.check({"name": "x", "loud": "true"}) == {"name": "x", "loud": True}
    assert served.check({"number": "3"}) == {"number": 3}
    for arguments, says in (
        ({"colour": 1}, "no argument 'colour'"),
        ({}, "not valid under any"),
        ({"number": 1, "loud": 3}, "loud: 3 is not of type 'boolean'"),
        ({"number": 1, "deep": "x"}, "deep: 'x' is not of type 'integer'"),
    ):
        with pytest.raises(ToolError, match=says):
            served.check(arguments)
    assert served_tool("any", "", {"allOf": [{"additionalProperties": True}]}).check({"x": 1}) == {"x": 1}


def test_names_that_no_style_can_write_are_changed():
    assert served_tool("files/read all", "", {}).name == "files_read_all"
    assert served_tool("1st", "", {}).name == "_1st"
    served = pickle.loads(pickle.dumps(served_tool("files/read", "Read.", SCHEMA)))
    assert (served.name, served.original, served.names) == ("files_read", "files/read", tuple(SCHEMA["properties"]))
    assert "count: integer" in served.signature()
    assert served.schema()["function"]["parameters"] == SCHEMA
    assert "    count: how many" in instructions([served], "hermes")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "give one of them"),
        ({"command": ["x"], "url": "http://x"}, "give one of them"),
        ({"command": "python server.py"}, "must be a list"),
        ({"url": "ftp://x"}, "must begin with http"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any], says: str):
    with pytest.raises(ValueError, match=says):
        MCP(**arguments)


def test_a_server_that_does_not_start_is_told_at_once():
    with pytest.raises(ToolFault, match="does not start"):
        MCP(["/nowhere/to/be/found"])
    with pytest.raises(ToolFault, match="does not start"):
        MCP([sys.executable, "-c", "print('no protocol')"])
    with pytest.raises(ToolFault, match="did not start within"):
        MCP([sys.executable, "-c", "import time; time.sleep(60)"], start_seconds=0.3)
    with pytest.raises(ToolFault, match="does not start"):
        MCP(url="http://127.0.0.1:9/mcp", start_seconds=20)


# a server over stdio


@pytest.mark.slow
def test_an_episode_with_a_server_remembers_forks_and_leaves_nothing_behind(kit: MCP):
    env = gym.make(SUMS, tools={"tools": [kit], "max_calls": 12, "max_output": 300}).unwrapped
    _, info = env.reset(seed=0)
    assert "add(a: integer, b: integer (optional)): Add two numbers." in info["system"]
    assert "<|im_end|>" not in info["system"]
    for action, says in (
        (call("add", a=2, b=3), "5"),
        (call("add", a="two"), "error: add: a: 'two' is not of type 'integer'"),
        (call("note", text="milk", marks=["!", "?"]), "1 notes"),
        (call("picture", size=10), "a picture:\n[image, image/png, 10 bytes: not shown]"),
        (call("misbehave", how="raise"), "error: Error executing tool misbehave"),
        (call("misbehave", how="long"), "characters left out"),
    ):
        observation, reward, terminated, _, info = env.step(action)
        assert says in observation
        assert (reward, terminated, info["role"]) == (0.0, False, "tool")
    said = env.step(call("misbehave", how="control"))[0]
    assert "<|im_" not in said
    fork = env.fork()
    env.step(call("note", text="eggs"))
    assert fork.step(call("read_notes"))[0] == "milk ! ?"
    assert env.step(call("read_notes"))[0] == "milk ! ?; eggs"
    assert len(running(kit)) == 2
    assert env.step(env.solve())[1] == 1.0
    assert pickle.loads(pickle.dumps(env)).task.given[0].tools[0].name == "add"
    env.close()
    assert running(kit) == []


@pytest.mark.slow
@pytest.mark.parametrize("remembers", [True, False])
def test_a_call_that_ends_the_server_is_told_to_the_policy_and_a_new_server_goes_on(remembers: bool, tmp_path: Path):
    kit = MCP(SERVER, remembers=remembers, env={"PIDS": str(tmp_path / "pids")})
    env = gym.make(SUMS, tools={"tools": [kit], "seconds": 5}).unwrapped
    env.reset(seed=0)
    env.step(call("note", text="milk"))
    for how, says in (("die", "the MCP server"), ("hang", "misbehave did not end within 5 s")):
        observation, reward, terminated, _, info = env.step(call("misbehave", how=how))
        assert (reward, terminated, info["verdict"].status, info["verdict"].valid) == (0.0, False, "unparsable", True)
        assert says in observation
    assert env.step(call("add", a=1))[0] == "2"
    if remembers:  # the other calls were made again
        assert env.step(call("read_notes"))[0] == "milk"
        assert env.fork().step(call("read_notes"))[0] == "milk"
    assert env.step(env.solve())[1] == 1.0
    env.close()
    assert running(kit) == []


@pytest.mark.slow
def test_a_server_that_starts_no_more_is_a_fault(tmp_path: Path):
    import shutil

    program = shutil.copy(SERVER[1], tmp_path / "server.py")
    env = gym.make(SUMS, tools=[MCP([SERVER[0], str(program)])]).unwrapped
    env.reset(seed=0)
    Path(program).unlink()
    _, reward, terminated, _, info = env.step(call("misbehave", how="die"))
    assert (reward, terminated, info["verdict"].status) == (0.0, True, "env_error")
    assert info["verdict"].reason.startswith("the tool misbehave: the MCP server does not start")
    env.close()


# a server over HTTP


def test_a_server_over_http_serves_many_episodes_at_once(url: str):
    kit = MCP(url=url, remembers=False, only=["add"])
    heard: list[str] = []

    def play(number: int) -> None:
        env = gym.make(SUMS, tools=[kit]).unwrapped
        env.reset(seed=number)
        heard.append(env.step(call("add", a=number, b=100))[0])

    threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    kit.shut()
    assert sorted(heard) == [str(100 + number) for number in range(8)]
    with pytest.raises(ValueError, match="no tool 'subtract'; it has add, note"):
        MCP(url=url, only=["subtract"])


@pytest.mark.slow
def test_an_episode_over_http_has_a_session_of_its_own(url: str):
    kit = MCP(url=url)
    session = kit.open()
    assert session.revision == WITH_SESSIONS  # the newer has none
    kit.close(session)
    env, other = (gym.make(SUMS, tools=[kit]).unwrapped for _ in range(2))
    for each, text in ((env, "milk"), (other, "salt")):
        each.reset(seed=0)
        assert each.step(call("note", text=text))[0] == "1 notes"
    fork = env.fork()
    assert env.step(call("note", text="eggs"))[0] == "2 notes"
    assert fork.step(call("read_notes"))[0] == "milk"
    assert other.step(call("read_notes"))[0] == "salt"
    env.reset(seed=1)
    assert env.step(call("read_notes"))[0] == "nothing"
    for each in (env, other, fork):
        each.close()
    kit.shut()


@pytest.mark.slow
def test_a_server_without_sessions_is_refused_where_episodes_would_see_one_another():
    with over_http(*SERVER, "stateless") as url:
        with pytest.raises(ToolFault, match=r"gives no sessions over HTTP.*remembers=False"):
            MCP(url=url)
        kit = MCP(url=url, remembers=False, only=["add"])
        assert kit._shared().revision == NEWEST
        assert kit.run(None, kit.tools[0], {"a": 2}, 20) == "3"
        kit.shut()


@pytest.mark.slow
def test_a_server_of_the_newest_revision_is_spoken_to_by_it(kit: MCP):
    session = kit.open()
    assert session.revision == NEWEST  # over standard input and output
    kit.close(session)
    with over_http(*BARE) as url:
        bare = MCP(url=url, remembers=False)
        assert bare._shared().revision == NEWEST
        assert bare.instructions == "Look before you leap."
        tools = {each.name: each for each in bare.tools}
        assert tools["find"].description == "To find"

        def run(name: str, **arguments: Any) -> str:
            return bare.run(None, tools[name], tools[name].check(arguments), 20)

        assert json.loads(run("find", number="3", loud=True)) == [{"number": 3, "loud": True}, {}]
        region = "a\r\nX-Other: 1"  # an argument that the revision wants in a header makes no header of its own
        said, headers = json.loads(run("route", region=region))
        assert (said, list(headers)) == ({"region": region}, ["mcp-param-region"])
        assert run("list") == "[1, 2]"
        with pytest.raises(ToolError, match="there is no such row"):
            run("wrong")
        for name, says in (("broken", "Invalid structured content"), ("ask", "Elicitation not supported")):
            with pytest.raises(ToolError, match=says):
                run(name)
        assert run("list") == "[1, 2]"  # by a new connection
        bare.shut()


# the world of a server


def noted(outcome) -> bool:
    return outcome.call("read_notes") == outcome.task["answer"] and outcome.reply.strip() == "done"


TASKS = [
    {
        "question": f"There is a note. Write {word} below it, then say done.",
        "setup": [{"name": "note", "arguments": {"text": "first"}}],
        "solution": [{"name": "note", "arguments": {"text": word}}, "done"],
        "answer": f"first; {word}",
    }
    for word in ("bread", "salt")
]


@pytest.mark.slow
def test_an_environment_of_a_server_and_a_checker(kit: MCP):
    env = gym.make("rlvr/MCP-v0", server=kit, tasks={"train": TASKS}, checker=noted, options={"max_calls": 4}).unwrapped
    question, info = env.reset(seed=0)
    assert question in [task["question"] for task in TASKS]
    assert "read_notes()" in info["system"]
    assert env.step(env.solve())[0] == "2 notes"
    before = env.get_state()
    _, reward, terminated, _, info = env.step(env.solve())
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    env.set_state(before)
    env.step(call("note", text="more"))
    assert env.step("done")[1] == 0.0
    env.task.checker = lambda outcome: 1 / 0
    env.reset(seed=0)
    _, reward, _, _, info = env.step("done")
    assert (reward, info["verdict"].status) == (0.0, "verifier_error")
    env.close()
    assert running(kit) == []


def believed(outcome) -> bool:
    """A checker that takes the policy's word for it."""
    return outcome.task["answer"].rpartition("; ")[2] in outcome.reply


@pytest.mark.slow
def test_the_audit_of_an_environment_with_a_real_server_finds_a_bad_checker_alone():
    """Each attack starts a server; that took a second, and was a finding of its own before."""
    for checker in (noted, believed):
        server = {"command": SERVER}
        env = gym.make("rlvr/MCP-v0", server=server, tasks={"train": TASKS[:1]}, checker=checker, split="train")
        subject = Subject(env.unwrapped.spawn, "MCP")
        validation = Validation(subject, tasks=1, seed=0)
        expert = run_check(validation, "semantic.oracle_max", 60.0)
        echoed = CheckResult(CHECKS["statistical.adversarial_floor"][0])
        attack(validation, echoed, "echo of the prompt", HOPELESS_ATTACKS["echo of the prompt"])
        assert (expert.tries, echoed.tries) == (1, 1)
        assert checker is believed or not expert.findings
        assert bool(echoed.findings) == (checker is believed), echoed.findings
        subject.close()
        env.close()


@pytest.mark.parametrize(
    ("tasks", "error", "says"),
    [
        ([{"answer": 3}], DataError, 'task 1 needs a "question"'),
        ([{"question": "x", "setup": ["add"]}], DataError, '"setup" holds a step'),
        ({"test": TASKS}, ValueError, "no tasks for the split 'train'; there are test"),
        ({"train": []}, ValueError, "no task is of the split"),
        ({"train": [{"question": "x", "setup": [{"name": "fly"}]}]}, DataError, "calls 'fly'; the server has add"),
        ({"train": [{"question": "x", "setup": [{"name": "add"}]}]}, DataError, "a call that is wrong: add"),
    ],
)
def test_tasks_that_cannot_be_played_are_refused(kit: MCP, tasks: Any, error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        gym.make("rlvr/MCP-v0", server=kit, tasks=tasks, checker=noted)
