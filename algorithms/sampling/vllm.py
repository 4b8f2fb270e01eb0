"""vLLM as the sampler of a run: in this process, or a server that is started or runs already."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr.agents.models.token_agent import TokenAgent
from rlvr.agents.models.transformers import end_tokens
from rlvr.agents.models.vllm import PLAIN_OPTIONS, VLLMAgent
from rlvr.agents.models.vllm_live import LiveEngine
from rlvr.agents.models.vllm_process import ServerProcess
from rlvr.agents.models.vllm_training import ServesOthers, TrainingServer
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.sampling.confirm import Confirmation
from rlvr.algorithms.sampling.protocol import PolicyWeights, SamplerError, Weights, policy_weights
from rlvr.envs.core.code_rule import require_code
from rlvr.envs.core.files import make_folder, require_plain
from rlvr.envs.endpoint import Endpoint, EndpointError, call

RECOVERIES = 5  # of a server, in one run


class VLLMSampler:
    """What both have in common: agents, and that a sync is confirmed.

    Args:
        config: of the run.
        model, tokenizer: the learner's.
        folder: where the policy and the weights are written for vLLM to read.
    """

    versioned = True
    engine: LiveEngine | TrainingServer

    def __init__(self, config: TrainConfig, model: Any, tokenizer: Any, folder: Path) -> None:
        # A config may come from a stranger; some of vLLM's options name classes and files, which it would load.
        for name in sorted(config.sampler.options.keys() - PLAIN_OPTIONS):
            require_code(f"sampler.options.{name}, which vLLM may take for a class or a file to load,")
        self.config, self.model, self.tokenizer, self.folder = config, model, tokenizer, folder
        self.version = 0
        self._end_ids = end_tokens(model)
        # Which log-probabilities an engine records is a setting of its own: the first agent looks once.
        self._probed = False
        make_folder(folder)
        require_plain(folder)

    def _confirm(self, dtype: str) -> None:
        # A server may take shorter sequences than the config allows.
        limit = min(self.engine.limit or self.config.sampling.max_length, self.config.sampling.max_length)
        self.confirmation = Confirmation(self.model, dtype, limit, self.config.sampler.tolerance)

    def _options(self) -> dict[str, Any]:
        """Options of vLLM; the config's own win."""
        settings = self.config
        return {
            "dtype": settings.model.dtype,
            "max_model_len": settings.sampling.max_length,
            "max_num_seqs": settings.sampler.concurrency,
            # The members of a group share a prompt, and each turn begins with all turns before it.
            "enable_prefix_caching": True,
            # The learner's logits are float32 then, and so must be those that are sampled from.
            **({"hf_overrides": {"head_dtype": "float32"}} if settings.model.float32_head else {}),
            **settings.sampler.options,
        }

    def _write_policy(self) -> Path:
        """The policy in the format of transformers, for its shapes; the weights come anew with the first sync."""
        target = self.folder / "policy"
        make_folder(target)
        require_plain(target)
        base = getattr(self.model, "base_model", None)
        # vLLM is given the plain model: adapters are added to the weights that they adapt, so each sync is of one kind.
        inner = base.model if hasattr(self.model, "peft_config") and base is not None else self.model
        inner.save_pretrained(target, state_dict={name: t.contiguous() for name, t in policy_weights(self.model)})
        self.tokenizer.save_pretrained(target)
        return target

    def agent(self, **options: Any) -> TokenAgent:
        """A `VLLMAgent`; the first looks which log-probabilities the engine records.

        Raises:
            SamplerError: not those of the distribution that it samples from.
        """
        try:
            agent = VLLMAgent(self.engine, self.tokenizer, end_ids=self._end_ids, probe=not self._probed, **options)
        except EndpointError as error:
            raise self._failed(error) from error
        except ValueError as error:
            raise SamplerError(f"sampler: {error}") from error
        self._probed = True
        return agent

    def _failed(self, error: EndpointError) -> SamplerError:
        """What a call that failed is to be told as."""
        return SamplerError(f"sampler.url: {error}")

    def sleep(self) -> None:
        """A server has memory of its own."""

    def recover(self) -> int:
        """An engine of this process is not lost without the process."""
        return 0


