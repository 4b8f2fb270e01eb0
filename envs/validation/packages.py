"""What a package says of itself: the files of a folder of OpenEnv's or Harbor's, read and never run."""

from __future__ import annotations

import os
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rlvr.envs.validation.report import Check, CheckResult

CEILING: Final = 3_600.0  # seconds of an episode: RFC 008's policy
FILES: Final = 10_000  # of a folder that are looked at
TASKS: Final = 200  # of a folder of Harbor's
LONGEST: Final = 1_000_000  # characters of a file that are read
RESOURCES: Final = ("cpu", "memory_mb", "disk_mb", "episode_timeout_s")
ARCHIVES: Final = re.compile(r"\.(?:tar|tgz|tbz2?|txz|zip|7z|rar|gz|bz2|xz|zst)$", re.I)
LOCKS: Final = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
HIDDEN: Final = re.compile(r"\.|__pycache__$|node_modules$")
PINNED: Final = re.compile(r"===?\s*[\w.+!-]+\s*(?:[;,\s].*)?$|@.*(?:\b[0-9a-f]{40}\b|\.(?:whl|zip|tar\.gz))")
PIP: Final = re.compile(r"\b(?:pip3?|uv pip) install\s+([^;&|]*)")
VALUED: Final = re.compile(r"-[rcfiet]$|--(?:requirement|constraint|find-links|(?:extra-)?index-url|target|prefix)$")
VARIABLE: Final = re.compile(r"\$\{?(\w+)(?::-([^}]*))?\}?")

LAYOUT: Final = Check(
    "static.layout",
    "Sound",
    "No file of the package is an archive, whose content nobody sees and each change ships whole.",
    4,
    "low",
    "Put the files themselves into the package.",
)
DECLARED: Final = Check(
    "static.resource_declaration",
    "Sound",
    "The manifest declares processors, memory, disk and the time limit of an episode.",
    10,
    "medium",
    "Declare cpu, memory_mb, disk_mb and episode_timeout_s under validation.resources.",
)
ENVELOPE: Final = Check(
    "semantic.resource_envelope",
    "Sound",
    "What the server takes while it is validated is within the declared memory.",
    11,
    "medium",
    "Declare the memory that it takes, or take less.",
)
CEILED: Final = Check(
    "static.timeout_ceiling",
    "Sound",
    "No declared time limit is above 3,600 seconds.",
    12,
    "medium",
    "Make the task shorter, or split it.",
)
PINS: Final = Check(
    "static.dependency_pinning",
    "Sound",
    "Every package that is installed has one version, in a lock file or by ==, and every image a tag or digest.",
    41,
    "medium",
    "Write ==, commit a lock file, and name images by a tag other than latest.",
)


def package_checks(folder: Path, resident: int) -> list[CheckResult]:
    """The checks of a folder's files; none where it is no package.

    Args:
        resident: most bytes that its server held at once; 0 where none was started.
    """
    manifests = dict(_manifests(folder))
    if not manifests:
        return []
    served = (folder / "openenv.yaml").is_file()
    return [
        _run(LAYOUT, _archives, folder),
        _run(DECLARED, _undeclared, manifests, served),
        _run(ENVELOPE, _beyond, manifests, resident if served else 0),
        _run(CEILED, _too_long, manifests, served),
        _run(PINS, _unpinned, folder),
    ]


def _run(check: Check, look: Callable[..., None], *about: Any) -> CheckResult:
    result, began = CheckResult(check), time.monotonic()
    look(result, *about)
    if not result.tries and not result.skipped:
        result.skipped = "the package has nothing of it"
    result.seconds = time.monotonic() - began
    return result


def _manifests(folder: Path) -> Iterator[tuple[Path, Mapping[str, Any] | str]]:
    """The manifest of a package, or of each of Harbor's tasks; a sentence where it cannot be read."""
    served = folder / "openenv.yaml"
    tasks = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    for path in [served] if served.is_file() else [task / "task.toml" for task in tasks][:TASKS]:
        if not path.is_file():
            continue
        try:
            value = _loaded(path)
        except (OSError, ValueError, RecursionError) as error:
            yield path, f"it cannot be read: {' '.join(str(error).split())[:120]}"
            continue
        yield path, value if isinstance(value, Mapping) else "it is no mapping"


def _loaded(path: Path) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(_text(path))
    import yaml

    try:
        return yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST)


def _files(folder: Path) -> Iterator[Path]:
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not HIDDEN.match(name))
        for name in sorted(names):
            count += 1
            if count > FILES:
                return
            yield Path(root) / name


def _archives(result: CheckResult, folder: Path) -> None:
    found = []
    for path in _files(folder):
        result.tries += 1
        if ARCHIVES.search(path.name):
            found.append(str(path.relative_to(folder)))
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        result.add("archives", f"{', '.join(found[:3])}{more}: what is in an archive", archives=found[:20])


def _resources(manifest: Mapping[str, Any] | str) -> Mapping[str, Any]:
    block = manifest.get("validation") if isinstance(manifest, Mapping) else None
    resources = block.get("resources") if isinstance(block, Mapping) else None
    return resources if isinstance(resources, Mapping) else {}


