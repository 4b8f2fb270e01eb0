"""Task folders of Harbor (https://github.com/laude-institute/harbor, schema 1.x): what runs here is read and built.

A folder runs here if its images are simple: a common base, whose programs this machine has too, files that are copied
in, and commands that need no network. All else is refused in one sentence, and runs under Harbor itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import shlex
import stat
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rlvr.envs.bridges.harbor_files import merged, packed, without
from rlvr.envs.core.seeding import split_of
from rlvr.envs.sandbox.images import PATH, READ_ONLY, base_files, run_in_image

BASES = ("buildpack-deps", "debian", "python", "ubuntu")
MAX_FOLDER = 32 << 20  # bytes of a folder's files
MAX_TEXT = 1 << 20  # bytes of task.toml, and of instruction.md
_HERE = frozenset(
    ("schema_version", "artifacts", "task", "metadata", "verifier", "agent", "environment", "solution", "source")
)
_BUILD_SECONDS = 120.0  # for one RUN
_ELSEWHERE = "run this task with Harbor and docker"


Variables = tuple[tuple[str, str], ...]


class Image(NamedTuple):
    """A root filesystem: its files as a tar, the names at its root, its variables and its working folder."""

    files: bytes
    folders: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class HarborFolder(NamedTuple):
    """A task folder, read; its images are built when they are first needed.

    Attributes:
        path: where it is.
        instruction: what the agent reads.
        content: what makes it this task: a digest of instruction, environment and tests.
        split: the one its ``metadata.rlvr`` names, else by its content.
        separate: whether the verifier has an image of its own, which only ``artifacts`` reach.
        artifacts: absolute paths.
        collect: commands that the agent's image runs before.
        seconds: the verifier may take.
        variables: of the agent's image, and of the verifier.
        solution_variables: of the solution's script.
        solution_seconds: that it may take.
    """

    path: Path
    instruction: str
    content: str
    split: str
    separate: bool
    artifacts: tuple[str, ...]
    collect: tuple[str, ...]
    seconds: float
    workdir: str | None
    variables: tuple[Variables, Variables]
    solution_variables: Variables = ()
    solution_seconds: float = 600.0


def find_folders(root: Path) -> list[Path]:
    """Every folder with a ``task.toml``, ``root`` itself or below it, in the order of their names."""
    if (root / "task.toml").is_file():
        return [root]
    return sorted(path.parent for path in root.glob("*/task.toml"))


def read_folder(path: Path) -> HarborFolder:
    """Read a task folder.

    Raises:
        ValueError: it is no such folder, or cannot be run here; the message says why.
    """
    try:
        config = tomllib.loads(_plain_text(path / "task.toml"))
        instruction = _plain_text(path / "instruction.md")
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no task folder of Harbor: {error}") from None
    if "version" in config:  # the older name, which Harbor 0.26 takes as well
        config.setdefault("schema_version", config.pop("version"))
    verifier, environment = _section(config, "verifier", path), _section(config, "environment", path)
    agent, solution = _section(config, "agent", path), _section(config, "solution", path)
    verifier_environment = verifier.get("environment", {})
    if reason := _refused(path, config) or _refused_sections(
        environment, agent, verifier, verifier_environment, solution
    ):
        raise ValueError(f"{path.name} cannot be run here: it {reason}; {_ELSEWHERE}")
    mode = verifier.get("environment_mode") or ("separate" if "environment" in verifier else "shared")
    folder = HarborFolder(
        path=path,
        instruction=instruction.strip(),
        content=_digest(path, instruction),
        split="",
        separate=mode == "separate",
        artifacts=tuple(_artifacts(config.get("artifacts", []), environment.get("workdir"), path)),
        collect=tuple(each["command"] for each in verifier.get("collect", [])),
        seconds=float(verifier.get("timeout_sec", 600.0)),
        workdir=environment.get("workdir"),
        variables=(
            tuple(environment.get("env", {}).items()),
            tuple({**verifier_environment.get("env", {}), **verifier.get("env", {})}.items()),
        ),
        solution_variables=tuple(solution.get("env", {}).items()),
        solution_seconds=float(agent.get("timeout_sec") or 600.0),
    )
    for dockerfile in {"environment", _verifier_context(folder)}:
        for _ in _steps(path / dockerfile / "Dockerfile", path.name):
            pass  # refused before an episode begins
    named = config.get("metadata", {}).get("rlvr", {})
    split = named.get("split") if isinstance(named, dict) else None
    return folder._replace(split=split if split in ("train", "validation", "test") else split_of(folder.content))


@cache
def agent_image(folder: HarborFolder) -> Image:
    """What the agent begins with; kept.

    Raises:
        ValueError: a command of its Dockerfile fails here.
    """
    image = _built(folder.path / "environment", folder.path.name)
    return image._replace(env={**image.env, **dict(folder.variables[0])}, cwd=folder.workdir or image.cwd)


@cache
def verifier_image(folder: HarborFolder) -> Image:
    """What the verifier begins with when it is apart from the agent; kept, with the tests in it.

    Raises:
        ValueError: a command of its Dockerfile fails here.
    """
    context = _verifier_context(folder)
    image = _built(folder.path / context, folder.path.name)
    image = image._replace(env={**image.env, **dict(folder.variables[1])})
    return image if context == "tests" else with_tests(folder, image)


def with_tests(folder: HarborFolder, image: Image) -> Image:
    """An image with the folder's tests, and nothing else, at /tests."""
    files = merged(without(image.files, "tests"), packed(_tree(folder.path / "tests", "tests")))
    return image._replace(files=files, folders=tuple({*image.folders, "tests"}))


