"""A vLLM server that this process starts, and that ends with it."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlvr.agents.models.vllm import MISSING, whole_prefills
from rlvr.agents.models.vllm_worker import EXTENSION
from rlvr.envs.core.files import open_plain
from rlvr.envs.endpoint import Endpoint, EndpointError, call

NAME = "policy"
START_SECONDS = 600.0
END_SECONDS = 30.0
EXPLAIN_SECONDS = 5.0
POINTERS = ("EngineDeadError", "Internal Server Error")
_PDEATHSIG = 1  # linux/prctl.h


class ServerProcess:
    """`vllm serve` on a free port of the loopback, with a key of its own, in a process that dies with this one.

    Attributes:
        endpoint: where it answers.

    Args:
        model: the folder of the policy.
        log: a file for what it prints.
        options: of vLLM, by their names in Python.
        deadline: seconds for a call of the endpoint.

    Raises:
        ImportError: vLLM is missing.
        RuntimeError: it ended, or did not answer in time; the message has the last lines of its log.
    """

    def __init__(self, model: Path, log: Path, options: Mapping[str, Any], *, deadline: float) -> None:
        try:
            chosen = {"logprobs_mode": "processed_logprobs", **whole_prefills(), **options}
        except ImportError as error:
            raise ImportError(MISSING) from error
        self.log = log
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        key = secrets.token_hex(16)
        self.endpoint = Endpoint(f"http://127.0.0.1:{port}", NAME, key, deadline=deadline)
        # What `vllm serve` runs: its own command does not start from the wheel for the CPU, which has another name.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port), "--enable-scale-out"]
        command += ["--worker-extension-cls", EXTENSION, *flags(chosen)]
        variables = os.environ | {"VLLM_SERVER_DEV_MODE": "1", "VLLM_API_KEY": key, "PYTHONSAFEPATH": "1"}
        variables.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
        with open_plain(log, "ab") as sink:
            self.process = subprocess.Popen(
                command, env=variables, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent
            )
        self._wait()

    @property
    def alive(self) -> bool:
        """Whether the process of the engine still runs."""
        return self.process.poll() is None

    def close(self) -> None:
        """End it and what it has started."""
        for signum, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
            if self.alive:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signum)
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)
        with suppress(ProcessLookupError):  # an engine that outlived its server
            os.killpg(self.process.pid, signal.SIGKILL)

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                call(self.endpoint, "/v1/models")
            except EndpointError:
                if self.alive and time.monotonic() < end:
                    time.sleep(0.25)
                    continue
            else:
                return
            text = self.explain("it does not answer")
            self.close()
            raise RuntimeError(text)

    def explain(self, fault: object) -> str:
        """One sentence of why it cannot be used, from its log where it has ended; ``fault`` is what a caller met."""
        # An engine that failed takes its server with it, a moment later.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(EXPLAIN_SECONDS)
        how = str(fault) if self.alive else f"it ended with status {self.process.returncode}"
        return f"the vLLM server that this run started cannot be used, {how}: {cause(self.log)} (its log: {self.log})"


def cause(log: Path) -> str:
    """The last line of a server's log that names an error of its own, or else the last one."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    # What the server says of an engine that is gone only points to the error above.
    named = [line for line in lines if "Error" in line and not any(words in line for words in POINTERS)]
    return (named or lines or ["it printed nothing"])[-1][-300:]


def flags(options: Mapping[str, Any]) -> list[str]:
    """The flags of vLLM's command for options by their names in Python."""
    words: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{flag}")
        else:
            words += [f"--{flag}", json.dumps(value) if isinstance(value, Mapping) else str(value)]
    return words


def _die_with_parent() -> None:
    os.setpgid(0, 0)  # a group of its own, so that Ctrl-C is the run's to handle
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM)
