"""torch, imported when it is first used: the registries that describe the algorithms can be read without it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    import torch as torch
    from torch import Tensor as Tensor

    class SupportsArray(Protocol):
        """A tensor, an array of numpy, or what becomes one."""

        def __array__(self) -> object: ...

    Numbers = SupportsArray | Sequence[float] | Sequence[Sequence[float]]  # what `torch.as_tensor` takes
else:

    class _Torch:
        """Stands for the module; says what to install where it is missing."""

        def __getattr__(self, name: str) -> Any:
            try:
                module = importlib.import_module("torch")
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                raise ModuleNotFoundError(
                    "this part of rlvr.algorithms computes with torch, which is not installed: "
                    'pip install "rlvr[train]"',
                    name="torch",
                ) from None
            self.__dict__ = vars(module)  # from now on names are found as in the module itself
            return getattr(module, name)

    torch = _Torch()
    Tensor = "torch.Tensor"
    Numbers = "SupportsArray | Sequence[float] | Sequence[Sequence[float]]"
