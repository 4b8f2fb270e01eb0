"""The configs for pretrained models: each is complete, and begins with a small model in place of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr
from rlvr.agents.models.tiny import build_tiny
from rlvr.algorithms import load_config
from rlvr.cli import main

from ..architecture import ROOT

CONFIGS = sorted((ROOT / "examples" / "real").glob("*.yaml")) + sorted((ROOT / "examples" / "published").glob("*.yaml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("model") / "tiny", hidden=16, layers=1, max_positions=4_096)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_begins(config: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    env_id = load_config(config).env.id
    if env_id not in gym.registry:
        pytest.skip(f"{env_id} needs its package: docs/bridges.md")
    command = ["train", "--config", str(config), "--model.name", str(folder), "--out", str(tmp_path / "run")]
    assert main([*command, "--model.device", "cpu", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "learning rate " in said
    assert "nothing was played" in said


def test_each_says_its_command_and_what_is_published():
    assert rlvr.envs
    for config in CONFIGS:
        lines = [line for line in config.read_text().splitlines() if line.startswith("#")]
        assert f"#   rlvr train --config {config.relative_to(ROOT)}" in lines
        if config.parent.name == "published":
            assert "Published: " in " ".join(lines)
            assert "Not run by us." in " ".join(lines)
        else:
            assert load_config(config).model.name == "models/smollm2"


def test_the_curves_are_tabled_as_they_were_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import real_models

    def row(seed: int, before: list[float], after: list[float]) -> dict[str, Any]:
        ways = {name: {"sampled": each, "greedy": each} for name, each in (("before", before), ("after", after))}
        return {"task": "sums", "seed": seed, "tokens": 1000 + seed, "cpu_seconds": 500} | ways

    rows = [row(0, [0.1, 0.05, 0.2], [0.6, 0.5, 0.7]), row(2, [0.3, 0.2, 0.4], [0.45, 0.35, 0.55])]
    text = real_models.table({"rows": rows, "zero_shot": {"sums": {"sampled": [0.0, 0.0, 0.06]}}})
    (line,) = [line for line in text.splitlines() if line.startswith("| sums |")]
    assert "| 2 | 0.00 (0.00 to 0.06) | 0.10 (0.05 to 0.20); 0.30 (0.20 to 0.40) |" in line
    assert "| 1 of 2 | 1,001 | 500 |" in line
    assert "| calculator, gspo | none yet |" in text
    assert all(real_models.config_of(task).is_file() for task in real_models.TASKS)
    for name in {stem for stem, _ in real_models.TASKS.values()}:
        assert (ROOT / "examples" / "real" / f"{name}.yaml").is_file()
    assert real_models.folder_of(Path("runs"), "calculator, LoRA 16", 1) == Path("runs/calculator-LoRA-16-1")


def test_self_play_is_measured_by_matches_with_a_random_player(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import real_models

    scores = {"random": {"not_lost": 0.75, "matches": 64}}
    share, low, high = real_models.not_lost({"panel": {"sampled": scores}}, "sampled")
    assert share == 0.75
    assert 0.62 < low < 0.64
    assert 0.83 < high < 0.85


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import real_models

    monkeypatch.setattr(real_models, "RESULTS", tmp_path / "none.json")
    monkeypatch.setattr(sys, "argv", ["real_models.py", "--dry-run", "--tasks", "sums", "gsm8k", "--seeds", "1", "0"])
    assert real_models.main() == 0
    assert capsys.readouterr().out.split(os.linesep)[:4] == [
        "sums, seed 1", "gsm8k, seed 1", "sums, seed 0", "gsm8k, seed 0",
    ]  # fmt: skip
