"""The arena: fair pairings, ratings that rank, matches that fail and files that are gone on with."""

from __future__ import annotations

import json

import pytest

from rlvr.agents.conversation import Reply
from rlvr.agents.players.arena import (
    Arena,
    PlayedMatch,
    agent_entrant,
    bot_entrant,
    payoff_matrix,
    ratings,
    read_matches,
    run_arena,
)
from rlvr.agents.players.swiss import Swiss
from rlvr.cli import main
from rlvr.envs.players.catalogue import GAMES, make_game
from rlvr.envs.players.game import Referee

NAMES = ["expert", "mixed:0.5", "random"]
REFUSED = {
    **dict.fromkeys(["HanabiSmall", "GuideAndWalker", "UserAndAgent", "Taboo"], "are one team"),
    **dict.fromkeys(["Debate", "ProposerSolver"], "wins by the good play of seat"),
}


def arena(game="TicTacToeDuel", names=NAMES, **settings):
    return Arena(Referee(make_game(game)), {name: bot_entrant(name) for name in names}, **settings)


def test_both_of_a_pair_play_every_key_in_every_seat():
    for game, alone in (("KuhnPoker", 1), ("PigTable", 2)):
        one = arena(game, ["expert", "random"], matches=8)
        plan = list(one.plan())
        assert len(plan) == 8
        for key in {key for _, _, key, _ in plan}:
            for name in ("expert", "random")[:alone]:
                seats = [seat for first, _, other, seat in plan if (first, other) == (name, key)]
                assert seats == list(range(one.referee.game.seats))


def same(name, seen):
    """Players that differ in nothing but their name, and note who had which seat of which role."""
    bot = bot_entrant("random")

    def choose(referee, match, seat, messages):
        seen.add((match.key, name, seat, referee.game.teams_in(match.state)[seat]))
        return bot(referee, match, seat, messages)

    return choose


@pytest.mark.parametrize("game", GAMES)
def test_every_game_is_refused_with_a_reason_or_rates_equal_players_alike(game):
    """Each match is there with both players exchanged, so equal players have equal scores to the last digit."""
    referee, seen = Referee(make_game(game)), set()
    entrants = {name: same(name, seen) for name in "ab"}
    if game in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[game]):
            Arena(referee, entrants)
        return
    played = list(Arena(referee, entrants, matches=4).play())
    assert not [each.error for each in played if each.error]
    one, other = ratings(played, "ab")
    assert one.score == other.score == 0.5
    assert one.payoff == pytest.approx(other.payoff)
    assert one.elo == pytest.approx(1500)
    had = {name: {(key, seat, role) for key, by, seat, role in seen if by == name} for name in "ab"}
    assert had["a"] == had["b"], "each player had every seat and role of every key"
    assert {role for _, _, role in had["a"]} >= {*referee.game.teams_in(referee.begin("0 0").state)}
    assert {*REFUSED} < {*GAMES}


def test_in_hidden_roles_a_player_has_all_spies_or_all_loyal_seats():
    seen = set()
    referee = Referee(make_game("HiddenRoles"))
    one = Arena(referee, {name: same(name, seen) for name in "ab"}, matches=6)
    for planned in one.plan():
        seen.clear()
        result = one.played(*planned)
        roles = {(name, role) for _, name, _, role in seen}
        assert roles in ({("a", 0), ("b", 1)}, {("a", 1), ("b", 0)})
        assert len({seat for *_, seat, _ in seen}) == 5
        assert result.score in (0, 1)
        assert result.payoff == -result.second_payoff
    names = ["expert", "random"]
    table = ratings(list(arena("HiddenRoles", names, matches=12).play()), names)
    assert table[0].name == "expert"
    assert table[0].score > 0.7


def test_the_payoff_of_each_player_is_its_own_where_a_game_is_not_zero_sum():
    """Who betrays an ally that never does wins 5 in every round, and the ally nothing."""

    def always(move):
        return lambda referee, match, seat, messages: move

    game = make_game("PrisonersDilemma")
    traitor, ally = game.legal(game.start(), 0)[::-1]
    one = Arena(Referee(game), {"traitor": always(traitor), "ally": always(ally)}, matches=2)
    played = list(one.play())
    table = {each.name: each.payoff for each in ratings(played, ["traitor", "ally"])}
    assert table["traitor"] > 0
    assert table["ally"] == 0
    assert table["traitor"] == played[0].payoff


