"""Stratego: two armies whose ranks are hidden until they meet."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.core.seeding import stream
from rlvr.envs.players.boards import won_by_seat
from rlvr.envs.players.game import CHANCE, COLUMNS, SeatGame, cell_names, evenly

RANKS: Final = "FBS23456789M"
SIDES: Final = ("ABCDEFGHIJKL", "abcdefghijkl")  # how cells name the ranks of each seat
FLAG, BOMB, SPY, SCOUT, MINER, MARSHAL = (RANKS.index(sign) for sign in "FBS23M")
RANK_OF: Final = {piece: rank for side in SIDES for rank, piece in enumerate(side)}
EMPTY, LAKE, UNKNOWN = ".~?"
STILL, MOVED, SEEN = "umk"  # what both know of a piece: it has not moved, it has, or its rank
REPEATS: Final = 5  # moves of a piece in a row between the same two cells
DIGITS, DRAWS = 1024, 3  # a setup is drawn as a number of three digits of 1024 each
DRAWN: Final = 2
_CELL: Final = re.compile(r"[a-j](?:10|[1-9])(?![0-9])")


class Field(NamedTuple):
    """A board and its armies: ``rows`` of pieces on each side, lakes, and the moves after which the game is drawn."""

    size: int
    rows: int
    lakes: str
    army: str
    limit: int


FIELDS: Final = {
    "small": Field(6, 2, "b3 b4 e3 e4", "FBBS2233579M", 120),
    "barrage": Field(10, 4, "c5 c6 d5 d6 g5 g6 h5 h6", "FBS2239M", 240),
    "medium": Field(8, 3, "c4 c5 f4 f5", "FBBBBS22222333445566789M", 240),
    "standard": Field(
        10, 4, "c5 c6 d5 d6 g5 g6 h5 h6", "FBBBBBBS" + "2" * 8 + "3" * 5 + "444455556666" + "777889M", 500
    ),
}
BY_LEVEL: Final = ("small", "barrage", "medium", "standard", "standard")


class StrategoState(NamedTuple):
    """``cells`` and ``marks`` row by row, one sign each; in a view the other's unknown pieces are ``?``.

    ``digits`` are the numbers drawn for each seat's setup, ``lost`` the pieces that each has lost, ``trails`` each
    seat's last move and how often its piece has gone between these two cells, ``news`` the last move's fight.
    ``winner`` is the seat that has won, 2 for a draw, or -1.
    """

    field: str
    cells: str
    marks: str
    digits: tuple[tuple[int, ...], ...] = ((), ())
    lost: tuple[str, str] = ("", "")
    turn: int = 0
    moves: int = 0
    trails: tuple[tuple[int, int, int], ...] = ((-1, -1, 0), (-1, -1, 0))
    news: tuple[str, str] = ("", "")
    winner: int = -1


class Stratego(SeatGame[StrategoState]):
    """Stratego: take the flag of an army whose ranks you learn in fights.

    Args:
        board: ``small``, ``barrage``, ``medium`` or ``standard``; None: the level's, and small where there is none.
    """

    title = "Stratego"
    perfect_information = False
    level_bots = ("random", "mixed:0.8", "mixed:0.3", "mixed:0.2", "expert")
    nouns = ("cell", "from", "the", "piece", "moves")

    def __init__(self, *, board: str | None = None) -> None:
        if board is not None and board not in FIELDS:
            raise ValueError(f"board must be one of {', '.join(FIELDS)}, not {board!r}")
        self.chosen = board is not None
        self.board = board or "small"
        self.decisions = FIELDS[self.board].limit // 2

    def on_level(self, level: int) -> Stratego:
        return self if self.chosen else Stratego(board=BY_LEVEL[level - 1])

    def rules(self) -> str:
        return (
            "Stratego. The pieces are M marshal (strongest), 9 general, 8 colonel, 7 major, 6 captain, 5 lieutenant, "
            "4 sergeant, 3 miner, 2 scout, S spy (weakest), B bomb and F flag; B and F never move. Chance sets up "
            "both armies: the flag in the back row, a piece in front of it, bombs often beside it, neither bombs nor "
            "the spy in the front row. A piece moves one cell along its row or column, a scout any number of free "
            "cells; no piece enters a lake (~). Moving onto a piece of the other is a fight in which both ranks are "
            "shown: the weaker falls, equal ones both fall, and a winner that moved stands on the cell. A bomb beats "
            "all but miners, who remove it; a spy beats the marshal if it attacks. Who takes the flag wins; a seat "
            "without a legal move loses. A piece "
            f"may go between the same two cells {REPEATS} times in a row, then not at once again. A move is two cells, "
            "such as a2 a3. On the board yours are plain (7* if the other knows it), the other's have an x: x7 known, "
            "x? unknown, x+ unknown and moved before."
        )

    def start(self) -> StrategoState:
        field = FIELDS[self.board]
        lakes = {*field.lakes.split()}
        cells = "".join(LAKE if name in lakes else EMPTY for name in cell_names(field.size, field.size))
        return StrategoState(self.board, cells, " " * len(cells))

    def actors(self, state: StrategoState) -> tuple[int, ...]:
        if len(state.digits[1]) < DRAWS:
            return (CHANCE,)
        return () if state.winner >= 0 else (state.turn,)

    def chance(self, state: StrategoState) -> Sequence[tuple[str, float]]:
        return _DIGIT_DRAWS

    def owner(self, state: StrategoState) -> int:
        """The seat whose setup is drawn: seat 0 first."""
        return int(len(state.digits[0]) == DRAWS)

    def witnesses(self, state: StrategoState, actor: int) -> Sequence[int]:
        return (self.owner(state),) if actor == CHANCE else (0, 1)

    def legal(self, state: StrategoState, seat: int) -> list[str]:
        names = cell_names(*(FIELDS[state.field].size,) * 2)
        return [f"{names[start]} {names[end]}" for start, end in moves_of(state, seat)]

    def parse(self, view: StrategoState, seat: int, words: str) -> str:
        """Also reads ``a2-a3``, ``a2 to a3`` and ``a2a3``."""
        found = _CELL.findall(words)
        rest = _CELL.sub(" ", words).replace("-", " ").replace(">", " ").replace("x", " ").replace("to", " ")
        return " ".join(found) if len(found) == 2 and not rest.strip("()[], ") else words

    def apply(self, state: StrategoState, seat: int, move: str) -> StrategoState:
        if seat == CHANCE:
            return self._drawn(state, int(move))
        size = FIELDS[state.field].size
        start, end = (COLUMNS.index(name[0]) + size * (int(name[1:]) - 1) for name in move.split())
        cells, marks, lost = list(state.cells), list(state.marks), list(state.lost)
        mine, other, mark, news, winner = cells[start], cells[end], marks[start], "", -1
        cells[start], marks[start] = EMPTY, " "
        far = abs(end // size - start // size) + abs(end % size - start % size)
        if other == EMPTY:
            cells[end], marks[end] = mine, SEEN if mark == SEEN or far > 1 else MOVED  # only scouts go far
        else:
            result = fight(RANK_OF[mine], RANK_OF[other])
            lost[seat] += RANKS[RANK_OF[mine]] * (result <= 0)
            lost[1 - seat] += RANKS[RANK_OF[other]] * (result >= 0)
            cells[end] = (EMPTY, mine, other)[result]
            marks[end] = SEEN if result else " "
            winner = seat if RANK_OF[other] == FLAG else -1
            news = f"{RANKS[RANK_OF[mine]]} {RANKS[RANK_OF[other]]} {move.split()[1]}"
        a, b, count = state.trails[seat]
        trail = (start, end, count + 1 if (a, b) == (end, start) else 1)
        after = state._replace(
            cells="".join(cells),
            marks="".join(marks),
            lost=(lost[0], lost[1]),
            turn=1 - seat,
            moves=state.moves + 1,
            trails=(state.trails[0], trail) if seat else (trail, state.trails[1]),
            news=(state.news[0], news) if seat else (news, state.news[1]),
        )
        return after._replace(winner=winner if winner >= 0 else self._ended(after))

    @staticmethod
    def _ended(state: StrategoState) -> int:
        """The seat that wins as the one to move cannot, 2 where neither can or the moves are used up, else -1."""
        mover = state.turn
        if next(moves_of(state, mover), None) is None:
            return 1 - mover if next(moves_of(state, 1 - mover), None) else DRAWN
        return DRAWN if state.moves >= FIELDS[state.field].limit else -1

    def _drawn(self, state: StrategoState, digit: int) -> StrategoState:
        owner = self.owner(state)
        mine = (*state.digits[owner], digit)
        digits = (state.digits[0], mine) if owner else (mine, state.digits[1])
        if len(mine) < DRAWS:
            return state._replace(digits=digits)
        setup = setup_of(state.field, mine)
        setup = setup[::-1] if owner else setup
        pieces = "".join(EMPTY if sign == EMPTY else SIDES[owner][RANKS.index(sign)] for sign in setup)
        marks = "".join(" " if sign == EMPTY else STILL for sign in setup)
        cells, old, count = state.cells, state.marks, len(setup)
        if owner:
            return state._replace(cells=cells[:-count] + pieces, marks=old[:-count] + marks, digits=digits)
        return state._replace(cells=pieces + cells[count:], marks=marks + old[count:], digits=digits)

    def returns(self, state: StrategoState) -> tuple[float, ...]:
        return won_by_seat(-1 if state.winner == DRAWN else state.winner)

    # what a seat reads

    def view(self, state: StrategoState, seat: int) -> StrategoState:
        """Hides the ranks of the other's pieces that no fight has shown, also after the game."""
        others = SIDES[1 - seat]
        cells = "".join(
            UNKNOWN if cell in others and mark != SEEN else cell
            for cell, mark in zip(state.cells, state.marks, strict=True)
        )
        digits = ((), state.digits[1]) if seat else (state.digits[0], ())
        return state._replace(cells=cells, digits=digits)

    def show(self, view: StrategoState, seat: int) -> str:
        size, limit = FIELDS[view.field].size, FIELDS[view.field].limit
        signs = [self._sign(cell, mark, seat) for cell, mark in zip(view.cells, view.marks, strict=True)]
        lines = [" " * 4 + "  ".join(COLUMNS[:size])]
        lines += [f"{row + 1:>2} " + " ".join(signs[row * size : (row + 1) * size]).rstrip() for row in range(size)]
        lines.append(f"{view.moves} of {limit} moves are made; then the game is drawn.")
        for who in (1 - seat, seat) if view.turn == seat else (seat, 1 - seat):
            if view.news[who]:
                lines.insert(0, _report(view.news[who], who, seat))
        lines.append(f"The other still has {counts(_left(view, 1 - seat))}.")
        return "\n".join(lines)

    @staticmethod
    def _sign(cell: str, mark: str, seat: int) -> str:
        if cell in (EMPTY, LAKE):
            return f" {cell}"
        if cell == UNKNOWN:
            return "x+" if mark == MOVED else "x?"
        rank = RANKS[RANK_OF[cell]]
        return f"x{rank}" if cell in SIDES[1 - seat] else f"{rank}*" if mark == SEEN else f" {rank}"

    # the expert

    def expert(self, view: StrategoState, seat: int, rng: random.Random) -> str:
        """The move of most expected gain by what the seat knows; it weighs fights, dangers and ways to targets."""
        mind = Mind(view, seat)
        names = cell_names(*(FIELDS[view.field].size,) * 2)
        start, end = max(moves_of(view, seat), key=lambda move: mind.worth(*move) + rng.random())
        return f"{names[start]} {names[end]}"


