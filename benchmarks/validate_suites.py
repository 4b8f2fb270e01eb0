"""What `rlvr validate` says of the environments of another package, each as it is shipped.

    python benchmarks/validate_suites.py reasoning-gym [--only NAME …] [--tasks 3] [--minutes 2] [--until 01:30]

Run it where the package is installed. One record for each environment stands in
``benchmarks/results/validate_suites.jsonl``; a later run leaves out what stands there, unless it is told ``--again``.
A record is what the checks said at once: what a second look says of it is written by hand, in ``docs/validation/``.
Data sets with scorers of their own come first.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr.envs.bridges.suite_games import GEM, TEXTARENA
from rlvr.envs.validation.report import ValidationReport
from rlvr.envs.validation.watched import validate_target

RECORDS = Path(__file__).parent / "results" / "validate_suites.jsonl"


def reasoning_gym_targets() -> list[str]:
    """All data sets; those whose scorer is not the one that all share come first."""
    importlib.import_module("reasoning_gym")
    factory: Any = importlib.import_module("reasoning_gym.factory")
    shared = factory.ProceduralDataset.score_answer
    return sorted(
        (f"rg:{name}" for name in factory.DATASETS),
        key=lambda target: (factory.DATASETS[target[3:]][0].score_answer is shared, target),
    )


SUITES: dict[str, Callable[[], list[str]]] = {
    "reasoning-gym": reasoning_gym_targets,
    "textarena": lambda: [f"textarena:{name}-v0" for name in TEXTARENA],
    "gem-llm": lambda: [f"gem:game:{name}-v0" for name in GEM],
}


def record_of(report: ValidationReport, package: str) -> dict[str, Any]:
    """What is kept of a report: findings above a note, and what was not finished."""
    return {
        "target": report.target,
        "version": importlib.metadata.version(package),
        "verdict": report.verdict,
        "not finished": [r.check.id for r in report.results if r.unfinished or r.error],
        "findings": [
            {
                "check": check.id,
                "severity": finding.severity,
                "text": finding.text,
                "show": finding.replay.command(report.target) if finding.replay else "",
            }
            for check, finding in report.findings
            if finding.severity != "note"
        ],
        "seconds": round(report.seconds, 1),
    }


def main() -> None:
    """Validate what has no record yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--only", nargs="+", metavar="TARGET", help="these alone")
    parser.add_argument("--tasks", type=int, default=3, help="tasks of each (3)")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each (2)")
    parser.add_argument("--until", metavar="HH:MM", help="begin none after this time of day, UTC")
    parser.add_argument("--again", action="store_true", help="run also what stands in the records")
    options = parser.parse_args()
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    records = {record["target"]: record for record in map(json.loads, lines)}
    for target in options.only or SUITES[options.suite]():
        if target in records and not options.again:
            continue
        if options.until and time.strftime("%H:%M", time.gmtime()) >= options.until:
            break
        try:
            report = validate_target(target, tasks=options.tasks, minutes=options.minutes)
        except ValueError as error:
            print(f"{target}: {error}", flush=True)
            continue
        records[target] = record = record_of(report, options.suite)
        print(datetime.datetime.now(datetime.UTC).strftime("%H:%M"), json.dumps(record), flush=True)
        RECORDS.write_text("".join(json.dumps(records[name]) + "\n" for name in sorted(records)), encoding="utf-8")


if __name__ == "__main__":
    main()
