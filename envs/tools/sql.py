"""Reading SQLite with a model's SQL: one SELECT at a time, no writing, no files, no clock, no chance, bounded work.

An authoriser knows what each statement would touch; values and statements have a limited length; virtual-machine steps
are counted, which is the same on every machine. That does not bound the time: a single step may compare long texts,
and preparing a statement takes none, but as much time and memory as nested SELECTs can multiply. So a small statement
runs in this process for a moment, and all else in the worker pool, where processor time and memory are limited and a
query can be killed.
"""

from __future__ import annotations

import base64
import re
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from rlvr.envs.rewards.errors import WorkerError, WorkerFailed, WorkerSpent, WorkerTimeout
from rlvr.envs.tools.tool import ToolError, ToolFault

if TYPE_CHECKING:
    from rlvr.envs.rewards.workers import WorkerPool

MAX_STEPS: Final = 2_000_000  # of the virtual machine: some tenths of a second
MAX_ROWS: Final = 1_000
MAX_SIZE: Final = 1_000_000  # characters and bytes of a result
CPU_SECONDS: Final = 3.0
# What a query may use in this process before it is begun again in a worker.
HERE_STEPS: Final = 50_000
HERE_SECONDS: Final = 0.05
HERE_COPIES: Final = 50_000
CHECK_EVERY: Final = 100  # steps
FUNCTIONS: Final = frozenset(
    "abs avg ceil ceiling coalesce count cume_dist dense_rank first_value floor glob group_concat ifnull iif instr lag "
    "last_value lead length like likelihood lower ltrim max min mod nth_value ntile nullif percent_rank rank replace "
    "round row_number rtrim sign sqrt string_agg substr substring sum total trim typeof unicode upper".split()
)
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
MAX_STATEMENT: Final = 10_000  # bytes
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MAX_STATEMENT,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 30,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


_TOO_MANY: Final = "the query takes too many steps"
_PART = r"(?:\w+|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|'[^']*')"
_NAME = re.compile(rf"{_PART}(?:\s*\.\s*{_PART})*")
# Words that SQLite takes for no name, wherever they stand.
_RESERVED: Final = frozenset(
    "select from where and or not in as on join group order having limit union all distinct exists between case when "
    "then else is null values".split()
)
_SELECT = re.compile("select|values", re.IGNORECASE)


C = TypeVar("C", bound=sqlite3.Connection)


class _Costly(Exception):
    """A query that takes more than it may take here."""


