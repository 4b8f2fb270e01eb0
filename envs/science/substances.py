"""Electricity and chemistry: four options computed from formulas. One turn each; reward 1 for the right letter.

Circuits: currents, voltages and powers in networks of resistors.
Solutions: concentrations, dilution, neutralisation and yields.
"""

from __future__ import annotations

import random
from fractions import Fraction

from rlvr.envs.science.choices import Choices, DrawnChoice


def _parallel(*resistances: int | Fraction) -> Fraction:
    return 1 / sum((Fraction(1) / r for r in resistances), Fraction(0))


class Circuits(Choices):
    """Find currents, voltages and heats in a circuit of resistors.

    Level 1: in series; 2: side by side; 3: both; 4: the voltage on a part; 5: the heat in one of four resistors.
    """

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        u, a, b, c, d = rng.randint(3, 240), *(rng.randint(2, 90) for _ in range(4))
        source = f"A source of {u} V without inner resistance feeds "
        if level == 1:
            text = f"{source}resistors of {a}, {b} and {c} ohm in series. What current flows?"
            wrong = (u / _parallel(a, b, c), Fraction(u, a), Fraction(u, a + b), Fraction(a + b + c, u))
            return DrawnChoice(text, Fraction(u, a + b + c), " ampere", wrong, (f"I = {u} / ({a} + {b} + {c})",))
        if level == 2:
            total = _parallel(a, b, c)
            text = f"{source}resistors of {a}, {b} and {c} ohm side by side. What current flows in all?"
            wrong = (Fraction(u, a + b + c), Fraction(u, a), u / _parallel(a, b), 3 * Fraction(u, a + b + c))
            return DrawnChoice(text, u / total, " ampere", wrong, (f"I = {u}/{a} + {u}/{b} + {u}/{c}",))
        pair = _parallel(b, c)
        whole = a + pair
        text = f"{source}a resistor of {a} ohm in series with two side by side, of {b} and {c} ohm"
        steps: tuple[str, ...] = (f"Side by side: {pair} ohm; with {a} ohm in series: {whole} ohm.",)
        if level == 3:
            wrong = (Fraction(u, a + b + c), u / _parallel(a, b, c), u / pair, Fraction(u, a))
            return DrawnChoice(
                f"{text}. What current does it give?", u / whole, " ampere", wrong, (*steps, f"{u} / {whole}")
            )
        if level == 4:
            wrong = (u * a / whole, Fraction(u * b, a + b), Fraction(u * (b + c), a + b + c), Fraction(u, 2))
            steps = (*steps, f"{u} * {pair} / {whole}")
            return DrawnChoice(f"{text}. What is the voltage on the two?", u * pair / whole, " volt", wrong, steps)
        branch = _parallel(b, c + d)
        voltage = u * branch / (a + branch)
        current = voltage / (c + d)
        text = f"{source}a resistor of {a} ohm in series with two branches side by side: one of {b} ohm, and "
        text += f"one of {c} ohm and "
        text += f"{d} ohm in a row. What power turns into heat in the resistor of {d} ohm that stands in that row?"
        steps = (
            f"The branches have {branch} ohm together and a voltage of {voltage} V.",
            f"Through the row flow {current} A; P = I^2 * {d}",
        )
        wrong = (voltage**2 / d, current**2 * (c + d), current * voltage, (u / (a + branch)) ** 2 * d)
        return DrawnChoice(text, current**2 * d, " W", wrong, steps)


class Solutions(Choices):
    """Find concentrations, volumes and yields in solutions.

    Level 1: dissolving; 2: diluting; 3: mixing; 4: neutralising; 5: a yield with a limiting reagent.
    """

    SALTS = (("NaCl", "58.44"), ("KNO3", "101.10"), ("CuSO4", "159.61"), ("CaCl2", "110.98"), ("Na2CO3", "105.99"))
    # formula, g/mol and number of either reagent, then of the product
    REACTIONS = (
        ("N2", "28.014", 1, "H2", "2.016", 3, "NH3", "17.031", 2),
        ("CH4", "16.043", 1, "O2", "31.998", 2, "H2O", "18.015", 2),
        ("Fe2O3", "159.69", 1, "Al", "26.982", 2, "Fe", "55.845", 2),
        ("Al", "26.982", 4, "O2", "31.998", 3, "Al2O3", "101.96", 2),
    )

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        salt, mass = rng.choice(self.SALTS)
        molar = Fraction(mass)
        v, w = rng.randint(20, 900), rng.randint(20, 900)
        c, e = Fraction(rng.randint(5, 300), 100), Fraction(rng.randint(5, 300), 100)
        if level == 1:
            grams = Fraction(rng.randint(10, 900), 10)
            text = f"{float(grams)} g of {salt} ({mass} g/mol) are dissolved to {v} ml of solution. What is "
            text += "the concentration?"
            right = grams / molar / v * 1000
            wrong = (grams / v * 1000, right / 1000, molar / grams / v * 1000, grams / molar * v / 1000)
            return DrawnChoice(text, right, " mol/l", wrong, (f"{grams} / {molar} / {Fraction(v, 1000)}",))
        if level == 2:
            text = f"{v} ml of a solution of {float(c)} mol/l get {w} ml of water. What is the concentration then?"
            wrong = (c * v / w, c * w / (v + w), c * (v + w) / v, c * w / v)
            return DrawnChoice(text, c * v / (v + w), " mol/l", wrong, (f"{c} * {v} / ({v} + {w})",))
        if level == 3:
            text = f"{v} ml of {float(c)} mol/l and {w} ml of {float(e)} mol/l of one salt are mixed. What "
            text += "is the concentration?"
            wrong = ((c + e) / 2, (c * w + e * v) / (v + w), c + e, (c * v + e * w) / max(v, w))
            return DrawnChoice(
                text, (c * v + e * w) / (v + w), " mol/l", wrong, (f"({c} * {v} + {e} * {w}) / ({v} + {w})",)
            )
        if level == 4:
            acid, protons = rng.choice((("hydrochloric", 1), ("sulphuric", 2), ("phosphoric", 3)))
            text = f"What volume of sodium hydroxide of {float(e)} mol/l fully neutralises {v} ml of {acid} "
            text += f"acid ({protons} "
            text += f"proton{'s' if protons > 1 else ''} each) of {float(c)} mol/l?"
            wrong = (c * v / e, c * v / (e * (protons + 1)), e * v * protons / c, c * v * (protons + 1) / e)
            return DrawnChoice(text, c * v * protons / e, " ml", wrong, (f"{c} * {v} * {protons} / {e}",))
        one, first, p, two, second, q, product, third, r = rng.choice(self.REACTIONS)
        m, n, share = Fraction(rng.randint(20, 900)), Fraction(rng.randint(20, 900)), rng.randint(40, 98)
        amounts = m / Fraction(first), n / Fraction(second)
        runs = amounts[0] / p, amounts[1] / q
        full = Fraction(third) * r * share / 100
        text = f"{p} {one} ({first} g/mol) and {q} {two} ({second} g/mol) give {r} {product} ({third} "
        text += f"g/mol). {m} g of {one} and "
        text += f"{n} g of {two} react with a yield of {share}%. How much {product} is made?"
        steps = (
            f"Formula runs: {float(runs[0]):.4f} mol by {one}, {float(runs[1]):.4f} mol by {two}; the smaller counts.",
            f"Times {r} * {third} * {share}%",
        )
        wrong = (max(runs) * full, min(runs) * full * 100 / share, min(amounts) * full, min(runs) * full / r)
        return DrawnChoice(text, min(runs) * full, " g", wrong, steps)
