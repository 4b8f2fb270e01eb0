"""What the packages for other suites share: the environment that they hold, what pip installs for it, and their files.

Nothing of the environment is copied: a package names it, and requires the package that registers it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import gymnasium as gym

from rlvr.envs.core.files import make_folder, write_whole
from rlvr.envs.core.registry import size_of, splits_of
from rlvr.envs.plugins import package_of
from rlvr.envs.tasks.digests import env_digest

EXTRAS = {"agentic": "[tools]", "coding": "[hub]", "knowledge": "[hub]", "players": "[games]", "visual": "[visual]"}


@dataclass(frozen=True, slots=True)
class PackagedEnv:
    """An environment as a package for another suite names it.

    Attributes:
        env_id: its id.
        settings: of ``gym.make``.
        name: of the package and of its module, such as ``rlvr_guess_number``.
        version: rlvr's, or that of the plug-in's package.
        requirements: what pip installs, such as ``rlvr[games]==0.1.0``; the package of a plug-in comes second.
        family: of rlvr's families; the namespace of a plug-in's id.
        counts: how many tasks each split has; empty where they are generated without end.
        digest: of its tasks (`rlvr.envs.tasks.digests`).
    """

    env_id: str
    settings: Mapping[str, Any]
    name: str
    version: str
    requirements: tuple[str, ...]
    family: str
    counts: Mapping[str, int]
    digest: str

    def values(self) -> dict[str, str]:
        """What `filled` puts into templates."""
        return {
            "env_id": self.env_id,
            "settings": repr(json.dumps(self.settings, sort_keys=True)),
            "given": "".join(f" --set {key}={json.dumps(value)}" for key, value in sorted(self.settings.items())),
            "name": self.name,
            "project": self.name.replace("_", "-"),
            "version": self.version,
            "requirements": ", ".join(map(json.dumps, self.requirements)),
            "digest": self.digest,
        }


def packaged(env_id: str, **settings: Any) -> PackagedEnv:
    """Read what a package says of an environment.

    Raises:
        ValueError: the environment is neither rlvr's own nor of an installed plug-in, so that pip could not install it
            elsewhere.
    """
    from rlvr import __version__

    env = gym.make(env_id, **settings)
    try:
        size, splits, digest = size_of(env), splits_of(env), env_digest(env)
        module = type(getattr(env.unwrapped, "task", env.unwrapped)).__module__.split(".")
    finally:
        env.close()
    short = env_id.rpartition("/")[2].partition("-v")[0]
    requirements: tuple[str, ...]
    plugin = package_of(env_id)
    if plugin is not None:
        package, version = plugin
        family, requirements = env_id.partition("/")[0], (f"rlvr=={__version__}", f"{package}=={version}")
    elif module[:2] == ["rlvr", "envs"] and module[2] != "bridges":
        family, version = module[2], __version__
        requirements = (f"rlvr{EXTRAS.get(family, '')}=={__version__}",)
    else:
        raise ValueError(
            f"{env_id} is neither rlvr's own nor of an installed plug-in, and whoever gets the package must be able "
            "to install it: `rlvr new` writes a plug-in"
        )
    return PackagedEnv(
        env_id,
        settings,
        name="rlvr_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W+", "_", short).lower(),
        version=version,
        requirements=requirements,
        family=family,
        counts={} if size is None else dict.fromkeys(splits, size),
        digest=digest,
    )


def filled(template: Path, values: Mapping[str, Any]) -> str:
    """A template, in which ``${name}`` stands for a value."""
    return Template(template.read_text(encoding="utf-8")).substitute(values)


def write_files(out: Path, files: Iterable[tuple[str, str]]) -> None:
    """Write files, given as paths and contents, below a folder.

    Raises:
        LinkRefused: a folder is a symbolic link.
        OSError: it cannot be written.
    """
    make_folder(out)
    for path, content in files:
        make_folder((out / path).parent)
        write_whole(out / path, content)
