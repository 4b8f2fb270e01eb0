"""Which episodes a page lists: filters, full-text search, order, and what there is to choose from."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.adapters.viewer.traces import INVALID
from rlvr.agents.evaluation.reward_hacking import GradedReply

# Filters by their name in an address, and their column; several values stand with commas.
CHOICES = ("source", "phase", "env", "split", "level", "status", "stop", "model")
RANGES = ("reward", "step", "characters", "tokens", "turns", "seconds", "cost", "cut", "unread")
ORDERS = ("id", "status", "env", "source", "model", *RANGES)
MAX_LIMIT = 500
MAX_CHOICES = 200  # values that are named of a column
MAX_FORKS = 256  # that are shown of an episode, with those of its origins
_WORD = re.compile(r'"([^"]*)"|(\S+)')


# What a page is sent of an episode; the keys of replies are for `graded_replies` alone.
SHOWN = (
    "id, file, number, source, phase, step, env, split, level, status, reward, success, turns, tokens, characters, "
    "stop, tools, error, task, grp, sample, preview, replies, cut, unread, flaws, uid, model, seconds, cost"
)


class QueryError(ValueError):
    """A filter that cannot be understood."""


def match_of(text: str) -> str:
    """A full-text query that holds only words: each has to occur; words in quotation marks in this order.

    >>> match_of('two "three four" fiv*')
    '"two" "three four" "fiv"*'
    """
    terms = []
    for phrase, word in _WORD.findall(text):
        bare = (phrase or word).replace('"', "").replace("\0", "")
        prefix = not phrase and bare.endswith("*")
        bare = bare.rstrip("*") if prefix else bare
        if any(character.isalnum() for character in bare):
            terms.append(f'"{bare}"' + "*" * prefix)
    return " ".join(terms)


def conditions(filters: Mapping[str, str]) -> tuple[str, list[Any]]:
    """The WHERE clause of the filters, and its values.

    Raises:
        QueryError: a range is no number.
    """
    clauses: list[str] = []
    values: list[Any] = []
    for name in CHOICES:
        if chosen := [each for each in filters.get(name, "").split(",") if each]:
            column = "CAST(level AS TEXT)" if name == "level" else name  # a cast would hide the others from an index
            clauses.append(f"{column} IN ({','.join('?' * len(chosen))})")
            values += chosen
    for name in RANGES:
        for end, compare in (("min", ">="), ("max", "<=")):
            if bound := filters.get(f"{end}_{name}", ""):
                try:
                    values.append(float(bound))
                except ValueError:
                    raise QueryError(f"{end}_{name} must be a number, got {bound!r:.40}") from None
                clauses.append(f"{name} {compare} ?")
    if tool := filters.get("tool", ""):
        clauses.append("' ' || tools || ' ' LIKE ? ESCAPE '\\'")
        values.append(f"% {_literal(tool)} %")
    if error := filters.get("error", ""):
        clauses.append("error LIKE ? ESCAPE '\\'")
        values.append(f"%{_literal(error)}%")
    if flaw := filters.get("flaw", ""):
        clauses.append("' ' || flaws || ' ' LIKE ? ESCAPE '\\'")
        values.append(f"% {_literal(flaw)} %")
    for name in ("task", "grp"):
        if filters.get(name, ""):
            clauses.append(f"{name} = ?")
            values.append(filters[name])
    if text := filters.get("q", "").strip():
        words = match_of(text)
        if not words:
            raise QueryError(f"a search needs a word with a letter or a digit, got {text!r:.40}")
        clauses.append("id IN (SELECT rowid FROM words WHERE words MATCH ?)")
        values.append(words)
    return (" WHERE " + " AND ".join(clauses) if clauses else ""), values


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def listing(reader: sqlite3.Connection, filters: Mapping[str, str]) -> dict[str, Any]:
    """``rows`` from ``offset`` on, at most ``limit``, and the ``total`` that the filters select; of an offset of 0 also
    ``replies``, see `reply_counts`.

    Raises:
        QueryError: a filter cannot be understood.
    """
    where, values = conditions(filters)
    offset, limit = _count(filters, "offset", 0), min(_count(filters, "limit", 100), MAX_LIMIT)
    order = filters.get("sort", "") or "id"
    descending = order.startswith("-")
    column = order.removeprefix("-")
    if column not in ORDERS:
        raise QueryError(f"sort must be one of {', '.join(ORDERS)}, got {column!r:.40}")
    direction = "DESC" if descending else "ASC"
    # Numbers alone are sorted, by an index where there is one; the rows of the page are looked up.
    chosen = f"SELECT id FROM episodes{where} ORDER BY {column} {direction}, id LIMIT ? OFFSET ?"
    rows = reader.execute(
        f"SELECT {SHOWN} FROM episodes WHERE id IN ({chosen}) ORDER BY {column} {direction}, id",
        [*values, limit, offset],
    ).fetchall()
    total, replies = _counts(reader, where, values)
    counts = {} if offset else {"replies": replies}
    return {"rows": [dict(row) for row in rows], "total": total, "offset": offset, **counts}


def reply_counts(reader: sqlite3.Connection, filters: Mapping[str, str]) -> dict[str, Any]:
    """What `rlvr.agents.evaluation.summary.Evaluation` counts, of the episodes that the filters select.

    ``replies``, how many of them were ``cut``, how many actions were ``unread``, and ``flaws`` by name.

    Raises:
        QueryError: a filter cannot be understood.
    """
    return _counts(reader, *conditions(filters))[1]


def _counts(reader: sqlite3.Connection, where: str, values: Sequence[Any]) -> tuple[int, dict[str, Any]]:
    """How many episodes a WHERE clause selects, and the `reply_counts` of these; the clause is searched once."""
    total = replies = cut = unread = 0
    flaws: dict[str, int] = {}
    query = f"SELECT flaws, COUNT(*), SUM(replies), SUM(cut), SUM(unread) FROM episodes{where} GROUP BY flaws"
    for names, count, *sums in reader.execute(query, values):
        total += count
        replies, cut, unread = replies + sums[0], cut + sums[1], unread + sums[2]
        for name in names.split():
            flaws[name] = flaws.get(name, 0) + count
    return total, {"replies": replies, "cut": cut, "unread": unread, "flaws": flaws}


def _count(filters: Mapping[str, str], name: str, default: int) -> int:
    text = filters.get(name, "") or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise QueryError(f"{name} must be a whole number, got {text!r:.40}")
    return int(text)


def choices(reader: sqlite3.Connection) -> dict[str, list[list[Any]]]:
    """For each column to choose from, its values with how often each occurs, the commonest first."""
    columns = ", ".join(CHOICES)
    counts: dict[str, dict[Any, int]] = {name: {} for name in CHOICES}
    for *values, count in reader.execute(f"SELECT {columns}, COUNT(*) FROM episodes GROUP BY {columns}"):
        for name, value in zip(CHOICES, values, strict=True):
            if value not in (None, ""):
                counts[name][value] = counts[name].get(value, 0) + count
    offered = {name: _commonest(each) for name, each in counts.items()}
    tools: dict[str, int] = {}
    for row in reader.execute("SELECT tools, COUNT(*) FROM episodes WHERE tools != '' GROUP BY tools LIMIT 5000"):
        for tool in row[0].split():
            tools[tool] = tools.get(tool, 0) + row[1]
    return offered | {"tool": _commonest(tools)}


def _commonest(counts: Mapping[Any, int]) -> list[list[Any]]:
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    return [[value, count] for value, count in ranked[:MAX_CHOICES]]


def graded_replies(reader: sqlite3.Connection, filters: Mapping[str, str]) -> list[GradedReply]:
    """The episodes that the filters select, as `rlvr.agents.evaluation.reward_hacking.find_signs` takes them.

    Raises:
        QueryError: a filter cannot be understood.
    """
    where, values = conditions(filters)
    rows = reader.execute(
        "SELECT id, env, CASE task WHEN '' THEN grp ELSE task END, answer, reply, "
        "CASE WHEN tokens > 0 THEN tokens ELSE characters END, "
        f"CASE WHEN status IN ({','.join('?' * len(INVALID))}) THEN NULL ELSE reward END, status, error "
        f"FROM episodes{where} ORDER BY id",
        [*INVALID, *values],
    )
    return [GradedReply(*row) for row in rows]


def status(reader: sqlite3.Connection) -> dict[str, Any]:
    """How many episodes each source has, and what could not be read."""
    counts = {
        row[0]: {"episodes": row[1], "successes": row[2], "judged": row[3]}
        for row in reader.execute(
            "SELECT source, COUNT(*), COALESCE(SUM(success), 0), COUNT(success) FROM episodes GROUP BY source"
        )
    }
    problems = []
    for row in reader.execute("SELECT path, torn, problems FROM files WHERE torn > 0 OR problems != '[]' LIMIT 200"):
        name = row["path"].rpartition("/")[2]
        if row["torn"]:
            problems.append(f"the last line of {name} is not whole ({row['torn']} bytes), and is left out until it is")
        problems += [f"{name}: {text}" for text in json.loads(row["problems"])]
    return {"counts": counts, "problems": problems[:200]}


def neighbours(reader: sqlite3.Connection, row: Mapping[str, Any]) -> dict[str, Any]:
    """The samples of an episode's group, and the same task elsewhere: other steps, other runs."""
    group = reader.execute(
        f"SELECT {SHOWN} FROM episodes WHERE grp = ? ORDER BY sample, id LIMIT 256", (row["grp"],)
    ).fetchall()
    elsewhere = []
    if row["task"]:
        elsewhere = reader.execute(
            f"SELECT {SHOWN} FROM episodes WHERE task = ? AND grp != ? ORDER BY source, step, id LIMIT 256",
            (row["task"], row["grp"]),
        ).fetchall()
    return {"group": [dict(each) for each in group], "elsewhere": [dict(each) for each in elsewhere]}


def fork_tree(reader: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """The episode that an episode and others go on from, each row with its ``forks``; None where there are none."""
    columns = f"SELECT {SHOWN}, origin, (SELECT path FROM files WHERE files.id = episodes.file) AS path FROM episodes "
    by_line = "WHERE number = ? AND file = (SELECT id FROM files WHERE path = ?)"
    root, ancestors = reader.execute(columns + "WHERE id = ?", (number,)).fetchone(), set()
    while root["origin"] and root["id"] not in ancestors:
        ancestors.add(root["id"])
        line, _, path = root["origin"].partition(":")
        parent = reader.execute(columns + by_line, (line, path)).fetchone()
        if parent is None:
            break
        root = parent
    tree = {**root, "forks": []}
    waiting, seen = [tree], {root["id"]}
    while waiting and len(seen) < MAX_FORKS:
        node = waiting.pop(0)
        query = columns + "WHERE origin = ? AND origin != '' ORDER BY id LIMIT ?"
        for row in reader.execute(query, (f"{node['number']}:{node['path']}", MAX_FORKS)):
            if row["id"] not in seen:
                seen.add(row["id"])
                node["forks"].append({**row, "forks": []})
        waiting += node["forks"]
    return tree if len(seen) > 1 else None
