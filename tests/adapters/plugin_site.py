"""A plug-in as pip leaves it, made without pip: what `rlvr new` writes, and the metadata that name its entry point."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from rlvr.envs.template import env_id, new_package

NAME = "made_up_env"
ID = env_id(NAME)


def install_plugin(site: Path) -> dict[str, str]:
    """Install it into a folder; the environment of processes that see it."""
    new_package(NAME, site.parent)
    written = site.parent / NAME
    shutil.copytree(written / "src" / NAME, site / NAME)
    project = tomllib.loads((written / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = site / f"{NAME}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {project['version']}\n")
    ((name, address),) = project["entry-points"]["rlvr.envs"].items()
    (metadata / "entry_points.txt").write_text(f"[rlvr.envs]\n{name} = {address}\n")
    return seeing(site)


def seeing(*folders: Path) -> dict[str, str]:
    """The environment of processes that import from these folders, too."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONSAFEPATH": "1"}


def export_plugin(variables: dict[str, str], flag: str, out: Path, *words: str) -> str:
    """``rlvr export`` of it; what the command prints."""
    command = [sys.executable, "-m", "rlvr", "export", flag, ID, "--out", str(out), *words]
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout
