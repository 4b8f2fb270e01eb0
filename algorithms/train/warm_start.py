"""Warm start: imitate the environment's own expert, so that reinforcement learning finds something to reinforce.

Two phases. First the expert's work, until the policy can do it. Then a short mixed phase in which most
demonstrations jump to the answer: the skill stays, but is rarely used, and reinforcement learning has something to
find. Mixing from the start keeps a small policy from learning to copy at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import RolloutRequest
from rlvr.agents.rendering import Renderer
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.config import WarmStartSection
from rlvr.algorithms.train.learner import Learner
from rlvr.algorithms.train.optimiser import Optimiser, schedule


@dataclass(frozen=True, slots=True)
class Phase:
    """So many steps on demonstrations of which a share jumps to the answer."""

    name: str
    steps: int
    lr: float
    shortcut_share: float


def phases(settings: WarmStartSection) -> tuple[Phase, Phase]:
    return (
        Phase("expert", settings.steps, settings.lr, 0.0),
        Phase("mixed", settings.mixed_steps, settings.mixed_lr, settings.direct_answer_share),
    )


def warm_start(
    learner: Learner,
    renderer: Renderer,
    rollout: Callable[[ExpertAgent], Rollout],
    requests: Iterator[RolloutRequest],
    settings: WarmStartSection,
    on_step: Callable[[str, int, dict[str, float]], None],
) -> None:
    """Run both phases.

    Args:
        rollout: makes a rollout of the training environment for an expert.
        requests: tasks to demonstrate, without end.
        on_step: told the phase's name, the step (from 0, over both phases) and its metrics.

    Raises:
        ValueError: the expert's demonstrations do not succeed.
    """
    done = 0
    for phase in phases(settings):
        if not phase.steps:
            continue
        # moments of AdamW do not outlive a phase: the second has other data and another rate
        play = rollout(ExpertAgent(shortcut_share=phase.shortcut_share))
        optimiser = Optimiser(
            learner.model.parameters(),
            schedule(phase.lr, settings.warmup_steps, phase.steps, decay=True),
            betas=(0.9, 0.98),
        )
        for _ in range(phase.steps):
            sequences = demonstrations(play, renderer, [next(requests) for _ in range(settings.batch_size)])
            on_step(phase.name, done, learner.imitate(sequences, optimiser))
            done += 1


def demonstrations(play: Rollout, renderer: Renderer, requests: list[RolloutRequest]) -> list[TokenSequence]:
    """Play the requests and render the episodes that succeeded, with the expert's words as what was sampled.

    Raises:
        ValueError: none succeeded.
    """
    sequences = []
    for episode in play(requests):
        if episode.success:  # an expert may fail where chance decides
            ids, mask = renderer.render_demonstration(episode.messages(), episode.tools)
            sequences.append(TokenSequence(ids, mask, [0.0] * len(ids)))  # nobody sampled them: no log-prob
    if not sequences:
        raise ValueError(f"no demonstration of {play.env_id} succeeded: its expert cannot warm a policy up")
    return sequences
