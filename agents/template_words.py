"""What a chat template writes around messages, found out by rendering some, and the thought that its prompt opens."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

Turn = tuple[str, str]  # role, content
Render = Callable[[Sequence[Turn], bool], "str | None"]

OPENING, CLOSING = "<think>", "</think>"  # how environments read thoughts
_TAG = re.compile(r"(<[|｜]?|\[|◁)([^<>\[\]◁▷\s|｜/][^<>\[\]◁▷\s|｜]{0,40})([|｜]?>|\]|▷)")
_THOUGHT = re.compile("think|thought|reason", re.IGNORECASE)
_CONTENTS: Final = "\ue001\ue002\ue003\ue004"


@dataclass(frozen=True, slots=True)
class ThoughtTags:
    """How a model spells the beginning and the end of a thought."""

    begin: str = OPENING
    end: str = CLOSING

    @property
    def usual(self) -> bool:
        """Whether environments read them as they are."""
        return (self.begin, self.end) == (OPENING, CLOSING)


@dataclass(frozen=True, slots=True)
class TemplateWords:
    """What a template writes around messages.

    Attributes:
        delimiters: words, no tokens, that alone tell one message's role from another's.
        tokens: the control tokens around messages; thoughts' tags are none of them.
        thought: the tags of the thought that the prompt opens, or of those that the tokenizer has tokens for.
        opened: the end of the prompt from that opening tag on; empty where it leaves no thought open.
    """

    delimiters: frozenset[str]
    tokens: frozenset[str]
    thought: ThoughtTags
    opened: str


def template_words(
    render: Render, control: re.Pattern[str], tokens: Collection[str], source: str, roles: Sequence[str]
) -> TemplateWords:
    """Find out what a template writes.

    Args:
        render: the template's text for turns, and whether it asks for a reply; None where the template refuses them.
        control: what finds a control token.
        tokens: the spellings of all control tokens.
        source: the template's program.
        roles: the roles besides the assistant's that it has.
    """
    between = {role: _segments(render, ["user", "assistant", role, "assistant"]) for role in roles}
    between |= {f"{role} first": _segments(render, [role, "user", "assistant", "user"]) for role in ("system",)}
    segments_of = {role: segments for role, segments in between.items() if segments}
    asked = (render([("user", _CONTENTS[0])], True) or "").partition(_CONTENTS[0])[2]
    usual = segments_of.get("user") or [""] * 5
    thought, opened = _opened_thought(asked, usual, tokens, source)
    if not opened:
        thought = next(_thoughts_of(tokens), ThoughtTags())
    around = {match for segments in segments_of.values() for part in segments for match in control.findall(part)}
    around |= set(control.findall(asked)) - {thought.begin, thought.end}
    return TemplateWords(
        frozenset(_delimiters(segments_of, control)),
        frozenset(around - {thought.begin, thought.end, OPENING, CLOSING}),
        thought,
        opened,
    )


def _segments(render: Render, roles: Sequence[str]) -> list[str] | None:
    """What stands before, between and behind the contents of messages; None where each is not shown once, in order."""
    text = render(list(zip(roles, _CONTENTS, strict=True)), False)
    if text is None or "".join(re.findall(f"[{_CONTENTS}]", text)) != _CONTENTS:
        return None
    return re.split(f"[{_CONTENTS}]", text)


def _delimiters(between: dict[str, list[str]], control: re.Pattern[str]) -> Iterator[str]:
    """The words that a text would have to hold to look like the end of a message, or like one of another role."""
    candidates = [segment for segments in between.values() for segment in segments[1:-1]]
    alike = [segments for role, segments in between.items() if " " not in role]
    for left, right in permutations(alike, 2):
        if left[2].startswith(right[2]):
            candidates.append(left[2][len(right[2]) :])
        if left[3].endswith(right[3]):
            candidates.append(left[3][: len(left[3]) - len(right[3])])
    for words in candidates:
        if len(words.strip()) > 1 and not control.search(words):
            yield words.strip()


def _opened_thought(
    asked: str, segments: Sequence[str], tokens: Collection[str], source: str
) -> tuple[ThoughtTags, str]:
    """The tags of a thought that the end of a prompt leaves open, and that end from the opening tag on."""
    begins_turn, begins_reply, ends_reply = segments[0] + segments[2], segments[1], segments[2]
    for tag in reversed(list(_TAG.finditer(asked))):
        candidates = list(_end_tags(tag))
        end_tag = next((each for each in candidates if each in tokens or each in source), None)
        if end_tag is None and tag[1] in ("<", "["):
            end_tag = candidates[0]
        if end_tag is None or end_tag in ends_reply or tag[0] in begins_turn:
            continue
        if tag[0] in begins_reply and end_tag not in begins_reply:
            continue
        if end_tag in asked[tag.end() :]:
            return ThoughtTags(), ""
        return ThoughtTags(tag[0], end_tag), asked[tag.start() :]
    return ThoughtTags(), ""


def _thoughts_of(tokens: Collection[str]) -> Iterator[ThoughtTags]:
    """Pairs of tokens that a model itself may put around a thought; the usual ones are none of them."""
    for spelling in sorted(tokens):
        tag = _TAG.fullmatch(spelling)
        if tag and _THOUGHT.search(spelling) and spelling != OPENING:
            for end_tag in _end_tags(tag):
                if end_tag in tokens:
                    yield ThoughtTags(spelling, end_tag)


def _end_tags(tag: re.Match[str]) -> Iterator[str]:
    """How the end of what a tag opens may be spelled."""
    left, name, right = tag.groups()
    yield f"{left}/{name}{right}"
    if "|" in left + right or "｜" in left + right:
        yield from (f"{left}end_{name}{right}", f"{left}{name}_end{right}", f"</{name}>")
        if left[-1] in "|｜" and right == ">":
            yield f"<{name}{left[-1]}>"
    for begin, end in (("start", "end"), ("begin", "end")):
        for change in (str, str.upper, str.capitalize):
            if change(begin) in name:
                yield f"{left}{name.replace(change(begin), change(end))}{right}"
