"""Sequences in one line of tokens, without padding: who attends to whom, and the attention that keeps them apart.

A sequence is a segment whose positions begin at 0. Where several begin with one prompt, the prompt is a segment of its
own, and what comes after it in each is a segment that attends to the prompt and to itself (a tree of depth 2). All of
the model but attention sees one token at a time, so this changes no result beyond rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

PACKED = "rlvr_packed"
# Of the longest segment that attention computes together with others: shorter ones go into a block of their own.
ALIKE, ALIKE_TOKENS = 0.8, 16


class Segment(NamedTuple):
    """Tokens ``start`` to ``end`` of a row, after the ``prefix``: the number of another segment, or -1."""

    row: int
    start: int
    end: int
    prefix: int = -1

    @property
    def length(self) -> int:
        """Its tokens."""
        return self.end - self.start


class Block(NamedTuple):
    """Segments of like length that attention computes at once, padded to the longest of them.

    queries  [n * L] which packed token each query is; padding repeats the last of its segment
    keys     [n * (P + L)] the same of keys: the prefix, then the segment itself
    sizes    n segments, L tokens of the longest, P tokens of the prefix
    """

    queries: torch.Tensor
    keys: torch.Tensor
    sizes: tuple[int, int, int]


@dataclass(frozen=True)
class Packing:
    """B rows of tokens as one line of N.

    ids        [1, N]
    positions  [1, N] each token's position in its row
    wanted     [n] the packed tokens at which the n wanted tokens are predicted, in the order of the rows
    blocks     the segments, as attention computes them
    order      [N] where each packed token stands in the outputs of all blocks, one after another
    """

    ids: torch.Tensor
    positions: torch.Tensor
    wanted: torch.Tensor
    blocks: tuple[Block, ...]
    order: torch.Tensor


def pack(context: torch.Tensor, wanted: torch.Tensor, share_prompts: bool = False) -> Packing:
    """Rows (B, T) of tokens up to the last at which something is wanted (B, T) bool; what follows it is left out.

    With ``share_prompts`` what rows of one prompt have before their first wanted token is there once.
    """
    device = context.device
    rows = _segments(context, wanted, share_prompts)
    starts = [0]
    for segment in rows:
        starts.append(starts[-1] + segment.length)
    lines = [torch.arange(segment.start, segment.end) for segment in rows]  # columns of the rows
    positions = torch.cat(lines)  # [N]
    width = context.shape[1]
    source = torch.cat([line + segment.row * width for line, segment in zip(lines, rows, strict=True)])
    at = torch.zeros(context.numel(), dtype=torch.long)  # [B T] the packed token of each token of the rows
    at[source] = torch.arange(len(source))
    source, positions = source.to(device), positions.to(device)
    blocks, order = _blocks(rows, starts)
    return Packing(
        context.reshape(-1)[source][None],
        positions[None],
        at.to(device)[wanted.reshape(-1)],
        tuple(Block(block.queries.to(device), block.keys.to(device), block.sizes) for block in blocks),
        order.to(device),
    )


def _segments(context: torch.Tensor, wanted: torch.Tensor, share_prompts: bool) -> list[Segment]:
    """The segments of rows, none empty, a prompt before what comes after it."""
    asked = wanted.cpu()
    columns = torch.arange(1, asked.shape[1] + 1)
    ends = (asked * columns).amax(1).tolist()  # [B] tokens of each row; 0 where nothing is wanted
    live = [row for row, end in enumerate(ends) if end]
    if not live:
        return [Segment(0, 0, 1)]  # a pass must be made of something
    if not share_prompts:
        return [Segment(row, 0, ends[row]) for row in live]
    starts = asked.long().argmax(1).tolist()  # [B] the prompt's last token, which counts to what comes after
    ids = context.cpu().numpy()  # [B, T]
    groups: dict[bytes, list[int]] = {}
    for row in live:
        groups.setdefault(ids[row, : starts[row]].tobytes(), []).append(row)
    segments: list[Segment] = []
    for prompt, members in groups.items():
        if not prompt or len(members) == 1:
            segments += [Segment(row, 0, ends[row]) for row in members]
            continue
        prefix, start = len(segments), starts[members[0]]
        segments.append(Segment(members[0], 0, start))
        segments += [Segment(row, start, ends[row], prefix) for row in members]
    return segments


def _blocks(segments: Sequence[Segment], starts: Sequence[int]) -> tuple[list[Block], torch.Tensor]:
    """The blocks of segments that begin at these packed tokens, and where each token is in their outputs."""
    members: list[list[int]] = []
    # Longest first, so that a block is as wide as its first segment and padding is short.
    for number in sorted(range(len(segments)), key=lambda i: (segments[i].prefix, -segments[i].length)):
        first = segments[members[-1][0]] if members else None
        alike = first is not None and segments[number].length >= ALIKE * first.length - ALIKE_TOKENS
        if first is None or first.prefix != segments[number].prefix or not alike:
            members.append([])
        members[-1].append(number)
    order = torch.empty(starts[-1], dtype=torch.long)  # [N]
    blocks, outputs = [], 0
    for numbers in members:
        longest, prefix = segments[numbers[0]].length, segments[numbers[0]].prefix
        begins = torch.tensor([starts[number] for number in numbers])[:, None]  # [n, 1]
        lengths = torch.tensor([segments[number].length for number in numbers])[:, None]  # [n, 1]
        columns = torch.arange(longest)  # [L]
        queries = begins + torch.minimum(columns, lengths - 1)  # [n, L]
        keys = queries
        if prefix >= 0:
            before = torch.arange(starts[prefix], starts[prefix + 1])  # [P]
            keys = torch.cat([before.expand(len(numbers), -1), queries], 1)  # [n, P + L]
        real = columns < lengths  # [n, L]
        order[queries[real]] = outputs + real.flatten().nonzero()[:, 0]
        outputs += queries.numel()
        sizes = len(numbers), longest, keys.shape[1] - longest
        blocks.append(Block(queries.flatten(), keys.flatten(), sizes))
    return blocks, order


class _Pass(NamedTuple):
    packing: Packing
    implementation: str  # of the model


_passes: ContextVar[_Pass] = ContextVar("packed pass")
_windows: ContextVar[list[int | None] | None] = ContextVar("windows of layers", default=None)


@contextmanager
def noting_windows() -> Iterator[list[int | None]]:
    """The window that the attention of each layer is told of, in the packed passes of this block."""
    windows: list[int | None] = []
    token = _windows.set(windows)
    try:
        yield windows
    finally:
        _windows.reset(token)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a packed pass: each block by the model's own kernel.

    Args:
        module, query, key, value, attention_mask, options: transformers' attention interface; query (1, Hq, N, D), key
            and value (1, H, N, D), no mask.

    Returns:
        The output (1, N, Hq, D), and no weights.
    """
    packing, implementation = _passes.get()
    kernel = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, sdpa_attention_forward)
    options.pop("position_ids", None)  # from which the library would conclude how its own packing looks
    if (windows := _windows.get()) is not None:
        windows.append(options.get("sliding_window"))
    queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))  # [N, heads, D]
    outputs = []
    for block in packing.blocks:
        parts = (
            states.index_select(0, index).unflatten(0, (block.sizes[0], -1)).transpose(1, 2)
            for states, index in ((queries, block.queries), (keys, block.keys), (values, block.keys))
        )
        mask = None if implementation.startswith("flash") else _mask(block, options.get("sliding_window"), query.device)
        output, *_ = kernel(module, *parts, mask, **options)  # [n, L, Hq, D]
        outputs.append(output.flatten(0, 1))
    return torch.cat(outputs).index_select(0, packing.order)[None], None


