"""From episodes to tensors: rows, padded micro-batches of like length, and the log-probabilities that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.sampling import token_budget_batches
from rlvr.algorithms._torch import torch


@dataclass(slots=True)
class Rows:
    """Token sequences with what the loss needs of each; B rows.

    Attributes:
        sequences: ids, mask and sampler log-probabilities of each row.
        advantages: [B].
        group: [B]; rows of one group answer one task.
        old: for each row, the learner's log-probabilities [T] from before the update, where they were computed.
        ref: the same of the reference policy.
    """

    sequences: list[TokenSequence]
    advantages: torch.Tensor
    group: torch.Tensor
    old: list[torch.Tensor] | None = None
    ref: list[torch.Tensor] | None = None

    def __len__(self) -> int:
        return len(self.sequences)

    def take(self, places: Sequence[int]) -> Rows:
        return Rows(
            sequences=[self.sequences[i] for i in places],
            advantages=self.advantages[list(places)],
            group=self.group[list(places)],
            old=[self.old[i] for i in places] if self.old is not None else None,
            ref=[self.ref[i] for i in places] if self.ref is not None else None,
        )

    def minibatches(self, count: int) -> list[Rows]:
        """Cut into ``count`` parts of nearly equal size, no group in two of them."""
        ids = list(dict.fromkeys(self.group.tolist()))
        part = {group: place * count // len(ids) for place, group in enumerate(ids)}
        places: list[list[int]] = [[] for _ in range(count)]
        for row, group in enumerate(self.group.tolist()):
            places[part[group]].append(row)
        return [self.take(rows) for rows in places if rows]


@dataclass(slots=True)
class Padded:
    """A micro-batch: ids and loss mask [B, T], right-padded; ``places`` are its rows' places in the batch."""

    places: list[int]
    ids: torch.Tensor
    mask: torch.Tensor


def pad(sequences: Sequence[TokenSequence], places: list[int], pad_id: int, device: torch.device) -> Padded:
    """Right-pad the named rows to the longest of them."""
    longest = max(len(sequences[i]) for i in places)
    ids = torch.full((len(places), longest), pad_id)
    mask = torch.zeros(len(places), longest, dtype=torch.bool)
    for row, i in enumerate(places):
        length = len(sequences[i])
        ids[row, :length] = torch.tensor(sequences[i].ids)
        mask[row, :length] = torch.tensor(sequences[i].mask, dtype=torch.bool)
    return Padded(places, ids.to(device), mask.to(device))


def micro_batches(
    sequences: Sequence[TokenSequence], budget: int, pad_id: int, device: torch.device
) -> Iterator[Padded]:
    """All rows, sorted by length, as many at once as fit ``budget`` padded tokens."""
    for places in token_budget_batches([len(sequence) for sequence in sequences], budget):
        yield pad(sequences, places, pad_id, device)


def stack(columns: Sequence[torch.Tensor], width: int, device: torch.device) -> torch.Tensor:
    """Rows [T_i] as one tensor [B, width], 0 where a row is shorter."""
    stacked = torch.zeros(len(columns), width, dtype=columns[0].dtype)
    for row, column in enumerate(columns):
        stacked[row, : len(column)] = column
    return stacked.to(device)
