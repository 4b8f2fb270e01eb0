"""Instructions on the beginning and the end of the text, and on how its sentences begin."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from rlvr.envs.instructions.draft import CannotWrite, Paragraphs, TextDraft, begins_with, ending, first_word, plain
from rlvr.envs.instructions.kind import Args, InstructionKind, Scene, kind
from rlvr.envs.instructions.language import CONTACTS
from rlvr.envs.instructions.text import WrittenText, words_of


def first_of(scene: Scene) -> Args:
    """The first word of one of the language's sentences."""
    return (first_word(plain(scene.rng.choice(scene.language.fillers))),)


def last_of(scene: Scene) -> Args:
    """The last word of one of the language's sentences."""
    return (words_of(plain(scene.rng.choice(scene.language.fillers)))[-1],)


def _is_question(sentence: str) -> bool:
    return sentence.rstrip('"”»)').endswith("?")


def _open(draft: TextDraft, word: str) -> None:
    draft.first.append(draft.filler(lambda sentence: begins_with(sentence, word)))


def _exclaim_last(draft: TextDraft) -> None:
    draft.last.append(draft.filler(lambda sentence: sentence.endswith(".")))
    draft.each.append(lambda sentence, index, count: ending(sentence, "!") if index == count - 1 else sentence)


def _repeat_first(draft: TextDraft) -> None:
    def shape(paragraphs: Paragraphs) -> Paragraphs:
        paragraphs[-1].append(paragraphs[0][0])
        return paragraphs

    draft.bound(sentences=(4, 40))
    draft.shapes.append(shape)


def _date_line(scene: Scene) -> Args | None:
    return () if scene.brief.facts and scene.fact("date") else None


def _has_date_line(text: WrittenText) -> bool:
    line = " ".join(text.lines[0].split()).casefold()
    return len(text.lines) > 1 and line in {form.casefold() for form in text.forms("date", text.fact_value("date"))}


