"""Games of OpenSpiel as games of several seats: ``openspiel.kuhn_poker`` and so on, where the package is installed.

    make_game("openspiel.goofspiel", parameters={"num_cards": 4})

A state is the list of actions that led to it, so that it can be kept, compared and pickled; OpenSpiel's own state is
made of it. Where something is hidden, a seat reads OpenSpiel's information state and observation of that seat alone.
"""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame
from rlvr.envs.players.openspiel_names import FAULTY

MISSING: Final = "OpenSpiel is not installed: pip install open_spiel"
SIMULATIONS: Final = 60  # of the expert's tree search, for each move
_BETWEEN: Final = re.compile(r"[^a-z0-9+*/.-]+")
_SOURCE: Final = re.compile(r"^\S+\.(?:cc|h):\d+:?\s*")  # where OpenSpiel was built
History = tuple[int | tuple[int, ...], ...]


def require_openspiel() -> Any:
    """The module ``pyspiel``.

    Raises:
        ImportError: it is missing.
    """
    try:
        return importlib.import_module("pyspiel")
    except ImportError:
        raise ImportError(MISSING) from None


class OpenSpielState(NamedTuple):
    """The actions so far; those of seats that move at once stand together."""

    history: History = ()


class OpenSpielView(NamedTuple):
    """What a seat knows: its text and its legal moves."""

    text: str
    moves: tuple[str, ...]


