"""The rollout: many episodes at once over one environment and one agent, whichever are ready in one batch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

import gymnasium as gym

from rlvr.agents.conversation import Agent, Conversation, capability
from rlvr.agents.driver.env_calls import DEFAULT_SECONDS, EnvCalls, ThreadedEnvCalls, close_in_time
from rlvr.agents.driver.episode_loop import ActiveEpisode, EpisodeLoop, new_episode
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.envs.core.code_rule import make_env
from rlvr.envs.core.registry import in_words, is_foreign, without_checkers
from rlvr.envs.tasks.digests import env_digest
from rlvr.envs.tools.with_tools import native_settings

EnvSource = str | gym.Env[Any, str] | Callable[[], gym.Env[Any, str]]


class Rollout:
    """Plays requests to the end and returns their episodes in the order asked for.

    An environment that raises ends its own episode with an ``env_error`` verdict, and one that does not answer in time
    with a ``timeout`` verdict, unless the action made it; both are invalid, the environment is replaced, and the other
    episodes continue. An agent
    that raises ends the rollout. One that fails to get a single reply says so in that reply (stop "error"), which ends
    that episode with an ``env_error`` verdict.

    An agent with ``submit`` (`rlvr.agents.conversation.ConcurrentAgent`) is asked for each episode as soon as it is
    ready: no episode waits for another one's reply.

    Args:
        env: an id, an environment to take copies of, or a function that makes one.
        agent: who acts.
        batch_size: how many episodes are under way at once.
        workers: threads that step environments; 0 steps them one after another, right for environments that only
            compute. With threads, the agent is asked for whichever episodes are ready, and no episode waits for the
            slowest.
        use_system: whether conversations begin with the environment's system prompt.
        native_tools: leave an environment's tools to the agent's own way of having them: the ``tools`` of an endpoint,
            or of a model's chat template, and calls as that template writes them.
        env_settings: given to ``gym.make`` when ``env`` is an id.
        timeout: seconds that a reset or a step may take; making an environment may take 60 s in any case. None sets no
            limit; without ``workers`` the environments are then stepped in the caller's own thread.

    Raises:
        ValueError: an argument out of range, or tools that cannot be native.
        TypeError: an environment that cannot be copied.
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
        native_tools: bool = False,
        timeout: float | None = DEFAULT_SECONDS,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if workers < 0:
            raise ValueError(f"workers must be at least 0, got {workers}")
        if timeout is not None and not 0 < timeout < math.inf:
            raise ValueError(f"timeout must be a positive number of seconds, or None; got {timeout!r}")
        self.agent = agent
        self.batch_size = batch_size
        self.workers = workers
        self.use_system = use_system
        self.timeout = timeout
        if native_tools:
            if not isinstance(env, str):
                raise ValueError("native_tools is for an environment given by its id")
            env_settings = native_settings(env, env_settings or {}, lambda: capability(agent, "call_style"))
        self._make = _maker(env, env_settings or {})
        first = self._make()
        if is_foreign(first):
            close_in_time(first)
            self._make = _in_words(self._make, type(first.unwrapped).__name__)
            first = self._make()
        self._idle: list[gym.Env[Any, str]] = [first]
        self.env_id = _env_id(self._idle[0])
        self._env_digest: str | None = None

    @property
    def env_digest(self) -> str:
        """What tasks and grades depend on, see `rlvr.envs.tasks.digests`; each episode names it."""
        if self._env_digest is None:
            self._env_digest = env_digest(self.env)
        return self._env_digest

    @property
    def env(self) -> gym.Env[Any, str]:
        """One of the environments, to ask for its size or its content."""
        if not self._idle:
            self._idle.append(self._make())
        return self._idle[0]

    def __call__(self, requests: Sequence[RolloutRequest | Episode]) -> list[Episode]:
        """The episodes of the requests, in their order.

        An agent may pause an episode in the middle of a completion (stop "pause"): the episode is returned without a
        verdict. Given here in place of a request, it is continued: a new environment plays its actions again first.
        """
        done = dict(self.stream(requests))
        return [done[index] for index in range(len(requests))]

    def stream(
        self, requests: Iterable[RolloutRequest | Episode | Future[None]], *, each_reply: bool = False
    ) -> Iterator[tuple[int, Episode]]:
        """Each episode as it ends, with the index of its request. Requests are taken only when there is place.

        A future among the requests, which has no index, says that there is none now: they are asked again once it is
        done, and the episodes under way go on meanwhile.

        Args:
            each_reply: play each reply of a batch as soon as the agent has it, where the agent can tell (``act_each``),
                so that an episode need not wait for the slowest reply to end; and take the time of each episode. It
                costs a little for each.
        """
        return ((index, episode) for _, index, episode in stream_together([(self, requests)], each_reply=each_reply))

    def with_agent(self, agent: Agent) -> Rollout:
        """The same rollout with another agent; the two share their environments."""
        other = copy.copy(self)
        other.agent = agent
        return other

    def _activate(self, request: RolloutRequest | Episode | Future[None], timed: bool) -> ActiveEpisode | Future[None]:
        """The episode of a request, which has not begun; a future as it is."""
        if isinstance(request, Future):
            return request
        episode = request if isinstance(request, Episode) else new_episode(self.env_id, request, self.env_digest)
        env = self._idle.pop() if self._idle else None
        active = ActiveEpisode(env, episode, Conversation(episode.key, []), self.use_system, make=self._make)
        active.timed, active.may_branch = timed, True
        active.prefix = () if isinstance(request, Episode) else request.prefix  # of a paused one it has been played
        return active

    def _environment_calls(self) -> EnvCalls:
        """What makes the calls of the environments, under the limits of this rollout."""
        in_turn = not self.workers and self.timeout is None
        return EnvCalls() if in_turn else ThreadedEnvCalls(self.workers, self.timeout, self._make)

    def _release(self, active: ActiveEpisode) -> None:
        """Keep the environment of an episode that has ended for another one, or close one that failed."""
        env, active.env, active.conversation.env = active.env, None, None
        if env is None:
            return
        if active.episode.verdict is not None and active.episode.verdict.status == "env_error":
            close_in_time(env)
        else:
            self._idle.append(env)


