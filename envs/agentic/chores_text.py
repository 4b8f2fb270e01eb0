"""Chores with one or two text files: lines, words, columns, editing in place."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from rlvr.envs.agentic.chores import PEOPLE, WORDS, Chore, file_names, lines


def _phrases(rng: random.Random, min_count: int, max_count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randint(2, 5))) for _ in range(rng.randint(min_count, max_count))]


def first_lines(rng: random.Random) -> Chore:
    rows, (name, out), count = _phrases(rng, 20, 50), file_names(rng, 2), rng.randint(3, 15)
    text = f"Write the first {count} lines of {name}.txt to {out}.txt."
    command = f"head -n {count} {name}.txt > {out}.txt"
    return Chore(text, {f"{name}.txt": lines(rows)}, (command,), {f"{out}.txt": lines(rows[:count])})


def newest_entries(rng: random.Random) -> Chore:
    rows = [f"day {day} {rng.choice(WORDS)}" for day in range(1, rng.randint(25, 60))]
    name, count = file_names(rng, 1)[0], rng.randint(3, 15)
    text = (
        f"New entries are added at the end of {name}.log. Put the {count} newest ones into recent.log, in the order "
        "they have."
    )
    return Chore(
        text, {f"{name}.log": lines(rows)}, (f"tail -n {count} {name}.log > recent.log",),
        {"recent.log": lines(rows[-count:])},
    )  # fmt: skip


def middle_lines(rng: random.Random) -> Chore:
    rows, name = _phrases(rng, 30, 60), file_names(rng, 1)[0]
    first = rng.randint(4, 12)
    last = first + rng.randint(3, 12)
    text = f"Save lines {first} to {last} of {name}.txt, both included, as part.txt."
    command = f"sed -n '{first},{last}p' {name}.txt > part.txt"
    return Chore(text, {f"{name}.txt": lines(rows)}, (command,), {"part.txt": lines(rows[first - 1 : last])})


def reverse_lines(rng: random.Random) -> Chore:
    rows, (name, out) = _phrases(rng, 10, 40), file_names(rng, 2)
    text = f"Reverse the order of the lines: {out}.txt must hold those of {name}.txt from the last to the first."
    return Chore(
        text, {f"{name}.txt": lines(rows)}, (f"tac {name}.txt > {out}.txt",), {f"{out}.txt": lines(rows[::-1])}
    )


def number_lines(rng: random.Random) -> Chore:
    rows, name = _phrases(rng, 8, 30), file_names(rng, 1)[0]
    text = (
        f"Make a copy of {name}.txt named numbered.txt in which each line begins with its number and a colon, as in "
        f"'1:{rows[0]}'."
    )
    numbered = [f"{number}:{row}" for number, row in enumerate(rows, 1)]
    command = f"grep -n '' {name}.txt > numbered.txt"
    return Chore(text, {f"{name}.txt": lines(rows)}, (command,), {"numbered.txt": lines(numbered)})


def to_capitals(rng: random.Random) -> Chore:
    rows, (name, out) = _phrases(rng, 8, 30), file_names(rng, 2)
    text = f"Copy {name}.txt to {out}.txt with every letter as a capital."
    command = f"tr a-z A-Z < {name}.txt > {out}.txt"
    wanted = {f"{out}.txt": lines([row.upper() for row in rows])}
    return Chore(text, {f"{name}.txt": lines(rows)}, (command,), wanted)  # type: ignore[arg-type]


def count_words(rng: random.Random) -> Chore:
    rows, name = _phrases(rng, 15, 60), file_names(rng, 1)[0]
    text = f"How many words are there in {name}.md? Write the number, and nothing else, to words.txt."
    count = sum(len(row.split()) for row in rows)
    command = f"wc -w < {name}.md > words.txt"
    return Chore(text, {f"{name}.md": lines(rows)}, (command,), {"words.txt": lines([str(count)])})


def join_files(rng: random.Random) -> Chore:
    names, out = file_names(rng, 3), rng.choice(("all", "book", "whole"))
    files = {f"{name}.txt": lines(_phrases(rng, 3, 9)) for name in names}
    order = [f"{name}.txt" for name in names]
    text = f"Put {order[0]}, {order[1]} and {order[2]} one after another, in this order, into one file {out}.txt."
    command = f"cat {' '.join(order)} > {out}.txt"
    return Chore(text, files, (command,), {f"{out}.txt": b"".join(files[path] for path in order)})


def drop_blank_lines(rng: random.Random) -> Chore:
    rows, (name, out) = _phrases(rng, 10, 25), file_names(rng, 2)
    spaced = [line for row in rows for line in (row, *[""] * rng.choice((0, 0, 1, 2)))]
    text = f"There are empty lines in {name}.txt. Write all its other lines to {out}.txt, in their order."
    command = f"grep -v '^$' {name}.txt > {out}.txt"
    return Chore(text, {f"{name}.txt": lines(spaced)}, (command,), {f"{out}.txt": lines(rows)})


def append_line(rng: random.Random) -> Chore:
    rows, name = _phrases(rng, 5, 20), file_names(rng, 1)[0]
    new = " ".join(rng.choices(WORDS, k=3))
    text = f"Add one more line to the end of {name}.txt: {new}"
    return Chore(
        text, {f"{name}.txt": lines(rows)}, (f"echo '{new}' >> {name}.txt",), {f"{name}.txt": lines([*rows, new])}
    )


def without_comments(rng: random.Random) -> Chore:
    rows, name = [f"{word} = {rng.randint(1, 99)}" for word in rng.sample(WORDS, 9)], file_names(rng, 1)[0]
    noted = [line for row in rows for line in (*[f"# {rng.choice(WORDS)}"] * rng.choice((0, 1)), row)]
    text = f"In {name}.conf a line that begins with # is a comment. Store the other lines in plain.conf."
    command = f"grep -v '^#' {name}.conf > plain.conf"
    return Chore(text, {f"{name}.conf": lines(noted)}, (command,), {"plain.conf": lines(rows)})


def tally_lines(rng: random.Random) -> Chore:
    rows = rng.choices(rng.sample(WORDS, 6), k=rng.randint(25, 60))
    name = file_names(rng, 1)[0]
    text = (
        f"Each line of {name}.txt is one vote. Write to votes.txt a line 'WORD NUMBER' for each word that got any, in "
        "alphabetical order."
    )
    wanted = [f"{word} {count}" for word, count in sorted(Counter(rows).items())]
    command = f"sort {name}.txt | uniq -c | awk '{{print $2, $1}}' > votes.txt"
    return Chore(text, {f"{name}.txt": lines(rows)}, (command, "cat votes.txt"), {"votes.txt": lines(wanted)})


def sort_by_points(rng: random.Random) -> Chore:
    points = rng.sample(range(1, 400), 10)
    rows = [f"{person} {number}" for person, number in zip(rng.sample(PEOPLE, 10), points, strict=True)]
    text = (
        "scores.txt has a name and a number of points in each line. Sort it by points into ranking.txt, the best first."
    )
    wanted = sorted(rows, key=lambda row: -int(row.split()[1]))
    command = "sort -k2,2nr scores.txt > ranking.txt"
    return Chore(text, {"scores.txt": lines(rows)}, (command, "head ranking.txt"), {"ranking.txt": lines(wanted)})


def list_accounts(rng: random.Random) -> Chore:
    shells = ("/bin/bash", "/bin/sh", "/usr/sbin/nologin")
    people = rng.sample(PEOPLE, 10)
    rows = [f"{person.lower()}:x:{1_000 + i}:{rng.choice(shells)}" for i, person in enumerate(people)]
    shell = rows[rng.randrange(10)].rpartition(":")[2]
    text = (
        "The fields of accounts.txt are separated by colons: name, password, number, shell. Write the names of those "
        f"whose shell is {shell} to logins.txt, one per line, in the order of the file."
    )
    command = f"grep ':{shell}$' accounts.txt | cut -d: -f1 > logins.txt"
    wanted = [row.partition(":")[0] for row in rows if row.endswith(f":{shell}")]
    return Chore(text, {"accounts.txt": lines(rows)}, (command, "cat logins.txt"), {"logins.txt": lines(wanted)})


def swap_columns(rng: random.Random) -> Chore:
    pairs = [(rng.choice(WORDS), rng.choice(PEOPLE)) for _ in range(rng.randint(8, 30))]
    name = file_names(rng, 1)[0]
    text = f"Every line of {name}.txt has two words. Write them to swapped.txt with the second word before the first."
    return Chore(
        text, {f"{name}.txt": lines([f"{a} {b}" for a, b in pairs])},
        (f"awk '{{print $2, $1}}' {name}.txt > swapped.txt",), {"swapped.txt": lines([f"{b} {a}" for a, b in pairs])},
    )  # fmt: skip


def squeeze_blanks(rng: random.Random) -> Chore:
    rows, name = _phrases(rng, 8, 30), file_names(rng, 1)[0]
    wide = ["".join(c if c != " " else " " * rng.randint(1, 5) for c in row) for row in rows]
    text = (
        f"The words of {name}.txt are separated by one or more spaces. Change the file itself so that there is just "
        "one space each time."
    )
    command = f"sed -i 's/  */ /g' {name}.txt"
    return Chore(text, {f"{name}.txt": lines(wide)}, (command,), {f"{name}.txt": lines(rows)})


def common_lines(rng: random.Random) -> Chore:
    words = [f"{word}-{rng.randint(10, 99)}" for word in WORDS]
    both, (first, second) = rng.sample(words, 5), file_names(rng, 2)
    rest = [word for word in words if word not in both]
    rng.shuffle(rest)
    sides = [[*both, *rest[:6]], [*both, *rest[6:]]]
    for side in sides:
        rng.shuffle(side)
    text = f"Which lines stand both in {first}.txt and in {second}.txt? Write them to both.txt in alphabetical order."
    command = f"grep -xFf {first}.txt {second}.txt | LC_ALL=C sort > both.txt"
    return Chore(
        text, {f"{first}.txt": lines(sides[0]), f"{second}.txt": lines(sides[1])},
        (command, "cat both.txt"), {"both.txt": lines(sorted(both))},
    )  # fmt: skip


def missing_guests(rng: random.Random) -> Chore:
    invited = rng.sample(PEOPLE, 10)
    came = rng.sample(invited, rng.randint(4, 7))
    text = (
        "invited.txt and came.txt are lists of guests, one per line. Write those who were invited and did not come to "
        "absent.txt, in the order in which they were invited."
    )
    command = "grep -vxFf came.txt invited.txt > absent.txt"
    return Chore(
        text, {"invited.txt": lines(invited), "came.txt": lines(came)}, (command, "cat absent.txt"),
        {"absent.txt": lines([guest for guest in invited if guest not in came])},
    )  # fmt: skip


def longest_line(rng: random.Random) -> Chore:
    rows = _phrases(rng, 15, 40)
    rows.insert(rng.randrange(len(rows)), f"{max(rows, key=len)} {rng.choice(WORDS)}")
    name = file_names(rng, 1)[0]
    text = f"One line of {name}.txt is longer than all the others. Copy it to longest.txt."
    command = f"awk 'length > n {{n = length; row = $0}} END {{print row}}' {name}.txt > longest.txt"
    return Chore(
        text, {f"{name}.txt": lines(rows)}, (command, "cat longest.txt"), {"longest.txt": lines([max(rows, key=len)])}
    )


def delete_entries(rng: random.Random) -> Chore:
    rows, name, word = _phrases(rng, 20, 40), file_names(rng, 1)[0], rng.choice(WORDS)
    rows.append(f"{word} {rng.choice(WORDS)}")
    text = f"Delete from {name}.txt every line with the word {word} in it, and change nothing else in the file."
    kept = [row for row in rows if word not in row.split()]
    return Chore(
        text, {f"{name}.txt": lines(rows)}, (f"sed -i '/\\b{word}\\b/d' {name}.txt",), {f"{name}.txt": lines(kept)}
    )


def plain_line_ends(rng: random.Random) -> Chore:
    rows, name = _phrases(rng, 8, 25), file_names(rng, 1)[0]
    text = (
        f"{name}.txt was written on Windows: each of its lines ends in a carriage return and a newline. Take the "
        "carriage returns out of the file."
    )
    windows = "".join(f"{row}\r\n" for row in rows).encode()
    command = f"sed -i 's/\\r$//' {name}.txt"
    return Chore(text, {f"{name}.txt": windows}, (command,), {f"{name}.txt": lines(rows)})


def insert_heading(rng: random.Random) -> Chore:
    rows, name = [f"{rng.choice(PEOPLE)},{rng.randint(18, 90)}" for _ in range(12)], file_names(rng, 1)[0]
    heading = rng.choice(("name,age", "person,years", "who,age"))
    text = f"{name}.csv lacks its heading. Insert '{heading}' as the first line of the file, above what is there."
    return Chore(
        text, {f"{name}.csv": lines(rows)}, (f"sed -i '1i {heading}' {name}.csv",),
        {f"{name}.csv": lines([heading, *rows])},
    )  # fmt: skip


def split_file(rng: random.Random) -> Chore:
    count, parts, name = rng.randint(4, 9), rng.randint(3, 5), file_names(rng, 1)[0]
    rows = [f"{number} {rng.choice(WORDS)}" for number in range(count * (parts - 1) + rng.randint(1, count))]
    text = (
        f"Cut {name}.txt into pieces of {count} lines (the last may be shorter), named piece-1, piece-2 and so on, "
        f"without an ending. Keep {name}.txt."
    )
    wanted: dict[str, bytes | None] = {
        f"piece-{part + 1}": lines(rows[count * part : count * (part + 1)]) for part in range(parts)
    }
    command = f"split -l {count} -a 1 --numeric-suffixes=1 {name}.txt piece-"
    return Chore(text, {f"{name}.txt": lines(rows)}, (command, "wc -l piece-*"), wanted)


def find_addresses(rng: random.Random) -> Chore:
    people = rng.sample(PEOPLE, 7)
    addresses = [f"{person.lower()}@{rng.choice(WORDS)}.example" for person in people]
    rows = []
    for address in [*addresses, *rng.sample(addresses, 3)]:
        rows.append(f"{' '.join(rng.choices(WORDS, k=3))} <{address}> {rng.choice(WORDS)} @ {rng.choice(WORDS)}")
        rows.append(" ".join(rng.choices(WORDS, k=5)))
    text = (
        "Mail addresses such as ada@maple.example are scattered over letter.txt. Collect the different ones in "
        "addresses.txt, sorted, one per line."
    )
    command = "grep -oE '[a-z]+@[a-z]+\\.example' letter.txt | LC_ALL=C sort -u > addresses.txt"
    return Chore(
        text, {"letter.txt": lines(rows)}, (command, "cat addresses.txt"),
        {"addresses.txt": lines(sorted(set(addresses)))},
    )  # fmt: skip


def read_setting(rng: random.Random) -> Chore:
    sections, keys = rng.sample(WORDS, 4), rng.sample(("port", "host", "mode", "limit"), 3)
    values = {(section, key): f"{rng.choice(WORDS)}{rng.randint(10, 99)}" for section in sections for key in keys}
    rows = [row for section in sections for row in (f"[{section}]", *(f"{key}={values[section, key]}" for key in keys))]
    section, key = rng.choice(sections), rng.choice(keys)
    text = (
        f"app.ini has sections, and the same keys in each of them. Write the value of {key} in the section [{section}] "
        "to value.txt: the value alone."
    )
    command = f"sed -n '/^\\[{section}\\]/,/^\\[/s/^{key}=//p' app.ini > value.txt"
    return Chore(
        text, {"app.ini": lines(rows)}, (command, "cat value.txt"), {"value.txt": lines([values[section, key]])}
    )


def added_lines(rng: random.Random) -> Chore:
    rows = [f"{word} {rng.randint(100, 999)}" for word in rng.sample(WORDS, 14)]
    new = list(rows)
    fresh = [f"{rng.choice(PEOPLE)} {rng.randint(100, 999)}" for _ in range(4)]
    for row in fresh:
        new.insert(rng.randrange(len(new) + 1), row)
    new.remove(rng.choice(rows))
    text = (
        "new.txt is a later version of old.txt: lines were put in and taken out. Write those that were put in to "
        "added.txt, in their order."
    )
    command = "diff old.txt new.txt | sed -n 's/^> //p' > added.txt"
    return Chore(
        text, {"old.txt": lines(rows), "new.txt": lines(new)}, (command, "cat added.txt"),
        {"added.txt": lines([row for row in new if row in fresh])},
    )  # fmt: skip


def paste_columns(rng: random.Random) -> Chore:
    count = rng.randint(6, 12)
    first, second = rng.sample(PEOPLE, count), [str(rng.randint(18, 90)) for _ in range(count)]
    text = (
        "names.txt and ages.txt belong together line by line. Combine them in people.csv, each line with the name, a "
        "comma and the age."
    )
    return Chore(
        text, {"names.txt": lines(first), "ages.txt": lines(second)}, ("paste -d, names.txt ages.txt > people.csv",),
        {"people.csv": lines([f"{a},{b}" for a, b in zip(first, second, strict=True)])},
    )  # fmt: skip


def move_section(rng: random.Random) -> Chore:
    titles, name = rng.sample(WORDS, 4), file_names(rng, 1)[0]
    parts = {title: [f"== {title}", *rng.choices(PEOPLE, k=rng.randint(2, 5))] for title in titles}
    moved = titles[rng.randrange(3)]
    order = [*(title for title in titles if title != moved), moved]
    text = (
        f"Each section of {name}.txt begins with a line '== NAME'. Edit the file so that the section {moved}, with its "
        "heading, stands at the end and the others keep their order."
    )
    script = f'/^== /{{m = $2 == "{moved}"}} m{{held = held $0 "\\n"; next}} 1; END{{printf "%s", held}}'
    return Chore(
        text, {f"{name}.txt": lines([row for title in titles for row in parts[title]])},
        (f"grep == {name}.txt", f"awk '{script}' {name}.txt > new && mv new {name}.txt", f"cat {name}.txt"),
        {f"{name}.txt": lines([row for title in order for row in parts[title]])},
    )  # fmt: skip


def median_time(rng: random.Random) -> Chore:
    numbers = rng.sample(range(10, 900), 2 * rng.randint(5, 15) + 1)
    rows = [f"{rng.choice(WORDS)} {number} ms" for number in numbers]
    text = (
        "times.txt has an odd number of lines such as 'kelp 120 ms'. Write the median of the times, as a bare number, "
        "to median.txt."
    )
    command = "cut -d' ' -f2 times.txt | sort -n | awk '{a[NR] = $1} END {print a[(NR + 1) / 2]}' > median.txt"
    return Chore(
        text, {"times.txt": lines(rows)}, (command, "cat median.txt"),
        {"median.txt": lines([str(sorted(numbers)[len(numbers) // 2])])},
    )  # fmt: skip


def build_order(rng: random.Random) -> Chore:
    order = rng.sample(WORDS, rng.randint(7, 10))
    pairs = list(itertools.pairwise(order))
    pairs += [(order[a], order[b]) for a, b in (sorted(rng.sample(range(len(order)), 2)) for _ in range(3))]
    rng.shuffle(pairs)
    text = (
        "A line 'A B' of needs.txt says that A must be built before B. There is only one order in which everything can "
        "be built: write it to order.txt, one name a line, the first to be built at the top."
    )
    return Chore(
        text, {"needs.txt": lines([f"{a} {b}" for a, b in pairs])}, ("tsort needs.txt > order.txt", "cat order.txt"),
        {"order.txt": lines(order)},
    )  # fmt: skip
