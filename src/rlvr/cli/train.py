"""``rlvr train``, whose fields `rlvr.cli.train_command` reads; ``plan``, ``algorithms``, ``explain`` and ``launch``."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rlvr.cli.options import add_allow_code, add_force, nonnegative


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


def plan(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the plan; status 1 where it does not fit."""
    try:
        from rlvr.algorithms.planning.report import Assumed, describe, in_transformers
        from rlvr.algorithms.planning.report import plan as make
        from rlvr.algorithms.planning.shapes import device_of, shape_of
        from rlvr.algorithms.planning.speed import ENGINE_OVERHEAD, measured_overhead
        from rlvr.cli.train_command import parse
    except ModuleNotFoundError as error:
        raise ImportError(f'a config needs {error.name}: pip install "rlvr[train]"') from error
    if any(word.partition("=")[0] == "--config" for word in rest):
        raise ValueError("`rlvr plan` takes the config without --config: rlvr plan FILE")
    flags = [f"--{name.replace('_', '-')}" for name in vars(options)]
    config, _ = parse(["--config", str(options.config), *rest], flags)
    if options.measure:
        from rlvr.algorithms.train.measure import describe_measured, measure

        print(describe_measured(config, measure(config)), end="")
        return 0
    shape, device = shape_of(config, options.shape), device_of(options.gpu)
    assumed = Assumed(
        gpus=_at_least(options.gpus, 1, "--gpus"),
        sampler_gpus=_at_least(options.sampler_gpus, 0, "--sampler-gpus"),
        turns=_at_least(options.turns, 1, "--turns"),
        reply=float(_at_least(options.reply or max(1, config.sampling.max_new_tokens // 2), 1, "--reply")),
        prompt=float(_at_least(options.prompt, 0, "--prompt")),
        env_seconds=options.env_seconds,
        tail=options.tail,
        mfu=options.mfu,
        dollars=options.dollars,
        step_overhead=measured_overhead(shape, lora=config.model.lora_rank > 0)
        if in_transformers(config)
        else ENGINE_OVERHEAD,
    )
    report = make(config, shape, device, assumed)
    print(describe(report), end="")
    return 0 if report.fits else 1


def _at_least(value: Any, least: int, name: str) -> Any:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value


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

    planning = commands.add_parser(
        "plan",
        help="memory, speed, hours and cost of a training config, with fields changed as by `rlvr train`",
        usage="rlvr plan CONFIG [--FIELD VALUE ...] [--gpu GPU] [--gpus N] [...]",
        allow_abbrev=False,
        examples=(
            "rlvr plan examples/countdown.yaml",
            "rlvr plan examples/countdown.yaml --group-size 16 --gpu h200 --gpus 8",
            "rlvr plan examples/countdown.yaml --measure",
        ),
    )
    planning.add_argument("config", type=Path, help="YAML file, as for `rlvr train`")
    planning.add_argument("--gpu", default="h100", help="its name, or GiB,TFLOPs,GB/s")
    planning.add_argument("--gpus", type=int, default=1, help="that learn, and sample unless --sampler-gpus says so")
    planning.add_argument("--sampler-gpus", type=int, default=0, help="that sample alone")
    planning.add_argument("--shape", default="", help="of a model that is not here: vocab=…,hidden=…,layers=…,…")
    planning.add_argument("--turns", type=int, default=1, help="of an episode")
    planning.add_argument("--reply", type=int, help="mean sampled tokens of a turn; half of max_new_tokens if left out")
    planning.add_argument("--prompt", type=int, default=128, help="mean tokens that come with each turn")
    planning.add_argument("--env-seconds", type=nonnegative, default=0.0, help="mean time of an environment's step")
    planning.add_argument("--tail", type=nonnegative, default=1.0, help="sigma of its logarithm")
    planning.add_argument("--mfu", type=nonnegative, help="share of the peak that an update reaches")
    planning.add_argument(
        "--measure", action="store_true", help="take a few real steps on this machine, and predict the run from them"
    )
    planning.add_argument("--dollars", type=nonnegative, help="an hour of a GPU")
    planning.set_defaults(command=plan, takes_fields=True)
    _add_launch(commands)


def _add_launch(commands: Any) -> None:
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
