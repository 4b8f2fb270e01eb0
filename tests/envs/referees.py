"""Referees of the games with something hidden: the rules of each told a second time, naively."""

from __future__ import annotations

import random
import re
from collections import deque
from itertools import combinations, product
from typing import Any, ClassVar

from rlvr.envs.games import card_games, chance, deduction, hidden_boards, lexicon, twenty_questions, word_games
from rlvr.envs.games.common import COLUMNS


class Referee:
    """Says of a legal move what must be answered; keeps its own account where the game has a past.

    ``judge`` returns "won", "lost", or the text that must be the next observation (a pattern, if ``pattern``).
    """

    task: ClassVar[type]
    pattern = False

    def __init__(self, state: Any, level: int) -> None:
        self.state, self.level = state, level
        self.size = getattr(self.task, "sizes", [None] * 5)[level - 1]

    def judge(self, move: str) -> str:
        raise NotImplementedError

    def secrets(self) -> list[str]:
        """Texts that no observation may hold before the end."""
        return []

    def twin(self, state: Any, rng: random.Random) -> Any:
        """The state with another secret behind all that has been told."""
        return state


def crossed_out(guess: str, secret: str) -> tuple[int, int]:
    """The two counts of Mastermind, by crossing out on paper."""
    left, exact, near = list(secret), 0, 0
    rest = []
    for place, symbol in enumerate(guess):
        if secret[place] == symbol:
            left[place] = "*"
            exact += 1
        else:
            rest.append(symbol)
    for symbol in rest:
        if symbol in left:
            left[left.index(symbol)] = "*"
            near += 1
    return exact, near


class OfCodes(Referee):
    def judge(self, move):
        guess = move.replace(" ", "").replace(",", "")
        if guess == self.state.secret:
            return "won"
        counted = zip(crossed_out(guess, self.state.secret), self.task.words, strict=True)
        return f"{guess}: " + ", ".join(f"{n} {word.rstrip('s') if n == 1 else word}" for n, word in counted)

    def secrets(self):
        return [self.state.secret]

    def twin(self, state, rng):
        length, repeats = len(state.secret), self.task.repeats
        for _ in range(200):
            code = "".join(rng.choices(state.symbols, k=length) if repeats else rng.sample(state.symbols, length))
            if all(crossed_out(guess, code) == answer for guess, answer in state.tries):
                return state._replace(secret=code)
        return state


class OfMastermind(OfCodes):
    task = deduction.Mastermind


class OfBullsAndCows(OfCodes):
    task = deduction.BullsAndCows


class OfOneLie(Referee):
    task = deduction.OneLie

    def __init__(self, state, level):
        super().__init__(state, level)
        self.answers = 0

    def judge(self, move):
        guess = int(move.strip("()[], "))
        if guess == self.state.secret:
            return "won"
        true = "higher" if guess < self.state.secret else "lower"
        false = {"higher": "lower", "lower": "higher"}[true]
        self.answers += 1
        return f"{guess}: {false if self.answers - 1 == self.state.lie else true}"

    def secrets(self):
        return [f"is {self.state.secret}", f"secret {self.state.secret}"]

    def twin(self, state, rng):
        return state._replace(secret=0, lie=-1)


class OfOddCoin(Referee):
    task = deduction.OddCoin

    def judge(self, move):
        if move.startswith("odd "):
            said = move.split()[1:]
            wanted = [str(self.state.odd), *(["heavy" if self.state.heavier else "light"] if not self.size[1] else [])]
            return "won" if said == wanted else "lost"
        grams = dict.fromkeys(self.state.labels, 10) | {self.state.odd: 11 if self.state.heavier else 9}
        left, right = (sum(grams[int(n)] for n in re.findall(r"\d+", pan)) for pan in move.split(" vs "))
        return "the pans balance" if left == right else f"the {'left' if left > right else 'right'} side is heavier"

    def twin(self, state, rng):
        if state.turn:
            return state
        return state._replace(odd=rng.choice(state.labels))


class OfTwentyQuestions(Referee):
    task = twenty_questions.TwentyQuestions

    def __init__(self, state, level):
        super().__init__(state, level)
        lines = (line.split(": ") for line in self.task().observe(state).split("\n") if ": " in line)
        self.known = {line[0]: line[1].split(", ") for line in lines if line[0] in state.things}
        assert len(self.known) == len(state.things) == len({frozenset(said) for said in self.known.values()})

    def judge(self, move):
        verb, said = move.split(" ", 1)
        if verb == "ask":
            return f"{said}: {'yes' if said in self.known[self.state.secret] else 'no'}"
        return "won" if said == self.state.secret else f"It is not {said}."

    def twin(self, state, rng):
        left = [thing for thing in state.things if twenty_questions.possible(state, thing)]
        return state._replace(secret=rng.choice(left))


