"""A policy from transformers: samples a batch of replies, with exact token ids and log-probabilities.

Every sampled token comes from one uniform number that belongs to (agent seed, conversation, position), so an
episode is the same whatever else is in the batch (up to the rounding of the model's own arithmetic).

Each sequence has a slot, all slots advance by one token a step, and one whose sequence has ended is given the next
prompt: continuous batching. Where the layers of the model are plain attention, the cache is written in place, each
sequence at its own length (`SlotLayer`). Other models get the library's cache, padding on the left, and one batch after
another. On a GPU a step has static shapes and is a CUDA graph: the kernels of all layers are started at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.models.tiny import MISSING_EXTRA
from rlvr.agents.models.token_agent import Continuation, Draft, Sampled, TokenAgent, check_sampling

try:
    import torch
    from transformers.cache_utils import Cache

    from rlvr.agents.models.sampling import (
        GROUPED,
        LOGITS_AT_ONCE,
        SlotLayer,
        SlotLengths,
        choose_tokens,
        lean_attention,
        prompt_cache,
        uniforms,
    )
except ImportError as error:
    raise ImportError(MISSING_EXTRA) from error

# Columns a cache has at first beyond the prompt: most replies are short, and it doubles when they are not.
FIRST_COLUMNS = 64
# Slots are given the next prompts once this share of them has finished: a pass over prompts costs as much as a step.
REFILL_SHARE = 1 / 16
# Where no prompt waits, finished sequences are dropped, which copies the cache, once they are this share.
FINISHED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: logits are divided by ``temperature``, then cut to the likeliest (`choose_tokens`).

    Raises:
        ValueError: a number out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    greedy: bool = False

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_p, self.top_k)

    def choose(self, logits: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens (B,) and their log-probabilities (B,) for logits (B, V) and noise (B,)."""
        return choose_tokens(
            logits,
            noise,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            greedy=self.greedy,
        )


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    noise: Sequence[np.ndarray],
    end_ids: Iterable[int],
    sampling: Sampling,
    slots: int | None = None,
) -> list[Sampled]:
    """Sample a continuation of each prompt: its tokens, the end token included, and their log-probabilities.

    Args:
        model: a transformers causal language model; afterwards its mode is as it was.
        prompts: B lists of token ids, none empty.
        limits: of each sequence, the most tokens to sample, at least 1.
        noise: of each sequence, uniform numbers in [0, 1), float64, one for each token up to its limit; unused when
            greedy.
        end_ids: tokens that end a continuation.
        sampling: how to draw.
        slots: how many are sampled at once; the others wait, the longest prompt first. None: all of them.

    Raises:
        ValueError: the model does not use the cache it is given.
        FloatingPointError: the model's logits are NaN or infinite.
    """
    each = sample_each(model, prompts, limits, noise, end_ids, sampling, slots)
    ended = dict(each)
    return [ended[index] for index in range(len(limits))]


def sample_each(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    noise: Sequence[np.ndarray],
    end_ids: Iterable[int],
    sampling: Sampling,
    slots: int | None = None,
) -> Iterator[tuple[int, Sampled]]:
    """`sample`, but each continuation as soon as it has ended, with the index of its prompt.

    Between two of them the model is in its own mode, and may be used otherwise, but not changed.
    """
    with _sampling_mode(model):
        decoding = _Decoding(model, prompts, limits, noise, end_ids, sampling, slots)
    while True:
        with _sampling_mode(model):
            ended = decoding.advance()
        if not ended:
            return
        yield from ended


