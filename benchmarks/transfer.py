"""Which task teaches which: a small policy imitates the expert of one generator, and is measured on all of them.

    nice python benchmarks/transfer.py --work runs/transfer   # what is not measured yet, then the page and the figure
    python benchmarks/transfer.py --minutes 20                # begins nothing after so many minutes
    python benchmarks/transfer.py --draw                      # docs/transfer.md and the figure alone

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
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlvr.agents.conversation import Agent, TokenSequence
from rlvr.agents.models.tiny import tiny_policy
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
# Of each module of generators the one whose demonstrations are shortest, where these have at most 310 tokens; and two
# games of several turns, which are longer.
IDS = (
    "Calculator", "GuessNumber", "WordProblems", "Countdown", "DateArithmetic", "ReverseText", "CircleAreas",
    "Committees", "SetCover", "BaseConversion", "ExpectedValue", "ShortestPath", "MatrixWalk", "BitManipulation",
    "Sums", "Motion", "Divisors", "Solutions", "FunctionComposition", "FractionArithmetic", "ExponentialEquations",
    "SubsetSum", "Derivatives", "Determinants", "CubeNets", "SetAlgebra", "ForwardChaining", "FunctionInduction",
    "RegexConstruction", "Lines", "TwentyFour", "TicTacToe", "FrozenLake",
)  # fmt: skip
UNTRAINED, BEGIN, REPLAY, ALL = "not trained", "where all begin", "replay alone", "all generators"  # the controls
HIDDEN = 96
START, STEPS = 600, 30  # steps on all generators; then of each policy on its own, each after one of replay
BATCH = 2_000  # tokens of a step, prompts included
LR, LR_AFTER, WARMUP = 3e-3, 1e-3, 10
SEEDS = (0, 1)  # of the demonstrations
HELD_OUT, PLAYED = 24, 12  # demonstrations, and tasks to play, of each generator
MAX_NEW_TOKENS, MAX_LENGTH = 160, 640  # of a reply, of an episode
Results = dict[str, dict[str, Any]]  # by what a policy was trained on, then by seed


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


def batches(names: Sequence[str], renderer: Renderer, purpose: str) -> Iterator[list[TokenSequence]]:
    """Batches of `BATCH` tokens, without end; demonstrations of several generators in turn."""
    streams, place = [shown(name, renderer, "train", purpose) for name in names], 0
    while True:
        batch, tokens = list[TokenSequence](), 0
        while tokens < BATCH:
            batch.append(next(streams[place % len(streams)]))
            tokens += len(batch[-1])
            place += 1
        yield batch


class Policy:
    """The small policy with its learner, with weights from a seed or these."""

    def __init__(self, weights: dict[str, torch.Tensor] | None = None) -> None:
        self.model, tokenizer = tiny_policy(seed=0, hidden=HIDDEN)
        if weights is not None:
            self.model.load_state_dict(weights)
        limits = {"max_new_tokens": MAX_NEW_TOKENS, "max_length": MAX_LENGTH}
        self.agent = TransformersAgent(self.model, tokenizer, greedy=True, **limits)
        self.learner = Learner(self.model, PRESETS["reinforce"], pad_id=tokenizer.pad_token_id, max_length=MAX_LENGTH)

    def imitate(self, sources: Sequence[Iterator[list[TokenSequence]]], steps: int, lr: float) -> None:
        """So many rounds of a step on each source."""
        rounds = [source for _ in range(steps) for source in sources]
        optimiser = self.learner.new_optimiser(schedule(lr, WARMUP, len(rounds), decay=True), betas=(0.9, 0.98))
        for source in rounds:
            self.learner.imitate(next(source), optimiser)

    def solved(self) -> dict[str, int]:
        """How many held-out tasks it solves, greedily, by generator."""
        plays = []
        for name in IDS:
            play = rollout(name, self.agent, "test")
            order = TaskOrder(play.env.unwrapped, "transfer, played", 0)
            plays.append((play, [order.request(i, group=i, salt="transfer") for i in range(PLAYED)]))
        counts = dict.fromkeys(IDS, 0)
        for index, _, episode in stream_together(plays):
            counts[IDS[index]] += episode.success
        return counts


class Laboratory:
    """Trains and measures; a policy whose weights are in the folder is not trained again."""

    def __init__(self, work: Path) -> None:
        self.work, self.renderer = work, Policy().agent.renderer
        self.held_out = {name: list(islice(shown(name, self.renderer, "test", "held out"), HELD_OUT)) for name in IDS}

    def policy(self, name: str, seed: int) -> Policy:
        """The policy that was trained on a generator, or one of the controls."""
        if name == UNTRAINED:
            return Policy()
        if name == BEGIN:
            return self._kept("begin", None, lambda: [self._batches(IDS, "begin")], START, LR)
        own = {REPLAY: [], ALL: [IDS]}.get(name, [(name,)])  # the generators of every second step

        def sources() -> list[Iterator[list[TokenSequence]]]:
            return [self._batches(IDS, f"replay {seed}"), *(self._batches(names, f"own {seed}") for names in own)]

        weights = self.policy(BEGIN, 0).model.state_dict()
        return self._kept(f"{name} {seed}", weights, sources, STEPS, LR_AFTER)

    def _batches(self, names: Sequence[str], purpose: str) -> Iterator[list[TokenSequence]]:
        return batches(names, self.renderer, purpose)

    def _kept(self, file: str, weights: Any, sources: Callable[[], Any], steps: int, lr: float) -> Policy:
        path = self.work / f"{file}.pt"
        if path.exists():
            return Policy(torch.load(path))
        policy = Policy(weights)
        policy.imitate(sources(), steps, lr)
        torch.save(policy.model.state_dict(), path)
        return policy

    def losses(self, name: str, seed: int) -> dict[str, float]:
        """Nats a token of the expert's on held-out demonstrations, by generator."""
        learner = self.policy(name, seed).learner
        return {each: round(mean_loss(learner, held, 32), 4) for each, held in self.held_out.items()}


