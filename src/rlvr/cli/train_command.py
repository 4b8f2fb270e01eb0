"""``rlvr train``: a config from YAML and flags, a run, its report."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError
from pydantic_settings import BaseSettings, CliSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from rlvr.agents.models.tiny import require_model
from rlvr.agents.provenance import provenance
from rlvr.algorithms.config import ConfigError, TrainConfig, explain, load_config, read_yaml, to_yaml
from rlvr.algorithms.runs.run_folder import RunFolder, require_free, require_untouched
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.hints import with_near_flag
from rlvr.envs.core.registry import full_id
from rlvr.envs.core.terminal import printable

if TYPE_CHECKING:
    from rlvr.algorithms.runs.callbacks import Callback


EXAMPLES = """\
examples:
  rlvr train --env.id rlvr/Calculator-v0 --steps 30 --out runs/calculator
  rlvr train --config examples/countdown.yaml --learner.lr 1e-5 --seed 1"""


class Flags(TrainConfig, BaseSettings):
    """The config's fields as flags, nested ones with a dot: ``--learner.lr 1e-4``."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        cli_avoid_json=True,
        cli_kebab_case=True,
        cli_hide_none_type=True,
        use_attribute_docstrings=True,
        nested_model_default_partial_update=True,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what was given: no environment variables, no secret files."""
        return (init_settings,)


def parse(arguments: Sequence[str], more_flags: Sequence[str] = ()) -> tuple[TrainConfig, bool]:
    """The config, and whether to resume; ``more_flags`` are others that a misspelt one may mean.

    Raises:
        ConfigError: an unknown field, or a value out of range.
    """
    parser = Parser(
        prog="rlvr train",
        usage="rlvr train [--config FILE] [--FIELD VALUE ...] | --resume --out FOLDER [--steps MORE]",
        description="Train a policy with verified rewards. Fields come from the config file, then flags, which win.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.more_flags = more_flags
    parser.add_argument("--allow-code", action="store_true", help="let the config name modules, functions, commands")
    _add_options(parser)
    asks_help = {"-h", "--help"} & set(arguments)
    options, words_left = parser.parse_known_args([word for word in arguments if word not in asks_help])
    source: Any = CliSettingsSource(Flags, root_parser=parser)
    if options.resume and not asks_help:
        return _resumed(words_left, options.config), True
    values = read_yaml(options.config) if options.config is not None else {}
    try:
        flags = Flags(_cli_settings_source=source(args=list(arguments)), **values)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    except (SettingsError, RecursionError) as error:  # JSON in a flag
        raise ConfigError(_no_section(error)) from None
    fields = {name: getattr(flags, name) for name in TrainConfig.model_fields}
    return TrainConfig(**fields | {"env": flags.env.model_copy(update={"id": full_id(flags.env.id)})}), False


def _no_section(error: Exception) -> str:
    """What to type for a flag whose value is no JSON: `--env ID` is `--env.id ID`."""
    text = " ".join(str(error).split())[:300]
    found = re.match(r'(?:error parsing value for field "|Parsing error encountered for )(\w+)', text)
    if found is None or found[1] not in TrainConfig.model_fields or "recursion" in text:
        return text
    flag = f"--{found[1].replace('_', '-')}"
    section = TrainConfig.model_fields[found[1]].annotation
    first = next(iter(getattr(section, "model_fields", ())), "")
    return f"{flag} takes JSON" + f", and {flag}.{first} VALUE one of its fields" * bool(first)


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add what is no field of the config."""
    parser.add_argument("--config", type=Path, help="YAML file of fields")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --out, by its own saved config; a larger --steps extends it",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="make the model and the environment, say what would be done, and play and write nothing",
    )


def add_fields(parser: argparse.ArgumentParser, *, options: bool) -> None:
    """Add the fields of a config to a parser, for the completion of a shell; ``options``: of `rlvr train` too."""
    if options:
        _add_options(parser)
    CliSettingsSource(Flags, root_parser=parser)


def _resumed(arguments: list[str], config: Path | None) -> TrainConfig:
    """The saved config of the run that is gone on with, perhaps with more steps."""
    words = Parser(prog="rlvr train --resume", add_help=False, allow_abbrev=False)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--steps", type=int)
    try:
        asked = words.parse_args(arguments)
        out, steps = asked.out, asked.steps
    except ConfigError:
        out = None
    if out is None or config is not None:
        raise ConfigError(
            "--resume takes --out FOLDER, --steps N to extend the run, and nothing else: the run has its own config"
        )
    if not (out / "config.yaml").is_file():
        raise ConfigError(f"{out} holds no run to go on with: it has no config.yaml")
    require_untouched(out)
    saved = load_config(out / "config.yaml")
    if steps is not None and steps < saved.steps:
        raise ConfigError(f"--steps {steps}: the run in {out} has {saved.steps} steps, and can be extended alone")
    return saved.model_copy(update={"out": out, "steps": saved.steps if steps is None else steps})


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest flag in its complaint instead of all of them."""

    more_flags: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError with the nearest flag, where argparse would print all of them and exit."""
        flags = [*self.more_flags, *(flag for action in self._actions for flag in action.option_strings)]
        raise ConfigError(with_near_flag(message, flags))


