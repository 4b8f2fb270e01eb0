"""A repository with a fault: composed, broken, and described by what was observed. Everything follows from one seed."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.python_syntax import parse_python
from rlvr.envs.agentic.repositories import pages
from rlvr.envs.agentic.repositories.faults import KINDS, TOKEN_KINDS, CodeChange, changes
from rlvr.envs.agentic.repositories.package import Package, composed, part
from rlvr.envs.agentic.repositories.pages import RAISES, HistoryCommit
from rlvr.envs.agentic.repositories.scenarios import UNENDING, filled, outcomes
from rlvr.envs.core.seeding import stream

DOMAINS: Final = {
    "train": (
        "gateways", "inventory", "invoices", "ledger", "loans", "recipes", "reports", "sheets", "surveys", "timesheets",
    ),
    "validation": ("bookings", "trees"),
    "test": ("builds", "contacts", "deliveries"),
}  # fmt: skip
SUPPORT: Final = (
    "amounts", "caches", "dates", "figures", "formulas", "graphs", "ids", "intervals", "matching", "queues", "records",
    "rounding", "tables", "throttles", "units", "wrapping",
)  # fmt: skip
NAMES: Final = (
    "anchor", "beacon", "canopy", "dovetail", "evergreen", "foundry", "granary", "harbour", "inkwell", "juniper",
    "keystone", "lantern", "meadow", "nutmeg", "orchard", "pantry", "quarry", "rivulet", "sawmill", "tinderbox",
)  # fmt: skip
DRAWS: Final = 5  # programs of each scenario; the first two may be shown, the others are hidden tests
SHOWN: Final = 2
TRIES: Final = 40  # changes that are tried before another repository is drawn
MAX_HIDDEN: Final = 60


class RepositorySize(NamedTuple):
    """How large the repositories of a level are, and what is said of their faults.

    Attributes:
        domains, support: how many parts of each kind are put in, besides what they stand on.
        share: of the scenarios, and so of the code, that is kept.
        faults: how many there are.
        distance: over how many imports at least a fault is seen.
        tests_fail: whether the repository's own tests show the fault.
        names_test: whether the issue names the test.
    """

    domains: int
    support: int
    share: float
    faults: int
    distance: int
    tests_fail: bool
    names_test: bool


SIZES: Final = (
    RepositorySize(1, 0, 0.5, 1, 0, True, True),
    RepositorySize(1, 2, 0.8, 1, 0, True, True),
    RepositorySize(2, 3, 0.8, 1, 0, True, False),
    RepositorySize(2, 6, 1.0, 1, 1, False, False),
    RepositorySize(4, 16, 1.0, 2, 2, False, False),
)


class Program(NamedTuple):
    """A program of a scenario: whose module it is, which scenario, which draw of it, its text and its value."""

    module: str
    scenario: int
    draw: int
    text: str
    expected: Any


class Fault(NamedTuple):
    """A change of a module, the program in which it is seen, and over how many imports."""

    module: str
    change: CodeChange
    symptom: Program
    distance: int


class Repository(NamedTuple):
    """A repository as the policy gets it, and what it is judged by.

    Attributes:
        package: as it should be.
        files: what the policy gets, by path.
        faults: what is wrong.
        issue: what the policy is told.
        hidden: programs with imports, and the values that they must give.
        failing: how many of the hidden programs fail at the start; these come first.
        commits: the history.
        missing: the definitions that each module lacks, where a feature is asked for.
    """

    package: Package
    files: Mapping[str, str]
    faults: tuple[Fault, ...]
    issue: str
    hidden: tuple[tuple[str, Any], ...]
    failing: int
    commits: tuple[HistoryCommit, ...]
    missing: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def path(self, module: str) -> str:
        """The path of a module."""
        return self.package.path(module)

    def signature(self) -> str:
        """What is the same in repositories that differ in names and numbers alone.

        Of faults the imports of parts, the kinds and the places; of a feature the definitions that it consists of.
        """
        parts = self.package.parts
        if self.missing:
            first = {
                alias: name for each in parts.values() for name, row in part(each).aliases.items() for alias in row
            }
            return " ".join(sorted(
                f"{parts[module]}:{'.'.join(first.get(word, word) for word in name.split('.'))}"
                for module, names in self.missing.items() for name in names
            ))  # fmt: skip
        imports = sorted(
            f"{parts[module]}<{','.join(sorted(parts[other] for other in others))}"
            for module, others in self.package.imports.items()
        )
        faults = sorted(f"{fault.change.kind} in {parts[fault.module]} seen in {parts[fault.symptom.module]}"
                        for fault in self.faults)  # fmt: skip
        return f"{' '.join(imports)}; {'; '.join(faults)}"


def split_of_seed(seed: int) -> str:
    """The split whose domains and kinds of fault the repository of a seed has."""
    return ("test", "validation", *["train"] * 8)[seed % 10]


@lru_cache(maxsize=64)
def repository(level: int, seed: int) -> Repository:
    """The repository of a seed; the same on every machine."""
    split = split_of_seed(seed)
    for attempt in count():
        draft = PackageDraft(stream("rlvr/RepoRepair-v0", level, seed, attempt), split, level)
        drawn = broken_repository(draft)
        if drawn is not None:
            return drawn
    raise AssertionError("unreachable")


class RepositoryDraft:
    """A repository under way: a package, its programs, and how a fault of it is found.

    Args:
        tops: the modules in whose programs a fault of another module may be seen.
        extra: files beside the code that the first commit has.
    """

    def __init__(
        self,
        rng: random.Random,
        split: str,
        level: int,
        package: Package,
        tops: Sequence[str],
        extra: Mapping[str, str],
    ) -> None:
        self.rng, self.split, self.level, self.size = rng, split, level, SIZES[level - 1]
        self.package, self.tops, self.extra = package, tops, extra
        self.programs: list[Program] = []
        self.standing = {module: package.distances(module) for module in package.modules}

    def values(self, modules: Mapping[str, str], programs: Sequence[Program]) -> list[Any] | None:
        """What programs give with these modules; None if one does not end."""
        texts = [self.package.with_imports(program.text) for program in programs]
        values = outcomes(self.package.name, modules, texts)
        return None if any(isinstance(value, str) and value == UNENDING for value in values) else values

    def changes_of(self, module: str) -> Sequence[CodeChange]:
        """The changes that may make a fault of a module."""
        return changes(self.package.modules[module])

    def distance(self, program: Program, module: str, change: CodeChange) -> int | None:
        """How far a program is from a change of a module, in imports; None where it does not meet it."""
        return self.standing[program.module].get(module)

    def deepest(self) -> int:
        """The greatest distance that there is."""
        return max(max(self.standing[top].values()) for top in self.tops)

    def kinds(self) -> list[str]:
        kinds = [kind for kind in KINDS[self.split] if self.level > 1 or kind in TOKEN_KINDS]
        self.rng.shuffle(kinds)
        return kinds

    def is_free(self, module: str, change: CodeChange, faults: Sequence[Fault]) -> bool:
        """Whether a change may be a fault beside others."""
        return all(module != each.module for each in faults)

    def fault(self, taken: Sequence[Fault]) -> Fault | None:
        """A change apart from those taken, with a symptom as far away as the level asks for."""
        order = []
        for kind in self.kinds():
            pool = [
                (module, change)
                for module in self.package.modules
                for change in self.changes_of(module)
                if change.kind == kind and self.is_free(module, change, taken)
            ]
            order.append(self.rng.sample(pool, min(len(pool), 8)))
        queue = [each for group in order for each in group[:2]] + [each for group in order for each in group[2:]]
        deepest = self.deepest()
        distance = min(self.size.distance if not taken else min(self.size.distance, 1), deepest)
        for module, change in queue[:TRIES]:
            fault = self._tried(module, change, distance)
            if fault is not None:
                return fault
        return None

    def _tried(self, module: str, change: CodeChange, distance: int) -> Fault | None:
        met = [(each, self.distance(each, module, change)) for each in self.programs]
        near = [(each, steps) for each, steps in met if steps is not None]
        seen = [each for each, steps in near
                if (each.module in self.tops and steps >= distance if distance else steps == 0)]  # fmt: skip
        if not seen:
            return None
        text = change.applied(self.package.modules[module])
        values = self.values({**self.package.modules, module: text}, [each for each, _ in near])
        if values is None:
            return None
        failing = [each for (each, _), value in zip(near, values, strict=True) if repr(value) != repr(each.expected)]
        standing = sum(module in self.standing[each.module] for each in self.programs)
        hidden = {(each.module, each.scenario) for each in failing if each.draw >= SHOWN}
        if not 3 <= len(failing) <= 0.6 * standing or sum(each.draw >= SHOWN for each in failing) < 2:
            return None
        symptoms = [each for each in failing
                    if each.draw < SHOWN and (each.module, each.scenario) in hidden and each in seen]  # fmt: skip
        if not symptoms:
            return None
        symptom = self.rng.choice(symptoms)
        return Fault(module, change, symptom, next(steps for each, steps in near if each is symptom))


class PackageDraft(RepositoryDraft):
    """A repository under way that is composed of parts."""

    def __init__(self, rng: random.Random, split: str, level: int) -> None:
        size, domains = SIZES[level - 1], DOMAINS[split]
        tops = rng.sample(domains, min(size.domains, len(domains)))
        chosen = [*tops, *rng.sample(SUPPORT, size.support)]
        package = composed(rng, rng.choice(NAMES), chosen, size.share)
        named = [module for module, part in package.parts.items() if part in tops]
        super().__init__(rng, split, level, package, named, {})
        texts = list(self._texts())
        values = outcomes(package.name, package.modules, [package.with_imports(each[3]) for each in texts])
        self.programs = [
            Program(*each, value) for each, value in zip(texts, values, strict=True) if not is_unfit(value)
        ]

    def _texts(self) -> Iterator[tuple[str, int, int, str]]:
        for module, scenarios in self.package.scenarios.items():
            for number, scenario in enumerate(scenarios):
                drawn = dict.fromkeys(filled(self.rng, scenario) for _ in range(DRAWS))
                for draw, text in enumerate(drawn):
                    yield module, number, draw, text


def is_unfit(value: Any) -> bool:
    """Whether a program's value is no plain data, or it does not end."""
    return isinstance(value, str) and value.startswith((UNENDING, f"{RAISES}NotPlain"))


