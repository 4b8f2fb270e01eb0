"""Tier T1 (docker or podman, one container for each run) and the unsafe local runner: a process started directly."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from rlvr.envs.sandbox import bundle
from rlvr.envs.sandbox.inside import scratch
from rlvr.envs.sandbox.inside.channel import ASKED
from rlvr.envs.sandbox.limits import Limits, SandboxError, Tier
from rlvr.envs.sandbox.native import memory_file
from rlvr.envs.sandbox.progress import Watched
from rlvr.envs.sandbox.running import Ended, Running

DEFAULT_IMAGE = "python:3.12-slim"
_LOCAL_ENVIRONMENT = {"PATH": os.defpath, "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"}
_ENGINE_FAILED = (125, 126, 127)  # docker's and podman's own exit codes: the program never ran


@dataclass(slots=True)
class _Process:
    """A started command: a ``ProgramHandle``."""

    process: subprocess.Popen[bytes]
    tier: Tier
    unsafe: bool
    home: str | None
    container: tuple[str, str] | None  # engine and name
    _fd: int | None = None
    _ended: Ended | None = None

    def exit_fd(self) -> int | None:
        if self._fd is None and hasattr(os, "pidfd_open") and self._ended is None:
            with contextlib.suppress(OSError):
                self._fd = os.pidfd_open(self.process.pid)
        return self._fd

    def poll_exit(self) -> Ended | None:
        code = self.process.poll()
        if code is None:
            return None
        error = None
        if self.container and code in _ENGINE_FAILED:
            error = f"{self.container[0]} could not run the container (exit code {code})"
        elif self.container and code > 128:
            code = 128 - code
        self._ended = Ended(code, error=error)
        return self._ended

    def lacks_disk(self) -> bool:
        return False

    def watched(self) -> Watched | None:
        # A container's processes are not below the command that started it.
        return None if self.container else Watched(self.process.pid)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """To its process group. A container is left alone: the engine takes too long to halt one."""
        if not self.container:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.container:
            _quietly([self.container[0], "kill", self.container[1]])
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def release(self, healthy: bool) -> None:
        self.kill()
        self.process.wait()
        if self._fd is not None:
            os.close(self._fd)
        if self.container:
            _quietly([self.container[0], "rm", "--force", self.container[1]])
        if self.home is not None:
            scratch.remove_tree(self.home)


def _quietly(argv: list[str]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)


class _DirectBackend:
    """Starts one process for each program; the request goes in on standard input, before the program's own."""

    tier: Tier
    unsafe = False
    supervisor_pid: int | None = None

    def _command(self, limits: Limits) -> tuple[list[str], tuple[str, str] | None]:
        raise NotImplementedError

    def _home(self) -> str | None:
        return None

    def start(self, request: dict[str, Any], stdin: bytes, limits: Limits, cancel: int | None) -> Running:
        """Start a program.

        Raises:
            SandboxError: the command could not be started.
        """
        home = self._home()
        text = json.dumps({**request, "home": home, "lock": not self.unsafe}).encode()
        head = b"".join(b"%d\n%s" % (len(part), part) for part in (bundle.inside(), text))
        channel = request["mode"] in ASKED
        feed = None if channel else memory_file(head + stdin)
        argv, container = self._command(limits)
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE if channel else feed, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, bufsize=0, env=_engine_environment() if container else _LOCAL_ENVIRONMENT,
            )  # fmt: skip
        except OSError as error:
            if home:
                scratch.remove_tree(home)
            raise SandboxError(f"{argv[0]} could not be started: {error}") from error
        finally:
            if feed is not None:
                os.close(feed)
        fds = {"stderr": _taken(process.stderr)}
        if channel:
            null, fds["stdout"] = os.pipe()[::-1]
            os.close(null)
            fds["requests"], fds["replies"] = _taken(process.stdin), _taken(process.stdout)
        else:
            fds["stdout"] = _taken(process.stdout)
        handle = _Process(process, self.tier, self.unsafe, home, container)
        running = Running(handle, fds, limits, cancel, request.get("reply_bytes", 1 << 20))
        if channel:
            running.queue(head)
        return running

    def close(self) -> None:
        """Nothing is kept between runs."""


def _taken(stream: Any) -> int:
    """The descriptor of a stream of Popen's, ours to close."""
    fd = os.dup(stream.fileno())
    stream.close()
    return fd


def _engine_environment() -> dict[str, str]:
    """What the container engine itself needs to find its service; none of it enters the container."""
    wanted = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "CONTAINER_HOST")
    return {name: os.environ[name] for name in wanted if name in os.environ}


class ContainerBackend(_DirectBackend):
    """Tier T1. The image needs ``python3`` and is never pulled: what is not there is an error.

    Args:
        engine: path of ``docker`` or ``podman``.
        image: the image, or ``rootfs:/folder`` for podman to run a plain folder.
    """

    def __init__(self, engine: str, image: str) -> None:
        self.tier = "T1"
        self._engine, self._image = engine, image

    def _command(self, limits: Limits) -> tuple[list[str], tuple[str, str] | None]:
        name = f"rlvr-{os.urandom(8).hex()}"
        image = ["--rootfs", self._image[7:]] if self._image.startswith("rootfs:") else [self._image]
        return [
            self._engine, "run", "--rm", "--interactive", "--name", name, "--pull", "never", "--network", "none",
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--user", "65534:65534",
            "--pids-limit", str(limits.processes + 1), "--cpus", "1", "--memory", f"{limits.memory_mb}m",
            "--memory-swap", f"{limits.memory_mb}m", "--ipc", "private", "--workdir", "/tmp",
            "--tmpfs", f"/tmp:rw,nosuid,nodev,exec,size={limits.disk_mb}m,mode=1777",
            "--ulimit", f"nofile={limits.open_files}", "--ulimit", "nproc=4096", "--ulimit", "core=0",
            "--shm-size", "16m", "--log-driver", "none", "--env", "PYTHONHASHSEED=0", "--env", "PYTHONSAFEPATH=1",
            *image, "python3", "-s", "-S", "-B", "-X", "utf8", "-c", bundle.BOOT_FROM_INPUT,
        ], (self._engine, name)  # fmt: skip


class LocalBackend(_DirectBackend):
    """No sandbox at all: the program runs as the user, in a process group and a folder of its own, and may do
    whatever the user may. Only reached by ``unsafe_local=True``."""

    unsafe = True

    def __init__(self) -> None:
        self.tier = "T0"

    def _home(self) -> str | None:
        return tempfile.mkdtemp(prefix="rlvr-unsafe-")

    def _command(self, limits: Limits) -> tuple[list[str], tuple[str, str] | None]:
        return [sys.executable, "-s", "-B", "-X", "utf8", "-c", bundle.BOOT_FROM_INPUT], None


def engines() -> list[str]:
    """The paths of docker and podman, those that are installed."""
    return [path for path in map(shutil.which, ("docker", "podman")) if path]
