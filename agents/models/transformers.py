"""A policy from transformers: samples a batch of replies, with exact token ids and log-probabilities.

Every sampled token comes from one uniform number that belongs to (agent seed, conversation, position), so an
episode is the same whatever else is in the batch (up to the rounding of the model's own arithmetic).

Each sequence has a slot, all slots advance by one token a step, and one whose sequence has ended is given the next
prompt: continuous batching. The host counts, and the device holds keys and values alone, so a step waits for nothing
but the tokens that it draws. Where the layers of a model are plain attention, the cache is written in place, each
sequence at its own length (`SlotLayer`). Other models get the library's cache, padding on the left, and one batch after
another.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.models.tiny import MISSING_EXTRA
from rlvr.agents.models.token_agent import Continuation, Draft, Sampled, TokenAgent, check_sampling

try:
    import torch

    from rlvr.agents.models.sampling import (
        GRAPHLESS,
        KEPT,
        LOGITS_AT_ONCE,
        LOOK_EVERY,
        Drawn,
        SlotMemory,
        StepGraph,
        column_bucket,
        draw_tokens,
        kept_bytes,
        lean_attention,
        prompt_cache,
        prompt_chunks,
        replays,
        require_numbers,
        row_bucket,
        signature,
        slot_mask,
        uniforms,
    )
except ImportError as error:
    raise ImportError(MISSING_EXTRA) from error


# Columns a cache has at first beyond the prompt: most replies are short, and it doubles when they are not.
FIRST_COLUMNS = 64
# Slots are given the next prompts once this share of them is free: a pass over prompts costs as much as a step.
REFILL_SHARE = 1 / 16

# On a GPU:
STATIC_REFILL_SHARE = 1 / 4  # reading prompts launches each kernel, and costs as much as ten replayed steps


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
        """Tokens (B,) and their log-probabilities (B,) for logits (B, V) and noise (B,); NaN where these are none."""
        return draw_tokens(
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
            break
        yield from ended
    decoding.close()


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
    """One token a step in every slot, until each sequence has met an end token or its limit; see `sample`."""

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
        self._prompts, self._limits = prompts, np.array(limits)
        # the longest first: like lengths together, so that few columns of a step are masked
        self._waiting = deque(sorted(range(count), key=lambda i: -len(prompts[i])))
        self._noise = np.zeros((count, longest))
        for index, values in enumerate(noise):
            self._noise[index, : len(values)] = values
        self._stops = tuple(sorted({*end_ids}))
        self._slots = min(slots or count, count)
        self._batch = batch_of(model, self._slots, longest, sampling, self._stops)
        self._tokens = np.zeros((count, longest), dtype=np.int64)
        self._logprobs = np.zeros((count, longest), dtype=np.float32)
        self._clear()

    def close(self) -> None:
        """Give back what the batch holds."""
        self._batch.close()

    def advance(self) -> list[tuple[int, Sampled]]:
        """Sample until at least one more has ended: those that then have, by index; none where all had before."""
        ended: list[tuple[int, Sampled]] = []
        while not ended:
            live = int((self._left > 0).sum())
            if self._waiting and self._may_refill(live):
                ended = self._refill(live)
            elif live:
                self._drop()
                ended = self._step()
            else:
                break
        return ended

    def _clear(self) -> None:
        # of each slot: the prompt that it continues, tokens so far, tokens still to sample, length without the last
        # token, and that token, which the cache does not hold yet
        self._origin, self._done, self._left, self._lengths, self._last = np.zeros((5, self._batch.rows), np.int64)

    def _may_refill(self, live: int) -> bool:
        if self._batch.refills:
            return self._slots - live >= max(1, self._batch.refill_share * self._slots)
        return not live  # none joins before all have ended

    def _refill(self, live: int) -> list[tuple[int, Sampled]]:
        """Give the slots that are free the next prompts, and sample the first token of each."""
        if not self._batch.refills:
            self._batch.rows = min(self._slots, len(self._waiting))
            self._clear()
        at = np.flatnonzero(self._left == 0)[: min(self._slots - live, len(self._waiting))]
        indices = np.array([self._waiting.popleft() for _ in at])
        prompts = [tuple(self._prompts[index]) for index in indices]
        self._origin[at], self._done[at], self._left[at] = indices, 0, self._limits[indices]
        self._lengths[at] = [len(prompt) for prompt in prompts]
        return self._record(at, *_column(self._batch.read(at, prompts, self._noise[indices, 0])))

    def _step(self) -> list[tuple[int, Sampled]]:
        """Sample a token of each sequence, or several where the device looks up less often."""
        steps = min(self._batch.look_every, int(self._left.max()))
        columns = np.minimum(self._done[:, None] + np.arange(steps), self._noise.shape[1] - 1)
        noise = self._noise[self._origin[:, None], columns]
        # what has ended goes on at the end of the longest, which is no further than all others must reach
        lengths = np.where(self._left > 0, self._lengths, self._lengths[self._left > 0].max())
        tokens, logprobs = self._batch.step(self._last, lengths, self._left, noise)
        self._lengths += steps
        return self._record(np.arange(len(self._left)), tokens, logprobs)

    def _record(self, at: np.ndarray, tokens: np.ndarray, logprobs: np.ndarray) -> list[tuple[int, Sampled]]:
        """Note tokens (n, k) of the slots ``at`` (n,), up to the end of each sequence; what has ended by them."""
        left, steps = self._left[at], tokens.shape[1]
        stops = np.isin(tokens, self._stops)
        taken = np.minimum(left, np.where(stops.any(1), stops.argmax(1) + 1, steps))
        row, step = (np.arange(steps) < taken[:, None]).nonzero()
        require_numbers(logprobs[row, step], row)
        origin, column = self._origin[at[row]], self._done[at[row]] + step
        self._tokens[origin, column], self._logprobs[origin, column] = tokens[row, step], logprobs[row, step]
        stopped = stops[np.arange(len(at)), taken - 1]  # of what had ended before, nothing is said
        self._done[at] += taken
        self._left[at] = np.where(stopped, 0, left - taken)
        self._last[at] = tokens[:, -1]
        ended = at[(left > 0) & (self._left[at] == 0)]
        rows = zip(self._origin[ended].tolist(), self._done[ended].tolist(), strict=True)
        return [
            (index, (self._tokens[index, :length].tolist(), self._logprobs[index, :length].tolist()))
            for index, length in rows
        ]

    def _drop(self) -> None:
        """Where no prompt waits for their slots, drop sequences that have ended; the last ones move up."""
        if self._waiting and self._batch.refills:
            return
        live = np.flatnonzero(self._left)
        count = self._batch.fewer_rows(len(live), len(self._left))
        if count == len(self._left):
            return
        order = np.arange(count)
        movers = live[live >= count]
        order[np.flatnonzero(self._left[:count] == 0)[: len(movers)]] = movers
        self._origin, self._done, self._left, self._lengths, self._last = (
            values[order] for values in (self._origin, self._done, self._left, self._lengths, self._last)
        )
        self._batch.keep(order)


def _column(drawn: Drawn) -> Drawn:
    tokens, logprobs = drawn
    return tokens[:, None], logprobs[:, None]


def batch_of(model: Any, slots: int, limit: int, sampling: Sampling, stops: tuple[int, ...]) -> _Slots | _LeftPadded:
    """The slots of a model, or a batch for one whose layers are not plain attention."""
    in_place = prompt_cache(model.config)[1]
    return (_Slots if in_place else _LeftPadded)(model, slots, limit, sampling, stops)


class _Batch:
    """The sequences being sampled. Equal prompts, such as those of a group, are run through the model once.

    Args:
        model: that samples.
        slots: sequences at once.
        limit: the most tokens of a reply.
        sampling: how to draw.
        stops: tokens that end a reply.
    """

    look_every = 1  # steps
    refill_share = REFILL_SHARE

    def __init__(self, model: Any, slots: int, limit: int, sampling: Sampling, stops: tuple[int, ...]) -> None:
        self.model, self.rows, self.limit, self.sampling, self.stops = model, slots, limit, sampling, stops
        self.device = model.get_input_embeddings().weight.device

    def fewer_rows(self, live: int, rows: int) -> int:
        """To how many of so many rows it is worth going down, where so many are live."""
        return min(rows, live if live == 1 else 4 * -(-live // 4))  # a CPU multiplies 3 rows no faster than 4

    def close(self) -> None:
        """There is nothing to give back."""

    def _on_device(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _draw(self, logits: torch.Tensor, noise: np.ndarray) -> Drawn:
        """Tokens (b,) and their log-probabilities."""
        tokens, logprobs = self.sampling.choose(logits, self._on_device(noise))
        return tokens.cpu().numpy(), logprobs.cpu().numpy()

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
    """Sequences in slots of a cache that is written in place, each at its own length.

    On a GPU a step has static shapes, and is replayed as a CUDA graph: a number of slots of 1, 2, 3, 4, 6, 8, 12, …,
    which attend to 256, 512, … columns. Where no graph can be made of a model, a warning says so, and its kernels are
    launched one after another, as they are on a CPU.
    """

    refills = True

    def __init__(self, model: Any, slots: int, limit: int, sampling: Sampling, stops: tuple[int, ...]) -> None:
        super().__init__(model, slots, limit, sampling, stops)
        mark: Any = None
        kept = None
        self._set_pace()
        if self.static:
            self.rows = row_bucket(slots)
            mark = signature(model)
            kept = KEPT.pop(model, None)
        if kept is None or kept.signature != mark or kept.slots < self.rows:
            kept = SlotMemory(mark, self.rows)
        self.memory = kept

    def _set_pace(self) -> None:
        self.static = replays(self.model, self.device)
        self.look_every = LOOK_EVERY if self.static else 1
        self.refill_share = STATIC_REFILL_SHARE if self.static else REFILL_SHARE

    def close(self) -> None:
        """Leave the memory to the next call, where it is small."""
        if self.static and self.memory.size <= kept_bytes(self.device):
            KEPT[self.model] = self.memory

    def fewer_rows(self, live: int, rows: int) -> int:
        """On a GPU halves, of which there are graphs."""
        if not self.static:
            return super().fewer_rows(live, rows)
        while live <= rows // 2:
            rows //= 2
        return rows

    def read(self, at: np.ndarray, prompts: list[tuple[int, ...]], noise: np.ndarray) -> Drawn:
        """Begin slots ``at`` (n,) with prompts; the first tokens (n,), drawn by ``noise`` (n,)."""
        tokens, logprobs = np.zeros(len(at), np.int64), np.zeros(len(at), np.float32)
        vocabulary = self.model.config.get_text_config().vocab_size
        at_once = LOGITS_AT_ONCE * (16 if self.device.type == "cuda" else 1)
        for chunk in prompt_chunks([*dict.fromkeys(prompts)], at_once // vocabulary):
            logits, cache = self._read(chunk)
            self._reserve(len(chunk[0]) + min(self.limit, FIRST_COLUMNS), cache)
            numbers = {prompt: number for number, prompt in enumerate(chunk)}
            members = np.array([index for index, prompt in enumerate(prompts) if prompt in numbers])
            which = self._on_device(np.array([numbers[prompts[index]] for index in members]))
            slots = self._on_device(at[members])
            for layer, states in zip(self.memory.cache.layers, cache.layers, strict=True):
                layer.put(slots, states.keys[which], states.values[which])
            tokens[members], logprobs[members] = self._draw(logits[which], noise[members])
        return tokens, logprobs

    def step(self, last: np.ndarray, lengths: np.ndarray, left: np.ndarray, noise: np.ndarray) -> Drawn:
        """Append ``last`` (b,) to sequences of these ``lengths``, and sample k tokens of each by ``noise`` (b, k)."""
        columns = int(lengths.max()) + noise.shape[1]
        if columns > self.memory.capacity:
            self._reserve(max(columns, 2 * self.memory.capacity))
        filled = self.memory.filled
        filled.columns = min(self.memory.capacity, column_bucket(columns)) if self.static else columns
        filled.uniform = not self.static and bool((lengths == lengths[0]).all())
        state = self._on_device(np.stack([last, lengths, left]))
        if self.static:
            return self._replayed(state, self._on_device(noise))
        return _column(self._draw(self._logits(state[0], state[1]), noise[:, 0]))

    def keep(self, order: np.ndarray) -> None:
        """Continue with the sequences of these slots (n,), in this order; few of them have another slot than before."""
        moved = np.flatnonzero(order != np.arange(len(order)))
        if len(moved):
            sources, targets = self._on_device(order[moved]), self._on_device(moved)
            for layer in self.memory.cache.layers:
                layer.move(sources, targets, self.memory.capacity)

    def _read(self, prompts: list[tuple[int, ...]]) -> tuple[torch.Tensor, Any]:
        """Logits (n, V) after prompts, and their cache. Padded on the right: causal attention needs no mask."""
        ids = self._padded(prompts, left=False)
        cache, _ = prompt_cache(self.model.config)
        last = [len(prompt) - 1 for prompt in prompts]
        ends = sorted({*last})
        keep = 1 if len(ends) == 1 else torch.tensor(ends, device=self.device)
        logits = self._forward(ids, cache, None, None, keep=keep)
        columns = torch.tensor([ends.index(end) for end in last], device=self.device)
        return logits[torch.arange(len(prompts), device=self.device), columns], cache

    def _logits(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits (B, V) after a token (B,) at the end of each sequence, which is written at ``lengths``."""
        filled = self.memory.filled
        filled.tensor = lengths
        mask = None if filled.uniform else slot_mask(self.model, lengths, filled.columns)
        return self._forward(tokens[:, None], self.memory.cache, lengths[:, None], mask)[:, -1]

    def _reserve(self, columns: int, like: Any = None) -> None:
        self.memory.reserve(column_bucket(columns) if self.static else columns, like)

    def _replayed(self, state: torch.Tensor, noise: torch.Tensor) -> Drawn:
        """The steps of a GPU, by the graph of such a step; on a CPU the same without a graph."""
        memory = self.memory
        key = (state.shape[1], memory.filled.columns, self.sampling, self.stops)
        if key not in memory.graphs:
            vocabulary = self.model.get_input_embeddings().weight.shape[0]
            memory.graphs[key] = StepGraph(state.shape[1], self.stops, vocabulary, self.device)
        graph = memory.graphs[key]
        graph.load(state, noise)
        if self.device.type == "cuda" and graph.graph is None:
            self._capture(graph)
            graph.load(state, noise)
        drawn = graph(noise.shape[1], self._logits, self.sampling.choose)
        self._set_pace()
        return drawn

    def _capture(self, graph: StepGraph) -> None:
        if self.memory.pool is None:
            self.memory.pool = torch.cuda.graph_pool_handle()
        try:
            graph.capture(self._logits, self.sampling.choose, self.memory.pool)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            GRAPHLESS.add(self.model)
            warnings.warn(
                f"no CUDA graph can be made of {type(self.model).__name__}, so each step launches its kernels one by "
                f"one, which is slower: {str(error).strip().splitlines()[0]}",
                stacklevel=2,
            )


