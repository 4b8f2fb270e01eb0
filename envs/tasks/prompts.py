"""How a question asks for its answer: a style is what the system prompt says, and the form it asks for.

Whatever the style, the same grader reads the answer: a box, a tag, ``####`` or ``the answer is``. Two styles are
published prompts, word for word, so that models which were trained or measured with them can be: ``qwen_math`` is
that of Qwen2.5-Math (arXiv 2409.12122, model card), ``r1`` is table 1 of DeepSeek-R1 (arXiv 2501.12948), whose
question and answer are the user's and the assistant's turns here.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Style(NamedTuple):
    """``{answer}`` stands for what is asked for in ``system``, and for the answer itself in ``form``."""

    system: str | None
    form: str
    thought: str = "{thought}"


R1: Final = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The assistant "
    "first thinks about the reasoning process in the mind and then provides the user with the answer. The reasoning "
    "process and answer are enclosed within <think> </think> and <answer> </answer> tags, respectively, i.e., "
    "<think> reasoning process here </think> <answer> answer here </answer>."
)

# What programs and JSON are asked for with: their graders read fenced blocks, not boxes.
PROGRAM: Final = (
    "Write Python. Put the whole program in one ```python block; the last block counts, and it alone is run."
)
JSON: Final = "Think step by step. Put the answer, as JSON, in one ```json block; the last block counts."

STYLES: Final[dict[str, Style]] = {
    "boxed": Style(
        "Solve the problem step by step. Put {answer}, and nothing else, in \\boxed{}.",
        "\\boxed{{answer}}",
    ),
    "hash": Style(
        "Solve the problem step by step. End with a line that holds #### and {answer}.",
        "#### {answer}",
    ),
    "tags": Style(
        "Think first, then write {answer}, and nothing else, between <answer> and </answer>.",
        "<answer>{answer}</answer>",
    ),
    "none": Style(None, "The answer is {answer}."),
    "qwen_math": Style(
        "Please reason step by step, and put your final answer within \\boxed{}.",
        "\\boxed{{answer}}",
    ),
    "r1": Style(R1, "<answer>{answer}</answer>", "<think>{thought}</think>"),
}


def style_of(name: str) -> Style:
    """The style of a name.

    Raises:
        ValueError: there is no such style.
    """
    if name not in STYLES:
        raise ValueError(f"prompt_style {name!r} is not one of {', '.join(STYLES)}")
    return STYLES[name]


def system_prompt(style: str, wanted: str = "the final answer") -> str | None:
    """The system prompt of a style, for what is wanted: "the final number", "the letter of the right option".

    Raises:
        ValueError: there is no such style.
    """
    system = style_of(style).system
    return system and system.replace("{answer}", wanted)


def worked(style: str, solution: str, answer: str) -> str:
    """How a reply in this style reads: the solution, if any, and the answer in its form, unless it stands there."""
    _, form, thought = style_of(style)
    answer_line = form.replace("{answer}", answer)
    if not solution:
        return answer_line
    solution_text = thought.replace("{thought}", solution)
    return solution_text if answer_line in solution else f"{solution_text}\n{answer_line}"
