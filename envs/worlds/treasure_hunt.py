"""TreasureHunt: each riddle leads to the place of the next, the last to the treasure. Many turns; reward 1 for that.

What must be reasoned: which room and which thing a riddle means, where a described way ends, and where things lie from
one another. Searches are few, so going through everything does not help. The riddles are our own.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, choose, listing
from rlvr.envs.worlds.explorer import go_to, search
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import TREASURES
from rlvr.envs.worlds.world import World, go, possible

ROOM_RIDDLES = {
    "kitchen": "where meals are cooked",
    "pantry": "where flour and jam wait on shelves",
    "library": "where thousands of pages stand in rows",
    "cellar": "below the floor, where wine grows old",
    "attic": "under the roof, where old things gather dust",
    "bedroom": "where one lies down at night",
    "bathroom": "where one soaks in hot water",
    "nursery": "where the smallest children sleep and play",
    "laundry": "where dirty clothes become clean",
    "greenhouse": "where it is summer behind glass in winter too",
    "chapel": "where people kneel and pray",
    "armoury": "where swords hang, waiting for a war",
    "dungeon": "where prisoners once sat in chains",
    "observatory": "where one looks at the stars",
    "stable": "where horses eat their hay",
    "ballroom": "where couples once turned to waltzes",
    "smithy": "where glowing iron is hammered",
    "bakery": "where dough turns into loaves",
    "aviary": "where feathers fly behind wire",
    "brewery": "where barley becomes beer",
    "crypt": "where the dead of the family rest",
    "garage": "where a car would spend the night",
    "theatre": "where a curtain rises before a play",
    "study": "where the master of the house wrote his letters",
}
THING_RIDDLES = {
    "clock": "what has a face and two hands, but no arms",
    "mirror": "what shows you yourself the wrong way round",
    "candle": "what grows shorter the longer it shines",
    "piano": "what has eighty-eight keys and opens no door",
    "ladder": "what takes you up step by step and never moves itself",
    "broom": "what sweeps the floor and is kept in a corner",
    "globe": "what holds every ocean and not one drop",
    "bucket": "what carries water and loses it through the smallest hole",
    "bell": "what speaks with an iron tongue when it is swung",
    "anvil": "what is struck all its life and never strikes back",
    "carpet": "what is walked on all day and lies flat on the floor",
    "umbrella": "what opens when it rains",
    "needle": "what has an eye and cannot see",
    "violin": "what sings when hair is drawn over its four strings",
    "map": "what has rivers without water and towns without houses",
    "rocking chair": "what has legs, never walks, and sways all the same",
    "bottle": "what has a neck and no head",
    "kettle": "what whistles when it gets too hot",
    "telescope": "what brings far things near to one eye",
    "chessboard": "what has sixty-four fields and no farmer",
    "hourglass": "what measures time with falling sand",
    "comb": "what has many teeth and bites nobody",
    "stove": "what eats wood and warms the house",
    "book": "what has a spine and leaves, and is no tree",
    "scales": "what tells the heavy from the light with two arms",
    "spinning wheel": "what turns wool into thread",
}


class TreasureHuntLevel(NamedTuple):
    """A level: rooms, riddles, things in each room, the kinds of clue to the room."""

    rooms: int
    clues: int
    things: int
    kinds: tuple[str, ...]


LEVELS = (
    TreasureHuntLevel(4, 2, 3, ("riddle",)),
    TreasureHuntLevel(6, 3, 3, ("riddle", "way")),
    TreasureHuntLevel(8, 4, 4, ("riddle", "way", "beside")),
    TreasureHuntLevel(11, 5, 4, ("riddle", "way", "beside")),
    TreasureHuntLevel(14, 7, 5, ("riddle", "way", "beside")),
)


class TreasureClue(NamedTuple):
    """A text, and the room and thing that it means; ``way`` is the described way, if that is what it describes."""

    text: str
    room: str
    thing: str
    way: tuple[str, ...] = ()
    anchor: str = ""


class TreasureHuntState(NamedTuple):
    """A hunt under way.

    Attributes:
        things: the things in each room of the plan.
        solved: how many clues are solved.
        searches: how many searches are left.
    """

    world: World
    treasure: str
    things: tuple[tuple[str, ...], ...]
    clues: tuple[TreasureClue, ...]
    solved: int
    searches: int

    def here(self) -> tuple[str, ...]:
        """What can be searched in the room that the player is in."""
        return self.things[self.world.plan.rooms.index(self.world.here)]


class TreasureHunt(WorldGame[TreasureHuntState]):
    """Follow clues to a treasure.

    Levels 1 to 5: 2, 3, 4, 5 and 7 clues in 4, 6, 8, 11 and 14 rooms; one search more than there are clues.

    Observation: the first room and the first clue; later clues where they are found.
    Reward: 1 for finding the treasure, else 0.
    Episode end: the treasure is found, no search is left, or 20 to 120 turns are used up.
    """

    grammar = Grammar(
        "go look",
        Form("search OBJECT", "search|look under|look in|look behind|examine|look at|open"),
        Form("read", "read|read clue|clue|read riddle"),
    )
    limits = (20, 35, 60, 90, 120)

    def begin(self, rng: random.Random, level: int) -> TreasureHuntState:
        """Each clue names another room than the last; the same things stand in several rooms."""
        shape = LEVELS[level - 1]
        rooms = rng.sample(list(ROOM_RIDDLES), shape.rooms)
        exits, _ = grow(rng, [rooms], loops=0.25)
        # Things stand in several rooms, so that a thing alone does not tell the room.
        kinds = rng.sample(list(THING_RIDDLES), min(len(THING_RIDDLES), shape.things + shape.rooms))
        things = tuple(tuple(sorted(rng.sample(kinds, shape.things))) for _ in exits)
        world = world_of(exits, rooms[0], ())
        clues: list[TreasureClue] = []
        room = rooms[0]
        for _ in range(shape.clues):
            target = rng.choice([other for other in rooms if other != room])
            thing = rng.choice(things[rooms.index(target)])
            clues.append(_clue(rng, world, rng.choice(shape.kinds), room, target, thing))
            room = target
        return TreasureHuntState(world, rng.choice(TREASURES), things, tuple(clues), 0, shape.clues + 1)

    def rules(self, now: TreasureHuntState) -> str:
        """How many clues and searches there are, and where a described way begins."""
        return (
            f"Goal: find the {now.treasure}. It lies hidden at the end of a chain of {len(now.clues)} clues.\n"
            "Rules: each clue points to one thing in one room. Go there and search that thing to find the next clue, "
            f"and at the end the treasure. There are {now.searches} searches in all, so only "
            f"{now.searches - len(now.clues)} may be in vain; when none is left, the hunt is lost. A route in a clue "
            "starts where the clue was found; that of the first clue starts where you stand."
        )

    def view(self, now: TreasureHuntState) -> str:
        """The first room and the first clue; later clues are shown where they are found."""
        return f"{_view(now)}\nThe first clue: {now.clues[0].text}"

    def act(self, now: TreasureHuntState, command: Command) -> CommandOutcome:
        """Only ``search`` uses up a search, right or in vain; with none left the hunt is lost."""
        if command.verb == "search":
            return _search(now, command)
        if command.verb == "read":
            return CommandOutcome(now, f"The clue: {now.clues[now.solved].text} Searches left: {now.searches}.")
        if command.verb == "go":
            now = now._replace(world=go(now.world, command)[0])
        return CommandOutcome(now, _view(now))

    def options(self, now: TreasureHuntState) -> list[str]:
        """Moves, ``read`` and a search of every thing in the room."""
        return [*possible(now.world, ("go", "look")), "read", *(f"search {thing}" for thing in now.here())]

    def plan(self, now: TreasureHuntState) -> str:
        """Goes to the clue's room, along its described way where one is given, and explores until the room is seen."""
        clue, world = now.clues[now.solved], now.world
        if world.here == clue.room:
            return f"search {clue.thing}"
        if clue.room in world.explored:  # a riddle's room is known by its name
            return go_to(world, clue.room)
        if clue.way and world.here == clue.anchor:
            return f"go {clue.way[0]}"
        if clue.way:
            return _along(now, clue)
        return search(world)


