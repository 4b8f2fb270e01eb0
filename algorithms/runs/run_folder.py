"""The folder of a run: who may write in it, and what is written. Everything in it can be read without this library."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import write_episodes
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.envs.core.files import LinkRefused, make_folder, open_plain, require_plain, write_whole
from rlvr.envs.core.json_text import load_json

__all__ = ["RunFolder", "RunFolderError", "read_jsonl", "write_whole"]


class RunFolderError(ValueError):
    """A folder that this run may not use."""


DIGEST = "config.sha256"  # as sha256sum writes it: `sha256sum --check config.sha256`


def require_untouched(run: Path) -> None:
    """A run is gone on with by the config that it began with, and by no other.

    Raises:
        RunFolderError: ``config.yaml`` is not what was written, or its digest is not there.
    """
    try:
        digests = [line.split()[0] for line in (run / DIGEST).read_text(encoding="ascii").splitlines()]
        if not digests:
            raise ValueError("it is empty")
    except (OSError, ValueError, IndexError):
        raise RunFolderError(
            f"{run / DIGEST} cannot be read, so nobody can tell whether config.yaml is what the run began with: put "
            "the file back, or begin another run"
        ) from None
    if hashlib.sha256((run / "config.yaml").read_bytes()).hexdigest() not in digests:
        raise RunFolderError(
            f"{run / 'config.yaml'} is not what the run began with: its SHA-256 differs from {DIGEST}'s. Put it back; "
            "to run with other settings, begin another run"
        )


def require_free(path: Path) -> None:
    """Check that a run may begin in a folder, without making it.

    Raises:
        RunFolderError: it holds something, or is a file.
    """
    if SilentFolder(path)._is_used():
        raise RunFolderError(f"{path} is not empty: choose another folder, or go on with --resume")


class RunFolder:
    """``config.yaml``, its digest, ``provenance.jsonl``, ``metrics.jsonl``, ``timing.jsonl``, ``episodes/``,
    ``checkpoints/``, ``policy/``, the report.

    Nothing is written through a symbolic link: a folder that holds one is refused. ``metrics.jsonl`` holds nothing that
    depends on the clock: the same seed writes it again byte for byte. Seconds are in ``timing.jsonl``.

    Args:
        path: the folder.
        resume: go on with the run that is there, instead of refusing it.

    Raises:
        RunFolderError: the folder holds a run and ``resume`` is off, or none and it is on, or another process
            writes in it, or something in it is a symbolic link, a pipe or a device.
        OSError: it cannot be made or written.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self._name(path)
        if resume and not self.config.is_file():
            raise RunFolderError(f"{path} holds no run to go on with: it has no config.yaml")
        if not resume and self._is_used() and not self._lock_file.exists():
            raise RunFolderError(f"{path} is not empty: choose another folder")  # and nothing was written in it
        path.mkdir(parents=True, exist_ok=True)
        # Before anything is looked at again: two runs may be started in the same moment.
        self._lock = self._take()
        try:
            if not resume and self._is_used():
                raise RunFolderError(f"{path} is not empty: choose another folder, or go on with --resume")
            require_plain(path)
            if resume:
                require_untouched(path)
        except LinkRefused as error:
            self.close()
            raise RunFolderError(str(error)) from None
        except BaseException:
            self.close()
            raise

    def _name(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.provenance = path / "provenance.jsonl"
        self.episodes = path / "episodes"
        self.checkpoints = path / "checkpoints"
        self.policy = path / "policy"
        self.teacher = path / "teacher"
        self.sampler = path / "sampler"  # what a vLLM reads
        self._lock_file = path / "lock"

    def _is_used(self) -> bool:
        """Whether more is in it than a lock, a digest and hidden files, which a run killed before it began has left.

        Raises:
            RunFolderError: it is a file.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file: choose another folder")
        entries = self.path.iterdir() if self.path.is_dir() else ()
        own_files = (self._lock_file, self.path / DIGEST)
        return any(entry not in own_files and not entry.name.startswith(".") for entry in entries)

    def _take(self) -> IO[str]:
        try:
            lock = open_plain(self._lock_file, "a+")
        except LinkRefused as error:
            raise RunFolderError(str(error)) from None
        try:
            # The kernel lets go of it when the process ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)  # whoever holds it wrote its process id
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise RunFolderError(f"process {owner} is writing in {self.path}: wait for it, or stop it") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def close(self) -> None:
        """Gives up the lock, so that another process may write."""
        self._lock.close()

    def write_config(self, text: str) -> None:
        """The config, and what tells whether it was changed. The digest first: with it alone a run can begin again."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        line = f"{digest}  {self.config.name}\n"
        # A run that is extended has a config already: until the new one is there, both digests hold.
        before = (self.path / DIGEST).read_text(encoding="ascii") if self.config.exists() else ""
        write_whole(self.path / DIGEST, line + before)
        write_whole(self.config, text)
        write_whole(self.path / DIGEST, line)

    def log_start(self, record: Mapping[str, Any]) -> None:
        """Append what the run is begun or gone on with, see `rlvr.agents.provenance`."""
        with open_plain(self.provenance, "a") as file:
            file.write(json.dumps(record) + "\n")

    def log(self, record: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Append one line to the metrics and one to the timing."""
        for path, line in ((self.metrics, record), (self.timing, timing)):
            with open_plain(path, "a") as file:
                file.write(json.dumps(_finite(line), allow_nan=False) + "\n")

    def keep_until(self, step: int) -> None:
        """Forget what was logged after a step, and a line that was torn: the run goes on from there."""
        for path in (self.metrics, self.timing):
            # later lines come again, equal: the steps between are a function of the seed
            kept = [record for record in read_jsonl(path) if record["step"] <= step]
            write_whole(path, "".join(json.dumps(record) + "\n" for record in kept))

    def write_episodes(self, name: str, episodes: Iterable[Episode]) -> None:
        """Writes ``episodes/<name>.jsonl``, over an earlier file of that name."""
        make_folder(self.episodes)
        write_episodes(self.episodes / f"{name}.jsonl", episodes)


class SilentFolder(RunFolder):
    """The folder as the other processes of a run know it: they read in it, and write nothing."""

    def __init__(self, path: Path) -> None:
        self._name(path)

    def close(self) -> None:
        """Nothing is held."""

    def write_config(self, text: str) -> None:
        """The first process does."""

    def log_start(self, record: Mapping[str, Any]) -> None:
        """The first process does."""

    def log(self, record: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """The first process does."""

    def keep_until(self, step: int) -> None:
        """The first process does."""

    def write_episodes(self, name: str, episodes: Iterable[Episode]) -> None:
        """The first process does."""


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file; none if there is no file. What follows the last line break was torn, and is left.

    Raises:
        RunFolderError: a whole line is not a record.
    """
    if not path.exists():
        return []
    records = []
    # split at b"\n" alone: splitlines would cut a text at a line separator of Unicode
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            record = load_json(line)
        except ValueError as error:
            raise RunFolderError(f"line {number} of {path} is not JSON: {error}") from error
        if not isinstance(record, dict) or "step" not in record:
            raise RunFolderError(f"line {number} of {path} is no record of a step")
        records.append(record)
    return records


def decoder(run: Path) -> Callable[[Sequence[int]], list[str]] | None:
    """The texts of token ids, one each, by the tokenizer of the run's policy; None where it is not on this machine.

    It is the one that the run saved at its end, the one beside the model that it began with, or the embedded policy's.

    Raises:
        ValueError: the tokenizer cannot be read.
    """
    from tokenizers import Tokenizer

    config = config_of(run) if (run / "config.yaml").is_file() else None
    folders = [run / "policy", *([Path(config.model.name)] if config is not None else [])]
    saved = next((path for folder in folders if (path := folder / "tokenizer.json").is_file()), None)
    if saved is not None:
        try:
            backend = Tokenizer.from_file(str(saved))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{saved} is no tokenizer: {error}") from error
    elif config is not None and config.model.name == "rlvr/tiny":
        from rlvr.agents.models.tiny import WORDS, tiny_tokenizer

        backend = tiny_tokenizer((*WORDS, *config.model.words)).backend_tokenizer
    else:
        return None

    def decode(ids: Sequence[int]) -> list[str]:
        vocabulary = backend.get_vocab_size()
        texts: list[str] = backend.decode_batch(
            [[token] if 0 <= token < vocabulary else [] for token in ids], skip_special_tokens=False
        )
        return texts

    return decode


def config_of(run: Path) -> TrainConfig:
    """The config in a run's folder."""
    return load_config(run / "config.yaml")


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null instead."""
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Clock:
    """Seconds since it was made or last read."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def read(self) -> dict[str, float]:
        """Wall and CPU seconds, and the peak of the resident memory in MiB."""
        wall, cpu = time.perf_counter(), time.process_time()
        reading = {
            "seconds": wall - self._wall,
            "cpu_seconds": cpu - self._cpu,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        self._wall, self._cpu = wall, cpu
        return reading


class Stopwatch:
    """Wall seconds spent in a function."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def restart(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time is added up."""

        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start

        return call
