"""Whether two scalars are equal, by proof.

Equal is what is proven: by equal normal forms, by a ball around the difference that is smaller than a difference other
than zero can be, or by what ``decide`` proves. Different is what is proven, too: by normal forms, or by balls that do
not overlap. Everything else is ``Undecided``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rlvr.envs.rewards.expressions.algebra import Algebra, Normal, is_decisive
from rlvr.envs.rewards.expressions.numeric import BITS, SALTS, NoValue, are_apart, enclose, has_symbols, rational
from rlvr.envs.rewards.expressions.polynomial import Polynomial
from rlvr.envs.rewards.expressions.zeros import are_equal_algebraic, is_zero
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node

MAX_BITS: Final = 20_000  # of the precision of a proof; together milliseconds
MAX_NODE_BITS: Final = 400_000  # the same, times the nodes of both trees
INFINITY: Final = Node("const", name="inf")
Decide = Callable[[Node, Node], bool]


class Undecided(Exception):
    """Two values are proven neither equal nor different."""


class ScalarComparison:
    """Compares scalars over the normal forms of one budget.

    Args:
        algebra: makes normal forms.
        is_costly: whether the reference is over the caps on normal forms itself; then balls decide, not the caps.
        decide: whether two scalars that are left open are equal; raises Undecided.
    """

    def __init__(self, algebra: Algebra, is_costly: bool, decide: Decide | None) -> None:
        self.algebra = algebra
        self.is_costly = is_costly
        self.decide = decide
        self.forms: dict[int, tuple[Node, Normal]] = {}  # by the identity of the tree, which is kept

    def equal(self, answer: Node, gold: Node) -> bool:
        infinite, gold_infinite = _infinite(answer), _infinite(gold)
        if infinite or gold_infinite:
            return infinite == gold_infinite
        rest: Polynomial | None = None
        try:
            form, gold_form = self._normal(answer), self._normal(gold)
            with suppress(MathLimitError):
                rest = self.algebra.difference(form, gold_form)
        except MathLimitError:
            if not self.is_costly:
                raise
        except MathSyntaxError:
            return False
        if rest is not None and not rest:
            if _may_divide_by_zero(answer):
                self._check_value(answer)
            return True
        if rest is not None and is_decisive(rest):
            return False
        return self._without_forms(answer, gold, rest)

    def _normal(self, node: Node) -> Normal:
        if id(node) not in self.forms:
            self.forms[id(node)] = node, self.algebra.normal(node)
        return self.forms[id(node)][1]

    def _without_forms(self, answer: Node, gold: Node, rest: Polynomial | None) -> bool:
        """What normal forms leave open: by balls, by what is proven of constants, by exponentials, by ``decide``."""
        if _differ(answer, gold, BITS) or _differ(answer, gold, 16 * BITS):
            return False
        if not has_symbols(answer) and not has_symbols(gold):
            max_bits = min(MAX_BITS, MAX_NODE_BITS // (_size(answer) + _size(gold)))
            equal = are_equal_algebraic(answer, gold, max_bits)
            if equal is not None:
                return equal
            if rest is not None and is_zero(rest, max_bits):
                return True
        if self._equal_as_exponentials(answer, gold):
            return True
        if self.decide is None:
            raise Undecided("proven neither equal nor different")
        return self.decide(answer, gold)

    def _equal_as_exponentials(self, answer: Node, gold: Node) -> bool:
        algebra = Algebra(exponentials=True)
        try:
            equal = not algebra.difference(algebra.normal(answer), algebra.normal(gold))
        except MathSyntaxError:
            return False
        if equal:
            self._check_value(answer)
        return equal

    def _check_value(self, answer: Node) -> None:
        """Raise Undecided unless the answer is proven to have a value: ``0/0`` is equal to nothing."""
        for bits in (BITS, 16 * BITS):
            try:
                enclose(answer, bits)
                return
            except NoValue:
                pass
        raise Undecided("the answer is not proven to have a value")


def _size(node: Node) -> int:
    return 1 + sum(map(_size, node.args))


def _differ(answer: Node, gold: Node, bits: int) -> bool:
    """Whether balls of so many bits tell two scalars apart."""
    salts: tuple[int, ...] = (1,)
    if has_symbols(answer) or has_symbols(gold):
        salts = (1, -2, 3, 4) if _has_sign_of_its_own(answer) or _has_sign_of_its_own(gold) else SALTS
    try:
        return are_apart(gold, answer, bits, salts)
    except NoValue:
        return False


def _may_divide_by_zero(node: Node) -> bool:
    """Whether there is a divisor whose value is not seen at once."""
    if node.op == "div" and _is_sum(node.args[1]):
        return True
    if node.op == "pow" and rational(node.args[1]) is not None and node.args[1].op == "neg" and _is_sum(node.args[0]):
        return True
    return any(_may_divide_by_zero(arg) for arg in node.args)


def _is_sum(node: Node) -> bool:
    return node.op in ("add", "call") or any(_is_sum(arg) for arg in node.args)


def _has_sign_of_its_own(node: Node) -> bool:
    """Whether a tree depends on the sign of a symbol: ``|x|``, or the root of an even power or of a sum."""
    if node.op == "call" and node.name == "abs":
        return True
    if node.op == "root" and has_symbols(node.args[0]):
        radicand = node.args[0]
        if radicand.op == "add" or (radicand.op == "pow" and radicand.args[1].value % 2 == 0):
            return True
    return any(_has_sign_of_its_own(arg) for arg in node.args)


def _infinite(node: Node) -> int:
    """1 for infinity, -1 for minus infinity, 0 for everything else."""
    if node.op == "neg":
        return -_infinite(node.args[0])
    return int(node.op == "const" and node.name == "inf")