def squares(guess: str, secret: str) -> str:
    """Wordle's marks by counting: the n-th copy of a letter is marked while the secret has copies to spare."""
    hits = [a == b for a, b in zip(guess, secret, strict=True)]
    answer = ""
    for place, letter in enumerate(guess):
        spare = sum(secret[i] == letter and not hits[i] for i in range(5))
        before = sum(guess[i] == letter and not hits[i] for i in range(place))
        answer += "G" if hits[place] else "Y" if before < spare else "."
    return answer


class OfWordle(Referee):
    task = word_games.Wordle

    def __init__(self, state, level):
        super().__init__(state, level)
        self.missing = set(state.secrets)
        self.done: list[str] = []

    def judge(self, move):
        guess = move.replace(" ", "")
        self.done.append(guess)
        self.missing.discard(guess)
        if not self.missing:
            return "won"
        secrets = self.state.secrets
        if len(secrets) == 1:
            return f"{guess}: {squares(guess, secrets[0])}"
        parts = [f"{s} found" if s in self.done else squares(guess, s) for s in secrets]
        return f"{guess}: " + ", ".join(f"word {number} {part}" for number, part in enumerate(parts, 1))

    def secrets(self):
        plain = {"legal", "found", *re.findall(r"[a-z]{5}", self.task().rules(self.state))}  # words of the rules
        return [] if self.state.listed else sorted(self.missing - plain)

    def twin(self, state, rng):
        found = []
        for secret in state.secrets:
            same = [
                word
                for word in rng.sample(state.listed or lexicon.words(5), 40)
                if all(squares(guess, word) == squares(guess, secret) for guess in state.guesses)
            ]
            found.append(secret if secret in state.guesses or not same else same[0])
        return state._replace(secrets=tuple(found))


class OfHangman(Referee):
    task = word_games.Hangman
    pattern = True

    def __init__(self, state, level):
        super().__init__(state, level)
        self.open, self.misses, self.tried = set(), 0, []

    def judge(self, move):
        word = self.state.word
        self.misses += move not in word if len(move) == 1 else move != word
        self.open |= set(move) if len(move) == 1 else set()
        if move == word or not set(word) - self.open:
            return "won"
        if self.misses == self.size[1]:
            return "lost"
        self.tried.append(move)
        shown = " ".join("_" if c not in self.open else c for c in word)
        letters = [one for one in self.tried if len(one) == 1]
        tried = ", ".join(letters + [one for one in self.tried if len(one) > 1])
        left = r"You have \d+ turns? left\."
        return rf"{shown}\nTried: {tried}\. Misses: {self.misses}; with {self.size[1]} you lose\. {left}"

    def secrets(self):
        return [self.state.word]

    def twin(self, state, rng):
        shown = self.task.pattern(state)
        same = [state._replace(word=w) for w in lexicon.words(len(state.word)) if w not in state.wrong_words]
        return rng.choice(
            [
                s
                for s in same
                if self.task.pattern(s) == shown and (set(s.word) & {*s.letters}) == (set(state.word) & {*s.letters})
            ]
        )


def walks(rows: tuple[str, ...], word: str, at: tuple[int, int] | None = None, used: frozenset = frozenset()) -> bool:
    """Whether the word can be walked on the board, by trying every step."""
    if not word:
        return True
    starts = (cell for cell in product(range(len(rows)), repeat=2) if rows[cell[0]][cell[1]] == word[0])
    near = (cell for cell in starts if at is None or max(abs(cell[0] - at[0]), abs(cell[1] - at[1])) == 1)
    return any(walks(rows, word[1:], cell, used | {cell}) for cell in near if cell not in used)


class OfWordHunt(Referee):
    task = word_games.WordHunt

    def __init__(self, state, level):
        super().__init__(state, level)
        self.found: list[str] = []

    def judge(self, move):
        left = f"(found: {len(self.found)} of {self.state.goal})."
        if move not in lexicon.words(len(move)):
            return f"That is not in my list of common words {left}"
        if not walks(self.state.rows, move):
            return f"That is in my list, but not on the board {left}"
        self.found.append(move)
        if len(self.found) == self.size[1]:
            return "won"
        return f"Found: {', '.join(self.found)} ({len(self.found)} of {self.state.goal})"


