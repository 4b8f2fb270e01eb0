"""Which version of a model it is: the commit of one from the hub, a digest of the weights in a folder."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

PIECES, PIECE = 64, 1 << 16  # of each file of weights


def revision_of(name: str) -> str | None:
    """The commit of a model of the hub, or 16 hexadecimal digits that change with the weights in a folder.

    Of each file of weights its size and 64 pieces of 64 KiB are read, so that a large model is told apart at once.
    None for a model that is built on the spot, or of which nothing is here.
    """
    folder = Path(name)
    if folder.is_dir():
        files = sorted(file for file in folder.iterdir() if file.suffix in (".safetensors", ".bin") and file.is_file())
        return _digest(files) if files else None
    try:
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(name, "config.json")
    except (ImportError, ValueError):  # no hub here, or no name of it
        return None
    return Path(config).parent.name if isinstance(config, str) else None


def _digest(files: list[Path]) -> str:
    digest = blake2b(digest_size=8)
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as weights:
            for number in range(PIECES):
                weights.seek(max(0, size - PIECE) * number // (PIECES - 1))
                digest.update(weights.read(PIECE))
    return digest.hexdigest()
