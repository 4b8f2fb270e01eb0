"""Instructions on structure (titles, lists, tables, emphasis) and on the form that the whole text is put into."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable

from rlvr.envs.instructions.draft import CannotWrite, ListItems, Paragraphs, TextDraft
from rlvr.envs.instructions.kind import Args, InstructionKind, Scene, kind
from rlvr.envs.instructions.text import LANGUAGES, WrittenText, words_of

SUBJECT = {"en": "Subject:", "de": "Betreff:", "fr": "Objet :", "es": "Asunto:", "it": "Oggetto:", "pt": "Assunto:"}


def title(draft: TextDraft) -> str:
    """A title of the language."""
    return draft.rng.choice(draft.language.titles)


def _top(make: Callable[[str], str]) -> Callable[[TextDraft], None]:
    return lambda draft: draft.tops.insert(0, make(title(draft)))


def _is_upper(line: str) -> bool:
    return line == line.upper() != line.lower()


def _capital_title(text: WrittenText) -> bool:
    return len(text.lines) > 1 and _is_upper(text.lines[0]) and len(words_of(text.lines[0])) > 1


def _underlined(text: WrittenText) -> bool:
    lines = text.text.split("\n")
    return len(lines) > 2 and re.fullmatch(r"=+", lines[1]) is not None and len(lines[1]) == len(lines[0])


def _title_words(text: WrittenText) -> bool:
    words = words_of(text.lines[0])
    return (
        len(text.lines) > 1
        and 1 < len(words) <= 10
        and text.lines[0][-1:] not in ".!?:,"
        and all(word[:1].isupper() for word in words)
    )


def _items(count: int, mark: Callable[[int], str]) -> Callable[[Paragraphs], Paragraphs]:
    def shape(paragraphs: Paragraphs) -> Paragraphs:
        every = [sentence for paragraph in paragraphs for sentence in paragraph]
        if len(every) < count + 1:
            raise CannotWrite
        items = [f"{mark(index)} {sentence}" for index, sentence in enumerate(every[-count:], 1)]
        return [every[:-count], ListItems(items)]

    return shape


def _list(mark: Callable[[int], str]) -> Callable[[TextDraft, int], None]:
    def write(draft: TextDraft, count: int) -> None:
        draft.bound(sentences=(count + 2, 40))
        draft.shapes.append(_items(count, mark))

    return write


def _lines_with(text: WrittenText, pattern: str) -> list[str]:
    return [line for line in text.lines if re.match(pattern, line)]


def _is_numbered(text: WrittenText, count: int) -> bool:
    return [line.partition(".")[0] for line in _lines_with(text, r"\d{1,2}\. ")] == [
        str(number) for number in range(1, count + 1)
    ]


def _some(scene: Scene) -> Args:
    return (scene.rng.randint(2, 4),)


def _table(draft: TextDraft) -> None:
    rows = [f"| {draft.language.labels[fact]} | {draft.value(fact)} |" for fact, _ in draft.brief.facts]
    draft.bottoms.append("\n".join(rows))


def _has_table(text: WrittenText) -> bool:
    rows = [line for line in text.lines if line.startswith("|") and line.endswith("|") and line.count("|") == 3]
    facts = [fact for fact, _ in text.brief.facts]
    return all(sum(text.where(fact, row) >= 0 for row in rows) == 1 for fact in facts) and len(rows) == len(facts)


def _sections(draft: TextDraft, count: int) -> None:
    draft.paragraphs = count
    draft.bound(sentences=(count + 1, 40))
    titles = draft.rng.sample(draft.language.titles, count)

    def shape(paragraphs: Paragraphs) -> Paragraphs:
        return [
            ListItems([f"## {heading}", "", " ".join(part)]) for heading, part in zip(titles, paragraphs, strict=True)
        ]

    draft.shapes.append(shape)


def _ruled(paragraphs: Paragraphs) -> Paragraphs:
    if len(paragraphs) < 2:
        raise CannotWrite
    return [*paragraphs[:-1], ["---"], paragraphs[-1]]


def _rule(draft: TextDraft) -> None:
    draft.bound(sentences=(5, 40))
    draft.shapes.append(_ruled)


def _is_ruled(text: WrittenText) -> bool:
    return len(text.paragraphs) > 2 and [i for i, part in enumerate(text.paragraphs) if part == "---"] == [
        len(text.paragraphs) - 2
    ]


def _marked(draft: TextDraft, count: int, mark: str) -> None:
    """Puts marks around the first long word of as many sentences."""

    def change(sentence: str, index: int, _: int) -> str:
        word = next((word for word in words_of(sentence) if len(word) > 3 and word.isalpha()), "")
        if index >= count:
            return sentence
        if not word:
            raise CannotWrite
        return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", f"{mark}{word}{mark}", sentence, count=1)

    draft.bound(sentences=(count, 40))
    draft.each.append(change)


def label_arg(scene: Scene) -> Args:
    """A fact and what the user's language calls it."""
    fact = scene.rng.choice([fact for fact, _ in scene.brief.facts])
    return fact, LANGUAGES[scene.brief.language].labels[fact]


