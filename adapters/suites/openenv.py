"""OpenEnv: our environments behind its server, for every trainer that has its client; see docs/adapters/openenv.md.

In a file for uvicorn or a container::

    app = server_app("rlvr/GuessNumber-v0", {"level": 2})       # uvicorn my_file:app

A session is a WebSocket, each with an environment of its own. ``reset`` takes a seed, ``split``, ``level``, ``index``,
or a row's ``spec``; a spec of another environment than the one served is refused, since making it would run whatever
it names. An episode that must not be trained on ends with ``reward=None``, which there means "not scored".
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym

from rlvr.adapters.rows import LISTED_TASKS, MAX_LISTED
from rlvr.adapters.serving.guard import GuardedApp
from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.adapters.versions import require
from rlvr.agents import Episode, Message
from rlvr.envs.core.registry import size_of, splits_of
from rlvr.envs.tasks.digests import env_digest

TESTED = ("openenv", "0.10", "0.11")
MAX_SESSIONS = 64

try:
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
    from openenv.core.env_server.types import EnvironmentMetadata
except ImportError:  # `server_app` raises it where it is used
    Action = Observation = State = object
    Environment = dict  # anything that takes brackets


class TextAction(Action):  # type: ignore[misc]
    """What the policy says.

    Attributes:
        message: the assistant's text, without special tokens.
    """

    message: str


class TextObservation(Observation):  # type: ignore[misc]
    """What the policy reads next, and how the episode stands; ``done`` and ``reward`` are OpenEnv's own.

    Attributes:
        text: the next message.
        role: whose words it is: user's or a tool's.
        system: the system prompt, with the first observation alone.
        examples: worked examples before it, as chat messages, with the first observation alone.
        tools: schemas for the chat template, with the first observation alone.
        turn: how many actions there were.
        truncated: it is over because a limit was reached, or something failed.
        episode_return: the sum of the rewards so far.
        verdict: of the last action: reward, status, answer, reason, parts.
        valid: whether it may enter the training signal.
    """

    text: str = ""
    role: str = "user"
    system: str | None = None
    examples: list[dict[str, str]] | None = None
    tools: list[dict[str, Any]] | None = None
    turn: int = 0
    truncated: bool = False
    episode_return: float = 0.0
    verdict: dict[str, Any] | None = None
    valid: bool = True


class TextEnvironment(Environment[TextAction, TextObservation, State]):  # type: ignore[misc]
    """One session: an environment, and the episode under way.

    Args:
        served: names the environment; its seed and options are not looked at.
        use_system: whether the first observation has the system prompt.
        reward_at_end: no reward before the end, and there the return: for those who take the last reward for the
            episode's, as OpenEnv's harness does.
        tasks: how many of each split are listed where tasks are generated without end.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, served: TaskSpec, *, use_system: bool = True, reward_at_end: bool = False, tasks: int = LISTED_TASKS
    ) -> None:
        super().__init__()
        self._served, self._use_system, self._reward_at_end, self._tasks = served, use_system, reward_at_end, tasks
        self._env: gym.Env[str, str] | None = None
        self._session: EpisodeSession | None = None
        self._episode_id: str | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        spec: str | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TextObservation:
        """Begin an episode.

        Args:
            seed: as ``reset`` of the environment; without one, and without an index, a random task.
            episode_id: what ``/state`` gives back.
            spec: a row's task (`rlvr.adapters.rows`) in place of seed and options.
            options: ``split``, ``level``, ``index``.

        Raises:
            ValueError, TypeError: a spec of something else, or what the environment refuses.
            RuntimeError: the environment failed.
        """
        self._session = None
        task = named_task(self._served, seed, spec, options)
        self._env = self._env or task.make()
        session = EpisodeSession(task, use_system=self._use_system, env=self._env, tools=True)
        if session.done:
            self.close()
            raise RuntimeError(session.verdict.reason if session.verdict else "the episode is over before it begins")
        self._session, self._episode_id = session, episode_id
        return TextObservation(**beginning(session))

    def step(self, action: TextAction, timeout_s: float | None = None) -> TextObservation:
        """Play an action.

        Raises:
            ValueError: no episode is under way.
        """
        session = self._session
        if session is None or session.done:
            raise ValueError("no episode is under way in this session: reset it first (HTTP has no sessions, /ws has)")
        before = session.reward
        message = session.step(action.message)
        verdict = session.verdict
        if verdict is not None and not verdict.valid and session.truncated:
            self.close()  # the environment may be broken
        return TextObservation(**standing(session, before, message, self._reward_at_end))

    @property
    def state(self) -> Any:
        """Which task, and how far; nothing of its solution."""
        return state_of(self._session, self._episode_id)

    def get_metadata(self) -> Any:
        """The environment's id, its digest and rlvr's version, for ``/metadata``."""
        from rlvr import __version__

        self._env = self._env or self._served.make()
        text = f"{self._served.env_id} of rlvr; an action is the assistant's text; {env_digest(self._env)}"
        return EnvironmentMetadata(name=self._served.env_id, description=text, version=__version__)

    # OpenEnv's TaskProvider: called on a new environment for each request

    def list_splits(self) -> list[str]:
        """The names that ``split`` may take in `reset`."""
        self._env = self._env or self._served.make()
        return list(splits_of(self._env))

    def num_tasks(self, split: str) -> int:
        """How many tasks a split has; where they are generated without end, how many are listed.

        Raises:
            IndexError: there is no such split. The server answers 400.
        """
        if split not in (splits := self.list_splits()):
            raise IndexError(f"{self._served.env_id} has no split {split!r:.60}; it has {', '.join(splits)}")
        size = size_of(self._env) if self._env is not None else None
        return self._tasks if size is None else size

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """The arguments of `reset` for a task: its ``spec``, or ``split`` and ``index`` where there are such options.

        An environment that is not built of a `Task` has no indices: there the index is the seed.

        Raises:
            IndexError: there is no such split, or no such task.
        """
        count = self.num_tasks(split)
        if not 0 <= index < count:
            raise IndexError(f"index must be from 0 to {count - 1}; got {index}")
        if self._env is not None and getattr(self._env.unwrapped, "task", None) is None:
            spec = replace(self._served, seed=index)
        else:
            spec = replace(self._served, seed=0, options={"split": split, "index": index})
        return {"id": f"{split}-{index}", "split": split, "index": index, "spec": spec.to_json()}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Some of a split's tasks; bounds below 0 count from its end, as in Python.

        Raises:
            IndexError: there is no such split, or an answer would have more than 10,000 tasks.
        """
        indices = range(self.num_tasks(split))[start:stop]
        if len(indices) > MAX_LISTED:
            raise IndexError(f"an answer has at most {MAX_LISTED} tasks, and {len(indices)} were asked for")
        return [self.get_task(split, index) for index in indices]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The first tasks of a split, at most 10,000."""
        return self.get_task_range(split, 0, MAX_LISTED)

    def close(self) -> None:
        """Close the environment; the next ``reset`` makes another."""
        env, self._env = self._env, None
        if env is not None:
            env.close()


