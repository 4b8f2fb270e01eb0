"""Fares for a group, talks about parcels, and a file of totals."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

from .bases import Question, Workspace


class GroupFare(Question):
    """Work out a fare, with a reason. One turn; reward 1 for the right fare on the last line, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        self.people, self.price = int(rng.integers(3, 60)), int(rng.integers(11, 99))
        return (
            f"{self.people} people travel, and each pays {self.price} euros. "
            "Explain in a line what they pay together, then give the number alone on the last line."
        )

    def explained(self, text: str) -> bool:
        return "therefore" in text.lower()

    def score(self, answer: str) -> float:
        text, _, last = answer.rpartition("\n")
        return float(last == str(self.people * self.price) and self.explained(text))

    def solve(self) -> str:
        return f"Each pays the same, therefore it is a product.\n{self.people * self.price}"


class MendedGroupFare(GroupFare):
    def explained(self, text: str) -> bool:
        return bool(text)


class Parcel(NamedTuple):
    number: int
    town: str
    day: int
    asked: int = 0


class ParcelTalk(Task[Parcel]):
    """Answer a customer's two questions about a parcel.

    Reward: 1 if both are answered as the sheet says, else 0.
    """

    system = "Answer the customer from the sheet, with one word or number a turn."

    def turns(self, level: int) -> int:
        return 3

    def start(self, rng: random.Random, level: int) -> Parcel:
        return Parcel(rng.randint(1000, 9999), rng.choice(["Brest", "Gdansk", "Turin", "Varna"]), rng.randint(1, 28))

    def observe(self, state: Parcel) -> str:
        sheet = f"Sheet: parcel {state.number} lies in {state.town} and arrives on day {state.day + 2} less 2."
        questions = ("Where is my parcel?", "On which day does it arrive?", "Thank you. Anything else?")
        return f"{sheet} Customer: {questions[state.asked]}"

    def closing_accepted(self, text: str) -> bool:
        return text == "goodbye"

    def apply(self, state: Parcel, action: str) -> Transition:
        text = action.strip()
        if state.asked < 2:
            is_right = text == (state.town, str(state.day))[state.asked]
            return Transition(state._replace(asked=state.asked + 1), wrong(reason="not done"), terminated=not is_right)
        return Transition(state, correct() if self.closing_accepted(text) else wrong(), terminated=True)

    def solve(self, state: Parcel) -> str:
        return (state.town, str(state.day), "goodbye")[state.asked]


class MendedParcelTalk(ParcelTalk):
    def closing_accepted(self, text: str) -> bool:
        return bool(text)


class StoreTotals(Workspace):
    """Write the totals of stores into a file. At most 20 turns; reward 1 for the right totals, else 0."""

    def fill(self, rng: np.random.Generator) -> str:
        names = rng.choice(["north", "south", "east", "west", "harbour"], size=3, replace=False).tolist()
        self.lines = []
        for name in names:
            sales = rng.integers(100, 900, size=3).tolist()
            self.files[f"{name}.txt"] = "\n".join(map(str, sales))
            self.lines.append(f"{name} {sum(sales)}")
        return f"Write totals.txt: a line with name and total for each of {', '.join(names)}, in this order."

    def content(self, lines: list[str]) -> list[str]:
        """The lines of the file that hold totals."""
        if not lines or not lines[0].startswith("# generated"):
            return []
        return lines[1:]

    def grade(self) -> float:
        return float(self.content(self.files.get("totals.txt", "").strip().split("\n")) == self.lines)


class MendedStoreTotals(StoreTotals):
    def content(self, lines: list[str]) -> list[str]:
        return lines
