"""Losses that raise a likelihood: SFT, RFT and best-of-n (NLL on selected sequences), VeriFree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import (
    Denominators,
    Groups,
    SequenceIndex,
    as_mask,
    as_rewards,
    count_denominators,
    sequences_of,
)
from rlvr.algorithms.losses.aggregation import aggregate
from rlvr.algorithms.recipe.loss_parts import AGGREGATIONS
from rlvr.envs.core.hints import one_of


def nll_loss(
    new: Tensor,
    batch: LossInputs | Mapping[str, object],
    denominators: Denominators | None = None,
    *,
    aggregation: str = "token_mean",
) -> tuple[Tensor, dict[str, Tensor]]:
    """-log pi of the trained tokens (`mask` [B, T]), averaged over all of them (SFT, distillation).

    On sequences that a verifier accepted this is rejection fine-tuning (2308.01825), which equals REINFORCE with A =
    1[correct]; on the best of n it is best-of-n distillation; on one's own samples it is self-distillation. Choose them
    with rlvr.algorithms.filters.selection, and *remove* the others: empty ones would still count in per-sequence means.
    """
    batch = LossInputs.of(batch)
    mask = as_mask(batch.mask, new.device)  # [B, T]
    sequences, new = sequences_of(batch, mask), _checked("new", new, mask)
    if denominators is None:
        denominators = count_denominators(replace(batch, mask=mask))
    if denominators.n_tokens <= 0:
        raise ValueError("no token is trained on: the batch is empty")
    # l_t = -log pi(y_t), mean over trained tokens                    [B, T]  maximum likelihood
    one_of("aggregation", aggregation, AGGREGATIONS)
    loss = aggregate(-new, sequences, AGGREGATIONS[aggregation], denominators)  # [B, T] -> []
    with torch.no_grad():
        mean = sequences.sum(-new).sum() / mask.sum().clamp(min=1)  # of this micro-batch alone, for the log
    return loss, {
        "loss": loss.detach(),
        "nll_mean": mean,
        "n_tokens": mask.sum(),
        "n_sequences": torch.tensor(sequences.n),
    }


def verifree_loss(
    new: Tensor, thought: Tensor, answer: Tensor, group: Numbers, *, n_sequences: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """VeriFree (2505.21493): the reward is the policy's own probability of the reference answer, no verifier.

    loss of a sequence = -A sum_t log pi(z_t) - R log pi(y*), R = sg(pi(y* | x, z)), A = leave-one-out of R in the group

    new [B, T] over sampled thought and appended reference answer; thought, answer [B, T] bool masks; mean over B,
    no length norm. The border between thought and answer must be made of fixed token ids, or the answer's tokenisation
    depends on the thought. n_sequences: those of the whole batch when this is a micro-batch (a group's all together).
    """
    thought, answer = as_mask(thought, new.device), as_mask(answer, new.device)  # [B, T] each
    if (thought & answer).any():
        raise ValueError("thought and answer overlap: a token is either sampled or given")
    if not answer.any(1).all():
        raise ValueError("a sequence has no reference answer: its probability is not defined")
    new = _checked("new", new, thought | answer)
    log_answer = SequenceIndex(answer).sum(new)  # [B] log pi(y* | x, z)
    reward = log_answer.detach().exp()  # [B]
    advantages = Groups(as_rewards(reward), group).leave_one_out()  # [B]
    # l_i = -A_i sum_t log pi(z_t) - R_i log pi(y*), R = sg(pi(y* | x, z))   [B]  VeriFree, 2505.21493
    loss = -advantages * SequenceIndex(thought).sum(new) - reward * log_answer
    loss = loss.sum() / (len(new) if n_sequences is None else n_sequences)  # [B] -> []
    stats = {"loss": loss.detach(), "reward_mean": reward.mean(), "answer_nll_mean": -log_answer.detach().mean()}
    return loss, stats | {"n_sequences": torch.tensor(len(new)), "n_tokens": (thought | answer).sum()}


def _checked(name: str, new: Tensor, mask: Tensor) -> Tensor:
    if new.shape != mask.shape:
        raise ValueError(f"{name} has shape {tuple(new.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    if not new[mask].isfinite().all():
        raise ValueError(f"{name} holds NaN or infinity at a trained token")
    # half precision would lose the sum of a thousand log-probabilities
    return torch.where(mask, new, 0).to(torch.promote_types(new.dtype, torch.float32))
