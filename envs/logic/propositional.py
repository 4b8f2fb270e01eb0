"""Propositional logic.

Observation: formulas, clauses or rules, and what is asked of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache, reduce
from itertools import product
from operator import and_, or_
from typing import Any, ClassVar

from rlvr.envs.logic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, items, listed
from rlvr.envs.tasks.draws import below, picked
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question, explained

# A formula is a variable's number, ("not", f), or (f, operator, g).
Formula = Any
OPERATORS = ("and", "or", "xor", "implies", "iff")


@cache
def columns(count: int) -> tuple[int, ...]:
    """The truth table of each of ``count`` variables: bit r of a mask is its value in row r."""
    return tuple(sum(1 << row for row in range(1 << count) if row >> index & 1) for index in range(count))


def table(formula: Formula, variables: Sequence[int], every: int) -> int:
    """The truth table of a formula as a mask of rows; ``every`` has a 1 for each row."""
    if isinstance(formula, int):
        return variables[formula]
    if formula[0] == "not":
        return every ^ table(formula[1], variables, every)
    left, right = table(formula[0], variables, every), table(formula[2], variables, every)
    return joined(left, formula[1], right, every)


def joined(left: int, operator: str, right: int, every: int) -> int:
    """The truth table of two formulas with an operator between them."""
    if operator == "and":
        return left & right
    if operator == "or":
        return left | right
    if operator == "implies":
        return (every ^ left) | right
    return left ^ right if operator == "xor" else every ^ left ^ right


def formula_of(rng: random.Random, leaves: list[int], depth: int = 0) -> Formula:
    """A random formula whose leaves are these variables in this order."""
    if len(leaves) == 1:
        return ("not", leaves[0]) if rng.random() < 0.35 else leaves[0]
    cut = rng.randrange(1, len(leaves))
    joined = (formula_of(rng, leaves[:cut], depth + 1), rng.choice(OPERATORS), formula_of(rng, leaves[cut:], depth + 1))
    return ("not", joined) if depth and rng.random() < 0.2 else joined


def written(formula: Formula, inner: bool = False) -> str:
    if isinstance(formula, int):
        return "PQRSTU"[formula]
    if formula[0] == "not":
        return f"not {written(formula[1], True)}"
    text = f"{written(formula[0], True)} {formula[1]} {written(formula[2], True)}"
    return f"({text})" if inner else text


@cache
def literals(count: int) -> tuple[tuple[str, int], ...]:
    """Each of so many variables twice as it is and once negated, as it is written, and its truth table."""
    every, masks = (1 << (1 << count)) - 1, []
    for name, mask in zip("PQRSTU", columns(count), strict=False):
        masks += [(name, mask), (name, mask), (f"not {name}", every ^ mask)]
    return tuple(masks)


@cache
def pair_formulas(count: int) -> tuple[tuple[str, int], ...]:
    """Every formula of two of so many variables, each negated or not, as it is written, and its truth table."""
    every = (1 << (1 << count)) - 1
    return tuple(
        (f"{a} {operator} {b}", joined(left, operator, right, every))
        for (a, left), (b, right) in product(literals(count), repeat=2)
        for operator in OPERATORS
        if a[-1] != b[-1]
    )


def clause_table(clause: Iterable[int], count: int) -> int:
    """The truth table of a clause over so many variables; literal -3 is the third variable, negated."""
    every, variables = (1 << (1 << count)) - 1, columns(count)
    parts = (variables[n - 1] if n > 0 else every ^ variables[-n - 1] for n in clause)
    return reduce(or_, parts, 0)


def models(tables: Iterable[int], count: int) -> int:
    """The rows in which all of these truth tables over so many variables are true, as a mask."""
    return reduce(and_, tables, (1 << (1 << count)) - 1)


def _clause(clause: Iterable[int]) -> str:
    return " or ".join(f"x{n}" if n > 0 else f"not x{-n}" for n in clause)


class TruthCount(ExactAnswerTask):
    """Count the models of a formula.

    Levels 1 to 5: three to six variables, and formulas with 6, 8, 10, 12 and 15 of them.
    """

    explain = explained(workings.truth_count, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts by bit masks of the truth table; never all or none, and exactly half less often than by chance."""
        count, size = (3, 4, 4, 5, 6)[level - 1], (6, 8, 10, 12, 15)[level - 1]
        every, variables = (1 << (1 << count)) - 1, columns(count)
        while True:
            leaves = [*range(count), *(rng.randrange(count) for _ in range(size - count))]
            rng.shuffle(leaves)
            formula = formula_of(rng, leaves)
            true = table(formula, variables, every).bit_count()
            if 0 < true < 1 << count and (2 * true != 1 << count or rng.random() < 0.6):  # half are true too often
                break
        text = f"{written(formula)}\nOf the {1 << count} ways to make {listed('PQRSTU'[:count])} true or false, how "
        return Question(f"{text}many make this true? (xor: exactly one of the two; iff: both or neither.)", true)


