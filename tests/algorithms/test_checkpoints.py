"""Checkpoints: whole or not there, every changed byte noticed, nothing in them is run."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs.checkpoints import (
    FILES,
    Checkpoint,
    CheckpointError,
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from rlvr.algorithms.train.saver import Saver


def checkpoint(step: int, size: int = 5) -> Checkpoint:
    gen = torch.Generator().manual_seed(step)
    return Checkpoint(
        step,
        model={
            "layer.weight": torch.randn(size, size, generator=gen),
            "half": torch.randn(3, generator=gen).bfloat16(),
            "turned": torch.randn(4, 2, generator=gen).T,
        },
        optimiser={"0.step": torch.tensor(float(step)), "0.exp_avg": torch.randn(size, size, generator=gen)},
        counters={"optimiser": {"steps": step, "refused": 0}, "evaluations": {"before greedy": {"episodes": 3}}},
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    return (one.step, one.counters) == (other.step, other.counters) and all(
        a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]) for k in a)
        for a, b in ((one.model, other.model), (one.optimiser, other.optimiser))
    )


def steps(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in list_checkpoints(folder)]


def test_what_is_saved_is_loaded(tmp_path: Path):
    path = save_checkpoint(tmp_path, checkpoint(7))
    assert same(load_checkpoint(path), checkpoint(7))


def test_the_first_and_the_last_two_are_kept(tmp_path: Path):
    for step in (0, 2, 4, 6, 1_000_000):
        save_checkpoint(tmp_path, checkpoint(step))
    assert steps(tmp_path) == [0, 6, 1_000_000]


def test_the_same_step_can_be_saved_again(tmp_path: Path):
    save_checkpoint(tmp_path, checkpoint(3))
    save_checkpoint(tmp_path, Checkpoint(3, {"new": torch.ones(1)}, {}, {}))
    assert list(load_checkpoint(tmp_path / "step-000003").model) == ["new"]


def test_no_checkpoint_is_no_fault(tmp_path: Path):
    assert latest_checkpoint(tmp_path / "none yet") == (None, [])


def test_every_flipped_bit_is_noticed(tmp_path: Path):
    save_checkpoint(tmp_path, checkpoint(1))
    newest = save_checkpoint(tmp_path, checkpoint(2))
    rng = random.Random(0)
    names = sorted(path.name for path in newest.iterdir())
    for turn in range(200):
        path = newest / names[turn % len(names)]
        whole = path.read_bytes()
        place, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        taken, faults = latest_checkpoint(tmp_path)
        assert taken is not None
        assert same(taken, checkpoint(1)), f"bit {bit} of byte {place} of {path.name} went unnoticed"
        assert len(faults) == 1
        assert str(newest) in faults[0]
        path.write_bytes(whole)
    taken, faults = latest_checkpoint(tmp_path)
    assert (taken and taken.step, faults) == (2, [])


@pytest.mark.parametrize("name", [*sorted(FILES), "manifest.json"])
@pytest.mark.parametrize("how", ["cut", "emptied", "removed", "folder"])
def test_a_damaged_file_is_noticed(tmp_path: Path, name: str, how: str):
    save_checkpoint(tmp_path, checkpoint(1))
    path = save_checkpoint(tmp_path, checkpoint(2)) / name
    whole = path.read_bytes()
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how != "removed":
        path.write_bytes(whole[: len(whole) // 2] if how == "cut" else b"")
    taken, faults = latest_checkpoint(tmp_path)
    assert taken is not None
    assert taken.step == 1
    listed = name != "manifest.json" or how in ("cut", "emptied")  # without a manifest it was never finished
    assert len(faults) == int(listed)


def test_when_all_are_damaged_all_are_named(tmp_path: Path):
    for step in (1, 2):
        (save_checkpoint(tmp_path, checkpoint(step)) / "counters.json").write_text("{}")
    taken, faults = latest_checkpoint(tmp_path)
    assert taken is None
    assert ["step-000002" in faults[0], "step-000001" in faults[1]] == [True, True]


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def forge(path: Path, name: str, content: bytes) -> None:
    """Put a file into a checkpoint, and its hash into the manifest."""
    (path / name).write_bytes(content)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest[name] = sha256(content).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int):
    path = save_checkpoint(tmp_path, checkpoint(1))
    forge(path, "model.safetensors", pickle.dumps(Bomb(tmp_path / "ran"), protocol))
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(path)
    assert not (tmp_path / "ran").exists()


def test_a_manifest_names_the_three_files_and_no_other(tmp_path: Path):
    path = save_checkpoint(tmp_path, checkpoint(1))
    forge(path, "../outside", b"")
    with pytest.raises(CheckpointError, match="outside"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"[1]", b"null", b'{"optimiser": {}}', b"\xff", b"[" * 100_000])
def test_counters_of_another_shape_are_refused(tmp_path: Path, content: bytes):
    path = save_checkpoint(tmp_path, checkpoint(1))
    forge(path, "counters.json", content)
    with pytest.raises(CheckpointError):
        load_checkpoint(path)


@pytest.mark.parametrize("room", [0, 100, 5_000, 40_000])
def test_no_room_leaves_the_old_ones_and_says_so(tmp_path: Path, room: int):
    """The limit on file sizes is the closest to a full disk that needs no rights: real writes fail."""
    save_checkpoint(tmp_path, checkpoint(1, size=100))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(CheckpointError, match=r"step-000002 could not be saved.*--resume"):
            save_checkpoint(tmp_path, checkpoint(2, size=100))
        with pytest.raises(CheckpointError):  # nor does it harm to save the same step again
            save_checkpoint(tmp_path, checkpoint(1, size=100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    taken, faults = latest_checkpoint(tmp_path)
    assert (taken and taken.step, faults) == (1, [])
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"], "a draft was left"
    save_checkpoint(tmp_path, checkpoint(2, size=100))
    assert steps(tmp_path) == [1, 2]


def test_what_a_kill_leaves_of_an_old_checkpoint_is_no_checkpoint_and_is_swept(tmp_path: Path, monkeypatch):
    for step in (0, 1, 2):
        save_checkpoint(tmp_path, checkpoint(step))

    class Killed(BaseException):
        pass

    unlink, calls = os.unlink, []

    def killed(*args, **kwargs) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise Killed
        unlink(*args, **kwargs)

    monkeypatch.setattr(os, "unlink", killed)  # step 1 is being removed
    with pytest.raises(Killed):
        save_checkpoint(tmp_path, checkpoint(3))
    monkeypatch.undo()
    left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert left == ["step-000000", "step-000002", "step-000003"]
    assert len(list(tmp_path.iterdir())) == 4
    Saver(tmp_path, ProcessWorld.join())  # a run goes on, and may have nothing more to save
    assert len(list(tmp_path.iterdir())) == 3


def test_drafts_of_a_killed_run_are_swept_and_never_taken(tmp_path: Path):
    path = save_checkpoint(tmp_path, checkpoint(1))
    whole = tmp_path / ".draft-step-000009"
    path.rename(whole)
    (tmp_path / ".draft-step-000008").mkdir()
    assert latest_checkpoint(tmp_path) == (None, [])
    save_checkpoint(tmp_path, checkpoint(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]
