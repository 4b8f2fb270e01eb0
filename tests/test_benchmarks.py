"""Each benchmark starts as the other commands do: with PYTHONSAFEPATH, from any folder."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from .architecture import ROOT

PROGRAMS = [
    path for path in sorted((ROOT / "benchmarks").glob("*.py")) if "argparse" in path.read_text(encoding="utf-8")
]
NEEDS = {"ray_actors": "ray"}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_each_benchmark_starts(program, tmp_path):
    needed = NEEDS.get(program.stem)
    if needed and find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    done = subprocess.run([sys.executable, program, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
