"""The learner whose policy is on a Tinker service: forward passes there, our loss here, its gradients back there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.learner.head import SequenceScores
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Accumulation, Optimiser
from rlvr.algorithms.learner.scoring import Scorer
from rlvr.algorithms.recipe.presets import Preset
from rlvr.algorithms.tinker.scale import RULES, grad_norm
from rlvr.algorithms.tinker.service import TinkerService, TinkerWeights
from rlvr.envs.core.files import make_folder, require_plain

ALL = 2**31  # micro_batch_tokens: the service makes micro-batches of its own


class RemotePolicy(torch.nn.Module):
    """What stands here for a policy on a service: its shapes, and no weights.

    Args:
        service: that has it.
        config: of the base model, as transformers reads it.
        rule: by what the service divides gradients, a name of `RULES`.
        end_ids: tokens at which the base model's generation configuration says to stop.
    """

    def __init__(self, service: TinkerService, config: Any, rule: str, end_ids: Sequence[int] = ()) -> None:
        super().__init__()
        self.service, self.config, self.rule, self.end_ids = service, config, rule, tuple(end_ids)

    def save_pretrained(self, folder: Path) -> None:
        """Keep the adapter on the service, and write down where, in ``tinker.json``."""
        make_folder(folder)
        require_plain(folder)
        # Its weights stay on the service: an archive of them is a matter between the service and its user.
        path = self.service.keep_for_sampling(f"policy-{folder.parent.name}"[:64])
        (folder / "tinker.json").write_text(json.dumps({"sampler_weights": path}) + "\n")


class RemoteScorer(Scorer):
    """Log-probabilities from the service; the backward pass notes their gradients, for `RemoteOptimiser.step`."""

    def __init__(self, policy: RemotePolicy) -> None:
        super().__init__(policy)
        self.service, self.rule = policy.service, policy.rule
        self.reference: TinkerWeights | None = None
        self.kept = ""  # where the service keeps the reference
        self._scores: TinkerService | TinkerWeights = policy.service
        self.noted: list[tuple[list[int], list[float], list[float]]] = []  # row, log-probabilities, logprob_grads

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, temperature: float = 1.0, **options: Any
    ) -> SequenceScores:
        """[B, T] log-probabilities where the mask is set, 0 elsewhere; at temperature 1.

        Args:
            ids, mask: [B, T]; what comes after the last token of the mask is not sent. Without a mask all is asked for.
            options: of `Scorer`, of which the service knows none.
        """
        mask = torch.ones_like(ids) if mask is None else mask
        rows = [row[:length] for row, length in zip(ids.tolist(), _lengths(mask), strict=True)]
        # A row of one token has nothing to score.
        scored_rows = [row for row in rows if len(row) > 1]
        scored = iter(self._scores.logprobs(scored_rows) if scored_rows else [])
        columns = torch.zeros(ids.shape)  # [B, T]
        for index, row in enumerate(rows):
            if len(row) > 1:
                columns[index, : len(row)] = torch.tensor(next(scored))
        # A leaf: the graph of here begins with the numbers that the service gave.
        logprobs: Tensor = _Noted.apply(columns.requires_grad_(torch.is_grad_enabled()), rows, self.noted)
        return SequenceScores(torch.where(mask.bool(), logprobs, 0), None)

    def keep_reference(self, path: str) -> None:
        """Take what the service keeps under this path for the reference policy; "" for none."""
        self.kept = path
        self.reference = self.service.sampler(path) if path else None

    @contextmanager
    def as_reference(self) -> Iterator[None]:
        """Score with the reference policy.

        Raises:
            RuntimeError: there is none.
        """
        if self.reference is None:
            raise RuntimeError("there is no reference policy yet: call freeze_reference() where training begins")
        self._scores = self.reference
        try:
            yield
        finally:
            self._scores = self.service


class _Noted(torch.autograd.Function):
    """The identity; notes the gradient of each row."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, rows: list[list[int]], noted: list[Any]) -> Tensor:
        ctx.rows, ctx.noted, ctx.columns = rows, noted, columns.detach()
        return columns.clone()

    @staticmethod
    def backward(ctx: Any, *logprob_grads: Tensor) -> tuple[None, None, None]:
        for row, logprobs, slope in zip(ctx.rows, ctx.columns, logprob_grads[0], strict=True):
            # A row without a slope would cost a pass over the model. NaN is true here.
            if bool(slope.any()):
                ctx.noted.append((row, logprobs[: len(row)].tolist(), slope[: len(row)].tolist()))
        return None, None, None


