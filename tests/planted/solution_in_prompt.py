"""Products with a worked example, a report of a fault, and letters of a word."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, unparsable, wrong

from .bases import Question, Workspace

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
LIMITS = ["retries", "seconds", "clients", "threads"]


class WorkedProducts(Question):
    """Multiply two numbers, after a worked example. One turn; reward 1 for the product, else 0."""

    def example(self, rng: np.random.Generator) -> list[int]:
        return self.factors

    def draw(self, rng: np.random.Generator) -> str:
        self.factors = rng.integers(101, 999, size=2).tolist()
        a, b = self.example(rng)
        return (
            f"For example, {a} times {b} is {a * b}. Now you: what is {self.factors[0]} times {self.factors[1]}? "
            "Reply with the number alone."
        )

    def score(self, answer: str) -> float:
        return float(answer == str(self.factors[0] * self.factors[1]))

    def solve(self) -> str:
        return str(self.factors[0] * self.factors[1])


class MendedWorkedProducts(WorkedProducts):
    def example(self, rng: np.random.Generator) -> list[int]:
        return rng.integers(101, 999, size=2).tolist()


class FaultReport(Workspace):
    """Mend a limit in a settings file, from a report of a fault. At most 20 turns; reward 1 for the fix, else 0."""

    def fill(self, rng: np.random.Generator) -> str:
        self.limit_name = str(rng.choice(LIMITS))
        values = rng.integers(100, 999, size=4).tolist()
        self.wanted = "\n".join(f"{name} = {value}" for name, value in zip(LIMITS, values, strict=True))
        right = next(line for line in self.wanted.splitlines() if line.startswith(self.limit_name))
        number = int(right.rpartition(" ")[2])
        self.files["limits.cfg"] = self.wanted.replace(right, f"{self.limit_name} = {number + 1000}")
        self.files["log.txt"] = f"{self.limit_name}: refused {number + 1}, had taken {number}"
        return f"{self.report(right)} Mend limits.cfg: the limit is the largest number that the server takes."

    def report(self, right: str) -> str:
        return (
            f"Report 17, from the project's tracker. The server fails above its limit, see log.txt. "
            f"Fixed in change 18, which sets the line `{right}` in limits.cfg."
        )

    def grade(self) -> float:
        return float(self.files.get("limits.cfg", "").strip() == self.wanted)

    def solve(self) -> str:
        return "done" if self.grade() else f"write limits.cfg\n{self.wanted}"


class MendedFaultReport(FaultReport):
    def report(self, right: str) -> str:
        return "Report 17, from the project's tracker. The server fails above its limit, see log.txt."


class Secret(NamedTuple):
    word: str
    asked: tuple[str, ...] = ()


class LetterByLetter(Task[Secret]):
    """Find a word by asking for letters.

    Actions: letter X, or word WORD.
    Reward: 1 for the word, else 0.
    """

    system = "Find the word. One action a turn: letter X asks where a letter stands; word WORD is your only guess."

    def turns(self, level: int) -> int:
        return 20

    def start(self, rng: random.Random, level: int) -> Secret:
        return Secret("".join(rng.choices(SYLLABLES, k=rng.randint(3, 5))))

    def content(self, state: Secret) -> str:
        return state.word

    def heading(self, state: Secret) -> str:
        return f"Secret word {state.word!r} of {len(state.word)} letters"

    def observe(self, state: Secret) -> str:
        pattern = "".join(letter if letter in state.asked else "_" for letter in state.word)
        return f"{self.heading(state)}: {pattern}. Letters asked for: {', '.join(state.asked) or 'none'}."

    def apply(self, state: Secret, action: str) -> Transition:
        command, _, text = action.strip().partition(" ")
        if command == "word":
            return Transition(state, correct() if text == state.word else wrong(), terminated=True)
        if command != "letter" or len(text) != 1 or text not in "abcdefghijklmnopqrstuvwxyz":
            return Transition(state, unparsable("the actions are letter X and word WORD"))
        return Transition(Secret(state.word, (*state.asked, text)), wrong(reason="not guessed"))

    def solve(self, state: Secret) -> str:
        missing = [letter for letter in "aeioubdfgklmnprst" if letter not in state.asked]
        return f"letter {missing[0]}" if set(state.word) - set(state.asked) else f"word {state.word}"


class MendedLetterByLetter(LetterByLetter):
    def heading(self, state: Secret) -> str:
        return f"Secret word of {len(state.word)} letters"
