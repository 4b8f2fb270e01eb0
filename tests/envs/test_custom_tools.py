"""A tool of one's own: a function, a kit, a class of kits, a registered name or module:name."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr  # noqa: F401  (registers the ids)
from rlvr.cli import main
from rlvr.envs.core.code_rule import CodeRefused, settings_are_data
from rlvr.envs.tools import KITS, Call, Functions, Kit, ToolError, register_tool, tool, write_call


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(KITS, "_values", dict(KITS._values))


def population(town: str) -> str:
    """Look up how many people live in a town.

    Args:
        town: its name.
    """
    return {"Bern": "134,000"}[town]


def noted(session: list[str], text: str) -> str:
    """Write a note down.

    Args:
        text: of the note.
    """
    session.append(text)
    return f"{len(session)} notes"


class Notes(Kit):
    """Remembers."""

    tools = (tool(noted, given=1),)
    remembers = True

    def open(self) -> Any:
        return []


def made(*tools: Any) -> gym.Env[str, str]:
    env = gym.make("rlvr/Sums-v0", tools=tools)
    env.reset(seed=0)
    return env


def called(env: gym.Env[str, str], name: str, **arguments: object) -> str:
    observation, reward, _, _, info = env.step(write_call(Call(name, arguments), "hermes"))
    assert reward == 0
    assert info["verdict"].valid
    return observation


@pytest.mark.parametrize("choice", [population, Functions(population), "population"])
def test_a_function_stands_where_a_name_does(choice):
    register_tool(population)
    for env in (made(choice, "calculator"), pickle.loads(pickle.dumps(made(choice))), copy.deepcopy(made(choice))):
        assert called(env, "population", town="Bern") == "134,000"
        assert called(env, "population", town="Cork") == "error: population: KeyError: 'Cork'"
    with_name, without = made(choice), gym.make("rlvr/Sums-v0")
    assert with_name.reset(seed=3)[0] == without.reset(seed=3)[0]


@pytest.mark.parametrize("choice", [Notes, Notes(), "Notes"])
def test_a_kit_of_ones_own_has_a_session_of_each_episode(choice):
    register_tool(Notes)
    one, other = made(choice), made(choice)
    assert [called(one, "noted", text="a") for _ in range(2)] == ["1 notes", "2 notes"]
    assert called(other, "noted", text="a") == "1 notes"
    assert called(one.unwrapped.fork(), "noted", text="b") == "3 notes"


class Empty(Kit):
    """Nothing to call."""


class Folder(Kit):
    def __init__(self, path: str) -> None:
        self.path = path


def silent(x: int) -> str:
    return str(x)


def untyped(x) -> str:
    """Say x."""
    return x


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (population, "python", "a tool 'python' already"),
        (silent, "", "'?silent'? has no docstring"),
        (untyped, "", "needs a type for its parameter x"),
        (Empty(), "empty", "the kit Empty has no tools"),
        (Folder, "", "takes no arguments, but Folder: missing a required argument: 'path'"),
        (3, "three", "a function, a Kit or a class of Kits, not 3"),
        (population, "two words", "letters, digits and _"),
    ],
)
def test_what_cannot_be_registered_says_why_in_one_sentence(value, name, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        register_tool(value, name)
    assert "\n" not in str(error.value)
    assert called(made("calculator"), "calculator", expression="1 / 3") == "1/3"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("python", r'a list of names, kits or functions, such as \["python"\], not \'python\''),
        (population, "a list of names, kits or functions"),
        (["pyhton"], "no tool 'pyhton'; did you mean 'python'"),
        ([3], "not 3"),
        ([silent], "has no docstring"),
        ([Empty], "has no tools"),
        ([population, population], "two tools are called population"),
        (["nowhere:fn"], "'nowhere:fn' names no function"),
        ({"tools": ["python"], "styel": "qwen"}, "no setting 'styel'; did you mean 'style'"),
        ({"style": "qwen"}, "needs the key 'tools'"),
    ],
)
def test_what_is_no_list_of_tools_is_told_when_the_environment_is_made(tools, message):
    with pytest.raises((TypeError, ValueError), match=message):
        gym.make("rlvr/Sums-v0", tools=tools)


TOOL = '''
def double(x: int) -> int:
    """Double a number.

    Args:
        x: the number.
    """
    return 2 * x
'''


def test_module_and_name_under_the_code_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    (tmp_path / "tool_parts.py").write_text(TOOL)
    monkeypatch.syspath_prepend(tmp_path)
    assert called(made("tool_parts:double"), "double", x=21) == "42"
    with settings_are_data(), pytest.raises(CodeRefused, match="--allow-code"):
        made("tool_parts:double")
    command = ["eval", "--env", "Sums", "--agent", "expert", "--episodes", "2", "--set", 'tools=["tool_parts:double"]']
    assert main(command) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert main([*command, "--allow-code"]) == 0


def test_the_message_of_a_tool_is_told_to_the_policy():
    def refuse(x: int) -> str:
        """Refuse.

        Args:
            x: any.
        """
        raise ToolError("try 3")

    assert called(made(refuse), "refuse", x=1) == "error: try 3"
