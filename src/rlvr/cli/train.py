"""``rlvr train``, whose fields `rlvr.cli.train_command` reads; ``algorithms`` and ``explain``."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from rlvr.cli.options import add_allow_code


def algorithms(options: argparse.Namespace, rest: list[str]) -> int:
    """The table of algorithms, or one by one what the named ones are made of."""
    from rlvr.algorithms.recipe.all_algorithms import describe, table

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
        from rlvr.cli.train_command import train as command
    except ModuleNotFoundError as error:
        raise ImportError(f'training needs {error.name}: pip install "rlvr[train]"') from error
    return command(rest)


def add_parsers(commands: Any) -> None:
    """Add these commands to the sub-commands of `rlvr`."""
    naming = commands.add_parser("algorithms", help="list the algorithms, or describe some")
    naming.add_argument("names", nargs="*", metavar="name", help="of an algorithm")
    naming.set_defaults(command=algorithms)

    training = commands.add_parser(
        "train", help="train a policy; `rlvr train --help` explains each field", add_help=False, allow_abbrev=False
    )
    add_allow_code(training)
    training.set_defaults(command=train, takes_fields=True)

    explaining = commands.add_parser("explain", help="from an episode's verdict to its gradient, with the numbers")
    explaining.add_argument("run", type=Path, help="folder of a run")
    explaining.add_argument("episode", help="train-000010:3, a number in the last training file, or a key")
    explaining.set_defaults(command=explain)
