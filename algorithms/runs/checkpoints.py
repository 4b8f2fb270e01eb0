"""Checkpoints that survive anything: written beside, synced, then renamed; every file's hash is checked on loading.

A checkpoint is a folder ``step-000010`` of safetensors and JSON, so loading one runs no code of its own. Under torchrun
each process writes its shards into one file, by torch.distributed.checkpoint; any number of processes reads them.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr.algorithms.core.lazy_torch import torch
from rlvr.envs.core.files import make_folder, sha256_of

MANIFEST = "manifest.json"
DRAFT = ".draft-"
TENSORS = ("model", "optimiser", "critic")
COUNTERS = "counters.json"
FILES = {"model.safetensors", "optimiser.safetensors", "critic.safetensors", COUNTERS}
SHARDS = re.compile(r"shard-\d{5}-model-00001-of-00001\.safetensors")  # as torch.distributed.checkpoint names them
POOL = "pool"  # of runs that play against earlier policies
REFERENCE = "reference"  # of runs whose reference policy moves; others have that of their first checkpoint
AVERAGE = "average"  # of runs that keep an average of the weights
OPTIONAL = (REFERENCE, POOL, AVERAGE)
OPTIONAL_FILES = {f"{name}.safetensors" for name in OPTIONAL}


class CheckpointError(ValueError):
    """A checkpoint that cannot be trusted or does not fit."""


@dataclass(slots=True)
class Checkpoint:
    """Where a run stood after ``step`` steps: trained weights, optimiser tensors, plain counters, critic, reference.

    ``pool`` has the trained weights of earlier policies, under the step of each and a dot before their names.
    ``average`` has the moving average of the trained weights, in float32.
    """

    step: int
    model: dict[str, torch.Tensor]
    optimiser: dict[str, torch.Tensor]
    counters: dict[str, Any]
    critic: dict[str, torch.Tensor] = field(default_factory=dict)
    reference: dict[str, torch.Tensor] = field(default_factory=dict)
    pool: dict[str, torch.Tensor] = field(default_factory=dict)
    average: dict[str, torch.Tensor] = field(default_factory=dict)


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write ``folder/step-…`` so that it is there whole or not at all. The first and the last ``keep`` are kept.

    Only one process may save in a folder: drafts that others left are swept away.

    Raises:
        CheckpointError: it could not be written, as on a full disk; those before it stand as they were.
    """
    from safetensors import SafetensorError

    target, draft = _names(folder, checkpoint.step)
    try:
        _begin(folder, draft)
        _write(draft, checkpoint)
        _publish(folder, draft, target)
    except (OSError, SafetensorError) as error:
        raise _failed(target, draft, error) from error
    _forget(folder, keep)
    return target


def save_shards(folder: Path, checkpoint: Checkpoint, group: Any, keep: int = 2) -> Path:
    """`save_checkpoint` by all processes of a group: each writes what it holds of the tensors, the first the rest.

    Raises:
        CheckpointError: in all of them, if one could not write.
    """
    from safetensors import SafetensorError

    dcp = _distributed()

    target, draft = _names(folder, checkpoint.step)
    first = torch.distributed.get_rank(group) == 0
    tensors = {f"{part}.{name}": value for part in TENSORS for name, value in getattr(checkpoint, part).items()}
    try:
        _agree(group, lambda: _begin(folder, draft) if first else None)
        writer = dcp.HuggingFaceStorageWriter(str(draft), save_distributed=True)
        dcp.save(tensors, storage_writer=writer, process_group=group)
        _agree(group, lambda: _finish_shards(folder, draft, target, checkpoint, group))
    except dcp.CheckpointException as error:
        # what it says itself is all tracebacks
        faults = "; ".join(f"process {rank}: {fault[0]}" for rank, fault in error.failures.items())
        raise _failed(target, draft, faults) from error
    except (OSError, SafetensorError) as error:
        raise _failed(target, draft, error) from error
    if first:
        _forget(folder, keep)
    return target


def _distributed() -> Any:
    """torch.distributed.checkpoint, which takes a third of a second to import."""
    return importlib.import_module("torch.distributed.checkpoint")


def _agree(group: Any, work: Callable[[], object]) -> None:
    """Do something in each process; all raise what one of them raises, so that none waits for one that is gone."""
    error: OSError | None = None
    try:
        work()
    except OSError as caught:
        error = caught
    errors: list[OSError | None] = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(errors, error, group=group)
    for reported in errors:
        if reported is not None:
            raise reported


def _finish_shards(folder: Path, draft: Path, target: Path, checkpoint: Checkpoint, group: Any) -> None:
    rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    shard_names = [path.name for path in draft.glob(f"shard-{rank + 1:05}-*")] if draft.is_dir() else []
    written: list[list[str]] = [[] for _ in range(size)]
    torch.distributed.all_gather_object(written, shard_names, group=group)
    if rank:
        return
    # On machines with a disk each, the first process sees its own shards alone.
    for name in (name for names in written for name in names):
        if not (draft / name).is_file():
            raise FileNotFoundError(f"{name} of another process is not there: --out must be on a disk that all share")
    _complete(draft, checkpoint)
    _publish(folder, draft, target)


def _names(folder: Path, step: int) -> tuple[Path, Path]:
    target = folder / step_name(step)
    return target, folder / f"{DRAFT}{target.name}"


def _begin(folder: Path, draft: Path) -> None:
    make_folder(folder)
    sweep(folder)  # what a kill left half written
    draft.mkdir()


