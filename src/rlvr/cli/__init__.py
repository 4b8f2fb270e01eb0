"""The ``rlvr`` command: its parser, and one way for all errors. The modules beside it hold the commands."""

from __future__ import annotations

import argparse
import dis
import os
import sys
from collections.abc import Sequence
from traceback import extract_tb

import gymnasium as gym

from rlvr.cli import (
    arena,
    completion,
    conform,
    environments,
    export,
    results,
    serve,
    serve_model,
    sft,
    train,
    view,
)
from rlvr.cli import eval as evaluation
from rlvr.cli.options import CommandParser, one_line, origin_of
from rlvr.envs.core.code_rule import command_line
from rlvr.envs.core.registry import full_id
from rlvr.envs.core.terminal import plain_output, show_traceback

COMMANDS = (
    environments, evaluation, results, arena, view, export, train, sft, serve_model, serve, conform, completion
)  # fmt: skip
# What is a user's doing, and what Python raises where code is wrong. A traceback shows what is neither.
MISTAKES = (ValueError, ImportError, OSError, gym.error.Error)
BUGS = (TypeError, AttributeError, LookupError, NameError, AssertionError, ArithmeticError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. What a user did wrong is one line on stderr and status 2, a bug status 1.

    Settings and configs may name code only with ``--allow-code``, and nothing printed can steer a terminal.
    """
    if arguments is None:
        sys.excepthook = show_traceback
    words = list(sys.argv[1:] if arguments is None else map(str, arguments))
    try:
        with plain_output(out=False):
            return _run([word for word in words if word != "--traceback"], "--traceback" in words)
    except KeyboardInterrupt:
        print("rlvr: interrupted", file=sys.stderr)
        return 130


def _run(words: list[str], traceback: bool) -> int:
    try:
        parser = _parser()
        if "_ARGCOMPLETE" in os.environ:
            completion.complete(parser)
        options, rest = parser.parse_known_args(words)
        # A person's line editor and the live display speak to the terminal itself, and escape what they show.
        speaks_itself = options.command in (environments.play, train.train)
        with command_line(getattr(options, "allow_code", False)), plain_output(out=not speaks_itself):
            if getattr(options, "env", None) is not None:
                options.env = (
                    full_id(options.env) if isinstance(options.env, str) else [full_id(name) for name in options.env]
                )
            return int(options.command(options, rest))
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _explain(error, traceback, words)


def _explain(error: Exception, traceback: bool, words: list[str]) -> int:
    """Say in one line what went wrong; the exit status. What is neither a mistake nor a bug is raised again."""
    from rlvr.envs.sandbox import SandboxUnavailable

    origin = origin_of(error)
    if isinstance(origin, (*MISTAKES, SandboxUnavailable)) or _is_said(origin):
        text, status = one_line(error), 2
    elif origin is not error and isinstance(origin, BUGS) and any(word.startswith("--set") for word in words):
        text, status = f"the environment cannot be made with these settings: {one_line(error)}", 2
    elif isinstance(origin, FloatingPointError):  # what diverges
        text, status = one_line(error), 1
    elif isinstance(origin, MemoryError):
        text, status = "this machine's memory is not enough for the numbers that were asked for: ask for less", 2
    elif isinstance(origin, BUGS):
        what = f"{type(origin).__name__} {_place(origin)}: {one_line(error)}"
        text = f"this is a bug, and no mistake of yours: {what}; please report it with what --traceback shows"
        traceback = traceback or words[:1] == ["train"]  # nobody trains for hours again to see where it is
        status = 1
    else:
        raise error
    if traceback:
        show_traceback(type(error), error, error.__traceback__)
    print(f"rlvr: {text}", file=sys.stderr)
    return status


def _is_said(error: BaseException) -> bool:
    """Whether it is a TypeError that a ``raise`` of ours or of an environment says, not one that Python found."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, TypeError) or _is_python(trace.tb_frame.f_code.co_filename):
        return False
    if trace.tb_frame.f_globals.get("__name__") == "gymnasium.envs.registration":
        return True  # the settings are not those that the environment's constructor takes
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def _is_python(file: str) -> bool:
    return file.startswith("<") or (file.startswith(os.path.dirname(os.__file__)) and "site-packages" not in file)


def _place(error: BaseException) -> str:
    """The innermost line that is not Python's own."""
    frames = [each for each in extract_tb(error.__traceback__) if not _is_python(each.filename)]
    return f"at {frames[-1].filename}:{frames[-1].lineno}" if frames else "in Python itself"


def _parser() -> argparse.ArgumentParser:
    from rlvr import __version__

    parser = CommandParser(prog="rlvr", description="Environments with verified rewards for language models.")
    parser.add_argument("--version", action="version", version=f"rlvr {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error came from; any command takes it")
    commands = parser.add_subparsers(required=True, metavar="command")
    for module in COMMANDS:
        module.add_parsers(commands)
    return parser
