"""Search: BM25 over documents, by bm25s (arXiv 2407.03618), or nearness of embeddings; reading documents from files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from rlvr.envs.core.tables import DataError
from rlvr.envs.endpoint import Endpoint, EndpointError, call

MAX_QUERY = 1_000
MAX_HITS = 20
SUFFIXES: Final = (".txt", ".md", ".rst")
BATCH: Final = 32  # texts that are embedded with one call
MAX_EMBEDDED: Final = 8_000  # characters of a document that are embedded


class Document(NamedTuple):
    """A title, by which it is read, and a text."""

    title: str
    text: str


def load_documents(path: str | Path) -> list[Document]:
    """Documents of a folder, or of a JSONL file.

    Of a folder every ``.txt``, ``.md`` and ``.rst`` file at any depth, titled by its path in the folder. Of a JSONL
    file a document a line, an object with a ``title`` and a ``text``.

    Raises:
        FileNotFoundError: there is no such folder or file.
        DataError: nothing is there, or something that is no document; the message names the file and the line.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES and each.is_file())
        documents = [Document(each.relative_to(path).as_posix(), _text_of(each)) for each in files]
        if not documents:
            raise DataError(f"{path} has no file that ends in {', '.join(SUFFIXES)}")
        return documents
    if not path.exists():
        raise FileNotFoundError(f"there is no folder or file {path}")
    lines = enumerate(_text_of(path).split("\n"), 1)
    documents = [_document(line, f"{path}, line {number}") for number, line in lines if line.strip()]
    if not documents:
        raise DataError(f"{path} holds no document")
    return documents


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} is no UTF-8 text") from None


def _document(line: str, where: str) -> Document:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: no JSON") from None
    title, text = (row.get("title"), row.get("text")) if isinstance(row, dict) else (None, None)
    if not isinstance(title, str) or not isinstance(text, str) or not title.strip():
        raise DataError(f'{where}: a document is an object with a "title" and a "text", both texts')
    return Document(title, text)


def require_bm25() -> Any:
    """The package ``bm25s``.

    Raises:
        ModuleNotFoundError: it is missing; the message names the extra.
    """
    hidden = "jax" not in sys.modules
    if hidden:  # bm25s computes with JAX as it is imported, which takes three quarters of a GPU; it can do without
        sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        import bm25s
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('searching needs the tools extra: pip install "rlvr[tools]"') from error
    finally:
        if hidden:
            del sys.modules["jax"]
    return bm25s


class Index:
    """BM25 over the titles and texts of documents; the same query gives the same ranking on every machine.

    Raises:
        ModuleNotFoundError: bm25s is missing; the message names the extra.
        ValueError: there is no document, or two have one title.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        bm25s = require_bm25()
        if not documents:
            raise ValueError("there is no document to search in")
        self.documents = documents
        self.by_title = {document.title: document for document in documents}
        if len(self.by_title) != len(documents):
            raise ValueError("two documents have the same title")
        self._tokenize = bm25s.tokenize
        self._ranker: Any = bm25s.BM25()
        texts = [f"{document.title}\n{document.text}" for document in documents]
        self._ranker.index(self._tokens(texts), show_progress=False)

    def search(self, query: str, count: int = 5) -> list[Document]:
        """The best documents for a query, best first, at most ``count``; none that shares no word with it."""
        count = max(0, min(count, MAX_HITS, len(self.documents)))
        (words,) = self._tokens([query[:MAX_QUERY]], ids=False)
        indexed = [word for word in words if word in self._ranker.vocab_dict]
        if not indexed or not count:
            return []
        # Rounded before they are compared: the last bits of a sum depend on the processor.
        scores = np.round(self._ranker.get_scores(indexed), 4)
        hits = np.flatnonzero(scores > 0)
        if len(hits) > count:  # only the best are put in order
            hits = hits[scores[hits] >= np.partition(scores[hits], -count)[-count]]
        best = hits[np.argsort(-scores[hits], kind="stable")[:count]]
        return [self.documents[index] for index in best]

    def _tokens(self, texts: list[str], ids: bool = True) -> Any:
        return self._tokenize(texts, stopwords="en", return_ids=ids, show_progress=False)


class DenseIndex:
    """Nearness of embeddings that an OpenAI-compatible endpoint makes, by their cosine.

    The documents are embedded here and now, a query when it is asked.

    Raises:
        EndpointError: the endpoint does not answer, or with something that is no embedding.
        ValueError: there is no document, or two have one title.
    """

    def __init__(self, documents: Sequence[Document], endpoint: Endpoint) -> None:
        if not documents:
            raise ValueError("there is no document to search in")
        self.documents = documents
        self.by_title = {document.title: document for document in documents}
        if len(self.by_title) != len(documents):
            raise ValueError("two documents have the same title")
        self.endpoint = endpoint
        texts = [f"{document.title}\n{document.text}"[:MAX_EMBEDDED] for document in documents]
        parts = [embed(endpoint, texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        if len({part.shape[1] for part in parts}) != 1:
            raise EndpointError(f"{endpoint.address('/embeddings')} gave embeddings of different lengths")
        self._rows = np.concatenate(parts)

    def search(self, query: str, count: int = 5) -> list[Document]:
        """The nearest documents to a query, nearest first, at most ``count``."""
        count = max(0, min(count, MAX_HITS, len(self.documents)))
        if not query.strip() or not count:
            return []
        (row,) = embed(self.endpoint, [query[:MAX_QUERY]])
        if row.shape != self._rows.shape[1:]:
            raise EndpointError(f"{self.endpoint.address('/embeddings')} gave an embedding of another length")
        best = np.argsort(-np.round(self._rows @ row, 6), kind="stable")[:count]
        return [self.documents[index] for index in best]


def embed(endpoint: Endpoint, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The embeddings of texts as rows of length 1, ``[N, dimensions]``.

    Raises:
        EndpointError: the endpoint does not answer, or with something that is no embedding.
    """
    reply = call(endpoint, "/embeddings", {"model": endpoint.model, "input": list(texts)})
    try:
        rows = sorted(reply["data"], key=lambda row: row["index"])
        values = np.array([row["embedding"] for row in rows], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim != 2 or len(values) != len(texts) or not values.shape[1] or not np.isfinite(values).all():
        raise EndpointError(f"{endpoint.address('/embeddings')} gave no embedding for each of {len(texts)} texts")
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    normed: np.ndarray[Any, np.dtype[np.float64]] = values / np.where(lengths > 0, lengths, 1.0)
    return normed
