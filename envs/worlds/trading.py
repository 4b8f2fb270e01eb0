"""Trading: buy and sell between towns until the purse holds the target. Many turns; reward 1 for reaching it in time.

What must be reasoned: which good pays on which road, how many days a tour takes, and that early gains buy more later.
The target is what the best plan of this kind earns, found by dynamic programming when the game is made: at each stop
put the whole purse into one good and sell all of it in the next town. Who mixes goods may do better, and still wins.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.worlds.commands import Command, Form, Grammar, Impossible, choose, listing
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import GOODS, TOWNS

# For each level: towns, goods, days, what the cart holds, coins, the highest toll.
LEVELS = (
    (3, 3, 6, 20, 60, 0),
    (4, 4, 9, 25, 80, 0),
    (5, 5, 12, 30, 100, 6),
    (6, 6, 15, 40, 120, 10),
    (7, 8, 18, 50, 150, 15),
)


class Leg(NamedTuple):
    """The first step of a plan: buy so many of a good, go to a town. ``coins`` is what the plan ends with."""

    coins: int
    good: int = 0
    pieces: int = 0
    town: int = -1


class Land(NamedTuple):
    """What never changes.

    Attributes:
        roads: for each town, (town, days, toll) of the roads from it.
        prices: for each town, the price of each good.
    """

    towns: tuple[str, ...]
    goods: tuple[str, ...]
    roads: tuple[tuple[tuple[int, int, int], ...], ...]
    prices: tuple[tuple[int, ...], ...]
    days: int
    room: int
    target: int


class Market(NamedTuple):
    """A journey under way: where, on which day, with which purse and cart (pieces of each good)."""

    land: Land
    town: int
    day: int
    coins: int
    cart: tuple[int, ...]


class Trading(WorldGame[Market]):
    """Earn coins by trading between towns.

    Levels 1 to 5: 3 to 7 towns, 3 to 8 goods, 6 to 18 days; from level 3 on some roads cost a toll.

    Observation: all prices, roads, days and tolls; then the town, the days left, the purse and the cart.
    Reward: 1 when the purse holds the target, else 0.
    Episode end: the target is reached, or 30 to 78 turns are used up; without days left no road can be taken.
    """

    grammar = Grammar(
        Form("buy NUMBER GOOD", "buy|purchase"),
        Form("sell NUMBER GOOD", "sell"),
        Form("go to TOWN", "go|go to|travel to|travel"),
        Form("status", "status|look|inventory"),
    )
    limits = (30, 42, 54, 66, 78)

    def begin(self, rng: random.Random, level: int) -> Market:
        """Draws lands until the best one-good plan earns half as much again; what it ends with is the target."""
        size, kinds, days, room, coins, toll = LEVELS[level - 1]
        target = 0
        while target < coins * 3 // 2:
            roads = _roads(rng, size, toll)
            bases = [rng.randint(4, 30) for _ in range(kinds)]
            prices = tuple(tuple(max(1, base * rng.randint(60, 150) // 100) for base in bases) for _ in range(size))
            land = Land((), (), roads, prices, days, room, 0)
            target = best_leg(land, 0, 0, coins).coins
        towns, goods = tuple(rng.sample(TOWNS, size)), tuple(rng.sample(GOODS, kinds))
        return Market(land._replace(towns=towns, goods=goods, target=target), 0, 0, coins, (0,) * kinds)

    def rules(self, now: Market) -> str:
        """All prices, roads, days and tolls; they never change."""
        land = now.land
        lines = [
            f"- {town}: {', '.join(f'{good} {price}' for good, price in zip(land.goods, prices, strict=True))}; "
            f"roads: {_roads_text(land, number)}"
            for number, (town, prices) in enumerate(zip(land.towns, land.prices, strict=True))
        ]
        return (
            f"Goal: have at least {land.target} coins in your purse within {land.days} days.\n"
            "Rules: buy and sell at the prices of the town you are in; they never change. Buying and selling take no "
            f"time; a road takes its days and its toll. Your cart holds {land.room} pieces in all. When you have the "
            f"coins, you have won; when a road would take longer than the days left, you cannot take it. "
            f'Instead of a number you may write "all". Prices and roads:\n' + "\n".join(lines)
        )

    def view(self, now: Market) -> str:
        """The town, the days left, the purse, the target and the cart."""
        return _status(now)

    def act(self, now: Market, command: Command) -> CommandOutcome:
        """Won as soon as the purse holds the target; trade takes no time, a road takes its days and toll."""
        message = ""
        try:
            if command.verb == "go":
                now, message = _travel(now, command.first)
            elif command.verb != "status":
                now, message = _deal(now, command)
        except Impossible as refusal:
            message = str(refusal)
        if now.coins >= now.land.target:
            return CommandOutcome(now, f"{message} You have {now.coins} coins: the target is reached.", True)
        return CommandOutcome(now, f"{message} {_status(now)}".strip())

    def options(self, now: Market) -> list[str]:
        """Roads that days and coins allow, selling all of a good, buying one piece or all that fits."""
        land = now.land
        commands = [f"go to {land.towns[town]}" for town, _, _ in _open_roads(now)] + ["status"]
        for number, good in enumerate(land.goods):
            if now.cart[number]:
                commands.append(f"sell all {good}")
            if now.coins >= land.prices[now.town][number] and sum(now.cart) < land.room:
                commands += [f"buy 1 {good}", f"buy all {good}"]
        return commands

    def plan(self, now: Market) -> str:
        """As the best plan from here says; what is in the cart can be sold for what it would cost here."""
        land, prices = now.land, now.land.prices[now.town]
        cargo = [number for number, pieces in enumerate(now.cart) if pieces]
        worth = now.coins + sum(pieces * price for pieces, price in zip(now.cart, prices, strict=True))
        leg = best_leg(land, now.town, now.day, worth)
        unwanted = [number for number in cargo if number != leg.good or now.cart[number] > leg.pieces]
        if unwanted or (cargo and worth >= land.target):
            return f"sell all {land.goods[(unwanted or cargo)[0]]}"
        if leg.town < 0:
            return "status"
        if now.cart[leg.good] < leg.pieces:
            return f"buy {leg.pieces - now.cart[leg.good]} {land.goods[leg.good]}"
        return f"go to {land.towns[leg.town]}"


def best_leg(land: Land, town: int, day: int, coins: int) -> Leg:
    """The plan that ends with the most coins: its first leg, by dynamic programming over days and towns.

    More coins at the same place and time are never worse, so the most is all that has to be kept.
    """
    reached: list[dict[int, Leg]] = [{} for _ in range(land.days + 1)]
    reached[day][town] = best = Leg(coins)
    for today in range(day, land.days):
        for here, leg in reached[today].items():
            prices = land.prices[here]
            for there, days, toll in land.roads[here]:
                if today + days > land.days or leg.coins < toll:
                    continue
                purse = leg.coins - toll
                gains = [
                    (min(land.room, purse // price) * (more - price), number)
                    for number, (price, more) in enumerate(zip(prices, land.prices[there], strict=True))
                ]
                gain, good = max(gains)
                earned = Leg(purse + max(gain, 0), leg.good, leg.pieces, leg.town)
                if leg.town < 0:
                    earned = Leg(earned.coins, good, min(land.room, purse // prices[good]) if gain > 0 else 0, there)
                at = reached[today + days]
                if there not in at or at[there].coins < earned.coins:
                    at[there] = earned
                    if earned.coins > best.coins:
                        best = earned
    return best


def _roads(rng: random.Random, size: int, toll: int) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """A ring through all towns, and some roads across it."""
    pairs = {(number, number + 1) for number in range(size - 1)} | {(0, size - 1)}
    for _ in range(size - 3):
        first, second = sorted(rng.sample(range(size), 2))
        pairs.add((first, second))
    roads: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    for first, second in sorted(pairs):
        days, cost = rng.randint(1, 3), rng.choice((0, rng.randint(0, toll)))
        roads[first].append((second, days, cost))
        roads[second].append((first, days, cost))
    return tuple(map(tuple, roads))


def _open_roads(now: Market) -> list[tuple[int, int, int]]:
    left = now.land.days - now.day
    return [road for road in now.land.roads[now.town] if road[1] <= left and road[2] <= now.coins]


def _roads_text(land: Land, town: int) -> str:
    return ", ".join(
        f"to {land.towns[other]} ({days} day{'s' if days > 1 else ''}{f', toll {toll}' if toll else ''})"
        for other, days, toll in land.roads[town]
    )


def _status(now: Market) -> str:
    land, left = now.land, now.land.days - now.day
    cart = listing(f"{pieces} {good}" for pieces, good in zip(now.cart, land.goods, strict=True) if pieces)
    return (
        f"You are in {land.towns[now.town]}; {counted(left, 'day')} {'is' if left == 1 else 'are'} left. "
        f"Purse: {counted(now.coins, 'coin')}, target {land.target}. "
        f"Cart: {cart} ({sum(now.cart)} of {land.room} pieces)."
    )


def _travel(now: Market, noun: str) -> tuple[Market, str]:
    roads = _open_roads(now)
    towns = [now.land.towns[town] for town, _, _ in roads]
    name = choose(noun.removeprefix("to "), towns, "You cannot go there now. You can go to")
    town, days, toll = roads[towns.index(name)]
    return now._replace(town=town, day=now.day + days, coins=now.coins - toll), f"You travel to {name}."


def _deal(now: Market, command: Command) -> tuple[Market, str]:
    land = now.land
    number, _, noun = command.first.partition(" ")
    good = choose(noun, land.goods, f"Write it as: {command.verb} NUMBER GOOD. The goods are:")
    place = land.goods.index(good)
    price, owned = land.prices[now.town][place], now.cart[place]
    limit = owned if command.verb == "sell" else min(land.room - sum(now.cart), now.coins // price)
    if number != "all" and not (number.isdecimal() and len(number) <= 6):
        return now, f"Write a whole number or all: {command.verb} NUMBER {good}."
    pieces = limit if number == "all" else int(number)
    if not 0 < pieces <= limit:
        return now, f"You can {command.verb} at most {limit} {good} here, at {counted(price, 'coin')} each."
    sign = -1 if command.verb == "sell" else 1
    cart = tuple(count + sign * pieces * (i == place) for i, count in enumerate(now.cart))
    now = now._replace(cart=cart, coins=now.coins - sign * pieces * price)
    return now, f"You {command.verb} {pieces} {good} at {counted(price, 'coin')} each."
