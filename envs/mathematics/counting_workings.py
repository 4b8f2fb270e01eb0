"""The working of experts that count, and of chances that are counted, from the text of a question alone."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from math import comb, factorial, lcm, prod

from rlvr.envs.mathematics.common import listed
from rlvr.envs.tasks.wording import in_a_row

VOWELS = "AEIOU"


def orders(letters: str, what: str) -> tuple[str, int]:
    """How many orders the letters have, by the factorials of the repeats."""
    repeats = {letter: letters.count(letter) for letter in dict.fromkeys(letters) if letters.count(letter) > 1}
    below = "".join(f" / {factorial(many)}" for many in repeats.values())
    value = factorial(len(letters)) // prod(factorial(many) for many in repeats.values())
    twice = listed(f"{letter} {'twice' if many == 2 else f'{many} times'}" for letter, many in repeats.items())
    has = f"{what} {' '.join(letters)}, {len(letters)}{f' with {twice}' if twice else ''}"
    return f"{has}: {factorial(len(letters))}{below}{f' = {value}' if below else ''} orders.", value


def arrangements(text: str, answer: int) -> str:
    """Consonants and vowels apart, each with its orders, and how the vowels may stand."""
    word, condition = re.findall(r"letters of ([A-Z]+)(.*)\?", text)[0]
    if not condition:
        return orders(word, f"{word} has the letters")[0]
    vowels = "".join(letter for letter in word if letter in VOWELS)
    first, rest = orders("".join(letter for letter in word if letter not in VOWELS), f"The consonants of {word} are")
    second, vowel_orders = orders(vowels, "The vowels are")
    gaps, count = len(word) - 2, len(word)
    if "alphabetical" in condition:
        line = f"C({count}, 3) = {comb(count, 3)} choices of where the vowels stand, and one order of them:"
        return f"{first}\n{line} {comb(count, 3)} * {rest} = {answer}"
    if "together" in condition:
        line = f"All vowels together stand in one of the {gaps} gaps before, between and after the consonants:"
        return f"{first}\n{second}\n{line} {gaps} * {rest} * {vowel_orders} = {answer}"
    if "exactly two" in condition:
        line = f"Of the {gaps} gaps before, between and after the consonants two vowels take one, the third another:"
        return f"{first}\n{second}\n{line} {gaps} * {gaps - 1} * {rest} * {vowel_orders} = {answer}"
    line = f"Of the {gaps} gaps before, between and after the consonants each vowel takes another one, "
    line += f"C({gaps}, 3) = {comb(gaps, 3)} choices:"
    return f"{first}\n{second}\n{line} {comb(gaps, 3)} * {rest} * {vowel_orders} = {answer}"


def distributions(text: str) -> str:
    """The least numbers taken away, then inclusion and exclusion over the boxes with a bound."""
    total = int(re.findall(r"can (\d+) identical balls", text)[0])
    boxes = re.findall(r"(?:from (\d+) to (\d+)|at least (\d+)) in box (\d+)", text)
    low = [int(a or least) for a, _, least, _ in boxes]
    over = {number: int(b) - int(a) + 1 for a, b, _, number in boxes if b}
    free, bars = total - sum(low), len(boxes) - 1
    value = comb(free + bars, bars)
    lines = [
        f"The least numbers take {' + '.join(map(str, low))} = {sum(low)} of the {total} balls; {free} are left for "
        f"{len(boxes)} boxes: C({free + bars}, {bars}) = {value} ways."
    ]
    if over:
        bounds = (f"box {number} by {more}" for number, more in over.items())
        lines.append(f"Too many are in a box that gets more of these than it may: {listed(bounds)} or more.")
    parts = [value]
    for size in range(1, len(over) + 1):
        for some in combinations(over, size):
            rest = free - sum(over[number] for number in some)
            if rest >= 0:
                ways = comb(rest + bars, bars)
                parts.append((-1) ** size * ways)
                name = f"box {some[0]}" if size == 1 else f"boxes {in_a_row(some)}"
                away = "".join(f" - {over[number]}" for number in some)
                sign = "counted back" if size % 2 == 0 else "taken off"
                ways_left = f"{free}{away} = {rest} left: C({rest + bars}, {bars}) = {ways}"
                lines.append(f"Too many in {name}, {ways_left}, {sign}.")
    if len(parts) > 1:
        lines.append(f"{signed(parts)} = {sum(parts)}")
    return "\n".join(lines)


def signed(parts: list[int]) -> str:
    return str(parts[0]) + "".join(f" {'-' if part < 0 else '+'} {abs(part)}" for part in parts[1:])


def urn_draws(text: str) -> str:
    """The ways to draw what is wanted, by binomials, and all ways."""
    urn = [int(n) for n in re.findall(r"(\d+) (?:red|blue|green|white)", text.partition(" balls.")[0])]
    total, drawn = sum(urn), int(re.findall(r"balls\. (\d+) balls", text)[0])
    every = comb(total, drawn)
    lines = [
        f"There are {' + '.join(map(str, urn))} = {total} balls; {drawn} of them can be drawn in C({total}, {drawn})"
    ]
    lines[0] += f" = {every} ways."
    bound = re.search(r"(exactly|at least) (\d+) of them", text)
    wanted: list[list[tuple[int, int]]]
    if "same colour" in text:
        wanted = [[(n, drawn)] for n in urn]
    elif bound is None:
        wanted = [[(n, 1) for n in urn]]
    elif "blue?" in text.partition(" white")[2] or "at least one is blue" in text:
        number = int(bound[2])
        other = total - urn[0] - urn[1]
        wanted = [[(urn[0], number), (urn[1], k), (other, drawn - number - k)] for k in range(1, drawn - number + 1)]
    else:
        least = int(bound[2])
        highest = least if bound[1] == "exactly" else drawn
        wanted = [[(urn[0], k), (total - urn[0], drawn - k)] for k in range(least, highest + 1)]
    values = [prod(comb(n, k) for n, k in part) for part in wanted]
    for part, value in zip(wanted, values, strict=True):
        numbers = " * ".join(str(comb(n, k)) for n, k in part)
        lines.append(f"{' * '.join(f'C({n}, {k})' for n, k in part)}: {numbers} = {value}" if len(part) > 1
                     else f"C({part[0][0]}, {part[0][1]}) = {value}")  # fmt: skip
    good = sum(values)
    if len(values) > 1:
        lines.append(f"Together {' + '.join(map(str, values))} = {good}")
    return "\n".join([*lines, in_lowest_terms(good, every)])


def bayes(text: str) -> str:
    """The chance of each cause together with what was seen, and the share of the one asked for."""
    rows = [[int(n) for n in re.findall(r"(\d+)%", line)] for line in re.split(r"(?<=%)\. ", text)[:-1]]
    observed = re.findall(r"(has|does not have) (a stain|a scratch|a notch)", text.rpartition("One ")[2])
    asked = re.findall(r"comes from (\w)\?", text)[0]
    lines, whole = list[str](), list[int]()
    for index, name in enumerate("ABCD"[: len(rows[0])]):
        factors = [rows[0][index]]
        for (has, _), row in zip(observed, rows[1:], strict=True):
            factors.append(row[index] if has == "has" else 100 - row[index])
        whole.append(prod(factors))
        without = [f"100% - {row[index]}%" for (has, _), row in zip(observed, rows[1:], strict=True) if has != "has"]
        note = f" ({listed(without)} without)" if without else ""
        shown = " * ".join(f"{factor}%" for factor in factors)
        lines.append(f"From {name} and like this, {shown}{note}: {' * '.join(map(str, factors))} = {whole[-1]}")
    wanted = whole["ABCD".index(asked)]
    lines.insert(0, f"In units of 1/100^{len(rows)}:")
    lines.append(f"All together: {' + '.join(map(str, whole))} = {sum(whole)}")
    return "\n".join([*lines, f"The share of {asked}: {in_lowest_terms(wanted, sum(whole))}"])


def in_lowest_terms(above: int, below: int) -> str:
    """``4/6 = 2/3``, and ``1/2`` alone."""
    share = Fraction(above, below)
    return f"{above}/{below}" + ("" if share.denominator == below else f" = {share}")


def digit_sums(text: str, answer: int) -> str:
    """By the first digit that is below the bound's; the digits after it are free, so that binomials count them."""
    bound, total = map(int, re.findall(r"from 0 to (\d+) .* add up to (\d+)\?", text)[0])
    digits, used = [int(digit) for digit in str(bound + 1)], 0
    lines = [
        f"A number up to {bound} has the first digits of {bound + 1}, then a smaller one, and the k digits after it "
        "are free. These k + 1 add up to s in C(s + k, k) ways if they may be any numbers from 0 up; taken off, by "
        "inclusion and exclusion, are the ways in which the smaller one is too large or free ones are over 9."
    ]
    parts = list[int]()
    for index, digit in enumerate(digits):
        free, left = len(digits) - index - 1, total - used
        terms, value = list[str](), 0
        for tens in range(free + 1):
            for small in (0, 1):
                rest = left - 10 * tens - digit * small
                if rest >= 0 and digit:
                    way = comb(free, tens) * comb(rest + free, free) * (-1) ** (tens + small)
                    value += way
                    factor = f"{comb(free, tens)}*" if comb(free, tens) > 1 else ""
                    terms.append(f"{'-' if way < 0 else '+'} {factor}C({rest + free}, {free})")
        used += digit
        parts.append(value)
        if terms:
            head = str(bound + 1)[:index]
            begin = f"First {head}, then" if head else "First digit"
            lines.append(
                f"{begin} below {digit}, {free} free, sum {left}: {' '.join(terms).removeprefix('+ ')} = {value}"
            )
    added = " + ".join(str(part) for part in parts if part)
    return "\n".join([*lines, f"Altogether: {added} = {answer}" if "+" in added else f"Altogether {answer}."])


