"""``rlvr train``: a config from YAML and flags, a run, its report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_settings import BaseSettings, CliSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from rlvr.algorithms.config import ConfigError, TrainConfig, explain, load_config, read_yaml
from rlvr.algorithms.runs.run_folder import require_untouched
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.hints import nearest
from rlvr.envs.core.terminal import printable


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


def parse(arguments: Sequence[str]) -> tuple[TrainConfig, bool]:
    """The config, and whether to resume.

    Raises:
        ConfigError: an unknown field, or a value out of range.
    """
    parser = Parser(
        prog="rlvr train",
        usage="rlvr train [--config FILE] [--FIELD VALUE ...] | --resume --out FOLDER",
        description="Train a policy with verified rewards. Fields come from the config file, then flags, which win.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, help="YAML file of fields")
    parser.add_argument("--allow-code", action="store_true", help="let the config name modules, functions, commands")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, by its own saved config")
    asks_help = {"-h", "--help"} & set(arguments)
    own, given = parser.parse_known_args([word for word in arguments if word not in asks_help])
    source: Any = CliSettingsSource(Flags, root_parser=parser)
    if own.resume and not asks_help:
        return _resumed(given, own.config), True
    values = read_yaml(own.config) if own.config is not None else {}
    try:
        flags = Flags(_cli_settings_source=source(args=list(arguments)), **values)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    except (SettingsError, RecursionError) as error:  # JSON in a flag
        raise ConfigError(" ".join(str(error).split())[:300]) from None
    return TrainConfig(**{name: getattr(flags, name) for name in TrainConfig.model_fields}), False


def _resumed(given: list[str], config: Path | None) -> TrainConfig:
    """The saved config of the run that is gone on with."""
    words = given[0].split("=", 1) if len(given) == 1 else given
    if config is not None or len(words) != 2 or words[0] != "--out":
        raise ConfigError("--resume takes --out FOLDER and nothing else: the run has its own config")
    out = Path(words[1])
    if not (out / "config.yaml").is_file():
        raise ConfigError(f"{out} holds no run to go on with: it has no config.yaml")
    require_untouched(out)
    return load_config(out / "config.yaml").model_copy(update={"out": out})


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest flag in its complaint instead of all of them."""

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError with the nearest flag, where argparse would print all of them and exit."""
        wrong = message.partition("unrecognized arguments: ")[2].split()
        known = [flag for action in self._actions for flag in action.option_strings]
        near = nearest(wrong[0].split("=")[0], known) if wrong else None
        raise ConfigError(message + (f"; did you mean {near}?" if near else ""))


def train(arguments: Sequence[str]) -> int:
    """Run ``rlvr train``; the exit status."""
    config, resume = parse(arguments)
    require_registered(config.env.id, config.env.settings)
    from rich.console import Console
    from transformers.utils import logging

    from rlvr.algorithms.runs.display import Display
    from rlvr.algorithms.runs.report import write_report
    from rlvr.algorithms.runs.run_folder import read_jsonl
    from rlvr.algorithms.sampling.protocol import SamplerError
    from rlvr.algorithms.train.trainer import RunInterrupted, Trainer

    logging.disable_progress_bar()
    follows = os.environ.get("RANK", "0") != "0" and "TORCHELASTIC_RUN_ID" in os.environ  # the first process speaks
    with Display(Console(quiet=follows)) as display:
        try:
            trainer = Trainer(config, display, resume=resume)
            if resume:
                display.look_back(read_jsonl(trainer.folder.metrics))
            evaluations = trainer.run()
        except RunInterrupted as stop:
            print(f"rlvr: {stop}" * (not follows), file=sys.stderr)
            return stop.status
        except SamplerError as error:
            print(f"rlvr: {printable(str(error))}", file=sys.stderr)
            return 1
    if follows:
        return 0
    page = write_report(config.out)
    for way in ("greedy", "sampled"):
        before, after = evaluations[f"before {way}"], evaluations[f"after {way}"]
        print(f"{way:<8} held-out success: {before.success:.3f} before, {after.success:.3f} after")
    print(printable(f"the report is {page}"))
    return 0
