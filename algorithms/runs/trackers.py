"""Trackers of experiments: what `metrics.jsonl` and `timing.jsonl` get, sent to each of them; episodes to trackio.

Each through its own library, which the extra ``track`` installs. The files are written whether or not a tracker is.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rlvr.agents.episode import Episode

PARAM = 500  # characters of a setting that MLflow gets: its stores refuse longer ones, each at a length of its own


class Tracker(Protocol):
    """Where figures go."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """The figures of a step."""

    def finish(self) -> None:
        """No more will come."""


class _Wandb:
    """A run of wandb, whose files stand in the run's folder."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self.library = _load("wandb")
        self.library.init(project="rlvr", name=run.name, config=dict(config), dir=str(run), id=None)

    def log(self, values: Mapping[str, float], step: int) -> None:
        # no step= of theirs: they refuse one that went before, and evaluations share their step with the training
        self.library.log({**values, "step": step})

    def finish(self) -> None:
        self.library.finish()


class _Trackio:
    """A run of trackio in its local store, with the episodes that the run keeps as traces.

    A ``resumed`` one goes on in the last that has its name.
    """

    def __init__(self, run: Path, config: Mapping[str, Any], resumed: bool) -> None:
        self.library = _load("trackio")
        how = "allow" if resumed else "never"
        self.library.init(project="rlvr", name=run.name, config=dict(config), resume=how)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.library.log(dict(values), step=step)

    def log_episodes(self, name: str, episodes: Sequence[Episode], step: int) -> None:
        """One trace an episode, of its texts and its verdict."""
        traces = [self.library.Trace(*_trace(episode)) for episode in episodes]
        self.library.log({f"episodes/{name}": traces}, step=step)

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


class _MLflow:
    """A run of MLflow at ``MLFLOW_TRACKING_URI``, or where MLflow keeps runs without it."""

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        entities = _load("mlflow").entities
        self.metric, self.client = entities.Metric, importlib.import_module("mlflow").MlflowClient()
        experiment = self.client.get_experiment_by_name("rlvr")
        number = experiment.experiment_id if experiment else self.client.create_experiment("rlvr")
        self.run_id: str = self.client.create_run(number, run_name=run.name).info.run_id
        settings = {
            f"{name}.{inner}" if inner else name: setting
            for name, value in config.items()
            for inner, setting in (value.items() if isinstance(value, Mapping) else [("", value)])
        }
        parameters = [entities.Param(name, str(value)[:PARAM]) for name, value in settings.items()]
        for start in range(0, len(parameters), 100):  # as many as one request may hold
            self.client.log_batch(self.run_id, params=parameters[start : start + 100])

    def log(self, values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1_000)
        self.client.log_batch(self.run_id, [self.metric(name, value, now, step) for name, value in values.items()])

    def finish(self) -> None:
        self.client.set_terminated(self.run_id)


class Trackers:
    """Several trackers as one: each gets what all get.

    Args:
        names: of the trackers.
        run: the run's folder, whose name the run has there.
        config: its settings, as plain JSON.
        resumed: whether the run had begun before.

    Raises:
        ImportError: a library is not installed; names the extra.
    """

    def __init__(self, names: Sequence[str], run: Path, config: Mapping[str, Any], resumed: bool = False) -> None:
        kinds: dict[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {
            "trackio": partial(_Trackio, resumed=resumed),
            "wandb": _Wandb,
            "tensorboard": _TensorBoard,
            "mlflow": _MLflow,
        }
        for name in names:
            _load(name)  # all, before the first begins a run
        self.trackers = [kinds[name](run, config) for name in names]

    def log(self, values: Mapping[str, float], step: int) -> None:
        """The figures of a step."""
        for tracker in self.trackers:
            tracker.log(values, step)

    def log_episodes(self, name: str, episodes: Sequence[Episode], step: int) -> None:
        """The episodes of a step that a run keeps, of the kind ``name``; trackers that know no episodes get none."""
        for tracker in self.trackers:
            if isinstance(tracker, _Trackio):
                tracker.log_episodes(name, episodes, step)

    def finish(self) -> None:
        """No more will come."""
        for tracker in self.trackers:
            tracker.finish()


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


def _trace(episode: Episode) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Messages and metadata of an episode; its `status` is what trackio's page filters by, and a fault is an error."""
    messages = [{"role": message["role"], "content": message["content"]} for message in episode.messages()]
    verdict = episode.verdict
    names = ("env_id", "split", "level", "seed", "index", "sample", "reward", "success", "key")
    return messages, {
        "status": "success" if verdict is not None and verdict.valid else "error",
        **{name: getattr(episode, name) for name in names},
        "verdict": verdict.to_dict() if verdict is not None else None,
    }


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
            f"report_to: {library} is not installed: pip install 'rlvr[track]', or leave it out of report_to"
        ) from None
