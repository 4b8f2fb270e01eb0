"""Every hostile program ends with reward 0, on every tier, and leaves nothing: no secret, no process, no file."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from pathlib import Path

import pytest

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox

from .conftest import processes_under, supervisor_of
from .hostile import CALL, CHEATS, ESCAPES, JUDGED, PROGRAMS, ROW, SOLUTION, TELLTALES

pytestmark = pytest.mark.sandbox
SECONDS = 1.0
MARK = f"{os.getpid()}-{secrets.token_hex(4)}"  # of what our programs plant: others may test here too
SLACK = 1.5  # for a loaded machine, above the half second that a run may take to end


def planted(folder: Path) -> set[str]:
    """What programs have put where everybody may write, and what the sandbox itself keeps there."""
    folders = ("/tmp", tempfile.gettempdir(), "/var/tmp", "/dev/shm", "/dev/mqueue", "/dev", "/", str(folder))
    names = {f"{where}/{name}" for where in folders if os.path.isdir(where) for name in os.listdir(where)}
    return {name for name in names if MARK in name}


def written_for(code: str, host: tuple[Path, Path]) -> str:
    for word, value in {"@CANARY@": host[0], "@FOLDER@": host[1], "@PARENT@": os.getpid()}.items():
        code = code.replace(word, str(value))
    return code.replace("rlvr-planted", f"rlvr-planted-{MARK}").replace("rlvr-note", f"rlvr-note-{MARK}")


def segments() -> set[str]:
    """Key, number and owner of what the users of sandboxes, or we, keep in the kernel."""
    found = set()
    own = os.getuid() or -1
    for kind in ("shm", "msg", "sem"):
        head, *rows = (line.split() for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines())
        who = head.index("cuid")
        found |= {f"{kind} {row[:2]} {row[who]}" for row in rows if int(row[who]) >= 200_000 or int(row[who]) == own}
    return found


@pytest.fixture(scope="module")
def at_rest(sandbox: Sandbox) -> int:
    """How many processes the sandbox has when nothing runs: those of its warm zygotes."""
    assert grade_code(SOLUTION, JUDGED, sandbox=sandbox).reward == 1.0
    return len(processes_under(supervisor_of(sandbox)))


def nothing_left(sandbox: Sandbox, at_rest: int, folder: Path) -> None:
    for _ in range(100):  # a zygote that was given up ends in the background
        if len(processes_under(supervisor_of(sandbox))) <= at_rest:
            break
        time.sleep(0.02)
    assert len(processes_under(supervisor_of(sandbox))) <= at_rest, "a process survived"
    assert planted(folder) == set(), "a file was left behind"


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_hostile_program_gets_nothing_and_leaves_nothing(
    name: str, sandbox: Sandbox, host: tuple[Path, Path], at_rest: int
) -> None:
    code, before = written_for(PROGRAMS[name], host), segments()
    verdict = grade_code(f"```python\n{code}\n```", ROW, seconds=SECONDS, total_seconds=SECONDS, sandbox=sandbox)
    assert verdict.reward == 0.0
    assert verdict.valid, f"a hostile program must be paid 0, not excused: {verdict}"
    nothing_left(sandbox, at_rest, host[1])
    assert segments() <= before
    assert host[0].read_text() == "SECRET-file"
    assert grade_code(SOLUTION, ROW, sandbox=sandbox).reward == 1.0, "the next program pays for this one"


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_do_not_fool_tests_that_are_code(name: str, sandbox: Sandbox, host: tuple[Path, Path]) -> None:
    code = written_for(CHEATS[name], host)
    verdict = grade_code(f"```python\n{code}\n```", JUDGED, seconds=SECONDS, total_seconds=2.0, sandbox=sandbox)
    if name in ("bool for int", "float for int"):  # here the data set's own == decides
        return
    assert verdict.reward == 0.0
    assert verdict.valid, verdict


@pytest.mark.parametrize("name", ESCAPES)
def test_no_way_out(name: str, sandbox: Sandbox, host: tuple[Path, Path], at_rest: int) -> None:
    code = written_for(ESCAPES[name], host)
    for _ in range(2):  # the second run looks for notes of the first
        result = sandbox.run_python(code + CALL, limits=Limits(seconds=SECONDS))
        assert result.seconds - result.held_seconds < SECONDS + 0.5 + SLACK
        output = result.stdout + result.stderr
        assert [word for word in TELLTALES if word in output] == []
    nothing_left(sandbox, at_rest, host[1])