def _is_bold(text: WrittenText, fact: str, _: str) -> bool:
    bold = [" ".join(part.split()).casefold() for part in re.findall(r"\*\*([^*\n]+)\*\*", text.text)]
    return any(form.casefold() in bold for form in text.forms(fact, text.fact_value(fact)))


STRUCTURE: tuple[InstructionKind, ...] = (
    kind(
        "title_in_brackets",
        en="Put a title on the first line, in double angular brackets: <<title>>.",
        de="Setze einen Titel in die erste Zeile, in doppelten spitzen Klammern: <<Titel>>.",
        fr="Mets un titre sur la première ligne, entre doubles chevrons : <<titre>>.",
        es="Pon un título en la primera línea, entre dobles corchetes angulares: <<título>>.",
        it="Metti un titolo sulla prima riga, tra doppie parentesi angolari: <<titolo>>.",
        pt="Coloque um título na primeira linha, entre sinais duplos de menor e maior: <<título>>.",
        check=lambda text: re.fullmatch(r"<<[^<>]*\w[^<>]*>>", text.lines[0]) is not None and len(text.lines) > 1,
        write=_top(lambda words: f"<<{words}>>"),
        fixes="top",
        adds="lines",
        easy=True,
    ),
    kind(
        "title_with_hash",
        en="Begin with a title on a line of its own that starts with “# ”.",
        de="Beginne mit einem Titel auf einer eigenen Zeile, die mit “# ” anfängt.",
        fr="Commence par un titre sur sa propre ligne, qui débute par “# ”.",
        es="Empieza con un título en su propia línea, que comience con “# ”.",
        it="Inizia con un titolo su una riga propria, che cominci con “# ”.",
        pt="Comece com um título em uma linha própria, que inicie com “# ”.",
        check=lambda text: re.match(r"# \S", text.lines[0]) is not None and len(text.lines) > 1,
        write=_top(lambda words: f"# {words}"),
        fixes="top",
        adds="lines",
        easy=True,
    ),
    kind(
        "title_in_capitals",
        en="Put a title of at least two words on the first line, all in capital letters.",
        de="Setze einen Titel aus mindestens zwei Wörtern in die erste Zeile, ganz in Großbuchstaben.",
        fr="Mets un titre d'au moins deux mots sur la première ligne, tout en majuscules.",
        es="Pon un título de al menos dos palabras en la primera línea, todo en mayúsculas.",
        it="Metti un titolo di almeno due parole sulla prima riga, tutto in maiuscole.",
        pt="Coloque um título de pelo menos duas palavras na primeira linha, todo em maiúsculas.",
        check=_capital_title,
        write=_top(str.upper),
        fixes="top",
        adds="lines",
        needs="case",
        easy=True,
    ),
    kind(
        "title_underlined",
        en="Put a title on the first line and underline it on the second with as many = as it has characters.",
        de="Setze einen Titel in die erste Zeile und unterstreiche ihn in der zweiten mit so vielen =, wie er Zeichen "
        "hat.",
        fr="Mets un titre sur la première ligne et souligne-le sur la deuxième avec autant de = qu'il a de caractères.",
        es="Pon un título en la primera línea y subráyalo en la segunda con tantos = como caracteres tenga.",
        it="Metti un titolo sulla prima riga e sottolinealo sulla seconda con tanti = quanti sono i suoi caratteri.",
        pt="Coloque um título na primeira linha e sublinhe-o na segunda com tantos = quantos caracteres ele tiver.",
        check=_underlined,
        write=_top(lambda words: f"{words}\n{'=' * len(words)}"),
        fixes="top",
        adds="lines",
    ),
    kind(
        "title_words",
        en="The first line must be a title of two to ten words, each with a capital first letter.",
        de="Die erste Zeile muss ein Titel aus zwei bis zehn Wörtern sein, jedes mit großem Anfangsbuchstaben.",
        fr="La première ligne doit être un titre de deux à dix mots, chacun avec une majuscule initiale.",
        es="La primera línea debe ser un título de dos a diez palabras, cada una con mayúscula inicial.",
        it="La prima riga deve essere un titolo di due fino a dieci parole, ognuna con l'iniziale maiuscola.",
        pt="A primeira linha deve ser um título de duas a dez palavras, cada uma com inicial maiúscula.",
        check=_title_words,
        write=_top(lambda words: " ".join(word[:1].upper() + word[1:] for word in words.split())),
        fixes="top",
        adds="lines",
        needs="case",
    ),
    kind(
        "bullets_with_dashes",
        en="The text must have a list of exactly {0} items, each on a line that begins with “- ”.",
        de="Der Text muss eine Liste mit genau {0} Punkten haben, jeden auf einer Zeile, die mit “- ” beginnt.",
        fr="Le texte doit avoir une liste d'exactement {0} points, chacun sur une ligne qui commence par “- ”.",
        es="El texto debe tener una lista de exactamente {0} puntos, cada uno en una línea que empiece con “- ”.",
        it="Il testo deve avere un elenco di esattamente {0} punti, ognuno su una riga che inizia con “- ”.",
        pt="O texto deve ter uma lista de exatamente {0} itens, cada um em uma linha que comece com “- ”.",
        sample=_some,
        check=lambda text, count: len(_lines_with(text, r"- \S")) == count,
        write=_list(lambda index: "-"),
        fixes="paragraphs",
        adds="lines",
        easy=True,
    ),
    kind(
        "bullets_with_stars",
        en="The text must have a list of exactly {0} items, each on a line that begins with “* ”.",
        de="Der Text muss eine Liste mit genau {0} Punkten haben, jeden auf einer Zeile, die mit “* ” beginnt.",
        fr="Le texte doit avoir une liste d'exactement {0} points, chacun sur une ligne qui commence par “* ”.",
        es="El texto debe tener una lista de exactamente {0} puntos, cada uno en una línea que empiece con “* ”.",
        it="Il testo deve avere un elenco di esattamente {0} punti, ognuno su una riga che inizia con “* ”.",
        pt="O texto deve ter uma lista de exatamente {0} itens, cada um em uma linha que comece com “* ”.",
        sample=_some,
        check=lambda text, count: len(_lines_with(text, r"\* \S")) == count,
        write=_list(lambda index: "*"),
        fixes="paragraphs stars",
        adds="lines",
        easy=True,
    ),
    kind(
        "numbered_list",
        en="The text must have a list of exactly {0} lines numbered “1. ”, “2. ” and so on.",
        de="Der Text muss eine Liste mit genau {0} Zeilen haben, nummeriert mit “1. ”, “2. ” und so weiter.",
        fr="Le texte doit avoir une liste d'exactement {0} lignes numérotées “1. ”, “2. ” et ainsi de suite.",
        es="El texto debe tener una lista de exactamente {0} líneas numeradas “1. ”, “2. ” y así sucesivamente.",
        it="Il testo deve avere un elenco di esattamente {0} righe numerate “1. ”, “2. ” e così via.",
        pt="O texto deve ter uma lista de exatamente {0} linhas numeradas “1. ”, “2. ” e assim por diante.",
        sample=_some,
        check=_is_numbered,
        write=_list(lambda index: f"{index}."),
        fixes="paragraphs starts",
        adds="lines",
        easy=True,
    ),
    kind(
        "table_of_facts",
        en="Show the required details in a table as well: one line each, in the form | name | value |.",
        de="Zeige die verlangten Angaben auch in einer Tabelle: je eine Zeile in der Form | Name | Wert |.",
        fr="Montre aussi les indications demandées dans un tableau : une ligne pour chacune, sous la forme "
        "| nom | valeur |.",
        es="Muestra los datos pedidos también en una tabla: una línea para cada uno, con la forma | nombre | valor |.",
        it="Mostra i dati richiesti anche in una tabella: una riga per ognuno, nella forma | nome | valore |.",
        pt="Mostre os dados pedidos também em uma tabela: uma linha para cada um, na forma | nome | valor |.",
        check=_has_table,
        write=_table,
        fixes="end order",
        adds="lines",
    ),
    kind(
        "sections",
        en="Divide the text into exactly {0} sections, each under a heading line that begins with “## ”.",
        de="Gliedere den Text in genau {0} Abschnitte, jeden unter einer Überschriftzeile, die mit “## ” beginnt.",
        fr="Divise le texte en exactement {0} sections, chacune sous une ligne de titre qui commence par “## ”.",
        es="Divide el texto en exactamente {0} secciones, cada una bajo una línea de título que empiece con “## ”.",
        it="Dividi il testo in esattamente {0} sezioni, ognuna sotto una riga di titolo che inizia con “## ”.",
        pt="Divida o texto em exatamente {0} seções, cada uma sob uma linha de título que comece com “## ”.",
        sample=lambda scene: (scene.rng.choice((2, 3)),),
        check=lambda text, count: len(_lines_with(text, r"## \S")) == count and text.lines[0].startswith("## "),
        write=_sections,
        fixes="paragraphs top starts",
        adds="lines",
    ),
    kind(
        "rule_before_last",
        en="Put a line that holds only --- before the last paragraph, with blank lines around it, and no other such "
        "line.",
        de="Setze vor den letzten Absatz eine Zeile, in der nur --- steht, mit Leerzeilen darum, und sonst keine.",
        fr="Mets avant le dernier paragraphe une ligne qui ne contient que ---, entre deux lignes vides, et aucune "
        "autre.",
        es="Pon antes del último párrafo una línea que solo contenga ---, entre líneas en blanco, y ninguna otra.",
        it="Metti prima dell'ultimo paragrafo una riga che contiene solo ---, tra righe vuote, e nessun'altra.",
        pt="Coloque antes do último parágrafo uma linha que contenha só ---, entre linhas em branco, e nenhuma outra.",
        check=_is_ruled,
        write=_rule,
        fixes="paragraphs",
        needs="lines",
    ),
    kind(
        "postscript",
        en="End with a postscript on a line of its own that begins with “PS: ”.",
        de="Schließe mit einem Nachsatz auf einer eigenen Zeile, die mit “PS: ” beginnt.",
        fr="Termine par un post-scriptum sur sa propre ligne, qui commence par “PS: ”.",
        es="Termina con una posdata en su propia línea, que empiece con “PS: ”.",
        it="Finisci con un poscritto su una riga propria, che inizi con “PS: ”.",
        pt="Termine com um pós-escrito em uma linha própria, que comece com “PS: ”.",
        check=lambda text: len(text.lines) > 1 and re.match(r"PS: \S", text.lines[-1]) is not None,
        write=lambda draft: draft.bottoms.append(f"PS: {draft.filler(lambda sentence: '?' not in sentence)}"),
        fixes="end",
        adds="lines",
        needs="starts",
        easy=True,
    ),
    kind(
        "bold_parts",
        en="Put exactly {0} passages in bold, each between **two stars on both sides**.",
        de="Setze genau {0} Stellen fett, jede zwischen **zwei Sternen auf beiden Seiten**.",
        fr="Mets exactement {0} passages en gras, chacun entre **deux étoiles de chaque côté**.",
        es="Pon exactamente {0} pasajes en negrita, cada uno entre **dos asteriscos a cada lado**.",
        it="Metti esattamente {0} passaggi in grassetto, ognuno tra **due asterischi per lato**.",
        pt="Coloque exatamente {0} trechos em negrito, cada um entre **dois asteriscos de cada lado**.",
        sample=lambda scene: (scene.rng.randint(2, 4),),
        check=lambda text, count: len(re.findall(r"(?<!\*)\*\*[^*\n]*\w[^*\n]*\*\*(?!\*)", text.text)) == count,
        write=lambda draft, count: _marked(draft, count, "**"),
        fixes="stars",
        needs="marks",
        easy=True,
    ),
    kind(
        "italic_parts",
        en="Put exactly {0} passages in italics, each between _underscores_.",
        de="Setze genau {0} Stellen kursiv, jede zwischen _Unterstrichen_.",
        fr="Mets exactement {0} passages en italique, chacun entre _tirets bas_.",
        es="Pon exactamente {0} pasajes en cursiva, cada uno entre _guiones bajos_.",
        it="Metti esattamente {0} passaggi in corsivo, ognuno tra _trattini bassi_.",
        pt="Coloque exatamente {0} trechos em itálico, cada um entre _sublinhados_.",
        sample=lambda scene: (scene.rng.randint(2, 4),),
        check=lambda text, count: len(re.findall(r"(?<!\w)_[^_\n]*[^\W_][^_\n]*_(?!\w)", text.text)) == count,
        write=lambda draft, count: _marked(draft, count, "_"),
        fixes="marks",
        needs="stars",
        easy=True,
    ),
    kind(
        "bold_fact",
        en="Put this detail in bold, between **two stars on both sides**, and nothing else with it: {1}.",
        de="Setze diese Angabe fett, zwischen **zwei Sterne auf beiden Seiten**, und nichts sonst mit ihr: {1}.",
        fr="Mets cette indication en gras, entre **deux étoiles de chaque côté**, et rien d'autre avec elle : {1}.",
        es="Pon este dato en negrita, entre **dos asteriscos a cada lado**, y nada más con él: {1}.",
        it="Metti questo dato in grassetto, tra **due asterischi per lato**, e nient'altro insieme: {1}.",
        pt="Coloque este dado em negrito, entre **dois asteriscos de cada lado**, e nada mais junto: {1}.",
        sample=label_arg,
        check=_is_bold,
        write=lambda draft, fact, _: draft.values.__setitem__(fact, f"**{draft.value(fact)}**"),
        fixes="stars date time price seats venue",
        needs="marks",
    ),
)


