"""What makes sampling lean: a key-value cache written in place, and attention that copies no keys.

The library's own dynamic cache concatenates all keys and values anew for every token, which is a third of the
cost of sampling from a small model. Here a step writes one column and hands the model views of what is filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "rlvr_grouped"


class InPlaceLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one attention layer, (B, H, capacity, D), of which the first ``length`` columns hold.

    Args:
        capacity: columns to allocate at first; doubled when they are full.
    """

    is_sliding = False
    keys: Any
    values: Any

    def __init__(self, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for states (B, H, n, D) of the first call."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = self._allocate(key_states, self.capacity)
        self.values = self._allocate(value_states, self.capacity)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new columns, (B, H, n, D), and return views of all that are filled."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, end = self.length, self.length + key_states.shape[2]
        if end > self.capacity:
            self.capacity = max(end, 2 * self.capacity)
            self.keys, self.values = self._moved(self.keys), self._moved(self.values)
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep the sequences of these indices, in this order; an index may occur more than once."""
        self.keys, self.values = self._moved(self.keys, beam_idx), self._moved(self.values, beam_idx)

    def get_seq_length(self) -> int:
        """How many columns are filled."""
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a mask for so many new columns covers."""
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        """-1: the cache grows without bound."""
        return -1

    get_max_cache_shape = get_max_length  # what some trainers' versions of transformers call it

    def reset(self) -> None:
        """Forget all columns, for another batch in the same memory."""
        self.length = 0

    def _moved(self, states: torch.Tensor, indices: torch.Tensor | None = None) -> torch.Tensor:
        """The filled columns in new memory of the present capacity."""
        filled = states[:, :, : self.length]
        if indices is not None:
            filled = filled.index_select(0, indices)
        moved = self._allocate(filled, self.capacity)
        moved[:, :, : self.length] = filled
        return moved

    @staticmethod
    def _allocate(like: torch.Tensor, capacity: int) -> torch.Tensor:
        return like.new_empty((*like.shape[:2], capacity, like.shape[3]))


def sampling_cache(config: Any, capacity: int) -> tuple[Cache, bool]:
    """A cache for a model of this configuration, and whether it is written in place.

    Sliding windows, linear attention and the like keep a state of their own kind: a model with such layers gets
    the library's cache.
    """
    cache = DynamicCache(config=config)
    if cache.layers and all(type(layer) is DynamicLayer for layer in cache.layers):
        return Cache(layers=[InPlaceLayer(capacity) for _ in cache.layers]), True
    return cache, False


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
    """Let a model of this configuration use `grouped_attention` meanwhile, if it uses the library's sdpa."""
    if config._attn_implementation != "sdpa":
        yield
        return
    config._attn_implementation = GROUPED
    try:
        yield
    finally:
        config._attn_implementation = "sdpa"
