"""Thermostat: heat a house hour by hour, within its limits and on a budget. Many turns; reward 1 for the whole day.

What must be reasoned: heating ahead while energy is cheap, how far the house may be warmed before a limit drops, and
what the weather takes. The forecast is exact. The budget is what the cheapest plan costs, found by dynamic programming
over hours and temperatures, and on lower levels a little more.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.worlds.commands import Command, Form, Grammar
from rlvr.envs.worlds.game import CommandOutcome, WorldGame

# For each level: hours, the most degrees of heating in an hour, coins to spare, whether a warm house loses more.
LEVELS = ((5, 4, 1, False), (6, 5, 1, False), (8, 5, 1, True), (11, 6, 0, True), (14, 7, 0, True))
MILD = 16
IMPOSSIBLE = 10**6


class Hour(NamedTuple):
    """What the weather adds, the price of a degree, and the limits at its end."""

    weather: int
    price: int
    low: int
    high: int


class HeatedHouse(NamedTuple):
    """A day under way. ``mild`` is the temperature above which a house that ``leaks`` loses more."""

    hours: tuple[Hour, ...]
    power: int
    leaks: bool
    mild: int
    slack: int
    hour: int
    inside: int
    coins: int


class Thermostat(WorldGame[HeatedHouse]):
    """Keep a house within its limits on a budget.

    Levels 1 to 5: 5, 6, 8, 11, 14 hours; from level 3 on a warm house loses more, from 4 on no coin is spare.

    Observation: the exact forecast of all hours; then the hour, the temperature and the coins left.
    Reward: 1 for a day within all limits, else 0.
    Episode end: the day is over, the house leaves its limits, or 12 to 30 turns are used up.
    """

    grammar = Grammar(
        Form("heat NUMBER", "heat|set heating to|heat by|warm|add"),
        Form("status", "status|look"),
    )
    limits = (12, 15, 20, 25, 30)

    def begin(self, rng: random.Random, level: int) -> HeatedHouse:
        """Draws days until one can be kept for at least two coins an hour; the purse is the optimum and some slack."""
        count, power, slack, leaks = LEVELS[level - 1]
        while True:
            hours = tuple(_hour(rng, power) for _ in range(count))
            house = HeatedHouse(hours, power, leaks, MILD, slack, 0, rng.randint(17, 20), 0)
            cost = _cheapest(house)[0]
            if 2 * count <= cost < IMPOSSIBLE:
                return house._replace(coins=cost + slack)

    def rules(self, now: HeatedHouse) -> str:
        """The exact forecast of all hours: weather, price, limits; and from level 3 on the loss of a warm house."""
        lines = "\n".join(
            f"- hour {number}: weather {hour.weather:+d}, a degree costs {hour.price}, at the end {hour.low} to "
            f"{hour.high} degrees"
            for number, hour in enumerate(now.hours, 1)
        )
        loss = (
            f" and less what it loses: 1 degree for every full 4 degrees above {now.mild} at the beginning of the hour"
        )
        loss = loss if now.leaks else ""
        return (
            f"Goal: keep the house within its limits for {len(now.hours)} hours, with {counted(now.coins, 'coin')}.\n"
            f"Rules: in each hour you heat by a whole number of degrees, from 0 to {now.power}, and pay for each "
            "degree. The temperature at the end of the hour is that at its beginning, plus the heating, plus the "
            f"weather{loss}. If it is then outside of the hour's limits, the game is lost. You cannot pay what you do "
            f"not have. The forecast is exact:\n{lines}"
        )

    def view(self, now: HeatedHouse) -> str:
        """The hour, the temperature and the coins left."""
        return _status(now)

    def act(self, now: HeatedHouse, command: Command) -> CommandOutcome:
        """Heats for one hour; too dear a number is refused, a temperature outside the limits loses the day."""
        if command.verb == "status":
            return CommandOutcome(now, _status(now))
        number = command.first.removesuffix(" degrees").removesuffix(" degree")
        if not (number.isdecimal() and len(number) <= 3 and int(number) <= now.power):
            return CommandOutcome(now, f"Write a whole number from 0 to {now.power}: heat NUMBER.")
        hour, heat = now.hours[now.hour], int(number)
        if heat * hour.price > now.coins:
            return CommandOutcome(now, f"That costs {counted(heat * hour.price, 'coin')}. You have {now.coins}.")
        inside = _later(now, now.inside, now.hour, heat)
        now = now._replace(hour=now.hour + 1, inside=inside, coins=now.coins - heat * hour.price)
        if not hour.low <= inside <= hour.high:
            return CommandOutcome(
                now, f"It is {inside} degrees, outside of {hour.low} to {hour.high}: the game is lost.", False
            )
        if now.hour == len(now.hours):
            return CommandOutcome(
                now, f"It is {inside} degrees, and the day is over: all hours were within limits.", True
            )
        return CommandOutcome(now, _status(now))

    def options(self, now: HeatedHouse) -> list[str]:
        """Every heating that can be paid, whether it keeps the limits or not, and ``status``."""
        highest = min(now.power, now.coins // now.hours[now.hour].price)
        return [*(f"heat {number}" for number in range(highest + 1)), "status"]

    def plan(self, now: HeatedHouse) -> str:
        """The first heating of a cheapest plan from here, by dynamic programming over hours and temperatures."""
        return f"heat {_cheapest(now)[1]}"


def _hour(rng: random.Random, power: int) -> Hour:
    low = rng.randint(15, 19)
    return Hour(-rng.randint(1, power - 1), rng.choice((1, 2, 3, 5)), low, low + rng.randint(3, 6))


def _later(now: HeatedHouse, inside: int, hour: int, heat: int) -> int:
    loss = max(0, inside - now.mild) // 4 if now.leaks else 0
    return inside + heat + now.hours[hour].weather - loss


def _cheapest(now: HeatedHouse) -> tuple[int, int]:
    """What the rest of the day costs at least, and how much to heat now; backwards over the hours."""
    after: dict[int, int] | None = None  # the cost from each temperature on; anything does at the end
    best: dict[int, tuple[int, int]] = {}
    for number in range(len(now.hours) - 1, now.hour - 1, -1):
        hour = now.hours[number]
        before = now.hours[number - 1] if number > now.hour else None
        starts = range(before.low, before.high + 1) if before else (now.inside,)
        best = {}
        for inside in starts:
            base = _later(now, inside, number, 0)
            costs = [
                (heat * hour.price + (0 if after is None else after.get(base + heat, IMPOSSIBLE)), heat)
                for heat in range(max(0, hour.low - base), min(now.power, hour.high - base) + 1)
            ]
            best[inside] = min(costs, default=(IMPOSSIBLE, 0))
        after = {inside: cost for inside, (cost, _) in best.items()}
    return best[now.inside]


def _status(now: HeatedHouse) -> str:
    left = len(now.hours) - now.hour
    inside, coins = counted(now.inside, "degree"), counted(now.coins, "coin")
    return f"Hour {now.hour + 1} begins, {left} to go. It is {inside}. You have {coins}."
