"""ActionRepair: reads a reply for an environment that would not: the last code block, box or tag, odd characters.

A repair reads form, never meaning. Each rule looks at the reply alone (``nearest`` also at the list of legal actions,
which is not the answer), none asks a grader, and where a reply holds several answers the place decides: so a wrong
answer stays wrong. What matches no rule is handed on as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym

from rlvr.envs.rewards.extraction import extract, last_tagged, visible_text
from rlvr.envs.rewards.graders.action import match_action
from rlvr.envs.wrappers.base import Step, TextWrapper

MAX_NEAREST = 100  # characters of a reply that may be a misspelt action
# Look-alikes of one ASCII character. Superscripts, fractions and other scripts' digits mean something else: they stay.
_LIKE = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # full width
    **dict.fromkeys(map(ord, "\u00a0\u2007\u202f\u3000\u2009\u2002\u2003"), " "),
    **dict.fromkeys(map(ord, "\u2018\u2019\u201b\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201f\u2033"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"), None),  # not visible
}
_FENCE = re.compile(r"^[ \t]{0,3}```")


def plain_characters(text: str) -> str:
    """Composed (NFC), and look-alikes of ASCII characters as these: full width, blanks, quotes, the minus sign."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_LIKE)


def last_code_block(text: str) -> str | None:
    """What stands in the last closed block of three backquotes."""
    block: list[str] | None = None
    last = None
    for line in visible_text(text).split("\n"):
        if not _FENCE.match(line):
            if block is not None:
                block.append(line)
        elif block is None:
            block = []
        else:
            last, block = "\n".join(block), None
    return last


def last_box(text: str) -> str | None:
    r"""What stands in the last \boxed{}."""
    return extract(text, ("boxed",)).answer


def last_answer_tag(text: str) -> str | None:
    """What stands in the last ``<action>``, or else ``<answer>``."""
    visible = visible_text(text)
    answer = last_tagged(visible, "action")
    return last_tagged(visible, "answer") if answer is None else answer


def first_line(text: str) -> str | None:
    """The first line that is not blank."""
    return next((line.strip() for line in visible_text(text).split("\n") if line.strip()), None)


def last_line(text: str) -> str | None:
    """The last line that is not blank."""
    return next((line.strip() for line in reversed(visible_text(text).split("\n")) if line.strip()), None)


RULES: dict[str, Callable[[str], str | None]] = {
    "characters": plain_characters,
    "code": last_code_block,
    "box": last_box,
    "tag": last_answer_tag,
    "first_line": first_line,
    "last_line": last_line,
}


class ActionRepair(TextWrapper):
    """Replies are read by rules, one after another, before the environment gets them.

    ``info["repaired"]`` names the rules that changed a reply.

    Args:
        rules: names from ``RULES``, and "nearest" where ``legal`` is given; () repairs nothing. Those that unwrap an
            answer are for environments that read a bare one; a grader that looks for a box should be left its box.
        legal: for "nearest", the legal actions in a task's state. A reply that differs from one legal action by case,
            dressing or a single slip of the keyboard is that action, if there is no other that it might be. Only
            actions of four letters or more, and without digits, are told apart that way.

    Raises:
        ValueError: no such rule, or "nearest" without ``legal``.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        rules: Sequence[str] = ("characters",),
        *,
        legal: Callable[[Any], Iterable[str]] | None = None,
    ) -> None:
        super().__init__(env, rules=tuple(rules), **({} if legal is None else {"legal": legal}))
        rules_known = (*RULES, "nearest")
        if isinstance(rules, str) or any(rule not in rules_known for rule in rules):
            raise ValueError(f"rules must be a sequence of {', '.join(rules_known)}; got {rules!r}")
        if "nearest" in rules and legal is None:
            raise ValueError("the rule 'nearest' needs legal=, a function of the task's state to the legal actions")
        self.rules, self.legal = tuple(rules), legal

    def step(self, action: str) -> Step:
        """Repair the action, then step."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        changed = []
        for rule in self.rules:
            read = self._nearest(action) if rule == "nearest" else RULES[rule](action)
            if read is not None and read != action:
                changed.append(rule)
                action = read
        observation, reward, terminated, truncated, info = self.env.step(action)
        if changed:
            info = {**info, "repaired": tuple(changed)}
        return observation, float(reward), terminated, truncated, info

    def _nearest(self, action: str) -> str | None:
        if self.legal is None or len(action) > MAX_NEAREST:
            return None
        legal = tuple(self.legal(self.task_state()))
        exact = match_action(action, legal)
        if exact is not None:
            return exact
        typed = " ".join(action.split()).casefold()
        near = {other for other in legal if _spelt(other) and one_slip(typed, " ".join(other.split()).casefold())}
        return near.pop() if len(near) == 1 else None


def _spelt(action: str) -> bool:
    return sum(map(str.isalpha, action)) >= 4 and not any(map(str.isdigit, action))


def one_slip(word: str, other: str) -> bool:
    """Whether one letter more, less, or another, or two neighbours exchanged, make one text of the other."""
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    short, long = sorted((word, other), key=len)
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    if short[start + 1 :] == long[start + 1 :]:
        return True
    swapped = short[start : start + 2] == long[start : start + 2][::-1]
    return swapped and short[start + 2 :] == long[start + 2 :]
