"""Programs in a small imperative language, run by an interpreter of our own.

Observation: a program, and which output or input of it is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from rlvr.envs.algorithmic import data_workings
from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained, whole_numbers

# An expression is a number, a name, or (left, operator, right); a statement is a tuple whose first part is its kind.
Expression = Any
Statement = tuple[Any, ...]
HIGHEST = 10**6
RULES = (
    "In this language // divides and rounds down, % is the remainder (never negative), "
    "and 'repeat n times' runs its indented lines n times."
)


class TooLarge(ValueError):
    """A value has grown beyond what one would work out by hand."""


def value_of(expression: Expression, names: dict[str, int]) -> int:
    """The value of an expression.

    Raises:
        TooLarge: it, or a part of it, is over a million.
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return names[expression]
    left, operator, right = expression
    a, b = value_of(left, names), value_of(right, names)
    if operator == "+":
        result = a + b
    elif operator == "-":
        result = a - b
    elif operator == "*":
        result = a * b
    elif operator == "//":
        result = a // b
    else:
        result = a % b
    if abs(result) > HIGHEST:
        raise TooLarge(str(result))
    return result


def holds(left: int, operator: str, right: int) -> bool:
    return {"<": left < right, ">": left > right, "==": left == right, "!=": left != right}[operator]


def run(program: list[Statement], names: dict[str, int]) -> list[int]:
    """Run statements, changing ``names``; returns what they print.

    Raises:
        TooLarge: a value is over a million.
    """
    printed: list[int] = []
    for statement in program:
        kind = statement[0]
        if kind == "set":
            names[statement[1]] = value_of(statement[2], names)
        elif kind == "print":
            printed.append(value_of(statement[1], names))
        elif kind == "if":
            _, left, operator, right, then, other = statement
            holding = holds(value_of(left, names), operator, value_of(right, names))
            printed += run(then if holding else other, names)
        else:
            for _ in range(statement[1]):
                printed += run(statement[2], names)
    return printed


def statements(program: Sequence[Statement]) -> int:
    """How many statements a program has; those of a loop count for each round, those of both branches once."""
    count = 0
    for statement in program:
        if statement[0] == "if":
            count += 1 + statements(statement[4]) + statements(statement[5])
        else:
            count += statement[1] * statements(statement[2]) if statement[0] == "repeat" else 1
    return count


def written(program: list[Statement], indent: str = "") -> list[str]:
    """The lines of a program."""
    lines: list[str] = []
    for statement in program:
        kind = statement[0]
        if kind == "set":
            lines.append(f"{indent}{statement[1]} = {_expression(statement[2])}")
        elif kind == "print":
            lines.append(f"{indent}print {_expression(statement[1])}")
        elif kind == "if":
            _, left, operator, right, then, other = statement
            lines.append(f"{indent}if {_expression(left, True)} {operator} {_expression(right, True)}:")
            lines += written(then, indent + "    ")
            if other:
                lines += [f"{indent}else:", *written(other, indent + "    ")]
        else:
            lines += [f"{indent}repeat {statement[1]} times:", *written(statement[2], indent + "    ")]
    return lines


def _expression(expression: Expression, inner: bool = False) -> str:
    if not isinstance(expression, tuple):
        return str(expression)
    left, operator, right = expression
    text = f"{_expression(left, True)} {operator} {_expression(right, True)}"
    return f"({text})" if inner else text


class Writer:
    """Makes up programs over some variables."""

    def __init__(self, rng: random.Random, names: str, constants: int) -> None:
        self.rng, self.names, self.constants = rng, names, constants

    def expression(self, depth: int = 1) -> Expression:
        """Arithmetic on variables and constants; divisors are constants from 2, so nothing divides by 0."""
        left = self.expression(depth - 1) if depth > 1 else self.rng.choice(self.names)
        operator = self.rng.choice("++--*/%")
        if operator == "/":
            return (left, "//", self.rng.randint(2, 5))
        if operator == "%":
            return (left, "%", self.rng.randint(3, 11))
        if operator == "*":
            return (left, "*", self.rng.randint(2, 4))
        return (left, operator, self.rng.choice([*self.names, self.rng.randint(1, self.constants)]))

    def assignment(self, depth: int) -> Statement:
        """Set a variable to an expression of at most this depth."""
        return ("set", self.rng.choice(self.names), self.expression(self.rng.randint(1, depth)))

    def condition(self, depth: int, inside: int) -> Statement:
        """An ``if`` with blocks of at most this depth, ``inside`` so many loops."""
        left = (self.rng.choice(self.names), "%", self.rng.randint(2, 4)) if self.rng.random() < 0.5 else self.names[0]
        operator = self.rng.choice("<>=!")
        right = self.rng.randint(0, 2) if isinstance(left, tuple) else self.rng.choice(self.names[1:])
        operator += "" if operator in "<>" else "="
        then = self.block(1, depth, inside)
        return ("if", left, operator, right, then, self.block(1, depth, inside) if self.rng.random() < 0.7 else [])

    def loop(self, depth: int, inside: int) -> Statement:
        """A loop of 2 to 6 rounds, of 2 to 4 when it is ``inside`` another."""
        return ("repeat", self.rng.randint(2, 4 if inside else 6), self.block(2, depth, inside))

    def block(self, count: int, depth: int, inside: int) -> list[Statement]:
        """Statements with up to ``inside`` further conditions and loops within one another."""
        block: list[Statement] = []
        for _ in range(count):
            if inside and self.rng.random() < 0.6:
                block.append(self.rng.choice((self.condition, self.loop))(depth, inside - 1))
            else:
                block.append(self.assignment(depth))
        return block


