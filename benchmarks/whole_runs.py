"""Training runs inside a benchmark: without a word, and read again where they stand already."""

from __future__ import annotations

from collections.abc import Mapping
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


def records_of(
    example: Path, seed: int, out: Path, changes: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], int] | None:
    """An example's records and CPU-seconds, trained where ``out`` is missing; None if the run has not ended.

    Args:
        changes: of the example, section by section.
    """
    if not out.exists():
        values = changed(read_yaml(example), {**(changes or {}), "seed": seed, "out": str(out)})
        Trainer(load_config(values), Silent()).run()
    records = read_jsonl(out / "metrics.jsonl")
    if not any(record["phase"] == "evaluation" and record["name"] == "after" for record in records):
        print(f"the run of seed {seed} in {out} has not ended: left out")
        return None
    return records, round(sum(record["cpu_seconds"] for record in read_jsonl(out / "timing.jsonl")))


def evaluations(example: Path, seed: int, out: Path) -> tuple[list[dict[str, Any]], int] | None:
    """The evaluations alone of `records_of`."""
    run = records_of(example, seed, out)
    return run and ([record for record in run[0] if record["phase"] == "evaluation"], run[1])


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a config with changes: a section keeps the fields that its change does not name."""
    return {
        **values,
        **{
            name: changed(values[name], new)
            if isinstance(new, Mapping) and isinstance(values.get(name), Mapping)
            else new
            for name, new in changes.items()
        },
    }
