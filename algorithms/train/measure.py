"""A few real steps of a run on this machine, and what the whole run takes if the rest is like them."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from rlvr.agents.conversation import Agent, TokenSequence
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.advantages import compute_advantages
from rlvr.algorithms.config import TrainConfig, WarmStartSection
from rlvr.algorithms.filters.selection import has_reward_variance
from rlvr.algorithms.runs.run_folder import Clock
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.warm_start import next_demonstrations, phases

STEPS = 2  # that are taken of each kind; the first does not count
SIGNAL = 0.5  # share of the groups with different rewards after a warm start, which nobody knows before it


@dataclass(frozen=True)
class Seconds:
    """On the clock of the wall, and of the CPU."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, factor: float) -> Seconds:
        return Seconds(self.wall * factor, self.cpu * factor)


@dataclass(frozen=True)
class Measured:
    """What was measured.

    setup        from the config to the first step: the model, the environments, the sampler
    warm_start   of all its steps
    sampled      of a sampled token, environments and grading included
    updated      of a token of an update, prompts included
    reply        sampled tokens of an episode
    length       tokens of an episode, prompts included
    demonstrated sampled tokens of an episode as the warm start leaves the policy; 0 without one
    signal       share of the groups with different rewards
    """

    setup: Seconds
    warm_start: Seconds
    sampled: Seconds
    updated: Seconds
    reply: float
    length: float
    demonstrated: float
    signal: float


class _Silent:
    """A callback of a run whose steps nobody reads."""

    def phase(self, name: str, steps: int) -> None:
        """Nothing is shown."""

    def step(self, record: dict[str, Any]) -> None:
        """Nothing is shown."""

    def say(self, text: str) -> None:
        """Nothing is shown."""


def measure(config: TrainConfig) -> Measured:
    """Take a few steps of the run that a config describes, in a folder that is then removed.

    Updates are measured by imitation of the sampled episodes: there every sequence has a gradient.

    Raises:
        RunFolderError, ConfigError: as `Trainer` does.
    """
    with tempfile.TemporaryDirectory(prefix="rlvr-plan-") as folder:
        clock = Clock()
        trainer = Trainer(_shortened(config, Path(folder) / "run"), _Silent())
        try:
            setup = _read(clock)
            warm_start, demonstrated = _warm_start(trainer, config.warm_start, clock)
            trainer.prepare()
            trainer.schedule.ready(0)
            optimiser = trainer.learner.new_optimiser(lambda _: 0.0, betas=config.learner.betas)
            varied: list[bool] = []
            for _ in range(STEPS):
                _read(clock)
                played = trainer.collect().collected.played
                sampling = _read(clock)
                trainer.learner.imitate([episode.tokens for episode in played], optimiser)
                updating = _read(clock)
                varied += has_reward_variance([e.reward for e in played], [e.group for e in played]).tolist()
            sampled = sum(episode.tokens.sampled for episode in played)
            tokens = sum(len(episode.tokens) for episode in played)
        finally:
            trainer.close()
    return Measured(
        setup, warm_start, sampling * (1 / max(1, sampled)), updating * (1 / max(1, tokens)),
        sampled / len(played), tokens / len(played), demonstrated, sum(varied) / len(varied),
    )  # fmt: skip


