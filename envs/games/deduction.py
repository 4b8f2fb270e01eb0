"""Games of deduction: break a code, see through one lie, find the odd coin. Reward 1 for the hidden thing in time.

Mastermind and BullsAndCows answer a guess with two counts; OneLie answers "higher" or "lower" and may be wrong once;
OddCoin answers with a pair of scales. The experts reason from the answers alone.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache, lru_cache
from itertools import permutations, product
from operator import eq
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.games.common import (
    PLAYED,
    Game,
    IllegalMove,
    Step,
    boxed,
    go_on,
    lost,
    read_numbers,
    without_separators,
    won,
)

CANON: Final = "abcdefghij"  # the symbols in which the experts think, whatever a task calls them
POOL: Final = 40  # guesses that an expert compares, evenly spaced among those that may be right
SAMPLE: Final = 150  # codes that it compares them on


class Code(NamedTuple):
    """``tries`` are the guesses so far with how many places were right, and how many symbols stood elsewhere."""

    secret: str
    symbols: str
    level: int
    tries: tuple[tuple[str, tuple[int, int]], ...] = ()
    turn: int = 0
    message: str = ""


def marks(guess: str, secret: str) -> tuple[int, int]:
    """How many symbols stand at their place, and how many more are in the secret, but elsewhere."""
    rest = secret
    for symbol in guess:
        if symbol in rest:
            rest = rest.replace(symbol, "", 1)
    exact = sum(map(eq, guess, secret))
    return exact, len(secret) - len(rest) - exact


@lru_cache(16)
def _codes(symbols: int, length: int, repeats: bool) -> tuple[str, ...]:
    drawn = product(CANON[:symbols], repeat=length) if repeats else permutations(CANON[:symbols], length)
    return tuple(map("".join, drawn))


@lru_cache(64)
def _consistent(
    symbols: int, length: int, repeats: bool, tries: tuple[tuple[str, tuple[int, int]], ...]
) -> tuple[str, ...]:
    """The codes that would have given all these answers."""
    if not tries:
        return _codes(symbols, length, repeats)
    guess, answer = tries[-1]
    before = _consistent(symbols, length, repeats, tries[:-1])
    return tuple(code for code in before if marks(guess, code) == answer)


@cache
def _counted(answer: tuple[int, int], words: tuple[str, str]) -> str:
    return ", ".join(
        f"{number} {word.removesuffix('s') if number == 1 else word}"
        for number, word in zip(answer, words, strict=True)
    )


class CodeBreaking(Game[Code]):
    """What Mastermind and BullsAndCows share.

    Attributes:
        sizes: for each level the length of the code, how many symbols it may have, and the turns.
        alphabet: where a task draws its symbols from.
        repeats: whether a symbol may stand twice.
    """

    nouns = ("code",)
    sizes: ClassVar[tuple[tuple[int, int, int], ...]]
    alphabet: ClassVar[str]
    repeats: ClassVar[bool]
    words: ClassVar[tuple[str, str]]

    def start(self, rng: random.Random, level: int) -> Code:
        length, count, _ = self.sizes[level - 1]
        symbols = "".join(sorted(rng.sample(self.alphabet, count)))
        secret = rng.choices(symbols, k=length) if self.repeats else rng.sample(symbols, length)
        return Code("".join(secret), symbols, level)

    def turns(self, level: int) -> int:
        return self.sizes[level - 1][2]

    def content(self, state: Code) -> str:
        return f"{state.secret} of {state.symbols}"

    def reminder(self, state: Code) -> str:
        also = "; a symbol may be repeated" if self.repeats else ", each at most once"
        return f"A guess is {len(state.secret)} of the symbols {' '.join(state.symbols)}{also}."

    def rules(self, state: Code) -> str:
        positions, elsewhere = self.words
        return (
            f"Find my secret code of {len(state.secret)} symbols. {self.reminder(state)} After each guess I say "
            f"how many of its symbols are right and at the right place ({positions}), and how many others are in the "
            f"code but at another place ({elsewhere}); each symbol of the code counts once. You have "
            f"{self.turns(state.level)} turns. Write the symbols of your guess one after the other."
        )

    def play(self, state: Code, move: str) -> Step[Code]:
        secret, symbols, level, tries, turn, _ = state
        guess = move.replace(",", "").replace(" ", "")
        if (
            len(guess) != len(secret)
            or guess.strip(symbols)  # what is left where one is none of the symbols
            or not (self.repeats or len(set(guess)) == len(guess))
        ):
            raise IllegalMove(self.reminder(state).rstrip("."))
        if guess == secret:
            return won(state, guess)
        answer = marks(guess, secret)
        message = f"{guess}: {self.counts(answer)}"
        return Code(secret, symbols, level, (*tries, (guess, answer)), turn + 1, message), PLAYED, False, "user"

    def counts(self, answer: tuple[int, int]) -> str:
        """The two counts of an answer, in words: ``1 bull, 2 cows``; an adjective has no plural."""
        return _counted(answer, self.words)

    def solve(self, state: Code) -> str:
        """Of the codes that are still possible, one whose worst answer leaves the fewest."""
        length, count, _ = self.sizes[state.level - 1]
        inward, outward = str.maketrans(state.symbols, CANON[:count]), str.maketrans(CANON[:count], state.symbols)
        tries = tuple((guess.translate(inward), answer) for guess, answer in state.tries)
        codes = _consistent(count, length, self.repeats, tries)
        thought = "One code is possible." if len(codes) == 1 else f"{len(codes)} codes are possible."
        if not tries:
            half = 2 if self.repeats else 1
            return boxed("".join(CANON[i // half] for i in range(length)).translate(outward), thought)
        sample = codes[:: 1 + len(codes) // SAMPLE]

        def worst(guess: str) -> int:
            return max(Counter(marks(guess, code) for code in sample).values())

        return boxed(min(codes[:: 1 + len(codes) // POOL], key=worst).translate(outward), thought)

    def direct_answer(self, state: Code) -> str:
        return boxed(state.secret)

    def sample_action(self, state: Code, rng: random.Random) -> str:
        length = len(state.secret)
        drawn = rng.choices(state.symbols, k=length) if self.repeats else rng.sample(state.symbols, length)
        return boxed("".join(drawn))


class Mastermind(CodeBreaking):
    """Find a secret code from exact and misplaced symbols.

    Levels 1 to 5: 3 or 4 places of 4 colours, 4 of 6, 5 of 6, 5 of 8; a task draws the letters of its colours.

    Observation: the symbols and the length; then each guess with its exact and misplaced symbols.
    Actions: the symbols of a guess, such as ``abca``.
    Reward: 1 for the code, else 0.
    Episode end: the code is guessed, or the turns are used up.
    """

    sizes = ((3, 4, 7), (4, 4, 8), (4, 6, 9), (5, 6, 10), (5, 8, 11))
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    repeats = True
    words = ("exact", "misplaced")


class BullsAndCows(CodeBreaking):
    """Find a secret code without repeated symbols from bulls and cows.

    Levels 1 to 5: 3 different digits of 6, 3 of 8, 4 of 8, 4 of 10, 5 of 10.

    Observation: the digits and the length; then each guess with its bulls and cows.
    Actions: the digits of a guess, such as ``305``.
    Reward: 1 for the code, else 0.
    Episode end: the code is guessed, or the turns are used up.
    """

    sizes = ((3, 6, 7), (3, 8, 8), (4, 8, 9), (4, 10, 10), (5, 10, 11))
    alphabet = "0123456789"
    repeats = False
    words = ("bulls", "cows")


class Liar(NamedTuple):
    """``lie`` counts the answer that is false, from 0; ``answers`` are the guesses with whether "higher" was said."""

    secret: int
    first: int
    last: int
    lie: int
    level: int
    answers: tuple[tuple[int, bool], ...] = ()
    turn: int = 0
    message: str = ""


class OneLie(Game[Liar]):
    """Find a number from answers of which one may be a lie.

    Levels 1 to 5: one of 30, 100, 200, 500 and 1,000 numbers; the turns are what the expert needs at worst.

    It weighs every number with how many stories about the lie it still allows (Berlekamp; Ulam's game, Pelc 2002),
    and halves the weight.

    Observation: the range; then ``higher`` or ``lower`` after each guess.
    Actions: a whole number of the range.
    Reward: 1 for the secret number, else 0.
    Episode end: the number is guessed, or the turns are used up.
    """

    nouns = ("number",)
    sizes = ((30, 8), (100, 10), (200, 12), (500, 13), (1_000, 14))
    turn_limits = tuple(turns for _, turns in sizes)

    def start(self, rng: random.Random, level: int) -> Liar:
        width, turns = self.sizes[level - 1]
        first = rng.randint(1, 9 * width)
        return Liar(rng.randint(first, first + width - 1), first, first + width - 1, rng.randrange(turns), level)

    def content(self, state: Liar) -> str:
        return f"{state.secret} of {state.first} to {state.last}, lie at {state.lie}"

    def reminder(self, state: Liar) -> str:
        return f"A guess is one whole number from {state.first} to {state.last}."

    def rules(self, state: Liar) -> str:
        return (
            f"Find my secret number. {self.reminder(state)} A wrong guess is answered with higher (the secret is "
            f"higher than the guess) or lower. At most one of these answers in the whole game is a lie; a right guess "
            f"always ends the game. You have {self.turns(state.level)} turns."
        )

    def play(self, state: Liar, move: str) -> Step[Liar]:
        try:
            (guess,) = read_numbers(without_separators(move), 1)
        except IllegalMove:
            guess = -1
        if not state.first <= guess <= state.last:
            raise IllegalMove(self.reminder(state).rstrip("."))
        if guess == state.secret:
            return won(state, str(guess))
        higher = (state.secret > guess) != (len(state.answers) == state.lie)
        message = f"{guess}: {'higher' if higher else 'lower'}"
        return go_on(state, message, answers=(*state.answers, (guess, higher)))

    def solve(self, state: Liar) -> str:
        """The number that leaves the least weight, whatever is answered."""
        lies = count_lies(state)
        left = self.turns(state.level) - state.turn - 1
        weights = [(left + 1, 1, 0)[min(count, 2)] for count in lies]
        possible = sum(count < 2 for count in lies)
        guess = state.first + lightest_guess(lies, weights)
        return boxed(guess, f"Possible numbers: {possible}.")

    def direct_answer(self, state: Liar) -> str:
        return boxed(state.secret)

    def sample_action(self, state: Liar, rng: random.Random) -> str:
        return boxed(rng.randint(state.first, state.last))


def count_lies(state: Liar) -> list[int]:
    """For each number of the range how many answers were lies if it is the secret; two when it is ruled out."""
    lies = [0] * (state.last - state.first + 1)
    for guess, higher in state.answers:
        position = guess - state.first
        lies[position] = 2  # a right guess would have ended the game
        for i in range(position) if higher else range(position + 1, len(lies)):
            lies[i] += 1
    return lies


def lightest_guess(lies: list[int], weights: list[int]) -> int:
    """The place of a possible number after which, at worst, the least weight is left.

    A number keeps its weight after an answer that it agrees with; after another, only one without a lie is left, and
    with a weight of one.
    """
    total = sum(weights)
    doubts = [int(count == 0) for count in lies]
    doubt, below, doubt_below = sum(doubts), 0, 0
    best, least = 0, total + 1
    for position, weight in enumerate(weights):
        if weight:
            above, doubt_above = total - below - weight, doubt - doubt_below - doubts[position]
            # "Higher" keeps what is above, and one story for each number below that no answer has denied yet.
            worst = max(above + doubt_below, below + doubt_above)
            if worst < least:
                best, least = position, worst
        below += weight
        doubt_below += doubts[position]
    return best


class Coins(NamedTuple):
    """``weighings`` are pairs of pans and which side went down: 1 the left one, -1 the right one, 0 neither."""

    odd: int
    heavier: bool
    labels: tuple[int, ...]
    level: int
    weighings: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...] = ()
    turn: int = 0
    message: str = ""


class OddCoin(Game[Coins]):
    """Find the coin of another weight with a pair of scales.

    Levels 1 to 5: 9, 6, 12, 27 and 39 coins; on levels 1 and 4 one is heavier, on the others heavier or lighter.

    The weighings are as few as can do (Dyson 1946: (3^w - 3) / 2 coins in w weighings), and one turn to name the
    coin. Naming ends the game.

    Observation: the coins; then which pan is heavier.
    Actions: ``weigh 1 2 vs 3 4``, or ``odd 3`` with ``heavy`` or ``light`` where that is unknown.
    Reward: 1 for naming the odd coin, and its weight where it is unknown, else 0.
    Episode end: a coin is named, or the turns are used up.
    """

    verbs = ("weigh", "odd")
    nouns = ("coin", "coins", "and")
    sizes = ((9, True, 2), (6, False, 3), (12, False, 3), (27, True, 3), (39, False, 4))
    results: ClassVar = {1: "the left side is heavier", -1: "the right side is heavier", 0: "the pans balance"}
    turn_limits = tuple(weighings + 1 for _, _, weighings in sizes)

    def start(self, rng: random.Random, level: int) -> Coins:
        count, heavier_only, _ = self.sizes[level - 1]
        labels = tuple(sorted(rng.sample(range(1, 100), count)))
        return Coins(rng.choice(labels), heavier_only or rng.random() < 0.5, labels, level)

    def content(self, state: Coins) -> str:
        return f"{state.odd} {'heavy' if state.heavier else 'light'} of {state.labels}"

    def reminder(self, state: Coins) -> str:
        heavier_only = self.sizes[state.level - 1][1]
        name = "odd N" if heavier_only else "odd N heavy or odd N light"
        return f"Write weigh, the coins of the left pan, vs, as many for the right pan; or {name}, N being a coin."

    def rules(self, state: Coins) -> str:
        count, heavier_only, weighings = self.sizes[state.level - 1]
        odd = "heavier than" if heavier_only else "either heavier or lighter (say which) than"
        return (
            f"Of {count} coins all weigh the same but one, which is {odd} the others. Find it with a pair of scales. "
            f"The coins: {' '.join(map(str, state.labels))}. {self.reminder(state)} Naming a coin ends the game, and "
            f"is right or wrong. You have {weighings + 1} turns: {weighings} to weigh, and the last to name the coin."
        )

    def play(self, state: Coins, move: str) -> Step[Coins]:
        verb, _, rest = move.partition(" ")
        if verb == "odd":
            return self._name(state, rest)
        left, vs, right = rest.replace(" against ", " vs ").replace(" versus ", " vs ").partition(" vs ")
        if verb != "weigh" or not vs:
            raise IllegalMove(self.reminder(state).rstrip("."))
        pans = tuple(read_numbers(left)), tuple(read_numbers(right))
        both = {*pans[0], *pans[1]}
        if len(pans[0]) != len(pans[1]) or len(both) != 2 * len(pans[0]) or not both <= set(state.labels):
            raise IllegalMove("each pan needs as many of the coins as the other, and none may lie there twice")
        side = (state.odd in pans[0]) - (state.odd in pans[1])
        result = side if state.heavier else -side
        return go_on(state, self.results[result], weighings=(*state.weighings, (*pans, result)))

    def _name(self, state: Coins, rest: str) -> Step[Coins]:
        name, _, weight = rest.partition(" ")
        heavier_only = self.sizes[state.level - 1][1]
        weights = ("",) if heavier_only else WEIGHTS
        if not name.isdecimal() or int(name[:9]) not in state.labels or weight not in weights:
            raise IllegalMove(self.reminder(state).rstrip("."))
        gold = named(state.odd, state.heavier, heavier_only)
        if f"odd {rest}" == gold:
            return won(state, gold)
        return lost(state, f"the odd coin was {', '.join(gold.split()[1:])}", f"odd {rest}")

    def solve(self, state: Coins) -> str:
        """Weigh so that each of the three results leaves no more than the remaining weighings can tell apart."""
        _, heavier_only, weighings = self.sizes[state.level - 1]
        high, low, either = suspects(state, heavier_only)
        if len(high) + len(low) == 1 and not either:
            return boxed(named((high or low)[0], bool(high), heavier_only), "Only one coin is left.")
        left = weighings - len(state.weighings)
        counted = sum(map(len, (high, low, either)))
        good = [coin for coin in state.labels if coin not in high and coin not in low and coin not in either]
        split = divide_coins(len(high), len(low), len(either), len(good), max(1, left))
        pans: tuple[list[int], list[int]] = ([], [])
        for coins, (l_count, r_count) in zip((high, low, either), split, strict=True):
            pans[0].extend(coins[:l_count])
            pans[1].extend(coins[l_count : l_count + r_count])
        shorter = min(pans, key=len)
        shorter.extend(good[: abs(len(pans[0]) - len(pans[1]))])
        move = f"weigh {' '.join(map(str, pans[0]))} vs {' '.join(map(str, pans[1]))}"
        return boxed(move, f"Coins that may be it: {counted}.")

    def direct_answer(self, state: Coins) -> str:
        return boxed(named(state.odd, state.heavier, self.sizes[state.level - 1][1]))

    def sample_action(self, state: Coins, rng: random.Random) -> str:
        if rng.random() < 0.3:
            heavier_only = self.sizes[state.level - 1][1]
            return boxed(named(rng.choice(state.labels), heavier_only or rng.random() < 0.5, heavier_only))
        size = rng.randint(1, len(state.labels) // 2)
        coins = list(map(str, rng.sample(state.labels, 2 * size)))
        return boxed(f"weigh {' '.join(coins[:size])} vs {' '.join(coins[size:])}")


WEIGHTS: Final = ("light", "heavy")


def named(coin: int, heavier: bool, heavier_only: bool) -> str:
    return f"odd {coin}" if heavier_only else f"odd {coin} {WEIGHTS[heavier]}"


def suspects(state: Coins, heavier_only: bool) -> tuple[list[int], list[int], list[int]]:
    """The coins that can only be too heavy, those that can only be too light, and those that can be either."""
    high, low = set(state.labels), set() if heavier_only else set(state.labels)
    for left, right, result in state.weighings:
        down, up = (left, right) if result > 0 else (right, left)
        if result:
            high &= set(down)
            low &= set(up)
        else:
            high -= {*left, *right}
            low -= {*left, *right}
    return sorted(high - low), sorted(low - high), sorted(high & low)


@lru_cache(4_096)
def divide_coins(high: int, low: int, either: int, good: int, left: int) -> tuple[tuple[int, int], ...]:
    """How many of each kind of suspect to put on the left and the right pan, with ``left`` weighings to go.

    As many as possible of a kind balance one another; one more on the left may be weighed against a good coin.
    Suspects of the third kind come alone: they are all of them until a pan has gone down, and none afterwards.
    """
    stories = 3 ** (left - 1)
    room = (stories - 1) // 2 if either else stories  # one that stays may be heavy or light: two stories each
    counts = (high, low, either)
    pairs = product(*(range(count // 2, -1, -1) for count in counts))
    extras = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    fallback = ((0, 0), (0, 0), (0, 0))
    for (h, k, e), extra in product(pairs, extras):
        on_left = (h + extra[0], k + extra[1], e + extra[2])
        stay = [count - x - y for count, x, y in zip(counts, on_left, (h, k, e), strict=True)]
        if min(stay) < 0 or sum(extra) > good or not any(on_left):
            continue
        split = ((on_left[0], h), (on_left[1], k), (on_left[2], e))
        # The left pan goes down: heavy ones on it or light ones on the other; and the other way round.
        tipped = h + k + 2 * e + extra[2] + max(extra[0], extra[1])
        if tipped <= stories and sum(stay) <= room:
            return split
        if fallback == ((0, 0), (0, 0), (0, 0)):
            fallback = split
    return fallback
