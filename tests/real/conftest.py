"""The folder of SmolLM2, made once outside the checkout; where its package cannot be had, every test here skips."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..algorithms.runs import RunServer
from ..smollm2 import smollm2_folder


@pytest.fixture(scope="session")
def smollm2(request: pytest.FixtureRequest) -> Path:
    if "real" not in request.config.getoption("markexpr"):
        pytest.skip("real weights are tested by make test-real alone")
    pytest.importorskip("peft")
    return smollm2_folder()


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
