"""A text as the checks see it: what it is about, its words, sentences and paragraphs; and what every text must be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from rlvr.envs.instructions.english import ENGLISH
from rlvr.envs.instructions.french import FRENCH
from rlvr.envs.instructions.german import GERMAN
from rlvr.envs.instructions.italian import ITALIAN
from rlvr.envs.instructions.language import Language
from rlvr.envs.instructions.portuguese import PORTUGUESE
from rlvr.envs.instructions.spanish import SPANISH

LANGUAGES: Final = {each.code: each for each in (ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE)}
MAX_WORDS: Final = 400
MAX_CHARS: Final = 6_000  # of a reply: 400 words with markup and a wrapper
COPIED_WORDS: Final = 10  # words in a row that no text of its own shares with the instructions
COMMON_SHARES: Final = (0.2, 0.75)  # of the words of prose are among the most frequent of its language
DIFFERENT_SHARE: Final = 0.6  # of sentences that are no repeats
CLOSERS: Final = "\"”“»)\\]*_’'"
_SENTENCE = re.compile(rf"[^\n]+?(?:[.!?…]+[{CLOSERS}]*(?=\s|$)|$)", re.MULTILINE)
_MONTH = re.compile(rf"(\d)\.(?=\s+(?:{'|'.join(GERMAN.months)})\b)", re.IGNORECASE)
_ABBREVIATED = re.compile(r"\b(Mr|Mrs|Ms|Dr|St|Nr|Sr|Sra|Sig|Mme|z\. ?B|[ap]\. ?m|P\. ?S|ca|bzw|etc)\.(?=\s)")
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")


class Brief(NamedTuple):
    """What a text is about.

    Attributes:
        language: the code of the user's language.
        event, form: positions in the language's lists.
        facts: pairs of a fact's name and its value.
        outdated: facts as they were before the user changed them; no text may hold them.
    """

    language: str
    event: int
    form: int
    facts: tuple[tuple[str, str], ...]
    outdated: tuple[tuple[str, str], ...] = ()


@lru_cache(4096)
def fact_forms(fact: str, value: str, code: str) -> tuple[str, ...]:
    """How the value of a fact may be written in a language; the first is how the user and the expert write it."""
    language = LANGUAGES[code]
    if fact == "date":
        day, number = map(int, value.split("/"))
        month = language.months[number - 1]
        full = language.day.format(day=day, month=month)
        others = (f"{day} {month}", f"{month} {day}", f"{day:02}/{number:02}", f"{day:02}.{number:02}.")
        return tuple(dict.fromkeys((full, *others)))
    if fact == "time":
        return value, value.replace(":", "h"), value.replace(":", ".")
    if fact == "price":
        return f"{value} {language.currency}", f"{value} €", f"€ {value}", f"€{value}", f"{value}€"
    if fact == "seats":
        return value, language.numbers[int(value) // 10 - 3]
    return (value,)


def find_form(text: str, form: str) -> int:
    """Where a form stands in a text as words of its own, letter case aside; -1 if nowhere."""
    match = _form_pattern(form).search(text)
    return match.start() if match else -1


@lru_cache(4096)
def _form_pattern(form: str) -> re.Pattern[str]:
    body = r"\s+".join(map(re.escape, form.casefold().split()))
    before = r"(?<![^\W_])" + ("" if not form[:1].isdigit() else r"(?<!\d[.,:/])")
    return re.compile(before + body + r"(?![^\W_])")


class WrittenText:
    """A text, with the brief it was written for and the language it is to be in."""

    def __init__(self, text: str, brief: Brief, language: Language) -> None:
        self.text, self.brief, self.language = text.strip(), brief, language

    @cached_property
    def folded(self) -> str:
        """The text without letter case."""
        return self.text.casefold()

    @cached_property
    def tokens(self) -> list[str]:
        """Words as they stand between blanks, without marks around them."""
        return words_of(self.text)

    @cached_property
    def words(self) -> list[str]:
        """The same without letter case."""
        return [token.casefold() for token in self.tokens]

    @cached_property
    def sentences(self) -> list[str]:
        """What ends with a full stop, a question mark, an exclamation mark or a line break, and has a word."""
        return sentences_of(self.text)

    @cached_property
    def paragraphs(self) -> list[str]:
        """What stands between blank lines."""
        return [part.strip() for part in re.split(r"\n[ \t]*\n", self.text) if part.strip()]

    @cached_property
    def lines(self) -> list[str]:
        """Lines that are not blank."""
        return [line.strip() for line in self.text.split("\n") if line.strip()]

    def counts(self, word: str) -> int:
        """How often a word stands in the text, as a whole word."""
        return self.words.count(word.casefold())

    def letters(self, letter: str) -> int:
        """How often a letter stands in the text, small or capital."""
        return self.folded.count(letter)

    def forms(self, fact: str, value: str) -> tuple[str, ...]:
        """The accepted forms of a fact: those of the text's language and of the user's."""
        own, users = self.language.code, self.brief.language
        forms = fact_forms(fact, value, own)
        return forms if own == users else (*forms, *fact_forms(fact, value, users))

    def where(self, fact: str, within: str | None = None) -> int:
        """Where a fact of the brief is first mentioned; -1 if nowhere."""
        value = self.fact_value(fact)
        if not value:
            return -1
        folded = self.folded if within is None else within.casefold()
        starts = [start for form in self.forms(fact, value) if (start := find_form(folded, form)) >= 0]
        return min(starts, default=-1)

    def fact_value(self, fact: str) -> str:
        """The value of a fact of the brief; empty where it has none."""
        return dict(self.brief.facts).get(fact, "")

    def share_of(self, language: Language) -> float:
        """The share of words that are among the most frequent of a language."""
        parts = parts_of(self.text)
        return sum(part in language.common for part in parts) / max(1, len(parts))


def parts_of(text: str) -> list[str]:
    """Runs of letters and digits without letter case: an elided word is two."""
    return re.findall(r"[^\W_]+", text.casefold())


def words_of(text: str) -> list[str]:
    """Words as they stand between blanks, without marks around them."""
    # What is letters and digits alone has no marks, and most words are.
    return [word for token in text.split() if (word := token if token.isalnum() else _EDGE.sub("", token))]


def sentences_of(text: str) -> list[str]:
    """What ends with a full stop, a question mark, an exclamation mark or a line break, and has a word."""
    plain = _ABBREVIATED.sub(lambda match: match[1].replace(".", ""), _MONTH.sub(r"\1", text))
    return [part.strip() for part in _SENTENCE.findall(plain) if words_of(part)]


def prose_fault(text: WrittenText, prompt: str, instructions: Sequence[str]) -> str:
    """What keeps a text from being prose of its own about its facts; empty where nothing does.

    Args:
        text: what was written.
        prompt: what the user wrote, without the facts; ten words of it in a row are a copy.
        instructions: sentences, each of which is a copy as a whole.
    """
    if len(text.words) > MAX_WORDS:
        return f"the text has more than {MAX_WORDS} words"
    if copied := copied_words(text.words, prompt, instructions):
        return f"the text repeats the instructions: {copied}"
    return _fact_fault(text) or _language_fault(text) or _repetition(text)


def _fact_fault(text: WrittenText) -> str:
    facts = [fact for fact, _ in text.brief.facts]
    missing = [fact for fact in facts if text.where(fact) < 0]
    if missing:
        return f"not mentioned: {', '.join(missing)}"
    sentences = [*text.sentences, *sentences_of(" ".join(text.text.split()))]  # a line may end within a sentence
    sentences = [each for each in sentences if not text.language.common.isdisjoint(parts_of(each))]
    loose = [fact for fact in facts if all(text.where(fact, each) < 0 for each in sentences)]
    if loose:
        return f"mentioned in no whole sentence: {', '.join(loose)}"
    for fact, value in text.brief.outdated:
        if any(find_form(text.folded, form) >= 0 for form in text.forms(fact, value)):
            return f"outdated: {fact}"
    return ""


def _language_fault(text: WrittenText) -> str:
    shares = {code: text.share_of(language) for code, language in LANGUAGES.items()}
    own = shares[text.language.code]
    if own < max(shares.values()):
        return f"the text is not in the language {text.language.code}"
    low, high = COMMON_SHARES
    return "" if low <= own <= high else "the text is not in whole sentences"


def _repetition(text: WrittenText) -> str:
    sentences = [sentence.casefold() for sentence in text.sentences]
    if len({*sentences}) < DIFFERENT_SHARE * len(sentences):
        return "the text repeats its sentences"
    if any(a == b == c for a, b, c in zip(text.words, text.words[1:], text.words[2:], strict=False)):
        return "the text has a word three times in a row"
    return ""


def copied_words(words: Sequence[str], prompt: str, instructions: Sequence[str]) -> str:
    """Ten words in a row of the prompt, or a whole instruction, that stand in a text; empty where there are none."""
    sources = [[word.casefold() for word in words_of(each)] for each in (prompt, *instructions)]
    runs = {tuple(sources[0][i : i + COPIED_WORDS]) for i in range(len(sources[0]) - COPIED_WORDS + 1)}
    runs |= {tuple(source) for source in sources[1:] if len(source) > 2}
    for size in sorted({*map(len, runs)}):
        for index in range(len(words) - size + 1):
            if (run := tuple(words[index : index + size])) in runs:
                return " ".join(run)
    return ""
