"""Learner: owns the model, the optimiser and the numerics of an update; knows no task and no name of an algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.sampling import SequenceScores, score_sequences, sequence_logprobs
from rlvr.algorithms._torch import torch
from rlvr.algorithms.data.batch import Padded, Rows, micro_batches, pad, stack
from rlvr.algorithms.losses.aggregation import Denominators, count_denominators
from rlvr.algorithms.losses.policy import merge_stats, policy_loss
from rlvr.algorithms.presets import Preset
from rlvr.algorithms.train.optimiser import Optimiser


class Learner:
    """Updates a causal language model by a preset's policy loss, or by imitation.

    The model stays in evaluation mode (no dropout), so that its log-probabilities are those of sampling. Micro-batches
    divide by the counts of the whole optimiser batch: their size changes memory, not the result.

    Args:
        model: a Hugging Face causal language model.
        preset: the algorithm.
        pad_id: a token id to fill rows with.
        temperature: of sampling; log-probabilities are taken at it.
        max_length: the generation budget in tokens, Dr. GRPO's constant.
        epochs, minibatches: passes over each batch, and optimiser steps a pass.
        micro_batch_tokens: padded tokens that go through the model at once.
        reference: keep a reference policy even if the preset has no KL term.
    """

    def __init__(
        self,
        model: Any,
        preset: Preset,
        *,
        pad_id: int,
        temperature: float = 1.0,
        max_length: int,
        epochs: int = 1,
        minibatches: int = 1,
        micro_batch_tokens: int = 8192,
        reference: bool = False,
    ) -> None:
        self.model = model.eval()
        self.preset = preset
        self.pad_id = pad_id
        self.temperature = temperature
        self.max_length = max_length
        self.epochs, self.minibatches = epochs, minibatches
        self.micro_batch_tokens = micro_batch_tokens
        self.device = next(model.parameters()).device
        self.needs_reference = reference or preset.kl_coef > 0
        self.reference: list[torch.Tensor] | None = None

    def freeze_reference(self) -> None:
        """Take the policy as it is now for the reference, if there is to be one."""
        if self.needs_reference:
            self.reference = [parameter.detach().clone() for parameter in self._trained()]

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @contextmanager
    def _as_reference(self) -> Iterator[None]:
        """The model with the reference's weights. Only trained ones differ: with LoRA, the adapters alone."""
        if self.reference is None:
            raise RuntimeError("there is no reference policy yet: call freeze_reference() where training begins")
        trained = self._trained()
        now = [parameter.data for parameter in trained]
        try:
            for parameter, frozen in zip(trained, self.reference, strict=True):
                parameter.data = frozen
            yield
        finally:
            for parameter, data in zip(trained, now, strict=True):
                parameter.data = data

    # log-probabilities

    def logprobs(self, sequences: Sequence[TokenSequence], model: Any = None) -> list[torch.Tensor]:
        """The policy's log-probabilities of every row's sampled tokens, [T] each, 0 elsewhere, without gradient.

        With ``model`` those of another one, such as a teacher, at the same temperature.
        """
        columns: list[Any] = [None] * len(sequences)
        with torch.no_grad():
            for micro in self.micro_batches(sequences):
                logprobs = sequence_logprobs(model or self.model, micro.ids, micro.mask, self.temperature).cpu()
                for row, place in enumerate(micro.places):
                    columns[place] = logprobs[row, : len(sequences[place])].clone()
        return columns

    def reference_logprobs(self, sequences: Sequence[TokenSequence]) -> list[torch.Tensor]:
        """The same of the reference policy."""
        with self._as_reference():
            return self.logprobs(sequences)

    def micro_batches(self, sequences: Sequence[TokenSequence]) -> Iterator[Padded]:
        """All rows, padded, as many at once as `micro_batch_tokens` allows."""
        return micro_batches(sequences, self.micro_batch_tokens, self.pad_id, self.device)

    # reinforcement learning

    def update(self, rows: Rows, optimiser: Optimiser) -> dict[str, float]:
        """All optimiser steps on one batch of rows; their merged stats.

        ``old`` is the policy before the first step. With a single step it equals the policy itself, so the second
        forward pass that would say so is spared.
        """
        if self.epochs * self.minibatches > 1 and "old" in self.preset.needs and rows.old is None:
            rows.old = self.logprobs(rows.sequences)
        if "ref" in self.preset.needs and rows.ref is None:
            rows.ref = self.reference_logprobs(rows.sequences)
        parts = [
            self._step(minibatch, optimiser)
            for _ in range(self.epochs)
            for minibatch in rows.minibatches(self.minibatches)
        ]
        return merge_steps(parts)

    def _step(self, rows: Rows, optimiser: Optimiser) -> dict[str, float]:
        denominators = self.count(rows)
        live = self._live(rows)
        stats: dict[str, float] = {"live_rows": float(len(live))}
        parts = []
        for micro in self.micro_batches([rows.sequences[i] for i in live]):
            micro.places = [live[i] for i in micro.places]
            scores = self._scores(micro)
            if not scores.logprobs.isfinite().all():
                return stats | optimiser.refuse()
            batch = self._loss_batch(rows, micro, scores)
            try:
                loss, part = policy_loss(scores.logprobs, batch, self.preset, denominators)
            except FloatingPointError:  # an unbounded ratio has overflowed
                return stats | optimiser.refuse()
            loss.backward()
            parts.append(part)
        if not parts:  # no row has anything to teach: a step on momentum alone would be noise
            return stats | {"loss": 0.0, "grad_norm": 0.0, "refused": 0.0, "lr": optimiser.lr(optimiser.steps)}
        return stats | merge_stats(parts) | optimiser.step()

    def _scores(self, micro: Padded) -> SequenceScores:
        wanted = bool(self.preset.entropy_coef)
        return score_sequences(self.model, micro.ids, micro.mask, self.temperature, entropy=wanted)

    def count(self, rows: Rows) -> Denominators:
        """The denominators of the whole batch, counted before it is cut."""
        whole = pad(rows.sequences, list(range(len(rows))), self.pad_id, torch.device("cpu"))
        return count_denominators({"mask": whole.mask, "group": rows.group, "max_length": self.max_length})

    def _live(self, rows: Rows) -> list[int]:
        """Rows with a gradient. One of advantage zero has none, unless something else in the loss acts on it."""
        p = self.preset
        if p.sampler_penalty or p.entropy_coef or p.clip == "square" or "ref" in p.needs:
            return [i for i in range(len(rows)) if rows.sequences[i].sampled]
        advantages = rows.advantages
        acts = (advantages != 0) if advantages.dim() == 1 else (advantages != 0).any(dim=1)
        return [i for i in range(len(rows)) if acts[i] and rows.sequences[i].sampled]

    def _loss_batch(self, rows: Rows, micro: Padded, scores: SequenceScores) -> dict[str, Any]:
        width, places = micro.ids.shape[1], micro.places
        advantages = rows.advantages[places]
        sampler = [torch.tensor(rows.sequences[i].logprobs) for i in places]
        batch = {
            "mask": micro.mask,
            "advantages": (advantages if advantages.dim() == 1 else advantages[:, :width]).to(self.device),
            "group": rows.group[places].to(self.device),
            "max_length": self.max_length,
            "sampler": stack(sampler, width, self.device),
            "old": scores.logprobs.detach(),
            "entropy": scores.entropy,
        }
        for name, columns in (("old", rows.old), ("ref", rows.ref)):
            if columns is not None:
                batch[name] = stack([columns[i] for i in places], width, self.device)
        return batch

    # imitation

    def imitate(self, sequences: Sequence[TokenSequence], optimiser: Optimiser) -> dict[str, float]:
        """One supervised step: the mean negative log-likelihood of all masked tokens of the batch."""
        tokens = sum(sequence.sampled for sequence in sequences)
        if tokens == 0:
            raise ValueError("the demonstrations have no token to learn from")
        total = 0.0
        for micro in self.micro_batches(sequences):
            logprobs = sequence_logprobs(self.model, micro.ids, micro.mask)
            loss = -torch.where(micro.mask, logprobs, 0).sum() / tokens
            loss.backward()
            total += float(loss.detach())
        return {"loss": total, "tokens": float(tokens)} | optimiser.step()


def merge_steps(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """Stats of several optimiser steps as one: means, but extremes of extremes, and the number of refused steps.

    A step without anything to learn from has fewer stats than others; each is merged over the steps that have it.
    """
    merged: dict[str, float] = {}
    for name in dict.fromkeys(name for step in steps for name in step):
        values = [step[name] for step in steps if name in step]
        if name == "refused":
            merged[name] = sum(values)
        elif name.endswith("_min"):
            merged[name] = min(values)
        elif name.endswith("_max"):
            merged[name] = max(values)
        else:
            merged[name] = sum(values) / len(values)
    return merged