@contextmanager
def _sampling_mode(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(), lean_attention(model.config):
            yield
    finally:
        model.train(training)


class _Decoding:
    """One token a step in every slot, until each sequence has met an end token or its limit."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        noise: Sequence[np.ndarray],
        end_ids: Iterable[int],
        sampling: Sampling,
        slots: int | None,
    ) -> None:
        count, longest = len(limits), max(limits)
        self._sampling, self._prompts = sampling, prompts
        # the longest first: like lengths together, so that few columns of a step are masked
        self._waiting = deque(sorted(range(count), key=lambda i: -len(prompts[i])))
        self._slots = min(slots or count, count)
        self._batch: _Slots | _LeftPadded = batch_of(model, self._slots, longest)
        device = self._device = self._batch.device
        numbers = np.zeros((count, longest))
        for index, values in enumerate(noise):
            numbers[index, : len(values)] = values
        self._uniform = torch.from_numpy(numbers).to(device)
        self._stops = torch.tensor(sorted({*end_ids}), dtype=torch.long, device=device)
        self._last = torch.tensor(limits, device=device) - 1
        self._tokens = torch.zeros(count, longest, dtype=torch.long, device=device)
        self._logprobs = torch.zeros(count, longest, device=device)
        # of each slot in use: the prompt that it continues, tokens so far, and whether it has finished
        self._origin, self._step = torch.zeros(2, 0, dtype=torch.long, device=device)
        self._finished = torch.zeros(0, dtype=torch.bool, device=device)
        self._done = 0  # how many have finished

    def advance(self) -> list[tuple[int, Sampled]]:
        """Sample until at least one more has ended: those that then have, by index; none where all had before."""
        ended: list[tuple[int, Sampled]] = []
        while not ended:
            if self._waiting and self._done + self._slots - len(self._origin) >= max(1, REFILL_SHARE * self._slots):
                self._refill()
            if self._done == len(self._origin):
                break
            origin, step = self._origin, self._step
            chosen, scores = self._sampling.choose(self._batch.logits, self._uniform[origin, step])
            live = ~self._finished
            self._tokens[origin[live], step[live]] = chosen[live]
            self._logprobs[origin[live], step[live]] = scores[live]
            stopped = torch.isin(chosen, self._stops) | (self._last[origin] <= step)
            new = stopped & live
            if new.any():
                ended = self._ended(new)
                self._finished = self._finished | new
                self._done += len(ended)
            self._step = step + (~self._finished)
            if self._done < len(self._finished):
                self._next(chosen)
        return ended

    def _ended(self, new: torch.Tensor) -> list[tuple[int, Sampled]]:
        indices, lengths = self._origin[new].tolist(), (self._step[new] + 1).tolist()
        rows = zip(self._tokens[indices].tolist(), self._logprobs[indices].tolist(), strict=True)
        return [
            (index, (tokens[:length], logprobs[:length]))
            for index, length, (tokens, logprobs) in zip(indices, lengths, rows, strict=True)
        ]

    def _refill(self) -> None:
        """Give the slots that are free the next prompts."""
        if not self._batch.refills:
            if self._done < len(self._finished):
                return  # what has been dropped left room, but none joins before all have ended
            self._origin, self._step, self._finished = self._origin[:0], self._step[:0], self._finished[:0]
        free = self._finished.nonzero()[:, 0].tolist()
        used = len(self._origin)
        slots = [*free, *range(used, self._slots)][: len(self._waiting)]
        indices = [self._waiting.popleft() for _ in slots]
        self._batch.read(slots, [tuple(self._prompts[index]) for index in indices])
        more = max(0, max(slots) + 1 - used)
        self._origin, self._step, self._finished = (
            torch.cat([values, values.new_zeros(more)]) for values in (self._origin, self._step, self._finished)
        )
        at = torch.tensor(slots, device=self._device)
        self._origin[at] = torch.tensor(indices, device=self._device)
        self._step[at], self._finished[at] = 0, False
        self._done = int(self._finished.sum())

    def _next(self, chosen: torch.Tensor) -> None:
        """Drop what has finished, where it is worth it, and run the model on the tokens (B,) of this step."""
        waits = bool(self._waiting) and self._batch.refills
        if not waits and self._batch.worth_dropping(self._done, len(self._finished)):
            live = (~self._finished).nonzero()[:, 0]
            self._batch.keep(live)
            chosen, self._origin, self._step = chosen[live], self._origin[live], self._step[live]
            self._finished, self._done = torch.zeros_like(chosen, dtype=torch.bool), 0
        self._batch.step(chosen, ~self._finished)


def batch_of(model: Any, slots: int, limit: int) -> _Slots | _LeftPadded:
    """The slots of a model, or a batch for one whose layers are not plain attention."""
    in_place = prompt_cache(model.config)[1]
    return _Slots(model, slots, limit) if in_place else _LeftPadded(model, limit)


class _Batch:
    """The sequences being sampled, and the logits (B, V) of their next tokens.

    Equal prompts, such as those of a group, are run through the model once.
    """

    logits: torch.Tensor

    def __init__(self, model: Any, limit: int) -> None:
        self.model, self.limit = model, limit
        self.device = model.get_input_embeddings().weight.device
        self.lengths = torch.zeros(0, dtype=torch.long, device=self.device)

    def worth_dropping(self, done: int, count: int) -> bool:
        """Whether so many of so many that have finished are worth the copy."""
        return done >= FINISHED_SHARE * count

    def _padded(self, prompts: list[tuple[int, ...]], *, left: bool) -> torch.Tensor:
        """Prompts (B, T), filled up with some token that is never seen."""
        longest = max(map(len, prompts))
        fill = [prompt[:1] * (longest - len(prompt)) for prompt in prompts]
        padded = [[*pad, *prompt] if left else [*prompt, *pad] for prompt, pad in zip(prompts, fill, strict=True)]
        return torch.tensor(padded, device=self.device)

    def _forward(
        self,
        ids: torch.Tensor,
        cache: Any,
        positions: torch.Tensor | None,
        mask: torch.Tensor | None,
        keep: int | torch.Tensor = 1,
    ) -> torch.Tensor:
        """Logits (B, k, V) of the last column, or of those named by ``keep``."""
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        if getattr(out, "past_key_values", None) is None:
            raise ValueError(
                f"{type(self.model).__name__} does not use transformers' key-value cache, so it cannot be sampled "
                "from here: use a model with attention layers"
            )
        logits: torch.Tensor = out.logits
        return logits


class _Slots(_Batch):
    """Sequences in slots of a cache that is written in place, each at its own length."""

    refills = True

    def __init__(self, model: Any, slots: int, limit: int) -> None:
        super().__init__(model, limit)
        self.slots, self.capacity = slots, 0
        self.filled = SlotLengths(self.lengths)
        self.cache: Any = None
        # what a step has to be like on a GPU, where it is replayed: all columns, whatever holds
        self.static = self.device.type == "cuda"
        self.graphs: dict[int, _Graph] = {}

    def read(self, slots: Sequence[int], prompts: list[tuple[int, ...]]) -> None:
        """Begin these slots with these prompts."""
        at = torch.tensor(slots, device=self.device)
        if more := max(0, max(slots) + 1 - len(self.lengths)):
            self.lengths = torch.cat([self.lengths, self.lengths.new_zeros(more)])
        self.lengths[at] = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        for chunk in self._chunks([*dict.fromkeys(prompts)]):
            logits, cache = self._read(chunk)
            self._reserve(len(chunk[0]) + min(self.limit, FIRST_COLUMNS), cache)
            numbers = {prompt: number for number, prompt in enumerate(chunk)}
            members = [index for index, prompt in enumerate(prompts) if prompt in numbers]
            which = torch.tensor([numbers[prompts[index]] for index in members], device=self.device)
            for layer, states in zip(self.cache.layers, cache.layers, strict=True):
                layer.put(at[members], states.keys[which], states.values[which])
            self._set_logits(at[members], logits[which])

    def _set_logits(self, slots: torch.Tensor, logits: torch.Tensor) -> None:
        old = self.logits if hasattr(self, "logits") else logits[:0]
        new = logits.new_zeros(len(self.lengths), logits.shape[1])
        new[: len(old)] = old
        new[slots] = logits
        self.logits = new

    def _chunks(self, prompts: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        """Prompts, the longest first, that are read at once: logits are made at every length among them."""
        vocabulary = self.model.config.get_text_config().vocab_size
        chunk: list[tuple[int, ...]] = []
        for prompt in sorted(prompts, key=lambda ids: -len(ids)):
            lengths = {len(ids) for ids in (*chunk, prompt)}
            if chunk and len(lengths) > 1 and (len(chunk) + 1) * len(lengths) * vocabulary > LOGITS_AT_ONCE:
                yield chunk
                chunk = []
            chunk.append(prompt)
        yield chunk

    def step(self, tokens: torch.Tensor, live: torch.Tensor) -> None:
        """Append a token (B,) to each sequence; what has finished stays as long as it is."""
        columns = int(self.lengths.max()) + 1
        if columns > self.capacity:
            self._reserve(max(columns, 2 * self.capacity))
        self.filled.columns = self.capacity if self.static else columns
        self.filled.uniform = not self.static and bool((self.lengths == columns - 1).all())
        self.logits = self._replayed(tokens) if self.static else self._step(tokens, self.lengths)
        self.lengths = self.lengths + live

    def keep(self, indices: torch.Tensor) -> None:
        """Continue with the sequences of these slots, in this order."""
        columns = int(self.lengths.max())
        for layer in self.cache.layers:
            layer.keep(indices, columns)
        self.logits, self.lengths = self.logits[indices], self.lengths[indices]

    def worth_dropping(self, done: int, count: int) -> bool:
        """On a GPU where half have finished: a graph is made for each number of slots."""
        return 2 * done >= count if self.static else super().worth_dropping(done, count)

    def _read(self, prompts: list[tuple[int, ...]]) -> tuple[torch.Tensor, Any]:
        """Logits (n, V) after prompts, and their cache. Padded on the right: causal attention needs no mask."""
        ids = self._padded(prompts, left=False)
        cache, _ = prompt_cache(self.model.config)
        last = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.device)
        ends: torch.Tensor = torch.unique(last)
        logits = self._forward(ids, cache, None, None, keep=1 if len(ends) == 1 else ends)
        return logits[torch.arange(len(prompts), device=self.device), torch.searchsorted(ends, last)], cache

    def _step(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits (B, V) after a token (B,) at the end of each sequence, which is written at ``lengths``."""
        self.filled.tensor = lengths
        mask = None if self.filled.uniform else self._mask(lengths)
        return self._forward(tokens[:, None], self.cache, lengths[:, None], mask)[:, -1]

    def _mask(self, lengths: torch.Tensor) -> torch.Tensor:
        """Hides the columns beyond each sequence's own, the new one not."""
        hidden = torch.arange(self.filled.columns, device=self.device) > lengths[:, None]
        implementation = self.model.config._attn_implementation
        if implementation in (GROUPED, "sdpa", "eager") and getattr(self.model, "_supports_sdpa", False):
            # What attention adds to its scores, made once for all layers.
            dtype = self.model.get_input_embeddings().weight.dtype
            bias = torch.zeros(hidden.shape, dtype=dtype, device=self.device)
            return bias.masked_fill_(hidden, torch.finfo(dtype).min)[:, None, None]
        return (~hidden).long()

    def _reserve(self, capacity: int, like: Any = None) -> None:
        """See that there are so many columns."""
        if self.cache is None:
            layers: list[Any] = [
                SlotLayer(self.filled, states.keys, states.values, self.slots, capacity) for states in like.layers
            ]
            self.cache = Cache(layers=layers)
        elif capacity > self.capacity:
            for layer in self.cache.layers:
                layer.grow(capacity)
        else:
            return
        self.capacity = capacity
        self.graphs.clear()

    def _replayed(self, tokens: torch.Tensor) -> torch.Tensor:
        """The step of a GPU, as a graph from the second time that a number of slots is stepped."""
        count = len(tokens)
        if self.device.type != "cuda":
            return self._step(tokens, self.lengths)
        if count not in self.graphs:
            self.graphs[count] = _Graph(self._step, tokens, self.lengths)
        return self.graphs[count](tokens, self.lengths)


class _Graph:
    """A step as a CUDA graph. It reads the weights where they are: new values are written in place."""

    def __init__(
        self, step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], tokens: torch.Tensor, lengths: torch.Tensor
    ) -> None:
        self.tokens, self.lengths = tokens.clone(), lengths.clone()
        warm_up: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        warm_up.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm_up):
            for _ in range(2):  # libraries allocate in their first calls; the same column is written again
                step(self.tokens, self.lengths)
        torch.cuda.current_stream().wait_stream(warm_up)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = step(self.tokens, self.lengths)

    def __call__(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits (B, V), overwritten by the next call."""
        self.tokens.copy_(tokens)
        self.lengths.copy_(lengths)
        self.graph.replay()
        return self.logits


class _LeftPadded(_Batch):
    """For layers whose state is not keys by column: every sequence ends in the last column, and none joins later."""

    refills = False

    def read(self, slots: Sequence[int], prompts: list[tuple[int, ...]]) -> None:
        """Begin with these prompts, as many as there are slots."""
        unique = {prompt: index for index, prompt in enumerate(dict.fromkeys(prompts))}
        self.lengths = torch.tensor([len(prompt) for prompt in unique], device=self.device)
        self.columns = int(self.lengths.max())
        cache: Any = prompt_cache(self.model.config)[0]
        self.cache = cache
        columns = torch.arange(self.columns + self.limit, device=self.device)
        padding = self.columns - self.lengths[:, None]
        self.mask = (columns >= padding).long()
        positions = (columns[: self.columns] - padding).clamp(min=0)
        ids = self._padded([*unique], left=True)
        self.logits = self._forward(ids, self.cache, positions, self.mask[:, : self.columns])[:, -1]
        if len(unique) < len(prompts):
            self.keep(torch.tensor([unique[prompt] for prompt in prompts], device=self.device))

    def step(self, tokens: torch.Tensor, live: torch.Tensor) -> None:
        """Append a token (B,) to each sequence."""
        mask = self.mask[:, : self.columns + 1]
        self.logits = self._forward(tokens[:, None], self.cache, self.lengths[:, None], mask)[:, -1]
        self.columns += 1
        self.lengths = self.lengths + 1

    def keep(self, indices: torch.Tensor) -> None:
        """Continue with the sequences of these indices, in this order; an index may occur more than once."""
        self.cache.reorder_cache(indices)
        self.logits, self.lengths, self.mask = self.logits[indices], self.lengths[indices], self.mask[indices]


class TransformersAgent(TokenAgent):
    """Samples replies from a causal language model.

    The log-probabilities recorded with the tokens are those of softmax(logits / temperature) over the whole
    vocabulary, float32: the learner computes the same. Under ``top_p``, ``top_k`` or ``greedy`` the tokens are
    drawn from less than that, and the log-probabilities do not say so; train on samples without them.

    Args:
        model: a transformers causal language model, on any device.
        tokenizer: its tokenizer, with a chat template.
        max_new_tokens: the longest reply, in tokens, its end token included.
        temperature: logits are divided by it.
        top_p, top_k: draw only from the likeliest tokens, see `choose_tokens`.
        greedy: always the likeliest token.
        seed: of the sampling noise.
        max_length: the longest sequence of an episode, in tokens; by default what the model's configuration
            names. See `TokenAgent`, also for ``template_options``, ``thinking_budget`` and ``segment``.
        max_sequences: the most conversations sampled at once; the others wait until one of them ends. None: all.

    Raises:
        ImportError: on import of this module: the extra ``train`` is missing.
        ValueError: an option out of range, or a tokenizer without chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int | None = None,
        greedy: bool = False,
        seed: int = 0,
        max_length: int | None = None,
        max_sequences: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        thinking_budget: ThinkingBudget | None = None,
        segment: int | None = None,
    ) -> None:
        if max_sequences is not None and max_sequences < 1:
            raise ValueError(f"max_sequences={max_sequences} must be at least 1")
        self.sampling = Sampling(temperature, top_p, top_k, greedy)
        self.model = model
        self.max_sequences = max_sequences
        super().__init__(
            tokenizer,
            end_ids=end_tokens(model),
            limit=getattr(model.config.get_text_config(), "max_position_embeddings", None),
            max_new_tokens=max_new_tokens,
            seed=seed,
            max_length=max_length,
            template_options=template_options,
            thinking_budget=thinking_budget,
            segment=segment,
        )

    def _sampling_options(self) -> dict[str, Any]:
        return {name: getattr(self.sampling, name) for name in ("temperature", "top_p", "top_k", "greedy")}

    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> list[Continuation]:
        done = dict(self._sample_each(drafts, limits))
        return [done[index] for index in range(len(drafts))]

    def _sample_each(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterator[tuple[int, Continuation]]:
        starts = [(draft.conversation.key, draft.length) for draft in drafts]
        counts = [0] * len(drafts) if self.sampling.greedy else limits
        noise = [uniforms(self.seed, *start, count) for start, count in zip(starts, counts, strict=True)]
        prompts = [draft.prompt() for draft in drafts]
        yield from sample_each(
            self.model, prompts, limits, noise, self.renderer.end_ids, self.sampling, self.max_sequences
        )


def end_tokens(model: Any) -> list[int]:
    """The tokens at which the model's generation configuration says to stop."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if named is None:
        return []
    return [named] if isinstance(named, int) else list(named)
