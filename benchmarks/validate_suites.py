"""What `rlvr validate` says of the environments of another package, each as it is shipped, or of our own.

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
import itertools
import json
import pkgutil
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr.envs import list_envs
from rlvr.envs.bridges.suite_games import REFUSED_GAMES, TEXTARENA
from rlvr.envs.validation.report import ValidationReport
from rlvr.envs.validation.targets import names_code
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


def textarena_targets() -> list[str]:
    """The games for one player, each by its plain id."""
    return [f"textarena:{name}-v0" for name in sorted([*TEXTARENA, *REFUSED_GAMES])]


def gem_targets() -> list[str]:
    """The games; other environments of GEM's download their data, or are reasoning-gym's."""
    importlib.import_module("gem")
    ids = importlib.import_module("gem.envs.registration").ENV_REGISTRY
    return sorted(f"gem:{name}" for name in ids if name.startswith("game:"))


def registered_targets(kinds: str, module: str = "") -> list[str]:
    """Ids of Gymnasium's, or that importing ``module`` registers, of classes in ``kinds``; one of each class first."""
    if module:
        importlib.import_module(module)
    classes: dict[str, list[str]] = {}
    for env_id, spec in gym.registry.items():
        if re.match(kinds, str(spec.entry_point)):
            classes.setdefault(str(spec.entry_point), []).append(f"{module}:{env_id}" if module else env_id)
    return [target for group in itertools.zip_longest(*classes.values()) for target in group if target]


def pettingzoo_targets() -> list[str]:
    """The newest game of each kind of its classic games."""
    classic: Any = importlib.import_module("pettingzoo.classic")
    names = [each.name for each in pkgutil.iter_modules(classic.__path__) if re.search(r"_v\d+$", each.name)]
    return [f"pettingzoo.classic.{name}:env" for name in sorted(names)]


SUITES: dict[str, Callable[[], list[str]]] = {
    "rlvr": list_envs,
    "reasoning-gym": reasoning_gym_targets,
    "textarena": textarena_targets,
    "gem-llm": gem_targets,
    "minigrid": lambda: registered_targets("minigrid", "minigrid"),
    "gymnasium": lambda: registered_targets(r"gymnasium\.envs\.(toy_text|classic_control)"),
    "pettingzoo": pettingzoo_targets,
}


def cpu_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record_of(report: ValidationReport, package: str, cpu: float) -> dict[str, Any]:
    """What is kept of a report: findings above a note, and what was not finished."""
    flags = ("--allow-code",) if names_code(report.target) else ()
    return {
        "target": report.target,
        "version": importlib.metadata.version(package),
        "verdict": report.verdict,
        "not finished": [r.check.id for r in report.results if r.unfinished or r.error],
        "findings": [
            {
                "check": check.id,
                "severity": finding.severity,
                "text": finding.text.replace(sys.prefix, "…"),  # where it was run is no matter
                "show": finding.replay.command(report.target, flags) if finding.replay else "",
            }
            for check, finding in report.findings
            if finding.severity != "note"
        ],
        "seconds": round(report.seconds, 1),
        "cpu": round(cpu, 1),
        "tries": sum(result.tries for result in report.results),
    }


def main() -> None:
    """Validate what has no record yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--only", nargs="+", metavar="TARGET", help="these alone")
    parser.add_argument("--tasks", type=int, help="tasks of each (3; of ours as many as by default)")
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
        before, tasks = cpu_seconds(), options.tasks or (None if options.suite == "rlvr" else 3)
        try:
            report = validate_target(target, tasks=tasks, minutes=options.minutes)
        except ValueError as error:
            print(f"{target}: {error}", flush=True)
            continue
        records[target] = record = record_of(report, options.suite, cpu_seconds() - before)
        print(datetime.datetime.now(datetime.UTC).strftime("%H:%M"), json.dumps(record), flush=True)
        RECORDS.write_text("".join(json.dumps(records[name]) + "\n" for name in sorted(records)), encoding="utf-8")


if __name__ == "__main__":
    main()
