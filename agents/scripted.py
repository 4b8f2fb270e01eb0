"""Agents that need no model: an expert, a random player, a fixed text, and a person."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rlvr.agents.conversation import Conversation, Reply
from rlvr.envs.core.images import read_data_url, write_png
from rlvr.envs.core.seeding import stream
from rlvr.envs.core.terminal import printable as printable


class ExpertAgent:
    """Plays the actions of the environment's own ``solve``.

    Args:
        shortcut_share: the share of episodes whose first action is the answer without the work that leads to it, where
            the task has one (`Task.direct_answer`). It depends on the episode alone.
    """

    in_any_thread = True

    def __init__(self, shortcut_share: float = 0.0) -> None:
        self.shortcut_share = shortcut_share

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        return [Reply(self._action(conversation)) for conversation in conversations]

    def _action(self, conversation: Conversation) -> str:
        env = _env(conversation, "solve")
        first = all(message["role"] != "assistant" for message in conversation.messages[conversation.opening :])
        if first and self.shortcut_share and stream("shortcut", conversation.key).random() < self.shortcut_share:
            return env.direct_answer() or env.solve()
        return env.solve()


class RandomAgent:
    """Plays random well-formed actions, or random text where a task has no such notion.

    Its choices depend on the seed, the episode and the turn, not on what else is in the batch.
    """

    in_any_thread = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        return [Reply(self._action(conversation)) for conversation in conversations]

    def _action(self, conversation: Conversation) -> str:
        rng = stream("random agent", self.seed, conversation.key, len(conversation.messages))
        return _env(conversation, "sample_action").sample_action(rng)


class ConstantAgent:
    """Answers with the same text every time; the empty text is the floor of every benchmark."""

    in_any_thread = True

    def __init__(self, text: str = "") -> None:
        self.text = text

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        return [Reply(self.text) for _ in conversations]


class HumanAgent:
    """A person at a terminal, one line a turn. An image is put into a temporary file, whose name is shown.

    Args:
        ask: shows a prompt and returns what was typed.
        show: shows one message; gets its role and its text.
    """

    def __init__(self, ask: Callable[[str], str] = input, show: Callable[[str, str], None] | None = None) -> None:
        self.ask = ask
        self.show = show or (lambda role, text: print(printable(f"[{role}] {text}")))

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        return [self._answer(conversation) for conversation in conversations]

    def _answer(self, conversation: Conversation) -> Reply:
        messages = conversation.messages
        indices = (index for index, message in enumerate(messages) if message["role"] == "assistant")
        last_own = max((index for index in indices if index >= conversation.opening), default=-1)
        for message in messages[last_own + 1 :]:
            self.show(message["role"], message["content"])
            for url in message.get("images", ()):
                self.show(message["role"], f"[an image: {_file(url)}]")
        return Reply(self.ask("> "))


def _file(url: str) -> str:
    """A file with that image, for a person to open."""
    with tempfile.NamedTemporaryFile(prefix="rlvr-", suffix=".png", delete=False) as file:
        file.write(write_png(read_data_url(url)))
    return file.name


class _Knows(Protocol):
    """What is asked of an environment: of one of ours, or of one that is served."""

    def solve(self) -> str: ...
    def direct_answer(self) -> str | None: ...
    def sample_action(self, rng: random.Random) -> str: ...


def _env(conversation: Conversation, asked: str) -> _Knows:
    env: Any = conversation.env
    if not callable(getattr(env, asked, None)):
        raise TypeError(f"this agent asks the environment itself, and {env!r} has no {asked}()")
    return env  # type: ignore[no-any-return]
