"""Chores with the history of a git repository: tags, messages, reverting, picking, squashing, what is tracked."""

from __future__ import annotations

import random

from rlvr.envs.agentic.chores import WORDS, Chore, file_names, lines
from rlvr.envs.agentic.chores_git import Commit, setup_of, start_of, subjects_of


def _history(rng: random.Random, count: int) -> tuple[str, list[str], list[Commit]]:
    """A folder, and commits each of which adds a file of its own."""
    folder, *names = file_names(rng, count + 1)
    subjects = subjects_of(rng, count)
    return folder, names, [
        Commit(subject, {f"{name}.txt": lines(rng.choices(WORDS, k=4))})
        for subject, name in zip(subjects, names, strict=True)
    ]  # fmt: skip


def _wanted(folder: str, commits: list[Commit]) -> dict[str, bytes | None]:
    files: dict[str, bytes | None] = {".history": None}
    for commit in commits:
        files |= {f"{folder}/{path}": content for path, content in commit.changes.items()}
    return files


def _log(commits: list[Commit], *above: str) -> tuple[str, bytes]:
    return "log --format=%s main", lines([*above, *(commit.subject for commit in commits[::-1])])


def count_commits(rng: random.Random) -> Chore:
    folder, name, other = file_names(rng, 3)
    subjects = subjects_of(rng, rng.randint(8, 14))
    commits = [
        Commit(subject, {f"{rng.choice((name, other))}.txt": lines([*rng.choices(WORDS, k=3), str(index)])})
        for index, subject in enumerate(subjects)
    ]
    commits[0] = Commit(subjects[0], {f"{name}.txt": b"first\n", f"{other}.txt": b"first\n"})
    count = sum(f"{name}.txt" in commit.changes for commit in commits)
    text = (
        f"How many commits of the git repository {folder} changed {name}.txt, the one that added it included? Write "
        f"the number to commits.txt, here beside {folder}."
    )
    return Chore(
        text,
        start_of(commits),
        (f"git -C {folder} log --oneline -- {name}.txt | wc -l > commits.txt", "cat commits.txt"),
        {**_wanted(folder, commits), "commits.txt": lines([str(count)])},
        setup=setup_of(folder),
        repository=folder,
        asked=(_log(commits),),
    )


def tag_commit(rng: random.Random) -> Chore:
    folder, _, commits = _history(rng, 7)
    tag, chosen = f"v{rng.randint(1, 9)}.{rng.randint(0, 9)}", rng.randint(1, 5)
    subject = commits[chosen].subject
    text = f"In the git repository {folder} put the tag {tag} on the commit with the subject '{subject}'."
    command = f"git tag {tag} $(git log --format=%H --grep='^{subject}$')"
    return Chore(
        text,
        start_of(commits),
        (f"cd {folder}", command, "git log --oneline --decorate | cat"),
        _wanted(folder, commits),
        setup=setup_of(folder),
        repository=folder,
        asked=((f"log -n 1 --format=%s refs/tags/{tag}", f"{subject}\n".encode()), _log(commits)),
    )


def reword_commit(rng: random.Random) -> Chore:
    folder, _, commits = _history(rng, 4)
    right = commits[-1].subject
    wrong = right[:3] + right[4:]
    wrong_commits = [*commits[:-1], commits[-1]._replace(subject=wrong)]
    text = (
        f"The newest commit of the git repository {folder} has a mistake in its message, '{wrong}'. Make it '{right}', "
        "without adding a commit."
    )
    return Chore(
        text,
        start_of(wrong_commits),
        (f"cd {folder}", f"git commit -q --amend -m '{right}'", "git log --oneline | cat"),
        _wanted(folder, commits),
        setup=setup_of(folder),
        repository=folder,
        asked=(_log(commits), ("ls-tree -r --name-only main", _names(commits))),
    )


def _names(commits: list[Commit], but: str = "") -> bytes:
    return lines(sorted(path for commit in commits for path in commit.changes if path != but))


