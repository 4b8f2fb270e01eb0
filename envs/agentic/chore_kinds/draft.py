"""A chore under way: its files as they will be after each step, what is asked so far, and what an expert types for it.

A kind of step takes an item (a file, a folder, a value) and leaves another one for the next step. Most kinds are rows
of tables: what is asked, a command, and a function that says what must come of it. In their texts ``@a`` is the path of
the item, ``@b`` that of the result, and other names are what was drawn for the step.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple, TypeVar

from rlvr.envs.agentic.chores import WORDS, Chore, Database, Presses, Trial, lines
from rlvr.envs.sandbox import Daemon

SUFFIXES: Final = {
    "text": "txt", "table": "csv", "log": "log", "objects": "json", "settings": "conf", "value": "txt",
}  # fmt: skip
PLAIN: Final = ("text", "table", "log")  # forms that a file with a disguise may have
FILES: Final = (*PLAIN, "settings", "value")  # forms whose bytes are decided, which those of JSON are not
_VERBS: Final = ("Write {} to @b.", "Put {} into @b.", "Save {} as @b.")
_T = TypeVar("_T")
_NAME: Final = re.compile(r"@([a-z])")


class Unfit(Exception):
    """A kind of step has nothing to do with an item."""


class WorkItem(NamedTuple):
    """What a step works on.

    Attributes:
        form: one of ``SUFFIXES``, "folder" or "database".
        path: of the file or folder.
        data: the lines of a text or log, the rows of a table with its heading, the objects of JSON, the pairs of
            settings, a value, the contents of a folder by path, the tables of a database.
    """

    form: str
    path: str
    data: Any


NOTHING: Final = WorkItem("", "", None)


class StepKind(NamedTuple):
    """A kind of step.

    Attributes:
        takes: a form, "file" for any of ``FILES``, or "" if it brings its own files.
        play: adds a step to a draft, and returns what it leaves.
    """

    name: str
    family: str
    takes: str
    play: Callable[[ChoreDraft, WorkItem], WorkItem]

    def suits(self, item: WorkItem) -> bool:
        return self.takes == item.form or (self.takes == "file" and item.form in FILES)


class ChoreDraft:
    """A chore under way.

    Args:
        rng: for all that is drawn.
        look: the probability that the expert looks at what a step made.
    """

    def __init__(self, rng: random.Random, look: float) -> None:
        self.rng, self._look = rng, look
        self.start: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.links: dict[str, str] = {}
        self.gone: set[str] = set()  # paths at which nothing may be
        self.data: dict[str, Any] = {}
        self.free: set[str] = set()  # files that may be changed at will
        self.archives: dict[str, dict[str, bytes]] = {}
        self.databases: dict[str, Database] = {}
        self.repositories: dict[str, list[tuple[str, bytes]]] = {}
        self.trials: list[Trial] = []
        self.daemons: list[Daemon] = []
        self.exits: dict[str, int] = {}
        self.setup: list[str] = []
        self._wishes: list[str] = []
        self._commands: list[str | Presses] = []
        self._unseen: set[str] = set()
        self._names: set[str] = set()

    # files

    def name(self) -> str:
        """A name that nothing else has."""
        while (name := f"{self.rng.choice(WORDS)}{self.rng.randint(1, 99)}") in self._names:
            pass
        self._names.add(name)
        return name

    def path(self, form: str) -> str:
        """A new path for a file of a form."""
        return f"{self.name()}.{SUFFIXES.get(form, form)}"

    def give(self, path: str, content: bytes) -> None:
        """A file that is there at the start."""
        self.start[path] = self.files[path] = content
        self._unseen.add(path)

    def give_item(self, form: str, data: Any) -> WorkItem:
        """A file of a form that is there at the start."""
        item = WorkItem(form, self.path(form), data)
        self.give(item.path, render(form, data))
        return item

    def put(self, form: str, path: str, data: Any) -> WorkItem:
        """A file that a step makes or changes."""
        self.files[path] = render(form, data)
        if form == "objects":
            self.data[path] = data
        return WorkItem(form, path, data)

    def move(self, names: Mapping[str, str]) -> None:
        """Files get other paths, all at once."""
        for store in (self.files, self.modes):
            moved = {new: store.pop(old) for old, new in names.items() if old in store}
            store.update(moved)  # type: ignore[arg-type]
        self.gone |= names.keys()

    def remove(self, path: str) -> None:
        del self.files[path]
        self.modes.pop(path, None)
        self.gone.add(path)

    def is_unused(self, path: str) -> bool:
        """Whether it is a file of the start that no step has worked on."""
        return path in self._unseen

    def copy(self) -> ChoreDraft:
        """A draft that goes on from here, with the same source of chance."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(twin, name, value.copy())
        return twin

    # steps

    def see(self, path: str) -> None:
        """The expert looks at a file of the start before it is first used."""
        if path in self._unseen:
            self._unseen.discard(path)
            self._commands.append(f"head -n 5 {path}")

    def ask(self, wish: str, *commands: str | Presses, result: str = "", **values: Any) -> None:
        """One step more: what is asked, the expert's commands, and a path that the expert may look at afterwards."""
        self._wishes.append(fill(wish, values))
        self._commands += [fill(each, values) if isinstance(each, str) else each for each in commands]
        if result and self.rng.random() < self._look:
            self._commands.append(fill(result, values) if " " in result else f"head -n 5 {result}")

    def chore(self) -> Chore:
        """The chore of all steps."""
        wanted: dict[str, bytes | None] = {
            path: content for path, content in self.files.items()
            if self.start.get(path) != content and path not in self.data
        }  # fmt: skip
        wanted |= {path: None for path in (*self.start, *sorted(self.gone)) if path not in self.files}
        text = self._wishes[0]
        if len(self._wishes) > 1:
            text = "\n".join(["Do the following, one after another:"]
                             + [f"{number}. {wish}" for number, wish in enumerate(self._wishes, 1)])  # fmt: skip
        return Chore(
            text, dict(self.start), tuple(self._commands), wanted,
            modes=self.modes, links=self.links, data=self.data, free=frozenset(self.free), archives=self.archives,
            databases=self.databases, repositories={name: tuple(asked) for name, asked in self.repositories.items()},
            trials=tuple(self.trials), setup="\n".join(["set -e", *self.setup]) if self.setup else "",
            daemons=tuple(self.daemons), exits=self.exits,
        )  # fmt: skip


