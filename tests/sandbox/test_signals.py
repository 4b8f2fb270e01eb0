"""A program's signals reach its own processes: whatever it sends, its verdict is valid and the next run whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox

pytestmark = pytest.mark.sandbox
SIGNALS = ("KILL", "INT", "TERM", "QUIT", "SEGV", "ABRT", "STOP", "TSTP", "HUP", "ALRM", "XCPU", "CONT", "SYS")
TARGETS = {"group": "0", "all": "-1", "itself": "os.getpid()", "parent": "os.getppid() or 1"}
ROW = {"entry_point": "f", "tests": [{"args": [2], "expected": 4}]}
JUDGED = {"test_list": ["assert f(2) == 4"], "entry_point": "f"}
STREAMS = {"tests": [{"stdin": "2", "stdout": "4\n"}]}
RIGHT = "def f(x): return 2 * x\nif __name__ == '__main__': print(f(int(input())))"


@pytest.fixture(scope="module")
def box(tier: str) -> Iterator[Sandbox]:
    with Sandbox(tier=tier, parallel=2, terminals=True) as box:
        yield box


def sent(name: str, target: str) -> str:
    return f"import os, signal\ntry: os.kill({TARGETS[target]}, signal.SIG{name})\nexcept OSError: pass\n"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SIGNALS)
def test_no_signal_makes_a_verdict_invalid(name: str, target: str, box: Sandbox) -> None:
    attack = sent(name, target)
    programs = (
        (attack + RIGHT, ROW),
        ("def f(x):\n    " + attack.replace("\n", "\n    ") + "\n    return 2 * x", ROW),
        (attack + RIGHT, JUDGED),
        (attack + RIGHT, STREAMS),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', " + repr(attack) + "])\n" + RIGHT, STREAMS),
    )
    for code, row in programs:
        verdict = grade_code(f"```python\n{code}\n```", row, seconds=3.0, sandbox=box)
        assert verdict.valid, (code, verdict)
        assert grade_code(RIGHT, row, seconds=30.0, sandbox=box).reward == 1.0, code


@pytest.mark.parametrize("command", ["kill -9 0", "kill -STOP 0", "kill -9 $PPID", "kill -STOP -1", "kill -TERM -1"])
def test_the_run_after_a_signal_is_whole(command: str, box: Sandbox) -> None:
    limits = Limits(seconds=2.0)
    box.run_shell(command, limits=limits)
    assert box.run_shell("echo fine").stdout == "fine\n"
    with box.session(limits) as session:
        session.run(f"import subprocess\nsubprocess.run(['bash', '-c', {command!r}])")
        if session.alive:
            assert session.run("6 * 7").stdout == "42\n"
    assert box.run_python("print(1)").stdout == "1\n"


@pytest.mark.parametrize("name", ["KILL", "STOP", "INT", "QUIT"])
def test_a_session_that_signals_its_group_lives_or_is_ended(name: str, box: Sandbox) -> None:
    with box.session(Limits(seconds=5.0)) as session:
        assert session.run(sent(name, "group")).status in ("ok", "error", "killed", "time_limit")
        if session.alive:
            assert session.run("6 * 7").stdout == "42\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["STOP", "KILL", "TERM", "QUIT"])
@pytest.mark.parametrize("target", ["$PPID", "0", "-1", "$$", "$(($$ - 1))", "$(($PPID + 1))"])
def test_what_holds_a_terminal_is_out_of_reach(target: str, name: str, box: Sandbox) -> None:
    with box.terminal(Limits(seconds=20.0)) as terminal:
        terminal.type([(f"kill -{name} {target}\r".encode(), 0)], seconds=10.0)
        terminal.type([(b"clear\r", 0)], seconds=10.0)
        typed = terminal.type([(b"echo $((6 * 7))\r", 0)], seconds=10.0)
        assert typed.rests, (target, typed)
        assert b"42\r\n" in typed.printed
        assert typed.spent < 10


def test_the_shell_signals_what_it_has_started(box: Sandbox) -> None:
    with box.terminal(Limits(seconds=20.0)) as terminal:
        typed = terminal.type([(b"sleep 600 & kill $!; wait $!; echo ended $?\r", 0)], seconds=10.0)
        assert b"ended 143\r\n" in typed.printed


def test_a_program_that_stops_itself_is_ended_at_once(tier: str, box: Sandbox) -> None:
    result = box.run_python(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nprint(1)", limits=Limits(seconds=60)
    )
    assert (result.status, result.stdout) == (("ok", "1\n") if tier == "T3" else ("killed", "")), result
