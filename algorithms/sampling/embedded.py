"""The learner's own model as the sampler, or a copy of it that is sampled with while the learner updates."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any

from rlvr.agents.models.token_agent import Continuation, Draft, TokenAgent
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.sampling.protocol import Weights


class SharedSampler:
    """Samples with the learner's own weights: there is nothing to send, and nothing can differ.

    Args:
        model, tokenizer: the learner's.
        concurrency: replies that are sampled at once; None: all that are asked for.
    """

    versioned = False

    def __init__(self, model: Any, tokenizer: Any, concurrency: int | None = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.concurrency = concurrency
        self.version = 0

    def agent(self, **options: Any) -> TokenAgent:
        return TransformersAgent(self.model, self.tokenizer, max_sequences=self.concurrency, **options)

    def sync(self, weights: Weights, version: int) -> dict[str, float]:
        """The weights are there already."""
        self.version = version
        return {}

    def sleep(self) -> None:
        """Its memory is the learner's."""

    def recover(self) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to end."""


class CopiedSampler(SharedSampler):
    """Samples with a copy of the learner's model, so that the learner may update meanwhile.

    New weights wait for the replies that are being sampled, a turn of each; the next turn is sampled with them.
    """

    versioned = True

    def __init__(self, model: Any, tokenizer: Any, concurrency: int | None = None) -> None:
        # The learner writes to its own weights in place, in the middle of a reply otherwise.
        copied = copy.deepcopy(model).eval()
        for parameter in copied.parameters():
            parameter.requires_grad_(False)
        super().__init__(copied, tokenizer, concurrency)
        self.lock = threading.Lock()  # held while the copy is read or written
        self._learner = model

    def agent(self, **options: Any) -> TokenAgent:
        """A `TransformersAgent` whose tokens carry the version."""
        return _VersionedAgent(self, self.tokenizer, **options)

    def sync(self, weights: Weights, version: int) -> dict[str, float]:
        """Copy the learner's parameters, adapters as adapters; see `Sampler`."""
        # The lock is held for a whole turn of sampling: no reply begins with one version and ends with another.
        with self.lock, torch.no_grad():
            for mine, theirs in zip(self.model.parameters(), self._learner.parameters(), strict=True):
                mine.copy_(theirs)
            self.version = version
        return {}


class _VersionedAgent(TransformersAgent):
    def __init__(self, sampler: CopiedSampler, tokenizer: Any, **options: Any) -> None:
        super().__init__(sampler.model, tokenizer, max_sequences=sampler.concurrency, **options)
        self._sampler = sampler

    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> list[Continuation]:
        with self._sampler.lock:
            version = self._sampler.version
            sampled = super()._sample(drafts, limits)
        return [(ids, logprobs, [version] * len(ids)) for ids, logprobs, *_ in sampled]