class _LeftPadded(_Batch):
    """For layers whose state is not keys by column: every sequence ends in the last column, and none joins later."""

    refills = False

    def read(self, at: np.ndarray, prompts: list[tuple[int, ...]], noise: np.ndarray) -> Drawn:
        """Begin with these prompts (n,), as many as there are slots; the first tokens (n,), drawn by ``noise``."""
        unique = {prompt: index for index, prompt in enumerate(dict.fromkeys(prompts))}
        lengths = torch.tensor([len(prompt) for prompt in unique], device=self.device)
        self.columns = int(lengths.max())
        cache: Any = prompt_cache(self.model.config)[0]
        self.cache = cache
        columns = torch.arange(self.columns + self.limit, device=self.device)
        padding = self.columns - lengths[:, None]
        self.mask = (columns >= padding).long()
        positions = (columns[: self.columns] - padding).clamp(min=0)
        ids = self._padded([*unique], left=True)
        logits = self._forward(ids, self.cache, positions, self.mask[:, : self.columns])[:, -1]
        which = np.array([unique[prompt] for prompt in prompts])
        if len(unique) < len(prompts):
            self.keep(which)
        return self._draw(logits[self._on_device(which)], noise)

    def step(self, last: np.ndarray, lengths: np.ndarray, left: np.ndarray, noise: np.ndarray) -> Drawn:
        """As `_Slots.step`, of one token."""
        self.columns += 1
        positions = self._on_device(lengths)[:, None]
        ids = self._on_device(last)[:, None]
        logits = self._forward(ids, self.cache, positions, self.mask[:, : self.columns])[:, -1]
        return _column(self._draw(logits, noise[:, 0]))

    def keep(self, order: np.ndarray) -> None:
        """Continue with the sequences of these indices, in this order; an index may occur more than once."""
        indices = self._on_device(order)
        self.cache.reorder_cache(indices)
        self.mask = self.mask[indices]


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
