"""A policy from transformers: samples a batch of replies, with exact token ids and log-probabilities.

Every sampled token comes from one uniform number that belongs to (agent seed, conversation, position), so an
episode is the same whatever else is in the batch (up to the rounding of the model's own arithmetic).

Each sequence has a slot, all slots advance by one token a step, and one whose sequence has ended is given the next
prompt: continuous batching. The host counts, and the device holds keys and values alone, so a step waits for nothing
but the tokens that it draws. Where the layers of a model are plain attention, the cache is written in place, each
sequence at its own length (`SlotLayer`). Other models get the library's cache, padding on the left, and one batch after
another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.models.tiny import MISSING_EXTRA
from rlvr.agents.models.token_agent import Continuation, Draft, Sampled, TokenAgent

try:
    import torch

    from rlvr.agents.models.sampling import Sampling, lean_attention, require_numbers, uniforms
    from rlvr.agents.models.slots import Prefix, batch_of, column_of
except ImportError as error:
    raise ImportError(MISSING_EXTRA) from error


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    noise: Sequence[np.ndarray],
    end_ids: Iterable[int],
    sampling: Sampling,
    slots: int | None = None,
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
        slots: how many are sampled at once; the others wait, the longest prompt first. None: all of them.

    Raises:
        ValueError: the model does not use the cache it is given.
        FloatingPointError: the model's logits are NaN or infinite.
    """
    each = sample_each(model, prompts, limits, noise, end_ids, sampling, slots)
    ended = dict(each)
    return [ended[index] for index in range(len(limits))]


