"""Runs inside vLLM's own processes: loads the weights of a run into the model that samples.

A server takes it with ``--worker-extension-cls rlvr.agents.models.vllm_worker.WeightLoader``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr.agents.models.vllm import on_cpu, pack_again

EXTENSION = "rlvr.agents.models.vllm_worker.WeightLoader"


class WeightLoader:
    """Methods that vLLM adds to its workers; `ServerEngine` calls them by `/collective_rpc`, with texts alone."""

    model_runner: Any
    reload_weights: Any

    def rlvr_describe(self) -> dict[str, Any]:
        """What is served: the size of its vocabulary, the type of its weights, which log-probabilities it reports."""
        chunked = self.model_runner.vllm_config.scheduler_config.enable_chunked_prefill
        config = self.model_runner.vllm_config.model_config
        return {
            "chunked_on_cpu": bool(chunked and on_cpu()),
            "vocabulary": config.get_vocab_size(),
            "hidden": config.get_hidden_size(),
            "dtype": str(config.dtype).removeprefix("torch."),
            "logprobs_mode": str(config.logprobs_mode),
        }

    def rlvr_load_weights(self, path: str, count: str) -> dict[str, Any]:
        """Load the tensors of a file of safetensors, which must hold so many; says why it did not, if it did not."""
        if not Path(path).is_file():
            return {"error": f"the server's processes see no file {path}: it must be on a disk that both can read"}
        try:
            from safetensors.torch import load_file

            tensors = load_file(path)
            if len(tensors) != int(count):
                return {"error": f"{path} holds {len(tensors)} tensors, not {count}"}
            self.reload_weights(weights_iterator=iter(tensors.items()))
            pack_again(self.model_runner.get_model())
        except Exception as error:  # whatever it is, the run that asked must hear of it and not the engine die of it
            return {"error": f"loading {path} failed: {type(error).__name__}: {error}"}
        return {"loaded": len(tensors)}
