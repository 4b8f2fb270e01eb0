"""Members of a group and their tools: how often one is told what another drew, and whether rewards depend on the group.

    python benchmarks/group_sessions.py [--groups 1000] [--members 8] [--worlds python …] [--out benchmarks/results]

Each group is so many episodes of one task in one process, begun alike and stepped in random orders. Every member draws
a value of its own through its tools and asks for it again, twice. Tools with private randomness (an interpreter, a
server that hands out numbers, a shell) are called with equal actions; in the worlds without any (SQL, Browser) a member
writes its value down. An exchange is an observation that holds another member's value, or none. The rewards: 1, 2, 4
and 8 samples of the same tasks, where the reward is for naming what one's own server handed out. The exit status is 1
if a value crosses or a reward changes. ``--worlds`` measures these again and keeps the other rows.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs.agentic.browser import elements, page_of, site_of
from rlvr.envs.agentic.sites import FormField
from rlvr.envs.tools import MCP, Call, write_call

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from group_isolation import PrivateValue, exchanges

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SUMS = "rlvr/OrderOfOperations-v0"
SERVER = [sys.executable, "-I", "-S", str(ROOT / "tests" / "envs" / "number_server.py")]
SAMPLES = (1, 2, 4, 8)
THREADS = 4
DRAW = "import secrets; n = secrets.token_hex(8); print(f'n={n}')"
SHELL = "echo n=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ') > n; cat n"
Members = tuple[Sequence[gym.Env[Any, str]], PrivateValue]


def call(name: str, /, **arguments: Any) -> str:
    return write_call(Call(name, arguments), "hermes")


def number_in(text: str) -> str:
    return (re.findall(r"\bn=(\w+)", text) or [""])[-1]


class AtForm(gym.Wrapper[Any, str, Any, str]):
    """A visit that the expert has led to the first form."""

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        outcome: tuple[Any, dict[str, Any]] = super().reset(**settings)
        while '"click"' in (action := self.unwrapped.solve()):  # type: ignore[attr-defined]
            self.env.step(action)
        return outcome

    def field(self) -> int:
        """The number of the first field that takes any text."""
        world = self.unwrapped.get_state().state.world  # type: ignore[attr-defined]
        numbered = enumerate(elements(site_of(world), page_of(world)), 1)
        return next(number for number, each in numbered if isinstance(each, FormField) and not each.options)


def twins(env_id: str, count: int, **settings: Any) -> list[Any]:
    """Members as the rollout makes them, all from one environment; it stays the first's."""
    first: Any = gym.make(env_id, **settings).unwrapped
    return [first, *(first.spawn() for _ in range(count - 1))]


def python(count: int) -> Members:
    private = PrivateValue(
        lambda _: call("python", code=DRAW), lambda _: call("python", code="print(f'n={n}')"), number_in
    )
    return twins(SUMS, count, tools=["python"]), private


def mcp(count: int) -> Members:
    private = PrivateValue(lambda _: call("draw_number"), lambda _: call("last_number"), str.strip)
    return twins(SUMS, count, tools=[MCP(SERVER)]), private


def terminal(count: int) -> Members:
    private = PrivateValue(lambda _: f"clear; {SHELL}<Enter>", lambda _: "clear; cat n<Enter>", number_in)
    return twins("rlvr/Terminal-v0", count), private


def sql(count: int) -> Members:
    tokens = [secrets.token_hex(8) for _ in range(count)]
    ask = [call("run_query", sql=f"SELECT 'n={value}' AS x") for value in tokens]
    return twins("rlvr/SQL-v0", count), PrivateValue(ask.__getitem__, ask.__getitem__, number_in)


def browser(count: int) -> Members:
    tokens = [secrets.token_hex(8) for _ in range(count)]
    envs = [AtForm(env) for env in twins("rlvr/Browser-v0", count)]

    def draw(number: int) -> str:
        return call("type", element=envs[number].field(), text=f"n={tokens[number]}")

    return envs, PrivateValue(draw, lambda _: call("submit"), number_in)


