"""How many planted defects a validator finds, and how often it is wrong: 72 environments, and their 72 mended twins.

    python benchmarks/validate.py [--validator rlvr …] [--only NAME …] [--seconds 600] [--tools FOLDER] [--write]

Each environment of ``tests/planted/`` is validated in a process of its own, with a temporary folder and a time limit of
its own. What a validator says of each stands in ``benchmarks/results/validate.jsonl``; a later run leaves out what
stands there, unless it is told ``--again``. ``--write`` makes ``docs/validation/planted.md`` of that file.

A planted environment is *caught* where the validator fails it, and a twin that it fails is a *false alarm*. A validator
that fails everything catches all: *told apart* counts the pairs of which a check fails the planted one alone.

Other tools run from an environment of their own in the folder of ``--tools``, such as ``vf``: ``python -m venv vf``,
then ``vf/bin/pip install`` of rlvr and of the package that the page names.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from planted.catalogue import PAIRS, Pair

import rlvr

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "benchmarks" / "results" / "validate.jsonl"
UNTUNED = RECORDS.with_name("validate.untuned.jsonl")  # as they were before the checks were tuned on this set
NO_FORM = 4  # the exit status of exports/folders.py where a tool has no form for an environment
EXPORTS = ROOT / "tests" / "planted" / "exports"
PAGE = ROOT / "docs" / "validation" / "planted.md"


@dataclass(frozen=True)
class Finished:
    """A validator's process after its end; ``status`` is None where it met the time limit."""

    status: int | None
    output: str
    cpu_seconds: float


@dataclass(frozen=True)
class Validator:
    """How a validator is called, and what it says.

    Attributes:
        package: what pip installs.
        command: of the folder of the tools, the target, and the folder of the run, where its report goes.
        failed_checks: the checks that failed, read of its end and that folder; None where it gave no verdict.
        form: what the environment is written as first, by ``exports/folders.py``, into ``task`` of the folder of the
            run; that is not counted.
    """

    name: str
    package: str
    command: Callable[[Path, str, Path], list[str]]
    failed_checks: Callable[[Finished, Path], list[str] | None]
    form: str = ""


def run(command: list[str], seconds: float, folder: Path) -> Finished:
    """Run a command in a session of its own, and end all that it has started when it ends, or is over its time."""
    code = folder / "code"
    if not code.exists():
        code.mkdir()
        (code / "planted").symlink_to(ROOT / "tests" / "planted")  # the folder of all tests would hide other packages
    paths = os.pathsep.join(map(str, [code, EXPORTS]))
    variables = {"PYTHONPATH": paths, "TMPDIR": str(folder), "PYTHONSAFEPATH": "1", "RLVR_ALLOW_CODE": "1"}
    with (folder / "output").open("w+b") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        over = threading.Event()

        def end() -> None:
            over.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(seconds, end)
        timer.start()
        _, wait_status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Finished(None if over.is_set() else process.returncode, text, usage.ru_utime + usage.ru_stime)


def rlvr_failed(finished: Finished, folder: Path) -> list[str] | None:
    """The checks with a finding of severity high, as the exit status has it."""
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return sorted(
        check["check"] for check in report["checks"] if any(each["severity"] == "high" for each in check["findings"])
    )


def vf_failed(finished: Finished, folder: Path) -> list[str] | None:
    """``gold`` and ``noop``, where they failed on a task."""
    try:
        rows = [json.loads(line) for line in (folder / "run" / "results.jsonl").read_text().splitlines()]
    except FileNotFoundError:
        return None
    reasons = {(check, row[check]["reason"]) for row in rows for check in ("gold", "noop")}
    if not {reason for _, reason in reasons} - {"unchecked"}:
        return None
    return sorted({check for check, reason in reasons if reason not in ("valid", "unchecked")})


def openenv_failed(finished: Finished, folder: Path) -> list[str] | None:
    """The checks whose status is fail or error."""
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return sorted(each["check_id"] for each in report["results"] if each["status"] in ("fail", "error"))


def harbor_failed(finished: Finished, folder: Path) -> list[str] | None:
    """The rules that found something."""
    if not (folder / "task").exists():
        return None
    try:
        return sorted({finding["rule"] for finding in json.loads(finished.output)})
    except ValueError:
        return None


VALIDATORS = [
    Validator(
        "rlvr validate",
        f"rlvr=={rlvr.__version__}",
        lambda tools, target, folder: [
            *(sys.executable, "-m", "rlvr", "validate", target, "--allow-code", "--json", str(folder / "report.json")),
        ],
        rlvr_failed,
    ),
    Validator(
        "vf-validate",
        "verifiers==0.4.0",
        lambda tools, target, folder: [
            *(str(tools / "vf" / "bin" / "vf-validate"), "planted-taskset", "--taskset.target", target),
            *("--runtime.type", "subprocess", "--rich", "false", "--output-dir", str(folder), "--run.dir", "run"),
        ],
        vf_failed,
    ),
    Validator(
        "openenv validate",
        "openenv==0.10.0",
        lambda tools, target, folder: [
            *(str(tools / "openenv" / "bin" / "openenv"), "validate", str(folder / "task"), "--level", "static"),
            *("--skip-build", "--output", str(folder / "report.json")),
        ],
        openenv_failed,
        form="openenv",
    ),
    Validator(
        "harbor lint",
        "harbor==0.26.0",
        lambda tools, target, folder: [
            *(str(tools / "harbor" / "bin" / "harbor"), "lint", "--json", str(folder / "task")),
        ],
        harbor_failed,
        form="harbor",
    ),
]


