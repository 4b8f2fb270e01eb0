"""Losses that raise a likelihood: SFT, RFT and best-of-n (NLL on selected rows), VeriFree, policies under feedback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.advantages.estimators import rloo
from rlvr.algorithms.losses.aggregation import Denominators, Rows, aggregate, as_mask, count_denominators, rows_of

Tensor = torch.Tensor
Batch = Mapping[str, Any]


def nll_loss(
    new: Tensor, batch: Batch, denominators: Denominators | None = None, *, aggregation: str = "token_mean"
) -> tuple[Tensor, dict[str, Tensor]]:
    """-log pi of the trained tokens (`mask` [B, T]), averaged over all of them (SFT, distillation).

    On rows that a verifier accepted this is rejection fine-tuning (2308.01825), which equals REINFORCE with A =
    1[correct]; on the best of n it is best-of-n distillation; on one's own rows it is self-distillation. Choose rows
    with rlvr.algorithms.data.selection, and *remove* the others: empty rows would still count in per-row aggregations.
    """
    mask = as_mask(batch["mask"], new.device)
    rows, new = rows_of(batch, mask), _checked("new", new, mask)
    if denominators is None:
        denominators = count_denominators({**batch, "mask": mask})
    if denominators.n_tokens <= 0:
        raise ValueError("no token is trained on: the batch is empty")
    loss = aggregate(-new, rows, aggregation, denominators)
    with torch.no_grad():
        mean = rows.sum(-new).sum() / mask.sum().clamp(min=1)
    return loss, {"loss": loss.detach(), "nll_mean": mean, "n_tokens": mask.sum(), "n_rows": torch.tensor(rows.n)}


def verifree_loss(
    new: Tensor, thought: Any, answer: Any, group: Any, *, n_rows: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """VeriFree (2505.21493): the reward is the policy's own probability of the reference answer, no verifier.

    loss of a row = -A sum_t log pi(z_t) - R log pi(y*),   R = sg(pi(y* | x, z)),   A = leave-one-out of R in the group

    new [B, T] over sampled thought and appended reference answer; thought, answer [B, T] bool masks; mean over rows, no
    length norm. The border between thought and answer must be made of fixed token ids, or the answer's tokenisation
    depends on the thought. n_rows: rows of the whole batch when this is a micro-batch (all rows of a group together).
    """
    thought, answer = as_mask(thought, new.device), as_mask(answer, new.device)
    if (thought & answer).any():
        raise ValueError("thought and answer overlap: a token is either sampled or given")
    if not answer.any(1).all():
        raise ValueError("a row has no reference answer: its probability is not defined")
    new = _checked("new", new, thought | answer)
    log_answer = Rows(answer).sum(new)
    reward = log_answer.detach().exp()
    advantages = rloo(reward, group)
    loss = -advantages * Rows(thought).sum(new) - reward * log_answer
    loss = loss.sum() / (len(new) if n_rows is None else n_rows)
    stats = {"loss": loss.detach(), "reward_mean": reward.mean(), "answer_nll_mean": -log_answer.detach().mean()}
    return loss, stats | {"n_rows": torch.tensor(len(new)), "n_tokens": (thought | answer).sum()}


def with_feedback(prompt: str, feedback: str, *, label: str = "Feedback") -> str:
    """The prompt of a feedback-conditional policy (2509.22638); train on the answer that earned the feedback.

    Offline: condition on the feedback that was given. Bootstrapping: sample under *positive* feedback, collect a fresh
    critique of the sample, and train on (prompt, critique) -> sample. At test time: condition on positive feedback.
    """
    if not feedback.strip():
        raise ValueError("feedback is empty: there is nothing to condition on")
    return f"{prompt.rstrip()}\n\n{label}: {feedback.strip()}\n"


def _checked(name: str, new: Tensor, mask: Tensor) -> Tensor:
    if new.shape != mask.shape:
        raise ValueError(f"{name} has shape {tuple(new.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    if not new[mask].isfinite().all():
        raise ValueError(f"{name} holds NaN or infinity at a trained token")
    return torch.where(mask, new, 0).to(torch.promote_types(new.dtype, torch.float32))
