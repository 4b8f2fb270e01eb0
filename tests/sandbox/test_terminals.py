"""Terminals of the sandbox: what they promise, and that a pseudo-terminal is no way out."""

from __future__ import annotations

import binascii
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr.envs.sandbox import Daemon, Limits, PseudoTerminal, Sandbox, SandboxError

from .conftest import processes_under, supervisor_of
from .hostile import CALL, ESCAPES, TELLTALES

pytestmark = pytest.mark.sandbox
LIMITS = Limits(seconds=20.0, processes=48)
SECONDS = 10.0


@pytest.fixture(scope="module")
def desk(tier: str) -> Iterator[Sandbox]:
    with Sandbox(tier=tier, parallel=2, terminals=True) as box:
        yield box


def typed(terminal: PseudoTerminal, *lines: str) -> str:
    keys = [(f"{line}\r".encode(), 0.0) for line in lines]
    return terminal.type(keys, SECONDS).printed.decode("utf-8", "replace")


def test_a_sandbox_says_when_it_has_no_terminals(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="terminals=True"):
        sandbox.terminal()


def test_keys_come_back_as_what_is_drawn_and_the_workspace_is_copied(desk: Sandbox) -> None:
    with desk.terminal(
        LIMITS, {"a/b.txt": "one\n"}, rows=20, columns=70, setup="echo x > made", env={"N": "7"}
    ) as shell:
        assert "20 70" in typed(shell, "stty size")
        assert "=7=" in typed(shell, "echo =$N=")
        assert shell.type([(b"ln -s made link; chmod 700 made\r", 0.0)], SECONDS).rests
        mark = shell.mark()
        typed(shell, "true")
        assert shell.mark() == mark
        typed(shell, "rm link")
        assert shell.mark() != mark
        left = shell.copy()
        assert left.files == {"a/b.txt": ("file", b"one\n", 0o600), "made": ("file", b"x\n", 0o700)}
    assert not shell.alive


NAPS = """
import random, time
began = time.monotonic()
while time.monotonic() < began + 2:
    time.sleep(random.uniform(0.003, 0.012))
    end = time.monotonic() + 0.002
    while time.monotonic() < end:
        pass
print("na" + "ps", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "python3 naps.py",
        "python3 naps.py | cat; true",
        "for i in $(seq 150); do sleep 0.00$((i % 9 + 1)); done; echo na''ps",
        "clear; n=$(for i in $(seq 100); do sleep 0.007 | cat; done; echo ps); echo na$n",
    ],
)
def test_a_command_that_naps_and_works_by_turns_is_waited_for(desk: Sandbox, command: str) -> None:
    with desk.terminal(Limits(seconds=240.0, processes=48), {"naps.py": NAPS}) as shell:
        for _ in range(2):
            result = shell.type([(f"{command}\r".encode(), 0.0)], 100.0)  # a busy machine may take its time
            assert b"naps\r\n" in result.printed.replace(b"naps.py", b""), result


LATE = """
import binascii, os, time
from rlvr.envs.sandbox.inside.terminal import _Terminal

class Late(_Terminal):
    def _is_still(self, *given):
        time.sleep(0.02)
        return super()._is_still(*given)

terminal = Late({"home": os.getcwd(), "rows": 20, "columns": 70, "variables": {}, "setup": "", "daemons": []})
for _ in range(3):
    answer = terminal.type([[binascii.b2a_base64(b"sleep 2.5; echo wo''rd\\r"), 0.0]], 20.0)
    print(answer["rests"], answer["printed"], flush=True)
