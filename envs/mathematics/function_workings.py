"""The working of experts on functions, roots, angles and units, from the text of a question alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import gcd

from rlvr.envs.mathematics.common import bracketed, polynomial, value_at
from rlvr.envs.mathematics.matrix_workings import coefficients, vectors
from rlvr.envs.tasks.wording import counted


def put_in(factors: Sequence[int], x: int) -> str:
    """A polynomial's value: with the number put in, term by term, and worked out."""
    terms = list[str]()
    values = list[int]()
    for power, factor in zip(range(len(factors) - 1, -1, -1), factors, strict=True):
        if factor:
            values.append(factor * x**power)
            x_text = "" if not power else f"{bracketed(x)}^{power}" if power > 1 else bracketed(x)
            by = "-" if factor == -1 else "" if factor == 1 else f"{factor}*"
            terms.append(f"{by}{x_text}" if power else str(factor))
    total = sum(values)
    if len(terms) == 1 and len(factors) == 1:
        return str(total)
    return (
        f"{joined(terms)} = {joined(list(map(str, values)))} = {total}" if len(terms) > 1 else f"{terms[0]} = {total}"
    )


def expanded(shown: str) -> str:
    """A product of polynomials from the left, each coefficient of each product as a sum of products."""
    factors = [coefficients(text) for text in re.findall(r"\(([^()]+)\)", shown)]
    product, steps = factors[0], list[str]()
    for factor in factors[1:]:
        top, new = len(product) + len(factor) - 2, list[int]()
        steps.append(f"({polynomial(product)})({polynomial(factor)}), power by power:")
        for index in range(top + 1):
            pairs = [(a, factor[index - i]) for i, a in enumerate(product) if 0 <= index - i < len(factor)]
            terms = [f"{bracketed(a)}*{bracketed(b)}" for a, b in pairs if a and b]
            new.append(sum(a * b for a, b in pairs))
            name = ("the constant", "x")[top - index] if top - index < 2 else f"x^{top - index}"
            steps.append(f"{name}: {' + '.join(terms)} = {new[-1]}" if terms else f"{name}: 0")
        steps.append(f"Together: {polynomial(new)}")
        product = new
    return "\n".join(steps)


def joined(terms: Sequence[str]) -> str:
    """A sum: ``3 - 4*2 + 5``."""
    return terms[0] + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in terms[1:])


def composition(text: str) -> str:
    """From the inside out; backwards from the outside in, an equation for each function."""
    functions = dict(re.findall(r"(\w)\(x\) = (.*?)(?=, \w\(x\) =|\. [WF])", text))
    if "For which x" not in text:
        value = int(re.findall(r"\((-?\d+)\)+\?", text)[0])
        lines = list[str]()
        for name, shown in functions.items():
            factors = coefficients(shown)
            lines.append(f"{name}({value}) = {put_in(factors, value)}")
            value = int(value_at(factors, value))
        return "\n".join(lines)
    wanted = int(re.findall(r"= (-?\d+)\? Answer", text)[0])
    (p, q), (r, s) = coefficients(functions["f"]), coefficients(functions["h"])
    above, below = (coefficients(part) for part in re.findall(r"\(([^()]+)\)", functions["g"]))
    (a, b), (c, d) = above, below
    inner = Fraction(wanted - q, p)
    factor, rest = a - inner * c, inner * d - b
    middle = rest / factor
    return "\n".join(
        [
            f"With y for g(h(x)): {polynomial([p, q], 'y')} = {wanted}, so y = {inner}.",
            f"With z for h(x): {polynomial([a, b], 'z')} = {bracketed(inner)} ({polynomial([c, d], 'z')}), so "
            f"{polynomial([factor, 0], 'z')} = {rest} and z = {middle}.",
            f"{polynomial([r, s])} = {middle}, so x = {(middle - s) / r}.",
        ]
    )


def recurrence(text: str) -> str:
    """The terms one after another, with the terms before them put into the rule."""
    values = [int(value) for value in re.findall(r"a\(\d+\) = (-?\d+)", text)]
    rule, last = re.findall(r"a\(n\) = (.*) for n > .*What is a\((\d+)\)", text)[0]
    lines = list[str]()
    for n in range(len(values) + 1, int(last) + 1):
        terms, total = list[str](), 0
        for sign, factor, back, of_n in re.findall(r"([+-]?) ?(\d*) ?(?:a\(n - (\d)\)|(n))?(?= |$)", rule):
            if not (factor or back or of_n):
                continue
            size = int(factor or 1)
            part = values[n - 1 - int(back)] if back else n if of_n else 1
            total += int(f"{sign}1") * size * part
            shown = str(size) if not (back or of_n) else bracketed(part) if not factor else f"{size}*{bracketed(part)}"
            terms.append(f"-{shown}" if sign == "-" else shown)
        values.append(total)
        lines.append(f"a({n}) = {joined(terms)} = {total}")
    return "\n".join(lines)


def same_or_equal(shown: str, value: Fraction) -> str:
    """``4/6 = 2/3``, and ``1/2`` alone."""
    return shown if shown == str(value) else f"{shown} = {value}"


