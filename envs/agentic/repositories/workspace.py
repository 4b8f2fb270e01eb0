"""A policy's files: edits, patches, commands in the sandbox, and the hidden tests in a fresh one.

The files live in the state as text. A command gets a copy of them in a sandbox of its own, and what it changed is
copied back. The hidden tests run in another sandbox, which holds the policy's package and nothing else of the policy;
programs go in, values come out, and what is expected stays here.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Result, Sandbox, SandboxError, SandboxStarved, shared
from rlvr.envs.tools.tool import ToolError, ToolFault

MAX_FILE: Final = 60_000  # characters
MAX_FILES: Final = 400
MAX_TOTAL: Final = 600_000  # characters of all files
MAX_PRINTED: Final = 20_000
FOLDER: Final = "repository"  # of the sandbox: beside it stands the program that works on it
LIMITS: Final = Limits(seconds=10.0, output_bytes=4 << 20)
_PATH: Final = re.compile(r"[\w.+-][\w .+-]*(?:/[\w.+-][\w .+-]*)*", re.ASCII)
_TIMES: Final = re.compile(r"^(Ran \d+ tests?) in [\d.]+s$", re.MULTILINE)
_HUNK: Final = re.compile(r"@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@.*")
_ENTRY: Final = "observe"

_ENTER: Final = f"""
import os
os.remove("main.py")
os.makedirs("{FOLDER}", exist_ok=True)
os.chdir("{FOLDER}")
"""
# what the sandbox gives to import stands at the end of the path; a shell's Python shall find it, too
_PACKAGES: Final = """
ROOTS = [os.getcwd(), os.path.join(os.getcwd(), "src"), os.path.join(os.getcwd(), "lib")]
os.environ["PYTHONPATH"] = os.pathsep.join([*ROOTS, sys.path[-1]])
PYTHON = f'python3() {{ "{sys.executable}" "$@"; }}\\npytest() {{ python3 -m pytest "$@"; }}\\n'
"""
_COMMAND: Final = """
def contents():
    found, total = {}, 0
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__"))
        for name in sorted(names):
            path = os.path.join(folder, name)[2:]
            if not os.path.islink(path) and os.path.isfile(path) and os.path.getsize(path) <= LARGEST:
                try:
                    with open(path, encoding="utf-8", newline="") as file:
                        found[path] = file.read()
                except (OSError, UnicodeDecodeError):
                    continue
                total += len(found[path])
            if len(found) > FILES or total > TOTAL:
                return None
    return found
before = contents()
command = PYTHON + 'python() { python3 "$@"; }\\n' + sys.stdin.read()
# the machine's settings of git may not be readable here, and are no part of the task
settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1"}
shell = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env=settings)
printed = shell.stdout.read(PRINTED).decode("utf-8", "replace")
shell.stdout.close()
code = shell.wait()
after = contents()
changed = None if after is None else {path: text for path, text in after.items() if before.get(path) != text}
gone = [] if after is None else [path for path in before if not os.path.lexists(path)]
# where the sandbox keeps the repository depends on the machine
folder = os.getcwd()
print(json.dumps([printed.replace(folder + "/", "").replace(folder, "."), code, changed, gone]))
"""
_TESTS: Final = """
import io, os, sys, traceback, unittest
sys.path.insert(0, os.getcwd())
names = sys.argv[1:]
loader = unittest.TestLoader()
suite = loader.loadTestsFromNames(names) if names else loader.discover("tests", top_level_dir=".")
class Listed(unittest.TestResult):
    pass
result = Listed()
suite.run(result)
for test, text in result.failures + result.errors:
    # where the sandbox keeps the repository depends on the machine
    lines = text.replace(os.getcwd() + "/", "").strip().splitlines()
    print("FAIL:", test.id())
    print("\\n".join(lines[-12:]))
