"""Entries of a batch: name, shape and meaning of each; a missing or misshapen one is named in the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from rlvr.algorithms._torch import torch
from rlvr.envs.core.deprecation import warn_renamed


class MissingInput(KeyError, ValueError):
    """A batch lacks an entry that the algorithm needs; the message says which, and what it is."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the quoted repr


def entry(shape: str, meaning: str) -> Any:
    """A field of `Entries`: its shape in dimension letters, and what it means. It is None until it is given."""
    return field(default=None, metadata={"shape": shape, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Base of the records that losses and advantages read. Frozen; an entry that was not given is None."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {
        "old": "old_logprobs",
        "sampler": "behaviour_logprobs",
        "ref": "ref_logprobs",
        "teacher": "teacher_logprobs",
        "row_id": "sequence_id",
    }

    @classmethod
    def of(cls, batch: Self | Mapping[str, Any]) -> Self:
        """The record of a mapping; entries that this record does not have are left out, old names warn."""
        if isinstance(batch, cls):
            return batch
        if not isinstance(batch, Mapping):
            raise TypeError(f"a batch is a {cls.__name__} or a mapping of its entries, not {type(batch).__name__}")
        known = {one.name for one in fields(cls)}
        given: dict[str, Any] = {}
        for name, value in batch.items():
            new = cls.OLD_NAMES.get(name, name)
            if new in known and value is not None:
                if new != name:
                    warn_renamed(f"the batch's {name!r}", repr(new), stacklevel=4)
                given[new] = value
        return cls(**given)

    def need(self, name: str, why: str) -> Any:
        """The entry.

        Raises:
            MissingInput: it was not given; ``why`` says what needs it.
        """
        value = getattr(self, name)
        if value is None:
            raise MissingInput(f"{why} needs {name!r} in the batch: {describe(type(self), name)}")
        return value

    def shaped(self, name: str, shape: tuple[int, ...], why: str) -> Any:
        """The entry as a tensor of this shape.

        Raises:
            MissingInput: it was not given.
            ValueError: it has another shape.
        """
        value = torch.as_tensor(self.need(name, why))
        if tuple(value.shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, {why} needs {shape}: {describe(type(self), name)}"
            )
        return value


def describe(record: type[Entries], name: str) -> str:
    """Shape and meaning of an entry: ``[B, T] log-probs of the frozen reference``."""
    metadata = next(one.metadata for one in fields(record) if one.name == name)
    shape = f"[{metadata['shape']}] " if metadata["shape"] else ""
    return f"{shape}{metadata['meaning']}"