def vieta(text: str) -> str:
    """The elementary symmetric functions from the coefficients, and Newton's identities with their numbers."""
    factors = coefficients(re.findall(r"roots of (.*) = 0", text)[0])
    highest = int(re.findall(r"to the power (\d+)", text)[0])
    lead, degree = factors[0], len(factors) - 1
    e = [Fraction((-1) ** k * c, lead) for k, c in enumerate(factors)]
    lines = [f"From {polynomial(factors)} = 0:"]
    for k in range(1, degree + 1):
        quotient = f"{'-' if k % 2 else ''}{bracketed(factors[k])}/{lead}"
        lines.append(f"e{k} = {same_or_equal(quotient, e[k])}")
    lines.append("Newton's identities give the sums p1, p2, ... of the powers:")
    sums = [Fraction(degree)]
    for k in range(1, highest + 1):
        names, numbers, total = list[str](), list[str](), Fraction(0)
        for i in range(1, min(k, degree) + 1):
            sign, last = "" if i % 2 else "-", i == k
            factor = Fraction(k) if last else sums[k - i]
            total += (-1) ** (i - 1) * e[i] * factor
            alone = last and k == 1
            names.append(f"{sign}e1" if alone else f"{sign}{k} e{i}" if last else f"{sign}e{i} p{k - i}")
            numbers.append(f"{sign}{bracketed(e[i])}" if alone else f"{sign}{bracketed(e[i])}*{bracketed(factor)}")
        sums.append(total)
        lines.append(f"p1 = e1 = {total}" if k == 1 else f"p{k} = {joined(names)}: {joined(numbers)} = {total}")
    return "\n".join(lines)


def angle_sum(terms: Sequence[tuple[int, int]], total: int) -> str:
    """The angles' terms added up, and x from what they add up to."""
    shown = " + ".join(f"({polynomial(term)})" for term in terms)
    factor, rest = sum(f for f, _ in terms), sum(r for _, r in terms)
    return f"{shown} = {polynomial([factor, rest])} = {total}, so x = {(total - rest) // factor}"


def put_in_angle(terms: Sequence[tuple[int, int]], index: int, x: int) -> str:
    """An angle with x put into its term."""
    factor, rest = terms[index]
    value = factor * x + rest
    by = f"{factor}*{x}" if factor > 1 else str(x)
    shown = by + (f" {'-' if rest < 0 else '+'} {abs(rest)}" if rest else "")
    return shown if shown == str(value) else f"{shown} = {value}"


def lattice_points(text: str) -> str:
    """The shoelace formula and the points on the sides, side by side; then Pick's theorem."""
    points = vectors(text)
    parts, edges, lines = list[int](), list[int](), ["Side by side, the shoelace formula, and points on the side:"]
    for (a, b), (c, d) in pairwise([*points, points[0]]):
        parts.append(a * d - c * b)
        edges.append(gcd(c - a, d - b))
        term = f"{bracketed(a)}*{bracketed(d)} - {bracketed(c)}*{bracketed(b)} = {parts[-1]}"
        lines.append(f"({a}, {b}) to ({c}, {d}): {term}; gcd({abs(c - a)}, {abs(d - b)}) = {edges[-1]}")
    twice, side = abs(sum(parts)), sum(edges)
    lines.append(f"Twice the area is the size of {joined(list(map(str, parts)))} = {sum(parts)}.")
    lines.append(f"On the sides there are {' + '.join(map(str, edges))} = {side} points.")
    lines.append(f"By Pick's theorem {twice}/2 - {side}/2 + 1 = {(twice - side) // 2 + 1} are inside.")
    return "\n".join(lines)


# clocks and units


def hands(text: str) -> str:
    """The angle at each time asked for: the minute hand makes 6 degrees a minute, the hour hand half a degree."""
    lines, sizes = ["The minute hand turns by 6 degrees a minute, the hour hand by 1/2."], list[Fraction]()
    pattern = r"(?:at|after) (\d+):(\d\d)(?::(\d\d))?"
    for hour, minute, second in re.findall(pattern, text):
        seconds = int(second or 0)
        minutes = Fraction(60 * int(minute) + seconds, 60)
        past = 60 * (int(hour) % 12) + minutes
        long, short = 6 * minutes, past / 2
        shown = f"{hour}:{minute}" + (f":{second}" if second else "")
        lines.append(
            f"{shown} is {counted(past, 'minute')} past 12 o'clock: minute hand 6*{bracketed(minutes)} = {long}, "
            f"hour hand {same_or_equal(f'{bracketed(past)}/2', short)}."
        )
        gap = long - short
        if "How many minutes after" in text:
            return "\n".join([*lines, next_angle(gap % 360, int(re.findall(r"angle of (\d+)", text)[0]))])
        size = abs(gap)
        lines.append(
            f"They are {counted(size, 'degree')} apart"
            + (f", on the other side 360 - {bracketed(size)} = {360 - size}." if size > 180 else ".")
        )
        sizes.append(min(size, 360 - size))
    if len(sizes) > 1:
        lines.append(f"{' + '.join(map(bracketed, sizes))} = {sum(sizes)}")
    return "\n".join(lines)


