"""Games that OpenSpiel lacks or has with other rules: a second implementation, written from what a seat reads.

It gets the chance of a match, and is compared in who moves, which moves are legal, and returns.
"""

from __future__ import annotations

import itertools
import random
import re

import pytest

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import CHANCE, IllegalText, Referee

MATCHES = 150


class Battleship:
    """Ships are read from each seat's own sea at the start."""

    def __init__(self, seas):
        self.ships = [[], []]
        for seat, sea in enumerate(seas):
            cells = {
                (column, row)
                for row, line in enumerate(sea.splitlines())
                for column, mark in enumerate(line.split()[1:])
                if mark == "S"
            }
            assert len(cells) == 5
            # which five cells are the ship of 3: every way that leaves a ship of 2 (touching ships have several)
            self.ships[seat] = [
                (set(three), cells - set(three))
                for three in itertools.combinations(sorted(cells), 3)
                if straight(three) and straight(tuple(sorted(cells - set(three))))
            ]
            assert self.ships[seat]
        self.shot, self.seat = [set(), set()], 0

    def movers(self):
        return () if self.over() else (self.seat,)

    def over(self):
        return any(not (self.ships[1 - seat][0][0] | self.ships[1 - seat][0][1]) - self.shot[seat] for seat in (0, 1))

    def legal(self, seat):
        return {f"{'abcde'[c]}{r + 1}" for c in range(5) for r in range(5) if (c, r) not in self.shot[seat]}

    def play(self, moves):
        ((seat, move),) = moves.items()
        self.shot[seat].add(("abcde".index(move[0]), int(move[1]) - 1))
        self.seat = 1 - seat

    def returns(self):
        won = 1 - self.seat  # who shot last
        return [1.0 if seat == won else -1.0 for seat in (0, 1)]


def straight(cells):
    columns, rows = {c for c, _ in cells}, {r for _, r in cells}
    run = sorted(columns if len(rows) == 1 else rows)
    return min(len(columns), len(rows)) == 1 and run == list(range(run[0], run[0] + len(cells)))


class Wild:
    def __init__(self):
        self.board, self.seat, self.won = {}, 0, None

    def movers(self):
        return () if self.won is not None or len(self.board) == 9 else (self.seat,)

    def legal(self, seat):
        free = [f"{c}{r}" for c in "abc" for r in "123" if f"{c}{r}" not in self.board]
        return {f"{mark} {cell}" for mark in "xo" for cell in free}

    def play(self, moves):
        ((seat, move),) = moves.items()
        mark, cell = move.split()
        self.board[cell] = mark
        rows = [[f"{c}{r}" for c in "abc"] for r in "123"] + [[f"{c}{r}" for r in "123"] for c in "abc"]
        rows += [["a1", "b2", "c3"], ["a3", "b2", "c1"]]
        if any({self.board.get(cell) for cell in row} in ({"x"}, {"o"}) for row in rows):
            self.won = seat
        self.seat = 1 - seat

    def returns(self):
        return [0.0, 0.0] if self.won is None else [1.0 if seat == self.won else -1.0 for seat in (0, 1)]


class Cubic:
    """A line is four cells whose coordinates each stay, rise or fall: 76 of them."""

    def __init__(self):
        self.board, self.seat, self.won = {}, 0, None
        steps = [step for step in itertools.product((-1, 0, 1), repeat=3) if step > (0, 0, 0)]
        self.lines = []
        for start, step in itertools.product(itertools.product(range(4), repeat=3), steps):
            line = [tuple(s + n * d for s, d in zip(start, step, strict=True)) for n in range(4)]
            if all(0 <= each < 4 for cell in line for each in cell):
                self.lines.append(line)
        assert len(self.lines) == 76

    def movers(self):
        return () if self.won is not None or len(self.board) == 64 else (self.seat,)

    def legal(self, seat):
        cells = itertools.product(range(4), repeat=3)
        return {f"{'abcd'[c]}{r + 1}{z + 1}" for c, r, z in cells if (c, r, z) not in self.board}

    def play(self, moves):
        ((seat, move),) = moves.items()
        self.board["abcd".index(move[0]), int(move[1]) - 1, int(move[2]) - 1] = seat
        if any(all(self.board.get(cell) == seat for cell in line) for line in self.lines):
            self.won = seat
        self.seat = 1 - seat

    def returns(self):
        return [0.0, 0.0] if self.won is None else [1.0 if seat == self.won else -1.0 for seat in (0, 1)]