_DIGIT_DRAWS: Final = evenly(range(DIGITS))


def fight(attacker: int, defender: int) -> int:
    """1 where the attacking rank wins, -1 where it falls, 0 where both do."""
    if defender == FLAG or (attacker, defender) in ((MINER, BOMB), (SPY, MARSHAL)):
        return 1
    return -1 if defender == BOMB else (attacker > defender) - (attacker < defender)


@lru_cache(maxsize=8)
def rays(field: str) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each cell the cells in each of four directions up to the edge or a lake, the nearest first."""
    size = FIELDS[field].size
    lakes = {*FIELDS[field].lakes.split()}
    land = [name not in lakes for name in cell_names(size, size)]
    found = []
    for cell in range(size * size):
        lines = []
        for down, right in ((-1, 0), (0, -1), (0, 1), (1, 0)):
            row, column, line = cell // size + down, cell % size + right, []
            while 0 <= row < size and 0 <= column < size and land[row * size + column]:
                line.append(row * size + column)
                row, column = row + down, column + right
            lines.append(tuple(line))
        found.append(tuple(line for line in lines if line) if land[cell] else ())
    return tuple(found)


def moves_of(state: StrategoState, seat: int) -> Iterator[tuple[int, int]]:
    """Every legal move, from cell and to cell; of the other's pieces it reads only where they stand."""
    cells, side, ways = state.cells, SIDES[seat], rays(state.field)
    a, b, count = state.trails[seat]
    barred = (b, a) if count >= REPEATS else None
    movable, scout = side[SPY:], side[SCOUT]
    for start, piece in enumerate(cells):
        if piece not in movable:
            continue
        for line in ways[start]:
            for end in line:
                there = cells[end]
                if there not in side and (start, end) != barred:
                    yield start, end
                if there != EMPTY or piece != scout:
                    break


