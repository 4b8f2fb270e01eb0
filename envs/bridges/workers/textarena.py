"""What the workers of the TextArena bridge do: begin a game, and play one more action of it.

Loaded in workers only. A game belongs to one episode instance (see ``kept``). A worker keeps the games that it played
last, and plays one that it does not have again from its seed and the actions so far. Chance is seeded anew before every
call into a game, by the game's own name, so that it can be.
"""

from __future__ import annotations

import importlib
import random
import re
from typing import Any

from rlvr.envs.bridges.suite_games import TEXTARENA
from rlvr.envs.bridges.worker_episodes import KeptEpisodes, KeptKey, recorded
from rlvr.envs.core.seeding import digest

ADDRESS = re.compile(r"0x[0-9a-f]+")
NOT_WON = re.compile(r"limit|unfinished|no moves? left|no more moves|^invalid move", re.IGNORECASE)

_games: KeptEpisodes[Any] = KeptEpisodes()


def warm() -> None:
    """Import the package, with its downloads taken out."""
    nltk: Any = importlib.import_module("nltk")
    nltk.download = lambda *_, **__: False
    import textarena  # noqa: F401


def begin(name: str, level: int, seed: int, number: int) -> dict[str, Any]:
    """A new game: its first observation, what makes it this game, and whether it can be won."""
    game = _new(name, level, seed)
    _games.keep(number, game)
    hidden = {key: value for key, value in vars(game).items() if key != "state"}
    content = repr((game.state.game_state, sorted(hidden.items(), key=lambda item: item[0])))
    content += str(seed) if TEXTARENA[name].later else ""
    text = _observed(game)
    return {
        "text": text,
        "record": recorded("", text),
        "content": f"{digest(name, level, ADDRESS.sub('', content)):032x}",
        "winnable": name != "FifteenPuzzle" or _even(game.state.game_state["board"]),
    }


def play(name: str, level: int, seed: int, actions: list[str], episode: list[Any]) -> dict[str, Any]:
    """What the last of the actions leads to: the next observation, or the end, its reason and the game's own score."""
    past, action, asked = tuple(actions[:-1]), actions[-1], KeptKey(*episode)
    game = _games.take(asked.before, lambda: _again(name, level, seed, past), asked.record)
    game = _step(game, name, level, seed, past, action)
    text = _observed(game)
    if not game.state.done:
        _games.keep(asked.after, game)
        return {"text": text, "done": False, "record": recorded(asked.record, text)}
    outcome = (game.state.rewards or {}).get(0)
    facts = game.state.game_info.get(0, {})
    reason = str(outcome if isinstance(outcome, str) else facts.get("reason") or text or "the game is over")
    number = float(outcome) if isinstance(outcome, (int, float)) and outcome == outcome else 0.0
    legal = not facts.get("invalid_move") and not NOT_WON.search(reason)
    if name == "2048":
        legal = legal and game._max_tile() >= game.target_tile  # its score can reach 1 without the tile
    return {
        "text": text,
        "done": True,
        "score": min(max(number, 0.0), 1.0),
        "legal": legal,
        "reason": reason,
        "record": "",
    }


def _new(name: str, level: int, seed: int) -> Any:
    path, _, kind = TEXTARENA[name].path.partition(":")
    build = getattr(importlib.import_module(f"textarena.envs.{path}"), kind)
    _seeded(name, level, seed, 0)
    game = build(**TEXTARENA[name].settings[level - 1])
    _seeded(name, level, seed, 1)
    game.reset(num_players=1, seed=seed)
    return game


def _again(name: str, level: int, seed: int, actions: tuple[str, ...]) -> tuple[Any, str]:
    game = _new(name, level, seed)
    record = recorded("", _observed(game))
    for index, action in enumerate(actions):
        game = _step(game, name, level, seed, actions[:index], action)
        record = recorded(record, _observed(game))
    return game, record


def _step(game: Any, name: str, level: int, seed: int, past: tuple[str, ...], action: str) -> Any:
    """The game after an action. One that makes the game raise counts as an empty one, which no game understands."""
    _seeded(name, level, seed, 2 + len(past))
    try:
        game.step(action)
    except (Exception, RecursionError):
        if not action:
            raise
        game = _step(_again(name, level, seed, past)[0], name, level, seed, past, "")
    return game


def _seeded(*key: object) -> None:
    import numpy as np

    number = digest("textarena", *key) & 0xFFFFFFFF
    random.seed(number)
    np.random.seed(number)


def _observed(game: Any) -> str:
    """What the player has not read yet, without an echo of its own action."""
    import textarena

    echo = textarena.ObservationType.PLAYER_ACTION
    _, messages = game.get_observation()
    return "\n".join(str(text).strip("\n") for _, text, kind in messages if kind is not echo)


def _even(board: list[list[int | None]]) -> bool:
    """Whether a 4 x 4 sliding puzzle can be solved: half of all arrangements cannot."""
    tiles = [tile for row in board for tile in row if tile]
    swaps = sum(a > b for index, a in enumerate(tiles) for b in tiles[index + 1 :])
    gap = next(number for number, row in enumerate(board) if None in row)
    return (swaps + 3 - gap) % 2 == 0
