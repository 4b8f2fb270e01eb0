"""Card games: HigherLower, Blackjack and MemoryPairs.

HigherLower and MemoryPairs pay 1 for the goal that the first observation states. Luck has a say in HigherLower, whose
expert wins most of the time; in MemoryPairs a player who forgets nothing always wins. Blackjack pays for the moves that
win most points on average, whatever the cards bring.
"""

from __future__ import annotations

import random
from functools import cache, lru_cache
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.core.verdict import Status, Verdict
from rlvr.envs.games.common import COLUMNS, Cell, Game, IllegalMove, Step, boxed, chance, go_on, lost, read_cell, won
from rlvr.envs.games.common import drawn_board as board


class Deck(NamedTuple):
    """``cards`` are in the order in which they are turned over; the first is open at the start."""

    cards: tuple[int, ...]
    level: int
    right: int = 0
    wrong: int = 0
    turn: int = 0
    message: str = ""


class HigherLower(Game[Deck]):
    """Call whether the next card is higher or lower.

    Levels 1 to 5: 4 right calls of 5 up to 10 of 14, with decks of 9 to 39 cards; later ones hold equal cards.

    Observation: the deck, the goal and the open card; then each card and the right calls.
    Actions: ``higher`` or ``lower``.
    Reward: 1 for the right calls that the level asks for, else 0.
    Episode end: that many right calls, too many wrong ones, or the turns are used up.
    """

    verbs = ("higher", "lower")
    always_solvable = False
    # For each level: the highest card, how many there are of each, the calls, and how many must be right.
    sizes: ClassVar = ((9, 1, 5, 4), (13, 1, 8, 6), (13, 1, 10, 8), (13, 2, 11, 8), (13, 3, 14, 10))
    turn_limits = tuple(calls for _, _, calls, _ in sizes)

    def start(self, rng: random.Random, level: int) -> Deck:
        highest, copies, _, _ = self.sizes[level - 1]
        cards = [card for card in range(1, highest + 1) for _ in range(copies)]
        rng.shuffle(cards)
        return Deck(tuple(cards), level)

    def content(self, state: Deck) -> str:
        return " ".join(map(str, state.cards))

    def reminder(self, state: Deck) -> str:
        return "Write higher or lower."

    def rules(self, state: Deck) -> str:
        highest, copies, calls, goal = self.sizes[state.level - 1]
        equal = " An equal card makes either call wrong." if copies > 1 else ""
        return (
            f"A shuffled deck holds {f'{copies} of each of ' if copies > 1 else ''}the cards 1 to {highest}. Say "
            f"whether the next card is higher or lower than the open one; then it is turned over, and is the open one. "
            f"Cards do not come back.{equal} You win with {goal} right calls, in {calls} turns. "
            f"{self.reminder(state)}\nOpen card: {state.cards[0]}"
        )

    def play(self, state: Deck, move: str) -> Step[Deck]:
        if move not in ("higher", "lower"):
            raise IllegalMove(self.reminder(state).rstrip("."))
        _, _, calls, goal = self.sizes[state.level - 1]
        index = state.right + state.wrong
        now, card = state.cards[index], state.cards[index + 1]
        if (card > now) if move == "higher" else (card < now):
            if state.right + 1 == goal:
                return won(state, reason=f"{goal} right calls", right=goal)
            after = state._replace(right=state.right + 1)
        else:
            after = state._replace(wrong=state.wrong + 1)
            if after.wrong > calls - goal:
                return lost(after, f"{after.wrong} wrong calls: {goal} right ones of {calls} are out of reach")
        message = (
            f"Open card: {card} ({'right' if after.right > state.right else 'wrong'}; {after.right} of {goal} right)"
        )
        return go_on(after, message)

    def solve(self, state: Deck) -> str:
        """The call for which more of the cards that have not been seen speak."""
        highest, copies, _, _ = self.sizes[state.level - 1]
        open_cards = state.cards[: state.right + state.wrong + 1]
        unseen = [card for card in range(1, highest + 1) for _ in range(copies - open_cards.count(card))]
        above, below = (sum(card > open_cards[-1] for card in unseen), sum(card < open_cards[-1] for card in unseen))
        return boxed("higher" if above >= below else "lower", f"Cards left: {above} higher, {below} lower.")

    def sample_action(self, state: Deck, rng: random.Random) -> str:
        return boxed(rng.choice(("higher", "lower")))


