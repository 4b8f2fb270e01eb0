"""Players that are programs: random, expert, a mixture of both, and two searches through the rules.

A bot sees the view of its seat and nothing else. The searches play on from the view, so they only take games of perfect
information.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from rlvr.envs.players.game import CHANCE, SeatGame


class Bot(Protocol):
    """Whoever chooses moves."""

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        """One legal move of a seat, from its view and a generator of its own."""


class RandomBot:
    """Any legal move, each as likely as the others."""

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        return rng.choice(game.legal(view, seat))


class ExpertBot:
    """The expert of the game, whose ``expert`` says how strong it is."""

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        return game.expert(view, seat, rng)


class MixedBot:
    """The expert, but a random move with probability ``noise`` for each step of the game's ``effort``."""

    def __init__(self, noise: float = 0.5) -> None:
        if not 0 <= noise <= 1:
            raise ValueError(f"noise must be from 0 to 1, not {noise}")
        self.noise = noise

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        if rng.random() < 1 - (1 - self.noise) ** game.effort(view, seat):
            return rng.choice(game.legal(view, seat))
        return game.expert(view, seat, rng)


class FirstBot:
    """The first legal move: a fixed script that is easy to exploit."""

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        return game.legal(view, seat)[0]


class HabitBot:
    """Keeps to one habit of the game, such as ``copy stag``; it makes no random choice."""

    def __init__(self, habit: str) -> None:
        self.habit = habit

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        return game.habitual(self.habit, view, seat)


class MinimaxBot:
    """Alpha-beta search of two-seat games of perfect information; positions below ``depth`` count as drawn.

    Raises:
        ValueError: a depth below 1, or a game that it cannot play.
    """

    def __init__(self, depth: int = 4) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self.depth = depth

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        """The best move to ``depth`` plies, chance weighed in, ties broken at random; ValueError for other games."""
        _check_searchable(game, "minimax")
        if game.seats != 2 or not game.zero_sum:
            raise ValueError(f"minimax plays zero-sum games of two seats, and {game.name} is none")
        legal = list(game.legal(view, seat))
        rng.shuffle(legal)
        best, chosen = -math.inf, legal[0]
        for move in legal:
            value = self._value(game, game.apply(view, seat, move), seat, self.depth - 1, best, math.inf)
            if value > best:
                best, chosen = value, move
        return chosen

    def _value(self, game: SeatGame[Any], state: Any, seat: int, depth: int, alpha: float, beta: float) -> float:
        actors = game.actors(state)
        if not actors:
            return game.returns(state)[seat]
        if actors[0] == CHANCE:
            return sum(
                share * self._value(game, game.apply(state, CHANCE, move), seat, depth, -math.inf, math.inf)
                for move, share in game.chance(state)
            )
        if depth == 0:
            return 0.0
        (mover,) = actors
        sign = 1 if mover == seat else -1
        best = -math.inf
        for move in game.legal(state, mover):
            bounds = (alpha, beta)
            best = max(best, sign * self._value(game, game.apply(state, mover, move), seat, depth - 1, *bounds))
            if sign > 0:
                alpha = max(alpha, best)
            else:
                beta = min(beta, -best)
            if alpha >= beta:
                break
        return sign * best


class TreeSearchBot:
    """Monte-Carlo tree search (UCT, Kocsis and Szepesvari 2006) with random playouts.

    Args:
        playouts: for each move.
        exploration: the weight of the confidence term.

    Raises:
        ValueError: fewer than one playout, or a game that it cannot play.
    """

    def __init__(self, playouts: int = 100, exploration: float = 1.4) -> None:
        if playouts < 1:
            raise ValueError(f"playouts must be at least 1, not {playouts}")
        self.playouts, self.exploration = playouts, exploration

    def choose(self, game: SeatGame[Any], view: Any, seat: int, rng: random.Random) -> str:
        """The move tried most often; each playout averages what ``outcome`` gives its mover."""
        _check_searchable(game, "mcts")
        root: dict[str, _Edge] = {move: _Edge() for move in game.legal(view, seat)}
        for _ in range(self.playouts):
            self._playout(game, view, root, seat, rng)
        return max(root, key=lambda move: (root[move].visits, root[move].total))

    def _playout(
        self, game: SeatGame[Any], state: Any, edges: dict[str, _Edge], mover: int, rng: random.Random
    ) -> None:
        path: list[tuple[_Edge, int]] = []
        while True:
            visits = sum(edge.visits for edge in edges.values()) + 1
            move = max(edges, key=lambda name: edges[name].bound(visits, self.exploration, rng))
            edge = edges[move]
            path.append((edge, mover))
            state = _after_chance(game, game.apply(state, mover, move), rng)
            actors = game.actors(state)
            if not actors:
                break
            (mover,) = actors
            if not edge.visits:
                break
            edges = edge.children.setdefault(repr(state), {name: _Edge() for name in game.legal(state, mover)})
        returns = playout(game, state, rng)
        for edge, actor in path:
            edge.visits += 1
            edge.total += game.outcome(returns, actor)