class CodeOutput(ListAnswerTask):
    """Say what a small program prints.

    Level 1: assignments; 2: conditions; 3: a loop; 4: conditions in loops; 5: loops in loops, longer terms.
    """

    explain = explained(data_workings.code_output, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws programs until two outputs differ and none has five digits; the language is stated in the question."""
        names = "abc" if level < 4 else "abcd"
        writer = Writer(rng, names, 20)
        while True:
            first: list[Statement] = [("set", name, rng.randint(1, 30)) for name in names]
            if level == 1:
                body = writer.block(5, 1, 0)
            elif level == 2:
                body = [writer.assignment(1), writer.condition(1, 0), writer.assignment(1), writer.condition(1, 0)]
            elif level == 3:
                body = [writer.assignment(1), writer.loop(1, 0), writer.condition(1, 0), writer.assignment(1)]
            else:
                body = writer.block(4, level - 3, level - 3)
                inner = [writer.condition(level - 3, level - 4), writer.assignment(1)]
                body.append(("repeat", rng.randint(3, 5), inner))
            program = [*first, *body, *(("print", name) for name in names)]
            values: dict[str, int] = {}
            try:
                printed = run(program, values)
            except TooLarge:
                continue
            if len(set(printed)) > 1 and max(map(abs, printed)) < 10_000:
                break
        text = f"{RULES}\n\n" + "\n".join(written(program))
        return Question(f"{text}\n\nWhat does this program print? Answer with the numbers, in order.", tuple(printed))


class CodeInput(CheckedAnswerTask):
    """Find an input for which a small program prints a given number.

    Levels 1 to 5: 3 to 9 statements between input and output; from level 2 on with conditions, from 4 on with a loop.
    """

    HIGHEST_INPUT: ClassVar[int] = 200
    explain = explained(data_workings.code_input, "text", "answer_text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws until few of the inputs tried fit; the question gives the program and its output.

        Operations are statements, in a loop for each round.
        """
        while True:
            program = self.program(rng, level)
            value = rng.randint(20, self.HIGHEST_INPUT)
            try:
                (wanted,) = run(program, {"x": value})
                easy = sum(run(program, {"x": x}) == [wanted] for x in range(0, self.HIGHEST_INPUT + 1, 8))
            except TooLarge:
                continue
            if easy <= 4:
                break
        text = f"{RULES} The input x is a whole number from 0 to {self.HIGHEST_INPUT}.\n\n"
        text += "\n".join(written(program)) + f"\n\nFor which input does this program print {wanted}? Give one such x."
        return Question(text, (tuple(program), wanted), answer_text=str(value), operations=statements(program))

    @staticmethod
    def program(rng: random.Random, level: int) -> list[Statement]:
        """A program of the two inputs x and y that prints one number; loops and branches from level 2 on."""
        writer = Writer(rng, "xy", 60)
        body: list[Statement] = [("set", "y", ("x", "*", rng.randint(2, 9)))]
        body += [("set", rng.choice("xy"), writer.expression()) for _ in range((2, 2, 3, 3, 4)[level - 1])]
        for _ in range((0, 1, 2, 2, 3)[level - 1]):
            body.insert(rng.randint(1, len(body)), writer.condition(1, 0))
        if level > 3:
            inner = ("set", "y", ("y", "+", ("x", "%", rng.randint(5, 9))))
            body.append(("repeat", rng.randint(2, level - 1), [inner]))
        return [*body, ("print", ("y", rng.choice("+-"), "x"))]

    def check(self, question: Question, answer: str) -> str | None:
        """Runs the program on the given input from 0 to 200; any that prints the number is right."""
        program, wanted = question.answer
        (value,) = whole_numbers(answer, 1)
        if not 0 <= value <= self.HIGHEST_INPUT:
            return f"x is from 0 to {self.HIGHEST_INPUT}"
        try:
            printed = run(program, {"x": value})
        except TooLarge:
            return "with this input a value is over a million"
        return None if printed == [wanted] else f"with this input it prints {printed[0]}"
