"""How a policy learns: advantages, losses, corrections, data selection, the learner and the training loop.

Names are loaded when they are first used, so `import rlvr.algorithms` works without torch; what computes needs
`pip install "rlvr[train]"`. Besides those that are listed, each preset has its loss: `grpo_loss`, `gspo_loss`, ….
"""

from __future__ import annotations

import importlib
from typing import Any

# Their parts register themselves, by the functions that a plug-in calls; presets name them.
import rlvr.algorithms.advantages
import rlvr.algorithms.filters
import rlvr.algorithms.losses  # noqa: F401

_EXPORTS = {
    "recipe.presets": ("PRESETS", "Preset"),
    "recipe.all_algorithms": ("ALGORITHMS", "register_preset"),
    "recipe.advantage": ("ADVANTAGES", "Advantage", "register_advantage"),
    "recipe.loss_parts": (
        "AGGREGATIONS",
        "Aggregation",
        "BatchLoss",
        "CLIP_RULES",
        "Choices",
        "ClipRule",
        "Clipped",
        "Correction",
        "CorrectionRule",
        "Terms",
        "register_aggregation",
        "register_clip_rule",
        "register_correction",
    ),
    "recipe.episode_filter": ("FILTERS", "EpisodeFilter", "register_filter"),
    "core.inputs": ("AdvantageInputs", "LossInputs", "MissingInput"),
    "core.sequences": ("Denominators", "count_denominators"),
    "advantages.compute": ("compute_advantages", "critic_targets"),
    "advantages.roles": ("RoleBaselines",),
    "losses.policy": ("merge_stats", "policy_loss"),
    "losses.values": ("ValueHead", "value_loss"),
    "losses.preference": ("best_worst_pairs", "dpo_loss", "ln_dpo_loss", "simpo_loss"),
    "losses.likelihood": ("nll_loss", "verifree_loss"),
    "config": ("ConfigError", "TrainConfig", "load_config"),
    "runs.callbacks": ("Callback",),
    "train.run": ("Trainer",),
    "filters.selection": ("PassRates", "fill_batch", "has_reward_variance", "mixed_outcome"),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}
# Besides these, `named` has one function per preset: grpo_loss, gspo_loss, … What type checkers see of all names is
# `__init__.pyi`, which `python benchmarks/stubs.py` writes.

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name, "losses.named" if name.endswith("_loss") else None)
    module = importlib.import_module(f"{__name__}.{home}") if home else None
    if module is None or not hasattr(module, name):
        from rlvr.algorithms.losses.named import named_losses
        from rlvr.envs.core.hints import did_you_mean

        others = did_you_mean(name, (*__all__, *named_losses()), "it offers")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{others}")
    return getattr(module, name)


def __dir__() -> list[str]:
    from rlvr.algorithms.losses.named import named_losses

    return [*__all__, *named_losses()]
