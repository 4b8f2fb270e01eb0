"""LandmarkNavigation: follow written directions through a city of which only the next crossing is seen.

Many turns; reward 1 for stopping at the right crossing, where one stops once. What must be reasoned: turns relative to
where one faces, counting crossings and landmarks of a kind, and directions that depend on what is there.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from rlvr.envs.worlds.commands import Command, Form, Grammar, listing
from rlvr.envs.worlds.game import CommandOutcome, WorldGame, WorldState
from rlvr.envs.worlds.word_lists import SHOPS

# For each level: streets each way, directions, kinds of landmarks, the kinds of directions.
LEVELS = (
    (5, 4, 8, ("count",)),
    (6, 5, 7, ("count", "until")),
    (7, 6, 6, ("count", "until", "until")),
    (8, 7, 6, ("count", "until", "if")),
    (9, 9, 5, ("until", "until", "if")),
)
HEADINGS = ((0, 1), (1, 0), (0, -1), (-1, 0))
TURNS = {"turn left": 3, "turn right": 1, "turn around": 2}
_LANDMARK = re.compile(rf"\b(?:{'|'.join(SHOPS)})\b")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


class Pose(NamedTuple):
    """A crossing and the number of the direction one faces, clockwise."""

    x: int
    y: int
    facing: int


class City(NamedTuple):
    """A walk under way.

    Attributes:
        width: how many streets there are each way.
        landmarks: the landmark of each crossing, row by row.
        directions: what the player was told.
        moves: what they come to, move by move.
        goal: where they end.
        pose: where the player is.
        done: how many of the moves were made.
        track: where the player was after the last of them.
    """

    width: int
    landmarks: tuple[str, ...]
    directions: tuple[str, ...]
    moves: tuple[str, ...]
    goal: Pose
    pose: Pose
    done: int
    track: Pose

    def landmark(self, pose: Pose) -> str:
        """The landmark at a pose."""
        return self.landmarks[pose.y * self.width + pose.x]

    def holds(self, pose: Pose) -> bool:
        """Whether a pose lies in the city."""
        return 0 <= pose.x < self.width and 0 <= pose.y < self.width


class LandmarkNavigation(WorldGame[City]):
    """Follow directions through a city.

    Levels 1 to 5: 4, 5, 6, 7 and 9 directions in cities of 5 to 9 streets each way; conditions from level 4 on.

    Observation: all directions; then the landmark of the crossing and where streets lead. The map is never shown.
    Reward: 1 for stopping at the crossing where the directions end, else 0.
    Episode end: ``stop``, or 25 to 90 turns are used up.
    """

    grammar = Grammar(
        Form("forward", "forward|go forward|walk|go straight|straight|go ahead|ahead|walk forward"),
        Form("turn left", "turn left|left|go left"),
        Form("turn right", "turn right|right|go right"),
        Form("turn around", "turn around|turn back|around"),
        Form("look", "look|look around|l"),
        Form("stop", "stop|stop here|arrive"),
    )
    limits = (25, 40, 55, 65, 90)

    def begin(self, rng: random.Random, level: int) -> City:
        """Writes directions along a drawn way that ends at another crossing than it began at."""
        width, count, kinds, forms = LEVELS[level - 1]
        names = rng.sample(SHOPS, kinds)
        landmarks = tuple(rng.choice(names) for _ in range(width * width))
        start = Pose(rng.randrange(width), rng.randrange(width), rng.randrange(4))
        city = City(width, landmarks, (), (), start, start, 0, start)
        directions: list[str] = []
        moves: list[str] = []
        pose = start
        for _ in range(count):
            text, leg = _direction(rng, city, pose, rng.choice(forms))
            directions.append(text)
            moves += leg
            for move in leg:
                pose = _moved(pose, move)
        if (pose.x, pose.y) == (start.x, start.y):
            return self.begin(rng, level)  # rare: the way leads back to where it began
        return city._replace(directions=tuple(directions), moves=tuple(moves), goal=pose)

    def content(self, state: WorldState[City]) -> str:
        """The moves and the directions, with numbers for landmarks: no other task along the same way."""
        numbers: dict[str, str] = {}
        directions = _LANDMARK.sub(
            lambda name: numbers.setdefault(name[0], f"#{len(numbers)}"), "\n".join(state.now.directions)
        )
        return f"{directions}\n{', '.join(state.now.moves)}"

    def rules(self, now: City) -> str:
        """All directions at once, and how landmarks are counted; the map is never shown."""
        steps = "\n".join(f"{number}. {text}" for number, text in enumerate(now.directions, 1))
        return (
            "Goal: follow the directions to their end, and stop there. You stop once.\n"
            f"Rules: the streets are a regular grid of {now.width} by {now.width} crossings, each with one landmark; "
            "there are several of a kind. Forward takes you to the next crossing; a turn changes where you face, not "
            "where you are. You see the landmark of the crossing that you are at. When a direction counts landmarks on "
            f"the way, the crossing where it begins does not count. The directions:\n{steps}"
        )

    def view(self, now: City) -> str:
        """The landmark here and where streets lead, relative to where one faces."""
        return _view(now)

    def act(self, now: City, command: Command) -> CommandOutcome:
        """``stop`` ends the walk, right at the goal's crossing whichever way one faces; the city's edge is refused."""
        if command.verb == "stop":
            if (now.pose.x, now.pose.y) == (now.goal.x, now.goal.y):
                return CommandOutcome(now, "You stop. This is the place.", True)
            return CommandOutcome(now, "You stop. This is not the place that the directions lead to.", False)
        if command.verb == "look":
            return CommandOutcome(now, _view(now))
        pose = _moved(now.pose, command.verb)
        if not now.holds(pose):
            return CommandOutcome(now, f"The city ends here: you cannot go forward, only turn. {_view(now)}")
        if now.pose == now.track and now.done < len(now.moves) and command.verb == now.moves[now.done]:
            now = now._replace(done=now.done + 1, track=pose)
        now = now._replace(pose=pose)
        return CommandOutcome(now, _view(now))

    def options(self, now: City) -> list[str]:
        """Mostly moves; ``turn around``, ``look`` and ``stop`` once each among fifteen."""
        moves = ["forward", "turn left", "turn right"]
        return [*(moves * 4), "turn around", "look", "stop"]

    def plan(self, now: City) -> str:
        """The next move of the directions; who has left their way first goes back to where that was."""
        if now.pose == now.track:
            return now.moves[now.done] if now.done < len(now.moves) else "stop"
        dx, dy = now.track.x - now.pose.x, now.track.y - now.pose.y
        wanted = now.track.facing
        if dx or dy:
            wanted = HEADINGS.index(((dx > 0) - (dx < 0), 0) if dx else (0, (dy > 0) - (dy < 0)))
        turn = (wanted - now.pose.facing) % 4
        return next((name for name, size in TURNS.items() if size == turn), "forward")


def _moved(pose: Pose, move: str) -> Pose:
    if move == "forward":
        dx, dy = HEADINGS[pose.facing]
        return Pose(pose.x + dx, pose.y + dy, pose.facing)
    return pose._replace(facing=(pose.facing + TURNS[move]) % 4)


def _ahead(city: City, pose: Pose) -> list[Pose]:
    """The crossings in front, the nearest first."""
    crossings = []
    while city.holds(pose := _moved(pose, "forward")):
        crossings.append(pose)
    return crossings


def _direction(rng: random.Random, city: City, pose: Pose, kind: str) -> tuple[str, list[str]]:
    """One direction from here: its text, and the moves that it comes to."""
    turns = [turn for turn in TURNS if len(_ahead(city, _moved(pose, turn))) > 0]
    turn = rng.choice([name for name in turns if name != "turn around"] or turns)
    way = _ahead(city, _moved(pose, turn))
    steps = rng.randint(1, len(way))
    text = f"{turn.capitalize()}."
    if kind == "if":
        here = city.landmark(pose)
        asked = here if rng.random() < 0.5 else rng.choice(sorted(set(city.landmarks)))
        other = rng.choice([name for name in TURNS if name != turn])
        yes, no = (turn, other) if asked == here else (other, turn)
        text = f"If the landmark of this crossing is the {asked}, {yes}; otherwise {no}."
    if kind == "until":
        landmark = city.landmark(way[steps - 1])
        number = sum(city.landmark(spot) == landmark for spot in way[:steps])
        going = f"Go forward until you come to the {ORDINALS[number - 1]} {landmark} on the way."
    else:
        going = f"Go forward {steps} crossing{'s' if steps > 1 else ''}."
    return f"{text} {going}", [turn, *["forward"] * steps]


def _view(now: City) -> str:
    ways = {name: now.holds(_moved(_moved(now.pose, name), "forward")) for name in TURNS}
    streets = [name.removeprefix("turn ") for name in ("turn left", "turn right") if ways[name]]
    if now.holds(_moved(now.pose, "forward")):
        streets.insert(0, "ahead")
    if ways["turn around"]:
        streets.append("behind you")
    return f"You are at a crossing with a landmark: the {now.landmark(now.pose)}. Streets lead {listing(streets)}."
