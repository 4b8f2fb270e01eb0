"""Coup: seats claim characters that they may not hold, and whoever loses both cards is out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly
from rlvr.envs.tasks.wording import counted

ROLES: Final = ("duke", "assassin", "captain", "ambassador", "contessa")
COPIES: Final = 3
HIDDEN: Final = "?"
CLAIMED: Final = {"tax": "duke", "assassinate": "assassin", "steal": "captain", "exchange": "ambassador"}
BLOCKS: Final = {"foreign aid": ("duke",), "assassinate": ("contessa",), "steal": ("captain", "ambassador")}
COSTS: Final = {"coup": 7, "assassinate": 3}
MUST: Final = 10  # coins from which nothing but a coup is legal
DEAL, ACT, DOUBT, BLOCK, DOUBT_BLOCK, SHOW, REDRAW, LOSE, DRAW, KEEP = (
    "deal", "act", "doubt", "block", "doubt block", "show", "redraw", "lose", "draw", "keep"
)  # fmt: skip
WORTH: Final = {"duke": 5, "assassin": 4, "captain": 4, "contessa": 3, "ambassador": 2}
BELIEVED: Final = 0.3  # how often the expert takes a seat to claim what it does not hold


class CoupState(NamedTuple):
    """``hands`` with ``?`` where hidden; ``lost`` cards and ``coins`` are open.

    ``turn`` takes ``action`` on ``target``; ``blocker`` blocks it as ``block``; ``asked`` are the seats that may still
    object. ``loser`` shows or loses a card, after a challenge of ``doubter``; ``then`` is what follows.
    """

    hands: tuple[tuple[str, ...], ...]
    lost: tuple[tuple[str, ...], ...]
    coins: tuple[int, ...]
    turn: int = 0
    turns: int = 0
    phase: str = DEAL
    action: str = ""
    target: int = -1
    blocker: int = -1
    block: str = ""
    asked: tuple[int, ...] = ()
    loser: int = -1
    doubter: int = -1
    then: str = ""

    @property
    def alive(self) -> tuple[int, ...]:
        return tuple(seat for seat, hand in enumerate(self.hands) if hand)

    @property
    def claim(self) -> str:
        """The character that is claimed now."""
        return self.block or CLAIMED.get(self.action, "")

    @property
    def claimant(self) -> int:
        return self.blocker if self.block else self.turn


class Coup(SeatGame[CoupState]):
    """Coup: claim characters, truly or not, and be the last with a card.

    Args:
        seats: 2 to 6.
    """

    title = "Coup"
    level_bots = ("mixed:0.5", "mixed:0.3", "mixed:0.1")
    perfect_information = False
    nouns = ("seat", "as", "the", "a", "from", "with", "my", "card", "cards")

    def __init__(self, *, seats: int = 3) -> None:
        check_range("seats", seats, 2, 6)
        self.seats = seats
        self.lowest = -1.0 / (seats - 1) if seats > 2 else -1.0
        self.limit = 20 * seats
        self.decisions = 5 * self.limit  # in one turn a seat may object, block, show a card and lose two

    def rules(self) -> str:
        return (
            f"Coup with {self.seats} seats. Each has two hidden cards of a deck with three each of duke, assassin, "
            "captain, ambassador and contessa, and 2 coins. In its turn a seat takes one action: income (1 coin), "
            "foreign aid (2 coins), coup 1 (for 7 coins seat 1 loses a card), or one that claims a character, whether "
            "or not it holds the card: tax (duke, 3 coins), assassinate 1 (assassin, for 3 coins seat 1 loses a card), "
            "steal 1 (captain, up to 2 coins of seat 1) or exchange (ambassador, draws two cards and keeps as many as "
            "it had). With 10 coins or more only coup is legal. Each other seat in turn may challenge a claim or "
            "allow it. Who is challenged shows the card, which goes back to the deck for a new one, and the "
            "challenger loses a card; or loses a card itself, and the claim fails, its coins paid back. Then foreign "
            "aid may be blocked by any seat (block duke), and assassinate and steal by their target (block contessa; "
            "block captain or block ambassador); a block is a claim that can be challenged too, and a blocked action "
            "has no effect, its coins spent. Lost cards are open, and who loses the last is out. The last seat with a "
            f"card wins. After {self.limit} turns nobody has won."
        )

    def start(self) -> CoupState:
        return CoupState(((),) * self.seats, ((),) * self.seats, (2,) * self.seats)

    def actors(self, state: CoupState) -> tuple[int, ...]:
        if state.phase in (DEAL, REDRAW, DRAW):
            return (CHANCE,)
        if len(state.alive) < 2 or (state.phase == ACT and state.turns >= self.limit):
            return ()
        if state.phase in (ACT, KEEP):
            return (state.turn,)
        return (state.loser,) if state.phase in (SHOW, LOSE) else state.asked[:1]

    def owner(self, state: CoupState) -> int:
        """The seat that gets the card drawn next."""
        if state.phase == DEAL:
            return next(seat for seat, hand in enumerate(state.hands) if len(hand) < 2)
        return state.claimant if state.phase == REDRAW else state.turn

    def chance(self, state: CoupState) -> list[tuple[str, float]]:
        """A card of the deck: all that no seat holds or has lost."""
        out = [card for cards in (*state.hands, *state.lost) for card in cards]
        return evenly([role for role in ROLES for _ in range(COPIES - out.count(role))])

    def witnesses(self, state: CoupState, actor: int) -> Sequence[int]:
        if actor == CHANCE:
            return (self.owner(state),)
        return (actor,) if state.phase == KEEP else range(self.seats)

    def legal(self, state: CoupState, seat: int) -> list[str]:
        hand = list(dict.fromkeys(state.hands[seat]))
        if state.phase == ACT:
            return self._actions(state, seat)
        if state.phase == BLOCK:
            return ["allow", *(f"block {role}" for role in BLOCKS[state.action])]
        if state.phase == KEEP:
            kept = len(state.hands[seat]) - 2
            return [f"keep {' '.join(cards)}" for cards in dict.fromkeys(combinations(state.hands[seat], kept))]
        if state.phase in (SHOW, LOSE):
            shown = [f"show {state.claim}"] if state.phase == SHOW and state.claim in hand else []
            return [*shown, *(f"lose {card}" for card in hand)]
        return ["allow", "challenge"]

    @staticmethod
    def _actions(state: CoupState, seat: int) -> list[str]:
        others, coins = [other for other in state.alive if other != seat], state.coins[seat]
        coups = [f"coup {other}" for other in others] if coins >= COSTS["coup"] else []
        if coins >= MUST:
            return coups
        kills = [f"assassinate {other}" for other in others] if coins >= COSTS["assassinate"] else []
        steals = [f"steal {other}" for other in others if state.coins[other]]
        return ["income", "foreign aid", "tax", "exchange", *steals, *kills, *coups]

    def parse(self, view: CoupState, seat: int, words: str) -> str:
        """Also reads ``steal from seat 1``, ``block as duke``, ``pass`` and cards to keep in any order."""
        parts = [word for word in super().parse(view, seat, words).split() if word not in self.nouns]
        if parts[:1] == ["keep"]:
            parts = ["keep", *sorted(parts[1:])]
        return "allow" if parts == ["pass"] else " ".join(parts)

    # what a move leads to

    def apply(self, state: CoupState, seat: int, move: str) -> CoupState:
        verb, _, rest = move.partition(" ")
        if seat == CHANCE:
            return self._drawn(state, move)
        if state.phase == ACT:
            return self._acted(state, *(("foreign aid", "") if move == "foreign aid" else (verb, rest)))
        if verb == "allow":
            return self._passed(state._replace(asked=state.asked[1:]))
        if verb == "challenge":
            return state._replace(phase=SHOW, loser=state.claimant, doubter=seat, asked=())
        if verb == "block":
            asked = tuple(other for other in self._others(state, state.turn, True) if other != seat)
            return state._replace(phase=DOUBT_BLOCK, blocker=seat, block=rest, asked=asked)
        if verb == "keep":
            return self._following(_with(state, "hands", seat, tuple(rest.split())))
        hand = list(state.hands[seat])
        hand.remove(rest)
        state = _with(state, "hands", seat, tuple(hand))
        if verb == "show":
            return state._replace(phase=REDRAW)
        failed = state.phase == SHOW
        state = _with(state, "lost", seat, (*state.lost[seat], rest))
        if len(state.alive) < 2:
            return state
        if failed:
            return self._unproven(state)
        return self._doubted(state) if state.then == "doubted" else self._following(state)

    def _drawn(self, state: CoupState, card: str) -> CoupState:
        owner = self.owner(state)
        state = _with(state, "hands", owner, tuple(sorted((*state.hands[owner], card))))
        if state.phase == DEAL:
            return state._replace(phase=ACT) if len(state.hands[-1]) == 2 else state
        if state.phase == REDRAW:  # the claim was true: the challenger loses a card
            then = "following" if state.block else "doubted"
            return state._replace(phase=LOSE, loser=state.doubter, then=then)
        had = 2 - len(state.lost[state.turn])
        return state._replace(phase=KEEP) if len(state.hands[owner]) == had + 2 else state

    def _others(self, state: CoupState, seat: int, own: bool = False) -> tuple[int, ...]:
        """The seats that still play, in turn after a seat; with ``own`` it comes first."""
        order = [(seat + far) % self.seats for far in range(0 if own else 1, self.seats)]
        return tuple(other for other in order if state.hands[other])

    def _acted(self, state: CoupState, action: str, target: str) -> CoupState:
        seat = state.turn
        state = _with(state, "coins", seat, state.coins[seat] - COSTS.get(action, 0))
        state = state._replace(action=action, target=int(target or -1), asked=self._others(state, seat))
        if action in CLAIMED:
            return state._replace(phase=DOUBT)
        return state._replace(phase=BLOCK) if action in BLOCKS else self._effect(state)

    def _passed(self, state: CoupState) -> CoupState:
        """Goes on where nobody is left who may object."""
        if state.asked:
            return state
        if state.phase == DOUBT:
            return self._doubted(state)
        return self._effect(state) if state.phase == BLOCK else self._following(state)

    def _doubted(self, state: CoupState) -> CoupState:
        """The claim of the action stands: the target may block it."""
        if state.action in BLOCKS and state.hands[state.target]:
            return state._replace(phase=BLOCK, asked=(state.target,))
        return self._effect(state)

    def _unproven(self, state: CoupState) -> CoupState:
        """The claim fails: a block is none, and an action has no effect and is paid back."""
        if state.block:
            return self._effect(state)
        paid = state.coins[state.turn] + COSTS.get(state.action, 0)
        return self._following(_with(state, "coins", state.turn, paid))

    def _effect(self, state: CoupState) -> CoupState:
        seat, target = state.turn, state.target
        if state.action in COSTS:
            if not state.hands[target]:
                return self._following(state)
            return state._replace(phase=LOSE, loser=target, then="following")
        if state.action == "exchange":
            return state._replace(phase=DRAW)
        gain = {"income": 1, "foreign aid": 2, "tax": 3, "steal": min(2, state.coins[target])}[state.action]
        state = _with(state, "coins", seat, state.coins[seat] + gain)
        if state.action == "steal":
            state = _with(state, "coins", target, state.coins[target] - gain)
        return self._following(state)

    def _following(self, state: CoupState) -> CoupState:
        turn = self._others(state, state.turn)[0]
        return CoupState(state.hands, state.lost, state.coins, turn, state.turns + 1, ACT)

    def returns(self, state: CoupState) -> tuple[float, ...]:
        if len(state.alive) > 1:
            return (0.0,) * self.seats
        return tuple(1.0 if hand else -1.0 / (self.seats - 1) for hand in state.hands)

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return 1.0 if returns[seat] > 0 else 0.0

    # what a seat reads

    def view(self, state: CoupState, seat: int) -> CoupState:
        """Hides the others' cards."""
        hands = tuple(hand if at == seat else (HIDDEN,) * len(hand) for at, hand in enumerate(state.hands))
        return state._replace(hands=hands)

    def show(self, view: CoupState, seat: int) -> str:
        lines = []
        for at, (hand, lost, coins) in enumerate(zip(view.hands, view.lost, view.coins, strict=True)):
            who = f"Seat {at} (you) holds {', '.join(hand)}"
            if at != seat or not hand:
                who = f"Seat {at} holds {counted(len(hand), 'hidden card')}" if hand else f"Seat {at} is out"
            lines.append(f"{who}{', has lost ' * bool(lost)}{', '.join(lost)}, {counted(coins, 'coin')}.")
        return "\n".join([*lines, self._due(view)])

    @staticmethod
    def _due(view: CoupState) -> str:
        if len(view.alive) == 1:
            return f"Seat {view.alive[0]} is the last with a card."
        if view.phase == ACT:
            return f"Seat {view.turn} takes an action."
        due = f"Seat {view.turn} takes the action {view.action}{f' {view.target}' * (view.target >= 0)}."
        if view.block:
            due += f" Seat {view.blocker} blocks it as {view.block}."
        if view.phase == SHOW:
            due += f" Seat {view.doubter} challenges: seat {view.loser} shows {view.claim} or loses a card."
        if view.phase == LOSE:
            due += f" Seat {view.loser} loses a card."
        return due

    # the expert

    def likely(self, view: CoupState, seat: int, other: int, role: str) -> float:
        """The probability that another seat holds a character, by the cards that a seat sees."""
        seen = [*view.hands[seat], *(card for cards in view.lost for card in cards)]
        unknown, left, held = len(ROLES) * COPIES - len(seen), COPIES - seen.count(role), len(view.hands[other])
        return 1 - comb(unknown - left, held) / comb(unknown, held)

    def _doubts(self, view: CoupState, seat: int, other: int) -> bool:
        """Whether a claim is more likely false than a challenge can afford."""
        true = self.likely(view, seat, other, view.claim)
        return true / (true + BELIEVED * (1 - true)) < 0.45

    def expert(self, view: CoupState, seat: int, rng: random.Random) -> str:
        """Claims what it holds, and seldom more; challenges what the cards it sees make unlikely."""
        hand, legal = view.hands[seat], self.legal(view, seat)
        if view.phase == ACT:
            return self._action(view, seat, rng, legal)
        if view.phase == KEEP:
            return max(legal, key=lambda move: value_of(move.split()[1:]))
        if view.phase in (SHOW, LOSE):
            if legal[0].startswith("show"):
                return legal[0]
            return min(legal, key=lambda move: value_of(hand) - value_of(hand, move.split()[1]))
        if view.phase == BLOCK:
            blocks = [move for move in legal[1:] if move.split()[1] in hand]
            if not blocks and view.action == "assassinate" and len(hand) == 1:
                return legal[1]  # nothing is left to lose
            return blocks[0] if blocks else "allow"
        concerned = seat in (view.target, view.turn) or self.likely(view, seat, view.claimant, view.claim) == 0
        return "challenge" if concerned and self._doubts(view, seat, view.claimant) else "allow"

    def _action(self, view: CoupState, seat: int, rng: random.Random, legal: Sequence[str]) -> str:
        hand, others = view.hands[seat], [other for other in view.alive if other != seat]
        leader = max(others, key=lambda other: (len(view.hands[other]), view.coins[other], rng.random()))
        richest = max(others, key=lambda other: (view.coins[other], rng.random()))
        if f"coup {leader}" in legal:
            return f"coup {leader}"
        if "assassin" in hand and f"assassinate {leader}" in legal:
            return f"assassinate {leader}"
        if "duke" in hand or (rng.random() < 0.2 and len(hand) > 1):
            return "tax"
        if "captain" in hand and view.coins[richest] > 1:
            return f"steal {richest}"
        if "ambassador" in hand:
            return "exchange"
        dukes = max(self.likely(view, seat, other, "duke") for other in others)
        return "foreign aid" if dukes < 0.3 else "income"


def _with(state: CoupState, name: str, seat: int, value: object) -> CoupState:
    """A state in which one seat has another hand, other lost cards or other coins."""
    values = getattr(state, name)
    changed: dict[str, Any] = {name: (*values[:seat], value, *values[seat + 1 :])}
    return state._replace(**changed)


def value_of(cards: Sequence[str], without: str = "") -> float:
    """What a hand is worth to the expert, without one card: a second card of a character is worth little."""
    left = list(cards)
    if without:
        left.remove(without)
    return sum(WORTH[card] for card in {*left}) + 0.5 * (len(left) - len({*left}))
