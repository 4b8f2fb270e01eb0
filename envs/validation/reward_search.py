"""Search by the reward: solutions of other tasks are changed, and kept where they are paid.

What is left is held against the expert's answers: words that are paid on tasks whose solutions are others do no work.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Sequence
from typing import Any, Final

from rlvr.envs.validation.clock import now
from rlvr.envs.validation.context import HARD, SLACK, Skip, Validation, check
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.subject import NotApplicable, ValidationEpisode

EPISODES: Final = 480  # of a search, or as many as are played in
SECONDS: Final = 3.0
LEARNT: Final = 4  # tasks that are searched on
TESTED: Final = 10  # others, on which the same actions are played
KEPT: Final = 32  # episodes that were paid most, of which later ones are made
LONGEST: Final = 24  # actions of a solution
SHARE: Final = 0.9  # of the other tasks on which the same actions are paid
GAIN: Final = 0.05  # of the range of rewards that they earn there above twice what solutions of other tasks do
CUTS: Final = 30  # tries to make a finding shorter


@check(
    "statistical.gameability_gap",
    HARD,
    "No actions that a search guided by the reward finds are paid on tasks whose solutions are others.",
    number=27,
    remedy="Read the minimal actions that are paid, and ask what work they do.",
)
def gameability_gap(v: Validation, result: CheckResult) -> None:
    """Search on four tasks, and play what was paid there on ten others."""
    if not v.subject.texts or v.has_luck:
        raise Skip("luck has a part" if v.subject.texts else "actions are no texts")
    solved = [episode for episode in v.experts if episode.valid and 0 < len(episode.actions) <= LONGEST]
    if len(solved) < 2 * LEARNT:
        raise Skip("too few solutions are known to change")
    learnt = solved[:: len(solved) // LEARNT][:LEARNT]
    rest = [episode for episode in solved if all(episode is not each for each in learnt)]
    tested = rest[:: max(1, len(rest) // TESTED)][:TESTED]
    for played in _searched(v, result, learnt, solved):
        share, mean = _elsewhere(v, tested, played.actions)
        result.measured["best share"] = max(result.measured.get("best share", 0.0), round(share, 2))
        if share < SHARE or mean <= 2 * max(0.0, v.wrong_pay) + GAIN * v.width:
            continue
        played = _shorter(v, tested, played)
        share, mean = _elsewhere(v, tested, played.actions)
        if v.shown(played, v.paid):
            words = ", ".join(repr(action[:40]) for action in played.actions[:3])
            text = f"{words}, found by a search, is paid {played.total:g} at {played.ref}, and {mean:.2g} on "
            text += f"{share:.0%} of other tasks; solutions of others are paid {v.wrong_pay:.2g} there"
            severity: Any = "high" if mean >= 0.5 * v.range.high else "medium"
            result.add("search", text, severity=severity, replay=played.replay, share=share, pay=mean)
            return


def _searched(
    v: Validation, result: CheckResult, learnt: Sequence[ValidationEpisode], solved: Sequence[ValidationEpisode]
) -> list[ValidationEpisode]:
    """The episodes that were paid most and are no solutions of their tasks, the shortest of them first."""
    rng, until = random.Random(v.seed), now() + SECONDS
    kept: dict[tuple[str, ...], ValidationEpisode] = {}
    words = list(dict.fromkeys(word for episode in learnt for word in re.findall(r"\S+", episode.asked)))
    for number in range(EPISODES):
        if now() > until:
            break
        goes_on = kept and rng.random() < 0.5
        known = rng.choice([*kept.values()] if goes_on else solved).actions
        own, actions = learnt[number % LEARNT], _changed(known, solved, words, rng)
        with contextlib.suppress(NotApplicable):
            played = v.plays(own.ref, actions)
            result.tries += 1
            if played.actions != own.actions and v.paid(played):
                kept.setdefault(tuple(played.actions), played)
        if len(kept) > 2 * KEPT:
            kept = {tuple(each.actions): each for each in _ranked(kept.values())[:KEPT]}
    return _ranked(kept.values())[:KEPT]


def _ranked(episodes: Any) -> list[ValidationEpisode]:
    return sorted(episodes, key=lambda each: (-each.total, sum(map(len, each.actions))))


def _changed(
    known: Sequence[str], solved: Sequence[ValidationEpisode], words: list[str], rng: random.Random
) -> list[str]:
    """Actions with one left out, put in or changed, or without what comes before one; sometimes as they are."""
    actions, at = list(known), rng.randrange(len(known))
    match rng.randrange(5):
        case 0 if len(actions) > 1:
            del actions[at]
        case 1:
            del actions[:at]
        case 2:
            actions.insert(at, rng.choice(rng.choice(solved).actions))
        case 3:
            actions[at] = mutated(actions[at], words, rng)
    return actions[-LONGEST:]


def mutated(text: str, words: list[str], rng: random.Random) -> str:
    """A text with a word put in, left out, said again or exchanged."""
    pieces = text.split()
    kind = rng.randrange(4)
    at = rng.randrange(len(pieces) + 1)
    if kind == 0 and pieces:
        del pieces[min(at, len(pieces) - 1)]
    elif kind == 1 and pieces:
        pieces *= 2
    elif words:
        pieces[at : at + (kind == 2)] = rng.sample(words, min(len(words), rng.randint(1, 6)))
    return " ".join(pieces[:400])


def _elsewhere(v: Validation, tested: Sequence[ValidationEpisode], actions: Sequence[str]) -> tuple[float, float]:
    """On which share of the tasks that have another solution actions are paid, and their mean return there."""
    others = [episode for episode in tested if episode.actions != list(actions)]
    if len(others) < LEARNT:
        return 0.0, 0.0
    played = [v.plays(episode.ref, actions) for episode in others]
    return sum(map(v.paid, played)) / len(others), sum(each.total for each in played if each.valid) / len(others)


def _shorter(v: Validation, tested: Sequence[ValidationEpisode], found: ValidationEpisode) -> ValidationEpisode:
    """The episode with actions, and then words of them, left out as long as it is paid as much, here and elsewhere."""
    _, least = _elsewhere(v, tested, found.actions)

    def holds(actions: Sequence[str]) -> bool:
        share, mean = _elsewhere(v, tested, actions)
        return share >= SHARE and mean >= least - SLACK * v.width and v.paid(v.plays(found.ref, actions))

    actions, tries = list(found.actions), CUTS
    for at in reversed(range(len(actions))):
        tries -= 1
        fewer = actions[:at] + actions[at + 1 :]
        if fewer and tries > 0 and holds(fewer):
            actions = fewer
    for at, action in enumerate(actions):
        pieces = action.split(" ")
        for index in reversed(range(len(pieces))):
            tries -= 1
            rest = pieces[:index] + pieces[index + 1 :]
            if rest and tries > 0 and holds([*actions[:at], " ".join(rest), *actions[at + 1 :]]):
                pieces = rest
        actions[at] = " ".join(pieces)
    return v.plays(found.ref, actions)
