"""Which task teaches which: a small policy imitates the expert of one generator, and is measured on all of them.

    nice python benchmarks/transfer.py --work runs/transfer   # what is not measured yet, then the page and the figure
    python benchmarks/transfer.py --minutes 20                # begins nothing after so many minutes
    python benchmarks/transfer.py --draw                      # docs/transfer.md and the figure alone
    python benchmarks/transfer.py --model models/smollm2      # ten pairs again, by LoRA on a real model

All policies begin with the weights of one that has seen all generators, and go on with as many tokens of one generator.
Every second step is one of replay, so that what is measured is what the generator teaches and not what the policy
forgets. Two controls make the same steps of replay: one makes no others, the other has all generators in the others.
Measured are the loss on held-out demonstrations and the success on held-out tasks, at level 1. What is finished stands
in the JSON, and the next call goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
import transformers

from rlvr.agents.conversation import Agent, TokenSequence
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.rendering import Renderer
from rlvr.agents.rollout import Rollout, stream_together
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import schedule
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.train.warm_start import demonstrations, mean_loss

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "transfer.json"
PAGE = ROOT / "docs" / "transfer.md"
PICTURE = ROOT / "docs" / "images" / "transfer.png"
MARKS = ("<!-- transfer -->", "<!-- end of transfer -->")
# Of each module of generators the one whose demonstrations are shortest at level 1; of these the sixty shortest, which
# have 32 to 646 tokens in the mean. Those that need files of data are left out.
IDS = (
    "Calculator", "WordProblems", "Sums", "GuessNumber", "Countdown", "TwentyFour", "Determinants", "Divisors",
    "ReverseText", "Derivatives", "ExponentialEquations", "FractionArithmetic", "BaseConversion", "Committees",
    "Lines", "FunctionComposition", "CircleAreas", "Motion", "SubsetSum", "Solutions", "AgeProblems", "ShortestPath",
    "MatrixWalk", "CubeNets", "BitManipulation", "RegexConstruction", "ForwardChaining", "SetAlgebra",
    "ExpectedValue", "Instructions", "Secretary", "FunctionInduction", "BinPacking", "JsonPaths", "CodeInput",
    "WordHunt", "WordLadder", "DiceRolling", "Numbrix", "FrozenLake", "KnightsAndKnaves", "OneLie", "EquationalProof",
    "Ordering", "TicTacToe", "SlidingTiles", "Norinori", "HanoiGame", "HigherLower", "CrosswordFill", "LightsOutGame",
    "Calcudoku", "MiniSudoku", "WaterJugs", "GridTransformation", "Takuzu", "NimDuel", "TwentyQuestions", "CodeTests",
    "Minesweeper",
)  # fmt: skip
UNTRAINED, BEGIN, REPLAY, ALL = "not trained", "where all begin", "replay alone", "all generators"  # the controls
SEEDS = (0, 1)  # of the demonstrations
PLAYED = 8  # tasks to play of each generator
MAX_NEW_TOKENS, MAX_LENGTH = 160, 900  # of a reply, of an episode
WARMUP = 10  # steps
LORA = 8  # rank of the adapters of a real model


class Scale(NamedTuple):
    """One model and what it is taught."""

    ids: tuple[str, ...]
    start: int  # steps on all generators
    steps: int  # then of each policy on its own, each after one of replay
    batch: int  # tokens of a step, prompts included
    lr: float
    lr_after: float
    held_out: int  # demonstrations of each generator


TINY = Scale(IDS, 900, 30, 2_000, 3e-3, 1e-3, 16)
# Of the pairs that gained or lost most with both seeds in a first map of 33 generators, four that gained and six that
# lost.
PAIRS = {
    "CircleAreas": ("Committees", "Sums"),
    "Countdown": ("GuessNumber", "Calculator"),
    "ReverseText": ("Sums", "CircleAreas"),
    "Calculator": ("WordProblems", "Countdown"),
    "WordProblems": ("Calculator", "Countdown"),
}
PAIRED = tuple(dict.fromkeys(each for teacher, others in PAIRS.items() for each in (teacher, *others)))
REAL = Scale(PAIRED, 15, 8, 400, 2e-3, 1e-3, 12)
Results = dict[str, dict[str, Any]]  # by what a policy was trained on, then by seed; lists are in the order of the ids


# policies


def rollout(name: str, agent: Agent, split: str) -> Rollout:
    """Of level 1, without a system prompt."""
    return Rollout(f"rlvr/{name}-v0", agent, use_system=False, timeout=None, env_settings={"split": split, "level": 1})


def shown(name: str, renderer: Renderer, split: str, purpose: str) -> Iterator[TokenSequence]:
    """Demonstrations without end; where chance makes the expert fail there is none."""
    play = rollout(name, ExpertAgent(), split)
    order, start = TaskOrder(play.env.unwrapped, f"transfer, {purpose}", 0), 0
    while True:
        yield from demonstrations(
            play, renderer, [order.request(start + i, group=i, salt="transfer") for i in range(8)]
        )
        start += 8


def batches(names: Sequence[str], renderer: Renderer, purpose: str, size: int) -> Iterator[list[TokenSequence]]:
    """Batches of so many tokens, without end; demonstrations of several generators in turn."""
    streams, place = [shown(name, renderer, "train", purpose) for name in names], 0
    while True:
        batch, tokens = list[TokenSequence](), 0
        while tokens < size:
            batch.append(next(streams[place % len(streams)]))
            tokens += len(batch[-1])
            place += 1
        yield batch


class Policy:
    """A model with its learner: the small one, or adapters of a real one; with its first weights or these."""

    def __init__(self, name: str = "rlvr/tiny", weights: dict[str, torch.Tensor] | None = None) -> None:
        self.model: Any
        if name == "rlvr/tiny":
            self.model, tokenizer = load_policy(name, tiny={"seed": 0, "hidden": 96})
        else:
            from peft import LoraConfig, get_peft_model

            base, tokenizer = load_policy(name, chat_template="chatml")
            torch.manual_seed(0)  # of the adapters' first values
            adapters = LoraConfig(r=LORA, lora_alpha=2 * LORA, target_modules="all-linear", task_type="CAUSAL_LM")
            self.model = get_peft_model(base, adapters)
        self.model.load_state_dict(weights or {}, strict=False)
        limits = {"max_new_tokens": MAX_NEW_TOKENS, "max_length": MAX_LENGTH}
        self.agent = TransformersAgent(self.model, tokenizer, greedy=True, **limits)
        self.learner = Learner(self.model, PRESETS["reinforce"], pad_id=tokenizer.pad_token_id, max_length=MAX_LENGTH)

    def imitate(self, sources: Sequence[Iterator[list[TokenSequence]]], steps: int, lr: float) -> None:
        """So many rounds of a step on each source."""
        rounds = [source for _ in range(steps) for source in sources]
        optimiser = self.learner.new_optimiser(schedule(lr, WARMUP, len(rounds), decay=True), betas=(0.9, 0.98))
        for source in rounds:
            self.learner.imitate(next(source), optimiser)

    def trained(self) -> dict[str, torch.Tensor]:
        """The weights that training changes."""
        return {name: weight.detach() for name, weight in self.model.named_parameters() if weight.requires_grad}

    def solved(self, names: Sequence[str]) -> list[int]:
        """How many held-out tasks it solves, greedily, of each generator."""
        plays = []
        for name in names:
            play = rollout(name, self.agent, "test")
            order = TaskOrder(play.env.unwrapped, "transfer, played", 0)
            plays.append((play, [order.request(i, group=i, salt="transfer") for i in range(PLAYED)]))
        counts = [0] * len(names)
        for index, _, episode in stream_together(plays):
            counts[index] += episode.success
        return counts


class Laboratory:
    """Trains and measures; a policy whose weights are in the folder is not trained again."""

    def __init__(self, scale: Scale, model: str, work: Path) -> None:
        self.scale, self.model, self.work = scale, model, work
        self.renderer, self.replayed = Policy(model).agent.renderer, dict[int, list[list[TokenSequence]]]()
        self.held_out = {
            name: list(islice(shown(name, self.renderer, "test", "held out"), scale.held_out)) for name in scale.ids
        }

    def policy(self, name: str, seed: int) -> Policy:
        """The policy that was trained on a generator, or one of the controls."""
        scale = self.scale
        if name == UNTRAINED:
            return Policy(self.model)
        if name == BEGIN:
            return self._kept("begin", None, lambda: [self._batches(scale.ids, "begin")], scale.start, scale.lr)
        own = {REPLAY: [], ALL: [scale.ids]}.get(name, [(name,)])  # the generators of every second step

        def sources() -> list[Iterator[list[TokenSequence]]]:
            return [iter(self._replay(seed)), *(self._batches(names, f"own {seed}") for names in own)]

        weights = self.policy(BEGIN, 0).trained()
        return self._kept(f"{name} {seed}", weights, sources, scale.steps, scale.lr_after)

    def _replay(self, seed: int) -> list[list[TokenSequence]]:
        """The steps of replay, which are the same for all policies of a seed."""
        if seed not in self.replayed:
            self.replayed[seed] = list(islice(self._batches(self.scale.ids, f"replay {seed}"), self.scale.steps))
        return self.replayed[seed]

    def _batches(self, names: Sequence[str], purpose: str) -> Iterator[list[TokenSequence]]:
        return batches(names, self.renderer, purpose, self.scale.batch)

    def _kept(self, file: str, weights: Any, sources: Callable[[], Any], steps: int, lr: float) -> Policy:
        path = self.work / f"{file}.pt"
        if path.exists():
            return Policy(self.model, torch.load(path))
        policy = Policy(self.model, weights)
        policy.imitate(sources(), steps, lr)
        torch.save(policy.trained(), path)
        return policy

    def losses(self, name: str, seed: int) -> list[float]:
        """Nats a token of the expert's on held-out demonstrations, of each generator."""
        learner = self.policy(name, seed).learner
        return [round(mean_loss(learner, held, 32), 4) for held in self.held_out.values()]


