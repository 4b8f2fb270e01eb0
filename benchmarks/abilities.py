"""What a real model can do in each id: success zero-shot, two-shot, and after imitation of the expert by LoRA.

    make smollm2                                               # a model, once
    python benchmarks/abilities.py                             # what is missing of every id at level 1
    python benchmarks/abilities.py --ids Lines Median --levels 1 2 3 --stages zero-shot imitation
    python benchmarks/abilities.py --model FOLDER --minutes 30 # another model; no row is begun after 30 minutes
    python benchmarks/abilities.py --device cuda --workers 6   # so many processes, each with the model, share a GPU

A row is one stage of one level. It is appended to ``abilities.jsonl`` when it is measured, and the section of
``cards.md`` is written anew: a run may be killed at any time and begun again, and two may share a file. Cheap ids come
first, the families in turn. The first stage, *expert*, plays 16 training tasks: a reply may then take half as many
tokens again as the longest of the expert's, and at least 24. Ids of which the samples of a task would take more than
``--most-tokens`` are left out, and so are those that show images.

Held-out tasks are played at temperature 1, 8 samples of each. Two-shot puts two of the expert's episodes before the
task, as turns. Imitation takes ``--steps`` steps on demonstrations of other tasks, at the rate that the rule of
`rlvr.algorithms.config.rates` gives to adapters, each id from the model as it is.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import gymnasium as gym

import rlvr
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import summarise
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.config.rates import rates_for
from rlvr.algorithms.config.sections import WarmStartSection
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.envs.bridges.suite_games import PREFIXES

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("zero-shot", "two-shot", "imitation")
SHOTS = {"two-shot": {"few_shot": 2}}
GROUP = 8  # samples of a task
RANK = 8  # of the adapters
DEMONSTRATIONS = 16  # that the expert's lengths are taken from
LEAST_REPLY, REPLY_SHARE = 24, 1.5  # tokens that a reply may take, and of the expert's longest
SEQUENCES = {"cpu": 32}  # sampled at once; 64 on a GPU
SEED = 0
HEADING = "\n## What a real model can do\n"
INTRODUCTION = f"""{HEADING}
`python benchmarks/abilities.py`: held-out tasks at temperature 1, {GROUP} samples of each. *zero-shot*: the model as it
is; *two-shot*: behind two of the expert's episodes, as turns; *imitation*: after steps on the expert's demonstrations,
by LoRA, each id from the model as it is; *shown* is how many demonstrations. Success has its 95 % interval, in which
the samples of one task are one cluster: with few tasks it is wide. *limit*: tokens that a reply may take, half as many
again as the longest of {DEMONSTRATIONS} of the expert's, and at least {LEAST_REPLY}. The last columns are percent, of
the three stages in turn: groups of {GROUP} whose rewards *differ*, replies that were not read (*unread*) or were *cut*
at the limit, and *invalid* episodes.
"""
Row = dict[str, Any]
OPTIONS: argparse.Namespace  # of a worker
POLICY: Policy


class Policy:
    """The model that is measured, with its tokenizer."""

    def __init__(self, options: argparse.Namespace) -> None:
        from rlvr.agents.models.tiny import load_policy

        self.name, self.compiled = options.model, options.compile
        self.model, self.tokenizer = load_policy(
            options.model,
            dtype=options.dtype,
            device=options.device,
            attention=options.attention,
            chat_template=options.chat_template,
        )
        self.renderer = self.agent(self.model, 1).renderer

    def agent(self, model: Any, max_new_tokens: int) -> Any:
        from rlvr.agents.models.transformers import TransformersAgent

        limits = {"max_new_tokens": max_new_tokens, "max_sequences": SEQUENCES.get(self.model.device.type, 64)}
        return TransformersAgent(model, self.tokenizer, seed=SEED, **limits)

    def imitating(self, env_id: str, level: int, steps: int, batch_size: int) -> tuple[Any, Row]:
        """A copy of the model after so many steps on the expert's demonstrations, and the settings."""
        import torch

        from rlvr.algorithms.learner.learner import Learner
        from rlvr.algorithms.recipe.presets import PRESETS
        from rlvr.algorithms.train.backends import add_adapters
        from rlvr.algorithms.train.warm_start import warm_start

        if self.compiled:
            torch.compiler.reset()  # what was compiled for the last id holds its weights
        torch.manual_seed(SEED)  # of the adapters
        rate = rates_for(self.name, RANK).warm_start
        model = add_adapters(copy.deepcopy(self.model), RANK)
        pad_id, length = self.tokenizer.pad_token_id or 0, model.config.max_position_embeddings
        learner = Learner(model, PRESETS["dr_grpo"], pad_id=pad_id, max_length=length, compiled=self.compiled)
        settings = WarmStartSection(steps=steps, batch_size=batch_size, lr=rate, warmup_steps=steps // 5)

        def play(player: Any) -> Rollout:
            return Rollout(env_id, player, env_settings={"split": "train", "level": level})

        order = TaskOrder(play(ExpertAgent()).env.unwrapped, "warm start", SEED)
        requests = (order.request(i, level=level, group=i, salt="warm start") for i in itertools.count())
        losses: list[float] = []
        warm_start(learner, self.renderer, play, requests, settings, lambda *step: losses.append(step[2]["loss"]))
        facts = {"steps": steps, "batch_size": batch_size, "lr": rate, "rank": RANK, "loss": round(losses[-1], 4)}
        return model.merge_and_unload(), facts


def expert_row(policy: Policy, env_id: str, level: int) -> Row:
    """What the expert's episodes take in tokens of this model; ``why_not`` where the model cannot play."""
    task = gym.make(env_id).unwrapped.task
    row: Row = {"id": env_id, "family": family_of(env_id), "level": level, "stage": "expert", "splits": [*task.splits]}
    if task.image_shape is not None:
        return row | {"why_not": "it shows images"}
    rollout = Rollout(env_id, ExpertAgent(), env_settings={"split": task.splits[0], "level": level})
    order = TaskOrder(rollout.env.unwrapped, "warm start", SEED)
    count = min(DEMONSTRATIONS, order.size or DEMONSTRATIONS)
    try:
        episodes = rollout([order.request(i, level=level, group=i, salt="warm start") for i in range(count)])
    except NotImplementedError:
        return row | {"why_not": "it has no expert"}
    episodes = [episode for episode in episodes if episode.valid]
    lengths = [len(policy.renderer.render_demonstration(e.messages(), e.tools)[0]) for e in episodes]
    replies = [len(policy.renderer.encode_reply(turn.action)) + 1 for e in episodes for turn in e.turns]
    turns = statistics.fmean(len(episode.turns) for episode in episodes)
    return row | {
        "success": round(summarise(episodes).success, 4),
        "turns": round(turns, 2),
        "reply_tokens": max(replies),
        "max_new_tokens": max(LEAST_REPLY, round(REPLY_SHARE * max(replies))),
        "tokens": round(statistics.fmean(lengths) / turns * task.turns(level)),
    }


def family_of(env_id: str) -> str:
    return str(gym.spec(env_id).kwargs["task"]).split(".")[2]


def measure(policy: Policy, expert: Row, stage: str, options: argparse.Namespace) -> tuple[Row, list[Episode]]:
    """One stage of one level: its row, and the episodes."""
    from rlvr.algorithms.filters.selection import has_reward_variance

    started = time.process_time()
    env_id, level = expert["id"], expert["level"]
    model, facts = policy.model, {}
    if stage == "imitation":
        model, facts = policy.imitating(env_id, level, options.steps, options.batch_size)
    split = "test" if "test" in expert["splits"] else expert["splits"][-1]
    settings = {"split": split, "level": level, **SHOTS.get(stage, {})}
    rollout = Rollout(env_id, policy.agent(model, expert["max_new_tokens"]), env_settings=settings)
    order = TaskOrder(rollout.env.unwrapped, "evaluation", SEED)
    tasks = min(options.episodes // GROUP, order.size or options.episodes)
    members = itertools.product(range(tasks), range(GROUP))
    episodes = rollout([order.request(i, level=level, group=i, sample=s, salt="evaluation") for i, s in members])
    result = summarise(episodes)
    varied = has_reward_variance([episode.reward for episode in episodes], [episode.group for episode in episodes])
    shares = {
        "success": result.success,
        "low": result.low,
        "high": result.high,
        "reward": result.reward,
        "varied": float(varied.float().mean()),
        "unread": result.unread / max(1, result.replies),
        "cut": result.cut_share,
        "invalid": result.invalid_share,
        "turns": result.turns,
        "tokens": result.tokens,
    }
    row: Row = {name: expert[name] for name in ("id", "family", "level")} | {"stage": stage}
    row |= {"episodes": len(episodes), "tasks": tasks, **{name: round(value, 4) for name, value in shares.items()}}
    row |= {"max_new_tokens": expert["max_new_tokens"], **facts, "device": options.device, "dtype": options.dtype}
    row |= {"model": Path(policy.name).name, "chat_template": options.chat_template or "own"}
    return row | {"cpu_seconds": round(time.process_time() - started, 1)}, episodes


# the file and the page


def read(folder: Path) -> list[Row]:
    """The rows of ``abilities.jsonl``; a line that a kill has torn is left out."""
    path, rows = folder / "abilities.jsonl", []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def append(folder: Path, row: Row) -> None:
    path = folder / "abilities.jsonl"
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("ab") as file:
        file.write(b"\n" * torn + json.dumps(row).encode() + b"\n")


def section(folder: Path) -> str:
    """The part of ``cards.md`` that says what models can do; "" where nothing was measured."""
    rows = [row for row in read(folder) if row["stage"] in STAGES]
    if not rows:
        return ""
    text = INTRODUCTION
    for model in dict.fromkeys(row["model"] for row in rows):
        text += model_table(model, [row for row in rows if row["model"] == model])
    return text


def model_table(model: str, rows: Sequence[Row]) -> str:
    by_level: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        by_level.setdefault((row["id"], row["level"]), {})[row["stage"]] = row
    counts = Counter(row["stage"] for row in rows if row["level"] == 1)
    played = ", ".join(f"{counts[stage]} {stage}" for stage in STAGES)
    sizes = sorted({f"{row['episodes']} episodes of {row['tasks']} tasks" for row in rows})
    imitated = [row for row in rows if row["stage"] == "imitation"]
    facts = {(row["steps"], row["rank"], row["lr"], row.get("dtype", "float32")) for row in imitated}
    steps = [f"{n} steps in {dtype}, rank {rank}, rate {rate:g}" for n, rank, rate, dtype in sorted(facts)]
    lines = [
        f"\n**{model}**: of {len(ids([]))} ids at level 1, {played}; the others were not run. A cell is "
        f"{' or '.join(sizes)}. Imitation: {'; '.join(steps) or 'not run'}.\n",
        "| id | level | zero-shot | two-shot | imitation | shown | limit | differ | unread | cut | invalid |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (env_id, level), stages in sorted(by_level.items()):
        cells = [env_id, str(level), *(interval(stages.get(stage)) for stage in STAGES)]
        taught = stages.get("imitation")
        cells.append(str(taught["steps"] * taught["batch_size"]) if taught else "–")
        cells.append(str(max(row["max_new_tokens"] for row in stages.values())))
        for name in ("varied", "unread", "cut", "invalid"):
            cells.append(", ".join(f"{100 * stages[s][name]:.0f}" if s in stages else "–" for s in STAGES))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def interval(row: Row | None) -> str:
    return "–" if row is None else f"{row['success']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def write_page(folder: Path) -> None:
    path = folder / "cards.md"
    cards = path.read_text(encoding="utf-8").partition(HEADING)[0] if path.exists() else ""
    path.write_text(cards + section(folder), encoding="utf-8")


# what is to be measured


def ids(names: Sequence[str]) -> list[str]:
    """The ids of these names, with or without ``rlvr/`` and ``-v0``; all of our own without a name.

    Raises:
        SystemExit: a name is of no id.
    """
    ours = [env_id for env_id in rlvr.list_envs() if not env_id.startswith(PREFIXES)]
    if unknown := [name for name in names if not {name, f"rlvr/{name}-v0"} & {*ours}]:
        raise SystemExit(f"abilities: no id is called {', '.join(unknown)}; rlvr envs lists them")
    return [env_id for env_id in ours if not names or {env_id, env_id[5:-3]} & {*names}]


def cost(expert: Row) -> float:
    """About how many tokens the samples of one task take: its prompt once, and all replies; infinite: not playable."""
    if "why_not" in expert:
        return float("inf")
    return float(expert["tokens"] + GROUP * expert["turns"] * expert["max_new_tokens"])


def in_turn(experts: Sequence[Row]) -> list[Row]:
    """The cheapest of each family, then the second of each, and so on."""
    ranks: Counter[str] = Counter()
    ranked: list[tuple[int, float, Row]] = []
    for row in sorted(experts, key=lambda row: (row["level"], cost(row))):
        ranked.append((ranks[row["family"]], cost(row), row))
        ranks[row["family"]] += 1
    return [row for *_, row in sorted(ranked, key=lambda item: item[:2])]


class Measurements:
    """What is missing of the asked rows, measured by processes that each hold the model."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.name = options, Path(options.model).name
        self.asked = [*itertools.product(ids(options.ids), options.levels)]
        self.rows = [row for row in read(options.out) if row["model"] == self.name]
        self.experts = {(row["id"], row["level"]): row for row in self.rows if row["stage"] == "expert"}
        self.failed = False

    def experts_missing(self) -> list[tuple[str, int]]:
        return [key for key in self.asked if key not in self.experts]

    def stages_missing(self) -> Iterator[tuple[Row, str]]:
        playable = [self.experts[key] for key in self.asked if key in self.experts]
        measured = {(row["id"], row["level"], row["stage"]) for row in self.rows}
        cheap = [expert for expert in playable if cost(expert) <= self.options.most_tokens]
        for expert, stage in itertools.product(in_turn(cheap), self.options.stages):
            has_split = stage != "imitation" or "train" in expert["splits"]
            if has_split and (expert["id"], expert["level"], stage) not in measured:
                yield expert, stage

    def run(self) -> None:
        """First what the experts take, as it decides what is played and in which order."""
        context, options = multiprocessing.get_context("spawn"), self.options
        with ProcessPoolExecutor(options.workers, context, start_worker, (options,)) as pool:
            for row in self._done(pool, expert_job, self.experts_missing()):
                self.experts[row["id"], row["level"]] = row
            for row in self._done(pool, stage_job, [*self.stages_missing()]):
                write_page(options.out)
                print(json.dumps(row), flush=True)

    def _done(self, pool: ProcessPoolExecutor, job: Any, tasks: Sequence[tuple[Any, Any]]) -> Iterator[Row]:
        waiting = {pool.submit(job, *task): task for task in tasks}
        for future in as_completed(waiting):
            try:
                row = future.result()
            except Exception as error:  # of one row: its data set, a package, a program; the others are measured
                of, rest = waiting[future]  # an id and a level, or an expert's row and a stage
                name = f"{of['id']}, level {of['level']}" if isinstance(of, dict) else of
                print(f"{name}, {rest}: {str(error)[:160]}", file=sys.stderr, flush=True)
                self.failed = True
                continue
            if row is not None:
                append(self.options.out, row)
                yield row


def start_worker(options: argparse.Namespace) -> None:
    """In a process of its own: the model, once."""
    global OPTIONS, POLICY
    if options.device == "cpu":
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.workers))
    OPTIONS, POLICY = options, Policy(options)


def expert_job(env_id: str, level: int) -> Row | None:
    return None if time.time() > OPTIONS.end else expert_row(POLICY, env_id, level) | {"model": Path(POLICY.name).name}


def stage_job(expert: Row, stage: str) -> Row | None:
    if time.time() > OPTIONS.end:
        return None
    row, episodes = measure(POLICY, expert, stage, OPTIONS)
    if folder := OPTIONS.transcripts:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{expert['id'].split('/')[-1]}-{expert['level']}-{stage}.jsonl"
        path.write_text("".join(json.dumps(e.to_dict()) + "\n" for e in episodes), encoding="utf-8")
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models" / "smollm2"), help="folder, or name on the hub")
    parser.add_argument("--chat-template", default="", help="in place of the tokenizer's own, as model.chat_template")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="of the weights")
    parser.add_argument("--attention", default="auto", help="as model.attention")
    parser.add_argument("--compile", action="store_true", help="the layers, for imitation, as learner.compile")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with the model")
    parser.add_argument("--ids", nargs="+", default=[], help="ids, or their names; all without")
    parser.add_argument("--levels", nargs="+", type=int, default=[1])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--episodes", type=int, default=64, help="of each row, 8 of a task")
    parser.add_argument("--steps", type=int, default=100, help="of imitation")
    parser.add_argument("--batch-size", type=int, default=4, help="demonstrations of a step")
    parser.add_argument("--most-tokens", type=int, default=4000, help="of a task; ids that take more are left out")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no row is begun")
    parser.add_argument("--transcripts", type=Path, help="folder for the episodes of each row")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the results")
    options = parser.parse_args()
    if options.episodes < GROUP:
        parser.error(f"--episodes {options.episodes}: at least {GROUP}, the samples of one task")
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: at least 1")
    options.end = time.time() + 60 * options.minutes
    measurements = Measurements(options)
    measurements.run()
    return int(measurements.failed)


if __name__ == "__main__":
    raise SystemExit(main())
