"""The service worlds: how many there are that differ, how long their experts take, and how fast they are made.

    python benchmarks/service_worlds.py [--seeds 40] [--out benchmarks/results]

Counted over all worlds: schema graphs (entities, attributes, references, actions, effects and rules by name), graphs
without names (what refers to what, which kinds of values, which effects and comparisons), tools (name, arguments,
what they show or change, and the conditions that they check, without bounds) and tool graphs (the tools of a world).
Of so many seeds a level: the expert's plans without values, its steps, the share of tasks whose goal holds at the
start, and tasks, forks and restores per CPU-second. The exit status is 1 if an expert fails, or a goal holds at the
start.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

import gymnasium as gym  # noqa: E402

import rlvr  # noqa: E402, F401  (registers the environments)
from rlvr.envs import TextEnv  # noqa: E402
from rlvr.envs.agentic.services.desk import desk_of  # noqa: E402
from rlvr.envs.agentic.services.task import judged  # noqa: E402
from rlvr.envs.agentic.services.world import DOMAINS, VARIANTS, ServiceWorld, world  # noqa: E402
from rlvr.envs.core.seeding import split_of  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
ENV_ID = "rlvr/Service-v0"


def nameless(compiled: ServiceWorld) -> str:
    """The schema graph without its words: two domains that differ in nouns alone have the same."""
    entities = compiled.ledger.entities
    index = {name: str(number) for number, name in enumerate(entities)}
    parts = []
    for entity in entities.values():
        kinds = sorted(
            f"ref {index[each.kind.values[0]]}" if each.kind.form == "ref" else each.kind.form
            for each in entity.attributes
        )
        parts.append(f"{index[entity.name]} of {index.get(entity.parent, '-')}: {kinds}")
    for action in compiled.actions.values():
        params = [param.kind.form for param in action.params]
        effects = [f"{effect.path.count('.')}{effect.op}{effect.value[:1] == '$'}" for effect in action.effects]
        bounds = sorted(
            f"{rule.bound.op}{rule.bound.path.count('.')}{rule.bound.path[:1] == '$'}"
            for rule in compiled.rules
            if rule.bound and action.name in rule.actions
        )
        parts.append(f"{index[action.on]}: {params} {effects} {bounds}")
    return "; ".join([*parts, str(sorted(index[compiled.actions[name].on] for name in compiled.amounts))])


def tools_of(compiled: ServiceWorld) -> list[str]:
    """The tools of a world: each with its arguments, what it shows or changes, and the conditions that it checks."""
    tools = []
    for each in desk_of(compiled.key).tools.values():
        checks = [
            f"{rule.bound.path} {rule.bound.op}"
            for rule in compiled.rules
            if rule.guarded and rule.bound and each.name in rule.actions
        ]
        tools.append(f"{each.signature()}: {each.description.partition(' It checks')[0]} {sorted(checks)}")
    return tools


def count_worlds() -> dict[str, Any]:
    """What there is in all worlds together, and how many schema graphs each split has."""
    graphs: dict[str, str] = {}
    bare, tools, names, tool_graphs = set(), set(), set(), set()
    for domain in DOMAINS:
        for level in range(1, 6):
            for variant in range(VARIANTS):
                compiled = world(domain, level, variant)
                graphs[compiled.signature] = split_of(compiled.signature)
                bare.add(nameless(compiled))
                described = tools_of(compiled)
                tools.update(f"{domain}: {each}" for each in described)
                names.update(f"{domain}: {each}" for each in desk_of(compiled.key).tools)
                tool_graphs.add("\n".join(sorted(described)))
    splits: dict[str, int] = defaultdict(int)
    for split in graphs.values():
        splits[split] += 1
    return {
        "domains": len(DOMAINS),
        "worlds": len(DOMAINS) * 5 * VARIANTS,
        "schema graphs": len(graphs),
        "schema graphs without names": len(bare),
        "tools": len(tools),
        "names of tools": len(names),
        "tool graphs": len(tool_graphs),
        "graphs by split": dict(splits),
    }


def per_second(work: Callable[[], object], times: int) -> int:
    """How often work is done in a CPU-second."""
    began = time.process_time()
    for _ in range(times):
        work()
    return round(times / max(time.process_time() - began, 1e-6))


def measure(level: int, seeds: int) -> dict[str, Any]:
    """The expert of a level, its plans, and the speed."""
    env = gym.make(ENV_ID, level=level, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    began = time.process_time()
    for seed in range(seeds):
        env.reset(seed=seed)
    tasks = round(seeds / (time.process_time() - began))
    solved, met, steps, plans, tools = 0, 0, [], set(), []
    for seed in range(seeds):
        env.reset(seed=seed)
        visit = env.get_state().state.world
        met += judged(visit._replace(closed=True)).reward > 0
        plan = visit.case.plan
        steps.append(len(plan))
        plans.add(" ".join(name or "say" for name, _ in plan))
        tools.append(len(desk_of(visit.case.world.key).tools))
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.solve())
            total, over = total + float(reward), terminated or truncated
        solved += total == 1.0
    env.reset(seed=0)
    state = env.get_state()
    return {
        "solved": solved,
        "goal met at the start": met,
        "plans": len(plans),
        "steps": [min(steps), round(sum(steps) / seeds, 1), max(steps)],
        "tools": [min(tools), round(sum(tools) / seeds, 1), max(tools)],
        "tasks": tasks,
        "forks": per_second(env.fork, 300),
        "restores": per_second(lambda: env.set_state(state), 1000),
    }


def page(record: dict[str, Any]) -> str:
    """The figures as Markdown."""
    text = f"# service worlds\n\n`{record['command']}` ({record['machine']})\n\n"
    text += "| counted over all worlds | |\n|---|---|\n"
    for name, value in record["worlds"].items():
        shown = ", ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict) else value
        text += f"| {name} | {shown} |\n"
    text += (
        f"\nOf {record['seeds']} seeds of the train split a level. Steps and tools: least, mean and most. "
        "Tasks, forks and restores are per CPU-second, tasks with the worlds' compilation.\n\n| level | solved by the "
        "expert | goal met at the start | distinct plans | steps | tools | tasks | forks | restores |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    for level, row in enumerate(record["levels"], 1):
        cells = [", ".join(map(str, cell)) if isinstance(cell, list) else str(cell) for cell in row.values()]
        text += f"| {level} | {' | '.join(cells)} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    levels = [measure(level, options.seeds) for level in range(1, 6)]
    record = {
        "command": " ".join(["python benchmarks/service_worlds.py", *sys.argv[1:]]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seeds": options.seeds,
        "worlds": count_worlds(),
        "levels": levels,
    }
    (options.out / "service_worlds.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / "service_worlds.md").write_text(page(record), encoding="utf-8")
    print(page(record))
    return int(any(row["solved"] < options.seeds or row["goal met at the start"] for row in levels))


if __name__ == "__main__":
    raise SystemExit(main())
