"""The probe tells what holds; where nothing does, there is one clear refusal. Nothing is simulated above the kernel:
the tests take rights away from a real process, as a container does, and look at what the probe then finds."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys

import pytest

from rlvr.envs.sandbox import Sandbox, SandboxUnavailable, doctor, probe
from rlvr.envs.sandbox.probes import TIERS, probe_tier

pytestmark = pytest.mark.sandbox

on_x86_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the filter is written for x86-64 Linux"
)

# What docker's default profile refuses: namespaces and mounts.
NAMESPACES = {"unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155}
LANDLOCK = {"landlock_create_ruleset": 444}


def without(calls: dict[str, int], code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process whose kernel refuses some calls, and clone into new namespaces."""
    rows = [(0x20, 0, 0, 0)]
    for number in calls.values():
        rows += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
    rows += [(0x15, 0, 1, 435), (0x06, 0, 0, 0x00050026)]
    rows += [(0x15, 0, 3, 56), (0x20, 0, 0, 16), (0x45, 0, 1, 0x7E020000), (0x06, 0, 0, 0x00050001)]
    rows.append((0x06, 0, 0, 0x7FFF0000))
    program = b"".join(struct.pack("HBBI", *row) for row in rows)
    script = (
        "from rlvr.envs.sandbox.inside import kernel\nkernel.no_new_privileges()\n"
        f"kernel.install_seccomp({program!r})\n{code}"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PATH": "/nowhere"},
    )  # fmt: skip


def test_report_names_every_tier_and_every_remedy() -> None:
    report = probe()
    assert [t.tier for t in report.tiers] == list(TIERS)
    assert report.tier == next((t.tier for t in report.tiers if t.holds), "T0")
    text = doctor()
    for tier in report.tiers:
        assert f"{tier.tier} {'holds' if tier.holds else 'does not hold'}" in text
        assert tier.holds or (tier.reason in text and tier.remedy in text)
        assert not tier.holds or len(tier.checks) >= 12


@on_x86_linux
def test_no_tier_is_one_clear_refusal() -> None:
    code = """
from rlvr.envs.sandbox import Sandbox, SandboxUnavailable, probe
assert probe().tier == "T0"
try: Sandbox()
except SandboxUnavailable as error: print(error)
from rlvr.envs.rewards import grade
from rlvr.envs.rewards.graders.code import grade_code
row = {"entry_point": "f", "tests": [{"args": [], "expected": 1}]}
try: grade_code("def f(): return 1", row)
except SandboxUnavailable as error: print("refused")
try: grade("code", "def f(): return 1", row)
except SandboxUnavailable as error: print("refused, too")
"""
    done = without(NAMESPACES | LANDLOCK, code)
    assert done.returncode == 0, done.stderr
    for word in ("no sandbox tier holds", "T3", "T2", "Landlock", "T1", "add it:", "rlvr doctor", "unsafe_local=True"):
        assert word in done.stdout
    assert done.stdout.endswith("refused\nrefused, too\n")


@on_x86_linux
def test_without_namespaces_the_next_tier_is_taken() -> None:
    if not probe_tier("T2").holds:
        pytest.skip("this kernel has no Landlock to fall back to")
    done = without(NAMESPACES, "from rlvr.envs.sandbox import Sandbox, doctor\nprint(doctor())\n"
                   "with Sandbox() as box: print(box.run_python('print(6 * 7)'))")  # fmt: skip
    assert "sandbox: T2" in done.stdout, done.stdout + done.stderr
    assert "stdout='42\\n'" in done.stdout


def test_a_demanded_tier_that_does_not_hold_is_refused() -> None:
    missing = [t for t in probe().tiers if not t.holds]
    if not missing:
        pytest.skip("every tier holds here")
    with pytest.raises(SandboxUnavailable, match=missing[0].tier):
        Sandbox(tier=missing[0].tier)
