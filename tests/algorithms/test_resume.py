"""Runs that are killed, interrupted or out of room: what they had is kept, and they end in the same bytes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlvr.algorithms.config import load_config
from rlvr.algorithms.runs.checkpoints import list_checkpoints
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train import interrupts
from rlvr.algorithms.train.interrupts import StopSignal

from .conftest import KINDS
from .runs import Ended, RunServer, content, differences

LOG = "rlvr.algorithms.runs.run_folder:RunFolder.log"
SYNC = "rlvr.algorithms.runs.checkpoints:_sync"
RENAME = "rlvr.algorithms.runs.checkpoints:Path.rename"
ACT = "rlvr.agents.models.transformers:TransformersAgent.act"
STEP = "rlvr.algorithms.learner.optimiser:Optimiser.step"
EPISODES = "rlvr.agents.evaluation:write_episodes"
SAVE = "rlvr.algorithms.train.saver:save_checkpoint"
FOLDER_EPISODES = "rlvr.algorithms.runs.run_folder:write_episodes"

POINTS = {
    "in the warm start": (STEP, 5),
    "between the phases of the warm start": (LOG, 9),
    "in the first evaluation": (FOLDER_EPISODES, 2),
    "before the first checkpoint": (SAVE, 1),
    "inside the first checkpoint": (SYNC, 3),
    "in the rollouts of a step": (ACT, 18),
    "before an update": (STEP, 12),
    "after an update, before its line": (LOG, 13),
    "after a checkpoint": (LOG, 14),
    "inside the second checkpoint": (SYNC, 9),
    "before the second checkpoint has its name": (RENAME, 2),
    "inside the last checkpoint": (SYNC, 14),
    "in the last evaluation": (FOLDER_EPISODES, 8),
    "while the policy is written": ("transformers:PreTrainedModel.save_pretrained", 1),
}


@pytest.fixture
def go_on(server: RunServer, write_config, tmp_path: Path, unbroken: dict[str, Path]):
    """Start a run with a fault, check how it ended, go on, and compare with the run that nothing disturbed."""

    def play(
        fault: tuple[str, int, str], kind: str = "generated", status: int = -signal.SIGKILL
    ) -> tuple[Ended, Ended]:
        out = tmp_path / "run"
        broken = server.run(["train", "--config", write_config(**KINDS[kind]), "--out", out], fault)
        assert broken.status == status, broken.output
        resumed = server.run(["train", "--resume", "--out", out])
        assert resumed.status == 0, resumed.output
        assert differences(out, unbroken[kind]) == []
        return [broken, resumed]

    return play


def some_are_slow(quick: int):
    return [
        pytest.param(point, id=name, marks=[] if place % quick == 0 else [pytest.mark.slow])
        for place, (name, point) in enumerate(POINTS.items())
    ]


@pytest.mark.parametrize("point", some_are_slow(4))
def test_killed_and_gone_on_with(go_on, point: tuple[str, int]):
    go_on((*point, "kill"))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_killed_at_any_time_and_more_than_once(
    server: RunServer, write_config, tmp_path: Path, unbroken: dict[str, Path], seed: int
):
    out, config, chance = tmp_path / "run", write_config(**KINDS["generated"]), random.Random(seed)
    for attempt in range(50):
        seconds = chance.uniform(0.02, 0.3) * 1.3**attempt  # on a machine of any speed one comes to its end
        begun = ["--resume"] if (out / "config.yaml").exists() else ["--config", config]
        ended = server.run(["train", *begun, "--out", out], seconds=seconds)
        if ended.status == 0:
            break
        assert ended.status == -signal.SIGALRM, ended.output
    assert attempt > 0
    assert differences(out, unbroken["generated"]) == []


@pytest.mark.parametrize("point", [POINTS["after a checkpoint"], pytest.param((LOG, 15), marks=pytest.mark.slow)])
def test_the_order_of_a_table_is_gone_on_with(go_on, point: tuple[str, int], unbroken: dict[str, Path]):
    go_on((*point, "kill"), "table")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["adapters", "many steps a batch", "eight bits"])
def test_other_kinds_of_runs_go_on_too(server: RunServer, write_config, tmp_path: Path, what: str):
    changes = {
        "adapters": {"model": {"lora_rank": 2}},
        "eight bits": {
            "model": {"hidden": 64, "dtype": "bfloat16"},
            "learner": {"optimiser": "adamw_8bit", "ema": 0.5},
        },
        "many steps a batch": {"learner": {"epochs": 2, "minibatches": 2}, "evaluation": {"every": 1}},
    }[what]
    if what == "eight bits":
        pytest.importorskip("torchao")
    config = write_config(**changes, **KINDS["generated"])
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert server.run(["train", "--config", config, "--out", whole]).status == 0
    killed = server.run(["train", "--config", config, "--out", broken], (LOG, 15, "kill"))
    assert killed.status == -signal.SIGKILL
    assert server.run(["train", "--resume", "--out", broken]).status == 0
    assert differences(broken, whole) == []


def test_a_torn_line_is_written_again(server: RunServer, unbroken: dict[str, Path], tmp_path: Path):
    out = copied(unbroken["generated"], tmp_path)
    whole = (out / "metrics.jsonl").read_bytes()
    (out / "metrics.jsonl").write_bytes(whole[:-20])
    shutil.rmtree(out / "checkpoints" / "step-000004")
    assert server.run(["train", "--resume", "--out", out]).status == 0
    assert differences(out, unbroken["generated"]) == []


def copied(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder / "copy")
    return folder / "copy"


def test_a_damaged_checkpoint_is_named_and_the_one_before_taken(
    server: RunServer, unbroken: dict[str, Path], tmp_path: Path
):
    out = copied(unbroken["generated"], tmp_path)
    model = out / "checkpoints" / "step-000004" / "model.safetensors"
    content_before = model.read_bytes()
    model.write_bytes(content_before[:-1] + bytes([content_before[-1] ^ 1]))
    ended = server.run(["train", "--resume", "--out", out])
    assert ended.status == 0
    said = " ".join(ended.output.split())
    assert "SHA-256 differs; taking the one before" in said
    assert "going on after step 2" in said
    assert differences(out, unbroken["generated"]) == []


def test_when_all_checkpoints_are_damaged_it_begins_again_and_says_so(
    server: RunServer, unbroken: dict[str, Path], tmp_path: Path
):
    out = copied(unbroken["generated"], tmp_path)
    for path in list_checkpoints(out / "checkpoints"):
        (path / "optimiser.safetensors").unlink()
    ended = server.run(["train", "--resume", "--out", out])
    assert ended.status == 0
    assert "beginning again" in " ".join(ended.output.split())
    assert differences(out, unbroken["generated"]) == []


def test_a_lost_reference_is_an_error_and_not_another_reference(
    server: RunServer, unbroken: dict[str, Path], tmp_path: Path
):
    out = copied(unbroken["generated"], tmp_path)
    shutil.rmtree(out / "checkpoints" / "step-000000")
    shutil.rmtree(out / "checkpoints" / "step-000004")
    ended = server.run(["train", "--resume", "--out", out])
    assert ended.status == 2
    assert "step-000000" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.slow
def test_drafts_that_were_left_are_swept(server: RunServer, write_config, tmp_path: Path, unbroken: dict[str, Path]):
    out = tmp_path / "run"
    server.run(
        ["train", "--config", write_config(**KINDS["generated"]), "--out", out],
        (*POINTS["inside the second checkpoint"], "kill"),
    )
    assert [path.name for path in (out / "checkpoints").iterdir() if path.name.startswith(".")]
    assert server.run(["train", "--resume", "--out", out]).status == 0
    assert not [path.name for path in (out / "checkpoints").iterdir() if path.name.startswith(".")]
    assert differences(out, unbroken["generated"]) == []


@pytest.mark.slow
def test_a_full_disk_stops_the_run_with_one_line_and_keeps_what_was_saved(go_on):
    broken, _ = go_on((SYNC, 9, "full"), status=2)
    assert "Traceback" not in broken.output
    last = " ".join(broken.output.split("rlvr: ")[-1].split())
    assert "step-000002 could not be saved" in last
    assert "No space left" in last
    assert "--resume" in last


@pytest.mark.slow
def test_ctrl_c_saves_and_leaves_what_can_be_gone_on_with(go_on):
    broken, resumed = go_on((ACT, 10, "interrupt"), status=130)
    assert "once more to stop at once" in broken.output
    assert "go on with --resume" in " ".join(broken.output.split())
    assert "going on after step " in resumed.output


@pytest.mark.parametrize("point", [(STEP, 3), pytest.param((FOLDER_EPISODES, 1), marks=pytest.mark.slow)])
def test_ctrl_c_before_the_first_step(go_on, point: tuple[str, int]):
    broken, _ = go_on((*point, "interrupt"), status=130)
    assert "Traceback" not in broken.output


@pytest.mark.slow
def test_ctrl_c_twice_stops_at_once(go_on):
    broken, _ = go_on((ACT, 10, "interrupt twice"), status=130)
    assert "Traceback" not in broken.output
    assert "rlvr: interrupted" in broken.output


@pytest.mark.parametrize("do", ["terminate", pytest.param("terminate twice", marks=pytest.mark.slow)])
def test_sigterm_saves_and_is_gone_on_with(go_on, do: str):
    """As Slurm and Kubernetes announce the end; some send it twice."""
    broken, resumed = go_on((ACT, 10, do), status=128 + signal.SIGTERM)
    assert "go on with --resume" in " ".join(broken.output.split())
    assert "Traceback" not in broken.output
    assert "going on after step " in resumed.output


@pytest.mark.parametrize("point", list(POINTS.values())[::5], ids=list(POINTS)[::5])
def test_sigterm_ends_a_call_that_takes_hours_and_the_run_is_gone_on_with(go_on, point: tuple[str, int]):
    """A long forward pass, a long write: no handler in Python runs before they are over. It ends as the killed do."""
    broken, _ = go_on((*point, "hang and terminate"), status=128 + signal.SIGTERM)
    assert "stopped in the middle of a step; what was not saved is done again with --resume" in broken.output


def test_a_run_that_ends_in_time_is_let_end(monkeypatch):
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.3)
    threads = threading.active_count()
    stop = StopSignal()
    with stop.listening(print):
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.6)
    assert stop.signum == signal.SIGTERM
    assert threading.active_count() == threads


@pytest.mark.slow
def test_a_reader_that_leaves_stops_the_run_as_sigterm_does(server: RunServer, write_config, tmp_path, unbroken, child):
    """``rlvr train | head``."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "rlvr", "train", "--config", write_config(**KINDS["generated"]), "--out", out]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=120) == 128 + signal.SIGTERM, errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert server.run(["train", "--resume", "--out", out]).status == 0
    assert differences(out / "policy", unbroken["generated"] / "policy") == []


