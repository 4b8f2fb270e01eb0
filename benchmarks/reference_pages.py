"""Writes docs/reference/ from the parsers, the config's fields and the docstrings; `make docs` calls it.

    python benchmarks/reference_pages.py [--check]

The pages of the packages list the public names with a sentence each. On the site mkdocstrings puts the signatures and
the whole docstrings there. One more page lists the names of modules that other pages of the docs import.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
MADE = "Made by `python benchmarks/reference_pages.py`.\n"
BLOCK = re.compile(r"^```(?:python|py)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PACKAGES = {
    "rlvr": "The package",
    "rlvr.envs": "Environments",
    "rlvr.envs.rewards": "Rewards",
    "rlvr.envs.tools": "Tools",
    "rlvr.envs.wrappers": "Wrappers",
    "rlvr.envs.vector": "Vector environments",
    "rlvr.envs.curriculum": "Curriculum",
    "rlvr.envs.sandbox": "Sandbox",
    "rlvr.envs.validation": "Validation",
    "rlvr.agents": "Agents",
    "rlvr.agents.evaluation": "Evaluation",
    "rlvr.algorithms": "Algorithms",
    "rlvr.adapters": "Adapters",
}
# Of modules, beside those that the pages of the docs import.
BESIDE = (
    "rlvr.agents.models.transformers.TransformersAgent",
    "rlvr.adapters.testing.conform",
)
PROMISE = """
What these pages list is public: the names of the packages, and [those of modules](modules.md) that other pages import.
What else can be imported is internal, and changes without a line in the changelog.
"""
VALUES = {  # what has no docstring of its own
    "FAMILIES": "The families of environments, each a module.",
    "TASKS_VERSION": "The version of all tasks: it rises when the seeds of every environment give other tasks.",
    "PRESETS": "The policy losses by name, each a `Preset`.",
    "CHECKS": "The checks by id, each a `Check`.",
    "ALGORITHMS": "All algorithms by name: `PRESETS` and the objectives.",
    "ADVANTAGES": "The estimators of advantages by name.",
    "AGGREGATIONS": "The aggregations of a loss by name.",
    "CLIP_RULES": "The clip rules by name.",
    "FILTERS": "The filters of a step's episodes by name.",
    "GRADERS": "The graders by name.",
    "KITS": "The tools by name, each a function that makes its kit.",
    "STYLES": "The styles in which a call may be written.",
    "LAYOUTS": "The layouts of a prompt by name.",
    "Tier": "How programs are kept in: T3, T2, T1 or T0.",
}


def cell(text: str) -> str:
    """Text in a cell of a table, in one line."""
    return " ".join(text.split()).replace("|", "\\|")


def sentence(docstring: str | None) -> str:
    """The first sentence of a docstring."""
    return re.split(r"(?<=\.)\s", " ".join((docstring or "").split()), maxsplit=1)[0].replace("``", "`")


def found(path: str) -> tuple[str, Any]:
    """Where a public name is defined, and what it is."""
    module, _, name = path.rpartition(".")
    item = getattr(importlib.import_module(module), name)
    if inspect.isclass(item) or inspect.isfunction(item):
        return f"{item.__module__}.{item.__qualname__}", item
    return path, item


def package_page(package: str) -> str:
    """The page of one package: a table of its names, then each of them."""
    module = importlib.import_module(package)
    about = (inspect.getdoc(module) or "").partition(">>>")[0].rstrip()
    head = f"# {PACKAGES[package]}: `{package}`\n\n{MADE}\n{about}\n{PROMISE if package == 'rlvr' else ''}"
    table, blocks = "", ""
    for name in module.__all__:
        home, item = found(f"{package}.{name}")
        is_value = not (inspect.isclass(item) or inspect.isfunction(item))
        what = VALUES[name] if is_value else sentence(inspect.getdoc(item))
        assert what, f"{package}.{name} has no docstring"
        table += f"| `{name}` | {cell(what)} |\n"
        blocks += "" if is_value else f"\n::: {home}\n"
    return f"{head}\n| name | what |\n|---|---|\n{table}{blocks}"


def modules_page() -> str:
    """The page of the names of modules."""
    packaged = {f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__}
    pages = imported_by_pages()
    table = ""
    for path in sorted({*BESIDE, *pages} - packaged):
        page = f"[{pages[path]}](../{pages[path]})" if path in pages else ""
        table += f"| `{path}` | {cell(stated(path))} | {page} |\n"
    blocks = "".join(f"\n::: {path}\n" for path in BESIDE)
    return f"# Names of modules\n\n{MADE}\n| name | what | page |\n|---|---|---|\n{table}{blocks}"


def imported_by_pages() -> dict[str, str]:
    """The names that Python blocks of the docs import from rlvr, each with the first page that does."""
    names: dict[str, str] = {}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.parent == FOLDER:
            continue
        for block in re.findall(
            r"^```pyt?h?o?n?\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "rlvr":
                    for each in node.names:
                        names.setdefault(f"{node.module}.{each.name}", str(page.relative_to(ROOT / "docs")))
    return names


def stated(path: str) -> str:
    """The first sentence of the docstring of a name of a module, which may need what is not installed; else nothing."""
    module, _, name = path.rpartition(".")
    file = ROOT / "src" / Path(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return re.split(r"(?<=\.)\s", " ".join((ast.get_docstring(node) or "").split()), maxsplit=1)[0].replace(
                "``", "`"
            )
    return ""


def options_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    """(how it is written, what it means, its default) of what a command takes."""
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices is not None else ""
        value = action.metavar or choices or action.dest.upper()
        value = "" if action.nargs == 0 else f" {' '.join(value) if isinstance(value, tuple) else value}"
        written = ", ".join(action.option_strings) + value if action.option_strings else value.strip()
        default = "" if action.default in (None, False, "", []) else str(action.default)
        default = "" if action.default == argparse.SUPPRESS or action.nargs == 0 else default
        yield written, (action.help or "").replace("%%", "%"), default


def command_page() -> str:
    """The page of the command line."""
    from rlvr.cli import _parser

    (commands,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    helps = {each.dest: each.help or "" for each in commands._choices_actions}
    page = f"# Command line\n\n{MADE}\n`rlvr COMMAND --help` says the same. Each command takes `--traceback`.\n"
    for name, parser in commands.choices.items():
        words = helps[name].replace("%%", "%")
        page += f"\n## rlvr {name}\n\n{words[:1].upper()}{words[1:]}.\n"
        rows = list(options_of(parser))
        if name == "train":
            page += "\nIts fields, as flags or in a YAML file, have [a page of their own](config.md).\n"
        if rows:
            page += "\n| argument | meaning | default |\n|---|---|---|\n"
            page += "".join(f"| `{cell(w)}` | {cell(m)} | {f'`{d}`' if d else ''} |\n" for w, m, d in rows)
    return page


def config_page() -> str:
    """The page of the fields of a training config."""
    from rlvr.algorithms.config import TrainConfig

    page = f"# Fields of a training config\n\n{MADE}\n"
    page += "A field is a line of the YAML file (`learner: {lr: 1.0e-4}`) or a flag (`--learner.lr 1e-4`); flags win.\n"
    top_level = {name: field for name, field in TrainConfig.model_fields.items() if section_of(field) is None}
    sections = {name: section_of(field) for name, field in TrainConfig.model_fields.items()}
    page += fields_table("", top_level)
    for name, section in sections.items():
        if section is not None:
            page += f"\n## {name}\n\n{' '.join((vars(section)['__doc__'] or '').split())}\n"
            page += fields_table(f"{name}.", section.model_fields)
    return page


def section_of(field: Any) -> type[BaseModel] | None:
    """The class of a field that is a section of the config."""
    kinds = getattr(field.annotation, "__args__", ()) or (field.annotation,)
    return next((kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseModel)), None)


def fields_table(prefix: str, fields: dict[str, Any]) -> str:
    table = "\n| field | meaning | type | default |\n|---|---|---|---|\n"
    for name, field in fields.items():
        kind = field.annotation.__name__ if inspect.isclass(field.annotation) else str(field.annotation)
        kind = re.sub(r"\b(typing|pathlib|collections\.abc|rlvr(\.\w+)+)\.", "", kind)
        value = field.get_default(call_default_factory=True)
        shown = "" if field.is_required() or str(value) == "" else f"`{value}`"
        table += f"| `{prefix}{name}` | {cell(field.description or '')} | `{cell(kind)}` | {cell(shown)} |\n"
    return table


def pages() -> dict[Path, str]:
    contents = {f"{package.rpartition('.')[2]}.md": package_page(package) for package in PACKAGES}
    contents |= {"modules.md": modules_page(), "cli.md": command_page(), "config.md": config_page()}
    return {FOLDER / name: text for name, text in contents.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that are not up to date")
    check = parser.parse_args().check
    contents = pages()
    stale = [path for path, text in contents.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date; run: make docs", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(contents[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
