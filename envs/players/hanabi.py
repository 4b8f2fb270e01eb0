"""HanabiSmall: one team builds stacks of cards, and each seat sees all hands but its own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from rlvr.envs.players.game import CHANCE, SeatGame, check_range

COLOURS: Final = {"r": "red", "g": "green", "b": "blue"}
COPIES: Final = {1: 3, 2: 2, 3: 1}  # of each colour
DECK: Final = tuple(f"{colour}{rank}" for colour in COLOURS for rank, copies in COPIES.items() for _ in range(copies))
HIDDEN: Final = "??"
HINTS: Final = 5
LIVES: Final = 3
BEST: Final = len(COLOURS) * len(COPIES)
PAR: Final = 8
T = TypeVar("T")


class Known(NamedTuple):
    """What is known of a card by hints: the colours and ranks that it may have, and whether a hint named it."""

    colours: str = "rgb"
    ranks: str = "123"
    named: bool = False


class HanabiState(NamedTuple):
    """``hands`` with ``??`` where hidden, what is ``known`` of each card, and the counts of all that is open."""

    hands: tuple[tuple[str, ...], ...]
    known: tuple[tuple[Known, ...], ...]
    stacks: tuple[int, ...] = (0,) * len(COLOURS)
    discards: tuple[str, ...] = ()
    hints: int = HINTS
    lives: int = LIVES
    turn: int = 0
    left: int = -1  # turns left once the deck is empty

    @property
    def deck(self) -> int:
        """Cards that nobody has drawn yet."""
        return len(DECK) - sum(map(len, self.hands)) - len(self.discards) - sum(self.stacks)


class HanabiSmall(SeatGame[HanabiState]):
    """Hanabi with 18 cards: a team plays cards that only the others see, with few hints.

    Bard and others, "The Hanabi Challenge" (1902.00506), with three colours and three ranks.

    Args:
        seats: 2 to 4.
        hand: cards of each seat.
    """

    title = "Small Hanabi"
    # every card is played or discarded once, and hints are paid by discards and complete stacks
    decisions = len(DECK) + HINTS + len(DECK)
    perfect_information = False
    zero_sum = False
    nouns = ("card", "position", "number")
    lowest, highest = 0.0, float(BEST)

    def __init__(self, *, seats: int = 2, hand: int = 3) -> None:
        check_range("seats", seats, 2, 4)
        check_range("hand", hand, 2, 4)
        self.seats, self.hand = seats, hand
        self.teams = (0,) * self.seats

    def rules(self) -> str:
        return (
            f"Small Hanabi: all {self.seats} seats are one team. There are 18 cards: of each colour (red, green, blue) "
            "three 1s, two 2s and one 3. Each seat sees all hands but its own. The team builds one stack of each "
            "colour, 1 to 3 in order. In turn, seat 0 first, a seat plays a card (play 2: the second of its hand), "
            "which is added to the stack of its colour if it is the next number and else is discarded and costs a "
            "life; or discards one (discard 2), which gives back a hint unless all hints are there; or gives a hint "
            "(hint seat 1 red, or hint seat 1 rank 2), which shows another seat all of its cards of that colour or "
            f"number, at least one. There are {HINTS} hints and {LIVES} lives; a complete stack gives back a hint. "
            f"Hands have {self.hand} cards: the cards behind a used one move up, and a new card is drawn at the end. "
            "The game ends when all stacks are complete, with the last life, or when the deck is empty and every seat "
            f"has had one more turn. The team's score is the number of cards on the stacks, but 0 if all lives are "
            f"lost. {PAR} or more of {BEST} is a full success."
        )

    def start(self) -> HanabiState:
        return HanabiState(((),) * self.seats, ((),) * self.seats)

    def owed(self, state: HanabiState) -> int:
        """The seat that draws next, or -1. A drawn card belongs to the one who moved last."""
        if state.deck == 0:
            return -1
        return next((seat for seat, hand in enumerate(state.hands) if len(hand) < self.hand), -1)

    def actors(self, state: HanabiState) -> tuple[int, ...]:
        if state.lives == 0 or state.left == 0 or sum(state.stacks) == BEST:
            return ()
        return (CHANCE,) if self.owed(state) >= 0 else (state.turn,)

    def chance(self, state: HanabiState) -> list[tuple[str, float]]:
        left = Counter(DECK)
        left.subtract(card for hand in state.hands for card in hand)
        left.subtract(state.discards)
        left.subtract(on_stacks(state))
        return [(card, count / state.deck) for card, count in left.items() if count]

    def witnesses(self, state: HanabiState, actor: int) -> Sequence[int]:
        owner = self.owed(state) if actor == CHANCE else -1
        return [seat for seat in range(self.seats) if seat != owner]

    def legal(self, state: HanabiState, seat: int) -> list[str]:
        spots = range(1, len(state.hands[seat]) + 1)
        moves = [f"play {at}" for at in spots]
        if state.hints < HINTS:
            moves += [f"discard {at}" for at in spots]
        if state.hints:
            for other in ((seat + step) % self.seats for step in range(1, self.seats)):
                cards = state.hands[other]
                moves += [
                    f"hint seat {other} {name}" for sign, name in COLOURS.items() if any(sign in c for c in cards)
                ]
                moves += [f"hint seat {other} rank {n}" for n in COPIES if any(str(n) in card for card in cards)]
        return moves

    def parse(self, view: HanabiState, seat: int, words: str) -> str:
        """Also reads ``play card 2``, ``hint 1 red``, ``hint red to seat 1`` and ``hint rank 2 to seat 1``."""
        words = super().parse(view, seat, words).removeprefix("i ").replace(" card ", " ")
        parts = [word for word in words.split() if word not in ("to", "give", "a")]
        return self._hint_of(parts[1:]) or words if parts[:1] == ["hint"] else words

    @staticmethod
    def _hint_of(parts: Sequence[str]) -> str:
        """The hint that names one seat and one colour or rank; empty if these words do not."""
        seats: list[str] = []
        names: list[str] = []
        bare: list[str] = []  # numbers that nothing says what they count
        before = ""
        for part in parts:
            if part in COLOURS.values():
                names.append(part)
            elif before in ("rank", "number") or (part[-1] == "s" and part[:-1].isdigit()):
                names.append(f"rank {part.removesuffix('s')}")
            elif part.isdigit():
                (seats if before == "seat" else bare).append(part)
            elif part not in ("seat", "rank", "number"):
                return ""
            before = part
        if bare and not seats:
            seats.append(bare.pop(0))
        names += [f"rank {number}" for number in bare]
        return f"hint seat {seats[0]} {names[0]}" if len(seats) == len(names) == 1 else ""

    def apply(self, state: HanabiState, seat: int, move: str) -> HanabiState:
        if seat == CHANCE:
            owner = self.owed(state)
            hands, hints = with_one(state.hands, owner, move), with_one(state.known, owner, Known())
            after = state._replace(hands=hands, known=hints)
            return after._replace(left=self.seats) if after.deck == 0 and state.left < 0 else after
        left = state.left - 1 if state.left > 0 else state.left
        state = state._replace(turn=(seat + 1) % self.seats, left=left)
        kind, *rest = move.split()
        if kind == "hint":
            return self.hinted(state._replace(hints=state.hints - 1), int(rest[1]), rest[-1])
        return self._used(state, seat, int(rest[0]) - 1, kind == "play")

    @staticmethod
    def hinted(state: HanabiState, seat: int, name: str) -> HanabiState:
        """The state once a seat knows which of its cards have a colour or a rank."""

        def learnt(card: str, hints: Known) -> Known:
            if name in COLOURS.values():
                if COLOURS.get(card[0]) == name:
                    return Known(card[0], hints.ranks, True)
                return hints._replace(colours="".join(c for c in hints.colours if COLOURS[c] != name))
            if card[1] == name:
                return Known(hints.colours, name, True)
            return hints._replace(ranks=hints.ranks.replace(name, ""))

        row = tuple(map(learnt, state.hands[seat], state.known[seat]))
        return state._replace(known=tuple(row if at == seat else each for at, each in enumerate(state.known)))

    @staticmethod
    def _used(state: HanabiState, seat: int, spot: int, played: bool) -> HanabiState:
        card = state.hands[seat][spot]
        hands, hints = without_one(state.hands, seat, spot), without_one(state.known, seat, spot)
        state = state._replace(hands=hands, known=hints)
        if played and playable(state, card):
            at = "rgb".index(card[0])
            stacks = tuple(n + (index == at) for index, n in enumerate(state.stacks))
            full = stacks[at] == len(COPIES)
            return state._replace(stacks=stacks, hints=min(HINTS, state.hints + full))
        state = state._replace(discards=tuple(sorted((*state.discards, card))))
        return state._replace(lives=state.lives - 1) if played else state._replace(hints=state.hints + 1)

    def returns(self, state: HanabiState) -> tuple[float, ...]:
        return (float(sum(state.stacks)) if state.lives else 0.0,) * self.seats

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return min(1.0, returns[seat] / PAR)

    def view(self, state: HanabiState, seat: int) -> HanabiState:
        hands = tuple((HIDDEN,) * len(hand) if at == seat else hand for at, hand in enumerate(state.hands))
        return state._replace(hands=hands)

    def show(self, view: HanabiState, seat: int) -> str:
        stacks = ", ".join(f"{name} {count}" for name, count in zip(COLOURS.values(), view.stacks, strict=True))
        lines = [
            f"Stacks: {stacks}. Hints: {view.hints}. Lives: {view.lives}. Cards in the deck: {view.deck}. "
            f"Discarded: {', '.join(map(spelled, view.discards)) or 'none'}."
        ]
        for other, (hand, hints) in enumerate(zip(view.hands, view.known, strict=True)):
            if other != seat:
                cards = ", ".join(f"{spelled(c)} ({possible(k)})" for c, k in zip(hand, hints, strict=True))
                lines.append(f"Hand of seat {other}, with what it knows: {cards}.")
        lines.append(f"Your hand, by what you know: {', '.join(f'({possible(k)})' for k in view.known[seat])}.")
        return "\n".join(lines)

    # the expert

    def expert(self, view: HanabiState, seat: int, rng: random.Random) -> str:
        """Plays what is probably playable, above all if a hint named it; else gives the hint that makes most plays.

        Without either it discards what is useless, or else the oldest card that no hint named.
        """
        cards = [self.odds(view, seat, hints_on) for hints_on in view.known[seat]]
        chances = [playable_probability(view, odds) for odds in cards]
        best = max(range(len(cards)), key=lambda at: (chances[at], view.known[seat][at].named))
        if chances[best] >= self.needed(view, view.known[seat][best]):
            return f"play {best + 1}"
        legal = self.legal(view, seat)
        hints = [(self.worth(view, move), rng.random(), move) for move in legal if move.startswith("hint")]
        if hints and (max(hints)[0] > 0 or view.hints == HINTS):
            return max(hints)[2]
        if view.hints < HINTS:
            spare = [self._spare(view, odds, hints_on) for odds, hints_on in zip(cards, view.known[seat], strict=True)]
            return f"discard {1 + spare.index(max(spare))}"
        return f"play {best + 1}"

    @staticmethod
    def _spare(view: HanabiState, odds: Counter[str], hints: Known) -> tuple[bool, bool, float]:
        """How little a card is needed: it is useless for sure, no hint named it, it is probably useless."""
        stacked = {*on_stacks(view)}
        useless = sum(count for card, count in odds.items() if card in stacked) / odds.total()
        return (useless == 1, not hints.named, useless)

    @staticmethod
    def needed(state: HanabiState, hints: Known) -> float:
        """How probable a good play must be: a named card is meant to be played, and the last life is not risked."""
        return 1.0 if state.lives == 1 else 0.45 if hints.named else 0.8

    def odds(self, view: HanabiState, seat: int, hints: Known) -> Counter[str]:
        """How many copies of each card a hidden card may be, by what its owner sees. It is never empty."""
        left = Counter(DECK)
        left.subtract(card for hand in view.hands for card in hand if card != HIDDEN)
        left.subtract(view.discards)
        left.subtract(on_stacks(view))
        return Counter({c: n for c, n in left.items() if n > 0 and c[0] in hints.colours and c[1] in hints.ranks})

    def worth(self, view: HanabiState, move: str) -> float:
        """How many good plays a hint brings about, less twice the bad ones."""
        _, _, to, *_, name = move.split()
        other, total = int(to), 0.0
        hidden = tuple((HIDDEN,) * len(hand) if at == other else hand for at, hand in enumerate(view.hands))
        after = self.hinted(view, other, name)
        rows = zip(view.hands[other], view.known[other], after.known[other], strict=True)
        for card, before, then in rows:
            plays = [
                bool(odds := self.odds(view._replace(hands=hidden), other, hints))
                and playable_probability(view, odds) >= self.needed(view, hints)
                for hints in (before, then)
            ]
            good = playable(view, card)
            if plays[1] and not plays[0]:
                total += 1 if good else -2
            elif plays[0] and not plays[1]:
                total += -1 if good else 2
        return total


def with_one(rows: tuple[tuple[T, ...], ...], at: int, new: T) -> tuple[tuple[T, ...], ...]:
    """Rows with one thing more at the end of one of them."""
    return tuple((*row, new) if index == at else row for index, row in enumerate(rows))


def without_one(rows: tuple[tuple[T, ...], ...], at: int, spot: int) -> tuple[tuple[T, ...], ...]:
    """Rows without one thing of one of them."""
    return tuple((*row[:spot], *row[spot + 1 :]) if index == at else row for index, row in enumerate(rows))


def on_stacks(state: HanabiState) -> Iterator[str]:
    """The cards that were played well."""
    for colour, count in zip(COLOURS, state.stacks, strict=True):
        for rank in range(1, count + 1):
            yield f"{colour}{rank}"


def playable(state: HanabiState, card: str) -> bool:
    """Whether a card is the next of its stack."""
    return state.stacks["rgb".index(card[0])] + 1 == int(card[1])


def playable_probability(state: HanabiState, odds: Counter[str]) -> float:
    """The probability that a card of these odds is playable."""
    return sum(count for card, count in odds.items() if playable(state, card)) / max(1, odds.total())


def spelled(card: str) -> str:
    """``red 1`` for the card ``r1``."""
    return f"{COLOURS[card[0]]} {card[1]}"


def possible(hints: Known) -> str:
    """The colours and ranks that a card may have, such as ``red or blue, 1``."""
    colours = "any colour" if len(hints.colours) == 3 else " or ".join(COLOURS[sign] for sign in hints.colours)
    return f"{colours}, {'any number' if len(hints.ranks) == 3 else ' or '.join(hints.ranks)}"
