"""From a loss per token (or per sequence) to one number: what the sum is divided by is half of an algorithm.

Every denominator is that of the *whole* optimizer batch: count it once with `count_denominators`, over all
micro-batches and all ranks, then divide each micro-batch's partial sum by it. The partial losses add up to the loss of
the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr.algorithms._torch import Tensor, torch
from rlvr.algorithms.inputs import LossInputs, MissingInput
from rlvr.algorithms.losses.sequences import SequenceIndex, as_mask, groups_of, sequences_of

AGGREGATIONS = {
    "token_mean": "sum / N tokens",
    "seq_mean_token_mean": "(1/B) sum_i (1/|y_i|) sum_t",
    "seq_mean_token_sum": "(1/B) sum_i sum_t",
    "seq_mean_token_sum_norm": "sum / (B * max_length)",
    "prompt_mean": "(1/Q) sum_q [sum_(i in q) / sum_(i in q) |y_i|]",
    "sequence_mean": "(1/B) sum_i",
    "sum": "sum",
}


@dataclass(frozen=True)
class Denominators:
    """Counts of the whole optimizer batch. Plain numbers, so they travel between processes.

    n_tokens        trained tokens
    n_sequences     sequences, with and without trained tokens; n_live_sequences only those with
    prompt_tokens   {group id: trained tokens of the prompt}; empty when the batch names no groups
    max_length      the constant of Dr. GRPO: the generation budget, never the padded width
    """

    n_tokens: int
    n_sequences: int
    n_live_sequences: int
    prompt_tokens: Mapping[int, int] = field(default_factory=dict)
    max_length: float | None = None

    @property
    def n_prompts(self) -> int:
        """Prompts, with and without trained tokens."""
        return len(self.prompt_tokens)

    @property
    def n_live_prompts(self) -> int:
        """Prompts with a trained token."""
        return sum(tokens > 0 for tokens in self.prompt_tokens.values())

    @staticmethod
    def merge(parts: Iterable[Denominators]) -> Denominators:
        """Of several disjoint sets of sequences; a prompt's may be split over them (same group id)."""
        parts = list(parts)
        prompts: dict[int, int] = {}
        for part in parts:
            for group, tokens in part.prompt_tokens.items():
                # a group may be cut over micro-batches or ranks: its tokens are summed, not replaced
                prompts[group] = prompts.get(group, 0) + tokens
        lengths = {part.max_length for part in parts}
        # the constant divides every part: two values would be two losses
        if len(lengths) != 1:
            raise ValueError(f"parts of one batch disagree on max_length: {sorted(map(str, lengths))}")
        return Denominators(
            n_tokens=sum(part.n_tokens for part in parts),
            n_sequences=sum(part.n_sequences for part in parts),
            n_live_sequences=sum(part.n_live_sequences for part in parts),
            prompt_tokens=prompts,
            max_length=lengths.pop(),
        )

    def all_reduce(self, process_group: Any = None) -> Denominators:
        """The sum over all processes of `torch.distributed` (itself when it is not initialised).

        The loss of the whole batch is then the *sum* of the ranks' losses: where gradients are averaged over ranks
        (DDP), multiply the loss by the world size.
        """
        dist = torch.distributed
        if not (dist.is_available() and dist.is_initialized()):
            return self
        parts: list[Any] = [None] * dist.get_world_size(process_group)  # a rank's counts each
        # counts are few and of differing keys, so they travel as objects, not as a tensor
        dist.all_gather_object(parts, self, group=process_group)
        return Denominators.merge(parts)


def count_denominators(batch: LossInputs | Mapping[str, Any]) -> Denominators:
    """Count a batch (`mask` [B, T], optional `group`, `sequence_id`, `max_length`); see `Denominators`.

    Give it the whole batch of an optimizer step, before cutting it into micro-batches; with several processes follow it
    by `.all_reduce()`.
    """
    batch = LossInputs.of(batch)
    mask = as_mask(batch.mask)  # [B, T]
    sequences = sequences_of(batch, mask)  # R sequences
    lengths = sequences.lengths.tolist()  # [R]
    group = groups_of(batch, sequences)  # [R] or None
    prompts: dict[int, int] = {}
    if group is not None:
        for name, length in zip(group.tolist(), lengths, strict=True):
            prompts[name] = prompts.get(name, 0) + length  # Q keys
    return Denominators(
        n_tokens=sum(lengths),
        n_sequences=sequences.n,
        n_live_sequences=sum(length > 0 for length in lengths),
        prompt_tokens=prompts,
        max_length=None if batch.max_length is None else float(batch.max_length),
    )