def _mask(block: Block, window: int | None, device: torch.device) -> torch.Tensor | None:
    """[1, 1, L, P + L] bool, where a query attends to a key; None for causal attention and nothing else."""
    _, longest, prefix = block.sizes
    within = window is None or longest + prefix <= window
    if not prefix and within:
        return None
    mask = torch.ones(longest, prefix + longest, dtype=torch.bool, device=device).tril(prefix)
    if not within:
        assert window is not None  # for the type checker
        mask = mask.triu(prefix - window + 1)
    return mask[None, None]


AttentionInterface.register(PACKED, packed_attention)


def stay_uncompiled() -> None:
    """Have compiled layers call `packed_attention` as it is written: its blocks differ from pass to pass."""
    AttentionInterface.register(PACKED, torch.compiler.disable(packed_attention))


def takes_blocks(config: Any) -> bool:
    """Whether a model of this configuration can be given `packed_attention`; others make masks from positions."""
    return str(config._attn_implementation).startswith(("sdpa", "flash"))


def attending(config: Any, packing: Packing | None) -> Callable[[], AbstractContextManager[None]]:
    """Makes the blocks that passes of a model, and layers of them that are computed again, run in."""
    if packing is None or not takes_blocks(config):
        return nullcontext
    return partial(_attending, config, _Pass(packing, config._attn_implementation))


@contextmanager
def _attending(config: Any, packed: _Pass) -> Iterator[None]:
    token = _passes.set(packed)
    config._attn_implementation = PACKED
    try:
        yield
    finally:
        config._attn_implementation = packed.implementation
        _passes.reset(token)
