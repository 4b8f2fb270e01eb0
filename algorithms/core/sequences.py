"""Which token belongs to which sequence, padded or packed; which sequence to which group, and a group's rewards."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr.algorithms.core.inputs import LossInputs, MissingInput
from rlvr.algorithms.core.lazy_torch import Tensor, torch

EPS = 1e-6  # added to a standard deviation


class SequenceIndex:
    """Which token belongs to which sequence: sums over sequences and their inverse, padded or packed.

    mask [B, T] bool: tokens that were sampled by the policy and are trained on. Without `sequence_id` a sequence is a
    line of the tensor (R = B). With `sequence_id` [B, T] of ints several sequences share a line, or one spans lines.
    """

    def __init__(self, mask: Tensor, sequence_id: Tensor | None = None, count: int | None = None) -> None:
        self.mask = mask
        self.sequence_id = None
        if sequence_id is None:
            self.n = mask.shape[0]
        else:
            if sequence_id.shape != mask.shape:
                raise ValueError(f"sequence_id has shape {tuple(sequence_id.shape)}, the mask {tuple(mask.shape)}")
            used = sequence_id[mask]  # [n] ids of trained tokens
            top = int(used.max()) + 1 if used.numel() else 0
            self.n = top if count is None else count
            if used.numel() and (int(used.min()) < 0 or top > self.n):
                raise ValueError(
                    f"sequence_id runs from {int(used.min())} to {top - 1} on trained tokens, but there are "
                    f"{self.n} sequences"
                )
            self.sequence_id = torch.where(mask, sequence_id, 0).long()  # [B, T]; padding may hold any id
        self.lengths = self.sum(mask.long())  # [R] |y_i|

    def sum(self, x: Tensor) -> Tensor:
        """[B, T] -> [R], over trained tokens only."""
        x = torch.where(self.mask, x, 0)  # where, not x * mask: 0 * NaN is NaN
        if self.sequence_id is None:
            return x.sum(1)
        # s_i = sum over t with sequence_id_t = i of x_t                [B, T] -> [R]
        return x.new_zeros(self.n).index_add(0, self.sequence_id.reshape(-1), x.reshape(-1))

    def mean(self, x: Tensor) -> Tensor:
        """[B, T] -> [R], mean over trained tokens; 0 for a sequence without any."""
        # m_i = s_i / |y_i|                                             [B, T] -> [R]
        return self.sum(x) / self.lengths.clamp(min=1)

    def broadcast(self, per_sequence: Tensor) -> Tensor:
        """[R] -> [B, T]: every token gets its sequence's value, masked tokens get 0."""
        if self.sequence_id is None:
            return torch.where(self.mask, per_sequence[:, None], _zero(per_sequence))
        if self.n == 0:
            return torch.zeros_like(self.mask, dtype=per_sequence.dtype)
        return torch.where(self.mask, per_sequence[self.sequence_id], _zero(per_sequence))


def _zero(x: Tensor) -> Tensor:
    return torch.zeros((), dtype=x.dtype, device=x.device)


def sequences_of(batch: LossInputs, mask: Tensor) -> SequenceIndex:
    """The sequences of a batch: lines of the mask, or what its `sequence_id` says."""
    if batch.sequence_id is None:
        return SequenceIndex(mask)
    sequence_id = torch.as_tensor(batch.sequence_id, device=mask.device)
    # An entry per sequence says how many there are, also where the last of them has no trained token.
    for value in (batch.group, batch.advantages):
        if value is not None and torch.as_tensor(value).dim() == 1:
            return SequenceIndex(mask, sequence_id, len(value))
    return SequenceIndex(mask, sequence_id)


def groups_of(batch: LossInputs, sequences: SequenceIndex) -> Tensor | None:
    """[R] group ids, or None. A packed batch may give them per token."""
    if batch.group is None:
        return None
    mask = sequences.mask
    group = torch.as_tensor(batch.group, device=mask.device)  # [R], or [B, T] where packed
    if group.dim() == 2 and sequences.sequence_id is not None and group.shape == mask.shape:
        ids = group.new_zeros(sequences.n)  # [R]
        return ids.index_put((sequences.sequence_id[mask],), group[mask])
    if group.shape != (sequences.n,):
        raise ValueError(f"group has shape {tuple(group.shape)}, expected one id per sequence: ({sequences.n},)")
    return group


def as_mask(mask: Any, device: torch.device | None = None) -> Tensor:
    """Bool [B, T]; anything else than 0 and 1 is refused."""
    if mask is None:
        raise MissingInput("the batch has no 'mask' ([B, T] bool, True on trained tokens)")
    out: Tensor = torch.as_tensor(mask, device=device)
    if out.dim() != 2:
        raise ValueError(f"mask has shape {tuple(out.shape)}, expected [B, T]")
    if out.dtype == torch.bool:
        return out
    if not ((out == 0) | (out == 1)).all():
        raise ValueError("mask holds values other than 0 and 1: weights belong in the advantages")
    return out.bool()


