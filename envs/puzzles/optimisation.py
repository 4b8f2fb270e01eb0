"""Optimisation with a known optimum, and number puzzles.

Observation: things, jobs, coins or a grid with their numbers, and what is to be found.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from operator import mul, sub

from rlvr.envs.puzzles import grid_workings, workings
from rlvr.envs.tasks.answers import ListAnswerTask, board, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question, explained, whole_numbers
from rlvr.envs.tasks.wording import in_a_row


class Knapsack(ExactAnswerTask):
    """Find the most valuable things that a bag can hold.

    Levels 1 to 5: 5, 7, 9, 11 and 14 things.
    """

    explain = explained(workings.knapsack, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Capacity is 35 to 60 % of all weight; the optimum comes from dynamic programming over capacities."""
        things = [(rng.randint(3, 20), rng.randint(5, 60)) for _ in range((5, 7, 9, 11, 14)[level - 1])]
        capacity = sum(weight for weight, _ in things) * rng.randint(35, 60) // 100
        best = [0] * (capacity + 1)
        for weight, value in things:
            for room in range(capacity, weight - 1, -1):
                best[room] = max(best[room], best[room - weight] + value)
        lines = "\n".join(f"thing {n}: weight {weight}, value {value}" for n, (weight, value) in enumerate(things, 1))
        text = f"{lines}\nA bag holds a weight of at most {capacity}. Each thing can be taken once or not at all. What "
        return Question(f"{text}is the largest total value that can be taken?", best[-1])


