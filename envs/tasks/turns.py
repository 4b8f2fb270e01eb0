"""What begins a chat of somebody else's: a system prompt, worked examples as turns, and the question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlvr.envs.core.task import EXAMPLE_ROLES, as_turns

SYSTEM_ROLES = ("system", "developer")
_HEADING = re.compile(r"^\[(?=(?:system|user|assistant|tool|developer|function)\][ \t]*$)", re.MULTILINE)


def split_opening(messages: Sequence[tuple[str, str]]) -> tuple[str, list[dict[str, str]], str]:
    """The system prompt, the turns of worked examples and the question of a chat that asks for its first reply.

    Messages of other roles, or in another order, are one question, in which each stands under its role; a line of it
    that looks like such a heading is broken by a blank.

    Args:
        messages: pairs of a role and a text.
    """
    system = "\n\n".join(text for role, text in messages if role in SYSTEM_ROLES)
    rest = [(role, text) for role, text in messages if role not in SYSTEM_ROLES]
    roles, texts = [role for role, _ in rest], [text for _, text in rest]
    if set(roles) <= {"user"}:
        return system, [], "\n\n".join(texts)
    if roles == [*EXAMPLE_ROLES * (len(roles) // 2), "user"]:
        return system, as_turns(zip(texts[:-1:2], texts[1::2], strict=True)), texts[-1]
    return system, [], "\n\n".join(under_role(role, text) for role, text in rest)


def under_role(role: str, text: str) -> str:
    """A message as text under its role; a line of it that looks like such a heading is broken by a blank."""
    return f"[{role}]\n{_HEADING.sub('[ ', text)}"
