"""The 25 checks of IFEval (Zhou et al. 2023, arXiv 2311.07911), by the semantics of the authors' program.

A check is asked with the keyword arguments of a row. What the authors write as a pattern that backtracks is a scan
here, with the same result; keywords are texts, not patterns. Where their program calls NLTK to divide sentences and
words, rules of ours do: docs/instructions.md says how often the two agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from rlvr.envs.core.tables import DataError

Check = Callable[..., bool]
ANSWERS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_TITLES: Final = frozenset(
    "mr mrs ms dr prof st jr sr rev gen col capt lt sgt hon messrs gov sen rep vs etc e.g i.e no vol fig inc ltd co "
    "corp jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m".split()
)
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]+[\"')\]”’]*(?=\s)")
_INITIAL = re.compile(r"(?:^|[\s(\"'])[A-Za-z]$")
_CONTRACTION = re.compile(r"(?i)(.+?)(n't|'(?:s|m|d|ll|re|ve))$")


def compare(count: int, number: int, relation: str | None) -> bool:
    """The two relations that rows name; none is "at least".

    Raises:
        DataError: another relation.
    """
    if relation == "less than":
        return count < number
    if relation in ("at least", None):
        return count >= number
    raise DataError(f"a relation is 'less than' or 'at least', got {relation!r}")


def split_sentences(text: str) -> list[str]:
    """Sentences end with marks before a blank; a stop behind an initial, an abbreviation or before a small letter ends
    none.
    """
    sentences, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if text[match.start()] == "." and not _ends(text, match):
            continue
        if part := text[start : match.end()].strip():
            sentences.append(part)
        start = match.end()
    if part := text[start:].strip():
        sentences.append(part)
    return sentences


def _ends(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 12) : match.start()]
    word = before.split()[-1].lstrip("(\"'").casefold() if before.split() else ""
    following = text[match.end() : match.end() + 40].lstrip()
    if _INITIAL.search(before) or word in _TITLES:
        return word in ("etc", "a.m", "p.m", "inc", "ltd", "co") and following[:1].isupper()
    return not following[:1].islower()


def word_tokens(text: str) -> list[str]:
    """Tokens as a Treebank tokenizer makes them, as far as their letters go: contractions are two."""
    tokens: list[str] = []
    for chunk in re.split(r"[\s\"“”()\[\]{}<>,;:!?@#$%&]+|--+|\.{2,}", text):
        word = chunk.strip(".'`‘’") if not re.fullmatch(r"(?:[A-Za-z]\.)+", chunk) else chunk
        match = _CONTRACTION.match(word)
        tokens += [part for part in (match.groups() if match else (word,)) if part]
    return tokens


def detect_language(text: str) -> str | None:
    """The code that langdetect gives a text; None where it finds no letters.

    Raises:
        ImportError: langdetect is not installed.
    """
    try:
        import langdetect
    except ImportError as error:
        raise ImportError(
            "rows of IFEval that ask for a language need langdetect: pip install 'rlvr[instructions]'"
        ) from error
    langdetect.DetectorFactory.seed = 0
    try:
        return str(langdetect.detect(text[:20_000]))
    except langdetect.LangDetectException:
        return None


def _keywords(text: str, keywords: Sequence[str]) -> bool:
    return all(re.search(re.escape(keyword), text, re.IGNORECASE) for keyword in keywords)


def _frequency(text: str, keyword: str, frequency: int, relation: str | None = None) -> bool:
    return compare(len(re.findall(re.escape(keyword.strip()), text, re.IGNORECASE)), frequency, relation)


def _forbidden(text: str, forbidden_words: Sequence[str]) -> bool:
    return not any(re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) for word in forbidden_words)


def _letters(text: str, letter: str, let_frequency: int, let_relation: str | None = None) -> bool:
    return compare(text.lower().count(letter.strip().lower()), let_frequency, let_relation)


def _language(text: str, language: str) -> bool:
    return detect_language(text) in (language, None)


def _sentences(text: str, num_sentences: int, relation: str | None = None) -> bool:
    return compare(len(split_sentences(text)), num_sentences, relation)


def _words(text: str, num_words: int, relation: str | None = None) -> bool:
    return compare(len(re.findall(r"\w+", text)), num_words, relation)


def _paragraphs(text: str, num_paragraphs: int) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    inner = parts[1:-1]
    if not all(map(str.strip, inner)):
        return False
    return len(inner) + sum(bool(part.strip()) for part in {0: parts[0], len(parts) - 1: parts[-1]}.values()) == (
        num_paragraphs
    )


def _nth_paragraph(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    paragraphs = re.split(r"\n\n", text)
    count = sum(bool(part.strip()) for part in paragraphs)
    if not 1 <= nth_paragraph <= count or not (paragraph := paragraphs[nth_paragraph - 1].strip()):
        return False
    word = paragraph.split()[0].lstrip("'").lstrip('"')
    return count == num_paragraphs and re.split(r"[.,?!'\"]", word)[0].lower() == first_word.lower()


def _placeholders(text: str, num_placeholders: int) -> bool:
    count = 0
    for line in text.split("\n"):
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start)) >= 0:
            count += 1
            start = line.find("[", end)
    return count >= num_placeholders


def _postscript(text: str, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    pattern = patterns.get(postscript_marker, re.escape(postscript_marker.lower()))
    return re.search(pattern, text.lower()) is not None


def count_bullets(text: str) -> int:
    """Lines that begin with a star, unless two follow each other, or with a hyphen; an empty star takes the next."""
    count = sum(line.lstrip().startswith("-") for line in text.split("\n"))
    takes_next = False
    for line in text.split("\n"):
        words = line.lstrip()
        if takes_next:
            count, takes_next = count + 1, False
        elif words == "*":
            takes_next = True
        elif words.startswith("*") and words[1] != "*":
            count += 1
    return count


def _bullets(text: str, num_bullets: int) -> bool:
    return count_bullets(text) == num_bullets


def _highlights(text: str, num_highlights: int) -> bool:
    count = sum(bool(part.strip("*").strip()) for part in re.findall(r"\*[^\n*]*\*", text))
    count += sum(bool(part[2:-2].strip()) for part in re.findall(r"\*\*[^\n*]*\*\*", text))
    return count >= num_highlights


def _sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.split(rf"\s?{re.escape(section_spliter)}\s?\d+\s?", text)) - 1 >= num_sections


def _json(text: str) -> bool:
    inner = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        inner = inner.removeprefix(fence)
    try:
        json.loads(inner.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and end > start + 2 and line[start : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


def _two_responses(text: str) -> bool:
    parts = text.split("******")
    filled = [part.strip() for part in parts if part.strip()]
    return all(map(str.strip, parts[1:-1])) and len(filled) == 2 and filled[0] != filled[1]


def _repeats(text: str, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _ends_with(text: str, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _capital_words(text: str, capital_frequency: int, capital_relation: str | None = None) -> bool:
    return compare(sum(map(str.isupper, word_tokens(text))), capital_frequency, capital_relation)


def _in_quotes(text: str) -> bool:
    inner = text.strip()
    return len(inner) > 1 and inner[0] == inner[-1] == '"'


CHECKS: Final[dict[str, Check]] = {
    "keywords:existence": _keywords,
    "keywords:frequency": _frequency,
    "keywords:forbidden_words": _forbidden,
    "keywords:letter_frequency": _letters,
    "language:response_language": _language,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": _words,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": lambda text: any(answer in text for answer in ANSWERS),
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json,
    "detectable_format:title": _title,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeats,
    "startend:end_checker": _ends_with,
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": lambda text: text.isupper() and _language(text, "en"),
    "change_case:english_lowercase": lambda text: text.islower() and _language(text, "en"),
    "punctuation:no_comma": lambda text: "," not in text,
    "startend:quotation": _in_quotes,
}


NEED_LANGDETECT: Final = frozenset(
    {"language:response_language", "change_case:english_capital", "change_case:english_lowercase"}
)


def follows(text: str, instruction: str, arguments: dict[str, Any]) -> bool:
    """Whether a reply follows an instruction of a row; an empty one follows none.

    Raises:
        DataError: the instruction is unknown, or its arguments are not what it takes.
    """
    return decide("IFEval", CHECKS, text, instruction, arguments)


def decide(source: str, checks: dict[str, Check], text: str, instruction: str, arguments: dict[str, Any]) -> bool:
    """What ``follows`` says by the checks of a source of rows."""
    if instruction not in checks:
        raise DataError(f"{instruction!r} is no instruction of {source}")
    try:
        return bool(text.strip()) and checks[instruction](text, **arguments)
    except (TypeError, AttributeError, KeyError, ZeroDivisionError) as error:
        raise DataError(f"the arguments of {instruction} are not what it takes: {error}") from error