class Chain:
    def __init__(self, words):
        self.left, self.last, self.seat = set(words), "", 0
        assert len(self.left) == 18

    def legal(self, seat):
        return {word for word in self.left if not self.last or word[0] == self.last[-1]}

    def movers(self):
        return (self.seat,) if self.legal(self.seat) else ()

    def play(self, moves):
        ((seat, move),) = moves.items()
        self.left.remove(move)
        self.last, self.seat = move, 1 - seat

    def returns(self):
        return [-1.0 if seat == self.seat else 1.0 for seat in (0, 1)]


class Liars:
    def __init__(self, dice):
        self.dice, self.bids, self.called = dice, [], None

    def movers(self):
        return () if self.called is not None else (len(self.bids) % 4,)

    def legal(self, seat):
        bids = [(count, face) for count in range(1, 9) for face in range(1, 7)]
        higher = {f"{count}-{face}" for count, face in bids if not self.bids or (count, face) > self.bids[-1]}
        return higher | ({"liar"} if self.bids else set())

    def play(self, moves):
        ((seat, move),) = moves.items()
        if move == "liar":
            self.called = seat
        else:
            self.bids.append(tuple(map(int, move.split("-"))))

    def returns(self):
        count, face = self.bids[-1]
        true = sum(die in (face, 6) for die in itertools.chain(*self.dice)) >= count
        loser = self.called if true else (self.called - 1) % 4
        return [-1.0 if seat == loser else 1 / 3 for seat in range(4)]


class Auction:
    def __init__(self, values, second):
        self.values, self.second, self.bids = values, second, None

    def movers(self):
        return () if self.bids else tuple(range(len(self.values)))

    def legal(self, seat):
        return {str(bid) for bid in range(21)}

    def play(self, moves):
        self.bids = {seat: int(move) for seat, move in moves.items()}

    def returns(self):
        order = sorted(self.bids, key=lambda seat: (-self.bids[seat], seat))
        price = self.bids[order[1 if self.second else 0]]
        return [float(self.values[seat] - price) if seat == order[0] else 0.0 for seat in range(len(self.values))]


class Rounds:
    """The payoffs are read from the rules."""

    def __init__(self, rules):
        lines = re.findall(r"(\w+) against (\w+): (\d+) for seat 0, (\d+) for seat 1", rules)
        self.pays = {(mine, other): (float(first), float(second)) for mine, other, first, second in lines}
        assert len(self.pays) == 4
        self.sums, self.left = [0.0, 0.0], int(re.search(r"For (\d+) rounds", rules)[1])

    def movers(self):
        return (0, 1) if self.left else ()

    def legal(self, seat):
        return {mine for mine, _ in self.pays}

    def play(self, moves):
        self.sums = [each + paid for each, paid in zip(self.sums, self.pays[moves[0], moves[1]], strict=True)]
        self.left -= 1

    def returns(self):
        return self.sums


class Deal:
    """Turns, offers, accept and quit, of both negotiations."""

    def __init__(self, offers):
        self.offers, self.made, self.end = offers, [], ""

    def movers(self):
        return () if self.end or len(self.made) == 8 else (len(self.made) % 2,)

    def legal(self, seat):
        moves = {"quit"} | ({"accept"} if self.made else set())
        return moves | (set(self.offers) if len(self.made) < 7 else set())

    def play(self, moves):
        ((_, move),) = moves.items()
        if move in ("accept", "quit"):
            self.end = move
        else:
            self.made.append(move)


class Price(Deal):
    def __init__(self, cost, value):
        super().__init__([f"offer {price}" for price in range(31)])
        self.cost, self.value = cost, value

    def gains(self, price):
        return price - self.cost, self.value - price

    def returns(self):
        if self.end != "accept":
            return [0.0, 0.0]
        # (price - cost) (value - price) is greatest half-way; a gain counts at most twice that of the solution
        return [min(2.0, gain / ((self.value - self.cost) / 2)) for gain in self.gains(self.price)]

    @property
    def price(self):
        return int(self.made[-1].split()[1])


