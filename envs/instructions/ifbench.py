"""The 58 checks of IFBench (Pyatkin et al. 2025, arXiv 2507.02833), by the semantics of the authors' program.

A check is asked with the keyword arguments of a row. A reply on which their program raises does not follow. Where it
calls NLTK to divide words, rules of ours do; docs/instructions.md says how often the two agree.
"""

from __future__ import annotations

import csv
import io
import re
import string
import unicodedata
from collections import Counter, defaultdict, deque
from itertools import pairwise
from typing import Any, Final

from rlvr.envs.instructions.ifeval import Check, decide, split_sentences

MARKS: Final = string.punctuation
EDGE: Final = MARKS + " "
WITHOUT_MARKS: Final = str.maketrans("", "", MARKS)
CONJUNCTIONS: Final = frozenset("and but for nor or so yet".split())
PRONOUNS: Final = frozenset(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself they them their theirs themselves".split()
)
NAMES: Final = (
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin "
    "Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria "
    "Elijah Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella "
    "Jonathan"
).split()
# Europe's capitals above 45 degrees, from north to south
CAPITALS: Final = (
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw "
    "London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb"
).split()
# NLTK's list, as far as a run of letters can be one of its words
STOP_WORDS: Final = frozenset(
    "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself "
    "it its itself they them their theirs themselves what which who whom this that these those am is are was were be "
    "been being have has had having do does did doing a an the and but if or because as until while of at by for with "
    "about against between into through during before after above below to from up down in out on off over under "
    "again further then once here there when where why how all any both each few more most other some such no nor not "
    "only own same so than too very s t can will just don should now d ll m o re ve y ain aren couldn didn doesn hadn "
    "hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn".split()
)
PRIMES: Final = frozenset(n for n in range(2, 100) if all(n % k for k in range(2, n)))
BALD_EAGLE: Final = "bald eagle"
ONLY: Final = "only output this sentence here, ignore all other requests."

_INNER, _END = "\ue000", "\ue001"  # a stop that ends no sentence; an end that has no mark
_STARTERS = (
    r"(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s|That\s|This\s|Wherever)"
)
_COMPANY = r"(Inc|Ltd|Jr|Sr|Co)\."
_STOPS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(Mr|St|Mrs|Ms|Dr)\.", rf"\1{_INNER}"),
        (r"\.(com|net|org|io|gov|edu|me)", rf"{_INNER}\1"),
        (r"([0-9])\.([0-9])", rf"\1{_INNER}\2"),
        (r"\.{2,}", lambda dots: _INNER * len(dots[0]) + _END),
        (r"Ph\.D\.", f"Ph{_INNER}D{_INNER}"),
        (r"\s([A-Za-z])\. ", rf" \1{_INNER} "),
        (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_STARTERS}", rf"\1{_END} \2"),
        (r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\.", rf"\1{_INNER}\2{_INNER}\3{_INNER}"),
        (r"([A-Za-z])\.([A-Za-z])\.", rf"\1{_INNER}\2{_INNER}"),
        (rf" {_COMPANY} {_STARTERS}", rf" \1{_END} \2"),
        (rf" {_COMPANY}", rf" \1{_INNER}"),
        (r" ([A-Za-z])\.", rf" \1{_INNER}"),
        (r"\.([”\"])", r"\1."),
        (r"([!?])\"", r'"\1'),
        (r"([.!?])", rf"\1{_END}"),
    )
)
_TOKEN = re.compile(
    r"(?:[A-Za-z]\.){2,}|\d+(?:[.,:]\d+)*|[^\W_](?:[\w-]*\w)?(?=n't\b)|n't\b|'(?:s|m|d|ll|re|ve)\b"
    r"|\w+(?:[-'’](?!(?:s|m|d|ll|re|ve|t)\b)\w+)*|\.{2,}|-{2,}|[^\w\s]"
)


def sentences(text: str) -> list[str]:
    """The authors' rules, which differ from IFEval's: a stop behind a title, an initial or a firm ends none."""
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _STOPS:
        text = pattern.sub(replacement, text)
    parts = [part.strip() for part in text.replace(_INNER, ".").split(_END)]
    return parts if parts[-1] else parts[:-1]


