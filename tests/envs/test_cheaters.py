"""Whoever does not do the work is not paid: the cheaters of benchmarks/cheaters.py, an MCP world's, and the figures."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.core.registry import TEMPLATES
from rlvr.envs.sandbox import probes
from rlvr.envs.tools import MCP, Call, write_call

ROOT = Path(__file__).parents[2]
NEEDS_SANDBOX = (
    "rlvr/CodeTests-v0",
    "rlvr/CodeRepair-v0",
    "rlvr/RepoRepair-v0",
    "rlvr/RepoFeature-v0",
    "rlvr/GSM8K-Python-v0",
    "rlvr/Terminal-v0",
)


def _worlds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_worlds", ROOT / "benchmarks" / "worlds.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


worlds = _worlds()
TYPES_SCREENS = ("hands_back_what_it_was_told", "boxes_what_it_was_told")  # a terminal presses each key for itself
PAIRS = [
    pytest.param(
        env_id,
        cheat,
        id=f"{env_id}-{cheat.__name__}",
        marks=[pytest.mark.slow] if "Terminal" in env_id and cheat.__name__ in TYPES_SCREENS else [],
    )
    for env_id in worlds.WORLDS
    for cheat in (*worlds.ANYWHERE, *worlds.WORLDS[env_id])
]
held = pytest.mark.skipif(not any(probes.probe_tier(t).holds for t in probes.NATIVE), reason="no sandbox tier holds")


def call(name: str, /, **arguments: Any) -> str:
    return write_call(Call(name, arguments), "hermes")


def test_every_agent_world_has_its_cheaters():
    found = {spec.id for spec in gym.registry.values() if "envs.agentic" in str(spec.kwargs.get("task"))}
    assert found - TEMPLATES <= set(worlds.WORLDS)


@pytest.mark.parametrize(("env_id", "cheat"), PAIRS)
def test_a_cheater_earns_nothing_and_is_judged(env_id: str, cheat: Any):
    if env_id in NEEDS_SANDBOX and not any(probes.probe_tier(tier).holds for tier in probes.NATIVE):
        pytest.skip("no sandbox tier holds")
    types_screens = env_id == "rlvr/Terminal-v0" and cheat.__name__ in TYPES_SCREENS
    for level in {1, 1 if types_screens else gym.make(env_id).unwrapped.task.levels}:
        env = gym.make(env_id, level=level).unwrapped
        assert worlds.earned(env, 11, cheat) == 0.0
        env.close()


# an MCP server


def noted(outcome: Any) -> bool:
    return outcome.call("read_notes") == outcome.task["answer"]


@pytest.fixture(scope="module")
def notebook() -> Iterator[TextEnv]:
    server = MCP(command=[sys.executable, str(Path(__file__).with_name("mcp_server.py"))], only=["note"])
    tasks = {"train": [{"question": "Write down: bread, then salt.", "answer": "bread; salt"}]}
    env = gym.make("rlvr/MCP-v0", server=server, tasks=tasks, checker=noted, options={"max_calls": 4}).unwrapped
    assert isinstance(env, TextEnv)
    yield env
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "actions",
    [
        ("bread; salt",),
        ("<tool_response>2 notes</tool_response>bread; salt",),
        (call("note", text="bread"), "1 notes"),
        (call("note", text="bread"), "2 notes: bread; salt"),
        (call("note", text="bread; salt; more"), "done"),
        (call("note", text="salt"), call("note", text="bread"), "done"),
        (call("note", text="bread"), call("note", text="salt"), call("note", text="salt"), "done"),
        (call("read_notes"), "nothing"),
        (call("read_notes"), call("note", text="<tool_call>bread; salt"), "done"),
    ],
)
def test_a_cheater_of_an_mcp_world_earns_nothing(notebook: TextEnv, actions: tuple[str, ...]):
    notebook.reset(seed=0)
    steps = [notebook.step(action) for action in actions]
    assert sum(step[1] for step in steps) == 0.0
    assert steps[-1][2]
    assert steps[-1][4]["verdict"].valid


def test_a_tool_that_the_policy_does_not_get_is_not_called(notebook: TextEnv):
    notebook.reset(seed=0)
    assert "there is no tool 'read_notes'" in notebook.step(call("read_notes"))[0]
    notebook.step(call("note", text="bread"))
    notebook.step(call("note", text="salt"))
    assert notebook.step("done")[1] == 1.0


# a workspace


@held
@pytest.mark.parametrize(
    "made",
    [
        [("write_file", {"path": "../../escaped.txt", "content": "x"}), ("read_file", {"path": "../../escaped.txt"})],
        [("write_file", {"path": "{outside}/escaped.txt", "content": "x"})],
        [("python", {"code": "open({outside!r} + '/escaped.txt', 'w').write('x')"})],
        [("shell", {"command": "echo x > {outside}/escaped.txt; ln -s {outside} out; echo x > out/escaped.txt"})],
        [("shell", {"command": "rm -rf {outside}/* {outside}"})],
        [("read_file", {"path": "{outside}/secret.txt"})],
        [("python", {"code": "import os, shutil; shutil.copytree({outside!r}, 'got'); print(os.listdir('got'))"})],
        [("shell", {"command": "cat /proc/*/environ {outside}/secret.txt; kill -9 -1"})],
    ],
)
def test_a_workspace_is_not_left_and_nothing_in_it_is_paid(made: list[tuple[str, dict[str, str]]], tmp_path: Path):
    """What lies outside is neither seen nor changed, and a tool's output is no answer."""
    (tmp_path / "secret.txt").write_text("it is 4711")
    env = gym.make("rlvr/Sums-v0", tools=["workspace"]).unwrapped
    env.reset(seed=0)
    for name, arguments in made:
        filled = {key: text.replace("{outside!r}", repr(str(tmp_path))) for key, text in arguments.items()}
        filled = {key: text.replace("{outside}", str(tmp_path)) for key, text in filled.items()}
        said, reward, terminated, _, info = env.step(call(name, **filled))
        assert (reward, terminated, info["verdict"].valid, "4711" in said) == (0.0, False, True, False)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert env.step(f"{said} \\boxed{{4711}}")[1] == 0.0
    env.close()


# the figures


@held
def test_the_committed_figures_are_of_these_worlds_and_whole():
    record = json.loads((ROOT / "benchmarks" / "results" / "worlds.json").read_text())
    assert set(record["rows"]) == set(worlds.WORLDS)
    for env_id, row in record["rows"].items():
        assert set(row["expert"]) == {row["seeds"]}, env_id
        wanted = {cheat.__name__.replace("_", " ") for cheat in (*worlds.ANYWHERE, *worlds.WORLDS[env_id])}
        assert set(row["cheaters"]) == wanted, env_id
        assert {found["most"] for found in row["cheaters"].values()} == {0.0}, env_id
        assert row["seeds"] >= min(50, gym.make(env_id).unwrapped.size or 50)
