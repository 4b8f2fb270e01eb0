"""Learning rates that a config does not give: one rule, for `rlvr/tiny` and for pretrained weights."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from rlvr.agents.models.tiny import TINY
from rlvr.envs.core.json_text import load_json

PER_WIDTH: Final = 6e-3  # rate of full weights times hidden size
UNKNOWN_WIDTH: Final = 2048  # of a model that is not on this machine yet
LORA: Final = 10.0  # LoRA adapters learn best with about ten times the rate of all weights
IMITATION: Final = 5.0  # demonstrations are less noisy than rewards


class Rates(NamedTuple):
    """Learning rates of AdamW, and where they come from."""

    learner: float
    warm_start: float
    mixed: float
    source: str


def rates_for(name: str, lora_rank: int = 0) -> Rates:
    """The rates for a model.

    Pretrained weights get lr = 6e-3 / hidden size, since the best rate of Adam falls as 1 / width (2203.03466), ten
    times that for LoRA adapters (2405.09673), and five times that for demonstrations. A model that is not on this
    machine counts as 2,048 wide.

    Args:
        name: ``rlvr/tiny``, a folder, or a name on the hub.
        lora_rank: 0 where all weights are trained.
    """
    if name == TINY:
        return Rates(3e-4, 3e-3, 1e-3, f"those of {TINY}")
    width = _width(Path(name).expanduser())
    rate = _rounded(PER_WIDTH / (width or UNKNOWN_WIDTH) * (LORA if lora_rank else 1.0))
    imitation = _rounded(rate * IMITATION)
    of_width = f"{width} wide" if width else f"taken as {UNKNOWN_WIDTH:,} wide"
    what = "LoRA adapters of a pretrained model" if lora_rank else "a pretrained model"
    return Rates(rate, imitation, imitation, f"those of {what}, {of_width}")


def chosen(rate: float | None) -> float:
    """A rate of a section that belongs to a config.

    Raises:
        ValueError: the section stands alone, so that nobody knows its model.
    """
    if rate is None:
        raise ValueError("a section by itself has no learning rate: give it one, or take the section of a TrainConfig")
    return rate


def _rounded(rate: float) -> float:
    return float(f"{rate:.1e}")


def _width(folder: Path) -> int | None:
    """The hidden size that a model's folder states; None where there is none to read."""
    try:
        config = load_json((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # whoever loads the model says what is wrong with it
    for section in (config, config.get("text_config")) if isinstance(config, dict) else ():
        size = section.get("hidden_size") if isinstance(section, dict) else None
        if type(size) is int and size > 0:
            return size
    return None
