"""PettingZoo: games of several seats as AEC and Parallel environments, text in and text out.

    env = aec_env("KuhnPoker")
    env.reset(seed=0)
    for agent in env.agent_iter():
        text, reward, termination, truncation, info = env.last()
        env.step(None if termination or truncation else "\\\\boxed{check}")

``render_mode="ansi"`` gives what all seats read, one after the other; ``human`` prints it. See
docs/adapters/pettingzoo.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gymnasium import spaces

from rlvr.adapters.versions import require
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.terminal import printable
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import TRIES, Match, Referee, SeatTexts, verdict_of

try:
    from pettingzoo import AECEnv as _AEC
    from pettingzoo import ParallelEnv as _Parallel
except ImportError:  # the constructors say what is missing
    _AEC = _Parallel = object

TESTED: Final = ("pettingzoo", "1.27.0", "1.28")
MODES: Final = ("ansi", "human")


class SeatText(str):
    """A text that a seat reads. PettingZoo's ``api_test`` asks every observation for the dtype of its space."""

    dtype = Text().dtype
    __slots__ = ()


class _Table:
    """A match with PettingZoo's names for its seats: ``seat_0``, ``seat_1`` and so on.

    Args:
        game: a name of the catalogue.
        game_settings: of the game.
        tries: illegal moves that forfeit the game.
        render_mode: ``ansi``, ``human`` or None.

    Raises:
        ImportError: PettingZoo is missing, or older than what was tested.
        ValueError: no such game, setting or render mode.
    """

    def _set_up(
        self,
        game: str,
        game_settings: Mapping[str, Any] | None = None,
        tries: int = TRIES,
        render_mode: str | None = None,
    ) -> None:
        require(*TESTED)
        if render_mode not in (None, *MODES):
            raise ValueError(f"render_mode is one of {', '.join(MODES)} or None, not {render_mode!r}")
        self.game = make_game(game, **dict(game_settings or {}))
        self.referee = Referee(self.game, tries)
        self.metadata = {"name": f"rlvr_{game}", "render_modes": list(MODES), "is_parallelizable": True}
        self.render_mode = render_mode
        self.possible_agents = [f"seat_{seat}" for seat in range(self.game.seats)]
        self.agents: list[str] = []
        self.seat_of = {name: seat for seat, name in enumerate(self.possible_agents)}
        self.observation_spaces = {name: Text() for name in self.possible_agents}
        self.action_spaces = {name: Text() for name in self.possible_agents}
        self.match: Match | None = None
        self._walk = (0, 0)  # the seed and how many matches of it were begun

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def _begin(self, seed: int | None) -> None:
        """A new match: that of the seed, or without one the next of the last seed."""
        number, count = self._walk
        self._walk = (number, count + 1) if seed is None else (int(seed), 1)
        self.match = self.referee.begin(f"{self._walk[0]} {self._walk[1]}")
        self.agents = list(self.possible_agents)
        self._texts = SeatTexts(self.referee)

    def _text(self, agent: str) -> str:
        return SeatText(self._texts.text(self._current(), self.seat_of[agent]))

    def _current(self) -> Match:
        if self.match is None:
            raise ValueError("no match is under way: call reset() first")
        return self.match

    def _act(self, agent: str, action: Any) -> None:
        before, seat = self._current(), self.seat_of[agent]
        self.match = self.referee.act(before, seat, action)
        self._texts.acted(before, self.match, seat)

    def _info(self, agent: str) -> dict[str, Any]:
        match, seat = self._current(), self.seat_of[agent]
        movers = self.referee.to_move(match)
        info: dict[str, Any] = {"seat": seat, "moves": list(self.referee.legal(match, seat)) if seat in movers else []}
        if not movers:
            info["verdict"] = self.verdict(agent)
        return info

    def verdict(self, agent: str) -> Verdict:
        """The verdict on a seat of a match that is over: its reward is the seat's return."""
        return verdict_of(self.referee, self._current(), self.seat_of[agent])

    def record(self) -> dict[str, Any]:
        """All seats' moves as plain JSON, which ``Referee.replay`` takes."""
        return self.referee.record(self._current())

    def get_state(self) -> tuple[Any, ...]:
        """All that can change; ``set_state`` restores it exactly."""
        return self._current(), self._walk, tuple(self.agents), dict(self._texts.read), dict(self._texts.notes)

    def render(self) -> str | None:
        """What every seat reads, one after the other; None where it is printed or there is no render mode."""
        if self.render_mode is None:
            return None
        match = self._current()
        parts = [f"[{name}]\n{self.referee.observe(match, seat)}" for name, seat in self.seat_of.items()]
        text = "\n".join(parts)
        if self.render_mode == "human":
            print(printable(text))
            return None
        return text

    def close(self) -> None:
        """Nothing runs behind a match."""


