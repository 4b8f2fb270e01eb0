"""Reading answers that are lists or boards, and the one-turn tasks that ask for them.

ListAnswerTask: the answer is one list of words or numbers. Board: the answer is one grid of symbols.
Nothing is evaluated: only plain words, numbers, separators and enclosing brackets are read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rlvr.envs.tasks import guesses
from rlvr.envs.tasks.dates import ISO, in_iso
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question
from rlvr.envs.tasks.wording import counted

_ITEM = re.compile(r"[A-Za-z0-9_+-]+")
_WRAPPER = re.compile(r"\\(?:text|texttt|mathrm|mathtt)\{([^{}]*)\}")
_ROW_END = re.compile(r"\n|;|\\\\")
_WORD = re.compile(r"[a-z0-9_]+")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_BITS = re.compile(r"[01]+")
_BASE_2 = re.compile(r"^0b|(?<=[01)])_(?:2|\{2\})$")
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_TIME = re.compile(
    r"(?:\bat )?\b([0-2]?[0-9])(?: ?\{?:\}? ?(?=[0-5][0-9])| ?h(?:ours?)?(?:,| and)? ?(?=[0-5][0-9]|[0-9] ?m))"
    r"([0-5]?[0-9])(?: ?m(?:in(?:utes?)?)?(?!\w))?(?: ?([ap])\.?m\.?| h)?(?!\w)",
    re.IGNORECASE,
)
_DAY = re.compile(r"^(?:on )?((?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6})\.?(?=[ ,])", re.IGNORECASE)
_DAY_LAST = re.compile(r"(\S.{0,40}?),? on ((?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6})\.?", re.IGNORECASE)
_DAY_LABEL = re.compile(r"(?:the )?(?:week)?day ?[:=]? ?(?=[a-z])", re.IGNORECASE)
_TIME_LABEL = re.compile(r",? ?(?:the )?(?:(?:hour|minute)s? ?[:=]? ?|(?:local )?time ?[:=] ?)(?=\d)", re.IGNORECASE)
_NAMES = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    *(
        "january",
        "february",
        "march",
        "april",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ),
)
_SHORT = {name: name[:3] for name in _NAMES}
MAX_ITEMS = 400


def short(word: str) -> str:
    """A weekday or month by its first three letters; other words, in small letters, as they are."""
    return _SHORT.get(word, word)


def listed(parts: Iterable[object]) -> str:
    """``ann, ben, 3``."""
    return ", ".join(map(str, parts))


def _plain(answer: str) -> str:
    text = _WRAPPER.sub(r"\1", answer).strip()
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("[]", "()", "{}") else text


def items(answer: str, count: int | None = None) -> list[str]:
    """The words and numbers of an answer such as "Ann, Ben" or "[3 1 2]", in small letters.

    Raises:
        ValueError: something else stands there, there are over 400, or there are not ``count``.
    """
    words = _plain(answer).replace(",", " ").replace(";", " ").split()
    if not words or len(words) > MAX_ITEMS or not all(_ITEM.fullmatch(word) for word in words):
        raise ValueError("the answer is not a list of words or numbers")
    if count is not None and len(words) != count:
        raise ValueError(f"the answer has {counted(len(words), 'part')} instead of {count}")
    return [word.lower() for word in words]


def board(answer: str, height: int, width: int, symbols: str) -> list[str]:
    """The rows of an answer that is a grid: lines (or parts between semicolons), blanks between cells or none.

    Raises:
        ValueError: another height or width, or a symbol that is not one of ``symbols``.
    """
    text = _WRAPPER.sub(r"\1", answer)
    if "|" in text and not set("|-+") & set(symbols):  # drawn with lines between the cells
        text = text.replace("|", " ").replace("+", " ").replace("-", " ")
    lines = [line for line in _ROW_END.split(text) if line.strip()]
    if len(lines) == 1 < height and len(parts := lines[0].replace(",", " ").split()) == height:
        lines = parts  # the rows stand side by side
    if len(lines) == 1 < height and "/" not in symbols and len(parts := lines[0].split("/")) == height:
        lines = parts
    rows = ["".join(line.replace(",", " ").split()) for line in lines]
    if [len(row) for row in rows] != [width] * height:
        raise ValueError(f"the answer is not {height} rows of {width} cells")
    if not set("".join(rows)) <= set(symbols):
        raise ValueError(f"the answer has a symbol that is none of {symbols}")
    return rows


def _hour_and_minute(time: re.Match[str]) -> str:
    """``8:45 pm`` as ``20 45``; an hour over 12 has no half of the day."""
    hour = int(time[1])
    if not time[3]:
        return f"{time[1]} {time[2]}"
    if not 1 <= hour <= 12:
        return time[0]
    return f"{hour % 12 + (12 if time[3] in 'pP' else 0)} {time[2]}"


def refuse_other_kinds(parts: Sequence[str], gold: Sequence[str], question: str, listed: bool) -> None:
    """Refuse words for numbers, numbers for words, and words that a question does not have which has all of its answer.

    Where ``listed``, parts stand between commas: one that the question has makes others names that were made up.

    Raises:
        ValueError: a part is of another kind; it is not read, whereas another part of the same kind is wrong.
    """
    words = {part for part in gold if not _NUMBER.fullmatch(part)}
    strangers = [part for part in parts if part not in gold]
    if len(words) < len({*gold}):
        strangers = [part for part in strangers if not _NUMBER.fullmatch(part)]
    if words and strangers:
        vocabulary = {short(word) for word in _WORD.findall(question.lower())}
        strangers = [part for part in strangers if part not in vocabulary] if vocabulary >= words else []
    if words and max(map(len, words)) == 1:  # where letters are asked for, any letter is of their kind
        strangers = [part for part in strangers if len(part) > 1 or not part.isalpha()]
    elif words and listed and len(strangers) < len(parts):
        strangers = [part for part in strangers if _NUMBER.fullmatch(part)]
    if strangers:
        raise ValueError(f"{strangers[0][:40]!r} is no {'word of the question' if words else 'number'}")


class ListAnswerTask(CheckedAnswerTask):
    """Questions whose answer is a tuple of words or numbers; letter case does not count.

    Reward: 1 for exactly the right words or numbers, else 0; their order counts where the question gives one.

    Attributes:
        ordered: whether the order counts.
        clock: whether parts are the hours and minutes of a time, so that 00 is 0 and 16:05 is 16 and 5.
    """

    ordered: ClassVar[bool] = True
    clock: ClassVar[bool] = False

    def direct_answer(self, state: Question) -> str:
        """The parts in their order, apart by commas, in a box."""
        return f"\\boxed{{{listed(state.answer)}}}"

    def check(self, question: Question, answer: str) -> str | None:
        """Compares parts in small letters, weekdays and months by three letters, dates in any form.

        One bit string may be cut into groups.
        """
        gold = [short(str(part).lower()) for part in question.answer]
        if len(gold) == 1 and _THOUSANDS.fullmatch(answer):
            answer = answer.replace(",", "")
        are_dates = all(map(ISO.fullmatch, gold))
        if are_dates:
            answer = in_iso(answer)
        if len(gold) == 1 and _BITS.fullmatch(gold[0]):
            answer = _BASE_2.sub("", answer)
        parts = [short(part) for part in items(self.split_times(answer))]
        if self.clock and len(parts) == len(gold):
            parts = [part.lstrip("0") or "0" if len(part) == 2 and part.isdecimal() else part for part in parts]
        if len(gold) == 1 and _BITS.fullmatch(gold[0]) and all(_BITS.fullmatch(part) for part in parts):
            parts = ["".join(parts)]  # written in groups
        if are_dates and not all(map(ISO.fullmatch, parts)):
            raise ValueError("the answer is not a list of dates")
        refuse_other_kinds(parts, gold, question.text, listed="," in answer)
        if self.ordered:
            return None if parts == gold else "wrong list"
        return None if sorted(parts) == sorted(gold) else "wrong list"

    def split_times(self, answer: str) -> str:
        """An answer whose times of day are two parts, where the question asks for hour and minute."""
        if not self.clock:
            return answer
        if last := _DAY_LAST.fullmatch(answer):
            answer = f"{last[2]} {last[1]}"
        if labelled := _DAY_LABEL.match(answer):
            answer = _TIME_LABEL.sub(" ", answer[labelled.end() :])
        return _TIME.sub(_hour_and_minute, _DAY.sub(r"\1", answer))


class Board(CheckedAnswerTask):
    """Questions whose answer is a tuple of rows, each a text with one symbol for a cell.

    Reward: 1 for a grid that is right in every cell, else 0.

    Attributes:
        symbols: those that may stand in a cell.
    """

    symbols: ClassVar[str] = "0123456789"

    def direct_answer(self, state: Question) -> str:
        """The rows as lines in one box, without blanks between the cells."""
        return "\\boxed{" + "\n".join(state.answer) + "}"

    def guess(self, state: Question, rng: random.Random) -> str:
        """Random symbols in as many rows and columns as the answer has, which the question tells in its own way."""
        return guesses.grid(len(state.answer), len(state.answer[0]), self.symbols, rng)

    def check(self, question: Question, answer: str) -> str | None:
        """Compares row by row and names the first wrong one; a grid of another size is unparsable, not wrong."""
        gold = question.answer
        rows = board(answer, len(gold), len(gold[0]), self.symbols)
        for number, (row, right) in enumerate(zip(rows, gold, strict=True), 1):
            if row != right:
                return f"row {number} is wrong"
        return None
