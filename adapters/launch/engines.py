"""The trainers by name, and the way from a config's values to files and a command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlvr.adapters.launch import openrlhf, prime_rl, skyrl, trl, verl
from rlvr.adapters.launch.task_mix import TaskMix, task_mix
from rlvr.adapters.launch.translation import LaunchRefused, Machines, Translation
from rlvr.envs.core.files import write_whole


@dataclass(frozen=True)
class ForeignTrainer:
    """A trainer: how its settings are classified, its files and its command; rows None where it makes tasks itself."""

    name: str
    tested: tuple[str, str]
    classify: Callable[[Translation, TaskMix, Machines, int | None], None]
    files: Callable[[Translation], dict[str, str]]
    command: Callable[[Translation, Path, Path, Path], list[str]]
    rows: str | None
    suffix: str


_ENGINES = (
    ForeignTrainer("trl", trl.TESTED, trl.classify, trl.files, trl.command, trl.ROWS, trl.SUFFIX),
    ForeignTrainer("verl", verl.TESTED, verl.classify, verl.files, verl.command, verl.ROWS, verl.SUFFIX),
    ForeignTrainer("skyrl", skyrl.TESTED, skyrl.classify, skyrl.files, skyrl.command, skyrl.ROWS, skyrl.SUFFIX),
    ForeignTrainer(
        "openrlhf", openrlhf.TESTED, openrlhf.classify, openrlhf.files, openrlhf.command, openrlhf.ROWS, openrlhf.SUFFIX
    ),
    ForeignTrainer(
        "prime-rl", prime_rl.TESTED, prime_rl.classify, prime_rl.files, prime_rl.command, None, prime_rl.SUFFIX
    ),
)
ENGINES: Mapping[str, ForeignTrainer] = MappingProxyType({engine.name: engine for engine in _ENGINES})

WRITTEN = ("settings.txt", "launch.sh")


@dataclass(frozen=True)
class Launch:
    """A config as another trainer runs it."""

    engine: ForeignTrainer
    translation: Translation
    mix: TaskMix

    def command(self, folder: Path) -> list[str]:
        """The trainer's command, whose files `write` puts into the folder."""
        folder, suffix = folder.resolve(), self.engine.suffix
        return self.engine.command(self.translation, folder, folder / f"train{suffix}", folder / f"test{suffix}")

    def write(self, folder: Path) -> list[Path]:
        """Write rows, files, the table and the command; their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [] if self.engine.rows is None else [*self.mix.write(self.engine.rows, folder, self.engine.suffix)]
        texts = {
            **self.engine.files(self.translation),
            "settings.txt": self.translation.table(),
            "launch.sh": f"#!/bin/sh\nexec {shlex.join(self.command(folder))}\n",
        }
        for name, text in texts.items():
            paths.append(folder / name)
            write_whole(paths[-1], text)
        return paths


def require_own_folder(folder: Path) -> None:
    """Check that a folder is new, empty, or an earlier launch's, whose files are written anew.

    Raises:
        ValueError: it holds something else, or is a file.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not all((folder / name).is_file() for name in WRITTEN)):
        raise ValueError(f"{folder} holds what no launch wrote, and is not overwritten: give another --out, or --force")


def translate(
    engine: str,
    values: Mapping[str, Any],
    *,
    idle: Collection[str] = (),
    accepted: Collection[str] = (),
    policy_gradient: bool = True,
    machines: Machines | None = None,
    rows: int | None = None,
    prompt_tokens: int | None = None,
) -> Launch:
    """A config as one of `ENGINES` runs it.

    Args:
        engine: the trainer's name.
        values: every setting of the config by its dotted name; choices of the algorithm as ``overrides.<choice>``.
        idle: settings without effect in this config.
        accepted: settings whose difference the caller accepts.
        policy_gradient: whether the algorithm is a policy loss.
        machines: where the trainer runs.
        rows: training tasks to write; None for those of the run.
        prompt_tokens: the longest first prompt, for trainers that bound it apart.

    Raises:
        LaunchRefused: the trainer would run another algorithm, or cannot run this one.
        ValueError: there is no such trainer.
    """
    if engine not in ENGINES:
        raise ValueError(f"there is no trainer {engine!r}; there are {', '.join(ENGINES)}")
    if not policy_gradient:
        raise LaunchRefused(
            f"algorithm: {values['algorithm']} is no policy gradient, and {engine} trains by those alone"
        )
    mix = task_mix(values, rows)
    translation = Translation(engine, values, idle, tuple(accepted))
    ENGINES[engine].classify(translation, mix, machines or Machines(), prompt_tokens)
    translation.finish()
    return Launch(ENGINES[engine], translation, mix)