class _Edge:
    """A move of the tree: how often it was tried, and what it brought the seat that made it."""

    __slots__ = ("children", "total", "visits")

    def __init__(self) -> None:
        self.visits, self.total = 0, 0.0
        self.children: dict[str, dict[str, _Edge]] = {}

    def bound(self, visits: int, exploration: float, rng: random.Random) -> float:
        if not self.visits:
            return 1e6 + rng.random()
        return self.total / self.visits + exploration * math.sqrt(math.log(visits) / self.visits)


def _after_chance(game: SeatGame[Any], state: Any, rng: random.Random) -> Any:
    while game.actors(state) == (CHANCE,):
        outcomes = game.chance(state)
        (move,) = rng.choices([move for move, _ in outcomes], [share for _, share in outcomes])
        state = game.apply(state, CHANCE, move)
    return state


def playout(game: SeatGame[Any], state: Any, rng: random.Random) -> tuple[float, ...]:
    """The returns of a game that all seats play on at random."""
    while True:
        state = _after_chance(game, state, rng)
        actors = game.actors(state)
        if not actors:
            return game.returns(state)
        if len(actors) == 1:
            state = game.apply(state, actors[0], rng.choice(game.legal(state, actors[0])))
        else:
            state = game.apply_all(state, {seat: rng.choice(game.legal(state, seat)) for seat in actors})


def _check_searchable(game: SeatGame[Any], name: str) -> None:
    if not game.lists_all:
        raise ValueError(f"{name} follows every move, and {game.name} has too many to list: use expert")
    if not game.perfect_information:
        raise ValueError(f"{name} plays games of perfect information, and {game.name} hides something: use expert")
    if not game.in_turn:
        raise ValueError(f"{name} plays games in which one seat moves at a time, and in {game.name} several do")


BOTS: Final[dict[str, Callable[..., Bot]]] = {
    "random": RandomBot,
    "expert": ExpertBot,
    "mixed": MixedBot,
    "first": FirstBot,
    "minimax": lambda depth=4: MinimaxBot(int(depth)),
    "mcts": lambda playouts=100: TreeSearchBot(int(playouts)),
}


@lru_cache(maxsize=64)
def make_bot(name: str) -> Bot:
    """The bot of a name such as ``random``, ``expert``, ``mixed:0.2``, ``minimax:3`` or ``mcts:200``.

    Raises:
        ValueError: there is none of that name, or its number is not allowed.
    """
    kind, _, number = name.partition(":")
    if kind == "habit":
        return HabitBot(number)
    if kind not in BOTS:
        raise ValueError(f"there is no bot {name!r}; there are {', '.join(BOTS)}")
    if not number:
        return BOTS[kind]()
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"{number!r} in the bot {name!r} is no number") from None
    if kind not in ("mixed", "minimax", "mcts"):
        raise ValueError(f"the bot {kind} takes no number, and got {number}")
    return BOTS[kind](value)


def bot_odds(name: str, game: SeatGame[Any], view: Any, seat: int) -> dict[str, float]:
    """The probability of each legal move of a bot whose moves can be foretold: random, first, expert or mixed.

    Raises:
        ValueError: the bot searches.
        NotImplementedError: the odds of the game's expert are not known.
    """
    bot, legal = make_bot(name), game.legal(view, seat)
    if isinstance(bot, FirstBot):
        return {move: float(move == legal[0]) for move in legal}
    if isinstance(bot, RandomBot):
        noise = 1.0
    elif isinstance(bot, ExpertBot | MixedBot):
        noise = 1 - (1 - bot.noise) ** game.effort(view, seat) if isinstance(bot, MixedBot) else 0.0
    else:
        raise ValueError(f"the bot {name} searches: the odds of its moves are not computed")
    odds = game.expert_odds(view, seat) if noise < 1 else {}
    return {move: (1 - noise) * odds.get(move, 0.0) + noise / len(legal) for move in legal}


def can_be_foretold(name: str) -> bool:
    """Whether ``bot_odds`` knows the moves of a bot."""
    return isinstance(make_bot(name), FirstBot | RandomBot | ExpertBot | MixedBot)


def bot_for(game: SeatGame[Any], name: str) -> Bot:
    """The bot of a name, to play a game.

    Raises:
        ValueError: there is none of that name, its number is not allowed, or it cannot play the game.
    """
    bot, playable = make_bot(name), known_bots(game)
    if isinstance(bot, HabitBot):
        names = sorted({habit for level in (1, 2, 3) for habit in game.habits(level)})
        if bot.habit in names:
            return bot
        raise ValueError(f"{game.name} has no habit {bot.habit!r}; it has {', '.join(names) or 'none'}")
    if name.partition(":")[0] not in playable:
        raise ValueError(f"the bot {name} cannot play {game.name}, but {', '.join(playable)} can")
    return bot


def known_bots(game: SeatGame[Any]) -> Sequence[str]:
    """The bots that can play a game."""
    names = ["random", "first", *(["expert", "mixed"] if game.has_expert else [])]
    if game.perfect_information and game.in_turn and game.lists_all:
        names.append("mcts")
        if game.seats == 2 and game.zero_sum:
            names.append("minimax")
    return names
