"""Computer algebra, run inside the worker pool only: sympy on trees of our own parser, latex2sympy's reading of LaTeX.

Nothing here turns text into Python: trees arrive as data, LaTeX goes through a grammar. sympy transforms expressions
and never estimates them: what it reduces to zero is equal, after balls of many bits did not tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from rlvr.envs.rewards.expressions.algebra import Algebra
from rlvr.envs.rewards.expressions.compare import is_unsolved, same
from rlvr.envs.rewards.expressions.numeric import SALTS, NoValue, are_apart, at_point, has_symbols, is_real
from rlvr.envs.rewards.expressions.scalars import INFINITY, ScalarComparison, Undecided
from rlvr.envs.rewards.expressions.zeros import are_equal_algebraic
from rlvr.envs.rewards.grammar.expression import parse
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node, number, symbol
from rlvr.envs.rewards.grammar.words import denies

BITS: Final = (4_096, 16_384)  # of the balls that are tried before sympy is asked
MAX_BITS: Final = 400_000  # of a proof that two algebraic numbers are equal

_SYMPY_NAMES: Final = {
    "ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "abs": "Abs", "binom": "binomial", "ceil": "ceiling", "max": "Max", "min": "Min", "Re": "re",
    "Im": "im", "conj": "conjugate", "sgn": "sign", "mod": "Mod",
    **{name: name for name in (
        "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch", "exp", "factorial",
        "floor", "gcd", "lcm", "gamma", "zeta", "erf", "Si", "Ci", "Ei", "arg",
    )},
}  # fmt: skip
_OUR_NAMES: Final = {name: ours for ours, name in _SYMPY_NAMES.items()}
_STRUCTURES: Final = {
    "FiniteSet": ("set", ""), "EmptySet": ("set", ""), "Tuple": ("tuple", "()"),
    "Union": ("cup", ""), "Equality": ("rel", "="), "Unequality": ("rel", "!="), "StrictLessThan": ("rel", "<"),
    "LessThan": ("rel", "<="), "StrictGreaterThan": ("rel", ">"), "GreaterThan": ("rel", ">="),
}  # fmt: skip
_CONSTANTS: Final = {
    "Pi": Node("const", name="pi"), "Exp1": symbol("e"), "ImaginaryUnit": symbol("i"), "Infinity": INFINITY,
    "NegativeInfinity": Node("neg", (INFINITY,)),
}  # fmt: skip


def warm() -> None:
    """Import what the other functions need, and run each once; called before workers are forked."""
    x = ["sym", "x", "0", "1", []]
    same_trees(["call", "floor", "0", "1", [x]], ["call", "ceil", "0", "1", [x]])
    same_latex("\\frac{1}{2}", "\\int_0^1 x\\,dx")


def same_trees(answer: list[Any], gold: list[Any]) -> bool | str:
    """Whether two trees are equal by proof; a text that says why where they are proven neither equal nor different."""
    tree, reference = tree_of_lists(answer), tree_of_lists(gold)
    if is_unsolved(reference):  # an answer that only repeats the inequality of the question solves nothing
        tree, reference = _solved(tree), _solved(reference)
    return _decided(lambda: same(tree, reference, is_costly=True, decide=_decide))


def same_latex(answer: str, gold: str) -> bool | str:
    """``same_trees`` of LaTeX; what our grammar refuses is read by latex2sympy's."""
    reference = _read(gold)
    if reference is None:
        return answer == gold or "the reference is not read, and not spelled so"
    try:
        tree: Node | None = parse(answer)
    except (MathSyntaxError, RecursionError):
        tree = None if denies(answer) else _read(answer)
    if tree is None:
        return "the answer is not read"
    return _decided(lambda: same(tree, reference, is_costly=True, decide=_decide))


def _decided(compare: Callable[[], bool]) -> bool | str:
    try:
        return compare()
    except Undecided as error:
        return str(error)
    except MathLimitError as error:
        return f"over a cap: {error}"


