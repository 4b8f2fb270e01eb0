"""Choosing tokens and scoring them: the arithmetic that the sampler and the learner share.

The sampler draws each token from one uniform number that belongs to (agent seed, conversation, position), so an
episode does not depend on its batch. The learner's log-probabilities of whole sequences come from one forward
pass, and without all logits in memory at once where the vocabulary is large.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# Logits held at once, in numbers: above this they are made, used and made again, a piece at a time.
LOGITS_AT_ONCE = 2**24


def uniforms(seed: int, key: str, start: int, count: int) -> np.ndarray:
    """The numbers in [0, 1), float64 (count,), for positions start, start + 1, … of a conversation's tokens.

    They come from a counter-based generator (Philox) whose key is a hash of the seed and the conversation's key
    and whose counter is the position, so no draw depends on any other.
    """
    digest = blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    # One step of the counter makes four numbers.
    generator = np.random.Philox(key=int.from_bytes(digest, "little"), counter=start // 4)
    skipped = start % 4
    return np.random.Generator(generator).random(skipped + count)[skipped:]


def choose_tokens(
    logits: torch.Tensor,
    noise: torch.Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    greedy: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token a row by inverting the distribution function at ``noise``.

    Args:
        logits: (B, V).
        noise: (B,) in [0, 1), float64; unused when greedy.
        temperature: logits are divided by it.
        top_k: only the k most likely tokens are drawn from.
        top_p: only the most likely tokens that together reach this probability are drawn from.
        greedy: take the most likely token.

    Returns:
        Tokens (B,) and their log-probabilities (B,), float32. These are of softmax(logits / temperature) over
        the whole vocabulary, which is what the learner computes: not renormalised to what ``top_k`` and
        ``top_p`` left, nor 0 when greedy.

    Raises:
        FloatingPointError: the logits of a sequence hold NaN or positive infinity.
    """
    logits = logits.float()
    if temperature != 1.0:
        logits = logits / temperature
    logprobs = logits.log_softmax(-1)
    _require_numbers(logprobs)
    if greedy:
        tokens = logprobs.argmax(-1, keepdim=True)
    else:
        weights = truncate(logprobs.exp(), top_k, top_p)
        reached = weights.cumsum(-1, dtype=torch.float64)
        total = reached[:, -1]
        # Below the total even where the product rounds up to it, so that a token of weight 0 is never met.
        below = torch.nextafter(total, torch.zeros_like(total))
        target = torch.minimum(noise * total, below)
        tokens = torch.searchsorted(reached, target[:, None], right=True)
    return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]


def _require_numbers(logprobs: torch.Tensor) -> None:
    # One NaN or +inf makes the whole row of a log-softmax NaN; -inf, a token that cannot come, does not.
    broken = logprobs[:, 0].isnan()
    if broken.any():
        raise FloatingPointError(
            f"the model's logits are NaN or infinite in {int(broken.sum())} of {len(broken)} sequences, so no token "
            "can be sampled: its weights have diverged or its precision overflows; go back to an earlier checkpoint, "
            "lower the learning rate, or use float32 or bfloat16"
        )


def truncate(probabilities: torch.Tensor, top_k: int | None, top_p: float) -> torch.Tensor:
    """The probabilities (B, V), 0 outside the ``top_k`` likeliest and the smallest set that holds ``top_p``."""
    if top_k is not None and top_k < probabilities.shape[-1]:
        kept = probabilities.topk(top_k, dim=-1)
        probabilities = torch.zeros_like(probabilities).scatter(-1, kept.indices, kept.values)
    if top_p < 1.0:
        ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1, dtype=torch.float64) - ordered
        ordered = ordered.masked_fill(before >= top_p * probabilities.sum(-1, keepdim=True), 0.0)
        probabilities = torch.zeros_like(probabilities).scatter(-1, order, ordered)
    return probabilities


def token_budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Split sequences into micro-batches of similar length and bounded size.

    A batch of n sequences, padded to the longest of length t, takes n · t tokens: at most ``budget``, unless it
    is one sequence that is longer alone. Longest first, so that memory peaks at the start.

    Args:
        lengths: of each sequence, in tokens.
        budget: tokens of one batch, padding included.

    Returns:
        Batches of indices into ``lengths``; each index once.

    Raises:
        ValueError: the budget is below 1.
    """
    if budget < 1:
        raise ValueError(f"a budget of {budget} tokens holds nothing: give at least 1")
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if room < 1:
            batches.append([])
            room = max(1, budget // max(1, lengths[index]))
        batches[-1].append(index)
        room -= 1
    return batches


class SequenceScores(NamedTuple):
    """Of each token given all before it: (B, T), float32, 0 where not asked for."""

    logprobs: torch.Tensor
    entropy: torch.Tensor | None  # of the distribution the token was drawn from


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

    Raises:
        ValueError: ids and mask differ in shape, or the temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"temperature {temperature} must be above 0")
    if mask is not None and mask.shape != ids.shape:
        raise ValueError(f"mask {tuple(mask.shape)} and ids {tuple(ids.shape)} must have one shape")
    if ids.shape[1] < 2:
        zeros = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)
        return SequenceScores(zeros, zeros.clone() if entropy else None)
    wanted = torch.ones_like(ids[:, 1:], dtype=torch.bool) if mask is None else mask[:, 1:].bool()
    context, targets = ids[:, :-1], ids[:, 1:][wanted]
    core = model.get_base_model() if hasattr(model, "get_base_model") else model  # under an adapter of peft
    if has_plain_head(core, ids[:1, :4]):
        head = core.get_output_embeddings()
        hidden = core.base_model(input_ids=context, use_cache=False).last_hidden_state[wanted]
        scores = score_hidden(hidden, head.weight, head.bias, targets, temperature, entropy=entropy)
    else:
        logits = model(input_ids=context, use_cache=False).logits[wanted]
        scores = score_logits(logits, targets, temperature, entropy=entropy)
    spread = None if scores.entropy is None else _spread(scores.entropy, wanted)
    return SequenceScores(_spread(scores.logprobs, wanted), spread)


def _spread(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Put scores (N,) where ``wanted`` (B, T - 1) is set, in columns 1 to T - 1 of zeros (B, T)."""
    spread = torch.zeros(wanted.shape, dtype=scores.dtype, device=scores.device)
    return F.pad(spread.masked_scatter(wanted, scores), (1, 0))


