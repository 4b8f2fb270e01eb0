"""Tasks as folders of Harbor: a solution gets 1, nothing and cheats get 0, and a fault of the verifier is no reward.

Harbor itself runs such folders in `test_harbor_package.py`. Here `played` does what Harbor does, in two roots of
bubblewrap: the agent's, and one that only the files of ``/app`` reach, by a tar archive that is unpacked with Python's
``data`` filter.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import pytest

from rlvr.adapters.export.harbor import NoForm, _write, harbor_task, write_tasks
from rlvr.cli import main
from rlvr.envs.agentic.terminal import TerminalState, chore_of

from .harbor_roots import CHEATS, PROGRAMS, needs_roots, rooted

TERMINAL, REPAIR, TESTS = "rlvr/Terminal-v0", "rlvr/CodeRepair-v0", "rlvr/CodeTests-v0"
ORACLE = "bash /solution/solve.sh"


class Played(NamedTuple):
    """The reward, None without a file of it; what the agent printed; the verifier's folder of logs."""

    reward: float | None
    printed: str
    logs: Path


def played(task: Path, at: Path, command: str) -> Played:
    """Run a command in the agent's root of a task, then the verifier in its own; ``at`` is a new folder."""
    logs, tests, local = at / "logs", at / "tests", at / "local"
    for folder in (logs / "agent", logs / "verifier", local, at / "received"):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    shutil.copytree(task / "environment" / "workspace", at / "app")
    shutil.copytree(task / "tests", tests)
    binds = {at / "app": "/app", task / "solution": "/solution", logs / "agent": "/logs/verifier"}
    shown = rooted(command, binds | {local: "/usr/local/bin"}, "/app")
    moved = io.BytesIO()
    with tarfile.open(fileobj=moved, mode="w") as tar:
        tar.add(at / "app", arcname="app")
    moved.seek(0)
    with tarfile.open(fileobj=moved) as tar:
        for entry in tar:
            with contextlib.suppress(tarfile.FilterError):  # links that lead out are left behind
                tar.extract(entry, at / "received", filter="data")
    at.chmod(0o755)
    binds = {at / "received" / "app": "/app", tests: "/tests", logs / "verifier": "/logs/verifier"}
    judging = rooted("bash /tests/test.sh", binds, "/app")
    written = logs / "verifier" / "reward.json"
    if written.exists():
        return Played(json.loads(written.read_text())["reward"], shown.stdout, logs / "verifier")
    written = logs / "verifier" / "reward.txt"
    reward = float(written.read_text()) if written.exists() else None
    return Played(reward, shown.stdout + judging.stderr, logs / "verifier")


def folders(out: Path, env_id: str, count: int = 8, **settings: Any) -> list[Path]:
    write_tasks(env_id, out, count, **settings)
    return sorted(out.iterdir())


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in files}


# the folders


@pytest.mark.parametrize("env_id", [TERMINAL, REPAIR, TESTS])
def test_a_folder_says_its_task_and_is_the_same_every_time(tmp_path: Path, env_id: str) -> None:
    first = folders(tmp_path / "a", env_id, 3, level=2, seed=5)
    again = folders(tmp_path / "b", env_id, 3, level=2, seed=5)
    assert [contents(folder) for folder in first] == [contents(folder) for folder in again]
    assert first
    for folder in first:
        config = tomllib.loads((folder / "task.toml").read_text())
        assert config["schema_version"] == "1.4"
        assert config["artifacts"] == ["/app"]
        assert config["verifier"]["environment_mode"] == "separate"
        spec = config["metadata"]["rlvr"]
        assert (spec["id"], spec["level"], spec["seed"], spec["split"]) == (env_id, 2, 5, "train")
        assert {"instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh"} <= set(
            contents(folder)
        )
        env = gym.make(env_id, level=2)
        question, _ = env.reset(seed=5, options={"index": spec["index"]})
        env.close()
        asked = (folder / "instruction.md").read_text().partition("Work in /app")[0].strip()
        assert asked in question or (folder / "instruction.md").read_text().split("```")[1].split("\n")[1] in question


def test_what_the_verifier_expects_is_in_its_own_folder_alone(tmp_path: Path) -> None:
    for folder in folders(tmp_path / "out", TESTS, 3):
        expected = json.loads((folder / "tests" / "expected.json").read_text())
        seen = (folder / "instruction.md").read_bytes() + b"".join(
            path.read_bytes() for path in (folder / "environment").rglob("*") if path.is_file()
        )
        hidden = [test for test in expected["tests"] if repr(test["calls"][0]["args"][0]).encode() not in seen]
        assert len(hidden) >= 8
        assert b"return" not in seen.partition(b"solution.py")[2].partition(b"FROM")[2]