@pytest.mark.parametrize("game", ["PigTable", "SealedAuction", "HiddenRoles"])
def test_a_forfeit_loses_among_many_whoever_sits_alone(game):
    entrants = {"expert": bot_entrant("expert"), "silent": lambda *_: "I fold my arms"}
    for names in (("expert", "silent"), ("silent", "expert")):
        one = Arena(Referee(make_game(game)), {name: entrants[name] for name in names}, matches=8)
        played = list(one.play())
        best, worst = ratings(played, names)
        assert (best.name, best.score, best.forfeits) == ("expert", 1.0, 0)
        assert (worst.name, worst.score, worst.forfeits) == ("silent", 0.0, len(played))


@pytest.mark.parametrize(("game", "seat", "other"), [("ProposerSolver", 0, 1), ("Debate", 0, 2)])
def test_a_game_in_which_a_seat_needs_its_opponent_is_refused(game, seat, other):
    """The score of a pair would be best for a proposer whose tasks nobody solves, and a judge names its own debater."""
    with pytest.raises(ValueError, match=f"in {game} seat {seat} wins by the good play of seat {other}"):
        arena(game)


def test_an_entrant_has_all_seats_of_a_team():
    def named(name, seen):
        def choose(referee, match, seat, messages):
            seen.append((match.key, name, seat))
            return bot_entrant("first")(referee, match, seat, messages)

        return choose

    seen = []
    one = Arena(Referee(make_game("Clues")), {name: named(name, seen) for name in "ab"}, matches=4)
    plan = list(one.plan())
    assert [(key, seat) for _, _, key, seat in plan] == [("0 0", 0), ("0 0", 2), ("0 1", 0), ("0 1", 2)]
    for number in range(0, 4, 2):
        seen.clear()
        for at in (0, 1):
            one.played(*plan[number + at])
            teams = [(name, one.referee.game.teams[seat]) for _, name, seat in seen]
            assert {*teams} == ({("a", 0), ("b", 1)} if at == 0 else {("a", 1), ("b", 0)})
            seen.clear()


def test_the_better_of_two_teams_is_rated_higher():
    names = ["expert", "random"]
    played = list(arena("Clues", names, matches=12).play())
    assert {each.score for each in played} <= {0.0, 1.0}
    assert ratings(played, names)[0].name == "expert"
    assert payoff_matrix(played, names)[0][1] > 0.7


@pytest.mark.parametrize("game", ["HanabiSmall", "GuideAndWalker"])
def test_a_game_of_one_team_is_refused(game):
    with pytest.raises(ValueError, match=f"all seats of {game} are one team"):
        arena(game)
    entrants = {name: bot_entrant(name) for name in NAMES}
    with pytest.raises(ValueError, match=f"all seats of {game} are one team"):
        Swiss(Referee(make_game(game)), entrants, rounds=1)


@pytest.mark.parametrize("game", ["ShareNegotiation", "PriceNegotiation", "PrisonersDilemma", "NimDuel"])
def test_a_forfeit_loses_in_every_game_of_two(game):
    def silent(referee, match, seat, messages):
        return "I fold my arms"

    entrants = {"expert": bot_entrant("expert"), "silent": silent}
    for names in (("expert", "silent"), ("silent", "expert")):
        one = Arena(Referee(make_game(game)), {name: entrants[name] for name in names}, matches=4)
        best, worst = ratings(list(one.play()), names)
        assert (best.name, best.score, best.forfeits) == ("expert", 1.0, 0)
        assert (worst.name, worst.score, worst.forfeits) == ("silent", 0.0, 4)


def test_stronger_players_are_rated_higher_and_the_matrix_is_antisymmetric():
    played = list(arena(matches=40).play())
    table = ratings(played, NAMES)
    assert [each.name for each in table] == NAMES
    assert sum(each.elo for each in table) / 3 == pytest.approx(1500)
    assert all(each.matches == 80 for each in table)
    assert all(20 < each.interval < 300 for each in table)
    matrix = payoff_matrix(played, NAMES)
    for row in range(3):
        assert matrix[row][row] is None
        for column in range(3):
            if row != column:
                assert matrix[row][column] + matrix[column][row] == pytest.approx(1)
    assert matrix[0][2] > 0.8


def test_ratings_give_back_the_odds_that_matches_were_drawn_with():
    wins = [PlayedMatch("a", "b", str(n), 0, 1.0 if n < 750 else 0.0) for n in range(1000)]
    table = {each.name: each for each in ratings(wins, ["a", "b"])}
    # Odds of 3 to 1 are 191 points.
    assert table["a"].elo - table["b"].elo == pytest.approx(190.8, abs=2)
    clean = ratings([PlayedMatch("a", "b", str(n), 0, 1.0) for n in range(10)], ["a", "b"])
    assert clean[0].elo - clean[1].elo < 2000, "a clean sweep has a finite rating"


