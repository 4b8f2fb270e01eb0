"""What some tests need of the machine."""

from __future__ import annotations

import shutil
import sys

import pytest

from rlvr.envs.sandbox import SandboxUnavailable
from rlvr.envs.sandbox.images import run_in_image
from rlvr.envs.sandbox.probes import NATIVE, probe_tier


def _runs_images() -> bool:
    try:
        return run_in_image(b"", "true").exit_code == 0
    except (SandboxUnavailable, OSError):
        return False


def has_rocq() -> bool:
    """Whether the programs of the Rocq prover are here."""
    return all(map(shutil.which, ("coqc", "coqchk")))


# A task of these takes seconds: sweeps over all ids draw few of them, and the tests of each draw more.
COSTLY = {"rlvr/RepoRepair-v0", "rlvr/RepoFeature-v0", "rlvr/Research-v0", "rlvr/Terminal-v0", "rlvr/Rocq-v0"}

needs_images = pytest.mark.skipif(not _runs_images(), reason="needs bubblewrap, user namespaces and python3 below /usr")
needs_rocq = pytest.mark.skipif(not has_rocq(), reason="needs coqc and coqchk: apt-get install coq")
needs_sandbox = pytest.mark.skipif(not any(probe_tier(tier).holds for tier in NATIVE), reason="no sandbox tier holds")
needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux ends the processes of a dead parent, and /proc shows it"
)
