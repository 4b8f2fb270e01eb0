"""Checkpoints that survive anything: written beside, synced, then renamed; every file's hash is checked on loading.

A checkpoint is a folder ``step-000010`` of safetensors and JSON, so loading one runs no code of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.envs.core.files import make_folder

MANIFEST = "manifest.json"
DRAFT = ".draft-"
TENSORS = ("model", "optimiser", "critic")
FILES = {"model.safetensors", "optimiser.safetensors", "critic.safetensors", "counters.json"}


class CheckpointError(ValueError):
    """A checkpoint that cannot be trusted or does not fit."""


@dataclass(slots=True)
class Checkpoint:
    """Where a run stood after ``step`` steps: trained weights, optimiser tensors, plain counters, and the critic."""

    step: int
    model: dict[str, torch.Tensor]
    optimiser: dict[str, torch.Tensor]
    counters: dict[str, Any]
    critic: dict[str, torch.Tensor] = field(default_factory=dict)


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write ``folder/step-…`` so that it is there whole or not at all. The first and the last ``keep`` are kept.

    Only one process may save in a folder: drafts that others left are swept away.

    Raises:
        CheckpointError: it could not be written, as on a full disk; those before it stand as they were.
    """
    from safetensors import SafetensorError

    target = folder / step_name(checkpoint.step)
    draft = folder / f"{DRAFT}{target.name}"
    try:
        make_folder(folder)
        sweep(folder)  # what a kill left half written
        _write(draft, checkpoint)
        if target.is_symlink():  # rmtree would empty the folder that it points to
            target.unlink()
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)  # atomic: there whole, or not at all
        _sync(folder)  # the name itself must survive a loss of power
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise CheckpointError(
            f"the checkpoint {target} could not be saved: {error}; those before it are whole: "
            "make room, then go on with --resume"
        ) from error
    for old in list_checkpoints(folder)[1:-keep]:  # the first holds the reference policy
        shutil.rmtree(old, ignore_errors=True)
    return target


def step_name(step: int) -> str:
    return f"step-{step:06d}"


def sweep(folder: Path) -> None:
    """Remove drafts that were never finished."""
    for draft in folder.glob(f"{DRAFT}*"):
        if draft.is_symlink():
            draft.unlink()
        shutil.rmtree(draft, ignore_errors=True)


def _write(draft: Path, checkpoint: Checkpoint) -> None:
    from safetensors.torch import save_file

    draft.mkdir()
    for name in TENSORS:
        tensors: Mapping[str, torch.Tensor] = getattr(checkpoint, name)
        save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, draft / _file(name))
    (draft / "counters.json").write_text(json.dumps({"step": checkpoint.step, **checkpoint.counters}))
    files = sorted(path.name for path in draft.iterdir())
    (draft / MANIFEST).write_text(json.dumps({name: _sha256(draft / name) for name in files}, indent=1))
    for path in (*draft.iterdir(), draft):
        _sync(path)  # before the rename, or the name could outlive its content


def list_checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / MANIFEST).is_file())


def load_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint.

    Raises:
        CheckpointError: a file is missing, or is not what was written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest.keys() != FILES:  # a file that the manifest leaves out would be read unchecked
            raise CheckpointError(f"{path / MANIFEST} is not what was saved: it names {', '.join(manifest)}")
        for name, digest in manifest.items():
            if _sha256(path / name) != digest:
                raise CheckpointError(f"{path / name} is not what was saved: its SHA-256 differs")
        counters = json.loads((path / "counters.json").read_bytes())
        tensors = {name: load_file(path / _file(name)) for name in TENSORS}
        return Checkpoint(counters.pop("step"), counters=counters, **tensors)
    except CheckpointError:
        raise
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint {path} cannot be read: {error}") from error


def latest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and a warning for each newer one that is not."""
    warnings: list[str] = []
    for path in reversed(list_checkpoints(folder)):  # newest first
        try:
            return load_checkpoint(path), warnings
        except CheckpointError as error:
            warnings.append(str(error))
    return None, warnings


def _file(name: str) -> str:
    return f"{name}.safetensors"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
