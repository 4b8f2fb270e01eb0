"""What can be named as an algorithm although it is no policy loss: likelihoods of chosen rows, and preferences.

A table, like the presets: which rows or pairs are made of the collected episodes, and which loss acts on them. The
functions are in rlvr.algorithms.train.methods, so that reading the table needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Objective:
    """One row: ``method`` names how rows are made, ``loss`` how they are learned from.

    method    imitate_expert, imitate_correct, imitate_best, pairs, verifree
    loss      nll, dpo, ln_dpo, simpo, verifree
    filters   what the trainer does to the data, as in a preset
    """

    method: str
    loss: str
    filters: tuple[str, ...] = ()
    arxiv: str = ""
    note: str = ""

    @property
    def reference(self) -> bool:
        """Whether the loss compares with the policy that training began with."""
        return self.loss in ("dpo", "ln_dpo")


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "sft": Objective("imitate_expert", "nll", note="demonstrations of the environment's expert"),
        "rft": Objective(
            "imitate_correct", "nll", ("keep_correct",), "2308.01825", "expert iteration: each distinct success once"
        ),
        "best_of_n": Objective(
            "imitate_best", "nll", (), "2304.06767", "the best, then shortest, row of each group with a success"
        ),
        "online_dpo": Objective("pairs", "dpo", (), "2402.04792", "the best and the worst row of each group"),
        "online_ln_dpo": Objective("pairs", "ln_dpo", (), "2411.15124", "the same, per token"),
        "online_simpo": Objective("pairs", "simpo", (), "2405.14734", "the same, without a reference"),
        "verifree": Objective(
            "verifree", "verifree", (), "2505.21493", "rewarded by the policy's own probability of the right answer"
        ),
    }
)
