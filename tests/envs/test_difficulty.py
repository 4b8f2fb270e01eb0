"""Levels mean difficulty: the stated measure of each environment rises with them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.tables import DataError
from rlvr.envs.difficulty import SPACES, measures_of, play
from rlvr.envs.players.catalogue import GAMES
from rlvr.envs.players.exploitability import exploitability
from rlvr.envs.players.poker import KuhnPoker
from rlvr.envs.sandbox import SandboxUnavailable

from ..needs import COSTLY

SEEDS = range(40)

# By which share the mean of the general measure may fall from a level to the next: chance in the tasks that are drawn.
TOLERANCE = 0.05

# Levels that are harder in kind though the expert needs no more actions, and why.
HARDER_IN_KIND = {
    "ConnectFour": "a win takes four or five moves on every board; on a larger one more moves have to be foreseen",
    "TicTacToe": "a game lasts two or three moves; on a larger board fewer of the possible moves reach the goal",
}

OWN = {
    "Nim": "positions that play may reach",
    "Determinants": "operations, or cases, that lead to the answer",
    "HanoiGame": "moves of the shortest solution",
    "FogMaze": "actions that the expert takes",
    "Divisors": "characters of the expert's worked solution",
}


# Games of several seats whose expert does not score less in the company of stronger players.
RELATIVE = {"KuhnPoker", "LeducPoker", "SealedAuction", "VickreyAuction"}  # paid by the best play against the others
HABITS = {"Blotto", "RockPaperScissors", "MatchingPennies"}  # the others keep to habits of other kinds
MIXED_MOTIVES = {"PrisonersDilemma", "StagHunt", "Chicken", "PriceNegotiation", "ShareNegotiation"}
CARDS = Path(__file__).parents[2] / "benchmarks" / "results" / "cards.json"


@pytest.mark.parametrize("name", [name for name in GAMES if name not in RELATIVE | HABITS | MIXED_MOTIVES])
def test_the_expert_of_a_game_scores_less_from_level_to_level(name):
    """As the cards have it: a standard error of 100 tasks is at most 0.05."""
    scores = [each["expert"] for each in json.loads(CARDS.read_text())["cards"][f"rlvr/{name}-v0"]["scores"]]
    assert scores[2] < scores[0]
    assert all(harder <= easier + 0.1 for easier, harder in pairwise(scores))


def test_less_can_be_won_from_the_players_of_kuhn_poker_from_level_to_level():
    """By a best response to random moves, to moves half of which are the expert's, and to the expert's."""
    game = KuhnPoker()

    def mixed(noise):
        def policy(view, seat, legal):
            expert = game.expert_odds(view, seat)
            return {move: noise / len(legal) + (1 - noise) * expert.get(move, 0.0) for move in legal}

        return policy

    gains = [exploitability(game, mixed(noise)).value for noise in (1.0, 0.5, 0.0)]
    assert gains == pytest.approx([0.458, 0.191, 0], abs=0.001)


def measured() -> list[str]:
    """The environments that the law holds for. Left out are tables, whose tasks nobody generates, others' generators,
    and games whose other seats decide how hard they are."""
    found = []
    for env_id in sorted(list_envs()):
        name = env_id.removeprefix("rlvr/").removesuffix("-v0")
        if "." not in name and ".players." not in gym.spec(env_id).kwargs["task"]:
            found.append(env_id)
    return found


def test_the_ids_of_the_tables_are_registered():
    assert {*SPACES} | {f"rlvr/{name}-v0" for name in HARDER_IN_KIND} <= {*list_envs()}


def test_a_measure_of_a_task_of_its_own_is_said_in_words():
    """Of a game and of a question with counted operations; a task without is measured by its expert."""
    words = {name: measures_of(gym.make(f"rlvr/{name}-v0").unwrapped, f"rlvr/{name}-v0")[-1].words for name in OWN}
    assert words == OWN


@pytest.mark.slow
@pytest.mark.parametrize("env_id", measured())
def test_each_level_asks_for_more(env_id):
    """For no fewer actions or for no shorter solution than the level before, and for more by a measure of its own."""
    try:
        env = gym.make(env_id).unwrapped
    except (DataError, SandboxUnavailable) as error:
        pytest.skip(str(error))
    if not isinstance(env, TextEnv) or env.size is not None or env.task.levels == 1:
        pytest.skip("a table, or an environment of one level")
    measures = measures_of(env, env_id)
    seeds = SEEDS[:10] if env_id in COSTLY else SEEDS
    tasks = [[play(env, level, seed) for seed in seeds] for level in range(1, env.task.levels + 1)]
    means = [[sum(map(measure.of, solved)) / len(solved) for solved in tasks] for measure in measures]
    falls = max(1 - harder / easier for easier, harder in pairwise(means[0]))
    if env_id[5:-3] not in HARDER_IN_KIND:
        assert falls <= TOLERANCE, (measures[0].words, means[0])
    for measure, values in zip(measures[1:], means[1:], strict=True):
        assert values == sorted(values), (measure.words, values)
    assert means[-1][-1] > means[-1][0]
