"""Mechanics and heat: four options computed from formulas. One turn each; reward 1 for the right letter.

Motion: distances, times and speeds under constant acceleration.
Forces: slopes, friction, pulleys.
Energy: kinetic, potential and elastic energy, and collisions.
IdealGas: states of a gas and what changes them.
Calorimetry: mixing, melting and heating.
"""

from __future__ import annotations

import random
from fractions import Fraction

from rlvr.envs.science.choices import Choices, DrawnChoice

G = Fraction(981, 100)


class Motion(Choices):
    """Find distances, speeds and times of uniformly accelerated motion.

    Level 1: from rest; 2: with a start; 3: braking; 4: a throw; 5: catching up.
    """

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        steps: tuple[str, ...]
        wrong: tuple[Fraction, ...]
        a, t, v = Fraction(rng.randint(50, 900), 100), rng.randint(3, 60), rng.randint(4, 60)
        if level == 1:
            text = f"A car starts from rest and gains {float(a)} m/s of speed each second. How far is it after {t} s?"
            steps = (f"s = a t^2 / 2 = {a} * {t}^2 / 2",)
            return DrawnChoice(text, a * t * t / 2, " m", (a * t * t, a * t, a * t / 2, a * a * t / 2), steps)
        if level == 2:
            text = f"A train at {v} m/s speeds up by {float(a)} m/s each second. How far does it go in the next {t} s?"
            right = v * t + a * t * t / 2
            steps = (f"s = v t + a t^2 / 2 = {v} * {t} + {a} * {t}^2 / 2",)
            return DrawnChoice(
                text, right, " m", (v * t + a * t * t, v * t - a * t * t / 2, a * t * t / 2, v * t + a * t), steps
            )
        if level == 3:
            delay = Fraction(rng.randint(3, 25), 10)
            text = f"A driver at {v} m/s reacts after {float(delay)} s and then brakes with {float(a)} m/s^2. "
            text += "How far does "
            stop = Fraction(v * v) / (2 * a)
            steps = (f"Before braking {v} * {delay} = {v * delay} m", f"Braking v^2/(2a) = {stop} m", "Both together.")
            wrong = (stop, v * delay + 2 * stop, stop - v * delay, v * delay + stop / 2)
            return DrawnChoice(text + "the car go until it stands?", v * delay + stop, " m", wrong, steps)
        if level == 4:
            height = rng.randint(5, 900)
            text = f"A stone is thrown straight up at {v} m/s from a tower {height} m high. With g = 9.81 m/s^2 "
            text += "and no drag, how "
            text += "high above the ground does it rise?"
            rise = v * v / (2 * G)
            steps = (f"Rise v^2/(2g) = {v}^2 / 19.62", f"Above the ground {height} m more.")
            return DrawnChoice(
                text, height + rise, " m", (rise, height + 2 * rise, height + Fraction(v) / G, height + rise / 2), steps
            )
        lead = rng.randint(20, 900)
        slow = rng.randint(2, v)
        text = f"A lorry at a steady {slow} m/s is {lead} m ahead of a car at {slow + v} m/s, which at that "
        text += "moment brakes with "
        text += f"{float(a)} m/s^2 until both are equally fast. How large is the gap between them then (negative "
        text += "if it has passed)?"
        closed = Fraction(v * v) / (2 * a)
        steps = (
            f"Seen from the lorry the car has {v} m/s and brakes to rest.",
            f"It closes v^2/(2a) = {closed} m of {lead} m.",
        )
        whole = Fraction((slow + v) ** 2) / (2 * a)
        return DrawnChoice(text, lead - closed, " m", (lead - 2 * closed, lead - whole, lead + closed, closed), steps)


