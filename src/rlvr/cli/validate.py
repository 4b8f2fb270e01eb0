"""``rlvr validate``: attacks anybody's environment, and says what was found with the command that shows it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rlvr.cli.options import add_force, add_settings, require_new, settings_of
from rlvr.envs.core.files import write_new

EPILOG: Final = """exit status:
  0  nothing of the severity of --fail-on was found
  1  something was
  2  the target names nothing, is not installed or is not allowed
  3  a check itself failed

examples:
  rlvr validate Countdown
  rlvr validate my_env.py:MyEnv --allow-code --html report.html
  rlvr validate gymnasium:FrozenLake-v1 --set success=1
"""
NEVER: Final = "never"


def validate(options: argparse.Namespace, rest: list[str]) -> int:
    """Validate a target; the exit status is that of RFC 008."""
    from rlvr.envs.validation.report import Replay
    from rlvr.envs.validation.targets import require_allowed
    from rlvr.envs.validation.watched import replayed, validate_target

    settings = settings_of(options)
    require_allowed(options.target)
    if options.replay is not None:
        text = options.replay if options.replay.lstrip().startswith("{") else Path(options.replay).read_text("utf-8")
        print(json.dumps(replayed(options.target, settings, Replay.from_dict(json.loads(text))), indent=1))
        return 0
    for path in (options.json, options.openenv, options.markdown, options.html):
        if path is not None:
            require_new(path, options.force)
    report = validate_target(
        options.target, settings, tasks=options.tasks, seed=options.seed, minutes=options.minutes,
    )  # fmt: skip
    report.flags = tuple(_flags(options))
    _write(options, report)
    print(report)
    if options.fail_on != NEVER and report.at_least(options.fail_on):
        return 1
    return 3 if any(result.error for result in report.results) else 0


def _flags(options: argparse.Namespace) -> list[str]:
    """The options of this call by which the target is made."""
    flags = ["--allow-code"] if options.allow_code else []
    for name in ("split", "level"):
        if getattr(options, name) is not None:
            flags += [f"--{name}", str(getattr(options, name))]
    return flags + [word for pair in options.set for word in ("--set", pair)]


def _write(options: argparse.Namespace, report: Any) -> None:
    from rlvr.envs.validation.render import as_html, as_markdown, as_openenv

    files: dict[Path | None, Callable[[], str]] = {
        options.json: lambda: json.dumps(report.to_dict(), indent=1),
        options.openenv: lambda: json.dumps(as_openenv(report), indent=1),
        options.markdown: lambda: as_markdown(report),
        options.html: lambda: as_html(report),
    }
    for path, text in files.items():
        if path is not None:
            write_new(path, text(), options.force)


def add_parsers(commands: Any) -> None:
    """Add ``validate`` to the sub-commands of `rlvr`."""
    validating = commands.add_parser("validate", help="attack anybody's environment, and report what is found")
    validating.formatter_class = argparse.RawDescriptionHelpFormatter
    validating.epilog = EPILOG
    validating.add_argument(
        "target",
        help="an id, file.py:Class, module:Class, a server as openenv:URL, ors:URL or nemo_gym:URL, verifiers:NAME, "
        "rg:NAME, gem:NAME, textarena:NAME, gymnasium:ID, a folder of Harbor's tasks, or a table of rows",
    )
    validating.add_argument("--tasks", type=int, help="tasks of each level; 8, and 24 of all levels, if left out")
    validating.add_argument("--seed", type=int, default=0, help="which tasks")
    validating.add_argument("--minutes", type=float, default=5.0, help="after which it ends; 5 if left out")
    validating.add_argument(
        "--fail-on",
        choices=("low", "medium", "high", NEVER),
        default="high",
        help="severity for status 1; high if left out",
    )
    validating.add_argument(
        "--replay", metavar="JSON", help="play what a finding shows, as JSON or a file, and print it"
    )
    for name, what in (
        ("json", "JSON"),
        ("openenv", "JSON of OpenEnv's RFC 008"),
        ("markdown", "Markdown"),
        ("html", "HTML"),
    ):
        validating.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write the report as {what}")
    add_force(validating)
    add_settings(validating)
    validating.set_defaults(command=validate)
