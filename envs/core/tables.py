"""One loader for data sets: an explicit path, then the folder named by RLVR_DATA, then the hub. Nothing is shipped.

Files are read row by row, so that the first rows of a large table cost no more than themselves; from the hub they
are streamed when there is a limit. Columns of other names, nested ones too, are mapped to those that are expected.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.json_text import load_json, load_json_or_literal
from rlvr.envs.core.parquet_rows import scan_batches

MAX_RATIO = 100  # that a compressed file may grow by; texts grow by 3 to 10, rows of one template by 40
MIN_INFLATED = 64 << 20  # bytes that any file may grow to
ROW_BYTES = 256  # of memory that a row takes beside its values
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".csv", ".json")
SPARE = "fields without a column"  # where the csv module puts what a row has too much of
HUB_PATIENCE = 5.0  # seconds until a hub that does not answer counts as out of reach


class DataError(ValueError):
    """Rows that cannot be had, or are not what they should be."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a data set lives.

    Attributes:
        folder: its folder under the one that RLVR_DATA names.
        hub: its name on the hub; None for one that is nowhere to be had.
        revision: the commit that the hub is asked for; a branch name is no pin.
        columns: what every row must have.
        config: the hub's configuration name.
        optional: columns that a row may have.
        names: what the data set itself calls a column, where that differs.
        splits: our name of a split to the hub's, where they differ.
        files: names without ending that a file may have in its folder, tried in this order; ``{split}`` and
            ``{config}`` are filled in.
        access: how to get access, for a data set that is not open to everybody or not on the hub.
    """

    folder: str
    hub: str | None
    revision: str
    columns: tuple[str, ...]
    config: str | None = None
    optional: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ("{split}",)
    access: str = ""


def load_rows(
    source: Source,
    split: str,
    data_files: str | os.PathLike[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    limit: int | None = None,
    packaged: Iterable[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a split, in the order of the file.

    Args:
        source: where the data set lives, and the columns it must have.
        split: which of its splits.
        data_files: a file (.jsonl, .jsonl.gz, .parquet, .csv, .json), or a folder that holds ``<split>`` with one of
            these endings.
        columns: the column of the table for an expected one, ``{"question": "problem"}``; a path of keys and
            positions reaches into nested ones, ``{"answer": "reward_model.ground_truth"}``.
        where: only rows whose column has this value, or one of these values; compared as text.
        limit: only so many rows from the start, of those that ``where`` lets through; no more is read.
        packaged: rows that an installed package has, asked in the hub's stead.

    Raises:
        DataError: nothing was found in any of the three ways, the table is empty, or a column is missing.
        ValueError: a setting makes no sense.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"limit must be a whole number from 1, got {limit!r}")
    mapping = _checked_mapping(source, columns)
    path = locate(source, split, data_files)
    location = str(path or source.hub or source.folder)
    # Without a limit all of it is needed: then the hub's files are better kept than streamed.
    all_rows: Iterable[Mapping[str, Any]]
    if path is not None:
        all_rows = scan_table(path)
    elif packaged is not None:
        all_rows = packaged
    else:
        all_rows = _from_hub(source, split, stream=limit is not None)
    rows = list(islice(_fitting(_mapped(all_rows, source, mapping, location), where, location), limit))
    if not rows:
        chosen = f" where {', '.join(f'{name} is {value!r}' for name, value in where.items())}" if where else ""
        raise DataError(f"{location} has no rows{chosen}")
    return rows


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of one file.

    Raises:
        DataError: the ending is unknown, or the content is not what the ending says.
    """
    return list(scan_table(path))


