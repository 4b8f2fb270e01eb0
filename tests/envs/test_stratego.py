"""Stratego beside rules written anew, piece by piece; what a seat reads says nothing of pieces that it has not seen."""

from __future__ import annotations

import itertools
import pickle
import random
from collections import Counter

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import IllegalText, Referee
from rlvr.envs.players.stratego import (
    BOMB,
    FIELDS,
    FLAG,
    RANK_OF,
    RANKS,
    REPEATS,
    SEEN,
    SIDES,
    UNKNOWN,
    StrategoState,
    fight,
    setup_of,
)  # fmt: skip

ARMIES = {
    "small": "F1 B2 S1 2:2 3:2 5:1 7:1 9:1 M1", "barrage": "F1 B1 S1 2:2 3:1 9:1 M1",
    "medium": "F1 B4 S1 2:5 3:3 4:2 5:2 6:2 7:1 8:1 9:1 M1",
    "standard": "F1 B6 S1 2:8 3:5 4:4 5:4 6:4 7:3 8:2 9:1 M1",
}  # fmt: skip
# Who falls, by the printed table: the row attacks the column F B S 2 3 4 5 6 7 8 9 M; a attacker, d defender, b both.
TABLE = {
    "S": "dabaaaaaaaad", "2": "dadbaaaaaaaa", "3": "ddddbaaaaaaa", "4": "dadddbaaaaaa",
    "5": "daddddbaaaaa", "6": "dadddddbaaaa", "7": "daddddddbaaa", "8": "dadddddddbaa", "9": "daddddddddba",
    "M": "dadddddddddb",
}  # fmt: skip


class Table:
    """A board of (owner, sign) by (column, row) from 1, with the moves of each seat kept whole."""

    def __init__(self, state):
        self.size = FIELDS[state.field].size
        self.limit = FIELDS[state.field].limit
        self.lakes, self.men = set(), {}
        for at, cell in enumerate(state.cells):
            point = at % self.size + 1, at // self.size + 1
            if cell == "~":
                self.lakes.add(point)
            elif cell != ".":
                self.men[point] = int(cell.islower()), RANKS["abcdefghijkl".index(cell.lower())]
        self.turn, self.past, self.winner = 0, ([], []), None

    def free(self, seat, start, end):
        """Whether a piece of a seat may go from one point to another, judged from the two points alone."""
        if start == end or self.men.get(start, (None,))[0] != seat or self.men.get(end, (None,))[0] == seat:
            return False
        (x, y), (to_x, to_y) = start, end
        if end in self.lakes or (x != to_x and y != to_y) or self.men[start][1] in "FB":
            return False
        far = abs(x - to_x) + abs(y - to_y)
        if far > 1 and self.men[start][1] != "2":
            return False
        across, down = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
        between = [(x + across * step, y + down * step) for step in range(1, far)]
        if any(point in self.men or point in self.lakes for point in between):
            return False
        last = self.past[seat][-5:]
        shuttle = len(last) == 5 and last[-1] == (end, start) and {*last[::2]} == {(end, start)}
        return not (shuttle and {*last[1::2]} == {(start, end)})

    def legal(self, seat):
        points = [(x, y) for x in range(1, self.size + 1) for y in range(1, self.size + 1)]
        return {(a, b) for a in self.men if self.men[a][0] == seat for b in points if self.free(seat, a, b)}

    def play(self, start, end):
        seat, sign = self.men.pop(start)
        self.past[seat].append((start, end))
        if end in self.men:
            other = self.men[end][1]
            fallen = TABLE[sign]["FBS23456789M".index(other)]
            if other == "F":
                self.winner = seat
            if fallen in "db":
                del self.men[end]
            if fallen == "d":
                self.men[end] = seat, sign
        else:
            self.men[end] = seat, sign
        self.turn = 1 - seat
        if self.winner is None:
            stuck = [not self.legal(each) for each in (0, 1)]
            if stuck[self.turn]:
                self.winner = 2 if all(stuck) else seat
            elif sum(map(len, self.past)) == self.limit:
                self.winner = 2