@lru_cache(maxsize=256)
def setup_of(field: str, digits: tuple[int, ...]) -> str:
    """The ranks of a setup from its back row on: the flag there, no bomb and no spy in front, bombs near the flag."""
    size, rows, _, army, _ = FIELDS[field]
    rng = stream("Stratego setup", field, *digits)
    flag = rng.randrange(size)
    setup, free, rest = {flag: "F"}, {*range(size * rows)} - {flag}, list(army[1:])
    if len(army) < size * rows:  # a piece in front keeps scouts off
        rng.shuffle(rest)
        setup[flag + size] = rest.pop()
        free.remove(flag + size)
    for sign in sorted(rest, key=RANKS.index):
        behind = sorted(cell for cell in free if cell < size * (rows - 1))
        if sign == "B":
            near = [cell for cell in behind if abs(cell // size) + abs(cell % size - flag) == 1]
            cell = rng.choice(near if near and rng.random() < 0.8 else behind)
        else:
            back = [cell for cell in free if cell < size] * 2 if len(army) < size * rows else []
            cell = rng.choice(behind if sign == "S" else sorted([*free, *back]))
        setup[cell] = sign
        free.remove(cell)
    return "".join(setup.get(cell, EMPTY) for cell in range(size * rows))


def _left(state: StrategoState, seat: int) -> str:
    """The pieces that a seat still has, by its army and what it has lost, weakest first."""
    lost = state.lost[seat]
    return "".join(sign * (FIELDS[state.field].army.count(sign) - lost.count(sign)) for sign in RANKS)


def counts(pieces: str) -> str:
    """``F, B x2, S, M``."""
    signs = dict.fromkeys(pieces)
    return ", ".join(sign + f" x{pieces.count(sign)}" * (pieces.count(sign) > 1) for sign in signs) or "no piece"


def _report(news: str, who: int, seat: int) -> str:
    """A fight in words."""
    attacker, defender, cell = news.split()
    mine, other = ("Your", "the other's") if who == seat else ("The other's", "your")
    result = fight(RANKS.index(attacker), RANKS.index(defender))
    end = ("both fell", f"{attacker} won", f"{defender} won")[result]
    return f"{mine} {attacker} attacked {other} {defender} on {cell}: {end}."


# how the expert judges

VALUES: Final = (300, 12, 30, 10, 20, 14, 18, 26, 40, 60, 80, 100)


@lru_cache(maxsize=8)
def distances(field: str) -> tuple[tuple[int, ...], ...]:
    """The steps between any two cells around the lakes; 99 where there is no way."""
    ways, count = rays(field), FIELDS[field].size ** 2
    table = []
    for cell in range(count):
        far, layer = [99] * count, [cell]
        far[cell], steps = 0, 0
        while layer:
            steps += 1
            layer = [line[0] for at in layer for line in ways[at]]
            layer = [at for at in dict.fromkeys(layer) if far[at] == 99]
            for at in layer:
                far[at] = steps
        table.append(tuple(far))
    return tuple(table)


NEAR: Final = (0, 200, 120, 60, 30)  # what it is worth to take a piece at so many steps from the own flag


def worths(pieces: str) -> list[float]:
    """What each rank of an army is worth: more where few pieces that move are left, miners where few are."""
    movable = sum(sign not in "FB" for sign in pieces) or 1
    scale = 1 + 8 / movable**2
    found = [VALUES[FLAG], *(value * scale for value in VALUES[BOMB:])]
    found[MINER] *= 1 + 1.5 / max(1, pieces.count("3"))
    return found


class Mind:
    """What a seat's view says about the other's pieces, and what a move is worth by it."""

    def __init__(self, view: StrategoState, seat: int) -> None:
        self.view, self.seat, self.side = view, seat, SIDES[seat]
        self.ways, self.far = rays(view.field), distances(view.field)
        self.odds = self._beliefs()
        self.own, self.theirs = worths(_left(view, seat)), worths(_left(view, 1 - seat))
        self.flag = view.cells.index(self.side[FLAG])
        self.near = [self.far[self.flag][cell] for cell in range(len(view.cells))]
        self._gains: dict[tuple[int, int], float] = {}
        self._pulls: dict[tuple[int, int], float] = {}
        self.threats = [
            threat
            for cell, piece in enumerate(view.cells)
            if piece in self.side and cell != self.flag
            for threat in self._threats(RANK_OF[piece], cell, view.marks[cell] == SEEN)
        ]

    def _beliefs(self) -> dict[int, dict[int, float]]:
        """The probability of each rank for each of the other's pieces, as if all setups were equally likely."""
        view, seat = self.view, self.seat
        size, rows = FIELDS[view.field].size, FIELDS[view.field].rows
        pool = [_left(view, 1 - seat).count(sign) for sign in RANKS]
        hidden: list[int] = []
        odds: dict[int, dict[int, float]] = {}
        for cell, sign in enumerate(view.cells):
            if sign == UNKNOWN:
                hidden.append(cell)
            elif sign in SIDES[1 - seat]:
                odds[cell] = {RANK_OF[sign]: 1.0}
                pool[RANK_OF[sign]] -= 1
        depth = {cell: (size - 1 - cell // size) if seat == 0 else cell // size for cell in hidden}
        still = [cell for cell in hidden if view.marks[cell] == STILL]
        backs = [cell for cell in still if depth[cell] == 0]
        bombable = [cell for cell in still if depth[cell] < rows - 1]
        weights = {cell: self._walled(cell) for cell in backs}
        flags = {cell: pool[FLAG] * weights[cell] / sum(weights.values()) for cell in backs}
        room = sum(1 - flags.get(cell, 0.0) for cell in bombable)
        mobile = sum(pool[SPY:]) or 1
        for cell in hidden:
            flag = flags.get(cell, 0.0)
            bomb = pool[BOMB] * (1 - flag) / room if room and cell in bombable else 0.0
            rest = max(0.0, 1 - flag - bomb) / mobile
            odds[cell] = {rank: pool[rank] * rest for rank in range(SPY, 12) if pool[rank]}
            odds[cell].update({rank: share for rank, share in ((FLAG, flag), (BOMB, bomb)) if share})
        return odds

    def _walled(self, cell: int) -> float:
        """How likely the flag stands on a cell of the back row, by which cells beside it may have bombs."""
        weight = 1.0
        for line in self.ways[cell]:
            sign, mark = self.view.cells[line[0]], self.view.marks[line[0]]
            weight *= 2.0 if sign == SIDES[1 - self.seat][BOMB] else 1.0 if sign == UNKNOWN and mark == STILL else 0.5
        return weight

    def gain(self, rank: int, cell: int) -> float:
        """What an attack of a rank on a piece of the other wins on average, with a part of what it uncovers."""
        key = rank, cell
        if key not in self._gains:
            total = 0.0
            for other, share in self.odds[cell].items():
                result = fight(rank, other)
                total += share * (self.theirs[other] * (result >= 0) - self.own[rank] * (result <= 0))
                if len(self.odds[cell]) > 1 and other > BOMB:
                    total += share * 0.15 * self.theirs[other]
            self._gains[key] = total
        return self._gains[key]

    def pull(self, rank: int, cell: int) -> float:
        """How much the best target of a rank draws it on at a cell; who comes near the own flag draws more."""
        key = rank, cell
        if key not in self._pulls:
            best, far = 0.0, self.far[cell]
            for target in self.odds:
                gain = self.gain(rank, target)
                if self.near[target] < 5 and gain > -self.own[rank] / 2:
                    gain = max(gain, 0.0) + (NEAR[self.near[target]] if self.view.marks[target] != STILL else 0)
                best = max(best, gain * 0.75 ** far[target]) if gain > 0 else best
            self._pulls[key] = best
        return self._pulls[key]

    def _threats(
        self, rank: int, cell: int, known: bool, start: int = -1, end: int = -1
    ) -> Iterator[tuple[int, int, float]]:
        """The cell, who may attack it and what that takes from a rank that stands there, after a move if one is given.

        Scouts come from afar.
        """
        cells = self.view.cells
        for line in self.ways[cell]:
            by = next((at for at in line if at == end or (cells[at] != EMPTY and at != start)), -1)
            if by == end or not (odds := self.odds.get(by)):
                continue
            loss = sum(
                share * (self.own[rank] - self.theirs[other] * (fight(other, rank) == 0))
                for other, share in odds.items()
                if other > BOMB and fight(other, rank) >= 0 and (by == line[0] or other == SCOUT)
            )
            if loss > 0:
                certain = 0.9 if len(odds) == 1 else 0.8 if rank == FLAG else 0.4
                yield cell, by, loss * certain * (1.0 if known else 0.6)

    def _threatened(self, threats: Sequence[tuple[int, int, float]], start: int, end: int, share: float) -> float:
        """The largest threat after a move that takes the piece where it ends with some probability."""
        most = total = 0.0
        for cell, by, loss in (*threats, *self._threats(FLAG, self.flag, False, start, end)):
            if cell != start:
                left = loss * (1 - share) if by == end else loss
                most, total = max(most, left), total + left
        return 0.85 * most + 0.15 * total

    def worth(self, start: int, end: int) -> float:
        """What a move gains on average: a fight, a way to a target, and less for the other to take."""
        view, rank = self.view, RANK_OF[self.view.cells[start]]
        known = view.marks[start] == SEEN
        if end not in self.odds:
            shown = not known and self.far[start][end] > 1
            new = self._threats(rank, end, known or shown, start)
            ahead = self.pull(rank, end) - self.pull(rank, start) - 2.0 * shown
            return ahead - self._threatened([*self.threats, *new], start, end, 0.0)
        wins = sum(share for other, share in self.odds[end].items() if fight(rank, other) > 0)
        falls = sum(share for other, share in self.odds[end].items() if fight(rank, other) == 0)
        met = [(cell, by, loss * wins) for cell, by, loss in self._threats(rank, end, True, start)]
        total = self.gain(rank, end) - (0.0 if known else 0.08 * self.own[rank])
        return total - self._threatened([*self.threats, *met], start, end, wins + falls)
