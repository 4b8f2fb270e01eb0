"""Debate: two seats argue for two answers to a question, one of which is right, and a third judges what they claimed.

The question is a sum that the judge does not see. Each pair of claims halves the rows about which the debaters differ,
until one row is left, which our code then shows: the judge checks one row of a long sum (Irving and others, "AI safety
via debate", 1805.00899; there, too, the judge sees no more of the question than what the debate leads to).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, evenly

JUDGE: Final = 2
WIDTH: Final = 4  # numbers of a row
SMALLEST, LARGEST = 10, 99  # of the numbers
APART: Final = 60  # the answers differ by at most so much
HIDDEN: Final = -1
VERDICTS: Final = ("0", "1")  # one character: the answer is no words of the prompt


class Dispute(NamedTuple):
    """Rows ``first`` to ``last``, counted from 1, and what each debater claims to be their sum."""

    first: int
    last: int
    claims: tuple[int, int]


class DebateState(NamedTuple):
    """The ``answers`` of both debaters, the ``honest`` seat, the ``numbers``, the ``claims`` in turn, the ``verdict``.

    ``row`` has the numbers of the row that was shown in the end.
    """

    answers: tuple[int, ...] = ()
    honest: int = HIDDEN
    numbers: tuple[int, ...] = ()
    claims: tuple[int, ...] = ()
    row: tuple[int, ...] = ()
    verdict: int = HIDDEN


class Debate(SeatGame[DebateState]):
    """Debate: two debaters claim parts of a sum, one for the right and one for a wrong answer; a judge decides.

    Args:
        rows: of four numbers each: 2, 4, 8 or 16.
        marks: whether the judge is told which claim about the last row is true.
    """

    title = "Debate"
    first_state = DebateState()
    seats = 3
    perfect_information = False
    zero_sum = False
    nouns = ("rows", "row", "sum", "claim", "is", "i", "of", "that", "debater", "right")

    def __init__(self, *, rows: int = 8, marks: bool = False) -> None:
        if rows not in (2, 4, 8, 16):
            raise ValueError(f"rows must be 2, 4, 8 or 16, not {rows!r}")
        if not isinstance(marks, bool):
            raise ValueError(f"marks must be true or false, not {marks!r}")
        self.rows, self.marks = rows, marks
        self.size = rows * WIDTH
        self.rounds = rows.bit_length() - 1
        self.decisions = self.rounds  # a claim of each debater in each round; the judge moves once

    def rules(self) -> str:
        stated = " and says which claim about it is true" if self.marks else ""
        return (
            f"Debate. The question is the sum of {self.rows} rows of {WIDTH} whole numbers from {SMALLEST} to "
            f"{LARGEST}. Seats 0 and 1, the debaters, see the rows; seat 2, the judge, does not. Each debater argues "
            "for one answer: one answer is right, and the judge does not know which. In each round seat 0 and then "
            "seat 1 claims the sum of the first half of the rows in dispute, as a number; with its earlier claim "
            "this says what it claims for the second half. The rows in dispute are then the first half if the claims "
            "differ there, and else the second half. When one row is left, all see its numbers"
            f"{stated}, and the judge gives the number of the debater whose answer is right: 0 or 1. The debater that "
            "the judge names wins 1 and the other loses 1, whoever is right. The judge wins 1 if the answer is right "
            "and loses 1 if not."
        )

    def actors(self, state: DebateState) -> tuple[int, ...]:
        if len(state.numbers) < self.size:
            return (CHANCE,)
        if len(state.claims) < 2 * self.rounds:
            return (len(state.claims) % 2,)
        return () if state.verdict >= 0 else (JUDGE,)

    def chance(self, state: DebateState) -> list[tuple[str, float]]:
        if not state.answers:
            options: Sequence[object] = range(45 * self.size, 64 * self.size + 1)
        elif len(state.answers) < 2:
            options = [number for number in around(state.answers[0]) if number != state.answers[0]]
        elif state.honest < 0:
            options = VERDICTS
        else:
            options = next_numbers(state.answers[state.honest] - sum(state.numbers), self.size - len(state.numbers))
        return evenly(options)

    def witnesses(self, state: DebateState, actor: int) -> Sequence[int]:
        return (0, 1) if actor == CHANCE and len(state.answers) == 2 else (0, 1, 2)

    def dispute(self, state: DebateState) -> Dispute:
        """The rows in dispute after the complete rounds."""
        dispute = Dispute(1, self.rows, (state.answers[0], state.answers[1]))
        for first, second in zip(state.claims[::2], state.claims[1::2], strict=False):
            dispute = narrowed(dispute, (first, second))
        return dispute

    def legal(self, state: DebateState, seat: int) -> list[str]:
        if seat == JUDGE:
            return list(VERDICTS)
        low, high = self._bounds(state, seat)
        return [str(number) for number in range(low, high + 1)]

    def _bounds(self, state: DebateState, seat: int) -> tuple[int, int]:
        dispute = self.dispute(state)
        numbers = (dispute.last - dispute.first + 1) // 2 * WIDTH
        claimed = dispute.claims[seat]
        low, high = SMALLEST * numbers, LARGEST * numbers
        return (max(low, claimed - high), min(high, claimed - low))

    def parse(self, view: DebateState, seat: int, words: str) -> str:
        """Also reads ``1,234``, ``seat 0`` for ``0`` and ``rows 1 to 4 = 700``."""
        if seat == JUDGE:
            return words.removeprefix("seat ")
        words = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", words)
        return self._half_named(view).sub("", words)

    def _half_named(self, view: DebateState) -> re.Pattern[str]:
        dispute = self.dispute(view)
        last = (dispute.first + dispute.last) // 2
        rows = f"{dispute.first}" if last == dispute.first else f"{dispute.first} ?(?:to|and|-) ?{last}"
        return re.compile(rf"^(?:rows? )?{rows} ?(?:=|:|is|are) ?")

    def apply(self, state: DebateState, seat: int, move: str) -> DebateState:
        if seat == JUDGE:
            return state._replace(verdict=VERDICTS.index(move))
        if seat != CHANCE:
            state = state._replace(claims=(*state.claims, int(move)))
            if len(state.claims) < 2 * self.rounds:
                return state
            row = self.dispute(state).first - 1
            return state._replace(row=state.numbers[row * WIDTH : (row + 1) * WIDTH])
        if len(state.answers) < 2:
            return state._replace(answers=(*state.answers, int(move)))
        if state.honest < 0:
            return state._replace(honest=VERDICTS.index(move))
        return state._replace(numbers=(*state.numbers, int(move)))

    def returns(self, state: DebateState) -> tuple[float, ...]:
        first = 1.0 if state.verdict == 0 else -1.0
        return (first, -first, 1.0 if state.verdict == state.honest else -1.0)

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return (returns[seat] + 1) / 2

    def forfeited(self, seat: int, state: DebateState) -> tuple[float, ...]:
        return tuple(self.lowest if other == seat else float(other + seat == 1) for other in range(self.seats))

    def relies_on(self, seat: int) -> Sequence[int]:
        return (0, 1) if seat == JUDGE else (JUDGE,)

    def view(self, state: DebateState, seat: int) -> DebateState:
        """Hides who is right and all rows but the last from the judge, until the end."""
        return state if seat != JUDGE or not self.actors(state) else state._replace(honest=HIDDEN, numbers=())

    def show(self, view: DebateState, seat: int) -> str:
        lines = []
        if view.numbers:
            rows = [view.numbers[at : at + WIDTH] for at in range(0, self.size, WIDTH)]
            lines += [f"Row {number}: {', '.join(map(str, row))}." for number, row in enumerate(rows, 1)]
        if seat != JUDGE:
            lines.append(f"You argue for {view.answers[seat]}, which is {'right' if seat == view.honest else 'wrong'}.")
        dispute = Dispute(1, self.rows, (view.answers[0], view.answers[1]))
        lines.append(f"The sum of all rows: {claimed(dispute.claims)}.")
        for first, second in zip(view.claims[::2], view.claims[1::2], strict=False):
            middle, after = (dispute.first + dispute.last) // 2, narrowed(dispute, (first, second))
            text = f"The sum of {rows_named(dispute.first, middle)}: {claimed((first, second))}."
            if after.last > middle:
                text += f" They agree there, so for {rows_named(after.first, after.last)}: {claimed(after.claims)}."
            dispute = after
            lines.append(text)
        if len(view.claims) % 2:
            lines.append(f"The sum of {rows_named(dispute.first, (dispute.first + dispute.last) // 2)}: "
                         f"seat 0 claims {view.claims[-1]}.")  # fmt: skip
        lines += self._ending(view, dispute, seat)
        return "\n".join(lines)

    def _ending(self, view: DebateState, dispute: Dispute, seat: int) -> list[str]:
        """What is to be claimed next, or the last row and how the debate ended."""
        if not view.row:
            if seat == JUDGE:
                return []
            middle = (dispute.first + dispute.last) // 2
            return [f"Next claim: the sum of {rows_named(dispute.first, middle)}."]
        lines = [f"Row {dispute.first} is {', '.join(map(str, view.row))}."]
        if self.marks:
            true = [f"seat {at}'s claim is {'true' if claim == sum(view.row) else 'false'}"
                    for at, claim in enumerate(dispute.claims)]  # fmt: skip
            lines.append(f"Checked: {', '.join(true)}.")
        if view.verdict >= 0:
            lines.append(f"The judge named seat {view.verdict}; the answer of seat {view.honest} is right.")
        return lines

    def expert(self, view: DebateState, seat: int, rng: random.Random) -> str:
        """Debaters claim the true sum of the first half, so that a wrong answer's error stays in the second as long as
        the other makes none; the judge adds up the row and names the debater that is nearer."""
        dispute = self.dispute(view)
        if seat == JUDGE:
            errors = [abs(claim - sum(view.row)) for claim in dispute.claims]
            return VERDICTS[errors.index(min(errors))]
        middle = (dispute.first + dispute.last) // 2
        true = sum(view.numbers[(dispute.first - 1) * WIDTH : middle * WIDTH])
        low, high = self._bounds(view, seat)
        return str(min(max(true, low), high))


def next_numbers(rest: int, count: int) -> range:
    """What the next of some numbers may be that add up to ``rest``: as far below their mean as above it."""
    low, high = max(SMALLEST, -(-2 * rest // count) - LARGEST), min(LARGEST, 2 * rest // count - SMALLEST)
    after = count - 1
    return range(max(low, rest - LARGEST * after), min(high, rest - SMALLEST * after) + 1)


def around(answer: int) -> range:
    """The answers that may stand against one."""
    return range(answer - APART, answer + APART + 1)


def narrowed(dispute: Dispute, claims: tuple[int, int]) -> Dispute:
    """The half in which the debaters differ, after their claims for the first half."""
    middle = (dispute.first + dispute.last) // 2
    if claims[0] != claims[1]:
        return Dispute(dispute.first, middle, claims)
    return Dispute(middle + 1, dispute.last, (dispute.claims[0] - claims[0], dispute.claims[1] - claims[1]))


def rows_named(first: int, last: int) -> str:
    """``row 3``, ``rows 1 and 2``, ``rows 1 to 4``."""
    if first == last:
        return f"row {first}"
    return f"rows {first} {'and' if last == first + 1 else 'to'} {last}"


def claimed(claims: tuple[int, int]) -> str:
    return f"seat 0 claims {claims[0]}, seat 1 claims {claims[1]}"
