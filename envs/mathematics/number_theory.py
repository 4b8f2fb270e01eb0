"""Number theory.

Observation: whole numbers or an equation of them, and what is asked of divisors, digits, remainders or solutions.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from itertools import combinations
from math import gcd, lcm, prod
from struct import unpack

from rlvr.envs.mathematics import counting_workings
from rlvr.envs.mathematics.common import NumberList, linear, lines, listed, polynomial
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained, whole_numbers
from rlvr.envs.tasks.wording import counted, in_a_row, often, times

_TIMES = re.compile(r"\s*(?:\\(?:times|cdot)(?![A-Za-z])|[*\u00d7\u00b7\u22c5])\s*")
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_ON_THE_LINE = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "0123456789")
_FACTOR = re.compile(r"([0-9]{1,3})(?:\s*\^\s*(?:\{\s*([1-9][0-9]?)\s*\}|([1-9][0-9]?)))?")
PRIMES = tuple(n for n in range(2, 1_000) if all(n % p for p in range(2, int(n**0.5) + 1)))


def factorised(number: int) -> dict[int, int]:
    """Prime -> exponent, for numbers whose second largest prime factor is small."""
    factors: dict[int, int] = {}
    p = 2
    while p * p <= number:
        while number % p == 0:
            factors[p] = factors.get(p, 0) + 1
            number //= p
        p += 1 + (p > 2)
    if number > 1:
        factors[number] = factors.get(number, 0) + 1
    return factors


def _product_form(factors: dict[int, int]) -> str:
    return " * ".join(f"{p}^{k}" if k > 1 else str(p) for p, k in sorted(factors.items()))


def _factors(product: str) -> str:
    """The factors of a product, each as often as its exponent says; empty for a text that is no product."""
    text = _RAISED.sub(lambda power: "^" + power[0].translate(_ON_THE_LINE), product).replace("**", "^")
    factors = [_FACTOR.fullmatch(part) for part in _TIMES.split(text)]
    if not all(factors) or len(factors) > 100:
        return ""
    return ", ".join(factor[1] for factor in factors if factor for _ in range(int(factor[2] or factor[3] or 1)))


def _euclid(a: int, b: int) -> list[str]:
    steps = []
    while b:
        steps.append(f"{a} = {a // b} * {b} + {a % b}")
        a, b = b, a % b
    return steps


class GreatestCommonDivisor(ExactAnswerTask):
    """Find a greatest common divisor or least common multiple.

    Levels 1 and 3: the divisor of two and of three numbers; 2, 4 and 5: the least common multiple of two to four.
    """

    # For each level: how many numbers, and how many factors from 2 up for all of them, and for each of them.
    SIZES = ((2, 89, 43), (2, 49, 58), (3, 899, 898), (3, 59, 148), (4, 59, 148))

    def ask(self, rng: random.Random, level: int) -> Question:
        """The numbers share a drawn factor."""
        count, commons, largest = self.SIZES[level - 1]
        while True:
            common, *factors = unpack(f"<{count + 1}H", rng.randbytes(2 * count + 2))
            common = 2 + (common * commons >> 16)
            numbers = [common * (2 + (n * largest >> 16)) for n in factors]
            if len(set(numbers)) == count:
                break
        shown = in_a_row(numbers)
        if level in (1, 3):
            return Question(f"What is the greatest common divisor of {shown}?", gcd(*numbers))
        return Question(f"What is the least common multiple of {shown}?", lcm(*numbers))

    def explain(self, state: Question) -> str:
        """Euclid's algorithm, number by number."""
        total, *numbers = map(int, re.findall("[0-9]+", state.text))
        multiple, steps = "multiple" in state.text, list[str]()
        for number in numbers:
            divisor = gcd(total, number)
            steps += [*_euclid(max(total, number), min(total, number)), f"gcd({total}, {number}) = {divisor}"]
            if multiple:
                steps.append(f"lcm({total}, {number}) = {total} / {divisor} * {number} = {lcm(total, number)}")
            total = lcm(total, number) if multiple else divisor
        return lines(steps)


