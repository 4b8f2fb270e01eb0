"""One episode with its tokens, for frameworks that let us own the loop: ids in, ids out, nothing encoded twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.agents import Message, Reply, TokenSequence
from rlvr.agents.rendering import Renderer

logger = logging.getLogger(__name__)


class Sampled(NamedTuple):
    """What an engine sampled in a turn, as `TokenSession.step_tokens` takes it."""

    ids: Sequence[int]
    logprobs: Sequence[float] | None = None
    versions: Sequence[int] | None = None


class TokenSession:
    """An `EpisodeSession` whose conversation is rendered to tokens as it grows, up to a token budget.

    Attributes:
        session: the episode: its reward, its verdict, whether it is valid.
        tokens: the sequence so far, with mask and log-probabilities.
        start: how many tokens the first prompt has.
        done: whether the episode has ended, or its token budget has no place for the next turn.

    Args:
        spec: the task, in any form that `TaskSpec.parse` reads.
        renderer: of the policy's tokenizer.
        token_budget: the most tokens after the first prompt, the environment's messages included.
        use_system: whether the conversation begins with the environment's system prompt.
        instead: the first messages, should the environment fail before it has any.
        longest: the most tokens in all, the first prompt included; None when ``token_budget`` alone bounds them.
    """

    def __init__(
        self,
        spec: TaskSpec | str | Mapping[str, Any],
        renderer: Renderer,
        token_budget: int,
        *,
        use_system: bool = True,
        instead: Sequence[Mapping[str, Any]] = (),
        longest: int | None = None,
    ) -> None:
        self.session = EpisodeSession(spec, use_system=use_system, tools=True)
        self.renderer, self.done = renderer, self.session.done
        self.conversation = self.session.conversation
        if not self.conversation.messages:
            messages: list[Message] = [{"role": m["role"], "content": m["content"]} for m in instead]
            self.conversation.messages += messages or [{"role": "user", "content": ""}]
        self.tokens = self.conversation.tokens
        self.tokens.append_context(renderer.render(self.conversation))
        self.start = len(self.tokens)
        self._end = self.start + token_budget if longest is None else min(self.start + token_budget, longest)

    @property
    def tokens_left(self) -> int:
        """How many more tokens there may be."""
        return self._end - len(self.tokens)

    def prompt(self) -> list[int]:
        """A copy of what to sample after; once the episode is done, its first prompt."""
        return self.tokens.ids[: self.start] if self.done else self.tokens.ids[:]

    def step_tokens(
        self, ids: Sequence[int], logprobs: Sequence[float] | None = None, versions: Sequence[int] | None = None
    ) -> None:
        """Play what was sampled, its end token included; what exceeds the token budget is cut off.

        Args:
            ids: the tokens.
            logprobs: of each; None where the engine gives none.
            versions: of the weights that sampled each; None where the engine counts none.

        Raises:
            ValueError: not one log-probability, or version, for each token.
        """
        for name, values in (("log-probabilities", logprobs), ("versions of the weights", versions)):
            if values is not None and len(values) != len(ids):
                raise ValueError(f"{len(ids)} tokens were sampled, but {len(values)} {name} given")
        sampled = list(map(int, ids))[: self.tokens_left]
        length = len(sampled)
        scores = list(logprobs)[:length] if logprobs is not None else [0.0] * length
        completion = TokenSequence(sampled, [1] * length, scores, list(versions or ())[:length])
        reply = sampled[:-1] if sampled and sampled[-1] in self.renderer.end_ids else sampled
        text = self.renderer.reply_text(reply, self.tokens.ids)
        message = self.session.step_reply(Reply(text, tokens=length, completion=completion))
        if message is None:
            self.done = True
            return
        context = self.renderer.render(self.conversation)
        self.done = len(context) >= self.tokens_left
        if not self.done:
            self.tokens.append_context(context)

    def parts(self) -> tuple[list[int], TokenSequence]:
        """The first prompt's ids, and the completion; an invalid episode's carries no loss."""
        completion = self.tokens.piece(self.start, len(self.tokens))
        if not completion:  # it failed before the first turn, and trainers want a token
            completion.append_context([self.renderer.end_id or 0])
        return self.tokens.ids[: self.start], completion if self.session.valid else completion.without_loss()


async def play_tokens(
    begin: Callable[[], TokenSession], sample: Callable[[TokenSession], Awaitable[Sampled | None]]
) -> TokenSession:
    """Play an episode from an event loop, and close it. The environment, which may wait, is called in threads.

    A log says why an episode must not be trained on: its verdict is invalid, or no token could be sampled.

    Args:
        begin: makes the episode.
        sample: asks an engine for the tokens after ``episode.prompt()``, ``episode.tokens_left`` at most; None leaves
            the episode where it stands.
    """
    episode = await asyncio.to_thread(begin)
    try:
        while not episode.done and episode.tokens_left > 0 and (sampled := await sample(episode)) is not None:
            await asyncio.to_thread(episode.step_tokens, *sampled)
    finally:
        await asyncio.to_thread(episode.session.close)
    session = episode.session
    if not session.valid or (episode.tokens_left <= 0 and not episode.tokens.sampled):
        reason = "its first prompt leaves no tokens for a reply" if session.valid else session.verdict
        logger.warning("%s is not trained on: %s", session.spec.to_json(), reason)
    return episode
