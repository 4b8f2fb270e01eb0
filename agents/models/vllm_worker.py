"""Runs inside vLLM's own processes: loads the weights of a run into the model that samples.

A server takes it with ``--worker-extension-cls rlvr.agents.models.vllm_worker.WeightLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlvr.agents.models.vllm import on_cpu, pack_again

EXTENSION = "rlvr.agents.models.vllm_worker.WeightLoader"
# What a file of adapters holds for the tensor NAME that it adapts: NAME.lora_A [r, in], NAME.lora_B [out, r], and
# NAME.scaling [], which their product is multiplied by.
PARTS = ("lora_A", "lora_B", "scaling")


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
        return self._load(lambda: iter(load_tensors(path, int(count)).items()), path)

    def rlvr_load_adapters(self, base: str, path: str, count: str) -> dict[str, Any]:
        """Load the tensors of the file ``base`` with the adapters of ``path`` added, which holds so many tensors."""
        return self._load(lambda: adapted_weights(base, load_adapters(path, int(count))), path, base)

    def _load(self, read: Callable[[], Iterator[tuple[str, Any]]], *files: str) -> dict[str, Any]:
        for file in files:
            if not Path(file).is_file():
                return {"error": f"the server's processes see no file {file}: it must be on a disk that both can read"}
        try:
            self.reload_weights(weights_iterator=read())
            pack_again(self.model_runner.get_model())
        except Exception as error:  # whatever it is, the run that asked must hear of it and not the engine die of it
            return {"error": f"loading {' onto '.join(files)} failed: {type(error).__name__}: {error}"}
        return {}


def load_tensors(path: str, count: int) -> dict[str, Any]:
    """The tensors of a file of safetensors.

    Raises:
        ValueError: it holds another number of them.
    """
    from safetensors.torch import load_file

    tensors: dict[str, Any] = load_file(path)
    if len(tensors) != count:
        raise ValueError(f"it holds {len(tensors)} tensors, not {count}")
    return tensors


def load_adapters(path: str, count: int) -> dict[str, Any]:
    """The tensors of a file of adapters.

    Raises:
        ValueError: it holds another number of them, or a part of an adapter without the others.
    """
    adapters = load_tensors(path, count)
    names = {name.rpartition(".")[0] for name in adapters}
    if adapters.keys() != {f"{name}.{part}" for name in names for part in PARTS}:
        raise ValueError(f"not every adapter has its {', '.join(PARTS)}")
    return adapters


def adapted_weights(base: str, adapters: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each tensor of a file of safetensors, those with an adapter with it added, one at a time.

    Raises:
        ValueError: an adapter has no tensor to be added to.
    """
    from safetensors import safe_open

    with safe_open(base, framework="pt") as file:
        names = list(file.keys())
        if strange := sorted({name.rpartition(".")[0] for name in adapters} - set(names)):
            raise ValueError(f"it has adapters of {', '.join(strange[:3])}, which the weights lack")
        for name in names:
            tensor = file.get_tensor(name)
            if f"{name}.lora_A" in adapters:
                down, up, scaling = (adapters[f"{name}.{part}"] for part in PARTS)
                # W <- W + s B A, rounded as the learner does     [out, r] x [r, in] -> [out, in]    2106.09685
                tensor = tensor + ((up @ down) * scaling.item()).to(tensor.dtype)
            yield name, tensor