def target_of(pair: Pair, mended: bool) -> str:
    """What a validator is given: ``module:Class``."""
    return f"planted.{pair.kind.module}:{'Mended' if mended else ''}{pair.name}"


def measure(validator: Validator, pair: Pair, mended: bool, tools: Path, seconds: float) -> dict[str, Any]:
    """One run of a validator, as a line of the records."""
    target = target_of(pair, mended)
    with tempfile.TemporaryDirectory(prefix="validate-", ignore_cleanup_errors=True) as folder:
        if validator.form:
            export = [sys.executable, str(EXPORTS / "folders.py"), validator.form, target, f"{folder}/task"]
            exported = run(export, seconds, Path(folder))
            if exported.status == NO_FORM:
                return {"validator": validator.name, "target": target, "no_form": True}
            if exported.status != 0:
                raise RuntimeError(f"{target} could not be written as {validator.form}: {exported.output}")
        finished = run(validator.command(tools, target, Path(folder)), seconds, Path(folder))
        failed = None if finished.status is None else validator.failed_checks(finished, Path(folder))
    return {
        "validator": validator.name,
        "target": target,
        "failed": failed,
        "status": finished.status,
        "cpu_seconds": round(finished.cpu_seconds, 2),
    }


Records = dict[tuple[str, str], dict[str, Any]]


def read_records(path: Path) -> Records:
    """The last run of each validator on each target."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(record["validator"], record["target"]): record for record in map(json.loads, lines)}


@dataclass(frozen=True)
class Count:
    """What a validator says of some pairs that it was run on."""

    runs: int = 0
    caught: int = 0
    false_alarms: int = 0
    told_apart: int = 0
    no_verdict: int = 0


def count(records: Records, validator: str, pairs: Iterable[Pair]) -> Count:
    """Count the pairs of which both were run; where a tool has no form for an environment, none was."""
    total = Count()
    for pair in pairs:
        runs = [records.get((validator, target_of(pair, mended))) for mended in (False, True)]
        if any(run is None or "no_form" in run for run in runs):
            continue
        planted, twin = (run["failed"] for run in runs if run is not None)
        total = Count(
            total.runs + 1,
            total.caught + bool(planted),
            total.false_alarms + bool(twin),
            total.told_apart + bool(set(planted or ()) - set(twin or ())),
            total.no_verdict + (planted is None) + (twin is None),
        )
    return total


def table(records: Records, validators: list[Validator]) -> str:
    """The table of the page: a row for each kind, and sums."""
    names = [validator.name for validator in validators]
    lines = [f"| kind | {' | '.join(names)} |", "|---|" + "---|" * len(names)]

    def row(title: str, cell: Callable[[Count], object], pairs: list[Pair]) -> str:
        counts = [count(records, name, pairs) for name in names]
        cells = [str(cell(each)) if each.runs else none(name, pairs) for name, each in zip(names, counts, strict=True)]
        return f"| {title} | {' | '.join(cells)} |"

    def none(name: str, pairs: list[Pair]) -> str:
        return "no form" if any("no_form" in records.get((name, target_of(p, False)), ()) for p in pairs) else "not run"

    def of_a_kind(counted: Count) -> str:
        return f"{counted.caught} / {counted.false_alarms}" + (f" of {counted.runs}" if counted.runs < 3 else "")

    for kind in dict.fromkeys(pair.kind for pair in PAIRS):
        pairs = [pair for pair in PAIRS if pair.kind == kind]
        lines.append(row(f"{kind.number}. {kind.defect}", of_a_kind, pairs))
    lines.append(row("**caught**", lambda c: f"{c.caught} of {c.runs}", PAIRS))
    lines.append(row("**missed**", lambda c: c.runs - c.caught, PAIRS))
    lines.append(row("**false alarms**", lambda c: f"{c.false_alarms} of {c.runs}", PAIRS))
    lines.append(row("**told apart**", lambda c: f"{c.told_apart} of {c.runs}", PAIRS))
    lines.append(row("**no verdict**", lambda c: f"{c.no_verdict} of {2 * c.runs}", PAIRS))
    runs = [[record for (name, _), record in records.items() if name == each] for each in names]
    seconds = [[record["cpu_seconds"] for record in each if "no_form" not in record] for each in runs]
    cells = [f"{statistics.median(each):.1f}, {max(each):.1f}" if each else "not run" for each in seconds]
    lines.append(f"| **CPU-seconds, median and most** | {' | '.join(cells)} |")
    return "\n".join(lines)


def mistakes(records: Records, validator: str) -> list[str]:
    """Which pairs a validator was wrong on, in two lines."""
    missed, alarms = [], []
    for pair in PAIRS:
        planted, twin = (records.get((validator, target_of(pair, mended)), {}) for mended in (False, True))
        if "failed" in planted and not planted["failed"]:
            missed.append(pair.name)
        if twin.get("failed"):
            alarms.append(f"{pair.name} ({', '.join(twin['failed'])})")
    return [f"Missed: {', '.join(missed) or 'none'}.", f"False alarms: {', '.join(alarms) or 'none'}."]


def page(records: Records) -> str:
    """The page of the docs."""
    sections = []
    for validator in VALIDATORS:
        runs = [record for (name, _), record in records.items() if name == validator.name]
        told = mistakes(records, validator.name) if runs else ["Not run."]
        sections.append(f"### {validator.name}\n\n`{validator.package}`. " + "\n\n".join(told))
    return PAGE_TEXT.format(table=table(records, VALIDATORS), tuning=tuning(records), validators="\n\n".join(sections))


def tuning(records: Records) -> str:
    """The table of our validator before its checks were tuned on this set, and after, on the same pairs."""
    name, untuned = VALIDATORS[0].name, read_records(UNTUNED)
    both = [pair for pair in PAIRS if count(records, name, [pair]).runs and count(untuned, name, [pair]).runs]
    link = f"[records](../../benchmarks/results/{UNTUNED.name})"
    rows = {
        f"before any tuning ({link})": count(untuned, name, PAIRS),
        "before, on the pairs that were run both times": count(untuned, name, both),
        "after, on the same pairs": count(records, name, both),
        "after, on all that were run": count(records, name, PAIRS),
    }
    lines = [f"| `{name}` | pairs run | caught | false alarms | told apart |", "|---|---|---|---|---|"]
    lines += [f"| {row} | {c.runs} | {c.caught} | {c.false_alarms} | {c.told_apart} |" for row, c in rows.items()]
    return "\n".join(lines)


PAGE_TEXT = """# Planted defects