def _along(now: TreasureHuntState, clue: TreasureClue) -> str:
    """The next step of a described way that was begun; back to its beginning for who has strayed."""
    room = clue.anchor
    for direction in clue.way:
        if room == now.world.here:
            return f"go {direction}"
        room = now.world.exits(room)[direction] if room in now.world.explored else room
    if clue.anchor in now.world.explored:
        return go_to(now.world, clue.anchor)
    return search(now.world)


def _clue(rng: random.Random, world: World, kind: str, room: str, target: str, thing: str) -> TreasureClue:
    what = THING_RIDDLES[thing] if rng.random() < 0.8 else f"the {thing}"
    if kind == "way" and (way := _way(world, room, target)):
        return TreasureClue(f"From here go {', then '.join(way)}. There search {what}.", target, thing, way, room)
    if kind == "beside":
        anchor, direction = rng.choice(
            [(other, way) for other in world.plan.rooms for way, end in world.exits(other).items() if end == target]
        )
        text = f"Go to the place {ROOM_RIDDLES[anchor]}, and from there one room {direction}. There search {what}."
        return TreasureClue(text, target, thing, (direction,), anchor)
    return TreasureClue(f"Go to the place {ROOM_RIDDLES[target]}. There search {what}.", target, thing)


def _way(world: World, room: str, target: str) -> tuple[str, ...]:
    """The directions of a shortest way."""
    ways: dict[str, tuple[str, ...]] = {room: ()}
    for place in (waiting := [room]):
        for direction, other in world.exits(place).items():
            if other not in ways:
                ways[other] = (*ways[place], direction)
                waiting.append(other)
    return ways[target]


def _view(now: TreasureHuntState) -> str:
    place, exits, _ = now.world.view().split("\n")
    return f"{place.partition('.')[0]}. You see: {listing(now.here())}.\n{exits}"


def _search(now: TreasureHuntState, command: Command) -> CommandOutcome:
    thing = choose(command.first, now.here(), "That is not here. You can search:")
    clue = now.clues[now.solved]
    now = now._replace(searches=now.searches - 1)
    if (now.world.here, thing) == (clue.room, clue.thing):
        now = now._replace(solved=now.solved + 1)
        if now.solved == len(now.clues):
            return CommandOutcome(now, f"You search the {thing} and find the {now.treasure}.", True)
        message = f"You search the {thing} and find the next clue: {now.clues[now.solved].text}"
    elif now.searches:
        message = f"You search the {thing} in vain."
    else:
        return CommandOutcome(now, f"You search the {thing} in vain, and no search is left: the hunt is lost.", False)
    return CommandOutcome(now, f"{message} Searches left: {now.searches}.")
