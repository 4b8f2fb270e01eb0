"""Countdown: reach a target with given numbers, each used exactly once.

Every instance is made from a solution, so every one has one. Values are exact rationals.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.rewards.graders.countdown import grade_countdown

# For each level: how many numbers, the largest of them, the largest target.
LEVELS = ((3, 9, 100), (3, 99, 999), (4, 99, 999), (5, 99, 999), (6, 99, 999))


class CountdownState(NamedTuple):
    numbers: tuple[int, ...]
    target: int
    solution: str


class Countdown(Task[CountdownState]):
    """Reach a target with given numbers and the four operations.

    Levels 1 to 5: three numbers up to 9, then three, four, five and six up to 99.

    Observation: the numbers and the target.
    Actions: a reply with an expression in \\boxed{}, of + - * / and brackets.
    Reward: 1 for an expression that uses each number exactly once and has exactly the target's value, else 0.
    Episode end: after one reply, whatever it says.
    """

    system = (
        "Make the target from the numbers. Use each number exactly once, with + - * / and brackets. "
        "Put the expression in \\boxed{}."
    )
    levels = len(LEVELS)

    def start(self, rng: random.Random, level: int) -> CountdownState:
        """Builds a random expression; draws again until its value is in range and is none of the numbers."""
        count, largest, highest = LEVELS[level - 1]
        while True:
            numbers = [int(rng.random() * largest) + 1 for _ in range(count)]
            solution, target = _combine(rng, numbers)
            if 1 <= target <= highest and target not in numbers:
                rng.shuffle(numbers)
                return CountdownState(tuple(numbers), target, solution)

    def content(self, state: CountdownState) -> str:
        """The sorted numbers and the target: their order on the page does not make another task."""
        return f"{sorted(state.numbers)} {state.target}"

    def observe(self, state: CountdownState) -> str:
        """The numbers and the target; the rules stand in ``system``."""
        return f"Numbers: {' '.join(map(str, state.numbers))}. Target: {state.target}."

    def apply(self, state: CountdownState, action: str) -> Transition:
        """Parses the expression without evaluating code; each number must be used exactly once, in exact rationals."""
        reference = {"numbers": list(state.numbers), "target": state.target}
        return Transition(state, grade_countdown(action, reference), terminated=True)

    def solve(self, state: CountdownState) -> str:
        """The work, then the expression: steps of the solution until three numbers are left, then a search."""
        steps: list[str] = []
        parts = _until_three(ast.parse(state.solution, mode="eval").body, steps)
        numbers = tuple(value for value, _ in parts)
        if not steps:
            return _search(state.numbers, state.target, {})
        steps.append(f"Left: {' '.join(map(str, numbers))}.")
        texts: dict[int, list[str]] = {}
        for value, text in parts:
            texts.setdefault(value, []).append(text)
        return "\n".join([*steps, _search(numbers, state.target, texts)])

    def direct_answer(self, state: CountdownState) -> str:
        """The expression that the instance was built from, without its steps."""
        return f"\\boxed{{{state.solution}}}"

    def sample_action(self, state: CountdownState, rng: random.Random) -> str:
        """A random expression that uses every number once; its value is seldom the target."""
        numbers = list(state.numbers)
        rng.shuffle(numbers)
        return f"\\boxed{{{_combine(rng, numbers)[0]}}}"


def _search(numbers: tuple[int, ...], target: int, texts: dict[int, list[str]]) -> str:
    """A search from both ends, a line for each number that might come last. Of 3, 7 and 5 to make 22:

        3: 7+5=12 7-5=2 7*5=35; 22-3=19 22+3=25 no
        7: 5+3=8 5-3=2 5*3=15; 22-7=15
        \\boxed{(5*3)+7}

    First what the other two make, then what they would have to make, as far as they can, until it is one of those.
    Every instance has such a solution, since no value on the way to its target is below 1 or a fraction. ``texts`` has
    the expressions that numbers stand for.
    """
    lines: list[str] = []
    for index, last in enumerate(numbers):
        b, a = sorted(numbers[:index] + numbers[index + 1 :])
        pairs = {value: pair for pair, value in reversed(list(_made(a, b)))}
        line = f"{last}: {' '.join(f'{pair}={value}' for pair, value in _made(a, b))};"
        for step, value, whole in _wanted(last, target):
            if value > max(pairs):
                continue
            line += f" {step}={value}"
            if value in pairs:
                whole = whole.replace("_", f"({pairs[value]})")
                whole = re.sub(r"\d+", lambda n: texts[int(n[0])].pop() if int(n[0]) in texts else n[0], whole)
                return "\n".join([*lines, line, f"\\boxed{{{whole}}}"])
        lines.append(f"{line} no")
    raise ValueError(f"{numbers} cannot make {target}")


def _made(a: int, b: int) -> Iterator[tuple[str, int]]:
    """Each step from a and b, the larger first, to a positive whole number."""
    yield f"{a}+{b}", a + b
    if a > b:
        yield f"{a}-{b}", a - b
    yield f"{a}*{b}", a * b
    if a % b == 0:
        yield f"{a}/{b}", a // b


def _wanted(last: int, target: int) -> Iterator[tuple[str, int, str]]:
    """From what values one step with ``last`` makes the target: how to find it, it, and that step with _ for it."""
    if target > last:
        yield f"{target}-{last}", target - last, f"_+{last}"
    yield f"{target}+{last}", target + last, f"_-{last}"
    if target < last:
        yield f"{last}-{target}", last - target, f"{last}-_"
    if target % last == 0:
        yield f"{target}/{last}", target // last, f"_*{last}"
    yield f"{target}*{last}", target * last, f"_/{last}"
    if last % target == 0:
        yield f"{last}/{target}", last // target, f"{last}/_"


def _until_three(tree: ast.expr, steps: list[str]) -> list[tuple[int, str]]:
    """Three numbers that still make the target, each with its expression, after appending the steps to them."""
    # The part of the most numbers is taken apart.
    parts = [tree]
    while len(parts) < 3:
        largest = max((part for part in parts if isinstance(part, ast.BinOp)), key=_count)
        parts.remove(largest)
        parts += [largest.left, largest.right]
    return [
        (_work_out(part, steps), f"({text})" if isinstance(part, ast.BinOp) else text)
        for part, text in ((part, ast.unparse(part).replace(" ", "")) for part in parts)
    ]


def _count(node: ast.expr) -> int:
    """How many numbers an expression has."""
    return _count(node.left) + _count(node.right) if isinstance(node, ast.BinOp) else 1


def _work_out(node: ast.expr, steps: list[str]) -> int:
    """The value of a solution that was made here, after appending each of its steps."""
    if not isinstance(node, ast.BinOp):
        return int(ast.literal_eval(node))
    x, y = _work_out(node.left, steps), _work_out(node.right, steps)
    symbol, value = {
        ast.Add: ("+", x + y),
        ast.Sub: ("-", x - y),
        ast.Mult: ("*", x * y),
        ast.Div: ("/", x // y),
    }[type(node.op)]
    steps.append(f"{x}{symbol}{y}={value}")
    return value


def _combine(rng: random.Random, numbers: list[int]) -> tuple[str, int]:
    """A random expression over all the numbers whose value, and every value on the way, is a positive integer."""
    # Each part is (text, value, how tightly its outermost operator binds: 1 for + and -, 2 for * and /, 3 alone).
    parts = [(str(n), n, 3) for n in numbers]
    while len(parts) > 1:
        a, x, p = parts.pop(int(rng.random() * len(parts)))
        b, y, q = parts.pop(int(rng.random() * len(parts)))
        operator = "+-*/"[int(rng.random() * 4)]
        if operator == "-" and x <= y:
            operator = "+"
        if operator == "/" and x % y:
            operator = "*"
        binds = 1 if operator in "+-" else 2
        left = f"({a})" if p < binds else a
        # A bracket also stands where the same level on the right would regroup: 8-(3-2), 8/(4*2).
        right = f"({b})" if q < binds or (q == binds and operator in "-/") else b
        value = x + y if operator == "+" else x - y if operator == "-" else x * y if operator == "*" else x // y
        parts.append((f"{left}{operator}{right}", value, binds))
    return parts[0][0], parts[0][1]
