"""Instructions on words that must or must not be used, and on letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from rlvr.envs.instructions.draft import TextDraft, keyword, plain
from rlvr.envs.instructions.kind import Args, InstructionKind, Scene, kind
from rlvr.envs.instructions.text import WrittenText, words_of


def has_word(sentence: str, word: str) -> bool:
    """Whether a word stands in a sentence as a whole word, letter case aside."""
    return str(word).casefold() in map(str.casefold, words_of(sentence))


def any_has(sentences: Sequence[str], word: str) -> bool:
    """Whether the word stands in one of them."""
    return any(has_word(sentence, word) for sentence in sentences)


def is_quoted(text: WrittenText, words: str) -> bool:
    """Whether the words stand between quotation marks of any kind."""
    return re.search(rf"[“\"«„] ?{re.escape(words.casefold())} ?[”\"»“]", text.folded) is not None


def _keywords(scene: Scene, count: int) -> tuple[str, ...]:
    """Words of different sentences, none of which holds another of them."""
    fillers = scene.rng.sample(scene.language.fillers, count)
    return tuple(keyword(each) for each in fillers if words_of(keyword(each)) == [keyword(each)])


def _some_keywords(count: int) -> Callable[[Scene], Args | None]:
    def sample(scene: Scene) -> Args | None:
        chosen = [word for word in _keywords(scene, count) if _stands_alone(scene, word)]
        return tuple(chosen) if len(chosen) == count else None

    return sample


def _stands_alone(scene: Scene, word: str) -> bool:
    """Whether the word is one token of its sentence: l'*atmosfera* is not."""
    return any(has_word(plain(each), word) for each in scene.language.fillers if keyword(each) == word)


def _use(draft: TextDraft, *words: str) -> None:
    draft.extra += [draft.filler(lambda sentence, word=word: has_word(sentence, word)) for word in words]  # type: ignore[misc]


def without(draft: TextDraft, *words: str) -> None:
    """No sentence may hold one of the words."""
    draft.rules.append(lambda sentence, before: not any(has_word(sentence, word) for word in words))


def _unwanted(scene: Scene, count: int) -> Args | None:
    """Words of the plain text that no fact and not the event has."""
    forms = [form for fact, value in scene.brief.facts for form in scene.plain.forms(fact, value)]
    held = {word.casefold() for form in (*forms, scene.language.events[scene.brief.event]) for word in words_of(form)}
    words = sorted({word for word in scene.plain.words if len(word) > 3 and word.isalpha()} - held)
    return tuple(scene.rng.sample(words, count)) if len(words) >= count else None


def _motto(draft: TextDraft, word: str, count: int) -> None:
    draft.extra += [motto.format(word) for motto in draft.rng.sample(draft.language.mottos, count)]


def _only_mottos(draft: TextDraft, word: str, count: int) -> None:
    _motto(draft, word, count)
    draft.rules.append(lambda sentence, before: not has_word(sentence, word) or f"“{word}”" in sentence)


def _motto_word(scene: Scene) -> Args | None:
    words = _some_keywords(1)(scene)
    return None if words is None else (*words, scene.rng.choice((2, 3)))


def _before(text: WrittenText, first: str, second: str) -> bool:
    words = text.words
    return (
        first.casefold() in words
        and second.casefold() in words
        and words.index(first.casefold()) < words.index(second.casefold())
    )


def _use_in_order(draft: TextDraft, first: str, second: str) -> None:
    draft.rules.append(lambda sentence, before: not has_word(sentence, second) or not before or any_has(before, first))
    draft.extra = [
        *draft.extra,
        draft.filler(lambda sentence: has_word(sentence, first)),
        draft.filler(lambda sentence: has_word(sentence, second)),
    ]


def _once(draft: TextDraft, *words: str) -> None:
    _use(draft, *words)
    draft.rules.append(
        lambda sentence, before: (
            not any(has_word(sentence, word) and any(has_word(b, word) for b in before) for word in words)
        )
    )


def _this_not_that(draft: TextDraft, wanted: str, banned: str) -> None:
    without(draft, banned)
    _use(draft, wanted)


