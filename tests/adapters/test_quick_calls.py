"""Quick calls of environments are made in the event loop, slow ones never hold it up for long."""

from __future__ import annotations

import asyncio
import threading
import time
from uuid import uuid4

import pytest

from rlvr.adapters import quick_calls
from rlvr.adapters.quick_calls import BLOCKING, OFTEN, call


def threads_of(kind, functions):
    """Whether each of the calls, one after another, was made in another thread than the loop's."""

    async def run():
        return [await call(kind, function) != threading.get_ident() for function in functions]

    return asyncio.run(run())


@pytest.fixture
def kind(monkeypatch):
    monkeypatch.setattr(quick_calls, "BLOCKING", 60.0)  # a busy machine makes no quick call slow
    return uuid4().hex


def slow(seconds=0.0):
    time.sleep(seconds)
    return threading.get_ident()


def test_a_quick_kind_begins_in_threads_and_moves_into_the_loop(kind):
    assert threads_of(kind, [threading.get_ident] * (OFTEN + 3)) == [True] * OFTEN + [False] * 3


def test_a_slow_kind_stays_in_threads():
    assert all(threads_of(uuid4().hex, [lambda: slow(2 * BLOCKING)] * (OFTEN + 3)))


def test_one_that_held_up_the_loop_goes_back_and_comes_back_later_each_time(kind, monkeypatch):
    threads_of(kind, [threading.get_ident] * OFTEN)
    monkeypatch.setattr(quick_calls, "BLOCKING", -1.0)
    assert threads_of(kind, [threading.get_ident]) == [False]
    monkeypatch.setattr(quick_calls, "BLOCKING", 60.0)
    quick = [threading.get_ident] * (2 * OFTEN + 1)
    assert threads_of(kind, quick) == [True] * 2 * OFTEN + [False]


def test_a_call_in_the_loop_may_run_a_loop_of_its_own_and_what_it_raises_comes_out(kind):
    def nested():
        return asyncio.run(asyncio.sleep(0, threading.get_ident()))

    assert threads_of(kind, [nested] * (OFTEN + 2))[-2:] == [False, False]

    def fails():
        raise KeyError("step")

    async def run():
        with pytest.raises(KeyError, match="step"):
            await call(kind, fails)
        return asyncio.get_running_loop() is not None

    assert asyncio.run(run())


def test_the_loop_goes_on_while_a_slow_call_waits():
    async def run():
        until = asyncio.Event()
        waiting = asyncio.create_task(call(uuid4().hex, lambda: released.wait(60)))
        await asyncio.sleep(0)
        released.set()  # only a loop that goes on gets here
        until.set()
        return await waiting

    released = threading.Event()
    assert asyncio.run(run())
