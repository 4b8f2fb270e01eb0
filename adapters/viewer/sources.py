"""Which runs and files are looked at, and the figures of their steps."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr.agents.evaluation.records import is_beside_episodes
from rlvr.envs.core.json_text import load_json

SUFFIXES = (".jsonl", ".eval", ".parquet", ".json")
FIGURES = ("metrics.jsonl", "timing.jsonl")
MAX_DEPTH = 4  # folders below one that is named
MAX_FILES = 20_000
MAX_POINTS = 4_000  # of a curve that is sent
_STEP = re.compile(r"(?:^|[-_])(\d{1,12})$")


@dataclass(slots=True)
class TraceSource:
    """A run, or files that stand alone.

    Attributes:
        name: as it is shown; no two sources have one.
        folder: of the run, or None for a file.
        files: what holds episodes.
    """

    name: str
    folder: Path | None
    files: list[Path] = field(default_factory=list)

    @property
    def location(self) -> Path:
        """The folder, or the file."""
        return (self.folder or self.files[0]).resolve()

    def refresh(self) -> None:
        """Look again which files there are: a run writes new ones."""
        if self.folder is not None:
            self.files = sorted(_trace_files(self.folder, MAX_DEPTH))[:MAX_FILES]


def default_paths() -> list[Path]:
    """Where runs are looked for if no path is named."""
    return [Path("runs") if Path("runs").is_dir() else Path()]


def find_sources(paths: Sequence[Path]) -> list[TraceSource]:
    """The runs and files that some paths stand for; without paths, those under ``runs``, or here.

    Raises:
        FileNotFoundError: a path is not there, or nothing that can be shown is in it.
    """
    folders = list(paths) or default_paths()
    named_sources: list[tuple[str, TraceSource]] = []
    for path in folders:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {path}")
        named_sources += [(source.name, source) for source in _sources(path)]
    if not named_sources:
        named = ", ".join(map(str, folders))
        raise FileNotFoundError(f"{named} holds no run and no file of episodes (*.jsonl, *.eval, *.parquet, *.json)")
    counts: dict[str, int] = {}
    for name, source in named_sources:
        counts[name] = counts.get(name, 0) + 1
        source.name = name if counts[name] == 1 else f"{name} ({counts[name]})"
        source.refresh()
    return [source for _, source in named_sources]


def _sources(path: Path) -> Iterator[TraceSource]:
    if path.is_file():
        if path.suffix in SUFFIXES or _begins_as_json(path):  # `rlvr eval --out` takes any name
            yield TraceSource(path.name, None, [path])
    elif is_run(path):
        yield TraceSource(path.resolve().name, path)
    else:
        runs = sorted(_runs(path, MAX_DEPTH - 1))
        for run in runs:
            yield TraceSource(run.relative_to(path).as_posix(), run)
        for file in sorted(_trace_files(path, MAX_DEPTH)):
            if not any(run in file.parents for run in runs):
                yield TraceSource(file.relative_to(path).as_posix(), None, [file])


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training run."""
    return any((folder / name).is_file() for name in ("metrics.jsonl", "config.yaml", "config.sha256"))


def _folders(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".") and not entry.is_symlink()]
    except PermissionError:
        return []


def _runs(folder: Path, depth: int) -> Iterator[Path]:
    for entry in _folders(folder):
        if entry.is_dir():
            inside = Path(entry.path)
            if is_run(inside):
                yield inside
            elif depth > 0:
                yield from _runs(inside, depth - 1)


def _trace_files(folder: Path, depth: int) -> Iterator[Path]:
    for entry in _folders(folder):
        path = Path(entry.path)
        if entry.is_file():
            if _is_trace(path):
                yield path
        elif entry.is_dir() and depth > 0 and entry.name not in ("checkpoints", "policy", "teacher"):
            yield from _trace_files(path, depth - 1)


def _is_trace(path: Path) -> bool:
    if is_beside_episodes(path) or path.suffix not in SUFFIXES:
        return False
    if path.suffix != ".json":
        return True
    with path.open("rb") as file:
        head = file.read(1 << 14)
    if b'"schema_version"' in head and b'"ATIF-v' in head:
        return True
    if b'"started_at"' in head and b'"root"' in head:  # a log of tinker-cookbook
        return True
    return b'"eval"' in head and b'"task"' in head  # Inspect's logs begin with what was evaluated


def _begins_as_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1 << 10).lstrip()[:1] == b"{"


def step_of(path: Path) -> tuple[str, int | None]:
    """The phase and the step that a file's name tells: ``train-000010`` is of step 10 of train."""
    match = _STEP.search(path.stem)
    if match is None:
        return path.stem, None
    return path.stem[: match.start()] or path.stem, int(match[1])


def read_records(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of a JSONL file of figures, and what is wrong with it: each line that cannot be read, a torn one."""
    if not path.is_file():
        return [], []
    *whole, torn = path.read_bytes().split(b"\n")
    records, wrong = [], [f"the last line of {path.name} is not whole, and is left out"] if torn else []
    for number, line in enumerate(whole, 1):
        try:
            record = load_json(line) if line.strip() else {}
        except ValueError as error:
            wrong.append(f"line {number} of {path.name} is not JSON, and is left out: {error}")
            continue
        if isinstance(record, dict):
            records.append(record)
    return records, wrong[:20]


def curves(folder: Path) -> tuple[dict[str, list[tuple[float, float]]], list[str]]:
    """The curves [(step, value)] of a run by name, ``train/reward``, and what could not be read."""
    series: dict[str, list[tuple[float, float]]] = {}
    wrong: list[str] = []
    for name in FIGURES:
        records, problems = read_records(folder / name)
        wrong += problems
        for row, record in enumerate(records):
            phase = record.get("phase")
            prefix = phase if isinstance(phase, str) else "timing" if name.startswith("timing") else "run"
            step = record.get("step", record.get("progress/batch", row))
            step = step if isinstance(step, int | float) and not isinstance(step, bool) else row
            for metric, value in record.items():
                if metric != "step" and _is_number(value):
                    series.setdefault(f"{prefix}/{metric}", []).append((float(step), float(value)))
    return {name: thinned(points) for name, points in sorted(series.items())}, wrong


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MAX_POINTS` points, at even distances, the last among them."""
    if len(points) <= MAX_POINTS:
        return points
    stride = math.ceil(len(points) / (MAX_POINTS - 1))
    return [*points[:-1][::stride], points[-1]]


def flattened(value: Any, prefix: str = "") -> dict[str, str]:
    """A config's plain values by their path, ``learner.lr``, as text."""
    if isinstance(value, dict) and value:
        flat: dict[str, str] = {}
        for name, part in value.items():
            flat |= flattened(part, f"{prefix}.{name}" if prefix else str(name))
        return flat
    return {prefix: value if isinstance(value, str) else repr(value)}