# figures


def gains(results: Results, seed: int) -> np.ndarray:
    """[N, N] by how many nats a token the loss on j falls with the steps on i, beside replay alone.

    NaN in the rows of generators that were not trained on with this seed.
    """
    nothing = dict.fromkeys(IDS, math.nan)
    runs = [results.get(name, {}).get(str(seed), {}).get("loss", nothing) for name in (REPLAY, *IDS)]
    loss = np.array([[run[j] for j in IDS] for run in runs])
    return loss[:1] - loss[1:]


def section(results: Results) -> list[str]:
    """What stands between the marks of the page."""
    each, others = [gains(results, seed) for seed in SEEDS], ~np.eye(len(IDS), dtype=bool)
    gain = np.nanmean(each, axis=0)
    taught = np.where(others, gain, np.nan)
    twice = ~np.isnan(each[0] + each[-1]) & others  # pairs that were measured with both seeds
    cpu = sum(run["cpu_seconds"] for by in results.values() for run in by.values()) / 60
    gaining, strongest = (taught > 0).sum() / others.sum(), np.nanmax(taught)
    lines = [
        f"{len(IDS)} generators, {twice.any(1).sum()} of them with a second seed; {cpu:.0f} CPU-minutes.",
        f"A generator's own steps lower its loss by {gain.diagonal().mean():.3f} nats a token in the mean, and",
        f"another's by {np.nanmean(taught):.3f}, at most by {strongest:.3f}; {gaining:.0%} of the pairs gain.",
    ]
    if twice.any():
        agree = np.corrcoef(each[0][twice], each[-1][twice])[0, 1]
        lines.append(f"The gains of {twice.sum()} pairs with both seeds have a correlation of {agree:.2f}.")
    lines += ["", "| teacher | its own loss falls by | the others' mean | with the second seed | teaches most |"]
    lines.append("|---|---|---|---|---|")
    for i in np.argsort(-np.nanmean(taught, 1))[:10]:
        best = np.argsort(np.where(others[i], -gain[i], np.inf))[:3]
        names = ", ".join(f"{IDS[j]} {gain[i, j]:+.3f}" for j in best)
        first, second = (f"{g[i][others[i]].mean():+.4f}" for g in (each[0], each[-1]))
        lines.append(f"| {IDS[i]} | {gain[i, i]:.3f} | {first} | {second if twice[i].any() else '–'} | {names} |")
    lines += ["", "| policy | loss, nats a token | held-out tasks solved |", "|---|---|---|"]
    for name in (UNTRAINED, BEGIN, REPLAY, ALL):
        run = results[name]["0"]
        solved = f"{sum(run['solved'].values())} of {len(IDS) * PLAYED}" if "solved" in run else "–"
        lines.append(f"| {name} | {statistics.fmean(run['loss'].values()):.3f} | {solved} |")
    loss = np.array([[results[name]["0"]["loss"][j] for j in IDS] for name in IDS])
    lines.append(f"| one generator, on itself | {loss.diagonal().mean():.3f} | – |")
    lines.append(f"| one generator, on another | {loss[others].mean():.3f} | – |")
    return lines


