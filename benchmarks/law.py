"""The law of docs/verification.md: hostile actions over every id, tool kit and sandbox tier, and the invalid verdicts.

    python benchmarks/law.py [--actions 100000] [--seed 0] [--out folder]

Every registered id that can be made here is played, and every tool kit, those that run programs on each native tier
that holds. An action is a hostile text, a spoilt answer of the expert, a call with hostile arguments, or a program that
attacks what runs it. Each invalid verdict and each exception is listed with the action that led to it. A verdict that
would have come whatever the policy wrote is counted, too: there should be none on an idle machine. The figure is the
number of actions whose episode ended invalid.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym

import rlvr
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.sandbox import Sandbox
from rlvr.envs.sandbox import sandbox as sandboxes
from rlvr.envs.sandbox.probes import NATIVE, probe_tier
from rlvr.envs.tools import MCP, Call, Functions, Search, write_call
from rlvr.envs.tools.kits import Kit, SQLite
from rlvr.envs.tools.registry import KITS
from rlvr.envs.tools.search import Document
from rlvr.envs.validation.attacks import HOPELESS

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ROOT = Path(__file__).parent.parent
SUMS = "rlvr/Sums-v0"
# Ids whose episodes run programs: they are played on each tier, with as many actions as a kit.
PROGRAMS = frozenset(
    f"rlvr/{name}-v0"
    for name in (
        "HumanEval MBPP CodeContests CodeTests CodeRepair RepoRepair RepoFeature GSM8K-Python Terminal Rocq".split()
    )
)
HOSTILE = (*HOPELESS.values(), "\\boxed{" * 2_000, "<tool_call>" * 500, "####" * 500, "$" * 5_000, "\ud800")
WAITS = frozenset({"rlvr/GSM8K-Python-v0"})  # calls may take 10 s each: a tenth of the actions
WORKSPACES = ("python", "shell", "workspace")  # kits that run programs
SCALARS: tuple[Any, ...] = (
    0, 1, -1, 10**30, -(10**9), 0.0, 1e308, -0.5, True, None, "", "x", "0", "-1", "nan", "inf", "'; DROP TABLE t; --",
    "../../etc/passwd", "/dev/zero", "a" * 5_000, "\ud800", "\x00", "٣", "[" * 2_000, "SELECT 1", "{}", "http://127.0.0.1:1/",
    [], {}, [[[]]], {"a": {"b": 1}}, list(range(50)),
)  # fmt: skip
ATTACKS: tuple[str, ...] = (
    "1/0", "raise SystemExit(3)", "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", "exit()",
    "import os; os.kill(0, 9)", "import os, signal; os.kill(0, signal.SIGINT)", "import os; os.kill(-1, 9)",
    "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)", "import os, signal; os.kill(0, signal.SIGSTOP)",
    "import os; os.close(3); os.close(4)", "import os; os.write(4, b'x' * 100)", "x = 'a' * 10**8; print(len(x))",
    "print('a' * 3 * 10**6)", "open('f', 'wb').write(b'x' * 10**8)", "import ctypes; ctypes.string_at(0)",
    "import sys; sys.setrecursionlimit(10**9)\ndef f(x): return f(x)\nf(1)", "print(10**5000)", "def f(:", "\x00",
    "import nowhere",
    "import os, threading, time; threading.Thread(target=lambda: (time.sleep(0.001), os._exit(1))).start()",
    "import os\nfor n in range(20):\n    os.makedirs('d/' * n, exist_ok=True)", "import os; os.rename('.', 'x')",
    "import sys; sys.stdout.close()", "import os; [os.fork() for _ in range(3)]", "input()",
    "def f(*a): return 'a' * 900_000",
    "import shutil; shutil.rmtree('.')", "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))",
)  # fmt: skip
COMMANDS: tuple[str, ...] = (
    "kill -9 0", "kill -9 -1", "kill -STOP $PPID", "kill -STOP 0", "kill -9 $$", "kill -9 $PPID", "exit 3", "exec true",
    "cat /dev/zero | head -c 5000000", "yes | head -c 3000000", "rm -rf .", "cd /; rm -rf *", "exec 3>&- 4>&-",
    "chmod 000 .",
    ":(){ :|:; }", "ulimit -n 0; ls", "mkfifo p; (sleep 1; echo x > p) & ls", "head -c 50000000 /dev/zero > big",
    "stty raw",
    "while :; do :; done & ls", "\\x00", "trap '' INT TERM HUP; true", "unset PATH; ls", "exec < /dev/null",
)  # fmt: skip


def hostile_text(rng: random.Random) -> str:
    """A text that no answer is made of."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(HOSTILE)[: rng.choice((50, 2_000, 30_000))]
    if kind == 1:
        return f"\\boxed{{{rng.choice(HOSTILE)[:2_000]}}}"
    if kind == 2:
        return "\\boxed{" + str(rng.choice(SCALARS)) + "}"
    if kind == 3:
        return "".join(
            chr(rng.choice((rng.randrange(0x20), rng.randrange(0x80), rng.randrange(0xFFFF)))) for _ in range(80)
        )
    return f"```python\n{rng.choice(ATTACKS)}\n```"


