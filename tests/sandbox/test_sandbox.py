"""What the sandbox promises to honest programs and to its user, on every tier this machine has."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, SandboxError, plans
from rlvr.envs.sandbox.probes import probe_tier

from ..children import start
from .conftest import alive, processes_under, sandbox_folders, supervisor_of
from .hostile import JUDGED, PROGRAMS, ROW, SOLUTION

pytestmark = pytest.mark.sandbox
SLACK = 1.5  # above the promised half second, for a loaded machine


def test_python_program_runs_as_a_script(sandbox: Sandbox) -> None:
    code = """
import sys, helper
assert __name__ == "__main__"
print(helper.twice(input()), sys.argv[1:], open("data/x.bin", "rb").read())
print("warn", file=sys.stderr)
sys.exit(3)
"""
    files = {"helper.py": "def twice(x): return x * 2", "data/x.bin": b"\xff\x00"}
    result = sandbox.run_python(code, "ab\n", files, argv=["one", "two"])
    assert (result.status, result.exit_code, result.stderr) == ("error", 3, "warn\n")
    assert result.stdout == "abab ['one', 'two'] b'\\xff\\x00'\n"
    assert result.tier == sandbox.tier
    assert not result.unsafe


def test_traceback_names_the_program_and_nothing_of_ours(sandbox: Sandbox) -> None:
    result = sandbox.run_python("def g():\n    return 1 / 0\ng()\n")
    assert result.exit_code == 1
    assert 'File "main.py", line 2, in g' in result.stderr
    assert "ZeroDivisionError" in result.stderr
    assert "rlvr" not in result.stderr
    assert "SyntaxError" in sandbox.run_python("def (").stderr


def test_ends_as_the_interpreter_does(sandbox: Sandbox) -> None:
    code = """
import atexit, threading, time
atexit.register(print, "handler")
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
print("main")
"""
    assert sandbox.run_python(code).stdout == "main\nthread\nhandler\n"
    assert sandbox.run_python("raise SystemExit('because')").stderr == "because\n"
    assert sandbox.run_python("exit()").ok


def test_bytes_that_are_not_text(sandbox: Sandbox) -> None:
    result = sandbox.run_python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", b"\xff\x00ok")
    assert result.stdout == "\ufffd\x00ok"
    assert sandbox.run_python("print(input() * 2)", "é😀").stdout == "é😀é😀\n"


def test_shell(sandbox: Sandbox) -> None:
    result = sandbox.run_shell("read x; echo $((x * 2)) $NAME | tr a-z A-Z; exit 4", "21\n", env={"NAME": "me"})
    assert (result.stdout, result.exit_code) == ("42 ME\n", 4)
    assert sandbox.run_shell("echo $((6 * 7)) > f; cat f; ls").stdout == "42\nf\n"


def test_environment_is_clean_and_folder_empty(sandbox: Sandbox, host: object) -> None:
    result = sandbox.run_python(
        "import os; print(sorted(os.environ), os.listdir('.'), os.listdir(os.environ['TMPDIR']))"
    )
    assert result.stdout == "['HOME', 'LANG', 'PATH', 'PYTHONHASHSEED', 'TMPDIR'] ['main.py'] ['main.py']\n"


PROGRAMS_THAT_DO_NOT_END = {
    "sleep": "import time\ntime.sleep(60)",
    "loop": "import signal\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "regular expression in C": "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
    "daemon that holds the pipe": "import os, time\nif os.fork() == 0: time.sleep(60)\ntime.sleep(60)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS_THAT_DO_NOT_END)
def test_deadline_holds(name: str, sandbox: Sandbox) -> None:
    result = sandbox.run_python(
        "print('here', flush=True)\n" + PROGRAMS_THAT_DO_NOT_END[name], limits=Limits(seconds=0.5)
    )
    assert result.seconds - result.held_seconds < 0.5 + 0.5 + SLACK
    assert (result.status, result.exit_code, result.stdout) == ("time_limit", None, "here\n")


def test_daemon_does_not_keep_a_finished_run_open(sandbox: Sandbox) -> None:
    result = sandbox.run_python("import os, time\nif os.fork() == 0: time.sleep(60)\nprint('done')")
    assert (result.status, result.stdout) == ("ok", "done\n")


def test_output_is_cut_and_the_program_ended(sandbox: Sandbox) -> None:
    limits = Limits(seconds=20, output_bytes=10_000)
    result = sandbox.run_python("while True: print('x' * 99)", limits=limits)
    assert (result.status, len(result.stdout)) == ("output_limit", 10_000)
    assert sandbox.run_python("print('x' * 9_000)", limits=limits).ok


def test_resource_limits(sandbox: Sandbox) -> None:
    limits = Limits(processes=5, memory_mb=128, disk_mb=2, open_files=20)
    forks = (
        "import os, signal\nn = 0\ntry:\n    while n < 50:\n        if os.fork() == 0: signal.pause()\n        n += 1\n"
    )
    assert int(sandbox.run_python(forks + "except OSError: print(n)", limits=limits).stdout) <= 5
    assert "MemoryError" in sandbox.run_python("bytearray(256 << 20)", limits=limits).stderr
    assert sandbox.run_python("bytearray(64 << 20)", limits=limits).ok
    disk = "for n in range(9):\n    with open(str(n), 'wb') as f: f.write(bytes(1 << 20))\nimport time; time.sleep(2)"
    assert not sandbox.run_python(disk, limits=limits).ok
    assert sandbox.run_python("open('f', 'wb').write(bytes(1 << 20))", limits=limits).ok
    assert (
        "Too many open files" in sandbox.run_python("f = [open('/dev/null') for _ in range(50)]", limits=limits).stderr
    )


def test_honest_programs_have_their_tools(sandbox: Sandbox) -> None:
    code = """
