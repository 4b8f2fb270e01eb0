"""Speed of the environments: cold start, steps, generated tasks. Ratios, measured in turn in one run.

    python benchmarks/environments.py [--rounds 5] [--out benchmarks/results]

Rates are per CPU-second of one process, so that a busy machine changes them little; the median of the rounds counts.
GEM and reasoning-gym are measured beside ours where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym

import rlvr  # noqa: F401
from rlvr.envs import TextEnv
from rlvr.envs.games.guess_number import GuessNumber
from rlvr.envs.puzzles.countdown import Countdown

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

FIRST_STEP = {
    "rlvr/Countdown-v0": (
        "import gymnasium as gym, rlvr\ne = gym.make('rlvr/Countdown-v0')\ne.reset(seed=0)\ne.step('1')"
    ),
    "CartPole-v1 (Gymnasium)": "import gymnasium as gym\ne = gym.make('CartPole-v1')\ne.reset(seed=0)\ne.step(0)",
    "game:GuessTheNumber-v0-hard (GEM)": (
        "import gem\ne = gem.make('game:GuessTheNumber-v0-hard')\ne.reset(seed=0)\ne.step('\\\\boxed{1}')"
    ),
}
HEAVY = ("torch", "transformers", "datasets", "sympy", "pandas")


class BareGuess:
    """A step of the same game with nothing around it: what plain Python allows."""

    secret = 500_000

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        start = action.rfind("\\boxed{")
        guess = int(action[start + 7 : action.find("}", start)])
        return ("higher" if guess < self.secret else "lower"), 0.0, guess == self.secret, False, {}


def bare_steps(count: int) -> None:
    step = BareGuess().step
    for _ in range(count):
        step("\\boxed{7}")


def guess_steps(count: int) -> None:
    """Level 5, which gives 20 turns; a reset at the end of each episode is part of the price."""
    env = TextEnv(GuessNumber(), level=5)
    env.reset(seed=0)
    step = env.step
    for _ in range(count):
        if step("\\boxed{7}")[3]:
            env.reset()


def guess_steps_without_resets(count: int) -> None:
    env = TextEnv(GuessNumber(), level=5, max_turns=count + 1)
    env.reset(seed=0)
    step = env.step
    for _ in range(count):
        step("\\boxed{7}")


def guess_steps_wrapped(count: int) -> None:
    env = gym.make("rlvr/GuessNumber-v0", level=5, max_turns=count + 1)
    env.reset(seed=0)
    for _ in range(count):
        env.step("\\boxed{7}")


def gem_steps(count: int) -> None:
    import gem

    env = gem.make("game:GuessTheNumber-v0-hard")
    env.reset(seed=0)
    for _ in range(count):
        _, _, terminated, truncated, _ = env.step("\\boxed{7}")
        if terminated or truncated:
            env.reset()


def countdown_tasks(count: int) -> None:
    """All five levels in turn."""
    env = TextEnv(Countdown())
    for place in range(count):
        env.reset(options={"level": 1 + place % 5})


def reasoning_gym_countdown(count: int) -> None:
    import reasoning_gym

    rows = reasoning_gym.create_dataset("countdown", size=count, seed=0)
    for place in range(count):
        rows[place]


def unsolvable(count: int) -> int:
    """How many of so many Countdown tasks their own expert does not solve."""
    env = TextEnv(Countdown())
    failures = 0
    for place in range(count):
        env.reset(seed=1, options={"index": place, "level": 1 + place % 5})
        failures += env.step(env.solve())[4]["success"] is not True
    return failures


def rate(work: Callable[[int], None], count: int) -> float:
    start = time.process_time()
    work(count)
    return count / (time.process_time() - start)


def cold_start(code: str) -> float:
    """CPU-seconds of a fresh process, its children's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def heavy_imports() -> list[str]:
    code = FIRST_STEP["rlvr/Countdown-v0"] + f"\nimport sys\nprint([m for m in {HEAVY} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return [name for name in HEAVY if name in shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    installed = {name: importlib.util.find_spec(name) is not None for name in ("gem", "reasoning_gym")}

    starts = {name: code for name, code in FIRST_STEP.items() if "(GEM)" not in name or installed["gem"]}
    cold = Table("process start to the first step", "CPU-seconds, lower is better", "rlvr/Countdown-v0")
    steps: dict[str, tuple[Callable[[int], None], int]] = {
        "GuessNumber, unwrapped": (guess_steps_without_resets, 200_000),
        "GuessNumber, unwrapped, resets included": (guess_steps, 200_000),
        "GuessNumber through gym.make": (guess_steps_wrapped, 50_000),
        "a bare Python step": (bare_steps, 200_000),
    }
    tasks: dict[str, tuple[Callable[[int], None], int]] = {"Countdown": (countdown_tasks, 10_000)}
    if installed["gem"]:
        steps["GuessTheNumber (GEM)"] = (gem_steps, 100_000)
    if installed["reasoning_gym"]:
        tasks["countdown (reasoning-gym)"] = (reasoning_gym_countdown, 20)
    stepping = Table("steps", "per CPU-second", "GuessNumber, unwrapped")
    generating = Table("generated tasks", "per CPU-second", "Countdown")
    for _ in range(options.rounds):
        for name, code in starts.items():
            cold.add(name, cold_start(code))
        for table, works in ((stepping, steps), (generating, tasks)):
            for name, (work, count) in works.items():
                table.add(name, rate(work, count))
    facts = {"heavy imports at the first Countdown step": heavy_imports(), "unsolvable of 20,000": unsolvable(20_000)}
    write_results("environments", [cold, stepping, generating], facts, options.out)


if __name__ == "__main__":
    main()
