"""Training runs inside a benchmark: without a word, and read again where they stand already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr.algorithms.config import load_config, read_yaml
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.trainer import Trainer


class Silent:
    """A callback that says nothing."""

    def phase(self, name: str, steps: int) -> None: ...

    def step(self, record: dict[str, Any]) -> None: ...

    def say(self, text: str) -> None: ...


def evaluations(example: Path, seed: int, out: Path) -> tuple[list[dict[str, Any]], int] | None:
    """An example's evaluations and CPU-seconds, trained where ``out`` is missing; None if the run has not ended."""
    if not out.exists():
        Trainer(load_config({**read_yaml(example), "seed": seed, "out": str(out)}), Silent()).run()
    records = [record for record in read_jsonl(out / "metrics.jsonl") if record["phase"] == "evaluation"]
    if not records or records[-1]["name"] != "after":
        print(f"the run of seed {seed} in {out} has not ended: left out")
        return None
    return records, round(sum(record["cpu_seconds"] for record in read_jsonl(out / "timing.jsonl")))