def draw(results: Results) -> None:
    """The figure, and the section of the page."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    gain = np.nanmean([gains(results, seed) for seed in SEEDS], axis=0)
    figure = Figure(figsize=(9, 8.4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    image = panel.imshow(gain, cmap="RdBu", vmin=-0.05, vmax=0.05)
    panel.set_xticks(range(len(IDS)), IDS, rotation=90, fontsize=7)
    panel.set_yticks(range(len(IDS)), IDS, fontsize=7)
    panel.set(xlabel="measured on", ylabel="trained on")
    figure.colorbar(image, label="fall of the loss, nats a token, beside replay alone", shrink=0.7)
    figure.savefig(PICTURE, metadata={"Software": None})
    Image.open(PICTURE).convert("RGB").quantize(64, Image.Quantize.MEDIANCUT).save(PICTURE, optimize=True)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text("\n".join([before + MARKS[0], *section(results), MARKS[1] + after]), encoding="utf-8")


# the record


def settings() -> dict[str, Any]:
    """What has to be equal for policies to stand in one matrix."""
    budget = {"start": START, "steps": STEPS, "batch": BATCH, "lr": LR, "lr_after": LR_AFTER, "hidden": HIDDEN}
    return {"ids": IDS, "held_out": HELD_OUT, "played": PLAYED, **budget}


def load() -> Results:
    """What is measured already with these settings."""
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    same = record.get("settings") == json.loads(json.dumps(settings()))
    return record["policies"] if same else {}


def save(results: Results) -> None:
    """Write the record, whole or not at all."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    record = {"command": "python benchmarks/transfer.py", "machine": machine, "settings": settings()}
    draft = RESULTS.with_suffix(".draft")
    draft.write_text(json.dumps(record | {"policies": results}, indent=1) + "\n")
    draft.replace(RESULTS)


def main() -> int:
    """Measure what is missing, each result written at once; then the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="write the page and the figure from what is measured")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many minutes")
    parser.add_argument("--work", type=Path, help="folder that keeps the policies, for another call")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results, until = load(), time.monotonic() + options.minutes * 60
    names = (REPLAY, ALL, *IDS)
    jobs = [("loss", name, 0) for name in (UNTRAINED, BEGIN, *names)]
    jobs += [("solved", name, 0) for name in (BEGIN, ALL)]
    jobs += [("loss", name, seed) for seed in SEEDS[1:] for name in names]
    missing = [job for job in jobs if job[0] not in results.get(job[1], {}).get(str(job[2]), {})]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        laboratory = Laboratory(work) if missing and not options.draw else None
        for what, name, seed in missing if laboratory else ():
            if time.monotonic() > until:
                break
            cpu = time.process_time()
            found = laboratory.losses(name, seed) if what == "loss" else laboratory.policy(name, seed).solved()
            run = results.setdefault(name, {}).setdefault(str(seed), {"cpu_seconds": 0.0})
            run |= {what: found, "cpu_seconds": round(run["cpu_seconds"] + time.process_time() - cpu, 1)}
            print(what, name, seed, round(sum(found.values()), 2), run["cpu_seconds"], flush=True)
            save(results)
    if all("0" in results.get(name, {}) for name in (UNTRAINED, BEGIN, *names)):
        draw(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
