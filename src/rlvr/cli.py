"""The ``rlvr`` command: its parser, its errors, and the short commands; the long ones stand in ``cli_<name>``."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym

from rlvr import (
    cli_arena,
    cli_completion,
    cli_eval,
    cli_export,
    cli_launch,
    cli_models,
    cli_plan,
    cli_results,
    cli_serve,
    cli_view,
)
from rlvr.cli_options import CommandParser, add_allow_code, add_settings, full_id, settings_of
from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.code_rule import command_line, make_env, require_registered
from rlvr.envs.core.terminal import plain_output, show_traceback


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. What a user did wrong is one line on stderr and status 2.

    Settings and configs may name code only with ``--allow-code``, and nothing printed can steer a terminal.
    """
    if arguments is None:
        sys.excepthook = show_traceback
    words = list(sys.argv[1:] if arguments is None else map(str, arguments))
    traceback = "--traceback" in words
    try:
        parser = _parser()
        known, rest = parser.parse_known_args([word for word in words if word != "--traceback"])
        if rest and known.command is not train:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        # A person's line editor and the live display speak to the terminal itself, and escape what they show.
        with command_line(getattr(known, "allow_code", False)), plain_output(out=known.command not in (play, train)):
            return _run(known, rest, traceback)
    except KeyboardInterrupt:
        print("rlvr: interrupted", file=sys.stderr)
        return 130


def _run(known: argparse.Namespace, rest: list[str], traceback: bool) -> int:
    try:
        if getattr(known, "env", None) is not None:
            known.env = full_id(known.env) if isinstance(known.env, str) else [full_id(name) for name in known.env]
        return int(known.command(known, rest))
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, ImportError, OSError, gym.error.Error) as error:
        if traceback:
            show_traceback(type(error), error, error.__traceback__)
        print(f"rlvr: {_one_line(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from rlvr.envs.sandbox import SandboxUnavailable

        if not isinstance(error, SandboxUnavailable):
            raise
        print(f"rlvr: {_one_line(error)}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"rlvr: {_one_line(error)}", file=sys.stderr)
        return 1


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

    ids = []
    for given in options.env:
        require_registered(given, {})
        module, _, env_id = given.rpartition(":")
        if module:
            importlib.import_module(module)  # which registers the id
        ids.append(env_id)
    print("\n\n".join(str(describe(env_id)) for env_id in ids))
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
            print(f"{env_id}: skipped, {_one_line(error)}", flush=True)
            continue
        if not isinstance(env, TextEnv):
            raise TypeError(f"{env_id} is no environment of this project's kind, and cannot be audited")
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
    print(f"next: pip install -e {folder}[dev] && pytest {folder} && rlvr audit {env_id(options.name)}")
    return 0


def doctor(options: argparse.Namespace, rest: list[str]) -> int:
    """Say which sandbox tier holds on this machine, and what would raise it."""
    from rlvr.envs import sandbox

    print(sandbox.doctor())
    return 0


def algorithms(options: argparse.Namespace, rest: list[str]) -> int:
    """The table of algorithms, or one by one what the named ones are made of."""
    from rlvr.algorithms.registry import describe, table

    if not options.names:
        print(table())
    for number, name in enumerate(options.names):
        print("\n" * bool(number) + describe(name, width=shutil.get_terminal_size((100, 24)).columns))
    return 0


def explain(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the way of one training episode from its verdict to the gradient."""
    from rlvr.algorithms.runs.explain import explain as describe

    print(describe(options.run, options.episode))
    return 0


def train(options: argparse.Namespace, rest: list[str]) -> int:
    """Train a policy."""
    try:
        from rlvr.algorithms.train.command import train as command
    except ModuleNotFoundError as error:
        raise ImportError(f'training needs {error.name}: pip install "rlvr[train]"') from error
    return command(rest)


def _seed(given: int | None) -> int:
    import secrets

    return secrets.randbits(32) if given is None else given


def _one_line(error: Exception) -> str:
    text = str(error)
    if error.__cause__ is not None and text.startswith(f"{error.__cause__} was raised from the environment creator"):
        text = str(error.__cause__)  # gym.make repeats the settings, which the user has just typed
    return " ".join(text.split())


def _parser() -> argparse.ArgumentParser:
    from rlvr import __version__

    parser = argparse.ArgumentParser(prog="rlvr", description="Environments with verified rewards for language models.")
    parser.add_argument("--version", action="version", version=f"rlvr {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error came from; any command takes it")
    commands = parser.add_subparsers(required=True, metavar="command", parser_class=CommandParser)

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

    cli_eval.add_parser(commands)
    cli_results.add_parsers(commands)
    cli_arena.add_parsers(commands)
    cli_view.add_parser(commands)
    cli_results.add_report(commands)
    cli_export.add_parser(commands)
    cli_models.add_parsers(commands)
    cli_completion.add_parser(commands, _parser)
    cli_launch.add_parser(commands)
    cli_plan.add_parser(commands)
    cli_serve.add_parsers(commands)

    auditing = commands.add_parser("audit", help="attack the verifiers of environments")
    auditing.add_argument("env", nargs="*", help="ids; all registered ones if left out")
    auditing.add_argument("--tasks", type=int, default=20, help="tasks of each level")
    auditing.add_argument("--seed", type=int, default=0, help="which tasks")
    auditing.set_defaults(command=audit)
    for command in (playing, auditing):
        add_settings(command)

    commands.add_parser("doctor", help="say which sandbox holds on this machine").set_defaults(command=doctor)
    naming = commands.add_parser("algorithms", help="list the algorithms, or describe some")
    naming.add_argument("names", nargs="*", metavar="name", help="of an algorithm")
    naming.set_defaults(command=algorithms)

    explaining = commands.add_parser("explain", help="from an episode's verdict to its gradient, with the numbers")
    explaining.add_argument("run", type=Path, help="folder of a run")
    explaining.add_argument("episode", help="train-000010:3, a number in the last training file, or a key")
    explaining.set_defaults(command=explain)

    training = commands.add_parser(
        "train", help="train a policy; `rlvr train --help` explains each field", add_help=False, allow_abbrev=False
    )
    add_allow_code(training)
    training.set_defaults(command=train)
    return parser
