"""Log-probabilities of whole sequences in one forward pass, as the learner differentiates them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional as F

from rlvr.algorithms.learner.head import (
    LogprobGradsOf,
    NamedTokens,
    SequenceScores,
    score_hidden,
    score_logits,
    score_named,
    uses_float32,
)
from rlvr.algorithms.learner.memory import is_out_of_memory, recomputed_layers
from rlvr.algorithms.learner.packing import Packing, attending, noting_windows, pack, takes_blocks

# [B, T] d loss / d log pi of each token from [B, T] log pi, where it depends on no other token's.
LogprobGradsAt = Callable[[torch.Tensor], torch.Tensor]
LogprobGrads = torch.Tensor | LogprobGradsAt


class Scorer(nn.Module):
    """A model's body and its output layer in one forward pass: `score_sequences` as a module, which FSDP can wrap.

    Sequences are packed without padding where the model allows it (`why_not_packed`). With ``share_prompts`` a prompt
    that several of them begin with then goes through the model once. Passes run inside of the blocks that ``around``
    make.
    """

    def __init__(
        self, model: Any, share_prompts: bool = False, around: Sequence[Callable[[], AbstractContextManager[None]]] = ()
    ) -> None:
        super().__init__()
        self.model = model
        self.share_prompts = share_prompts
        self.around = around

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None = None,
        temperature: float = 1.0,
        *,
        logprob_grads: LogprobGrads | None = None,
        **options: Any,
    ) -> SequenceScores:
        """`score_sequences` of the model, with each distinct sequence in it once: small games repeat theirs."""
        with ExitStack() as blocks:
            for block in self.around:
                blocks.enter_context(block())
            return self._forward(ids, mask, temperature, logprob_grads, options)

    def _forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None,
        temperature: float,
        logprob_grads: LogprobGrads | None,
        options: dict[str, Any],
    ) -> SequenceScores:
        options["share_prompts"] = self.share_prompts
        rows, row_of = _distinct_rows(ids, mask)  # [D], [B]
        if len(rows) == len(ids) or options.get("named") is not None or options.get("top"):
            return score_sequences(self.model, ids, mask, temperature, logprob_grads=logprob_grads, **options)
        chosen = None if mask is None else mask[rows]  # [D, T]
        summed = None if logprob_grads is None else _summed(logprob_grads, len(rows), row_of)
        scores = score_sequences(self.model, ids[rows], chosen, temperature, logprob_grads=summed, **options)
        return SequenceScores(scores.logprobs[row_of], None if scores.entropy is None else scores.entropy[row_of])


def _summed(logprob_grads: LogprobGrads, rows: int, row_of: torch.Tensor) -> LogprobGrads:
    """Those of D distinct rows. log pi of equal rows is one number: d loss / d log pi of it is the sum over them."""
    if callable(logprob_grads):
        return lambda logprobs: _sum_rows(logprob_grads(logprobs[row_of]), rows, row_of)
    return _sum_rows(logprob_grads, rows, row_of)


def _sum_rows(logprob_grads: torch.Tensor, rows: int, row_of: torch.Tensor) -> torch.Tensor:
    # s_d = sum_{b : row_of[b] = d} s_b     [B, T] -> [D, T]
    return logprob_grads.new_zeros(rows, logprob_grads.shape[1]).index_add_(0, row_of, logprob_grads)


def _distinct_rows(ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row [D] of each distinct sequence and mask, and which of these each row [B] equals."""
    whole = ids if mask is None else torch.cat([ids, mask.to(ids.dtype)], 1)  # [B, T] or [B, 2T]
    numbers: dict[bytes, int] = {}
    row_of = [numbers.setdefault(row.tobytes(), len(numbers)) for row in whole.cpu().numpy()]
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
    logprob_grads: LogprobGrads | None = None,
    share_prompts: bool = False,
    named: torch.Tensor | None = None,
    top: int = 0,
) -> SequenceScores:
    """Log-probabilities of whole sequences in one forward pass, and entropies and other tokens' on request.

    Entry [:, t] is about the token ids[:, t] given ids[:, :t]; entry [:, 0] is 0, as nothing comes before it.
    Rows are packed where the model allows it (`why_not_packed`): neither padding nor what follows the last wanted token
    is computed. Results carry gradients unless those are disabled. Logits are made only where the mask asks, and, where
    they would not fit at once, a piece at a time and again in the backward pass: memory stays bounded however large the
    vocabulary is. A model that scales or caps its logits is asked for all of them instead.

    Args:
        model: a transformers causal language model, in the mode (training or evaluation) you want.
        ids: (B, T), each row's tokens from column 0 on, padded on the right with any token. Attention is
            causal, so no real token ever sees the padding.
        mask: (B, T), not 0 where a result is wanted, such as the loss mask; None asks for all.
        temperature: logits are divided by it, as in sampling.
        entropy: whether to give entropies, too.
        recompute: keep the inputs of the layers alone for the backward pass, which computes the layers again.
        logprob_grads: (B, T), d loss / d log pi of each token, where it is known before, or a function that gives it
            from the log-probabilities (B, T), 0 where they are not known yet; see `score_hidden`.
        share_prompts: compute what several rows have before their first wanted token once, where the model allows it.
        named: (B, T, K) ids of tokens whose log-probabilities are asked for, too.
        top: ask for those of so many likeliest tokens instead.

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
    core = base_model(model)
    plain = has_plain_head(core, ids[:1, :4])
    packing = None if why_not_packed(core) else pack(context, wanted, share_prompts and takes_blocks(core.config))
    body: Any = core.base_model if plain else model
    around = attending(core.config, packing)
    with recomputed_layers(core, around) if recompute and torch.is_grad_enabled() else nullcontext():
        output = _packed(body, packing, around) if packing else body(input_ids=context, use_cache=False)
    if plain:
        head = core.get_output_embeddings()
        hidden = _wanted_of(output.last_hidden_state, wanted, packing)  # [N, H]
        wanted_grads = None if logprob_grads is None else _of_wanted(logprob_grads, wanted)
        wide = uses_float32(head)
        scores = score_hidden(
            hidden,
            head.weight,
            head.bias,
            targets,
            temperature,
            entropy=entropy,
            logprob_grads=wanted_grads,
            in_float32=wide,
        )
    else:
        logits = _wanted_of(output.logits, wanted, packing)  # [N, V]
        scores = score_logits(logits, targets, temperature, entropy=entropy)
    entropies = None if scores.entropy is None else _spread(scores.entropy, wanted)
    if named is None and not top:
        return SequenceScores(_spread(scores.logprobs, wanted), entropies)

    def logits_of(chunk: slice) -> torch.Tensor:
        if not plain:
            return logits[chunk].float() / temperature
        parts = hidden[chunk], head.weight, head.bias
        made = F.linear(*((part if part is None else part.float()) for part in parts) if wide else parts)  # [n, V]
        return made.float() / temperature

    width = head.weight.shape[0] if plain else logits.shape[-1]
    others = score_named(logits_of, len(targets), width, None if named is None else named[:, 1:][wanted], top)
    spread = NamedTokens(_spread(others.ids, wanted), _spread(others.logprobs, wanted))
    return SequenceScores(_spread(scores.logprobs, wanted), entropies, spread)


def _packed(body: Any, packing: Packing, around: Callable[[], AbstractContextManager[None]]) -> Any:
    with around():
        return body(input_ids=packing.ids, position_ids=packing.positions, use_cache=False)


def _wanted_of(outputs: torch.Tensor, wanted: torch.Tensor, packing: Packing | None) -> torch.Tensor:
    """Outputs (B, T - 1, D), or packed ones (1, N, D), of the tokens that are set in ``wanted``."""
    return outputs[wanted] if packing is None else outputs[0].index_select(0, packing.wanted)


def _of_wanted(logprob_grads: LogprobGrads, wanted: torch.Tensor) -> torch.Tensor | LogprobGradsOf:
    """The gradients of the N tokens that are set in ``wanted`` (B, T - 1)."""
    if not callable(logprob_grads):
        return logprob_grads[:, 1:][wanted]  # [N]

    def of(logprobs: torch.Tensor, which: slice) -> torch.Tensor:
        columns = logprobs.new_zeros(int(wanted.sum()))  # [N]
        columns[which] = logprobs
        return logprob_grads(_spread(columns, wanted))[:, 1:][wanted][which]

    return of


def base_model(model: Any) -> Any:
    """The causal language model itself, under an adapter of peft."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _spread(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Put scores (N, ...) where ``wanted`` (B, T - 1) is set, in columns 1 to T - 1 of zeros (B, T, ...)."""
    columns = scores.new_zeros(*wanted.shape, *scores.shape[1:])  # [B, T - 1, ...]
    where = wanted.reshape(*wanted.shape, *(1 for _ in scores.shape[1:]))
    filled = columns.masked_scatter(where, scores)
    return torch.cat([torch.zeros_like(filled[:, :1]), filled], 1)  # [B, T, ...], 0 for the first token


