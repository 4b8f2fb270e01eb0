"""Packages composed of the parts: a subset of their features, under other names, with the imports between them.

A part is a module of one of ``FOLDERS``: code that stands in repositories, then ``MODULE`` and ``ALIASES``, names that
it and its definitions may have, and ``SCENARIOS``, texts of programs whose last line is a value (see ``scenarios``).
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module, resources
from typing import Final, NamedTuple

from rlvr.envs.agentic.python_syntax import parse_python

FOLDERS: Final = tuple(f"rlvr.envs.agentic.repository_{name}" for name in ("domains", "numbers", "texts"))
_IMPORT: Final = re.compile(r"^from rlvr\.envs\.agentic\.repository_\w+\.(\w+) import (.+)$", re.MULTILINE)
_DOCSTRING: Final = re.compile(r'(""".*?""")', re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class ModulePart(NamedTuple):
    """A part's code, the parts that it imports, other names of the module and of its definitions, and scenarios."""

    name: str
    source: str
    imports: tuple[str, ...]
    titles: tuple[str, ...]
    aliases: Mapping[str, tuple[str, ...]]
    scenarios: tuple[str, ...]


class Package(NamedTuple):
    """A composed package.

    Attributes:
        name: of the package.
        modules: each module's text by its name, those that others import first.
        imports: the modules that each one imports.
        scenarios: the scenarios of each module, under the package's names.
        owners: the module that defines a name.
        parts: the part that a module is made of.
    """

    name: str
    modules: Mapping[str, str]
    imports: Mapping[str, tuple[str, ...]]
    scenarios: Mapping[str, tuple[str, ...]]
    owners: Mapping[str, str]
    parts: Mapping[str, str]

    def distances(self, module: str) -> dict[str, int]:
        """The modules that a module stands on, itself among them, and over how many imports at least."""
        distances, frontier = {module: 0}, [module]
        for name in frontier:
            for other in self.imports[name]:
                if other not in distances:
                    distances[other] = distances[name] + 1
                    frontier.append(other)
        return distances

    def path(self, module: str) -> str:
        """The path of a module; of one in an inner package, whose name has dots, too."""
        return f"{self.name}/{module.replace('.', '/')}.py"

    def imports_for(self, program: str) -> list[str]:
        """The imports of the package's names in a program; none for one that has its own."""
        wanted: dict[str, set[str]] = {}
        for word in _WORD.findall(program):
            if word in self.owners:
                wanted.setdefault(self.owners[word], set()).add(word)
        return [
            f"from {self.name}.{module} import {', '.join(sorted(names))}" for module, names in sorted(wanted.items())
        ]

    def with_imports(self, program: str) -> str:
        """A program below the imports of the package's names in it."""
        lines = self.imports_for(program)
        return "\n".join([*lines, "", program]) if lines else program


@lru_cache(maxsize=256)
def part(name: str) -> ModulePart:
    """A part by the name of its module."""
    folder = next(each for each in FOLDERS if resources.files(each).joinpath(f"{name}.py").is_file())
    text = resources.files(folder).joinpath(f"{name}.py").read_text(encoding="utf-8")
    module = import_module(f"{folder}.{name}")
    source = text[: text.index("\nMODULE = ")].rstrip() + "\n"
    imports = tuple(match[1] for match in _IMPORT.finditer(source))
    return ModulePart(name, source, imports, module.MODULE, module.ALIASES, module.SCENARIOS)


def closure(names: Iterable[str]) -> list[str]:
    """The parts and all that they stand on, those that others import first."""
    order: list[str] = []

    def add(name: str) -> None:
        if name not in order:
            for other in part(name).imports:
                add(other)
            order.append(name)

    for name in names:
        add(name)
    return order


