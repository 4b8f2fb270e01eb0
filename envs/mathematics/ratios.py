"""Exact fractions, percentages and ratios.

Observation: fractions, percentages or ratios, and the number that is asked for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from math import lcm
from operator import add, mul, sub, truediv
from typing import Final

from rlvr.envs.mathematics.common import bracketed, lines
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, question_of

OPERATIONS: Final[dict[str, Callable[[Fraction, Fraction], Fraction]]] = {"+": add, "-": sub, "*": mul, "/": truediv}
_FRACTION = re.compile("[0-9]+/[0-9]+")
_OPERATOR = re.compile(r"[])] (.) \(")


class FractionArithmetic(ExactAnswerTask):
    """Calculate with fractions.

    Levels 1 to 5: two to six fractions, worked from left to right, brackets shown.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """No part is whole, and a result of 0 is avoided by the other of + and -; the content is the expression."""
        largest = 15 * level + 15
        total = self.part(rng, largest)
        shown = f"{'[' * (level - 1)}({total})"
        for number in range(level):
            operator, part = rng.choice("+-*/"), self.part(rng, largest)
            if (total == part and operator == "-") or (total == -part and operator == "+"):
                operator = "-" if operator == "+" else "+"
            total = OPERATIONS[operator](total, part)
            shown += f"{']' if number else ''} {operator} ({part})"
        text = f"What is {shown}? Answer with a whole number or one fraction."
        return question_of((text, str(total), "", "", shown, 0))

    @staticmethod
    def part(rng: random.Random, largest: int) -> Fraction:
        """A fraction that is not whole: its denominator at most ``largest``, its numerator below twice that."""
        while (part := Fraction(rng.randrange(1, 2 * largest), rng.randint(2, largest))).denominator == 1:
            pass
        return part

    def explain(self, state: Question) -> str:
        """Works from left to right, each result in lowest terms."""
        parts, steps = [Fraction(part) for part in _FRACTION.findall(state.content)], []
        total = parts[0]
        for operator, part in zip(_OPERATOR.findall(state.content), parts[1:], strict=True):
            value = OPERATIONS[operator](total, part)
            steps.append(f"({total}) {operator} ({part}) = {self._rewritten(total, operator, part)} = {value}")
            total = value
        return lines(steps)

    @staticmethod
    def _rewritten(left: Fraction, operator: str, right: Fraction) -> str:
        a, b, c, d = left.numerator, left.denominator, right.numerator, right.denominator
        if operator in "+-":
            common = lcm(b, d)
            return f"({a * common // b} {operator} {c * common // d})/{common}"
        return f"({a} * {c})/({b} * {d})" if operator == "*" else f"({a} * {d})/({b} * {c})"


class RepeatingDecimals(ExactAnswerTask):
    """Write repeating decimals as a fraction.

    Levels 1 to 3: one decimal with longer digits; 4 and 5: a sum of two and of three.
    """

    SHAPES = (((2, 3),), ((3, 3),), ((4, 4),), ((2, 2), (2, 3)), ((2, 3), (3, 2), (1, 3)))

    def ask(self, rng: random.Random, level: int) -> Question:
        """The repeating block is never one repeated digit nor all nines; the content is the sum of decimals."""
        total, texts, steps = Fraction(0), list[str](), list[str]()
        for still, repeating in self.SHAPES[level - 1]:
            whole, fixed = rng.randint(0, 9), rng.randrange(10**still)
            block = rng.randrange(1, 10**repeating - 1)
            block += len(set(f"{block:0{repeating}}")) == 1  # 0.(77) would be 0.(7)
            head = whole * 10**still + fixed
            text = f"{whole}.{fixed:0{still}}({block:0{repeating}})"
            above, below = head * (10**repeating - 1) + block, 10**still * (10**repeating - 1)
            value = Fraction(above, below)
            steps.append(f"x = {text}: 10^{still + repeating} x - 10^{still} x = {above}, so x = {above}/{below}")
            total, texts = total + value, [*texts, text]
        parts = " + ".join(step.rpartition(" ")[2] for step in steps)
        steps += [f"{parts} = {total}"] if parts != str(total) else []
        text = " + ".join(texts)
        rule = "The digits in brackets repeat for ever."
        question = f"{rule} Write {text} as one fraction of whole numbers."
        return Question(question, total, lines(steps), content=text)


