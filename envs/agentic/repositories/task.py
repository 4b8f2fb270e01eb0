"""Work on a package of several modules, by reading, running and editing, or by one patch; RepoRepair mends a fault."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.agentic.repositories import pages, workspace
from rlvr.envs.agentic.repositories.editing import (
    Edits,
    FileTask,
    edits_between,
    lines_that_differ,
    patch_of,
    patched_by,
    tools_with,
    with_edits,
)
from rlvr.envs.agentic.repositories.features import repository_without_feature
from rlvr.envs.agentic.repositories.installed import checked_packages, installed_repository
from rlvr.envs.agentic.repositories.repository import SIZES, Fault, Repository, repository, split_of_seed, with_faults
from rlvr.envs.core.seeding import split_of
from rlvr.envs.core.verdict import Verdict, unparsable, wrong
from rlvr.envs.tools import Call, Session
from rlvr.envs.tools.tool import MAX_OUTPUT, ToolError

MADE: Final = {"repair": repository, "feature": repository_without_feature}
SEEDS: Final = 1_000_000  # repositories of each level
BUDGETS: Final = (16, 20, 24, 32, 48)  # calls of each level
_LIST: Final = 40  # files that the first observation names


class RepoWorld(NamedTuple):
    """A repository by level and seed, and what the policy has changed.

    ``work`` is what is asked for, ``repair`` or ``feature``; ``packages`` the installed distributions that it is drawn
    from, none for composed packages.
    """

    level: int
    seed: int
    edits: Edits = ()
    work: str = "repair"
    packages: tuple[str, ...] = ()

    @property
    def bounds(self) -> workspace.Bounds:
        """How much the repository may hold."""
        return workspace.BOUNDS

    def repository(self) -> Repository:
        """The repository as it was given."""
        if self.packages:
            return installed_repository(self.level, self.seed, self.packages)
        return MADE[self.work](self.level, self.seed)

    def files(self) -> dict[str, str]:
        """The files as they are now."""
        return with_edits(self.repository().files, self.edits)

    def with_files(self, files: dict[str, str]) -> RepoWorld:
        """The world with these files."""
        return self._replace(edits=edits_between(self.repository().files, files))


def run_tests(world: RepoWorld, names: str = "") -> str:
    """Run the repository's tests, and show those that fail.

    Args:
        names: dotted names with blanks between them, such as tests.test_a or tests.test_a.ATest.test_b; all if empty.
    """
    chosen = names.split()
    if len(chosen) > 20 or not all(re.fullmatch(r"[A-Za-z_][\w.]{0,200}", name) for name in chosen):
        raise ToolError("names must be up to 20 dotted names, such as tests.test_a")
    return workspace.run_tests(world.files(), chosen)


def shell(world: RepoWorld, command: str) -> tuple[RepoWorld, str]:
    """Run a bash command in the repository, for at most 10 seconds and without network.

    Changes of text files stay; those of .git do not.

    Args:
        command: such as "git log --oneline", or python3 with a program on standard input.
    """
    files, output = workspace.run_command(world.files(), pages.git_folder(world.repository().commits), command)
    return world.with_files(files), output or "[nothing was printed]"


class RepositoryTask(FileTask[RepoWorld]):
    """Change a generated package until hidden tests pass; a subclass says what is asked for, and plays the expert.

    Args:
        tool_style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt; ``template`` leaves them to the chat template.
        max_calls: calls an episode may make; the level decides if None.
        max_output: characters of a call's output that are shown.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine.
    """

    work: ClassVar[str]
    packages: tuple[str, ...] = ()
    levels = len(SIZES)
    toolset = tools_with(run_tests, shell)

    def start(self, rng: random.Random, level: int) -> Session[RepoWorld]:
        """The seed of a repository, which is made when it is first looked at."""
        return Session(
            RepoWorld(level, rng.randrange(SEEDS), (), self.work, self.packages), "", 0, self._allowed(level)
        )

    def budget(self, level: int) -> int:
        """By level, about twice what the expert needs."""
        return BUDGETS[level - 1]

    def content(self, state: Session[RepoWorld]) -> str:
        """The seed of the repository, which decides the domains and the kinds of fault that its split alone has."""
        world, split = state.world, split_of_seed(state.world.seed)
        base = " ".join(("repository", str(world.level), str(world.seed), *world.packages))
        return next(text for number in count() if split_of(text := f"{base} {number}") == split)

    def ask(self, world: RepoWorld) -> str:
        """The issue, and the names of the files where they are few."""
        given = world.repository()
        paths = sorted(path for path in given.files if not path.startswith("."))
        if len(paths) > _LIST:
            paths = [f"{given.package.name}/ ({len(given.package.modules)} modules)", "docs/", "tests/", "README.md"]
        return f"{given.issue}\n\nFiles:\n" + "\n".join(paths)

    def judge(self, world: RepoWorld, reply: str) -> Verdict:
        """All hidden tests on the policy's package, patched by what the reply holds."""
        given = world.repository()
        try:
            files = patched_by(reply, world)
        except ToolError as error:
            return unparsable(str(error))
        package = [{path: text for path, text in each.items() if path.startswith(f"{given.package.name}/")}
                   for each in (files, given.files)]  # fmt: skip
        if package[0] == package[1]:
            return wrong(reason="nothing in the package was changed")
        verdict = workspace.grade(given.package.name, files, given.hidden)
        return verdict.replace(answer=None, parts={})

    # a program that works on the files themselves

    def workspace(self, state: Session[RepoWorld]) -> dict[str, str | bytes]:
        """All files of the repository by their paths, those of ``.git`` among them.

        Raises:
            ValueError: it is of an installed package, which a program outside of the sandbox could copy.
        """
        if state.world.packages:
            raise ValueError(
                "a program outside of the sandbox can read installed packages: leave packages empty for it"
            )
        return {**state.world.files(), **pages.git_folder(state.world.repository().commits)}

    def judge_files(self, state: Session[RepoWorld], files: Mapping[str, str]) -> Verdict:
        """All hidden tests on the package of files that somebody left, as `judge` has it; other files do not count."""
        given, kept = state.world.repository(), dict[str, str]()
        try:
            for path, text in files.items():
                if path.startswith(f"{given.package.name}/"):
                    kept = workspace.written(kept, workspace.checked_path(path), text)
        except ToolError as error:
            return unparsable(f"the package cannot be graded: {error}"[:300])
        return self.judge(state.world.with_files(kept), "")

    # the expert

    def direct_answer(self, state: Session[RepoWorld]) -> str:
        """The patch."""
        given = state.world.repository()
        paths = {given.path(module): right for module, right in given.package.modules.items()}
        return patch_of({path: (given.files.get(path, ""), right) for path, right in paths.items()})


