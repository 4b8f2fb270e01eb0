"""Words that the code looks for and no text names: paid beside a wrong answer, they decide the reward alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Final

from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.source import words_looked_for
from rlvr.envs.validation.subject import NotApplicable, TaskRef, ValidationEpisode

WORDS: Final = 60  # that are tried
TASKS: Final = 6  # on each of which a word must be paid
TURNS: Final = 20
FORMS: Final = 5


def attack_by_code_words(v: Validation, result: CheckResult) -> None:
    """Write each word that the code looks for alone, and beside another task's answer; none is paid on every task."""
    if v.subject.discrete or not v.subject.texts or len(v.refs) < 3:
        return
    refs = v.refs[:: max(1, len(v.refs) // TASKS)][:TASKS]
    known = "\n".join(v.opening(ref).asked for ref in refs[:2]).lower()
    known += "\n".join(action for episode in v.experts for action in episode.actions).lower()
    words = [word for word in words_looked_for(v.author) if word.strip().lower() not in known]
    for word in words[:WORDS]:
        for form in range(FORMS):
            if (played := _paid_everywhere(v, result, refs, word, form)) is not None:
                text = f"{word!r}, which the code looks for and no text names, is paid {played.total:g}"
                text += (
                    f" without the work: {played.actions[0][:60]!r} at {played.ref}, and so on all of {len(refs)} tasks"
                )
                result.add("a word of the code", text, replay=played.replay)
                return


def _paid_everywhere(
    v: Validation, result: CheckResult, refs: list[TaskRef], word: str, form: int
) -> ValidationEpisode | None:
    shown = None
    for ref in refs:
        if (pair := next(islice(_forms(v, ref, word), form, None), None)) is None:
            return None
        wrong, with_word = pair
        with contextlib.suppress(NotApplicable):
            result.tries += 1
            played = v.plays(ref, with_word, turns=TURNS, until=v.paid)
            if not v.paid(played):
                return None
            without = v.plays(ref, wrong, turns=TURNS, until=v.paid)
            if without.total >= played.total - 1e-9:
                return None
            shown = shown or played
    return shown if shown is not None and v.shown(shown, v.paid) else None


def _forms(v: Validation, ref: TaskRef, word: str) -> Iterator[tuple[str, str]]:
    """Pairs of a wrong reply and the same with the word."""
    index = next(i for i, each in enumerate(v.refs) if each is ref)
    own = v.gold[index] if index < len(v.gold) else ""
    wrong = next((reply for reply in v.gold[index + 1 :] + v.gold[:index] if reply and reply != own), "I do not know.")
    yield "", word
    yield wrong, f"{wrong} {word}"
    yield wrong, f"{word} {wrong}"
    yield wrong, f"{wrong}\n{word}"
    if "\n" in wrong.strip():  # lines that are marked one by one
        yield wrong, "\n".join(f"{line} {word}" for line in wrong.splitlines())
