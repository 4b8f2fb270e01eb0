"""One command in a root filesystem of its own: this machine's programs, read-only, and files handed in and out.

A run is a function of its files and its command: nothing else is kept, so that what holds the files can be forked and
restored. The processes of a command end with it. Inside, the command is root over its own files and no more: users and
processes have namespaces of their own, there is no network, and seccomp refuses what it refuses on tier T3. Where root
starts it, the namespace has 65,536 users, whom the command may become; elsewhere it has root alone.
"""

from __future__ import annotations

import io
import json
import os
import random
import selectors
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from rlvr.envs.sandbox import cgroups, plans
from rlvr.envs.sandbox.inside import kernel
from rlvr.envs.sandbox.limits import SandboxError, SandboxUnavailable

USERS: Final = 65_536
READ_ONLY: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "sys", "dev", "boot")
WRITABLE: Final = ("etc", "home", "logs", "mnt", "opt", "root", "run", "srv", "tmp", "var")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_BYTES: Final = 64 << 20  # of all files together, and of each folder at the root
_MOST_ANSWERED = 2 * MAX_BYTES + (1 << 20)  # a tar of random bytes and long names, and what was printed
_ANSWER_SECONDS = 60.0  # to unpack and to pack, on a busy machine
_MEMORY_MB, _PROCESSES = 2048, 256
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # bubblewrap itself, and what it runs
_NO_MEMORY = ("MemoryError", "Cannot allocate memory")  # what Python and the kernel say
_KEPT = ("/etc/alternatives", "/etc/ld.so.cache")  # what the programs below /usr read
_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
_ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": b"127.0.0.1 localhost\n",
}
# Enters the control groups and the users' namespace, becomes root there, and only then runs what follows.
_LAUNCH = """
import ctypes, os, sys
for folder in sys.argv[2].split(":"):
    if folder:
        open(folder + "/cgroup.procs", "w").write(str(os.getpid()))
if int(sys.argv[1]) >= 0:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(int(sys.argv[1]), 0x10000000):
        sys.exit("setns: " + os.strerror(ctypes.get_errno()))
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
os.execv(sys.argv[3], sys.argv[3:])
"""
_HOLD = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
print(os.strerror(ctypes.get_errno()) if libc.unshare(0x10000000) else "made", flush=True)
sys.stdin.read()
"""


class ImageRun(NamedTuple):
    """What a command did.

    Attributes:
        exit_code: None if its time was up.
        output: what it printed on both streams, cut in the middle.
        files: the writable folders afterwards, a tar; None if they hold too much, or it used up its memory.
        out_of_memory: it used so much memory that the kernel ended all of the image; what it printed is lost.
    """

    exit_code: int | None
    output: str
    files: bytes | None
    out_of_memory: bool = False


class _UsedUp(Exception):
    """The kernel ended the first process, as the image was over its memory."""


def run_in_image(
    files: bytes,
    command: str,
    *,
    folders: Iterable[str] = (),
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
    seconds: float = 60.0,
    output_bytes: int = 64_000,
) -> ImageRun:
    """Run a bash command as root in a root filesystem that holds ``files``.

    Args:
        files: a tar of paths below ``/``.
        folders: names at the root that are writable, besides ``WRITABLE``.
        cwd: made if it is not there.
        seconds: of wall time.

    Raises:
        ValueError: a folder that is this machine's own.
        SandboxUnavailable: this machine cannot do it.
        SandboxError: it failed, or did not answer.
    """
    writable = sorted({*WRITABLE, *folders})
    for name in writable:
        if name in READ_ONLY or not name or "/" in name or name in (".", ".."):
            raise ValueError(f"/{name} cannot be a writable folder of an image here")
    order = {
        "command": command,
        "cwd": cwd,
        "env": {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **(env or {})},
        "seconds": seconds,
        "output_bytes": output_bytes,
        "folders": [f"/{name}" for name in writable],
        "left_out": list(_KEPT),
        "most_bytes": MAX_BYTES,
        "limits": {"RLIMIT_FSIZE": MAX_BYTES, "RLIMIT_NPROC": _PROCESSES, "RLIMIT_CORE": 0, "RLIMIT_AS": 4 << 30},
    }
    try:
        whole = _answered(json.dumps(order).encode() + b"\n" + files, writable, seconds)
    except _UsedUp:
        return ImageRun(128 + signal.SIGKILL, "", None, out_of_memory=True)
    answer, _, packed = whole.partition(b"\n")
    try:
        got = json.loads(answer)
        return ImageRun(got["exit_code"], got["output"], None if got.get("too_much") else packed)
    except (ValueError, KeyError, TypeError):
        raise SandboxError(f"an image's first process wrote {answer[:200]!r}") from None


def base_files(files: Mapping[str, bytes]) -> bytes:
    """A tar of an image's first files: those given, and the accounts that programs look for."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for path, content in {**_ACCOUNTS, **files}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _answered(message: bytes, writable: list[str], seconds: float) -> bytes:
    argv = _bubblewrap(writable)
    group = cgroups.create(plans.cgroup_parents(), _MEMORY_MB, _PROCESSES)
    users = _users() if os.geteuid() == 0 else -1
    locked = os.memfd_create("rlvr")
    try:
        os.write(locked, kernel.seccomp_filter(allow_own_limits=True))
        os.lseek(locked, 0, os.SEEK_SET)
        code = Path(__file__).with_name("inside").joinpath("image.py").read_text(encoding="utf-8")
        folders = ":".join(group.folders) if group else ""
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(users), folders, *argv, "--seccomp", str(locked)]
        process = subprocess.Popen(
            [*launch, _python(), "-I", "-S", "-B", "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", start_new_session=True,
            pass_fds=[fd for fd in (users, locked) if fd >= 0], env={"PATH": PATH},
        )  # fmt: skip
        with process:
            try:
                answer, complaint = _exchanged(process, message, seconds + _ANSWER_SECONDS)
            finally:
                process.kill()
        used_up = group is not None and group.killed_for_memory() > 0
    finally:
        os.close(locked)
        if group is not None:
            group.remove()
    if process.returncode or not answer:
        reason = " ".join(complaint.decode("utf-8", "replace").split())[-300:]
        short = process.returncode in _KILLED or any(words in reason for words in _NO_MEMORY)
        if used_up and short:  # its own memory is small: what the command wrote and started has used up the rest
            raise _UsedUp
        raise SandboxError(f"an image's first process ended with {process.returncode}: {reason}")
    return answer


def _exchanged(process: subprocess.Popen[bytes], message: bytes, seconds: float) -> tuple[bytes, bytes]:
    """Give a process its input and read both its streams to their ends.

    Raises:
        SandboxError: it takes longer, or writes more than any image.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    end, left = time.monotonic() + seconds, memoryview(message)
    answers = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for fd in answers:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            if time.monotonic() > end:
                raise SandboxError(f"an image did not answer within {_ANSWER_SECONDS:g} s of its limit")
            for key, _ in selector.select(max(0.0, end - time.monotonic())):
                if key.fd in answers:
                    block = os.read(key.fd, 1 << 20)
                    answers[key.fd] += block
                    if not block:
                        selector.unregister(key.fd)
                    if len(answers[key.fd]) > _MOST_ANSWERED:
                        raise SandboxError(f"an image's first process wrote over {_MOST_ANSWERED >> 20} MB")
                    continue
                try:
                    left = left[os.write(key.fd, left[: 1 << 20]) :]
                except BrokenPipeError:
                    left = left[:0]
                if not left:
                    selector.unregister(process.stdin)
                    process.stdin.close()
    try:
        process.wait(max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise SandboxError("an image answered, and did not end") from None
    out, complaint = answers.values()
    return bytes(out), bytes(complaint)


def _bubblewrap(writable: list[str]) -> list[str]:
    binary = shutil.which("bwrap") or shutil.which("bwrap", path=PATH)
    if sys.platform != "linux" or binary is None:
        raise SandboxUnavailable("a root filesystem of its own needs Linux and bubblewrap: apt-get install bubblewrap")
    argv = [os.path.realpath(binary), "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    argv += ["--die-with-parent", "--as-pid-1", "--clearenv", "--hostname", "image", "--cap-drop", "ALL"]
    argv += [word for right in _RIGHTS for word in ("--cap-add", f"CAP_{right}")]
    if os.geteuid() != 0:
        argv += ["--unshare-user", "--uid", "0", "--gid", "0"]
    argv += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            argv += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.exists(f"/{name}"):
            argv += ["--ro-bind", f"/{name}", f"/{name}"]
    for name in writable:
        argv += ["--perms", "1777" if name == "tmp" else "0755", "--size", str(MAX_BYTES), "--tmpfs", f"/{name}"]
    for path in _KEPT:
        argv += ["--ro-bind-try", path, path]
    argv += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(MAX_BYTES), "--tmpfs", "/dev/shm"]
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def _python() -> str:
    """An interpreter below /usr, where the image has it too.

    Raises:
        SandboxUnavailable: there is none.
    """
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK) and os.path.realpath(path).startswith("/usr/"):
            return path
    raise SandboxUnavailable("a root filesystem of its own needs python3 below /usr: apt-get install python3")


_held: dict[int, int] = {}
_held_lock = threading.Lock()


def _users() -> int:
    """A descriptor of this process's namespace of 65,536 users that no account here has."""
    with _held_lock:
        if os.getpid() not in _held:
            _held[os.getpid()] = _make_users()
        return _held[os.getpid()]


def _make_users() -> int:
    first = random.SystemRandom().randrange(1 << 20, 1 << 30)
    argv = [sys.executable, "-I", "-S", "-c", _HOLD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            answer = holder.stdout.readline().strip() if holder.stdout else ""
            if answer != "made":
                raise SandboxUnavailable(f"no namespace of users can be made here: {answer}")
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{holder.pid}/{name}").write_text(f"0 {first} {USERS}\n")
            return os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY)
        except OSError as error:
            raise SandboxUnavailable(f"no namespace of users can be made here: {error}") from None
        finally:
            holder.kill()
