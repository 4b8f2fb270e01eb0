"""What a tiny policy learns of some worlds: held-out success over imitation, then over rewards, three seeds.

    nice -n 19 python benchmarks/learned_worlds.py            # what is not measured yet, then the table
    python benchmarks/learned_worlds.py --worlds SetCover --seeds 0
    python benchmarks/learned_worlds.py --table               # the table alone

Each policy has words of its own: the phrases that return in the expert's transcripts of training tasks are a token
each, so that an episode is short. It imitates the expert on the training split, then is rewarded there, unless
``rewards`` is 0. Success is that of tasks of the test split, with intervals of 95 %, played greedily along the way,
greedily and sampled where a phase ends. What is finished stands in the JSON; a run that was cut short begins again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import torch
import transformers

import rlvr  # noqa: F401  registers the ids
from rlvr.agents.conversation import Message, TokenSequence
from rlvr.agents.evaluation import summarise
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.learner.optimiser import schedule
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.state import save_policy
from rlvr.envs.core.text_env import TextEnv

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from whole_runs import Silent

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "learned_worlds.json"
CONSTANTS = ROOT / "benchmarks" / "results" / "constants.json"  # of `benchmarks/constants.py`
PAGE = ROOT / "docs" / "real_models.md"
MARKS = ("<!-- learned worlds -->", "<!-- end of learned worlds -->")
SEEDS = (0, 1, 2)
HELD_OUT = 192  # tasks of an evaluation
POINTS = 3  # evaluations of a phase, the last at its end
LR = 3e-3  # of imitation
UNIT = re.compile(r" ?[A-Za-z]+|\n+ *| ?[^\w\s]|(?s:.)")
Row = dict[str, Any]


class World(NamedTuple):
    """What is measured under one name, at level 1, of an id whose expert replies once."""

    id: str
    held_out: str
    imitation: int  # steps
    max_length: int
    max_new_tokens: int
    batch: int = 16  # demonstrations of a step
    rewards: int = 32  # steps
    prompts: int = 8  # of a step, in groups of 8
    lr: float = 6e-4
    mined: int = 800  # transcripts that words are taken from
    direct: bool = False  # imitate the answer alone, without the working before it


WORLDS = {
    "SetCover": World("rlvr/SetCover-v0", "tasks", 900, 160, 12, batch=32, rewards=40, prompts=24, direct=True),
    "CodeTests": World("rlvr/CodeTests-v0", "sequences of operations", 2000, 640, 112, rewards=0, mined=1600),
    "CodeRepair": World("rlvr/CodeRepair-v0", "sequences of operations", 1800, 720, 112, rewards=0, mined=1600),
}


def environment(world: World) -> TextEnv:
    env: TextEnv = gym.make(world.id, level=1, split="train").unwrapped
    return env


def demonstration(world: World, env: TextEnv, index: int) -> tuple[str, str]:
    """A training task and the expert's reply, which is not graded: for CodeRepair that takes a sandbox."""
    text, _ = env.reset(seed=0, options={"index": index, "level": 1, "split": "train"})
    reply = env.direct_answer() if world.direct else env.solve()
    if reply is None:
        raise ValueError(f"{world.id} has no answer without working: set direct to False")
    return text, reply


def words_of(texts: Iterable[str], met: int = 8) -> tuple[str, ...]:
    """For `model.words`: words that occur `met` times, and phrases, whose parts go together.

    Two neighbours become one where the second follows a quarter of the first, and the first stands before a tenth of
    the second, until there are no such neighbours. So a name hardly becomes part of a phrase. A digit never does, and
    no phrase goes on behind a line or a sentence: held-out kinds have other orders of these.
    """
    units: list[str | None] = [unit for text in texts for unit in [*UNIT.findall(text), None]]
    alone = Counter(units)
    while True:
        counts, pairs = Counter(units), Counter(itertools.pairwise(units))
        together = {
            (first, second)
            for (first, second), count in pairs.items()
            if first is not None and second is not None and count >= max(4, counts[first] / 4, counts[second] / 10)
            if first[-1] != "." and "\n" not in first + second
            if not any(letter.isdigit() for letter in first + second)
        }
        if not together:
            break
        merged: list[str | None] = []
        for unit in units:
            if merged and (merged[-1], unit) in together:
                merged[-1] = f"{merged[-1]}{unit}"
            else:
                merged.append(unit)
        units = merged
    common = [
        unit for counts in (Counter(units), alone) for unit, count in counts.most_common() if count >= met and unit
    ]
    words = (unit[1:] if unit[0] == " " and unit[1:].isalpha() else unit for unit in common if unit.isascii())
    # a word of letters is one token with a space before it, too
    return tuple(word for word in dict.fromkeys(words) if len(word) > 1)


