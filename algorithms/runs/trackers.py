"""Trackers of experiments: what `metrics.jsonl` and `timing.jsonl` get, sent to trackio, wandb or tensorboard as well.

Each through its own library, which the extra ``track`` installs. The files are written whether or not a tracker is.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

TRACKERS = ("none", "trackio", "wandb", "tensorboard")


class Tracker(Protocol):
    """Where figures go."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """The figures of a step."""

    def finish(self) -> None:
        """No more will come."""


class _Client:
    """wandb and trackio, which share the functions that are used here."""

    def __init__(self, library: str, run: Path, config: Mapping[str, Any]) -> None:
        self.library = _load(library)
        options = {"dir": str(run), "id": None} if library == "wandb" else {}
        self.library.init(project="rlvr", name=run.name, config=dict(config), **options)

    def log(self, values: Mapping[str, float], step: int) -> None:
        # no step= of theirs: they refuse one that went before, and evaluations share their step with the training
        self.library.log({**values, "step": step})

    def finish(self) -> None:
        self.library.finish()


class _TensorBoard:
    """Event files in the run's folder."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        _load("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(run / "tensorboard"))
        self.writer.add_text("config", f"```\n{dict(config)}\n```")

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def finish(self) -> None:
        self.writer.close()


def open_tracker(name: str, run: Path, config: Mapping[str, Any]) -> Tracker | None:
    """The tracker of this name for a run in this folder; None for "none".

    Raises:
        ImportError: its library is not installed; names the extra.
    """
    if name == "none":
        return None
    return _TensorBoard(run, config) if name == "tensorboard" else _Client(name, run, config)


def figures(record: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of each file, under ``phase/name`` and ``time/name``; nested ones with a slash."""
    phase = str(record.get("phase", "train"))
    numbers = {f"{phase}/{name}": value for name, value in _numbers(record).items() if name != "step"}
    return numbers | {f"time/{name}": value for name, value in _numbers(timing).items() if name != "step"}


def push_policy(policy: Path, repository: str) -> str:
    """Upload a policy's folder to the hub; what became of it. A failure costs nothing: the folder stays."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(repository, exist_ok=True, private=True)
        api.upload_folder(repo_id=repository, folder_path=policy)
    except Exception as error:  # the hub's errors and the network's have many types
        reason = " ".join(str(error).split())[:200]
        return f"the policy could not be uploaded to {repository}: {reason}; it is in {policy}"
    return f"the policy is at {repository} on the hub, a private repository unless it was there"


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            numbers |= {f"{name}/{inner}": number for inner, number in _numbers(value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[name] = float(value)
    return numbers


def _load(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ImportError(
            f"report_to: {library} is not installed: pip install 'rlvr[track]', or set report_to to none"
        ) from None
