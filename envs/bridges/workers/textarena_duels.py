"""What the workers of TextArena's games for two players do: begin a game, and play one action and the other's answers.

Loaded in workers only; kept, seeded and played again as in ``textarena``. The other player tries the moves of the table
in a random order, each on a copy, and makes the first that TextArena takes. The policy reads what the game has written,
and no player's own words: in TextArena these reach both, even where both are to move without knowing the other's move.
"""

from __future__ import annotations

import copy
import importlib
import random
from typing import Any

from rlvr.envs.bridges.duels import DUELS, MOVES
from rlvr.envs.bridges.worker_episodes import KeptEpisodes, KeptKey, recorded
from rlvr.envs.bridges.workers.textarena import _seeded, warm
from rlvr.envs.core.seeding import digest

__all__ = ["begin", "play", "warm"]

Key = tuple[str, int, int]
ANSWERS = 200  # moves of the other player between two of the policy: more is a game that does not go on

_games: KeptEpisodes[Any] = KeptEpisodes()


def begin(name: str, level: int, seed: int, number: int) -> dict[str, Any]:
    """A new game up to the policy's first move: what its player reads, and whether the game still goes on."""
    game = _new((name, level, seed))
    _games.keep(number, game)
    text = _observed(game, seed)
    content = f"{digest('textarena duel', name, level, seed):032x}"
    return {"text": text, "record": recorded("", text), "content": content, "winnable": not game.state.done}


def play(name: str, level: int, seed: int, actions: list[str], episode: list[Any]) -> dict[str, Any]:
    """What the last of the actions leads to: the next observation, or the end, its reason and the player's score."""
    past, key, asked = tuple(actions[:-1]), (name, level, seed), KeptKey(*episode)
    game = _games.take(asked.before, lambda: _again(key, past), asked.record)
    game = _step(game, key, past, actions[-1])
    text = _observed(game, seed)
    if not game.state.done:
        _games.keep(asked.after, game)
        return {"text": text, "done": False, "record": recorded(asked.record, text)}
    player = _player(seed)
    facts = game.state.game_info.get(player, {})
    score = float((game.state.rewards or {}).get(player, -1))
    reason = str(facts.get("reason") or text or "the game is over")
    return {"text": text, "done": True, "score": score, "legal": not facts.get("invalid_move"), "reason": reason,
            "record": ""}  # fmt: skip


def _player(seed: int) -> int:
    """The policy's player: 0 or 1, by the seed."""
    return digest("player", seed) & 1


def _new(key: Key) -> Any:
    name, level, seed = key
    path, _, kind = DUELS[name].path.partition(":")
    build = getattr(importlib.import_module(f"textarena.envs.{path}"), kind)
    _seeded(*key, 0)
    game = build(**DUELS[name].settings[level - 1])
    _seeded(*key, 1)
    game.reset(num_players=2, seed=seed)
    return _answered(game, key, 1)


def _again(key: Key, actions: tuple[str, ...]) -> tuple[Any, str]:
    game = _new(key)
    record = recorded("", _observed(game, key[2]))
    for index, action in enumerate(actions):
        game = _step(game, key, actions[:index], action)
        record = recorded(record, _observed(game, key[2]))
    return game, record


def _step(game: Any, key: Key, past: tuple[str, ...], action: str) -> Any:
    """The game after an action and the other's answers. One that makes the game raise counts as an empty one."""
    turn = 2 + len(past)
    _seeded(*key, turn)
    try:
        game.step(action)
    except (Exception, RecursionError):
        if not action:
            raise
        return _step(_again(key, past)[0], key, past, "")
    return _answered(game, key, turn)


def _answered(game: Any, key: Key, turn: int) -> Any:
    """The game after the other player's moves, until the policy's player moves or the game is over."""
    for answer in range(ANSWERS):
        if game.state.done or game.state.current_player_id == _player(key[2]):
            return game
        game = _other(game, key, turn, answer)
    raise RuntimeError(f"the other player of {key[0]} moved {ANSWERS} times in a row")


def _other(game: Any, key: Key, turn: int, answer: int) -> Any:
    """The game after a random move of the other player that TextArena takes."""
    texts = list(MOVES[key[0]])
    random.Random(digest("other", *key, turn, answer)).shuffle(texts)
    other = game.state.current_player_id
    for text in texts:
        trial = copy.deepcopy(game)
        _seeded(*key, turn, answer)
        trial.step(text)
        if not trial.state.error_count and not trial.state.game_info[other].get("invalid_move"):
            return trial
    raise RuntimeError(f"TextArena takes none of {len(texts)} moves of the other player in {key[0]}")


def _observed(game: Any, seed: int) -> str:
    """What the game has written to the policy's player since it was asked last, and nobody's own words."""
    import textarena

    echo, player = textarena.ObservationType.PLAYER_ACTION, _player(seed)
    messages, game.state.observations[player] = game.state.observations[player], []
    return "\n".join(str(text).strip("\n") for _, text, kind in messages if kind is not echo)
