"""A program as it is shipped works on a task of ours in a folder; the task's own verifier grades its files."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters.harness.program import MARK, ProgramHarness
from rlvr.adapters.serving.policy_endpoint import HarnessEnv
from rlvr.adapters.testing import nothing_left
from rlvr.envs.sandbox import shared

from ..needs import needs_linux, needs_sandbox

pytestmark = needs_sandbox
ENV = "rlvr/RepoRepair-v0"
# Asks until it is told to stop, and writes what it is told to a file. Standard library alone.
AGENT = """
import json, os, sys, urllib.request
messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    body = json.dumps({"model": "m", "messages": messages}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    reply = json.loads(urllib.request.urlopen(request).read())["choices"][0]["message"]
    command, _, rest = reply["content"].partition("\\n")
    if command == "stop":
        break
    exec(rest) if command == "run" else open(command, "w").write(rest)
    messages += [reply, {"role": "user", "content": "Go on."}]
"""


def agent(job):
    return [sys.executable, "-I", "-c", AGENT, job.task]


@pytest.fixture
def make():
    envs = []

    def build(command=agent, *, settings=None, **options):
        envs.append(HarnessEnv(ProgramHarness(ENV, command, settings=settings, **options), turn_timeout=60))
        return envs[-1]

    shared().run_shell("true")  # its supervisor stays as long as this process
    with nothing_left():
        yield build
        for env in envs:
            env.close()


def mended(seed):
    """The files that the expert would change, whole."""
    env = gym.make(ENV)
    env.reset(seed=seed)
    given = env.unwrapped.get_state().state.world.repository()
    return {given.path(fault.module): given.package.modules[fault.module] for fault in given.faults}


def test_work_is_graded_by_the_verifier_of_the_task(make):
    env = make()
    observation, _ = env.reset(seed=3)
    direct = gym.make(ENV)
    assert observation == direct.reset(seed=3)[0]
    for path, text in mended(3).items():
        assert env.step(f"{path}\n{text}")[:3] == ("Go on.", 0.0, False)
    _, reward, terminated, _, info = env.step("stop")
    assert (reward, terminated, info["verdict"].status) == (1.0, True, "correct")
    env.reset(seed=3, options={"level": 2})  # another task
    _, reward, terminated, _, info = env.step("stop")
    assert (reward, terminated, info["verdict"].reason) == (0.0, True, "nothing in the package was changed")


def test_nothing_of_ours_reaches_the_program_and_nothing_that_it_links_to_is_read(make, monkeypatch):
    monkeypatch.setenv("RLVR_SECRET", "hush")
    env = make()
    env.reset(seed=3)
    (path,) = mended(3)
    work = [
        "assert 'RLVR_SECRET' not in os.environ and os.path.isdir('.git')",
        "assert os.environ['HOME'] != os.getcwd() and not os.listdir(os.environ['HOME'])",
        f"os.remove({path!r}); os.symlink('/etc/passwd', {path!r})",
        "os.mkfifo('pipe'); open('a name\\n', 'w').close(); open('bytes', 'wb').write(bytes([255]))",
    ]
    env.step("run\n" + "\n".join(work))
    _, reward, terminated, _, info = env.step("stop")
    assert (reward, terminated, info["verdict"].valid) == (0.0, True, True)


def test_too_many_files_are_worth_nothing(make):
    env = make()
    env.reset(seed=3)
    (path,) = mended(3)
    env.step(f"run\nfor i in range(2100): open(os.path.join(os.path.dirname({path!r}), f'm{{i}}.py'), 'w').close()")
    _, reward, terminated, _, info = env.step("stop")
    assert (reward, terminated, info["verdict"].valid) == (0.0, True, True)
    assert "more than 2,000 files" in info["verdict"].reason


def test_a_program_that_dies_of_what_the_policy_wrote_is_graded_as_it_leaves_the_files(make):
    env = make()
    for files, status in (({}, "wrong"), (mended(3), "correct")):
        env.reset(seed=3)
        for path, text in files.items():
            env.step(f"{path}\n{text}")
        _, reward, terminated, truncated, info = env.step("run\nsys.exit('I give up')")
        assert (reward, terminated, truncated) == (float(status == "correct"), True, False)
        assert info["verdict"].status == status
        assert info["verdict"].reason.endswith("ended with status 1: I give up")


@pytest.mark.parametrize(
    ("death", "reason"),
    [
        ("import signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with status -9"),
        ("sys.exit(127)", "ended with status 127"),
        ("sys.exit(137)", "ended with status 137"),
        ("request.data = b'{}'; urllib.request.urlopen(request)", "HTTP Error 400"),  # what we do not speak
    ],
)
def test_a_program_that_dies_of_this_machine_is_no_fault_of_the_policy(make, death, reason):
    env = make()
    env.reset(seed=3)
    for path, text in mended(3).items():
        env.step(f"{path}\n{text}")
    _, reward, _, truncated, info = env.step(f"run\n{death}")
    assert (reward, truncated, info["verdict"].status) == (0.0, True, "env_error")
    assert reason in info["verdict"].reason


def test_a_program_that_asks_for_nothing_is_no_fault_of_the_policy(make):
    silent = make(lambda job: [sys.executable, "-c", "raise SystemExit('no key')"])
    with pytest.raises(RuntimeError, match=r"without asking for anything.*no key"):
        silent.reset(seed=3)
    absent = make(lambda job: ["/no/such/program"])
    with pytest.raises(RuntimeError, match="without asking") as caught:
        absent.reset(seed=3)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def alive(mark: str) -> list[str]:
    """Processes that bear a mark among their environment variables."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


@needs_linux
def test_a_program_that_hangs_is_ended_with_all_that_it_started(make):
    start = "run\nimport subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    env = make(variables={"TEST_NAME": "hangs-here"}, seconds=6)
    env.reset(seed=3)
    env.step(start)
    assert len(alive("TEST_NAME=hangs-here")) >= 2
    _, _, _, truncated, info = env.step("run\nimport time; time.sleep(600)")
    assert (truncated, info["verdict"].status) == (True, "timeout")
    assert "did not end within 6 seconds" in info["verdict"].reason
    assert alive("TEST_NAME=hangs-here") == []


@needs_linux
def test_an_episode_that_is_given_up_ends_its_program(make):
    env = make(variables={"TEST_NAME": "given-up"})
    env.reset(seed=3)
    env.step("run\nimport subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)")
    assert len(alive("TEST_NAME=given-up")) >= 2
    env.close()
    until = time.monotonic() + 20
    while alive("TEST_NAME=given-up") and time.monotonic() < until:
        time.sleep(0.05)
    assert alive("TEST_NAME=given-up") == []
    assert MARK not in os.environ


def test_only_tasks_with_files_are_worked_on():
    with pytest.raises(ValueError, match=r"rlvr/GuessNumber-v0 have no files to work on; those of rlvr/RepoRepair-v0"):
        ProgramHarness("rlvr/GuessNumber-v0", agent)
    with pytest.raises(ValueError, match="seconds must be above 0"):
        ProgramHarness(ENV, agent, seconds=0)
