"""What the visual tasks share: a scene, which only the picture shows, and a question about it.

The text alone is not enough: the same words are asked of many scenes. The scene is plain numbers and words, so a state
stays small; the picture is drawn from it when it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rlvr.envs.core.images import require_pillow
from rlvr.envs.core.seeding import nameless
from rlvr.envs.core.task import Task
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.grading import WORKED_OUT, grader
from rlvr.envs.tasks.questions import OneReplyTask, checked_reply
from rlvr.envs.visual.canvas import Canvas, checked_side

LOOK = "Look at the image. Think step by step. Put the final answer, and nothing else, in \\boxed{}."

S = TypeVar("S")


class Visual(Task[S], Generic[S]):
    """A task with a square picture beside its text; a subclass writes ``paint``.

    Args:
        side: pixels of a side of the picture, from 112 to 1,344. The tasks are the same whatever it is.

    Raises:
        ImportError: Pillow is missing.
        ValueError: the side is out of range.
    """

    levels = 5
    fine: ClassVar[int] = 2  # see Canvas

    def __init__(self, *, side: int = 336) -> None:
        self.side = checked_side(side)
        self.image_shape = (self.side, self.side, 3)
        require_pillow()

    def image(self, state: S) -> Any:
        """Draws the state anew on each call; nothing is kept, and equal states give equal arrays."""
        canvas = Canvas(self.side, self.fine)
        self.paint(state, canvas)
        return canvas.array()

    def paint(self, state: S, canvas: Canvas) -> None:
        """Draw the state."""
        raise NotImplementedError


class VisualState(NamedTuple):
    """A scene, what is asked about it, the answer, and how an expert comes to it.

    ``readings`` are the numbers, points or marks that have to be read off the picture, where these are counted.
    """

    scene: Any
    text: str
    answer: str
    working: str = ""
    readings: int = 0


class VisualQuestions(Visual[VisualState], OneReplyTask[VisualState]):
    """One question about one picture. A subclass writes ``ask``, ``sketch`` and ``guess``.

    Observation: a question in words, and the picture that it is about.
    Actions: a reply, whose answer stands in its last \\boxed{}, else in <answer> tags, else behind "####" or "Answer:".
    Reward: 1 for a right answer, else 0.
    Episode end: after one reply, whatever it says.

    Attributes:
        kind: the grader's name; "checked" where a subclass writes ``check`` instead.
        options: given to the grader.
    """

    system = LOOK
    kind: ClassVar[str] = "number"
    options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *, side: int = 336) -> None:
        super().__init__(side=side)
        self._grade: Callable[..., Verdict] | None = None if self.kind == "checked" else grader(self.kind)
        self._options = {**WORKED_OUT.get(self.kind, {}), **self.options}

    def sketch(self, scene: Any, canvas: Canvas) -> None:
        """Draw the scene."""
        raise NotImplementedError

    def check(self, state: VisualState, answer: str) -> str | None:
        """Why an answer is wrong, or None for a right one, where several may be right.

        Raises:
            ValueError: the answer cannot be read; its message says why.
        """
        raise NotImplementedError

    def content(self, state: VisualState) -> str:
        """The question and the whole scene, numbers and words; the picture asked otherwise is another task."""
        return f"{state.text}\n{nameless(state.scene)}"

    def difficulty(self, state: VisualState) -> float | None:
        """Numbers, points or marks that have to be read off the picture."""
        return state.readings or None

    def paint(self, state: VisualState, canvas: Canvas) -> None:
        self.sketch(state.scene, canvas)

    def direct_answer(self, state: VisualState) -> str:
        """The answer in a box, without what was read from the scene."""
        return f"\\boxed{{{state.answer}}}"

    def judge(self, question: VisualState, reply: str) -> Verdict:
        """By the grader of ``kind``, or by ``check`` in all readings of the answer."""
        if self._grade is not None:
            return self._grade(reply, question.answer, **self._options)
        return checked_reply(reply, question.text, lambda text: self.check(question, text))
