"""Vector environments under attack: what an environment does ends its own episode, and nothing stays."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rlvr.envs.vector import VectorEnv

from ..children import start
from ..needs import needs_linux

sys.path.insert(0, str(Path(__file__).parent))  # worker processes look where this process looks
vector_envs = importlib.import_module("vector_envs")
Puppet, Wicked, WickedAwaited = vector_envs.Puppet, vector_envs.Wicked, vector_envs.WickedAwaited

BACKENDS = [("sync", Wicked), ("thread", Wicked), ("process", Wicked), ("asyncio", Wicked), ("asyncio", WickedAwaited)]
PATIENCE = 2.0  # seconds; far more than an innocent step takes on a busy machine


@pytest.fixture
def build():
    """Makes vector environments, and closes them."""
    made = []

    def construct(env, num_envs=3, **settings):
        made.append(VectorEnv(env, num_envs, **settings))
        return made[-1]

    yield construct
    for vector in made:
        vector.close()


@pytest.fixture
def gate(tmp_path):
    """A path that exists when the test is over."""
    path = tmp_path / "the end"
    yield path
    path.touch()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def noted(path: Path) -> int:
    """The process id that was, or will be, written there."""
    until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def final(infos, index: int) -> dict:
    """How the episode ended, in each mode."""
    row = infos.rows[index]
    return row.get("final_info", row)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(("backend", "env"), BACKENDS)
def test_whatever_is_raised_ends_one_episode(build, backend, env, mode):
    vector = build(env, backend=backend, autoreset_mode=mode)
    for word in ("raise", *vector_envs.RAISED):  # the first is the control
        vector.reset(seed=0)
        observations, rewards, terminations, truncations, infos = vector.step(["a", f"{word} now", "a"])
        assert (rewards.tolist(), terminations.any()) == ([1.0, 0.0, 1.0], False)
        assert truncations.tolist() == [False, True, False]
        assert final(infos, 1)["verdict"].status == "env_error"
        assert not final(infos, 1)["verdict"].valid
        assert observations[::2] == ("seed 0 episode 1 turn 1", "seed 2 episode 1 turn 1")
        if mode is AutoresetMode.DISABLED:
            vector.reset(ids=[1])
        assert vector.step(["b"] * 3)[0][::2] == ("seed 0 episode 1 turn 2", "seed 2 episode 1 turn 2")


@pytest.mark.parametrize(("backend", "env"), BACKENDS)
def test_whatever_a_reset_or_a_call_raises_is_of_one(build, backend, env):
    vector = build(env, backend=backend)
    for word, error in vector_envs.RAISED.items():
        infos = vector.reset(seed=0, options=[None, {"act": word}, None])[1]
        assert [verdict and verdict.status for verdict in infos["verdict"]] == [None, "env_error", None]
        with pytest.raises(error):
            vector.call("act", word)
        assert vector.step(["a"] * 3)[0][2] == "seed 2 episode 1 turn 1"


@pytest.mark.parametrize("where", ["step", "recv"])
def test_ctrl_c_is_the_users_and_not_the_environments(build, where):
    vector = build(Puppet)
    vector.reset(seed=0)
    vector.set_attr("act", [Puppet().act, lambda action: signal.raise_signal(signal.SIGINT), Puppet().act])
    if where == "recv":
        vector.send(["a"] * 3)
    with pytest.raises(KeyboardInterrupt):
        _ = vector.step(["a"] * 3) if where == "step" else vector.recv(3)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_coroutine_that_cancels_itself_is_answered(build):
    vector = build(WickedAwaited, backend="asyncio", autoreset_mode="SameStep")
    vector.reset(seed=0)
    infos = vector.step(["a", "cancel-myself", "a"])[4]
    assert final(infos, 1)["verdict"].status == "env_error"
    assert vector.step(["b"] * 3)[0][2] == "seed 2 episode 1 turn 2"


@pytest.mark.slow
@pytest.mark.parametrize("word", ["die", "fork-and-die"])  # the first is the control
def test_one_that_forks_and_dies_is_answered_and_its_fork_ends(build, tmp_path, word):
    vector = build(Wicked, backend="process", timeout=None)
    vector.reset(seed=0)
    observations, _, terminations, _, infos = vector.step(["a", f"{word} {tmp_path / 'child'}", "a"])
    assert terminations.tolist() == [False, True, False]
    assert infos["verdict"][1].status == "wrong"  # the action alone makes it die
    assert observations[::2] == ("seed 0 episode 1 turn 1", "seed 2 episode 1 turn 1")
    if word == "fork-and-die" and (tmp_path / "child").exists():
        pid = noted(tmp_path / "child")
        until(lambda: not alive(pid))


@pytest.mark.parametrize(("backend", "env"), BACKENDS)
def test_a_fork_that_comes_back_does_not_go_on_as_we(build, tmp_path, backend, env):
    vector = build(env, backend=backend)
    vector.reset(seed=0)
    observations = vector.step(["a", f"fork-and-return {tmp_path / 'child'}", f"note {tmp_path / 'after'}"])[0]
    assert observations == tuple(f"seed {seed} episode 1 turn 1" for seed in range(3))
    pid = noted(tmp_path / "child")
    until(lambda: not alive(pid))
    assert vector.step(["b"] * 3)[0][1] == "seed 1 episode 1 turn 2"


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_one_that_holds_the_gil_ends_alone(build, mode):
    vector = build(Wicked, backend="process", timeout=PATIENCE, autoreset_mode=mode)
    vector.reset(seed=0)
    observations, _, terminations, _, infos = vector.step(["a", "hold-the-gil", "a"])
    assert terminations.tolist() == [False, True, False]
    assert final(infos, 1)["verdict"].status == "wrong"
    assert observations[::2] == ("seed 0 episode 1 turn 1", "seed 2 episode 1 turn 1")
    assert vector.step(["b"] * 3)[0][::2] == ("seed 0 episode 1 turn 2", "seed 2 episode 1 turn 2")


@pytest.mark.slow
def test_a_process_that_is_stopped_is_killed(build):
    vector = build(Wicked, backend="process", timeout=PATIENCE)
    vector.reset(seed=0)
    os.kill(vector.call("pid")[1], signal.SIGSTOP)
    infos = vector.step(["a"] * 3)[4]
    assert [verdict and verdict.status for verdict in infos.rows[1].values() if hasattr(verdict, "status")] == [
        "timeout"
    ]
    assert vector.step(["b"] * 3)[0][2] == "seed 2 episode 1 turn 2"


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_a_coroutine_that_blocks_does_not_stop_the_others_for_ever(build, gate, mode):
    vector = build(WickedAwaited, backend="asyncio", timeout=PATIENCE, autoreset_mode=mode)
    vector.reset(seed=0)
    vector.send([f"block {gate}"], ids=[1])
    assert vector.recv().ids.tolist() == [1]
    vector.send(["a", "a"], ids=[0, 2])  # sent to the event loop that is blocked
    ready = vector.recv(2)
    assert sorted(ready.observations) == ["seed 0 episode 1 turn 1", "seed 2 episode 1 turn 1"]
    assert not ready.truncations.any()
    assert vector.step(["b"] * 3)[0][::2] == ("seed 0 episode 1 turn 2", "seed 2 episode 1 turn 2")


@pytest.mark.parametrize("backend", ["thread", "asyncio", "process"])
def test_there_is_a_deadline_unless_none_is_wanted(build, backend):
    assert 0 < build(Puppet, backend=backend).timeout <= 600
    assert build(Puppet, backend=backend, timeout=None).timeout is None
    assert build(Puppet).timeout is None, "the control: sync cannot keep one"
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, or None; got 'long'"):
        build(Puppet, backend=backend, timeout="long")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["thread", "asyncio", "process"])
def test_closing_ends_though_an_environment_does_not_close(build, gate, backend):
    vector = build(vector_envs.Unclosable, backend=backend)
    vector.reset(seed=0)
    vector.set_attr("closed_file", [None, gate, None])
    thread = threading.Thread(target=vector.close)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@needs_linux
def test_nothing_that_an_environment_has_started_outlives_close(build, tmp_path):
    paths = [tmp_path / f"daemon{index}" for index in range(3)]
    vector = build(Wicked, backend="process", workers=2)
    vector.reset(seed=0)
    vector.step([f"daemon {path}" for path in paths])
    pids = [noted(path) for path in paths]
    assert all(alive(pid) for pid in pids), "the control: they outlive what started them"
    vector.step(["die", "b", "b"])  # the environments 0 and 2 share a process
    until(lambda: not alive(pids[0]) and not alive(pids[2]))
    assert alive(pids[1]), "what belongs to others goes on"
    vector.close()
    assert not alive(pids[1])


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from rlvr.envs.vector import VectorEnv
from vector_envs import Wicked

vector = VectorEnv(Wicked, 2, backend="process")
vector.reset(seed=0)
vector.step(["daemon " + path for path in sys.argv[1:3]])
server = vector._backend._fork_server
print(server._process.pid, *vector.call("parent"), *vector.call("pid"), flush=True)
if sys.argv[3] == "stuck":
    vector.send(["hold-the-gil", "b"])
sys.stdin.read()
"""


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize("how", ["idle", "stuck", "group", "fork server first"])
def test_nothing_outlives_the_kill_of_the_users_process(tmp_path, how):
    paths = [tmp_path / "one", tmp_path / "two"]
    command = [sys.executable, "-c", SCRIPT.format(folder=str(Path(__file__).parent)), *map(str, paths), how]
    script = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    pids = [int(pid) for pid in script.stdout.readline().split()] + [noted(path) for path in paths]
    try:
        assert all(alive(pid) for pid in pids)
        if how == "fork server first":
            os.kill(pids[1], signal.SIGKILL)
        if how == "group":
            os.killpg(script.pid, signal.SIGKILL)
        script.kill()
        script.wait(60)
        until(lambda: not any(alive(pid) for pid in pids))
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)
        script.stdin.close()
        script.stdout.close()


