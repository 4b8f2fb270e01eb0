"""Chores with files: text, columns, permissions, archives, tables, a script to mend, links."""

from __future__ import annotations

import gzip
import random
from collections import Counter

from rlvr.envs.agentic.chores import PEOPLE, WORDS, Chore, file_names, file_tree, lines, packed

SERVICES = ("auth", "cart", "mail", "search", "users")


def sort_names(rng: random.Random) -> Chore:
    rows = rng.choices(PEOPLE, k=rng.randint(12, 40))
    name, out = file_names(rng, 2)
    text = f"Write the different lines of {name}.txt to {out}.txt, in alphabetical order, each once."
    return Chore(
        text, {f"{name}.txt": lines(rows)}, (f"sort -u {name}.txt > {out}.txt",),
        {f"{out}.txt": lines(sorted(set(rows)))},
    )  # fmt: skip


def count_matches(rng: random.Random) -> Chore:
    rows = [" ".join(rng.choices(WORDS, k=4)) for _ in range(rng.randint(20, 60))]
    word, name = rng.choice(WORDS), file_names(rng, 1)[0]
    count = sum(word in row.split() for row in rows)
    text = f"Write to count.txt how many lines of {name}.log contain the word {word}: one line with the number."
    command = f"grep -cw {word} {name}.log > count.txt"
    return Chore(text, {f"{name}.log": lines(rows)}, (command,), {"count.txt": f"{count}\n".encode()})


def sort_inbox(rng: random.Random) -> Chore:
    kinds = (".txt", ".csv", ".log")
    files = {f"inbox/{name}{kinds[i % 3]}": lines(rng.choices(WORDS, k=3)) for i, name in enumerate(file_names(rng, 9))}
    kind, folder = rng.choice(kinds), rng.choice(("kept", "sorted", "archive"))
    wanted: dict[str, bytes | None] = {}
    for path, content in files.items():
        if path.endswith(kind):
            wanted |= {path: None, path.replace("inbox", folder): content}
    text = f"Move all files of inbox that end in {kind} to a new folder {folder}. Leave the others where they are."
    return Chore(text, files, (f"mkdir {folder}", f"mv inbox/*{kind} {folder}/", f"ls {folder}"), wanted)


def select_column(rng: random.Random) -> Chore:
    rows = [(rng.choice(PEOPLE), rng.randint(1, 99), rng.choice(WORDS)) for _ in range(rng.randint(15, 40))]
    bound = rng.randint(20, 80)
    data = lines(["name,points,team", *(f"{a},{b},{c}" for a, b, c in rows)])
    column = rng.choice((1, 3))
    text = (
        f"table.csv has a heading. Write the {'name' if column == 1 else 'team'} of each row with more than {bound} "
        "points to chosen.txt, one per line, in the order of the table and without the heading."
    )
    command = f"awk -F, 'NR > 1 && $2 > {bound} {{print ${column}}}' table.csv > chosen.txt"
    chosen = [row[column - 1] for row in rows if row[1] > bound]
    return Chore(text, {"table.csv": data}, (command,), {"chosen.txt": lines([str(each) for each in chosen])})


def replace_word(rng: random.Random) -> Chore:
    files = file_tree(rng, 8, (".txt", ".md"))
    old, new = rng.choice(WORDS), f"new{rng.randint(10, 99)}"
    wanted: dict[str, bytes | None] = {
        path: content.replace(f"{old}\n".encode(), f"{new}\n".encode())
        for path, content in files.items()
        if path.endswith(".txt")
    }
    text = f"In all .txt files below data replace the word {old} by {new}, everywhere. Leave the .md files alone."
    return Chore(text, files, (f"find data -name '*.txt' -exec sed -i 's/\\b{old}\\b/{new}/g' {{}} +",), wanted)


def set_modes(rng: random.Random) -> Chore:
    files = file_tree(rng, 8, (".sh", ".txt"))
    run, read = rng.choice((0o700, 0o750, 0o755)), rng.choice((0o600, 0o640, 0o644, 0o400))
    modes = {path: run if path.endswith(".sh") else read for path in files}
    text = f"Below data give every file that ends in .sh the permissions {run:o}, and every other file {read:o}."
    commands = tuple(f"find data -type f {how} -exec chmod {mode:o} {{}} +" for how, mode in
                     (("-name '*.sh'", run), ("! -name '*.sh'", read)))  # fmt: skip
    return Chore(text, files, commands, {}, modes)


