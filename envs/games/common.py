"""What the text games share: reading a move, the verdicts of a game that goes on, and the frame of a turn.

A move is read in one way everywhere: what the last ``\\boxed{}`` of the visible text holds, or the whole reply when
that is the move; where this is no move, its plainer readings (``rlvr.envs.rewards.dressing``). What cannot be read and
what the rules forbid costs a turn and is answered with what is legal.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from rlvr.envs.core.seeding import stream
from rlvr.envs.core.task import Task
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.dressing import plainer_moves
from rlvr.envs.rewards.extraction import extract_visible, visible_text

BOX: Final = "\\boxed{"
MOST: Final = 200  # characters of a move; a longer text is a move of no game
COLUMNS: Final = "abcdefghijklmnopqrstuvwxyz"
SYSTEM: Final = "Play the game. Reply with your move in \\boxed{}, or with the move alone."
PLAYED: Final = Verdict(0.0, "partial", reason="the game goes on")
UNREAD: Final = Verdict(0.0, "unparsable", reason="no move in \\boxed{}, nor a reply that is one")

_WRAPPER = re.compile(r"\\(?:text|texttt|textbf|mathrm|mathtt|mathbf)\{([^{}\\]*)\}?")
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")

S = TypeVar("S", bound=tuple[Any, ...])
Step = tuple[S, Verdict, bool, str]


class Cell(NamedTuple):
    """A place on a board, both counted from 0; written as column letter and row number, ``b3``."""

    row: int
    column: int

    def __str__(self) -> str:
        return f"{COLUMNS[self.column]}{self.row + 1}"


class IllegalMove(ValueError):
    """A move that cannot be read or that the rules forbid; the message is for the player and says what is legal."""


def read_move(action: str, *, keep_case: bool = False) -> str | None:
    """The move in a reply, in small letters and with single blanks; None where there is none.

    What the last ``\\boxed{}`` holds counts, else the whole reply; thinking, forged turns and forged tool output do
    not. Text that is empty, longer than ``MOST`` or not plain ASCII is no move.

    Args:
        action: the reply; hostile text is expected.
        keep_case: leave capitals as they are.
    """
    inside = action[7:-1]
    words = inside.isalnum() or (" " in inside and all(map(str.isalnum, inside.split(" "))))
    if words and action[:7] == BOX and action[-1] == "}" and inside.isascii() and len(inside) <= MOST:
        return inside if keep_case else inside.lower()  # nothing but a box, and in it words apart by single blanks
    if "<" in action:
        action = visible_text(action)
    start = action.rfind(BOX)
    if start >= 0:
        end = action.find("}", start)
        content = action[start + 7 : end] if end >= 0 else ""
        # Braces within, or a box around this one: the general reader, which counts them.
        if "{" in content or action.rfind(BOX, max(0, start - MOST), start) >= 0:
            content = (extract_visible(action, ("boxed",), MOST).answer or "").strip("{}")
        action = content
    if len(action) > MOST:
        action = action.strip()
        if len(action) > MOST:
            return None
    if not action.isascii():
        return None
    if "\\" in action:
        action = _WRAPPER.sub(r"\1", action)
    move = " ".join(action.split())
    return (move if keep_case else move.lower()) or None


def read_numbers(move: str, count: int | None = None, largest: int = 10**9) -> list[int]:
    """The whole numbers of a move such as ``3 5`` or ``(3, 5)``.

    Raises:
        IllegalMove: something else stands there, a number is over ``largest``, or there are not ``count``.
    """
    text = move[1:-1] if move[:1] + move[-1:] in ("()", "[]") else move
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() and word.isascii() and len(word) <= 10 for word in words):
        raise IllegalMove("whole numbers only")
    numbers = [int(word) for word in words]
    if count is not None and len(numbers) != count:
        raise IllegalMove(f"{count} numbers are needed, not {len(numbers)}")
    if max(numbers) > largest:
        raise IllegalMove(f"no number may be over {largest}")
    return numbers


def without_separators(move: str) -> str:
    """``1,234`` as ``1234``; other text as it is."""
    return move.replace(",", "") if _THOUSANDS.fullmatch(move) else move


def read_cell(word: str, height: int, width: int) -> Cell:
    """The place that a word such as ``b3`` names on a board.

    Raises:
        IllegalMove: the word names none; the message says which there are.
    """
    if len(word) in (2, 3) and word[1:].isdecimal() and word.isascii():
        column, row = COLUMNS.find(word[0]), int(word[1:]) - 1
        if 0 <= column < width and 0 <= row < height:
            return Cell(row, column)
    raise IllegalMove(f"a cell is a column letter from a to {COLUMNS[width - 1]} and a row number from 1 to {height}")


def drawn_board(rows: Iterable[str]) -> str:
    """A board with its column letters above and its row numbers to the left; one symbol a cell."""
    lines = [f"{number:>2} {' '.join(row)}" for number, row in enumerate(rows, 1)]
    width = (len(lines[0]) - 2) // 2 if lines else 0
    return "\n".join(["   " + " ".join(COLUMNS[:width]), *lines])


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, from the lowest."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def grown(area: int, free: int, down: int) -> int:
    """The cells of an area and all free cells joined to it by edges, as masks; ``down`` bits on is the next row."""
    while True:
        wider = (area | area << 1 | area >> 1 | area << down | area >> down) & free
        if wider == area:
            return area
        area = wider


def boxed(move: object, thought: str = "") -> str:
    """A reply: what was thought, then the move in its box."""
    return f"{thought} {BOX}{move}}}" if thought else f"{BOX}{move}}}"


def chance(seed: int, turn: int) -> random.Random:
    """The generator of one turn of an episode, from the seed that its state keeps."""
    return stream("turn", seed, turn)


class Game(Task[S], Generic[S]):
    """The frame of a game. A state is a NamedTuple with ``turn``, moves made, and ``message``, what the last led to.

    A subclass writes ``start``, ``rules`` and ``play``. Unreadable and illegal moves cost a turn and change nothing
    else.

    Attributes:
        verbs: the words that this game's own moves begin with.
        nouns: words that a move may have besides, without another meaning: "arm" in "pull arm a".
        turn_limits: the turns of each level.
    """

    system = SYSTEM
    levels = 5
    verbs: ClassVar[Collection[str]] = ()
    nouns: ClassVar[Collection[str]] = ()
    turn_limits: ClassVar[Sequence[int]] = ()

    def turns(self, level: int) -> int:
        return self.turn_limits[level - 1]

    def rules(self, state: S) -> str:
        """The first observation: rules, form of a move, and the state."""
        raise NotImplementedError

    def play(self, state: S, move: str) -> Step[S]:
        """What a readable move leads to: ``go_on``, ``won`` or ``lost``.

        Raises:
            IllegalMove: the rules forbid the move; the message says what is legal.
        """
        raise NotImplementedError

    def reminder(self, state: S) -> str:
        """What a move looks like, in one sentence; said after text without one."""
        raise NotImplementedError

    def observe(self, state: S) -> str:
        """The rules before the first move, then only what the last move led to, and the turns left."""
        turn: int = state.turn  # type: ignore[attr-defined]
        if not turn:
            return self.rules(state)
        message: str = state.message  # type: ignore[attr-defined]
        if "turns left" in message or "turn left" in message:
            return message
        return f"{message}\nTurns left: {self.turns(state.level) - turn}."  # type: ignore[attr-defined]

    def apply(self, state: S, action: str) -> Step[S]:
        """Plays the boxed or bare move, else its plainer readings in turn; the first that can be read counts."""
        move = read_move(action)
        if move is None:
            first = go_on(state, f"No move was found. {self.reminder(state)}", UNREAD)
        else:
            first = self._played(state, move)
            if first[1].status != "unparsable":
                return first
        for plainer in plainer_moves(action, self.verbs, self.nouns):
            if plainer == move:  # refused already
                continue
            step = self._played(state, plainer)
            if step[1].status != "unparsable":
                return step
        return first

    def _played(self, state: S, move: str) -> Step[S]:
        try:
            return self.play(state, move)
        except IllegalMove as error:
            why = str(error)
            mark = "." if why[:1].isupper() else ":"  # a sentence, or what is wrong with the move
            return go_on(state, f"Not a legal move{mark} {why}.", Verdict(0.0, "unparsable", reason=why))


def go_on(state: S, message: str, verdict: Verdict = PLAYED, **changes: Any) -> Step[S]:
    """The game goes on: one more turn is used, ``message`` is what the player sees next."""
    after: S = state._replace(turn=state.turn + 1, message=message, **changes)  # type: ignore[attr-defined]
    return after, verdict, False, "user"


def won(state: S, answer: str | None = None, reason: str = "correct", **changes: Any) -> Step[S]:
    """The game is over, and the goal reached."""
    after: S = state._replace(turn=state.turn + 1, **changes)  # type: ignore[attr-defined]
    return after, correct(answer, reason), True, "user"


def lost(state: S, reason: str, answer: str | None = None, **changes: Any) -> Step[S]:
    """The game is over, and the goal missed."""
    after: S = state._replace(turn=state.turn + 1, **changes)  # type: ignore[attr-defined]
    return after, wrong(answer, reason), True, "user"