"""


def test_what_is_printed_between_two_looks_is_printed_before_the_rest(tmp_path: Path) -> None:
    """Where processes cannot be seen: the shell printed, and then waited for keys, after the look at what is printed
    and before the one at what waits."""
    ran = subprocess.run([sys.executable, "-c", LATE], cwd=tmp_path, capture_output=True, text=True, check=True)
    answers = [line.split() for line in ran.stdout.splitlines()]
    assert [rests for rests, _ in answers] == ["True"] * 3
    for _, printed in answers:
        assert b"word\r\n" in binascii.a2b_base64(printed)


LEAVES = """
import select, sys, termios
print("bye", flush=True)
select.{how}
termios.tcflush(0, termios.TCIFLUSH)
"""


@pytest.mark.parametrize("how", ["select([0], [], [], 0.1)", "poll().poll(100)"])
def test_keys_are_not_thrown_away_by_a_program_on_its_way_out(desk: Sandbox, how: str) -> None:
    """As by vi, which gives the terminal a tenth of a second for answers, and then forgets what was typed."""
    how = how.replace("poll().poll(100)", "poll(); p = select.poll(); p.register(0, 1); p.poll(100)")
    with desk.terminal(LIMITS, {"leaves.py": LEAVES.format(how=how)}) as shell:
        for number in range(3):
            assert f"=late {number}=" in typed(shell, "python3 leaves.py", f"echo =la''te {number}=")


def test_a_program_with_a_clock_of_its_own_rests_between_its_ticks(desk: Sandbox) -> None:
    clock = "import select, tty\ntty.setcbreak(0)\nwhile True: select.select([0], [], [], 0.1)"
    with desk.terminal(LIMITS, {"clock.py": clock}) as shell:
        assert shell.type([(b"python3 clock.py\r", 0.0)], SECONDS).rests
        assert "=here=" in typed(shell, "\x03", "echo =he''re=")


def test_daemons_run_until_they_are_ended_and_their_end_is_told(desk: Sandbox) -> None:
    code = "import signal, sys; print(input(), flush=True); signal.pause()"
    daemons = [Daemon(name, ("python3", "-c", code, name), "ready\n") for name in ("one", "two", "three")]
    with desk.terminal(LIMITS, daemons=daemons) as shell:
        typed(shell, "kill -9 $!; true")
        assert shell.copy().daemons == {"one": None, "two": None, "three": None}


@pytest.mark.parametrize("broken", [{"setup": "exit 3"}, {"daemons": [Daemon("one", ("python3", "-c", "1"))]}])
def test_a_terminal_that_cannot_be_set_up_is_no_fault_of_who_types(desk: Sandbox, broken: dict[str, Any]) -> None:
    with pytest.raises(SandboxError, match=r"did not open: .*(exit status 3|before it was ready)"):
        desk.terminal(LIMITS, **broken)


def test_much_output_is_cut_and_too_much_waits(desk: Sandbox) -> None:
    with desk.terminal(LIMITS) as shell:
        seen = shell.type([(b"seq 30000\r", 0.0)], SECONDS)
        assert len(seen.printed) < 40_000
        assert b"30000\r\n" in seen.printed
        flood = shell.type([(b"yes\r", 0.0)], SECONDS)
        assert not flood.rests
        assert len(flood.printed) < 40_000
        shell.type([(b"\x03", 0.0)], SECONDS)
        assert "=3=" in typed(shell, "echo =$((1 + 2))=")


def test_closing_it_ends_all_that_was_started(desk: Sandbox, tier: str) -> None:
    with desk.terminal(LIMITS):
        pass
    before = len(processes_under(supervisor_of(desk)))
    with desk.terminal(LIMITS) as shell:
        typed(shell, "(trap '' HUP TERM INT; sleep 300) &", "nohup sleep 300 &", "setsid sleep 300 &")
        assert len(processes_under(supervisor_of(desk))) > before
    for _ in range(200):  # a sandbox that is not kept ends in the background
        if len(processes_under(supervisor_of(desk))) <= before:
            break
        time.sleep(0.02)
    assert len(processes_under(supervisor_of(desk))) <= before


# The pseudo-terminal, and the devices that come with it, as a way out.
ATTACKS = {
    "typing into the terminal": """
