"""Nobody fills the disk: what a program may write is bounded before it is written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, native, plans

pytestmark = pytest.mark.sandbox
FILL = """
import os
size = 0
try:
    for n in range(1000):
        with open(str(n), "wb") as file:
            {how}
        size += 16
except OSError as error:
    print(size, error.errno)
"""
STREAM = {"tests": [{"stdin": "", "stdout": "2\n"}]}
WAYS = {
    "reserved": "os.posix_fallocate(file.fileno(), 0, 16 << 20)",
    "written": "file.write(bytes(16 << 20))",
    "sparse": "file.truncate(16 << 20); file.write(bytes(16 << 20))",
}


@pytest.fixture(scope="module")
def box(tier: str) -> Iterator[Sandbox]:
    if tier == "T2" and not plans.can_mount():
        pytest.skip("nothing can be mounted here")
    with Sandbox(tier=tier, parallel=2) as box:
        yield box


@pytest.mark.parametrize("way", WAYS)
def test_a_full_folder_is_the_program_s_own(way: str, box: Sandbox) -> None:
    used = shutil.disk_usage(tempfile.gettempdir()).used
    result = box.run_python(FILL.format(how=WAYS[way]))
    assert result.stdout == "48 28\n", result  # ENOSPC, with less than 64 MiB of whole files written
    assert shutil.disk_usage(tempfile.gettempdir()).used - used < 1 << 30
    assert box.run_python("import os; print(os.listdir('.'), os.listdir('/tmp'))").stdout == "['main.py'] ['work']\n"


def test_each_run_has_the_disk_that_it_asks_for(box: Sandbox) -> None:
    for megabytes in (8, 2, 0.5, 8):
        result = box.run_python(
            "import os; s = os.statvfs('.'); print(s.f_blocks * s.f_bsize)", limits=Limits(disk_mb=megabytes)
        )
        assert result.stdout == f"{int(megabytes * 1024) << 10}\n", result


def test_a_program_may_write_where_temporary_files_are(box: Sandbox) -> None:
    assert box.run_python("open('/tmp/x', 'w').write('left'); print(1)").stdout == "1\n"
    assert box.run_python("import os; print(os.listdir('/tmp'), os.getcwd())").stdout == "['work'] /tmp/work\n"
    if shutil.which("ed"):
        assert box.run_shell("printf 'a\\none\\n.\\nw new.txt\\nq\\n' | ed -s; cat new.txt").stdout == "one\n"


def test_a_program_s_packages_may_be_where_temporary_files_are(tier: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        with open(f"{folder}/plain.py", "w") as file:
            file.write("value = 42\n")
        with Sandbox(tier=tier, parallel=1, packages=[folder]) as box:
            assert box.run_python("import plain; print(plain.value)").stdout == "42\n"
        assert os.path.exists(f"{folder}/plain.py")


@pytest.mark.slow
def test_no_run_waits_for_the_folders_of_another(box: Sandbox) -> None:
    nested = "import os\nfor _ in range(4000):\n    os.mkdir('d'); os.chdir('d')"
    flat = "import os\nfor n in range(16000): os.mkdir(str(n))"
    for code in (nested, flat):
        assert box.run_python(code, limits=Limits(seconds=60)).status in ("ok", "error")
        result = box.run_python("import os; print(os.listdir('.'))")
        assert result.stdout == "['main.py']\n"


@pytest.fixture
def without_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that may mount nothing."""
    monkeypatch.setattr(plans, "can_mount", lambda: False)


def test_where_nothing_can_be_mounted_a_folder_is_measured(tier: str, without_mounts: None) -> None:
    if tier == "T3":
        pytest.skip("T3 always mounts")
    code = FILL.format(how=WAYS["written"]) + "import time; time.sleep(600)"
    with Sandbox(tier=tier, parallel=1) as box:
        assert box.run_python("open('x', 'w').write('mine'); print(1)").stdout == "1\n"
        assert box.run_python(code, limits=Limits(seconds=60)).status == "disk_limit"
        assert box.run_python("import os; print(os.listdir('.'))").stdout == "['main.py']\n"


def test_where_nothing_can_be_mounted_no_space_is_reserved(tier: str, without_mounts: None) -> None:
    if tier == "T3":
        pytest.skip("T3 always mounts")
    code = "import ctypes\nfile = open('x', 'wb')\nprint(ctypes.CDLL(None).fallocate(file.fileno(), 0, 0, 1 << 20))"
    with Sandbox(tier=tier, parallel=1) as box:
        assert box.run_python(code).stdout == "-1\n"
        assert box.run_python("import os\nwith open('x', 'wb') as f: os.posix_fallocate(f.fileno(), 0, 9999)").ok


@pytest.mark.parametrize("row", [{"entry_point": "f", "tests": [{"args": [2], "expected": 2}]}, STREAM])
def test_a_disk_that_others_filled_is_no_fault_of_the_program(
    row: dict[str, Any], tier: str, without_mounts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tier == "T3":
        pytest.skip("T3 always mounts")
    code = "import os\ndef f(x): return x\ndef g(): raise OSError(28, os.strerror(28))\n"
    code += "if __name__ == '__main__': g()\nf = lambda x: g()"
    with Sandbox(tier=tier, parallel=1) as box:
        assert grade_code(code, row, sandbox=box).status == "wrong"
        usage = shutil.disk_usage(tempfile.gettempdir())
        monkeypatch.setattr(native.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
        verdict = grade_code(code, row, sandbox=box)
        assert (verdict.status, "full" in verdict.reason) == ("verifier_error", True), verdict
        assert grade_code("def f(x): return x\nprint(2)", row, sandbox=box).reward == 1.0
