"""Walking on a grid. Many turns; reward 1 for reaching the goal.

FrozenLake: across the ice without falling into a hole, on ice that is slippery or not. KeyDoor: through a maze whose
doors need keys. FogMaze: through a maze of which only the nearest cells are seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.games.board_game import WAYS, BoardGame, BoardState, SearchedGame, shortest
from rlvr.envs.games.common import boxed, chance

Place = tuple[int, int]

# For each level: rows and columns, and the share of holes.
LAKES = ((4, 0.2), (5, 0.25), (6, 0.25), (7, 0.28), (8, 0.3))
SIDEWAYS = {"up": ("left", "right"), "down": ("left", "right"), "left": ("up", "down"), "right": ("up", "down")}
SLIP = 0.1  # to either side
SWEEPS = 200


class Lake(NamedTuple):
    """``seed`` and ``turn`` decide where one slips."""

    rows: tuple[str, ...]
    at: Place
    slippery: bool
    seed: int = 0
    turn: int = 0


class FrozenLake(SearchedGame[Lake]):
    """Walk over a frozen lake without falling into a hole.

    Levels 1 to 5: 4 x 4 to 8 x 8 cells, 20 to 30 percent of them holes; there is always a way.

    On slippery ice luck has a say: a step goes to either side one time in ten each. The expert then takes the steps
    with the best chance to arrive.

    Observation: the board: ``@`` you, ``H`` hole, ``G`` goal; and when a step slipped or did not move.
    Actions: ``up``, ``down``, ``left`` or ``right``.
    Reward: 1 at the goal, else 0.
    Episode end: the goal, a hole, or the turns are used up.

    Args:
        slippery: whether one slips.
    """

    def __init__(self, *, slippery: bool = False) -> None:
        if not isinstance(slippery, bool):
            raise TypeError(f"slippery must be True or False, got {slippery!r}")
        self.slippery = slippery
        self.always_solvable = not slippery

    def turns(self, level: int) -> int:
        return (12 if self.slippery else 4) * LAKES[level - 1][0]

    def deal(self, rng: random.Random, level: int) -> Lake:
        """Draws lakes until a dry way of at most three times the size leads to a goal that is not near."""
        size, share = LAKES[level - 1]
        while True:
            rows = [["H" if rng.random() < share else "." for _ in range(size)] for _ in range(size)]
            start, goal = ((rng.randrange(size), rng.randrange(size)) for _ in range(2))
            if abs(start[0] - goal[0]) + abs(start[1] - goal[1]) < size - 1:
                continue
            rows[start[0]][start[1]], rows[goal[0]][goal[1]] = "S", "G"
            lake = tuple("".join(row) for row in rows)
            way = shortest_safe_path(lake, start)
            if way is not None and len(way) <= 3 * size:
                return Lake(lake, start, self.slippery, rng.getrandbits(32) if self.slippery else 0)

    def guide(self, board: Lake) -> str:
        ice = "A step into the edge of the board leaves you where you are."
        if board.slippery:
            ice = (
                "The ice is slippery: a step goes the way you chose 8 times in 10, and once in 10 to each side of it. "
                + ice
            )
        return (
            "Frozen lake. Walk from S to the goal G, one cell at a time; falling into a hole (H) loses the game. "
            f"{ice}\n@ you, H hole, G goal, S start, . ice."
        )

    def show(self, board: Lake) -> str:
        return drawn(board.rows, board.at)

    def legal(self, board: Lake) -> list[str]:
        return list(WAYS)

    def after(self, board: Lake, move: str) -> Lake:
        if board.slippery:
            luck = chance(board.seed, board.turn).random()
            if luck < 2 * SLIP:
                move = SIDEWAYS[move][luck < SLIP]
        return board._replace(at=cell_after(board.rows, board.at, move), turn=board.turn + 1 if board.slippery else 0)

    def comment(self, before: Lake, move: str, after: Lake) -> str:
        if after.at == before.at:
            return "You did not move."
        if after.at != cell_after(before.rows, before.at, move):
            return "You slipped."
        return ""

    def reached(self, board: Lake) -> bool:
        return board.rows[board.at[0]][board.at[1]] == "G"

    def failed(self, board: Lake) -> str:
        return "you fell into a hole" if board.rows[board.at[0]][board.at[1]] == "H" else ""

    def search(self, board: Lake) -> list[str] | None:
        """A shortest way around the holes, as if nobody slipped."""
        return shortest_safe_path(board.rows, board.at)

    def solve(self, state: BoardState) -> str:
        """On slippery ice the way with the best chance to arrive, by value iteration, else the shortest way."""
        if not self.slippery:
            return super().solve(state)
        board = state.board
        values = arrival(board.rows)
        return boxed(max(WAYS, key=lambda way: slipping(board.rows, values, board.at, way)))


def cell_after(rows: tuple[str, ...], at: Place, way: str) -> Place:
    y, x = at[0] + WAYS[way][0], at[1] + WAYS[way][1]
    return (y, x) if 0 <= y < len(rows) and 0 <= x < len(rows[0]) else at


def drawn(rows: tuple[str, ...], at: Place) -> str:
    """The rows, with the player in place."""
    y, x = at
    return "\n".join([*rows[:y], f"{rows[y][:x]}@{rows[y][x + 1 :]}", *rows[y + 1 :]])


def shortest_safe_path(rows: tuple[str, ...], start: Place) -> list[str] | None:
    def neighbours(at: Place) -> Iterator[tuple[str, Place]]:
        for way in WAYS:
            y, x = cell_after(rows, at, way)
            if rows[y][x] != "H":
                yield way, (y, x)

    return shortest(start, neighbours, lambda at: rows[at[0]][at[1]] == "G")


@lru_cache(maxsize=128)
def arrival(rows: tuple[str, ...]) -> dict[Place, float]:
    """The chance to arrive from each cell, by value iteration; a turn's small cost settles ties."""
    cells = [(y, x) for y in range(len(rows)) for x in range(len(rows))]
    values = {(y, x): float(rows[y][x] == "G") for y, x in cells}
    open_cells = [(y, x) for y, x in cells if rows[y][x] in "S."]
    for _ in range(SWEEPS):
        change = 0.0
        for at in open_cells:
            value = 0.99 * max([slipping(rows, values, at, way) for way in WAYS])
            change = max(change, abs(value - values[at]))
            values[at] = value
        if change < 1e-4:
            break
    return values


