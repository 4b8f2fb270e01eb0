"""What an advantage reads: `AdvantageInputs`, frozen, each entry with its shape."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr.algorithms._torch import Tensor
from rlvr.algorithms.entries import Entries, entry


@dataclass(frozen=True, kw_only=True)
class AdvantageInputs(Entries):
    """The entries of a whole batch for `compute_advantages`: B sequences of T tokens, not packed."""

    rewards: Tensor | None = entry("B", "the reward of each sequence, shaping included")
    group: Tensor | None = entry("B", "ints, sequences of one group answer one task")
    mask: Tensor | None = entry("B, T", "bool, True on trained tokens")
    token_rewards: Tensor | None = entry("B, T", "rewards per token that add up to `rewards`")
    old_logprobs: Tensor | None = entry("B, T", "log-probs of the policy that is compared with the reference")
    ref_logprobs: Tensor | None = entry(
        "B, T", "log-probs of the frozen reference, for the KL in the reward; or use .replace(kl_coef=0.0)"
    )
    behaviour_logprobs: Tensor | None = entry("B, T", "log-probs under which the tokens were sampled")
    teacher_logprobs: Tensor | None = entry("B, T", "log-probs of the teacher")
    values: Tensor | None = entry("B, T", "the critic's values of the states before each token")
    bootstrap: Tensor | None = entry(
        "B", "the value after the last token of a truncated sequence, 0 of a terminated one"
    )
    features: Tensor | None = entry("B, T, H", "hidden states that the critic reads")
    turn: Tensor | None = entry("B, T", "int, the turn of each trained token, from 0")
    turn_rewards: Tensor | None = entry("B, K", "the reward of each turn, 0 where there was none")
    step: Tensor | None = entry("B, T", "int, the step of each trained token, from 0")
    step_rewards: Tensor | None = entry("B, K", "the reward of each step")
    step_values: Tensor | None = entry("B, K", "Monte-Carlo values of the states before each step")
    budget_scores: Tensor | None = entry("B, S", "the score of each sequence when its thought is cut at each budget")
    budget_slice: Tensor | None = entry("B, T", "int, the budget slice of each trained token")
    budget_probs: Sequence[float] | None = entry("S", "how likely each budget is; uniform without")
    clusters: Tensor | None = entry("B", "int, equal for sequences that gave the same answer")
    roles: Sequence[Hashable] | None = entry("B", "one hashable per sequence, such as (game, player)")
    role_baselines: Any = entry("", "a RoleBaselines, kept over the run")
    continuations: int | None = entry("", "how many continuations were played for the values; only logged")
