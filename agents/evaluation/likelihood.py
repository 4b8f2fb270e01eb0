"""Multiple choice by likelihood: the option that the model finds likeliest is played, and nothing is sampled.

The figures are those of lm-evaluation-harness: prompt and options are plain text without chat template and system
prompt, and an option stands behind one blank. Where the prompt ends with blanks, they count as the option's. Prompt and
option are encoded as one text, and all tokens but the first n are the option's, where n is what the prompt alone has.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlvr.agents.conversation import Conversation, Reply

if TYPE_CHECKING:
    from rlvr.envs.core.task import MultipleChoice

Pair = tuple[list[int], list[int]]  # token ids of a prompt, and of an option behind it
TOKENS_AT_ONCE = 2**12  # of a batch, padding included: logits are made behind the shortest prompt of a batch


def require_choices(env: Any) -> MultipleChoice:
    """The options of the task that an environment is at.

    Raises:
        ValueError: it has none, or is no environment of ours.
    """
    choices: MultipleChoice | None = env.choices() if hasattr(env, "choices") else None
    if choices is None:
        name = env.spec.id if getattr(env, "spec", None) is not None else type(env).__name__
        raise ValueError(
            f"{name} has no options to score by likelihood: take a multiple choice, such as rlvr/ARC-v0 or "
            "rlvr/MMLU-v0, or sample replies"
        )
    return choices


class LikelihoodAgent:
    """Plays the option with the highest log-probability behind the task's plain prompt (`Task.choices`).

    Each reply names the log-probabilities of all options. Of equal ones the first is played. A prompt that the model
    cannot take whole is not cut: its reply's stop is "context".

    Args:
        model: a transformers causal language model, on any device; its mode is left as it was.
        tokenizer: its tokenizer; no chat template is needed.
        normalised: divide each log-probability by the option's number of characters, so that long options stand a
            chance: lm-evaluation-harness's acc_norm in place of acc.
        max_length: the longest sequence in tokens; by default what the model's configuration names.
    """

    def __init__(self, model: Any, tokenizer: Any, *, normalised: bool = False, max_length: int | None = None) -> None:
        limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.model, self.tokenizer, self.normalised = model, tokenizer, normalised
        self.max_length = min(max_length or limit, limit) if limit else max_length

    @property
    def description(self) -> dict[str, Any]:
        """Who plays, as `rlvr.agents.Episode.agent` has it."""
        from rlvr.agents.revision import revision_of

        name = self.tokenizer.name_or_path
        score = "likelihood-norm" if self.normalised else "likelihood"
        sampling = {"score": score, "max_length": self.max_length}
        return {"model": name, "revision": revision_of(name), "sampling": sampling}

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order.

        Raises:
            ValueError: an environment has no options.
            FloatingPointError: the model's logits are NaN.
        """
        asked = [require_choices(conversation.env) for conversation in conversations]
        pairs = [[self._encode(choices.prompt, option) for option in choices.options] for choices in asked]
        refusals = [self._refusal(each) for each in pairs]
        comparable = [each for each, refusal in zip(pairs, refusals, strict=True) if refusal is None]
        logprobs = iter(option_logprobs(self.model, [pair for each in comparable for pair in each]))
        return [
            refusal or self._reply(choices, each, [next(logprobs) for _ in each])
            for choices, each, refusal in zip(asked, pairs, refusals, strict=True)
        ]

    def _encode(self, prompt: str, option: str) -> Pair:
        ids = self.tokenizer.encode(prompt.rstrip())
        return ids, self.tokenizer.encode(f"{prompt} {option}")[len(ids) :]

    def _refusal(self, pairs: list[Pair]) -> Reply | None:
        """The reply where the options cannot be compared; None where they can."""
        if not all(prompt and option for prompt, option in pairs):
            return Reply("", "error", error="an option, or the prompt before it, has no tokens of its own")
        longest = max(len(prompt) + len(option) - 1 for prompt, option in pairs)  # the last token is not read
        if self.max_length is not None and longest > self.max_length:
            return Reply("", "context", limit=f"max_length {self.max_length}")
        return None

    def _reply(self, choices: MultipleChoice, pairs: list[Pair], logprobs: list[float]) -> Reply:
        scores = logprobs
        if self.normalised:
            scores = [value / max(1, len(option)) for value, option in zip(logprobs, choices.options, strict=True)]
        best = max(range(len(scores)), key=scores.__getitem__)  # of equal ones the first
        usage = {"prompt_tokens": sum(len(prompt) + len(option) for prompt, option in pairs)}
        return Reply(choices.actions[best], usage=usage, option_logprobs=logprobs)


def option_logprobs(model: Any, pairs: Sequence[Pair]) -> list[float]:
    """For each pair log p(option | prompt): the sum over the option's tokens, of the model's logits in float64.

    Options of one prompt that differ in their last token alone share one pass.

    Raises:
        FloatingPointError: the model's logits are NaN.
    """
    import torch

    sharing: dict[tuple[int, ...], list[int]] = {}  # by what the model reads, the last token left out
    for number, (prompt, option) in enumerate(pairs):
        sharing.setdefault((*prompt, *option[:-1]), []).append(number)
    sums = [0.0] * len(pairs)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for inputs in _batches(sharing):
                numbers = [number for ids in inputs for number in sharing[ids]]
                rows = [row for row, ids in enumerate(inputs) for _ in sharing[ids]]
                values = _batch_sums(model, inputs, rows, [pairs[number] for number in numbers])
                for number, value in zip(numbers, values, strict=True):
                    sums[number] = value
    finally:
        model.train(training)
    if any(map(math.isnan, sums)):
        raise FloatingPointError(
            "the model's logits are NaN, so no option can be compared: its weights have diverged or its precision "
            "overflows; go back to an earlier checkpoint, or use float32 or bfloat16"
        )
    return [max(value, -sys.float_info.max) for value in sums]  # JSON has no -inf, of a token that cannot come


def _batches(inputs: Iterable[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """Inputs, the longest first, in batches whose tokens, padding included, stay within bounds."""
    batch: list[tuple[int, ...]] = []
    for ids in sorted(inputs, key=len, reverse=True):
        if batch and (len(batch) + 1) * len(batch[0]) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


def _batch_sums(model: Any, inputs: list[tuple[int, ...]], rows: list[int], pairs: list[Pair]) -> list[float]:
    """The sum of each pair, which is scored in one of the rows of a batch of inputs (B, T)."""
    import torch

    device = model.get_input_embeddings().weight.device
    longest = len(inputs[0])
    ids = torch.tensor([[*each, *each[:1] * (longest - len(each))] for each in inputs], device=device)
    first = min(len(prompt) for prompt, _ in pairs) - 1
    # padded on the right: causal layers need no mask
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=longest - first).logits  # (B, T - first, V)
    sums = []
    for row, (prompt, option) in zip(rows, pairs, strict=True):
        start = len(prompt) - 1 - first
        logprobs = logits[row, start : start + len(option)].double().log_softmax(-1)
        targets = torch.tensor(option, device=device)[:, None]
        sums.append(logprobs.gather(1, targets).sum())
    values: list[float] = torch.stack(sums).tolist()
    return values
