"""A text world: rooms, exits, doors, things and a player, as one immutable value.

``Plan`` is what never changes, ``World`` what does. A thing is in exactly one place: a room, a box, on a stand, with
the player (``YOU``), or used up (``GONE``). Boxes and doors may be shut, and locked with a key. Every action is a
pure function that gives the next world and what the player is told; one that is impossible gives the same world, and
says what is possible. Names are the identity of everything, so no two may be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rlvr.envs.worlds.commands import WAYS, Command, Impossible, choose, listing

YOU = "you"
GONE = "gone"


class Thing(NamedTuple):
    """A thing. ``kind``: an *item* can be carried, a *box* opened, a *stand* holds things on it, a *fixture* does not.

    Attributes:
        text: what a closer look tells.
        key: the thing that unlocks it, when it is locked.
        sign: what is to be seen of its lock.
    """

    name: str
    kind: str = "item"
    text: str = ""
    key: str = ""
    sign: str = ""


class Door(NamedTuple):
    """A door between two rooms; ``key`` and ``sign`` as for things."""

    name: str
    ends: tuple[str, str]
    key: str = ""
    sign: str = ""


class Plan(NamedTuple):
    """What never changes. ``exits`` holds, for each room, (direction, room) pairs; ``capacity`` is in things."""

    rooms: tuple[str, ...]
    exits: tuple[tuple[tuple[str, str], ...], ...]
    things: tuple[Thing, ...]
    doors: tuple[Door, ...] = ()
    capacity: int = 4


class World(NamedTuple):
    """A plan and what changes; all sets are sorted tuples.

    Attributes:
        here: the room the player is in.
        places: where each thing of the plan is.
        shut: the boxes and doors that are not open.
        locked: those of them that need their key first.
        explored: the rooms the player was in, and the boxes whose inside was seen.
        examined: the things that were looked at closely.
        marks: (thing, property) pairs, such as ("mug", "clean").
    """

    plan: Plan
    here: str
    places: tuple[str, ...]
    shut: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    explored: tuple[str, ...] = ()
    examined: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()

    # what there is

    def thing(self, name: str) -> Thing:
        """The thing of a name."""
        return next(thing for thing in self.plan.things if thing.name == name)

    def place(self, name: str) -> str:
        """Where a thing is: a room, a container, the player or nowhere."""
        return next(place for thing, place in zip(self.plan.things, self.places, strict=True) if thing.name == name)

    def inside(self, place: str) -> list[str]:
        """The names of the things at a place."""
        return [thing.name for thing, at in zip(self.plan.things, self.places, strict=True) if at == place]

    def room_of(self, name: str) -> str:
        """The room that a thing is in, in a box or not; YOU or GONE for what is in none."""
        place = self.place(name)
        while place not in (*self.plan.rooms, YOU, GONE):
            place = self.place(place)
        return place

    def exits(self, room: str = "") -> dict[str, str]:
        """The directions out of a room, and where they lead."""
        return dict(self.plan.exits[self.plan.rooms.index(room or self.here)])

    def door(self, room: str, other: str) -> Door | None:
        """The door between two rooms, or None."""
        for door in self.plan.doors:
            if door.ends in ((room, other), (other, room)):
                return door
        return None

    def doors(self) -> list[str]:
        """The doors of the room that the player is in."""
        return [door.name for door in self.plan.doors if self.here in door.ends]

    def around(self) -> Iterator[Thing]:
        """The things in reach that are not carried: in the room, on stands, and in its open boxes."""
        open_here = {self.here}
        for thing, place in zip(self.plan.things, self.places, strict=True):  # holders stand before what they hold
            if place in open_here:
                yield thing
                if thing.kind == "stand" or (thing.kind == "box" and thing.name not in self.shut):
                    open_here.add(thing.name)

    def in_reach(self) -> list[str]:
        """The things that the player can touch."""
        return [thing.name for thing in self.around()] + self.inside(YOU)

    def has(self, name: str) -> bool:
        """Whether the player carries a thing."""
        return self.place(name) == YOU

    def marked(self, name: str) -> list[str]:
        """The marks of a thing, such as ``clean``."""
        return [mark for thing, mark in self.marks if thing == name]

    # pure changes

    def moved(self, name: str, place: str) -> World:
        """The world with a thing at another place."""
        places = tuple(
            place if thing.name == name else at for thing, at in zip(self.plan.things, self.places, strict=True)
        )
        return self._replace(places=places)

    def mark(self, name: str, *marks: str, without: Iterable[str] = ()) -> World:
        """The world with marks added to a thing, and those of ``without`` taken from it."""
        kept = {(thing, mark) for thing, mark in self.marks if thing != name or mark not in without}
        return self._replace(marks=tuple(sorted(kept | {(name, mark) for mark in marks})))

    # what the player is told

    def called(self, name: str) -> str:
        """A thing's name, with what can be seen of it."""
        notes = self.marked(name)
        thing = self.thing(name)
        if thing.kind == "box":
            notes.append(_lock_note(self, name, thing.sign))
        return f"{name} ({', '.join(notes)})" if notes else name

    def view(self) -> str:
        """The room: what is in it, where one can go, what is carried."""
        return f"{self.scene()}\n{self.carrying()}"

    def scene(self) -> str:
        """The room: what is in it, and where one can go."""
        here: list[str] = []
        held: list[str] = []
        holders = {self.here: here}
        for thing in self.around():
            place = self.place(thing.name)
            if place == self.here:
                here.append(thing.name)
            else:
                holders.setdefault(place, []).append(thing.name)
        for name in here:
            kind = self.thing(name).kind
            inside = ""
            if kind == "stand" or (kind == "box" and name not in self.shut):
                inside = (
                    f" with {listing(map(self.called, holders.get(name, ())))} {'on' if kind == 'stand' else 'in'} it"
                )
            held.append(self.called(name) + inside)
        ways = "; ".join(self._way(direction, room) for direction, room in self.exits().items()) or "none"
        return f"You are in the {self.here}. You see: {listing(held)}.\nExits: {ways}."

    def _way(self, direction: str, room: str) -> str:
        notes = [f"to the {room}"] if room in self.explored else []
        door = self.door(self.here, room)
        if door:
            notes.append(f"{door.name}, {_lock_note(self, door.name, door.sign)}")
        return f"{direction} ({', '.join(notes)})" if notes else direction

    def carrying(self) -> str:
        """A sentence that lists what the player carries."""
        held = listing(map(self.called, self.inside(YOU)))
        return f"You carry (at most {self.plan.capacity} things): {held}."