class Forces(Choices):
    """Find accelerations and forces by Newton's laws.

    Level 1: a net force; 2: friction; 3: a slope; 4: a slope with friction; 5: two bodies over a pulley.
    """

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        steps: tuple[str, ...]
        wrong: tuple[Fraction, ...]
        m, n, force = rng.randint(2, 900), rng.randint(2, 900), rng.randint(50, 900)
        mu = Fraction(rng.randint(5, 60), 100)
        base, height, slant = rng.choice(((4, 3, 5), (12, 5, 13), (15, 8, 17), (24, 7, 25), (21, 20, 29), (35, 12, 37)))
        rule = " Take g = 9.81 m/s^2."
        if level == 1:
            against = rng.randint(5, force - 20)
            text = f"A body of {m} kg is pulled by {force} N against a resistance of {against} N. What is its "
            text += "acceleration?"
            right = Fraction(force - against, m)
            wrong = (
                Fraction(force, m),
                Fraction(force + against, m),
                Fraction(force - against) / (m * G),
                Fraction(m, force),
            )
            return DrawnChoice(text, right, " m/s^2", wrong, (f"a = ({force} - {against}) / {m}",))
        if level == 2:
            pull = force + int(mu * m * G)
            text = f"A crate of {m} kg on level ground is pulled level by {pull} N; the coefficient of friction "
            text += f"is {float(mu)}."
            right = pull / Fraction(m) - mu * G
            wrong = (Fraction(pull, m), pull / Fraction(m) + mu * G, pull / Fraction(m) - mu, (pull - mu) / Fraction(m))
            steps = (f"Friction {mu} * {m} * 9.81 N", "a = (pull - friction) / m")
            return DrawnChoice(f"{text} What is its acceleration?{rule}", right, " m/s^2", wrong, steps)
        sine, cosine = Fraction(height, slant), Fraction(base, slant)
        slope = f"a slope that rises {height} m over {slant} m of its own length"
        if level == 3:
            mass = m * 100 + n
            text = f"What force along {slope} keeps a body of {mass} kg at rest on it without friction?{rule}"
            right = mass * G * sine
            steps = (f"The sine is {sine}; F = {mass} * 9.81 * {sine}",)
            return DrawnChoice(
                text, right, " N", (mass * G * cosine, mass * G, mass * sine, mass * G * sine / cosine), steps
            )
        if level == 4:
            up = force + int(m * G * (sine + mu))
            text = f"A body of {m} kg is pulled up {slope} by {up} N along the slope; the coefficient of "
            text += f"friction is {float(mu)}."
            right = up / Fraction(m) - G * (sine + mu * cosine)
            wrong = (
                up / Fraction(m) - G * sine,
                up / Fraction(m) - G * (sine + mu),
                up / Fraction(m) - G * (sine - mu * cosine),
                up / Fraction(m) - G * (cosine + mu * sine),
            )
            steps = (
                f"Along the slope g * {sine} pulls back, friction {mu} * g * {cosine}.",
                f"a = {up} / {m} - 9.81 * ({sine + mu * cosine})",
            )
            return DrawnChoice(f"{text} What is its acceleration?{rule}", right, " m/s^2", wrong, steps)
        n += n == m
        heavy, light = max(m, n), min(m, n)
        text = f"Bodies of {heavy} kg and {light} kg hang on a light rope over a pulley without friction. What "
        text += "is the tension "
        right = 2 * heavy * light * G / (heavy + light)
        wrong = (
            light * G,
            heavy * G,
            (heavy - light) * G,
            heavy * light * G / (heavy + light),
            (heavy + light) * G / 2,
        )
        steps = (
            f"a = ({heavy} - {light}) g / ({heavy} + {light})",
            f"T = {light} (g + a) = 2 * {heavy} * {light} g / {heavy + light}",
        )
        return DrawnChoice(f"{text}in the rope while they move?{rule}", right, " N", wrong, steps)


class Energy(Choices):
    """Find energies, powers and speeds by conservation.

    Level 1: kinetic; 2: of a fall into a spring's energy; 3: power; 4: an inelastic collision; 5: an elastic one.
    """

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        steps: tuple[str, ...]
        wrong: tuple[Fraction, ...]
        m, v, n, w = rng.randint(2, 90), rng.randint(3, 60), rng.randint(2, 90), rng.randint(2, 40)
        if level == 1:
            u = v + rng.randint(2, 40)
            text = f"What work speeds a body of {m} kg up from {v} m/s to {u} m/s?"
            right = Fraction(m * (u * u - v * v), 2)
            wrong = (
                Fraction(m * (u - v) ** 2, 2),
                Fraction(m * (u * u - v * v)),
                Fraction(m * u * u, 2),
                Fraction(m * (u - v)),
            )
            return DrawnChoice(text, right, " J", wrong, (f"{m} ({u}^2 - {v}^2) / 2",))
        if level == 2:
            k, x = rng.randint(2, 99) * 100, Fraction(rng.randint(5, 60), 100)
            text = f"A spring of {k} N/m, pressed in by {float(x)} m, shoots a ball of {m} g straight up. With g "
            text += "= 9.81 m/s^2 and "
            right = k * x * x / 2 / (Fraction(m, 1000) * G)
            steps = (
                f"k x^2 / 2 = {k * x * x / 2} J",
                f"h = E / (m g) = {k * x * x / 2} / ({Fraction(m, 1000)} * 9.81)",
            )
            wrong = (2 * right, right / 1000, k * x / (Fraction(m, 1000) * G), right * G)
            return DrawnChoice(text + "no drag, how high does it rise above that point?", right, " m", wrong, steps)
        if level == 3:
            height, seconds, share = rng.randint(3, 90), rng.randint(5, 120), rng.randint(40, 95)
            text = f"A motor of {share}% efficiency lifts {m * 10} kg by {height} m in {seconds} s. With g = "
            text += "9.81 m/s^2, what power "
            useful = m * 10 * G * height / seconds
            steps = (f"Useful {m * 10} * 9.81 * {height} / {seconds} W", f"Taken in: divided by {Fraction(share, 100)}")
            wrong = (useful, useful * share / 100, useful * seconds * 100 / share, useful * 100 / (share * G))
            return DrawnChoice(text + "does it take in?", useful * 100 / share, " W", wrong, steps)
        opposite = rng.random() < 0.5
        other = -w if opposite else w
        way = "towards it" if opposite else "ahead of it in the same direction"
        text = f"A body of {m} kg at {v + w} m/s hits one of {n} kg that moves {way} at {w} m/s, "
        first = v + w
        common = Fraction(m * first + n * other, m + n)
        if level == 4:
            lost = Fraction(m * n * (first - other) ** 2, 2 * (m + n))
            steps = (
                f"Both go on at ({m} * {first} + {n} * ({other})) / {m + n} = {common} m/s.",
                f"Lost are {lost} J.",
            )
            kinetic = Fraction(m * first**2 + n * w**2, 2)
            wrong = (kinetic, kinetic - lost, 2 * lost, Fraction(m * n * (first + other) ** 2, 2 * (m + n)))
            return DrawnChoice(
                text + "and they stick together. How much kinetic energy is lost?", lost, " J", wrong, steps
            )
        right = 2 * common - other
        text += (
            "elastically and head on. What is the velocity of the body that was hit, along the first one's direction?"
        )
        steps = (
            f"The centre of mass moves at {common} m/s.",
            f"Seen from it each velocity turns round: 2 * {common} - ({other})",
        )
        wrong = (common, 2 * common - first, 2 * common + other, Fraction(first))
        return DrawnChoice(text, right, " m/s", wrong, steps)