class OpenSpielGame(SeatGame[Any]):
    """A game of OpenSpiel.

    Args:
        name: as OpenSpiel registers it.
        parameters: of the game, as OpenSpiel takes them.

    Raises:
        ImportError: OpenSpiel is missing.
        ValueError: there is no such game, or its kind cannot be carried: one seat, a mean field, chance that no seed
            decides, no text for each seat, or returns without bounds.
    """

    nouns = ()
    first_state = OpenSpielState()

    def __init__(self, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        pyspiel = require_openspiel()
        self.spec = _spec(name, {} if parameters is None else parameters)
        game, kind = load(self.spec), load(self.spec).get_type()
        if reason := refusal(pyspiel, name, game, kind):
            raise ValueError(f"OpenSpiel's {name} cannot be played here: {reason}")
        self.title = kind.long_name
        self.seats = game.num_players()
        self.lowest, self.highest = game.min_utility(), game.max_utility()
        self.zero_sum = kind.utility == pyspiel.GameType.Utility.ZERO_SUM
        self.identical = kind.utility == pyspiel.GameType.Utility.IDENTICAL
        self.perfect_information = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        self.in_turn = kind.dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL
        self.has_expert = self.perfect_information and self.in_turn
        self.teams = (0,) * self.seats if self.identical else tuple(range(self.seats))
        self.decisions = int(game.max_game_length())

    @property
    def name(self) -> str:
        """OpenSpiel's name of the game with its parameters."""
        return f"openspiel {self.spec}"

    def rules(self) -> str:
        won = (
            "All seats have the same return."
            if self.identical
            else "The higher return wins."
            if self.zero_sum and self.seats == 2
            else "Each seat wants a high return of its own."
        )
        return (
            f"{self.title}, the game {self.spec} of OpenSpiel, for {self.seats} seats. "
            f"Seat 0 is OpenSpiel's player 0. A move is written as in the list of legal moves. Returns are from "
            f"{self.lowest:g} to {self.highest:g}. {won}"
        )

    def actors(self, state: OpenSpielState) -> tuple[int, ...]:
        """Chance, a player, or all that can act where players act at once."""
        now = state_of(self.spec, state.history)
        if now.is_terminal():
            return ()
        if now.is_chance_node():
            return (CHANCE,)
        if now.is_simultaneous_node():
            return tuple(seat for seat in range(self.seats) if now.legal_actions(seat))
        return (now.current_player(),)

    def chance(self, state: OpenSpielState) -> list[tuple[str, float]]:
        """OpenSpiel's numbers of the outcomes, and the probability of each."""
        return [(str(action), odds) for action, odds in state_of(self.spec, state.history).chance_outcomes()]

    def legal(self, state: Any, seat: int) -> Sequence[str]:
        """OpenSpiel's words for the actions, in small letters; numbers where words are not one action's alone."""
        return state.moves if isinstance(state, OpenSpielView) else tuple(_words(self.spec, state.history, seat))

    def apply(self, state: OpenSpielState, seat: int, move: str) -> OpenSpielState:
        action = int(move) if seat == CHANCE else _words(self.spec, state.history, seat)[move]
        return OpenSpielState((*state.history, action))

    def apply_all(self, state: OpenSpielState, moves: Mapping[int, str]) -> OpenSpielState:
        """Seats without a choice do nothing."""
        if not state_of(self.spec, state.history).is_simultaneous_node():
            ((seat, move),) = moves.items()
            return self.apply(state, seat, move)
        actions = (
            _words(self.spec, state.history, seat)[moves[seat]] if seat in moves else 0 for seat in range(self.seats)
        )
        return OpenSpielState((*state.history, tuple(actions)))

    def returns(self, state: OpenSpielState) -> tuple[float, ...]:
        return tuple(state_of(self.spec, state.history).returns())

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        """1, 0.5 or 0 in a zero-sum game of two seats; else where the return lies between its bounds."""
        return super().outcome(returns, seat) if self.zero_sum and self.seats == 2 else self.payoff(returns, seat)

    def view(self, state: OpenSpielState, seat: int) -> Any:
        """The state where nothing is hidden; else the texts of the seat and its moves, and nothing of the state."""
        if self.perfect_information:
            return state
        now = state_of(self.spec, state.history)
        moves = tuple(_words(self.spec, state.history, seat)) if seat in self.actors(state) else ()
        return OpenSpielView(_seat_text(now, seat), moves)

    def show(self, view: Any, seat: int) -> str:
        """OpenSpiel's words of the state, or of what the seat knows of it."""
        if isinstance(view, OpenSpielView):
            return view.text
        now = state_of(self.spec, view.history)
        return str(now).strip() or _seat_text(now, seat)

    def witnesses(self, state: OpenSpielState, actor: int) -> Sequence[int]:
        """All seats where nothing is hidden; else the seat itself, and what others learn stands in their texts."""
        return range(self.seats) if self.perfect_information else (actor,) if actor != CHANCE else ()

    def parse(self, view: Any, seat: int, words: str) -> str:
        """Signs and blanks between the words of a move may differ, as long as it names one move."""
        moves = self.legal(view, seat)
        if words in moves:
            return words
        fitting = [move for move in moves if _plain(move) == _plain(words)]
        return fitting[0] if len(fitting) == 1 else words

    def expert(self, view: Any, seat: int, rng: random.Random) -> str:
        """OpenSpiel's own tree search with random playouts, in games where everything is seen."""
        if not self.has_expert:
            return super().expert(view, seat, rng)
        pyspiel, game = require_openspiel(), load(self.spec)
        seed = rng.getrandbits(31)
        bot = pyspiel.MCTSBot(game, pyspiel.RandomRolloutEvaluator(1, seed), 1.4, SIMULATIONS, 64, True, seed, False)
        action = bot.step(state_of(self.spec, view.history).clone())
        return next(move for move, number in _words(self.spec, view.history, seat).items() if number == action)


def refusal(pyspiel: Any, name: str, game: Any, kind: Any) -> str:
    """Why a game cannot be carried; empty where it can."""
    if name in FAULTY:
        return FAULTY[name]
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        return "its players are a mean field"
    if game.num_players() < 2:
        return "it has one seat"
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        return "it draws its chance itself, and no seed of ours decides it"
    if not (kind.provides_information_state_string or kind.provides_observation_string):
        return "it has no text for each seat"
    if not abs(game.min_utility()) + abs(game.max_utility()) < float("inf"):
        return "its returns have no bounds"
    return ""


def _spec(name: str, parameters: Mapping[str, Any]) -> str:
    """The game and its parameters as OpenSpiel writes them, ``goofspiel(num_cards=4)``."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_]{1,60}", name):
        raise ValueError(f"a game of OpenSpiel is named by small letters, digits and _, not {name!r:.80}")
    if not isinstance(parameters, Mapping):
        raise ValueError(f"parameters of OpenSpiel are names with values, not {parameters!r:.120}")
    for key, value in parameters.items():
        if (
            not isinstance(key, str)
            or not re.fullmatch(r"[A-Za-z0-9_]{1,60}", key)
            or not re.fullmatch(r"[\w .+-]{1,200}", str(value))
        ):
            raise ValueError(f"a parameter of OpenSpiel is a plain number or word, not {key!r:.60}: {value!r:.120}")
    return f"{name}({','.join(f'{key}={value}' for key, value in sorted(parameters.items()))})" if parameters else name


@lru_cache(maxsize=256)
def load(spec: str) -> Any:
    """OpenSpiel's game.

    Raises:
        ValueError: there is none, or it wants parameters that were not given.
    """
    pyspiel = require_openspiel()
    name = spec.partition("(")[0]
    if name not in pyspiel.registered_names():
        raise ValueError(f"OpenSpiel has no game {name!r}")
    try:
        return pyspiel.load_game(spec)
    except Exception as error:  # pyspiel raises several kinds, its own and those of its wrappers
        text = _SOURCE.sub("", (str(error).strip().splitlines() or [""])[0])
        raise ValueError(f"OpenSpiel cannot make {spec}: {text or type(error).__name__:.160}") from None


@lru_cache(maxsize=4096)
def state_of(spec: str, history: History) -> Any:
    """OpenSpiel's state after actions. It is shared, so nobody may change it."""
    if not history:
        return load(spec).new_initial_state()
    state = state_of(spec, history[:-1]).clone() if len(history) % 64 else _replayed(spec, history[:-1])
    _act(state, history[-1])
    return state


def _replayed(spec: str, history: History) -> Any:
    """The state after actions, without asking for each one before it: histories can be longer than Python's stack."""
    state = load(spec).new_initial_state()
    for action in history:
        _act(state, action)
    return state


def _act(state: Any, action: int | tuple[int, ...]) -> None:
    if isinstance(action, tuple):
        state.apply_actions(list(action))
    else:
        state.apply_action(action)


@lru_cache(maxsize=4096)
def _words(spec: str, history: History, seat: int) -> dict[str, int]:
    """OpenSpiel's number of each legal move."""
    state = state_of(spec, history)
    written = [(_written(state.action_to_string(seat, each)), each) for each in state.legal_actions(seat)]
    counts: dict[str, int] = {}
    for text, _ in written:
        counts[text] = counts.get(text, 0) + 1
    return {text if counts[text] == 1 and _readable(text) else f"action {action}": action for text, action in written}


def _written(text: str) -> str:
    """OpenSpiel's words for an action in small letters, without signs that no text of a move may have."""
    text = text.lower().replace("=>", " to ").replace("->", " to ").replace("\u2192", " to ").replace("\u00d7", "x")
    text = text.replace(" and ", " + ")  # two moves in one answer are no move
    return " ".join(text.replace("<", " ").replace(">", " ").split())


def _readable(text: str) -> bool:
    """Whether a move can be written as it stands."""
    return bool(text) and len(text) <= 90 and text.isascii() and not set(text) & set("\\{}") and bool(_plain(text))


def _plain(text: str) -> str:
    return _BETWEEN.sub(" ", text.lower()).strip()


def _seat_text(state: Any, seat: int) -> str:
    """OpenSpiel's information state and observation of one seat, as far as the game has them."""
    kind = state.get_game().get_type()
    texts = []
    if kind.provides_information_state_string:
        texts.append(f"Information state: {state.information_state_string(seat).strip()}")
    if kind.provides_observation_string:
        texts.append(f"Observation: {state.observation_string(seat).strip()}")
    return "\n".join(texts)
