"""What of the bridges works: runs tests/envs/test_bridges.py where the packages are, and writes the table of the docs.

    python benchmarks/bridges.py [--report FILE ...] [--page docs/bridges.md]

Run it with the interpreter of an environment that has the packages, as docs/bridges.md says how to make one. With
``--report`` it reads the JUnit files of earlier runs instead of running the tests.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from rlvr.envs.bridges.suite_games import REASONING_GYM, REFUSED_DATA_SETS, REFUSED_GAMES, TEXTARENA

ROOT = Path(__file__).parents[1]
CHECKS = ("checker", "expert", "audit", "silence", "seeds", "restore", "splits")
MARK = "<!-- from here on written by benchmarks/bridges.py -->"
CASE = re.compile(r"test_(\w+)\[(rlvr/[^\]]+)\]")


def run(report: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    variables = os.environ | {"RLVR_BRIDGES": "rg textarena"}
    subprocess.run([*command, str(ROOT / "tests" / "envs" / "test_bridges.py")], cwd=ROOT, env=variables, check=False)


def outcomes(reports: Iterable[Path]) -> dict[str, dict[str, str]]:
    """id -> check -> passes, fails or – (skipped)."""
    checks_of: dict[str, dict[str, str]] = defaultdict(dict)
    for case in (case for report in reports for case in ElementTree.parse(report).iter("testcase")):
        if match := CASE.fullmatch(case.get("name", "")):
            kinds = {child.tag for child in case}
            outcome = "fails" if kinds & {"failure", "error"} else "–" if "skipped" in kinds else "passes"
            checks_of[match[2]][match[1]] = outcome
    return checks_of


def table(names: dict[str, str], prefix: str, checks_of: dict[str, dict[str, str]]) -> str:
    """One row for each name: its levels, each check, and what is to be known."""
    text = f"| name | levels | {' | '.join(CHECKS)} | note |\n|---|---|{'---|' * len(CHECKS)}---|\n"
    for name, about in names.items():
        checks = checks_of.get(f"{prefix}{name}-v0", {})
        levels, _, note = about.partition("|")
        text += f"| {name} | {levels} | {' | '.join(checks.get(check, 'not run') for check in CHECKS)} | {note} |\n"
    return text


def results(checks_of: dict[str, dict[str, str]]) -> str:
    data_sets = {
        name: f"{len(each.levels) or 1}|{each.note or ('' if each.solved else 'no expert')}"
        for name, each in REASONING_GYM.items()
    }
    games = {name: f"{len(game.settings)}|{game.note}" for name, game in TEXTARENA.items()}
    versions = " and ".join(f"{name} {importlib.metadata.version(name)}" for name in ("reasoning-gym", "textarena"))
    whole = sum(all(outcome != "fails" for outcome in checks.values()) for checks in checks_of.values())
    text = (
        f"{MARK}\n\nMeasured with {versions}: {whole} of {len(checks_of)} ids pass every check that applies to them.\n"
    )
    for title, refused in (("data sets", REFUSED_DATA_SETS), ("games", REFUSED_GAMES)):
        text += f"\nRefused {title}:\n\n" + "".join(f"- `{name}`: {why}\n" for name, why in refused.items())
    text += f"\n### reasoning-gym\n\n{table(data_sets, 'rlvr/rg.', checks_of)}"
    return text + f"\n### TextArena\n\n{table(games, 'rlvr/textarena.', checks_of)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--report", type=Path, nargs="+", help="JUnit files of earlier runs")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "bridges.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reports = options.report or [Path(folder) / "report.xml"]
        if options.report is None:
            run(reports[0])
        checks_of = outcomes(reports)
    text = options.page.read_text(encoding="utf-8").partition(MARK)[0]
    options.page.write_text(text + results(checks_of), encoding="utf-8")


if __name__ == "__main__":
    main()
