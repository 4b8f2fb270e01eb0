"""`compute_advantages`: by the advantage that a preset names, over a whole batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from rlvr.algorithms.advantages.token_returns import whiten
from rlvr.algorithms.advantages.token_rewards import floats, mask_of, token_kl
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import as_rewards
from rlvr.algorithms.recipe.advantage import Advantage

if TYPE_CHECKING:  # a preset checks that its advantage is registered, which comes after this import
    from rlvr.algorithms.recipe.presets import Preset


def compute_advantages(
    rewards: Numbers, group: Numbers, preset: Preset, batch: AdvantageInputs | Mapping[str, object] | None = None
) -> Tensor:
    """The advantages of a preset: [B], or [B, T] where they differ within a sequence.

    rewards [B], group [B] ints (ignored by estimators without groups). `batch` carries what some estimators need
    besides, as `AdvantageInputs` or a mapping of its entries; `preset.estimator.needs` names them.

    Compute them once, over the whole batch: groups, batch statistics and whitening must not see micro-batches.

    Raises:
        MissingInput: an entry is missing; says what it is.
        ValueError: rewards or an entry are misshapen or not finite, or the batch is packed.
    """
    advantage = preset.estimator
    rewards = as_rewards(rewards)  # [B]
    x = _inputs(batch)
    kl = token_kl(x, preset) if preset.reward_kl_coef and not advantage.kl_per_token else None  # [B, T]
    if kl is not None:
        # R_i <- R_i - c sum_t k1_it                                   [B]  KL in the reward, RLOO 2402.14740
        rewards = rewards + kl.sum(1).to(rewards)
    entries: dict[str, Any] = {"rewards": rewards, "group": group}
    advantages = advantage.compute(replace(x, **entries), preset)
    if preset.whiten:
        mask = mask_of(x, preset)
        if advantages.dim() == 1:
            advantages = advantages[:, None] * mask  # [B] -> [B, T]
        advantages = whiten(advantages, mask)  # after the baseline, as PPO does
    return advantages


def critic_targets(
    rewards: Numbers, preset: Preset, batch: AdvantageInputs | Mapping[str, object]
) -> tuple[Tensor, Tensor]:
    """What the critic should have said: (targets [B, T], mask [B, T] of where they hold), for presets with a critic.

    With turns only the first trained token of a turn has a value.

    Raises:
        ValueError: the preset has no critic.
    """
    advantage = preset.estimator
    if not advantage.critic:
        raise ValueError(f"preset {preset.name!r} (advantage {preset.advantage!r}) has no critic")
    x = replace(_inputs(batch), rewards=as_rewards(rewards))
    mask, values = mask_of(x, preset), floats(x, "values", preset)  # [B, T] each
    advantages = advantage.compute(x, preset)  # [B, T]
    where = mask if advantage.value_tokens is None else advantage.value_tokens(x)  # [B, T]
    # target_t = A_t + V_t, A before whitening                         [B, T]  PPO, 1707.06347
    return torch.where(where, advantages + torch.where(mask, values, 0), 0), where


def _inputs(batch: AdvantageInputs | Mapping[str, object] | None) -> AdvantageInputs:
    if isinstance(batch, Mapping) and batch.get("sequence_id") is not None:
        raise ValueError("advantages are computed before packing: give one line per sequence, and no sequence_id")
    return AdvantageInputs.of(batch or {})


def needed_entries(advantage: Advantage) -> str:
    """The entries of `AdvantageInputs` that an advantage needs, with their shapes."""
    shapes = {entry.name: entry.metadata["shape"] for entry in fields(AdvantageInputs)}
    return ", ".join(f"{name} [{shapes[name]}]" if shapes[name] else name for name in advantage.needs)