def next_angle(gap: Fraction, degrees: int) -> str:
    """When the minute hand, so far ahead, is next ahead by an angle or by what it lacks to a full turn."""
    way = min(way for way in (degrees, 360 - degrees, 360 + degrees) if way > gap)
    return (
        f"The minute hand is {counted(gap, 'degree')} ahead and gains 11/2 degrees a minute. The angle is right when "
        f"it is ahead by {degrees} or {360 - degrees}, next by {way}.\n"
        f"({way} - {bracketed(gap)}) / (11/2) = {(way - gap) * Fraction(2, 11)}"
    )


def flights(text: str) -> str:
    """The departure in UTC, each flight and stay added, and the last arrival in local time."""
    zones = {town: (1 if sign == "+" else -1) * (60 * int(h) + int(m)) for town, sign, h, m in re.findall(
        r"(\w+) is at UTC([+-])(\d+):(\d\d)", text)}  # fmt: skip
    home, day, hour, minute = re.findall(r"leaves (\w+) on (\w+) at (\d+):(\d\d)", text)[0]
    now = 1_440 * DAYS.index(day[:3]) + 60 * int(hour) + int(minute)
    lines = [f"{home} is at {offset(zones[home])}: {moment(now)} there is {moment(now - zones[home])} in UTC."]
    now -= zones[home]
    town = home
    for flight, hours, minutes in re.findall(r"The (?:flight to (\w+)|stay there) takes (\d+) h (\d+) min", text):
        now += 60 * int(hours) + int(minutes)
        town = flight or town
        what = f"Flight to {town}" if flight else f"Stay in {town}"
        lines.append(f"{what}, {hours} h {minutes} min: until {moment(now)} in UTC.")
    return "\n".join([*lines, f"{town} is at {offset(zones[town])}: there it is {moment(now + zones[town])}."])


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def moment(minutes: int) -> str:
    return f"{DAYS[minutes // 1_440 % 7]} {minutes // 60 % 24}:{minutes % 60:02}"


def offset(zone: int) -> str:
    return f"UTC{'-' if zone < 0 else '+'}{abs(zone) // 60}:{abs(zone) % 60:02}"


def conversion(text: str) -> str:
    """Along the units that are told from one to the next, a factor each; for powers of a length the factor's power."""
    facts = dict[tuple[str, str], tuple[str, Fraction]]()
    for n, smaller, m, larger in re.findall(r"(\d+) (\w+) = (\d+) (\w+)", text):
        unit = "feet" if smaller == "foot" else smaller if smaller.endswith("s") else f"{smaller}s"
        facts[unit, larger] = f"{n} {smaller} = {m} {larger}", Fraction(int(m), int(n))
        facts[larger, unit] = facts[unit, larger][0], Fraction(int(n), int(m))
    if match := re.search(r"costs (\d+) (\w+) per (\w+)\. How many (\w+) does one (\w+) of it cost\?", text):
        amount, money, thing, to, per = match.groups()
        first, value = chain(facts, Fraction(amount), money, to)
        second, many = chain(facts, Fraction(1), f"{per}s", f"{thing}s")
        share = f"So one {per} costs {bracketed(value)} * {bracketed(many)} = {named(value * many, to)}."
        return "\n".join([*first, *second, share])
    kind, to, size, start = re.findall(
        r"How many (square |cubic )?(\w+) are ([\d/]+) (?:square |cubic )?(\w+)\?", text
    )[0]
    if not kind:
        return "\n".join(chain(facts, Fraction(size), start, to)[0])
    power = 2 if kind == "square " else 3
    lines, factor = chain(facts, Fraction(1), start, to)
    value = Fraction(size) * factor**power
    shown = " * ".join([bracketed(Fraction(size)), *[bracketed(factor)] * power])
    return "\n".join([*lines, f"The factor counts {power} times: {shown} = {value}"])


def chain(
    facts: dict[tuple[str, str], tuple[str, Fraction]], amount: Fraction, start: str, end: str
) -> tuple[list[str], Fraction]:
    """An amount from unit to unit, on the shortest way from one unit to another."""
    before, queue = {start: ""}, [start]
    for unit in queue:
        for from_unit, next_unit in facts:
            if from_unit == unit and next_unit not in before:
                before[next_unit] = unit
                queue.append(next_unit)
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    lines = list[str]()
    for from_unit, next_unit in pairwise(way[::-1]):
        fact, factor = facts[from_unit, next_unit]
        product = f"{bracketed(amount)} * {bracketed(factor)} = {named(amount * factor, next_unit)}"
        lines.append(f"{fact}: {named(amount, from_unit)} {'is' if amount == 1 else 'are'} {product}.")
        amount *= factor
    return lines, amount


def named(amount: Fraction, unit: str) -> str:
    """``2 yards``, ``1 foot``."""
    singular = {"feet": "foot", "inches": "inch"}.get(unit, unit.removesuffix("s"))
    return f"{amount} {singular if amount == 1 else unit}"