KEYWORDS: tuple[InstructionKind, ...] = (
    kind(
        "word_included",
        en="Use the word “{0}”.",
        de="Verwende das Wort “{0}”.",
        fr="Utilise le mot “{0}”.",
        es="Usa la palabra “{0}”.",
        it="Usa la parola “{0}”.",
        pt="Use a palavra “{0}”.",
        sample=_some_keywords(1),
        check=lambda text, word: text.counts(word) > 0,
        write=_use,
        easy=True,
    ),
    kind(
        "two_words_included",
        en="Use the words “{0}” and “{1}”.",
        de="Verwende die Wörter “{0}” und “{1}”.",
        fr="Utilise les mots “{0}” et “{1}”.",
        es="Usa las palabras “{0}” y “{1}”.",
        it="Usa le parole “{0}” e “{1}”.",
        pt="Use as palavras “{0}” e “{1}”.",
        sample=_some_keywords(2),
        check=lambda text, *words: all(text.counts(word) for word in words),
        write=_use,
        easy=True,
    ),
    kind(
        "word_at_least",
        en="Use the word “{0}” at least {1} times.",
        de="Verwende das Wort “{0}” mindestens {1} Mal.",
        fr="Utilise le mot “{0}” au moins {1} fois.",
        es="Usa la palabra “{0}” al menos {1} veces.",
        it="Usa la parola “{0}” almeno {1} volte.",
        pt="Use a palavra “{0}” pelo menos {1} vezes.",
        sample=_motto_word,
        check=lambda text, word, least: text.counts(word) >= least,
        write=_motto,
        fixes="mottos",
        adds="quotes",
    ),
    kind(
        "word_exactly",
        en="Use the word “{0}” exactly {1} times.",
        de="Verwende das Wort “{0}” genau {1} Mal.",
        fr="Utilise le mot “{0}” exactement {1} fois.",
        es="Usa la palabra “{0}” exactamente {1} veces.",
        it="Usa la parola “{0}” esattamente {1} volte.",
        pt="Use a palavra “{0}” exatamente {1} vezes.",
        sample=_motto_word,
        check=lambda text, word, count: text.counts(word) == count,
        write=_only_mottos,
        fixes="mottos",
        adds="quotes",
    ),
    kind(
        "word_banned",
        en="Do not use the word “{0}”.",
        de="Verwende das Wort “{0}” nicht.",
        fr="N'utilise pas le mot “{0}”.",
        es="No uses la palabra “{0}”.",
        it="Non usare la parola “{0}”.",
        pt="Não use a palavra “{0}”.",
        sample=lambda scene: _unwanted(scene, 1),
        check=lambda text, word: text.counts(word) == 0,
        write=without,
        easy=True,
    ),
    kind(
        "three_words_banned",
        en="Use none of the words “{0}”, “{1}” and “{2}”.",
        de="Verwende keines der Wörter “{0}”, “{1}” und “{2}”.",
        fr="N'utilise aucun des mots “{0}”, “{1}” et “{2}”.",
        es="No uses ninguna de las palabras “{0}”, “{1}” y “{2}”.",
        it="Non usare nessuna delle parole “{0}”, “{1}” e “{2}”.",
        pt="Não use nenhuma das palavras “{0}”, “{1}” e “{2}”.",
        sample=lambda scene: _unwanted(scene, 3),
        check=lambda text, *words: not any(text.counts(word) for word in words),
        write=without,
    ),
    kind(
        "word_in_first_sentence",
        en="The word “{0}” must stand in the first sentence.",
        de="Das Wort “{0}” muss im ersten Satz stehen.",
        fr="Le mot “{0}” doit figurer dans la première phrase.",
        es="La palabra “{0}” debe estar en la primera frase.",
        it="La parola “{0}” deve stare nella prima frase.",
        pt="A palavra “{0}” deve estar na primeira frase.",
        sample=_some_keywords(1),
        check=lambda text, word: has_word(text.sentences[0], word),
        write=lambda draft, word: draft.first.append(draft.filler(lambda sentence: has_word(sentence, word))),
        fixes="top",
        easy=True,
    ),
    kind(
        "word_in_last_sentence",
        en="The word “{0}” must stand in the last sentence.",
        de="Das Wort “{0}” muss im letzten Satz stehen.",
        fr="Le mot “{0}” doit figurer dans la dernière phrase.",
        es="La palabra “{0}” debe estar en la última frase.",
        it="La parola “{0}” deve stare nell'ultima frase.",
        pt="A palavra “{0}” deve estar na última frase.",
        sample=_some_keywords(1),
        check=lambda text, word: has_word(text.sentences[-1], word),
        write=lambda draft, word: draft.last.append(draft.filler(lambda sentence: has_word(sentence, word))),
        fixes="end",
        easy=True,
    ),
    kind(
        "word_before_word",
        en="Use the words “{0}” and “{1}”, the first of them before the other.",
        de="Verwende die Wörter “{0}” und “{1}”, das erste vor dem anderen.",
        fr="Utilise les mots “{0}” et “{1}”, le premier avant l'autre.",
        es="Usa las palabras “{0}” y “{1}”, la primera antes que la otra.",
        it="Usa le parole “{0}” e “{1}”, la prima prima dell'altra.",
        pt="Use as palavras “{0}” e “{1}”, a primeira antes da outra.",
        sample=_some_keywords(2),
        check=_before,
        write=_use_in_order,
    ),
    kind(
        "words_once",
        en="Use each of the words “{0}”, “{1}” and “{2}” exactly once.",
        de="Verwende jedes der Wörter “{0}”, “{1}” und “{2}” genau einmal.",
        fr="Utilise chacun des mots “{0}”, “{1}” et “{2}” exactement une fois.",
        es="Usa cada una de las palabras “{0}”, “{1}” y “{2}” exactamente una vez.",
        it="Usa ognuna delle parole “{0}”, “{1}” e “{2}” esattamente una volta.",
        pt="Use cada uma das palavras “{0}”, “{1}” e “{2}” exatamente uma vez.",
        sample=_some_keywords(3),
        check=lambda text, *words: all(text.counts(word) == 1 for word in words),
        write=_once,
    ),
    kind(
        "this_word_not_that",
        en="Use the word “{0}” but never the word “{1}”.",
        de="Verwende das Wort “{0}”, aber nie das Wort “{1}”.",
        fr="Utilise le mot “{0}” mais jamais le mot “{1}”.",
        es="Usa la palabra “{0}” pero nunca la palabra “{1}”.",
        it="Usa la parola “{0}” ma mai la parola “{1}”.",
        pt="Use a palavra “{0}” mas nunca a palavra “{1}”.",
        sample=_some_keywords(2),
        check=lambda text, wanted, banned: text.counts(wanted) > 0 == text.counts(banned),
        write=_this_not_that,
    ),
    kind(
        "quoted_word",
        en="The word “{0}” must stand in the text between quotation marks.",
        de="Das Wort “{0}” muss im Text zwischen Anführungszeichen stehen.",
        fr="Le mot “{0}” doit figurer dans le texte entre guillemets.",
        es="La palabra “{0}” debe estar en el texto entre comillas.",
        it="La parola “{0}” deve stare nel testo tra virgolette.",
        pt="A palavra “{0}” deve estar no texto entre aspas.",
        sample=_some_keywords(1),
        check=is_quoted,
        write=lambda draft, word: _motto(draft, word, 1),
        fixes="mottos",
        adds="quotes",
        easy=True,
    ),
)


