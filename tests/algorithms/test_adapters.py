"""LoRA adapters are written beside the policy, and another run begins with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.train.backends import load_model
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, small

ALONE: dict[str, Any] = {"warm_start": {"steps": 0, "mixed_steps": 0}, "overrides": {"entropy_coef": 0.01}}


@pytest.fixture(scope="module")
def first(guesser: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("adapters") / "first"
    Trainer(small(out, model={"name": str(guesser), "lora_rank": 2}, steps=1, **ALONE), Callback()).run()
    return out


def test_a_run_begins_with_the_adapters_of_another(first: Path, guesser: Path, tmp_path: Path):
    model = {"name": str(guesser), "lora_rank": 2, "adapter": str(first / "adapter")}
    Trainer(small(tmp_path / "second", model=model, steps=0, **ALONE), Callback()).run()
    before, after = (load_file(run / "policy" / "model.safetensors") for run in (first, tmp_path / "second"))
    base = load_file(guesser / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert any(not torch.equal(before[name], base[name]) for name in before), "the control: something was learned"


def test_they_are_trained_on(first: Path, guesser: Path, tmp_path: Path):
    model = {"name": str(guesser), "lora_rank": 2, "adapter": str(first / "adapter")}
    adapted, _ = load_model(small(tmp_path, model=model))
    trained = [name for name, weight in adapted.named_parameters() if weight.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lora_rank": 4}, r"model\.lora_rank 4, but the adapter in .*adapter has 2"),
        ({"lora_rank": 0}, r"model\.adapter .*adapter goes with model\.lora_rank: set it to the rank of the adapters"),
        ({"adapter": "nowhere"}, "there is no folder nowhere"),
        ({"name": "rlvr/tiny", "hidden": 16}, "does not fit rlvr/tiny"),
    ],
)
def test_adapters_that_do_not_fit(first: Path, guesser: Path, tmp_path: Path, changes: dict[str, Any], sentence: str):
    model = {"name": str(guesser), "lora_rank": 2, "adapter": str(first / "adapter"), **changes}
    with pytest.raises((ConfigError, ValueError), match=sentence):
        load_model(small(tmp_path, model=model))