def named(move):
    return " ".join("abcdefghij"[x - 1] + str(y) for x, y in move)


def matches(board, key, expert=0.0, **game):
    """The matches of random play, with a share of the expert's moves, and the moves that lead on."""
    rules = make_game("Stratego", board=board, **game)
    referee, rng = Referee(rules), random.Random(key)
    match = referee.begin(str(key))
    while movers := referee.to_move(match):
        (seat,) = movers
        view = rules.view(match.state, seat)
        move = rules.expert(view, seat, rng) if rng.random() < expert else rng.choice(rules.legal(view, seat))
        yield referee, match, seat, move
        match = referee.play(match, seat, move)
    yield referee, match, -1, ""


def test_the_table_of_fights_is_the_printed_one():
    for attacker in RANKS[2:]:
        for defender, fallen in zip(RANKS, TABLE[attacker], strict=True):
            assert fight(RANKS.index(attacker), RANKS.index(defender)) == {"d": 1, "b": 0, "a": -1}[fallen]


@pytest.mark.slow
@pytest.mark.parametrize(("board", "count"), [("small", 20), ("barrage", 8), ("medium", 4), ("standard", 3)])
def test_no_legal_move_is_refused_and_no_illegal_one_accepted(board, count):
    ended = set()
    for key in range(count):
        table = None
        for referee, match, seat, move in matches(board, key, expert=key % 3 / 2):
            state = match.state
            table = table or Table(state)
            assert table.men == Table(state).men
            assert (state.winner, state.moves) == (
                -1 if table.winner is None else table.winner,
                sum(map(len, table.past)),
            )
            if seat >= 0:
                assert {named(each) for each in table.legal(seat)} == {*referee.legal(match, seat)}
                assert seat == table.turn
                points = [("abcdefghij".index(name[0]) + 1, int(name[1:])) for name in move.split()]
                table.play(*points)
        ended.add(state.winner)
        for who in (0, 1):
            left = Counter(sign for owner, sign in table.men.values() if owner == who)
            assert left + Counter(state.lost[who]) == Counter(FIELDS[board].army)
    assert len(ended) > 1


def test_armies_are_the_stated_ones_and_setups_keep_to_what_the_rules_say():
    for board, (size, rows, lakes, army, _) in FIELDS.items():
        parts = [part.replace(":", "") for part in ARMIES[board].split()]
        assert Counter(army) == {part[0]: int(part[1:]) for part in parts}
        assert len(FIELDS["standard"].army) == 40
        beside, seen = 0, set()
        for number in range(200):
            setup = setup_of(board, (number, 1, 2))
            seen.add(setup)
            assert Counter(setup.replace(".", "")) == Counter(army)
            flag, front = setup.index("F"), setup[size * (rows - 1) :]
            assert flag < size
            assert not {*"FBS"} & {*front}
            assert setup[flag + size] != "."
            near = [flag + size, *([flag - 1] * (flag > 0)), *([flag + 1] * (flag < size - 1))]
            beside += any(setup[cell] == "B" for cell in near)
            open_front = [at for at, sign in enumerate(front) if sign != "." and "abcdefghij"[at] not in lakes]
            assert open_front or len(army) < size * rows  # no blockade
        assert len(seen) == 200
        assert beside > 100


