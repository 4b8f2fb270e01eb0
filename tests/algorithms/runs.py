"""Small real runs: a config that trains in a second, and how to start, break and compare runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.step_log import StepSample

from ..children import start

GUESS, CALCULATOR, GSM8K = "rlvr/GuessNumber-v0", "rlvr/Calculator-v0", "rlvr/GSM8K-v0"

# Every step has a gradient, whatever the rewards: the entropy bonus and the KL term (grpo's own) see to it.
SMALL: dict[str, Any] = {
    "env": {"id": GUESS, "system": False},
    "model": {"hidden": 32, "layers": 1},
    "sampling": {"max_new_tokens": 16, "max_length": 128},
    "warm_start": {"steps": 8, "mixed_steps": 2, "batch_size": 8, "lr": 1e-2, "warmup_steps": 2},
    "learner": {"lr": 3e-3, "warmup_steps": 2},
    "evaluation": {"episodes": 4},
    "overrides": {"entropy_coef": 0.01},
    "steps": 4,
    "prompts": 4,
    "group_size": 4,
    "checkpoint_every": 2,
    "episodes_every": 1,
}


def small(out: Path, **changes: Any) -> TrainConfig:
    """`SMALL` with other fields; a section is merged, not replaced."""
    return load_config(merged(changes) | {"out": str(out)})


def merged(changes: dict[str, Any]) -> dict[str, Any]:
    return SMALL | {
        name: SMALL[name] | value if isinstance(value, dict) and name in SMALL and name != "overrides" else value
        for name, value in changes.items()
    }


class Callback:
    """Remembers what a run told."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int]] = []
        self.records: list[dict[str, Any]] = []
        self.said: list[str] = []

    def phase(self, name: str, steps: int) -> None:
        self.phases.append((name, steps))

    def step(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def say(self, text: str) -> None:
        self.said.append(text)

    def of(self, phase: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["phase"] == phase]


@dataclass
class Ended:
    """How a command ended: its status (negative for a signal), and all that it printed."""

    status: int
    output: str


class RunServer:
    """Runs `rlvr` commands in children of a process that has imported everything already; see run_server.py."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.output = folder / "output"
        script = Path(__file__).parent / "run_server.py"
        self.process = start(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def start(
        self,
        arguments: Sequence[Any],
        fault: tuple[str, int, str] | None = None,
        seconds: float = 0.0,
        processes: int = 0,
    ) -> int:
        """Start a command, to be killed after some seconds unless 0; the process's id. Call `end` before the next.

        With ``processes`` above 0 there are so many, each with what torchrun would tell it.
        """
        planted = None if fault is None else dict(zip(("where", "count", "do"), fault, strict=True))
        request = {
            "arguments": list(map(str, arguments)),
            "fault": planted,
            "seconds": seconds,
            "processes": processes,
            "output": str(self.output),
        }
        self.output.unlink(missing_ok=True)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def end(self) -> Ended:
        status = int(self._line())
        return Ended(status, self.output.read_text())

    def run(self, *arguments: Any, **options: Any) -> Ended:
        self.start(*arguments, **options)
        return self.end()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def content(run: Path) -> dict[str, bytes]:
    """What must not depend on how often a run was broken: all but clocks, locks, pictures and the folder's own name."""
    folders = ("policy", "episodes", "checkpoints")
    paths = [run / "metrics.jsonl", *(path for name in folders for path in sorted((run / name).rglob("*")))]
    return {str(path.relative_to(run)): path.read_bytes() for path in paths if path.is_file()}


def differences(run: Path, other: Path) -> list[str]:
    """Files that differ, or that only one of the runs has."""
    one, two = content(run), content(other)
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def stop_and_resume(out: Path, after: int, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """A `small` run that fails when ``after`` steps are done, and another that goes on from its last checkpoint."""
    stopped = Trainer(small(out, **changes), Callback())
    collect = stopped.collect

    def fail() -> StepSample:
        if stopped.step == after:
            raise RuntimeError("stopped here")
        return collect()

    monkeypatch.setattr(stopped, "collect", fail)
    with pytest.raises(RuntimeError, match="stopped here"):
        stopped.run()
    Trainer(small(out, **changes), Callback(), resume=True).run()