def inclusion_exclusion(text: str) -> str:
    """The multiples of the least common multiple of some of the numbers, for all choices of some."""
    low, high, how, divisors_text = re.findall(
        r"from (\d+) to (\d+) are divisible by ([a-z ]+) of ([\d, and]+)\?", text
    )[0]
    first, last, numbers = int(low), int(high), [int(n) for n in re.findall(r"\d+", divisors_text)]
    lines, total, parts = list[str](), 0, list[str]()
    for size in range(1, len(numbers) + 1):
        terms, part = list[str](), 0
        for some in combinations(numbers, size):
            common = lcm(*some)
            if many := last // common - (first - 1) // common:
                shown = f"{listed(some)} ({common})" if size > 1 else str(common)
                terms.append(f"{shown}: {many}")
                part += many
        if part:
            weight = size if how == "exactly one" else 1
            kind = "each" if size == 1 else f"{size} at once, with their least common multiple"
            lines.append(f"Multiples of {kind}: {'; '.join(terms)}. Together {part}.")
            total += (-1) ** (size + 1) * weight * part
            parts.append(f"{'-' if size % 2 == 0 else '+'} {f'{weight}*' if weight > 1 else ''}{part}")
    lines.insert(0, f"The multiples of n from {low} to {high} are {high} // n{f' - {first - 1} // n' * (first > 1)}.")
    if how == "exactly one":
        lines.append("A number that k of them divide is to count once for k = 1 and else not at all:")
    lines.append(f"{' '.join(parts).removeprefix('+ ')} = {total}")
    if how == "none":
        lines.append(f"By none: {last - first + 1} - {total} = {last - first + 1 - total}")
    return "\n".join(lines)