WORLDS: dict[str, Callable[[int], Members]] = {
    "python": python,
    "MCP": mcp,
    "terminal": terminal,
    "SQL": sql,
    "Browser": browser,
}


def measured(name: str, groups: int, members: int) -> dict[str, Any]:
    """Groups in several threads at once, each thread with members of its own."""

    def play(first: int) -> int:
        envs, private = WORLDS[name](members)
        crossed = 0
        for seed in range(first, groups, THREADS):
            crossed += exchanges(envs, private, seed=seed)
            if seed % 100 == 0:
                print(f"{name}: group {seed}, {crossed} exchanges in this thread", file=sys.stderr, flush=True)
        for env in reversed(envs):  # the one that the others were spawned from comes last
            env.close()
        return crossed

    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as threads:
        crossed = sum(threads.map(play, range(THREADS)))
    seconds = round(time.monotonic() - began, 1)
    return {"groups": groups, "members": members, "exchanges": crossed, "seconds": seconds}


def named_its_own(outcome: Any) -> bool:
    """The checker: the reply names what the episode's own server handed out last."""
    return bool(outcome.call("last_number") == outcome.reply.strip())


def rewards(samples: int, groups: int) -> float:
    """Mean reward of groups of so many members, who all draw, look, and name what they saw, turn by turn."""
    tasks = {"train": [{"question": f"Draw a number and name it. ({number})"} for number in range(4)]}
    kit = MCP(SERVER)
    first: Any = gym.make("rlvr/MCP-v0", server=kit, tasks=tasks, checker=named_its_own).unwrapped
    envs = [first, *(first.spawn() for _ in range(samples - 1))]
    total = 0.0
    for seed in range(groups):
        for env in envs:
            env.reset(seed=seed)
        replies = [env.step(call("draw_number"))[0] for env in envs]
        for env in reversed(envs):
            env.step(call("last_number"))
        total += sum(float(env.step(value)[1]) for env, value in zip(envs, replies, strict=True))
    first.close()
    return total / (samples * groups)


def written(result: dict[str, Any]) -> str:
    lines = [
        "# groups",
        "",
        f"`python benchmarks/group_sessions.py` ({platform.machine()}, Python {platform.python_version()})",
        "",
        "Members of one group, each with a value of its own in its world, in one process and in random orders.",
        "",
        "| world | groups | members | values asked for again | told another's, or none |",
        "|---|---|---|---|---|",
    ]
    for name, row in result["worlds"].items():
        asked = 2 * row["groups"] * row["members"]
        lines.append(f"| {name} | {row['groups']:,} | {row['members']} | {asked:,} | {row['exchanges']} |")
    lines += [
        "",
        "| samples of a task | groups | mean reward for naming what one's own MCP server handed out |",
        "|---|---|---|",
        *(f"| {samples} | {row['groups']} | {row['reward']:g} |" for samples, row in result["rewards"].items()),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    kept = options.out / "group_sessions.json"
    result = json.loads(kept.read_text()) if kept.exists() else {"worlds": {}, "rewards": {}}
    for name in options.worlds:
        row = measured(name, options.groups, options.members)
        print(name, row, flush=True)
        result["worlds"][name] = row
        kept.write_text(json.dumps(result, indent=1) + "\n")
    few = max(1, options.groups // 20)
    if "MCP" in options.worlds:
        result["rewards"] = {str(samples): {"groups": few, "reward": rewards(samples, few)} for samples in SAMPLES}
        print(result["rewards"], flush=True)
    kept.write_text(json.dumps(result, indent=1) + "\n")
    kept.with_suffix(".md").write_text(written(result))
    crossed = sum(row["exchanges"] for row in result["worlds"].values())
    return int(crossed > 0 or any(row["reward"] != 1.0 for row in result["rewards"].values()))


if __name__ == "__main__":
    sys.exit(main())
