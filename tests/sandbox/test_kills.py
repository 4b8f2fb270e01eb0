"""When parts of the sandbox are killed: no verdict that counts is changed, the next program runs, nothing is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, SandboxError

from .conftest import alive, children_of, processes_under, sandbox_folders, supervisor_of, worker_of

pytestmark = pytest.mark.sandbox
ROW = {"entry_point": "f", "tests": [{"args": [2], "expected": 4}, {"args": [3], "expected": 6}]}
JUDGED = {"test_list": ["assert f(2) == 4", "assert f(3) == 6"], "entry_point": "f"}
RIGHT = "import time\ndef f(x):\n    time.sleep({})\n    return 2 * x"
AMPLE = Limits(seconds=60.0)
DEADLINE = 60.0  # to wait for what takes milliseconds on a quiet machine


@pytest.fixture
def box(tier: str) -> Iterator[Sandbox]:
    with Sandbox(tier=tier, parallel=4) as box:
        assert box.run_python("1").ok
        yield box


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.01)


def leaves(root: int) -> set[int]:
    """Processes below one that have no children: the zygote, or while it runs one, the program."""
    return {pid for pid in processes_under(root) if not children_of(pid)}


def program_of(box: Sandbox, at_rest: set[int]) -> int:
    """Wait for the first process of the one program that runs, and until it does so."""
    found: list[int] = []

    def started() -> bool:
        new = processes_under(supervisor_of(box)) - at_rest
        found[:] = [pid for pid in new if not children_of(pid) and new == {pid}]
        return bool(found)

    wait_until(started)
    return found[0]


SUPERVISOR = {"guardian": lambda box: supervisor_of(box), "worker": lambda box: worker_of(supervisor_of(box))}


def kill_while(box: Sandbox, victim: Callable[[Sandbox], int], work: Callable[[], object]) -> tuple[object, set[int]]:
    """Kill a process once a program runs. What came of the work (or its error), and all processes there were.

    On a busy machine what was seen may not have been the program yet. Where the supervisor dies before it has the
    program, the sandbox starts another; so that one is killed as well.
    """
    at_rest, old = processes_under(supervisor_of(box)), set[int]()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(work)
        program_of(box, at_rest)
        while not coming.done():
            supervisor = supervisor_of(box)
            old |= processes_under(supervisor) | {supervisor}
            with contextlib.suppress(OSError):
                os.kill(victim(box), signal.SIGKILL)
            wait_until(lambda before=supervisor: coming.done() or supervisor_of(box) != before)
            if not coming.done():
                time.sleep(1.0)  # the new one starts
        error = coming.exception()
        return (coming.result() if error is None else error), old


@pytest.mark.parametrize("part", SUPERVISOR)
def test_supervisor_that_is_killed_under_programs(part: str, box: Sandbox) -> None:
    verdict, old = kill_while(
        box, SUPERVISOR[part], lambda: grade_code(RIGHT.format(5), ROW, seconds=30.0, sandbox=box)
    )
    assert isinstance(verdict, Verdict)
    assert verdict.status == "verifier_error"
    assert "supervisor" in verdict.reason
    assert grade_code(RIGHT.format(0), ROW, seconds=30.0, sandbox=box).reward == 1.0
    assert grade_code("def f(x): return x", ROW, seconds=30.0, sandbox=box).status == "wrong"
    wait_until(lambda: not any(alive(pid) for pid in old))


@pytest.mark.parametrize("part", SUPERVISOR)
def test_run_raises_when_the_supervisor_is_killed(part: str, box: Sandbox) -> None:
    error, old = kill_while(box, SUPERVISOR[part], lambda: box.run_python("import time; time.sleep(60)", limits=AMPLE))
    assert isinstance(error, SandboxError)
    assert "supervisor" in str(error)
    assert box.run_python("print(1)").stdout == "1\n"
    wait_until(lambda: not any(alive(pid) for pid in old))


@pytest.mark.parametrize("part", SUPERVISOR)
def test_session_raises_when_the_supervisor_is_killed(part: str, box: Sandbox) -> None:
    with box.session(AMPLE) as session:
        assert session.run("x = 1").ok
        os.kill(SUPERVISOR[part](box), signal.SIGKILL)
        with pytest.raises(SandboxError):
            session.run("import time; time.sleep(5); x")
        assert not session.alive
    with box.session(AMPLE) as session:
        assert session.run("2").stdout == "2\n"


@pytest.mark.slow
@pytest.mark.parametrize("part", SUPERVISOR)
def test_supervisor_that_is_killed_at_rest_is_replaced(part: str, box: Sandbox) -> None:
    for _ in range(3):
        before = supervisor_of(box)
        os.kill(SUPERVISOR[part](box), signal.SIGKILL)
        wait_until(lambda before=before: not alive(before))
        assert box.run_python("print(1)").stdout == "1\n"
        assert supervisor_of(box) != before


def test_closing_after_a_kill_leaves_nothing(tier: str) -> None:
    for part in SUPERVISOR.values():
        before = sandbox_folders()
        box = Sandbox(tier=tier)
        session = box.session()
        session.run("import subprocess; subprocess.Popen(['sleep', '600']); open('x', 'w').write('x')")
        old = processes_under(supervisor_of(box)) | {supervisor_of(box)}
        os.kill(part(box), signal.SIGKILL)
        session.close()
        box.close()
        wait_until(lambda old=old: not any(alive(pid) for pid in old))
        wait_until(lambda before=before: sandbox_folders() <= before)


ENDS = """
import os, signal, time
from rlvr.envs.sandbox import supervisor