def slipping(rows: tuple[str, ...], values: dict[Place, float], at: Place, way: str) -> float:
    left_side, right_side = SIDEWAYS[way]
    ahead = (1 - 2 * SLIP) * values[cell_after(rows, at, way)]
    return ahead + SLIP * (values[cell_after(rows, at, left_side)] + values[cell_after(rows, at, right_side)])


# mazes


def maze(rng: random.Random, size: int) -> list[list[str]]:
    """A maze of ``size`` x ``size`` rooms with one way between any two; # is wall, . is floor."""
    width = 2 * size + 1
    grid = [["#"] * width for _ in range(width)]
    stack = [(1 + 2 * rng.randrange(size), 1 + 2 * rng.randrange(size))]
    grid[stack[0][0]][stack[0][1]] = "."
    while stack:
        y, x = stack[-1]
        ways = [
            (dy, dx)
            for dy, dx in WAYS.values()
            if 0 < y + 2 * dy < width and 0 < x + 2 * dx < width and grid[y + 2 * dy][x + 2 * dx] == "#"
        ]
        if not ways:
            stack.pop()
            continue
        dy, dx = rng.choice(ways)
        grid[y + dy][x + dx] = grid[y + 2 * dy][x + 2 * dx] = "."
        stack.append((y + 2 * dy, x + 2 * dx))
    return grid


def ways_on(rows: tuple[str, ...] | list[list[str]], at: Place, shut: str = "#") -> list[str]:
    """The ways from a cell of a maze that no wall is in."""
    return [way for way, (dy, dx) in WAYS.items() if rows[at[0] + dy][at[1] + dx] not in shut]


# For each level: rooms across and down, and doors; and the turns.
KEY_LEVELS = ((3, 1, 30), (4, 2, 100), (5, 3, 200), (6, 3, 280), (7, 4, 400))


