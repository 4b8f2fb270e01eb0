"""Text: the space of unicode strings up to a length.

Gymnasium's own ``Text`` is a character-set space: its default refuses "2+2=4". This one takes any text, and teaches
Gymnasium's asynchronous vector environment to carry it through shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import c_uint8
from typing import Any

import gymnasium as gym
from gymnasium.vector.utils.shared_memory import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.vector.utils.space_utils import create_empty_array

# What `sample` draws from: ASCII, accents, other scripts, an emoji, white space.
ALPHABET = [chr(c) for c in range(32, 127)] + list("\n\t éüßñ中文日本語кириллица∑√½🙂")


class Text(gym.Space[str]):
    """Any unicode text of at most ``max_length`` characters.

    ``sample`` draws a short text (up to ``sample_length`` characters) from a wide alphabet. Two spaces are equal
    when their lengths are, whatever their seeds.
    """

    def __init__(self, max_length: int = 100_000, *, sample_length: int = 64, seed: int | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.max_length = max_length
        self.sample_length = min(sample_length, max_length)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Texts have no array form of a fixed size."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A random text; ``mask`` and ``probability`` must be None."""
        if mask is not None or probability is not None:
            raise ValueError("a Text space has no masks: filter the sampled text instead")
        letters = self.np_random.integers(len(ALPHABET), size=self.np_random.integers(1, self.sample_length + 1))
        return "".join(ALPHABET[i] for i in letters)

    def contains(self, x: Any) -> bool:
        """Whether it is a text that is no longer than ``max_length``."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Text(max_length={self.max_length})"


class SharedTexts(Sequence[str]):
    """The observations of n processes, read from shared memory when asked for.

    Gymnasium reads text from shared memory once, when the vector environment is built; a view stays true.
    A deep copy (what ``AsyncVectorEnv(copy=True)`` hands out) is a plain tuple of strings.
    """

    def __init__(self, buffers: tuple[Any, ...]) -> None:
        self._buffers = buffers

    def __len__(self) -> int:
        return len(self._buffers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        raw = memoryview(self._buffers[index].get_obj()).cast("B")
        length = int.from_bytes(raw[:8], "little")
        return bytes(raw[8 : 8 + length]).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@create_empty_array.register(Text)
def _empty_texts(space: Text, n: int = 1, fn: Any = None) -> tuple[str, ...]:
    return ("",) * n


@create_shared_memory.register(Text)
def _create_text(space: Text, n: int = 1, ctx: Any = None) -> tuple[Any, ...]:
    return tuple(ctx.Array(c_uint8, 8 + 4 * space.max_length) for _ in range(n))


@read_from_shared_memory.register(Text)
def _read_text(space: Text, shared_memory: tuple[Any, ...], n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory)


@write_to_shared_memory.register(Text)
def _write_text(space: Text, index: int, value: str, shared_memory: tuple[Any, ...]) -> None:
    data = value.encode("utf-8", "surrogatepass")
    raw = memoryview(shared_memory[index].get_obj()).cast("B")
    if 8 + len(data) > len(raw):
        raise ValueError(f"an observation of {len(value)} characters does not fit {space}; raise max_length")
    raw[:8] = len(data).to_bytes(8, "little")
    raw[8 : 8 + len(data)] = data
