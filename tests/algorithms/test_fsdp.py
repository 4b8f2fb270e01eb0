"""The same config under torchrun, with gloo on the CPU: sharded by FSDP2, any number of processes gives one run.

torchrun itself starts the run that most others are compared with, and the one of which a process is killed; the
others have its variables, and start from a process that has imported everything.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rlvr.algorithms.runs.checkpoints import latest_checkpoint, load_checkpoint

from ..children import start

pytestmark = pytest.mark.fsdp
KILLED = Path(__file__).with_name("killed_process.py")

CHANGES = {
    "steps": 2,
    "warm_start": {"steps": 3, "mixed_steps": 0, "batch_size": 8, "lr": 1e-2, "warmup_steps": 2},
    "learner": {"lr": 3e-3, "warmup_steps": 2, "micro_batch_tokens": 256, "minibatches": 2},
    "evaluation": {"episodes": 2},
    "checkpoint_every": 1,
}


def torchrun(*program: object) -> tuple[int, str]:
    """A program in two processes; exit status and output. No network but loopback."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *map(str, program)]
    process = start(command, stdout=-1, stderr=-2, text=True)
    try:
        output, _ = process.communicate(timeout=400)  # hangs for ever if the survivor of a killed one does
    finally:
        process.kill()
    return process.returncode, output


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "policy" / "model.safetensors")


def far(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def require_close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], rounding: float) -> None:
    """Equal up to rounding. AdamW divides by the root of the second moment: where a gradient is nearly 0, its rounding
    moves a weight by a part of the learning rate, which is 1e-2 here.
    """
    assert far(one, other) < 1e-3
    apart = torch.cat([(one[name] - other[name]).abs().flatten() for name in other])
    assert float((apart > rounding).float().mean()) < 0.02


@pytest.fixture(scope="module")
def config(write_config) -> Path:
    return write_config(**CHANGES)


