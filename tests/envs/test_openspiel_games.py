"""OpenSpiel's games as games of several seats: chance from the seed, private texts, exact restore, refusals."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.players.bots import known_bots, make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import exploitability, uniform
from rlvr.envs.players.game import CHANCE, Referee
from rlvr.envs.players.openspiel_names import FAULTY, OPENSPIEL
from rlvr.envs.players.single import AsSingleAgent

foreign = pytest.mark.foreign
LONGEST = 120  # moves of a match that a test plays
SOME = ("kuhn_poker", "leduc_poker", "hanabi", "goofspiel", "dark_hex", "liars_dice", "backgammon", "pig")
HIDDEN = (
    "kuhn_poker",
    "leduc_poker",
    "hanabi",
    "dark_hex",
    "liars_dice",
    "phantom_ttt",
    "sheriff",
    "go_fish",
    "dark_chess",
)


@pytest.fixture
def pyspiel():
    return pytest.importorskip("pyspiel")


def played(referee, key, rng, most=LONGEST):
    """The matches of random play, one after each move."""
    match = referee.begin(key)
    yield match
    while (movers := referee.to_move(match)) and len(match.log) < most:
        match = referee.play(match, movers[0], rng.choice(referee.legal(match, movers[0])))
        yield match


def test_ids_are_registered_where_openspiel_is_and_only_there():
    from importlib.util import find_spec

    expected = sorted(f"rlvr/openspiel.{name}-v0" for name in OPENSPIEL) if find_spec("pyspiel") else []
    assert rlvr.list_envs("rlvr/openspiel.") == expected
    assert not set(FAULTY) & set(OPENSPIEL)


def test_without_openspiel_there_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(ImportError, match="OpenSpiel is not installed: pip install open_spiel"):
        AsSingleAgent(game="openspiel.kuhn_poker")


@foreign
def test_every_game_of_openspiel_is_carried_or_refused_in_a_sentence(pyspiel):
    # In a process of its own: its games written in Python are registered once any of its Python packages is imported.
    ask = [sys.executable, "-c", "import pyspiel; print(*pyspiel.registered_names())"]
    registered = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()
    refused = {}
    for name in registered:
        try:
            make_game(f"openspiel.{name}")
        except ValueError as error:
            refused[name] = str(error)
    assert set(registered) == set(OPENSPIEL) | set(refused)
    assert not set(OPENSPIEL) & set(refused)
    for name, reason in refused.items():
        assert name in reason, reason
        assert "\n" not in reason, reason
    for name, reason in {
        "2048": "one seat", "mfg_garnet": "mean field", "negotiation": "draws its chance itself",
        "quoridor": "known faults",
        "misere": "Missing parameter game",
    }.items():  # fmt: skip
        assert reason in refused[name]


@foreign
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"game": "openspiel.nothing"}, "no game 'nothing'"), ({"game": "openspiel.No(1)"}, "named by small letters"),
        ({"game": "openspiel.hex", "game_settings": {"parameters": {"board_size": "3,x=4"}}}, "plain number or word"),
        ({"game": "openspiel.hex", "game_settings": {"parameters": {"sides": 4}}}, "cannot make hex"),
        ({"game": "openspiel.hex", "game_settings": {"parameters": [1]}}, "names with values"),
        ({"game": "openspiel.hex", "game_settings": {"parameters": "x"}}, "names with values"),
        ({"game": "openspiel.hex", "game_settings": {"parameters": {1: 2}}}, "plain number or word"),
        (
            {"game": "openspiel.kuhn_poker", "game_settings": {"parameters": {"players": 40}}},
            r"cannot make kuhn_poker\(players=40\): num_players_ <= ",
        ),
        ({"game": "openspiel.kuhn_poker", "opponents": ["expert"]}, "expert cannot play openspiel kuhn_poker"),
        ({"game": "openspiel.kuhn_poker", "opponents": ["random", "mixed:0.5"]}, "mixed:0.5 cannot play"),
        ({"game": "openspiel.goofspiel", "opponents": ["mcts:5"]}, "mcts:5 cannot play openspiel goofspiel"),
    ],
)  # fmt: skip
def test_a_bad_name_or_parameter_is_one_clear_error(pyspiel, settings, reason):
    with pytest.raises(ValueError, match=reason):
        AsSingleAgent(**settings)


@foreign
@pytest.mark.parametrize("name", OPENSPIEL)
def test_random_play_has_openspiels_moves_and_returns_and_comes_back_from_everything(pyspiel, name):
    game = make_game(f"openspiel.{name}")
    referee, theirs = Referee(game), pyspiel.load_game(name)
    for key in range(2):
        *_, before, match = played(referee, str(key), random.Random(key))
        state = theirs.new_initial_state()
        for action in match.state.history:
            legal = [state.legal_actions(seat) for seat in range(game.seats)] if isinstance(action, tuple) else None
            mine, allowed = (action, legal) if legal else ([action], [state.legal_actions()])
            assert all(one in of or not of for one, of in zip(mine, allowed, strict=True))
            state.apply_actions(list(action)) if legal else state.apply_action(action)
        over = not referee.to_move(match)
        assert over == state.is_terminal()
        *_, again = played(referee, str(key), random.Random(key))
        assert again == match
        record = json.loads(json.dumps(referee.record(match)))
        assert referee.replay(record).state == match.state
        assert pickle.loads(pickle.dumps(before)) == before
        returns = referee.returns(match) if over else game.forfeited(key, match.state)
        assert not over or list(returns) == state.returns()
        assert all(game.lowest - 1e-9 <= value <= game.highest + 1e-9 for value in returns)
        assert all(0 <= game.outcome(returns, seat) <= 1 for seat in range(game.seats))
        if game.zero_sum:
            assert sum(returns) == pytest.approx(0, abs=1e-6)


@foreign
@pytest.mark.parametrize("name", OPENSPIEL)
def test_every_move_is_read_as_it_is_written(pyspiel, name):
    referee, rng = Referee(make_game(f"openspiel.{name}")), random.Random(4)
    for match in played(referee, "0", rng, 25):
        for seat in referee.to_move(match)[:1]:
            legal = referee.legal(match, seat)
            assert len(set(legal)) == len(legal)
            for move in rng.sample(legal, min(8, len(legal))):
                for text in (f"\\boxed{{{move}}}", f"I think so.\n\\boxed{{{move.upper()}}}"):
                    assert referee.read(match, seat, text) == move


def otherwise(game, match, seat, rng):
    """The same match with another draw or move of which a seat is no witness; None where the rest cannot follow it."""
    state, log = game.start(), list(match.log)
    unseen = [event for event in log if not event.seen_by >> seat & 1]
    other = rng.choice(unseen) if unseen else None
    while log:
        actors = game.actors(state)
        events = [log.pop(0) for _ in actors] if len(log) >= len(actors) else []
        if not events or {event.actor for event in events} != set(actors):
            return None
        moves = {}
        for event in events:
            legal = (
                [move for move, _ in game.chance(state)] if event.actor == CHANCE else game.legal(state, event.actor)
            )
            moves[event.actor] = event.move if event is not other else rng.choice(legal)
            if moves[event.actor] not in legal:
                return None
        state = game.apply_all(state, moves) if len(actors) > 1 else game.apply(state, *next(iter(moves.items())))
    return match._replace(state=state)


@foreign
@pytest.mark.parametrize("name", HIDDEN)
def test_what_openspiel_does_not_tell_a_seat_is_in_none_of_its_texts(pyspiel, name):
    """States that OpenSpiel's own texts of a seat do not tell apart differ in nothing that the seat reads."""
    game = make_game(f"openspiel.{name}")
    kind = pyspiel.load_game(name).get_type()
    referee, rng, count = Referee(game), random.Random(5), 0

    def known(match, seat):
        state = pyspiel.load_game(name).new_initial_state()
        for action in match.state.history:
            state.apply_actions(list(action)) if isinstance(action, tuple) else state.apply_action(action)
        texts = [state.information_state_string(seat)] if kind.provides_information_state_string else []
        return [*texts, state.observation_string(seat)] if kind.provides_observation_string else texts

    for key in range(30):
        for match in played(referee, str(key), rng, 16):
            movers = referee.to_move(match)
            for seat in range(game.seats) if movers else ():
                other = otherwise(game, match, seat, rng)
                if other is None or other.state == match.state or known(other, seat) != known(match, seat):
                    continue
                if (seat in movers) != (seat in referee.to_move(other)):
                    continue  # OpenSpiel's texts do not always tell whose turn it is
                count += 1
                if seat not in movers or referee.legal(other, seat) == referee.legal(match, seat):
                    assert referee.observe(other, seat) == referee.observe(match, seat)
                assert referee.view_of_record(other, seat) == referee.view_of_record(match, seat)
    assert count > 10, count


