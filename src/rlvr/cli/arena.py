"""``rlvr arena``: bots and policies play a game against each other, and are rated."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from rlvr.agents.models.transformers import TransformersAgent
    from rlvr.envs.players.game import Referee

MOVE_TOKENS = 64  # of a policy that no run says more of


def play(options: argparse.Namespace, rest: list[str]) -> int:
    """Play a round robin, or a Swiss tournament, and print the table and the payoff matrix."""
    from rlvr.agents.players.arena import Arena, payoff_matrix, ratings, run_arena
    from rlvr.agents.players.swiss import Swiss
    from rlvr.envs.players.catalogue import game_from_spec
    from rlvr.envs.players.game import Referee
    from rlvr.envs.players.single import MODEL

    names = list(dict.fromkeys(options.player))
    if len(names) < len(options.player):
        raise ValueError(f"a player is named twice: {' '.join(options.player)}")
    settings = load_json(options.settings) if options.settings else {}
    referee = Referee(game_from_spec({"game": options.game, "settings": settings}))
    policies = {name: _policy(name.removeprefix(MODEL), options) for name in names if name.startswith(MODEL)}
    entrants = {name: _entrant(name, referee, policies) for name in names}
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
    exploited = _exploitabilities(policies, referee) if options.exploitability else {}
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


class Policy(NamedTuple):
    """A model among the players, and how its conversations begin."""

    agent: TransformersAgent
    system: bool
    brief: bool


def _policy(folder: str, options: argparse.Namespace) -> Policy:
    """The policy in a folder; that of a run plays as it was trained, where no flag says otherwise."""
    from rlvr.cli.eval_agents import agent_of, config_of, say_taken, take_sampling

    settings = {"model": folder, "seed": options.seed, "temperature": 1.0, "max_new_tokens": options.max_new_tokens}
    agent_options = argparse.Namespace(
        **settings,
        vllm=None,
        endpoint=None,
        options=None,
        tool_messages=None,
        agent=None,
        score=None,
        device="cpu",
        no_system=None,
    )
    config = config_of(agent_options)
    if config is None and agent_options.max_new_tokens is None:
        agent_options.max_new_tokens = MOVE_TOKENS
    if options.brief:
        agent_options.no_system = True
    taken = take_sampling(agent_options, config)
    trained_brief = config is not None and bool(config.env.settings.get("brief"))
    say_taken(folder, taken, {"brief": True} if trained_brief and not options.brief else {})
    try:
        from rlvr.agents.models.transformers import TransformersAgent

        agent = agent_of(agent_options, {})
    except ModuleNotFoundError as error:
        raise ImportError(f'a model needs {error.name}: pip install "rlvr[train]"') from error
    assert isinstance(agent, TransformersAgent)
    return Policy(agent, not agent_options.no_system, options.brief or trained_brief)


def _exploitabilities(policies: Mapping[str, Policy], referee: Referee) -> dict[str, dict[str, float]]:
    """The exploitability of every model among the players."""
    from rlvr.agents.players.text_policy import model_scorer, text_policy
    from rlvr.envs.players.exploitability import exploitability

    values = {}
    for name, (agent, system, brief) in policies.items():
        scorer = model_scorer(agent.model, agent.renderer)
        policy = text_policy(referee, scorer, system=system, brief=brief)
        value = exploitability(referee.game, policy).value
        values[name] = {"exploitability": value, "mean_mass": policy.mean_mass, "least_mass": policy.least_mass}
    if not values:
        raise ValueError("--exploitability is of a model: name one as model:FOLDER")
    return values


def _entrant(name: str, referee: Referee, policies: Mapping[str, Policy]) -> Any:
    from rlvr.agents.players.arena import agent_entrant, bot_entrant
    from rlvr.envs.players.bots import bot_for

    if name in policies:
        agent, system, brief = policies[name]
        return agent_entrant(agent, system=system, brief=brief)
    bot_for(referee.game, name)  # refuses one that cannot play the game
    return bot_entrant(name)


def add_parsers(commands: Any) -> None:
    """Add the command to the sub-commands of `rlvr`."""
    playing = commands.add_parser("arena", help="let bots and policies play a game against each other, and rate them")
    playing.add_argument("game", help="a game of several players, such as TicTacToeDuel")
    playing.add_argument(
        "player", nargs="+", help="a bot, such as expert or mcts:50, or model:FOLDER, of a run or of a model"
    )
    playing.add_argument("--matches", type=int, default=100, help="of each pair")
    playing.add_argument(
        "--swiss", type=int, metavar="ROUNDS", help="rounds between players of like score, instead of all pairs"
    )
    playing.add_argument("--seed", type=int, default=0, help="decides the matches")
    playing.add_argument("--settings", metavar="JSON", help='of the game, as {"size": 7}')
    playing.add_argument("--out", type=Path, help="JSONL file of the matches; goes on with one that is there")
    playing.add_argument(
        "--max-new-tokens", type=int, help=f"tokens a policy's move may take; those of a run, else {MOVE_TOKENS}"
    )
    playing.add_argument(
        "--brief", action="store_true", help="without system prompt and rules; a run's policy plays as it was trained"
    )
    playing.add_argument(
        "--exploitability", action="store_true", help="also what a best response wins from each model, computed exactly"
    )
    playing.add_argument("--json", action="store_true", help="print one JSON object")
    playing.set_defaults(command=play)
