"""`Aggregation`: from a loss per token (or per sequence) to one number; what the sum is divided by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlvr.algorithms.core.denominators import Denominators
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.core.sequences import SequenceIndex
from rlvr.envs.open_registry import OpenRegistry, require_methods


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


def _as_aggregation(value: Any) -> Aggregation:
    aggregation: Aggregation = require_methods(value, Aggregation, ("reduce",), "aggregation")
    if not isinstance(getattr(value, "formula", None), str):
        raise TypeError(f"the aggregation {value.name!r} has no formula: set its attribute formula")
    return aggregation


AGGREGATIONS: OpenRegistry[Aggregation] = OpenRegistry("aggregation", "rlvr.algorithms", {}, _as_aggregation)


def register_aggregation(aggregation: Aggregation) -> Aggregation:
    """Add an aggregation; its name may then stand in ``aggregation`` and ``loss_reduction``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return AGGREGATIONS.register(aggregation)
