"""Steps with make, and with databases of SQLite, which are worked on by a small program of the workspace."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from rlvr.envs.agentic.chore_kinds.draft import ChoreDraft, StepKind, WorkItem, fill, fresh, pick, render
from rlvr.envs.agentic.chore_kinds.history import INSTALLED
from rlvr.envs.agentic.chores import WORDS, Trial

# make

_RECIPES: tuple[tuple[str, str, Callable[[tuple[str, ...]], tuple[str, ...]]], ...] = (
    ("its lines sorted by their bytes", "LC_ALL=C sort", lambda rows: tuple(sorted(rows))),
    ("its lines from the last to the first", "tac", lambda rows: rows[::-1]),
    ("its text in capitals", "tr a-z A-Z <", lambda rows: tuple(row.upper() for row in rows)),
    ("its first three lines", "head -n 3", lambda rows: rows[:3]),
    ("its last three lines", "tail -n 3", lambda rows: rows[-3:]),
    (
        "each different line of it once, sorted by their bytes",
        "LC_ALL=C sort -u",
        lambda rows: tuple(sorted(set(rows))),
    ),
)


def _make(name: str, wish: str, right: str, broken: str, *fix: str, stale: bool = False) -> StepKind:
    """A Makefile that has to be mended, and then makes a file of a text; it is tried on another text too.

    Args:
        right, broken: the Makefile as it could be, and as it is: ``@r`` and ``@q`` are its recipes.
        fix: commands that mend it.
        stale: whether the target is there already, made of an older text.
    """

    def play(draft: ChoreDraft, item: WorkItem) -> WorkItem:
        (how, recipe, result), (_, second, last) = draft.rng.sample(_RECIPES, 2)
        file, path, two_steps = f"{draft.name()}.mk", draft.path("text"), "@q" in right
        values = {"a": item.path, "b": path, "m": file, "r": recipe, "q": second, "t": f"{draft.name()}.tmp", "h": how,
                  "o": draft.name()}  # fmt: skip

        def made(rows: tuple[str, ...]) -> tuple[str, ...]:
            return last(result(rows)) if two_steps else result(rows)

        data, other = made(item.data), fresh(draft.rng, "text")
        if len(data) < 2 or "/" in item.path or item.path in draft.modes or (stale and item.path not in draft.start):
            pick(draft.rng, ())
        draft.setup.append(INSTALLED.format("make"))
        draft.give(file, fill(broken, values).encode())
        if stale:
            draft.give(path, render("text", tuple(made(other))))
            draft.setup.append(f"touch -d 2026-01-01 {item.path}; touch -d 2026-01-02 {path}")
        draft.see(item.path)
        draft.ask(wish, "cat @m", "make -f @m", *fix, *(["make -f @m"] if fix else []), result=path, **values)
        if two_steps:
            draft.put("text", values["t"], result(item.data))
        if broken != right:
            draft.free.add(file)
            draft.trials.append(Trial((file,), {item.path: render("text", other)}, f"make -s -f {file} && cat {path}",
                                      render("text", made(other))))  # fmt: skip
        return draft.put("text", path, data)

    return StepKind(name, "make", "text", play)


_RIGHT = "@b: @a\n\t@r @a > @b\n"
_TWO = "@b: @t\n\t@q @t > @b\n\n@t: @a\n\t@r @a > @t\n"
_MENDED = "make -f @m should make @b of @a ({}), but fails. Mend @m and run it. It will be tried with another @a, too."
_HOW = _MENDED.format("@h")
MAKE = (
    _make("run make", "Run make with the Makefile @m. It makes @b of @a.", _RIGHT, _RIGHT),
    _make("run two rules", "Run make with the Makefile @m. It makes @b of @a, by way of @t.", _TWO, _TWO),
    _make("blanks for a tab", _HOW, _RIGHT, "@b: @a\n    @r @a > @b\n", "sed -i 's/^    /\\t/' @m"),
    _make("wrong prerequisite", _HOW, _RIGHT, "@b: @o.txt\n\t@r @a > @b\n", "sed -i 's/: @o.txt/: @a/' @m"),
    _make("wrong variable", _HOW, "IN = @a\n@b: $(IN)\n\t@r $(IN) > @b\n", "IN = @o.txt\n@b: $(IN)\n\t@r $(IN) > @b\n",
          "sed -i 's/^IN = .*/IN = @a/' @m"),
    _make("wrong target", "make -f @m should make @b of @a (@h), but writes another file. Mend @m and run it. It will "
          "be tried with another @a, too.", _RIGHT, "@b: @a\n\t@r @a > @o.txt\n", "sed -i 's/> @o.txt/> @b/' @m"),
    _make("circle", _MENDED.format("by way of @t"), _TWO, _TWO.replace("@t: @a", "@t: @b"), "sed -i 's/^@t: @b/@t: "
          "@a/' @m"),
    _make("missing rule", "make -f @m should make @b of @a, but there is no rule that makes @t of @a (@h). Add "
          "the rule to @m and run make. It will be tried with another @a, too.", _TWO, _TWO.partition("\n\n")[0] + "\n",
          "printf '\\n@t: @a\\n\\t@r @a > @t\\n' >> @m"),
    _make("missing target", "make -f @m should make @b of @a, but the Makefile only knows how to make @t of @a. Add "
          "a first rule to @m that makes @b of @t by '@q', and run make. It will be tried with another @a, too.", _TWO,
          "@t: @a\n\t@r @a > @t\n", "printf '@b: @t\\n\\t@q @t > @b\\n\\n' | cat - @m > t.tmp; mv t.tmp @m"),
    _make("wrong command", _HOW, _RIGHT, "@b: @a\n\tno-@r @a > @b\n", "rm @b; sed -i 's/no-//' @m"),
    _make("stale target", "@b is older news: make -f @m says that it is up to date, though @a has changed, because "
          "its rule does not name @a. Mend @m and run it; it makes @b of @a (@h).", _RIGHT, "@b:\n\t@r @a > @b\n",
          "sed -i 's/^@b:/@b: @a/' @m", "touch @a", stale=True),
)  # fmt: skip


# databases

QUERY = b'''"""python3 query.py FILE "SQL" runs a statement on a SQLite database and prints its rows as CSV
below a heading. Without one it runs those on standard input."""
import csv, sqlite3, sys

database = sqlite3.connect(sys.argv[1])
if len(sys.argv) > 2:
    rows = database.execute(sys.argv[2])
    out = csv.writer(sys.stdout, lineterminator="\\n")
    if rows.description:
        out.writerow([each[0] for each in rows.description])
    out.writerows(rows)
else:
    database.executescript(sys.stdin.read())
database.commit()
'''
Tables = dict[str, tuple[tuple[str, ...], ...]]


def _types(table: tuple[tuple[str, ...], ...]) -> str:
    columns = zip(*table[1:], strict=True)
    return ", ".join(f"{name} {'INTEGER' if all(cell.isdigit() for cell in cells) else 'TEXT'}"
                     for name, cells in zip(table[0], columns, strict=True))  # fmt: skip


def _statements(tables: Tables) -> bytes:
    rows = [f"CREATE TABLE {name} ({_types(table)});" for name, table in tables.items()]
    for name, table in tables.items():
        rows += [f"INSERT INTO {name} VALUES ({', '.join(repr(cell) for cell in row)});" for row in table[1:]]
    return "\n".join(rows).encode()


def a_database(draft: ChoreDraft, tables: Tables | None = None) -> WorkItem:
    """A database that is there at the start."""
    tables = tables or {draft.rng.choice(WORDS): fresh(draft.rng, "table")}
    path = draft.path("db")
    draft.start[f".{path}"] = _statements(tables)
    draft.setup += [f"python3 query.py {path} < .{path}", f"rm .{path}"]
    return _kept(draft, path, tables)


def _kept(draft: ChoreDraft, path: str, tables: Tables) -> WorkItem:
    draft.start["query.py"] = draft.files["query.py"] = QUERY
    draft.databases[path] = dict(tables)
    return WorkItem("database", path, dict(tables))


def _columns(rng: random.Random, table: Any) -> dict[str, Any]:
    """A column of words x with one of its words w, and a column of numbers y with a bound n."""
    words = [
        c for c in range(len(table[0])) if not table[1][c].isdigit() and len({r[c] for r in table[1:]}) < len(table) - 1
    ]
    numbers = [c for c in range(len(table[0])) if all(row[c].isdigit() for row in table[1:])]
    c, d = pick(rng, words), pick(rng, numbers)
    names = {"x": table[0][c], "y": table[0][d], "z": table[0][0]}
    bounds = sorted(int(row[d]) for row in table[1:])[2:-2]
    return {"c": c, "d": d, **names, "w": rng.choice([row[c] for row in table[1:]]), "n": pick(rng, bounds)}


def _database(name: str, gives: str, wish: str, sql: str, result: Callable[..., Any]) -> StepKind:
    """A step on the first table @t of a database: a query, or where ``gives`` is empty a change."""

    def play(draft: ChoreDraft, item: WorkItem) -> WorkItem:
        title, table = next(iter(item.data.items()))
        values = _columns(draft.rng, table)
        data = result(table, **values)
        if data == table or not data or (gives == "table" and len(data) < 3):
            pick(draft.rng, ())
        head = 'python3 query.py @a "PRAGMA table_info(@t)"'
        if not gives:
            draft.ask(wish, head, f'python3 query.py @a "{sql}"', result='python3 query.py @a "SELECT * FROM @t"',
                      a=item.path, t=title, **values)  # fmt: skip
            return _kept(draft, item.path, {**item.data, title: data})
        path, tail = draft.path(gives), "" if gives == "table" else " | tail -n +2"
        tell = 'The table @t of the SQLite database @a can be queried by python3 query.py @a "SQL", or by sqlite3. '
        draft.ask(tell + wish, head, f'python3 query.py @a "{sql}"{tail} > @b',
            result=path, a=item.path, b=path, t=title,
                  **values)  # fmt: skip
        return draft.put(gives, path, data)

    return StepKind(name, "databases", "database", play)


def _grouped(table: Any, c: int, d: int, x: str, y: str, **_: Any) -> Any:
    totals: Counter[str] = Counter()
    for row in table[1:]:
        totals[row[c]] += int(row[d])
    return ((x, "total"), *((word, str(total)) for word, total in sorted(totals.items())))


def _top(table: Any, d: int, **_: Any) -> str:
    rows = sorted(table[1:], key=lambda row: int(row[d]))
    return str(rows[-1][0]) if rows[-1][d] != rows[-2][d] else ""


def _load(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    title, path = draft.rng.choice(WORDS), draft.path("db")
    draft.see(item.path)
    draft.ask("Make a SQLite database @b with one table @t that holds the rows of @a, with columns named by its "
        "heading: of type INTEGER where all cells are whole numbers, else TEXT. (python3 query.py @b \"SQL\" runs a "
        "statement, as sqlite3 does.)", f'python3 query.py @b "CREATE TABLE @t ({_types(item.data)})"',
              "tail -n +2 @a | sed \"s/,/','/g; s/.*/INSERT INTO @t VALUES ('&');/\" | python3 query.py @b",
              result='python3 query.py @b "SELECT * FROM @t"', a=item.path, b=path, t=title)  # fmt: skip
    return _kept(draft, path, {title: item.data})


def _joined(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    """Two tables, of which the second says more about a column of the first."""
    table = fresh(draft.rng, "table")
    words = sorted({row[1] for row in table[1:]})
    towns = {word: draft.rng.choice(("Bern", "Cork", "Oslo", "Pisa", "Riga")) for word in words}
    (one, other), column, path = draft.rng.sample(WORDS, 2), table[0][1], draft.path("table")
    town = draft.rng.choice(sorted(set(towns.values())))
    data = (table[0][:2], *sorted(row[:2] for row in table[1:] if towns[row[1]] == town))
    if len(data) < 3:
        pick(draft.rng, ())
    item = a_database(draft, {one: table, other: ((column, "town"), *towns.items())})
    draft.ask("The SQLite database @a has the tables @t and @o (python3 query.py @a \"SQL\" runs a statement). Write "
        "the columns @x and @y of those rows of @t to @b whose @y has the town @w in the table @o, below a heading, "
        "ordered by @x.",
              'python3 query.py @a "SELECT sql FROM sqlite_master"',
              'python3 query.py @a "SELECT @x, @t.@y FROM @t JOIN @o USING (@y) WHERE town = \'@w\' ORDER BY @x" > @b',
              result=path, a=item.path, b=path, t=one, o=other, x=table[0][0], y=column, w=town)  # fmt: skip
    return draft.put("table", path, data)


_IN = 'In the table @t of the SQLite database @a (python3 query.py @a "SQL" runs a statement) '
DATABASES = (
    _database("rows by number", "table", "Write its rows with more than @n in the column @y to @b, below a heading, "
              "in the order of the table.", "SELECT * FROM @t WHERE @y > @n ORDER BY rowid",
              lambda t, d, n, **_: (t[0], *(row for row in t[1:] if int(row[d]) > n))),
    _database("rows by word", "table", "Write its rows with @w in the column @x to @b, below a heading, in the order "
              "of the table.", "SELECT * FROM @t WHERE @x = '@w' ORDER BY rowid",
              lambda t, c, w, **_: (t[0], *(row for row in t[1:] if row[c] == w))),
    _database("totals", "table", "For each @x write the sum of @y to @b, as a table with the heading '@x,total', "
              "ordered by @x.",
              "SELECT @x, SUM(@y) AS total FROM @t GROUP BY @x ORDER BY @x", _grouped),
    _database("export", "table", "Write all of it to @b as comma-separated values with a heading, ordered by @y from "
              "low to high and rows of the same @y in the order of the table.", "SELECT * FROM @t ORDER BY @y, rowid",
              lambda t, d, **_: (t[0], *sorted(t[1:], key=lambda row: int(row[d])))),
    _database("count rows", "value", "How many of its rows have @w in the column @x? Write the number to @b.",
              "SELECT COUNT(*) FROM @t WHERE @x = '@w'", lambda t, c, w, **_: str(sum(row[c] == w for row in t[1:]))),
    _database("highest row", "value", "Write the first column of its row with the highest @y to @b.",
              "SELECT @z FROM @t ORDER BY @y DESC LIMIT 1", _top),
    _database("different values", "text", "Write the different values of its column @x to @b, one a line, in "
              "alphabetical order.",
              "SELECT DISTINCT @x FROM @t ORDER BY @x", lambda t, c, **_: tuple(sorted({row[c] for row in t[1:]}))),
    _database("raise numbers", "", f"{_IN}add 10 to @y in the rows with @w in the column @x.",
              "UPDATE @t SET @y = @y + 10 WHERE @x = '@w'",
              lambda t, c, d, w, **_: (t[0], *(
                  (*r[:d], str(int(r[d]) + 10), *r[d + 1 :]) if r[c] == w else r for r in t[1:]))),
    _database("delete rows", "", f"{_IN}delete the rows with less than @n in the column @y.", "DELETE FROM @t WHERE "
              "@y < @n",
              lambda t, d, n, **_: (t[0], *(row for row in t[1:] if int(row[d]) >= n))),
    _database("another column", "", f"{_IN}add a column extra of type INTEGER at the end, with twice the value of @y.",
              'ALTER TABLE @t ADD COLUMN extra INTEGER"; python3 query.py @a "UPDATE @t SET extra = 2 * @y',
              lambda t, d, **_: ((*t[0], "extra"), *((*row, str(2 * int(row[d]))) for row in t[1:]))
              if "extra" not in t[0] else t),
    _database("rename a group", "", f"{_IN}change @w in the column @x to @wx wherever it stands.",
              "UPDATE @t SET @x = '@wx' WHERE @x = '@w'",
              lambda t, c, w, **_: (t[0], *((*r[:c], f"{w}x", *r[c + 1 :]) if r[c] == w else r for r in t[1:]))),
    StepKind("load a table", "databases", "table", _load),
    StepKind("query two tables", "databases", "", _joined),
)  # fmt: skip

KINDS: tuple[StepKind, ...] = (*MAKE, *DATABASES)