# the form of the whole


def _json_text(reply: str) -> str | None:
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    return value["text"] if isinstance(value, dict) and list(value) == ["text"] and _is_text(value["text"]) else None


def _json_titled(reply: str) -> str | None:
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(value, dict) and sorted(value) == ["text", "title"] and all(map(_is_text, value.values()))
    return value["text"] if fits and value["title"].strip() else None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _within(before: str, after: str) -> Callable[[str], str | None]:
    def unwrap(reply: str) -> str | None:
        inner = reply[len(before) : -len(after)]
        fits = reply.startswith(before) and reply.endswith(after) and len(reply) > len(before) + len(after)
        return inner if fits and before.strip() not in inner and after.strip() not in inner else None

    return unwrap


def _wrapped(before: str, after: str) -> Callable[[TextDraft], None]:
    return lambda draft: draft.finishes.append(lambda text: f"{before}{text}{after}")


def _quoted_lines(reply: str) -> str | None:
    every = reply.split("\n")
    return "\n".join(line[1:].strip() for line in every) if all(line.startswith(">") for line in every) else None


def _in_html(reply: str) -> str | None:
    parts = re.findall(r"<p>([^<>]*)</p>", reply)
    rest = re.sub(r"<p>[^<>]*</p>", "", reply)
    return "\n\n".join(parts) if parts and not rest.strip() else None


