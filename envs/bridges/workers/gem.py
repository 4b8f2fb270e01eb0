"""What the workers of the GEM bridge do: begin a game, play one more action of it, and say what an expert would do.

Loaded in workers only. A game belongs to one episode instance (see ``kept``). A worker keeps the games that it played
last, and plays one that it does not have again from its seed and the actions so far. GEM draws from Python's and
numpy's global generators, which are seeded anew before every call into a game. Experts look at what the game hides.
"""

from __future__ import annotations

import heapq
import importlib
import itertools
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from rlvr.envs.bridges.suite_games import GEM
from rlvr.envs.bridges.worker_episodes import KeptEpisodes, KeptKey, recorded
from rlvr.envs.core.seeding import digest

PLANS = 256
NODES = 200_000  # positions that a search looks at before it gives up
ADDRESS = re.compile(r"0x[0-9a-f]+")
EXAMPLE = re.compile(r"\\boxed\{([^{}]*)\}")
WON = "Congratulations!"  # how every game of GEM says so; a truncated one is not won
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

_games: KeptEpisodes[tuple[Any, float]] = KeptEpisodes()
_plans: OrderedDict[tuple[str, int, int], tuple[tuple[str, ...], list[str]]] = OrderedDict()


def warm() -> None:
    """Import the package, with its downloads taken out."""
    nltk: Any = importlib.import_module("nltk")
    nltk.download = lambda *_, **__: False
    importlib.import_module("gem")


def begin(name: str, level: int, seed: int, number: int) -> dict[str, Any]:
    """A new game: its first observation, what makes it this game, and whether it can be won."""
    game, text = _new(name, level, seed)
    hidden = sorted((key, value) for key, value in vars(game).items() if key not in ("all_words", "word_data"))
    content = ADDRESS.sub("", repr(hidden)) + (str(seed) if GEM[name].later else "")
    winnable = _winnable(name, game) and not _won_by_an_echo(name, level, seed, text)
    _games.keep(number, (game, 0.0))
    kind = f"{digest(name, level, content):032x}"
    return {"text": text, "content": kind, "winnable": winnable, "record": recorded("", text)}


def play(name: str, level: int, seed: int, actions: list[str], episode: list[Any]) -> dict[str, Any]:
    """What the last of the actions leads to: the next observation, whether it is over and won, GEM's own return."""
    past, action, asked = tuple(actions[:-1]), actions[-1], KeptKey(*episode)
    game, score = _games.take(asked.before, lambda: _again(name, level, seed, past), asked.record)
    text, reward, over, won = _step(game, name, level, seed, past, action)
    if not over:
        _games.keep(asked.after, (game, score + reward))
    record = recorded(asked.record, text, reward)
    return {"text": text, "done": over, "won": won, "score": score + reward, "record": record}


def solve(name: str, level: int, seed: int, actions: list[str], episode: list[Any]) -> str | None:
    """The move of an expert who sees what is hidden; None where none is known."""
    past, asked = tuple(actions), KeptKey(*episode)
    game, score = _games.take(asked.before, lambda: _again(name, level, seed, past), asked.record)
    _games.keep(asked.before, (game, score))
    if name in SEARCHES:
        return _planned((name, level, seed), past, game)
    expert = EXPERTS.get(name)
    return expert(game) if expert else None


def _planned(key: tuple[str, int, int], past: tuple[str, ...], game: Any) -> str | None:
    """The next move of the way that was found before, or of a new one."""
    before, path = _plans.get(key, ((), []))
    gone = len(past) - len(before)
    if not (past[: len(before)] == before and past[len(before) :] == tuple(path[:gone]) and gone < len(path)):
        before, path, gone = past, SEARCHES[key[0]](game) or [], 0
        _plans[key] = before, path
        if len(_plans) > PLANS:
            _plans.popitem(last=False)
    return path[gone] if path else None


def _new(name: str, level: int, seed: int) -> tuple[Any, str]:
    path, _, kind = GEM[name].path.partition(":")
    build = getattr(importlib.import_module(f"gem.envs.game_env.{path}"), kind)
    settings = GEM[name].settings[level - 1]
    _seeded(name, level, seed, 0)
    game = build(**{key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()})
    _seeded(name, level, seed, 1)
    text, info = game.reset(seed=seed)
    return game, _joined(text, info)


