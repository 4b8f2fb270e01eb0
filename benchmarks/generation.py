"""How fast tasks are made: items per CPU-second of every id that reasoning-gym has as well, and of its data set.

    python benchmarks/generation.py --reasoning-gym PYTHON [--rounds 3] [--seconds 0.2] [--only TEXT] [--out FOLDER]

PYTHON is an interpreter that has reasoning-gym (``pip install reasoning-gym`` into an environment of its own). An item
is a reset that draws a task of the train split: seeding, drawing, and the look at the split included. Each id is drawn
over all levels in turn, and at level 1; theirs as their data set comes, without settings. Then both at equal sizes:
theirs with settings that were measured on our tasks, level by level, where it has such settings (``matched_sizes.py``).
What each id costs by itself is in ``resets.md``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

import rlvr  # noqa: F401
from rlvr.envs import TextEnv

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from matched_sizes import KNOBS, NO_KNOB, matched
from results import Table, write_results

MORE = {  # what ours does besides, where it makes fewer items
    "rlvr/RushHour-v0": "ours need 5 and more moves from level 3 on, which searches prove; theirs are lines of a table",
    "rlvr/BitManipulation-v0": "ours chain 3 to 12 operations on eight bits; theirs count the ones of a number",
    "rlvr/Ciphers-v0": "ours are four ciphers, level 1 the only one of theirs: Caesar, 3 to 20 words",
    "rlvr/Colouring-v0": "ours have 14 to 54 edges on 7 to 18 nodes; theirs some 5 edges on 10 nodes",
    "rlvr/Cryptarithms-v0": "ours have one solution, which searches prove from level 2 on; theirs may have more",
    "rlvr/FamilyTree-v0": "ours are families of four generations, 12 or 18 people on average; theirs of 4 to 8",
    "rlvr/FractionArithmetic-v0": "ours join two to six fractions, two at level 1; theirs reduce one",
    "rlvr/LetterCounts-v0": "ours count two to six letters in 3 to 24 words; theirs one letter in 5 to 15 words",
    "rlvr/ListFunctionInduction-v0": "ours are unambiguous among all rules stated; theirs are not compared with others",
    "rlvr/GridTransformation-v0": "ours hide the rule, unambiguous among all rules stated; theirs name the operations",
    "rlvr/ShortestPath-v0": "ours are weighted graphs of up to 16 nodes, solved by Dijkstra; theirs a grid of 5 to 8",
    "rlvr/Syllogisms-v0": "ours have up to 7 premises about six classes, two at level 1; theirs two premises",
    "rlvr/SortWords-v0": "ours sort up to 16 words, two levels of five in a shuffled alphabet; theirs 3 to 10 words",
    "rlvr/ReverseText-v0": "ours reverse up to 10 words; theirs one word of 3 to 10 letters",
}
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
import io, json, signal, sys, time
out, sys.stdout = sys.stdout, io.StringIO()  # some of its data sets print
import reasoning_gym

def late(*_):
    raise TimeoutError

def rate(name, seconds, seed, settings):
    rows = reasoning_gym.create_dataset(name, seed=seed, size=5_000, **settings)
    rows[0]
    count, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        count += 1
        rows[count % 5_000]
    return count / (time.process_time() - began)

signal.signal(signal.SIGPROF, late)
for line in sys.stdin:
    signal.setitimer(signal.ITIMER_PROF, 60)  # of CPU time: a busy machine ends nothing
    try:
        found = rate(*json.loads(line))
    except Exception as error:  # no item of these sizes, or none within a minute
        found = None
        print(line.strip(), repr(error), file=sys.stderr)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(found), file=out, flush=True)
"""


