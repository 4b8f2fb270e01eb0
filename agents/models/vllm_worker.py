"""Runs inside vLLM's own processes: loads the weights of a run into the model that samples. No torch until it is used.

A server takes it with ``--worker-extension-cls rlvr.agents.models.vllm_worker.WeightLoader``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

EXTENSION = "rlvr.agents.models.vllm_worker.WeightLoader"

# Options of vllm.LLM that are numbers, switches or names of formats, and load no code.
PLAIN_OPTIONS = frozenset(
    "block_size cpu_offload_gb disable_custom_all_reduce disable_log_stats dtype enable_chunked_prefill "
    "enable_prefix_caching enforce_eager gpu_memory_utilization kv_cache_dtype limit_mm_per_prompt max_logprobs "
    "max_model_len max_num_batched_tokens max_num_seqs pipeline_parallel_size quantization revision seed swap_space "
    "tensor_parallel_size tokenizer_revision".split()
)


class WeightLoader:
    """Methods that vLLM adds to its workers; `ServerEngine` calls them by `/collective_rpc`, with texts alone."""

    model_runner: Any
    reload_weights: Any

    def rlvr_describe(self) -> dict[str, Any]:
        """What is served: the size of its vocabulary, the type of its weights, which log-probabilities it reports."""
        from vllm.platforms import current_platform

        chunked = self.model_runner.vllm_config.scheduler_config.enable_chunked_prefill
        config = self.model_runner.vllm_config.model_config
        return {
            "chunked_on_cpu": bool(chunked and current_platform.is_cpu()),
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


def load_in_process(llm: Any, weights: Iterable[tuple[str, Any]]) -> None:
    """The same in an engine of this process, without a file."""
    llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
    llm.apply_model(pack_again)


def pack_again(model: Any) -> None:
    """On the CPU, layers keep a packed copy of their weight, which a reload leaves as it was where weights are tied."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    for layer in model.modules():
        weight = getattr(layer, "weight", None)
        if weight is not None and weight.dim() == 2 and weight.numel():
            dispatch_cpu_unquantized_gemm(layer, remove_weight=False)
