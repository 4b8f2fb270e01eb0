"""Chores with folders and what is in them: names, links, archives, sums, dates, a process to find."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import random

from rlvr.envs.agentic.chores import WORDS, Chore, file_names, file_tree, lines, packed
from rlvr.envs.agentic.chores_live import WORKER, log_line, workers


def list_folder(rng: random.Random) -> Chore:
    folder, out = file_names(rng, 2)
    names = sorted(f"{name}.{rng.choice(('txt', 'md', 'csv'))}" for name in file_names(rng, 8))
    text = f"Write the names of all files in the folder {folder} to {out}.txt, one per line and sorted."
    files = {f"{folder}/{name}": lines([rng.choice(WORDS)]) for name in names}
    return Chore(text, files, (f"ls {folder} > {out}.txt", f"cat {out}.txt"), {f"{out}.txt": lines(names)})


def make_folders(rng: random.Random) -> Chore:
    names, inner = rng.sample(WORDS, rng.randint(4, 8)), rng.choice(("notes", "todo", "index"))
    text = f"Make a folder for each name in names.txt, with an empty file {inner}.txt in it."
    command = f"while read -r n; do mkdir $n; touch $n/{inner}.txt; done < names.txt"
    wanted: dict[str, bytes | None] = {f"{name}/{inner}.txt": b"" for name in names}
    return Chore(text, {"names.txt": lines(names)}, (command, "ls *"), wanted)


def change_endings(rng: random.Random) -> Chore:
    old, new = rng.sample(("txt", "md", "note", "text"), 2)
    files = {f"pages/{name}.{old}": lines(rng.choices(WORDS, k=3)) for name in file_names(rng, 6)}
    wanted: dict[str, bytes | None] = dict.fromkeys(files)
    wanted |= {f"{path.removesuffix(old)}{new}": content for path, content in files.items()}
    files |= {f"pages/{rng.choice(WORDS)}.png": b"picture\n"}
    text = f"All files in pages whose names end in .{old} shall end in .{new} instead. Rename them."
    command = f"for f in pages/*.{old}; do mv $f ${{f%.{old}}}.{new}; done"
    return Chore(text, files, (command, "ls pages"), wanted)


def link_file(rng: random.Random) -> Chore:
    names = file_names(rng, 4)
    files = {f"versions/{name}.txt": lines(rng.choices(WORDS, k=3)) for name in names}
    text = f"Make a symbolic link active.txt, here beside the folder versions, that leads to versions/{names[0]}.txt."
    return Chore(
        text, files, (f"ln -s versions/{names[0]}.txt active.txt", "cat active.txt"), {},
        links={"active.txt": f"versions/{names[0]}.txt"},
    )  # fmt: skip


def mark_programs(rng: random.Random) -> Chore:
    files, modes = {}, {}
    for index, name in enumerate(file_names(rng, 8)):
        first = rng.choice(("#!/bin/sh", "#!/usr/bin/env python3")) if index % 2 else rng.choice(WORDS)
        files[f"tools/{name}"] = lines([first, f"echo {rng.choice(WORDS)}"])
        modes[f"tools/{name}"] = 0o755 if index % 2 else 0o600
    text = (
        "Some files in tools are programs: their first line begins with #!. Give these the permissions 755, and leave "
        "those of the others as they are."
    )
    command = "for f in tools/*; do head -n 1 $f | grep -q '^#!' && chmod 755 $f; done"
    return Chore(text, files, (command, "ls -l tools"), {}, modes)


def find_mentions(rng: random.Random) -> Chore:
    files = file_tree(rng, 10, (".txt", ".md", ".cfg"))
    word = rng.choice(
        [word for word in WORDS if 2 < sum(word.encode() in text for text in files.values()) < 9] or WORDS
    )
    text = (
        f"In which files below data is there the word {word}? Write their paths, as data/..., to mentions.txt, sorted "
        "by their bytes (as LC_ALL=C sorts)."
    )
    mentions = sorted(path for path, content in files.items() if word in content.decode().split())
    command = f"grep -rlw {word} data | LC_ALL=C sort > mentions.txt"
    return Chore(text, files, (command, "cat mentions.txt"), {"mentions.txt": lines(mentions)})


def delete_empty_files(rng: random.Random) -> Chore:
    files = file_tree(rng, 10, (".txt", ".md"))
    wanted: dict[str, bytes | None] = {}
    for path in rng.sample(sorted(files), 4):
        files[path], wanted[path] = b"", None
    text = "Programs have left empty files below data, files of no bytes. Remove them all."
    return Chore(text, files, ("find data -type f -empty -delete", "find data -type f"), wanted)


def decode_message(rng: random.Random) -> Chore:
    rows, name = [" ".join(rng.choices(WORDS, k=6)) for _ in range(rng.randint(2, 5))], file_names(rng, 1)[0]
    text = f"{name}.b64 is a text in base64. Decode it into {name}.txt."
    return Chore(
        text, {f"{name}.b64": base64.encodebytes(lines(rows))},
        (f"base64 -d {name}.b64 > {name}.txt", f"cat {name}.txt"), {f"{name}.txt": lines(rows)},
    )  # fmt: skip


def newest_file(rng: random.Random) -> Chore:
    files = file_tree(rng, 8, (".txt", ".md"))
    days = rng.sample(range(1, 29), len(files))
    stamps = dict(zip(files, days, strict=True))
    setup = "; ".join(f"touch -d 2026-02-{day:02d} {path}" for path, day in stamps.items())
    newest = max(stamps, key=lambda path: stamps[path])
    text = "Which file below data, in whatever folder, was changed last? Write its path, as data/..., to last.txt."
    command = "ls -t $(find data -type f) | head -n 1 > last.txt"
    return Chore(text, files, (command, "cat last.txt"), {"last.txt": lines([newest])}, setup=setup)


def damaged_files(rng: random.Random) -> Chore:
    files = {f"parts/{name}.bin": lines(rng.choices(WORDS, k=5)) for name in sorted(file_names(rng, 9))}
    sums = [f"{hashlib.sha256(content).hexdigest()}  {path}" for path, content in files.items()]
    bad = sorted(rng.sample(sorted(files), rng.randint(2, 4)))
    for path in bad:
        files[path] += lines([rng.choice(WORDS)])
    text = (
        "SUMS holds the SHA-256 checksums that the files in parts had once. Some files have changed since: write their "
        "paths, as they stand in SUMS and in its order, to damaged.txt."
    )
    command = "sha256sum -c SUMS 2>&1 | sed -n 's/: FAILED$//p' > damaged.txt"
    return Chore(
        text, {**files, "SUMS": lines(sums)}, (command, "cat damaged.txt"),
        {"damaged.txt": lines([row.split()[1] for row in sums if row.split()[1] in bad])},
    )  # fmt: skip


def flatten_folders(rng: random.Random) -> Chore:
    files = file_tree(rng, 8, (".txt", ".md"))
    wanted: dict[str, bytes | None] = dict.fromkeys(files)
    wanted |= {f"flat/{path.removeprefix('data/').replace('/', '-')}": content for path, content in files.items()}
    text = (
        "Move every file below data into one new folder flat. Its new name is its path below data with a hyphen for "
        "each slash: data/red/a.txt becomes flat/red-a.txt, and data/b.txt becomes flat/b.txt."
    )
    command = "cd data; find . -type f | while read -r f; do g=${f#./}; mv $f ../flat/${g//\\//-}; done; cd .."
    return Chore(text, files, ("mkdir flat", command, "ls flat"), wanted)


def drop_broken_links(rng: random.Random) -> Chore:
    names = file_names(rng, 8)
    files = {f"stock/{name}.txt": lines([rng.choice(WORDS)]) for name in names[:4]}
    order = rng.sample(names, 8)
    setup = "mkdir links; " + "; ".join(f"ln -s ../stock/{name}.txt links/{name}" for name in order)
    text = "The folder links holds symbolic links. Delete those that lead to nothing, and keep the others."
    return Chore(
        text, files, ("find links -xtype l -delete", "ls -l links"), {f"links/{name}": None for name in names[4:]},
        links={f"links/{name}": f"../stock/{name}.txt" for name in names[:4]}, setup=setup,
    )  # fmt: skip


def name_by_content(rng: random.Random) -> Chore:
    files: dict[str, bytes] = {}
    wanted: dict[str, bytes | None] = {}
    for index, name in enumerate(file_names(rng, 8)):
        plain = lines(rng.choices(WORDS, k=4))
        content = gzip.compress(plain, mtime=0) if index % 2 else plain
        files[f"drop/{name}"] = content
        wanted |= {f"drop/{name}": None, f"drop/{name}.{'gz' if index % 2 else 'txt'}": content}
    text = (
        "The files in drop have lost the endings of their names. Add .gz to the names of those that are compressed "
        "with gzip, and .txt to those of the others, which are text. Do not decompress anything."
    )
    command = "for f in drop/*; do if gzip -t $f 2>/dev/null; then mv $f $f.gz; else mv $f $f.txt; fi; done"
    return Chore(text, files, (command, "ls drop"), wanted)


def rotate_logs(rng: random.Random) -> Chore:
    name, keep = rng.choice(WORDS), rng.randint(3, 5)
    paths = [f"logs/{name}.log", *(f"logs/{name}.log.{number}" for number in range(1, keep + 1))]
    files = {path: lines(rng.choices(WORDS, k=4)) for path in paths}
    wanted: dict[str, bytes | None] = {new: files[old] for old, new in itertools.pairwise(paths)}
    wanted[paths[0]] = b""
    text = (
        f"Rotate the logs in logs: the highest number is {keep}, and that file is deleted; every other {name}.log.N "
        f"becomes {name}.log.N+1, {name}.log becomes {name}.log.1, and a new, empty {name}.log is made."
    )
    steps = [f"mv {name}.log.{number} {name}.log.{number + 1}" for number in range(keep - 1, 0, -1)]
    command = "; ".join(["cd logs", *steps, f"mv {name}.log {name}.log.1", f"touch {name}.log", "cd .."])
    return Chore(text, files, ("ls logs", command, "wc -l logs/*"), wanted)


def compare_folders(rng: random.Random) -> Chore:
    tree = file_tree(rng, 9, (".txt", ".md"))
    relative = [path.removeprefix("data/") for path in tree]
    gone, changed = rng.sample(relative, 2), rng.sample(relative, 3)
    files = {f"before/{path}": tree[f"data/{path}"] for path in relative}
    files |= {
        f"after/{path}": tree[f"data/{path}"] + (b"more\n" if path in changed else b"")
        for path in relative if path not in gone
    }  # fmt: skip
    different = sorted(path for path in changed if path not in gone)
    if not different:
        return compare_folders(rng)
    text = (
        "The folder after was once a copy of before. Write to changed.txt the paths of the files that are in both and "
        "differ, without the name of the upper folder (red/a.txt for before/red/a.txt), sorted by their bytes (as "
        "LC_ALL=C sorts)."
    )
    command = (
        "cd before; find . -type f | sed 's|^./||' | LC_ALL=C sort | while read -r f; do [ -e ../after/$f ] && ! cmp "
        "-s $f ../after/$f && echo $f; done > ../changed.txt; cd .."
    )
    return Chore(text, files, (command, "cat changed.txt"), {"changed.txt": lines(different)})


def stop_by_port(rng: random.Random) -> Chore:
    names, daemons = workers(rng, 4)
    ports = rng.sample(range(2000, 9999), 4)
    victim = rng.randrange(4)
    files = {f"conf/{name}.conf": f"port {port}\n".encode() for name, port in zip(names, ports, strict=True)}
    text = (
        "Background programs, each started as python3 worker.py NAME, read their ports from conf/NAME.conf and have "
        f"written their process numbers to run/NAME.pid. End the one with port {ports[victim]} by SIGTERM, and none "
        "else."
    )
    command = f"kill $(cat run/$(basename $(grep -l {ports[victim]} conf/*) .conf).pid)"
    return Chore(
        text, {"worker.py": WORKER, **files}, ("grep . conf/*", command, "ls saved"),
        {f"saved/{names[victim]}.txt": log_line(daemons[victim], f"{names[victim]} has saved its work")},
        daemons=daemons, exits={names[victim]: 0},
    )  # fmt: skip


def nested_archives(rng: random.Random) -> Chore:
    files = file_tree(rng, 6, (".txt", ".cfg"))
    wanted_path = rng.choice(sorted(files))
    depth = rng.randint(2, 3)
    inner = packed(files)
    for number in range(depth):
        inner = packed({f"layer{number}.tar.gz": inner, f"{rng.choice(WORDS)}.md": lines([rng.choice(WORDS)])})
    text = (
        "backup.tar.gz holds a layer, which is a tar.gz in its turn, and so on down to the one that holds "
        f"{wanted_path}. Bring that file here as found.txt."
    )
    unpack = (
        "mkdir work; cp backup.tar.gz work/x.tar.gz; cd work; while [ -e x.tar.gz ]; do tar -xzf x.tar.gz; rm "
        "x.tar.gz; mv layer*.tar.gz x.tar.gz 2>/dev/null; done; cd .."
    )
    return Chore(
        text,
        {"backup.tar.gz": inner},
        (unpack, f"cp work/{wanted_path} found.txt; cat found.txt"),
        {"found.txt": files[wanted_path]},
    )


def rename_by_table(rng: random.Random) -> Chore:
    """Names that go round in a ring: one after another they would overwrite each other."""
    names = [f"{name}.txt" for name in file_names(rng, 7)]
    files = {f"box/{name}": lines(rng.choices(WORDS, k=4)) for name in names}
    ring = rng.sample(names, rng.randint(3, 5))
    pairs = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    rng.shuffle(pairs)
    wanted: dict[str, bytes | None] = {f"box/{new}": files[f"box/{old}"] for old, new in pairs}
    text = (
        "names.csv has lines OLD,NEW. Rename the files in box accordingly, all at once: some new names are the old "
        "names of other files, and no file may be lost."
    )
    command = "mkdir tmp; while IFS=, read -r o n; do mv box/$o tmp/$n; done < names.csv; mv tmp/* box; rmdir tmp"
    return Chore(
        text,
        {**files, "names.csv": lines([f"{old},{new}" for old, new in pairs])},
        ("cat names.csv", command, "ls box"),
        wanted,
    )


def apply_patch(rng: random.Random) -> Chore:
    rows, name = [f"{word} = {rng.randint(1, 99)}" for word in rng.sample(WORDS, 12)], file_names(rng, 1)[0]
    index = rng.randint(3, 8)
    new = f"{rows[index].partition(' ')[0]} = {rng.randint(100, 999)}"
    patch = [
        f"--- a/{name}.cfg", f"+++ b/{name}.cfg", f"@@ -{index - 2},7 +{index - 2},7 @@",
        *(f" {row}" for row in rows[index - 3 : index]), f"-{rows[index]}", f"+{new}",
        *(f" {row}" for row in rows[index + 1 : index + 4]),
    ]  # fmt: skip
    text = f"A colleague sent change.diff, a patch in the form of git. Apply it to {name}.cfg, which is here."
    return Chore(
        text, {f"{name}.cfg": lines(rows), "change.diff": lines(patch)}, ("git apply change.diff", f"cat {name}.cfg"),
        {f"{name}.cfg": lines([*rows[:index], new, *rows[index + 1 :]])},
    )  # fmt: skip
