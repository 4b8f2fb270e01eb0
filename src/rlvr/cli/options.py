"""What several ``rlvr`` commands read from their options."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rlvr.envs.core import files
from rlvr.envs.core.hints import did_you_mean, with_near_flag
from rlvr.envs.core.json_text import TooDeep, load_json

MAX_PORT = 65_535


class UsageError(ValueError):
    """Words that are no command, or that a command does not take."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that says the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False and action.default not in ("", [])
        if action.help is None or not has_default or action.default == argparse.SUPPRESS:
            return action.help
        return f"{action.help} (%(default)s)"


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, with such help, and the nearest word in its complaints."""

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        epilog = "\n  ".join(["examples:", *examples]) if examples else None
        super().__init__(**{"formatter_class": Help, "epilog": epilog, **settings})
        self._words: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's; a command knows all its words, unless it takes the fields of a config too."""
        self._words = list(args or ())
        options, rest = super().parse_known_args(args, namespace)
        if rest and not getattr(options, "takes_fields", False):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Raises UsageError, where argparse would print the usage and exit."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        text = with_near_flag(message, flags)
        if "--env" in flags and "--env" in message and self._words and not self._words[0].startswith("-"):
            text = f"{message}; did you mean --env {self._words[0]}?"
        raise UsageError(text if "did you mean" in text else f"{text}; see `{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            is_command = isinstance(action, argparse._SubParsersAction)
            what = f"there is no {'command ' * is_command}{value!r}{did_you_mean(value, map(str, action.choices))}"
            raise argparse.ArgumentError(None if is_command else action, what)


def origin_of(error: BaseException) -> BaseException:
    """The error itself, or what ``gym.make`` wraps in the settings, which the user has just typed."""
    cause = error.__cause__
    wrapped = cause is not None and str(error).startswith(f"{cause} was raised from the environment creator")
    return cause if wrapped and cause is not None else error


def one_line(error: BaseException) -> str:
    """An error's text in one line."""
    return " ".join(str(origin_of(error)).split())


def add_settings(command: argparse._ActionsContainer) -> None:
    """Add the options from which `settings_of` makes the settings of an environment, and ``--allow-code``."""
    command.add_argument("--split", help="train, validation or test")
    command.add_argument("--level", type=int, help="difficulty, from 1")
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of its own; JSON is read"
    )
    add_allow_code(command)


def add_allow_code(command: argparse._ActionsContainer) -> None:
    """Add ``--allow-code``."""
    command.add_argument("--allow-code", action="store_true", help="let settings name modules, functions and commands")


def add_force(command: argparse._ActionsContainer) -> None:
    """Add ``--force``, which `require_new` heeds."""
    command.add_argument("--force", action="store_true", help="write over a file that is there")


def require_new(path: Path, force: bool) -> None:
    """`rlvr.envs.core.files.require_new`, whose message names the flag."""
    files.require_new(path, force, "--force")


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


def server_of(options: argparse.Namespace) -> dict[str, Any]:
    """What the servers are given of the options that `add_server` adds."""
    return {
        "host": options.host,
        "port": options.port,
        "token": token_of(options),
        "limit": options.sessions,
        "ttl": options.ttl,
        "timeout": options.timeout or None,
        "backend": options.backend,
        "workers": options.workers,
        "hosts": options.allow_host,
        "drain": options.drain,
    }


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


def port(text: str) -> int:
    """A port of TCP, as `--port` takes it."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {MAX_PORT}, got {text!r}")
    return number


def price(text: str) -> tuple[float, float]:
    """Two numbers with a comma between them, as `--price` takes them."""
    try:
        prompt, completion = map(float, text.split(","))
    except ValueError:
        prompt = completion = -1.0
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        raise argparse.ArgumentTypeError(f"two prices of a million tokens are wanted, as 0.15,0.6; got {text!r}")
    return prompt, completion


def nonnegative(text: str) -> float:
    """A number from 0 on, neither infinite nor nan: seconds, and what is counted in them."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"a number from 0 on is wanted, got {text!r}")
    return number


def key_of(variable: str | None) -> str:
    """The secret that an environment variable holds; "" without a variable.

    Raises:
        ValueError: the variable holds nothing.
    """
    if variable is None:
        return ""
    if not os.environ.get(variable):
        if not variable.isidentifier():  # a key, perhaps, which is not repeated
            raise ValueError("--api-key-env takes the name of an environment variable that holds the key, not the key")
        raise ValueError(f"the environment variable {variable}, which --api-key-env names, holds nothing")
    return os.environ[variable]


def add_server(command: argparse.ArgumentParser, default_port: int) -> None:
    """Add the options of a server, which `server_of` reads."""
    where = command.add_argument_group("who may connect, and where")
    where.add_argument("--host", default="127.0.0.1", help="where to listen")
    where.add_argument("--port", type=port, default=default_port, help="0 takes any that is free")
    where.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="name that clients may use")
    token = where.add_mutually_exclusive_group()
    token.add_argument("--token-file", type=Path, help="file with the token that clients must show; else a new one")
    token.add_argument("--token-env", metavar="NAME", help="environment variable with it")
    token.add_argument("--no-token", action="store_true", help="let in every user of this machine")
    limits = command.add_argument_group("sessions")
    limits.add_argument("--sessions", type=int, default=256, help="at once")
    limits.add_argument("--ttl", type=nonnegative, default=600.0, help="seconds that an abandoned session lives on")
    limits.add_argument("--timeout", type=nonnegative, default=60.0, help="seconds a step may take; 0 for no limit")
    limits.add_argument(
        "--drain",
        type=nonnegative,
        default=30.0,
        help="seconds that running episodes have after SIGTERM; 0 ends them at once",
    )
    machine = command.add_argument_group("how environments run")
    machine.add_argument("--backend", default="thread", choices=("thread", "process"), help="where environments run")
    machine.add_argument("--workers", type=int, help="threads or processes")


def token_of(options: argparse.Namespace) -> str | None:
    """The token that clients must show: from a file or the environment, never from the command line for all to see. ""
    for a new one, None for none."""
    if options.no_token:
        return None
    if options.token_file is not None:
        token = options.token_file.read_text(encoding="utf-8").strip()
    elif options.token_env is not None:
        token = os.environ.get(options.token_env, "").strip()
    else:
        return ""
    if not token:
        raise ValueError(f"there is no token in {options.token_file or options.token_env}")
    return str(token)


def without_progress_bars() -> None:
    """Keep transformers from drawing progress bars."""
    from transformers.utils import logging

    library: Any = logging
    library.disable_progress_bar()