@dataclass(frozen=True)
class Denominators:
    """Counts of the whole optimizer batch. Plain numbers, so they travel between processes.

    n_tokens        trained tokens
    n_sequences     sequences, with and without trained tokens; n_live_sequences only those with
    prompt_tokens   {group id: trained tokens of the prompt}; empty when the batch names no groups
    max_length      the constant of Dr. GRPO: the generation budget, never the padded width
    n_observations  tokens of the observations of later turns
    """

    n_tokens: int
    n_sequences: int
    n_live_sequences: int
    prompt_tokens: Mapping[int, int] = field(default_factory=dict)
    max_length: float | None = None
    n_observations: int = 0

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
            n_observations=sum(part.n_observations for part in parts),
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
        n_observations=0 if batch.observations is None else int(torch.as_tensor(batch.observations).sum()),
    )


def as_rewards(rewards: Any) -> Tensor:
    """[B] floats; ValueError for another shape or for NaN and infinity."""
    out = as_floats(rewards)
    if out.dim() != 1:
        raise ValueError(f"rewards have shape {tuple(out.shape)}, expected one per sequence: [B]")
    if not out.isfinite().all():
        index = int((~out.isfinite()).nonzero()[0])
        raise ValueError(f"rewards[{index}] is not finite: leave the sequence out, do not score it")
    return out


def as_floats(x: Any) -> Tensor:
    """Detached; fp32 and fp64 stay, half precision becomes fp32, everything else fp64."""
    if not isinstance(x, torch.Tensor):
        return torch.as_tensor(x, dtype=torch.float64)
    out: Tensor = x.detach()
    if out.dtype in (torch.float16, torch.bfloat16):
        # sums of bfloat16 rewards would lose the difference between two of them
        return out.float()
    # integers and lists: a mean of whole numbers is not whole
    return out if out.is_floating_point() else out.double()


class Groups:
    """Statistics of rewards within groups. group [B] of ints."""

    def __init__(self, rewards: Tensor, group: Any, *, what: str = "group") -> None:
        group = torch.as_tensor(group, device=rewards.device)
        if group.shape != rewards.shape:
            raise ValueError(
                f"{what} has shape {tuple(group.shape)}, rewards {tuple(rewards.shape)}: one id per sequence"
            )
        if group.is_floating_point():
            raise ValueError(f"{what} must be integer ids, not {group.dtype}")
        self.rewards = rewards
        ids, self.index = torch.unique(group, return_inverse=True)  # ids [Q], index [B] into them
        self.n = len(ids)
        self.size = self.sum(torch.ones_like(rewards))  # [Q]
        self.mean = self.sum(rewards) / self.size  # [Q]
        # max > min, never std > 0: the mean of equal rewards of 0.1 is not exactly 0.1
        self.live = self._extreme("amax") > self._extreme("amin")  # [Q] bool

    def sum(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.n).index_add(0, self.index, x)

    def _extreme(self, how: str) -> Tensor:
        start = self.rewards.new_zeros(self.n)  # [Q]
        return start.scatter_reduce(0, self.index, self.rewards, reduce=how, include_self=False)

    def broadcast(self, per_group: Tensor) -> Tensor:
        """[n groups] -> [B]."""
        return per_group[self.index]

    def centred(self) -> Tensor:
        """[B] reward minus the group's mean; exactly 0 in a group without spread."""
        # c_i = R_i - mean_g                                           [B]
        return torch.where(self.broadcast(self.live), self.rewards - self.broadcast(self.mean), 0)

    def leave_one_out(self) -> Tensor:
        """[B] reward minus the mean of the others of the group; 0 in a group of one, of which it warns."""
        self.warn_of_ones()
        # A_i = R_i - mean_(j != i) R_j = N/(N-1) (R_i - mean_g)      [B]  RLOO, 2402.14740
        return self.centred() * self.broadcast(self.size / (self.size - 1).clamp(min=1))

    def std(self, *, sample: bool = True) -> Tensor:
        """[n groups] standard deviation, with Bessel's correction if sample; 0 without spread."""
        # s_g^2 = sum_(i in g) (R_i - mean_g)^2 / (|g| - 1), or / |g| for the population   [Q]
        square = self.sum(self.centred().square())  # [Q]
        # a group of one has no spread: the divisor is held at 1, the sum of squares is 0
        return (square / (self.size - int(sample)).clamp(min=1)).sqrt()

    def warn_of_ones(self) -> None:
        """One warning if some group has a single sequence."""
        ones = int((self.size == 1).sum())
        if ones:
            warnings.warn(
                f"{ones} of {self.n} groups have one sequence: nothing to compare it with, its advantage is 0",
                stacklevel=3,
            )
