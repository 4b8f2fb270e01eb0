"""Instructions on capital and small letters, and on punctuation."""

from __future__ import annotations

import re
from collections.abc import Callable

from rlvr.envs.instructions.draft import CannotWrite, TextDraft, begins_with, ending, keyword, plain, small
from rlvr.envs.instructions.kind import Args, InstructionKind, Scene, kind
from rlvr.envs.instructions.language import CONTACTS
from rlvr.envs.instructions.text import WrittenText, words_of
from rlvr.envs.instructions.word_choice import has_word

THANKS = {
    "en": ("Our thanks go to {0}.", "and"),
    "de": ("Unser Dank geht an {0}.", "und"),
    "fr": ("Un grand merci à {0}.", "et"),
    "es": ("Muchas gracias a {0}.", "y"),
    "it": ("Un grazie di cuore a {0}.", "e"),
    "pt": ("Muito obrigado a {0}.", "e"),
}


def in_capitals(word: str) -> bool:
    """Whether a word of two letters or more is all capitals."""
    return len(word) > 1 and word.isalpha() and word.isupper()


def _capitals(text: WrittenText) -> int:
    return sum(in_capitals(token) for token in text.tokens)


def _raise_words(draft: TextDraft, count: int) -> None:
    def change(sentence: str, index: int, _: int) -> str:
        if index >= count:
            return sentence
        word = next((word for word in words_of(sentence) if len(word) > 3 and word.isalpha()), "")
        if not word:
            raise CannotWrite
        return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", word.upper(), sentence, count=1)

    draft.bound(sentences=(count, 40))
    draft.each.append(change)


def _raise_first_words(sentence: str, index: int, count: int) -> str:
    word = words_of(sentence)[0]
    return sentence.replace(word, word.upper(), 1)


def _upper_at(position: int) -> Callable[[TextDraft], None]:
    def change(sentence: str, index: int, count: int) -> str:
        return sentence.upper() if index == (position if position >= 0 else count + position) else sentence

    return lambda draft: draft.each.append(change)


def _is_upper(part: str) -> bool:
    return part == part.upper() != part.lower()


def _keyword_in_capitals(scene: Scene) -> Args | None:
    word = keyword(scene.rng.choice(scene.language.fillers))
    alone = any(has_word(plain(each), word) for each in scene.language.fillers if keyword(each) == word)
    return (word,) if word.isalpha() and alone and word.upper().casefold() == word.casefold() else None


def _raise_keyword(draft: TextDraft, word: str) -> None:
    draft.extra.append(draft.filler(lambda sentence: has_word(sentence, word)))
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    draft.finishes.append(lambda text: pattern.sub(word.upper(), text))


def _always_capitals(text: WrittenText, word: str) -> bool:
    tokens = [token for token in text.tokens if token.casefold() == word.casefold()]
    return bool(tokens) and all(map(in_capitals, tokens))


def _named(fact: str) -> Callable[[Scene], Args | None]:
    return lambda scene: (scene.fact(fact),) if scene.fact(fact) else None


def _value_in_capitals(text: WrittenText, value: str) -> bool:
    return value.upper() in text.text and value not in text.text


def _raise_value(fact: str) -> Callable[[TextDraft, str], None]:
    return lambda draft, value: draft.values.__setitem__(fact, value.upper())


