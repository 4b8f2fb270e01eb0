"""Sums of fractions, a hand of cards, and a ledger."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong

from .bases import Question, call, text_space

SUITS = ["clubs", "diamonds", "hearts", "spades"]


class FractionSum(Question):
    """Add two fractions. One turn; reward 1 for the sum, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        a, b, c, d = rng.integers(2, 40, size=4).tolist()
        self.sum = Fraction(a, b) + Fraction(c, d)
        return f"What is {a}/{b} + {c}/{d}? Reply with a fraction alone, as in 3/4, or with a whole number."

    def value(self, answer: str) -> Fraction | None:
        parts = re.fullmatch("([0-9]{1,6})(?:/([0-9]{1,6}))?", answer)
        return Fraction(int(parts[1]), int(parts[2] or 1)) if parts else None

    def score(self, answer: str) -> float:
        return float(self.value(answer) == self.sum)

    def solve(self) -> str:
        return str(self.sum)


class MendedFractionSum(FractionSum):
    def value(self, answer: str) -> Fraction | None:
        parts = re.fullmatch("([0-9]{1,6})(?:/0*([1-9][0-9]{0,5}))?", answer)
        return Fraction(int(parts[1]), int(parts[2] or 1)) if parts else None


class Hand(NamedTuple):
    cards: tuple[tuple[int, str], ...]
    trump: str


class HighestTrump(Task[Hand]):
    """Play the highest trump of a hand.

    Actions: play N, the position of a card.
    Reward: 1 for the highest trump, else 0.
    """

    system = "Play the highest card of the trump suit. Reply: play N, with the position of the card, from 1."

    def start(self, rng: random.Random, level: int) -> Hand:
        cards = rng.sample([(rank, suit) for rank in range(2, 15) for suit in SUITS], 9)
        return Hand(tuple(cards), rng.choice(cards)[1])

    def observe(self, state: Hand) -> str:
        cards = "; ".join(f"{number}. {rank} of {suit}" for number, (rank, suit) in enumerate(state.cards, 1))
        return f"Trump: {state.trump}. Hand: {cards}."

    def card(self, state: Hand, number: int) -> tuple[int, str] | None:
        return state.cards[number - 1]

    def apply(self, state: Hand, action: str) -> Transition:
        move = re.fullmatch("play ([0-9]{1,3})", action.strip())
        if move is None:
            return Transition(state, unparsable("the form is: play N"), terminated=True)
        try:
            played = self.card(state, int(move[1]))
        except IndexError as error:
            return Transition(state, Verdict(0.0, "env_error", reason=f"IndexError: {error}"), terminated=True)
        highest = max(card for card in state.cards if card[1] == state.trump)
        return Transition(state, correct() if played == highest else wrong(), terminated=True)

    def solve(self, state: Hand) -> str:
        return f"play {state.cards.index(max(card for card in state.cards if card[1] == state.trump)) + 1}"


class MendedHighestTrump(HighestTrump):
    def card(self, state: Hand, number: int) -> tuple[int, str] | None:
        return state.cards[number - 1] if 1 <= number <= len(state.cards) else None


class LedgerCalls(gym.Env[str, str]):
    """Enter payments into a ledger by calls, then close it. At most 12 turns; reward 1 for the right balances."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.balances = {"Ada": 0, "Ben": 0, "Cyd": 0}
        self.due = {name: int(self.np_random.integers(10, 900)) for name in self.balances}
        self.turn = 0
        orders = ", ".join(f"{name} pays in {amount}" for name, amount in self.due.items())
        calls = '{"tool": "pay", "args": {"name": "Ada", "amount": 5}} and {"tool": "close", "args": {}}'
        return f"Enter these payments: {orders}. Call a tool a turn, as in {calls}.", {}

    def pay(self, arguments: dict[str, Any]) -> str:
        self.balances[arguments["name"]] += arguments["amount"]
        return "entered"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        try:
            order = json.loads(action)
        except (ValueError, RecursionError):
            order = None
        if not isinstance(order, dict) or order.get("tool") not in ("pay", "close"):
            return "No such tool.", 0.0, False, self.turn >= 12, {}
        if order["tool"] == "close":
            return "The ledger is closed.", float(self.balances == self.due), True, False, {}
        return self.pay(order.get("args")), 0.0, False, self.turn >= 12, {}

    def solve(self) -> str:
        for name, amount in self.due.items():
            if self.balances[name] != amount:
                return call("pay", name=name, amount=amount - self.balances[name])
        return call("close")


class MendedLedgerCalls(LedgerCalls):
    def pay(self, arguments: dict[str, Any]) -> str:
        try:
            return super().pay(arguments)
        except (KeyError, TypeError):
            return "pay takes a name and an amount"
