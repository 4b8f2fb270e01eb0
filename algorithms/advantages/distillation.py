"""On-policy distillation: a teacher's log-probabilities of the policy's own tokens are the advantage.

The teacher is another model, or the policy itself that reads what it did not know when it sampled.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from rlvr.agents.conversation import TokenSequence
from rlvr.algorithms.advantages.gather import ragged
from rlvr.algorithms.advantages.hindsight import behind_condition, hints, too_long
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
    """teacher_logprobs, behaviour_logprobs [B, T]; where the loss reads them, the teacher's likeliest tokens."""
    sequences = [episode.tokens for episode in played.episodes]
    scored = _scored(sequences, sources)
    return scored | {"behaviour_logprobs": ragged([sequence.logprobs for sequence in sequences])}


def _scored(sequences: Sequence[TokenSequence], sources: Sources) -> dict[str, Tensor]:
    """What the teacher says of sequences: teacher_logprobs [B, T]; where the loss reads them, teacher_top [B, T, K] and
    teacher_top_logprobs [B, T, K + 1].
    """
    if not sources.divergence_top:
        return {"teacher_logprobs": sources.scorer.logprobs(sequences, sources.teacher)}
    scores = sources.scorer.top_logprobs(sequences, sources.divergence_top, sources.teacher)
    return dict(zip(("teacher_logprobs", "teacher_top", "teacher_top_logprobs"), scores, strict=True))


def self_teacher_logprobs(played: Played, sources: Sources) -> dict[str, Any]:
    """teacher_logprobs, behaviour_logprobs [B, T]; left_out [B]: sequences without a hint, or too long behind theirs;
    where the loss reads them, the teacher's likeliest tokens.

    The teacher scores the policy's own tokens behind a prompt with hints. It is `Sources.teacher` where there is one
    (OPSD, 2601.18734), else the policy's moving average where it keeps one (SDFT, 2601.19897), else the policy as it is
    (SDPO, 2601.20802).
    """
    episodes, scorer = played.episodes, sources.scorer
    texts = hints(episodes, sources.env, sources.hints)
    behind = [behind_condition(sources.renderer, episode, text) for episode, text in zip(episodes, texts, strict=True)]
    too_many = [len(sequence) > sources.max_length for sequence in behind]
    if any(too_many):
        warnings.warn(too_long("hints", sources.max_length), stacklevel=2)
    left_out = torch.tensor([long or not text for long, text in zip(too_many, texts, strict=True)])  # [B]
    behaviour = ragged([episode.tokens.logprobs for episode in episodes])  # [B, T]
    entries = {"teacher_logprobs": behaviour.clone()}  # [B, T], and so an advantage of 0 where there is no teacher
    taught = [index for index, without in enumerate(left_out.tolist()) if not without]
    if taught:
        with scorer.averaged():
            scored = _scored([behind[index] for index in taught], sources)  # [b, T', ...]
        # A_t = log pi(y_t | hint, x, y_<t) - log mu(y_t | x, y_<t)    [b, T'] -> [B, T]  SDPO, 2601.20802
        for name, columns in scored.items():
            rows = entries.setdefault(name, columns.new_zeros(*behaviour.shape, *columns.shape[2:]))
            for index, row in zip(taught, columns, strict=True):
                length = len(episodes[index].tokens)
                shift = len(behind[index]) - length  # a hint moves all tokens after it
                first = episodes[index].tokens.mask.index(1)
                rows[index, first:length] = row[first + shift : length + shift]
    return {**entries, "behaviour_logprobs": behaviour, "left_out": left_out}


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
SELF_TEACHER = Advantage(
    "self_teacher",
    "log policy behind hints - log behaviour",
    _teacher,
    "2601.20802",
    needs=("mask", "teacher_logprobs", "behaviour_logprobs"),
    gather=(self_teacher_logprobs,),
    per_token=True,
)