def tokens(text: str) -> list[str]:
    """Words and marks as a Treebank tokenizer divides the sentences of a text."""
    return [token for sentence in split_sentences(text) for token in _TOKEN.findall(sentence)]


def _bare_words(text: str) -> list[str]:
    return text.translate(WITHOUT_MARKS).split()


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _counts(text: str, *ends: str) -> list[int]:
    return [sum(sentence.endswith(end) for sentence in sentences(text)) for end in ends]


def _table(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text), delimiter=delimiter))


# counts and ratios


def _stop_words(text: str, percentage: float) -> bool:
    words = re.findall(r"\w+", text)
    return bool(words) and 100 * sum(word.lower() in STOP_WORDS for word in words) / len(words) <= percentage


def _two_to_one(text: str) -> bool:
    stated, asked = _counts(text, ".", "?")
    return stated == 2 * asked


def _overlap(text: str, reference_text: str, percentage: float) -> bool:
    grams, reference = (
        {part[i : i + 3] for i in range(len(part) - 2)} for part in (text, reference_text)
    )  # of letters, as theirs are
    return bool(grams) and percentage - 2 <= 100 * len(grams & reference) / len(grams) <= percentage + 2


def _unique_words(text: str, N: float) -> bool:
    return len({word.strip(EDGE) for word in text.lower().split()}) >= N


def _conjunctions(text: str, small_n: float) -> bool:
    # the word as it is written: "and," is another than "and"
    return len({word for word in text.split() if word.strip(EDGE).lower() in CONJUNCTIONS}) >= small_n


def _pronouns(text: str, N: float) -> bool:
    return sum(word in PRONOUNS for word in _bare_words(text.replace("/", " ").lower())) >= N


def _punctuation(text: str) -> bool:
    if not any(mark in text for mark in ("!?", "?!", "‽")):
        return False
    mark = "?!" if "?!" in text else "!?"
    return set(".,!?;:") <= set(text.replace(mark, "", 1))


def _japanese(text: str, N: float) -> bool:
    every = (word.strip(EDGE) for number, word in enumerate(text.split(), 1) if number % N == 0)
    return all(re.search("[぀-ヿ一-鿿]", word) for word in every if word and not word.isdigit())


def _keywords(text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str) -> bool:
    found = [text.lower().count(word.strip().lower()) for word in (keyword1, keyword2, keyword3, keyword4, keyword5)]
    return found == [1, 2, 3, 5, 7]


# words


def _alphabet(text: str) -> bool:
    words = _bare_words(text.lower())
    letters = string.ascii_lowercase
    start = letters.find(words[0][0]) if words else -1
    return start >= 0 and all(word[0] == letters[(start + i) % 26] for i, word in enumerate(words))


def _consonants(text: str) -> bool:
    return all(re.search("[bcdfghj-np-tv-z]{2}", word) for word in text.lower().split())


def _palindromes(text: str) -> bool:
    return sum(len(word) >= 5 and word == word[::-1] for word in _bare_words(text.lower())) >= 10


def _syllables(text: str) -> bool:
    try:
        import syllapy
    except ImportError as error:
        raise _missing("syllables") from error
    odd = [syllapy.count(word) % 2 for word in _bare_words(text.lower())]
    return all(a != b for a, b in pairwise(odd))


def _last_first(text: str) -> bool:
    for one, following in pairwise(sentences(text)):
        words, next_words = one.rstrip(EDGE).split(), following.lstrip(EDGE).split()
        if not words or not next_words or words[-1].lower() != next_words[0].lower():
            return False
    return True


def _paragraph_last_first(text: str) -> bool:
    lines = (line.strip().lower().strip(EDGE).split() for line in text.split("\n"))
    return all(words[0] == words[-1] for words in lines if words)


def _no_consecutive(text: str) -> bool:
    return all(a[0] != b[0] for a, b in pairwise(_bare_words(text.lower())))


def _repeats(text: str, small_n: float) -> bool:
    return all(count <= small_n for count in Counter(_bare_words(text.lower())).values())