class Peer:
    """An interpreter that has reasoning-gym, for the whole run."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen([python, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rate(self, name: str, seconds: float, seed: int, settings: dict[str, Any]) -> float | None:
        """Items per CPU-second of a data set; None where it makes none with these settings in 60 CPU-seconds."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps([name, seconds, seed, settings]), file=stdin, flush=True)
        rate: float | None = json.loads(stdout.readline())
        return rate

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def generated(env_id: str) -> TextEnv | None:
    """The environment; None where its tasks are rows of a data set."""
    module, _, name = gym.spec(env_id).kwargs["task"].partition(":")
    if getattr(importlib.import_module(module), name).reads_split:
        return None
    env = gym.make(env_id).unwrapped
    assert isinstance(env, TextEnv)
    return env if env.size is None else None


# Where a task is proven to have what its question promises, the function that proves it; a peer's item has no proof.
# ``found_chain`` draws the chain as well, and ``layers`` finds the jams of so many moves.
PROOFS = {
    "rlvr/Cryptarithms-v0": ("rlvr.envs.puzzles.numbers", "other_solution"),
    "rlvr/ListFunctionInduction-v0": ("rlvr.envs.puzzles.induction", "ListFunctionInduction.found_chain"),
    "rlvr/RushHour-v0": ("rlvr.envs.games.rush_hour", "CarCrowd.layers"),
    "rlvr/Syllogisms-v0": ("rlvr.envs.logic.syllogisms", "implied_by"),
}


def share_of_the_proof(env_id: str, env: TextEnv, seconds: float) -> float:
    """The share of the CPU time of a reset, over all levels, that goes into what proves the task."""
    module, (holder, _, name) = PROOFS[env_id][0], PROOFS[env_id][1].rpartition(".")
    owner: Any = importlib.import_module(module)
    owner = getattr(owner, holder) if holder else owner
    proof = getattr(owner, name)
    clock, proving = time.process_time, 0.0

    def timed(*arguments: Any) -> Any:
        nonlocal proving
        began = clock()
        try:
            return proof(*arguments)
        finally:
            proving += clock() - began

    setattr(owner, name, timed)
    levels = list(range(1, env.task.levels + 1))
    try:
        for level in levels:
            env.reset(seed=0, options={"level": level})
        proving, began = 0.0, clock()
        while (spent := clock() - began) < seconds:
            for level in levels:
                env.reset(options={"level": level})
    finally:
        setattr(owner, name, proof)
    return proving / spent


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


