"""What a viewer shows of a training run's tokens: their texts, and ratio, clip and correction, computed anew."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.algorithms._torch import Tensor
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.losses.policy import policy_terms
from rlvr.algorithms.presets import Preset
from rlvr.algorithms.registry import ALGORITHMS
from rlvr.algorithms.runs.explain import rebuilt


def token_columns(run: Path, record: Mapping[str, Any]) -> dict[str, list[float]]:
    """``ratio``, ``clip`` (-1 at the lower bound, 1 at the upper) and ``correction`` of each token [T].

    They are what `rlvr explain` prints, 0 where a token was not sampled. Nothing for an episode of which the run
    noted no log-probabilities, and for algorithms that are no policy losses.

    Raises:
        ValueError, KeyError: the config or the record is none of a run of this version.
    """
    config = _config(run)
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
    spread: list[float] = (row * mask).tolist()
    return spread


def decoder(run: Path) -> Callable[[Sequence[int]], list[str]] | None:
    """The texts of token ids, one each, by the tokenizer that the run saved or the embedded policy's; else None.

    Raises:
        ValueError: the tokenizer cannot be read.
    """
    from tokenizers import Tokenizer

    saved = run / "policy" / "tokenizer.json"
    if saved.is_file():
        try:
            backend = Tokenizer.from_file(str(saved))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{saved} is no tokenizer: {error}") from error
    elif (run / "config.yaml").is_file() and (config := _config(run)).model.name == "rlvr/tiny":
        from rlvr.agents.models.tiny import WORDS, tiny_tokenizer

        backend = tiny_tokenizer((*WORDS, *config.model.words)).backend_tokenizer
    else:
        return None

    def decode(ids: Sequence[int]) -> list[str]:
        known = backend.get_vocab_size()
        texts: list[str] = backend.decode_batch(
            [[token] if 0 <= token < known else [] for token in ids], skip_special_tokens=False
        )
        return texts

    return decode


def env_settings(run: Path) -> dict[str, Any]:
    """What ``gym.make`` was given in a run, without the split and the level, which each episode names.

    Raises:
        ValueError: the config cannot be read.
    """
    return dict(_config(run).env.settings)


def _config(run: Path) -> TrainConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a run that a version before wrote
        return load_config(run / "config.yaml")