@pytest.mark.parametrize("error", [RuntimeError("reentrant call"), ImportError("partially initialized module 'rich'")])
def test_a_signal_in_the_middle_of_an_import_stops_the_run_and_breaks_nothing(error: Exception):
    """What says that the run stops may itself be what is under way: its error would end the run where it stands."""
    stop = StopSignal()

    def say(text: str) -> None:
        raise error

    with stop.listening(say):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signum == signal.SIGTERM


@pytest.mark.parametrize("point", some_are_slow(7))
def test_sigterm_at_any_point_ends_in_the_same_bytes(server: RunServer, write_config, tmp_path, unbroken, point):
    out = tmp_path / "run"
    config = write_config(**KINDS["generated"])
    broken = server.run(["train", "--config", config, "--out", out], (*point, "terminate"))
    assert broken.status in (0, 128 + signal.SIGTERM), broken.output
    assert server.run(["train", "--resume", "--out", out]).status == 0
    last = max((out / "checkpoints").iterdir()).name  # which others are kept depends on the step that was saved early
    found = differences(out, unbroken["generated"])
    assert [name for name in found if not name.startswith("checkpoints/") or last in name] == []


@pytest.mark.parametrize("change", ["cut short", "another value", "no digest"])
def test_a_config_that_was_changed_is_not_gone_on_with(server: RunServer, unbroken, tmp_path: Path, change: str):
    out = copied(unbroken["generated"], tmp_path)
    config = out / "config.yaml"
    text = config.read_text()
    if change == "no digest":
        (out / "config.sha256").unlink()
    else:
        config.write_text(
            text[: text.index("seed:")] if change == "cut short" else text.replace("steps: 4", "steps: 5")
        )
        assert config.read_text() != text
    before = content(out)
    ended = server.run(["train", "--resume", "--out", out])
    assert (ended.status, len(ended.output.splitlines())) == (2, 1), ended.output
    assert "config.sha256" in ended.output
    assert content(out) == before


