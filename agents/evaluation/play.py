"""Plays the episodes of an evaluation, and records each as it ends."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr.agents.conversation import Agent, capability
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.evaluation.journal import KEPT, Journal, journalled
from rlvr.agents.evaluation.records import cut_torn_line, figures_only, read_episodes, require_lines
from rlvr.agents.evaluation.same_tasks import refusal
from rlvr.agents.evaluation.summary import Evaluation, summarise
from rlvr.agents.rollout import Rollout, stream_together
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.files import open_plain
from rlvr.envs.core.registry import playable, size_of
from rlvr.envs.core.task import Task
from rlvr.envs.curriculum.mixture import MixtureEnv


class EvaluationStopped(RuntimeError):
    """The agent cannot answer any more; the message says why. What had ended is in the record."""


def task_requests(size: int | None, count: int | None, *, seed: int = 0, samples: int = 1) -> list[RolloutRequest]:
    """``samples`` requests a task: every row of a table, or the first ``count`` (100) of a generated stream.

    Raises:
        ValueError: more rows are asked for than there are.
    """
    if size is not None and count is not None and count > size:
        raise ValueError(f"{count} episodes were asked for, and there are {size} tasks")
    count = count if count is not None else size if size is not None else 100
    return [
        RolloutRequest(seed=seed, index=index, group=index, sample=sample)
        for index in range(count)
        for sample in range(samples)
    ]


def evaluate(
    rollout: Rollout,
    requests: Sequence[RolloutRequest],
    *,
    record: Path | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> Evaluation:
    """Play every request of one environment and sum up; see `evaluate_together`."""
    return evaluate_together([(rollout, requests)], record=record, on_episode=on_episode)[0]


def evaluate_together(
    plays: Sequence[tuple[Rollout, Sequence[RolloutRequest]]],
    *,
    record: Path | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Evaluation]:
    """Play every request of several environments with one agent, under one limit of episodes at once, and sum up each.

    Args:
        plays: a rollout for each environment, all with the same agent, and its requests; ``batch_size`` is the first
            one's.
        record: a JSONL file that gets each episode as it ends. Episodes it holds already are not played again, so
            a broken evaluation goes on where it stopped; a torn last line is played again, and so is an episode
            that could not be played (``env_error``): the engine or the environment may be well again. The replies of
            episodes that have not ended are kept beside it, in ``<record>.turns.jsonl``, and not asked for again;
            the file goes once all have ended. Scripted agents, whose replies cost nothing, have none. An agent with an
            ``answered_before`` is told by it that a reply is in the record.
        on_episode: called with each new episode.

    Raises:
        EvaluationStopped: an episode could not be played, and the agent says (``given_up``) that no other can. Where
            each request has an episode by then, of this run or of the record, they are summed up all the same.
        ValueError: a line of the record before the last is not an episode, or is one of another split or level, or
            was played on other rows or with other settings of the environment; another process writes the record.
        OSError: the record is a link or no plain file, or cannot be written.
    """
    episodes: dict[str, Episode] = {}  # of each what is summed up: memory does not grow with texts
    if record is not None:
        require_lines(record)
        episodes |= {episode.key: episode for episode in read_episodes(record, figures_only)}
    keys = [[request.key(rollout.env_id) for request in requests] for rollout, requests in plays]
    failed = {key for key, episode in episodes.items() if episode.verdict and episode.verdict.status == "env_error"}
    done = episodes.keys() - failed
    waiting: list[tuple[Rollout, list[RolloutRequest]]] = []
    for (rollout, requests), named in zip(plays, keys, strict=True):
        for request, key in zip(requests, named, strict=True):
            if key in episodes and record is not None:
                _check_same_task(episodes[key], request, rollout, record)
        waiting.append((rollout, [r for r, key in zip(requests, named, strict=True) if key not in done]))
    agent = plays[0][0].agent
    missing = {key for named in keys for key in named} - episodes.keys()
    described: dict[str, Any] = capability(agent, "description") or {"model": type(agent).__name__}
    answered = any(e.valid or any(turn.stop in KEPT for turn in e.turns) for e in episodes.values())
    with ExitStack() as cleanup:
        file = cleanup.enter_context(open_plain(record, "a")) if record is not None else None
        if file is not None and record is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the file is closed, however the process ends
            except BlockingIOError:
                raise ValueError(f"another process writes {record}: wait for it, or give another file") from None
            cut_torn_line(record)
        if record is not None and not capability(agent, "in_any_thread"):
            journal = Journal(record.with_name(f"{record.name}.turns.jsonl"), done)
            cleanup.callback(journal.close, done)
            asked = journalled(agent, journal)
            waiting = [(rollout.with_agent(asked), requests) for rollout, requests in waiting]
            answered = answered or len(journal) > 0
        if answered and (tell := capability(agent, "answered_before")):
            tell()
        for episode in _stream(waiting):
            episode.agent = described | episode.agent | ({"native_tools": True} if episode.tools else {})
            episodes[episode.key] = figures_only(episode)
            missing.discard(episode.key)
            if episode.verdict is not None and episode.verdict.status != "env_error":
                done.add(episode.key)
            if file is not None:
                file.write(json.dumps(episode.to_dict()) + "\n")
                file.flush()
            if on_episode is not None:
                on_episode(episode)
            if not episode.valid and (why := capability(agent, "given_up")):
                if not missing:
                    break
                raise EvaluationStopped(why)
    return [summarise([episodes[key] for key in named]) for named in keys]


def _stream(plays: Sequence[tuple[Rollout, Sequence[RolloutRequest]]]) -> Iterator[Episode]:
    if len(plays) == 1:  # a rollout of another kind plays in its own way
        rollout, requests = plays[0]
        return (episode for _, episode in rollout.stream(requests, each_reply=True))
    return (episode for *_, episode in stream_together(plays, each_reply=True))


def evaluate_env(
    env_id: str,
    agent: Agent,
    *,
    episodes: int | None = None,
    samples: int = 1,
    seed: int = 0,
    record: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    native_tools: bool = False,
) -> Evaluation:
    """Play an environment with an agent and sum up, as ``rlvr eval`` does.

    Args:
        episodes: how many tasks; all rows of a table, else 100, if left out.
        samples: episodes on each task.
        seed: decides the tasks.
        record: as of `evaluate`.
        settings: of the environment; without a ``split`` the test split is played, where there is one.
        native_tools: as of `Rollout`.

    Raises:
        ValueError: more tasks are asked for than there are, or less than one, or as of `evaluate`.
        OSError: as of `evaluate`.
    """
    for name, value, least in (("samples", samples, 1), ("episodes", episodes, 1), ("seed", seed, 0)):
        if value is not None and value < least:
            raise ValueError(f"{name}={value} must be at least {least}")
    chosen = with_test_split(env_id, settings or {})
    rollout = Rollout(env_id, agent, env_settings=chosen, native_tools=native_tools)
    requests = task_requests(size_of(rollout.env), episodes, seed=seed, samples=samples)
    return evaluate(rollout, requests, record=record)


def with_test_split(env_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the test split, where there is one and they name no split.

    A generated environment has one, a table where its data set or the folder ``data_files`` has one, a mixture where
    all its parts have. Anything else is played as it is made.

    Raises:
        CodeRefused: the id names a module, where settings may not name code.
    """
    chosen = dict(settings)
    return {**chosen, "split": "test"} if "split" not in chosen and _has_test_split(env_id, chosen) else chosen