# figures


def gains(results: Results, seed: int, ids: Sequence[str] = IDS) -> np.ndarray:
    """[N, N] by how many nats a token the loss on j falls with the steps on i, beside replay alone.

    NaN in the rows of generators that were not trained on with this seed.
    """
    runs = (results.get(name, {}).get(str(seed), {}) for name in (REPLAY, *ids))
    loss = np.array([run.get("loss", [math.nan] * len(ids)) for run in runs])
    return loss[:1] - loss[1:]


def pairs(results: Results, real: Results) -> list[str]:
    """The table of the pairs that a real model has learned, too."""
    small, large = np.nanmean([gains(results, seed) for seed in SEEDS], axis=0), gains(real, 0, PAIRED)
    lines = ["", "| teacher | on | small model | real model |", "|---|---|---|---|"]
    for teacher, other in ((i, j) for i, others in PAIRS.items() for j in (i, *others)):
        first = small[IDS.index(teacher), IDS.index(other)]
        second = large[PAIRED.index(teacher), PAIRED.index(other)]
        lines.append(f"| {teacher} | {other} | {first:+.3f} | {second:+.3f} |")
    return lines


def section(results: Results, real: Results) -> list[str]:
    """What stands between the marks of the page."""
    each, others = [gains(results, seed) for seed in SEEDS], ~np.eye(len(IDS), dtype=bool)
    gain = np.nanmean(each, axis=0)
    taught = np.where(others, gain, np.nan)
    twice = ~np.isnan(each[0] + each[-1]) & others  # pairs that were measured with both seeds
    cpu = sum(run["cpu_seconds"] for by in results.values() for run in by.values()) / 60
    gaining, strongest = (taught > 0).sum() / others.sum(), np.nanmax(taught)
    lines = [
        f"{len(IDS)} generators, {twice.any(1).sum() or 'none'} of them with a second seed; {cpu:.0f} CPU-minutes.",
        f"A generator's own steps lower its loss by {gain.diagonal().mean():.3f} nats a token in the mean, and",
        f"another's by {np.nanmean(taught):.3f}, at most by {strongest:.3f}; {gaining:.0%} of the pairs gain.",
    ]
    if twice.any():
        agree = np.corrcoef(each[0][twice], each[-1][twice])[0, 1]
        lines.append(f"The gains of {twice.sum()} pairs with both seeds have a correlation of {agree:.2f}.")
    folders = [gym.spec(f"rlvr/{name}-v0").kwargs["task"].split(".")[2] for name in IDS]
    alike, upper = np.equal.outer(folders, folders) & others, np.triu_indices(len(IDS), 1)
    within, between = taught[alike].mean(), taught[others & ~alike].mean()
    mutual = np.corrcoef(gain[upper], gain.T[upper])[0, 1]
    lines += [
        f"Within a folder of tasks the mean is {within:.3f}, between folders {between:.3f}. The gain of i on j has a",
        f"correlation of {mutual:.2f} with that of j on i.",
        "",
        "| teacher | its own loss falls by | the others' mean | teaches most | least |",
        "|---|---|---|---|---|",
    ]
    for i in np.argsort(-np.nanmean(taught, 1))[:10]:
        order = [j for j in np.argsort(-gain[i]) if j != i]
        most, least = (", ".join(f"{IDS[j]} {gain[i, j]:+.3f}" for j in some) for some in (order[:3], order[:-3:-1]))
        lines.append(f"| {IDS[i]} | {gain[i, i]:.3f} | {np.nanmean(taught[i]):+.4f} | {most} | {least} |")
    lines += ["", "| policy | loss, nats a token | held-out tasks solved |", "|---|---|---|"]
    for name in (UNTRAINED, BEGIN, REPLAY, ALL):
        run = results[name]["0"]
        solved = f"{sum(run['solved'])} of {len(IDS) * PLAYED}" if "solved" in run else "–"
        lines.append(f"| {name} | {statistics.fmean(run['loss']):.3f} | {solved} |")
    loss = np.array([results[name]["0"]["loss"] for name in IDS])
    lines.append(f"| one generator, on itself | {loss.diagonal().mean():.3f} | – |")
    lines.append(f"| one generator, on another | {loss[others].mean():.3f} | – |")
    return lines + (pairs(results, real) if all(name in real for name in (REPLAY, *PAIRS)) else [])


