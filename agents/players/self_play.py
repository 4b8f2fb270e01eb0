"""Self-play: a rollout in which language models play the other seats of a game: the agent itself, and frozen ones.

Every request is one match, and its episode is that of the request's own seat: the members of a group have the same deal
and the same seat, so that a group's mean is a baseline of its role. The other seats' tokens stand in conversations of
their own and are never trained on; the trained seat reads their moves as part of its observations, without loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from rlvr.agents.conversation import Agent, Conversation, Reply
from rlvr.agents.driver.active_episode import ActiveEpisode, new_episode
from rlvr.agents.driver.env_calls import NO_CALL
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.envs import TextEnv
from rlvr.envs.core.verdict import env_error
from rlvr.envs.players.single import POOL, SELF, SeatEpisode, game_task, is_language_model


class Opponents(Protocol):
    """Who plays the seats of language models other than ``self``."""

    def choose(self, opponent: str, request: RolloutRequest, player: int) -> str:
        """The name of who plays the seat ``player`` in a match: ``self``, or one that ``agent`` knows.

        Raises:
            ValueError: nobody plays such an opponent.
        """
        ...

    def agent(self, name: str) -> Agent:
        """Who plays under a name that ``choose`` gave."""
        ...


class SelfAlone:
    """`Opponents` where there is none beside ``self``."""

    def choose(self, opponent: str, request: RolloutRequest, player: int) -> str:
        """``self``."""
        if opponent != SELF:
            raise ValueError(f"nobody plays the opponent {opponent!r} here")
        return SELF

    def agent(self, name: str) -> Agent:
        """There is none."""
        raise ValueError(f"nobody plays the opponent {name!r} here")


def plays_models(settings: dict[str, Any]) -> bool:
    """Whether an environment's settings name a language model among the opponents, such as ``self``."""
    return any(map(is_language_model, settings.get("opponents") or ()))


def without_self(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with opponents that stay the same alone: those beside ``self`` and ``pool``, else the level's."""
    return _without(settings, lambda name: name in (SELF, POOL))


def without_models(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with bots alone as opponents, else those of the level."""
    return _without(settings, is_language_model)


def _without(settings: dict[str, Any], drops: Callable[[str], bool]) -> dict[str, Any]:
    names = settings.get("opponents") or ()
    left = [name for name in names if not drops(name)]
    return settings if len(left) == len(names) else {**settings, "opponents": left or None}


@dataclass(slots=True)
class _SeatMatch:
    """A match under way: the record of its own seat, who plays the others, and their conversations."""

    active: ActiveEpisode
    state: SeatEpisode
    first: tuple[Any, dict[str, Any]]
    names: dict[int, str]  # of the seats of language models
    others: dict[int, Conversation] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)  # events that each of the other seats has read

    @property
    def episode(self) -> Episode:
        return self.active.episode


class SelfPlayRollout(Rollout):
    """A `Rollout` of a game of several seats whose opponents may be language models.

    The agent is asked for its own seats and those of ``self`` at once, and each other model for all of its seats. The
    names of who was drawn from ``opponents`` are in `Episode.training`, by seat.

    Args:
        opponents: plays the seats of models other than ``self``.
        settings: of `Rollout`.

    Raises:
        TypeError: the environment is no game of several seats.
    """

    def __init__(self, env: str, agent: Agent, *, opponents: Opponents | None = None, **settings: Any) -> None:
        super().__init__(env, agent, **settings)
        self.opponents = opponents or SelfAlone()
        base = self.env.unwrapped
        task = game_task(base)
        if not isinstance(base, TextEnv) or task is None:
            raise TypeError(f"{self.env_id} is no game of several seats: its opponents cannot be 'self' or a model")
        self.task = task
        self.task.self_play = True
        self.base = base

    def stream(
        self, requests: Iterable[RolloutRequest | Episode | Future[None]], *, each_reply: bool = False
    ) -> Iterator[tuple[int, Episode]]:
        """Each episode as its match ends, with the index of its request; ``each_reply`` changes nothing here.

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
            asked = {index: self._conversation(match) for index, match in live.items()}
            replies = self._replies(live, asked)
            for index, conversation in asked.items():
                if self._played(live[index], conversation, replies[index]):
                    yield index, live.pop(index).episode

    def _replies(self, live: dict[int, _SeatMatch], asked: dict[int, Conversation]) -> dict[int, Reply]:
        """The reply to each conversation: one batch for each model."""
        by_name: dict[str, list[int]] = defaultdict(list)
        for index, match in live.items():
            seat = self.task.waits_for(match.state)
            by_name[SELF if seat is None else match.names[seat]].append(index)
        replies: dict[int, Reply] = {}
        for name, indices in sorted(by_name.items()):
            agent = self.agent if name == SELF else self.opponents.agent(name)
            replies.update(zip(indices, agent.act([asked[index] for index in indices]), strict=True))
        return replies

    def _begin(self, request: RolloutRequest) -> _SeatMatch:
        env = self.base.spawn()
        episode = new_episode(self.env_id, request, self.env_digest)
        first = env.reset(seed=request.seed, options=request.options() or None)
        state = env.get_state().state
        episode.training["role"] = f"seat {state.seat}"
        names = {
            seat: self.opponents.choose(name, request, seat)
            for seat, name in enumerate(state.opponents)
            if is_language_model(name)
        }
        drawn = {str(seat): name for seat, name in names.items() if name != SELF}
        if drawn:
            episode.training["opponents"] = drawn
        active = ActiveEpisode(None, episode, Conversation(episode.key, []), self.use_system)
        return _SeatMatch(active, state, first, names)

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
