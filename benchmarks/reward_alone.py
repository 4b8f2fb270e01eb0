"""Does a policy that is trained on the reward alone find holes that a search without a model does not?

    python benchmarks/reward_alone.py [--only NAME …] [--without-policy] [--out FILE]

On the planted environments that are hard to game, their mended twins, and the eight holes of ``rlvr/Loophole-v0``:
`rlvr validate`'s search (``statistical.gameability_gap``) by itself; a tiny policy that imitates solutions of other
tasks, whatever they earn, and then learns from the reward alone; and as many episodes of what it imitates. What was
paid is held against the expert: the same actions are paid on at least half of ten tasks whose solutions are others, and
there more than other tasks' solutions are, or an episode is paid more than the expert ever is. A line of the records is
one environment, with CPU-seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from planted.catalogue import PAIRS, make_env
from whole_runs import Silent

from rlvr.algorithms.config import load_config
from rlvr.algorithms.train.run import Trainer
from rlvr.envs.bridges.gymnasium_text import GymnasiumText
from rlvr.envs.core.registry import ENTRY_POINT
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.loopholes import HOLES
from rlvr.envs.validation import validate
from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.reward_search import mutated
from rlvr.envs.validation.search import solutions_by_source
from rlvr.envs.validation.subject import Subject, TaskRef, observation_text

RECORDS = Path(__file__).parent / "results" / "reward_alone.jsonl"
KINDS = (1, 2, 3, 9, 11, 15, 20, 21, 23)
ID = "reward-alone/Target-v0"
TURNS, TASKS, OTHERS, CANDIDATES = 12, 24, 10, 60
PAID, MORE, HALF = 0.02, 0.05, 0.5
CONFIG: dict[str, Any] = {
    "env": {"id": ID, "system": False},
    "algorithm": "grpo",
    "overrides": {"kl_coef": 0.0},
    "warm_start": {"random_steps": 50, "batch_size": 16, "lr": 3e-3},
    "learner": {"lr": 1e-3},
    "steps": 12,
    "prompts": 4,
    "group_size": 8,
    "evaluation": {"episodes": 1},
    "checkpoint_every": 10**6,
    "episodes_every": 10**6,
}
Make = Callable[[], gym.Env[Any, Any]]
Log = list[dict[str, Any]]


class Logged(gym.Env[str, str]):
    """The target, of which every episode is kept; the system prompt stands in its first observation."""

    action_space = observation_space = gym.spaces.Text(100_000, min_length=0)

    def __init__(self, make: Make, log: Log, phase: list[str]) -> None:
        self.inner, self.log, self.now = make(), log, phase

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        ours = {"level": 1, "index": 0} if isinstance(self.inner.unwrapped, TextEnv) else {}
        observation, info = self.inner.reset(seed=seed, options=ours or None)
        self.episode = {"ref": TaskRef(seed or 0, ours), "actions": [], "pay": 0.0, "phase": self.now[0]}
        self.log.append(self.episode)
        return "\n".join(filter(None, [str(info.get("system") or ""), observation_text(observation)])), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = self.inner.step(action)
        self.episode["actions"].append(action)
        self.episode["pay"] += float(reward)
        over = truncated or len(self.episode["actions"]) >= TURNS
        return observation_text(observation), float(reward), terminated, over, {}


class Form(GymnasiumText):
    """Its random actions are another task's solution, three episodes in ten with words of prompts in it."""

    solutions: list[list[str]]
    words: list[str]

    def sample_action(self, state: Any, rng: random.Random) -> str:
        own = random.Random(state.seed)
        solution = own.choice(self.solutions)
        text = solution[min(len(state.actions), len(solution) - 1)]
        noisy = own.random() < 0.3 and rng.random() < HALF
        return (mutated(text, self.words, rng) or text) if noisy else text


def measure(name: str, make: Make, with_policy: bool) -> dict[str, Any]:
    """One environment, as a line of the records."""
    began = time.process_time()
    (searched,) = validate(make, checks=["statistical.gameability_gap"], name=name).results
    record: dict[str, Any] = {"name": name, "search": [finding.text for finding in searched.findings]}
    record["search_cpu"] = round(time.process_time() - began, 2)
    v = Validation(Subject(make, name), TASKS, 0, solutions_by_source)
    if not with_policy or not any(episode.actions for episode in v.experts):
        return record
    began = time.process_time()
    log = trained(v, make)
    sampled = [episode for episode in log if episode["phase"] == "imitation"]
    played = [episode for episode in log if episode["phase"] != "imitation"]
    record |= {"policy": judged(v, played), "policy_cpu": round(time.process_time() - began, 1)}
    return {**record, "imitated": judged(v, sampled[: len(played)]), "episodes": len(played)}


