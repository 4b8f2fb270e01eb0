"""Layers that are compiled, and what is kept in the memory of the CPU: the gradient stays what it was."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from rlvr.agents.models.tiny import tiny_policy
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.learner.layers import CompiledLayers, layers_of
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.offload import OffloadedActivations
from rlvr.algorithms.learner.scoring import Scorer, base_model, has_plain_head, why_not_packed
from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.recipe.presets import PRESETS

from ..children import start


def policy(lora: bool = False) -> Any:
    model: Any = tiny_policy(hidden=64, layers=3)[0].eval()
    if lora:
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(0)
        model = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear"))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:  # 0 at the start, where A would have no gradient
                torch.nn.init.normal_(parameter, std=0.02)
    has_plain_head(base_model(model), torch.zeros(1, 4, dtype=torch.long))
    why_not_packed(base_model(model))
    return model


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(5, 40, shape, generator=torch.Generator().manual_seed(sum(shape)))


def gradient(score: Scorer, tokens: torch.Tensor, **options: Any) -> torch.Tensor:
    score.zero_grad()
    score(tokens, **options).logprobs.square().sum().backward()
    return torch.cat([p.grad.flatten() for p in score.parameters() if p.grad is not None])


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
def test_compiled_layers_have_the_same_gradient_at_every_length(lora: bool):
    """Within 1e-5, recomputed or not; another length compiles nothing anew, and so does another layer."""
    from torch._dynamo.utils import counters

    model = policy(lora)
    plain, compiled = Scorer(model), Scorer(model, around=[CompiledLayers(model)])
    graphs = []
    counters.clear()
    for shape in ((4, 30), (3, 47), (7, 12)):
        for recompute in (False, True):
            expected = gradient(plain, ids(*shape), recompute=recompute)
            assert not any("forward" in vars(layer) for layer in layers_of(model, ""))
            found = gradient(compiled, ids(*shape), recompute=recompute)
            assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0
    assert graphs == [graphs[0]] * 3
    assert not any("forward" in vars(layer) for layer in layers_of(model, "")), "the sampler calls them as written"


@pytest.mark.slow
def test_without_a_compiler_a_run_ends_at_once_with_one_sentence(write_config, tmp_path: Path):
    config = write_config(learner={"compile": True})
    env = {**os.environ, "CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "rlvr", "train", "--config", str(config), "--out", str(tmp_path / "run")]
    process = start(command, stdout=-1, stderr=-2, text=True, env=env)
    output, _ = process.communicate(timeout=500)
    assert process.returncode != 0
    (line,) = [line for line in output.splitlines() if line.startswith("rlvr:")]
    assert "learner.compile needs a C++ compiler: install g++, or name one in CXX; or set it to false" in line
    assert "Traceback" not in output


def test_what_cannot_be_compiled_is_refused():
    with pytest.raises(ValueError, match=r"Linear has no layers that can be compiled: set learner\.compile to false"):
        CompiledLayers(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("lora", [False, True])
def test_offloaded_activations_give_the_same_gradient_and_leave_the_weights(lora: bool):
    model = policy(lora)
    offload = OffloadedActivations(model)
    plain, offloaded = Scorer(model), Scorer(model, around=[offload])
    moved = {}
    for recompute in (False, True):
        expected = gradient(plain, ids(4, 30), recompute=recompute)
        assert torch.equal(gradient(offloaded, ids(4, 30), recompute=recompute), expected)
        moved[recompute] = offload.moved
    assert moved[False] > 3 * moved[True] > 0, "layers that are computed again have their inputs moved alone"
    # three layers' inputs [4, 29, 64] in float32 are among it; no weight is: all of them together would be more
    assert moved[True] >= 3 * 4 * 29 * 64 * 4


def test_a_tensor_that_is_kept_is_moved_and_a_weight_is_not():
    """Seen at the hooks: x W^T keeps x and W, and x is 64 kB."""
    model = torch.nn.Linear(128, 128, bias=False)
    offload = OffloadedActivations(model)
    x = torch.randn(128, 128, requires_grad=True)
    with ExitStack() as blocks:
        blocks.enter_context(offload())
        y = model(x)
    assert offload.moved == x.numel() * 4
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    ("offload", "sharded", "sentence"),
    [
        ("weights", False, "learner.offload weights is for torchrun, of one process or more: take activations here"),
        ("activations", True, "learner.offload activations is for a run without torchrun: take weights here"),
    ],
)
def test_offload_says_where_it_can_be(offload: str, sharded: bool, sentence: str):
    world = ProcessWorld(0, 1, sharded)
    with pytest.raises(ConfigError, match=sentence):
        Learner(policy(), PRESETS["grpo"], pad_id=0, max_length=40, offload=offload, world=world)
