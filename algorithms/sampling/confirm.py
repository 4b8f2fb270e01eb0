"""Whether an engine samples with the weights it was sent: its log-probabilities of some tokens against the learner's.

Two comparisons, since either misses something. The level: both score the same tokens, and may differ by the rounding of
two engines. That passes old weights for new ones where an update is smaller than rounding. The change: from one version
to the next the engine's log-probabilities must move as the learner's do. The engine's rounding is nearly the same both
times, so this sees weights that stayed behind, all or some of them, after updates that are far smaller.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.sampling.protocol import SamplerError

PROBED = 64  # tokens
LEVEL = {"float32": 1e-3}  # nats; a matrix product in half precision is good to two or three digits
HALF_LEVEL = 0.1
CHANGE = {"float32": 2e-5}
HALF_CHANGE = 0.05
SHARE = 0.25  # of the learner's own change that the engine's may miss


class Confirmation:
    """Compares an engine with the learner's model after each sync.

    Args:
        model: the learner's.
        dtype: of the engine's weights.
        max_length: the longest sequence that the engine takes, in tokens.
        tolerance: nats by which a log-probability may differ; 0 takes what rounding may make of it.
    """

    def __init__(self, model: Any, dtype: str, max_length: int, tolerance: float = 0.0) -> None:
        self.model = model
        self.level = tolerance or LEVEL.get(dtype, HALF_LEVEL)
        self.change = CHANGE.get(dtype, HALF_CHANGE)
        size = int(model.config.get_text_config().vocab_size)
        # spread over the vocabulary: an embedding or a head that stayed behind in part is met
        rng = random.Random("the tokens that confirm a sync")
        self.tokens = [rng.randrange(size) for _ in range(max(2, min(PROBED, max_length - 1)))]
        self._before: tuple[Tensor, Tensor] | None = None  # learner's and engine's at the last version

    def own(self) -> Tensor:
        """[T - 1] the learner's log-probabilities of the tokens after the first, at temperature 1."""
        ids = torch.tensor([self.tokens], device=next(self.model.parameters()).device)
        with torch.no_grad():
            logprobs = self.model(ids).logits[0, :-1].float().log_softmax(-1)  # [T - 1, V]
        picked: Tensor = logprobs.gather(1, ids[0, 1:, None])[:, 0].cpu()
        return picked

    def check(self, version: int, score: Callable[[Sequence[int]], list[float]]) -> float:
        """The largest difference of a log-probability, in nats; ``score`` gives the engine's.

        Raises:
            SamplerError: the engine does not have the weights of this version.
        """
        ours, theirs = self.own(), torch.tensor(score(self.tokens))
        if theirs.shape != ours.shape or not theirs.isfinite().all():
            raise SamplerError(
                f"the sampler has log-probabilities of {theirs.numel()} tokens, {ours.numel()} asked for"
            )
        gap = float((ours - theirs).abs().max())
        if not gap <= self.level:
            raise SamplerError(
                f"after the sync to version {version} the sampler's log-probabilities differ from the learner's by up "
                f"to {gap:.3g} nats, {self.level:g} allowed: it samples with other weights (stale, half loaded, of "
                "another model), or sampler.tolerance is too small for its arithmetic"
            )
        if self._before is not None:
            moved = ours - self._before[0]  # [T - 1]
            missed = float((theirs - self._before[1] - moved).abs().max())
            if missed > max(self.change, SHARE * float(moved.abs().max())):
                raise SamplerError(
                    f"the sync to version {version} moved the learner's log-probabilities by up to "
                    f"{float(moved.abs().max()):.3g} nats, and the sampler's differ from that by {missed:.3g}: some or "
                    "all of its weights are still the old ones"
                )
        self._before = ours, theirs
        return gap
