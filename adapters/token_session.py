"""One episode with its tokens, for frameworks that let us own the loop: ids in, ids out, nothing encoded twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.agents import Conversation, Message, TokenSequence
from rlvr.agents.rendering import Renderer


class TokenSession:
    """An `EpisodeSession` whose conversation is rendered to tokens as it grows, up to a limit.

    Attributes:
        session: the episode: its reward, its verdict, whether it is valid.
        tokens: everything so far, with mask and log-probabilities.
        start: how many tokens the first prompt has.
        over: whether it has ended, or no room is left to go on.

    Args:
        spec: the task, in any form that `TaskSpec.parse` reads.
        renderer: of the policy's tokenizer.
        room: the most tokens after the first prompt, the environment's words included.
        use_system: whether the environment's system prompt is said.
        instead: the first messages, should the environment fail before it says any.
        longest: the most tokens in all, the first prompt included; None when ``room`` alone bounds them.
    """

    def __init__(
        self,
        spec: TaskSpec | str | Mapping[str, Any],
        renderer: Renderer,
        room: int,
        *,
        use_system: bool = True,
        instead: Sequence[Mapping[str, Any]] = (),
        longest: int | None = None,
    ) -> None:
        self.session = EpisodeSession(spec, use_system=use_system)
        self.renderer, self.over = renderer, self.session.done
        said: list[Message] = self.session.messages or [{"role": m["role"], "content": m["content"]} for m in instead]
        self.conversation = Conversation("", list(said) or [{"role": "user", "content": ""}])
        if tools := self.session.info.get("tools"):
            self.conversation.tools = json.dumps(tools)
        self.tokens = self.conversation.tokens
        self.tokens.append_context(renderer.render(self.conversation))
        self.start = len(self.tokens)
        self._end = self.start + room if longest is None else min(self.start + room, longest)

    @property
    def room(self) -> int:
        """How many more tokens there may be."""
        return self._end - len(self.tokens)

    def prompt(self) -> list[int]:
        """What to sample after; once it is over, what it began with."""
        return self.tokens.ids[: self.start] if self.over else self.tokens.ids

    def hear(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> None:
        """Play what was sampled, its end token included; what exceeds the room is cut off."""
        new = [int(token) for token in ids][: self.room]
        self.tokens.append_sampled(new, list(logprobs)[: len(new)] if logprobs is not None else [0.0] * len(new))
        text = self.renderer.decode(new[:-1] if new and new[-1] in self.renderer.end_ids else new)
        self.conversation.messages.append({"role": "assistant", "content": text})
        self.conversation.rendered = len(self.conversation.messages)
        message = self.session.step(text)
        if message is None:
            self.over = True
            return
        self.conversation.messages.append(message)
        context = self.renderer.render(self.conversation)
        self.over = len(context) >= self.room
        if not self.over:
            self.tokens.append_context(context)

    def parts(self) -> tuple[list[int], TokenSequence]:
        """The first prompt's ids, and the completion; nothing of an invalid episode is trained on."""
        completion = self.tokens.piece(self.start, len(self.tokens))
        if not completion:  # it failed before the first turn, and trainers want a token
            completion.append_context([self.renderer.end_id or 0])
        return self.tokens.ids[: self.start], completion if self.session.valid else completion.without_loss()
