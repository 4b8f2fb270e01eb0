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
from rlvr.algorithms.names import one_of
from rlvr.envs.open_registry import OpenRegistry, require_methods


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


@dataclass(frozen=True)
class BatchLoss:
    """What an aggregation reads: the losses of a micro-batch, and the counts of the whole batch."""

    loss: Tensor  # [B, T] per token, or [R] per sequence
    sequences: SequenceIndex  # which token belongs to which
    denominators: Denominators  # of the whole batch
    group: Tensor | None  # [R] ids of prompts
    n_sequences: int  # B, without those that have no trained token where these do not count
    n_prompts: int  # Q, likewise

    @property
    def sums(self) -> Tensor:
        """[R] sum_t l_it."""
        return self.sequences.sum(self.loss)


class Aggregation:
    """Base of the aggregations. A new one is a subclass; `register_aggregation` gives its name to presets."""

    name: str  # what `Preset.aggregation` says
    formula: str  # L = ..., in one line
    needs: tuple[str, ...] = ()  # entries of `LossInputs` that it reads
    per_sequence: bool = False  # whether it takes a loss per sequence, and no loss per token

    def reduce(self, x: BatchLoss) -> Tensor:
        """The loss of the batch, []."""
        raise NotImplementedError

    def check(self, denominators: Denominators) -> None:
        """Refuse counts that it cannot divide by.

        Raises:
            MissingInput: one was not counted.
            ValueError: one is no count.
        """


class TokenMean(Aggregation):
    """Each token of the batch counts the same."""

    name = "token_mean"
    formula = "sum / N tokens"

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = sum_i sum_t l_it / sum_i |y_i|                        [B, T] -> []  DAPO's code, CISPO 2506.13585, PPO
        return x.sums.sum() / x.denominators.n_tokens


class SequenceMeanOfTokenMeans(Aggregation):
    """Each sequence counts the same, whatever its length."""

    name = "seq_mean_token_mean"
    formula = "(1/B) sum_i (1/|y_i|) sum_t"

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = (1/B) sum_i (1/|y_i|) sum_t l_it                       [B, T] -> []  GRPO 2402.03300, SAPO 2511.20347
        return x.sequences.mean(x.loss).sum() / x.n_sequences


class SequenceMeanOfTokenSums(Aggregation):
    """The log-probability of a sequence is the sum of its tokens'."""

    name = "seq_mean_token_sum"
    formula = "(1/B) sum_i sum_t"

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = (1/B) sum_i sum_t l_it                                [B, T] -> []  REINFORCE, RLOO 2402.14740
        return x.sums.sum() / x.n_sequences


class ConstantLength(Aggregation):
    """A constant in place of the length, so that long failures are not favoured."""

    name = "seq_mean_token_sum_norm"
    formula = "sum / (B * max_length)"
    needs = ("max_length",)

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = sum_i sum_t l_it / (B max_length)                     [B, T] -> []  Dr. GRPO 2503.20783
        return x.sums.sum() / (x.n_sequences * self._length(x.denominators))

    def check(self, denominators: Denominators) -> None:
        """The constant must be given, and be a number of tokens."""
        self._length(denominators)

    def _length(self, denominators: Denominators) -> float:
        length = denominators.max_length
        if length is None:
            raise MissingInput(
                f"aggregation {self.name!r} (Dr. GRPO) needs 'max_length' in the batch or the denominators: a "
                "constant, the generation budget in tokens, never the padded width"
            )
        if not 0 < length < float("inf"):
            raise ValueError(f"max_length must be a positive number of tokens, not {length}")
        return length


