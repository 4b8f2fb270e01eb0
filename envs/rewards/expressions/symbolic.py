"""Computer algebra, run inside the worker pool only: sympy on trees that were built by our own parser, and math-verify.

Nothing here turns text into Python: trees arrive as data, LaTeX goes through math-verify's grammar with its plain-text
reader (which would call ``parse_expr``) left out.
"""

from __future__ import annotations

from typing import Any


def warm() -> None:
    """Import what the other functions need, and run each once; called before workers are forked."""
    same_trees(["num", "", "1", "1", []], ["num", "", "1", "1", []])
    same_latex("\\frac{1}{2}", "\\frac{2}{4}")


def same_trees(left: list[Any], right: list[Any]) -> bool:
    """Whether sympy proves that two trees have the same value."""
    import sympy

    positive = not (_has_sign_of_its_own(left) or _has_sign_of_its_own(right))
    difference = _sympy(left, positive) - _sympy(right, positive)
    if difference == 0:
        return True
    for transform in (sympy.radsimp, sympy.trigsimp, sympy.nsimplify, sympy.simplify):
        difference = transform(difference)
        if difference == 0:
            return True
    return bool(difference.equals(0))


def same_latex(answer: str, reference: str) -> bool:
    """Whether math-verify reads two LaTeX texts as the same value."""
    from math_verify import LatexExtractionConfig, parse, verify

    config = [LatexExtractionConfig()]
    gold = parse(f"\\boxed{{{reference}}}", config, parsing_timeout=None)
    given = parse(f"\\boxed{{{answer}}}", config, parsing_timeout=None)
    return bool(given and gold and verify(gold, given, timeout_seconds=None))


def _has_sign_of_its_own(tree: list[Any]) -> bool:
    """Whether symbols must not be taken as positive: there is an absolute value or a root in the tree."""
    return tree[:2] == ["call", "abs"] or tree[0] == "root" or any(_has_sign_of_its_own(branch) for branch in tree[4])


def _sympy(tree: list[Any], positive: bool) -> Any:
    import sympy

    op, name, numerator, denominator, branches = tree
    if op == "num":
        return sympy.Rational(int(numerator), int(denominator))
    if op == "const":
        return sympy.pi if name == "pi" else sympy.oo
    if op == "sym":
        return {"e": sympy.E, "i": sympy.I}.get(name) or sympy.Symbol(name, positive=positive or None, real=True)
    args = [_sympy(branch, positive) for branch in branches]
    if op == "call":
        return _function(name, args)
    build: dict[str, Any] = {
        "add": lambda: sympy.Add(*args),
        "neg": lambda: -args[0],
        "mul": lambda: args[0] * args[1],
        "div": lambda: args[0] / args[1],
        "pow": lambda: args[0] ** args[1],
        "root": lambda: sympy.real_root(args[0], args[1]) if args[1].is_odd else sympy.root(args[0], args[1]),
        "percent": lambda: args[0] / 100,
        "degree": lambda: args[0] * sympy.pi / 180,
    }
    return build[op]()


def _function(name: str, args: list[Any]) -> Any:
    import sympy

    if name == "log":
        return sympy.log(args[0]) / sympy.log(10)
    if name == "log_":
        return sympy.log(args[0]) / sympy.log(args[1])
    names = {
        "ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "abs": "Abs", "binom": "binomial",
        "ceil": "ceiling", "max": "Max", "min": "Min",
    }  # fmt: skip
    allowed = (
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "factorial",
        "floor",
        "gcd",
        "lcm",
    )
    if name in names or name in allowed:
        return getattr(sympy, names.get(name, name))(*args)
    return sympy.Function(name)(*args)
