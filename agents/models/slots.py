"""The sequences that are sampled at once: in slots of a cache, or padded on the left.

Each sequence of a conversation that may go on leaves its keys and values as a `Prefix`, and the next turn reads what is
new alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import torch

from rlvr.agents.models.sampling import (
    GRAPHLESS,
    KEPT,
    LOGITS_AT_ONCE,
    LOOK_EVERY,
    Drawn,
    Pair,
    Sampling,
    SlotMemory,
    StepGraph,
    causal_bias,
    column_bucket,
    kept_bytes,
    prompt_cache,
    prompt_chunks,
    replays,
    row_bucket,
    signature,
    slot_mask,
    takes_bias,
)

# Columns a cache has at first beyond the prompt: most replies are short, and it doubles when they are not.
FIRST_COLUMNS = 64
# Slots are given the next prompts once this share of them is free: a pass over prompts costs as much as a step.
REFILL_SHARE = 1 / 16

# On a GPU:
STATIC_REFILL_SHARE = 1 / 4  # reading prompts launches each kernel, and costs as much as ten replayed steps

PREFIX_BYTES = 2**30  # that all prefixes may hold together on a CPU


@dataclass(eq=False, slots=True, weakref_slot=True)
class Prefix:
    """Tokens (T,) of a sequence, and under certain weights their keys and values (H, T, D) in each layer."""

    ids: tuple[int, ...]
    layers: list[Pair]
    weights: tuple[Any, ...]  # `weights_mark`

    def __post_init__(self) -> None:
        PREFIXES.add(self)

    def begins(self, prompt: tuple[int, ...]) -> bool:
        """Whether the prompt is this and more."""
        return len(self.ids) < len(prompt) and prompt[: len(self.ids)] == self.ids

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(states.nbytes for pair in self.layers for states in pair)


PREFIXES: WeakSet[Prefix] = WeakSet()  # all that are held; each goes with its conversation


def weights_mark(model: Any) -> tuple[Any, ...]:
    """What changes when weights do: where they are, how often torch wrote to each, and a number of each.

    The number is for what writes behind torch's back, such as an optimiser of its own kernels.
    """
    weights = [weight.detach() for weight in (*model.parameters(), *model.buffers()) if weight.numel()]
    writes = [0 if weight.is_inference() else weight._version for weight in weights]
    return signature(model), tuple(writes), tuple(float(weight[(0,) * weight.dim()]) for weight in weights)


def column_of(drawn: Drawn) -> Drawn:
    """One token of each sequence (n,), as (n, 1)."""
    tokens, logprobs = drawn
    return tokens[:, None], logprobs[:, None]


def _stacked(states: Sequence[torch.Tensor], columns: int) -> torch.Tensor:
    """States (H, T, D) of several lengths as one (n, H, columns, D)."""
    stacked = states[0].new_zeros(len(states), states[0].shape[0], columns, states[0].shape[2])
    for row, own in zip(stacked, states, strict=True):
        row[:, : own.shape[1]] = own
    return stacked


def batch_of(model: Any, slots: int, limit: int, sampling: Sampling, stops: tuple[int, ...]) -> _Slots | _LeftPadded:
    """The slots of a model, or a batch for one whose layers are not plain attention."""
    plain_attention = prompt_cache(model.config)[1]
    return (_Slots if plain_attention else _LeftPadded)(model, slots, limit, sampling, stops)


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

    def prefix(self, slot: int, ids: Sequence[int]) -> Prefix | None:
        """What the next turn of the sequence in a slot, which begins with ``ids``, need not read; None: nothing."""
        return None

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
        self.weights = weights_mark(model)
        self.room = kept_bytes(self.device) or PREFIX_BYTES
        self.room -= sum(prefix.size for prefix in PREFIXES)

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

    def read(
        self, at: np.ndarray, prompts: list[tuple[int, ...]], noise: np.ndarray, prefixes: Iterable[Prefix | None]
    ) -> Drawn:
        """Begin slots ``at`` (n,) with prompts, some after a prefix; the first tokens (n,), drawn by ``noise`` (n,)."""
        tokens, logprobs = np.zeros(len(at), np.int64), np.zeros(len(at), np.float32)
        after = {
            prompt: prefix
            for prompt, prefix in zip(prompts, prefixes, strict=True)
            if prefix and prefix.weights == self.weights and prefix.begins(prompt) and takes_bias(self.model)
        }
        for chunk in self._chunks(prompts, after):
            logits, cache = self._read_on(chunk, [after[prompt] for prompt in chunk if prompt in after])
            self._reserve(len(chunk[0]) + min(self.limit, FIRST_COLUMNS), cache)
            numbers = {prompt: number for number, prompt in enumerate(chunk)}
            members = np.array([index for index, prompt in enumerate(prompts) if prompt in numbers])
            which = self._on_device(np.array([numbers[prompts[index]] for index in members]))
            slots = self._on_device(at[members])
            for layer, states in zip(self.memory.cache.layers, cache.layers, strict=True):
                layer.put(slots, states.keys[which], states.values[which])
            tokens[members], logprobs[members] = self._draw(logits[which], noise[members])
        return tokens, logprobs

    def prefix(self, slot: int, ids: Sequence[int]) -> Prefix | None:
        """See `_Batch`; None also where no prefix can be read behind, or prefixes hold all that they may."""
        if not takes_bias(self.model):
            return None
        views = [
            (layer.keys[slot, :, : len(ids)], layer.values[slot, :, : len(ids)]) for layer in self.memory.cache.layers
        ]
        self.room -= (size := sum(states.nbytes for pair in views for states in pair))
        if self.room < 0:
            self.room += size
            return None
        return Prefix(tuple(ids), [(keys.clone(), values.clone()) for keys, values in views], self.weights)

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
        return column_of(self._draw(self._logits(state[0], state[1]), noise[:, 0]))

    def keep(self, order: np.ndarray) -> None:
        """Continue with the sequences of these slots (n,), in this order; few of them have another slot than before."""
        moved = np.flatnonzero(order != np.arange(len(order)))
        if len(moved):
            sources, targets = self._on_device(order[moved]), self._on_device(moved)
            for layer in self.memory.cache.layers:
                layer.move(sources, targets, self.memory.capacity)

    def _chunks(
        self, prompts: list[tuple[int, ...]], after: dict[tuple[int, ...], Prefix]
    ) -> Iterable[list[tuple[int, ...]]]:
        """Different prompts that are read together: first those that are read whole."""
        vocabulary = self.model.config.get_text_config().vocab_size
        at_once = LOGITS_AT_ONCE * (16 if self.device.type == "cuda" else 1) // vocabulary
        whole = [prompt for prompt in dict.fromkeys(prompts) if prompt not in after]
        for group in filter(None, (whole, [*after])):
            yield from prompt_chunks(group, at_once)

    def _read_on(self, prompts: list[tuple[int, ...]], prefixes: list[Prefix]) -> tuple[torch.Tensor, Any]:
        """Logits (n, V) after prompts, whole ones or each after its prefix, and their cache.

        Padded on the right: causal attention needs no mask. What is behind a prefix stands in columns beyond the
        longest of them while it is read, and then follows its own.
        """
        cache: Any = prompt_cache(self.model.config)[0]
        starts = [len(prefix.ids) for prefix in prefixes] or [0] * len(prompts)
        rest = [prompt[start:] for prompt, start in zip(prompts, starts, strict=True)]
        ids = self._padded(rest, left=False)
        positions, mask, longest = None, None, max(starts)
        if prefixes:
            lengths = torch.tensor(starts, device=self.device)[:, None]  # [n, 1]
            positions = lengths + torch.arange(ids.shape[1], device=self.device)  # [n, S]
            mask = causal_bias(self.model, lengths, longest, ids.shape[1])
            for number in range(len(prefixes[0].layers)):
                pairs = zip(*(prefix.layers[number] for prefix in prefixes), strict=True)
                cache.update(*(_stacked(states, longest) for states in pairs), number)
        last = [len(ids) - 1 for ids in rest]
        ends = sorted({*last})
        keep = 1 if len(ends) == 1 else torch.tensor(ends, device=self.device)
        logits = self._forward(ids, cache, positions, mask, keep=keep)
        if prefixes:
            columns = torch.arange(max(map(len, prompts)), device=self.device)
            own = torch.where(columns < lengths, columns, columns - lengths + longest)  # [n, T]
            own = own.clamp_(max=longest + ids.shape[1] - 1)[:, None, :, None]
            for layer in cache.layers:
                layer.keys, layer.values = (
                    states.gather(2, own.expand(-1, states.shape[1], -1, states.shape[3]))
                    for states in (layer.keys, layer.values)
                )
        rows = torch.arange(len(prompts), device=self.device)
        return logits[rows, torch.tensor([ends.index(end) for end in last], device=self.device)], cache

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

    def read(
        self, at: np.ndarray, prompts: list[tuple[int, ...]], noise: np.ndarray, prefixes: Iterable[Prefix | None]
    ) -> Drawn:
        """Begin with these prompts (n,), as many as there are slots, read whole; the first tokens, by ``noise``."""
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
        return column_of(self._draw(logits, noise[:, 0]))

    def keep(self, order: np.ndarray) -> None:
        """Continue with the sequences of these indices, in this order; an index may occur more than once."""
        indices = self._on_device(order)
        self.cache.reorder_cache(indices)
        self.mask = self.mask[indices]