_packing: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


def why_not_shared(model: Any) -> str:
    """Why prompts are not shared in this model; "" where they are."""
    kernel = str(model.config._attn_implementation)
    return why_not_packed(model) or ("" if takes_blocks(model.config) else f"attention is {kernel}, take sdpa or flash")


def why_not_packed(model: Any) -> str:
    """Why sequences are not packed for this model; "" where they are.

    Tried once for each model, on two prompts of two samples each, of tokens from all over the vocabulary. The trial is
    in float32, whatever the weights are in: the rounding of half precision would hide a wrong result.
    """
    if model not in _packing:
        _packing[model] = _limited_attention(model.config) or _try_packing(model)
    return _packing[model]


def _limited_attention(config: Any) -> str:
    kinds = set(getattr(config, "layer_types", None) or []) - {"full_attention", "sliding_attention"}
    if kinds:
        return f"layers of the model have {' and '.join(sorted(kinds))}"
    for name in ("window_size", "attention_window", "attention_chunk_size"):
        if getattr(config, name, None):
            return f"the model attends within a window ({name} {getattr(config, name)})"
    # rotations that depend on the longest row of a pass would differ between two passes
    kind = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
    return f"the rotations of the model depend on the length ({kind})" if kind in ("dynamic", "longrope") else ""


