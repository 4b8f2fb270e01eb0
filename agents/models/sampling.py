"""What a step of sampling is made of: a key-value cache written in place, attention that copies no keys, and a draw.

The library's own dynamic cache concatenates all keys and values anew for every token, which is a third of the cost of
sampling from a small model. Here each sequence has a slot, a step writes one column in each, at the sequence's own
length, and hands the model views of what is filled.

Each token is drawn from one uniform number that belongs to (agent seed, conversation, position), so an episode does not
depend on the batch it was sampled in. The learner's log-probabilities of whole sequences are in
`rlvr.algorithms.learner.scoring`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rlvr.agents.models.token_agent import check_sampling

# Logits held at once, in numbers: above this they are made, used and made again, a piece at a time.
LOGITS_AT_ONCE = 2**24
IN_CACHE = 2**18  # the same on a CPU, where they are to stay in its cache while a token is chosen
LARGE = 4096  # tokens of a vocabulary from which a token is sought in blocks of it
GROUPED = "rlvr_grouped"
PROMPT_TOKENS = 2**16  # of prompts that are read at once, padding included
STATIC_COLUMNS = 256  # that a step of static shapes attends to, at least; beyond it powers of two
GRAPHS = True  # a benchmark sets it to False, to compare
KEPT_SHARE = 1 / 16  # of the memory of a device, which a model's slots may hold from one call to the next
LOOK_EVERY = 4  # steps of a GPU from one look at the tokens to the next: a slot that has ended idles meanwhile

Pair = tuple[torch.Tensor, torch.Tensor]
Chooser = Callable[[torch.Tensor, torch.Tensor], Pair]  # of logits (b, V) and noise (b,)
Forward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of last tokens (b,) and lengths (b,), to logits
Drawn = tuple[np.ndarray, np.ndarray]  # tokens (b, k) and their log-probabilities


@dataclass
class SlotLengths:
    """How many columns of each slot hold, and how many columns a step attends to; shared by all layers.

    tensor   [b] of the slots in use, the first b of the cache
    columns  that a step attends to, the one it writes included
    uniform  whether all b are equal, to columns - 1
    """

    tensor: torch.Tensor
    columns: int = 0
    uniform: bool = True


class SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one attention layer, (slots, H, capacity, D).

    Args:
        lengths: of all slots.
        keys, values: the states (n, H, P, D) of the first prompts; what the cache is like.
        slots, capacity: to allocate.
    """

    is_sliding = False
    keys: Any
    values: Any

    def __init__(
        self, lengths: SlotLengths, keys: torch.Tensor, values: torch.Tensor, slots: int, capacity: int
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lengths = lengths
        self.dtype, self.device = keys.dtype, keys.device
        self.keys, self.values = (
            states.new_zeros(slots, states.shape[1], 0, states.shape[3]) for states in (keys, values)
        )
        self.grow(capacity)
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """It is initialized."""

    def grow(self, capacity: int) -> None:
        """Take new memory with so many columns, and move what is there."""
        self.keys, self.values = (_widened(states, capacity) for states in (self.keys, self.values))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a column, (b, H, 1, D), into each of the first b slots, and return views of what is attended to."""
        lengths, used = self.lengths, len(key_states)
        for states, new in ((self.keys, key_states), (self.values, value_states)):
            if lengths.uniform:
                states[:used, :, lengths.columns - 1] = new[:, :, 0]
            else:
                states[torch.arange(used, device=new.device), :, lengths.tensor] = new[:, :, 0]
        return self.keys[:used, :, : lengths.columns], self.values[:used, :, : lengths.columns]

    def put(self, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Begin slots (n,) anew with the states (n, H, P, D) of prompts."""
        self.keys[slots, :, : keys.shape[2]] = keys
        self.values[slots, :, : values.shape[2]] = values

    def move(self, sources: torch.Tensor, targets: torch.Tensor, columns: int) -> None:
        """Copy the first columns of the slots ``sources`` (n,) to the slots ``targets`` (n,)."""
        for states in (self.keys, self.values):
            states[targets, :, :columns] = states[sources, :, :columns]

    def get_seq_length(self) -> int:
        """How many columns a step finds filled."""
        return self.lengths.columns - 1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a mask covers."""
        return self.lengths.columns, 0

    def get_max_length(self) -> int:
        """-1: the cache grows without bound."""
        return -1

    get_max_cache_shape = get_max_length  # what some trainers' versions of transformers call it


def _widened(states: torch.Tensor, capacity: int) -> torch.Tensor:
    wide = states.new_zeros(*states.shape[:2], capacity, states.shape[3])  # a column that nobody wrote must be finite
    wide[:, :, : states.shape[2]] = states
    return wide


def prompt_cache(config: Any) -> tuple[Cache, bool]:
    """A cache for the prompts of a model of this configuration, and whether `SlotLayer` can take its states.

    Sliding windows, linear attention and the like keep a state of their own kind.
    """
    cache = DynamicCache(config=config)
    return cache, bool(cache.layers) and all(type(layer) is DynamicLayer for layer in cache.layers)


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **extras: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention that, for one query column, does not repeat keys and values for each head.

    Where several query heads share a key head, those heads are handed over as so many query positions: with one
    column there is no order among queries to respect. Everything else goes to the library's own function.

    Args:
        module, query, key, value, attention_mask, dropout, scaling, extras: the library's attention interface;
            query (B, Hq, n, D), key and value (B, H, T, D), mask broadcastable to (B, Hq, n, T) or None.

    Returns:
        The output (B, n, Hq, D), and no weights.
    """
    count, heads, columns, _ = query.shape
    groups = key.shape[1]
    plain = all(extras.get(name) is None for name in ("position_bias", "cache"))
    if columns != 1 or heads == groups or not plain or (attention_mask is not None and attention_mask.shape[1] != 1):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **extras
        )
    folded = query.reshape(count, groups, heads // groups, query.shape[-1])
    out = torch.nn.functional.scaled_dot_product_attention(
        folded, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
    )
    return out.reshape(count, 1, heads, value.shape[-1]), None


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)