def solution_files(folder: HarborFolder) -> bytes | None:
    """The solution as a tar of /solution; None where there is none."""
    if not (folder.path / "solution" / "solve.sh").is_file():
        return None
    return packed(_tree(folder.path / "solution", "solution"))


def _plain_text(path: Path) -> str:
    """What a file says that is no link, pipe or device.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no plain file, is too long, or is no UTF-8.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path.name} is no plain file")
        content = file.read(MAX_TEXT + 1)
    if len(content) > MAX_TEXT:
        raise ValueError(f"{path.name} holds over {MAX_TEXT >> 20} MB")
    return content.decode()


def _section(config: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    section = config.get(name, {})
    if not isinstance(section, dict):
        raise ValueError(f"{path} is no task folder of Harbor: {name} in task.toml is no table")
    return section


def _refused(path: Path, config: Mapping[str, Any]) -> str:
    """Why a folder cannot be run here, the end of "it …"; "" if nothing speaks against it."""
    if not str(config.get("schema_version", "1.0")).startswith("1."):
        return f"has schema version {config['schema_version']!r}, and 1.x is read"
    if unknown := sorted(config.keys() - _HERE):
        return f"has {', '.join(unknown)} in its task.toml"
    if not (path / "tests" / "test.sh").is_file():
        return "has no tests/test.sh"
    for folder in ("environment", "tests", "solution"):
        if (path / folder).is_symlink():
            return f"holds {folder}, which is a link"
        size = 0
        for entry in (path / folder).rglob("*"):
            mode = entry.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return f"holds {entry.relative_to(path)}, which is no plain file"
            if entry.name in (".dockerignore", "docker-compose.yaml"):
                return f"has {entry.relative_to(path)}"
            size += entry.lstat().st_size
        if size > MAX_FOLDER:
            return f"holds over {MAX_FOLDER >> 20} MB in {folder}"
    return ""


def _refused_sections(environment: Any, agent: Any, verifier: Any, verifier_environment: Any, solution: Any) -> str:
    for name, section in (("environment", environment), ("verifier.environment", verifier_environment)):
        for key in ("docker_image", "mcp_servers", "healthcheck", "gpus", "gpu_types", "tpu", "skills_dir"):
            if section.get(key):
                return f"asks for [{name}] {key}"
        if section.get("os", "linux").lower() != "linux":
            return f"asks for [{name}] os = {section['os']!r}"
    for name, section in (("agent", agent), ("verifier", verifier)):
        if section.get("user") not in (None, "root", 0):
            return f"asks for [{name}] user = {section['user']!r}"
    for section in (environment, verifier_environment, verifier, solution):
        for key, value in section.get("env", {}).items():
            if not isinstance(value, str) or "${" in value:
                return f"takes {key} from the variables of the machine"
    if verifier_environment.get("workdir"):
        return "asks for [verifier.environment] workdir"
    if any(each.get("service", "main") != "main" or each.get("user") for each in verifier.get("collect", [])):
        return "collects from another service or as another user"
    return ""


def _artifacts(artifacts: Any, workdir: str | None, path: Path) -> Iterator[str]:
    yield "/logs/artifacts"
    for each in artifacts:
        source = each if isinstance(each, str) else each.get("source", "")
        extra = set(each) - {"source", "destination"} if isinstance(each, dict) else set()
        if extra or not source or ".." in PurePosixPath(source).parts:
            raise ValueError(f"{path.name} cannot be run here: it has the artifact {each!r}; {_ELSEWHERE}")
        yield posixpath.normpath(posixpath.join(workdir or "/", source))


def _verifier_context(folder: HarborFolder) -> str:
    separate = folder.separate and (folder.path / "tests" / "Dockerfile").is_file()
    return "tests" if separate else "environment"


def _digest(path: Path, instruction: str) -> str:
    parts = [instruction]
    for folder in ("environment", "tests"):
        for entry in sorted((path / folder).rglob("*")):
            if entry.is_file():
                parts += [str(entry.relative_to(path)), hashlib.sha256(entry.read_bytes()).hexdigest()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _tree(source: Path, target: str) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder, by its path in the image."""
    tree = {f"{target}/": (b"", 0o755)}
    for entry in sorted(source.rglob("*")):
        name = f"{target}/{entry.relative_to(source)}"
        if entry.is_dir():
            tree[f"{name}/"] = (b"", 0o755)
        else:
            tree[name] = (entry.read_bytes(), entry.stat().st_mode & 0o777)
    return tree