def _again(name: str, level: int, seed: int, actions: tuple[str, ...]) -> tuple[tuple[Any, float], str]:
    """The game after these actions, and what it has paid; the digest of what was said."""
    (game, text), score = _new(name, level, seed), 0.0
    record = recorded("", text)
    for index, action in enumerate(actions):
        text, reward, _, _ = _step(game, name, level, seed, actions[:index], action)
        score, record = score + reward, recorded(record, text, reward)
    return (game, score), record


def _step(
    game: Any, name: str, level: int, seed: int, past: tuple[str, ...], action: str
) -> tuple[str, float, bool, bool]:
    _seeded(name, level, seed, 2 + len(past))
    text, reward, terminated, truncated, info = game.step(f"\\boxed{{{action}}}")
    won = bool(terminated and not truncated and text.startswith(WON))
    if name == "Minesweeper" and not won and _cleared(game):  # GEM's goal as it says it; it also waits for flags
        won, text = True, f"{WON} You have revealed every cell without a mine."
    return text if won else _joined(text, info), float(reward), bool(won or terminated or truncated), won


def _joined(text: str, info: dict[str, Any]) -> str:
    """The observation with what GEM's wrapper would put behind it: the board."""
    return "\n".join(part.strip("\n") for part in (text, info.get("suffix", "")) if part)


def _seeded(*key: object) -> None:
    import numpy as np

    number = digest("gem", *key) & 0xFFFFFFFF
    random.seed(number)
    np.random.seed(number)


def _winnable(name: str, game: Any) -> bool:
    match name:
        case "FifteenPuzzle":
            solved: bool = game._is_solved()
            return not solved and _even(game.board)
        case "Sokoban":
            path = _sokoban_path(game)
            return path is not None and 0 < len(path) <= int(game.max_turns)
        case "Crosswords":
            cells: int = sum(row.count("_") for row in game.board)
            return 0 < cells <= int(game.max_turns)
        case "Sudoku":
            return 0 < int(game.init_num_empty) <= int(game.max_turns)
        case "WordSearch":
            return len(game.placed_words) == int(game.num_words)
    return True


def _won_by_an_echo(name: str, level: int, seed: int, text: str) -> bool:
    """Whether an example of a move, in the instructions, happens to win at once."""
    examples = set(EXAMPLE.findall(text))
    return any(_step(_new(name, level, seed)[0], name, level, seed, (), example)[3] for example in examples)


def _cleared(game: Any) -> bool:
    cells = itertools.product(range(game.rows), range(game.cols))
    return not game.first_reveal and all(game.revealed[r][c] or game.grid[r][c] == -1 for r, c in cells)


def _even(board: list[list[int | None]]) -> bool:
    """Whether a sliding puzzle can be solved: half of all arrangements cannot."""
    tiles = [tile for row in board for tile in row if tile]
    swaps = sum(a > b for index, a in enumerate(tiles) for b in tiles[index + 1 :])
    gap = next(number for number, row in enumerate(board) if None in row)
    return (swaps + (len(board) - 1 - gap) * (1 - len(board) % 2)) % 2 == 0


# experts


def _search(
    start: Any,
    moves: Callable[[Any], Iterable[tuple[str, Any]]],
    left: Callable[[Any], int],
) -> list[str] | None:
    """The moves of a way to a position with nothing left: a shortest one, where ``left`` never says too much."""
    ties = itertools.count()
    waiting: list[tuple[int, int, int, Any, Any]] = [(left(start), next(ties), 0, start, None)]
    visited: dict[Any, Any] = {}
    while waiting and len(visited) < NODES:
        _, _, depth, here, way = heapq.heappop(waiting)
        if here in visited:
            continue
        visited[here] = way
        if left(here) == 0:
            path: list[str] = []
            while visited[here] is not None:
                move, here = visited[here]
                path.append(move)
            return path[::-1]
        for move, there in moves(here):
            if there not in visited:
                heapq.heappush(waiting, (depth + 1 + left(there), next(ties), depth + 1, there, (move, here)))
    return None


