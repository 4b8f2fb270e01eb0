"""Steps with git repositories, which are made of their history before the shell opens."""

from __future__ import annotations

import difflib
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlvr.envs.agentic.chore_kinds.draft import PLAIN, ChoreDraft, StepKind, WorkItem, fresh, pick, render
from rlvr.envs.agentic.chores import WORDS, lines

MAIN = "refs/heads/main"
MADE = 1_767_225_600  # the first commit of every repository: the first second of 2026
VERBS = ("Add", "Change", "Extend", "Sort", "Tidy", "Rework", "Shorten", "Rename")
INSTALLED = "command -v {0} > /dev/null || {{ echo {0} is not installed >&2; exit 1; }}"


class Commit(NamedTuple):
    """A commit: its subject, the files that it changes (None: deletes), its branch, and the branch it grows from."""

    subject: str
    changes: Mapping[str, bytes | None]
    branch: str = "main"
    grows_from: str = ""


def _history(commits: Sequence[Commit], tags: Mapping[str, int]) -> bytes:
    """The commits as ``git fast-import`` reads them; a tag stands on the commit of its number."""
    parts = []
    for number, commit in enumerate(commits):
        when = f"committer Ada <ada@example.org> {MADE + 3_600 * number} +0000"
        parts += [f"commit refs/heads/{commit.branch}\nmark :{number + 1}\n{when}\n".encode()]
        parts.append(_data(commit.subject.encode()))
        if commit.grows_from:
            parts.append(f"from refs/heads/{commit.grows_from}\n".encode())
        for path, content in commit.changes.items():
            parts.append(f"D {path}\n".encode() if content is None else f"M 644 inline {path}\n".encode())
            parts += [] if content is None else [_data(content)]
    parts += [f"reset refs/tags/{tag}\nfrom :{number + 1}\n\n".encode() for tag, number in tags.items()]
    return b"".join(parts)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def subjects_of(rng: random.Random, count: int) -> list[str]:
    """So many different subject lines."""
    subjects: dict[str, None] = {}
    while len(subjects) < count:
        subjects[f"{rng.choice(VERBS)} the {rng.choice(WORDS)} {rng.choice(('list', 'rules', 'notes', 'table'))}"] = (
            None
        )
    return list(subjects)


