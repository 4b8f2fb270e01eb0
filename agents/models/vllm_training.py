"""A vLLM server that samples for a training run: it takes new weights, and each token says which weights sampled it.

The weights go through a file that both can read, and a worker extension loads it (`vllm_worker`). While they change,
the server is paused by interrupting what is under way; a reply that was interrupted goes on from its tokens with the
new weights (AReaL, 2505.24298). vLLM's pause that keeps requests is not used: with seeds it ends the engine on CPUs.

Start one by hand with VLLM_SERVER_DEV_MODE=1 and ``vllm serve MODEL --enable-scale-out --logprobs-mode
processed_logprobs --worker-extension-cls rlvr.agents.models.vllm_worker.WeightLoader``, on a machine without a GPU
with ``--no-enable-chunked-prefill`` too. Whoever reaches such a server can change what it serves: bind it to the
loopback.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlvr.agents.models.token_agent import Continuation
from rlvr.agents.models.vllm import NO_LOGPROB, PATH, ServerEngine, mix_seed
from rlvr.agents.models.vllm_worker import EXTENSION
from rlvr.envs.endpoint import Endpoint, EndpointError, call

STARTED_WITH = f"start it with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out --worker-extension-cls {EXTENSION}"
# Replies of one prompt that may come back unfinished; somebody else would have to interrupt so often.
MOST_PARTS = 100


class ServesOthers(RuntimeError):
    """The server samples with weights that are not this run's: it was restarted, or somebody else has changed them."""