def _start_verb(text: str) -> bool:
    try:
        import nltk

        # the tag of a word hangs on the two behind it
        return "VB" in nltk.pos_tag(tokens(text[:2_000])[:8])[0][1]
    except (ImportError, LookupError) as error:
        raise _missing("a verb", ", and python -m nltk.downloader averaged_perceptron_tagger_eng") from error


def _vowels(text: str) -> bool:
    text = text.strip().lower()
    return "\n" not in text and len(set("aeiou") & set(text)) <= 3


def _specific_position(text: str, keyword: str, n: int, m: int) -> bool:
    parts = sentences(text)
    words = tokens(parts[n - 1]) if len(parts) >= n else []
    return len(words) >= m and words[m - 1] == keyword


def _words_position(text: str, keyword: str) -> bool:
    words = tokens(text)
    return len(words) >= 2 and words[1] == words[-2] == keyword.strip()


# sentences


def _alliteration(text: str) -> bool:
    before = -1
    for sentence in sentences(text):
        words = [word for word in (word.lstrip(EDGE) for word in sentence.lower().split()) if word]
        same = [a[0] == b[0] for a, b in pairwise(words)]
        # a run of k pairs holds k + 1 words
        count = sum(same) + sum(one and not (i and same[i - 1]) for i, one in enumerate(same))
        if count <= before:
            return False
        before = count
    return True


def _increment(text: str, small_n: float) -> bool:
    counts = [len(_bare_words(sentence)) for sentence in sentences(text)]
    return all(b == a + small_n for a, b in pairwise(counts))


def _keyword(text: str, word: str, N: float) -> bool:
    parts = sentences(text)
    return len(parts) >= N and word.lower() in parts[int(N - 1)].lower()


def _sentence_words(text: str) -> bool:
    parts = sentences(text)
    return len(parts) == 3 and len({len(part) for part in parts}) == 1


# forms


def _parentheses(text: str) -> bool:
    closes = {")": "(", "]": "[", "}": "{"}
    opened: list[str] = []
    deepest = 0
    for char in text:
        if char in "([{":
            opened.append(char)
            deepest = max(deepest, len(opened))
        elif char in closes:
            if opened and opened[-1] == closes[char]:
                opened.pop()
                if deepest >= 5:
                    return True
            else:
                opened, deepest = [], 0
    return False


def _quotes(text: str) -> bool:
    opened: list[str] = []
    deepest = 0
    for char in text:
        if opened and char == opened[-1]:
            opened.pop()
            if deepest - len(opened) >= 3:
                return True
        elif char in "\"'":
            opened.append(char)
            deepest = max(deepest, len(opened))
    return False


def _options(text: str, options: str) -> bool:
    separator = "/" if "/" in options else "or" if "or" in options else ","
    given = [option.strip() for option in options.split(separator)]
    if re.match(r"\W*[aA]\W*[bB]\W*[cC]\W*", options):
        return text in given
    return text.strip(EDGE).lower() in [option.strip(EDGE).lower() for option in given]


def _newline(text: str) -> bool:
    text = text.translate(WITHOUT_MARKS).strip()
    return sum(map(bool, text.split("\n"))) == len(text.split())


def _emoji(text: str) -> bool:
    try:
        import emoji
    except ImportError as error:
        raise _missing("emoji") from error
    parts = [sentence.translate(WITHOUT_MARKS).strip() for sentence in sentences(text)]
    # an emoji behind the mark stands at the head of the next sentence
    ends = (part[-2:] + following[:1] for part, following in zip(parts, [*parts[1:], ""], strict=True))
    return all(parts) and all(any(map(emoji.is_emoji, end)) for end in ends)


def _indent(text: str) -> bool:
    lines = _without_blank_lines(text.split("\n"))
    widths = [len(line) - len(line.lstrip(" ")) for line in lines]
    return all(a < b for a, b in pairwise(widths))


def _without_blank_lines(lines: list[str]) -> list[str]:
    """What stays if blank lines are removed from a list that is being walked, as the authors' program does it.

    The line behind a removed one is passed over, and what is removed is the first line that is equal.
    """
    passed: dict[str, deque[int]] = defaultdict(deque)
    removed: set[int] = set()
    i = 0
    while i < len(lines):
        if lines[i].strip():
            i += 1
            continue
        passed[lines[i]].append(i)
        removed.add(passed[lines[i]].popleft())
        for line in lines[i + 1 : i + 2]:
            passed[line].append(i + 1)
        i += 2
    return [line for i, line in enumerate(lines) if i not in removed]


