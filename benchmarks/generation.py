"""How fast tasks are made: items per CPU-second of every registered id, and of reasoning-gym's beside ours.

    python benchmarks/generation.py --reasoning-gym PYTHON [--rounds 3] [--seconds 0.2] [--only TEXT] [--out FOLDER]

PYTHON is an interpreter that has reasoning-gym (``pip install reasoning-gym`` into an environment of its own). An item
is a reset that draws a task of the train split: seeding, drawing, and the look at the split included. Each id is drawn
over all levels in turn, at level 1, and at its hardest; ids whose tasks are rows of a data set are left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import time
from pathlib import Path

import gymnasium as gym
from results import Table, write_results

import rlvr
from rlvr.envs import TextEnv

ENOUGH = 1_000  # items per CPU-second below which a task says why
PAIRS = {  # by what is asked; the sizes of the tasks differ
    "rlvr/BaseConversion-v0": "base_conversion",
    "rlvr/OrderOfOperations-v0": "basic_arithmetic",
    "rlvr/BitOperations-v0": "bitwise_arithmetic",
    "rlvr/Ciphers-v0": "caesar_cipher",
    "rlvr/CalendarDays-v0": "calendar_arithmetic",
    "rlvr/Sums-v0": "chain_sum",
    "rlvr/ComplexNumbers-v0": "complex_arithmetic",
    "rlvr/BitManipulation-v0": "count_bits",
    "rlvr/Countdown-v0": "countdown",
    "rlvr/TopologicalOrder-v0": "course_schedule",
    "rlvr/Cryptarithms-v0": "cryptarithm",
    "rlvr/DiceSums-v0": "dice",
    "rlvr/FamilyTree-v0": "family_relationships",
    "rlvr/FractionArithmetic-v0": "fraction_simplification",
    "rlvr/Futoshiki-v0": "futoshiki",
    "rlvr/GameOfLife-v0": "game_of_life",
    "rlvr/GreatestCommonDivisor-v0": "gcd",
    "rlvr/Colouring-v0": "graph_color",
    "rlvr/Anagrams-v0": "group_anagrams",
    "rlvr/WordProblems-v0": "gsm_symbolic",
    "rlvr/Integrals-v0": "simple_integration",
    "rlvr/WaterJugs-v0": "jugs",
    "rlvr/Kakurasu-v0": "kakurasu",
    "rlvr/KnightsAndKnaves-v0": "knights_knaves",
    "rlvr/Components-v0": "largest_island",
    "rlvr/LetterCounts-v0": "letter_counting",
    "rlvr/ListFunctionInduction-v0": "list_functions",
    "rlvr/GridTransformation-v0": "manipulate_matrix",
    "rlvr/MazePath-v0": "maze",
    "rlvr/MiniSudoku-v0": "mini_sudoku",
    "rlvr/QueensCompletion-v0": "n_queens",
    "rlvr/NeedleCounting-v0": "needle_haystack",
    "rlvr/Sequences-v0": "number_sequence",
    "rlvr/SortingTrace-v0": "number_sorting",
    "rlvr/QuadraticEquations-v0": "polynomial_equations",
    "rlvr/PolynomialProducts-v0": "polynomial_multiplication",
    "rlvr/PrimeFactors-v0": "prime_factorization",
    "rlvr/Products-v0": "products",
    "rlvr/Entailment-v0": "propositional_logic",
    "rlvr/TwentyFour-v0": "puzzle24",
    "rlvr/PocketCube-v0": "rubiks_cube",
    "rlvr/RushHour-v0": "rush_hour",
    "rlvr/TruthCount-v0": "self_reference",
    "rlvr/ShortestPath-v0": "shortest_path",
    "rlvr/LinearEquations-v0": "simple_equations",
    "rlvr/Angles-v0": "simple_geometry",
    "rlvr/ReverseText-v0": "spell_backward",
    "rlvr/Sokoban-v0": "sokoban",
    "rlvr/MatrixWalk-v0": "spiral_matrix",
    "rlvr/StringRewriting-v0": "string_manipulation",
    "rlvr/Sudoku-v0": "sudoku",
    "rlvr/Survo-v0": "survo",
    "rlvr/Syllogisms-v0": "syllogism",
    "rlvr/DateArithmetic-v0": "time_intervals",
    "rlvr/TowerOfHanoi-v0": "tower_of_hanoi",
    "rlvr/WordLadder-v0": "word_ladder",
    "rlvr/SortWords-v0": "word_sorting",
    "rlvr/Zebra-v0": "zebra_puzzles",
    "rlvr/PalindromeCount-v0": "palindrome_generation",
    "rlvr/CubeNets-v0": "color_cube_rotation",
    "rlvr/RegisterMachine-v0": "bf",
    "rlvr/VectorGeometry-v0": "advanced_geometry",
}
PEER = """
import io, json, sys, time
out, sys.stdout = sys.stdout, io.StringIO()  # some of its data sets print
import reasoning_gym
seconds, seed, rates = float(sys.argv[1]), int(sys.argv[2]), {}
for name in sys.argv[3:]:
    rows = reasoning_gym.create_dataset(name, seed=seed, size=5_000)
    rows[0]
    count, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        count += 1
        rows[count % 5_000]
    rates[name] = count / (time.process_time() - began)