CASE: tuple[InstructionKind, ...] = (
    kind(
        "all_small",
        en="Use small letters only, no capital at all.",
        de="Verwende nur Kleinbuchstaben, keinen einzigen Großbuchstaben.",
        fr="N'utilise que des minuscules, aucune majuscule.",
        es="Usa solo minúsculas, ninguna mayúscula.",
        it="Usa solo minuscole, nessuna maiuscola.",
        pt="Use só minúsculas, nenhuma maiúscula.",
        check=lambda text: text.text == text.text.lower(),
        write=lambda draft: draft.finishes.insert(0, str.lower),
        fixes="case",
        easy=True,
    ),
    kind(
        "all_capitals",
        en="Use capital letters only.",
        de="Verwende nur Großbuchstaben.",
        fr="N'utilise que des majuscules.",
        es="Usa solo mayúsculas.",
        it="Usa solo maiuscole.",
        pt="Use só maiúsculas.",
        check=lambda text: _is_upper(text.text),
        write=lambda draft: draft.finishes.insert(0, str.upper),
        fixes="case",
        needs="time",
        easy=True,
    ),
    kind(
        "capital_words_at_least",
        en="Write at least {0} words all in capital letters.",
        de="Schreibe mindestens {0} Wörter ganz in Großbuchstaben.",
        fr="Écris au moins {0} mots entièrement en majuscules.",
        es="Escribe al menos {0} palabras enteras en mayúsculas.",
        it="Scrivi almeno {0} parole tutte in maiuscole.",
        pt="Escreva pelo menos {0} palavras inteiras em maiúsculas.",
        sample=lambda scene: (scene.rng.randint(2, 4),),
        check=lambda text, least: _capitals(text) >= least,
        write=_raise_words,
        fixes="case",
        easy=True,
    ),
    kind(
        "capital_words_exactly",
        en="Write exactly {0} words of two or more letters all in capital letters.",
        de="Schreibe genau {0} Wörter aus zwei oder mehr Buchstaben ganz in Großbuchstaben.",
        fr="Écris exactement {0} mots de deux lettres ou plus entièrement en majuscules.",
        es="Escribe exactamente {0} palabras de dos o más letras enteras en mayúsculas.",
        it="Scrivi esattamente {0} parole di due o più lettere tutte in maiuscole.",
        pt="Escreva exatamente {0} palavras de duas ou mais letras inteiras em maiúsculas.",
        sample=lambda scene: (scene.rng.randint(2, 4),),
        check=lambda text, count: _capitals(text) == count,
        write=_raise_words,
        fixes="case",
        needs="lines venue",
    ),
    kind(
        "word_in_capitals",
        en="Use the word “{0}”, and write it in capital letters wherever it occurs.",
        de="Verwende das Wort “{0}” und schreibe es überall in Großbuchstaben.",
        fr="Utilise le mot “{0}” et écris-le partout en majuscules.",
        es="Usa la palabra “{0}” y escríbela siempre en mayúsculas.",
        it="Usa la parola “{0}” e scrivila sempre in maiuscole.",
        pt="Use a palavra “{0}” e escreva-a sempre em maiúsculas.",
        sample=_keyword_in_capitals,
        check=_always_capitals,
        write=_raise_keyword,
        fixes="case",
        needs="wrap",
    ),
    kind(
        "first_words_in_capitals",
        en="Write the first word of each sentence in capital letters.",
        de="Schreibe das erste Wort jedes Satzes in Großbuchstaben.",
        fr="Écris le premier mot de chaque phrase en majuscules.",
        es="Escribe la primera palabra de cada frase en mayúsculas.",
        it="Scrivi la prima parola di ogni frase in maiuscole.",
        pt="Escreva a primeira palavra de cada frase em maiúsculas.",
        check=lambda text: all(words_of(each)[0] == words_of(each)[0].upper() for each in text.sentences),
        write=lambda draft: draft.each.append(_raise_first_words),
        fixes="case",
        needs="lines",
    ),
    kind(
        "first_sentence_in_capitals",
        en="Write the first sentence all in capital letters, and the rest as usual.",
        de="Schreibe den ersten Satz ganz in Großbuchstaben und den Rest wie üblich.",
        fr="Écris la première phrase entièrement en majuscules et le reste comme d'habitude.",
        es="Escribe la primera frase entera en mayúsculas y el resto como siempre.",
        it="Scrivi la prima frase tutta in maiuscole e il resto come al solito.",
        pt="Escreva a primeira frase inteira em maiúsculas e o resto como de costume.",
        check=lambda text: _is_upper(text.sentences[0]) and not any(map(_is_upper, text.sentences[1:])),
        write=_upper_at(0),
        fixes="case",
        needs="lines time",
        easy=True,
    ),
    kind(
        "last_sentence_in_capitals",
        en="Write the last sentence all in capital letters, and the rest as usual.",
        de="Schreibe den letzten Satz ganz in Großbuchstaben und den Rest wie üblich.",
        fr="Écris la dernière phrase entièrement en majuscules et le reste comme d'habitude.",
        es="Escribe la última frase entera en mayúsculas y el resto como siempre.",
        it="Scrivi l'ultima frase tutta in maiuscole e il resto come al solito.",
        pt="Escreva a última frase inteira em maiúsculas e o resto como de costume.",
        check=lambda text: _is_upper(text.sentences[-1]) and not any(map(_is_upper, text.sentences[:-1])),
        write=_upper_at(-1),
        fixes="case",
        needs="lines time",
        easy=True,
    ),
    kind(
        "venue_in_capitals",
        en="Always write {0} in capital letters.",
        de="Schreibe {0} immer in Großbuchstaben.",
        fr="Écris toujours {0} en majuscules.",
        es="Escribe siempre {0} en mayúsculas.",
        it="Scrivi sempre {0} in maiuscole.",
        pt="Escreva sempre {0} em maiúsculas.",
        sample=_named("venue"),
        check=_value_in_capitals,
        write=_raise_value("venue"),
        fixes="case venue",
        adds="stars",
        easy=True,
    ),
    kind(
        "contact_in_capitals",
        en="Always write the name {0} in capital letters.",
        de="Schreibe den Namen {0} immer in Großbuchstaben.",
        fr="Écris toujours le nom {0} en majuscules.",
        es="Escribe siempre el nombre {0} en mayúsculas.",
        it="Scrivi sempre il nome {0} in maiuscole.",
        pt="Escreva sempre o nome {0} em maiúsculas.",
        sample=_named("contact"),
        check=_value_in_capitals,
        write=_raise_value("contact"),
        fixes="case",
        adds="stars",
        easy=True,
    ),
)