def list_large(rng: random.Random) -> Chore:
    files = file_tree(rng, 12, (".txt", ".dat", ".log"))
    bound = rng.randint(80, 250)
    large = sorted(path for path, content in files.items() if len(content) > bound)
    text = (
        f"Write to large.txt the paths of all files below data with more than {bound} bytes, as data/..., one per "
        "line, sorted by their bytes (as LC_ALL=C sorts)."
    )
    command = f"find data -type f -size +{bound}c | LC_ALL=C sort > large.txt"
    return Chore(text, files, (command, "cat large.txt"), {"large.txt": lines(large)})


def unpack_some(rng: random.Random) -> Chore:
    files = file_tree(rng, 9, (".cfg", ".txt", ".bin"))
    kind, folder = rng.choice((".cfg", ".txt", ".bin")), rng.choice(("restored", "unpacked"))
    wanted: dict[str, bytes | None] = {
        f"{folder}/{path}" : content if path.endswith(kind) else None for path, content in files.items()
    }  # fmt: skip
    text = (
        f"backup.tar.gz holds files below data. Unpack those that end in {kind}, and no others, into a folder "
        f"{folder}, with their paths (so that there is {folder}/data/...)."
    )
    commands = (f"mkdir {folder}", f"tar -xzf backup.tar.gz -C {folder} --wildcards '*{kind}'")
    return Chore(text, {"backup.tar.gz": packed(files)}, commands, wanted)


def pad_numbers(rng: random.Random) -> Chore:
    word = rng.choice(WORDS)
    numbers = rng.sample(range(1, 100), 5) + rng.sample(range(100, 400), 4)
    files = {f"pictures/{word}-{n}.txt": lines(rng.choices(WORDS, k=3)) for n in numbers}
    files |= {f"pictures/{rng.choice(WORDS)}.md": b"keep\n"}
    wanted: dict[str, bytes | None] = {}
    for n in numbers:
        old, new = f"pictures/{word}-{n}.txt", f"pictures/{word}-{n:03d}.txt"
        content = files[old]
        wanted |= {old: None} if old != new else {}
        wanted[new] = content
    text = (
        f"Rename the files pictures/{word}-N.txt so that each number has three digits: {word}-7.txt to {word}-007.txt."
    )
    loop = (
        f"cd pictures; for f in {word}-*.txt; do n=${{f#{word}-}}; n=${{n%.txt}}; "
        f'g={word}-$(printf %03d "$n").txt; [ "$f" = "$g" ] || mv "$f" "$g"; done'
    )
    return Chore(text, files, (loop, "ls"), wanted)


def pack_some(rng: random.Random) -> Chore:
    files = file_tree(rng, 10, (".txt", ".log", ".csv"))
    kind = rng.choice((".txt", ".log", ".csv"))
    held = {path: content for path, content in files.items() if path.endswith(kind)}
    text = (
        f"Make pack.tar.gz, a tar archive compressed with gzip, of exactly the files below data that end in {kind}, "
        "with their paths from here (data/...) and without entries for folders. Leave the files where they are."
    )
    command = f"find data -type f -name '*{kind}' | tar -czf pack.tar.gz -T -"
    return Chore(text, files, (command, "tar -tzf pack.tar.gz | sort"), {}, archive=("pack.tar.gz", held))


def join_tables(rng: random.Random) -> Chore:
    people = rng.sample(PEOPLE, 6)
    ids = rng.sample(range(100, 999), 6)
    orders = [(rng.choice(ids), rng.randint(1, 50)) for _ in range(rng.randint(15, 40))]
    totals: Counter[int] = Counter()
    for who, amount in orders:
        totals[who] += amount
    names = dict(zip(ids, people, strict=True))
    rows = sorted(f"{names[who]} {total}" for who, total in totals.items())
    text = (
        "people.csv has lines of number,name, and orders.csv lines of number,amount. Write to totals.txt one line "
        "'NAME TOTAL' for each person with an order: the sum of the amounts, in the order of the names."
    )
    command = (
        "awk -F, 'NR == FNR {n[$1] = $2; next} {t[$1] += $2} END {for (i in t) print n[i], t[i]}' people.csv "
        "orders.csv | LC_ALL=C sort > totals.txt"
    )
    tables = {
        "people.csv": lines([f"{i},{name}" for i, name in names.items()]),
        "orders.csv": lines([f"{who},{amount}" for who, amount in orders]),
    }
    return Chore(text, tables, (command, "cat totals.txt"), {"totals.txt": lines(rows)})


