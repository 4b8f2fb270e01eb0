"""A policy from transformers: samples a batch of replies, with exact token ids and log-probabilities.

Every sampled token comes from one uniform number that belongs to (agent seed, conversation, position), so an
episode is the same whatever else is in the batch (up to the rounding of the model's own arithmetic).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.models.tiny import MISSING_EXTRA
from rlvr.agents.models.token_agent import Continuation, Draft, TokenAgent

try:
    from rlvr.agents.models.decoding import Sampling, sample, sample_each
    from rlvr.agents.models.sampling import uniforms
except ImportError as error:
    raise ImportError(MISSING_EXTRA) from error


class TransformersAgent(TokenAgent):
    """Samples replies from a causal language model.

    The log-probabilities recorded with the tokens are those of softmax(logits / temperature) over the whole
    vocabulary, float32: the learner computes the same. Under ``top_p``, ``top_k`` or ``greedy`` the tokens are
    drawn from less than that, and the log-probabilities do not say so; train on samples without them.

    Args:
        model: a transformers causal language model, on any device.
        tokenizer: its tokenizer, with a chat template.
        max_new_tokens: the longest reply, in tokens, its end token included.
        temperature: logits are divided by it.
        top_p, top_k: draw only from the likeliest tokens, see `choose_tokens`.
        greedy: always the likeliest token.
        seed: of the sampling noise.
        max_length: the longest sequence of an episode, in tokens; by default what the model's configuration
            names. See `TokenAgent`, also for ``template_options``, ``thinking_budget`` and ``segment``.
        max_sequences: the most conversations sampled at once; the others wait. None: all of them.

    Raises:
        ImportError: on import of this module: the extra ``train`` is missing.
        ValueError: an option out of range, or a tokenizer without chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int | None = None,
        greedy: bool = False,
        seed: int = 0,
        max_length: int | None = None,
        max_sequences: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        thinking_budget: ThinkingBudget | None = None,
        segment: int | None = None,
    ) -> None:
        if max_sequences is not None and max_sequences < 1:
            raise ValueError(f"max_sequences={max_sequences} must be at least 1")
        self.sampling = Sampling(temperature, top_p, top_k, greedy)
        self.model = model
        self.max_sequences = max_sequences
        super().__init__(
            tokenizer,
            end_ids=end_tokens(model),
            limit=getattr(model.config.get_text_config(), "max_position_embeddings", None),
            max_new_tokens=max_new_tokens,
            seed=seed,
            max_length=max_length,
            template_options=template_options,
            thinking_budget=thinking_budget,
            segment=segment,
        )

    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> list[Continuation]:
        done: dict[int, Continuation] = {}
        for chunk in self._chunks(drafts):
            done.update(zip(chunk, sample(*self._arguments(drafts, limits, chunk)), strict=True))
        return [done[i] for i in range(len(drafts))]

    def _sample_each(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterator[tuple[int, Continuation]]:
        for chunk in self._chunks(drafts):
            for number, continuation in sample_each(*self._arguments(drafts, limits, chunk)):
                yield chunk[number], continuation

    def _chunks(self, drafts: Sequence[Draft]) -> Iterator[list[int]]:
        """Indices of drafts that are sampled at once: like lengths together, so that little of a batch is padding."""
        order = sorted(range(len(drafts)), key=lambda i: -drafts[i].length)
        size = self.max_sequences or len(order)
        return (order[start : start + size] for start in range(0, len(order), size))

    def _arguments(self, drafts: Sequence[Draft], limits: Sequence[int], chunk: Sequence[int]) -> tuple[Any, ...]:
        """What `sample` takes, for the drafts of these indices."""
        greedy = self.sampling.greedy
        keys = [(drafts[i].conversation.key, drafts[i].length, 0 if greedy else limits[i]) for i in chunk]
        noise = [uniforms(self.seed, *key) for key in keys]
        prompts = [drafts[i].prompt() for i in chunk]
        return self.model, prompts, [limits[i] for i in chunk], noise, self.renderer.end_ids, self.sampling


def end_tokens(model: Any) -> list[int]:
    """The tokens at which the model's generation configuration says to stop."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if named is None:
        return []
    return [named] if isinstance(named, int) else list(named)
