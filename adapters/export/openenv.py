"""An environment as a package of OpenEnv: ``openenv.yaml``, its server, an image of it, and a plan of validation.

The form is that of OpenEnv 0.10 (``openenv init`` writes it, ``openenv validate``, ``build`` and ``push`` read it). The
server is `rlvr.adapters.suites.openenv`; nothing of the environment is copied. The same call writes the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

import gymnasium as gym

from rlvr.envs.core.files import make_folder, write_whole
from rlvr.envs.core.registry import size_of, splits_of
from rlvr.envs.tasks.digests import env_digest

PORT = 8000  # where OpenEnv's validation and its images look
EPISODE_SECONDS = 600.0
MEMORY_MB, DISK_MB = 1024, 4096
FOLDER = Path(__file__).parent / "openenv_package"  # templates: ${name} stands for a value
TEMPLATES = {
    "server/app.py": "server_app.py",
    "server/Dockerfile": "Dockerfile",
    "client.py": "client.py",
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
}
REQUIRED = "openenv>=0.10,<0.11"
EXTRAS = {"agentic": "[tools]", "coding": "[hub]", "knowledge": "[hub]", "players": "[games]", "visual": "[visual]"}


def write_package(env_id: str, out: Path, **settings: Any) -> str:
    """Write the package of an environment into a new folder; its name.

    Args:
        settings: of ``gym.make``.

    Raises:
        ValueError: ``out`` is there and no empty folder, or the environment is not rlvr's own, such as one of a
            plug-in or of another suite: the image installs rlvr alone.
        LinkRefused: ``out`` is a symbolic link.
        OSError: it cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is there and no empty folder: give another --out")
    env = gym.make(env_id, **settings)
    try:
        size, splits, digest = size_of(env), splits_of(env), env_digest(env)
        module = type(getattr(env.unwrapped, "task", env.unwrapped)).__module__.split(".")
    finally:
        env.close()
    # A plug-in's id may begin with rlvr/, too.
    if module[:2] != ["rlvr", "envs"] or module[2] == "bridges":
        raise ValueError(f"{env_id} is no environment of rlvr's own: the package's image installs rlvr alone")
    family = module[2]
    short = env_id.rpartition("/")[2].partition("-v")[0]
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W+", "_", short).lower()
    counts = {} if size is None else dict.fromkeys(splits, size)
    make_folder(out)
    for path, content in _files(name, env_id, settings, counts, family, digest):
        make_folder((out / path).parent)
        write_whole(out / path, content)
    return name


def _files(
    name: str, env_id: str, settings: Mapping[str, Any], counts: Mapping[str, int], family: str, digest: str
) -> Iterator[tuple[str, str]]:
    """Paths and contents of the folder."""
    from rlvr import __version__

    yield "openenv.yaml", _manifest(name, __version__, counts, family)
    plan = {
        "plan_schema_version": "1",
        "reset": {"episode_id": "validation", "seed": 0, "options": {}},
        "actions": [{"message": "no answer"}],  # no solution of a task stands in the package
    }
    yield "validation/runtime.json", json.dumps(plan, indent=1) + "\n"
    options = "".join(f" --set {key}={json.dumps(value)}" for key, value in sorted(settings.items()))
    values = {
        "name": name,
        "env_id": env_id,
        "settings": repr(json.dumps(settings, sort_keys=True)),
        "given": options,
        "version": __version__,
        "openenv": REQUIRED,
        "extra": EXTRAS.get(family, ""),
        "port": PORT,
        "digest": digest,
    }
    for path, template in TEMPLATES.items():
        yield path, Template((FOLDER / f"{template}.txt").read_text(encoding="utf-8")).substitute(values)
    yield "server/__init__.py", ""
    yield "__init__.py", ""
    yield (
        "wheels/README.md",
        "`pip` looks here first: put wheels that no index has, such as one of rlvr, in here.\n",
    )


def _manifest(name: str, version: str, counts: Mapping[str, int], family: str) -> str:
    capabilities: dict[str, Any] = {"verifier": {"kind": "reward_channel"}, "task_api": True}
    if counts:
        capabilities["declared_task_count"] = dict(counts)
    facts = {
        "spec_version": 1,
        "name": name,
        "version": version,
        "type": "space",
        "runtime": "fastapi",
        "app": "server.app:app",
        "port": PORT,
        "validation": {
            "reward": {"range": [0.0, 1.0], "oracle_tolerance": 0.0, "floor_margin": 0.1},
            "resources": {
                "cpu": 1.0,
                "memory_mb": MEMORY_MB,
                "disk_mb": DISK_MB,
                "episode_timeout_s": EPISODE_SECONDS,
            },
            "capabilities": capabilities,
            "types": {"tags": [family]},
            "execution": {
                "kind": "openenv_ws",
                "probe_path": "validation/runtime.json",
                "dockerfile": "server/Dockerfile",
                "context": ".",
                "agent_boundary": "api",
            },
        },
    }
    return "".join(_yaml(facts))


def _yaml(facts: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Lines of YAML, whose scalars and lists are JSON's."""
    for key, value in facts.items():
        if isinstance(value, dict):
            yield f"{'  ' * depth}{key}:\n"
            yield from _yaml(value, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {json.dumps(value)}\n"
