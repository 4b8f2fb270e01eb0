"""No command writes over a file that is there, unless --force says so."""

from __future__ import annotations

import json
import shutil

import pytest

from rlvr.cli import main
from rlvr.envs.core.files import is_as_written

MINE = "my own notes, without a line break at the end"


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    file = tmp_path_factory.mktemp("played") / "a.jsonl"
    assert (
        main(
            [
                "eval",
                "--env",
                "GuessNumber",
                "--split",
                "train",
                "--agent",
                "expert",
                "--episodes",
                "2",
                "--out",
                str(file),
            ]
        )
        == 0
    )
    return file


COMMANDS = {
    "regrade": (["regrade", "EPISODES", "--out"], "x.jsonl"),
    "table.md": (["table", "EPISODES", "--out"], "x.md"),
    "table.html": (["table", "EPISODES", "--out"], "x.html"),
    "export": (["export", "EPISODES", "--out"], "x.jsonl"),
    "export openai": (["export", "EPISODES", "--format", "openai", "--out"], "x.jsonl"),
    "export atif": (["export", "EPISODES", "--format", "atif", "--out"], "x.jsonl"),
    "export --expert": (["export", "--expert", "GuessNumber", "--episodes", "2", "--out"], "x.jsonl"),
    "view": (["view", "EPISODES", "--export"], "x.html"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_is_there_stays_unless_it_is_forced(name, episodes, tmp_path, capsys):
    words, file = COMMANDS[name]
    command = [str(episodes) if word == "EPISODES" else word for word in words] + [str(tmp_path / file)]
    (tmp_path / file).write_text(MINE, encoding="utf-8")
    assert main(command) == 2
    assert "exists, and is not overwritten: give another name, or --force" in capsys.readouterr().err
    assert (tmp_path / file).read_text(encoding="utf-8") == MINE
    assert main([*command, "--force"]) == 0
    first = (tmp_path / file).read_bytes()
    assert MINE.encode() not in first
    if is_as_written(tmp_path / file):  # where the file system keeps notes
        assert main(command) == 0  # what a command wrote is written anew
    (tmp_path / file).write_bytes(first + b"\n")
    assert main(command) == 2  # until somebody changes it
    (tmp_path / file).write_bytes(b"")
    assert main(command) == 0
    assert (tmp_path / file).stat().st_size


@pytest.mark.parametrize("words", [["regrade", "F", "--out", "F"], ["export", "F", "--out", "F"]])
def test_what_is_read_is_not_written_over_even_with_force(words, episodes, tmp_path, capsys):
    mine = shutil.copy(episodes, tmp_path / "a.jsonl")
    before = mine.read_bytes()
    assert main([str(mine) if word == "F" else word for word in words] + ["--force"]) == 2
    assert "give another --out" in capsys.readouterr().err
    assert mine.read_bytes() == before


def test_a_link_is_not_written_through(episodes, tmp_path):
    (tmp_path / "mine").write_text(MINE, encoding="utf-8")
    (tmp_path / "x.md").symlink_to(tmp_path / "mine")
    assert main(["table", str(episodes), "--out", str(tmp_path / "x.md")]) == 2
    assert main(["table", str(episodes), "--out", str(tmp_path / "x.md"), "--force"]) == 0
    assert (tmp_path / "mine").read_text(encoding="utf-8") == MINE


@pytest.mark.parametrize("content", [MINE, f"{MINE}\n", f"one\n{MINE}", '{"no": "episode"}\n', '{"no": "episode"'])
def test_an_evaluation_does_not_cut_or_continue_a_file_of_somebody_else(content, tmp_path, capsys):
    mine = tmp_path / "notes.jsonl"
    mine.write_text(content, encoding="utf-8")
    assert main(["eval", "--env", "GuessNumber", "--agent", "expert", "--episodes", "1", "--out", str(mine)]) == 2
    assert "episode" in capsys.readouterr().err
    assert mine.read_text(encoding="utf-8") == content


def test_the_options_beside_a_record_are_not_written_over_somebody_elses(tmp_path, capsys):
    beside = tmp_path / "a.jsonl.options.json"
    beside.write_text(MINE, encoding="utf-8")
    command = ["eval", "--env", "GuessNumber", "--agent", "expert", "--episodes", "1", "--out"]
    assert main([*command, str(tmp_path / "a.jsonl")]) == 2
    assert "does not hold the options of an evaluation" in capsys.readouterr().err
    assert beside.read_text(encoding="utf-8") == MINE


def test_a_launch_writes_over_an_earlier_launch_alone(tmp_path, capsys):
    config, folder = tmp_path / "c.yaml", tmp_path / "out"
    config.write_text(json.dumps({"env": {"id": "rlvr/Countdown-v0"}, "model": {"name": "some/model"}, "steps": 1}))
    folder.mkdir()
    (folder / "train.jsonl").write_text(MINE, encoding="utf-8")
    command = ["launch", "prime-rl", str(config), "--out", str(folder)]
    assert main(command) == 2
    assert "what no launch wrote" in capsys.readouterr().err
    assert (folder / "train.jsonl").read_text(encoding="utf-8") == MINE


def test_a_report_is_written_over_a_report_alone(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("steps: 0\n", encoding="utf-8")
    (run / "report.html").write_text(MINE, encoding="utf-8")
    assert main(["report", str(run)]) == 2
    assert "report.html exists, and is not overwritten" in capsys.readouterr().err
    assert main(["report", str(run), "--force"]) == 0
    assert main(["report", str(run)]) == 0
