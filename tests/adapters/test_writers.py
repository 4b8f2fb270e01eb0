"""What is written for a user from Python: over no file but what was written so and nobody has changed since."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.adapters import rows, write_rows
from rlvr.adapters.export.files import digests_beside, write
from rlvr.adapters.rows import FORMATS
from rlvr.adapters.suites import lm_eval, nemo_gym
from rlvr.agents import ExpertAgent, Rollout, task_requests
from rlvr.envs.core.files import MARK, sha256_of
from rlvr.envs.tasks.digests import env_digest

ONE_TURN = "rlvr/Countdown-v0"
EPISODES = [episode for _, episode in Rollout(ONE_TURN, ExpertAgent()).stream(task_requests(None, 2, seed=0))]
NEMO = "resources_servers/rlvr"


def written_rows(suffix: str) -> Callable[..., Any]:
    return lambda folder, **force: write_rows(rows(ONE_TURN, 2), folder / f"rows{suffix}", **force)


def exported(name: str, form: str) -> Callable[..., Any]:
    return lambda folder, **force: write(EPISODES, folder / name, form, **force)


WRITERS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "rows": (written_rows(".jsonl"), ["rows.jsonl"]),
    "rows in parquet": (written_rows(".parquet"), ["rows.parquet"]),
    "lm_eval": (
        lambda folder, **force: lm_eval.export(ONE_TURN, 2, folder, name="task", **force),
        ["task.yaml", "task.jsonl"],
    ),
    "nemo_gym": (
        lambda folder, **force: nemo_gym.write_project(folder, ONE_TURN, 2, **force),
        [f"{NEMO}/{name}" for name in ("app.py", "requirements.txt", "configs/rlvr.yaml", "data/example.jsonl")],
    ),
    "chats": (exported("x.jsonl", "chat"), ["x.jsonl"]),
    "chats in parquet": (exported("x.parquet", "chat"), ["x.parquet"]),
    "openai": (exported("x.jsonl", "openai"), ["x.jsonl", "x.jsonl.digests.json"]),
    "atif": (exported("x.jsonl", "atif"), ["x.jsonl"]),
}


def keeps_marks(folder: Path) -> bool:
    try:
        (folder / "probe").touch()
        os.setxattr(folder / "probe", MARK, b"x")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("name", WRITERS)
def test_no_file_of_somebody_else_is_written_over(name: str, tmp_path: Path) -> None:
    writer, files = WRITERS[name]
    if any(file.endswith(".parquet") for file in files):
        pytest.importorskip("pyarrow")
    for file in files:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ValueError, match=r"exists, and is not overwritten: give another name, or force=True"):
            writer(tmp_path)
        assert path.read_text() == "mine"
        assert sorted(tmp_path.rglob("*")) == before
        path.unlink()
    first = tmp_path / files[0]
    first.parent.mkdir(parents=True, exist_ok=True)
    first.write_text("mine")
    writer(tmp_path, force=True)
    assert b"mine" not in first.read_bytes()
    if keeps_marks(tmp_path):
        writer(tmp_path)  # what was written so is written anew
        first.write_text("changed since")
        with pytest.raises(ValueError, match="is not overwritten"):
            writer(tmp_path)


def test_episodes_in_openai_s_form_have_their_digests_beside_them(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    assert write(EPISODES, out, "openai") == 2
    assert all(json.loads(line).keys() <= {"messages", "tools"} for line in out.read_text().splitlines())
    assert json.loads(digests_beside(out).read_text()) == {
        "file": "x.jsonl",
        "sha256": sha256_of(out),
        "tasks": [
            {"env_id": ONE_TURN, "split": "train", "env_digest": EPISODES[0].env_digest, "episodes": 2},
        ],
    }
    assert EPISODES[0].env_digest
    assert write([], tmp_path / "none.jsonl", "openai") == 0
    assert not digests_beside(tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_rows_for_other_trainers_say_what_they_are_of(form: str, tmp_path: Path) -> None:
    def digests(answer: str) -> set[str]:
        path = tmp_path / "rows.jsonl"  # another table under the same path
        path.write_text(f'{{"question": "6 * 7?", "answer": "{answer}"}}\n')
        settings = {"data_files": str(path), "grader": "number"}
        table = rows("rlvr/Dataset-v0", None, form, kwargs=settings)
        named = [row.get("env_digest") or (row.get("extra_info") or row.get("metadata"))["env_digest"] for row in table]
        assert named == [env_digest(gym.make("rlvr/Dataset-v0", **settings))]
        return set(named)

    assert digests("42").isdisjoint(digests("43"))