def _sliding_path(game: Any) -> list[str] | None:
    size = int(game.num_rows)
    indices = list(itertools.product(range(size), repeat=2))
    weight = 1 if size < 4 else 3  # longer ways, found sooner

    def moves(board: tuple[int, ...]) -> Iterable[tuple[str, tuple[int, ...]]]:
        row, column = divmod(board.index(0), size)
        for move, (down, right) in STEPS.items():  # the tile moves, the gap the other way
            there = row - down, column - right
            if 0 <= there[0] < size and 0 <= there[1] < size:
                cells, gap, tile = list(board), row * size + column, there[0] * size + there[1]
                cells[gap], cells[tile] = cells[tile], 0
                yield move, tuple(cells)

    def left(board: tuple[int, ...]) -> int:
        tiles = [(cell, divmod(tile - 1, size)) for cell, tile in zip(indices, board, strict=True) if tile]
        away: int = sum(abs(r - a) + abs(c - b) for (r, c), (a, b) in tiles)
        return weight * away

    return _search(tuple(tile or 0 for row in game.board for tile in row), moves, left)


def _sokoban_path(game: Any) -> list[str] | None:
    room = game.room_fixed.tolist()
    free = {(r, c) for r, row in enumerate(room) for c, cell in enumerate(row) if cell != 0}
    goals = [(r, c) for r, row in enumerate(room) for c, cell in enumerate(row) if cell == 2]
    here = tuple(int(x) for x in game.player_position)
    boxes = frozenset(
        (r, c) for r, row in enumerate(game.room_state.tolist()) for c, cell in enumerate(row) if cell in (3, 4)
    )

    def moves(position: Any) -> Iterable[tuple[str, Any]]:
        (row, column), around = position
        for move, (down, right) in STEPS.items():
            there, behind = (row + down, column + right), (row + 2 * down, column + 2 * right)
            if there in around and behind in free - around:
                yield move, (there, (around - {there}) | {behind})
            elif there in free - around:
                yield move, (there, around)

    def left(position: Any) -> int:
        return sum(min(abs(r - a) + abs(c - b) for a, b in goals) for r, c in position[1])

    return _search((here, boxes), moves, left)


def _minesweeper(game: Any) -> str:
    """Reveal what is no mine, the middle first, and what opens its neighbours before the rest."""
    if game.first_reveal:
        return f"reveal {game.rows // 2} {game.cols // 2}"
    cells = itertools.product(range(game.rows), range(game.cols))
    safe = [(r, c) for r, c in cells if game.grid[r][c] != -1 and not game.revealed[r][c]]
    row, column = min(safe, key=lambda cell: game.grid[cell[0]][cell[1]])
    return f"{'flag' if game.flags[row][column] else 'reveal'} {row} {column}"


def _sudoku(game: Any) -> str:
    indices = itertools.product(range(game.scale), repeat=2)
    row, column = next((r, c) for r, c in indices if game.board[r][c] == 0)
    return f"{row + 1} {column + 1} {game.full_grid[row][column]}"


def _crosswords(game: Any) -> str:
    row, column = next((r, c) for r, cells in enumerate(game.board) for c, cell in enumerate(cells) if cell == "_")
    return f"{row} {column} {game.solution[row][column]}"


def _word_search(game: Any) -> str:
    word = next(word for word in game.placed_words if word not in game.correct_words)
    row, column, direction = game.placed_words[word]
    reach = len(word) - 1
    end = (row, column + reach) if direction == "across" else (row + reach, column)
    return f"{row} {column} {end[0]} {end[1]}"


SEARCHES: dict[str, Callable[[Any], list[str] | None]] = {"FifteenPuzzle": _sliding_path, "Sokoban": _sokoban_path}
EXPERTS: dict[str, Callable[[Any], str]] = {
    "Crosswords": _crosswords,
    "GuessTheNumber": lambda game: str(game.game_number),
    "Hangman": lambda game: str(game.secret_word),
    "Mastermind": lambda game: " ".join(map(str, game.game_code)),
    "Minesweeper": _minesweeper,
    "Sudoku": _sudoku,
    "WordSearch": _word_search,
    "Wordle": lambda game: str(game.secret_word),
}
