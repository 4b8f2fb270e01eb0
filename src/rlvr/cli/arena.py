"""``rlvr arena``: bots and policies play a game against each other, and are rated."""

from __future__ import annotations

import argparse
import functools
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from rlvr.envs.players.game import Referee


def play(options: argparse.Namespace, rest: list[str]) -> int:
    """Play a round robin, or a Swiss tournament, and print the table and the payoff matrix."""
    from rlvr.agents.players.arena import Arena, payoff_matrix, ratings, run_arena
    from rlvr.agents.players.swiss import Swiss
    from rlvr.envs.players.catalogue import game_from_spec
    from rlvr.envs.players.game import Referee

    names = list(dict.fromkeys(options.player))
    if len(names) < len(options.player):
        raise ValueError(f"a player is named twice: {' '.join(options.player)}")
    settings = load_json(options.settings) if options.settings else {}
    referee = Referee(game_from_spec({"game": options.game, "settings": settings}))
    entrants = {name: _entrant(name, referee, options) for name in names}
    setting = {"game": options.game, "settings": settings, "seed": options.seed} | (
        {"brief": True} if options.brief else {}
    )
    if referee.game.version > 1:
        setting["version"] = referee.game.version
    shared = {"matches": options.matches, "seed": options.seed, "brief": options.brief}
    arena: Arena
    if options.swiss is None:
        arena = Arena(referee, entrants, **shared)
    else:
        arena = Swiss(referee, entrants, rounds=options.swiss, **shared)
        setting["swiss"] = True
    played = run_arena(arena, options.out, setting)
    exploited = _exploitabilities(names, referee, options) if options.exploitability else {}
    table, matrix = ratings(played, names), payoff_matrix(played, names)
    failed = [each for each in played if each.score is None]
    if options.json:
        record = {"table": [asdict(each) for each in table], "names": names, "matrix": matrix, "failed": len(failed)}
        record |= {"exploitability": exploited} if options.exploitability else {}
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
    if exploited:
        print("\nexploitability, and the probability of the texts that were scored: mean and least over its states")
    for name, of in exploited.items():
        print(f"{name:<{width}} {of['exploitability']:9.4f} {of['mean_mass']:9.3f} {of['least_mass']:9.3f}")
    if failed:
        print(f"\n{len(failed)} matches failed and count for nothing, for example: {failed[0].error}")
    return 1 if failed else 0


def _exploitabilities(names: list[str], referee: Referee, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The exploitability of every model among the players."""
    from rlvr.agents.players.text_policy import model_scorer, text_policy
    from rlvr.agents.rendering import Renderer
    from rlvr.envs.players.exploitability import exploitability
    from rlvr.envs.players.single import MODEL

    found = {}
    for name in names:
        if name.startswith(MODEL):
            model, tokenizer = _policy(name)
            policy = text_policy(
                referee, model_scorer(model, Renderer(tokenizer)), system=not options.brief, brief=options.brief
            )
            value = exploitability(referee.game, policy).value
            found[name] = {"exploitability": value, "mean_mass": policy.mean_mass, "least_mass": policy.least_mass}
    if not found:
        raise ValueError("--exploitability is of a model: name one as model:FOLDER")
    return found


@functools.lru_cache(maxsize=1)
def _policy(name: str) -> tuple[Any, Any]:
    try:
        from rlvr.agents.models.tiny import load_policy
    except ModuleNotFoundError as error:
        raise ImportError(f'a model needs {error.name}: pip install "rlvr[train]"') from error
    from rlvr.envs.players.single import MODEL

    return load_policy(name.removeprefix(MODEL))


def _entrant(name: str, referee: Referee, options: argparse.Namespace) -> Any:
    from rlvr.agents.players.arena import agent_entrant, bot_entrant
    from rlvr.envs.players.bots import bot_for
    from rlvr.envs.players.single import MODEL

    if not name.startswith(MODEL):
        bot_for(referee.game, name)  # refuses one that cannot play the game
        return bot_entrant(name)
    model, tokenizer = _policy(name)
    from rlvr.agents.models.transformers import TransformersAgent

    agent = TransformersAgent(model, tokenizer, max_new_tokens=options.max_new_tokens, seed=options.seed)
    return agent_entrant(agent)


def add_parsers(commands: Any) -> None:
    """Add the command to the sub-commands of `rlvr`."""
    playing = commands.add_parser("arena", help="let bots and policies play a game against each other, and rate them")
    playing.add_argument("game", help="a game of several players, such as TicTacToeDuel")
    playing.add_argument("player", nargs="+", help="a bot, such as expert or mcts:50, or model:FOLDER")
    playing.add_argument("--matches", type=int, default=100, help="of each pair")
    playing.add_argument(
        "--swiss", type=int, metavar="ROUNDS", help="rounds between players of like score, instead of all pairs"
    )
    playing.add_argument("--seed", type=int, default=0, help="decides the matches")
    playing.add_argument("--settings", metavar="JSON", help='of the game, as {"size": 7}')
    playing.add_argument("--out", type=Path, help="JSONL file of the matches; goes on with one that is there")
    playing.add_argument("--max-new-tokens", type=int, default=64, help="tokens a policy's move may take")
    playing.add_argument(
        "--brief", action="store_true", help="without system prompt and rules, for policies trained with brief: true"
    )
    playing.add_argument(
        "--exploitability", action="store_true", help="also what a best response wins from each model, computed exactly"
    )
    playing.add_argument("--json", action="store_true", help="print one JSON object")
    playing.set_defaults(command=play)
