"""The counts of a whole optimizer batch, by which each micro-batch's partial sum is divided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.core.sequences import as_mask, groups_of, sequences_of


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


def count_denominators(batch: LossInputs | Mapping[str, object]) -> Denominators:
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
