"""Checkpoints that are written while a run goes on."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from threading import Event

import pytest
import torch

from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs import checkpoints
from rlvr.algorithms.runs.checkpoints import Checkpoint, CheckpointError, latest_checkpoint, list_checkpoints
from rlvr.algorithms.train.saver import Saver


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Nothing is written before this is set."""
    go, write = Event(), checkpoints._write
    monkeypatch.setattr(checkpoints, "_write", lambda *a: (go.wait(60), write(*a)))
    return go


def state(step: int) -> tuple[Checkpoint, torch.Tensor, dict[str, list[int]]]:
    weight, counters = torch.full((3, 2), float(step)), {"seen": [step]}
    moments = {"0.exp_avg": weight.T}
    return Checkpoint(step, {"weight": weight, "half": weight.bfloat16()}, moments, counters), weight, counters


def test_what_changes_while_it_is_written_is_not_in_it(tmp_path: Path, held: Event):
    saver = Saver(tmp_path, ProcessWorld())
    checkpoint, weight, counters = state(1)
    saver.save(checkpoint)
    assert list_checkpoints(tmp_path) == [], "it was written before the run went on"
    weight += 10
    counters["seen"].append(2)
    held.set()
    saver.wait()
    found, faults = latest_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, found.counters, faults) == (1, {"seen": [1]}, [])
    assert torch.equal(found.model["weight"], torch.ones(3, 2))
    assert found.model["half"].dtype == torch.bfloat16
    assert torch.equal(found.optimiser["0.exp_avg"], torch.ones(2, 3))


def test_the_next_is_copied_once_the_last_is_written(tmp_path: Path, held: Event):
    """Copies are made over those of the checkpoint before."""
    saver = Saver(tmp_path, ProcessWorld())
    held.set()
    for step in range(4):
        saver.save(state(step)[0])
    saver.wait()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000000", "step-000002", "step-000003"]
    for path in list_checkpoints(tmp_path):
        found = checkpoints.load_checkpoint(path)
        assert torch.equal(found.model["weight"], torch.full((3, 2), float(found.step)))


def test_tensors_that_come_and_go_are_followed(tmp_path: Path):
    """Before the first step there are no moments; a run that goes on may have others."""
    saver = Saver(tmp_path, ProcessWorld())
    for step, moments in enumerate(({}, {"0.m": torch.ones(2)}, {"0.m": torch.ones(3)}, {"1.m": torch.ones(1)})):
        saver.save(Checkpoint(step, {}, moments, {}))
        saver.wait()
        found, _ = latest_checkpoint(tmp_path)
        assert found is not None
        assert {name: value.tolist() for name, value in found.optimiser.items()} == {
            name: value.tolist() for name, value in moments.items()
        }


@pytest.mark.parametrize("how", ["next", "end"])
def test_what_could_not_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    saver = Saver(tmp_path, ProcessWorld())
    saver.save(state(1)[0])
    saver.wait()
    monkeypatch.setattr(checkpoints, "_sync", lambda path: (_ for _ in ()).throw(OSError(28, "No space left")))
    saver.save(state(2)[0])
    with pytest.raises(CheckpointError, match=r"step-000002 could not be saved.*No space left.*--resume"):
        saver.wait() if how == "end" else saver.save(state(3)[0])
    saver.wait()  # said once
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]


def test_an_error_does_not_keep_the_saver(tmp_path: Path):
    """Its threads would meet the end of the interpreter."""
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    saver = Saver(tmp_path / "checkpoints", ProcessWorld())
    kept = weakref.ref(saver)
    saver.save(state(1)[0])
    gc.disable()
    try:
        with pytest.raises(CheckpointError) as raised:
            saver.wait()
        del raised, saver
        assert kept() is None
    finally:
        gc.enable()