class LockedRooms(NamedTuple):
    """``rows`` as built; small letters are keys, capitals their doors. ``keys`` are those that were found."""

    rows: tuple[str, ...]
    at: Place
    keys: str = ""


class KeyDoor(SearchedGame[LockedRooms]):
    """Find keys, open doors and reach the goal.

    Levels 1 to 5: mazes of 4 x 4 to 8 x 8 rooms, 1 to 4 doors on the way, and as many keys off it.

    Observation: the whole maze, capitals for doors and small letters for keys, and the keys held.
    Actions: ``up``, ``down``, ``left`` or ``right``.
    Reward: 1 at the goal, else 0.
    Episode end: the goal, or the turns are used up.
    """

    turn_limits = tuple(turns for _, _, turns in KEY_LEVELS)

    def deal(self, rng: random.Random, level: int) -> LockedRooms:
        """Puts doors on the only way to the goal and each key where it can be had before its door."""
        size, doors, turns = KEY_LEVELS[level - 1]
        while True:
            grid = maze(rng, size)
            rooms = [(y, x) for y in range(1, 2 * size, 2) for x in range(1, 2 * size, 2)]
            start, goal = rng.sample(rooms, 2)
            rows = tuple("".join(row) for row in grid)
            path = walked(rows, start, goal)
            gates = [cell for cell in path[1:-1] if sum(cell) % 2]  # between two rooms
            if len(gates) < doors + 1:
                continue
            placed = sorted(rng.sample(range(len(gates)), doors))
            for number, index in enumerate(placed):
                y, x = gates[index]
                grid[y][x] = "ABCD"[number]
            if hidden_keys(rng, grid, start, goal, doors):
                grid[goal[0]][goal[1]] = "G"
                board = LockedRooms(tuple("".join(row) for row in grid), start)
                if len(self.search(board) or ()) <= turns * 3 // 4:
                    return board

    def guide(self, board: LockedRooms) -> str:
        return (
            "A house of one storey. Walk to the goal G, one cell at a time. A capital letter is a locked door; to go "
            "through it you need the key of the same small letter, which you take by walking onto it, and keep.\n"
            "# wall, . floor, @ you."
        )

    def show(self, board: LockedRooms) -> str:
        rows = tuple(row.translate({ord(key): "." for key in board.keys}) for row in board.rows)
        return f"{drawn(rows, board.at)}\nYour keys: {' '.join(board.keys) or 'none'}."

    def legal(self, board: LockedRooms) -> list[str]:
        return ways_on(board.rows, board.at, "#" + "".join(door for door in "ABCD" if door.lower() not in board.keys))

    def after(self, board: LockedRooms, move: str) -> LockedRooms:
        y, x = at = cell_after(board.rows, board.at, move)
        keys = board.keys
        if board.rows[y][x] in "abcd" and board.rows[y][x] not in keys:
            keys = "".join(sorted(keys + board.rows[y][x]))
        return board._replace(at=at, keys=keys)

    def reached(self, board: LockedRooms) -> bool:
        return board.rows[board.at[0]][board.at[1]] == "G"

    def search(self, board: LockedRooms) -> list[str] | None:
        """Breadth first over cells and keys, so its solutions are shortest."""
        return shortest(board, lambda here: [(move, self.after(here, move)) for move in self.legal(here)], self.reached)


def walked(rows: tuple[str, ...], start: Place, goal: Place, shut: str = "#") -> list[Place]:
    """The cells of a shortest way, both ends included; empty when there is none."""
    moves = shortest(
        start, lambda at: [(way, cell_after(rows, at, way)) for way in ways_on(rows, at, shut)], lambda at: at == goal
    )
    if moves is None:
        return []
    cells = [start]
    for move in moves:
        cells.append(cell_after(rows, cells[-1], move))
    return cells


