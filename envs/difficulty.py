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


_CALCULATION = re.compile(r"(\d+)[)\]]*\s*([-+*/^])\s*(?=[(\[]*[-+]?(\d+))")


def _digit_operations(solved: SolvedTask) -> int:
    """By the methods of school: a sum takes as many as the longer number has digits, a product as many as both
    multiplied, a power the products that make it, up to the hundredth."""
    found = 0
    for left, sign, right in _CALCULATION.findall(_parts(solved)[0]):
        if sign in "+-":
            found += max(len(left), len(right))
        elif sign == "^":
            found += max(0, min(int(right[:3]), 100) - 1) * len(left) ** 2
        else:
            found += len(left) * len(right)
    return found


def _truth_table(solved: SolvedTask) -> int:
    """The rows of the table, times the premises."""
    working = _parts(solved)[0]
    return int(re.findall(r"cases of (\d+) left", working)[0]) * working.count("After ")


def _generations(solved: SolvedTask) -> int:
    board, asked = re.findall(r"^[01]+$", solved.question, re.M), re.findall(r"(\d+) generation", solved.question)
    return sum(map(len, board)) * int(asked[-1])


def _divided(solved: SolvedTask) -> int:
    """As many for each coefficient of the quotient as the divisor has coefficients, which is monic."""
    quotient, rest = re.findall(r"the (\d+) coefficients? of the quotient and then the (\d+)", solved.question)[0]
    return int(quotient) * (int(rest) + 1)


def _untold(solved: SolvedTask) -> int:
    words, total, *_ = solved.state.answer
    shown = re.findall(r"([A-Z]) is \d", solved.question)
    untold = [letter for word in (*words, total) for letter in word if letter not in shown]
    return len(words) * len(untold)


def _words(solved: SolvedTask) -> list[str]:
    return re.findall(r"^[abc]+$", solved.question, re.M)


def _functions(solved: SolvedTask) -> int:
    return solved.question.count("(x) =") * (2 if "For which" in solved.question else 1)


def _hands(solved: SolvedTask) -> int:
    faces = solved.state.scene
    hidden: int = sum((face.marks != "numbers") + bool(face.turn) + bool(face.mirrored) for face in faces)
    return 2 * len(faces) + hidden + (len(faces) > 1)


def _ruled(solved: SolvedTask) -> int:
    working = _parts(solved)[0]
    return working.count(": ") - working.count("always the same") + working.count("the sum of")


def _edges(solved: SolvedTask) -> int:
    graph = solved.state.scene
    return len(graph.edges) * (1 + int(graph.weighted) + int(graph.directed))


def _decimals(solved: SolvedTask) -> int:
    return sum(map(len, re.findall(r"\.(\d+)\(", solved.question) + re.findall(r"\((\d+)\)", solved.question)))


def _round_trips(solved: SolvedTask) -> float:
    """How many there are: half as many where each road is as long there as back."""
    table = solved.state.answer[0]
    both_ways = all(table[r][c] == table[c][r] for r in range(len(table)) for c in range(r))
    return math.factorial(len(table) - 1) / (2 if both_ways else 1)


TURNS = Measure("actions that the expert takes", lambda solved: len(solved.actions))
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

WORK = Measure("operations on digits in the calculations of the expert's working", _digit_operations)
DATA = Measure("numbers given, and steps of the expert's working", lambda solved: GIVEN.of(solved) + LINES.of(solved))
CODES = Measure("codes that are possible", lambda solved: int(re.findall(r"\d+", solved.actions[0])[0]))
THINGS = Measure("things that may be meant", lambda solved: len(solved.state.things))
MINES = Measure("mines in the field", lambda solved: solved.state.mines.bit_count())
ARMS = Measure("arms of the bandit", lambda solved: len(solved.state.values))
PALINDROMES = Measure("palindromes to be found", lambda solved: int(solved.state.answer))
SUBSETS = Measure("choices that there are", lambda solved: 2 ** len(solved.state.answer[0]))
READ = Measure("letters that the automaton reads", lambda solved: len("".join(_words(solved))))
PRESSES = Measure("lamps that the expert presses", lambda solved: _parts(solved)[1].count("1"))
EDGES = Measure("edges of the graph, their lengths and directions", _edges)
TRUTH_TABLE = Measure("rows of the truth table, times the premises", _truth_table)
GENERATIONS = Measure("cells, times the generations", _generations)
DIVIDED = Measure("multiplications of coefficients", _divided)
UNTOLD = Measure("letters of the sum whose digits are not told, times the numbers added", _untold)
FUNCTIONS = Measure("functions that are nested, twice where they are undone", _functions)
HANDS = Measure("hands to read, what hides their hours, and a difference", _hands)
RULED = Measure("attributes that follow a rule, and a sum", _ruled)
DECIMALS = Measure("decimals of the fractions, fixed and repeating", _decimals)

