"""WordProblems: stories in the style of GSM8K, made up without end, each with its worked solution. One turn.

A story opens with a quantity and changes it in steps; level n has n + 1 equations, and larger numbers. From level 4
on a sentence that does not matter stands in between. Names and things are dressing: a problem is its equations, so
no train problem returns in the test split under other names.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.mathematics.prompts import system_prompt
from rlvr.envs.rewards.graders.number import grade_number

NAMES = ("Ann", "Ben", "Eva", "Kim", "Leo", "Mia", "Sam", "Tom")
THINGS = ("apples", "books", "cards", "coins", "eggs", "nuts", "pens", "stamps")
LEVELS = 5


class Story(NamedTuple):
    text: str
    equations: tuple[str, ...]
    answer: int


class Opening(NamedTuple):
    """A first sentence and the equation it means, of two numbers a and b."""

    sentence: str
    operator: str


OPENINGS = (
    Opening("{name} has {a} bags with {b} {things} each.", "*"),
    Opening("{name} gets {b} {things} a day for {a} days.", "*"),
    Opening("{name} has {a} old {things} and {b} new {things}.", "+"),
)
STEPS = {
    "+": ("{name} buys {n} more.", "{name} finds {n} more.", "{other} gives {name} {n} more."),
    "-": ("{name} gives {n} to {other}.", "{name} loses {n}.", "{name} sells {n}."),
    "*": ("Then {name} makes the number {n} times as large.",),
    "/": ("Then {name} makes {n} equal parts and keeps one.",),
}
ASIDE = "{other} has {n} {things}."
QUESTION = "How many {things} does {name} have now?"


class WordProblems(Task[Story]):
    """Solve a grade-school word problem.

    Levels 1 to 5: two to six equations.

    Args:
        prompt_style: boxed, hash, tags or none.
    """

    levels = LEVELS

    def __init__(self, *, prompt_style: str = "boxed") -> None:
        self.system = system_prompt(prompt_style)

    def start(self, rng: random.Random, level: int) -> Story:
        """Draws an opening and ``level`` steps; every total on the way is a positive whole number."""
        name, other = rng.sample(NAMES, 2)
        things = rng.choice(THINGS)

        def say(sentence: str, **numbers: int) -> str:
            return sentence.format(name=name, other=other, things=things, **numbers)

        opening = rng.choice(OPENINGS)
        a, b = rng.randint(2, 8 + 2 * level), rng.randint(2, 4 + 2 * level)
        total = a * b if opening.operator == "*" else a + b
        sentences = [say(opening.sentence, a=a, b=b)]
        equations = [f"{a}{opening.operator}{b}={total}"]
        for _ in range(level):
            total = _step(rng, level, total, sentences, equations, say)
        if level >= 4:
            sentences.insert(rng.randint(1, len(sentences)), say(ASIDE, n=rng.randint(2, 99)))
        sentences.append(say(QUESTION))
        return Story(" ".join(sentences), tuple(equations), total)

    def content(self, state: Story) -> str:
        """The equations in their order: another name, thing or idle sentence does not make another task."""
        return ";".join(state.equations)

    def observe(self, state: Story) -> str:
        """The story and its question; the form of the answer is said in ``system``."""
        return state.text

    def apply(self, state: Story, action: str) -> Transition:
        """Grades the number; it must be worked out, so an expression of the right value is refused."""
        return Transition(state, grade_number(action, str(state.answer), simplest=True), terminated=True)

    def solve(self, state: Story) -> str:
        """One equation to a line, then the answer in a box."""
        return "\n".join(state.equations) + f"\n\\boxed{{{state.answer}}}"

    def direct_answer(self, state: Story) -> str:
        """The last total in a box, without the equations."""
        return f"\\boxed{{{state.answer}}}"

    def sample_action(self, state: Story, rng: random.Random) -> str:
        """A boxed whole number from 1 to 200."""
        return f"\\boxed{{{rng.randint(1, 200)}}}"


def _step(
    rng: random.Random,
    level: int,
    total: int,
    sentences: list[str],
    equations: list[str],
    say: Callable[..., str],
) -> int:
    """Add one sentence and its equation; returns the new total, which stays a positive whole number."""
    operators = ["+", "-"]
    divisors = [n for n in (2, 3, 4, 5) if total % n == 0 and total > n]
    if level >= 2:
        operators += ["*"] * (total < 200) + ["/"] * bool(divisors)
    operator = rng.choice(operators)
    if operator == "-" and total < 3:
        operator = "+"
    n = {
        "+": lambda: rng.randint(2, 4 + 5 * level),
        "-": lambda: rng.randint(2, min(total - 1, 4 + 5 * level)),
        "*": lambda: rng.randint(2, 3),
        "/": lambda: rng.choice(divisors),
    }[operator]()
    new = {"+": total + n, "-": total - n, "*": total * n, "/": total // n}[operator]
    sentences.append(say(rng.choice(STEPS[operator]), n=n))
    equations.append(f"{total}{operator}{n}={new}")
    return new