# --- Dockerfiles -----------------------------------------------------------------------------------------

_WORD = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PASSED = frozenset(("LABEL", "MAINTAINER", "EXPOSE", "CMD", "ENTRYPOINT", "STOPSIGNAL"))


def _steps(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile that change the image: kind and text.

    Raises:
        ValueError: it asks for what cannot be had here.
    """

    def refuse(reason: str) -> ValueError:
        return ValueError(f"{name} cannot be run here: {path.parent.name}/Dockerfile {reason}; {_ELSEWHERE}")

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise refuse("cannot be read") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines)).splitlines()
    for number, line in enumerate(joined):
        kind, _, rest = line.strip().partition(" ")
        kind, rest = kind.upper(), rest.strip()
        if (kind == "FROM") != (number == 0):
            raise refuse("has more than one FROM, or does not begin with it")
        if kind == "FROM":
            if reason := _refused_base(rest):
                raise refuse(reason)
        elif kind == "USER":
            if rest not in ("root", "0"):
                raise refuse(f"has USER {rest}")
        elif kind in ("RUN", "COPY", "ADD") and (rest.startswith(("[", "--mount")) or "<<" in rest):
            raise refuse(f"has a {kind} in a form that is not read")
        elif kind in ("COPY", "ADD"):
            words = shlex.split(rest)
            flags = [word for word in words if word.startswith("--") and not word.startswith("--chmod=")]
            if flags or len(words) < 2 or (kind == "ADD" and re.search(r"://|\.tar|\.t?gz|\.xz|\.bz2", rest)):
                raise refuse(f"has {kind} {rest[:60]}")
            if any(".." in PurePosixPath(word).parts for word in words[:-1]):
                raise refuse(f"has {kind} {rest[:60]}, which leads out of its folder")
            yield "COPY", rest
        elif kind in ("RUN", "ENV", "WORKDIR"):
            yield kind, rest
        elif kind not in _PASSED:
            raise refuse(f"has {kind}")


def _refused_base(image: str) -> str:
    name, _, tag = image.removeprefix("docker.io/").removeprefix("library/").partition(":")
    if name not in BASES or " " in image or "alpine" in tag:
        return f"is FROM {image}, and only {', '.join(BASES)} are common enough"
    wanted = re.match(r"3\.(\d+)", tag)
    if name == "python" and wanted and int(wanted[1]) > _own_python():
        return f"is FROM {image}, and this machine's python3 is 3.{_own_python()}"
    return ""


@cache
def _own_python() -> int:
    code = "import sys; print(sys.version_info.minor)"
    done = subprocess.run(["python3", "-I", "-S", "-c", code], capture_output=True, env={"PATH": PATH}, check=False)
    return int(done.stdout or b"0")


def _built(context: Path, name: str) -> Image:
    """The image of a context's Dockerfile.

    Raises:
        ValueError: a command fails, or a file is not there.
    """
    image, copied = Image(base_files({}), (), {"PATH": PATH}, "/"), dict[str, tuple[bytes, int]]()
    for kind, text in _steps(context / "Dockerfile", name):
        where = f"{name}: {context.name}/Dockerfile, {kind} {text[:80]}"
        if kind == "ENV":
            image = image._replace(env={**image.env, **_variables(text, image.env)})
            continue
        if kind == "WORKDIR":
            cwd = posixpath.normpath(posixpath.join(image.cwd, _expanded(text, image.env)))
            copied[f"{cwd[1:]}/"] = (b"", 0o755)
            image = image._replace(cwd=cwd)
        elif kind == "COPY":
            copied.update(_copied(_expanded(text, image.env), context, image.cwd, where))
        for path in copied:
            top, below, _ = path.partition("/")
            if top in (*READ_ONLY, "", ".") or not below:
                raise ValueError(f"{where}: writes to /{top}, which is this machine's own here; {_ELSEWHERE}")
        image = image._replace(folders=tuple({*image.folders, *(path.split("/")[0] for path in copied)}))
        if kind == "RUN":
            image, copied = _ran(image, copied, text, where), {}
    return image._replace(files=merged(image.files, packed(copied)))


def _ran(image: Image, copied: Mapping[str, tuple[bytes, int]], command: str, where: str) -> Image:
    files = merged(image.files, packed(copied))
    done = run_in_image(files, command, folders=image.folders, cwd=image.cwd, env=image.env, seconds=_BUILD_SECONDS)
    if done.exit_code != 0 or done.files is None:
        last = " ".join(done.output.split())[-200:]
        raise ValueError(f"{where}: fails here, where there is no network ({last}); {_ELSEWHERE}")
    return image._replace(files=done.files)


def _expanded(text: str, env: Mapping[str, str]) -> str:
    return _WORD.sub(lambda match: env.get(match[1] or match[2], ""), text)


def _variables(text: str, env: Mapping[str, str]) -> dict[str, str]:
    words = [_expanded(word, env) for word in shlex.split(text)]
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.partition("=")[::2] for word in words)


def _copied(text: str, context: Path, cwd: str, where: str) -> dict[str, tuple[bytes, int]]:
    words = shlex.split(text)
    mode = next((int(word.partition("=")[2], 8) for word in words if word.startswith("--chmod=")), None)
    *sources, target = [word for word in words if not word.startswith("--")]
    at = posixpath.normpath(posixpath.join(cwd, target)).lstrip("/")
    matches = [
        sorted(context.glob(source.lstrip("/"))) if source not in (".", "./") else [context] for source in sources
    ]
    copied: dict[str, tuple[bytes, int]] = {}
    for source, paths in zip(sources, matches, strict=True):
        if not paths or any(not path.resolve().is_relative_to(context.resolve()) for path in paths):
            raise ValueError(f"{where}: there is no {source} in its folder")
        for path in paths:
            if path.is_dir():
                copied.update(_tree(path, at))
                continue
            into = target.endswith(("/", ".")) or len(sources) > 1 or len(paths) > 1
            copied[f"{at}/{path.name}" if into else at] = (path.read_bytes(), path.stat().st_mode & 0o777)
    if mode is not None:
        copied = {path: (content, mode) for path, (content, _) in copied.items()}
    return copied
