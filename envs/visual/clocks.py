"""VisualClocks: the time on clock faces, and the time between two of them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.visual.canvas import GREY, INK, UNITS, Canvas, on_circle, regular
from rlvr.envs.visual.visual_questions import LOOK, VisualQuestions, VisualState

ROUND = 720  # minutes on a face
TIME = re.compile(r"0?([1-9]|1[0-2]) ?: ?([0-5][0-9])")
MARK = (208, 32, 38)  # of the disc that stands at twelve where there are no numbers
HANDS = ((25, 25, 25), (24, 88, 200), (20, 120, 60), (140, 60, 180))
FACES = ((255, 255, 255), (250, 246, 232), (232, 240, 250))


class ClockFace(NamedTuple):
    """A clock: minutes past twelve, degrees that the face is turned by, whether it is seen in a mirror, its dress.

    ``marks`` is "numbers", "ticks", or "dots" (twelve dots, and a red disc at twelve).
    """

    minutes: int
    marks: str
    turn: int = 0
    mirrored: bool = False
    hands: int = 0
    face: int = 0


class VisualClocks(VisualQuestions):
    """Reading clocks. Level 1: a face with numbers, at five minutes. 2: at any minute, without numbers. 3: the face is
    turned. 4: the minutes from one clock to another. 5: the same with turned clocks that are seen in a mirror.
    """

    kind = "checked"
    system = f"{LOOK} A time is written like 7:05, without am or pm."

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """One face and its time up to level 3, then two faces and the minutes from left to right, below twelve
        hours.
        """
        hands, paint = rng.randrange(len(HANDS)), rng.randrange(len(FACES))
        if level <= 3:
            minutes = rng.randrange(0, ROUND, 5) if level == 1 else rng.randrange(ROUND)
            marks = ("numbers", "ticks", "dots")[level - 1]
            face = ClockFace(minutes, marks, 30 * rng.randrange(1, 12) if level == 3 else 0, False, hands, paint)
            text = "What time does the clock show?"
            if level == 3:
                text += " The red disc is at twelve."
            return VisualState((face,), text, clock_text(minutes), hands_of(minutes))
        first, second = rng.sample(range(ROUND), 2)
        turns = [30 * rng.randrange(12) if level == 5 else 0 for _ in range(2)]
        marks = "numbers" if level == 4 else "dots"
        scene = tuple(
            ClockFace(minutes, marks, turn, level == 5, hands, paint)
            for minutes, turn in zip((first, second), turns, strict=True)
        )
        text = "The clock on the right shows a later time than the one on the left, less than twelve hours later. "
        if level == 5:
            text += "Both are seen in a mirror; the red disc is at twelve. "
        text += "How many minutes later is it?"
        working = "\n".join(
            f"On the {side}: {hands_of(minutes)} That is {clock_text(minutes)}."
            for side, minutes in (("left", first), ("right", second))
        )
        return VisualState(scene, text, str((second - first) % ROUND), working)

    def content(self, state: VisualState) -> str:
        """The times and how they are marked; a clock in other colours is the same task."""
        return "; ".join(f"{marks} {minutes} {turn} {mirror}" for minutes, marks, turn, mirror, _, _ in state.scene)

    def enumerate_contents(self, level: int) -> Sequence[str] | None:
        """144 times at five minutes, or all 720; a turned or second face has too many to list."""
        if level > 2:
            return None
        marks, step = (("numbers", 5), ("ticks", 1))[level - 1]
        return [f"{marks} {minutes} 0 False" for minutes in range(0, ROUND, step)]

    def check(self, state: VisualState, answer: str) -> str | None:
        """A time such as 7:05 or 07:05, or a whole number of minutes where two clocks are shown."""
        text = answer.strip()
        if len(state.scene) == 2:
            if not (text.isascii() and text.isdecimal() and len(text) <= 6):
                raise ValueError("the answer is not a whole number of minutes")
            return None if int(text) == int(state.answer) else "another number of minutes"
        read = TIME.fullmatch(text)
        if read is None:
            raise ValueError("the answer is not a time such as 7:05")
        return None if clock_text(int(read[1]) % 12 * 60 + int(read[2])) == state.answer else "another time"

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """A time on the face, or minutes from 1 to 719 where two clocks are shown."""
        return str(rng.randrange(1, ROUND)) if len(state.scene) == 2 else clock_text(rng.randrange(ROUND))

    def sketch(self, scene: tuple[ClockFace, ...], canvas: Canvas) -> None:
        """One large face, or two smaller ones side by side."""
        if len(scene) == 1:
            clock(canvas, scene[0], (UNITS / 2, UNITS / 2), 140)
        else:
            clock(canvas, scene[0], (UNITS / 4 + 2, UNITS / 2), 78)
            clock(canvas, scene[1], (3 * UNITS / 4 - 2, UNITS / 2), 78)


def clock_text(minutes: int) -> str:
    return f"{minutes // 60 or 12}:{minutes % 60:02d}"


def hands_of(minutes: int) -> str:
    hour, past = divmod(minutes, 60)
    return f"The short hand is {counted(past, 'minute')} past {hour or 12}, and the long hand stands at minute {past}."


def clock(canvas: Canvas, face: ClockFace, centre: tuple[float, float], radius: float) -> None:
    """One face; in a mirror everything runs the other way round but the letters."""

    def at(length: float, degrees: float) -> tuple[float, float]:
        turned = degrees + face.turn
        return on_circle(centre, length * radius, -turned if face.mirrored else turned)

    canvas.circle(centre, radius, FACES[face.face], INK, 3)
    for minute in range(60):
        whole = minute % 5 == 0
        if face.marks != "dots":
            inner = 0.9 if whole else 0.95
            canvas.line([at(inner, 6 * minute), at(0.985, 6 * minute)], INK, 2.2 if whole else 1)
        elif whole and minute:
            canvas.circle(at(0.91, 6 * minute), radius * 0.03, GREY)
    if face.marks == "numbers":
        for hour in range(1, 13):
            canvas.text(at(0.77, 30 * hour), str(hour), radius * 0.16)
    elif face.marks == "ticks":
        canvas.polygon(regular(at(0.84, 0), radius * 0.06, 3), INK)
    else:
        canvas.circle(at(0.9, 0), radius * 0.085, MARK)
    colour = HANDS[face.hands]
    canvas.line([at(-0.1, face.minutes / 2), at(0.5, face.minutes / 2)], colour, radius * 0.06)
    canvas.line([at(-0.14, 6 * face.minutes), at(0.82, 6 * face.minutes)], colour, radius * 0.032)
    canvas.circle(centre, radius * 0.05, INK)