def hidden_keys(rng: random.Random, grid: list[list[str]], start: Place, goal: Place, doors: int) -> bool:
    """Lay each door's key where one can be before it is opened; False when there is no room for one."""
    area, edge, visited = [], [start], {start}
    for number in range(doors):
        door = "ABCD"[number]
        while edge:
            y, x = edge.pop()
            area.append((y, x))
            for way in ways_on(grid, (y, x), "#" + "ABCD"[number:]):
                cell = (y + WAYS[way][0], x + WAYS[way][1])
                if cell not in visited:
                    visited.add(cell)
                    edge.append(cell)
        free = [(y, x) for y, x in area if grid[y][x] == "." and (y, x) not in (start, goal)]
        if not free:
            return False
        y, x = rng.choice(free)
        grid[y][x] = door.lower()
        gate = next((r, c) for r, row in enumerate(grid) for c, sign in enumerate(row) if sign == door)
        visited.add(gate)
        edge.append(gate)
    return True


FOG_ROOMS = (4, 5, 6, 7, 8)


class Fog(NamedTuple):
    """``seen`` are the cells where the player has been."""

    rows: tuple[str, ...]
    at: Place
    origin: Place
    seen: frozenset[Place]


class FogMaze(BoardGame[Fog]):
    """Find the goal of a maze of which little can be seen.

    Levels 1 to 5: mazes of 4 x 4 to 8 x 8 rooms, of which the 8 cells around the player are shown.

    The turns are enough to walk every corridor twice. The expert goes on where it has not been, and back where there
    is no such way: in a maze without loops that finds every cell.

    Observation: the cells around the player, and its row and column.
    Actions: ``up``, ``down``, ``left`` or ``right``.
    Reward: 1 at the goal, else 0.
    Episode end: the goal, or the turns are used up.
    """

    turn_limits = tuple(4 * rooms**2 - 2 for rooms in FOG_ROOMS)  # every corridor there and back

    def deal(self, rng: random.Random, level: int) -> Fog:
        """Draws start and goal so that the goal cannot be seen from the start."""
        size = FOG_ROOMS[level - 1]
        grid = maze(rng, size)
        rooms = [(y, x) for y in range(1, 2 * size, 2) for x in range(1, 2 * size, 2)]
        while True:
            start, goal = rng.sample(rooms, 2)
            if max(abs(start[0] - goal[0]), abs(start[1] - goal[1])) > 2:
                grid[goal[0]][goal[1]] = "G"
                return Fog(tuple("".join(row) for row in grid), start, start, frozenset([start]))

    def guide(self, board: Fog) -> str:
        size = len(board.rows)
        return (
            f"A maze in fog. Find the goal G and walk onto it, one cell at a time. The maze has {size} rows and {size} "
            "columns with its outer walls; it has no loops, and all its floor can be reached. You see only the cells "
            "next to you, also diagonally: remember where you have been.\n# wall, . floor, @ you."
        )

    def show(self, board: Fog) -> str:
        y, x = board.at
        view = [board.rows[row][x - 1 : x + 2] for row in range(y - 1, y + 2)]
        view[1] = f"{view[1][0]}@{view[1][2]}"
        return "\n".join(view) + f"\nYou are in row {y + 1}, column {x + 1}."

    def identity(self, board: Fog) -> str:
        return drawn(board.rows, board.origin)

    def legal(self, board: Fog) -> list[str]:
        return ways_on(board.rows, board.at)

    def after(self, board: Fog, move: str) -> Fog:
        at = cell_after(board.rows, board.at, move)
        return board._replace(at=at, seen=board.seen | {at})

    def reached(self, board: Fog) -> bool:
        return board.rows[board.at[0]][board.at[1]] == "G"

    def best(self, board: Fog) -> str:
        """Uses what was seen: the cells around the player, and those it has been on."""
        new = [way for way in self.legal(board) if cell_after(board.rows, board.at, way) not in board.seen]
        if new:
            goal = [way for way in new if self.reached(self.after(board, way))]
            return (goal or new)[0]
        back = shortest(
            board.at,
            lambda at: [
                (way, cell_after(board.rows, at, way)) for way in WAYS if cell_after(board.rows, at, way) in board.seen
            ],
            lambda at: at == board.origin,
        )
        return (back or self.legal(board))[0]
