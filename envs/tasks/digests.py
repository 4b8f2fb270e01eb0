"""What an environment's tasks and grades depend on, as one line of digests that stands in every record of them.

``rows=… settings=… code=…``: equal digests mean the same tasks. Rows are the questions, references and worked solutions
of a table in their order, as the environment has read them: a file that was written anew with the same rows has their
digest, and rows in another order have another, since an index names another question then. Where tasks are generated,
their version stands in place of rows. Settings are those that the environment was made with, defaults included, without
split and level (each episode names its own) and without those that only say where the rows are. Code is the source of
``rlvr.envs`` and of the packages that the task comes from.

Of an environment that a server plays, `ServerDigest` holds what the server says of these. That a server could not be
asked makes a part ``unknown``.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium as gym

from rlvr.envs.core.seeding import TASKS_VERSION, digest_of_texts
from rlvr.envs.core.task import Task

PARTS: Final = ("rows", "settings", "code")
UNKNOWN: Final = "unknown"
ELSEWHERE: Final = frozenset({"task", "split", "level", "render_mode"})  # what no episode depends on, or itself names
MAX_FILES: Final = 5_000  # of a package whose source is read
_STANDARD: Final = frozenset(sys.stdlib_module_names) | {"gymnasium"}


class ServerDigest(NamedTuple):
    """What is known of an environment that a server plays, beside what was set here.

    Attributes:
        rows: the digest of its rows; "" where the server tells nothing of them.
        settings, code: what the server says of each, in any form; "" for nothing.
        was_asked: whether the server answered, if only that it has nothing to say.
    """

    rows: str = ""
    settings: str = ""
    code: str = ""
    was_asked: bool = True


def env_digest(env: gym.Env[Any, Any]) -> str:
    """The digests of an environment, ``rows=… settings=… code=…``; a part that nobody can know is ``unknown``.

    A served environment has those that its server reports. Reads the source of the packages once in a process; the rows
    of a table are read already, and a million of them take two seconds.
    """
    inner = env.unwrapped
    reported = getattr(inner, "env_digest", None)
    if reported is not None:
        return str(reported)
    task = getattr(inner, "task", None)
    rows, settings, code = UNKNOWN, [_canonical(_settings(env))], [_code(env)]
    if isinstance(task, Task):
        rows = f"generated{TASKS_VERSION}" if (digest := task.rows_digest()) is None else digest
    elif hasattr(inner, "server_digest"):
        server: ServerDigest = inner.server_digest()
        if not server.was_asked:
            return f"rows={server.rows or UNKNOWN} settings={UNKNOWN} code={UNKNOWN}"
        rows = server.rows or UNKNOWN
        settings += [server.settings] if server.settings else []
        code += [server.code] if server.code else []
    return (
        f"rows={rows} settings={digest_of_texts(settings)} code={code[0] if len(code) == 1 else digest_of_texts(code)}"
    )


def differing_parts(first: str, second: str) -> tuple[str, ...]:
    """Which of rows, settings and code two digests differ in; what one of them does not know differs in nothing."""
    first_parts, second_parts = digest_parts(first), digest_parts(second)
    comparable = [
        name for name in PARTS if UNKNOWN not in (first_parts.get(name, UNKNOWN), second_parts.get(name, UNKNOWN))
    ]
    return tuple(name for name in comparable if first_parts[name] != second_parts[name])


def digest_parts(text: str) -> dict[str, str]:
    """The parts of a digest by their names; none of a text that is none."""
    return dict(part.split("=", 1) for part in text.split() if "=" in part)


# settings


def _settings(env: gym.Env[Any, Any]) -> dict[str, Any]:
    inner = env.unwrapped
    task = getattr(inner, "task", None)
    spec = env.spec or inner.spec
    keywords = dict(spec.kwargs) if spec is not None else {}
    settings: dict[str, Any] = {"max_turns": getattr(inner, "max_turns", None)}
    if parts := _mixed(task):
        weights = [float(weight) for weight in getattr(task, "weights", ())]
        settings |= {
            "parts": [[_name(part.env), part.level, _settings(part.env)] for part in parts],
            "weights": weights,
        }
        keywords.pop("envs", None)
        keywords.pop("weights", None)
    elif isinstance(task, Task):
        plain = _innermost(task)
        defaults = {name: value for name, value in _defaults(type(plain)).items() if name not in ELSEWHERE}
        settings |= {name: value for name, value in defaults.items() if name not in plain.row_settings}
        settings["kind"] = _address(type(plain))
        keywords = {name: value for name, value in keywords.items() if name not in plain.row_settings}
    elif hasattr(inner, "played_settings"):
        keywords = dict(inner.played_settings())
    wrappers = [[each.name, each.entry_point, each.kwargs] for each in getattr(spec, "additional_wrappers", ())]
    settings |= {name: value for name, value in keywords.items() if name not in ELSEWHERE}
    return settings | ({"wrappers": wrappers} if wrappers else {})


def _mixed(task: Any) -> tuple[Any, ...]:
    """The parts of a mixture, each with an environment."""
    parts = getattr(task, "parts", ())
    return parts if isinstance(parts, tuple) and all(hasattr(part, "env") for part in parts) else ()


def _name(env: gym.Env[Any, Any]) -> str:
    return env.spec.id if env.spec is not None else _address(type(env.unwrapped))


def _innermost(task: Task[Any]) -> Task[Any]:
    """The task that others hand its tools or its turns to."""
    while isinstance(inner := getattr(task, "task", None), Task):
        task = inner
    return task


def _defaults(kind: type) -> dict[str, Any]:
    parameters = inspect.signature(kind).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_named, skipkeys=True)


def _named(value: Any) -> Any:
    """What JSON does not hold, by what names it: no address in memory, which differs in each process."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(_canonical, value))
    if isinstance(value, Path):
        return str(value)
    return _address(value if hasattr(value, "__qualname__") else type(value))


