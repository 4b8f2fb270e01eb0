"""The games by their names, and games from a plain JSON spec."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rlvr.envs.core.hints import did_you_mean, require_known

if TYPE_CHECKING:
    from rlvr.envs.players.game import SeatGame

_AT: Final = "rlvr.envs.players"
OPENSPIEL: Final = "openspiel."  # before the name of a game of OpenSpiel
# Name: module and class, and the settings that make it this game. A module with a dot is a package's own.
GAMES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "KuhnPoker": ("poker:KuhnPoker", {}),
    "LeducPoker": ("poker:LeducPoker", {}),
    "NoLimitHoldem": ("holdem:NoLimitHoldem", {}),
    "LiarsDice": ("dice:LiarsDice", {}),
    "LiarsDiceTable": ("dice:LiarsDice", {"seats": 4}),
    "Backgammon": ("backgammon:Backgammon", {}),
    "Coup": ("coup:Coup", {}),
    "Stratego": ("stratego:Stratego", {}),
    "Pig": ("dice:Pig", {}),
    "PigTable": ("dice:Pig", {"seats": 4}),
    "TicTacToeDuel": ("line_games:TicTacToeDuel", {}),
    "CubicTicTacToe": ("line_games:CubicTicTacToe", {}),
    "WildTicTacToe": ("line_games:WildTicTacToe", {}),
    "UltimateTicTacToe": ("line_games:UltimateTicTacToe", {}),
    "ConnectFourDuel": ("line_games:ConnectFourDuel", {}),
    "NimDuel": ("counting_games:NimDuel", {}),
    "DotsAndBoxes": ("counting_games:DotsAndBoxes", {}),
    "Mancala": ("counting_games:Mancala", {}),
    "Othello": ("boards:Othello", {}),
    "Breakthrough": ("boards:Breakthrough", {}),
    "Checkers": ("checkers:Checkers", {}),
    "Chess": ("chess:Chess", {}),
    "Hex": ("boards:Hex", {}),
    "BattleshipDuel": ("ships:BattleshipDuel", {}),
    "Goofspiel": ("bids:Goofspiel", {}),
    "Blotto": ("bids:Blotto", {}),
    "PrisonersDilemma": ("matrix_games:MatrixGame", {"matrix": "prisoners_dilemma"}),
    "StagHunt": ("matrix_games:MatrixGame", {"matrix": "stag_hunt"}),
    "Chicken": ("matrix_games:MatrixGame", {"matrix": "chicken"}),
    "RockPaperScissors": ("matrix_games:MatrixGame", {"matrix": "rock_paper_scissors"}),
    "MatchingPennies": ("matrix_games:MatrixGame", {"matrix": "matching_pennies"}),
    "PriceNegotiation": ("deals:PriceNegotiation", {}),
    "ShareNegotiation": ("deals:ShareNegotiation", {}),
    "WordChain": ("chains:WordChain", {}),
    "Clues": ("clues:Clues", {}),
    "HanabiSmall": ("hanabi:HanabiSmall", {}),
    "GuideAndWalker": ("guide_and_walker:GuideAndWalker", {}),
    "Debate": ("debate:Debate", {}),
    "UserAndAgent": ("service:UserAndAgent", {}),
    "ProposerSolver": ("proposals:ProposerSolver", {}),
    "HiddenRoles": ("roles:HiddenRoles", {}),
    "Taboo": ("taboo:Taboo", {}),
    "TabooTeams": ("taboo:Taboo", {"pairs": 2, "sentences": 5}),
    "SealedAuction": ("auctions:SealedAuction", {}),
    "VickreyAuction": ("auctions:SealedAuction", {"second_price": True}),
}


def register_game(name: str, address: str, **settings: Any) -> None:
    """Add a game of your own, given as ``module:Class``, which is imported when the game is first made.

    Raises:
        ValueError: another game has the name, or the address is none of a module.
    """
    module, colon, kind = address.partition(":")
    if not (colon and kind.isidentifier() and "." in module):
        raise ValueError(f"a game's address is package.module:Class, not {address!r}")
    if GAMES.get(name, (address, settings)) != (address, settings):
        raise ValueError(f"there is a game {name!r} already: choose another name")
    GAMES[name] = (address, settings)


def _entry(name: str) -> tuple[str, dict[str, Any]]:
    """Module and class of a game, and its usual settings."""
    if isinstance(name, str) and name.startswith(OPENSPIEL):
        return "openspiel:OpenSpielGame", {"name": name.removeprefix(OPENSPIEL)}
    if name not in GAMES:
        raise ValueError(f"there is no game {name!r}{did_you_mean(str(name), GAMES)}")
    return GAMES[name]


def class_of(name: str) -> type[SeatGame[Any]]:
    """The class of a game.

    Raises:
        ValueError: there is no such game.
    """
    module, _, kind = _entry(name)[0].partition(":")
    module = module if "." in module else f"{_AT}.{module}"
    game_class: type[SeatGame[Any]] = getattr(importlib.import_module(module), kind)
    return game_class


def sentence_of(name: str) -> str:
    """What a game is, in a sentence."""
    settings = ", ".join(f"{key} {str(value).replace('_', ' ')}" for key, value in _entry(name)[1].items())
    text = (class_of(name).__doc__ or "").strip().partition("\n")[0]
    return f"{text} Here: {settings}." if settings else text


def make_game(name: str, **settings: Any) -> SeatGame[Any]:
    """The game of a name, with settings of its own in place of the usual ones.

    Raises:
        ValueError: there is no such game, or a setting is not allowed.
        TypeError: the game has no such setting.
    """
    game_class = class_of(name)
    require_known(f"the game {name}", settings, inspect.signature(game_class).parameters)
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return game_class(**{**_entry(name)[1], **plain})


def game_from_spec(spec: Mapping[str, Any]) -> SeatGame[Any]:
    """The game of a plain JSON object: ``{"game": name, "settings": {…}}``.

    Raises:
        ValueError: the object has another form.
    """
    if not isinstance(spec, Mapping) or set(spec) - {"game", "settings"} or not isinstance(spec.get("game"), str):
        raise ValueError(f'a spec is {{"game": name, "settings": {{…}}}}, not {spec!r:.200}')
    return make_game(spec["game"], **dict(spec.get("settings") or {}))
