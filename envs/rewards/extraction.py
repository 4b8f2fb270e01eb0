"""The extraction contract: what counts as the final answer in a model's reply. One contract for all graders.

1. The reply ends at the first chat control token (``<|im_end|>``, ``<|eot_id|>``, ...); what a model writes
   behind it is a turn that nobody took. Blocks that pretend to be tool output are cut out.
2. Thinking does not count: only the text after the last ``</think>`` is read, and nothing after an open ``<think>``.
   Of a reply in channels (``<|channel|>analysis<|message|>...``) only the message of the channel ``final`` is read.
3. Markers, in this order of rank: ``boxed`` (``\\boxed{...}``), ``tag`` (``<answer>...</answer>``), and then the
   later one of ``hash`` (``#### ...``) and ``line`` (``Answer: ...``, ``the answer is ...``), both looked for in
   the last 100,000 characters. The last occurrence of
   the highest marker present decides, whatever stands elsewhere; boxes and tags that "or", "and" or a comma joins
   count together. No marker means no answer.

A grader then demands exactly one value in what was extracted. ``docs/graders.md`` has the table of cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from rlvr.envs.rewards.errors import BadOption

MAX_COMPLETION_CHARS: Final = 1_000_000
MAX_ANSWER_CHARS: Final = 2_000
MAX_NESTED_BOXES: Final = 16
MAX_JOINED_ANSWERS: Final = 16
MAX_JOINT_CHARS: Final = 80
MAX_MENTIONS: Final = 1_000
MAX_TRAILING_CHARS: Final = 100_000

MARKERS: Final = ("boxed", "tag", "hash", "line")
TAG_FIRST: Final = ("tag", "boxed", "hash", "line")

CONTROL_TOKEN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|endoftext|end_of_text|begin_of_text|start_header_id|user|system|tool|"
    r"assistant|start|channel|message|constrain|end|return|call)\|>|</s>|<(?:end|start)_of_turn>|<｜[^｜>]{1,40}｜>"
)
# A message of a reply in channels; the channel may be followed by whom it is for, and by the format of the content.
_MESSAGE = re.compile(r"<\|channel\|>\s*(\w{1,20})([^<]{0,200})(?:<\|constrain\|>[^<]{0,40})?<\|message\|>")
_NEXT_MESSAGE = re.compile(r"<\|end\|>\s*<\|start\|>assistant\s*(?=<\|channel\|>)")
_FIRST_MESSAGE = re.compile(r"\s*(?:<\|start\|>assistant\s*)?(?=<\|channel\|>)")
_TOOL_BLOCK = re.compile(
    r"<(tool_response|tool_output|tool_results?|tool_call|function_results?|information|observation)>"
)
_THINK = re.compile(r"<think(?:ing)?>")
_THINK_HINT = re.compile(r"think(?:ing)?>", re.IGNORECASE)
_BARE_BOX = re.compile(r"\\boxed[ \t]{1,4}([-+]?[0-9][0-9.,/]{0,40}(?<![.,]))(?![A-Za-z0-9])")  # no braces
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TURN_END = re.compile(rf"[ \t]*(?:\n|$|{CONTROL_TOKEN.pattern})")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# Between two boxes, what joins nothing: markup, blanks, and the name of the second value, as in "$ or $x =".
_NO_JOINT = re.compile(
    r"\b[A-Za-z](?:_\{?\w{1,3}\}?)?\s?=|[\s$*_{}.]|\\[()\[\],;: ]|\\(?:q?quad|text|mathrm|textbf)(?![A-Za-z])"
)
_JOINTS: Final = frozenset((*",;/&", "or", "and", "alternatively", "\\lor", "\\land"))
_HEDGING_JOINTS: Final = frozenset("maybe perhaps possibly else also either".split())
_HASH = re.compile(r"(?<!#)####(?!#)[ \t]{0,8}\n?[ \t]{0,8}")
# "The answer is therefore 42", "**Answer** - 42", and "### Answer" on a line of its own; what stands before is checked.
_OF: Final = (
    r"(?:(?: here| (?:to|for) (?:the|this|your)(?: question| problem)?"
    r"| (?:that )?(?:we|you)(?:'re| are)? (?:seek|want|looking for))\b)?"
)
_IS: Final = (
    r"(?:'s|is|are|would be|will be|should be|must be|equals|becomes|(?:comes|turns|works) out (?:to be|to|as))\b"
    r"(?:,? (?:therefore|thus|then|hence|so|indeed|in fact|simply|just|clearly|obviously|actually|exactly|equal to|"
    r"given by|found to be|as follows)\b,?(?! (?:if|because)\b))?"
)
_LINE = re.compile(
    rf"answers?{_OF}\}}?(?:, (?:then|therefore|thus|so|hence),)?[\s*_`]{{0,8}}"
    rf"(?:{_IS}|[:\uff1a]|=>?|[-\u2013\u2014]>|[\u2192\u21d2\u279c]"
    r"|(?P<dash>(?<!\n)[-\u2013\u2014](?=[\s*])|(?<=[*_] )(?=\S))|(?P<alone>(?<=\n)))"
    r"(?P<around>(?:(?!```)(?:[\s*_`:}\u2192\u27a1\ufe0f]|(?<=\n)(?:>|[-=]{3,40}(?=\n)))){0,64})",
    re.IGNORECASE,
)
_BOLD_TAG = re.compile(r"</?(?:b|strong)>")
# Before "answer" on its line where a dash follows, or nothing.
_LABEL = re.compile(
    r"(?:[^\w\n]|_|[0-9]|(?:step|part)\b){0,20}(?:(?:the|my|our|final|correct)\s){0,3}[*_]{0,2}", re.IGNORECASE
)
# Before "answer", perhaps with words of the second set between: this is another one than the reply's own.
_NOT_OWN: Final = frozenset(
    "wrong incorrect false possible potential tentative first initial previous old other another no not if".split()
)
# "I don't think that the", "it is false that the", "some might say the": it is not said of the reply's own answer.
_SAYS: Final = (
    r"(?:(?:think|believe|say|claim|guess|agree|know|mean|suppose|conclude|expect)(?:s|ing)?|assum(?:es?|ing))"
)
_DOUBTED = re.compile(
    r"(?:\b(?:not|never|cannot|nobody|no one|neither|hardly|dont|doesnt|cant|[a-z]{2,6}n['\u2019]t) (?:[a-z]+ ){0,3}?"
    rf"(?:{_SAYS}|sure|certain|true|the case|convinced|likely|possible)"
    r"|(?<!\bno )(?<!\bnot )(?<!n['\u2019]t )\b(?:doubts?|deny|denies|disagree|false|untrue|wrong|incorrect|impossible"
    r"|unlikely|doubtful|unclear|unsure|uncertain|mistake|mistaken|myth)"
    rf"|\b(?:one|some|many|people|someone|others|students|they|you)(?: may| might| could| would| will|'d)? {_SAYS})"
    rf"(?: to {_SAYS})?(?: that| if| whether)?$"
)
_NO_MARKUP: Final = str.maketrans(dict.fromkeys('*_`"', " "))
_PLAIN_WORDS: Final = frozenset("the my our an a correct right final".split())
# A formula on lines of its own, with nothing behind it on the line of its end.
_DISPLAY = re.compile(
    r"[ \t]{0,8}(?:\$\$[ \t]{0,8}\n(?P<inner>[^$]{1,2000})\$\$"
    r"|\\\[[ \t]{0,8}\n(?P<inner2>(?:(?!\\\]).){1,2000})\\\])[ \t.,*]{0,8}(?=\n|$)",
    re.DOTALL,
)
_FENCE = re.compile(r"[ \t]{0,8}(`{3,8})")
# A closed list: another first word, such as "not" or the letter of an option, is a part of the answer.
LANGUAGE: Final = (
    r"(?i:text|te?xt|plain|plaintext|python[23]?|py|json|yaml|csv|la?tex|math|markdown|md|bash|sh|shell|console|sql|"
    r"java|javascript|js|typescript|cpp|html|xml|output)"
)
_LANGUAGE = re.compile(rf"[ \t]{{0,8}}(?:{LANGUAGE})?[ \t]{{0,8}}")
# A next line that begins with "or", or one that is no more than it, with the answer below.
_OR_LINE = re.compile(
    r"\s{1,16}(?:or|nor|alternatively)[:,]?[ \t]{0,8}\n\s{0,16}[^\n]+"
    r"|\n[ \t*]{0,8}(?:or|nor|alternatively)\b[^\n]*",
    re.IGNORECASE,
)
_OR_ALONE = re.compile(r"[ \t\n]{0,16}(?:or|nor|alternatively)[:,]?[ \t]{0,8}\n", re.IGNORECASE)
_OTHERWISE = re.compile(r"\s*(?:or|nor|not|no|and|but|wait|alternatively|maybe|perhaps|actually)\b", re.IGNORECASE)
_EMPTY_LINE = re.compile(r"\n[ \t]*\n|\n[ \t]*$")
_PROSE = re.compile(r"[A-Za-z]{2,30} [A-Za-z]{2,30} [A-Za-z]{2,30}")
_RULE = re.compile(r"[ \t]*(?:-{3,80}|\*{3,80}|_{3,80}|={3,80})[ \t]*")
_REMARK = re.compile(r"[ \t]*[A-Z][A-Za-z' ]{0,60}[.!][ \t]*")
_REMARK_WORDS: Final = frozenset(
    "done all good as required asked requested this that it s fits works holds each every row column sum the is are ok "
    "okay checked verified complete finished solved end hope helps great perfect yes".split()
)
_ENDINGS: Final = (
    "\U0001f389\U0001f3af\U0001f60a\U0001f642\U0001f44d\u2728;,:\u3002\uff0c\uff0e\uff1b\u2705\u2713\u2714\u2611\ufe0f"
)
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9)])\*\*|\*\*(?![A-Za-z0-9(-])")  # elsewhere it is a power
_EXCLAIMED = re.compile(r"""(?:[ *`$_"'\]]|(?<![\\A-Za-z])[A-Za-z]{3,}|/[A-Za-z]{1,4}|\\text\{[^{}]{1,40}\})!$""")
# What begins so takes the sentence before it back, or offers another answer.
_RETRACTED: Final = r"(?!\s*(?i:or|nor|wait|alternatively|maybe|perhaps|actually|no(?=[,.!]| wait\b))\b)"
_SENTENCE_END = re.compile(
    rf"(?:(?<!\.[A-Za-z])\.(?:\s|$)|\u3002|!\s+(?=[A-Z])){_RETRACTED}"
    r"|,? \(?(?:because|since|as(?! (?:an?|my) )|which|where)\b|, (?:who|whose|whom)\b"
)


class Extraction(NamedTuple):
    """The final answer of a reply, or why there is none.

    Attributes:
        answer: the text of the answer, stripped; None when the reply gives none.
        marker: the marker that gave it, one of ``MARKERS``; None when no marker was found.
        reason: why there is no answer; empty when there is one.
        block: the answer and the lines below it, up to an empty one or a sentence; empty for the other markers than
            ``hash`` and ``line``, and where there are no more lines.
        below: whether the answer begins on the line below its marker.
        fenced: whether the answer stood in a code fence, and is all that stood there.
    """

    answer: str | None
    marker: str | None = None
    reason: str = ""
    block: str = ""
    below: bool = False
    fenced: bool = False


def visible_text(completion: str) -> str:
    """The part of a reply that counts: before the first chat control token, after the thinking, without tool blocks.

    Empty when the thinking never ended.
    """
    text = spoken_text(completion)
    if any(part in text for part in ("<tool_", "<function_", "<information>", "<observation>")):
        text = without_blocks(text, _TOOL_BLOCK)
    return text


def spoken_text(completion: str) -> str:
    """The part of a reply before the first chat control token and after the thinking; empty when that never ended."""
    if "<" not in completion:
        return completion
    text = final_message(completion)
    if any(part in text for part in ("<|", "</s>", "_of_turn>", "<｜")):
        end = CONTROL_TOKEN.search(text)
        text = text[: end.start()] if end else text
    return _after_thinking(text) if _THINK_HINT.search(text) else text


def final_message(completion: str) -> str:
    """What follows the head of the channel ``final`` in a reply in channels; another reply as it is.

    Empty where another channel is the last one: a thought that never ended, or a call of a tool. What follows a turn
    that nobody took is none of the reply.
    """
    if "<|channel|>" not in completion:
        return completion
    head = _FIRST_MESSAGE.match(completion) or _NEXT_MESSAGE.search(completion)
    if head is None:
        return completion
    turn = CONTROL_TOKEN.search(completion)
    if turn is None or turn.start() < head.start():  # another turn begins before the first message
        return completion
    while head is not None:
        message = _MESSAGE.match(completion, head.end())
        if message is None:
            return ""
        if message[1] == "final" and "to=" not in message[2]:
            return completion[message.end() :]
        end = CONTROL_TOKEN.search(completion, message.end())
        head = _NEXT_MESSAGE.match(completion, end.start()) if end else None
    return ""


def command_text(completion: str) -> str:
    """The part of a reply that is a command to be carried out as it is written.

    A thought before it, and turns that nobody took behind it, are cut off. In the command itself a tag or a control
    token is a part of it: one of those ends it only at the end of a line or before another.
    """
    text = final_message(completion)
    opening = _THINK.match(text.lstrip()[:16].lower())
    if opening or "</think" in text.lower():
        closing = _CLOSING.search(text) if opening else None
        if opening and closing is None:
            return ""
        text = text[closing.end() :] if closing else _after_thinking(text)
    end = next((each for each in CONTROL_TOKEN.finditer(text) if _TURN_END.match(text, each.end())), None)
    return text[: end.start()] if end else text


def without_blocks(text: str, opening_tag: re.Pattern[str]) -> str:
    """Without the blocks whose opening tag (its name is group 1) is found; one never closed reaches to the end."""
    kept: list[str] = []
    position = 0
    while opening := opening_tag.search(text, position):
        kept.append(text[position : opening.start()])
        closing = f"</{opening.group(1)}>"
        end = text.find(closing, opening.end())
        if end < 0:
            return "".join(kept)
        position = end + len(closing)
    return "".join([*kept, text[position:]])


def _after_thinking(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a few capitals outside ASCII have a longer small form
        lowered = "".join(c.lower() if c.isascii() else c for c in text)
    start = 0
    for closing in ("</think>", "</thinking>"):
        position = lowered.rfind(closing)
        if position >= 0:
            start = max(start, position + len(closing))
    opening = _THINK.search(lowered, start)
    return text[start : opening.start()] if opening else text[start:]


def extract(completion: str, markers: Sequence[str] = MARKERS, max_chars: int = MAX_ANSWER_CHARS) -> Extraction:
    """The final answer of a reply under the contract above.

    Args:
        completion: the reply as text, without special tokens.
        markers: which markers count, highest rank first; ``hash`` and ``line`` share one rank, the later one counts.
        max_chars: cap on the length of the answer; a longer one is no answer.

    Raises:
        BadOption: a marker that does not exist.
    """
    if markers is not MARKERS:
        check_markers(markers)
    if len(completion) > MAX_COMPLETION_CHARS:
        return Extraction(None, None, f"the reply is over the cap of {MAX_COMPLETION_CHARS:,} characters")
    return extract_visible(visible_text(completion), markers, max_chars)


def extract_visible(text: str, markers: Sequence[str] = MARKERS, max_chars: int = MAX_ANSWER_CHARS) -> Extraction:
    """``extract`` on text that ``visible_text`` has already cut."""
    extraction = _search(text, markers, max_chars)
    if extraction is None:
        reason = "no answer marker after the thinking" if text.strip() else "no text after the thinking"
        return Extraction(None, None, reason)
    answer = extraction.answer
    if answer is not None and len(answer) > max_chars:
        return Extraction(None, extraction.marker, f"the answer is over the cap of {max_chars:,} characters")
    if answer == "":
        return Extraction(None, extraction.marker, f"the last answer marker ({extraction.marker}) is empty")
    return extraction


def check_markers(markers: Sequence[str]) -> None:
    """Raise BadOption unless every marker exists and there is at least one."""
    unknown = [marker for marker in markers if marker not in MARKERS]
    if unknown or isinstance(markers, str) or not markers:
        raise BadOption(f"markers must be a non-empty sequence of {MARKERS}, got {markers!r}")


def _search(text: str, markers: Sequence[str], max_chars: int) -> Extraction | None:
    trailing_done = False
    for marker in markers:
        if marker == "boxed":
            answer = _last_box(text, max_chars) if "\\boxed" in text or "\\fbox" in text else None
        elif marker == "tag":
            answer = _last_tag(text)
        elif trailing_done:
            continue
        else:
            answer = _last_trailing(text, markers)
            trailing_done = True
        if answer is not None:
            return answer
    return None


def closing_brace(text: str, start: int, end: int) -> int:
    """Index of the brace that closes the group whose content begins at ``start``; -1 when none does before ``end``."""
    depth = 1
    for token in _BRACE.finditer(text, start, end):
        symbol = token.group()
        if symbol == "{":
            depth += 1
        elif symbol == "}":
            depth -= 1
            if depth == 0:
                return token.start()
    return -1


def _box_content(text: str, command: int, name: str) -> int:
    """Where the content of the box at ``command`` begins; -1 when no brace follows."""
    position = command + len(name)
    while position < len(text) and position < command + 20 and text[position].isspace():
        position += 1
    return position + 1 if text.startswith("{", position) else -1


def _last_box(text: str, max_chars: int) -> Extraction | None:
    start = text.find("\\boxed{") + 7
    end = text.find("}", start, start + max_chars)
    if start > 6 and end > 0 and text.find("\\boxed", start) < 0:  # the usual reply: one box, no braces within
        content = text[start:end]
        if "{" not in content and "\\" not in content:
            return Extraction(content.strip(), "boxed")
    return _outermost_last_box(text, max_chars)


def _outermost_last_box(text: str, max_chars: int) -> Extraction | None:
    name = "\\boxed" if "\\boxed" in text else "\\fbox"
    starts: list[int] = []
    command = text.rfind(name)
    if bare := _BARE_BOX.match(text, command):
        return Extraction(bare[1], "boxed")
    for _ in range(MAX_MENTIONS):
        if command < 0 or len(starts) > MAX_NESTED_BOXES:
            break
        content = _box_content(text, command, name)
        if content >= 0:
            starts.append(content)
        command = text.rfind(name, 0, command)
    if not starts:
        return None
    last = starts[0]
    start, end = last, closing_brace(text, last, min(len(text), last + 2 * max_chars))
    if end < 0:
        return Extraction(None, "boxed", f"the last \\boxed is not closed within {2 * max_chars:,} characters")
    for depth, outer in enumerate(starts[1:], 1):
        outer_end = closing_brace(text, outer, min(len(text), outer + 2 * max_chars))
        if outer_end > last:
            start, end = outer, outer_end
            if depth == MAX_NESTED_BOXES:
                return Extraction(None, "boxed", f"boxes nested over the cap of {MAX_NESTED_BOXES}")
    contents = [text[start:end].replace(name, "").strip()]
    first = text.rfind(name, 0, start)
    while contents[0] and len(contents) < MAX_JOINED_ANSWERS and (command := text.rfind(name, 0, first)) >= 0:
        content = _box_content(text, command, name)
        end = closing_brace(text, content, first) if 0 <= content > first - 2 * max_chars else -1
        if end < 0 or not _joins(text[end + 1 : first]):
            break
        contents.append(text[content:end].strip())
        first = command
    return Extraction(_together(contents), "boxed")


def _joins(between: str) -> bool:
    """Whether what stands between two answers makes one of them: "or", "and" or a comma, and no word beside."""
    if len(between) > MAX_JOINT_CHARS:
        return False
    words = re.findall(r"[,;/&]|[^\s,;/&]+", _NO_JOINT.sub(" ", between.lower()))
    return not _JOINTS.isdisjoint(words) and _JOINTS.union(_HEDGING_JOINTS).issuperset(words)


def _together(answers: Sequence[str]) -> str:
    """Answers that count together, the last one first, as one text; a value that is only repeated is one."""
    different = list(dict.fromkeys(answers))
    return different[0] if len(different) == 1 else ", ".join(reversed(answers))


def _last_tag(text: str) -> Extraction | None:
    answer = last_tagged(text, "answer")
    return None if answer is None else Extraction(answer.strip(), "tag")


def last_tagged(text: str, name: str) -> str | None:
    """The content of the last closed ``<name>...</name>``, and of those joined to it; None when there is none."""
    opening, closing = f"<{name}>", f"</{name}>"
    start = text.rfind(opening, 0, max(0, text.rfind(closing)))
    if start < 0:
        return None
    contents = [text[start + len(opening) : text.find(closing, start)]]
    while contents[0].strip() and len(contents) < MAX_JOINED_ANSWERS and (end := text.rfind(closing, 0, start)) >= 0:
        previous = text.rfind(opening, 0, end)
        if previous < 0 or not _joins(text[end + len(closing) : start]):
            break
        contents.append(text[previous + len(opening) : text.find(closing, previous)])
        start = previous
    return _together(contents)


def _last_trailing(text: str, markers: Sequence[str]) -> Extraction | None:
    position, marker, around = -1, "", ""
    text = text[-MAX_TRAILING_CHARS:]
    if "</b>" in text or "</strong>" in text:
        text = _BOLD_TAG.sub("**", text)
    if "hash" in markers and "####" in text:
        for match in _HASH.finditer(text):
            position, marker, around = match.end(), "hash", match[0]
    if "line" in markers:
        for match in _labels(text):
            if match.end() > position or (marker == "hash" and _holds_in_fence(text, match.end(), position)):
                above = "" if match["alone"] is None else "\n"
                position, marker, around = match.end(), "line", above + match["around"]
    if position < 0:
        return None
    if fence := _FENCE.match(text, position):
        return Extraction(_fenced(text, fence.end(), fence[1]), marker, fenced=True)
    if display := _DISPLAY.match(text, position):
        return Extraction((display["inner"] or display["inner2"]).strip(), marker, fenced=True)
    if around.endswith("`") and text.count("`", position, _end_of_line(text, position)) % 2:
        position -= 1  # the first of several parts in backticks: `19`, `61`
    end = _end_of_line(text, position)
    other = _OR_LINE.match(text, end)
    value = text[position : other.end() if other else end]
    block = _block(text[position : position + 2 * MAX_ANSWER_CHARS])
    return Extraction(_undecorated(value), marker, block=block, below="\n" in around)


def _labels(text: str) -> Iterator[re.Match[str]]:
    """Where the word "answer" is said of the reply's own answer; before a dash, or alone, it begins its line."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few capitals outside ASCII have a longer small form
        lowered = "".join(c.lower() if c.isascii() else c for c in text)
    start = lowered.find("answer")
    while start >= 0:
        match = _LINE.match(text, start)
        if match:
            line = text.rfind("\n", max(0, start - 40), start) + 1 or max(0, start - 40)
            alone = match["dash"] is not None or match["alone"] is not None
            inside = start > 0 and text[start - 1].isalnum()
            if (
                not inside
                and not _is_denied(lowered[line:start])
                and (not alone or _LABEL.fullmatch(text, line, start))
            ):
                yield match
        start = lowered.find("answer", start + 6 if match is None else match.end())


def _is_denied(before: str) -> bool:
    """Whether what stands before "answer" on its line, in small letters, denies or doubts it, or tells of others."""
    if before in ("", "the ", "**"):  # the usual ones
        return False
    if "~~" in before:
        return True
    words = before.translate(_NO_MARKUP).split()
    while words and words[-1] in _PLAIN_WORDS:
        words.pop()
    if words and (words[-1] in _NOT_OWN or words[-1].endswith(("n't", "n\u2019t"))):
        return True
    return len(words) > 1 and _DOUBTED.search(" ".join(words)) is not None


def _holds_in_fence(text: str, start: int, position: int) -> bool:
    """Whether ``position`` is within a fence of several lines that begins at ``start``: a row of a grid may be ####."""
    fence = _FENCE.match(text, start)
    if fence is None:
        return False
    end = text.find(fence[1], fence.end())
    return position <= end and text.count("\n", fence.end(), end) > 2


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)


def _block(text: str) -> str:
    """The first line and those below it, up to an empty one or a sentence; empty where that is one line or too long."""
    if "\n" not in text:
        return ""
    shown, *behind = _EMPTY_LINE.split(text, 1)
    if behind and _OR_ALONE.match(behind[0]):
        return ""  # a second answer follows
    first, *others = shown.rstrip().split("\n")
    lines = [first, *takewhile(lambda line: not _PROSE.search(line), others)]
    while len(lines) > 1 and _closes(lines[-1], lines[:-1]):
        lines.pop()
    block = "\n".join(lines)
    return "\n".join(map(_undecorated, lines)) if len(lines) > 1 and len(block) <= MAX_ANSWER_CHARS else ""


def _closes(line: str, above: list[str]) -> bool:
    """Whether a line is a rule, or a remark such as "All good.", unlike the lines above it."""
    if _RULE.fullmatch(line):
        return all(any(sign.isalnum() for sign in other) for other in above)
    if not _REMARK.fullmatch(line) or any(other.rstrip().endswith((".", "!")) for other in above):
        return False
    return all(word in _REMARK_WORDS for word in re.findall("[a-z]+", line.lower()))


def _fenced(text: str, start: int, ticks: str) -> str:
    """What stands in a code fence, from ``start`` on, without the name of a language.

    With all that follows where more than a full stop stands behind its close, a second fence, or a line that begins
    with a word such as "or": no reader takes that for one value.
    """
    end = text.find(ticks, start)
    if end < 0:
        return text[start:].strip()
    behind = text[end + len(ticks) :]
    line, _, below = behind.partition("\n")
    if line.strip(" \t\r.*") or "```" in below or _OTHERWISE.match(below):
        return text[start:].strip()
    inside = text[start:end]
    name, _, rest = inside.partition("\n")
    return rest.strip() if rest.strip() and _LANGUAGE.fullmatch(name) else inside.strip()


def _undecorated(value: str) -> str:
    """Without Markdown emphasis, also in the middle (``**72** eggs``), nor a mark at the end: ``72;``, ``**72**!``.

    A full stop stays, and so does an exclamation mark right behind a value: it may be a factorial.
    """
    ticks = value.count("`")
    is_inside = ticks > 2 or (ticks == 2 and not value.lstrip(" \t\r*").startswith("`"))
    around = " \t\r*" if is_inside else " \t\r*`"
    value = (_EMPHASIS.sub(" ", value) if "**" in value else value).lstrip(around).rstrip(around + _ENDINGS)
    if value.endswith("$") and value.count("$") in (1, 2) and "$" not in value.rstrip("$"):
        value = value.rstrip("$").rstrip()  # the end of a formula that began before the marker
    if value.endswith("."):
        return value[:-1].rstrip(around) + "."
    return value[:-1].rstrip(around) if value.endswith("!") and _EXCLAIMED.search(value[-60:]) else value


def first_sentence(extraction: Extraction, exclaimed: bool = False) -> str:
    """The answer; from running text (``hash`` or ``line``) only up to a full stop or a subordinate clause.

    ``exclaimed``: an exclamation mark ends a sentence too, as no answer of this kind is a factorial.
    """
    answer = extraction.answer or ""
    if extraction.marker in ("line", "hash") and not extraction.fenced:
        stop = _SENTENCE_END.search(answer)
        if stop and stop.start():
            answer = _undecorated(answer[: stop.start()])
        return answer.rstrip("!") if exclaimed else answer
    return answer
