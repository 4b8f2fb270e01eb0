"""Steps on tables of comma-separated values, on JSON and YAML, and on logs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

from rlvr.envs.agentic.chore_kinds.draft import (
    ChoreDraft,
    Derive,
    Edit,
    StepKind,
    WorkItem,
    between,
    fresh,
    pick,
    render,
)
from rlvr.envs.agentic.chores import lines

Table = tuple[tuple[str, ...], ...]
Objects = list[dict[str, Any]]


# columns of tables


def numbers_of(table: Table) -> list[int]:
    """The columns that hold whole numbers."""
    return [c for c in range(len(table[0])) if all(row[c].isdigit() for row in table[1:])]


def groups_of(table: Table) -> list[int]:
    """The columns whose words occur in several rows."""
    texts = [c for c in range(len(table[0])) if c not in numbers_of(table)]
    return [c for c in texts if 1 < len({row[c] for row in table[1:]}) < len(table) - 1]


def _named(table: Table, **columns: int) -> dict[str, Any]:
    """The columns that were drawn, and how their headings call them: column c is x, d is y, e is z."""
    letters = {"c": "x", "d": "y", "e": "z"}
    return {**columns, **{letters[key]: table[0][column] for key, column in columns.items()}}


def _any_column(rng: random.Random, table: Table) -> dict[str, Any]:
    return _named(table, c=rng.randrange(len(table[0])))


def _two_columns(rng: random.Random, table: Table) -> dict[str, Any]:
    c, d = sorted(rng.sample(range(len(table[0])), 2)) if len(table[0]) > 2 else (0, between(rng, 1, 0))
    return _named(table, c=c, d=d)


def _number(rng: random.Random, table: Table) -> dict[str, Any]:
    return _named(table, c=pick(rng, numbers_of(table)))


def _bound(rng: random.Random, table: Table) -> dict[str, Any]:
    values = _number(rng, table)
    cells = sorted(int(row[values["c"]]) for row in table[1:])
    return values | {"n": pick(rng, cells[2:-2])}


def _two_numbers(rng: random.Random, table: Table) -> dict[str, Any]:
    columns = numbers_of(table)
    if len(columns) < 2:
        pick(rng, ())
    c, d = sorted(rng.sample(columns, 2))
    return _named(table, c=c, d=d)


def _group(rng: random.Random, table: Table) -> dict[str, Any]:
    c = pick(rng, groups_of(table))
    return _named(table, c=c) | {"w": rng.choice(sorted({row[c] for row in table[1:]}))}


def _group_and_number(rng: random.Random, table: Table) -> dict[str, Any]:
    return _named(table, c=pick(rng, groups_of(table)), d=pick(rng, numbers_of(table)))


def _renamed(rng: random.Random, table: Table) -> dict[str, Any]:
    return _any_column(rng, table) | {"n": f"{rng.choice(('old', 'new', 'main', 'first'))}_{rng.randint(2, 9)}"}


def _least(rng: random.Random, table: Table) -> dict[str, Any]:
    return {"n": between(rng, 2, len(table) - 3)}


def _ordered(table: Table, c: int, **_: Any) -> Table:
    rows = table[1:]
    if len({row[c] for row in rows}) < len(rows):
        return table  # equal numbers have no order
    return (table[0], *sorted(rows, key=lambda row: -int(row[c])))


def _sums(table: Table, c: int, d: int, x: str, y: str) -> Table:
    totals: Counter[str] = Counter()
    for row in table[1:]:
        totals[row[c]] += int(row[d])
    return ((x, y), *((name, str(total)) for name, total in sorted(totals.items())))


def _tally(table: Table, c: int, x: str, **_: Any) -> Table:
    counts = Counter(row[c] for row in table[1:])
    return ((x, "count"), *((name, str(count)) for name, count in sorted(counts.items())))


def _best(table: Table, c: int, **_: Any) -> str:
    rows = sorted(table[1:], key=lambda row: int(row[c]))
    return rows[-1][0] if rows[-1][c] != rows[-2][c] else ""


def _to_objects(table: Table) -> Objects:
    return [
        {name: int(cell) if cell.isdigit() else cell for name, cell in zip(table[0], row, strict=True)}
        for row in table[1:]
    ]


def _dropped(table: Table, c: int, **_: Any) -> Table:
    return tuple((*row[:c], *row[c + 1 :]) for row in table)


_AWK, _AWK_CSV = "awk -F,", "awk -F, -v OFS=,"
TABLES = (
    Derive("choose columns", "table", "table", "the columns @x and @y of @a, in this order and with their heading,",
           "cut -d, -f@c,@d @a", lambda t, c, d, **_: tuple((row[c], row[d]) for row in t), _two_columns),
    Derive("drop a column", "table", "table", "the table @a without its column @x", "cut -d, --complement -f@c @a",
           _dropped, lambda rng, t: _named(t, c=between(rng, 1, len(t[0]) - 1)) if len(t[0]) > 2 else pick(rng, ())),
    Derive("rows above", "table", "table", "the heading of @a and its rows with more than @n in the column @x",
           f"{_AWK} 'NR == 1 || $@c > @n' @a",
           lambda t, c, n, **_: (t[0], *(row for row in t[1:] if int(row[c]) > n)), _bound),
    Derive("rows of a group", "table", "table", "the heading of @a and its rows with @w in the column @x",
           f"{_AWK} 'NR == 1 || $@c == \"@w\"' @a",
           lambda t, c, w, **_: (t[0], *(row for row in t[1:] if row[c] == w)), _group),
    Derive("order rows", "table", "table", "the table @a, its rows ordered by @x, the highest first, below the "
           "heading,",
           "(head -n 1 @a; tail -n +2 @a | sort -t, -k@c,@cnr)", _ordered, _number),
    Derive("sums of groups", "table", "table", "for each @x in @a the sum of the column @y, as a table with the "
           "heading '@x,@y' and rows sorted by @x,",
           f"(echo @x,@y; tail -n +2 @a | {_AWK} '{{s[$@c] += $@d}} END {{for (k in s) "
           "print k \",\" s[k]}' | LC_ALL=C sort)", _sums, _group_and_number),
    Derive("counts of groups", "table", "table", "for each @x in @a the number of its rows, as a table with the "
           "heading '@x,count' and rows sorted by @x,",
           f"(echo @x,count; tail -n +2 @a | {_AWK} '{{n[$@c]++}} END {{for (k in n) "
           "print k \",\" n[k]}' | LC_ALL=C sort)", _tally, _group),
    Derive("add a column", "table", "table", "the table @a with one more column at the end, total: the sum of @x and "
           "@y,",
           f"{_AWK_CSV} 'NR == 1 {{print $0, \"total\"; next}} {{print $0, $@c + $@d}}' @a",
           lambda t, c, d, **_: ((*t[0], "total"), *((*row, str(int(row[c]) + int(row[d]))) for row in t[1:])),
           _two_numbers),
    Derive("swap columns", "table", "table", "the table @a with the columns @x and @y exchanged, headings too,",
           f"{_AWK_CSV} '{{k = $@c; $@c = $@d; $@d = k}} 1' @a",
           lambda t, c, d, **_: tuple((*r[:c], r[d], *r[c + 1 : d], r[c], *r[d + 1 :]) for r in t), _two_columns),
    Derive("one column", "table", "text", "the column @x of @a, without its heading and one cell a line,",
           "tail -n +2 @a | cut -d, -f@c", lambda t, c, **_: tuple(row[c] for row in t[1:]), _any_column),
    Derive("sum of a column", "table", "value", "the sum of the column @x of @a",
           f"{_AWK} '{{s += $@c}} END {{print s}}' "
           "@a", lambda t, c, **_: str(sum(int(row[c]) for row in t[1:])), _number),
    Derive("best row", "table", "value", "the first cell of the row of @a with the highest number in the column @x",
           "tail -n +2 @a | sort -t, -k@c,@cn | tail -n 1 | cut -d, -f1", _best, _number),
    Derive("csv to json", "table", "objects", "Turn @a into @b, a JSON list with an object for each row: its keys "
           "are the headings, and whole numbers are numbers.", "python3 -c \"import csv, json; "
           "print(json.dumps([{k: int(v) if v.isdigit() else v for k, v in r.items()} for r in "
           "csv.DictReader(open('@a'))]))\"", _to_objects),
    Derive("json to csv", "objects", "table", "Turn @a, a list of JSON objects, into the table @b: the heading has "
           "their keys in the order of the first object, and each object is a row.", "python3 -c \"import json; o = "
               "json.load(open('@a')); [print(*r, sep=',') for r in [o[0].keys(), *(i.values() for i in o)]]\"",
           lambda o: (tuple(o[0]), *(tuple(map(str, each.values())) for each in o))),
    Derive("json values", "objects", "text", "the values of the key @x of all objects in @a, one a line,",
           "python3 -c \"import json; [print(i['@x']) for i in json.load(open('@a'))]\"",
           lambda o, x: tuple(str(each[x]) for each in o), lambda rng, o: {"x": rng.choice(sorted(o[0]))}),
    Derive("json filter", "objects", "objects", "Write to @b the JSON list of those objects in @a whose @x is above "
           "@n.",
           "python3 -c \"import json; print(json.dumps([i for i in json.load(open('@a')) if i['@x'] > @n]))\"",
           lambda o, x, n: [each for each in o if each[x] > n], lambda rng, o: _json_bound(rng, o)),
    Derive("csv to yaml", "table", "text", "the rows of @a as a YAML list: for each row a line '- FIRST: CELL' with "
           "its first heading and cell, then a line '  HEADING: CELL' for each other column,",
           f"{_AWK} 'NR == 1 {{split($0, h, \",\"); next}} {{for (i = 1; i <= NF; i++) print "
           "(i == 1 ? \"- \" : \"  \") h[i] \": \" $i}' @a",
           lambda t: tuple(f"{'  ' if c else '- '}{t[0][c]}: {cell}" for row in t[1:] for c, cell in enumerate(row))),
    Derive("csv to markdown", "table", "text", "the table @a in Markdown, without alignment: each row as '| CELL | "
           "CELL |', and a line '|---|---|' below the heading, with as many columns as there are,",
           "sed 's/,/ | /g; s/^/| /; s/$/ |/' @a | awk '1; NR == 1 {gsub(/[^|]+/, \"---\"); print}'",
           lambda t: (_markdown(t[0]), "|" + "---|" * len(t[0]), *map(_markdown, t[1:]))),
    Derive("csv to tsv", "table", "text", "the table @a with tabs in the place of its commas", "tr , '\\t' < @a",
           lambda t: tuple("\t".join(row) for row in t)),
    Derive("first rows", "table", "table", "the heading and the first @n rows of @a", "head -n $((@n + 1)) @a",
           lambda t, n: t[: n + 1], _least),
    Edit("rename a column", "table", "In the heading of @a rename the column @x to @n.",
         f"{_AWK_CSV} 'NR == 1 {{$@c = \"@n\"}} 1' @a > t.tmp && cat t.tmp > @a && rm t.tmp",
         lambda t, c, n, **_: ((*t[0][:c], n, *t[0][c + 1 :]), *t[1:]), _renamed),
)  # fmt: skip


def _json_bound(rng: random.Random, objects: Objects) -> dict[str, Any]:
    keys = [key for key in objects[0] if all(isinstance(each[key], int) for each in objects)]
    key = pick(rng, keys)
    return {"x": key, "n": pick(rng, sorted(each[key] for each in objects)[1:-1])}


def _markdown(row: tuple[str, ...]) -> str:
    return f"| {' | '.join(row)} |"


def _join(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """A second table says more about the words of a column."""
    values = _group(draft.rng, item.data)
    c, words = values["c"], sorted({row[values["c"]] for row in item.data[1:]})
    heading = draft.rng.choice(("town", "leader", "colour"))
    known = {word: draft.rng.choice(("Bern", "Cork", "Oslo", "Pisa", "Riga")) for word in words}
    other, path = draft.path("table"), draft.path("table")
    draft.give(other, render("table", ((values["x"], heading), *draft.rng.sample(sorted(known.items()), len(known)))))
    draft.see(item.path)
    draft.see(other)
    draft.ask(
        "@o names the @h of each @x. Write to @b the table @a with one more column at the end, @h.",
        "awk -F, -v OFS=, 'NR == FNR {k[$1] = $2; next} {print $0, k[$@c]}' @o @a > @b", result=path,
        a=item.path, b=path, o=other, h=heading, x=values["x"], c=c + 1,
    )  # fmt: skip
    rows = ((*row, known[row[c]]) for row in item.data[1:])
    return draft.put("table", path, ((*item.data[0], heading), *rows))


# logs

Log = tuple[str, ...]  # lines of date, time, level, service, address, milliseconds


def _field(index: int) -> Any:
    def draw(rng: random.Random, log: Log) -> dict[str, Any]:
        counts = Counter(row.split()[index] for row in log)
        return {"w": pick(rng, sorted(word for word, count in counts.items() if 1 < count < len(log)))}

    return draw


def _times(rng: random.Random, log: Log) -> dict[str, Any]:
    first = between(rng, 1, len(log) - 5)
    return {"n": log[first].split()[1], "m": log[between(rng, first + 2, len(log) - 2)].split()[1]}


def _slow(rng: random.Random, log: Log) -> dict[str, Any]:
    return {"n": pick(rng, sorted(int(row.split()[5]) for row in log)[2:-3])}


def _counted(index: int, heading: str, stop: int | None = None) -> Any:
    def result(log: Log) -> Table:
        counts = Counter(row.split()[index][:stop] for row in log)
        return ((heading, "count"), *((name, str(count)) for name, count in sorted(counts.items())))

    return result


def _milliseconds(log: Log) -> Table:
    totals: dict[str, int] = defaultdict(int)
    for row in log:
        totals[row.split()[3]] += int(row.split()[5])
    return (("service", "ms"), *((name, str(total)) for name, total in sorted(totals.items())))


def _most(index: int, level: str = "") -> Any:
    def result(log: Log) -> str:
        ranks = Counter(row.split()[index] for row in log if level in row).most_common(2)
        return ranks[0][0] if ranks and (len(ranks) == 1 or ranks[0][1] > ranks[1][1]) else ""

    return result


def _slowest(log: Log) -> str:
    rows = sorted(log, key=lambda row: int(row.split()[5]))
    return rows[-1] if rows[-1].split()[5] != rows[-2].split()[5] else ""


_LOG = "whose lines are DATE TIME LEVEL SERVICE ADDRESS MILLISECONDS"
_PER = "| sort | uniq -c | awk '{print $2 \",\" $1}'"
LOGS = (
    Derive("lines of a level", "log", "log", "the lines of level @w from the log @a", "grep ' @w ' @a",
           lambda g, w: tuple(row for row in g if row.split()[2] == w), _field(2)),
    Derive("lines of a service", "log", "log", f"the lines of the service @w from the log @a, {_LOG},",
           "awk '$4 == \"@w\"' @a", lambda g, w: tuple(row for row in g if row.split()[3] == w), _field(3)),
    Derive("lines from an address", "log", "log", "the lines of the log @a that name the address @w",
           "awk '$5 == \"@w\"' @a", lambda g, w: tuple(row for row in g if row.split()[4] == w), _field(4)),
    Derive("between two times", "log", "log", "the lines of the log @a from @n to @m, both times included,",
           "awk '$2 >= \"@n\" && $2 <= \"@m\"' @a",
           lambda g, n, m: tuple(row for row in g if n <= row.split()[1] <= m), _times),
    Derive("slow requests", "log", "log", "the lines of the log @a that end in more than @n milliseconds",
           "awk '$6 > @n' @a", lambda g, n: tuple(row for row in g if int(row.split()[5]) > n), _slow),
    Derive("per service", "log", "table", f"how many lines each service has in the log @a, {_LOG}, as a table with the "
           "heading 'service,count' and rows sorted by service,", f"(echo service,count; awk '{{print $4}}' @a {_PER})",
           _counted(3, "service")),
    Derive("per hour", "log", "table", "how many lines each hour has in the log @a (only hours with any, from 00 to "
           "23), as a table with the heading 'hour,count',", f"(echo hour,count; cut -c12-13 @a {_PER})",
           _counted(1, "hour", 2)),
    Derive("time per service", "log", "table", f"the sum of the milliseconds of each service in the log @a, {_LOG}, "
           f"as a "
           "table with the heading 'service,ms' and rows sorted by service,", "(echo service,ms; awk '{s[$4] += $6} "
               "END {for (k in s) print k \",\" s[k]}' @a | sort)", _milliseconds),
    Derive("most errors", "log", "value", f"the name of the service with the most lines of level ERROR in the log "
           f"@a, {_LOG},",
           "grep ' ERROR ' @a | awk '{print $4}' | sort | uniq -c | sort -n | tail -n 1 | awk '{print $2}'",
           _most(3, " ERROR ")),
    Derive("busiest address", "log", "value", "the address that occurs most often in the log @a",
           "awk '{print $5}' @a | sort | uniq -c | sort -n | tail -n 1 | awk '{print $2}'", _most(4)),
    Derive("slowest request", "log", "value", "the whole line of the log @a that took the most milliseconds, the "
           "number at its end,", "sort -k6,6n @a | tail -n 1", _slowest),
    Derive("addresses", "log", "text", "the different addresses in the log @a, sorted by their bytes,",
           "awk '{print $5}' @a | LC_ALL=C sort -u", lambda g: tuple(sorted({row.split()[4] for row in g}))),
    Derive("log to csv", "log", "table", "Turn the log @a into the table @b: the heading is "
           "date,time,level,service,address,ms, and each line is a row.",
           "(echo date,time,level,service,address,ms; tr ' ' , < @a)",
           lambda g: (("date", "time", "level", "service", "address", "ms"), *(tuple(row.split()) for row in g))),
    Derive("times of errors", "log", "text", "the times, without dates, of all lines of level ERROR in the log @a",
           "awk '$3 == \"ERROR\" {print $2}' @a", lambda g: tuple(r.split()[1] for r in g if r.split()[2] == "ERROR")),
)  # fmt: skip


def _merge_logs(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """A second machine's log of the same day, to be merged by time."""
    date, seen = item.data[0].split()[0], {row.split()[1] for row in item.data}
    rows = [f"{date} {row.split(' ', 1)[1]}" for row in fresh(draft.rng, "log")]
    other = draft.give_item("log", tuple(row for row in rows if row.split()[1] not in seen))
    path = draft.path("log")
    draft.see(item.path)
    draft.see(other.path)
    draft.ask("@o is the log of another machine for the same day. Merge it and @a into @b, in the order of the times.",
              "sort -k1,2 @a @o > @b", result=path, a=item.path, b=path, o=other.path)  # fmt: skip
    return draft.put("log", path, tuple(sorted((*item.data, *other.data), key=lambda row: row.split()[1])))