def spoilt(answer: str, rng: random.Random) -> str:
    """An expert's action that one change has spoilt."""
    start, end = sorted(rng.randrange(len(answer) + 1) for _ in range(2))
    kind = rng.randrange(6)
    if kind == 0:
        return answer[:start]
    if kind == 1:
        return answer[:start] + answer[end:]
    if kind == 2:
        return answer[:end] + answer[start:]
    if kind == 3:
        return "".join(rng.choice("0123456789-./eE^!∞٣") if c.isdigit() and rng.random() < 0.5 else c for c in answer)
    if kind == 4:
        return answer[:start] + str(rng.choice(SCALARS)) + answer[end:]
    return answer * 2


def hostile_call(schemas: list[dict[str, Any]], rng: random.Random, style: str) -> str:
    """A call of one of the tools with hostile arguments."""
    function = rng.choice(schemas)["function"]
    properties = function["parameters"].get("properties") or {}
    arguments: dict[str, Any] = {}
    for name, about in properties.items() if isinstance(properties, dict) else ():
        if name in ("code", "program"):
            arguments[name] = rng.choice(ATTACKS)
        elif name == "command":
            arguments[name] = rng.choice(COMMANDS)
        elif isinstance(about, dict) and about.get("enum") and rng.random() < 0.7:
            arguments[name] = rng.choice(about["enum"])
        elif rng.random() < 0.9:
            number = isinstance(about, dict) and about.get("type") in ("integer", "number")
            arguments[name] = rng.choice([0, 1, -1, 10**9, 2.5] if number and rng.random() < 0.7 else SCALARS)
    if rng.random() < 0.1:
        arguments["more"] = rng.choice(SCALARS)
    with suppress(TypeError, ValueError):
        return write_call(Call(function["name"], arguments), style)
    return write_call(Call(function["name"], {}), style)


def hostile_action(env: Any, rng: random.Random, schemas: list[dict[str, Any]], style: str) -> str:
    """One of all that there is, and now and then what the expert would do, so that later turns are reached."""
    kind = rng.random()
    if schemas and kind < 0.6:
        return hostile_call(schemas, rng, style)
    if "Terminal" in env.name and kind < 0.7:
        return rng.choice(COMMANDS) + "<Enter>"
    if kind < 0.35:
        return hostile_text(rng)
    with suppress(Exception):
        expert = env.solve()
        return expert if kind > 0.85 else spoilt(expert, rng)
    return hostile_text(rng)


Failure = tuple[str, str, str]  # what was played, the action, and the verdict or the exception


def play(name: str, env: Any, actions: int, seed: int) -> tuple[int, list[Failure]]:
    """Play so many hostile actions in an environment: how many were played, and what went wrong."""
    rng, failures, played = random.Random(f"{name} {seed}"), [], 0
    task, episode = env.task, 0
    kit_tools = [tool.schema() for tool in getattr(task, "_tools", {}).values()]
    style = getattr(task, "style", None) or getattr(task, "tool_style", "hermes")
    while played < actions:
        level = rng.randint(1, task.levels)
        env.reset(seed=seed, options={"level": level} if task.size else {"level": level, "index": episode})
        episode += 1
        over = False
        while not over and played < actions:
            action = hostile_action(env, rng, kit_tools, style)
            played += 1
            try:
                _, _, terminated, truncated, info = env.step(action)
            except Exception as error:
                failures.append((name, action[:300], f"{type(error).__name__}: {error}"[:300]))
                break
            over = terminated or truncated
            if not info["verdict"].valid:
                failures.append((name, action[:300], f"{info['verdict'].status}: {info['verdict'].reason}"[:300]))
    return played, failures


# --- what is played ---


def divide(a: float, b: float) -> str:
    """Divide a by b.

    Args:
        a: the numerator.
        b: the denominator.
    """
    return str(a / b)


def pick(items: list[int], at: int) -> str:
    """Pick one.

    Args:
        items: what there is.
        at: which.
    """
    return str(items[at])


def power(base: int, exponent: int) -> str:
    """Raise to a power, which may hold the interpreter's lock for hours.

    Args:
        base: what is raised.
        exponent: how often.
    """
    return str(base**exponent % 10**9)