def train(arguments: Sequence[str]) -> int:
    """Run ``rlvr train``; the exit status."""
    config, resume = parse(arguments)
    require_model(config.model.name)
    _require_installed()
    require_registered(config.env.id, config.env.settings)
    from transformers.utils import logging

    from rlvr.algorithms.population.population import open_run
    from rlvr.algorithms.runs.display import Display, RunConsole
    from rlvr.algorithms.runs.report import write_report
    from rlvr.algorithms.runs.run_folder import read_jsonl
    from rlvr.algorithms.sampling.protocol import SamplerError
    from rlvr.algorithms.train.interrupts import RunInterrupted

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    follows = os.environ.get("RANK", "0") != "0" and "TORCHELASTIC_RUN_ID" in os.environ  # the first process speaks
    with Display(RunConsole(quiet=follows)) as display:
        try:
            if "--dry-run" in arguments:
                for line in _dry_run(config, display, resume):
                    if not follows:
                        print(printable(line))
                return 0
            run = open_run(config, display, resume=resume)
            for member in run.members.values():
                _note_start(member.folder, member.config, resume, env_digests=member.env_digests)
                if resume and isinstance(member.callback, Display):
                    member.callback.look_back(read_jsonl(member.folder.metrics))
            if run.folder is not None:
                _note_start(run.folder, config, resume)
            run.run()
        except RunInterrupted as stop:
            print(f"rlvr: {stop}" * (not follows), file=sys.stderr)
            return stop.status
        except SamplerError as error:
            print(f"rlvr: {printable(str(error))}", file=sys.stderr)
            return 1
    if follows:
        return 0
    for name, member in run.members.items():
        page, evaluations = write_report(member.config.out), member.results()
        for way in ("greedy", "sampled"):
            before, after = evaluations[f"before {way}"], evaluations[f"after {way}"]
            shares = [
                f"{result.success:.3f} (95 % {result.low:.3f} to {result.high:.3f})" for result in (before, after)
            ]
            success = (
                f"{way:<8} held-out success: {shares[0]} before, {shares[1]} after, on {after.tasks} {member.held_out}"
            )
            print(printable(f"{name}: {success}" if name else success))
        print(printable(f"the report is {page}"))
    return 0


def _note_start(folder: RunFolder, config: TrainConfig, resume: bool, **more: Any) -> None:
    """Write down what the run is begun or gone on with, and that it has more steps than before."""
    folder.log_start({**provenance({"seed": config.seed}), **more})
    # Here, where the folder is locked: another process may be asked to extend the same run.
    if resume and load_config(folder.config).steps < config.steps:
        folder.write_config(to_yaml(config))


def _require_installed() -> None:
    """Refuse to start without a package that is asked for late: the curve is drawn when hours have been trained.

    Raises:
        ImportError: one is missing; names the extra.
    """
    for name in ("rich", "transformers", "matplotlib"):
        if find_spec(name) is None:
            raise ImportError(f'training needs {name}: pip install "rlvr[train]"')


def _dry_run(config: TrainConfig, callback: Callback, resume: bool) -> list[str]:
    """Make all that a run needs, in a folder that is removed again; what the run would do, in lines.

    Raises:
        RunFolderError: a new run's folder is not free.
        ConfigError: as of `Trainer`.
    """
    from rlvr.algorithms.population.population import open_run
    from rlvr.algorithms.runs.checkpoints import latest_checkpoint

    if not resume:
        require_free(config.out)
    # Only making them tells whether the environment, the model and the sampler go with the config.
    with TemporaryDirectory(prefix="rlvr-dry-run-") as scratch:
        changed = config.model_copy(update={"out": Path(scratch) / "run", "report_to": ()})
        run = open_run(changed, callback)
        trainer = next(iter(run.members.values()))
        weights = list(trainer.model.parameters())
        size, trained = sum(w.numel() for w in weights), sum(w.numel() for w in weights if w.requires_grad)
        device = trainer.learner.device
        folder = config.out / trainer.config.out.relative_to(changed.out) / "checkpoints"
        run.close()
        trainer.world.leave()  # NCCL warns of a group that is left open
    checkpoint = latest_checkpoint(folder)[0] if resume else None
    lines = _planned(config, warm=checkpoint is None, done=0 if checkpoint is None else checkpoint.step)
    if many := len(config.self_play.policies):
        lines.append(f"{many} policies, {', '.join(config.self_play.policies)}, each with a model and steps of its own")
    return [f"model {config.model.name}: {size:,} weights, {trained:,} of them trained, on {device}", *lines]


def _planned(config: TrainConfig, *, warm: bool, done: int) -> list[str]:
    env, start = config.env, config.warm_start
    lines = [f"environment {env.id}, split {env.split}, level {env.level}"]
    if warm and (steps := start.steps + start.mixed_steps + start.random_steps):
        lines.append(f"warm start of {steps} steps")
    count = config.prompts * config.group_size
    lines.append(
        f"{config.algorithm}: {config.steps - done} steps, up to step {config.steps}, of {config.prompts} tasks with "
        f"{config.group_size} episodes each: {(config.steps - done) * count:,} episodes"
    )
    lines.append(f"evaluation on {config.evaluation.episodes} tasks of the {config.evaluation.split} split")
    return [*lines, f"nothing was played, and nothing written to {config.out}"]
