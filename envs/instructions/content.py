"""Instructions on the language and its persons, and on how the facts are given."""

from __future__ import annotations

import re
from collections.abc import Callable

from rlvr.envs.instructions.draft import CannotWrite, Paragraphs, TextDraft, keyword
from rlvr.envs.instructions.kind import Args, InstructionKind, Scene, kind
from rlvr.envs.instructions.layout import label_arg
from rlvr.envs.instructions.text import LANGUAGES, Brief, WrittenText, fact_forms, find_form, parts_of
from rlvr.envs.instructions.word_choice import is_quoted

REPLY_LANGUAGE = "reply_language"


def _other_code(scene: Scene) -> str:
    return scene.rng.choice([code for code in sorted(LANGUAGES) if code != scene.language.code])


def _foreign(field: str) -> Callable[[Scene], Args]:
    def sample(scene: Scene) -> Args:
        return (scene.rng.choice(getattr(LANGUAGES[_other_code(scene)], field)),)

    return sample


def _foreign_word(scene: Scene) -> Args:
    code = _other_code(scene)
    words = [keyword(each) for each in LANGUAGES[code].fillers]
    return (scene.rng.choice(words),)


def persons(text: WrittenText, words: frozenset[str]) -> int:
    """How many words of the text are among these, elided ones such as j' included."""
    return sum(part in words for part in parts_of(text.text))


def _no_persons(field: str) -> Callable[[TextDraft], None]:
    def write(draft: TextDraft) -> None:
        words: frozenset[str] = getattr(draft.language, field)
        draft.rules.append(lambda sentence, before: words.isdisjoint(parts_of(sentence)))

    return write


def _more_persons(draft: TextDraft, least: int) -> None:
    draft.extra += [
        draft.filler(lambda sentence: not draft.language.ours.isdisjoint(parts_of(sentence))) for _ in range(2)
    ]


def _reply_language(scene: Scene) -> Args:
    """The code of the text's language, and its name in the user's."""
    code = scene.language.code
    return code, LANGUAGES[scene.brief.language].names[code]


