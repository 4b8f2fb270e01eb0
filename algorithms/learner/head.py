"""The output layer: log-probabilities and entropies of tokens from hidden states, never all logits in memory at once.

The logits of N tokens over a vocabulary V are the largest tensor of an update: 8,192 x 151,936 in float32 are 5 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from rlvr.agents.models.sampling import LOGITS_AT_ONCE

IN_CACHE = 2**22  # on a CPU: numbers that stay in its cache, more or less, while they are worked on
NO_MASS = -80.0  # log of what float32 still tells from 0: where no token is left, differences stay finite
IN_CORE = 2**18  # the same of one core: what several operations in a row go through

# d loss / d log pi of some tokens [n] from their log-probabilities [n], and which of all N they are: where a token's
# slope depends on no log-probability but its own.
LogprobGradsOf = Callable[[torch.Tensor, slice], torch.Tensor]


class NamedTokens(NamedTuple):
    """Some tokens of the vocabulary at each position, (..., K)."""

    ids: torch.Tensor
    logprobs: torch.Tensor  # (..., K + 1) float32; the last is that of all other tokens together


class SequenceScores(NamedTuple):
    """Of each token given all before it: (B, T), float32, 0 where not asked for."""

    logprobs: torch.Tensor  # log pi(y_t)
    entropy: torch.Tensor | None  # of the distribution the token was drawn from
    named: NamedTokens | None = None  # (B, T, K), other tokens in its place


def use_float32(model: Any) -> None:
    """Let a model in half precision make its logits in float32, when it samples and when it is trained alike.

    What the sampler and the trainer round differently is largest in the logits (ScaleRL, 2510.13786).

    Raises:
        ValueError: the output layer is not a plain linear one.
    """
    head: Any = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear:
        raise ValueError(f"model.float32_head: the output layer is a {type(head).__name__}, not a plain linear one")

    vars(head)["forward"] = MethodType(_forward_in_float32, head)  # bound, so that a copy of the model has its own


def _forward_in_float32(head: torch.nn.Linear, hidden: torch.Tensor) -> torch.Tensor:
    return F.linear(hidden.float(), head.weight.float(), None if head.bias is None else head.bias.float())


def uses_float32(head: torch.nn.Module) -> bool:
    """Whether `use_float32` was called for this output layer."""
    return "forward" in vars(head)


def score_logits(
    logits: torch.Tensor, targets: torch.Tensor, temperature: float, *, entropy: bool = False
) -> SequenceScores:
    """Log-probabilities of ``targets`` (N,) and entropies (N,) under softmax(logits (N, V) / temperature)."""
    logits = logits.float()  # [N, V]
    if temperature != 1.0:
        logits = logits / temperature
    if not entropy:
        # log pi(y) = z_y - log sum_j exp z_j                             [N]
        return SequenceScores(-F.cross_entropy(logits, targets, reduction="none"), None)
    logprobs = logits.log_softmax(-1)  # [N, V]
    # H = -sum_j p_j log p_j                                          [N]
    entropies = -(logprobs.exp() * logprobs).sum(-1)
    return SequenceScores(logprobs.gather(-1, targets[:, None])[:, 0], entropies)


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    temperature: float,
    *,
    entropy: bool = False,
    logprob_grads: torch.Tensor | LogprobGradsOf | None = None,
    in_float32: bool = False,
    logits_at_once: int | None = None,
) -> SequenceScores:
    """`score_logits` of the logits ``hidden (N, H) @ weight (V, H).T + bias (V,)``, never all of them at once.

    Args:
        logprob_grads: (N,) d loss / d log pi(y), where it is known before the log-probabilities are, or what gives that
            of a token from its log-probability. Then the gradient is made in the forward pass, from the same logits,
            and the backward pass must ask for exactly this one.
        in_float32: the logits are made in float32 also where the model is in half precision.
        logits_at_once: numbers to hold at once; by default what suits the device.
    """
    limit = logits_at_once or (LOGITS_AT_ONCE if hidden.is_cuda else IN_CACHE)
    if hidden.shape[0] * weight.shape[0] <= limit:
        if in_float32:
            hidden, weight, bias = hidden.float(), weight.float(), None if bias is None else bias.float()
        return score_logits(F.linear(hidden, weight, bias), targets, temperature, entropy=entropy)
    if logprob_grads is not None and not entropy and weight.dtype == torch.float32:
        if not torch.is_grad_enabled():  # the same bits without the gradient, as a reference needs to be compared with
            hidden, weight, bias = hidden.detach(), weight.detach(), None if bias is None else bias.detach()
        chunks: Any = _ScoreChunks
        rows = _chunk_rows(weight, logits_at_once)
        of = logprob_grads if callable(logprob_grads) else partial(_chosen, logprob_grads)
        return SequenceScores(chunks.apply(hidden, weight, bias, targets, temperature, rows, of), None)
    width = max(1, limit // max(hidden.shape))  # nor a block of the weight larger than that
    blocks: Any = _ScoreBlocks
    logprobs, entropies = blocks.apply(hidden, weight, bias, targets, temperature, width, entropy, in_float32)
    return SequenceScores(logprobs.float(), entropies.float() if entropy else None)


def score_named(
    logits_of: Callable[[slice], torch.Tensor], count: int, vocabulary: int, ids: torch.Tensor | None, top: int
) -> NamedTokens:
    """Log-probabilities (N, K + 1) of the tokens ``ids`` (N, K), or of the ``top`` likeliest, and of all others as one.

    The logits of some positions at a time are made, by ``logits_of`` them, and made again in the backward pass.
    """

    def part(chunk: slice) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs = logits_of(chunk).log_softmax(-1)  # [n, V]
        chosen = logprobs.topk(min(top, vocabulary), -1).indices if ids is None else ids[chunk]  # [n, K]
        rest = logprobs.scatter(-1, chosen, NO_MASS).logsumexp(-1, keepdim=True)  # [n, 1]
        return chosen, torch.cat([logprobs.gather(-1, chosen), rest], -1)

    chunks = _blocks(count, max(1, LOGITS_AT_ONCE // vocabulary)) or [slice(0, 0)]
    parts = [checkpoint(part, chunk, use_reentrant=False) for chunk in chunks]
    return NamedTokens(torch.cat([ids for ids, _ in parts]), torch.cat([logprobs for _, logprobs in parts]))


class _Logits:
    """Makes the logits of one block of the vocabulary after another, [N, v] float32, in the same memory.

    Memory that is fresh costs more than the arithmetic on it: the system clears each page. A CPU without
    instructions for half precision multiplies it at a tenth of the speed of float32, so there each block of the
    weight is widened first; the logits are rounded as the model's own are, unless they are wanted in float32.
    """

    def __init__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        temperature: float,
        width: int,
        in_float32: bool,
    ) -> None:
        half = hidden.dtype != torch.float32 and hidden.dtype != torch.float64
        self.widen = half and (in_float32 or not _multiplies(hidden))
        self.round = half and not in_float32
        self.hidden = hidden.float() if self.widen else hidden  # [N, H]
        self.weight, self.bias, self.temperature = weight, bias, temperature
        shape = len(hidden), min(width, len(weight))
        self.wide = torch.promote_types(hidden.dtype, torch.float32)
        self.made = torch.empty(shape, device=hidden.device, dtype=self.wide)  # [N, v]
        self.rounded = torch.empty(shape, device=hidden.device, dtype=hidden.dtype) if half else None
        self.spare: torch.Tensor | None = None

    def block(self, block: slice) -> torch.Tensor:
        """[v, H] of the weight, in the type that is multiplied in."""
        return self.weight[block].float() if self.widen else self.weight[block]

    def make(self, block: slice, weight: torch.Tensor) -> torch.Tensor:
        """[N, v] of a block, over those of the block before."""
        width = block.stop - block.start
        logits = _columns(self.made, width)
        into = logits if self.rounded is None or self.widen else _columns(self.rounded, width)
        if self.bias is None:
            torch.mm(self.hidden, weight.T, out=into)
        else:
            torch.addmm(self.bias[block].to(into.dtype), self.hidden, weight.T, out=into)
        if self.rounded is not None and self.round:
            rounded = _columns(self.rounded, width)
            if self.widen:
                rounded.copy_(logits)
            logits.copy_(rounded)
        return logits if self.temperature == 1.0 else logits.div_(self.temperature)

    def exponentials(self, logits: torch.Tensor) -> torch.Tensor:
        """[N, v] exp of logits, beside them."""
        if self.spare is None:
            self.spare = torch.empty_like(self.made)
        return torch.exp(logits, out=_columns(self.spare, logits.shape[1]))


class _ScoreBlocks(torch.autograd.Function):
    """Scores all tokens over one block of the vocabulary after another; the backward pass makes the logits again.

    Blocks of the vocabulary, not of the tokens: each weight is read once a pass and its gradient written once, rounded
    once, so a model in half precision needs no float32 copy of it. Cut cross-entropy, 2411.09009, does so on GPUs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        width: int,
        with_entropy: bool,
        in_float32: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        source = _Logits(hidden, weight, bias, temperature, width, in_float32)
        normaliser = torch.full(
            (len(hidden),), -torch.inf, device=hidden.device, dtype=source.wide
        )  # [N] of blocks so far
        chosen = torch.zeros_like(normaliser)  # [N] z_y
        entropy = torch.zeros_like(normaliser)  # [N] of the blocks so far
        for block in _blocks(len(weight), width):
            logits = source.make(block, source.block(block))  # [N, v]
            index, inside = _targets_in(block, targets)
            chosen = torch.where(inside, logits.gather(1, index)[:, 0], chosen)
            top = logits.amax(-1, keepdim=True).clamp_(min=torch.finfo(logits.dtype).min)  # [N, 1]
            logits.sub_(top)
            powers = source.exponentials(logits) if with_entropy else logits.exp_()  # [N, v]
            total = powers.sum(-1)  # [N]
            part = total.log() + top[:, 0]  # [N] log Z of the block
            before, normaliser = normaliser, torch.logaddexp(normaliser, part)
            if with_entropy:
                # H = log sum_j e^z_j - sum_j z_j e^z_j / sum_j e^z_j within the block     [N]
                entropies = total.log() - powers.mul_(logits).sum(-1) / total
                # H of two sets of weight_block = sum_i w_i (H_i - log w_i), w_i = Z_i / Z     [N]
                old_share, share = torch.exp(before - normaliser), torch.exp(part - normaliser)
                entropy = old_share * entropy + share * entropies
                entropy -= torch.xlogy(old_share, old_share) + torch.xlogy(share, share)
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropy if with_entropy else None)
        ctx.settings = temperature, width, in_float32
        # log pi(y) = z_y - log Z                                            [N]
        return chosen - normaliser, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_logprobs, to_entropy = gradients  # [N] each
        hidden, weight, bias, targets, normaliser, entropy = ctx.saved_tensors
        temperature, width, in_float32 = ctx.settings
        need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
        source = _Logits(hidden, weight, bias, temperature, width, in_float32)
        # sums over blocks in float32, also when the model is in half precision               [N, H]
        d_hidden = torch.zeros_like(hidden, dtype=source.wide) if need_hidden else None
        d_weight = torch.empty_like(weight) if need_weight else None  # [V, H]
        d_bias = torch.empty_like(bias) if need_bias else None  # [V]
        for block in _blocks(len(weight), width):
            weight_block = source.block(block)  # [v, H]
            slope = source.make(block, weight_block).sub_(normaliser[:, None])  # [N, v] log p_j
            if entropy is None:
                # d log pi(y) / dz_j = [j = y] - p_j                         [N, v]
                slope.exp_().mul_(-to_logprobs[:, None])
            else:
                # d H / dz_j = -p_j (log p_j + H)                            [N, v]
                powers = source.exponentials(slope)
                slope.add_(entropy[:, None]).mul_(to_entropy[:, None]).add_(to_logprobs[:, None])
                slope.mul_(powers).neg_()
            index, inside = _targets_in(block, targets)
            slope.scatter_add_(1, index, torch.where(inside, to_logprobs, 0)[:, None])
            if temperature != 1.0:
                slope.div_(temperature)
            slope = slope.to(source.hidden.dtype)
            if d_hidden is not None:
                _add_product(d_hidden, slope, weight_block)
            if d_weight is not None:
                if source.widen:
                    d_weight[block] = slope.T @ source.hidden  # [v, H], rounded once
                else:
                    torch.mm(slope.T, hidden, out=d_weight[block])
            if d_bias is not None:
                d_bias[block] = slope.sum(0)  # [v]
        done = None if d_hidden is None else d_hidden.to(hidden.dtype)
        return done, d_weight, d_bias, None, None, None, None, None