def render(form: str, data: Any) -> bytes:
    """The bytes of a file."""
    if form == "table":
        return lines([",".join(row) for row in data])
    if form == "objects":
        return f"{json.dumps(data, indent=1)}\n".encode()
    if form == "settings":
        return lines([f"{key} = {value}" for key, value in data])
    return lines([data] if form == "value" else list(data))


def fill(template: str, values: Mapping[str, Any]) -> str:
    """A text in which ``@name`` is replaced by the value of that name."""
    return _NAME.sub(lambda match: str(values[match[1]]) if match[1] in values else match[0], template)


def pick(rng: random.Random, options: Sequence[_T]) -> _T:
    """One of some options.

    Raises:
        Unfit: there are none.
    """
    if not options:
        raise Unfit
    return rng.choice(options)


def between(rng: random.Random, low: int, high: int) -> int:
    """A number from low to high.

    Raises:
        Unfit: there is none.
    """
    if high < low:
        raise Unfit
    return rng.randint(low, high)


Draw = Callable[[random.Random, Any], dict[str, Any]]


def no_draw(rng: random.Random, data: Any) -> dict[str, Any]:
    return {}


class Derive(NamedTuple):
    """A row of a table: a file is made of another one.

    Attributes:
        wish: a sentence, or a noun that begins with a small letter, which is to be written to ``@b``.
        command: prints the result, or writes it to ``@b``.
        result: the data of the result, by the data of the item and what was drawn.
        draw: what is drawn for the step.
    """

    name: str
    takes: str
    gives: str
    wish: str
    command: str
    result: Callable[..., Any]
    draw: Draw = no_draw

    def kind(self, family: str) -> StepKind:
        return StepKind(self.name, family, self.takes, self._play)

    def _play(self, draft: ChoreDraft, item: WorkItem) -> WorkItem:
        values = self.draw(draft.rng, item.data)
        data = self.result(item.data, **values)
        _check(self.gives, data, item.data)
        path = draft.path(self.gives)
        draft.see(item.path)
        verbs = _VERBS[:-1] if " as " in self.wish else _VERBS  # "save ..., as lines, as a.txt" is hard to read
        wish = self.wish if self.wish[0].isupper() else draft.rng.choice(verbs).format(self.wish)
        command = self.command if "@b" in self.command else f"{self.command} > @b"
        draft.ask(wish, command, result=path, a=item.path, b=path, **_shown(values))
        return draft.put(self.gives, path, data)


class Edit(NamedTuple):
    """A row of a table: a file is changed. The attributes are those of ``Derive``; the wish is a sentence."""

    name: str
    takes: str
    wish: str
    command: str
    result: Callable[..., Any]
    draw: Draw = no_draw

    def kind(self, family: str) -> StepKind:
        return StepKind(self.name, family, self.takes, self._play)

    def _play(self, draft: ChoreDraft, item: WorkItem) -> WorkItem:
        if not draft.modes.get(item.path, 0o600) & 0o200:
            raise Unfit
        values = self.draw(draft.rng, item.data)
        data = self.result(item.data, **values)
        if item.form != "objects":
            _check(item.form, data, item.data)
        draft.see(item.path)
        draft.ask(self.wish, self.command, result=item.path, a=item.path, **_shown(values))
        return draft.put(item.form, item.path, data)


