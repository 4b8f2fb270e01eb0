"""Words in grids of letters; the words are made up.

Observation: a grid or a pattern, words, and what is asked of them.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import ClassVar

from rlvr.envs.puzzles import workings
from rlvr.envs.tasks.answers import ListAnswerTask, board, items, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained

CONSONANTS, VOWELS = "bcdfghjklmnprstvwz", "aeiou"
COMPASS = {
    "n": (-1, 0),
    "ne": (-1, 1),
    "e": (0, 1),
    "se": (1, 1),
    "s": (1, 0),
    "sw": (1, -1),
    "w": (0, -1),
    "nw": (-1, -1),
}
Cell = tuple[int, int]


def made_up_word(rng: random.Random, length: int) -> str:
    """A made-up word of so many letters, consonants and vowels in turn."""
    return "".join(rng.choice(CONSONANTS if index % 2 == 0 else VOWELS) for index in range(length))


class WordSearch(CheckedAnswerTask):
    """Find words in a grid of letters.

    Levels 1 to 5: 4 to 8 words in grids of 7 to 13 rows; at level 1 only E and S, at 2 no reading backwards.
    """

    WAYS: ClassVar[tuple[tuple[str, ...], ...]] = (("e", "s"), ("e", "s", "se", "ne"), *((tuple(COMPASS),) * 3))
    explain = explained(workings.word_search)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Puts the words in first, crossing where letters agree, then fills up at random; a word may occur again."""
        size, count = (7, 8, 9, 11, 13)[level - 1], 3 + level
        grid: dict[Cell, str] = {}
        words: list[str] = []
        solution: list[str] = []
        while len(words) < count:
            word = made_up_word(rng, rng.randint(4, 6))
            way = rng.choice(self.WAYS[level - 1])
            dy, dx = COMPASS[way]
            r, c = rng.randrange(size), rng.randrange(size)
            if not (0 <= r + dy * (len(word) - 1) < size and 0 <= c + dx * (len(word) - 1) < size):
                continue
            cells = [(r + k * dy, c + k * dx) for k in range(len(word))]
            if word not in words and all(
                grid.get(cell, letter) == letter for cell, letter in zip(cells, word, strict=True)
            ):
                grid.update(zip(cells, word, strict=True))
                words.append(word)
                solution.append(f"{r + 1} {c + 1} {way.upper()}")
        letters = VOWELS * 2 + CONSONANTS
        rows = tuple("".join(grid.get((r, c)) or rng.choice(letters) for c in range(size)) for r in range(size))
        text = "Find these words in the grid; each stands in one straight line, in one of the directions "
        text += f"{listed(way.upper() for way in self.WAYS[level - 1])} (N is up, E is right).\n" + "\n".join(rows)
        text += f"\nFor {listed(words)}, in this order, answer with the row and the column of the first letter, "
        text += "counted from 1, and the direction, such as: 3 4 E, 1 7 S, ..."
        return Question(text, (rows, tuple(words), self.WAYS[level - 1]), answer_text=listed(solution))

    def check(self, question: Question, answer: str) -> str | None:
        """Reads row, column and direction for each word; any occurrence in an allowed direction is right."""
        rows, words, ways = question.answer
        parts = items(answer, 3 * len(words))
        for word, row, column, way in zip(words, parts[::3], parts[1::3], parts[2::3], strict=True):
            if not (row.isdecimal() and column.isdecimal() and len(row) < 4 and len(column) < 4 and way in COMPASS):
                raise ValueError("each word needs a row, a column and a direction")
            if way not in ways:
                return f"{word} does not stand in the direction {way.upper()}"
            r, c, (dy, dx) = int(row) - 1, int(column) - 1, COMPASS[way]
            for k, letter in enumerate(word):
                y, x = r + k * dy, c + k * dx
                if not (0 <= y < len(rows) and 0 <= x < len(rows)) or rows[y][x] != letter:
                    return f"{word} does not stand at row {row}, column {column}"
        return None


