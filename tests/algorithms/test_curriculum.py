"""The section `curriculum`: which levels and rows a run asks, and that a run that goes on asks what it would have."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.agents.episode import RolloutRequest
from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.config import ConfigError, TrainConfig, load_config
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.sampling.collect import TaskOrder, TaskPool, build_pool
from rlvr.algorithms.train.run import Trainer

from .runs import CALCULATOR, GSM8K, GUESS, Callback, RunServer, differences, small

ROOT = Path(__file__).parents[2]
LOG = "rlvr.algorithms.runs.run_folder:RunFolder.log"
LEVELS = {"env": {"id": GUESS, "level": 3, "system": False}}


class Table:
    """Stands for an environment with so many rows; None for one without end."""

    def __init__(self, size: int | None) -> None:
        self.size = size


def config(**changes) -> TrainConfig:
    return load_config({"env": {"id": GUESS, "level": 5}, "prompts": 4, "steps": 10} | changes)


def pool(size: int | None = None, **changes) -> TaskPool:
    return build_pool(TaskOrder(Table(size), "train", 0), config(**changes))


def solved(request: RolloutRequest, rng: random.Random) -> list[bool]:
    """A policy that solves level l, or row l, with a chance that falls with l."""
    place = request.level or request.index or 0
    return [rng.random() < 1 - place / 8 for _ in range(4)]


def drawn(tasks: TaskPool, count: int, rng: random.Random | None = None) -> list[RolloutRequest]:
    requests = []
    for _ in range(count):
        requests.append(tasks.draw(salt=""))
        if rng is not None:
            tasks.record(requests[-1], solved(requests[-1], rng))
    return requests


# which tasks are drawn


def test_without_a_curriculum_the_level_is_the_environments():
    tasks = pool()
    requests = drawn(tasks, 5)
    assert [(r.index, r.level) for r in requests] == [(n, None) for n in range(5)]
    assert (tasks.stats(), tasks.level_at(3)) == ({}, None)


def test_target_seeks_the_level_that_is_solved_so_often():
    tasks = pool(curriculum={"kind": "target", "target": 0.5, "rehearsal": 0.0})
    levels = [r.level for r in drawn(tasks, 400, random.Random(0))][200:]
    assert 3.6 < sum(levels) / len(levels) < 4.4
    assert tasks.stats() == {"difficulty": tasks.curriculum.difficulty}


def test_easy_to_hard_divides_the_run_evenly():
    levels = [r.level for r in drawn(pool(curriculum={"kind": "easy_to_hard", "rehearsal": 0.0}), 40)]
    assert levels == [level for level in range(1, 6) for _ in range(8)]
    staged = pool(curriculum={"kind": "easy_to_hard", "rehearsal": 0.0, "stage": 3})
    assert [r.level for r in drawn(staged, 7)] == [1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("changes", [{"curriculum": {"kind": "by_rate"}}, {"selection": {"filters": ["curriculum"]}}])
def test_by_rate_is_what_the_filter_does(changes):
    requests = drawn(pool(**changes), 300, random.Random(0))
    levels = [r.level for r in requests]
    assert levels.count(1) < levels.count(3) < levels.count(5)
    rows = [r.index for r in drawn(pool(8, **changes), 600, random.Random(0))]
    assert rows.count(0) < rows.count(3) < rows.count(7)


def test_the_section_wins_over_an_algorithms_filter():
    tasks = pool(curriculum={"kind": "easy_to_hard"}, selection={"filters": ["curriculum"]})
    assert {r.level for r in drawn(tasks, 3)} == {1}


@pytest.mark.parametrize("kind", ["none", "by_rate"])
def test_retired_rows_never_come_back(kind):
    tasks = pool(
        6,
        curriculum={"kind": kind},
        selection={"filters": ["no_positive_resampling"], "retire_at": 0.9, "retire_after": 8},
    )
    counts, gone = dict.fromkeys(range(6), 0), set()
    for _ in range(400):
        request = tasks.draw(salt="")
        assert request.index not in gone
        tasks.record(request, [request.index < 3] * 4)
        counts[request.index] += 1
        if request.index < 3 and counts[request.index] == 2:
            gone.add(request.index)
        if 0 in gone:  # what was under way when it was retired
            tasks.record(RolloutRequest(0, index=0), [False] * 4)
    assert gone == {0, 1, 2}
    assert tasks.stats()["tasks_retired"] == 3


@pytest.mark.parametrize("kind", ["none", "by_rate", "by_signal"])
def test_when_all_is_retired_it_goes_on_all_the_same(kind):
    tasks = pool(2, curriculum={"kind": kind}, selection={"filters": ["no_positive_resampling"]})
    for _ in range(9):
        tasks.record(tasks.draw(salt=""), [True] * 4)
    assert tasks.stats()["tasks_retired"] == 2


def test_demonstrations_go_through_the_levels():
    assert [pool(curriculum={"kind": "target"}).level_at(place) for place in range(6)] == [1, 2, 3, 4, 5, 1]
    assert pool(7, curriculum={"kind": "by_rate"}).level_at(0) is None


KINDS = [
    (None, {"curriculum": {"kind": "target", "start": 4}}),
    (None, {"curriculum": {"kind": "easy_to_hard"}}),
    (None, {"curriculum": {"kind": "by_rate", "decay": 0.9}}),
    (None, {"curriculum": {"kind": "by_signal"}}),
    (9, {"curriculum": {"kind": "by_signal"}, "selection": {"filters": ["no_positive_resampling"]}}),
    (9, {"curriculum": {"kind": "by_rate"}, "selection": {"filters": ["no_positive_resampling"]}}),
    (9, {"selection": {"filters": ["no_positive_resampling"], "retire_after": 6}}),
]


@settings(max_examples=40)
@given(st.sampled_from(KINDS), st.integers(0, 60))
def test_a_pool_that_goes_on_draws_what_it_would_have_drawn(kind, before):
    size, changes = kind
    whole, resumed = pool(size, **changes), pool(size, **changes)
    drawn(whole, before, random.Random(0))
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    assert drawn(resumed, 15, random.Random(1)) == drawn(whole, 15, random.Random(1))
    assert resumed.state_dict() == whole.state_dict()


# bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"curriculum": {"kind": "targt"}}, "curriculum.kind: Input should be 'none', 'target'"),
        ({"curriculum": {"kid": "target"}}, "curriculum.kid: there is no such field; did you mean 'kind'"),
        ({"curriculum": {"target": 1.0}}, "curriculum.target"),
        ({"env": {"id": GUESS}, "curriculum": {"kind": "target"}}, "target needs levels: set env.level"),
        ({"curriculum": {"kind": "target", "start": 6}}, "curriculum.start 6 is above env.level 5"),
        ({"selection": {"retire_after": 0}}, "selection.retire_after"),
    ],
)
def test_a_config_that_cannot_be_run_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        config(**changes)


@pytest.mark.parametrize("kind", ["target", "easy_to_hard"])
def test_a_table_has_no_levels(kind):
    with pytest.raises(ConfigError, match=f"curriculum.kind {kind} goes by levels, and rlvr/GuessNumber-v0 is a table"):
        pool(7, curriculum={"kind": kind})


# in a run


def test_a_run_asks_levels_and_logs_them(tmp_path: Path):
    callback = Callback()
    changes = {"curriculum": {"kind": "target", "start": 3, "rehearsal": 0.0, "gain": 0.4}, "steps": 3}
    Trainer(small(tmp_path / "run", **LEVELS, **changes, sampling={"max_new_tokens": 6}), callback).run()
    difficulties = [record["difficulty"] for record in callback.of("train")]
    assert difficulties == sorted(difficulties, reverse=True)
    assert difficulties[0] < 3, "nothing is solved, so it becomes easier"
    folder = tmp_path / "run" / "episodes"
    levels = {episode.level for path in folder.glob("train-*") for episode in read_episodes(path)}
    assert levels <= {1, 2, 3}
    assert min(levels) < 3
    assert {episode.level for path in folder.glob("evaluation-*") for episode in read_episodes(path)} == {3}


def test_a_mixture_is_trained_on_by_its_id(tmp_path: Path):
    callback = Callback()
    mixture = {"envs": [GUESS, CALCULATOR], "weights": [1, 2]}
    env = {"id": "rlvr/Mixture-v0", "level": 2, "system": False, "settings": mixture}
    short = {"sampling": {"max_new_tokens": 6}, "steps": 1, "prompts": 12, "warm_start": {"steps": 2, "mixed_steps": 1}}
    Trainer(small(tmp_path / "run", env=env, curriculum={"kind": "by_rate"}, **short), callback).run()
    episodes = read_episodes(tmp_path / "run" / "episodes" / "train-000001.jsonl")
    first = {episode.turns[0].observation.split()[0] for episode in episodes}
    assert first == {"Guess", "What"}


RUNS = {
    "target": {**LEVELS, "curriculum": {"kind": "target", "start": 3, "gain": 0.5}, "sampling": {"max_new_tokens": 6}},
    "rows by rate": {
        "curriculum": {"kind": "by_rate", "decay": 0.9},
        "selection": {"filters": ["no_positive_resampling"], "retire_at": 0.9, "retire_after": 8},
        "warm_start": {"steps": 0, "mixed_steps": 0},
        "sampling": {"max_new_tokens": 6},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_killed_ends_in_the_same_bytes(
    name: str, server: RunServer, write_config, tmp_path: Path, answerer: tuple[dict, Path]
):
    changes = RUNS[name]
    if name == "rows by rate":
        env, policy = answerer
        assert env["id"] == GSM8K
        changes = changes | {"env": env, "model": {"name": str(policy)}}
    path = write_config(**changes)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    ended = server.run(["train", "--config", path, "--out", whole])
    assert ended.status == 0, ended.output
    records = [record for record in read_jsonl(whole / "metrics.jsonl") if record["phase"] == "train"]
    first = 1 + len(read_jsonl(whole / "metrics.jsonl")) - len(records) - 1  # the evaluation after them comes last
    killed = server.run(["train", "--config", path, "--out", broken], (LOG, first + 3, "kill"))
    assert killed.status == -signal.SIGKILL
    resumed = server.run(["train", "--resume", "--out", broken])
    assert resumed.status == 0, resumed.output
    assert "going on after step 2" in resumed.output
    assert differences(broken, whole) == []


def test_the_example_trains_on_mixed_levels():
    example = load_config(ROOT / "examples" / "mixed_levels.yaml")
    assert example.curriculum.kind == "target"
    assert example.env.level > 1