def stream_together(
    plays: Sequence[tuple[Rollout, Iterable[RolloutRequest | Episode | Future[None]]]], *, each_reply: bool = False
) -> Iterator[tuple[int, int, Episode]]:
    """Play the requests of several rollouts as one: an environment's begin as soon as there is place, not when those of
    the one before have ended. Agent, ``batch_size``, ``workers`` and ``timeout`` are the first one's.

    Args:
        plays: the rollouts, each with its requests.
        each_reply: as of `Rollout.stream`.

    Yields:
        The number of the play, the index of the request in it, and the episode, as each ends.
    """
    first, positions, numbers = plays[0][0], dict[int, tuple[int, int]](), count()

    def episodes() -> Iterator[ActiveEpisode | Future[None]]:
        for play, (rollout, requests) in enumerate(plays):
            indices = count()
            for request in requests:
                active = rollout._activate(request, each_reply)
                if not isinstance(active, Future):
                    positions[next(numbers)] = play, next(indices)
                yield active

    loop = EpisodeLoop(first.agent, first._environment_calls(), first.batch_size, each_reply=each_reply)
    for number, active in loop.run(episodes()):
        play, index = positions.pop(number)
        plays[play][0]._release(active)
        yield play, index, active.episode


def _maker(env: EnvSource, settings: dict[str, Any]) -> Callable[[], gym.Env[Any, str]]:
    make: Callable[[], gym.Env[Any, str]] | None = None
    if isinstance(env, str):
        make = partial(make_env, env, **settings)
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


def _in_words(make: Callable[[], gym.Env[Any, str]], name: str) -> Callable[[], gym.Env[Any, str]]:
    """Makes environments that play in words what a function makes, which knows nothing of this package."""
    spawn: Callable[[], gym.Env[Any, str]] = getattr(gym.make(in_words(name, make)).unwrapped, "spawn")  # noqa: B009
    return spawn


def _passive(env: gym.Env[Any, str]) -> bool:
    """Whether nothing but what ``gym.make`` itself puts there is wrapped around the environment."""
    return without_checkers(env) is env.unwrapped


def _env_id(env: gym.Env[Any, str]) -> str:
    if served := getattr(env.unwrapped, "served_id", None):  # of an environment elsewhere
        return str(served)
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
