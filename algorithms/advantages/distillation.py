"""On-policy distillation: a teacher's log-probabilities of the policy's own tokens are the advantage."""

from __future__ import annotations

from typing import Any

from rlvr.algorithms.advantages.gather import ragged
from rlvr.algorithms.advantages.token_rewards import mask_of, why
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import as_floats
from rlvr.algorithms.recipe.advantage import Advantage, Played, Sources
from rlvr.algorithms.recipe.loss_parts import Choices


def teacher_advantages(teacher: Any, student: Any, mask: Tensor) -> Tensor:
    """A_t = log teacher - log student on the student's own tokens (on-policy distillation, 2306.13649). [B, T].

    Its policy gradient is that of the reverse KL, token by token. `student`: log-probs under which the tokens were
    sampled.
    """
    teacher, student = as_floats(teacher), as_floats(student)  # [B, T] each
    # A_t = log teacher_t - log behaviour_t, so E[sum_t A_t] = -KL(behaviour || teacher)   [B, T]  2306.13649
    return torch.where(mask, teacher - student, 0)


def teacher_logprobs(played: Played, sources: Sources) -> dict[str, Any]:
    """teacher_logprobs, behaviour_logprobs [B, T]."""
    sequences = [episode.tokens for episode in played.episodes]
    teacher = sources.scorer.logprobs(sequences, sources.teacher)  # [B, T]
    return {"teacher_logprobs": teacher, "behaviour_logprobs": ragged([sequence.logprobs for sequence in sequences])}


def _teacher(x: AdvantageInputs, p: Choices) -> Tensor:
    teacher, behaviour = (x.need(name, why(p)) for name in ("teacher_logprobs", "behaviour_logprobs"))
    return teacher_advantages(teacher, behaviour, mask_of(x, p))


TEACHER = Advantage(
    "teacher",
    "log teacher - log behaviour",
    _teacher,
    "2306.13649",
    needs=("mask", "teacher_logprobs", "behaviour_logprobs"),
    gather=(teacher_logprobs,),
    per_token=True,
    teacher=True,
)