def _number(value: Any) -> float | None:
    """A number above 0; None for all else."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def _undeclared(result: CheckResult, manifests: Mapping[Path, Mapping[str, Any] | str], served: bool) -> None:
    if not served:
        result.skipped = "Harbor gives each task what it does not declare"
        return
    ((path, manifest),) = manifests.items()
    result.tries = len(RESOURCES)
    if isinstance(manifest, str):
        result.add("manifest", f"{path.name}: {manifest}")
        return
    resources = _resources(manifest)
    result.measured = {name: resources[name] for name in RESOURCES if name in resources}
    for name in RESOURCES:
        value = _number(resources.get(name))
        whole = value is not None and (value.is_integer() or not name.endswith("_mb"))
        if not whole:
            what = f"is {resources[name]!r}" if name in resources else "is not declared"
            kind = "a whole number above 0" if name.endswith("_mb") else "a number above 0"
            result.add(name, f"{path.name}: validation.resources.{name} {what}, and is to be {kind}")


def _beyond(result: CheckResult, manifests: Mapping[Path, Mapping[str, Any] | str], resident: int) -> None:
    if not resident:
        result.skipped = "no server of the package was started"
        return
    ((path, manifest),) = manifests.items()
    declared, taken = _number(_resources(manifest).get("memory_mb")), round(resident / 2**20)
    if declared is None:
        result.skipped = "no memory is declared"
        return
    result.tries, result.measured = 1, {"megabytes": taken, "declared": declared}
    if taken > declared:
        result.add("memory", f"the server took {taken} MB; {path.name} declares {declared:g}", **result.measured)


def _too_long(result: CheckResult, manifests: Mapping[Path, Mapping[str, Any] | str], served: bool) -> None:
    for path, manifest in manifests.items():
        sections = _resources(manifest) if served else manifest if isinstance(manifest, Mapping) else {}
        named = {"episode_timeout_s": sections.get("episode_timeout_s")} if served else {}
        for part in () if served else ("agent", "verifier"):
            section = sections.get(part)
            named[f"{part}.timeout_sec"] = section.get("timeout_sec") if isinstance(section, Mapping) else None
        for name, value in named.items():
            seconds = _number(value)
            if seconds is None:
                continue
            result.tries += 1
            result.measured[name] = max(seconds, result.measured.get(name, 0.0))
            if seconds > CEILING and len(result.findings) < 5:
                where = path.name if served else f"{path.parent.name}/{path.name}"
                result.add(name, f"{where}: {name} is {seconds:g}, above {CEILING:g}", seconds=seconds)


def _unpinned(result: CheckResult, folder: Path) -> None:
    loose: list[tuple[str, str]] = []
    for path in _files(folder):
        if path.name == "pyproject.toml" and not any((path.parent / lock).exists() for lock in LOCKS):
            wanted = _of_project(path)
        elif re.fullmatch(r"requirements[\w.-]*\.txt", path.name):
            lines = (line.split("#")[0].strip() for line in _text(path).splitlines())
            wanted = [(line, _is_pinned(line)) for line in lines if line and not line.startswith("-")]
        elif path.name == "Dockerfile" or path.name.startswith("Dockerfile.") or path.suffix == ".dockerfile":
            wanted = list(_of_image(_text(path)))
        else:
            continue
        result.tries += len(wanted)
        loose += [(str(path.relative_to(folder)), what) for what, pinned in wanted if not pinned]
    result.measured["not pinned"] = len(loose)
    for file in dict.fromkeys(file for file, _ in loose):
        names = [what for where, what in loose if where == file]
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        result.add(file, f"{file}: {', '.join(names[:4])}{more} may be another version tomorrow", names=names[:20])


def _is_pinned(requirement: str) -> bool:
    return PINNED.search(requirement) is not None


def _of_project(path: Path) -> list[tuple[str, bool]]:
    try:
        project = tomllib.loads(_text(path)).get("project", {})
        listed = project.get("dependencies", []) if isinstance(project, Mapping) else []
    except ValueError:
        return [("it is no TOML", False)]
    return [(str(each), _is_pinned(str(each))) for each in listed if isinstance(listed, list)]


def _of_image(text: str) -> Iterator[tuple[str, bool]]:
    """What a Dockerfile takes from elsewhere, images and packages of pip, and whether each has one version."""
    values: dict[str, str] = {}
    stages: set[str] = {"scratch"}
    for line in re.sub(r"\\\s*\n", " ", re.sub(r"(?m)^\s*#.*\n?", "", text)).splitlines():
        word, _, rest = line.strip().partition(" ")
        rest = VARIABLE.sub(lambda found: values.get(found[1]) or found[2] or found[0], rest.strip())
        match word.upper():
            case "ARG" if "=" in rest:
                name, _, value = rest.partition("=")
                values[name.strip()] = value.strip().strip("\"'")
            case "FROM":
                words = [each for each in rest.split() if not each.startswith("--")]
                image = words[0] if words else ""
                if image and image.lower() not in stages:
                    tag = image.rpartition("/")[2].partition(":")[2]
                    yield f"FROM {image}", "@sha256:" in image or tag not in ("", "latest")
                stages |= {words[2].lower()} if len(words) == 3 else set()
            case "RUN":
                for command in PIP.finditer(rest):
                    yield from _of_pip(command[1])


def _of_pip(arguments: str) -> Iterator[tuple[str, bool]]:
    words = [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", arguments)]
    for before, word in zip(["", *words], words, strict=False):
        is_path = word.startswith((".", "/", "$")) or word.endswith((".txt", ".whl", ".tar.gz"))
        if word and not word.startswith("-") and not VALUED.match(before) and not is_path:
            yield f"pip install {word}", _is_pinned(word)
