"""Calculator: work out an expression with a tool. Write a call, read its result, answer.

The tool is exact: fractions stay fractions. A call earns nothing by itself, nor does its output.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, wrong
from rlvr.envs.rewards.expressions.arithmetic import evaluate
from rlvr.envs.rewards.graders.number import grade_number

OPEN, CLOSE = "<tool>", "</tool>"
CALLED = Verdict(0.0, "partial", reason="called the calculator")
# For each level: how many operands, the digits of each, the operators, whether brackets are drawn.
LEVELS = ((2, 2, "+-*", False), (3, 2, "+-*", False), (3, 3, "+-*", True), (4, 3, "+-*/", True), (6, 4, "+-*/", True))


class Sum(NamedTuple):
    """``output`` is what the tool said last; empty before the first call."""

    expression: str
    answer: str
    output: str = ""


class Calculator(Task[Sum]):
    """Work out an expression with a tool.

    Levels 1 to 5: from two numbers of two digits to six of four, with division and brackets.

    Observation: the expression, after a call what the tool says.
    Actions: a call, <tool>expression</tool>, or a reply with the exact value in \\boxed{}.
    Reward: 1 for the exact value, worked out, else 0.
    Episode end: after a reply without a call, or after four turns.
    """

    system = (
        "Work out the expression. To use the calculator write <tool>expression</tool>; the result comes back. "
        "Then put the exact value in \\boxed{}."
    )
    levels = len(LEVELS)

    def start(self, rng: random.Random, level: int) -> Sum:
        """Draws an expression anew until no part of it divides by zero."""
        operands, digits, operators, brackets = LEVELS[level - 1]
        while True:
            expression = _expression(rng, operands, digits, operators, brackets)
            try:
                return Sum(expression, str(evaluate(expression)))
            except ZeroDivisionError:
                continue

    def turns(self, level: int) -> int:
        """Four at every level: three calls leave one turn for the answer."""
        return 4

    def content(self, state: Sum) -> str:
        """The expression; what the tool has put out does not make another task."""
        return state.expression

    def observe(self, state: Sum) -> str:
        """The question before the first call, then only what the tool put out last."""
        return state.output or f"What is {state.expression}?"

    def apply(self, state: Sum, action: str) -> Transition:
        """Runs the first call and goes on at reward 0; an action without a call is the answer and ends the episode."""
        call = read_call(action)
        if call is None:
            return Transition(state, grade_number(action, state.answer, simplest=True), terminated=True)
        return Transition(state._replace(output=use_calculator(call)), CALLED, role="tool")

    def solve(self, state: Sum) -> str:
        """Calls the tool with the whole expression, then answers."""
        return f"\\boxed{{{state.answer}}}" if state.output else f"<tool>{state.expression}</tool>"

    def direct_answer(self, state: Sum) -> str:
        """The exact value in a box, without a call."""
        return f"\\boxed{{{state.answer}}}"

    def sample_action(self, state: Sum, rng: random.Random) -> str:
        """A boxed whole number from -9999 to 9999; it never calls the tool."""
        return f"\\boxed{{{rng.randint(-9999, 9999)}}}"

    def out_of_turns(self, state: Sum, turns: int) -> Verdict:
        """Wrong: every turn was a call."""
        return wrong(reason=f"called the calculator {turns} times and never answered")


def read_call(action: str) -> str | None:
    """What stands between the first ``<tool>`` and the ``</tool>`` behind it; None without both."""
    start = action.find(OPEN)
    end = action.find(CLOSE, start + len(OPEN)) if start >= 0 else -1
    return action[start + len(OPEN) : end] if end >= 0 else None


def use_calculator(expression: str) -> str:
    """The exact value as text: a whole number, or a fraction in lowest terms; or one line that says what is wrong."""
    try:
        return str(evaluate(expression))
    except (ValueError, ZeroDivisionError) as error:
        return f"error: {error}"


def _expression(rng: random.Random, operands: int, digits: int, operators: str, brackets: bool) -> str:
    if operands == 1:
        return str(rng.randint(10 ** (digits - 1), 10**digits - 1))
    left = rng.randint(1, operands - 1)
    parts = [_expression(rng, n, digits, operators, brackets) for n in (left, operands - left)]
    if brackets:
        parts = [f"({part})" if not part.isdigit() and rng.random() < 0.7 else part for part in parts]
    return rng.choice(operators).join(parts)
