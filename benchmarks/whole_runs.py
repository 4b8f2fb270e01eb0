"""Training runs inside a benchmark: without a word, and read again where they stand already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.algorithms.config import load_config, read_yaml
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.train.run import Trainer


class Silent:
    """A callback that says nothing."""

    def phase(self, name: str, steps: int) -> None: ...

    def step(self, record: dict[str, Any]) -> None: ...

    def say(self, text: str) -> None: ...


def records_of(
    example: Path, seed: int, out: Path, changes: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """An example's records and CPU-seconds, trained where ``out`` is missing; those so far of a run that was stopped.

    Args:
        changes: of the example, section by section.
    """
    if not out.exists():
        values = changed(read_yaml(example), {**(changes or {}), "seed": seed, "out": str(out)})
        Trainer(load_config(values), Silent()).run()
    return read_jsonl(out / "metrics.jsonl"), round(
        sum(line["cpu_seconds"] for line in read_jsonl(out / "timing.jsonl"))
    )


def has_ended(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a run made all of its steps."""
    return any(record["phase"] == "evaluation" and record["name"] == "after" for record in records)


def evaluations(example: Path, seed: int, out: Path) -> tuple[list[dict[str, Any]], int] | None:
    """The evaluations alone of `records_of`; None if the run has not ended."""
    records, cpu = records_of(example, seed, out)
    if not has_ended(records):
        print(f"the run of seed {seed} in {out} has not ended: left out")
        return None
    return [record for record in records if record["phase"] == "evaluation"], cpu


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
