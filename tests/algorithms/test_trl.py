"""The presets that TRL also has, against the loss of the installed TRL (1.16; its loss method is private).

TRL is no dependency: `pip install trl` in an environment of its own, then `pytest -m foreign`.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch

from rlvr.algorithms import policy_loss
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import make

pytestmark = pytest.mark.foreign
trl = pytest.importorskip("trl")

SETTINGS = {
    "grpo": {"loss_type": "grpo", "beta": 0.04},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "sapo": {"loss_type": "sapo"},
    "gspo": {"loss_type": "grpo", "level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
    "intellect2": {"loss_type": "dapo", "delta": 4.0, "beta": 0.001},
    "grpo_unbiased_kl": {"loss_type": "grpo", "beta": 0.04, "unbiased": True},
    "grpo_offpolicy_mask": {"loss_type": "grpo", "off_policy": 0.2},
}
NOT_GSPO = {"loss_type": "dapo", "level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4}


def trl_loss(batch: dict, settings: dict) -> tuple[float, torch.Tensor]:
    """(loss, gradient) of GRPOTrainer on given log-probs: its own method on an object that holds only its settings."""
    mask = batch["mask"]
    clean = {k: torch.where(mask, batch[k].detach(), 0) for k in ("old_logprobs", "behaviour_logprobs", "ref_logprobs")}
    new = torch.where(mask, batch["new"].detach(), 0).requires_grad_()
    args = SimpleNamespace(
        use_bias_correction_kl=settings.get("unbiased", False), delta=settings.get("delta"), sapo_temperature_pos=1.0,
        sapo_temperature_neg=1.05, steps_per_generation=1, entropy_target=0.0,
    )  # fmt: skip
    same = SimpleNamespace(gather=lambda x: x, reduce=lambda x, reduction: x, num_processes=1, sync_gradients=True)
    holder = SimpleNamespace(
        args=args, accelerator=same, model=SimpleNamespace(training=True), aux_loss_enabled=False,
        top_entropy_quantile=1.0, importance_sampling_level=settings.get("level", "token"),
        loss_type=settings["loss_type"], epsilon_low=settings.get("epsilon_low", 0.2),
        epsilon_high=settings.get("epsilon_high", 0.2), beta=settings.get("beta", 0.0), use_vllm=False,
        off_policy_mask_threshold=settings.get("off_policy"), current_gradient_accumulation_steps=1,
        max_completion_length=batch["max_length"], _entropy_bonus_enabled=False, use_adaptive_entropy=False,
        get_off_policy_mask=trl.GRPOTrainer.get_off_policy_mask,
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *a, **k: (new, new.detach(), None),
    )  # fmt: skip
    ids = torch.zeros_like(mask, dtype=torch.long)
    inputs = {
        "prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": mask.long(),
        "advantages": batch["advantages"], "old_per_token_logps": clean["old_logprobs"],
        "ref_per_token_logps": clean["ref_logprobs"],
        "sampling_per_token_logps": clean["behaviour_logprobs"], "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    loss = trl.GRPOTrainer._compute_loss(holder, None, inputs)
    return loss.item(), torch.autograd.grad(loss, new)[0]


@pytest.mark.parametrize("kind", ["plain", "ragged", "tools", "zero_variance", "far_sampler"])
@pytest.mark.parametrize("name", SETTINGS)
def test_presets_equal_trl(name: str, kind: str):
    batch = make(kind)
    loss, _ = policy_loss(batch["new"], batch, PRESETS[name])
    (gradient,) = torch.autograd.grad(loss, batch["new"])
    theirs, logprob_grads = trl_loss(batch, SETTINGS[name])
    tolerance = 1e-6 if name == "sapo" else 1e-9  # TRL rounds SAPO's temperatures to float32
    assert loss.item() == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    torch.testing.assert_close(gradient, logprob_grads, rtol=tolerance, atol=tolerance)


def test_the_sequence_level_with_trls_default_aggregation_is_not_gspo():
    batch = make("ragged")
    loss, _ = policy_loss(batch["new"], batch, PRESETS["gspo"])
    assert trl_loss(batch, NOT_GSPO)[0] != pytest.approx(loss.item(), rel=1e-3)
