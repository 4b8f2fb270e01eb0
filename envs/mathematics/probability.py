"""Chance; an answer is a fraction or a decimal.

Observation: dice, urns, causes, games or a walk in words; a chance or a mean is asked for.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from math import comb, prod
from struct import unpack

from rlvr.envs.mathematics import counting_workings
from rlvr.envs.mathematics.common import bracketed, lines, listed
from rlvr.envs.tasks.draws import below
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained
from rlvr.envs.tasks.wording import counted, in_a_row, times

_DICE = re.compile(r"dice with ([0-9, and]+) sides.* the sum is ([^?]*)")
EXACT = "Answer exactly, with a fraction or a decimal."


class DiceSums(ExactAnswerTask):
    """Find the probability of a sum of dice.

    Level 1: an exact sum of two dice of different sizes; 2: of three; 3 and 4: at least a sum; 5: a remainder, of four.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Convolves the dice; asks for one sum (levels 1, 2), at least a sum (3, 4) or a remainder (5)."""
        count, max_sides = (2, 3, 2, 3, 4)[level - 1], (20, 18, 50, 30, 24)[level - 1]
        drawn = below(rng, 1 << 16, count + 2)
        sides = [4 + (number * (max_sides - 3) >> 16) for number in drawn[2:]]
        ways, high = ways_to_throw(sides), sum(sides)
        if level <= 2:
            target = count + 1 + (drawn[0] * (high - count - 1) >> 16)
            event, good = f"exactly {target}", ways[target - count]
        elif level <= 4:
            target = count + 2 + (drawn[0] * (high - count - 3) >> 16)
            event, good = f"at least {target}", sum(ways[target - count :])
        else:
            # A die whose sides the divisor divides would make all remainders equally likely; four dice leave some.
            divisors = [number for number in range(3, 12) if all(size % number for size in sides)]
            divisor, rest = divisors[drawn[0] * len(divisors) >> 16], 1 + (drawn[1] * 2 >> 16)
            event = f"a number that leaves the remainder {rest} on division by {divisor}"
            good = sum(ways[(rest - count) % divisor :: divisor])
        shown = in_a_row(sides)
        text = f"Fair dice with {shown} sides, each numbered from 1, are thrown together. What is the probability that "
        return Question(f"{text}the sum is {event}? {EXACT}", Fraction(good, prod(sides)))

    def explain(self, state: Question) -> str:
        """Adds the dice one by one, then the ways to the sums that are asked for."""
        dice, event = _DICE.findall(state.text)[0]
        sides, numbers = ([int(n) for n in re.findall("[0-9]+", part)] for part in (dice, event))
        steps = []
        for count in range(1, len(sides) + 1):
            thrown = sides[:count]
            steps.append(f"With the die of {thrown[-1]} sides: sums {count} to {sum(thrown)} in {prod(thrown)} ways.")
        ways = dict(enumerate(ways_to_throw(sides), len(sides)))
        if "remainder" in event:
            parts = [number for total, number in ways.items() if total % numbers[1] == numbers[0]]
        else:
            parts = [n for total, n in ways.items() if total == numbers[0] or (total > numbers[0] and "least" in event)]
        good, every = sum(parts), prod(sides)
        added = f"{' + '.join(map(str, parts))} = " if len(parts) > 1 else ""
        steps.append(f"The sums asked for come in {added}{counted(good, 'way')}.")
        return lines([*steps, _share(good, every)])


def _share(good: int, every: int) -> str:
    """The last step: the probability of so many of so many cases alike, and its lowest terms if they are others."""
    share = Fraction(good, every)
    return f"The probability is {good}/{every}{f' = {share}' if share.denominator != every else ''}."


def ways_to_throw(sides: list[int]) -> tuple[int, ...]:
    """How many ways lead to each sum of dice, from the least on: the coefficients of a product of polynomials.

    A polynomial is one number with 32 bits for each coefficient, so that one multiplication convolves.
    """
    product = prod([(1 << 32 * size) // 0xFFFFFFFF for size in sides])
    count = sum(sides) - len(sides) + 1
    return unpack(f"<{count}I", product.to_bytes(4 * count, "little"))


class UrnDraws(ExactAnswerTask):
    """Find the probability of a draw from an urn.

    Level 1: all of one colour; 2: exactly so many; 3: one of each; 4: of two colours; 5: at least so many.
    """

    COLOURS = ("red", "blue", "green", "white")
    explain = explained(counting_workings.urn_draws, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts sets of balls by binomials; nothing is put back, and the order does not count."""
        kinds = 4 if level in (3, 4) else 3
        urn = [rng.randint(3, (20, 60, 50, 50, 60)[level - 1]) for _ in range(kinds)]
        total, drawn = sum(urn), (2, 5, 4, 5, 6)[level - 1]
        every = comb(total, drawn)
        if level == 1:
            event = "both have the same colour"
            parts = [comb(n, drawn) for n in urn]
        elif level in (2, 5):
            number = rng.randint(1, 2)
            highest = number if level == 2 else drawn
            event = f"{'exactly' if level == 2 else 'at least'} {number} of them {'is' if number == 1 else 'are'} red"
            parts = [comb(urn[0], k) * comb(total - urn[0], drawn - k) for k in range(number, highest + 1)]
        elif level == 3:
            event, parts = "they have four different colours", [urn[0] * urn[1] * urn[2] * urn[3]]
        else:
            number = rng.randint(1, 2)
            event = f"exactly {number} of them {'is' if number == 1 else 'are'} red and at least one is blue"
            parts = [
                comb(urn[0], number) * comb(urn[1], k) * comb(total - urn[0] - urn[1], drawn - number - k)
                for k in range(1, drawn - number + 1)
            ]
        answer = Fraction(sum(parts), every)
        facts = in_a_row(f"{n} {colour}" for n, colour in zip(urn, self.COLOURS, strict=False))
        text = f"An urn holds {facts} balls. {drawn} balls are drawn without putting any back. What is the probability "
        return Question(f"{text}that {event}? {EXACT}", answer)