def mend_script(rng: random.Random) -> Chore:
    """A script that stops with an error; it is tried on numbers that nobody saw."""
    factor, bound = rng.randint(2, 9), rng.randint(30, 70)

    def numbers() -> list[str]:
        rows = [str(rng.randint(1, 99)) for _ in range(rng.randint(12, 30))]
        for index in rng.sample(range(len(rows)), 4):
            rows[index] = rng.choice(("", "# note", "# 75"))
        return rows

    script = (
        f"total = 0\nfor line in open('numbers.txt'):\n    number = int(line)\n    if number > {bound}:\n"
        f"        total += {factor} * number\nprint(total)\n"
    )
    rows = numbers()
    total = sum(factor * int(row) for row in rows if row.isdigit() and int(row) > bound)
    text = (
        "python3 sum.py should print a number, but stops at lines of numbers.txt that are empty or begin with #. Mend "
        "the script so that it skips them, for this and for other files numbers.txt. Leave numbers.txt as it is."
    )
    skip = "s/^    number = int(line)/    if not line.strip().isdigit(): continue\\n    number = int(line)/"
    return Chore(
        text, {"sum.py": script.encode(), "numbers.txt": lines(numbers())},
        ("python3 sum.py 2>&1 | tail -n 1", f'sed -i "{skip}" sum.py', "python3 sum.py"), {},
        script=("sum.py", "numbers.txt", lines(rows), str(total)),
    )  # fmt: skip


def drop_duplicates(rng: random.Random) -> Chore:
    files = file_tree(rng, 7, (".txt", ".dat"))
    originals = sorted(files)
    for path in rng.sample(originals, 4):
        files[
            f"data/{'/'.join(rng.sample(('copy', 'old', 'x'), 2))}/{rng.choice(WORDS)}{rng.randint(100, 999)}.txt"
        ] = files[path]
    kept: set[bytes] = set()
    wanted: dict[str, bytes | None] = {}
    for path in sorted(files):
        if files[path] in kept:
            wanted[path] = None
        kept.add(files[path])
    text = (
        "Some files below data have the same content. Of each set of equal files keep the one whose path comes first "
        "(as LC_ALL=C sorts), and delete the others."
    )
    command = (
        'find data -type f | LC_ALL=C sort | while read -r f; do h=$(md5sum < "$f"); '
        'case "$seen" in *"$h"*) rm "$f";; *) seen="$seen $h";; esac; done'
    )
    return Chore(text, files, (command, "find data -type f | sort"), wanted)


def sum_logs(rng: random.Random) -> Chore:
    counts: Counter[str] = Counter()
    files = {}
    for day in rng.sample(range(10, 29), 3):
        rows = []
        for _ in range(rng.randint(20, 40)):
            kind, service = rng.choice(("INFO", "WARN", "ERROR")), rng.choice(SERVICES)
            rows.append(f"{kind} {service} took {rng.randint(1, 900)} ms")
            counts[service] += kind == "ERROR"
        files[f"logs/day-{day}.log.gz"] = gzip.compress(lines(rows), mtime=0)
    rows = [f"{name},{count}" for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count]
    text = (
        "The compressed logs in logs have lines such as 'ERROR mail took 12 ms'. Write to errors.csv one line "
        "'service,count' for each service with errors over all logs, the most errors first and services with equally "
        "many errors in alphabetical order."
    )
    command = (
        'zcat logs/*.gz | awk \'$1 == "ERROR" {n[$2]++} END {for (s in n) print s "," n[s]}\' | '
        "LC_ALL=C sort -t, -k2,2nr -k1,1 > errors.csv"
    )
    return Chore(text, files, (command, "cat errors.csv"), {"errors.csv": lines(rows)})


def link_newest(rng: random.Random) -> Chore:
    versions = {(rng.randint(1, 3), rng.randint(0, 15), rng.randint(0, 12)) for _ in range(9)}
    files = {f"releases/v{a}.{b}.{c}/notes.txt": lines([rng.choice(WORDS)]) for a, b, c in sorted(versions)}
    newest = "v{}.{}.{}".format(*max(versions))
    old = "v{}.{}.{}".format(*min(versions))
    text = (
        "Below releases there is a folder for each version, vMAJOR.MINOR.PATCH. Make releases/current a symbolic link "
        f"whose target is the bare name of the newest folder, and delete the oldest folder, {old}."
    )
    commands = (f"cd releases && rm -r {old} && ln -sfn $(ls -d v* | sort -V | tail -n 1) current", "readlink current")
    return Chore(text, files, commands, {f"releases/{old}/notes.txt": None}, links={"releases/current": newest})