def score_logits(
    logits: torch.Tensor, targets: torch.Tensor, temperature: float, *, entropy: bool = False
) -> SequenceScores:
    """Log-probabilities of ``targets`` (N,) and entropies (N,) under softmax(logits (N, V) / temperature)."""
    logits = logits.float()
    if temperature != 1.0:
        logits = logits / temperature
    if not entropy:
        return SequenceScores(-F.cross_entropy(logits, targets, reduction="none"), None)
    logprobs = logits.log_softmax(-1)
    spread = -(logprobs.exp() * logprobs).sum(-1)
    return SequenceScores(logprobs.gather(-1, targets[:, None])[:, 0], spread)


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    temperature: float,
    *,
    entropy: bool = False,
    logits_at_once: int = LOGITS_AT_ONCE,
) -> SequenceScores:
    """`score_logits` of the logits ``hidden (N, H) @ weight (V, H).T + bias (V,)``, never all of them at once."""
    if hidden.shape[0] * weight.shape[0] <= logits_at_once:
        return score_logits(F.linear(hidden, weight, bias), targets, temperature, entropy=entropy)
    rows = max(1, logits_at_once // weight.shape[0])
    pieces: Any = _ScorePieces
    logprobs, spread = pieces.apply(hidden, weight, bias, targets, temperature, rows)
    return SequenceScores(logprobs, spread if entropy else None)


class _ScorePieces(torch.autograd.Function):
    """Scores a few rows at a time; the backward pass makes the logits of each piece again."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        rows: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        entropy, normaliser = torch.empty_like(logprobs), torch.empty_like(logprobs)
        for piece in _pieces(len(hidden), rows):
            logits = F.linear(hidden[piece], weight, bias).float().div_(temperature)
            normaliser[piece] = logits.logsumexp(-1)
            logprobs[piece] = logits.gather(-1, targets[piece, None])[:, 0] - normaliser[piece]
            likely = (logits - normaliser[piece, None]).exp_()
            entropy[piece] = normaliser[piece] - likely.mul_(logits).sum(-1)
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropy)
        ctx.temperature, ctx.rows = temperature, rows
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_logprobs, to_entropy = gradients
        hidden, weight, bias, targets, normaliser, entropy = ctx.saved_tensors
        need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
        d_hidden = torch.empty_like(hidden) if need_hidden else None
        # Sums over pieces in float32, also when the weights are in half precision.
        d_weight = torch.zeros_like(weight, dtype=torch.float32) if need_weight else None
        d_bias = torch.zeros_like(bias, dtype=torch.float32) if need_bias else None
        for piece in _pieces(len(hidden), ctx.rows):
            logits = F.linear(hidden[piece], weight, bias).float().div_(ctx.temperature)
            logprobs = logits.sub_(normaliser[piece, None])
            # d logprob(y) / d logit(j) = [j = y] - p(j);  d entropy / d logit(j) = -p(j) (log p(j) + entropy)
            slope = (logprobs + entropy[piece, None]).mul_(to_entropy[piece, None])
            slope.add_(to_logprobs[piece, None]).mul_(logprobs.exp_()).neg_()
            slope.scatter_add_(-1, targets[piece, None], to_logprobs[piece, None].contiguous())
            slope = slope.div_(ctx.temperature).to(hidden.dtype)
            if d_hidden is not None:
                d_hidden[piece] = slope @ weight
            if d_weight is not None:
                _add_product(d_weight, slope.T, hidden[piece])
            if d_bias is not None:
                d_bias += slope.sum(0)
        d_weight = None if d_weight is None else d_weight.to(weight.dtype)
        d_bias = None if d_bias is None else d_bias.to(bias.dtype)
        return d_hidden, d_weight, d_bias, None, None, None


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _pieces(count: int, rows: int) -> list[slice]:
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]


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
    model.eval()
    hook = head.register_forward_hook(blow_up)
    try:
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits
            hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    finally:
        hook.remove()
        model.train(training)
    if len(seen) != 2:
        return False
    near = [torch.allclose(a.float(), b.float(), rtol=1e-4) for a, b in ((seen[0], hidden), (seen[1], logits))]
    return all(near)
