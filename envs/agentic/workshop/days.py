"""The days of a workshop: what a sale, a purchase, an afternoon and a night change."""

from __future__ import annotations

from typing import Final, NamedTuple

from rlvr.envs.agentic.workshop.model import BROKEN, CROWD, LEARNING_PURSE, Visitor, WorkshopModel
from rlvr.envs.tools import ToolError

SELLING, BUYING, MAKING, MENDED = range(4)
_LATE: Final = {BUYING: "you have bought today already", MAKING: "the day's work has begun", MENDED: "the day is over"}


class Position(NamedTuple):
    """Where a year stands.

    Attributes:
        phase: what the day has come to: selling, buying, making, or mended.
        made: pieces made today.
        stock: pieces of each item.
        wear: pieces made since the last mending.
        sold: pieces sold on the market this week, counted as far as they matter.
        waiting: pieces that are under way, and the nights until they come.
        regulars: whether something was sold on the market yesterday, and today.
        served: pieces that today's visitor has got.
    """

    year: int
    day: int
    phase: int
    made: int
    money: int
    stock: tuple[int, ...]
    wear: int
    sold: int
    waiting: tuple[int, int]
    regulars: tuple[bool, bool]
    served: int


def first_day(model: WorkshopModel, year: int) -> Position:
    """The morning of a year."""
    purse = model.purse if model.counts(year) else LEARNING_PURSE
    return Position(year, 1, SELLING, 0, purse, (0,) * len(model.items), 0, 0, (0, 0), (False, False), 0)


def sold_cap(model: WorkshopModel) -> int:
    """How far the week's sales are counted."""
    return max(CROWD if model.rule("crowd") else 0, model.number("quota"))


def visitor_of(model: WorkshopModel, year: int, day: int) -> Visitor | None:
    """Who comes on a day."""
    return next((each for each in model.visitors if (each.year, each.day) == (year, day)), None)


def _changed(stock: tuple[int, ...], item: int, by: int) -> tuple[int, ...]:
    return (*stock[:item], stock[item] + by, *stock[item + 1 :])


def _require(position: Position, phase: int, count: int) -> None:
    if count < 1:
        raise ToolError("the count must be at least 1")
    if position.phase > phase:
        raise ToolError(f"{_LATE[position.phase]}: wait for the next day")


def _require_market(model: WorkshopModel, day: int) -> None:
    if not model.market(day):
        raise ToolError(model.lesson("rest", model.rule("rest")))


def price_now(model: WorkshopModel, at: Position, item: int) -> int:
    """What the next piece brings on the market."""
    price = model.bid(at.year, model.week(at.day), item)
    price -= model.number("crowd") * min(at.sold, CROWD)
    if not at.regulars[0]:
        price -= model.number("regulars")
    return max(1, price)


def sell(model: WorkshopModel, at: Position, item: int, count: int) -> tuple[Position, str]:
    """Sell pieces on the market."""
    _require(at, SELLING, count)
    _require_market(model, at.day)
    if item not in model.sold:
        raise ToolError(f"nobody buys {model.items[item][1]}")
    if count > at.stock[item]:
        raise ToolError(f"there are {model.some(at.stock[item], item)} in the store")
    quota, cap, lessons = model.number("quota"), sold_cap(model), []
    if quota and at.sold + count > quota:
        raise ToolError(f"{model.lesson('quota', (quota,))} It has had {at.sold}.")
    earned = 0
    for _ in range(count):
        earned += price_now(model, at, item)
        at = at._replace(sold=min(at.sold + 1, cap))
    at = at._replace(money=at.money + earned, stock=_changed(at.stock, item, -count), regulars=(at.regulars[0], True))
    if not model.counts(at.year):
        lessons += [model.lesson(kind, model.rule(kind)) for kind in ("crowd", "quota") if model.rule(kind)]
        if model.rule("regulars") and not at.regulars[0]:
            lessons.append(model.lesson("regulars", model.rule("regulars")))
    return at, " ".join([f"Sold {model.some(count, item)} for {earned}: {at.money} coins.", *lessons])


def deliver(model: WorkshopModel, at: Position, name: str, count: int) -> tuple[Position, str]:
    """Sell pieces to today's visitor."""
    _require(at, SELLING, count)
    visitor = visitor_of(model, at.year, at.day)
    if visitor is None or visitor.name.lower() != name.strip().lower():
        raise ToolError("nobody of that name is here today")
    if count > at.stock[visitor.item]:
        raise ToolError(f"there are {model.some(at.stock[visitor.item], visitor.item)} in the store")
    if at.served + count > visitor.pieces:
        raise ToolError(f"{visitor.name} takes {model.some(visitor.pieces, visitor.item)} at most")
    at = at._replace(
        money=at.money + count * visitor.price,
        stock=_changed(at.stock, visitor.item, -count),
        served=at.served + count,
    )
    return at, f"{visitor.name} pays {count * visitor.price}: {at.money} coins."


