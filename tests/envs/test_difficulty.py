"""Levels mean difficulty: the stated measure of each environment rises with them."""

from __future__ import annotations

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.tables import DataError
from rlvr.envs.difficulty import MEASURES, difficulty
from rlvr.envs.sandbox import SandboxUnavailable

SEEDS = range(20)
FEW = range(10)  # of games, which take many turns

# Their levels ask for different things, or change the rules of a game, and no one measure fits all of them yet.
WITHOUT = (
    "Angles BaseConversion BlackBox Blackjack CalendarDays ClockAngles CodeInput CodeRepair CodeTests Committees "
    "ComplexNumbers Derivatives Determinants Divisors ExponentialEquations FactorialPowers FamilyTree FogMaze "
    "Forces GreatestCommonDivisor Hangman HanoiGame HashTable IdealGas InclusionExclusion Integrals Lines "
    "ListFunctionInduction MatrixProducts ModularPower Nim RiverCrossing RushHour SQL Series SetSizes SolidMeasures "
    "Spies StringFunctionInduction Terminal TicTacToe TwentyFour UnitConversion UrnDraws VisualCharts "
    "VisualCounting VisualGeometry VisualTables Wordle "
).split()


def test_every_generated_environment_with_levels_has_a_measure_or_is_listed():
    missing = []
    for env_id in sorted({*list_envs()} - {*MEASURES}):
        if env_id.startswith(("rlvr/rg.", "rlvr/textarena.")) or ".players." in gym.spec(env_id).kwargs["task"]:
            continue  # others' generators, and games whose other seats decide how hard they are
        try:
            env = gym.make(env_id).unwrapped
        except (DataError, SandboxUnavailable):
            continue
        if isinstance(env, TextEnv) and env.size is None and env.task.levels > 1:
            missing.append(env_id.removeprefix("rlvr/").removesuffix("-v0"))
    assert set(missing) <= {*WITHOUT}
    assert not {f"rlvr/{name}-v0" for name in WITHOUT} & {*MEASURES}


@pytest.mark.parametrize("env_id", sorted(MEASURES))
def test_the_measure_rises_with_the_levels(env_id):
    env = gym.make(env_id).unwrapped
    assert isinstance(env, TextEnv)
    seeds = SEEDS if env.task.turns(env.task.levels) == 1 else FEW
    means = [difficulty(env, env_id, level, seeds) for level in range(1, env.task.levels + 1)]
    assert means == sorted(means), (MEASURES[env_id].words, means)
    assert means[-1] > means[0]
