"""Whether two expression trees say the same: structures part by part, scalars as ``scalars`` decides."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from rlvr.envs.rewards.expressions.algebra import Algebra, Normal
from rlvr.envs.rewards.expressions.numeric import NoValue, at_point, enclose, is_real, sign
from rlvr.envs.rewards.expressions.polynomial import multiply
from rlvr.envs.rewards.expressions.scalars import INFINITY, Decide, ScalarComparison, Undecided
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node
from rlvr.envs.rewards.grammar.units import exclude, measure

MAX_ITEMS: Final = 24
_NEAR: Final = 1e-9  # ends that lie as near are not put in order
_ORDER: Final = {"<", ">", "<=", ">="}
_NO_SOLUTION: Final = frozenset(
    [
        start + end
        for start in ("no", "thereisno", "thereareno", "therearenoreal", "noreal")
        for end in ("solution", "solutions")
    ]
)
_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_STRUCTURES: Final = frozenset(["tuple", "set", "matrix", "list", "cup", "cap", "setminus", "rel", "text", "row"])


class Interval(NamedTuple):
    """A real interval: its ends as trees, and whether they belong to it."""

    low: Node
    low_closed: bool
    high: Node
    high_closed: bool


def same(answer: Node, gold: Node, *, is_costly: bool = False, decide: Decide | None = None) -> bool:
    """Whether an answer equals the reference.

    Args:
        answer, gold: their trees.
        is_costly: whether the reference itself is over the caps on normal forms, so that these prove nothing.
        decide: whether two scalars that are left open are equal; raises Undecided.

    Raises:
        Undecided: it is proven neither equal nor different, whatever the parts that are settled say.
        MathLimitError: it would cost more than the budget.
    """
    return _Comparison(is_costly, decide).answers(answer, gold)


class _Comparison:
    def __init__(self, is_costly: bool, decide: Decide | None) -> None:
        self.algebra = Algebra()
        self.scalars = ScalarComparison(self.algebra, is_costly, decide)

    # -- structures

    def answers(self, answer: Node, gold: Node) -> bool:
        answer, gold = _without_estimate(answer), _without_estimate(gold)
        answer, gold = _real_line(answer), _real_line(gold)
        if answer == gold:
            return True
        if gold.op == "text" or answer.op == "text":
            nothing = Node("set")
            return _letters(answer) == _letters(gold) != "" or (
                nothing in (answer, gold) and "nosolution" in (_letters(answer), _letters(gold))
            )
        if answer.op == "rel" or gold.op == "rel":
            return self.relations(answer, gold)
        if ("list", "and") in ((answer.op, answer.name), (gold.op, gold.name)):
            return self.sets(answer, gold)
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
        answer, gold = _sign_within(answer), _sign_within(gold)
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
        return self.scalars.equal(answer, gold)

    def unordered(self, answers: Sequence[Node], golds: Sequence[Node], *, dedupe: bool = False) -> bool:
        if max(len(answers), len(golds)) > MAX_ITEMS:
            raise MathLimitError(f"a list may have {MAX_ITEMS} items")
        if dedupe:
            answers, golds = self._distinct(answers), self._distinct(golds)
        if len(answers) != len(golds):
            return False
        left = list(golds)
        open_pair: Undecided | None = None
        for answer in answers:
            index = -1
            matches: Undecided | None = None
            for k, gold in enumerate(left):
                try:
                    if self.answers(_unassigned(answer), _unassigned(gold)):
                        index = k
                        break
                except Undecided as error:
                    matches = error
            if index >= 0:
                del left[index]
            elif matches is None:
                return False
            else:
                open_pair = matches
        if open_pair is not None:
            raise open_pair
        return True

    def _distinct(self, items: Sequence[Node]) -> list[Node]:
        kept: list[Node] = []
        for item in items:
            if not any(self.answers(item, other) for other in kept):
                kept.append(item)
        return kept

    def ordered(self, answers: Sequence[Node], golds: Sequence[Node]) -> bool:
        return len(answers) == len(golds) and self._all(zip(answers, golds, strict=True))

    def _all(self, pairs: Iterable[tuple[Node, Node]]) -> bool:
        """Whether both of each pair are equal; one pair that differs settles it, whatever is open of others."""
        undecided: Undecided | None = None
        for answer, gold in pairs:
            try:
                if not self.answers(answer, gold):
                    return False
            except Undecided as error:
                undecided = error
        if undecided is not None:
            raise undecided
        return True

    def matrices(self, answer: Node, gold: Node) -> bool:
        rows, gold_rows = _rows(answer), _rows(gold)
        if rows is None or gold_rows is None or [len(row) for row in rows] != [len(row) for row in gold_rows]:
            vector, gold_vector = _vector(answer), _vector(gold)
            if vector is None or gold_vector is None or answer.op == gold.op:
                return False
            return self.ordered(vector, gold_vector)
        return self.ordered([cell for row in rows for cell in row], [cell for row in gold_rows for cell in row])

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
            if (measured is None) != (gold_measured is None) or exclude(unit, gold_unit):
                return False
        elif "degree" in (answer.op, gold.op) and _mentions_pi(gold_value if answer.op == "degree" else value):
            return self.scalars.equal(answer, gold)
        return self.single(value, gold_value)

    def _percents(self, answer: Node, gold: Node) -> bool:
        """``50%`` stands for 50 and for 0.5; against another percentage it is compared as written."""
        if answer.op == gold.op:
            return self.single(answer.args[0], gold.args[0])
        answer, gold = _unit_of(answer)[0], _unit_of(gold)[0]
        for left, right in ((answer, gold), (_inner(answer), gold), (answer, _inner(gold))):
            if "percent" not in (left.op, right.op) and self.single(left, right):
                return True
        return self.scalars.equal(answer, gold)

    # -- relations

    def relations(self, answer: Node, gold: Node) -> bool:
        if answer.op == gold.op == "rel":
            if (answer.name == "in") != (gold.name == "in"):
                return self.sets(answer, gold)
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
        return self._all((value, gold) for value in rest)

    def _two_relations(self, answer: Node, gold: Node) -> bool:
        if len(answer.args) != 2 or len(gold.args) != 2:
            if answer.name == gold.name and self.ordered(answer.args, gold.args):
                return True
            if set(answer.name.split()) | set(gold.name.split()) <= _ORDER:
                return self.sets(answer, gold)
            return False
        if answer.name == gold.name == "=" and {answer.args[0].op, gold.args[0].op} == {"call", "sym"}:
            value, gold_value = _assigned(answer), _assigned(gold)
            if value is not None and gold_value is not None:  # "f(x) =" for "y ="
                return self.answers(value, gold_value)
        if answer.name in ("in", "~", "==", "->", "sim", "|") or gold.name in ("in", "~", "==", "->", "sim", "|"):
            return answer.name == gold.name and self.ordered(answer.args, gold.args)
        ratio = self._ratio(self._difference(answer), self._difference(gold))
        if ratio is not None:
            return (answer.name if ratio > 0 else _FLIPPED[answer.name]) == gold.name
        if answer.name == gold.name and self.ordered(answer.args, gold.args):
            return True
        if self._proportional(answer, gold):
            return True
        if is_unsolved(answer) and is_unsolved(gold) and _symbols(answer) == _symbols(gold):
            raise Undecided("an inequality is not solved")
        return False

    def _proportional(self, answer: Node, gold: Node) -> bool:
        """Whether the differences of both sides are multiples of one another: F(x) G(p) = G(x) F(p) at a point p."""
        if _STRUCTURES & {arg.op for arg in (*answer.args, *gold.args)}:
            return False
        sides = [Node("add", (node.args[0], Node("neg", (node.args[1],)))) for node in (answer, gold)]
        values = [at_point(side, 1) for side in sides]
        try:
            factor = sign(values[0]) * sign(values[1])
        except NoValue:
            return False
        if not factor or (answer.name if factor > 0 else _FLIPPED[answer.name]) != gold.name:
            return False
        return self.scalars.equal(Node("mul", (sides[0], values[1])), Node("mul", (sides[1], values[0])))

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
        if answer.op == gold.op == "tuple":
            return answer.name == gold.name and self.ordered(answer.args, gold.args)
        intervals, gold_intervals = _intervals(answer), _intervals(gold)
        if intervals is None or gold_intervals is None:
            if answer.op == gold.op and answer.op in ("cup", "cap", "setminus"):
                return self.unordered(answer.args, gold.args)
            if (intervals is None) != (gold_intervals is None) and is_unsolved(answer if intervals is None else gold):
                raise Undecided("an inequality is not solved")
            return False
        return self.unordered([_brackets(each) for each in intervals], [_brackets(each) for each in gold_intervals])


def _without_estimate(node: Node) -> Node:
    """``12\\pi \\approx 37.7`` is the value before the sign, when the estimate is one."""
    if node.op != "rel" or not node.name.endswith("~"):
        return node
    names, value, estimate = node.name.split(), node.args[-2], node.args[-1]
    if estimate.op == "quantity" and value.op not in ("quantity", "degree", "percent"):  # 36\pi \approx 113 cm^2
        value = Node("quantity", (value,), name=estimate.name)
        node = Node("rel", (*node.args[:-2], value, estimate), node.name)
    try:
        exact = enclose(_unit_of(value)[0])
        close = _unit_of(value)[1] == _unit_of(estimate)[1] and (
            abs(exact - enclose(_unit_of(estimate)[0])) * 200 <= abs(exact)
        )
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
        text = "".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words)
        return "nosolution" if text in _NO_SOLUTION else text
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
    if node.op == "call" and node.name.startswith("\\"):  # f(2)
        return all(arg.op in ("sym", "num") for arg in node.args)
    return node.op in ("add", "neg", "div", "call", "cup", "cap", "setminus") and all(
        _is_name(arg) for arg in node.args
    )


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


def _sign_within(node: Node) -> Node:
    """``-(5 m)`` as ``(-5) m``."""
    if node.op != "neg" or node.args[0].op not in ("quantity", "degree", "percent"):
        return node
    inner = node.args[0]
    return Node(inner.op, (Node("neg", inner.args), *inner.args[1:]), inner.name, inner.value)


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
        return node.args if node.name in ("()", "[]") else None
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
    if node.op == "list" and all(item.op == "rel" and item.name == "!=" for item in node.args):
        points = [_interval(item.args[1], True, item.args[1], True) for item in node.args]
        is_one_symbol = len({item.args[0] for item in node.args}) == 1 and node.args[0].args[0].op == "sym"
        return _complement([point for point in points if point]) if is_one_symbol and None not in points else None
    if node.op == "list" and node.name == "and":
        return _between(node.args)
    if node.op in ("cup", "list"):
        parts = [_intervals(arg) for arg in node.args]
        if any(part is None for part in parts):
            return None
        return [interval for part in parts if part is not None for interval in part]
    if node.op == "set":
        points = [_interval(arg, True, arg, True) for arg in node.args]
        return None if None in points else [point for point in points if point is not None]
    if node.op == "setminus" and len(node.args) == 2 and _is_real_line(_real_line(node.args[0])):
        return _complement(_intervals(node.args[1]))
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


def _is_real_line(node: Node) -> bool:
    return node.op == "tuple" and node.args == (Node("neg", (INFINITY,)), INFINITY)


def _complement(intervals: list[Interval] | None) -> list[Interval] | None:
    """The real numbers outside intervals that lie apart; None where their order is not settled."""
    if intervals is None:
        return None
    start, is_closed = Node("neg", (INFINITY,)), False
    outside: list[Interval] = []
    try:
        for each in sorted(intervals, key=lambda interval: _near_value(interval.low)):
            gap = _near_value(each.low) - _near_value(start) if each.low != start else 0.0
            if gap < -_NEAR or (gap < _NEAR and each.low != start):
                return None
            if gap:
                outside.append(Interval(start, is_closed, each.low, not each.low_closed))
            start, is_closed = each.high, not each.high_closed
    except NoValue:
        return None
    return outside if start == INFINITY else [*outside, Interval(start, is_closed, INFINITY, False)]


def _near_value(end: Node) -> float:
    """About where an end of an interval lies."""
    if end == INFINITY:
        return math.inf
    return -math.inf if end == Node("neg", (INFINITY,)) else float(enclose(end).real.mid())


def is_unsolved(node: Node) -> bool:
    """Whether a tree is an inequality in one symbol that stands for a real set which nobody works out here."""
    return node.op == "rel" and set(node.name.split()) <= _ORDER and len(_symbols(node)) == 1


def _symbols(node: Node) -> set[str]:
    return {node.name} if node.op == "sym" else set().union(*map(_symbols, node.args))


def _between(bounds: Sequence[Node]) -> list[Interval] | None:
    """``x > 1 and x < 5``; None for other conditions that are to hold together."""
    halves = [_inequality(bound) for bound in bounds]
    names = {arg.name for bound in bounds for arg in bound.args if arg.op == "sym"}
    if len(halves) != 2 or None in halves or len(names) != 1:
        return None
    below, above = sorted((half for half in halves if half), key=lambda half: half.high == INFINITY)
    if below.high == INFINITY or above.high != INFINITY:
        return None
    try:
        order = sign(Node("add", (below.high, Node("neg", (above.low,)))))
    except NoValue:
        return None
    if order > 0:
        return [Interval(above.low, above.low_closed, below.high, below.high_closed)]
    return [] if order < 0 else None


def _interval(low: Node, low_closed: bool, high: Node, high_closed: bool) -> Interval | None:
    return Interval(low, low_closed, high, high_closed) if is_real(low) and is_real(high) else None


def _brackets(interval: Interval) -> Node:
    name = ("[" if interval.low_closed else "(") + ("]" if interval.high_closed else ")")
    return Node("tuple", (interval.low, interval.high), name=name)


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
