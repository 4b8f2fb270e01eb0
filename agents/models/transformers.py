"""A policy from transformers: samples a batch of replies, with exact token ids and log-probabilities.

Every sampled token comes from one uniform number that belongs to (agent seed, conversation, position), so an
episode is the same whatever else is in the batch (up to the rounding of the model's own arithmetic).

In the decoding loop all sequences advance by one token a step. Where the layers of the model are plain attention, the
cache is written in place and prompts are padded on the right: the prompt then needs no mask, and one bias, made
beforehand, hides the unused columns between a prompt and its continuation. Other models get the library's cache and
padding on the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.models.tiny import MISSING_EXTRA
from rlvr.agents.models.token_agent import Continuation, Draft, Sampled, TokenAgent, check_sampling

try:
    import torch

    from rlvr.agents.models.kv_cache import GROUPED, lean_attention, sampling_cache
    from rlvr.agents.models.sampling import LOGITS_AT_ONCE, choose_tokens, uniforms
except ImportError as error:
    raise ImportError(MISSING_EXTRA) from error

# Columns a cache has at first beyond the prompt: most replies are short, and it doubles when they are not.
FIRST_COLUMNS = 64
# Sequences are dropped from the cache, which copies it, once this share of them has finished.
FINISHED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: logits are divided by ``temperature``, then cut to the likeliest (`choose_tokens`).

    Raises:
        ValueError: a number out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    greedy: bool = False

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_p, self.top_k)

    def choose(self, logits: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens (B,) and their log-probabilities (B,) for logits (B, V) and noise (B,)."""
        return choose_tokens(
            logits,
            noise,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            greedy=self.greedy,
        )


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    noise: Sequence[np.ndarray],
    end_ids: Iterable[int],
    sampling: Sampling,
) -> list[Sampled]:
    """Sample a continuation of each prompt: its tokens, the end token included, and their log-probabilities.

    Args:
        model: a transformers causal language model; afterwards its mode is as it was.
        prompts: B lists of token ids, none empty.
        limits: of each sequence, the most tokens to sample, at least 1.
        noise: of each sequence, uniform numbers in [0, 1), float64, one for each token up to its limit; unused when
            greedy.
        end_ids: tokens that end a continuation.
        sampling: how to draw.

    Raises:
        ValueError: the model does not use the cache it is given.
        FloatingPointError: the model's logits are NaN or infinite.
    """
    with _sampling_mode(model):
        decoding = _Decoding(model, prompts, limits, noise, end_ids, sampling)
        ended = dict(pair for pairs in iter(decoding.advance, []) for pair in pairs)
    return [ended[index] for index in range(len(limits))]


def sample_each(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    noise: Sequence[np.ndarray],
    end_ids: Iterable[int],
    sampling: Sampling,
) -> Iterator[tuple[int, Sampled]]:
    """`sample`, but each continuation as soon as it has ended, with the index of its prompt.

    Between two of them the model is in its own mode, and may be used otherwise, but not changed.
    """
    with _sampling_mode(model):
        decoding = _Decoding(model, prompts, limits, noise, end_ids, sampling)
    while True:
        with _sampling_mode(model):
            ended = decoding.advance()
        if not ended:
            return
        yield from ended


