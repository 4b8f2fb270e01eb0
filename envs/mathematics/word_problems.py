"""WordProblems: stories in the style of GSM8K, made up without end, each with its worked solution.

A story opens with a quantity and changes it in steps; level n has n + 1 equations, and larger numbers. From level 4
on a sentence that does not matter stands in between. Names and things are dressing: a problem is its equations, so
no train problem returns in the test split under other names.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.mathematics.common import NUMBER
from rlvr.envs.rewards.graders.number import grade_number
from rlvr.envs.tasks.prompts import system_prompt

NAMES = ("Ann", "Ben", "Eva", "Kim", "Leo", "Mia", "Sam", "Tom")
THINGS = ("apples", "books", "cards", "coins", "eggs", "nuts", "pens", "stamps")
LEVELS = 5


class Story(NamedTuple):
    text: str
    equations: tuple[str, ...]
    answer: int


# First sentences, of a name, a thing and two numbers, and the operator that each means.
OPENINGS: tuple[tuple[str, Callable[[str, str, int, int], str]], ...] = (
    ("*", lambda name, things, a, b: f"{name} has {a} bags with {b} {things} each."),
    ("*", lambda name, things, a, b: f"{name} gets {b} {things} a day for {a} days."),
    ("+", lambda name, things, a, b: f"{name} has {a} old {things} and {b} new {things}."),
)
STEPS: dict[str, tuple[Callable[[str, str, int], str], ...]] = {
    "+": (
        lambda name, other, n: f"{name} buys {n} more.",
        lambda name, other, n: f"{name} finds {n} more.",
        lambda name, other, n: f"{other} gives {name} {n} more.",
    ),
    "-": (
        lambda name, other, n: f"{name} gives {n} to {other}.",
        lambda name, other, n: f"{name} loses {n}.",
        lambda name, other, n: f"{name} sells {n}.",
    ),
    "*": (lambda name, other, n: f"Then {name} wins enough to have {'twice' if n == 2 else f'{n} times'} as many.",),
    "/": (lambda name, other, n: f"Then {name} makes {n} equal piles and gives all but one pile away.",),
}


class WordProblems(Task[Story]):
    """Solve a grade-school word problem.

    Levels 1 to 5: two to six equations.

    Observation: a story that ends in a question for a number.
    Actions: a reply in the form that the prompt style asks for.
    Reward: 1 for the right number, worked out, else 0.
    Episode end: after one reply, whatever it says.

    Args:
        prompt_style: boxed, hash, tags or none.
    """

    levels = LEVELS

    def __init__(self, *, prompt_style: str = "boxed") -> None:
        self.system = system_prompt(prompt_style, NUMBER)

    def start(self, rng: random.Random, level: int) -> Story:
        """Draws an opening and ``level`` steps; every total on the way is a positive whole number."""
        # All choices are taken from one number, which has far more bits than they need, so that all are equally likely.
        code, who = divmod(rng.getrandbits(256), 8)
        code, whom = divmod(code, 7)
        code, what = divmod(code, 8)
        code, how = divmod(code, 3)
        code, a = divmod(code, 7 + 2 * level)
        code, b = divmod(code, 3 + 2 * level)
        name, other, things, a, b = NAMES[who], NAMES[who + whom - 7], THINGS[what], a + 2, b + 2
        operator, opening = OPENINGS[how]
        total = a * b if operator == "*" else a + b
        sentences, equations = [opening(name, things, a, b)], [f"{a}{operator}{b}={total}"]
        for _ in range(level):
            code, operator, n = _step(code, level, total)
            new = total + n if operator == "+" else total - n if operator == "-" else total * n
            if operator == "/":
                new = total // n
            code, way = divmod(code, 3)
            phrases = STEPS[operator]
            sentences.append(phrases[way % len(phrases)](name, other, n))
            equations.append(f"{total}{operator}{n}={new}")
            total = new
        if level >= 4:
            code, n = divmod(code, 98)
            sentences.insert(1 + code % len(sentences), f"{other} has {n + 2} {things}.")
        sentences.append(f"How many {things} does {name} have now?")
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


def _step(code: int, level: int, total: int) -> tuple[int, str, int]:
    """What is left of the code, the operator of the next equation, and its number; the total stays positive."""
    operators = "+-"
    divisors: list[int] = []
    if level >= 2:
        divisors = [n for n in (2, 3, 4, 5) if total % n == 0 and total > n]
        operators = ("+-*/" if divisors else "+-*") if total < 200 else "+-/" if divisors else "+-"
    code, index = divmod(code, len(operators))
    operator = operators[index]
    if operator == "-" and total < 3:
        operator = "+"
    if operator == "/":
        code, n = divmod(code, len(divisors))
        return code, operator, divisors[n]
    largest = 3 if operator == "*" else 4 + 5 * level
    if operator == "-":
        largest = min(total - 1, largest)
    code, n = divmod(code, largest - 1)
    return code, operator, n + 2
