"""The files beside the code: tests, pages of documentation, a README, and the history as git objects."""

from __future__ import annotations

import ast
import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.python_syntax import parse_python
from rlvr.envs.agentic.repositories.package import Package

FIRST_COMMIT: Final = 1_700_000_000  # seconds since 1970
AUTHOR: Final = "R. Marsh <marsh@example.org>"
RAISES: Final = "raises "  # how the value of a program that raises begins; the exception's name follows


class HistoryCommit(NamedTuple):
    """A subject, and the files that it adds or changes."""

    subject: str
    files: Mapping[str, str]


# tests and pages


def label_of(package: Package, program: str) -> str:
    """The name that a program is about: the last method that it calls, or the first definition that it uses."""
    tree = parse_python(program)
    methods = [node.func.attr for node in ast.walk(tree.body[-1]) if isinstance(node, ast.Call)
               and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)]  # fmt: skip
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in package.owners]
    names = names or [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return next((name for name in methods if name not in ("append", "upper", "join")), names[0] if names else "value")


def test_names(package: Package, programs: Sequence[str]) -> list[str]:
    """The names of the tests of these programs, each once."""
    names: list[str] = []
    for program in programs:
        label = label_of(package, program)
        count = sum(name.rpartition("_")[0] == f"test_{label}" for name in names)
        names.append(f"test_{label}_{count + 1}")
    return names


def test_module(package: Package, module: str, programs: Sequence[str], expected: Sequence[Any]) -> str:
    """The text of a module of tests, one for each program."""
    imports = package.imports_for("\n".join(programs))
    lines = [
        "import unittest",
        "",
        *([*imports, ""] if imports else []),
        "",
        f"class {class_name(module)}(unittest.TestCase):",
    ]
    for name, program, value in zip(test_names(package, programs), programs, expected, strict=True):
        body, last = _divided(program)
        lines.append(f"    def {name}(self):")
        if isinstance(value, str) and value.startswith(RAISES):
            inner = [f"            {line}" for line in program.split("\n")]
            lines += [f"        with self.assertRaises({value.removeprefix(RAISES)}):", *inner]
        else:
            lines += [*(f"        {line}" for line in body), f"        self.assertEqual({last}, {value!r})"]
        lines.append("")
    return "\n".join(lines)


def class_name(module: str) -> str:
    """The name of the class of a module's tests."""
    return module.title().replace("_", "").replace(".", "") + "Test"


def test_name(module: str) -> str:
    """The name of the module of a module's tests."""
    return f"test_{module.replace('.', '_')}"


def _divided(program: str) -> tuple[list[str], str]:
    lines = program.split("\n")
    start = parse_python(program).body[-1].lineno - 1
    return lines[:start], "\n".join(lines[start:])


def page_of(module: str, source: str) -> str:
    """The documentation of a module: what its docstrings say of what is public."""
    tree = parse_python(source)
    lines = [f"# {module}", "", ast.get_docstring(tree) or "", ""]
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else []
        for each in (node, *inner):
            if isinstance(each, ast.FunctionDef | ast.ClassDef) and not each.name.startswith("_"):
                prefix = f"{node.name}." if each is not node and isinstance(node, ast.ClassDef) else ""
                title = f"{prefix}{each.name}"
                if isinstance(each, ast.FunctionDef):
                    title += f"({', '.join(argument.arg for argument in each.args.args if argument.arg != 'self')})"
                lines += [f"## `{title}`", "", ast.get_docstring(each) or "", ""]
    return "\n".join(lines)


def readme(package: Package) -> str:
    """The README: the modules with their first lines, and how the tests are run."""
    rows = [
        f"- `{package.path(module)}`: {summary(text)} [More](docs/{module}.md)"
        for module, text in sorted(package.modules.items())
    ]
    return (
        f"# {package.name}\n\n" + "\n".join(rows) + "\n\n## Tests\n\n    python3 -m unittest discover -s tests -t .\n\n"
        "What a function must do stands in its docstring.\n"
    )


def summary(source: str) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(parse_python(source)) or "").split("\n")[0]


# history


def git_folder(
    commits: Sequence[HistoryCommit], others: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, bytes]:
    """The files of a ``.git`` folder with these commits on the branch main, the last of them checked out; each has the
    files ``others``, too, which are no text."""
    objects: dict[str, bytes] = {}

    def write(kind: str, content: bytes) -> bytes:
        data = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.sha1(data, usedforsecurity=False)
        objects[name.hexdigest()] = zlib.compress(data, 1)
        return name.digest()

    files = {path: write("blob", content) for path, content in others.items()}
    parent = ""
    for number, commit in enumerate(commits):
        for path, text in commit.files.items():
            files[path] = write("blob", text.encode())
        tree = _tree(files, write)
        when = f"{AUTHOR} {FIRST_COMMIT + 86_400 * number} +0000"
        lines = [f"tree {tree.hex()}", *([f"parent {parent}"] if parent else []), f"author {when}", f"committer {when}"]
        parent = write("commit", ("\n".join(lines) + f"\n\n{commit.subject}\n").encode()).hex()
    folder = {f".git/objects/{name[:2]}/{name[2:]}": data for name, data in objects.items()}
    return folder | {
        ".git/HEAD": b"ref: refs/heads/main\n",
        ".git/refs/heads/main": f"{parent}\n".encode(),
        ".git/config": b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n",
        ".git/index": _index(files),
    }


def _tree(files: Mapping[str, bytes], write: Any) -> bytes:
    """Write the trees of paths and the names of their blobs; the name of the top one."""
    folders: dict[str, dict[str, bytes]] = {}
    entries: list[tuple[str, bytes, bytes]] = []
    for path, name in files.items():
        head, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(head, {})[rest] = name
        else:
            entries.append((head, b"100644 " + head.encode(), name))
    for head, inner in folders.items():
        entries.append((f"{head}/", b"40000 " + head.encode(), _tree(inner, write)))
    return bytes(write("tree", b"".join(title + b"\0" + name for _, title, name in sorted(entries))))


def _index(files: Mapping[str, bytes]) -> bytes:
    """The index of files in version 2; their times are 0, so that git looks at what they hold."""
    body = b"DIRC" + struct.pack(">II", 2, len(files))
    for path, name in sorted(files.items()):
        entry = struct.pack(">10I", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0) + name
        entry += struct.pack(">H", min(len(path.encode()), 0xFFF)) + path.encode()
        body += entry + b"\0" * (8 - len(entry) % 8)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
