"""`rlvr plan --measure`: real steps of a run, and the whole run if the rest is like them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlvr.algorithms.config import to_yaml
from rlvr.algorithms.train.measure import Measured, Seconds, describe_measured, measure, predict
from rlvr.cli import main

from .runs import CALCULATOR, small


def test_a_run_is_the_sum_of_its_parts(tmp_path: Path):
    config = small(tmp_path, steps=10, evaluation={"every": 4, "episodes": 5}, overrides={"kl_coef": 0.0})
    measured = Measured(
        Seconds(3, 2), Seconds(10, 9), Seconds(0.2, 0.1), Seconds(0.02, 0.01), reply=20, length=50, demonstrated=8,
        signal=0.25,
    )  # fmt: skip
    parts = predict(config, measured)
    assert parts["start"] == Seconds(3, 2)
    assert parts["warm start"].cpu == 9
    assert parts["sampling"].cpu == pytest.approx(0.1 * 8 * 160)  # 10 steps of 16 episodes, as long as the expert's
    assert parts["updates"].cpu == pytest.approx(0.01 * 38 * 160 / 2)  # half of the groups
    assert parts["evaluations"].cpu == pytest.approx(0.1 * 8 * 5 * 2 * 4)  # before, after and after steps 4 and 8
    penalised = predict(small(tmp_path, steps=10, overrides={"kl_coef": 0.1}), measured)
    assert penalised["updates"].cpu == pytest.approx(4 / 3 * 0.01 * 38 * 160), "every group has the gradient of the KL"
    alone = predict(config, replace(measured, demonstrated=0))
    assert alone["sampling"].cpu == pytest.approx(0.1 * 20 * 160)
    assert alone["updates"].cpu == pytest.approx(0.01 * 50 * 160 / 4)
    total = sum(parts.values(), Seconds())
    assert f"{total.cpu:,.1f}" in describe_measured(config, measured).splitlines()[-1]


def test_steps_are_taken_and_nothing_is_left(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    config = small(tmp_path / "run", steps=3)
    measured = measure(config)
    assert min(measured.sampled.cpu, measured.updated.cpu, measured.warm_start.cpu, measured.setup.cpu) > 0
    assert 0 < measured.demonstrated < 128
    assert 0 <= measured.signal <= 1
    assert 0 < measured.reply < measured.length <= 128
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert main(["plan", str(tmp_path / "config.yaml"), "--measure", "--steps", "5"]) == 0
    assert "the whole run" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    assert not list((tmp_path / "scratch").iterdir())


def test_replies_are_as_long_as_the_warm_start_leaves_them(tmp_path: Path):
    def demonstrated(**warm_start: float) -> float:
        settings = {"steps": 0, "mixed_steps": 0, "batch_size": 16, **warm_start}
        return measure(small(tmp_path / "run", env={"id": CALCULATOR}, warm_start=settings)).demonstrated

    assert demonstrated() == 0
    worked = demonstrated(steps=1, mixed_steps=1, direct_answer_share=0.9)
    assert 0 < demonstrated(mixed_steps=1, direct_answer_share=1.0) < worked / 1.5
