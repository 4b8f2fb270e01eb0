"""Cubes that turn.

Observation: the faces of a cube or its net, and the goal or the faces that are asked for.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations
from typing import NamedTuple

from rlvr.envs.puzzles import workings
from rlvr.envs.tasks.answers import ListAnswerTask, items, listed
from rlvr.envs.tasks.draws import picked
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained

Vector = tuple[int, int, int]
Frames = dict[tuple[int, int], tuple[Vector, Vector, Vector]]
FACES: dict[str, Vector] = {
    "U": (0, 1, 0),
    "F": (0, 0, 1),
    "R": (1, 0, 0),
    "D": (0, -1, 0),
    "B": (0, 0, -1),
    "L": (-1, 0, 0),
}
COLOURS = dict(zip(FACES, ("white", "green", "red", "yellow", "blue", "orange"), strict=True))


def turned(v: Vector, axis: Vector) -> Vector:
    """A quarter turn, clockwise as seen from the tip of the axis."""
    along = sum(a * b for a, b in zip(v, axis, strict=True))
    cross = (v[1] * axis[2] - v[2] * axis[1], v[2] * axis[0] - v[0] * axis[2], v[0] * axis[1] - v[1] * axis[0])
    return along * axis[0] + cross[0], along * axis[1] + cross[1], along * axis[2] + cross[2]


@cache
def stickers(size: int) -> tuple[tuple[Vector, Vector], ...]:
    """The stickers of U, F, R, D, B and L: small cube and direction, in reading order of each face."""
    # Seen from outside, with U above for the sides; U with B above, D with F above: right and down on each face.
    views = {
        "U": ((1, 0, 0), (0, 0, 1)),
        "F": ((1, 0, 0), (0, -1, 0)),
        "R": ((0, 0, -1), (0, -1, 0)),
        "D": ((1, 0, 0), (0, 0, -1)),
        "B": ((-1, 0, 0), (0, -1, 0)),
        "L": ((0, 0, 1), (0, -1, 0)),
    }
    outermost = size - 1  # coordinates go in steps of two, so that the middle of the cube is 0
    labels = []
    for name, (right, down) in views.items():
        for y in range(-outermost, size, 2):
            for x in range(-outermost, size, 2):
                a, b, c = (outermost * n + x * r + y * d for n, r, d in zip(FACES[name], right, down, strict=True))
                labels.append(((a, b, c), FACES[name]))
    return tuple(labels)


@cache
def move_tables(size: int, faces: str) -> dict[str, tuple[int, ...]]:
    """For each move of these outer layers, where the sticker at each position comes from."""
    indices = {sticker: number for number, sticker in enumerate(stickers(size))}
    tables: dict[str, tuple[int, ...]] = {}
    for name in faces:
        axis = FACES[name]
        quarter = list(range(len(indices)))
        for number, (cubie, way) in enumerate(stickers(size)):
            if sum(a * b for a, b in zip(cubie, axis, strict=True)) == size - 1:
                quarter[indices[turned(cubie, axis), turned(way, axis)]] = number
        half = [quarter[index] for index in quarter]
        tables |= {name: tuple(quarter), name + "2": tuple(half), name + "'": tuple(half[index] for index in quarter)}
    return tables


class PocketCube(CheckedAnswerTask):
    """Solve a 2 x 2 x 2 cube.

    Levels 1 and 2: cubes that take three and four moves (321 and 1,847); 3 to 5: turned 6, 8 and 11 times.
    """

    SIZE = 2
    TURNING = "URF"  # faces: all cubes can be reached with these
    NEAREST = 3  # moves that a cube of level 1 takes
    TURNS = (6, 8, 11)
    MOST_MOVES = 30
    ROWS = "as its upper row, then its lower row"
    HALVES = "Moves turn the upper (U), right (R) or front (F) half"

    @classmethod
    def moved(cls, cube: str, moves: Iterable[str]) -> str:
        """The cube after these moves."""
        tables = move_tables(cls.SIZE, cls.TURNING)
        for move in moves:
            cube = "".join([cube[index] for index in tables[move]])
        return cube

    @classmethod
    def faces_of(cls, cube: str) -> dict[str, list[str]]:
        """The rows of each face."""
        rows = [cube[start : start + cls.SIZE] for start in range(0, len(cube), cls.SIZE)]
        return {name: rows[k * cls.SIZE : (k + 1) * cls.SIZE] for k, name in enumerate(FACES)}

    @classmethod
    @cache
    def near(cls, distance: int) -> dict[str, tuple[str, ...]]:
        """Every cube that takes so many moves to reach, and no fewer, and moves that reach it."""
        if distance == 0:
            return {"".join(name * cls.SIZE**2 for name in FACES): ()}
        before = [cls.near(k) for k in range(distance)]
        sequences: dict[str, tuple[str, ...]] = {}
        for cube, moves in before[-1].items():
            for move in move_tables(cls.SIZE, cls.TURNING):
                new = cls.moved(cube, [move])
                if not any(new in closer for closer in before):
                    sequences.setdefault(new, (*moves, move))
        return sequences

    def enumerate_contents(self, level: int) -> list[str] | None:
        """The cubes of levels 1 and 2, by breadth-first search from the solved one; from level 3 on too many."""
        return list(self.near(self.NEAREST + level - 1)) if level <= 2 else None

    def ask(self, rng: random.Random, level: int) -> Question:
        """From level 3 on random turns, drawn again among the cubes of levels 1 and 2; the reference undoes them."""
        if level <= 2:
            cube, moves = rng.choice(list(self.near(self.NEAREST + level - 1).items()))
        else:
            (solved,) = self.near(0)
            cube, moves = solved, ()
            while any(cube in self.near(k) for k in range(self.NEAREST + 2)):
                turns = [name + rng.choice(("", "2", "'")) for name in self.layers(rng, self.TURNS[level - 3])]
                cube, moves = self.moved(solved, turns), tuple(turns)
        back = [{"'": move[0], "2": move}.get(move[1:], move + "'") for move in reversed(moves)]
        faces = "\n".join(f"{name}: {' '.join(rows)}" for name, rows in self.faces_of(cube).items())
        facts = ", ".join(f"{name} {colour}" for name, colour in COLOURS.items())
        size = " x ".join(str(self.SIZE) * 3)
        text = f"A {size} cube; the letters stand for the colours of the solved faces ({facts}). Each face is given "
        text += f"{self.ROWS}, as seen from outside: F (front), R (right), B (back) and L "
        text += f"(left) with U above, U (up) with B above, D (down) with F above.\n{faces}\n{self.HALVES}"
        text += ": U is a quarter turn clockwise as seen from outside that face, U' "
        text += f"counter-clockwise, U2 a half turn. Give at most {self.MOST_MOVES} moves after which every face "
        text += "has one colour, such as: R U2 F'"
        return Question(text, cube, answer_text=" ".join(back), content=cube)

    def explain(self, state: Question) -> str:
        """The faces after each move."""
        return workings.cube(state, self.moved, self.faces_of)

    def layers(self, rng: random.Random, count: int) -> list[str]:
        """So many of the faces that turn, no two neighbours equal."""
        names = [rng.choice(self.TURNING)]
        while len(names) < count:
            names.append(rng.choice(self.TURNING.replace(names[-1], "")))
        return names

    def check(self, question: Question, answer: str) -> str | None:
        """Plays the moves; right when every face has one colour, whichever way the cube is held."""
        moves = [move.upper() for move in items(answer.replace("’", "'").replace("'", "-"))]
        moves = [move.replace("-", "'") for move in moves]
        known = move_tables(self.SIZE, self.TURNING)
        if len(moves) > self.MOST_MOVES or not all(move in known for move in moves):
            raise ValueError(f"the answer is not at most {self.MOST_MOVES} of the moves {listed(known)}")
        faces = self.faces_of(self.moved(question.answer, moves))
        mixed = [name for name, rows in faces.items() if len(set("".join(rows))) > 1]
        return f"after these moves the faces {listed(mixed)} have several colours" if mixed else None


class RubiksCube(PocketCube):
    """Solve a 3 x 3 x 3 cube.

    Levels 1 and 2: cubes that take two and three moves (243 and 3,240); 3 to 5: turned 5, 8 and 20 times.
    """

    SIZE = 3
    TURNING = "URFDLB"
    NEAREST = 2
    TURNS = (5, 8, 20)
    MOST_MOVES = 200  # a person's method takes some 120
    ROWS = "row by row"
    HALVES = "Moves turn the outer layer of a face (U, R, F, D, L, B)"


class Net(NamedTuple):
    """Six squares that fold to a cube, numbered in reading order.

    Attributes:
        picture: the rows, with {0} to {5} for the squares.
        opposite: for each square, which one lies opposite when folded.
        stands: the 24 ways to put the cube down: which square is on top, which in front, which on the right.
    """

    picture: str
    opposite: tuple[int, ...]
    stands: tuple[tuple[int, int, int], ...]


@cache
def nets() -> tuple[Net, ...]:
    """The eleven nets of a cube, each turned and mirrored in every way that makes another picture."""
    # Each square carries the directions of its outside, of its right and of its lower side when folded.
    first: Frames = {(0, 0): ((0, 0, 1), (1, 0, 0), (0, -1, 0))}
    grown = [first]
    for _ in range(5):
        grown = list({frozenset(new): new for frames in grown for new in grown_by_one(frames)}.values())
    folded = {}
    for frames in grown:
        top, left = min(r for r, _ in frames), min(c for _, c in frames)
        cells = sorted(frames)
        width = max(c for _, c in cells) - left + 1
        rows = [["."] * width for _ in range(max(r for r, _ in cells) - top + 1)]
        for number, (r, c) in enumerate(cells):
            rows[r - top][c - left] = f"{{{number}}}"
        way = [frames[cell][0] for cell in cells]
        stands = [
            (up, front, way.index(cross(way[up], way[front])))
            for up, front in permutations(range(6), 2)
            if way[front] not in (way[up], opposite(way[up]))
        ]
        picture = "\n".join(map("".join, rows))
        folded[picture] = Net(picture, tuple(way.index(opposite(each)) for each in way), tuple(stands))
    return tuple(folded[picture] for picture in sorted(folded))


def grown_by_one(frames: Frames) -> Iterator[Frames]:
    """A net with one square more, in every way that covers another side of the cube."""
    for (r, c), (out, right, down) in frames.items():
        for cell, frame in (
            ((r, c + 1), (right, opposite(out), down)),
            ((r, c - 1), (opposite(right), out, down)),
            ((r + 1, c), (down, right, opposite(out))),
            ((r - 1, c), (opposite(down), right, out)),
        ):
            if cell not in frames and all(frame[0] != other for other, _, _ in frames.values()):
                yield {**frames, cell: frame}


class CubeNets(ListAnswerTask):
    """Fold a net to a cube, and say which faces lie where.

    Levels 1 to 5: the opposites on a net, from 2 on what lies where, after 0, 1, 3 and 6 rolls.
    """

    ROLLS = ("to the right", "to the left", "towards you", "away from you")
    explain = explained(workings.cube_net, "text", "answer")

    def ask(self, rng: random.Random, level: int) -> Question:
        """One of the nets with six letters; rolls change the frame, not the net."""
        all_nets = nets()
        code, index = divmod(rng.randrange(24 * len(all_nets)), len(all_nets))
        net, names = all_nets[index], picked(rng, "ABCDEFGHJKMNPQRSTVWXYZ", 6)
        text = f"This net is folded to a cube, with the letters outside (. is nothing):\n{net.picture.format(*names)}"
        if level == 1:
            order = picked(rng, range(6), 6)
            text += f"\nWhich faces lie opposite {', '.join([names[number] for number in order])}? Answer with the "
            text += "letters, in this order."
            return Question(text, tuple([names[net.opposite[number]] for number in order]))
        # The cube stands with one face up and another in front; then it is rolled.
        up, front, right = net.stands[code]
        text += f"\nThe cube stands before you with {names[up]} on top and {names[front]} in front."
        if level > 2:
            rolls = [self.ROLLS[byte & 3] for byte in rng.randbytes((1, 3, 6)[level - 3])]
            for roll in rolls:
                if roll == "to the right":
                    up, right = net.opposite[right], up
                elif roll == "to the left":
                    up, right = right, net.opposite[up]
                elif roll == "towards you":
                    up, front = net.opposite[front], up
                else:
                    up, front = front, net.opposite[up]
            often = "once" if len(rolls) == 1 else f"{len(rolls)} times"
            text += f" It is rolled over an edge {often}: {', '.join(rolls)}."
        text += " Which faces are then on top, in front, on the right, below, at the back and on the left? Answer with "
        text += "the letters."
        ways = (up, front, right, net.opposite[up], net.opposite[front], net.opposite[right])
        return Question(text, tuple([names[way] for way in ways]))


def cross(a: Vector, b: Vector) -> Vector:
    """The direction to the right of what looks at b with a above."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def opposite(v: Vector) -> Vector:
    return -v[0], -v[1], -v[2]