def with_faults(modules: Mapping[str, str], faults: Sequence[Fault]) -> dict[str, str]:
    """The texts of modules with these faults."""
    broken = dict(modules)
    for fault in sorted(faults, key=lambda each: -each.change.start):  # those before it stay where they are
        broken[fault.module] = fault.change.applied(broken[fault.module])
    return broken


def broken_repository(draft: RepositoryDraft) -> Repository | None:
    """The repository of a draft, with the faults of its level; None where they are not found."""
    faults: list[Fault] = []
    for _ in range(draft.size.faults):
        fault = draft.fault(faults)
        if fault is None:
            return None
        faults.append(fault)
    package = draft.package
    broken = with_faults(package.modules, faults)
    values = draft.values(broken, draft.programs)
    if values is None:
        return None
    failing = {
        each.text: value
        for each, value in zip(draft.programs, values, strict=True)
        if repr(value) != repr(each.expected)
    }
    if any(fault.symptom.text not in failing for fault in faults):
        return None
    hidden = [each for each in draft.programs if each.draw >= SHOWN]
    bad = [each for each in hidden if each.text in failing]
    good = [each for each in hidden if each.text not in failing]
    bad = draft.rng.sample(bad, min(len(bad), MAX_HIDDEN // 3))
    judged = bad + draft.rng.sample(good, min(len(good), MAX_HIDDEN - len(bad)))
    tests = _tests(draft, failing)
    neighbour = _neighbour(draft, faults) if draft.level >= 4 else ""
    commits = history(package, broken, tests, neighbour)
    commits[0] = HistoryCommit(commits[0].subject, {**commits[0].files, **draft.extra})
    files: dict[str, str] = {}
    for commit in commits:
        files |= commit.files
    issue = _issue(draft, faults, failing, tests, neighbour)
    rows = tuple((package.with_imports(each.text), each.expected) for each in judged)
    return Repository(package, files, tuple(faults), issue, rows, len(bad), tuple(commits))


def _tests(draft: RepositoryDraft, failing: Mapping[str, Any]) -> dict[str, list[Program]]:
    """The programs that the repository's own tests run; those that fail only where the level's tests may fail."""
    tests: dict[str, list[Program]] = {}
    for program in draft.programs:
        if program.draw < SHOWN and (draft.size.tests_fail or program.text not in failing):
            tests.setdefault(program.module, []).append(program)
    return tests


def _neighbour(draft: RepositoryDraft, faults: Sequence[Fault]) -> str:
    """A module without a fault beside the one where a fault is seen; the last commit changes it."""
    wrong = {fault.module for fault in faults}
    near = [module for module in draft.standing[faults[0].symptom.module] if module not in wrong]
    fit = [module for module in near if len(_definitions(draft.package.modules[module])) > 1]
    return draft.rng.choice(fit) if fit else ""


def _definitions(text: str) -> list[ast.stmt]:
    """The functions that stand last in a module, and how many: its text may end before any of them."""
    body = parse_python(text).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return list(functions) if body and body[-1] in functions else []


def history(
    package: Package, broken: Mapping[str, str], tests: Mapping[str, Sequence[Program]], neighbour: str
) -> list[HistoryCommit]:
    """A commit for each module, those that others import first; the last adds a function to the neighbour."""
    name = package.name
    commits = [
        HistoryCommit(f"Begin {name}", {f"{name}/__init__.py": "", "tests/__init__.py": "", ".gitignore": "*.pyc\n"})
    ]
    for module, text in broken.items():
        programs = tests.get(module, [])
        files = {package.path(module): text, f"docs/{module}.md": pages.page_of(module, package.modules[module])}
        if programs:
            files[f"tests/{pages.test_name(module)}.py"] = pages.test_module(
                package, module, [each.text for each in programs], [each.expected for each in programs]
            )
        if module == neighbour:
            files[package.path(module)] = _shorter(text)
        what = pages.summary(text).rstrip(".")
        subject = f"Add {module}: {what[:1].lower()}{what[1:]}"[:72].rstrip(": ")
        commits.append(HistoryCommit(subject, files))
    commits.append(HistoryCommit("Say in the README what there is", {"README.md": pages.readme(package)}))
    if neighbour:
        last = _definitions(broken[neighbour])[-1]
        subject = f"Add {getattr(last, 'name', '')} to {neighbour}"
        commits.append(HistoryCommit(subject, {package.path(neighbour): broken[neighbour]}))
    return commits


def _shorter(text: str) -> str:
    """A module without its last function."""
    last = _definitions(text)[-1]
    return "\n".join(text.splitlines()[: last.lineno - 1]).rstrip() + "\n"


# the issue


def _issue(
    draft: RepositoryDraft, faults: Sequence[Fault], failing: Mapping[str, Any], tests: Mapping[str, Sequence[Program]],
    neighbour: str,
) -> str:  # fmt: skip
    """What somebody wrote who saw the symptoms and nothing else."""
    package, rng = draft.package, draft.rng
    paragraphs = []
    for fault in faults:
        program = fault.symptom
        label = pages.label_of(package, program.text)
        if draft.size.names_test:
            listed = list(tests[program.module])
            names = pages.test_names(package, [each.text for each in listed])
            case = pages.class_name(program.module)
            test = f"tests.{pages.test_name(program.module)}.{case}.{names[listed.index(program)]}"
            opening = rng.choice(
                ("The test `{}` fails.", "`{}` does not pass any more.", "Please look at `{}`: it fails.")
            )
            paragraphs.append(opening.format(test))
        else:
            paragraphs.append(rng.choice((
                f"`{label}` does not do what its documentation says.", f"I get a wrong result where I use `{label}`.",
                f"Something is wrong with what comes out of `{label}`.",
            )))  # fmt: skip
        paragraphs.append(
            f"I ran\n\n```python\n{package.with_imports(program.text)}\n```\n\n{_came(failing[program.text])}, "
            f"{_expected(program.expected)}."
        )
    if draft.level == len(SIZES) and neighbour:
        paragraphs.append(f"The last commit changed `{package.path(neighbour)}`; perhaps it came with that.")
    if not draft.size.tests_fail:
        paragraphs.append("All tests pass.")
    return "\n\n".join(paragraphs)


def _came(value: Any) -> str:
    if isinstance(value, str) and value.startswith(RAISES):
        return f"and it raised {value.removeprefix(RAISES)}"
    return f"and the last line gave `{shortened(value)}`"


def _expected(value: Any) -> str:
    if isinstance(value, str) and value.startswith(RAISES):
        return f"but it should raise {value.removeprefix(RAISES)}"
    return f"but I expected `{shortened(value)}`"


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:300]} … {text[-80:]}"
