"""Choosing tokens: each is drawn from one uniform number that belongs to (agent seed, conversation, position).

So an episode does not depend on the batch it was sampled in. The learner's log-probabilities of whole sequences are in
`rlvr.algorithms.train.scoring`.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch

from rlvr.envs.core.deprecation import moved_names

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


__getattr__ = moved_names(
    __name__,
    {
        "rlvr.algorithms.data.batch": ("token_budget_batches",),
        "rlvr.algorithms.train.head": ("SequenceScores", "score_hidden", "score_logits"),
        "rlvr.algorithms.train.scoring": ("has_plain_head", "score_sequences", "sequence_logprobs"),
    },
)
