"""A limit on memory and processes over a whole sandbox, a share of the processors, and a count of what it got of them,
where a cgroup can be made; both versions, always optional.

Standard library only: it runs in the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import time

_ROOT = "/sys/fs/cgroup"


class Group:
    """The folders of one new control group: one for version 2, one per controller for version 1."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders

    @property
    def folders(self) -> tuple[str, ...]:
        """The control group's folder in each hierarchy."""
        return tuple(self._folders)

    def killed_for_memory(self) -> int:
        """How many processes the kernel has killed because the group was over its memory."""
        for folder in self._folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError), open(f"{folder}/{name}") as file:
                    counts = dict(line.split() for line in file)
                    return int(counts.get("oom_kill", 0))
        return 0

    def enter(self) -> None:
        """Put the calling process, and all it will start, into the group."""
        for folder in self._folders:
            _write(f"{folder}/cgroup.procs", str(os.getpid()))

    def remove(self) -> None:
        """Remove the group; the kernel needs a moment after the last process."""
        for folder in self._folders:
            for _ in range(100):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.005)
                else:
                    break


def find() -> list[str]:
    """Folders in which a group with both limits can be made (tried, and removed again), or an empty list."""
    for parents in (_version2(), _version1()):
        if parents:
            group = create(parents, 64, 16)
            if group is not None:
                group.remove()
                return parents
    return []


def find_shares(parents: list[str]) -> list[str]:
    """Folders, besides those that ``find`` returned, in which a group gets a share of the processors that does not grow
    with its processes (version 1), or is told how long it was kept from them (version 2). Tried, and removed again."""
    if any(os.path.isfile(f"{folder}/cgroup.controllers") for folder in parents):
        return []  # of version 2 already, where a process is in one group
    own_paths, shares = _own_paths(), []
    version2 = [f"{root}{own_paths.get('', '/')}".rstrip("/") for root in (f"{_ROOT}/unified", _ROOT)]
    version2 = [folder for folder in version2 if os.path.isfile(f"{folder}/cgroup.controllers")]
    for folder in (f"{_ROOT}/cpu{own_paths.get('cpu', '/')}".rstrip("/"), *version2[:1]):
        if os.path.isfile(f"{folder}/cgroup.procs") and os.access(folder, os.W_OK):
            group = create([folder], 64, 16)
            if group is not None:
                group.remove()
                shares.append(folder)
    return shares


def create(parents: list[str], memory_mb: int, processes: int) -> Group | None:
    """A new group under the folders that ``find`` returned; None if it cannot be made."""
    name, created = f"rlvr-{os.urandom(6).hex()}", []
    try:
        for parent in parents:
            folder = f"{parent}/{name}"
            os.mkdir(folder)
            created.append(folder)
            _limit(folder, memory_mb << 20, processes)
    except OSError:
        Group(created).remove()
        return None
    return Group(created) if created else None


def _limit(folder: str, memory: int, processes: int) -> None:
    files = {"pids.max": processes, "memory.max": memory, "memory.limit_in_bytes": memory, "memory.swap.max": 0}
    for file, value in files.items():
        if os.path.exists(f"{folder}/{file}"):
            with contextlib.suppress(OSError) if file == "memory.swap.max" else contextlib.nullcontext():
                _write(f"{folder}/{file}", str(value))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _own_paths() -> dict[str, str]:
    """Controller (empty for version 2) -> our own group's path within its hierarchy."""
    paths: dict[str, str] = {}
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _version2() -> list[str]:
    own_path = _own_paths().get("", "/")
    for path in (os.path.dirname(own_path.rstrip("/")) or "/", own_path, "/"):
        folder = f"{_ROOT}{path}".rstrip("/")
        with contextlib.suppress(OSError), open(f"{folder}/cgroup.subtree_control") as file:
            if {"memory", "pids"} <= set(file.read().split()) and os.access(folder, os.W_OK):
                return [folder]
    return []


def _version1() -> list[str]:
    own_paths = _own_paths()
    folders = [f"{_ROOT}/{name}{own_paths.get(name, '/')}".rstrip("/") for name in ("memory", "pids")]
    usable = all(os.path.isfile(f"{f}/cgroup.procs") and os.access(f, os.W_OK) for f in folders)
    return folders if usable else []