def _lock_note(world: World, name: str, sign: str) -> str:
    if name in world.locked:
        return f"locked{', ' + sign if sign else ''}"
    return "closed" if name in world.shut else "open"


def with_name(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else tuple(sorted((*names, name)))


def enter(world: World, room: str) -> World:
    return world._replace(here=room, explored=with_name(world.explored, room))


# the actions: (world, command) -> (world, what the player is told)

Step = tuple[World, str]


def go(world: World, command: Command) -> Step:
    exits = world.exits()
    direction = WAYS.get(command.first, "")
    if direction not in exits:
        rooms = [room for room in exits.values() if room == command.first and room in world.explored]
        if not rooms:
            raise Impossible(f"You cannot go there. You can go {listing(exits, 'or')}.")
        direction = next(way for way, room in exits.items() if room == rooms[0])
    room = exits[direction]
    door = world.door(world.here, room)
    if door and door.name in world.shut:
        raise Impossible(f"The {door.name} is {_lock_note(world, door.name, door.sign)}. Open it first.")
    world = enter(world, room)
    return world, world.view()


def look(world: World, command: Command) -> Step:
    return world, world.view()


def inventory(world: World, command: Command) -> Step:
    return world, world.carrying()


def examine(world: World, command: Command) -> Step:
    name = choose(command.first, [*world.in_reach(), *world.doors()], "It is not here. You can examine:")
    door = next((door for door in world.plan.doors if door.name == name), None)
    if door:
        return world, f"The {name} is {_lock_note(world, name, door.sign)}."
    thing = world.thing(name)
    world = world._replace(examined=with_name(world.examined, name))
    if thing.kind in ("stand", "box"):
        inside = (
            "It is closed." if name in world.shut else f"It holds {listing(map(world.called, world.inside(name)))}."
        )
        return world, f"{thing.text or world.called(name).capitalize() + '.'} {inside}"
    return world, thing.text or f"There is nothing special about the {world.called(name)}."


def take(world: World, command: Command) -> Step:
    items = [thing.name for thing in world.around() if thing.kind == "item"]
    name = choose(command.first, items, "You cannot take that. You can take:")
    if len(world.inside(YOU)) >= world.plan.capacity:
        return world, f"Your hands are full: drop or put away {listing(world.inside(YOU), 'or')} first."
    return world.moved(name, YOU), f"You take the {name}."


def drop(world: World, command: Command) -> Step:
    name = choose(command.first, world.inside(YOU), "You do not carry that. You can drop:")
    return world.moved(name, world.here), f"You drop the {name}."


def put(world: World, command: Command) -> Step:
    name = choose(command.first, world.inside(YOU), "You do not carry that. You can put away:")
    holders = [thing.name for thing in world.around() if thing.kind in ("box", "stand")]
    place = choose(command.second, holders, "You cannot put it there. Here are:")
    if place in world.shut:
        return world, f"The {place} is closed. Open it first."
    where = "on" if world.thing(place).kind == "stand" else "in"
    return world.moved(name, place), f"You put the {name} {where} the {place}."


def _openable(world: World) -> dict[str, tuple[str, str]]:
    """The boxes and doors here, each with its key and the sign on its lock."""
    boxes = {thing.name: (thing.key, thing.sign) for thing in world.around() if thing.kind == "box"}
    return boxes | {door.name: (door.key, door.sign) for door in world.plan.doors if world.here in door.ends}


def open_(world: World, command: Command) -> Step:
    locks = _openable(world)
    name = choose(command.first, list(locks), "You cannot open that. Here can be opened:")
    if name in world.locked:
        return world, f"The {name} is {_lock_note(world, name, locks[name][1])}. Unlock it first."
    if name not in world.shut:
        return world, f"The {name} is open already."
    world = world._replace(shut=tuple(other for other in world.shut if other != name))
    if name in world.doors():
        return world, f"You open the {name}."
    world = world._replace(explored=with_name(world.explored, name))
    return world, f"You open the {name}. In it: {listing(map(world.called, world.inside(name)))}."


def close(world: World, command: Command) -> Step:
    name = choose(command.first, list(_openable(world)), "You cannot close that. Here can be closed:")
    return world._replace(shut=with_name(world.shut, name)), f"You close the {name}."


def unlock(world: World, command: Command) -> Step:
    locks = _openable(world)
    name = choose(command.first, list(locks), "You cannot unlock that. Here are:")
    if name not in world.locked:
        return world, f"The {name} is not locked."
    if not command.second:
        return world, f"Write what with: unlock {name} with KEY. You carry: {listing(world.inside(YOU))}."
    key = choose(command.second, world.inside(YOU), "You do not carry that. You carry:")
    if key != locks[name][0]:
        return world, f"The {key} does not fit the {name}."
    world = world._replace(locked=tuple(other for other in world.locked if other != name))
    return world, f"You unlock the {name}. It is still closed."


ACTIONS: dict[str, Callable[[World, Command], Step]] = {
    "go": go,
    "look": look,
    "inventory": inventory,
    "examine": examine,
    "take": take,
    "drop": drop,
    "put": put,
    "open": open_,
    "close": close,
    "unlock": unlock,
}


def perform(world: World, command: Command) -> Step:
    """What a command of one of the standard forms leads to, and what the player is told.

    Raises:
        Impossible: it cannot be done here; the text says what can be.
    """
    return ACTIONS[command.verb](world, command)


def possible(world: World, verbs: Iterable[str]) -> list[str]:
    """Commands of these verbs that change or show something here."""
    wanted = set(verbs)
    reach = list(world.around())
    held = world.inside(YOU)
    shut = [name for name in _openable(world) if name in world.shut]
    by_verb = {
        "go": [f"go {way}" for way in world.exits()],
        "look": ["look"],
        "inventory": ["inventory"],
        "examine": [f"examine {thing.name}" for thing in reach] + [f"examine {name}" for name in held],
        "take": [f"take {thing.name}" for thing in reach if thing.kind == "item"],
        "drop": [f"drop {name}" for name in held],
        "put": [
            f"put {name} {'in' if thing.kind == 'box' else 'on'} {thing.name}"
            for name in held
            for thing in reach
            if thing.kind == "stand" or (thing.kind == "box" and thing.name not in world.shut)
        ],
        "open": [f"open {name}" for name in shut if name not in world.locked],
        "close": [f"close {name}" for name in _openable(world) if name not in world.shut],
        "unlock": [f"unlock {name} with {key}" for name in world.locked if name in shut for key in held],
    }
    return [command for verb, commands in by_verb.items() if verb in wanted for command in commands]
