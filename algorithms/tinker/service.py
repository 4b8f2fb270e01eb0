"""A Tinker service, hosted or SkyRL's own server: requests, and errors as sentences. Tested with tinker 0.24.

Sequences go as rows of tokens. A row of T tokens is T - 1 inputs and T - 1 targets, so the log-probability of a token
stands where the token does, and that of the first is 0.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.config.sections import EngineSection
from rlvr.algorithms.sampling.protocol import SamplerError

MISSING = 'engine: tinker needs the client of the Tinker API: pip install "tinker>=0.24"'
KEY = "TINKER_API_KEY"
NO_KEY = "tml-none"  # a server of one's own does not look at it, and the client will not go without

T = TypeVar("T")


class TinkerError(SamplerError):
    """The service did not do what the run asked for; one sentence says what."""


class TinkerService:
    """One policy, a LoRA adapter, on a service.

    Args:
        settings: where it is, and the base model's name there.
        rank: of the adapter.
        seed: of its initial weights.

    Raises:
        ImportError: the client is missing.
        ConfigError: no key is set, or the service has no such model.
        TinkerError: the service does not answer.
    """

    def __init__(self, settings: EngineSection, rank: int, seed: int) -> None:
        try:
            # By name: the package is no dependency, and its types are not here when types are checked.
            self._tinker: Any = importlib.import_module("tinker")
        except ModuleNotFoundError as error:
            if error.name != "tinker":
                raise
            raise ImportError(MISSING) from error
        self.address = settings.url or "the hosted service"
        self.deadline = settings.deadline
        self._key = _key(settings)
        # Without an address the client goes to the hosted service.
        options = {"base_url": settings.url} if settings.url else {}
        with self._spoken("connect"):
            self._client = self._tinker.ServiceClient(api_key=self._key, **options)
            models = [model.model_name for model in self._client.get_server_capabilities().supported_models]
        name = settings.base_model
        # A service may hide its list; then creating the adapter tells.
        if models and name not in models:
            raise ConfigError(f"engine.base_model: {self.address} has no model {name!r}; it has {', '.join(models)}")
        with self._spoken("create_lora_training_client"):
            self._training = self._client.create_lora_training_client(name, rank=rank, seed=seed)

    # training

    def logprobs(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Of each row the log-probabilities of its tokens, at temperature 1; 0 for the first of a row."""
        # The loss is thrown away; every service scores for this one.
        data = [self._datum(row, weights=[1.0] * (len(row) - 1)) for row in rows]
        results = self._wait("forward", lambda: self._training.forward(data, "cross_entropy"))
        return [
            [0.0, *self._floats(out, "logprobs", len(row))]
            for out, row in zip(self._outputs(results, rows), rows, strict=True)
        ]

    def backward(
        self,
        rows: Sequence[Sequence[int]],
        logprobs: Sequence[Sequence[float]],
        logprob_grads: Sequence[Sequence[float]],
    ) -> dict[str, float]:
        """Add the gradient of sum_i sum_t slope_it log pi(y_it) to the service's; its metrics.

        The service's loss is -ratio x advantage, of a ratio to the log-probabilities that it is given. With its own,
        the ratio is 1, its gradient that of log pi, and an advantage is a slope with the other sign.
        """
        # d(-r A) / d log pi = -r A, with r = pi / pi = 1: so A = -slope
        data = [
            self._datum(row, logprobs=old[1:], advantages=[-slope for slope in slope_row[1:]])
            for row, old, slope_row in zip(rows, logprobs, logprob_grads, strict=True)
        ]
        result = self._wait("forward_backward", lambda: self._training.forward_backward(data, "importance_sampling"))
        return dict(getattr(result, "metrics", None) or {})

    def step(
        self, *, lr: float, betas: tuple[float, float], weight_decay: float, max_grad_norm: float
    ) -> dict[str, float]:
        """An update of AdamW with the gradients that were added, which are cleared; the service's metrics of it."""
        params = self._tinker.AdamParams(
            learning_rate=lr,
            beta1=betas[0],
            beta2=betas[1],
            eps=1e-8,  # of torch; the client's own default is 1e-12
            weight_decay=weight_decay,
            grad_clip_norm=max_grad_norm,
        )
        result = self._wait("optim_step", lambda: self._training.optim_step(params))
        return dict(getattr(result, "metrics", None) or {})

    def save(self, name: str) -> str:
        """Keep the adapter and the optimiser's state on the service; the path that `load` takes."""
        result = self._wait("save_state", lambda: self._training.save_state(name))
        return str(result.path)

    def load(self, path: str) -> None:
        """Go on from what `save` kept."""
        self._wait("load_state", lambda: self._training.load_state_with_optimizer(path))

    # sampling

    def keep_for_sampling(self, name: str) -> str:
        """Keep the adapter as it is now, to sample with; the path that `sampler` takes."""
        result = self._wait("save_weights_for_sampler", lambda: self._training.save_weights_for_sampler(name))
        return str(result.path)

    def fresh_sampler(self) -> TinkerWeights:
        """The adapter as it is now, to sample with; the service forgets it with the run."""
        with self._spoken("save_weights_for_sampler"):
            return TinkerWeights(self, self._training.save_weights_and_get_sampling_client())

    def sampler(self, path: str) -> TinkerWeights:
        """The adapter that was kept under a path."""
        # A path outlives this client: a run that goes on finds its reference under it.
        with self._spoken("create_sampling_client"):
            return TinkerWeights(self, self._training.create_sampling_client(path))

    def archive(self, path: str) -> str:
        """The address at which an adapter that was kept for sampling can be fetched for a while, as a tar archive."""
        with self._spoken("get_checkpoint_archive_url"):
            rest = self._client.create_rest_client()
            return str(rest.get_checkpoint_archive_url_from_tinker_path(path).result(self.deadline).url)

    # requests

    def tokens(self, row: Sequence[int]) -> Any:
        """A row as the service takes it."""
        return self._tinker.ModelInput.from_ints(list(row))

    def params(self, **options: Any) -> Any:
        """How to sample, as the service takes it."""
        return self._tinker.SamplingParams(**options)

    def result(self, future: Future[T], request: str) -> T:
        """Wait for an answer.

        Raises:
            TinkerError: there is none, or not in time.
        """
        with self._spoken(request):
            return future.result(self.deadline)

    def _wait(self, request: str, ask: Callable[[], Any]) -> Any:
        with self._spoken(request):
            return ask().result(self.deadline)

    @contextmanager
    def _spoken(self, request: str) -> Iterator[None]:
        try:
            yield
        except (self._tinker.TinkerError, TimeoutError, OSError, ValueError) as error:  # ValueError: of a failed future
            # Clients put whole responses into their messages.
            text = " ".join(str(error).split()) or type(error).__name__
            within = f" within engine.deadline, {self.deadline:g} s" if isinstance(error, TimeoutError) else ""
            raise TinkerError(f"engine: {self.address} did not answer {request}{within}: {text[:300]}") from error

    def _datum(self, row: Sequence[int], **columns: Sequence[float]) -> Any:
        tensor = self._tinker.TensorData
        # Input t predicts target t: the row without its last token, and without its first.
        inputs = {"target_tokens": tensor(data=list(row[1:]), dtype="int64", shape=[len(row) - 1])}
        for name, values in columns.items():
            inputs[name] = tensor(data=list(values), dtype="float32", shape=[len(row) - 1])
        return self._tinker.Datum(model_input=self.tokens(row[:-1]), loss_fn_inputs=inputs)

    def _outputs(self, result: Any, rows: Sequence[Sequence[int]]) -> list[Any]:
        # A row that is left out would shift all after it.
        outputs = list(result.loss_fn_outputs)
        if len(outputs) != len(rows):
            raise TinkerError(f"engine: {self.address} scored {len(outputs)} sequences, {len(rows)} were asked for")
        return outputs

    def _floats(self, output: Any, name: str, length: int) -> list[float]:
        values = [float(value) for value in output[name].data]
        if len(values) != length - 1:
            raise TinkerError(f"engine: {self.address} scored {len(values)} tokens, {length - 1} were asked for")
        return values


