"""WaterSort: pour colours from tube to tube until each is alone. Many turns; reward 1 for reaching the goal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.games.board_game import SearchedGame, cheapest

# For each level: colours, units of each, empty tubes. One empty tube makes traps of few colours; with two and few
# colours random pours would win.
SORT_LEVELS: Final = ((6, 4, 1), (6, 5, 1), (8, 5, 2), (10, 5, 2), (11, 6, 2))
COLOURS: Final = "red blue green yellow orange purple pink brown white black grey cyan".split()
MOST_SEARCHED: Final = 400  # boards; a deal that takes more is drawn again
Tubes = tuple[tuple[int, ...], ...]


class Rack(NamedTuple):
    """``tubes`` hold colours from the bottom up, as indices into ``names``; each takes ``height`` units."""

    names: tuple[str, ...]
    height: int
    tubes: Tubes


class WaterSort(SearchedGame[Rack]):
    """Sort coloured water by pouring from tube to tube.

    Levels 1 to 5: 6 colours of 4 and 5 units with one empty tube; 8, 10 and 11 colours of 5, 5 and 6 units with two.

    Deals are random; one is kept when the expert's search has solved it. Most pours cannot be taken back.

    Observation: the tubes, each from the bottom to the top.
    Actions: the numbers of two tubes, such as ``3 6``: from the first into the second.
    Reward: 1 for every colour in a tube of its own, else 0.
    Episode end: the colours are sorted, no pour is left, or the turns are used up.
    """

    move_form = "A move names the tube to pour from and the tube to pour into, such as 3 6."
    verbs = ("pour",)
    nouns = ("tube", "from", "to", "into", "onto", "pour")
    turn_limits = (24, 32, 46, 60, 80)

    def deal(self, rng: random.Random, level: int) -> Rack:
        """Draws until no tube begins with one colour and the search finds a way within the turns."""
        colours, height, empty = SORT_LEVELS[level - 1]
        names = tuple(rng.sample(COLOURS, colours))
        while True:
            units = [colour for colour in range(colours) for _ in range(height)]
            rng.shuffle(units)
            full = [tuple(units[at : at + height]) for at in range(0, len(units), height)]
            board = Rack(names, height, (*full, *[()] * empty))
            if all(len({*tube}) > 1 for tube in full) and 0 < len(self.search(board) or ()) <= self.turns(level):
                return board

    def guide(self, board: Rack) -> str:
        return (
            f"Coloured water in tubes that hold {board.height} units each. A pour takes all units of one colour that "
            "lie together on top of a tube, as many as the other tube has room for; the other tube must be empty or "
            "have the same colour on top. Bring every colour into a tube of its own. The game is lost when no pour is "
            "left.\nEach tube is written from its bottom to its top."
        )

    def show(self, board: Rack) -> str:
        width = len(str(len(board.tubes)))
        return "\n".join(
            f"{number:>{width}}: {' '.join(board.names[unit] for unit in tube) or 'empty'}"
            for number, tube in enumerate(board.tubes, 1)
        )

    def identity(self, board: Rack) -> str:
        """The colours numbered as they come up, so that other names are no other task."""
        numbers: dict[int, int] = {}
        tubes = [[numbers.setdefault(unit, len(numbers)) for unit in tube] for tube in board.tubes]
        return f"{tubes} of {board.height}"

    def named(self, move: str) -> str:
        return " ".join(word for word in super().named(move).split() if word not in self.nouns)

    def legal(self, board: Rack) -> list[str]:
        return [move for move, _ in pours(board.tubes, board.height, True)]

    def after(self, board: Rack, move: str) -> Rack:
        return board._replace(tubes=dict(pours(board.tubes, board.height, True))[move])

    def reached(self, board: Rack) -> bool:
        return runs(board.tubes) == len(board.names)

    def failed(self, board: Rack) -> str:
        return "" if self.reached(board) or self.legal(board) else "no pour is left"

    def search(self, board: Rack) -> list[str] | None:
        """By A* with twice the bound, which finds a way soon and seldom the shortest.

        A pour joins two runs of a colour at most, and none ever makes one more.
        """

        def useful(tubes: Tubes) -> Iterator[tuple[str, Tubes]]:
            return pours(tubes, board.height, False)

        def bound(tubes: Tubes) -> int:
            return 2 * (runs(tubes) - len(board.names))

        return cheapest(board.tubes, useful, bound, MOST_SEARCHED)


def runs(tubes: Tubes) -> int:
    """How many stretches of one colour the tubes hold; as many as colours when all are sorted."""
    return sum(map(stretches, tubes))


@lru_cache(maxsize=65_536)
def stretches(tube: tuple[int, ...]) -> int:
    """How many stretches of one colour a tube holds."""
    return sum([at == 0 or tube[at - 1] != unit for at, unit in enumerate(tube)])


@lru_cache(maxsize=65_536)
def on_top(tube: tuple[int, ...]) -> int:
    """How many units of one colour lie together on top."""
    count = 1
    while count < len(tube) and tube[-1 - count] == tube[-1]:
        count += 1
    return count


def pours(tubes: Tubes, height: int, every: bool) -> Iterator[tuple[str, Tubes]]:
    """The legal pours, and the tubes after each.

    Args:
        tubes: from the bottom up.
        height: units that a tube holds.
        every: also those that lead nowhere: of one colour from its tube into an empty one, and into other empty tubes
            than the first.
    """
    first = tubes.index(()) if () in tubes else len(tubes)
    for source, giver in enumerate(tubes):
        if not giver:
            continue
        count, colour = on_top(giver), giver[-1]
        for target, taker in enumerate(tubes):
            room = height - len(taker)
            if taker:
                fits = taker[-1] == colour and target != source
            else:
                fits = every or (target == first and count < len(giver))
            if room and fits:
                poured = min(count, room)
                after = list(tubes)
                after[source], after[target] = giver[:-poured], taker + giver[-poured:]
                yield f"{source + 1} {target + 1}", tuple(after)
