"""The sampler of a run on a Tinker service: the weights of each version, which the service samples with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.models.calls import Calls
from rlvr.agents.models.token_agent import Continuation, Draft, TokenAgent
from rlvr.agents.models.vllm import seed_of
from rlvr.algorithms.config.sections import SamplerSection
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.sampling.confirm import Confirmation
from rlvr.algorithms.sampling.protocol import SamplerError, Weights
from rlvr.algorithms.tinker.learner import RemotePolicy
from rlvr.algorithms.tinker.service import TinkerError, TinkerWeights

SEEDS = 2**31  # a service takes seeds of 32 bits


class TinkerSampler:
    """Samples with the policy on the service, as it was at the last `sync`.

    Args:
        policy: that is trained.
        tokenizer: of its base model.
        max_length: the longest sequence of the run, in tokens.
        settings: of the sampler: how many replies at once, and by how many nats a log-probability of sampling may
            differ from that of training.
    """

    versioned = True

    def __init__(self, policy: RemotePolicy, tokenizer: Any, max_length: int, settings: SamplerSection) -> None:
        self.policy, self.tokenizer = policy, tokenizer
        self.version = 0
        self.weights: TinkerWeights | None = None
        self.concurrency = settings.concurrency
        # The service does not tell its precision: the bounds are those of half precision.
        self._confirmation = _Confirmation(policy, "bfloat16", max_length, settings.tolerance)

    def agent(self, **options: Any) -> TokenAgent:
        return TinkerAgent(self, self.tokenizer, end_ids=self.policy.end_ids, **options)

    def sync(self, weights: Weights, version: int) -> dict[str, float]:
        """Sample with what is trained; the service has the weights already. See `Sampler`."""
        # Before the check, so that what is checked is what will be sampled with.
        kept = self.policy.service.fresh_sampler()
        gap = self._confirmation.check(version, lambda tokens: kept.logprobs([tokens])[0][1:])
        self.weights, self.version = kept, version
        return {"sync_difference": gap}

    def sleep(self) -> None:
        """The service has memory of its own."""

    def recover(self) -> int:
        """The client asks again where a request is lost."""
        return 0

    def close(self) -> None:
        """The service is somebody else's."""


class _Confirmation(Confirmation):
    """Compares what the service samples with and what it trains."""

    def own(self) -> Tensor:
        return torch.tensor(self.model.service.logprobs([self.tokens])[0][1:])


class TinkerAgent(TokenAgent):
    """Samples replies on the service, many at once.

    The log-probabilities are those that the service records. Each reply has a seed of its own, made from (seed,
    conversation's key, position); whether the service's samples depend on it alone is the service's affair.

    Args:
        sampler: has the weights.
        temperature: 0 or ``greedy`` for the likeliest token, else 1.
        options: of `TokenAgent`.
    """

    def __init__(
        self, sampler: TinkerSampler, tokenizer: Any, *, temperature: float = 1.0, greedy: bool = False, **options: Any
    ) -> None:
        super().__init__(tokenizer, limit=None, **options)
        self._sampler = sampler
        self._temperature = 0.0 if greedy else temperature
        self._calls = Calls(sampler.concurrency)

    @property
    def submit(self) -> Callable[[Sequence[Conversation]], list[Future[Reply]]]:
        """`act` without waiting: a future reply to each conversation."""
        return self._submit

    def _submit(self, conversations: Sequence[Conversation]) -> list[Future[Reply]]:
        drafts = [self._draft(conversation) for conversation in conversations]
        return self._calls.start(lambda draft: self._finish([draft])[0], drafts)

    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> list[Continuation | str]:
        weights, version = self._sampler.weights, self._sampler.version
        if weights is None:
            raise SamplerError("nothing can be sampled before the first sync")
        # All requests go out before the first is waited for.
        futures = [
            weights.sample(
                draft.prompt(),
                max_tokens=limit,
                seed=seed_of(self.seed, draft.conversation.key, draft.length) % SEEDS,
                stop=sorted(self.renderer.end_ids),
                temperature=self._temperature,
            )
            for draft, limit in zip(drafts, limits, strict=True)
        ]
        return [self._continuation(future, version) for future in futures]

    def _continuation(self, future: Future[Any], version: int) -> Continuation | str:
        service = self._sampler.policy.service
        try:
            sample = service.result(future, "sample").sequences[0]
        except TinkerError as error:
            return str(error)  # of this episode alone
        ids, logprobs = list(map(int, sample.tokens)), [float(value) for value in sample.logprobs or ()]
        # Without them the sequence could not be trained on.
        if not ids or len(ids) != len(logprobs):
            return f"{service.address} sent {len(ids)} tokens with {len(logprobs)} log-probabilities"
        return ids, logprobs, [version] * len(ids)
