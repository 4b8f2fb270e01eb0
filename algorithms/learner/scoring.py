"""Log-probabilities of whole sequences in one forward pass, as the learner differentiates them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional as F
from transformers.cache_utils import Cache, DynamicLayer

from rlvr.algorithms.learner.batch import spares_enough
from rlvr.algorithms.learner.head import LogprobGradsOf, SequenceScores, score_hidden, score_logits, uses_float32
from rlvr.algorithms.learner.memory import is_out_of_memory, recomputed_layers

# [B, T] d loss / d log pi of each token from [B, T] log pi, where it depends on no other token's.
LogprobGradsAt = Callable[[torch.Tensor], torch.Tensor]
LogprobGrads = torch.Tensor | LogprobGradsAt


class Scorer(nn.Module):
    """A model's body and its output layer in one forward pass: `score_sequences` as a module, which FSDP can wrap.

    With ``share_prompts`` a prompt that several sequences begin with goes through the model once, where its attention
    allows that and it spares a tenth of the tokens. Passes run inside of the blocks that ``around`` make.
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
        if len(rows) == len(ids):
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
        logprob_grads: (B, T), d loss / d log pi of each token, where it is known before, or a function that gives it
            from the log-probabilities (B, T), 0 where they are not known yet; see `score_hidden`.
        share_prompts: compute what several rows have before their first wanted token once, where that is less work and
            the model allows it (`can_share_prompts`).

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
    prompts = _shared_prompts(context, wanted) if share_prompts and can_share_prompts(core) else None
    with recomputed_layers(core) if recompute and torch.is_grad_enabled() else nullcontext():
        body: Any = core.base_model if plain else model
        if prompts is None:
            asked, output = wanted, body(input_ids=context, use_cache=False)
        else:
            asked, output = prompts.wanted, prompts.forward(core.base_model, body)
    if plain:
        head = core.get_output_embeddings()
        hidden = output.last_hidden_state[asked]  # [N, H], of wanted tokens alone
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
        scores = score_logits(output.logits[asked], targets, temperature, entropy=entropy)  # logits [N, V]
    entropies = None if scores.entropy is None else _spread(scores.entropy, wanted)
    return SequenceScores(_spread(scores.logprobs, wanted), entropies)


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
    """Put scores (N,) where ``wanted`` (B, T - 1) is set, in columns 1 to T - 1 of zeros (B, T)."""
    columns = torch.zeros(wanted.shape, dtype=scores.dtype, device=scores.device)  # [B, T - 1]
    return F.pad(columns.masked_scatter(wanted, scores), (1, 0))  # [B, T], 0 for the first token


