"""Observations with an image beside the text, and images as PNG: what crosses into a file or over a wire.

An observation is a text, or ``{"text": str, "image": array [H, W, 3] of uint8}``. The functions here take both, so that
what handles texts need not ask which one it has.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rlvr.envs.core.spaces import Text

Image = np.ndarray[Any, np.dtype[np.uint8]]
DATA_URL = "data:image/png;base64,"
MAX_PIXELS = 1 << 24  # of an image that is read
MISSING = 'images need Pillow, which is not installed: pip install "rlvr[visual]"'


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


def require_pillow() -> Any:
    """Pillow's module of images.

    Raises:
        ImportError: it is missing; names the extra that brings it.
    """
    try:
        import PIL.Image
    except ImportError:
        raise ImportError(MISSING) from None
    return PIL.Image


def write_png(image: Image) -> bytes:
    """An image [H, W, 3] of uint8 as a PNG file.

    Raises:
        ImportError: Pillow is missing.
        ValueError: another shape or type.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(f"an image is an array [H, W, 3] of uint8, got {image.dtype} {list(image.shape)}")
    file = io.BytesIO()
    require_pillow().fromarray(image).save(file, "PNG")
    return file.getvalue()


def read_png(data: bytes) -> Image:
    """The image in a PNG file, as [H, W, 3] of uint8.

    Raises:
        ImportError: Pillow is missing.
        ValueError: it is no PNG file, broken, or larger than 2^24 pixels.
    """
    pillow = require_pillow()
    try:
        with pillow.open(io.BytesIO(data), formats=("PNG",)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels are too many")
            return np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:  # Pillow raises all of these
        raise ValueError(f"not a PNG file that can be read: {error}") from None


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
