"""Whether two expression trees say the same: exact where normal forms decide, by structure for everything else.

The answer is True, False, or ``Undecided`` when floating point cannot tell two values apart and no rule proves them
equal; only then is computer algebra asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from rlvr.envs.rewards.expressions.algebra import Algebra, Normal
from rlvr.envs.rewards.expressions.expression import Node
from rlvr.envs.rewards.expressions.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.expressions.numeric import NoValue, evaluate, real
from rlvr.envs.rewards.expressions.polynomial import Work, multiply
from rlvr.envs.rewards.expressions.units import measure

MAX_ITEMS: Final = 24
_ORDER: Final = {"<", ">", "<=", ">="}
_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_STRUCTURES: Final = frozenset(["tuple", "set", "matrix", "list", "cup", "cap", "setminus", "rel", "text", "row"])


class Undecided(Exception):
    """Two scalars that floating point cannot tell apart and no rule proves equal."""

    def __init__(self, left: Node, right: Node) -> None:
        super().__init__("undecided")
        self.left = left
        self.right = right


class Interval(NamedTuple):
    """A real interval: its ends as trees, whether they belong to it, and its ends as floats for the order."""

    low: Node
    low_closed: bool
    high: Node
    high_closed: bool
    position: tuple[float, float]


def same(answer: Node, gold: Node, work: Work | None = None) -> bool:
    """Whether an answer equals the reference.

    Raises:
        Undecided: exact rules do not settle it.
        MathLimitError: it would cost more than the budget.
    """
    return _Comparison(work or Work()).answers(answer, gold)


class _Comparison:
    def __init__(self, work: Work) -> None:
        self.algebra = Algebra(work)

    # -- structures

    def answers(self, answer: Node, gold: Node) -> bool:
        answer, gold = _without_estimate(answer), _without_estimate(gold)
        answer, gold = _real_line(answer), _real_line(gold)
        if answer == gold:
            return True
        if gold.op == "text" or answer.op == "text":
            return _letters(answer) == _letters(gold) != ""
        if answer.op == "rel" or gold.op == "rel":
            return self.relations(answer, gold)
        point, gold_point = _point(answer), _point(gold)
        if point is not None and gold_point is not None and "list" in (answer.op, gold.op) and answer.op != gold.op:
            return self.ordered(point, gold_point)
        if (answer.op == "list" and _is_set(gold)) or (gold.op == "list" and _is_set(answer)):
            return self.sets(answer, gold)
        answers, golds = _values(answer), _values(gold)
        if len(golds) > 1 or len(answers) > 1:
            return self.unordered(answers, golds, dedupe=gold.op == "set" or answer.op == "set")
        if not answers or not golds:
            return not answers and not golds
        return self.single(answers[0], golds[0])

    def single(self, answer: Node, gold: Node) -> bool:
        if answer == gold:
            return True
        if answer.op == "rel" or gold.op == "rel":
            return self.relations(answer, gold)
        if "quantity" in (answer.op, gold.op) or "degree" in (answer.op, gold.op) or "percent" in (answer.op, gold.op):
            return self.quantities(answer, gold)
        if "based" in (answer.op, gold.op):
            return _digits(answer) == _digits(gold) and (answer.op != gold.op or answer.name == gold.name)
        if "matrix" in (answer.op, gold.op):
            return self.matrices(answer, gold)
        if _is_set(answer) or _is_set(gold):
            return self.sets(answer, gold)
        if answer.op in _STRUCTURES or gold.op in _STRUCTURES:
            return False
        return self.scalars(answer, gold)

    def unordered(self, answers: Sequence[Node], golds: Sequence[Node], *, dedupe: bool) -> bool:
        if max(len(answers), len(golds)) > MAX_ITEMS:
            raise MathLimitError(f"a list may have {MAX_ITEMS} items")
        if dedupe:
            answers, golds = self._distinct(answers), self._distinct(golds)
        if len(answers) != len(golds):
            return False
        left = list(golds)
        for answer in answers:
            index = next((k for k, gold in enumerate(left) if self.answers(_unassigned(answer), _unassigned(gold))), -1)
            if index < 0:
                return False
            del left[index]
        return True

    def _distinct(self, items: Sequence[Node]) -> list[Node]:
        kept: list[Node] = []
        for item in items:
            if not any(self.answers(item, other) for other in kept):
                kept.append(item)
        return kept

    def ordered(self, answers: Sequence[Node], golds: Sequence[Node]) -> bool:
        return len(answers) == len(golds) and all(
            self.answers(answer, gold) for answer, gold in zip(answers, golds, strict=True)
        )

    def matrices(self, answer: Node, gold: Node) -> bool:
        rows, gold_rows = _rows(answer), _rows(gold)
        if rows is None or gold_rows is None or [len(row) for row in rows] != [len(row) for row in gold_rows]:
            vector, gold_vector = _vector(answer), _vector(gold)
            if vector is None or gold_vector is None or answer.op == gold.op:
                return False
            return self.ordered(vector, gold_vector)
        return all(self.ordered(row, gold_row) for row, gold_row in zip(rows, gold_rows, strict=True))

    # -- quantities: units, degrees, percent

    def quantities(self, answer: Node, gold: Node) -> bool:
        answer = _one_letter_unit(answer, gold)
        if answer.op == "percent" or gold.op == "percent":
            return self._percents(answer, gold)
        value, unit = _unit_of(answer)
        gold_value, gold_unit = _unit_of(gold)
        if unit and gold_unit:
            measured, gold_measured = measure(unit), measure(gold_unit)
            if measured is not None and gold_measured is not None:
                if measured[0] != gold_measured[0]:
                    return False
                scale = Node("num", value=measured[1] / gold_measured[1])
                return self.single(Node("mul", (scale, value)) if scale.value != 1 else value, gold_value)
            if (measured is None) != (gold_measured is None):
                return False
        elif "degree" in (answer.op, gold.op) and _mentions_pi(gold_value if answer.op == "degree" else value):
            return self.scalars(answer, gold)
        return self.single(value, gold_value)

    def _percents(self, answer: Node, gold: Node) -> bool:
        """``50%`` stands for 50 and for 0.5; against another percentage it is compared as written."""
        if answer.op == gold.op:
            return self.single(answer.args[0], gold.args[0])
        answer, gold = _unit_of(answer)[0], _unit_of(gold)[0]
        for left, right in ((answer, gold), (_inner(answer), gold), (answer, _inner(gold))):
            if "percent" not in (left.op, right.op) and self.single(left, right):
                return True
        return self.scalars(answer, gold)

    # -- relations

    def relations(self, answer: Node, gold: Node) -> bool:
        if answer.op == gold.op == "rel":
            return self._two_relations(answer, gold)
        if any(node.op == "rel" and set(node.name.split()) <= _ORDER | {"!="} for node in (answer, gold)):
            return self.sets(answer, gold)
        if gold.op == "rel":
            value = _assigned(gold)
            if value is None or answer.op == "list":
                return self._membership(gold, answer)
            return self.answers(answer, value)
        return self._chain(answer, gold)

    def _membership(self, gold: Node, answer: Node) -> bool:
        if gold.name == "in" and gold.args[0].op == "sym":
            return self.answers(answer, gold.args[1])
        return self.sets(answer, gold) if set(gold.name.split()) <= _ORDER else False

    def _chain(self, answer: Node, gold: Node) -> bool:
        """``x = 5``, ``x = 2 + 3 = 5``: at most one name in front, and everything else equal to the reference."""
        names = set(answer.name.split())
        if names == {"in"} and len(answer.args) == 2 and answer.args[0].op == "sym":
            return self.answers(answer.args[1], gold)
        if names != {"="} or len(answer.args) > 4:
            return False
        first, *rest = answer.args
        if first.op == "neg" or not _is_name(first) or _contains(rest[-1], first):
            rest = [first, *rest]
        return all(self.answers(value, gold) for value in rest)

    def _two_relations(self, answer: Node, gold: Node) -> bool:
        if len(answer.args) != 2 or len(gold.args) != 2:
            if answer.name == gold.name and self.ordered(answer.args, gold.args):
                return True
            if set(answer.name.split()) | set(gold.name.split()) <= _ORDER:
                return self.sets(answer, gold)
            return False
        if answer.name in ("in", "~", "==", "->", "sim", "|") or gold.name in ("in", "~", "==", "->", "sim", "|"):
            return answer.name == gold.name and self.ordered(answer.args, gold.args)
        if answer.name == gold.name and self.ordered(answer.args, gold.args):
            return True
        difference, gold_difference = self._difference(answer), self._difference(gold)
        ratio = self._ratio(difference, gold_difference)
        if ratio is None:
            return False
        name = answer.name if ratio > 0 else _FLIPPED[answer.name]
        return name == gold.name

    def _difference(self, relation: Node) -> Normal | None:
        try:
            left, right = (self.algebra.normal(arg) for arg in relation.args)
        except MathLimitError:
            raise
        except MathSyntaxError:
            return None
        return self.algebra.plus(left, right, -1)

    def _ratio(self, left: Normal | None, right: Normal | None) -> Fraction | None:
        """The rational by which one difference is a multiple of the other, or None."""
        if left is None or right is None or not left.top or not right.top:
            return None
        work = self.algebra.work
        top, gold_top = multiply(left.top, right.bottom, work), multiply(right.top, left.bottom, work)
        if set(top) != set(gold_top):
            return None
        ratios = {value / gold_top[monomial] for monomial, value in top.items()}
        return ratios.pop() if len(ratios) == 1 else None

    # -- real sets

    def sets(self, answer: Node, gold: Node) -> bool:
        if answer.op == gold.op == "tuple" and answer.name == gold.name:
            return self.ordered(answer.args, gold.args)
        intervals, gold_intervals = _intervals(answer), _intervals(gold)
        if intervals is None or gold_intervals is None:
            if answer.op == gold.op and answer.op in ("cup", "cap", "setminus"):
                return self.unordered(answer.args, gold.args, dedupe=False)
            return False
        intervals.sort(key=lambda interval: interval.position)
        gold_intervals.sort(key=lambda interval: interval.position)
        if len(intervals) != len(gold_intervals):
            return False
        return all(self._same_interval(a, b) for a, b in zip(intervals, gold_intervals, strict=True))

    def _same_interval(self, left: Interval, right: Interval) -> bool:
        if (left.low_closed, left.high_closed) != (right.low_closed, right.high_closed):
            return False
        return self.answers(left.low, right.low) and self.answers(left.high, right.high)

    # -- scalars

    def scalars(self, answer: Node, gold: Node) -> bool:
        infinite, gold_infinite = _infinite(answer), _infinite(gold)
        if infinite or gold_infinite:
            return infinite == gold_infinite
        try:
            form, gold_form = self.algebra.normal(answer), self.algebra.normal(gold)
            equal, decisive = self.algebra.difference_is_zero(form, gold_form)
        except MathLimitError:
            raise
        except MathSyntaxError:
            return False
        if equal or decisive:
            return equal
        for salt in (1, -2 if _has_sign_of_its_own(answer) or _has_sign_of_its_own(gold) else 2):
            if self._differ(answer, gold, salt):
                return False
        for exponent in (2, 3) if abs(evaluate(gold, 1)) > 1e-6 else ():
            equal, decisive = self.algebra.compare_powers(form, gold_form, exponent)
            if equal or decisive:
                return equal
        raise Undecided(answer, gold)

    def _differ(self, answer: Node, gold: Node, salt: int) -> bool:
        """Whether floating point tells two scalars apart; so does a value that the answer alone lacks."""
        try:
            expected = evaluate(gold, salt)
        except NoValue:
            raise Undecided(answer, gold) from None
        try:
            value = evaluate(answer, salt)
        except NoValue:
            return True
        return abs(value - expected) > 1e-12 * max(abs(value), abs(expected), 1e-3)


def _has_sign_of_its_own(node: Node) -> bool:
    """Whether a tree depends on the sign of a symbol: ``|x|``, or the root of an even power."""
    if node.op == "call" and node.name == "abs":
        return True
    if node.op == "root" and node.args[0].op == "pow" and node.args[0].args[1].value % 2 == 0:
        return True
    return any(_has_sign_of_its_own(arg) for arg in node.args)


def _without_estimate(node: Node) -> Node:
    """``12\\pi \\approx 37.7`` is the value before the sign, when the estimate is one."""
    if node.op != "rel" or not node.name.endswith("~"):
        return node
    names, value, estimate = node.name.split(), node.args[-2], node.args[-1]
    try:
        close = abs(evaluate(value) - evaluate(estimate)) <= 0.005 * abs(evaluate(value))
    except NoValue:
        return node
    if not close or len(set(names)) > 2 or "~" in names[:-1] or _is_name(value):
        return node
    if len(names) == 1:
        return value
    return Node("rel", node.args[:-1], name=" ".join(names[:-1]))


def _values(node: Node) -> list[Node]:
    """The values that an answer lists: items of a list or a set, both signs of a plus-minus."""
    items = node.args if node.op in ("list", "set") else (node,)
    values: list[Node] = []
    for item in items:
        if _has_sign(item):
            values.extend([_signed(item, 1), _signed(item, -1)])
        else:
            values.append(item)
    return values


def _has_sign(node: Node) -> bool:
    return node.op in ("pm", "mp") or (
        node.op not in _STRUCTURES - {"rel"} and any(_has_sign(arg) for arg in node.args)
    )


def _signed(node: Node, sign: int) -> Node:
    if node.op in ("pm", "mp"):
        inner = _signed(node.args[0], sign)
        return inner if (node.op == "pm") == (sign > 0) else Node("neg", (inner,))
    return Node(node.op, tuple(_signed(arg, sign) for arg in node.args), node.name, node.value)


def _letters(node: Node) -> str:
    """Words in one spelling: letters and digits, case and blanks aside; "" when the tree holds more than words."""
    if node.op == "text":
        words = re.findall(r"[^\W_]+", node.name.casefold())
        return "".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words)
    if node.op == "sym":
        return node.name.casefold()
    if node.op == "mul" and node.name == "implicit":
        parts = [_letters(arg) for arg in node.args]
        return "".join(parts) if all(parts) else ""
    return ""


def _digits(node: Node) -> str:
    return node.name.partition("_")[0] if node.op in ("based", "num") else ""


def _is_name(node: Node) -> bool:
    """What may stand in front of ``= 5``: a symbol, or symbols together: ``f(2)``, ``m + n``, ``\\sin A``.

    ``2x`` is no name: ``2x = 5`` says something else about x.
    """
    if node.op == "sym":
        return True
    if node.op == "mul" and node.name == "implicit":
        last = node.args[1]
        return _is_name(node.args[0]) and (last.op in ("sym", "tuple") or (last.op == "num" and not last.name))
    if node.op == "pow":
        return node.args[0].op == "sym" and node.args[1] == Node("neg", (Node("num", value=Fraction(1), name="1"),))
    if node.op == "tuple":
        return node.name == "()" and all(arg.op == "sym" for arg in node.args)
    return node.op in ("add", "neg", "div", "call") and all(_is_name(arg) for arg in node.args)


def _contains(node: Node, other: Node) -> bool:
    return node == other or any(_contains(arg, other) for arg in node.args)


def _assigned(relation: Node) -> Node | None:
    """The value of ``x = 5``; None for any other relation."""
    if relation.name == "=" and len(relation.args) == 2:
        left, right = relation.args
        if _is_name(left) and not _contains(right, left):
            return right
    return None


def _unassigned(node: Node) -> Node:
    value = _assigned(node) if node.op == "rel" else None
    return node if value is None else value


def _unit_of(node: Node) -> tuple[Node, str]:
    if node.op == "quantity":
        return node.args[0], node.name
    return (node.args[0], "degree") if node.op == "degree" else (node, "")


def _inner(node: Node) -> Node:
    return node.args[0] if node.op == "percent" else node


def _one_letter_unit(answer: Node, gold: Node) -> Node:
    """``5 m`` read as a quantity when the reference has that unit."""
    if gold.op == "quantity" and answer.op == "mul" and answer.args[1] == Node("sym", name=gold.name):
        return Node("quantity", (answer.args[0],), name=gold.name)
    return answer


def _mentions_pi(node: Node) -> bool:
    return (node.op == "const" and node.name == "pi") or any(_mentions_pi(arg) for arg in node.args)


def _rows(node: Node) -> list[tuple[Node, ...]] | None:
    return [row.args for row in node.args] if node.op == "matrix" else None


def _vector(node: Node) -> tuple[Node, ...] | None:
    """The entries of a tuple, or of a matrix with one row or one column."""
    if node.op == "tuple":
        return node.args if node.name == "()" else None
    if node.op != "matrix":
        return None
    if len(node.args) == 1:
        return node.args[0].args
    return tuple(row.args[0] for row in node.args) if all(len(row.args) == 1 for row in node.args) else None


def _point(node: Node) -> tuple[Node, ...] | None:
    """The coordinates of ``(1, 2)``, or of ``x = 1, y = 2`` with its names in order; None for anything else."""
    if node.op == "tuple" and node.name == "()":
        return node.args
    if node.op != "list" or any(_assigned(item) is None or item.args[0].op != "sym" for item in node.args):
        return None
    names = [item.args[0].name for item in node.args]
    return tuple(item.args[1] for item in node.args) if names == sorted(set(names)) else None


def _infinite(node: Node) -> int:
    """1 for infinity, -1 for minus infinity, 0 for everything else."""
    if node.op == "neg":
        return -_infinite(node.args[0])
    return int(node.op == "const" and node.name == "inf")


def _real_line(node: Node) -> Node:
    """All real numbers as an interval, whether as a letter or in words."""
    if (node.op == "sym" and node.name in ("\\mathbb{R}", "\\mathbbR")) or (
        node.op == "text" and _letters(node) in ("allrealnumbers", "allreals", "realnumbers")
    ):
        return Node("tuple", (Node("neg", (INFINITY,)), INFINITY), name="()")
    return node


def _is_set(node: Node) -> bool:
    return node.op in ("cup", "cap", "setminus", "tuple") and (
        node.op != "tuple" or len(node.args) == 2 or node.name != "()"
    )


def _intervals(node: Node) -> list[Interval] | None:
    """A real set as intervals: brackets, unions of them, single points, inequalities in one symbol."""
    if node.op in ("cup", "list"):
        parts = [_intervals(arg) for arg in node.args]
        if any(part is None for part in parts):
            return None
        return [interval for part in parts if part is not None for interval in part]
    if node.op == "set":
        points = [_interval(arg, True, arg, True) for arg in node.args]
        return None if None in points else [point for point in points if point is not None]
    if node.op == "tuple" and len(node.args) == 2 and node.name != "::":
        interval = _interval(node.args[0], node.name[0] == "[", node.args[1], node.name[1] == "]")
        return None if interval is None else [interval]
    if node.op == "rel" and node.name == "!=" and node.args[0].op == "sym":
        halves = [
            _interval(Node("neg", (INFINITY,)), False, node.args[1], False),
            _interval(node.args[1], False, INFINITY, False),
        ]
        return [half for half in halves if half is not None] if None not in halves else None
    if node.op == "rel":
        interval = _inequality(node)
        return None if interval is None else [interval]
    return None


def _interval(low: Node, low_closed: bool, high: Node, high_closed: bool) -> Interval | None:
    try:
        position = (real(low), real(high))
    except NoValue:
        return None
    return Interval(low, low_closed, high, high_closed, position)


def _inequality(node: Node) -> Interval | None:
    names = node.name.split()
    if names == ["in"] and node.args[0].op == "sym":
        inner = _intervals(node.args[1])
        return inner[0] if inner is not None and len(inner) == 1 else None
    if not set(names) <= _ORDER or len(names) > 2:
        return None
    args = list(node.args)
    if names[0].startswith(">"):
        args.reverse()
        names = [_FLIPPED[name] for name in reversed(names)]
    if len(names) == 2:
        if args[1].op != "sym" or any(not name.startswith("<") for name in names):
            return None
        return _interval(args[0], names[0] == "<=", args[2], names[1] == "<=")
    if args[0].op == "sym":
        return _interval(Node("neg", (INFINITY,)), False, args[1], names[0] == "<=")
    return _interval(args[0], names[0] == "<=", INFINITY, False) if args[1].op == "sym" else None


INFINITY: Final = Node("const", name="inf")
