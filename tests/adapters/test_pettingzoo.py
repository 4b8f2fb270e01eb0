"""PettingZoo's own tests on every game of several seats, and what its environments promise beside them."""

from __future__ import annotations

import json
import random
import warnings

import pytest

from rlvr.adapters import versions
from rlvr.envs.core.spaces import Text
from rlvr.envs.players.catalogue import GAMES
from rlvr.envs.players.game import NotThisSeat

foreign = pytest.mark.foreign


class LegalText(Text):
    """Samples the legal moves of a seat, so that PettingZoo's tests play whole games."""

    def __init__(self, env, agent):
        super().__init__()
        self.env, self.agent = env, agent

    def sample(self, *args, **kwargs):
        seat = self.env.seat_of[self.agent]
        moving = self.env.match is not None and seat in self.env.referee.to_move(self.env.match)
        moves = self.env.referee.legal(self.env.match, seat) if moving else [""]
        return moves[int(self.np_random.integers(len(moves)))]


def with_legal_moves(env):
    env.action_spaces = {agent: LegalText(env, agent) for agent in env.possible_agents}
    return env


def test_a_missing_pettingzoo_is_one_clear_error(monkeypatch):
    from rlvr.adapters.suites.pettingzoo import aec_env

    def missing(package):
        raise versions.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(versions.metadata, "version", missing)
    with pytest.raises(ImportError, match=r"pettingzoo>=1\.27\.0,<1\.28"):
        aec_env("KuhnPoker")


@foreign
@pytest.mark.parametrize("legal", [False, True], ids=["random texts", "legal moves"])
@pytest.mark.parametrize("game", GAMES)
def test_every_game_passes_pettingzoos_own_tests(game, legal):
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test

    from rlvr.adapters.suites.pettingzoo import aec_env, parallel_env

    dress = with_legal_moves if legal else lambda env: env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a text is no NumPy array
        api_test(dress(aec_env(game)), num_cycles=60)
        parallel_api_test(dress(parallel_env(game)), num_cycles=60)
        seed_test(lambda: dress(aec_env(game)), num_cycles=30)
        parallel_seed_test(lambda: dress(parallel_env(game)), num_cycles=30)
        render_test(lambda **settings: dress(aec_env(game, **settings)))


@foreign
@pytest.mark.parametrize("game", GAMES)
def test_both_interfaces_play_the_same_match(game):
    pytest.importorskip("pettingzoo")
    from rlvr.adapters.suites.pettingzoo import aec_env, parallel_env

    one, both = aec_env(game), parallel_env(game)
    rng = random.Random(3)
    for seed in range(3):
        one.reset(seed=seed)
        both.reset(seed=seed)
        rewards = dict.fromkeys(both.agents, 0.0)
        while both.agents:
            movers = [both.possible_agents[seat] for seat in both.referee.to_move(both.match)]
            actions = {
                agent: rng.choice(one.infos[agent]["moves"] or one.infos[movers[0]]["moves"]) for agent in movers
            }
            for agent in movers:
                assert one.agent_selection == agent
                one.step(actions[agent])
            _, rewards, *_, infos = both.step(actions)
        assert {agent: one.rewards[agent] for agent in rewards} == rewards
        assert one.record() == both.record() == json.loads(json.dumps(one.record()))
        assert one.referee.replay(one.record()).state == both.match.state
        assert all(infos[agent]["verdict"].reward == rewards[agent] for agent in rewards)


@foreign
def test_a_move_of_a_wrong_dead_or_unknown_seat_is_refused():
    pytest.importorskip("pettingzoo")
    from rlvr.adapters.suites.pettingzoo import aec_env, parallel_env

    env = parallel_env("TicTacToeDuel")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="seat_9 cannot act"):
        env.step({"seat_0": "a1", "seat_9": "a2"})
    with pytest.raises(ValueError, match="seat_0 must move"):
        env.step({"seat_1": "a1"})
    env.step({"seat_0": "a1", "seat_1": "b2"})  # it is not seat_1's turn: its text is not read
    assert "b2" in env.referee.legal(env.match, 1)
    with pytest.raises(NotThisSeat, match="seat 1 moves now"):
        env.referee.act(env.match, 0, "b2")
    one = aec_env("TicTacToeDuel", tries=1)
    one.reset(seed=0)
    one.step("nothing")
    assert one.rewards == {"seat_0": -1.0, "seat_1": 1.0}
    with pytest.raises(ValueError, match="None"):
        one.step("a1")
    with pytest.raises(ValueError, match="render_mode"):
        aec_env("TicTacToeDuel", render_mode="rgb_array")


@foreign
def test_a_state_restores_the_match_and_what_each_seat_has_read():
    pytest.importorskip("pettingzoo")
    from rlvr.adapters.suites.pettingzoo import aec_env

    env = aec_env("Goofspiel")
    env.reset(seed=5)
    env.step(env.infos["seat_0"]["moves"][0])
    state = env.get_state()
    seen = {agent: env.observe(agent) for agent in env.agents}
    assert "Seat 0:" not in seen["seat_1"], "a bid is hidden until both have bid"
    env.step("nonsense")
    env.step(env.infos["seat_1"]["moves"][2])
    env.set_state(state)
    assert {agent: env.observe(agent) for agent in env.agents} == seen
    assert env.agent_selection == "seat_1"
