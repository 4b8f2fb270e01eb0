"""Reading answers that are lists or boards, and the one-turn tasks that ask for them.

ListAnswerTask: the answer is one list of words or numbers. Board: the answer is one grid of symbols.
Nothing is evaluated: only plain words, numbers, separators and enclosing brackets are read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import ClassVar

from rlvr.envs.core.deprecation import renamed_in_module
from rlvr.envs.rewards import guesses
from rlvr.envs.rewards.tasks import CheckedAnswerTask, Question

_ITEM = re.compile(r"[A-Za-z0-9_+-]+")
_WRAPPER = re.compile(r"\\(?:text|texttt|mathrm|mathtt)\{([^{}]*)\}")
_ROW_END = re.compile(r"\n|;|\\\\")
MOST = 400


def listed(parts: Iterable[object]) -> str:
    """``ann, ben, 3``."""
    return ", ".join(map(str, parts))


def _plain(answer: str) -> str:
    text = _WRAPPER.sub(r"\1", answer).strip()
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("[]", "()") else text


def items(answer: str, count: int | None = None) -> list[str]:
    """The words and numbers of an answer such as "Ann, Ben" or "[3 1 2]", in small letters.

    Raises:
        ValueError: something else stands there, there are over 400, or there are not ``count``.
    """
    words = _plain(answer).replace(",", " ").split()
    if not words or len(words) > MOST or not all(_ITEM.fullmatch(word) for word in words):
        raise ValueError("the answer is not a list of words or numbers")
    if count is not None and len(words) != count:
        raise ValueError(f"the answer has {len(words)} parts, asked for are {count}")
    return [word.lower() for word in words]


def board(answer: str, height: int, width: int, symbols: str) -> list[str]:
    """The rows of an answer that is a grid: lines (or parts between semicolons), blanks between cells or none.

    Raises:
        ValueError: another height or width, or a symbol that is not one of ``symbols``.
    """
    lines = _ROW_END.split(_WRAPPER.sub(r"\1", answer))
    rows = ["".join(line.replace(",", " ").split()) for line in lines if line.strip()]
    if [len(row) for row in rows] != [width] * height:
        raise ValueError(f"the answer is not {height} rows of {width} cells")
    if not set("".join(rows)) <= set(symbols):
        raise ValueError(f"the answer has a symbol that is none of {symbols}")
    return rows


class ListAnswerTask(CheckedAnswerTask):
    """Questions whose answer is a tuple of words or numbers; letter case does not count.

    Attributes:
        ordered: whether the order counts.
    """

    ordered: ClassVar[bool] = True

    def direct_answer(self, state: Question) -> str:
        return f"\\boxed{{{listed(state.answer)}}}"

    def check(self, question: Question, answer: str) -> str | None:
        found, gold = items(answer), [str(part).lower() for part in question.answer]
        if self.ordered:
            return None if found == gold else "wrong list"
        return None if sorted(found) == sorted(gold) else "wrong list"


class Board(CheckedAnswerTask):
    """Questions whose answer is a tuple of rows, each a text with one symbol for a cell.

    Attributes:
        symbols: those that may stand in a cell.
    """

    symbols: ClassVar[str] = "0123456789"

    def direct_answer(self, state: Question) -> str:
        return "\\boxed{" + "\n".join(state.answer) + "}"

    def guess(self, state: Question, rng: random.Random) -> str:
        """Random symbols in as many rows and columns as the answer has, which the question tells in its own way."""
        return guesses.grid(len(state.answer), len(state.answer[0]), self.symbols, rng)

    def check(self, question: Question, answer: str) -> str | None:
        gold = question.answer
        rows = board(answer, len(gold), len(gold[0]), self.symbols)
        for number, (row, right) in enumerate(zip(rows, gold, strict=True), 1):
            if row != right:
                return f"row {number} is wrong"
        return None


__getattr__ = renamed_in_module(__name__, {"Listing": "ListAnswerTask"}, globals())
