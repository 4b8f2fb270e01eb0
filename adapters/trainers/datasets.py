"""Plain data sets: tasks as a ``datasets.Dataset``, and replies in one graded; see docs/adapters/datasets.md.

>>> table = dataset("rlvr/WordProblems-v0", 1000)                   # doctest: +SKIP
>>> table = table.map(lambda row: {"completion": reply(row["prompt"])})     # doctest: +SKIP
>>> graded(table)["reward"]                                         # doctest: +SKIP

A row holds the prompt and the task's spec, never an answer; the spec rebuilds the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlvr.adapters.rows import read_spec, rows
from rlvr.adapters.spec import grade
from rlvr.envs import Verdict

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

MISSING = "data sets need the package datasets: pip install 'rlvr[hub]'"
GRADED = ("reward", "status", "reason")


def dataset(env_id: str, n: int | None = None, format: str = "plain", **options: Any) -> Dataset:
    """The first ``n`` tasks that an environment gives for a seed.

    Args:
        env_id, n, format: as for `rlvr.adapters.rows`: an id, how many (None for all of a table), whose columns.
        options: its other arguments: seed, group_size, kwargs, use_system, single_turn.

    Raises:
        ImportError: the package ``datasets`` is missing.
        ValueError: as `rlvr.adapters.rows`.
    """
    return _package().Dataset.from_list(rows(env_id, n, format, **options))


def splits(
    env_id: str,
    sizes: Mapping[str, int | None],
    format: str = "plain",
    *,
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> DatasetDict:
    """A data set for each split, which share no task.

    Args:
        sizes: how many tasks of each split, such as ``{"train": 1000, "test": 100}``; None for all of a table.
        kwargs: for ``gym.make``, without the split.

    Raises:
        ImportError, ValueError: as `dataset`; ``kwargs`` that name a split.
    """
    if "split" in (kwargs or {}):
        raise ValueError("the splits are the keys of sizes: kwargs must not name one")
    tables = {
        split: dataset(env_id, n, format, kwargs={**(kwargs or {}), "split": split}, **options)
        for split, n in sizes.items()
    }
    return _package().DatasetDict(tables)


def graded(table: Dataset, column: str = "completion") -> Dataset:
    """The data set with what each reply is worth: ``reward`` (None where the fault was not the policy's), ``status``
    and ``reason``.

    Args:
        table: of `dataset`, in any format, with replies: texts, or messages of which the last counts.
        column: where they are.

    Raises:
        ValueError: there is no such column, a row names no task, or a task has several turns.
    """
    if column not in table.column_names:
        raise ValueError(f"the data set has no column {column!r}; it has {', '.join(table.column_names)}")
    verdicts: list[Verdict] = []
    for row in table:
        reply = row[column]
        text = reply if isinstance(reply, str) else reply[-1]["content"]
        verdicts.append(grade(read_spec(row), text))
    earlier = [name for name in GRADED if name in table.column_names]
    columns: dict[str, list[Any]] = {
        "reward": [verdict.reward if verdict.valid else None for verdict in verdicts],
        "status": [verdict.status for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
    }
    package = _package()
    # Of the same types when no verdict was valid.
    types = {"reward": package.Value("float64"), **dict.fromkeys(GRADED[1:], package.Value("string"))}
    added = package.Dataset.from_dict(columns, features=package.Features(types))
    return package.concatenate_datasets([table.remove_columns(earlier), added], axis=1)


def _package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ImportError(MISSING) from error
    return datasets