class PrimeFactors(NumberList):
    """Factor a number into primes.

    Levels 1 to 5: the largest prime is at most 113, 113, 199, 499 and 997, the second largest at most 7, 29, 71, 199
    and 499: that far primes have to be tried.
    """

    # For each level: how many primes up to 7, then how many others there are, of how many, and of how many the largest.
    SHAPES = (((2, 4), 0, 0, 30), ((2, 3), 1, 10, 30), ((1, 2), 2, 20, 46), ((1, 1), 2, 46, 95), ((1, 1), 2, 95, 168))

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws the primes, all at once, and multiplies."""
        (least, highest), others, middle, large = self.SHAPES[level - 1]
        small = least
        code = rng.randrange((highest - least + 1) * 4**highest * large * (middle or 1) ** others)
        if highest > least:
            code, more = divmod(code, highest - least + 1)
            small += more
        code, largest = divmod(code, large)
        number = PRIMES[largest]
        factors = [number]
        for _ in range(others):
            code, index = divmod(code, middle)
            factors.append(prime := PRIMES[index])
            number *= prime
        for _ in range(small):
            factors.append(prime := PRIMES[code & 3])
            number *= prime
            code >>= 2
        factors.sort()
        text = f"Write {number} as a product of primes. Answer with the primes in ascending order, each as often as it "
        return Question(text + "divides, separated by commas.", tuple(factors))

    def check(self, question: Question, answer: str) -> str | None:
        """How many primes there are is not said, so another count is wrong; ``12 = 2^2 * 3`` is its factors."""
        number = str(prod(question.answer))
        sides = [side.strip() for side in answer.split("=")]
        text = answer.strip()
        if len(sides) == 2 and number in sides:
            text = sides[1] if sides[0] == number else sides[0]
        primes = whole_numbers(_factors(text) or answer)
        return None if tuple(primes) == tuple(question.answer) else "wrong primes"

    def explain(self, state: Question) -> str:
        """Tries the primes in ascending order."""
        factors = state.answer
        rest, tried, steps = prod(factors), 0, []
        for p in factors[:-1]:
            position = PRIMES.index(p)
            failed = f"Not divisible by {listed(PRIMES[tried:position])}. " if tried < position else ""
            steps.append(f"{failed}{rest} = {p} * {rest // p}")
            rest, tried = rest // p, position
        steps.append(f"{rest} is prime.")
        return lines(steps)


class Divisors(ExactAnswerTask):
    """Count divisors, or add them up.

    Level 1: how many divisors, of a number with one prime above 3; 2: their sum; 3: the totient; 4: odd or even
    divisors' sum; 5: how many of n^k.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The number is a product of powers of 2, 3 and one (levels 1, 2) or two primes from 5 up; formulas multiply
        over its primes."""
        primes = rng.sample(PRIMES[2 : (80, 168, 60, 120, 168)[level - 1]], 1 if level < 3 else 2)
        twos, threes = rng.randint(1, (5, 6, 6, 8, 8)[level - 1]), rng.randint(1, (3, 4, 5, 5, 6)[level - 1])
        factors = {2: twos, 3: threes, **{p: rng.randint(1, 1 if p > 19 or level == 1 else 3) for p in primes}}
        number = prod(p**k for p, k in factors.items())
        steps = [f"{number} = {_product_form(factors)}"]
        if level == 1:
            what, parts = f"How many positive divisors does {number} have?", [k + 1 for k in factors.values()]
        elif level == 2:
            what, parts = f"What is the sum of all positive divisors of {number}?", self._sums(factors)
        elif level == 3:
            what = f"How many whole numbers from 1 to {number} have no common divisor with {number} but 1?"
            parts = [(p - 1) * p ** (k - 1) for p, k in factors.items()]
        elif level == 4:
            kind, twos = rng.choice((("odd", 1), ("even", 2 ** (factors[2] + 1) - 2)))
            what = f"What is the sum of all {kind} positive divisors of {number}?"
            parts = [twos, *self._sums({p: k for p, k in factors.items() if p > 2})]
        else:
            power = rng.randint(2, 9)
            what = f"How many positive divisors of {number}^{power} do not divide {number}?"
            many, few = prod(power * k + 1 for k in factors.values()), prod(k + 1 for k in factors.values())
            steps.append(f"{number}^{power} has {many} divisors, {number} has {few}: {many} - {few} = {many - few}")
            return Question(what, many - few, lines(steps))
        steps.append(f"{' * '.join(map(str, parts))} = {prod(parts)}")
        return Question(what, prod(parts), lines(steps))

    @staticmethod
    def _sums(factors: dict[int, int]) -> list[int]:
        return [(p ** (k + 1) - 1) // (p - 1) for p, k in factors.items()]


class ModularPower(ExactAnswerTask):
    """Find the remainder of a power.

    Levels 1 to 3: exponents of up to 12, 60 and 999; 4 and 5: a tower of two exponents.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The working squares repeatedly; a tower's upper exponent is reduced by the period of the powers."""
        modulus = rng.randint(*((5, 20), (11, 60), (11, 200), (101, 400), (401, 2_000))[level - 1])
        base = rng.randint(2, (30, 50, 300, 300, 300)[level - 1])
        if level >= 4:
            return self._tower(rng, base, modulus, level)
        exponent = rng.randint(*((4, 12), (13, 60), (61, 999))[level - 1])
        result, steps = _by_squaring(base, exponent, modulus)
        text = f"What is the remainder of {base}^{exponent} on division by {modulus}?"
        return Question(text, result, lines(steps))

    @staticmethod
    def _tower(rng: random.Random, base: int, modulus: int, level: int) -> Question:
        middle, top = rng.randint(2, 30), rng.randint(*((40, 99) if level == 4 else (1_000, 9_999)))
        exponents: dict[int, int] = {}
        residue, n = 1 % modulus, 0
        while residue not in exponents:
            exponents[residue] = n
            residue, n = residue * base % modulus, n + 1
        start, period = exponents[residue], n - exponents[residue]
        exponent = pow(middle, top, period)
        exponent += 0 if exponent >= start else (start - exponent + period - 1) // period * period
        if middle**top < start:
            exponent = middle**top
        answer, last = _by_squaring(base, exponent, modulus)
        steps = [
            f"The powers of {base} repeat from exponent {start} on, with period {period}.",
            *(_by_squaring(middle, top, period)[1] if period > 1 else ()),
            f"So the exponent {middle}^{top} may be replaced by {exponent}.",
            *last,
        ]
        text = f"What is the remainder of {base}^({middle}^{top}) on division by {modulus}?"
        return Question(text, answer, lines(steps))


