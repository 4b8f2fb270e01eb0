"""How a careful person works who has read the brief, tries things out in the first year and keeps notes.

All that is decided here is decided from texts that were shown (the brief, the notes, the last observation) and from
what anybody sees in the workshop. The numbers of rules, the prices and the visitors are read from sentences.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.agentic.workshop.days import (
    BUYING,
    MAKING,
    SELLING,
    Position,
    buy,
    deliver,
    first_day,
    make,
    mend,
    night,
    sell,
    visitor_of,
)
from rlvr.envs.agentic.workshop.model import Visitor, WorkshopModel
from rlvr.envs.agentic.workshop.optimum import WorkshopStep, best_way
from rlvr.envs.tools import Call

_PRICES: Final = re.compile(r"Year 1, week (\d{1,3}): ([^.]{1,200})\.")
_PRICE: Final = re.compile(r"(\w{1,30}) (cost|bring) (\d{1,6})")
_NEWS: Final = re.compile(r"Prices of year (\d{1,3}) against year 1: ([^.]{1,200})\.")
_SHIFT: Final = re.compile(r"(\w{1,30}) ([+-]\d{1,6})")
_LETTER: Final = re.compile(
    r"(\w{1,30}) comes on day (\d{1,4}) of year (\d{1,3}) and pays (\d{1,6}) for each of up to (\d{1,4}) (\w{1,30})\."
)


def public_part(model: WorkshopModel) -> WorkshopModel:
    """What the brief says: without numbers of rules, prices, news and visitors."""
    return model._replace(asks=(), bids=(), shifts=(), visitors=(), rules=tuple((kind, ()) for kind, _ in model.rules))


class Learned(NamedTuple):
    """What texts say of a workshop: the sentences that count, numbers of rules, weeks and years with known prices."""

    sentences: tuple[str, ...]
    rules: dict[str, tuple[int, ...]]
    prices: dict[int, dict[tuple[str, str], int]]
    shifts: dict[int, dict[str, int]]
    visitors: tuple[Visitor, ...]


@lru_cache(maxsize=512)
def learned(public: WorkshopModel, text: str) -> Learned:
    """Read a text."""
    sentences = [match[0] for pattern in (_PRICES, _NEWS, _LETTER) for match in pattern.finditer(text)]
    rules = {}
    for kind, _ in public.rules:
        if match := _pattern(public.lesson(kind, ("<0>", "<1>"))).search(text):
            rules[kind] = tuple(map(int, match.groups()))
            sentences.append(match[0])
    numbers = {name: item for item, names in enumerate(public.items) for name in names}
    prices = {
        int(week): {(name, verb): int(price) for name, verb, price in _PRICE.findall(listed)}
        for week, listed in _PRICES.findall(text)
    }
    shifts = {int(year): {name: int(by) for name, by in _SHIFT.findall(listed)} for year, listed in _NEWS.findall(text)}
    visitors = tuple(
        Visitor(name, int(year), int(day), numbers[item], int(count), int(price), 0)
        for name, day, year, price, count, item in _LETTER.findall(text)
        if item in numbers
    )
    return Learned(tuple(dict.fromkeys(sentences)), rules, prices, shifts, visitors)


def _pattern(lesson: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<\d>", r"(\\d{1,6})", re.escape(lesson)))


@lru_cache(maxsize=64)
def understood(public: WorkshopModel, text: str, year: int) -> WorkshopModel | None:
    """The workshop of a year as a text describes it; None if something is missing."""
    known = learned(public, text)
    weeks = range(1, public.weeks + 1)
    if any(kind not in known.rules for kind, _ in public.rules) or any(week not in known.prices for week in weeks):
        return None
    if year > 1 and year not in known.shifts:
        return None
    names = [several for _, several in public.items]

    def row(week: int, verb: str) -> tuple[int, ...]:
        return tuple(known.prices[week].get((name, verb), 0) for name in names)

    return public._replace(
        asks=tuple(row(week, "cost") for week in weeks),
        bids=tuple(row(week, "bring") for week in weeks),
        shifts=tuple(tuple(known.shifts.get(n, {}).get(name, 0) for name in names) for n in range(1, public.years + 1)),
        rules=tuple((kind, known.rules[kind]) for kind, _ in public.rules),
        visitors=known.visitors,
    )


def next_call(public: WorkshopModel, at: Position, notes: str, observation: str) -> Call:
    """What to do next, from the brief's part of a workshop, where it stands, the notes and what was seen last."""
    known = learned(public, notes)
    if new := [each for each in learned(public, observation).sentences if each not in known.sentences]:
        return Call("add_note", {"text": "\n".join(new)})
    if not public.counts(at.year):
        if public.week(at.day) not in known.prices:
            return Call("look", {})
        return _call(public, at, _experiment(public, at, known))
    begins_week = (at.day - 1) % public.week_days == 0
    if public.learning and begins_week and observation.startswith(("Day ", "Year ", "Noted")):
        return Call("read_notes", {})
    model = understood(public, notes, at.year)
    step = _step_of(model, at) if model else WorkshopStep("next_day")
    return _call(model or public, at, step)