# punctuation


def _exclaimed(draft: TextDraft, count: int) -> None:
    draft.rules.append(lambda sentence, before: "!" not in sentence)
    draft.bound(sentences=(count + 1, 40))
    draft.each.append(
        lambda sentence, index, _: ending(sentence, "!") if index < count and "?" not in sentence else sentence
    )


def _questions(draft: TextDraft, count: int) -> None:
    draft.extra += [draft.filler(lambda sentence: "?" in sentence) for _ in range(count)]
    draft.rules.append(lambda sentence, before: "?" not in sentence or sum("?" in each for each in before) < count)


def _joined(mark: str) -> Callable[[TextDraft], None]:
    def write(draft: TextDraft) -> None:
        (_, first), (_, second), _ = draft.language.order
        draft.extra.append(f"{first.rstrip('.')}{mark}{small(second)}")

    return write


def _bracketed(draft: TextDraft) -> None:
    draft.extra.append(f"({draft.filler(lambda sentence: sentence.endswith('.'))})")


def _thanks(draft: TextDraft, count: int) -> None:
    sentence, joint = THANKS[draft.language.code]
    taken = {value for _, value in (*draft.brief.facts, *draft.brief.outdated)} | {"Irene"}
    *names, last = draft.rng.sample([name for name in CONTACTS if name not in taken], count + 2)
    draft.rules.append(lambda each, before: "," not in each or begins_with(each, words_of(sentence)[0]))
    draft.extra.append(sentence.format(f"{', '.join(names)} {joint} {last}"))


def _quotes(draft: TextDraft, count: int) -> None:
    words = draft.rng.sample([keyword(each) for each in draft.language.fillers], count)
    draft.extra += [motto.format(word) for motto, word in zip(draft.language.mottos, words, strict=False)]


def quoted_parts(text: str) -> int:
    """How many passages stand between quotation marks of any kind."""
    return len(re.findall(r"“[^“”\n]+”|„[^„“\n]+“|«[^«»\n]+»|\"[^\"\n]+\"", text))


def _all_exclaim(draft: TextDraft) -> None:
    draft.each.append(lambda sentence, index, count: ending(sentence, "!"))
    draft.rules.append(lambda sentence, before: "?" not in sentence)


def _no_stops(draft: TextDraft) -> None:
    draft.each.append(lambda sentence, index, count: ending(sentence, "!") if sentence.endswith(".") else sentence)


