"""Files that are written for a user: through no symbolic or hard link, and whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_FLAGS = {
    "r+": os.O_RDWR,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "a+": os.O_RDWR | os.O_CREAT | os.O_APPEND,
}

MARK = "user.rlvr.sha256"  # extended attribute of a file: the SHA-256 of what was written


class LinkRefused(OSError):
    """A file or folder to write in is a symbolic link, has a hard link, or is no plain file."""


def open_plain(path: Path, mode: str = "w") -> IO[Any]:
    """Open a plain file to write; ``mode`` is r+, w, x, a or a+, perhaps with a b at its end. Text is UTF-8.

    Only the last part of the path is looked at: the folders above it are whoever calls this one's choice.

    Raises:
        LinkRefused: there is a symbolic link, a file of several names, a pipe, a device or a socket.
        OSError: it cannot be opened.
    """
    flags = _FLAGS[mode.removesuffix("b")] & ~os.O_TRUNC  # nothing is emptied before it is known to be a plain file
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a pipe that nobody reads
            raise _refused(path) from None
        raise
    try:
        if not _is_plain(os.fstat(descriptor)):
            raise _refused(path)
        if mode.startswith("w"):
            os.ftruncate(descriptor, 0)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, mode.replace("x", "w"), encoding=None if mode.endswith("b") else "utf-8")
    except BaseException:
        os.close(descriptor)
        raise


@contextlib.contextmanager
def drafted(path: Path, mode: str = "x") -> Iterator[IO[Any]]:
    """A file beside ``path`` that takes its name once all is written: it is there whole or as it was.

    A symbolic link of that name is replaced, not followed.
    """
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)  # of a process that was killed, or a link that somebody left there
    try:
        with open_plain(draft, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as of `drafted`."""
    with drafted(path, "xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def require_new(path: Path, force: bool, way: str = "force=True") -> None:
    """Check that nothing is lost by writing to a path: before anything is read, played or computed.

    Args:
        force: write over whatever file is there.
        way: how whoever calls this says so, for the message.

    Raises:
        ValueError: there is a file with something in it that nothing of ours wrote as it is now, and ``force`` is off;
            or it is a folder.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    if not os.path.lexists(path) or force or is_as_written(path):
        return
    if path.is_symlink() or path.stat().st_size:
        raise ValueError(f"{path} exists, and is not overwritten: give another name, or {way}")


def write_new(path: Path, content: str | bytes, force: bool = False) -> None:
    """`write_whole` under the rule of `require_new`; the file is marked as ours."""
    require_new(path, force)
    write_whole(path, content)
    mark_written(path)


def mark_written(path: Path) -> None:
    """Note at a file that we wrote it as it is now, where the file system keeps such notes."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, MARK, sha256_of(path).encode())


def is_as_written(path: Path) -> bool:
    """Whether a file is as `mark_written` saw it: nobody has changed it, or put another one in its place."""
    try:
        return path.is_file() and not path.is_symlink() and os.getxattr(path, MARK) == sha256_of(path).encode()
    except (OSError, AttributeError):
        return False


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_new_folder(out: Path) -> None:
    """Check that a folder can be written without replacing anything.

    Raises:
        ValueError: something is there that is no empty folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is there and no empty folder: give another --out")


def make_folder(path: Path) -> None:
    """Make a folder to write in, unless it is there.

    Raises:
        LinkRefused: its name is a symbolic link's.
    """
    if path.is_symlink():
        raise _refused(path)
    path.mkdir(parents=True, exist_ok=True)


def require_plain(folder: Path) -> None:
    """Check that all in a folder, however deep, is plain files and folders.

    Raises:
        LinkRefused: there is a symbolic link, a file of several names, a pipe, a device or a socket, with its path.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            status = path.lstat()
            if not (_is_plain(status) or stat.S_ISDIR(status.st_mode)):
                raise _refused(path)


def _is_plain(status: os.stat_result) -> bool:
    """Whether it is a regular file with one name: what is written into a file of two names changes both."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1


def _refused(path: Path) -> LinkRefused:
    return LinkRefused(
        f"{path} is a symbolic link, a file of several names (hard links) or no plain file, and nothing is written "
        "through it: remove it, or put a copy in its place"
    )
