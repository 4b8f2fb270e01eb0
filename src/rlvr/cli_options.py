"""What several ``rlvr`` commands read from their options."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rlvr.envs.core.json_text import TooDeep, load_json


def add_settings(command: argparse.ArgumentParser) -> None:
    """Add the options from which `settings_of` makes the settings of an environment, and ``--allow-code``."""
    command.add_argument("--split", help="train, validation or test")
    command.add_argument("--level", type=int, help="difficulty, from 1")
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of its own; JSON is read"
    )
    add_allow_code(command)


def add_allow_code(command: argparse.ArgumentParser) -> None:
    """Add ``--allow-code``."""
    command.add_argument("--allow-code", action="store_true", help="let settings name modules, functions and commands")


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What ``gym.make`` is given: --split, --level and every --set name=value; a value may be JSON.

    Raises:
        ValueError: a --set has no name or no value, or JSON that is nested too deep.
    """
    settings: dict[str, Any] = {
        name: value_of(text) for name, equals, text in (pair.partition("=") for pair in options.set) if equals
    }
    if len(settings) != len(options.set):
        raise ValueError(f"--set takes name=value, got {' '.join(options.set)}")
    settings |= {name: getattr(options, name) for name in ("split", "level") if getattr(options, name) is not None}
    return settings


def value_of(text: str) -> Any:
    """The JSON value that a text is, or the text.

    Raises:
        ValueError: it is JSON that is nested too deep.
    """
    try:
        return load_json(text)
    except TooDeep as error:
        raise ValueError(f"a setting's JSON cannot be read: {error}") from None
    except ValueError:
        return text


def key_of(variable: str | None) -> str:
    """The secret that an environment variable holds; "" without a variable.

    Raises:
        ValueError: the variable holds nothing.
    """
    if variable is None:
        return ""
    if not os.environ.get(variable):
        raise ValueError(f"the environment variable {variable}, which --api-key-env names, holds nothing")
    return os.environ[variable]
