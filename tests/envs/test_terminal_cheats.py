"""Ways around the work of a chore, and steps that could be read in two ways."""

from __future__ import annotations

import base64
import random
import re

import pytest

from rlvr.envs.agentic import terminal
from rlvr.envs.agentic.chore_kinds.draft import ChoreDraft, StepKind, Unfit, render
from rlvr.envs.agentic.chore_kinds.history import INSTALLED
from rlvr.envs.agentic.chore_kinds.live import signed
from rlvr.envs.agentic.chores import Chore
from rlvr.envs.agentic.terminal import Terminal, TerminalState
from rlvr.envs.sandbox import Daemon, shared

from .test_terminal import KINDS, NAMED, alone, held, play, sees_processes, shown

AS_TREE = "c=$(git commit-tree -p HEAD~{n} -m '{s}' 'HEAD^{{tree}}'); "


def chore_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Chore:
    """A chore of one step, which all terminals then have."""
    chore = alone(NAMED[name], 1)
    monkeypatch.setattr(terminal, "chore_of", lambda state: chore)
    return chore


@held
@pytest.mark.parametrize(
    ("name", "wish", "cheat"),
    [
        (
            "revert a commit",
            r"commit '(?P<s>.*)' of the git repository (?P<r>\w+)",
            'rm $(git log --format= --name-only --grep "{s}"); git commit -q --allow-empty -m \'Revert "{s}"\'',
        ),
        (
            "pick a commit",
            r"branch (?P<b>\w+) of the git repository (?P<r>\w+) .*'(?P<s>.*)'",
            'f=$(git log {b} --format= --name-only --grep "{s}"); git show {b}:$f > $f; '
            "git commit -q --allow-empty -m '{s}'",
        ),
        (
            "squash commits",
            r"last (?P<n>\d) commits of main in the git repository (?P<r>\w+), with the message '(?P<s>.*)'",
            f"{AS_TREE}git tag main $c",
        ),
        (
            "reword a commit",
            r"git repository (?P<r>\w+) .*Make it '(?P<s>.*)'",
            f"{AS_TREE.replace('{n}', '1')}git replace HEAD $c",
        ),
    ],
)
def test_what_looks_like_a_commit_of_main_is_none(name, wish, cheat, monkeypatch):
    chore = chore_of(name, monkeypatch)
    match = re.search(wish, chore.text)
    assert match, chore.text
    names = match.groupdict()
    command = f"cd {names['r']}; {cheat.format(**names)}; cd; clear; git -C {names['r']} log --format=%s main --"
    state = play(Terminal(), TerminalState(1, 0, ""), f"{command}<Enter>")[0]
    assert names["s"] in state.screen
    verdict = play(Terminal(), state, "<Done>")[1]
    assert (verdict.status, verdict.reason[:4]) == ("wrong", "git "), verdict


@sees_processes
@pytest.mark.parametrize("name", ["reload", "old lock"])
def test_the_memory_of_a_program_in_the_background_is_not_read(name, monkeypatch):
    chore = chore_of(name, monkeypatch)
    command = "clear; for p in $(cat */*.pid); do cat /proc/$p/mem /proc/$p/fd/0 /proc/$p/environ; done<Enter>"
    rows = shown(Terminal(), TerminalState(1, 0, ""), command)
    assert len(rows) == 3 * len(chore.daemons) + 1
    assert all(row.endswith("Permission denied") for row in rows[:-1])


def test_the_code_of_one_file_is_not_that_of_another():
    daemon = Daemon("a", ("python3", "worker.py", "a"), "secret\n")
    codes = {signed(daemon, path, text).split()[-1] for path in ("state/a.txt", "saved/a.txt") for text in ("b", "c")}
    assert len(codes) == 4


@held
def test_a_program_that_is_not_installed_is_named(monkeypatch):
    chore = alone(NAMED["tag a commit"], 1)._replace(setup=INSTALLED.format("lighthouse"))
    monkeypatch.setattr(terminal, "chore_of", lambda state: chore)
    verdict = play(Terminal(), TerminalState(1, 0, ""), "ls<Enter>")[1]
    assert verdict.status == "env_error"
    assert verdict.reason.endswith("did not open: lighthouse is not installed (exit status 1 of the setup)")


TEXTS = {
    "checksums": tuple(f"{number:064x}  iris{number % 3}/maple.txt" for number in range(9)),
    "numbered": tuple(f"{number}:{word} amber" for number, word in enumerate(("birch", "amber", "iris") * 3, 1)),
    "yaml": ("- member: iris1", "  club: amber", "  points: 7") * 3,
    "markdown": ("| iris | amber |", "|---|---|", *("| amber | birch |", "| kelp | iris |") * 4),
    "tabs": ("iris\tamber", "kelp\tbirch", "iris\tkelp") * 3,
    "marks": ("> iris amber", "* birch", "> amber-iris", "* kelp iris") * 3,
    "empty": ("iris", "", "amber birch", "", "kelp iris", "iris", "amber") * 2,
}


def played(kind: StepKind, rows: tuple[str, ...], seed: int) -> Chore | None:
    """A chore that does one step with a text; None if the step does not suit it."""
    for attempt in range(4):
        draft = ChoreDraft(random.Random(f"{kind.name} {seed} {attempt}"), look=0.0)
        try:
            kind.play(draft, draft.give_item("text", rows))
        except Unfit:
            continue
        return draft.chore()
    return None


@pytest.mark.slow
@held
@pytest.mark.parametrize("rows", TEXTS.values(), ids=TEXTS)
def test_what_earlier_steps_leave_has_one_reading(rows):
    """The expert's commands make what each step promises, whatever text an earlier step left."""
    chores = {
        kind.name: chore
        for kind in KINDS
        if kind.takes in ("text", "file") and kind.family not in ("git", "make", "processes", "services")
        for seed in range(2)
        if (chore := played(kind, rows, seed))
    }
    assert len(chores) > 20
    for name, chore in chores.items():
        wanted = {path: content for path, content in chore.wanted.items() if content is not None}
        command = "\n".join([*map(str, chore.commands), *(f"base64 -w 0 {path}; echo" for path in wanted)])
        result = shared().run_shell(f"({command}) 2>&1", files=chore.files)
        lines = result.stdout.splitlines()[-len(wanted) :] if wanted else []
        assert [base64.b64decode(line) for line in lines] == list(wanted.values()), (name, chore.text)
        assert render("text", rows) in chore.files.values()
