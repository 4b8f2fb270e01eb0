"""From token sequences to tensors: padded once for a whole batch, then picked and trimmed into micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlvr.agents.conversation import TokenSequence
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch


@dataclass(frozen=True, slots=True)
class Padded:
    """Sequences, padded on the right.

    ids      [B, T] token ids
    mask     [B, T] bool, True on tokens that the policy sampled
    lengths  of each sequence, padding left out
    """

    ids: Tensor
    mask: Tensor
    lengths: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.lengths)

    def pick(self, indices: Sequence[int]) -> Padded:
        """The sequences with these indices, trimmed to the longest of them."""
        lengths = tuple(self.lengths[index] for index in indices)
        width = max(lengths)  # t <= T: padding beyond the longest is not computed
        chosen = torch.as_tensor(indices, device=self.ids.device)
        return Padded(self.ids[chosen, :width], self.mask[chosen, :width], lengths)

    def to(self, device: Any) -> Padded:
        return Padded(self.ids.to(device), self.mask.to(device), self.lengths)

    def micro_batches(
        self, budget: int, indices: Sequence[int] | None = None, *, packed: bool = False, share_prompts: bool = False
    ) -> Iterator[tuple[list[int], Padded]]:
        """Sequences of like length, as many at once as fit ``budget`` tokens, with their indices.

        Padding counts unless sequences are ``packed``. With ``share_prompts`` those of one prompt stay together.
        """
        every = list(range(len(self))) if indices is None else list(indices)
        lengths = [self.lengths[index] for index in every]
        prompts = [self._prompt(index) for index in every] if share_prompts else None
        for chunk in token_budget_batches(lengths, budget, packed=packed, prompts=prompts):
            chosen = [every[index] for index in chunk]
            yield chosen, self.pick(chosen)

    def _prompt(self, index: int) -> bytes:
        """The prompt of a sequence without its last token, which counts to what comes after, as bytes of its ids."""
        asked = self.mask[index, 1:].nonzero()
        return self.ids[index, : int(asked[0]) if len(asked) else 0].cpu().numpy().tobytes()


def pad(sequences: Sequence[TokenSequence], pad_id: int = 0) -> Padded:
    """All sequences as one `Padded` on the CPU."""
    lengths = tuple(map(len, sequences))
    ids = torch.full((len(sequences), max(lengths)), pad_id)  # [B, T]
    mask = torch.zeros(ids.shape, dtype=torch.bool)  # [B, T]
    for index, sequence in enumerate(sequences):
        # padded on the right: under causal attention no real token sees the padding
        ids[index, : lengths[index]] = torch.tensor(sequence.ids)
        mask[index, : lengths[index]] = torch.tensor(sequence.mask, dtype=torch.bool)
    return Padded(ids, mask, lengths)


def token_budget_batches(
    lengths: Sequence[int], budget: int, *, packed: bool = False, prompts: Sequence[bytes] | None = None
) -> list[list[int]]:
    """Split sequences into micro-batches of similar length and bounded size.

    A batch takes the tokens of its sequences where these are packed, and n · t where n of them are padded to the
    longest of length t: at most ``budget``, unless it is one sequence that is longer alone. Longest first, so that
    memory peaks at the start.

    Args:
        lengths: of each sequence, in tokens.
        budget: tokens of one batch.
        packed: whether no padding is computed.
        prompts: of each sequence; those of one prompt come one after another, the prompt of the longest first.

    Returns:
        Batches of indices into ``lengths``; each index once.

    Raises:
        ValueError: the budget is below 1.
    """
    if budget < 1:
        raise ValueError(f"a budget of {budget} tokens holds nothing: give at least 1")
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    if prompts is not None:
        groups: dict[bytes, list[int]] = {}
        for index in order:
            groups.setdefault(prompts[index], []).append(index)
        order = [index for members in groups.values() for index in members]
    batches: list[list[int]] = []
    tokens = longest = 0  # of the last batch
    for index in order:
        longest = max(longest, lengths[index])
        tokens = tokens + lengths[index] if packed else longest * (len(batches[-1]) + 1 if batches else 1)
        if not batches or tokens > budget:
            batches.append([])
            tokens = longest = lengths[index]
        batches[-1].append(index)
    return batches


def behaviour_logprobs(sequences: Sequence[TokenSequence]) -> Tensor:
    """[B, T] log-probs under which the tokens were sampled, 0 elsewhere."""
    columns = torch.zeros(len(sequences), max(map(len, sequences)))  # [B, T]
    for index, sequence in enumerate(sequences):
        columns[index, : len(sequence)] = torch.tensor(sequence.logprobs)
    return columns


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """What a policy loss learns from: the sequences, padded once, and the entries of the loss.

    padded   ids, mask and lengths
    inputs   the whole batch's `LossInputs`; its advantages are None until they are computed
    traces   a dict for each sequence that collects what `rlvr explain` shows; empty where nobody asked
    """

    padded: Padded  # [B, T]
    inputs: LossInputs
    traces: tuple[dict[str, Any], ...] = field(default=())

    @classmethod
    def of(cls, sequences: Sequence[TokenSequence], group: Sequence[int], max_length: int, pad_id: int = 0) -> Any:
        """The batch of these sequences, without advantages."""
        padded = pad(sequences, pad_id)
        inputs = LossInputs(
            mask=padded.mask,
            behaviour_logprobs=behaviour_logprobs(sequences),
            group=torch.tensor(list(group)),
            max_length=max_length,
        )
        return cls(padded, inputs)

    def __len__(self) -> int:
        return len(self.padded)

    def replace(self, **entries: Any) -> TrainingBatch:
        """The same with other entries of the loss."""
        mask = entries.get("mask")
        padded = self.padded if mask is None else replace(self.padded, mask=mask)
        return replace(self, padded=padded, inputs=replace(self.inputs, **entries))

    def pick(self, indices: Sequence[int]) -> TrainingBatch:
        """The sequences with these indices, trimmed to the longest of them."""
        padded = self.padded.pick(indices)
        inputs = self.inputs.pick(torch.as_tensor(indices), padded.ids.shape[1])
        return TrainingBatch(padded, inputs, tuple(self.traces[index] for index in indices) if self.traces else ())

    def minibatches(self, count: int) -> list[TrainingBatch]:
        """Cut into ``count`` parts of nearly equal size, no group in two of them."""
        if count == 1:
            return [self]
        assert self.inputs.group is not None  # for the type checker: `of` sets it
        groups = self.inputs.group.tolist()
        ids = list(dict.fromkeys(groups))  # Q groups, in their order
        # cut between groups: a loss that compares the members of a group needs them together
        part = {group: index * count // len(ids) for index, group in enumerate(ids)}
        members: list[list[int]] = [[] for _ in range(count)]
        for index, group in enumerate(groups):
            members[part[group]].append(index)
        return [self.pick(indices) for indices in members if indices]

    def micro_batches(self, budget: int, indices: Sequence[int], **how: bool) -> Iterator[TrainingBatch]:
        """These sequences, in micro-batches of at most ``budget`` tokens; see `Padded.micro_batches`."""
        for chosen, _ in self.padded.micro_batches(budget, indices, **how):
            yield self.pick(chosen)

    def traced(self, traces: tuple[dict[str, Any], ...]) -> TrainingBatch:
        """The same, which notes in these dicts what becomes of each sequence."""
        return replace(self, traces=traces)

    def to(self, device: Any) -> TrainingBatch:
        return replace(self, padded=self.padded.to(device), inputs=self.inputs.to(device))
