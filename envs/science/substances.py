"""Electricity and chemistry: a quantity computed from a law."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from rlvr.envs.science.quantities import Law, Posed, Quantities, shown


def _parallel(*resistances: Fraction) -> Fraction:
    return 1 / sum((1 / r for r in resistances), Fraction(0))


def _source(u: Fraction) -> str:
    return f"A source of {u} V without internal resistance feeds "


def in_series(u: Fraction, a: Fraction, b: Fraction, c: Fraction) -> Posed:
    text = f"{_source(u)}resistors of {a}, {b} and {c} ohms in series. What current flows?"
    return Posed(text, u / (a + b + c), "A", (f"I = {u} / ({a} + {b} + {c}) = {u} / {a + b + c}",))


def in_parallel(u: Fraction, a: Fraction, b: Fraction, c: Fraction) -> Posed:
    text = f"{_source(u)}resistors of {a}, {b} and {c} ohms in parallel. What total current flows?"
    parts = u / a, u / b, u / c
    steps = (f"I = {u}/{a} + {u}/{b} + {u}/{c} = {' + '.join(map(shown, parts))}",)
    return Posed(text, sum(parts, Fraction(0)), "A", steps)


def _mixed(u: Fraction, a: Fraction, b: Fraction, c: Fraction) -> tuple[str, Fraction, str]:
    """A resistor in series with two in parallel: the text, the resistance of the two, and the step that finds it."""
    pair = _parallel(b, c)
    text = f"{_source(u)}a resistor of {a} ohms in series with a pair in parallel, of {b} and {c} ohms."
    return text, pair, f"The pair: {b} * {c} / ({b} + {c}) = {shown(pair)} ohms; in all {shown(a + pair)} ohms."


def mixed_current(u: Fraction, a: Fraction, b: Fraction, c: Fraction) -> Posed:
    text, pair, step = _mixed(u, a, b, c)
    steps = (step, f"I = {u} / {shown(a + pair)}")
    return Posed(f"{text} What current does it supply?", u / (a + pair), "A", steps)


def voltage_on_the_pair(u: Fraction, a: Fraction, b: Fraction, c: Fraction) -> Posed:
    text, pair, step = _mixed(u, a, b, c)
    steps = (step, f"U = {u} * {shown(pair)} / {shown(a + pair)}")
    return Posed(f"{text} What is the voltage across the pair?", u * pair / (a + pair), "V", steps)


def heat_in_a_branch(u: Fraction, a: Fraction, b: Fraction, c: Fraction, d: Fraction) -> Posed:
    branch = _parallel(b, c + d)
    voltage = u * branch / (a + branch)
    current = voltage / (c + d)
    text = f"{_source(u)}a resistor of {a} ohms in series with two parallel branches: one has a resistor of {b} ohms, "
    text += f"the other has {c} ohms followed by {d} ohms. What power turns into heat in the last resistor of the "
    text += f"second branch, the one of {d} ohms?"
    steps = (
        f"The branches together have {shown(branch)} ohms and a voltage of {shown(voltage)} V.",
        f"Through the second flows {shown(voltage)} / ({c} + {d}) = {shown(current)} A; P = I^2 * {d}",
    )
    return Posed(text, current**2 * d, "W", steps)


class Circuits(Quantities):
    """Find currents, voltages and heats in a circuit of resistors.

    Level 1: in series; 2: in parallel; 3: both; 4: the voltage on a part; 5: the heat in one of four resistors.
    """

    OHMS: ClassVar[tuple[int, int, int]] = (2, 90, 1)
    THREE: ClassVar[dict[str, tuple[int, int, int]]] = {"u": (3, 240, 1), "a": OHMS, "b": OHMS, "c": OHMS}
    laws: ClassVar[tuple[Law, ...]] = (
        Law(in_series, {"u": (3, 240, 1), "a": (1, 20, 1), "b": (1, 20, 1), "c": (1, 20, 1)}),
        Law(in_parallel, THREE),
        Law(mixed_current, THREE),
        Law(voltage_on_the_pair, THREE),
        Law(heat_in_a_branch, {**THREE, "d": OHMS}),
    )


SALTS = (("NaCl", "58.44"), ("KNO3", "101.10"), ("CuSO4", "159.61"), ("CaCl2", "110.98"), ("Na2CO3", "105.99"))
ACIDS = (("hydrochloric", 1), ("sulphuric", 2), ("phosphoric", 3))
# number, formula and g/mol of either reagent, what is made beside the product, then as before of the product
REACTIONS = (
    (1, "N2", "28.014", 3, "H2", "2.016", "", 2, "NH3", "17.031"),
    (1, "CH4", "16.043", 2, "O2", "31.998", " + CO2", 2, "H2O", "18.015"),
    (1, "Fe2O3", "159.69", 2, "Al", "26.982", " + Al2O3", 2, "Fe", "55.845"),
    (4, "Al", "26.982", 3, "O2", "31.998", "", 2, "Al2O3", "101.96"),
)


def dissolving(grams: Fraction, v: Fraction, kind: tuple[str, str]) -> Posed:
    salt, mass = kind
    text = f"{shown(grams)} g of {salt} ({mass} g/mol) is dissolved in water to make {v} ml of solution. What is the "
    text += "concentration?"
    moles = grams / Fraction(mass)
    steps = (f"{shown(grams)} / {mass} = {shown(moles)} mol", f"{shown(moles)} mol / {shown(v / 1000)} l")
    return Posed(text, moles / v * 1000, "mol/l", steps)


def diluting(v: Fraction, c: Fraction, w: Fraction) -> Posed:
    text = f"{w} ml of water is added to {v} ml of a solution of {shown(c)} mol/l. What is the concentration then?"
    return Posed(text, c * v / (v + w), "mol/l", (f"{shown(c)} * {v} / ({v} + {w}) = {shown(c * v)} / {v + w}",))


def blending(v: Fraction, c: Fraction, w: Fraction, e: Fraction) -> Posed:
    text = f"{v} ml of a solution of {shown(c)} mol/l and {w} ml of one of {shown(e)} mol/l, both of the same salt, "
    text += "are mixed. What is the concentration?"
    steps = (f"({shown(c)} * {v} + {shown(e)} * {w}) / ({v} + {w}) = {shown(c * v + e * w)} / {v + w}",)
    return Posed(text, (c * v + e * w) / (v + w), "mol/l", steps)


def neutralising(v: Fraction, c: Fraction, e: Fraction, kind: tuple[str, int]) -> Posed:
    acid, protons = kind
    text = f"What volume of a sodium hydroxide solution of {shown(e)} mol/l fully neutralises {v} ml of {acid} acid of "
    text += f"{shown(c)} mol/l, which gives off {protons} proton{'s' if protons > 1 else ''} per molecule?"
    steps = (f"V = {shown(c)} * {v} * {protons} / {shown(e)} = {shown(c * v * protons)} / {shown(e)}",)
    return Posed(text, c * v * protons / e, "ml", steps)


def yielding(
    m: Fraction, n: Fraction, share: Fraction, kind: tuple[int, str, str, int, str, str, str, int, str, str]
) -> Posed:
    p, left, first, q, right, second, beside, r, product, third = kind
    runs = m / Fraction(first) / p, n / Fraction(second) / q
    counts = [
        f"{number} {formula}" if number > 1 else formula for number, formula in ((p, left), (q, right), (r, product))
    ]
    text = f"In the reaction {counts[0]} + {counts[1]} -> {counts[2]}{beside}, {m} g of {left} ({first} g/mol) and {n} "
    text += f"g of {right} ({second} g/mol) react with a yield of {share}%. How much {product} ({third} g/mol) is made?"
    steps = (
        f"The reaction could run {shown(runs[0])} mol times by {left} and {shown(runs[1])} mol times by {right}; the "
        "smaller counts.",
        f"m = {shown(min(runs))} * {r} * {third} * {shown(share / 100)}",
    )
    return Posed(text, min(runs) * r * Fraction(third) * share / 100, "g", steps)


class Solutions(Quantities):
    """Find concentrations, volumes and yields in solutions.

    Level 1: diluting; 2: neutralising; 3: dissolving; 4: mixing; 5: a yield with a limiting reagent.
    """

    VOLUME: ClassVar[tuple[int, int, int]] = (20, 900, 1)
    STRENGTH: ClassVar[tuple[int, int, int]] = (5, 300, 100)
    laws: ClassVar[tuple[Law, ...]] = (
        Law(diluting, {"v": (10, 200, 1), "c": (1, 50, 10), "w": (10, 200, 1)}),
        Law(neutralising, {"v": VOLUME, "c": STRENGTH, "e": STRENGTH}, ACIDS),
        Law(dissolving, {"grams": (20, 360, 10), "v": (200, 900, 1)}, SALTS),  # no more than water dissolves
        Law(blending, {"v": VOLUME, "c": STRENGTH, "w": VOLUME, "e": STRENGTH}),
        Law(yielding, {"m": (20, 900, 1), "n": (20, 900, 1), "share": (40, 98, 1)}, REACTIONS),
    )
