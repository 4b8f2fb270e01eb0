"""The agent worlds: what their experts earn, and what scripted cheaters do.

    python benchmarks/worlds.py [--ids rlvr/SQL-v0 …] [--seeds 200] [--cheats 10] [--out benchmarks/results]

Every level of every world is played by its expert with so many seeds, and by each cheater (`cheaters.py`) with some.
The exit status is 1 if an expert fails or a cheater is paid. ``--ids`` measures these again and keeps the other rows.
GSM8K-Python plays the made-up rows of tests/data.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
os.environ.setdefault("RLVR_DATA", str(ROOT / "tests" / "data"))
sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import gymnasium as gym  # noqa: E402
from cheaters import ANYWHERE, WORLDS, Cheat  # noqa: E402

import rlvr  # noqa: E402, F401  (registers the environments)
from rlvr.envs import TextEnv  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


def earned(env: TextEnv, seed: int, cheat: Cheat | None = None) -> float:
    """The return of an episode that a cheater plays, or the expert.

    Raises:
        RuntimeError: the episode ended with an invalid verdict: whatever a policy does must be judged.
    """
    env.reset(seed=seed)
    actions = cheat(env, random.Random(seed)) if cheat else iter(env.solve, None)
    total = 0.0
    for action in actions:
        _, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        if terminated or truncated:
            if not info["verdict"].valid:
                raise RuntimeError(f"{env.name}, seed {seed}: {info['verdict'].reason}")
            return total
    raise RuntimeError(f"{env.name}, seed {seed}: the cheater stopped before the end")


def measure(env_id: str, seeds: int, cheats: int) -> dict[str, Any]:
    """For each level the successes of the expert, and what each cheater earned at most and in how many episodes."""
    env = gym.make(env_id).unwrapped
    assert isinstance(env, TextEnv)
    levels, size = env.task.levels, env.size
    row: dict[str, Any] = {"expert": [], "seeds": min(seeds, size or seeds), "cheaters": {}}
    for level in range(1, levels + 1):
        env = gym.make(env_id, level=level).unwrapped
        row["expert"].append(sum(earned(env, seed) == 1.0 for seed in range(row["seeds"])))
        for cheat in (*ANYWHERE, *WORLDS[env_id]):
            cheater = row["cheaters"].setdefault(cheat.__name__.replace("_", " "), {"episodes": 0, "most": 0.0})
            for seed in range(min(cheats, row["seeds"])):
                cheater["most"] = max(cheater["most"], earned(env, seed, cheat))
                cheater["episodes"] += 1
        env.close()
    return row


def page(record: dict[str, Any]) -> str:
    text = (
        f"# worlds\n\n`{record['command']}` ({record['machine']})\n\nOf how many seeds the expert solved how many, at "
    )
    text += (
        "each level; and the most that a cheater earned in any episode.\n\n| world | seeds a level | solved, by level "
    )
    text += "| cheaters | their episodes | most earned |\n|---|---|---|---|---|---|\n"
    for env_id, row in record["rows"].items():
        solved, cheaters = ", ".join(map(str, row["expert"])), row["cheaters"].values()
        episodes, best = sum(each["episodes"] for each in cheaters), max(each["most"] for each in cheaters)
        text += f"| {env_id} | {row['seeds']} | {solved} | {len(cheaters)} | {episodes} | {best:g} |\n"
    text += "\nThe cheaters:\n\n"
    by_name: dict[str, list[str]] = {}
    for env_id, row in record["rows"].items():
        for name in row["cheaters"]:
            by_name.setdefault(name, []).append(env_id.removeprefix("rlvr/").removesuffix("-v0"))
    everywhere = len(record["rows"])
    for name, where in by_name.items():
        text += f"- {name}: {'all' if len(where) == everywhere else ', '.join(where)}\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--cheats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    stored = options.out / "worlds.json"
    rows = json.loads(stored.read_text())["rows"] if stored.exists() else {}
    failed = False
    for env_id in options.ids:
        rows[env_id] = measure(env_id, options.seeds, options.cheats)
        failed |= any(solved != rows[env_id]["seeds"] for solved in rows[env_id]["expert"])
        failed |= any(cheater["most"] for cheater in rows[env_id]["cheaters"].values())
        print(env_id, json.dumps(rows[env_id]), flush=True)
        record = {
            "command": " ".join(["python benchmarks/worlds.py", *sys.argv[1:]]),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "rows": {name: rows[name] for name in WORLDS if name in rows},
        }
        stored.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (options.out / "worlds.md").write_text(page(record), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