class IdealGas(Choices):
    """Find the state of an ideal gas.

    Levels 1 and 2: one and two changes; 3: the amount; 4: the density; 5: two vessels joined.
    """

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        steps: tuple[str, ...]
        wrong: tuple[Fraction, ...]
        p, v = rng.randint(50, 900), rng.randint(2, 90)
        celsius, warm = rng.randint(-40, 90), rng.randint(100, 400)
        t, u = Fraction(5463 + 20 * celsius, 20), Fraction(5463 + 20 * warm, 20)  # 0 degrees are 273.15 K
        rule = " Treat it as an ideal gas; 0 degrees Celsius are 273.15 K."
        if level == 1:
            text = f"A closed vessel holds gas at {p} kPa and {celsius} degrees Celsius. What is its pressure at "
            text += f"{warm} degrees?"
            wrong = (p * t / u, p * Fraction(warm, celsius or 1), p * (u - t) / t, p * (warm + 273) / (u + t))
            return DrawnChoice(text + rule, p * u / t, " kPa", wrong, (f"p T2 / T1 = {p} * {u} / {t}",))
        if level == 2:
            new = v + rng.randint(2, 90)
            text = f"Gas of {p} kPa, {v} litres and {celsius} degrees Celsius is brought to {new} litres and "
            text += f"{warm} degrees. What "
            right = p * v * u / (t * new)
            wrong = (p * new * u / (t * v), p * v * t / (u * new), Fraction(p * v, new), p * u / t)
            steps = (f"p2 = p1 V1 T2 / (T1 V2) = {p} * {v} * {u} / ({t} * {new})",)
            return DrawnChoice(text + "is its pressure?" + rule, right, " kPa", wrong, steps)
        gas = Fraction(8314, 1000)
        rule += " R = 8.314 J/(mol K)."
        if level == 3:
            text = f"How many moles of gas fill {v} litres at {p} kPa and {celsius} degrees Celsius?"
            right = p * v / (gas * t)
            wrong = (1000 * right, p * v / (gas * abs(celsius or 1)), right / 10, Fraction(p * v) / (gas * u))
            return DrawnChoice(text + rule, right, " mol", wrong, (f"n = p V / (R T) = {p} * {v} / (8.314 * {t})",))
        if level == 4:
            molar = rng.choice((4, 16, 28, 32, 40, 44, 64, 71))
            text = f"What is the density of a gas of {molar} g/mol at {p} kPa and {celsius} degrees Celsius?"
            right = p * molar / (gas * t)
            wrong = (
                p / (gas * t),
                p * molar / (gas * abs(celsius or 1)),
                Fraction(p * molar) / (gas * u),
                1000 * right,
            )
            return DrawnChoice(
                text + rule,
                right,
                " g/l",
                wrong,
                (f"n/V = p / (R T) = {p} / (8.314 * {t}) mol/l", f"times {molar} g/mol"),
            )
        q, w = rng.randint(50, 900), rng.randint(2, 90)
        text = f"A vessel of {v} litres with gas at {p} kPa and {celsius} degrees Celsius is joined to one of "
        text += f"{w} litres with the "
        text += (
            f"same gas at {q} kPa and {warm} degrees. Then all is brought to {celsius} degrees. What is the pressure?"
        )
        amounts = p * v / t + q * w / u
        right = amounts * t / (v + w)
        steps = (f"Amounts in proportion: {p} * {v} / {t} + {q} * {w} / {u}", f"times {t} / {v + w}")
        wrong = (Fraction(p * v + q * w, v + w), amounts * u / (v + w), Fraction(p + q, 2), amounts * t / max(v, w))
        return DrawnChoice(text + rule, right, " kPa", wrong, steps)