def sandbox():
    info, other = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        while True: signal.pause()
    os.close(other)
    return supervisor._Sandbox(pid, info, None, None)

def cost(count):
    made = supervisor._Supervisor(None, -1, -1)
    made._sandboxes = {each.pid: each for each in (sandbox() for _ in range(count))}
    began = time.process_time()
    made.end_all()
    took = time.process_time() - began
    assert not supervisor._descendants(os.getpid(), set())
    return took

supervisor.kernel.become_subreaper()
one, many = (min(cost(count) for _ in range(5)) for count in (1, 24))
print(many / one)
"""


def test_the_half_of_a_supervisor_that_is_left_ends_many_sandboxes_at_once() -> None:
    """What is left of it is there until it has ended them all: on a busy machine, longer than it takes them to die."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8, "each costs as much as the first"


@pytest.mark.slow
def test_zygote_that_is_killed_costs_no_verdict(box: Sandbox) -> None:
    """At rest, and under a program: that one is started again."""
    for _ in range(3):
        for pid in processes_under(worker_of(supervisor_of(box))):
            with contextlib.suppress(ProcessLookupError):  # it may have ended with the one before
                os.kill(pid, signal.SIGKILL)
        assert box.run_python("print(1)").stdout == "1\n"

    def zygote(box: Sandbox) -> int:
        return children_of(worker_of(supervisor_of(box))).pop()

    verdict, _ = kill_while(box, zygote, lambda: grade_code(RIGHT.format(0.5), ROW, seconds=30.0, sandbox=box))
    assert isinstance(verdict, Verdict)
    assert verdict.reward == 1.0, verdict


@pytest.mark.slow
def test_program_that_is_killed_from_outside_is_started_again(box: Sandbox) -> None:
    at_rest = processes_under(supervisor_of(box))
    code = "import time; time.sleep(4); print('done')"
    result, _ = kill_while(box, lambda box: program_of(box, at_rest), lambda: box.run_python(code, limits=AMPLE))
    assert getattr(result, "stdout", result) == "done\n"


