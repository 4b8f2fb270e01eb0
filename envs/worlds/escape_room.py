"""EscapeRoom: get out through doors whose codes are put together from numbers on things. Many turns; reward 1 outside.

What must be reasoned: what a note asks to compute, which things it means (by name, by colour, by size of their
numbers), and arithmetic on what was seen. A code has four digits, so trying them out takes longer than an episode.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.tasks.wording import with_article
from rlvr.envs.worlds.building import world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, choose, matches
from rlvr.envs.worlds.explorer import go_to, has_seen
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import BOXES, COLOURS, ITEMS, ROOMS
from rlvr.envs.worlds.world import Door, Thing, World, perform, possible, with_name

# For each level: rooms, things with a number in each, the largest number, the kinds of note.
LEVELS = (
    (1, 4, 60, ("sum",)),
    (1, 6, 70, ("sum", "difference", "product")),
    (2, 7, 90, ("product", "mixed", "largest")),
    (2, 9, 95, ("mixed", "largest", "colour")),
    (3, 10, 99, ("mixed", "largest", "colour", "spread")),
)


class Lock(NamedTuple):
    """What is locked with a code, the note that tells it, and the things whose numbers the code is made of."""

    name: str
    code: str
    note: str
    needs: tuple[str, ...]


class PrisonCell(NamedTuple):
    """The rooms, and the locks in the order in which they can be opened."""

    world: World
    locks: tuple[Lock, ...]


class EscapeRoom(WorldGame[PrisonCell]):
    """Work out codes and leave locked rooms.

    Levels 1 to 5: 1, 1, 2, 2 and 3 rooms with 4 to 10 numbered things each; a box and a door locked in each room.

    Observation: how codes are formed and the first room; then numbers and notes as they are examined.
    Reward: 1 in the street, else 0.
    Episode end: the street is reached, or 20 to 85 turns are used up; a wrong code costs its turn alone.
    """

    grammar = Grammar(
        "go look examine",
        Form("enter CODE on LOCK", "enter|type|dial|key in|set", "on|at|in|into|for"),
    )
    limits = (20, 25, 45, 55, 85)

    def begin(self, rng: random.Random, level: int) -> PrisonCell:
        """Chains rooms to the street; in each a sign tells the code of the box, and a note in it that of the door."""
        count, size, largest, kinds = LEVELS[level - 1]
        rooms = [*rng.sample(ROOMS, count), "street"]
        exits: dict[str, dict[str, str]] = {room: {} for room in rooms}
        names = rng.sample(ITEMS, count * size)
        boxes = rng.sample(BOXES, count)
        colours = rng.sample(COLOURS, 3)
        things: list[tuple[Thing, str]] = []
        doors, locks = [], []
        for i, room in enumerate(rooms[:-1]):
            direction, back = rng.choice((("north", "south"), ("east", "west")))
            exits[room][direction], exits[rooms[i + 1]][back] = rooms[i + 1], room
            named = [f"{rng.choice(colours)} {name}" for name in names[i * size : (i + 1) * size]]
            numbers = dict(zip(named, rng.sample(range(11, largest + 1), size), strict=True))
            for name, number in numbers.items():
                things.append((Thing(name, "fixture", f"The {name} bears the number {number}."), room))
            for name in (boxes[i], f"{room} door"):
                locks.append(_lock(rng, rng.choice(kinds), name, numbers))
            box, door = locks[-2:]
            things.append((Thing(box.name, "box", key=box.code, sign="with four digits to set"), room))
            things.append((Thing(f"{room} sign", "fixture", f"It says: {box.note}"), room))
            things.append((Thing(f"{room} note", "item", f"It says: {door.note}"), box.name))
            doors.append(Door(door.name, (room, rooms[i + 1]), door.code, "with four digits to set"))
        return PrisonCell(world_of(exits, rooms[0], things, doors), tuple(locks))

    def rules(self, now: PrisonCell) -> str:
        """How codes are formed: four digits with leading zeros, from numbers on things of the same room."""
        return (
            "Goal: escape to the street.\n"
            "Rules: boxes and doors are locked with codes of four digits. The sign in a room tells the code of its "
            "box, the note in that box the code of the door. Codes are computed from the numbers on things in the same "
            "room: examine a thing to see its number, and a sign or note to read it. If a result has fewer than four "
            "digits, write zeros in front of it: 57 is entered as 0057. The right code opens at once; then go through "
            "the door."
        )

    def view(self, now: PrisonCell) -> str:
        """The room, its things and exits, without their numbers, which must be examined."""
        return now.world.scene()

    def act(self, now: PrisonCell, command: Command) -> CommandOutcome:
        """Won in the street; a wrong code costs a turn and nothing else."""
        if command.verb == "enter":
            world, message = _enter(now, command)
        else:
            world, message = perform(now.world, command)
            message = world.scene() if command.verb in ("go", "look") else message
        won = world.here == "street"
        return CommandOutcome(now._replace(world=world), "You are out in the street." if won else message, won or None)

    def options(self, now: PrisonCell) -> list[str]:
        """Moves, things to examine, and one code on each lock here, hardly ever the right one."""
        commands = possible(now.world, ("go", "look", "examine"))
        # Any code does: the wrong one is an action too.
        return commands + [f"enter 0057 on {lock}" for lock in _locks_here(now.world)]

    def plan(self, now: PrisonCell) -> str:
        """Examines the note and every thing it needs, then enters the code: never a code from numbers not seen."""
        world = now.world
        number = next((i for i, lock in enumerate(now.locks) if lock.name in world.locked), len(now.locks))
        room = world.plan.rooms[number // 2]  # two locks a room; the last room is the street
        if world.here != room:
            return go_to(world, room)
        lock = now.locks[number]
        hint = f"{world.here} {'note' if lock.name.endswith(' door') else 'sign'}"
        for name in (hint, *lock.needs):
            if has_seen(world, name) and name not in world.examined:
                return f"examine {name}"
        return f"enter {lock.code} on {lock.name}"


def _lock(rng: random.Random, kind: str, name: str, numbers: dict[str, int]) -> Lock:
    """A lock whose code is computed from numbers in one of the ways of ``kind``."""
    a, b, c = rng.sample(sorted(numbers), 3)
    coloured: dict[str, list[str]] = {}
    for thing in sorted(numbers):
        coloured.setdefault(thing.split()[0], []).append(thing)
    colour = rng.choice([key for key, group in coloured.items() if len(group) > 1] or list(coloured))
    group = coloured[colour]
    values = [numbers[thing] for thing in group]
    everything = tuple(sorted(numbers))
    notes: dict[str, tuple[str, int, tuple[str, ...]]] = {
        "sum": (f"add the numbers on the {a}, the {b} and the {c}", numbers[a] + numbers[b] + numbers[c], (a, b, c)),
        "difference": (
            f"add the numbers on the {a} and the {b}, and take the smaller of the two away from ten times that sum",
            10 * (numbers[a] + numbers[b]) - min(numbers[a], numbers[b]),
            (a, b),
        ),
        "product": (f"multiply the number on the {a} by the number on the {b}", numbers[a] * numbers[b], (a, b)),
        "mixed": (
            f"multiply the number on the {a} by the number on the {b}, then add the number on the {c}",
            numbers[a] * numbers[b] + numbers[c],
            (a, b, c),
        ),
        "largest": (
            "multiply the smallest number on any thing in this room by the second largest",
            min(numbers.values()) * sorted(numbers.values())[-2],
            everything,
        ),
        "colour": (
            f"add the numbers on all {colour} things in this room, and multiply the sum by the number on the {c}",
            sum(values) * numbers[c] % 10_000,
            tuple({*group, c}),
        ),
        "spread": (
            f"take the smallest number on {with_article(colour)} thing from the largest on any thing, and multiply by "
            f"the number on the {a}",
            (max(numbers.values()) - min(values)) * numbers[a],
            everything,
        ),
    }
    text, value, needs = notes[kind]
    if kind == "colour":
        text += "; only the last four digits count"
    return Lock(name, f"{value:04d}", f"To open the {name}, {text}.", tuple(sorted(needs)))


def _locks_here(world: World) -> list[str]:
    here = [thing.name for thing in world.around() if thing.kind == "box"] + world.doors()
    return [name for name in here if name in world.locked]


def _enter(now: PrisonCell, command: Command) -> tuple[World, str]:
    world, code = now.world, command.first
    locked = _locks_here(world)
    name = choose(command.second, locked, "That has no lock to set here. Locked are:")
    if len(code) != 4 or not code.isdecimal():
        return world, f"A code has four digits, such as 0057: enter CODE on {name}."
    lock = next(lock for lock in now.locks if lock.name == name)
    if code != lock.code:
        return world, f"The {name} does not open: {code} is wrong."
    world = world._replace(
        locked=tuple(other for other in world.locked if other != name),
        shut=tuple(other for other in world.shut if other != name),
        explored=world.explored if matches(name, world.doors()) else with_name(world.explored, name),
    )
    inside = world.inside(name)
    return world, f"The {name} opens." + (f" In it: {inside[0]}." if inside else " The way is free.")
