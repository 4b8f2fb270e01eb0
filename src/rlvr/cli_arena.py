"""``rlvr arena``: bots and policies play a game against each other, and are rated."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlvr.envs.core.json_text import load_json


def arena(options: argparse.Namespace, rest: list[str]) -> int:
    """Play a round robin and print the table and the payoff matrix."""
    from rlvr.agents.players.arena import Arena, payoff_matrix, ratings, run_arena
    from rlvr.envs.players.catalogue import game_from_spec
    from rlvr.envs.players.game import Referee

    names = list(dict.fromkeys(options.player))
    if len(names) < len(options.player):
        raise ValueError(f"a player is named twice: {' '.join(options.player)}")
    settings = load_json(options.settings) if options.settings else {}
    referee = Referee(game_from_spec({"game": options.game, "settings": settings}))
    entrants = {name: _entrant(name, options) for name in names}
    setting = {"game": options.game, "settings": settings, "seed": options.seed}
    played = run_arena(Arena(referee, entrants, matches=options.matches, seed=options.seed), options.out, setting)
    table, matrix = ratings(played, names), payoff_matrix(played, names)
    failed = [each for each in played if each.score is None]
    if options.json:
        record = {"table": [asdict(each) for each in table], "names": names, "matrix": matrix, "failed": len(failed)}
        print(json.dumps(record))
        return 1 if failed else 0
    width = max(map(len, names))
    print(f"{'player':<{width}}    Elo  +- 95 %  score  payoff  matches  forfeits")
    for each in table:
        print(
            f"{each.name:<{width}} {each.elo:6.0f} {each.interval:8.0f} {each.score:6.3f} {each.payoff:7.3f} "
            f"{each.matches:8} {each.forfeits:9}"
        )
    print("\nmean score of the row against the column")
    print(" " * width + "".join(f" {name[:9]:>9}" for name in names))
    for name, row in zip(names, matrix, strict=True):
        print(f"{name:<{width}}" + "".join(f" {'' if value is None else format(value, '.3f'):>9}" for value in row))
    if failed:
        print(f"\n{len(failed)} matches failed and count for nothing, for example: {failed[0].error}")
    return 1 if failed else 0


def _entrant(name: str, options: argparse.Namespace) -> Any:
    from rlvr.agents.players.arena import agent_entrant, bot_entrant

    if not name.startswith("model:"):
        return bot_entrant(name)
    try:
        from rlvr.agents.models.tiny import load_policy
        from rlvr.agents.models.transformers import TransformersAgent
    except ModuleNotFoundError as error:
        raise ImportError(f'a model needs {error.name}: pip install "rlvr[train]"') from error
    model, tokenizer = load_policy(name.removeprefix("model:"))
    agent = TransformersAgent(model, tokenizer, max_new_tokens=options.max_new_tokens, seed=options.seed)
    return agent_entrant(agent)


def add_parsers(commands: Any) -> None:
    """Add the command to the sub-commands of `rlvr`."""
    playing = commands.add_parser("arena", help="let bots and policies play a game against each other, and rate them")
    playing.add_argument("game", help="a game of several players, such as TicTacToeDuel")
    playing.add_argument("player", nargs="+", help="a bot, such as expert or mcts:50, or model:FOLDER")
    playing.add_argument("--matches", type=int, default=100, help="of each pair")
    playing.add_argument("--seed", type=int, default=0, help="decides the matches")
    playing.add_argument("--settings", metavar="JSON", help='of the game, as {"size": 7}')
    playing.add_argument("--out", type=Path, help="JSONL file of the matches; goes on with one that is there")
    playing.add_argument("--max-new-tokens", type=int, default=64, help="tokens a policy's move may take")
    playing.add_argument("--json", action="store_true", help="print one JSON object")
    playing.set_defaults(command=arena)
