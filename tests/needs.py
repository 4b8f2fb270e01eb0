"""What some tests need of the machine."""

from __future__ import annotations

import pytest

from rlvr.envs.sandbox import SandboxUnavailable
from rlvr.envs.sandbox.images import run_in_image


def _runs_images() -> bool:
    try:
        return run_in_image(b"", "true").exit_code == 0
    except (SandboxUnavailable, OSError):
        return False


needs_images = pytest.mark.skipif(not _runs_images(), reason="needs bubblewrap, user namespaces and python3 below /usr")
