"""Instructions on length and on paragraphs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from rlvr.envs.instructions.draft import CannotWrite, Paragraphs, TextDraft, begins_with, first_word
from rlvr.envs.instructions.kind import Args, InstructionKind, Scene, kind
from rlvr.envs.instructions.text import WrittenText, sentences_of, words_of


def length(sentence: str) -> int:
    """Words of a sentence."""
    return len(words_of(sentence))


def _between(scene: Scene) -> Args:
    least = scene.rng.randrange(60, 101, 5)
    return least, least + 10


def _most_words(scene: Scene) -> Args:
    return (10 + 9 * len(scene.brief.facts) + scene.rng.choice((0, 2, 4)),)


def _own_lengths(draft: TextDraft) -> None:
    draft.rules.append(lambda sentence, before: length(sentence) not in map(length, before))
    draft.bound(sentences=(0, 40), short=True)


def _shortest_first(draft: TextDraft) -> None:
    words = min(map(length, draft.fillers))
    draft.first.append(draft.filler(lambda sentence: length(sentence) == words))
    draft.rules.append(lambda sentence, before: not before or length(sentence) > words)


def _last_length(scene: Scene) -> Args:
    return (length(scene.rng.choice(scene.language.fillers).replace("*", "")),)


LENGTH: tuple[InstructionKind, ...] = (
    kind(
        "words_at_least",
        en="Write at least {0} words.",
        de="Schreibe mindestens {0} Wörter.",
        fr="Écris au moins {0} mots.",
        es="Escribe al menos {0} palabras.",
        it="Scrivi almeno {0} parole.",
        pt="Escreva pelo menos {0} palavras.",
        sample=lambda scene: (scene.rng.randrange(60, 126, 5),),
        check=lambda text, least: len(text.words) >= least,
        write=lambda draft, least: draft.bound(words=(least, 380)),
        fixes="words",
        easy=True,
    ),
    kind(
        "words_at_most",
        en="Write at most {0} words.",
        de="Schreibe höchstens {0} Wörter.",
        fr="Écris au plus {0} mots.",
        es="Escribe como mucho {0} palabras.",
        it="Scrivi al massimo {0} parole.",
        pt="Escreva no máximo {0} palavras.",
        sample=_most_words,
        check=lambda text, most: len(text.words) <= most,
        write=lambda draft, most: draft.bound(words=(0, most), short=True),
        fixes="words",
        easy=True,
    ),
    kind(
        "words_between",
        en="Write between {0} and {1} words.",
        de="Schreibe zwischen {0} und {1} Wörtern.",
        fr="Écris entre {0} et {1} mots.",
        es="Escribe entre {0} y {1} palabras.",
        it="Scrivi tra {0} e {1} parole.",
        pt="Escreva entre {0} e {1} palavras.",
        sample=_between,
        check=lambda text, least, most: least <= len(text.words) <= most,
        write=lambda draft, least, most: draft.bound(words=(least, most)),
        fixes="words",
    ),
    kind(
        "sentences_exactly",
        en="Write exactly {0} sentences.",
        de="Schreibe genau {0} Sätze.",
        fr="Écris exactement {0} phrases.",
        es="Escribe exactamente {0} frases.",
        it="Scrivi esattamente {0} frasi.",
        pt="Escreva exatamente {0} frases.",
        sample=lambda scene: (len(scene.brief.facts) + scene.rng.randint(1, 6),),
        check=lambda text, count: len(text.sentences) == count,
        write=lambda draft, count: draft.bound(sentences=(count, count), short=True),
        fixes="sentences",
        needs="lines",
        easy=True,
    ),
    kind(
        "sentences_at_least",
        en="Write at least {0} sentences.",
        de="Schreibe mindestens {0} Sätze.",
        fr="Écris au moins {0} phrases.",
        es="Escribe al menos {0} frases.",
        it="Scrivi almeno {0} frasi.",
        pt="Escreva pelo menos {0} frases.",
        sample=lambda scene: (len(scene.brief.facts) + scene.rng.randint(5, 9),),
        check=lambda text, least: len(text.sentences) >= least,
        write=lambda draft, least: draft.bound(sentences=(least, 40)),
        fixes="sentences",
        easy=True,
    ),
    kind(
        "sentences_at_most",
        en="Write no more than {0} sentences.",
        de="Schreibe nicht mehr als {0} Sätze.",
        fr="N'écris pas plus de {0} phrases.",
        es="No escribas más de {0} frases.",
        it="Non scrivere più di {0} frasi.",
        pt="Não escreva mais de {0} frases.",
        sample=lambda scene: (len(scene.brief.facts) + scene.rng.randint(1, 2),),
        check=lambda text, most: len(text.sentences) <= most,
        write=lambda draft, most: draft.bound(sentences=(0, most), short=True),
        fixes="sentences",
        needs="lines",
        easy=True,
    ),
    kind(
        "characters_at_most",
        en="Keep the text to at most {0} characters, blanks included.",
        de="Der Text darf höchstens {0} Zeichen haben, Leerzeichen mitgezählt.",
        fr="Le texte ne doit pas dépasser {0} caractères, espaces compris.",
        es="El texto puede tener como mucho {0} caracteres, espacios incluidos.",
        it="Il testo può avere al massimo {0} caratteri, spazi compresi.",
        pt="O texto pode ter no máximo {0} caracteres, contando os espaços.",
        sample=lambda scene: (60 + 45 * len(scene.brief.facts) + scene.rng.choice((0, 10, 20)),),
        check=lambda text, most: len(text.text) <= most,
        write=lambda draft, most: draft.bound(sentences=(0, 40), short=True),
        fixes="words",
    ),
    kind(
        "long_sentences_banned",
        en="No sentence may have more than {0} words.",
        de="Kein Satz darf mehr als {0} Wörter haben.",
        fr="Aucune phrase ne doit avoir plus de {0} mots.",
        es="Ninguna frase puede tener más de {0} palabras.",
        it="Nessuna frase può avere più di {0} parole.",
        pt="Nenhuma frase pode ter mais de {0} palavras.",
        sample=lambda scene: (scene.rng.randint(8, 11),),
        check=lambda text, most: all(length(sentence) <= most for sentence in text.sentences),
        write=lambda draft, most: draft.rules.append(lambda sentence, before: length(sentence) <= most),
    ),
    kind(
        "short_sentences_banned",
        en="Each sentence must have at least {0} words.",
        de="Jeder Satz muss mindestens {0} Wörter haben.",
        fr="Chaque phrase doit avoir au moins {0} mots.",
        es="Cada frase debe tener al menos {0} palabras.",
        it="Ogni frase deve avere almeno {0} parole.",
        pt="Cada frase deve ter pelo menos {0} palavras.",
        sample=lambda scene: (scene.rng.randint(5, 7),),
        check=lambda text, least: all(length(sentence) >= least for sentence in text.sentences),
        write=lambda draft, least: draft.rules.append(lambda sentence, before: length(sentence) >= least),
        needs="lines",
    ),
    kind(
        "first_sentence_shortest",
        en="The first sentence must be shorter in words than each of the others.",
        de="Der erste Satz muss weniger Wörter haben als jeder andere.",
        fr="La première phrase doit avoir moins de mots que chacune des autres.",
        es="La primera frase debe tener menos palabras que cada una de las demás.",
        it="La prima frase deve avere meno parole di ognuna delle altre.",
        pt="A primeira frase deve ter menos palavras do que cada uma das outras.",
        check=lambda text: (
            len(text.sentences) > 1
            and all(length(text.sentences[0]) < length(sentence) for sentence in text.sentences[1:])
        ),
        write=_shortest_first,
        fixes="top",
        needs="lines",
    ),
    kind(
        "lengths_differ",
        en="No two sentences may have the same number of words.",
        de="Keine zwei Sätze dürfen gleich viele Wörter haben.",
        fr="Deux phrases ne doivent jamais avoir le même nombre de mots.",
        es="No puede haber dos frases con el mismo número de palabras.",
        it="Non ci devono essere due frasi con lo stesso numero di parole.",
        pt="Não pode haver duas frases com o mesmo número de palavras.",
        check=lambda text: len({*map(length, text.sentences)}) == len(text.sentences) > 1,
        write=_own_lengths,
        fixes="sentences",
        needs="lines words",
    ),
    kind(
        "last_sentence_length",
        en="The last sentence must have exactly {0} words.",
        de="Der letzte Satz muss genau {0} Wörter haben.",
        fr="La dernière phrase doit avoir exactement {0} mots.",
        es="La última frase debe tener exactamente {0} palabras.",
        it="L'ultima frase deve avere esattamente {0} parole.",
        pt="A última frase deve ter exatamente {0} palavras.",
        sample=_last_length,
        check=lambda text, count: length(text.sentences[-1]) == count,
        write=lambda draft, count: draft.last.append(draft.filler(lambda sentence: length(sentence) == count)),
        fixes="end",
        easy=True,
    ),
)


# paragraphs


def _some_paragraphs(scene: Scene) -> Args:
    return (scene.rng.choice((3, 4)),)


def _paragraphs(draft: TextDraft, count: int) -> None:
    draft.paragraphs = count
    draft.bound(sentences=(count + 1, 40))


def _of_sentences(draft: TextDraft, count: int) -> None:
    draft.multiple = count
    draft.bound(sentences=(2 * count, 40))
    draft.shapes.append(lambda paragraphs: _cut(paragraphs, count))


def _cut(paragraphs: Paragraphs, size: int) -> Paragraphs:
    every = [sentence for paragraph in paragraphs for sentence in paragraph]
    return [every[index : index + size] for index in range(0, len(every), size)]


def _first_alone(paragraphs: Paragraphs) -> Paragraphs:
    every = [sentence for paragraph in paragraphs for sentence in paragraph]
    return [every[:1], every[1:]]


def _last_alone(paragraphs: Paragraphs) -> Paragraphs:
    every = [sentence for paragraph in paragraphs for sentence in paragraph]
    return [every[:-1], every[-1:]]


def _starred(draft: TextDraft, count: int) -> None:
    _paragraphs(draft, count)
    draft.joiner = "\n\n***\n\n"


def _star_parts(text: WrittenText) -> Sequence[str]:
    return [part.strip() for part in re.split(r"^[ \t]*\*\*\*[ \t]*$", text.text, flags=re.MULTILINE)]


def _numbered(draft: TextDraft) -> None:
    _paragraphs(draft, draft.paragraphs or 2)
    draft.shapes.append(
        lambda paragraphs: [
            [f"({index}) {sentences[0]}", *sentences[1:]] for index, sentences in enumerate(paragraphs, 1)
        ]
    )


def _growing(draft: TextDraft) -> None:
    draft.bound(sentences=(7, 40))

    def shape(paragraphs: Paragraphs) -> Paragraphs:
        every = [sentence for paragraph in paragraphs for sentence in paragraph]
        third, rest = max(1, len(every) // 6), len(every) // 3
        return [every[:third], every[third : third + rest], every[third + rest :]]

    draft.shapes.append(shape)


def _sizes_grow(text: WrittenText) -> bool:
    sizes = [length(paragraph) for paragraph in text.paragraphs]
    return len(sizes) >= 3 and all(a < b for a, b in pairwise(sizes))


def _paragraph_word(scene: Scene) -> Args:
    filler = scene.rng.choice(scene.language.fillers).replace("*", "")
    return scene.rng.choice((2, 3)), first_word(filler)


def _paragraph_begins(draft: TextDraft, number: int, word: str) -> None:
    sentence = draft.filler(lambda each: first_word(each) == word)
    _paragraphs(draft, max(number, draft.paragraphs or 0))

    def shape(paragraphs: Paragraphs) -> Paragraphs:
        if len(paragraphs) < number:
            raise CannotWrite
        paragraphs[number - 1].insert(0, sentence)
        return paragraphs

    draft.shapes.append(shape)


def _of_one_sentence(text: WrittenText, index: int) -> bool:
    return len(text.paragraphs) > 1 and len(sentences_of(text.paragraphs[index])) == 1


def _own_lines(draft: TextDraft) -> None:
    draft.joiner = "\n"
    draft.shapes.append(lambda paragraphs: _cut(paragraphs, 1))


PARAGRAPHS: tuple[InstructionKind, ...] = (
    kind(
        "paragraphs_exactly",
        en="Write exactly {0} paragraphs, with a blank line between them.",
        de="Schreibe genau {0} Absätze mit je einer Leerzeile dazwischen.",
        fr="Écris exactement {0} paragraphes, séparés par une ligne vide.",
        es="Escribe exactamente {0} párrafos, separados por una línea en blanco.",
        it="Scrivi esattamente {0} paragrafi, separati da una riga vuota.",
        pt="Escreva exatamente {0} parágrafos, separados por uma linha em branco.",
        sample=_some_paragraphs,
        check=lambda text, count: len(text.paragraphs) == count,
        write=_paragraphs,
        fixes="paragraphs",
        needs="lines",
        easy=True,
    ),
    kind(
        "sentences_of_paragraphs",
        en="Each paragraph must have exactly {0} sentences, and there must be at least two paragraphs.",
        de="Jeder Absatz muss genau {0} Sätze haben, und es müssen mindestens zwei Absätze sein.",
        fr="Chaque paragraphe doit avoir exactement {0} phrases, et il faut au moins deux paragraphes.",
        es="Cada párrafo debe tener exactamente {0} frases, y tiene que haber al menos dos párrafos.",
        it="Ogni paragrafo deve avere esattamente {0} frasi, e i paragrafi devono essere almeno due.",
        pt="Cada parágrafo deve ter exatamente {0} frases, e deve haver pelo menos dois parágrafos.",
        sample=lambda scene: (scene.rng.choice((2, 3)),),
        check=lambda text, count: (
            len(text.paragraphs) > 1 and all(len(sentences_of(paragraph)) == count for paragraph in text.paragraphs)
        ),
        write=_of_sentences,
        fixes="paragraphs sentences",
        needs="lines",
    ),
    kind(
        "first_paragraph_one_sentence",
        en="The first paragraph must be a single sentence; other paragraphs follow after a blank line.",
        de="Der erste Absatz muss ein einziger Satz sein; nach einer Leerzeile folgt der Rest.",
        fr="Le premier paragraphe doit être une seule phrase ; le reste suit après une ligne vide.",
        es="El primer párrafo debe ser una sola frase; el resto sigue después de una línea en blanco.",
        it="Il primo paragrafo deve essere una sola frase; il resto segue dopo una riga vuota.",
        pt="O primeiro parágrafo deve ser uma única frase; o resto vem depois de uma linha em branco.",
        check=lambda text: _of_one_sentence(text, 0),
        write=lambda draft: draft.shapes.append(_first_alone),
        fixes="paragraphs",
        needs="lines",
        easy=True,
    ),
    kind(
        "last_paragraph_one_sentence",
        en="The last paragraph must be a single sentence, with a blank line before it.",
        de="Der letzte Absatz muss ein einziger Satz sein, mit einer Leerzeile davor.",
        fr="Le dernier paragraphe doit être une seule phrase, avec une ligne vide avant.",
        es="El último párrafo debe ser una sola frase, con una línea en blanco antes.",
        it="L'ultimo paragrafo deve essere una sola frase, con una riga vuota prima.",
        pt="O último parágrafo deve ser uma única frase, com uma linha em branco antes.",
        check=lambda text: _of_one_sentence(text, -1),
        write=lambda draft: draft.shapes.append(_last_alone),
        fixes="paragraphs",
        needs="lines",
        easy=True,
    ),
    kind(
        "star_dividers",
        en="Write {0} parts, with a line that holds only *** between each two of them.",
        de="Schreibe {0} Teile, und zwischen je zweien eine Zeile, in der nur *** steht.",
        fr="Écris {0} parties, séparées chaque fois par une ligne qui ne contient que ***.",
        es="Escribe {0} partes, separadas cada vez por una línea que solo contenga ***.",
        it="Scrivi {0} parti, separate ogni volta da una riga che contiene solo ***.",
        pt="Escreva {0} partes, separadas sempre por uma linha que contenha só ***.",
        sample=lambda scene: (scene.rng.choice((2, 3)),),
        check=lambda text, count: len(_star_parts(text)) == count and all(map(words_of, _star_parts(text))),
        write=_starred,
        fixes="paragraphs",
        needs="lines stars",
    ),
    kind(
        "numbered_paragraphs",
        en="Begin each paragraph with its number in round brackets, from (1), and write at least two.",
        de="Beginne jeden Absatz mit seiner Nummer in runden Klammern, ab (1), und schreibe mindestens zwei.",
        fr="Commence chaque paragraphe par son numéro entre parenthèses, à partir de (1) ; il en faut au moins deux.",
        es="Empieza cada párrafo con su número entre paréntesis, desde (1), y escribe al menos dos.",
        it="Inizia ogni paragrafo con il suo numero tra parentesi tonde, da (1), e scrivine almeno due.",
        pt="Comece cada parágrafo com o seu número entre parênteses, a partir de (1), e escreva pelo menos dois.",
        check=lambda text: (
            len(text.paragraphs) > 1
            and all(paragraph.startswith(f"({index}) ") for index, paragraph in enumerate(text.paragraphs, 1))
        ),
        write=_numbered,
        fixes="top starts brackets",
        needs="paragraphs lines",
    ),
    kind(
        "growing_paragraphs",
        en="Write at least three paragraphs, each with more words than the one before.",
        de="Schreibe mindestens drei Absätze, jeden mit mehr Wörtern als den davor.",
        fr="Écris au moins trois paragraphes, chacun avec plus de mots que le précédent.",
        es="Escribe al menos tres párrafos, cada uno con más palabras que el anterior.",
        it="Scrivi almeno tre paragrafi, ognuno con più parole del precedente.",
        pt="Escreva pelo menos três parágrafos, cada um com mais palavras do que o anterior.",
        check=_sizes_grow,
        write=_growing,
        fixes="paragraphs",
        needs="lines",
    ),
    kind(
        "paragraph_begins",
        en="Paragraph {0} must begin with the word “{1}”.",
        de="Absatz {0} muss mit dem Wort “{1}” beginnen.",
        fr="Le paragraphe {0} doit commencer par le mot “{1}”.",
        es="El párrafo {0} debe empezar con la palabra “{1}”.",
        it="Il paragrafo {0} deve iniziare con la parola “{1}”.",
        pt="O parágrafo {0} deve começar com a palavra “{1}”.",
        sample=_paragraph_word,
        check=lambda text, number, word: (
            len(text.paragraphs) >= number and begins_with(text.paragraphs[number - 1], word)
        ),
        write=_paragraph_begins,
        needs="paragraphs lines sentences starts",
    ),
    kind(
        "one_line",
        en="Write everything on one line, without any line break.",
        de="Schreibe alles in eine Zeile, ohne Zeilenumbruch.",
        fr="Écris tout sur une seule ligne, sans retour à la ligne.",
        es="Escribe todo en una sola línea, sin saltos de línea.",
        it="Scrivi tutto su una sola riga, senza andare a capo.",
        pt="Escreva tudo em uma só linha, sem quebra de linha.",
        check=lambda text: "\n" not in text.text,
        write=lambda draft: setattr(draft, "joiner", " "),
        fixes="paragraphs",
        needs="lines wrap",
        easy=True,
    ),
    kind(
        "sentence_a_line",
        en="Put each sentence on a line of its own.",
        de="Setze jeden Satz auf eine eigene Zeile.",
        fr="Mets chaque phrase sur sa propre ligne.",
        es="Pon cada frase en su propia línea.",
        it="Metti ogni frase su una riga propria.",
        pt="Coloque cada frase em uma linha própria.",
        check=lambda text: len(text.lines) > 1 and all(len(sentences_of(line)) == 1 for line in text.lines),
        write=_own_lines,
        fixes="paragraphs",
        needs="lines",
        easy=True,
    ),
)
