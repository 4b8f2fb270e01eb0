"""Chat records and trajectories in files: a line each, a row each, or a file each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rlvr.adapters.export.atif import atif_record, turn_images
from rlvr.adapters.export.chat import Record, chat_record, has_images, openai_record, whole_pairs
from rlvr.adapters.export.every_eval_ever import evaluation_record
from rlvr.adapters.export.inspect_log import write_log
from rlvr.adapters.export.otel import spans_record
from rlvr.adapters.rows import MISSING_PYARROW
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.records import COLUMN, figures_only
from rlvr.agents.evaluation.summary import USAGE
from rlvr.envs.core.files import (
    LinkRefused,
    drafted,
    make_folder,
    mark_written,
    require_new,
    require_new_folder,
    sha256_of,
    write_new,
    write_whole,
)

FORMATS = ("chat", "openai", "atif", "otel", "every-eval-ever", "inspect", "parquet")
# Forms of whole evaluations, and how their files end.
EVALUATIONS = {"every-eval-ever": ".json", "inspect": ".eval", "parquet": ".parquet"}
CHUNK = 20  # rows of Parquet that are made at once
GROUP = 16 << 20  # bytes of a row group
LARGEST = 2**63  # from which on a number does not fit into a column


def check_target(out: Path, form: str) -> None:
    """Check that a form can be written to a path, before anything is read or played.

    Raises:
        ValueError: the path's ending says another form, or a folder is not empty.
        LinkRefused: the path is a symbolic link.
    """
    if out.is_symlink():
        raise LinkRefused(f"{out} is a symbolic link, and what it leads to is not written: give another path")
    if out.suffix in (".jsonl", ".parquet") and out.is_dir():
        raise ValueError(f"{out} is a folder")
    if form == "atif":
        if out.suffix not in (".jsonl", ""):
            raise ValueError(f"trajectories are written to X.jsonl or to a folder, a file each; not {out.name!r}")
        if not out.suffix:
            require_new_folder(out)
    elif form in EVALUATIONS:
        if out.suffix != EVALUATIONS[form]:
            raise ValueError(f"{form} is written to X{EVALUATIONS[form]}, not {out.name!r}")
    elif out.suffix not in (".jsonl", ".parquet"):
        raise ValueError(f"episodes are written to X.jsonl or X.parquet, not {out.name!r}")
    if form in ("openai", "otel") and out.suffix == ".parquet":
        raise ValueError(f"{form} is JSONL: give --out X.jsonl")


def digests_beside(out: Path) -> Path:
    """The file that says what the episodes of a file in OpenAI's form were played on, which has no field for that."""
    return out.with_name(out.name + ".digests.json")


def require_new_files(out: Path, form: str, force: bool, way: str = "force=True") -> None:
    """`require_new` of all files that `write` writes; a folder is new or empty."""
    if out.suffix:
        require_new(out, force, way)
        if form == "openai":
            require_new(digests_beside(out), force, way)


def write(episodes: Iterable[Episode], out: Path, form: str, *, force: bool = False) -> int:
    """Write episodes in one of `FORMATS`; how many were written. Without any, nothing is written.

    A file is there whole or as it was before.

    Args:
        force: write over a file that nothing of ours wrote as it is now.

    Raises:
        ImportError: Parquet without pyarrow.
        ValueError: there is a file.
        OSError: it cannot be written.
    """
    require_new_files(out, form, force)
    if form == "every-eval-ever":
        held = [figures_only(episode) for episode in episodes if episode.verdict is not None]
        write_new(out, json.dumps(evaluation_record(held), indent=1) + "\n", force)
        return len(held)
    if not out.suffix:
        return _write_folder(episodes, out)
    digests: Counter[tuple[str, str | None, str]] = Counter()
    count = _write_file(_counted(episodes, digests), out, form)
    if count:
        mark_written(out)
    if count and form == "openai":
        write_new(digests_beside(out), json.dumps(_digests(digests, out), indent=1) + "\n", force)
    return count


def _counted(episodes: Iterable[Episode], digests: Counter[tuple[str, str | None, str]]) -> Iterator[Episode]:
    for episode in episodes:
        digests[episode.env_id, episode.split, episode.env_digest] += 1
        yield episode


def _digests(digests: Counter[tuple[str, str | None, str]], out: Path) -> dict[str, Any]:
    names = ("env_id", "split", "env_digest")
    tasks = [{**dict(zip(names, key, strict=True)), "episodes": count} for key, count in digests.items()]
    return {"file": out.name, "sha256": sha256_of(out), "tasks": tasks}


