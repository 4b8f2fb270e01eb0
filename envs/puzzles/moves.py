"""Puzzles solved by moves. One turn each; reward 1 for any list of moves that reaches the goal by the rules.

TowerOfHanoi: from one arrangement of discs to another. MazePath: through a maze. SlidingTiles: from one board to
another. LightsOut: which lamps to press. QueensCompletion: the rest of a board of queens that attack none.
"""

from __future__ import annotations

import random
from itertools import permutations
from typing import ClassVar

from rlvr.envs.tasks.answers import board, items, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, whole_numbers

STEPS = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}
ORDERS = list(permutations(STEPS))
BACK = {"u": "d", "d": "u", "l": "r", "r": "l"}
MOST_MOVES = 400


def letters(answer: str, allowed: str) -> str:
    """The moves of an answer such as "U, R, R" or "URR", in small letters.

    Raises:
        ValueError: another letter, or over 400 moves.
    """
    moves = "".join(items(answer))
    if not set(moves) <= set(allowed) or len(moves) > MOST_MOVES:
        raise ValueError(f"the answer is not at most {MOST_MOVES} of the letters {allowed.upper()}")
    return moves


class TowerOfHanoi(CheckedAnswerTask):
    """Find the moves that lead to a goal in the Tower of Hanoi.

    Levels 1 to 5: 4 to 8 discs, any of them on any peg; level 1 has 6,480 tasks, level 2 58,806.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Two different arrangements; the expert moves the largest disc first, smaller ones out of its way."""
        discs = 3 + level
        while True:
            start, goal = (tuple(rng.choices("ABC", k=discs)) for _ in range(2))
            if start != goal:
                break
        moves: list[str] = []
        pegs = list(start)
        for disc in range(discs - 1, -1, -1):
            self.bring(pegs, disc, goal[disc], moves)
        text = (
            f"Discs 1 (smallest) to {discs} lie on pegs A, B and C, never a larger one on a smaller one. A move takes "
        )
        text += "the top disc of a peg to another peg.\n"
        text += f"Now: {self.pegs_text(start)}\nGoal: {self.pegs_text(goal)}\n"
        text += f"Give moves that reach the goal, at most {2**discs}, such as AB for a move from A to B: AB, CB, ..."
        return Question(text, (start, goal), answer_text=" ".join(moves))

    @staticmethod
    def pegs_text(pegs: tuple[str, ...]) -> str:
        """Which discs are on which peg."""
        parts = {peg: [str(disc) for disc, on in enumerate(pegs, 1) if on == peg] for peg in "ABC"}
        return "; ".join(f"{peg} has {' '.join(discs) or 'none'}" for peg, discs in parts.items())

    def bring(self, pegs: list[str], disc: int, goal: str, moves: list[str]) -> None:
        """Move a disc to a peg, and all smaller ones out of its way first."""
        if pegs[disc] == goal:
            return
        (spare,) = set("ABC") - {pegs[disc], goal}
        for smaller in range(disc - 1, -1, -1):
            self.bring(pegs, smaller, spare, moves)
        moves.append(pegs[disc] + goal)
        pegs[disc] = goal

    def check(self, question: Question, answer: str) -> str | None:
        """Plays the moves; more than 2^discs of them, or a disc on a smaller one, is wrong."""
        start, goal = question.answer
        pegs = list(start)
        moves = items(answer)
        if not all(len(move) == 2 and set(move) <= set("abc") for move in moves):
            raise ValueError("a move is two letters of A, B and C")
        if len(moves) > 2 ** len(pegs):
            return f"{len(moves)} moves are too many"
        for number, move in enumerate(moves, 1):
            source, target = move[0].upper(), move[1].upper()
            if source not in pegs or source == target:
                return f"move {number} takes no disc to another peg"
            disc = pegs.index(source)
            if target in pegs[:disc]:
                return f"move {number} puts a disc on a smaller one"
            pegs[disc] = target
        return None if tuple(pegs) == goal else "the goal is not reached"