def settings_of(world: World) -> Row:
    """The config of a run, without its seed."""
    env = environment(world)
    texts = [text for index in range(world.mined) for text in demonstration(world, env, index)]
    return {
        "env": {"id": world.id, "system": False},
        "sampling": {"max_new_tokens": world.max_new_tokens, "max_length": world.max_length},
        "warm_start": {"steps": world.imitation, "batch_size": world.batch, "lr": LR},
        "algorithm": "dr_grpo",
        "selection": {"filters": ["zero_gradient"]},
        "learner": {"lr": world.lr, "schedule": "linear"},
        "steps": world.rewards,
        "prompts": world.prompts,
        "group_size": 8,
        "evaluation": {"episodes": HELD_OUT},
        "model": {"name": "rlvr/tiny", "words": list(words_of(texts))},
    }


def play(run: Trainer, split: str, *, greedy: bool) -> list[float]:
    """The success on tasks of a split, the same at each call, and the ends of its interval."""
    run.learner.sync()
    rollout = run.rollout_of(run.play_agent(greedy=greedy), split)
    order = TaskOrder(rollout.env.unwrapped, "evaluation", 0)
    requests = [order.request(index, group=index, salt="evaluation") for index in range(HELD_OUT)]
    result = summarise(rollout(requests))
    return [round(value, 4) for value in (result.success, result.low, result.high)]


def both_ways(run: Trainer) -> Row:
    """Held-out success where a phase ends, and that on tasks of the train split."""
    figures = {"greedy": play(run, "test", greedy=True), "sampled": play(run, "test", greedy=False)}
    return figures | {"train": play(run, "train", greedy=True)}


def is_point(step: int, steps: int) -> bool:
    """Whether a phase of so many steps is measured after this one, which is not its last."""
    return step < steps and step * POINTS // steps > (step - 1) * POINTS // steps


def sequence(run: Trainer, text: str, reply: str) -> TokenSequence:
    """A demonstration in the policy's tokens."""
    messages: list[Message] = [{"role": "user", "content": text}, {"role": "assistant", "content": reply}]
    ids, mask = run.renderer.render_demonstration(messages)
    return TokenSequence(ids, mask, [0.0] * len(ids))


def imitate(config: TrainConfig, row: Row) -> Path:
    """The policy's folder after imitation; its curve goes into the row."""
    run = Trainer(config.model_copy(update={"warm_start": config.warm_start.model_copy(update={"steps": 0})}), Silent())
    try:
        run.prepare()
        row["parameters"] = sum(parameter.numel() for parameter in run.model.parameters())
        row["untrained"] = {"greedy": play(run, "test", greedy=True), "sampled": play(run, "test", greedy=False)}
        row["imitation"] = [[0, *row["untrained"]["greedy"]]]
        start = config.warm_start
        world = WORLDS[row["world"]]
        env = environment(world)
        optimiser = run.learner.new_optimiser(
            schedule(LR, start.warmup_steps, start.steps, decay=True), betas=(0.9, 0.98)
        )
        for step in range(start.steps):
            first = (config.seed * start.steps + step) * start.batch_size  # no seed has the tasks of another
            sequences = [sequence(run, *demonstration(world, env, first + index)) for index in range(start.batch_size)]
            run.learner.imitate(sequences, optimiser)
            if is_point(step + 1, start.steps):
                row["imitation"].append([step + 1, *play(run, "test", greedy=True)])
                print(f"{row['world']}, seed {config.seed}, {step + 1} steps: {row['imitation'][-1][1]}", flush=True)
        row["imitated"] = both_ways(run)
        row["imitation"].append([start.steps, *row["imitated"]["greedy"]])
        print(f"{row['world']}, seed {config.seed}, imitated: {row['imitated']}", flush=True)
        save_policy(run, config.out.parent / "imitated")
    finally:
        run.close()
    return config.out.parent / "imitated"