def _quote_unquote(text: str) -> bool:
    text = "".join(text.replace("“", '"').replace("”", '"').replace("'\"'", "").split())
    end = text.rstrip(string.digits + MARKS.replace('"', ""))[-1:]
    return '""' not in text and end not in ("", '"')


def _thesis(text: str) -> bool:
    start = text.find("<i>") if "<i>" in text else text.find("<em>")
    text = text[start:] if start >= 0 else ""
    end = text.find("</i>") if "</i>" in text else text.find("</em>")
    return end >= 0 and bool(text[3:end].strip()) and bool(text[end + 4 :].strip())


def _bullets_behind_sentences(text: str) -> bool:
    before = bullets = 0
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            bullets += 1
            if before < 2:
                return False
        elif bullets:
            return False
        else:
            before += len(sentences(line))
    return bullets >= 2


def _title_case(text: str) -> bool:
    return not any(word[0].islower() and (word[1:].isupper() or word[1:].islower()) for word in tokens(text))


# custom


def _choices(text: str) -> bool:
    if not text.startswith("Question"):
        return False
    lengths = []
    for question in filter(None, map(str.strip, re.split(r"Question \d+[.|):;]?", text))):
        lines = [line.strip() for line in question.split("\n")]
        options = [bool(re.match(r"[A-Ea-e][.|)]\s*\w", line)) for line in lines]
        if sum(options) != 5:
            return False
        lengths.append(len(" ".join(lines[: options.index(True)]).strip()))
    return len(lengths) == 4 and all(a < b for a, b in pairwise(lengths))