EDGES: tuple[InstructionKind, ...] = (
    kind(
        "first_word",
        en="The first word must be “{0}”.",
        de="Das erste Wort muss “{0}” sein.",
        fr="Le premier mot doit être “{0}”.",
        es="La primera palabra debe ser “{0}”.",
        it="La prima parola deve essere “{0}”.",
        pt="A primeira palavra deve ser “{0}”.",
        sample=first_of,
        check=lambda text, word: begins_with(text.text, word),
        write=_open,
        fixes="top",
        easy=True,
    ),
    kind(
        "last_word",
        en="The last word must be “{0}”.",
        de="Das letzte Wort muss “{0}” sein.",
        fr="Le dernier mot doit être “{0}”.",
        es="La última palabra debe ser “{0}”.",
        it="L'ultima parola deve essere “{0}”.",
        pt="A última palavra deve ser “{0}”.",
        sample=last_of,
        check=lambda text, word: text.words[-1:] == [str(word).casefold()],
        write=lambda draft, word: draft.last.append(
            draft.filler(lambda sentence: words_of(sentence)[-1].casefold() == word.casefold())
        ),
        fixes="end",
        easy=True,
    ),
    kind(
        "begin_with",
        en="Begin with this sentence: “{0}”",
        de="Beginne mit diesem Satz: “{0}”",
        fr="Commence par cette phrase : “{0}”",
        es="Empieza con esta frase: “{0}”",
        it="Inizia con questa frase: “{0}”",
        pt="Comece com esta frase: “{0}”",
        sample=lambda scene: (scene.rng.choice(scene.language.openers),),
        check=lambda text, phrase: text.folded.startswith(phrase.casefold()),
        write=lambda draft, phrase: draft.first.append(phrase),
        fixes="top",
        needs="ends",
        easy=True,
    ),
    kind(
        "end_with",
        en="End with this sentence and write nothing behind it: “{0}”",
        de="Schließe mit diesem Satz und schreibe nichts dahinter: “{0}”",
        fr="Termine par cette phrase et n'écris rien après : “{0}”",
        es="Termina con esta frase y no escribas nada después: “{0}”",
        it="Finisci con questa frase e non scrivere niente dopo: “{0}”",
        pt="Termine com esta frase e não escreva nada depois: “{0}”",
        sample=lambda scene: (scene.rng.choice(scene.language.enders),),
        check=lambda text, phrase: text.folded.endswith(phrase.casefold()),
        write=lambda draft, phrase: draft.last.append(phrase),
        fixes="end",
        needs="ends",
        easy=True,
    ),
    kind(
        "first_is_question",
        en="The first sentence must be a question.",
        de="Der erste Satz muss eine Frage sein.",
        fr="La première phrase doit être une question.",
        es="La primera frase debe ser una pregunta.",
        it="La prima frase deve essere una domanda.",
        pt="A primeira frase deve ser uma pergunta.",
        check=lambda text: _is_question(text.sentences[0]),
        write=lambda draft: draft.first.append(draft.filler(_is_question)),
        fixes="top",
        needs="ends",
        easy=True,
    ),
    kind(
        "last_is_question",
        en="The last sentence must be a question.",
        de="Der letzte Satz muss eine Frage sein.",
        fr="La dernière phrase doit être une question.",
        es="La última frase debe ser una pregunta.",
        it="L'ultima frase deve essere una domanda.",
        pt="A última frase deve ser uma pergunta.",
        check=lambda text: _is_question(text.sentences[-1]),
        write=lambda draft: draft.last.append(draft.filler(_is_question)),
        fixes="end",
        needs="ends",
        easy=True,
    ),
    kind(
        "last_is_exclamation",
        en="The text must end with an exclamation mark.",
        de="Der Text muss mit einem Ausrufezeichen enden.",
        fr="Le texte doit se terminer par un point d'exclamation.",
        es="El texto debe terminar con un signo de exclamación.",
        it="Il testo deve finire con un punto esclamativo.",
        pt="O texto deve terminar com um ponto de exclamação.",
        check=lambda text: text.text.endswith("!"),
        write=_exclaim_last,
        fixes="end",
        needs="ends",
        easy=True,
    ),
    kind(
        "greeting_line",
        en="The first line must be exactly: {0}",
        de="Die erste Zeile muss genau so lauten: {0}",
        fr="La première ligne doit être exactement : {0}",
        es="La primera línea debe ser exactamente: {0}",
        it="La prima riga deve essere esattamente: {0}",
        pt="A primeira linha deve ser exatamente: {0}",
        sample=lambda scene: (scene.rng.choice(scene.language.greetings),),
        check=lambda text, line: len(text.lines) > 1 and text.lines[0].casefold() == line.casefold(),
        write=lambda draft, line: draft.tops.append(line),
        fixes="top",
        adds="lines",
        easy=True,
    ),
    kind(
        "closing_line",
        en="The last line must be exactly: {0}",
        de="Die letzte Zeile muss genau so lauten: {0}",
        fr="La dernière ligne doit être exactement : {0}",
        es="La última línea debe ser exactamente: {0}",
        it="L'ultima riga deve essere esattamente: {0}",
        pt="A última linha deve ser exatamente: {0}",
        sample=lambda scene: (scene.rng.choice(scene.language.closings),),
        check=lambda text, line: len(text.lines) > 1 and text.lines[-1].casefold() == line.casefold(),
        write=lambda draft, line: draft.bottoms.append(line),
        fixes="end",
        adds="lines",
        easy=True,
    ),
    kind(
        "signed",
        en="Sign the text as {0}: the last line is this name alone.",
        de="Unterschreibe mit {0}: Die letzte Zeile ist nur dieser Name.",
        fr="Signe le texte au nom de {0} : la dernière ligne est ce nom seul.",
        es="Firma el texto como {0}: la última línea es solo ese nombre.",
        it="Firma il testo come {0}: l'ultima riga è solo questo nome.",
        pt="Assine o texto como {0}: a última linha é só este nome.",
        sample=lambda scene: (scene.rng.choice([name for name in CONTACTS if not scene.holds(name)]),),
        check=lambda text, name: len(text.lines) > 1 and text.lines[-1].casefold() == name.casefold(),
        write=lambda draft, name: draft.bottoms.append(name),
        fixes="end",
        adds="lines",
        easy=True,
    ),
    kind(
        "first_sentence_again",
        en="Repeat the first sentence word for word as the last one.",
        de="Wiederhole den ersten Satz Wort für Wort als letzten.",
        fr="Répète la première phrase mot pour mot comme dernière.",
        es="Repite la primera frase palabra por palabra como la última.",
        it="Ripeti la prima frase parola per parola come ultima.",
        pt="Repita a primeira frase palavra por palavra como a última.",
        check=lambda text: (
            len(text.sentences) > 2
            and [*map(str.casefold, words_of(text.sentences[0]))] == [*map(str.casefold, words_of(text.sentences[-1]))]
        ),
        write=_repeat_first,
        fixes="end sentences ends starts",
        needs="lines paragraphs words case",
    ),
    kind(
        "date_line",
        en="The first line must be the date alone.",
        de="Die erste Zeile muss nur das Datum enthalten.",
        fr="La première ligne doit être la date seule.",
        es="La primera línea debe ser solo la fecha.",
        it="La prima riga deve essere solo la data.",
        pt="A primeira linha deve ser só a data.",
        sample=_date_line,
        check=_has_date_line,
        write=lambda draft: draft.tops.append(draft.value("date")),
        fixes="top",
        adds="lines",
        needs="date order",
    ),
)


