"""Actions that are played on many tasks, and that nobody chose by a task: paid on all of them, they are no solution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rlvr.envs.validation.context import HARD, Skip, Validation, check
from rlvr.envs.validation.declared import declared_calls
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.subject import NotApplicable, ValidationEpisode

ALONE: Final = 10  # tasks on which one call must be paid: which of two values is right is guessed on all in 0.1 %


def calls_alone(v: Validation, result: CheckResult) -> None:
    """Call each declared tool, by its schema and alone: paid on every task, a call pays whatever was asked."""
    for text in (each for texts in declared_calls(v).values() for each in texts):
        hit = _paid_everywhere(v, result, text)
        if hit is not None:
            sentence = f"{text!r:.80} alone is paid {hit.total:g} at {hit.ref}, as on {ALONE} tasks of {ALONE}"
            result.add("a call alone", sentence, replay=hit.replay, paid=ALONE, tasks=ALONE)
            return


@check(
    "sound.language_model",
    HARD,
    "Nothing that a language model proposes, which has read the source and has seen no task, is paid on every task.",
    remedy="Read what is paid, and where the code pays it.",
)
def language_model(v: Validation, result: CheckResult) -> None:
    """Play each proposal on many tasks, and leave out of what is paid all actions that it is paid without."""
    if not v.proposals:
        raise Skip("no endpoint is given")
    for proposed in v.proposals:
        hit = _paid_everywhere(v, result, proposed)
        if hit is None:
            continue
        actions = list(hit.actions)
        for index in reversed(range(len(actions))):
            fewer = actions[:index] + actions[index + 1 :]
            if fewer and (shorter := _paid_everywhere(v, result, fewer)) is not None:
                actions, hit = fewer, shorter
        text = f"{str(actions)[:120]}, proposed without a task, is paid {hit.total:g} at {hit.ref}"
        result.add("proposed", f"{text}, as on {ALONE} tasks of {ALONE}", replay=hit.replay, paid=ALONE, tasks=ALONE)


def _paid_everywhere(v: Validation, result: CheckResult, actions: str | Sequence[str]) -> ValidationEpisode | None:
    """The episode of one of many tasks, on each of which the same actions are paid; None where they are not.

    A fault that they provoke is a finding.
    """
    hits: list[ValidationEpisode] = []
    limits = {"turns": 3, "until": v.paid} if isinstance(actions, str) else {}
    for ref in v.many_refs[:ALONE]:
        try:
            played = v.plays(ref, actions, **limits)
        except NotApplicable:
            return None
        result.tries += 1
        if not played.valid and v.shown(played, lambda again: not again.valid):
            result.add("a call", f"{str(actions)[:80]} ends {ref} with a fault: {played.error}", replay=played.replay)
            return None
        if not v.paid(played) or v.by_moves(played) or v.pays_each_turn:
            return None
        hits.append(played)
    several = len({hit.observations[0] for hit in hits}) > 1  # of one task alone, they may be its solution
    best = max((hit.total for hit in hits), default=0.0)
    return hits[0] if several and len(hits) == ALONE and best > v.wrong_pay and v.shown(hits[0], v.paid) else None
