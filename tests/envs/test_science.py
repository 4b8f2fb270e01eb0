"""Science: each quantity found again from the text by other means, its units, and no rule that tells the options."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.audit import audit
from rlvr.envs.science import mechanics, substances
from rlvr.envs.science.quantities import LETTERS, Quantities, significant
from rlvr.envs.validation.choice_attacks import BARE, OPTIONS, accuracy, allowed, taken_apart

G = 9.81


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


def options(text: str) -> dict[str, float]:
    """Letter -> value."""
    found = re.findall(r"^([A-D])\) (-?[\d.]+)(?:\*10\^(-?\d+))?", text, re.MULTILINE)
    return {letter: float(digits) * 10.0 ** int(power or 0) for letter, digits, power in found}


def simulated(
    state: list[float], acceleration: float, until: Callable[[list[float], float], bool]
) -> tuple[list[float], float]:
    """[place, speed] under a constant acceleration, step by step with the midpoint rule, and the time."""
    time, step = 0.0, 1e-3
    while not until(state, time):
        state = [state[0] + step * (state[1] + step * acceleration / 2), state[1] + step * acceleration]
        time += step
    return state, time


def motion(text: str, level: int) -> float:
    given = numbers(text)
    if level == 1:
        a, t = given[:2]
        return simulated([0, 0], a, lambda s, now: now >= t - 1e-9)[0][0]
    if level == 2:
        v, a, t = given[:3]
        return simulated([0, v], a, lambda s, now: now >= t - 1e-9)[0][0]
    if level == 4:
        v, delay, a = given[:3]
        return v * delay + simulated([0, v], -a, lambda s, now: s[1] <= 0)[0][0]
    if level == 3:
        v, height = given[:2]
        return simulated([height, v], -G, lambda s, now: s[1] <= 0)[0][0]
    slow, lead, fast, a = given[:4]
    (place, _), time = simulated([0, fast], -a, lambda s, now: s[1] <= slow)
    return lead + slow * time - place


def forces(text: str, level: int) -> float:
    given = numbers(text)
    if level == 1:
        m, pull, against = given[:3]
        return (pull - against) / m
    if level == 4:
        m, pull, mu = given[:3]
        return (pull - mu * m * G) / m
    if level == 2:
        rise, along, m = given[:3]
        return m * G * math.sin(math.asin(rise / along))
    if level == 5:
        m, rise, along, pull, mu = given[:5]
        slope = math.asin(rise / along)
        return (pull - m * G * math.sin(slope) - mu * m * G * math.cos(slope)) / m
    heavy, light = given[:2]
    acceleration = (heavy - light) * G / (heavy + light)
    assert math.isclose(heavy * (G - acceleration), light * (G + acceleration))
    return heavy * (G - acceleration)


def energy(text: str, level: int) -> float:
    given = numbers(text)
    if level == 1:
        m, v, u = given[:3]
        return m * (v + u) / 2 * (u - v)  # the force of one second over the way of one second
    if level == 2:
        k, x, grams, g = given[:4]
        return k * x**2 / 2 / (grams / 1000 * g)
    if level == 3:
        share, mass, height, seconds, g = map(float, re.findall(r"[\d.]+\d|\d", text)[:5])
        return mass * g * height / seconds / (share / 100)
    m, v, n, w = given[:4]
    w = -w if "towards" in text else w
    if level == 4:
        together = (m * v + n * w) / (m + n)
        return (m * v**2 + n * w**2 - (m + n) * together**2) / 2
    # momentum and relative speed are kept: m x + n y = m v + n w, y - x = v - w
    y = (m * v + n * w + m * (v - w)) / (m + n)
    x = y - (v - w)
    assert math.isclose(m * x**2 + n * y**2, m * v**2 + n * w**2)
    return y


def gas(text: str, level: int) -> float:
    given = numbers(text.split(" Treat")[0])
    if level == 1:
        p, cold, warm = given
        return p * (warm + 273.15) / (cold + 273.15)
    if level == 3:
        p, cold, v, new, warm = given
        return p * v / (cold + 273.15) * (warm + 273.15) / new
    if level == 2:
        v, p, cold = given
        return p * 1e3 * v * 1e-3 / (8.314 * (cold + 273.15))
    if level == 4:
        molar, p, cold = given
        return p * 1e3 / (8.314 * (cold + 273.15)) * molar / 1e3
    v, p, cold, w, q, warm, _ = given
    moles = p * v / 8.314 / (cold + 273.15) + q * w / 8.314 / (warm + 273.15)
    return moles * 8.314 * (cold + 273.15) / (v + w)


def heat(text: str, level: int) -> float:
    given = numbers(text.split(" Water takes")[0].split(" Give")[0])
    water = 4.186
    if level == 2:
        power, m, cold, hot = given
        return m * water * (hot - cold) / power
    if level == 4:
        m, cold, hot = given
        return m * (2.1 * -cold + 334 + water * hot) / 1000
    if level == 1:
        m, cold, n, hot = given
        gained = lambda t: m * (t - cold) + n * (t - hot)  # noqa: E731
    elif level == 3:
        n, metal, hot, m, cold = given
        gained = lambda t: m * water * (t - cold) + n * metal * (t - hot)  # noqa: E731
    else:
        ice, below, m, hot = given
        gained = lambda t: ice * (2.1 * -below + 334 + water * t) + m * water * (t - hot)  # noqa: E731
    low, high = -100.0, 600.0  # the temperature at which nothing is gained or lost, by halving
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if gained(middle) < 0 else (low, middle)
    return low


def circuit(text: str, level: int) -> float:
    u, a, b, c, *d = numbers(text)
    if level == 1:
        return u / (a + b + c)
    if level == 2:
        return u / a + u / b + u / c
    second = c + d[0] if level == 5 else c
    low, high = 0.0, u  # the voltage at the node, by halving: what flows in flows out
    for _ in range(80):
        node = (low + high) / 2
        low, high = (node, high) if (u - node) / a > node / b + node / second else (low, node)
    return {3: (u - low) / a, 4: low, 5: (low / second) ** 2 * (d[0] if d else 0)}[level]


def solution(text: str, level: int) -> float:
    given = numbers(text)
    if level == 1:
        w, v, c = given[:3]
        return v * c / (v + w)
    if level == 3:
        grams, molar, v = given[:3]
        return grams / molar / (v / 1000)
    if level == 4:
        v, c, w, e = given[:4]
        return (v * c + w * e) / (v + w)
    if level == 2:
        e, v, c, protons = given[:4]
        return v * c * protons / e
    p, q, r = (float(found or 1) for found in re.search(r"reaction (\d?) ?\w+ \+ (\d?) ?\w+ -> (\d?)", text).groups())
    m, first, n, second, share, third = numbers(text.split(", ", 1)[1])[:6]
    left, right, made = m / first, n / second, 0.0
    for size in (10.0**-k for k in range(8)):  # run by run, in ever smaller portions, until one is used up
        while left >= p * size and right >= q * size:
            left, right, made = left - p * size, right - q * size, made + r * size
    return made * third * share / 100


ORACLES: dict[type, Callable[[str, int], float]] = {
    mechanics.Motion: motion,
    mechanics.Forces: forces,
    mechanics.Energy: energy,
    mechanics.IdealGas: gas,
    mechanics.Calorimetry: heat,
    substances.Circuits: circuit,
    substances.Solutions: solution,
}
EVERY_TASK = pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)


@EVERY_TASK
@pytest.mark.parametrize("level", range(1, 6))
@given(seed=st.integers(0, 2**64))
@settings(max_examples=15, deadline=None)
def test_the_value_is_found_by_other_means(task, level, seed):
    made = task()
    question = made.ask(random.Random(seed), level)
    value = ORACLES[task](question.text, level)
    assert math.isclose(question.answer[0], value, rel_tol=0.002, abs_tol=0.03), question
    assert made.judge(question, f"\\boxed{{{value:.6g}}}").reward == 1
    assert made.judge(question, made.solve(question)).reward == 1
    assert made.solve(question).count("\n") >= 2  # the working, and what it comes to


@EVERY_TASK
@pytest.mark.parametrize("level", range(1, 6))
@given(seed=st.integers(0, 2**64))
@settings(max_examples=10, deadline=None)
def test_the_right_option_is_the_value_found_by_other_means(task, level, seed):
    question = task(answers="choice").ask(random.Random(seed), level)
    value, shown = ORACLES[task](question.text.split("\n")[1], level), options(question.text)
    assert list(shown) == list(LETTERS)
    assert len(set(shown.values())) == 4
    right = shown[question.answer]
    assert math.isclose(right, value, rel_tol=0.0055, abs_tol=0.03), (value, question)
    other = ORACLES[task](question.text.split("\n")[2], level)
    assert any(math.isclose(option, other, rel_tol=0.0055, abs_tol=0.03) for option in set(shown.values()) - {right})


def attacked(task: Quantities, sees: str, count: int = 60) -> tuple[float, float]:
    """What a rule learnt from the train split gets right in the test split, and what chance and luck allow."""
    drawn = {}
    for split in ("train", "test"):
        env = TextEnv(task, split=split)
        drawn[split] = []
        for index in range(count * task.levels):
            text, _ = env.reset(seed=3, options={"level": 1 + index % task.levels, "index": index})
            drawn[split].append(taken_apart(text, env.solve()[-2]))
    return accuracy(drawn["train"], drawn["test"], sees), allowed(drawn["test"])


@pytest.mark.slow
@EVERY_TASK
@pytest.mark.parametrize("sees", [OPTIONS, BARE])
def test_no_rule_tells_the_right_option_without_the_numbers_of_the_question(task, sees):
    share, most = attacked(task(answers="choice"), sees)
    assert share <= most


class FixedFactors(mechanics.Motion):
    """A fault: the wrong options are the right value times fixed factors."""

    def _choice(self, rng, law, kind):
        posed = law.pose(**law.draw(rng), **kind)
        shown = [significant(posed.value * factor) for factor in (1, 2, Fraction(1, 2), 1000)]
        order = rng.sample(shown, 4)
        lines = [f"{letter}) {value} m" for letter, value in zip(LETTERS, order, strict=True)]
        question = super()._choice(rng, law, kind)
        text = "\n".join([posed.text, *lines])
        return question._replace(text=text, answer=LETTERS[order.index(shown[0])], working="", content=posed.text)


@pytest.mark.slow
def test_the_attack_finds_options_that_are_fixed_multiples_of_the_right_one():
    for sees in (OPTIONS, BARE):
        share, most = attacked(FixedFactors(answers="choice"), sees)
        assert share > 0.6 > most
    found = {finding.name for _, finding in audit(TextEnv(FixedFactors(answers="choice")), tasks=10).findings}
    assert found == {f"not told by {sees}" for sees in (OPTIONS, BARE)}
    assert audit(TextEnv(mechanics.Motion(answers="choice")), tasks=10).clean


@pytest.mark.parametrize(
    ("unit", "same", "other"),
    [
        ("m", ("12.3 m", "12.3\\,\\mathrm{m}", "0.0123 km", "1230 cm", "$12.3$ metres"), ("12.3 km", "12.3 s")),
        ("m/s^2", ("12.3 m/s^2", "12.3 \\text{ m/s}^2", "12.3 \\mathrm{m/s^2}", "12.3 m/s²"), ("12.3 m", "12.3 N")),
        ("kPa", ("12.3 kPa", "12300 Pa", "12.3\\ \\text{kPa}"), ("12.3 Pa", "12.3 J")),
        ("A", ("12.3 A", "12.3 amperes", "12300 mA", "12.3 \\text{ A}"), ("12.3 V", "12.3 mA")),
        ("mol/l", ("12.3 mol/l", "12.3 mol/L", "12.3 M", "12.3 \\text{ mol/L}"), ("12.3 mol", "12.3 g/l")),
        ("°C", ("12.3 °C", "12.3^\\circ\\text{C}", "12.3^{\\circ}C", "12.3 degrees"), ("12.3 K", "12.3 J")),
        ("J", ("12.3 J", "0.0123 kJ", "1.23 \\times 10^1 \\text{ J}"), ("12.3 kJ", "12.3 W")),
    ],
)  # fmt: skip
def test_a_value_is_paid_in_its_unit_and_in_multiples_of_it_alone(unit, same, other):
    made = mechanics.Motion()
    question = made.ask(random.Random(0), 1)._replace(answer=(Fraction(123, 10), unit))
    for answer in ("12.3", "12.35", "12.2", "\\frac{123}{10}", *same):
        assert made.judge(question, f"\\boxed{{{answer}}}").reward == 1, answer
    for answer in ("12.5", "12.1", "-12.3", "12.3 or 13", "12.3%", "3 * 4.1", "", *other):
        assert made.judge(question, f"\\boxed{{{answer}}}").reward == 0, answer


def test_answers_are_asked_for_as_a_number_or_a_choice_and_nothing_else():
    with pytest.raises(ValueError, match="answers must be one of number, choice"):
        mechanics.Motion(answers="letters")


@EVERY_TASK
def test_no_letter_is_right_more_often_than_chance_allows(task):
    made = task(answers="choice")
    letters = Counter(made.ask(random.Random(seed), 1 + seed % 5).answer for seed in range(1_000))
    assert set(letters) == set(LETTERS)
    assert sum((count - 250) ** 2 / 250 for count in letters.values()) < 21  # chi-square, 3 degrees: one in 10,000


@EVERY_TASK
def test_the_rank_of_the_right_value_tells_nothing(task):
    ranks: Counter[int] = Counter()
    for seed in range(400):
        question = task(answers="choice").ask(random.Random(seed), 1 + seed % 5)
        shown = options(question.text)
        ranks[sorted(shown.values()).index(shown[question.answer])] += 1
    assert sum((ranks[rank] - 100) ** 2 / 100 for rank in range(4)) < 21


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(1), "1.00"),
        (Fraction(-1, 3), "-0.333"),
        (Fraction(9995, 10), "1000"),
        (Fraction(12345), "12300"),
        (Fraction(123456), "1.23*10^5"),
        (Fraction(1, 10**6), "1.00*10^-6"),
        (Fraction(2005, 1000), "2.01"),
    ],
)
def test_three_significant_digits(value, text):
    assert significant(value) == text
