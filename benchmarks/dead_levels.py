"""Dead levels: where imitation leaves no signal, and what expert prefixes with sampling by signal make of them.

    nice -n 19 python benchmarks/dead_levels.py      # what is not measured yet, then the page
    python benchmarks/dead_levels.py --minutes 20    # begins nothing after so many minutes
    python benchmarks/dead_levels.py --draw          # the section of docs/credit.md alone

A small policy imitates the expert of an id on all of its levels. A level is dead where fewer than 5 % of its groups of
eight hold both outcomes then; a policy that leaves no level dead is a control. Two ways of training go on from there
until as many tokens went through the model, those of prompts and prefixes included: levels drawn evenly, and levels
drawn by signal behind expert prefixes. Success is that of held-out tasks without a prefix. Trials train on one dead
level alone, by other learning rates and with KL. What is finished stands in the JSON, and the next call goes on.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
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
PROMISING = 0.1  # by which the last turn alone of a dead level is above chance: without one a policy is not trained on
HELD_OUT, POINTS = 48, 4  # tasks of an evaluation, evaluations of a run


TRIAL_STEPS, TRIAL_PROMPTS = 60, 8  # on one level alone


class Setting(NamedTuple):
    """What is measured under one name: an id, and what is set for it so that a run is affordable."""

    id: str
    levels: int
    imitation: int  # steps of 16 demonstrations
    max_length: int  # tokens of a sequence
    max_new_tokens: int
    tokens: int  # of a run
    sentences: bool = False  # what the policy reads and writes is one token a sentence
    prompts: int = 16  # of a step
    lr: float = 3e-4
    gain: float = 0.05  # of the share of prefixes, by each group


SETTINGS = {
    "GuessNumber, 400 steps": Setting("rlvr/GuessNumber-v0", 4, 400, 420, 28, 300_000),
    "GuessNumber, 650 steps": Setting("rlvr/GuessNumber-v0", 4, 650, 420, 28, 300_000),
    "GuessNumber, 900 steps": Setting("rlvr/GuessNumber-v0", 4, 900, 420, 28, 300_000),
    "Calculator, 600 steps": Setting("rlvr/Calculator-v0", 5, 600, 160, 52, 150_000),
    # games of small moves, by sentences: steps of 32 episodes
    **{
        f"{name}, {steps} steps": Setting(f"rlvr/{name}-v0", levels, steps, length, 8, tokens, True, 4, 1e-3, 0.1)
        for name, levels, steps, length, tokens in (
            ("Thermostat", 5, 150, 1_000, 960_000),
            ("WaterJugs", 5, 40, 700, 240_000),
            ("LandmarkNavigation", 3, 150, 1_000, 320_000),
            ("Nim", 4, 40, 900, 160_000),
            ("RushHour", 4, 40, 900, 160_000),
            ("RiverCrossing", 5, 150, 600, 160_000),
            ("HanoiGame", 3, 150, 900, 160_000),
        )
    },
}
COMMON: dict[str, Any] = {
    "model": {"name": "rlvr/tiny", "hidden": 96},
    "algorithm": "grpo",
    "overrides": {"kl_coef": 0.0},
    "group_size": GROUP,
    "steps": 10_000,  # a run ends by its tokens
}
ARMS: dict[str, dict[str, Any]] = {
    "even": {"curriculum": {"kind": "by_rate", "floor": 1.0}},  # 1 - rate counts as 1 everywhere
    "prefixes": {"curriculum": {"kind": "by_signal"}, "prefix": {"share": 0.9}},
}
# the level of each policy that has trials: one nearly dead with a last turn above chance, one dead near chance
TRIED = {"GuessNumber, 650 steps": 3, "Thermostat, 150 steps": 2}
TRIALS: dict[str, dict[str, Any]] = {  # changes of the run with prefixes
    "lr 3e-4": {"lr": 3e-4},
    "lr 1e-3": {"lr": 1e-3},
    "lr 3e-4, KL .05": {"lr": 3e-4, "kl_coef": 0.05},
    "lr 1e-4": {"lr": 1e-4},
    "lr 3e-4, 180 steps": {"lr": 3e-4, "steps": 180},
}
Results = dict[str, Any]


def config_of(name: str, out: Path, **changes: Any) -> TrainConfig:
    """The config of a run of an id, on all of its levels."""
    setting = SETTINGS[name]
    env = {"id": setting.id, "level": setting.levels, "system": False, "timeout": None}
    sampling = {"max_new_tokens": setting.max_new_tokens, "max_length": setting.max_length}
    learner = {"lr": setting.lr, "share_prompts": True}
    model = {**COMMON["model"]}
    if setting.sentences:
        model["words"] = sentences_of(gym.make(setting.id).unwrapped, setting.levels)
    own = {"env": env, "model": model, "sampling": sampling, "learner": learner, "prompts": setting.prompts}
    config = {**COMMON, **own, "out": str(out), **changes}
    if "prefix" in changes:
        config["prefix"] = {"gain": setting.gain, **changes["prefix"]}
    return load_config(config)


def imitate(name: str, work: Path) -> Path:
    """The folder of the policy that has imitated the expert of all levels."""
    policy = work / "imitated"
    if not (policy / "config.json").exists():
        warm_start = {"steps": SETTINGS[name].imitation, "batch_size": 16}
        # the curriculum has no step to act in, and spreads the demonstrations over the levels
        config = config_of(name, work / "imitation", warm_start=warm_start, curriculum={"kind": "by_rate"})
        shutil.rmtree(config.out, ignore_errors=True)  # of an interrupted call
        run = Trainer(config, Silent())
        try:
            run.prepare()
            save_policy(run, policy)
        finally:
            run.close()
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
    the last turn alone, behind all of the expert's others, of the policy and of chance.
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
            "chance": chance(SETTINGS[name], level),
        }
    return measured


def chance(setting: Setting, level: int) -> float:
    """The success behind all of the expert's turns but the last of one who draws from what the expert says there.

    The actions are drawn by how often the expert says each on the level, until the episode is over.
    """
    env, shown = gym.make(setting.id).unwrapped, list[list[str]]()

    def begin(index: int) -> None:
        env.reset(seed=0, options={"index": index, "level": level, "split": "train"})

    for index in range(GROUPS):
        begin(index)
        shown.append([])
        over = False
        while not over:
            shown[-1].append(env.solve())
            _, _, terminated, truncated, _ = env.step(shown[-1][-1])
            over = terminated or truncated
    said = [action for actions in shown for action in actions]
    rng, solved = random.Random(level), 0
    for index, actions in enumerate(shown * 4):  # the tasks again: their ends are drawn anew
        begin(index % GROUPS)
        for action in actions[:-1]:
            env.step(action)
        over, info = False, dict[str, Any]()
        while not over:
            _, _, terminated, truncated, info = env.step(rng.choice(said))
            over = terminated or truncated
        solved += bool(info["verdict"].success)
    return round(solved / GROUPS / 4, 4)


def train(name: str, arm: str, seed: int, levels: Sequence[int], work: Path) -> dict[str, Any]:
    """One run up to its tokens: at `POINTS` points the successes on these levels, and the shares of prefixes."""
    policy, budget = imitate(name, work), SETTINGS[name].tokens
    cpu, out = time.process_time(), work / "run"
    shutil.rmtree(out, ignore_errors=True)  # what an interrupted call left
    run = Trainer(config_of(name, out, **ARMS[arm], model={"name": str(policy)}, seed=seed), Silent())
    tokens = 0
    curve: list[dict[str, Any]] = []
    try:
        run.prepare()
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


def measure_trial(name: str, label: str, work: Path) -> dict[str, Any]:
    """A run with prefixes on one dead level alone: what the groups of its second half say, and what is learned."""
    level, trial = TRIED[name], TRIALS[label]
    policy, cpu, out = imitate(name, work), time.process_time(), work / "run"
    shutil.rmtree(out, ignore_errors=True)  # what an interrupted call left
    changes: dict[str, Any] = {
        "env": {"id": SETTINGS[name].id, "level": level, "system": False, "timeout": None},
        "learner": {"lr": trial["lr"], "share_prompts": True},
        "overrides": {"kl_coef": trial.get("kl_coef", 0.0)},
        "prompts": min(SETTINGS[name].prompts, TRIAL_PROMPTS),
        "prefix": ARMS["prefixes"]["prefix"],
    }
    run = Trainer(config_of(name, out, **changes, model={"name": str(policy)}), Silent())
    groups, shares = list[list[Episode]](), list[float]()
    try:
        run.prepare()
        prefixes = run.collector.prefixes
        while run.step < trial.get("steps", TRIAL_STEPS):
            sample = run.collect()
            run.learn(sample)
            played = sample.collected.played
            shares += prefixes.shares.values()
            groups += [played[start : start + GROUP] for start in range(0, len(played), GROUP)]
        alone = play_levels(run, [level], HELD_OUT, "test")[level]
        prefixes.shares = dict.fromkeys(prefixes.shares, 1.0)
        last_turns = play_levels(run, [level], GROUPS * 2, "train", behind=prefixes)[level]
    finally:
        run.close()
        shutil.rmtree(out, ignore_errors=True)
    late = groups[len(groups) // 2 :]
    means = {
        "share": statistics.fmean(shares[len(shares) // 2 :]),
        "success_behind": statistics.fmean(e.success for group in late for e in group),
        "mixed_groups": statistics.fmean(len({e.success for e in group}) > 1 for group in late),
        "turns": statistics.fmean(len(e.turns) - e.prefix for group in late for e in group),
        "last_turn": statistics.fmean(e.success for e in last_turns),
        "success": statistics.fmean(e.success for e in alone),
    }
    return {key: round(mean, 4) for key, mean in means.items()} | {"cpu_seconds": round(time.process_time() - cpu, 1)}


# the record


def settings() -> dict[str, Any]:
    """What has to be equal for runs to stand in one table."""
    return {"common": COMMON, "arms": ARMS, "dead": DEAD, "groups": GROUPS, "held_out": HELD_OUT, "points": POINTS}


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
            before = [entry["levels"][str(level)] for level in followed(entry)]
            above = max(figures["last_turn"] - figures["chance"] for figures in before)
            for arm in ARMS if above >= PROMISING else ():
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
            cells += [f"{before['last_turn']:.2f}", f"{before['chance']:.2f}"]
            for arm in ARMS:
                runs = entry["runs"].get(arm, {}).values()
                solved = [[point["solved"][str(level)] for point in run["curve"]] for run in runs]
                cells += [_curve(solved), str(len(solved))]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def trial_rows(results: Results) -> list[str]:
    """A row for each trial."""
    return [
        f"| {name}, level {TRIED[name]}, {label} | {trial['share']:.2f} | {trial['success_behind']:.2f} "
        f"| {trial['mixed_groups']:.2f} | {trial['turns']:.1f} | {trial['last_turn']:.2f} | {trial['success']:.2f} |"
        for name in TRIED
        for label, trial in results.get(name, {}).get("trials", {}).items()
    ]


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
    skilled = sum(
        figures["last_turn"] - figures["chance"] >= PROMISING
        for entry in results.values()
        for figures in (entry["levels"][str(level)] for level in dead_of(entry))
    )
    return [
        f"Of {levels} levels of {len(results)} policies {dead} are dead after imitation. At the end half of the tasks",
        f"or more are solved on {counts['even']} dead ones by even sampling, on {counts['prefixes']} by prefixes.",
        f"In the last turn alone the policy is above chance by {PROMISING:g} or more on {skilled} of the {dead}.",
        "",
        "| id, imitation | level | groups with both outcomes | success | of the last turn alone | of chance there "
        "| even: success as tokens go through | seeds | prefixes: the same | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows(results),
        "",
        "| prefixes, one level alone | share | success behind it | groups with both | turns of the policy "
        "| then the last turn alone | success without a prefix |",
        "|---|---|---|---|---|---|---|",
        *trial_rows(results),
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
        for name, label in ((name, label) for label in TRIALS for name in TRIED if name in results):
            trials = results[name].setdefault("trials", {})
            if label not in trials and time.monotonic() < until:
                trials[label] = measure_trial(name, label, work / name)
                print(name, label, trials[label], flush=True)
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
