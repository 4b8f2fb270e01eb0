"""The texts of a run's tokens, by its tokenizer alone: no model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rlvr.algorithms.config import TrainConfig, load_config


def decoder(run: Path) -> Callable[[Sequence[int]], list[str]] | None:
    """The texts of token ids, one each, by the tokenizer of the run's policy; None where it is not on this machine.

    It is the one that the run saved at its end, the one beside the model that it began with, or the embedded policy's.

    Raises:
        ValueError: the tokenizer cannot be read.
    """
    from tokenizers import Tokenizer

    config = config_of(run) if (run / "config.yaml").is_file() else None
    folders = [run / "policy", *([Path(config.model.name)] if config is not None else [])]
    saved = next((path for folder in folders if (path := folder / "tokenizer.json").is_file()), None)
    if saved is not None:
        try:
            backend = Tokenizer.from_file(str(saved))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{saved} is no tokenizer: {error}") from error
    elif config is not None and config.model.name == "rlvr/tiny":
        from rlvr.agents.models.tiny import WORDS, tiny_tokenizer

        backend = tiny_tokenizer((*WORDS, *config.model.words)).backend_tokenizer
    else:
        return None

    def decode(ids: Sequence[int]) -> list[str]:
        known = backend.get_vocab_size()
        texts: list[str] = backend.decode_batch(
            [[token] if 0 <= token < known else [] for token in ids], skip_special_tokens=False
        )
        return texts

    return decode


def config_of(run: Path) -> TrainConfig:
    """The config in a run's folder."""
    return load_config(run / "config.yaml")
