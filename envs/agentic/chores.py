"""A chore for the Terminal: a workspace, what to do in it, what an expert types, and how it must be in the end.

``chore_kinds`` composes them.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rlvr.envs.agentic.keys import write_keys
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.graders.code import sandbox_fault
from rlvr.envs.sandbox import Daemon, Limits, SandboxError, TerminalWorkspace, shared

WORDS = "amber birch cedar delta ember fjord grove harbor iris juniper kelp lotus maple north olive pine quartz".split()
MAX_FILE = 64_000  # bytes
TRIED = Limits(seconds=10.0)
# The dates of git are fixed, so that the same commits have the same names in every run.
VARIABLES = {
    "PS1": "\\w\\$ ", "HISTFILE": "", "LESSHISTFILE": "-", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_AUTHOR_DATE": "2026-01-31T12:00:00+0000",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2026-01-31T12:00:00+0000",
}  # fmt: skip
_READ = """import json, sqlite3
database, held = sqlite3.connect("judged.db"), {}
for (name,) in list(database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")):
    if name.startswith("sqlite_"):
        continue
    rows = database.execute('SELECT * FROM "' + name.replace('"', '""') + '"')
    held[name] = [[each[0] for each in rows.description], *sorted([str(cell) for cell in row] for row in rows)]
print(json.dumps(held))
"""
_BARE = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


class Presses(NamedTuple):
    """Keys that an expert presses where no command is typed, as an action writes them."""

    keys: str


class Trial(NamedTuple):
    """A command that is run with some files of the workspace and other inputs, and what it must print."""

    files: tuple[str, ...]
    inputs: Mapping[str, bytes]
    command: str
    printed: bytes


Database = Mapping[str, Sequence[tuple[str, ...]]]  # tables by name: the names of the columns, then the rows


class Chore(NamedTuple):
    """One task.

    Attributes:
        text: what is asked.
        files: the workspace at the start, by path.
        commands: what an expert types: a line each, or keys.
        wanted: files that must hold exactly this in the end; None for those that must be gone. All other files of the
            start must be as they were.
        modes: permission bits that files must have in the end.
        links: symbolic links that must be there, and where they lead.
        data: files that must hold JSON of these values, however it is written.
        free: files that may be changed at will.
        archives: tar.gz files, and the files that each must hold.
        databases: files of SQLite, and the tables that each must hold, their rows in any order.
        repositories: folders of git, and what git must answer about each in the end.
        trials: what is tried with files of the workspace.
        setup: a bash script that is run before the shell opens.
        daemons: programs that run in the background.
        exits: the exit codes of those that must have ended; all others must still run.
    """

    text: str
    files: dict[str, bytes]
    commands: tuple[str | Presses, ...]
    wanted: dict[str, bytes | None]
    modes: Mapping[str, int] = MappingProxyType({})
    links: Mapping[str, str] = MappingProxyType({})
    data: Mapping[str, Any] = MappingProxyType({})
    free: frozenset[str] = frozenset()
    archives: Mapping[str, Mapping[str, bytes]] = MappingProxyType({})
    databases: Mapping[str, Database] = MappingProxyType({})
    repositories: Mapping[str, tuple[tuple[str, bytes], ...]] = MappingProxyType({})
    trials: tuple[Trial, ...] = ()
    setup: str = ""
    daemons: tuple[Daemon, ...] = ()
    exits: Mapping[str, int] = MappingProxyType({})

    @property
    def actions(self) -> tuple[str, ...]:
        """What an expert does, but for the <Done> at the end."""
        return tuple(each.keys if isinstance(each, Presses) else f"{write_keys(each)}<Enter>" for each in self.commands)


def lines(rows: Sequence[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def packed(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz of some files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


# grading


def judged(chore: Chore, workspace: TerminalWorkspace) -> Verdict:
    """The verdict on what a terminal left."""
    files = {path: content for path, (kind, content, _) in workspace.files.items() if kind == "file"}
    plain = {path: content for path, content in files.items() if isinstance(content, bytes)}
    problem = _files(chore, workspace, files) or _programs(chore, workspace) or _archives(chore, plain)
    if problem:
        return wrong(reason=problem)
    try:
        problem = _databases(chore, plain) or _repositories(chore, plain) or _trials(chore, plain)
    except SandboxError as error:
        return sandbox_fault(error)
    return wrong(reason=problem) if problem else correct(reason="the workspace is as it was asked")


def _files(chore: Chore, workspace: TerminalWorkspace, files: Mapping[str, Any]) -> str:
    """What is wrong with files, permissions and links; "" if nothing is."""
    expected: dict[str, bytes | None] = {**chore.files, **chore.wanted}
    for path in (*chore.data, *chore.free):
        expected.pop(path, None)
    for path, content in expected.items():
        if content is None and path in workspace.files:
            return f"{path} should not be there"
        if content is not None and files.get(path) != content:
            return f"{path} is not as it should be"
    for path, value in chore.data.items():
        if not _holds(files.get(path), value):
            return f"{path} does not hold the JSON that it should"
    for path, mode in chore.modes.items():
        if workspace.files[path][2] != mode:
            return f"{path} has the permissions {workspace.files[path][2]:o}, not {mode:o}"
    for path, target in chore.links.items():
        if workspace.files.get(path, ("", "", 0))[:2] != ("link", target):
            return f"{path} is no link to {target}"
    return ""


def _programs(chore: Chore, workspace: TerminalWorkspace) -> str:
    for daemon in chore.daemons:
        if workspace.daemons.get(daemon.name) != chore.exits.get(daemon.name):
            ended = "should have ended by itself" if daemon.name in chore.exits else "should still run"
            return f"{daemon.name} {ended}"
    return ""


def _archives(chore: Chore, files: Mapping[str, bytes]) -> str:
    for path, held in chore.archives.items():
        if _unpacked(files.get(path)) != held:
            return f"{path} does not hold what it should"
    return ""


def _holds(content: bytes | str | None, value: Any) -> bool:
    """Whether a file is JSON of this value: 1 is not true, and the order of keys is no matter."""
    try:
        parsed = load_json(content if isinstance(content, bytes) else b"")
    except ValueError:
        return False
    return json.dumps(parsed, sort_keys=True) == json.dumps(value, sort_keys=True)


def _unpacked(data: bytes | None) -> dict[str, bytes] | None:
    """The files of a tar.gz; None if it is none, or holds something else than files."""
    if data is None:
        return None
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_FILE * 16)
        held: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
            for entry in tar:
                file = tar.extractfile(entry) if entry.isreg() else None
                name = entry.name.removeprefix("./")
                if file is None or name in held:
                    return None
                held[name] = file.read(MAX_FILE)
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error):
        return None
    return held


def _databases(chore: Chore, files: Mapping[str, bytes]) -> str:
    """Databases are read in a sandbox of their own."""
    for path, tables in chore.databases.items():
        result = shared().run_python(_READ, files={"judged.db": files.get(path, b"")}, limits=TRIED)
        try:
            held = load_json(result.stdout.encode()) if result.ok else None
        except ValueError:
            held = None
        wanted = {name: [list(table[0]), *sorted(map(list, table[1:]))] for name, table in tables.items()}
        if held != wanted:
            return f"{path} does not hold the tables that it should"
    return ""


def _repositories(chore: Chore, files: Mapping[str, bytes]) -> str:
    """Only the objects and branches of a repository are looked at, in a sandbox of their own: no settings, hooks or
    programs of it."""
    for name, questions in chore.repositories.items():
        kept = {"repository/config": _BARE, "repository/refs/keep": b""}
        for path, content in files.items():
            part = path.removeprefix(f"{name}/.git/")
            if part != path and part.startswith(("HEAD", "packed-refs", "objects/", "refs/")) and "/info/" not in part:
                kept[f"repository/{part}"] = content
        for question, answer in questions:
            command = f"git --no-replace-objects --git-dir=repository {question}"
            result = shared().run_shell(command, files=kept, limits=TRIED, env=VARIABLES)
            if not result.ok or result.stdout.encode() != answer:
                return f"git {question} of {name} does not say what it should"
    return ""


def _trials(chore: Chore, files: Mapping[str, bytes]) -> str:
    for trial in chore.trials:
        tried = {**{path: files.get(path, b"") for path in trial.files}, **trial.inputs}
        result = shared().run_shell(trial.command, files=tried, limits=TRIED)
        if not result.ok or result.stdout.encode() != trial.printed:
            return f"{trial.files[0]} does not do what it should with other files"
    return ""
