"""An attention kernel that cannot run here is refused in one sentence, before a model is loaded."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from rlvr.agents.models.attention import kernel_of
from rlvr.agents.models.tiny import load_policy

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("attention", "dtype", "device", "sentence"),
    [
        (
            "flash",
            torch.bfloat16,
            CUDA,
            r"attention 'flash' is unknown: use auto, sdpa, eager, flex, flash_attention_2",
        ),
        ("flex", torch.float32, CPU, r"model\.attention flex trains on a GPU alone, and the model is on the CPU"),
    ],
)
def test_a_kernel_that_cannot_run(attention: str, dtype: torch.dtype, device: torch.device, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        kernel_of(attention, dtype, device)


@pytest.mark.parametrize("attention", ["flash_attention_2", "flash_attention_3"])
def test_a_flash_kernel_needs_its_package_a_gpu_and_half_precision(attention: str, monkeypatch):
    module = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}[attention]
    if find_spec(module) is None:
        with pytest.raises(
            ValueError, match=f"{attention} needs the package flash-attn.*, which is not installed: take sdpa"
        ):
            kernel_of(attention, torch.bfloat16, CUDA)
    monkeypatch.setattr("rlvr.agents.models.attention.find_spec", lambda name: name)
    with pytest.raises(ValueError, match="runs on a GPU alone, and the model is on the CPU: take sdpa"):
        kernel_of(attention, torch.bfloat16, CPU)
    with pytest.raises(ValueError, match=r"needs model\.dtype bfloat16 or float16: take one, or sdpa"):
        kernel_of(attention, torch.float32, CUDA)
    assert kernel_of(attention, torch.bfloat16, CUDA) == attention


def test_it_is_said_before_the_folder_is_read(tmp_path):
    with pytest.raises(ValueError, match=r"model\.attention flex trains on a GPU alone"):
        load_policy(tmp_path, attention="flex")


@pytest.mark.parametrize(("attention", "implementation"), [("auto", "sdpa"), ("sdpa", "sdpa"), ("eager", "eager")])
def test_a_model_is_loaded_with_its_kernel(attention: str, implementation: str):
    model, _ = load_policy("rlvr/tiny", attention=attention, tiny={"hidden": 16, "layers": 1})
    assert model.config._attn_implementation == implementation