@pytest.fixture(scope="module")
def two(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes."""
    out = tmp_path_factory.mktemp("two") / "run"
    status, output = torchrun("-m", "rlvr", "train", "--config", config, "--out", out)
    assert status == 0, output
    return out


@pytest.mark.slow
def test_two_processes_equal_one(two: Path, config: Path, server, tmp_path: Path):
    done = server.run(["train", "--config", config, "--out", tmp_path / "one"])
    assert done.status == 0, done.output
    assert far(weights(two), weights(tmp_path / "one")) == 0.0
    lines = [
        [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (two, tmp_path / "one")
    ]
    for one, other in zip(*lines, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, float) and value is not None:
                assert value == pytest.approx(other[name], rel=1e-3, abs=1e-5), name
            else:
                assert value == other[name], name
    traces = [json.loads(line) for line in next((two / "episodes").glob("train-000001*")).read_text().splitlines()]
    noted = [trace for trace in traces if "weights" in trace["training"] or "dropped" in trace["training"]]
    assert traces
    assert all(trace["training"] for trace in traces), "each process notes its share, and all of it is written"
    assert len(noted) == len(traces) or not noted


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"lora_rank": 4}},
        {"model": {"hidden": 40, "layers": 2}, "overrides": {"kl_coef": 0.05, "entropy_coef": 0.0}, "prompts": 6},
    ],
    ids=["lora", "odd_sizes_and_kl"],
)
def test_three_processes_give_the_bits_of_one(changes, write_config, server, tmp_path: Path):
    """Shards of three are of unequal size, and the last round of micro-batches leaves a process without one."""
    config = write_config(**{**CHANGES, "learner": {**CHANGES["learner"], "micro_batch_tokens": 128}, **changes})
    done = server.run(["train", "--config", config, "--out", tmp_path / "three"], processes=3)
    assert done.status == 0, done.output
    assert server.run(["train", "--config", config, "--out", tmp_path / "one"]).status == 0
    three, one = (load_checkpoint(tmp_path / name / "checkpoints" / "step-000002") for name in ("three", "one"))
    assert far(three.model, one.model) == 0.0
    assert far(three.optimiser, one.optimiser) == 0.0


@pytest.mark.slow
def test_in_half_precision_two_processes_give_the_bits_of_one_too(write_config, server, tmp_path: Path):
    """The float32 weights are those that the warm start left, here and there, and not what bfloat16 makes of them."""
    config = write_config(**{**CHANGES, "model": {**CHANGES.get("model", {}), "dtype": "bfloat16"}})
    done = server.run(["train", "--config", config, "--out", tmp_path / "two"], processes=2)
    assert done.status == 0, done.output
    assert server.run(["train", "--config", config, "--out", tmp_path / "one"]).status == 0
    two, one = weights(tmp_path / "two"), weights(tmp_path / "one")
    assert {tensor.dtype for tensor in one.values()} == {torch.bfloat16}
    assert far(two, one) == 0.0


@pytest.mark.slow
def test_float32_sums_of_two_processes_are_those_of_one_up_to_rounding(config: Path, server, tmp_path: Path):
    arguments = ["train", "--config", config, "--learner.grad-accum-dtype", "float32", "--out"]
    done = server.run([*arguments, tmp_path / "two"], processes=2)
    assert done.status == 0, done.output
    assert server.run([*arguments, tmp_path / "one"]).status == 0
    require_close(weights(tmp_path / "two"), weights(tmp_path / "one"), rounding=1e-6)


@pytest.mark.slow
def test_two_processes_are_byte_equal_to_themselves_and_one_shard_to_none(two, config, server, tmp_path):
    train = ["train", "--config", config, "--out"]
    assert server.run([*train, tmp_path / "again"], processes=2).status == 0
    assert (two / "policy" / "model.safetensors").read_bytes() == (
        tmp_path / "again" / "policy" / "model.safetensors"
    ).read_bytes()
    assert server.run([*train, tmp_path / "sharded"], processes=1).status == 0
    assert server.run([*train, tmp_path / "plain"]).status == 0
    assert far(weights(tmp_path / "sharded"), weights(tmp_path / "plain")) == 0.0


@pytest.mark.slow
def test_a_run_of_two_goes_on_with_one_and_with_two(two: Path, tmp_path: Path, server):
    for name, processes in (("one", 1), ("two", 2)):
        run = tmp_path / name
        shutil.copytree(two, run)
        shutil.rmtree(run / "policy")
        shutil.rmtree(run / "checkpoints" / "step-000002")
        done = server.run(["train", "--resume", "--out", run], processes=processes)
        assert done.status == 0, done.output
        assert "going on after step 1" in done.output
    assert far(weights(tmp_path / "one"), weights(two)) == 0.0
    assert far(weights(tmp_path / "two"), weights(two)) == 0.0


@pytest.mark.slow
def test_a_killed_process_ends_the_run_and_what_was_saved_goes_on(config: Path, server, tmp_path: Path):
    """torchrun ends the others, wherever they wait; the newest checkpoint is whole, and the run goes on from it."""
    run = tmp_path / "run"
    arguments = ["train", "--config", config, "--steps", "3", "--out"]
    status, output = torchrun(KILLED, *arguments, run)
    assert status != 0
    assert "Signal 9 (SIGKILL)" in output
    assert not (run / "policy").exists()
    checkpoint, faults = latest_checkpoint(run / "checkpoints")
    assert (checkpoint.step, faults) == (1, [])
    done = server.run(["train", "--resume", "--out", run], processes=2)
    assert done.status == 0, done.output
    assert "going on after step 1" in done.output
    assert server.run([*arguments, tmp_path / "whole"]).status == 0
    assert far(weights(run), weights(tmp_path / "whole")) == 0.0


@pytest.mark.slow
def test_offloaded_weights_give_the_same_bytes(two: Path, config: Path, server, tmp_path: Path):
    arguments = ["train", "--config", config, "--out", tmp_path / "offloaded", "--learner.offload", "weights"]
    done = server.run(arguments, processes=2)
    assert done.status == 0, done.output
    assert far(weights(tmp_path / "offloaded"), weights(two)) == 0.0


@pytest.mark.slow
def test_compiled_layers_are_sharded_too(two: Path, config: Path, server, tmp_path: Path):
    arguments = ["train", "--config", config, "--out", tmp_path / "compiled", "--learner.compile", "true"]
    done = server.run(arguments, processes=2)
    assert done.status == 0, done.output
    # kernels of their own, which add up in another order
    require_close(weights(tmp_path / "compiled"), weights(two), rounding=2e-5)


@pytest.mark.slow
def test_a_dry_run_of_two_speaks_once(config: Path, server, tmp_path: Path):
    done = server.run(["train", "--config", config, "--out", tmp_path / "run", "--dry-run"], processes=2)
    assert done.status == 0, done.output
    assert done.output.count("nothing was played, and nothing written") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_folder_that_is_used_is_refused_by_all(two: Path, config: Path, server):
    done = server.run(["train", "--config", config, "--out", two], processes=2)
    assert done.status != 0
    assert "go on with --resume" in done.output
