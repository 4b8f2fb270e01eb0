"""Games against an opponent. Many turns; reward 1 for the goal that the first observation names.

Nim: take the last object, or leave it, against perfect play. TicTacToe: k in a row on m x n cells, against perfect
play. ConnectFour: against an opponent whose script is told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product
from math import log2, prod
from typing import NamedTuple

from rlvr.envs.games.board_game import BoardGame, BoardState, SearchedGame, shortest
from rlvr.envs.games.common import COLUMNS, Cell, drawn_board

# For each level: heaps, the most in one, the most a move may take (0: all), and whether the last one loses.
NIM_LEVELS = ((3, 6, 0, False), (3, 9, 0, False), (4, 12, 3, False), (4, 15, 0, True), (5, 15, 0, False))


class Heaps(NamedTuple):
    sizes: tuple[int, ...]
    limit: int
    misere: bool
    mine: bool = False  # whether the player took the last object


class Nim(BoardGame[Heaps]):
    """Win at Nim against an opponent who makes no mistakes.

    Levels 1 to 5: 3 to 5 heaps of up to 15; at most 3 a move on level 3, the last object loses on level 4.

    Every start is won for the player, who moves first; the opponent plays perfectly, so that one mistake loses.

    Observation: the rule and the heaps; then the opponent's move and the heaps.
    Actions: a heap's letter and a number, such as ``a 2``.
    Reward: 1 for a win, else 0.
    Episode end: the last object is taken, or the turns are used up.
    """

    move_form = "A move is a heap's letter and how many to take, such as a 2."
    nouns = ("heap", "pile", "objects", "object", "remove")
    turn_limits = tuple(heaps * largest for heaps, largest, _, _ in NIM_LEVELS)  # a move takes one object at least

    def deal(self, rng: random.Random, level: int) -> Heaps:
        """Draws heaps from which the first player wins, with two or more that hold more than one object."""
        heaps, largest, limit, misere = NIM_LEVELS[level - 1]
        while True:
            sizes = tuple(sorted(rng.choices(range(1, largest + 1), k=heaps)))
            if fair(sizes, limit, misere):
                return Heaps(sizes, limit, misere)

    def difficulty(self, state: BoardState) -> float:
        """Positions that play may reach."""
        return float(prod(size + 1 for size in state.board.sizes))

    def enumerate_contents(self, level: int) -> list[str] | None:
        """All such heaps up to level 4; level 5 has too many."""
        heaps, largest, limit, misere = NIM_LEVELS[level - 1]
        if level == len(NIM_LEVELS):
            return None
        starts = combinations_with_replacement(range(1, largest + 1), heaps)
        return [self.identity(Heaps(sizes, limit, misere)) for sizes in starts if fair(sizes, limit, misere)]

    def guide(self, board: Heaps) -> str:
        amount = f"from 1 to {board.limit} objects" if board.limit else "one or more objects"
        end = "loses" if board.misere else "wins"
        return (
            f"Nim. You and an opponent take turns; a move takes {amount} from one heap. Whoever takes the last object "
            f"of all {end}. You move first, and the opponent makes no mistakes."
        )

    def show(self, board: Heaps) -> str:
        return "Heaps: " + ", ".join(f"{COLUMNS[heap]} {size}" for heap, size in enumerate(board.sizes))

    def identity(self, board: Heaps) -> str:
        return f"{board.sizes} {board.limit} {board.misere}"

    def named(self, move: str) -> str:
        parts = super().named(move).replace(":", " ").split()
        if len(parts) == 3 and parts[1] == "from":  # "take 2 from a"
            parts = [parts[2], parts[0]]
        return " ".join(parts)

    def legal(self, board: Heaps) -> list[str]:
        return [f"{COLUMNS[heap]} {count}" for heap, count in takes(board)]

    def after(self, board: Heaps, move: str) -> Heaps:
        letter, count = move.split()
        board = taken(board, COLUMNS.index(letter), int(count))
        if not any(board.sizes):
            return board._replace(mine=True)
        return taken(board, *reply(board))

    def comment(self, before: Heaps, move: str, after: Heaps) -> str:
        letter, count = move.split()
        heap, answer = reply(taken(before, COLUMNS.index(letter), int(count)))
        return f"The opponent takes {answer} from heap {COLUMNS[heap]}."

    def reached(self, board: Heaps) -> bool:
        return not any(board.sizes) and board.mine != board.misere

    def failed(self, board: Heaps) -> str:
        if any(board.sizes) or self.reached(board):
            return ""
        return "you took the last object" if board.mine else "the opponent took the last object"

    def best(self, board: Heaps) -> str:
        """A perfect move (Bouton 1901); one object of the largest heap where every move loses."""
        heap, count = reply(board)
        return f"{COLUMNS[heap]} {count}"


def fair(sizes: tuple[int, ...], limit: int, misere: bool) -> bool:
    """Whether the player can win, and has to think: not with the first move, and with more than one heap."""
    return sum(size > 1 for size in sizes) > 1 and not losing(sizes, limit, misere)


def losing(sizes: tuple[int, ...], limit: int, misere: bool) -> bool:
    """Whether who has to move loses against perfect play (Bouton 1901; the rest of a division for bounded moves)."""
    if misere and max(sizes, default=0) <= 1:
        return sum(sizes) % 2 == 1
    total = 0
    for size in sizes:
        total ^= size % (limit + 1) if limit else size
    return total == 0


def takes(board: Heaps) -> Iterator[tuple[int, int]]:
    for heap, size in enumerate(board.sizes):
        for count in range(1, min(size, board.limit or size) + 1):
            yield heap, count


def taken(board: Heaps, heap: int, count: int) -> Heaps:
    sizes = board.sizes
    return board._replace(sizes=(*sizes[:heap], sizes[heap] - count, *sizes[heap + 1 :]))


def reply(board: Heaps) -> tuple[int, int]:
    """A perfect move; one object from the largest heap where every move loses."""
    for heap, count in takes(board):
        if losing(taken(board, heap, count).sizes, board.limit, board.misere):
            return heap, count
    return board.sizes.index(max(board.sizes)), 1


# For each level: rows, columns, how many in a row, stones on the board at the start, and the least that perfect play
# must reach from there: 0 is a draw.
ROW_LEVELS = ((3, 3, 3, 4, 0), (3, 4, 3, 6, 1), (4, 4, 4, 10, 1), (3, 5, 3, 6, 0), (3, 6, 3, 8, 0))


class Stones(NamedTuple):
    """``mine`` and ``theirs`` are masks of cells; ``goal`` is 1 for a win, 0 for a draw or a win."""

    height: int
    width: int
    inline: int
    mine: int
    theirs: int
    goal: int


class TicTacToe(BoardGame[Stones]):
    """Get three or four in a row against an opponent who makes no mistakes.

    Levels 1 to 5: 3 x 3, 3 x 4, 4 x 4 (four in a row), 3 x 5 and 3 x 6 (three in a row), with some stones set.

    The goal is what perfect play reaches from there, a win or a draw. The opponent plays perfectly. Levels 3 to 5 are
    made at some hundred a CPU-second: each start is solved to know its goal.

    Observation: the goal and the board: ``X`` you, ``O`` the opponent.
    Actions: an empty cell, such as ``b2``.
    Reward: 1 for a win, or a draw where that is the goal, else 0.
    Episode end: a line, a full board, or the turns are used up.
    """

    move_form = "A move is an empty cell, such as b2."
    nouns = ("cell", "square", "at")
    turn_limits = tuple(height * width - stones for height, width, _, stones, _ in ROW_LEVELS)

    def deal(self, rng: random.Random, level: int) -> Stones:
        """Draws stones until perfect play reaches the level's goal and no move wins at once."""
        height, width, inline, stones, least = ROW_LEVELS[level - 1]
        while True:
            cells = [1 << cell for cell in rng.sample(range(height * width), stones)]
            board = opened(Stones(height, width, inline, sum(cells[::2]), sum(cells[1::2]), least))
            if board:
                return board

    def difficulty(self, state: BoardState) -> float:
        """Bits of luck (log2 of 1/p) that random moves need to reach the goal."""
        return -log2(self._luck(state.board))

    def _luck(self, board: Stones) -> float:
        """The chance of random moves to reach the goal."""
        if self.reached(board) or self.failed(board):
            return float(self.reached(board))
        moves = self.legal(board)
        return sum(self._luck(self.after(board, move)) for move in moves) / len(moves)

    def enumerate_contents(self, level: int) -> list[str] | None:
        """The boards of level 1 that are dealt; above there are too many."""
        height, width, inline, stones, least = ROW_LEVELS[level - 1]
        if level > 1:
            return None
        cells = [1 << cell for cell in range(height * width)]
        boards = [
            opened(Stones(height, width, inline, sum(mine), sum(set(both) - set(mine)), least))
            for both in combinations(cells, stones)
            for mine in combinations(both, stones // 2)
        ]
        return [self.identity(board) for board in boards if board]

    def guide(self, board: Stones) -> str:
        goal = "Win the game." if board.goal else "Do not lose the game: a draw or a win counts as success."
        return (
            "You are X, the opponent is O and makes no mistakes. You take turns to mark an empty cell; whoever first "
            f"has {board.inline} marks in a straight line (row, column or diagonal), side by side, wins. A full board "
            f"without such a line is a draw. It is your move. Your goal: {goal}"
        )

    def show(self, board: Stones) -> str:
        signs = "".join(
            "X" if board.mine >> cell & 1 else "O" if board.theirs >> cell & 1 else "."
            for cell in range(board.height * board.width)
        )
        return drawn_board(signs[at : at + board.width] for at in range(0, len(signs), board.width))

    def legal(self, board: Stones) -> list[str]:
        return [str(Cell(*divmod(cell, board.width))) for cell in empty(board)]

    def after(self, board: Stones, move: str) -> Stones:
        board = board._replace(mine=board.mine | bit_of(board, move))
        free = empty(board)
        if not free or complete(board, board.mine):
            return board
        answer = max(free, key=lambda position: -value(rows_of(board), board.mine, board.theirs | 1 << position))
        return board._replace(theirs=board.theirs | 1 << answer)

    def reached(self, board: Stones) -> bool:
        if complete(board, board.mine):
            return True
        return board.goal == 0 and not empty(board) and not complete(board, board.theirs)

    def failed(self, board: Stones) -> str:
        if complete(board, board.theirs):
            return f"the opponent has {board.inline} in a line"
        return "" if empty(board) else "a draw is not enough"

    def best(self, board: Stones) -> str:
        """A move of the highest value by full search: a win, else a draw."""
        worths = {
            move: -value(rows_of(board), board.theirs, board.mine | bit_of(board, move)) for move in self.legal(board)
        }
        return max(worths, key=worths.__getitem__)


def bit_of(board: Stones, move: str) -> int:
    return 1 << (int(move[1:]) - 1) * board.width + COLUMNS.index(move[0])


def empty(board: Stones) -> list[int]:
    full = board.mine | board.theirs
    return [cell for cell in range(board.height * board.width) if not full >> cell & 1]


def rows_of(board: Stones) -> tuple[int, int, int]:
    return board.height, board.width, board.inline


def complete(board: Stones, stones: int) -> bool:
    return any(stones & line == line for line in lines(*rows_of(board)))


def opened(board: Stones) -> Stones | None:
    """The board with what perfect play reaches as its goal; None where that is too little, or one move wins."""
    for line in lines(*rows_of(board)):
        missing = line & ~board.mine
        if line & board.theirs == line or not (missing & board.theirs or missing & missing - 1):
            return None
    worth = value(rows_of(board), board.mine, board.theirs)
    return board._replace(goal=worth) if worth >= board.goal else None


@lru_cache(maxsize=16)
def lines(height: int, width: int, inline: int) -> tuple[int, ...]:
    """Every line of ``inline`` cells, as a mask."""
    masks = []
    for row, column, (dy, dx) in product(range(height), range(width), ((0, 1), (1, 0), (1, 1), (1, -1))):
        cells = [(row + k * dy, column + k * dx) for k in range(inline)]
        if all(0 <= y < height and 0 <= x < width for y, x in cells):
            masks.append(sum(1 << y * width + x for y, x in cells))
    return tuple(masks)


@lru_cache(maxsize=262_144)
def value(shape: tuple[int, int, int], mine: int, theirs: int) -> int:
    """What perfect play makes of a board for who has to move, ``mine``: 1 won, 0 drawn, -1 lost."""
    alive, wins, threats = False, False, 0
    for line in lines(*shape):
        if not theirs & line:
            alive = True
            missing = line & ~mine
            wins |= not missing & missing - 1
        elif not mine & line:
            alive = True
            missing = line & ~theirs
            if not missing:
                return -1
            if not missing & missing - 1:
                threats |= missing
    if wins:
        return 1
    if threats & threats - 1:
        return -1  # one move does not stop both
    if not alive:
        return 0  # no line can be completed any more
    free = threats or (1 << shape[0] * shape[1]) - 1 & ~(mine | theirs)
    best = -1 if free else 0
    while free and best < 1:
        cell = free & -free
        free ^= cell
        best = max(best, -value(shape, theirs, mine | cell))
    return best


# For each level: columns, rows, and stones on the board at the start.
DROP_LEVELS = ((5, 5, 8), (6, 5, 8), (6, 6, 10), (7, 6, 12), (7, 6, 10))
MOST_LOOKED_AT = 1_500  # positions, when a start is tried


class Drops(NamedTuple):
    """Bit column * (rows + 1) + row is a stone's; rows count from below, and one above the top stays empty."""

    width: int
    height: int
    mine: int
    theirs: int


class ConnectFour(SearchedGame[Drops]):
    """Get four in a row before the opponent.

    Levels 1 to 5: boards of 5 x 5 to 7 x 6, with some stones set; every start can be won.

    The opponent follows a script that the rules tell, so that a win can be planned. Starts are made at some
    hundred a CPU-second, because a win is looked for in each.

    Observation: the opponent's script and the board: ``X`` you, ``O`` the opponent.
    Actions: a column's letter.
    Reward: 1 for four in a row, else 0.
    Episode end: four in a row, a full board, or the turns are used up.
    """

    move_form = "A move is a column's letter."
    nouns = ("column", "in")
    turn_limits = tuple((width * height - stones + 1) // 2 for width, height, stones in DROP_LEVELS)

    def deal(self, rng: random.Random, level: int) -> Drops:
        """Draws stones until a search shows a win in three moves or more against the script."""
        width, height, stones = DROP_LEVELS[level - 1]
        while True:
            sides = [0, 0]
            for turn in range(stones):
                sides[turn % 2] |= rng.choice(columns_open(width, height, sides[0] | sides[1]))
            board = Drops(width, height, *sides)
            if any(map(four, (*sides,), (height, height))):
                continue
            if len(self.search(board, MOST_LOOKED_AT) or ()) >= 3:
                return board

    def guide(self, board: Drops) -> str:
        order = ", ".join(COLUMNS[column] for column in by_centre(board.width))
        return (
            f"Connect four on {board.width} columns of {board.height} cells. You are X, the opponent is O; you take "
            "turns to drop a stone into a column, where it falls onto the topmost stone. Whoever first has four stones "
            "in a straight line (row, column or diagonal), side by side, wins. It is your move; win the game: a draw "
            f"is not enough. The opponent goes through the columns in the order {order} and takes the first where its "
            "stone makes four; if there is none, the first where your stone would make four; else the first that is "
            "not full."
        )

    def show(self, board: Drops) -> str:
        rows = []
        for row in range(board.height - 1, -1, -1):
            bits = [1 << column * (board.height + 1) + row for column in range(board.width)]
            rows.append(" ".join("X" if board.mine & bit else "O" if board.theirs & bit else "." for bit in bits))
        return "\n".join([*rows, " ".join(COLUMNS[: board.width])])

    def legal(self, board: Drops) -> list[str]:
        full = board.mine | board.theirs
        return [
            COLUMNS[bit.bit_length() // (board.height + 1)] for bit in columns_open(board.width, board.height, full)
        ]

    def after(self, board: Drops, move: str) -> Drops:
        width, height, mine, theirs = board
        mine |= dropped(height, mine | theirs, COLUMNS.index(move))
        if four(mine, height):
            return board._replace(mine=mine)
        return Drops(width, height, mine, theirs | scripted(width, height, mine, theirs))

    def reached(self, board: Drops) -> bool:
        return four(board.mine, board.height)

    def failed(self, board: Drops) -> str:
        if four(board.theirs, board.height):
            return "the opponent has four in a line"
        return "" if self.legal(board) else "a draw is not enough"

    def search(self, board: Drops, limit: int = 20 * MOST_LOOKED_AT) -> list[str] | None:
        """Breadth first against the script, over at most so many positions: a win in the fewest moves."""

        def neighbours(here: Drops) -> Iterator[tuple[str, Drops]]:
            for move in self.legal(here):
                after = self.after(here, move)
                if not four(after.theirs, after.height):
                    yield move, after

        return shortest(board, neighbours, self.reached, limit)


def dropped(height: int, full: int, column: int) -> int:
    """The bit where a stone comes to lie; that above the top row for a full column."""
    base = column * (height + 1)
    return (full >> base & (1 << height) - 1) + 1 << base


def columns_open(width: int, height: int, full: int) -> list[int]:
    """Where a stone may come to lie, as bits."""
    bits = [dropped(height, full, column) for column in range(width)]
    return [bit for column, bit in enumerate(bits) if bit < 1 << column * (height + 1) + height]


def four(stones: int, height: int) -> bool:
    for step in (1, height, height + 1, height + 2):
        pairs = stones & stones >> step
        if pairs & pairs >> 2 * step:
            return True
    return False


@lru_cache(maxsize=8)
def by_centre(width: int) -> tuple[int, ...]:
    return tuple(sorted(range(width), key=lambda column: (abs(2 * column - width + 1), column)))


def scripted(width: int, height: int, mine: int, theirs: int) -> int:
    """The opponent's stone; 0 on a full board."""
    full = mine | theirs
    bits = [dropped(height, full, column) for column in by_centre(width)]
    bits = [bit for bit in bits if bit.bit_length() % (height + 1)]
    for stones in (theirs, mine):
        if wins := fourths(stones, height):
            for bit in bits:
                if bit & wins:
                    return bit
    return bits[0] if bits else 0


def fourths(stones: int, height: int) -> int:
    """The bits where one more stone makes four in a line, those that are taken or beside the board among them."""
    completing = 0
    for step in (1, height, height + 1, height + 2):
        up, down = stones << step, stones >> step
        if two := up & stones << 2 * step:
            completing |= two & (stones << 3 * step | down)
        if two := down & stones >> 2 * step:
            completing |= two & (stones >> 3 * step | up)
    return completing