class ContinuedFractions(ExactAnswerTask):
    """Work out a continued fraction.

    Levels 1 to 5: four to ten terms, growing; from level 4 on they may be negative.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Works from the last term; terms after the first are at least 2 in size, so that none divides by 0."""
        count, largest = (4, 5, 6, 8, 10)[level - 1], 25 + 5 * level
        terms = [rng.randint(0, largest)] + [rng.randint(2, largest) for _ in range(count - 1)]
        if level >= 4:  # every term but the first is at least 2 in size, so no denominator is 0
            terms = [rng.choice((1, -1)) * term for term in terms]
        value, steps = Fraction(terms[-1]), []
        for term in reversed(terms[:-1]):
            steps.append(f"{term} + 1/{bracketed(value)} = {term + 1 / value}")
            value = term + 1 / value
        shown = f"[{terms[0]}; {', '.join(map(str, terms[1:]))}]"
        rule = "The continued fraction [a; b, c, ...] is a + 1/(b + 1/(c + ...))."
        return Question(f"{rule} What is {shown}? Answer with one fraction.", value, lines(steps), content=shown)


class PercentageChanges(ExactAnswerTask):
    """Follow a value through changes in percent.

    Levels 1 to 5: one to four changes; levels 3 and 5 ask for the value at the start.
    """

    SUBJECTS = ("The price of a machine", "The weight of a load", "The rent of a hall", "The yield of a field")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Exact fractions; the content is the changes and the known value, not what they are told of."""
        changes = [rng.choice((1, -1)) * rng.randint(2, 90) for _ in range((1, 2, 2, 3, 4)[level - 1])]
        start, backwards = 25 * rng.randint(4, 4_000), level in (3, 5)
        value, steps = Fraction(start), []
        for change in changes:
            new = value * (100 + change) / 100
            steps.append(f"{value} * {100 + change}/100 = {new}")
            if backwards:
                steps[-1] = f"{new} / ({100 + change}/100) = {value}"
            value = new
        facts = ", then ".join(f"{'rises' if c > 0 else 'falls'} by {abs(c)} percent" for c in changes)
        subject = rng.choice(self.SUBJECTS)
        rule = "Answer exactly, with a decimal or a fraction."
        if backwards:
            text = f"{subject} {facts}. Now it is {value}. What was it at the start? {rule}"
            return Question(text, start, lines(reversed(steps)), content=f"{changes} <- {value}")
        text = f"{subject} is {start}. It {facts}. What is it now? {rule}"
        return Question(text, value, lines(steps), content=f"{changes} {start}")


class Proportions(ExactAnswerTask):
    """Share by ratios.

    Level n: n + 1 people; up to level 2 their total is given, then a difference; from level 4 ratios are chained.
    """

    NAMES = ("Ada", "Bo", "Cem", "Dai", "Eli", "Fay")

    def ask(self, rng: random.Random, level: int) -> Question:
        """The names are fixed; from level 4 only neighbours' ratios are told, so shares need a common multiple."""
        names = self.NAMES[: level + 1]
        ratios = [rng.sample(range(2, 16 if level < 3 else 9), 2) for _ in range(level)]
        parts, below = [Fraction(1)], 1
        for mine, yours in ratios:
            parts.append(parts[-1] * yours / mine)
            below = lcm(below, parts[-1].denominator)
        shares = [int(part * below) for part in parts]
        unit = rng.randint(2, 2_000)
        asked = rng.randrange(len(names))
        steps = [f"The shares are as {':'.join(map(str, shares))}."]
        if level >= 4:
            facts = ", ".join(f"{a} : {b} = {m} : {y}" for a, b, (m, y) in zip(names, names[1:], ratios, strict=False))
        else:
            facts = f"{' : '.join(names)} = {' : '.join(map(str, shares))}"
        if level <= 2:
            fact = f"Together they get {sum(shares) * unit} coins."
            steps.append(f"{sum(shares)} parts are {sum(shares) * unit} coins, so one part is {unit}.")
        else:
            first, second = (0, 1) if shares[0] > shares[1] else (1, 0)
            gap = shares[first] - shares[second]
            fact = f"{names[first]} gets {gap * unit} coins more than {names[second]}."
            steps.append(f"{gap} parts are {gap * unit} coins, so one part is {unit}.")
        steps.append(f"{names[asked]} gets {shares[asked]} parts: {shares[asked] * unit} coins.")
        text = f"Coins are shared so that {facts}. {fact} How many coins does {names[asked]} get?"
        return Question(text, shares[asked] * unit, lines(steps))
