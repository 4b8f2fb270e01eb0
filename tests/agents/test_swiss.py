"""Swiss tournaments: who meets, who sits out, seats, and a tournament that goes on where it was stopped."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.agents.players.arena import bot_entrant, payoff_matrix, ratings, run_arena
from rlvr.agents.players.swiss import Swiss, paired
from rlvr.cli import main
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import Referee

NAMES = ["expert", "mixed:0.2", "mixed:0.5", "mixed:0.8", "first", "random"]


def swiss(names=NAMES, rounds=3, game="NimDuel", **options):
    return Swiss(Referee(make_game(game)), {name: bot_entrant(name) for name in names}, rounds=rounds, **options)


def rounds_of(played):
    found = {}
    for each in played:
        found.setdefault(each.round, set()).add(frozenset((each.first, each.second)))
    return found


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_nobody_meets_twice_and_all_rounds_are_a_round_robin_where_that_can_be(count):
    names = NAMES[:count]
    most = count - 1 + count % 2
    for rounds in range(1, most + 1):
        found = rounds_of(swiss(names, rounds, matches=2).play())
        pairs = [pair for number in sorted(found) for pair in found[number]]
        assert len(found) == rounds
        assert all(len({*pairs_now}) == count // 2 for pairs_now in found.values())
        if rounds <= count / 2:  # then a pairing without repeats exists whatever was paired before
            assert len(pairs) == len({*pairs})


@settings(max_examples=60, deadline=None)
@given(count=st.integers(2, 9), data=st.data())
def test_a_repeat_occurs_only_where_no_pairing_is_without(count, data):
    names = [f"p{at}" for at in range(count)]
    every = [frozenset(pair) for pair in combinations(names, 2)]
    met = data.draw(st.sets(st.sampled_from(every)))
    sat_out = data.draw(st.lists(st.sampled_from(names), max_size=2))
    pairs = paired(names, met, sat_out)
    assert len({name for pair in pairs for name in pair}) == count - count % 2
    assert len(pairs) == count // 2

    def possible(left, byes):
        if not left:
            return True
        best, *others = left
        return any(
            frozenset((best, other)) not in met and possible([name for name in others if name != other], byes)
            for other in others
        ) or (bool(byes) and possible(others, byes - 1))

    assert (not met & {*pairs}) == possible(names, count % 2)


def test_players_of_like_points_meet_and_the_lowest_sits_out_once():
    assert paired(["a", "b", "c", "d"], set()) == [frozenset("ab"), frozenset("cd")]
    assert paired(["a", "b", "c", "d"], {frozenset("ab")}) == [frozenset("ac"), frozenset("bd")]
    assert paired(["a", "b", "c"], set()) == [frozenset("ab")]
    assert paired(["a", "b", "c"], set(), ["c"]) == [frozenset("ac")]
    one = swiss(["expert", "mixed", "random", "first", "mixed:0.9"], 5, matches=2)
    found = rounds_of(one.play())
    out = [name for pairs in found.values() for name in one.entrants if not any(name in pair for pair in pairs)]
    assert len(out) == 5
    assert len({*out[:3]}) == 3


def test_points_are_mean_scores_and_a_round_sat_out_pays_one():
    one = swiss(["expert", "random", "first"], 1, matches=40)
    played = list(one.play())
    points = one.points(2, played)
    (pair,) = rounds_of(played)[1]
    (waiting,) = {*one.entrants} - pair
    assert points[waiting] == 1
    assert sum(points[name] for name in pair) == pytest.approx(1)
    first = played[0].first
    assert points[first] == pytest.approx(sum(each.score for each in played) / 40)


def test_each_pair_plays_every_key_in_every_seat_and_is_rated():
    played = list(swiss(rounds=4, matches=10).play())
    for pair in combinations(NAMES, 2):
        seats = {}
        for each in played:
            if {each.first, each.second} == {*pair}:
                seats.setdefault(each.key, []).append(each.seat)
        assert all(sorted(given) == [0, 1] for given in seats.values())
    table = ratings(played, NAMES)
    assert table[0].name == "expert"
    assert all(each.matches == 40 for each in table)
    matrix = payoff_matrix(played, NAMES)
    assert sum(value is not None for row in matrix for value in row) == 4 * len(NAMES)


@pytest.mark.parametrize("kept", [1, 5, 12, 23])
def test_a_stopped_tournament_goes_on_with_the_pairs_it_had(tmp_path, kept):
    path, setting = tmp_path / "matches.jsonl", {"game": "NimDuel", "swiss": True}
    whole = run_arena(swiss(rounds=3, matches=4), None, setting)
    run_arena(swiss(rounds=3, matches=4), path, setting)
    text = path.read_text()
    path.write_text("".join(text.splitlines(keepends=True)[:kept]) + '{"fir')
    assert run_arena(swiss(rounds=3, matches=4), path, setting) == whole
    assert path.read_text() == text
    longer = run_arena(swiss(rounds=4, matches=4), path, setting)
    assert longer[: len(whole)] == whole
    assert longer == run_arena(swiss(rounds=4, matches=4), None, setting)


def test_a_pair_that_failed_is_played_again_and_rounds_that_have_begun_keep_their_pairs(tmp_path):
    def broken(referee, match, seat, messages):
        raise RuntimeError("gone")

    path = tmp_path / "matches.jsonl"
    one = swiss(rounds=3, matches=4)
    one.entrants["expert"] = broken
    before = run_arena(one, path, {})
    failed = [each for each in before if each.error]
    assert len(failed) == 12
    assert one.points(2, before)["expert"] == 0.5
    after = run_arena(swiss(rounds=3, matches=4), path, {})
    assert all(each.score is not None for each in after)
    met, again = rounds_of(before), rounds_of(after)
    for number in (1, 2, 3):
        kept = {pair for pair in met[number] if "expert" not in pair}
        assert kept <= again[number]
        assert len(again[number]) == 3


def test_the_command_plays_rounds_and_refuses_what_are_none(tmp_path, capsys):
    out = tmp_path / "matches.jsonl"
    command = ["arena", "NimDuel", "expert", "random", "first", "mixed", "--matches", "2", "--out", str(out)]
    assert main([*command, "--swiss", "2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert all(each["matches"] == 4 for each in record["table"])
    assert len(out.read_text().splitlines()) == 1 + 8
    assert main([*command, "--swiss", "4"]) != 0
    assert "meet in 1 to 3 rounds, not 4" in capsys.readouterr().err
    assert main(command) != 0
    assert "not of this arena" in capsys.readouterr().err
