"""Errands: fetch parcels and deliver each within its hours, through a town. Many turns; reward 1 for all.

What must be reasoned: an order of pick-ups and deliveries that keeps every time window, with two hands for parcels. A
plan exists: the windows were laid around one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.worlds.commands import Command, Form, Grammar, Impossible, choose, listing
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import COLOURS, SHOPS

MORNING = 9 * 60
CAPACITY = 2
# For each level: places, streets beside those that hold the town together, parcels, minutes a window is open at most.
LEVELS = ((5, 1, 2, 60), (6, 2, 3, 50), (7, 3, 4, 45), (9, 4, 5, 40), (11, 5, 6, 30))
WAITING, CARRIED, DELIVERED = range(3)


class Parcel(NamedTuple):
    """Minutes count from midnight; both ends of the window belong to it."""

    name: str
    source: int
    target: int
    opens: int
    closes: int


class ErrandsTown(NamedTuple):
    """What never changes: names of places, (place, minutes) of the streets from each, minutes between any two."""

    places: tuple[str, ...]
    streets: tuple[tuple[tuple[int, int], ...], ...]
    distances: tuple[tuple[int, ...], ...]
    parcels: tuple[Parcel, ...]


class Day(NamedTuple):
    """A day under way: where, when, and for each parcel whether it waits, is carried or was delivered."""

    town: ErrandsTown
    here: int
    minute: int
    status: tuple[int, ...]


class Errands(WorldGame[Day]):
    """Deliver parcels within their hours.

    Levels 1 to 5: 2, 3, 4, 5 and 6 parcels in towns of 5 to 11 places; windows of at most 60 to 30 minutes.

    Observation: all parcels with their hours and all streets; then the clock, the place and the parcels.
    Reward: 1 when every parcel is delivered within its hours, else 0.
    Episode end: all is delivered, a parcel is late, or 30 to 100 turns are used up.
    """

    grammar = Grammar(
        Form("go to PLACE", "go|go to|walk to|walk"),
        Form("pick up PARCEL", "pick up|take|fetch|get|collect"),
        Form("deliver PARCEL", "deliver|hand over|drop off|give"),
        Form("wait NUMBER minutes", "wait|wait for"),
        Form("status", "status|look|inventory"),
    )
    limits = (30, 45, 60, 80, 100)

    def begin(self, rng: random.Random, level: int) -> Day:
        """Lays each window around the minute at which a random tour delivers, so that one plan keeps them all."""
        size, extra, count, width = LEVELS[level - 1]
        streets = _streets(rng, size, extra)
        distances = _distances(streets)
        colours = rng.sample(COLOURS, count)
        ends = [rng.sample(range(size), 2) for _ in range(count)]
        times = _tour(rng, distances, ends)
        parcels = []
        for colour, (source, target), minute in zip(colours, ends, times, strict=True):
            before, after = rng.randint(5, width // 2), rng.randint(2, width // 2)
            parcels.append(Parcel(f"{colour} parcel", source, target, minute - before, minute + after))
        places = tuple(rng.sample(SHOPS, size))
        return Day(ErrandsTown(places, streets, distances, tuple(parcels)), 0, MORNING, (WAITING,) * count)

    def rules(self, now: Day) -> str:
        """All parcels with their hours and all streets in minutes: nothing is hidden, only the plan is to be found."""
        town = now.town
        jobs = "\n".join(
            f"- {parcel.name}: from the {town.places[parcel.source]} to the {town.places[parcel.target]}, between "
            f"{_clock(parcel.opens)} and {_clock(parcel.closes)}"
            for parcel in town.parcels
        )
        roads = "\n".join(
            f"- {position}: {', '.join(f'{town.places[other]} {minutes}' for other, minutes in streets)}"
            for position, streets in zip(town.places, town.streets, strict=True)
        )
        return (
            "Goal: deliver every parcel to its destination within its hours.\n"
            "Rules: a parcel can be picked up at any time where it lies, and delivered from the first to the last "
            f"minute of its hours. You can carry {CAPACITY} parcels. A street takes the minutes written below, and "
            "waiting as long as you say. Picking up and delivering take no time. As soon as a parcel is late, the game "
            "is lost.\n"
            f"Parcels:\n{jobs}\nStreets, in minutes:\n{roads}"
        )

    def view(self, now: Day) -> str:
        """The clock, the place, and which parcels are here, carried and still to deliver."""
        return _status(now)

    def act(self, now: Day, command: Command) -> CommandOutcome:
        """Lost as soon as any parcel is late; picking up and delivering take no time, streets and waiting do."""
        try:
            now, message = ACTIONS[command.verb](now, command.first)
        except Impossible as refusal:
            message = str(refusal)
        for parcel, status in zip(now.town.parcels, now.status, strict=True):
            if status != DELIVERED and now.minute > parcel.closes:
                return CommandOutcome(
                    now, f"{message} It is {_clock(now.minute)}: too late for the {parcel.name}.", False
                )
        if all(status == DELIVERED for status in now.status):
            return CommandOutcome(now, f"{message} Everything is delivered in time.", True)
        return CommandOutcome(now, f"{message} {_status(now)}".strip())

    def options(self, now: Day) -> list[str]:
        """Streets from here, parcels to pick up or deliver (also too early), five minutes of waiting, ``status``."""
        town = now.town
        commands = [f"go to {town.places[index]}" for index, _ in town.streets[now.here]]
        commands += [f"pick up {name}" for name in _here(now)] + [f"deliver {name}" for name in _carried(now)]
        return [*commands, "wait 5 minutes", "status"]

    def plan(self, now: Day) -> str:
        """Searches all orders by earliest arrival (exact) and takes the first step of a plan that keeps the windows."""
        number = _first_event(now)
        if number is None:
            return "status"
        parcel = now.town.parcels[number]
        index = parcel.target if now.status[number] == CARRIED else parcel.source
        if index != now.here:
            rest = now.town.distances
            step = min(now.town.streets[now.here], key=lambda street: street[1] + rest[street[0]][index])
            return f"go to {now.town.places[step[0]]}"
        if now.status[number] == WAITING:
            return f"pick up {parcel.name}"
        early = parcel.opens - now.minute
        return f"wait {early} minutes" if early > 0 else f"deliver {parcel.name}"


def _streets(rng: random.Random, size: int, extra: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """A random tree and some streets more."""
    pairs = {(rng.randrange(number), number) for number in range(1, size)}
    for _ in range(extra):
        first, second = sorted(rng.sample(range(size), 2))
        pairs.add((first, second))
    streets: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for first, second in sorted(pairs):
        minutes = rng.randint(3, 15)
        streets[first].append((second, minutes))
        streets[second].append((first, minutes))
    return tuple(map(tuple, streets))


def _distances(streets: tuple[tuple[tuple[int, int], ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The minutes of the shortest ways (Floyd and Warshall)."""
    size = len(streets)
    table = [[0 if i == j else 10_000 for j in range(size)] for i in range(size)]
    for position, ways in enumerate(streets):
        for other, minutes in ways:
            table[position][other] = minutes
    for via in table:
        middle = via.index(0)
        for row in table:
            through = row[middle]
            for j, rest in enumerate(via):
                if through + rest < row[j]:
                    row[j] = through + rest
    return tuple(map(tuple, table))


