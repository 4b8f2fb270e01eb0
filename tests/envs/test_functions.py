"""Functions as tools: what may hold the interpreter's lock runs in a process that can be killed."""

from __future__ import annotations

import math
import os
import pickle
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rlvr.envs.tools import Call, Functions, ToolError, ToolFault, write_call
from rlvr.envs.tools.functions.portable import NeedsThisProcess, portable_copy
from rlvr.envs.tools.tool import NotInTime
from rlvr.envs.vector import VectorEnv

PATTERN = re.compile("(a+)+$")
NOTES: list[str] = []


def double(number: int) -> int:
    return 2 * number


def even(number: int) -> bool:
    return number == 0 or odd(number - 1)


def odd(number: int) -> bool:
    return number > 0 and even(number - 1)


def power(base: int, exponent: int) -> str:
    """Raise to a power."""
    return str(base**exponent % 97)


def match(text: str) -> str:
    """Match."""
    return str(bool(PATTERN.match(text)))


def describe(number: int, digits: int = 2) -> str:
    """Describe."""
    if number == 1:
        raise ToolError("one is not described")
    if number == 2:
        raise ToolFault("its server is gone", "timeout")
    if number == 3:
        raise SystemExit(3)
    if number == 4:
        os._exit(1)
    return f"{math.sqrt(double(number)):.{digits}f} {even(number)} {os.getpid()} {[double(n) for n in (1, 2)]}"


def note(text: str) -> str:
    """Take a note."""
    NOTES.append(text)
    return f"{len(NOTES)} {os.getpid()}"


def sleep(duration: float) -> str:
    """Sleep."""
    time.sleep(duration)
    return "slept"


@pytest.fixture
def kit() -> Iterator[Functions]:
    kit = Functions(power, match, describe, note, sleep)
    yield kit
    kit.shut()


def called(kit: Functions, name: str, seconds: float = 30.0, **arguments: Any) -> str:
    (used,) = [each for each in kit.tools if each.name == name]
    return kit.run(None, used, arguments, seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"), [("power", {"base": 10, "exponent": 10**8}), ("match", {"text": "a" * 60 + "b"})]
)
def test_a_function_that_holds_the_lock_is_given_up_and_others_go_on(kit: Functions, name: str, arguments: Any):
    beats: list[float] = []
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.01):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    with pytest.raises(NotInTime, match=f"{name} did not end within 0.3 s"):
        called(kit, name, 0.3, **arguments)
    done.set()
    thread.join()
    assert len(beats) >= 10  # this process was free meanwhile
    assert called(kit, "power", base=2, exponent=5) == "32"
    assert called(kit, "match", text="aa") == "True"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["thread", "process"])
def test_a_function_that_holds_the_lock_is_told_in_a_vector(backend: str):
    def power(base: int, exponent: int) -> str:  # without a module that a worker process had to import
        """Raise to a power."""
        return str(base**exponent % 97)

    settings = {"tools": {"tools": [Functions(power)], "seconds": 0.3}}
    holding = write_call(Call("power", {"base": 10, "exponent": 10**8}), "hermes")
    with VectorEnv("rlvr/Sums-v0", 4, backend=backend, workers=2, timeout=60.0, env_settings=settings) as vector:
        vector.reset(seed=0)
        observations, _, terminations, truncations, infos = vector.step([holding] * 4)
        assert set(observations) == {"error: power did not end within 0.3 s"}
        assert not (terminations | truncations).any()
        assert all(verdict.valid for verdict in infos["verdict"])
        assert vector.step(vector.call("solve"))[1].tolist() == [1.0] * 4


def test_what_a_function_returns_and_raises_comes_back(kit: Functions):
    root, is_even, pid, *doubles = called(kit, "describe", number=8, digits=3).split()
    assert (root, is_even, doubles) == ("4.000", "True", ["[2,", "4]"])
    assert int(pid) != os.getpid()
    with pytest.raises(ToolError, match=r"^one is not described$"):
        called(kit, "describe", number=1)
    with pytest.raises(ToolFault, match="its server is gone") as fault:
        called(kit, "describe", number=2)
    assert fault.value.status == "timeout"
    with pytest.raises(ToolError, match=r"^describe: SystemExit: 3$"):
        called(kit, "describe", number=3)
    with pytest.raises(ToolError, match="describe has ended the process"):
        called(kit, "describe", number=4)
    with pytest.raises(ToolError, match=r"^describe: ValueError: math domain error$"):
        called(kit, "describe", number=-8)


def test_a_function_that_uses_what_lives_here_stays_here(kit: Functions):
    NOTES.clear()
    assert called(kit, "note", text="x") == f"1 {os.getpid()}"
    assert NOTES == ["x"]


def test_calls_run_beside_each_other_and_a_copy_or_a_killed_process_starts_others(kit: Functions):
    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(lambda _: called(kit, "sleep", duration=0.05), range(24))) == {"slept"}
    copy = pickle.loads(pickle.dumps(kit))
    try:
        assert called(copy, "power", base=2, exponent=5) == "32"
    finally:
        copy.shut()
    kit._started()._finalizer()
    assert called(kit, "power", base=2, exponent=5) == "32"


def counting() -> Any:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return count

    return step


def importing() -> Any:
    import numpy

    return numpy.zeros(1)


def with_default(words: list[str] = NOTES) -> int:
    return len(words)


def changing() -> None:
    global PATTERN
    PATTERN = re.compile("b")


@pytest.mark.parametrize(
    "function", [note, importing, with_default, changing, NOTES.append, len, threading.Lock().locked]
)
def test_what_uses_more_than_its_arguments_is_not_plain(function: Any):
    with pytest.raises(NeedsThisProcess):
        portable_copy(function)


@pytest.mark.parametrize("function", [even, match, power, describe])
def test_what_uses_constants_and_functions_of_its_kind_is_plain(function: Any):
    copy = portable_copy(function)
    assert copy is not function
    assert copy.__code__ is function.__code__
