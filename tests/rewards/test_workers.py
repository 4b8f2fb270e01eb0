"""The worker pool: a stuck, dead or greedy job ends alone; threads, asyncio, forks and exits leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr.envs.rewards import agrade, grade
from rlvr.envs.rewards.workers import WorkerError, WorkerPool, WorkerSpent, WorkerTimeout, shared_pool

from ..needs import needs_linux

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the pool needs POSIX processes")

HANG = ("time:sleep", [600])
SPIN = ("math:factorial", [10**9])  # one call into C that holds the interpreter's lock
SAME = "rlvr.envs.rewards.expressions.symbolic:same_trees"
GOOD = (SAME, [["num", "", "1", "2", []], ["num", "", "2", "4", []]])


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(size=4)
    pool.warm()
    yield pool
    pool.close()


def alive(pid: int) -> bool:
    """Not ended; one that only waits for its new parent to read its status has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def gone(pids: list[int], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(alive(pid) for pid in pids):
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


@pytest.mark.parametrize(("stuck", "ends"), [(HANG, WorkerTimeout), (SPIN, WorkerSpent)])
def test_a_hanging_grade_then_a_hundred_good_ones(
    pool: WorkerPool, stuck: tuple[str, list[int]], ends: type[WorkerError]
) -> None:
    """Who waits runs over the wall time, who computes over the processor time: the two are told apart."""
    with pytest.raises(ends, match="limit"):
        pool.call(*stuck, timeout=0.3, wall=0.3 if stuck is HANG else None)
    assert [pool.call(*GOOD, timeout=5.0) for _ in range(100)] == [True] * 100


def test_stuck_grades_do_not_delay_the_next() -> None:
    """Three of four workers hang; a hundred grades go through the fourth meanwhile."""
    pool = WorkerPool(size=4)
    pool.warm()
    hanging = [threading.Thread(target=pool.attempt, args=(*HANG, 0.05, 30.0)) for _ in range(3)]
    for thread in hanging:
        thread.start()
    results = [pool.attempt(*GOOD, 5.0) for _ in range(100)]
    assert all(thread.is_alive() for thread in hanging)
    assert results == [("done", True)] * 100
    pool.close()
    for thread in hanging:
        thread.join()


def test_thirty_two_threads_with_hostile_and_good_jobs(pool: WorkerPool) -> None:
    jobs = [HANG if index % 16 == 0 else GOOD for index in range(64)]
    with ThreadPoolExecutor(32) as threads:
        results = list(threads.map(lambda job: pool.attempt(*job, 5.0, 0.5 if job is HANG else None), jobs))
    assert [status for status, _ in results] == ["timeout" if job is HANG else "done" for job in jobs]


@pytest.mark.slow
def test_a_hanging_grade_from_thirty_two_threads_leaves_a_hundred_right() -> None:
    stuck = threading.Thread(target=shared_pool().attempt, args=(*HANG, 1.0, 1.0))
    stuck.start()
    texts = [("\\boxed{\\sin 2x}", "2 \\sin x \\cos x"), ("\\boxed{72}", "72"), ("\\boxed{\\frac12}", "0.5")] * 34
    with ThreadPoolExecutor(32) as threads:
        verdicts = list(threads.map(lambda pair: grade("math", *pair, timeout=30.0), texts))
    stuck.join()
    assert [verdict.reward for verdict in verdicts] == [1.0] * 102


@pytest.mark.slow
def test_asyncio_stays_free_while_a_job_hangs() -> None:
    async def scene() -> tuple[list[float], int]:
        ticks = 0

        async def clock() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(clock())
        hang = asyncio.create_task(shared_pool().acall(*HANG, timeout=0.5, wall=0.5))
        pairs = [("math", "\\boxed{\\sin 2x}", "2 \\sin x \\cos x"), ("number", "\\boxed{72}", "72")] * 50
        verdicts = await asyncio.gather(*(agrade(kind, text, gold) for kind, text, gold in pairs))
        with pytest.raises(WorkerTimeout):
            await hang
        ticking.cancel()
        return [verdict.reward for verdict in verdicts], ticks

    rewards, ticks = asyncio.run(scene())
    assert rewards == [1.0] * 100
    assert ticks >= 10


def test_a_timeout_is_not_a_wrong_answer() -> None:
    verdicts = [grade("math", "\\boxed{\\frac{n(n+1)}{2}}", "\\sum_{k=1}^{n} k", timeout=1e-6) for _ in range(50)]
    # On a busy machine a worker may have answered before the clock is looked at.
    assert {"timeout"} <= {verdict.status for verdict in verdicts} <= {"timeout", "correct"}
    assert all(verdict.valid == (verdict.status == "correct") for verdict in verdicts)


@pytest.mark.parametrize(
    ("target", "args", "message"),
    [
        ("os:_exit", [3], "died"),
        ("builtins:bytearray", [4 << 30], "out of memory"),
        ("math:sqrt", [-1], "ValueError"),
        ("no_such_module:f", [], "ModuleNotFoundError"),
        ("builtins:set", [], "not JSON serializable"),
        ("builtins:str.no", [], "AttributeError"),
        ("operator:mul", ["x", 10_000_000], "bytes"),
        ("signal:raise_signal", [9], "died"),
    ],
)
def test_a_job_that_fails_says_how_and_harms_no_other(
    pool: WorkerPool, target: str, args: list[object], message: str
) -> None:
    with pytest.raises(WorkerError, match=message):
        pool.call(target, args, 10.0)
    assert pool.call(*GOOD, timeout=5.0) is True


def test_workers_hold_no_secrets_and_write_no_files(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    fresh = WorkerPool(size=1)
    try:
        assert fresh.call("os:getenv", ["API_KEY"], 30.0) is None
        with pytest.raises(WorkerError):
            fresh.call("rlvr.envs.rewards.expressions.symbolic:no_such", [], 5.0)
        assert fresh.call("resource:getrlimit", [1], 5.0) == [0, 0]  # RLIMIT_FSIZE
    finally:
        fresh.close()


def test_close_leaves_no_process() -> None:
    pool = WorkerPool(size=2)
    pool.warm()
    stuck = threading.Thread(target=pool.attempt, args=(*SPIN, 20.0))
    stuck.start()
    until(lambda: len(pool.pids()) >= 2)
    pids = pool.pids()
    pool.close()
    assert gone(pids)
    stuck.join(10.0)
    assert not stuck.is_alive()
    with pytest.raises(WorkerError, match="closed"):
        pool.call(*GOOD, timeout=1.0)


@needs_linux
def test_a_killed_zygote_is_replaced() -> None:
    pool = WorkerPool(size=2)
    try:
        pool.warm()
        first, *workers = pool.pids()
        os.kill(first, 9)
        assert gone(workers)  # the kernel kills them with it
        assert pool.call(*GOOD, timeout=10.0) is True
        assert pool.pids()[0] != first
    finally:
        pool.close()


SCRIPT = textwrap.dedent(
    """
    import os, sys, threading, time
    from rlvr.envs.rewards.workers import shared_pool
    pool = shared_pool()
    pool.warm()
    for target, args in (("time:sleep", [600]), ("math:factorial", [10**9])):
        threading.Thread(target=pool.attempt, args=(target, args, 500.0), daemon=True).start()
    while len(pool.pids()) < 3:
        time.sleep(0.01)
    print(*pool.pids(), flush=True)
    {ending}
    """
)


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)", "raise SystemExit('no')"])
def test_no_worker_outlives_the_process_however_it_ends(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(ending=ending)], capture_output=True, text=True, timeout=120
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 3, done.stderr
    assert gone(pids)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    script = textwrap.dedent(
        """
        import os, sys
        from rlvr.envs.rewards import grade
        def ok():
            return grade("math", r"\\boxed{\\sin 2x}", r"2 \\sin x \\cos x", timeout=30.0).reward == 1
        assert ok()
        children = [os.fork() for _ in range(2)]
        if 0 in children:
            sys.exit(0 if ok() else 1)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(codes, ok())
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[0, 0] True", done.stderr
