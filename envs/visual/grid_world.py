"""VisualGridWorld: a game of many turns whose board only the picture shows: walls, keys, doors, lava and a goal."""

from __future__ import annotations

import random
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from rlvr.envs.core.seeding import nameless
from rlvr.envs.core.task import Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.graders.action import read_action
from rlvr.envs.visual.canvas import COLOURS, INK, PAPER, UNITS, Canvas, star
from rlvr.envs.visual.visual_questions import Visual

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
GOES_ON = Verdict(0.0, "partial", reason="the game goes on")


class Size(NamedTuple):
    """Of a level: rows and columns, inner walls, doors, keys without a door, lava, fewest and most moves, turns."""

    cells: int
    walls: int
    doors: int
    spare_keys: int
    lava: int
    fewest: int
    most: int
    turns: int


SIZES = (
    Size(6, 7, 0, 0, 0, 6, 9, 12),
    Size(8, 16, 0, 0, 3, 8, 12, 16),
    Size(8, 8, 1, 0, 3, 10, 17, 22),
    Size(9, 8, 2, 0, 5, 14, 24, 30),
    Size(10, 10, 2, 2, 8, 17, 30, 38),
)
KEYS = ("red", "blue", "purple", "pink")
STONE, FLOOR, LAVA, GOLD = (90, 90, 100), (244, 242, 236), (250, 130, 10), (20, 150, 70)
BAR = 24.0  # height of the strip with the keys that are held


class Room(NamedTuple):
    """A board; cells are numbered row by row, ``keys`` and ``doors`` are (cell, colour)."""

    size: int
    walls: tuple[int, ...]
    lava: tuple[int, ...]
    keys: tuple[tuple[int, str], ...]
    doors: tuple[tuple[int, str], ...]
    goal: int
    player: int
    held: tuple[str, ...] = ()


class Walk(NamedTuple):
    """The board as it was first and as it is now, and what the last move led to; "" at the beginning."""

    first: Room
    room: Room
    message: str = ""