def named_task(
    served: TaskSpec, seed: int | None, spec: str | Mapping[str, Any] | None, options: Mapping[str, Any]
) -> TaskSpec:
    """The task that ``reset`` names: by a seed and options, or by a row's spec.

    Raises:
        ValueError: the spec is of another environment than the one served, or stands beside a seed or options.
    """
    if spec is None:
        if seed is None:  # a task that is named by its index is the same for all clients
            seed = 0 if options.get("index") is not None else secrets.randbits(31)
        return replace(served, seed=seed, options=options)
    task = TaskSpec.parse(spec)
    if (task.env_id, task.module, task.kwargs) != (served.env_id, served.module, served.kwargs):
        raise ValueError(f"this server plays {served.env_id} with {dict(served.kwargs)}, and not {task.to_json():.300}")
    if seed is not None or options:
        raise ValueError("a spec names the task: give no seed and no options beside it")
    return replace(served, seed=task.seed, options=task.options)


def named_env(env_id: str, kwargs: Mapping[str, Any] | None) -> TaskSpec:
    """What names an environment, perhaps with its module before a colon; gymnasium's errors where it cannot be made."""
    module, _, name = env_id.rpartition(":")
    served = TaskSpec(name, 0, module or "rlvr", kwargs or {})
    served.make().close()  # what cannot be made is an error now, not with the first client
    return served


def beginning(session: EpisodeSession) -> dict[str, Any]:
    """The fields of a `TextObservation` after ``reset``."""
    return {
        "text": session.messages[-1]["content"],
        "role": session.messages[-1]["role"],
        "system": next((message["content"] for message in session.messages if message["role"] == "system"), None),
        "examples": [dict(turn) for turn in session.info.get("examples", ())] or None,
        "tools": [dict(tool) for tool in session.info.get("tools") or ()] or None,
    }


