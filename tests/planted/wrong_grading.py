"""Words in order, Roman numbers, and the codes of doors."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict

from .bases import Question, ToolBench, call

WORDS = "acorn bison cobra dingo egret finch gecko hyena ibex jackal koala lemur moose newt okapi panda".split()
NUMERALS = [(100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


class WordOrder(Question):
    """Sort six words. One turn; each word in its position earns a sixth."""

    def draw(self, rng: np.random.Generator) -> str:
        words = rng.choice(WORDS, size=6, replace=False).tolist()
        self.order = sorted(words)
        while any(first == second for first, second in zip(words, self.order, strict=True)):
            rng.shuffle(words)
        return (
            f"Sort these words alphabetically: {' '.join(words)}\n"
            "Reply with the six words, with blanks between. Each word in its right position earns one sixth."
        )

    def points(self, hits: int) -> float:
        return hits // 6

    def score(self, answer: str) -> float:
        words = answer.split()
        if len(words) != 6:
            return 0.0
        return self.points(sum(first == second for first, second in zip(words, self.order, strict=True)))

    def solve(self) -> str:
        return " ".join(self.order)


class MendedWordOrder(WordOrder):
    def points(self, hits: int) -> float:
        return hits / 6


class Numbers(NamedTuple):
    values: tuple[int, ...]


def roman(value: int) -> str:
    """The number in Roman numerals."""
    text = ""
    for worth, letters in NUMERALS:
        text += letters * (value // worth)
        value %= worth
    return text


class RomanSheet(Task[Numbers]):
    """Write four numbers in Roman numerals.

    Reward: a quarter for each line that is right.
    """

    system = "Write each number in Roman numerals, a line each. Each right line earns 0.25."

    def start(self, rng: random.Random, level: int) -> Numbers:
        return Numbers(tuple(rng.sample(range(11, 399), 4)))

    def observe(self, state: Numbers) -> str:
        return "\n".join(map(str, state.values))

    def reward(self, hits: int) -> float:
        return float(hits == 4)

    def apply(self, state: Numbers, action: str) -> Transition:
        lines = action.strip().split("\n", maxsplit=4)
        hits = sum(line.strip() == roman(value) for line, value in zip(lines, state.values, strict=False))
        reward = self.reward(hits if len(lines) <= 4 else 0)
        status = "correct" if reward == 1 else "partial" if reward else "wrong"
        return Transition(state, Verdict(reward, status, reason=f"{hits} of 4 are right"), terminated=True)

    def solve(self, state: Numbers) -> str:
        return "\n".join(map(roman, state.values))


class MendedRomanSheet(RomanSheet):
    def reward(self, hits: int) -> float:
        return hits / 4


class DoorCodes(ToolBench):
    """Set the codes of four doors by tools. At most 15 turns; all or nothing: 1 if all codes are right, else 0."""

    tools = "set_code(door, code), with a code of four digits as a string; finish()"

    def scene(self, rng: np.random.Generator) -> str:
        self.wanted = {door: f"{rng.integers(0, 9999):04d}" for door in ("cellar", "garage", "office", "attic")}
        self.codes: dict[str, str] = {}
        lines = [f"The {door} gets {code}." for door, code in self.wanted.items()]
        return "Set the codes of the doors.\n" + "\n".join(lines) + "\nAll or nothing: 1 if all are right, else 0."

    def tool_set_code(self, door: str, code: str) -> str:
        if door not in self.wanted or re.fullmatch("[0-9]{4}", code) is None:
            return "no such door, or no code"
        self.codes[door] = code
        return "set"

    def worth(self, right: list[bool]) -> float:
        return sum(right) / len(right)

    def tool_finish(self) -> str:
        return self.finish(self.worth([self.codes.get(door) == code for door, code in self.wanted.items()]))

    def solve(self) -> str:
        for door, code in self.wanted.items():
            if self.codes.get(door) != code:
                return call("set_code", door=door, code=code)
        return call("finish")


class MendedDoorCodes(DoorCodes):
    def worth(self, right: list[bool]) -> float:
        return float(all(right))
