"""Chat templates: rendered in a worker process, and what they write around messages, found out by rendering some.

A template comes with a model, and is a stranger's program: a few characters of it can loop for hours or ask C code for
all of the memory, so the worker has limits of processor time and memory, and is killed and replaced when one is passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from rlvr.envs.core.hints import nearest
from rlvr.envs.rewards.errors import WorkerError, WorkerFailed, WorkerSpent, WorkerTimeout
from rlvr.envs.rewards.workers import named_pool

CPU_SECONDS: Final = 5.0  # thousands of times what a template takes
_HERE: Final = __name__

Turn = tuple[str, str]  # role, content
Render = Callable[[Sequence[Turn], bool], "str | None"]

OPENING, CLOSING = "<think>", "</think>"  # how environments read thoughts
_TAG = re.compile(r"(<[|｜]?|\[|◁)([^<>\[\]◁▷\s|｜/][^<>\[\]◁▷\s|｜]{0,40})([|｜]?>|\]|▷)")
_THOUGHT = re.compile("think|thought|reason", re.IGNORECASE)
_CONTENTS: Final = "\ue001\ue002\ue003\ue004"


class TemplateStopped(ValueError):
    """A chat template passed a limit of time or memory, or no worker could render it."""


def render_template(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] | None,
    options: Mapping[str, Any],
    *,
    generate: bool,
) -> str:
    """What a tokenizer's chat template makes of messages; a tokenizer of no template of Jinja renders by its own code.

    Args:
        options: variables for the template, which survive JSON.
        generate: whether the prompt for a reply stands at the end.

    Raises:
        TemplateStopped: it passed a limit, or there is no worker.
        ValueError: the template fails.
    """
    from transformers import PreTrainedTokenizerBase

    if type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
        return str(
            tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=generate, **options
            )
        )
    template = tokenizer.get_chat_template(None, tools)
    arguments = [template, messages, tools, generate, {**tokenizer.special_tokens_map, **options}]
    try:
        return str(named_pool(f"{_HERE}:load").call(f"{_HERE}:render", arguments, CPU_SECONDS))
    except WorkerSpent as spent:
        raise TemplateStopped(f"the chat template did not finish: {spent}") from None
    except WorkerTimeout as late:
        raise TemplateStopped(f"the chat template did not finish, {late}") from None
    except WorkerFailed as failed:
        raise ValueError(str(failed)) from None
    except WorkerError as error:
        raise TemplateStopped(f"the chat template could not be rendered: {error}") from None


def require_variables(tokenizer: Any, options: Mapping[str, Any]) -> None:
    """Check that no option is spelt like a variable of a tokenizer's chat template, and is none.

    An option that no variable is like does nothing: a config may go with several models.

    Raises:
        ValueError: one is; the variable is named.
        TemplateStopped: the template could not be read within the limits.
    """
    template = getattr(tokenizer, "chat_template", None)
    if not options or not isinstance(template, str):
        return
    try:
        names = named_pool(f"{_HERE}:load").call(f"{_HERE}:variables", [template], CPU_SECONDS)
    except WorkerFailed:
        return  # rendering says what is wrong with the template
    except WorkerError as error:
        raise TemplateStopped(f"the chat template could not be read: {error}") from None
    for name in options:
        if name not in names and (near := nearest(name, names)):
            raise ValueError(f"the chat template has no variable {name!r}; did you mean {near!r}?")


def load() -> None:
    """Import what a worker needs."""
    from transformers.utils import chat_template_utils

    chat_template_utils.render_jinja_template([[{"role": "user", "content": ""}]], chat_template="-")


def render(
    template: str, messages: list[Any], tools: list[Any] | None, generate: bool, variables: dict[str, Any]
) -> str:
    """What the worker does."""
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered: Any = render_jinja_template(
        [messages], tools=tools, chat_template=template, add_generation_prompt=generate, **variables
    )
    return str(rendered[0][0])


def variables(template: str) -> list[str]:
    """What the worker does to know the names that a template reads and does not set."""
    from jinja2 import Environment, meta

    return sorted(meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template)))


# what a template writes around messages


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
    begins_reply, ends_reply = segments[1], segments[2]  # a preamble may speak of tags, as R1-Zero's does
    for tag in reversed(list(_TAG.finditer(asked))):
        candidates = list(_end_tags(tag))
        end_tag = next((each for each in candidates if each in tokens or each in source), None)
        if end_tag is None and tag[1] in ("<", "["):
            end_tag = candidates[0]
        if end_tag is None or end_tag in ends_reply or tag[0] in ends_reply:
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