def _write_file(episodes: Iterable[Episode], out: Path, form: str) -> int:
    if form == "parquet":
        return _write_parquet(map(episode_row, episodes), out, episode_row(Episode("", "", 0)))
    if form == "chat":
        with _chats(episodes, out) as (records, parts, weighted):
            if out.suffix != ".parquet":
                return _write_lines(records, out)
            rows = ({**record, "tools": record["tools"] and json.dumps(record["tools"])} for record in records)
            return _write_parquet(rows, out, chat_record(Episode("", "", 0)), parts, weighted)
    if form == "inspect":
        out.parent.mkdir(parents=True, exist_ok=True)
        with suppress(_Nothing), drafted(out, "xb") as file:
            if not (count := write_log(episodes, file, out.parent)):
                raise _Nothing
        return count
    if form == "openai":
        return _write_lines((whole_pairs(openai_record(episode)) for episode in episodes), out)
    return _write_lines(map({"atif": atif_record, "otel": spans_record}[form], episodes), out)


@contextmanager
def _chats(episodes: Iterable[Episode], out: Path) -> Iterator[tuple[Iterator[Record], bool, bool]]:
    """The chat records of episodes, whether contents are parts, and whether messages have weights.

    One episode with an image decides how all contents are written, so the records wait in a file without a name.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    parts = weighted = False
    with TemporaryFile("w+", dir=out.parent, encoding="utf-8") as waiting:
        for episode in episodes:
            has_image = has_images(episode)
            parts, weighted = parts or has_image, weighted or bool(episode.examples)
            waiting.write(json.dumps(whole_pairs(chat_record(episode, parts=has_image))) + "\n")
        waiting.seek(0)
        yield (_as_parts(json.loads(line)) if parts else json.loads(line) for line in waiting), parts, weighted


def _as_parts(record: Record) -> Record:
    for message in record["messages"]:
        if isinstance(text := message["content"], str):
            message["content"] = [{"type": "text", "text": text}]
    return record


def _write_lines(records: Iterable[dict[str, Any]], out: Path) -> int:
    count = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with suppress(_Nothing), drafted(out) as file:
        for record in records:
            file.write(json.dumps(record) + "\n")
            count += 1
        if not count:
            raise _Nothing
    return count


def _write_folder(episodes: Iterable[Episode], out: Path) -> int:
    count = 0
    for count, episode in enumerate(episodes, 1):
        make_folder(out)
        images = f"{count:06d}.images"
        record = atif_record(episode, images=images)
        for name, content in turn_images(episode).items():
            make_folder(out / images)
            write_whole(out / images / name, content)
        write_whole(out / f"{count:06d}.trajectory.json", json.dumps(record, indent=1) + "\n")
    return count


def episode_row(episode: Episode) -> Record:
    """What is asked for most of an episode, each in a column, and its line of JSONL, which holds all.

    Without a valid grade ``reward`` and ``success`` are None, so that means are those of `summarise`.
    """
    named = ("env_id", "split", "level", "seed", "index", "group", "sample", "key", "env_digest")
    row = {name: getattr(episode, name) for name in named}
    verdict, model = episode.verdict, episode.agent.get("model")
    row["model"] = model if isinstance(model, str) else None
    row |= {name: getattr(episode, name) if episode.valid else None for name in ("reward", "success")}
    row |= {name: getattr(verdict, name, None) for name in ("status", "answer", "reason")}
    row |= {"turns": len(episode.turns), "sampled_tokens": episode.sampled_tokens}
    row |= {name: episode.usage.get(name) for name in (*USAGE, "ended")}
    fits = {name: None if isinstance(value, int) and abs(value) >= LARGEST else value for name, value in row.items()}
    whole: Record = whole_pairs({**fits, COLUMN: json.dumps(episode.to_dict())})
    return whole


def _write_parquet(
    rows: Iterator[Record], out: Path, names: Iterable[str], parts: bool = False, weighted: bool = False
) -> int:
    """Write rows to columns, a row group at a time."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(MISSING_PYARROW) from error
    text, whole = pa.string(), pa.int64()
    content = pa.list_(pa.struct({"type": text, "text": text, "image": text})) if parts else text
    weight = {"weight": whole} if weighted else {}
    kinds = {
        "messages": pa.list_(pa.struct({"role": text, "content": content, **weight})),
        "success": pa.bool_(),
        **dict.fromkeys(("reward", "ended", *USAGE), pa.float64()),
        **dict.fromkeys(("level", "seed", "index", "group", "sample", "turns", "tokens", "sampled_tokens"), whole),
    }
    schema, count = pa.schema([(name, kinds.get(name, text)) for name in names]), 0
    waiting: list[Any] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    with suppress(_Nothing), drafted(out, "xb") as file, pq.ParquetWriter(file, schema) as table:
        while chunk := list(islice(rows, CHUNK)):
            waiting.append(pa.Table.from_pylist(chunk, schema=schema))
            count += len(chunk)
            if sum(each.nbytes for each in waiting) >= GROUP:
                table.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            table.write_table(pa.concat_tables(waiting))
        if not count:
            raise _Nothing
    return count


class _Nothing(Exception):
    """There is nothing to write."""