# the ends of episodes in SAME_STEP


@pytest.mark.parametrize("backend", ["sync", "thread", "process", "asyncio"])
def test_the_verdict_is_there_when_all_end_together(build, backend):
    vector = build("rlvr/Countdown-v0", 3, backend=backend, autoreset_mode="SameStep")
    vector.reset(seed=0)
    _, rewards, terminations, _, infos = vector.step(vector.call("solve"))
    assert terminations.all()
    assert rewards.tolist() == [1.0] * 3
    assert [verdict.status for verdict in infos["verdict"]] == ["correct"] * 3
    assert infos["success"].tolist() == [True] * 3
    assert infos["final_info"]["verdict"].tolist() == infos["verdict"].tolist()
    assert infos["turn"].tolist() == [0] * 3, "the rest is of the next episode"


@pytest.mark.parametrize("backend", ["sync", "thread", "process"])
@pytest.mark.parametrize("bad", ["raise", "unpicklable", "die", "and the next reset"])
def test_every_end_has_its_final_info(build, backend, bad):
    class Once(Wicked):
        def reset(self, *, seed=None, options=None):
            if bad == "and the next reset" and seed is None:
                raise OSError("gone")
            return super().reset(seed=seed, options=options)

        def __reduce__(self):
            raise TypeError("stays here")

    if backend != "process" and bad in ("unpicklable", "die"):
        pytest.skip("only a worker process can be lost, or sent to")
    vector = build(Once, 4, backend=backend, autoreset_mode="SameStep", workers=2 if backend == "process" else None)
    vector.reset(seed=0)
    ends = []
    word = "raise" if bad == "and the next reset" else bad
    for actions in ([word] * 4, ["a"] * 4, ["a"] * 4):
        _, _, terminations, truncations, infos = vector.step(actions)
        for index in np.flatnonzero(terminations | truncations):
            ends.append(infos["verdict"][index].status)
            assert infos.rows[index]["final_info"]["verdict"].status == ends[-1]
            assert infos.rows[index]["final_obs"]
    assert len(ends) >= 4
    if bad == "die":  # of two in a worker one ends it, by what it was told, and takes the other with it
        assert sorted(ends) == ["env_error", "env_error", "wrong", "wrong"]
    else:
        assert set(ends) == {"env_error"}
