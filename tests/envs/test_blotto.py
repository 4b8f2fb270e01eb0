"""The expert of Colonel Blotto plays a mixture that no fixed division beats."""

from __future__ import annotations

import random

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.fixed_policies import always, expert_action, play
from rlvr.envs.players.bids import Blotto, divisions, unbeaten_mixture, won


@pytest.mark.parametrize(("soldiers", "fields"), [(10, 3), (6, 3), (12, 3), (8, 4), (7, 2)])
def test_no_division_beats_the_mixture(soldiers: int, fields: int) -> None:
    game = Blotto(soldiers=soldiers, fields=fields)
    rng = random.Random(5)
    drawn = [tuple(map(int, game.expert(game.start(), 0, rng).split())) for _ in range(3_000)]
    assert {sum(plan) for plan in drawn} == {soldiers}
    for division in divisions(soldiers, fields):
        plan = tuple(map(int, division.split()))
        assert sum(won(plan, other) for other in drawn) / len(drawn) < 0.07, plan  # 5 5 0 won every time before


def test_large_games_have_no_mixture_and_an_expert() -> None:
    assert unbeaten_mixture(40, 3) == ((), ())
    assert sum(map(int, Blotto(soldiers=40).expert(Blotto(soldiers=40).start(), 0, random.Random(0)).split())) == 40


@pytest.mark.parametrize("level", [1, 2, 3])
def test_no_division_wins_every_match_and_the_expert_finds_the_habit_out(level: int) -> None:
    env = gym.make("rlvr/Blotto-v0", level=level, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    plans = ("5 5 0", "4 4 2", "4 3 3", "6 4 0")
    means = [sum(play(env, seed, always(f"\\boxed{{{plan}}}")) for seed in range(40)) / 40 for plan in plans]
    expert = sum(play(env, seed, expert_action) for seed in range(40)) / 40
    assert max(means) < expert - 0.15