@foreign
@pytest.mark.parametrize("name", SOME)
def test_one_seat_is_a_task_that_restores_exactly(pyspiel, name):
    env = gym.make(f"rlvr/openspiel.{name}-v0", split=None).unwrapped
    text, _ = env.reset(seed=3)
    assert env.reset(seed=3)[0] == text
    assert {env.reset(seed=seed)[0] for seed in range(8)} != {text}
    for seed in range(3):
        env.reset(seed=seed)
        rng, over = random.Random(seed), False
        while not over:
            action = env.sample_action(rng)
            twin, state = env.fork(), env.get_state()
            result = env.step(action)
            over = result[2] or result[3]
            assert twin.step(action)[:4] == result[:4]
            if rng.random() < 0.1:
                env.set_state(state)
                assert env.step(action)[:4] == result[:4]
        assert 0 <= result[1] <= 1
        assert result[4]["verdict"].status in ("correct", "partial", "wrong")


@foreign
def test_hostile_texts_cost_their_seat_alone(pyspiel):
    referee = Referee(make_game("openspiel.leduc_poker"))
    for text in ("", "Seat 1: fold.", "9" * 100_000, "\\boxed{" * 1000, "action 99", "\ud800", "call or raise"):
        match = referee.begin("0")
        seat = referee.to_move(match)[0]
        after = referee.act(match, seat, text)
        assert (after.state, after.log, after.faults[seat]) == (match.state, match.log, 1)
    for _ in range(2):
        after = referee.act(after, seat, "no")
    returns = referee.returns(after)
    assert returns[seat] == referee.game.lowest
    assert sum(returns) == 0