def composed(rng: random.Random, title: str, names: Sequence[str], share: float) -> Package:
    """A package of parts and what they stand on, with a share of their scenarios and the code that these need."""
    parts = [part(name) for name in closure(names)]
    chosen = {}
    for each in parts:
        count = max(3, round(share * len(each.scenarios)))
        chosen[each.name] = rng.sample(each.scenarios, min(count, len(each.scenarios)))
    needed = {word for texts in chosen.values() for text in texts for word in _WORD.findall(text)}
    sources = left_with({each.name: each.source for each in parts}, needed)
    names_of = {each.name: rng.choice(each.titles) for each in parts}
    renamed = {old: rng.choice((old, *other)) for each in parts for old, other in each.aliases.items()}

    def rename(text: str) -> str:
        """Of docstrings, only names that are no English words: "without" may be one, and what is nearest, too."""
        pieces = _DOCSTRING.split(text)
        names = [{old: new for old, new in renamed.items() if "_" in old or old.istitle()}, renamed]
        return "".join(
            _WORD.sub(lambda match, index=index: names[index % 2 == 0].get(match[0], match[0]), piece)
            for index, piece in enumerate(pieces)
        )

    modules, imports, owners = {}, {}, dict[str, str]()
    for each in parts:
        module, source = names_of[each.name], sources[each.name]
        imports[module] = tuple(names_of[match[1]] for match in _IMPORT.finditer(source))
        source = _IMPORT.sub(lambda match: f"from {title}.{names_of[match[1]]} import {match[2]}", source)
        modules[module] = rename(source)
        owners |= dict.fromkeys(_defined(modules[module]), module)
    scenarios = {names_of[name]: tuple(map(rename, texts)) for name, texts in chosen.items()}
    return Package(title, modules, imports, scenarios, owners, {names_of[each.name]: each.name for each in parts})


def _defined(source: str) -> Iterator[str]:
    for node in parse_python(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


# leaving out what no scenario needs


def left_with(sources: Mapping[str, str], needed: set[str]) -> dict[str, str]:
    """The sources without the definitions whose names are not used, by the scenarios or by what is kept."""
    while True:
        kept = {name: _kept(source, needed) for name, source in sources.items()}
        words = {word for text in kept.values() for word in _used(text)}
        if words <= needed:
            return kept
        needed = needed | words


@lru_cache(maxsize=4096)
def _used(source: str) -> frozenset[str]:
    return frozenset(words_of(parse_python(source)))


def words_of(code: str | ast.AST) -> set[str]:
    """The words of a program, or the names and attributes of a tree."""
    if isinstance(code, str):
        return set(_WORD.findall(code))
    nodes = list(ast.walk(code))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _kept(source: str, needed: set[str]) -> str:
    return _kept_of(source, frozenset(needed.intersection(_WORD.findall(source))))


@lru_cache(maxsize=4096)
def _kept_of(source: str, needed: frozenset[str]) -> str:
    lines = source.splitlines()
    tree = parse_python(source)
    text = "\n".join(_body(lines, tree.body, 0, needed)).rstrip() + "\n"
    return _without_unused_imports(text)


def _body(lines: list[str], nodes: Sequence[ast.stmt], start: int, needed: frozenset[str]) -> Iterator[str]:
    for node in nodes:
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef) and _wanted(node, needed):
            yield from lines[start : node.body[0].lineno - 1]
            yield from _body(lines, node.body, node.body[0].lineno - 1, needed)
        elif _wanted(node, needed):
            yield from lines[start:end]
        start = end


def _wanted(node: ast.stmt, needed: frozenset[str]) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in needed or node.name.startswith("__")
    if isinstance(node, ast.ClassDef):
        return node.name in needed
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id in needed
    return True


def _without_unused_imports(text: str) -> str:
    used, lines = _used(text), []
    for line in text.splitlines():
        match = re.fullmatch(r"from (\S+) import (.+)", line)
        if match:
            names = [name for name in match[2].split(", ") if name in used]
            if names:
                lines.append(f"from {match[1]} import {', '.join(names)}")
        else:
            lines.append(line)
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).rstrip() + "\n"
