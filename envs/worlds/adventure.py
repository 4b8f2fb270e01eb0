"""TextAdventure: find the keys of a house, open what is locked, carry the treasure home. Many turns; reward 1 at home.

What must be reasoned: which key is for which lock, where a key was seen, and the way back through the rooms. Keys lie
only where they can be reached without the locks that they open, so every house can be solved.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Grammar
from rlvr.envs.worlds.explorer import do_at, fetch, go_to, has_seen, search
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import BOXES, COLOURS, ITEMS, MATERIALS, ROOMS, SIGNS, TREASURES, WOODS
from rlvr.envs.worlds.world import ACTIONS, YOU, Door, Thing, World, perform, possible


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

    Observation: goal, rules and the first room; then what each command shows: rooms, boxes, the signs of keys.
    Reward: 1 when the treasure lies in the home room, else 0.
    Episode end: the treasure is home, or 40 to 170 turns are used up; nothing else loses.
    """

    grammar = Grammar("go look examine take drop put open close unlock inventory")
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
        tell = "A key fits the door or box of its colour."
        if now.signs:
            tell = "Signs tell which key fits which lock: examine a key to see its sign."
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
            return f"drop {now.treasure}" if world.here == now.home else go_to(world, now.home)
        unread = [] if not now.signs else [name for name in _keys_seen(world) if name not in world.examined]
        for name in unread:
            if name in world.in_reach():
                return f"examine {name}"
        spent = _spent_key(now)
        if has_seen(world, now.treasure):
            return fetch(world, now.treasure, full=spent)
        for name, rooms, key in _known_locks(world):
            if not has_seen(world, key) or (now.signs and key not in world.examined):
                continue
            if not world.has(key):
                return fetch(world, key, full=spent)
            if world.here in rooms:
                return f"unlock {name} with {key}"
            return next((step for room in rooms if (step := go_to(world, room)) != "look"), "look")
        if unread:  # passed by without a look
            return fetch(world, unread[0], full=spent)
        hoard = world.place(now.treasure)
        if has_seen(world, hoard) and hoard not in world.locked:
            return do_at(world, hoard, f"open {hoard}")
        return search(world)


def _known_locks(world: World) -> list[tuple[str, tuple[str, ...], str]]:
    """The locked doors and boxes that were seen: name, the rooms they are reached from, key."""
    places = [(door.name, door.ends, door.key) for door in world.plan.doors]
    places += [(thing.name, (world.place(thing.name),), thing.key) for thing in world.plan.things]  # type: ignore[misc]
    reachable = [(name, tuple(room for room in rooms if room in world.explored), key) for name, rooms, key in places]
    return [(name, rooms, key) for name, rooms, key in reachable if name in world.locked and rooms]


def _keys_seen(world: World) -> list[str]:
    return [thing.name for thing in world.plan.things if thing.name.endswith(" key") and has_seen(world, thing.name)]


def _spent_key(now: AdventureHouse) -> str:
    """What to put down when the hands are full: a key that is of no more use, else anything."""
    needed = {key for _, _, key in _known_locks(now.world)}
    held = now.world.inside(YOU)
    return next((name for name in held if name not in needed), held[0] if held else "")