import asyncio, concurrent.futures, random, subprocess, sys, threading
async def main(): await asyncio.sleep(0); return 1
print(asyncio.run(main()))
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(lambda x: x, range(9))))
print(subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True, text=True).stdout.strip())
import dataclasses, decimal, fractions, json, tempfile, unittest
with tempfile.NamedTemporaryFile("w+") as f: f.write("x"); f.seek(0); print(f.read())
"""
    result = sandbox.run_python(code)
    assert result.stdout == "1\n36\n5\nx\n", result.stderr


def test_two_runs_get_different_numbers_of_the_machine(sandbox: Sandbox) -> None:
    code = "import random; print(random.SystemRandom().random())"
    assert sandbox.run_python(code).stdout != sandbox.run_python(code).stdout


# --- sessions --------------------------------------------------------------------------------------------


def test_session_keeps_its_names(sandbox: Sandbox) -> None:
    with sandbox.session(files={"x.txt": "7"}) as session:
        assert session.run("x = int(open('x.txt').read())\nimport math").stdout == ""
        assert session.run("x + 1").stdout == "8\n"
        failed = session.run("y = 3\n1 / 0")
        assert failed.status == "error"
        assert "ZeroDivisionError" in failed.stderr
        assert "<cell 2>" in failed.stderr
        assert session.run("print(y); math.floor(2.5)").stdout == "3\n2\n"
        assert session.run("def (").status == "error"
        assert session.alive


@pytest.mark.slow
def test_session_deadline_is_for_each_call(sandbox: Sandbox) -> None:
    with sandbox.session(Limits(seconds=0.6)) as session:
        for _ in range(3):
            assert session.run("import time; time.sleep(0.3)").ok
        late = session.run("print('begun', flush=True)\nwhile True: pass")
        assert late.seconds - late.held_seconds < 0.6 + 0.5 + SLACK
        assert (late.status, late.stdout) == ("time_limit", "begun\n")
        assert not session.alive
        with pytest.raises(SandboxError, match="has ended"):
            session.run("1")


def test_session_that_exits(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        assert session.run("import sys; sys.exit(5)").exit_code == 5
        assert not session.alive


def test_session_that_talks_out_of_turn(sandbox: Sandbox) -> None:
    with sandbox.session(Limits(seconds=2)) as session:
        assert session.run("import os; os.write(4, b'{}\\n')").status == "killed"
        assert not session.alive


def test_sessions_do_not_take_turns_from_runs(sandbox: Sandbox) -> None:
    sessions = [sandbox.session() for _ in range(6)]
    assert [s.run(f"{n}").stdout for n, s in enumerate(sessions)] == [f"{n}\n" for n in range(6)]
    assert sandbox.run_python("print(1)").ok
    for session in sessions:
        session.close()


# --- threads, asyncio, ends ------------------------------------------------------------------------------


def test_from_threads(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(lambda n: sandbox.run_python(f"print({n})").stdout, range(64)))
    assert results == [f"{n}\n" for n in range(64)]


def test_from_asyncio(sandbox: Sandbox) -> None:
    async def many() -> list[str]:
        programs = (sandbox.arun_python(f"print({n})") for n in range(32))
        shells = (sandbox.arun_shell(f"echo {n}") for n in range(32))
        return [result.stdout for result in await asyncio.gather(*programs, *shells)]

    assert asyncio.run(many()) == [f"{n}\n" for n in range(32)] * 2


def test_cancelling_ends_the_program(tier: str) -> None:
    async def cancelled(box: Sandbox) -> None:
        task = asyncio.create_task(box.arun_python("import time; time.sleep(60)", limits=Limits(seconds=60)))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Sandbox(tier=tier, parallel=1) as box:
        asyncio.run(cancelled(box))
        waiting = ThreadPoolExecutor(1).submit(box.run_python, "print(1)")
        assert waiting.result(45).ok  # there is one turn only: it must be free before the 60 s are over


def test_closing_leaves_nothing(tier: str) -> None:
    before = sandbox_folders()
    box = Sandbox(tier=tier)
    session = box.session()
    session.run("import subprocess; subprocess.Popen(['sleep', '60']); open('x', 'w').write('x')")
    box.run_python("print(1)")
    supervisor = supervisor_of(box)
    below = processes_under(supervisor)
    assert below
    box.close()
    assert not [pid for pid in (*below, supervisor) if os.path.exists(f"/proc/{pid}")]
    assert sandbox_folders() <= before
    with pytest.raises(SandboxError, match="closed"):
        box.run_python("print(1)")


def test_nothing_survives_the_death_of_its_user(tier: str) -> None:
    code = f"""