def _decide(answer: Node, gold: Node) -> bool:
    """Whether two scalars are equal that the rules of ``scalars`` leave open."""
    are_constant = not has_symbols(answer) and not has_symbols(gold)
    for bits in BITS if are_constant else BITS[:1]:
        try:
            if are_apart(gold, answer, bits, SALTS[:1] if are_constant else SALTS):
                return False
        except NoValue:
            break
    equal = are_equal_algebraic(answer, gold, MAX_BITS) if are_constant else None
    if equal is not None:
        return equal
    if _is_zero(answer, gold):
        return True
    raise Undecided("proven neither equal nor different")


def _is_zero(answer: Node, gold: Node) -> bool:
    """Whether sympy reduces a difference to zero, with symbols positive or, where their sign matters, real."""
    import sympy

    is_positive = not (_has_sign_of_its_own(answer) or _has_sign_of_its_own(gold))
    difference = to_sympy(answer, is_positive) - to_sympy(gold, is_positive)
    if difference == 0:
        return True
    for transform in (sympy.radsimp, sympy.trigsimp, sympy.simplify, _factored, _with_powers_of_e):
        difference = transform(difference)
        if difference == 0:
            return True
    return has_symbols(from_sympy(difference)) and _is_constant_zero(answer, gold, difference)


def _factored(value: Any) -> Any:
    """With what stands under roots and in functions factored, then simplified."""
    import sympy

    return sympy.simplify(sympy.factor(value, deep=True))


def _with_powers_of_e(value: Any) -> Any:
    """With ``exp(exponent * log(base))`` for each power, then simplified."""
    import sympy

    power = sympy.Wild("base"), sympy.Wild("exponent")
    return sympy.simplify(value.replace(power[0] ** power[1], sympy.exp(power[1] * sympy.log(power[0]))))


def _is_constant_zero(answer: Node, gold: Node, difference: Any) -> bool:
    """Whether all derivatives of a difference are zero, and the difference itself is at a point where both are real."""
    import sympy

    for variable in difference.free_symbols:
        slope = sympy.simplify(sympy.diff(difference, variable))
        if slope != 0:
            rest = from_sympy(slope)
            if rest.op == "call" or not ScalarComparison(Algebra(), True, None).equal(rest, number(0)):
                return False
    for salt in SALTS:
        left, right = at_point(answer, salt), at_point(gold, salt)
        if is_real(left) and is_real(right):
            return ScalarComparison(Algebra(), True, _decide).equal(left, right)
    return False


def _solved(tree: Node) -> Node:
    """The real set for which an inequality of rational functions in one symbol holds; another tree as it is."""
    import sympy
    from sympy.solvers.inequalities import solve_univariate_inequality

    if not is_unsolved(tree):
        return tree
    sides = [to_sympy(arg, False) for arg in tree.args]
    variable = next(iter(set().union(*(side.free_symbols for side in sides))))
    relations = {"<": sympy.Lt, ">": sympy.Gt, "<=": sympy.Le, ">=": sympy.Ge}
    solution = sympy.S.Reals
    for name, left, right in zip(tree.name.split(), sides, sides[1:], strict=False):
        difference = sympy.together(left - right)
        if not difference.is_rational_function(variable):
            return tree
        part = solve_univariate_inequality(relations[name](difference, 0), variable, relational=False)
        solution = solution.intersect(part)
    return from_sympy(solution)


# -- trees, and sympy's expressions


def tree_of_lists(lists: list[Any]) -> Node:
    """A tree from ``[op, name, numerator, denominator, [args]]``."""
    op, name, numerator, denominator, args = lists
    value = Fraction(int(numerator), int(denominator))
    return Node(op, tuple(tree_of_lists(arg) for arg in args), name, value)


def _has_sign_of_its_own(tree: Node) -> bool:
    """Whether symbols must not be taken as positive: there is an absolute value or a root in the tree."""
    return (tree.op, tree.name) == ("call", "abs") or tree.op == "root" or any(map(_has_sign_of_its_own, tree.args))


