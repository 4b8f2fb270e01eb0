"""Building worlds: maps whose directions agree, and plans with their things where they belong."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from rlvr.envs.worlds.commands import DIRECTIONS
from rlvr.envs.worlds.world import Door, Plan, Thing, World, enter

STEPS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
Exits = dict[str, dict[str, str]]


def grow(rng: random.Random, regions: Sequence[Sequence[str]], loops: float = 0.0) -> tuple[Exits, list[Door]]:
    """A map on a grid: each region hangs together, and on those before it by one door, not yet named.

    Args:
        regions: names of rooms, region by region.
        loops: the chance that two neighbours of a region that are not joined are joined too.
    """
    while (grown := _try_to_grow(rng, regions, loops)) is None:
        pass  # rare: a region was walled in by others
    return grown


def _try_to_grow(rng: random.Random, regions: Sequence[Sequence[str]], loops: float) -> tuple[Exits, list[Door]] | None:
    at: dict[tuple[int, int], str] = {(0, 0): regions[0][0]}
    spots = {regions[0][0]: (0, 0)}
    exits: Exits = {room: {} for region in regions for room in region}
    doors = []
    before: list[str] = []
    for region in regions:
        joined = [room for room in region if room in spots]
        for room in region[len(joined) :]:
            free = _free_spot(rng, joined or before, spots, at)
            if free is None:
                return None
            other, spot, direction = free
            at[spot], spots[room] = room, spot
            _join(exits, other, room, direction)
            if not joined:
                doors.append(Door("", (other, room)))
            joined.append(room)
        if loops:
            _add_loops(rng, exits, set(region), spots, at, loops)
        before += region
    return {room: {way: ways[way] for way in DIRECTIONS if way in ways} for room, ways in exits.items()}, doors


def _free_spot(
    rng: random.Random,
    rooms: Sequence[str],
    spots: dict[str, tuple[int, int]],
    at: dict[tuple[int, int], str],
) -> tuple[str, tuple[int, int], str] | None:
    for _ in range(8):  # mostly the first does
        spot = _beside(rng.choice(rooms), rng.choice(DIRECTIONS), spots)
        if spot[1] not in at:
            return spot
    free = [spot for room in rooms for way in DIRECTIONS if (spot := _beside(room, way, spots))[1] not in at]
    return rng.choice(free) if free else None


def _beside(room: str, way: str, spots: dict[str, tuple[int, int]]) -> tuple[str, tuple[int, int], str]:
    (x, y), (dx, dy) = spots[room], STEPS[way]
    return room, (x + dx, y + dy), way


def _join(exits: Exits, room: str, other: str, direction: str) -> None:
    exits[room][direction] = other
    exits[other][opposite(direction)] = room


def opposite(direction: str) -> str:
    return DIRECTIONS[(DIRECTIONS.index(direction) + 2) % 4]


def _add_loops(
    rng: random.Random,
    exits: Exits,
    region: set[str],
    spots: dict[str, tuple[int, int]],
    at: dict[tuple[int, int], str],
    loops: float,
) -> None:
    for spot, room in list(at.items()):
        for way in ("north", "east"):
            other = at.get((spot[0] + STEPS[way][0], spot[1] + STEPS[way][1]))
            if room in region and other in region and way not in exits[room] and rng.random() < loops:
                _join(exits, room, other, way)


def world_of(
    exits: Exits,
    start: str,
    things: Iterable[tuple[Thing, str]],
    doors: Iterable[Door] = (),
    capacity: int = 4,
    open_boxes: Iterable[str] = (),
) -> World:
    """The world before the first command: what can be shut is shut, what has a key is locked.

    Args:
        things: each with its place; holders are put before what they hold, otherwise the order stays.
        open_boxes: the boxes that are not shut.
    """
    placed = sorted(things, key=lambda pair: pair[0].kind == "item")
    doors = tuple(doors)
    plan = Plan(
        tuple(exits),
        tuple(tuple(ways.items()) for ways in exits.values()),
        tuple(thing for thing, _ in placed),
        doors,
        capacity,
    )
    boxes = [thing for thing, _ in placed if thing.kind == "box" and thing.name not in open_boxes]
    shut = [box.name for box in boxes] + [door.name for door in doors]
    locked = [box.name for box in boxes if box.key] + [door.name for door in doors if door.key]
    world = World(plan, start, tuple(place for _, place in placed), tuple(sorted(shut)), tuple(sorted(locked)))
    world = world._replace(explored=tuple(sorted(open_boxes)))
    return enter(world, start)
