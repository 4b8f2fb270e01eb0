"""Dressing: what may stand around an answer or a move, or be another way to write it, without being part of it.

``plain`` drops math delimiters, emphasis, code fences, "the answer is", LaTeX of text and brackets around lists, and
writes fractions, arrows and matrices in one way. ``undressed`` drops only what stands around the whole. Neither drops a
word that could change what is said: a hedge, a negation or a second value stays, and the reader refuses it.

``plainer_moves`` rewrites what a reply says it plays to the plain form that games take. Where a move stands follows the
extraction contract: the last box, else the ``action`` or ``answer`` tag, else "the answer is ...", else a last line
that begins with ``Move:``, ``Action:`` or the like, else the whole reply. It drops what does not change which move is
meant: markup, "my move is", "I will", a verb such as "go", "the", the game's nouns ("arm", "column"). Whatever else is
said stays, and the game refuses it: a hedge ("left or right"), a negation ("not left"), a condition or a second move.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from rlvr.envs.rewards.extraction import (
    LANGUAGE,
    MAX_COMPLETION_CHARS,
    closing_brace,
    extract_visible,
    last_tagged,
    visible_text,
)

_DELIMITERS: Final = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("__", "__"), ("*", "*"))
_FENCE = re.compile(rf"```[ \t]*(?:{LANGUAGE})?[ \t]*\n((?:(?!```).)*?)\n?[ \t]*```", re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore|finally),? )?(?:the |my )?(?:(?:final|correct|right|full|complete) )?"
    r"(?:answer|solution|result)(?: is| are)?(?:\s*[:=]\s*|\s+(?!not\b|n't\b))",
    re.IGNORECASE,
)
_VERB = re.compile(r"(?:answer|solution|result)(?: is| are|\s*[:=])", re.IGNORECASE)
_STYLED = re.compile(
    r"\\(?:(?P<size>[lL]arge|LARGE|[hH]uge|normalsize|bf|rm|it)(?![A-Za-z])|underline|boldsymbol|bold|bm"
    r"|(?:text)?color\s?\{[A-Za-z]{1,20}\})\s{0,4}"
)
_NO_STYLES: Final = frozenset(("frac", "sqrt", "left", "begi", "dfra", "boxe"))  # what answers begin with most often
_THEREFORE = re.compile(
    r"^\\(?:therefore(?![A-Za-z])|(?:text|mathrm|textbf|mbox)\s?"
    r"\{\s?(?:the )?(?:final )?answer(?: is|:)\s?:?\s?\})\s*:?",
    re.IGNORECASE,
)
_TEXT = re.compile(r"\\(?:text|texttt|textbf|textrm|textit|textsf|mathrm|mathtt|mathbf|mathit|mathsf|operatorname|mbox|"
                   r"underline|emph|textnormal|textup|boldsymbol)"
                   r"\s*\{([^{}]*)\}")  # fmt: skip
_FRACTION = re.compile(r"\\(?:[dtc]?frac|[ns](?:ice)?frac)\s*(?:\{\s*(-?\s*\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))")
_SIZE = re.compile(r"\\(?:left|right|[bB]igg?[lr]?)\s*(?=[\[\](){}|.<>]|\\[{}l|r])\.?")
_BLANK = re.compile(
    r"(?<!\\)\\(?:[,;:! ]|(?:quad|qquad|thinspace|displaystyle|textstyle)(?![A-Za-z]))|\\hline(?![A-Za-z])"
    r"|(?<=[^~\s$=])~(?=[^~\s=])"
)
_SPACE = r"\\(?:[,;:! ]|(?:quad|qquad|thinspace|displaystyle|textstyle)(?![A-Za-z]))"
# Blanks of LaTeX around the whole.
_SPACED = re.compile(rf"^(?:{_SPACE}\s*){{1,4}}|(?<!\\)(?:(?:{_SPACE}\s*){{1,4}}|\\)$")
_SEPARATOR = r"(?:\{,\}|\{?\\[,:; ]\}?|,?\\!|[~\u00a0\u2009\u202f])"  # no sign of a list stands for these
_GROUPED = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:{_SEPARATOR}\d{{3}})+(?!\d)")
_SEPARATORS = re.compile(_SEPARATOR)
_SIGNS: Final = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013\u2010\u2011", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f", " "),
        **dict.fromkeys("\u2044\u2215", "/"),
        "\u2032": "'",
    }
)
_VULGAR: Final = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_RAISED: Final = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
_LOWERED: Final = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
_LEVEL: Final = str.maketrans(_RAISED + _LOWERED, "01234567890123456789")
# ½ and ¹⁄₂
SMALL_FRACTION: Final = (
    rf"(?:(?P<sign>[{''.join(_VULGAR)}])|(?P<above>[{_RAISED}]{{1,9}})[/\u2044\u2215](?P<below>[{_LOWERED}]{{1,9}}))"
    rf"(?![\d{_RAISED}{_LOWERED}])"
)
# Behind a decimal, or behind a group that is none of three digits, a fraction stays as it is, and nobody reads it.
_MIXED = re.compile(
    rf"(?:(?<![\d.,/^])(?P<whole>[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]{{1,300}})|(?<![\d.,])){SMALL_FRACTION}"
)
_MARKED = re.compile(r"(?<![\w$*`)])(\$|\*\*|__|`)([^\s$*`,;](?:[^\n$*`,;]{0,58}[^\s$*`,;])?)\1(?![\w$*`(])")
# What a function or a probability is of, on the left of an equals sign: f'(2), P(A \mid B), g(f(3)), f^{-1}(2), E[X].
_ARGUMENT: Final = r"(?:\((?:[^()=\n]|\([^()=\n]{0,40}\)){1,80}\)|\[[^\[\]=\n]{1,60}\])"
_FUNCTION: Final = (
    r"(?:[A-Za-z]'{0,3}|\\?(?:gcd|lcm|det|max|min|deg|arg|Pr|Var|Cov|Re|Im|dim|rank|tr|phi|varphi|sigma|tau|mu|pi|Gamma)"
    r"|\\(?:text|mathrm|mathbb|mathbf|operatorname)\s?\{[A-Za-z]{1,12}\})"
)
APPLIED: Final = (
    rf"{_FUNCTION}(?:[_^](?:[A-Za-z0-9]{{1,3}}|\{{[A-Za-z0-9+-]{{1,6}}\}}|\{{\(?[A-Za-z0-9]{{1,3}}\)?\}}|-[0-9])){{0,2}}'{{0,3}}"
    rf" ?(?:\\left)? ?{_ARGUMENT}"
)
QUOTES: Final = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
ARROW = re.compile(
    r"\s*(?:\\(?:to|rightarrow|longrightarrow|Rightarrow|Longrightarrow|mapsto)(?![A-Za-z])|-{1,2}>|=>|→|⟶|⇒|➜)\s*"
)
_PRIME = re.compile(r"\^\s*(?:\\prime(?![A-Za-z])|\{\s*\\prime\s*\})|(?<=[A-Za-z])\u2019(?=[\s,]|$)")
_MATRIX = re.compile(
    r"\\begin\{(?P<name>[pbB]?(?:small)?matrix|array|cases|aligned|gathered)\}\s*(?:\{[lcr| ]{1,80}\})?"
    r"(?P<rows>.*)\\end\{(?P=name)\}",
    re.DOTALL,
)
_ROW = re.compile(r"\\\\(?:\[[^\]\n]{0,12}\])?|\\newline(?![A-Za-z])|\\cr(?![A-Za-z])")
_BETWEEN_ROWS = re.compile(r"[\])}]\s*[,;]?\s*[\[({]")
_QUOTED = re.compile(r"(?<![A-Za-z0-9])(['\"])([^'\"\s,;]*)\1(?![A-Za-z0-9])")
_PART = r"[^\s,]{1,60}(?: [^\s,]{1,20}){0,3}?"
_JOINED = re.compile(rf"(?:{_PART},\s*)*{_PART},?\s+(?:and|&)\s+{_PART}")
_AND = re.compile(r",?\s+(?:and|&)\s+")
_BRACKETS: Final = {"[": "]", "(": ")", "{": "}"}

MAX_MOVE_CHARS: Final = 500

# Verbs that mean "I choose", and others that a game may not have of its own; a game's own verbs are kept.
CHOOSING: Final = frozenset({"choose", "select", "play", "guess", "try", "enter", "answer", "say", "do", "submit"})
VERBS: Final = CHOOSING | {
    "go", "move", "walk", "head", "step", "pick", "use", "press", "click", "slide", "push", "shift", "swipe", "jump",
    "flip", "reveal", "open", "name", "mark", "drop", "take", "call", "place", "fire", "shoot",
}  # fmt: skip
# Small words that may follow such a verb.
_PARTICLES: Final = frozenset({"with", "for", "to", "at", "on", "in", "into"})
_NOUN = r"(?:move|action|guess|choice|play|command|answer|decision|pick|step|input)"
_LABELLED = rf"(?:(?:my|the|next|final|chosen|best|first) ){{0,3}}{_NOUN}"
_LAST_LINE = re.compile(rf"[ \t*_#>-]{{0,8}}{_LABELLED}[*_ \t]{{0,4}}:([^\n]{{0,600}})", re.IGNORECASE)
_ANY_LABEL = re.compile(rf"\b{_NOUN}[*_ \t]{{0,4}}:(.*)", re.IGNORECASE)
_OPENERS = re.compile(r"(?:(?:so|then|thus|therefore|hence|ok|okay|alright|finally)(?:, ?| ))+")
_NAMED = re.compile(
    rf"(?:{_LABELLED}(?: now)?(?: (?:is|will be|would be)(?: to)?:? ?| ?[:=] ?)"
    r"|(?:it|it's|the next (?:card|one|number)|the (?:word|code|secret|number|secret (?:word|code|number)))"
    r"(?: is|(?<='s)| will be) )"
)
_SUBJECT = re.compile(
    r"(?:(?:i|we)(?: will|'ll|'d like to| would like to| am going to|'m going to| want to| choose to| decide to| shall)"
    r"(?: now)? |i am |i'm |(?:i|we)(?: now)? |let me |let's |let us |please )"
)
_GERUNDS: Final = {f"{verb.removesuffix('e')}ing": verb for verb in VERBS}


def undressed(answer: str) -> str:
    """Without what stands around the whole: delimiters, emphasis, quotes, a code fence, a box, "The answer is", an
    equals sign before it, a full stop behind it.
    """
    text = answer.strip()
    for _ in range(4):
        before = text
        text = _unquoted(_unboxed(_unstyled(_undelimited(_SPACED.sub("", text)))))
        text = _without_full_stop(_without_lead(text).strip())
        text = text[1:].strip() if text[:1] == "=" and text[1:2] not in ("=", ">", "<") else text
        if text == before:
            break
    return text


def without_text_macro(text: str) -> str:
    """What stands in a ``\\text{}`` or ``\\mathrm{}`` that is the whole text, else the text."""
    whole = _TEXT.fullmatch(text.strip())
    return whole[1] if whole else text


def in_ascii(text: str) -> str:
    """Minus signs, blanks, fraction bars and fractions such as ½ in ASCII, and numbers without separators of thousands
    that separate nothing else: a thin space, or LaTeX. A comma stays.
    """
    text = without_separators(text)
    if text.isascii():
        return text
    return _MIXED.sub(_vulgar, text).translate(_SIGNS)


def without_separators(text: str) -> str:
    """Numbers without separators of thousands that are blanks, or LaTeX."""
    return _GROUPED.sub(lambda number: _SEPARATORS.sub("", number[0]), text)


def without_marks(text: str) -> str:
    """Without the emphasis, backticks or dollar signs around single parts: ``**87** degrees`` as ``87 degrees``."""
    return _MARKED.sub(r"\2", text)


def plain(answer: str) -> str:
    """Without markup: math delimiters, emphasis, fences, lead-ins, LaTeX of text, fractions, arrows and matrices."""
    text = undressed(in_ascii(answer))
    text = _TEXT.sub(r"\1", _TEXT.sub(r"\1", text))
    text = _FRACTION.sub(_slashed, _SIZE.sub("", text))
    text = _PRIME.sub("'", text)
    text = _BLANK.sub(" ", text).replace("{,}", ",").strip()
    text = _ROW.sub("\n", _matrix_rows(text))
    for escaped in "{}#_%&$":
        text = text.replace(f"\\{escaped}", escaped)
    text = _QUOTED.sub(r"\2", ARROW.sub(", ", text)).strip()
    text = _unquoted(_unbracketed(_undelimited(_without_full_stop(text))))
    return _AND.sub(", ", text) if _JOINED.fullmatch(text) else text


def _undelimited(text: str) -> str:
    """Without math delimiters, emphasis or a code fence around the whole."""
    if whole := (_FENCE.fullmatch(text) or _CODE.fullmatch(text)):
        return whole[1]
    for opening, closing in _DELIMITERS:
        inner = text[len(opening) : -len(closing)]
        around = text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing)
        if around and opening not in inner and closing not in inner and any(sign.isalnum() for sign in inner):
            return inner.strip()
    return text


def _unstyled(text: str) -> str:
    """Without a colour, a size or a weight of the whole, "therefore", and "The answer is" in a macro of text."""
    if text[:1] != "\\" or text[1:5] in _NO_STYLES:
        return text
    text = _THEREFORE.sub("", text)
    styled = _STYLED.match(text)
    if styled is None:
        return text
    if not text.startswith("{", styled.end()):
        return text[styled.end() :].strip() if styled["size"] else text
    inner = text[styled.end() + 1 : -1]
    return inner.strip() if closing_brace(text, styled.end() + 1, len(text)) == len(text) - 1 else text


def _unboxed(text: str) -> str:
    """What stands in a ``\\boxed{}`` that is the whole text, else the text."""
    for box in ("\\boxed{", "\\fbox{"):
        if text.startswith(box) and closing_brace(text, len(box), len(text)) == len(text) - 1:
            return text[len(box) : -1].strip()
    return text


def _unquoted(text: str) -> str:
    """Without quotes around the whole, where no other quote stands inside."""
    inner = text[1:-1]
    if inner.strip() and QUOTES.get(text[:1]) == text[-1:] and text[0] not in inner and text[-1] not in inner:
        return inner.strip()
    return text


def parts_of(fraction: re.Match[str]) -> tuple[int, int]:
    """What stands above and below the bar of a match of ``SMALL_FRACTION``."""
    signs = _VULGAR[fraction["sign"]].split("/") if fraction["sign"] else fraction.group("above", "below")
    return int(signs[0].translate(_LEVEL)), int(signs[1].translate(_LEVEL))


def _vulgar(fraction: re.Match[str]) -> str:
    """``¾`` as ``3/4``, ``1¾`` and ``1³⁄₄`` as ``7/4``; a whole number before a fraction over 1 is no mixed number."""
    above, below = parts_of(fraction)
    whole = fraction["whole"]
    if whole is None:
        return f"{above}/{below}"
    return f"{int(whole.replace(',', '')) * below + above}/{below}" if above < below else fraction[0]


def _without_lead(text: str) -> str:
    """Without "The answer is": only with its verb or a colon, and not where a "not" follows."""
    lead = _LEAD.match(text)
    return text[lead.end() :].strip() if lead and _VERB.search(lead[0]) else text


def _without_full_stop(text: str) -> str:
    if not text.endswith(".") or (text.count(".") > 1 and "\n" in text):
        return text
    return text[:-1] if text[-2:-1].isalnum() or text[-2:-1] in tuple("])}$*`'\"#") else text


def _slashed(fraction: re.Match[str]) -> str:
    above, below = fraction[1] or fraction[2], fraction[3] or fraction[4]
    return f"{above.replace(' ', '')}/{below}"


def _matrix_rows(text: str) -> str:
    """The rows of a matrix that is the whole text, one to a line."""
    bare = text[1:-1].strip() if text[:1] + text[-1:] in ("[]", "()") else text
    whole = _MATRIX.fullmatch(bare)
    if whole is None or "\\begin" in whole["rows"]:
        return text
    return "\n".join(row.replace("&", " ").strip() for row in _ROW.split(whole["rows"]) if row.strip()).strip()


def _unbracketed(text: str) -> str:
    """Without the brackets around a list or around the rows of a list of lists; each row then has a line."""
    if text[:1] not in _BRACKETS or text[-1:] != _BRACKETS[text[0]] or not _pairs_up(text):
        return text
    inside = text[1:-1].strip()
    if inside[:1] in _BRACKETS and _BETWEEN_ROWS.search(inside) and _pairs_up(inside):
        return _BETWEEN_ROWS.sub("\n", inside[1:-1]) if inside[-1:] == _BRACKETS[inside[0]] else text
    if _BETWEEN_ROWS.search(text):  # "(1, 2), (3, 4)": the first bracket is not closed by the last
        return _BETWEEN_ROWS.sub("\n", inside)
    return inside if not set(inside) & set("[](){}") else text


def _pairs_up(text: str) -> bool:
    """Whether the brackets of a text pair up, at most two deep."""
    open_: list[str] = []
    for sign in text:
        if sign in _BRACKETS:
            open_.append(_BRACKETS[sign])
            if len(open_) > 2:
                return False
        elif sign in "])}" and (not open_ or open_.pop() != sign):
            return False
    return not open_


# moves


def move_text(reply: str) -> str:
    """Where the move stands in a reply: the content of the marker that ranks highest, or the whole of it."""
    if len(reply) > MAX_COMPLETION_CHARS:
        return ""
    text = visible_text(reply)
    tagged = last_tagged(text, "action")
    if "\\boxed" not in text and tagged is not None:
        return tagged
    extraction = extract_visible(text, max_chars=MAX_MOVE_CHARS)
    if extraction.marker is not None:
        return extraction.answer or ""
    return _last_line(text) or text


def _last_line(text: str) -> str:
    """What the last line names as the move, unless another line names another."""
    lines = [line for line in text[-10 * MAX_MOVE_CHARS :].splitlines() if line.strip()]
    if not lines or not _LAST_LINE.fullmatch(lines[-1]):
        return ""
    labelled = [label[1].replace("**", "").strip() for line in lines if (label := _ANY_LABEL.search(line))]
    return labelled[-1] if len({move.casefold() for move in labelled}) == 1 else ""


def plainer_moves(reply: str, verbs: Collection[str] = (), nouns: Collection[str] = ()) -> Iterator[str]:
    """The move of a reply in plainer and plainer words, each once, in small letters and with single blanks.

    Args:
        reply: what the policy wrote; hostile text is expected.
        verbs: words that moves of this game begin with; they are never dropped.
        nouns: words that this game's moves may have without another meaning, such as "column".
    """
    return plainer_texts(move_text(reply), verbs, nouns)


def plainer_texts(text: str, verbs: Collection[str] = (), nouns: Collection[str] = ()) -> Iterator[str]:
    """``plainer_moves`` of a text that is nothing but the move."""
    if not text.strip() or len(text) > MAX_MOVE_CHARS:
        return
    if text.isascii() and text.isalnum():  # one word: nothing stands around it
        word = text.lower()
        if word != "the" and word not in nouns:
            yield word
        return
    texts: list[str] = []
    for written in _plainer(_undressed(text.replace("\u2019", "'").lower()), verbs, nouns):
        if written and written.isascii() and written not in texts:
            texts.append(written)
            yield written


def _plainer(text: str, verbs: Collection[str], nouns: Collection[str]) -> Iterator[str]:
    yield text
    bare = _OPENERS.sub("", text, count=1) if _OPENERS.match(text) else text
    named = _NAMED.match(bare)
    if named and bare[named.end() :]:
        bare = _undressed(bare[named.end() :])
        yield bare
    subject = _SUBJECT.match(bare)
    if subject:
        verb = bare[subject.end() :].partition(" ")[0]
        if verb in verbs or verb in VERBS or (verb in _GERUNDS and subject[0] in ("i am ", "i'm ")):
            bare = bare[subject.end() :]
            yield bare
    bare = _without_verb(bare, verbs)
    yield bare
    words = bare.split()
    dropped = {"the", *nouns}
    yield " ".join(word for word in words if word.strip(",") not in dropped)


def _undressed(text: str) -> str:
    """Without markup and quotes around the whole."""
    text = " ".join(plain(text).split()).removesuffix("!")
    if text[:2] == "> " and text[2:3].isalpha():  # "> open door", as games show it; "> 3" is another number
        text = text[2:]
    if len(text) > 2 and text[0] in "'\"" and text[0] == text[-1] and text[0] not in text[1:-1]:
        return text[1:-1].strip()
    return text


def _without_verb(text: str, verbs: Collection[str]) -> str:
    """Without a first verb that says only that a move follows, and the small words after it."""
    words = text.split()
    verb = words[0] if words else ""
    if words[:2] == ["go", "with"]:
        verb = "choose"
    if verb in verbs or (verb not in VERBS and _GERUNDS.get(verb, verb) not in VERBS):
        return text
    start = 1
    while start < len(words) - 1 and words[start] in _PARTICLES:
        start += 1
    return _undressed(" ".join(words[start:])) or text