def test_an_entrant_that_fails_costs_nobody_points_and_is_tried_again(tmp_path):
    def broken(referee, match, seat, messages):
        raise RuntimeError("gone")

    one = Arena(Referee(make_game("NimDuel")), {"broken": broken, "random": bot_entrant("random")}, matches=4)
    setting = {"game": "NimDuel"}
    path = tmp_path / "matches.jsonl"
    played = run_arena(one, path, setting)
    assert [each.score for each in played] == [None] * 4
    assert "gone" in played[0].error
    assert all(each.matches == 0 for each in ratings(played, ["broken", "random"]))
    one.entrants["broken"] = bot_entrant("expert")
    assert all(each.score is not None for each in run_arena(one, path, setting))


def test_a_stopped_arena_goes_on_where_it_was(tmp_path):
    path, setting = tmp_path / "matches.jsonl", {"game": "TicTacToeDuel", "seed": 3}
    whole = run_arena(arena(matches=6, seed=3), None, setting)
    run_arena(arena(matches=6, seed=3), path, setting)
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    path.write_text("".join(lines[:8]) + lines[8][:20])  # killed in the middle of a line
    assert len(read_matches(path, setting)) == 7
    assert run_arena(arena(matches=6, seed=3), path, setting) == whole
    assert path.read_text() == text
    with pytest.raises(ValueError, match="not of this arena"):
        run_arena(arena(matches=6), path, {**setting, "seed": 4})


def test_matches_of_an_earlier_version_of_a_game_are_refused(tmp_path, capsys):
    out = tmp_path / "matches.jsonl"
    command = ["arena", "Clues", "expert", "random", "--matches", "2", "--out", str(out)]
    assert main(command) == 0
    assert main(command) == 0, "the same version goes on"
    head, *lines = out.read_text().splitlines()
    setting = json.loads(head)["arena"]
    assert setting.pop("version") == 2
    out.write_text("\n".join([json.dumps({"arena": setting, "format": 2}), *lines]) + "\n")
    capsys.readouterr()
    assert main(command) != 0
    assert "holds matches of version 1 of the game, and this is version 2: give a new file" in capsys.readouterr().err
    out.write_text("\n".join([json.dumps({"arena": {**setting, "version": 2}}), *lines]) + "\n")
    assert main(command) != 0
    assert "another version of the arena, which paired otherwise: give a new file" in capsys.readouterr().err


def test_an_agent_reads_its_own_seat_and_forfeits_with_illegal_moves():
    class Agent:
        def __init__(self):
            self.seen = []

        def act(self, conversations):
            (each,) = conversations
            self.seen.append([message["role"] for message in each.messages])
            assert "Your card: " in each.messages[1]["content"]
            return [Reply("I fold my arms", "stop")]

    agent = Agent()
    one = Arena(
        Referee(make_game("KuhnPoker")), {"agent": agent_entrant(agent), "expert": bot_entrant("expert")}, matches=4
    )
    played = list(one.play())
    assert all((each.score, each.forfeited) == (0.0, True) for each in played)
    assert agent.seen[0] == ["system", "user"]
    assert agent.seen[1] == ["system", "user", "assistant", "user"]


def test_the_command_prints_a_table_and_refuses_what_it_cannot_play(tmp_path, capsys):
    out = tmp_path / "matches.jsonl"
    command = ["arena", "NimDuel", "expert", "random", "first", "--matches", "6", "--out", str(out)]
    assert main([*command, "--settings", '{"heaps": [2, 3]}', "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in record["table"]} == {"expert", "random", "first"}
    assert main([*command, "--settings", '{"heaps": [2, 3]}']) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].split()[:2] == ["player", "Elo"]
    assert "mean score" in text
    for words, reason in (
        (["arena", "Nim", "expert", "random"], "no game 'Nim'"),
        (["arena", "NimDuel", "expert"], "two entrants"),
        (["arena", "NimDuel", "expert", "expert"], "named twice"),
        (["arena", "HanabiSmall", "expert", "random"], "one team"),
        (["arena", "GuideAndWalker", "expert", "random", "--swiss", "1"], "one team"),
        (["arena", "NimDuel", "expert", "nobody"], "no bot"),
        (["arena", "KuhnPoker", "expert", "mcts:5"], "cannot play KuhnPoker, but random, first, expert, mixed can"),
        (["arena", "NimDuel", "expert", "random", "--matches", "0"], "at least one match"),
        ([*command], "not of this arena"),
    ):
        assert main(words) == 2
        assert reason in capsys.readouterr().err