print(result.testsRun, "tests,", len(result.failures) + len(result.errors), "failed")
"""
_OBSERVER: Final = """
import ast, base64, json, os, sys, zlib
for path, text in json.loads(zlib.decompress(base64.b64decode("{files}"))).items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
sys.path.insert(0, os.getcwd())
def observe(program):
    tree = ast.parse(program)
    last = ast.Expression(tree.body.pop().value)
    scope = {{"__name__": "__main__"}}
    try:
        exec(compile(tree, "program", "exec"), scope)
        return eval(compile(last, "program", "eval"), scope)
    except Exception as error:
        return "raises " + type(error).__name__
"""


class Bounds(NamedTuple):
    """How much a repository may hold: characters of a file, files, and characters of all of them."""

    file: int = MAX_FILE
    files: int = MAX_FILES
    total: int = MAX_TOTAL


BOUNDS: Final = Bounds()


def checked_path(path: str) -> str:
    """A path of a file in the repository.

    Raises:
        ToolError: it leaves the repository, or names what belongs to git.
    """
    plain = path.strip().removeprefix("./")
    parts = plain.split("/")
    if len(plain) > 200 or not _PATH.fullmatch(plain) or ".." in parts or "." in parts or parts[0] == ".git":
        raise ToolError(f"not a path of a file in the repository: {path[:80]!r}")
    return plain


def written(files: Mapping[str, str], path: str, text: str | None, bounds: Bounds = BOUNDS) -> dict[str, str]:
    """The files with one of them written, or without it for None.

    Raises:
        ToolError: there would be too much, or a folder and a file of one name.
    """
    changed = {name: content for name, content in files.items() if name != path}
    if text is not None:
        changed[path] = text
        if len(text) > bounds.file:
            raise ToolError(f"{path} would have {len(text):,} characters, allowed are {bounds.file:,}")
        if len(changed) > bounds.files or sum(map(len, changed.values())) > bounds.total:
            raise ToolError(f"the repository may have {bounds.files} files and {bounds.total:,} characters")
        if any(name.startswith(f"{path}/") or path.startswith(f"{name}/") for name in changed):
            raise ToolError(f"{path} is a folder, or lies in a file")
    return changed


def replaced(files: Mapping[str, str], path: str, old: str, new: str, bounds: Bounds = BOUNDS) -> dict[str, str]:
    """The files with a text replaced that occurs once in one of them.

    Raises:
        ToolError: there is no such file, or the text does not occur exactly once.
    """
    if path not in files:
        raise ToolError(f"there is no file {path}")
    count = files[path].count(old) if old else 0
    if count != 1:
        raise ToolError(f"the old text occurs {count} times in {path}; it must occur once: add lines around it")
    return written(files, path, files[path].replace(old, new), bounds)


def patched(files: Mapping[str, str], patch: str, bounds: Bounds = BOUNDS) -> dict[str, str]:
    """The files after a unified diff; line numbers do not count, the lines around a change do.

    Raises:
        ToolError: it is none, or does not fit.
    """
    changed, path, hunk, hunks = dict(files), "", list[str](), 0
    for line in [*patch.splitlines(), "--- "]:
        if line.startswith("--- ") or _HUNK.fullmatch(line):
            if hunk:
                changed = _with_hunk(changed, path, hunk, bounds)
                hunks, hunk = hunks + 1, []
        elif line.startswith("+++ "):
            path = checked_path(line[4:].split("\t")[0].strip().removeprefix("b/"))
        elif line[:1] in (" ", "+", "-") and path:
            hunk.append(line)
        elif not line and hunk:
            hunk.append(" ")
    if not hunks:
        raise ToolError("the patch changes nothing: write a unified diff with --- and +++ lines")
    return changed


def _with_hunk(files: Mapping[str, str], path: str, hunk: Sequence[str], bounds: Bounds) -> dict[str, str]:
    while hunk and hunk[-1] == " " and path in files:  # blank lines behind a hunk
        hunk = hunk[:-1]
    old = "".join(f"{line[1:]}\n" for line in hunk if line[0] != "+")
    new = "".join(f"{line[1:]}\n" for line in hunk if line[0] != "-")
    if path not in files and not old:
        return written(files, path, new, bounds)
    return replaced(files, path, old, new, bounds)


# what runs in the sandbox


def run_command(
    files: Mapping[str, str],
    others: Mapping[str, bytes],
    command: str,
    *,
    bounds: Bounds = BOUNDS,
    sandbox: Sandbox | None = None,
    limits: Limits = LIMITS,
) -> tuple[dict[str, str], str]:
    """The files after a shell command, and what it printed.

    Args:
        files: texts, by path.
        others: files that a command may read, and whose changes are lost.
        command: for bash.
        bounds: how much there may be afterwards.
        sandbox: one with packages to import; the shared one without.
        limits: of the command.

    Raises:
        ToolFault: the sandbox failed.
    """
    head = f"LARGEST, FILES, TOTAL, PRINTED = {bounds.file}, {bounds.files}, {bounds.total}, {MAX_PRINTED}\n"
    head += f"import json, subprocess, sys\nPYTHON = ''\n{_PACKAGES if sandbox else ''}"
    result = run(head + _COMMAND, {**files, **others}, stdin=command, sandbox=sandbox, limits=limits)
    if not result.ok:
        return dict(files), f"{ending(result)}; what the command changed is lost"
    try:
        printed, code, changed, gone = json.loads(result.stdout)
        text = _TIMES.sub(r"\1", str(printed)) + (f"\n[exit code {code}]" if code else "")
        if changed is None:
            return dict(files), f"{text}\n[there are too many files: what the command changed is lost]"
        kept = {path: content for path, content in files.items() if path not in gone}
        for path, content in changed.items():
            kept = written(kept, checked_path(path), str(content), bounds)
    except (ValueError, TypeError, AttributeError):  # the command wrote where its result is written
        return dict(files), "what the command printed cannot be read; what it changed is lost"
    except ToolError as error:
        return dict(files), f"{text}\n[{error}: what the command changed is lost]"
    return kept, text


def run_tests(files: Mapping[str, str], names: Sequence[str]) -> str:
    """What the repository's own tests say: those of these dotted names, or all.

    Raises:
        ToolFault: the sandbox failed.
    """
    result = run(_TESTS, files, argv=names)
    if result.ok:
        return result.stdout
    return f"{result.stdout[-2000:]}{result.stderr[-2000:]}\n{ending(result)}"


def grade(package: str, files: Mapping[str, str], tests: Sequence[tuple[str, Any]]) -> Verdict:
    """The verdict of programs and their values on the package of a policy's files, in a fresh sandbox.

    Raises:
        SandboxUnavailable: no tier holds on this machine.
    """
    sources = {path: text for path, text in files.items() if path.startswith(f"{package}/") and path.endswith(".py")}
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode(), 6)).decode()
    rows = [{"args": [program], "expected": value} for program, value in tests]
    code = _OBSERVER.format(files=packed)
    return grade_code(f"```python{code}```", {"entry_point": _ENTRY, "tests": rows}, seconds=4.0, total_seconds=30.0)


def run(
    code: str,
    files: Mapping[str, str | bytes],
    *,
    stdin: str = "",
    argv: Sequence[str] = (),
    sandbox: Sandbox | None = None,
    limits: Limits = LIMITS,
) -> Result:
    """What a program does that starts in a folder of these files.

    Raises:
        ToolFault: the sandbox failed.
    """
    inner = {f"{FOLDER}/{path}": content for path, content in files.items()}
    try:
        return (sandbox or shared()).run_python(_ENTER + code, stdin, inner, limits, argv=argv)
    except SandboxStarved as starved:
        raise ToolFault(str(starved), "timeout") from starved
    except (SandboxError, OSError) as error:
        raise ToolFault(f"the sandbox: {error}") from error


def ending(result: Result) -> str:
    """How a program ended that did not end well, in brackets."""
    if result.status == "error":
        return f"[exit code {result.exit_code}]"
    return f"[ended: {result.status.replace('_', ' ')}]"