LANGUAGE: tuple[InstructionKind, ...] = (
    kind(
        REPLY_LANGUAGE,
        en="Write the text in {1}, though I write to you in English.",
        de="Schreibe den Text auf {1}, auch wenn ich dir auf Deutsch schreibe.",
        fr="Écris le texte en {1}, même si je t'écris en français.",
        es="Escribe el texto en {1}, aunque yo te escriba en español.",
        it="Scrivi il testo in {1}, anche se io ti scrivo in italiano.",
        pt="Escreva o texto em {1}, embora eu escreva em português.",
        sample=_reply_language,
        check=lambda text, code, _: (
            text.share_of(LANGUAGES[code]) == max(text.share_of(language) for language in LANGUAGES.values())
        ),
        fixes="language",
    ),
    kind(
        "ours_at_least",
        en="Use “we”, “us”, “our” or “ours” at least {0} times in all.",
        de="Verwende “wir”, “uns” oder “unser”, auch gebeugt, insgesamt mindestens {0} Mal.",
        fr="Utilise “nous”, “notre” ou “nos” au moins {0} fois en tout.",
        es="Usa “nosotros”, “nos” o “nuestro” en cualquiera de sus formas al menos {0} veces en total.",
        it="Usa “noi” o “nostro” in una delle sue forme almeno {0} volte in tutto.",
        pt="Use “nós” ou “nosso” em uma de suas formas pelo menos {0} vezes ao todo.",
        sample=lambda scene: (max(2, persons(scene.plain, scene.language.ours) + 1),),
        check=lambda text, least: persons(text, text.language.ours) >= least,
        write=_more_persons,
    ),
    kind(
        "no_ours",
        en="Do not write in the first person plural: no “we”, “us”, “our” or “ours”.",
        de="Schreibe nicht in der Wir-Form: kein “wir”, “uns” oder “unser”, auch nicht gebeugt.",
        fr="N'écris pas à la première personne du pluriel : ni “nous”, ni “notre”, ni “nos”.",
        es="No escribas con “nosotros”, “nos” ni “nuestro” en ninguna de sus formas.",
        it="Non scrivere con “noi” né con “nostro” in nessuna delle sue forme.",
        pt="Não escreva com “nós”, “conosco” nem “nosso” em nenhuma de suas formas.",
        check=lambda text: persons(text, text.language.ours) == 0,
        write=_no_persons("ours"),
    ),
    kind(
        "no_yours",
        en="Do not address the readers: no “you”, “your” or “yours”.",
        de="Sprich die Leser nicht an: kein “du”, “ihr”, “euch” oder “euer”, auch nicht gebeugt.",
        fr="Ne t'adresse pas aux lecteurs : ni “vous”, ni “votre”, ni “vos”, ni “tu”, ni “te”.",
        es="No te dirijas a los lectores con “tú”, “te”, “ti”, “tu”, “tus” ni “usted”.",
        it="Non rivolgerti ai lettori con “voi”, “vi”, “vostro”, “tu”, “ti” né “tuo”.",
        pt="Não se dirija aos leitores com “você”, “seu”, “sua”, “tu”, “te” nem “teu”.",
        check=lambda text: persons(text, text.language.yours) == 0,
        write=_no_persons("yours"),
    ),
    kind(
        "foreign_greeting",
        en="Greet in another language: the first line must be exactly “{0}”",
        de="Grüße in einer anderen Sprache: Die erste Zeile muss genau so lauten: “{0}”",
        fr="Salue dans une autre langue : la première ligne doit être exactement “{0}”",
        es="Saluda en otro idioma: la primera línea debe ser exactamente “{0}”",
        it="Saluta in un'altra lingua: la prima riga deve essere esattamente “{0}”",
        pt="Cumprimente em outra língua: a primeira linha deve ser exatamente “{0}”",
        sample=_foreign("greetings"),
        check=lambda text, line: len(text.lines) > 1 and text.lines[0].casefold() == line.casefold(),
        write=lambda draft, line: draft.tops.append(line),
        fixes="top",
        adds="lines",
    ),
    kind(
        "foreign_closing",
        en="Take your leave in another language: the last line must be exactly “{0}”",
        de="Verabschiede dich in einer anderen Sprache: Die letzte Zeile muss genau “{0}” sein.",
        fr="Prends congé dans une autre langue : la dernière ligne doit être exactement “{0}”",
        es="Despídete en otro idioma: la última línea debe ser exactamente “{0}”",
        it="Saluta alla fine in un'altra lingua: l'ultima riga deve essere esattamente “{0}”",
        pt="Despeça-se em outra língua: a última linha deve ser exatamente “{0}”",
        sample=_foreign("closings"),
        check=lambda text, line: len(text.lines) > 1 and text.lines[-1].casefold() == line.casefold(),
        write=lambda draft, line: draft.bottoms.append(line),
        fixes="end",
        adds="lines",
    ),
    kind(
        "foreign_sentence",
        en="This sentence in another language must stand in the text exactly once: “{0}”",
        de="Dieser Satz in einer anderen Sprache muss genau einmal im Text stehen: “{0}”",
        fr="Cette phrase dans une autre langue doit figurer exactement une fois dans le texte : “{0}”",
        es="Esta frase en otro idioma debe estar exactamente una vez en el texto: “{0}”",
        it="Questa frase in un'altra lingua deve comparire esattamente una volta nel testo: “{0}”",
        pt="Esta frase em outra língua deve aparecer exatamente uma vez no texto: “{0}”",
        sample=_foreign("openers"),
        check=lambda text, phrase: text.folded.count(phrase.casefold()) == 1,
        write=lambda draft, phrase: draft.extra.append(phrase),
        needs="ends",
    ),
    kind(
        "foreign_word",
        en="Use this word of another language between quotation marks: “{0}”",
        de="Verwende dieses Wort einer anderen Sprache in Anführungszeichen: “{0}”",
        fr="Utilise ce mot d'une autre langue entre guillemets : “{0}”",
        es="Usa esta palabra de otro idioma entre comillas: “{0}”",
        it="Usa questa parola di un'altra lingua tra virgolette: “{0}”",
        pt="Use esta palavra de outra língua entre aspas: “{0}”",
        sample=_foreign_word,
        check=is_quoted,
        write=lambda draft, word: draft.extra.append(draft.rng.choice(draft.language.mottos).format(word)),
        fixes="mottos",
        adds="quotes",
    ),
)


# facts


def _if_given(fact: str) -> Callable[[Scene], Args | None]:
    return lambda scene: () if scene.fact(fact) else None


def _date_figures(brief: Brief) -> str:
    day, month = map(int, dict(brief.facts)["date"].split("/"))
    return f"{day:02}/{month:02}"