# letters


def _counted_letter(scene: Scene) -> Args:
    letter = scene.rng.choice("aeinrst")
    return letter, int(1.6 * scene.plain.letters(letter)) + 4


def _rare_letter(scene: Scene) -> Args | None:
    held = _fact_letters(scene)
    letters = [letter for letter in "bcdfghkmpvwz" if scene.plain.letters(letter) > held[letter] + 2]
    if not letters:
        return None
    letter = scene.rng.choice(letters)
    return letter, held[letter] + scene.rng.randint(0, 1) + 2


def _fact_letters(scene: Scene) -> Counter[str]:
    return Counter("".join(scene.plain.forms(fact, value)[0] for fact, value in scene.brief.facts).casefold())


def _absent_letter(scene: Scene) -> Args | None:
    held = _fact_letters(scene)
    letters = [letter for letter in "bfgjkpqvwxyz" if not held[letter] and scene.plain.letters(letter)]
    return (scene.rng.choice(letters),) if letters else None


def _starting(words: Sequence[str], letter: str) -> int:
    return sum(word.startswith(letter) for word in words)


def _initial_letter(scene: Scene) -> Args:
    letters = sorted({word[0] for word in scene.plain.words if word[0].isalpha()})
    letter = scene.rng.choice(letters)
    return letter, _starting(scene.plain.words, letter) + 2


