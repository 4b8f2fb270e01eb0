"""Levels mean difficulty: the stated measure of each environment rises with them."""

from __future__ import annotations

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.tables import DataError
from rlvr.envs.core.task import Task
from rlvr.envs.difficulty import BOTH, DIGITS, MEASURES, QUESTION, WRITTEN, difficulty, measure_of
from rlvr.envs.sandbox import SandboxUnavailable

SEEDS = range(40)
FEW = range(10)  # of games, which take many turns

# What has no measure, and why; nothing at present.
WITHOUT: dict[str, str] = {}


OWN = {
    "Nim": "positions that play may reach",
    "Determinants": "operations, or cases, that lead to the answer",
    "Divisors": "operations on digits in the calculations of the expert's working",
    "HanoiGame": "moves of the shortest solution",
    "FogMaze": "actions that the expert takes",
}


def measured() -> list[str]:
    """The environments that the law holds for. Left out are tables, whose tasks nobody generates, others' generators,
    and games whose other seats decide how hard they are."""
    found = []
    for env_id in sorted(list_envs()):
        name = env_id.removeprefix("rlvr/").removesuffix("-v0")
        if name not in WITHOUT and "." not in name and ".players." not in gym.spec(env_id).kwargs["task"]:
            found.append(env_id)
    return found


def test_the_ids_of_the_tables_are_registered():
    assert {*MEASURES} | {f"rlvr/{name}-v0" for name in WITHOUT} <= {*list_envs()}


def test_lengths_of_texts_measure_only_tasks_whose_levels_differ_in_kind():
    """Here steps and operations do not rise from each level to the next; docs/environments.md names them. The digits of
    GridTransformation are the cells of its grids."""
    measured = {env_id[5:-3] for env_id, measure in MEASURES.items() if measure in (BOTH, DIGITS, QUESTION, WRITTEN)}
    assert measured == {*"DateArithmetic Extrema GridTransformation Lines Motion SolidMeasures Solutions".split()}


def test_a_measure_of_a_task_of_its_own_is_said_in_words():
    """Of a game and of a question with counted operations; a task without is measured by its expert."""
    words = {name: measure_of(gym.make(f"rlvr/{name}-v0").unwrapped, f"rlvr/{name}-v0").words for name in OWN}
    assert words == OWN


@pytest.mark.slow
@pytest.mark.parametrize("env_id", measured())
def test_the_measure_rises_with_the_levels(env_id):
    try:
        env = gym.make(env_id).unwrapped
    except (DataError, SandboxUnavailable) as error:
        pytest.skip(str(error))
    if not isinstance(env, TextEnv) or env.size is not None or env.task.levels == 1:
        pytest.skip("a table, or an environment of one level")
    many = env.task.turns(env.task.levels) == 1 or type(env.task).difficulty is not Task.difficulty
    seeds = SEEDS if many else FEW
    means = [difficulty(env, env_id, level, seeds) for level in range(1, env.task.levels + 1)]
    assert means == sorted(means), (measure_of(env, env_id).words, means)
    assert means[-1] > means[0]