class TrainingServer(ServerEngine):
    """A `ServerEngine` whose weights are this run's.

    Attributes:
        version: of the weights that it samples with; meaningful after the first `update_weights`.
        lost: why its weights are no longer this run's; "" while they are. `update_weights` begins anew.

    Args:
        endpoint: its address, the model's name there, its key, and the total deadline of a call.
        concurrency: calls under way at once.

    Raises:
        ValueError: the server does not serve the model, or was started without what a run needs; says how to start it.
        EndpointError: the server does not answer.
    """

    def __init__(self, endpoint: Endpoint, *, concurrency: int = 256) -> None:
        super().__init__(endpoint, concurrency=concurrency)
        self.version = 0
        self.lost = ""
        self._run = uuid4().hex[:12]
        self._label = ""  # what the server calls this run's weights; "" before it has them
        self._open = threading.Event()  # cleared while the weights change
        self._open.set()
        self.facts = self._describe()

    def _describe(self) -> dict[str, Any]:
        try:
            [facts, *_] = self._rpc("rlvr_describe")
        except EndpointError as error:
            if error.status in (404, 400, 500):
                raise ValueError(f"{self.endpoint.address()} takes no new weights: {STARTED_WITH}") from error
            raise
        if facts.get("chunked_on_cpu"):
            raise ValueError(
                f"{self.endpoint.address()} computes long prompts in pieces on a CPU, where seeds then end vLLM 0.32: "
                "start it with --no-enable-chunked-prefill"
            )
        return dict(facts)

    def _rpc(self, method: str, **arguments: str) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = call(
            self.endpoint, "/collective_rpc", {"method": method, "kwargs": arguments}
        ).get("results", [])
        for result in results:
            if result.get("error"):
                raise EndpointError(f"{self.endpoint.address()} {result['error']}", 200)
        if not results:
            raise EndpointError(f"{self.endpoint.address('/collective_rpc')} sent no result", 200)
        return results

    def update_weights(self, path: Path, tensors: int, version: int) -> None:
        """Have the server load this file of safetensors, which holds so many tensors, and call it this version.

        Raises:
            EndpointError: it could not, or did not answer; it keeps interrupting replies until an update succeeds.
        """
        self._update(version, "rlvr_load_weights", path=os.fspath(path), count=str(tensors))

    def update_adapters(self, base: Path, path: Path, tensors: int, version: int) -> None:
        """The same with the weights of ``base`` and the adapters of ``path``, which holds so many tensors."""
        self._update(version, "rlvr_load_adapters", base=os.fspath(base), path=os.fspath(path), count=str(tensors))

    def _update(self, version: int, method: str, **files: str) -> None:
        self._open.clear()
        try:
            call(self.endpoint, "/pause?mode=abort", {})  # forgets the prefixes that the old weights computed
            self._rpc(method, **files)
            self._label = f"{self._run}:{version}"
            call(self.endpoint, "/update_weight_version", {"new_version": self._label})
            call(self.endpoint, "/resume", {})
            self.version, self.lost = version, ""
        finally:
            self._open.set()

    def adopt(self, other: TrainingServer) -> None:
        """Go on with another server in the place of this one, whose agents keep it."""
        self.endpoint, self.limit, self.facts = other.endpoint, other.limit, other.facts
        self._label = other._label

    def require_version(self) -> None:
        """Ask the server which weights it has.

        Raises:
            ServesOthers: not this run's last ones.
            EndpointError: it does not answer.
        """
        label = call(self.endpoint, "/weight_info").get("weight_version")
        if label != self._label:
            raise ServesOthers(self._explain(label))

    def prompt_logprobs(self, prompt: Sequence[int]) -> list[float]:
        """The log-probability of each token of a text but the first, at temperature 1.

        Raises:
            EndpointError: the server does not answer, or without them.
        """
        options = {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 0, "detokenize": False}
        body = {"model": self.endpoint.model, "token_ids": list(prompt), "sampling_params": options}
        answer = call(self.endpoint, PATH, body)
        try:
            logprobs = [
                float(entry[str(token)]["logprob"])
                for token, entry in zip(prompt[1:], answer["prompt_logprobs"][1:], strict=True)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise EndpointError(
                f"{self.endpoint.address(PATH)} sent no log-probabilities of the prompt's tokens", 200
            ) from error
        return logprobs

    def _one(self, asked: tuple[Sequence[int], Mapping[str, Any]]) -> Continuation | str:
        """A reply, in as many parts as it is interrupted."""
        prompt, options = list(asked[0]), dict(asked[1])
        max_tokens, seed = options["max_tokens"], options.get("seed", 0)
        ids: list[int] = []
        logprobs: list[float] = []
        versions: list[int] = []
        for _ in range(MOST_PARTS):
            if not self._open.wait(self.endpoint.deadline):
                return f"the weights of {self.endpoint.address()} did not come within {self.endpoint.deadline:g} s"
            if ids:
                options |= {"max_tokens": max_tokens - len(ids), "seed": mix_seed(seed, len(ids))}
            part = self._part([*prompt, *ids], options)
            if isinstance(part, str):
                return part
            ids, logprobs, versions = ids + part[0], logprobs + part[1], versions + part[2]
            if not part[3] or len(ids) >= max_tokens:
                return (ids, logprobs, versions) if ids else f"{self.endpoint.address(PATH)} sampled nothing"
        return f"{self.endpoint.address(PATH)} was interrupted {MOST_PARTS} times in one reply: who else pauses it?"

    def _part(
        self, prompt: list[int], options: Mapping[str, Any]
    ) -> tuple[list[int], list[float], list[int], bool] | str:
        """Tokens, log-probabilities, versions, and whether it was interrupted; or why there are none."""
        body = {"model": self.endpoint.model, "token_ids": prompt, "sampling_params": dict(options)}
        try:
            choice = call(self.endpoint, PATH, body)["choices"][0]
            ids = [int(token) for token in choice["token_ids"] or []]
            content = (choice["logprobs"] or {}).get("content") or []
            logprobs = [float(entry["logprob"]) for entry in content]
            interrupted = choice.get("finish_reason") == "abort"
            spans = [(s["version"], int(s["end"]) - int(s["start"])) for s in choice.get("weight_versions") or []]
        except EndpointError as error:
            return f"{error}"
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return f"{self.endpoint.address(PATH)} sent a reply without tokens and their log-probabilities"
        if len(ids) != len(logprobs) or NO_LOGPROB in logprobs:
            return f"{self.endpoint.address(PATH)} sent {len(ids)} tokens with {len(logprobs)} log-probabilities"
        if not self._label:  # before the first weights, which are not this run's to check
            return ids, logprobs, [self.version] * len(ids), interrupted
        versions: list[int] = []
        for label, count in spans:
            name, _, number = str(label).rpartition(":")
            if name != self._run or not number.isdigit():
                self.lost = self._explain(label)
                return self.lost
            versions += [int(number)] * count
        if len(versions) != len(ids):
            return f"{self.endpoint.address(PATH)} does not say which weights sampled its tokens: use vLLM 0.32"
        return ids, logprobs, versions, interrupted

    def _explain(self, label: Any) -> str:
        return (
            f"{self.endpoint.address()} serves other weights than this run's ({label!r} and not {self._label!r}): it "
            "was restarted, or somebody else has changed them"
        )