def draw(results: Results, real: Results) -> None:
    """The figure, and the section of the page."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    gain = np.nanmean([gains(results, seed) for seed in SEEDS], axis=0)
    figure = Figure(figsize=(11, 10.4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    image = panel.imshow(gain, cmap="RdBu", vmin=-0.2, vmax=0.2)
    panel.set_xticks(range(len(IDS)), IDS, rotation=90, fontsize=6)
    panel.set_yticks(range(len(IDS)), IDS, fontsize=6)
    panel.set(xlabel="measured on", ylabel="trained on")
    figure.colorbar(image, label="fall of the loss, nats a token, beside replay alone", shrink=0.7)
    figure.savefig(PICTURE, metadata={"Software": None})
    Image.open(PICTURE).convert("RGB").quantize(64, Image.Quantize.MEDIANCUT).save(PICTURE, optimize=True)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text("\n".join([before + MARKS[0], *section(results, real), MARKS[1] + after]), encoding="utf-8")


# the record


def load(kind: str, scale: Scale) -> Results:
    """What is measured already at this scale."""
    record = json.loads(RESULTS.read_text()).get(kind, {}) if RESULTS.exists() else {}
    return record["policies"] if record.get("scale") == json.loads(json.dumps(scale._asdict())) else {}


def save(kind: str, scale: Scale, results: Results) -> None:
    """Write the record, a line for each policy, whole or not at all."""
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    machine = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    record |= {"command": "python benchmarks/transfer.py", "machine": machine}
    record[kind] = {"scale": scale._asdict(), "policies": results}
    text = re.sub(r'(, )("[^"]+": \{("0"|"scale"|"policies"))', r",\n\2", json.dumps(record))
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(text + "\n")
    draft.replace(RESULTS)


def main() -> int:
    """Measure what is missing, each result written at once; then the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="write the page and the figure from what is measured")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many minutes")
    parser.add_argument("--work", type=Path, help="folder that keeps the policies, for another call")
    parser.add_argument("--model", default="rlvr/tiny", help="folder of a real model: the pairs of its table alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    kind, scale = ("small", TINY) if options.model == "rlvr/tiny" else ("real", REAL)
    results, until = load(kind, scale), time.monotonic() + options.minutes * 60
    if kind == "small":
        names = (REPLAY, ALL, *IDS)
        jobs = [("loss", name, 0) for name in (UNTRAINED, BEGIN, *names)]
        jobs += [("solved", name, 0) for name in (BEGIN, ALL)]
        jobs += [("loss", name, seed) for seed in SEEDS[1:] for name in names]
    else:
        jobs = [("loss", name, 0) for name in (UNTRAINED, BEGIN, REPLAY, *PAIRS)] + [("loss", REPLAY, 1)]
    missing = [job for job in jobs if job[0] not in results.get(job[1], {}).get(str(job[2]), {})]
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)) / kind
        work.mkdir(parents=True, exist_ok=True)
        laboratory = Laboratory(scale, options.model, work) if missing and not options.draw else None
        for what, name, seed in missing if laboratory else ():
            if time.monotonic() > until:
                break
            cpu = time.process_time()
            found = laboratory.losses(name, seed) if what == "loss" else laboratory.policy(name, seed).solved(scale.ids)
            run = results.setdefault(name, {}).setdefault(str(seed), {"cpu_seconds": 0.0})
            run |= {what: found, "cpu_seconds": round(run["cpu_seconds"] + time.process_time() - cpu, 1)}
            print(what, name, seed, round(sum(found), 2), run["cpu_seconds"], flush=True)
            save(kind, scale, results)
    small = load("small", TINY)
    if all("0" in small.get(name, {}) for name in (UNTRAINED, BEGIN, REPLAY, ALL, *IDS)):
        draw(small, load("real", REAL))
    return 0


if __name__ == "__main__":
    sys.exit(main())
