"""An environment as a package of OpenEnv: ``openenv.yaml``, its server, an image of it, and a plan of validation.

The form is that of OpenEnv 0.10 (``openenv init`` writes it, ``openenv validate``, ``build`` and ``push`` read it). The
server is `rlvr.adapters.suites.openenv`; nothing of the environment is copied. The same call writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlvr.adapters.export.package import PackagedEnv, filled, packaged, write_files
from rlvr.envs.core.files import require_new_folder

PORT = 8000  # where OpenEnv's validation and its images look
EPISODE_SECONDS = 600.0
MEMORY_MB, DISK_MB = 1024, 4096
FOLDER = Path(__file__).parent / "openenv_package"
TEMPLATES = {
    "server/app.py": "server_app.py",
    "server/Dockerfile": "Dockerfile",
    "client.py": "client.py",
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
}
REQUIRED = "openenv==0.10.0"  # one version, as RFC 008 asks (41)


def write_package(env_id: str, out: Path, **settings: Any) -> str:
    """Write the package of an environment into a new folder; its name.

    Args:
        settings: of ``gym.make``.

    Raises:
        ValueError: ``out`` is there and no empty folder, or pip could not install the environment elsewhere.
        LinkRefused: ``out`` is a symbolic link.
        OSError: it cannot be written.
    """
    require_new_folder(out)
    env = packaged(env_id, **settings)
    write_files(out, _files(env))
    return env.name


def _files(env: PackagedEnv) -> Iterator[tuple[str, str]]:
    """Paths and contents of the folder."""
    yield "openenv.yaml", _manifest(env)
    plan = {
        "plan_schema_version": "1",
        "reset": {"episode_id": "validation", "seed": 0, "options": {}},
        "actions": [{"message": "no answer"}],  # no solution of a task stands in the package
    }
    yield "validation/runtime.json", json.dumps(plan, indent=1) + "\n"
    values = {**env.values(), "openenv": REQUIRED, "port": PORT}
    for path, template in TEMPLATES.items():
        yield path, filled(FOLDER / f"{template}.txt", values)
    yield "server/__init__.py", ""
    yield "__init__.py", ""
    yield (
        "wheels/README.md",
        "`pip` looks here first: put wheels that no index has, such as one of rlvr, in here.\n",
    )


def _manifest(env: PackagedEnv) -> str:
    capabilities: dict[str, Any] = {"verifier": {"kind": "reward_channel"}, "task_api": True}
    if env.counts:
        capabilities["declared_task_count"] = dict(env.counts)
    facts = {
        "spec_version": 1,
        "name": env.name,
        "version": env.version,
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
            "types": {"tags": [env.family]},
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