def trained(v: Validation, make: Make) -> Log:
    """The episodes of a run: those of imitation, and those of the policy."""
    log: Log = []
    phase = ["imitation"]
    experts = [episode for episode in v.experts if episode.actions]
    task = Form(env=lambda: Logged(make, log, phase), reward="return", system=None, success=v.range.high)
    task.solutions = [episode.actions for episode in experts]
    task.words = re.findall(r"\S+", " ".join(episode.asked for episode in experts[:8]))
    texts = [each for episode in experts for each in (episode.asked, *episode.observations[1:], *episode.actions)]
    words = [word for word, _ in Counter(re.findall(r"[A-Za-z]{2,}", " ".join(texts))).most_common(250)]
    sizes = [len(re.findall(r"[A-Za-z]+|.", text, re.S)) for episode in experts for text in episode.actions]

    class Phases(Silent):
        def phase(self, name: str, steps: int) -> None:
            phase[0] = "step 1" if name == "reinforcement learning" else "imitation"

        def step(self, record: dict[str, Any]) -> None:
            if record["phase"] == "train":
                phase[0] = f"step {record['step'] + 1}"

    gym.registry.pop(ID, None)
    gym.register(ID, ENTRY_POINT, kwargs={"task": task}, disable_env_checker=True, order_enforce=False)
    with tempfile.TemporaryDirectory() as folder:
        sampling = {"max_new_tokens": min(64, 12 + max(sizes)), "max_length": 640}
        model = {"name": "rlvr/tiny", "words": words}
        Trainer(load_config({**CONFIG, "model": model, "sampling": sampling, "out": f"{folder}/run"}), Phases()).run()
    return [episode for episode in log if episode["actions"]]


def judged(v: Validation, episodes: Log) -> dict[str, Any] | None:
    """The first of the episodes, the best paid first, that the expert's criteria speak against."""
    floor, best = max(0.0, v.range.low), max([v.range.high, *(episode.total for episode in v.experts)])
    paid = [episode for episode in episodes if episode["pay"] > floor + PAID * v.width]
    distinct = {tuple(episode["actions"]): episode for episode in reversed(paid)}
    for episode in sorted(distinct.values(), key=lambda each: -each["pay"])[:CANDIDATES]:
        actions = episode["actions"]
        played = v.plays(episode["ref"], actions)
        others = [each for each in v.experts if each.actions and each.actions != actions][:OTHERS]
        again = [v.plays(each.ref, actions) for each in others]
        same = len(again) >= 4 and sum(map(v.paid, again)) >= HALF * len(again)
        gain = sum(each.total for each in again if each.valid) / max(1, len(again)) - v.wrong_pay
        if (same and gain > MORE * v.width) or played.total > best + PAID * v.width:
            found = {"pay": played.total, "phase": episode["phase"], "at": episodes.index(episode)}
            return {**found, "actions": [action[:80] for action in actions]}
    return None


def targets() -> dict[str, Make]:
    """What is measured, by name."""
    chosen = [pair for pair in PAIRS if pair.kind.number in KINDS]
    made: dict[str, Make] = {}
    for mended in (False, True):
        for pair in chosen:
            name = ("Mended" if mended else "") + pair.name
            made[name] = lambda pair=pair, mended=mended: make_env(pair.load(mended))  # type: ignore[misc]
    for hole in HOLES:
        made[f"hole {hole}"] = lambda hole=hole: gym.make("rlvr/Loophole-v0", hole=hole, level=2, varied=0.3)  # type: ignore[misc]
    return made


def main() -> None:
    """Measure what the records do not hold yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="environments, such as Conversions or 'hole none'")
    parser.add_argument("--without-policy", action="store_true", help="the search alone, which takes seconds")
    parser.add_argument("--out", type=Path, default=RECORDS, help="the records")
    arguments = parser.parse_args()
    lines = arguments.out.read_text(encoding="utf-8").splitlines() if arguments.out.exists() else []
    done = {json.loads(line)["name"] for line in lines}
    for name, make in targets().items():
        if name in done or (arguments.only and name not in arguments.only):
            continue
        record = measure(name, make, not arguments.without_policy)
        print(json.dumps(record), flush=True)
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