class _ScoreChunks(torch.autograd.Function):
    """Scores some tokens after others over the whole vocabulary, and makes the gradient at once, from the same logits.

    For a loss whose slope at a token's log-probability follows from that alone: three products with the weight
    instead of four. In float32 alone: the weight's gradient is added up over the chunks.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        rows: int,
        logprob_grads_of: LogprobGradsOf,
    ) -> torch.Tensor:
        need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
        d_hidden = torch.empty_like(hidden) if need_hidden else None  # [N, H]
        d_weight = torch.empty_like(weight) if need_weight else None  # [V, H]
        d_bias = torch.zeros_like(bias) if need_bias and bias is not None else None  # [V]
        logprobs = torch.empty(len(hidden), device=hidden.device, dtype=hidden.dtype)  # [N]
        logprob_grads = torch.empty_like(logprobs)  # [N]
        buffer = torch.empty(min(rows, len(hidden)), len(weight), device=hidden.device, dtype=hidden.dtype)  # [n, V]
        for chunk in _blocks(len(hidden), rows):
            states, ids = hidden[chunk], targets[chunk, None]  # [n, H], [n, 1]
            logits = buffer[: len(states)]
            torch.mm(states, weight.T, out=logits)
            total = torch.empty_like(states[:, :1])  # [n, 1]
            few = len(states) if states.is_cuda else max(1, IN_CORE // len(weight))
            for part in _blocks(len(states), few):
                if bias is not None:
                    logits[part].add_(bias)
                if temperature != 1.0:
                    logits[part].div_(temperature)
                top = logits[part].amax(-1, keepdim=True)  # [m, 1]
                chosen = logits[part].gather(1, ids[part]) - top
                torch.sum(logits[part].sub_(top).exp_(), -1, keepdim=True, out=total[part])
                logprobs[chunk][part] = (chosen - total[part].log())[:, 0]
            if not any(ctx.needs_input_grad):
                continue
            logprob_grads[chunk] = logprob_grads_of(logprobs[chunk], chunk)
            to = logprob_grads[chunk, None]  # [n, 1]
            # dL / dz_j = c_t ([j = y_t] - p_j) / temperature                  [n, V]
            to = to / temperature
            slope = logits.mul_(-to / total).scatter_add_(1, ids, to)
            if d_hidden is not None:
                torch.mm(slope, weight, out=d_hidden[chunk])
            if d_weight is not None and chunk.start == 0:
                torch.mm(slope.T, states, out=d_weight)
            elif d_weight is not None:
                d_weight.addmm_(slope.T, states)
            if d_bias is not None:
                d_bias += slope.sum(0)
        ctx.save_for_backward(logprob_grads)
        ctx.gradients = d_hidden, d_weight, d_bias
        return logprobs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (logprob_grads,) = ctx.saved_tensors
        asked: torch.Tensor = gradients[0]
        if asked.isfinite().all() and not torch.allclose(
            asked, logprob_grads, rtol=1e-4, atol=1e-6 * float(logprob_grads.abs().max())
        ):
            raise RuntimeError("the loss asks for another gradient than the one that was made in the forward pass")
        results, ctx.gradients = ctx.gradients, None
        return (*results, None, None, None, None)


def _chunk_rows(weight: torch.Tensor, logits_at_once: int | None) -> int:
    """Tokens of a chunk: few enough for the caches, enough for each to be worth a pass over the weight's gradient."""
    limit = (logits_at_once or LOGITS_AT_ONCE) // len(weight)
    if logits_at_once is None and not weight.is_cuda:
        limit = min(limit, max(128, 2 * IN_CACHE // len(weight)))
    return max(64, limit)


def _chosen(logprob_grads: torch.Tensor, _: torch.Tensor, which: slice) -> torch.Tensor:
    return logprob_grads[which]


def _multiplies(hidden: torch.Tensor) -> bool:
    """Whether the device has instructions for products in half precision."""
    if hidden.device.type != "cpu":
        return True
    names = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return hidden.dtype == torch.bfloat16 and any(getattr(torch.cpu, name, bool)() for name in names)


def _columns(memory: torch.Tensor, width: int) -> torch.Tensor:
    """[N, width] of contiguous memory that was made for [N, more]."""
    return memory.view(-1)[: len(memory) * width].view(len(memory), width)


def _targets_in(block: slice, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[N, 1] the column of each target in a block, 0 where it is in another; [N] bool whether it is in this one."""
    inside = (targets >= block.start) & (targets < block.stop)
    return torch.where(inside, targets - block.start, 0)[:, None], inside


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _blocks(count: int, width: int) -> list[slice]:
    return [slice(start, min(start + width, count)) for start in range(0, count, width)]
