"""How the expert writes: a draft that each instruction changes, and sentences chosen until all of them are met."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from rlvr.envs.instructions.language import Language
from rlvr.envs.instructions.text import Brief, fact_forms, words_of

Rule = Callable[[str, Sequence[str]], bool]  # whether a sentence may follow those that were chosen before
Paragraphs = list[list[str]]


class CannotWrite(Exception):
    """No sentence of the language fits."""


class ListItems(list[str]):
    """A paragraph whose sentences stand on lines of their own."""


def keyword(filler: str) -> str:
    """The word between asterisks."""
    return filler.split("*")[1]


def plain(filler: str) -> str:
    """The sentence without asterisks."""
    return filler.replace("*", "")


def first_word(sentence: str) -> str:
    """The first word of a sentence."""
    return words_of(sentence)[0]


def begins_with(sentence: str, word: str) -> bool:
    """Whether it is the first word, letter case aside."""
    words = words_of(sentence)
    return bool(words) and words[0].casefold() == word.casefold()


class TextDraft:
    """What a text will be made of; the writers of instructions change it, ``compose`` writes it.

    Attributes:
        rules: what each sentence must fulfil.
        first, last: sentences at both ends; ``first_facts`` and ``last_facts`` are mentioned there.
        extra: sentences that must come, in this order; ``order`` that of the facts.
        values: how a fact is written, where that is not the usual way.
        repeats: how many sentences mention a fact, where that is not one.
        least_sentences, most_sentences, least_words, most_words: bounds; ``multiple`` divides the sentences.
        paragraphs: how many; None leaves it open.
        each: changes of a sentence, by its index and how many there are.
        shapes: changes of the paragraphs; ``joiner`` stands between them.
        tops, bottoms: blocks before and behind the paragraphs.
        finishes: changes of the whole text.
        short: whether short sentences and no others than are needed are chosen.
    """

    def __init__(self, brief: Brief, language: Language, rng: random.Random) -> None:
        self.brief, self.language, self.rng = brief, language, rng
        self.rules: list[Rule] = []
        self.first: list[str] = []
        self.last: list[str] = []
        self.first_facts: list[str] = []
        self.last_facts: list[str] = []
        self.extra: list[str] = []
        self.order = [fact for fact, _ in brief.facts]
        self.values: dict[str, str] = {}
        self.repeats: dict[str, int] = {}
        self.least_sentences, self.most_sentences, self.multiple = len(brief.facts) + 2, 40, 1
        self.least_words, self.most_words = 0, 380
        self.paragraphs: int | None = None
        self.each: list[Callable[[str, int, int], str]] = []
        self.shapes: list[Callable[[Paragraphs], Paragraphs]] = []
        self.joiner = "\n\n"
        self.tops: list[str] = []
        self.bottoms: list[str] = []
        self.finishes: list[Callable[[str], str]] = []
        self.short = False
        self.fillers = rng.sample([plain(each) for each in language.fillers], len(language.fillers))

    # what writers use

    def value(self, fact: str) -> str:
        """How a fact is written."""
        return self.values.get(fact) or fact_forms(fact, dict(self.brief.facts)[fact], self.language.code)[0]

    def filler(self, fits: Callable[[str], bool]) -> str:
        """A sentence of the language that fits, which no other writer gets then.

        Raises:
            CannotWrite: there is none.
        """
        for sentence in self.fillers:
            if fits(sentence) and self.allows(sentence, ()):
                self.fillers.remove(sentence)
                return sentence
        raise CannotWrite

    def allows(self, sentence: str, before: Sequence[str]) -> bool:
        """Whether all rules hold."""
        return all(rule(sentence, before) for rule in self.rules)

    def bound(
        self, *, sentences: tuple[int, int] | None = None, words: tuple[int, int] | None = None, short: bool = False
    ) -> None:
        """Narrow the bounds."""
        if sentences:
            self.least_sentences = max(sentences[0], self.least_sentences if not short else 0)
            self.most_sentences = min(sentences[1], self.most_sentences)
        if words:
            self.least_words = max(words[0], self.least_words)
            self.most_words = min(words[1], self.most_words)
        if short:
            self.short, self.least_sentences = True, sentences[0] if sentences else 0

    # writing

    def compose(self) -> str:
        """The text.

        Raises:
            CannotWrite: no choice of sentences was found.
        """
        sentences = self._sentences()
        count = len(sentences)
        for change in self.each:
            sentences = [change(sentence, index, count) for index, sentence in enumerate(sentences)]
        paragraphs = self._divided(sentences)
        for shape in self.shapes:
            paragraphs = shape(paragraphs)
        blocks = [("\n" if isinstance(block, ListItems) else " ").join(block) for block in paragraphs]
        body = self.joiner.join(blocks)
        text = "\n\n".join([*self.tops, body, *self.bottoms])
        for finish in self.finishes:
            text = finish(text)
        return text

    def _sentences(self) -> list[str]:
        first, last = list(self.first), list(self.last)
        chosen = [*first, *last]
        facts: dict[str, list[str]] = {}
        for fact in self.order:
            facts[fact] = [self._mention(fact, chosen) for _ in range(self.repeats.get(fact, 1))]
        first += [sentence for fact in self.first_facts for sentence in facts.pop(fact)]
        last = [sentence for fact in self.last_facts for sentence in facts.pop(fact)] + last
        middle = [sentence for fact in self.order for sentence in facts.get(fact, ())]
        middle = self._merged(middle, self.extra)
        for sentence in self.extra:
            if not self.allows(sentence, ()):
                raise CannotWrite
            chosen.append(sentence)
        middle = self._filled(first, middle, last, chosen)
        sentences = [*first, *middle, *last]
        if not self.least_sentences <= len(sentences) <= self.most_sentences or len(sentences) % self.multiple:
            raise CannotWrite
        return sentences

    def _mention(self, fact: str, chosen: list[str]) -> str:
        """A sentence that mentions a fact, other than those that were chosen."""
        value = self.value(fact)
        mentions = [sentence.format(value) for sentence in self.language.sentences[fact]]
        mentions = sorted(mentions, key=len) if self.short else self.rng.sample(mentions, len(mentions))
        for sentence in mentions:
            if sentence not in chosen and self.allows(sentence, chosen):
                chosen.append(sentence)
                return sentence
        raise CannotWrite

    def _merged(self, sentences: list[str], others: Sequence[str]) -> list[str]:
        """Both in their own orders, mixed at random."""
        merged = list(sentences)
        at = sorted(self.rng.randint(0, len(merged)) for _ in others)
        for shift, (index, sentence) in enumerate(zip(at, others, strict=True)):
            merged.insert(index + shift, sentence)
        return merged

    def _filled(self, first: list[str], middle: list[str], last: list[str], chosen: list[str]) -> list[str]:
        """With a lead and fillers in the middle until the bounds are met."""
        event = self.language.events[self.brief.event]
        leads = [lead.format(event) for lead in self.rng.sample(self.language.leads, len(self.language.leads))]
        leads = [lead for lead in leads if not self.short and self.allows(lead, chosen)]
        fixed = len(first) + len(last)
        if leads and fixed + len(middle) < self.most_sentences:
            middle = [leads[0], *middle]
            chosen.append(leads[0])
        fillers: list[str] = []
        pool = iter(self.fillers)
        length = sum(len(sentence.split()) for sentence in (*first, *middle, *last))
        while (
            (count := fixed + len(middle) + len(fillers)) < self.least_sentences
            or length < self.least_words
            or count % self.multiple
        ):
            sentence = next((each for each in pool if self.allows(each, chosen)), None)
            if sentence is None or count >= self.most_sentences:
                raise CannotWrite
            fillers.append(sentence)
            chosen.append(sentence)
            length += len(sentence.split())
        lead, rest = (middle[:1], middle[1:]) if leads and middle[:1] == leads[:1] else ([], middle)
        return [*lead, *self._merged(rest, fillers)]

    def _divided(self, sentences: list[str]) -> Paragraphs:
        """As many paragraphs of about the same number of sentences as are asked for, else one or two."""
        count = self.paragraphs or (2 if len(sentences) > 4 else 1)
        if count > len(sentences):
            raise CannotWrite
        ends = [round(len(sentences) * (index + 1) / count) for index in range(count)]
        return [sentences[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def capital(sentence: str) -> str:
    """With a capital first letter."""
    return sentence[:1].upper() + sentence[1:]


def small(sentence: str) -> str:
    """With a small first letter."""
    return sentence[:1].lower() + sentence[1:]


def ending(sentence: str, mark: str) -> str:
    """With another mark at its end, closing quotation marks and brackets left where they are."""
    match = re.search(r"[.!?…\s]*([”)»]*)$", sentence)
    return sentence[: match.start()] + match[1] + mark if match else sentence + mark