def test_ctrl_c_from_outside_ends_within_seconds(server: RunServer, write_config, tmp_path: Path):
    out = tmp_path / "run"
    pid = server.start(["train", "--config", write_config(steps=10_000, **KINDS["generated"]), "--out", out])
    deadline = time.monotonic() + 120
    while len(list_checkpoints(out / "checkpoints")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    begun = time.monotonic()
    os.kill(pid, signal.SIGINT)
    ended = server.end()
    assert ended.status == 130
    assert time.monotonic() - begun < 30
    saved = list_checkpoints(out / "checkpoints")[-1].name
    records = read_jsonl(out / "metrics.jsonl")
    assert saved == f"step-{records[-1]['step']:06d}"


def test_a_live_run_keeps_others_out(server: RunServer, write_config, unbroken: dict[str, Path], tmp_path: Path):
    """A run that is going on; this process asks for its folder."""
    from rlvr.cli import main

    out = tmp_path / "run"
    config = write_config(steps=10_000, **KINDS["generated"])
    pid = server.start(["train", "--config", config, "--out", out])
    deadline = time.monotonic() + 120
    while not (out / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        before = {name: len(text) for name, text in content(out).items()} if (out / "episodes").exists() else {}
        for arguments in (["--resume", "--out", str(out)], ["--config", str(config), "--out", str(out)]):
            with pytest.MonkeyPatch.context() as patch:
                said: list[str] = []
                patch.setattr("sys.stderr.write", said.append)
                assert main(["train", *arguments]) == 2
            assert f"process {pid} is writing in" in "".join(said)
        assert before.keys() <= content(out).keys() if before else True
    finally:
        os.kill(pid, signal.SIGKILL)
        assert server.end().status == -signal.SIGKILL


def test_a_run_that_is_done_is_left_alone(server: RunServer, write_config, unbroken: dict[str, Path]):
    out = unbroken["generated"]
    before = content(out)
    refused = server.run(["train", "--config", write_config(**KINDS["generated"]), "--out", out])
    assert (refused.status, len(refused.output.splitlines())) == (2, 1)
    assert "is not empty" in refused.output
    again = server.run(["train", "--resume", "--out", out])
    assert again.status == 0
    assert content(out) == before


@pytest.mark.parametrize("kind", ["generated", pytest.param("table", marks=pytest.mark.slow)])
def test_a_run_that_is_done_is_extended_to_what_a_longer_one_would_be(
    server: RunServer, write_config, unbroken: dict[str, Path], tmp_path: Path, kind: str
):
    """But for the evaluation between, which the longer run does not have."""
    out, longer = copied(unbroken[kind], tmp_path), tmp_path / "longer"
    ended = server.run(["train", "--config", write_config(**KINDS[kind], steps=6), "--out", longer])
    assert ended.status == 0, ended.output
    extended = server.run(["train", "--resume", "--out", out, "--steps", "6"])
    assert extended.status == 0, extended.output
    assert "going on after step 4" in extended.output
    found = differences(out, longer)
    assert [name for name in found if not name.startswith("checkpoints/")] == ["metrics.jsonl"]
    assert not [name for name in found if "000006" in name and name.endswith(".safetensors")]
    lines, expected = (read_jsonl(run / "metrics.jsonl") for run in (out, longer))
    assert [line for line in lines if line["phase"] == "train"] == [e for e in expected if e["phase"] == "train"]
    assert load_config(out / "config.yaml").steps == 6
    before = content(out)
    assert server.run(["train", "--resume", "--out", out]).status == 0  # it is done, and its config says so
    assert content(out) == before


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_run_whose_extension_is_killed_while_it_is_written_down_can_be_gone_on_with(
    server: RunServer, unbroken: dict[str, Path], tmp_path: Path, write: int
):
    out = copied(unbroken["generated"], tmp_path)
    fault = ("rlvr.algorithms.runs.run_folder:write_whole", write, "kill")
    broken = server.run(["train", "--resume", "--out", out, "--steps", "6"], fault)
    assert broken.status == -signal.SIGKILL, broken.output
    ended = server.run(["train", "--resume", "--out", out, "--steps", "6"])
    assert ended.status == 0, ended.output
    assert load_config(out / "config.yaml").steps == 6
    assert [line["step"] for line in read_jsonl(out / "metrics.jsonl") if line["phase"] == "train"][-1] == 6


def test_a_run_is_not_cut_short(server: RunServer, unbroken: dict[str, Path], tmp_path: Path):
    out = copied(unbroken["generated"], tmp_path)
    ended = server.run(["train", "--resume", "--out", out, "--steps", "3"])
    assert (ended.status, len(ended.output.splitlines())) == (2, 1), ended.output
    assert "has 4 steps" in ended.output
    assert content(out) == content(unbroken["generated"])


def test_a_dry_run_says_what_would_be_done_and_leaves_no_trace(
    server: RunServer, write_config, unbroken: dict[str, Path], tmp_path: Path
):
    config, out = write_config(**KINDS["generated"]), tmp_path / "run"
    ended = server.run(["train", "--config", config, "--out", out, "--dry-run"])
    assert ended.status == 0, ended.output
    assert "grpo: 4 steps, up to step 4, of 4 tasks with 4 episodes each: 64 episodes" in ended.output
    assert "warm start of 10 steps" in ended.output
    assert not out.exists()
    wrong = server.run(["train", "--config", config, "--out", out, "--env.id", "rlvr/Gues-v0", "--dry-run"])
    assert (wrong.status, len(wrong.output.splitlines())) == (2, 1), wrong.output
    assert not out.exists()
    run = unbroken["generated"]
    before = content(run)
    taken = server.run(["train", "--config", config, "--out", run, "--dry-run"])
    assert "is not empty" in taken.output
    more = server.run(["train", "--resume", "--out", run, "--steps", "6", "--dry-run"])
    assert "grpo: 2 steps, up to step 6" in more.output
    assert "warm start" not in more.output
    assert content(run) == before
    assert load_config(run / "config.yaml").steps == 4


def test_each_start_writes_down_what_it_runs_with(server: RunServer, unbroken: dict[str, Path], tmp_path: Path):
    out = copied(unbroken["generated"], tmp_path)
    before = (out / "provenance.jsonl").read_text().splitlines()  # other tests may have gone on with this run
    assert server.run(["train", "--resume", "--out", out]).status == 0
    after = (out / "provenance.jsonl").read_text().splitlines()
    assert after[:-1] == before
    first, second = json.loads(after[0]), json.loads(after[-1])
    assert first["seeds"]["seed"] == second["seeds"]["seed"] == load_config(out / "config.yaml").seed
    assert first["versions"]["torch"] == importlib.metadata.version("torch")
    assert first["python"] == platform.python_version()
    assert first["time"] <= second["time"]