def _has_test_split(env_id: str, settings: Mapping[str, Any]) -> bool:
    require_registered(env_id, settings)
    try:
        played = playable(env_id)  # which imports the module that registers the id
        spec = gym.spec(played.rpartition(":")[2]) if isinstance(played, str) else played
        task = spec.kwargs.get("task")
        if isinstance(task, Task):
            return "test" in task.splits
        address = task or spec.entry_point
        kind = gym.envs.registration.load_env_creator(address) if isinstance(address, str) else address
    except (gym.error.Error, ImportError, AttributeError, ValueError):
        return False  # making it says what is wrong
    settings = {**spec.kwargs, **settings}
    if kind is MixtureEnv:
        parts = settings.get("envs")
        each = [{"id": part} if isinstance(part, str) else part for part in parts] if isinstance(parts, list) else []
        return bool(each) and all(
            isinstance(part, Mapping) and isinstance(part.get("id"), str) and _has_test_split(part["id"], part)
            for part in each
        )
    return isinstance(kind, type) and issubclass(kind, Task) and kind.has_split("test", settings)


def _check_same_task(episode: Episode, request: RolloutRequest, rollout: Rollout, record: Path) -> None:
    """A key leaves out what the environment itself was made with; an episode that never began tells nothing."""
    if not episode.turns:
        return
    for name in ("split", "level"):
        asked = getattr(request, name)
        asked = getattr(rollout.env.unwrapped, name, None) if asked is None else asked
        if getattr(episode, name) != asked:
            held = getattr(episode, name)
            raise ValueError(f"{record} holds episodes of {name} {held}, not {asked}: give another file")
    if why := refusal(episode.env_digest, rollout.env_digest):
        raise ValueError(f"{record} {why}: give another file, or put back what has changed")
