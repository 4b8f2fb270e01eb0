"""A config as plain values by dotted names, for whoever must not know our classes: other trainers, tables, tests."""

from __future__ import annotations

import dataclasses
from typing import Any

from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.config.sections import Section
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.episode_filter import FILTERS
from rlvr.algorithms.recipe.presets import Preset

_DESCRIBE = ("name", "arxiv", "note", "filters")  # filters are in selection.filters
_BOUNDS = ("clip_low", "clip_high", "dual_clip", "ratio_min", "ratio_max", "tau", "gate", "cov_share", "cov_bounds")
# What a choice of the advantage is when it has no effect.
_NEUTRAL = {
    "gamma": 1.0, "lam": 1.0, "whiten": False, "alpha": 1.0, "group_keep": None, "pass_k": None, "continuations": None,
    "behaviour_penalty": 0.0, "entropy_coef": 0.0, "observation_coef": 0.0, "corrections": (),
    "entropy_share": 1.0, "divergence": "sampled", "divergence_top": 20,
}  # fmt: skip


def plain_settings(config: TrainConfig) -> dict[str, Any]:
    """Every setting by its dotted name, ``learner.lr``; the choices of the algorithm as ``overrides.<choice>``.

    ``selection.filters`` are the filters that apply, whoever chose them.
    """
    values: dict[str, Any] = {}
    for name in TrainConfig.model_fields:
        value = getattr(config, name)
        if isinstance(value, Section):
            values |= {f"{name}.{inner}": getattr(value, inner) for inner in type(value).model_fields}
        elif name != "overrides":
            values[name] = value
    values["selection.filters"] = config.filters()
    preset = config.preset()
    for field in dataclasses.fields(preset):
        if field.name not in _DESCRIBE:
            values[f"overrides.{field.name}"] = getattr(preset, field.name)
    values["overrides.corrections"] = tuple(dataclasses.asdict(each) for each in preset.corrections)
    return values


def is_policy_gradient(config: TrainConfig) -> bool:
    """Whether the algorithm is a policy loss, and no likelihood or preference."""
    return isinstance(ALGORITHMS[config.algorithm], Preset)


def idle_settings(config: TrainConfig) -> frozenset[str]:
    """Settings of the algorithm that have no effect in this config, by their dotted names.

    A filter is ``selection.filters.<name>`` among them.
    """
    preset = config.preset()
    idle = {name for name in _BOUNDS if name not in preset.clip_rule.reads}
    idle |= {name for name, neutral in _NEUTRAL.items() if getattr(preset, name) == neutral}
    if preset.kl == "none" or preset.kl_coef == 0:
        idle |= {"kl", "kl_in", "kl_coef"}
    if preset.ratio_level == "none":
        idle.add("ratio_denominator")
    if not preset.critic:
        idle.add("value_clip")
    names = {f"overrides.{name}" for name in idle}
    if not preset.critic:
        names |= {"critic.width", "critic.lr", "critic.epochs"}
    if config.learner.entropy_target is None:
        names.add("learner.entropy_step")
    filters = [FILTERS[name] for name in config.filters()]
    without_effect = {each.name for each in filters if each.idle(config, endless=False)}
    names |= {f"selection.filters.{name}" for name in without_effect}
    readers = [each for each in filters if each.name not in without_effect]
    names |= {name for each in FILTERS.values() for name in each.reads}
    names -= {name for each in readers for name in each.reads}
    return frozenset(names)