class LocalSampler(VLLMSampler):
    """A vLLM in this process, which takes the learner's tensors as they are."""

    engine: LiveEngine

    def __init__(self, config: TrainConfig, model: Any, tokenizer: Any, folder: Path) -> None:
        super().__init__(config, model, tokenizer, folder)
        # Asleep, the engine gives its weights and its KV cache back to the learner, on the same GPU.
        options = self._options() | ({"enable_sleep_mode": True} if config.sampler.sleep else {})
        if config.sampler.sleep and not next(model.parameters()).is_cuda:
            raise ConfigError("sampler.sleep gives back memory of a GPU, and model.device is a CPU: leave it out")
        self.engine = LiveEngine(
            str(self._write_policy()), **{"concurrency": config.sampler.concurrency, **without_count(options)}
        )
        self._confirm(config.model.dtype)

    def sync(self, weights: Weights, version: int) -> dict[str, float]:
        """Load the tensors between two steps of the engine; see `Sampler`."""
        # An engine that sleeps has no weights to write to.
        if self.engine.asleep:
            self.engine.wake()
        self.engine.update_weights(weights(), version)
        self.version = version
        # Scored by the engine itself after the update: what it says of its version is no proof.
        return {"sync_difference": self.confirmation.check(version, self.engine.prompt_logprobs)}

    def sleep(self) -> None:
        """Give the memory of a GPU back until the next sync, where the config asks for it."""
        if self.config.sampler.sleep:
            self.engine.sleep()

    def close(self) -> None:
        self.engine.close()


