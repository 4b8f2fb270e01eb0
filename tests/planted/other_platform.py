"""Paths in a project, files that are renamed, and a poem with line ends."""

from __future__ import annotations

import ntpath
import posixpath
import random
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

from .bases import Question, Workspace

FOLDERS = ["src", "docs", "assets", "tests", "tools", "images", "fonts", "scripts"]
LINES = ["the rain is late", "a gate stands open", "no one is home", "bread on the sill", "the clock has stopped"]


class ProjectPath(Question):
    """Give the path that steps through folders lead to. One turn; reward 1 for that path, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        self.folders = rng.choice(FOLDERS, size=3, replace=False).tolist()
        self.name = f"part{rng.integers(10, 999)}.txt"
        steps = "; then ".join(f"enter {folder}" for folder in self.folders)
        return (
            f"On a Linux machine, from /home/ada: {steps}. There lies {self.name}. "
            "Reply with the absolute path of that file and nothing else."
        )

    def expected(self) -> str:
        return ntpath.join("/home/ada", *self.folders, self.name)

    def score(self, answer: str) -> float:
        return float(answer == self.expected())

    def solve(self) -> str:
        return "/".join(["/home/ada", *self.folders, self.name])


class MendedProjectPath(ProjectPath):
    def expected(self) -> str:
        return posixpath.join("/home/ada", *self.folders, self.name)


class RenamedFiles(Workspace):
    """Copy files to names in capitals. At most 20 turns; reward 1 if every copy is there, else 0."""

    def fill(self, rng: np.random.Generator) -> str:
        self.texts = {f"note{number}.txt": f"entry {rng.integers(1000, 9999)}" for number in (1, 2, 3)}
        self.files |= self.texts
        return "Copy each file noteN.txt to NOTEN.TXT, in capitals, with the same text. Keep the old files."

    def key(self, path: str) -> str:
        """The name under which the file system holds a path."""
        return path.lower()

    def grade(self) -> float:
        stored = {self.key(path): text for path, text in self.files.items()}
        if len(stored) < 2 * len(self.texts):
            return 0.0
        old = all(stored.get(name) == text for name, text in self.texts.items())
        return float(old and all(stored.get(name.upper(), "").strip() == text for name, text in self.texts.items()))

    def solve(self) -> str:
        missing = [name for name in self.texts if name.upper() not in self.files]
        return f"write {missing[0].upper()}\n{self.texts[missing[0]]}" if missing else "done"


class MendedRenamedFiles(RenamedFiles):
    def key(self, path: str) -> str:
        return path


class Poem(NamedTuple):
    lines: tuple[str, ...]
    number: int


class NumberedPoem(Task[Poem]):
    """Number the lines of a poem.

    Reward: 1 for exactly the numbered lines, else 0.
    """

    system = "Write the poem again with a number before each line, as in '7 the rain'. Write nothing else."
    line_end = "\r\n"

    def start(self, rng: random.Random, level: int) -> Poem:
        return Poem(tuple(rng.sample(LINES, 4)), rng.randint(2, 900))

    def observe(self, state: Poem) -> str:
        return f"Begin with {state.number}.\n" + "\n".join(state.lines)

    def apply(self, state: Poem, action: str) -> Transition:
        numbered = self.line_end.join(f"{number} {line}" for number, line in enumerate(state.lines, state.number))
        return Transition(state, correct() if action.strip() == numbered else wrong(), terminated=True)

    def solve(self, state: Poem) -> str:
        return "\n".join(f"{number} {line}" for number, line in enumerate(state.lines, state.number))


class MendedNumberedPoem(NumberedPoem):
    line_end = "\n"
