"""What the bridges carry over, by name: levels that work, and what is refused and why.

Made from reasoning-gym 0.1.25 and TextArena 0.7.4 with ``benchmarks/bridges.py``; other versions are tried, and what
they lack is an error of that one environment.
"""

from __future__ import annotations

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


REASONING_GYM: dict[str, DataSet] = {
    "ab": DataSet((0, 1, 2, 3)),
    "acre": DataSet(),
    "advanced_geometry": DataSet((0, 1, 2, 3)),
    "aiw": DataSet((0, 1, 2, 3, 4, 5)),
    "arc_1d": DataSet((0, 1, 2, 3)),
    "arc_agi": DataSet((0, 1, 2, 3)),
    "base_conversion": DataSet((0, 1, 2, 3)),
    "basic_arithmetic": DataSet((0, 1, 2, 3, 4)),
    "bf": DataSet((0, 1, 2)),
    "binary_alternation": DataSet((0, 1, 2)),
    "binary_matrix": DataSet((0, 1)),
    "bitwise_arithmetic": DataSet((0, 1, 2, 3, 4, 5)),
    "boxnet": DataSet((0, 1, 2, 3, 4, 5), solved=False),
    "caesar_cipher": DataSet((0, 1)),
    "calendar_arithmetic": DataSet((0, 1, 2, 3)),
    "chain_sum": DataSet((0, 1, 2, 3, 4, 5)),
    "circuit_logic": DataSet((0, 1)),
    "codeio": DataSet((0, 2, 3)),
    "coin_flip": DataSet((0, 1, 2, 3, 4, 5)),
    "color_cube_rotation": DataSet((0, 1, 2, 3)),
    "complex_arithmetic": DataSet((0, 1, 2, 3)),
    "count_bits": DataSet((0, 1, 2, 3)),
    "count_primes": DataSet((0, 1, 2, 3)),
    "countdown": DataSet((0, 1, 2, 3)),
    "course_schedule": DataSet((0, 1, 2, 3)),
    "cryptarithm": DataSet((0, 1, 2)),
    "decimal_arithmetic": DataSet((0, 1, 2, 3)),
    "decimal_chain_sum": DataSet((0, 1, 2, 3)),
    "dice": DataSet((0, 1, 2, 3)),
    "emoji_mystery": DataSet((0, 1, 2, 3, 4)),
    "family_relationships": DataSet((0, 1, 2, 3, 4, 5)),
    "figlet_font": DataSet((0, 1, 2, 3, 4)),
    "fraction_simplification": DataSet((0, 1, 2)),
    "futoshiki": DataSet((0, 1, 2, 3)),
    "game_of_life": DataSet((0, 1)),
    "game_of_life_halting": DataSet((0, 1)),
    "gcd": DataSet((0, 1, 2, 3)),
    "graph_color": DataSet((0, 1, 2)),
    "group_anagrams": DataSet((0, 1)),
    "gsm_symbolic": DataSet(),
    "intermediate_integration": DataSet((0, 1, 2, 3, 4, 5)),
    "isomorphic_strings": DataSet((0, 1, 2, 3)),
    "jugs": DataSet((0, 1)),
    "kakurasu": DataSet((0, 1, 2, 3)),
    "knight_swap": DataSet(),
    "knights_knaves": DataSet((0, 1, 2, 3)),
    "largest_island": DataSet((0, 1, 2)),
    "lcm": DataSet((0, 1, 2, 3)),
    "leg_counting": DataSet((0, 1, 2, 3, 4, 5)),
    "letter_counting": DataSet((0, 1, 2, 3, 4)),
    "letter_jumble": DataSet((0, 1, 2, 3)),
    "list_functions": DataSet(),
    "mahjong_puzzle": DataSet((0, 1, 2)),
    "manipulate_matrix": DataSet((0, 1)),
    "maze": DataSet((0, 1, 2)),
    "mini_sudoku": DataSet((0, 1, 3)),
    "modulo_grid": DataSet((0,)),
    "n_queens": DataSet((0, 1, 2, 3)),
    "needle_haystack": DataSet((0,)),
    "number_filtering": DataSet((0, 1, 2, 3)),
    "number_format": DataSet((0, 1, 2, 3)),
    "number_sequence": DataSet((0,), note="its other levels hang on some seeds"),
    "number_sorting": DataSet((0,)),
    "palindrome_generation": DataSet((0, 1, 2)),
    "palindrome_partitioning": DataSet((0, 1, 2)),
    "path_star": DataSet((0, 1, 2, 3)),
    "polynomial_equations": DataSet((0, 1, 2, 3)),
    "polynomial_multiplication": DataSet((0, 1)),
    "pool_matrix": DataSet((0, 1, 2)),
    "power_function": DataSet((0, 1, 2, 3, 4)),
    "prime_factorization": DataSet((0, 1, 2)),
    "products": DataSet((0, 1, 2, 3, 4, 5)),
    "puzzle24": DataSet((0, 1, 2, 3, 4, 5)),
    "quantum_lock": DataSet((0, 1, 2, 3, 4, 5)),
    "ransom_note": DataSet((0, 1, 2)),
    "rearc": DataSet((0, 1, 2, 3, 4, 5)),
    "rectangle_count": DataSet((0, 1, 2, 3, 4)),
    "rotate_matrix": DataSet((0, 1)),
    "rotten_oranges": DataSet((0, 1, 2)),
    "rubiks_cube": DataSet(note="cubes of three, which come with a solution"),
    "rush_hour": DataSet((0, 1), solved=False),
    "self_reference": DataSet((0,)),
    "sentence_reordering": DataSet((0, 1, 2)),
    "shortest_path": DataSet((0, 1, 2)),
    "simple_equations": DataSet((0, 1, 2, 3)),
    "simple_geometry": DataSet((0, 1, 2)),
    "simple_integration": DataSet((0, 1, 2, 3)),
    "sokoban": DataSet((1, 2, 3, 4, 5)),
    "spell_backward": DataSet((0, 1, 2, 3, 4)),
    "spiral_matrix": DataSet((0, 1)),
    "string_insertion": DataSet((0, 1, 2)),
    "string_manipulation": DataSet((0, 1, 2, 3)),
    "string_splitting": DataSet((0, 1, 2)),
    "string_synthesis": DataSet((0, 1, 2)),
    "sudoku": DataSet((0, 1, 2, 3)),
    "survo": DataSet((0, 1)),
    "syllogism": DataSet((0, 1, 2, 3)),
    "time_intervals": DataSet((0, 1, 2, 3, 4, 5)),
    "tower_of_hanoi": DataSet((1, 2)),
    "tsumego": DataSet((0, 1, 2, 3)),
    "word_ladder": DataSet((0, 1)),
    "word_sequence_reversal": DataSet((0, 1, 2)),
    "word_sorting": DataSet((0, 1, 2, 3)),
    "zebra_puzzles": DataSet((0, 1, 2, 3)),
}