class PromptMean(Aggregation):
    """Each prompt counts the same, and in it each token."""

    name = "prompt_mean"
    formula = "(1/Q) sum_q [sum_(i in q) / sum_(i in q) |y_i|]"
    needs = ("group",)

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = (1/Q) sum_q sum_(i in q) sum_t l_it / sum_(i in q) |y_i|   [B, T] -> []  DAPO 2503.14476, ScaleRL
        return (x.sums / self._tokens(x)).sum() / x.n_prompts

    def _tokens(self, x: BatchLoss) -> Tensor:
        """[R]: trained tokens of each sequence's prompt, in the whole batch."""
        if x.group is None:
            raise MissingInput(f"aggregation {self.name!r} needs 'group' in the batch: [B] ids of prompts")
        counts = x.denominators.prompt_tokens  # {group id: tokens}
        missing = sorted({name for name in x.group.tolist() if name not in counts})
        if missing:
            raise ValueError(
                f"groups {missing[:5]} are not in the denominators: count the whole batch, with its groups"
            )
        tokens = [max(counts[name], 1) for name in x.group.tolist()]  # [R]
        return torch.tensor(tokens, device=x.sequences.mask.device, dtype=torch.float32)


class SequenceMean(Aggregation):
    """The mean of a loss per sequence."""

    name = "sequence_mean"
    formula = "(1/B) sum_i"
    per_sequence = True

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = (1/B) sum_i l_i                                        [R] -> []  GSPO 2507.18071, GMPO 2507.20673
        return torch.where(x.sequences.lengths > 0, x.loss, 0).sum() / x.n_sequences


class PlainSum(Aggregation):
    """Nothing is divided: the learning rate carries the batch size."""

    name = "sum"
    formula = "sum"

    def reduce(self, x: BatchLoss) -> Tensor:
        """[]."""
        # L = sum_i sum_t l_it                                      [B, T] -> []  Tinker
        return x.sums.sum()


def _as_aggregation(value: Any) -> Aggregation:
    aggregation: Aggregation = require_methods(value, Aggregation, ("reduce",), "aggregation")
    if not isinstance(getattr(value, "formula", None), str):
        raise TypeError(f"the aggregation {value.name!r} has no formula: set its attribute formula")
    return aggregation


_AGGREGATIONS = (
    TokenMean(),
    SequenceMeanOfTokenMeans(),
    SequenceMeanOfTokenSums(),
    ConstantLength(),
    PromptMean(),
    SequenceMean(),
    PlainSum(),
)
AGGREGATIONS: OpenRegistry[Aggregation] = OpenRegistry(
    "aggregation", "rlvr.algorithms", {each.name: each for each in _AGGREGATIONS}, _as_aggregation
)


def register_aggregation(aggregation: Aggregation) -> Aggregation:
    """Add an aggregation; its name may then stand in ``aggregation`` and ``loss_reduction``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return AGGREGATIONS.register(aggregation)


def aggregate(
    loss: Tensor,
    sequences: SequenceIndex,
    how: str,
    denominators: Denominators,
    group: Tensor | None = None,
    count_empty_sequences: bool = True,
) -> Tensor:
    """One number from a loss per token [B, T] or, where the aggregation takes one, per sequence [R].

    Denominators are the batch's. A sequence without trained tokens counts in B (and its prompt in Q), so that filtering
    one never re-weights its neighbours; `count_empty_sequences=False` leaves it out. Some trainers divide by the counts
    of the micro-batch or the rank, which is another loss.

    Raises:
        ValueError: there is no such aggregation, or it gives more than one number.
    """
    one_of("aggregation", how, AGGREGATIONS)
    every, counts = count_empty_sequences, denominators
    n_sequences = counts.n_sequences if every else counts.n_live_sequences
    n_prompts = counts.n_prompts if every else counts.n_live_prompts
    total = AGGREGATIONS[how].reduce(BatchLoss(loss, sequences, counts, group, n_sequences, n_prompts))
    if total.dim():
        raise ValueError(f"aggregation {how!r} gives one number, not a shape of {tuple(total.shape)}")
    return total


def regulariser_aggregation(aggregation: str, ratio_level: str) -> str:
    """How a per-token regulariser (KL, entropy) is aggregated beside the policy term.

    A loss per sequence has no token sum: the regulariser takes the form whose on-policy denominator equals that of the
    sequence loss (a geometric mean divides by |y|, a product does not).
    """
    if not AGGREGATIONS[aggregation].per_sequence:
        return aggregation
    # on policy d exp(mean_t log r_t) = (1/|y|) sum_t d log pi_t, and d prod_t r_t = sum_t d log pi_t
    return SequenceMeanOfTokenMeans.name if ratio_level == "sequence" else SequenceMeanOfTokenSums.name