class ServerSampler(VLLMSampler):
    """A vLLM server, which reads the weights from a file."""

    engine: TrainingServer

    def __init__(
        self, config: TrainConfig, model: Any, tokenizer: Any, folder: Path, say: Callable[[str], None]
    ) -> None:
        super().__init__(config, model, tokenizer, folder)
        if config.sampler.sleep:
            raise ConfigError("sampler.sleep is for sampler: vllm, whose GPU is the learner's too: leave it out")
        self.say = say
        self.process: ServerProcess | None = None
        # The last weights sent: a server that comes back without them is sent them again.
        self._weights: Weights | None = None
        self._base: Path | None = None  # the file of what adapters are added to, once it is written
        self._recovered = 0
        self._confirmed = False  # whether a sync has ever been
        try:
            self._connect()
        # A server that was started must not outlive a run that could not begin.
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        settings = self.config.sampler
        try:
            self.engine = TrainingServer(self._endpoint(), concurrency=settings.concurrency)
        except EndpointError as error:
            raise self._failed(error) from error
        except ValueError as error:
            raise SamplerError(f"sampler.url: {error}") from error
        facts, size = self.engine.facts, int(self.model.config.get_text_config().vocab_size)
        # The engine would map ids to other words, and its log-probabilities would be of those.
        if facts["vocabulary"] != size:
            raise SamplerError(
                f"sampler.url: {self.engine.endpoint.address()} serves a model with a vocabulary of "
                f"{facts['vocabulary']} tokens, and model.name has {size}: serve the same model"
            )
        # The ratio pi / mu needs mu as it was sampled from: after temperature, top-k and top-p.
        if "processed" not in facts["logprobs_mode"]:
            raise SamplerError(
                f"sampler.url: {self.engine.endpoint.address()} reports {facts['logprobs_mode']}, which are not those "
                "it samples from: start it with --logprobs-mode processed_logprobs"
            )
        longest, limit = self.engine.limit, self.config.sampling.max_length
        if longest is not None and longest < limit:
            raise SamplerError(
                f"sampler.url: {self.engine.endpoint.address()} takes sequences of {longest} tokens, and "
                f"sampling.max_length is {limit}: start it with --max-model-len {limit}, or lower sampling.max_length"
            )
        self._confirm(facts["dtype"])

    def _failed(self, error: EndpointError) -> SamplerError:
        """The address of a server that the run has started tells nobody anything; its log does."""
        return (
            super()._failed(error) if self.process is None else SamplerError(f"sampler: {self.process.explain(error)}")
        )

    def _endpoint(self) -> Endpoint:
        settings = self.config.sampler
        if not settings.url:
            log = self.folder / "server.log"
            try:
                self.process = ServerProcess(self._write_policy(), log, self._options(), deadline=settings.deadline)
            except RuntimeError as error:
                raise SamplerError(f"sampler: {error}") from error
            return self.process.endpoint
        key = ""
        if settings.api_key_env:
            if settings.api_key_env not in os.environ:
                raise ConfigError(f"sampler.api_key_env names {settings.api_key_env}, which is not set")
            key = os.environ[settings.api_key_env]
        name = settings.served_model
        endpoint = Endpoint(settings.url, name, key, deadline=settings.deadline)
        return endpoint if name else with_only_model(endpoint)

    def sync(self, weights: Weights, version: int) -> dict[str, float]:
        """Write the tensors to a file and have the server load it; see `Sampler`.

        A server that is lost meanwhile is brought back, and sent the same weights again.
        """
        self._weights = weights
        while True:
            try:
                self._send(weights, version)
                # Another client may have sent weights of its own meanwhile.
                self.engine.require_version()
                gap = self.confirmation.check(version, self.engine.prompt_logprobs)
                break
            except (EndpointError, ServesOthers) as error:
                why = self.process.explain(error) if self.process is not None else str(error)
                # A server that has never sampled with the run's weights will not do so the second time.
                if not self._confirmed or not self._gone(error):
                    raise SamplerError(f"the sync to version {version} failed: {why}") from error
                self._bring_back(f"the sync to version {version} failed: {why}")
        self.version, self._confirmed = version, True
        return {"sync_difference": gap}

    def _gone(self, error: EndpointError | ServesOthers) -> bool:
        """Whether a call failed because the server is gone or began anew; one that answers with an error is not."""
        if self.process is not None and not self.process.alive:
            return True
        return isinstance(error, ServesOthers) or not error.status or error.status >= 500

    def _send(self, weights: Weights, version: int) -> None:
        if isinstance(weights, PolicyWeights) and (adapters := weights.adapters()) is not None:
            # What the adapters are added to stays the same: it is written once.
            if self._base is None:
                self._base, _ = self._write("base", weights.base(), version)
            path, count = self._write("adapters", adapters.items(), version)
            self.engine.update_adapters(self._base, path, count, version)
        else:
            path, count = self._write("weights", weights(), version)
            self.engine.update_weights(path, count, version)

    def _write(self, name: str, weights: Iterable[tuple[str, Tensor]], version: int) -> tuple[Path, int]:
        """The file, there whole or not at all, and how many tensors it holds."""
        from safetensors.torch import save_file

        # safetensors takes contiguous tensors of the CPU, each once: tied ones are one parameter.
        tensors = {name: tensor.contiguous().cpu() for name, tensor in weights}
        path, draft = self.folder / f"{name}.safetensors", self.folder / f"{name}.draft"
        save_file(tensors, draft, metadata={"version": str(version)})
        draft.replace(path)
        return path.resolve(), len(tensors)

    def recover(self) -> int:
        """How often the server was lost; one that this run has started is started again, see `Sampler`.

        Raises:
            SamplerError: it does not come back within sampler.deadline, or too often.
        """
        ended = self.process is not None and not self.process.alive
        try:
            if not ended and not self.engine.lost:
                self.engine.require_version()
                return self._recovered
            why = self.engine.lost or "the server has ended"
        except (EndpointError, ServesOthers) as error:
            why = str(error)
        if self._weights is None:
            raise SamplerError(f"the sampler was lost before it had weights: {why}")
        self._bring_back(why, restart=ended)
        self.sync(self._weights, self.version)
        return self._recovered

    def _bring_back(self, why: str, restart: bool = True) -> None:
        """Wait for a server at sampler.url; with ``restart``, end one that this run has started and start it again.

        Raises:
            SamplerError: it does not come back, or was lost too often.
        """
        self._recovered += 1
        # A server that dies of what it is asked would be started for ever.
        if self._recovered > RECOVERIES:
            if self.process is not None:
                why = self.process.explain(why)
            raise SamplerError(f"the sampler was lost {self._recovered} times, the last time because {why}")
        self.say(f"the sampler was lost: {why}; its weights are sent again, and what had failed is played again")
        if self.process is None:
            self._await_server()
        elif restart:
            # Agents hold the old engine: it goes on under the new address.
            old = self.engine
            self.process.close()
            self._connect()
            old.adopt(self.engine)
            self.engine = old

    def _await_server(self) -> None:
        """Wait until the server at sampler.url answers."""
        seconds = self.config.sampler.deadline
        end = time.monotonic() + seconds
        while True:
            try:
                call(self.engine.endpoint, "/v1/models")
                return
            except EndpointError as error:
                if time.monotonic() >= end:
                    raise SamplerError(
                        f"sampler.url: {error}; it did not come back within {seconds:g} s (sampler.deadline)"
                    ) from error
            time.sleep(0.5)

    def close(self) -> None:
        """End the server, if this run has started it."""
        if self.process is not None:
            self.process.close()
        for name in ("weights", "base", "adapters"):
            for end in ("safetensors", "draft"):
                (self.folder / f"{name}.{end}").unlink(missing_ok=True)


def with_only_model(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the name of the only model that it serves.

    Raises:
        SamplerError: it does not answer, or serves none or several.
    """
    root = replace(endpoint, base_url=endpoint.base_url.rstrip("/").removesuffix("/v1"))
    try:
        served = call(root, "/v1/models").get("data")
    except EndpointError as error:
        raise SamplerError(f"sampler.url: {error}") from error
    names = [str(entry.get("id")) for entry in served or [] if isinstance(entry, dict)]
    if len(names) != 1:
        raise SamplerError(
            f"sampler.url: {root.address()} serves {', '.join(names) or 'no model'}: name one in sampler.served_model"
        )
    return replace(root, model=names[0])


def without_count(options: dict[str, Any]) -> dict[str, Any]:
    """Without the number of sequences, which the engine is given by its own name."""
    return {name: value for name, value in options.items() if name != "max_num_seqs"}