print(json.dumps(rates), file=out)
"""


def generated(env_id: str) -> TextEnv | None:
    """The environment; None where its tasks are rows of a data set."""
    module, _, name = gym.spec(env_id).kwargs["task"].partition(":")
    if getattr(importlib.import_module(module), name).reads_split:
        return None
    env = gym.make(env_id).unwrapped
    assert isinstance(env, TextEnv)
    return env if env.size is None else None


def rate(env: TextEnv, levels: list[int], seconds: float, seed: int) -> float:
    """Items per CPU-second."""
    for level in levels:  # what is built once, at the first task, is no part of the rate
        env.reset(seed=seed, options={"level": level})
    count, began, spent = 0, time.process_time(), 0.0
    while spent < seconds:
        for level in levels * 4:
            env.reset(options={"level": level})
        count += 4 * len(levels)
        spent = time.process_time() - began
    return count / spent


def peers_rates(python: str, names: list[str], seconds: float, seed: int) -> dict[str, float]:
    command = [python, "-c", PEER, str(seconds), str(seed), *names]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def beside_peers(envs: dict[str, TextEnv], python: str, rounds: int, seconds: float) -> list[Table]:
    """A table for each id that has a counterpart; ours and theirs in turn, round by round."""
    pairs = {env_id: name for env_id, name in PAIRS.items() if env_id in envs}
    unit = "items per CPU-second; ours over all levels, theirs as it comes"
    tables = {env_id: Table(f"{env_id} and reasoning-gym's {name}", unit, env_id) for env_id, name in pairs.items()}
    for seed in range(rounds):
        theirs = peers_rates(python, list(pairs.values()), max(2.0, 10 * seconds), seed)  # slow, so longer
        for env_id, name in pairs.items():
            levels = list(range(1, envs[env_id].task.levels + 1))
            tables[env_id].add(env_id, rate(envs[env_id], levels, 5 * seconds, seed))
            tables[env_id].add(f"{name} (reasoning-gym)", theirs[name])
    return list(tables.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reasoning-gym", metavar="PYTHON", help="an interpreter that has reasoning-gym")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="CPU-seconds for each figure of a round")
    parser.add_argument("--only", default="", help="only ids that contain this text")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()

    every = {env_id: generated(env_id) for env_id in rlvr.list_envs(options.only)}
    envs = {env_id: env for env_id, env in every.items() if env is not None}
    tables = []
    if options.reasoning_gym:
        tables = beside_peers(envs, options.reasoning_gym, options.rounds, options.seconds)
    rates: dict[str, list[int]] = {}
    for env_id, env in envs.items():
        highest = env.task.levels
        for levels in (list(range(1, highest + 1)), [1], [highest]):
            rounds = [rate(env, levels, options.seconds, seed) for seed in range(options.rounds)]
            rates.setdefault(env_id, []).append(round(statistics.median(rounds)))
    facts: dict[str, str] = {}
    facts["columns"] = "items per CPU-second (medians) over all levels, at level 1, and at the hardest level"
    facts["rows of data sets, left out"] = ", ".join(sorted(set(every) - set(envs))) or "none"
    slow = [env_id for env_id, row in rates.items() if row[0] < ENOUGH]
    facts[f"below {ENOUGH:,} over all levels"] = ", ".join(slow) or "none"
    facts |= {env_id: ", ".join(f"{value:,}" for value in row) for env_id, row in rates.items()}
    write_results("generation", tables, facts, options.out)


if __name__ == "__main__":
    main()