class PlayersAEC(_Table, _AEC):  # type: ignore[misc, unused-ignore]
    """A game in which ``agent_selection`` names who moves next. Seats that move at once are asked one after the other,
    and none sees what the others chose before all have.

    An action for a seat that does not move, or that is no text, raises; an illegal text counts against its seat.
    """

    def __init__(self, game: str, **settings: Any) -> None:
        super().__init__()
        self._set_up(game, **settings)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin the match of a seed, or the next one of the last seed."""
        self._begin(seed)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._select()

    def _select(self) -> None:
        movers = self.referee.to_move(self._current())
        if movers:
            self.agent_selection = self.possible_agents[movers[0]]
        self.infos = {agent: self._info(agent) for agent in self.agents}

    def observe(self, agent: str) -> str:
        """What a seat reads now."""
        return self._text(agent)

    def step(self, action: str | None) -> None:
        """Play the text of the seat that moves."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._act(agent, action)
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if not self.referee.to_move(self._current()):
            returns = self.referee.returns(self._current())
            for name in self.agents:
                self.rewards[name] = float(returns[self.seat_of[name]])
                self.terminations[name] = True
        self._select()
        self._accumulate_rewards()
        if all(self.terminations.values()):
            self.agent_selection = self.agents[0]

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Go on from what ``get_state`` gave, while the match was under way."""
        self.match, self._walk, agents, read, notes = state
        self.agents, self._texts.read, self._texts.notes = list(agents), dict(read), dict(notes)
        for table in (self.rewards, self._cumulative_rewards):
            table.update(dict.fromkeys(self.agents, 0.0))
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._select()


class PlayersParallel(_Table, _Parallel):  # type: ignore[misc, unused-ignore]
    """A game in which every live seat gives a text at each step; those of seats that do not move are not read."""

    def __init__(self, game: str, **settings: Any) -> None:
        self._set_up(game, **settings)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Begin a match: what each seat reads, and its info."""
        self._begin(seed)
        return {agent: self._text(agent) for agent in self.agents}, {agent: self._info(agent) for agent in self.agents}

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Play the texts of the seats that move.

        Raises:
            ValueError: a text for an unknown or dead seat, or none for one that moves.
        """
        movers = [self.possible_agents[seat] for seat in self.referee.to_move(self._current())]
        if unknown := set(actions) - set(self.agents):
            raise ValueError(f"{', '.join(sorted(map(str, unknown)))} cannot act: live seats are {self.agents}")
        if missing := set(movers) - set(actions):
            raise ValueError(f"{', '.join(sorted(missing))} must move, and gave no text")
        for agent in movers:
            if self.referee.to_move(self._current()):  # a forfeit ends the match before the others have moved
                self._act(agent, actions[agent])
        over = not self.referee.to_move(self._current())
        returns = self.referee.returns(self._current()) if over else (0.0,) * self.game.seats
        live = self.agents
        result = (
            {agent: self._text(agent) for agent in live},
            {agent: float(returns[self.seat_of[agent]]) for agent in live},
            dict.fromkeys(live, over),
            dict.fromkeys(live, False),
            {agent: self._info(agent) for agent in live},
        )
        if over:
            self.agents = []
        return result


aec_env, parallel_env = PlayersAEC, PlayersParallel  # PettingZoo's names for what makes an environment
