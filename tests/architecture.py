"""Reading the project's own source: its modules, functions and imports, for the tests that hold it to its plan."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("envs", "agents", "algorithms", "adapters")


@dataclass
class Module:
    """One source file: its dotted name, its tree, and every module it imports, wherever the import stands."""

    name: str
    path: Path
    tree: ast.Module
    imports: set[str] = field(default_factory=set)

    @property
    def lines(self) -> int:
        return len(self.path.read_text(encoding="utf-8").splitlines())

    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function's name and length in lines, its docstring and decorators included."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                yield f"{self.name}.{node.name}", (node.end_lineno or first) - first + 1

    def classes(self) -> list[str]:
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Every module of the package, by the name it is imported by; the links in src/ are not followed."""
    source = root / "src" / "rlvr"
    places = [(source, [*source.glob("*.py"), *source.glob("cli/*.py")])]
    places += [(root, [*(root / room).rglob("*.py")]) for room in ROOMS]
    files = {}
    for place, paths in places:
        files |= {".".join(("rlvr", *path.relative_to(place).with_suffix("").parts)): path for path in paths}
    found = {}
    for name, path in sorted(files.items()):
        name = name.removesuffix(".__init__")
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8"), str(path)))
    for module in found.values():
        module.imports = set(imported(module, found))
    return found


def imported(module: Module, known: dict[str, Module]) -> Iterator[str]:
    """The modules that one imports: at its top, inside functions, and for the type checker alone."""
    package = module.name if module.path.stem == "__init__" else module.name.rpartition(".")[0]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in known else base


def top_level_imports(module: Module) -> set[str]:
    """Heads of what is imported when the module is, leaving out what only the type checker sees."""
    heads = set()
    waiting: list[ast.stmt] = list(module.tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            heads |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            heads.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return heads


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach one another (Tarjan's strongly connected components of two or more)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1 or name in graph.get(name, ()):
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return found
