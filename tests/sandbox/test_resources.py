"""Nobody starves another: idle sandboxes stand still, deadlines are of a program's own time, memory is counted."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, SandboxStarved, native, plans, progress, running
from rlvr.envs.tools.kits import Workspace
from rlvr.envs.tools.tool import ToolFault

from ..children import start
from .conftest import processes_under, supervisor_of
from .hostile import ROW, SOLUTION

pytestmark = pytest.mark.sandbox
SPIN = "while True: pass"
BESIDE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with its test
WORK = "import time\nwhile time.process_time() < 0.2: pass\n"
CORES = len(os.sched_getaffinity(0))

BURNERS = {
    "child": "import os\nif os.fork() == 0:\n    while True: pass\n",
    "children in sessions of their own": (
        "import os\nfor _ in range(3):\n    if os.fork() == 0:\n"
        "        try: os.setsid()\n        except OSError: pass\n"
        "        while True: pass\n"
    ),
    "thread": (
        "import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn, daemon=True).start()\n"
    ),
    "shell": "import subprocess\nsubprocess.Popen(['sh', '-c', 'trap \"\" TSTP CONT HUP; while :; do :; done'])\n",
    "wakes itself by a timer": (
        "import ctypes, os, struct, signal\n"
        "libc = ctypes.CDLL(None)\n"
        "if os.fork() == 0:\n"
        "    event = ctypes.create_string_buffer(struct.pack('Pii', 0, signal.SIGCONT, 0), 64)\n"
        "    timer = ctypes.c_void_p()\n"
        "    if libc.timer_create(1, event, ctypes.byref(timer)) == 0:\n"
        "        libc.timer_settime(timer, 0, struct.pack('qqqq', 0, 10**6, 0, 10**6), None)\n"
        "    while True: pass\n"
    ),
    "orphan that the end of its parent wakes": (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    ballast = bytearray(300 << 20)\n"
        "    if os.fork() == 0:\n"
        "        try: os.setpgid(0, 0)\n"
        "        except OSError: pass\n"
        "        signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "        while True: pass\n"
        "    time.sleep(0.02)\n"
        "    os._exit(0)\n"
    ),
}


@contextlib.contextmanager
def spinning(count: int) -> Iterator[None]:
    """Other work on the machine, each in a session of its own: none of it the sandbox's."""
    others = [start([sys.executable, "-I", "-S", "-c", BESIDE], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.fixture
def one_core() -> Iterator[None]:
    """The test and all that it starts share a core: the others are for the tests beside it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


def cpu_of(pids: set[int]) -> float:
    """Processor seconds of processes, children that they have waited for included."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def rate(box: Sandbox, seconds: float) -> float:
    """Processors that everything in a sandbox keeps busy."""
    before, started = cpu_of(processes_under(supervisor_of(box))), time.monotonic()
    time.sleep(seconds)
    return (cpu_of(processes_under(supervisor_of(box))) - before) / (time.monotonic() - started)


def settles(box: Sandbox) -> bool:
    """Whether nothing burns within a while: what is halted needs a moment, the more so on a busy machine."""
    return any(rate(box, 0.5) < 0.02 for _ in range(40))


# --- between calls ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", BURNERS)
def test_nothing_burns_between_calls(name: str, tier: str) -> None:
    with Sandbox(tier=tier, parallel=1) as box, box.session(Limits(memory_mb=1024)) as session:
        assert session.run(BURNERS[name]).ok
        assert settles(box)
        assert rate(box, 1.0) < 0.02
        assert session.run("6 * 7").stdout == "42\n"
        assert settles(box)


@pytest.fixture
def without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where no control group can be made."""
    for name in ("cgroup_parents", "_share_parents"):
        monkeypatch.setattr(f"rlvr.envs.sandbox.plans.{name}", list)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["child", "children in sessions of their own", "shell"])
def test_nothing_burns_between_calls_without_a_control_group(name: str, tier: str, without_groups: None) -> None:
    with Sandbox(tier=tier, parallel=1) as box, box.session(Limits(memory_mb=1024)) as session:
        assert session.run(BURNERS[name]).ok
        assert not any(progress.has_bounded_memory(pid) for pid in processes_under(supervisor_of(box)))
        assert settles(box)
        assert session.run("6 * 7").stdout == "42\n"
        assert settles(box)


def test_control_a_burner_burns_where_nothing_halts_it(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "pause_soon", lambda *_: None)
    with Sandbox(tier=tier, parallel=1) as box, box.session() as session:
        assert session.run(BURNERS["child"]).ok
        assert any(rate(box, 0.5) > 0.05 for _ in range(20))


@pytest.mark.slow
def test_what_stood_still_goes_on_with_the_next_call(tier: str) -> None:
    count = (
        "import threading, time\nn = 0\ndef tick():\n    global n\n    while True:\n        n += 1\n"
        "        time.sleep(0.001)\nthreading.Thread(target=tick, daemon=True).start()"
    )
    with Sandbox(tier=tier, parallel=1) as box, box.session() as session:
        assert session.run(count).ok
        time.sleep(0.3)
        before = int(session.run("n").stdout)
        time.sleep(1.0)
        assert int(session.run("n").stdout) - before < 300, "it ran between the calls"
        assert session.run("m = n\nwhile n < m + 20: time.sleep(0.001)").ok


@pytest.mark.slow
def test_a_halted_session_is_ended_like_any_other(tier: str) -> None:
    with Sandbox(tier=tier, parallel=1) as box:
        rest = None
        for _ in range(3):
            with box.session() as session:
                session.run(BURNERS["child"])
                assert settles(box)
            assert box.run_python("print(1)").stdout == "1\n"
            alive = len(processes_under(supervisor_of(box)))
            rest = rest or alive
            assert alive <= rest


@pytest.fixture(params=["a freezer", "signals"])
def halted_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tier: str) -> str:
    """Both ways to halt a terminal."""
    if request.param == "signals":
        monkeypatch.setattr(native, "group_of", lambda pid: None)
        return "signals"
    with Sandbox(tier=tier, parallel=1) as box:
        box.run_python("1")
        if not any(progress.group_of(pid) for pid in processes_under(supervisor_of(box))):
            pytest.skip("no control group of version 2 can be made here")
    return "a freezer"


# Lines that leave something burning: at once, later, in short commands, two shells deep.
BURNING_JOBS = {
    "a job": ["(while :; do :; done) &"],
    "a job that begins to burn later": ["(sleep 1; while :; do :; done) &"],
    "short commands": ["(while :; do expr 1 + 1 > /dev/null; done) &"],
    "a shell in the shell": ["bash --norc --noprofile", "(while :; do :; done) &"],
    "what ignores its terminal": ["(trap '' HUP TERM INT TSTP CONT; while :; do :; done) &"],
    "several": ["for i in 1 2 3 4; do (while :; do :; done) & done"],
}


@pytest.fixture
def type_line(tier: str, halted_by: str) -> Iterator[tuple[Sandbox, Callable[..., str]]]:
    with Sandbox(tier=tier, parallel=1, terminals=True) as box, box.terminal(TERMINAL) as terminal:
        yield (
            box,
            lambda line, seconds=10.0: terminal.type([(f"{line}\r".encode(), 0.0)], seconds).printed.decode(),
        )


TERMINAL = Limits(seconds=60.0, processes=64)


@pytest.mark.slow
@pytest.mark.parametrize("name", BURNING_JOBS)
def test_jobs_of_a_terminal_stand_still_between_keys_and_do_not_notice(
    name: str, type_line: tuple[Sandbox, Callable[..., str]]
) -> None:
    box, typed = type_line
    output = "".join(typed(line, 0.4) for line in BURNING_JOBS[name])
    assert settles(box)
    for _ in range(2):
        output += typed("kill -0 $! && echo ali''ve", 0.4)
        assert settles(box)
    assert output.count("alive") == 2
    assert "Stopped" not in output
    assert "done" in typed("kill -9 $!; wait $!; echo do''ne")


@pytest.mark.slow
def test_a_command_in_the_foreground_goes_on_after_a_halt(type_line: tuple[Sandbox, Callable[..., str]]) -> None:
    box, typed = type_line
    output = typed("python3 -c 'import time\nwhile time.process_time() < 1.5: pass\nprint(6 * 7)'", 0.1)
    assert "42" not in output
    assert settles(box)
    for _ in range(20):
        output += typed("", 2.0)
        if "42" in output:
            break
    assert "42" in output
    assert "Stopped" not in output


@pytest.mark.slow
def test_a_job_that_its_user_has_stopped_stays_so(type_line: tuple[Sandbox, Callable[..., str]], tier: str) -> None:
    if tier == "T2":
        pytest.skip("a terminal of T2 has no job control")
    box, typed = type_line
    typed("sleep 300", 0.2)
    assert "Stopped" in typed("\x1a", 2.0)
    typed("(while :; do :; done) &", 0.5)
    assert settles(box)
    assert "Stopped" in typed("jobs", 2.0)


@pytest.mark.slow
def test_control_a_job_burns_where_nothing_halts_it(
    monkeypatch: pytest.MonkeyPatch, type_line: tuple[Sandbox, Callable[..., str]]
) -> None:
    monkeypatch.setattr(running, "pause_soon", lambda *_: None)
    box, typed = type_line
    typed(BURNING_JOBS["a job"][0], 0.5)
    assert any(rate(box, 0.5) > 0.05 for _ in range(20))


# --- deadlines -------------------------------------------------------------------------------------------


@pytest.fixture(params=["by its control group", "by its processes"])
def seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to see what a program gets of the machine."""
    if request.param == "by its processes":
        monkeypatch.setattr(native, "group_of", lambda pid: None)
    elif progress.group_of(os.getpid()) is None:
        with Sandbox(parallel=1) as box:
            box.run_python("1")
            if not any(progress.group_of(pid) for pid in processes_under(supervisor_of(box))):
                pytest.skip("no control group of version 2 can be made here")
    return request.param


@pytest.mark.slow
def test_a_busy_machine_does_not_use_up_a_programs_time(tier: str, seen: str, one_core: None) -> None:
    with Sandbox(tier=tier, parallel=1) as box, spinning(8):
        result = box.run_python(WORK, limits=Limits(seconds=0.6))
        assert result.ok, result
        with box.session(Limits(seconds=0.6)) as session:
            assert session.run("x = 1").ok
            assert session.run(
                WORK.replace("while", "until = time.process_time() + 0.2\nwhile").replace("< 0.2", "< until")
            ).ok


@pytest.mark.slow
def test_a_caller_that_is_kept_from_looking_does_not_use_up_a_programs_time(
    tier: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sandbox(tier=tier, parallel=1) as box, box.session(Limits(seconds=0.6)) as session:
        assert session.run("import time\ntime.sleep(0.1)").ok
        waits, poll = [0.7], select.poll
        monkeypatch.setattr(select, "poll", lambda: (time.sleep(waits.pop() if waits else 0.0), poll())[1])
        assert session.run("time.sleep(0.8)").ok


WRONG: dict[str, Callable[[], str]] = {
    "burns": lambda: SPIN,
    "sleeps": lambda: "import time\ntime.sleep(600)",
    "blocks": lambda: "import os\nr, w = os.pipe()\nos.read(r, 1)",
    "forks burners": lambda: "import os\nfor _ in range(12):\n    if os.fork() == 0: break\nwhile True: pass",
    "sleeps beside burners": lambda: (
        "import os, time\nfor _ in range(12):\n    if os.fork() == 0:\n        while True: pass\ntime.sleep(600)"
    ),
    "burns unseen": lambda: (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "def chain():\n    while True:\n        t = time.time()\n        while time.time() - t < 0.002: pass\n"
        "        try:\n            if os.fork(): os._exit(0)\n        except OSError: pass\n"
        "for _ in range(12):\n    if os.fork() == 0: chain()\nwhile True: pass"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_no_program_excuses_itself(name: str, tier: str, seen: str) -> None:
    row = {"entry_point": "f", "tests": [{"args": [1], "expected": 1}]}
    code = "def f(x):\n" + "".join(f"    {line}\n" for line in WRONG[name]().splitlines())
    with Sandbox(tier=tier, parallel=1) as box:
        verdict = grade_code(f"```python\n{code}```", row, seconds=0.3, total_seconds=1.0, sandbox=box)
    assert (verdict.status, verdict.reward) == ("wrong", 0.0), verdict


@pytest.mark.slow
def test_sleeping_is_as_short_on_a_busy_machine(tier: str, seen: str, one_core: None) -> None:
    with Sandbox(tier=tier, parallel=1) as box, spinning(4):
        result = box.run_python("import time\ntime.sleep(600)", limits=Limits(seconds=1.0))
        assert result.status == "time_limit"
        assert result.held_seconds < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("each", "status"), [(1.0, "time_limit"), (0.3, "ok")])
def test_all_processes_of_a_program_share_its_processor_time(each: float, status: str, tier: str, seen: str) -> None:
    code = f"""
import os, time
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        while time.process_time() < {each}: pass
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
"""
    with Sandbox(tier=tier, parallel=1) as box:
        assert box.run_python(code, limits=Limits(seconds=2.0)).status == status


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 2.0)
    monkeypatch.setattr(running, "patience", lambda: 2.0)


@pytest.mark.slow
def test_a_machine_too_busy_is_our_fault(tier: str, seen: str, impatient: None, one_core: None) -> None:
    row = {"entry_point": "f", "tests": [{"args": [1], "expected": 1}]}
    code = "```python\ndef f(x):\n    while True: pass\n```"
    with Sandbox(tier=tier, parallel=1) as box:
        box.run_python("1")
        with spinning(8):
            with pytest.raises(SandboxStarved, match="too busy"):
                box.run_python(SPIN, limits=Limits(seconds=1.0))
            verdict = grade_code(code, row, seconds=1.0, sandbox=box)
            assert (verdict.status, verdict.valid) == ("timeout", False)
            asleep = grade_code(code.replace("while True: pass", "import time; time.sleep(600)"), row, seconds=1.0,
                                sandbox=box)  # fmt: skip
            assert (asleep.status, asleep.reward) == ("wrong", 0.0), "asleep by its own choice"
        assert grade_code(SOLUTION, ROW, sandbox=box).reward == 1.0


@pytest.mark.slow
def test_a_tool_on_a_machine_too_busy_is_our_fault(impatient: None) -> None:
    kit = Workspace("python", limits=Limits(seconds=1.0))
    session = kit.open()
    try:
        with spinning(8 * CORES), pytest.raises(ToolFault) as fault:
            kit.run(session, kit.tools[0], {"code": SPIN}, 1.0)
        assert fault.value.status == "timeout"
    finally:
        kit.close(session)


@pytest.mark.slow
@pytest.mark.parametrize("burners", [0, 1, 4])
def test_correct_replies_stay_right_beside_burners(burners: int, tier: str) -> None:
    row = {"entry_point": "f", "tests": [{"args": [4], "expected": 16}]}
    code = f"```python\ndef f(x):\n    {WORK.strip().replace(chr(10), chr(10) + '    ')}\n    return x * x\n```"
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(Sandbox(tier=tier, parallel=4))
        for _ in range(burners):
            stack.enter_context(box.session()).run(BURNERS["children in sessions of their own"])
        with ThreadPoolExecutor(4) as pool:
            verdicts = list(pool.map(lambda _: grade_code(code, row, seconds=0.5, sandbox=box), range(8)))
    assert [verdict.status for verdict in verdicts] == ["correct"] * 8


# --- memory and names ------------------------------------------------------------------------------------


def test_memory_that_no_limit_counts_cannot_be_had(tier: str) -> None:
    code = """
import ctypes, os, mmap
libc = ctypes.CDLL(None, use_errno=True)
def refused(work):
    try: return work() is False
    except (OSError, MemoryError, ValueError): return True
print(refused(lambda: os.memfd_create("x")),
      libc.syscall(447, 0) < 0,
      libc.shmget(0, 1 << 20, 0o1600) < 0,
      refused(lambda: mmap.mmap(-1, 1 << 30)),
      os.path.exists("main.py"))
"""
    with Sandbox(tier=tier, parallel=1) as box:
        assert box.run_python(code, limits=Limits(memory_mb=256)).stdout == "True True True True True\n"


HOARDERS = {  # each process stays far below its own limit
    "processes": "for n in range(8):\n    if os.fork() == 0: break\nelse: time.sleep(600)\nown = hoard()\n",
    "shared memory": "own = mmap.mmap(-1, 60 << 20)\nfill(own)\nmore = [hoard() for _ in range(3)]\n",
}
HOARD = """
import mmap, os, time
def fill(held):
    for at in range(0, len(held), 4096): held[at] = 1
    return held
def hoard(): return fill(bytearray(30 << 20))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", HOARDERS)
def test_memory_of_all_processes_together_is_bounded_without_a_control_group(
    name: str, tier: str, without_groups: None
) -> None:
    code = HOARD + HOARDERS[name] + "while True: time.sleep(1)"
    limits = Limits(seconds=60.0, memory_mb=256)
    with Sandbox(tier=tier, parallel=1, total_memory_mb=100) as box:
        assert box.run_python("print(1)").stdout == "1\n"
        result = box.run_python(code, limits=limits)
        assert (result.status, result.exit_code) == ("memory_limit", None), result
        few = (
            "own = hoard()\nfor _ in range(6):\n    if os.fork() == 0:\n        time.sleep(0.3)\n        os._exit(0)\n"
        )
        shared = HOARD + few + "time.sleep(0.5)\nprint('fine')"  # seven times 40 MiB, but for one page of each process
        assert box.run_python(shared, limits=limits).stdout == "fine\n"
        with box.session(limits) as session:
            assert session.run(HOARD + "own = hoard()").ok
            assert session.run("more = [hoard() for _ in range(4)]\nwhile True: time.sleep(1)").status == (
                "memory_limit"
            )


@pytest.mark.slow
def test_control_where_a_control_group_can_be_made_the_kernel_bounds_the_memory(tier: str) -> None:
    if not plans.cgroup_parents():
        pytest.skip("no control group can be made here")
    with Sandbox(tier=tier, parallel=1, total_memory_mb=100) as box:
        assert box.run_python("1").ok
        assert any(progress.has_bounded_memory(pid) for pid in processes_under(supervisor_of(box)))
        code = HOARD + HOARDERS["processes"] + "while True: time.sleep(1)"
        result = box.run_python(code, limits=Limits(seconds=2.0, memory_mb=256))
        assert result.status != "memory_limit", "the kernel ends single processes, not the run"


def test_code_that_is_over_its_memory_is_wrong_and_says_why(tier: str, without_groups: None) -> None:
    code = HOARD + "def f(*x):\n    held = [hoard() for _ in range(4)]\n    time.sleep(600)\n    return x\n"
    with Sandbox(tier=tier, parallel=1, total_memory_mb=100) as box:
        verdict = grade_code(code, ROW, seconds=60.0, memory_mb=512, sandbox=box)
    assert (verdict.status, verdict.valid) == ("wrong", True), verdict
    assert "memory limit" in verdict.reason, verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", ["removed", "never named"])
def test_files_without_a_name_count(name: str, tier: str) -> None:
    how = {
        "removed": "f = open(str(n), 'wb'); os.unlink(str(n))",
        "never named": "f = open(os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o600), 'wb')",
    }[name]
    code = f"""
import os, time
kept = []
try:
    for n in range(20):
        {how}
        kept.append(f)
        f.write(bytes(1 << 20)); f.flush()
except OSError: raise SystemExit(3)
time.sleep(600)
"""
    limits = Limits(seconds=5.0, disk_mb=4)
    with Sandbox(tier=tier, parallel=1) as box:
        result = box.run_python(code, limits=limits)
        assert result.status == "disk_limit" or result.exit_code == 3, result
        few = box.run_python(code.replace("range(20)", "range(2)").replace("sleep(600)", "sleep(0.3)"), limits=limits)
        assert few.ok, few
        hides = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
        result = box.run_python(hides + code, limits=limits)
        assert result.status == "disk_limit" or result.exit_code == 3, result


@pytest.mark.slow
def test_what_holds_files_open_and_ends_is_not_taken_for_full(tier: str) -> None:
    with Sandbox(tier=tier, parallel=1) as box:
        for _ in range(10):
            code = "import os, time\nfor _ in range(5):\n    if os.fork() == 0: os._exit(0)\ntime.sleep(0.12)\nprint(1)"
            assert box.run_python("x = bytearray(100 << 20)\n" + code).stdout == "1\n"


def test_names_of_the_host_are_not_told_as_they_change(tier: str, host: tuple[Path, Path]) -> None:
    code = f"""
import ctypes, select, os
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(0x800)
if watch >= 0 and libc.inotify_add_watch(watch, {str(host[1])!r}.encode(), 0x100) >= 0:
    print("ready", flush=True)
    select.select([watch], [], [], 2.0)
    print(os.read(watch, 4096))
"""
    with Sandbox(tier=tier, parallel=1) as box, ThreadPoolExecutor(1) as pool:
        done = pool.submit(box.run_python, code)
        while not done.done():
            (host[1] / "telling-name").touch()
            time.sleep(0.02)
            (host[1] / "telling-name").unlink()
        assert "telling-name" not in done.result().stdout


def test_coreutils_have_another_way_without_timers(tier: str) -> None:
    with Sandbox(tier=tier, parallel=1) as box:
        # On T2 a program has one process group: without this option `timeout` ends the shell as well.
        option = "--foreground" if tier == "T2" else ""
        result = box.run_shell(f"timeout {option} 0.2 sleep 60; echo $?; timeout 5 echo fine")
        assert result.stdout == "124\nfine\n", result