RANKS: Final = ("A", *map(str, range(2, 11)), "J", "Q", "K")


class BlackjackTable(NamedTuple):
    """``shoe`` is the order of the cards (1 to 13) and ``drawn`` how many of them are out.

    ``given_away`` is how many points less the moves bring on average than the best ones.
    """

    seed: int
    level: int
    shoe: tuple[int, ...]
    drawn: int
    player: tuple[int, ...]
    dealer: tuple[int, ...]
    hand: int = 1
    points: int = 0
    given_away: float = 0.0
    turn: int = 0
    message: str = ""


class HouseRules(NamedTuple):
    """The rules of a level: hands to play, decks (0: one, shuffled for each hand), and the rest."""

    hands: int
    decks: int
    open: bool
    double: bool
    soft: bool


class Blackjack(Game[BlackjackTable]):
    """Win points from the dealer in hands of Blackjack.

    Levels 1 to 5: 3 to 9 hands; the dealer's second card open, then hidden; doubling; one shoe for all hands.

    Observation: the house rules, the own hand, the dealer's cards as far as they are open, and the points.
    Actions: ``hit``, ``stand``, or ``double`` with two cards from level 3 on.
    Reward: 1 less what the moves give away on average, as a share of 0.3 points a hand.
    Episode end: the last hand is settled, or the turns are used up.
    """

    verbs = ("hit", "stand", "double")
    nouns = ("me", "down")
    reward = (
        "1 less the points that the moves give away on average, as a share of 0.3 a hand: the best moves are paid 1, "
        "whatever the cards bring"
    )
    stake = 0.3  # points a hand that leave no reward where a player gives them away
    houses: ClassVar = (
        HouseRules(3, 0, True, False, False),
        HouseRules(4, 0, False, False, False),
        HouseRules(5, 0, False, True, False),
        HouseRules(7, 2, False, True, True),
        HouseRules(9, 2, False, True, True),
    )
    turn_limits = tuple(5 * house.hands for house in houses)

    def start(self, rng: random.Random, level: int) -> BlackjackTable:
        seed = rng.getrandbits(48)
        return deal(BlackjackTable(seed, level, shuffled(seed, 1, self.houses[level - 1]), 0, (), ()))

    def difficulty(self, state: BlackjackTable) -> float:
        """Hands to play on the level."""
        return float(self.houses[state.level - 1].hands)

    def content(self, state: BlackjackTable) -> str:
        return str(state.seed)

    def reminder(self, state: BlackjackTable) -> str:
        if self.houses[state.level - 1].double:
            return "Write hit, stand or double (only with two cards)."
        return "Write hit or stand."

    def rules(self, state: BlackjackTable) -> str:
        house = self.houses[state.level - 1]
        shoe = f"The cards come from one shoe of {house.decks} decks" if house.decks else "One deck is shuffled anew"
        sight = f"The second card of the dealer is {'open' if house.open else 'hidden until then'}."
        double = " To double is to take exactly one more card for twice the point." if house.double else ""
        drawing = ", and once more on a soft 17" if house.soft else ", and stands on a soft 17"
        return (
            f"Blackjack, {house.hands} hands. Come closer to 21 than the dealer without going over. An ace counts 11, "
            f"or 1 where 11 would be too much (with an 11 the total is soft); J, Q and K count 10. Hit takes a card, "
            f"and over 21 loses at once; stand ends your hand. {sight} Then the dealer draws up to 17{drawing}; over "
            f"21 the dealer loses. The higher total wins a point from the other; equal totals move none.{double} A 21 "
            f"of two cards is a 21 like any other. {shoe} for {'all hands' if house.decks else 'each hand'}. Your "
            f"reward is 1 for the moves that win most points on average, whatever the cards bring; it falls by what "
            f"yours give away, and {self.stake:g} points a hand leave nothing. {self.reminder(state)} You have "
            f"{self.turns(state.level)} turns.\n{self.shown(state)}"
        )

    def shown(self, state: BlackjackTable) -> str:
        house = self.houses[state.level - 1]
        dealer = names(state.dealer) if house.open else f"{names(state.dealer[:1])} and a hidden card"
        return (
            f"Hand {state.hand} of {house.hands}, points {signed(state.points)}. You: {names(state.player)} "
            f"({worded(state.player)}). Dealer: {dealer}."
        )

    def play(self, state: BlackjackTable, move: str) -> Step[BlackjackTable]:
        legal = ("hit", "stand", "double") if self.houses[state.level - 1].double else ("hit", "stand")
        if move not in legal or (move == "double" and len(state.player) > 2):
            raise IllegalMove(self.reminder(state).rstrip("."))
        values = self.move_values(state)
        state = state._replace(given_away=state.given_away + max(values.values()) - values[move])
        if move == "stand":
            return self._settle(state, 1)
        state = state._replace(player=(*state.player, state.shoe[state.drawn]), drawn=state.drawn + 1)
        if move == "double":
            return self._settle(state, 2)
        return self._settle(state, 1) if total(state.player)[0] > 21 else go_on(state, self.shown(state))

    def _settle(self, state: BlackjackTable, stake: int) -> Step[BlackjackTable]:
        """The dealer plays, the point moves, and the next hand is dealt."""
        house = self.houses[state.level - 1]
        mine = total(state.player)[0]
        while mine <= 21 and dealer_draws(*total(state.dealer), house.soft):
            state = state._replace(dealer=(*state.dealer, state.shoe[state.drawn]), drawn=state.drawn + 1)
        theirs = total(state.dealer)[0]
        result = -1 if mine > 21 else 1 if theirs > 21 else (mine > theirs) - (mine < theirs)
        points = state.points + stake * result
        message = (
            f"You: {names(state.player)} ({worded(state.player)}). Dealer: {names(state.dealer)} "
            f"({worded(state.dealer)}). {('You lose', 'Nobody wins', 'You win')[result + 1]}."
        )
        if state.hand == house.hands:
            given_away = state.given_away / house.hands
            reward = max(0.0, 1 - given_away / self.stake)
            reason = f"{message} Points {signed(points)}. Your moves gave away {given_away:.2f} points a hand."
            status: Status = "correct" if reward == 1 else "partial" if reward else "wrong"
            verdict = Verdict(reward, status, reason=reason, parts={"points": points, "given_away": state.given_away})
            return state._replace(turn=state.turn + 1, points=points), verdict, True, "user"
        state = state._replace(points=points, hand=state.hand + 1)
        if not house.decks:
            state = state._replace(shoe=shuffled(state.seed, state.hand, house), drawn=0)
        state = deal(state)
        return go_on(state, f"{message}\n{self.shown(state)}")

    def solve(self, state: BlackjackTable) -> str:
        """The move with the most points on average."""
        values = self.move_values(state)
        best = max(values, key=lambda move: values[move])
        return boxed(best, f"I have {'a ' if total(state.player)[1] else ''}{worded(state.player)}.")

    def move_values(self, state: BlackjackTable) -> dict[str, float]:
        """The expected points of each move in this hand, over what has not been seen, as if drawn cards came back."""
        house = self.houses[state.level - 1]
        hidden = 0 if house.open else 1
        out = state.shoe[: state.drawn]
        cards_out = [*out[: len(out) - len(state.player) - 2], *state.player, *state.dealer[: 2 - hidden]]
        counts = [4 * max(1, house.decks)] * 9 + [16 * max(1, house.decks)]
        for card in cards_out:
            counts[min(card, 10) - 1] -= 1
        ends = dealer_ends(total(state.dealer[: 2 - hidden]), tuple(counts), house.soft)
        mine = total(state.player)
        values = {"stand": stand_value(mine[0], ends, 1), "hit": hit_value(mine, tuple(counts), ends)}
        if house.double and len(state.player) == 2:
            doubled = (count * stand_value(added(mine, value)[0], ends, 2) for value, count in enumerate(counts, 1))
            values["double"] = sum(doubled) / sum(counts)
        return values

    def sample_action(self, state: BlackjackTable, rng: random.Random) -> str:
        double = self.houses[state.level - 1].double and len(state.player) == 2
        return boxed(rng.choice(("hit", "stand", "double") if double else ("hit", "stand")))


