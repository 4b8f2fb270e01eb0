"""Steps on folders: names, links and copies of files; archives; permissions."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rlvr.envs.agentic.chore_kinds.draft import (
    NOTHING,
    PLAIN,
    ChoreDraft,
    Open,
    StepKind,
    WorkItem,
    fresh,
    pick,
    render,
    tree,
)  # fmt: skip
from rlvr.envs.agentic.chores import WORDS, lines, packed

Contents = Mapping[str, bytes]


def a_folder(draft: ChoreDraft, contents: Contents | None = None) -> WorkItem:
    """A folder that is there at the start."""
    item = WorkItem("folder", draft.name(), dict(contents or tree(draft.rng)))
    for path, content in item.data.items():
        draft.start[f"{item.path}/{path}"] = draft.files[f"{item.path}/{path}"] = content
    return item


def _endings(contents: Contents) -> list[str]:
    """The endings of some of the files, and not of all."""
    counts = Counter(path.rpartition(".")[2] for path in contents)
    return sorted(ending for ending, count in counts.items() if 1 < count < len(contents))


def _list(
    name: str, wish: str, command: str, result: Callable[..., Any], draw: Any = None, form: str = "text"
) -> StepKind:
    """A step that finds something out about a folder. Its result gets the contents by their paths from here."""

    def play(draft: ChoreDraft, item: WorkItem) -> WorkItem:
        paths = {f"{item.path}/{path}": content for path, content in sorted(item.data.items())}
        values = draw(draft.rng, paths) if draw else {}
        data = result(paths, **values)
        if not data or (form == "text" and len(data) < 2) or (form == "table" and len(data) < 3):
            pick(draft.rng, ())
        path = draft.path(form)
        draft.ask(wish, f"{command} > @b", result=path, a=item.path, b=path, **values)
        return draft.put(form, path, data)

    return StepKind(name, "files", "folder", play)


def _word_of(rng: random.Random, paths: Contents) -> dict[str, Any]:
    counts = Counter(word for content in paths.values() for word in set(content.decode().split()))
    return {"w": pick(rng, sorted(w for w, count in counts.items() if w in WORDS and 1 < count < len(paths)))}


def _size_of(rng: random.Random, paths: Contents) -> dict[str, Any]:
    return {"n": pick(rng, sorted({len(content) for content in paths.values()})[1:-2])}


def _largest(paths: Contents) -> str:
    ranks = sorted(paths, key=lambda path: len(paths[path]))
    return "" if len(ranks) > 1 and len(paths[ranks[-1]]) == len(paths[ranks[-2]]) else ranks[-1]


def _by_ending(paths: Contents) -> list[tuple[str, str]]:
    counts = Counter(path.rpartition(".")[2] for path in paths)
    return [("ending", "count"), *((ending, str(count)) for ending, count in sorted(counts.items()))]


_FOUND, _PERMISSIONS = "find @a -type f | sort", "find @a -type f -printf '%m %p\\n' | sort"
_SORTED = "sorted by their bytes (as LC_ALL=C sorts)"
LISTS = (
    _list("list files", f"Write the paths of all files in @a and its folders to @b, as @a/..., {_SORTED}.",
          "find @a -type f | LC_ALL=C sort", list),
    _list("large files", "Write the paths of those files in @a and its folders to @b that have more than @n bytes, as "
          f"@a/..., {_SORTED}.", "find @a -type f -size +@nc | LC_ALL=C sort",
          lambda p, n: [path for path, content in p.items() if len(content) > n], _size_of),
    _list("files with a word", f"Which files in @a and its folders contain the word @w? Write their paths to @b, as "
          f"@a/..., {_SORTED}.", "grep -rlw @w @a | LC_ALL=C sort",
          lambda p, w: [path for path, content in p.items() if w in content.decode().split()], _word_of),
    _list("largest file", "Which file in @a and its folders has the most bytes? Write its path to @b, as @a/...",
          "find @a -type f -printf '%s %p\\n' | sort -n | tail -n 1 | cut -d' ' -f2", _largest, form="value"),
    _list("files by ending", "Count the files in @a and its folders by the endings of their names. Write to @b a "
          "table with the heading 'ending,count' and a row such as 'txt,4' for each ending, sorted by ending.",
          "(echo ending,count; find @a -type f | sed 's/.*\\.//' | sort | uniq -c | awk '{print $2 \",\" $1}')",
          _by_ending, form="table"),
    _list("join the files", f"Put the contents of all files in @a and its folders one after another into @b; their "
          f"paths are {_SORTED}.", "find @a -type f | LC_ALL=C sort | xargs cat",
          lambda p: [row for content in p.values() for row in content.decode().splitlines()]),
)  # fmt: skip


def _move_ending(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    ending, folder = pick(draft.rng, _endings(item.data)), draft.name()
    moved = {path: content for path, content in item.data.items() if path.endswith(f".{ending}")}
    names = [path.rpartition("/")[2] for path in moved]
    if len(set(names)) < len(names):
        pick(draft.rng, ())
    draft.ask("Move all files in @a and its folders whose names end in .@e to a new folder @b, without any folders "
        "in it.",
              "mkdir @b", "find @a -type f -name '*.@e' -exec mv {} @b/ \\;", result="ls @b",
              a=item.path, b=folder, e=ending)  # fmt: skip
    draft.move({f"{item.path}/{path}": f"{folder}/{path.rpartition('/')[2]}" for path in moved})
    return WorkItem("folder", folder, {path.rpartition("/")[2]: content for path, content in moved.items()})


def _change_ending(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    ending = pick(draft.rng, _endings(item.data))
    new = pick(draft.rng, [each for each in ("text", "note", "bak", "old") if each not in _endings(item.data)])
    draft.ask("Rename all files in @a and its folders whose names end in .@e: they shall end in .@n instead.",
              "find @a -name '*.@e' | while read -r f; do mv \"$f\" \"${f%.@e}.@n\"; done",
              result=_FOUND, a=item.path, e=ending, n=new)  # fmt: skip
    return _renamed(draft, item, {p: f"{p.removesuffix(ending)}{new}" for p in item.data if p.endswith(f".{ending}")})


def _renamed(draft: ChoreDraft, item: WorkItem, names: Mapping[str, str]) -> WorkItem:
    """The folder when files have other names, all at once."""
    draft.move({f"{item.path}/{old}": f"{item.path}/{new}" for old, new in names.items()})
    return item._replace(data={names.get(path, path): content for path, content in item.data.items()})


def _flatten(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    if not any("/" in path for path in item.data):
        pick(draft.rng, ())
    folder = draft.name()
    draft.ask("Copy every file in @a and its folders into one new folder @b. Its name there is its path in @a, with "
              "a hyphen for each slash: @a/red/x.txt becomes @b/red-x.txt, and @a/y.txt becomes @b/y.txt.", "mkdir @b",
              "(cd @a; find . -type f | sed 's|^./||' | while read -r f; do cp \"$f\" ../@b/\"${f//\\//-}\"; done)",
              result="ls @b", a=item.path, b=folder)  # fmt: skip
    contents = {path.replace("/", "-"): content for path, content in item.data.items()}
    draft.files |= {f"{folder}/{path}": content for path, content in contents.items()}
    return WorkItem("folder", folder, contents)


def _delete_empty(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    contents = tree(draft.rng)
    empty = draft.rng.sample(sorted(contents), 3)
    item = a_folder(draft, contents | dict.fromkeys(empty, b""))
    draft.ask("Programs have left empty files, of no bytes, in @a and its folders. Delete them all.",
              "find @a -type f -empty | sort", "find @a -type f -empty -delete", a=item.path)  # fmt: skip
    for path in empty:
        draft.remove(f"{item.path}/{path}")
    return item._replace(data={path: content for path, content in item.data.items() if content})


def _pad_numbers(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    word, numbers = draft.rng.choice(WORDS), draft.rng.sample(range(1, 100), 6)
    item = a_folder(draft, {f"{word}-{n}.txt": lines(draft.rng.choices(WORDS, k=3)) for n in numbers})
    draft.ask("Rename the files @a/@w-N.txt so that each number has three digits: @w-7.txt becomes @w-007.txt.", "ls "
        "@a",
              "for n in $(ls @a | tr -dc '0-9\\n'); do mv @a/@w-$n.txt @a/@w-$(printf %03d $n).txt; done",
              result="ls @a",
              a=item.path, w=word)  # fmt: skip
    return _renamed(draft, item, {f"{word}-{n}.txt": f"{word}-{n:03d}.txt" for n in numbers})


def _rename_ring(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """Names that go round: one after another they would overwrite each other."""
    ring = draft.rng.sample([path for path in sorted(item.data) if "/" not in path] or [""], 3) \
        if sum("/" not in path for path in item.data) >= 3 else pick(draft.rng, ())  # fmt: skip
    pairs = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    table = draft.path("table")
    draft.give(table, lines([f"{old},{new}" for old, new in pairs]))
    draft.see(table)
    draft.ask("@o has lines OLD,NEW. Rename the files in @a accordingly, all at once: the new names are the old "
        "names of other files, and no file may be lost.", "mkdir t.tmp",
              "while IFS=, read -r o n; do mv @a/$o t.tmp/$n; done < @o", "mv t.tmp/* @a; rmdir t.tmp", result="ls @a",
              a=item.path, o=table)  # fmt: skip
    return _renamed(draft, item, dict(pairs))


def _duplicates(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    contents = tree(draft.rng)
    for path in draft.rng.sample(sorted(contents), 3):
        contents[f"copies/{draft.name()}.txt"] = contents[path]
    item = a_folder(draft, contents)
    kept: dict[bytes, str] = {}
    for path in sorted(item.data):
        kept.setdefault(item.data[path], path)
    gone = [path for path in item.data if path not in kept.values()]
    draft.ask("Some files in @a and its folders have the same content. Of each set of equal files keep the one whose "
        "path comes first (as LC_ALL=C sorts), and delete the others.", "find @a -type f | LC_ALL=C sort | xargs "
                  "md5sum",
              "find @a -type f | LC_ALL=C sort | xargs md5sum | awk 'seen[$1]++ {print $2}' | xargs rm",
              result=_FOUND, a=item.path)  # fmt: skip
    for path in gone:
        draft.remove(f"{item.path}/{path}")
    return item._replace(data={path: item.data[path] for path in item.data if path not in gone})


def _newest(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    item, path = a_folder(draft), draft.path("value")
    stamps = draft.rng.sample(range(1, 29), len(item.data))
    draft.setup += [
        f"touch -d 2026-02-{day:02d} {item.path}/{each}" for day, each in zip(stamps, item.data, strict=True)
    ]
    newest = max(zip(stamps, item.data, strict=True))[1]
    draft.ask("Which file in @a and its folders was changed last? Write its path to @b, as @a/...",
              "find @a -type f -printf '%T@ %p\\n' | sort -n | tail -n 1 | cut -d' ' -f2 > @b", result=path,
              a=item.path, b=path)  # fmt: skip
    return draft.put("value", path, f"{item.path}/{newest}")


def _make_folders(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    words = sorted({row.split(" ")[0] for row in item.data})
    if len(words) > 12 or not all(word.isalnum() for word in words) or len(words) < 2:
        pick(draft.rng, ())
    folder = draft.name()
    draft.see(item.path)
    draft.ask("Make a folder @b, and in it a file WORD.txt for each different first word of a line of @a. Each holds "
        "the lines of @a that begin with that word, in their order.", "mkdir @b",
              "awk '{print > (\"@b/\" $1 \".txt\")}' @a", result="ls @b", a=item.path, b=folder)  # fmt: skip
    contents = {f"{word}.txt": lines([row for row in item.data if row.split(" ")[0] == word]) for word in words}
    draft.files |= {f"{folder}/{path}": content for path, content in contents.items()}
    return WorkItem("folder", folder, contents)


def _link(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    name = draft.name()
    draft.see(item.path)
    draft.ask("Make a symbolic link @l, here, whose target is @a.", "ln -s @a @l", result="readlink -v @l",
              a=item.path, l=name)  # fmt: skip
    draft.links[name] = item.path
    return item


def _broken_links(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    item, folder = a_folder(draft), draft.name()
    targets = draft.rng.sample(sorted(item.data), 4)
    gone = [draft.name() for _ in range(3)]
    draft.setup += [f"mkdir {folder}", *(f"ln -s ../{item.path}/{path} {folder}/{n}" for n, path in enumerate(targets)),
                    *(f"ln -s ../{item.path}/{name} {folder}/{name}" for name in gone)]  # fmt: skip
    draft.ask("The folder @b holds symbolic links to files in @a. Delete those links that lead to nothing, and keep "
        "the others.", "find @b -type l -printf '%f %l\\n' | sort", "find @b -xtype l -delete", result="ls @b",
        a=item.path, b=folder)  # fmt: skip
    draft.links |= {f"{folder}/{n}": f"../{item.path}/{path}" for n, path in enumerate(targets)}
    draft.gone |= {f"{folder}/{name}" for name in gone}
    return item


FOLDERS = (
    StepKind("move by ending", "files", "folder", _move_ending),
    StepKind("change endings", "files", "folder", _change_ending),
    StepKind("flatten folders", "files", "folder", _flatten),
    StepKind("delete empty files", "files", "", _delete_empty),
    StepKind("pad numbers", "files", "", _pad_numbers),
    StepKind("rename in a ring", "files", "folder", _rename_ring),
    StepKind("delete duplicates", "files", "", _duplicates),
    StepKind("newest file", "files", "", _newest),
    StepKind("divide by first word", "files", "text", _make_folders),
    StepKind("link to a file", "files", "file", _link),
    StepKind("broken links", "files", "", _broken_links),
)


# archives


def _zipped(content: bytes) -> bytes:
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr(zipfile.ZipInfo("content", (2026, 1, 1, 0, 0, 0)), content)
    return plain.getvalue()


def _nested(content: bytes) -> bytes:
    for name in ("content", "inner.tar.gz", "middle.tar.gz"):
        content = packed({name: content})
    return content


OPENINGS = (
    Open("gunzip", "gz", "@a is a file compressed with gzip. Write what it holds to @b.", "zcat @a",
         lambda content: gzip.compress(content, mtime=0), look=False),
    Open("unxz", "xz", "@a is compressed with xz (Python's lzma reads it). Write what it holds to @b.",
         "python3 -c \"import lzma, sys; sys.stdout.buffer.write(lzma.open('@a').read())\"", lzma.compress, look=False),
    Open("unzip", "zip", "The ZIP archive @a holds one file, content. Write what is in it to @b.",
         "python3 -c \"import zipfile, sys; sys.stdout.buffer.write(zipfile.ZipFile('@a').read('content'))\"", _zipped,
         look=False),
    Open("nested archives", "tar.gz", "@a is a tar.gz that holds another one, which holds a third, in which there is "
        "a file content. Write what is in that to @b.", "tar -xzOf @a | tar -xzO | tar -xzO > @b", _nested, look=False),
    Open("one file of an archive", "tar.gz", "Write what is in the file @w/content of the archive @a to @b.",
         "tar -xzOf @a @w/content",
         lambda content, w: packed({"content": b"old\n", f"{w}/content": content, f"{w}/notes": b"none\n"}),
         lambda rng, data: {"w": rng.choice(WORDS)}, look=False),
)  # fmt: skip


def _pack(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    archive = f"{draft.name()}.tar.gz"
    draft.ask("Make @b, a tar archive compressed with gzip, of all files in @a and its folders, with their paths "
        "from here (@a/...) and without entries for folders.",
        "find @a -type f | tar -czf @b -T -", result="tar -tzf @b",
              a=item.path, b=archive)  # fmt: skip
    draft.archives[archive] = {f"{item.path}/{path}": content for path, content in item.data.items()}
    return item


def _pack_ending(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    archive, ending = f"{draft.name()}.tar.gz", pick(draft.rng, _endings(item.data))
    draft.ask("Make @b, a tar archive compressed with gzip, of exactly those files in @a and its folders whose names "
        "end in .@e, with their paths from here (@a/...) and without entries for folders.",
              "find @a -type f -name '*.@e' | tar -czf @b -T -", result="tar -tzf @b",
              a=item.path, b=archive, e=ending)  # fmt: skip
    draft.archives[archive] = {f"{item.path}/{path}": content for path, content in item.data.items()
                               if path.endswith(f".{ending}")}  # fmt: skip
    return item


def _unpack(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    archive, folder, contents = f"{draft.name()}.tar.gz", draft.name(), tree(draft.rng)
    draft.give(archive, packed(contents))
    draft.ask("Unpack the archive @a into a new folder @b.", "mkdir @b", "tar -xzf @a -C @b",
              result="find @b -type f | sort", a=archive, b=folder)  # fmt: skip
    draft.files |= {f"{folder}/{path}": content for path, content in contents.items()}
    return WorkItem("folder", folder, contents)


def _unpack_ending(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    archive, folder, contents = f"{draft.name()}.tar.gz", draft.name(), tree(draft.rng)
    ending = pick(draft.rng, _endings(contents))
    chosen = {path: content for path, content in contents.items() if path.endswith(f".{ending}")}
    draft.give(archive, packed(contents))
    draft.ask("Unpack only those files of the archive @a whose names end in .@e, with their folders, into a new "
        "folder @b.",
              "tar -tzf @a", "mkdir @b", "tar -xzf @a -C @b --wildcards '*.@e'",
                  a=archive, b=folder, e=ending)  # fmt: skip
    draft.files |= {f"{folder}/{path}": content for path, content in chosen.items()}
    draft.gone |= {f"{folder}/{path}" for path in contents if path not in chosen}
    return WorkItem("folder", folder, chosen)


def _unpack_lists(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    archive, path, contents = f"{draft.name()}.tar.gz", draft.path("text"), tree(draft.rng)
    draft.give(archive, packed(contents))
    draft.ask(f"Write the paths of all files in the archive @a to @b, {_SORTED}.", "tar -tzf @a | LC_ALL=C sort > @b",
              result=path, a=archive, b=path)  # fmt: skip
    return draft.put("text", path, tuple(sorted(contents)))


def _join_parts(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    form = draft.rng.choice(PLAIN)
    data, name = fresh(draft.rng, form), draft.name()
    content, path = render(form, data), draft.path(form)
    size = len(content) // 4 + 1
    for number in range(4):
        draft.give(f"{name}.part{number + 1}", content[size * number : size * (number + 1)])
    draft.ask("A file was cut into @a.part1, @a.part2, @a.part3 and @a.part4. Put it together again as @b.",
              "cat @a.part[1-4] > @b", result=path, a=name, b=path)  # fmt: skip
    return draft.put(form, path, data)


def _cut_file(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    rows = render(item.form, item.data).splitlines(keepends=True)
    if len(rows) < 9:
        pick(draft.rng, ())
    count, folder = draft.rng.randint(3, len(rows) // 2), draft.name()
    parts = [b"".join(rows[start : start + count]) for start in range(0, len(rows), count)]
    draft.see(item.path)
    draft.ask("Cut @a into pieces of @n lines (the last may be shorter): make a folder @b with the pieces part00, "
        "part01 and so on.", "mkdir @b", "split -d -l @n @a @b/part", result="wc -l @b/*",
                  a=item.path, b=folder, n=count)  # fmt: skip
    draft.files |= {f"{folder}/part{number:02d}": part for number, part in enumerate(parts)}
    return item


ARCHIVES = (
    *(row.kind("archives") for row in OPENINGS),
    StepKind("pack a folder", "archives", "folder", _pack),
    StepKind("pack by ending", "archives", "folder", _pack_ending),
    StepKind("unpack", "archives", "", _unpack),
    StepKind("unpack by ending", "archives", "", _unpack_ending),
    StepKind("list an archive", "archives", "", _unpack_lists),
    StepKind("join parts", "archives", "", _join_parts),
    StepKind("cut a file", "archives", "file", _cut_file),
)


# permissions: files have 600 at the start


def _chmod(
    name: str, takes: str, wish: str, command: str, draw: Callable[[ChoreDraft, WorkItem], tuple[dict[str, Any], Any]]
) -> StepKind:
    """A step that sets permissions: ``draw`` gives what the texts name and the permissions by path."""

    def play(draft: ChoreDraft, item: WorkItem) -> WorkItem:
        if item is NOTHING:
            item = a_folder(draft)
        values, modes = draw(draft, item)
        if all(draft.modes.get(path, 0o600) == mode for path, mode in modes.items()):
            pick(draft.rng, ())
        if takes == "file":
            draft.see(item.path)
        draft.ask(wish, *command.split("; "), result=_PERMISSIONS, a=item.path, **values)
        draft.modes |= modes
        return item

    return StepKind(name, "permissions", takes, play)


def _one_mode(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    mode = draft.rng.choice((0o640, 0o644, 0o400, 0o440, 0o660))
    return {"n": f"{mode:o}"}, {item.path: mode}


def _in_words(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    words, letters, mode = draft.rng.choice((
        ("its owner may read and write it, its group may read it, and others may do nothing", "u=rw,g=r,o=", 0o640),
        ("its owner may read it, and nobody may do anything else", "u=r,go=", 0o400),
        ("everybody may read it, and only its owner may write it", "u=rw,go=r", 0o644),
        ("its owner and its group may read and write it, and others may do nothing", "ug=rw,o=", 0o660),
    ))  # fmt: skip
    return {"w": words, "x": letters}, {item.path: mode}


def _all_modes(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    mode = draft.rng.choice((0o640, 0o644, 0o440))
    return {"n": f"{mode:o}"}, {f"{item.path}/{path}": mode for path in item.data}


def _ending_modes(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    ending, (one, other) = pick(draft.rng, _endings(item.data)), draft.rng.sample((0o640, 0o644, 0o440, 0o400), 2)
    return {"e": ending, "n": f"{one:o}", "m": f"{other:o}"}, {
        f"{item.path}/{path}": one if path.endswith(f".{ending}") else other for path in item.data
    }


def _with_modes(draft: ChoreDraft, item: WorkItem, modes: tuple[int, ...]) -> dict[str, int]:
    """Permissions that the files have at the start."""
    drawn = {f"{item.path}/{path}": modes[number % len(modes)] for number, path in enumerate(sorted(item.data))}
    draft.setup += [f"chmod {mode:o} {path}" for path, mode in drawn.items()]
    return drawn


def _closed(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    return {}, {path: mode & 0o770 for path, mode in _with_modes(draft, item, (0o646, 0o664, 0o640, 0o666)).items()}


def _unwritable(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    return {}, {path: mode & ~0o222 for path, mode in _with_modes(draft, item, (0o644, 0o660, 0o600)).items()}


def _reference(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    path, mode = draft.path("text"), draft.rng.choice((0o640, 0o444, 0o664))
    draft.give(path, b"an example\n")
    draft.setup.append(f"chmod {mode:o} {path}")
    return {"o": path}, {item.path: mode, path: mode}


def _as_listed(draft: ChoreDraft, item: WorkItem) -> tuple[dict[str, Any], Any]:
    modes = {f"{item.path}/{path}": draft.rng.choice((0o640, 0o644, 0o444)) for path in sorted(item.data)[:4]}
    table = draft.path("table")
    draft.give(table, lines([f"{path},{mode:o}" for path, mode in modes.items()]))
    draft.see(table)
    return {"o": table}, modes


def _programs(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    contents = {draft.name(): lines(["#!/bin/sh", f"echo {word}"] if n % 2 else [word, "#!/bin/sh"])
                for n, word in enumerate(draft.rng.sample(WORDS, 8))}  # fmt: skip
    item = a_folder(draft, contents)
    draft.ask("Some files in @a are programs: their first line begins with #!. Give these the permissions 755, and "
        "leave the others as they are.", "head -n 1 @a/*",
              "for f in @a/*; do head -n 1 $f | grep -q '^#!' && chmod 755 $f; done", result=_PERMISSIONS,
                  a=item.path)  # fmt: skip
    draft.modes |= {
        f"{item.path}/{path}": 0o755 if text.startswith(b"#!") else 0o600 for path, text in contents.items()
    }
    return item


def _find_modes(name: str, wish: str, test: str, bits: int) -> StepKind:
    """Which files have some permissions?"""

    def play(draft: ChoreDraft, _: WorkItem) -> WorkItem:
        item, path = a_folder(draft), draft.path("text")
        modes = _with_modes(draft, item, draft.rng.choice(((0o755, 0o644, 0o646), (0o700, 0o622, 0o600, 0o666))))
        chosen = sorted(each for each, mode in modes.items() if mode & bits)
        if len(chosen) < 2:
            pick(draft.rng, ())
        draft.modes |= modes
        draft.ask(f"{wish} Write their paths to @b, as @a/..., {_SORTED}.",
                  f"find @a -type f -perm {test} | LC_ALL=C sort > @b", result=path, a=item.path, b=path)  # fmt: skip
        return draft.put("text", path, tuple(chosen))

    return StepKind(name, "permissions", "", play)


PERMISSIONS = (
    _chmod("set permissions", "file", "Give @a the permissions @n.", "chmod @n @a", _one_mode),
    _chmod("permissions in words", "file", "Change the permissions of @a: @w.", "chmod @x @a", _in_words),
    _chmod("permissions of all", "folder", "Give every file in @a and its folders the permissions @n; leave the "
           "folders as they are.", "find @a -type f -exec chmod @n {} +", _all_modes),
    _chmod("permissions by ending", "folder", "Give the files in @a and its folders whose names end in .@e the "
           "permissions @n, and all other files in them @m.",
           "find @a -type f -name '*.@e' -exec chmod @n {} +; find @a -type f ! -name '*.@e' -exec chmod @m {} +",
           _ending_modes),
    _chmod("nothing for others", "", "Take all permissions of others away from the files in @a and its folders, and "
           "leave those of their owner and group as they are.", "find @a -type f -exec chmod o= {} +", _closed),
    _chmod("protect from writing", "", "Nobody may write the files in @a and its folders any more: take away every "
           "permission to write, and no other.", "find @a -type f -exec chmod a-w {} +", _unwritable),
    _chmod("permissions of another file", "file", "Give @a the same permissions as @o has.", "chmod --reference=@o @a",
           _reference),
    _chmod("permissions by a table", "folder", "@o has lines PATH,PERMISSIONS. Give each file the permissions that "
           "stand there.", "while IFS=, read -r p m; do chmod $m $p; done < @o", _as_listed),
    StepKind("mark programs", "permissions", "", _programs),
    _find_modes("writable for others", "Which files in @a and its folders may be written by others, who are neither "
                "owner nor in the group?", "-o+w", 0o002),
    _find_modes("executable files", "Which files in @a and its folders may be executed by their owner?", "-u+x", 0o100),
)  # fmt: skip

KINDS: tuple[StepKind, ...] = (*LISTS, *FOLDERS, *ARCHIVES, *PERMISSIONS)
