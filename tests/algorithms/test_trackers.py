"""Trackers get what the files get; without their library the run says what to install before it begins."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rlvr.agents import Episode
from rlvr.algorithms.runs.trackers import Trackers, figures, push_policy
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, small

SHORT = {"steps": 2, "sampling": {"max_new_tokens": 4}, "warm_start": {"steps": 1, "mixed_steps": 0, "batch_size": 2}}


def test_figures_are_numbers_under_their_phase():
    record = {"phase": "train", "step": 3, "reward": 0.5, "denominators": {"tokens": 7, "aggregation": "x"}, "on": True}
    assert figures(record, {"step": 3, "seconds": 2.0}) == {
        "train/reward": 0.5,
        "train/denominators/tokens": 7.0,
        "time/seconds": 2.0,
    }


@pytest.mark.parametrize("name", ["trackio", "wandb", "tensorboard", "mlflow"])
def test_a_library_that_is_missing_is_named_before_anything_is_trained(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(ImportError, match=rf"{name} is not installed: pip install 'rlvr\[track\]'"):
        Trackers([name], tmp_path, {})
    with pytest.raises(ImportError, match="report_to"):
        Trainer(small(tmp_path / "run", report_to=name, **SHORT), Callback())


def test_time_is_split_and_an_upload_that_fails_costs_nothing(tmp_path: Path):
    callback = Callback()
    Trainer(small(tmp_path / "run", push_to_hub="me/mine", **SHORT), callback).run()
    assert any("me/mine" in text and str(tmp_path / "run" / "policy") in text for text in callback.said)
    assert (tmp_path / "run" / "policy" / "model.safetensors").exists()
    lines = [json.loads(line) for line in (tmp_path / "run" / "timing.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["phase"] == "train"]
    assert len(steps) == 2
    for line in steps:
        parts = [line[f"{part}_seconds"] for part in ("sample", "environment", "update", "sync")]
        assert all(part >= 0 for part in parts)
        assert 0 < sum(parts) <= line["seconds"]
        assert line["sample_seconds"] + line["environment_seconds"] == pytest.approx(line["collect_seconds"])
        assert line["episodes_per_second"] > 0
    assert "could not be uploaded" in push_policy(tmp_path / "run" / "policy", "me/mine")


@pytest.mark.foreign
def test_several_trackers_get_what_the_files_get(tmp_path: Path, monkeypatch):
    pytest.importorskip("tensorboard")
    mlflow = pytest.importorskip("mlflow")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    config = small(tmp_path / "run", report_to=["tensorboard", "mlflow"], **SHORT)
    Trainer(config, Callback()).run()
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("rlvr").experiment_id])
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params["steps"] == "2"
    assert run.data.params["sampling.max_new_tokens"] == "4"
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rewards = [line["reward"] for line in lines if line["phase"] == "train"]
    for points in (events.Scalars("train/reward"), client.get_metric_history(run.info.run_id, "train/reward")):
        assert [point.value for point in points] == pytest.approx(rewards)
        assert [point.step for point in points] == [1, 2]


@pytest.mark.foreign
def test_trackio_gets_the_episodes_that_are_kept_beside_the_figures(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read when it is imported
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    config = small(tmp_path / "run", report_to="trackio", episodes_every=1, **SHORT)
    Trainer(config, Callback()).run()
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    logged = SQLiteStorage.get_logs("rlvr", "run")
    rewards = [(each["step"], each["train/reward"]) for each in logged if "train/reward" in each]
    assert rewards == [(line["step"], line["reward"]) for line in lines if line["phase"] == "train"]
    Trainer(config.model_copy(update={"steps": 3}), Callback(), resume=True).run()
    (record,) = SQLiteStorage.get_run_records("rlvr")  # one that is gone on with is no second run
    logged = SQLiteStorage.get_logs("rlvr", record["name"], run_id=record["id"])
    assert [each["step"] for each in logged if "train/reward" in each] == [1, 2, 3]
    traces = SQLiteStorage.get_traces("rlvr", "run", limit=1_000)
    shown = [trace for trace in traces if trace["key"] == "episodes/train" and trace["step"] == 2]
    written = (tmp_path / "run" / "episodes" / "train-000002.jsonl").read_text().splitlines()
    kept = {episode.key: episode for episode in map(Episode.from_dict, map(json.loads, written))}
    assert {trace["metadata"]["key"] for trace in shown} == set(kept)
    for trace in shown:
        episode = kept[trace["metadata"]["key"]]
        assert trace["messages"] == [{name: each[name] for name in ("role", "content")} for each in episode.messages()]
        assert trace["metadata"]["reward"] == episode.reward
        assert trace["metadata"]["verdict"]["status"] == episode.verdict.status
