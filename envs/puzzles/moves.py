"""Puzzles solved by moves or by placing.

Observation: the board now, the goal, the rules, and how to write the moves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations
from typing import ClassVar

from rlvr.envs.puzzles import grid_workings, workings
from rlvr.envs.tasks.answers import board, items, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained, whole_numbers

STEPS = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}
WORDS = {"up": "u", "down": "d", "left": "l", "right": "r"}
BACK = {"u": "d", "d": "u", "l": "r", "r": "l"}
MOST_MOVES = 400


def letters(answer: str, allowed: str) -> str:
    """The moves of an answer such as "U, R, R" or "URR", in small letters.

    Raises:
        ValueError: another letter, or over 400 moves.
    """
    moves = "".join(WORDS.get(word, word) for word in items(answer))
    if not set(moves) <= set(allowed) or len(moves) > MOST_MOVES:
        raise ValueError(f"the answer is not at most {MOST_MOVES} of the letters {allowed.upper()}")
    return moves


class TowerOfHanoi(CheckedAnswerTask):
    """Find the moves that lead to a goal in the Tower of Hanoi.

    Levels 1 to 5: 4 to 8 discs, any of them on any peg; level 1 has 6,480 tasks, level 2 58,806.
    """

    explain = explained(workings.hanoi, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Two different arrangements, from one draw."""
        discs = 3 + level
        count = 3**discs
        first, rest = divmod(rng.randrange(count * (count - 1)), count - 1)
        start, goal = self.arrangement(first, discs), self.arrangement(rest + (rest >= first), discs)
        text = (
            f"Discs 1 (smallest) to {discs} lie on pegs A, B and C, never a larger one on a smaller one. A move takes "
            f"the top disc of a peg to another peg.\nNow: {self.pegs_text(start)}\nGoal: {self.pegs_text(goal)}\n"
            f"Give moves that reach the goal, at most {2**discs}, such as AB for a move from A to B: AB, CB, ..."
        )
        return Question(text, (start, goal))

    @staticmethod
    def arrangement(code: int, discs: int) -> tuple[str, ...]:
        """The peg of each disc; every arrangement has a number below 3^discs."""
        pegs = []
        for _ in range(discs):
            code, peg = divmod(code, 3)
            pegs.append("ABC"[peg])
        return tuple(pegs)

    def direct_answer(self, state: Question) -> str:
        """The largest disc is moved first, and smaller ones out of its way."""
        start, goal = state.answer
        moves: list[str] = []
        pegs = list(start)
        for disc in range(len(pegs) - 1, -1, -1):
            self.bring(pegs, disc, goal[disc], moves)
        return f"\\boxed{{{' '.join(moves)}}}"

    @staticmethod
    def pegs_text(pegs: tuple[str, ...]) -> str:
        """Which discs are on which peg."""
        parts: dict[str, list[str]] = {"A": [], "B": [], "C": []}
        for disc, peg in zip("12345678", pegs, strict=False):
            parts[peg].append(disc)
        return "; ".join([f"{peg} has {' '.join(discs) or 'none'}" for peg, discs in parts.items()])

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


_WALL, _OPEN = b"#."


@lru_cache(16)
def _undug(size: int) -> bytes:
    """A maze of walls, with line ends that stop who digs at its sides, and two lines above and below that do."""
    end = b" " * (2 * size + 1) + b"\n"
    return 2 * end + (2 * size + 1) * (b"#" * (2 * size + 1) + b"\n") + 2 * end


@lru_cache(16)
def _orders(across: int) -> list[tuple[int, ...]]:
    """For each byte an order of the four ways, as steps in a text of lines of this length."""
    orders = list(permutations((-across, across, -1, 1)))
    return [orders[byte % len(orders)] for byte in range(256)]


class MazePath(CheckedAnswerTask):
    """Find the way through a maze.

    Levels 1 to 5: 6 x 6 to 10 x 10 rooms, with exactly one path between any two.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The goal is the room farthest from the start, both in a maze dug depth first."""
        size = 5 + level
        rows = self.dig_maze(rng, size)
        text = "Walk through this maze from S to G; # is wall. Answer with one letter for each step to the next "
        text += "character: U, D, L or R for up, down, left and right.\n"
        return Question(text + rows, tuple(rows.split("\n")))

    def explain(self, state: Question) -> str:
        """Each straight part of the way."""
        return workings.maze_path(state.answer, self.direct_answer(state)[len("\\boxed{") : -1])

    @staticmethod
    def dig_maze(rng: random.Random, size: int) -> str:
        """A maze of size x size rooms dug depth first from the corner S; G is the room farthest from it."""
        grid, across, orders = bytearray(_undug(size)), 2 * size + 2, _orders(2 * size + 2)
        room = goal = 3 * across + 1
        grid[room] = _OPEN
        farthest = 0
        others = iter(rng.randbytes(size * size - 1))  # for each further room, the order in which it looks around
        ways = iter(orders[rng.randrange(256)])
        path: list[tuple[int, Iterator[int]]] = []
        while True:
            for way in ways:
                beyond = room + 2 * way
                if grid[beyond] == _WALL:
                    grid[beyond] = grid[room + way] = _OPEN
                    path.append((room, ways))
                    room, ways = beyond, iter(orders[next(others)])
                    break
            else:
                if len(path) > farthest:  # the farthest room is a dead end
                    farthest, goal = len(path), room
                if not path:
                    break
                room, ways = path.pop()
        grid[3 * across + 1], grid[goal] = b"SG"
        return grid[2 * across : -2 * across - 1].decode()

    def direct_answer(self, state: Question) -> str:
        """The only way that does not turn back, found from the goal."""
        rows = state.answer
        goal = next((row, line.index("G")) for row, line in enumerate(rows) if "G" in line)
        ways, queue = {goal: ""}, [goal]
        for row, column in queue:
            for way, (dy, dx) in STEPS.items():
                new = (row + dy, column + dx)
                if new not in ways and rows[new[0]][new[1]] != "#":
                    ways[new] = BACK[way] + ways[row, column]
                    queue.append(new)
        return f"\\boxed{{{ways[1, 1].upper()}}}"

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

    explain = explained(workings.sliding_tiles)

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

    explain = explained(workings.lights_out)

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
        text += f"\nWhich lamps must be pressed to turn all off? Answer with {size} rows of {size} digits, one row per "
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
    explain = explained(grid_workings.queens)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Backtracks to one full board, shows one queen of it, and forbids squares of no queen."""
        size = self.SIZES[level - 1]
        queens = self.put_queens([rng.sample(range(size), size) for _ in range(size)])
        column = rng.randrange(size)
        share = 0.2 + 0.07 * level
        rows = []
        for row, queen in enumerate(queens):
            cells = ["x" if rng.random() < share else "." for _ in range(size)]
            cells[queen] = "Q" if row == column else "."
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
