"""An environment as a package of OpenEnv: ``openenv.yaml``, its server, an image of it, and a plan of validation.

The form is that of OpenEnv 0.10 (``openenv init`` writes it, ``openenv validate``, ``build`` and ``push`` read it). The
server is `rlvr.adapters.suites.openenv`; nothing of the environment is copied. The same call writes the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr.envs.core.files import make_folder, write_whole
from rlvr.envs.core.registry import size_of, splits_of
from rlvr.envs.tasks.digests import env_digest

PORT = 8000  # where OpenEnv's validation and its images look
EPISODE_SECONDS = 600.0
MEMORY_MB, DISK_MB = 1024, 4096
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
    yield "server/app.py", SERVER.format(env_id=env_id, settings=json.dumps(settings, sort_keys=True), port=PORT)
    yield "server/__init__.py", ""
    yield "server/Dockerfile", DOCKERFILE.format(port=PORT)
    yield "__init__.py", ""
    yield "client.py", CLIENT
    yield (
        "pyproject.toml",
        PROJECT.format(
            name=name,
            env_id=env_id,
            version=__version__,
            openenv=REQUIRED,
            extra=EXTRAS.get(family, ""),
            digest=digest,
        ),
    )
    yield (
        "wheels/README.md",
        "`pip` looks here first: put wheels that no index has, such as one of rlvr, in here.\n",
    )
    options = "".join(f" --set {key}={json.dumps(value)}" for key, value in sorted(settings.items()))
    yield "README.md", README.format(name=name, env_id=env_id, given=options, port=PORT, digest=digest)


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


SERVER = '''"""{env_id} behind OpenEnv's server."""

import argparse
import json

import uvicorn
from rlvr.adapters.suites.openenv import server_app

# One reward for the episode, with its last step, would be reward_at_end=True.
app = server_app("{env_id}", json.loads({settings!r}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default={port})
    options = parser.parse_args()
    # A client that generates for long in its event loop answers no ping meanwhile, and is still there.
    uvicorn.run(app, host=options.host, port=options.port, ws_ping_timeout=600)


if __name__ == "__main__":
    main()
'''

CLIENT = '''"""The client of any OpenEnv server: actions and observations are dicts."""

from openenv.core import GenericEnvClient

__all__ = ["GenericEnvClient"]
'''

PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "openenv-{name}"
version = "{version}"
description = "{env_id} for OpenEnv"
requires-python = ">=3.11"
dependencies = ["{openenv}", "rlvr{extra}=={version}"]

[project.scripts]
server = "{name}.server.app:main"

[tool.setuptools]
packages = ["{name}", "{name}.server"]
package-dir = {{ "{name}" = ".", "{name}.server" = "server" }}

[tool.rlvr]
env_digest = "{digest}"
"""

DOCKERFILE = """FROM python:3.11-slim

COPY . /app/env
WORKDIR /app/env
RUN pip install --no-cache-dir --find-links wheels . && useradd --create-home --uid 10001 player

USER player
EXPOSE {port}
HEALTHCHECK --interval=30s --timeout=3s --start-period=30s \\
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/health', timeout=2)"]
CMD ["python", "-m", "server.app", "--host", "0.0.0.0", "--port", "{port}"]
"""

README = """---
title: {name}
sdk: docker
app_port: {port}
tags:
  - openenv
---

# {name}

{env_id} of rlvr for OpenEnv, written by `rlvr export --openenv {env_id}{given}`.

    python -m server.app --port {port}       # in this folder, where openenv and rlvr are installed
    openenv validate . --level static
    openenv build .                         # needs docker

An action is `{{"message": "…"}}`; the next message stands in `text` of the observation. There is no token: whoever
reaches the address may play.

When this was written, the tasks had the digest `{digest}`; the server
reports that of the tasks which it serves, at `/metadata`.
"""
