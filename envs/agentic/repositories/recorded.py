"""Programs for installed modules: the examples of their docstrings, varied, and what the modules give for them.

Everything runs in the sandbox, faulty modules too. A program is kept if its value is plain data, the same in the other
order and with other hashes, and asked of no clock.
"""

from __future__ import annotations

import ast
import doctest
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.python_syntax import parse_python
from rlvr.envs.agentic.repositories.distributions import distribution, imports
from rlvr.envs.agentic.repositories.pages import RAISES
from rlvr.envs.agentic.repositories.scenarios import UNENDING
from rlvr.envs.core.seeding import stream
from rlvr.envs.sandbox import Limits, shared
from rlvr.envs.sandbox.inside import wire

FUEL: Final = 60_000  # lines of the package that a program may run
MAX_EXAMPLES: Final = 50  # of a part
DRAWS: Final = 6  # of an example: as it stands, and with other literals
MIN_PROGRAMS: Final = 20
MAX_VALUE: Final = 2_000  # characters
MAX_NUMBER: Final = 10_000  # in a program: larger ones often count rounds inside of a single call, which use no fuel
COPIED: Final = 0.2  # share of a module's lines in a file that programs can read, from which on it is a copy
_LINE: Final = 30  # characters from which on a line tells modules apart
_SAMPLE: Final = 40  # lines of a module that are looked for
_ERRORS: Final = tuple(f"{RAISES}{name}" for name in ("ValueError", "KeyError", "IndexError", "ZeroDivisionError"))
_LIMITS: Final = Limits(seconds=20.0, output_bytes=16 << 20, memory_mb=1024)

_RUNNER: Final = """
import ast, importlib, io, json, os, sys, types
job = json.load(sys.stdin)
printed, sys.stdout = sys.stdout, io.StringIO()
wire = types.ModuleType("wire")
exec(job["wire"], vars(wire))
here = os.getcwd() + "/"
sys.path.insert(0, os.getcwd())
class OutOfFuel(BaseException):
    pass
def depth(frame):
    count = -1
    while frame is not None:
        count += frame.f_code.co_filename.startswith(here)
        frame = frame.f_back
    return count
def run(program):
    left, clock, reached = job["fuel"], False, {}
    def enter(frame, event, arg):
        name = frame.f_code.co_filename
        if not name.startswith(here):
            return None
        deep = depth(frame) if job["record"] else 0
        lines = reached.setdefault(name[len(here):], {})
        def step(frame, event, arg):
            nonlocal left
            if event == "line":
                left -= 1
                if left < 0:
                    raise OutOfFuel
                if job["record"]:
                    lines[frame.f_lineno] = min(lines.get(frame.f_lineno, deep), deep)
            return step
        return step
    def watch(frame, event, arg):
        nonlocal clock
        if event == "c_call":
            asked = getattr(arg, "__name__", "") in ("now", "utcnow", "today", "urandom", "getpid", "getrandbits")
            clock = clock or asked or getattr(arg, "__module__", "") == "time"
    scope = {"__name__": "__main__"}
    try:
        tree = ast.parse(program)
        last = compile(ast.Expression(tree.body.pop().value), "program", "eval")
        body = compile(tree, "program", "exec")
        sys.settrace(enter)
        sys.setprofile(watch if job["record"] else None)
        try:
            exec(body, scope)
            value = eval(last, scope)
            text = repr(value)
        finally:
            sys.settrace(None)
            sys.setprofile(None)
        wire.encode(value)
        if repr(ast.literal_eval(text)) != text or " at 0x" in text:
            return "raises NotPlain", None, {}
    except OutOfFuel:
        return "does not end", None, {}
    except (wire.NotPlain, SyntaxError) as error:
        return "raises NotPlain", None, {}
    except Exception as error:
        return ("raises " + type(error).__name__ if not clock else "raises NotPlain"), None, reached
    return ("plain" if not clock else "raises NotPlain"), text, reached
for name in job["modules"]:
    try:
        importlib.import_module(name)
    except Exception:
        pass
rows = [run(program) for program in job["programs"]]
sys.stdout = printed
print(json.dumps([[word, text, reached if job["record"] else {}] for word, text, reached in rows]))
"""
# programs are started with hashes that are fixed: only an interpreter of its own has others
_OTHER_HASHES: Final = """
import os, sys
os.environ["PYTHONHASHSEED"] = "11"
os.execv(sys.executable, [sys.executable, "-s", "-S", "-B", "-c", {runner!r}])
"""
_FINDER: Final = """
import hashlib, json, os, sys, zipfile
wanted = {}
for module, lines in json.load(sys.stdin).items():
    for line in lines:
        wanted.setdefault(line, set()).add(module)
best, seen = {}, set()
def compare(data):
    hits = {}
    for line in set(data.split(b"\\n")):
        line = line.strip()
        if len(line) >= LINE:
            for module in wanted.get(hashlib.blake2b(line, digest_size=8).hexdigest(), ()):
                hits[module] = hits.get(module, 0) + 1
    for module, count in hits.items():
        best[module] = max(best.get(module, 0), count)
roots = ["/", "/usr", "/lib", "/lib64", "/opt", "/nix/store", "/gnu/store", sys.base_prefix, sys.prefix, *sys.path]
os.chdir("/")
for root in map(os.path.realpath, filter(None, roots)):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys", "/dev")]
        if folder in seen:
            folders[:] = []
            continue
        seen.add(folder)
        for name in names:
            path = os.path.join(folder, name)
            try:
                if name.endswith((".py", ".txt", ".orig")):
                    with open(path, "rb") as file:
                        compare(file.read(1 << 22))
                elif name.endswith((".whl", ".zip", ".egg")):
                    with zipfile.ZipFile(path) as archive:
                        for inner in archive.namelist():
                            if inner.endswith(".py"):
                                compare(archive.read(inner))
            except (OSError, ValueError, RuntimeError, zipfile.BadZipFile):
                continue
print(json.dumps(best))
"""