def _call(model: WorkshopModel, at: Position, step: WorkshopStep) -> Call:
    """A step as a call."""
    item = model.items[step.item][1]
    if step.name in ("next_day", "mend"):
        return Call(step.name, {})
    if step.name == "deliver":
        visitor = visitor_of(model, at.year, at.day)
        return Call("deliver", {"name": visitor.name if visitor else "", "count": step.times})
    return Call(step.name, {"item": item, "count": step.times})


# years that count


@lru_cache(maxsize=32)
def _way(model: WorkshopModel, start: Position) -> dict[Position, WorkshopStep]:
    """The best way from a position: what is done at each position on it."""
    at: Position | None = start
    steps = {}
    for step in best_way(model, start)[1]:
        if at is not None:
            steps[at] = step
            at = taken(model, at, step)
    return steps


def taken(model: WorkshopModel, at: Position, step: WorkshopStep) -> Position | None:
    """Where a step leads; None where the year ends with it."""
    if step.name == "deliver":
        visitor = visitor_of(model, at.year, at.day)
        return deliver(model, at, visitor.name if visitor else "", step.times)[0]
    if step.name in ("mend", "next_day"):
        return (mend if step.name == "mend" else night)(model, at)[0]
    return {"sell": sell, "buy": buy, "make": make}[step.name](model, at, step.item, step.times)[0]


def _step_of(model: WorkshopModel, at: Position) -> WorkshopStep:
    """The step of the best way from the year's first day, or of the one from here where that was left."""
    planned = _way(model, first_day(model, at.year))
    return planned[at] if at in planned else _way(model, at).get(at, WorkshopStep("next_day"))


# the year to learn


def _experiment(public: WorkshopModel, at: Position, known: Learned) -> WorkshopStep:
    """Whatever brings out a number that is not known yet."""
    unknown = {kind for kind, _ in public.rules if kind not in known.rules} - {"rest", "rent", "tithe"}
    selling = bool(unknown & {"crowd", "quota", "regulars"})
    if not unknown:
        return WorkshopStep("next_day")
    item = public.spoiling if "spoil" in unknown else public.recipes[-1].output
    closed = "rest" in known.rules and (at.day - 1) % public.week_days + 1 == known.rules["rest"][0]
    week, room = known.prices[public.week(at.day)], public.room - sum(at.stock)
    if at.phase == SELLING and not closed:
        full = room < 3 and at.stock[item] > (public.room // 2 if "spoil" in unknown else 0)
        if at.stock[item] and (selling or full) and at.sold < known.rules.get("quota", (public.room,))[0]:
            return WorkshopStep("sell", item)
    if at.phase <= BUYING and not closed:
        free, packs = room - at.waiting[0], known.rules.get("packs", (1,))[0]
        lacking = [_lacking(public, item, pieces, at.stock, packs) for pieces in (2, 1)]
        for raw, count in enumerate(next((counts for counts in lacking if sum(counts) <= free), lacking[0])):
            under_way = at.waiting[0] and raw == public.raws[0]
            count = min(count, free // packs * packs if raw == public.raws[0] else free)
            if count and not under_way and (public.items[raw][1], "cost") in week:
                return WorkshopStep("buy", raw, count)
    limit = known.rules.get("wear", (0,))[0]
    if limit and at.wear >= limit:
        return WorkshopStep("mend") if at.phase < MAKING else WorkshopStep("next_day")
    if at.phase <= MAKING and at.made < public.hands:
        recipes = {recipe.output: recipe for recipe in public.recipes}
        for output in (item, *(n for n, count in enumerate(recipes[item].inputs) if count and n in recipes)):
            inputs = recipes[output].inputs
            if all(there >= needed for there, needed in zip(at.stock, inputs, strict=True)):
                return WorkshopStep("make", output)
    return WorkshopStep("next_day")


def _lacking(public: WorkshopModel, item: int, pieces: int, stock: tuple[int, ...], packs: int) -> list[int]:
    """How many pieces of each raw item are to be bought for some pieces of one."""
    wanted = [0] * len(stock)
    for recipe in reversed(public.recipes):
        count = pieces if recipe.output == item else wanted[recipe.output]
        wanted = [there + count * needed for there, needed in zip(wanted, recipe.inputs, strict=True)]
    counts = [max(0, a - b) * (n in public.raws) for n, (a, b) in enumerate(zip(wanted, stock, strict=True))]
    counts[public.raws[0]] = -(-counts[public.raws[0]] // packs) * packs
    return counts
