"""Difficulty: stated measures of how hard a task is, which rise with the levels.

A measure looks at a task, at what its expert says, or at both, never at the number of the level. One measure holds for
all: the actions that the expert takes, or the length of its worked solution where there is one turn. Beside it a task
that writes ``difficulty`` is measured by that, and some others by the space that is searched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from rlvr.envs.core.images import text_of
from rlvr.envs.core.text_env import TextEnv


class SolvedTask(NamedTuple):
    """A task, and how its expert solves it.

    Attributes:
        question: the first observation.
        state: the task's first state.
        actions: what the expert says, turn by turn.
    """

    question: str
    state: Any
    actions: tuple[str, ...]


class Measure(NamedTuple):
    """What is measured, in words, and how."""

    words: str
    of: Callable[[SolvedTask], float]


def _empty(solved: SolvedTask) -> int:
    return sum(
        row.count(".") for row in re.findall(r"^(?:[\d.]{4,}|(?:\d+|\.)(?: (?:\d+|\.))+)$", solved.question, re.M)
    )


def _generations(solved: SolvedTask) -> int:
    board, asked = re.findall(r"^[01]+$", solved.question, re.M), re.findall(r"(\d+) generation", solved.question)
    return sum(map(len, board)) * int(asked[-1])


def _untold(solved: SolvedTask) -> int:
    words, total, *_ = solved.state.answer
    shown = re.findall(r"([A-Z]) is \d", solved.question)
    untold = [letter for word in (*words, total) for letter in word if letter not in shown]
    return len(words) * len(untold)


def _edges(solved: SolvedTask) -> int:
    graph = solved.state.scene
    return len(graph.edges) * (1 + int(graph.weighted) + int(graph.directed))


def _round_trips(solved: SolvedTask) -> float:
    """How many there are: half as many where each road is as long there as back."""
    table = solved.state.answer[0]
    both_ways = all(table[r][c] == table[c][r] for r in range(len(table)) for c in range(r))
    return math.factorial(len(table) - 1) / (2 if both_ways else 1)


ACTIONS = Measure("actions that the expert takes", lambda solved: len(solved.actions))
SOLUTION = Measure("characters of the expert's worked solution", lambda solved: len(solved.actions[0]))

# What a search or a look at the task has to go through, where that is more than the solution shows.
SPACES: dict[str, Measure] = {
    f"rlvr/{name}-v0": Measure(words, of)
    for words, of, names in (
        (
            "codes that are possible",
            lambda solved: int(re.findall(r"\d+", solved.actions[0])[0]),
            "BullsAndCows Mastermind",
        ),
        ("characters of the calls and the answer", lambda solved: len("".join(solved.actions)), "Calculator"),
        ("things that may be meant", lambda solved: len(solved.state.things), "TwentyQuestions"),
        ("mines in the field", lambda solved: solved.state.mines.bit_count(), "Minesweeper"),
        ("arms of the bandit", lambda solved: len(solved.state.values), "MultiArmedBandit"),
        ("choices that there are", lambda solved: 2 ** len(solved.state.answer[0]), "SubsetSum"),
        ("edges of the graph, their lengths and directions", _edges, "VisualGraphs"),
        ("cells, times the generations", _generations, "GameOfLife"),
        ("letters of the sum whose digits are not told, times the numbers added", _untold, "Cryptarithms"),
        (
            "empty cells of the grid",
            _empty,
            "Futoshiki KnightsTour MiniSudoku Numbrix Skyscrapers Slitherlink Sudoku Takuzu",
        ),
        ("round trips that there are", _round_trips, "TravellingSalesman"),
        ("cells of the board", lambda solved: solved.state.board.width * solved.state.board.height, "ConnectFour"),
        ("cells of the lake", lambda solved: sum(map(len, solved.state.board.rows)), "FrozenLake FrozenLakeSlippery"),
    )
    for name in names.split()
}


def measures_of(env: TextEnv, env_id: str) -> tuple[Measure, ...]:
    """The measure that holds for all, actions or the length of a solution; then the environment's own, if it has one.

    The environment is reset.
    """
    env.reset(seed=0)
    general, specific = ACTIONS if env.task.turns(env.task.levels) > 1 else SOLUTION, env.task.difficulty
    if specific(env.get_state().state) is not None:
        words = (specific.__doc__ or "").partition("\n")[0].rstrip(".")
        return general, Measure(words[:1].lower() + words[1:], lambda solved: float(specific(solved.state) or 0.0))
    return (general, SPACES[env_id]) if env_id in SPACES else (general,)


def play(env: TextEnv, level: int, seed: int) -> SolvedTask:
    """A task of a level, and what its expert says, to the end.

    Raises:
        NotImplementedError: no expert is known.
    """
    observation, _ = env.reset(seed=seed, options={"level": level})
    state, actions, over = env.get_state().state, [], False
    while not over:
        actions.append(env.solve())
        if env.task.turns(level) == 1:
            break
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return SolvedTask(text_of(observation), state, tuple(actions))
