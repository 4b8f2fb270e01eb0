"""What a viewer shows of a training run's tokens: ratio, clip and correction, computed anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.losses.policy import policy_terms
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.presets import Preset
from rlvr.algorithms.runs.explain import rebuilt
from rlvr.algorithms.runs.run_folder import config_of


def token_columns(run: Path, record: Mapping[str, Any]) -> dict[str, list[float]]:
    """``ratio``, ``clip`` (-1 at the lower bound, 1 at the upper) and ``correction`` of each token [T].

    They are what `rlvr explain` prints, 0 where a token was not sampled. Nothing for an episode of which the run
    noted no log-probabilities, and for algorithms that are no policy losses.

    Raises:
        ValueError, KeyError: the config or the record is none of a run of this version.
    """
    config = config_of(run)
    if not isinstance(ALGORITHMS[config.algorithm], Preset):
        return {}
    episode = Episode.from_dict(record)
    if not {"logprobs", "advantages", "denominators"} <= episode.training.keys():
        return {}
    preset = config.preset()
    inputs, new, _ = rebuilt(preset, episode)
    parts = policy_terms(new, inputs, preset)
    mask = parts.terms.sequences.mask[0].to(new.dtype)  # [T]
    # clip_t = 1[held at the upper bound] - 1[held at the lower one]     [T]
    columns = {"clip": _spread(parts.clipped.high.to(new.dtype) - parts.clipped.low.to(new.dtype), mask)}
    if preset.ratio_level != "none":
        columns["ratio"] = _spread(parts.terms.log_ratio.exp(), mask)
    if parts.weight is not None:
        columns["correction"] = _spread(parts.weight, mask)
    return columns


def _spread(values: Tensor, mask: Tensor) -> list[float]:
    """Values [1, T], or of the one sequence [1], for each token [T]."""
    row = values[0] if values.dim() == 2 else values.expand(len(mask))
    column: list[float] = (row * mask).tolist()
    return column


def env_settings(run: Path) -> dict[str, Any]:
    """What ``gym.make`` was given in a run, without the split and the level, which each episode names.

    Raises:
        ValueError: the config cannot be read.
    """
    return dict(config_of(run).env.settings)