def scan_table(path: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """``read_table``, one row at a time, from row ``start`` on, which costs Parquet little to find."""
    name = path.name
    readers = {
        ".jsonl": _scan_jsonl,
        ".jsonl.gz": _scan_jsonl,
        ".csv": _scan_csv,
        ".parquet": _scan_parquet,
        ".json": _scan_json,
    }
    reader = next((reader for ending, reader in readers.items() if name.endswith(ending)), None)
    if reader is None:
        raise DataError(f"cannot read {path}: its ending is none of {', '.join(SUFFIXES)}")
    try:
        yield from _scan_parquet(path, start) if reader is _scan_parquet else islice(reader(path), start, None)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error


# the columns that are expected


def _checked_mapping(source: Source, columns: Mapping[str, str] | None) -> dict[str, str]:
    fields = source.columns + source.optional
    if not isinstance(columns, Mapping | None) or not all(isinstance(name, str) for name in (columns or {}).values()):
        raise ValueError(f"columns maps expected names to the table's, got {columns!r}")
    for name in columns or ():
        if name not in fields:
            raise ValueError(f"columns maps no {name!r}{did_you_mean(name, fields, 'it maps')}")
    return {**source.names, **(columns or {})}


def _mapped(
    rows: Iterable[Mapping[str, Any]], source: Source, mapping: dict[str, str], location: str
) -> Iterator[dict[str, Any]]:
    for number, raw in enumerate(rows):
        row = dict(raw) | {name: look_up(raw, column) for name, column in mapping.items()}
        missing = [mapping.get(column, column) for column in source.columns if row.get(column) is None]
        if missing:
            is_empty = missing[0] in raw
            others = ", whose column is empty there" if is_empty else did_you_mean(missing[0], map(str, raw), "it has")
            raise DataError(f"row {number} of {location} lacks {', '.join(missing)}{others}")
        yield row


def look_up(row: Mapping[str, Any], path: str) -> Any:
    """A column, or what a path of keys and positions leads to in nested ones and in texts of JSON or Python literals;
    None if there is nothing.

    >>> look_up({"prompt": [{"content": "1 + 1?"}]}, "prompt.0.content")
    '1 + 1?'
    """
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if isinstance(value, str) and value[:1] in ("{", "["):
            with suppress(ValueError):
                value = load_json_or_literal(value)
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _fitting(
    rows: Iterable[dict[str, Any]], where: Mapping[str, Any] | None, location: str
) -> Iterator[dict[str, Any]]:
    wanted = {
        name: {str(value) for value in (values if isinstance(values, list | tuple | set) else [values])}
        for name, values in (where or {}).items()
    }
    for row in rows:
        if unknown := [name for name in wanted if look_up(row, name) is None and name not in row]:
            others = did_you_mean(unknown[0], map(str, row), "it has")
            raise DataError(f"{location} has no column {unknown[0]!r} to choose by{others}")
        if all(str(look_up(row, name)) in values for name, values in wanted.items()):
            yield row


# files


def locate(source: Source, split: str, data_files: str | os.PathLike[str] | None = None) -> Path | None:
    """The file that a split is read from; None when only the hub is left.

    Raises:
        DataError: ``data_files`` is given, and nothing is there.
    """
    if data_files is not None:
        path = Path(data_files).expanduser()
        if path.is_file():
            return path
        path_in_folder = _in_folder(path, source, split)
        if path_in_folder is None:
            raise DataError(f"data_files={str(data_files)!r}: no such file, nor a folder that holds {split}.jsonl")
        return path_in_folder
    root = os.environ.get("RLVR_DATA")
    return _in_folder(Path(root).expanduser() / source.folder, source, split) if root else None


def has_rows(source: Source, split: str, data_files: str | os.PathLike[str] | None) -> bool:
    """Whether ``data_files`` holds a split: a folder a file of it, a single file by its name. True for no files: where
    RLVR_DATA and the hub are asked, reading says what is missing."""
    if data_files is None:
        return True
    path = Path(data_files).expanduser()
    return path.name.partition(".")[0] == split if path.is_file() else _in_folder(path, source, split) is not None


def _in_folder(folder: Path, source: Source, split: str) -> Path | None:
    names = [stem.replace("{split}", split).replace("{config}", source.config or "") for stem in source.files]
    paths = (folder / f"{name}{end}" for name in names for end in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _scan_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.name.endswith(".gz") else open
    left = _inflated_bytes(path)
    with opener(path, "rb") as file:
        number = 0
        while content := file.readline(left + 1):
            left -= len(content) + ROW_BYTES
            if left < 0:
                raise _inflates_too_far(path)
            number += 1
            line = content.decode("utf-8-sig" if number == 1 else "utf-8")  # some editors put a byte order mark first
            if not line.strip():
                continue
            try:
                row = load_json(line)
            except ValueError as error:
                raise DataError(f"line {number} of {path} is not JSON: {error}") from error
            if not isinstance(row, Mapping):
                raise DataError(f"line {number} of {path} is not a JSON object")
            yield dict(row)


def _scan_json(path: Path) -> Iterator[dict[str, Any]]:
    try:
        rows = load_json(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"{path} is not a list of JSON objects")
    yield from map(dict, rows)


def _scan_csv(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            for number, row in enumerate(csv.DictReader(file, restkey=SPARE)):
                if SPARE in row:
                    raise DataError(f"row {number} of {path} has more fields than there are columns: quote its commas")
                yield row
        except csv.Error as error:
            raise DataError(f"cannot read {path}: {error}") from error


def _scan_parquet(path: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    left = _inflated_bytes(path)
    try:
        for rows, size in scan_batches(path, start):
            left -= size + ROW_BYTES * len(rows)
            if left < 0:
                raise _inflates_too_far(path)
            yield from rows
    except ModuleNotFoundError as error:
        raise DataError(f'reading {path} needs the hub extra: pip install "rlvr[hub]"') from error


def _inflated_bytes(path: Path) -> int:
    """How many bytes a compressed file may become."""
    return max(MIN_INFLATED, MAX_RATIO * path.stat().st_size)


def _inflates_too_far(path: Path) -> DataError:
    return DataError(
        f"{path} holds over {_inflated_bytes(path) >> 20} MiB once it is decompressed, {MAX_RATIO} times its size: "
        "if that is meant, decompress it to a .jsonl file"
    )


# the hub


def _from_hub(source: Source, split: str, stream: bool) -> Iterator[dict[str, Any]]:
    ways = (
        f"no data for {source.folder}, split {split!r}: give data_files=<file>, or set RLVR_DATA to a folder that "
        f"holds {source.folder}/{_first_name(source, split)}.jsonl"
    )
    if source.hub is None:
        raise DataError(f"{ways}; {source.access}" if source.access else ways)
    ways += f', or install the hub extra (pip install "rlvr[hub]") and be online for {source.hub}'
    if source.access:
        ways += f"; {source.access}"
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise DataError(ways) from error
    name = source.splits.get(split, split)
    try:
        online = _hub_answers(datasets)
        # From 4 on it runs no code of a data set's repository, and does not know the word.
        no_code = {} if int(datasets.__version__.partition(".")[0]) >= 4 else {"trust_remote_code": False}
        with _as_if_offline(datasets, not online):
            table = datasets.load_dataset(
                source.hub, source.config, split=name, revision=source.revision, streaming=stream and online, **no_code
            )
        for row in table:
            yield dict(row)
    except Exception as error:  # the hub client raises a dozen kinds: each means the same to the caller
        raise DataError(f"{ways} ({type(error).__name__})") from error


def _first_name(source: Source, split: str) -> str:
    return source.files[0].replace("{split}", split).replace("{config}", source.config or "")


def _hub_answers(datasets: Any) -> bool:
    """Whether the hub can be reached, asked once: its client would try for half a minute."""
    if datasets.config.HF_HUB_OFFLINE:
        return False
    import huggingface_hub

    try:
        huggingface_hub.get_session().head(datasets.config.HF_ENDPOINT, timeout=HUB_PATIENCE)
    except Exception:  # of whichever library does the client's requests in this version
        return False
    return True


@contextmanager
def _as_if_offline(datasets: Any, offline: bool) -> Iterator[None]:
    """Have the client look at what it has kept, and at nothing else."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before
