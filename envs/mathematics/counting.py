"""Counting without a list.

Observation: what is arranged, chosen, tiled or asked of people, under which conditions; how many there are is asked.
"""

from __future__ import annotations

import random
from math import comb, factorial, prod

from rlvr.envs.mathematics import counting_workings
from rlvr.envs.mathematics.common import lines, listed, signed
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained
from rlvr.envs.tasks.wording import counted, in_a_row

CONSONANTS, VOWELS = "BCDFGHKLMNPRST", "AEIOU"


class Arrangements(ExactAnswerTask):
    """Count the ways to arrange the letters of a word.

    Level 1: a word with repeats; 2: vowels in order; 3: together; 4: no two of them side by side; 5: one pair.
    """

    explain = explained(counting_workings.arrangements, "text", "answer")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Letters repeat, so orders are divided by the factorials of the repeats; there are three vowels."""
        consonants = self._letters(rng, CONSONANTS, rng.randint(3, 5) + level)
        vowels = self._letters(rng, VOWELS, 3)
        rest, vowel_orders = (
            factorial(len(consonants)) // self._repeats(consonants),
            factorial(3) // self._repeats(vowels),
        )
        word = rng.sample(consonants + vowels, len(consonants) + 3)
        count = len(word)
        gaps = len(consonants) + 1
        if level == 1:
            answer, condition = factorial(count) // self._repeats(word), ""
        elif level == 3:
            answer, condition = gaps * rest * vowel_orders, " in which all vowels stand together"
        elif level == 4:
            answer, condition = comb(gaps, 3) * rest * vowel_orders, " in which no two vowels stand side by side"
        elif level == 2:
            condition = " in which the vowels, read from left to right, are in alphabetical order"
            answer = comb(count, 3) * rest
        else:
            condition = " in which exactly two of the three vowels stand side by side"
            answer = gaps * (gaps - 1) * rest * vowel_orders
        text = f"How many different rows can be made of all the letters of {''.join(word)}{condition}?"
        return Question(text, answer)

    @staticmethod
    def _letters(rng: random.Random, among: str, count: int) -> list[str]:
        return [rng.choice(among) for _ in range(count)]

    @staticmethod
    def _repeats(letters: list[str]) -> int:
        return prod(factorial(letters.count(letter)) for letter in set(letters))


class Committees(ExactAnswerTask):
    """Count the ways to choose a committee.

    Level 1: exactly so many of a group; 2: at least; 3: two who will not serve together; 4 and 5: three groups.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Sums binomial products; "without Ann and Bob together" and "one of each group" are taken away from these."""
        groups = [rng.randint(5, (20, 60, 99, 99, 99)[level - 1]) for _ in range(2 if level <= 3 else 3)]
        size, least = rng.randint(*((2, 4), (4, 5), (5, 6), (6, 7), (7, 8))[level - 1]), rng.randint(1, 2)
        women, men = groups[0], sum(groups[1:])
        facts = in_a_row(f"{n} {name}" for n, name in zip(groups, ("women", "men", "children"), strict=False))
        text = f"From {facts} a committee of {size} is chosen."
        by_women = {k: comb(women, k) * comb(men, size - k) for k in range(least, size + 1)}
        if level == 1:
            answer, condition = by_women[least], f"with exactly {counted(least, 'woman', 'women')}"
            steps = [f"C({women}, {least}) * C({men}, {size - least}) = {answer}"]
        elif level <= 3:
            answer, condition = sum(by_women.values()), f"with at least {counted(least, 'woman', 'women')}"
            steps = [f"C({women}, {k}) * C({men}, {size - k}) = {n}" for k, n in by_women.items()]
            if level == 2:
                steps.append(f"Together {answer}.")
            else:
                condition += " but without Ann and Bob, one of the women and one of the men, together"
                both = sum(comb(women - 1, k - 1) * comb(men - 1, size - k - 1) for k in range(least, size))
                steps.append(f"Together {answer}, {both} of them with Ann and Bob: {answer} - {both} = {answer - both}")
                answer -= both
        else:
            condition, answer = "with at least one of each group", comb(sum(groups), size)
            steps = [f"Without conditions C({sum(groups)}, {size}) = {answer}"]
            without = [comb(sum(groups) - n, size) for n in groups]
            alone = [comb(n, size) for n in groups]
            shown = (f"C({sum(groups) - n}, {size}) = {ways}" for n, ways in zip(groups, without, strict=True))
            binomials = (f"C({n}, {size}) = {ways}" for n, ways in zip(groups, alone, strict=True))
            steps += [f"Without one group: {listed(shown)}; of one group alone: {listed(binomials)}"]
            less, more = " - ".join(map(str, without)), " + ".join(map(str, alone))
            steps += [f"{answer} - {less} + {more} = {answer + sum(alone) - sum(without)}"]
            answer += sum(alone) - sum(without)
            if level == 5:
                condition += ", and then a head and a deputy are chosen from its members"
                heads, before = size * (size - 1), answer
                answer *= heads
                steps.append(f"Each has {size} * {size - 1} = {heads} choices of both: {before} * {heads} = {answer}")
        question = f"{text} In how many ways can this be done {condition}?"
        return Question(question, answer, lines(steps))


Crossing = tuple[int, int]


class LatticePaths(ExactAnswerTask):
    """Count paths on a lattice.

    Level 1: through a crossing; 2 to 5: around one to four closed crossings.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """From level 2 on sums over the first closed crossing of a way, so that no way is taken off twice."""
        end = rng.randint(6, 18) + level, rng.randint(6, 18) + level
        inner = [(x, y) for x in range(end[0] + 1) for y in range(end[1] + 1) if (x, y) not in ((0, 0), end)]
        rule = f"Ways from (0, 0) to {end} go by steps of 1 to the right or up."
        if level == 1:
            via = rng.choice(inner)
            first, second = self._ways((0, 0), via), self._ways(via, end)
            steps = [f"{counted(first, 'way')} to {via}, {second} from there: {first} * {second} = {first * second}"]
            return Question(f"{rule} How many of them go through {via}?", first * second, lines(steps))
        closed = sorted(rng.sample(inner, level - 1))
        free: dict[Crossing, int] = {}
        steps = []
        for point in [*closed, end]:
            every = self._ways((0, 0), point)
            parts = {q: n * self._ways(q, point) for q, n in free.items() if q[0] <= point[0] and q[1] <= point[1]}
            free[point] = every - sum(parts.values())
            less = "".join(f", less {part} whose first closed crossing is {q}" for q, part in parts.items())
            result = f"{less}: {free[point]}" if less else ""
            steps.append(f"To {point} there {'is' if every == 1 else 'are'} {counted(every, 'way')}{result}")
        text = f"{rule} How many of them avoid {in_a_row(closed)}?"
        return Question(text, free[end], lines(steps))

    @staticmethod
    def _ways(start: Crossing, end: Crossing) -> int:
        across, up = end[0] - start[0], end[1] - start[1]
        return comb(across + up, up)


