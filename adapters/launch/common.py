"""What is alike for all trainers: the task mix as rows, and settings that none of them has."""

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
KEPT_HERE = {
    "threads": "of our own learner",
    "episodes_every": "the trainer has its own records",
    "push_to_hub": "upload the trainer's checkpoint yourself",
    "env.batch_size": "the trainer decides how many episodes are under way",
    "env.workers": "the trainer's workers step environments, each step in a thread",
    "env.timeout": "an environment that hangs holds its worker: put a limit into the environment",
    "evaluation.panel": "`rlvr arena` plays the trainer's checkpoints against bots",
    "evaluation.exploitability": "`rlvr arena --exploitability` computes it of the trainer's checkpoints",
    "sampler.url": "the trainer starts its own engines",
    "sampler.served_model": "the trainer starts its own engines",
    "sampler.api_key_env": "the trainer starts its own engines",
    "sampler.deadline": "the trainer starts its own engines",
    "sampler.sleep": "the trainer decides when its engines give their memory back",
    "sampler.tolerance": "the trainer does not compare its engines' log-probabilities with its own after a sync",
}
OF_AN_ADVANTAGE = ("overrides.alpha", "overrides.group_keep", "overrides.pass_k", "overrides.continuations")
OF_TINY = ("model.hidden", "model.layers", "model.words")
# Filters that no trainer has, and when they have no effect.
OWN_FILTERS = {
    "no_positive_resampling": "tasks that are nearly always solved are asked on",
    "curriculum": "tasks are drawn evenly",
    "length_reward": "rewards are not shaped by length",
    "keep_correct": "failures stay in the batch",
    "keep_short": "all sequences of a group stay in the batch",
}


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
            paths.append(write_rows(table, folder / f"{name}{suffix}"))
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


def classify_rest(t: Translation) -> None:
    """Every setting that the trainer's own table left open."""
    open_ = [name for name in t.values if name not in t.lines]
    for name in open_:
        if name in t.idle:
            t.unused(name, "no effect in this algorithm")
        elif name in KEPT_HERE:
            t.left(name, KEPT_HERE[name])
        elif name in OF_TINY:
            t.unused(name, "of rlvr/tiny alone")
        elif name.startswith("warm_start."):
            _warm_start(t, name)
        elif name == "learner.reference_every":
            _reference(t, name)
        elif name.startswith("curriculum."):
            _curriculum(t, name)
        elif name.startswith("credit."):
            t.unused(name, "read by algorithms that the trainer has not")
        elif name.startswith("selection."):
            _selection(t, name)
        elif name.startswith("sampling.thinking_"):
            _thinking(t, name)
        elif name in OF_AN_ADVANTAGE:
            t.refuse(name, f"{t.engine} has no advantage that reads it")


def _warm_start(t: Translation, name: str) -> None:
    kinds = [kind for kind in ("steps", "mixed_steps", "random_steps") if t[f"warm_start.{kind}"]]
    if not kinds:
        t.unused(name, "no warm start")
    elif name == f"warm_start.{kinds[0]}":
        t.changes(
            name,
            f"{t.engine} begins with the model as it is; do the warm start here (rlvr train with steps: 0) and "
            "name the folder policy/ of that run as model.name",
        )
    else:
        t.left(name, f"see warm_start.{kinds[0]}")


def _reference(t: Translation, name: str) -> None:
    if not t[name]:
        t.unused(name, "the reference policy stays that of the start")
    else:
        t.changes(name, f"{t.engine}'s reference policy stays that of the start")


def _curriculum(t: Translation, name: str) -> None:
    if t["curriculum.kind"] == "none":
        t.unused(name, "no curriculum")
    elif name == "curriculum.kind":
        t.changes(name, f"{t.engine} has no curriculum; all tasks are of env.level {t['env.level']}")
    else:
        t.left(name, "see curriculum.kind")


def _selection(t: Translation, name: str) -> None:
    readers = {
        "selection.max_rounds": {"dynamic_sampling", "active_sampling"},
        "selection.over_sampling": {"dynamic_sampling", "active_sampling"},
        "selection.retire_at": {"no_positive_resampling"},
        "selection.retire_after": {"no_positive_resampling"},
        "selection.overlong_buffer": {"soft_overlong"},
        "selection.length_weight": {"length_reward"},
    }
    if name == "selection.filters":
        classify_filters(t, {})
    elif readers.get(name, set()) & {*t["selection.filters"]}:
        t.left(name, "see selection.filters")
    else:
        t.unused(name, "no filter reads it")


def _thinking(t: Translation, name: str) -> None:
    if not t["sampling.thinking_budget"]:
        t.unused(name, "no thinking budget")
    elif name == "sampling.thinking_budget":
        t.changes(name, f"{t.engine} has no thinking budget; thoughts end by themselves or at max_new_tokens")
    else:
        t.left(name, "see sampling.thinking_budget")


def classify_filters(t: Translation, known: Mapping[str, tuple[Mapping[str, Any], str]]) -> None:
    """Classify selection.filters as a whole. ``known``: filters that the trainer has, with options and a note."""
    filters: tuple[str, ...] = t["selection.filters"]
    options: dict[str, Any] = {}
    notes, lost = [], []
    for name in filters:
        if name in known:
            options |= known[name][0]
            notes += [f"{name}: {known[name][1]}"] if known[name][1] else []
        elif not _acts(t, name):
            notes.append(f"{name} has no effect here")
        else:
            lost.append(f"{name} is left out ({OWN_FILTERS.get(name, 'nothing takes its part')})")
    if lost:
        t.changes("selection.filters", "; ".join(lost + notes), options)
    elif notes:
        t.approximate("selection.filters", options, "; ".join(notes))
    elif filters:
        t.exact("selection.filters", options)
    else:
        t.unused("selection.filters", "no filter")


def _acts(t: Translation, name: str) -> bool:
    if name == "thinking_budget":
        return bool(t["sampling.thinking_budget"])
    if name == "partial_rollouts":
        return bool(t["sampling.segment"])
    return True