def _is_in_figures(text: WrittenText) -> bool:
    value = text.fact_value("date")
    month = int(value.split("/")[1]) - 1
    named = any(find_form(text.folded, language.months[month]) >= 0 for language in LANGUAGES.values())
    return find_form(text.folded, _date_figures(text.brief)) >= 0 and not named


def _write_as(fact: str, make: Callable[[TextDraft], str]) -> Callable[[TextDraft], None]:
    return lambda draft: draft.values.__setitem__(fact, make(draft))


def _order_pair(scene: Scene) -> Args | None:
    facts = [fact for fact, _ in scene.brief.facts]
    if len(facts) < 2:
        return None
    first, second = scene.rng.sample(facts, 2)
    labels = LANGUAGES[scene.brief.language].labels
    return first, second, labels[first], labels[second]


def _write_pair(draft: TextDraft, first: str, second: str, *labels: str) -> None:
    if draft.order.index(first) > draft.order.index(second):
        draft.order.remove(first)
        draft.order.insert(draft.order.index(second), first)


def _permutation(scene: Scene) -> Args | None:
    facts = [fact for fact, _ in scene.brief.facts]
    if len(facts) < 3:
        return None
    order = scene.rng.sample(facts, len(facts))
    labels = LANGUAGES[scene.brief.language].labels
    return ", ".join(labels[fact] for fact in order), *order


def _in_this_order(text: WrittenText, _: str, *facts: str) -> bool:
    starts = [text.where(fact) for fact in facts]
    return starts == sorted(starts)


def _write_order(draft: TextDraft, _: str, *facts: str) -> None:
    draft.order = [*facts]


def _fact_sentence(index: int) -> Callable[[WrittenText, str, str], bool]:
    return lambda text, fact, _: text.where(fact, text.sentences[index]) >= 0


def _contact_times(scene: Scene) -> Args | None:
    return (scene.fact("contact"), scene.rng.choice((2, 3))) if scene.fact("contact") else None


def _times(text: WrittenText, name: str, count: int) -> bool:
    return text.counts(name) == count


def _value_lines(text: WrittenText) -> bool:
    labels = LANGUAGES[text.language.code].labels
    values = {fact: [form.casefold() for form in text.forms(fact, value)] for fact, value in text.brief.facts}
    lines = [line.partition(":") for line in text.folded.split("\n")]
    return all(
        any(before.strip() == labels[fact].casefold() and value.strip() in forms for before, _, value in lines)
        for fact, forms in values.items()
    )


def _write_value_lines(draft: TextDraft) -> None:
    labels = draft.language.labels
    draft.tops.append("\n".join(f"{labels[fact]}: {draft.value(fact)}" for fact, _ in draft.brief.facts))


def _labels(scene: Scene) -> Args:
    return (", ".join(f"{scene.language.labels[fact]}: …" for fact, _ in scene.brief.facts),)


def _facts_in_paragraph(index: int) -> Callable[[WrittenText], bool]:
    def check(text: WrittenText) -> bool:
        if len(text.paragraphs) < 2:
            return False
        rest = [part for part in text.paragraphs if part is not text.paragraphs[index]]
        facts = [fact for fact, _ in text.brief.facts]
        return all(text.where(fact, text.paragraphs[index]) >= 0 for fact in facts) and not any(
            text.where(fact, part) >= 0 for fact in facts for part in rest
        )

    return check


def _gather(first: bool) -> Callable[[TextDraft], None]:
    def write(draft: TextDraft) -> None:
        values = [draft.value(fact).casefold() for fact, _ in draft.brief.facts]

        def shape(paragraphs: Paragraphs) -> Paragraphs:
            every = [sentence for paragraph in paragraphs for sentence in paragraph]
            facts = [sentence for sentence in every if any(value in sentence.casefold() for value in values)]
            others = [sentence for sentence in every if sentence not in facts]
            if not facts or not others:
                raise CannotWrite
            return [facts, others] if first else [others, facts]

        draft.bound(sentences=(len(values) + 2, 40))
        draft.shapes.append(shape)

    return write


def _number_in_words(draft: TextDraft) -> str:
    return fact_forms("seats", dict(draft.brief.facts)["seats"], draft.language.code)[1]