def to_sympy(tree: Node, is_positive: bool) -> Any:
    """A scalar tree as an expression, its symbols real and perhaps positive."""
    import sympy

    if tree.op == "num":
        return sympy.Rational(tree.value.numerator, tree.value.denominator)
    if tree.op == "const":
        return sympy.pi if tree.name == "pi" else sympy.oo
    if tree.op == "sym":
        constants = {"e": sympy.E, "i": sympy.I}
        return constants.get(tree.name) or sympy.Symbol(tree.name, positive=is_positive or None, real=True)
    args = [to_sympy(arg, is_positive) for arg in tree.args]
    if tree.op == "call":
        return _function(tree.name, args)
    build: dict[str, Callable[[], Any]] = {
        "add": lambda: sympy.Add(*args),
        "neg": lambda: -args[0],
        "mul": lambda: args[0] * args[1],
        "div": lambda: args[0] / args[1],
        "pow": lambda: args[0] ** args[1],
        "root": lambda: sympy.real_root(args[0], args[1]) if args[1].is_odd else sympy.root(args[0], args[1]),
        "percent": lambda: args[0] / 100,
        "degree": lambda: args[0] * sympy.pi / 180,
    }
    if tree.op not in build:
        raise Undecided(f"a {tree.op} is not one value")
    return build[tree.op]()


def _function(name: str, args: list[Any]) -> Any:
    import sympy

    if name == "log":
        return sympy.log(args[0]) / sympy.log(10)
    if name == "log_":
        return sympy.log(args[0]) / sympy.log(args[1])
    if name in _SYMPY_NAMES:
        return getattr(sympy, _SYMPY_NAMES[name])(*args)
    return sympy.Function(name)(*args)


def _read(latex: str) -> Node | None:
    """The tree of LaTeX by math-verify's grammar, integrals, sums and limits worked out; None where it refuses.

    The grammar is called itself: math-verify takes capital letters for small ones, so that A + a would be 2a.
    """
    from latex2sympy2_extended import NormalizationConfig, latex2sympy
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig

    normalization = NormalizationConfig(units=True, malformed_operators=True, nits=True)
    conversion = ConversionConfig(lowercase_symbols=False)
    try:
        return from_sympy(latex2sympy(latex, None, True, False, normalization, conversion))
    except MemoryError:
        raise
    except Exception:  # of sympy and the grammar, in many kinds
        return None


def from_sympy(value: Any) -> Node:
    """The tree of a relation, a set, a tuple or a matrix part by part, and of a scalar, worked out."""
    import sympy

    kind = type(value).__name__
    if isinstance(value, sympy.MatrixBase):
        return Node("matrix", tuple(Node("row", tuple(map(from_sympy, row))) for row in value.tolist()))
    if isinstance(value, sympy.Interval):
        name = ("(" if value.left_open else "[") + (")" if value.right_open else "]")
        return Node("tuple", (from_sympy(value.start), from_sympy(value.end)), name=name)
    if kind in _STRUCTURES:
        op, name = _STRUCTURES[kind]
        return Node(op, tuple(map(from_sympy, value.args)), name=name)
    return _scalar(value.doit())


def _scalar(value: Any) -> Node:
    """The tree of a scalar; what was not worked out is a function without arguments, named by what it spells."""
    import sympy

    kind = type(value).__name__
    if isinstance(value, sympy.Float):
        return number(Fraction(str(value)))  # as many digits as the text had
    if isinstance(value, sympy.Rational):
        return number(Fraction(int(value.p), int(value.q)))
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if isinstance(value, sympy.Symbol):
        return symbol(value.name)
    binders = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative, sympy.Subs, sympy.Lambda)
    if isinstance(value, binders) or not all(isinstance(arg, sympy.Basic) for arg in value.args):
        return Node("call", name=str(value.as_dummy()))
    args = tuple(map(_scalar, value.args))
    if kind == "Add":
        return Node("add", args)
    if kind == "Mul":
        product = args[0]
        for arg in args[1:]:
            product = Node("mul", (product, arg))
        return product
    if kind == "Pow":
        return Node("pow", args)
    if kind == "log":
        return Node("call", args, name="log_" if len(args) == 2 else "ln")
    return Node("call", args, name=_OUR_NAMES.get(kind, kind))
