"""Tools that ``info["tools"]`` declares are called by their schemas, where no expert and no prompt shows how."""

from __future__ import annotations

import itertools
import json
from typing import Any, ClassVar

import gymnasium as gym
import pytest

from rlvr.envs.validation import validate
from rlvr.envs.validation.declared import arguments, value_of

NUMBER = {"type": "integer", "minimum": 100, "maximum": 999}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


class Drawers(gym.Env[str, str]):
    """Find the ring in one of five drawers, and answer with the number on it."""

    action_space = observation_space = gym.spaces.Text(4_000, min_length=0)
    tools: ClassVar = [
        tool("open", drawer={"type": "integer", "minimum": 1, "maximum": 5}),
        tool("read_file", path={"type": "string"}),
        tool("write_file", path={"type": "string"}, content={"type": "string"}),
        tool("answer", number=NUMBER),
    ]
    form = "name", "arguments"

    def first_files(self) -> dict[str, str]:
        return {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.drawer, self.number = int(self.np_random.integers(1, 6)), int(self.np_random.integers(100, 1_000))
        self.turn = 0
        self.files = self.first_files()
        return f"Case {self.np_random.integers(10**6)}. Find the ring; what number is on it?", {"tools": self.tools}

    def is_right(self, number: int) -> bool:
        return number == self.number

    def call_open(self, drawer: int) -> str:
        return f"a ring with the number {self.number}" if drawer == self.drawer else "empty"

    def call_read_file(self, path: str) -> str:
        return self.files.get(path, "no such file")

    def call_write_file(self, path: str, content: str) -> str:
        self.files[path] = content
        return "written"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        over = self.turn > 9
        try:
            call = json.loads(action.replace("<tool_call>", "").replace("</tool_call>", ""))
            name, given = (call[key] for key in self.form)
            if name == "answer":
                return "", float(self.is_right(**given)), True, False, {}
            return getattr(self, f"call_{name}")(**given), 0.0, False, over, {}
        except AttributeError:
            return f"there is no tool {name}", 0.0, False, over, {}
        except (ValueError, TypeError, KeyError, RecursionError):
            return "not understood", 0.0, False, over, {}


class OtherForm(Drawers):
    form = "tool", "args"


class PaysACall(OtherForm):
    def is_right(self, number: int) -> bool:
        return number >= 100


class Raises(Drawers):
    def call_open(self, drawer: int) -> str:
        return ["empty", "a ring"][drawer]


class NotThere(Drawers):
    tools: ClassVar = [*Drawers.tools, tool("ring_bell")]


class ReadsAGrade(Drawers):
    def is_right(self, number: int) -> bool:
        return "reward.txt" in self.files or number == self.number


class Solved(Drawers):
    def solve(self) -> str:
        name, given = ("answer", {"number": self.number}) if self.turn else ("open", {"drawer": self.drawer})
        return json.dumps({"name": name, "arguments": given})


class LeavesTheAnswer(Solved):
    def first_files(self) -> dict[str, str]:
        return {"answer.txt": str(self.number)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "check", "name"),
    [
        (PaysACall, "statistical.adversarial_floor", "a call alone"),
        (Raises, "statistical.adversarial_floor", "a call"),
        (NotThere, "runtime.tool_declaration_accuracy", "not there"),
        (ReadsAGrade, "runtime.oracle_containment", "written"),
        (LeavesTheAnswer, "semantic.no_solution_leakage", "read by a command"),
    ],
)
def test_a_defect_behind_a_declared_tool_is_found(made: type, check: str, name: str) -> None:
    report = validate(made, minutes=2.0)
    assert (check, name) in [(each.id, finding.name) for each, finding in report.findings], str(report)


@pytest.mark.slow
@pytest.mark.parametrize("made", [Drawers, OtherForm, Solved])
def test_sound_tools_are_called_and_nothing_is_found(made: type) -> None:
    report = validate(made, minutes=2.0)
    assert not report.at_least("low"), str(report)
    declared = next(each for each in report.results if each.check.id == "runtime.tool_declaration_accuracy")
    assert declared.measured["tools called"] == 4


def test_arguments_are_those_that_a_schema_allows() -> None:
    schema = {
        "properties": {
            "size": {"type": "integer", "minimum": 3, "maximum": 4},
            "kind": {"enum": ["a", "b"]},
            "parts": {"type": "array", "items": {"type": "boolean"}},
            "more": {"type": ["object", "null"], "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "path": {"type": "string"},
        },
        "required": ["size"],
    }
    drawn = list(itertools.islice(arguments(schema, ["answer.txt"]), 6))
    assert drawn[0] == {"size": 3}
    assert drawn[1] == {"size": 3, "kind": "a", "parts": [True], "more": {"x": 1}, "path": "answer.txt"}
    assert {given["size"] for given in drawn} == {3, 4}


@pytest.mark.parametrize(
    "odd", [None, [], {"type": 3}, {"type": "integer", "minimum": "x"}, {"enum": []}, {"type": []}]
)
def test_a_schema_that_is_none_is_no_error(odd: Any) -> None:
    assert value_of(odd, 0) in ("1", 1)