_copied: dict[str, frozenset[str]] = {}


class Recording(NamedTuple):
    """What a program gave: plain data, or ``raises …`` or ``UNENDING``; and the least depth of calls of each line."""

    value: Any
    reached: Mapping[str, Mapping[str, int]]


class Material(NamedTuple):
    """A part of a distribution that stands alone, and its programs.

    Attributes:
        sources: the modules' texts by dotted names.
        edges: the modules of the part that each one imports.
        programs: module, number of the example, draw, text.
        recordings: what each program's text gives.
        mendable: the modules of which the sandbox can read no copy.
    """

    sources: Mapping[str, str]
    edges: Mapping[str, tuple[str, ...]]
    programs: tuple[tuple[str, int, int, str], ...]
    recordings: Mapping[str, Recording]
    mendable: frozenset[str]


def path_of(module: str) -> str:
    """The path of a dotted name."""
    return f"{module.replace('.', '/')}.py"


def run_programs(
    sources: Mapping[str, str], programs: Sequence[str], *, record: bool = False, other_hashes: bool = False
) -> list[Recording] | None:
    """What programs give with these modules; None where they end the process, or take too much of it.

    Raises:
        SandboxError: the sandbox failed.
    """
    job = {
        "wire": Path(wire.__file__).read_text(encoding="utf-8"), "fuel": FUEL, "record": record,
        "modules": [name.removesuffix(".__init__") for name in sources], "programs": list(programs),
    }  # fmt: skip
    code = _OTHER_HASHES.format(runner=_RUNNER) if other_hashes else _RUNNER
    files: dict[str, str | bytes] = {path_of(module): text for module, text in sources.items()}
    result = shared().run_python(code, json.dumps(job), files, _LIMITS)
    if not result.ok:
        return None
    try:
        rows = json.loads(result.stdout)
        return [Recording(ast.literal_eval(text) if word == "plain" else word, reached) for word, text, reached in rows]
    except (ValueError, TypeError, SyntaxError):  # a faulty module wrote where the values are written
        return None


def copied(name: str) -> frozenset[str]:
    """The modules of a distribution of which a program in the sandbox can read a copy, or much of one."""
    find_copies((name,))
    return _copied[name]


