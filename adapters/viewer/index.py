"""The index of episodes: an SQLite file with a row for each and their words, made a little at a time.

An index holds nothing that the files do not hold: it may be deleted at any time. Of a JSONL file that has grown the new
lines alone are read; a file that was changed otherwise is read anew. What stands after the last line break is torn, or
still being written: it is left out until it is whole, and said.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, Any

from rlvr.adapters.viewer.foreign import READERS, trace_of
from rlvr.adapters.viewer.light import light_record
from rlvr.adapters.viewer.sources import TraceSource, find_sources, step_of
from rlvr.adapters.viewer.traces import Trace, text_of
from rlvr.agents.evaluation.reward_hacking import reply_key
from rlvr.agents.evaluation.summary import CUT, NO_REPLY
from rlvr.envs.core.json_text import load_json

VERSION = 11
CHECK = 200  # lines between two looks at the clock
SECONDS = 1.0  # between two commits
HASH_BYTES = 64 << 20  # of words that FTS5 holds before it writes a segment
MAX_LINE = 256 << 20  # bytes
MAPPED = 1 << 30  # bytes of the index that are mapped into memory, not read
MAX_WORDS = 1 << 20  # characters of an episode that can be searched
MAX_PROBLEMS = 50  # lines of a file that are named
HEAD = 4_096
PREVIEW = 200  # characters
SECONDS_OF = ("model_seconds", "env_seconds")

SCHEMA = """
CREATE TABLE files(id INTEGER PRIMARY KEY, path TEXT UNIQUE, source TEXT, size INTEGER, mtime INTEGER, taken INTEGER,
    lines INTEGER, head TEXT, torn INTEGER, problems TEXT);
CREATE TABLE episodes(id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER, number INTEGER, start INTEGER,
    length INTEGER, source TEXT, phase TEXT, step INTEGER, env TEXT, split TEXT, level INTEGER, status TEXT,
    reward REAL, success INTEGER, turns INTEGER, tokens INTEGER, characters INTEGER, stop TEXT, tools TEXT, error TEXT,
    task TEXT, grp TEXT, sample INTEGER, preview TEXT, answer TEXT, reply TEXT,
    replies INTEGER, cut INTEGER, unread INTEGER, flaws TEXT,
    uid TEXT, model TEXT, seconds REAL, cost REAL, agent TEXT, light TEXT, origin TEXT);
CREATE INDEX by_uid ON episodes(uid);
CREATE INDEX by_line ON episodes(file, number);
CREATE INDEX by_origin ON episodes(origin) WHERE origin != '';
CREATE INDEX by_agent ON episodes(source, agent);
CREATE INDEX by_source ON episodes(source, id);
CREATE INDEX by_group ON episodes(grp);
CREATE INDEX by_task ON episodes(task);
CREATE INDEX by_reward ON episodes(reward);
CREATE INDEX by_status ON episodes(status, reward);
CREATE INDEX by_choice ON episodes(source, phase, env, split, level, status, stop, success);
CREATE INDEX by_characters ON episodes(characters);
CREATE INDEX by_flaws ON episodes(flaws, replies, cut, unread);
CREATE TABLE figures(source TEXT PRIMARY KEY, state TEXT, body TEXT);
CREATE VIRTUAL TABLE words USING fts5(body, content='', columnsize=0, prefix='3');
"""
COLUMNS = (
    "file number start length source phase step env split level status reward success turns tokens characters stop "
    "tools error task grp sample preview answer reply replies cut unread flaws uid model seconds cost agent light "
    "origin"
).split()
INSERT = f"INSERT INTO episodes({','.join(COLUMNS)}) VALUES({','.join('?' * len(COLUMNS))})"


def cache_folder() -> Path:
    """Where indices are kept: ``$XDG_CACHE_HOME/rlvr/view``, or in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvr" / "view"


