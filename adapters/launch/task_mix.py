"""The task mix of a config, as the rows that a trainer reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr.adapters.launch.translation import LaunchRefused, Translation
from rlvr.adapters.rows import rows, write_rows
from rlvr.adapters.spec import TaskSpec, turns_of
from rlvr.envs.core.registry import size_of

MAX_ROWS = 20_000  # of tasks made without end; the trainer repeats them after that


@dataclass(frozen=True)
class TaskMix:
    """The tasks of a config: what `rlvr.adapters.rows` is asked for, and the turns of an episode (None: unknown)."""

    env_id: str
    seed: int
    use_system: bool
    kwargs: Mapping[str, Any]
    test_kwargs: Mapping[str, Any]
    train_rows: int | None
    test_rows: int | None
    turns: int | None

    def write(self, format: str, folder: Path, suffix: str) -> tuple[Path, Path]:
        """Write train and test rows; their paths."""
        paths = []
        for name, count, kwargs in (
            ("train", self.train_rows, self.kwargs),
            ("test", self.test_rows, self.test_kwargs),
        ):
            # an evaluation asks no task of the training: another split, and another seed beside it
            seed = self.seed if name == "train" else self.seed + 1
            table = rows(self.env_id, count, format, seed=seed, kwargs=kwargs, use_system=self.use_system)
            paths.append(write_rows(table, folder / f"{name}{suffix}", force=True))
        return paths[0], paths[1]


def task_mix(values: Mapping[str, Any], train_rows: int | None = None) -> TaskMix:
    """The tasks that a config asks for.

    Raises:
        LaunchRefused: it needs more rows than there may be, and none were named.
        ValueError: there is no such environment or split.
    """
    kwargs = {"level": values["env.level"], "split": values["env.split"], **values["env.settings"]}
    test_kwargs = {**kwargs, "split": values["evaluation.split"]}
    env, _, info = TaskSpec(values["env.id"], values["seed"], "rlvr", kwargs).start()
    size, turns = size_of(env), turns_of(env, info)
    env.close()
    test_env, _, _ = TaskSpec(values["env.id"], values["seed"], "rlvr", test_kwargs).start()
    test_size = size_of(test_env)
    test_env.close()
    wanted = values["prompts"] * max(1, values["steps"])
    if train_rows is not None:
        wanted = train_rows
    elif size is None:
        wanted = min(wanted, MAX_ROWS)
    if wanted < values["prompts"] and (size is None or size >= values["prompts"]):
        raise LaunchRefused(f"--rows {wanted} is less than a batch of {values['prompts']} prompts")
    return TaskMix(
        env_id=values["env.id"],
        seed=values["seed"],
        use_system=values["env.system"],
        kwargs=kwargs,
        test_kwargs=test_kwargs,
        train_rows=wanted if size is None else min(size, wanted),
        test_rows=_at_most(test_size, values["evaluation.episodes"]),
        turns=turns,
    )


def _at_most(size: int | None, wanted: int) -> int:
    return wanted if size is None else min(size, wanted)


def classify_tasks(t: Translation, mix: TaskMix) -> None:
    """The task mix, which all trainers get as rows (or as a plug-in's tasks)."""
    t.exact("env.id", "the rows")
    t.exact("env.level", "the rows")
    t.exact("env.split", "the rows")
    t.exact("env.settings", "the rows")
    needed = t["prompts"] * t["steps"]
    again = (
        f"; {mix.train_rows} tasks, repeated for the {needed} groups of the run"
        if needed > (mix.train_rows or needed)
        else ""
    )
    t.approximate("seed", "the rows", f"other tasks of the same kind, and other noise{again}")
    t.exact("evaluation.split", "the rows")
    t.exact("evaluation.episodes", "the rows")
