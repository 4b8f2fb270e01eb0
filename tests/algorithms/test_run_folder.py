"""The folder of a run: one writer, nothing overwritten, torn lines forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr.agents import ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.runs.run_folder import RunFolder, RunFolderError, read_jsonl
from rlvr.envs.core.files import write_whole

from ..children import start

HOLD = """
import sys
from pathlib import Path
from rlvr.algorithms.runs.run_folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
folder.write_config("steps: 1\\n")
print("held", flush=True)
sys.stdin.read()
"""


def begun(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.write_config("steps: 1\n")
    return folder


def test_a_new_folder_is_made_with_all_above_it(tmp_path: Path):
    RunFolder(tmp_path / "a" / "b").close()
    assert (tmp_path / "a" / "b").is_dir()


def test_a_second_run_is_refused(tmp_path: Path):
    begun(tmp_path / "run").close()
    with pytest.raises(RunFolderError, match=r"not empty.*--resume"):
        RunFolder(tmp_path / "run")


def test_a_folder_of_something_else_is_left_as_it_was(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("words")
    with pytest.raises(RunFolderError, match="not empty"):
        RunFolder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder(tmp_path / "run")


def test_only_a_run_can_be_gone_on_with(tmp_path: Path):
    with pytest.raises(RunFolderError, match="no run to go on with"):
        RunFolder(tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()
    begun(tmp_path / "run").close()
    RunFolder(tmp_path / "run", resume=True).close()


def test_a_run_killed_before_it_wrote_its_config_can_begin_again(tmp_path: Path):
    RunFolder(tmp_path).close()
    (tmp_path / ".config.yaml.draft").write_text("half a con")
    (tmp_path / "config.sha256").write_text("of a config that was never written")
    RunFolder(tmp_path).close()


@pytest.mark.parametrize("resume", [False, True])
def test_a_live_run_is_refused_with_its_process(tmp_path: Path, resume: bool):
    holder = start([sys.executable, "-c", HOLD, tmp_path / "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunFolderError, match=f"process {holder.pid} is writing"):
            RunFolder(tmp_path / "run", resume=resume)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    RunFolder(tmp_path / "run", resume=True).close()  # the lock of a dead process is no lock
    assert (tmp_path / "run" / "lock").read_text() == str(os.getpid())


def test_metrics_and_timing_are_apart_and_valid_json(tmp_path: Path):
    folder = begun(tmp_path)
    folder.log({"step": 1, "loss": float("nan"), "statuses": {"a": float("inf")}, "n": 2}, {"step": 1, "seconds": 0.5})
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    assert json.loads(folder.metrics.read_text(), **strict) == {
        "step": 1, "loss": None, "statuses": {"a": None}, "n": 2,
    }  # fmt: skip
    assert json.loads(folder.timing.read_text(), **strict) == {"step": 1, "seconds": 0.5}


def test_a_file_cut_anywhere_keeps_its_whole_lines_and_no_more(tmp_path: Path):
    folder = begun(tmp_path)
    for step in range(4):
        folder.log({"step": step, "loss": 0.1 + step, "name": "é"}, {"step": step, "seconds": 1 / 3})
    whole = folder.metrics.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(len(b"".join(lines[:2])), len(whole) + 1):
        folder.metrics.write_bytes(whole[:length])
        folder.keep_until(10)
        kept = folder.metrics.read_bytes()
        assert kept == b"".join(lines[: whole[:length].count(b"\n")])
    folder.keep_until(1)
    assert folder.metrics.read_bytes() == folder.metrics.read_bytes()
    assert [record["step"] for record in read_jsonl(folder.metrics)] == [0, 1]
    assert [record["step"] for record in read_jsonl(folder.timing)] == [0, 1]
    folder.keep_until(-1)
    assert read_jsonl(folder.metrics) == []


@pytest.mark.parametrize("line", ["{", "3", "[]", '{"phase": "train"}', "\0\0\0"])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str):
    folder = begun(tmp_path)
    folder.log({"step": 1}, {"step": 1})
    with folder.metrics.open("a") as file:
        file.write(line + "\n")
    folder.log({"step": 2}, {"step": 2})
    with pytest.raises(RunFolderError, match=r"line 2 of .*metrics\.jsonl"):
        folder.keep_until(2)


def test_a_file_is_written_whole_or_left_as_it_was(tmp_path: Path):
    path = tmp_path / "file"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \udc80")
    assert path.read_text() == "old"


def test_episodes_can_be_read_back(tmp_path: Path):
    folder = begun(tmp_path)
    episodes = Rollout("rlvr/Calculator-v0", ExpertAgent())([RolloutRequest(seed=1, index=index) for index in range(3)])
    folder.write_episodes("train-000001", episodes)
    assert read_episodes(tmp_path / "episodes" / "train-000001.jsonl") == episodes


# links that somebody left in the folder

PLACES = ["lock", "metrics.jsonl", "timing.jsonl", "config.yaml", "episodes", ".config.yaml.draft", "policy/model"]


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("name", PLACES)
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str, kind: str):
    """A folder to go on with comes from anybody; the control is the same folder without the link."""
    begun(tmp_path / "run").close()
    RunFolder(tmp_path / "run", resume=True).close()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link = tmp_path / "run" / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    getattr(link, kind)(victim)
    with pytest.raises(RunFolderError, match="link"):
        RunFolder(tmp_path / "run", resume=True)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_lock_in_an_empty_folder_is_no_way_out(tmp_path: Path, kind: str):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "run").mkdir()
    getattr(tmp_path / "run" / "lock", kind)(victim)
    with pytest.raises(RunFolderError, match="symbolic link"):
        RunFolder(tmp_path / "run")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_link_that_comes_later_is_not_followed_either(tmp_path: Path, kind: str):
    run = begun(tmp_path / "run")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "elsewhere").mkdir()
    getattr(run.metrics, kind)(victim)
    run.episodes.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        run.log({"step": 1}, {"step": 1})
    with pytest.raises(OSError, match="symbolic link"):
        run.write_episodes("train", [])
    run.close()
    assert victim.read_text() == "precious"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_pipe_holds_nobody_up(tmp_path: Path):
    begun(tmp_path / "run").close()
    os.mkfifo(tmp_path / "run" / "metrics.jsonl")
    with pytest.raises(RunFolderError, match="no plain file"):
        RunFolder(tmp_path / "run", resume=True)


def test_a_line_that_is_nested_deep_is_one_sentence(tmp_path: Path):
    for depth in (200, 100_000):
        (tmp_path / "metrics.jsonl").write_text('{"step": ' + "[" * depth + "]" * depth + "}\n")
        with pytest.raises(RunFolderError, match=r"line 1 of .*nested more than 100 deep"):
            read_jsonl(tmp_path / "metrics.jsonl")
    (tmp_path / "metrics.jsonl").write_text('{"step": ' + "[" * 50 + "]" * 50 + "}\n")
    assert read_jsonl(tmp_path / "metrics.jsonl")