def _by_squaring(base: int, exponent: int, modulus: int) -> tuple[int, list[str]]:
    """A power's residue, and the way there."""
    square, result, power, steps = base % modulus, 1 % modulus, 1, []
    while power <= exponent:
        used = exponent & power
        result = result * square % modulus if used else result
        steps.append(f"{base}^{power} = {square}{f', product so far {result}' if used else ''} (mod {modulus})")
        square, power = square * square % modulus, 2 * power
    return result, [*steps, f"{base}^{exponent} = {result} (mod {modulus})"]


class ModularInverse(ExactAnswerTask):
    """Solve a linear congruence.

    Levels 1 to 5: solve ax + b = c for a residue x; the modulus has up to three to seven digits.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The coefficient is prime to the modulus, so that one residue solves it; the working is Euclid backwards."""
        largest = 10 ** (level + 2)
        while True:
            modulus = rng.randint(largest // 10, largest)
            a = rng.randint(2, modulus - 2)
            if gcd(a, modulus) == 1:
                break
        b, c = rng.randrange(modulus), rng.randrange(modulus)
        inverse = pow(a, -1, modulus)
        answer = (c - b) * inverse % modulus
        steps = [
            *_euclid(modulus, a),
            f"Backwards: {a} * {inverse} = 1 (mod {modulus})",
            f"x = ({c} - {b}) * {inverse} = {answer} (mod {modulus})",
        ]
        text = f"Which x from 0 to {modulus - 1} satisfies {a}x + {b} = {c} modulo {modulus}?"
        return Question(text, answer, lines(steps))


class ChineseRemainder(ExactAnswerTask):
    """Find a number from its remainders.

    Levels 1 to 5: two to five moduli; from level 3 on they may have common factors.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Remainders come from a number below the least common multiple, so they agree; the working sieves."""
        count, largest = (2, 3, 3, 4, 5)[level - 1], (120, 60, 60, 60, 60)[level - 1]
        while True:
            moduli = rng.sample(range(5, largest), count)
            if level >= 3 or all(gcd(a, b) == 1 for a, b in combinations(moduli, 2)):
                break
        number = rng.randrange(1, lcm(*moduli))
        value, period, steps = 0, 1, []
        for modulus in moduli:
            before, left = value, number % modulus
            while value % modulus != left:
                value += period
            whole = lcm(period, modulus)
            if period > 1:
                shown = polynomial((period % modulus, before % modulus), "t")
                same = f"{polynomial((period, before), 't')} leaves on division by {modulus} what {shown} leaves"
                at = f", {left} first at t = {(value - before) // period}" if period % modulus else " for every t"
                steps.append(f"{same}{at}. So it is {value} modulo {whole}.")
            else:
                steps.append(f"It is {value} modulo {whole}.")
            period = whole
        facts = in_a_row(f"{number % modulus} on division by {modulus}" for modulus in moduli)
        text = f"What is the least whole number from 0 up that leaves the remainders {facts}?"
        return Question(text, value, lines(steps), operations=count)


class LinearDiophantine(ExactAnswerTask):
    """Count the whole solutions of a linear equation.

    Levels 1 to 3: pairs of whole numbers from 0 up, with larger bounds; 4 and 5: with x and y in windows.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws a solution first, so that c fits; the working lists the family of solutions and its bounds."""
        common, largest = rng.randint(1, 6), (20, 60, 150, 400, 1_000)[level - 1]
        a, b = (common * n for n in rng.sample(range(2, largest), 2))
        low = 0 if level < 4 else rng.randint(-largest, -5)
        x, y = rng.randint(0, 3 * largest), rng.randint(0, 3 * largest)
        c, divisor = a * x + b * y, gcd(a, b)
        across, down = b // divisor, a // divisor  # every other solution is (x + t across, y - t down)
        inverse = pow(down, -1, across)
        x = c // divisor * inverse % across
        y = (c // divisor - down * x) // across
        first, last = -((x - low) // across), (y - low) // down
        steps = (
            *_euclid(a, b),
            f"{a}x + {b}y = {c}, divided by {divisor}: {linear((down, across), 'xy')} = {c // divisor}. "
            f"{down} * {inverse} = 1 (mod {across}), so "
            f"x = {x} (mod {across}): one solution is x = {x}, y = {y}.",
            f"All are x = {x} + {times(across, 't')}, y = {y} - {times(down, 't')}. "
            f"From x >= {low} follows t >= {first}.",
            f"From y >= {low} follows t <= {last}. Values of t: {last - first + 1}.",
        )
        text = f"How many pairs of whole numbers x >= {low}, y >= {low} satisfy {a}x + {b}y = {c}?"
        return Question(text, last - first + 1, lines(steps))


class DigitSums(ExactAnswerTask):
    """Count the numbers with a given digit sum.

    Levels 1 to 5: numbers below a bound of five to nine digits whose digits add up to a given sum.
    """

    explain = explained(counting_workings.digit_sums, "text", "answer")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts by the first digit that is below the bound's, with a table of digit sums for the rest."""
        bound = rng.randrange(10 ** (level + 3), 10 ** (level + 4))
        digits = [int(d) for d in str(bound)]
        total = rng.randint(5 + level, 9 * len(digits) - 12)
        count, used = 0, 0
        for index, digit in enumerate(digits):
            free = len(digits) - index - 1
            below = sum(_with_sum(free, total - used - d) for d in range(digit))
            count, used = count + below, used + digit
        text = f"How many whole numbers from 0 to {bound - 1} have digits (in base 10) that add up to {total}?"
        return Question(text, count)


@lru_cache(maxsize=1_024)
def _with_sum(digits: int, total: int) -> int:
    """How many rows of so many digits add up to a total."""
    if not 0 <= total <= 9 * digits:
        return 0
    row = [1]
    for _ in range(digits):
        row = [sum(row[max(0, s - 9) : s + 1]) for s in range(len(row) + 9)]
    return row[total]


class FactorialPowers(ExactAnswerTask):
    """Find the power of a number in a factorial.

    Level 1: a prime in n!; 2: any number; 3: trailing zeros in a base; 4: a prime in a binomial; 5: in a product.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Legendre's formula for each prime; a composite number is bounded by its scarcest prime power."""
        n = rng.randint(20, 400) if level == 1 else rng.randint(50, 2_000 if level == 2 else 20_000)
        if level in (1, 4, 5):
            p = rng.choice(PRIMES[:5])  # large ones divide few binomials
            if level == 1:
                steps = [self._step(n, p)]
                return self._answer(f"{n}!", p, _legendre(n, p), steps)
            k = rng.randint(20, n - 10)
            answer = _legendre(n, p) - _legendre(k, p) - _legendre(n - k, p)
            steps = [self._step(m, p) for m in (n, k, n - k)]
            parts = f"{_legendre(n, p)} - {_legendre(k, p)} - {_legendre(n - k, p)}"
            shown = f"the binomial coefficient C({n}, {k})"
            if level == 5:
                m = rng.randint(50, 20_000)
                steps += [self._step(m, p), f"{parts} + {_legendre(m, p)} = {answer + _legendre(m, p)}"]
                return self._answer(f"{m}! times {shown}", p, answer + _legendre(m, p), steps)
            return self._answer(shown, p, answer, [*steps, f"{parts} = {answer}"])
        factors = factorised(number := rng.randint(6, 100 if level == 2 else 2_000))
        product = f"{number} = {_product_form(factors)}" if len(factors) > 1 or max(factors.values()) > 1 else ""
        steps = [product or f"{number} is prime.", *(self._step(n, p) for p in factors)]
        fits = {p: _legendre(n, p) // k for p, k in factors.items()}
        for p, k in factors.items():
            if k > 1:
                whole = _legendre(n, p)
                steps.append(f"{p}^{k} fits {often(fits[p])}: {whole} = {k} * {fits[p]} + {whole % k}.")
        answer = min(fits.values())
        steps += [f"The least of {in_a_row(fits.values())} is {answer}."] if len(fits) > 1 else []
        if level == 3:
            text = f"How many zeros does {n}! end in when it is written in base {number}?"
            return Question(text, answer, lines(steps))
        return self._answer(f"{n}!", number, answer, steps)

    @staticmethod
    def _answer(shown: str, number: int, answer: int, steps: list[str]) -> Question:
        text = f"What is the largest k such that {number}^k divides {shown}? (k may be 0.)"
        return Question(text, answer, lines(steps))

    @staticmethod
    def _step(n: int, p: int) -> str:
        parts, power = [], p
        while power <= n:
            parts.append(n // power)
            power *= p
        total = sum(parts)
        return f"In {n}! the prime {p} occurs " + (
            f"{' + '.join(map(str, parts))} = {counted(total, 'time')}." if len(parts) > 1 else f"{often(total)}."
        )


def _legendre(n: int, p: int) -> int:
    """The exponent of the prime p in n!."""
    total = 0
    while n:
        n //= p
        total += n
    return total


class InclusionExclusion(ExactAnswerTask):
    """Count the numbers of a range by what divides them.

    Levels 1 to 3: divisible by one of two to four; 4: by none of four; 5: by exactly one of six.
    """

    explain = explained(counting_workings.inclusion_exclusion, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Sums over least common multiples with alternating signs; "exactly one" weights k-fold meets by k."""
        count, largest = (2, 3, 4, 4, 6)[level - 1], 13 if level == 1 else 30
        numbers = sorted(rng.sample(range(2, largest), count))
        top = 5 if level == 5 else 4
        low, high = rng.randint(1, 500), rng.randint(10 ** (top - 1), 10**top - 1)
        if level == 1:
            low, high = 1, rng.randint(50, 999)
        total = 0
        for size in range(1, count + 1):
            part = sum(self._multiples(lcm(*some), low, high) for some in combinations(numbers, size))
            weight = size if level == 5 else 1  # each number of k divisors once, or only those of exactly one
            total += (-1) ** (size + 1) * weight * part
        if level == 4:
            total = high - low + 1 - total
        how = {4: "none", 5: "exactly one"}.get(level, "at least one")
        text = f"How many whole numbers from {low} to {high} are divisible by {how} of {in_a_row(numbers)}?"
        return Question(text, total)

    @staticmethod
    def _multiples(divisor: int, low: int, high: int) -> int:
        return high // divisor - (low - 1) // divisor