class MazePath(CheckedAnswerTask):
    """Find the way through a maze.

    Levels 1 to 5: 6 x 6 to 10 x 10 rooms, with exactly one path between any two.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The goal is the room farthest from the start, both in a maze dug depth first."""
        size = 5 + level
        grid, path, (row, column) = self.dig_maze(rng, size)
        grid[1][1], grid[row][column] = "S", "G"
        rows = tuple("".join(row) for row in grid)
        text = "Walk through this maze from S to G; # is wall. Answer with one letter for each step to the next "
        text += "character: U, D, L or R for up, down, left and right.\n"
        return Question(text + "\n".join(rows), rows, answer_text=path.upper())

    @staticmethod
    def dig_maze(rng: random.Random, size: int) -> tuple[list[list[str]], str, tuple[int, int]]:
        """A maze of size x size rooms dug depth first from the corner, the way to its farthest room, and that room."""
        across = size + 2  # rooms in rows, with a border of rooms that are closed
        closed = bytearray(across * across)
        closed[:across] = closed[-across:] = bytes([1]) * across
        closed[::across] = closed[across - 1 :: across] = bytes([1]) * across
        grid = [["#"] * (2 * size + 1) for _ in range(2 * size + 1)]
        by = {way: (dy * across + dx, dy, dx) for way, (dy, dx) in STEPS.items()}
        orders = iter(rng.choices(ORDERS, k=2 * size * size))  # each room is entered once and left once
        room, row, column, path, best = across + 1, 1, 1, "", ""
        closed[room], grid[1][1], goal = 1, ".", (1, 1)
        while True:
            for way in next(orders):
                step, dy, dx = by[way]
                if not closed[room + step]:
                    grid[row + dy][column + dx] = grid[row + 2 * dy][column + 2 * dx] = "."
                    room, row, column, path = room + step, row + 2 * dy, column + 2 * dx, path + way
                    closed[room] = 1
                    if len(path) > len(best):
                        best, goal = path, (row, column)
                    break
            else:
                if not path:
                    return grid, "".join(way * 2 for way in best), goal
                step, dy, dx = by[path[-1]]
                room, row, column, path = room - step, row - 2 * dy, column - 2 * dx, path[:-1]

    def check(self, question: Question, answer: str) -> str | None:
        """Walks from S; detours are right as long as the last of at most 400 steps ends at G."""
        rows = question.answer
        row = column = 1
        for number, move in enumerate(letters(answer, "udlr"), 1):
            dy, dx = STEPS[move]
            row, column = row + dy, column + dx
            if rows[row][column] == "#":
                return f"step {number} walks into a wall"
        return None if rows[row][column] == "G" else "the steps do not end at G"


class SlidingTiles(CheckedAnswerTask):
    """Find the moves that solve a sliding puzzle.

    Levels 1 to 5: boards of 3 x 3, from level 4 on 4 x 4, up to 6, 10, 16, 16 and 26 moves from the goal.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Shuffles the goal board too, then moves the gap without taking a move back; the reference undoes this."""
        size, count = 3 + (level > 3), (6, 10, 16, 16, 26)[level - 1]
        goal = [*"12345678", "."] if size == 3 else [*"123456789ABCDEF", "."]
        rng.shuffle(goal)
        tiles, position, way, moves = list(goal), goal.index("."), "", ""
        while len(moves) < count:
            new = rng.choice("udlr")
            then = self.target(position, new, size)
            if then is not None and new != BACK.get(way):
                tiles[position], tiles[then] = tiles[then], tiles[position]
                position, way, moves = then, new, moves + new
        solution = "".join(BACK[move] for move in reversed(moves))
        if tiles == goal:
            return self.ask(rng, level)
        text = "In a sliding puzzle the gap (.) moves up, down, left or right and changes places with the tile there.\n"
        text += f"Now:\n{self.shown(tiles, size)}\nGoal:\n{self.shown(goal, size)}\n"
        text += "Answer with the moves of the gap that reach the goal, as letters U, D, L and R, at most 400."
        return Question(text, (tuple(tiles), tuple(goal), size), answer_text=solution.upper())

    @staticmethod
    def target(position: int, move: str, size: int) -> int | None:
        """Where the gap goes; None for off the board."""
        (row, column), (dy, dx) = divmod(position, size), STEPS[move]
        inside = 0 <= row + dy < size and 0 <= column + dx < size
        return position + dy * size + dx if inside else None

    @staticmethod
    def shown(tiles: list[str], size: int) -> str:
        """The tiles, row by row."""
        return "\n".join(" ".join(tiles[row : row + size]) for row in range(0, size * size, size))

    def check(self, question: Question, answer: str) -> str | None:
        """Moves the gap, at most 400 times; any way to the goal is right, not only a shortest."""
        first, goal, size = question.answer
        tiles = list(first)
        for number, move in enumerate(letters(answer, "udlr"), 1):
            position = tiles.index(".")
            then = self.target(position, move, size)
            if then is None:
                return f"move {number} leaves the board"
            tiles[position], tiles[then] = tiles[then], tiles[position]
        return None if tuple(tiles) == goal else "the goal is not reached"


