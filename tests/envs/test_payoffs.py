"""The best play of a game is the best play of its reward, and no policy that learns nothing comes near its expert."""

from __future__ import annotations

import json
import pickle
import random
import re
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlvr
from rlvr.agents import RandomAgent, Rollout, RolloutRequest, summarise
from rlvr.envs.cards import card
from rlvr.envs.core.registry import best_scores, scores_below_1
from rlvr.envs.fixed_policies import GAP, ReturnSample, always, expert_action, fixed_policies, measure_fixed, play
from rlvr.envs.players.auctions import AuctionState
from rlvr.envs.players.bots import bot_odds, make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import best_response, exploitability
from rlvr.envs.players.game import Referee
from rlvr.envs.players.matrix_games import MATRICES
from rlvr.envs.players.rounds import Rounds
from rlvr.envs.players.single import AsSingleAgent

ROOT = Path(__file__).parents[2]
UNMEASURED = {"rlvr/Chess-v0", "rlvr/Stratego-v0"}  # hundreds of long matches: over eight CPU-minutes an id
PAID = ("KuhnPoker", "LeducPoker", "SealedAuction", "VickreyAuction")


def preferring(*order):
    """The policy that plays the first of these moves that is legal."""
    return lambda view, seat, legal: {move: float(move == next(m for m in order if m in legal)) for move in legal}


# poker


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "order"), [("KuhnPoker", ("bet", "call")), ("LeducPoker", ("raise", "call")), ("LeducPoker", ("call",))]
)
def test_the_mean_reward_is_the_expected_payoff(name, order, level):
    """1 less what the policy returns below the best response, in shares of the stake, exactly in expectation."""
    game = make_game(name)
    opponent = ("random", "mixed", "expert")[level - 1]
    policy = preferring(*order)
    gaps = []
    for seat in (0, 1):

        def both(view, mover, legal, seat=seat):
            return policy(view, mover, legal) if mover == seat else bot_odds(opponent, game, view, mover)

        gaps.append(exploitability(game, both).gains[seat])
    expected = 1 - sum(gaps) / 2 / game.stake
    env = gym.make(f"rlvr/{name}-v0", level=level).unwrapped
    given_away = []
    for seed in range(300):
        env.reset(seed=seed)
        over = False
        while not over:
            state = env.get_state().state
            legal = env.task.referee.legal(state.match, state.seat)
            _, _, over, _, info = env.step(next(move for move in order if move in legal))
        given_away.append(info["verdict"].parts["given_away"] / game.default_rounds)
    mean = 1 - sum(given_away) / len(given_away) / game.stake
    assert mean == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("name", PAID)
def test_the_expert_gives_nothing_away_whoever_wins(name):
    env = gym.make(f"rlvr/{name}-v0", level=2).unwrapped
    returns = []
    for seed in range(8):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, over, _, info = env.step(env.solve())
        assert reward == 1.0
        assert info["verdict"].status == "correct"
        assert info["verdict"].parts["given_away"] == 0.0
        returns.append(info["verdict"].parts["return"])
    assert len(set(returns)) > 1


@pytest.mark.parametrize("name", ["KuhnPoker", "LeducPoker"])
def test_the_values_of_the_moves_add_up_to_the_best_response(name):
    game = make_game(name)
    policy = lambda view, seat, legal: bot_odds("mixed", game, view, seat)  # noqa: E731
    gain, value = exploitability(game, policy).gains[0], exploitability(game, policy).values[0]
    assert best_response(game, policy, 0).value() == pytest.approx(gain + value)
    referee = Referee(game)
    match = referee.begin(3)
    view = game.view(match.state, 0)
    values = game.move_values(view, 0, ("", "mixed"))
    assert set(values) == set(referee.legal(match, 0))


@pytest.mark.slow
@settings(max_examples=12)
@given(st.sampled_from(["SealedAuction", "VickreyAuction"]), st.integers(1, 20), st.integers(0, 20), st.integers(0, 2))
def test_the_value_of_a_bid_is_its_mean_gain(name, value, bid, seat):
    game, rng = make_game(name), random.Random(5)
    bots = ("random", "mixed", "expert")
    values = game.move_values(AuctionState(tuple(value if at == seat else -1 for at in range(3))), seat, bots)
    gains = []
    for _ in range(1_500):
        drawn = [rng.randint(1, 20) for _ in range(3)]
        drawn[seat] = value
        state = AuctionState(tuple(drawn))
        bids = [
            bid if at == seat else int(make_bot(bots[at]).choose(game, game.view(state, at), at, rng))
            for at in range(3)
        ]
        gains.append(game.returns(state._replace(bids=tuple(bids)))[seat])
    deviation = (sum((gain - values[str(bid)]) ** 2 for gain in gains) / len(gains)) ** 0.5
    assert sum(gains) / len(gains) == pytest.approx(values[str(bid)], abs=0.02 + 4 * deviation / len(gains) ** 0.5)