@pytest.mark.slow
def test_program_that_is_killed_while_its_zygote_gets_no_processor(box: Sandbox) -> None:
    """Its channel is closed at once, its end is told late: it has not hung up."""
    at_rest = processes_under(supervisor_of(box))
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(grade_code, RIGHT.format(3), ROW, seconds=30.0, sandbox=box)
        program = program_of(box, at_rest)
        zygote = int(Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(zygote, signal.SIGSTOP)
        os.kill(program, signal.SIGKILL)
        done, _ = wait([coming], timeout=1.5)
        os.kill(zygote, signal.SIGCONT)
        assert not done, coming.result()
        assert coming.result(DEADLINE).reward == 1.0


CPU_LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\ndef f(x):\n    while True: pass"


def test_program_cannot_let_the_kernel_kill_it_before_its_time(box: Sandbox) -> None:
    verdict = grade_code(CPU_LIMIT, ROW, seconds=5.0, sandbox=box)
    assert (verdict.status, verdict.valid) == ("wrong", True), verdict
    shown = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU)[1] > 0)"
    assert box.run_python(shown).stdout == "True\n", "the control: to read the limit is allowed"
    other = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)); print('lowered')"
    assert box.run_python(other).stdout == "lowered\n"
    direct = (
        "import ctypes, struct\nlibc = ctypes.CDLL(None, use_errno=True)\nlow = struct.pack('QQ', 1, 1)\n"
        "calls = [(302, 0, 0, low, None), (160, 0, low)] if __import__('os').uname().machine == 'x86_64' else "
        "[(261, 0, 0, low, None), (164, 0, low)]\nprint([libc.syscall(*call) for call in calls])"
    )
    assert box.run_python(direct).stdout == "[-1, -1]\n"


@pytest.mark.slow
def test_program_that_kills_itself_is_held_to_account(box: Sandbox) -> None:
    """On T3 it cannot: it is process 1 of its namespace, and such signals are lost."""
    verdict = grade_code("import os\ndef f(x): os.kill(os.getpid(), 9)", ROW, seconds=10.0, sandbox=box)
    assert verdict.status == "wrong"
    result = box.run_python("import os; os.kill(os.getpid(), 9)")
    assert result.status == ("ok" if box.tier == "T3" else "killed")
    with box.session() as session:
        assert session.run("import os; os.kill(os.getpid(), 9)").status == ("ok" if box.tier == "T3" else "killed")


@pytest.mark.slow
def test_storm_of_kills_changes_no_verdict(tier: str) -> None:
    dice = random.Random(1)
    jobs = [(RIGHT.format(0.05), ROW, 1.0), (RIGHT.format(0.05), JUDGED, 1.0), ("def f(x): return x", ROW, 0.0)] * 16
    over = threading.Event()
    with Sandbox(tier=tier, parallel=4) as box, ThreadPoolExecutor(4) as pool:
        assert box.run_python("1").ok
        seen: set[int] = set()

        def kill() -> int:
            kills = 0
            while not over.wait(0.1) and kills < 30:
                if (supervisor := box.supervisor_pid) is None:  # one was killed, and the next is not there yet
                    continue
                there = sorted(processes_under(supervisor) | {supervisor})
                seen.update(there)
                try:
                    os.kill(dice.choice(there), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                kills += 1
            return kills

        with ThreadPoolExecutor(1) as killer:
            killed = killer.submit(kill)
            verdicts = list(pool.map(lambda job: (job, grade_code(*job[:2], seconds=30.0, sandbox=box)), jobs))
            over.set()
            assert killed.result() >= 5
        changed = [(job[2], verdict) for job, verdict in verdicts if verdict.valid and verdict.reward != job[2]]
        assert changed == []
        assert grade_code(RIGHT.format(0), JUDGED, seconds=30.0, sandbox=box).reward == 1.0
        seen |= processes_under(supervisor_of(box)) | {supervisor_of(box)}
    wait_until(lambda: not any(alive(pid) for pid in seen))