@settings(max_examples=60)
@given(st.data())
def test_what_a_seat_reads_does_not_change_with_pieces_that_it_has_not_seen(data):
    board = data.draw(st.sampled_from([*FIELDS]))
    key, stop = data.draw(st.integers(0, 30)), data.draw(st.integers(0, 80))
    *_, (referee, match, mover, _) = itertools.islice(matches(board, key), stop + 1)
    game, state, seat = referee.game, match.state, data.draw(st.sampled_from((0, 1)))
    theirs = [cell for cell, sign in enumerate(state.cells) if sign in SIDES[1 - seat] and state.marks[cell] != SEEN]
    moved = [cell for cell in theirs if state.marks[cell] == "m"]
    still = [cell for cell in theirs if cell not in moved]
    pieces = data.draw(st.permutations([state.cells[cell] for cell in theirs]))
    fixed = [piece for piece in pieces if RANK_OF[piece] in (FLAG, BOMB)]
    free = [piece for piece in pieces if piece not in fixed]
    cells = list(state.cells)
    for cell, piece in zip(moved, free, strict=False):
        cells[cell] = piece
    rest = data.draw(st.permutations(fixed + free[len(moved) :]))
    for cell, piece in zip(still, rest, strict=True):
        cells[cell] = piece
    digits = tuple((1, 2, 3) if each != seat else state.digits[seat] for each in (0, 1))
    other = match._replace(state=state._replace(cells="".join(cells), digits=digits))
    assert game.view(other.state, seat) == game.view(state, seat)
    assert referee.observe(other, seat) == referee.observe(match, seat)
    assert referee.first_observation(other, seat) == referee.first_observation(match, seat)
    if mover == seat:
        assert referee.legal(other, seat) == referee.legal(match, seat)
        assert game.expert(game.view(other.state, seat), seat, random.Random(1)) == game.expert(
            game.view(state, seat), seat, random.Random(1)
        )
    shown = game.show(game.view(state, seat), seat)
    assert shown.count("x?") + shown.count("x+") == len(theirs) == game.view(state, seat).cells.count(UNKNOWN)


def placed(text, turn=0, board="small", **more):
    """A state of the small board from six rows; capital letters and digits are seat 0's, after ``-`` seat 1's."""
    cells, marks = "", ""
    for word in text.split():
        owner, sign = int(word.startswith("-")), word[-1]
        cells += word if word in ".~" else SIDES[owner][RANKS.index(sign)]
        marks += " " if word in ".~" else "m" if sign not in "FB" else "u"
    return StrategoState(board, cells, marks, ((1, 1, 1), (2, 2, 2)), turn=turn, **more)


BARE = "F B . . . . " + "M . . . . . " + ". ~ . . ~ . " * 2 + ". . . . . . " + "-F -B . . . -2 "