def _write_html(draft: TextDraft) -> None:
    draft.finishes.append(lambda text: "\n".join(f"<p>{part}</p>" for part in text.split("\n\n")))


def _write_titled(draft: TextDraft) -> None:
    heading = title(draft)
    draft.finishes.append(lambda text: json.dumps({"title": heading, "text": text}, ensure_ascii=False))


def _wrap_lines(draft: TextDraft, width: int) -> None:
    draft.finishes.append(
        lambda text: "\n\n".join(textwrap.fill(part, width, break_on_hyphens=False) for part in text.split("\n\n"))
    )


def _subject(scene: Scene) -> Args:
    return (SUBJECT[scene.language.code],)


WHOLE: tuple[InstructionKind, ...] = (
    kind(
        "json_text",
        en='Reply with a JSON object that has the key "text" alone; the text is its value.',
        de='Antworte mit einem JSON-Objekt, das nur den Schlüssel "text" hat; der Text ist sein Wert.',
        fr='Réponds par un objet JSON qui n\'a que la clé "text" ; le texte en est la valeur.',
        es='Responde con un objeto JSON que solo tenga la clave "text"; el texto es su valor.',
        it='Rispondi con un oggetto JSON che ha solo la chiave "text"; il testo è il suo valore.',
        pt='Responda com um objeto JSON que tenha só a chave "text"; o texto é o seu valor.',
        unwrap=_json_text,
        write=lambda draft: draft.finishes.append(lambda text: json.dumps({"text": text}, ensure_ascii=False)),
        fixes="wrap",
    ),
    kind(
        "json_title_and_text",
        en='Reply with a JSON object that has the keys "title" and "text", both with text for values.',
        de='Antworte mit einem JSON-Objekt, das die Schlüssel "title" und "text" hat, beide mit Text als Wert.',
        fr='Réponds par un objet JSON qui a les clés "title" et "text", toutes deux avec du texte pour valeur.',
        es='Responde con un objeto JSON que tenga las claves "title" y "text", ambas con texto como valor.',
        it='Rispondi con un oggetto JSON che ha le chiavi "title" e "text", entrambe con un testo come valore.',
        pt='Responda com um objeto JSON que tenha as chaves "title" e "text", ambas com texto como valor.',
        unwrap=_json_titled,
        write=_write_titled,
        fixes="wrap",
    ),
    kind(
        "code_fence",
        en="Put the whole text between a line ``` and another line ```.",
        de="Setze den ganzen Text zwischen eine Zeile ``` und noch eine Zeile ```.",
        fr="Mets le texte entier entre une ligne ``` et une autre ligne ```.",
        es="Pon todo el texto entre una línea ``` y otra línea ```.",
        it="Metti tutto il testo tra una riga ``` e un'altra riga ```.",
        pt="Coloque o texto todo entre uma linha ``` e outra linha ```.",
        unwrap=_within("```\n", "\n```"),
        write=_wrapped("```\n", "\n```"),
        fixes="wrap",
        easy=True,
    ),
    kind(
        "note_tags",
        en="Put the whole text between <note> and </note>.",
        de="Setze den ganzen Text zwischen <note> und </note>.",
        fr="Mets le texte entier entre <note> et </note>.",
        es="Pon todo el texto entre <note> y </note>.",
        it="Metti tutto il testo tra <note> e </note>.",
        pt="Coloque o texto todo entre <note> e </note>.",
        unwrap=_within("<note>", "</note>"),
        write=_wrapped("<note>", "</note>"),
        fixes="wrap",
        easy=True,
    ),
    kind(
        "whole_in_quotes",
        en='Put the whole text between straight double quotation marks (").',
        de='Setze den ganzen Text zwischen gerade doppelte Anführungszeichen (").',
        fr='Mets le texte entier entre guillemets droits (").',
        es='Pon todo el texto entre comillas dobles rectas (").',
        it='Metti tutto il testo tra virgolette doppie diritte (").',
        pt='Coloque o texto todo entre aspas duplas retas (").',
        unwrap=_within('"', '"'),
        write=_wrapped('"', '"'),
        fixes="wrap",
        easy=True,
    ),
    kind(
        "square_brackets",
        en="Put the whole text between [[ and ]].",
        de="Setze den ganzen Text zwischen [[ und ]].",
        fr="Mets le texte entier entre [[ et ]].",
        es="Pon todo el texto entre [[ y ]].",
        it="Metti tutto il testo tra [[ e ]].",
        pt="Coloque o texto todo entre [[ e ]].",
        unwrap=_within("[[", "]]"),
        write=_wrapped("[[", "]]"),
        fixes="wrap",
        easy=True,
    ),
    kind(
        "quoted_lines",
        en="Every line must begin with “>”, blank ones too.",
        de="Jede Zeile muss mit “>” beginnen, auch leere.",
        fr="Chaque ligne doit commencer par “>”, les lignes vides aussi.",
        es="Cada línea debe empezar con “>”, también las vacías.",
        it="Ogni riga deve iniziare con “>”, anche quelle vuote.",
        pt="Cada linha deve começar com “>”, também as vazias.",
        unwrap=_quoted_lines,
        write=lambda draft: draft.finishes.append(
            lambda text: "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        ),
        fixes="wrap",
    ),
    kind(
        "html_paragraphs",
        en="Put each paragraph between <p> and </p>, and nothing outside of them.",
        de="Setze jeden Absatz zwischen <p> und </p> und nichts außerhalb davon.",
        fr="Mets chaque paragraphe entre <p> et </p>, et rien en dehors.",
        es="Pon cada párrafo entre <p> y </p>, y nada fuera de ellos.",
        it="Metti ogni paragrafo tra <p> e </p>, e niente fuori.",
        pt="Coloque cada parágrafo entre <p> e </p>, e nada fora deles.",
        unwrap=_in_html,
        write=_write_html,
        fixes="wrap",
        needs="lines",
    ),
    kind(
        "line_width",
        en="No line may be longer than {0} characters; break the lines accordingly.",
        de="Keine Zeile darf länger als {0} Zeichen sein; brich die Zeilen entsprechend um.",
        fr="Aucune ligne ne doit dépasser {0} caractères ; va à la ligne en conséquence.",
        es="Ninguna línea puede tener más de {0} caracteres; corta las líneas como corresponda.",
        it="Nessuna riga può superare i {0} caratteri; vai a capo di conseguenza.",
        pt="Nenhuma linha pode ter mais de {0} caracteres; quebre as linhas de acordo.",
        sample=lambda scene: (scene.rng.choice((45, 50, 60, 70)),),
        check=lambda text, width: all(len(line) <= width for line in text.text.split("\n")),
        write=_wrap_lines,
        adds="lines sentences",
        needs="paragraphs top end wrap",
    ),
    kind(
        "end_mark",
        en="The last line must be ~~~ and nothing else.",
        de="Die letzte Zeile muss ~~~ sein und sonst nichts.",
        fr="La dernière ligne doit être ~~~ et rien d'autre.",
        es="La última línea debe ser ~~~ y nada más.",
        it="L'ultima riga deve essere ~~~ e nient'altro.",
        pt="A última linha deve ser ~~~ e nada mais.",
        check=lambda text: text.lines[-1] == "~~~" and len(text.lines) > 1,
        write=lambda draft: draft.bottoms.append("~~~"),
        fixes="end",
        adds="lines",
        easy=True,
    ),
    kind(
        "subject_line",
        en="The first line must begin with “{0}” and say what the text is about; the text follows after a blank line.",
        de="Die erste Zeile muss mit “{0}” beginnen und das Thema nennen; nach einer Leerzeile folgt der Text.",
        fr="La première ligne doit commencer par “{0}” et dire le sujet ; le texte suit après une ligne vide.",
        es="La primera línea debe empezar con “{0}” y decir el tema; el texto sigue después de una línea en blanco.",
        it="La prima riga deve iniziare con “{0}” e dire l'argomento; il testo segue dopo una riga vuota.",
        pt="A primeira linha deve começar com “{0}” e dizer o assunto; o texto vem depois de uma linha em branco.",
        sample=_subject,
        check=lambda text, word: (
            len(text.paragraphs) > 1
            and "\n" not in text.paragraphs[0]
            and text.paragraphs[0].startswith(word)
            and bool(words_of(text.paragraphs[0][len(word) :]))
        ),
        write=lambda draft, word: draft.tops.insert(0, f"{word} {title(draft)}"),
        fixes="top",
        adds="lines",
        easy=True,
    ),
)