# The measures, and the environments that they suit.
_NAMED: dict[Measure, str] = {
    WORK: (
        "Arrangements BaseConversion Bayes Calculator Derivatives DigitSums Divisors Eigenvalues "
        "FactorialPowers InclusionExclusion LeastSquares LinearDiophantine NullSpace PolynomialProducts Series UrnDraws"
    ),
    WRITTEN: "Extrema Lines SolidMeasures",  # in which there are as many steps on most levels, of larger numbers
    DIGITS: "GridTransformation Motion",  # the cells of examples; quantities, on each level in another law
    BOTH: "Solutions",  # of which each level has another law
    DATA: "Calorimetry Circuits",
    TURNS: (
        "Battleship Browser Cooking Crafting Detective Errands FloodIt FogMaze Game2048 GuessNumber HigherLower "
        "Household KeyDoor LandmarkNavigation MemoryPairs OddCoin OneLie PegJump PushYourLuck Secretary "
        "ServiceDesk SlidingPuzzle Snake Sokoban SpaceStation Taxi TextAdventure Thermostat Trading TreasureHunt "
        "VisualGridWorld WaterJugs WordHunt WordLadder WorldSearch"
    ),
    QUESTION: "DateArithmetic",  # of which each level asks for something else
    NUMBERS: (
        "Angles CodeOutput EscapeRoom IdealGas Integrals MatrixInverse PrimeFactors RegexConstruction RomanNumerals"
    ),
    OPERATORS: "CircleAreas MarkovChains Rounding VectorGeometry",
    CODES: "BullsAndCows Mastermind",
    THINGS: "TwentyQuestions",
    MINES: "Minesweeper",
    ARMS: "MultiArmedBandit",
    PALINDROMES: "PalindromeCount",
    SUBSETS: "SubsetSum",
    READ: "FiniteAutomaton",
    PRESSES: "LightsOut",
    EDGES: "VisualGraphs",
    TRUTH_TABLE: "Entailment",
    GENERATIONS: "GameOfLife",
    DIVIDED: "PolynomialDivision",
    UNTOLD: "Cryptarithms",
    FUNCTIONS: "FunctionComposition",
    HANDS: "VisualClocks",
    RULED: "VisualMatrices",
    DECIMALS: "RepeatingDecimals",
    EMPTY: "Futoshiki KnightsTour MiniSudoku Numbrix Skyscrapers Slitherlink Sudoku Takuzu",
    LINES: (
        "AgeProblems Anagrams BinaryHeap Bipartition BitManipulation BitOperations BracketCompletion "
        "CellularAutomaton Colouring CommonSubsequence ContinuedFractions CountSolutions CriticalPath "
        "CrosswordFill CubeNets DiceRolling DiceSums Distributions EditDistance Energy ExpectedValue "
        "ExponentialEquations FalseBeliefs FlowShop Forces "
        "FractionArithmetic FunctionInduction GreatestCommonDivisor IntervalScheduling Knapsack KnightsAndKnaves "
        "LatticePaths LatticePoints LetterCounts Limits LindenmayerSystem LongDivision MagicSquare MatrixProducts "
        "MazePath ModularInverse ModularPower OrderOfOperations PatternMatch PercentageChanges PocketCube "
        "PolygonArea PolymerGrowth Products QueueMachine Recurrences RegisterMachine RobotWalk SearchTree "
        "Seating Sequences SetAlgebra SlidingTiles SortingTrace "
        "SpanningTree StableMatching StackMachine StringRewriting Sums SwapTracking TaylorCoefficients Tilings "
        "TimeZones TopologicalOrder Transformations TruthCount TuringMachine Vieta VisualMazes WordProblems "
        "WordTracing"
    ),
    GIVEN: (
        "CoinChange Components Countdown JsonPaths LinearEquations LinearSystems MaxFlow MeetingTimes "
        "NeedleCounting Proportions Reachability RightTriangles SetSizes ShortestPath TableQueries"
    ),
    ENCRYPTED: "Ciphers",
    ROUND_TRIPS: "TravellingSalesman",
    LAMPS: "LightsOutGame",
    CELLS: "ConnectFour",
    LAKE: "FrozenLake FrozenLakeSlippery",
    SYMBOLS: "Hitori Kakurasu Kakuro Nonograms QuadraticEquations ReverseText RunLength SortWords Tents",
    PARTS: (
        "AssignmentProblem BinPacking Bridges HamiltonianPath MatrixWalk NumberLink Ordering QueensCompletion "
        "RectanglePacking "
        "StarBattle Survo TowerOfHanoi WordSearch Zebra"
    ),
    FACTS: "Directions ForwardChaining Laboratory Satisfiability SetCover Syllogisms Timetables",
    CALCULATIONS: "Calcudoku Committees ComplexNumbers KillerSudoku",
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
