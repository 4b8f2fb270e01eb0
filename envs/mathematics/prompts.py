"""How a question with a number for an answer asks for it; every style's answer is read by the same grader."""

from __future__ import annotations

from rlvr.envs.tasks import prompts

NUMBER = "the final number"
SYSTEM_PROMPTS: dict[str, str | None] = {style: prompts.system_prompt(style, NUMBER) for style in prompts.STYLES}


def system_prompt(style: str) -> str | None:
    """The system prompt of a style.

    Raises:
        ValueError: there is no such style.
    """
    return prompts.system_prompt(style, NUMBER)
