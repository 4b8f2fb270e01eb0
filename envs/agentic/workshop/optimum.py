"""The most that a year can end with, proven by dynamic programming, and a way to it.

Of two ways to one state of the store, the tool and the market the one with more coins is never worse: whatever can be
paid with less can be paid with more, and each night leaves at least as much of more. So the most coins in each state
are all that has to be kept, and V'[s'] = max over s -> s' of f(V[s]), where f is what the step costs or pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlvr.envs.agentic.workshop.days import (
    BUYING,
    MAKING,
    SELLING,
    Position,
    first_day,
    idle_value,
    sold_cap,
    visitor_of,
)
from rlvr.envs.agentic.workshop.model import BROKEN, CROWD, WorkshopModel

UNREACHED = -1  # coins of a state that no way leads to
Ints = NDArray[np.int64]


class WorkshopStep(NamedTuple):
    """What is done, ``sell``, ``deliver``, ``buy``, ``make``, ``mend`` or ``next_day``, with which item, how often."""

    name: str
    item: int = 0
    times: int = 1


class Moves(NamedTuple):
    """A step from each state that allows it, sorted by where it leads: one target for each index in ``starts``."""

    sources: Ints
    starts: Ints
    targets: Ints


class States:
    """The states that a day can be in, and the steps between them. Axes: stock, wear, sold, waiting, regulars."""

    def __init__(self, model: WorkshopModel) -> None:
        """Lists all of them."""
        self.model, room, count = model, model.room, len(model.items)
        stocks = [each for each in product(range(room + 1), repeat=count) if sum(each) <= room]
        self.stocks: Ints = np.array(stocks, dtype=np.int64)
        self._powers: Ints = np.array([(room + 1) ** n for n in range(count)], dtype=np.int64)
        self._row = np.full((room + 1) ** count, -1, dtype=np.int64)
        self._row[self.stocks @ self._powers] = np.arange(len(stocks))
        self.wear, self.delay, self.cap = model.number("wear"), model.number("delay"), sold_cap(model)
        shape = (
            len(stocks),
            self.wear + 1,
            self.cap + 1,
            self.delay * room + 1,
            4 if model.rule("regulars") else 1,
        )
        self.shape, self.size = shape, int(np.prod(shape))
        self.axes: tuple[Ints, ...] = tuple(np.indices(shape).reshape(5, -1))
        self.stock = self.stocks[self.axes[0]]  # [states, items]

    def index(self, at: Position) -> int:
        """The state of a position."""
        row = int(self._row[np.array(at.stock) @ self._powers])
        waiting = 1 + (at.waiting[1] - 1) * self.model.room + at.waiting[0] - 1 if at.waiting[0] else 0
        regulars = 2 * at.regulars[0] + at.regulars[1] if self.shape[4] == 4 else 0
        return int(np.ravel_multi_index((row, at.wear, at.sold, waiting, regulars), self.shape))

    def moves(self, allowed: NDArray[np.bool_], stock: Ints, **axes: Ints) -> Moves:
        """The steps of the states where they are allowed, to this stock and these values on the other axes."""
        names = ("wear", "sold", "waiting", "regulars")
        sources = np.flatnonzero(allowed)
        rows = self._row[stock[sources] @ self._powers]
        others = [np.broadcast_to(axes.get(name, self.axes[n]), self.size)[sources] for n, name in enumerate(names, 1)]
        targets = np.ravel_multi_index((rows, *others), self.shape)
        order = np.argsort(targets, kind="stable")
        found, starts = np.unique(targets[order], return_index=True)
        return Moves(sources[order], starts, found)

    def sale(self, item: int, on_market: bool) -> Moves:
        """One piece is sold, on the market or to a visitor."""
        stock = self.stock.copy()
        stock[:, item] -= 1
        if not on_market:
            return self.moves(self.stock[:, item] > 0, stock)
        quota = self.model.number("quota")
        allowed = (self.stock[:, item] > 0) & ((self.axes[2] < quota) if quota else True)
        regulars = self.axes[4] | 1 if self.shape[4] == 4 else self.axes[4]
        return self.moves(allowed, stock, sold=np.minimum(self.axes[2] + 1, self.cap), regulars=regulars)

    def purchase(self, item: int, count: int) -> Moves:
        """So many pieces come into the store, or are ordered if they need some nights."""
        if self.delay and item == self.model.raws[0]:
            waiting = np.array(1 + (self.delay - 1) * self.model.room + count - 1)
            return self.moves(self.axes[3] == 0, self.stock, waiting=waiting)
        stock = self.stock.copy()
        stock[:, item] += count
        return self.moves(self.stock.sum(axis=1) + count <= self.model.room, stock)

    def making(self, number: int) -> Moves:
        """One piece is made by a recipe."""
        recipe = self.model.recipes[number]
        stock = self.stock - np.array(recipe.inputs)
        allowed = (stock >= 0).all(axis=1) & ((self.axes[1] < self.wear) if self.wear else True)
        stock[:, recipe.output] += 1
        return self.moves(allowed, stock, wear=self.axes[1] + bool(self.wear))

    def mending(self) -> Moves:
        """The tool is mended."""
        return self.moves(self.axes[1] > 0, self.stock, wear=np.array(0))

    def night(self, ends_week: bool) -> Moves:
        """To the next morning."""
        stock, model, axes = self.stock.copy(), self.model, self.axes
        if ends_week and model.rule("spoil"):
            stock[:, model.spoiling] = np.minimum(stock[:, model.spoiling], model.number("spoil"))
        nights, pieces = (axes[3] + model.room - 1) // model.room, (axes[3] - 1) % model.room + 1
        come = np.where(nights == 1, np.minimum(pieces, model.room - stock.sum(axis=1)), 0)
        stock[:, model.raws[0]] += come
        waiting = np.where(nights > 1, axes[3] - model.room, 0)
        regulars = (axes[4] & 1) << 1 if self.shape[4] == 4 else axes[4]
        sold = np.array(0) if ends_week else axes[2]
        return self.moves(np.ones(self.size, dtype=bool), stock, sold=sold, waiting=waiting, regulars=regulars)


class StepTables:
    """The moves of each step of a workshop, whatever its prices are."""

    def __init__(self, model: WorkshopModel) -> None:
        """Makes them."""
        self.states = states = States(model)
        self.sales = {item: states.sale(item, True) for item in model.sold}
        self.deliveries = {item: states.sale(item, False) for item in model.sold}
        self.purchases: dict[int, dict[int, Moves]] = {}
        for item in model.raws:
            is_first = item == model.raws[0]
            pack = (model.number("packs") if is_first else 0) or 1
            counts = range(pack, model.room + 1, pack) if states.delay and is_first else (pack,)
            self.purchases[item] = {count: states.purchase(item, count) for count in counts}
        self.making = [states.making(number) for number in range(len(model.recipes))]
        self.mending = states.mending() if states.wear else None
        self.nights = {ends: states.night(ends) for ends in (False, True)}


@lru_cache(maxsize=4)
def _tables(frame: WorkshopModel) -> StepTables:
    return StepTables(frame)


def tables_of(model: WorkshopModel) -> StepTables:
    """The tables of a workshop; they do not depend on prices, visitors and years."""
    return _tables(model._replace(asks=(), bids=(), shifts=(), visitors=(), years=0))


Pay = Callable[[Ints, Ints], Ints]  # coins after a step, of the coins before and the states that it is taken in


class Layer(NamedTuple):
    """The states after a step: where each was reached from, by which step, and how many layers before."""

    sources: NDArray[np.uint16]
    steps: NDArray[np.uint8]
    back: int


class OptimumSearch:
    """Goes through a year from a position, and remembers the way."""

    def __init__(self, model: WorkshopModel, at: Position) -> None:
        """Nothing is done yet."""
        self.model, self.tables = model, tables_of(model)
        self.size = self.tables.states.size
        self.coins = np.full(self.size, UNREACHED, dtype=np.int64)
        self.coins[self.tables.states.index(at)] = at.money
        self.layers: list[Layer] = []
        self.steps: list[WorkshopStep] = [WorkshopStep("")]  # of the numbers in the layers; 0 is none

    def _after(self, coins: Ints, moves: Moves, pay: Pay) -> tuple[Ints, Ints]:
        """The most coins in each state after a step that is taken wherever it can be paid, and the states before."""
        before = coins[moves.sources]
        after = np.where(before < 0, UNREACHED, np.maximum(pay(before, moves.sources), UNREACHED))
        reached, sources = np.full(self.size, UNREACHED), np.zeros(self.size, dtype=np.int64)
        if len(after):
            best = np.maximum.reduceat(after * self.size + moves.sources, moves.starts)
            reached[moves.targets], sources[moves.targets] = best // self.size, best % self.size
        return reached, sources

    def try_steps(self, options: Sequence[tuple[WorkshopStep, Moves, Pay]], times: int) -> int:
        """Take any of some steps up to so many times; returns how many layers that made."""
        for taken in range(times):
            best = self.coins.copy()
            sources, steps = np.arange(self.size), np.zeros(self.size, dtype=np.uint8)
            for step, moves, pay in options:
                reached, before = self._after(self.coins, moves, pay)
                better = reached > best
                best[better], sources[better], steps[better] = reached[better], before[better], self._number(step)
            if not steps.any():
                return taken
            self.coins = best
            self.layers.append(Layer(sources.astype(np.uint16), steps, 1))
        return times

    def try_mending(self, moves: Moves, pay: Pay, origin: Ints, back: int) -> None:
        """Mend in place of working: from the states of so many layers before."""
        reached, before = self._after(origin, moves, pay)
        better = reached > self.coins
        steps = np.where(better, self._number(WorkshopStep("mend")), 0).astype(np.uint8)
        sources = np.where(better, before, np.arange(self.size)).astype(np.uint16)
        self.coins = np.where(better, reached, self.coins)
        self.layers.append(Layer(sources, steps, back + 1))

    def must_step(self, moves: Moves, pay: Pay) -> None:
        """A night."""
        self.coins, before = self._after(self.coins, moves, pay)
        steps = np.full(self.size, self._number(WorkshopStep("next_day")), dtype=np.uint8)
        self.layers.append(Layer(before.astype(np.uint16), steps, 1))

    def _number(self, step: WorkshopStep) -> int:
        if step not in self.steps:
            self.steps.append(step)
        return self.steps.index(step)

    def way(self) -> list[WorkshopStep]:
        """The steps to the most coins, those of one kind in a row as one."""
        state, number, steps = int(self.coins.argmax()), len(self.layers) - 1, []
        while number >= 0:
            layer = self.layers[number]
            step = self.steps[layer.steps[state]]
            state, number = int(layer.sources[state]), number - (layer.back if step.name == "mend" else 1)
            if step.name:
                steps.append(step)
        merged: list[WorkshopStep] = []
        for step in reversed(steps):
            last = merged[-1] if merged else WorkshopStep("")
            if step.name in ("sell", "deliver", "buy", "make") and (last.name, last.item) == (step.name, step.item):
                merged[-1] = last._replace(times=last.times + step.times)
            else:
                merged.append(step)
        return merged


def _day(search: OptimumSearch, at: Position, day: int) -> None:
    """What may be done on a day that begins, or goes on, at a position."""
    model, tables, axes = search.model, search.tables, search.tables.states.axes
    year, week, market = at.year, model.week(day), model.market(day)
    visitor = visitor_of(model, year, day)
    if at.phase <= SELLING:
        if visitor:
            pay: Pay = lambda coins, states, price=visitor.price: coins + price  # type: ignore[misc]  # noqa: E731
            options = [(WorkshopStep("deliver", visitor.item), tables.deliveries[visitor.item], pay)]
            search.try_steps(options, visitor.pieces - at.served)
        if market:
            lowered = model.number("crowd") * np.minimum(axes[2], CROWD)
            lowered = lowered + model.number("regulars") * (axes[4] < 2)
            options = []
            for item, moves in tables.sales.items():
                prices = np.maximum(1, model.bid(year, week, item) - lowered)
                options.append((WorkshopStep("sell", item), moves, _gains(prices)))
            search.try_steps(options, model.room)
    if at.phase <= BUYING and market:
        for item, purchases in tables.purchases.items():
            if ask := model.ask(year, week, item):
                options = [
                    (WorkshopStep("buy", item, count), each, _costs(ask * count)) for count, each in purchases.items()
                ]
                search.try_steps(options, 1 if len(options) > 1 else model.room)
    if at.phase <= MAKING:
        origin = search.coins
        options = [
            (WorkshopStep("make", model.recipes[number].output), moves, _costs(0))
            for number, moves in enumerate(tables.making)
        ]
        layers = search.try_steps(options, model.hands - at.made)
        if tables.mending and at.phase < MAKING:
            cost = np.where(axes[1] >= tables.states.wear, model.mending * BROKEN, model.mending)
            search.try_mending(tables.mending, lambda coins, states: coins - cost[states], origin, layers)
    ends_week = day % model.week_days == 0
    fees = model.number("fee") * tables.states.stock.sum(axis=1)
    share, rent = model.number("tithe") if ends_week else 0, model.rule("rent")

    def overnight(coins: Ints, states: Ints) -> Ints:
        coins = np.maximum(0, coins - fees[states])
        if share:
            coins = coins - coins // share
        return coins - rent[1] if rent and rent[0] == day else coins

    search.must_step(tables.nights[ends_week], overnight)


def _gains(prices: Ints) -> Pay:
    return lambda coins, states: coins + prices[states]


def _costs(cost: int) -> Pay:
    return lambda coins, states: coins - cost


def best_way(model: WorkshopModel, at: Position) -> tuple[int, list[WorkshopStep]]:
    """The most coins that a year can end with from a position, and the steps to them; -1 if the rent cannot be paid."""
    search = OptimumSearch(model, at)
    _day(search, at, at.day)
    for day in range(at.day + 1, model.days + 1):
        _day(search, at._replace(day=day, phase=SELLING, made=0, served=0), day)
    return int(search.coins.max()), search.way()


@lru_cache(maxsize=256)
def optimum(model: WorkshopModel, year: int) -> tuple[int, int]:
    """What a year ends with at most, and if nothing is done."""
    return best_way(model, first_day(model, year))[0], idle_value(model, year)


def share_of_optimum(model: WorkshopModel, year: int, coins: int) -> float:
    """What the coins of a year are worth: 0 for half of the most possible gain or less, 1 for all of it."""
    most, idle = optimum(model, year)
    if coins >= most:
        return 1.0
    return max(0.0, 2 * (coins - idle) / (most - idle) - 1.0)
