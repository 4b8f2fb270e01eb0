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
        self, budget: int, indices: Sequence[int] | None = None, *, share_prompts: bool = False
    ) -> Iterator[tuple[list[int], Padded]]:
        """Sequences of like length, as many at once as fit ``budget`` padded tokens, with their indices.

        With ``share_prompts`` sequences of one prompt stay together, if fewer tokens then go through the model in all.
        """
        every = list(range(len(self))) if indices is None else list(indices)
        lengths = [self.lengths[index] for index in every]
        chunks = token_budget_batches(lengths, budget)
        if share_prompts and every:
            prompts, rests = self.prompts(), self.rests()
            chosen_prompts = [prompts[index] for index in every], [rests[index] for index in every]
            together = shared_prompt_batches(*chosen_prompts, lengths, budget)
            padded = sum(len(chunk) * (max(lengths[index] for index in chunk) - 1) for chunk in chunks)
            if sum(tokens for _, tokens in together) < padded:
                chunks = [chunk for chunk, _ in together]
        for chunk in chunks:
            chosen = [every[index] for index in chunk]
            yield chosen, self.pick(chosen)

    def prompts(self) -> list[bytes]:
        """The prompt of each sequence without its last token, as bytes of its int64 ids.

        The first trained token is predicted at the prompt's last token, which therefore counts to what comes after.
        """
        ids = self.ids.cpu().numpy()
        return [ids[row, :start].tobytes() for row, start in enumerate(self._starts().tolist())]

    def rests(self) -> list[int]:
        """Tokens of each sequence from its prompt's last to the one at which its last trained token is predicted."""
        columns = torch.arange(self.mask.shape[1], device=self.mask.device)
        ends = (self.mask.long() * columns).amax(1)  # [B] the last trained token
        return [max(1, rest) for rest in (ends - self._starts()).tolist()]

    def _starts(self) -> Tensor:
        """[B] the index of each prompt's last token; 0 where nothing is trained."""
        asked = self.mask[:, 1:].long()
        return asked.argmax(1) if asked.shape[1] else torch.zeros(len(self), dtype=torch.long)


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


def token_budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Split sequences into micro-batches of similar length and bounded size.

    A batch of n sequences, padded to the longest of length t, takes n · t tokens: at most ``budget``, unless it
    is one sequence that is longer alone. Longest first, so that memory peaks at the start.

    Args:
        lengths: of each sequence, in tokens.
        budget: tokens of one batch, padding included.

    Returns:
        Batches of indices into ``lengths``; each index once.

    Raises:
        ValueError: the budget is below 1.
    """
    if budget < 1:
        raise ValueError(f"a budget of {budget} tokens holds nothing: give at least 1")
    batches: list[list[int]] = []
    free = 0  # sequences that the last batch still takes
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if free < 1:
            batches.append([])
            free = max(1, budget // max(1, lengths[index]))
        batches[-1].append(index)
        free -= 1
    return batches


def spares_enough(prompts: int, longest: int, rows: int, rest: int, width: int) -> bool:
    """Whether Q prompts and what R rows have after theirs are at least a tenth fewer tokens than R whole rows.

    Args:
        prompts: Q distinct prompts.
        longest: P tokens of the longest of them, without the last.
        rows: R sequences.
        rest: C, the most tokens that one has from its prompt's last token on.
        width: tokens of the longest sequence, without the last, which is predicted alone.
    """
    return longest > 0 and prompts * longest + rows * rest <= 0.9 * rows * width


def shared_prompt_batches(
    prompts: Sequence[bytes], rests: Sequence[int], lengths: Sequence[int], budget: int
) -> list[tuple[list[int], int]]:
    """Split sequences into micro-batches, those of one prompt together.

    Of Q prompts of up to P tokens and R sequences with up to C tokens after theirs, Q P + R C tokens go through the
    model, but each row keeps a copy of its prompt's keys and values in each layer. So R (P + C) is at most ``budget``,
    and R times the longest sequence is, too, unless it is one sequence that is longer alone: a batch that spares too
    little (`spares_enough`) goes through whole. The group with the longest sequence comes first.

    Args:
        prompts: of each sequence, see `Padded.prompts`.
        rests: of each sequence, see `Padded.rests`.
        lengths: of each sequence, in tokens.
        budget: tokens of one batch, padding included.

    Returns:
        Batches of indices, and the tokens of each that go through the model; each index once.
    """
    groups: dict[bytes, list[int]] = {}
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        groups.setdefault(prompts[index], []).append(index)
    batches: list[list[int]] = []
    longest, rest, width = 0, 0, 0  # of the last batch: P, C, T
    for prompt, members in groups.items():
        for index in members:
            sizes = len(prompt) // 8, rests[index], lengths[index]
            wider = max(longest, sizes[0]), max(rest, sizes[1]), max(width, sizes[2])
            if not batches or (len(batches[-1]) + 1) * max(wider[0] + wider[1], wider[2]) > budget:
                batches.append([])
                wider = sizes
            batches[-1].append(index)
            longest, rest, width = wider
    return [(batch, _computed_tokens(batch, prompts, rests, lengths)) for batch in batches]


def _computed_tokens(
    batch: Sequence[int], prompts: Sequence[bytes], rests: Sequence[int], lengths: Sequence[int]
) -> int:
    """Tokens of these sequences that go through the model at once."""
    distinct = {prompts[index] for index in batch}
    longest, rest = max(map(len, distinct)) // 8, max(rests[index] for index in batch)
    width = max(lengths[index] for index in batch) - 1
    if spares_enough(len(distinct), longest, len(batch), rest, width):
        return len(distinct) * longest + len(batch) * rest
    return len(batch) * width


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

    def micro_batches(
        self, budget: int, indices: Sequence[int], *, share_prompts: bool = False
    ) -> Iterator[TrainingBatch]:
        """These sequences, in micro-batches of at most ``budget`` padded tokens; see `Padded.micro_batches`."""
        for chosen, _ in self.padded.micro_batches(budget, indices, share_prompts=share_prompts):
            yield self.pick(chosen)

    def traced(self, traces: tuple[dict[str, Any], ...]) -> TrainingBatch:
        """The same, which notes in these dicts what becomes of each sequence."""
        return replace(self, traces=traces)

    def to(self, device: Any) -> TrainingBatch:
        return replace(self, padded=self.padded.to(device), inputs=self.inputs.to(device))