class Open(NamedTuple):
    """A row of a table: a file is got out of something else.

    Attributes:
        suffix: of the file at the start, ``@a``.
        command: prints what it holds, or writes it to ``@b``.
        disguise: the bytes of the file at the start, by those of what is got and what was drawn.
    """

    name: str
    suffix: str
    wish: str
    command: str
    disguise: Callable[..., bytes]
    draw: Draw = no_draw
    look: bool = True

    def kind(self, family: str) -> StepKind:
        return StepKind(self.name, family, "", self._play)

    def _play(self, draft: ChoreDraft, _: WorkItem) -> WorkItem:
        form = draft.rng.choice(PLAIN)
        data = fresh(draft.rng, form)
        values = self.draw(draft.rng, data)
        source, path = draft.path(self.suffix), draft.path(form)
        draft.give(source, self.disguise(render(form, data), **values))
        if self.look:
            draft.see(source)
        command = self.command if "@b" in self.command else f"{self.command} > @b"
        draft.ask(self.wish, command, result=path, a=source, b=path, **_shown(values))
        return draft.put(form, path, data)


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was drawn, as texts show it: a column of a table by its number from 1."""
    return {key: value + 1 if key in ("c", "d", "e") else value for key, value in values.items()}


def _check(form: str, data: Any, before: Any) -> None:
    """Raise Unfit unless there is something to show of a step: a result of some size that is not what was there."""
    least = {"text": 2, "log": 2, "table": 3, "objects": 1, "settings": 2}.get(form, 0)
    if data == before or len(data) < least or (form == "value" and not data):
        raise Unfit
    if form == "table" and len(set(data[0])) < len(data[0]):
        raise Unfit


# what items begin with

_THEMES: Final = (
    ("member", "club", "points", "fee", "joined"),
    ("parcel", "depot", "weight", "postage", "sent"),
    ("book", "shelf", "pages", "price", "bought"),
    ("plant", "bed", "height", "cost", "planted"),
    ("ship", "port", "crew", "load", "arrived"),
    ("lamp", "maker", "watts", "stock", "tested"),
)
SERVICES: Final = ("auth", "cart", "mail", "search", "users", "stock", "pages")
_KEYS: Final = (
    "port timeout retries cache_size workers queue limit backlog threads interval max_users page_size".split(),
    "host region theme backup mode owner group language".split(),
)


def fresh(rng: random.Random, form: str) -> Any:
    """New data of a form."""
    return _FRESH[form](rng)


def _text(rng: random.Random) -> tuple[str, ...]:
    rows = [" ".join(rng.choices(WORDS, k=rng.randint(2, 5))) for _ in range(rng.randint(12, 26))]
    rows += rng.sample(rows, 3)
    rng.shuffle(rows)
    return tuple(rows)


def day(rng: random.Random) -> str:
    return f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _table(rng: random.Random) -> tuple[tuple[str, ...], ...]:
    heading, groups = rng.choice(_THEMES), rng.sample(WORDS, 4)
    names = [f"{word}{rng.randint(1, 9)}" for word in rng.sample(WORDS, rng.randint(10, 16))]
    numbers = rng.sample(range(5, 400), len(names))
    return (heading, *(
        (name, rng.choice(groups), str(number), str(rng.randint(2, 99)), day(rng))
        for name, number in zip(names, numbers, strict=True)
    ))  # fmt: skip


def _log(rng: random.Random) -> tuple[str, ...]:
    services = rng.sample(SERVICES, 4)
    addresses = [f"10.{rng.randint(0, 9)}.{rng.randint(0, 99)}.{rng.randint(1, 254)}" for _ in range(5)]
    seconds = sorted(rng.sample(range(86_400), rng.randint(20, 34)))
    date, levels = day(rng), ("INFO", "INFO", "WARN", "ERROR")
    return tuple(
        f"{date} {at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d} {rng.choice(levels)} {rng.choice(services)} "
        f"{rng.choice(addresses)} {rng.randint(2, 999)}"
        for at in seconds
    )


def _objects(rng: random.Random) -> list[dict[str, Any]]:
    heading, *rows = _table(rng)
    return [
        {name: int(cell) if cell.isdigit() else cell for name, cell in zip(heading, row, strict=True)} for row in rows
    ]


def _settings(rng: random.Random) -> tuple[tuple[str, str], ...]:
    numbers, words = _KEYS
    pairs = [(key, str(rng.randint(2, 9_000))) for key in rng.sample(numbers, 6)]
    pairs += [(key, rng.choice(WORDS)) for key in rng.sample(words, 4)]
    rng.shuffle(pairs)
    return tuple(pairs)


def tree(rng: random.Random) -> dict[str, bytes]:
    """Texts in nested folders."""
    contents: dict[str, bytes] = {}
    for index, word in enumerate(rng.sample(WORDS, rng.randint(8, 11))):
        folder = "/".join(rng.sample(("red", "green", "blue"), rng.choice((0, 1, 1, 2))))
        path = f"{word}{rng.randint(1, 99)}{('.txt', '.md', '.cfg')[index % 3]}"
        contents["/".join(filter(None, (folder, path)))] = lines(rng.choices(WORDS, k=rng.randint(3, 40)))
    return contents


def _value(rng: random.Random) -> str:
    return rng.choice((str(rng.randint(1_000, 9_999)), rng.choice(WORDS)))


_FRESH: Final[dict[str, Callable[[random.Random], Any]]] = {
    "text": _text, "table": _table, "log": _log, "objects": _objects, "settings": _settings, "folder": tree,
    "value": _value,
}  # fmt: skip
