# Made by `python benchmarks/stubs.py`.
from typing import Protocol

from rlvr.algorithms.core.lazy_torch import (
    Numbers,
    Tensor,
)
from rlvr.algorithms.advantages.compute import (
    compute_advantages as compute_advantages,
    critic_targets as critic_targets,
)
from rlvr.algorithms.advantages.roles import (
    RoleBaselines as RoleBaselines,
)
from rlvr.algorithms.config import (
    ConfigError as ConfigError,
    TrainConfig as TrainConfig,
    load_config as load_config,
)
from rlvr.algorithms.core.inputs import (
    AdvantageInputs as AdvantageInputs,
    LossInputs as LossInputs,
    MissingInput as MissingInput,
)
from rlvr.algorithms.core.sequences import (
    Denominators as Denominators,
    count_denominators as count_denominators,
)
from rlvr.algorithms.filters.selection import (
    PassRates as PassRates,
    fill_batch as fill_batch,
    has_reward_variance as has_reward_variance,
    mixed_outcome as mixed_outcome,
)
from rlvr.algorithms.losses.likelihood import (
    nll_loss as nll_loss,
    verifree_loss as verifree_loss,
)
from rlvr.algorithms.losses.policy import (
    merge_stats as merge_stats,
    policy_loss as policy_loss,
)
from rlvr.algorithms.losses.preference import (
    best_worst_pairs as best_worst_pairs,
    dpo_loss as dpo_loss,
    ln_dpo_loss as ln_dpo_loss,
    simpo_loss as simpo_loss,
)
from rlvr.algorithms.losses.values import (
    ValueHead as ValueHead,
    value_loss as value_loss,
)
from rlvr.algorithms.recipe.advantage import (
    ADVANTAGES as ADVANTAGES,
    Advantage as Advantage,
    register_advantage as register_advantage,
)
from rlvr.algorithms.recipe.all_algorithms import (
    ALGORITHMS as ALGORITHMS,
    register_preset as register_preset,
)
from rlvr.algorithms.recipe.episode_filter import (
    EpisodeFilter as EpisodeFilter,
    FILTERS as FILTERS,
    register_filter as register_filter,
)
from rlvr.algorithms.recipe.loss_parts import (
    AGGREGATIONS as AGGREGATIONS,
    Aggregation as Aggregation,
    BatchLoss as BatchLoss,
    CLIP_RULES as CLIP_RULES,
    Choices as Choices,
    ClipRule as ClipRule,
    Clipped as Clipped,
    Correction as Correction,
    CorrectionRule as CorrectionRule,
    Terms as Terms,
    register_aggregation as register_aggregation,
    register_clip_rule as register_clip_rule,
    register_correction as register_correction,
)
from rlvr.algorithms.recipe.presets import (
    PRESETS as PRESETS,
    Preset as Preset,
)
from rlvr.algorithms.runs.callbacks import (
    Callback as Callback,
)
from rlvr.algorithms.train.run import (
    Trainer as Trainer,
)


class PresetLoss(Protocol):
    """The loss of one preset; `rlvr.algorithms.losses.named` says what the arguments are."""

    def __call__(
        self,
        trainer_log_probs: Tensor,
        inference_log_probs: Numbers | None,
        advantages: Numbers,
        completion_mask: Numbers,
        *,
        old_log_probs: Numbers | None = ...,
        ref_log_probs: Numbers | None = ...,
        group: Numbers | None = ...,
        max_length: float | None = ...,
        sequence_id: Numbers | None = ...,
        entropy: Tensor | None = ...,
        covariant: Numbers | None = ...,
        denominators: Denominators | None = ...,
        epsilon_lower: float | None = ...,
        epsilon_upper: float | None = ...,
        ratio_max: float | None = ...,
        beta: float | None = ...,
        loss_reduction: str | None = ...,
    ) -> tuple[Tensor, dict[str, Tensor]]: ...

reinforce_loss: PresetLoss
reinforce_baseline_loss: PresetLoss
rloo_loss: PresetLoss
rloo_trl_loss: PresetLoss
loop_loss: PresetLoss
reinforce_pp_loss: PresetLoss
reinforce_pp_baseline_loss: PresetLoss
ppo_loss: PresetLoss
grpo_loss: PresetLoss
gdpo_loss: PresetLoss
dr_grpo_loss: PresetLoss
dapo_loss: PresetLoss
dapo_prompt_mean_loss: PresetLoss
lite_ppo_loss: PresetLoss
cispo_loss: PresetLoss
scalerl_loss: PresetLoss
prime_loss: PresetLoss
dppo_loss: PresetLoss
importance_sampling_loss: PresetLoss
seq_is_loss: PresetLoss
topr_loss: PresetLoss
gspo_loss: PresetLoss
gspo_token_loss: PresetLoss
gmpo_loss: PresetLoss
clip_cov_loss: PresetLoss
kl_cov_loss: PresetLoss
sapo_loss: PresetLoss
kimi_loss: PresetLoss
intellect2_loss: PresetLoss
olmorl_loss: PresetLoss
tis_loss: PresetLoss
seq_tis_loss: PresetLoss
icepop_loss: PresetLoss
seq_mis_loss: PresetLoss
geo_mask_tis_loss: PresetLoss
grpo_offpolicy_mask_loss: PresetLoss
grpo_unbiased_kl_loss: PresetLoss
maxrl_loss: PresetLoss
gem_rebn_loss: PresetLoss
gem_ppo_loss: PresetLoss
turn_rloo_loss: PresetLoss
gigpo_loss: PresetLoss
gigpo_state_loss: PresetLoss
spiral_loss: PresetLoss
marshal_loss: PresetLoss
vineppo_loss: PresetLoss
brpo_loss: PresetLoss
seed_grpo_loss: PresetLoss
gfpo_loss: PresetLoss
passk_loss: PresetLoss
passk_max_loss: PresetLoss
grpo_process_loss: PresetLoss
opo_loss: PresetLoss
on_policy_distillation_loss: PresetLoss
sdpo_loss: PresetLoss

__all__ = [
    "ADVANTAGES",
    "AGGREGATIONS",
    "ALGORITHMS",
    "Advantage",
    "AdvantageInputs",
    "Aggregation",
    "BatchLoss",
    "CLIP_RULES",
    "Callback",
    "Choices",
    "ClipRule",
    "Clipped",
    "ConfigError",
    "Correction",
    "CorrectionRule",
    "Denominators",
    "EpisodeFilter",
    "FILTERS",
    "LossInputs",
    "MissingInput",
    "PRESETS",
    "PassRates",
    "Preset",
    "RoleBaselines",
    "Terms",
    "TrainConfig",
    "Trainer",
    "ValueHead",
    "best_worst_pairs",
    "compute_advantages",
    "count_denominators",
    "critic_targets",
    "dpo_loss",
    "fill_batch",
    "has_reward_variance",
    "ln_dpo_loss",
    "load_config",
    "merge_stats",
    "mixed_outcome",
    "nll_loss",
    "policy_loss",
    "register_advantage",
    "register_aggregation",
    "register_clip_rule",
    "register_correction",
    "register_filter",
    "register_preset",
    "simpo_loss",
    "value_loss",
    "verifree_loss",
]
