"""Warm start: imitate the environment's own expert, so that reinforcement learning finds something to reinforce.

Three phases, each of as many steps as the config says. First the expert's work, until the policy can do it. Then a
short mixed phase in which most demonstrations jump to the answer: the skill stays, but is rarely used, and
reinforcement learning has something to find. Mixing from the start keeps a small policy from learning to copy at all.
Last, random well-formed actions, whatever they earn: the policy becomes the uniform mixture of what is allowed, where
self-play begins. Without the expert before it a policy learns that nothing it reads matters, and is slow to look at its
cards.

Of a game of several seats every demonstration is kept, lost matches too: a fold never wins, and a policy that sees won
matches alone learns to call with every card.

`fine_tune` imitates chats that were recorded before, epoch by epoch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rlvr.agents.conversation import Agent, TokenSequence
from rlvr.agents.episode import RolloutRequest
from rlvr.agents.rendering import Renderer
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent, RandomAgent
from rlvr.algorithms.config import WarmStartSection
from rlvr.algorithms.config.rates import chosen
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import schedule
from rlvr.envs.players.single import game_task

MOST_FAILURES = 64  # demonstrations in a row that may fail


@dataclass(frozen=True, slots=True)
class Phase:
    """So many steps on demonstrations: of the expert, of which a share jumps to the answer, or of random actions."""

    name: str
    steps: int
    lr: float | None
    shortcut_share: float
    random: bool = False

    @property
    def player(self) -> Agent:
        """Who demonstrates."""
        return RandomAgent() if self.random else ExpertAgent(shortcut_share=self.shortcut_share)


def phases(settings: WarmStartSection) -> tuple[Phase, ...]:
    return (
        Phase("expert", settings.steps, settings.lr, 0.0),
        Phase("mixed", settings.mixed_steps, settings.mixed_lr, settings.direct_answer_share),
        Phase("random", settings.random_steps, settings.lr, 0.0, random=True),
    )


def warm_start(
    learner: Learner,
    renderer: Renderer,
    rollout: Callable[[Agent], Rollout],
    requests: Iterator[RolloutRequest],
    settings: WarmStartSection,
    on_step: Callable[[str, int, dict[str, float]], None],
) -> None:
    """Run the phases.

    Args:
        rollout: makes a rollout of the training environment for whoever demonstrates.
        requests: tasks to demonstrate, without end.
        on_step: told the phase's name, the step (from 0, over all phases) and its metrics.

    Raises:
        ValueError: as `next_demonstrations` does.
    """
    done = 0
    for phase in phases(settings):
        if not phase.steps:
            continue
        # moments of AdamW do not outlive a phase: the second has other data and another rate
        play = rollout(phase.player)
        rate = schedule(chosen(phase.lr), settings.warmup_steps, phase.steps, decay=True)
        optimiser = learner.new_optimiser(rate, betas=(0.9, 0.98))
        for _ in range(phase.steps):
            sequences = next_demonstrations(play, renderer, requests, settings.batch_size, failed=phase.random)
            on_step(phase.name, done, learner.imitate(sequences, optimiser))
            done += 1


def next_demonstrations(
    play: Rollout, renderer: Renderer, requests: Iterator[RolloutRequest], size: int, *, failed: bool = False
) -> list[TokenSequence]:
    """Demonstrate the next ``size`` requests, and as many again while none of them succeeds: chance may fail an expert.

    Args:
        failed: as in `demonstrations`, which games of several seats always keep.

    Raises:
        ValueError: none of `MOST_FAILURES` or more succeeded, or the environment has no expert.
    """
    for _ in range(math.ceil(MOST_FAILURES / size)):
        asked = list(islice(requests, size))
        if sequences := demonstrations(play, renderer, asked, failed=failed or is_game_of_several(play)):
            return sequences
    raise ValueError(f"no demonstration of {play.env_id} succeeded: its expert cannot warm a policy up")


def is_game_of_several(play: Rollout) -> bool:
    """Whether a rollout plays a game of several seats, in which what wins is no sign of what was right."""
    return game_task(play.env) is not None


def demonstrations(
    play: Rollout, renderer: Renderer, requests: list[RolloutRequest], *, failed: bool = False
) -> list[TokenSequence]:
    """Play the requests and render the episodes that succeeded, with the player's words as what was sampled.

    Args:
        failed: keep valid episodes that did not succeed, too.

    Raises:
        ValueError: the environment has no expert.
    """
    try:
        episodes = play(requests)
    except NotImplementedError as error:
        raise ValueError(
            f"{play.env_id} has no expert to imitate: leave the warm start out, warm_start.steps 0"
        ) from error
    sequences = []
    for episode in episodes:
        if episode.success or (failed and episode.valid):  # an expert may fail where chance decides
            opening = len(episode.opening())
            ids, mask = renderer.render_demonstration(episode.messages(), episode.tools, opening)
            sequences.append(TokenSequence(ids, mask, [0.0] * len(ids)))  # nobody sampled them: no log-prob
    return sequences


def mean_loss(learner: Learner, sequences: Sequence[TokenSequence], batch_size: int) -> float:
    """The mean negative log-likelihood of the assistant's tokens of all sequences; nan without any."""
    total, tokens = 0.0, 0
    for start in range(0, len(sequences), batch_size):
        padded = learner.pad(sequences[start : start + batch_size])
        # L = -1/N sum_t mask_t log pi(y_t | y_<t)     N assistant tokens of all sequences
        total -= float(learner.logprobs(padded).double().sum())
        tokens += int(padded.mask.sum())
    return total / tokens if tokens else math.nan


def fine_tune(
    learner: Learner,
    sequences: Sequence[TokenSequence],
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    warmup_steps: int = 0,
    seed: int = 0,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> None:
    """Imitate the sequences; each epoch takes all of them once, in an order that ``seed`` and its number decide.

    Args:
        lr: rises over ``warmup_steps``, then falls linearly to a tenth at the last step.
        on_epoch: told the epoch, from 1, and the mean loss of the tokens as they were learned.

    Raises:
        ValueError: there is nothing to learn from.
        FloatingPointError: gradients are not finite.
    """
    if not sequences:
        raise ValueError("there is no chat to train on")
    steps = epochs * math.ceil(len(sequences) / batch_size)  # the last batch of an epoch may be smaller
    optimiser = learner.new_optimiser(schedule(lr, warmup_steps, steps, decay=True), betas=(0.9, 0.98))
    for epoch in range(1, epochs + 1):
        order = list(sequences)
        random.Random(f"{seed}/{epoch}").shuffle(order)  # any epoch can be drawn again alone
        total, tokens = 0.0, 0.0
        for start in range(0, len(order), batch_size):
            stats = learner.imitate(order[start : start + batch_size], optimiser)
            # Weighted by tokens: batches have chats of other lengths.
            total += stats["loss"] * stats["tokens"]
            tokens += stats["tokens"]
        on_epoch(epoch, total / tokens)
