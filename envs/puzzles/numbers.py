"""Puzzles of numbers.

Observation: numbers, a sum of words, or a table with gaps, and the rules.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import combinations

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.puzzles import grid_workings
from rlvr.envs.puzzles.column_sums import other_solution
from rlvr.envs.puzzles.latin import latin_square
from rlvr.envs.puzzles.search_budget import SearchBudget, TooLong
from rlvr.envs.rewards.graders.countdown import grade_countdown
from rlvr.envs.tasks.answers import board, items, listed
from rlvr.envs.tasks.draws import below, distinct, picked
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained, whole_numbers

TARGET = 24


def steps_to(target: int, parts: list[tuple[Fraction, str]]) -> tuple[str, list[str]] | None:
    """An expression of all the parts with this value, and the steps to it; None if there is none."""
    if len(parts) == 1:
        return (parts[0][1], []) if parts[0][0] == target else None
    for i, j in combinations(range(len(parts)), 2):
        rest = [part for k, part in enumerate(parts) if k not in (i, j)]
        (x, a), (y, b) = sorted((parts[i], parts[j]), reverse=True)
        results = [(x + y, f"({a}+{b})"), (x * y, f"({a}*{b})"), (x - y, f"({a}-{b})")]
        results += [(x / y, f"({a}/{b})")] if y else []
        results += [(y / x, f"({b}/{a})")] if x else []
        for value, text in results:
            if steps := steps_to(target, [*rest, (value, text)]):
                step = f"{text[1:-1]} = {value}"
                return steps[0], [step, *steps[1]] if text[1:-1] != str(value) else steps[1]
    return None


@cache
def hands(level: int) -> tuple[tuple[int, ...], ...]:
    """Four numbers each, found by a search of our own: a line of the file a level, a letter a number, a is 1."""
    lines = files(__package__).joinpath("hands_of_24.txt").read_text(encoding="ascii").splitlines()
    return tuple(tuple(ord(letter) - 96 for letter in hand) for hand in lines[level - 1].split())


def ways_to(target: int, numbers: Sequence[Fraction]) -> tuple[int, int]:
    """How many chains of operations join all the numbers to one, and how many of them make the target."""
    if len(numbers) == 1:
        return 1, int(numbers[0] == target)
    every = right = 0
    for i, j in combinations(range(len(numbers)), 2):
        rest = [number for k, number in enumerate(numbers) if k not in (i, j)]
        x, y = numbers[i], numbers[j]
        results = [x + y, x * y, x - y, y - x, *([x / y] if y else []), *([y / x] if x else [])]
        for value in results:
            more, ways = ways_to(target, [*rest, value])
            every, right = every + more, right + ways
    return every, right


class TwentyFour(CheckedAnswerTask):
    """Make 24 of four numbers.

    Levels 1, 2: 1 to 13, in many and in some ways; 3: 1 to 25; 4: 1 to 13, in few; 5: one way, or only with fractions.

    The hands were all found beforehand; no two levels share one.

    Observation: the four numbers.
    Reward: 1 for an expression that uses each number exactly once and is 24 exactly, else 0.
    """

    system = (
        f"Make {TARGET} from the four numbers. Use each number exactly once, with + - * / and brackets. "
        "Put the expression in \\boxed{}."
    )

    def ask(self, rng: random.Random, level: int) -> Question:
        """One of the level's committed hands in random order; the content is the sorted hand."""
        all_hands = hands(level)
        numbers = list(all_hands[int(rng.random() * len(all_hands))])
        content = listed(numbers)
        rng.shuffle(numbers)
        return Question(f"Numbers: {' '.join(map(str, numbers))}.", tuple(numbers), content=content)

    def difficulty(self, state: Question) -> float:
        """Chains of operations for each that makes 24."""
        every, right = ways_to(TARGET, [Fraction(number) for number in state.answer])
        return every / right

    def enumerate_contents(self, level: int) -> list[str]:
        """The level's hands, all of them known."""
        return [listed(hand) for hand in hands(level)]

    def judge(self, question: Question, reply: str) -> Verdict:
        """Parses the expression: exact rationals, each number exactly once, value 24."""
        return grade_countdown(reply, {"numbers": list(question.answer), "target": TARGET})

    def solve(self, state: Question) -> str:
        """The steps of the first expression that a full search finds, fractions allowed, then the expression."""
        return "\n".join([*self.found(state)[1], self.direct_answer(state)])

    def direct_answer(self, state: Question) -> str:
        """The expression that ``solve`` ends with."""
        return f"\\boxed{{{self.found(state)[0]}}}"

    @staticmethod
    def found(state: Question) -> tuple[str, list[str]]:
        """An expression that makes 24, and the steps to it."""
        steps = steps_to(TARGET, [(Fraction(number), str(number)) for number in state.answer])
        if steps is None:
            raise ValueError(f"{state.answer} cannot make {TARGET}")
        return steps

    def sample_action(self, state: Question, rng: random.Random) -> str:
        """Random operations on the four numbers in random order, bracketed from the left."""
        a, b, c, d = rng.sample(state.answer, 4)
        x, y, z = rng.choices("+-*/", k=3)
        return f"\\boxed{{(({a}{x}{b}){y}{c}){z}{d}}}"


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def hints_by_columns(rng: random.Random, numbers: list[str], digits: str) -> str | None:
    """The letters, named by their digits, to tell so that each column of two numbers gives at most one letter.

    From the right, of the letters that a column is the first to hold one is left. It counts there once, above the line
    or below, so that no two digits of it fit. None where fewer than three are left.
    """
    hints = met = ""
    above = rng.getrandbits(1)
    for a, b, total in zip(*[number[::-1] for number in numbers], strict=False):
        if a == b:
            left = total
        elif total in (a, b):
            left = b if total == a else a
        else:
            left = next((letter for letter in ((a, b, total) if above else (total, b, a)) if letter not in met), "")
        for letter in (a, b, total):
            if letter not in met:
                met += letter
                if letter != left:
                    hints += letter
    return hints if len(digits) - len(hints) >= 3 else None