def revert_commit(rng: random.Random) -> Chore:
    folder, names, commits = _history(rng, 7)
    chosen = rng.randint(1, 5)
    subject, gone = commits[chosen].subject, f"{names[chosen]}.txt"
    text = (
        f"Take back what the commit '{subject}' of the git repository {folder} did, by one new commit on main that "
        "reverts it, with the message that git proposes."
    )
    command = f"git revert --no-edit $(git log --format=%H --grep='^{subject}$')"
    return Chore(
        text,
        start_of(commits),
        (f"cd {folder}", command, "git log --oneline | cat"),
        {**_wanted(folder, commits), f"{folder}/{gone}": None},
        setup=setup_of(folder),
        repository=folder,
        asked=(_log(commits, f'Revert "{subject}"'), ("ls-tree -r --name-only main", _names(commits, but=gone))),
    )


def untrack_file(rng: random.Random) -> Chore:
    folder, names, commits = _history(rng, 4)
    chosen = f"{rng.choice(names)}.txt"
    subject = f"Ignore {chosen}"
    text = (
        f"The file {chosen} should never have been committed to the git repository {folder}. Commit on main, with the "
        f"message '{subject}', that git no longer tracks it and that a file .gitignore names it, in a line of its own. "
        "The file itself must stay in the folder; what older commits hold does not matter."
    )
    commands = (
        f"cd {folder}",
        f"git rm -q --cached {chosen}; echo {chosen} > .gitignore; git add .gitignore",
        f"git commit -q -m '{subject}'; git status --short",
    )
    tracked = lines(sorted([".gitignore", *_names(commits, but=chosen).decode().split()]))
    return Chore(
        text,
        start_of(commits),
        commands,
        {**_wanted(folder, commits), f"{folder}/.gitignore": lines([chosen])},
        setup=setup_of(folder),
        repository=folder,
        asked=(
            _log(commits, subject),
            ("ls-tree -r --name-only main", tracked),
            ("show main:.gitignore", lines([chosen])),
        ),
    )


def pick_commit(rng: random.Random) -> Chore:
    folder, names, commits = _history(rng, 7)
    branch = rng.choice(("feature", "import", "trial"))
    side = [commit._replace(branch=branch, grows_from="main" if not i else "") for i, commit in enumerate(commits[4:])]
    chosen = rng.randrange(3)
    kept = [*commits[:4], commits[4 + chosen]]
    text = (
        f"The branch {branch} of the git repository {folder} has three commits that main lacks. Bring only the one "
        f"with the subject '{side[chosen].subject}' to main, as a commit with the same message, and leave the branch "
        "as it is."
    )
    command = f"git cherry-pick $(git log {branch} --format=%H --grep='^{side[chosen].subject}$')"
    gone: dict[str, bytes | None] = {f"{folder}/{name}.txt": None for i, name in enumerate(names[4:]) if i != chosen}
    return Chore(
        text,
        start_of([*commits[:4], *side]),
        (f"cd {folder}; git log --oneline {branch} | cat", command, "git log --oneline | cat"),
        {**_wanted(folder, kept), **gone},
        setup=setup_of(folder),
        repository=folder,
        asked=(
            _log(kept),
            ("ls-tree -r --name-only main", _names(kept)),
            (f"log --format=%s main..{branch}", lines([commit.subject for commit in side[::-1]])),
        ),
    )


def squash_commits(rng: random.Random) -> Chore:
    folder, _, commits = _history(rng, 7)
    count, subject = rng.randint(2, 4), f"Add the {rng.choice(WORDS)} files"
    kept = commits[:-count]
    text = (
        f"Make one commit of the last {count} commits of main in the git repository {folder}, with the message "
        f"'{subject}'. The files stay as they are, and the commits before them too."
    )
    return Chore(
        text,
        start_of(commits),
        (
            f"cd {folder}; git reset -q --soft HEAD~{count}",
            f"git commit -q -m '{subject}'",
            "git log --oneline --stat | cat",
        ),
        _wanted(folder, commits),
        setup=setup_of(folder),
        repository=folder,
        asked=(_log(kept, subject), ("ls-tree -r --name-only main", _names(commits))),
    )