def _lengths(mask: Tensor) -> list[int]:
    """Tokens up to the last that is asked for, at least 1."""
    # max_t t mask_t     [B, T] -> [B]
    columns = torch.arange(1, mask.shape[1] + 1)
    lengths: list[int] = (mask.bool().cpu() * columns).amax(1).clamp(min=1).tolist()
    return lengths


class RemoteOptimiser(Optimiser):
    """AdamW on the service, with the schedule of here; a slope that is not finite is never sent.

    Args:
        scorer: has noted the gradients.
        lr, betas, weight_decay, max_grad_norm: see `Optimiser`; whether it clips is the service's affair.
    """

    def __init__(
        self,
        scorer: RemoteScorer,
        lr: Callable[[int], float],
        *,
        betas: tuple[float, float],
        weight_decay: float = 0.0,
        max_grad_norm: float = 1.0,
    ) -> None:
        self.scorer, self.lr = scorer, lr
        self.betas, self.weight_decay, self.max_grad_norm = betas, weight_decay, max_grad_norm
        self.scale = 1.0  # of losses: the service's gradients have its own precision
        self.accumulation = Accumulation([], torch.float32)  # the service adds them up
        self.steps = 0
        self.refused = 0

    def step(self) -> dict[str, float]:
        """Send what was noted and have AdamW take a step; norm before clipping, rate and whether it was refused."""
        rows = [row for row, _, _ in self.scorer.noted]
        logprobs = [values for _, values, _ in self.scorer.noted]
        logprob_grads = [values for _, _, values in self.scorer.noted]
        if not all(math.isfinite(slope) for row in logprob_grads for slope in row):
            return self.refuse()
        # The service divides by D_i, our loss has divided by its own counts: slope_it <- slope_it D_i
        divisors = RULES[self.scorer.rule](rows)
        scaled = [[slope * divisor for slope in row] for row, divisor in zip(logprob_grads, divisors, strict=True)]
        service = self.scorer.service
        # Without gradients AdamW moves on momentum alone, as it does here.
        if rows:
            service.backward(rows, logprobs, scaled)
        rate = self.lr(self.steps)
        metrics = service.step(
            lr=rate, betas=self.betas, weight_decay=self.weight_decay, max_grad_norm=self.max_grad_norm
        )
        self.steps += 1
        self.refused = 0  # refusals count in a row
        self.clear()
        return {"grad_norm": grad_norm(metrics) or 0.0, "lr": rate, "refused": 0.0}

    def clear(self) -> None:
        self.scorer.noted.clear()

    def tensors(self) -> dict[str, Tensor]:
        """None: they are on the service."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The counters, and where the service keeps weights and moments as they are now."""
        # Saved by whoever writes the checkpoint, in the same moment as its counters.
        path = self.scorer.service.save(f"step-{self.steps:06d}")
        return {"steps": self.steps, "refused": self.refused, "state": path, "reference": self.scorer.kept}

    def load_state_dict(self, counters: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            ConfigError: the checkpoint is of a run in this process.
            TinkerError: the service keeps that state no longer.
        """
        if "state" not in counters:
            raise ConfigError("the checkpoint is of a run without engine: tinker: its weights are not on a service")
        self.scorer.service.load(counters["state"])
        self.steps, self.refused = counters["steps"], counters["refused"]
        # The reference is that of the first start, not the adapter that this process began with.
        self.scorer.keep_reference(counters["reference"])


class TinkerLearner(Learner):
    """`Learner` of a `RemotePolicy`: the same losses and denominators, with one request a pass."""

    scorer: RemoteScorer

    def __init__(self, model: RemotePolicy, preset: Preset, **options: Any) -> None:
        super().__init__(model, preset, **options | {"micro_batch_tokens": ALL})
        # In place of the one that would run the model here.
        self.scorer = RemoteScorer(model)

    def new_optimiser(self, lr: Callable[[int], float], **options: Any) -> RemoteOptimiser:
        return RemoteOptimiser(self.scorer, lr, **options)

    def freeze_reference(self) -> None:
        """Keep the policy as it is now for the reference, if there is to be one."""
        if self.needs_reference:
            self.scorer.keep_reference(self.model.service.keep_for_sampling("reference"))

    @contextmanager
    def _as_reference(self) -> Iterator[None]:
        with self.scorer.as_reference():
            yield
