"""The files of a git clone at a commit, and after patches. The clone is read and never changed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rlvr.envs.core.tables import DataError

MAX_FILES: Final = 20_000
MAX_BYTES: Final = 96 << 20  # of all files of a commit
_SECONDS: Final = 120.0
_FILES: Final = ("100644", "100755")  # links and submodules are left out
# nothing that a clone's own settings name is run
_SETTINGS: Final = ("safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null")


def trees(clone: str, commit: str, patches: Sequence[str]) -> list[dict[str, bytes]]:
    """The files by path at a commit, then after each of the patches alone.

    Raises:
        DataError: there is no git, no clone or no such commit, the tree is too large, or a patch does not apply.
    """
    objects = Path(clone, _git(clone, "rev-parse", "--git-path", "objects").decode().strip())
    try:
        _git(clone, "cat-file", "-e", f"{commit}^{{commit}}")
    except DataError:
        raise DataError(f"the clone {clone} has no commit {commit}: fetch it with git") from None
    with tempfile.TemporaryDirectory(prefix="rlvr-git-") as folder:
        store = {"GIT_OBJECT_DIRECTORY": f"{folder}/objects", "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
        os.mkdir(store["GIT_OBJECT_DIRECTORY"])
        listings = []
        for number, patch in enumerate((None, *patches)):
            env = {**store, "GIT_INDEX_FILE": f"{folder}/index-{number}"}
            _git(clone, "read-tree", commit, env=env)
            if patch is not None and patch.strip():
                text = f"{patch.rstrip(chr(10))}\n".encode("utf-8", "surrogateescape")
                _git(clone, "apply", "--cached", "--whitespace=nowarn", "-", env=env, data=text)
            listings.append(_listed(_git(clone, "ls-files", "-s", "-z", env=env)))
        contents = _contents(clone, sorted({name for each in listings for name in each.values()}), store)
    return [{path: contents[name] for path, name in each.items()} for each in listings]


def _listed(output: bytes) -> dict[str, str]:
    names = {}
    for line in output.split(b"\0"):
        mode, _, rest = line.partition(b" ")
        if mode.decode() in _FILES:
            fields, _, path = rest.partition(b"\t")
            names[path.decode("utf-8", "surrogateescape")] = fields.split()[0].decode()
    if len(names) > MAX_FILES:
        raise DataError(f"the commit has {len(names):,} files, allowed are {MAX_FILES:,}")
    return names


def _contents(clone: str, names: Sequence[str], store: Mapping[str, str]) -> dict[str, bytes]:
    asked = "".join(f"{name}\n" for name in names).encode()
    checked = _git(clone, "cat-file", "--batch-check", env=store, data=asked).splitlines()
    if any(line.endswith(b" missing") for line in checked):
        raise DataError(f"the clone {clone} lacks files of the commit: clone it without --filter")
    sizes = [int(line.split()[-1]) for line in checked]
    if sum(sizes) > MAX_BYTES:
        raise DataError(f"the commit holds {sum(sizes) >> 20} MB, allowed are {MAX_BYTES >> 20}")
    output, contents, start = _git(clone, "cat-file", "--batch", env=store, data=asked), {}, 0
    for name, size in zip(names, sizes, strict=True):
        start = output.index(b"\n", start) + 1
        contents[name] = output[start : start + size]
        start += size + 1
    return contents


def _git(clone: str, *words: str, env: Mapping[str, str] | None = None, data: bytes = b"") -> bytes:
    settings = [word for each in _SETTINGS for word in ("-c", each)]
    variables = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
                 "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": "", **(env or {})}  # fmt: skip
    try:
        done = subprocess.run(
            ["git", "-C", clone, *settings, *words], input=data, capture_output=True, env=variables, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise DataError("git is not installed, and rows of repositories need it: apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise DataError(f"git {words[0]} took over {_SECONDS:g} s in {clone}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it failed"]
        raise DataError(f"git {words[0]}: {lines[0].removeprefix('error: ').removeprefix('fatal: ')}"[:300])
    return done.stdout