class _PromptKeys(DynamicLayer):
    """The keys and values of prompts [Q, heads, P, d] in one layer, noted as they pass."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # a layer that is computed again notes the same once more
        self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states


class _KeysOfPrompts(DynamicLayer):
    """Sets the keys and values of each row's prompt before its own, [R, heads, P + C, d], with gradient, and keeps
    nothing: so a layer can be computed again."""

    def __init__(self, prompts: Any, prompt_of: torch.Tensor) -> None:
        super().__init__()
        self.before: tuple[torch.Tensor, torch.Tensor] = (prompts.keys, prompts.values)
        self.keys, self.values, self.is_initialized = prompts.keys, prompts.values, True  # what masks are sized by
        self.prompt_of = prompt_of  # [R]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (states[self.prompt_of] for states in self.before)  # [R, heads, P, d]
        return torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2)


class _SharedPrompts(NamedTuple):
    """Rows cut in two: Q distinct prompts of up to P tokens, and what each of the R rows has after its own, up to C.

    The last token of a prompt belongs to what comes after it: the first completion token is asked of it.
    """

    prompts: torch.Tensor  # [Q, P] ids
    lengths: torch.Tensor  # [Q] of the prompts
    prompt_of: torch.Tensor  # [R]
    rest: torch.Tensor  # [R, C] ids
    wanted: torch.Tensor  # [R, C] bool
    width: int  # tokens of the longest row

    def forward(self, body: Any, whole: Any) -> Any:
        """The output of ``whole`` for the rest, after a pass of ``body`` over the prompts."""
        noted = Cache(layer_class_to_replicate=_PromptKeys)
        body(input_ids=self.prompts, past_key_values=noted, use_cache=True)
        lengths = self.lengths[self.prompt_of]  # [R]
        columns = torch.arange(self.prompts.shape[1], device=lengths.device)
        attended = torch.cat(
            [columns < lengths[:, None], torch.ones_like(self.rest, dtype=torch.bool)], 1
        )  # [R, P + C]
        positions = lengths[:, None] + torch.arange(self.rest.shape[1], device=lengths.device)  # [R, C]
        return whole(
            input_ids=self.rest,
            attention_mask=attended.long(),
            position_ids=positions.clamp(max=self.width - 1),  # padding alone lies beyond, where a table may end
            past_key_values=Cache(layers=[_KeysOfPrompts(layer, self.prompt_of) for layer in noted.layers]),
            use_cache=True,
        )


def _shared_prompts(context: torch.Tensor, wanted: torch.Tensor, always: bool = False) -> _SharedPrompts | None:
    """Rows (B, T - 1) cut into prompts and the rest; None if that spares too few tokens, unless ``always``."""
    rows, width = context.shape
    starts = torch.where(wanted.any(1), wanted.long().argmax(1), 0)  # [R] the prompt's last token
    ids = context.cpu().numpy()
    numbers: dict[bytes, int] = {}
    prompt_of = [
        numbers.setdefault(ids[row, :start].tobytes(), len(numbers)) for row, start in enumerate(starts.tolist())
    ]
    first = {prompt: row for row, prompt in reversed(list(enumerate(prompt_of)))}
    chosen = torch.tensor([first[prompt] for prompt in range(len(numbers))], device=context.device)  # [Q]
    columns = starts[:, None] + torch.arange(width, device=context.device)  # [R, T - 1]
    inside = columns < width
    columns = columns.clamp(max=width - 1)
    wanted_rest = wanted.gather(1, columns) & inside
    longest = int(starts.max())  # P
    kept = int(wanted_rest.any(0).nonzero().max()) + 1 if wanted_rest.any() else 1  # C
    if not (always or spares_enough(len(numbers), longest, rows, kept, width)):
        return None
    return _SharedPrompts(
        context[chosen, :longest],
        starts[chosen],
        torch.tensor(prompt_of, device=context.device),
        context.gather(1, columns[:, :kept]),
        wanted_rest[:, :kept],
        width,
    )


_sharing: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


def can_share_prompts(model: Any) -> bool:
    """Whether a token of the model attends to all before it through keys and values alone, so that the prompt's may
    come from another pass; see `why_not_shared`."""
    return not why_not_shared(model)


def why_not_shared(model: Any) -> str:
    """Why prompts are not shared in this model; "" where they are.

    Tried once for each model, on two prompts of two samples each, of tokens from all over the vocabulary. The trial is
    in float32, whatever the weights are in: the rounding of half precision would hide a wrong result.
    """
    if model not in _sharing:
        _sharing[model] = _limited_attention(model.config) or _try_sharing(model)
    return _sharing[model]


def _limited_attention(config: Any) -> str:
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"]) - {"full_attention"}
    if kinds:
        return f"layers of the model have {' and '.join(sorted(kinds))}"
    for name in ("sliding_window", "window_size", "attention_window", "attention_chunk_size"):
        if getattr(config, name, None):
            return f"the model attends within a window ({name} {getattr(config, name)})"
    # rotations that depend on the longest row of a pass would differ between two passes
    kind = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
    return f"the rotations of the model depend on the length ({kind})" if kind in ("dynamic", "longrope") else ""


def _try_sharing(model: Any) -> str:
    training = model.training
    model.eval()
    try:
        # A result that is wrong is so for all tokens. Rounding is large for some: control tokens, and rows of the
        # embedding that nobody trained.
        vocabulary = model.get_input_embeddings().weight.shape[0]
        if any(_shares(model, [vocabulary * (k + n) // 11 for k in range(1, 8)]) for n in range(3)):
            return ""
        return "the model gives other results after keys and values of another pass"
    except Exception as error:  # a model without such a cache fails in its own way
        if is_out_of_memory(error):
            raise
        reason = (str(error).strip().splitlines() or [""])[0]
        return f"the model takes no keys and values of another pass ({type(error).__name__}: {reason})"
    finally:
        model.train(training)


def _shares(model: Any, tokens: Sequence[int]) -> bool:
    """Whether two prompts of these tokens [7], with two samples each, give what whole sequences give."""
    device = next(model.parameters()).device
    order = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 6, 5], [2, 1, 4, 3, 0, 5, 6], [2, 1, 3, 4, 0, 6, 5]])
    wanted = torch.tensor([[0, 0, 0, 0, 1, 1, 1]] * 2 + [[0, 1, 1, 1, 1, 1, 1]] * 2).bool()
    ids, wanted = torch.tensor(tokens)[order].to(device), wanted.to(device)
    shared = _shared_prompts(ids, wanted, always=True)
    assert shared is not None  # for the type checker
    with torch.no_grad():
        for way in (_in_float32(model.base_model), nullcontext()):  # then as it is: it may fail in its own type
            with way:
                whole = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[wanted]
                parts = shared.forward(model.base_model, model.base_model).last_hidden_state[shared.wanted]
            if not (whole - parts).abs().max() <= 100 * torch.finfo(whole.dtype).eps * whole.abs().max():
                return False
    return True


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