def slots(pattern: tuple[str, ...]) -> list[list[Cell]]:
    """The groups of two or more open neighbours (not #) in rows, then in columns."""
    runs: list[list[Cell]] = []
    height, width = len(pattern), len(pattern[0])
    lines = [[(r, c) for c in range(width)] for r in range(height)]
    lines += [[(r, c) for r in range(height)] for c in range(width)]
    for line in lines:
        run: list[Cell] = []
        for r, c in [*line, (-1, -1)]:
            if r >= 0 and pattern[r][c] != "#":
                run.append((r, c))
                continue
            if len(run) > 1:
                runs.append(run)
            run = []
    return runs


class CrosswordFill(CheckedAnswerTask):
    """Fit words into a crossword pattern.

    Levels 1 to 5: crosses of 4, 6, 8, 11 and 14 words.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Grows crossing words until there are enough and no two are equal; the pattern is shown without letters."""
        grid = self.grow_grid(rng, (4, 6, 8, 11, 14)[level - 1], (9, 11, 13, 15, 17)[level - 1])
        top, left = min(r for r, _ in grid), min(c for _, c in grid)
        bottom, right = max(r for r, _ in grid), max(c for _, c in grid)
        rows = ["".join(grid.get((r, c), "#") for c in range(left, right + 1)) for r in range(top, bottom + 1)]
        pattern = tuple("".join("#" if symbol == "#" else "." for symbol in row) for row in rows)
        in_slots = ["".join(rows[r][c] for r, c in slot) for slot in slots(pattern)]
        if len(in_slots) < (4, 6, 8, 11, 14)[level - 1] or len(set(in_slots)) < len(in_slots):
            return self.ask(rng, level)
        text = "Fill the dots of this pattern with letters so that every group of two or more dots in a row, read to "
        text += "the right, and in a column, read down, is one of the words, and each word is used once:\n"
        text += "\n".join(pattern)
        text += (
            f"\nWords: {listed(sorted(in_slots))}.\nAnswer with the {len(rows)} rows, # for blocks, one row per line."
        )
        return Question(text, (pattern, tuple(sorted(in_slots))), answer_text="\n".join(rows))

    def explain(self, state: Question) -> str:
        """The word of each group of dots."""
        return workings.crossword(state, slots)

    def grow_grid(self, rng: random.Random, count: int, size: int) -> dict[Cell, str]:
        """The letters of ``count`` words, fewer where there is no room; each crosses one that was there."""
        start = [(size // 2, 1 + k) for k in range(rng.randint(4, 7))]
        grid = dict(zip(start, made_up_word(rng, len(start)), strict=True))
        open_ = dict.fromkeys(start, True)  # the letters that may be crossed: whether their word goes across
        for _ in range(60 * count):
            if count == 1:
                break
            r, c = rng.choice(list(open_))
            dy, dx = (1, 0) if open_[r, c] else (0, 1)
            length = rng.randint(3, 7)
            before = rng.randrange(length)
            cells = [(r + k * dy, c + k * dx) for k in range(-before, length - before)]
            if self.fits(grid, cells, (r, c), size, dy, dx):
                parity = (before + (grid[r, c] in VOWELS)) % 2
                new = {cell: rng.choice(VOWELS if (k + parity) % 2 else CONSONANTS) for k, cell in enumerate(cells)}
                grid = new | grid
                open_ |= dict.fromkeys(cells, dx == 1)
                del open_[r, c]
                count -= 1
        return grid

    @staticmethod
    def fits(grid: dict[Cell, str], cells: list[Cell], crossed: Cell, size: int, dy: int, dx: int) -> bool:
        """Whether a new word touches nothing but the one cell that it crosses."""
        (a, b), (c, d) = cells[0], cells[-1]
        if a < 0 or b < 0 or c >= size or d >= size or (a - dy, b - dx) in grid or (c + dy, d + dx) in grid:
            return False
        for r, k in cells:
            if (r, k) != crossed and ((r, k) in grid or (r + dx, k + dy) in grid or (r - dx, k - dy) in grid):
                return False
        return True

    def check(self, question: Question, answer: str) -> str | None:
        """Blocks must stay, and every run of two or more letters must be another word of the list."""
        pattern, words = question.answer
        answer = answer.lower().replace("\\#", "#")
        rows = board(answer, len(pattern), len(pattern[0]), "abcdefghijklmnopqrstuvwxyz#")
        for number, (row, shape) in enumerate(zip(rows, pattern, strict=True), 1):
            if any((symbol == "#") != (dot == "#") for symbol, dot in zip(row, shape, strict=True)):
                return f"row {number} does not fit the pattern"
        in_slots = Counter("".join(rows[r][c] for r, c in slot) for slot in slots(pattern))
        wrong = in_slots - Counter(words)
        return f"{min(wrong)} is no word of the list, or stands twice" if wrong else None


def traced(rows: list[str], word: str) -> bool:
    """Whether a word can be read from neighbour to neighbour, corners too, without using a cell twice."""
    size = len(rows)

    def on(r: int, c: int, k: int, used: frozenset[Cell]) -> bool:
        if k == len(word):
            return True
        for y in range(max(0, r - 1), min(size, r + 2)):
            for x in range(max(0, c - 1), min(size, c + 2)):
                if rows[y][x] == word[k] and (y, x) not in used and on(y, x, k + 1, used | {(y, x)}):
                    return True
        return False

    starts = [(r, c) for r in range(size) for c in range(size) if rows[r][c] == word[0]]
    return any(on(r, c, 1, frozenset([(r, c)])) for r, c in starts)


class WordTracing(ListAnswerTask):
    """Find which words can be traced on a board.

    Levels 1 to 5: 6 to 10 words on a board of 4 x 4 letters, from level 4 on 5 x 5.
    """

    ordered: ClassVar[bool] = False
    explain = explained(workings.word_tracing, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Half of the words are near misses; at least two can be traced and at least one cannot."""
        size, count = (4, 4, 4, 5, 5)[level - 1], 5 + level
        rows = ["".join(rng.choice("aeioubdlmnrst") for _ in range(size)) for _ in range(size)]
        words: dict[str, bool] = {}
        while len(words) < count:
            word = self.walked(rng, rows, rng.randint(4, 4 + level))
            if rng.random() < 0.5:  # a near miss: two neighbours exchanged, or another letter of the board
                index = rng.randrange(len(word) - 1)
                if rng.random() < 0.5:
                    word = word[:index] + word[index + 1] + word[index] + word[index + 2 :]
                else:
                    word = word[:index] + rng.choice(rng.choice(rows)) + word[index + 1 :]
            words[word] = traced(rows, word)
        gold = tuple(word for word, is_there in words.items() if is_there)
        if not 2 <= len(gold) < count:
            return self.ask(rng, level)
        text = "A word can be traced on this board when its letters, in order, stand on cells each of which touches "
        text += "the one before by a side or a corner, and no cell is used twice in the word.\n" + "\n".join(rows)
        text += f"\nWhich of these can be traced: {listed(words)}? Answer with all that can."
        return Question(text, gold)

    @staticmethod
    def walked(rng: random.Random, rows: list[str], length: int) -> str:
        """The letters along a path that enters no cell twice."""
        size = len(rows)
        path = [(rng.randrange(size), rng.randrange(size))]
        while len(path) < length:
            r, c = path[-1]
            y, x = r + rng.randint(-1, 1), c + rng.randint(-1, 1)
            if 0 <= y < size and 0 <= x < size and (y, x) not in path:
                path.append((y, x))
            elif rng.random() < 0.05:
                path = path[:1]
        return "".join(rows[r][c] for r, c in path)
