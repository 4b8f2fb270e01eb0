"""The miniature of the command for a GPU runs on the CPU, each part of it, and what is required there holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .architecture import ROOT

QUICK = ROOT / "benchmarks" / "gpu" / "quick.py"


def quick(*arguments: str, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(QUICK), *arguments, "--small", "--device", "cpu", "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.slow
def test_the_miniature_checks_times_and_learns(tmp_path: Path):
    done = quick("--curves", str(ROOT / "examples" / "calculator.yaml"), out=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {figure["name"]: figure for figure in json.loads((tmp_path / "quick.json").read_text())["figures"]}
    assert {figure["part"] for figure in figures.values()} == {"checks", "times", "learns"}
    assert all(figure["right"] for figure in figures.values())
    measured = {name for name, figure in figures.items() if isinstance(figure["value"], float)}
    assert measured > {
        "float32 beside the CPU, gradient",
        "packed beside each alone, sdpa, torch.float32",
        "packed beside each alone, eager, torch.bfloat16",
        "sampler beside learner, torch.float32",
        "replies of 4 slots beside one batch, torch.float32",
        "replies without graphs beside those with, torch.float32",
        "a run that was stopped beside one that was not",
        "tiny, update, shared prompts, 220 tokens",
        "tiny, sampling, 4 at once",
        "tiny, without graphs, 4 at once",
        "tiny, generate(), 4 at once",
        "tiny, sampling beside generate(), 1 at once",
        "tiny, weights to a copy",
        "calculator, success, before sampled",
        "calculator, success, after sampled",
    }
    assert figures["a run that was stopped beside one that was not"]["value"] == 0.0
    for kernel in ("flex", "flash_attention_2"):
        assert "take sdpa" in figures[f"packed beside each alone, {kernel}, torch.float32"]["value"]
    page = (tmp_path / "quick.md").read_text()
    assert all(f"| {name} |" in page for name in figures)


@pytest.mark.slow
def test_where_the_time_is_over_the_rest_says_so_and_what_was_measured_stays(tmp_path: Path):
    done = quick("times", "--seconds", "0", out=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "quick.json").read_text())["figures"]
    assert figures
    assert {figure["value"] for figure in figures} == {"no time left"}
