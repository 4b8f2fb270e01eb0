"""An answer on which the grader runs out earns 0, unless the reference alone runs out; and it holds up no other."""

from __future__ import annotations

import json
import sys
import threading

import pytest

from rlvr.envs.rewards import grade, grade_batch
from rlvr.envs.rewards.workers import WorkerPool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the pool needs POSIX processes")

FOREIGN = r"\sum_{k=1}^{n} k^2"  # outside our own grammar: computer algebra compares
BOMB = r"\boxed{9^{9^{9^{9}}}}"
SPIN = ("math:factorial", [10**9])
GOOD = ("math:factorial", [5])


@pytest.mark.slow
def test_a_bomb_is_not_decided_and_its_reference_is_still_good() -> None:
    verdict = grade("math", BOMB, FOREIGN, timeout=2.0)
    assert (verdict.status, verdict.reward) == ("unparsable", 0.0)
    assert "processor time" in verdict.reason  # the control: it did run out
    assert grade("math", rf"\boxed{{{FOREIGN}}}", FOREIGN).reward == 1.0
    assert [each.status for each in grade_batch("math", [BOMB, BOMB], [FOREIGN] * 2, timeout=2.0)] == ["unparsable"] * 2


def test_a_reference_that_is_a_bomb_itself_is_our_fault() -> None:
    verdict = grade("math", r"\boxed{7}", rf"9^{{9^{{9^{{9}}}}}} + {FOREIGN}", timeout=0.5)
    assert verdict.status == "timeout"
    assert "the reference alone" in verdict.reason


def test_good_jobs_do_not_wait_behind_bombs() -> None:
    """Twenty bombs of a minute each, begun first; the good ones are done while these are under way."""
    pool = WorkerPool(size=2, preload=())
    bombs = [(SPIN[0], [SPIN[1][0] + number]) for number in range(20)]
    waiting = threading.Thread(target=pool.map, args=(bombs, 60.0))
    waiting.start()
    try:
        results = pool.map([GOOD] * 5 + [("math:factorial", [number]) for number in range(5)], 60.0)
        assert waiting.is_alive()
        assert all(status == "done" for status, _ in results), json.dumps(results)
    finally:
        pool.close()
        waiting.join(60.0)
    assert not waiting.is_alive()
