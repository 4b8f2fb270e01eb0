"""Reads a proof script: sentences that are tactics, and nothing else that Rocq would carry out.

What is read is handed to the prover sentence by sentence. Commands begin with a capital letter or an attribute, so that
the first word of a sentence tells them from tactics; comments are taken out and strings are refused, so that nobody but
this file decides where a sentence ends.
"""

from __future__ import annotations

import re
from typing import Final

from rlvr.envs.rewards.extraction import visible_text

MAX_REPLY: Final = 20_000  # characters
MAX_SENTENCES: Final = 600  # of a whole script
_FENCE: Final = re.compile(r"^[ \t]*```[ \t]*(?:coq|rocq|Coq|Rocq)?[ \t]*$", re.MULTILINE)
_COMMENT: Final = re.compile(r"\(\*|\*\)")
_STRANGE: Final = re.compile(r"[^\t\n\x20-\x7e]")
# The goals that a sentence is for.
_GOALS: Final = r"(?:(?:[0-9]+(?:\s*[-,]\s*[0-9]+)*|all|par|!|\[\s*\w+\s*\])\s*:\s*)"
_MARKS: Final = re.compile(rf"(?:[-+*{{}}\s]|{_GOALS}\{{)*", re.ASCII)  # bullets and braces
_SELECTOR: Final = re.compile(f"{_GOALS}?", re.ASCII)
# A qualified name, such as Z.div_mod_to_equations, is no command either.
_TACTIC: Final = re.compile(r"[a-z_(\[]|[A-Z]\w*\.[a-z_]", re.ASCII)


class ScriptError(ValueError):
    """A reply that is no proof script; the message says why, for whoever wrote it."""


def read_script(reply: str) -> list[str]:
    """The sentences of a reply, each on one line; ``Restart.`` may be the first. ``Proof.`` and ``Qed.`` are left out.

    Raises:
        ScriptError: it holds no sentence, or something else than tactics.
    """
    text = visible_text(reply)
    if len(text) > MAX_REPLY:
        raise ScriptError(f"a reply has {MAX_REPLY:,} characters at most")
    pieces = _FENCE.split(text.replace("\r\n", "\n"))
    text = _without_comments("\n".join(pieces[1::2]) if len(pieces) > 1 else text)
    strange = _STRANGE.search(text)
    if strange:
        raise ScriptError(f"outside of comments a script is ASCII, and U+{ord(strange[0]):04X} is not")
    if '"' in text:
        raise ScriptError("a script holds no strings: write it without quotation marks")
    sentences = [part for each in re.split(r"(?<=\.)\s+", text.strip()) for part in _parts(" ".join(each.split()))]
    if not sentences:
        raise ScriptError("there is no tactic in it")
    if sentences[0] == "Restart.":
        return ["Restart.", *_tactics(sentences[1:])]
    return _tactics(sentences)


def _parts(sentence: str) -> list[str]:
    """The bullets and braces before a tactic, and the tactic."""
    end = _end(_MARKS, sentence)
    return [part for part in (sentence[:end].strip(), sentence[end:]) if part]


def _end(pattern: re.Pattern[str], text: str) -> int:
    """Where a pattern ends that matches at the beginning of any text."""
    found = pattern.match(text)
    return found.end() if found else 0


def _tactics(sentences: list[str]) -> list[str]:
    if sentences and sentences[0] == "Proof.":
        sentences = sentences[1:]
    if sentences and sentences[-1] in ("Qed.", "Defined."):
        sentences = sentences[:-1]
    for sentence in sentences:
        if _end(_MARKS, sentence) == len(sentence):
            continue
        if not _TACTIC.match(sentence, _end(_SELECTOR, sentence)):
            raise ScriptError(f"{sentence[:60]!r} is no tactic: commands such as Lemma or Admitted are not taken")
        if not sentence.endswith("."):
            raise ScriptError(f"{sentence[-60:]!r} has no full stop behind it")
    return sentences


def _without_comments(text: str) -> str:
    """The text with a blank in the place of each comment; they may stand inside of each other."""
    kept, depth, start = list[str](), 0, 0
    for mark in _COMMENT.finditer(text):
        if depth == 0:
            kept.append(text[start : mark.start()])
        depth += 1 if mark[0] == "(*" else -1
        start = mark.end()
        if depth < 0:
            raise ScriptError("a comment is closed that was not opened")
    if depth:
        raise ScriptError("a comment is not closed")
    return " ".join([*kept, text[start:]])
