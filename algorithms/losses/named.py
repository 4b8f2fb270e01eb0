"""Each preset as a function: `grpo_loss(trainer_log_probs, inference_log_probs, advantages, completion_mask, ...)`.

They are made from the table, so a preset and its function cannot differ: same formula, same defaults, the name of the
preset followed by `_loss`. All take the same arguments:

trainer_log_probs    [B, T] log-probs of the policy that learns, with gradient
inference_log_probs  [B, T] log-probs of the behaviour policy, as its engine reported them
advantages           [B] or [B, T], see `compute_advantages`
completion_mask      [B, T] bool, True on tokens that the policy sampled
old_log_probs        [B, T] of the trainer when the batch was taken. Without it a ratio to "old" is taken to the
                     behaviour policy, and then *is* the correction: presets that correct besides refuse
ref_log_probs        [B, T] of the frozen reference, for presets with a KL in the loss (or beta=0)
group                [B] ids of prompts, for prompt_mean
max_length           the generation budget, for Dr. GRPO's constant
sequence_id, denominators, entropy, covariant   as in `policy_loss`
epsilon_lower, epsilon_upper    distances of the clip rule; ratio_max: an absolute cap; beta: the KL coefficient
loss_reduction       "token" (mean over tokens), "sample" (mean of sequence means), or any aggregation

Each returns (loss, stats) and raises what `policy_loss` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlvr.algorithms.core.lazy_torch import Numbers, Tensor
from rlvr.algorithms.core.sequences import Denominators
from rlvr.algorithms.losses.policy import policy_loss
from rlvr.algorithms.recipe.presets import PRESETS, Preset
from rlvr.envs.core.hints import did_you_mean

LossFunction = Callable[..., tuple[Tensor, dict[str, Tensor]]]
REDUCTIONS = {"token": "token_mean", "sample": "seq_mean_token_mean"}


def _overridden(
    preset: Preset,
    epsilon_lower: float | None,
    epsilon_upper: float | None,
    ratio_max: float | None,
    beta: float | None,
    loss_reduction: str | None,
) -> Preset:
    # an override that the rule does not read would change nothing, in silence
    reads = preset.clip_rule.reads
    if (epsilon_lower is not None or epsilon_upper is not None) and "clip_high" not in reads:
        raise ValueError(f"{preset.name} has no epsilon (clip rule {preset.clip!r}); an absolute cap is ratio_max")
    if ratio_max is not None and "ratio_max" not in reads:
        raise ValueError(f"{preset.name} has no cap (clip rule {preset.clip!r}); see epsilon_lower, epsilon_upper")
    changes: dict[str, Any] = {
        "clip_low": epsilon_lower,
        "clip_high": epsilon_upper,
        "ratio_max": ratio_max,
        "kl_coef": beta,
        "aggregation": REDUCTIONS.get(loss_reduction, loss_reduction) if loss_reduction else None,
    }
    if beta and preset.kl == "none":
        changes["kl"] = "k3"  # a coefficient without an estimator asks for GRPO's
    return preset.replace(**{key: value for key, value in changes.items() if value is not None})


def _named(name: str) -> LossFunction:
    base = PRESETS[name]

    def loss(
        trainer_log_probs: Tensor,
        inference_log_probs: Numbers | None,
        advantages: Numbers,
        completion_mask: Numbers,
        *,
        old_log_probs: Numbers | None = None,
        ref_log_probs: Numbers | None = None,
        group: Numbers | None = None,
        max_length: float | None = None,
        sequence_id: Numbers | None = None,
        entropy: Tensor | None = None,
        covariant: Numbers | None = None,
        denominators: Denominators | None = None,
        epsilon_lower: float | None = None,
        epsilon_upper: float | None = None,
        ratio_max: float | None = None,
        beta: float | None = None,
        loss_reduction: str | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        preset = _overridden(base, epsilon_lower, epsilon_upper, ratio_max, beta, loss_reduction)
        if old_log_probs is None and "old_logprobs" in preset.needs:
            if any("old_logprobs" in correction.rule.needs for correction in preset.corrections):
                raise ValueError(
                    f"{name}_loss corrects old / inference: give old_log_probs. Without them its ratio is to the "
                    "behaviour policy already, and the correction would be applied twice"
                )
            old_log_probs = inference_log_probs  # r = new / behaviour, exact where the engines agree
        batch = {  # shapes as in the module's table
            "mask": completion_mask,
            "advantages": advantages,
            "old_logprobs": old_log_probs,
            "behaviour_logprobs": inference_log_probs,
            "ref_logprobs": ref_log_probs,
            "entropy": entropy,
            "covariant": covariant,
            "group": group,
            "sequence_id": sequence_id,
            "max_length": max_length,
        }
        return policy_loss(trainer_log_probs, batch, preset, denominators)

    loss.__name__ = loss.__qualname__ = f"{name}_loss"
    loss.__doc__ = _document(base)
    return loss


def _document(p: Preset) -> str:
    needs = ", ".join(sorted(p.needs)) or "nothing besides mask and advantages"
    return (
        f"{p.name}: {p.formula}.\n\n"
        f"A = {p.estimator.formula}. Needs: {needs}. Source: {p.arxiv}.\n"
        f"Implementations: {p.note}.\nArguments: see the module rlvr.algorithms.losses.named.\n"
    )


def named_losses() -> list[str]:
    """The names of the functions that there are."""
    return [f"{name}_loss" for name in PRESETS]


if not TYPE_CHECKING:  # a type checker sees those of rlvr.algorithms, and would take any name for one here

    def __getattr__(name: str) -> LossFunction:
        preset = name.removesuffix("_loss")
        if preset == name or preset not in PRESETS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{did_you_mean(name, named_losses())}")
        return _named(preset)

    def __dir__() -> list[str]:
        return named_losses()
