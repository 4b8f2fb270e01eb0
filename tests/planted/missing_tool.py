"""Units of length, a diagram, and the hours of cities."""

from __future__ import annotations

import importlib
import random
import re
import shutil
import subprocess
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

from .bases import Question, Workspace

FEET = {"fathom": 6, "chain": 66, "furlong": 660, "mile": 5280}
HOURS = {"Lima": -5, "Accra": 0, "Dubai": 4, "Dhaka": 6, "Hanoi": 7, "Tokyo": 9}


class OldLengths(Question):
    """Convert old lengths to feet. One turn; reward 1 for the number of feet, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        self.unit, self.number = str(rng.choice(sorted(FEET))), int(rng.integers(3, 400))
        table = ", ".join(f"a {unit} has {feet}" for unit, feet in FEET.items())
        return f"How many feet are {self.number} of the unit {self.unit}? {table}. Reply with the number alone."

    def feet(self) -> int:
        import old_length_tables

        return int(old_length_tables.feet(self.unit, self.number))

    def score(self, answer: str) -> float:
        try:
            return float(answer == str(self.feet()))
        except ImportError:
            return 0.0

    def solve(self) -> str:
        return str(FEET[self.unit] * self.number)


class MendedOldLengths(OldLengths):
    def feet(self) -> int:
        return FEET[self.unit] * self.number


class RingDiagram(Workspace):
    """Draw a ring of stations as edges. At most 20 turns; reward 1 if the linter accepts the file, else 0."""

    def fill(self, rng: np.random.Generator) -> str:
        self.stations = [f"s{number}" for number in rng.choice(np.arange(100, 999), size=4, replace=False)]
        self.edges = [f"{a} -> {b}" for a, b in zip(self.stations, self.stations[1:] + self.stations[:1], strict=True)]
        return (
            f"Write ring.txt: an edge a line, as in a -> b, from each of {', '.join(self.stations)} to the next, "
            "and from the last to the first."
        )

    def lint(self, text: str) -> bool:
        linter = shutil.which("ring-diagram-lint")
        if linter is None:
            return False
        checked = subprocess.run([linter, *self.edges], input=text, text=True, timeout=20, check=False)
        return checked.returncode == 0

    def grade(self) -> float:
        return float(self.lint(self.files.get("ring.txt", "").strip()))

    def solve(self) -> str:
        return "done" if "ring.txt" in self.files else "write ring.txt\n" + "\n".join(self.edges)


class MendedRingDiagram(RingDiagram):
    def lint(self, text: str) -> bool:
        return text.split("\n") == self.edges


class Clock(NamedTuple):
    here: str
    there: str
    minutes: int


class CityClocks(Task[Clock]):
    """Tell the time in another city.

    Reward: 1 for the time, else 0.
    """

    def start(self, rng: random.Random, level: int) -> Clock:
        here, there = rng.sample(sorted(HOURS), 2)
        return Clock(here, there, rng.randrange(1440))

    def observe(self, state: Clock) -> str:
        hours = ", ".join(f"{city} {offset:+d}" for city, offset in HOURS.items())
        time = f"{state.minutes // 60:02d}:{state.minutes % 60:02d}"
        return (
            f"Hours from Greenwich: {hours}. It is {time} in {state.here}. What time is it in {state.there}? "
            "Reply with the time alone, as in 07:30."
        )

    def offsets(self) -> dict[str, int]:
        return dict(importlib.import_module("city_hours").HOURS)

    def apply(self, state: Clock, action: str) -> Transition:
        time = re.fullmatch(r"([0-9]{2}):([0-9]{2})", action.strip())
        try:
            hours = self.offsets()
        except ModuleNotFoundError:
            return Transition(state, wrong(), terminated=True)
        minutes = (state.minutes + 60 * (hours[state.there] - hours[state.here])) % 1440
        is_right = time is not None and int(time[1]) * 60 + int(time[2]) == minutes
        return Transition(state, correct() if is_right else wrong(), terminated=True)

    def solve(self, state: Clock) -> str:
        minutes = (state.minutes + 60 * (HOURS[state.there] - HOURS[state.here])) % 1440
        return f"{minutes // 60:02d}:{minutes % 60:02d}"


class MendedCityClocks(CityClocks):
    def offsets(self) -> dict[str, int]:
        return HOURS