class EpisodeIndex:
    """The index of some sources, in one file.

    Two viewers of the same sources do not share a file: the second makes its own, and deletes it at its end.

    Args:
        sources: what is indexed.
        folder: where the file is; `cache_folder`, or a folder for temporary files where that cannot be written.
        paths: what the sources were found in; runs and files that come later are found there too.
    """

    def __init__(
        self, sources: Sequence[TraceSource], folder: Path | None = None, paths: Sequence[Path] | None = None
    ) -> None:
        self.sources = list(sources)
        self._paths = paths
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock: IO[str] | None = None
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._writing = threading.Lock()  # SQLite crashes where a connection is closed that another thread uses
        self._closed = threading.Event()
        self.path = self._claim(folder or cache_folder())
        self._writer = self._prepared()
        self._committed = 0.0
        self._figures = {row[0]: (row[1], row[2]) for row in self._writer.execute("SELECT * FROM figures")}
        self._unsaved_figures: set[str] = set()
        self.complete = threading.Event()

    def _claim(self, folder: Path) -> Path:
        locations = (
            [s.location for s in self.sources] if self._paths is None else [path.resolve() for path in self._paths]
        )
        named = "\n".join(map(str, locations))
        name = hashlib.sha256(f"{VERSION}\n{named}".encode()).hexdigest()[:24]
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._lock = os.fdopen(descriptor, "r+")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another viewer has it, or nothing can be written there
            if self._lock is not None:
                self._lock.close()
            self._temporary = tempfile.TemporaryDirectory(prefix="rlvr-view-")
            folder = Path(self._temporary.name)
        return folder / f"{name}.sqlite"

    def _prepared(self) -> sqlite3.Connection:
        """A connection to write with; an index that is broken or of another version is made anew."""
        try:
            connection = self._connect()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == VERSION and (self._closed_well() or self._is_sound(connection)):
                self._mark("open")
                return connection
            connection.close()
        except sqlite3.DatabaseError:
            pass
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        connection = self._connect()
        connection.executescript(SCHEMA + f"PRAGMA user_version = {VERSION};")
        connection.execute("INSERT INTO words(words, rank) VALUES('hashsize', ?)", (HASH_BYTES,))
        connection.commit()
        self._mark("open")
        return connection

    def _is_sound(self, connection: sqlite3.Connection) -> bool:
        """Whether the whole file can be read, which takes a while: nothing is synchronised while it is written."""
        (sound,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        return bool(sound == "ok")

    def _closed_well(self) -> bool:
        """Whether the last viewer closed the index: of one that was killed the lock file still says that it is open."""
        return self._lock is not None and self._temporary is None and self._lock.read() == "closed"

    def _mark(self, state: str) -> None:
        if self._lock is not None and not self._lock.closed:
            self._lock.seek(0)
            self._lock.truncate()
            self._lock.write(state)
            self._lock.flush()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # what is lost is read again
        with self._guard:
            self._open.append(connection)
        return connection

    @property
    def reader(self) -> sqlite3.Connection:
        """This thread's connection to read with."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
            self._local.connection.execute("PRAGMA query_only = ON")
            self._local.connection.execute(f"PRAGMA mmap_size = {MAPPED}")
        connection: sqlite3.Connection = self._local.connection
        return connection

    def close(self) -> None:
        """Close every connection, when `update` has stopped; delete an index that was made for this viewer alone."""
        self._closed.set()
        with self._writing:
            with suppress(sqlite3.Error):  # they are worked out again
                self._save_figures()
            for connection in self._open:
                connection.close()
        self._mark("closed")
        if self._lock is not None and not self._lock.closed:
            self._lock.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    # --- writing ---

    def update(self, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Take in what is new, until it is `stopped` or the index is closed; whether anything was."""
        with self._writing:
            if self._closed.is_set():
                return False
            return self._update(lambda: stopped() or self._closed.is_set())

    def _update(self, stopped: Callable[[], bool]) -> bool:
        changed = False
        self._look_for_sources()
        indexed = {row["path"]: row for row in self._writer.execute("SELECT * FROM files")}
        present = set()
        for source in self.sources:
            source.refresh()
            for path in source.files:
                name = str(path.resolve())
                if stopped():
                    return changed
                if path.is_file():
                    present.add(name)
                changed |= self._update_file(source, path, name, indexed.get(name), stopped)
        for name in indexed.keys() - present:
            self._forget(indexed[name]["id"])
            changed = True
        self._writer.commit()
        self._save_figures()
        self.complete.set()
        return changed

    def _save_figures(self) -> None:
        while self._unsaved_figures:
            source = self._unsaved_figures.pop()
            self._writer.execute("INSERT OR REPLACE INTO figures VALUES(?, ?, ?)", (source, *self._figures[source]))
            self._writer.commit()

    def _look_for_sources(self) -> None:
        """Add the runs and files that have come since."""
        if self._paths is None:
            return
        locations, names = {source.location for source in self.sources}, {source.name for source in self.sources}
        with suppress(FileNotFoundError):  # there is none by now
            for source in find_sources(self._paths):
                if source.location not in locations and source.name not in names:
                    self.sources.append(source)

    def commit(self) -> None:
        """Let the readers see what was taken in, once a second: each commit costs FTS5 a segment."""
        if time.monotonic() - self._committed >= SECONDS:
            self._writer.commit()
            self._committed = time.monotonic()

    def _forget(self, file: int) -> None:
        # The words of a forgotten episode stay, under a number that no episode has again.
        self._writer.execute("DELETE FROM episodes WHERE file = ?", (file,))
        self._writer.execute("DELETE FROM files WHERE id = ?", (file,))

    def _update_file(
        self, source: TraceSource, path: Path, name: str, row: sqlite3.Row | None, stopped: Callable[[], bool]
    ) -> bool:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        if row is not None and (row["size"], row["mtime"], row["source"]) == (
            stat.st_size,
            stat.st_mtime_ns,
            source.name,
        ):
            return False
        grown = (
            row is not None
            and path.suffix not in READERS
            and row["source"] == source.name
            and stat.st_size >= row["taken"]
            and _head(path, row["taken"]) == row["head"]
        )
        if row is not None and not grown:
            self._forget(row["id"])
            row = None
        if row is None:
            values = (name, source.name, 0, 0, 0, 0, "", 0, "[]")
            cursor = self._writer.execute(
                "INSERT INTO files(path, source, size, mtime, taken, lines, head, torn, problems) "
                "VALUES(?,?,?,?,?,?,?,?,?)",
                values,
            )
            file, taken, lines, problems = int(cursor.lastrowid or 0), 0, 0, []
        else:
            file, taken, lines, problems = row["id"], row["taken"], row["lines"], json.loads(row["problems"])
        reading = _FileReading(self._writer, self.commit, source, path, file, taken, lines, problems)
        torn = reading.foreign(stopped) if path.suffix in READERS else reading.lines_of_json(stopped)
        # A reading that was stopped continues later: its size is not noted.
        size = -1 if stopped() else stat.st_size
        reading.note(size, stat.st_mtime_ns, torn)
        return True

    # --- reading ---

    def figures(self, source: str, state: str) -> str | None:
        """What `keep_figures` was given for a source in this state; None where that was another state, or never."""
        before, body = self._figures.get(source, ("", None))
        return body if before == state else None

    def has_figures(self, source: str) -> bool:
        """Whether figures of a source are kept, of whichever state."""
        return source in self._figures

    def keep_figures(self, source: str, state: str, body: str) -> None:
        """Keep what the episodes of a source amount to; the next `update` writes it into the file, or the end."""
        self._figures[source] = state, body
        self._unsaved_figures.add(source)

    def state_of(self, source: str) -> tuple[int, int, int]:
        """What changes with the episodes of a source: how many, the last number and the first."""
        query = "SELECT COUNT(*), COALESCE(MAX(id), 0), COALESCE(MIN(id), 0) FROM episodes WHERE source = ?"
        count, last, first = self.reader.execute(query, (source,)).fetchone()
        return count, last, first

    def trace(self, number: int) -> tuple[Trace, dict[str, Any]]:
        """The episode of a row, read from its file, and the row.

        Raises:
            KeyError: there is no such row.
            ValueError: the file has changed, and does not hold it any more.
        """
        joined = self.reader.execute(
            "SELECT episodes.*, files.path FROM episodes JOIN files ON files.id = file WHERE episodes.id = ?", (number,)
        ).fetchone()
        if joined is None:
            raise KeyError(f"there is no episode {number}")
        row = dict(joined)
        path = Path(row["path"])
        try:
            if path.suffix in READERS:
                trace = next(READERS[path.suffix](path, row["number"]))
            else:
                trace = trace_of(load_json(self._line(row)))
        except (OSError, StopIteration, ValueError) as error:
            raise ValueError(f"{path.name} has changed and does not hold this episode any more: {error}") from error
        return trace, row

    def number_of(self, name: str) -> int:
        """The number of the episode that a link names: by its number, or by what `lasting_id` made of its record.

        Raises:
            KeyError: there is none.
        """
        if name.isascii() and name.isdecimal() and len(name) <= 18:  # integers of 64 bits
            return int(name)
        row = self.reader.execute("SELECT MIN(id) FROM episodes WHERE uid = ?", (name,)).fetchone()
        if row[0] is None:
            raise KeyError(f"there is no episode {name:.40}")
        return int(row[0])

    def record(self, number: int) -> Any:
        """The record of an episode as its file holds it, of a file that is no JSONL as it was understood.

        Raises:
            KeyError, ValueError: there is none.
        """
        trace, row = self.trace(number)
        record = self._raw(trace, row)
        return _fields(trace) if record is None else record

    def raw(self, number: int) -> Any:
        """The record of an episode as its line of JSON holds it, which stands in Parquet and in Inspect's log too.

        Raises:
            KeyError, ValueError: there is none.
        """
        if (record := self._raw(*self.trace(number))) is None:
            raise ValueError("another tool's log holds no episode of rlvr's")
        return record

    def _raw(self, trace: Trace, row: dict[str, Any]) -> Any:
        if Path(row["path"]).suffix in READERS:
            return load_json(trace.line) if trace.line else None
        return load_json(self._line(row))

    def replies(self, numbers: Sequence[int]) -> dict[int, str]:
        """What the policy wrote in some episodes, without its thinking; those that cannot be read are left out."""
        replies: dict[int, str] = {}
        rows: dict[str, list[sqlite3.Row]] = {}
        for start in range(0, len(numbers), 500):
            part = numbers[start : start + 500]
            query = (
                "SELECT episodes.id, number, start, length, path FROM episodes JOIN files ON files.id = file "
                f"WHERE episodes.id IN ({','.join('?' * len(part))}) ORDER BY file, number"
            )
            for row in self.reader.execute(query, part):
                rows.setdefault(row["path"], []).append(row)
        for name, of_file in rows.items():
            for row, trace in _traces(Path(name), of_file):
                replies[row["id"]] = trace.reply()
        return replies

    def _line(self, row: dict[str, Any]) -> bytes:
        with Path(row["path"]).open("rb") as file:
            file.seek(row["start"])
            return file.read(row["length"])


def _traces(path: Path, rows: Sequence[sqlite3.Row]) -> Iterator[tuple[sqlite3.Row, Trace]]:
    """The traces of some rows of one file, in their order; a file that has changed gives those that it still holds."""
    try:
        if path.suffix in READERS:
            rows_by_number = {row["number"]: row for row in rows}
            first, last = min(rows_by_number), max(rows_by_number)
            for number, trace in enumerate(islice(READERS[path.suffix](path, first), last + 1 - first), first):
                if number in rows_by_number:
                    yield rows_by_number[number], trace
            return
        with path.open("rb") as file:
            for row in rows:
                file.seek(row["start"])
                yield row, trace_of(load_json(file.read(row["length"])))
    except (OSError, ValueError):
        return


def _head(path: Path, length: int) -> str:
    """What tells whether the bytes that were read are still there: their first ones and their last ones."""
    with path.open("rb") as file:
        first = file.read(min(HEAD, length))
        file.seek(max(0, length - HEAD))
        return hashlib.sha256(first + file.read(min(HEAD, length))).hexdigest()


class _FileReading:
    """Takes the episodes of one file into the index."""

    def __init__(
        self,
        writer: sqlite3.Connection,
        commit: Callable[[], None],
        source: TraceSource,
        path: Path,
        file: int,
        taken: int,
        lines: int,
        problems: list[str],
    ) -> None:
        self._writer, self._commit, self._source, self._path, self._file = writer, commit, source, path, file
        self._taken, self._lines, self._problems = taken, lines, problems
        self._phase, self._step = step_of(path)
        self._waiting = 0

    def lines_of_json(self, stopped: Callable[[], bool]) -> int:
        """Take in the whole lines after those that were taken; how many bytes follow the last line break."""
        with self._path.open("rb") as file:
            file.seek(self._taken)
            for line in iter(lambda: file.readline(MAX_LINE), b""):
                if not line.endswith(b"\n"):
                    if len(line) >= MAX_LINE:
                        self._problem(f"line {self._lines + 1} has over {MAX_LINE >> 20} MiB: the rest is not read")
                        break
                    return len(line)
                self._lines += 1
                if line.strip():
                    try:
                        trace = trace_of(load_json(line))
                        self._take(trace, self._taken, len(line), self._lines - 1, lasting_id(line.strip()))
                    except sqlite3.Error:  # of the index, not of the line
                        raise
                    except Exception as error:  # anybody wrote the line, and the others are shown without it
                        self._problem(f"line {self._lines} is left out: {_why(error)}")
                self._taken += len(line)
                self._waiting += 1
                if self._waiting >= CHECK:
                    self.note(-1, 0, 0)
                    if stopped():
                        break
        return 0

    def foreign(self, stopped: Callable[[], bool]) -> int:
        """Take in all of a file that is no JSONL; one that is stopped begins anew."""
        try:
            for number, trace in enumerate(READERS[self._path.suffix](self._path)):
                content = trace.line or json.dumps(_fields(trace), default=str)
                self._take(trace, number, 0, number, lasting_id(content.encode(errors="surrogatepass")))
                if number % CHECK == CHECK - 1:
                    self._commit()
                    if stopped():
                        break
        except sqlite3.Error:
            raise
        except Exception as error:
            self._problem(_why(error))
        return 0

    def note(self, size: int, mtime: int, torn: int) -> None:
        """Note how far the file was read, and commit."""
        head = "" if self._path.suffix in READERS else _head(self._path, self._taken)
        self._writer.execute(
            "UPDATE files SET size = ?, mtime = ?, taken = ?, lines = ?, head = ?, torn = ?, problems = ? WHERE id = ?",
            (size, mtime, self._taken, self._lines, head, torn, json.dumps(self._problems), self._file),
        )
        self._commit()
        self._waiting = 0

    def _problem(self, text: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(text[:300])

    def _take(self, trace: Trace, start: int, length: int, number: int, uid: str) -> None:
        actions, group = trace.actions(), self._group(trace)
        written = [message for message in trace.messages if message.is_action]
        called = sorted({call["name"] for message in written for call in message.calls if call["name"]})
        stops = [message.stop for message in written if message.stop]
        replies = [message for message in written if message.stop not in NO_REPLY]
        values = (
            self._file, number, start, length, self._source.name, self._phase,
            trace.step if trace.step is not None else self._step,
            trace.env, trace.split, trace.level, trace.status, trace.reward,
            None if trace.success is None else int(trace.success),
            len(written), trace.sampled, len(actions),
            next((stop for stop in stops if stop != "stop"), stops[-1] if stops else ""),
            " ".join(called)[:500], trace.error[:500], trace.task, group, trace.sample, _preview(actions),
            reply_key(trace.answer), reply_key(trace.reply()),
            len(replies), sum(message.stop in CUT for message in replies),
            sum(message.status == "unparsable" for message in written),
            " ".join(message.flaw for message in replies if message.flaw),
            uid, text_of(trace.agent.get("model")),
            sum(seconds) if (seconds := [trace.usage[name] for name in SECONDS_OF if name in trace.usage]) else None,
            trace.usage.get("cost"), json.dumps(trace.agent) if trace.agent else "", light_record(trace, group),
            _origin(trace),
        )  # fmt: skip
        cursor = self._writer.execute(INSERT, [_storable(value) for value in values])
        self._writer.execute("INSERT INTO words(rowid, body) VALUES(?, ?)", (cursor.lastrowid, _words(trace)))

    def _group(self, trace: Trace) -> str:
        """Episodes of one file with one text here are samples of one task."""
        if trace.group is not None:
            named = f"{trace.group}/{trace.task}"
        elif trace.task:
            named = trace.task
        else:
            before = [m.text for m in trace.messages[: next(_actions(trace), 0)]]
            named = hashlib.sha256("\0".join(before).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"{self._file}/{trace.step}/{named}"


def lasting_id(content: bytes) -> str:
    """What links name an episode by: it is made of its record, and so outlives the index. It begins with a letter."""
    return "e" + hashlib.blake2b(content, digest_size=8).hexdigest()


def _fields(trace: Trace) -> dict[str, Any]:
    fields = asdict(trace)
    del fields["line"]
    return fields


def _origin(trace: Trace) -> str:
    """The line of a file that a fork goes on from."""
    origin = trace.forked_from
    return f"{(origin['line'] or 0) - 1}:{origin['file']}" if origin else ""


def _actions(trace: Trace) -> Iterator[int]:
    return (index for index, message in enumerate(trace.messages) if message.is_action)


def _why(error: Exception) -> str:
    plain = (ValueError, TypeError, AttributeError, ImportError, OSError)
    return str(error) if isinstance(error, plain) else repr(error)


def _storable(value: Any) -> Any:
    """A value that SQLite takes: a lone surrogate, which JSON may hold, is no text of UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _preview(text: str) -> str:
    return " ".join(text[-4 * PREVIEW :].split())[-PREVIEW:]


def _words(trace: Trace) -> str:
    parts = [trace.env, trace.status, trace.reason, trace.answer, trace.error]
    for message in trace.messages:
        parts += [message.reasoning, message.text, *(f"{call['name']} {call['arguments']}" for call in message.calls)]
    return str(_storable("\n".join(filter(None, parts))[:MAX_WORDS]))
