"""What the bridges carry over, by name: levels that work, and what is refused and why.

Made from reasoning-gym 0.1.25 and TextArena 0.7.4 with ``benchmarks/bridges.py``; other versions are tried, and what
they lack is an error of that one environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

# What the ids of other suites begin with, those of OpenSpiel's games among them, wherever their packages are installed.
PREFIXES: Final = tuple(
    f"rlvr/{suite}." for suite in ("gem", "openspiel", "pettingzoo", "rg", "skyrl", "textarena", "verifiers")
)


class DataSet(NamedTuple):
    """A data set of reasoning-gym: the levels of its curriculum that work (none: it has none), in ascending order.

    Attributes:
        levels: those that can be made within a second, asked in 12,000 characters and answered in 1,900.
        solved: whether its items come with an answer that their own scorer accepts.
    """

    levels: tuple[int, ...] = ()
    solved: bool = True
    note: str = ""


class BridgedGame(NamedTuple):
    """A game of TextArena: its class, and for each level what it is built with and how many actions it may take.

    Attributes:
        later: whether chance has a say after the beginning, so that only the seed tells two games apart.
    """

    path: str
    settings: tuple[dict[str, Any], ...]
    turns: tuple[int, ...]
    note: str = ""
    later: bool = False


# By the number of levels that work, those from 0 on.
_FIRST_LEVELS: Final = {
    0: "acre gsm_symbolic knight_swap list_functions",
    1: "modulo_grid needle_haystack number_sorting self_reference",
    2: (
        "binary_matrix caesar_cipher circuit_logic game_of_life game_of_life_halting group_anagrams jugs "
        "manipulate_matrix polynomial_multiplication rotate_matrix spiral_matrix survo word_ladder"
    ),
    3: (
        "bf binary_alternation cryptarithm fraction_simplification graph_color largest_island mahjong_puzzle maze "
        "palindrome_generation palindrome_partitioning pool_matrix prime_factorization ransom_note rotten_oranges "
        "sentence_reordering shortest_path simple_geometry string_insertion string_splitting string_synthesis "
        "word_sequence_reversal"
    ),
    4: (
        "ab advanced_geometry arc_1d arc_agi base_conversion calendar_arithmetic color_cube_rotation "
        "complex_arithmetic count_bits count_primes countdown course_schedule decimal_arithmetic "
        "decimal_chain_sum dice futoshiki gcd isomorphic_strings kakurasu knights_knaves lcm letter_jumble "
        "n_queens number_filtering number_format path_star polynomial_equations simple_equations "
        "simple_integration string_manipulation sudoku syllogism tsumego word_sorting zebra_puzzles"
    ),
    5: "basic_arithmetic emoji_mystery figlet_font letter_counting power_function rectangle_count spell_backward",
    6: (
        "aiw bitwise_arithmetic chain_sum coin_flip family_relationships intermediate_integration leg_counting "
        "products puzzle24 quantum_lock rearc time_intervals"
    ),
}
_OTHER_LEVELS: Final = {
    "boxnet": DataSet((0, 1, 2, 3, 4, 5), solved=False),
    "codeio": DataSet((0, 2, 3)),
    "mini_sudoku": DataSet((0, 1, 3)),
    "number_sequence": DataSet((0,), note="its other levels hang on some seeds"),
    "rubiks_cube": DataSet(note="cubes of three, which come with a solution"),
    "rush_hour": DataSet((0, 1), solved=False),
    "sokoban": DataSet((1, 2, 3, 4, 5)),
    "tower_of_hanoi": DataSet((1, 2)),
}
_BY_COUNT = {name: DataSet(tuple(range(count))) for count, names in _FIRST_LEVELS.items() for name in names.split()}
REASONING_GYM: dict[str, DataSet] = dict(sorted((_BY_COUNT | _OTHER_LEVELS).items()))

REFUSED_DATA_SETS = {
    "composite": "needs other data sets to be composed of; mix environments instead",
    "propositional_logic": "its scorer takes any premise copied back for a conclusion, and items have no answer",
}


def _single(
    kind: str, settings: Sequence[dict[str, Any]], turns: int | tuple[int, ...], note: str = "", later: bool = False
) -> BridgedGame:
    """The game of TextArena whose class is ``kind``; ``turns`` of each level, or of all."""
    turns = (turns,) * len(settings) if isinstance(turns, int) else turns
    return BridgedGame(f"{kind}.env:{kind}Env", tuple(settings), turns, note, later)


TEXTARENA: dict[str, BridgedGame] = {
    "2048": _single(
        "Game2048", tuple({"target_tile": 2**power} for power in range(5, 10)), (60, 100, 200, 400, 800), later=True
    ),
    "Bandit": _single(
        "Bandit",
        ({"p_gap": 0.4, "num_turns": 20}, {"p_gap": 0.2, "num_turns": 20}, {"p_gap": 0.1, "num_turns": 20}),
        44,
        later=True,
    ),
    "Blackjack": _single("Blackjack", ({"num_hands": 1}, {"num_hands": 3}), (30, 90), later=True),
    "Countdown": _single("Countdown", ({},), 26, "not every target can be reached"),
    "Crosswords": _single(
        "Crosswords",
        ({"hardcore": False, "max_turns": 30, "num_words": 3}, {"hardcore": True, "max_turns": 30, "num_words": 3}),
        62,
    ),
    "FifteenPuzzle": _single("FifteenPuzzle", ({"max_turns": 200},), 402, "only arrangements that can be solved"),
    "FrozenLake": _single(
        "FrozenLake",
        (
            {"size": 4, "num_holes": 3},
            {"size": 4, "num_holes": 3, "randomize_start_goal": True},
            {"size": 5, "num_holes": 6},
        ),
        202,
    ),
    "GuessTheNumber": _single(
        "GuessTheNumber",
        (
            {"min_number": 1, "max_number": 20, "max_turns": 10},
            {"min_number": 1, "max_number": 50, "max_turns": 10},
            {"min_number": 1, "max_number": 1000, "max_turns": 12},
        ),
        (22, 22, 26),
    ),
    "Hangman": _single("Hangman", ({"hardcore": False}, {"hardcore": True}), 60, "needs nltk's words"),
    "LightsOut": _single("LightsOut", ({"size": 3, "max_turns": 20}, {"size": 5, "max_turns": 20}), 42),
    "LogicPuzzle": _single("LogicPuzzle", ({"difficulty": "easy"}, {"difficulty": "hard"}), 62),
    "Mastermind": _single(
        "Mastermind",
        (
            {"code_length": 4, "num_numbers": 6, "max_turns": 20, "duplicate_numbers": False},
            {"code_length": 4, "num_numbers": 8, "max_turns": 30, "duplicate_numbers": False},
            {"code_length": 6, "num_numbers": 12, "max_turns": 50, "duplicate_numbers": True},
        ),
        (42, 62, 102),
    ),
    "Minesweeper": _single(
        "Minesweeper",
        (
            {"rows": 5, "cols": 5, "num_mines": 5, "max_turns": 100},
            {"rows": 8, "cols": 8, "num_mines": 10, "max_turns": 100},
            {"rows": 10, "cols": 10, "num_mines": 20, "max_turns": 100},
            {"rows": 12, "cols": 12, "num_mines": 30, "max_turns": 100},
        ),
        202,
        later=True,
    ),
    "RushHour": _single("RushHour", ({},), 200),
    "Secretary": _single("Secretary", ({"N": 5}, {"N": 10}), (12, 22)),
    "Slitherlink": _single("Slitherlink", ({"rows": 4, "cols": 4, "max_turns": 200},), 402),
    "Sokoban": _single(
        "Sokoban",
        (
            {"dim_room": (6, 6), "max_turns": 30, "num_boxes": 1},
            {"dim_room": (6, 6), "max_turns": 30, "num_boxes": 3},
        ),
        62,
    ),
    "Sudoku": _single("Sudoku", tuple({"clues": clues, "max_turns": 100} for clues in (75, 70, 60, 40)), 202),
    "ThreeCardMonte": _single(
        "ThreeCardMonte", ({"num_cups": 3, "steps": 10}, {"num_cups": 5, "steps": 20}, {"num_cups": 9, "steps": 40}), 3
    ),
    "WordSearch": _single("WordSearch", ({"hardcore": False}, {"hardcore": True}), 42, "needs nltk's words"),
}

REFUSED_GAMES = {
    "BabyAiText": "needs the package gym, which Gymnasium replaced, and one that is not published",
    "Cryptarithm": "one fixed puzzle, SEND + MORE = MONEY",
    "GuessWho": "another player of it is a language model behind a paid service",
    "Klondike": "its file is no valid Python",
    "PegJump": "one fixed board",
    "Set": "counts points in twenty turns, and nothing is a win",
    "TowerOfHanoi": "one fixed task for each number of discs; rlvr/TowerOfHanoi-v0 has more",
    "TwentyQuestions": "another player of it is a language model behind a paid service",
    "WordLadder": "builds a graph of a whole dictionary for every game, which takes many seconds",
    "Wordle": "opens temporary files, which workers may not, for a tagger that nltk downloads",
}

# TextArena's games for two players; ``duels.py`` has their settings and moves.
TEXTARENA_DUELS = (
    *("Battleship", "Chopsticks", "ConnectFour", "IteratedMatchingPennies", "IteratedRockPaperScissors", "Nim"),
    *("Othello", "PigDice", "SimpleTak", "TicTacToe", "WildTicTacToe"),
)

REFUSED_DUELS = {
    "Breakthrough": "a player can be left without a move, for which it has no rule; rlvr/Breakthrough-v0 is here",
    "Checkers": "its file is no valid Python before 3.12; rlvr/Checkers-v0 is here",
    "Chess": "thousands of texts would be tried for each move of the other player; rlvr/Chess-v0 is here",
    "KuhnPoker": "a bet adds nothing to the pot; rlvr/KuhnPoker-v0 has the rules",
    "ReverseTicTacToe": "its file is no valid Python before 3.12",
    "UltimateTicTacToe": "takes no move at all in some positions; rlvr/UltimateTicTacToe-v0 is here",
}


def _gem(path: str, settings: Sequence[dict[str, Any]], note: str = "", later: bool = False) -> BridgedGame:
    """A game of GEM, which may take as many actions as it is built with turns."""
    return BridgedGame(path, tuple(settings), tuple(each["max_turns"] for each in settings), note, later)


# GEM's games, by the class in gem.envs.game_env. Settings are GEM's own where its goal can be reached within its turns.
GEM: dict[str, BridgedGame] = {
    "Crosswords": _gem(
        "crosswords.crosswords:CrosswordsEnv",
        tuple({"hardcore": hard, "num_words": 3, "max_turns": 40} for hard in (False, True)),
    ),
    "FifteenPuzzle": _gem(
        "fifteen_puzzle:FifteenPuzzleEnv",
        tuple({"num_rows": rows, "max_turns": turns} for rows, turns in ((2, 10), (3, 40), (4, 150))),
    ),
    "Game2048": _gem(
        "game_2048:Game2048Env",
        tuple({"target_tile": tile, "max_turns": turns} for tile, turns in ((16, 20), (32, 30), (64, 50))),
        "no expert is known",
        later=True,
    ),
    "GuessTheNumber": _gem(
        "guess_the_number:GuessTheNumberEnv",
        tuple(
            {"min_number": 1, "max_number": largest, "max_turns": turns}
            for largest, turns in ((50, 7), (500, 10), (5000, 14))
        ),
    ),
    "Hangman": _gem(
        "hangman:HangmanEnv",
        tuple({"word_length": length, "max_turns": turns} for length, turns in ((3, 10), (5, 15), (7, 20))),
        "needs nltk's words",
    ),
    "Mastermind": _gem(
        "mastermind:MastermindEnv",
        tuple(
            {"code_length": length, "num_numbers": numbers, "max_turns": turns}
            for length, numbers, turns in ((3, 6, 15), (4, 6, 20), (4, 8, 30))
        ),
    ),
    "Minesweeper": _gem(
        "minesweeper:MinesweeperEnv",
        tuple({"rows": n, "cols": n, "num_mines": mines, "max_turns": n * n} for n, mines in ((5, 5), (8, 12))),
        later=True,
    ),
    "Sokoban": _gem(
        "sokoban.sokoban:SokobanEnv",
        tuple(
            {"dim_room": room, "num_boxes": n, "max_turns": 60} for room, n in (((6, 6), 1), ((6, 6), 2), ((8, 8), 2))
        ),
    ),
    "Sudoku": _gem(
        "sudoku:SudokuEnv",
        tuple(
            {"scale": scale, "clues": clues, "max_turns": turns} for scale, clues, turns in ((4, 10, 20), (9, 50, 80))
        ),
    ),
    "WordSearch": _gem(
        "word_search:WordSearchEnv", ({"hardcore": False, "num_words": 5, "max_turns": 20},), "needs nltk's words"
    ),
    "Wordle": _gem(
        "wordle:WordleEnv",
        tuple({"word_length": length, "max_turns": 5 * length} for length in (3, 4, 5)),
        "needs nltk's words",
    ),
}

REFUSED_GEM = {
    "TowerofHanoi": "one fixed task for each number of discs; rlvr/TowerOfHanoi-v0 has more",
    "rg:*": "reasoning-gym's data sets, under `rlvr/rg.` here, with seeds that do not overlap",
    "math:*, code:*, qa:*, eval:*": "data sets that are downloaded while the environment is made; ours come from files",
    "logic:RuleTaker-*": "asks for `<answer>` tags and reads `\\boxed{}`",
    "WikiGame": "plays on live pages of the web",
}

# Packages of verifiers' repository that one seat plays with text alone, by the module they are installed as.
VERIFIERS = ("alphabet_sort", "reverse_text", "wordle")

REFUSED_VERIFIERS = {
    "gsm8k, code_golf, harbor": "scored by a program in a sandbox, or played in a container; rlvr/GSM8K-v0 is here",
    "glossary, scratchpad, wiki_search, deepwiki": "bring tool servers",
    "kuhn_poker, proposer_solver": "seat several agents",
    "color_codeword": "shows pictures",
    "interception and its kin": "rewrite what is asked of a model, which is not asked here",
    "openenv, nemo_gym, textarena": "other people's environments: `rlvr/openenv.Remote-v0`, `rlvr/nemo_gym.Remote-v0` "
    "and `rlvr/textarena.` reach them without a second bridge",
}

# Games of PettingZoo whose board is put into words in envs/bridges/pettingzoo.py; others by "rlvr/PettingZoo-v0".
PETTINGZOO = ("ConnectFour", "LeducHoldem", "TicTacToe")

# skyrl-gym's environments: how many turns an episode has, and the split that is the default.
SKYRL_GYM: dict[str, tuple[int, str]] = {"aime": (1, "test"), "gsm8k": (1, "train"), "gsm8k_multi_turn": (5, "train")}

REFUSED_SKYRL_GYM = {
    "lcb": "runs the policy's program in the process that holds the hidden tests; rlvr/CodeContests-v0 does not",
    "search": "asks a retrieval server that is no part of the package; rlvr/WorldSearch-v0 brings its documents along",
    "searchcode": "the same, and runs the policy's Python beside the scorer",
    "text2sql": "needs databases that are no part of the package, opened for writing; rlvr/SQL-v0 makes its own",
    "rlm": "not registered; runs the policy's Python in its own process",
}
