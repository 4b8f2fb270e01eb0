"""The databases of SQL-v0: how many there are that differ, what a careless reader earns, and how fast they are made.

    python benchmarks/sql_worlds.py [--seeds 200] [--out benchmarks/results]

Of so many seeds a level: how many the expert solves, its calls and answers, distinct schema graphs, question plans and
signatures (a task's graph and its plans), tables, and tasks per CPU-second with the database's file. Readers run the
expert's queries without one rule of the documentation: rows that do not count, units, unknown numbers, forms of days,
spellings, or all of these. The exit status is 1 if the expert fails.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[1]

import gymnasium as gym  # noqa: E402

import rlvr  # noqa: E402, F401  (registers the environments)
from rlvr.envs import TextEnv  # noqa: E402
from rlvr.envs.agentic.databases import storage, task  # noqa: E402
from rlvr.envs.agentic.databases.rows import StoredTable, database, open_database  # noqa: E402
from rlvr.envs.agentic.databases.schema import DatabaseKey, schema  # noqa: E402
from rlvr.envs.tools import ToolError  # noqa: E402
from rlvr.envs.tools.sql import query  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
ENV_ID = "rlvr/SQL-v0"
Ways = tuple[type[storage.Column], ...]
RULES: dict[str, tuple[bool, Ways]] = {  # whether marks of rows are overlooked, and which ways of storing
    "rows that do not count": (True, ()),
    "units": (False, (storage.Smaller, storage.Units, storage.Comma)),
    "unknown numbers": (False, (storage.Unknown,)),
    "forms of days": (False, (storage.Compact, storage.MixedDates, storage.BySource)),
    "spellings": (False, (storage.TypedByHand,)),
}
RULES["all of these"] = (True, tuple(way for _, ways in RULES.values() for way in ways))


def careless(key: DatabaseKey, rule: str) -> bool:
    """Whether the task is solved by a reader who overlooks a rule."""
    overlooks_marks, ways = RULES[rule]

    def misread(table: StoredTable) -> StoredTable:
        columns = {
            noun: storage.Column(each.name, each.attribute, each.entity) if type(each) in ways else each
            for noun, each in table.columns.items()
        }
        return table._replace(columns=columns, mark="" if overlooks_marks else table.mark)

    true = database(key)
    tables = {name: misread(table) for name, table in true.tables.items()}
    with patch.object(task, "database", lambda _: true._replace(tables=tables)):
        asked = task.questions.__wrapped__(key)
    connection = open_database(key)
    for question in asked:
        try:
            results = [query(connection, sql, trusted=True).rows for sql in question.queries]
        except ToolError:
            return False
        rows = results[-1]
        if question.plan.startswith("difference"):
            rows = [((results[-2][0][0] or 0) - (rows[0][0] or 0),)]
        text = "; ".join(" | ".join(map(str, row)) for row in rows)
        if task.graded(question, text).status != "correct":
            return False
    return True


def per_second(work: Callable[[], object], times: int) -> int:
    """How often work is done in a CPU-second."""
    began = time.process_time()
    for _ in range(times):
        work()
    return round(times / max(time.process_time() - began, 1e-6))


def measure(level: int, seeds: int) -> dict[str, Any]:
    """The figures of a level."""
    env = gym.make(ENV_ID, level=level, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    keys, began = [], time.process_time()
    for seed in range(seeds):
        env.reset(seed=seed)
        keys.append(env.get_state().state.world.key)
        open_database(keys[-1])
    tasks = round(seeds / (time.process_time() - began))
    solved, actions = 0, []
    for seed in range(seeds):
        env.reset(seed=seed)
        total, over, count = 0.0, False, 0
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.solve())
            total, over, count = total + float(reward), terminated or truncated, count + 1
        solved += total == 1.0
        actions.append(count)
    plans = [tuple(each.plan for each in task.questions(key)) for key in keys]
    tables = [len(database(key).documentation) for key in keys]
    env.reset(seed=0)
    state = env.get_state()
    return {
        "solved": solved,
        "actions": [min(actions), round(sum(actions) / seeds, 1), max(actions)],
        "tables": [min(tables), round(sum(tables) / seeds, 1), max(tables)],
        "graphs": len({schema(key).signature for key in keys}),
        "plans": len(set(plans)),
        "signatures": len({(schema(key).signature, plan) for key, plan in zip(keys, plans, strict=True)}),
        "tasks": tasks,
        "forks": per_second(env.fork, 300),
        "restores": per_second(lambda: env.set_state(state), 1000),
        "careless": {rule: sum(careless(key, rule) for key in keys) for rule in RULES},
    }


def page(record: dict[str, Any]) -> str:
    """The figures as Markdown."""
    seeds = record["seeds"]
    text = (
        f"# SQL worlds\n\n`{record['command']}` ({record['machine']})\n\nOf {seeds} seeds of the train split a level. "
        "Actions and tables: least, mean and most. Tasks (with the file of the database), forks and restores are per "
        "CPU-second.\n\n| level | solved by the expert | actions | tables | schema graphs | question plans "
        "| signatures | tasks | forks | restores |\n|---|---|---|---|---|---|---|---|---|---|\n"
    )
    for level, row in enumerate(record["levels"], 1):
        values = list(row.values())[:-1]
        cells = [", ".join(map(str, cell)) if isinstance(cell, list) else str(cell) for cell in values]
        text += f"| {level} | {' | '.join(cells)} |\n"
    text += (
        f"\nHow many of these {seeds} tasks the expert's queries solve when a rule of the documentation is overlooked."
        f"\n\n| level | {' | '.join(RULES)} |\n|---|{'---|' * len(RULES)}\n"
    )
    for level, row in enumerate(record["levels"], 1):
        text += f"| {level} | {' | '.join(map(str, row['careless'].values()))} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    levels = [measure(level, options.seeds) for level in range(1, 6)]
    record = {
        "command": " ".join(["python benchmarks/sql_worlds.py", *sys.argv[1:]]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seeds": options.seeds,
        "levels": levels,
    }
    (options.out / "sql_worlds.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / "sql_worlds.md").write_text(page(record), encoding="utf-8")
    print(page(record))
    return int(any(row["solved"] < options.seeds for row in levels))


if __name__ == "__main__":
    raise SystemExit(main())
