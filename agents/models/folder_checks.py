"""What is wrong with a model's folder, found before its weights are read: each a sentence that says what to do."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

from rlvr.envs.core.json_text import load_json

MAX_HEADER: Final = 100_000_000  # bytes; safetensors' own bound


class UnfitModel(ValueError):
    """A model that cannot be used; the message says what to do."""


def check_format(name: str) -> None:
    """Check that a name is no GGUF file, nor a folder with no other weights.

    Raises:
        UnfitModel: it is.
    """
    path = Path(name).expanduser()
    if path.suffix == ".gguf" or (path.is_dir() and any(path.glob("*.gguf")) and not any(path.glob("*.safetensors"))):
        raise UnfitModel(
            f"{name} holds a GGUF file, which is not trained here, as transformers makes other tokens of some of them: "
            "take the model's folder in the format of transformers, or convert the file as benchmarks/smollm2.py does"
        )


def check_folder(name: str) -> None:
    """Check the files of a model; a name on the hub is left to transformers.

    Raises:
        UnfitModel: code of its own, or weights that are cut short.
    """
    path = Path(name).expanduser()
    if not path.is_dir():
        return
    config = _json(path / "config.json")
    if isinstance(config.get("auto_map"), dict) and not _in_transformers(config.get("model_type")):
        raise UnfitModel(
            f"model {name!r} is of type {config.get('model_type')!r}, whose code is its own (auto_map in config.json) "
            "and never run here: take a model that transformers has the code of"
        )
    for file in sorted(path.glob("*.safetensors")):
        if fault := torn(file):
            raise UnfitModel(f"{file} {fault}: copy or download it again")


def check_sizes(name: str, max_length: int) -> None:
    """Check that a folder's model can hold an episode.

    Raises:
        UnfitModel: its context is shorter than ``max_length``.
    """
    config = _json(Path(name).expanduser() / "config.json")
    inner = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    context = inner.get("max_position_embeddings")
    if type(context) is int and 0 < context < max_length:
        raise UnfitModel(
            f"sampling.max_length {max_length} is more than the {context} tokens that {name} was made for: lower "
            "it, or take a model with a longer context"
        )


def check_vocabulary(name: str, tokenizer: Any, size: int) -> None:
    """Check that each id of a tokenizer has an embedding.

    Args:
        size: rows of the model's embeddings.

    Raises:
        UnfitModel: the tokenizer is of another model.
    """
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= size:
        raise UnfitModel(
            f"the tokenizer of {name} has ids up to {largest}, and the model has embeddings for {size} alone: it is "
            "another model's tokenizer, or tokens were added without resizing the embeddings"
        )


def torn(file: Path) -> str:
    """How a safetensors file differs from what its header says; "" where it is whole. Reads the header alone."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        prefix = opened.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 0 < length <= min(MAX_HEADER, size - 8):
            return f"is no whole safetensors file ({size} bytes)"
        try:
            header = load_json(opened.read(length).decode("utf-8"))
            ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
            missing = 8 + length + max(ends, default=0) - size
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return "has a header that is no safetensors header"
    return f"is cut short: {missing} bytes are missing" if missing > 0 else ""


def _json(path: Path) -> dict[str, Any]:
    try:
        value = load_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # transformers says what is wrong with it
    return value if isinstance(value, dict) else {}


def _in_transformers(kind: Any) -> bool:
    from transformers import CONFIG_MAPPING

    return isinstance(kind, str) and kind in CONFIG_MAPPING
