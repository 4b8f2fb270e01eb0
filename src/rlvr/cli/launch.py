"""``rlvr launch``: a training config of ours under another trainer."""

from __future__ import annotations

import argparse
import shlex
import subprocess
from pathlib import Path
from typing import Any

from rlvr.cli.options import add_force


def launch(options: argparse.Namespace, rest: list[str]) -> int:
    """Print what carries over and the trainer's command; write its files; run it if asked to."""
    try:
        from rlvr.algorithms.config import load_config
        from rlvr.algorithms.config.flat_settings import idle_settings, is_policy_gradient, plain_settings
    except ModuleNotFoundError as error:
        raise ImportError(f'a config needs {error.name}: pip install "rlvr[train]"') from error
    from rlvr.adapters.launch import Machines, require_own_folder, translate
    from rlvr.envs.core.code_rule import require_registered

    config = load_config(options.config)
    require_registered(config.env.id, config.env.settings)
    out = options.out or Path("runs") / f"{options.engine}-{options.config.stem}"
    if not options.print and not options.force:
        require_own_folder(out)
    launched = translate(
        options.engine,
        plain_settings(config),
        idle=idle_settings(config),
        accepted=options.accept,
        policy_gradient=is_policy_gradient(config),
        machines=Machines(options.gpus, options.nodes),
        rows=options.rows,
        prompt_tokens=options.prompt_tokens,
    )
    print(launched.translation.table())
    if not options.print:
        for path in launched.write(out):
            print(path)
    words = launched.command(out)
    print(shlex.join(words), flush=True)
    return subprocess.run(words, check=False).returncode if options.run else 0


def _engine(name: str) -> str:
    """One of the trainers, looked up when it is asked for: every command of `rlvr` builds this parser."""
    from rlvr.adapters.launch import ENGINES

    if name not in ENGINES:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(ENGINES)}")
    return name


def add_parsers(commands: Any) -> None:
    """Add ``launch`` to the sub-commands of `rlvr`."""
    launching = commands.add_parser("launch", help="run a training config with another trainer")
    launching.add_argument("engine", type=_engine, help="the trainer; an unknown one is answered with their names")
    launching.add_argument("config", type=Path, help="YAML file, as for `rlvr train`")
    how = launching.add_mutually_exclusive_group()
    how.add_argument("--print", action="store_true", help="only print what carries over, and the command")
    how.add_argument("--run", action="store_true", help="run the command, too")
    launching.add_argument("--out", type=Path, help="folder for rows and files; runs/ENGINE-CONFIG, if left out")
    launching.add_argument(
        "--accept", nargs="+", default=[], metavar="SETTING", help="settings that may differ, as a refusal names them"
    )
    launching.add_argument("--gpus", type=int, default=8, help="of a node")
    launching.add_argument("--nodes", type=int, default=1, help="with so many GPUs each")
    launching.add_argument("--rows", type=int, help="training tasks to write; those of the run, if left out")
    launching.add_argument("--prompt-tokens", type=int, help="longest first prompt, where the trainer bounds it apart")
    add_force(launching)
    launching.set_defaults(command=launch)