import fcntl, os
for fd in (0, 1, 2, os.open('/dev/tty', os.O_RDWR)):
    for number, given in ((0x5412, b'x'), (0x541C, b'\\x02\\x01'), (0x80045430, bytes(4)), (0x5441, 0)):
        try: fcntl.ioctl(fd, number, given); print('gr' + 'anted', hex(number)) if number in (0x5412, 0x541C) else None
        except OSError: pass
""",
    "descriptors of what types": """
import os, stat
for fd in range(3, 64):
    try: os.fstat(fd)
    except OSError: continue
    print('gr' + 'anted', fd)
""",
    "other terminals": """
import glob, os
own = os.ttyname(0) if os.path.exists('/proc') else None
for path in [*glob.glob('/dev/pts/*'), *(f'/dev/pts/{n}' for n in range(64)), '/dev/console', '/dev/tty0', '/dev/tty1']:
    if path in (own, '/dev/pts/ptmx'): continue
    try: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)); print('gr' + 'anted', path)
    except OSError: pass
""",
    "what holds the terminal": """
import os
for pid in (1, os.getppid(), @PARENT@):
    if pid == os.getppid(): continue
    for what in ('mem', 'environ', 'fd/3', 'fd/4', 'fd/6', 'root/etc/passwd', 'cwd', 'exe', 'syscall'):
        try: os.close(os.open(f'/proc/{pid}/{what}', os.O_RDWR if what == 'mem' else os.O_RDONLY))
        except OSError: continue
        print('gr' + 'anted', pid, what)
""",
    "the kernel's switches": """
import os
for path in ('sys/kernel/hostname', 'sys/kernel/core_pattern', 'sysrq-trigger', 'sys/vm/drop_caches', '1/oom_score_adj',
             '1/comm', '1/attr/current', 'sys/kernel/pty/max'):
    try: os.write(os.open('/proc/' + path, os.O_WRONLY), b'1'); print('gr' + 'anted', path)
    except OSError: pass
""",
    "processes of others": """
import os
try: seen = [int(name) for name in os.listdir('/proc') if name.isdigit()]
except OSError: seen = []
if len(seen) > 12: print('gr' + 'anted', len(seen))
for path in ('mounts', 'self/mountinfo', 'self/cgroup', 'self/environ', *(f'{pid}/cmdline' for pid in seen)):
    try: text = open('/proc/' + path).read()
    except OSError: continue
    if 'SECRET' in text or 'bwrap' in text: print('gr' + 'anted', path)
""",
    "mounts of its own": """
import ctypes
libc = ctypes.CDLL(None)
for target, kind in ((b'/dev/pts', b'devpts'), (b'/proc', b'proc'), (b'/tmp', b'tmpfs')):
    if libc.mount(b'x', target, kind, 0, b'') == 0: print('gr' + 'anted', kind)
if libc.umount2(b'/proc', 2) == 0: print('gr' + 'anted')
""",
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_the_terminal_is_no_way_out(name: str, desk: Sandbox, host: tuple[Path, Path]) -> None:
    code = ATTACKS[name].replace("@PARENT@", str(os.getpid()))
    with desk.terminal(LIMITS, {"run.py": f"{code}\nprint('got to ' + 'the end')"}) as shell:
        output = typed(shell, "python3 run.py")
        assert "granted" not in output
        assert "got to the end" in output
        assert "=3=" in typed(shell, "echo =$((1 + 2))=")


@pytest.mark.parametrize("name", ESCAPES)
def test_no_way_out_beside_a_terminal(name: str, desk: Sandbox, host: tuple[Path, Path]) -> None:
    code = ESCAPES[name]
    for word, value in {"@CANARY@": host[0], "@FOLDER@": host[1], "@PARENT@": os.getpid()}.items():
        code = code.replace(word, str(value))
    for _ in range(2):  # the second run looks for notes of the first
        result = desk.run_python(code + CALL, limits=Limits(seconds=1.0))
        output = result.stdout + result.stderr
        assert [word for word in TELLTALES if word in output] == []
    assert host[0].read_text() == "SECRET-file"
    assert [path.name for path in host[1].iterdir()] == ["canary"]