def _publish(folder: Path, draft: Path, target: Path) -> None:
    """Give a whole draft its name."""
    for path in (*draft.iterdir(), draft):
        _sync(path)  # before the rename, or the name could outlive its content
    if target.is_symlink():  # rmtree would empty the folder that it points to
        target.unlink()
    _discard(target)
    draft.rename(target)  # atomic: there whole, or not at all
    _sync(folder)  # the name itself must survive a loss of power


def _failed(target: Path, draft: Path, error: object) -> CheckpointError:
    shutil.rmtree(draft, ignore_errors=True)
    return CheckpointError(
        f"the checkpoint {target} could not be saved: {error}; those before it are whole: "
        "make room, then go on with --resume"
    )


def _forget(folder: Path, keep: int) -> None:
    for old in list_checkpoints(folder)[1:-keep]:  # the first holds the reference policy
        _discard(old)


def _discard(path: Path) -> None:
    """Remove a checkpoint. It loses its name first: a kill meanwhile leaves a draft, and no half of a checkpoint."""
    nameless = path.with_name(f"{DRAFT}old-{path.name}")
    try:
        path.rename(nameless)
    except OSError:  # as from a folder that may not be written: it stays
        return
    shutil.rmtree(nameless, ignore_errors=True)


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

    for name in (*TENSORS, *(name for name in OPTIONAL if getattr(checkpoint, name))):
        tensors: Mapping[str, torch.Tensor] = getattr(checkpoint, name)
        save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, draft / _file(name))
    _complete(draft, checkpoint)


def _complete(draft: Path, checkpoint: Checkpoint) -> None:
    """The counters, and the manifest of all that is there."""
    (draft / COUNTERS).write_text(json.dumps({"step": checkpoint.step, **checkpoint.counters}))
    files = sorted(path.name for path in draft.iterdir())
    (draft / MANIFEST).write_text(json.dumps({name: sha256_of(draft / name) for name in files}, indent=1))


def list_checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / MANIFEST).is_file())


def load_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint.

    Raises:
        CheckpointError: a file is missing, or is not what was written.
    """
    from safetensors import SafetensorError

    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        shards = [name for name in manifest if SHARDS.fullmatch(name)]
        # a file that the manifest leaves out would be read unchecked
        if manifest.keys() != ({*shards, COUNTERS} if shards else FILES | (manifest.keys() & OPTIONAL_FILES)):
            raise CheckpointError(f"{path / MANIFEST} is not what was saved: it names {', '.join(manifest)}")
        for name, digest in manifest.items():
            if sha256_of(path / name) != digest:
                raise CheckpointError(f"{path / name} is not what was saved: its SHA-256 differs")
        counters = json.loads((path / COUNTERS).read_bytes())
        tensors = _read_shards(path, shards) if shards else _read_whole(path, manifest)
        return Checkpoint(counters.pop("step"), counters=counters, **tensors)
    except CheckpointError:
        raise
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint {path} cannot be read: {error}") from error


def _read_whole(path: Path, manifest: Mapping[str, str]) -> dict[str, dict[str, torch.Tensor]]:
    from safetensors.torch import load_file

    return {name: load_file(path / _file(name)) for name in (*TENSORS, *OPTIONAL) if _file(name) in manifest}


def _read_shards(path: Path, shards: list[str]) -> dict[str, dict[str, torch.Tensor]]:
    """The whole tensors, put together by torch.distributed.checkpoint from the shards of any number of processes."""
    dcp = _distributed()

    there = sorted(file.name for file in path.glob("*.safetensors"))
    if there != sorted(shards):  # it would read them, too
        raise CheckpointError(f"{path} holds files that its manifest does not name: {', '.join(there)}")
    reader = dcp.HuggingFaceStorageReader(str(path))
    metadata = reader.read_metadata().state_dict_metadata
    tensors: dict[str, Any] = {key: torch.empty(it.size, dtype=it.properties.dtype) for key, it in metadata.items()}
    try:
        with warnings.catch_warnings(action="ignore"):  # that there is but one process
            dcp.load(tensors, storage_reader=reader, no_dist=True)
    except dcp.CheckpointException as error:  # no Exception, so the caller would not see it
        faults = "; ".join(str(fault[0]) for fault in error.failures.values())
        raise CheckpointError(f"the checkpoint {path} cannot be read: {faults}") from error
    parts: dict[str, dict[str, torch.Tensor]] = {part: {} for part in TENSORS}
    for key, value in tensors.items():
        part, name = key.split(".", 1)
        parts[part][name] = value
    return parts


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def frozen_digest(model: Any) -> str:
    """The SHA-256 of the weights that are not trained, which no checkpoint holds; "" if all are, or are shards."""
    frozen = [parameter.detach() for parameter in model.parameters() if not parameter.requires_grad]
    if not frozen or any(hasattr(tensor, "to_local") for tensor in frozen):
        return ""
    digest = hashlib.sha256()
    for tensor in frozen:
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def require_frozen(checkpoint: Checkpoint, digest: str, name: str) -> None:
    """Adapters go on with the weights that they were trained on.

    Raises:
        CheckpointError: the model that the config names has other weights by now.
    """
    before = checkpoint.counters.get("frozen", "")  # checkpoints of earlier versions have none
    if before and digest and before != digest:
        raise CheckpointError(
            f"model.name: the weights of {name} are not those that this run's adapters were trained on: put them "
            "back, or begin another run"
        )