class VisualGridWorld(Visual[Walk]):
    """A walk over a board. Level 1: a room with walls. 2: with lava, which ends the game. 3 to 5: one or two doors,
    each of which opens for who carries the key of its colour; level 5 has keys that no door needs.

    Observation: what the last move led to in words, and a picture of the whole board with the keys that are held.
    Actions: up, down, left or right, in \\boxed{} or alone; what cannot be read or done costs a turn.
    Reward: 1 on the goal, else 0.
    Episode end: on the goal, on lava, or out of turns.
    """

    system = (
        "The image shows a board from above. You are the blue disc with a face, and have to reach the green star. Grey "
        "cells are walls; whoever steps on orange lava has lost. A door opens when you walk into it with the key of "
        "its colour; a key is taken by walking over it, and stands below the board then. Each reply is one move: up, "
        "down, left or right, in \\boxed{} or alone."
    )
    fine = 1

    def turns(self, level: int) -> int:
        """From 12 to 38, some more than the longest shortest way of the level."""
        return SIZES[level - 1].turns

    def start(self, rng: random.Random, level: int) -> Walk:
        """Draws boards until the goal can be reached in a number of moves that fits the level."""
        size = SIZES[level - 1]
        while True:
            room = laid_out(rng, size)
            way = None if room is None else shortest(room)
            if room is not None and way is not None and size.fewest <= len(way) <= size.most:
                return Walk(room, room)

    def content(self, state: Walk) -> str:
        """The first board with its colours; moves do not change it."""
        return nameless(state.first)

    def observe(self, state: Walk) -> str:
        """What the last move led to; the board itself stands only in the picture."""
        return f"{state.message} Your move?" if state.message else "The game begins. Your move?"

    def apply(self, state: Walk, action: str) -> Transition:
        """Walls and locked doors cost the turn, lava loses, the goal wins; unread text costs a turn too."""
        move, reason = read_action(action, MOVES)
        if move is None:
            message = "That is no move: up, down, left or right."
            return Transition(state._replace(message=message), Verdict(0.0, "unparsable", reason=reason))
        room, message = moved(state.room, move)
        after = Walk(state.first, room, message)
        if room.player in room.lava:
            return Transition(after, wrong(move, "stepped on lava"), terminated=True)
        if room.player == room.goal:
            return Transition(after, correct(move, "reached the goal"), terminated=True)
        return Transition(after, GOES_ON)

    def solve(self, state: Walk) -> str:
        """The first move of a shortest way from here, breadth first over cells and keys."""
        way = shortest(state.room)
        return f"\\boxed{{{way[0] if way else 'up'}}}"

    def sample_action(self, state: Walk, rng: random.Random) -> str:
        """One of the four directions, walls or lava or not."""
        return f"\\boxed{{{rng.choice(tuple(MOVES))}}}"

    def paint(self, state: Walk, canvas: Canvas) -> None:
        """The whole board from above and, below it, the keys that are held."""
        room = state.room
        wide = (UNITS - BAR) / room.size
        left = BAR / 2

        def corner(cell: int) -> tuple[float, float]:
            row, column = divmod(cell, room.size)
            return left + column * wide, row * wide

        doors = dict(room.doors)
        for cell in range(room.size**2):
            x, y = corner(cell)
            fill = STONE if cell in room.walls else LAVA if cell in room.lava else FLOOR
            canvas.box(x, y, x + wide, y + wide, fill, (200, 200, 200))
            if cell in room.lava:
                for part in (0.3, 0.5, 0.7):
                    waves = [(x + wide * (0.2 + 0.15 * i), y + wide * (part + 0.06 * (-1) ** i)) for i in range(5)]
                    canvas.line(waves, (200, 30, 20), 1.5)
            if cell in doors:
                canvas.box(x + 0.1 * wide, y + 0.1 * wide, x + 0.9 * wide, y + 0.9 * wide, COLOURS[doors[cell]], INK)
                canvas.circle((x + 0.72 * wide, y + 0.5 * wide), 0.07 * wide, PAPER, INK)
        for cell, colour in room.keys:
            x, y = corner(cell)
            key(canvas, x + wide / 2, y + wide / 2, 0.3 * wide, colour)
        x, y = corner(room.goal)
        canvas.polygon(star((x + wide / 2, y + wide / 2), 0.4 * wide), GOLD)
        x, y = corner(room.player)
        canvas.circle((x + wide / 2, y + wide / 2), 0.36 * wide, COLOURS["blue"], INK)
        for side in (0.38, 0.62):
            canvas.circle((x + side * wide, y + 0.43 * wide), 0.06 * wide, PAPER)
        canvas.line([(x + 0.36 * wide, y + 0.62 * wide), (x + 0.64 * wide, y + 0.62 * wide)], PAPER, 1.5)
        for number, colour in enumerate(room.held):
            key(canvas, left + 14 + 34 * number, UNITS - BAR / 2, 9, colour)


def key(canvas: Canvas, x: float, y: float, size: float, colour: str) -> None:
    paint = COLOURS[colour]
    canvas.circle((x - 0.5 * size, y), 0.5 * size, None, paint, 3)
    canvas.line([(x, y), (x + size, y), (x + size, y + 0.45 * size)], paint, 3)
    canvas.line([(x + 0.6 * size, y), (x + 0.6 * size, y + 0.4 * size)], paint, 3)


def neighbour(size: int, cell: int, move: str) -> int | None:
    """The next cell in that direction; None at the edge."""
    down, right = MOVES[move]
    row, column = cell // size + down, cell % size + right
    return row * size + column if 0 <= row < size and 0 <= column < size else None


