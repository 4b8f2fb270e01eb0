"""GuessNumber: find a secret number; each guess is answered "higher" or "lower". Reward 1 for naming it in time.

There are just enough turns for binary search, which the expert plays, to find every secret.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.core.task import Task
from rlvr.envs.core.verdict import Verdict, correct
from rlvr.envs.games.common import without_separators
from rlvr.envs.rewards.dressing import plainer_moves
from rlvr.envs.rewards.extraction import visible_text

# For each level: how many numbers there are to choose from, and the largest that may be among them.
LEVELS = ((15, 99), (31, 99), (100, 999), (1_000, 9_999), (1_000_000, 9_999_999))
MISSED = Verdict(0.0, "partial", reason="not the secret number")
UNREAD = Verdict(0.0, "unparsable", reason="no whole number in \\boxed{}, nor a reply that is one")
_made = tuple.__new__  # without the Python function that GuessNumberState(…) is: half the time of a step
BOX = "\\boxed{"
SHORT = 24  # characters of a reply whose reading is remembered


class GuessNumberState(NamedTuple):
    """``low`` and ``high`` bound what can still be the secret, for the expert; ``answer`` is the last feedback."""

    secret: int
    first: int
    last: int
    low: int
    high: int
    answer: str


class GuessNumber(Task[GuessNumberState]):
    """Find a number from "higher" and "lower".

    Levels 1 to 5: one of 15, 31, 100, 1,000 and 1,000,000 numbers in 4, 5, 7, 10 and 20 turns.

    Where the range begins differs from task to task, so that nobody can know a secret by the range.

    Observation: the range; then ``higher`` or ``lower``.
    Actions: a whole number.
    Reward: 1 for the secret number, else 0.
    Episode end: the number is guessed, or the turns are used up.
    """

    system = "Guess the secret number. Reply with \\boxed{} around a whole number, or with the number alone."
    levels = len(LEVELS)

    def start(self, rng: random.Random, level: int) -> GuessNumberState:
        """One draw for the first number and the secret's offset, each pair with the same chance."""
        width, largest = LEVELS[level - 1]
        start, offset = divmod(rng.randint(0, (largest - width + 1) * width - 1), width)  # one draw for both
        first, last = start + 1, start + width
        return _made(GuessNumberState, (first + offset, first, last, first, last, ""))

    def turns(self, level: int) -> int:
        """ceil(log2(n + 1)) for n numbers: what binary search needs at worst."""
        return LEVELS[level - 1][0].bit_length()

    def content(self, state: GuessNumberState) -> str:
        """The secret and its range."""
        return f"{state.secret} of {state.first} to {state.last}"

    def observe(self, state: GuessNumberState) -> str:
        """The range at first, then ``higher``, ``lower`` or what a guess looks like."""
        return state.answer or f"Guess my number from {state.first} to {state.last}."

    def apply(self, state: GuessNumberState, action: str) -> tuple[GuessNumberState, Verdict, bool, str]:
        """Also narrows the bounds that the expert uses; a number outside the range gets an answer as well."""
        secret, first, last, low, high, _ = state
        guess = _short_guess(action) if len(action) <= SHORT else guess_of(action)
        if guess == secret:
            return state, correct(str(secret)), True, "user"
        verdict = MISSED
        if guess is None:
            answer, verdict = "Write a whole number.", UNREAD
        elif guess < secret:
            answer = "higher"
            if guess >= low:
                low = guess + 1
        else:
            answer = "lower"
            if guess <= high:
                high = guess - 1
        return _made(GuessNumberState, (secret, first, last, low, high, answer)), verdict, False, "user"

    def solve(self, state: GuessNumberState) -> str:
        """Binary search, after writing down what is left."""
        return f"{state.low} to {state.high}: \\boxed{{{(state.low + state.high) // 2}}}"

    def direct_answer(self, state: GuessNumberState) -> str:
        """The secret in a box."""
        return f"\\boxed{{{state.secret}}}"

    def sample_action(self, state: GuessNumberState, rng: random.Random) -> str:
        """Any number of the range, whatever has been answered."""
        return f"\\boxed{{{rng.randint(state.first, state.last)}}}"

    def out_of_turns(self, state: GuessNumberState, turns: int) -> Verdict:
        """Wrong, and names the secret."""
        return Verdict(0.0, "wrong", None, f"not found in {turns} turns: it was {state.secret}")


def guess_of(action: str) -> int | None:
    """The whole number that a reply names; None where it names none."""
    inside = action[7:-1]
    if inside.isdecimal() and action[:7] == BOX and action[-1] == "}" and inside.isascii() and len(inside) <= 10:
        return int(inside)  # nothing but a box with a number in it
    guess = read_guess(action)
    if guess is not None:
        return guess
    for text in plainer_moves(action, nouns=("number",)):  # as in "My guess is 1,234."
        digits = without_separators(text)
        if digits.isdecimal() and len(digits) <= 10:
            return int(digits)
    return None


_short_guess = lru_cache(maxsize=4096)(guess_of)  # policies write the same few numbers again and again


def read_guess(action: str) -> int | None:
    """The whole number in the last ``\\boxed{}``, else the whole reply when it is one; None for anything else."""
    if "<" in action:  # thinking and forged turns do not count
        action = visible_text(action)
    start = action.rfind(BOX)
    if start >= 0:
        end = action.find("}", start)
        action = action[start + 7 : end] if end >= 0 else ""
    if not action.isdecimal():
        action = action.strip()
        if not action.isdecimal():
            return None
    # Ten digits are more than any level needs; isdecimal alone would let other scripts' digits through.
    return int(action) if len(action) <= 10 and action.isascii() else None