class Distributions(ExactAnswerTask):
    """Count the ways to put identical balls into boxes.

    Levels 1 to 5: identical balls in three to five boxes, each with a least number; from 2 on most numbers too.
    """

    explain = explained(counting_workings.distributions, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Takes the least numbers away, then inclusion and exclusion over the boxes with a most."""
        count, capped = (4, 4, 4, 5, 5)[level - 1], (0, 1, 2, 3, 4)[level - 1]
        low = [rng.randint(int(number >= capped), 7) for number in range(count)]  # "at least 0" says nothing
        free = rng.randint(8, 30)
        total = sum(low) + free
        high = [a + rng.randint(2, max(3, free // 2)) for a in low[:capped]]
        over = [b - a + 1 for a, b in zip(low, high, strict=False)]  # this many free balls break a box's bound
        answer = 0
        for chosen in range(2**capped):
            some = [over[index] for index in range(capped) if chosen >> index & 1]
            rest = free - sum(some)
            if rest >= 0:
                answer += (-1) ** len(some) * comb(rest + count - 1, count - 1)
        bounds = [f"from {a} to {high[n]}" if n < capped else f"at least {a}" for n, a in enumerate(low)]
        facts = in_a_row(f"{bound} in box {number}" for number, bound in enumerate(bounds, 1))
        text = f"In how many ways can {total} identical balls be put into {count} numbered boxes, with {facts}?"
        return Question(text, answer)


class SetSizes(ExactAnswerTask):
    """Find how many are in which sets, by inclusion and exclusion.

    Level 1: two sets; 2 to 4: none, exactly two and exactly one of three; 5: four sets.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws every region of the Venn diagram, tells only the intersections, and asks for "exactly k"."""
        names = "ABCD"[: (2, 3, 3, 3, 4)[level - 1]]
        regions = {mask: rng.randint(1, 20 if level == 1 else 60) for mask in range(2 ** len(names))}
        exactly = (0, 0, 2, 1, rng.randint(0, 1))[level - 1]
        answer = sum(size for mask, size in regions.items() if mask.bit_count() == exactly)
        meets = {
            mask: sum(size for other, size in regions.items() if other & mask == mask)
            for mask in sorted(range(1, 2 ** len(names)), key=lambda mask: (mask.bit_count(), mask))
        }
        facts = []
        for mask, size in meets.items():
            members = [name for index, name in enumerate(names) if mask >> index & 1]
            facts.append(f"{size} read {in_a_row(members)}")
        total, steps = sum(regions.values()), []
        sums = [sum(size for mask, size in meets.items() if mask.bit_count() == k) for k in range(len(names) + 1)]
        sums[0] = total
        kinds = ("all people", "one journal", "two together", "three together", "four together")
        steps.append("; ".join(f"{kind}: {size}" for kind, size in zip(kinds, sums, strict=False)))
        steps[0] = f"The given numbers, added up for each count of journals: {steps[0]}."
        how = ("none", "exactly one", "exactly two")[exactly]
        shown = signed([(-1) ** (k - exactly) * comb(k, exactly) * sums[k] for k in range(exactly, len(sums))])
        formula = " ".join(
            f"{'-' if (k - exactly) % 2 else '+'} {comb(k, exactly)} * {sums[k]}" for k in range(exactly, len(sums))
        )
        shown = f"{formula.removeprefix('+ ')} = {shown}" if exactly else shown
        steps.append(f"Those who read {how} of them: {shown} = {answer}")
        text = f"{total} people were asked which of the journals {in_a_row(names)} they read: {in_a_row(facts)}. Each "
        text += "of these numbers counts all who read the journals that it names, also those who read others. "
        asked = f"{how} of the {len(names)}" if len(names) > 2 else "neither of the two"
        return Question(f"{text}How many read {asked} journals?", answer, lines(steps))


class Tilings(ExactAnswerTask):
    """Count rows of tiles.

    Levels 1 and 2: coloured tiles of three lengths; 3: no two of the longest side by side; 4 and 5: four lengths.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts rows by their last tile; the rule from level 3 on takes off those that end in two longest tiles."""
        kinds = 3 if level < 4 else 4
        lengths = sorted(rng.sample(range(1, 4 + kinds), kinds))
        colours = [rng.randint(1, 9) for _ in lengths]
        apart, total = level >= 3, rng.randint(4, 6) + lengths[-1] + level
        # ways[n]: rows of length n; ended[n]: those whose last tile is of the longest kind
        ways, ended, steps = [1], [0], []
        for n in range(1, total + 1):
            parts = [c * ways[n - size] if n >= size else 0 for size, c in zip(lengths, colours, strict=True)]
            if apart and n >= lengths[-1]:
                parts[-1] -= colours[-1] * ended[n - lengths[-1]]
            ways.append(sum(parts))
            ended.append(parts[-1])
            steps.append(f"Length {n}: {' + '.join(map(str, parts))} = {sum(parts)} (by the last tile)")
        facts = in_a_row(f"length {size} in {counted(c, 'colour')}" for size, c in zip(lengths, colours, strict=True))
        rule = f" Two tiles of length {lengths[-1]} must not stand side by side." if apart else ""
        text = f"There are tiles of {facts}, as many as needed.{rule} How many different rows of tiles have the length "
        return Question(f"{text}{total}?", ways[total], lines(steps))