def _address(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}:{value.__qualname__}"


# code


def _code(env: gym.Env[Any, Any]) -> str:
    return digest_of_texts(source for name in sorted({"rlvr", *_packages(env)}) for source in (name, _source(name)))


def _packages(env: gym.Env[Any, Any]) -> Iterator[str]:
    kinds: list[type] = [type(env.unwrapped)]
    task = getattr(env.unwrapped, "task", None)
    while isinstance(task, Task):
        kinds.append(type(task))
        yield from filter(None, task.packages)
        for part in _mixed(task):
            yield from _packages(part.env)
        task = getattr(task, "task", None)
    while env is not env.unwrapped:
        kinds.append(type(env))
        env = env.env  # type: ignore[attr-defined]
    for kind in kinds:
        for base in kind.__mro__:
            name = base.__module__.partition(".")[0]
            if name not in _STANDARD:
                yield name


@lru_cache(maxsize=64)
def _source(name: str) -> str:
    """A digest of a package's Python files, of ``rlvr`` those of the environments; its version where it has none."""
    module = sys.modules.get("rlvr.envs" if name == "rlvr" else name)
    folders = [Path(path) for path in getattr(module, "__path__", ())]
    file = getattr(module, "__file__", None)
    if module is None and (spec := _spec(name)) is not None:  # only workers import it
        folders, file = [Path(path) for path in spec.submodule_search_locations or ()], spec.origin
    sources = [(path.relative_to(folder), path) for folder in folders for path in folder.rglob("*.py")]
    if not sources and file is not None and Path(file).is_file():
        sources = [(Path(file).relative_to(Path(file).parent), Path(file))]
    if sources:
        ordered = sorted((name.as_posix(), path) for name, path in sources)[:MAX_FILES]
        return digest_of_texts(text for name, path in ordered for text in (name, path.read_bytes().decode("latin-1")))
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _spec(name: str) -> Any:
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None