FACTS_GIVEN: tuple[InstructionKind, ...] = (
    kind(
        "date_in_figures",
        en="Give the date in figures as day/month, with two digits each, such as 03/07, and no month by its name.",
        de="Gib das Datum in Ziffern als Tag/Monat mit je zwei Stellen an, etwa 03/07, und keinen Monat mit Namen.",
        fr="Donne la date en chiffres sous la forme jour/mois, à deux chiffres chacun, par exemple 03/07, sans nom de "
        "mois.",
        es="Da la fecha en cifras como día/mes, con dos cifras cada uno, por ejemplo 03/07, y sin nombres de meses.",
        it="Indica la data in cifre come giorno/mese, con due cifre ciascuno, per esempio 03/07, senza nomi di mesi.",
        pt="Dê a data em algarismos como dia/mês, com dois algarismos cada, por exemplo 03/07, sem nomes de meses.",
        sample=_if_given("date"),
        check=_is_in_figures,
        write=_write_as("date", lambda draft: _date_figures(draft.brief)),
        fixes="date",
    ),
    kind(
        "time_with_h",
        en="Write the time with an h between hours and minutes, such as 09h15.",
        de="Schreibe die Uhrzeit mit einem h zwischen Stunden und Minuten, etwa 09h15.",
        fr="Écris l'heure avec un h entre les heures et les minutes, par exemple 09h15.",
        es="Escribe la hora con una h entre horas y minutos, por ejemplo 09h15.",
        it="Scrivi l'ora con una h tra ore e minuti, per esempio 09h15.",
        pt="Escreva a hora com um h entre horas e minutos, por exemplo 09h15.",
        sample=_if_given("time"),
        check=lambda text: (
            find_form(text.folded, text.fact_value("time").replace(":", "h")) >= 0
            and text.fact_value("time") not in text.text
        ),
        write=_write_as("time", lambda draft: dict(draft.brief.facts)["time"].replace(":", "h")),
        fixes="time",
    ),
    kind(
        "price_with_sign",
        en="Write the price with the sign €, and nowhere the word for it.",
        de="Schreibe den Preis mit dem Zeichen € und nirgends das Wort dafür.",
        fr="Écris le prix avec le signe €, et nulle part le mot.",
        es="Escribe el precio con el signo € y en ningún sitio la palabra.",
        it="Scrivi il prezzo con il segno € e da nessuna parte la parola.",
        pt="Escreva o preço com o sinal € e em nenhum lugar a palavra.",
        sample=_if_given("price"),
        check=lambda text: "€" in text.text and not re.search(r"\beuros?\b", text.folded),
        write=_write_as("price", lambda draft: f"{dict(draft.brief.facts)['price']} €"),
        fixes="price",
        easy=True,
    ),
    kind(
        "seats_in_words",
        en="Write the number of seats in words, not in figures.",
        de="Schreibe die Zahl der Plätze als Wort, nicht in Ziffern.",
        fr="Écris le nombre de places en lettres et non en chiffres.",
        es="Escribe el número de plazas con letras y no con cifras.",
        it="Scrivi il numero dei posti in lettere e non in cifre.",
        pt="Escreva o número de lugares por extenso e não em algarismos.",
        sample=_if_given("seats"),
        check=lambda text: find_form(text.folded, text.fact_value("seats")) < 0 and text.where("seats") >= 0,
        write=_write_as("seats", _number_in_words),
        fixes="seats",
        easy=True,
    ),
    kind(
        "quoted_venue",
        en="Put {0} between quotation marks.",
        de="Setze {0} in Anführungszeichen.",
        fr="Mets {0} entre guillemets.",
        es="Pon {0} entre comillas.",
        it="Metti {0} tra virgolette.",
        pt="Coloque {0} entre aspas.",
        sample=lambda scene: (scene.fact("venue"),) if scene.fact("venue") else None,
        check=is_quoted,
        write=lambda draft, value: draft.values.__setitem__("venue", f"“{value}”"),
        fixes="venue",
        adds="quotes",
        easy=True,
    ),
    kind(
        "fact_before_fact",
        en="Mention the first of these two details before the other: {2}, {3}.",
        de="Nenne die erste dieser beiden Angaben vor der anderen: {2}, {3}.",
        fr="Mentionne la première de ces deux indications avant l'autre : {2}, {3}.",
        es="Menciona el primero de estos dos datos antes que el otro: {2}, {3}.",
        it="Cita il primo di questi due dati prima dell'altro: {2}, {3}.",
        pt="Cite o primeiro destes dois dados antes do outro: {2}, {3}.",
        sample=_order_pair,
        check=lambda text, first, second, *labels: 0 <= text.where(first) < text.where(second),
        write=_write_pair,
        fixes="order",
    ),
    kind(
        "facts_in_order",
        en="Mention the details in this order: {0}.",
        de="Nenne die Angaben in dieser Reihenfolge: {0}.",
        fr="Mentionne les indications dans cet ordre : {0}.",
        es="Menciona los datos en este orden: {0}.",
        it="Cita i dati in quest'ordine: {0}.",
        pt="Cite os dados nesta ordem: {0}.",
        sample=_permutation,
        check=_in_this_order,
        write=_write_order,
        fixes="order",
    ),
    kind(
        "fact_in_first_sentence",
        en="The first sentence must mention this detail: {1}.",
        de="Der erste Satz muss diese Angabe enthalten: {1}.",
        fr="La première phrase doit mentionner cette indication : {1}.",
        es="La primera frase debe mencionar este dato: {1}.",
        it="La prima frase deve citare questo dato: {1}.",
        pt="A primeira frase deve citar este dado: {1}.",
        sample=label_arg,
        check=_fact_sentence(0),
        write=lambda draft, fact, _: draft.first_facts.append(fact),
        fixes="top order",
        needs="lines",
        easy=True,
    ),
    kind(
        "fact_in_last_sentence",
        en="The last sentence must mention this detail: {1}.",
        de="Der letzte Satz muss diese Angabe enthalten: {1}.",
        fr="La dernière phrase doit mentionner cette indication : {1}.",
        es="La última frase debe mencionar este dato: {1}.",
        it="L'ultima frase deve citare questo dato: {1}.",
        pt="A última frase deve citar este dado: {1}.",
        sample=label_arg,
        check=_fact_sentence(-1),
        write=lambda draft, fact, _: draft.last_facts.append(fact),
        fixes="end order",
        needs="lines",
        easy=True,
    ),
    kind(
        "contact_times",
        en="The name {0} must stand in the text exactly {1} times.",
        de="Der Name {0} muss genau {1} Mal im Text stehen.",
        fr="Le nom {0} doit figurer exactement {1} fois dans le texte.",
        es="El nombre {0} debe estar exactamente {1} veces en el texto.",
        it="Il nome {0} deve comparire esattamente {1} volte nel testo.",
        pt="O nome {0} deve aparecer exatamente {1} vezes no texto.",
        sample=_contact_times,
        check=_times,
        write=lambda draft, name, count: draft.repeats.__setitem__("contact", count),
        fixes="order",
        needs="lines",
    ),
    kind(
        "facts_on_lines",
        en="Give each detail on a line of its own in this form: {0}",
        de="Gib jede Angabe auf einer eigenen Zeile in dieser Form: {0}",
        fr="Donne chaque indication sur sa propre ligne sous cette forme : {0}",
        es="Da cada dato en su propia línea con esta forma: {0}",
        it="Indica ogni dato su una riga propria in questa forma: {0}",
        pt="Dê cada dado em uma linha própria nesta forma: {0}",
        sample=_labels,
        check=lambda text, _: _value_lines(text),
        write=lambda draft, _: _write_value_lines(draft),
        fixes="top order",
        adds="lines",
        needs="venue stars",
    ),
    kind(
        "facts_in_first_paragraph",
        en="Put all the details into the first paragraph, and none of them into a later one.",
        de="Bringe alle Angaben im ersten Absatz unter und keine davon in einem späteren.",
        fr="Mets toutes les indications dans le premier paragraphe et aucune dans un autre.",
        es="Pon todos los datos en el primer párrafo y ninguno en otro posterior.",
        it="Metti tutti i dati nel primo paragrafo e nessuno in un altro.",
        pt="Coloque todos os dados no primeiro parágrafo e nenhum em outro depois.",
        check=_facts_in_paragraph(0),
        write=_gather(first=True),
        fixes="paragraphs top",
        needs="lines order",
    ),
    kind(
        "facts_in_last_paragraph",
        en="Put all the details into the last paragraph, and none of them into an earlier one.",
        de="Bringe alle Angaben im letzten Absatz unter und keine davon in einem früheren.",
        fr="Mets toutes les indications dans le dernier paragraphe et aucune avant.",
        es="Pon todos los datos en el último párrafo y ninguno antes.",
        it="Metti tutti i dati nell'ultimo paragrafo e nessuno prima.",
        pt="Coloque todos os dados no último parágrafo e nenhum antes.",
        check=_facts_in_paragraph(-1),
        write=_gather(first=False),
        fixes="paragraphs end",
        needs="lines order",
    ),
)
