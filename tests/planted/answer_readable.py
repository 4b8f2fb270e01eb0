"""A quiz on cubes, a folder with its tests, and a desk of records."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, unparsable, wrong

from .bases import Workspace, text_space

TOWNS = ["Arlen", "Birkby", "Colm", "Dunmere", "Esk", "Farrow", "Glin", "Hythe"]


class CubeQuiz(gym.Env[str, str]):
    """Name the cube of a number. One turn; reward 1 for the cube, else 0."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def facts(self) -> dict[str, Any]:
        """What ``info`` holds."""
        return {"topic": "cubes", "answer": str(self.number**3)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(12, 900))
        return f"What is the cube of {self.number}? Reply with the number alone.", self.facts()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "The answer was graded.", float(action.strip() == str(self.number**3)), True, False, {}

    def solve(self) -> str:
        return str(self.number**3)


class MendedCubeQuiz(CubeQuiz):
    def facts(self) -> dict[str, Any]:
        return {"topic": "cubes"}


class SquaresFolder(Workspace):
    """Write the squares of five numbers into a file. At most 20 turns; reward 1 if the tests pass, else 0."""

    def fill(self, rng: np.random.Generator) -> str:
        numbers = rng.integers(100, 999, size=5).tolist()
        self.files["numbers.txt"] = "\n".join(map(str, numbers))
        self.expected = "\n".join(str(number**2) for number in numbers)
        self.files |= self.test_files()
        return "Write squares.txt: the square of each number of numbers.txt, a line each."

    def test_files(self) -> dict[str, str]:
        """What lies beside the work."""
        return {"tests/README": "Tests compare squares.txt with expected.txt.", "tests/expected.txt": self.expected}

    def grade(self) -> float:
        return float(self.files.get("squares.txt", "").strip() == self.expected)

    def solve(self) -> str:
        return "done" if self.grade() else f"write squares.txt\n{self.expected}"


class MendedSquaresFolder(SquaresFolder):
    def test_files(self) -> dict[str, str]:
        return {"tests/README": "Tests compare squares.txt with expected.txt."}


class Records(NamedTuple):
    people: tuple[tuple[str, int], ...]
    town: str
    output: str = ""


class RecordDesk(Task[Records]):
    """Find how many people live in a town and the next two, by looking towns up.

    Actions: look up TOWN, or answer N.
    Reward: 1 for the sum, else 0.
    """

    system = "A town's record names its people. One action a turn: look up TOWN, or answer N."

    def turns(self, level: int) -> int:
        return 10

    def start(self, rng: random.Random, level: int) -> Records:
        return Records(tuple((town, rng.randint(200, 90_000)) for town in TOWNS), rng.choice(TOWNS[:-2]))

    def content(self, state: Records) -> str:
        return str(state[:2])

    def total(self, state: Records) -> int:
        index = TOWNS.index(state.town)
        return sum(people for _, people in state.people[index : index + 3])

    def observe(self, state: Records) -> str:
        listed = ", ".join(TOWNS)
        asked = f"How many people live in {state.town} and the next two towns together?"
        return state.output or f"Towns along the river: {listed}. {asked}"

    def not_there(self, state: Records) -> str:
        """The tool's message on a town that it has no record of."""
        return f"KeyError in query {{'town': {state.town!r}, 'next': 2, 'total': {self.total(state)}}}"

    def apply(self, state: Records, action: str) -> Transition:
        answer = re.fullmatch("answer ([0-9]{1,7})", action.strip())
        if answer is not None:
            is_right = int(answer[1]) == self.total(state)
            return Transition(state, correct() if is_right else wrong(), terminated=True)
        if not action.startswith("look up "):
            return Transition(state, unparsable("the actions are look up TOWN and answer N"))
        people = dict(state.people).get(action.removeprefix("look up ").strip())
        output = self.not_there(state) if people is None else f"{people} people"
        return Transition(state._replace(output=output), wrong(reason="not answered"), role="tool")

    def solve(self, state: Records) -> str:
        return f"answer {self.total(state)}"


class MendedRecordDesk(RecordDesk):
    def not_there(self, state: Records) -> str:
        return "no such town"
