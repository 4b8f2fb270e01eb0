"""AdamW with its state in eight bits a number: near AdamW, a quarter of its bytes, exact when restored."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.learner.optimiser import PACKAGES, Optimiser, require_optimiser
from rlvr.algorithms.runs.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, differences, small, stop_and_resume

KINDS = tuple(PACKAGES)
SIDE = 64  # 4,096 numbers: the first size that is held in eight bits


def has(kind: str) -> str:
    pytest.importorskip(PACKAGES[kind])
    return kind


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    gen = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=gen).to(dtype)) for shape in ((SIDE, 2 * SIDE), (5,))]


def make(owned: list[torch.nn.Parameter], kind: str) -> Optimiser:
    return Optimiser(owned, lambda step: 0.01 / (step + 1), betas=(0.9, 0.95), weight_decay=0.01, kind=kind)


def step(owned: list[torch.nn.Parameter], optimiser: Optimiser, number: int) -> dict[str, float]:
    gen = torch.Generator().manual_seed(1_000 + number)
    for parameter in owned:
        parameter.grad = torch.randn(parameter.shape, generator=gen).to(parameter.dtype)
    return optimiser.step()


def size(optimiser: Optimiser) -> int:
    """Bytes of the state, but for the counts of steps."""
    tensors = optimiser.tensors().items()
    return sum(value.numel() * value.element_size() for name, value in tensors if not name.endswith(".step"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_follows_adamw_and_holds_a_quarter_of_its_bytes(kind: str):
    owned, twin = parameters(), parameters()
    start = owned[0].detach().clone()
    eight, full = make(owned, has(kind)), make(twin, "adamw")
    for number in range(10):
        assert step(owned, eight, number) == step(twin, full, number), "norm and rate"
    moved = (twin[0] - start).norm()
    assert 0 < (owned[0] - twin[0]).norm() < 0.05 * moved
    torch.testing.assert_close(owned[1], twin[1], rtol=1e-5, atol=1e-6)  # five numbers stay in float32
    # two codes a number, two float32 scales a block of 256, two tables of 256 float32
    numbers = 2 * SIDE**2
    assert size(eight) - size(full) == 2 * numbers + 2 * 4 * numbers // 256 + 2 * 256 * 4 - 8 * numbers
    codes = [name for name, value in eight.tensors().items() if value.dtype == torch.uint8]
    assert len(codes) == 2
    assert all(name.startswith("0.") for name in codes)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_restored_from_a_file_it_goes_on_bit_for_bit(kind: str, dtype: torch.dtype, tmp_path: Path):
    owned = parameters(dtype)
    optimiser = make(owned, has(kind))
    for number in range(3):
        step(owned, optimiser, number)
    counters = {"optimiser": optimiser.state_dict()}
    found = load_checkpoint(save_checkpoint(tmp_path, Checkpoint(3, {}, optimiser.tensors(), counters)))
    twin = [torch.nn.Parameter(parameter.detach().clone()) for parameter in owned]
    other = make(twin, kind)
    other.load_state_dict(found.counters["optimiser"], found.optimiser)
    for number in range(3, 6):
        assert step(owned, optimiser, number) == step(twin, other, number)
    ours, theirs = optimiser.tensors(), other.tensors()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].dtype == theirs[name].dtype and torch.equal(ours[name], theirs[name]) for name in ours)
    assert all(torch.equal(one, two) for one, two in zip(owned, twin, strict=True))
    with pytest.raises(ValueError, match="of another optimiser than adamw: it holds"):
        make(twin, "adamw").load_state_dict(counters["optimiser"], ours)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_cpu_no_step_is_compiled(kind: str, monkeypatch: pytest.MonkeyPatch):
    """So it needs no C++ compiler; what another process has compiled makes no difference to its bits."""
    import torch._dynamo.utils as dynamo

    has(kind)
    dynamo.counters.clear()
    owned = parameters()
    optimiser = make(owned, kind)
    step(owned, optimiser, 0)
    assert dynamo.counters["frames"]["ok"] == 0
    assert dynamo.counters["stats"]["unique_graphs"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_with_the_same_bytes(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Warm start, average and master weights among them."""
    changes = {
        "model": {"hidden": SIDE, "dtype": "bfloat16"},
        "learner": {"optimiser": has(kind), "ema": 0.5},
        "sampling": {"max_new_tokens": 6},
    }
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "broken", 3, monkeypatch, **changes)
    assert differences(tmp_path / "broken", tmp_path / "whole") == []
    last = load_checkpoint(tmp_path / "whole" / "checkpoints" / "step-000004")
    assert any(value.dtype == torch.uint8 for value in last.optimiser.values())
    Trainer(small(tmp_path / "plain", **{**changes, "learner": {"ema": 0.5}}), Callback()).run()
    assert "metrics.jsonl" in differences(tmp_path / "plain", tmp_path / "whole")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_package_is_one_sentence(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in (PACKAGES[kind], f"{PACKAGES[kind]}.optim"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ConfigError, match=rf'learner.optimiser {kind} needs {PACKAGES[kind]}: pip install "rlvr'
    ) as found:
        Trainer(small(tmp_path / "run", learner={"optimiser": kind}), Callback())
    assert "\n" not in str(found.value)
    assert not (tmp_path / "run").exists()


def test_shards_are_refused_and_adamw_needs_nothing():
    for kind in KINDS:
        with pytest.raises(ConfigError, match=f"learner.optimiser {kind} goes with one process"):
            require_optimiser(kind, sharded=True)
    require_optimiser("adamw", sharded=True)


def test_another_name_is_refused_with_those_there_are(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"learner\.optimiser: Input should be 'adamw', 'adamw_8bit' or"):
        small(tmp_path, learner={"optimiser": "adam8"})
