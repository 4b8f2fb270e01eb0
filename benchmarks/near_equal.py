"""False rewards by algebra: pairs of near-equal answers, and true pairs rewritten by known identities.

    python benchmarks/near_equal.py [--near 2000] [--true 1200] [--seed 0] [--out benchmarks/results]

Each kind below draws a reference, the same value written otherwise, and what differs from it by construction: a tiny
summand or factor (10^-5 to 10^-40), a sign, an exponent, a factorial or an index that is one off, a limit taken for its
approach, digits for an irrational number. No pair is labelled by computation. tests/rewards/test_near_equal.py grades
some of the same pairs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rlvr.envs.rewards import grade
from rlvr.envs.rewards.workers import shared_pool

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ROOT = Path(__file__).parents[1]


class Draw(NamedTuple):
    """A reference, the same value written in other ways, and answers that differ from it."""

    gold: str
    rewritten: tuple[str, ...]
    different: tuple[str, ...] = ()


Kind = Callable[[Random], Draw]
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    KINDS[make.__name__] = make
    return make


def tiny(rng: Random) -> str:
    return f"10^{{-{rng.randint(5, 40)}}}"


def perturbed(rng: Random, value: str) -> str:
    """The value of an expression, changed by a tiny amount; the expression is not zero."""
    small = tiny(rng)
    return rng.choice(
        (
            f"{value} + {small}",
            f"{value} - {small}",
            f"(1 + {small}) \\cdot \\left({value}\\right)",
            f"\\left({value}\\right) \\cdot (1 - {small})",
            f"\\frac{{{value}}}{{1 + {small}}}",
            f"{value} + \\sin({small})",
            f"{value} - \\frac{{\\sqrt{{2}}}}{{10^{{{rng.randint(6, 40)}}}}}",
        )
    )


def near(rng: Random, *values: str) -> tuple[str, ...]:
    value = rng.choice(values)
    return perturbed(rng, value), f"-\\left({value}\\right)"


def surd(rng: Random) -> int:
    return rng.choice((2, 3, 5, 6, 7, 10, 11, 13, 15))


# -- values whose neighbours are a few digits away


@kind
def logarithms_near_one(rng: Random) -> Draw:
    """ln(1 + 10^-n) is almost 10^-n."""
    n = rng.randint(5, 20)
    gold = f"\\ln(1 + 10^{{-{n}}})"
    forms = (f"\\ln({10**n + 1}) - {n} \\ln 10", f"\\ln\\frac{{{10**n + 1}}}{{{10**n}}}")
    return Draw(gold, forms, (f"10^{{-{n}}}", f"10^{{-{n}}} - \\frac{{10^{{-{2 * n}}}}}{{2}}", f"-{gold}"))


@kind
def factorial_ratios(rng: Random) -> Draw:
    n, k = rng.randint(20, 200), rng.randint(2, 4)
    gold = f"\\frac{{{n + k}!}}{{{n}!}}"
    forms = (" \\cdot ".join(str(n + j) for j in range(1, k + 1)), f"{k}! \\cdot \\binom{{{n + k}}}{{{k}}}")
    return Draw(gold, forms, (*near(rng, gold), f"\\frac{{{n + k}!}}{{{n + 1}!}}", f"{n}^{{{k}}}"))


@kind
def continued_fractions(rng: Random) -> Draw:
    """[a; b, c, d] against the same with another last number, and against its decimals."""
    parts = [rng.randint(1, 30) for _ in range(rng.randint(4, 8))]

    def value(numbers: list[int]) -> Fraction:
        result = Fraction(numbers[-1])
        for part in reversed(numbers[:-1]):
            result = part + 1 / result
        return result

    written = str(parts[-1])
    for part in reversed(parts[:-1]):
        written = f"{part} + \\cfrac{{1}}{{{written}}}"
    exact, other = value(parts), value([*parts[:-1], parts[-1] + 1])
    fraction = f"\\frac{{{exact.numerator}}}{{{exact.denominator}}}"
    return Draw(fraction, (written,), (f"\\frac{{{other.numerator}}}{{{other.denominator}}}", *near(rng, written)))


# -- numbers


@kind
def fractions(rng: Random) -> Draw:
    top, bottom, factor = rng.randint(1, 99), rng.randint(2, 99), rng.randint(2, 9)
    gold = f"\\frac{{{top}}}{{{bottom}}}"
    forms = (f"\\frac{{{top * factor}}}{{{bottom * factor}}}", f"{top}/{bottom}", f"{top} \\cdot {bottom}^{{-1}}")
    return Draw(gold, forms, (*near(rng, gold), f"\\frac{{{top}}}{{{bottom + 1}}}"))


@kind
def decimals(rng: Random) -> Draw:
    """A third, a seventh, ... is none of its decimals; a decimal is the fraction that its digits write."""
    digits = rng.randint(5, 40)
    if rng.random() < 0.5:
        bottom = rng.choice((3, 7, 9, 11, 13))
        return Draw(f"\\frac{{1}}{{{bottom}}}", (f"1/{bottom}",), (f"0.{10**digits // bottom:0{digits}d}",))
    value = rng.randint(1, 999)
    more = f"{value / 100:.2f}{'0' * (digits - 2)}"
    return Draw(f"{value / 100:.2f}", (f"\\frac{{{value}}}{{100}}", more), (f"{more}1", f"-{value / 100:.2f}"))


@kind
def irrational_digits(rng: Random) -> Draw:
    gold, digits = rng.choice(
        (
            ("\\pi", "3.14159265358979323846264338327950288419716939937510"),
            ("e", "2.71828182845904523536028747135266249775724709369995"),
            ("\\sqrt{2}", "1.41421356237309504880168872420969807856967187537694"),
            ("\\ln 2", "0.69314718055994530941723212145817656807550013436025"),
        )
    )
    return Draw(gold, (f"2 \\cdot \\frac{{{gold}}}{{2}}", f"{gold} + 0"), (digits[: rng.randint(8, 52)],))


@kind
def factorials(rng: Random) -> Draw:
    n = rng.choice((rng.randint(5, 40), rng.randint(100, 300), rng.randint(1_000, 3_000)))
    gold = f"\\frac{{1}}{{{n}!}}"
    forms = (f"\\frac{{{n + 1}}}{{{n + 1}!}}", f"\\frac{{1}}{{{n} \\cdot {n - 1}!}}")
    wrong = (f"\\frac{{1}}{{{n + 2}!}}", f"\\frac{{1}}{{{n - 1}!}}", f"-{gold}", f"\\frac{{2}}{{{n}!}}")
    return Draw(gold, forms, wrong)


@kind
def binomials(rng: Random) -> Draw:
    n = rng.randint(5, 60)
    k = rng.randint(2, n - 2)
    gold = f"\\binom{{{n}}}{{{k}}}"
    forms = (f"\\binom{{{n}}}{{{n - k}}}", f"\\frac{{{n}!}}{{{k}! \\cdot {n - k}!}}")
    return Draw(gold, forms, (*near(rng, gold), f"{gold} + 1", f"\\binom{{{n + 1}}}{{{k}}}"))


@kind
def powers(rng: Random) -> Draw:
    base, n = rng.randint(2, 9), rng.choice((rng.randint(3, 60), rng.randint(500, 6_000)))
    gold = f"{base}^{{-{n}}}"
    forms = (f"\\frac{{1}}{{{base}^{{{n}}}}}", f"{base} \\cdot {base}^{{-{n + 1}}}")
    return Draw(gold, forms, (f"{base}^{{-{n + 1}}}", f"-{gold}", "0", f"{base + 1}^{{-{n}}}"))


@kind
def far_from_zero(rng: Random) -> Draw:
    """A limit is not one of the values that approach it."""
    n = rng.randint(20, 400)
    return rng.choice(
        (
            Draw(f"\\tanh({n})", (f"\\frac{{e^{{{2 * n}}} - 1}}{{e^{{{2 * n}}} + 1}}",), ("1", f"\\tanh({n + 1})")),
            Draw(f"1 - 2^{{-{n}}}", (f"\\frac{{2^{{{n}}} - 1}}{{2^{{{n}}}}}",), ("1", f"1 - 2^{{-{n + 1}}}")),
            Draw(f"e^{{-{n}}} \\sin 1", (f"\\frac{{\\sin 1}}{{e^{{{n}}}}}",), (f"e^{{-{n + 1}}} \\sin 1", "0")),
            Draw(f"\\arctan 10^{{{n}}}", (f"\\frac{{\\pi}}{{2}} - \\arctan 10^{{-{n}}}",), ("\\frac{\\pi}{2}",)),
        )
    )


@kind
def near_zero(rng: Random) -> Draw:
    """A function is not the first term of its series."""
    small = tiny(rng)
    root, half = f"\\sqrt{{1 + {small}}}", f"1 + \\frac{{{small}}}{{2}}"
    return rng.choice(
        (
            Draw(f"\\sin({small})", (f"\\cos(\\frac{{\\pi}}{{2}} - {small})",), (small, f"\\tan({small})")),
            Draw(f"\\arctan({small})", (f"-\\arctan(-{small})",), (small, f"\\arcsin({small})")),
            Draw(f"\\ln(1 + {small})", (f"-\\ln \\frac{{1}}{{1 + {small}}}",), (small, f"\\ln(1 - {small})")),
            Draw(f"e^{{{small}}}", (f"\\frac{{1}}{{e^{{-{small}}}}}",), ("1", f"1 + {small}")),
            Draw(root, (f"\\frac{{1 + {small}}}{{{root}}}",), (half,)),
        )
    )


# -- algebraic numbers


@kind
def radicals(rng: Random) -> Draw:
    a, b, c = surd(rng), rng.randint(2, 9), rng.randint(1, 9)
    gold = f"{c} + {b}\\sqrt{{{a}}}"
    forms = (f"\\sqrt{{{a * b * b}}} + {c}", f"\\frac{{{c * c - a * b * b}}}{{{c} - {b}\\sqrt{{{a}}}}}")
    return Draw(gold, forms, (*near(rng, *forms), f"{c} - {b}\\sqrt{{{a}}}"))


@kind
def nested_radicals(rng: Random) -> Draw:
    a, b = rng.sample((2, 3, 5, 6, 7, 10, 11, 13, 15), 2)
    gold = f"\\sqrt{{{a + b} + 2\\sqrt{{{a * b}}}}}"
    forms = (f"\\sqrt{{{a}}} + \\sqrt{{{b}}}", f"\\frac{{{a - b}}}{{\\sqrt{{{a}}} - \\sqrt{{{b}}}}}")
    other = f"\\sqrt{{{a + b} + 2\\sqrt{{{a * b} + {tiny(rng)}}}}}"
    return Draw(gold, forms, (*near(rng, *forms), other))


@kind
def cube_roots(rng: Random) -> Draw:
    n = rng.choice((1, 2, 3, 4))  # the real root of x^3 + 3x = 2m, m = n (n^2 + 3) / 2 where that is whole
    m = n * (n * n + 3) // 2
    root = f"\\sqrt{{{m * m + 1}}}"
    gold = f"\\sqrt[3]{{{root} + {m}}} - \\sqrt[3]{{{root} - {m}}}"
    forms = (str(n),) if n * (n * n + 3) % 2 == 0 else ()
    return Draw(gold, (*forms, f"\\sqrt[3]{{{m} + {root}}} + \\sqrt[3]{{{m} - {root}}}"), near(rng, gold))


@kind
def cancelling_roots(rng: Random) -> Draw:
    n = 10 ** rng.randint(3, 18)
    gold = f"\\sqrt{{{n * n + 1}}} - {n}"
    return Draw(gold, (f"\\frac{{1}}{{\\sqrt{{{n * n + 1}}} + {n}}}",), (f"\\frac{{1}}{{{2 * n}}}", "0", f"-({gold})"))


@kind
def complex_numbers(rng: Random) -> Draw:
    a, b, c, d = (rng.randint(1, 9) for _ in range(4))
    gold = f"{a * c - b * d} + {a * d + b * c}i"
    forms = (f"({a} + {b}i)({c} + {d}i)", f"\\frac{{({a} + {b}i)({c * c + d * d})}}{{{c} - {d}i}}")
    wrong = (f"({a} + {b}i)({c} - {d}i)", f"({a} + {b}i)({c} + {d}i) + {tiny(rng)}i", perturbed(rng, forms[0]))
    return Draw(gold, forms, wrong)


@kind
def turns(rng: Random) -> Draw:
    n = rng.choice((5, 7, 8, 9, 12, 16))
    k = rng.randint(1, n - 1)
    gold = f"e^{{\\frac{{{2 * k} i \\pi}}{{{n}}}}}"
    forms = (f"\\cos\\frac{{{2 * k}\\pi}}{{{n}}} + i\\sin\\frac{{{2 * k}\\pi}}{{{n}}}",)
    return Draw(gold, forms, (forms[0].replace("+ i", "- i") if 2 * k != n else "1", perturbed(rng, forms[0])))


@kind
def angles(rng: Random) -> Draw:
    n = rng.randint(1, 44)
    gold, form = rng.choice(
        (
            (f"\\sin {n}^\\circ", f"\\cos {90 - n}^\\circ"),
            ("\\cos 36^\\circ", "\\frac{1 + \\sqrt{5}}{4}"),
            ("\\cos\\frac{\\pi}{7} \\cos\\frac{2\\pi}{7} \\cos\\frac{4\\pi}{7}", "-\\frac{1}{8}"),
            (f"\\tan {n}^\\circ", f"\\frac{{\\sin {2 * n}^\\circ}}{{1 + \\cos {2 * n}^\\circ}}"),
        )
    )
    return Draw(gold, (form,), near(rng, gold, form))


# -- other constants


@kind
def sines(rng: Random) -> Draw:
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    gold = f"\\sin {a + b}"
    form = f"\\sin {a} \\cos {b} + \\cos {a} \\sin {b}"
    return Draw(gold, (form,), (*near(rng, form), f"\\sin {a} \\cos {b} - \\cos {a} \\sin {b}", f"\\sin {a + b + 1}"))


@kind
def inverse_tangents(rng: Random) -> Draw:
    a, b = rng.randint(2, 9), rng.randint(2, 9)  # arctan 1/a + arctan 1/b
    gold = f"\\arctan\\frac{{1}}{{{a}}} + \\arctan\\frac{{1}}{{{b}}}"
    forms = (f"\\arctan\\frac{{{a + b}}}{{{a * b - 1}}}", f"\\pi - \\arctan {a} - \\arctan {b}")
    return Draw(gold, forms, (*near(rng, *forms), f"\\arctan\\frac{{{a + b}}}{{{a * b}}}"))


@kind
def logarithms(rng: Random) -> Draw:
    a, b, k = surd(rng), rng.randint(2, 30), rng.randint(2, 6)
    gold, *forms = rng.choice(
        (
            (f"\\ln {a * b**k}", f"\\ln {a} + {k}\\ln {b}"),
            ("\\ln(1 + \\sqrt{2})", "-\\ln(\\sqrt{2} - 1)", "\\frac{1}{2}\\ln(3 + 2\\sqrt{2})"),
            (f"\\log_{{{b}}} {a}", f"\\frac{{\\ln {a}}}{{\\ln {b}}}", f"\\log_{{{b**2}}} {a * a}"),
            (f"{b}^{{\\log_{{{b}}} {a + 1}}}", str(a + 1)),
        )
    )
    return Draw(gold, tuple(forms), near(rng, *forms))


@kind
def exponentials(rng: Random) -> Draw:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    gold = f"e^{{{a}}} + e^{{-{b}}}"
    form = f"\\frac{{e^{{{a + b}}} + 1}}{{e^{{{b}}}}}"
    return Draw(gold, (form,), (*near(rng, form, gold), f"e^{{{a}}} - e^{{-{b}}}", f"e^{{{a}}} + e^{{-{b + 1}}}"))


@kind
def multiples_of_pi(rng: Random) -> Draw:
    a, b = rng.randint(2, 40), surd(rng)
    gold = f"{a}\\pi\\sqrt{{{b + 1} + 2\\sqrt{{{b}}}}}"
    form = f"{a}\\pi + {a}\\pi\\sqrt{{{b}}}"
    return Draw(gold, (form,), (*near(rng, form), f"{a + 1}\\pi\\sqrt{{{b + 1} + 2\\sqrt{{{b}}}}}"))


# -- expressions with symbols


@kind
def polynomials(rng: Random) -> Draw:
    a, b, n = rng.randint(1, 9), rng.randint(1, 9), rng.randint(2, 5)
    gold = f"x^{{{n}}} + {a + b}x^{{{n - 1}}} + {a * b}x^{{{n - 2}}}"
    form = f"x^{{{n - 2}}}(x + {a})(x + {b})"
    moved = f"x^{{{n - 2}}}(x + {a})(x + {b} + {tiny(rng)})"
    return Draw(gold, (form, f"({gold})"), (f"{form} + {tiny(rng)}", moved, f"x^{{{n - 1}}}(x + {a})(x + {b})"))


@kind
def powers_of_sums(rng: Random) -> Draw:
    n, a = rng.randint(3, 70), rng.randint(1, 5)
    gold = f"(x + {a})^{{{n}}}"
    wrong = (f"(x + {a})^{{{n - 1}}}(x + {a} + {tiny(rng)})", f"(x + {a})^{{{n + 1}}}", f"{gold} + {tiny(rng)}")
    return Draw(gold, (f"(x + {a})^{{{n - 1}}}(x + {a})", f"({a} + x)^{{{n}}}"), wrong)


@kind
def rational_functions(rng: Random) -> Draw:
    a = rng.randint(1, 9)
    b = a + rng.randint(1, 9)
    gold = f"\\frac{{{b - a}}}{{(x + {a})(x + {b})}}"
    form = f"\\frac{{1}}{{x + {a}}} - \\frac{{1}}{{x + {b}}}"
    return Draw(gold, (form,), (*near(rng, form), form.replace(f"{b}", f"{b + 1}", 1), f"{form} + {tiny(rng)}x"))


@kind
def roots_of_symbols(rng: Random) -> Draw:
    a = rng.randint(1, 9)
    gold = f"\\sqrt{{x + {a}}} - \\sqrt{{x}}"
    form = f"\\frac{{{a}}}{{\\sqrt{{x + {a}}} + \\sqrt{{x}}}}"
    return Draw(gold, (form,), (*near(rng, form), f"\\sqrt{{x + {a + 1}}} - \\sqrt{{x}}"))


IDENTITIES = (
    ("\\sin 2x", "2 \\sin x \\cos x"),
    ("\\cos 2x", "1 - 2\\sin^2 x"),
    ("\\sin 3x", "3 \\sin x - 4 \\sin^3 x"),
    ("\\tan^2 x + 1", "\\sec^2 x"),
    ("\\sin x + \\sin y", "2 \\sin\\frac{x + y}{2} \\cos\\frac{x - y}{2}"),
    ("\\cos(x + \\frac{\\pi}{3})", "\\frac{\\cos x - \\sqrt{3} \\sin x}{2}"),
    ("\\frac{\\sin x}{1 + \\cos x}", "\\tan\\frac{x}{2}"),
    ("\\sinh 2x", "2 \\sinh x \\cosh x"),
    ("\\cosh^2 x", "1 + \\sinh^2 x"),
    ("e^{2x} - e^{-2x}", "(e^x - e^{-x})(e^x + e^{-x})"),
    ("\\ln(xy)", "\\ln x + \\ln y"),
    ("\\ln x^3", "3 \\ln x"),
    ("\\arctan x + \\arctan\\frac{1}{x}", "\\frac{\\pi}{2}"),
    ("\\arcsin x + \\arccos x", "\\frac{\\pi}{2}"),
    ("2^{n + 3}", "8 \\cdot 2^n"),
    ("\\frac{(n + 1)!}{n!}", "n + 1"),
    ("\\binom{n}{2}", "\\frac{n(n - 1)}{2}"),
    ("\\cos^4 x - \\sin^4 x", "\\cos 2x"),
    ("\\tan(\\arccos x)", "\\frac{\\sqrt{1 - x^2}}{x}"),
    ("\\frac{1}{1 + e^{-x}}", "\\frac{e^x}{e^x + 1}"),
)


@kind
def identities(rng: Random) -> Draw:
    gold, form = rng.choice(IDENTITIES)
    factor, other = rng.randint(2, 9), rng.randint(1, 9)
    whole = f"{factor}\\left({form}\\right) + {other}"
    return Draw(f"{factor}\\left({gold}\\right) + {other}", (whole,), (*near(rng, whole), f"{whole} + {tiny(rng)}"))


# -- structures


def scalar(rng: Random) -> Draw:
    """A constant for a part of a structure."""
    parts = ("fractions", "radicals", "nested_radicals", "inverse_tangents", "logarithms", "angles", "near_zero")
    return KINDS[rng.choice(parts)](rng)


@kind
def tuples(rng: Random) -> Draw:
    left, right = scalar(rng), scalar(rng)
    forms = (f"\\left({left.rewritten[0]}, {right.rewritten[0]}\\right)",)
    second = f"\\left({left.rewritten[0]}, {right.different[0]}\\right)"
    first = f"\\left({left.different[0]}, {right.gold}\\right)"
    return Draw(f"\\left({left.gold}, {right.gold}\\right)", forms, (first, second))


@kind
def sets(rng: Random) -> Draw:
    part, n = scalar(rng), rng.randint(40, 99)
    forms = (f"\\{{{part.rewritten[0]}, {n}\\}}", f"\\{{{n}, {part.rewritten[-1]}, {n}\\}}")
    return Draw(f"\\{{{n}, {part.gold}\\}}", forms, (f"\\{{{n}, {part.different[0]}\\}}",))


@kind
def intervals(rng: Random) -> Draw:
    part = scalar(rng)
    forms = (f"({part.rewritten[0]}, \\infty)", f"x > {part.rewritten[0]}")
    wrong = (f"({part.different[0]}, \\infty)", f"[{part.rewritten[0]}, \\infty)", f"x > {part.different[0]}")
    return Draw(f"({part.gold}, \\infty)", forms, wrong)


@kind
def matrices(rng: Random) -> Draw:
    part, n = scalar(rng), rng.randint(1, 9)
    cells = "\\begin{{pmatrix}} {0} & {n} \\\\ 0 & {0} \\end{{pmatrix}}"
    mixed = f"\\begin{{pmatrix}} {part.gold} & {n} \\\\ 0 & {part.different[0]} \\end{{pmatrix}}"
    return Draw(cells.format(part.gold, n=n), (cells.format(part.rewritten[0], n=n),), (mixed,))


@kind
def equations(rng: Random) -> Draw:
    a, c, root = rng.randint(2, 9), rng.randint(2, 9), f"\\sqrt{{{surd(rng)}}}"
    gold = f"{a}x + {root}y = {c}"
    forms = (
        f"{a * c}x + {c}{root}y = {c * c}",
        f"{a}{root}x + {root}{root}y = {c}{root}",
        f"{c} - {a}x = {root}y",
    )
    wrong = (f"{gold} + {tiny(rng)}", f"{a}x + ({root} + {tiny(rng)})y = {c}", f"{a}x - {root}y = {c}")
    return Draw(gold, forms, wrong)


@kind
def inequalities(rng: Random) -> Draw:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    gold = f"{a}x - {b}y < {a * b}"
    forms = (f"{b}y - {a}x > -{a * b}", f"x - \\frac{{{b}}}{{{a}}}y < {b}")
    return Draw(gold, forms, (gold.replace("<", ">"), f"{gold} + {tiny(rng)}", gold.replace("<", "\\le")))


@kind
def quantities(rng: Random) -> Draw:
    n = rng.randint(1, 500)
    gold = f"{n} \\text{{ cm}}"
    return Draw(gold, (f"{10 * n} \\text{{ mm}}", str(n)), (f"{10 * n} \\text{{ cm}}", f"{n}.00000{n} \\text{{ cm}}"))


# -- what is read by computer algebra's own grammar


@kind
def integrals(rng: Random) -> Draw:
    n, top = rng.randint(1, 6), rng.randint(1, 4)
    gold = f"\\int_0^{{{top}}} x^{{{n}}} \\, dx"
    value = f"\\frac{{{top ** (n + 1)}}}{{{n + 1}}}"
    return Draw(gold, (value,), (f"{top ** (n + 1) / (n + 1):.6f}1", perturbed(rng, value), f"{value} = {value} + 1"))


@kind
def sums(rng: Random) -> Draw:
    a = rng.randint(2, 9)
    gold, value = rng.choice(
        (
            (f"\\sum_{{k=1}}^{{n}} {a}k", f"\\frac{{{a}n(n + 1)}}{{2}}"),
            ("\\sum_{k=1}^{n} k^2", "\\frac{n(n + 1)(2n + 1)}{6}"),
            (f"\\sum_{{k=0}}^{{\\infty}} \\frac{{1}}{{{a}^k}}", f"\\frac{{{a}}}{{{a - 1}}}"),
            ("\\sum_{k=1}^{\\infty} \\frac{1}{k^2}", "\\frac{\\pi^2}{6}"),
            (f"\\prod_{{k=1}}^{{{a}}} k", f"{a}!"),
        )
    )
    return Draw(gold, (value,), (perturbed(rng, value), f"{value} + 1"))


@kind
def limits(rng: Random) -> Draw:
    a = rng.randint(2, 9)
    gold = f"\\lim_{{x \\to 0}} \\frac{{\\sin {a}x}}{{x}}"
    return Draw(gold, (str(a),), (perturbed(rng, str(a)), f"{a}.000001", f"\\frac{{\\sin {a}}}{{1}}"))


# -- grading


class Pair(NamedTuple):
    kind: str
    gold: str
    answer: str


def pairs(count: int, seed: int, equal: bool) -> list[Pair]:
    """So many pairs of each kind in turn: true ones, or near-equal ones."""
    rng = Random(seed)
    return [pair for _, pair in zip(range(count), _endless(rng, equal), strict=False)]


def _endless(rng: Random, equal: bool) -> Iterator[Pair]:
    while True:
        for name, make in list(KINDS.items()):
            draw = make(rng)
            answers = draw.rewritten if equal else draw.different
            if answers:
                yield Pair(name, draw.gold, rng.choice(answers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--near", type=int, default=2_000)
    parser.add_argument("--true", type=int, default=1_200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    shared_pool().warm()
    facts: dict[str, Any] = {"kinds": len(KINDS)}
    times = Table("Time of a grade", "grades per second", "near-equal pairs")
    for name, count, equal in (("near-equal pairs", options.near, False), ("true pairs", options.true, True)):
        start, slowest, paid = time.perf_counter(), 0.0, 0
        missed: list[str] = []
        invalid = undecided = 0
        for pair in pairs(count, options.seed, equal):
            before = time.perf_counter()
            verdict = grade("math", f"\\boxed{{{pair.answer}}}", pair.gold)
            slowest = max(slowest, time.perf_counter() - before)
            paid += verdict.reward == 1
            invalid += not verdict.valid
            undecided += verdict.status == "unparsable"
            if (verdict.reward == 1) != equal:
                missed.append(f"{pair.kind}: `{pair.answer}` for `{pair.gold}` ({verdict.status}, {verdict.reason})")
        times.add(name, count / (time.perf_counter() - start))
        facts[f"{name}, paid"] = f"{paid} of {count}"
        facts[f"{name}, not decided"] = undecided
        facts[f"{name}, invalid"] = invalid
        facts[f"{name}, slowest in seconds"] = round(slowest, 2)
        facts[f"{name}, graded wrongly"] = "; ".join(missed[:12]) or "none"
        print("\n".join(missed))
    write_results("near_equal", [times], facts, options.out)


if __name__ == "__main__":
    main()
