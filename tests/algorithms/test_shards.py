"""Checkpoints that several processes write together, each its shards; any number of processes reads them."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch

from rlvr.algorithms.runs.checkpoints import CheckpointError, latest_checkpoint, list_checkpoints, load_checkpoint

from ..children import start
from .test_checkpoints import Bomb, forge

pytestmark = pytest.mark.fsdp
SCRIPT = Path(__file__).with_name("save_shards.py")


def launch(*arguments: object) -> str:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT]
    command = [sys.executable, *map(str, (*torchrun, *arguments))]
    process = start(command, stdout=-1, stderr=-2, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "checkpoints"
    launch(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def test_each_process_writes_its_shards_and_one_reads_them(saved: Path):
    for step, path in enumerate(list_checkpoints(saved), 1):
        assert len(list(path.glob("shard-*.safetensors"))) == 2
        found = load_checkpoint(path)
        assert (found.step, found.counters) == (step, {"seen": [step]})
        for name, shape, dtype in (("even", (4, 3), torch.float32), ("odd", (5, 2), torch.bfloat16)):
            whole = torch.arange(torch.Size(shape).numel(), dtype=dtype).view(shape) + step - 1
            assert torch.equal(found.model[name], whole), "what changed while it was written is in it"
            assert found.model[name].dtype == dtype
        assert torch.equal(found.model["row"], torch.arange(7.0)[None] + step - 1)
        assert torch.equal(found.optimiser["0.exp_avg"], torch.arange(4096.0).view(64, 64) + step - 1)
        assert found.optimiser["0.step"] == step - 1
        assert torch.equal(found.critic["head"], torch.arange(3.0))


@pytest.mark.parametrize("how", ["changed", "cut", "removed"])
@pytest.mark.parametrize("name", ["shard-00001-model-00001-of-00001.safetensors", "counters.json", "manifest.json"])
def test_a_torn_checkpoint_is_named_and_the_one_before_taken(copy: Path, name: str, how: str):
    path = copy / "step-000002" / name
    content = path.read_bytes()
    path.unlink()
    if how != "removed":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if how == "changed" else content[: len(content) // 2])
    found, faults = latest_checkpoint(copy)
    assert found is not None
    assert found.step == 1
    assert len(faults) == (0 if (name, how) == ("manifest.json", "removed") else 1)


def test_a_file_that_the_manifest_does_not_name_is_refused(copy: Path):
    path = copy / "step-000002"
    shutil.copy(path / "shard-00001-model-00001-of-00001.safetensors", path / "another.safetensors")
    with pytest.raises(CheckpointError, match="another"):
        load_checkpoint(path)


def test_a_pickle_is_refused_and_not_run(copy: Path, tmp_path: Path):
    path = copy / "step-000002"
    forge(path, "shard-00002-model-00001-of-00001.safetensors", pickle.dumps(Bomb(tmp_path / "ran")))
    (path / ".metadata").write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))  # torch's own format would load this
    with pytest.raises(CheckpointError):
        load_checkpoint(path)
    assert not (tmp_path / "ran").exists()


def test_no_room_in_one_process_is_said_by_all(tmp_path: Path):
    output = launch(tmp_path / "checkpoints", "full")
    for rank in (0, 1):
        assert f"process {rank}: the checkpoint {tmp_path}/checkpoints/step-000002 could not be saved" in output
    assert "process 1: [Errno 27] File too large; those before it are whole" in output
    assert "Traceback" not in output
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]
