"""An environment as a package of verifiers: a module that goes by its name as the id of a task set.

The form is that of verifiers 0.4 (``vf-init`` writes it, ``vf-validate`` and ``vf-eval`` read it). The task set is
`rlvr.adapters.suites.verifiers`; nothing of the environment is copied. The same call writes the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr.adapters.export.package import filled, packaged, write_files
from rlvr.envs.core.files import require_new_folder

FOLDER = Path(__file__).parent / "verifiers_package"
REQUIRED = "verifiers>=0.4,<0.5"


def write_package(env_id: str, out: Path, **settings: Any) -> str:
    """Write the package of an environment into a new folder; its name, which verifiers takes as an id.

    Args:
        settings: of ``gym.make``.

    Raises:
        ValueError: ``out`` is there and no empty folder, or pip could not install the environment elsewhere.
        LinkRefused: ``out`` is a symbolic link.
        OSError: it cannot be written.
    """
    require_new_folder(out)
    env = packaged(env_id, **settings)
    values = {**env.values(), "verifiers": REQUIRED}
    templates = {f"{env.name}.py": "module.py", "pyproject.toml": "pyproject.toml", "README.md": "README.md"}
    write_files(out, ((path, filled(FOLDER / f"{name}.txt", values)) for path, name in templates.items()))
    return values["project"]
