"""A task as JSON is the same task elsewhere; rows name their task in every format, and never its answer."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.adapters import EpisodeSession, TaskSpec, grade, initial_messages, read_spec, rows, write_rows
from rlvr.adapters import testing as kit
from rlvr.adapters.rows import FORMATS
from rlvr.adapters.versions import numbers, require

GENERATED, TABLE, MULTI = "rlvr/WordProblems-v0", "rlvr/GSM8K-v0", "rlvr/GuessNumber-v0"

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(st.integers(0, 2**40), st.dictionaries(st.text(max_size=5), PLAIN, max_size=3))
def test_a_spec_comes_back_equal(seed, kwargs):
    spec = TaskSpec("rlvr/X-v0", seed, kwargs=kwargs, options={"index": 3})
    assert TaskSpec.parse(spec.to_json()) == spec == TaskSpec.parse(json.loads(spec.to_json()))
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_spec_rebuilds_its_task_in_another_process():
    table = rows(GENERATED, 2, seed=3, kwargs={"level": 2})
    code = "import sys; from rlvr.adapters import TaskSpec; print(TaskSpec.parse(sys.argv[1]).start()[1], end='')"
    done = subprocess.run([sys.executable, "-c", code, table[1]["spec"]], capture_output=True, text=True, check=True)
    assert done.stdout == table[1]["prompt"][-1]["content"]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("not json", ValueError),
        ("[1]", ValueError),
        ({"env_id": "x"}, ValueError),
        ({"env_id": "x", "seed": 0, "typo": 1}, ValueError),
        ({"env_id": "x", "seed": "0"}, TypeError),
        ({"env_id": "x", "seed": 0, "kwargs": {"f": print}}, TypeError),
        ({"env_id": "x", "seed": 0, "kwargs": {"x": float("nan")}}, TypeError),
    ],
)
def test_what_is_no_spec(value, error):
    with pytest.raises(error):
        TaskSpec.parse(value)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("env_id", [GENERATED, TABLE, MULTI])
def test_every_format_names_its_task_and_shows_its_prompt(format, env_id, tmp_path):
    table = rows(env_id, 3, format, seed=1, group_size=2)
    assert len(table) == 6
    for path in (tmp_path / "rows.jsonl", tmp_path / "rows.parquet"):
        for row, back in zip(table, read(write_rows(table, path)), strict=True):
            assert read_spec(back) == read_spec(row)
            _, observation, info = read_spec(back).start()
            assert contents(row)[-1] == observation
            assert set(contents(row)) <= {observation, info.get("system")}
    specs = [read_spec(row).to_json() for row in table]
    assert specs[::2] == specs[1::2]
    assert len(set(specs)) == 3


def contents(row):
    messages = row.get("prompt") or row.get("input") or row["responses_create_params"]["input"]
    if isinstance(messages, str):
        return [messages]
    return [message["content"] for message in messages]


def read(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).to_pylist()


def test_the_rows_are_a_data_set():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list(rows(MULTI, 4, "trl"))
    assert [read_spec(row).options["index"] for row in table] == [0, 1, 2, 3]
    assert read_spec({"prompt": table[2]["prompt"]}) == read_spec(table[2])


def test_no_answer_stands_in_a_row():
    for row in rows(TABLE, format="plain"):
        env, _, _ = read_spec(row).start()
        assert env.solve() not in json.dumps(row)


def test_a_table_gives_each_row_once_in_an_order_of_the_seed():
    size = gym.make(TABLE).unwrapped.size
    for seed in (0, 1):
        indices = [read_spec(row).options["index"] for row in rows(TABLE, seed=seed)]
        assert sorted(indices) == list(range(size))
    with pytest.raises(ValueError, match=f"has {size} tasks"):
        rows(TABLE, size + 1)


def test_other_seeds_other_tasks():
    first, second = ({row["prompt"][-1]["content"] for row in rows(GENERATED, 20, seed=seed)} for seed in (0, 1))
    assert len(first & second) <= 2


def test_an_environment_that_is_none_of_ours():
    class Coin(gym.Env):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return f"{self.np_random.integers(10**9)}", {}

        def step(self, action):
            return "", 2.0, True, False, {}

    gym.register("foreign-test/Coin-v0", lambda: Coin(), disable_env_checker=True)
    table = rows("sys:foreign-test/Coin-v0", 3)
    assert len({row["prompt"][0]["content"] for row in table}) == 3
    for row in table:
        assert read_spec(row).start()[1] == row["prompt"][0]["content"]
    assert grade(table[0]["spec"], "x").reward == 2.0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n": 0}, "n must be"),
        ({"n": 2, "group_size": 0}, "group_size must be"),
        ({"n": 2, "format": "typo"}, "none of plain"),
        ({}, "without end"),
        ({"n": 2, "single_turn": True}, "turns"),
    ],
)
def test_what_cannot_be_rows(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        rows(MULTI, **arguments)


def test_files_that_cannot_be_written(tmp_path, monkeypatch):
    table = rows(GENERATED, 1)
    with pytest.raises(ValueError, match="jsonl or"):
        write_rows(table, tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="no rows"):
        write_rows([], tmp_path / "rows.jsonl")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"rlvr\[hub\]"):
        write_rows(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="names no task"):
        read_spec({"prompt": [{"role": "user", "content": "?"}]})


def test_single_turns_are_graded_and_several_refused_unless_asked_for():
    spec = read_spec(rows(GENERATED, 1)[0])
    assert grade(spec, spec.start()[0].solve()).success
    assert grade(spec, "\udce4" * 1000).reward == 0.0
    with pytest.raises(ValueError, match="max_turns"):
        grade(rows(MULTI, 1)[0]["spec"], "7")
    assert grade(rows(MULTI, 1, kwargs={"max_turns": 1})[0]["spec"], "no number").reward == 0.0


def test_a_session_is_direct_stepping():
    spec = read_spec(rows(MULTI, 1, seed=2)[0])
    session, (env, observation, info) = EpisodeSession(spec), spec.start()
    assert session.messages == initial_messages(observation, info)
    assert [m["role"] for m in EpisodeSession(spec, use_system=False).messages] == ["user"]
    earned = 0.0
    while not session.done:
        action = env.solve()
        observation, reward, terminated, truncated, info = env.step(action)
        message, earned = session.step(action), earned + reward
        assert message is None if terminated or truncated else message["content"] == observation
    assert (session.reward, session.verdict, session.valid) == (earned, info["verdict"], True)
    with pytest.raises(ValueError, match="over"):
        session.step("7")
    session.close()


@pytest.mark.parametrize("fault", kit.FAULTS)
def test_a_broken_environment_ends_its_session_alone(fault):
    session = EpisodeSession(kit.say_specs(1, fault=fault)[0])
    while not session.done:
        session.step("x")
    assert not session.valid
    assert session.reward == 0.0
    assert "on purpose" in session.verdict.reason


def test_versions():
    assert numbers("1.16.0rc1+cpu") == numbers("1.16") == (1, 16)
    assert numbers("1.9") < numbers("1.16")
    assert require("gymnasium", "1.0", "99")
    with pytest.raises(ImportError, match=r"not installed.*pip install 'no-such-framework>=1,<2'"):
        require("no-such-framework", "1", "2")
    with pytest.raises(ImportError, match="too old"):
        require("gymnasium", "98", "99")
    with pytest.warns(RuntimeWarning, match="newer"):
        require("gymnasium", "0.1", "0.2")
