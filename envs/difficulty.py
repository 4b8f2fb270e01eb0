"""Difficulty: for each environment a stated measure of how hard a task is, which rises with the levels.

A measure looks at a task, at what its expert says, or at both, never at the number of the level. A task that writes
``difficulty`` is measured by it. For the others the table below says how the work of the expert is measured; an
environment that is not in the table is measured by its turns, or by its text where it has one turn.
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


def _reply(solved: SolvedTask) -> str:
    return "".join(solved.actions)


def _parts(solved: SolvedTask) -> tuple[str, str]:
    """The working, and what stands in the last box."""
    working, _, answer = _reply(solved).rpartition("\\boxed{")
    return working, answer.removesuffix("}")


def _empty(solved: SolvedTask) -> int:
    return sum(
        row.count(".") for row in re.findall(r"^(?:[\d.]{4,}|(?:\d+|\.)(?: (?:\d+|\.))+)$", solved.question, re.M)
    )


def _encrypted(solved: SolvedTask) -> int:
    return sum(map(str.isalpha, solved.question.partition("Encrypted: ")[2].partition("\n")[0]))


def _round_trips(solved: SolvedTask) -> float:
    """How many there are: half as many where each road is as long there as back."""
    table = solved.state.answer[0]
    both_ways = all(table[r][c] == table[c][r] for r in range(len(table)) for c in range(r))
    return math.factorial(len(table) - 1) / (2 if both_ways else 1)


TURNS = Measure("actions that the expert takes", lambda solved: len(solved.actions))
REPLY = Measure("characters of the expert's working and answer", lambda solved: len(_reply(solved)))
WRITTEN = Measure("digits that the expert's working writes", lambda solved: len(re.findall(r"\d", _reply(solved))))
NUMBERS = Measure("numbers in the expert's working and answer", lambda solved: len(re.findall(r"\d+", _reply(solved))))
OPERATORS = Measure(
    "signs of operations in the expert's working", lambda solved: len(re.findall(r"[-+*/^=<>]", _reply(solved)))
)
QUESTION = Measure("characters of the question", lambda solved: len(solved.question))
DIGITS = Measure("digits in the question", lambda solved: len(re.findall(r"\d", solved.question)))
BOTH = Measure(
    "characters of the question, the expert's working and the answer",
    lambda solved: len(solved.question) + len(_reply(solved)),
)
LINES = Measure("steps of the expert's working, one to a line", lambda solved: _parts(solved)[0].count("\n"))
CALCULATIONS = Measure("calculations of the expert's working", lambda solved: _parts(solved)[0].count("="))
SYMBOLS = Measure("cells or letters of the answer", lambda solved: len("".join(_parts(solved)[1].split())))
PARTS = Measure("parts of the answer", lambda solved: len(_parts(solved)[1].replace(",", " ").split()))
FACTS = Measure("lines of facts in the question", lambda solved: solved.question.count("\n"))
GIVEN = Measure("numbers that the question gives", lambda solved: len(re.findall(r"\d+", solved.question)))
ENCRYPTED = Measure("letters that are encrypted", _encrypted)
EMPTY = Measure("empty cells of the grid", _empty)
ROUND_TRIPS = Measure("round trips that there are", _round_trips)
LAMPS = Measure("lamps on the board", lambda solved: solved.state.board.size**2)
CELLS = Measure("cells of the board", lambda solved: solved.state.board.width * solved.state.board.height)
LAKE = Measure("cells of the lake", lambda solved: sum(map(len, solved.state.board.rows)))

# The measures, and the environments that they suit.
_NAMED: dict[Measure, str] = {
    REPLY: (
        "Calculator CircleAreas Circuits Cryptarithms DigitSums Energy FiniteAutomaton GameOfLife LightsOut Limits "
        "LinearDiophantine MarkovChains PolynomialDivision PolynomialProducts PrimeFactors QuadraticEquations "
        "RegexConstruction RepeatingDecimals SlidingTiles VisualMatrices"
    ),
    WRITTEN: (
        "Angles Arrangements BaseConversion ComplexNumbers Derivatives Divisors ExponentialEquations Extrema "
        "FactorialPowers Forces IdealGas InclusionExclusion Integrals Lines Series SolidMeasures UrnDraws"
    ),
    TURNS: (
        "Battleship Browser Cooking Crafting Detective Errands FloodIt FogMaze Game2048 GuessNumber HigherLower "
        "Household KeyDoor LandmarkNavigation MemoryPairs OddCoin OneLie PegJump PushYourLuck Secretary "
        "ServiceDesk Snake Sokoban SpaceStation Taxi TextAdventure Thermostat Trading TreasureHunt VisualGridWorld "
        "WaterJugs WordHunt WordLadder WorldSearch"
    ),
    BOTH: (
        "Bayes Calorimetry Entailment Laboratory LeastSquares PercentageChanges Sequences Solutions SubsetSum "
        "TwentyQuestions"
    ),
    QUESTION: (
        "BullsAndCows Countdown DateArithmetic DiceSums FunctionComposition Mastermind MatrixInverse Minesweeper "
        "MultiArmedBandit PalindromeCount RightTriangles SlidingPuzzle VectorGeometry VisualClocks VisualGraphs"
    ),
    NUMBERS: ("CodeOutput Eigenvalues EscapeRoom NullSpace QueensCompletion RomanNumerals"),
    DIGITS: "GridTransformation Motion",
    OPERATORS: "Rounding",
    EMPTY: "Futoshiki KnightsTour MiniSudoku Numbrix Skyscrapers Slitherlink Sudoku Takuzu",
    LINES: (
        "AgeProblems Anagrams BinaryHeap Bipartition BitManipulation BitOperations BracketCompletion "
        "CellularAutomaton Colouring CommonSubsequence ContinuedFractions CountSolutions CriticalPath "
        "CrosswordFill CubeNets DiceRolling Distributions EditDistance ExpectedValue FalseBeliefs FlowShop "
        "FractionArithmetic FunctionInduction GreatestCommonDivisor IntervalScheduling Knapsack KnightsAndKnaves "
        "LatticePaths LatticePoints LetterCounts LindenmayerSystem LongDivision MagicSquare MatrixProducts "
        "MazePath ModularInverse ModularPower OrderOfOperations PatternMatch PocketCube PolygonArea PolymerGrowth "
        "Products QueueMachine Recurrences RegisterMachine RobotWalk SearchTree Seating SetAlgebra SortingTrace "
        "SpanningTree StableMatching StackMachine StringRewriting Sums SwapTracking TaylorCoefficients Tilings "
        "TimeZones TopologicalOrder Transformations TruthCount TuringMachine Vieta VisualMazes WordProblems "
        "WordTracing"
    ),
    GIVEN: (
        "CoinChange Components JsonPaths LinearEquations LinearSystems MaxFlow MeetingTimes NeedleCounting "
        "Proportions Reachability SetSizes ShortestPath TableQueries"
    ),
    ENCRYPTED: "Ciphers",
    ROUND_TRIPS: "TravellingSalesman",
    LAMPS: "LightsOutGame",
    CELLS: "ConnectFour",
    LAKE: "FrozenLake FrozenLakeSlippery",
    SYMBOLS: "Hitori Kakurasu Kakuro Nonograms ReverseText RunLength SortWords Tents",
    PARTS: (
        "AssignmentProblem BinPacking Bridges HamiltonianPath MatrixWalk NumberLink Ordering RectanglePacking "
        "StarBattle Survo TowerOfHanoi WordSearch Zebra"
    ),
    FACTS: "Directions ForwardChaining Satisfiability SetCover Syllogisms Timetables",
    CALCULATIONS: "Calcudoku Committees KillerSudoku",
}
MEASURES: dict[str, Measure] = {
    f"rlvr/{name}-v0": measure for measure, names in _NAMED.items() for name in names.split()
}


def measure_of(env: TextEnv, env_id: str) -> Measure:
    """The measure of an environment's difficulty; the environment is reset for it."""
    env.reset(seed=0)
    own = env.task.difficulty
    if own(env.get_state().state) is not None:
        words = (own.__doc__ or "").partition("\n")[0].rstrip(".")
        return Measure(words[:1].lower() + words[1:], lambda solved: float(own(solved.state) or 0.0))
    return MEASURES.get(env_id, TURNS if env.task.turns(env.task.levels) > 1 else BOTH)


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


def difficulty(env: TextEnv, env_id: str, level: int, seeds: range) -> float:
    """The mean of an environment's measure over some tasks of a level."""
    measure = measure_of(env, env_id)
    return sum(measure.of(play(env, level, seed)) for seed in seeds) / len(seeds)