@contextmanager
def lean_attention(config: Any) -> Iterator[None]:
    """Let a model of this configuration use `grouped_attention` meanwhile, unless its attention is its own.

    Kernels for long sequences, flash and flex, gain nothing where each has one query.
    """
    implementation = config._attn_implementation
    if implementation != "sdpa" and not implementation.startswith(("flash", "flex")):
        yield
        return
    config._attn_implementation = GROUPED
    try:
        yield
    finally:
        config._attn_implementation = implementation


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
    tokens, logprobs = draw_tokens(logits, noise, temperature=temperature, top_k=top_k, top_p=top_p, greedy=greedy)
    require_numbers(logprobs.cpu().numpy(), np.arange(len(logprobs)))
    return tokens, logprobs


def draw_tokens(
    logits: torch.Tensor, noise: torch.Tensor, *, temperature: float, top_k: int | None, top_p: float, greedy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`choose_tokens`, where a row that holds no numbers gets some token and the log-probability NaN.

    It does not wait for the device.
    """
    # A CPU goes through a part of the batch five times: it must stay in the cache meanwhile.
    rows = max(1, (LOGITS_AT_ONCE if logits.is_cuda else IN_CACHE) // logits.shape[-1])
    parts = [
        _choose(logits[start : start + rows], noise[start : start + rows], temperature, top_k, top_p, greedy)
        for start in range(0, max(1, len(logits)), rows)  # an empty batch is one part
    ]
    tokens, logprobs = (torch.cat(column) for column in zip(*parts, strict=True))
    return tokens, logprobs


def _choose(
    logits: torch.Tensor, noise: torch.Tensor, temperature: float, top_k: int | None, top_p: float, greedy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`draw_tokens`, of so few rows that all is made at once."""
    size = logits.shape[-1]
    width = 1 if size < LARGE else math.isqrt(size)  # of a block of the vocabulary
    logits = logits.float()  # [n, V]
    if temperature != 1.0:
        logits = logits / temperature
    top = logits.amax(-1, keepdim=True)  # [n, 1]
    weights = logits.new_empty(len(logits), -(-size // width) * width)  # [n, V], whole blocks
    weights[:, size:] = 0.0
    torch.sub(logits, top, out=weights[:, :size]).exp_()
    reached = _running(weights, width)
    total = reached[:, -1:]  # [n, 1]
    if greedy:
        tokens = logits.argmax(-1, keepdim=True)
    else:
        if top_p < 1.0 or (top_k is not None and top_k < size):
            weights[:, :size] = truncate(weights[:, :size] / total.float(), top_k, top_p)
            reached = _running(weights, width)
        tokens = _invert(weights, reached, noise[:, None]).clamp_(max=size - 1)  # NaN leads beyond the last
    # log pi(y) = z_y - max_j z_j - log sum_j exp(z_j - max)                 [n, 1]
    logprobs = logits.gather(1, tokens) - top - total.log().float()
    return tokens[:, 0], logprobs[:, 0]


def _running(weights: torch.Tensor, width: int) -> torch.Tensor:
    """The sum of each block of weights (n, V) and all before it, (n, blocks), float64."""
    sums = weights if width == 1 else weights.view(len(weights), weights.shape[1] // width, width).sum(-1)
    return sums.cumsum(-1, dtype=torch.float64)


def _invert(weights: torch.Tensor, reached: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Where the distribution function of weights (n, V) reaches ``noise`` (n, 1), as tokens (n, 1).

    First the block, by what `_running` has ``reached``, then the token within it: a running sum over one block is a
    small part of one over the vocabulary.
    """
    target = torch.minimum(noise * reached[:, -1:], _below(reached[:, -1:]))
    block = torch.searchsorted(reached, target, right=True).clamp_(max=reached.shape[1] - 1)  # [n, 1]
    width = weights.shape[1] // reached.shape[1]
    if width == 1:
        return block
    before = torch.where(block > 0, reached.gather(1, (block - 1).clamp_(min=0)), 0.0)
    rows = torch.arange(len(weights), device=weights.device)
    row_weights = weights.view(len(weights), weights.shape[1] // width, width)[rows, block[:, 0]]  # [n, width]
    inside = row_weights.cumsum(-1, dtype=torch.float64)
    # the block's own sum, added up in another order, may be less than what is left of the target
    left = torch.minimum(target - before, _below(inside[:, -1:]))
    return block * width + torch.searchsorted(inside, left, right=True)


def _below(total: torch.Tensor) -> torch.Tensor:
    # Below the total even where a product rounds up to it, so that a token of weight 0 is never met.
    return torch.nextafter(total, torch.zeros_like(total))


def require_numbers(logprobs: np.ndarray, rows: np.ndarray) -> None:
    """See that log-probabilities (n,) of the sequences ``rows`` (n,) are numbers.

    Raises:
        FloatingPointError: one is NaN.
    """
    # One NaN or +inf makes the sum of a row NaN; -inf, a token that cannot come, does not.
    if (broken := np.isnan(logprobs)).any():
        raise FloatingPointError(
            f"the model's logits are NaN or infinite in {len(np.unique(rows[broken]))} of {len(np.unique(rows))} "
            "sequences, so no token can be sampled: its weights have diverged or its precision overflows; go back to "
            "an earlier checkpoint, lower the learning rate, or use float32 or bfloat16"
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


def row_bucket(rows: int) -> int:
    """At least so many rows: 1, 2, 3, 4, 6, 8, 12, …; the half of each from 2 on rounds down to another."""
    power = 1 << (rows - 1).bit_length()
    return 3 * power // 4 if power >= 4 and rows <= 3 * power // 4 else power


def column_bucket(columns: int) -> int:
    """At least so many columns: 256, 512, 1024, …"""
    return max(STATIC_COLUMNS, 1 << (columns - 1).bit_length())


def signature(model: Any) -> tuple[Any, ...]:
    """What a graph of a model has taken for constant; a graph reads the weights where they are."""
    modules = [
        (module.scaling, tuple(module.active_adapters), module.disable_adapters, tuple(module.merged_adapters))
        for module in model.modules()
        if hasattr(module, "lora_A") and hasattr(module, "merged_adapters")
    ]
    settings = torch.get_float32_matmul_precision(), torch.is_autocast_enabled(), model.config._attn_implementation
    # `scaling` is a dictionary, and may be changed in place
    addresses = [(states.data_ptr(), states.dtype) for states in (*model.parameters(), *model.buffers())]
    return tuple(addresses), settings, repr(modules)


class StepGraph:
    """A step with static shapes: its tensors, and on a GPU its graph. A step reads and writes these alone.

    Args:
        rows: b, sequences.
        stops: tokens that end one.
        vocabulary: size.
        device: of the tensors.
    """

    def __init__(self, rows: int, stops: tuple[int, ...], vocabulary: int, device: torch.device) -> None:
        self.state = torch.zeros(3, rows, dtype=torch.long, device=device)  # last token, length, tokens left
        self.noise = torch.zeros(rows, LOOK_EVERY, dtype=torch.float64, device=device)
        self.column = torch.zeros(1, dtype=torch.long, device=device)  # of noise and of what is drawn
        self.tokens = torch.zeros(rows, LOOK_EVERY, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(rows, LOOK_EVERY, device=device)
        # A table: torch.isin sorts where there are many, which waits for the device.
        self.ends = torch.zeros(max(vocabulary, *stops, 0) + 1, dtype=torch.bool)
        self.ends[list(stops)] = True
        self.ends = self.ends.to(device)
        self.graph: Any = None

    def load(self, state: torch.Tensor, noise: torch.Tensor) -> None:
        """Begin with a state (3, b) and noise (b, k)."""
        self.state.copy_(state)
        self.noise[:, : noise.shape[1]] = noise
        self.column.zero_()

    def step(self, logits_after: Forward, choose: Chooser) -> None:
        """Append the last tokens, and draw the next."""
        last, lengths, left = self.state.unbind()
        logits = logits_after(last, lengths)
        noise = self.noise.index_select(1, self.column)[:, 0]
        tokens, logprobs = choose(logits, noise)
        self.tokens.index_copy_(1, self.column, tokens[:, None])
        self.logprobs.index_copy_(1, self.column, logprobs[:, None])
        live = left > 0
        lengths += live
        left -= live.long()
        left.masked_fill_(self.ends[tokens], 0)
        last.copy_(tokens)
        self.column += 1

    def capture(self, logits_after: Forward, choose: Chooser, pool: Any) -> None:
        """Make the graph. What is loaded must be loaded again after it."""
        stream = torch.cuda.current_stream()
        warm_up: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        warm_up.wait_stream(stream)
        start = self.state.clone()
        with torch.cuda.stream(warm_up):
            for _ in range(2):  # libraries allocate in their first calls; the same column is written again
                self.step(logits_after, choose)
                self.state.copy_(start)
                self.column.zero_()
        stream.wait_stream(warm_up)
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads, such as one that saves, may go on meanwhile.
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                self.step(logits_after, choose)
        except BaseException:
            torch.cuda.set_stream(stream)
            raise
        self.graph = graph

    def __call__(self, steps: int, logits_after: Forward, choose: Chooser) -> Drawn:
        """Tokens (b, k) of so many steps, and their log-probabilities."""
        for _ in range(steps):
            if self.graph is None:
                self.step(logits_after, choose)
            else:
                self.graph.replay()
        return self.tokens[:, :steps].cpu().numpy(), self.logprobs[:, :steps].cpu().numpy()


@dataclass
class SlotMemory:
    """Keys and values of slots, and the graphs that read and write them.

    On a GPU a model has it from one call to the next, unless it is larger than `KEPT_SHARE` of the device: a graph
    costs as much as fifty steps. It holds, for each slot and column, the keys and values of all layers, and for the
    graphs together what one step needs.
    """

    signature: Any
    slots: int
    capacity: int = 0  # columns
    filled: SlotLengths = field(default_factory=lambda: SlotLengths(torch.zeros(0, dtype=torch.long)))
    cache: Any = None
    graphs: dict[Any, StepGraph] = field(default_factory=dict)
    pool: Any = None

    def reserve(self, columns: int, like: Any = None) -> None:
        """See that there are so many columns; at first, for layers ``like`` those of a cache of prompts."""
        if columns <= self.capacity:
            return
        if self.cache is None:
            layers: list[Any] = [
                SlotLayer(self.filled, states.keys, states.values, self.slots, columns) for states in like.layers
            ]
            self.cache = Cache(layers=layers)
        else:
            for layer in self.cache.layers:
                layer.grow(columns)
        self.capacity = columns
        self.graphs.clear()

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        layers = self.cache.layers if self.cache is not None else ()
        return sum(states.nbytes for layer in layers for states in (layer.keys, layer.values))


KEPT: WeakKeyDictionary[Any, SlotMemory] = WeakKeyDictionary()
GRAPHLESS: WeakSet[Any] = WeakSet()  # models of which no graph can be made


def replays(model: Any, device: torch.device) -> bool:
    """Whether steps of a model have static shapes, to be replayed."""
    return device.type == "cuda" and GRAPHS and model not in GRAPHLESS


def kept_bytes(device: torch.device) -> float:
    """What the slots of a model may hold from one call to the next."""
    return KEPT_SHARE * torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


def takes_bias(model: Any) -> bool:
    """Whether a model's attention takes what is added to its scores, made once for all layers."""
    implementation = model.config._attn_implementation
    return implementation in (GROUPED, "sdpa", "eager") and bool(getattr(model, "_supports_sdpa", False))


def _bias(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """What is added to scores (b, 1, n, T), so that nothing attends to what is hidden (b, n, T)."""
    dtype = model.get_input_embeddings().weight.dtype
    bias = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    return bias.masked_fill_(hidden, torch.finfo(dtype).min)[:, None]


def slot_mask(model: Any, lengths: torch.Tensor, columns: int) -> torch.Tensor:
    """Hides the columns beyond each sequence's own, (b,), the new one not; as the model's attention takes it."""
    hidden = torch.arange(columns, device=lengths.device) > lengths[:, None]
    return _bias(model, hidden[:, None]) if takes_bias(model) else (~hidden).long()


def causal_bias(model: Any, lengths: torch.Tensor, longest: int, new: int) -> torch.Tensor:
    """For ``new`` columns behind prefixes of ``lengths`` (b, 1), which fill the first columns of ``longest``.

    (b, 1, new, longest + new): each attends to its own prefix, and to no new column after itself.
    """
    columns = torch.arange(longest + new, device=lengths.device)
    unused = (columns >= lengths) & (columns < longest)  # [b, longest + new]
    later = columns > longest + torch.arange(new, device=lengths.device)[:, None]  # [new, longest + new]
    return _bias(model, unused[:, None] | later)


def prompt_chunks(prompts: list[tuple[int, ...]], at_once: int) -> Iterator[list[tuple[int, ...]]]:
    """Prompts, the longest first, that are read together: logits, so many rows, are made at every length among them."""
    chunk: list[tuple[int, ...]] = []
    lengths: set[int] = set()
    for prompt in sorted(prompts, key=lambda ids: -len(ids)):
        lengths.add(len(prompt))
        count = len(chunk) + 1
        many = len(lengths) > 1 and count * len(lengths) > at_once
        if chunk and (many or count * len(chunk[0]) > PROMPT_TOKENS):
            yield chunk
            chunk, lengths = [], {len(prompt)}
        chunk.append(prompt)
    yield chunk