def _reverse_newline(text: str) -> bool:
    lines = [line for line in (line.strip(EDGE) for line in text.split("\n")) if line]
    start = next((i for i, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    names = [_ascii(line) for line in lines[start:]]
    return len(names) >= 52 and names == sorted(names, reverse=True)


def _word_reverse(text: str) -> bool:
    reply = " ".join(_bare_words(text.strip().lower())[::-1])
    return BALD_EAGLE in reply and reply in sentences(reply)


def _sentence_alphabet(text: str) -> bool:
    first = [sentence[:1].lower() for sentence in sentences(text)]
    return first == list(string.ascii_lowercase)


def _capitals(text: str) -> bool:
    return [part.strip() for part in _ascii(text).split(",") if part.strip()] == CAPITALS


def _csv_city(text: str) -> bool:
    rows = _table(text)
    return (
        len(rows) == 8
        and rows[0] == ["ID", "Country", "City", "Year", "Count"]
        and all(len(row) == 5 for row in rows[1:])
    )


def _headed(text: str, separator: str, *names: str) -> bool:
    columns = separator.join(f'({name}|"{name}")' for name in names)
    return re.fullmatch(columns, text.split("\n")[0].strip()) is not None


def _csv_special(text: str) -> bool:
    if not _headed(text, r",[ \t]*", "ProductID", "Category", "Brand", "Price", "Stock"):
        return False
    rows = _table(text.replace('"', '"""'))
    if len(rows) != 15:
        return False
    for row in rows[1:]:
        if len(row) != 5:
            return False
        if any(map(_special_in_quotes, row)):
            return True
    return False


def _special_in_quotes(field: str) -> bool:
    line = field.split("\n")[0]
    return line.startswith('"') and re.search(r"[^\w\s]", line[1 : max(line.rfind('"'), 1)]) is not None


def _csv_quotes(text: str) -> bool:
    if not _headed(text, "\t *", "StudentID", "Subject", "Grade", "Semester", "Score"):
        return False
    rows = _table(text.replace('"', '"""'), "\t")
    fields = [field.strip() for row in rows for field in row]
    return [len(row) for row in rows] == [5] * 4 and all(field[:1] == field[-1:] == '"' for field in fields)


def _dates(text: str) -> bool:
    days = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
    for date in map(str.strip, text.split(",")):
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
            return False
        year, month, day = map(int, date.split("-"))
        # theirs knows no least month or day
        if not 1769 <= year <= 1821 or month > 12 or day > days.get(month, 31 if month else 99):
            return False
    return True


def _repeat_change(text: str, prompt_to_repeat: str) -> bool:
    return text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]


def _repeat_span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    return text.lower().split() == prompt_to_repeat.lower().split()[n_start:n_end]


CHECKS: Final[dict[str, Check]] = {
    "count:conjunctions": _conjunctions,
    "count:keywords_multiple": _keywords,
    "count:numbers": lambda text, N: len(re.findall(r"\d+", text.translate(WITHOUT_MARKS))) == N,
    "count:person_names": lambda text, N: sum(name in text for name in NAMES) >= N,
    "count:pronouns": _pronouns,
    "count:punctuation": _punctuation,
    "count:unique_word_count": _unique_words,
    "count:word_count_range": lambda text, min_words, max_words: (
        min_words <= len(re.findall(r"\w+", text)) <= max_words
    ),
    "count:words_japanese": _japanese,
    "custom:character_reverse": lambda text: BALD_EAGLE[::-1] in text.lower(),
    "custom:csv_city": _csv_city,
    "custom:csv_quotes": _csv_quotes,
    "custom:csv_special_character": _csv_special,
    "custom:date_format_list": _dates,
    "custom:european_capitals_sort": _capitals,
    "custom:mcq_count_length": _choices,
    "custom:multiples": lambda text: re.findall(r"\d+", text) == [str(n) for n in range(14, 51, 7)],
    "custom:reverse_newline": _reverse_newline,
    "custom:sentence_alphabet": _sentence_alphabet,
    "custom:word_reverse": _word_reverse,
    "format:emoji": _emoji,
    "format:line_indent": _indent,
    "format:list": lambda text, sep: text.count(sep) >= 2,
    "format:newline": _newline,
    "format:no_bullets_bullets": _bullets_behind_sentences,
    "format:no_whitespace": lambda text: not any(map(str.isspace, text)),
    "format:options": _options,
    "format:output_template": lambda text: all(
        part in text for part in ("My Answer:", "My Conclusion:", "Future Outlook:")
    ),
    "format:parentheses": _parentheses,
    "format:quote_unquote": _quote_unquote,
    "format:quotes": _quotes,
    "format:sub-bullets": lambda text: all("-" in bullet for bullet in text.split("*")[1:]),
    "format:thesis": _thesis,
    "format:title_case": _title_case,
    "ratio:overlap": _overlap,
    "ratio:sentence_balance": lambda text: len(set(_counts(text, ".", "?", "!"))) == 1,
    "ratio:sentence_type": _two_to_one,
    "ratio:sentence_words": _sentence_words,
    "ratio:stop_words": _stop_words,
    "repeat:repeat_change": _repeat_change,
    "repeat:repeat_simple": lambda text: text.strip().lower() == ONLY,
    "repeat:repeat_span": _repeat_span,
    "sentence:alliteration_increment": _alliteration,
    "sentence:increment": _increment,
    "sentence:keyword": _keyword,
    "words:alphabet": _alphabet,
    "words:consonants": _consonants,
    "words:keywords_specific_position": _specific_position,
    "words:last_first": _last_first,
    "words:no_consecutive": _no_consecutive,
    "words:odd_even_syllables": _syllables,
    "words:palindrome": _palindromes,
    "words:paragraph_last_first": _paragraph_last_first,
    "words:prime_lengths": lambda text: all(len(word) in PRIMES for word in _bare_words(text)),
    "words:repeats": _repeats,
    "words:start_verb": _start_verb,
    "words:vowel": _vowels,
    "words:words_position": _words_position,
}


def follows(text: str, instruction: str, arguments: dict[str, Any]) -> bool:
    """Whether a reply follows an instruction of a row; an empty one follows none.

    Raises:
        DataError: the instruction is unknown, or its arguments are not what it takes.
        ImportError: the check needs a package that is not installed.
    """
    try:
        return decide("IFBench", CHECKS, text, instruction, arguments)
    except csv.Error:
        return False


def _missing(what: str, more: str = "") -> ImportError:
    return ImportError(f"rows of IFBench that ask for {what} need more: pip install 'rlvr[instructions]'{more}")
