"""Tasks as rows of a table, in the columns that each trainer reads.

>>> from rlvr.adapters import rows
>>> table = rows("rlvr/GuessNumber-v0", 100, format="verl", kwargs={"level": 2})
>>> write_rows(table, "train.parquet")

A row holds the prompt as it will be seen first, and the task's spec as one text of JSON (`rlvr.adapters.spec`), from
which the adapter rebuilds the environment, and the environment's digest (`rlvr.envs.tasks.digests`). It never holds an
answer.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr.adapters.spec import (
    TaskSpec,
    clear_environment_cache,
    initial_messages,
    require_single_turn,
    require_tools_in_prompt,
)
from rlvr.agents import Message
from rlvr.envs.core.files import write_new
from rlvr.envs.core.registry import size_of
from rlvr.envs.core.seeding import digest
from rlvr.envs.tasks.digests import env_digest

Row = dict[str, Any]
AGENT = "rlvr"  # what our agent loop, environment class and agent server are called in foreign configurations
LISTED_TASKS = 1_000  # that a server lists of a split whose tasks are generated without end
MAX_LISTED = 10_000  # tasks of one answer of a server
MISSING_PYARROW = "parquet files are written with pyarrow, which is not installed: pip install 'rlvr[hub]'"


def rows(
    env_id: str,
    n: int | None = None,
    format: str = "plain",
    *,
    seed: int = 0,
    group_size: int = 1,
    kwargs: Mapping[str, Any] | None = None,
    use_system: bool = True,
    single_turn: bool = False,
    tokenizer: Any = None,
    template_options: Mapping[str, Any] | None = None,
) -> list[Row]:
    """The first ``n`` tasks that an environment gives for a seed, a row each.

    Tasks that are generated go on without end; a table's rows come in the seed's shuffle, each once.

    Args:
        env_id: an id, perhaps with the module that registers it before a colon: ``"my_package:mine/Task-v0"``. A
            process that reads such rows imports the module only with ``RLVR_ALLOW_CODE=1``; a plug-in needs neither.
        n: how many tasks; None for all of a table.
        format: whose columns: plain (for ``datasets.Dataset.from_list``), trl, verl, skyrl, openrlhf, slime,
            nemo_gym.
        seed: another seed, other tasks (of a table: another order).
        group_size: how many rows each task has, one after the other. Trainers that repeat prompts themselves
            (all of the above do, by their own setting) want 1.
        kwargs: for ``gym.make``: split, level, max_turns, …
        use_system: whether the environment's system prompt begins the conversation.
        single_turn: refuse an environment of several turns, for a trainer that only grades one reply.
        tokenizer: the policy's. Where its chat template opens a thought in the prompt, the rows say so, for trainers
            that hand on replies as text (trl without `rollout_function`, skyrl, nemo_gym): a thought that does not end
            is then no answer.
        template_options: the template's variables, as the trainer gives them.

    Raises:
        ValueError: an unknown format, a number below 1, more tasks than a table has, no number for an environment
            without end, or tools that are left to a chat template which the format's trainer does not fill.
    """
    if format not in FORMATS:
        raise ValueError(f"format {format!r} is none of {', '.join(FORMATS)}")
    for name, number in {"n": n, "group_size": group_size}.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    module, _, name = env_id.rpartition(":")
    table = []
    thought = None
    if tokenizer is not None:
        from rlvr.agents.rendering import Renderer

        thought = Renderer(tokenizer, template_options=template_options).opened_thought
    first = TaskSpec(name, seed, module or "rlvr", kwargs or {}, thought=thought)
    clear_environment_cache()
    fills_template = format not in TEXT_FORMATS and not single_turn
    played_on = {"env_digest": _digest_of(first)}
    for group, (spec, messages) in enumerate(tasks(first, n, use_system, single_turn, fills_template)):
        for sample in range(group_size):
            position = {"index": group * group_size + sample, "group": group, "sample": sample, **played_on}
            table.append(_row(format, spec, [dict(message) for message in messages], position))
    return table


def _digest_of(spec: TaskSpec) -> str:
    env = spec.make(images=True)  # who takes no images raises when a task begins
    try:
        return env_digest(env)
    finally:
        env.close()


def tasks(
    first: TaskSpec, n: int | None, use_system: bool = True, single: bool = False, tools: bool = True
) -> Iterator[tuple[TaskSpec, list[Message]]]:
    """What `rows` makes rows of, one after the other: each task's spec and the messages it begins with. ``tools`` says
    whether a chat template may be left to show them."""
    env, observation, info = first.start()
    if not tools:
        require_tools_in_prompt(first.env_id, info)
    if single:
        require_single_turn(first, env, info)
    size = size_of(env)
    count = size if n is None else n
    if count is None:
        raise ValueError(f"{first.env_id} makes tasks without end: say how many, n=…")
    if size is not None and count > size:
        raise ValueError(f"{first.env_id} has {size} tasks, fewer than n={count}; let the trainer repeat them")
    seed = first.seed
    try:
        for number in range(count):
            if number and "index" in info:
                observation, info = env.reset()  # the next task of this seed
            elif number:
                seed = digest(first.seed, number) % 2**31
                observation, info = env.reset(seed=seed)
            options = {"index": info["index"]} if info.get("index") is not None else {}
            spec = replace(first, seed=seed, options=options)
            yield spec, initial_messages(observation, info, use_system=use_system)
    finally:
        env.close()


FORMATS = ("plain", "trl", "verl", "skyrl", "openrlhf", "slime", "nemo_gym")


def _row(format: str, spec: TaskSpec, messages: list[Any], position: Row) -> Row:
    """A task in the columns of a format."""
    task = {"spec": spec.to_json(), **position}
    rule = {"style": "rule", "ground_truth": ""}  # asked for; the environment grades
    match format:
        case "verl":
            trainer = {"agent_name": AGENT, "reward_model": rule}
            return {"data_source": spec.env_id, "prompt": messages, **trainer, "extra_info": task}
        case "skyrl":
            trainer = {"env_class": AGENT, "reward_spec": rule}
            return {"data_source": spec.env_id, "prompt": messages, **trainer, "extra_info": task}
        case "openrlhf":  # the label is all that reaches an agent function beside the prompt
            question = {"input": messages[-1]["content"], "label": spec.to_json()}
            return {**question, "datasource": spec.env_id, **position}
        case "slime":  # of a row's other columns its loader keeps the metadata alone
            return {"input": messages, "metadata": task}
        case "nemo_gym":
            agent = {"type": "responses_api_agents", "name": f"{AGENT}_agent"}
            return {"responses_create_params": {"input": messages}, "agent_ref": agent, **task}
        case "trl":  # a rollout function sees prompts and no other column; keys beside a message's own survive
            messages[-1]["spec"] = spec.to_json()
    return {"prompt": messages, **task}


TEXT_FORMATS = frozenset({"skyrl", "nemo_gym"})  # their trainers put no tools into the chat template


def write_rows(table: Sequence[Row], path: str | Path, *, force: bool = False) -> Path:
    """Write rows to a ``.jsonl`` or ``.parquet`` file, and return its path. The file is there whole or as it was.

    Args:
        force: write over a file that nothing of ours wrote as it is now.

    Raises:
        ImportError: pyarrow is missing.
        ValueError: another kind of file, a file that is there, or no rows.
    """
    path = Path(path)
    if not table:
        raise ValueError("there are no rows to write")
    if path.suffix == ".jsonl":
        write_new(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table), force)
    elif path.suffix == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(MISSING_PYARROW) from error
        written = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(table)), written)
        write_new(path, written.getvalue(), force)
    else:
        raise ValueError(f"rows are written to .jsonl or .parquet, not {path.name!r}")
    return path


def read_spec(row: Mapping[str, Any]) -> TaskSpec:
    """The task of a row in any of the formats.

    Raises:
        ValueError: the row names none.
    """
    spec = row.get("spec") or row.get("label")
    spec = spec or (row.get("extra_info") or row.get("metadata") or {}).get("spec")
    if not spec and isinstance(prompt := row.get("prompt"), Sequence) and prompt and isinstance(prompt[-1], Mapping):
        spec = prompt[-1].get("spec")
    if not spec:
        raise ValueError(f"the row names no task: it has {', '.join(row)}; make it with rlvr.adapters.rows")
    return TaskSpec.parse(spec)
