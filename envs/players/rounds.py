"""Rounds: a game played several times in one match, with new chance in each; the returns add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rlvr.envs.players.game import SeatGame, check_range

# What is the same in several rounds as in one.
_SHARED: Final = (
    *("title", "seats", "teams", "zero_sum", "perfect_information", "in_turn", "has_expert", "lists_all", "version"),
    *("nouns", "level_bots", "reward", "stake", "swing", "habits", "spelled", "relies_on"),
)


class RoundsState(NamedTuple):
    """``inner`` is the state of the present round; ``past`` are the last states of those before it.

    ``sums`` are the returns of the rounds before.
    """

    inner: Any
    sums: tuple[float, ...]
    past: tuple[Any, ...] = ()


def _of_round(name: str) -> Any:
    """A method of the game, asked about the present round."""

    def method(self: Rounds, state: RoundsState, *arguments: Any) -> Any:
        return getattr(self.game, name)(state.inner, *arguments)

    return method


class Rounds(SeatGame[RoundsState]):
    """A game played for several rounds, each from its start, with the same seats.

    Args:
        game: the rules of a round.
        rounds: how many.

    Raises:
        ValueError: fewer than two rounds, or more than 100.
    """

    def __init__(self, game: SeatGame[Any], rounds: int) -> None:
        check_range("rounds", rounds, 2, 100)
        self.game, self.rounds = game, rounds
        for name in _SHARED:
            setattr(self, name, getattr(game, name))
        self.decisions, self.spared = rounds * game.decisions, rounds * game.spared
        self.lowest, self.highest = rounds * game.lowest, rounds * game.highest

    actors = _of_round("actors")  # the present round is over only where it is the last one
    chance = _of_round("chance")
    legal = _of_round("legal")
    is_legal = _of_round("is_legal")
    witnesses = _of_round("witnesses")
    parse = _of_round("parse")
    foul = _of_round("foul")
    expert = _of_round("expert")
    expert_odds = _of_round("expert_odds")
    move_values = _of_round("move_values")
    effort = _of_round("effort")
    teams_in = _of_round("teams_in")

    @property
    def name(self) -> str:
        return self.game.name

    def rules(self) -> str:
        return f"{self.game.rules()}\nThis is played {self.rounds} times, and what a seat wins or loses adds up."

    def start(self) -> RoundsState:
        return RoundsState(self.game.start(), (0.0,) * self.seats)

    def apply(self, state: RoundsState, seat: int, move: str) -> RoundsState:
        return self._continued(state, self.game.apply(state.inner, seat, move))

    def apply_all(self, state: RoundsState, moves: Mapping[int, str]) -> RoundsState:
        return self._continued(state, self.game.apply_all(state.inner, moves))

    def _continued(self, state: RoundsState, inner: Any) -> RoundsState:
        """The state after a move; a round that is over is followed by the next."""
        if self.game.actors(inner) or len(state.past) + 1 == self.rounds:
            return state._replace(inner=inner)
        sums = tuple(map(sum, zip(state.sums, self.game.returns(inner), strict=True)))
        return RoundsState(self.game.start(), sums, (*state.past, inner))

    def returns(self, state: RoundsState) -> tuple[float, ...]:
        """The sums over all rounds."""
        return tuple(map(sum, zip(state.sums, self.game.returns(state.inner), strict=True)))

    def payoff(self, returns: Sequence[float], seat: int) -> float:
        """Where the own sum lies between the bounds, or between a loss and a gain of ``swing`` a round, 0 to 1."""
        if self.swing is None:
            return super().payoff(returns, seat)
        return max(0.0, min(1.0, 0.5 + returns[seat] / (2 * self.rounds * self.swing)))

    def view(self, state: RoundsState, seat: int) -> RoundsState:
        """That of the present round, and of the end of each before."""
        past = tuple(self.game.view(each, seat) for each in state.past)
        return RoundsState(self.game.view(state.inner, seat), state.sums, past)

    def show(self, view: RoundsState, seat: int) -> str:
        """How the last round ended, the sums, and the present round."""
        sums = ", ".join(
            f"{'you' if other == seat else f'seat {other}'} {total + 0.0:g}" for other, total in enumerate(view.sums)
        )
        number = len(view.past)
        before = f"Round {number} ended. {self.game.show(view.past[-1], seat)}\n" if number else ""
        now = self.game.show(view.inner, seat)
        return f"{before}Round {number + 1} of {self.rounds}. Sums so far: {sums}. {now}"

    def habitual(self, habit: str, view: RoundsState, seat: int, past: Sequence[Any] = ()) -> str:
        return self.game.habitual(habit, view.inner, seat, view.past)

    def answer_to_habits(self, view: RoundsState, seat: int, rng: Any, past: Sequence[Any] = ()) -> str:
        return self.game.answer_to_habits(view.inner, seat, rng, view.past)
