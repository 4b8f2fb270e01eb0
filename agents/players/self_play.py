"""Self-play: a rollout in which the agent also plays the seats of ``self`` among the opponents of a game.

Every request is one match, and its episode is that of the request's own seat: the members of a group have the same deal
and the same seat, so that a group's mean is a baseline of its role. The other seats' tokens stand in conversations of
their own and are never trained on; the trained seat reads their moves as part of its observations, without loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rlvr.agents.conversation import Agent, Conversation, Reply
from rlvr.agents.driver.active_episode import ActiveEpisode, new_episode
from rlvr.agents.driver.env_calls import NO_CALL
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.envs import TextEnv
from rlvr.envs.core.verdict import env_error
from rlvr.envs.players.single import SELF, AsSingleAgent, SeatEpisode


def plays_itself(settings: dict[str, Any]) -> bool:
    """Whether an environment's settings name ``self`` among the opponents."""
    return SELF in (settings.get("opponents") or ())


def without_self(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with fixed opponents alone: those beside ``self``, else those of the level."""
    if not plays_itself(settings):
        return settings
    fixed = [name for name in settings["opponents"] if name != SELF]
    return {**settings, "opponents": fixed or None}


@dataclass(slots=True)
class _SeatMatch:
    """A match under way: the record of its own seat, and the conversations of the seats of ``self``."""

    active: ActiveEpisode
    state: SeatEpisode
    first: tuple[Any, dict[str, Any]]
    others: dict[int, Conversation] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)  # events that each of the other seats has read

    @property
    def episode(self) -> Episode:
        return self.active.episode


class SelfPlayRollout(Rollout):
    """A `Rollout` of a game of several seats whose opponents may be ``self``. The agent is asked for all seats at once.

    Raises:
        TypeError: the environment is no game of several seats.
    """

    def __init__(self, env: str, agent: Agent, **settings: Any) -> None:
        super().__init__(env, agent, **settings)
        base = self.env.unwrapped
        if not isinstance(base, TextEnv) or not isinstance(base.task, AsSingleAgent):
            raise TypeError(f"{self.env_id} is no game of several seats: its opponents cannot be 'self'")
        self.task = base.task
        self.task.self_play = True
        self.base = base

    def stream(self, requests: Iterable[RolloutRequest | Episode | Future[None]]) -> Iterator[tuple[int, Episode]]:
        """Each episode as its match ends, with the index of its request.

        Raises:
            ValueError: an episode that was paused: self-play has no partial rollouts; or requests that come later.
        """
        waiting = enumerate(requests)
        live: dict[int, _SeatMatch] = {}
        while True:
            for index, request in islice(waiting, self.batch_size - len(live)):
                if isinstance(request, Episode):
                    raise ValueError("self-play has no partial rollouts: leave sampling.segment out")
                if isinstance(request, Future):
                    raise ValueError("self-play is played in turn: use schedule: sync")
                live[index] = self._begin(request)
            if not live:
                return
            asked = [(index, self._conversation(match)) for index, match in live.items()]
            replies = self.agent.act([conversation for _, conversation in asked])
            for (index, conversation), reply in zip(asked, replies, strict=True):
                if self._played(live[index], conversation, reply):
                    yield index, live.pop(index).episode

    def _begin(self, request: RolloutRequest) -> _SeatMatch:
        env = self.base.spawn()
        episode = new_episode(self.env_id, request)
        first = env.reset(seed=request.seed, options=request.options() or None)
        state = env.get_state().state
        episode.training["role"] = f"seat {state.seat}"
        active = ActiveEpisode(None, episode, Conversation(episode.key, []), self.use_system)
        return _SeatMatch(active, state, first)

    def _conversation(self, match: _SeatMatch) -> Conversation:
        """The conversation of the seat that must move, up to its observation."""
        task, state = self.task, match.state
        seat = task.waits_for(state)
        if seat is None:
            if not match.active.conversation.messages:
                match.active.begin((task.observe(state._replace(turn=0)), match.first[1]))
            return match.active.conversation
        if seat not in match.others:
            system = [{"role": "system", "content": task.system}] if self.use_system and task.system else []
            match.others[seat] = Conversation(f"{match.episode.key}/seat {seat}", list(system))  # type: ignore[arg-type]
        conversation, read = match.others[seat], match.read.get(seat)
        referee = task.referee
        text = task.first_text(state.match, seat) if read is None else referee.observe(state.match, seat, read)
        conversation.messages.append({"role": "user", "content": text})
        match.read[seat] = len(state.match.log)
        return conversation

    def _played(self, match: _SeatMatch, conversation: Conversation, reply: Reply) -> bool:
        """Play a reply; whether the episode is over.

        Raises:
            ValueError: the agent pauses completions.
        """
        if reply.stop == "pause":
            raise ValueError("self-play has no partial rollouts: leave sampling.segment out")
        if conversation is match.active.conversation:
            return self._own(match, reply)
        if reply.stop not in ("stop", "length"):
            return match.active.fail("another seat", RuntimeError(reply.error or "its context is full"))
        conversation.append_reply(reply)
        seat = self.task.waits_for(match.state)
        try:
            match.state = self.task.moved_by(match.state, -1 if seat is None else seat, reply.text)
        except Exception as error:  # the rules or a bot failed, and not the policy
            return match.active.fail("the game", error)
        return self._observed(match)

    def _own(self, match: _SeatMatch, reply: Reply) -> bool:
        match.active.answer(reply)
        if reply.stop not in ("stop", "length"):
            return match.active.step(NO_CALL)
        state, verdict, over, _ = self.task.apply(match.state, reply.text)
        match.state = state
        if over:
            return match.active.step((verdict.reason, verdict.reward, True, False, {"verdict": verdict}))
        return self._observed(match)

    def _observed(self, match: _SeatMatch) -> bool:
        """Give the own seat what it reads next, once it must move or the match is over; whether it is over."""
        verdict = self.task.verdict(match.state)
        started = bool(match.active.conversation.messages)
        if verdict is not None:
            if not started:  # another seat forfeited before this one had moved
                match.episode.verdict = env_error("the match ended before this seat had moved", "self-play")
                return True
            return match.active.step((verdict.reason, verdict.reward, True, False, {"verdict": verdict}))
        if started and self.task.waits_for(match.state) is None:
            text = self.task.observe(match.state)
            return match.active.step((text, 0.0, False, False, {"role": "user"}))
        return False
