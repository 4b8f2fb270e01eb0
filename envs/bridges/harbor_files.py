"""The files of an image as a tar: packed, merged, and what of an agent's files a verifier may see.

What an agent left is read strictly. A first process that was taken over could write any tar, so a name that comes
twice, a name that leads out, an entry below a link and too many bytes are refused.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from rlvr.envs.sandbox.images import MAX_BYTES

MAX_UNPACKED = 4 * MAX_BYTES  # files of an image, and what 20,000 headers of a tar take at most in practice
_MOST_LINKS = 40  # that the kernel follows on one path

Entry = tuple[tarfile.TarInfo, IO[bytes] | None]


def packed(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """A tar of paths, their contents and modes; a path that ends with / is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path.rstrip("/"))
            entry.size, entry.mode = len(content), mode
            entry.type = tarfile.DIRTYPE if path.endswith("/") else tarfile.REGTYPE
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def merged(*tars: bytes) -> bytes:
    """One tar of several; of two files at one path the later is unpacked last."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as written:
        for each in tars:
            with opened(each) as tar:
                for entry in tar:
                    written.addfile(entry, tar.extractfile(entry) if entry.isreg() else None)
    return out.getvalue()


def opened(files: bytes) -> tarfile.TarFile:
    """A compressed tar, to read.

    Raises:
        ValueError: it is no tar, is cut off, or holds more than 256 MB.
    """
    reader = zlib.decompressobj(31)
    try:
        plain = reader.decompress(files, MAX_UNPACKED)
        if not reader.eof:
            raise ValueError("the files of an image are cut off, or more than 256 MB")
        return tarfile.open(fileobj=io.BytesIO(plain), mode="r:")
    except (zlib.error, tarfile.TarError) as error:
        raise ValueError(f"the files of an image are no tar: {error}") from None


def without(files: bytes, folder: str) -> bytes:
    """An image's files except those at or below a folder.

    Raises:
        ValueError: as ``opened``, or the tar is not one that an image's first process writes.
    """
    with opened(files) as tar:
        checked(tar)
        return _written(_chosen(tar, lambda entry: not f"{entry.name}/".startswith(f"{folder}/")))


def replaced(original: bytes, handed: bytes) -> bytes:
    """Two tars as one, where ``handed`` replaces what it meets: a file by a folder, a folder by a file or a link."""
    with opened(handed) as tar:
        folders = {entry.name: entry.isdir() for entry in tar}

    def stays(entry: tarfile.TarInfo) -> bool:
        if any(not folders.get(above, True) for above in _above(entry.name)):
            return False
        return entry.name not in folders or (folders[entry.name] and entry.isdir())

    with opened(original) as tar:
        left = _written(_chosen(tar, stays))
    return merged(left, handed)


def handed_over(files: bytes, artifacts: tuple[str, ...]) -> bytes:
    """Of an image's files those below the artifacts: files, folders, and links to what is handed over beside them.

    A link is kept if the kernel, following it, meets nothing outside the artifact that holds the link. A hard link is
    the file that it names. All belongs to root, and others may not write.

    Raises:
        ValueError: as ``opened``, or the tar is not one that an image's first process writes.
    """
    with opened(files) as tar:
        members = checked(tar)

        def keep(entry: tarfile.TarInfo) -> bool:
            if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
                return False
            holders = [path for path in artifacts if f"/{entry.name}/".startswith(f"{path}/")]
            return any(not entry.issym() or _stays_inside(entry, path[1:], members) for path in holders)

        return _written(_handed(*each) for each in _chosen(tar, keep))


def checked(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Its entries by their names.

    Raises:
        ValueError: a name comes twice, leads out or is below what is no folder, or a file is sparse.
    """
    members: dict[str, tarfile.TarInfo] = {}
    for entry in tar:
        name = entry.name
        if name in members or name.startswith(("/", "..")) or posixpath.normpath(name) != name or entry.issparse():
            raise ValueError(f"an image's files hold {name[:200]!r}, which no first process writes")
        members[name] = entry
    for name in members:
        if any(above in members and not members[above].isdir() for above in _above(name)):
            raise ValueError(f"an image's files hold {name[:200]!r} below what is no folder")
    return members


def _above(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _stays_inside(link: tarfile.TarInfo, artifact: str, members: Mapping[str, tarfile.TarInfo]) -> bool:
    """Whether a link leads to something in its artifact, step by step as the kernel goes."""
    at = posixpath.dirname(link.name)
    steps, links = link.linkname.split("/"), 1
    if link.linkname.startswith("/"):
        at = ""
    while True:
        inside = f"{at}/".startswith(f"{artifact}/")
        member = members.get(at)
        if not inside and (not (at == "" or f"{artifact}/".startswith(f"{at}/")) or (member and not member.isdir())):
            return False
        if inside and (member is None or (member.issym() and links >= _MOST_LINKS)):
            return False
        if member is not None and member.issym():
            links, steps = links + 1, [*member.linkname.split("/"), *steps]
            at = "" if member.linkname.startswith("/") else posixpath.dirname(at)
            continue
        while steps and steps[0] in ("", "."):
            steps = steps[1:]
        if not steps:
            return inside
        if member is not None and not member.isdir():
            return False
        step, *steps = steps
        at = posixpath.dirname(at) if step == ".." else posixpath.join(at, step)


def _chosen(tar: tarfile.TarFile, keep: Callable[[tarfile.TarInfo], bool]) -> Iterator[Entry]:
    """Entries, and the contents of files. Of the names of one file the first that is kept holds it."""
    files: dict[str, tarfile.TarInfo] = {}
    names: dict[int, str] = {}
    for entry in tar:
        source = files.get(entry.linkname) if entry.islnk() else entry
        if entry.isreg():
            files[entry.name] = entry
        if source is None or not keep(entry):
            continue
        if not source.isreg():
            yield _plain(entry, entry.name), None
        elif source.offset in names:
            link = _plain(entry, entry.name)
            link.type, link.linkname = tarfile.LNKTYPE, names[source.offset]
            yield link, None
        else:
            names[source.offset] = entry.name
            yield _plain(source, entry.name), tar.extractfile(source)


def _plain(entry: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """An entry under a name, without the extended headers, which would be written instead of it."""
    new = tarfile.TarInfo(name)
    new.type, new.linkname = entry.type, entry.linkname
    new.size = entry.size if entry.isreg() else 0
    new.mode, new.mtime, new.uid, new.gid = entry.mode, entry.mtime, entry.uid, entry.gid
    return new


def _handed(entry: tarfile.TarInfo, content: IO[bytes] | None) -> Entry:
    entry.uid = entry.gid = 0
    if entry.isreg() or entry.islnk():
        entry.mode = (entry.mode & 0o755 if entry.mode & 0o100 else entry.mode & 0o644) | 0o600
    else:
        entry.mode = 0o755
    return entry, content


def _written(entries: Iterator[Entry]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for entry, content in entries:
            tar.addfile(entry, content)
    return out.getvalue()