class Calorimetry(Choices):
    """Find temperatures, heats and times by calorimetry.

    Level 1: heating; 2: mixing; 3: a hot metal; 4: melting and heating; 5: ice into water that melts it all.
    """

    WATER, FUSION, ICE = Fraction(4186, 1000), 334, Fraction(21, 10)

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        steps: tuple[str, ...]
        wrong: tuple[Fraction, ...]
        c = self.WATER
        m, n, cold, hot = rng.randint(50, 900), rng.randint(50, 900), rng.randint(2, 30), rng.randint(45, 95)
        rule = " Water takes 4.186 J per gram and degree Celsius; nothing is lost."
        if level == 1:
            power = rng.randint(200, 2_500)
            text = f"How long does a heater of {power} W take to warm {m} g of water from {cold} to {hot} degrees?"
            right = m * c * (hot - cold) / power
            wrong = (m * c * hot / power, Fraction(m * (hot - cold), power), m * (hot - cold) / c / power, right * 60)
            return DrawnChoice(text + rule, right, " s", wrong, (f"{m} * 4.186 * ({hot} - {cold}) / {power}",))
        if level == 2:
            text = f"{m} g of water at {cold} degrees Celsius and {n} g at {hot} degrees are mixed. What is the "
            text += "temperature?"
            right = Fraction(m * cold + n * hot, m + n)
            wrong = (
                Fraction(cold + hot, 2),
                Fraction(m * hot + n * cold, m + n),
                right - cold,
                Fraction(n * hot, m + n),
            )
            return DrawnChoice(text + rule, right, " degrees", wrong, (f"({m} * {cold} + {n} * {hot}) / {m + n}",))
        if level == 3:
            metal, heat = (
                rng.choice((("copper", 385), ("iron", 449), ("lead", 129), ("silver", 235))),
                rng.randint(150, 500),
            )
            s = Fraction(metal[1], 1000)
            text = f"{n} g of {metal[0]} ({float(s)} J per gram and degree) at {heat} degrees Celsius are put "
            text += f"into {m} g of water at "
            right = (m * c * cold + n * s * heat) / (m * c + n * s)
            wrong = (
                Fraction(m * cold + n * heat, m + n),
                (n * c * cold + m * s * heat) / (n * c + m * s),
                n * s * heat / (m * c + n * s),
                cold + n * s * heat / (m * c),
            )
            steps = (f"({m} * 4.186 * {cold} + {n} * {s} * {heat}) / ({m} * 4.186 + {n} * {s})",)
            return DrawnChoice(
                f"{text}{cold} degrees; no water boils. What is the temperature?{rule}", right, " degrees", wrong, steps
            )
        below = rng.randint(2, 30)
        rule += " Ice takes 2.1 J per gram and degree and 334 J per gram to melt."
        if level == 4:
            text = f"What heat turns {m} g of ice at -{below} degrees Celsius into water at {hot} degrees?"
            parts = m * self.ICE * below, Fraction(m * self.FUSION), m * c * hot
            steps = (f"Warming the ice: {parts[0]} J", f"Melting: {parts[1]} J", f"Warming the water: {parts[2]} J")
            wrong = (parts[1] + parts[2], parts[0] + parts[2], m * c * (hot + below) + parts[1], m * c * (hot + below))
            return DrawnChoice(
                text + rule, sum(parts, Fraction(0)) / 1000, " kJ", tuple(part / 1000 for part in wrong), steps
            )
        ice = rng.randint(5, m // 4)
        text = f"{ice} g of ice at -{below} degrees Celsius are put into {m} g of water at {hot} degrees. All "
        text += "melts. What is the "
        cost = ice * (self.ICE * below + self.FUSION)
        right = (m * c * hot - cost) / ((m + ice) * c)
        steps = (
            f"Warming and melting the ice takes {cost} J.",
            f"({m} * 4.186 * {hot} - {cost}) / ({m + ice} * 4.186)",
        )
        wrong = (
            (m * c * hot - ice * self.FUSION) / ((m + ice) * c),
            Fraction(m * hot, m + ice),
            (m * c * hot - cost) / (m * c),
            Fraction(m * hot - ice * below, m + ice),
        )
        return DrawnChoice(f"{text}temperature in the end?{rule}", right, " degrees", wrong, steps)
