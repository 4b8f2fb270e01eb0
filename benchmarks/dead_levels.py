"""Dead levels: where imitation leaves no signal, and what expert prefixes with sampling by signal make of them.

    nice -n 19 python benchmarks/dead_levels.py      # what is not measured yet, then the page
    python benchmarks/dead_levels.py --minutes 20    # begins nothing after so many minutes
    python benchmarks/dead_levels.py --draw          # the section of docs/credit.md alone

A small policy imitates the expert of an id on all of its levels, and then random actions for a few steps: it has the
skill, but plays so loosely that a long episode fails. A level is dead where fewer than 5 % of its groups of eight hold
both outcomes then; where none is, all are followed as a control. Two ways of training go on from there on the dead
levels alone, until as many tokens went through the model, those of prompts and prefixes included: levels drawn evenly,
and levels drawn by signal behind expert prefixes. Success is that of held-out tasks without a prefix. What is finished
stands in the JSON, and the next call goes on.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import torch
import transformers

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.statistics import wilson
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.sampling.prefixes import ExpertPrefixes
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.state import save_policy
from rlvr.envs.curriculum.controllers import RateSampler, SignalSampler

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from whole_runs import Silent, sentences_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "dead_levels.json"
PAGE = ROOT / "docs" / "credit.md"
MARKS = ("<!-- dead levels -->", "<!-- end of dead levels -->")
SEEDS = (0, 1, 2)
GROUP, GROUPS = 8, 24  # of a level, before training
DEAD = 0.05
LEARNED = 0.5
HELD_OUT, POINTS = 32, 4  # tasks of an evaluation, evaluations of a run


class Setting(NamedTuple):
    """What is measured under one name."""

    id: str
    levels: int  # that are imitated: from 1 up to this one
    max_turns: int  # of every level
    max_length: int  # of an episode, in tokens
    imitation: int  # steps of 16 demonstrations of the expert
    noise: int  # steps of 16 episodes of random actions after them
    tokens: int  # of a run


SETTINGS = {
    "WaterJugs": Setting("rlvr/WaterJugs-v0", 5, 14, 600, 250, 22, 1_000_000),
    "PegJump": Setting("rlvr/PegJump-v0", 5, 14, 1200, 600, 5, 1_000_000),
    "RushHour": Setting("rlvr/RushHour-v0", 3, 10, 900, 500, 10, 1_000_000),
    "Nim": Setting("rlvr/Nim-v0", 5, 26, 900, 600, 10, 1_000_000),
    "LandmarkNavigation": Setting("rlvr/LandmarkNavigation-v0", 5, 60, 900, 250, 10, 1_000_000),
    "Thermostat": Setting("rlvr/Thermostat-v0", 5, 16, 900, 250, 20, 1_000_000),
    "HanoiGame": Setting("rlvr/HanoiGame-v0", 3, 36, 1200, 600, 20, 1_000_000),
}
COMMON: dict[str, Any] = {
    "algorithm": "grpo",
    "overrides": {"kl_coef": 0.0},
    "prompts": 8,
    "group_size": GROUP,
    "steps": 10_000,  # a run ends by its tokens
    "selection": {"filters": ["zero_gradient"]},  # a group without signal costs its sampling alone
    "learner": {"lr": 4e-4, "minibatches": 2, "share_prompts": True},
}
ARMS: dict[str, dict[str, Any]] = {"even": {}, "prefixes": {"prefix": {"share": 0.9, "gain": 0.1}}}
Results = dict[str, Any]
MODEL = {"name": "rlvr/tiny", "hidden": 96}
NOISE: dict[str, Any] = {"lr": 1e-3, "warmup_steps": 1}


def env_of(setting: Setting) -> Any:
    """The environment of a setting."""
    return gym.make(setting.id, max_turns=setting.max_turns).unwrapped


def config_of(name: str, out: Path, **changes: Any) -> TrainConfig:
    """The config of a run of an id."""
    setting = SETTINGS[name]
    limit = {"max_turns": setting.max_turns}
    env = {"id": setting.id, "level": setting.levels, "system": False, "timeout": None, "settings": limit}
    sampling = {"max_new_tokens": 4, "max_length": setting.max_length}
    words = sentences_of(env_of(setting), setting.levels, tasks=60, with_lines=True)
    model = {**MODEL, "words": words}
    return load_config({**COMMON, "env": env, "sampling": sampling, "model": model, "out": str(out), **changes})


def imitate(name: str, work: Path) -> Path:
    """The folder of the policy that has imitated the expert of all levels, and then random actions for a while."""
    setting, policy = SETTINGS[name], work / "policy"
    phases: dict[str, dict[str, Any]] = {
        "imitated": {"steps": setting.imitation},
        "policy": {"random_steps": setting.noise, **NOISE},
    }
    model: dict[str, Any] = {}
    for phase, steps in phases.items():
        if not (work / phase / "config.json").exists():
            warm_start = {"batch_size": 16, **steps}
            # the curriculum has no step to act in, and spreads the demonstrations over the levels
            changes = {"warm_start": warm_start, "curriculum": {"kind": "by_rate"}, **model}
            config = config_of(name, work / "imitation", **changes)
            shutil.rmtree(config.out, ignore_errors=True)  # of an interrupted call
            run = Trainer(config, Silent())
            try:
                run.prepare()
                save_policy(run, work / phase)
            finally:
                run.close()
        model = {"model": {"name": str(work / phase)}}
    return policy


def play_levels(
    run: Trainer, levels: Sequence[int], tasks: int, split: str, samples: int = 1, behind: ExpertPrefixes | None = None
) -> dict[int, list[Episode]]:
    """Episodes of the policy by level, alone or behind prefixes; those of a task stand together."""
    rollout = run.rollout_of(run.play_agent(greedy=False), split)
    order = TaskOrder(rollout.env.unwrapped, f"dead levels, {split}", 0)
    played = {}
    for level in levels:
        requests = [
            order.request(index, level=level, group=index, sample=sample, salt=f"step {run.step}")
            for index in range(tasks)
            for sample in range(samples)
        ]
        played[level] = rollout(requests if behind is None else behind.put_before(requests))
    return played


def measure_levels(name: str, work: Path) -> dict[str, dict[str, float]]:
    """What imitation leaves of each level: the share of groups that hold both outcomes, the success, and the success in
    the last turn alone, behind all of the expert's others.
    """
    model = {"name": str(imitate(name, work))}
    shutil.rmtree(work / "levels", ignore_errors=True)
    run = Trainer(config_of(name, work / "levels", model=model, prefix={"share": 1.0}), Silent())
    levels = range(1, SETTINGS[name].levels + 1)
    try:
        run.prepare()
        played = play_levels(run, levels, GROUPS, "train", GROUP)
        last_turns = play_levels(run, levels, GROUPS * 2, "train", behind=run.collector.prefixes)
    finally:
        run.close()
    measured = {}
    for level, episodes in played.items():
        groups = [episodes[start : start + GROUP] for start in range(0, len(episodes), GROUP)]
        measured[str(level)] = {
            "mixed_groups": round(statistics.fmean(len({e.success for e in group}) > 1 for group in groups), 4),
            "success": round(statistics.fmean(e.success for e in episodes), 4),
            "last_turn": round(statistics.fmean(e.success for e in last_turns[level]), 4),
        }
    return measured


def train(name: str, arm: str, seed: int, levels: Sequence[int], work: Path) -> dict[str, Any]:
    """One run on these levels up to its tokens: at `POINTS` points the successes, and the shares of prefixes."""
    policy, budget = imitate(name, work), SETTINGS[name].tokens
    cpu, out = time.process_time(), work / "run"
    shutil.rmtree(out, ignore_errors=True)  # what an interrupted call left
    run = Trainer(config_of(name, out, **ARMS[arm], model={"name": str(policy)}, seed=seed), Silent())
    tokens = 0
    curve: list[dict[str, Any]] = []
    try:
        run.prepare()
        # a config draws from all levels up to one, here from these; evenly where 1 - rate counts as 1 everywhere
        if run.collector.prefixes is None:
            run.collector.pool.curriculum = RateSampler(levels, floor=1.0, seed=seed)
        else:
            run.collector.pool.curriculum = SignalSampler(levels, group=GROUP, seed=seed)
        while tokens < budget:
            sample = run.collect()
            tokens += sum(len(episode.tokens) for episode in sample.collected.played)
            run.learn(sample)
            if tokens >= budget * (len(curve) + 1) / POINTS:
                played = play_levels(run, levels, HELD_OUT, "test")
                solved = {str(level): sum(e.success for e in played[level]) for level in levels}
                point: dict[str, Any] = {"tokens": tokens, "steps": run.step, "solved": solved}
                if run.collector.prefixes is not None:
                    shares = run.collector.prefixes.shares
                    point["shares"] = {key.rpartition(" ")[2]: round(share, 3) for key, share in shares.items()}
                curve.append(point)
    finally:
        run.close()
        shutil.rmtree(out, ignore_errors=True)
    return {"curve": curve, "cpu_seconds": round(time.process_time() - cpu, 1)}


# the record


def settings() -> dict[str, Any]:
    """What has to be equal for runs to stand in one table."""
    return {
        "model": MODEL,
        "noise": NOISE,
        "common": COMMON,
        "arms": ARMS,
        "dead": DEAD,
        "groups": GROUPS,
        "held_out": HELD_OUT,
        "points": POINTS,
    }


def load() -> Results:
    """What is measured already with these settings; of a policy whose own setting has changed, nothing."""
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if record.get("settings") != json.loads(json.dumps(settings())):
        return {}
    return {name: entry for name, entry in record["policies"].items() if tuple(entry["setting"]) == SETTINGS.get(name)}


def save(results: Results) -> None:
    """Write the record, whole or not at all."""
    record = {
        "command": "python benchmarks/dead_levels.py",
        "machine": f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}",
        "settings": settings(),
        "policies": results,
    }
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(json.dumps(record, indent=1) + "\n")
    draft.replace(RESULTS)


def dead_of(entry: dict[str, Any]) -> list[int]:
    """The levels that imitation left dead."""
    return [int(level) for level, figures in entry["levels"].items() if figures["mixed_groups"] < DEAD]


def followed(entry: dict[str, Any]) -> list[int]:
    """The levels that training is measured on: the dead ones, or as a control all of a policy that left none dead."""
    return dead_of(entry) or [int(level) for level in entry["levels"]]


def next_run(results: Results) -> tuple[str, str, int] | None:
    """The run to make next: seed by seed, so that a call that ends early has whole pairs."""
    for seed in SEEDS:
        for name, entry in results.items():
            for arm in ARMS:
                if str(seed) not in entry["runs"].setdefault(arm, {}):
                    return name, arm, seed
    return None


# the page


def rows(results: Results) -> list[str]:
    """A row for each level that is followed: what imitation left, and the success at each point of each way."""
    lines = []
    for name, entry in results.items():
        for level in followed(entry):
            before = entry["levels"][str(level)]
            cells = [name, str(level), f"{before['mixed_groups']:.2f}", f"{before['success']:.3f}"]
            cells += [f"{before['last_turn']:.2f}"]
            for arm in ARMS:
                runs = entry["runs"].get(arm, {}).values()
                solved = [[point["solved"][str(level)] for point in run["curve"]] for run in runs]
                cells += [_curve(solved), str(len(solved))]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _curve(solved: list[list[int]]) -> str:
    """The success at each point over the seeds, the last with its interval."""
    if not solved:
        return "–"
    trials = HELD_OUT * len(solved)
    points = [sum(each) / trials for each in zip(*solved, strict=True)]
    low, high = wilson(points[-1] * trials, trials)
    return " ".join(f"{point:.2f}" for point in points) + f" ({low:.2f} to {high:.2f})"


def learned(results: Results, arm: str) -> tuple[int, int]:
    """How many dead levels are solved in half of the held-out tasks, in the mean of the seeds; and of how many."""
    means = [
        statistics.fmean(run["curve"][-1]["solved"][str(level)] / HELD_OUT for run in seeds.values())
        for entry in results.values()
        if (seeds := entry["runs"].get(arm, {}))
        for level in dead_of(entry)
    ]
    return sum(mean >= LEARNED for mean in means), len(means)


def section(results: Results) -> list[str]:
    """What stands between the marks of the page."""
    levels = sum(len(entry["levels"]) for entry in results.values())
    dead = sum(len(dead_of(entry)) for entry in results.values())
    counts = {arm: "{} of {}".format(*learned(results, arm)) for arm in ARMS}
    return [
        f"Of {levels} levels of {len(results)} settings {dead} are dead after imitation. At the end half of the tasks",
        f"or more are solved on {counts['even']} dead ones by even sampling, on {counts['prefixes']} by prefixes.",
        "",
        "| setting | level | groups with both outcomes | success | of the last turn alone "
        "| even: success as tokens go through | seeds | prefixes: the same | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows(results),
    ]


def draw(results: Results) -> None:
    """Put the table between the marks of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text("\n".join([before + MARKS[0], *section(results), MARKS[1] + after]), encoding="utf-8")


def main() -> int:
    """Measure what is missing, each result written at once; then the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="write the page from what is measured")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many minutes")
    parser.add_argument("--work", type=Path, help="folder that keeps the policies after imitation, for another call")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    results, until = load(), time.monotonic() + (0 if options.draw else options.minutes * 60)
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        for name in SETTINGS:
            if name not in results and time.monotonic() < until:
                results[name] = {"setting": SETTINGS[name], "levels": measure_levels(name, work / name), "runs": {}}
                print(name, results[name]["levels"], flush=True)
                save(results)
        while time.monotonic() < until and (job := next_run(results)):
            name, arm, seed = job
            run = train(name, arm, seed, followed(results[name]), work / name)
            results[name]["runs"][arm][str(seed)] = run
            print(name, arm, seed, run, flush=True)
            save(results)
    draw(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
