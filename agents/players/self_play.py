"""Self-play: a rollout in which language models play the other seats of a game: the agent itself, and frozen ones.

Every request is one match, and its episode is that of the request's own seat: the members of a group have the same deal
and the same seat, so that a group's mean is a baseline of its role. The other seats' tokens stand in conversations of
their own and are never trained on; the trained seat reads their moves as part of its observations, without loss.

Where another seat has no reply, a control decides whose doing that is (`rlvr.agents.players.seat_controls`).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from rlvr.agents.conversation import Agent, Conversation, Message, Reply
from rlvr.agents.driver.env_calls import NO_CALL
from rlvr.agents.driver.episode_loop import ActiveEpisode, new_episode
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.players.seat_controls import control_match, moved, observed
from rlvr.agents.rollout import Rollout
from rlvr.envs import TextEnv
from rlvr.envs.core.verdict import Provoked, answers_beside_controls, env_error, goes_through
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
    if len(left) == len(names):
        return settings
    rounds = settings.get("rounds") or 1  # as many as with the model, though bots alone would play more
    return {**settings, "opponents": left or None, "rounds": rounds}


@dataclass(slots=True)
class _SeatMatch:
    """A match under way: the record of its own seat, who plays the others, and their conversations."""

    active: ActiveEpisode
    state: SeatEpisode
    start: SeatEpisode  # before the first move
    first: tuple[Any, dict[str, Any]]
    names: dict[int, str]  # of the seats of language models
    others: dict[int, Conversation] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)  # events that each of the other seats has read

    @property
    def episode(self) -> Episode:
        return self.active.episode

    def texts(self) -> dict[int, list[str]]:
        """What each of the other seats has written."""
        return {
            seat: [message["content"] for message in conversation.messages if message["role"] == "assistant"]
            for seat, conversation in self.others.items()
        }


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

    def _replies(self, live: dict[int, _SeatMatch], asked: dict[int, Conversation]) -> dict[int, Reply | Exception]:
        """The reply to each conversation: one batch for each model."""
        by_name: dict[str, list[int]] = defaultdict(list)
        for index, match in live.items():
            seat = self.task.waits_for(match.state)
            by_name[SELF if seat is None else match.names[seat]].append(index)
        replies: dict[int, Reply | Exception] = {}
        for name, indices in sorted(by_name.items()):
            agent = self.agent if name == SELF else self.opponents.agent(name)
            answers = self._answers(agent, [live[index] for index in indices], [asked[index] for index in indices])
            replies.update(zip(indices, answers, strict=True))
        return replies

    def _answers(
        self, agent: Agent, matches: Sequence[_SeatMatch], conversations: Sequence[Conversation]
    ) -> list[Reply | Exception]:
        """An agent's replies in several matches; a failure where it has none for another seat than the trained one."""

        def ask(questions: Sequence[tuple[bool, Conversation]]) -> list[Reply | Exception]:
            replies = agent.act([conversation for _, conversation in questions])
            return [
                RuntimeError(reply.error or "its context is full")
                if judged and reply.stop in ("context", "error")
                else reply
                for (judged, _), reply in zip(questions, replies, strict=True)
            ]

        # Before its first turn the trained seat has written nothing that could be to blame.
        judged = [
            bool(match.episode.turns) and conversation is not match.active.conversation
            for match, conversation in zip(matches, conversations, strict=True)
        ]
        questions = [*zip(judged, conversations, strict=True)]
        return answers_beside_controls(ask, questions, lambda i: (True, self._control(matches[i], conversations[i])))

    def _control(self, match: _SeatMatch, conversation: Conversation) -> Conversation:
        """What the seat that must move would read had another player had the trained seat."""
        seat = self.task.waits_for(match.state)
        assert seat is not None  # for the type checker: the trained seat's replies are not judged here
        try:
            _, messages = control_match(self.task, match.start, seat, match.texts())
        except Exception:  # the game fails without the policy's words, and is judged where it fails
            return conversation
        return Conversation(f"{conversation.key}/control", [*self._system(), *messages])

    def _begin(self, request: RolloutRequest) -> _SeatMatch:
        if request.prefix:
            raise ValueError("self-play begins with no prefix: what the expert does depends on the other seats")
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
        return _SeatMatch(active, state, state, first, names)

    def _system(self) -> list[Message]:
        """How the conversation of another seat opens."""
        return [{"role": "system", "content": self.task.system}] if self.use_system and self.task.system else []

    def _conversation(self, match: _SeatMatch) -> Conversation:
        """The conversation of the seat that must move, up to its observation."""
        task, state = self.task, match.state
        seat = task.waits_for(state)
        if seat is None:
            if not match.active.conversation.messages:
                match.active.begin((task.observe(state._replace(turn=0)), match.first[1]))
            return match.active.conversation
        if seat not in match.others:
            match.others[seat] = Conversation(f"{match.episode.key}/seat {seat}", self._system())
        conversation = match.others[seat]
        text = observed(task, state, seat, match.read.get(seat))
        conversation.messages.append({"role": "user", "content": text})
        match.read[seat] = len(state.match.log)
        return conversation

    def _played(self, match: _SeatMatch, conversation: Conversation, reply: Reply | Exception) -> bool:
        """Play a reply; whether the episode is over.

        Raises:
            ValueError: the agent pauses completions.
        """
        if isinstance(reply, Exception):
            return match.active.fail("another seat", reply)
        if reply.stop == "pause":
            raise ValueError("self-play has no partial rollouts: leave sampling.segment out")
        if conversation is match.active.conversation:
            return self._own(match, reply)
        if reply.stop not in ("stop", "length"):  # before the trained seat has written anything
            return match.active.fail("another seat", RuntimeError(reply.error or "its context is full"))
        seat = self.task.waits_for(match.state)
        assert seat is not None  # for the type checker: the conversation is another seat's
        try:
            state = self.task.moved_by(match.state, seat, reply.text)
        except Exception as error:  # the rules or a bot failed
            provoked = bool(match.episode.turns) and goes_through(lambda: self._control_move(match, seat, reply.text))
            return match.active.fail("the game", Provoked(error) if provoked else error)
        conversation.append_reply(reply)
        match.state = state
        return self._observed(match)

    def _control_move(self, match: _SeatMatch, seat: int, text: str) -> None:
        """Play what another seat wrote in a match with another player in the trained seat."""
        state, _ = control_match(self.task, match.start, seat, match.texts())
        if self.task.waits_for(state) == seat:
            moved(self.task, state, seat, text, random.Random(0))

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
