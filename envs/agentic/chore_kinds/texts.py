"""Steps on texts: lines and words; and the cleaning of texts and tables that came in dirty."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from rlvr.envs.agentic.chore_kinds.draft import (
    ChoreDraft,
    Derive,
    Edit,
    StepKind,
    Unfit,
    WorkItem,
    between,
    fresh,
    pick,
)
from rlvr.envs.agentic.chores import WORDS, lines

Rows = tuple[str, ...]
_WORD = re.compile(r"\w+")
_WORDS = "what stands between blanks"


def _count(rng: random.Random, rows: Rows) -> dict[str, Any]:
    return {"n": between(rng, 3, len(rows) - 2)}


def _span(rng: random.Random, rows: Rows) -> dict[str, Any]:
    first = between(rng, 2, len(rows) - 3)
    return {"n": first, "m": between(rng, first + 1, len(rows) - 1)}


def _word(rng: random.Random, rows: Rows) -> dict[str, Any]:
    """A word that is in some lines and not in all."""
    counts = Counter(word for row in rows for word in set(_WORD.findall(row)))
    return {"w": pick(rng, sorted(word for word, count in counts.items() if word in WORDS and 1 < count < len(rows)))}


def _new_word(rng: random.Random, rows: Rows) -> dict[str, Any]:
    return _word(rng, rows) | {"x": f"new{rng.randint(10, 99)}"}


def _line(rng: random.Random, rows: Rows) -> dict[str, Any]:
    return {"x": " ".join(rng.choices(WORDS, k=3)), "n": between(rng, 2, len(rows) - 1)}


def _mark(rng: random.Random, rows: Rows) -> dict[str, Any]:
    return {"x": rng.choice(("- ", "> ", "* ", "+ "))}


def _width(rng: random.Random, rows: Rows) -> dict[str, Any]:
    return {"n": between(rng, 8, max(map(len, rows)) - 1)}


def _has(row: str, word: str) -> bool:
    return word in _WORD.findall(row)


def _replaced(rows: Rows, w: str, x: str) -> Rows:
    return tuple(re.sub(rf"\b{w}\b", x, row) for row in rows)


def _words_of_lines(rows: Rows) -> list[list[str]]:
    """What stands between the blanks of each line.

    Raises:
        Unfit: a line has nothing, begins or ends with a blank, or has a tab, which may count as a blank or not.
    """
    if any("\t" in row or not row.strip() or row != row.strip() for row in rows):
        raise Unfit
    return [row.split() for row in rows]


def _words(rows: Rows) -> Rows:
    """What stands between blanks in all lines."""
    if any("\t" in row for row in rows):
        raise Unfit
    return tuple(word for row in rows for word in row.split())


def _tallied(rows: Rows) -> Rows:
    return tuple(f"{word} {count}" for word, count in sorted(Counter(_words(rows)).items()))


def _longest(rows: Rows) -> str:
    longest = max(rows, key=len)
    return longest if sum(len(row) == len(longest) for row in rows) == 1 else ""


TEXTS = (
    Derive("first lines", "text", "text", "the first @n lines of @a", "head -n @n @a", lambda r, n: r[:n], _count),
    Derive("last lines", "text", "text", "the last @n lines of @a", "tail -n @n @a", lambda r, n: r[-n:], _count),
    Derive("middle lines", "text", "text", "lines @n to @m of @a, both included,", "sed -n '@n,@mp' @a",
           lambda r, n, m: r[n - 1 : m], _span),
    Derive("all but the first lines", "text", "text", "all lines of @a but the first @n", "tail -n +$((@n + 1)) @a",
           lambda r, n: r[n:], lambda rng, r: {"n": between(rng, 2, len(r) // 2)}),
    Derive("every second line", "text", "text", "every second line of @a, the first, the third and so on,",
           "awk 'NR % 2 == 1' @a", lambda r: r[::2]),
    Derive("reverse lines", "text", "text", "the lines of @a from the last to the first", "tac @a", lambda r: r[::-1]),
    Derive("number lines", "text", "text", "the lines of @a, each with its number and a colon before it (1:…),",
           "grep -n '' @a", lambda r: tuple(f"{n}:{row}" for n, row in enumerate(r, 1))),
    Derive("capitals", "text", "text", "the text of @a, with every letter as a capital,", "tr a-z A-Z < @a",
           lambda r: tuple(row.upper() for row in r)),
    Derive("sort lines", "text", "text", "the lines of @a, sorted by their bytes,", "LC_ALL=C sort @a",
           lambda r: tuple(sorted(r))),
    Derive("first words", "text", "text", "the first word of each line of @a, all up to the first blank,",
           "cut -d' ' -f1 @a", lambda r: tuple(words[0] for words in _words_of_lines(r))),
    Derive("last words", "text", "text", "the last word of each line of @a, all after the last blank,",
           "awk '{print $NF}' @a", lambda r: tuple(words[-1] for words in _words_of_lines(r))),
    Derive("lines with a word", "text", "text", "the lines of @a that contain the word @w", "grep -w @w @a",
           lambda r, w: tuple(row for row in r if _has(row, w)), _word),
    Derive("lines without a word", "text", "text", "the lines of @a that do not contain the word @w", "grep -vw @w @a",
           lambda r, w: tuple(row for row in r if not _has(row, w)), _word),
    Derive("one word a line", "text", "text", f"the words of @a ({_WORDS}), each on a line of its own and in their "
           "order,", "grep -oE '[^ ]+' @a", _words),
    Derive("tally of words", "text", "text", f"how often each word ({_WORDS}) occurs in @a, as lines 'WORD NUMBER' "
           "sorted by the bytes of the words,",
           "grep -oE '[^ ]+' @a | LC_ALL=C sort | uniq -c | awk '{print $2, $1}'", _tallied),
    Derive("different words", "text", "text", f"the different words of @a ({_WORDS}), each once and on a line of its "
           "own, sorted by their bytes,", "grep -oE '[^ ]+' @a | LC_ALL=C sort -u",
           lambda r: tuple(sorted(set(_words(r))))),
    Derive("begin each line", "text", "text", "the lines of @a, with '@x' put before each,", "sed 's/^/@x/' @a",
           lambda r, x: tuple(x + row for row in r), _mark),
    Derive("long lines", "text", "text", "the lines of @a that have more than @n characters", "awk 'length > @n' @a",
           lambda r, n: tuple(row for row in r if len(row) > n), _width),
    Derive("longest line", "text", "value", "the longest line of @a", "awk 'length > n {n = length; l = $0} END "
           "{print l}' @a", _longest),
    Derive("count words", "text", "value", f"the number of words ({_WORDS}) in @a, and nothing else,", "wc -w < @a",
           lambda r: str(len(_words(r)))),
    Derive("count matches", "text", "value", "the number of lines of @a that contain the word @w", "grep -cw @w @a",
           lambda r, w: str(sum(_has(row, w) for row in r)), _word),
    Edit("replace a word", "text", "In @a, replace the word @w by @x wherever it stands.", "sed -i 's/\\b@w\\b/@x/g' "
         "@a",
         _replaced, _new_word),
    Edit("append a line", "text", "Add one more line to the end of @a: @x", "echo '@x' >> @a",
         lambda r, x, n: (*r, x), _line),
    Edit("insert a line", "text", "Insert a new line before line @n of @a: @x", "sed -i '@ni @x' @a",
         lambda r, x, n: (*r[: n - 1], x, *r[n - 1 :]), _line),
    Edit("delete lines", "text", "Delete every line of @a that contains the word @w.", "sed -i '/\\b@w\\b/d' @a",
         lambda r, w: tuple(row for row in r if not _has(row, w)), _word),
)  # fmt: skip


# cleaning

Dirt = Callable[[random.Random, Any], bytes]


def _dirty(name: str, form: str, wish: str, command: str, dirt: Dirt) -> StepKind:
    """Something came in dirty: what is asked is how it was before."""

    def play(draft: ChoreDraft, _: WorkItem) -> WorkItem:
        data = fresh(draft.rng, form)
        if form == "text":
            data = tuple(dict.fromkeys(data))
        source, path = draft.path(form), draft.path(form)
        draft.give(source, dirt(draft.rng, data))
        draft.see(source)
        draft.ask(wish, f"{command} > @b", result=path, a=source, b=path)
        return draft.put(form, path, data)

    return StepKind(name, "cleaning", "", play)


def _each(change: Callable[[random.Random, str], str]) -> Dirt:
    """Dirt in lines: each is changed, and some change for certain."""

    def dirt(rng: random.Random, rows: Rows) -> bytes:
        dirty = [change(rng, row) for row in rows]
        if dirty == list(rows):
            dirty = [change(random.Random(number), row) for number, row in enumerate(rows)]
        return "".join(f"{row}\n" for row in dirty).encode()

    return dirt


def _more(extra: Callable[[random.Random, list[str]], str]) -> Dirt:
    """Dirt between lines: four more, none of them the first."""

    def dirt(rng: random.Random, rows: Any) -> bytes:
        dirty = [row if isinstance(row, str) else ",".join(row) for row in rows]
        for _ in range(4):
            dirty.insert(rng.randint(1, len(dirty)), extra(rng, dirty))
        return lines(dirty)

    return dirt


def _cells(column: int, change: Callable[[random.Random, str], str]) -> Dirt:
    """Dirt in the cells of a column of a table, but for the heading."""

    def dirt(rng: random.Random, table: Any) -> bytes:
        rows = [(*row[:column], change(rng, row[column]), *row[column + 1 :]) for row in table[1:]]
        return lines([",".join(row) for row in (table[0], *rows)])

    return dirt


def _incomplete(rng: random.Random, rows: list[str]) -> str:
    cells = rng.choice(rows[1:]).split(",")
    cells[0] = f"{rng.choice(WORDS)}{rng.randint(10, 99)}"
    cells[rng.randint(1, 4)] = ""
    return ",".join(cells)


def _unreadable(rng: random.Random, rows: list[str]) -> str:
    cells = rng.choice(rows[1:]).split(",")
    return ",".join(
        [f"{rng.choice(WORDS)}{rng.randint(10, 99)}", cells[1], rng.choice(("n/a", "?", "x12")), *cells[3:]]
    )


CLEANING = (
    _dirty("empty lines", "text", "There are empty lines in @a. Write all its other lines to @b.", "grep -v '^$' @a",
           _more(lambda rng, rows: "")),
    _dirty("comments", "text", "In @a a line that begins with # is a comment. Write all other lines to @b.",
           "grep -v '^#' @a", _more(lambda rng, rows: f"# {rng.choice(WORDS)}")),
    _dirty("blanks at the end", "text", "Some lines of @a end in blanks. Write them without these to @b.",
           "sed 's/ *$//' @a", _each(lambda rng, row: row + " " * rng.choice((0, 0, 1, 3)))),
    _dirty("blanks at the start", "text", "Some lines of @a begin with blanks. Write them without these to @b.",
           "sed 's/^ *//' @a", _each(lambda rng, row: " " * rng.choice((0, 0, 2, 4)) + row)),
    _dirty("runs of blanks", "text", "The words of @a have one or more blanks between them. Write the text to @b "
           "with exactly one blank between two words.", "tr -s ' ' < @a",
           _each(lambda rng, row: row.replace(" ", " " * rng.randint(1, 3)))),
    _dirty("ends of lines", "text", "The lines of @a end as Windows ends them, in CR and LF. Write them to @b as "
           "Unix does, with LF alone.", "tr -d '\\r' < @a", _each(lambda rng, row: f"{row}\r")),
    _dirty("tabs", "text", "The words of @a have tabs between them. Write the text to @b with a blank for each tab.",
           "tr '\\t' ' ' < @a", _each(lambda rng, row: row.replace(" ", "\t"))),
    _dirty("mixed case", "text", "Somebody wrote some words of @a in capitals. Write the text in small letters to @b.",
           "tr A-Z a-z < @a",
           _each(lambda rng, row: " ".join(rng.choice((word, word.upper())) for word in row.split()))),
    _dirty("repeated lines", "text", "Some lines of @a occur several times. Write each different line once to @b, "
           "where it stands first.", "awk '!seen[$0]++' @a", _more(lambda rng, rows: rows[0])),
    _dirty("empty cells", "table", "Some rows of @a lack a value: there is nothing between two commas, or at the "
           "end. Write all complete rows to @b, with the heading.", "grep -v -e ',,' -e ',$' @a", _more(_incomplete)),
    _dirty("no numbers", "table", "The third column of @a should be a number. Write the heading and the rows in "
           "which it is one to @b.", "awk -F, 'NR == 1 || $3 ~ /^[0-9]+$/' @a", _more(_unreadable)),
    _dirty("dates", "table", "The last column of @a has dates such as 24.12.2026. Write the table to @b with dates "
           "such as 2026-12-24.", "sed -E 's/([0-9]+)\\.([0-9]+)\\.([0-9]+)$/\\3-\\2-\\1/' @a",
           _cells(4, lambda rng, cell: ".".join(cell.split("-")[::-1]))),
    _dirty("units", "table", "The fourth column of @a has amounts such as '12 EUR'. Write the table to @b with the "
           "numbers alone.", "sed 's/ EUR//' @a", _cells(3, lambda rng, cell: f"{cell} EUR")),
    _dirty("repeated rows", "table", "Some rows of @a were entered twice. Write each different row once to @b, where "
           "it stands first, below the heading.", "awk '!seen[$0]++' @a", _more(lambda rng, rows: rows[1])),
    _dirty("quotation marks", "table", "Every cell of @a stands in quotation marks. Write the table without them to "
           "@b.",
           "tr -d '\"' < @a", lambda rng, table: lines([",".join(f'"{cell}"' for cell in row) for row in table])),
    _dirty("leading zeros", "table", "The numbers in the third column of @a have zeros before them, such as 0042. "
           "Write the table without these zeros to @b.", "awk -F, -v OFS=, 'NR > 1 {$3 += 0} 1' @a",
           _cells(2, lambda rng, cell: cell.zfill(5))),
)  # fmt: skip

KINDS: tuple[StepKind, ...] = (*(row.kind("text") for row in TEXTS), *CLEANING)