def test_the_reward_of_expected_payoffs_needs_opponents_that_can_be_foretold():
    for settings_ in ({"game": "KuhnPoker", "opponents": ["self"]}, {"game": "Hex"}):
        with pytest.raises(ValueError, match="use 'payoff'"):
            AsSingleAgent(**settings_, reward="expected")
    task = AsSingleAgent(game="KuhnPoker", opponents=["self"])
    assert (task.reward, task.game.name, task.game.decisions) == ("payoff", "KuhnPoker", 2)


# rounds


@pytest.mark.parametrize("name", ["KuhnPoker", "NoLimitHoldem", "SealedAuction", "LiarsDiceTable", "Blotto"])
def test_rounds_add_up_and_a_match_can_be_replayed_and_continued_twice(name):
    inner = make_game(name)
    game = Rounds(inner, 4)
    referee = Referee(game)
    for key in range(6):
        rng = random.Random(key)
        match, middle = referee.begin(key), None
        while movers := referee.to_move(match):
            for seat in movers:
                assert len(game.view(match.state, seat).past) == len(match.state.past)
            match = referee.act(match, movers[0], rng.choice(referee.legal(match, movers[0])))
            middle = match if len(match.state.past) == 2 and middle is None else middle
        rounds = [*match.state.past, match.state.inner]
        assert len(rounds) == 4
        sums = [sum(values) for values in zip(*map(inner.returns, rounds), strict=True)]
        assert referee.returns(match) == pytest.approx(tuple(sums))
        assert referee.replay(referee.record(match)) == match
        assert pickle.loads(pickle.dumps(middle)) == middle
        for seat in range(game.seats):
            assert 0 <= game.payoff(referee.returns(match), seat) <= 1


def test_what_a_seat_reads_of_earlier_rounds_is_what_it_read_then():
    game = Rounds(make_game("KuhnPoker"), 2)
    referee = Referee(game)
    match = referee.begin(1)
    for move in ("bet", "fold"):
        match = referee.act(match, referee.to_move(match)[0], move)
    assert "?" in game.view(match.state, 0).past[0].cards  # nobody has seen the card of a fold
    assert match.state.past[0].cards[1] not in referee.observe(match, 0).split("Round 2")[0].split("Your card: ")[0]


def test_bad_rounds_are_refused():
    for rounds in (0, 101):
        with pytest.raises(ValueError, match="2 to 100"):
            AsSingleAgent(game="KuhnPoker", rounds=rounds)


# habits


@pytest.mark.parametrize("name", ["PrisonersDilemma", "StagHunt", "Chicken", "RockPaperScissors", "MatchingPennies"])
def test_a_habit_is_a_legal_move_without_chance_and_its_bounds_hold(name):
    game = make_game(name)
    for level in (1, 2, 3):
        for habit in game.habits(level):
            for key in range(3):
                rng, state = random.Random(key), game.start()
                while game.actors(state):
                    move = game.habitual(habit, state, 1)
                    assert move == game.habitual(habit, state, 1)
                    state = game.apply_all(state, {0: rng.choice(game.moves), 1: move})
                assert 0 <= game.payoff_against(habit, game.returns(state), 0) <= 1
    assert {len(entry["habits"]) for entry in MATRICES.values()} == {3}


@pytest.mark.parametrize("name", ["PrisonersDilemma", "StagHunt", "Chicken", "RockPaperScissors", "MatchingPennies"])
@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_one_word_is_not_worth_learning(name, level):
    env = gym.make(f"rlvr/{name}-v0", level=level).unwrapped
    words = [f"\\boxed{{{move}}}" for move in env.task.game.moves]
    seeds = range(60)
    expert = sum(play(env, seed, expert_action) for seed in seeds) / len(seeds)
    for word in words:
        assert sum(play(env, seed, always(word)) for seed in seeds) / len(seeds) < expert - 0.1, word


