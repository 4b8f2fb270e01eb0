"""What a workshop makes, what holds in it, what it pays, and how that is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from rlvr.envs.tasks.wording import with_article

LEARNING_PURSE: Final = 500  # coins of the first year, which counts for nothing
CROWD: Final = 5  # pieces after which a price falls no further
BROKEN: Final = 3  # how many times as much it costs to mend what is broken


class RuleText(NamedTuple):
    """What the brief says of a rule, what teaches its numbers, and the only split that has it, or "" for all."""

    brief: str
    lesson: str
    split: str = ""


RULES: Final[Mapping[str, RuleText]] = {
    "wear": RuleText(
        "The {tool} breaks after so many pieces, and then nothing can be made. To mend it costs {mending} coins, "
        "{broken} once it is broken, and takes the whole afternoon.",
        "The {tool} breaks with piece number {0} after a mending.",
    ),
    "crowd": RuleText(
        f"Each piece that is sold lowers what the next one brings in that week, {CROWD} times at most.",
        "Each piece sold lowers the next price of the week by {0}.",
    ),
    "spoil": RuleText(
        "At the end of a week some {spoiling} spoil if there are too many of them.",
        "Of the {spoiling} at most {0} keep over the end of a week.",
    ),
    "fee": RuleText("What lies in the store overnight is charged for.", "Each piece in the store costs {0} a night."),
    "packs": RuleText("{Raw} are sold in packs.", "{Raw} are sold in packs of {0}."),
    "delay": RuleText(
        "{Raw} are paid when they are ordered and come some mornings later. Only one order can be under way, and what "
        "finds no room is lost.",
        "Nights until {raw} come that were ordered: {0}.",
    ),
    "rest": RuleText("On one day of each week there is no market.", "There is no market on day {0} of a week."),
    "rent": RuleText(
        "On one evening of the year rent is due. If the purse does not hold it, the workshop is closed: that year ends "
        "with nothing.",
        "On the evening of day {0} of each year {1} coins of rent are due.",
    ),
    "quota": RuleText(
        "The market takes only so many pieces a week.", "The market takes {0} pieces a week.", "validation"
    ),
    "tithe": RuleText(
        "At the end of a week the town takes a share of the purse.",
        "At the end of a week the town takes one coin in {0}, rounded down.",
        "test",
    ),
    "regulars": RuleText(
        "Buyers pay less for each piece if nothing was sold on the market the day before.",
        "After a day without a sale each piece brings {0} less.",
        "test",
    ),
}


# What a night brings, in this order.
NIGHTLY: Final = {
    "fee": "the charge of the store",
    "spoil": "what spoils",
    "tithe": "the town's share",
    "rent": "the rent",
    "delay": "the order",
}


class ProductRecipe(NamedTuple):
    """The item that is made, and how many pieces of each item one piece takes."""

    output: int
    inputs: tuple[int, ...]


class ProductGraph(NamedTuple):
    """Which items are bought, sold and made of which, and the only split that has it, or "" for all."""

    items: int
    raws: tuple[int, ...]
    sold: tuple[int, ...]
    recipes: tuple[tuple[int, tuple[int, ...]], ...]  # output, and the items that it takes
    split: str = ""


GRAPHS: Final[Mapping[str, ProductGraph]] = {
    "craft": ProductGraph(2, (0,), (1,), ((1, (0,)),)),
    "dealer": ProductGraph(2, (0,), (0, 1), ((1, (0,)),)),
    "fork": ProductGraph(3, (0,), (1, 2), ((1, (0,)), (2, (0,)))),
    "chain": ProductGraph(3, (0,), (1, 2), ((1, (0,)), (2, (1,))), "validation"),
    "assembly": ProductGraph(3, (0, 1), (2,), ((2, (0, 1)),), "test"),
}


class Visitor(NamedTuple):
    """Somebody who comes once, and pays so much for each of up to so many pieces; the letter comes in the first year.

    ``letter`` is the day of the first year on which that is announced.
    """

    name: str
    year: int
    day: int
    item: int
    pieces: int
    price: int
    letter: int


class WorkshopModel(NamedTuple):
    """All that decides what happens. Items are numbered; a price of 0 means that there is none.

    Attributes:
        items: one piece and several of each.
        room: pieces that the store holds.
        hands: pieces that can be made in a day.
        asks: for each week of the first year what a piece of each item costs.
        bids: the same, what it brings.
        shifts: for each year by how much both differ from the first year's.
        rules: kinds and their numbers.
        spoiling: the item that may spoil.
    """

    graph: str
    items: tuple[tuple[str, str], ...]
    tool: str
    raws: tuple[int, ...]
    sold: tuple[int, ...]
    recipes: tuple[ProductRecipe, ...]
    room: int
    hands: int
    weeks: int
    week_days: int
    years: int
    learning: bool
    purse: int
    mending: int
    spoiling: int
    asks: tuple[tuple[int, ...], ...]
    bids: tuple[tuple[int, ...], ...]
    shifts: tuple[tuple[int, ...], ...]
    rules: tuple[tuple[str, tuple[int, ...]], ...]
    visitors: tuple[Visitor, ...]

    @property
    def days(self) -> int:
        """Days of a year."""
        return self.weeks * self.week_days

    def rule(self, kind: str) -> tuple[int, ...]:
        """The numbers of a rule, none where it does not hold."""
        return next((values for name, values in self.rules if name == kind), ())

    def number(self, kind: str) -> int:
        """The first number of a rule, 0 where it does not hold."""
        return (self.rule(kind) or (0,))[0]

    def week(self, day: int) -> int:
        """The week of a day, both from 1."""
        return (day - 1) // self.week_days + 1

    def ask(self, year: int, week: int, item: int) -> int:
        """What a piece costs."""
        price = self.asks[week - 1][item]
        return max(2, price + self.shifts[year - 1][item]) if price else 0

    def bid(self, year: int, week: int, item: int) -> int:
        """What a piece brings where nothing lowers it."""
        price = self.bids[week - 1][item]
        return max(1, price + self.shifts[year - 1][item]) if price else 0

    @property
    def signature(self) -> str:
        """What kind of workshop it is, names and numbers aside."""
        return " ".join([self.graph, *sorted(kind for kind, _ in self.rules)])

    def counts(self, year: int) -> bool:
        """Whether a year counts."""
        return year > self.learning

    @property
    def scored(self) -> range:
        """The years that count."""
        return range(1 + self.learning, self.years + 1)

    def market(self, day: int) -> bool:
        """Whether there is one."""
        return (day - 1) % self.week_days + 1 != self.number("rest")

    # words

    def some(self, count: int, item: int) -> str:
        """``3 baskets``."""
        return f"{count} {self.items[item][count != 1]}"

    def lesson(self, kind: str, values: tuple[object, ...]) -> str:
        """The sentence that teaches the numbers of a rule."""
        return self._filled(RULES[kind].lesson, values)

    def _filled(self, text: str, values: tuple[object, ...] = ()) -> str:
        raw, spoiling = self.items[self.raws[0]][1], self.items[self.spoiling][1]
        return text.format(
            *values,
            tool=self.tool,
            mending=self.mending,
            broken=self.mending * BROKEN,
            raw=raw,
            Raw=raw.capitalize(),
            spoiling=spoiling,
        )

    def prices(self, year: int, week: int) -> str:
        """``Year 1, week 3: reeds cost 4; baskets bring 9.``"""
        texts = []
        for item in self.raws:
            ask = self.ask(year, week, item)
            texts.append(f"{self.items[item][1]} cost {ask}" if ask else f"no {self.items[item][1]} to be had")
        texts += [f"{self.items[item][1]} bring {self.bid(year, week, item)}" for item in self.sold]
        return f"Year {year}, week {week}: {'; '.join(texts)}."

    def news(self, year: int) -> str:
        """By how much the prices of a year differ from the first year's; nothing where they do not."""
        shifts = self.shifts[year - 1]
        texts = [f"{self.items[n][1]} {shift:+d}" for n, shift in enumerate(shifts) if shift]
        return f"Prices of year {year} against year 1: {', '.join(texts) or 'the same'}." if year > 1 else ""

    def letter(self, visitor: Visitor) -> str:
        """What a visitor announces."""
        name, year, day, item, count, price, _ = visitor
        return f"{name} comes on day {day} of year {year} and pays {price} for each of up to {self.some(count, item)}."

    def brief(self) -> str:
        """The first observation."""
        takes = [
            f"{with_article(self.items[made.output][0])} takes "
            + " and ".join(self.some(count, item) for item, count in enumerate(made.inputs) if count)
            for made in self.recipes
        ]
        sentences = [
            f"You run a workshop for {self.years} year{'s' * (self.years > 1)} of {self.weeks} weeks of "
            f"{self.week_days} days. {'; '.join(takes).capitalize()}.",
            f"The store holds {self.room} pieces in all, and {self.hands} pieces can be made in a day.",
            "On each day you may first sell, then buy, then make; after a purchase nothing is sold until the next "
            "day, and after work nothing is bought.",
            "Prices change from week to week and never fall below 1.",
        ]
        if self.years > 1:
            sentences[-1] += (
                " In a later year they are those of the same week of year 1, but for what is announced when the year "
                "begins."
            )
        for kind, values in self.rules:
            sentences.append(self._filled(RULES[kind].brief))
            if not self.learning:
                sentences.append(self.lesson(kind, values))
        begins = f"begins with an empty store and {self.purse} coins"
        nightly = [text for kind, text in NIGHTLY.items() if self.rule(kind)]
        if len(nightly) > 1:
            sentences.append(f"What a night brings comes in this order: {', '.join(nightly)}.")
        if self.learning:
            sentences.append(
                f"Year 1 is for learning: it begins with {LEARNING_PURSE} coins and does not count. Find out the "
                "numbers, which stay the same, and write down what you will need. Letters come once, and announce "
                f"visitors, who buy beside the market. Each later year {begins}."
            )
        else:
            sentences.append(f"Each year {begins}.")
        sentences.append(
            "Of each year that counts, the coins on the last evening matter, less those that would be there if nothing "
            "were done. Half of the most that is possible, or less, is worth 0, all of it 1, and what lies between in "
            "proportion. The reward is the mean of these years."
        )
        if not self.learning:
            sentences.append(" ".join(self.prices(1, week + 1) for week in range(self.weeks)))
        return "\n".join(sentences)
