"""What the pages of the viewer show, as plain JSON: the server sends it, the export writes it into its file."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlvr.adapters.viewer import queries
from rlvr.adapters.viewer.evaluations import Evaluations
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.sources import FIGURES, TraceSource, curves, flattened
from rlvr.adapters.viewer.traces import ChatMessage, Trace
from rlvr.agents.evaluation.reward_hacking import find_signs, to_read
from rlvr.envs.core.json_text import load_json

Decoder = Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True, slots=True)
class RunReaders:
    """What the command line knows of a training run's folder, and this room may not import.

    Attributes:
        config: the values in ``config.yaml``.
        decoder: the texts of token ids, one each; None without the run's tokenizer.
        token_columns: further columns [T] of a raw episode record: ratio, clip, correction.
    """

    config: Callable[[Path], Any] | None = None
    decoder: Callable[[Path], Decoder | None] | None = None
    token_columns: Callable[[Path, Mapping[str, Any]], dict[str, list[float]]] | None = None


class Pages:
    """The content of every page.

    Args:
        index: the episodes.
        readers: what is known of the folders of runs.
    """

    def __init__(self, index: EpisodeIndex, readers: RunReaders | None = None) -> None:
        self.index, self._readers = index, readers or RunReaders()
        self._decoders: dict[str, Decoder | None] = {}
        self._curves: dict[str, tuple[Any, Any]] = {}
        self._signs: dict[Any, dict[str, Any]] = {}  # the last ones that were asked for
        self._evaluations = Evaluations(index)

    def state(self) -> dict[str, Any]:
        """The sources, how far the index is, and what could not be read."""
        status = queries.status(self.index.reader)
        sources = [
            {"name": source.name, "run": source.folder is not None, **status["counts"].get(source.name, _NOTHING)}
            for source in self.index.sources
        ]
        (last,) = self.index.reader.execute("SELECT COALESCE(MAX(id), 0) FROM episodes").fetchone()
        figures = [self._figure_files(source) for source in self.index.sources if source.folder is not None]
        version = f"{zlib.crc32(repr((last, sources, figures)).encode('utf-8', 'replace')):x}"
        complete = self.index.complete.is_set()
        return {"sources": sources, "complete": complete, "problems": status["problems"], "version": version}

    def evaluations(self) -> list[dict[str, Any]]:
        """Runs and files with what their episodes amount to."""
        return self._evaluations.listed()

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Work out what the first who opens an evaluation would wait for."""
        self._evaluations.prepare(stopped)

    def evaluation(self, name: str) -> dict[str, Any]:
        """One of them in full.

        Raises:
            KeyError: there is none.
        """
        return self._evaluations.page(name)

    def compared(self, names: Sequence[str]) -> dict[str, Any]:
        """Several of them side by side.

        Raises:
            KeyError, ValueError: there is none, or they are not several.
        """
        return self._evaluations.compared(names)

    def curves(self) -> dict[str, Any]:
        """Of each run the curves of its figures, and its config as values by path."""
        runs = []
        for source in self.index.sources:
            if source.folder is not None:
                series, wrong = self._series(source)
                config, config_problems = self._config(source)
                runs.append(
                    {"name": source.name, "series": series, "config": config, "problems": wrong + config_problems}
                )
        return {"runs": runs}

    def _series(self, source: TraceSource) -> Any:
        assert source.folder is not None
        state = self._figure_files(source)
        if self._curves.get(source.name, (None,))[0] != state:
            self._curves[source.name] = state, curves(source.folder)
        return self._curves[source.name][1]

    @staticmethod
    def _figure_files(source: TraceSource) -> list[tuple[int, int] | None]:
        """Of the files of a run's figures when they were written last, and how long they are."""
        assert source.folder is not None
        files = [source.folder / name for name in FIGURES]
        return [(os.stat(f).st_mtime_ns, os.stat(f).st_size) if f.is_file() else None for f in files]

    def _config(self, source: TraceSource) -> tuple[dict[str, str], list[str]]:
        assert source.folder is not None
        try:
            if (source.folder / "config.yaml").is_file() and self._readers.config is not None:
                return flattened(self._readers.config(source.folder / "config.yaml")), []
            if (source.folder / "config.json").is_file():
                return flattened(load_json((source.folder / "config.json").read_bytes())), []
        except (ValueError, OSError, ImportError) as error:
            return {}, [str(error)]
        return {}, []

    def episodes(self, filters: Mapping[str, str]) -> dict[str, Any]:
        """A part of the list of episodes; see `queries.listing`."""
        return queries.listing(self.index.reader, filters)

    def choices(self) -> dict[str, Any]:
        """The values that each filter offers, and how often each occurs."""
        return queries.choices(self.index.reader)

    def signs(self, filters: Mapping[str, str]) -> dict[str, Any]:
        """The signs of reward hacking among the episodes that the filters select.

        Phrases are looked for in at most `MAX_TEXTS` replies of each outcome.
        """
        (state,) = self.index.reader.execute("SELECT COUNT(*) || ' ' || COALESCE(MAX(id), 0) FROM episodes")
        key = (state[0], *sorted(filters.items()))
        if self._signs.get(key) is None:
            replies = queries.graded_replies(self.index.reader, filters)
            self._signs = {key: find_signs(replies, self.index.replies(to_read(replies))).to_dict()}
        return self._signs[key]

    def episode(self, number: int) -> dict[str, Any]:
        """One episode with all that is known of it.

        Raises:
            KeyError, ValueError: there is none.
        """
        trace, row = self.index.trace(number)
        fields = "source env key status reward success reason answer error parts tools notes agent usage".split()
        return {
            "row": row,
            "trace": {name: getattr(trace, name) for name in fields}
            | {name: [asdict(each) for each in getattr(trace, name)] for name in ("messages", "branches")},
            "tokens": len(trace.ids),
            "origin": self._origin(trace),
            "forks": queries.fork_tree(self.index.reader, row["id"]),
            **queries.neighbours(self.index.reader, row),
        }

    def _origin(self, trace: Trace) -> dict[str, Any] | None:
        """Where a fork comes from, with the ``id`` of that episode where it is in the index."""
        origin = trace.forked_from
        if not origin:
            return None
        episode = self.index.reader.execute(
            "SELECT episodes.id FROM episodes JOIN files ON files.id = file WHERE path = ? AND number = ?",
            (origin["file"], (origin["line"] or 0) - 1),
        ).fetchone()
        return origin | {"id": episode[0] if episode else None}

    def tokens(self, number: int) -> dict[str, Any]:
        """The tokens of an episode: ids, texts where the tokenizer is there, and columns by name, all [T].

        They are no part of `episode`: ratio, clip and correction are computed by the training code, which takes long to
        import.

        Raises:
            KeyError, ValueError: there is no such episode.
        """
        trace, row = self.index.trace(number)
        source = next((source for source in self.index.sources if source.name == row["source"]), None)
        problems: list[str] = []
        columns = dict(trace.columns)
        if source is not None and source.folder is not None and trace.source == "rlvr" and trace.notes:
            columns |= self._more_columns(source.folder, number, problems)
        return {
            "ids": trace.ids,
            "texts": self._texts(source, trace, problems),
            "columns": columns,
            "problems": problems,
        }

    def group(self, number: int) -> dict[str, Any]:
        """All samples of an episode's group, and where the first of them differ.

        Raises:
            KeyError, ValueError: there is none.
        """
        _, row = self.index.trace(number)
        rows = queries.neighbours(self.index.reader, row)["group"]
        traces = [self.index.trace(each["id"])[0] for each in rows]
        texts = [_written(trace.messages) for trace in traces]
        shared = common_prefix(texts)
        tokens = [sampled_ids(trace) for trace in traces]
        return {
            "samples": [
                {"row": each, "text": text, "reason": trace.reason, "parts": trace.parts}
                for each, text, trace in zip(rows, texts, traces, strict=True)
            ],
            "prompt": [asdict(m) for m in traces[0].messages[: _first_action(traces[0])]],
            "shared_characters": shared,
            "first_differing_token": common_prefix(tokens) if len(tokens) > 1 and all(tokens) else None,
        }

    def _more_columns(self, folder: Path, number: int, problems: list[str]) -> dict[str, list[float]]:
        if self._readers.token_columns is None:
            return {}
        try:
            return self._readers.token_columns(folder, self.index.raw(number))
        except (ValueError, KeyError, TypeError, ImportError, OSError) as error:
            problems.append(f"ratio, clip and correction cannot be computed: {error}")
            return {}

    def _texts(self, source: TraceSource | None, trace: Trace, problems: list[str]) -> list[str] | None:
        if source is None or source.folder is None or self._readers.decoder is None or not trace.ids:
            return None
        try:
            if self._decoders.get(source.name) is None:  # a run writes its tokenizer at its end
                self._decoders[source.name] = self._readers.decoder(source.folder)
            decode = self._decoders[source.name]
            return decode(trace.ids) if decode is not None else None
        except (ValueError, OSError, ImportError, OverflowError, TypeError) as error:
            problems.append(f"the tokens' texts cannot be read: {error}")
            return None


_NOTHING = {"episodes": 0, "successes": 0, "judged": 0}


def _first_action(trace: Trace) -> int:
    actions = (index for index, message in enumerate(trace.messages) if message.is_action)
    return next(actions, len(trace.messages))


def _written(messages: Sequence[ChatMessage]) -> str:
    """Everything from the first action on, as text."""
    parts = []
    for message in messages:
        if message.is_action:
            thinking = f"<think>{message.reasoning}</think>" if message.reasoning else ""
            calls = "".join(f"\n→ {call['name']}({call['arguments']})" for call in message.calls)
            parts.append(thinking + message.text + calls)
        elif parts:
            parts.append(f"[{message.role}] {message.text}")
    return "\n".join(parts)


def sampled_ids(trace: Trace) -> list[int]:
    """The ids of the tokens that the policy sampled."""
    mask = trace.columns.get("mask", [])
    return [token for token, on in zip(trace.ids, mask, strict=False) if on]


def common_prefix(sequences: Sequence[Sequence[Any]]) -> int:
    """How many first entries all sequences share."""
    if not sequences:
        return 0
    shortest = min(map(len, sequences))
    first = sequences[0]
    for position in range(shortest):
        if any(sequence[position] != first[position] for sequence in sequences):
            return position
    return shortest