def shuffled(seed: int, hand: int, house: HouseRules) -> tuple[int, ...]:
    cards = list(range(1, 14)) * 4 * max(1, house.decks)
    chance(seed, hand).shuffle(cards)
    return tuple(cards)


def deal(state: BlackjackTable) -> BlackjackTable:
    """Two cards for the player, then two for the dealer."""
    d = state.drawn
    return state._replace(player=state.shoe[d : d + 2], dealer=state.shoe[d + 2 : d + 4], drawn=d + 4)


def names(cards: tuple[int, ...]) -> str:
    return " ".join(RANKS[card - 1] for card in cards)


Total = tuple[int, bool]  # what a hand counts, and whether an ace counts 11 in it


def added(before: Total, card: int) -> Total:
    """A hand with one card more."""
    points, soft = before[0] + min(card, 10), before[1]
    if card == 1 and not soft and points <= 11:
        points, soft = points + 10, True
    return (points - 10, False) if soft and points > 21 else (points, soft)


def total(cards: tuple[int, ...]) -> Total:
    result: Total = (0, False)
    for card in cards:
        result = added(result, card)
    return result


def signed(points: int) -> str:
    """With its sign, but for 0."""
    return f"{points:+d}" if points else "0"


def worded(cards: tuple[int, ...]) -> str:
    points, soft = total(cards)
    return f"{'soft ' if soft else ''}{points}"


