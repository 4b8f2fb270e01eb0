"""A program that owns its loop (a coding agent, say) works on a task of ours in a folder of its own.

The program is started for each episode, asks our policy endpoint for the model's words, and changes files as it likes.
When it has ended, the files that it left are graded by the environment's own verifier. ::

    def command(job):
        return ["my-agent", "--model", job.connection.model, "--task", job.task]

    env = HarnessEnv(ProgramHarness("rlvr/RepoRepair-v0", command))

The program runs with your rights, as any other that you start. What a model makes it do is kept in by the program's own
sandbox, or by a container around it, and not by anything here.
"""

from __future__ import annotations

import os
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import gymnasium as gym

from rlvr.adapters.serving.policy_endpoint import HarnessConnection
from rlvr.envs import Verdict
from rlvr.envs.core.verdict import env_error, wrong

SECONDS = 1_800.0
MAX_FILES = 2_000
MAX_BYTES = 16 << 20  # of all files
SKIPPED = (".git", "__pycache__")  # folders that no verifier reads
TAIL_LINES = 20  # of what the program prints, for the reason of a verdict
TAIL = 150  # characters of them: the last, since a verdict cuts a longer reason in its middle
NOT_STARTED = 126  # and 127, as shells say it; above stand the signals that ended what a shell started
MARK = "RLVR_PROGRAM"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """What a program is started for.

    Attributes:
        task: what is to be done, as the environment asks it.
        folder: the task's files; the program's working directory.
        home: an empty folder of its own, its ``HOME``.
        connection: where it asks for the model's words.
    """

    task: str
    folder: Path
    home: Path
    connection: HarnessConnection

    def variables(self) -> dict[str, str]:
        """The program's environment variables: addresses and keys of OpenAI's and Anthropic's clients, and of ours
        nothing but where programs and certificates lie."""
        connection = self.connection
        ours = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return ours | {
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "OPENAI_BASE_URL": connection.base_url,
            "OPENAI_API_BASE": connection.base_url,
            "OPENAI_API_KEY": connection.api_key,
            "ANTHROPIC_BASE_URL": connection.anthropic_base_url,
            "ANTHROPIC_API_KEY": connection.api_key,
            "NO_PROXY": "127.0.0.1",
        }


class ProgramHarness:
    """A harness for `rlvr.adapters.serving.policy_endpoint.HarnessEnv`: plays tasks by starting a program for each.

    An episode is not valid where the program does not end within ``seconds`` (``timeout``), or where this machine is
    at fault (``env_error``, with the program's last words): it cannot be started (status 126, 127), a signal ends it,
    or it ends with a status other than 0 and its last request has no reply. With any other status it has ended on what
    the policy wrote, and its files are graded as they stand. With the episode end the program and what it has started.

    Args:
        env_id: the environment whose tasks are worked on; its task has ``workspace`` and ``judge_files``, as that of
            ``rlvr/RepoRepair-v0`` has.
        command: from a job to the program and its arguments; no shell reads them.
        settings: of ``gym.make``, such as ``{"level": 2, "split": "train"}``.
        variables: environment variables beside `ProgramJob.variables`.
        seconds: how long the program may take in all.

    Raises:
        ValueError: the environment's tasks have no files to work on, or ``seconds`` is not above 0.
    """

    def __init__(
        self,
        env_id: str,
        command: Callable[[ProgramJob], Sequence[str]],
        *,
        settings: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        if seconds <= 0:
            raise ValueError(f"seconds must be above 0, got {seconds}")
        self.env_id, self.command, self.seconds = env_id, command, seconds
        self.settings, self._variables = dict(settings or {}), dict(variables or {})
        env = self._make()
        env.close()

    def _make(self) -> gym.Env[str, str]:
        env: gym.Env[str, str] = gym.make(self.env_id, **self.settings)
        if not hasattr(getattr(env.unwrapped, "task", None), "judge_files"):
            env.close()
            raise ValueError(f"the tasks of {self.env_id} have no files to work on; those of rlvr/RepoRepair-v0 have")
        return env

    def __call__(self, connection: HarnessConnection) -> Verdict:
        """Play the task of the connection's seed and options: the verdict on the files that the program leaves."""
        env = self._make()
        inner: Any = env.unwrapped
        try:
            observation, _ = env.reset(seed=connection.seed, options=dict(connection.options) or None)
            state = inner.get_state().state
            with tempfile.TemporaryDirectory(prefix="rlvr-program-", ignore_cleanup_errors=True) as scratch:
                job = ProgramJob(observation, Path(scratch, "work"), Path(scratch, "home"), connection)
                job.home.mkdir()
                _write(job.folder, inner.task.workspace(state))
                ending = self._run(job)
                if isinstance(ending, Verdict):
                    return ending
                files = _read(job.folder)
            if isinstance(files, str):
                return wrong(reason=files)
            verdict: Verdict = inner.task.judge_files(state, files)
            return replace(verdict, reason=f"{verdict.reason}; {ending}") if ending else verdict
        finally:
            env.close()

    def _run(self, job: ProgramJob) -> Verdict | str:
        """Run the program to its end: why the episode is not valid, or how it ended; "" with status 0."""
        command = [os.fspath(part) for part in self.command(job)]
        mark = secrets.token_hex(16)
        variables = job.variables() | self._variables | {MARK: mark}
        process = subprocess.Popen(
            command, cwd=job.folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        assert process.stdout is not None  # for the type checker
        reader = threading.Thread(target=_keep_tail, args=(process.stdout, lines), daemon=True)
        reader.start()
        until = time.monotonic() + self.seconds
        try:
            while process.poll() is None and time.monotonic() < until and not job.connection.cancelled.wait(0.05):
                pass
            code = process.poll()
        finally:
            _end(process, mark)
            reader.join(5)
        if code is None:
            return Verdict(0.0, "timeout", reason=f"{command[0]} did not end within {self.seconds:g} seconds")
        if not code:
            return ""
        tail = " ".join(b"".join(lines).decode("utf-8", "replace").split())
        ending = f"{command[0]} ended with status {code}: {tail[-TAIL:]}"
        played = 0 < code < NOT_STARTED and job.connection.answered.is_set()
        return ending if played else env_error(ending, "the program")


def _keep_tail(output: IO[bytes], lines: deque[bytes]) -> None:
    with suppress(OSError, ValueError):
        while line := output.readline(4096):
            lines.append(line)
    output.close()


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill the program and whatever it has started, also in sessions of their own, which bear its mark."""
    until = time.monotonic() + 10
    while True:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        strays = [*_marked(f"{MARK}={mark}".encode())]
        for pid in strays:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if (process.poll() is not None and not strays) or time.monotonic() > until:
            return
        time.sleep(0.01)


def _marked(mark: bytes) -> Iterator[int]:
    """Processes with this among their environment variables."""
    for folder in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)


def _read(folder: Path) -> dict[str, str] | str:
    """The text files that a program left, by their paths; why there are too many. Links are no files."""
    files: dict[str, str] = {}
    size = 0
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = Path(here, name)
            with suppress(OSError, UnicodeError):
                facts = path.lstat()
                if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
                    continue
                size += facts.st_size
                if size > MAX_BYTES or len(files) >= MAX_FILES:
                    return f"the program left more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MiB"
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                with os.fdopen(descriptor, "rb") as file:
                    files[path.relative_to(folder).as_posix()] = file.read(facts.st_size).decode()
    return files
