"""`rlvr eval` keeps its episodes without being told to, says where, and writes over nothing."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvr.agents import ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.evaluation import read_episodes
from rlvr.cli import eval as cli_eval
from rlvr.cli import main

EVAL = ["eval", "--env", "Countdown", "--agent", "expert", "--episodes", "3"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As for a user: nobody has said where results go."""
    monkeypatch.delenv("RLVR_RESULTS")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / "eval"


def test_episodes_are_kept_and_it_is_said_where(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(EVAL) == 0
    captured = capsys.readouterr()
    [named] = re.findall(r"^the episodes are in (.+)$", captured.out, re.MULTILINE)
    assert captured.err == ""
    assert re.fullmatch(r"runs/eval/\d{8}-\d{6}-Countdown-v0-expert\.jsonl", named)
    assert len(read_episodes(Path(named))) == 3
    assert (folder / ".gitignore").read_text() == "*\n"
    before = Path(named).read_bytes()
    assert main([*EVAL, "--out", named]) == 0  # goes on with it: there is nothing left to play
    assert Path(named).read_bytes() == before


def test_nothing_is_written_over(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "strftime", lambda form: "20260102-030405")
    for _ in range(3):
        assert main(EVAL) == 0
    names = sorted(path.name for path in folder.glob("*.jsonl"))
    assert names == [f"20260102-030405-Countdown-v0-expert{end}.jsonl" for end in ("-2", "-3", "")]
    assert all(len(read_episodes(folder / name)) == 3 for name in names)


def test_json_names_the_file_and_holds_nothing_else(capsys: pytest.CaptureFixture[str]):
    assert main([*EVAL, "--json"]) == 0
    captured = capsys.readouterr()
    [result] = json.loads(captured.out)
    assert len(read_episodes(Path(result["out"]))) == 3
    assert captured.err == ""


def test_several_agents_have_a_file_each(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main([*EVAL, "--agent", "empty", "--env", "Calculator"]) == 0
    assert len(re.findall(r"^the episodes are in (.+)$", capsys.readouterr().out, re.MULTILINE)) == 2
    assert [len(read_episodes(path)) for path in sorted(folder.glob("*.jsonl"))] == [6, 6]


@pytest.mark.parametrize("named", ["", "elsewhere"])
def test_a_variable_says_where_and_whether(named: str, folder: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("RLVR_RESULTS", named)
    (tmp_path / "elsewhere").mkdir()
    assert main(EVAL) == 0
    assert not folder.exists()
    kept = [path.suffix for path in sorted((tmp_path / "elsewhere").iterdir())]
    assert kept == ([".jsonl", ".json"] if named else [])  # no .gitignore in a folder of the user's
    assert ("the episodes are in elsewhere" in capsys.readouterr().out) == bool(named)


def test_where_nothing_can_be_written_it_is_said_and_the_episodes_are_played(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("RLVR_RESULTS", "file")
    assert main(EVAL) == 0
    captured = capsys.readouterr()
    assert "success 3/3" in captured.out
    assert captured.err == "rlvr: the episodes are not kept, file: Not a directory; --out FILE keeps them elsewhere\n"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert main(EVAL) == 0
    assert "Permission denied" in capsys.readouterr().err


def test_an_evaluation_that_plays_nothing_leaves_nothing(folder: Path):
    assert main([*EVAL, "--dry-run"]) == 0
    assert not folder.exists()
    assert main([*EVAL[:2], "rlvr/GSM8K-v0", *EVAL[3:], "--set", "data_files=/no/such"]) != 0
    assert not folder.exists() or not list(folder.glob("*.json*"))


def test_progress_is_told_where_there_is_no_terminal(monkeypatch, capfd):
    monkeypatch.setattr(cli_eval, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(sys, "__stderr__", os.fdopen(os.dup(2), "w"))
    rollout = Rollout("rlvr/Countdown-v0", ExpertAgent())
    requests = [RolloutRequest(seed=0, index=index) for index in range(4)]
    progress = cli_eval.EvaluationProgress([(rollout, requests)], None)
    for episode in rollout(requests[:2]):
        progress.take(episode)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition("  success")[0] for line in lines] == [f"rlvr: rlvr/Countdown-v0  {n}/4" for n in (1, 2)]


def test_an_interruption_says_how_to_go_on(tmp_path: Path):
    script = """
import signal, sys, os
import rlvr.cli.eval as record
from rlvr.cli import main
take = record.EvaluationProgress.take
def interrupt(self, episode):
    take(self, episode)
    raise KeyboardInterrupt
record.EvaluationProgress.take = interrupt
sys.exit(main(sys.argv[1:]))
"""
    ended = subprocess.run([sys.executable, "-c", script, *EVAL], capture_output=True, text=True, check=False)
    [named] = re.findall(r"they are in (\S+), which --out \1 goes on with", ended.stdout)
    assert ended.returncode == 130
    assert len(read_episodes(tmp_path / named)) == 1