def standing(session: EpisodeSession, before: float, message: Message | None, reward_at_end: bool) -> dict[str, Any]:
    """The fields of a `TextObservation` after an action.

    Args:
        session: the episode.
        before: its return before the action.
        message: what the environment said to it; None at the end.
        reward_at_end: as in `TextEnvironment`.
    """
    verdict = session.verdict
    reward: float | None = session.reward - before
    if not session.valid or (reward_at_end and not session.done):
        reward = None
    elif reward_at_end:
        reward = session.reward
    return {
        "text": message["content"] if message else verdict.reason if verdict else "",
        "role": message["role"] if message else "user",
        "turn": session.turns,
        "done": session.done,
        "reward": reward,
        "truncated": session.truncated,
        "episode_return": session.reward,
        "verdict": verdict.to_dict() if verdict else None,
        "valid": session.valid,
    }


def state_of(session: EpisodeSession | None, episode_id: str | None) -> Any:
    """OpenEnv's state: which task, and how far; nothing of its solution."""
    if session is None:
        return State(episode_id=episode_id)
    facts = {"spec": session.spec.to_json(), "episode_return": session.reward, "done": session.done}
    return State(episode_id=episode_id, step_count=session.turns, **facts)


def server_app(
    env_id: str,
    kwargs: Mapping[str, Any] | None = None,
    *,
    max_sessions: int = MAX_SESSIONS,
    use_system: bool = True,
    reward_at_end: bool = False,
    hosts: Collection[str] = (),
    tasks: int = LISTED_TASKS,
) -> Any:
    """The FastAPI application that serves an environment.

    Requests of web pages, which bear an ``Origin``, are refused with 403. So are those that arrive at the loopback and
    name another host: a page can reach a server on its reader's machine so, under a name of its own (DNS rebinding).

    Args:
        env_id: perhaps with the module that registers it before a colon, as in `rlvr.adapters.rows`.
        kwargs: for ``gym.make``.
        max_sessions: sessions at once; one more is refused.
        use_system, reward_at_end, tasks: as in `TextEnvironment`.
        hosts: names that clients may call the server by in ``Host``, for a server behind a proxy on the same machine;
            with any, they are asked for wherever a connection arrives.

    Raises:
        ImportError: OpenEnv is missing, or older than what was tested.
        ValueError: ``max_sessions`` or ``tasks`` is below 1; gymnasium's errors for an environment that cannot be made.
    """
    require(*TESTED)
    if max_sessions < 1:
        raise ValueError(f"max_sessions must be at least 1, got {max_sessions}")
    if tasks < 1:
        raise ValueError(f"tasks must be at least 1, got {tasks}")
    served = named_env(env_id, kwargs)
    factory = partial(TextEnvironment, served, use_system=use_system, reward_at_end=reward_at_end, tasks=tasks)
    app = create_fastapi_app(
        factory,
        TextAction,
        TextObservation,
        max_concurrent_envs=max_sessions,
        env_name=served.env_id.rpartition("/")[2],  # it stands in paths
    )
    app.add_middleware(GuardedApp, hosts=hosts)
    return app


def training_trace(episode: Episode) -> Any:
    """The tokens of an episode in the form of OpenEnv's token capture, for trainers that read its ``TrainingTrace``.

    Each reply is a turn of all the tokens before it, its own, their log-probabilities and the loss mask: 0 for tokens
    that were put into the reply, such as a forced end of its thought, and everywhere in an episode that is not valid.
    Nothing is encoded again.

    Raises:
        ImportError: OpenEnv is missing, or older than what was tested.
        ValueError: the episode was played without tokens, or they are not what OpenEnv's own check allows.
    """
    require(*TESTED)
    from openenv.core.harness import TrainingTrace, TrainingTurn

    tokens, turns, before = episode.tokens, [], 0
    for number, turn in enumerate(episode.turns):
        sampled = [t for t in range(before, turn.end) if tokens.mask[t]]
        before = turn.end
        if not sampled:
            raise ValueError(f"turn {number} of the episode has no sampled tokens: its agent kept none")
        start = sampled[0]
        turns.append(
            TrainingTurn(
                node_id=f"{episode.env_id}/{episode.seed}/{episode.sample}/{number}",
                prompt_token_ids=tokens.ids[:start],
                completion_token_ids=tokens.ids[start : turn.end],
                per_token_logps=tokens.logprobs[start : turn.end],
                loss_mask=[0] * start + (tokens.mask[start : turn.end] if episode.valid else [0] * (turn.end - start)),
                metadata={"reward": turn.reward},
            )
        )
    return TrainingTrace(turns=turns)
