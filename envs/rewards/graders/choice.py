"""Multiple choice: exactly one option letter, or the text of one option.

``B``, ``(B)``, ``B.``, ``\\text{(B)}``, ``Option B``, ``B) Paris``, and ``Paris`` when the options are given.
``A or B``, ``AB``, ``not B``, a letter with another option's text, and look-alike letters earn nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import undressed
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.extraction import MARKERS, Extraction, extract, first_sentence, visible_text

_WRAPPER = re.compile(
    r"\\(?:text|texttt|mathtt|emph|textbf|textrm|textit|mathrm|mathbf|mathit|mbox|mathsf|bf|rm)\s*\{([^{}]*)\}"
)
MAX_BARE_CHARS: Final = 200
_PREFIX = re.compile(
    r"(?:(?:so|thus|hence|therefore),? |(?:after|by|based on|from|given|comparing) [a-z ]{3,60}, )?"
    r"(?:(?:the |my )?(?:(?:correct|final|best|right) )?"
    r"(?:option|choice|answer|letter)(?: is)? ?:? ?|i(?: would|'d| will|'ll)? (?:choose|pick|select|go with)"
    r"(?: option)? )",
    re.IGNORECASE,
)
# A last line that is read without the word "answer".
_NAMES_OPTION = re.compile(
    r"[*_]{0,2}(?:(?:so|thus|hence|therefore),? |(?:after|by|based on|from|given|comparing) [a-z ]{3,60}, )?"
    r"(?:the |my )?(?:correct|final|best|right) (?:option|choice|letter)(?: is|:)",
    re.IGNORECASE,
)
# A bold choice on a line of its own that begins the reply, with nothing below it that speaks of another.
_ALONE_ABOVE = re.compile(r"(?P<choice>\*\*[^*\n]{1,80}\*\*[.:]?[ \t]{0,8}|\*\*[A-Z][.):]?\*\*[.):]? [^*\n]{1,80})\n")
_TAKEN_BACK = re.compile(
    r"(?<![A-Za-z'])(?![AI] [a-z])[A-Z](?![A-Za-z'])|\b(?i:wait|actually|instead|wrong|incorrect|not sure"
    r"|correction|unless"
    r"|rather|maybe|perhaps|possibly|probably|guess|options?|choices?)\b"
)
_SEVERAL_SENTENCES = re.compile(r"[.!?]\s+\S{1,40}\s+\S{1,40}\s+\S")
_LETTERED = re.compile(r"^\W{0,4}[A-Za-z][.)]\s")
_SUFFIX = re.compile(r"(?:is|was) (?:the )?(?:correct|right|best)(?: (?:one|option|choice|answer))?", re.IGNORECASE)
# A verdict or a doubt on the letter behind it, or what makes it a formula; "B) False" may be the text of the option.
_DENIED = re.compile(
    r"(?:(?:is|was)\b|isn.?t\b|wasn.?t\b).*|[\^_=<>].*"
    r"|\(?(?:not|never|wrong|incorrect|rejected|excluded|(?:most |very )?(?:likely|probably|possibly|maybe|perhaps)"
    r"|unsure|uncertain|not sure|(?:(?:my|a|best|just) ){0,3}guess|i (?:think|guess|believe))\)?[.!?]?",
    re.I | re.S,
)
_DOUBTED = re.compile("[?\u274c\u2717\u2718\u2715\u2716]|~~")
_IN_BRACKETS = re.compile(r"^\((.*)\)$", re.DOTALL)
_UNSURE = re.compile(
    r"\b(?:not|wrong|incorrect|or|nor|maybe|perhaps|probably|possibly|unless|if|but|guess|isn.?t)\b", re.IGNORECASE
)
_DRESSING = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("{", "}"),
    ("**", "**"),
    ("*", "*"),
    ("`", "`"),
    ('"', '"'),
    ("\u201c", "\u201d"),
)


def grade_choice(
    completion: str,
    reference: str,
    *,
    letters: str | Sequence[str] = "ABCD",
    options: Sequence[str] | None = None,
    markers: Sequence[str] = MARKERS,
) -> Verdict:
    """Grade a multiple-choice answer.

    Args:
        completion: the model's reply.
        reference: the right label, one of ``letters``.
        letters: the labels, in the order shown; case does not matter unless two labels differ by it alone.
        options: the texts of the options in the same order; with them, an option's text is an answer too, and a
            letter followed by another option's text is none.
        markers: which answer markers count, see ``extraction``.

    Raises:
        BadReference, BadOption: the reference is no label, or the options do not fit the labels.
    """
    labels = _labels(letters, options)
    if not isinstance(reference, str) or reference not in labels:
        raise BadReference(f"the reference must be one of {labels}, got {reference!r}"[:200])
    extraction = extract(completion, markers)
    if extraction.marker is None and (bare := _bare(visible_text(completion))):
        unsure = _UNSURE.search(bare) is not None
        if options is not None and read_choice(bare, labels, options)[0] is not None:
            extraction = Extraction(bare)
        elif not unsure and _chosen(Extraction(bare, "line"), labels, options)[0] is not None:
            extraction = Extraction(bare, "line")
    if extraction.answer is None:
        return unparsable(extraction.reason)
    chosen, reason = _chosen(extraction, labels, options)
    if chosen is None:
        return unparsable(reason, extraction.answer)
    return correct(chosen) if chosen == reference else wrong(chosen)


def _chosen(extraction: Extraction, labels: Sequence[str], options: Sequence[str] | None) -> tuple[str | None, str]:
    """The one label that an answer means, or None and why not: as it stands, its first sentence, or undressed."""
    answer = extraction.answer or ""
    chosen, reason = read_choice(answer, labels, options)
    if chosen is None and extraction.marker in ("line", "hash"):
        sentence = first_sentence(extraction, exclaimed=True)
        behind = answer[len(sentence) :]
        if not _DOUBTED.search(behind) and not _names_another(behind, labels):
            chosen, reason = read_choice(sentence, labels, options)
    if chosen is None and (bare := undressed(answer)) != answer:
        chosen, _ = read_choice(bare, labels, options)
    return chosen, reason


def _bare(text: str) -> str:
    """The whole of a reply of one short line, or a last line that says which option is right; else empty."""
    lines = text[-2 * MAX_BARE_CHARS :].strip().splitlines()
    line = lines[-1].strip() if lines else ""
    if len(line) > MAX_BARE_CHARS or _SEVERAL_SENTENCES.search(_LETTERED.sub("", line)):
        return ""
    if len(text.strip()) == len(line):
        return line.lstrip("\u2705> ").replace("**", "").strip()
    if _NAMES_OPTION.match(line):
        return line.replace("**", "")
    head = _ALONE_ABOVE.match(text.strip())
    below = text.strip()[head.end() :] if head else ""
    return (
        head["choice"].replace("**", "") if head and not (_TAKEN_BACK.search(below) or _DOUBTED.search(below)) else ""
    )


def _labels(letters: str | Sequence[str], options: Sequence[str] | None) -> tuple[str, ...]:
    labels = tuple(letters)
    if len(labels) < 2 or len(set(labels)) != len(labels) or not all(isinstance(x, str) and x.strip() for x in labels):
        raise BadOption(f"letters must be at least two different labels, got {letters!r}")
    if options is not None and (isinstance(options, str) or len(options) != len(labels)):
        raise BadOption(f"there must be one option text for each of the {len(labels)} letters, got {options!r}"[:200])
    return labels


def read_choice(answer: str, labels: Sequence[str], options: Sequence[str] | None = None) -> tuple[str | None, str]:
    """The one label that an extracted answer means, or None and why not."""
    texts = [_plain(option).casefold() for option in options] if options is not None else []
    text = _plain(answer)
    if texts.count(text.casefold()) == 1 and not any(_same(text, label, labels) for label in labels):
        return labels[texts.index(text.casefold())], ""
    prefix = _PREFIX.match(text)
    if prefix and prefix.end() < len(text):
        text = text[prefix.end() :].strip()
    for label in sorted(labels, key=len, reverse=True):
        rest = _behind_label(text, label, labels)
        if rest is None:
            continue
        return _check_rest(label, rest, labels, texts)
    return None, f"not one of {', '.join(labels)}"


def _plain(text: str) -> str:
    """Without LaTeX and Markdown dressing and without the mark that ends a sentence; "?" stays, it is a doubt."""
    for _ in range(6):
        before = text
        text = _WRAPPER.sub(r"\1", text).replace("\\ ", " ").replace("\\left", "").replace("\\right", "")
        text = " ".join(text.split())
        for opening, closing in _DRESSING:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                text = text[len(opening) : -len(closing)].strip()
        text = text.rstrip(".!;,:\u3002 ") or text
        if text == before:
            break
    return text


def _same(text: str, label: str, labels: Sequence[str]) -> bool:
    if text == label:
        return True
    folded = [other.casefold() for other in labels]
    return text.isascii() and text.casefold() == label.casefold() and folded.count(text.casefold()) == 1


def _behind_label(text: str, label: str, labels: Sequence[str]) -> str | None:
    """What stands behind the label at the start of the text: "" for nothing, None when the text begins otherwise."""
    for opening, closing in (("(", ")"), ("[", "]"), ("**(", ")**"), ("**", "**"), ("", "")):
        head = text[len(opening) : len(opening) + len(label)]
        end = len(opening) + len(label)
        if not (text.startswith(opening) and _same(head, label, labels) and text.startswith(closing, end)):
            continue
        rest = (")" if opening in ("(", "[") else "") + text[end + len(closing) :]
        if rest[:1] in ("", ".", ":", ")", ",", "-", " ", "–", "—"):
            return rest
    return None


def _check_rest(label: str, rest: str, labels: Sequence[str], texts: Sequence[str]) -> tuple[str | None, str]:
    body = rest.lstrip(" .:)-–—*").strip()
    if not body or _SUFFIX.fullmatch(body):
        return label, ""
    if _DENIED.fullmatch(body) or (not texts and _DOUBTED.search(body)):
        return None, "the letter is denied"
    if rest.startswith(" ") and not rest.lstrip().startswith(("-", "–", "—", ":", "(")) and not texts:
        return None, "more than a letter in the answer"
    if texts:
        index = list(labels).index(label)
        if any(
            _plain(text).casefold() == texts[index] for text in (body, body.lstrip(", "), *_IN_BRACKETS.findall(body))
        ):
            return label, ""
        return None, "the letter is not followed by the text of its option"
    if rest.startswith(","):
        return None, "several letters in the answer"
    return (None, "several letters in the answer") if _names_another(body, labels) else (label, "")


def _names_another(body: str, labels: Sequence[str]) -> bool:
    """Whether the text behind a letter offers a further letter: ``B) or C)``, ``B. C``, ``B: not B``."""
    if _plain(body).casefold() in {label.casefold() for label in labels}:
        return True  # "d: c"
    label = "|".join(re.escape(x) for x in sorted(labels, key=len, reverse=True))
    joined = rf"(?:^|[\s(,;/&|])(?:or|and|not|nor)\b[\s(*]*(?:{label})(?![A-Za-z0-9])"
    alone = rf"(?:^|[\s(\[,;/&|*])(?:{label})(?:$|[).,:;/&|\]*]| [(\u2013-])"
    right = rf"(?:^|\W)(?:{label}) (?:is|was) (?:the )?(?:right|correct|best)\b"
    last = rf"(?:^|[\s(,;/&|])(?:or|nor) \(?(?i:{label})[).,;\s]*$"
    pattern = rf"{joined}|{last}|{alone}|{right}|[(\[](?i:{label})[)\]]"
    return re.search(pattern, body) is not None or bool(re.match(r"(?:or|and|not|nor)\b", body, re.IGNORECASE))