def find_copies(names: Sequence[str]) -> None:
    """Search the sandbox once for copies of the modules of distributions.

    Raises:
        ValueError: the search does not end.
        SandboxError: the sandbox failed.
    """
    wanted = [name for name in names if name not in _copied]
    samples = {}
    for module, text in ((module, text) for name in wanted for module, text in distribution(name).sources.items()):
        lines = sorted({line.strip() for line in text.split("\n")})
        long = [line.encode() for line in lines if len(line.encode()) >= _LINE and not line.startswith("#")]
        samples[module] = [_digest(line) for line in long[:: max(1, len(long) // _SAMPLE)]]
    if not wanted:
        return
    limits = replace(_LIMITS, seconds=90.0)  # it reads from the disk
    result = shared().run_python(f"LINE = {_LINE}\n{_FINDER}", json.dumps(samples), {}, limits)
    if not result.ok:
        raise ValueError(f"the search of the sandbox for copies of {', '.join(wanted)} ended with {result.status}")
    hits = json.loads(result.stdout)
    for name in wanted:
        modules = distribution(name).sources
        _copied[name] = frozenset(each for each in modules if hits.get(each, 0) > COPIED * len(samples[each]))


def _digest(line: bytes) -> str:
    return blake2b(line, digest_size=8).hexdigest()


@lru_cache(maxsize=128)
def material(name: str, target: str) -> Material | None:
    """The part of a distribution around a module, with its programs; None where it has too few that are of use."""
    sources = distribution(name).sources
    part = {module: sources[module] for module in distribution(name).parts[target]}
    mendable = frozenset(part) - copied(name)
    if target not in mendable:
        return None
    examples = [(module, lines) for module, text in part.items() for lines in examples_of(module, text)][:MAX_EXAMPLES]
    forms = ["\n".join(form) for _, lines in examples for form in (lines, (*lines[:-1], f"repr({lines[-1]})"))]
    tried = run_programs(part, forms)
    if tried is None:
        return None
    programs: list[tuple[str, int, int, str]] = []
    rng = stream("rlvr/RepoRepair-v0 programs", name, target)
    pool = _literals([lines[-1] for _, lines in examples])
    for number, (module, _) in enumerate(examples):
        text = next((forms[index] for index in (2 * number, 2 * number + 1) if _is_fit(tried[index].value)), None)
        if text is not None:
            draws = dict.fromkeys([text, *(_varied(rng, text, pool) for _ in range(DRAWS - 1))])
            programs += [(module, number, draw, each) for draw, each in enumerate(draws)]
    texts = list(dict.fromkeys(text for *_, text in programs))
    first, second = run_programs(part, texts, record=True), run_programs(part, texts[::-1], other_hashes=True)
    if first is None or second is None:
        return None
    same = {text: one for text, one, two in zip(texts, first, reversed(second), strict=True)
            if _is_fit(one.value) and repr(one.value) == repr(two.value)}  # fmt: skip
    kept = tuple({row[3]: row for row in reversed(programs) if row[3] in same}.values())[::-1]
    edges = {module: tuple(dict.fromkeys(each for each in imports(part, module)))
             for module in part}  # fmt: skip
    return Material(part, edges, kept, same, mendable) if len(kept) >= MIN_PROGRAMS else None


def _is_fit(value: Any) -> bool:
    if isinstance(value, str) and value.startswith((RAISES, UNENDING)):
        return value in _ERRORS
    return value is not None and len(repr(value)) <= MAX_VALUE


# examples of docstrings


def examples_of(module: str, source: str) -> Iterator[tuple[str, ...]]:
    """For each example with a value, the lines that it needs: imports, what came before it, and itself."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError):
        return
    outer = _outer_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            before: list[tuple[str, ast.stmt]] = []
            for text, statement, value in _examples(ast.get_docstring(node) or ""):
                lines = [*_needed(before, statement), value]
                if value and not _has_large_number("\n".join(lines)):
                    words = {each.id for line in lines for each in ast.walk(parse_python(line))
                             if isinstance(each, ast.Name)}  # fmt: skip
                    names = sorted(words & outer - {word for line in lines for word in _bound(parse_python(line))})
                    where = module.removesuffix(".__init__")
                    yield (*([f"from {where} import {', '.join(names)}"] if names else []), *lines)
                # what the module has is imported from it: the package above it may be left out
                if not (
                    isinstance(statement, ast.ImportFrom) and {each.name for each in statement.names} <= outer | {"*"}
                ):
                    before.append((text, statement))


def _examples(docstring: str) -> Iterator[tuple[str, ast.stmt, str]]:
    """The statements of a docstring's examples, and of those with a value the expression of it."""
    try:
        listed = doctest.DocTestParser().get_examples(docstring)
    except ValueError:
        return
    for example in listed:
        text = example.source.strip()
        try:
            body = parse_python(text).body
        except (SyntaxError, ValueError):
            continue
        if len(body) != 1 or example.exc_msg is not None:
            continue
        value = ""
        if isinstance(body[0], ast.Expr) and example.want:
            value = ast.unparse(body[0])
            call = body[0].value
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
                value = f"str({ast.unparse(call.args[0])})" if len(call.args) == 1 and not call.keywords else ""
        yield text, body[0], value


def _needed(before: Sequence[tuple[str, ast.stmt]], statement: ast.stmt) -> list[str]:
    """The earlier statements that bind or change what a statement uses."""
    bound = {name for _, each in before for name in _bound(each)}
    needed, kept = _loaded(statement), list[str]()
    for text, each in reversed(before):
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Name | ast.Constant):
            continue
        changes = _loaded(each) & bound if not _bound(each) else set()
        if needed & (_bound(each) | changes):
            kept.append(text)
            needed |= _loaded(each)
    return kept[::-1]


def _has_large_number(program: str) -> bool:
    return any(isinstance(node, ast.Constant) and isinstance(node.value, int | float) and abs(node.value) > MAX_NUMBER
               for node in ast.walk(parse_python(program)))  # fmt: skip


def _loaded(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return names | {(alias.asname or alias.name).partition(".")[0] for node in nodes
                    if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip


def _outer_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those of its branches among them."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for inner in (getattr(node, name, []) for name in ("body", "orelse", "finalbody")):
                yield from _outer_statements(inner)
        for handler in getattr(node, "handlers", []):
            yield from _outer_statements(handler.body)


def _outer_names(tree: ast.Module) -> set[str]:
    """The names that a module binds when it is imported."""
    names: set[str] = set()
    for node in _outer_statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
            names |= _bound(node)
    return names - {"*", "annotations"}


# other literals


def _literals(texts: Sequence[str]) -> dict[type, list[Any]]:
    pool: dict[type, list[Any]] = {int: [], float: [], str: []}
    for text in texts:
        for node in ast.walk(parse_python(text)):
            if isinstance(node, ast.Constant) and type(node.value) in pool:
                pool[type(node.value)].append(node.value)
    return pool


class _OtherLiterals(ast.NodeTransformer):
    """Puts others in the place of some literals, the same for each that occurs again."""

    def __init__(self, rng: random.Random, pool: Mapping[type, Sequence[Any]]) -> None:
        self._rng, self._pool = rng, pool
        self._others: dict[tuple[type, Any], Any] = {}

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        key = (type(node.value), node.value)
        if key[0] not in (int, float, str):
            return node
        if key not in self._others:
            self._others[key] = self._other(node.value) if self._rng.random() < 0.7 else node.value
        return ast.copy_location(ast.Constant(self._others[key]), node)

    def _other(self, value: Any) -> Any:
        rng, pool = self._rng, self._pool[type(value)]
        if pool and rng.random() < 0.4:
            return rng.choice(pool)
        if isinstance(value, int):
            return rng.choice([value + 1, abs(value - 1), value + 2, min(2 * value + 1, value + 50)])
        if isinstance(value, float):
            return rng.choice([value + 0.5, value * 2, value + 1.25])
        index = rng.randrange(len(value) + 1)
        return rng.choice([value[:index] + value[index + 1 :], value[: index + 1] + value[index:], value.swapcase(),
                           value[index:] + value[:index]])  # fmt: skip


def _varied(rng: random.Random, program: str, pool: Mapping[type, Sequence[Any]]) -> str:
    return ast.unparse(ast.fix_missing_locations(_OtherLiterals(rng, pool).visit(parse_python(program))))
