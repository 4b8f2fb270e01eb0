"""Each preset as a function: `grpo_loss(trainer_log_probs, inference_log_probs, advantages, completion_mask, ...)`.

They are made from the table, so a preset and its function cannot differ: same formula, same defaults, the name of the
preset followed by `_loss`. All take the same arguments:

trainer_log_probs    [B, T] log-probs of the policy that learns, with gradient
inference_log_probs  [B, T] log-probs reported by the generator
advantages           [B] or [B, T], see `compute_advantages`
completion_mask      [B, T] bool, True on tokens that the policy sampled
old_log_probs        [B, T] of the trainer when the batch was taken. Without it a ratio to "old" is taken to the
                     generator, and then *is* the correction: presets that correct for the generator besides refuse
ref_log_probs        [B, T] of the frozen reference, for presets with a KL in the loss (or beta=0)
group                [B] ids of prompts, for prompt_mean
max_length           the generation budget, for Dr. GRPO's constant
row_id, denominators, entropy   as in `policy_loss`
epsilon_lower, epsilon_upper    distances of the clip rule; ratio_max: an absolute cap; beta: the KL coefficient
loss_reduction       "token" (mean over tokens), "sample" (mean of row means), or any aggregation

Each returns (loss, stats) and raises what `policy_loss` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.losses.aggregation import Denominators
from rlvr.algorithms.losses.policy import policy_loss
from rlvr.algorithms.presets import ADVANTAGES, PRESETS, Preset

Tensor = torch.Tensor
LossFunction = Callable[..., tuple[Tensor, dict[str, Tensor]]]
REDUCTIONS = {"token": "token_mean", "sample": "seq_mean_token_mean"}
_EPSILON_RULES = ("ppo", "tv", "log_one_sided")
_CAP_RULES = ("cap", "band", "negative_cap")


def _overridden(
    preset: Preset,
    epsilon_lower: float | None,
    epsilon_upper: float | None,
    ratio_max: float | None,
    beta: float | None,
    loss_reduction: str | None,
) -> Preset:
    if (epsilon_lower is not None or epsilon_upper is not None) and preset.clip not in _EPSILON_RULES:
        raise ValueError(f"{preset.name} has no epsilon (clip rule {preset.clip!r}); an absolute cap is ratio_max")
    if ratio_max is not None and preset.clip not in _CAP_RULES:
        raise ValueError(f"{preset.name} has no cap (clip rule {preset.clip!r}); see epsilon_lower, epsilon_upper")
    changes = {
        "clip_low": epsilon_lower,
        "clip_high": epsilon_upper,
        "ratio_max": ratio_max,
        "kl_coef": beta,
        "aggregation": REDUCTIONS.get(loss_reduction, loss_reduction) if loss_reduction else None,
    }
    if beta and preset.kl == "none":
        changes["kl"] = "k3"
    return preset.but(**{key: value for key, value in changes.items() if value is not None})


def _named(name: str) -> LossFunction:
    base = PRESETS[name]

    def loss(
        trainer_log_probs: Tensor,
        inference_log_probs: Tensor | None,
        advantages: Any,
        completion_mask: Any,
        *,
        old_log_probs: Any = None,
        ref_log_probs: Any = None,
        group: Any = None,
        max_length: float | None = None,
        row_id: Any = None,
        entropy: Any = None,
        denominators: Denominators | None = None,
        epsilon_lower: float | None = None,
        epsilon_upper: float | None = None,
        ratio_max: float | None = None,
        beta: float | None = None,
        loss_reduction: str | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        preset = _overridden(base, epsilon_lower, epsilon_upper, ratio_max, beta, loss_reduction)
        if old_log_probs is None and "old" in preset.needs:
            if any(correction.kind != "off_policy_mask" for correction in preset.corrections):
                raise ValueError(
                    f"{name}_loss corrects old / inference: give old_log_probs. Without them its ratio is to the "
                    "generator already, and the correction would be applied twice"
                )
            old_log_probs = inference_log_probs
        batch = {
            "old": old_log_probs,
            "sampler": inference_log_probs,
            "ref": ref_log_probs,
            "mask": completion_mask,
            "advantages": advantages,
            "group": group,
            "max_length": max_length,
            "row_id": row_id,
            "entropy": entropy,
        }
        return policy_loss(trainer_log_probs, batch, preset, denominators)

    loss.__name__ = loss.__qualname__ = f"{name}_loss"
    loss.__doc__ = _document(base)
    return loss


def _document(p: Preset) -> str:
    needs = ", ".join(sorted(p.needs)) or "nothing besides mask and advantages"
    return (
        f"{p.name}: {p.formula}.\n\n"
        f"A = {ADVANTAGES[p.advantage]}. Needs: {needs}. Source: {p.arxiv}.\n"
        f"Implementations: {p.note}.\nArguments: see the module rlvr.algorithms.losses.named.\n"
    )


reinforce_loss = _named("reinforce")
reinforce_baseline_loss = _named("reinforce_baseline")
rloo_loss = _named("rloo")
rloo_trl_loss = _named("rloo_trl")
loop_loss = _named("loop")
reinforce_pp_loss = _named("reinforce_pp")
reinforce_pp_baseline_loss = _named("reinforce_pp_baseline")
ppo_loss = _named("ppo")
grpo_loss = _named("grpo")
dr_grpo_loss = _named("dr_grpo")
dapo_loss = _named("dapo")
dapo_prompt_mean_loss = _named("dapo_prompt_mean")
lite_ppo_loss = _named("lite_ppo")
cispo_loss = _named("cispo")
scalerl_loss = _named("scalerl")
prime_loss = _named("prime")
dppo_loss = _named("dppo")
importance_sampling_loss = _named("importance_sampling")
seq_is_loss = _named("seq_is")
topr_loss = _named("topr")
gspo_loss = _named("gspo")
gspo_token_loss = _named("gspo_token")
gmpo_loss = _named("gmpo")
sapo_loss = _named("sapo")
kimi_loss = _named("kimi")
intellect2_loss = _named("intellect2")
olmorl_loss = _named("olmorl")
tis_loss = _named("tis")
seq_tis_loss = _named("seq_tis")
icepop_loss = _named("icepop")
seq_mis_loss = _named("seq_mis")
geo_mask_tis_loss = _named("geo_mask_tis")
grpo_offpolicy_mask_loss = _named("grpo_offpolicy_mask")
grpo_unbiased_kl_loss = _named("grpo_unbiased_kl")
maxrl_loss = _named("maxrl")
gem_rebn_loss = _named("gem_rebn")
gem_ppo_loss = _named("gem_ppo")
spiral_loss = _named("spiral")
vineppo_loss = _named("vineppo")
brpo_loss = _named("brpo")
seed_grpo_loss = _named("seed_grpo")
gfpo_loss = _named("gfpo")
passk_loss = _named("passk")
passk_max_loss = _named("passk_max")
grpo_process_loss = _named("grpo_process")
opo_loss = _named("opo")
on_policy_distillation_loss = _named("on_policy_distillation")