def moved(room: Room, move: str) -> tuple[Room, str]:
    """The room after a move, and what it led to: nobody walks through walls, or through doors without their key."""
    to = neighbour(room.size, room.player, move)
    if to is None or to in room.walls:
        return room, "There is a wall."
    message = "You walk on."
    doors = dict(room.doors)
    if to in doors:
        if doors[to] not in room.held:
            return room, f"The {doors[to]} door is locked."
        message = f"The {doors[to]} door opens."
        room = room._replace(doors=tuple(door for door in room.doors if door[0] != to))
    keys = dict(room.keys)
    if to in keys:
        message = f"You take the {keys[to]} key."
        left = tuple(each for each in room.keys if each[0] != to)
        room = room._replace(keys=left, held=(*room.held, keys[to]))
    return room._replace(player=to), message


def shortest(room: Room) -> list[str] | None:
    """The fewest moves to the goal, breadth first over places and keys; None where it cannot be reached."""
    blocked, keys, doors = {*room.walls, *room.lava}, dict(room.keys), dict(room.doors)
    first = (room.player, frozenset(room.held))
    came: dict[tuple[int, frozenset[str]], tuple[tuple[int, frozenset[str]], str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        here = waiting.popleft()
        if here[0] == room.goal:
            way: list[str] = []
            while (step := came[here]) is not None:
                here, move = step
                way.append(move)
            return way[::-1]
        for move in MOVES:
            to = neighbour(room.size, here[0], move)
            if to is None or to in blocked or (to in doors and doors[to] not in here[1]):
                continue
            there = (to, here[1] | {keys[to]} if to in keys else here[1])
            if there not in came:
                came[there] = here, move
                waiting.append(there)
    return None


def laid_out(rng: random.Random, level: Size) -> Room | None:
    """A room; with doors, each in a wall from edge to edge. It may have no way to the goal, or a short one."""
    size = level.cells
    columns = sorted(rng.sample(range(2, size - 2), level.doors))
    if any(b - a < 2 for a, b in pairwise(columns)):
        return None
    colours = rng.sample(KEYS, level.doors + level.spare_keys)
    doors = [(rng.randrange(size) * size + column, colour) for column, colour in zip(columns, colours, strict=False)]
    fence = {row * size + column for row in range(size) for column in columns} - {cell for cell, _ in doors}
    taken = fence | {cell for cell, _ in doors}
    free = [cell for cell in range(size * size) if cell not in taken]
    beside = {to for cell, _ in doors for move in MOVES if (to := neighbour(size, cell, move)) is not None}
    rng.shuffle(free)
    walls = [cell for cell in free if cell not in beside][: level.walls + level.lava]
    rest = [cell for cell in free if cell not in walls]
    borders = [*columns, size]
    player = next((cell for cell in rest if cell % size < borders[0]), None)
    goal = next((cell for cell in rest if cell != player and cell % size > (columns or [-1])[-1]), None)
    if player is None or goal is None:
        return None
    keys: list[tuple[int, str]] = []
    for number, colour in enumerate(colours):
        # The key of a door lies before it; those that no door needs lie anywhere.
        edge = borders[number] if number < level.doors else size
        free_cells = [c for c in rest if c % size < edge and c not in (player, goal) and c not in [k for k, _ in keys]]
        if not free_cells:
            return None
        keys.append((rng.choice(free_cells), colour))
    inner = sorted(fence | set(walls[: level.walls]))
    flip = rng.random() < 0.5  # doors in walls from side to side as well
    room = Room(size, tuple(inner), tuple(sorted(walls[level.walls :])), tuple(keys), tuple(doors), goal, player)
    return transposed(room) if flip else room


def transposed(room: Room) -> Room:
    def turned(cell: int) -> int:
        return cell % room.size * room.size + cell // room.size

    return room._replace(
        walls=tuple(sorted(map(turned, room.walls))),
        lava=tuple(sorted(map(turned, room.lava))),
        keys=tuple((turned(cell), colour) for cell, colour in room.keys),
        doors=tuple((turned(cell), colour) for cell, colour in room.doors),
        goal=turned(room.goal),
        player=turned(room.player),
    )
