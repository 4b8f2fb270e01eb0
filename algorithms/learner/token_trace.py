"""What an update made of each token, kept beside the episode: the numbers that `rlvr explain` reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.core.sequences import Denominators
from rlvr.algorithms.learner.batch import Padded, TrainingBatch

COLUMNS = ("old_logprobs", "ref_logprobs", "entropy", "uncertain", "covariant")


def note_update(
    micro: TrainingBatch, logprobs: Tensor, inputs: LossInputs, denominators: Denominators, scale: float = 1.0
) -> None:
    """After the backward pass of a policy loss: log-probs, the denominators and the weight of every token.

    The weight of a token is -dL/dlog pi: the factor of its log-probability's gradient in the update. A later epoch does
    not overwrite the first. ``scale`` is what the loss was multiplied by.
    """
    for index, trace in enumerate(micro.traces):
        if "weights" in trace:
            continue
        length = micro.padded.lengths[index]
        gradient = logprobs.grad  # [b, t] dL/dlog pi
        # weight_t = -dL/dlog pi_t, 0.0 - x so that no -0.0 is written          [T]
        weights = [0.0] * length if gradient is None else (0.0 - gradient[index, :length] / scale).tolist()
        trace |= {"weights": weights, "logprobs": logprobs[index, :length].tolist()}
        for name in COLUMNS:
            if (column := getattr(inputs, name)) is not None:
                trace[name] = column[index, :length].tolist()
        trace["denominators"] = counts(denominators, None if inputs.group is None else int(inputs.group[index]))


def note_no_gradient(batch: TrainingBatch, live: Sequence[int]) -> None:
    """Of sequences that were left out of the passes, since nothing acts on them: every token weighs 0."""
    for index in set(range(len(batch.traces))) - set(live):
        batch.traces[index].setdefault("weights", [0.0] * batch.padded.lengths[index])


def counts(denominators: Denominators, group: int | None) -> dict[str, Any]:
    """The counts of a batch as plain numbers; of the prompts' tokens only the group's own."""
    plain = asdict(denominators)
    prompts = plain.pop("prompt_tokens")  # a batch may have thousands of prompts: only the own one is kept
    plain["n_prompts"], plain["n_live_prompts"] = denominators.n_prompts, denominators.n_live_prompts
    plain["prompt_tokens"] = {str(group): prompts[group]} if group in prompts else {}
    return plain


def note_imitation(traces: Sequence[dict[str, Any]], micro: Padded, logprobs: Tensor, tokens: int) -> None:
    """After the backward pass of a likelihood: every trained token weighs 1 / N."""
    for index, trace in enumerate(traces):
        if "weights" in trace:
            continue
        length = micro.lengths[index]
        trace["weights"] = [float(on) / tokens for on in micro.mask[index, :length].tolist()]
        trace["logprobs"] = logprobs[index, :length].tolist()
