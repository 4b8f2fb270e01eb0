"""One legal action, exactly as the environment lists it. Shared by every game, so that all read a move in one way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import plainer_texts
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.extraction import (
    MARKERS,
    MAX_COMPLETION_CHARS,
    MAX_TRAILING_CHARS,
    check_markers,
    extract_visible,
    last_tagged,
    visible_text,
)

_WRAPPER = re.compile(r"\\(?:text|texttt|textbf|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_ACTION_LINE = re.compile(
    r"^[ \t*_#>-]{0,8}(?:next |my |final |chosen )?(?:action|move)[*_ \t]{0,4}:([^\n]{0,600})", re.I | re.M
)
_PAIRS = (("$", "$"), ("**", "**"), ("`", "`"), ('"', '"'), ("'", "'"), ("{", "}"), ("[", "]"), ("(", ")"), ("<", ">"))
MAX_ACTION_CHARS: Final = 500


def grade_action(
    completion: str,
    reference: str,
    *,
    legal: Iterable[str],
    bare: bool = True,
    markers: Sequence[str] = MARKERS,
) -> Verdict:
    """Grade one action: 1 for the legal action that is meant, 0 for any other, for none and for several.

    Args:
        completion: the model's reply.
        reference: the action that is meant, one of ``legal``.
        legal: the legal actions; case does not matter unless two of them differ by it alone.
        bare: whether ``Action: up``, or a reply that is nothing but one legal action, counts when no marker is there.
        markers: which answer markers count, see ``extraction``; ``<action>...</action>`` always does, first of all.

    Raises:
        BadReference, BadOption: the reference is not legal, or no action is.
    """
    actions = tuple(legal)
    if not actions or isinstance(legal, str) or not all(isinstance(action, str) for action in actions):
        raise BadOption(f"legal must be a non-empty collection of texts, got {legal!r}"[:200])
    if reference not in actions:
        raise BadReference(f"the reference {reference!r} is not one of the {len(actions)} legal actions"[:200])
    action, reason = read_action(completion, actions, bare=bare, markers=markers)
    if action is None:
        return unparsable(reason)
    return correct(action) if action == reference else wrong(action, "another legal action")


def read_action(
    completion: str, legal: Iterable[str], *, bare: bool = True, markers: Sequence[str] = MARKERS
) -> tuple[str | None, str]:
    """The one legal action that a reply means, or None and the reason why there is none."""
    check_markers(markers)
    text = visible_text(completion) if len(completion) <= MAX_COMPLETION_CHARS else ""
    tagged = last_tagged(text, "action")
    if tagged is not None:
        answer = tagged
    else:
        extraction = extract_visible(text, markers)
        if extraction.answer is None and (extraction.marker is not None or not bare):
            return None, extraction.reason
        lines = _ACTION_LINE.findall(text[-MAX_TRAILING_CHARS:]) if extraction.answer is None else []
        answer = extraction.answer if extraction.answer is not None else (lines[-1].strip("*_ \t") if lines else text)
    if len(answer) > 4 * MAX_ACTION_CHARS:
        return (
            None,
            "no action marker"
            if tagged is None
            else f"the action is over the cap of {4 * MAX_ACTION_CHARS:,} characters",
        )
    action = match_action(answer, legal)
    return (action, "") if action is not None else (None, f"{answer.strip()[:60]!r} is not exactly one legal action")


def match_action(answer: str, legal: Iterable[str]) -> str | None:
    """The legal action that a short text spells, dressing and letter case apart; None when it is not exactly one."""
    actions = tuple(legal)
    exact = _exactly(answer, actions)
    if exact is not None:
        return exact
    verbs = {word for action in actions for word in action.lower().split()[:1]}
    for plainer in plainer_texts(answer, verbs):
        if (match := _exactly(plainer, actions)) is not None:
            return match
    return None


def _exactly(answer: str, actions: Sequence[str]) -> str | None:
    """The legal action that a text is, in its dress."""
    text = answer.strip()
    for _ in range(5):
        if text in actions:
            return text
        folded = " ".join(text.split()).casefold() if text.isascii() else text
        matches = {action for action in actions if " ".join(action.split()).casefold() == folded}
        if len(matches) == 1:
            return matches.pop()
        undressed = _undress(text)
        if undressed == text or not undressed:
            return None
        text = undressed
    return None


def _undress(text: str) -> str:
    plain = _WRAPPER.sub(r"\1", text).strip()
    if plain != text:
        return plain
    for opening, closing in _PAIRS:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            return text[len(opening) : -len(closing)].strip()
    return text[:-1].rstrip() if text.endswith((".", "!")) else text
