"""Suites: environments, levels, tasks and sampling that are pinned, so that two results measured the same thing."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rlvr.agents.evaluation.summary import Evaluation
from rlvr.envs import TASKS_VERSION
from rlvr.envs.core.hints import nearest

SCRIPTED = ("expert", "random", "empty")  # agents without a model, by the names that `rlvr eval` gives them


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """One environment of a suite.

    Attributes:
        env: its id; a suite has it once.
        tasks: how many of its tasks are played, the first of the suite's seed; None for a table, which is played whole.
        settings: for ``gym.make``: level, split, ….

    Raises:
        ValueError: ``tasks`` is below 1.
    """

    env: str
    tasks: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tasks is not None and (type(self.tasks) is not int or self.tasks < 1):
            raise ValueError(f"{self.env}: tasks is a whole number from 1 on, not {self.tasks!r}")


@dataclass(frozen=True, slots=True)
class EvaluationSuite:
    """What is played, and how it is sampled.

    Attributes:
        seed: decides the tasks and the sampling.
        samples: episodes on each task.
        temperature: 0 takes the likeliest token.
        max_new_tokens: tokens a turn may take.
        agents: who plays where the command names nobody: for each one of ``agent``, ``model`` and ``vllm``, and where
            the server is, ``endpoint``. They are no part of what is pinned.

    Raises:
        ValueError: no environment, or one twice.
    """

    name: str
    entries: tuple[SuiteEntry, ...]
    seed: int = 0
    samples: int = 1
    temperature: float = 0.0
    max_new_tokens: int = 2048
    agents: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        ids = [entry.env for entry in self.entries]
        if not ids:
            raise ValueError(f"suite {self.name}: envs names no environment")
        if twice := sorted({env_id for env_id in ids if ids.count(env_id) > 1}):
            raise ValueError(f"suite {self.name}: {', '.join(twice)} is named twice")

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that change with anything that is pinned, the name aside, and with the version that
        decides which tasks a seed gives."""
        pinned = {**asdict(self), "name": "", "tasks_version": TASKS_VERSION}
        del pinned["agents"]
        return hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()[:12]

    @classmethod
    def from_dict(cls, record: Any, name: str) -> EvaluationSuite:
        """Read a suite as a file holds it: ``envs``, a list of ``{env, tasks, settings}``, and the other fields.

        An entry of ``agents`` is a mapping, or a name alone: expert, random, empty, or a model's.

        Raises:
            ValueError: a field is unknown, missing or of another type; one sentence says which.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"suite {name}: a mapping with envs is expected, not {type(record).__name__}")
        fields = {"name": str, "envs": list, "seed": int, "samples": int, "temperature": float, "max_new_tokens": int}
        fields["agents"] = list
        _require_fields(record, fields, f"suite {name}")
        entries = []
        for number, entry in enumerate(record.get("envs", ()), 1):
            where = f"suite {name}, environment {number}"
            if not isinstance(entry, Mapping) or not isinstance(entry.get("env"), str):
                raise ValueError(f"{where}: a mapping with env, an id, is expected")
            _require_fields(entry, {"env": str, "tasks": int, "settings": dict}, where)
            entries.append(SuiteEntry(**entry))
        agents = tuple(_agent(agent, f"suite {name}, agent {n}") for n, agent in enumerate(record.get("agents", ()), 1))
        rest = {field_: value for field_, value in record.items() if field_ not in ("envs", "name", "agents")}
        return cls(record.get("name", name), tuple(entries), agents=agents, **rest)


def _agent(agent: Any, where: str) -> dict[str, str]:
    if isinstance(agent, str) and agent:
        return {"agent" if agent in SCRIPTED else "model": agent}
    if not isinstance(agent, Mapping):
        raise ValueError(f"{where}: a name, or a mapping with agent, model or vllm, is expected, not {agent!r}")
    _require_fields(agent, {"agent": str, "model": str, "vllm": str, "endpoint": str}, where)
    kinds = sorted(agent.keys() - {"endpoint"})
    if len(kinds) != 1 or (kinds == ["agent"] and (agent["agent"] not in SCRIPTED or "endpoint" in agent)):
        raise ValueError(
            f"{where}: one of model and vllm, which may have an endpoint, or agent, {', '.join(SCRIPTED)}, is expected"
        )
    return dict(agent)


def _require_fields(record: Mapping[str, Any], fields: Mapping[str, type], where: str) -> None:
    for name, value in record.items():
        if name not in fields:
            near = nearest(str(name), fields)
            raise ValueError(f"{where}: unknown field {name!r}" + (f", did you mean {near!r}?" if near else ""))
        wanted = (int, float) if fields[name] is float else fields[name]
        if not isinstance(value, wanted) or isinstance(value, bool):  # True is an int to Python
            raise ValueError(f"{where}: {name} is of type {fields[name].__name__}, not {value!r}")


@dataclass(frozen=True, slots=True)
class SuiteScore:
    """A suite's results as one number: each environment counts the same, however many tasks it has.

    Attributes:
        success, reward: means over the environments with a valid episode.
        low, high: 95 % interval of ``success``, from those of the environments, which are independent.
        environments: how many have a valid episode; ``without`` of the suite's have none.
        success_all: mean over all environments of the success over all episodes, the invalid ones as failures.
        invalid_share: share of all episodes that are invalid.
        cut_share: share of all replies that were cut at a token limit; ``flaws`` counts what came in the place of one.
    """

    success: float
    low: float
    high: float
    reward: float
    environments: int
    without: int
    success_all: float
    invalid_share: float
    cut_share: float
    flaws: Mapping[str, int]

    def __str__(self) -> str:
        text = (
            f"success {self.success:.3f} (95 % {self.low:.3f} to {self.high:.3f}) over valid episodes, "
            f"{self.success_all:.3f} over all, {self.invalid_share:.1%} invalid, "
            f"{self.cut_share:.1%} of the replies cut   mean reward {self.reward:.3f}"
        )
        left_out = f"; {self.without} have no valid episode and are left out" if self.without else ""
        return f"{text}   mean over {self.environments} environments{left_out}"


def score_suite(results: Sequence[Evaluation]) -> SuiteScore:
    """The means of a suite's results and their interval: the half widths of the environments' add up in squares.

    Raises:
        ValueError: no result has a valid episode.
    """
    valid = [result for result in results if result.valid]
    count = len(valid)
    if not count:
        raise ValueError("no environment has a valid episode: there is nothing to sum up")
    success = math.fsum(result.success for result in valid) / count
    half = math.sqrt(math.fsum((result.high - result.low) ** 2 for result in valid)) / 2 / count
    reward = math.fsum(result.reward for result in valid) / count
    low, high = max(0.0, success - half), min(1.0, success + half)
    success_all = math.fsum(result.success_all for result in results) / len(results)
    episodes = sum(result.episodes for result in results)
    invalid = episodes - sum(result.valid for result in results)
    replies = sum(result.replies for result in results)
    flaws = sum((Counter(result.flaws) for result in results), Counter[str]())
    return SuiteScore(
        success=success,
        low=low,
        high=high,
        reward=reward,
        environments=count,
        without=len(results) - count,
        success_all=success_all,
        invalid_share=invalid / episodes,
        cut_share=sum(result.cut for result in results) / max(1, replies),
        flaws=dict(flaws),
    )


def _levels(tasks: int, **levels: int) -> tuple[SuiteEntry, ...]:
    return tuple(
        SuiteEntry(f"rlvr/{name}-v0", tasks, {"level": level, "split": "test"}) for name, level in levels.items()
    )


# Generated tasks alone, so that a suite needs no data set. A change of what is pinned takes another name.
SUITES: dict[str, EvaluationSuite] = {
    "core": EvaluationSuite(
        "core",
        (
            *_levels(50, WordProblems=3, LinearEquations=3, Countdown=3, UrnDraws=2, DateArithmetic=3),
            *_levels(50, KnightsAndKnaves=3, Zebra=2, Syllogisms=3, MiniSudoku=3, ShortestPath=3),
            *_levels(50, CodeOutput=3, RegisterMachine=2, SortWords=3),
            *_levels(30, Calculator=3, GuessNumber=3, Wordle=2, Sokoban=2, TextAdventure=2, WorldSearch=2),
        ),
    ),
    "agents": EvaluationSuite(
        "agents",
        (
            *_levels(20, Service=2, Terminal=2, RepoRepair=1, CodeRepair=3, CodeTests=3, SQL=2, Browser=2),
            *_levels(20, Planner=2, Research=2, Workshop=1, Instructions=3, NaturalDeduction=2, EquationalProof=2),
        ),
    ),
    "quick": EvaluationSuite(
        "quick", _levels(20, WordProblems=2, Countdown=2, KnightsAndKnaves=2, SortWords=2, GuessNumber=2, Calculator=2)
    ),
}
