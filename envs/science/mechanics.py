"""Mechanics and heat: a quantity computed from a law."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from rlvr.envs.science.quantities import Law, Posed, Quantities, shown

G = Fraction(981, 100)
GRAVITY = "Take g = 9.81 m/s^2."


def from_rest(a: Fraction, t: Fraction) -> Posed:
    text = f"A car starts from rest and speeds up by {shown(a)} m/s each second. How far is it after {t} s?"
    return Posed(text, a * t * t / 2, "m", (f"s = a t^2 / 2 = {shown(a)} * {t}^2 / 2",))


def from_a_speed(a: Fraction, t: Fraction, v: Fraction) -> Posed:
    text = f"A train at {v} m/s speeds up by {shown(a)} m/s each second. How far does it go in the next {t} s?"
    steps = (f"s = v t + a t^2 / 2 = {v} * {t} + {shown(a)} * {t}^2 / 2 = {v * t} + {shown(a * t * t / 2)}",)
    return Posed(text, v * t + a * t * t / 2, "m", steps)


def braking(v: Fraction, delay: Fraction, a: Fraction) -> Posed:
    text = f"A driver at {v} m/s reacts after {shown(delay)} s and then brakes at {shown(a)} m/s^2. "
    text += "How far does the car go, from the moment when the driver sees the danger, until it stops?"
    stop = v * v / (2 * a)
    steps = (
        f"Before braking: {v} * {shown(delay)} = {shown(v * delay)} m.",
        f"Braking: v^2 / (2 a) = {v}^2 / {shown(2 * a)} = {shown(stop)} m.",
        f"Together: {shown(v * delay)} + {shown(stop)}",
    )
    return Posed(text, v * delay + stop, "m", steps)


def thrown(v: Fraction, height: Fraction) -> Posed:
    text = f"A stone is thrown straight up at {v} m/s from the top of a tower {height} m high. With g = 9.81 m/s^2 "
    text += "and no drag, how high above the ground does it rise?"
    rise = v * v / (2 * G)
    steps = (f"It rises v^2 / (2 g) = {v}^2 / 19.62 = {shown(rise)} m.", f"The tower adds {height} m.")
    return Posed(text, height + rise, "m", steps)


def catching_up(v: Fraction, a: Fraction, slow: Fraction, gap: Fraction) -> Posed:
    closed = v * v / (2 * a)
    lead = gap + int(closed)
    text = f"A lorry at a steady {slow} m/s is {lead} m ahead of a car at {slow + v} m/s, which at that moment begins "
    text += f"to brake at {shown(a)} m/s^2. How large is the gap between them when both are equally fast?"
    steps = (
        f"Seen from the lorry, the car comes closer at {v} m/s and brakes to rest.",
        f"It closes v^2 / (2 a) = {shown(closed)} m.",
        f"The gap is {lead} - {shown(closed)}",
    )
    return Posed(text, lead - closed, "m", steps)


class Motion(Quantities):
    """Find distances of uniformly accelerated motion.

    Level 1: from rest; 2: from a speed; 3: a throw; 4: braking; 5: catching up.
    """

    laws: ClassVar[tuple[Law, ...]] = (
        Law(from_rest, {"a": (50, 450, 100), "t": (2, 12, 1)}),
        Law(from_a_speed, {"a": (10, 120, 100), "t": (5, 40, 1), "v": (4, 40, 1)}),
        Law(thrown, {"v": (5, 40, 1), "height": (5, 150, 1)}),
        Law(braking, {"v": (8, 50, 1), "delay": (3, 25, 10), "a": (200, 900, 100)}),
        Law(catching_up, {"v": (5, 25, 1), "a": (100, 600, 100), "slow": (10, 25, 1), "gap": (10, 150, 1)}),
    )


SLOPES = ((4, 3, 5), (12, 5, 13), (15, 8, 17), (24, 7, 25), (21, 20, 29), (35, 12, 37))


def net_force(m: Fraction, net: Fraction, against: Fraction) -> Posed:
    pull = net + against
    text = f"A body of {m} kg is pulled by {pull} N against a resistance of {against} N. What is its acceleration?"
    return Posed(text, net / m, "m/s^2", (f"a = ({pull} - {against}) / {m} = {net} / {m}",))


def on_the_level(m: Fraction, net: Fraction, mu: Fraction) -> Posed:
    friction = mu * m * G
    pull = net + int(friction)
    text = f"A crate of {m} kg on level ground is pulled horizontally by {pull} N; the coefficient of friction is "
    text += f"{shown(mu)}. What is its acceleration? {GRAVITY}"
    steps = (f"Friction: {shown(mu)} * {m} * 9.81 = {shown(friction)} N", f"a = ({pull} - {shown(friction)}) / {m}")
    return Posed(text, (pull - friction) / m, "m/s^2", steps)


def held_on_a_slope(m: Fraction, height: Fraction, more: Fraction) -> Posed:
    slant = height + more
    text = f"What force along a slope that rises {height} m over {slant} m of its own length keeps a body of "
    text += f"{shown(m)} kg at rest on it without friction? {GRAVITY}"
    steps = (f"The sine of the slope is {height}/{slant}.", f"F = {shown(m)} * 9.81 * {height}/{slant}")
    return Posed(text, m * G * height / slant, "N", steps)


def up_a_slope(m: Fraction, net: Fraction, mu: Fraction, kind: tuple[int, int, int]) -> Posed:
    base, height, slant = kind
    sine, cosine = Fraction(height, slant), Fraction(base, slant)
    pull = net + int(m * G * (sine + mu))
    text = f"A body of {m} kg is pulled up a slope that rises {height} m over {slant} m of its own length, by {pull} N "
    text += f"along the slope; the coefficient of friction is {shown(mu)}. What is its acceleration? {GRAVITY}"
    steps = (
        f"Along the slope g * {sine} pulls back, and friction {shown(mu)} * g * {cosine}.",
        f"a = {pull} / {m} - 9.81 * ({sine} + {shown(mu)} * {cosine}) "
        f"= {shown(pull / m)} - {shown(G * (sine + mu * cosine))}",
    )
    return Posed(text, pull / m - G * (sine + mu * cosine), "m/s^2", steps)


def over_a_pulley(light: Fraction, more: Fraction) -> Posed:
    heavy = light + more
    text = f"Bodies of {heavy} kg and {light} kg hang on a light rope over a pulley without friction. What is the "
    text += f"tension in the rope while they move? {GRAVITY}"
    steps = (
        f"a = ({heavy} - {light}) g / ({heavy} + {light}) = {shown(more * G / (heavy + light))} m/s^2",
        f"T = {light} (g + a)",
    )
    return Posed(text, 2 * heavy * light * G / (heavy + light), "N", steps)


class Forces(Quantities):
    """Find accelerations and forces by Newton's laws.

    Level 1: a net force; 2: a slope; 3: two bodies over a pulley; 4: friction; 5: a slope with friction.
    """

    laws: ClassVar[tuple[Law, ...]] = (
        Law(net_force, {"m": (2, 50, 1), "net": (5, 200, 1), "against": (5, 100, 1)}),
        Law(held_on_a_slope, {"m": (20, 9_000, 10), "height": (2, 20, 1), "more": (1, 60, 1)}),
        Law(over_a_pulley, {"light": (2, 900, 1), "more": (1, 900, 1)}),
        Law(on_the_level, {"m": (2, 900, 1), "net": (20, 900, 1), "mu": (5, 60, 100)}),
        Law(up_a_slope, {"m": (2, 900, 1), "net": (50, 900, 1), "mu": (5, 60, 100)}, SLOPES),
    )


def speeding_up(m: Fraction, v: Fraction, gain: Fraction) -> Posed:
    u = v + gain
    text = f"What work is needed to speed a body of {m} kg up from {v} m/s to {u} m/s?"
    steps = (f"W = m (v2^2 - v1^2) / 2 = {m} ({u}^2 - {v}^2) / 2 = {m} * {u * u - v * v} / 2",)
    return Posed(text, m * (u * u - v * v) / 2, "J", steps)


def shot_by_a_spring(k: Fraction, x: Fraction, m: Fraction) -> Posed:
    text = f"A spring of {k * 100} N/m, compressed by {shown(x)} m, shoots a ball of {m} g straight up. With g = 9.81 "
    text += "m/s^2 and no drag, how high does the ball rise above the point where the spring is compressed?"
    energy, weight = k * 100 * x * x / 2, m / 1000 * G
    steps = (f"E = k x^2 / 2 = {shown(energy)} J", f"h = E / (m g) = {shown(energy)} / ({shown(m / 1000)} * 9.81)")
    return Posed(text, energy / weight, "m", steps)


def motor(share: Fraction, m: Fraction, height: Fraction, seconds: Fraction) -> Posed:
    text = f"A motor of {share}% efficiency lifts {m * 10} kg by {height} m in {seconds} s. With g = 9.81 m/s^2, what "
    text += "power does it take in?"
    useful = m * 10 * G * height / seconds
    steps = (
        f"Useful power: {m * 10} * 9.81 * {height} / {seconds} = {shown(useful)} W",
        f"Power taken in: {shown(useful)} / {shown(share / 100)}",
    )
    return Posed(text, useful * 100 / share, "W", steps)


def _meeting(m: Fraction, n: Fraction, v: Fraction, w: Fraction, kind: str) -> tuple[str, Fraction, Fraction]:
    """How a collision begins: the text, the first one's velocity and the second one's."""
    other = -w if kind == "towards it" else w
    return f"A body of {m} kg at {v + w} m/s hits one of {n} kg that moves {kind} at {w} m/s. ", v + w, other


def _factor(number: Fraction) -> str:
    """A factor or subtrahend: in brackets where it is negative."""
    return f"({number})" if number < 0 else str(number)


WAYS = ("towards it", "ahead of it in the same direction")


def sticking(m: Fraction, n: Fraction, v: Fraction, w: Fraction, kind: str) -> Posed:
    text, first, other = _meeting(m, n, v, w, kind)
    lost = m * n * (first - other) ** 2 / (2 * (m + n))
    common = shown((m * first + n * other) / (m + n))
    steps = (
        f"Both go on at ({m} * {first} + {n} * {_factor(other)}) / {m + n} = {common} m/s.",
        f"Lost is m n (v1 - v2)^2 / (2 (m + n)) = {m} * {n} * {(first - other)}^2 / {2 * (m + n)}",
    )
    return Posed(f"{text}They stick together. How much kinetic energy is lost?", lost, "J", steps)


def bouncing(m: Fraction, n: Fraction, v: Fraction, w: Fraction, kind: str) -> Posed:
    text, first, other = _meeting(m, n, v, w, kind)
    common = (m * first + n * other) / (m + n)
    text += "They collide elastically and head on. What is the velocity of the body of "
    text += f"{n} kg afterwards, counted along the first one's direction?"
    steps = (
        f"The centre of mass moves at ({m} * {first} + {n} * {_factor(other)}) / {m + n} = {shown(common)} m/s.",
        f"Seen from it each velocity turns round: 2 * {shown(common)} - {_factor(other)}",
    )
    return Posed(text, 2 * common - other, "m/s", steps)


class Energy(Quantities):
    """Find energies, powers and speeds by conservation.

    Level 1: kinetic energy; 2: a spring's energy and a height; 3: power; 4: an inelastic collision; 5: an elastic one.
    """

    HITS: ClassVar[dict[str, tuple[int, int, int]]] = {
        "m": (2, 90, 1), "n": (2, 90, 1), "v": (3, 20, 1), "w": (2, 20, 1),
    }  # fmt: skip
    laws: ClassVar[tuple[Law, ...]] = (
        Law(speeding_up, {"m": (2, 99, 1), "v": (2, 25, 1), "gain": (2, 25, 1)}),
        Law(shot_by_a_spring, {"k": (1, 20, 1), "x": (2, 30, 100), "m": (50, 400, 1)}),
        Law(motor, {"share": (40, 95, 1), "m": (2, 90, 1), "height": (3, 60, 1), "seconds": (20, 120, 1)}),
        Law(sticking, HITS, WAYS),
        Law(bouncing, HITS, WAYS),
    )


ZERO = Fraction(27315, 100)  # 0 degrees Celsius in kelvin
GAS = Fraction(8314, 1000)
IDEAL = "Treat it as an ideal gas; 0 °C is 273.15 K."
IDEAL_R = f"{IDEAL} R = 8.314 J/(mol K)."


def closed_vessel(p: Fraction, cold: Fraction, warm: Fraction) -> Posed:
    text = f"A closed vessel holds gas at {p} kPa and {cold} °C. What is its pressure at {warm} °C? {IDEAL}"
    steps = (f"p2 = p1 T2 / T1 = {p} * {shown(warm + ZERO)} / {shown(cold + ZERO)}",)
    return Posed(text, p * (warm + ZERO) / (cold + ZERO), "kPa", steps)


def two_changes(p: Fraction, v: Fraction, more: Fraction, cold: Fraction, warm: Fraction) -> Posed:
    text = f"Gas at {p} kPa and {cold} °C in a volume of {v} litres is brought to {v + more} litres and {warm} °C. "
    text += f"What is its pressure then? {IDEAL}"
    steps = ("p2 = p1 V1 T2 / (V2 T1)", f"= {p} * {v} * {shown(warm + ZERO)} / ({v + more} * {shown(cold + ZERO)})")
    return Posed(text, p * v * (warm + ZERO) / ((v + more) * (cold + ZERO)), "kPa", steps)


def amount(v: Fraction, p: Fraction, t: Fraction) -> Posed:
    text = f"How many moles of gas fill {v} litres at {p} kPa and {t} °C? {IDEAL_R}"
    return Posed(
        text, p * v / (GAS * (t + ZERO)), "mol", (f"n = p V / (R T) = {p} * {v} / (8.314 * {shown(t + ZERO)})",)
    )


def density(molar: Fraction, p: Fraction, t: Fraction) -> Posed:
    text = f"What is the density of a gas of {molar} g/mol at {p} kPa and {t} °C? {IDEAL_R}"
    each = p / (GAS * (t + ZERO))
    steps = (f"n/V = p / (R T) = {p} / (8.314 * {shown(t + ZERO)}) = {shown(each)} mol/l", f"times {molar} g/mol")
    return Posed(text, each * molar, "g/l", steps)


def joined_vessels(v: Fraction, p: Fraction, cold: Fraction, w: Fraction, q: Fraction, warm: Fraction) -> Posed:
    text = f"A vessel of {v} litres with gas at {p} kPa and {cold} °C is connected to one of {w} litres with the same "
    text += f"gas at {q} kPa and {warm} °C. Then everything is brought to {cold} °C. What is the pressure? {IDEAL}"
    first, second = p * v / (cold + ZERO), q * w / (warm + ZERO)
    steps = (
        f"Amounts in proportion: {p} * {v} / {shown(cold + ZERO)} + {q} * {w} / {shown(warm + ZERO)} "
        f"= {shown(first + second)}",
        f"p = {shown(first + second)} * {shown(cold + ZERO)} / ({v} + {w})",
    )
    return Posed(text, (first + second) * (cold + ZERO) / (v + w), "kPa", steps)


class IdealGas(Quantities):
    """Find the state of an ideal gas.

    Level 1: one change; 2: the amount; 3: two changes; 4: the density; 5: two vessels joined.
    """

    COLD: ClassVar[tuple[int, int, int]] = (-40, 90, 1)
    WARM: ClassVar[tuple[int, int, int]] = (100, 400, 1)
    P: ClassVar[tuple[int, int, int]] = (50, 900, 1)
    V: ClassVar[tuple[int, int, int]] = (2, 90, 1)
    laws: ClassVar[tuple[Law, ...]] = (
        Law(closed_vessel, {"p": P, "cold": COLD, "warm": WARM}),
        Law(amount, {"v": V, "p": P, "t": COLD}),
        Law(two_changes, {"p": P, "v": V, "more": V, "cold": COLD, "warm": WARM}),
        Law(density, {"molar": (4, 90, 1), "p": P, "t": COLD}),
        Law(joined_vessels, {"v": V, "p": P, "cold": COLD, "w": V, "q": P, "warm": WARM}),
    )


WATER, FUSION, ICE = Fraction(4186, 1000), 334, Fraction(21, 10)
HEATS = "Water takes 4.186 J per gram and °C; no heat is lost."
ICE_HEATS = f"{HEATS} Ice takes 2.1 J per gram and °C, and 334 J per gram to melt."
METALS = (("copper", 385), ("iron", 449), ("lead", 129), ("silver", 235))


def heater(power: Fraction, m: Fraction, cold: Fraction, rise: Fraction) -> Posed:
    hot = cold + rise
    text = f"How long does a heater of {power} W take to warm {m} g of water from {cold} °C to {hot} °C? {HEATS}"
    steps = (f"t = m c (T2 - T1) / P = {m} * 4.186 * {rise} / {power} = {shown(m * WATER * rise)} / {power}",)
    return Posed(text, m * WATER * rise / power, "s", steps)


def mixing(m: Fraction, n: Fraction, cold: Fraction, hot: Fraction) -> Posed:
    text = f"{m} g of water at {cold} °C and {n} g of water at {hot} °C are mixed. What is the temperature? "
    text += "No heat is lost."
    steps = (f"({m} * {cold} + {n} * {hot}) / ({m} + {n}) = {m * cold + n * hot} / {m + n}",)
    return Posed(text, (m * cold + n * hot) / (m + n), "°C", steps)


def hot_metal(m: Fraction, n: Fraction, cold: Fraction, hot: Fraction, kind: tuple[str, int]) -> Posed:
    name, s = kind[0], Fraction(kind[1], 1000)
    text = f"{n} g of {name} ({shown(s)} J per gram and °C) at {hot} °C is put into {m} g of water at {cold} °C; no "
    text += f"water boils. What is the temperature in the end? {HEATS}"
    steps = (
        f"({m} * 4.186 * {cold} + {n} * {shown(s)} * {hot}) / ({m} * 4.186 + {n} * {shown(s)})",
        f"= {shown(m * WATER * cold + n * s * hot)} / {shown(m * WATER + n * s)}",
    )
    return Posed(text, (m * WATER * cold + n * s * hot) / (m * WATER + n * s), "°C", steps)


def melting(m: Fraction, below: Fraction, hot: Fraction) -> Posed:
    text = f"How much heat turns {m} g of ice at {-below} °C into water at {hot} °C? {ICE_HEATS}"
    parts = m * ICE * below, m * FUSION, m * WATER * hot
    steps = (
        f"Warming the ice: {m} * 2.1 * {below} = {shown(parts[0])} J",
        f"Melting it: {m} * 334 = {shown(parts[1])} J",
        f"Warming the water: {m} * 4.186 * {hot} = {shown(parts[2])} J",
    )
    return Posed(text, sum(parts, Fraction(0)) / 1000, "kJ", steps)


def ice_in_water(m: Fraction, share: Fraction, below: Fraction, hot: Fraction) -> Posed:
    ice = Fraction(max(1, int(m * share / 100)))
    text = f"{ice} g of ice at {-below} °C is put into {m} g of water at {hot} °C, and all of it melts. What is the "
    text += f"temperature in the end? {ICE_HEATS}"
    cost = ice * (ICE * below + FUSION)
    steps = (
        f"Warming and melting the ice takes {ice} * (2.1 * {below} + 334) = {shown(cost)} J.",
        f"({m} * 4.186 * {hot} - {shown(cost)}) / (({m} + {ice}) * 4.186)",
    )
    return Posed(text, (m * WATER * hot - cost) / ((m + ice) * WATER), "°C", steps)


class Calorimetry(Quantities):
    """Find temperatures, heats and times by calorimetry.

    Level 1: mixing; 2: heating; 3: a hot metal; 4: melting and heating; 5: ice into water that melts it all.
    """

    MASS: ClassVar[tuple[int, int, int]] = (50, 900, 1)
    laws: ClassVar[tuple[Law, ...]] = (
        Law(mixing, {"m": (5, 90, 1), "n": (5, 90, 1), "cold": (2, 30, 1), "hot": (45, 95, 1)}),
        Law(heater, {"power": (200, 2_500, 1), "m": MASS, "cold": (2, 30, 1), "rise": (15, 65, 1)}),
        Law(hot_metal, {"m": (200, 900, 1), "n": (50, 400, 1), "cold": (2, 30, 1), "hot": (150, 320, 1)}, METALS),
        Law(melting, {"m": MASS, "below": (2, 30, 1), "hot": (45, 95, 1)}),
        Law(ice_in_water, {"m": MASS, "share": (2, 25, 1), "below": (2, 30, 1), "hot": (45, 95, 1)}),
    )
