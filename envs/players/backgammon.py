"""Backgammon, a whole play of all dice being one move."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame

OFF, BAR, MEN = 0, 25, 15
Men = tuple[int, ...]  # of one seat, from its own side: index 0 off the board, 1 to 24 the points, 25 the bar
Position = tuple[Men, Men]  # of the seat that moves, and of the other; its point p is the other's 25 - p
START: Final[Men] = tuple({24: 2, 13: 5, 8: 3, 6: 5}.get(point, 0) for point in range(26))
ROLLS: Final = tuple((high, low) for high in range(1, 7) for low in range(1, high + 1))
LIMIT: Final = 400  # plays of both seats
_HOPS: Final = re.compile(r"(bar|[0-9]{1,2})((?:/(?:off|[0-9]{1,2}))+)(?:\(([2-4])\))?")


class BackgammonState(NamedTuple):
    """The men of each seat from its own side, whose turn it is, its dice (none before a roll), and plays so far."""

    men: tuple[Men, Men] = (START, START)
    turn: int = -1
    dice: tuple[int, ...] = ()
    plays: int = 0


class Backgammon(SeatGame[BackgammonState]):
    """Backgammon: bring your men home around the board and off, by the throws of two dice."""

    title = "Backgammon"
    first_state = BackgammonState()
    decisions = LIMIT // 2 + 1
    lowest, highest = -3.0, 3.0
    nouns = ("play", "and", "then")

    def rules(self) -> str:
        return (
            "Backgammon without a doubling cube. Each seat has 15 men and counts the points from its own side: its men "
            "move from 24 down to 1 and then off; its point 24 is the other's 1. At first each seat throws one die: "
            "the higher begins with both. A man moves by the number of one die to a point on which the other has at "
            "most one man; a single man there is hit and goes to the bar. Who has men on the bar must enter them first "
            "(bar/20 with a 5). Men may go off when all are on 1 to 6: from the point of the die, or from the highest "
            "that is occupied where the die is higher. Equal dice are played four times. As many dice as possible must "
            "be played, and if either alone can be, the higher. A move is the whole play, such as 13/8 6/5 or "
            "bar/22 24/18 or 6/off 5/off; without a legal play it is pass. Who first has all men off wins: once, twice "
            "if the other has none off, three times if it also has a man on the bar or on the winner's points 1 to 6. "
            f"A game of {LIMIT} plays is a draw."
        )

    def actors(self, state: BackgammonState) -> tuple[int, ...]:
        if state.plays >= LIMIT or any(men[OFF] == MEN for men in state.men):
            return ()
        return (state.turn,) if state.dice else (CHANCE,)

    def chance(self, state: BackgammonState) -> list[tuple[str, float]]:
        """Two dice; at first one of each seat, that of seat 0 before that of seat 1, and never equal."""
        if state.turn < 0:
            return [(f"{a}-{b}", 1 / 30) for a in range(1, 7) for b in range(1, 7) if a != b]
        return [(f"{high}-{low}", (1 + (high != low)) / 36) for high, low in ROLLS]

    def legal(self, state: BackgammonState, seat: int) -> list[str]:
        return list(plays(self._position(state, seat), state.dice))

    @staticmethod
    def _position(state: BackgammonState, seat: int) -> Position:
        return state.men[seat], state.men[1 - seat]

    def parse(self, view: BackgammonState, seat: int, words: str) -> str:
        """Also reads ``8/5(2)``, ``13/8/5``, ``13/5``, ``bar/20*`` and other orders, where one legal play is meant."""
        text = words.strip("[]").replace("*", "").replace(",", " ").replace("-", "/")
        hops: list[tuple[int, int]] = []
        for part in text.split():
            if part in self.nouns:
                continue
            if not (read := _HOPS.fullmatch(part)):
                return words
            words_of = [read[1], *read[2][1:].split("/")]
            stops = [BAR if word == "bar" else OFF if word == "off" else int(word) for word in words_of]
            hops += list(pairwise(stops)) * int(read[3] or 1)
        if not 0 < len(hops) <= 4 or any(start <= end for start, end in hops):
            return words
        legal = plays(self._position(view, seat), view.dice)
        meant = {*followed(self._position(view, seat), spread(view.dice), sorted(hops, reverse=True))}
        named = [play for play, end in legal.items() if end in meant]
        return named[0] if len(named) == 1 else words

    def apply(self, state: BackgammonState, seat: int, move: str) -> BackgammonState:
        if seat == CHANCE:
            dice = tuple(map(int, move.split("-")))
            turn = int(dice[0] < dice[1]) if state.turn < 0 else state.turn
            return state._replace(turn=turn, dice=tuple(sorted(dice, reverse=True)))
        mine, other = plays(self._position(state, seat), state.dice)[move]
        return BackgammonState((other, mine) if seat else (mine, other), 1 - seat, (), state.plays + 1)

    def returns(self, state: BackgammonState) -> tuple[float, ...]:
        for seat, men in enumerate(state.men):
            if men[OFF] == MEN:
                other = state.men[1 - seat]
                behind = any(other[19:])  # on the bar, or among the winner's points 1 to 6
                won = 1.0 if other[OFF] else 3.0 if behind else 2.0
                return (-won, won) if seat else (won, -won)
        return (0.0, 0.0)

    def show(self, view: BackgammonState, seat: int) -> str:
        mine, other = view.men[seat], view.men[1 - seat]
        lines = [f"Your men: {placed(mine)}."]
        lines.append(f"The other's, by your points: {placed(other[:1] + other[24:0:-1] + other[25:])}.")
        if view.dice and view.turn == seat:
            lines.append(f"Your dice: {' and '.join(map(str, view.dice))}.")
        return "\n".join(lines)

    def expert(self, view: BackgammonState, seat: int, rng: random.Random) -> str:
        """The play after which the position is worth most, by ``worth``; it looks no further."""
        legal = plays(self._position(view, seat), view.dice)
        return max(legal, key=lambda play: (worth(*legal[play]), rng.random()))


def placed(men: Men) -> str:
    """``2 on 24, 5 on 13; 0 on the bar, 0 off``."""
    points = ", ".join(f"{men[point]} on {point}" for point in range(24, 0, -1) if men[point]) or "none on points"
    return f"{points}; {men[BAR]} on the bar, {men[OFF]} off"


# the rules


def steps(position: Position, die: int) -> Iterator[tuple[int, int, Position]]:
    """Every way to play one die: from where, to where, and the position after it."""
    mine, other = position
    home = not any(mine[7:])
    for start in (BAR,) if mine[BAR] else range(24, 0, -1):
        if not mine[start]:
            continue
        end = max(start - die, OFF)
        if end == OFF and not (home and (start == die or not any(mine[start + 1 : 7]))):
            continue
        met = other[25 - end] if end else 0
        if met > 1:
            continue
        moved = list(mine)
        moved[start] -= 1
        moved[end] += 1
        after = other
        if met:
            hit = list(other)
            hit[25 - end] = 0
            hit[BAR] += 1
            after = tuple(hit)
        yield start, end, (tuple(moved), after)


def spread(dice: Sequence[int]) -> tuple[int, ...]:
    """The dice to be played: equal ones four times."""
    return tuple(dice) * 2 if len({*dice}) == 1 else tuple(dice)


@lru_cache(maxsize=4096)
def plays(position: Position, dice: tuple[int, ...]) -> dict[str, Position]:
    """Every legal play, one for each position that it may lead to, and that position; ``pass`` where there is none."""
    left = spread(dice)
    orders = [left] if len({*left}) == 1 else [left, left[::-1]]  # the higher die first
    best: dict[Position, tuple[tuple[int, int], ...]] = {position: ()}
    most = 0
    for order in orders:
        layer: dict[Position, tuple[tuple[int, int], ...]] = {position: ()}
        for count, die in enumerate(order, 1):
            following: dict[Position, tuple[tuple[int, int], ...]] = {}
            for here, hops in layer.items():
                for start, end, after in steps(here, die):
                    following.setdefault(after, (*hops, (start, end)))
            if not following:
                break
            layer = following
            if count > most:
                best, most = layer, count
            elif count == most and (count > 1 or order is orders[0]):
                best = {**best, **{end: hops for end, hops in layer.items() if end not in best}}
    return {_named(hops): end for end, hops in best.items()}


def _named(hops: Sequence[tuple[int, int]]) -> str:
    words = [f"{'bar' if start == BAR else start}/{end or 'off'}" for start, end in sorted(hops, reverse=True)]
    return " ".join(words) or "pass"


def followed(position: Position, dice: Sequence[int], hops: Sequence[tuple[int, int]]) -> Iterator[Position]:
    """The positions that a man after another may lead to, each from a point to one that it reaches by some dice."""
    if not hops:
        yield position
        return
    (origin, goal), rest = hops[0], hops[1:]
    for die in {*dice}:
        left = list(dice)
        left.remove(die)
        for start, end, after in steps(position, die):
            if start == origin and end >= goal:
                yield from followed(after, left, rest if end == goal else [(end, goal), *rest])


# what a position is worth


def pips(men: Men) -> int:
    """The points that all men still have to go."""
    return sum([point * count for point, count in enumerate(men)])


def worth(mine: Men, other: Men) -> float:
    """How good a position is, in points to go, for the seat that has just played."""
    lead = pips(other) - pips(mine) + 3 * (mine[OFF] - other[OFF])
    last = max([point for point in range(1, 26) if mine[point]], default=0)
    if last <= 25 - max([point for point in range(1, 26) if other[point]], default=0):
        # A race: men that are home waste fewer points, and gaps do.
        return (
            lead
            - 2.0 * sum([mine[point] * (-(-point // 6) - 1) for point in range(7, 25)])
            - 0.5 * sum([not mine[point] for point in range(1, 7)])
        )
    value = lead + 0.0
    made = [mine[point] > 1 for point in range(26)]
    home = sum(made[1:7])
    value += sum([MADE[point] for point in range(1, 25) if made[point]])
    value += 4.0 * longest(made) + other[BAR] * (4.0 + 3.0 * home)
    value -= sum([1.5 * (mine[point] - 3) for point in range(1, 25) if mine[point] > 3])
    their_home = sum([other[point] > 1 for point in range(1, 7)])
    for point in range(1, 25):
        if mine[point] == 1:
            value -= shots(point, mine, other) / 36 * (25 - point + 3.0 + 3.0 * their_home)
    return value


# What a point with two men or more is worth, by its number.
MADE: Final = dict.fromkeys(range(1, 25), 0.5) | {
    1: 0.5,
    2: 2,
    3: 3,
    4: 6,
    5: 8,
    6: 6,
    7: 5,
    8: 3,
    9: 2,
    18: 3,
    20: 5,
    21: 4,
    22: 2,
}


def longest(made: Sequence[bool]) -> int:
    """The longest stretch of points made, beyond two."""
    best = stretch = 0
    for each in made[1:12]:
        stretch = stretch + 1 if each else 0
        best = max(best, stretch)
    return max(0, best - 2)


def shots(point: int, mine: Men, other: Men) -> int:
    """How many of the 36 throws let the other hit a man on a point; men of the other that must enter are no matter."""
    far = {point - (25 - at) for at in range(1, 26) if other[at] and 25 - at < point}
    count = 0
    for high, low in ROLLS:
        if high == low:
            count += any(
                high * times in far and all(mine[point - high * back] < 2 for back in range(1, times))
                for times in range(1, 5)
            )
        else:
            both = high + low in far and (mine[point - high] < 2 or mine[point - low] < 2)
            count += 2 * (high in far or low in far or both)
    return count