def wait(seconds: float) -> str:
    """Wait.

    Args:
        seconds: how long.
    """
    time.sleep(seconds)
    return "waited"


def leave(how: str) -> str:
    """Leave.

    Args:
        how: in what way.
    """
    raise SystemExit(how)


def own_ids() -> list[str]:
    """Every id that can be made here, bridges to other suites aside."""
    env_ids = []
    for env_id in rlvr.list_envs():
        if not env_id.startswith(PREFIXES):
            with suppress(Exception):
                gym.make(env_id).close()
                env_ids.append(env_id)
    return env_ids


def kits(folder: Path) -> dict[str, Callable[[], Kit]]:
    """Every kind of kit, by name; those that run programs last."""
    database = folder / "t.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (a, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, str(n)) for n in range(100)])
    documents = [Document(f"Page {n}", f"word{n} and others") for n in range(20)]
    server = [sys.executable, str(ROOT / "tests" / "envs" / "mcp_server.py")]
    return {
        "functions": lambda: Functions(divide, pick, power, wait, leave),
        "calculator": KITS["calculator"],
        "search": lambda: Search(documents),
        "sqlite": lambda: SQLite(database),
        "mcp": lambda: MCP(server),
        "mcp, shared": lambda: MCP(server, remembers=False),
        **{name: KITS[name] for name in WORKSPACES},
    }


@contextmanager
def on_tier(tier: str) -> Iterator[None]:
    """The sandboxes that this process shares, on one tier."""
    before = dict(sandboxes._shared)
    ours = {(os.getpid(), terminals): Sandbox(tier=tier, terminals=terminals) for terminals in (False, True)}  # type: ignore[arg-type]
    sandboxes._shared.update(ours)
    try:
        yield
    finally:
        for sandbox in ours.values():
            sandbox.close()
        sandboxes._shared.clear()
        sandboxes._shared.update(before)


def tiers() -> list[str]:
    """The native tiers that hold here."""
    return [tier for tier in NATIVE if probe_tier(tier).holds]


def with_kit(kit: Kit) -> Any:
    """Sums with a kit, whose calls have little time."""
    return gym.make(SUMS, tools={"tools": [kit], "seconds": 0.3, "max_calls": 8}).unwrapped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=100_000, help="hostile actions in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.setdefault("RLVR_DATA", str(ROOT / "tests" / "data"))
    rlvr_ids = own_ids()
    plain, programs = [i for i in rlvr_ids if i not in PROGRAMS], [i for i in rlvr_ids if i in PROGRAMS]
    counts: Counter[str] = Counter()
    failures: list[Failure] = []

    def run(name: str, env: Any, actions: int) -> None:
        started = time.monotonic()
        played, invalid = play(name, env, actions, options.seed)
        env.close()
        counts[name] += played
        failures.extend(invalid)
        print(
            f"{sum(counts.values()):>7} {name}: {len(invalid)} of {played} invalid, {time.monotonic() - started:.1f} s",
            flush=True,
        )
        for _, action, verdict in invalid[:3]:
            print(f"        {verdict!r} after {action!r}"[:400], flush=True)

    share = max(1, options.actions // 100)  # of a kit, and of what runs programs, on each tier
    shares = {name: max(1, share // 10) if name in WAITS else share for name in (*programs, *WORKSPACES)}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in kits(Path(folder)).items():
            if name not in WORKSPACES:
                run(f"kit {name}", with_kit(make()), share)
        for tier in tiers():
            with on_tier(tier):
                for name, count in shares.items():
                    env = with_kit(KITS[name]()) if name in WORKSPACES else gym.make(name).unwrapped
                    run(f"{name if '/' in name else f'kit {name}'} on {tier}", env, count)
    by_name = dict(counts)
    left = max(0, options.actions - sum(counts.values()))
    for number, env_id in enumerate(plain):
        run(env_id, gym.make(env_id).unwrapped, left // len(plain) + (number < left % len(plain)))
    table = Table("Hostile actions", "actions; invalid verdicts and exceptions are listed below", "in all")
    table.add("in all", float(sum(counts.values())))
    table.add(f"the other {len(plain)} ids", float(sum(counts.values()) - sum(by_name.values())))
    for name, count in by_name.items():
        table.add(name, float(count))
    facts = {
        "invalid verdicts and exceptions": len(failures),
        "ids": len(rlvr_ids),
        "tiers": ", ".join(tiers()) or "none holds",
        "failures": json.dumps(failures[:50], ensure_ascii=True),
    }
    write_results("law", [table], facts, options.out)


if __name__ == "__main__":
    main()