def _blob(content: bytes) -> str:
    """The name that git gives to the content of a file."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


class GitFolder:
    """A repository in a draft: its folder, and the files of its folder as main has them."""

    def __init__(self, draft: ChoreDraft, commits: Sequence[Commit], tags: Mapping[str, int] | None = None) -> None:
        self.draft, self.folder, self.commits = draft, draft.name(), list(commits)
        draft.start[f".{self.folder}"] = _history(commits, tags or {})
        draft.setup += [
            INSTALLED.format("git"),
            f"git init -q -b main --template= {self.folder}",
            f"git -C {self.folder} fast-import --quiet < .{self.folder}",
            f"git -C {self.folder} reset -q --hard main; rm .{self.folder}",
        ]
        for commit in self.main:
            for path, content in commit.changes.items():
                self.set(path, content)

    @property
    def main(self) -> list[Commit]:
        return [commit for commit in self.commits if commit.branch == "main"]

    def set(self, path: str, content: bytes | None) -> None:
        """What the folder holds in the end."""
        if content is not None:
            self.draft.files[f"{self.folder}/{path}"] = content
        elif f"{self.folder}/{path}" in self.draft.files:
            self.draft.remove(f"{self.folder}/{path}")

    def expect(
        self, subjects: Sequence[str], *questions: tuple[str, bytes], tree: Mapping[str, bytes | None] | None = None
    ) -> None:
        """The subjects of main in the end, the oldest first, and what else git must say.

        Args:
            tree: files that the newest commit has otherwise than the folder; None: not at all.
        """
        start = f"{self.folder}/"
        files: dict[str, bytes | None] = {
            path.removeprefix(start): content for path, content in self.draft.files.items() if path.startswith(start)
        }
        files.update(tree or {})
        rows = [f"100644 blob {_blob(content)}\t{path}" for path, content in sorted(files.items())
                if content is not None]  # fmt: skip
        self.draft.repositories[self.folder] = [
            (f"log --format=%s {MAIN}", lines([*subjects][::-1])), (f"ls-tree -r {MAIN}", lines(rows)),
            ("symbolic-ref HEAD", f"{MAIN}\n".encode()), *questions,
        ]  # fmt: skip

    def ask(self, wish: str, *commands: str, look: str = "log --oneline", **values: Any) -> None:
        self.draft.ask(wish, *commands, result=f"git -C {self.folder} --no-pager {look}", r=self.folder,
                       g=f"git -C {self.folder}", **values)  # fmt: skip

    def text(self, path: str) -> WorkItem:
        """A file of the folder as an item."""
        return WorkItem(
            "text", f"{self.folder}/{path}", tuple(self.draft.files[f"{self.folder}/{path}"].decode().splitlines())
        )


def _rows(rng: random.Random, count: int = 6) -> bytes:
    return lines([" ".join(rng.choices(WORDS, k=3)) for _ in range(count)])


def _adding(draft: ChoreDraft, count: int, **kwargs: str) -> list[Commit]:
    """Commits each of which adds a file."""
    return [
        Commit(subject, {f"{draft.name()}.txt": _rows(draft.rng)}, **kwargs)
        for subject in subjects_of(draft.rng, count)
    ]


def _only(commit: Commit) -> str:
    return next(iter(commit.changes))


def _version(name: str, wish: str, look: str, get: str, hide: Callable[..., dict[str, Any]]) -> StepKind:
    """A file as it was somewhere in the history, to be written beside the repository."""

    def play(draft: ChoreDraft, _: WorkItem) -> WorkItem:
        rng, form = draft.rng, draft.rng.choice(PLAIN)
        data, file = fresh(rng, form), draft.path(form)
        versions = [fresh(rng, form) for _ in range(3)]
        subjects = subjects_of(rng, 6)
        values = hide(rng, subjects, file, render(form, data), [render(form, each) for each in versions])
        repository = GitFolder(draft, values.pop("commits"), values.pop("tags", None))
        repository.expect([commit.subject for commit in repository.main])
        path = draft.path(form)
        repository.ask(wish, look, f"{get} > @b", look="status --short", f=file, b=path, **values)
        return draft.put(form, path, data)

    return StepKind(name, "git", "", play)


def _deleted(rng: random.Random, subjects: list[str], file: str, wanted: bytes, others: list[bytes]) -> dict[str, Any]:
    contents: list[dict[str, bytes | None]] = [
        {file: others[0]}, {file: others[1]}, {file: wanted}, {"notes.txt": _rows(rng)}, {file: None},
        {"notes.txt": b"new\n"},
    ]  # fmt: skip
    return {"commits": [Commit(*pair) for pair in zip(subjects, contents, strict=True)]}


def _at_subject(
    rng: random.Random, subjects: list[str], file: str, wanted: bytes, others: list[bytes]
) -> dict[str, Any]:
    number = rng.randint(1, 2)
    contents = [*others[:number], wanted, *others[number:]]
    commits = [Commit(subject, {file: content}) for subject, content in zip(subjects, contents, strict=False)]
    return {"commits": commits, "s": subjects[number]}


def _at_tag(rng: random.Random, subjects: list[str], file: str, wanted: bytes, others: list[bytes]) -> dict[str, Any]:
    tag = f"v{rng.randint(1, 9)}.{rng.randint(0, 9)}"
    hidden = _at_subject(rng, subjects, file, wanted, others)
    return {"commits": hidden["commits"], "t": tag, "tags": {tag: subjects.index(hidden["s"]), "v0.1": 0}}


def _on_branch(
    rng: random.Random, subjects: list[str], file: str, wanted: bytes, others: list[bytes]
) -> dict[str, Any]:
    branch = rng.choice(("feature", "import", "trial"))
    commits = [Commit(subjects[0], {file: others[0]}), Commit(subjects[1], {file: wanted}, branch, "main"),
               Commit(subjects[2], {file: others[1]})]  # fmt: skip
    return {"commits": commits, "s": branch}


VERSIONS = (
    _version("deleted file", "In the git repository @r the file @f was deleted by a commit. Write it to @b, here "
             "beside @r, as it was just before that.", "@g --no-pager log --oneline --stat -- @f",
             "@g show $(@g log -n 1 --format=%H --diff-filter=D -- @f)~1:@f", _deleted),
    _version("version of a commit", "Write the file @f of the git repository @r to @b, here beside @r, as the commit "
             "with the subject '@s' left it.", "@g --no-pager log --oneline",
             "@g show $(@g log --format=%H --grep='^@s$'):@f", _at_subject),
    _version("version of a tag", "Write the file @f of the git repository @r to @b, here beside @r, as it was at the "
             "tag @t.",
             "@g tag", "@g show @t:@f", _at_tag),
    _version("version of a branch", "Write the file @f as the branch @s of the git repository @r has it to @b, here "
             "beside @r.", "@g branch", "@g show @s:@f", _on_branch),
)  # fmt: skip


def _count(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    names = [f"{draft.name()}.txt" for _ in range(2)]
    commits = [Commit(subject, {draft.rng.choice(names): lines([subject, str(n)])})
               for n, subject in enumerate(subjects_of(draft.rng, draft.rng.randint(8, 12)))]  # fmt: skip
    commits[0] = Commit(commits[0].subject, dict.fromkeys(names, b"first\n"))
    repository, path = GitFolder(draft, commits), draft.path("value")
    repository.expect([commit.subject for commit in commits])
    repository.ask("How many commits of the git repository @r changed @f, the one that added it included? Write the "
        "number to @b, here beside @r.", "@g --no-pager log --oneline -- @f", "@g log --oneline -- @f | wc -l > @b",
                   look="status --short", f=names[0], b=path)  # fmt: skip
    return draft.put("value", path, str(sum(names[0] in commit.changes for commit in commits)))


def _tag(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    repository = GitFolder(draft, _adding(draft, 6))
    commit, tag = repository.main[draft.rng.randint(1, 4)], f"v{draft.rng.randint(1, 9)}.{draft.rng.randint(0, 9)}"
    repository.expect([each.subject for each in repository.main],
                      (f"log -n 1 --format=%s refs/tags/{tag}", f"{commit.subject}\n".encode()))  # fmt: skip
    repository.ask("In the git repository @r put the tag @t on the commit with the subject '@s'.",
                   "@g --no-pager log --oneline", "@g tag @t $(@g log --format=%H --grep='^@s$')",
                   look="log --oneline --decorate", t=tag, s=commit.subject)  # fmt: skip
    return repository.text(_only(commit))


def _reword(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    commits = _adding(draft, 4)
    right = commits[-1].subject
    repository = GitFolder(draft, [*commits[:-1], commits[-1]._replace(subject=right[:3] + right[4:])])
    repository.expect([commit.subject for commit in commits])
    repository.ask("The newest commit of the git repository @r has a mistake in its message, '@s'. Make it '@t', "
        "without another commit.", "@g commit -q --amend -m '@t'", s=right[:3] + right[4:], t=right)  # fmt: skip
    return repository.text(_only(commits[-1]))


def _revert(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    repository = GitFolder(draft, _adding(draft, 6))
    commit = repository.main[draft.rng.randint(1, 4)]
    repository.ask("Take back what the commit '@s' of the git repository @r did, by one new commit on main that "
        "reverts it, with the message that git proposes.", "@g --no-pager log --oneline",
                   "@g revert --no-edit $(@g log --format=%H --grep='^@s$')", s=commit.subject)  # fmt: skip
    repository.set(_only(commit), None)
    repository.expect([*(each.subject for each in repository.main), f'Revert "{commit.subject}"'])
    return repository.text(_only(repository.main[0]))


def _pick_commit(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    branch, commits = draft.rng.choice(("feature", "import", "trial")), _adding(draft, 6)
    side = [each._replace(branch=branch, grows_from="main" if not n else "") for n, each in enumerate(commits[3:])]
    repository, chosen = GitFolder(draft, [*commits[:3], *side]), draft.rng.choice(side)
    repository.ask("The branch @t of the git repository @r has three commits that main lacks. Bring only the one "
        "with the subject '@s' to main, as a commit with the same message, and leave the branch as it is.",
                   "@g --no-pager log --oneline @t", "@g cherry-pick $(@g log @t --format=%H --grep='^@s$')",
                   t=branch, s=chosen.subject)  # fmt: skip
    repository.set(_only(chosen), chosen.changes[_only(chosen)])
    repository.expect(
        [each.subject for each in (*commits[:3], chosen)],
        (f"log --format=%s {MAIN}..refs/heads/{branch}", lines([each.subject for each in side[::-1]])),
    )
    draft.gone |= {f"{repository.folder}/{_only(each)}" for each in side if each is not chosen}
    return repository.text(_only(chosen))


def _squash(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    repository, count = GitFolder(draft, _adding(draft, 6)), draft.rng.randint(2, 4)
    subject = f"Add the {draft.rng.choice(WORDS)} files"
    repository.expect([*(each.subject for each in repository.main[:-count]), subject])
    repository.ask("Make one commit of the last @n commits of main in the git repository @r, with the message '@s'. "
        "The files stay as they are, and the commits before them too.", "@g reset -q --soft HEAD~@n",
                   "@g commit -q -m '@s'", n=count, s=subject)  # fmt: skip
    return repository.text(_only(repository.main[-1]))


def _untrack(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    repository = GitFolder(draft, _adding(draft, 4))
    names = [_only(each) for each in repository.main]
    file = draft.rng.choice(names)
    repository.ask("The file @f should never have been committed to the git repository @r. Commit on main, with the "
        "message 'Ignore @f', that git no longer tracks it and that a file .gitignore names it, in a line of its "
        "own. The file itself stays in the folder; what older commits hold does not matter.", "@g rm -q --cached @f",
                   "echo @f > @r/.gitignore; @g add .gitignore", "@g commit -q -m 'Ignore @f'", f=file)  # fmt: skip
    repository.set(".gitignore", lines([file]))
    repository.expect([*(each.subject for each in repository.main), f"Ignore {file}"], tree={file: None})
    return repository.text(file)


def _merge(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    rng, file, rows = draft.rng, f"{draft.name()}.txt", draft.rng.sample(WORDS, 9)
    branch, index = rng.choice(("feature", "import", "trial")), rng.randint(2, 6)
    ours, theirs = (f"{rows[index]} {rng.randint(10, 99)} {who}" for who in rng.sample(("north", "south", "east"), 2))

    def with_row(*new: str) -> bytes:
        return lines([*rows[:index], *new, *rows[index + 1 :]])

    subjects = subjects_of(rng, 3)
    repository = GitFolder(draft, [Commit(subjects[0], {file: lines(rows)}),
                                    Commit(subjects[1], {file: with_row(theirs)}, branch, "main"),
                                    Commit(subjects[2], {file: with_row(ours)})])  # fmt: skip
    draft.repositories[repository.folder] = [
        (f"show {MAIN}:{file}", with_row(ours, theirs)), (f"log -n 1 --format=%s {MAIN}^1", lines([subjects[2]])),
        (f"log -n 1 --format=%s {MAIN}^2", lines([subjects[1]])), (f"rev-list --count {MAIN}", b"4\n"),
    ]  # fmt: skip
    repository.ask("In the git repository @r merge the branch @t into main. Both have changed the same line of @f: "
        "keep both versions of it, that of main first and that of @t below it, and commit the merge.", "@g merge @t",
                   "cat @r/@f", "sed -i '/^[<=>]\\{7\\}/d' @r/@f", "@g commit -q -a -m 'Merge @t'",
                   look="log --oneline --graph", t=branch, f=file)  # fmt: skip
    repository.set(file, with_row(ours, theirs))
    return repository.text(file)


def _first_bad(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    """A check that passes at the first commit and fails at the last: ``git bisect`` finds where it began."""
    rng, limit, count = draft.rng, draft.rng.randint(100, 200), draft.rng.randint(10, 16)
    bad, subjects, commits = rng.randint(3, count - 3), subjects_of(draft.rng, count), []
    for number, subject in enumerate(subjects):
        parts = [rng.randint(1, 9) for _ in range(6)]
        parts[rng.randrange(6)] += limit - sum(parts) + (rng.randint(1, 30) if number >= bad else -rng.randint(1, 30))
        commits.append(Commit(subject, {"parts.txt": lines([str(part) for part in parts])}))
    repository, check, path = GitFolder(draft, commits), draft.path("sh"), draft.path("text")
    draft.give(check, f"awk '{{ total += $1 }} END {{ exit total > {limit} }}' parts.txt\n".encode())
    repository.expect(subjects)
    repository.ask("At the first commit of the git repository @r the command `sh ../@c`, run in it, succeeds, and at "
        "the last one it fails; in between it began to fail once. Write the subjects of the first commit at which it "
        "fails and of the one before it to @b, here beside @r, in this order. In the end main is checked out as it "
        "was.",
                   "@g bisect start HEAD $(@g rev-list --max-parents=0 HEAD)", "@g bisect run sh ../@c | tail -n 4",
                   "@g log -n 2 --format=%s bisect/bad > @b", "@g bisect reset",
                       look="status", c=check, b=path)  # fmt: skip
    return draft.put("text", path, (subjects[bad], subjects[bad - 1]))


def _commit_file(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    if "/" in item.path:
        pick(draft.rng, ())
    repository, content = GitFolder(draft, _adding(draft, 3)), render(item.form, item.data)
    subject = f"Keep {item.path}"
    draft.see(item.path)
    repository.ask("Copy @a into the git repository @r and commit it on main with the message '@s'.", "cp @a @r/",
                   "@g add @a", "@g commit -q -m '@s'", a=item.path, s=subject)  # fmt: skip
    repository.set(item.path, content)
    repository.expect([*(each.subject for each in repository.main), subject])
    return item


def _commit_part(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    """Two changes in one file, of which one is to be committed: ``git add -p`` asks for each."""
    rng, file = draft.rng, draft.path("settings")
    rows = [f"{word} = {rng.randint(1, 99)}" for word in rng.sample(WORDS, 16)]
    changed = list(rows)
    spots = (rng.randint(0, 2), rng.randint(12, 15))
    for spot in spots:
        changed[spot] = f"{rows[spot].partition(' ')[0]} = {rng.randint(100, 999)}"
    chosen = rng.choice(spots)
    committed = [*rows[:chosen], changed[chosen], *rows[chosen + 1 :]]
    key = rows[chosen].partition(" ")[0]
    draft.start[f".{file}"] = lines(changed)
    repository = GitFolder(draft, [Commit("Begin", {file: lines(rows)})])
    draft.setup.append(f"mv .{file} {repository.folder}/{file}")
    repository.expect(["Begin", f"Raise {key}"], tree={file: lines(committed)})
    answers = ("y", "n") if chosen == spots[0] else ("n", "y")
    repository.ask("In the git repository @r two lines of @f have been changed and not committed. Commit the change "
        "of @k alone, on main, with the message 'Raise @k'. The other change stays in the file, uncommitted.",
                   "@g add -p @f", *answers, "@g commit -q -m 'Raise @k'", look="status --short",
                       f=file, k=key)  # fmt: skip
    repository.set(file, lines(changed))
    return WorkItem("settings", f"{repository.folder}/{file}", tuple(tuple(row.split(" = ")) for row in changed))


def _apply_patch(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """A patch in git's form for a file that has no other commits."""
    if draft.modes.get(item.path) or "/" in item.path or len(set(item.data)) < 8:
        pick(draft.rng, ())
    index = draft.rng.randint(2, len(item.data) - 3)
    data = (*item.data[:index], f"{draft.rng.choice(WORDS)} {draft.rng.randint(100, 999)}", *item.data[index + 1 :])
    patch = draft.path("diff")
    rows = difflib.unified_diff(item.data, data, f"a/{item.path}", f"b/{item.path}", lineterm="")
    draft.give(patch, lines(list(rows)))
    draft.setup.append(INSTALLED.format("git"))
    draft.see(item.path)
    draft.see(patch)
    draft.ask(
        "@o is a patch for @a, in the form of git. Apply it.", "git apply @o", result=item.path, a=item.path, o=patch
    )
    return draft.put("text", item.path, data)


KINDS: tuple[StepKind, ...] = (
    *VERSIONS,
    StepKind("count commits", "git", "", _count),
    StepKind("tag a commit", "git", "", _tag),
    StepKind("reword a commit", "git", "", _reword),
    StepKind("revert a commit", "git", "", _revert),
    StepKind("pick a commit", "git", "", _pick_commit),
    StepKind("squash commits", "git", "", _squash),
    StepKind("untrack a file", "git", "", _untrack),
    StepKind("merge a branch", "git", "", _merge),
    StepKind("first bad commit", "git", "", _first_bad),
    StepKind("commit a file", "git", "file", _commit_file),
    StepKind("commit a part", "git", "", _commit_part),
    StepKind("apply a patch", "git", "text", _apply_patch),
)