class OfHigherLower(Referee):
    task = card_games.HigherLower

    def __init__(self, state, level):
        super().__init__(state, level)
        self.calls: list[bool] = []

    def judge(self, move):
        _, _, most, goal = self.size
        now, new = self.state.cards[len(self.calls) :][:2]
        self.calls.append({"higher": new > now, "lower": new < now}[move])
        right = sum(self.calls)
        if right == goal:
            return "won"
        if len(self.calls) - right > most - goal:
            return "lost"
        return f"Open card: {new} ({'right' if self.calls[-1] else 'wrong'}; {right} of {goal} right)"

    def twin(self, state, rng):
        seen = state.right + state.wrong + 1
        rest = list(state.cards[seen:])
        rng.shuffle(rest)
        return state._replace(cards=state.cards[:seen] + tuple(rest))


def sums_to(hand: str) -> int:
    """The best total of a hand of written cards: each ace either way."""
    faces = hand.split()
    sums = {0}
    for face in faces:
        values = (1, 11) if face == "A" else (10,) if face in "JQK" else (int(face),)
        sums = {old + new for old in sums for new in values}
    return max((s for s in sums if s <= 21), default=min(sums))


class OfBlackjack(Referee):
    """Reads the transcript as a player does, and keeps the points by itself."""

    task = card_games.Blackjack
    pattern = True
    hand = r"((?:[2-9AJQK]|10)(?: (?:[2-9AJQK]|10))*) \((?:soft )?(\d+)\)"

    def __init__(self, state, level):
        super().__init__(state, level)
        self.house = self.task.houses[level - 1]
        self.points, self.number = 0, 1

    def judge(self, move):
        return ""

    def follow(self, move: str, message: str, over: bool) -> None:
        """Hold an observation against the move that led to it."""
        ended = re.match(rf"You: {self.hand}. Dealer: {self.hand}. (You lose|Nobody wins|You win)\.", message)
        if ended:
            mine, said, theirs, counted, result = ended.groups()
            assert (sums_to(mine), sums_to(theirs)) == (int(said), int(counted))
            worth = -1 if int(said) > 21 else 1 if int(counted) > 21 else (int(said) > int(counted)) * 2 - 1
            worth = 0 if int(said) == int(counted) <= 21 else worth
            assert result == ("You lose", "Nobody wins", "You win")[worth + 1]
            if int(said) <= 21:
                assert int(counted) >= 17
                assert sums_to(" ".join(theirs.split()[:-1])) <= 17 or len(theirs.split()) == 2
            self.points += worth * (2 if move == "double" else 1)
            self.number += 1
            assert over == (self.number > self.house.hands)
        else:
            assert (move, over) == ("hit", False)
        shown = re.search(rf"Hand (\d+) of (\d+), points ([+-]?\d+)\. You: {self.hand}", message)
        if not over:
            assert (int(shown[1]), int(shown[3])) == (self.number, self.points)
            assert sums_to(shown[4]) == int(shown[5]) <= 21
            assert ("hidden" in message) != self.house.open

    def twin(self, state, rng):
        rest = list(state.shoe[state.drawn :])
        rng.shuffle(rest)
        if not self.house.open and rest:  # the dealer's second card is as unknown as those in the shoe
            hidden = state.drawn - len(state.player) + 1
            shoe = (*state.shoe[:hidden], rest[0], *state.shoe[hidden + 1 : state.drawn], state.dealer[1], *rest[1:])
            return state._replace(shoe=shoe, dealer=(state.dealer[0], rest[0]))
        return state._replace(shoe=(*state.shoe[: state.drawn], *rest))


class OfMemoryPairs(Referee):
    task = card_games.MemoryPairs

    def __init__(self, state, level):
        super().__init__(state, level)
        height, width = self.size
        names = [f"{COLUMNS[c]}{r + 1}" for r in range(height) for c in range(width)]
        self.letters = dict(zip(names, state.cards, strict=True))
        self.width, self.up, self.first = width, set(), None

    def judge(self, move):
        cell = move.removeprefix("flip ")
        cell = f"{cell[0]}{int(cell[1:])}"
        letter, end = self.letters[cell], "."
        if self.first is None:
            self.first = cell
        else:
            if self.letters[self.first] == letter:
                self.up |= {self.first, cell}
                end = ", a pair."
            else:
                end = ", no pair. Both are hidden again."
            self.first = None
        if len(self.up) == len(self.letters):
            return "won"
        shown = [c if n in self.up or n == self.first else "." for n, c in self.letters.items()]
        rows = [shown[i : i + self.width] for i in range(0, len(shown), self.width)]
        lines = [f"{number:>2} {' '.join(row)}" for number, row in enumerate(rows, 1)]
        return "\n".join([f"{cell} shows {letter}{end}", f"   {' '.join(COLUMNS[: self.width])}", *lines])

    def twin(self, state, rng):
        unseen = [i for i in range(len(state.cards)) if i not in state.seen]
        mixed = [state.cards[i] for i in unseen]
        rng.shuffle(mixed)
        new = dict(zip(unseen, mixed, strict=True))
        return state._replace(cards="".join(new.get(i, c) for i, c in enumerate(state.cards)))