def test_a_piece_goes_five_times_between_two_cells_and_then_elsewhere():
    game = make_game("Stratego", board="small")
    state = placed(BARE)
    for number in range(2 * REPEATS):
        ways = (("a2 b2", "b2 a2"), ("f6 e6", "e6 f6"))[number % 2]
        state = game.apply(state, number % 2, ways[number // 2 % 2])
    assert "b2 a2" not in game.legal(state, 0)
    assert {"b2 c2", "a2 a1"} & {*game.legal(state, 0)} == {"b2 c2"}
    away = game.apply(game.apply(state, 0, "b2 c2"), 1, "e6 d6")
    assert "c2 b2" in game.legal(away, 0)


def test_scouts_strike_from_afar_and_are_known_by_a_long_way():
    game = make_game("Stratego", board="small")
    state = placed(BARE, turn=1)
    assert {"f6 f1", "f6 c6", "f6 f5"} <= {*game.legal(state, 1)}
    long = game.apply(state, 1, "f6 f1")
    assert "x2" in game.show(game.view(long, 0), 0)
    short = game.apply(state, 1, "f6 f5")
    assert "x+" in game.show(game.view(short, 0), 0)
    hit = game.apply(game.apply(game.apply(short, 0, "a2 a3"), 1, "f5 a5"), 0, "a3 a4")
    fought = game.apply(hit, 1, "a5 a4")
    assert (fought.lost, fought.winner) == (("", "2"), -1)
    assert game.apply(fought, 0, "a4 a5").winner == 0  # seat 1 has no piece left that moves
    told = game.show(game.view(fought, 0), 0)
    assert told.startswith("The other's 2 attacked your M on a4: M won.")
    assert "M*" in told


def test_who_takes_the_flag_wins_and_two_armies_that_cannot_move_draw():
    game = make_game("Stratego", board="small")
    near = placed("F B . . . . " + ". . . . . . " + ". ~ . . ~ . " * 2 + "M . . . . . " + "-F -B . . . -M ")
    won = game.apply(near, 0, "a5 a6")
    assert (won.winner, game.actors(won), game.returns(won)) == (0, (), (1.0, -1.0))
    both = placed("F B . . . . " + ". . . . . . " + ". ~ . . ~ . " * 2 + ". . . . M -M " + "-F -B . . . . ")
    drawn = game.apply(both, 0, "e5 f5")
    assert (drawn.winner, game.returns(drawn), drawn.lost) == (2, (0.0, 0.0), ("M", "M"))
    late = near._replace(moves=FIELDS["small"].limit - 1)
    assert game.returns(game.apply(late, 0, "a5 b5")) == (0.0, 0.0)


def test_moves_are_read_in_other_spellings_and_nothing_else_is():
    game = make_game("Stratego", board="barrage")
    referee = Referee(game)
    match = referee.begin("spell")
    move = referee.legal(match, 0)[-1]
    start, end = move.split()
    for text in (
        f"{start}-{end}",
        f"{start}{end}",
        f"{start} to {end}",
        f"({start}, {end})",
        f"\\boxed{{{start}x{end}}}",
    ):
        assert referee.read(match, 0, text) == move
    for text in (start, f"{end} {start}", f"{start} {end} {end}", f"{start} z9", "a1 a11", "pass", "", "a0 a1"):
        with pytest.raises(IllegalText, match="legal"):
            referee.read(match, 0, text)
    with pytest.raises(ValueError, match="board must be one of small, barrage, medium, standard, not 'huge'"):
        make_game("Stratego", board="huge")


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_a_level_has_its_board_and_is_restored_forked_and_replayed(level):
    env = gym.make("rlvr/Stratego-v0", disable_env_checker=True).unwrapped
    text, _ = env.reset(seed=5, options={"level": level})
    size = {1: 6, 2: 10, 3: 8}.get(level, 10)
    assert f"\n{size:>2} " in text
    assert f"\n{size + 1:>2} " not in text
    rng, played = random.Random(level), []
    for _ in range(12):
        move = rng.choice(env.task.legal_actions(env.get_state().state)) if rng.random() < 0.5 else env.solve()
        kept = pickle.loads(pickle.dumps(env.get_state()))
        first = env.step(move)[:4]
        env.set_state(kept)
        assert env.step(move)[:4] == first
        played.append((move, first))
        if first[2]:
            break
    again = gym.make("rlvr/Stratego-v0", disable_env_checker=True).unwrapped
    assert again.reset(seed=5, options={"level": level})[0] == text
    assert [again.step(move)[:4] for move, _ in played] == [first for _, first in played]
    fixed = gym.make("rlvr/Stratego-v0", game_settings={"board": "medium"}, disable_env_checker=True).unwrapped
    assert "\n 8 " in fixed.reset(seed=5, options={"level": level})[0]


@pytest.mark.parametrize(("board", "least"), [("small", 0.9), ("barrage", 0.9), ("medium", 0.85)])
def test_the_expert_beats_random_moves(board, least):
    rules, won, count = make_game("Stratego", board=board), 0.0, 20
    referee = Referee(rules)
    for key in range(count):
        match, rng, own = referee.begin(f"strong {key}"), random.Random(key), key % 2
        while movers := referee.to_move(match):
            view = rules.view(match.state, movers[0])
            move = rules.expert(view, own, rng) if movers[0] == own else rng.choice(rules.legal(view, movers[0]))
            match = referee.play(match, movers[0], move)
        won += rules.outcome(referee.returns(match), own) / count
    assert won >= least
