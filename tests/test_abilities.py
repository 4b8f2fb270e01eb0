"""The table of what a model can do: measured with the tiny policy, killed and begun again, and written into a page."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .architecture import ROOT

PROGRAM = ROOT / "benchmarks" / "abilities.py"


@pytest.fixture(scope="module")
def abilities() -> ModuleType:
    spec = importlib.util.spec_from_file_location("abilities", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(out: Path, *arguments: str) -> list[dict[str, Any]]:
    """The rows that one command printed."""
    command = [sys.executable, str(PROGRAM), "--model", "rlvr/tiny", "--out", str(out), "--episodes", "16"]
    command += ["--steps", "2", "--batch-size", "2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_each_stage_is_measured_once_and_stands_on_the_page(tmp_path: Path):
    pytest.importorskip("peft")
    (tmp_path / "cards.md").write_text("# Cards\n\nwhat cards.py wrote\n")
    rows = measure(tmp_path, "--ids", "GuessNumber", "rlvr/Sums-v0")
    assert {(row["id"], row["stage"]) for row in rows} == {
        (f"rlvr/{name}-v0", stage)
        for name in ("GuessNumber", "Sums")
        for stage in ("zero-shot", "two-shot", "imitation")
    }
    for row in rows:
        assert (row["episodes"], row["tasks"], row["level"], row["model"]) == (16, 2, 1, "tiny")
        assert 0 <= row["low"] <= row["success"] <= row["high"] <= 1
        assert all(0 <= row[name] <= 1 for name in ("varied", "unread", "cut", "invalid"))
        assert row["tokens"] <= row["turns"] * row["max_new_tokens"]
    page = (tmp_path / "cards.md").read_text()
    assert page.startswith("# Cards\n\nwhat cards.py wrote\n\n## What a real model can do\n")
    assert "| rlvr/Sums-v0 | 1 | 0.00 (0.00 to 0.66) |" in page
    stored = tmp_path / "abilities.jsonl"
    whole = stored.read_bytes()
    stored.write_bytes(whole[: whole.rindex(b'"reward"')])  # as a kill leaves it
    (again,) = measure(tmp_path, "--ids", "GuessNumber", "Sums", "--workers", "2")
    repeated = next(row for row in rows if (row["id"], row["stage"]) == (again["id"], again["stage"]))
    assert again | {"cpu_seconds": 0} == repeated | {"cpu_seconds": 0}
    assert (tmp_path / "cards.md").read_text() == page


def test_the_cheapest_of_each_family_come_first(abilities: ModuleType):
    rows = [
        {"id": name, "family": family, "level": level, "tokens": tokens, "turns": 1, "max_new_tokens": 24}
        for name, family, level, tokens in [("a", "x", 1, 9), ("b", "x", 1, 5), ("c", "y", 1, 7), ("d", "y", 2, 3)]
    ]
    assert [row["id"] for row in abilities.in_turn(rows)] == ["b", "c", "d", "a"]


def test_a_name_of_no_id_is_refused(abilities: ModuleType):
    assert abilities.ids(["Sums", "rlvr/GuessNumber-v0"]) == ["rlvr/GuessNumber-v0", "rlvr/Sums-v0"]
    with pytest.raises(SystemExit, match="no id is called Sum;"):
        abilities.ids(["Sum"])


def test_nothing_measured_adds_nothing_to_the_page(abilities: ModuleType, tmp_path: Path):
    assert abilities.section(tmp_path) == ""