class OfBandit(Referee):
    task = chance.MultiArmedBandit
    pattern = True

    def judge(self, move):
        verb, letter = move.split()
        value = self.state.values["abcdefghij".index(letter)]
        if verb == "name":
            return "won" if value == max(self.state.values) else "lost"
        near = "|".join(str(value + off) for off in range(-self.size[1], self.size[1] + 1))
        paid = r"[a-j] -?\d+(?:, -?\d+)*"
        return rf"{letter} paid ({near})\. Paid so far: {paid}(?:; {paid})*\. You have \d+ turns? left\."

    def twin(self, state, rng):
        return state._replace(values=tuple(rng.sample(range(20, 81), len(state.values))), seed=1)


class OfSecretary(Referee):
    task = chance.Secretary

    def __init__(self, state, level):
        super().__init__(state, level)
        self.place = 0

    def judge(self, move):
        scores = self.state.scores
        if move == "take":
            return "won" if sorted(scores)[-1] == scores[self.place] else "lost"
        self.place += 1
        if self.place == len(scores):
            return "lost"
        best = max(scores[: self.place + 1])
        return f"Candidate {self.place + 1} of {len(scores)}: {scores[self.place]} (best so far: {best})"

    def secrets(self):
        return [f": {score} " for score in self.state.scores[self.place + 1 :]]

    def twin(self, state, rng):
        return state._replace(scores=state.scores[: state.seen] + (5,) * (len(state.scores) - state.seen))


class OfPushYourLuck(Referee):
    """The die is the game's; what follows from a roll is counted here."""

    task = chance.PushYourLuck
    pattern = True

    def __init__(self, state, level):
        super().__init__(state, level)
        self.pot, self.bank = 0, 0

    def judge(self, move):
        sides, bad, goal = self.state.sides, self.state.bad, self.state.goal
        if move == "bank":
            self.bank, self.pot = self.bank + self.pot, 0
            return "won" if self.bank >= goal else rf"Pot 0, bank {self.bank} of {goal}, \d+ turns? left"
        pots = {face: self.pot + face if face > bad else 0 for face in range(1, sides + 1)}
        bank = rf"bank {self.bank} of {goal}, \d+ turns? left"
        return "|".join(rf"You rolled {face}\. Pot {pot}, {bank}" for face, pot in pots.items())

    def follow(self, move, message, over):
        if move == "roll" and not over:
            self.pot = int(re.search(r"Pot (\d+)", message)[1])

    def twin(self, state, rng):
        return state._replace(seed=rng.getrandbits(48))


