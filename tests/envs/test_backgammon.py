"""Backgammon beside rules written anew, man by man on one board of 24 points; OpenSpiel's are in the foreign tests."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.players.backgammon import BAR, LIMIT, MEN, OFF, ROLLS, START, BackgammonState, pips, plays, shots
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import IllegalText, Referee

GAME = make_game("Backgammon")
REFEREE = Referee(GAME)


@st.composite
def positions(draw):
    """Men of two seats anywhere, never both on a point; often home, on the bar or off."""
    taken, sides = set(), []
    for seat in (0, 1):
        low = draw(st.sampled_from((6, 12, 24)))
        men = [0] * 26
        for _ in range(MEN):
            free = [at for at in range(1, low + 1) if (at if seat == 0 else 25 - at) not in taken]
            at = draw(st.sampled_from([OFF, *free, *free, *([BAR] * draw(st.booleans()))]))
            men[at] += 1
        taken = {at for at in range(1, 25) if men[at]}
        sides.append(tuple(men))
    return sides[0], sides[1]


def played(board, bars, offs, die):
    """One die played in every way, by the first seat: +n are its men and -n the other's on points 1 to 24."""
    for start in range(25, 0, -1):
        if (bars[0] == 0) if start == 25 else (bars[0] or board.get(start, 0) < 1):
            continue
        end = start - die
        if end <= 0:
            behind = [at for at, count in board.items() if count > 0 and at > start]
            if bars[0] or any(count > 0 and at > 6 for at, count in board.items()) or (end < 0 and behind):
                continue
        elif board.get(end, 0) <= -2:
            continue
        men, mine, off = dict(board), [*bars], [*offs]
        if start == 25:
            mine[0] -= 1
        else:
            men[start] -= 1
        if end <= 0:
            off[0] += 1
        elif men.get(end, 0) == -1:
            men[end] = 1
            mine[1] += 1
        else:
            men[end] = men.get(end, 0) + 1
        yield men, mine, off


def brute(position, dice):
    """The positions after every play that the rules allow, from every order of the dice."""
    mine, other = position
    board = {at: mine[at] - other[25 - at] for at in range(1, 25)}
    ways, met = set(), set()

    def walk(board, bars, offs, left, used):
        key = (*board.values(), *bars, *offs, left)
        if key in met:
            return
        met.add(key)
        on = list(played(board, bars, offs, left[0])) if left else []
        if not on:
            ends = [tuple(max(0, sign * board[at if sign > 0 else 25 - at]) for at in range(1, 25)) for sign in (1, -1)]
            men = tuple((offs[seat], *ends[seat], bars[seat]) for seat in (0, 1))
            ways.add((len(used), max(used, default=0), men))
        for step in on:
            walk(*step, left[1:], (*used, left[0]))

    for order in {*permutations(dice * 2 if dice[0] == dice[1] else dice)}:
        walk(board, [mine[BAR], other[BAR]], [mine[OFF], other[OFF]], order, ())
    most = max(count for count, _, _ in ways)
    best = [way for way in ways if way[0] == most]
    if most == 1:
        best = [way for way in best if way[1] == max(die for _, die, _ in best)]
    return {men for *_, men in best}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(positions(), st.sampled_from(ROLLS))
def test_the_plays_are_those_of_every_order_of_the_dice(position, dice):
    legal = plays(position, dice)
    assert {*legal.values()} == brute(position, dice)
    assert len({*legal.values()}) == len(legal)
    assert (list(legal) == ["pass"]) == (legal.get("pass") == position)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(positions(), st.sampled_from(ROLLS), st.randoms(use_true_random=False))