def test_a_habit_of_another_game_is_refused():
    with pytest.raises(ValueError, match="no habit 'copy stag'; it has"):
        AsSingleAgent(game="Chicken", opponents=["habit:copy stag"])
    with pytest.raises(ValueError, match="it has none"):
        AsSingleAgent(game="Hex", opponents=["habit:copy stag"])


# policies that learn nothing


def test_no_policy_that_learns_nothing_is_near_the_expert():
    """Of the committed figures, whose standard error near the expert is at most 0.02."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "constants.json").read_text())["rows"]
    near = {}
    for env_id, scores in rows.items():
        for score in scores:
            gap = score["expert"] - max(score["random"], score["constant"])
            if gap < GAP:
                near.setdefault(env_id, []).append(round(gap, 2))
    assert not near
    games = {
        env_id for env_id in rlvr.list_envs() if re.search(r"\.(games|players)\.", gym.spec(env_id).kwargs["task"])
    }
    missing = {env_id for env_id in games if "." not in env_id} - {*rows} - UNMEASURED
    assert not missing, "python benchmarks/constants.py --missing"


def test_the_measure_finds_a_word_that_always_wins():
    """In Pig to 10 points who always rolls plays nearly as well as the expert."""
    scores = measure_fixed("rlvr/Pig-v0", 1, error=0.05, game_settings={"goal": 10})
    assert scores.gap < GAP
    assert scores.policy in ("first legal", "\\boxed{roll}", "repeat")
    assert measure_fixed("rlvr/GuessNumber-v0", 3, error=0.1).gap > 0.8


def test_two_words_that_are_never_legal_together_are_a_fixed_policy():
    """In Kuhn poker who bets and folds learns nothing, either; no other pair of a list is one."""
    env = gym.make("rlvr/KuhnPoker-v0", level=1).unwrapped
    policies = fixed_policies(env)
    pairs = {name.replace("\\boxed", "") for name in policies if " or " in name}
    words = {frozenset(re.findall(r"\w+", pair)) - {"or"} for pair in pairs}
    assert words == {
        frozenset(pair) for pair in (("bet", "call"), ("bet", "fold"), ("check", "call"), ("check", "fold"))
    }
    pair = policies[next(name for name in policies if re.search("bet.* or .*fold|fold.* or .*bet", name))]
    for seed in range(20):
        env.reset(seed=seed)
        over = False
        while not over:
            action = pair(env, None, random.Random(0))
            assert action in ("\\boxed{bet}", "\\boxed{fold}")
            _, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated


# the best score known


def test_the_best_score_known_stands_in_info_verdict_evaluation_and_card():
    env = gym.make("rlvr/NimDuel-v0", level=3).unwrapped
    _, info = env.reset(seed=0)
    best = best_scores("rlvr/NimDuel-v0")[2]
    assert 0.3 < best < 0.7  # whoever begins in a won position wins, and seats are drawn
    assert info["best_score"] == best
    fork = env.fork()
    over = False
    while not over:
        _, _, over, _, info = fork.step(fork.solve())
    assert info["verdict"].parts["best_score"] == best
    assert "best" in str(card("rlvr/NimDuel-v0"))
    episodes = Rollout("rlvr/NimDuel-v0", RandomAgent(), env_settings={"level": 3})(
        [RolloutRequest(seed) for seed in (1, 2)]
    )
    assert summarise(episodes).best_score == pytest.approx(best)
    assert f"(best known {best:.3f})" in str(summarise(episodes))


def test_other_settings_have_no_best_score_known():
    spec = gym.make("rlvr/NimDuel-v0", opponents=["random"]).unwrapped.spec
    assert not scores_below_1(spec)
    assert scores_below_1(gym.make("rlvr/NimDuel-v0").unwrapped.spec)[3] < 1
    assert not scores_below_1(gym.make("rlvr/Countdown-v0").unwrapped.spec)


@pytest.mark.parametrize("env_id", ["rlvr/NimDuel-v0", "rlvr/TicTacToeDuel-v0"])
def test_the_best_score_known_is_what_perfect_players_make_of_the_tasks(env_id):
    """Both sides play perfectly on level 3, so the expert's mean is the value of the tasks."""
    env = gym.make(env_id, level=3).unwrapped
    sample = ReturnSample(env, expert_action).extended(150, 1.0, 150)
    assert best_scores(env_id)[2] == pytest.approx(sample.mean, abs=4 * sample.error)
