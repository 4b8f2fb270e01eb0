"""The attention kernels that a model can be loaded with, and what each needs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal, get_args

Attention = Literal["auto", "sdpa", "eager", "flex", "flash_attention_2", "flash_attention_3"]
PACKAGES = {
    "flash_attention_2": ("flash_attn", "flash-attn"),
    "flash_attention_3": ("flash_attn_interface", "flash-attn-3"),
}


def kernel_of(attention: str, dtype: Any, device: Any) -> str | None:
    """The name by which transformers knows a kernel; None for its own choice, which is sdpa where the model has it.

    Args:
        attention: one of `Attention`.
        dtype, device: of the model, as torch has them.

    Raises:
        ValueError: there is no such kernel, or it cannot run here, with what to take.
    """
    if attention not in get_args(Attention):
        raise ValueError(f"attention {attention!r} is unknown: use {', '.join(get_args(Attention))}")
    if attention == "auto":
        return None
    if attention == "flex" and device.type == "cpu":
        raise ValueError("model.attention flex trains on a GPU alone, and the model is on the CPU: take sdpa")
    if attention in PACKAGES:
        module, package = PACKAGES[attention]
        if find_spec(module) is None:
            raise ValueError(
                f"model.attention {attention} needs the package {package}, which is not installed: take sdpa"
            )
        if device.type == "cpu":
            raise ValueError(f"model.attention {attention} runs on a GPU alone, and the model is on the CPU: take sdpa")
        if dtype.itemsize != 2:
            raise ValueError(f"model.attention {attention} needs model.dtype bfloat16 or float16: take one, or sdpa")
    return "flex_attention" if attention == "flex" else attention
