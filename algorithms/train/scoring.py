"""Log-probabilities of whole sequences in one forward pass, as the learner differentiates them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional as F

from rlvr.algorithms.train.head import SequenceScores, score_hidden, score_logits, uses_float32
from rlvr.algorithms.train.memory import recomputed_layers


class Scorer(nn.Module):
    """A model's body and its output layer in one forward pass: `score_sequences` as a module, which FSDP can wrap."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None = None,
        temperature: float = 1.0,
        *,
        slopes: torch.Tensor | None = None,
        **options: Any,
    ) -> SequenceScores:
        """`score_sequences` of the model, with each distinct sequence in it once: small games repeat theirs."""
        rows, row_of = _distinct_rows(ids, mask)  # [D], [B]
        if len(rows) == len(ids):
            return score_sequences(self.model, ids, mask, temperature, slopes=slopes, **options)
        chosen = None if mask is None else mask[rows]  # [D, T]
        # log pi of equal rows is one number: d loss / d log pi of it is the sum over them     [B, T] -> [D, T]
        summed = None if slopes is None else slopes.new_zeros(len(rows), slopes.shape[1]).index_add_(0, row_of, slopes)
        scores = score_sequences(self.model, ids[rows], chosen, temperature, slopes=summed, **options)
        return SequenceScores(scores.logprobs[row_of], None if scores.entropy is None else scores.entropy[row_of])


def _distinct_rows(ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row [D] of each distinct sequence and mask, and which of these each row [B] equals."""
    whole = ids if mask is None else torch.cat([ids, mask.to(ids.dtype)], 1)  # [B, T] or [B, 2T]
    found: dict[bytes, int] = {}
    row_of = [found.setdefault(row.tobytes(), len(found)) for row in whole.cpu().numpy()]
    first: dict[int, int] = {}
    for row, distinct in enumerate(row_of):
        first.setdefault(distinct, row)
    return torch.tensor(list(first.values()), device=ids.device), torch.tensor(row_of, device=ids.device)


def sequence_logprobs(
    model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None, temperature: float = 1.0
) -> torch.Tensor:
    """Log-probabilities of whole sequences in one forward pass, (B, T), float32; see `score_sequences`."""
    return score_sequences(model, ids, mask, temperature).logprobs


def score_sequences(
    model: Any,
    ids: torch.Tensor,
    mask: torch.Tensor | None = None,
    temperature: float = 1.0,
    *,
    entropy: bool = False,
    recompute: bool = False,
    slopes: torch.Tensor | None = None,
) -> SequenceScores:
    """Log-probabilities of whole sequences in one forward pass, and entropies on request.

    Entry [:, t] is about the token ids[:, t] given ids[:, :t]; entry [:, 0] is 0, as nothing comes before it.
    Results carry gradients unless those are disabled. Logits are made only where the mask asks, and, where they
    would not fit at once, a piece at a time and again in the backward pass: memory stays bounded however large
    the vocabulary is. A model that scales or caps its logits is asked for all of them instead.

    Args:
        model: a transformers causal language model, in the mode (training or evaluation) you want.
        ids: (B, T), each row's tokens from column 0 on, padded on the right with any token. Attention is
            causal, so no real token ever sees the padding.
        mask: (B, T), not 0 where a result is wanted, such as the loss mask; None asks for all.
        temperature: logits are divided by it, as in sampling.
        entropy: whether to give entropies, too.
        recompute: keep the inputs of the layers alone for the backward pass, which computes the layers again.
        slopes: (B, T), d loss / d log pi of each token, where it is known beforehand; see `score_hidden`.

    Raises:
        ValueError: ids and mask differ in shape, or the temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"temperature {temperature} must be above 0")
    if mask is not None and mask.shape != ids.shape:
        raise ValueError(f"mask {tuple(mask.shape)} and ids {tuple(ids.shape)} must have one shape")
    if ids.shape[1] < 2:
        zeros = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)  # a single token has nothing before it
        return SequenceScores(zeros, zeros.clone() if entropy else None)
    wanted = torch.ones_like(ids[:, 1:], dtype=torch.bool) if mask is None else mask[:, 1:].bool()  # [B, T - 1]
    context, targets = ids[:, :-1], ids[:, 1:][wanted]  # [B, T - 1], [N]
    core = model.get_base_model() if hasattr(model, "get_base_model") else model  # under an adapter of peft
    plain = has_plain_head(core, ids[:1, :4])
    with recomputed_layers(core) if recompute and torch.is_grad_enabled() else nullcontext():
        body: Any = core.base_model if plain else model
        output = body(input_ids=context, use_cache=False)
    if plain:
        head = core.get_output_embeddings()
        hidden = output.last_hidden_state[wanted]  # [N, H], of wanted tokens alone
        known = None if slopes is None else slopes[:, 1:][wanted]  # [N]
        wide = uses_float32(head)
        scores = score_hidden(
            hidden, head.weight, head.bias, targets, temperature, entropy=entropy, slopes=known, in_float32=wide
        )
    else:
        scores = score_logits(output.logits[wanted], targets, temperature, entropy=entropy)  # logits [N, V]
    spread = None if scores.entropy is None else _spread(scores.entropy, wanted)
    return SequenceScores(_spread(scores.logprobs, wanted), spread)


def _spread(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Put scores (N,) where ``wanted`` (B, T - 1) is set, in columns 1 to T - 1 of zeros (B, T)."""
    spread = torch.zeros(wanted.shape, dtype=scores.dtype, device=scores.device)  # [B, T - 1]
    return F.pad(spread.masked_scatter(wanted, scores), (1, 0))  # [B, T], 0 for the first token


_plain_heads: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def has_plain_head(model: Any, ids: torch.Tensor) -> bool:
    """Whether the model's logits are its output layer on its last hidden state, and nothing else.

    Tried once for each model, on ``ids`` (1, n): some scale the hidden state, some scale or cap the logits. What
    leaves the output layer is blown up for the trial, so that a cap shows even in a model with small logits.
    """
    if model not in _plain_heads:
        head, body = model.get_output_embeddings(), getattr(model, "base_model", model)
        plain = type(head) is nn.Linear and body is not model
        _plain_heads[model] = plain and _try_head(model, head, ids)
    return _plain_heads[model]


def _try_head(model: Any, head: nn.Linear, ids: torch.Tensor) -> bool:
    seen: list[torch.Tensor] = []

    def blow_up(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        seen.extend((inputs[0], output * 1000.0))
        return seen[-1]

    training = model.training
    model.eval()  # dropout would make two passes differ
    hook = head.register_forward_hook(blow_up)
    try:
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits
            hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    finally:
        hook.remove()
        model.train(training)
    if len(seen) != 2:  # the head was called twice, or not at all
        return False
    near = [torch.allclose(a.float(), b.float(), rtol=1e-4) for a, b in ((seen[0], hidden), (seen[1], logits))]
    return all(near)
