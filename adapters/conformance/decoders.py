"""What decodes a gateway's ids: the model's tokenizer, or the gateway itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr.adapters.conformance.client import GatewayClient
from rlvr.envs.core.json_text import load_json

FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")


class TokenizerDecoder:
    """Decodes by a tokenizer of transformers.

    Attributes:
        end_ids: the tokenizer's end-of-sequence token, that of ``generation_config.json``, and the one that its chat
            template puts behind a reply.
        markers: the spellings of its special tokens.

    Args:
        name: the folder of a model, or ``rlvr/tiny``.

    Raises:
        ImportError: transformers is missing.
        ValueError: there is no tokenizer in that folder.
    """

    def __init__(self, name: str) -> None:
        self._tokenizer = _load(name)
        self.markers = [str(token) for token in self._tokenizer.all_special_tokens]
        ends = {self._tokenizer.eos_token_id, *_generation_ends(Path(name)), self._template_end()}
        self.end_ids = frozenset(end for end in ends if isinstance(end, int))

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str | None:
        """The text; None where an id is none of the tokenizer's."""
        if any(not 0 <= token < len(self._tokenizer) for token in ids):
            return None
        text = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False)
        return str(text)

    def _template_end(self) -> int | None:
        """The special token behind a reply in a rendered conversation."""
        turns = [{"role": "user", "content": "Question"}, {"role": "assistant", "content": "Reply"}]
        try:
            text = self._tokenizer.apply_chat_template(turns, tokenize=False)
        except Exception:  # no template, or one that refuses: its end stays unknown
            return None
        behind = str(text).rpartition("Reply")[2]
        ids = self._tokenizer.encode(behind, add_special_tokens=False)
        return next((token for token in ids if token in self._tokenizer.all_special_ids), None)


class GatewayDecoder:
    """Decodes by the gateway's own ``/detokenize``, which keeps special tokens: vLLM's."""

    end_ids: frozenset[int] = frozenset()

    def __init__(self, client: GatewayClient) -> None:
        self._client = client

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str | None:
        """The text with special tokens; None without them, or where the gateway decodes nothing."""
        return None if skip_special else self._client.detokenize(ids)


def _load(name: str) -> Any:
    if name == "rlvr/tiny":
        from rlvr.agents.models.tiny import tiny_tokenizer

        return tiny_tokenizer()
    folder = Path(name)
    if not any((folder / file).is_file() for file in FILES):
        raise ValueError(f"--tokenizer {name} is no folder with a tokenizer: it has none of {', '.join(FILES)}")
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise ImportError('--tokenizer needs transformers: pip install "rlvr[train]"') from error
    return AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)


def _generation_ends(folder: Path) -> list[Any]:
    file = folder / "generation_config.json"
    ends = load_json(file.read_text(encoding="utf-8")).get("eos_token_id") if file.is_file() else None
    return ends if isinstance(ends, list) else [ends]