def test_the_test_split_is_written_only_when_it_is_asked_for(tmp_path: Path) -> None:
    asked = ["export", "--harbor", "CodeTests", "--episodes", "3"]
    assert main([*asked, "--out", str(tmp_path / "a")]) == 0
    assert main([*asked, "--split", "test", "--out", str(tmp_path / "b")]) == 0
    for name, split in (("a", "train"), ("b", "test")):
        configs = [tomllib.loads(path.read_text()) for path in (tmp_path / name).glob("*/task.toml")]
        assert [config["metadata"]["rlvr"]["split"] for config in configs] == [split] * 3


def test_tasks_that_harbor_cannot_hold_are_counted(tmp_path: Path, capsys: Any) -> None:
    assert (
        main(["export", "--harbor", "Terminal", "--level", "2", "--episodes", "24", "--out", str(tmp_path / "a")]) == 0
    )
    printed = capsys.readouterr().out
    count = len(list((tmp_path / "a").iterdir()))
    assert f"{count} of 24 tasks" in printed
    assert 0 < count < 24
    assert "about background programs" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--harbor", "Countdown"], "has no form"),
        (["--harbor", "CodeTests", "--success"], "--success is for episodes"),
        (["--harbor", "CodeTests", "--format", "atif"], "--format is for episodes"),
        (["--harbor", "CodeTests", "--expert", "CodeTests"], "--harbor ID"),
        (["--harbor", "CodeTests", "--episodes", "0"], "at least 1"),
    ],
)
def test_bad_input_is_a_sentence_and_writes_nothing(
    tmp_path: Path, capsys: Any, words: list[str], message: str
) -> None:
    assert main(["export", *words, "--out", str(tmp_path / "out")]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["export", "--harbor", "CodeTests", "--out", str(tmp_path)]) != 0
    assert "no empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


# what they pay


@needs_roots
@pytest.mark.parametrize(("env_id", "level"), [(TERMINAL, 1), (TERMINAL, 2), (REPAIR, 1), (TESTS, 5)])
def test_the_solution_gets_1_and_nothing_gets_0(tmp_path: Path, env_id: str, level: int) -> None:
    task = folders(tmp_path / "out", env_id, level=level)[0]
    assert played(task, tmp_path / "oracle", ORACLE).reward == 1
    assert played(task, tmp_path / "nothing", "true").reward == 0


@needs_roots
@pytest.mark.slow
@pytest.mark.parametrize("level", range(1, 4))
def test_chores_are_paid_right_or_left_out(tmp_path: Path, level: int) -> None:
    for seed in range(30):
        state = TerminalState(level, seed, "")
        chore = chore_of(state)
        try:
            task = harbor_task(state)
        except NoForm:
            presses = [each for each in chore.commands if not isinstance(each, str)]
            assert chore.daemons or chore.modes or chore.setup or chore.trials or chore.databases or presses
            continue
        spec = {"id": TERMINAL, "split": "train", "level": level, "seed": seed, "index": 0, "settings": "{}"}
        _write(tmp_path / "out", spec, task)
        folder = tmp_path / "out" / f"terminal-train-level{level}-seed{seed}-000000"
        assert played(folder, tmp_path / f"{seed}-1", ORACLE).reward == 1, chore.text
        assert played(folder, tmp_path / f"{seed}-0", "true").reward == 0, chore.text


@needs_roots
@pytest.mark.parametrize(
    ("command", "proof"),
    CHEATS.values(),
    ids=CHEATS,
)
def test_what_the_agent_changes_beside_its_work_earns_nothing(tmp_path: Path, command: str, proof: str) -> None:
    for env_id in (TERMINAL, REPAIR):
        task = folders(tmp_path / env_id[5:9], env_id)[0]
        found = played(task, tmp_path / f"{env_id[5:9]}-cheat", command)
        assert found.reward == 0
        assert proof in found.printed  # the cheat was carried out


@needs_roots
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_cheats_while_it_is_judged_gets_0(tmp_path: Path, program: str) -> None:
    task = folders(tmp_path / "out", TESTS)[0]
    entry = json.loads((task / "tests" / "expected.json").read_text())["entry"]
    (task / "solution" / "cheat.py").write_text(program.format(entry=entry))
    found = played(task, tmp_path / "cheat", "cp /solution/cheat.py solution.py")
    assert found.reward == 0
    assert (found.logs / "proof.txt").read_text() == "PermissionError"  # it ran, and could write there


@needs_roots
def test_a_fault_of_the_verifier_is_no_reward(tmp_path: Path) -> None:
    task = folders(tmp_path / "out", TESTS)[0]
    expected = task / "tests" / "expected.json"
    expected.write_text(expected.read_text()[:-20])
    assert played(task, tmp_path / "broken", ORACLE).reward is None


@needs_roots
def test_links_out_of_the_workspace_are_not_read(tmp_path: Path) -> None:
    """A file that is asked for is the agent's own, not one of the verifier's that a link leads to."""
    task = folders(tmp_path / "out", TESTS)[0]
    assert played(task, tmp_path / "link", "rm solution.py; ln -s /solution/solve.sh solution.py").reward == 0
