"""One thread, no network, fixed seeds, made-up data: what every test of this project stands on."""

from __future__ import annotations

import os
import random
import re
import socket
import socketserver
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Before anything imports torch or the hub's client; subprocesses inherit all of it.
os.environ.update(
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    PYTHONSAFEPATH="1",
    RLVR_DATA=str(Path(__file__).parent / "data"),
    RLVR_RESULTS="",  # `rlvr eval` keeps nothing where no --out says so
)

import pytest
from hypothesis import settings

from . import sampling
from .children import child as child_process
from .children import take_default_signals
from .needs import has_rocq

take_default_signals()

report_error = socketserver.BaseServer.handle_error


def handle_error(server: socketserver.BaseServer, request: Any, client_address: Any) -> None:
    """Print what a test's server raises, but not that a client has gone away."""
    if not isinstance(sys.exc_info()[1], ConnectionError):
        report_error(server, request, client_address)


socketserver.BaseServer.handle_error = handle_error  # type: ignore[method-assign]

# The same examples on every run; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_addoption(parser: pytest.Parser) -> None:
    sampling.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    sampling.choose_seed(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    return sampling.header(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.leave_out(config, items)
    lacking = {}
    if find_spec("chess") is None:
        lacking["Chess"] = 'needs the extra games: pip install "rlvr[games]"'
    if not has_rocq():
        lacking["Rocq"] = "needs coqc and coqchk: apt-get install coq"
    for item in items:
        for name, reason in lacking.items():
            if re.search(rf"[\[/-]{name}\b", item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))


LOOPBACK = ("127.", "::1", "localhost")


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.manual_seed(0)
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this machine may be talked to; a test that reaches further fails here and not elsewhere one day."""

    def guarded(connect):
        def attempt(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
                raise OSError(f"tests have no network: {address[0]}")
            return connect(self, address)

        return attempt

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(getattr(socket.socket, name)))


@pytest.fixture
def child() -> Callable[..., AbstractContextManager[subprocess.Popen[Any]]]:
    """``with child(command) as process``: a process with default signals that does not outlive its block."""
    return child_process


@pytest.fixture
def data_folder() -> Path:
    """The folder that RLVR_DATA names during tests: a few made-up rows in the official columns."""
    return Path(os.environ["RLVR_DATA"])