def reward(config: TrainConfig, row: Row) -> None:
    """Reinforcement learning; its curve goes into the row."""
    run = Trainer(config, Silent())
    row["rewards"] = []
    row["reinforcement"] = [[0, *row["imitated"]["sampled"]]]
    try:
        run.prepare()
        while run.step < config.steps:
            sample = run.collect()
            episodes = sample.collected.played
            row["rewards"].append(round(sum(episode.reward for episode in episodes) / len(episodes), 4))
            run.learn(sample)
            if is_point(run.step, config.steps):
                row["reinforcement"].append([run.step, *play(run, "test", greedy=False)])
        row["rewarded"] = both_ways(run)
        row["reinforcement"].append([run.step, *row["rewarded"]["sampled"]])
    finally:
        run.close()


def measure(name: str, seed: int) -> Row:
    """Both phases of one seed."""
    world = WORLDS[name]
    row: Row = {"world": name, "seed": seed, "setting": list(world)}
    begun = time.process_time()
    settings = settings_of(world)
    row["words"] = len(settings["model"]["words"])
    with tempfile.TemporaryDirectory() as work:
        policy = imitate(load_config({**settings, "seed": seed, "out": f"{work}/imitation"}), row)
        later = {**settings, "seed": seed, "out": f"{work}/rewards", "model": {"name": str(policy)}, "warm_start": {}}
        if world.rewards:
            reward(load_config(later), row)
    return row | {"cpu_seconds": round(time.process_time() - begun)}


# the record


def load() -> list[Row]:
    """The rows that are measured already; of a world whose setting has changed, none."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    return [row for row in rows if row["setting"] == json.loads(json.dumps(WORLDS.get(row["world"])))]


def save(rows: list[Row]) -> None:
    """Write the record, whole or not at all."""
    machine = f"{platform.machine()}, one thread, beside other work, Python {platform.python_version()}"
    record = {
        "command": "python benchmarks/learned_worlds.py",
        "machine": f"{machine}, torch {torch.__version__}, transformers {transformers.__version__}",
        "held_out_tasks": HELD_OUT,
        "rows": sorted(rows, key=lambda row: (list(WORLDS).index(row["world"]), row["seed"])),
    }
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(RESULTS)


def share(figures: Sequence[float]) -> str:
    """A success and its interval."""
    return f"{figures[0]:.2f} ({figures[1]:.2f} to {figures[2]:.2f})".replace("0.", ".")


def table(rows: Sequence[Row]) -> str:
    """A line for each seed of each world; random play and the best fixed answer stand in its first."""
    lines = [
        "| world, and what is held out | random | one answer | demonstrations | seed | untrained | imitated, greedy "
        "| sampled | after rewards, greedy | sampled | train split, greedy | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    unlearned = json.loads(CONSTANTS.read_text(encoding="utf-8"))["rows"]
    for name, world in WORLDS.items():
        first = unlearned[world.id][0]  # of level 1
        without = [f"{first[way]:.2f}".replace("0.", ".") for way in ("random", "constant")]
        own = [row for row in rows if row["world"] == name]
        for number, row in enumerate(own):
            last = row.get("rewarded", {})
            figures = [row["untrained"]["greedy"], row["imitated"]["greedy"], row["imitated"]["sampled"]]
            cells = [share(each) for each in figures]
            cells += [share(last[way]) if last else "not tried" for way in ("greedy", "sampled")]
            cells += [f"{(last or row['imitated'])['train'][0]:.2f}".replace("0.", "."), f"{row['cpu_seconds']:,}"]
            labels = [f"{name}: {world.held_out}", *without, f"{world.imitation * world.batch:,}"]
            labels = [""] * len(labels) if number else labels
            lines.append(f"| {' | '.join([*labels, str(row['seed']), *cells])} |")
    return "\n".join(lines)


def publish(rows: list[Row]) -> None:
    """The table of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    text = f"{before}{MARKS[0]}\n{table(rows)}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"
    PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--table", action="store_true", help="the table of what is measured")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in () if options.table else options.seeds:
        for name in options.worlds:
            if any((row["world"], row["seed"]) == (name, seed) for row in load()):
                continue
            row = measure(name, seed)
            save([*load(), row])  # another process may have written meanwhile
            print(json.dumps(row), flush=True)
    if rows := load():
        save(rows)
        publish(json.loads(RESULTS.read_text(encoding="utf-8"))["rows"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
