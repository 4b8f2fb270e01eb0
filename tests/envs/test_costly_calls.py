"""No call and no reply of an allowed size costs more than a moment of this process, however it is made up."""

from __future__ import annotations

import time
from collections.abc import Callable

import gymnasium as gym
import pytest

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs.tools.calls import MAX_REPLY, STYLES, Call, read_calls, write_call
from rlvr.envs.tools.task import ToolTask
from rlvr.envs.tools.tool import MAX_ARGUMENTS

SECONDS = 1.5  # of processor time; what is linear takes at most a third of it
TOOLS = {"search": ["query"], "run": ["code"], "f": ["a", "b", "c"]}
PIECES = (
    "<tool_call>", "<tool_call>{}</tool_call>", "<tool_call>{", "<tool_call>[[[[", "<tool_call>\n<function=f>\n",
    "<think>", "</think>", "<answer>", "<tool_response>", "```json\n", "```\n", "```search\n", "[", "{", '{"name":',
    ";\n", "{;\n", '{"a":1};\n', "<function=f>", "</function>", "<parameter=a>", "<search>", "<query>", "<a>x</a> ",
    "<|python_tag|>", "<|im_end|>", "<", "\\", "&#9", '"name" ', "9", "\u202e", "'", '"', "`", "(", "%", "*", "a ",
    " ", "\n", "--", "/*", "SELECT ", "a.", "(a+)+", "1=1 or ", "é", "../", "@x.com ",
)  # fmt: skip
WORLDS = ("rlvr/WorldSearch-v0", "rlvr/SQL-v0", "rlvr/Planner-v0", "rlvr/ServiceDesk-v0", "rlvr/Browser-v0")


def cost(work: Callable[..., object], *arguments: object) -> float:
    began = time.process_time()
    work(*arguments)
    return time.process_time() - began


def filled(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_reading_a_reply_costs_a_moment(style: str) -> None:
    costs = {piece: cost(read_calls, filled(piece, MAX_REPLY), style, TOOLS) for piece in PIECES}
    assert {piece: spent for piece, spent in costs.items() if spent > SECONDS} == {}


def test_a_reply_of_many_parts_is_read_up_to_the_calls_it_may_hold() -> None:
    call = write_call(Call("search", {"query": "x"}), "llama")
    assert len(read_calls(";\n".join([call] * 8), "llama", TOOLS).calls) == 8
    assert read_calls(";\n".join([call] * 9), "llama", TOOLS).problem == "a reply may hold 8 calls"
    assert read_calls(";\n".join([call] * 99), "llama", TOOLS).problem
    assert cost(read_calls, filled("{;\n", MAX_REPLY), "llama", TOOLS) < SECONDS


@pytest.mark.parametrize("piece", ["[", '"', "`", "'", "a.", "a ."])
def test_a_query_of_any_length_costs_a_moment(piece: str) -> None:
    env = gym.make("rlvr/SQL-v0")
    env.reset(seed=1)
    action = write_call(Call("run_query", {"sql": filled(piece, MAX_ARGUMENTS - 100)}), "hermes")
    assert cost(env.step, action) < SECONDS
    assert cost(env.step, f"```sql\n{filled(piece, 90_000)}\n```") < SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("env_id", WORLDS)
def test_a_call_of_a_world_costs_a_moment(env_id: str) -> None:
    env = gym.make(env_id).unwrapped
    assert isinstance(env.task, ToolTask)
    costs = {}
    for used in env.task.toolset:
        for name in used.names:
            for piece in PIECES:
                fields = used.arguments.model_fields.items()
                others = {other: 1 if field.annotation is int else "x" for other, field in fields}
                action = write_call(Call(used.name, {**others, name: filled(piece, 99_000)}), "hermes")
                env.reset(seed=1)
                costs[used.name, name, piece] = cost(env.step, action)
    for piece in PIECES:
        env.reset(seed=1)
        costs["a reply", piece] = cost(env.step, filled(piece, 100_000))
    assert {what: spent for what, spent in costs.items() if spent > SECONDS} == {}


@pytest.mark.parametrize("depth", [50, 400, 900, 990, 1_100, 5_000, 30_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_arguments_that_are_nested_deep_are_a_wrong_call(depth: int, opening: str, closing: str) -> None:
    env = gym.make("rlvr/WorldSearch-v0")
    env.reset(seed=1)
    value = opening * depth + "1" + closing * depth
    observation, _, terminated, _, info = env.step(
        f'<tool_call>{{"name": "search", "arguments": {{"query": {value}}}}}</tool_call>'
    )
    assert info["verdict"].valid
    assert not terminated
    assert len(observation) < 5_000
