"""Rounds: a game played several times in one match, with new chance in each; the returns add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlvr.envs.players.game import SeatGame


class RoundsState(NamedTuple):
    """``inner`` is the state of the present round; ``past`` are the last states of those before it.

    ``sums`` are the returns of the rounds before.
    """

    inner: Any
    sums: tuple[float, ...]
    past: tuple[Any, ...] = ()


class Rounds(SeatGame[RoundsState]):
    """A game played for several rounds, each from its start, with the same seats.

    Args:
        game: the rules of a round.
        rounds: how many.

    Raises:
        ValueError: fewer than two rounds, or more than 100.
    """

    def __init__(self, game: SeatGame[Any], rounds: int) -> None:
        if not 2 <= rounds <= 100:
            raise ValueError(f"rounds must be 2 to 100, not {rounds}")
        self.game, self.rounds = game, rounds
        self.title, self.seats = game.title, game.seats
        self.lowest, self.highest = rounds * game.lowest, rounds * game.highest
        self.zero_sum, self.spared, self.stake = game.zero_sum, rounds * game.spared, game.stake
        self.reward, self.swing = game.reward, game.swing
        self.level_bots = game.level_bots  # type: ignore[misc]
        self.perfect_information, self.in_turn = game.perfect_information, game.in_turn
        self.has_expert, self.lists_all, self.version = game.has_expert, game.lists_all, game.version
        self.nouns = game.nouns  # type: ignore[misc]

    @property
    def name(self) -> str:
        return self.game.name

    @property
    def teams(self) -> tuple[int, ...]:
        return self.game.teams

    @property
    def decisions(self) -> int:
        return self.rounds * self.game.decisions

    def rules(self) -> str:
        """The rules of a round, and that the returns of all rounds add up."""
        return f"{self.game.rules()}\nThis is played {self.rounds} times, and what a seat wins or loses adds up."

    def start(self) -> RoundsState:
        return RoundsState(self.game.start(), (0.0,) * self.seats)

    def actors(self, state: RoundsState) -> tuple[int, ...]:
        """Those of the present round, which is over only where it is the last one."""
        return self.game.actors(state.inner)

    def chance(self, state: RoundsState) -> Sequence[tuple[str, float]]:
        return self.game.chance(state.inner)

    def legal(self, state: RoundsState, seat: int) -> Sequence[str]:
        return self.game.legal(state.inner, seat)

    def is_legal(self, state: RoundsState, seat: int, move: str) -> bool:
        return self.game.is_legal(state.inner, seat, move)

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
            f"{'you' if at == seat else f'seat {at}'} {total + 0.0:g}" for at, total in enumerate(view.sums)
        )
        number = len(view.past)
        before = f"Round {number} ended. {self.game.show(view.past[-1], seat)}\n" if number else ""
        now = self.game.show(view.inner, seat)
        return f"{before}Round {number + 1} of {self.rounds}. Sums so far: {sums}. {now}"

    def witnesses(self, state: RoundsState, actor: int) -> Sequence[int]:
        return self.game.witnesses(state.inner, actor)

    def spelled(self, text: str) -> str:
        return self.game.spelled(text)

    def parse(self, view: RoundsState, seat: int, words: str) -> str:
        return self.game.parse(view.inner, seat, words)

    def foul(self, view: RoundsState, seat: int, text: str) -> str:
        return self.game.foul(view.inner, seat, text)

    def expert(self, view: RoundsState, seat: int, rng: Any) -> str:
        """That of a round; what other seats did in earlier rounds does not count."""
        return self.game.expert(view.inner, seat, rng)

    def expert_odds(self, view: RoundsState, seat: int) -> Mapping[str, float]:
        return self.game.expert_odds(view.inner, seat)

    def move_values(self, view: RoundsState, seat: int, opponents: tuple[str, ...]) -> Mapping[str, float] | None:
        """Those of the present round: the rounds do not depend on each other."""
        return self.game.move_values(view.inner, seat, opponents)

    def habits(self, level: int) -> Sequence[str]:
        return self.game.habits(level)

    def habitual(self, habit: str, view: RoundsState, seat: int, past: Sequence[Any] = ()) -> str:
        return self.game.habitual(habit, view.inner, seat, view.past)

    def answer_to_habits(self, view: RoundsState, seat: int, rng: Any, past: Sequence[Any] = ()) -> str:
        return self.game.answer_to_habits(view.inner, seat, rng, view.past)

    def effort(self, view: RoundsState, seat: int) -> int:
        return self.game.effort(view.inner, seat)

    def relies_on(self, seat: int) -> Sequence[int]:
        return self.game.relies_on(seat)

    def teams_in(self, state: RoundsState) -> tuple[int, ...]:
        return self.game.teams_in(state.inner)
