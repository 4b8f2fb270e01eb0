"""Observations with an image beside the text, and images as PNG: what crosses into a file or over a wire.

An observation is a text, or ``{"text": str, "image": array [H, W, 3] of uint8}``. The functions here take both, so that
what handles texts need not ask which one it has.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rlvr.envs.core.spaces import Text

Image = np.ndarray[Any, np.dtype[np.uint8]]
SIGNATURE = b"\x89PNG\r\n\x1a\n"
DATA_URL = "data:image/png;base64,"
MAX_PIXELS = 1 << 24  # of an image that is read


def observation_space(image: tuple[int, int, int] | None) -> gym.Space[Any]:
    """The space of texts, or of texts beside images [H, W, 3]."""
    if image is None:
        return Text()
    return gym.spaces.Dict({"text": Text(), "image": gym.spaces.Box(0, 255, image, np.uint8)})


def text_space(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space of an observation's text."""
    return space["text"] if isinstance(space, gym.spaces.Dict) else space


def text_of(observation: Any) -> str:
    """What an observation says."""
    text: str = observation["text"] if isinstance(observation, Mapping) else observation
    return text


def image_of(observation: Any) -> Image | None:
    """What it shows; None for a text alone."""
    return observation["image"] if isinstance(observation, Mapping) else None


def with_text(observation: Any, text: str) -> Any:
    """The observation with other words, beside the same image if there is one."""
    return {**observation, "text": text} if isinstance(observation, Mapping) else text


def write_png(image: Image) -> bytes:
    """An image [H, W, 3] of uint8 as a PNG file.

    Raises:
        ValueError: another shape or type.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(f"an image is an array [H, W, 3] of uint8, got {image.dtype} {list(image.shape)}")
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a byte before each row names its filter: none
    rows[:, 1:] = image.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green and blue
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + _chunk(b"IEND", b"")


def read_png(data: bytes) -> Image:
    """The image in a file that `write_png` wrote.

    Raises:
        ValueError: it is no such file; other kinds of PNG are Pillow's to read.
    """
    try:
        if data[:8] != SIGNATURE or data[12:16] != b"IHDR" or data[37:41] != b"IDAT":
            raise ValueError("another signature, or other chunks")
        width, height, *kind = struct.unpack(">IIBBBBB", data[16:29])
        if kind != [8, 2, 0, 0, 0] or not 0 < width * height <= MAX_PIXELS:
            raise ValueError("another kind of image, or too large")
        (length,) = struct.unpack(">I", data[33:37])
        size = height * (1 + 3 * width)
        raw = zlib.decompressobj().decompress(data[41 : 41 + length], size + 1)
        rows = np.frombuffer(raw, np.uint8)
        if rows.size != size or rows[:: 1 + 3 * width].any():
            raise ValueError("filtered, or not of its own size")
    except (ValueError, struct.error, zlib.error) as error:
        raise ValueError(f"not a PNG file of ours: {error}") from None
    return rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3).copy()


def data_url(image: Image) -> str:
    """An image as the text of a PNG: what chat endpoints take, and what records hold."""
    return DATA_URL + base64.b64encode(write_png(image)).decode("ascii")


def url_of(observation: Any) -> str:
    """An observation's image as a data URL; "" where it has none."""
    image = image_of(observation)
    return "" if image is None else data_url(image)


def read_data_url(url: str) -> Image:
    """The image of what `data_url` wrote.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(url, str) or not url.startswith(DATA_URL):
        raise ValueError(f"an image is a text that begins with {DATA_URL}, got {url!r:.40}")
    return read_png(base64.b64decode(url[len(DATA_URL) :], validate=True))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
