"""Learner: owns the model and the numerics of an update; knows no task and no name of an algorithm."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

from rlvr.agents.conversation import TokenSequence
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import Denominators, count_denominators
from rlvr.algorithms.learner.batch import Padded, TrainingBatch, pad
from rlvr.algorithms.learner.entropy import uncertain_tokens
from rlvr.algorithms.learner.head import SequenceScores
from rlvr.algorithms.learner.layers import CompiledLayers, require_compiler
from rlvr.algorithms.learner.memory import free_cached, is_out_of_memory
from rlvr.algorithms.learner.offload import OffloadedActivations
from rlvr.algorithms.learner.optimiser import ADAMW, Accumulation, Optimiser, shard
from rlvr.algorithms.learner.scoring import (
    LogprobGrads,
    Scorer,
    base_model,
    has_plain_head,
    why_not_packed,
    why_not_shared,
)
from rlvr.algorithms.learner.token_trace import note_imitation, note_no_gradient, note_update
from rlvr.algorithms.learner.world import ProcessWorld, whole
from rlvr.algorithms.losses.policy import merge_stats, policy_loss
from rlvr.algorithms.recipe.presets import Preset

T = TypeVar("T")


class Learner:
    """Updates a causal language model by a preset's policy loss, or by imitation.

    The model stays in evaluation mode (no dropout), so that its log-probabilities are those of sampling. Micro-batches
    divide by the counts of the whole optimiser batch: their size changes memory, not the result.

    Args:
        model: a Hugging Face causal language model.
        preset: the algorithm.
        pad_id: a token id to fill sequences with.
        temperature: of sampling; log-probabilities are taken at it.
        max_length: the generation budget in tokens, Dr. GRPO's constant.
        epochs, minibatches: passes over each batch, and optimiser steps a pass.
        micro_batch_tokens: tokens that go through the model at once, padding included where sequences cannot be packed
            (`why_not_packed`); halved when memory runs out.
        recompute_layers: keep less of each layer for the backward pass, which then computes it again.
        share_prompts: compute a prompt once for all its samples, where the model allows it; else `unshared` says why.
        reference: keep a reference policy even if the preset has no KL term.
        ema: decay of the moving average of the trained weights that `averaged` shows; 0 keeps none.
        optimiser: the kind of AdamW that a warm start takes, see `Optimiser`.
        compiled: compile each layer by itself; not with shared prompts.
        offload: what is kept in the memory of the CPU: "activations", in one process, or "weights" with the optimiser's
            state, under torchrun.
        grad_accum_dtype: of the sum of the micro-batches' gradients: "float64", which is the same for any number of
            processes, or "float32"; "auto" is float64 on the CPU.
        world: the processes of the run. Under torchrun the model stays what samples, and a copy of it in float32 is
            trained, sharded over them: `sync` copies the weights back.
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
        recompute_layers: bool = False,
        share_prompts: bool = False,
        reference: bool = False,
        ema: float = 0.0,
        optimiser: str = ADAMW,
        compiled: bool = False,
        offload: str = "none",
        grad_accum_dtype: str = "auto",
        world: ProcessWorld | None = None,
    ) -> None:
        self.world = world or ProcessWorld()
        self.sampler = self.model = model.eval()  # dropout would make the ratio of a first step differ from 1
        if self.world.sharded:
            self.model = deepcopy(model).float()
        reason = why_not_shared(base_model(self.model)) if share_prompts else ""
        self.unshared = reason and f"learner.share_prompts has no effect, prompts are not shared: {reason}"
        self.share_prompts = share_prompts and not self.unshared
        self.scorer = Scorer(self.model, self.share_prompts, self._forward_contexts(compiled, offload))
        self.device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        wide = grad_accum_dtype == "float64" or (grad_accum_dtype == "auto" and self.device.type == "cpu")
        self.sums = torch.float64 if wide else torch.float32
        self.accumulation: Accumulation | None = None
        self.masters: Sequence[torch.nn.Parameter] = ()  # of the phase of training before
        if self.world.sharded:
            self._shard(next(model.parameters()).dtype, offload == "weights")
        self.preset = preset
        self.pad_id = pad_id
        self.temperature = temperature
        self.max_length = max_length
        self.epochs, self.minibatches = epochs, minibatches
        self.micro_batch_tokens = micro_batch_tokens
        self.recompute_layers = recompute_layers
        self.needs_reference = reference or preset.kl_coef > 0
        self.reference: list[Tensor] | None = None
        self.ema = ema
        self.optimiser = optimiser
        self.average: list[Tensor] | None = None  # float32: in half precision small differences would be lost

    def _forward_contexts(self, compiled: bool, offload: str) -> list[Callable[[], AbstractContextManager[None]]]:
        """The contexts that a forward pass runs in."""
        if (offload == "weights") != self.world.sharded and offload != "none":
            other = "activations" if offload == "weights" else "weights"
            where = "torchrun, of one process or more" if offload == "weights" else "a run without torchrun"
            raise ConfigError(f"learner.offload {offload} is for {where}: take {other} here, or none")
        around: list[Callable[[], AbstractContextManager[None]]] = []
        if compiled:
            require_compiler(next(self.model.parameters()).device)
            self._try_model()  # as it was written: a trial is not worth compiling for
            around.append(CompiledLayers(self.model))
        if offload == "activations":
            around.append(OffloadedActivations(self.model))
        return around

    def _try_model(self) -> None:
        """Cache the results of `has_plain_head` and `why_not_packed`."""
        ids = torch.zeros(1, 4, dtype=torch.long, device=next(self.model.parameters()).device)
        has_plain_head(base_model(self.model), ids)
        why_not_packed(base_model(self.model))

    def _layout(self, model: Any = None) -> dict[str, Any]:
        """How the sequences of a micro-batch lie in a pass of the policy, or of another model."""
        core = base_model(self.model if model is None else model)
        share = self.share_prompts and not why_not_shared(core)
        return {"packed": not why_not_packed(core), "share_prompts": share}

    def _shard(self, dtype: torch.dtype, offload: bool) -> None:
        if dtype == torch.float16:
            raise ConfigError("model.dtype float16 is for one process: take bfloat16, whose gradients need no scale")
        self._try_model()  # while the weights are whole
        self.accumulation = shard(self.model, self.scorer, dtype, offload, self.sums)

    def sync(self) -> None:
        """Give the sampler the trained weights; nothing to do where they are the same."""
        if self.sampler is self.model:
            return
        with torch.no_grad():
            for sampled, trained in zip(self.sampler.parameters(), self.model.parameters(), strict=True):
                if trained.requires_grad:
                    sampled.copy_(whole(trained))

    def new_optimiser(self, lr: Callable[[int], float], **options: Any) -> Optimiser:
        """One for what is trained, for a phase of training; see `Optimiser`."""
        options |= {"kind": self.optimiser, "masters": self.masters}
        options["accumulation"] = self.accumulation or Accumulation(self._trained(), self.sums)
        optimiser = Optimiser(self.model.parameters(), lr, **options)
        self.masters = optimiser.masters
        return optimiser

    def freeze_reference(self) -> None:
        """Take the policy as it is now for the reference, if there is to be one."""
        if self.needs_reference:
            # copies of what is trained, not of the model
            self.reference = [parameter.detach().clone() for parameter in self._trained()]

    def reference_weights(self) -> dict[str, Tensor]:
        """The reference's trained weights by name, whole; none where there is no reference."""
        return self._by_name(self.reference)

    def average_weights(self) -> dict[str, Tensor]:
        """The average's trained weights by name, float32; none where there is no average."""
        return self._by_name(self.average)

    def _by_name(self, values: Sequence[Tensor] | None) -> dict[str, Tensor]:
        names = [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        return {name: whole(value) for name, value in zip(names, values or [], strict=values is not None)}

    def begin_average(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Let the average be the policy as it is now, or the weights that `average_weights` gave."""
        if not self.ema:
            return
        self.average = [parameter.detach().float().clone() for parameter in self._trained()]
        if weights is not None:
            for name, average in self.average_weights().items():
                average.copy_(weights[name])

    def update_average(self) -> None:
        """Take the policy as it is now into the average: R-NaD's target network, 2206.15378."""
        if self.average is None:
            return
        for average, parameter in zip(self.average, self._trained(), strict=True):
            # a <- d a + (1 - d) theta     1412.6980, section 7.2
            average.lerp_(parameter.detach().float(), 1 - self.ema)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with the averaged weights; the policy as it is where there is no average."""
        if self.average is None:
            yield
            return
        trained = self._trained()
        with self._swapped([a.to(parameter.dtype) for a, parameter in zip(self.average, trained, strict=True)]):
            yield

    def anneal_kl(self, done: float, start: float, end: float | None) -> dict[str, float]:
        """Set the KL term's coefficient after a share of the steps, from ``start`` to ``end`` geometrically.

        Magnetic mirror descent (2206.05825) converges to an equilibrium of the game plus the KL; as the coefficient
        falls, to one of the game. Returns what to log, nothing where ``end`` is None.
        """
        if end is None:
            return {}
        # c = c_1 (c_S / c_1)^done     done = (s - 1) / (S - 1)
        coefficient: float = start * (end / start) ** done
        self.preset = self.preset.replace(kl_coef=coefficient)
        return {"kl_coef": coefficient}

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @contextmanager
    def _as_reference(self) -> Iterator[None]:
        """The model with the reference's weights. Only trained ones differ: with LoRA, the adapters alone."""
        if self.reference is None:
            raise RuntimeError("there is no reference policy yet: call freeze_reference() where training begins")
        with self._swapped(self.reference):
            yield

    @contextmanager
    def _swapped(self, values: Sequence[Tensor]) -> Iterator[None]:
        """The model with other values of its trained weights, for a while."""
        trained = self._trained()
        # a shard is copied, as FSDP holds on to its memory; else swapped in and out: no second model in memory
        now = [parameter.detach().clone() if self.world.sharded else parameter.data for parameter in trained]
        try:
            self._put(trained, values)
            yield
        finally:
            self._put(trained, now)

    def _put(self, parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                if self.world.sharded:
                    parameter.copy_(value)
                else:
                    parameter.data = value

    # log-probabilities

    def pad(self, sequences: Sequence[TokenSequence]) -> Padded:
        """All sequences as one `Padded` on the CPU."""
        return pad(sequences, self.pad_id)

    def entropies(self, padded: Padded) -> Tensor:
        """[B, T] the entropy of the policy in nats at each sampled token, 0 elsewhere, on the CPU, without gradient."""
        return self.fitting(padded, lambda: self._logprobs(padded, None, entropy=True))

    def logprobs(self, sequences: Sequence[TokenSequence] | Padded, model: Any = None) -> Tensor:
        """[B, T] the policy's log-probabilities of the sampled tokens, 0 elsewhere, on the CPU, without gradient.

        With ``model`` those of another one, such as a teacher, at the same temperature.
        """
        padded = sequences if isinstance(sequences, Padded) else self.pad(sequences)
        return self.fitting(padded, lambda: self._logprobs(padded, model))

    def top_logprobs(
        self, sequences: Sequence[TokenSequence], top: int, model: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `logprobs`; then [B, T, K] the ids of the ``top`` likeliest tokens in each one's place, and [B, T, K + 1]
        their log-probabilities and that of all others together.
        """
        padded = self.pad(sequences)
        return self.fitting(padded, lambda: self._top_logprobs(padded, top, model))

    def _top_logprobs(self, padded: Padded, top: int, model: Any) -> tuple[Tensor, Tensor, Tensor]:
        layout = self._layout(model)
        score = self.scorer if model is None else Scorer(model, layout["share_prompts"])
        top = min(top, base_model(self.model if model is None else model).config.vocab_size)
        columns = torch.zeros(padded.ids.shape)  # [B, T]
        ids = torch.zeros(*padded.ids.shape, top, dtype=torch.long)  # [B, T, K]
        logprobs = torch.zeros(*padded.ids.shape, top + 1)  # [B, T, K + 1]
        with torch.no_grad():
            # every process makes all of them, as sharded weights want the same passes of each
            for indices, micro in padded.micro_batches(self.micro_batch_tokens, **layout):
                micro = micro.to(self.device)
                scores = score(micro.ids, micro.mask, self.temperature, top=top)
                width = micro.ids.shape[1]
                columns[indices, :width] = scores.logprobs.cpu()
                ids[indices, :width], logprobs[indices, :width] = (column.cpu() for column in scores.named)
        self._reshard()
        return columns, ids, logprobs

    def _logprobs(self, padded: Padded, model: Any, by_logprob_grads: bool = False, entropy: bool = False) -> Tensor:
        columns = torch.zeros(padded.ids.shape)  # [B, T]
        layout = self._layout(model)
        score = self.scorer if model is None else Scorer(model, layout["share_prompts"])
        with torch.no_grad():
            for _, item in self.world.share(list(padded.micro_batches(self.micro_batch_tokens, **layout))):
                if item is None:
                    self._idle()
                    continue
                indices, micro = item[0], item[1].to(self.device)
                options = (
                    {"logprob_grads": torch.zeros(micro.ids.shape, device=self.device)} if by_logprob_grads else {}
                )
                scores = score(micro.ids, micro.mask, self.temperature, entropy=entropy, **options)
                column = scores.entropy if entropy else scores.logprobs
                columns[indices, : micro.ids.shape[1]] = column.cpu()  # back in the order of the batch
        self._reshard()
        return self.world.sum(columns)

    def _reshard(self) -> None:
        """Cut the weights up again behind passes without gradient, as no backward pass does."""
        if self.world.sharded:
            sharded: Any = self.scorer
            sharded.reshard()

    def _idle(self) -> Tensor:
        """A forward pass on nothing, for a process without a share; its loss, 0."""
        scores: SequenceScores = self.scorer(torch.zeros(1, 2, dtype=torch.long, device=self.device))
        return scores.logprobs.sum() * 0.0

    def reference_logprobs(self, sequences: Sequence[TokenSequence] | Padded) -> Tensor:
        """[B, T] the same of the reference policy.

        Raises:
            RuntimeError: there is none.
        """
        padded = sequences if isinstance(sequences, Padded) else self.pad(sequences)
        # By the way that the update takes: before the first step the KL is 0 then, and not what rounding leaves.
        by_logprob_grads = (
            self.epochs * self.minibatches == 1
            and self._grad_known_in_forward()
            and "ref_logprobs" in self.preset.needs
        )
        with self._as_reference():
            return self.fitting(padded, lambda: self._logprobs(padded, None, by_logprob_grads))

    def _grad_known_in_forward(self) -> bool:
        """Whether in a batch's only step a token's gradient follows from its log-probability, see `_logprob_grads`."""
        preset = self.preset
        return "behaviour_logprobs" not in preset.needs and not preset.entropy_coef and preset.divergence == "sampled"

    def micro_batches(self, padded: Padded) -> Iterator[tuple[list[int], Padded]]:
        """All sequences on the learner's device, as many at once as `micro_batch_tokens` allows, with their indices."""
        for indices, micro in padded.micro_batches(self.micro_batch_tokens):
            yield indices, micro.to(self.device)

    def fitting(self, padded: Padded, work: Callable[[], T], optimiser: Optimiser | None = None) -> T:
        """``work()``, and where memory runs out in it, again with micro-batches of half as many tokens.

        The denominators are those of the whole batch, so the gradient stays what it was; what the failed try has added
        to it is thrown away.

        Raises:
            ConfigError: a single sequence does not fit.
        """
        while True:
            try:
                return work()
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if self.world.size > 1:  # the others wait in the pass that failed here
                    raise ConfigError(
                        f"process {self.world.rank} of {self.world.size} is out of memory: lower "
                        f"learner.micro_batch_tokens, {self.micro_batch_tokens} now"
                    ) from error
                if self.micro_batch_tokens < 2 * min(padded.lengths):  # each micro-batch was one sequence
                    raise ConfigError(
                        f"a sequence of {max(padded.lengths)} tokens does not fit in the memory by itself: set "
                        "learner.recompute_layers, lower sampling.max_length, or train adapters (model.lora_rank)"
                    ) from error
            # here the error, and with it the tensors of its frames, is gone
            self.micro_batch_tokens //= 2
            if optimiser is not None:
                optimiser.clear()
            free_cached(self.device)

    # reinforcement learning

    def with_logprobs(self, batch: TrainingBatch) -> TrainingBatch:
        """With the log-probabilities of ``old`` and of the reference that the preset reads, unless it has them.

        ``old`` is the policy before the first step. With a single step it equals the policy itself, so the second
        forward pass that would say so is spared.
        """
        needs = self.preset.needs
        if self.epochs * self.minibatches > 1 and "old_logprobs" in needs and batch.inputs.old_logprobs is None:
            batch = batch.replace(old_logprobs=self.logprobs(batch.padded))
        if "ref_logprobs" in needs and batch.inputs.ref_logprobs is None:
            batch = batch.replace(ref_logprobs=self.reference_logprobs(batch.padded))
        return self._with_chosen(batch)

    def _with_chosen(self, batch: TrainingBatch) -> TrainingBatch:
        """With the tokens that the preset treats apart, chosen in the whole batch by the policy before the update."""
        preset, mask = self.preset, batch.inputs.need("mask", "the learner")
        if "uncertain" in preset.needs and batch.inputs.uncertain is None:
            entropies = self.entropies(batch.padded)
            batch = batch.replace(uncertain=uncertain_tokens(entropies, mask, preset.entropy_share), entropy=entropies)
        if "covariant" in preset.needs and batch.inputs.covariant is None:
            old, advantages = batch.inputs.old_logprobs, batch.inputs.need("advantages", "the learner")
            old = self.logprobs(batch.padded) if old is None else old
            advantages = (advantages if advantages.dim() > 1 else advantages[:, None]).expand(mask.shape)
            # the draw follows from the tokens: a run that goes on from a checkpoint makes it again
            seed = zlib.crc32(batch.padded.ids.cpu().numpy().tobytes())
            batch = batch.replace(covariant=preset.clip_rule.choose(old, advantages, mask, preset, seed))
        return batch

    def update(self, batch: TrainingBatch, optimiser: Optimiser) -> dict[str, float]:
        """All optimiser steps on one batch; their merged stats."""
        batch = self.with_logprobs(batch)
        parts = [
            self._step(minibatch, optimiser)
            for _ in range(self.epochs)
            for minibatch in batch.minibatches(self.minibatches)
        ]
        return merge_steps(parts)

    def _step(self, batch: TrainingBatch, optimiser: Optimiser) -> dict[str, float]:
        finish = self.fitting(batch.padded, lambda: self._accumulate(batch, optimiser), optimiser)
        return finish()

    def _accumulate(self, batch: TrainingBatch, optimiser: Optimiser) -> Callable[[], dict[str, float]]:
        """Add up the gradient; returns what takes the step, which must not be taken twice where memory runs out."""
        denominators = self.count(batch)  # before it is cut into micro-batches
        live = self._live(batch)  # indices of sequences
        stats: dict[str, float] = {"live_sequences": float(len(live))}
        if batch.traces:
            note_no_gradient(batch, live)
        parts_by_index: list[tuple[int, dict[str, Tensor] | None]] = []
        micro_batches = batch.micro_batches(self.micro_batch_tokens, live, **self._layout())
        for index, micro in self.world.share(list(micro_batches)):
            if micro is None:
                optimiser.backward(self._idle())
                continue
            parts_by_index.append((index, self._micro_step(micro.to(self.device), denominators, optimiser)))
            if parts_by_index[-1][1] is None and self.world.size == 1:
                break
        parts = self.world.in_order(parts_by_index)
        if None in parts:
            return lambda: stats | optimiser.refuse()
        if not parts:  # no sequence has a gradient: a step on momentum alone would be noise
            return lambda: stats | {"loss": 0.0, "grad_norm": 0.0, "refused": 0.0, "lr": optimiser.lr(optimiser.steps)}
        return lambda: stats | merge_stats([part for part in parts if part is not None]) | optimiser.step()

    def _micro_step(
        self, micro: TrainingBatch, denominators: Denominators, optimiser: Optimiser
    ) -> dict[str, Tensor] | None:
        """Add a micro-batch's gradient; its stats, or None where one NaN of it would be in every weight."""
        optimiser.take_gradients()
        logprobs, inputs = self._loss_inputs(micro, self._logprob_grads(micro, denominators, optimiser.scale))
        try:
            finite = bool(logprobs.isfinite().all())
            loss, part = policy_loss(logprobs, inputs, self.preset, denominators) if finite else (None, None)
        except FloatingPointError:  # an unbounded ratio has overflowed
            loss, part = None, None
        if loss is None or part is None:
            if self.world.size > 1:
                (logprobs * torch.nan).sum().backward()  # the others wait for this pass; its gradient is thrown away
            return None
        if micro.traces:
            logprobs.retain_grad()
        optimiser.backward(loss)  # gradients add up: L is the sum of its micro-batches' parts
        if micro.traces:
            note_update(micro, logprobs, inputs, denominators, optimiser.scale)
        return {name: value.cpu() for name, value in part.items()} if self.world.size > 1 else part

    def count(self, batch: TrainingBatch) -> Denominators:
        """The denominators of a whole batch, counted before it is cut."""
        return count_denominators(batch.inputs)

    def _live(self, batch: TrainingBatch) -> list[int]:
        """Sequences with a gradient. One of advantage zero has none, unless something else in the loss acts on it."""
        live = batch.padded.mask.any(1)  # [B]
        if not self.preset.acts_without_advantage:
            advantages = batch.inputs.need("advantages", "the learner") != 0  # [B] or [B, T]
            live = live & (advantages if advantages.dim() == 1 else advantages.any(1))
        indices: list[int] = live.nonzero()[:, 0].tolist()
        return indices

    def _logprob_grads(self, micro: TrainingBatch, denominators: Denominators, scale: float) -> LogprobGrads | None:
        """[b, t] d loss / d log pi, where no log-probability of another token changes it; else None.

        In a batch's only step the ratio to the policy before it is 1, whatever the log-probabilities are, and where
        nothing else is compared with them the slope follows from advantages and counts. A KL term adds to it what
        follows from the token's own log-probability: then it is a function of [b, t] log-probabilities.
        """
        preset, inputs = self.preset, micro.inputs
        if inputs.old_logprobs is not None or not self._grad_known_in_forward():
            return None

        def at(logprobs: Tensor) -> Tensor:
            with torch.enable_grad():  # the head asks in its own forward pass
                new = logprobs.detach().requires_grad_()  # [b, t]
                entries = replace(inputs, old_logprobs=new.detach())
                # Numbers that are not finite are met where the loss itself is computed.
                loss, _ = policy_loss(new, entries, preset, denominators, validate=False)
                (logprob_grads,) = torch.autograd.grad(loss, new)
            return logprob_grads * scale

        if "ref_logprobs" in preset.needs:
            return at
        return at(torch.zeros(micro.padded.ids.shape, device=self.device))

    def _loss_inputs(self, micro: TrainingBatch, logprob_grads: LogprobGrads | None) -> tuple[Tensor, LossInputs]:
        """The policy's log-probabilities [b, t], with gradient, and the entries of the loss."""
        wanted = bool(self.preset.entropy_coef)
        padded, observed = micro.padded, micro.inputs.observations
        if observed is not None:
            padded = replace(padded, mask=padded.mask | observed)
        named = micro.inputs.teacher_top
        scores = self.scores(padded, self.temperature, entropy=wanted, logprob_grads=logprob_grads, named=named)
        inputs = replace(micro.inputs, entropy=scores.entropy if wanted else micro.inputs.entropy)
        if scores.named is not None:
            inputs = replace(inputs, top_logprobs=scores.named.logprobs)
        if inputs.old_logprobs is None:
            inputs = replace(inputs, old_logprobs=scores.logprobs.detach())  # r = 1, with the gradient of log pi
        return scores.logprobs, inputs

    def scores(self, padded: Padded, temperature: float, **options: Any) -> SequenceScores:
        """Log-probabilities [b, t], with gradient, of sequences on the learner's device; with other options of
        `score_sequences` what they ask for.
        """
        options["recompute"] = self.recompute_layers
        scores: SequenceScores = self.scorer(padded.ids, padded.mask, temperature, **options)
        return scores

    # imitation

    def imitate(
        self, sequences: Sequence[TokenSequence], optimiser: Optimiser, traces: Sequence[dict[str, Any]] = ()
    ) -> dict[str, float]:
        """One supervised step: the mean negative log-likelihood of all masked tokens of the batch.

        Raises:
            ValueError: there is no token to learn from.
        """
        padded = self.pad(sequences)
        tokens = int(padded.mask.sum())
        if tokens == 0:
            raise ValueError("the demonstrations have no token to learn from")
        total = self.fitting(padded, lambda: self._imitated(padded, tokens, optimiser, traces), optimiser)
        return {"loss": total, "tokens": float(tokens)} | optimiser.step()

    def _imitated(self, padded: Padded, tokens: int, optimiser: Optimiser, traces: Sequence[dict[str, Any]]) -> float:
        losses = []
        micro_batches = padded.micro_batches(self.micro_batch_tokens, **self._layout())
        for index, item in self.world.share(list(micro_batches)):
            if item is None:
                optimiser.backward(self._idle())
                continue
            indices, micro = item[0], item[1].to(self.device)
            logprobs = self.scores(micro, 1.0).logprobs  # [b, t]
            # L = -sum_i sum_t log pi(y_it) / N, N tokens of the whole batch   [B, T] -> []  maximum likelihood
            loss = -torch.where(micro.mask, logprobs, 0).sum() / tokens
            optimiser.backward(loss)
            note_imitation([traces[index] for index in indices] if traces else [], micro, logprobs, tokens)
            losses.append((index, loss.detach()))
        return sum(self.world.in_order([(index, float(loss)) for index, loss in losses]))  # waits for the device once


def merge_steps(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """Stats of several optimiser steps as one: means, but extremes of extremes, and the number of refused steps.

    A step without anything to learn from has fewer stats than others; each is merged over the steps that have it.
    """
    merged: dict[str, float] = {}
    for name in dict.fromkeys(name for step in steps for name in step):
        values = [step[name] for step in steps if name in step]
        if name == "refused":
            merged[name] = sum(values)
        elif name.endswith("_min"):  # the mean of minima is no minimum
            merged[name] = min(values)
        elif name.endswith("_max"):
            merged[name] = max(values)
        else:
            merged[name] = sum(values) / len(values)
    return merged
