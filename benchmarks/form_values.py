"""Families of natural forms whose answer is one value: numbers, formulas, sets, matrices, choices, names."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from natural_forms import Family, Pays, Spell

from rlvr.envs.rewards import grade


def graded(kind: str, gold: str, **options: Any) -> Pays:
    return lambda reply: grade(kind, reply, gold, **options).reward == 1


def thousands(separator: str) -> Spell:
    return lambda n: f"{n:,}".replace(",", separator) if abs(n) >= 1000 else None


def integers(kind: str, large: bool) -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        low, high = (1_000, 9_999_999) if large else (2, 999)
        value = rng.randint(low, high) * rng.choice((1, 1, 1, -1))
        return value, value + rng.choice((1, -1, 10, 7)), graded(kind, str(value))

    plain: list[Spell] = [
        str,
        str,
        str,
        lambda n: f"{n}.0",
        lambda n: str(n).replace("-", "\u2212"),
        lambda n: f"x = {n}",
        lambda n: f"n={n}",
        lambda n: f"\\text{{{n}}}",
        lambda n: f"\\mathbf{{{n}}}",
        lambda n: f"{n}\\,",
        lambda n: f"P(A \\mid B) = {n}",
        lambda n: f"g(f(3)) = {n}",
        lambda n: f"f(2) = {n}",
        lambda n: f"a_{{10}} = {n}",
        lambda n: f"x_1 = {n}",
        lambda n: f"|A| = {n}",
        lambda n: f"S(4) = {n}",
        lambda n: f"f^{{-1}}(2) = {n}",
        lambda n: f"{n} apples",
        lambda n: f"\\displaystyle {n}",
        lambda n: f"N = {n}",
        lambda n: f"f(x, y) = {n}",
        lambda n: f"E[X] = {n}",
        lambda n: f"f''(1) = {n}",
        lambda n: f"\\gcd(12, 18) = {n}",
        lambda n: f"f(g(2)) = {n}",
    ]
    grouped = [
        thousands(mark)
        for mark in (
            ",",
            ", "[:1],
            "{,}",
            "{\\,}",
            "\\,",
            "\\ ",
            "\u202f",
            "\u2009",
            "\u00a0",
            ",\\!",
            "\\!",
            "\\;",
            "~",
        )
    ]
    return Family(
        f"integers{', large' * large} ({kind})", draw, (plain[:10] if large else plain) + grouped * large, math=True
    )


def decimals() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        value = Fraction(rng.randint(101, 99_999), rng.choice((10, 100, 1000))) * rng.choice((1, 1, -1))
        return value, value + Fraction(rng.choice((1, -2, 3)), 100), graded("number", f"{float(value)}")

    def text(value: Fraction) -> str:
        return f"{float(value):g}" if abs(value) < 10_000 else str(float(value))

    spells: list[Spell] = [
        text,
        text,
        lambda v: text(v) + "0" if "." in text(v) else None,
        lambda v: f"x = {text(v)}",
        lambda v: f"\\text{{{text(v)}}}",
        lambda v: text(v).replace("-", "\u2212"),
        lambda v: f"{text(v)} units",
        lambda v: f"\\frac{{{v.numerator}}}{{{v.denominator}}}",
        lambda v: f"{text(v)}\\,\\text{{m}}",
    ]
    return Family("decimals", draw, spells, math=True)


def fractions(kind: str) -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        value = Fraction(rng.randint(1, 40), rng.randint(2, 40)) * rng.choice((1, 1, -1))
        while value.denominator == 1:
            value = Fraction(rng.randint(1, 40), rng.randint(2, 40))
        other = value + Fraction(1, value.denominator)
        other += abs(other) == 1  # a half divided by one is a half
        return value, other, graded(kind, f"\\frac{{{value.numerator}}}{{{value.denominator}}}")

    def built(name: str, shape: str = "{{{}}}{{{}}}") -> Spell:
        return lambda v: ("-" if v < 0 else "") + f"\\{name}" + shape.format(abs(v.numerator), v.denominator)

    spells: list[Spell] = [
        str,
        str,
        built("frac"),
        built("frac"),
        built("dfrac"),
        built("tfrac"),
        built("cfrac"),
        lambda v: f"-({-v})" if v < 0 else f"({v})",
        lambda v: f"{v.numerator} / {v.denominator}",
        lambda v: f"\\frac{{{v.numerator}}}{{{v.denominator}}}",
        lambda v: f"x = {v}",
        lambda v: f"P(A) = {v}",
        lambda v: f"P(A \\mid B) = {v}",
        lambda v: f"P(A|B) = {v}",
        lambda v: f"\\text{{P}}(A) = {v}",
        lambda v: f"-\\left({-v}\\right)" if v < 0 else f"\\left({v}\\right)",
        lambda v: f"{v.numerator}\\over{v.denominator}",
        lambda v: f"\\frac{v.numerator}{v.denominator}" if 0 < v.numerator < 10 > v.denominator else None,
        lambda v: f"+{v}" if v > 0 else None,
        lambda v: f"\\frac{{-{-v.numerator}}}{{{v.denominator}}}" if v < 0 else None,
        lambda v: f"-\\frac{{{-v.numerator}}}{{{v.denominator}}}" if v < 0 else None,
        lambda v: f"{{{v.numerator} \\over {v.denominator}}}",
    ]
    return Family(f"fractions ({kind})", draw, spells, math=True)


def mixed(kind: str) -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        bottom = rng.randint(2, 12)
        parts = (rng.randint(1, 40), rng.randint(1, bottom - 1), bottom)
        value = parts[0] + Fraction(parts[1], bottom)
        return parts, (parts[0] + 1, *parts[1:]), graded(kind, f"\\frac{{{value.numerator}}}{{{value.denominator}}}")

    vulgar = {(1, 2): "\u00bd", (1, 3): "\u2153", (2, 3): "\u2154", (1, 4): "\u00bc", (3, 4): "\u00be"}
    spells: list[Spell] = [
        lambda p: f"{p[0]}\\frac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0]} {p[1]}/{p[2]}",
        lambda p: f"{p[0]}\\,\\frac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0]} \\frac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0]}\\dfrac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0]}\\,\\frac{p[1]}{p[2]}" if p[2] < 10 else None,
        lambda p: f"{p[0]}\\tfrac{p[1]}{p[2]}" if p[2] < 10 else None,
        lambda p: f"{p[0]}\\;\\tfrac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0]}{vulgar[p[1:]]}" if p[1:] in vulgar else None,
        lambda p: f"{p[0]} + \\frac{{{p[1]}}}{{{p[2]}}}" if kind == "math" else None,
        lambda p: f"{p[0]}\\ \\frac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0]}\u00a0{p[1]}/{p[2]}",
        lambda p: f"{p[0]}~\\frac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"x = {p[0]}\\frac{{{p[1]}}}{{{p[2]}}}",
        lambda p: f"{p[0] * p[2] + p[1]}/{p[2]}",
    ]
    return Family(f"mixed numbers ({kind})", draw, spells, math=True)


def percentages() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        value = rng.choice((rng.randint(1, 99), rng.randint(11, 999) / 10))
        return value, value + 1, graded(rng.choice(("number", "math")), f"{value}\\%")

    spells: list[Spell] = [
        lambda v: f"{v}%",
        lambda v: f"{v}\\%",
        lambda v: f"{v} %",
        lambda v: f"{v} percent",
        lambda v: f"{v}\\text{{%}}",
        lambda v: f"{v}\\,\\%",
        lambda v: f"{v}\\text{{ percent}}",
        str,
        lambda v: f"{v} \\%",
        lambda v: f"x = {v}\\%",
        lambda v: f"{v} per cent",
    ]
    return Family("percentages", draw, spells, math=True)


def money() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        cents = rng.choice((rng.randint(1, 999) * 100, rng.randint(100, 999_999)))
        return cents, cents + rng.choice((100, -50, 1)), graded("number", f"{cents / 100:.2f}")

    def amount(cents: int, comma: bool = True) -> str:
        whole = f"{cents // 100:,}" if comma else str(cents // 100)
        return whole if cents % 100 == 0 else f"{whole}.{cents % 100:02}"

    spells: list[Spell] = [
        lambda c: f"${amount(c)}",
        lambda c: f"\\${amount(c)}",
        lambda c: f"${c // 100}.{c % 100:02}",
        lambda c: f"{amount(c)} dollars",
        lambda c: f"\\${amount(c, False)}",
        lambda c: f"{amount(c)} USD",
        lambda c: f"\\text{{\\${amount(c)}}}",
        lambda c: f"{amount(c)}\\text{{ dollars}}",
        lambda c: f"\u20ac{amount(c)}",
        lambda c: f"\u00a3{amount(c)}",
        lambda c: f"{amount(c)} \u20ac",
        lambda c: f"\\$ {amount(c)}",
        lambda c: f"USD {amount(c)}",
        lambda c: f"US${amount(c)}",
        lambda c: amount(c),
        lambda c: f"{amount(c)}$",
    ]
    return Family("money", draw, spells)


UNITS = (
    "km",
    "hours",
    "km/h",
    "cm",
    "m",
    "minutes",
    "kg",
    "miles",
    "square meters",
    "cm^2",
    "m/s",
    "liters",
    "days",
    "mph",
    "apples",
    "degrees",
    "J",
    "m/s^2",
    "students",
    "feet",
    "cubic inches",
    "people",
)


def units(kind: str) -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        value, unit = rng.choice((rng.randint(2, 9000), rng.randint(11, 999) / 10)), rng.choice(UNITS)
        return (value, unit), (value + 1, unit), graded(kind, f"{value}")

    def word(unit: str) -> bool:
        return "^" not in unit

    spells: list[Spell] = [
        lambda p: f"{p[0]} {p[1]}",
        lambda p: f"{p[0]}\\text{{ {p[1]}}}" if word(p[1]) else None,
        lambda p: f"{p[0]} \\text{{ {p[1]}}}" if word(p[1]) else None,
        lambda p: f"{p[0]}\\ \\text{{{p[1]}}}" if word(p[1]) else None,
        lambda p: f"{p[0]}\\,\\text{{{p[1]}}}" if word(p[1]) else None,
        lambda p: f"{p[0]}\\;\\mathrm{{{p[1]}}}" if p[1].isalpha() else None,
        lambda p: f"{p[0]}~\\text{{{p[1]}}}" if word(p[1]) else None,
        lambda p: f"{p[0]}\u00a0{p[1]}",
        lambda p: f"{p[0]}\u202f{p[1]}",
        lambda p: f"{p[0]} \\, \\text{{{p[1]}}}" if word(p[1]) else None,
        lambda p: f"x = {p[0]} {p[1]}",
        lambda p: f"\\text{{{p[0]} {p[1]}}}" if word(p[1]) else None,
        lambda p: f"{p[0]} \\mathrm{{\\ {p[1]}}}" if p[1].isalpha() else None,
        lambda p: f"{p[0]}^\\circ" if p[1] == "degrees" else None,
        lambda p: f"{p[0]}\u00b0" if p[1] == "degrees" else None,
        lambda p: f"{p[0]} cm\u00b2" if p[1] == "cm^2" else None,
        lambda p: f"{p[0]}\\text{{ cm}}^2" if p[1] == "cm^2" else None,
        lambda p: f"{p[0]}\\text{{ m/s}}^2" if p[1] == "m/s^2" else None,
    ]
    return Family(f"units ({kind})", draw, spells)


def complexes() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        a, b = rng.randint(-20, 20) or 3, rng.randint(-20, 20) or 2
        return (a, b), (a, -b), graded("math", f"{a} {'-' if b < 0 else '+'} {'' if abs(b) == 1 else abs(b)}i")

    def sign(b: int) -> str:
        return "-" if b < 0 else "+"

    spells: list[Spell] = [
        lambda p: f"{p[0]} {sign(p[1])} {abs(p[1])}i",
        lambda p: f"{p[0]}{sign(p[1])}{abs(p[1])}i",
        lambda p: f"{p[0]}.0 + {p[1]}.0i",
        lambda p: f"{p[0]} + {p[1]}i",
        lambda p: f"{p[1]}i {'-' if p[0] < 0 else '+'} {abs(p[0])}",
        lambda p: f"z = {p[0]} {sign(p[1])} {abs(p[1])}i",
        lambda p: f"{p[0]} {sign(p[1])} {abs(p[1])} i",
        lambda p: f"({p[0]}) + ({p[1]})i",
        lambda p: f"{p[0]} {sign(p[1])} {abs(p[1])}\\mathrm{{i}}",
        lambda p: f"{p[0]} {sign(p[1])} {abs(p[1])}\\,i",
        lambda p: f"{p[0]} {sign(p[1])} {abs(p[1])}\\cdot i",
        lambda p: f"{p[0]} {sign(p[1])} i \\cdot {abs(p[1])}",
        lambda p: f"{p[0]} {sign(p[1])} {abs(p[1])}*i",
        lambda p: f"{p[0]}\u2212{abs(p[1])}i" if p[1] < 0 else None,
    ]
    return Family("complex", draw, spells, math=True)


def surds() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        k, r = rng.randint(2, 30), rng.choice((2, 3, 5, 6, 7, 10, 11, 13, 15, 21))
        n = rng.choice((0, rng.randint(1, 20)))
        head = f"{n} + " if n else ""
        return (k, r, n), (k + 1, r, n), graded("math", f"{head}{k}\\sqrt{{{r}}}")

    def around(form: Callable[[int, int], str], joint: str = " + ") -> Spell:
        return lambda p: (f"{p[2]}{joint}" if p[2] else "") + form(p[0], p[1])

    spells: list[Spell] = [
        around(lambda k, r: f"{k}\\sqrt{{{r}}}"),
        around(lambda k, r: f"{k}\\sqrt{{{r}}}", "+"),
        around(lambda k, r: f"{k}\u221a{r}"),
        around(lambda k, r: f"{k}\u221a({r})"),
        around(lambda k, r: f"{k}*sqrt({r})"),
        around(lambda k, r: f"{k}sqrt({r})"),
        around(lambda k, r: f"{k} sqrt({r})"),
        around(lambda k, r: f"{k} \\sqrt {r}"),
        around(lambda k, r: f"{k} \\cdot \\sqrt{{{r}}}"),
        around(lambda k, r: f"{k}\\,\\sqrt{{{r}}}"),
        around(lambda k, r: f"{k}\\sqrt{r}" if r < 10 else f"{k}\\sqrt{{{r}}}"),
        around(lambda k, r: f"{k} \\times \\sqrt{{{r}}}"),
        around(lambda k, r: f"{k}{{\\sqrt{{{r}}}}}"),
        around(lambda k, r: f"{k} \u221a{r}"),
        around(lambda k, r: f"\\sqrt{{{k * k * r}}}"),
        around(lambda k, r: f"{k}\u00b7\u221a{r}"),
        around(lambda k, r: f"{k} * \u221a{r}"),
        around(lambda k, r: f"{k}\\cdot {r}^{{1/2}}"),
        around(lambda k, r: f"{k} root {r}")
        if False
        else around(lambda k, r: f"{k}\\sqrt{{\\mathstrut {r}}}")
        if False
        else around(lambda k, r: f"\\sqrt{{{r}}} \\cdot {k}"),
        lambda p: f"x = {p[0]}\\sqrt{{{p[1]}}}" if not p[2] else f"x = {p[2]} + {p[0]}\\sqrt{{{p[1]}}}",
        lambda p: f"{p[0]}\\sqrt{{{p[1]}}} + {p[2]}" if p[2] else None,
        lambda p: f"{p[0]}\\sqrt{{{p[1]}}} \\approx {p[0] * math.sqrt(p[1]):.2f}" if not p[2] else None,
        lambda p: f"{p[0]}\\sqrt{{{p[1]}}}\\text{{ cm}}" if not p[2] else None,
        lambda p: f"\\left({p[2]} + {p[0]}\\sqrt{{{p[1]}}}\\right)" if p[2] else None,
    ]
    return Family("surds", draw, spells, math=True)


def expressions() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        a, b, c = rng.randint(2, 9), rng.randint(2, 20) * rng.choice((1, -1)), rng.randint(2, 30) * rng.choice((1, -1))
        return (a, b, c), (a, b, -c), graded("math", f"{a}x^2 {b:+}x {c:+}".replace("+", "+ ").replace("-", "- "))

    def s(n: int) -> str:
        return "-" if n < 0 else "+"

    def poly(p: Sequence[int], x: str = "x", square: str = "^2", dot: str = "") -> str:
        return f"{p[0]}{dot}{x}{square} {s(p[1])} {abs(p[1])}{dot}{x} {s(p[2])} {abs(p[2])}"

    spells: list[Spell] = [
        poly,
        poly,
        lambda p: poly(p).replace(" ", ""),
        lambda p: poly(p, square="^{2}"),
        lambda p: poly(p, square="\u00b2"),
        lambda p: poly(p, dot="*"),
        lambda p: poly(p, dot=" \\cdot "),
        lambda p: poly(p, square="**2", dot="*"),
        lambda p: f"f(x) = {poly(p)}",
        lambda p: f"y = {poly(p)}",
        lambda p: f"{p[0]}x^2 + {p[1]}x + {p[2]}",
        lambda p: f"{p[2]} {s(p[1])} {abs(p[1])}x + {p[0]}x^2",
        lambda p: f"x({p[0]}x {s(p[1])} {abs(p[1])}) {s(p[2])} {abs(p[2])}",
        lambda p: poly(p).replace("-", "\u2212"),
        lambda p: f"({poly(p)})",
        lambda p: f"{p[0]}x\\cdot x + ({p[1]})x + ({p[2]})",
        lambda p: poly(p).replace("x", "{x}"),
        lambda p: poly(p).replace(" ", "\\,"),
        lambda p: f"p(x)={poly(p)}",
    ]
    return Family("expressions", draw, spells, math=True)


def sets() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        values = sorted(rng.sample(range(-20, 60), rng.randint(2, 5)))
        return values, [*values[:-1], values[-1] + 1], graded("math", f"\\{{{', '.join(map(str, values))}\\}}")

    def joined(shape: str, mark: str = ", ") -> Spell:
        return lambda v: shape.replace("#", mark.join(map(str, v)))

    spells: list[Spell] = [
        joined("\\{#\\}"),
        joined("{#}"),
        joined("\\{ # \\}"),
        joined("\\left\\{#\\right\\}"),
        joined("#"),
        joined("\\lbrace # \\rbrace"),
        joined("\\{#\\}", ","),
        joined("x \\in \\{#\\}"),
        joined("S = \\{#\\}"),
        joined("\\{#\\}", ",\\ "),
        joined("\\{#\\}", ",\\,"),
        lambda v: f"{', '.join(map(str, v[:-1]))} and {v[-1]}",
        lambda v: ", ".join(f"x = {n}" for n in v),
        joined("\\big\\{#\\big\\}"),
    ]
    return Family("sets", draw, spells, math=True, brackets=False)


def intervals() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        a = rng.randint(-20, 20)
        b = a + rng.randint(1, 30)
        left, right = rng.choice("(["), rng.choice(")]")
        return (left, a, b, right), (left, a, b + 1, right), graded("math", f"{left}{a}, {b}{right}")

    def less(closed: bool) -> str:
        return " \\le " if closed else " < "

    spells: list[Spell] = [
        lambda p: f"{p[0]}{p[1]}, {p[2]}{p[3]}",
        lambda p: f"{p[0]}{p[1]},{p[2]}{p[3]}",
        lambda p: f"\\left{p[0]}{p[1]}, {p[2]}\\right{p[3]}",
        lambda p: f"x \\in {p[0]}{p[1]}, {p[2]}{p[3]}",
        lambda p: f"{p[1]}{less(p[0] == '[')}x{less(p[3] == ']')}{p[2]}",
        lambda p: f"{p[0]}{p[1]}, {p[2]}{p[3]}".replace("-", "\u2212"),
        lambda p: f"\\big{p[0]}{p[1]}, {p[2]}\\big{p[3]}",
        lambda p: f"{p[0]}{p[1]},\\, {p[2]}{p[3]}",
        lambda p: f"{p[0]}{p[1]},\\ {p[2]}{p[3]}",
        lambda p: f"{p[1]}{less(p[0] == '[')}x{less(p[3] == ']')}{p[2]}".replace("\\le", "\u2264"),
    ]
    return Family("intervals", draw, spells, math=True, brackets=False)


def choices(with_texts: bool) -> Family:
    words = "amplitude frequency wavelength period velocity energy momentum pressure density phase charge mass".split()

    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        letters = "ABCDEFGHIJ"[: rng.choice((4, 4, 4, 5, 10))]
        options = [rng.choice(("the ", "", "its ")) + word for word in rng.sample(words, len(letters))]
        a, b = rng.sample(range(len(letters)), 2)
        pays = graded("choice", letters[a], letters=letters, **({"options": options} if with_texts else {}))
        return (letters[a], options[a]), (letters[b], options[b]), pays

    spells: list[Spell] = [
        lambda p: p[0],
        lambda p: p[0],
        lambda p: f"({p[0]})",
        lambda p: f"{p[0]}.",
        lambda p: f"{p[0]})",
        lambda p: f"\\text{{{p[0]}}}",
        lambda p: f"Option {p[0]}",
        lambda p: f"option ({p[0]})",
        lambda p: f"\\text{{({p[0]})}}",
        lambda p: f"\\mathrm{{{p[0]}}}",
        lambda p: p[0].lower(),
        lambda p: f"{p[0]}) {p[1]}",
        lambda p: f"{p[0]}. {p[1]}",
        lambda p: f"{p[0]}: {p[1]}",
        lambda p: f"({p[0]}) {p[1]}",
        lambda p: f"{p[0]} - {p[1]}",
        lambda p: f"\\text{{{p[0]}) {p[1]}}}",
        lambda p: f"{p[0]} ({p[1]})",
        lambda p: f"Choice {p[0]}",
        lambda p: f"option {p[0]}: {p[1]}",
    ]
    if with_texts:
        spells += [lambda p: p[1], lambda p: p[1].capitalize(), lambda p: f"{p[0]}, {p[1]}", lambda p: f"{p[0]} {p[1]}"]
    return Family(f"choices{', texts known' * with_texts}", draw, spells, brackets=False, no_doubts=("{a}",))


def matrices() -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        rows = [[rng.randint(-9, 20) for _ in range(rng.choice((2, 3)))]]
        rows += [[rng.randint(-9, 20) for _ in rows[0]] for _ in range(rng.choice((1, 2)))]
        other = [*rows[:-1], [*rows[-1][:-1], rows[-1][-1] + 1]]
        return rows, other, graded("math", tex("pmatrix")(rows) or "")

    def tex(name: str, head: str = "", end: str = "") -> Spell:
        return lambda r: (
            f"{head}\\begin{{{name}}} "
            + " \\\\ ".join(" & ".join(map(str, row)) for row in r)
            + f"{end} \\end{{{name}}}"
        )

    def array(left: str, right: str) -> Spell:
        return lambda r: (
            f"\\left{left}\\begin{{array}}{{{'c' * len(r[0])}}} "
            + " \\\\ ".join(" & ".join(map(str, row)) for row in r)
            + f" \\end{{array}}\\right{right}"
        )

    spells = [
        tex("pmatrix"),
        tex("bmatrix"),
        tex("pmatrix", "A = "),
        tex("bmatrix", "A^{-1} = "),
        tex("matrix"),
        array("(", ")"),
        array("[", "]"),
        lambda r: str(r),
        tex("pmatrix", end=" \\\\"),
        tex("bmatrix", "M = "),
        lambda r: (tex("bmatrix")(r) or "").replace("-", "\u2212"),
        lambda r: (tex("pmatrix")(r) or "").replace(" & ", "&"),
        tex("smallmatrix"),
    ]
    return Family("matrices", draw, spells, math=True, brackets=False)


def exact(label: str, pairs: Sequence[tuple[str, str]]) -> Family:
    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        a, b = rng.choice(pairs)
        return a, b, graded("exact", a)

    spells: list[Spell] = [
        str,
        str,
        str.lower,
        str.upper,
        lambda t: f"\\text{{{t}}}",
        lambda t: f"'{t}'",
        lambda t: f"*{t}*",
        lambda t: f"\\textbf{{{t}}}",
        lambda t: f"\u201c{t}\u201d",
        lambda t: f"\\mathrm{{{t}}}",
        lambda t: f"the {t}",
        lambda t: f"\\text{{ {t} }}",
    ]
    return Family(label, draw, spells, brackets=True)


NAMES = [
    ("Paris", "Rome"),
    ("Marie Curie", "Pierre Curie"),
    ("Lake Superior", "Lake Huron"),
    ("oxygen", "nitrogen"),
    ("The Great Gatsby", "The Old Man and the Sea"),
    ("1066", "1067"),
    ("New York", "Boston"),
    ("Jupiter", "Saturn"),
]
YES = [("yes", "no"), ("no", "yes"), ("Yes", "No"), ("No", "Yes"), ("true", "false"), ("false", "true")]