# how sentences begin


def _initials(scene: Scene) -> Args | None:
    letters = sorted({plain(each)[0] for each in scene.language.fillers if plain(each)[0].isalpha()})
    chosen = scene.rng.sample(letters, 3)
    return tuple(letter.upper() for letter in chosen)


def _write_initials(draft: TextDraft, *letters: str) -> None:
    draft.first += [
        draft.filler(lambda sentence, letter=letter: sentence[0].upper() == letter)  # type: ignore[misc]
        for letter in letters
    ]


def initial(sentence: str) -> str:
    """The first letter, small."""
    return words_of(sentence)[0][0].casefold()


def _frequent_initial(scene: Scene) -> Args | None:
    counts = Counter(initial(sentence) for sentence in scene.plain.sentences)
    letters = [letter for letter, count in counts.items() if letter.isalpha()]
    return (scene.rng.choice(letters).upper(),)


def _refrain(draft: TextDraft, phrase: str, count: int) -> None:
    draft.extra += [phrase] * count
    draft.bound(sentences=(4 * count, 40))


def _ordered(scene: Scene) -> Args:
    return tuple(word for word, _ in scene.language.order)


def _in_order(text: WrittenText, *words: str) -> bool:
    index = 0
    for sentence in text.sentences:
        if index < len(words) and begins_with(sentence, words[index]):
            index += 1
    return index == len(words)


def _nth(scene: Scene) -> Args:
    return scene.rng.choice((2, 3)), *first_of(scene)


def _write_nth(draft: TextDraft, number: int, word: str) -> None:
    sentence = draft.filler(lambda each: begins_with(each, word))
    while len(draft.first) < number - 1:
        draft.first.append(draft.filler(lambda each: not begins_with(each, word)))
    draft.first.append(sentence)


def _each_paragraph_ends(draft: TextDraft, phrase: str) -> None:
    draft.paragraphs = 2
    draft.bound(sentences=(7, 40))

    def shape(paragraphs: Paragraphs) -> Paragraphs:
        if len(paragraphs) != 2:
            raise CannotWrite
        return [[*part, phrase] for part in paragraphs]

    draft.shapes.append(shape)