def _try_packing(model: Any) -> str:
    training = model.training
    model.eval()
    try:
        # A result that is wrong is so for all tokens. Rounding is large for some: control tokens, and rows of the
        # embedding that nobody trained.
        vocabulary = model.get_input_embeddings().weight.shape[0]
        with noting_windows() as windows:
            right = any(_packs(model, [vocabulary * (k + n) // 11 for k in range(1, 8)]) for n in range(3))
        if right and takes_blocks(model.config) and not _windows_agree(model.config, windows):
            return "the model attends within a window that its attention is not told of"
        return "" if right else "the model gives other results for packed sequences"
    except Exception as error:  # a model that takes no positions fails in its own way
        if is_out_of_memory(error):
            raise
        reason = (str(error).strip().splitlines() or [""])[0]
        return f"the model cannot be given packed sequences ({type(error).__name__}: {reason})"
    finally:
        model.train(training)


def _windows_agree(config: Any, windows: Sequence[int | None]) -> bool:
    """Whether the layers of a packed pass were told of the windows that the configuration names."""
    window, kinds = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    layers = config.num_hidden_layers
    expected = [window if kind == "sliding_attention" else None for kind in kinds or ["sliding_attention"] * layers]
    return [*windows[:layers]] == expected


def _packs(model: Any, tokens: Sequence[int]) -> bool:
    """Whether two prompts of these tokens [7], with two samples each, give what padded sequences give."""
    device = next(model.parameters()).device
    order = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 6, 5], [2, 1, 4, 3, 0, 5, 6], [2, 1, 3, 4, 0, 6, 5]])
    wanted = torch.tensor([[0, 0, 0, 0, 1, 1, 1]] * 2 + [[0, 1, 1, 1, 1, 1, 0]] * 2).bool()
    ids, wanted = torch.tensor(tokens)[order].to(device), wanted.to(device)
    packing = pack(ids, wanted, takes_blocks(model.config))
    with torch.no_grad():
        # then as it is: it may fail in its own type, or with its own kernel
        for way, kernel in (
            (_in_float32(model.base_model), _in_any_type(model.config)),
            (nullcontext(), nullcontext()),
        ):
            with way, kernel:
                whole = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[wanted]
                output = _packed(model.base_model, packing, attending(model.config, packing))
            parts = output.last_hidden_state[0].index_select(0, packing.wanted)
            if not (whole - parts).abs().max() <= 100 * torch.finfo(whole.dtype).eps * whole.abs().max():
                return False
    return True


@contextmanager
def _in_any_type(config: Any) -> Iterator[None]:
    """A model of this configuration attends with sdpa in this block if its own kernel takes half precision alone."""
    kernel = config._attn_implementation
    if kernel.startswith("flash"):
        config._attn_implementation = "sdpa"
    try:
        yield
    finally:
        config._attn_implementation = kernel


@contextmanager
def _in_float32(model: nn.Module) -> Iterator[None]:
    """Passes in this block compute with weights in float32: those of a layer while it runs, the others throughout.

    So no more is held twice than one layer and what belongs to none.
    """
    kept: dict[torch.Tensor, torch.Tensor] = {}

    def widen(tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            if tensor.dtype in (torch.float16, torch.bfloat16):
                kept[tensor] = tensor.data
                tensor.data = tensor.data.float()

    def narrow(tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            if tensor in kept:
                tensor.data = kept.pop(tensor)

    layers = [layer for module in model.modules() if isinstance(module, nn.ModuleList) for layer in module]
    inside = {part for layer in layers for part in layer.modules() if part is not layer}
    layers = [layer for layer in layers if layer not in inside]  # an expert is a part of its layer
    of_layers = {tensor for layer in layers for tensor in _tensors(layer)}
    hooks = [layer.register_forward_pre_hook(lambda layer, *_: widen(_tensors(layer))) for layer in layers]
    hooks += [layer.register_forward_hook(lambda layer, *_: narrow(_tensors(layer))) for layer in layers]
    try:
        widen(tensor for tensor in _tensors(model) if tensor not in of_layers)
        yield
    finally:
        for hook in hooks:
            hook.remove()
        narrow(list(kept))


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    return chain(module.parameters(), module.buffers())


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
    captured: list[torch.Tensor] = []

    def blow_up(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        captured.extend((inputs[0], output * 1000.0))
        return captured[-1]

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
    if len(captured) != 2:  # the head was called twice, or not at all
        return False
    near = [torch.allclose(a.float(), b.float(), rtol=1e-4) for a, b in ((captured[0], hidden), (captured[1], logits))]
    return all(near)