@contextmanager
def _sampling_mode(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(), lean_attention(model.config):
            yield
    finally:
        model.train(training)


class _Decoding:
    """One token a step for all sequences until each has met an end token or its limit."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        noise: Sequence[np.ndarray],
        end_ids: Iterable[int],
        sampling: Sampling,
    ) -> None:
        count, longest = len(limits), max(limits)
        self._sampling = sampling
        self._batch = _Batch(model, prompts, longest)
        device = self._batch.device
        numbers = np.zeros((count, longest))
        for index, values in enumerate(noise):
            numbers[index, : len(values)] = values
        self._uniform = torch.from_numpy(numbers).to(device)
        self._stops = torch.tensor(sorted({*end_ids}), dtype=torch.long, device=device)
        self._last = torch.tensor(limits, device=device) - 1
        self._tokens = torch.zeros(count, longest, dtype=torch.long, device=device)
        self._logprobs = torch.zeros(count, longest, device=device)
        self._origin = torch.arange(count, device=device)  # which prompt a sequence of the batch continues
        self._finished = torch.zeros(count, dtype=torch.bool, device=device)
        self._done = 0  # how many of the batch have finished
        self._step = 0

    def advance(self) -> list[tuple[int, Sampled]]:
        """Sample until at least one more has ended: those that then have, by index; none where all had before."""
        ended: list[tuple[int, Sampled]] = []
        while not ended and self._done < len(self._finished):
            step = self._step
            chosen, scores = self._sampling.choose(self._batch.logits, self._uniform[:, step])
            self._tokens[self._origin, step] = chosen
            self._logprobs[self._origin, step] = scores
            finished = self._finished | torch.isin(chosen, self._stops) | (self._last <= step)
            done = int(finished.sum())
            if done > self._done:
                ended = self._ended(self._origin[finished & ~self._finished], step + 1)
            self._finished, self._done, self._step = finished, done, step + 1
            if done < len(finished):
                self._next(chosen)
        return ended

    def _ended(self, indices: torch.Tensor, length: int) -> list[tuple[int, Sampled]]:
        tokens, logprobs = self._tokens[indices, :length].tolist(), self._logprobs[indices, :length].tolist()
        return list(zip(indices.tolist(), zip(tokens, logprobs, strict=True), strict=True))

    def _next(self, chosen: torch.Tensor) -> None:
        """Drop what has finished, where it is worth it, and run the model on the tokens (B,) of this step."""
        if self._done >= FINISHED_SHARE * len(self._finished):
            live = (~self._finished).nonzero()[:, 0]
            self._batch.keep(live)
            chosen, self._origin, self._uniform = chosen[live], self._origin[live], self._uniform[live]
            self._last = self._last[live]
            self._finished, self._done = torch.zeros_like(chosen, dtype=torch.bool), 0
        self._batch.step(chosen)


class _Batch:
    """The sequences being sampled: the model's cache, their lengths and masks, and the logits of their next tokens.

    Equal prompts, such as those of a group, are run through the model once.

    Attributes:
        logits: of the next token, (B, V).
    """

    logits: torch.Tensor

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], limit: int) -> None:
        self.model = model
        self.device = model.get_input_embeddings().weight.device
        unique = {prompt: index for index, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        self.lengths = torch.tensor([len(prompt) for prompt in unique], device=self.device)
        self.columns = max(map(len, unique))
        capacity = self.columns + min(limit, FIRST_COLUMNS)
        self.cache: Any
        self.cache, self.in_place = sampling_cache(model.config, capacity)
        self.positions = torch.arange(self.columns + limit, device=self.device)
        self.mask: torch.Tensor | None = None
        if self.in_place:
            self._read_prompts([*unique])
        else:
            self._read_padded_left([*unique])
        if len(unique) < len(prompts):
            self.keep(torch.tensor([unique[tuple(prompt)] for prompt in prompts], device=self.device))

    def step(self, tokens: torch.Tensor) -> None:
        """Append a token (B,) to each sequence."""
        mask = None if self.mask is None else self.mask[..., : self.columns + 1]
        self.logits = self._forward(tokens[:, None], self.lengths[:, None], mask)[:, -1]
        self.columns += 1
        self.lengths = self.lengths + 1

    def keep(self, indices: torch.Tensor) -> None:
        """Continue with the sequences of these indices, in this order; an index may occur more than once."""
        self.cache.reorder_cache(indices)
        self.logits, self.lengths = self.logits[indices], self.lengths[indices]
        if self.mask is not None:
            self.mask = self.mask[indices]

    def _read_prompts(self, prompts: list[tuple[int, ...]]) -> None:
        """Padded on the right: attention is causal, so the prompt needs no mask; what follows it does."""
        ids = self._pad(prompts, left=False)
        last = self.lengths - 1
        ends: torch.Tensor = torch.unique(last)
        numbers = len(prompts) * len(ends) * self.model.config.get_text_config().vocab_size
        if len(ends) > 1 and numbers > LOGITS_AT_ONCE:
            # So many lengths of so large a vocabulary: run the prompts' last tokens as a step of their own.
            self.columns -= 1
            self._forward(ids[:, :-1], None, None)
            self.lengths = last
            self._hide_padding()
            self.step(ids.gather(1, last[:, None])[:, 0])
            return
        logits = self._forward(ids, None, None, keep=1 if len(ends) == 1 else ends)
        self.logits = logits[torch.arange(len(prompts), device=self.device), torch.searchsorted(ends, last)]
        self._hide_padding()

    def _hide_padding(self) -> None:
        """Hide the columns between a prompt's end and the first sampled one, if there are any."""
        hidden = (self.positions >= self.lengths[:, None]) & (self.positions < self.columns)
        if not hidden.any():
            return
        implementation = self.model.config._attn_implementation
        if implementation in (GROUPED, "sdpa", "eager") and getattr(self.model, "_supports_sdpa", False):
            # What attention adds to its scores, made once: the library would make it anew at each step.
            dtype = self.model.get_input_embeddings().weight.dtype
            bias = torch.zeros(hidden.shape, dtype=dtype, device=self.device)
            self.mask = bias.masked_fill_(hidden, torch.finfo(dtype).min)[:, None, None]
        else:
            self.mask = (~hidden).long()

    def _read_padded_left(self, prompts: list[tuple[int, ...]]) -> None:
        """For layers whose state is not keys by column: every sequence ends in the last column."""
        padding = self.columns - self.lengths[:, None]
        self.mask = (self.positions >= padding).long()
        positions = (self.positions[: self.columns] - padding).clamp(min=0)
        ids = self._pad(prompts, left=True)
        self.logits = self._forward(ids, positions, self.mask[:, : self.columns])[:, -1]

    def _pad(self, prompts: list[tuple[int, ...]], *, left: bool) -> torch.Tensor:
        """Prompts (B, T), filled up with some token that is never seen."""
        fill = [prompt[:1] * (self.columns - len(prompt)) for prompt in prompts]
        padded = [[*pad, *prompt] if left else [*prompt, *pad] for prompt, pad in zip(prompts, fill, strict=True)]
        return torch.tensor(padded, device=self.device)

    def _forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor | None,
        mask: torch.Tensor | None,
        keep: int | torch.Tensor = 1,
    ) -> torch.Tensor:
        """Logits (B, k, V) of the last column, or of those named by ``keep``."""
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        if getattr(out, "past_key_values", None) is None:
            raise ValueError(
                f"{type(self.model).__name__} does not use transformers' key-value cache, so it cannot be sampled "
                "from here: use a model with attention layers"
            )
        logits: torch.Tensor = out.logits
        return logits


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

    def _sampling_options(self) -> dict[str, Any]:
        return {name: getattr(self.sampling, name) for name in ("temperature", "top_p", "top_k", "greedy")}

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