def _key(settings: EngineSection) -> str:
    """The key that the environment has.

    Raises:
        ConfigError: it has none, and the config names one or means the hosted service.
    """
    name = settings.api_key_env or KEY
    if name not in os.environ and (settings.api_key_env or not settings.url):
        raise ConfigError(f"engine.api_key_env: the environment variable {name} is not set")
    return os.environ.get(name, NO_KEY)


class TinkerWeights:
    """The weights of one version, which the service samples with."""

    def __init__(self, service: TinkerService, client: Any) -> None:
        self.service, self._client = service, client

    def sample(self, prompt: Sequence[int], **options: Any) -> Future[Any]:
        """Begin to sample one continuation; the client's own answer, with ``sequences``."""
        future: Future[Any] = self._client.sample(self.service.tokens(prompt), 1, self.service.params(**options))
        return future

    def logprobs(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Of each row the log-probabilities of its tokens; 0 for the first of a row."""
        # All at once: the client spaces requests as the service asks.
        futures = [self._client.compute_logprobs(self.service.tokens(row)) for row in rows]
        results = []
        for row, future in zip(rows, futures, strict=True):
            values = self.service.result(future, "compute_logprobs")
            # The first token has no log-probability: None, 0 or left out, as services differ.
            if values is None or len(values) not in (len(row), len(row) - 1) or None in values[1:]:
                raise TinkerError(f"engine: {self.service.address} gave no log-probabilities of a prompt's tokens")
            results.append([0.0, *map(float, values[1 - len(row) :])])
        return results
