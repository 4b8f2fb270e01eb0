"""`ClipRule`: how far a policy may move in one update: name, formula, ratio levels, kernel, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.core.sequences import SequenceIndex
from rlvr.algorithms.recipe.algorithm_choices import Choices
from rlvr.envs.open_registry import OpenRegistry, require_methods


@dataclass(frozen=True)
class Terms:
    """What a kernel reads. All [B, T], 0 at masked tokens; only `new` and `log_ratio` carry gradient."""

    new: Tensor  # log pi(y_t)
    log_ratio: Tensor  # log r_t = new - denominator
    denominator: Tensor  # log-probs of the old or the behaviour policy
    advantages: Tensor  # A_t
    sequences: SequenceIndex


@dataclass(frozen=True)
class Clipped:
    """A loss per token [B, T] or per sequence [R], and where the rule held it from below or above (same shape)."""

    loss: Tensor
    low: Tensor
    high: Tensor


class ClipRule:
    """Base of the rules. A new rule is a subclass; `register_clip_rule` gives its name to presets.

    name            what `Preset.clip` says
    ratio_levels    levels of the ratio that it takes
    reads           choices of the preset that it reads; any other override of a bound is refused
    one_advantage   whether a loss per sequence needs one advantage for all tokens of a sequence
    """

    name: str
    ratio_levels: tuple[str, ...] = ("token",)
    reads: tuple[str, ...] = ()
    one_advantage: bool = True

    def loss(self, t: Terms, p: Choices) -> Clipped:
        """The kernel."""
        raise NotImplementedError

    def formula(self, p: Choices) -> str:
        """The loss in one line, with the preset's numbers."""
        raise NotImplementedError

    def summary(self, p: Choices) -> str:
        """The rule and its numbers, for a column of the table."""
        return self.name

    def ratio_formula(self, p: Choices, gap: str) -> str:
        """What r stands for; "" where the formula names no r. ``gap`` is the log-ratio of a token."""
        return {
            "none": "",
            "token": f"r = exp({gap})",
            "sequence": f"r = exp(mean_t({gap}))",
            "sequence_token": f"r = sg(exp(mean_t({gap}))) pi/sg(pi)",
            "product": f"r = exp(sum_t({gap}))",
        }[p.ratio_level]

    def per_sequence(self, p: Choices) -> bool:
        """Whether the loss is one number per sequence (it does not factor into tokens)."""
        return False

    def acts_without_advantage(self, p: Choices) -> bool:
        """Whether a token of advantage zero still has a gradient."""
        return False

    def check(self, p: Choices) -> None:
        """Refuse choices that do not go with the rule.

        Raises:
            ValueError: which, and what to change.
        """


def _as_clip_rule(value: Any) -> ClipRule:
    rule: ClipRule = require_methods(value, ClipRule, ("loss", "formula"), "clip rule")
    return rule


CLIP_RULES: OpenRegistry[ClipRule] = OpenRegistry("clip rule", "rlvr.algorithms", {}, _as_clip_rule)


def register_clip_rule(rule: ClipRule) -> ClipRule:
    """Add a clip rule, an object of a subclass of `ClipRule`; its name may then stand in ``clip``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return CLIP_RULES.register(rule)
