"""What every policy that samples tokens has in common: limits, thinking budgets, partial completions.

An engine adds one thing: given prompts as token ids, continuations with their log-probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.conversation import Conversation, Reply, TokenSequence
from rlvr.agents.rendering import Renderer

Sampled = tuple[list[int], list[float]]  # tokens, log-probabilities
# the same, and from engines that count versions of their weights that of each token
Continuation = Sampled | tuple[list[int], list[float], list[int]]


class TokenAgent(ABC):
    """Base of the agents that sample tokens; a subclass writes ``_sample``.

    Attributes:
        renderer: turns messages into tokens for this model.
        max_length: the longest sequence, in tokens, that this agent makes; None where nothing bounds it.

    Args:
        tokenizer: the policy's tokenizer, with a chat template.
        end_ids: tokens that end a reply, beside the tokenizer's and the template's own.
        limit: the longest sequence that the model takes, in tokens; None where nothing says.
        max_new_tokens: the longest reply, in tokens, its end token included.
        seed: of the sampling noise.
        max_length: the longest sequence of an episode, in tokens; by default ``limit``. A conversation that cannot take
            one more token is answered with an empty reply whose stop is "context".
        template_options: variables for the chat template, such as ``{"enable_thinking": False}``.
        thinking_budget: ends a thought at its budget with a phrase, see `rlvr.agents.budget`; it counts toward
            ``max_length``, not toward ``max_new_tokens``.
        segment: sampled tokens after which a reply that has not ended is paused (stop "pause"), to be continued in
            another call, perhaps by a newer policy: a partial rollout. Each token keeps the log-probability under the
            policy that sampled it.

    Raises:
        ValueError: an option out of range, or a tokenizer without chat template.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        end_ids: Iterable[int],
        limit: int | None,
        max_new_tokens: int,
        seed: int = 0,
        max_length: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        thinking_budget: ThinkingBudget | None = None,
        segment: int | None = None,
    ) -> None:
        if segment is not None and thinking_budget is not None:
            raise ValueError(
                "segment and thinking_budget do not go together: a thinking budget is one of a whole reply"
            )
        for name, count in {"max_new_tokens": max_new_tokens, "max_length": max_length, "segment": segment}.items():
            if count is not None and count < 1:
                raise ValueError(f"{name}={count} must be at least 1")
        self.max_new_tokens = max_new_tokens
        self.seed = seed
        self.max_length = max_length if limit is None else min(max_length or limit, limit)
        self.renderer = Renderer(tokenizer, template_options=template_options, end_ids=end_ids)
        self.thinking_budget = thinking_budget
        self.segment = segment
        self._phrase: list[int] = self.renderer.encode_reply(thinking_budget.text) if thinking_budget else []

    @property
    def description(self) -> dict[str, Any]:
        """Who plays, as `rlvr.agents.Episode.agent` has it."""
        from rlvr.agents.revision import revision_of  # which no training step needs

        limits = {"max_new_tokens": self.max_new_tokens, "max_length": self.max_length, "seed": self.seed}
        budget = None if self.thinking_budget is None else asdict(self.thinking_budget)
        more: dict[str, Any] = {"template_options": dict(self.renderer.template_options or {})}
        more |= {"thinking_budget": budget, "condition": self.renderer.condition}
        sampling = self._sampling_options() | limits | {name: value for name, value in more.items() if value}
        name = self.renderer.tokenizer.name_or_path
        return {"model": name, "revision": revision_of(name), "sampling": sampling}

    @property
    def call_style(self) -> str:
        """How the chat template writes calls, one of `rlvr.envs.tools.STYLES`.

        Raises:
            ValueError: it shows no tools, or writes calls in none of the styles.
        """
        return self.renderer.call_style

    def _sampling_options(self) -> dict[str, Any]:
        """How tokens are drawn."""
        return {}

    @abstractmethod
    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterable[Continuation | str]:
        """A continuation of each draft, in order: at most so many tokens, at least 1; an end token is one of them.

        A text in its place says why there is none; that reply's stop is "error".
        """

    def _sample_each(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterable[tuple[int, Continuation | str]]:
        """The same in any order, each with its index as soon as it is there, for engines that can tell."""
        return enumerate(self._sample(drafts, limits))

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order, with its tokens.

        A `Conversation.partial_completion` is continued. With a thinking budget the reply is sampled up to it first;
        one that has not ended there gets the phrase, and ``max_new_tokens`` minus the budget to answer in.

        Raises:
            ValueError: a conversation has no new message, or the chat template refuses it; of a program's the reply is
                an error instead.
        """
        drafts = [self._draft(conversation) for conversation in conversations]
        return self._finish(drafts)

    def act_each(self, conversations: Sequence[Conversation]) -> Iterator[tuple[int, Reply]]:
        """`act`, but each reply as soon as it is there, with the index of its conversation."""
        drafts = [self._draft(conversation) for conversation in conversations]
        self._think(drafts)
        ready = [(index, draft, limit) for index, draft in enumerate(drafts) if (limit := self._answer_limit(draft))]
        sampled = self._sample_each([draft for _, draft, _ in ready], [limit for *_, limit in ready]) if ready else ()
        waiting = {index for index, *_ in ready}
        yield from ((index, self._reply(draft)) for index, draft in enumerate(drafts) if index not in waiting)
        for number, continuation in sampled:
            index, draft, _ = ready[number]
            draft.extend(continuation)
            yield index, self._reply(draft)

    def _draft(self, conversation: Conversation) -> Draft:
        try:
            context = self.renderer.render(conversation)
        except ValueError as error:
            if not conversation.from_program:
                raise
            return Draft(conversation, [], TokenSequence(), f"the program's messages: {error}")
        return Draft(conversation, context, conversation.partial_completion.copy())

    def _finish(self, drafts: Sequence[Draft]) -> list[Reply]:
        self._think(drafts)
        self._extend([(draft, self._answer_limit(draft)) for draft in drafts])
        return [self._reply(draft) for draft in drafts]

    def _think(self, drafts: Sequence[Draft]) -> None:
        """With a thinking budget, sample each reply up to it."""
        if self.thinking_budget is None:
            return
        thoughts = [(draft, self._budget(draft)) for draft in drafts]
        self._extend([(draft, self._limit(draft, budget)) for draft, budget in thoughts])
        for draft, budget in thoughts:
            if not self._done(draft) and draft.completion.sampled >= budget:
                self._force_budget(draft)

    def _answer_limit(self, draft: Draft) -> int:
        """How many tokens of the rest of the reply may be sampled now."""
        longest = self.max_new_tokens if self.segment is None else self.segment
        return self._limit(draft, min(self.max_new_tokens, draft.conversation.partial_completion.sampled + longest))

    def _extend(self, drafts: Sequence[tuple[Draft, int]]) -> None:
        """Sample more, of each draft at most as many tokens as named beside it."""
        ready = [(draft, limit) for draft, limit in drafts if limit]
        if not ready:
            return
        sampled = self._sample([draft for draft, _ in ready], [limit for _, limit in ready])
        for (draft, _), continuation in zip(ready, sampled, strict=True):
            draft.extend(continuation)

    def _limit(self, draft: Draft, allowed: int) -> int:
        """How many tokens may be sampled now."""
        if self._done(draft):
            return 0
        left = allowed if self.max_length is None else self.max_length - draft.length
        return max(0, min(allowed - draft.completion.sampled, left))

    def _ended(self, draft: Draft) -> bool:
        ids, mask = draft.completion.ids, draft.completion.mask
        return bool(ids) and bool(mask[-1]) and ids[-1] in self.renderer.end_ids

    def _done(self, draft: Draft) -> bool:
        return bool(draft.error) or self._ended(draft)

    def _budget(self, draft: Draft) -> int:
        assert self.thinking_budget is not None  # for the type checker
        start = len(draft.conversation.tokens) + len(draft.context)
        return min(self.max_new_tokens, self.thinking_budget.budget(self.seed, draft.conversation.key, start))

    def _force_budget(self, draft: Draft) -> None:
        assert self.thinking_budget is not None  # for the type checker
        fits = self.max_length is None or draft.length + len(self._phrase) < self.max_length
        if fits and self.thinking_budget.applies(self.renderer.reply_text(draft.completion.ids, draft.context)):
            draft.completion.append_context(self._phrase)

    def _reply(self, draft: Draft) -> Reply:
        completion = draft.completion
        if draft.error:
            return Reply("", "error", error=draft.error)
        if not completion.sampled:
            return Reply("", "context", limit=f"max_length {self.max_length}")
        if self.segment is not None and self._limit(draft, self.max_new_tokens):
            return Reply("", "pause", completion.sampled, completion=completion)
        ended = self._ended(draft)
        text = self.renderer.reply_text(completion.ids[:-1] if ended else completion.ids, draft.context)
        if ended:
            return Reply(text, "stop", completion.sampled, "", draft.context, completion)
        full = self.max_length is not None and draft.length >= self.max_length
        limit = f"max_length {self.max_length}" if full else f"max_new_tokens {self.max_new_tokens}"
        return Reply(text, "length", completion.sampled, "", draft.context, completion, limit)


@dataclass(slots=True)
class Draft:
    """A reply being made: the ids of the messages before it, its tokens so far, and why it failed, if it did."""

    conversation: Conversation
    context: list[int]
    completion: TokenSequence
    error: str = ""

    @property
    def length(self) -> int:
        """Tokens of the whole sequence so far."""
        return len(self.conversation.tokens) + len(self.context) + len(self.completion)

    def prompt(self) -> list[int]:
        """All token ids so far."""
        return self.conversation.tokens.ids + self.context + self.completion.ids

    def extend(self, continuation: Continuation | str) -> None:
        """Append what was sampled, or note why nothing was."""
        if isinstance(continuation, str):
            self.error = continuation or "the engine failed"
        else:
            self.completion.append_sampled(*continuation)


def check_sampling(temperature: float, top_p: float, top_k: int | None) -> None:
    """Refuse what no engine can sample with.

    Raises:
        ValueError: a number out of range.
    """
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be above 0; for the likeliest token use greedy")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} must be at least 1, or None for the whole vocabulary")