class Pairs(Table):
    """All pairs in one table; a name is an id, a blank, and what was measured."""

    COLUMNS = ("id", "reasoning-gym", "ours, all levels", "ours, level 1", "theirs", "all levels / theirs")
    COLUMNS = (*COLUMNS, "level 1 / theirs", "sizes matched / theirs", "what is matched")
    notes: dict[str, str]

    def markdown(self) -> str:
        head = f"## {self.title}\n\n{self.unit}\n\n| {' | '.join(self.COLUMNS)} |\n|{'---|' * len(self.COLUMNS)}\n"
        return head + "".join(sorted(self._row(env_id) for env_id in PAIRS if f"{env_id} theirs" in self.rounds))

    def ratios(self, env_id: str, what: str, base: str = "theirs") -> float:
        """The median of the rounds' ratios."""
        pairs = zip(self.rounds[f"{env_id} {what}"], self.rounds[f"{env_id} {base}"], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def matched(self, env_id: str) -> float | None:
        return self.ratios(env_id, "matched", "theirs matched") if f"{env_id} matched" in self.rounds else None

    def _row(self, env_id: str) -> str:
        cells = [f"{self.median(f'{env_id} {what}'):,.0f}" for what in ("all levels", "level 1", "theirs")]
        cells += [f"{self.ratios(env_id, what):.2f}" for what in ("all levels", "level 1")]
        matched_sizes = self.matched(env_id)
        cells += ["-" if matched_sizes is None else f"{matched_sizes:.2f}", self.notes[env_id]]
        return f"| {env_id.removeprefix('rlvr/')} | {PAIRS[env_id]} | {' | '.join(cells)} |\n"


def equal_sizes(env_id: str, env: TextEnv, peer: Peer) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    """The levels that theirs has settings for, with these, and what the table says about it."""
    if env_id not in KNOBS:
        return [], NO_KNOB.get(env_id, "not measured: theirs make under half as many items as they come")
    knobs, levels = KNOBS[env_id], range(1, env.task.levels + 1)
    sizes = [(level, settings) for level in levels if (settings := matched(env, knobs, level))]
    sizes = [pair for pair in sizes if peer.rate(PAIRS[env_id], 0.01, 0, pair[1]) is not None]
    if not sizes:
        return [], f"{knobs.words}; theirs makes none of these sizes"
    only = (
        "" if len(sizes) == len(levels) else f" (level{'s' * (len(sizes) > 1)} {', '.join(str(n) for n, _ in sizes)})"
    )
    return sizes, knobs.words + only


def beside_peers(envs: dict[str, TextEnv], python: str, rounds: int, seconds: float) -> Pairs:
    """Ours and theirs in turn, pair by pair and round by round, in two processes that stay."""
    peer = Peer(python)
    table = Pairs("Items per CPU-second", "medians over the rounds; ratios are medians of the rounds' ratios", "")
    equal = {env_id: equal_sizes(env_id, env, peer) for env_id, env in envs.items()}
    table.notes = {env_id: note for env_id, (_, note) in equal.items()}
    for seed in range(rounds):
        for env_id, env in envs.items():
            levels = list(range(1, env.task.levels + 1))
            table.add(f"{env_id} all levels", rate(env, levels, seconds, seed))
            theirs = peer.rate(PAIRS[env_id], seconds, seed, {})
            if theirs is None:
                raise SystemExit(f"{PAIRS[env_id]} made no item with its own settings and seed {seed}")
            table.add(f"{env_id} theirs", theirs)
            table.add(f"{env_id} level 1", rate(env, [1], seconds, seed))
            if fitting := equal[env_id][0]:
                table.add(f"{env_id} matched", rate(env, [level for level, _ in fitting], seconds, seed))
                share = seconds / len(fitting)
                rates = [peer.rate(PAIRS[env_id], share, seed, settings) for _, settings in fitting]
                if None in rates:
                    raise SystemExit(f"{PAIRS[env_id]} made items of these sizes, and then none: {fitting}")
                table.add(f"{env_id} theirs matched", statistics.harmonic_mean([each for each in rates if each]))
    peer.close()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--reasoning-gym", metavar="PYTHON", required=True, help="an interpreter that has reasoning-gym"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="CPU-seconds for each figure of a round")
    parser.add_argument("--only", default="", help="only ids that contain this text")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()

    every = {env_id: generated(env_id) for env_id in PAIRS if options.only in env_id}
    envs = {env_id: env for env_id, env in every.items() if env is not None}
    table = beside_peers(envs, options.reasoning_gym, options.rounds, options.seconds)
    ahead = {what: sum(table.ratios(env_id, what) >= 1 for env_id in envs) for what in ("all levels", "level 1")}
    facts = {f"pairs of {len(envs)} with at least their items, {what}": count for what, count in ahead.items()}
    equal = [ratio for env_id in envs if (ratio := table.matched(env_id)) is not None]
    facts[f"pairs of {len(equal)} with at least their items, sizes matched"] = sum(ratio >= 1 for ratio in equal)
    behind = [env_id for env_id in envs if min(table.ratios(env_id, what) for what in ahead) < 1]
    facts |= {name: MORE[name] for name in behind if name in MORE}
    for name in behind:
        if name in PROOFS:
            share = share_of_the_proof(name, envs[name], 5 * options.seconds)
            bare = table.ratios(name, "all levels") / (1 - share)
            facts[name] += (
                f"; {PROOFS[name][1]} takes {share:.0%} of our time, without it all levels / theirs is {bare:.2f}"
            )
    write_results("generation", [table], facts, options.out)


if __name__ == "__main__":
    main()
