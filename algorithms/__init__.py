"""How a policy learns: advantages, losses, corrections, data selection, the learner and the training loop.

Names are loaded when they are first used, so `import rlvr.algorithms` works without torch; what computes needs
`pip install "rlvr[train]"`.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "presets": ("PRESETS", "Preset"),
    "registry": ("ALGORITHMS", "register_preset"),
    "losses.corrections": ("Correction", "CorrectionRule", "register_correction"),
    "inputs": ("AdvantageInputs", "LossInputs", "MissingInput"),
    "losses.policy": ("policy_loss",),
    "losses.stats": ("merge_stats",),
    "advantages": (
        "ADVANTAGES",
        "Advantage",
        "RoleBaselines",
        "compute_advantages",
        "critic_targets",
        "register_advantage",
    ),
    "losses.clip_rules": ("CLIP_RULES", "ClipRule", "Clipped", "Terms", "register_clip_rule"),
    "losses.aggregation": (
        "AGGREGATIONS",
        "Aggregation",
        "BatchLoss",
        "Denominators",
        "count_denominators",
        "register_aggregation",
    ),
    "losses.values": ("ValueHead", "value_loss"),
    "losses.preference": ("best_worst_pairs", "dpo_loss", "ln_dpo_loss", "simpo_loss"),
    "losses.likelihood": ("nll_loss", "verifree_loss"),
    "filters.base": ("EpisodeFilter",),
    "filters.registry": ("FILTERS", "register_filter"),
    "data.selection": ("PassRates", "fill_batch", "has_reward_variance", "mixed_outcome"),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}
# Besides these, `named` has one function per preset: grpo_loss, gspo_loss, ...

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name, "losses.named" if name.endswith("_loss") else None)
    module = importlib.import_module(f"{__name__}.{home}") if home else None
    if module is None or not hasattr(module, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers: {', '.join(__all__)}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