class RepoRepair(RepositoryTask):
    """Mend a fault in a package, told of by an issue: through tools, or by one patch.

    Levels 1 to 5: one wrong word, its failing test is named; any fault in one module, test named; the test fails
    and is not named; no test fails and the fault is in another module than its symptom; two faults in a package of
    about twenty modules, one of them at least two imports away where there are such, and a commit that is wrongly
    suspected. In installed packages a distance counts calls, and the last commit is suspected where a module may end
    without its last function.

    Observation: the issue and the files; then what each call gave.
    Actions: calls of the tools; a reply without a call hands the repository in, with the patch that it holds in a
    fence ```diff, if any.
    Reward: 1 if the package passes all hidden tests in a fresh sandbox, those that failed and those that
    passed, else 0.
    Episode end: a reply without a call, or the turns are used up.

    Args:
        packages: installed distributions to break parts of, such as ``["sortedcontainers", "sympy"]``; none: packages
            are composed.
        tool_style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt; ``template`` leaves them to the chat template.
        max_calls: calls an episode may make; the level decides if None.
        max_output: characters of a call's output that are shown.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine.
        ValueError: a distribution is not installed, not permissive, not pure Python, can be read in the sandbox or has
            too few examples.
    """

    work = "repair"
    task = (
        "You mend a fault in a Python package. You see an issue, and work on the repository with tools. What functions "
        "must do stands in their docstrings and in docs/; hidden tests check it. Only the package's own folder counts. "
        "When it is mended, reply without a call: your reply hands the repository in. Instead of calling edit_file you "
        "may put a unified diff into that reply, between ```diff and ```."
    )

    def __init__(
        self,
        *,
        packages: Sequence[str] = (),
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = 2 * MAX_OUTPUT,
    ) -> None:
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        self.packages = checked_packages((packages,) if isinstance(packages, str) else tuple(packages))

    def difficulty(self, state: Session[RepoWorld]) -> float:
        """Modules of the package, times one for each fault and one for each import between it and its symptom."""
        given = state.world.repository()
        return float(len(given.package.modules) * sum(1 + fault.distance for fault in given.faults))

    def steps(self, world: RepoWorld) -> Iterator[Call | str]:
        """See it fail, look at what is named, follow the imports to the fault, mend it, and see it pass."""
        given, size = world.repository(), SIZES[world.level - 1]
        if size.distance:
            yield Call("list_files", {})
        if size.distance > 1:
            yield Call("shell", {"command": "git log --oneline -n 5"})
        for index, fault in enumerate(given.faults):
            look = _look(given, fault, size.names_test, size.tests_fail)
            yield look
            for module in _way(given, fault):
                yield Call("view_file", {"path": given.path(module), "first_line": _line_of(given, fault, module)})
            before, after = (with_faults(given.package.modules, given.faults[start:]) for start in (index, index + 1))
            old, new = lines_that_differ(before[fault.module], after[fault.module])
            yield Call("edit_file", {"path": given.path(fault.module), "old": old, "new": new})
            yield look
        yield Call("run_tests", {})
        modules = " and ".join(dict.fromkeys(f"{fault.module}.py" for fault in given.faults))
        yield f"I have mended {modules}; what the issue shows is right now, and the tests pass."


def _look(given: Repository, fault: Fault, names_test: bool, tests_fail: bool) -> Call:
    module = fault.symptom.module
    if tests_fail:
        name = f"tests.{pages.test_name(module)}"
        if names_test:
            name = given.issue.split("`")[1]
        return Call("run_tests", {"names": name})
    *lines, last = given.package.with_imports(fault.symptom.text).split("\n")
    program = "\n".join([*lines, f"print({last})"])
    return Call("shell", {"command": f"python3 - <<'END'\n{program}\nEND"})


def _way(given: Repository, fault: Fault) -> list[str]:
    """The modules from where a fault is seen to where it is, over the fewest imports."""
    way = [fault.symptom.module]
    while way[-1] != fault.module:
        here = given.package.distances(way[-1])[fault.module]
        way.append(min(module for module in given.package.imports[way[-1]]
                       if given.package.distances(module).get(fault.module) == here - 1))  # fmt: skip
    return way


def _line_of(given: Repository, fault: Fault, module: str) -> int:
    """Where to begin to read a module: its beginning, or 30 lines before what is wrong."""
    if module != fault.module:
        return 1
    return max(1, given.package.modules[module][: fault.change.start].count("\n") - 30)