def aggregate(
    loss: Tensor,
    sequences: SequenceIndex,
    how: str,
    denominators: Denominators,
    group: Tensor | None = None,
    count_empty_sequences: bool = True,
) -> Tensor:
    """One number from a loss per token [B, T] or, for how="sequence_mean", per sequence [R].

    Denominators are the batch's. A sequence without trained tokens counts in B (and its prompt in Q), so that filtering
    one never re-weights its neighbours; `count_empty_sequences=False` leaves it out. Some trainers divide by the counts
    of the micro-batch or the rank, which is another loss.
    """
    if how not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {how!r}; allowed: {', '.join(AGGREGATIONS)}")
    every = count_empty_sequences
    n_sequences = denominators.n_sequences if every else denominators.n_live_sequences
    if how == "sequence_mean":
        # L = (1/B) sum_i l_i                                        [R] -> []  GSPO 2507.18071, GMPO 2507.20673
        return torch.where(sequences.lengths > 0, loss, 0).sum() / n_sequences
    if how == "seq_mean_token_mean":
        # L = (1/B) sum_i (1/|y_i|) sum_t l_it                       [B, T] -> []  GRPO 2402.03300, SAPO 2511.20347
        return sequences.mean(loss).sum() / n_sequences
    total = sequences.sum(loss)  # [R]
    if how == "prompt_mean":
        # L = (1/Q) sum_q sum_(i in q) sum_t l_it / sum_(i in q) |y_i|   [B, T] -> []  DAPO 2503.14476, ScaleRL
        n_prompts = denominators.n_prompts if every else denominators.n_live_prompts
        return (total / _prompt_tokens(sequences, group, denominators)).sum() / n_prompts
    if how == "sum":
        # L = sum_i sum_t l_it                                      [B, T] -> []  Tinker: the learning rate carries B
        return total.sum()
    if how == "token_mean":
        # L = sum_i sum_t l_it / sum_i |y_i|                        [B, T] -> []  DAPO's code, CISPO 2506.13585, PPO
        return total.sum() / denominators.n_tokens
    if how == "seq_mean_token_sum":
        # L = (1/B) sum_i sum_t l_it                                [B, T] -> []  REINFORCE, RLOO 2402.14740
        return total.sum() / n_sequences
    # L = sum_i sum_t l_it / (B max_length)                     [B, T] -> []  Dr. GRPO 2503.20783
    return total.sum() / (n_sequences * constant_length(denominators))


def _prompt_tokens(sequences: SequenceIndex, group: Tensor | None, denominators: Denominators) -> Tensor:
    """[R]: trained tokens of each sequence's prompt, in the whole batch."""
    if group is None:
        raise MissingInput("aggregation 'prompt_mean' needs 'group' in the batch: [B] ids of prompts")
    known = denominators.prompt_tokens  # {group id: tokens}
    missing = sorted({name for name in group.tolist() if name not in known})
    if missing:
        raise ValueError(f"groups {missing[:5]} are not in the denominators: count the whole batch, with its groups")
    tokens = [max(known[name], 1) for name in group.tolist()]  # [R]
    return torch.tensor(tokens, device=sequences.mask.device, dtype=torch.float32)


def constant_length(denominators: Denominators) -> float:
    """Dr. GRPO's constant, or the error that says how to give it."""
    length = denominators.max_length
    if length is None:
        raise MissingInput(
            "aggregation 'seq_mean_token_sum_norm' (Dr. GRPO) needs 'max_length' in the batch or the denominators: a "
            "constant, the generation budget in tokens, never the padded width"
        )
    if not 0 < length < float("inf"):
        raise ValueError(f"max_length must be a positive number of tokens, not {length}")
    return length


def regulariser_aggregation(aggregation: str, ratio_level: str) -> str:
    """How a per-token regulariser (KL, entropy) is aggregated beside the policy term.

    A loss per sequence has no token sum: the regulariser takes the form whose on-policy denominator equals that of the
    sequence loss (a geometric mean divides by |y|, a product does not).
    """
    if aggregation != "sequence_mean":
        return aggregation
    # on policy d exp(mean_t log r_t) = (1/|y|) sum_t d log pi_t, and d prod_t r_t = sum_t d log pi_t
    return "seq_mean_token_mean" if ratio_level == "sequence" else "seq_mean_token_sum"