def sample_each(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    noise: Sequence[np.ndarray],
    end_ids: Iterable[int],
    sampling: Sampling,
    slots: int | None = None,
    prefixes: list[Prefix | None] | None = None,
) -> Iterator[tuple[int, Sampled]]:
    """`sample`, but each continuation as soon as it has ended, with the index of its prompt.

    Between two of them the model is in its own mode, and may be used otherwise, but not changed.

    Args:
        prefixes: of each prompt what an earlier call left of its beginning, or None; what this call leaves takes its
            place. Without them nothing is left.
    """
    with _sampling_mode(model):
        decoding = _Decoding(model, prompts, limits, noise, end_ids, sampling, slots, prefixes)
    while True:
        with _sampling_mode(model):
            ended = decoding.advance()
        if not ended:
            break
        yield from ended
    decoding.close()


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
    """One token a step in every slot, until each sequence has met an end token or its limit; see `sample`."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        noise: Sequence[np.ndarray],
        end_ids: Iterable[int],
        sampling: Sampling,
        slots: int | None,
        prefixes: list[Prefix | None] | None,
    ) -> None:
        count, longest = len(limits), max(limits)
        self._prompts, self._limits, self._prefixes = prompts, np.array(limits), prefixes
        # the longest first: like lengths together, so that few columns of a step are masked
        self._waiting = deque(sorted(range(count), key=lambda i: -len(prompts[i])))
        self._noise = np.zeros((count, longest))
        for index, values in enumerate(noise):
            self._noise[index, : len(values)] = values
        self._stops = tuple(sorted({*end_ids}))
        self._slots = min(slots or count, count)
        self._batch = batch_of(model, self._slots, longest, sampling, self._stops)
        self._tokens = np.zeros((count, longest), dtype=np.int64)
        self._logprobs = np.zeros((count, longest), dtype=np.float32)
        self._clear()

    def close(self) -> None:
        """Give back what the batch holds."""
        self._batch.close()

    def advance(self) -> list[tuple[int, Sampled]]:
        """Sample until at least one more has ended: those that then have, by index; none where all had before."""
        ended: list[tuple[int, Sampled]] = []
        while not ended:
            live = int((self._left > 0).sum())
            if self._waiting and self._may_refill(live):
                ended = self._refill(live)
            elif live:
                self._drop()
                ended = self._step()
            else:
                break
        return ended

    def _clear(self) -> None:
        # of each slot: the prompt that it continues, tokens so far, tokens still to sample, length without the last
        # token, and that token, which the cache does not hold yet
        self._origin, self._done, self._left, self._lengths, self._last = np.zeros((5, self._batch.rows), np.int64)

    def _may_refill(self, live: int) -> bool:
        if self._batch.refills:
            return self._slots - live >= max(1, self._batch.refill_share * self._slots)
        return not live  # none joins before all have ended

    def _refill(self, live: int) -> list[tuple[int, Sampled]]:
        """Give the slots that are free the next prompts, and sample the first token of each."""
        if not self._batch.refills:
            self._batch.rows = min(self._slots, len(self._waiting))
            self._clear()
        at = np.flatnonzero(self._left == 0)[: min(self._slots - live, len(self._waiting))]
        indices = np.array([self._waiting.popleft() for _ in at])
        prompts = [tuple(self._prompts[index]) for index in indices]
        self._origin[at], self._done[at], self._left[at] = indices, 0, self._limits[indices]
        self._lengths[at] = [len(prompt) for prompt in prompts]
        prefixes = [None if self._prefixes is None else self._prefixes[index] for index in indices]
        return self._record(at, *column_of(self._batch.read(at, prompts, self._noise[indices, 0], prefixes)))

    def _step(self) -> list[tuple[int, Sampled]]:
        """Sample a token of each sequence, or several where the device looks up less often."""
        steps = min(self._batch.look_every, int(self._left.max()))
        columns = np.minimum(self._done[:, None] + np.arange(steps), self._noise.shape[1] - 1)
        noise = self._noise[self._origin[:, None], columns]
        # what has ended goes on at the end of the longest, which is no further than all others must reach
        lengths = np.where(self._left > 0, self._lengths, self._lengths[self._left > 0].max())
        tokens, logprobs = self._batch.step(self._last, lengths, self._left, noise)
        self._lengths += steps
        return self._record(np.arange(len(self._left)), tokens, logprobs)

    def _record(self, at: np.ndarray, tokens: np.ndarray, logprobs: np.ndarray) -> list[tuple[int, Sampled]]:
        """Note tokens (n, k) of the slots ``at`` (n,), up to the end of each sequence; what has ended by them."""
        left, steps = self._left[at], tokens.shape[1]
        stops = np.isin(tokens, self._stops)
        taken = np.minimum(left, np.where(stops.any(1), stops.argmax(1) + 1, steps))
        row, step = (np.arange(steps) < taken[:, None]).nonzero()
        require_numbers(logprobs[row, step], row)
        origin, column = self._origin[at[row]], self._done[at[row]] + step
        self._tokens[origin, column], self._logprobs[origin, column] = tokens[row, step], logprobs[row, step]
        stopped = stops[np.arange(len(at)), taken - 1]  # of what had ended before, nothing is said
        self._done[at] += taken
        self._left[at] = np.where(stopped, 0, left - taken)
        self._last[at] = tokens[:, -1]
        ended = at[(left > 0) & (self._left[at] == 0)]
        self._keep_prefixes(ended)
        rows = zip(self._origin[ended].tolist(), self._done[ended].tolist(), strict=True)
        return [
            (index, (self._tokens[index, :length].tolist(), self._logprobs[index, :length].tolist()))
            for index, length in rows
        ]

    def _keep_prefixes(self, ended: np.ndarray) -> None:
        """Of the sequences in these slots, what their next turns need not read: all but the last token."""
        if self._prefixes is None:
            return
        for slot in ended.tolist():
            index = self._origin[slot]
            sampled = self._tokens[index, : self._done[slot] - 1].tolist()
            self._prefixes[index] = self._batch.prefix(slot, [*self._prompts[index], *sampled])

    def _drop(self) -> None:
        """Where no prompt waits for their slots, drop sequences that have ended; the last ones move up."""
        if self._waiting and self._batch.refills:
            return
        live = np.flatnonzero(self._left)
        count = self._batch.fewer_rows(len(live), len(self._left))
        if count == len(self._left):
            return
        order = np.arange(count)
        movers = live[live >= count]
        order[np.flatnonzero(self._left[:count] == 0)[: len(movers)]] = movers
        self._origin, self._done, self._left, self._lengths, self._last = (
            values[order] for values in (self._origin, self._done, self._left, self._lengths, self._last)
        )
        self._batch.keep(order)


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
        max_sequences: the most conversations sampled at once; the others wait until one of them ends. None: all.

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
        done = dict(self._sample_each(drafts, limits))
        return [done[index] for index in range(len(drafts))]

    def _sample_each(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterator[tuple[int, Continuation]]:
        starts = [(draft.conversation.key, draft.length) for draft in drafts]
        counts = [0] * len(drafts) if self.sampling.greedy else limits
        noise = [uniforms(self.seed, *start, count) for start, count in zip(starts, counts, strict=True)]
        prompts = [draft.prompt() for draft in drafts]
        prefixes = [draft.conversation.memory for draft in drafts]
        for index, sampled in sample_each(
            self.model, prompts, limits, noise, self.renderer.end_ids, self.sampling, self.max_sequences, prefixes
        ):
            drafts[index].conversation.memory = prefixes[index]
            yield index, sampled


def end_tokens(model: Any) -> list[int]:
    """The tokens at which the model's generation configuration says to stop."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if named is None:
        return []
    return [named] if isinstance(named, int) else list(named)