class Bayes(ExactAnswerTask):
    """Find a probability by Bayes' theorem.

    Levels 1 to 3: one sign of two to four causes; 4 and 5: two and three signs, independent given the cause.
    """

    SETTINGS = (
        ("Bottles come from the springs", "bottle"),
        ("Parts come from the machines", "part"),
        ("Letters come from the towns", "letter"),
    )
    SIGNS = ("a stain", "a scratch", "a notch")
    explain = explained(counting_workings.bayes, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Whole percentages; from level 4 on a sign may also be absent. The content leaves out the story's nouns."""
        causes, signs = (2, 3, 4, 3, 4)[level - 1], (1, 1, 1, 2, 3)[level - 1]
        names, asked = "ABCD"[:causes], rng.randrange(causes)
        while True:
            priors = [rng.randint(3, 97) for _ in range(causes - 1)]
            if sum(priors) < 98:
                break
        priors.append(100 - sum(priors))
        come, thing = rng.choice(self.SETTINGS)
        weights = [Fraction(prior, 100) for prior in priors]
        facts, observed = [f"{come} {in_a_row(names)} with the probabilities {_percents(priors)}."], []
        for sign in self.SIGNS[:signs]:
            rates, there = [rng.randint(1, 99) for _ in names], signs == 1 or rng.random() < 0.6
            facts.append(f"For these, the probabilities that a {thing} has {sign} are {_percents(rates)}.")
            observed.append(f"has {sign}" if there else f"does not have {sign}")
            for index, rate in enumerate(rates):
                weights[index] *= Fraction(rate if there else 100 - rate, 100)
        answer = weights[asked] / sum(weights)
        facts.append(f"One {thing} {' and '.join(observed)}.")
        if signs > 1:
            facts.insert(-1, "Given where it comes from, these marks are independent of one another.")
        text = f"{' '.join(facts)} What is the probability that it comes from {names[asked]}? {EXACT}"
        content = text.replace(come, "").replace(thing, "thing")
        return Question(text, answer, content=content)


def _percents(numbers: list[int]) -> str:
    return in_a_row(f"{number}%" for number in numbers)


class ExpectedValue(ExactAnswerTask):
    """Find an expected value.

    Level 1: a table; 2: the larger of two draws; 3: stop or go on; 4: a variance; 5: stop or go on twice.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Level 4 asks for the variance; 3 and 5 work backwards: keep a number above what going on is worth."""
        if level in (1, 4):
            return self._table(rng, level)
        prizes = sorted(rng.sample(range(1, 100), (0, 5, 6, 0, 6)[level - 1]))
        count = len(prizes)
        box = f"A box holds {count} notes with the numbers {in_a_row(prizes)}. One is drawn, all being equally likely"
        if level == 2:
            total = sum(max(a, b) for a in prizes for b in prizes)
            parts = " + ".join(f"{prize} * {2 * index + 1}" for index, prize in enumerate(prizes))
            steps = [f"The largest is the k-th of them in 2k - 1 of {count**2} cases: ({parts})/{count**2}"]
            text = (
                f"{box}, and put back; then one is drawn again. What is the expected value of the larger number drawn?"
            )
            answer = Fraction(total, count**2)
            return Question(f"{text} {EXACT}", answer, lines([*steps, f"That is {answer}."]))
        worth, steps = Fraction(sum(prizes), count), [f"The last note drawn is worth {Fraction(sum(prizes), count)}."]
        fee = rng.randint(1, 12)
        for _ in range(1 if level == 3 else 2):
            onward = worth - fee
            kept = [prize for prize in prizes if prize > onward]
            worth = (sum(kept) + (count - len(kept)) * onward) / count
            steps.append(f"Going on is worth {onward}: one keeps only {in_a_row(kept)}; that draw is worth {worth}.")
        text = f"{box}, and put back. One may keep its number as a prize, or pay {fee} and draw again, at most "
        text += (
            f"{'once' if level == 3 else 'twice'}; the last number drawn is the prize. What is the largest possible "
        )
        return Question(f"{text}expected value of the prize less what was paid? {EXACT}", worth, lines(steps))

    @staticmethod
    def _table(rng: random.Random, level: int) -> Question:
        weights = [rng.randint(1, 20) for _ in range(4)]
        prizes = [rng.randint(-60, 99) for _ in range(4)]
        whole = sum(weights)
        mean = Fraction(sum(w * p for w, p in zip(weights, prizes, strict=True)), whole)
        facts = "; ".join(
            f"{counted(p, 'point')} with probability {w}/{whole}" for w, p in zip(weights, prizes, strict=True)
        )
        steps = [
            f"({' + '.join(f'{w} * {bracketed(p)}' for w, p in zip(weights, prizes, strict=True))}) / {whole} = {mean}"
        ]
        if level == 1:
            return Question(f"A game gives {facts}. What is the expected number of points? {EXACT}", mean, lines(steps))
        square = Fraction(sum(w * p * p for w, p in zip(weights, prizes, strict=True)), whole)
        steps.append(
            f"The mean of the squares is {square}; the variance is {square} - ({mean})^2 = {square - mean**2}."
        )
        text = f"A game gives {facts}. What is the variance of the number of points? {EXACT}"
        return Question(text, square - mean**2, lines(steps))


class MarkovChains(ExactAnswerTask):
    """Find probabilities of a Markov chain.

    Levels 1 to 3: two or three states, two to four steps; 4 and 5: the gambler's ruin with unequal steps.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Levels 1 to 3 multiply the distribution on, step by step; the ruin of 4 and 5 has a closed form."""
        if level >= 4:
            return self._ruin(rng, level)
        states, count = (2, 3, 3)[level - 1], (3, 3, 4)[level - 1]
        names, below = "ABC"[:states], rng.randint(6, 12) if states == 3 else rng.randint(20, 60)
        rows = []
        for _ in names:
            cuts = sorted(rng.sample(range(1, below), states - 1))
            rows.append([b - a for a, b in zip([0, *cuts], [*cuts, below], strict=True)])
        now = [1] + [0] * (states - 1)
        steps = []
        for step in range(1, count + 1):
            now = [sum(n * row[k] for n, row in zip(now, rows, strict=True)) for k in range(states)]
            reached = listed(f"{name} {n}/{below**step}" for name, n in zip(names, now, strict=True))
            steps.append(f"After {counted(step, 'step')}: {reached}")
        asked = rng.randrange(states)
        facts = "; ".join(
            f"from {name} to {listed(f'{to} {w}/{below}' for to, w in zip(names, row, strict=True))}"
            for name, row in zip(names, rows, strict=True)
        )
        text = f"A walk has the states {in_a_row(names)} and starts in A. Its probabilities for a step are {facts}. "
        text += f"What is the probability that it is in {names[asked]} after {count} steps? {EXACT}"
        return Question(text, Fraction(now[asked], below**count), lines(steps))

    @staticmethod
    def _ruin(rng: random.Random, level: int) -> Question:
        """Up with a/(a + b), down with b/(a + b): the chance to reach the top is (1 - r^k)/(1 - r^n), r = b/a."""
        a, b = rng.sample(range(1, 90), 2)
        top = rng.randint(4, 7) if level == 4 else rng.randint(8, 12)
        start, stay = rng.randint(2, top - 2), rng.randint(1, 20) if level == 5 else 0
        whole, r = a + b + stay, Fraction(b, a)
        answer = (1 - r**start) / (1 - r**top)
        rests = f", and stays with probability {stay}/{whole}" if stay else ""
        up, down = times(a, "h(k + 1)", " "), times(b, "h(k - 1)", " ")
        steps = [f"Steps that stay do not matter: up {a}/{a + b}, down {b}/{a + b}."] if stay else []
        steps += [f"The chance h(k) of the top from k satisfies {a + b} h(k) = {up} + {down}, h(0) = 0."]
        steps += [f"So h(k + 1) - h(k) is ({r}) times the difference before it, and with h({top}) = 1"]
        steps += [f"h({start}) = (1 - ({r})^{start}) / (1 - ({r})^{top}) = {answer}."]
        text = f"A walk on the whole numbers from 0 to {top} starts at {start}. Each step goes up by 1 with "
        text += f"probability {a}/{whole} and down by 1 with probability {b}/{whole}{rests}. It ends at 0 or {top}. "
        return Question(f"{text}What is the probability that it ends at {top}? {EXACT}", answer, lines(steps))