def buy(model: WorkshopModel, at: Position, item: int, count: int) -> tuple[Position, str]:
    """Buy pieces on the market, or order them."""
    _require(at, BUYING, count)
    _require_market(model, at.day)
    ask = model.ask(at.year, model.week(at.day), item)
    if item not in model.raws or not ask:
        raise ToolError(f"there are no {model.items[item][1]} to be had")
    is_first = item == model.raws[0]
    packs, nights = (model.number("packs"), model.number("delay")) if is_first else (0, 0)
    if packs and count % packs:
        raise ToolError(model.lesson("packs", (packs,)))
    if count * ask > at.money:
        raise ToolError(f"they cost {count * ask}, and there are {at.money} coins")
    if nights and at.waiting[0]:
        raise ToolError(f"an order of {model.some(at.waiting[0], item)} is under way")
    if count > model.room - (0 if nights else sum(at.stock)):
        raise ToolError(f"the store has room for {model.room - sum(at.stock)} pieces more")
    at = at._replace(phase=BUYING, money=at.money - count * ask)
    lessons = [model.lesson("packs", (packs,))] if packs and not model.counts(at.year) else []
    if nights:
        at = at._replace(waiting=(count, nights))
        return at, " ".join(
            [f"Ordered {model.some(count, item)} for {count * ask}: {at.money} coins.", *lessons]
            + [model.lesson("delay", (nights,))] * (not model.counts(at.year))
        )
    at = at._replace(stock=_changed(at.stock, item, count))
    return at, " ".join([f"Bought {model.some(count, item)} for {count * ask}: {at.money} coins.", *lessons])


def make(model: WorkshopModel, at: Position, item: int, count: int) -> tuple[Position, str]:
    """Make pieces, until the tool breaks."""
    _require(at, MAKING, count)
    recipe = next((each for each in model.recipes if each.output == item), None)
    if recipe is None:
        raise ToolError(f"{model.items[item][1]} cannot be made")
    if at.made + count > model.hands:
        raise ToolError(f"{model.hands} pieces a day can be made, and today {at.made} are")
    if any(count * needed > there for needed, there in zip(recipe.inputs, at.stock, strict=True)):
        raise ToolError(f"what {model.some(count, item)} take is not in the store")
    limit, done = model.number("wear"), 0
    if limit and at.wear >= limit:
        raise ToolError(f"the {model.tool} is broken")
    while done < count and not (limit and at.wear >= limit):
        stock = tuple(there - needed for there, needed in zip(at.stock, recipe.inputs, strict=True))
        at = at._replace(phase=MAKING, made=at.made + 1, stock=_changed(stock, item, 1), wear=at.wear + bool(limit))
        done += 1
    broken = f" The {model.tool} is broken. {model.lesson('wear', (limit,))}" if limit and at.wear >= limit else ""
    return at, f"Made {model.some(done, item)}.{broken}"


def mend(model: WorkshopModel, at: Position) -> tuple[Position, str]:
    """Mend the tool, which takes the afternoon."""
    limit = model.number("wear")
    if not limit:
        raise ToolError("there is nothing to mend")
    if at.phase >= MAKING:
        raise ToolError(f"{_LATE[at.phase]}: wait for the next day")
    if not at.wear:
        raise ToolError(f"the {model.tool} is as good as new")
    cost = model.mending * (BROKEN if at.wear >= limit else 1)
    if cost > at.money:
        raise ToolError(f"it costs {cost}, and there are {at.money} coins")
    at = at._replace(phase=MENDED, money=at.money - cost, wear=0)
    return at, f"Mended the {model.tool} for {cost}: {at.money} coins."


def night(model: WorkshopModel, at: Position) -> tuple[Position | None, int, list[str]]:
    """The next morning, None where the year is over; the coins; and what happened.

    In this order: the fee of the store, at the end of a week what spoils and the town's share, the rent, what comes.
    """
    learning, money, stock, texts = not model.counts(at.year), at.money, at.stock, []
    if (fee := model.number("fee") * sum(stock)) > 0:
        money = max(0, money - fee)
        texts.append(model.lesson("fee", model.rule("fee")) if learning else f"The store costs {fee}.")
    sold = at.sold
    if at.day % model.week_days == 0:
        sold = 0
        keep = model.number("spoil")
        if keep and stock[model.spoiling] > keep:
            lost = stock[model.spoiling] - keep
            stock = _changed(stock, model.spoiling, -lost)
            verb = "spoils" if lost == 1 else "spoil"
            texts.append(f"{model.some(lost, model.spoiling).capitalize()} {verb}. {model.lesson('spoil', (keep,))}")
        if share := model.number("tithe"):
            texts.append(model.lesson("tithe", (share,)) if learning else f"The town takes {money // share}.")
            money -= money // share
    if rent := model.rule("rent"):
        day, due = rent
        if at.day == day:
            texts.append(model.lesson("rent", rent))
            if money < due and not learning:
                return None, 0, [*texts, "The purse does not hold it: the workshop is closed for this year."]
            money = max(0, money - due)
    count, nights = at.waiting
    if nights == 1:
        come = min(count, model.room - sum(stock))
        stock = _changed(stock, model.raws[0], come)
        texts.append(f"{model.some(come, model.raws[0]).capitalize()} came.")
    if at.day == model.days:
        return None, money, texts
    waiting = (count, nights - 1) if nights > 1 else (0, 0)
    return (
        Position(at.year, at.day + 1, SELLING, 0, money, stock, at.wear, sold, waiting, (at.regulars[1], False), 0),
        money,
        texts,
    )


def idle_value(model: WorkshopModel, year: int) -> int:
    """The coins on the last evening of a year in which nothing is done."""
    at: Position | None = first_day(model, year)
    money = 0
    while at is not None:
        at, money, _ = night(model, at)
    return money
