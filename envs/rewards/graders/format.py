"""Format rewards: does a reply consist of the tagged blocks it was asked for, in order, and of nothing else?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.errors import BadOption
from rlvr.envs.rewards.extraction import MARKERS, MAX_COMPLETION_CHARS, extract

_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")


def grade_format(
    completion: str,
    reference: object = None,
    *,
    tags: Sequence[str] = ("think", "answer"),
    opened: bool = False,
    final: Sequence[str] = (),
) -> Verdict:
    """1 when the reply is ``<think>...</think><answer>...</answer>`` (or the tags given), else 0 and why.

    Each tag opens and closes exactly once, in order, around something; only blanks stand outside.

    Args:
        completion: the model's reply.
        reference: not used; a format has none.
        tags: names of the blocks, in order.
        opened: the prompt already opened the first block, as the chat templates of reasoning models do; the reply may
            then leave out the first opening tag.
        final: answer markers of which the reply must also hold one with something in it, see ``extraction``.

    Raises:
        BadOption: a tag is not a name, or none is given.
    """
    names = tuple(tags)
    if isinstance(tags, str) or not names or not all(_TAG_NAME.fullmatch(name) for name in names):
        raise BadOption(f"tags must be a non-empty sequence of names, got {tags!r}"[:200])
    if len(set(names)) != len(names):
        raise BadOption(f"tags must differ, got {tags!r}"[:200])
    if any(marker not in MARKERS for marker in final):
        raise BadOption(f"final must be some of {MARKERS}, got {final!r}"[:200])
    if len(completion) > MAX_COMPLETION_CHARS:
        return unparsable(f"the reply is over the cap of {MAX_COMPLETION_CHARS:,} characters")
    text = completion.strip()
    if opened and not text.startswith(f"<{names[0]}>"):
        text = f"<{names[0]}>{text}"
    fault = _fault(text, names)
    if not fault and final:
        fault = extract(completion, final).reason
    return wrong(reason=fault) if fault else correct(reason="the format is kept")


def _fault(text: str, names: Sequence[str]) -> str:
    """What is wrong with the blocks; empty when nothing is."""
    position = 0
    for name in names:
        opening, closing = f"<{name}>", f"</{name}>"
        if text.count(opening) != 1 or text.count(closing) != 1:
            return f"{opening} and {closing} must each stand exactly once"
        start, end = text.find(opening), text.find(closing)
        if text[position:start].strip() or start < position:
            return f"text outside the tags, before {opening}"
        if not text[start + len(opening) : end].strip():
            return f"nothing between {opening} and {closing}"
        position = end + len(closing)
    return f"text outside the tags, after </{names[-1]}>" if text[position:].strip() else ""
