"""Chores with git: an older file, part of a change, a merge with conflicts, the commit that broke something."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlvr.envs.agentic.chores import WORDS, Chore, file_names, lines

MADE = 1_767_225_600  # the first commit of every repository: the first second of 2026
VERBS = ("Add", "Change", "Extend", "Sort", "Tidy", "Rework", "Shorten", "Rename")


class Commit(NamedTuple):
    """A commit: its subject, the files that it changes (None: deletes), its branch, and the branch it grows from."""

    subject: str
    changes: Mapping[str, bytes | None]
    branch: str = "main"
    grows_from: str = ""


def _history(commits: Sequence[Commit]) -> bytes:
    """The commits as ``git fast-import`` reads them."""
    parts = []
    for number, commit in enumerate(commits):
        when = f"committer Ada <ada@example.org> {MADE + 3_600 * number} +0000"
        parts += [f"commit refs/heads/{commit.branch}\n{when}\n".encode(), _data(commit.subject.encode())]
        if commit.grows_from:
            parts.append(f"from refs/heads/{commit.grows_from}\n".encode())
        for path, content in commit.changes.items():
            parts.append(f"D {path}\n".encode() if content is None else f"M 644 inline {path}\n".encode())
            parts += [] if content is None else [_data(content)]
    return b"".join(parts)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def setup_of(folder: str) -> str:
    """The script that makes a repository of the history."""
    return (
        f"set -e; git init -q -b main --template= {folder}; cd {folder}; "
        f"git fast-import --quiet < ../.history; git reset -q --hard main; rm ../.history"
    )


def start_of(commits: Sequence[Commit]) -> dict[str, bytes]:
    """The workspace from which ``setup_of`` makes a repository."""
    return {".history": _history(commits)}


def subjects_of(rng: random.Random, count: int) -> list[str]:
    """So many different subject lines."""
    subjects: dict[str, None] = {}
    while len(subjects) < count:
        subjects[f"{rng.choice(VERBS)} the {rng.choice(WORDS)} {rng.choice(('list', 'rules', 'notes', 'table'))}"] = (
            None
        )
    return list(subjects)


def restore_file(rng: random.Random) -> Chore:
    folder, lost, other = file_names(rng, 3)
    versions = [lines(rng.choices(WORDS, k=rng.randint(4, 9))) for _ in range(3)]
    subjects = subjects_of(rng, 7)
    changes: list[Mapping[str, bytes | None]] = [{f"{lost}.txt": version} for version in versions]
    changes += [{f"{other}.txt": lines(rng.choices(WORDS, k=4))} for _ in range(2)]
    rng.shuffle(changes)
    last = [dict(change)[f"{lost}.txt"] for change in changes if f"{lost}.txt" in change][-1]
    changes += [{f"{lost}.txt": None}, {f"{other}.txt": lines(rng.choices(WORDS, k=5))}]
    commits = [Commit(subject, change) for subject, change in zip(subjects, changes, strict=True)]
    text = (
        f"In the git repository {folder} the file {lost}.txt was deleted by a commit. Bring it back into the folder as "
        "it was just before that. Commit nothing."
    )
    command = f"git checkout $(git log -n 1 --format=%H --diff-filter=D -- {lost}.txt)~1 -- {lost}.txt"
    wanted = {".history": None, f"{folder}/{lost}.txt": last, f"{folder}/{other}.txt": changes[-1][f"{other}.txt"]}
    return Chore(
        text, start_of(commits), (f"cd {folder}", "git log --oneline --stat | tail -n 15", command), wanted,
        setup=setup_of(folder), repository=folder,
        asked=(("log --format=%s main", lines(subjects[::-1])),),
    )  # fmt: skip


def commit_part(rng: random.Random) -> Chore:
    """Two changes in one file, of which one is to be committed: ``git add -p`` asks for each."""
    folder, name, keep, new = file_names(rng, 4)
    rows = [f"{word} = {rng.randint(1, 99)}" for word in rng.sample(WORDS, 16)]
    first, second = rng.randint(0, 2), rng.randint(12, 15)
    changed = list(rows)
    for row in (first, second):
        changed[row] = f"{rows[row].partition(' ')[0]} = {rng.randint(100, 999)}"
    index = rng.choice((first, second))
    committed = list(rows)
    committed[index] = changed[index]
    setting = rows[index].partition(" ")[0]
    subject = f"Raise {setting} for {keep}"
    files = {f"{name}.cfg": lines(rows), f"{new}.txt": lines(rng.choices(WORDS, k=3))}
    text = (
        f"In the git repository {folder} two lines of {name}.cfg have been changed and not committed. Commit the "
        f"change of {setting} alone, on main, with the message '{subject}'. The other change must stay in the file, "
        "uncommitted."
    )
    answers = ("y", "n") if index == first else ("n", "y")
    start = start_of([Commit("Begin", files)])
    start[".changed"] = lines(changed)
    return Chore(
        text, start, (), {".history": None, ".changed": None, f"{folder}/{name}.cfg": lines(changed)},
        setup=f"{setup_of(folder)}; mv ../.changed {name}.cfg", repository=folder,
        asked=(
            ("log --format=%s main", f"{subject}\nBegin\n".encode()),
            (f"show main:{name}.cfg", lines(committed)),
            (f"show main:{new}.txt", files[f"{new}.txt"]),
            ("symbolic-ref HEAD", b"refs/heads/main\n"),
        ),
        keys=(
            f"cd {folder}<Enter>git add -p {name}.cfg<Enter>", *(f"{answer}<Enter>" for answer in answers),
            f"git commit -q -m '{subject}'<Enter>", "git status --short<Enter>",
        ),
    )  # fmt: skip


def merge_branch(rng: random.Random) -> Chore:
    folder, name = file_names(rng, 2)
    rows = rng.sample(WORDS, 9)
    index = rng.randint(2, 6)
    ours, theirs = (f"{rows[index]} {rng.randint(10, 99)} {who}" for who in rng.sample(("north", "south", "east"), 2))
    branch = rng.choice(("feature", "import", "trial"))

    def with_row(*new: str) -> bytes:
        return lines([*rows[:index], *new, *rows[index + 1 :]])

    commits = [
        Commit("Begin", {f"{name}.txt": lines(rows)}),
        Commit(f"Note of the {branch}", {f"{name}.txt": with_row(theirs), f"{branch}.md": b"new\n"}, branch, "main"),
        Commit("Note of main", {f"{name}.txt": with_row(ours)}),
    ]
    text = (
        f"In the git repository {folder} merge the branch {branch} into main. Both have changed the same line of "
        f"{name}.txt: keep both versions of it, that of main first and that of {branch} below it, and commit the merge."
    )
    merged = with_row(ours, theirs)
    commands = (
        f"cd {folder}; git merge {branch}", f"cat {name}.txt", f"sed -i '/^[<=>]\\{{7\\}}/d' {name}.txt",
        "git commit -q -a -m 'Merge'; git log --oneline --graph | cat",
    )  # fmt: skip
    return Chore(
        text, start_of(commits), commands,
        {".history": None, f"{folder}/{name}.txt": merged, f"{folder}/{branch}.md": b"new\n"},
        setup=setup_of(folder), repository=folder,
        asked=(
            (f"show main:{name}.txt", merged),
            ("log -n 1 --format=%s main^1", b"Note of main\n"),
            ("log -n 1 --format=%s main^2", f"Note of the {branch}\n".encode()),
            ("rev-list --count main", b"4\n"),
            ("symbolic-ref HEAD", b"refs/heads/main\n"),
        ),
    )  # fmt: skip


def find_bad_commit(rng: random.Random) -> Chore:
    """A check that passes at the first commit and fails at the last: ``git bisect`` finds where it began."""
    folder, limit = file_names(rng, 1)[0], rng.randint(100, 200)
    count = rng.randint(12, 20)
    bad = rng.randint(4, count - 3)
    subjects = subjects_of(rng, count)
    commits = []
    for number, subject in enumerate(subjects):
        parts = [rng.randint(1, 9) for _ in range(6)]
        parts[rng.randrange(6)] += limit - sum(parts) + (rng.randint(1, 30) if number >= bad else -rng.randint(1, 30))
        commits.append(Commit(subject, {"parts.txt": lines([str(part) for part in parts])}))
    check = f"awk '{{ total += $1 }} END {{ exit total > {limit} }}' parts.txt\n"
    text = (
        f"At the first commit of the git repository {folder} the command `sh ../check.sh`, run in it, succeeds, and "
        "at the last one it fails; in between it began to fail once. Write the subject line of the first commit at "
        "which it fails to bad.txt, beside check.sh. In the end main must be checked out as it was."
    )
    commands = (
        f"cd {folder}; git bisect start HEAD $(git rev-list --max-parents=0 HEAD)",
        "git bisect run sh ../check.sh | tail -n 4", "git log -n 1 --format=%s bisect/bad > ../bad.txt",
        "git bisect reset; cat ../bad.txt",
    )  # fmt: skip
    return Chore(
        text, {**start_of(commits), "check.sh": check.encode()}, commands,
        {".history": None, "bad.txt": lines([subjects[bad]]), f"{folder}/parts.txt": commits[-1].changes["parts.txt"]},
        setup=setup_of(folder), repository=folder,
        asked=(("log --format=%s main", lines(subjects[::-1])), ("symbolic-ref HEAD", b"refs/heads/main\n")),
    )  # fmt: skip