def _use_initials(draft: TextDraft, letter: str, least: int) -> None:
    draft.extra += [
        draft.filler(lambda sentence: _starting([*map(str.casefold, words_of(sentence))], letter) > 0) for _ in range(3)
    ]


def _no_initial(scene: Scene) -> Args | None:
    forms = [scene.plain.forms(fact, value)[0].casefold() for fact, value in scene.brief.facts]
    held = {word[0] for form in forms for word in words_of(form)}
    letters = sorted({word[0] for word in scene.plain.words if word[0].isalpha()} - held - set("aeilo"))
    return (scene.rng.choice(letters),) if letters else None


def longest(words: Sequence[str]) -> int:
    """Letters of the longest word."""
    return max((len(word) for word in words if word.isalpha()), default=0)


def _long_word(scene: Scene) -> Args | None:
    here = longest(scene.plain.words)
    lengths = sorted({longest(words_of(plain(each))) for each in scene.language.fillers} - {*range(here + 1)})
    return (scene.rng.choice(lengths),) if lengths else None


def _doubles(words: Sequence[str]) -> int:
    return sum(re.search(r"([^\W\d_])\1", word) is not None for word in words)


def _fewer_than(draft: TextDraft, letter: str, most: int) -> None:
    def rule(sentence: str, before: Sequence[str]) -> bool:
        return sum(each.casefold().count(letter) for each in (*before, sentence)) <= most

    draft.rules.append(rule)
    draft.bound(sentences=(0, 40), short=True)