@foreign
def test_searching_experts_play_where_everything_is_seen_and_win(pyspiel):
    game = make_game("openspiel.connect_four")
    referee, won = Referee(game), 0.0
    for key in range(6):
        match, rng = referee.begin(str(key)), random.Random(key)
        while movers := referee.to_move(match):
            bot = make_bot("expert" if movers[0] == key % 2 else "random")
            view = game.view(match.state, movers[0])
            match = referee.play(match, movers[0], bot.choose(game, view, movers[0], rng))
        won += game.outcome(referee.returns(match), key % 2)
    assert won >= 5
    assert AsSingleAgent(game="openspiel.connect_four").levels == 3
    hidden = AsSingleAgent(game="openspiel.kuhn_poker")
    assert hidden.levels == 1
    assert known_bots(hidden.game) == ["random", "first"]


@foreign
@pytest.mark.parametrize("name", OPENSPIEL)
def test_every_bot_that_is_known_for_a_game_moves_in_it(pyspiel, name):
    game = make_game(f"openspiel.{name}")
    referee = Referee(game)
    match = referee.begin("0")
    (seat, *_) = referee.to_move(match)
    known = known_bots(game)
    assert known[:2] == ["random", "first"]
    for bot in known:
        number = {"mcts": ":2", "minimax": ":1"}.get(bot, "")
        view = game.view(match.state, seat)
        assert make_bot(bot + number).choose(game, view, seat, random.Random(0)) in referee.legal(match, seat)


@foreign
def test_searching_players_refuse_moves_at_once(pyspiel):
    game = make_game("openspiel.oshi_zumo")
    for name in ("minimax", "mcts"):
        with pytest.raises(ValueError, match="one seat moves at a time"):
            make_bot(name).choose(game, game.view(game.start(), 0), 0, random.Random(0))


@foreign
def test_parameters_reach_openspiel_and_its_games_are_exploited_as_ours(pyspiel):
    small = make_game("openspiel.hex", parameters={"board_size": 3})
    assert len(small.legal(small.start(), 0)) == 9
    assert make_game("openspiel.liars_dice", parameters={"numdice": 2}).decisions == 25
    assert exploitability(make_game("openspiel.kuhn_poker"), uniform).value == pytest.approx(0.458333, abs=1e-6)


@foreign
@pytest.mark.parametrize("name", ["tic_tac_toe", "kuhn_poker", "goofspiel", "hanabi", "skat"])
def test_they_pass_pettingzoos_own_tests(pyspiel, name):
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import api_test, parallel_api_test, seed_test

    from rlvr.adapters.suites.pettingzoo import aec_env, parallel_env

    api_test(aec_env(f"openspiel.{name}"), num_cycles=20)
    parallel_api_test(parallel_env(f"openspiel.{name}"), num_cycles=20)
    seed_test(lambda: aec_env(f"openspiel.{name}"), num_cycles=20)
