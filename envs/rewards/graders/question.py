"""Question answering: exact match and token F1 after the usual normalisation (SQuAD, arXiv 1606.05250)."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import plain
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.extraction import TAG_FIRST, Extraction, extract, first_sentence
from rlvr.envs.rewards.grammar.remarks import behind_verb, without_aside
from rlvr.envs.rewards.grammar.words import denies

MAX_WORDS: Final = 200

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb]")
_DOUBTED = re.compile(r"[?\uff1f][\s\"'`*_.!)}\]\u201d\u2019$]{0,20}$|~~")
_DASHES = str.maketrans("\u2212\u2013\u2010\u2011", "----")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_HALF_OF_DAY = re.compile(r"(?<=\d) ?([ap])\.?m\b\.?")
_YES_OR_NO = re.compile(
    r"(?:(?P<yes>yes),? (?:it|they|she|he|there|we|this|that) (?:is|are|does|do|can|will|was|has|have)"
    r"|(?P<no>no),? (?:it|they|she|he|there|we|this|that) (?:is|are|does|do|can|will|was|has|have)"
    r"(?:n['\u2019]t| not|not))[.!]?",
    re.IGNORECASE,
)
_LIFE = re.compile(r"(?<=[a-z]) \((?:born [0-9]{4}|[0-9]{3,4} ?[-\u2013] ?[0-9]{3,4})\)$")
_ARTICLE_FIRST = re.compile(r"\W{0,4}(?:an?|the)\b", re.IGNORECASE)
_APPOSITION = re.compile(r", (?:an?|the|in|from) [A-Za-z]{1,30}(?: [A-Za-z]{1,30}){1,8}$")
_WRAPPER = re.compile(r"\\(?:text|textbf|textrm|textit|mathrm|mbox)\s*\{([^{}]*)\}")


def grade_exact(
    completion: str, reference: str | Sequence[str], *, normalize: bool = True, markers: Sequence[str] = TAG_FIRST
) -> Verdict:
    """1 when the answer is one of the references, case, punctuation, articles and blanks aside.

    Args:
        completion: the model's reply.
        reference: the right answer, or several spellings of it.
        normalize: compare normalised text; otherwise the extracted text as it stands.
        markers: which answer markers count, see ``extraction``.

    Raises:
        BadReference, BadOption: the reference or an option is malformed.
    """
    golds = _references(reference)
    extraction = extract(completion, markers)
    if extraction.answer is None:
        return unparsable(extraction.reason)
    if _DOUBTED.search(extraction.answer) and extraction.answer not in golds:
        return unparsable("a question, or struck through, is no answer", extraction.answer)
    is_one = any(_is_one(text, golds, normalize) for text in _forms(extraction))
    return correct(extraction.answer) if is_one else wrong(extraction.answer)


def _forms(extraction: Extraction) -> Iterator[str]:
    """An answer as it stands, without markup, without a remark, and its first sentence without the words before it."""
    answer = _WRAPPER.sub(r"\1", extraction.answer or "")
    sentence = _LIFE.sub("", _WRAPPER.sub(r"\1", first_sentence(extraction)))
    yield answer
    yield sentence
    if (apposition := _APPOSITION.search(sentence)) and not (denies(apposition[0]) or _ARTICLE_FIRST.match(sentence)):
        sentence = sentence[: apposition.start()]
    if short := _YES_OR_NO.fullmatch(sentence):
        sentence = short["yes"] or short["no"]
    yield sentence
    bare = plain(answer)
    yield bare
    if (value := without_aside(answer)) != answer:
        yield plain(value)
    undressed_sentence = bare if sentence == answer else plain(sentence)
    if (value := behind_verb(undressed_sentence)) != undressed_sentence:
        yield plain(value)


def _is_one(answer: str, golds: Sequence[str], normalize: bool) -> bool:
    plain_answer = normalised(answer) if normalize else ""
    return any(plain_answer == normalised(gold) for gold in golds) if plain_answer else answer in golds


def grade_f1(
    completion: str, reference: str | Sequence[str], *, minimum: float = 0.0, markers: Sequence[str] = TAG_FIRST
) -> Verdict:
    """Token F1 with the closest reference: 1 is ``correct``, between is ``partial``, 0 is ``wrong``.

    Args:
        completion: the model's reply.
        reference: the right answer, or several spellings of it.
        minimum: an F1 below this earns 0.
        markers: which answer markers count, see ``extraction``.

    Raises:
        BadReference, BadOption: the reference or an option is malformed.
    """
    golds = _references(reference)
    if not 0.0 <= minimum <= 1.0:
        raise BadOption(f"minimum must be in [0, 1], got {minimum!r}")
    extraction = extract(completion, markers)
    if extraction.answer is None:
        return unparsable(extraction.reason)
    words = normalised(_WRAPPER.sub(r"\1", extraction.answer)).split()
    if len(words) > MAX_WORDS:
        return unparsable(f"the answer is over the cap of {MAX_WORDS} words", extraction.answer)
    score = max(token_f1(words, normalised(gold).split()) for gold in golds)
    if score == 1.0:
        return correct(extraction.answer)
    if score < minimum or score == 0.0:
        return wrong(extraction.answer)
    return Verdict(score, "partial", extraction.answer, f"token F1 {score:.3f}", {"f1": score})


def normalised(text: str) -> str:
    """Lower case, composed, without punctuation, articles and double blanks.

    What makes another number of a number stays, unlike in SQuAD: a sign, a point, and marks between digits but for the
    commas of thousands. "-8" is not "8", nor "1.5" "15".
    """
    composed = unicodedata.normalize("NFC", text).lower()
    numbers = _THOUSANDS.sub("", _HALF_OF_DAY.sub(r" \1m", composed.replace("{:}", ":").translate(_DASHES)))
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub(_mark, numbers)).split())


def _mark(match: re.Match[str]) -> str:
    """A punctuation mark if it belongs to a number, else nothing."""
    mark, text, at = match[0], match.string, match.start()
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if after.isdigit():
        inside = before.isdigit() and mark in ".,/:^-"
        leads = not before.isalnum() and mark in "-."
        return mark if inside or leads else ""
    return mark if mark == "-" and after == "." and text[at + 2 : at + 3].isdigit() and not before.isalnum() else ""


def token_f1(answer: Sequence[str], gold: Sequence[str]) -> float:
    """Harmonic mean of token precision and recall; two empty answers agree."""
    if not answer or not gold:
        return float(list(answer) == list(gold))
    common = sum((Counter(answer) & Counter(gold)).values())
    return 2 * common / (len(answer) + len(gold))


def _references(reference: str | Sequence[str]) -> list[str]:
    golds = [reference] if isinstance(reference, str) else list(reference or [])
    if not golds or not all(isinstance(gold, str) and gold.strip() for gold in golds):
        raise BadReference(f"a reference is text, or a non-empty list of texts, got {reference!r}"[:200])
    return golds
