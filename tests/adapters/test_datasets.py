"""Tasks as data sets of the package datasets: through its files and back, splits, and graded replies."""

from __future__ import annotations

import builtins

import pytest

from rlvr.adapters import read_spec, rows
from rlvr.adapters.rows import FORMATS
from rlvr.adapters.trainers import datasets as adapter
from rlvr.envs import Verdict

SINGLE = "rlvr/WordProblems-v0"


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets")


def test_without_the_package_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "datasets":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"rlvr\[hub\]"):
        adapter.dataset(SINGLE, 2)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_rows_come_back_from_files_as_the_same_tasks(datasets, tmp_path, format, kind):
    table = adapter.dataset(SINGLE, 3, format, seed=4)
    path = str(tmp_path / f"rows.{kind}")
    getattr(table, f"to_{kind}")(path)
    load = getattr(datasets.Dataset, f"from_{kind}")
    back = load(path, cache_dir=str(tmp_path / "cache"))
    expected = rows(SINGLE, 3, format, seed=4)
    for row, original in zip(back, expected, strict=True):
        assert read_spec(row) == read_spec(original)


def test_a_multi_turn_environment_has_rows_too(datasets):
    table = adapter.dataset("rlvr/GuessNumber-v0", 4, group_size=2)
    assert table["group"][:] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table["prompt"][0] == table["prompt"][1]


def test_splits_share_no_task(datasets):
    found = adapter.splits(SINGLE, {"train": 20, "validation": 5, "test": 5}, kwargs={"level": 2})
    assert {split: len(table) for split, table in found.items()} == {"train": 20, "validation": 5, "test": 5}
    contents = {split: {read_spec(row).start()[0].content for row in table} for split, table in found.items()}
    assert not contents["train"] & contents["test"]
    assert not contents["train"] & contents["validation"]
    with pytest.raises(ValueError, match="keys of sizes"):
        adapter.splits(SINGLE, {"train": 1}, kwargs={"split": "test"})


def test_replies_are_graded_as_texts_and_as_messages(datasets):
    table = adapter.dataset(SINGLE, 4)
    solved = [read_spec(row).start()[0].solve() for row in table]
    replies = [solved[0], "no idea", solved[2], solved[0]]
    told = adapter.graded(table.add_column("completion", replies))
    assert told["reward"][:] == [1.0, 0.0, 1.0, float(solved[3] == solved[0])]
    assert told["status"][0] == "correct"
    assert all(told["reason"])
    messages = [[{"role": "assistant", "content": reply}] for reply in replies]
    again = adapter.graded(told.add_column("said", messages), "said")
    assert again["reward"][:] == told["reward"][:]
    assert again.column_names.count("reward") == 1


def test_what_is_not_the_policys_fault_is_none(datasets, monkeypatch):
    monkeypatch.setattr(adapter, "grade", lambda *_: Verdict(0.0, "timeout", reason="too slow"))
    told = adapter.graded(adapter.dataset(SINGLE, 2).add_column("completion", ["1", "2"]))
    assert told["reward"][:] == [None, None]
    assert told["status"][:] == ["timeout"] * 2


def test_bad_input(datasets):
    table = adapter.dataset(SINGLE, 2)
    with pytest.raises(ValueError, match="no column 'completion'; it has prompt"):
        adapter.graded(table)
    with pytest.raises(ValueError, match="names no task"):
        adapter.graded(datasets.Dataset.from_dict({"completion": ["1"]}))
    with pytest.raises(ValueError, match="turns"):
        adapter.graded(adapter.dataset("rlvr/GuessNumber-v0", 1).add_column("completion", ["1"]))
    with pytest.raises(ValueError, match="turns"):
        adapter.dataset("rlvr/GuessNumber-v0", 1, single_turn=True)