PUNCTUATION: tuple[InstructionKind, ...] = (
    kind(
        "no_commas",
        en="Use no commas.",
        de="Verwende keine Kommas.",
        fr="N'utilise pas de virgules.",
        es="No uses comas.",
        it="Non usare virgole.",
        pt="Não use vírgulas.",
        check=lambda text: "," not in text.text,
        write=lambda draft: draft.rules.append(lambda sentence, before: "," not in sentence),
        needs="wrap",
        easy=True,
    ),
    kind(
        "commas_exactly",
        en="Use exactly {0} commas.",
        de="Verwende genau {0} Kommas.",
        fr="Utilise exactement {0} virgules.",
        es="Usa exactamente {0} comas.",
        it="Usa esattamente {0} virgole.",
        pt="Use exatamente {0} vírgulas.",
        sample=lambda scene: (scene.rng.randint(2, 4),),
        check=lambda text, count: text.text.count(",") == count,
        write=_thanks,
        needs="top",
    ),
    kind(
        "all_exclaim",
        en="Every sentence must end with an exclamation mark.",
        de="Jeder Satz muss mit einem Ausrufezeichen enden.",
        fr="Chaque phrase doit se terminer par un point d'exclamation.",
        es="Cada frase debe terminar con un signo de exclamación.",
        it="Ogni frase deve finire con un punto esclamativo.",
        pt="Cada frase deve terminar com um ponto de exclamação.",
        check=lambda text: all(sentence.rstrip('"”»)*_').endswith("!") for sentence in text.sentences),
        write=_all_exclaim,
        fixes="ends",
        needs="lines",
        easy=True,
    ),
    kind(
        "questions_exactly",
        en="Ask exactly this many questions, each with a question mark: {0}.",
        de="Stelle genau so viele Fragen, jede mit Fragezeichen: {0}.",
        fr="Pose exactement ce nombre de questions, chacune avec un point d'interrogation : {0}.",
        es="Haz exactamente este número de preguntas, cada una con signo de interrogación: {0}.",
        it="Fai esattamente questo numero di domande, ognuna con un punto interrogativo: {0}.",
        pt="Faça exatamente este número de perguntas, cada uma com ponto de interrogação: {0}.",
        sample=lambda scene: (scene.rng.randint(1, 3),),
        check=lambda text, count: text.text.count("?") == count,
        write=_questions,
        fixes="ends",
        easy=True,
    ),
    kind(
        "exclamations_exactly",
        en="The number of exclamation marks must be exactly {0}.",
        de="Die Zahl der Ausrufezeichen muss genau {0} sein.",
        fr="Le nombre de points d'exclamation doit être exactement {0}.",
        es="El número de signos de exclamación de cierre debe ser exactamente {0}.",
        it="Il numero di punti esclamativi deve essere esattamente {0}.",
        pt="O número de pontos de exclamação deve ser exatamente {0}.",
        sample=lambda scene: (scene.rng.randint(1, 3),),
        check=lambda text, count: text.text.count("!") == count,
        write=_exclaimed,
        fixes="ends",
        easy=True,
    ),
    kind(
        "one_semicolon",
        en="Use exactly one semicolon.",
        de="Verwende genau einen Strichpunkt.",
        fr="Utilise exactement un point-virgule.",
        es="Usa exactamente un punto y coma.",
        it="Usa esattamente un punto e virgola.",
        pt="Use exatamente um ponto e vírgula.",
        check=lambda text: text.text.count(";") == 1,
        write=_joined("; "),
        fixes="marks",
        easy=True,
    ),
    kind(
        "one_dash",
        en="Use exactly one dash with a blank on both sides ( – ).",
        de="Verwende genau einen Gedankenstrich mit einem Leerzeichen auf beiden Seiten ( – ).",
        fr="Utilise exactement un tiret avec une espace de chaque côté ( – ).",
        es="Usa exactamente una raya con un espacio a cada lado ( – ).",
        it="Usa esattamente una lineetta con uno spazio per lato ( – ).",
        pt="Use exatamente um travessão com um espaço de cada lado ( – ).",
        check=lambda text: len(re.findall(r"(?<=\S) [–—] (?=\S)", text.text)) == 1,
        write=_joined(" – "),
        fixes="marks",
    ),
    kind(
        "one_bracket",
        en="Put exactly one remark in round brackets.",
        de="Setze genau eine Bemerkung in runde Klammern.",
        fr="Mets exactement une remarque entre parenthèses.",
        es="Pon exactamente una observación entre paréntesis.",
        it="Metti esattamente un'osservazione tra parentesi tonde.",
        pt="Coloque exatamente uma observação entre parênteses.",
        check=lambda text: (
            len(re.findall(r"\([^()]*\w[^()]*\)", text.text)) == 1 and text.text.count("(") == text.text.count(")") == 1
        ),
        write=_bracketed,
        fixes="brackets",
        easy=True,
    ),
    kind(
        "quotes_exactly",
        en="Put exactly this many passages between quotation marks: {0}.",
        de="Setze genau so viele Stellen in Anführungszeichen: {0}.",
        fr="Mets exactement ce nombre de passages entre guillemets : {0}.",
        es="Pon exactamente este número de pasajes entre comillas: {0}.",
        it="Metti tra virgolette esattamente questo numero di passaggi: {0}.",
        pt="Coloque entre aspas exatamente este número de trechos: {0}.",
        sample=lambda scene: (scene.rng.randint(1, 3),),
        check=lambda text, count: quoted_parts(text.text) == count,
        write=_quotes,
        fixes="quotes mottos",
    ),
    kind(
        "ends_open",
        en="The text must end with three dots (...).",
        de="Der Text muss mit drei Punkten enden (...).",
        fr="Le texte doit se terminer par trois points (...).",
        es="El texto debe terminar con tres puntos (...).",
        it="Il testo deve finire con tre punti (...).",
        pt="O texto deve terminar com três pontos (...).",
        check=lambda text: re.search(r"(?<!\.)\.\.\.$", text.text) is not None,
        write=lambda draft: draft.each.append(
            lambda sentence, index, count: ending(sentence, "...") if index == count - 1 else sentence
        ),
        fixes="end",
        needs="ends",
        easy=True,
    ),
    kind(
        "no_full_stops",
        en="Use no full stop; end sentences with other marks.",
        de="Verwende keinen Punkt; beende Sätze mit anderen Zeichen.",
        fr="N'utilise pas de point ; termine les phrases par d'autres signes.",
        es="No uses ningún punto; termina las frases con otros signos.",
        it="Non usare nessun punto fermo; finisci le frasi con altri segni.",
        pt="Não use nenhum ponto final; termine as frases com outros sinais.",
        check=lambda text: "." not in text.text,
        write=_no_stops,
        fixes="ends",
        needs="lines date",
        without="de",
    ),
)