import os, sys, threading
from rlvr.envs.sandbox import Limits, Sandbox
box = Sandbox(tier={tier!r})
box.run_python("1")
run = lambda: box.run_python("import os, time; os.fork(); time.sleep(600)", limits=Limits(seconds=600))
threading.Thread(target=run, daemon=True).start()
print(box.supervisor_pid, flush=True)
sys.stdin.read()
"""
    user = start([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert user.stdout is not None
    supervisor = int(user.stdout.readline())
    until = time.monotonic() + 60
    while len(below := processes_under(supervisor)) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(below) >= 3
    user.send_signal(signal.SIGKILL)
    user.wait()
    until = time.monotonic() + 60
    left: list[int] = [supervisor]
    while left and time.monotonic() < until:
        time.sleep(0.05)
        left = [pid for pid in (*below, supervisor) if alive(pid)]
    assert left == []


def test_works_in_a_forked_process(sandbox: Sandbox) -> None:
    read, write = os.pipe()
    assert sandbox.run_python("print(1)").ok
    child = os.fork()
    if child == 0:
        try:
            os.write(write, sandbox.run_python("print('from the child')").stdout.encode())
            sandbox.close()
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 100) == b"from the child\n"
    os.waitpid(child, 0)
    assert sandbox.run_python("print(2)").stdout == "2\n"


# --- arguments -------------------------------------------------------------------------------------------


def test_packages_can_be_imported_and_not_written(tier: str, tmp_path: Path) -> None:
    (tmp_path / "gadget.py").write_text("VALUE = 42")
    tmp_path.chmod(0o755)  # below pytest's own folder, which stays closed
    code = "import gadget; print(gadget.VALUE); open(gadget.__file__, 'w')"
    with Sandbox(tier=tier, packages=[str(tmp_path)]) as box:
        result = box.run_python(code)
    assert result.stdout == "42\n"
    assert result.exit_code == 1
    assert (tmp_path / "gadget.py").read_text() == "VALUE = 42"


def test_programs_see_no_installed_packages(sandbox: Sandbox) -> None:
    """What is installed beside the interpreter differs from machine to machine, and may hold what a task asks for."""
    folders = plans.site_folders(os.path.realpath(sys.base_prefix))
    if not folders or (sandbox.tier == "T2" and not plans.can_mount()):
        pytest.skip("nothing is installed where programs may read, or it cannot be covered")
    result = sandbox.run_shell(f"ls -A {' '.join(folders)}; touch {folders[0]}/x || echo read-only")
    assert [line for line in result.stdout.split("\n") if line and not line.endswith(":")] == ["read-only"]


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "", "a//b", "a\0b"])
def test_files_stay_in_their_folder(path: str, sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="relative"):
        sandbox.run_python("1", files={path: "x"})


@pytest.mark.parametrize("change", [{"seconds": 0}, {"memory_mb": -1}, {"processes": True}, {"seconds": float("nan")}])
def test_limits_are_checked(change: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        Limits(**change)


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tier must be"):
        Sandbox(tier="T9")
    with pytest.raises(ValueError, match="unsafe_local"):
        Sandbox(tier="T3", unsafe_local=True)
    with pytest.raises(ValueError, match="folders"):
        Sandbox(packages=[str(tmp_path / "absent")])


def test_unsafe_local_is_recorded_in_every_result() -> None:
    with Sandbox(unsafe_local=True) as box:
        result = box.run_python("print(input())", "x")
        assert (result.stdout, result.tier, result.unsafe) == ("x\n", "T0", True)
        assert box.run_shell("echo $HOME/x | wc -l").stdout.strip() == "1"
        with box.session() as session:
            assert session.run("x = 2; x").stdout == "2\n"
            assert session.run("x + 1").unsafe
        late = box.run_python("while True: pass", limits=Limits(seconds=0.5))
        assert (late.status, late.unsafe) == ("time_limit", True)


def test_import_is_light() -> None:
    heavy = ("torch", "sympy", "transformers", "datasets")
    code = f"import sys, rlvr.envs.sandbox; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- containers ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_container_tier() -> None:
    """Needs docker or podman that works, and its image: set RLVR_CONTAINER_IMAGE."""
    image = os.environ.get("RLVR_CONTAINER_IMAGE", "")
    if not image or not probe_tier("T1", image).holds:
        pytest.skip("RLVR_CONTAINER_IMAGE names no image that runs here")
    with Sandbox(tier="T1", image=image) as box:
        result = box.run_python("print(input(), open('x').read())", "hi", {"x": "1"})
        assert (result.stdout, result.tier) == ("hi 1\n", "T1")
        assert box.run_shell("exit 3").exit_code == 3
        with box.session() as session:
            assert session.run("x = 2; x").stdout == "2\n"
            assert session.run("x + 1").stdout == "3\n"
        late = box.run_python("while True: pass", limits=Limits(seconds=3))
        assert late.status == "time_limit"
        assert grade_code(SOLUTION, JUDGED, sandbox=box).reward == 1.0
        for name in ("always equal", "expected from frames", "exit in the call", "forged replies", "reads the host"):
            assert grade_code(PROGRAMS[name], ROW, sandbox=box).reward == 0.0
    with pytest.raises(ValueError, match="packages from the image"):
        Sandbox(tier="T1", image=image, packages=["/usr/lib"])
