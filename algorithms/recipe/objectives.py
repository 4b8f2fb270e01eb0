"""Algorithms that are no policy loss: the likelihood of chosen sequences, and preferences between them.

A table, like the presets: which sequences or pairs are made of the episodes of a step, and which loss acts on them. The
functions are in rlvr.algorithms.train.methods, so that reading the table needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rlvr.algorithms.recipe.presets import Preset


@dataclass(frozen=True)
class Objective:
    """One algorithm.

    formula    the loss in one line
    learns_from  what of a step's episodes
    method     how these are made: imitate_expert, imitate_correct, imitate_best, imitate_all, pairs, verifree
    loss       how they are learned from: nll, dpo, ln_dpo, simpo, verifree
    reference  whether the loss compares with the policy that training began with
    filters    what the trainer does to the data, as in a preset
    note       what one has to know of it
    on_policy  whether its gradient is biased where an older policy sampled
    condition  what stands before each task wherever the policy plays, in training and in evaluation
    """

    name: str
    formula: str
    learns_from: str
    method: str
    loss: str
    reference: bool = False
    filters: tuple[str, ...] = ()
    arxiv: str = ""
    note: str = ""
    on_policy: bool = False
    condition: str = ""

    def as_preset(self, base: Preset) -> Preset:
        """What the learner needs for log-probabilities: a preset of this name, which has no say in the loss."""
        return base.replace(name=self.name, filters=self.filters)


_OBJECTIVES = (
    Objective("sft", "-log pi(y), token mean", "the expert's demonstrations of the step's tasks", "imitate_expert",
              "nll", arxiv="maximum likelihood",
              note="no reward is used; the tasks of each step are those that it would have played"),
    Objective("rft", "-log pi(y), token mean", "each distinct success once (expert iteration)", "imitate_correct",
              "nll", filters=("keep_correct",), arxiv="2308.01825",
              note="equals REINFORCE with advantage 1 for successes and 0 for failures"),
    Objective("best_of_n", "-log pi(y), token mean",
              "the best, then shortest, sequence of each group that has a success", "imitate_best", "nll",
              arxiv="2304.06767",
              note="a group without a success is left out: imitating its shortest failure would unlearn the task"),
    Objective("fcp", "-log pi(y | feedback, x), token mean",
              "every sequence, behind the feedback that it got: its verdict in words", "imitate_all", "nll",
              arxiv="2509.22638", condition="Feedback: correct",
              note="plays, and is evaluated, behind the feedback of a success; reasons lose the words of the answer"),
    Objective("online_dpo", "-log sigmoid(beta (d_w - d_l)), d = sum_t(new - ref)",
              "the best and the worst sequence of each group", "pairs", "dpo", True, arxiv="2402.04792",
              note="sums over tokens, so long sequences move more"),
    Objective("online_ln_dpo", "-log sigmoid(beta (d_w - d_l)), d = mean_t(new - ref), beta 5",
              "the best and the worst sequence of each group", "pairs", "ln_dpo", True, arxiv="2411.15124",
              note="means over tokens"),
    Objective("online_simpo", "-log sigmoid(beta (mean_w - mean_l) - gamma), no ref",
              "the best and the worst sequence of each group", "pairs", "simpo", arxiv="2405.14734",
              note="beta 2, margin 1; the paper tunes both for each model"),
    Objective("verifree", "-A log pi(z) - R log pi(y*), R = pi(y* | x, z)",
              "the policy's own probability of the right answer after its thought; no verifier", "verifree", "verifree",
              arxiv="2505.21493",
              note="sequences without a \\boxed{ are left out: nothing parts thought and answer in them",
              on_policy=True),
)  # fmt: skip

OBJECTIVES: Mapping[str, Objective] = MappingProxyType({objective.name: objective for objective in _OBJECTIVES})
