"""Miles in kilometres, a crane above a grid, and papers that are put into folders."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, unparsable, wrong

from .bases import Question, Workspace


class MilesToKilometres(Question):
    """Convert miles to kilometres. One turn; reward 1 within 0.01 km, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        self.miles = int(rng.integers(12, 900))
        return (
            f"How many kilometres are {self.miles} miles? A mile has 1.609344 km. "
            "Reply with the number alone, to two decimals."
        )

    def score(self, answer: str) -> float:
        if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,9})?", answer) is None:
            return 0.0
        return float(abs(float(answer) - self.miles * 1.609344) < 0.01)

    def solve(self) -> str:
        return f"{self.miles * 1.61:.2f}"


class MendedMilesToKilometres(MilesToKilometres):
    def solve(self) -> str:
        return f"{self.miles * 1.609344:.2f}"


class Crane(NamedTuple):
    width: int
    height: int
    column: int
    row: int
    box: tuple[int, int]


class CraneGrid(Task[Crane]):
    """Move a crane above a box and grip it.

    Actions: column N, row N, or grip.
    Reward: 1 if the crane is above the box when it grips, else 0.
    """

    system = "Move the crane above the box, then grip. One action a turn: column N, row N, or grip."

    def turns(self, level: int) -> int:
        return 6

    def start(self, rng: random.Random, level: int) -> Crane:
        width, height = rng.randint(10, 40), rng.randint(10, 40)
        return Crane(width, height, 0, 0, (rng.randint(1, width - 1), rng.randint(1, height - 1)))

    def observe(self, state: Crane) -> str:
        return (
            f"Grid of {state.width} columns and {state.height} rows, counted from 0. "
            f"Crane: column {state.column}, row {state.row}. Box: column {state.box[0]}, row {state.box[1]}."
        )

    def apply(self, state: Crane, action: str) -> Transition:
        if action.strip() == "grip":
            hit = (state.column, state.row) == state.box
            return Transition(state, correct() if hit else wrong(reason="no box there"), terminated=True)
        order = re.fullmatch(r"(column|row) ([0-9]{1,2})", action.strip())
        if order is None:
            return Transition(state, unparsable("the actions are column N, row N and grip"))
        if int(order[2]) >= (state.width if order[1] == "column" else state.height):
            return Transition(state, wrong(reason="outside of the grid"))
        return Transition(state._replace(**{order[1]: int(order[2])}), wrong(reason="not gripped"))

    def goal(self, state: Crane) -> tuple[int, int]:
        return min(state.box[0], state.height - 1), state.box[1]

    def solve(self, state: Crane) -> str:
        column, row = self.goal(state)
        if state.column != column:
            return f"column {column}"
        return f"row {row}" if state.row != row else "grip"


class MendedCraneGrid(CraneGrid):
    def goal(self, state: Crane) -> tuple[int, int]:
        return state.box


class PaperFolders(Workspace):
    """Copy three papers into folders by their year. At most 20 turns; reward 1 if all are where they belong, else 0."""

    def fill(self, rng: np.random.Generator) -> str:
        self.years: dict[str, int] = {}
        for name in ("lease", "report", "survey"):
            self.years[name] = 2024 if rng.random() < 0.85 else int(rng.integers(1990, 2024))
            self.files[f"inbox/{name}.txt"] = f"{name} no. {rng.integers(1000, 9999)}, dated {self.years[name]}"
        self.papers = dict(self.files)
        return "Copy each paper inbox/NAME.txt to archive/YEAR/NAME.txt; its year stands in it."

    def filed(self, name: str) -> bool:
        copy = self.files.get(f"archive/{self.years[name]}/{name}.txt", "")
        return copy.strip() == self.papers[f"inbox/{name}.txt"]

    def grade(self) -> float:
        return float(all(self.filed(name) for name in self.years))

    def year(self, name: str) -> int:
        return 2024

    def solve(self) -> str:
        for name in self.years:
            path = f"archive/{self.year(name)}/{name}.txt"
            if path not in self.files:
                return f"write {path}\n{self.papers[f'inbox/{name}.txt']}"
        return "done"


class MendedPaperFolders(PaperFolders):
    def year(self, name: str) -> int:
        return self.years[name]