LETTERS: tuple[InstructionKind, ...] = (
    kind(
        "letter_at_least",
        en="The letter {0} must occur at least {1} times.",
        de="Der Buchstabe {0} muss mindestens {1} Mal vorkommen.",
        fr="La lettre {0} doit apparaître au moins {1} fois.",
        es="La letra {0} debe aparecer al menos {1} veces.",
        it="La lettera {0} deve comparire almeno {1} volte.",
        pt="A letra {0} deve aparecer pelo menos {1} vezes.",
        sample=_counted_letter,
        check=lambda text, letter, least: text.letters(letter) >= least,
        write=lambda draft, letter, least: draft.bound(sentences=(len(draft.brief.facts) + 8, 40)),
    ),
    kind(
        "letter_at_most",
        en="The letter {0} may occur at most {1} times.",
        de="Der Buchstabe {0} darf höchstens {1} Mal vorkommen.",
        fr="La lettre {0} peut apparaître au plus {1} fois.",
        es="La letra {0} puede aparecer como mucho {1} veces.",
        it="La lettera {0} può comparire al massimo {1} volte.",
        pt="A letra {0} pode aparecer no máximo {1} vezes.",
        sample=_rare_letter,
        check=lambda text, letter, most: text.letters(letter) <= most,
        write=_fewer_than,
    ),
    kind(
        "letter_banned",
        en="The letter {0} must not occur at all.",
        de="Der Buchstabe {0} darf gar nicht vorkommen.",
        fr="La lettre {0} ne doit pas apparaître du tout.",
        es="La letra {0} no puede aparecer en ningún momento.",
        it="La lettera {0} non deve comparire mai.",
        pt="A letra {0} não pode aparecer nenhuma vez.",
        sample=_absent_letter,
        check=lambda text, letter: text.letters(letter) == 0,
        write=lambda draft, letter: draft.rules.append(lambda sentence, before: letter not in sentence.casefold()),
    ),
    kind(
        "initials_at_least",
        en="At least {1} words must begin with the letter {0}.",
        de="Mindestens {1} Wörter müssen mit dem Buchstaben {0} beginnen.",
        fr="Au moins {1} mots doivent commencer par la lettre {0}.",
        es="Al menos {1} palabras deben empezar con la letra {0}.",
        it="Almeno {1} parole devono iniziare con la lettera {0}.",
        pt="Pelo menos {1} palavras devem começar com a letra {0}.",
        sample=_initial_letter,
        check=lambda text, letter, least: _starting(text.words, letter) >= least,
        write=_use_initials,
    ),
    kind(
        "word_initial_banned",
        en="No word may begin with the letter {0}.",
        de="Kein Wort darf mit dem Buchstaben {0} beginnen.",
        fr="Aucun mot ne doit commencer par la lettre {0}.",
        es="Ninguna palabra puede empezar con la letra {0}.",
        it="Nessuna parola può iniziare con la lettera {0}.",
        pt="Nenhuma palavra pode começar com a letra {0}.",
        sample=_no_initial,
        check=lambda text, letter: _starting(text.words, letter) == 0,
        write=lambda draft, letter: draft.rules.append(
            lambda sentence, before: _starting([*map(str.casefold, words_of(sentence))], letter) == 0
        ),
    ),
    kind(
        "long_word",
        en="At least one word must have {0} letters or more.",
        de="Mindestens ein Wort muss {0} Buchstaben oder mehr haben.",
        fr="Au moins un mot doit avoir {0} lettres ou plus.",
        es="Al menos una palabra debe tener {0} letras o más.",
        it="Almeno una parola deve avere {0} lettere o più.",
        pt="Pelo menos uma palavra deve ter {0} letras ou mais.",
        sample=_long_word,
        check=lambda text, least: longest(text.words) >= least,
        write=lambda draft, least: draft.extra.append(
            draft.filler(lambda sentence: longest(words_of(sentence)) >= least)
        ),
    ),
    kind(
        "long_words_banned",
        en="No word may have more than {0} letters.",
        de="Kein Wort darf mehr als {0} Buchstaben haben.",
        fr="Aucun mot ne doit avoir plus de {0} lettres.",
        es="Ninguna palabra puede tener más de {0} letras.",
        it="Nessuna parola può avere più di {0} lettere.",
        pt="Nenhuma palavra pode ter mais de {0} letras.",
        sample=lambda scene: (longest(scene.plain.words) - 1,),
        check=lambda text, most: longest(text.words) <= most,
        write=lambda draft, most: draft.rules.append(lambda sentence, before: longest(words_of(sentence)) <= most),
    ),
    kind(
        "vowel_first",
        en="The first word must begin with a, e, i, o or u.",
        de="Das erste Wort muss mit a, e, i, o oder u beginnen.",
        fr="Le premier mot doit commencer par a, e, i, o ou u.",
        es="La primera palabra debe empezar con a, e, i, o o u.",
        it="La prima parola deve iniziare con a, e, i, o oppure u.",
        pt="A primeira palavra deve começar com a, e, i, o ou u.",
        check=lambda text: text.words[0][0] in "aeiou",
        write=lambda draft: draft.first.append(draft.filler(lambda sentence: sentence[0].casefold() in "aeiou")),
        fixes="top",
        easy=True,
    ),
    kind(
        "double_letters",
        en="At least {0} words must have the same letter twice in a row.",
        de="Mindestens {0} Wörter müssen denselben Buchstaben zweimal hintereinander haben.",
        fr="Au moins {0} mots doivent avoir deux fois de suite la même lettre.",
        es="Al menos {0} palabras deben tener la misma letra dos veces seguidas.",
        it="Almeno {0} parole devono avere la stessa lettera due volte di seguito.",
        pt="Pelo menos {0} palavras devem ter a mesma letra duas vezes seguidas.",
        sample=lambda scene: (_doubles(scene.plain.words) + 2,),
        check=lambda text, least: _doubles(text.words) >= least,
        write=lambda draft, least: draft.extra.extend(
            draft.filler(lambda sentence: _doubles([*map(str.casefold, words_of(sentence))]) > 0) for _ in range(3)
        ),
    ),
    kind(
        "last_letter",
        en="The last word must end with the letter {0}.",
        de="Das letzte Wort muss mit dem Buchstaben {0} enden.",
        fr="Le dernier mot doit se terminer par la lettre {0}.",
        es="La última palabra debe terminar con la letra {0}.",
        it="L'ultima parola deve finire con la lettera {0}.",
        pt="A última palavra deve terminar com a letra {0}.",
        sample=lambda scene: (words_of(plain(scene.rng.choice(scene.language.fillers)))[-1][-1].casefold(),),
        check=lambda text, letter: text.words[-1].endswith(letter),
        write=lambda draft, letter: draft.last.append(
            draft.filler(lambda sentence: words_of(sentence)[-1].casefold().endswith(letter))
        ),
        fixes="end",
        easy=True,
    ),
)
