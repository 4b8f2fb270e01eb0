"""The end of a command at a terminal is known from the shell and the kernel, however busy the machine is."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlvr.envs.sandbox import Limits, PseudoTerminal, Sandbox, Typed, plans
from rlvr.envs.sandbox.probes import probe_tier
from rlvr.envs.sandbox.progress import Watched

from .conftest import processes_under

pytestmark = pytest.mark.sandbox
LIMITS = Limits(seconds=20.0, processes=48)
SECONDS = 10.0
# On T3 a run has a /proc of its own where the machine allows it; "T3 blind" is where it does not.
TIERS = ("T3", "T3 blind", "T2")


@pytest.fixture(scope="module", params=TIERS)
def desk(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    tier = request.param.split()[0]
    if not probe_tier(tier).holds or (tier == "T2" and os.geteuid() != 0):
        pytest.skip(f"{tier} does not hold here")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "T3 blind":
            patch.setattr(plans, "_can_mount_processes", lambda: False)
        with Sandbox(tier=tier, parallel=1, terminals=True) as box:
            yield box


@pytest.fixture
def shell(desk: Sandbox) -> Iterator[PseudoTerminal]:
    with desk.terminal(LIMITS, env={"PS1": "ready$ "}) as terminal:
        yield terminal


def lines_of(typed: Typed) -> list[str]:
    """What was printed, without control sequences."""
    text = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", typed.printed.decode())
    return [line.strip("\r") for line in text.split("\n")]


def until(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


@pytest.mark.slow
def test_a_command_that_says_nothing_for_long_is_waited_for(shell: PseudoTerminal) -> None:
    typed = shell.type([(b"sleep 3.5; echo la''te\r", 0.0)], SECONDS)
    assert typed.rests
    assert typed.printed.endswith(b"ready$ ")
    assert "late" in lines_of(typed)


@pytest.mark.slow
def test_a_command_that_goes_on_is_said_to_go_on(shell: PseudoTerminal) -> None:
    typed = shell.type([(b"sleep 60\r", 0.0), (b"echo later\r", 0.0)], 3.5)
    assert (typed.rests, typed.untyped) == (False, 1)


@pytest.mark.slow
def test_keys_that_a_shell_that_stands_still_has_not_read_are_waited_for(shell: PseudoTerminal) -> None:
    """As one that gets no processor. It is stopped by a job that begins before the keys are typed."""
    job = b"(sleep 0.3; kill -STOP $$; sleep 1.5; kill -CONT $$) > /dev/null 2>&1 &\r"
    typed = shell.type([(job, 0.0), (b"", 1.0), (b"echo la''te\r", 0.0)], SECONDS)
    assert "late" in lines_of(typed)


@pytest.mark.slow
def test_what_the_machine_keeps_from_a_terminal_is_not_counted(shell: PseudoTerminal) -> None:
    """All that is at the terminal stands still for longer than an action may take, in the middle of a command."""
    watched = shell._running._handle.watched()
    if not isinstance(watched, Watched) or watched.group is None:
        pytest.skip("no control group to halt a terminal with")
    freezer, halted = Path(watched.group, "cgroup.freeze"), []

    def sleeps() -> bool:
        return any(_called(pid) == b"sleep\x001\x00" for pid in processes_under(watched.root))

    def halt() -> None:
        halted.append(until(sleeps))
        freezer.write_text("1")
        time.sleep(2.5)
        freezer.write_text("0")

    thread = threading.Thread(target=halt, daemon=True)
    thread.start()
    typed = shell.type([(b"sleep 1; echo la''te\r", 0.0)], 2.0)
    thread.join()
    assert halted == [True]
    assert typed.rests
    assert "late" in lines_of(typed)
    assert shell.type([(b"sleep 60\r", 0.0)], 0.5).rests is False  # the control: what is its own is counted


def _called(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "program", ["cat", "python3 -c 'while True: print(input())'", "while read x; do echo $x; done"]
)
def test_a_program_that_reads_is_answered_line_by_line(shell: PseudoTerminal, program: str) -> None:
    keys = [f"{program}\r", "one\r", "two\r"]
    typed = shell.type([(key.encode(), 0.0) for key in keys], SECONDS)
    assert (typed.rests, typed.untyped) == (True, 0)
    assert lines_of(typed)[1:] == ["one", "one", "two", "two", ""]  # each echoed once, before it was answered
    after = shell.type([(b"\x03", 0.0), (b"echo ba''ck\r", 0.0)], SECONDS)
    assert "back" in lines_of(after)


def test_several_lines_at_once_and_lines_that_go_on_are_waited_for(shell: PseudoTerminal) -> None:
    typed = shell.type([(b"sleep 0.3\recho o''ne\r\rsleep 0.3; echo t''wo\r", 0.0)], SECONDS)
    assert [line for line in lines_of(typed) if line in ("one", "two")] == ["one", "two"]
    typed = shell.type([(b"echo $((1 +\r", 0.0), (b"1))\r", 0.0)], SECONDS)
    assert "2" in lines_of(typed)


def test_a_shell_that_ends_is_replaced_before_the_next_key(shell: PseudoTerminal) -> None:
    typed = shell.type([(b"exit\r", 0.0), (b"\x04", 0.0), (b"echo st''ill\r", 0.0)], SECONDS)
    assert typed.printed.count(b"[the shell ended") == 2
    assert "still" in lines_of(typed)


def test_what_the_shell_says_of_itself_is_not_shown(shell: PseudoTerminal) -> None:
    typed = shell.type([(b'echo "$PS1"; set | grep ^PS; bash --norc\r', 0.0), (b"exit\r", 0.0)], SECONDS)
    assert "ready$ " in lines_of(typed)
    assert b"\x1b]133" not in typed.printed


def test_a_shell_whose_prompt_was_changed_still_comes_to_rest(shell: PseudoTerminal) -> None:
    typed = shell.type([(b"PS0= PS1='> '\r", 0.0), (b"sleep 0.5; echo la''te\r", 0.0)], SECONDS)
    assert (typed.rests, typed.untyped) == (True, 0)
    assert "late" in lines_of(typed)