REFUSED_DATA_SETS = {
    "composite": "needs other data sets to be composed of; mix environments instead",
    "propositional_logic": "its scorer takes any premise copied back for a conclusion, and items have no answer",
}

TEXTARENA: dict[str, BridgedGame] = {
    "2048": BridgedGame(
        "Game2048.env:Game2048Env",
        tuple({"target_tile": 2**power} for power in range(5, 10)),
        (60, 100, 200, 400, 800),
        later=True,
    ),
    "Bandit": BridgedGame(
        "Bandit.env:BanditEnv",
        ({"p_gap": 0.4, "num_turns": 20}, {"p_gap": 0.2, "num_turns": 20}, {"p_gap": 0.1, "num_turns": 20}),
        (44, 44, 44),
        later=True,
    ),
    "Blackjack": BridgedGame("Blackjack.env:BlackjackEnv", ({"num_hands": 1}, {"num_hands": 3}), (30, 90), later=True),
    "Countdown": BridgedGame("Countdown.env:CountdownEnv", ({},), (26,), "not every target can be reached"),
    "Crosswords": BridgedGame(
        "Crosswords.env:CrosswordsEnv",
        ({"hardcore": False, "max_turns": 30, "num_words": 3}, {"hardcore": True, "max_turns": 30, "num_words": 3}),
        (62, 62),
    ),
    "FifteenPuzzle": BridgedGame(
        "FifteenPuzzle.env:FifteenPuzzleEnv", ({"max_turns": 200},), (402,), "only arrangements that can be solved"
    ),
    "FrozenLake": BridgedGame(
        "FrozenLake.env:FrozenLakeEnv",
        (
            {"size": 4, "num_holes": 3},
            {"size": 4, "num_holes": 3, "randomize_start_goal": True},
            {"size": 5, "num_holes": 6},
        ),
        (202, 202, 202),
    ),
    "GuessTheNumber": BridgedGame(
        "GuessTheNumber.env:GuessTheNumberEnv",
        (
            {"min_number": 1, "max_number": 20, "max_turns": 10},
            {"min_number": 1, "max_number": 50, "max_turns": 10},
            {"min_number": 1, "max_number": 1000, "max_turns": 12},
        ),
        (22, 22, 26),
    ),
    "Hangman": BridgedGame(
        "Hangman.env:HangmanEnv", ({"hardcore": False}, {"hardcore": True}), (60, 60), "needs nltk's words"
    ),
    "LightsOut": BridgedGame(
        "LightsOut.env:LightsOutEnv", ({"size": 3, "max_turns": 20}, {"size": 5, "max_turns": 20}), (42, 42)
    ),
    "LogicPuzzle": BridgedGame(
        "LogicPuzzle.env:LogicPuzzleEnv", ({"difficulty": "easy"}, {"difficulty": "hard"}), (62, 62)
    ),
    "Mastermind": BridgedGame(
        "Mastermind.env:MastermindEnv",
        (
            {"code_length": 4, "num_numbers": 6, "max_turns": 20, "duplicate_numbers": False},
            {"code_length": 4, "num_numbers": 8, "max_turns": 30, "duplicate_numbers": False},
            {"code_length": 6, "num_numbers": 12, "max_turns": 50, "duplicate_numbers": True},
        ),
        (42, 62, 102),
    ),
    "Minesweeper": BridgedGame(
        "Minesweeper.env:MinesweeperEnv",
        (
            {"rows": 5, "cols": 5, "num_mines": 5, "max_turns": 100},
            {"rows": 8, "cols": 8, "num_mines": 10, "max_turns": 100},
            {"rows": 10, "cols": 10, "num_mines": 20, "max_turns": 100},
            {"rows": 12, "cols": 12, "num_mines": 30, "max_turns": 100},
        ),
        (202, 202, 202, 202),
        later=True,
    ),
    "RushHour": BridgedGame("RushHour.env:RushHourEnv", ({},), (200,)),
    "Secretary": BridgedGame("Secretary.env:SecretaryEnv", ({"N": 5}, {"N": 10}), (12, 22)),
    "Slitherlink": BridgedGame("Slitherlink.env:SlitherlinkEnv", ({"rows": 4, "cols": 4, "max_turns": 200},), (402,)),
    "Sokoban": BridgedGame(
        "Sokoban.env:SokobanEnv",
        (
            {"dim_room": (6, 6), "max_turns": 30, "num_boxes": 1},
            {"dim_room": (6, 6), "max_turns": 30, "num_boxes": 3},
        ),
        (62, 62),
    ),
    "Sudoku": BridgedGame(
        "Sudoku.env:SudokuEnv",
        tuple({"clues": clues, "max_turns": 100} for clues in (75, 70, 60, 40)),
        (202, 202, 202, 202),
    ),
    "ThreeCardMonte": BridgedGame(
        "ThreeCardMonte.env:ThreeCardMonteEnv",
        ({"num_cups": 3, "steps": 10}, {"num_cups": 5, "steps": 20}, {"num_cups": 9, "steps": 40}),
        (3, 3, 3),
    ),
    "WordSearch": BridgedGame(
        "WordSearch.env:WordSearchEnv", ({"hardcore": False}, {"hardcore": True}), (42, 42), "needs nltk's words"
    ),
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

# GEM's games, by the class in gem.envs.game_env. Settings are GEM's own where its goal can be reached within its turns.
GEM: dict[str, BridgedGame] = {
    "Crosswords": BridgedGame(
        "crosswords.crosswords:CrosswordsEnv",
        tuple({"hardcore": hard, "num_words": 3, "max_turns": 40} for hard in (False, True)),
        (40, 40),
    ),
    "FifteenPuzzle": BridgedGame(
        "fifteen_puzzle:FifteenPuzzleEnv",
        tuple({"num_rows": rows, "max_turns": turns} for rows, turns in ((2, 10), (3, 40), (4, 150))),
        (10, 40, 150),
    ),
    "Game2048": BridgedGame(
        "game_2048:Game2048Env",
        tuple({"target_tile": tile, "max_turns": turns} for tile, turns in ((16, 20), (32, 30), (64, 50))),
        (20, 30, 50),
        "no expert is known",
        later=True,
    ),
    "GuessTheNumber": BridgedGame(
        "guess_the_number:GuessTheNumberEnv",
        tuple(
            {"min_number": 1, "max_number": max_rows, "max_turns": turns}
            for max_rows, turns in ((50, 7), (500, 10), (5000, 14))
        ),
        (7, 10, 14),
    ),
    "Hangman": BridgedGame(
        "hangman:HangmanEnv",
        tuple({"word_length": length, "max_turns": turns} for length, turns in ((3, 10), (5, 15), (7, 20))),
        (10, 15, 20),
        "needs nltk's words",
    ),
    "Mastermind": BridgedGame(
        "mastermind:MastermindEnv",
        tuple(
            {"code_length": length, "num_numbers": numbers, "max_turns": turns}
            for length, numbers, turns in ((3, 6, 15), (4, 6, 20), (4, 8, 30))
        ),
        (15, 20, 30),
    ),
    "Minesweeper": BridgedGame(
        "minesweeper:MinesweeperEnv",
        tuple({"rows": n, "cols": n, "num_mines": mines, "max_turns": n * n} for n, mines in ((5, 5), (8, 12))),
        (25, 64),
        later=True,
    ),
    "Sokoban": BridgedGame(
        "sokoban.sokoban:SokobanEnv",
        tuple(
            {"dim_room": room, "num_boxes": n, "max_turns": 60} for room, n in (((6, 6), 1), ((6, 6), 2), ((8, 8), 2))
        ),
        (60, 60, 60),
    ),
    "Sudoku": BridgedGame(
        "sudoku:SudokuEnv",
        tuple(
            {"scale": scale, "clues": clues, "max_turns": turns} for scale, clues, turns in ((4, 10, 20), (9, 50, 80))
        ),
        (20, 80),
    ),
    "WordSearch": BridgedGame(
        "word_search:WordSearchEnv",
        ({"hardcore": False, "num_words": 5, "max_turns": 20},),
        (20,),
        "needs nltk's words",
    ),
    "Wordle": BridgedGame(
        "wordle:WordleEnv",
        tuple({"word_length": length, "max_turns": 5 * length} for length in (3, 4, 5)),
        (15, 20, 25),
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
