"""Sokoban: push every box onto a goal. Many turns; reward 1 when no box is off a goal.

Levels are made backwards: boxes stand on the goals and are pulled away, so that pushing them back is a solution. The
board is kept as bit masks, one bit a cell, row by row: the part of the floor that the player can walk to is then a
few shifts for each step of distance.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise, permutations
from typing import NamedTuple

from rlvr.envs.games.board_game import SearchedGame, cheapest, distances, shortest
from rlvr.envs.games.common import bits, grown

# For each level: rows and columns with the outer wall, walls within, boxes, the most slides in making it, and a bound
# on the pushes.
LEVELS = ((6, 6, 2, 1, 6, 3), (6, 7, 3, 2, 8, 5), (7, 7, 3, 2, 10, 8), (7, 8, 5, 3, 14, 10), (8, 8, 6, 4, 20, 12))
UPHILL, ON = 0.9, 0.6  # how often a pull that leads away from the goals is preferred, and how often one goes on


class Store(NamedTuple):
    """``walls``, ``goals`` and ``boxes`` are masks of cells; cell number = row * width + column."""

    width: int
    walls: int
    goals: int
    boxes: int
    player: int


class Sokoban(SearchedGame[Store]):
    """Push every box onto a goal.

    Levels 1 to 5: from 1 box in a 4 x 4 room and at least 3 pushes to 4 boxes in 6 x 6 and at least 12.

    Observation: the room: ``#`` wall, ``$`` box, ``.`` goal, ``@`` you.
    Actions: ``up``, ``down``, ``left`` or ``right``.
    Reward: 1 when every box is on a goal, else 0.
    Episode end: every box is on a goal, or the turns are used up.
    """

    turn_limits = (60, 120, 180, 240, 320)

    def deal(self, rng: random.Random, level: int) -> Store:
        """Pulls boxes off their goals at random until they are far enough away in all, so a solution exists."""
        height, width, pillars, count, slides, least = LEVELS[level - 1]
        while True:
            walls = room(rng, height, width, pillars)
            cells = list(bits(~walls & (1 << height * width) - 1))
            if len(cells) < 4 * count + 6:
                continue
            # Goals that lie together and rather at the edge, so that boxes have a way to go.
            corners = [rng.choice(cells) for _ in range(1 if level == 1 else 5)]
            corner = max(corners, key=lambda cell: eccentricity(height, width, cell))
            near, _ = distances_from(width, walls, 1 << corner)
            cells.sort(key=lambda cell: near[cell] + rng.random())
            goals = sum([1 << cell for cell in cells[:count]])
            level_made = pull_boxes(rng, width, walls, goals, slides, least + rng.randrange(3))
            if level_made:
                return Store(width, walls, goals, *level_made)

    def guide(self, board: Store) -> str:
        return (
            "Sokoban. Push every box onto a goal. You walk one cell at a time; walking into a box pushes it one cell "
            "on, if the cell behind it is neither wall nor box. Boxes cannot be pulled.\n"
            "# wall, - floor, @ you, $ box, . goal, * box on a goal, + you on a goal."
        )

    def show(self, board: Store) -> str:
        width, walls, goals, boxes, player = board
        signs = []
        for cell in range(walls.bit_length()):
            goal = goals >> cell & 1
            if walls >> cell & 1:
                signs.append("#")
            elif boxes >> cell & 1:
                signs.append("*" if goal else "$")
            elif cell == player:
                signs.append("+" if goal else "@")
            else:
                signs.append("." if goal else "-")
        text = "".join(signs)
        return "\n".join(text[at : at + width] for at in range(0, len(text), width))

    def legal(self, board: Store) -> list[str]:
        taken = board.walls | board.boxes
        moves = []
        for move, step in steps(board.width).items():
            then = board.player + step
            if not board.walls >> then & 1 and not (board.boxes >> then & 1 and taken >> then + step & 1):
                moves.append(move)
        return moves or ["up"]  # shut in on all sides: a move that changes nothing

    def after(self, board: Store, move: str) -> Store:
        step = steps(board.width)[move]
        then = board.player + step
        boxes = board.boxes
        if (board.walls | boxes & shifted(board.walls | boxes, step)) >> then & 1:
            return board  # only when no move is possible, see above
        if boxes >> then & 1:
            boxes ^= 1 << then | 1 << then + step
        return board._replace(boxes=boxes, player=then)

    def reached(self, board: Store) -> bool:
        return board.boxes == board.goals

    def search(self, board: Store) -> list[str] | None:
        """The fewest pushes, and the shortest walks between them."""
        moves: list[str] = []
        region = grown(1 << board.player, ~(board.walls | board.boxes), board.width)
        for cell, step in pushes(board.width, board.walls, board.goals, board.boxes, region) or ():
            walk = walked(board, cell - step)
            push = next(way for way, by in steps(board.width).items() if by == step)
            for way in (*walk, push):
                moves.append(way)
                board = self.after(board, way)
        return moves if self.reached(board) else None


@lru_cache(maxsize=16)
def steps(width: int) -> dict[str, int]:
    return {"up": -width, "down": width, "left": -1, "right": 1}


def walked(board: Store, goal: int) -> list[str]:
    taken = board.walls | board.boxes
    ways = steps(board.width)
    return (
        shortest(
            board.player,
            lambda cell: ((way, cell + by) for way, by in ways.items() if not taken >> cell + by & 1),
            lambda cell: cell == goal,
        )
        or []
    )


# making levels


def room(rng: random.Random, height: int, width: int, pillars: int) -> int:
    """A room with walls within; floor that is cut off becomes wall."""
    inner = [row * width + column for row in range(1, height - 1) for column in range(1, width - 1)]
    floor = sum([1 << cell for cell in inner])
    for cell in rng.sample(inner, pillars):
        floor ^= 1 << cell
    return (1 << height * width) - 1 & ~grown(floor & -floor, floor, width)


def eccentricity(height: int, width: int, cell: int) -> int:
    """Twice the distance of a cell from the middle."""
    row, column = divmod(cell, width)
    return abs(2 * row + 1 - height) + abs(2 * column + 1 - width)


def pull_boxes(
    rng: random.Random, width: int, walls: int, goals: int, slides: int, least: int
) -> tuple[int, int] | None:
    """Boxes and player after random slides, as soon as the boxes are off the goals and ``least`` away in all.

    A slide pulls one box one way, once or more. From a position without a pull the walk goes back to the last one.
    None when it takes more than so many slides. The player may begin wherever it is free.
    """
    far, layers = distances_from(width, walls, goals)
    chance = rng.random
    ways = []
    for by in (1, -1, width, -width):  # for each way, the cells from which a pull leads farther off, or off a goal
        up = goals
        for near, next_one in pairwise(layers):
            up |= near & shifted(next_one, by)
        ways.append((by, up))
    boxes, away, reach = goals, 0, ~(walls | goals)
    passed: list[tuple[int, int, int]] = []
    for _ in range(slides):
        free = ~(walls | boxes)
        turn, wanted, can, by = int(chance() * 4), chance() < UPHILL, 0, 0
        for way, up in ways[turn:] + ways[:turn]:
            here = boxes & shifted(reach & shifted(free, way), way)
            if wanted and here & up:
                can, by = here & up, way
                break
            if here:
                can, by = here, way
                if not wanted:
                    break
        if not can:
            if not passed:
                return None
            boxes, away, reach = passed.pop()
            continue
        passed.append((boxes, away, reach))
        low = can & -can
        while can != low and chance() < 0.5:
            can ^= low
            low = can & -can
        box = low.bit_length() - 1
        while True:
            boxes ^= 1 << box | 1 << box + by
            away += far[box + by] - far[box]
            box += by
            if away >= least and not boxes & goals:
                return boxes, box + by
            if not free >> box + 2 * by & 1 or chance() > ON:
                break
        reach = grown(1 << box + by, ~(walls | boxes), width)
    return None


def shifted(mask: int, by: int) -> int:
    """Bit c is bit c + by of the mask."""
    return mask >> by if by > 0 else mask << -by


def distances_from(width: int, walls: int, goals: int) -> tuple[dict[int, int], list[int]]:
    """The distance of every floor cell from the nearest goal, a lower bound on the pushes a box there needs; and the
    masks of the cells at each distance."""
    far, layers, reach, distance = {}, [], goals, 0
    edge = goals
    while edge:
        layers.append(edge)
        for cell in bits(edge):
            far[cell] = distance
        distance += 1
        edge = (reach << 1 | reach >> 1 | reach << width | reach >> width) & ~(reach | walls)
        reach |= edge
    return far, layers


# solving levels


@lru_cache(maxsize=256)
def push_counts(width: int, walls: int, goals: int) -> tuple[dict[int, int], ...]:
    """For each goal, the pushes that a lone box needs to it from every cell that it can come from."""

    def pulled(cell: int) -> list[int]:
        ways = (1, -1, width, -width)
        return [cell + by for by in ways if not (walls >> cell + by & 1 or walls >> cell + 2 * by & 1)]

    return tuple(distances([goal], pulled) for goal in bits(goals))


@lru_cache(maxsize=4096)
def pushes(width: int, walls: int, goals: int, boxes: int, region: int) -> Sequence[tuple[int, int]] | None:
    """The fewest pushes that solve a level, each as the box's cell and the step; None when it cannot be solved."""
    tables = push_counts(width, walls, goals)
    alive = {cell for table in tables for cell in table}
    never = 10**6

    @cache
    def bound(node: tuple[int, int]) -> int:
        cells = list(bits(node[0]))
        if len(cells) == 1:
            return tables[0].get(cells[0], never)
        costs = [[table.get(cell, never) for table in tables] for cell in cells]
        orders = permutations(range(len(cells)))
        return min(sum([row[index] for row, index in zip(costs, order, strict=True)]) for order in orders)

    def neighbours(node: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        standing, reach = node
        free = ~(walls | standing)
        for by in (1, -1, width, -width):
            for cell in bits(standing & shifted(reach, -by) & shifted(free, by)):
                if cell + by in alive:
                    moved = standing ^ (1 << cell | 1 << cell + by)
                    then = (moved, grown(1 << cell, ~(walls | moved), width))
                    if bound(then) < never:
                        yield f"{cell} {by}", then

    if bound((boxes, 0)) >= never:
        return None
    moves = cheapest((boxes, region), neighbours, bound)
    if moves is None:
        return None
    return [(int(cell), int(by)) for cell, by in map(str.split, moves)]
