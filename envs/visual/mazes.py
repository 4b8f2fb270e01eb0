"""VisualMazes: the way through a maze that only the picture shows."""

from __future__ import annotations

import random
from collections import deque
from typing import NamedTuple

from rlvr.envs.visual import workings
from rlvr.envs.visual.canvas import COLOURS, INK, UNITS, Canvas, star
from rlvr.envs.visual.visual_questions import LOOK, VisualQuestions, VisualState

SIZES = (5, 7, 9, 11, 14)
SHORTEST = (7, 10, 14, 20, 26)  # steps of the shortest way, at least
LOOPS = (0, 0, 2, 4, 8)  # walls that are taken away again, so that there are ways round
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
MOST_MOVES = 600
MARGIN = 12.0

Place = tuple[int, int]


class Maze(NamedTuple):
    """``open`` names, for each cell row by row, the letters of the ways out of it."""

    size: int
    open: tuple[str, ...]
    start: Place
    goal: Place


class VisualMazes(VisualQuestions):
    """A way through a maze. Levels 1 to 5: mazes of 5 x 5 to 14 x 14 cells, from level 3 on with ways round. Any way
    that crosses no wall and ends at the goal is right.
    """

    kind = "checked"
    system = f"{LOOK} A way is written as letters, one for each cell: U (up), D (down), L (left), R (right)."
    fine = 1

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """Carves mazes depth first until start and goal are ``SHORTEST`` steps apart."""
        size = SIZES[level - 1]
        while True:
            cells = carved(rng, size, LOOPS[level - 1])
            start, goal = (divmod(cell, size) for cell in rng.sample(range(size * size), 2))
            maze = Maze(size, cells, start, goal)
            way = shortest(maze)
            if len(way) >= SHORTEST[level - 1]:
                text = "The black lines are walls. Give a way from the red disc to the green star, such as URRD."
                return VisualState(maze, text, way)

    def check(self, state: VisualState, answer: str) -> str | None:
        """Walks the letters cell by cell, at most 600; detours are right, walls are not."""
        moves = "".join(answer.replace(",", " ").split()).upper()
        if not moves or len(moves) > MOST_MOVES or not set(moves) <= STEPS.keys():
            raise ValueError(f"the answer is not at most {MOST_MOVES} of the letters U, D, L and R")
        maze: Maze = state.scene
        index = maze.start
        for number, move in enumerate(moves, 1):
            if move not in maze.open[index[0] * maze.size + index[1]]:
                return f"there is a wall at move {number}"
            index = stepped(index, move)
        return None if index == maze.goal else "the way does not end at the goal"

    def explain(self, state: VisualState) -> str:
        """Each straight part of the way."""
        return workings.maze_way(state.scene.start, state.answer)

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """Five to twelve random steps."""
        return "".join(rng.choices("UDLR", k=rng.randint(5, 12)))

    def sketch(self, scene: Maze, canvas: Canvas) -> None:
        """Walls, a red disc at the start and a green star at the goal."""
        wide = (UNITS - 2 * MARGIN) / scene.size
        edges = [MARGIN + number * wide for number in range(scene.size + 1)]
        first, last = edges[0], edges[-1]
        canvas.line([(first, last), (first, first), (last, first)], INK, 2.5)
        for cell, ways in enumerate(scene.open):  # each wall once: those above and to the left are of other cells
            row, column = divmod(cell, scene.size)
            right, bottom = edges[column + 1], edges[row + 1]
            if "D" not in ways:
                canvas.line([(edges[column], bottom), (right, bottom)], INK, 2.5)
            if "R" not in ways:
                canvas.line([(right, edges[row]), (right, bottom)], INK, 2.5)
        middle = [(MARGIN + (c + 0.5) * wide, MARGIN + (r + 0.5) * wide) for r, c in (scene.start, scene.goal)]
        canvas.circle(middle[0], wide * 0.27, COLOURS["red"])
        canvas.polygon(star(middle[1], wide * 0.36), COLOURS["green"])


def stepped(index: Place, move: str) -> Place:
    down, right = STEPS[move]
    return index[0] + down, index[1] + right


def carved(rng: random.Random, size: int, loops: int) -> tuple[str, ...]:
    """A maze in which every cell is reached, by a random depth-first walk, with some more walls taken away."""
    ways: dict[Place, set[str]] = {divmod(cell, size): set() for cell in range(size * size)}
    stack = [divmod(rng.randrange(size * size), size)]
    reached = {stack[0]}
    while stack:
        nexts = [(m, to) for m in STEPS if (to := stepped(stack[-1], m)) in ways and to not in reached]
        if not nexts:
            stack.pop()
            continue
        move, to = rng.choice(nexts)
        _open(ways, stack[-1], move, to)
        reached.add(to)
        stack.append(to)
    closed = [(at, m) for at in ways for m in "DR" if stepped(at, m) in ways and m not in ways[at]]
    for at, move in rng.sample(closed, min(loops, len(closed))):
        _open(ways, at, move, stepped(at, move))
    return tuple("".join(move for move in STEPS if move in ways[at]) for at in ways)


def _open(ways: dict[Place, set[str]], at: Place, move: str, to: Place) -> None:
    ways[at].add(move)
    ways[to].add({"U": "D", "D": "U", "L": "R", "R": "L"}[move])


def shortest(maze: Maze) -> str:
    """A shortest way, breadth first."""
    came: dict[Place, str] = {maze.start: ""}
    waiting = deque([maze.start])
    while waiting:
        index = waiting.popleft()
        if index == maze.goal:
            break
        for move in maze.open[index[0] * maze.size + index[1]]:
            to = stepped(index, move)
            if to not in came:
                came[to] = came[index] + move
                waiting.append(to)
    return came[maze.goal]