def _log_named(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """A log of services, one of which an earlier step found."""
    log = draft.give_item("log", _with_word(draft, item.data))
    path = draft.path("log")
    draft.see(log.path)
    draft.ask("Write those lines of the log @o to @b that contain the text which stands in @a.",
              'grep -F "$(cat @a)" @o > @b', result=path, a=item.path, b=path, o=log.path)  # fmt: skip
    return draft.put("log", path, tuple(row for row in log.data if item.data in row))


def _with_word(draft: ChoreDraft, word: str) -> Log:
    """A log in some of whose lines the word is the service."""
    if not word.isalpha() or any(word in row for row in ("INFO", "WARN", "ERROR")):
        pick(draft.rng, ())
    rows = [row.split() for row in fresh(draft.rng, "log")]
    for row in draft.rng.sample(rows, 6):
        row[3] = word
    return tuple(" ".join(row) for row in rows)


def _split_log(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """A folder with a file for each service."""
    folder = draft.name()
    parts: dict[str, list[str]] = defaultdict(list)
    for row in item.data:
        parts[row.split()[3]].append(row)
    contents = {f"{name}.log": lines(rows) for name, rows in parts.items()}
    draft.see(item.path)
    draft.ask(
        f"Divide the log @a, {_LOG}: make a folder @b, and in it for each service a file SERVICE.log with its lines.",
        "mkdir @b", "awk '{print > (\"@b/\" $4 \".log\")}' @a", result="wc -l @b/*", a=item.path, b=folder,
    )  # fmt: skip
    draft.files |= {f"{folder}/{name}": content for name, content in contents.items()}
    return WorkItem("folder", folder, contents)


KINDS: tuple[StepKind, ...] = (
    *(row.kind("formats") for row in TABLES),
    StepKind("join tables", "formats", "table", _join),
    *(row.kind("logs") for row in LOGS),
    StepKind("merge logs", "logs", "log", _merge_logs),
    StepKind("lines that a value names", "logs", "value", _log_named),
    StepKind("divide a log", "logs", "log", _split_log),
)