def _tour(rng: random.Random, distances: tuple[tuple[int, ...], ...], ends: list[list[int]]) -> list[int]:
    """The minutes at which a random tour delivers each parcel."""
    status = [WAITING] * len(ends)
    times = [0] * len(ends)
    index, minute = 0, MORNING
    while any(state != DELIVERED for state in status):
        hands = status.count(CARRIED)
        parcel = rng.choice([i for i, s in enumerate(status) if s == CARRIED or (s == WAITING and hands < CAPACITY)])
        there = ends[parcel][status[parcel]]
        minute += distances[index][there]
        index = there
        status[parcel] += 1
        if status[parcel] == DELIVERED:
            times[parcel] = minute = minute + rng.randint(0, 3)
    return times


def _first_event(now: Day) -> int | None:
    """The parcel to go for next, on a plan that keeps all windows; None when there is no such plan.

    Search over (place, what is done), keeping the earliest time of each: earlier is never worse, as one can wait.
    """
    layer: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {(now.here, now.status): (now.minute, -1)}
    for _ in range(2 * len(now.status) - sum(now.status)):
        following: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
        for (here, status), (minute, first) in layer.items():
            for parcel, key, later in _events(now.town, here, minute, status):
                if key not in following or later < following[key][0]:
                    following[key] = (later, parcel if first < 0 else first)
        layer = following
    return min(layer.values())[1] if layer else None


