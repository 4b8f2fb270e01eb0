"""No program finds in its memory what another was about: no program, no input, no file, and never a hidden test."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, native
from rlvr.envs.sandbox.running import Running

from .conftest import processes_under, supervisor_of, worker_of
from .scan import PREFIX, REPORT, SCANNER, Canaries, plant

pytestmark = pytest.mark.sandbox
AMPLE = Limits(seconds=60.0)


@pytest.fixture
def single(tier: str) -> Iterator[Sandbox]:
    """A sandbox with one warm interpreter: what runs next runs where the last one did."""
    with Sandbox(tier=tier, parallel=1) as box:
        yield box


def found_by(box: Sandbox, code: str = REPORT) -> list[str]:
    result = box.run_python(code, limits=AMPLE)
    assert result.ok, result.stderr
    count, seen, *canaries = result.stdout.split()
    assert int(seen) > 8 << 20, "the scanner saw less than an interpreter has"
    assert int(count) == len(canaries)
    return canaries


def kinds(canaries: list[str], new: Canaries) -> Counter[str]:
    return Counter(new.made.get(canary, "a canary of nobody") for canary in canaries)


# --- the controls: the scanner finds what is there ---------------------------------------------------------


@pytest.mark.slow
def test_scanner_finds_its_own_canary(single: Sandbox) -> None:
    packed = "__import__('binascii').b2a_base64(({} + 'ab' * 8).encode())"
    for kept in ("{} + 'ab' * 8", "({} + 'ab' * 8).encode()", "'é😀'[:1] + {} + 'ab' * 8", packed):
        assert found_by(single, f"kept = {kept.format(repr(PREFIX))}\n{REPORT}") == [PREFIX + "ab" * 8]


@pytest.mark.slow
def test_scanner_finds_what_a_process_had_read_before_it_forked(single: Sandbox) -> None:
    """What a zygote would leak if it read requests itself: text that was parsed, used and dropped before the fork."""
    code = f"""
import json, os
def request():
    fields = json.dumps({{"code": "x" * 999, "stdin": {PREFIX!r} + "cd" * 8, "argv": ["x" * 99]}})
    return len(json.loads(fields)["stdin"])
for _ in range(3):
    request()
if os.fork():
    os.wait()
else:
    exec({REPORT!r})
"""
    assert PREFIX + "cd" * 8 in found_by(single, code)


def test_scanner_finds_earlier_calls_of_its_own_session(single: Sandbox) -> None:
    new = Canaries()
    with single.session(AMPLE) as session:
        session.run(f"x = {new('an earlier call')!r}\ndel x")
        output = session.run(f"{REPORT}")
        assert set(output.stdout.split()[2:]) == set(new.made)


# --- nothing of others is there --------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_program_finds_what_an_earlier_one_was_about(single: Sandbox) -> None:
    new = Canaries()
    for _ in range(2):
        plant(single, new)
    assert len(new.made) > 6000
    assert kinds(found_by(single), new) == {}
    with single.session(AMPLE) as session:
        assert session.run(REPORT).stdout.startswith("0 ")
    row = {"entry_point": "f", "tests": [{"args": [PREFIX], "expected": 0}]}
    verdict = grade_code(f"{SCANNER}\ndef f(prefix): return len(scan(prefix)[0])", row, sandbox=single, seconds=60.0)
    assert verdict.reward == 1.0, verdict


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 8])
def test_nor_what_others_are_about_at_the_same_time(threads: int, tier: str) -> None:
    new = Canaries()
    with Sandbox(tier=tier, parallel=threads) as box, ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: plant(box, new, slow=False), range(threads * 3)))
        together = threading.Barrier(threads)

        def scan(number: int) -> list[str]:
            together.wait(60)
            if number % 2:
                plant(box, new, slow=False)
            return found_by(box)

        found = [canary for each in pool.map(scan, range(threads)) for canary in each]
    assert kinds(found, new) == {}


# --- pools ----------------------------------------------------------------------------------------------------


def test_tests_that_are_code_never_run_where_programs_do(single: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: dict[int, set[str]] = {}
    start = native.NativeBackend.start

    def noted(self: native.NativeBackend, request: dict[str, Any], *rest: Any) -> Running:
        running = start(self, request, *rest)
        ran.setdefault(running._handle.zygote.pid, set()).add(request["mode"])  # type: ignore[attr-defined]
        return running

    monkeypatch.setattr(native.NativeBackend, "start", noted)
    row = {"test_list": ["assert f(1) == 1"], "entry_point": "f"}
    for _ in range(5):
        assert grade_code("def f(x): return x", row, sandbox=single).reward == 1.0
        assert single.run_python("1").ok
    assert sorted(map(sorted, ran.values())) == [["calls", "script"], ["referee"]]


def test_interpreters_are_renewed(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_RENEWED_AFTER", 3)
    with Sandbox(tier=tier, parallel=1) as box:
        assert box.run_python("1").ok
        worker = worker_of(supervisor_of(box))
        first = processes_under(worker)
        until = time.monotonic() + 60
        while first & processes_under(worker) and time.monotonic() < until:
            assert box.run_python("1").ok
        assert not first & processes_under(worker)


# --- thieves --------------------------------------------------------------------------------------------------

# Finds the hidden tests, or somebody's solution, in its memory and answers from them.
THIEF = f"""{SCANNER}
import builtins
def f(x):
    if not hasattr(builtins, "loot"):
        builtins.loot = sorted(scan({PREFIX!r})[0])
    return (builtins.loot or ["nothing"])[x % max(1, len(builtins.loot))]
"""


def _rows(new: Canaries) -> list[tuple[dict[str, object], str]]:
    secret = new("expected value")
    solution = f"def f(x): return {secret!r}"
    return [
        ({"entry_point": "f", "tests": [{"args": [0], "expected": secret}]}, solution),
        ({"prompt": "", "entry_point": "f", "test": f"def check(f):\n    assert f(0) == {secret!r}"}, solution),
        ({"test_list": [f"assert f(0) == {secret!r}"], "entry_point": "f"}, solution),
    ]


@pytest.mark.slow
def test_thieves_are_paid_nothing(single: Sandbox) -> None:
    """48 of them: for each form of tests, 8 before anybody has solved the task in the same sandbox, and 8 after."""
    paid = 0
    for row, solution in _rows(Canaries()):
        for solved in (False, True):
            if solved:
                assert grade_code(solution, row, sandbox=single).reward == 1.0
            for _ in range(8):
                verdict = grade_code(THIEF, row, sandbox=single, seconds=60.0)
                assert verdict.valid, verdict
                paid += verdict.reward > 0
    assert paid == 0
    # The same thief is paid where the answer lies in its own memory: it is no idle thief.
    row, _ = _rows(new := Canaries())[0]
    (secret,) = [canary for canary, kind in new.made.items()]
    assert grade_code(f"planted = {secret!r}\n{THIEF}", row, sandbox=single, seconds=60.0).reward == 1.0