def test_a_play_is_read_in_any_order_and_however_its_men_are_joined(position, dice, rng):
    state = BackgammonState(position, 0, dice, 4)
    for play, end in [*plays(position, dice).items()][:20]:
        if play == "pass":
            continue
        parts = play.split()
        rng.shuffle(parts)
        for text in (play, " ".join(parts), ", ".join(parts), " ".join(part + "*" for part in parts)):
            assert GAME.parse(state, 0, text) == play
        counted = " ".join(f"{part}({parts.count(part)})" if parts.count(part) > 1 else part for part in {*parts})
        assert GAME.parse(state, 0, counted) == play
        if len(parts) == 2 and play.split()[0].split("/")[1] == play.split()[1].split("/")[0]:
            start, middle, end_word = (*play.split()[0].split("/"), play.split()[1].split("/")[1])
            assert GAME.parse(state, 0, f"{start}/{middle}/{end_word}") == play
            joined = GAME.parse(state, 0, f"{start}/{end_word}")  # another way may hit another man
            others = [move for move, there in plays(position, dice).items() if there != end and move.startswith(start)]
            assert joined == play or others


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_play_changes_how_many_men_there_are(seed):
    rng, match = random.Random(seed), REFEREE.begin(seed)
    while movers := REFEREE.to_move(match):
        match = REFEREE.play(match, movers[0], rng.choice(REFEREE.legal(match, movers[0])))
        first, second = match.state.men
        assert sum(first) == sum(second) == MEN
        assert not any(first[at] and second[25 - at] for at in range(1, 25))
        if rng.random() < 0.1:
            break


@pytest.mark.parametrize(("mine", "other", "dice", "legal"), [
    ({BAR: 1, 6: 14}, {6: 2, 1: 13}, (6, 5), {"bar/20 20/14"}),
    ({3: 1, OFF: 14}, {13: 15}, (4, 2), {"3/1 1/off"}),
    ({3: 1, OFF: 14}, {24: 2, 13: 13}, (4, 2), {"3/off"}),
    ({24: 1, OFF: 14}, {6: 2, 7: 2, 8: 11}, (6, 5), {"pass"}),
    ({BAR: 2, 6: 13}, {5: 2, 6: 13}, (3, 3), {"bar/22 bar/22 6/3 6/3"}),
    ({20: 1, OFF: 14}, {12: 2, 13: 13}, (4, 3), {"20/16"}),  # either alone, then the other is blocked: the higher
])  # fmt: skip
def test_entering_bearing_off_and_no_play(mine, other, dice, legal):
    position = tuple(tuple(men.get(at, 0) for at in range(26)) for men in (mine, other))
    assert {*plays(position, dice)} == legal


@pytest.mark.parametrize("text", [
    "", "13/7", "bar/20", "13/8", "13/8 6/5 6/4", "8/13 6/5", "13/8(9)", "99/1", "pass", "13/8/", "off/3",
    "0/3 2/1", "13/8 " * 30, "13//8", "١٣/٨ 6/5",
])  # fmt: skip
def test_what_is_no_legal_play_is_refused(text):
    match = REFEREE.begin("x")._replace(state=BackgammonState(turn=0, dice=(5, 1), plays=1))
    assert "13/8 6/5" in REFEREE.legal(match, 0)
    if text == "13/7":  # 13/8/7 or 13/12/7: one position
        assert REFEREE.read(match, 0, text) in REFEREE.legal(match, 0)
        return
    with pytest.raises(IllegalText):
        REFEREE.read(match, 0, text)


def test_a_win_counts_once_twice_or_three_times():
    done = tuple(MEN * (at == OFF) for at in range(26))
    for other, won in (({OFF: 1, 25: 14}, 1), ({18: 15}, 2), ({19: 1, 3: 14}, 3), ({BAR: 1, 2: 14}, 3)):
        loser = tuple(other.get(at, 0) for at in range(26))
        assert GAME.returns(BackgammonState((done, loser), 0, (), 60)) == (won, -won)
        assert GAME.returns(BackgammonState((loser, done), 0, (), 60)) == (-won, won)
    assert GAME.actors(BackgammonState((START, START), 0, (2, 1), LIMIT)) == ()
    assert GAME.returns(BackgammonState((START, START), 0, (2, 1), LIMIT)) == (0, 0)


def test_both_seats_begin_alike_and_the_higher_die_begins():
    for first, second in permutations(range(1, 7), 2):
        state = GAME.apply(GAME.start(), -1, f"{first}-{second}")
        assert state.turn == (0 if first > second else 1)
        assert state.dice == (max(first, second), min(first, second))
    assert pips(START) == 167
    texts = {GAME.show(GAME.start(), seat) for seat in (0, 1)}
    assert len(texts) == 1


@pytest.mark.parametrize(("point", "count"), [(7, 17), (2, 11), (13, 3), (25, 1), (24, 0)])
def test_the_shots_that_hit_a_man_are_those_of_the_tables(point, count):
    """From a man on 1: six points away 17 of 36 throws hit, one point 11, twelve 3 and 24 that of two sixes."""
    other = tuple(int(at == 24) for at in range(26))
    assert shots(point, (0,) * 26, other) == count