def predict(config: TrainConfig, measured: Measured) -> dict[str, Seconds]:
    """Seconds of each part of the run: start, warm start, sampling, updates and evaluations.

    After a warm start replies are as long as its demonstrations, and half of the groups have different rewards;
    without one both are as measured. Where groups of equal rewards have no gradient they cost no update.
    """
    episodes = config.prompts * config.group_size * config.steps
    reply = measured.demonstrated or measured.reply
    length = measured.length - measured.reply + reply
    evaluations = 2 + (max(0, config.steps - 1) // config.evaluation.every if config.evaluation.every else 0)
    passes = config.learner.epochs * config.learner.minibatches
    # forward passes for old and reference log-probabilities are a third of an update's work each
    more = (passes > 1 and "old_logprobs" in config.preset().needs) + (config.preset().kl_coef > 0)
    share = (SIGNAL if measured.demonstrated else measured.signal) if _drops_equal_groups(config) else 1.0
    return {
        "start": measured.setup,
        "warm start": measured.warm_start,
        "sampling": measured.sampled * (reply * episodes),
        "updates": measured.updated * (length * episodes * share * (config.learner.epochs + more / 3)),
        # played greedily and sampled
        "evaluations": measured.sampled * (2 * reply * evaluations * config.evaluation.episodes),
    }


def _drops_equal_groups(config: TrainConfig) -> bool:
    """Whether a group of equal rewards costs no update: its advantages are 0, and nothing else has a gradient."""
    preset = config.preset()
    if preset.acts_without_advantage or preset.kl_coef or preset.estimator.needs or config.group_size == 1:
        return False
    equal = [1.0] * config.group_size
    with warnings.catch_warnings(action="ignore"):
        return not compute_advantages(equal, [0] * config.group_size, preset, {}).any()


def describe_measured(config: TrainConfig, measured: Measured) -> str:
    """The prediction as text."""
    parts = predict(config, measured)
    total = sum(parts.values(), Seconds())
    lines = [
        f"measured here, {STEPS} steps of each kind, the second counts",
        f"  sampling {1 / max(1e-12, measured.sampled.wall):,.0f} tokens/s, "
        f"updates {1 / max(1e-12, measured.updated.wall):,.0f} tokens/s; "
        f"{measured.reply:,.0f} sampled tokens an episode"
        + (f", {measured.demonstrated:,.0f} after the warm start" if measured.demonstrated else ""),
        "the whole run        seconds  CPU-seconds",
        *(f"  {name:<14}{part.wall:14,.1f}{part.cpu:13,.1f}" for name, part in parts.items()),
        f"  {'total':<14}{total.wall:14,.1f}{total.cpu:13,.1f}",
    ]
    return "\n".join(lines) + "\n"


def _shortened(config: TrainConfig, out: Path) -> TrainConfig:
    """The same run without its warm start, which is measured by itself, and without what others see."""
    warm = config.warm_start.model_copy(update={"steps": 0, "mixed_steps": 0, "random_steps": 0})
    return config.model_copy(update={"out": out, "warm_start": warm, "report_to": (), "push_to_hub": ""})


def _warm_start(trainer: Trainer, settings: WarmStartSection, clock: Clock) -> tuple[Seconds, float]:
    """Seconds of the warm start, demonstrations included, and the sampled tokens of an episode that follows it."""
    config, whole, last = trainer.config, Seconds(), None
    order = TaskOrder(trainer.rollout.env.unwrapped, "train", config.seed)
    requests = (order.request(index, group=index, salt="demonstration") for index in count())
    optimiser = trainer.learner.new_optimiser(lambda _: 0.0, betas=config.learner.betas)

    def shown(player: Agent, failed: bool) -> list[TokenSequence]:
        play = trainer.rollout_of(player, config.env.split, bots=True)
        return next_demonstrations(play, trainer.renderer, requests, settings.batch_size, failed=failed)

    for phase in phases(settings):
        if not phase.steps:
            continue
        for _ in range(STEPS):
            _read(clock)
            trainer.learner.imitate(shown(phase.player, phase.random), optimiser)
            seconds = _read(clock)
        whole, last = whole + seconds * phase.steps, phase
    if last is None:
        return whole, 0.0
    # where some demonstrations have the work before the answer, rewards bring it back
    lasting = last.player if last.random or last.shortcut_share == 1 else ExpertAgent()
    sequences = shown(lasting, last.random)
    return whole, sum(sequence.sampled for sequence in sequences) / len(sequences)


def _read(clock: Clock) -> Seconds:
    reading = clock.read()
    return Seconds(reading["seconds"], reading["cpu_seconds"])
