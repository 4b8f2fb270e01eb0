"""The commands on environments: ``envs``, ``card``, ``new``, ``play``, ``validate``, ``audit`` and ``doctor``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rlvr.cli.options import (
    add_allow_code,
    add_force,
    add_settings,
    key_of,
    nonnegative,
    one_line,
    require_new,
    settings_of,
)
from rlvr.envs import list_envs
from rlvr.envs.core.code_rule import make_env, require_registered
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


def envs(options: argparse.Namespace, rest: list[str]) -> int:
    """List the registered environments."""
    ids = list_envs(options.contains)
    if options.long:
        from rlvr.envs.cards import summary

        width = max(map(len, ids), default=0)
    for env_id in ids:
        print(f"{env_id:<{width}}  {summary(env_id)}" if options.long else env_id)
    if not ids:
        print(f"rlvr: no environment's id contains {options.contains!r}", file=sys.stderr)
    return 0 if ids else 1


def card(options: argparse.Namespace, rest: list[str]) -> int:
    """Print what there is to know about environments."""
    from rlvr.envs.cards import card as describe

    for env_id in options.env:
        require_registered(env_id, {})
    print("\n\n".join(str(describe(env_id)) for env_id in options.env))
    return 0


def play(options: argparse.Namespace, rest: list[str]) -> int:
    """A person plays one episode in the terminal."""
    from rlvr.agents import HumanAgent, Rollout, RolloutRequest
    from rlvr.agents.scripted import printable

    settings = settings_of(options)
    require_registered(options.env, settings)
    rollout = Rollout(options.env, HumanAgent(), env_settings=settings)
    request = RolloutRequest(seed=_seed(options.seed), index=options.index)
    try:
        episode = rollout([request])[0]
    except EOFError:
        print()
        return 130
    print(printable(episode.final_observation))
    if episode.verdict is not None:
        reason = f" ({episode.verdict.reason})" if episode.verdict.reason and not episode.verdict.success else ""
        print(printable(f"{episode.verdict.status}: reward {episode.reward:g}{reason}"))
    return 0


def validate(options: argparse.Namespace, rest: list[str]) -> int:
    """Validate a target; the exit status is that of RFC 008."""
    from rlvr.adapters.rollout_health import reads_as_rollouts, rollout_report
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
    if not settings and reads_as_rollouts(Path(options.target)):
        report = rollout_report(Path(options.target))
    else:
        report = validate_target(
            options.target, settings, tasks=options.tasks, seed=options.seed, minutes=options.minutes,
            endpoint=_endpoint_of(options), requests=options.requests,
        )  # fmt: skip
    report.flags = tuple(_flags(options))
    _write(options, report)
    print(report)
    if options.fail_on != NEVER and report.at_least(options.fail_on):
        return 1
    return 3 if any(result.error or result.unfinished for result in report.results) else 0


def _endpoint_of(options: argparse.Namespace) -> Any:
    """The endpoint of the language model that is to read the source; None without one."""
    from rlvr.envs.endpoint import Endpoint

    if (options.endpoint is None) != (options.model is None):
        raise ValueError("--endpoint URL and --model NAME go together: a language model that reads the source")
    if options.endpoint is None:
        return None
    limits = {"deadline": 600.0, "max_tokens": options.max_new_tokens}
    key = key_of(options.api_key_env)
    os.environ.pop(options.api_key_env or "", None)  # which the target's process would inherit
    return Endpoint(options.endpoint, options.model, key, **limits)


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


def audit(options: argparse.Namespace, rest: list[str]) -> int:
    """Attack the verifiers of environments; status 1 if anything was found."""
    from rlvr.envs.audit import audit as attack
    from rlvr.envs.core.tables import DataError

    clean, skipped = True, 0
    for env_id in options.env or list_envs():
        try:
            env = make_env(env_id, **settings_of(options)).unwrapped
        except DataError as error:
            if options.env:
                raise
            skipped += 1
            print(f"{env_id}: skipped, {one_line(error)}", flush=True)
            continue
        result = attack(env, options.tasks, options.seed)
        print(result, flush=True)
        clean = clean and result.clean
    if skipped:
        print(f"{skipped} environments without data were not audited")
    return 0 if clean else 1


def new(options: argparse.Namespace, rest: list[str]) -> int:
    """Write a package with an environment in it."""
    from rlvr.envs.template import env_id, new_package

    for path in new_package(options.name, options.folder, options.kind):
        print(path)
    folder = options.folder / options.name
    print(f"next: pip install -e {folder}[dev] && pytest {folder} && rlvr validate {env_id(options.name)}")
    return 0


def doctor(options: argparse.Namespace, rest: list[str]) -> int:
    """Say which sandbox tier holds on this machine, and what would raise it."""
    from rlvr.envs import sandbox

    print(sandbox.doctor())
    return 0


def _seed(seed: int | None) -> int:
    import secrets

    return secrets.randbits(32) if seed is None else seed


def add_parsers(commands: Any) -> None:
    """Add these commands to the sub-commands of `rlvr`."""
    listing = commands.add_parser("envs", help="list the environments")
    listing.add_argument("contains", nargs="?", default="", help="only ids that contain this text")
    listing.add_argument("-l", "--long", action="store_true", help="with a sentence on each")
    listing.set_defaults(command=envs)

    describing = commands.add_parser("card", help="print the card of an environment")
    describing.add_argument("env", nargs="+", help="ids of environments")
    add_allow_code(describing)
    describing.set_defaults(command=card)

    writing = commands.add_parser("new", help="write a package with an environment of your own")
    writing.add_argument("name", help="of the package, as my_env")
    writing.add_argument(
        "--kind",
        choices=("single", "turns", "tools", "dataset", "players"),
        default="single",
        help="one turn, a game of many, a world of tools, rows of a table, a game of several seats",
    )
    writing.add_argument("--folder", type=Path, default=Path(), help="where to put it; here, if left out")
    writing.set_defaults(command=new)

    playing = commands.add_parser("play", help="play an episode yourself")
    playing.add_argument("env", help="id of the environment")
    playing.add_argument("--seed", type=int, help="which task; random if left out")
    playing.add_argument("--index", type=int, help="which task of the seed")
    playing.set_defaults(command=play)

    auditing = commands.add_parser("audit", help="attack the verifiers of environments")
    auditing.add_argument("env", nargs="*", help="ids; all registered ones if left out")
    auditing.add_argument("--tasks", type=int, default=20, help="tasks of each level")
    auditing.add_argument("--seed", type=int, default=0, help="which tasks")
    auditing.set_defaults(command=audit)
    for command in (playing, auditing):
        add_settings(command)
    _add_validate(commands)
    commands.add_parser("doctor", help="say which sandbox holds on this machine").set_defaults(command=doctor)


def _add_validate(commands: Any) -> None:
    validating = commands.add_parser("validate", help="attack anybody's environment, and report what is found")
    validating.formatter_class = argparse.RawDescriptionHelpFormatter
    validating.epilog = EPILOG
    validating.add_argument(
        "target",
        help="an id, file.py:Class, module:Class, a server as openenv:URL, ors:URL or nemo_gym:URL, verifiers:NAME, "
        "rg:NAME, gem:NAME, textarena:NAME, gymnasium:ID, a folder of Harbor's tasks or of OpenEnv, "
        "a table of rows, or a file of rollouts",
    )
    validating.add_argument("--tasks", type=int, help="tasks of each level; 8, and 24 of all levels, if left out")
    validating.add_argument("--seed", type=int, default=0, help="which tasks")
    validating.add_argument("--minutes", type=nonnegative, default=5.0, help="after which it ends; 5 if left out")
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
    asking = validating.add_argument_group("a language model that reads the source and tries to be paid for nothing")
    asking.add_argument("--endpoint", metavar="URL", help="an OpenAI-compatible server, as http://localhost:8000/v1")
    asking.add_argument("--model", metavar="NAME", help="its name there")
    asking.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the endpoint's key")
    asking.add_argument("--requests", type=int, default=8, help="its budget (8)")
    asking.add_argument("--max-new-tokens", type=int, default=1024, help="tokens of each of its replies (1024)")
    add_force(validating)
    add_settings(validating)
    validating.set_defaults(command=validate)
