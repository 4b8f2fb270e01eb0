"""Folders that somebody hostile may fill: measured while a run lasts, removed whatever is in them.

Loaded inside the sandbox too: standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator


def disk_usage_exceeds(folder: str, limit: int, entries: int = 16384, besides: int = 0) -> bool:
    """Whether a folder, with so many bytes besides it, holds more than ``limit``, or more than ``entries`` names."""
    total, names = besides, 0
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as scanned:
            for entry in scanned:
                names += 1
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                if total > limit or names > entries:
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return False


def below(root: int, besides: Collection[int] = ()) -> tuple[list[int], bool]:
    """The processes from one downwards, without some, and whether that is all: False if one ended meanwhile, or where
    the kernel keeps no lists."""
    processes, waiting, all_seen = [], [root], True
    while waiting:
        pid = waiting.pop()
        if pid not in besides:
            processes.append(pid)
        try:
            waiting.extend(children_of(pid))
        except (FileNotFoundError, ProcessLookupError):
            all_seen = False
    return processes, all_seen


def children_of(pid: int) -> Iterator[int]:
    """The children of a process, those of one of its threads after the other.

    Raises:
        FileNotFoundError, ProcessLookupError: it or a thread has ended, or the kernel keeps no lists.
    """
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            yield from map(int, file.read().split())


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def unnamed(processes: Collection[int]) -> tuple[int, set[int]]:
    """Bytes of files without a name (removed, or never given one) that processes hold open, and which of the processes
    hide what they hold."""
    sizes, hiding = {}, set()
    for pid in processes:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    file = os.stat(f"/proc/{pid}/fd/{fd}")
                    if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                        sizes[file.st_dev, file.st_ino] = file.st_blocks * 512
        except PermissionError:
            if _has_memory(pid):  # not one that is ending
                hiding.add(pid)
        except OSError:
            continue
    return sum(sizes.values()), hiding


def parent_of(pid: int) -> int:
    """The parent of a process, 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _has_memory(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return file.read(2) != "0 "
    except OSError:
        return False


def remove_tree(folder: str) -> bool:
    """Remove a folder whatever rights, depth or links it has; False if something is left.

    Folders are lifted to the top one level at a time, so neither a path longer than the kernel takes nor
    Python's recursion limit stands in the way, and no link is ever followed.
    """
    try:
        os.chmod(folder, 0o700)
        if empty(folder):
            os.rmdir(folder)
            return True
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def empty(folder: str) -> bool:
    """Remove all that is in a folder, as ``remove_tree`` does, and leave the folder; False if something is left.

    Raises:
        OSError: it cannot be opened.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    lifted = 0
    try:
        while names := os.listdir(top):
            for name in names:
                lifted = _remove(top, name, lifted)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def _remove(top: int, name: str, lifted: int) -> int:
    if _unlink(top, name):
        return lifted
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        for child in os.listdir(inner):
            if not _unlink(inner, child):
                lifted += 1
                os.chmod(child, 0o700, dir_fd=inner)
                os.rename(child, f".lifted-{lifted}", src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
    return lifted


def _unlink(folder: int, name: str) -> bool:
    """Remove what is not a folder; True if it is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        return False
    return True
