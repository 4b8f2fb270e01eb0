"""Evaluation: play tasks once each (or k times), count, and say how sure the count is."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.envs.core.files import open_plain
from rlvr.envs.core.json_text import load_json


@dataclass(slots=True)
class Evaluation:
    """Means and counts over episodes. Episodes with invalid verdicts are counted apart and enter no mean.

    Attributes:
        episodes: how many were played; ``valid`` of them count.
        success: share of valid episodes that succeeded; ``low`` and ``high`` bound it (95 %, Wilson).
        reward: mean return of the valid episodes.
        turns: mean number of actions.
        statuses: how often each verdict status was given, invalid ones too.
        tokens: mean number of sampled tokens an episode, 0 for agents without tokens.
    """

    episodes: int = 0
    valid: int = 0
    successes: int = 0
    reward: float = 0.0
    turns: float = 0.0
    tokens: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def success(self) -> float:
        """Share of the valid episodes that succeeded; 0.0 without one."""
        return self.successes / self.valid if self.valid else 0.0

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval of ``success``."""
        return wilson(self.successes, self.valid)[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval of ``success``."""
        return wilson(self.successes, self.valid)[1]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, ``success``, ``low`` and ``high`` among them."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return record | {"success": self.success, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        statuses = ", ".join(f"{name} {count}" for name, count in sorted(self.statuses.items()))
        return (
            f"success {self.successes}/{self.valid} = {self.success:.3f} (95 % {self.low:.3f} to {self.high:.3f})\n"
            f"mean reward {self.reward:.3f}   turns {self.turns:.2f}   sampled tokens {self.tokens:.1f}\n"
            f"verdicts: {statuses}"
        )


def summarise(episodes: Sequence[Episode]) -> Evaluation:
    """The `Evaluation` of these episodes."""
    valid = [episode for episode in episodes if episode.valid]
    count = max(1, len(valid))
    return Evaluation(
        episodes=len(episodes),
        valid=len(valid),
        successes=sum(episode.success for episode in valid),
        reward=math.fsum(episode.reward for episode in valid) / count,
        turns=sum(len(episode.turns) for episode in valid) / count,
        tokens=sum(episode.tokens.sampled for episode in valid) / count,
        statuses=dict(Counter(episode.verdict.status for episode in episodes if episode.verdict is not None)),
    )


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % confidence interval of a share (Wilson 1927): honest near 0 and 1, where the normal one is not."""
    if trials == 0:
        return 0.0, 1.0
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


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
    """Play every request and sum up.

    Args:
        record: a JSONL file that gets each episode as it ends. Episodes it holds already are not played again, so
            a broken evaluation goes on where it stopped; a torn last line is played again, and so is an episode
            that could not be played (``env_error``): the engine or the environment may be well again.
        on_episode: called with each new episode.

    Raises:
        ValueError: a line of the record before the last is not an episode, or is one of another split or level.
        OSError: the record is a symbolic link or no plain file, or cannot be written.
    """
    known = {episode.key: episode for episode in read_episodes(record)} if record is not None else {}
    keys = [request.key(rollout.env_id) for request in requests]
    for request, key in zip(requests, keys, strict=True):
        if key in known and record is not None:
            _check_same_task(known[key], request, rollout, record)
    failed = {key for key, episode in known.items() if episode.verdict and episode.verdict.status == "env_error"}
    waiting = [r for r, key in zip(requests, keys, strict=True) if key not in known or key in failed]
    file = open_plain(record, "a") if record is not None else None
    try:
        for _, episode in rollout.stream(waiting):
            known[episode.key] = episode
            if file is not None:
                file.write(json.dumps(episode.to_dict()) + "\n")
                file.flush()
            if on_episode is not None:
                on_episode(episode)
    finally:
        if file is not None:
            file.close()
    return summarise([known[key] for key in keys])


def read_episodes(path: Path) -> list[Episode]:
    """The episodes of a JSONL file; none when there is no file. A torn last line is cut off.

    Raises:
        ValueError: a line before the last is not an episode.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    whole, torn = lines[:-1], lines[-1]
    if torn:
        with open_plain(path, "r+b") as file:
            file.truncate(sum(len(line) + 1 for line in whole))
    return [_episode(line, number, path) for number, line in enumerate(whole, 1) if line.strip()]


def write_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write a JSONL file with one episode a line.

    Raises:
        OSError: the path is a symbolic link or no plain file, or cannot be written.
    """
    with open_plain(path) as file:
        file.writelines(json.dumps(episode.to_dict()) + "\n" for episode in episodes)


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


def _episode(line: bytes, number: int, path: Path) -> Episode:
    try:
        return Episode.from_dict(load_json(line))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"line {number} of {path} is not an episode: {error}") from error