class Satisfiability(CheckedAnswerTask):
    """Find values that satisfy a formula in conjunctive normal form.

    Levels 1 to 5: 5, 7, 9, 12 and 16 variables with 4.2 clauses of three literals for each.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random 3-clauses that a hidden assignment satisfies, at the ratio where random ones are hardest (4.2)."""
        count = (5, 7, 9, 12, 16)[level - 1]
        truth = [rng.random() < 0.5 for _ in range(count)]
        clauses: dict[tuple[int, ...], None] = {}
        while len(clauses) < count * 21 // 5:
            clause = tuple(sorted(n * rng.choice((-1, 1)) for n in rng.sample(range(1, count + 1), 3)))
            if any(truth[abs(n) - 1] == (n > 0) for n in clause):
                clauses[clause] = None
        lines = "\n".join(map(_clause, clauses))
        gold = "".join("1" if value else "0" for value in truth)
        text = f"Find values of x1 to x{count} that make every line true:\n{lines}\n"
        text += f"Answer with {count} digits, the values of x1, x2, x3, ... in this order: 1 for true, 0 for false."
        return Question(text, (count, tuple(clauses)), answer_text=gold)

    def explain(self, state: Question) -> str:
        """What choices force, those that fail, and what makes each line true."""
        return workings.satisfiability(state.text, state.answer_text)[0]

    def direct_answer(self, state: Question) -> str:
        """The values that ``explain`` finds."""
        return f"\\boxed{{{workings.satisfiability(state.text, state.answer_text)[1]}}}"

    def check(self, question: Question, answer: str) -> str | None:
        """Any satisfying assignment is right; the first false clause is named."""
        count, clauses = question.answer
        digits = "".join({"true": "1", "false": "0"}.get(word, word) for word in items(answer))
        if len(digits) != count or not set(digits) <= {"0", "1"}:
            raise ValueError(f"the answer is not {count} digits 0 or 1")
        for clause in clauses:
            if not any((digits[abs(n) - 1] == "1") == (n > 0) for n in clause):
                return f"the clause of {listed(f'x{abs(n)}' for n in clause)} is false"
        return None


class UnsatisfiableCore(CheckedAnswerTask):
    """Find lines that contradict one another, none of which can be left out: a minimal unsatisfiable core.

    Levels 1 to 5: cores of 3, 4 to 5, 6 to 7, 8 to 10 and 11 to 15 among up to 8, 12, 16, 22 and 30 lines of one to
    three literals over 5, 5, 6, 7 and 9 variables.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random clauses up to the one with which no values are left, and what is left of them by leaving out."""
        count, most = (5, 5, 6, 7, 9)[level - 1], (8, 12, 16, 22, 30)[level - 1]
        least, largest = ((3, 3), (4, 5), (6, 7), (8, 10), (11, 15))[level - 1]
        widths = ((1, 2, 2), (1, 2, 2, 2, 3), (2, 2, 3))[min(level, 3) - 1]
        core: list[int] = []
        while not least <= len(core) <= largest:
            clauses: dict[tuple[int, ...], int] = {}
            while len(clauses) < most and models(clauses.values(), count):
                names = rng.sample(range(1, count + 1), rng.choice(widths))
                clause = tuple(sorted(n * rng.choice((-1, 1)) for n in names))
                clauses[clause] = clause_table(clause, count)
            if models(clauses.values(), count) or 4 * len(clauses) < 3 * most:
                continue
            shuffled = rng.sample(sorted(clauses), len(clauses))
            core = list(range(len(shuffled)))
            for line in rng.sample(core, len(core)):
                rest = [other for other in core if other != line]
                if not models((clauses[shuffled[other]] for other in rest), count):
                    core = rest
        lines = "\n".join(f"{number}. {_clause(clause)}" for number, clause in enumerate(shuffled, 1))
        text = f"No values of x1 to x{count} make all of these lines true:\n{lines}\n"
        text += "Name lines that already cannot be true together, but could without any one of them. "
        text += "Answer with their numbers."
        return Question(text, (count, tuple(shuffled)), answer_text=listed(line + 1 for line in core))

    def explain(self, state: Question) -> str:
        """Why the lines cannot hold together, and values that make all but one of them true, for each of them."""
        return workings.unsatisfiable_core(state.text, state.answer_text)

    def check(self, question: Question, answer: str) -> str | None:
        """Any minimal core is right; else values that make its lines true are shown, or a line that is not needed."""
        count, clauses = question.answer
        words = [word for word in items(answer) if word not in ("line", "lines", "and")]
        named = {int(word) for word in words if word.isdecimal()}
        if len(named) != len(words) or not named <= set(range(1, len(clauses) + 1)):
            raise ValueError(f"the answer is not a list of different numbers from 1 to {len(clauses)}")
        tables = {number: clause_table(clauses[number - 1], count) for number in sorted(named)}
        if row := models(tables.values(), count):
            last = row.bit_length() - 1
            return f"these lines are true with {listed(f'x{n + 1} = {last >> n & 1}' for n in range(count))}"
        for number in tables:
            if not models((mask for other, mask in tables.items() if other != number), count):
                return f"line {number} is not needed"
        return None


