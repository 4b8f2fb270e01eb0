"""The folder of SmolLM2, made once outside the checkout; where its package cannot be had, every test here skips."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..algorithms.runs import RunServer
from ..architecture import ROOT


def cache() -> Path:
    """Where the folder is kept between runs of the tests."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvr" / "smollm2-0.1.2"


@pytest.fixture(scope="session")
def smollm2(request: pytest.FixtureRequest) -> Path:
    if "real" not in request.config.getoption("markexpr"):
        pytest.skip("real weights are tested by make test-real alone")
    pytest.importorskip("peft")
    # In a process of its own: tests have no network.
    command = [sys.executable, str(ROOT / "benchmarks" / "smollm2.py"), str(cache())]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONSAFEPATH": "1"})
    if done.returncode == 1 and done.stderr.startswith("smollm2: "):
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return cache()


@pytest.fixture(scope="session")
def loaded(smollm2: Path) -> tuple[Any, Any]:
    """The model and the tokenizer; no test changes the weights."""
    from rlvr.agents.models.tiny import load_policy

    return load_policy(smollm2)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunServer]:
    server = RunServer(tmp_path_factory.mktemp("server"), dict(os.environ))
    yield server
    server.close()
