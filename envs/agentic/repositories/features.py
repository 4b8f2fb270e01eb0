"""A repository that lacks a feature: all that falls away with it, what stays, and a specification of what is missing.

A feature is what a package loses with the scenarios that use some of its definitions: these, what is built on them in
other modules, and what nothing else needs. Tests, pages and history are made of what stays.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

from rlvr.envs.agentic.python_syntax import parse_python
from rlvr.envs.agentic.repositories.package import left_with, words_of
from rlvr.envs.agentic.repositories.pages import RAISES
from rlvr.envs.agentic.repositories.repository import (
    DOMAINS,
    DRAWS,
    MAX_HIDDEN,
    SHOWN,
    SUPPORT,
    TRIES,
    PackageDraft,
    Program,
    Repository,
    history,
    is_unfit,
    shortened,
    split_of_seed,
)
from rlvr.envs.agentic.repositories.scenarios import UNENDING, filled, outcomes
from rlvr.envs.core.seeding import stream

HELD_OUT: Final = {"validation": ("caches", "intervals"), "test": ("graphs", "matching", "units")}  # support, as asked
PARTS: Final = {
    split: {*names, *HELD_OUT.get(split, {*SUPPORT} - {name for held in HELD_OUT.values() for name in held})}
    for split, names in DOMAINS.items()
}


class FeatureSize(NamedTuple):
    """How large the features of a level are.

    Attributes:
        least, most: public definitions that are missing; a class counts with its methods.
        modules: that they stand in; at the last level, at least.
        least_lines, most_lines: of the code that is missing.
        examples: of each scenario that are shown; 0 for one of each definition alone.
    """

    least: int
    most: int
    modules: int
    least_lines: int
    most_lines: int
    examples: int


FEATURES: Final = (
    FeatureSize(1, 1, 1, 3, 10, 2),
    FeatureSize(1, 3, 1, 9, 40, 2),
    FeatureSize(3, 8, 1, 20, 80, 1),
    FeatureSize(2, 8, 2, 16, 120, 1),
    FeatureSize(5, 16, 3, 40, 220, 0),
)


class Removal(NamedTuple):
    """What is left of a package's modules, the names that each lost, and the programs that need them.

    ``public`` are the functions, classes and methods among the names that the specification tells of.
    """

    modules: Mapping[str, str]
    missing: Mapping[str, tuple[str, ...]]
    public: tuple[str, ...]
    programs: tuple[Program, ...]


@lru_cache(maxsize=64)
def repository_without_feature(level: int, seed: int) -> Repository:
    """The repository of a seed, which lacks a feature; the same on every machine."""
    split = split_of_seed(seed)
    for attempt in count():
        drawn = _drawn(stream("rlvr/RepoFeature-v0", level, seed, attempt), split, level)
        if drawn is not None:
            return drawn
    raise AssertionError("unreachable")


def _drawn(rng: random.Random, split: str, level: int) -> Repository | None:
    draft, size = PackageDraft(rng, split, level), FEATURES[level - 1]
    modules = draft.package.modules
    uses = _uses(modules)
    needs = {program.text: _closure(words_of(program.text), uses) for program in draft.programs}
    candidates = [
        name.rpartition(".")[2]
        for module, text in modules.items()
        if draft.package.parts[module] in PARTS[split]
        for name, node in definitions(text).items()
        if not isinstance(node, ast.Assign) and not name.rpartition(".")[2].startswith("_")
    ]
    rng.shuffle(candidates)
    roots: list[str] = []
    for root in candidates[:TRIES]:
        removal = _removal(draft, needs, [*roots, root])
        lines = _lines(modules) - _lines(removal.modules)
        public, parts = len(removal.public), {draft.package.parts[module] for module in removal.missing}
        if not parts <= PARTS[split] or public > size.most or lines > size.most_lines:
            continue
        if level < len(FEATURES) and len(removal.missing) != size.modules:
            continue
        if public >= size.least and len(removal.missing) >= size.modules and lines >= size.least_lines:
            drawn = _judged(draft, removal, level)
            if drawn is not None:
                return drawn
        elif level == len(FEATURES) and len(roots) < 2 and len(removal.missing) > 1:
            roots.append(root)
    return None


def _lines(modules: Mapping[str, str]) -> int:
    return sum(1 for text in modules.values() for line in text.split("\n") if line.strip())


# what falls away


def definitions(text: str) -> dict[str, ast.stmt]:
    """The functions, classes, methods ("Name.method") and constants of a module; those of Python's own names not."""
    named: dict[str, ast.stmt] = {}
    for node in parse_python(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = node
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            named[node.name] = node
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("__"):
                    named[f"{node.name}.{each.name}"] = each
    return named


def _uses(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The names that the definitions of a name use; a class uses what its methods of Python's own names do."""
    uses: dict[str, set[str]] = {}
    for text in modules.values():
        for name, node in definitions(text).items():
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            own = [*node.bases] if isinstance(node, ast.ClassDef) else []
            for each in (*inner, *own):
                if not isinstance(node, ast.ClassDef) or f"{name}.{getattr(each, 'name', '')}" not in definitions(text):
                    uses.setdefault(name.rpartition(".")[2], set()).update(words_of(each))
    return uses


def _closure(words: set[str], uses: Mapping[str, set[str]]) -> frozenset[str]:
    """The words, and all names that definitions of theirs use in turn."""
    reached, waiting = set(words), list(words)
    while waiting:
        for word in uses.get(waiting.pop(), ()):
            if word not in reached:
                reached.add(word)
                waiting.append(word)
    return frozenset(reached)


def _removal(draft: PackageDraft, needs: Mapping[str, frozenset[str]], roots: Sequence[str]) -> Removal:
    """What is left with the scenarios that need none of the roots."""
    lost = {
        (program.module, program.scenario) for program in draft.programs if not needs[program.text].isdisjoint(roots)
    }
    kept: set[str] = set()
    for program in draft.programs:
        if (program.module, program.scenario) not in lost:
            kept |= needs[program.text]
    left = left_with(draft.package.modules, kept)
    missing, public = dict[str, tuple[str, ...]](), list[str]()
    for module, text in draft.package.modules.items():
        before, still = definitions(text), definitions(left[module])
        names = tuple(name for name in before if name not in still)
        functions = [name for name in names if not isinstance(before[name], ast.Assign)]
        public += [name for name in functions if not name.rpartition(".")[2].startswith("_")]
        if names:
            missing[module] = names
        if not still:
            del left[module]
    programs = tuple(each for each in draft.programs if (each.module, each.scenario) in lost)
    return Removal(left, missing, tuple(public), programs)


# the repository


def _judged(draft: PackageDraft, removal: Removal, level: int) -> Repository | None:
    """The repository of a removal; None unless all tests of the feature fail, and no constant or table passes them."""
    package, rng = draft.package, draft.rng
    lost = {(each.module, each.scenario) for each in removal.programs}
    rest = [each for each in draft.programs if (each.module, each.scenario) not in lost]
    asked = [*removal.programs, *_more(draft, removal)]
    values = outcomes(package.name, removal.modules, [package.with_imports(each.text) for each in (*rest, *asked)])
    for index, (each, value) in enumerate(zip((*rest, *asked), values, strict=True)):
        if (repr(value) == repr(each.expected)) != (index < len(rest)) or value == UNENDING:
            return None
    examples = _examples(removal, package.modules, FEATURES[level - 1].examples)
    text = _specification(draft, removal, examples)
    hidden = [each for each in asked if each.draw >= SHOWN and _is_specified(each, text)]
    hidden = sorted(hidden, key=lambda each: each.draw)[: 2 * MAX_HIDDEN // 3]
    good = [each for each in rest if each.draw >= SHOWN]
    good = rng.sample(good, min(len(good), MAX_HIDDEN - len(hidden)))
    shown = {repr(each.expected) for each in examples}
    new = {repr(each.expected) for each in hidden} - shown
    if len(hidden) < 4 or len(new) < 2 or len(good) < 3 or not examples:
        return None
    tests: dict[str, list[Program]] = {}
    for each in rest:
        if each.draw < SHOWN:
            tests.setdefault(each.module, []).append(each)
    left = package._replace(modules=removal.modules)
    commits = history(left, removal.modules, tests, "")
    files: dict[str, str] = {}
    for commit in commits:
        files |= commit.files
    rows = tuple((package.with_imports(each.text), each.expected) for each in (*hidden, *good))
    return Repository(package, files, (), text, rows, len(hidden), tuple(commits), dict(removal.missing))


def _more(draft: PackageDraft, removal: Removal) -> list[Program]:
    """Further draws of the feature's scenarios."""
    drawn: dict[str, Program] = {each.text: each for each in removal.programs}
    for each in removal.programs:
        text = filled(draft.rng, draft.package.scenarios[each.module][each.scenario])
        drawn.setdefault(text, each._replace(text=text, draw=DRAWS))
    more = list(drawn.values())[len(removal.programs) :]
    texts = [draft.package.with_imports(each.text) for each in more]
    values = outcomes(draft.package.name, draft.package.modules, texts)
    return [each._replace(expected=value) for each, value in zip(more, values, strict=True) if not is_unfit(value)]


def _is_specified(program: Program, text: str) -> bool:
    """Whether the specification names what a program raises, if it raises anything."""
    value = program.expected
    return not (isinstance(value, str) and value.startswith(RAISES)) or value.removeprefix(RAISES) in text


# the specification


def _examples(removal: Removal, modules: Mapping[str, str], each_scenario: int) -> list[Program]:
    """Programs of the first draws: so many of each scenario, or one for each definition that no other shows."""
    first = [program for program in removal.programs if program.draw < max(1, each_scenario)]
    if each_scenario:
        return first
    chosen, shown = list[Program](), set[str]()
    for name in removal.public:
        word = name.rpartition(".")[2]
        if word not in shown:
            fit = [program for program in first if word in words_of(program.text)]
            chosen += [program for program in fit[:1] if program not in chosen]
            shown |= {word for program in fit[:1] for word in words_of(program.text)}
    return chosen


def _specification(draft: PackageDraft, removal: Removal, examples: Sequence[Program]) -> str:
    """What somebody wrote who saw the feature at work: signatures, rules, examples with values and errors."""
    package = draft.package
    outer = {*removal.public}
    names = [f"`{name}`" for name in removal.public if name.partition(".")[0] not in outer - {name}]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    opening = draft.rng.choice(
        ("Please build {} into `{}`.", "We need {} in `{}`, and it is not there yet.", "Please add {} to `{}`.")
        if len(names) == 1
        else ("Please build {} into `{}`.", "We need {} in `{}`; none of them is there yet.", "Please add {} to `{}`.")
    )
    paragraphs = [opening.format(listed, package.name)]
    for module, missing in removal.missing.items():
        stubs = stubs_of(package.modules[module], set(missing))
        if stubs:
            new = "" if module in removal.modules else ", a new module"
            paragraphs.append(f"In `{package.name}/{module}.py`{new}:\n\n```python\n{stubs}\n```")
    shown = []
    for program in examples:
        value = program.expected
        written = value if isinstance(value, str) and value.startswith(RAISES) else shortened(value)
        shown.append(f"{program.text}\n# {written}")
    block = package.with_imports("\n\n".join(shown))
    paragraphs.append(f"What it gives, for example:\n\n```python\n{block}\n```")
    paragraphs.append("What is there already must go on working as it does.")
    return "\n\n".join(paragraphs)


def stubs_of(text: str, missing: set[str]) -> str:
    """The constants, and the signatures and docstrings of what is public, of a module's missing definitions."""
    return "\n\n".join(ast.unparse(stub) for stub in _stubs(text, missing))


def _stubs(text: str, missing: set[str]) -> Iterator[ast.stmt]:
    for name, node in definitions(text).items():
        if isinstance(node, ast.ClassDef):
            stub = copy.copy(node)
            if name in missing:
                stub.body = [_stub(each) for each in node.body if not _is_private(each)]
            else:
                stub.body = [_stub(each) for each in node.body
                             if f"{name}.{getattr(each, 'name', '')}" in missing and not _is_private(each)]  # fmt: skip
            if stub.body:
                yield stub
        elif name in missing and "." not in name and not _is_private(node):
            yield _stub(node)


def _is_private(node: ast.stmt) -> bool:
    name = getattr(node, "name", "")
    return name.startswith("_") and not name.endswith("__")


def _stub(node: ast.stmt) -> ast.stmt:
    """A function with its docstring alone; anything else as it is."""
    if not isinstance(node, ast.FunctionDef):
        return node
    stub = copy.copy(node)
    stub.body = node.body[:1] if ast.get_docstring(node) else [ast.Expr(ast.Constant(...))]
    return stub
