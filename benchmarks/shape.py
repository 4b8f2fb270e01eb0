"""The shape of the code: lengths, import cycles, folders, comments, docstrings, names.

    python benchmarks/shape.py [--before CHECKOUT] [--out benchmarks/results]

Reads the source and runs none of it. ``--before`` names another checkout, whose figures stand beside.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import architecture  # noqa: E402  (the tests read the source with it)

FAMILIES = ("mathematics", "science", "logic", "algorithmic", "puzzles", "games", "worlds", "visual", "agentic")


def comment_share(path: Path) -> tuple[int, int]:
    """Lines with a comment or a docstring, and all lines that are not blank."""
    text = path.read_text(encoding="utf-8")
    marked = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    lines = text.splitlines()
    return sum(bool(lines[number - 1].strip()) for number in marked), sum(bool(line.strip()) for line in lines)


def public_methods(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Methods of public classes whose names do not begin with an underscore."""
    return [
        item
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_")
    ]


def documented_or_inherited(trees: list[ast.Module]) -> float:
    """Share of public methods with a docstring, or that override a method with one, as ``inspect.getdoc`` finds it."""
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        classes.setdefault(node.name, []).append(node)

    def documents(node: ast.ClassDef, method: str) -> bool:
        definitions = [
            item for item in node.body if getattr(item, "name", "") == method and not isinstance(item, ast.ClassDef)
        ]
        if any(ast.get_docstring(item) for item in definitions):
            return True
        bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        return any(documents(above, method) for base in bases for above in classes.get(base, ()) if above is not node)

    methods = [
        documents(node, item.name)
        for node in (node for nodes in classes.values() for node in nodes if not node.name.startswith("_"))
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_")
    ]
    return sum(methods) / len(methods)


def figures(root: Path) -> dict[str, str]:
    """What is measured of a checkout, in words."""
    modules = architecture.modules(root)
    functions = [length for module in modules.values() for _, length in module.functions()]
    lines = [module.lines for module in modules.values()]
    folders = Counter(
        str(module.path.parent.relative_to(root))
        for module in modules.values()
        if module.path.stem != "__init__" and module.path.parent.name not in FAMILIES
    )
    counted = [comment_share(path) for path in (root / "algorithms").rglob("*.py")]
    trees = [module.tree for module in modules.values()]
    methods = {
        room: [method for path in (root / room).rglob("*.py") for method in public_methods(ast.parse(path.read_text()))]
        for room in architecture.ROOMS
    }
    documented = {room: sum(ast.get_docstring(method) is not None for method in methods[room]) for room in methods}
    classes = Counter(name for module in modules.values() for name in module.classes() if not name.startswith("_"))
    ordered = sorted(functions)
    return {
        "files": str(len(modules)),
        "lines": f"{sum(lines):,}",
        "lines of a file: median, longest": f"{statistics.median(lines):.0f}, {max(lines)}",
        "lines of a function: median, 95 %, longest": f"{statistics.median(functions):.0f}, "
        f"{ordered[int(0.95 * len(ordered))]}, {ordered[-1]}",
        "import cycles, lazy imports included": str(
            len(architecture.cycles({name: module.imports for name, module in modules.items()}))
        ),
        "largest folders, families of environments aside": ", ".join(
            f"{folder} {count}" for folder, count in folders.most_common(4)
        ),
        "comment lines of algorithms/": f"{sum(c for c, _ in counted) / sum(n for _, n in counted):.1%}",
        "public methods with a docstring of their own": ", ".join(
            [f"{sum(documented.values()) / sum(map(len, methods.values())):.0%}"]
            + [f"{room} {documented[room] / max(1, len(methods[room])):.0%}" for room in methods]
        ),
        "public methods with a docstring, their own or that of the method they override": (
            f"{documented_or_inherited(trees):.1%}"
        ),
        "public class names that occur twice": str(sum(count > 1 for count in classes.values())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    columns = {"now": figures(ROOT)}
    if options.before:
        columns = {"before": figures(options.before.resolve()), **columns}
    page = "# Shape of the code\n\n`python benchmarks/shape.py`\n\n"
    page += f"| what | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n"
    for what in columns["now"]:
        page += f"| {what} | {' | '.join(column[what] for column in columns.values())} |\n"
    (options.out / "shape.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
