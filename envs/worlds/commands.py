"""Commands: what a player of a text world may write, and how it is read.

A command is a verb phrase with up to two nouns: ``take brass key``, ``put the key in the chest``. It stands in the
last ``\\boxed{}`` of a reply, or is the whole reply when that is one short line. Verbs have synonyms; articles,
letter case and a closing full stop do not count. Nothing is guessed: a noun is one whole name, or the last words of
one, as "key" is of "brass key".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from rlvr.envs.rewards.dressing import CHOOSING, VERBS, plainer_moves
from rlvr.envs.rewards.extraction import MAX_COMPLETION_CHARS, extract_visible, visible_text

LONGEST = 120  # characters of a command
BOX_ONLY = ("boxed",)
ARTICLES = frozenset({"a", "an", "the", "my", "your"})
LEADS = ("my ", "the ", "i ", "we ", "next ", "so ", "then ")
DIRECTIONS = ("north", "east", "south", "west")
WAYS = {name: way for way in DIRECTIONS for name in (way, way[0])}


class Impossible(Exception):
    """A command that cannot be carried out now; its text tells the player what can be."""


class Command(NamedTuple):
    """A command that was understood: the form's verb, and its nouns as they were written, in small letters."""

    verb: str
    first: str = ""
    second: str = ""


class Form(NamedTuple):
    """One form of command.

    Attributes:
        shape: how it is shown to the player, nouns in capitals: "put OBJECT in PLACE".
        starts: the phrases that may begin it, between bars; the first is the verb's name.
        joins: the words that may stand between two nouns, between bars.
        needed: whether the second noun must be there.
    """

    shape: str
    starts: str
    joins: str = ""
    needed: bool = True

    @property
    def verb(self) -> str:
        """The first of the verbs that the form begins with."""
        return self.starts.partition("|")[0]


# Forms that most worlds have; a `Grammar` takes them by their verbs.
STANDARD = {
    form.verb: form
    for form in (
        Form("go DIRECTION", "go|go to|walk|walk to|move|run|head"),
        Form("look", "look|look around|l"),
        Form("inventory", "inventory|check inventory|inv|i"),
        Form("examine OBJECT", "examine|look at|inspect|study|read|x"),
        Form("take OBJECT", "take|pick up|get|grab|collect"),
        Form("drop OBJECT", "drop|put down|discard|leave"),
        Form("put OBJECT in PLACE", "put|place|insert|stow|lay", "in|into|inside|on|onto"),
        Form("open OBJECT", "open"),
        Form("close OBJECT", "close|shut"),
        Form("unlock OBJECT with KEY", "unlock", "with|using", needed=False),
    )
}


def read_command(action: str) -> str | None:
    """The text of the command in a reply, in small letters and single blanks; None when there is none.

    None as well for what is longer than a command may be, has several lines or other letters than English ones.
    """
    if len(action) > MAX_COMPLETION_CHARS:
        return None
    text = visible_text(action)
    if "\\boxed" in text or "\\fbox" in text:
        text = extract_visible(text, BOX_ONLY).answer or ""
        if text.startswith("\\text{") and text.endswith("}"):
            text = text[6:-1]
    else:
        text = text.strip()
    if not 0 < len(text) <= LONGEST or "\n" in text or not (text.isascii() and text.isprintable()):
        return None
    return " ".join(text.lower().rstrip(".! ").split()) or None


class Grammar:
    """The forms of one game. Several phrases may begin alike: the longest that fits is taken.

    Args:
        forms: forms, and verbs of `STANDARD` ones with blanks between: ``Grammar("go look", Form("ring", "ring"))``.
    """

    def __init__(self, *forms: Form | str) -> None:
        listed = ((form,) if isinstance(form, Form) else map(STANDARD.__getitem__, form.split()) for form in forms)
        self.forms: tuple[Form, ...] = tuple(chain.from_iterable(listed))
        self._verbs = frozenset(form.verb for form in self.forms)
        self._starts: dict[str, list[tuple[list[str], Form]]] = {}
        for form in self.forms:
            for phrase in form.starts.split("|"):
                words = phrase.split()
                self._starts.setdefault(words[0], []).append((words, form))
        for starts in self._starts.values():
            starts.sort(key=lambda start: -len(start[0]))

    @property
    def shapes(self) -> str:
        """All forms, as a player is told them."""
        return "; ".join(form.shape for form in self.forms)

    def read(self, action: str) -> tuple[str, Command | str]:
        """The command of a reply, as written and as understood; a text in place of either says why there is none."""
        text = read_command(action)
        command = "" if text is None else self.parse(text)
        if isinstance(command, str) or (text or "").startswith(LEADS):
            for plainer in plainer_moves(action, self._starts.keys() | (VERBS - CHOOSING)):
                # The plainest that is a command: "my move is" begins as "move" does.
                if not isinstance(parsed := self.parse(plainer), str):
                    text, command = plainer, parsed
        return text or "", command

    def parse(self, text: str) -> Command | str:
        """The command, or what to tell the player about a text that is none."""
        words = [word for word in text.split() if word not in ARTICLES]
        if len(words) == 1 and words[0] in WAYS and "go" in self._verbs:
            return Command("go", WAYS[words[0]])
        for phrase, form in self._starts.get(words[0], ()) if words else ():
            if words[: len(phrase)] == phrase:
                return _nouns(form, words[len(phrase) :])
        return f"That is not a command here. Commands: {self.shapes}."


def _nouns(form: Form, rest: list[str]) -> Command | str:
    if not any(word.isupper() for word in form.shape.split()):
        return Command(form.verb) if not rest else f"The command {form.shape} takes no more words."
    if form.joins:
        joins = form.joins.split("|")
        index = next((i for i, word in enumerate(rest) if word in joins), None)
        if index is not None and 0 < index < len(rest) - 1:
            return Command(form.verb, " ".join(rest[:index]), " ".join(rest[index + 1 :]))
        if form.needed or index is not None:
            return f"Write it as: {form.shape}."
    return Command(form.verb, " ".join(rest)) if rest else f"Write it as: {form.shape}."


def matches(noun: str, names: Iterable[str]) -> list[str]:
    """The names that a noun may mean: the one it is, else those that end in its words."""
    words, candidates = noun.split(), []
    for name in names:
        if name.lower() == noun:
            return [name]
        if name.lower().split()[-len(words) :] == words:
            candidates.append(name)
    return candidates


def choose(noun: str, names: Sequence[str], missing: str) -> str:
    """The one name that a noun means.

    Raises:
        Impossible: it means several or none; the text for none begins with ``missing`` and lists the names.
    """
    candidates = matches(noun, names)
    if len(candidates) > 1:
        raise Impossible(f"Which do you mean: {listing(candidates, 'or')}?")
    if not candidates:
        raise Impossible(f"{missing} {listing(names)}.")
    return candidates[0]


def listing(names: Iterable[str], word: str = "and") -> str:
    """ "a, b and c"; "nothing" for none."""
    *others, last = list(names) or ["nothing"]
    return f"{', '.join(others)} {word} {last}" if others else last
