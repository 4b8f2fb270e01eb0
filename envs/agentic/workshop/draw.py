"""Draws workshops: which rules hold, what is made of what, prices that rise and fall with the seasons."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.agentic.workshop.days import Position, buy, first_day, idle_value, make, mend, night, sell
from rlvr.envs.agentic.workshop.model import CROWD, GRAPHS, RULES, ProductRecipe, Visitor, WorkshopModel
from rlvr.envs.core.seeding import split_of, stream
from rlvr.envs.tools import ToolError

MAX_STATES: Final = 8_000  # of a day, purse aside: what the optimum is computed over
MIN_GAIN: Final = 3  # coins a week that a plain way of working earns at least
# One piece and several of each item, and the tool: the first item is bought, a second one, and what is made.
TRADES: Final = (
    (("reed", "reeds"), ("basket", "baskets"), ("mat", "mats"), "press"),
    (("plank", "planks"), ("stool", "stools"), ("shelf", "shelves"), "saw"),
    (("fleece", "fleeces"), ("blanket", "blankets"), ("scarf", "scarves"), "loom"),
    (("rod", "rods"), ("hook", "hooks"), ("hinge", "hinges"), "forge"),
    (("hide", "hides"), ("belt", "belts"), ("bag", "bags"), "awl"),
    (("sack", "sacks"), ("loaf", "loaves"), ("pie", "pies"), "oven"),
    (("log", "logs"), ("bowl", "bowls"), ("spoon", "spoons"), "lathe"),
    (("sheet", "sheets"), ("box", "boxes"), ("lantern", "lanterns"), "cutter"),
)
CHAINS: Final = (
    (("fleece", "fleeces"), ("hank", "hanks"), ("shawl", "shawls"), "loom"),
    (("log", "logs"), ("board", "boards"), ("chest", "chests"), "saw"),
    (("hide", "hides"), ("strap", "straps"), ("saddle", "saddles"), "awl"),
)
ASSEMBLIES: Final = (
    (("cane", "canes"), ("cord", "cords"), ("chair", "chairs"), "press"),
    (("board", "boards"), ("hinge", "hinges"), ("cupboard", "cupboards"), "saw"),
    (("blade", "blades"), ("handle", "handles"), ("knife", "knives"), "forge"),
)
VISITORS: Final = ("Ada", "Bruno", "Clara", "Denis", "Edda", "Felix", "Greta", "Hugo")


class WorkshopLevel(NamedTuple):
    """Sizes of a level. ``rounds`` are the years that count; ``hidden`` tells whether a year to learn comes first."""

    weeks: int
    week_days: int
    room: int
    hands: int
    rules: int
    rounds: int
    visitors: int
    hidden: bool
    calls: int  # a day


LEVELS: Final = (
    WorkshopLevel(2, 3, 4, 2, 1, 1, 0, False, 4),
    WorkshopLevel(2, 4, 5, 2, 2, 1, 0, True, 4),
    WorkshopLevel(4, 5, 6, 2, 2, 1, 1, True, 4),
    WorkshopLevel(6, 5, 6, 2, 3, 2, 2, True, 4),
    WorkshopLevel(12, 5, 8, 3, 4, 2, 4, True, 4),
)


class WorkshopKey(NamedTuple):
    """What names a task: everything else is drawn from it. ``rounds`` is 0 where the level decides."""

    level: int
    rounds: int
    seed: int

    @property
    def content(self) -> str:
        """What decides the split, of values alone."""
        return " ".join(map(str, self))


def states_of_a_day(room: int, items: int, rules: Mapping[str, tuple[int, ...]]) -> int:
    """How many states a day may begin in, purse aside."""
    wear, quota, delay = (rules.get(kind, (0,))[0] for kind in ("wear", "quota", "delay"))
    sold = max(CROWD if "crowd" in rules else 0, quota)
    days = (wear + 1) * (sold + 1) * (delay * room + 1) * (4 if "regulars" in rules else 1)
    return math.comb(room + items, items) * days


@lru_cache(maxsize=512)
def model_of(key: WorkshopKey) -> WorkshopModel:
    """The workshop of a key."""
    rng = random.Random(stream("rlvr/Workshop-v0", *key).getrandbits(64))
    level, split = LEVELS[key.level - 1], split_of(key.content)
    graphs = [name for name, each in GRAPHS.items() if not each.split]
    kinds = [name for name, each in RULES.items() if not each.split]
    own = [name for names in (GRAPHS, RULES) for name, each in names.items() if each.split == split]
    while True:
        held_out = rng.choice(own) if own else ""
        graph = held_out if held_out in GRAPHS else rng.choice(graphs)
        drawn = [held_out] * (held_out in RULES)
        drawn += rng.sample(kinds, level.rules - len(drawn))
        rng.shuffle(drawn)
        rules = {kind: _values(kind, level, rng) for kind in drawn}
        if states_of_a_day(level.room, GRAPHS[graph].items, rules) > MAX_STATES:
            continue
        model = _drawn(key, graph, rules, rng)
        if all(plain_gain(model, year) >= MIN_GAIN * level.weeks for year in model.scored):
            return model


def plain_gain(model: WorkshopModel, year: int) -> int:
    """What somebody earns above doing nothing who sells all and makes what pays at the prices of the day."""
    at: Position | None = first_day(model, year)
    money = 0
    while at is not None:
        for item in model.sold:
            if at.stock[item] and item not in model.raws and model.market(at.day):
                room = model.number("quota") - at.sold if model.rule("quota") else at.stock[item]
                if room > 0:
                    at, _ = sell(model, at, item, min(room, at.stock[item]))
        at = _plain_afternoon(model, at)
        at, money, _ = night(model, at)
    return money - idle_value(model, year)


def _plain_afternoon(model: WorkshopModel, at: Position) -> Position:
    """Buys what the best piece takes and makes as many as it can."""
    week, pack = model.week(at.day), model.number("packs") or 1
    due = (model.rule("rent") or (0, 0))[1] if at.day <= (model.rule("rent") or (0, 0))[0] else 0

    def margin(recipe: ProductRecipe) -> int:
        needed = sum(count * model.ask(at.year, week, item) for item, count in enumerate(recipe.inputs))
        return model.bid(at.year, week, recipe.output) - needed

    recipe = max(model.recipes, key=margin)
    try:
        if margin(recipe) > 0 and model.market(at.day):
            for item, count in enumerate(recipe.inputs):
                lacking = -(-max(0, count * model.hands - at.stock[item]) // pack) * pack
                if item in model.raws and lacking and at.money - due >= lacking * model.ask(at.year, week, item):
                    at, _ = buy(model, at, item, lacking)
        return make(model, at, recipe.output, 1)[0]
    except ToolError:
        try:
            return mend(model, at)[0]
        except ToolError:
            return at


def _values(kind: str, level: WorkshopLevel, rng: random.Random) -> tuple[int, ...]:
    """The numbers of a rule."""
    days = level.weeks * level.week_days
    ranges = {
        "wear": (3, 4 if days < 20 else 6),
        "crowd": (1, 2),
        "spoil": (1, level.room // 2 - 1),
        "fee": (1, 1),
        "packs": (2, 3),
        "delay": (1, 2 if days < 20 else 3),
        "rest": (1, level.week_days),
        "rent": (days // 3, days * 2 // 3),
        "quota": (2, 4),
        "tithe": (8, 12),
        "regulars": (1, 3),
    }
    return (rng.randint(*ranges[kind]), *((0,) if kind == "rent" else ()))


def _drawn(key: WorkshopKey, name: str, rules: dict[str, tuple[int, ...]], rng: random.Random) -> WorkshopModel:
    """Names, prices, visitors."""
    level, graph = LEVELS[key.level - 1], GRAPHS[name]
    *nouns, tool = rng.choice({"chain": CHAINS, "assembly": ASSEMBLIES}.get(name, TRADES))
    recipes = tuple(
        ProductRecipe(made, tuple(rng.choice((1, 1, 2)) * (item in needs) for item in range(graph.items)))
        for made, needs in graph.recipes
    )
    base = [rng.randint(3, 7) for _ in range(graph.items)]
    for made, inputs in recipes:
        base[made] = sum(map(int.__mul__, base, inputs)) + rng.randint(3, 6)
    waves = [_wave(price, level.weeks, rng) for price in base]
    closed = rng.sample(range(level.weeks), level.weeks // 4) if level.weeks > 2 else []  # weeks without raws
    raw, sold = ([item in some for item in range(graph.items)] for some in (graph.raws, graph.sold))
    asks = tuple(
        tuple(wave[week] * (there and week not in closed) for wave, there in zip(waves, raw, strict=True))
        for week in range(level.weeks)
    )
    bids = tuple(
        tuple((wave[week] - 2 * bought) * there for wave, bought, there in zip(waves, raw, sold, strict=True))
        for week in range(level.weeks)
    )
    years = int(level.hidden) + (key.rounds or level.rounds)
    shifts = [tuple(rng.choice((-1, 0, 0, 1, 2)) * (year > 1) for _ in base) for year in range(1, years + 1)]
    pieces = max(sum(each.inputs) for each in recipes) * 2 + rules.get("packs", (0,))[0]  # about two of the dearest
    purse = max(base[item] for item in graph.raws) * pieces + rng.randint(4, 12)
    if "rent" in rules:
        rules["rent"] = (rules["rent"][0], rng.randint(purse // 3, purse * 2 // 3))
    sellable = [item for item in graph.sold if item not in graph.raws]
    days, visitors = level.weeks * level.week_days, []
    for person in rng.sample(VISITORS, level.visitors):
        item, year = rng.choice(sellable), rng.randint(2, years)
        price = base[item] + rng.randint(4, 8)
        day, letter = rng.randint(days // 3, days), rng.randint(2, days - 1)
        visitors.append(Visitor(person, year, day, item, rng.randint(2, 4), price, letter))
    if len({(each.year, each.day) for each in visitors}) < len(visitors):  # one a day
        visitors = list({(each.year, each.day): each for each in visitors}.values())
    return WorkshopModel(
        graph=name,
        items=tuple(nouns[: graph.items]),
        tool=tool,
        raws=graph.raws,
        sold=graph.sold,
        recipes=recipes,
        room=level.room,
        hands=level.hands,
        weeks=level.weeks,
        week_days=level.week_days,
        years=years,
        learning=level.hidden,
        purse=purse,
        mending=rng.randint(2, 4),
        spoiling=rng.choice(sellable),
        asks=asks,
        bids=bids,
        shifts=tuple(shifts),
        rules=tuple(rules.items()),
        visitors=tuple(visitors),
    )


def _wave(base: int, weeks: int, rng: random.Random) -> list[int]:
    """Prices that rise and fall with the seasons, and a little by chance."""
    start, swing = rng.random(), rng.uniform(0.25, 0.5)
    season = [math.sin(2 * math.pi * (week / weeks + start)) for week in range(weeks)]
    return [max(3, round(base * (1 + swing * each)) + rng.randint(-1, 1)) for each in season]
