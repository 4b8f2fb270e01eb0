"""A program that is run again says the same, and an episode whose program cannot is told so and stays valid."""

from __future__ import annotations

import gymnasium as gym
import pytest

from rlvr.envs.sandbox import Sandbox
from rlvr.envs.tools import Call, write_call

from ..needs import needs_sandbox

pytestmark = [pytest.mark.sandbox, needs_sandbox]
SUMS = "rlvr/Sums-v0"
SAME_AGAIN = {
    "a set": "print({'a', 'b', 'c', 'd', 'e'}, {b'x', b'y'})",
    "hashes": "print(hash('a'), hash((b'x', 'y')))",
    "random numbers": "import random\nprint(random.random(), random.sample(range(100), 5))",
    "a function's address": "print(lambda: 0, object())",
    "an interpreter that it starts": (
        "import subprocess, sys\n"
        "print(subprocess.run([sys.executable, '-c', \"print({'a', 'b', 'c'})\"], capture_output=True).stdout)"
    ),
    "its folder": "import os, tempfile\nprint(os.getcwd(), tempfile.gettempdir())",
}
CHANGING = {
    "the time": "import time\nprint(time.time())",
    "the machine's random numbers": "import os\nprint(os.urandom(8))",
    "an id": "import uuid\nprint(uuid.uuid4())",
}


def call(code: str) -> str:
    return write_call(Call("python", {"code": code}), "hermes")


@pytest.mark.slow
@pytest.mark.parametrize("what", [name for name in SAME_AGAIN if "address" not in name])
def test_a_program_says_the_same_in_every_sandbox(what: str, tier: str) -> None:
    printed = set()
    for _ in range(3):
        with Sandbox(tier=tier, parallel=1) as box:
            printed.add(box.run_python(SAME_AGAIN[what]).stdout)
            printed.add(box.run_python(SAME_AGAIN[what]).stdout)
    assert len(printed) == 1
    assert printed != {""}


@pytest.mark.parametrize("what", SAME_AGAIN)
def test_an_episode_is_brought_back_where_its_program_prints(what: str) -> None:
    env = gym.make(SUMS, tools=["python"]).unwrapped
    env.reset(seed=0)
    env.step(call("n = 41\n" + SAME_AGAIN[what]))
    assert env.fork().step(call("print(n + 1)"))[0] == "42"
    env.close()


@pytest.mark.parametrize("what", CHANGING)
def test_what_cannot_be_brought_back_is_refused_before_the_call(what: str) -> None:
    env = gym.make(SUMS, tools=["python"]).unwrapped
    env.reset(seed=0)
    env.step(call("n = 41\n" + CHANGING[what]))
    fork = env.fork()
    observation, reward, terminated, _, info = fork.step(call("print(n + 1)"))
    assert "not carried out" in observation
    assert (reward, terminated, info["verdict"].valid) == (0.0, False, True)
    assert "NameError" in fork.step(call("print(n)"))[0]
    assert fork.fork().step(call("print(7)"))[0] == "7"
    assert env.step(call("print(n + 1)"))[0] == "42"
    assert fork.step(fork.solve())[1] == 1.0
    env.close()


@pytest.mark.slow
def test_no_interpreter_of_more_than_256_slots_is_lost() -> None:
    env = gym.make(SUMS, tools=["python"]).unwrapped
    slots = [env.spawn() for _ in range(257)]  # a table that keeps 256 closes the first
    for number, slot in enumerate(slots):
        slot.reset(seed=number)
        slot.step(call(f"n = {number}\nimport time; print(time.time())"))
    for number in (0, 256):
        assert slots[number].step(call("print(n)"))[0] == str(number)
    env.close()
