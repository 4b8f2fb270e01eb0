"""What experts in text worlds share: the way through what has been seen, fetching, and looking for what has not.

Nothing here reads what a player could not know: rooms are passed through only after they were entered, what is in a
room counts after it was seen, and what is in a box after that was opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rlvr.envs.worlds.world import GONE, YOU, World


def has_seen(world: World, name: str) -> bool:
    """Whether the player has seen where a thing is."""
    place = world.place(name)
    if place in (YOU, GONE) or place in world.plan.rooms:
        return place == YOU or place in world.explored
    if world.thing(place).kind == "stand":
        return has_seen(world, place)
    return place in world.explored


def way(world: World, wanted: Callable[[str], bool]) -> str | None:
    """The next command on a shortest way to a wanted room, opening doors; None where there is no way yet."""
    first: dict[str, str] = {world.here: ""}
    waiting = deque([world.here])
    while waiting:
        room = waiting.popleft()
        if first[room] and wanted(room):
            return first[room]
        if room not in world.explored:
            continue
        for direction, other in world.exits(room).items():
            door = world.door(room, other)
            if other in first or (door and door.name in world.locked):
                continue
            blocked = door is not None and door.name in world.shut and room == world.here
            first[other] = first[room] or (f"open {door.name}" if door and blocked else f"go {direction}")
            waiting.append(other)
    return None


def go_to(world: World, room: str) -> str:
    """The next command on a shortest way to a room; "look" where there is no way yet."""
    return way(world, lambda other: other == room) or "look"


def do_at(world: World, name: str, command: str) -> str:
    """A command where a thing is; elsewhere the next one of going there, or of searching for it."""
    if not has_seen(world, name):
        return search(world)
    return command if world.room_of(name) == world.here else go_to(world, world.room_of(name))


def _unsearched(world: World, room: str) -> bool:
    return room not in world.explored or any(
        thing.kind == "box" and place == room and thing.name not in world.explored and thing.name not in world.locked
        for thing, place in zip(world.plan.things, world.places, strict=True)
    )


def search(world: World) -> str:
    """The next command of looking into everything: the boxes here, then the nearest room not yet known; else "look"."""
    for thing in world.around():
        if thing.kind == "box" and thing.name not in world.explored and thing.name not in world.locked:
            return f"open {thing.name}" if thing.name in world.shut else f"examine {thing.name}"
    return way(world, lambda room: _unsearched(world, room)) or "look"


def fetch(world: World, name: str, full: str = "") -> str:
    """The next command to get a thing into the player's hands, or of searching for it.

    With full hands ``full`` is dropped first.
    """
    place, command = world.place(name), f"take {name}"
    if place in world.shut:
        command = f"open {place}"
    elif len(world.inside(YOU)) >= world.plan.capacity and full:
        command = f"drop {full}"
    return do_at(world, name, command)
