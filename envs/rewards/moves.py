"""The natural ways to write one move: what a reply says it plays, rewritten to the plain form that games take.

Where a move stands follows the extraction contract: the last box, else the ``action`` or ``answer`` tag, else "the
answer is ...", else a last line that begins with ``Move:``, ``Action:`` or the like, else the whole reply.
``plainer_moves`` drops what does not change which move is meant: markup, "my move is", "I will", a verb such as "go",
"the", the game's own nouns ("arm", "column"). Whatever else is said stays, and the game refuses it: a hedge ("left or
right"), a negation ("not left"), a condition or a second move.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from rlvr.envs.rewards.dressing import plain
from rlvr.envs.rewards.extraction import MAX_COMPLETION_CHARS, extract_visible, last_tagged, visible_text

MAX_MOVE_CHARS: Final = 500

# Verbs that mean "I choose", and others that a game may not have of its own; a game's own verbs are kept.
CHOOSING: Final = frozenset({"choose", "select", "play", "guess", "try", "enter", "answer", "say", "do", "submit"})
VERBS: Final = CHOOSING | {
    "go", "move", "walk", "head", "step", "pick", "use", "press", "click", "slide", "push", "shift", "swipe", "jump",
    "flip", "reveal", "open", "name", "mark", "drop", "take", "call", "place", "fire", "shoot",
}  # fmt: skip
# Small words that may follow such a verb.
_PARTICLES: Final = frozenset({"with", "for", "to", "at", "on", "in", "into"})
_NOUN = r"(?:move|action|guess|choice|play|command|answer|decision|pick|step|input)"
_LABELLED = rf"(?:(?:my|the|next|final|chosen|best|first) ){{0,3}}{_NOUN}"
_LAST_LINE = re.compile(rf"[ \t*_#>-]{{0,8}}{_LABELLED}[*_ \t]{{0,4}}:([^\n]{{0,600}})", re.IGNORECASE)
_ANY_LABEL = re.compile(rf"\b{_NOUN}[*_ \t]{{0,4}}:(.*)", re.IGNORECASE)
_OPENERS = re.compile(r"(?:(?:so|then|thus|therefore|hence|ok|okay|alright|finally)(?:, ?| ))+")
_NAMED = re.compile(
    rf"(?:{_LABELLED}(?: now)?(?: (?:is|will be|would be)(?: to)?:? ?| ?[:=] ?)"
    r"|(?:it|it's|the next (?:card|one|number)|the (?:word|code|secret|number|secret (?:word|code|number)))"
    r"(?: is|(?<='s)| will be) )"
)
_SUBJECT = re.compile(
    r"(?:(?:i|we)(?: will|'ll|'d like to| would like to| am going to|'m going to| want to| choose to| decide to| shall)"
    r"(?: now)? |i am |i'm |(?:i|we)(?: now)? |let me |let's |let us |please )"
)
_GERUNDS: Final = {f"{verb.removesuffix('e')}ing": verb for verb in VERBS}


def move_text(reply: str) -> str:
    """Where the move stands in a reply: the content of the marker that ranks highest, or the whole of it."""
    if len(reply) > MAX_COMPLETION_CHARS:
        return ""
    text = visible_text(reply)
    tagged = last_tagged(text, "action")
    if "\\boxed" not in text and tagged is not None:
        return tagged
    extraction = extract_visible(text, max_chars=MAX_MOVE_CHARS)
    if extraction.marker is not None:
        return extraction.answer or ""
    return _last_line(text) or text


def _last_line(text: str) -> str:
    """What the last line names as the move, unless another line names another."""
    lines = [line for line in text[-10 * MAX_MOVE_CHARS :].splitlines() if line.strip()]
    if not lines or not _LAST_LINE.fullmatch(lines[-1]):
        return ""
    labelled = [label[1].replace("**", "").strip() for line in lines if (label := _ANY_LABEL.search(line))]
    return labelled[-1] if len({move.casefold() for move in labelled}) == 1 else ""


def plainer_moves(reply: str, verbs: Collection[str] = (), nouns: Collection[str] = ()) -> Iterator[str]:
    """The move of a reply in plainer and plainer words, each once, in small letters and with single blanks.

    Args:
        reply: what the policy wrote; hostile text is expected.
        verbs: words that moves of this game begin with; they are never dropped.
        nouns: words that this game's moves may have without another meaning, such as "column".
    """
    return plainer_texts(move_text(reply), verbs, nouns)


def plainer_texts(text: str, verbs: Collection[str] = (), nouns: Collection[str] = ()) -> Iterator[str]:
    """``plainer_moves`` of a text that is nothing but the move."""
    if not text.strip() or len(text) > MAX_MOVE_CHARS:
        return
    if text.isascii() and text.isalnum():  # one word: nothing stands around it
        word = text.lower()
        if word != "the" and word not in nouns:
            yield word
        return
    texts: list[str] = []
    for written in _plainer(_undressed(text.replace("\u2019", "'").lower()), verbs, nouns):
        if written and written.isascii() and written not in texts:
            texts.append(written)
            yield written


def _plainer(text: str, verbs: Collection[str], nouns: Collection[str]) -> Iterator[str]:
    yield text
    bare = _OPENERS.sub("", text, count=1) if _OPENERS.match(text) else text
    named = _NAMED.match(bare)
    if named and bare[named.end() :]:
        bare = _undressed(bare[named.end() :])
        yield bare
    subject = _SUBJECT.match(bare)
    if subject:
        verb = bare[subject.end() :].partition(" ")[0]
        if verb in verbs or verb in VERBS or (verb in _GERUNDS and subject[0] in ("i am ", "i'm ")):
            bare = bare[subject.end() :]
            yield bare
    bare = _without_verb(bare, verbs)
    yield bare
    words = bare.split()
    dropped = {"the", *nouns}
    yield " ".join(word for word in words if word.strip(",") not in dropped)


def _undressed(text: str) -> str:
    """Without markup and quotes around the whole."""
    text = " ".join(plain(text).split()).removesuffix("!")
    if text[:2] == "> " and text[2:3].isalpha():  # "> open door", as games show it; "> 3" is another number
        text = text[2:]
    if len(text) > 2 and text[0] in "'\"" and text[0] == text[-1] and text[0] not in text[1:-1]:
        return text[1:-1].strip()
    return text


def _without_verb(text: str, verbs: Collection[str]) -> str:
    """Without a first verb that says only that a move follows, and the small words after it."""
    words = text.split()
    verb = words[0] if words else ""
    if words[:2] == ["go", "with"]:
        verb = "choose"
    if verb in verbs or (verb not in VERBS and _GERUNDS.get(verb, verb) not in VERBS):
        return text
    start = 1
    while start < len(words) - 1 and words[start] in _PARTICLES:
        start += 1
    return _undressed(" ".join(words[start:])) or text