def hints_by_search(rng: random.Random, numbers: list[str], shown_digits: str) -> str | None:
    """Letters, named by their digits, to tell so that there is one solution, which a full search proves.

    None where fewer than five are left.
    """
    digits = [*map(int, shown_digits)]
    length, shown = len(numbers[0]), "".join(numbers)
    columns = [[int(number[-1 - k]) for number in numbers[:-1]] for k in range(length)]
    columns += [[]] * (len(numbers[-1]) - length)
    sums = [int(digit) for digit in reversed(numbers[-1])]
    first = sum(1 << digit for digit in {int(number[0]) for number in numbers})
    hints = set(picked(rng, digits, 2 * (len(numbers) > 3)))  # the search through three numbers is long without
    for column in columns:  # letters that stand nowhere else could change places
        alone = [digit for digit in column if digit not in hints and shown.count(str(digit)) == 1]
        hints.update(picked(rng, alone, max(0, len(alone) - 1)))
    other = None
    while len(digits) - len(hints) >= 5:
        other = other_solution(columns, sums, first, sum(1 << digit for digit in hints), other)
        if other is None:
            return "".join(map(str, hints))
        hints.add(rng.choice([digit for digit in digits if other[digit] != digit]))
    return None


class Cryptarithms(CheckedAnswerTask):
    """Find the digits that letters stand for in a sum.

    Levels 1 to 4: two numbers of 3 to 6 digits; 5: three of 5; the values of some letters are told.

    Level 1 tells so many that each column gives one more; above, as many as make the solution unique, which a full
    search proves for each puzzle.
    """

    explain = explained(grid_workings.cryptarithm)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Tells letters until there is one solution; at least three letters stay open, five from level 2 on.

        The content is the numbers: other letters make no new task.
        """
        length, count = (3, 4, 5, 6, 5)[level - 1], 2 + (level == 5)
        low, fewest = 10 ** (length - 1), (6, 8, 9, 9, 9)[level - 1]
        hints = None
        while hints is None:
            addends = [low + number for number in below(rng, 9 * low, count)]
            numbers = [*map(str, addends), str(sum(addends))]
            digits = "".join(sorted(set("".join(numbers))))
            if len(digits) < fewest:
                continue
            hints = (hints_by_columns if level == 1 else hints_by_search)(rng, numbers, digits)
        content = " + ".join(sorted(numbers[:-1]))
        letters = [LETTERS[number] for number in distinct(rng, 26, len(digits))]
        written = f"{' + '.join(numbers[:-1])} = {numbers[-1]}".translate(str.maketrans(digits, "".join(letters)))
        *words, _, total = written.replace(" +", "").split()
        gold = sorted(zip(letters, digits, strict=True))
        text = f"{written}\nEach letter stands for a digit of its own, and no number begins with 0."
        if hints:
            text += f" {', '.join([f'{letter} is {digit}' for letter, digit in gold if digit in hints])}."
        text += (
            f"\nWhich digits are {', '.join(sorted(letters))}? Answer with a letter and its digit for each, such as "
        )
        text += "A=1, B=2, ..."
        solution = ", ".join([f"{letter}={digit}" for letter, digit in gold])
        return Question(text, (tuple(words), total, tuple(gold), len(hints)), answer_text=solution, content=content)

    def check(self, question: Question, answer: str) -> str | None:
        """Every letter once with a single digit; the solution is unique, so digits are compared."""
        words, total, gold, _ = question.answer
        parts = items(answer.replace("=", " ").replace(":", " "), 2 * len(gold))
        value = dict(zip(parts[::2], parts[1::2], strict=True))
        if sorted(value) != [letter.lower() for letter, _ in gold]:
            raise ValueError("each letter must be given its digit once, such as A=1")
        if not all(digit in "0123456789" and len(digit) == 1 for digit in value.values()):
            raise ValueError("a letter stands for a single digit")
        if any(value[letter.lower()] != digit for letter, digit in gold):
            shown = [int("".join(value[letter.lower()] for letter in word)) for word in (*words, total)]
            return f"{' + '.join(map(str, shown[:-1]))} = {shown[-1]} is not the solution"
        return None


@cache
def digits_of(unused: int, count: int, total: int) -> int:
    """The digits, as bits, that are in any set of so many unused ones with that sum."""
    mask = 0
    for chosen in combinations([digit for digit in range(1, 10) if unused >> digit & 1], count):
        if sum(chosen) == total:
            mask |= sum(1 << digit for digit in chosen)
    return mask


def other_digits(
    runs: Sequence[Sequence[tuple[int, int]]], digits: Mapping[tuple[int, int], int], givens: Set[tuple[int, int]]
) -> dict[tuple[int, int], int] | None:
    """Digits of a Kakuro that keep the sums and what is given, and are not these; None where there are no others.

    Raises:
        TooLong: it is not known after 250 partial fillings.
    """
    of_cell: dict[tuple[int, int], list[int]] = {cell: [] for cell in digits}
    unused, count, total = [0b1111111110] * len(runs), [len(run) for run in runs], [0] * len(runs)
    for number, run in enumerate(runs):
        total[number] = sum(digits[cell] for cell in run)
        for cell in run:
            of_cell[cell].append(number)

    def put(cell: tuple[int, int], digit: int, sign: int) -> None:
        for number in of_cell[cell]:
            unused[number] ^= 1 << digit
            count[number] -= sign
            total[number] -= sign * digit

    for cell in givens:
        put(cell, digits[cell], 1)
    empty = {cell for cell in digits if cell not in givens}
    filled: dict[tuple[int, int], int] = {}
    budget = SearchBudget(160)

    def may(cell: tuple[int, int]) -> int:
        allowed = 0b1111111110
        for number in of_cell[cell]:
            allowed &= digits_of(unused[number], count[number], total[number])
        return allowed

    def fill() -> bool:
        budget.spend()
        if not empty:
            return any(digits[cell] != digit for cell, digit in filled.items())
        cell = min(sorted(empty), key=lambda cell: may(cell).bit_count())
        allowed = may(cell)
        empty.discard(cell)
        for digit in range(1, 10):
            if allowed >> digit & 1:
                put(cell, digit, 1)
                filled[cell] = digit
                if fill():
                    return True
                put(cell, digit, -1)
        filled.pop(cell, None)
        empty.add(cell)
        return False

    return filled if fill() else None


class Kakuro(CheckedAnswerTask):
    """Fill a cross of digits by the sums of its runs.

    Levels 1 to 5: 3, 4, 5, 6 and 7 rows, with at least 1, 2, 3, 4 and 6 numbers given.

    More numbers are given where otherwise there were a second solution.
    """

    explain = explained(grid_workings.kakuro)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Blocks out 18 % of a part of a Latin square, then gives numbers until the solution is unique."""
        size, count = 2 + level, (1, 2, 3, 4, 6)[level - 1]
        square = latin_square(rng, 9)  # in a part of it no line holds a number twice
        open_ = {(r, c) for r in range(size) for c in range(size) if rng.random() < 0.82}
        while lonely := {cell for cell in open_ if not any(cell in run for run in self.runs(open_, size))}:
            open_ -= lonely
        if len(open_) < size * size // 2:
            return self.ask(rng, level)
        runs = self.runs(open_, size)
        digits = {(r, c): square[r][c] for r, c in sorted(open_)}
        facts = self.clues_for_uniqueness(rng, runs, digits, set(rng.sample(sorted(open_), count)))
        sums = [sum(square[r][c] for r, c in run) for run in runs]
        cells = [[(r, c) for c in range(size)] for r in range(size)]
        rows = tuple(
            "".join(
                "#" if cell not in open_ else str(square[cell[0]][cell[1]]) if cell in facts else "." for cell in row
            )
            for row in cells
        )
        solution = [
            "".join("#" if cell not in open_ else str(square[cell[0]][cell[1]]) for cell in row) for row in cells
        ]
        clues = "; ".join(self.named(run, total) for run, total in zip(runs, sums, strict=True))
        text = "Put a digit from 1 to 9 into each empty cell (.); # is a block. Cells in a row or column without a "
        text += "block between them, two or more, are a run; a run holds no digit twice.\n" + "\n".join(rows)
        text += f"\nSums of the runs: {clues}.\n"
        text += f"There is one solution. Answer with the {size} rows, # for blocks, one row per line."
        return Question(text, (rows, tuple(zip(map(tuple, runs), sums, strict=True))), answer_text="\n".join(solution))

    @staticmethod
    def clues_for_uniqueness(
        rng: random.Random,
        runs: Sequence[Sequence[tuple[int, int]]],
        digits: Mapping[tuple[int, int], int],
        givens: set[tuple[int, int]],
    ) -> set[tuple[int, int]]:
        """The cells that must be given, those that are among them, so that one solution is left."""
        while True:
            try:
                other = other_digits(runs, digits, givens)
            except TooLong:
                hidden = sorted(digits.keys() - givens)
                givens = givens | set(rng.sample(hidden, min(3, len(hidden))))
                continue
            if other is None:
                return givens
            givens = givens | {rng.choice(sorted(cell for cell, digit in other.items() if digit != digits[cell]))}

    @staticmethod
    def runs(open_: set[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
        """The groups of two or more neighbours in rows, then in columns."""
        runs: list[list[tuple[int, int]]] = []
        for flip in (False, True):
            for a in range(size):
                run: list[tuple[int, int]] = []
                for b in range(size + 1):
                    cell = (b, a) if flip else (a, b)
                    if cell in open_:
                        run.append(cell)
                        continue
                    if len(run) > 1:
                        runs.append(run)
                    run = []
        return runs

    @staticmethod
    def named(run: Sequence[tuple[int, int]], total: int) -> str:
        """A run of cells and its sum, in words."""
        (a, b), (c, d) = run[0], run[-1]
        where = f"row {a + 1}, columns {b + 1}-{d + 1}" if a == c else f"column {b + 1}, rows {a + 1}-{c + 1}"
        return f"{where}: {total}"

    def check(self, question: Question, answer: str) -> str | None:
        """Blocks and given digits must stay; every run has its sum and no digit twice."""
        rows, clues = question.answer
        lines = board(answer.replace("\\#", "#"), len(rows), len(rows), "123456789#")
        for number, (line, row) in enumerate(zip(lines, rows, strict=True), 1):
            if any(
                (clue != "." and symbol != clue) or (clue == "." and symbol == "#")
                for symbol, clue in zip(line, row, strict=True)
            ):
                return f"row {number} does not fit what is given"
        for run, total in clues:
            digits = [int(lines[r][c]) for r, c in run]
            if sum(digits) != total or len(set(digits)) < len(digits):
                return f"the sum is {sum(digits)}, or a digit stands twice, in {self.named(run, total)}"
        return None


class Survo(CheckedAnswerTask):
    """Fill a table by the sums of its rows and columns.

    Levels 1 to 5: 2 x 3, 3 x 3, 3 x 4, 3 x 5 and 4 x 5 numbers, with 1, 2, 3, 3 and 4 of them given.
    """

    explain = explained(grid_workings.sums_of_table)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Distinct numbers; those missing are listed, so that the answer is an arrangement, not necessarily the only
        one.
        """
        height, width = ((2, 3), (3, 3), (3, 4), (3, 5), (4, 5))[level - 1]
        count = height * width
        numbers = rng.sample(range(1, 9 * level + count), count)
        table = [numbers[r * width : (r + 1) * width] for r in range(height)]
        givens = set(rng.sample(numbers, (1, 2, 3, 3, 4)[level - 1]))
        across, down = tuple(map(sum, table)), tuple(map(sum, zip(*table, strict=True)))
        rows = tuple(tuple(n if n in givens else 0 for n in row) for row in table)
        picture = "\n".join(
            " ".join(str(n or ".") for n in row) + f" | {total}" for row, total in zip(rows, across, strict=True)
        )
        text = f"Put the numbers {listed(sorted(set(numbers) - givens))}, each once, for the dots of this table, so "
        text += "that the sums of the rows (right) and of the columns (below) are as "
        text += f"given:\n{picture}\n{'-' * 2 * width}\n{' '.join(map(str, down))}\nAnswer with the whole table, "
        text += f"{height} rows, one per line."
        rows_text = "\n".join(" ".join(map(str, row)) for row in table)
        return Question(text, (rows, tuple(sorted(numbers)), across, down), answer_text=rows_text)

    def check(self, question: Question, answer: str) -> str | None:
        """The table must hold exactly these numbers, the given ones in their cells, and meet all sums."""
        rows, numbers, across, down = question.answer
        entries = whole_numbers(answer.replace("\\\\", " ").replace(";", " "), len(numbers))
        if tuple(sorted(entries)) != numbers:
            return "the numbers are not those of the table, each once"
        if any(clue not in (0, n) for clue, n in zip((n for row in rows for n in row), entries, strict=True)):
            return "a number that is given was changed"
        table = [entries[k * len(down) : (k + 1) * len(down)] for k in range(len(across))]
        for kind, lines, sums in (("row", table, across), ("column", zip(*table, strict=True), down)):
            for number, (line, total) in enumerate(zip(lines, sums, strict=True), 1):
                if sum(line) != total:
                    return f"the sum of {kind} {number} is {sum(line)}, not {total}"
        return None