class Shares(Deal):
    def __init__(self, counts, worths):
        self.counts, self.worths = counts, worths
        self.all = list(itertools.product(*(range(count + 1) for count in counts)))
        super().__init__([f"keep {' '.join(map(str, kept))}" for kept in self.all])

    def gains(self, first):
        rest = [count - kept for count, kept in zip(self.counts, first, strict=True)]
        return tuple(
            sum(n * worth for n, worth in zip(share, worths, strict=True))
            for share, worths in zip((first, rest), self.worths, strict=True)
        )

    def returns(self):
        if self.end != "accept":
            return [0.0, 0.0]
        kept = tuple(map(int, self.made[-1].split()[1:]))
        if len(self.made) % 2 == 0:  # the last offer is seat 1's
            kept = tuple(count - n for count, n in zip(self.counts, kept, strict=True))
        best = max(a * b for a, b in map(self.gains, self.all))
        ways = {self.gains(first) for first in self.all if self.gains(first)[0] * self.gains(first)[1] == best}
        return [[min(2.0, gain / way[seat]) for way in ways] for seat, gain in enumerate(self.gains(kept))]


class Coup:
    """Told as one would at a table: each ``yield`` asks a seat for one of some moves."""

    class Over(Exception):
        pass

    def __init__(self, drawn):
        self.drawn, self.used = drawn, 0
        self.hands, self.coins = [[self.draw(), self.draw()] for _ in range(3)], [2, 2, 2]
        self.told = self.tell()
        self.asked = next(self.told)

    def draw(self):
        self.used += 1
        return self.drawn[self.used - 1]

    def movers(self):
        return (self.asked[0],) if self.asked else ()

    def legal(self, seat):
        return {*self.asked[1]}

    def play(self, moves):
        ((_, move),) = moves.items()
        try:
            self.asked = self.told.send(move)
        except (StopIteration, Coup.Over):
            self.asked = None

    def after(self, seat):
        return [other % 3 for other in range(seat + 1, seat + 3) if self.hands[other % 3]]

    def tell(self):
        seat = 0
        for _ in range(60):
            yield from self.turn(seat)
            seat = self.after(seat)[0]

    def turn(self, seat):
        moves = {f"coup {other}" for other in self.after(seat) if self.coins[seat] >= 7}
        if self.coins[seat] < 10:
            moves |= {"income", "foreign aid", "tax", "exchange"}
            moves |= {f"steal {other}" for other in self.after(seat) if self.coins[other] > 0}
            moves |= {f"assassinate {other}" for other in self.after(seat) if self.coins[seat] >= 3}
        word, _, at = (yield seat, moves).partition(" ")
        if word == "income":
            self.coins[seat] += 1
        elif word == "coup":
            self.coins[seat] -= 7
            yield from self.lose(int(at))
        elif word == "foreign":
            if not (yield from self.blocked(seat, self.after(seat), ["duke"])):
                self.coins[seat] += 2
        elif word == "tax":
            if (yield from self.stands(seat, "duke", self.after(seat))):
                self.coins[seat] += 3
        elif word == "exchange":
            if (yield from self.stands(seat, "ambassador", self.after(seat))):
                cards = [*self.hands[seat], self.draw(), self.draw()]
                kept = itertools.combinations(sorted(cards), len(cards) - 2)
                self.hands[seat] = (yield seat, {f"keep {' '.join(each)}" for each in kept}).split()[1:]
        elif word == "steal":
            target = int(at)
            if (yield from self.stands(seat, "captain", self.after(seat))) and not (
                self.hands[target] and (yield from self.blocked(seat, [target], ["captain", "ambassador"]))
            ):
                taken = 2 if self.coins[target] > 1 else self.coins[target]
                self.coins[target] -= taken
                self.coins[seat] += taken
        else:
            target = int(at)
            if (yield from self.stands(seat, "assassin", self.after(seat))):
                self.coins[seat] -= 3
                if self.hands[target] and not (yield from self.blocked(seat, [target], ["contessa"])):
                    yield from self.lose(target)

    def blocked(self, seat, others, roles):
        for other in others:
            word, _, role = (yield other, {"allow", *(f"block {role}" for role in roles)}).partition(" ")
            if word == "block":
                doubters = [each for each in (seat, *self.after(seat)) if each != other]
                return (yield from self.stands(other, role, doubters))
        return False

    def stands(self, seat, role, doubters):
        for other in doubters:
            if (yield other, {"allow", "challenge"}) == "challenge":
                cards = {f"lose {card}" for card in self.hands[seat]}
                word, card = (yield seat, cards | ({f"show {role}"} if role in self.hands[seat] else set())).split()
                self.hands[seat].remove(card)
                if word == "show":
                    self.hands[seat].append(self.draw())
                    yield from self.lose(other)
                else:
                    self.check()
                return word == "show"
        return True

    def lose(self, seat):
        if self.hands[seat]:
            card = yield seat, {f"lose {card}" for card in self.hands[seat]}
            self.hands[seat].remove(card.split()[1])
            self.check()

    def check(self):
        if sum(map(bool, self.hands)) < 2:
            raise Coup.Over

    def returns(self):
        if sum(map(bool, self.hands)) > 1:
            return [0.0, 0.0, 0.0]
        return [1.0 if hand else -0.5 for hand in self.hands]