def grid(cells: int, height: int, width: int) -> set[tuple[int, int]]:
    return {(i // width, i % width) for i in range(height * width) if cells >> i & 1}


def named(cells: list[str]) -> set[tuple[int, int]]:
    return {(int(cell[1:]) - 1, COLUMNS.index(cell[0])) for cell in cells}


def drawn(symbols: dict[tuple[int, int], str], height: int, width: int) -> str:
    rows = [" ".join(symbols[r, c] for c in range(width)) for r in range(height)]
    return "\n".join(["   " + " ".join(COLUMNS[:width]), *(f"{n:>2} {row}" for n, row in enumerate(rows, 1))])


def beside(cell: tuple[int, int], height: int, width: int) -> list[tuple[int, int]]:
    steps = product((-1, 0, 1), repeat=2)
    near = ((cell[0] + r, cell[1] + c) for r, c in steps if r or c)
    return [(r, c) for r, c in near if 0 <= r < height and 0 <= c < width]


class OfMinesweeper(Referee):
    task = hidden_boards.Minesweeper

    def __init__(self, state, level):
        super().__init__(state, level)
        height, width, count, _ = self.size
        self.mines, self.open = (
            {cell for cell in grid(cells, height, width + 1) if cell[1] < width} for cells in (state.mines, state.open)
        )
        assert len(self.mines) == count
        assert not self.mines & self.open
        assert self.board() in self.task().observe(state)

    def number(self, cell) -> int:
        return sum(near in self.mines for near in beside(cell, *self.size[:2]))

    def board(self) -> str:
        height, width = self.size[:2]
        cells = product(range(height), range(width))
        return drawn({cell: str(self.number(cell)) if cell in self.open else "." for cell in cells}, height, width)

    def judge(self, move):
        waiting = deque(named(move.replace(",", " ").split()[1:]))
        if self.mines & {*waiting}:
            return "lost"
        while waiting:
            cell = waiting.popleft()
            if cell not in self.open:
                self.open.add(cell)
                if not self.number(cell):
                    waiting.extend(beside(cell, *self.size[:2]))
        return "won" if len(self.open) + len(self.mines) == self.size[0] * self.size[1] else self.board()


class OfBattleship(Referee):
    task = hidden_boards.Battleship

    def __init__(self, state, level):
        super().__init__(state, level)
        side, lengths, _ = self.size
        self.ships, self.shots = [grid(ship, side, side) for ship in state.ships], set()
        assert tuple(map(len, self.ships)) == lengths
        for one, other in combinations(self.ships, 2):
            assert all(max(abs(a - c), abs(b - d)) > 1 for a, b in one for c, d in other), "ships touch"
        for ship in self.ships:
            rows, columns = ({cell[i] for cell in ship} for i in (0, 1))
            assert min(len(rows), len(columns)) == 1
            assert max(rows) - min(rows) + max(columns) - min(columns) == len(ship) - 1

    def judge(self, move):
        side = self.size[0]
        fired = named(move.replace(",", " ").split()[1:])
        before, self.shots = self.shots, self.shots | fired
        if all(ship <= self.shots for ship in self.ships):
            return "won"
        everywhere = set().union(*self.ships)
        text = f"Hit: {self.listed(fired & everywhere)}. Missed: {self.listed(fired - everywhere)}."
        for ship in self.ships:
            if ship <= self.shots and not ship <= before:
                text += f" You sank the ship of {len(ship)} cells at {self.listed(ship)}."
        symbols = {cell: "o" if cell in self.shots else "." for cell in product(range(side), repeat=2)}
        for ship in self.ships:
            symbols |= dict.fromkeys(ship & self.shots, "#" if ship <= self.shots else "x")
        return text + "\n" + drawn(symbols, side, side)

    @staticmethod
    def listed(cells) -> str:
        return " ".join(f"{COLUMNS[c]}{r + 1}" for r, c in sorted(cells)) or "-"

    def twin(self, state, rng):
        return self.task().start(rng, self.level) if not state.shots else state


def shine(size: int, atoms: set[tuple[int, int]], start: complex, way: complex) -> complex | None:
    """A ray in the complex plane (row + column i): where it comes out; ``start`` if sent back, None if swallowed."""
    at = start
    while True:
        ahead = at + way
        if (ahead.real, ahead.imag) in atoms:
            return None
        sides = [turn for turn in (1j, -1j) if ((ahead + turn * way).real, (ahead + turn * way).imag) in atoms]
        if sides and (at == start or len(sides) == 2):
            return start
        if sides:
            way *= -sides[0]
        else:
            at = ahead
            if not (0 <= at.real < size and 0 <= at.imag < size):
                return at


class OfBlackBox(Referee):
    task = hidden_boards.BlackBox

    def __init__(self, state, level):
        super().__init__(state, level)
        self.side = self.size[0]
        self.atoms = grid(state.atoms, self.side, self.side)
        assert len(self.atoms) == self.size[1]
        self.borders = {}
        for i in range(self.side):
            self.borders[f"top {COLUMNS[i]}"] = complex(-1, i), 1 + 0j
            self.borders[f"bottom {COLUMNS[i]}"] = complex(self.side, i), -1 + 0j
            self.borders[f"left {i + 1}"] = complex(i, -1), 1j
            self.borders[f"right {i + 1}"] = complex(i, self.side), -1j

    def answer(self, atoms, name) -> str:
        start, way = self.borders[name]
        end = shine(self.side, atoms, start, way)
        if end is None or end == start:
            return "hit" if end is None else "reflected"
        return "comes out at " + next(other for other, (place, _) in self.borders.items() if place == end)

    def judge(self, move):
        verb, *words = move.replace(",", " ").split()
        if verb == "ray":
            rest = " ".join(words)
            return f"{rest}: {self.answer(self.atoms, rest)}"
        said = named(words)
        same = all(self.answer(said, name) == self.answer(self.atoms, name) for name in self.borders)
        return "won" if same else "The atoms are not there."

    def twin(self, state, rng):
        return self.task().start(rng, self.level) if not state.turn else state


REFEREES = {
    referee.task.__name__: referee
    for top in Referee.__subclasses__()
    for referee in (*top.__subclasses__(), top)
    if hasattr(referee, "task")
}
