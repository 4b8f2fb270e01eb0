"""``rlvr completion``: words that a shell completes when Tab is pressed, by argcomplete.

Values are asked for at that moment, from registries alone: no environment and no model is imported.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, Final

from rlvr.envs import list_envs

_IDS: Final = ("env", "env.id", "expert", "harbor", "ids", "in_processes", "openenv", "serves")
# zsh completes nothing before its own completion is loaded, which a bare ~/.zshrc does not.
_ZSH: Final = "(( $+functions[compdef] )) || { autoload -U compinit && compinit; }\n"


def ids(prefix: str, **_: Any) -> list[str]:
    """The ids of all environments; once something is typed, their names without namespace and version too."""
    full = list_envs()
    return full + ([env_id.rpartition("/")[2].rpartition("-v")[0] for env_id in full] if prefix else [])


def _named(address: str) -> Callable[..., Iterable[str]]:
    """The names of a registry, which is imported when Tab is pressed."""
    return lambda **_: list(pkgutil.resolve_name(address))


_VALUES: Final[dict[str, Callable[..., Iterable[str]]]] = {
    **dict.fromkeys(_IDS, ids),
    **dict.fromkeys(("algorithm", "names"), _named("rlvr.algorithms.recipe.presets:PRESETS")),
    "engine": _named("rlvr.adapters.launch:ENGINES"),
    "suite": _named("rlvr.agents.evaluation.suites:SUITES"),
}


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end the process."""
    import argcomplete

    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    name = next(iter(os.environ["COMP_LINE"].split()[1:]), "")
    command = commands.choices.get(name)
    if command is not None:
        if command.get_default("takes_fields"):
            from rlvr.cli.train_command import add_fields

            add_fields(command, options=name == "train")
        for action in command._actions:
            action.completer = _VALUES.get(action.dest) or _of_type(action)
    argcomplete.autocomplete(parser, always_complete_options=False)


def _of_type(action: argparse.Action) -> Callable[..., Iterable[str]] | None:
    """The values that a field of a config may have: it shows them as ``{a,b}``, or as bool."""
    shown = action.metavar if isinstance(action.metavar, str) and action.choices is None else ""
    values = shown[1:-1].split(",") if shown.startswith("{") else ["true", "false"] if shown == "bool" else []
    return (lambda **_: values) if values else None


def completion(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the script of a shell."""
    from argcomplete.shell_integration import shellcode

    print((_ZSH if options.shell == "zsh" else "") + shellcode(["rlvr"], shell=options.shell), end="")
    return 0


def add_parsers(commands: Any) -> None:
    """Add ``completion`` to the sub-commands of `rlvr`."""
    completing = commands.add_parser("completion", help="print a script that completes rlvr's words in a shell")
    completing.add_argument("shell", choices=("bash", "zsh", "fish"), help="as: source <(rlvr completion bash)")
    completing.set_defaults(command=completion)
