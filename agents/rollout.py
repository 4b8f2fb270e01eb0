"""The rollout loop: many episodes at once over one environment and one agent, whichever are ready in one batch."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym

from rlvr.agents.conversation import Agent, Conversation, Reply, TokenSequence, heard
from rlvr.agents.episode import Episode, Request, Turn
from rlvr.envs import Verdict
from rlvr.envs.core.images import text_of

EnvSource = str | gym.Env[Any, str] | Callable[[], gym.Env[Any, str]]


@dataclass(slots=True)
class _Player:
    """One episode under way."""

    env: gym.Env[Any, str] | None  # None until there is one: making it can be slow, and can fail
    episode: Episode
    conversation: Conversation
    request: Request


class Rollout:
    """Plays requests to the end and returns their episodes in the order asked for.

    An environment that raises ends its own episode with an ``env_error`` verdict and is replaced; the others go on.
    An agent that raises ends the rollout: there is nothing to go on with. One that failed to get a single reply says so
    in that reply (stop "error"), which ends that episode with an ``env_error`` verdict.

    Args:
        env: an id, an environment to take copies of, or a function that makes one.
        agent: who acts.
        batch_size: how many episodes are under way at once.
        workers: threads that step environments; 0 steps them in turn, right for environments that only compute.
            With threads, the agent is asked for whichever episodes are ready, and nobody waits for the slowest.
        use_system: whether the environment's system prompt is said.
        env_settings: given to ``gym.make`` when ``env`` is an id.
    """

    def __init__(
        self,
        env: EnvSource,
        agent: Agent,
        *,
        batch_size: int = 256,
        workers: int = 0,
        use_system: bool = True,
        env_settings: dict[str, Any] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if workers < 0:
            raise ValueError(f"workers must be at least 0, got {workers}")
        self.agent = agent
        self.batch_size = batch_size
        self.workers = workers
        self.use_system = use_system
        self._make = _maker(env, env_settings or {})
        self._idle: list[gym.Env[Any, str]] = [self._make()]
        self.env_id = _env_id(self._idle[0])

    @property
    def env(self) -> gym.Env[Any, str]:
        """One of the environments, to ask for its size or its content."""
        if not self._idle:
            self._idle.append(self._make())
        return self._idle[0]

    def __call__(self, requests: Sequence[Request | Episode]) -> list[Episode]:
        """The episodes of the requests, in their order.

        An agent may put an episode aside in the middle of a reply (stop "pause"); it comes back without a verdict, and
        given here in place of a request it is gone on with: its environment is played there again, action by action.
        """
        done: dict[int, Episode] = {}
        for place, episode in self.stream(requests):
            done[place] = episode
        return [done[place] for place in range(len(requests))]

    def stream(self, requests: Iterable[Request | Episode]) -> Iterator[tuple[int, Episode]]:
        """Each episode as it ends, with the place of its request."""
        pool = ThreadPoolExecutor(self.workers, "rollout") if self.workers else None
        try:
            yield from self._play(deque(enumerate(requests)), pool)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    def _play(
        self, waiting: deque[tuple[int, Request | Episode]], pool: ThreadPoolExecutor | None
    ) -> Iterator[tuple[int, Episode]]:
        busy: dict[Future[bool], tuple[int, _Player]] = {}
        ready: list[tuple[int, _Player]] = []

        def run(place: int, player: _Player, move: Callable[[], bool]) -> None:
            busy[pool.submit(move) if pool else _now(move)] = (place, player)

        while waiting or busy or ready:
            while waiting and len(busy) + len(ready) < self.batch_size:
                place, request = waiting.popleft()
                player = self._seat(request)
                run(place, player, partial(self._reset, player))
            if ready:
                replies = self.agent.act([player.conversation for _, player in ready])
                for (place, player), reply in zip(ready, replies, strict=True):
                    run(place, player, partial(self._step, player, reply))
                ready = []
            wait(busy, return_when=FIRST_COMPLETED)
            for future in [future for future in busy if future.done()]:  # in the order they were sent, not a set's
                place, player = busy.pop(future)
                if future.result():
                    self._release(player)
                    yield place, player.episode
                else:
                    ready.append((place, player))

    def _seat(self, request: Request | Episode) -> _Player:
        if isinstance(request, Episode):
            episode = request
            request = Request(episode.seed, episode.index, episode.split, episode.level)
            conversation = Conversation(episode.key, [], episode.tokens)
            return _Player(self._idle.pop() if self._idle else None, episode, conversation, request)
        episode = Episode(
            env_id=self.env_id,
            key=request.key(self.env_id),
            seed=request.seed,
            group=request.group,
            sample=request.sample,
            index=request.index,
            split=request.split,
            level=request.level,
        )
        conversation = Conversation(episode.key, [], episode.tokens)
        return _Player(self._idle.pop() if self._idle else None, episode, conversation, request)

    def _reset(self, player: _Player) -> bool:
        """BranchStart the episode; whether it is over already, which only an error brings about."""
        try:
            if player.env is None:
                player.env = self._make()
            player.conversation.env = player.env.unwrapped
            observation, info = player.env.reset(seed=player.request.seed, options=player.request.options() or None)
        except Exception as error:
            return _failed(player, error, "reset")
        episode = player.episode
        if episode.turns:
            return self._replay(player, observation)
        for name in ("index", "split", "level"):
            setattr(episode, name, info.get(name, getattr(episode, name)))
        if self.use_system and info.get("system"):
            episode.system = info["system"]
            player.conversation.messages.append({"role": "system", "content": info["system"]})
        if info.get("tools"):
            episode.tools = player.conversation.tools = json.dumps(info["tools"])
        _hear(player, observation, info)
        return False

    def _replay(self, player: _Player, observation: Any) -> bool:
        """Play again what was played before the episode was put aside; whether that failed."""
        episode, conversation, env = player.episode, player.conversation, player.env
        assert env is not None  # for the type checker: it was reset
        *done, last = episode.turns
        conversation.tools = episode.tools
        if episode.system:
            conversation.messages.append({"role": "system", "content": episode.system})
        try:
            for turn in done:
                conversation.messages.append(turn.message())
                conversation.messages.append({"role": "assistant", "content": turn.action})
                observation = env.step(turn.action)[0]
            if text_of(observation) != last.observation:
                raise ValueError("the environment said something else the second time: it cannot be gone on with")
        except Exception as error:
            return _failed(player, error, "replay")
        conversation.rendered = len(conversation.messages) if done else 0
        conversation.messages.append(last.message())
        conversation.partial_completion, episode.partial_completion = episode.partial_completion, TokenSequence()
        return False

    def _step(self, player: _Player, reply: Reply) -> bool:
        """Play the reply; whether the episode is over, or put aside."""
        episode, turn = player.episode, player.episode.turns[-1]
        turn.action, turn.stop, turn.end = reply.text, reply.stop, len(episode.tokens)
        if reply.stop == "pause":
            episode.partial_completion = player.conversation.partial_completion
            return True
        if reply.stop == "context":
            episode.truncated = True
            episode.verdict = turn.verdict = Verdict(0.0, "wrong", reason="the context was full before the reply")
            return True
        if reply.stop == "error":
            episode.verdict = turn.verdict = Verdict(0.0, "env_error", reason=f"agent: {reply.error}"[:500])
            return True
        player.conversation.messages.append({"role": "assistant", "content": reply.text})
        assert player.env is not None  # for the type checker: it was reset
        try:
            observation, reward, terminated, truncated, info = player.env.step(reply.text)
            turn.reward = float(reward)
            if not math.isfinite(turn.reward):
                raise ValueError(f"the reward was {reward!r}")
        except Exception as error:
            return _failed(player, error, "step")
        turn.verdict = info.get("verdict")
        if turn.verdict is not None and not turn.verdict.valid:  # a fault in the middle ends the episode
            turn.reward, truncated = 0.0, not terminated
        if not (terminated or truncated):
            _hear(player, observation, info)
            return False
        episode.terminated, episode.truncated = bool(terminated), bool(truncated)
        episode.verdict = turn.verdict or _from_reward(turn.reward, info)
        episode.final_observation = text_of(observation)
        return True

    def _release(self, player: _Player) -> None:
        env, player.env, player.conversation.env = player.env, None, None
        if env is None:
            return
        if player.episode.verdict is not None and player.episode.verdict.status == "env_error":
            with suppress(Exception):  # it is broken, and whatever broke it may still be in there
                env.close()
        else:
            self._idle.append(env)


def _hear(player: _Player, observation: Any, info: dict[str, Any]) -> None:
    message = heard(observation, info)
    image = message.get("images", [""])[0]
    player.episode.turns.append(Turn(message["content"], message["role"], "", "stop", image=image))
    player.conversation.messages.append(message)


def _failed(player: _Player, error: Exception, where: str) -> bool:
    reason = f"{where}: {type(error).__name__}: {error}"
    player.episode.verdict = Verdict(0.0, "env_error", reason=reason[:500])
    if player.episode.turns:
        player.episode.turns[-1].reward = 0.0
    return True


def _from_reward(reward: float, info: dict[str, Any]) -> Verdict:
    """A verdict for an environment that gives none: ``info["success"]``, else whether the reward is positive."""
    success = bool(info.get("success", reward > 0))
    return Verdict(reward, "correct" if success else "wrong", reason="the environment gives a reward and no verdict")


def _now(move: Callable[[], bool]) -> Future[bool]:
    future: Future[bool] = Future()
    future.set_result(move())
    return future


def _maker(env: EnvSource, settings: dict[str, Any]) -> Callable[[], gym.Env[Any, str]]:
    make: Callable[[], gym.Env[Any, str]] | None = None
    if isinstance(env, str):
        make = partial(gym.make, env, **settings)
        env = make()
    elif settings:
        raise ValueError("env_settings are for an environment given by its id")
    if not isinstance(env, gym.Env):
        return env
    if not _passive(env):
        make = make or getattr(env, "spawn", None)  # the wrappers of rlvr.envs.wrappers have one
        if make is None:
            raise TypeError("give a wrapped environment as a function that makes one: its wrappers cannot be copied")
        return make
    spawn = getattr(env.unwrapped, "spawn", None)  # shares what is costly to read, such as the rows of a table
    if spawn is not None:
        return spawn  # type: ignore[no-any-return]
    if make is None and env.unwrapped.spec is None:
        raise TypeError(f"{env!r} cannot be copied: give its id, or a function that makes one")
    return make or partial(gym.make, env.unwrapped.spec)  # type: ignore[arg-type]


def _passive(env: gym.Env[Any, str]) -> bool:
    """Whether nothing but what ``gym.make`` itself puts there is wrapped around the environment."""
    while isinstance(env, gym.wrappers.PassiveEnvChecker | gym.wrappers.OrderEnforcing):
        env = env.env
    return env is env.unwrapped


def _env_id(env: gym.Env[Any, str]) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
