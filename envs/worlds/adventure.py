"""TextAdventure: find the keys of a house, open what is locked, carry the treasure home. Many turns; reward 1 at home.

What must be reasoned: which key is for which lock, where a key was seen, and the way back through the rooms. Keys lie
only where they can be reached without the locks that they open, so every house can be solved.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Grammar
from rlvr.envs.worlds.explorer import fetch, go_to, known, search
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.names import BOXES, COLOURS, ITEMS, MATERIALS, ROOMS, SIGNS, TREASURES, WOODS
from rlvr.envs.worlds.world import (
    ACTIONS,
    CLOSE,
    DROP,
    EXAMINE,
    GO,
    INVENTORY,
    LOOK,
    OPEN,
    PUT,
    TAKE,
    UNLOCK,
    YOU,
    Door,
    Thing,
    World,
    perform,
    possible,
)


class AdventureLevel(NamedTuple):
    """A level: rooms in each region, boxes, things that do not matter, keys that fit nothing, whether signs tell."""

    regions: tuple[int, ...]
    boxes: int
    clutter: int
    decoys: int
    signs: bool


LEVELS = (
    AdventureLevel((3, 1), 1, 2, 0, False),
    AdventureLevel((3, 2), 2, 4, 1, False),
    AdventureLevel((3, 3, 2), 3, 5, 1, True),
    AdventureLevel((4, 3, 3), 4, 7, 2, True),
    AdventureLevel((4, 4, 3, 3), 5, 9, 3, True),
)


class AdventureHouse(NamedTuple):
    """A house, where home is and what to bring there."""

    world: World
    home: str
    treasure: str
    signs: bool


class TextAdventure(WorldGame[AdventureHouse]):
    """Find a thing behind locked doors and bring it where it belongs.

    Levels 1 to 5: 4, 5, 8, 10 and 14 rooms with 2, 2, 3, 3 and 4 locks; from level 2 on keys that fit nothing.

    From level 3 on a key's name does not tell its lock; signs on both do, and have to be looked at.
    """

    grammar = Grammar(GO, LOOK, EXAMINE, TAKE, DROP, PUT, OPEN, CLOSE, UNLOCK, INVENTORY)
    limits = (40, 50, 90, 110, 170)

    def begin(self, rng: random.Random, level: int) -> AdventureHouse:
        """Grows regions behind locked doors; key k lies in region k at the farthest, so every lock can be opened."""
        shape = LEVELS[level - 1]
        names = rng.sample(ROOMS, sum(shape.regions))
        regions, used = [], 0
        for size in shape.regions:
            regions.append(names[used : used + size])
            used += size
        exits, doors = grow(rng, regions, loops=0.3)
        locks = len(doors) + 1  # the last is the treasure's
        signs = rng.sample(SIGNS if shape.signs else COLOURS, locks + shape.decoys)
        keys = [f"{name} key" for name in (rng.sample(MATERIALS, len(signs)) if shape.signs else signs)]
        woods = rng.sample(WOODS, locks)
        lock_signs = [f"its lock bears the sign of the {sign}" if shape.signs else "" for sign in signs]
        named = woods if shape.signs else signs
        doors = [Door(f"{named[i]} door", door.ends, keys[i], lock_signs[i]) for i, door in enumerate(doors)]
        box_names = rng.sample(BOXES, shape.boxes + 1)
        hoard = f"{named[locks - 1]} {box_names[0]}"
        treasure = rng.choice(TREASURES)
        things = [
            (Thing(hoard, "box", "", keys[locks - 1], lock_signs[locks - 1]), rng.choice(regions[-1])),
            (Thing(treasure), hoard),
        ]
        boxes = {name: rng.randrange(len(regions)) for name in box_names[1:]}
        things += [(Thing(name, "box"), rng.choice(regions[region])) for name, region in boxes.items()]
        for number, key in enumerate(keys):
            region = rng.randrange(number + 1) if number < len(doors) else rng.randrange(len(regions))
            if number < len(doors) and rng.random() < 0.6:
                region = number  # close to its lock, so that the locks follow one another
            spots = [*regions[region], *(name for name, at in boxes.items() if at == region)]
            text = f"The {key} bears the sign of the {signs[number]}." if shape.signs else ""
            things.append((Thing(key, text=text), rng.choice(spots)))
        spots = [*names, *boxes]
        things += [(Thing(name), rng.choice(spots)) for name in rng.sample(ITEMS, shape.clutter)]
        return AdventureHouse(world_of(exits, names[0], things, doors, capacity=4), names[0], treasure, shape.signs)

    def rules(self, now: AdventureHouse) -> str:
        """Names treasure and home, and how keys are matched: by colour, from level 3 on by examined signs."""
        tell = (
            "Signs tell which key fits which lock: examine a key to see its sign."
            if now.signs
            else "A key fits the door or box of its colour."
        )
        return (
            f"Goal: find the {now.treasure} somewhere in this house, bring it to the {now.home} and drop it there.\n"
            "Rules: it lies in a locked box. Doors and boxes may be locked: unlock them with their key, which you must "
            f"carry, then open them. {tell} Some keys may fit nothing. Things may lie in closed boxes. "
            "You can carry 4 things."
        )

    def view(self, now: AdventureHouse) -> str:
        return now.world.view()

    def act(self, now: AdventureHouse, command: Command) -> CommandOutcome:
        """Won as soon as the treasure lies in the home room; nothing loses the game but its turns."""
        world, message = perform(now.world, command)
        won = world.place(now.treasure) == now.home
        return CommandOutcome(now._replace(world=world), message, won or None)

    def options(self, now: AdventureHouse) -> list[str]:
        """Every command of the shared world that can be carried out now, from what is in reach."""
        return possible(now.world, ACTIONS)

    def plan(self, now: AdventureHouse) -> str:
        """Fetches keys whose lock is known, reads signs, opens locks, then carries the treasure home; else explores."""
        world = now.world
        if world.has(now.treasure):
            return f"drop {now.treasure}" if world.here == now.home else go_to(world, now.home) or "look"
        unread = [] if not now.signs else [name for name in _keys_seen(world) if name not in world.examined]
        for name in unread:
            if name in world.in_reach():
                return f"examine {name}"
        spent = _spent_key(now)
        if known(world, now.treasure):
            return fetch(world, now.treasure, full=spent) or "look"
        for name, place, key in _known_locks(world):
            if not _recognised(now, key):
                continue
            if not world.has(key):
                return fetch(world, key, full=spent) or "look"
            return f"unlock {name} with {key}" if world.here in place else _to_lock(world, place)
        if unread:  # passed by without a look
            return fetch(world, unread[0], full=spent) or "look"
        hoard = world.place(now.treasure)
        if world.room_of(hoard) in world.seen and hoard not in world.locked:
            return (
                f"open {hoard}" if world.here == world.room_of(hoard) else go_to(world, world.room_of(hoard)) or "look"
            )
        return search(world) or "look"


def _known_locks(world: World) -> list[tuple[str, tuple[str, ...], str]]:
    """The locked doors and boxes that were seen: name, the rooms they are reached from, key."""
    found: list[tuple[str, tuple[str, ...], str]] = []
    for door in world.plan.doors:
        ends = tuple(room for room in door.ends if room in world.seen)
        if door.name in world.locked and ends:
            found.append((door.name, ends, door.key))
    for thing in world.plan.things:
        if thing.name in world.locked and world.place(thing.name) in world.seen:
            found.append((thing.name, (world.place(thing.name),), thing.key))
    return found


def _keys_seen(world: World) -> list[str]:
    return [thing.name for thing in world.plan.things if thing.name.endswith(" key") and known(world, thing.name)]


def _recognised(now: AdventureHouse, key: str) -> bool:
    return known(now.world, key) and (not now.signs or key in now.world.examined)


def _to_lock(world: World, rooms: tuple[str, ...]) -> str:
    return next(filter(None, (go_to(world, room) for room in rooms)), "look")


def _spent_key(now: AdventureHouse) -> str:
    """What to put down when the hands are full: a key that is of no more use, else anything."""
    needed = {key for _, _, key in _known_locks(now.world)}
    held = now.world.inside(YOU)
    return next((name for name in held if name not in needed), held[0] if held else "")