def pressed(lamps: list[int], presses: list[int], size: int) -> list[int]:
    """The lamps (1 is on) after those in ``presses`` were pressed, each row one bit mask."""
    every = (1 << size) - 1
    after = []
    for row in range(size):
        here = presses[row]
        around = here ^ (here << 1 & every) ^ (here >> 1)
        above, below = presses[row - 1] if row else 0, presses[row + 1] if row + 1 < size else 0
        after.append(lamps[row] ^ around ^ above ^ below)
    return after


class LightsOut(CheckedAnswerTask):
    """Find the lamps that must be pressed to turn all off.

    Levels 1 to 5: 5 x 5 to 8 x 8 lamps, made with about 12 to 40 presses.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Presses random lamps of a dark board, so that a solution exists; drawn again if it is dark after them."""
        size, count = (5, 6, 6, 7, 8)[level - 1], (12, 12, 18, 26, 40)[level - 1]
        while True:
            presses = [0] * size
            for cell in rng.sample(range(size * size), rng.randint(count - 2, count + 2 if size > 5 else count)):
                presses[cell // size] |= 1 << cell % size
            lamps = pressed([0] * size, presses, size)
            if any(lamps):
                break
        text = "Pressing a lamp changes it and those directly above, below, left and right of it. 1 is on, 0 is off:\n"
        text += "\n".join(f"{row:0{size}b}" for row in lamps)
        text += (
            f"\nWhich lamps must be pressed to turn all off? Answer with {size} rows of {size} digits, one row to a "
        )
        solution = "\n".join(f"{row:0{size}b}" for row in presses)
        return Question(f"{text}line: 1 for a lamp to press, 0 for another.", tuple(lamps), answer_text=solution)

    def check(self, question: Question, answer: str) -> str | None:
        """Presses what is marked; any marking that leaves no lamp on is right."""
        size = len(question.answer)
        presses = [int(row, 2) for row in board(answer, size, size, "01")]
        left = sum(row.bit_count() for row in pressed(list(question.answer), presses, size))
        return f"{left} lamps stay on" if left else None


class QueensCompletion(CheckedAnswerTask):
    """Place queens that do not attack each other.

    Levels 1 to 5: boards of 7 to 10 with one queen given, and a fifth to a half of the other squares forbidden.
    """

    SIZES: ClassVar[tuple[int, ...]] = (7, 8, 9, 10, 10)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Backtracks to one full board, shows one queen of it, and forbids squares of no queen."""
        size = self.SIZES[level - 1]
        queens = self.put_queens([rng.sample(range(size), size) for _ in range(size)])
        given = rng.randrange(size)
        share = 0.2 + 0.07 * level
        rows = []
        for row, queen in enumerate(queens):
            cells = ["x" if rng.random() < share else "." for _ in range(size)]
            cells[queen] = "Q" if row == given else "."
            rows.append("".join(cells))
        text = f"Place queens on this board of {size} x {size} squares, one in each row and each column, none on a "
        text += (
            "diagonal with another. Q is a queen that stands already; squares with x must stay empty.\n"
            + "\n".join(rows)
        )
        text += "\nAnswer with the column of the queen in each row, from the top; the left column is 1."
        return Question(text, tuple(rows), answer_text=listed(queen + 1 for queen in queens))

    @staticmethod
    def put_queens(orders: list[list[int]]) -> list[int]:
        """The first queens, one a row, that do not attack each other, where each row tries columns in its order."""
        size = len(orders)
        queens: list[int] = []

        def put(columns: int, left: int, right: int) -> bool:
            row = len(queens)
            if row == size:
                return True
            attacked = columns | left | right
            for column in orders[row]:
                if not attacked >> column & 1:
                    bit = 1 << column
                    queens.append(column)
                    if put(columns | bit, (left | bit) << 1, (right | bit) >> 1):
                        return True
                    queens.pop()
            return False

        put(0, 0, 0)
        return queens

    def check(self, question: Question, answer: str) -> str | None:
        """One queen a column, none on a forbidden square, the given one kept, no shared diagonal."""
        rows = question.answer
        size = len(rows)
        queens = whole_numbers(answer, size)
        if sorted(queens) != list(range(1, size + 1)):
            return f"the columns are not each of 1 to {size} once"
        for row, (queen, cells) in enumerate(zip(queens, rows, strict=True)):
            if cells[queen - 1] == "x" or ("Q" in cells and cells[queen - 1] != "Q"):
                return f"the queen of row {row + 1} may not stand there"
            if any(abs(queen - queens[other]) == row - other for other in range(row)):
                return f"the queen of row {row + 1} is on a diagonal with another"
        return None
