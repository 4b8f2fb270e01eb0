"""What samples the tokens of a run: the protocol, and what every back end needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rlvr.agents.models.token_agent import TokenAgent
from rlvr.algorithms.core.lazy_torch import Tensor, torch

# Each call goes through the policy's tensors anew, under the names that transformers saves them with.
Weights = Callable[[], Iterator[tuple[str, Tensor]]]


class SamplerError(RuntimeError):
    """The sampler does not do what the run needs; one sentence says which field of the config it is about."""


class Sampler(Protocol):
    """Samples with the weights of one version of the policy, and takes those of the next.

    Attributes:
        version: how many updates its weights have had.
        versioned: whether its tokens carry the version that sampled them (`TokenSequence.versions`).
    """

    version: int
    versioned: bool

    def agent(self, **options: Any) -> TokenAgent:
        """Who plays with it: prompts as token ids in; tokens, their log-probabilities and versions out.

        Args:
            options: of `TokenAgent`, and `temperature` and `greedy`.
        """
        ...

    def sync(self, weights: Weights, version: int) -> dict[str, float]:
        """Take these weights, and confirm that they are sampled with; what there is to log.

        Raises:
            SamplerError: it is not confirmed.
        """
        ...

    def sleep(self) -> None:
        """Nothing is sampled until the next sync: give back what memory can be given back."""
        ...

    def recover(self) -> int:
        """How often it was lost in this run; where it is lost now, it is brought back with the weights it had.

        Raises:
            SamplerError: it does not come back.
        """
        ...

    def close(self) -> None:
        """End what it has started."""
        ...


class PolicyWeights:
    """The weights of a policy as they are when they are asked for; what a run gives a sampler.

    Args:
        model: of transformers, or with LoRA adapters of peft.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor, adapters added to what they adapt."""
        return policy_weights(self.model)

    def base(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor without the adapters, which is what stays the same in a run that trains adapters."""
        return policy_weights(self.model, adapted=False)

    def adapters(self) -> dict[str, Tensor] | None:
        """The adapters alone, as `vllm_worker` names them; None where they are not all that is trained."""
        if not hasattr(self.model, "peft_config"):
            return None
        tensors: dict[str, Tensor] = {}
        layers = dict(self.model.base_model.model.named_modules())
        for name, parameter in self.model.base_model.model.named_parameters():
            owner = layers.get(name.partition(".lora_")[0])
            if not parameter.requires_grad:
                continue
            # A bias or a norm that is trained, an embedding's adapter, or several at once go as whole tensors.
            plain = isinstance(getattr(owner, "base_layer", None), torch.nn.Linear)
            if owner is None or not plain or ".lora_" not in name or len(owner.active_adapters) != 1:
                return None
            [adapter] = owner.active_adapters
            target = f"{name.partition('.lora_')[0]}.weight"
            tensors |= {
                f"{target}.lora_A": owner.lora_A[adapter].weight.detach(),  # [r, in]
                f"{target}.lora_B": owner.lora_B[adapter].weight.detach(),  # [out, r]
                f"{target}.scaling": torch.tensor(owner.scaling[adapter], dtype=torch.float64),  # []
            }
        return tensors


def policy_weights(model: Any, adapted: bool = True) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a policy under the names that transformers saves them with; LoRA's are added to what they adapt.

    Without ``adapted`` they are left out. Nothing in the model changes: an adapter that is merged and taken out again
    leaves rounding behind.
    """
    base = getattr(model, "base_model", None)
    if not hasattr(model, "peft_config") or base is None:
        for name, parameter in model.named_parameters():
            yield name, parameter.detach()
        return
    inner = base.model
    layers = dict(inner.named_modules())
    for name, parameter in inner.named_parameters():
        if "lora_" in name:
            continue
        tensor = parameter.detach()
        owner = layers.get(name.rpartition(".base_layer.")[0])
        if adapted and owner is not None and name.endswith(".base_layer.weight"):
            for adapter in owner.active_adapters:
                tensor = tensor + owner.get_delta_weight(adapter).detach().to(tensor.dtype)
        yield name.replace(".base_layer.", "."), tensor