class Table(NamedTuple):
    """The names of the columns and the rows of a result; ``more`` if rows were left out."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool = False


class FileConnection(sqlite3.Connection):
    """A connection to the database in a file; without ``path``, a worker gets a copy of the database."""

    path: Path


def guard(connection: C) -> C:
    """The connection, from now on for reading only and within the limits."""
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.set_authorizer(_authorise)
    return connection


def _authorise(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def query(
    connection: sqlite3.Connection, sql: str, max_rows: int = MAX_ROWS, steps: int = MAX_STEPS, trusted: bool = False
) -> Table:
    """The result of one statement over a guarded connection.

    Args:
        trusted: whether the statement is known to be cheap; then it runs in this process, whatever it looks like.

    Raises:
        ToolError: it is no single SELECT, is wrong, touches what it may not, or takes too much time or memory.
        ToolFault: the machine is overloaded, or the worker pool does not work.
    """
    if len(sql) > MAX_STATEMENT:  # before it is looked at
        raise ToolError(f"a query has at most {MAX_STATEMENT:,} characters, this one has {len(sql):,}")
    if trusted or _copies(sql) <= HERE_COPIES:
        here = (steps, None) if trusted else (min(steps, HERE_STEPS), HERE_SECONDS)
        try:
            return _select(connection, sql, max_rows, *here)
        except _Costly:
            if trusted or steps <= HERE_STEPS:
                raise ToolError(_TOO_MANY) from None
    if isinstance(connection, FileConnection):
        database = {"path": str(connection.path)}
    else:
        database = {"bytes": base64.b64encode(_serialized(connection)).decode()}
    try:
        reply = _pool().call("rlvr.envs.tools.sql:work", [database, sql, max_rows, steps], CPU_SECONDS)
    except WorkerSpent as error:
        raise ToolError(f"the query takes too much work: {error}") from None
    except WorkerTimeout as error:
        raise ToolFault(f"the query: {error}", "timeout") from None
    except WorkerFailed as error:
        raise ToolError(f"SQLite: {error}") from None
    except WorkerError as error:
        raise ToolFault(f"the query: {error}") from None
    if "error" in reply:
        raise ToolError(reply["error"])
    rows = [tuple(map(_unpacked, row)) for row in reply["rows"]]
    return Table(tuple(reply["columns"]), rows, reply["more"])


def _serialized(connection: sqlite3.Connection) -> bytes:
    try:
        return connection.serialize()
    except sqlite3.OperationalError:  # nothing was ever written to it
        return b""


def _pool() -> WorkerPool:
    """Workers without computer algebra, so that they start at once."""
    from rlvr.envs.rewards.workers import named_pool

    return named_pool("rlvr.envs.tools.sql:warm")


def warm() -> None:
    """What a worker does before the first query."""
    work({"bytes": ""}, "SELECT 1", 1, 1_000)


def work(database: dict[str, str], sql: str, max_rows: int, steps: int) -> dict[str, Any]:
    """``query`` in a worker: its result, or its error, as JSON."""
    if "path" in database:
        connection = sqlite3.connect(f"{Path(database['path']).as_uri()}?mode=ro", uri=True, timeout=1.0)
    else:
        connection = sqlite3.connect(":memory:")
        if database["bytes"]:
            connection.deserialize(base64.b64decode(database["bytes"]))
    try:
        table = _select(guard(connection), sql, max_rows, steps)
    except _Costly:
        return {"error": _TOO_MANY}
    except ToolError as error:
        return {"error": str(error)}
    finally:
        connection.close()
    return {"columns": table.columns, "rows": [list(map(_packed, row)) for row in table.rows], "more": table.more}


def _packed(value: Any) -> Any:
    return {"bytes": value.hex()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    return bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value


def _copies(sql: str) -> float:
    """How many copies of a part of a statement preparing it can make, at the most.

    Each nested SELECT may name the one inside it as often as it holds names, and is copied for each.
    """
    words = sum(word.lower() not in _RESERVED and not word.isdecimal() for word in _NAME.findall(sql))
    selects = min(len(_SELECT.findall(sql)), words / 2.7)
    return min(words / selects, 1e9) ** min(selects, 30.0) if selects > 1 else 0.0


def _select(connection: sqlite3.Connection, sql: str, max_rows: int, steps: int, seconds: float | None = None) -> Table:
    """The result of one statement in this process.

    Raises:
        ToolError: as ``query``.
        _Costly: it takes more steps, or more processor time.
    """
    left = [steps // CHECK_EVERY]
    end = None if seconds is None else time.thread_time() + seconds

    def count() -> int:
        left[0] -= 1
        if end is not None and time.thread_time() > end:
            left[0] = -1
        return left[0] < 0

    connection.set_progress_handler(count, CHECK_EVERY)
    try:
        cursor = connection.execute(sql)
        rows = _fetched(cursor, max_rows)
    except sqlite3.OperationalError as error:
        if left[0] < 0:
            raise _Costly from None
        raise ToolError(f"SQLite: {error}") from None
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise ToolError(f"SQLite: {error}") from None
    finally:
        connection.set_progress_handler(None, 0)
    if cursor.description is None:
        raise ToolError("that is no SELECT")
    return Table(tuple(column[0] for column in cursor.description), rows[:max_rows], len(rows) > max_rows)


def _fetched(cursor: sqlite3.Cursor, max_rows: int) -> list[tuple[Any, ...]]:
    """One row more than ``max_rows`` at the most, so that it shows whether there are more."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += 8 * len(row) + sum(len(value) for value in row if isinstance(value, str | bytes))
        if size > MAX_SIZE:
            raise ToolError(f"the result is over {MAX_SIZE:,} characters")
        if len(rows) > max_rows:
            break
    return rows


def written(table: Table, max_rows: int = 20) -> str:
    """A table as text: a header, and one line for a row."""
    lines = [" | ".join(table.columns), *(" | ".join(map(_cell, row)) for row in table.rows[:max_rows])]
    left = len(table.rows) - max_rows
    if left > 0 or table.more:
        lines.append(f"({max(left, 0)}{' or more' if table.more else ''} rows left out)")
    if not table.rows:
        lines.append("(no rows)")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value[:200] if isinstance(value, str | bytes) else value)
