"""A chore for the Terminal: a workspace, what to do in it, an expert's key presses, and how it must be in the end.

The kinds of chores are in ``chores_files``, ``chores_folders``, ``chores_git``, ``chores_history``, ``chores_live``,
``chores_tables`` and ``chores_text``.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rlvr.envs.agentic.keys import write_keys
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.graders.code import sandbox_fault
from rlvr.envs.sandbox import Daemon, Limits, SandboxError, TerminalWorkspace, shared

WORDS = "amber birch cedar delta ember fjord grove harbor iris juniper kelp lotus maple north olive pine quartz".split()
PEOPLE = "Ada Ben Cleo Dan Eve Finn Gus Hana Ivo June Kai Lena".split()
MAX_FILE = 64_000  # bytes
TRIED = Limits(seconds=10.0)
# The dates of git are fixed, so that the same commits have the same names in every run.
VARIABLES = {
    "PS1": "\\w\\$ ", "HISTFILE": "", "LESSHISTFILE": "-", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_AUTHOR_DATE": "2026-01-31T12:00:00+0000",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2026-01-31T12:00:00+0000",
}  # fmt: skip
_BARE = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


class Chore(NamedTuple):
    """One task.

    Attributes:
        text: what is asked.
        files: the workspace at the start, by path.
        commands: lines that an expert types.
        wanted: files that must hold exactly this in the end; None for those that must be gone. All other files of the
            start must be as they were.
        modes: permission bits that files must have in the end.
        links: symbolic links that must be there, and where they lead.
        archive: a tar.gz that must hold exactly these files, if one is to be made.
        script: a Python program that may be changed, the path and the content of another input, and what the program
            must then print, if one is to be mended.
        setup: a bash script that is run before the shell opens.
        daemons: programs that run in the background.
        exits: the exit codes of those that must have ended; all others must still run.
        repository: the folder of a git repository, if the chore is about one.
        asked: git commands, and what they must print of that repository in the end.
        data: files that must hold JSON of these values, however it is written.
        keys: what an expert presses, action by action, where that is not ``commands``.
    """

    text: str
    files: dict[str, bytes]
    commands: tuple[str, ...]
    wanted: dict[str, bytes | None]
    modes: Mapping[str, int] = MappingProxyType({})
    links: Mapping[str, str] = MappingProxyType({})
    archive: tuple[str, dict[str, bytes]] | None = None
    script: tuple[str, str, bytes, str] | None = None
    setup: str = ""
    daemons: tuple[Daemon, ...] = ()
    exits: Mapping[str, int] = MappingProxyType({})
    repository: str = ""
    asked: tuple[tuple[str, bytes], ...] = ()
    data: Mapping[str, Any] = MappingProxyType({})
    keys: tuple[str, ...] = ()

    @property
    def actions(self) -> tuple[str, ...]:
        """What an expert does, but for the <Done> at the end."""
        return self.keys or tuple(f"{write_keys(command)}<Enter>" for command in self.commands)


def lines(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def file_names(rng: random.Random, count: int) -> list[str]:
    return [f"{word}{rng.randint(1, 99)}" for word in rng.sample(WORDS, count)]


def file_tree(rng: random.Random, count: int, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    """Files in nested folders, of different contents and lengths."""
    files = {}
    for index, name in enumerate(file_names(rng, count)):
        folder = "/".join(rng.sample(("red", "green", "blue"), rng.randint(0, 2)))
        rows = rng.choices(WORDS, k=rng.randint(3, 60))
        files["/".join(filter(None, ("data", folder, name + suffixes[index % len(suffixes)])))] = lines(rows)
    return files


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
    entries = workspace.files
    files = {path: content for path, (kind, content, _) in entries.items() if kind == "file"}
    expected: dict[str, bytes | None] = {**chore.files, **chore.wanted}
    for path in (*chore.data, *([chore.script[0]] if chore.script else [])):
        expected.pop(path, None)
    for path, content in expected.items():
        if content is None and path in entries:
            return wrong(reason=f"{path} should not be there")
        if content is not None and files.get(path) != content:
            return wrong(reason=f"{path} is not as it should be")
    for path, value in chore.data.items():
        if not _holds(files.get(path), value):
            return wrong(reason=f"{path} does not hold the JSON that it should")
    for path, mode in chore.modes.items():
        if entries[path][2] != mode:
            return wrong(reason=f"{path} has the permissions {entries[path][2]:o}, not {mode:o}")
    for path, target in chore.links.items():
        if path not in entries or entries[path][:2] != ("link", target):
            return wrong(reason=f"{path} is no link to {target}")
    for daemon in chore.daemons:
        if workspace.daemons.get(daemon.name) != chore.exits.get(daemon.name):
            ended = "should have ended by itself" if daemon.name in chore.exits else "should still run"
            return wrong(reason=f"{daemon.name} {ended}")
    plain = {path: content for path, content in files.items() if isinstance(content, bytes)}
    if chore.archive and _unpacked(plain.get(chore.archive[0])) != chore.archive[1]:
        return wrong(reason=f"{chore.archive[0]} does not hold what it should")
    if chore.repository:
        return _asked(chore, plain)
    return _tried(chore, plain) if chore.script else correct(reason="the workspace is as it was asked")


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


def _tried(chore: Chore, files: Mapping[str, bytes]) -> Verdict:
    """Whether the mended script prints what it must for an input that was not in the workspace."""
    if chore.script is None:
        return correct()
    path, input_path, content, printed = chore.script
    code = files.get(path, b"").decode("utf-8", "replace")
    try:
        result = shared().run_python(code, files={input_path: content}, limits=TRIED)
    except SandboxError as error:
        return sandbox_fault(error)
    if not result.ok or result.stdout.split() != [printed]:
        return wrong(reason=f"{path} does not print what it should for another {input_path}")
    return correct(reason="the script is mended")


def _asked(chore: Chore, files: Mapping[str, bytes]) -> Verdict:
    """Whether git says of the repository what it must. Only its objects and branches are looked at, in a sandbox of
    their own: no settings, hooks or programs of it."""
    folder, kept = f"{chore.repository}/.git/", {"repository/config": _BARE, "repository/refs/keep": b""}
    for path, content in files.items():
        part = path.removeprefix(folder)
        if part != path and part.startswith(("HEAD", "packed-refs", "objects/", "refs/")) and "/info/" not in part:
            kept[f"repository/{part}"] = content
    for question, answer in chore.asked:
        command = f"git --git-dir=repository {question}"
        try:
            result = shared().run_shell(command, files=kept, limits=TRIED, env=VARIABLES)
        except SandboxError as error:
            return sandbox_fault(error)
        if not result.ok or result.stdout.encode() != answer:
            return wrong(reason=f"git {question} of {chore.repository} does not say what it should")
    return correct(reason="the repository is as it was asked")
