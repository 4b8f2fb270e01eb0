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
from typing import Any, Final

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Result, SandboxError, SandboxStarved, shared
from rlvr.envs.tools.tool import ToolError, ToolFault

MAX_FILE: Final = 60_000  # characters
MAX_FILES: Final = 400
MAX_TOTAL: Final = 600_000  # characters of all files
MAX_PRINTED: Final = 20_000
LIMITS: Final = Limits(seconds=10.0, output_bytes=4 << 20)
_PATH: Final = re.compile(r"[\w.+-][\w .+-]*(?:/[\w.+-][\w .+-]*)*", re.ASCII)
_TIMES: Final = re.compile(r"^(Ran \d+ tests?) in [\d.]+s$", re.MULTILINE)
_HUNK: Final = re.compile(r"@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@.*")
_ENTRY: Final = "observe"

_COMMAND: Final = """
import json, os, subprocess, sys
os.remove("main.py")
def contents():
    found, total = {}, 0
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__"))
        for name in sorted(names):
            path = os.path.join(folder, name)[2:]
            if not os.path.islink(path) and os.path.isfile(path) and os.path.getsize(path) <= LARGEST:
                try:
                    with open(path, encoding="utf-8") as file:
                        found[path] = file.read()
                except (OSError, UnicodeDecodeError):
                    continue
                total += len(found[path])
            if len(found) > FILES or total > TOTAL:
                return None
    return found
before = contents()
command = 'python() { python3 "$@"; }\\n' + sys.stdin.read()
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
os.remove("main.py")
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


def written(files: Mapping[str, str], path: str, text: str | None) -> dict[str, str]:
    """The files with one of them written, or without it for None.

    Raises:
        ToolError: there would be too much, or a folder and a file of one name.
    """
    changed = {name: content for name, content in files.items() if name != path}
    if text is not None:
        changed[path] = text
        if len(text) > MAX_FILE:
            raise ToolError(f"{path} would have {len(text):,} characters, allowed are {MAX_FILE:,}")
        if len(changed) > MAX_FILES or sum(map(len, changed.values())) > MAX_TOTAL:
            raise ToolError(f"the repository may have {MAX_FILES} files and {MAX_TOTAL:,} characters")
        if any(name.startswith(f"{path}/") or path.startswith(f"{name}/") for name in changed):
            raise ToolError(f"{path} is a folder, or lies in a file")
    return changed


def replaced(files: Mapping[str, str], path: str, old: str, new: str) -> dict[str, str]:
    """The files with a text replaced that occurs once in one of them.

    Raises:
        ToolError: there is no such file, or the text does not occur exactly once.
    """
    if path not in files:
        raise ToolError(f"there is no file {path}")
    count = files[path].count(old) if old else 0
    if count != 1:
        raise ToolError(f"the old text occurs {count} times in {path}; it must occur once: add lines around it")
    return written(files, path, files[path].replace(old, new))


def patched(files: Mapping[str, str], patch: str) -> dict[str, str]:
    """The files after a unified diff; line numbers do not count, the lines around a change do.

    Raises:
        ToolError: it is none, or does not fit.
    """
    changed, path, hunk, hunks = dict(files), "", list[str](), 0
    for line in [*patch.splitlines(), "--- "]:
        if line.startswith("--- ") or _HUNK.fullmatch(line):
            if hunk:
                changed = _with_hunk(changed, path, hunk)
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


def _with_hunk(files: Mapping[str, str], path: str, hunk: Sequence[str]) -> dict[str, str]:
    while hunk and hunk[-1] == " " and path in files:  # blank lines behind a hunk
        hunk = hunk[:-1]
    old = "".join(f"{line[1:]}\n" for line in hunk if line[0] != "+")
    new = "".join(f"{line[1:]}\n" for line in hunk if line[0] != "-")
    if path not in files and not old:
        return written(files, path, new)
    return replaced(files, path, old, new)


# what runs in the sandbox


def run_command(files: Mapping[str, str], history: Mapping[str, bytes], command: str) -> tuple[dict[str, str], str]:
    """The files after a shell command, and what it printed.

    Raises:
        ToolFault: the sandbox failed.
    """
    bounds = f"LARGEST, FILES, TOTAL, PRINTED = {MAX_FILE}, {MAX_FILES}, {MAX_TOTAL}, {MAX_PRINTED}\n"
    repository: dict[str, str | bytes] = {**files, **(history if "git" in command else {})}
    result = _run(bounds + _COMMAND, repository, stdin=command)
    if not result.ok:
        return dict(files), f"{_ending(result)}; what the command changed is lost"
    try:
        printed, code, changed, gone = json.loads(result.stdout)
        text = _TIMES.sub(r"\1", str(printed)) + (f"\n[exit code {code}]" if code else "")
        if changed is None:
            return dict(files), f"{text}\n[there are too many files: what the command changed is lost]"
        kept = {path: content for path, content in files.items() if path not in gone}
        for path, content in changed.items():
            kept = written(kept, checked_path(path), str(content))
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
    result = _run(_TESTS, files, argv=names)
    if result.ok:
        return result.stdout
    return f"{result.stdout[-2000:]}{result.stderr[-2000:]}\n{_ending(result)}"


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


def _run(code: str, files: Mapping[str, str | bytes], *, stdin: str = "", argv: Sequence[str] = ()) -> Result:
    try:
        return shared().run_python(code, stdin, files, LIMITS, argv=argv)
    except SandboxStarved as starved:
        raise ToolFault(str(starved), "timeout") from starved
    except (SandboxError, OSError) as error:
        raise ToolFault(f"the sandbox: {error}") from error


def _ending(result: Result) -> str:
    if result.status == "error":
        return f"[exit code {result.exit_code}]"
    return f"[ended: {result.status.replace('_', ' ')}]"