How many defects does a validator find, and how often is it wrong? The
[planted set](../../tests/planted/README.md) has 72 small environments with a known defect, three of each of 24 kinds,
as they were reported in public threads. Each has a twin that differs by the mend alone. The set was written before any
check was tuned on it.

```bash
python benchmarks/validate.py --write  # needs the records, see --help
```

A planted environment that the validator fails is *caught*; a twin that it fails is a *false alarm*. A validator that
fails everything catches all, so *told apart* counts the pairs of which a check fails the planted one alone. The row of
a kind says caught / false alarms, of three each. CPU-seconds are of one run on one environment, start included.

{table}

Each tool runs its own checks on the same environments in its own form, on five seeds where it asks for tasks. Some look
for few of these kinds, and promise no more. `vf-validate` plays the reference answer and an agent that does nothing
([the form](../../tests/planted/exports/planted_taskset.py)). `openenv validate` and `harbor lint` read a folder
([the forms](../../tests/planted/exports/folders.py)) and play nothing: OpenEnv's checks that do want docker, and the
rules of Harbor's linter, those on by default, are about files alone. Harbor has no form for an environment that answers
turn by turn, other than by files.

## Before and after tuning

{tuning}

The checks were tuned on this set, by kinds of defects: the last lines say that they find what they were built to find,
the first what they find where nobody has looked.

## What each was wrong on

{validators}
"""


def main() -> None:
    """Run the validators that are named, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [validator.name for validator in VALIDATORS]
    parser.add_argument("--validator", nargs="+", choices=names, default=[], help="which to run; none by default")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="environments to run them on")
    parser.add_argument("--seconds", type=float, default=600, help="time limit of each run (600)")
    parser.add_argument("--tools", type=Path, default=Path("tools"), help="the folder of the other tools' environments")
    parser.add_argument("--again", action="store_true", help="run also what stands in the records")
    parser.add_argument("--write", action="store_true", help="write docs/validation/planted.md")
    arguments = parser.parse_args()
    records = read_records(RECORDS)
    chosen = [validator for validator in VALIDATORS if validator.name in arguments.validator]
    pairs = PAIRS[0::3] + PAIRS[1::3] + PAIRS[2::3]  # a run that is ended early has seen every kind
    for pair, mended, validator in itertools.product(pairs, (False, True), chosen):
        key = validator.name, target_of(pair, mended)
        if (arguments.only and pair.name not in arguments.only) or (key in records and not arguments.again):
            continue
        records[key] = record = measure(validator, pair, mended, arguments.tools.resolve(), arguments.seconds)
        print(json.dumps(record), flush=True)
        write_records(RECORDS, records)
    if arguments.write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(records), encoding="utf-8")


def write_records(path: Path, records: Records) -> None:
    """Write the records, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(records[key]) + "\n" for key in sorted(records)), encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()