class SubsetSum(CheckedAnswerTask):
    """Choose numbers that add up to a target.

    Levels 1 to 5: 7, 9, 12, 15 and 18 numbers of two to four digits.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The target is the sum of a drawn choice of three or more, so that a choice exists."""
        count, largest = (7, 9, 12, 15, 18)[level - 1], (99, 300, 999, 2_000, 5_000)[level - 1]
        numbers = rng.sample(range(10, largest), count)
        chosen = rng.sample(numbers, rng.randint(3, count // 2 + 1))
        text = (
            f"Choose some of these numbers, each at most once, so that their sum is {sum(chosen)}: {listed(numbers)}."
        )
        return Question(
            f"{text}\nAnswer with the numbers chosen.", (tuple(numbers), sum(chosen)), answer_text=listed(chosen)
        )

    def explain(self, state: Question) -> str:
        """The sum of the numbers chosen, one after another."""
        chosen = [int(number) for number in state.answer_text.split(", ")]
        steps = [
            f"{total} + {number} = {total + number}"
            for total, number in zip(accumulate(chosen), chosen[1:], strict=False)
        ]
        return "\n".join([f"Take {state.answer_text}.", *steps])

    def check(self, question: Question, answer: str) -> str | None:
        """Any choice of the listed numbers, none twice, with the target as its sum."""
        numbers, total = question.answer
        chosen = whole_numbers(_without_sum(answer))
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(numbers):
            return "a number is not there, or taken twice"
        return None if sum(chosen) == total else f"the sum is {sum(chosen)}"


def _without_sum(answer: str) -> str:
    """``3 + 5 = 8`` as ``3, 5``, where that is their sum; else unchanged."""
    terms, _, total = answer.partition("=")
    numbers = [term.strip() for term in terms.split("+")]
    if len(numbers) < 2 or not all(0 < len(number) < 10 and number.isdecimal() for number in numbers):
        return answer
    return answer if "=" in answer and total.strip() != str(sum(map(int, numbers))) else ", ".join(numbers)


class CoinChange(ExactAnswerTask):
    """Count the ways to pay a sum.

    Levels 1 to 3: how many ways there are to pay, with 3 to 5 kinds of coins; 4 and 5: with a most of each kind.
    """

    explain = explained(workings.coin_change, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts multisets by dynamic programming over the coins; drawn again where nothing pays the amount."""
        coins = [rng.randint(2, 7), *sorted(rng.sample(range(8, 36), (2, 3, 4, 3, 4)[level - 1]))]
        limits = [rng.randint(4, 9) for _ in coins] if level > 3 else [10**6] * len(coins)
        while True:
            if level > 3:  # near half of all the coins, where most ways are
                every = sum(map(mul, coins, limits))
                amount = rng.randint(every // 3, every // 2)
            else:
                amount = rng.randint(*((60, 150), (110, 170), (125, 185))[level - 1])
            ways = [1] + [0] * amount
            for coin, limit in zip(coins, limits, strict=True):
                for rest in range(coin):
                    ways[rest::coin] = accumulate(ways[rest::coin])
                beyond = (limit + 1) * coin  # the ways that take more than there are of this coin
                ways[beyond:] = map(sub, ways[beyond:], ways)
            if ways[-1]:
                break
            coins[0] = max(1, coins[0] - 1)
        pairs = zip(coins, limits, strict=True)
        kinds = [f"{coin} (at most {limit} of them)" if level > 3 else str(coin) for coin, limit in pairs]
        text = f"There are coins of {in_a_row(kinds)} cents. In how many ways can exactly {amount} cents be paid? "
        return Question(f"{text}Only how many coins of each kind are used counts, not their order.", ways[-1])


class IntervalScheduling(ExactAnswerTask):
    """Choose jobs that do not overlap and pay most.

    Levels 1 to 5: 6, 8, 11, 14 and 18 jobs.
    """

    explain = explained(workings.interval_scheduling, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Weighted interval scheduling, by dynamic programming over jobs sorted by their ends."""
        count = (6, 8, 11, 14, 18)[level - 1]
        jobs = []
        for _ in range(count):
            start = rng.randint(0, 3 * count)
            jobs.append((start, start + rng.randint(2, count), rng.randint(5, 60)))
        ordered = sorted(jobs, key=lambda job: job[1])
        ends = [end for _, end, _ in ordered]
        best = [0]
        for index, (start, _, pay) in enumerate(ordered):
            best.append(max(best[-1], best[bisect_right(ends, start, 0, index)] + pay))
        lines = "\n".join(f"job {n}: from hour {a} to hour {b}, pays {pay}" for n, (a, b, pay) in enumerate(jobs, 1))
        text = f"{lines}\nOne job can be done at a time, from its beginning to its end; the next may begin in the hour "
        return Question(f"{text}in which one ends. What is the most that can be earned?", best[-1])


def magic_square(rng: random.Random, size: int) -> list[list[int]]:
    """A square of size 3, 5 or 7 whose rows, columns and diagonals have one sum; its numbers may repeat."""
    if size == 3:
        a, b, c = rng.randint(30, 199), rng.randint(1, 14), rng.randint(1, 14)
        square = [[a + b, a - b - c, a + c], [a - b + c, a, a + b - c], [a - c, a + b + c, a - b]]
        return [row[::-1] for row in square] if rng.random() < 0.5 else square
    high, low = rng.sample(range(60), size), rng.sample(range(1, 40), size)
    # Each number of ``high``, and each of ``low``, stands once in every row, column and diagonal.
    return [[high[(r + 2 * c) % size] + low[(r + 3 * c) % size] for c in range(size)] for r in range(size)]


class MagicSquare(ListAnswerTask):
    """Fill the gaps of a magic square.

    Levels 1 to 5: 3 gaps in a 3 x 3 square, 5 and 8 in 5 x 5, 10 and 12 in 7 x 7; each follows from others.
    """

    explain = explained(grid_workings.magic_square, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Opens gaps only in lines that were full, so that each gap can be worked out in turn."""
        size, gaps = (3, 5, 5, 7, 7)[level - 1], (3, 5, 8, 10, 12)[level - 1]
        square = magic_square(rng, size)
        lines = [{(k, i) for i in range(size)} for k in range(size)] + [
            {(i, k) for i in range(size)} for k in range(size)
        ]
        lines += [{(i, i) for i in range(size)}, {(i, size - 1 - i) for i in range(size)}]
        missing: list[tuple[int, int]] = []
        while len(missing) < gaps:
            # Each new gap lies in a line without one, so that it can be filled before those made earlier; one line
            # without gaps must remain, which gives the sum.
            missing, full = [], list(lines)
            while len(full) > 1 and len(missing) < gaps:
                cells = sorted(rng.choice(full))
                cell = min(rng.sample(cells, len(cells)), key=lambda cell: sum(cell in line for line in full))
                full = [line for line in full if cell not in line]
                missing.append(cell)
            if not full:
                missing = []
        shown = [" ".join("?" if (r, c) in missing else str(square[r][c]) for c in range(size)) for r in range(size)]
        text = "In this square every row, every column and both diagonals have the same sum:\n" + "\n".join(shown)
        gold = tuple(square[r][c] for r, c in sorted(missing))
        return Question(f"{text}\nAnswer with the numbers for the places with ?, row by row.", gold)


class Kakurasu(CheckedAnswerTask):
    """Choose cells by weighted sums of rows and columns.

    Levels 1 to 5: grids of 4 x 4 to 8 x 8.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random weights instead of 1, 2, 3, ..., so that the sums leave fewer choices; no row is empty."""
        size = 3 + level
        while True:
            rows = ["".join(rng.choices("01", k=size)) for _ in range(size)]
            if all("1" in row for row in rows):
                break
        weights = [rng.randint(1, 9 + size) for _ in range(2 * size)]
        across, down = self.sums(rows, weights)
        text = f"Choose cells of a grid with {size} rows and {size} columns. A chosen cell is worth its column's "
        text += "number in the sum of its row, and its row's number in the sum of its column.\nNumbers of the columns: "
        text += f"{listed(weights[:size])}; of the rows: {listed(weights[size:])}.\nSums of the rows: "
        text += f"{listed(across)}; of the columns: {listed(down)}.\nAnswer with {size} rows of {size} digits, one row "
        text += "per line: 1 for a chosen cell, 0 for another. Any choice that fits is right."
        return Question(text, (tuple(weights), across, down), answer_text="\n".join(rows))

    def explain(self, state: Question) -> str:
        """What the sums force, line after line, and the sums."""
        return grid_workings.kakurasu(state)[0]

    def direct_answer(self, state: Question) -> str:
        """The rows that the working comes to; where there are several answers it need not be the one drawn."""
        rows = "\n".join(grid_workings.kakurasu(state)[1])
        return f"\\boxed{{{rows}}}"

    @staticmethod
    def sums(rows: list[str], weights: list[int]) -> tuple[list[int], list[int]]:
        """The sums of the rows and of the columns."""
        size = len(rows)
        across = [sum(weights[c] for c in range(size) if row[c] == "1") for row in rows]
        return across, [sum(weights[size + r] for r in range(size) if rows[r][c] == "1") for c in range(size)]

    def check(self, question: Question, answer: str) -> str | None:
        """The weighted sums of all rows and columns; any choice that meets them is right."""
        weights, across, down = question.answer
        sums = self.sums(board(answer, len(across), len(across), "01"), weights)
        for totals, right, kind in zip(sums, (across, down), ("row", "column"), strict=True):
            for number, (total, clue) in enumerate(zip(totals, right, strict=True), 1):
                if total != clue:
                    return f"the sum of {kind} {number} is {total}, not {clue}"
        return None