STARTS: tuple[InstructionKind, ...] = (
    kind(
        "starts_differ",
        en="No two sentences may begin with the same word.",
        de="Keine zwei Sätze dürfen mit demselben Wort beginnen.",
        fr="Deux phrases ne doivent jamais commencer par le même mot.",
        es="No puede haber dos frases que empiecen con la misma palabra.",
        it="Non ci devono essere due frasi che iniziano con la stessa parola.",
        pt="Não pode haver duas frases que comecem com a mesma palavra.",
        check=lambda text: len({words_of(each)[0].casefold() for each in text.sentences}) == len(text.sentences) > 1,
        write=lambda draft: draft.rules.append(
            lambda sentence, before: not any(begins_with(each, first_word(sentence)) for each in before)
        ),
        fixes="starts",
        needs="lines",
    ),
    kind(
        "neighbours_start_differently",
        en="No sentence may begin with the same word as the sentence before it.",
        de="Kein Satz darf mit demselben Wort beginnen wie der Satz davor.",
        fr="Aucune phrase ne doit commencer par le même mot que la précédente.",
        es="Ninguna frase puede empezar con la misma palabra que la anterior.",
        it="Nessuna frase può iniziare con la stessa parola della precedente.",
        pt="Nenhuma frase pode começar com a mesma palavra que a anterior.",
        check=lambda text: (
            len(text.sentences) > 1 and not any(begins_with(b, words_of(a)[0]) for a, b in pairwise(text.sentences))
        ),
        write=lambda draft: draft.rules.append(
            lambda sentence, before: sum(begins_with(each, first_word(sentence)) for each in before) < 2
        ),
        fixes="starts",
        needs="lines",
    ),
    kind(
        "first_initials",
        en="The first three sentences must begin with the letters {0}, {1} and {2}, in this order.",
        de="Die ersten drei Sätze müssen mit den Buchstaben {0}, {1} und {2} beginnen, in dieser Reihenfolge.",
        fr="Les trois premières phrases doivent commencer par les lettres {0}, {1} et {2}, dans cet ordre.",
        es="Las tres primeras frases deben empezar con las letras {0}, {1} y {2}, en este orden.",
        it="Le prime tre frasi devono iniziare con le lettere {0}, {1} e {2}, in quest'ordine.",
        pt="As três primeiras frases devem começar com as letras {0}, {1} e {2}, nesta ordem.",
        sample=_initials,
        check=lambda text, *letters: (
            [initial(each) for each in text.sentences[:3]] == [letter.casefold() for letter in letters]
        ),
        write=_write_initials,
        fixes="top starts",
        needs="lines",
    ),
    kind(
        "initial_banned",
        en="No sentence may begin with the letter {0}.",
        de="Kein Satz darf mit dem Buchstaben {0} beginnen.",
        fr="Aucune phrase ne doit commencer par la lettre {0}.",
        es="Ninguna frase puede empezar con la letra {0}.",
        it="Nessuna frase può iniziare con la lettera {0}.",
        pt="Nenhuma frase pode começar com a letra {0}.",
        sample=_frequent_initial,
        check=lambda text, letter: all(initial(each) != letter.casefold() for each in text.sentences),
        write=lambda draft, letter: draft.rules.append(lambda sentence, before: initial(sentence) != letter.casefold()),
        fixes="starts",
        easy=True,
    ),
    kind(
        "initials_differ",
        en="No two sentences may begin with the same letter.",
        de="Keine zwei Sätze dürfen mit demselben Buchstaben beginnen.",
        fr="Deux phrases ne doivent jamais commencer par la même lettre.",
        es="No puede haber dos frases que empiecen con la misma letra.",
        it="Non ci devono essere due frasi che iniziano con la stessa lettera.",
        pt="Não pode haver duas frases que comecem com a mesma letra.",
        check=lambda text: len({initial(each) for each in text.sentences}) == len(text.sentences) > 1,
        write=lambda draft: draft.rules.append(
            lambda sentence, before: initial(sentence) not in {initial(each) for each in before}
        ),
        fixes="starts",
        needs="lines",
    ),
    kind(
        "refrain",
        en="This sentence must stand in the text exactly {1} times, but never twice in a row: “{0}”",
        de="Dieser Satz muss genau {1} Mal im Text stehen, aber nie zweimal hintereinander: “{0}”",
        fr="Cette phrase doit figurer exactement {1} fois dans le texte, mais jamais deux fois de suite : “{0}”",
        es="Esta frase debe estar exactamente {1} veces en el texto, pero nunca dos veces seguidas: “{0}”",
        it="Questa frase deve comparire esattamente {1} volte nel testo, ma mai due volte di seguito: “{0}”",
        pt="Esta frase deve aparecer exatamente {1} vezes no texto, mas nunca duas vezes seguidas: “{0}”",
        sample=lambda scene: (scene.rng.choice(scene.language.enders), 2),
        check=lambda text, phrase, count: (
            _refrains(text, phrase) == count
            and not any(a.casefold() == b.casefold() == phrase.casefold() for a, b in pairwise(text.sentences))
        ),
        write=_refrain,
        fixes="sentences starts ends",
        needs="case",
    ),
    kind(
        "steps_in_order",
        en="Three sentences must begin with the words {0}, {1} and {2}, in this order.",
        de="Drei Sätze müssen mit den Wörtern {0}, {1} und {2} beginnen, in dieser Reihenfolge.",
        fr="Trois phrases doivent commencer par les mots {0}, {1} et {2}, dans cet ordre.",
        es="Tres frases deben empezar con las palabras {0}, {1} y {2}, en este orden.",
        it="Tre frasi devono iniziare con le parole {0}, {1} e {2}, in quest'ordine.",
        pt="Três frases devem começar com as palavras {0}, {1} e {2}, nesta ordem.",
        sample=_ordered,
        check=_in_order,
        write=lambda draft, *words: draft.extra.extend(sentence for _, sentence in draft.language.order),
        fixes="marks",
        easy=True,
    ),
    kind(
        "nth_sentence_begins",
        en="Sentence number {0} must begin with the word “{1}”.",
        de="Satz Nummer {0} muss mit dem Wort “{1}” beginnen.",
        fr="La phrase numéro {0} doit commencer par le mot “{1}”.",
        es="La frase número {0} debe empezar con la palabra “{1}”.",
        it="La frase numero {0} deve iniziare con la parola “{1}”.",
        pt="A frase número {0} deve começar com a palavra “{1}”.",
        sample=_nth,
        check=lambda text, number, word: (
            len(text.sentences) >= number and begins_with(text.sentences[number - 1], word)
        ),
        write=_write_nth,
        fixes="top",
        needs="lines starts",
    ),
    kind(
        "paragraphs_end_alike",
        en="Write two paragraphs, and end each of them with this sentence: “{0}”",
        de="Schreibe zwei Absätze und schließe jeden mit diesem Satz: “{0}”",
        fr="Écris deux paragraphes et termine chacun par cette phrase : “{0}”",
        es="Escribe dos párrafos y termina cada uno con esta frase: “{0}”",
        it="Scrivi due paragrafi e finisci ognuno con questa frase: “{0}”",
        pt="Escreva dois parágrafos e termine cada um com esta frase: “{0}”",
        sample=lambda scene: (scene.rng.choice(scene.language.enders),),
        check=lambda text, phrase: (
            len(text.paragraphs) == 2 and all(part.casefold().endswith(phrase.casefold()) for part in text.paragraphs)
        ),
        write=_each_paragraph_ends,
        fixes="paragraphs end sentences ends starts",
        needs="lines",
    ),
)


def _refrains(text: WrittenText, phrase: str) -> int:
    return sum(sentence.casefold() == phrase.casefold() for sentence in text.sentences)