def dealer_draws(points: int, soft: bool, hits_soft: bool) -> bool:
    return points < 17 or (points == 17 and soft and hits_soft)


@lru_cache(4_096)
def dealer_ends(now: Total, counts: tuple[int, ...], hits_soft: bool) -> dict[int, float]:
    """The chance of each total that the dealer may end with, 22 for all above 21; as if drawn cards came back."""
    if now[0] > 21:
        return {22: 1.0}
    if now[0] and not dealer_draws(*now, hits_soft):
        return {now[0]: 1.0}
    ends: dict[int, float] = {}
    everything = sum(counts)
    for value, count in enumerate(counts, 1):
        if count:
            for end, share in dealer_ends(added(now, value), counts, hits_soft).items():
                ends[end] = ends.get(end, 0.0) + share * count / everything
    return ends


def stand_value(points: int, ends: dict[int, float], stake: int) -> float:
    """The expected points of standing."""
    if points > 21:
        return -float(stake)
    return sum(share * stake * (1 if end > 21 else (points > end) - (points < end)) for end, share in ends.items())


def hit_value(now: Total, counts: tuple[int, ...], ends: dict[int, float]) -> float:
    """The expected points of one card more, if every later choice is the best one."""

    @cache
    def after(hand: Total) -> float:
        return -1.0 if hand[0] > 21 else max(stand_value(hand[0], ends, 1), hit(hand))

    def hit(hand: Total) -> float:
        return sum(count * after(added(hand, value)) for value, count in enumerate(counts, 1) if count) / sum(counts)

    return hit(now)


class Pairs(NamedTuple):
    """``open`` is the card turned over first, -1 for none; ``seen`` are the places turned over so far."""

    cards: str
    level: int
    open: int = -1
    taken: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    turn: int = 0
    message: str = ""


