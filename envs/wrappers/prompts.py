"""How a task is put to the policy: another system prompt, and the layout of instructions and task.

Only the system prompt, the first observation and, like it, the questions of worked examples change. What is asked, and
how an answer has to be written, does not: it is in the task's own words, which every layout holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import gymnasium as gym

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.images import text_of, with_text
from rlvr.envs.core.seeding import stream
from rlvr.envs.wrappers.base import TextWrapper, identity

_SLOT = re.compile(r"\{(system|task)\}")


class Layout(NamedTuple):
    """Two texts in which ``{system}`` and ``{task}`` stand for the task's own words.

    Where a task has no system prompt, the paragraphs that ask for it are left out.
    """

    system: str
    first: str


LAYOUTS: dict[str, Layout] = {
    "chat": Layout("{system}", "{task}"),
    "user": Layout("", "{system}\n\n{task}"),
    "after": Layout("", "{task}\n\n{system}"),
    "labels": Layout("", "Instructions: {system}\n\nTask: {task}"),
    "headings": Layout("", "# Instructions\n{system}\n\n# Task\n{task}"),
    "tags": Layout("", "<instructions>\n{system}\n</instructions>\n\n<task>\n{task}\n</task>"),
    "question": Layout("", "{system}\n\nQuestion: {task}\nAnswer:"),
    "repeated": Layout("{system}", "{task}\n\nRemember: {system}"),
    "think": Layout("{system}\n\nReason between <think> and </think> first. Then answer.", "{task}"),
}


class SystemPrompt(TextWrapper):
    """Another system prompt in ``info["system"]``.

    Args:
        text: the prompt; None for none.
        where: "instead" of the task's own, "before" or "after" it.
    """

    def __init__(
        self, env: gym.Env[str, str], text: str | None, *, where: Literal["instead", "before", "after"] = "instead"
    ) -> None:
        super().__init__(env, text=text, where=where)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"a system prompt is a text or None, got {type(text).__name__}")
        if where not in ("instead", "before", "after"):
            raise ValueError(f"where must be instead, before or after, got {where!r}")
        if text is None and where != "instead":
            raise ValueError(f"there is no text to put {where} the system prompt")
        self.text, self.where = text, where

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the other system prompt."""
        observation, info = self.env.reset(seed=seed, options=options)
        inner = [info["system"]] if info.get("system") else []
        parts = {"instead": [self.text], "before": [self.text, *inner], "after": [*inner, self.text]}[self.where]
        return observation, with_system(info, "\n\n".join(part for part in parts if part))


class PromptFormat(TextWrapper):
    """The task in another layout: one of ``LAYOUTS``, or a ``Layout`` of your own.

    Args:
        layout: name of a layout, or a layout.
    """

    def __init__(self, env: gym.Env[str, str], layout: str | Layout) -> None:
        super().__init__(env, layout=layout)
        self.layout = named(layout) if isinstance(layout, str) else Layout(*layout)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the prompt in the layout."""
        return laid_out(self.layout, *self.env.reset(seed=seed, options=options))


class RandomPromptFormat(TextWrapper):
    """A layout drawn for each task, from the task's identity: a replay, and a group on one task, get the same one.

    ``info["layout"]`` names it at reset.

    Args:
        layouts: names to draw from; None for all of ``LAYOUTS``.
        seed: another one draws otherwise.
    """

    def __init__(self, env: gym.Env[str, str], *, layouts: Sequence[str] | None = None, seed: int = 0) -> None:
        super().__init__(env, layouts=layouts, seed=seed)
        self.layouts = tuple(LAYOUTS if layouts is None else layouts)
        if not self.layouts or isinstance(layouts, str):
            raise ValueError(f"layouts must be a non-empty sequence of names, got {layouts!r}")
        for name in self.layouts:
            named(name)
        self.seed = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the prompt in the layout that its identity draws."""
        observation, info = self.env.reset(seed=seed, options=options)
        # A foreign environment says nothing of its identity; then the observation is what names the task.
        key = sorted(identity(info).items()) or text_of(observation)
        name = stream("prompt layout", self.seed, key).choice(self.layouts)
        return laid_out(LAYOUTS[name], observation, {**info, "layout": name})


def named(name: str) -> Layout:
    """The layout of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in LAYOUTS:
        raise ValueError(f"there is no layout {name!r}{did_you_mean(name, LAYOUTS)}")
    return LAYOUTS[name]


def laid_out(layout: Layout, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What ``reset`` returns, in that layout."""
    words = {"system": info.get("system") or "", "task": text_of(observation)}
    if "examples" in info:
        turns = [
            {**turn, "content": filled(layout.first, {**words, "task": turn["content"]})}
            if turn["role"] == "user"
            else turn
            for turn in info["examples"]
        ]
        info = {**info, "examples": turns}
    return with_text(observation, filled(layout.first, words)), with_system(info, filled(layout.system, words))


def filled(text: str, words: dict[str, str]) -> str:
    """The text with its slots filled, in one pass: a slot in a task's own words stays what it is."""
    parts = text.split("\n\n")
    if not words["system"]:
        parts = [part for part in parts if "{system}" not in part]
    return _SLOT.sub(lambda match: words[match[1]], "\n\n".join(parts))


def with_system(info: dict[str, Any], system: str) -> dict[str, Any]:
    """An ``info`` with this system prompt, or without any when it is empty."""
    others = {name: value for name, value in info.items() if name != "system"}
    return others | {"system": system} if system else others