class Entailment(ListAnswerTask):
    """Find the statements that follow from premises in propositional logic.

    Levels 1 to 5: 2 to 5 premises over four to six variables, and six statements.
    """

    ordered: ClassVar[bool] = False
    explain = explained(workings.entailment, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Decides by truth tables; one to five of the six statements follow, and none is a premise."""
        count, premises = (4, 4, 5, 5, 6)[level - 1], (2, 3, 3, 4, 5)[level - 1]
        pairs, every = pair_formulas(count), (1 << (1 << count)) - 1
        right = 1 + rng.randrange(5)
        max_holding = max(4, 2 ** (count - 2))
        while True:
            drawn: dict[str, None] = {}
            possible = every
            for code in below(rng, 1 << 24, premises):
                text, mask = self.premise(count, code)
                drawn[text] = None
                possible &= mask
            if not 2 <= possible.bit_count() <= max_holding or len(drawn) < premises:
                continue
            follows: dict[str, None] = {}
            open_: dict[str, None] = {}
            for index in below(rng, len(pairs), 40):
                text, mask = pairs[index]
                if text not in drawn:
                    chosen, wanted = (open_, 6 - right) if possible & ~mask else (follows, right)
                    if len(chosen) < wanted:
                        chosen[text] = None
                        if len(follows) + len(open_) == 6:
                            break
            else:
                continue
            break
        statements = picked(rng, [*follows, *open_], 6)
        gold = [number for number, text in enumerate(statements, 1) if text in follows]
        text = "Premises (xor: exactly one of the two; iff: both or neither):\n" + "\n".join(drawn)
        text += "\nStatements:\n" + "\n".join([f"{n}. {text}" for n, text in enumerate(statements, 1)])
        text += "\nWhich statements must be true if all premises are? Answer with their numbers."
        return Question(text, tuple(gold))

    @staticmethod
    def premise(count: int, code: int) -> tuple[str, int]:
        """A formula of two or three variables and its truth table, both from a number of 24 bits."""
        pairs, code = pair_formulas(count), code >> 1
        if code & 1:
            return pairs[(code >> 1) * len(pairs) >> 22]
        every = (1 << (1 << count)) - 1
        code, index = divmod(code >> 1, len(pairs))
        inner, mask = pairs[index]
        inner = f"({inner})"
        code, negated = divmod(code, 5)
        if not negated:
            inner, mask = f"not {inner}", every ^ mask
        code, operator = divmod(code, 5)
        others = [(text, table) for text, table in literals(count) if text[-1] not in inner]
        text, single = others[code % len(others)]
        if code // len(others) & 1:
            text, single, inner, mask = inner, mask, text, single
        return f"{text} {OPERATORS[operator]} {inner}", joined(single, OPERATORS[operator], mask, every)


class ForwardChaining(ListAnswerTask):
    """Find all that follows from facts and rules.

    Levels 1 to 5: 8, 10, 13, 16 and 20 letters and 1.5 rules for each, with one to three conditions.
    """

    ordered: ClassVar[bool] = False

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws rules until three or more letters follow and some letter does not."""
        size = (8, 10, 13, 16, 20)[level - 1]
        letters = rng.sample("abcdefghijklmnopqrstuvwxyz", size)
        while True:
            facts = rng.sample(letters, 2 + level // 3)
            rules: list[tuple[list[str], str]] = []
            while len(rules) < size * 3 // 2:
                *conditions, conclusion = rng.sample(letters, rng.choice((2, 3, 3, 4)[: 3 + (level > 2)]))
                if not any(conclusion == other and set(conditions) == set(needed) for needed, other in rules):
                    rules.append((conditions, conclusion))
            steps, derived = [], list(facts)
            growing = True
            while growing:
                growing = False
                for conditions, conclusion in rules:
                    if conclusion not in derived and all(letter in derived for letter in conditions):
                        derived.append(conclusion)
                        steps.append(f"{' and '.join(conditions)}: {conclusion}")
                        growing = True
            if len(steps) >= 3 and len(derived) < size:
                break
        rule_lines = [f"if {' and '.join(conditions)} then {conclusion}" for conditions, conclusion in rules]
        text = "Rules:\n" + "\n".join(rule_lines)
        text += f"\nFacts: {listed(facts)}\nWhich other letters follow? Answer with all of them."
        return Question(text, tuple(sorted(derived[len(facts) :])), "\n".join(steps))