class MemoryPairs(Game[Pairs]):
    """Find the pairs of hidden cards.

    Levels 1 to 5: 4, 6, 8, 10 and 12 pairs; n of them take at most 4n - 2 flips without forgetting.

    Observation: the board with taken and open cards; a dot is a hidden card.
    Actions: the cell of a hidden card, such as ``b1``.
    Reward: 1 when all pairs are open, else 0.
    Episode end: all pairs are open, or the turns are used up.
    """

    nouns = ("card", "cell", "over", "turn")
    sizes: ClassVar = ((2, 4), (3, 4), (4, 4), (4, 5), (4, 6))
    turn_limits = tuple(2 * height * width - 2 for height, width in sizes)  # enough without forgetting

    def start(self, rng: random.Random, level: int) -> Pairs:
        height, width = self.sizes[level - 1]
        cards = rng.sample(COLUMNS.upper(), height * width // 2) * 2
        rng.shuffle(cards)
        return Pairs("".join(cards), level)

    def content(self, state: Pairs) -> str:
        return state.cards

    def reminder(self, state: Pairs) -> str:
        height, width = self.sizes[state.level - 1]
        return (
            f"Write the cell of one hidden card: a column letter from a to {COLUMNS[width - 1]} and a row number from "
            f"1 to {height}, such as b1."
        )

    def rules(self, state: Pairs) -> str:
        return (
            f"On the board lie {len(state.cards)} cards, hidden: {len(state.cards) // 2} letters, each of them twice. "
            f"Turn cards over, one a turn. When two are open and show the same letter, they stay open; if not, both "
            f"are hidden again. Open all pairs to win. {self.reminder(state)} You have {self.turns(state.level)} turns."
            f"\n{self.shown(state)}"
        )

    def shown(self, state: Pairs) -> str:
        width = self.sizes[state.level - 1][1]
        cells = "".join(c if i in state.taken or i == state.open else "." for i, c in enumerate(state.cards))
        return board(cells[i : i + width] for i in range(0, len(cells), width))

    def play(self, state: Pairs, move: str) -> Step[Pairs]:
        height, width = self.sizes[state.level - 1]
        try:
            cell = read_cell(move.removeprefix("flip "), height, width)
        except IllegalMove:
            raise IllegalMove(self.reminder(state).rstrip(".")) from None
        index = cell.row * width + cell.column
        if index == state.open or index in state.taken:
            raise IllegalMove(f"{cell} is open already; turn over a hidden card")
        after = state._replace(seen=(*state.seen, index))
        letter, first = state.cards[index], state.open
        if first < 0:
            after = after._replace(open=index)
            return go_on(after, f"{cell} shows {letter}.\n{self.shown(after)}")
        after = after._replace(open=-1)
        if state.cards[first] != letter:
            return go_on(after, f"{cell} shows {letter}, no pair. Both are hidden again.\n{self.shown(after)}")
        after = after._replace(taken=(*state.taken, first, index))
        if len(after.taken) == len(state.cards):
            return won(after, reason="all pairs are open")
        return go_on(after, f"{cell} shows {letter}, a pair.\n{self.shown(after)}")

    def solve(self, state: Pairs) -> str:
        """A pair whose cards were both seen, else a card that was not."""
        indices_of: dict[str, set[int]] = {}
        for index in state.seen:
            if index not in state.taken:
                indices_of.setdefault(state.cards[index], set()).add(index)
        fresh = min((i for i in range(len(state.cards)) if i not in state.seen), default=0)
        if state.open >= 0:
            index = min(indices_of[state.cards[state.open]] - {state.open}, default=fresh)
        else:
            index = min((min(indices) for indices in indices_of.values() if len(indices) == 2), default=fresh)
        return boxed(Cell(*divmod(index, self.sizes[state.level - 1][1])))

    def sample_action(self, state: Pairs, rng: random.Random) -> str:
        hidden = [i for i in range(len(state.cards)) if i != state.open and i not in state.taken]
        return boxed(Cell(*divmod(rng.choice(hidden), self.sizes[state.level - 1][1])))