def second(name, referee, match):
    """Our second implementation of a game, with the chance of this match."""
    drawn = [event.move for event in match.log if event.actor == CHANCE]
    if name == "BattleshipDuel":
        return Battleship([referee.observe(match, seat).split("(S ship):\n")[1].split("\nYour")[0].partition("\n")[2]
                           for seat in (0, 1)])  # fmt: skip
    if name == "WordChain":
        return Chain(drawn)
    if name == "LiarsDiceTable":
        return Liars([tuple(map(int, drawn[at : at + 2])) for at in range(0, 8, 2)])
    if name == "Coup":
        return Coup(drawn)
    if name in ("SealedAuction", "VickreyAuction"):
        return Auction(list(map(int, drawn)), name == "VickreyAuction")
    if name in ("PrisonersDilemma", "StagHunt", "Chicken"):
        return Rounds(referee.game.rules())
    if name == "PriceNegotiation":
        assert "gain at least half of what the thing is worth above its cost" in referee.game.rules()
        return Price(*map(int, drawn))
    if name == "ShareNegotiation":
        counts, *worths = [tuple(map(int, text.split())) for text in drawn]
        return Shares(counts, worths)
    return {"WildTicTacToe": Wild, "CubicTicTacToe": Cubic}[name]()


@pytest.mark.parametrize("name", [
    "BattleshipDuel", "WildTicTacToe", "CubicTicTacToe", "WordChain", "LiarsDiceTable", "SealedAuction",
    "VickreyAuction", "PrisonersDilemma", "StagHunt", "Chicken", "PriceNegotiation", "ShareNegotiation",
    "Coup",
])  # fmt: skip
def test_a_second_implementation_has_the_same_movers_moves_and_returns(name):
    referee, ended = Referee(make_game(name)), set()
    for key in range(MATCHES):
        rng, match = random.Random(key), referee.begin(f"twice {key}")
        other = second(name, referee, match)
        while movers := referee.to_move(match):
            assert other.movers() == movers
            moves = {}
            for seat in movers:
                legal = referee.legal(match, seat)
                assert set(legal) == other.legal(seat)
                assert len({*legal}) == len(legal)
                # negotiations are often broken off by chance: accept more often
                moves[seat] = "accept" if "accept" in legal and rng.random() < 0.2 else rng.choice(legal)
            for seat, move in moves.items():
                match = referee.act(match, seat, move)
            assert not any(match.faults)
            other.drawn = [event.move for event in match.log if event.actor == CHANCE]
            other.play(moves)
        assert other.movers() == ()
        for mine, theirs in zip(referee.returns(match), other.returns(), strict=True):
            if isinstance(theirs, list):  # several deals have the greatest product
                assert any(mine == pytest.approx(value) for value in theirs)
            else:
                assert mine == pytest.approx(theirs)
        ended.add(tuple(referee.returns(match)))
    assert len(ended) > 1


def test_moves_of_coup_are_read_in_other_words_and_seats_are_two_to_six():
    game = make_game("Coup", seats=2)
    referee = Referee(game)
    match = referee.begin(1)
    for text, move in (("steal from seat 1", "steal 1"), ("Foreign aid.", "foreign aid"), ("\\boxed{Tax}", "tax")):
        assert referee.read(match, 0, text) == move
    aided = referee.act(match, 0, "foreign aid")
    assert [referee.read(aided, 1, text) for text in ("pass", "block as the duke")] == ["allow", "block duke"]
    for text in ("block contessa", "challenge", "steal 0", "coup 0", "block", "allow, block duke"):
        with pytest.raises(IllegalText):
            referee.read(aided, 1, text)
    state = match.state._replace(hands=(("captain", "contessa", "duke", "duke"), ("duke", "captain")), phase="keep")
    assert referee.read(match._replace(state=state), 0, "keep duke contessa") == "keep contessa duke"
    for seats in (1, 7):
        with pytest.raises(ValueError, match="seats must be 2 to 6"):
            make_game("Coup", seats=seats)
