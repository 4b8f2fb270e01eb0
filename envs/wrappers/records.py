"""What happened: statistics of each episode in ``info``, and a JSONL file of whole episodes that can be replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from rlvr.envs.core.files import open_plain
from rlvr.envs.core.images import image_of, read_data_url, text_of, url_of
from rlvr.envs.core.text_env import replay
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.tasks.digests import env_digest
from rlvr.envs.wrappers.base import Step, TextWrapper, identity


class Count(NamedTuple):
    """Of an episode so far."""

    reward: float = 0.0
    turns: int = 0
    action_chars: int = 0
    observation_chars: int = 0
    seconds: float = 0.0


class EpisodeStatistics(TextWrapper):
    """``info["episode"]`` at the end: return, turns, characters of actions and of observations, seconds.

    It counts what passes here: put it outside of the wrappers whose effect it is to measure.

    Args:
        clock: a function that gives seconds, such as ``time.perf_counter``; None measures no time. The policy's own
            time counts; the time between ``get_state`` and ``set_state`` does not.
    """

    def __init__(self, env: gym.Env[str, str], *, clock: Callable[[], float] | None = None) -> None:
        super().__init__(env, **({} if clock is None else {"clock": clock}))
        self.clock = clock
        self._mark = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the counts at 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._elapsed()
        self.memory = Count(observation_chars=len(text_of(observation)))
        return observation, info

    def step(self, action: str) -> Step:
        """Step; ``info["episode"]`` holds the counts at the end."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        count: Count = self.memory or Count()
        over = terminated or truncated
        self.memory = count = Count(
            count.reward + float(reward),
            count.turns + 1,
            count.action_chars + len(action),
            count.observation_chars + (0 if over else len(text_of(observation))),  # nobody sees the last one
            count.seconds + self._elapsed(),
        )
        if over:
            info = {**info, "episode": self._summary(count)}
        return observation, float(reward), terminated, truncated, info

    def set_state(self, state: Any) -> None:
        """Starts the clock anew: the time since ``get_state`` does not count."""
        super().set_state(state)
        self._elapsed()

    def _elapsed(self) -> float:
        before, self._mark = self._mark, self.clock() if self.clock else 0.0
        return self._mark - before

    def _summary(self, count: Count) -> dict[str, float | int]:
        summary = {"return": count.reward, **count._asdict()}
        del summary["reward"]
        if self.clock is None:
            del summary["seconds"]
        return summary


class Record(NamedTuple):
    """Of an episode so far: what names it, whether there were options, its turns, and what comes next."""

    head: dict[str, Any]
    turns: tuple[dict[str, Any], ...]
    observation: str
    role: str
    image: str = ""  # beside the observation, as a data URL


class EpisodeRecorder(TextWrapper):
    """Appends each episode that ends to a JSONL file, in the format of ``rlvr eval`` and the trainer.

    A line holds the task's identity, the turns (observation, role, action, reward, verdict; an image as a data URL of a
    PNG), and how it ended;
    ``rlvr.agents.episode.Episode.from_dict`` reads it, ``replay_record`` plays it again. What passes here is recorded:
    outside of other wrappers, replay it through the same wrappers. An episode that is left before its end is not
    written. A fork writes to the same file.

    Args:
        path: the file; it and its folder are made when the first episode ends.
    """

    def __init__(self, env: gym.Env[str, str], path: str | Path) -> None:
        super().__init__(env, path=str(path))
        self.path = Path(path)

    @cached_property
    def _env_digest(self) -> str:
        return env_digest(self.env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a record; an episode that was not finished is dropped."""
        observation, info = self.env.reset(seed=seed, options=options)
        head = {"seed": seed, "env_id": type(self.unwrapped).__name__, **identity(info), "system": info.get("system")}
        head |= {"env_digest": self._env_digest} | ({"examples": info["examples"]} if info.get("examples") else {})
        self.memory = Record(head, (), text_of(observation), info.get("role", "user"), url_of(observation))
        return observation, info

    def step(self, action: str) -> Step:
        """Step; the end of the episode writes its line."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        record: Record | None = self.memory
        if record is not None:
            verdict: Verdict | None = info.get("verdict")
            turn = {
                "observation": record.observation,
                "role": record.role,
                "action": action,
                "stop": "stop",
                "reward": float(reward),
                "verdict": None if verdict is None else verdict.to_dict(),
                "end": 0,
            }
            if record.image:
                turn["image"] = record.image
            after = text_of(observation), info.get("role", "user"), url_of(observation)
            self.memory = Record(record.head, (*record.turns, turn), *after)
            if terminated or truncated:
                self._write(self.memory, terminated, truncated)
                self.memory = None
        return observation, float(reward), terminated, truncated, info

    def _write(self, record: Record, terminated: bool, truncated: bool) -> None:
        # Which part of a mixture it is, the index names already.
        head = {name: value for name, value in record.head.items() if not name.startswith("part")}
        names = (head["env_id"], head.get("split"), head.get("level"), head["seed"], head.get("index"))
        line = {
            **head,
            "key": "/".join(map(str, names)),
            "turns": record.turns,
            "verdict": record.turns[-1]["verdict"],
            "final_observation": record.observation,
            "terminated": terminated,
            "truncated": truncated,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open_plain(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")


def read_records(path: str | Path) -> Iterator[dict[str, Any]]:
    """The episodes of a file, one after another.

    Raises:
        ValueError: a line is no episode; the message names the line.
    """
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
                record["seed"], record["turns"]
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(f"{path}, line {number} is no episode") from error
            yield record


def replay_record(
    env: gym.Env[str, str], record: dict[str, Any]
) -> list[tuple[str, float, bool, bool, dict[str, Any]]]:
    """Play an episode again and compare it with what was recorded; returns what ``rlvr.replay`` does.

    Raises:
        ValueError: an observation or a reward is another one; the message names the turn.
    """
    options = {name: record[name] for name in ("index", "split", "level") if record.get(name) is not None}
    turns = record["turns"]
    steps = replay(env, record["seed"], [turn["action"] for turn in turns], options)
    then = [(turn["observation"], turn["reward"]) for turn in turns]
    observations = [text_of(observation) for observation, *_ in steps]
    now = list(zip(observations, [reward for _, reward, *_ in steps[1:]], strict=False))
    for number, (was, became) in enumerate(zip(then, now, strict=False), 1):
        if was != became:
            raise ValueError(f"turn {number} is another one than was recorded: {became!r} now, {was!r} then"[:500])
    for number, (turn, (observation, *_)) in enumerate(zip(turns, steps, strict=False), 1):
        was_shown, is_shown = turn.get("image", ""), image_of(observation)
        if bool(was_shown) != (is_shown is not None) or (was_shown and (read_data_url(was_shown) != is_shown).any()):
            raise ValueError(f"turn {number} shows another image than was recorded")
    if len(now) != len(then) or observations[-1] != record["final_observation"]:
        raise ValueError(f"the episode has another end now: {len(now)} turns, {len(then)} were recorded")
    return steps
