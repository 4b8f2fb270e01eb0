"""What a command in a root filesystem of its own can do to the process that runs it, and to what that one answers."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rlvr.envs.sandbox import SandboxError, images, plans
from rlvr.envs.sandbox.images import base_files, run_in_image

from ..needs import needs_images

pytestmark = needs_images


def names(files: bytes | None) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(files or b""), mode="r:gz") as tar:
        return tar.getnames()


REACHING = {
    "memory": "open('/proc/1/mem', 'r+b')",
    "threads": "open('/proc/1/task/1/mem', 'rb')",
    "answer": "open('/proc/1/fd/1', 'wb')",
    "maps": "open('/proc/1/maps').read(1)",
    "environment": "open('/proc/1/environ').read()",
    "limits": "__import__('resource').prlimit(1, 7, (0, 0))",
    "others": "__import__('resource').prlimit(__import__('os').getppid(), 7)",
}


@pytest.mark.parametrize("way", REACHING)
def test_a_command_does_not_reach_the_first_process(way: str) -> None:
    code = f"try: {REACHING[way]}\nexcept OSError as error: print(error.errno)\nelse: print('reached')"
    done = run_in_image(base_files({"tmp/a.py": code.encode()}), "python3 /tmp/a.py; true")
    assert done.output.strip() in ("1", "13")
    own = (
        code.replace("/proc/1/task/1", "/proc/self")
        .replace("/proc/1/", "/proc/self/")
        .replace("prlimit(1", "prlimit(0")
    )
    own = own.replace("__import__('os').getppid()", "0")
    assert run_in_image(base_files({"tmp/a.py": own.encode()}), "python3 /tmp/a.py").output.strip() == "reached"


VOIDING = {
    "limits of process 1": "prlimit --pid 1 --nofile=0",
    "an interrupt": "kill -INT 1; kill -TERM 1; kill -9 1; sleep 0.3",
    "all signals": "for n in $(seq 64); do kill -$n 1; done; sleep 0.3",
    "an account file that never ends": "rm /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group",
    "a time at the end": "touch -d @9223372036854775807 /tmp/a; touch -d @-9223372036854775808 /tmp/b",
    "a full group": "python3 -c 'import os\nwhile os.fork() >= 0: pass' 2> /dev/null",
}


@pytest.mark.parametrize("way", VOIDING)
def test_a_command_does_not_keep_the_first_process_from_its_answer(way: str) -> None:
    done = run_in_image(base_files({}), f"{VOIDING[way]}; echo kept > /opt/a", seconds=5.0)
    assert done.files is not None
    assert run_in_image(done.files, "rm -f /etc/passwd", seconds=5.0).files is not None
    if way != "a full group":
        assert "opt/a" in names(done.files)


def test_a_folder_too_deep_to_be_named_is_too_much() -> None:
    code = "import os\nfor _ in range(40): os.mkdir('a' * 250); os.chdir('a' * 250)"
    done = run_in_image(base_files({"tmp/a.py": code.encode()}), "cd /opt && python3 /tmp/a.py")
    assert (done.exit_code, done.files) == (0, None)


def test_a_script_that_bash_cannot_take_is_said() -> None:
    done = run_in_image(base_files({}), "#" * 140_000)
    assert (done.exit_code, done.output) == (126, "bash takes no script of 140000 characters")
    assert done.files is not None


@pytest.mark.slow
@pytest.mark.parametrize("target", ["0", "-1", "$PPID", "1"])
@pytest.mark.parametrize("name", ["KILL", "STOP", "TERM", "QUIT"])
def test_a_command_s_signals_reach_no_other_process(name: str, target: str) -> None:
    done = run_in_image(base_files({}), f"kill -{name} {target}; echo on", seconds=60.0)
    assert done.files is not None
    assert done.output.endswith("on\n") or done.exit_code in (-9, -15, -3, 137, 143, 131, 147), done


def test_a_command_that_stops_itself_is_not_waited_for() -> None:
    done = run_in_image(base_files({}), "kill -STOP $$; echo on", seconds=600.0)
    assert (done.exit_code, done.output) == (147, "")
    assert run_in_image(base_files({}), "(sleep 0.5; kill -STOP $BASHPID) & sleep 0.8; echo on").output == "on\n"


def test_a_command_sets_its_own_limits() -> None:
    done = run_in_image(b"", "ulimit -t 5 && ulimit -n 50 && prlimit --nofile=20 bash -c 'ulimit -n; ulimit -t'")
    assert (done.exit_code, done.output) == (0, "20\n5\n")


def test_an_answer_without_end_is_not_read_to_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(images, "_MOST_ANSWERED", 1 << 20)
    with pytest.raises(SandboxError, match="wrote over 1 MB"):
        run_in_image(b"", "head -c 3000000 /dev/urandom > /opt/a")


def test_files_larger_than_a_pipe_go_in_and_out() -> None:
    done = run_in_image(base_files({}), "head -c 3000000 /dev/urandom > /opt/a; md5sum < /opt/a")
    assert run_in_image(done.files or b"", "md5sum < /opt/a").output == done.output


FILLING = "for folder in app home mnt opt srv; do head -c {size} /dev/zero > /$folder/filled; done; echo filled"


def test_a_command_that_uses_up_the_memory_has_failed_itself(monkeypatch: Any) -> None:
    """The kernel ends the process that packs the files, as it is the largest of the group."""
    if not plans.cgroup_parents():
        pytest.skip("no control group can be made here")
    monkeypatch.setattr(images, "_MEMORY_MB", 128)
    small = run_in_image(base_files({}), FILLING.format(size=1_000_000), folders=["app"])
    assert (small.exit_code, small.output, small.out_of_memory) == (0, "filled\n", False)
    large = run_in_image(base_files({}), FILLING.format(size=50_000_000), folders=["app"])
    assert (large.exit_code, large.files, large.out_of_memory) == (137, None, True)


def test_a_fault_of_the_first_process_is_not_the_commands_memory(monkeypatch: Any, tmp_path: Path) -> None:
    """A program of the command used up the memory and was killed; the first process then failed for another reason."""
    if not plans.cgroup_parents():
        pytest.skip("no control group can be made here")
    monkeypatch.setattr(images, "_MEMORY_MB", 128)
    greedy = "python3 -c 'a = bytearray(500_000_000)'; echo $?"
    done = run_in_image(base_files({}), greedy)
    assert (done.output.split()[-1], done.out_of_memory) == ("137", False), "the kernel ends the program alone"
    code = Path(images.__file__).with_name("inside").joinpath("image.py").read_text()
    (tmp_path / "inside").mkdir()
    broken = code.replace("    answer = run(order)\n", "    run(order)\n    raise RuntimeError('broken')\n")
    assert broken != code
    (tmp_path / "inside" / "image.py").write_text(broken)
    monkeypatch.setattr(images, "__file__", str(tmp_path / "images.py"))
    with pytest.raises(SandboxError, match="RuntimeError: broken"):
        run_in_image(base_files({}), greedy)


def test_the_devices_hold_no_more_than_another_folder() -> None:
    command = (
        "for n in 1 2 3; do head -c 60M /dev/zero > /dev/shm/$n; done; touch /dev/mine; echo a > /dev/null && echo b"
    )
    done = run_in_image(base_files({}), command)
    assert "No space left on device" in done.output
    assert "cannot touch '/dev/mine': Read-only file system" in done.output
    assert done.output.endswith("b\n")
    assert done.files is not None