def _events(
    town: ErrandsTown, here: int, minute: int, status: tuple[int, ...]
) -> Iterator[tuple[int, tuple[int, tuple[int, ...]], int]]:
    """What can be done next: which parcel, the place and status after it, and when."""
    ways, full = town.distances[here], status.count(CARRIED) == CAPACITY
    for now, job in zip(status, town.parcels, strict=True):
        if now != DELIVERED and minute + (ways[job.target] if now == CARRIED else ways[job.source]) > job.closes:
            return  # this one is lost already
    for parcel, (now, job) in enumerate(zip(status, town.parcels, strict=True)):
        if now == DELIVERED or (now == WAITING and full):
            continue
        there = job.target if now == CARRIED else job.source
        later = minute + ways[there]
        if now == CARRIED:
            later = max(later, job.opens)
        yield parcel, (there, (*status[:parcel], now + 1, *status[parcel + 1 :])), later


def _clock(minute: int) -> str:
    return f"{minute // 60}:{minute % 60:02d}"


def _names(now: Day, status: int) -> list[str]:
    return [parcel.name for parcel, state in zip(now.town.parcels, now.status, strict=True) if state == status]


def _carried(now: Day) -> list[str]:
    return _names(now, CARRIED)


def _here(now: Day) -> list[str]:
    waiting = _names(now, WAITING)
    return [parcel.name for parcel in now.town.parcels if parcel.source == now.here and parcel.name in waiting]


def _status(now: Day) -> str:
    return (
        f"It is {_clock(now.minute)}. You are at the {now.town.places[now.here]}. Parcels to pick up here: "
        f"{listing(_here(now))}. You carry: {listing(_carried(now))}. Still to deliver: "
        f"{listing(_names(now, WAITING) + _carried(now))}."
    )


def _go(now: Day, noun: str) -> tuple[Day, str]:
    streets = now.town.streets[now.here]
    names = [now.town.places[position] for position, _ in streets]
    name = choose(noun, names, "There is no street to there. You can go to")
    position, minutes = streets[names.index(name)]
    return now._replace(here=position, minute=now.minute + minutes), f"You walk to the {name}."


def _pick_up(now: Day, noun: str) -> tuple[Day, str]:
    name = choose(noun, _here(now), "That cannot be picked up here. Here can be picked up:")
    if len(_carried(now)) == CAPACITY:
        return now, f"You carry {CAPACITY} parcels already."
    return _step(now, name), f"You pick up the {name}."


def _deliver(now: Day, noun: str) -> tuple[Day, str]:
    name = choose(noun, _carried(now), "You do not carry that. You carry")
    parcel = next(parcel for parcel in now.town.parcels if parcel.name == name)
    if parcel.target != now.here:
        return now, f"The {name} goes to the {now.town.places[parcel.target]}."
    if now.minute < parcel.opens:
        return now, f"It is too early: the {name} is wanted from {_clock(parcel.opens)} on."
    return _step(now, name), f"You deliver the {name}."


def _step(now: Day, name: str) -> Day:
    status = tuple(state + (parcel.name == name) for parcel, state in zip(now.town.parcels, now.status, strict=True))
    return now._replace(status=status)


def _wait(now: Day, noun: str) -> tuple[Day, str]:
    number = noun.removesuffix(" minutes").removesuffix(" minute")
    if not (number.isdecimal() and 0 < len(number) <= 3 and int(number) > 0):
        return now, "Write how long, from 1 to 999: wait NUMBER minutes."
    return now._replace(minute=now.minute + int(number)), f"You wait {counted(int(number), 'minute')}."


ACTIONS: dict[str, Callable[[Day, str], tuple[Day, str]]] = {
    "go": _go,
    "pick up": _pick_up,
    "deliver": _deliver,
    "wait": _wait,
    "status": lambda now, noun: (now, ""),
}
