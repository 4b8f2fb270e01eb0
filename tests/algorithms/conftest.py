"""What is made once for all tests of the learner: a process to run commands in, and finished runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .runs import CALCULATOR, GSM8K, Callback, RunServer, merged, small


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for RLVR_DATA: a made-up table in GSM8K's columns, of which a run sees some rows twice."""
    folder = tmp_path_factory.mktemp("data") / "gsm8k"
    folder.mkdir()
    for split, count in (("train", 7), ("test", 5)):
        lines = [
            json.dumps({"question": f"{number} and 1?", "answer": f"It is {number + 1}.\n#### {number + 1}"}) + "\n"
            for number in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(lines))
    return folder.parent


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, rows: Path) -> Iterator[RunServer]:
    server = RunServer(tmp_path_factory.mktemp("server"), {**os.environ, "RLVR_DATA": str(rows)})
    yield server
    server.close()


@pytest.fixture(scope="session")
def write_config(tmp_path_factory: pytest.TempPathFactory):
    """Writes `SMALL` with changes as a YAML file; returns its path."""
    import yaml

    def write(**changes) -> Path:
        path = tmp_path_factory.mktemp("config") / "config.yaml"
        path.write_text(yaml.safe_dump(merged(changes)))
        return path

    return write


@pytest.fixture(scope="session")
def unbroken(server: RunServer, write_config, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run in each kind of environment that nothing disturbed, by name."""
    folder = tmp_path_factory.mktemp("unbroken")
    for name, changes in KINDS.items():
        ended = server.run(["train", "--config", write_config(**changes), "--out", folder / name])
        assert ended.status == 0, ended.output
    return {name: folder / name for name in KINDS}


SHORT = {"sampling": {"max_new_tokens": 6}}  # quick, and right never; what matters there is the bytes
KINDS = {"generated": SHORT, "table": {"env": {"id": GSM8K}, **SHORT}}


def warmed_up(path: Path, **changes) -> Path:
    """A policy that has seen demonstrations only, in the folder of a Hugging Face model."""
    from rlvr.algorithms.train.run import Trainer

    Trainer(small(path, steps=0, **changes), Callback()).run()
    return path / "policy"


@pytest.fixture(scope="session")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny policy that calls the calculator in about every second episode, and is hardly ever right."""
    warm = {"steps": 40, "mixed_steps": 0, "batch_size": 16}
    path = tmp_path_factory.mktemp("caller") / "run"
    return warmed_up(path, env={"id": CALCULATOR}, sampling={"max_new_tokens": 24}, warm_start=warm)


@pytest.fixture(scope="session")
def guesser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny policy that has seen numbers being guessed."""
    warm = {"steps": 40, "mixed_steps": 0, "batch_size": 16}
    return warmed_up(tmp_path_factory.mktemp("guesser") / "run", warm_start=warm)


@pytest.fixture(scope="session")
def answerer(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """A table with three different answers, and a tiny policy that gives one of them: its groups differ in rewards."""
    folder = tmp_path_factory.mktemp("easy")
    for split in ("train", "test"):
        lines = [json.dumps({"question": f"{n}?", "answer": f"#### {n % 3 + 1}"}) + "\n" for n in range(12)]
        (folder / f"{split}.jsonl").write_text("".join(lines))
    env = {"id": GSM8K, "settings": {"data_files": str(folder)}}
    warm = {"steps": 40, "mixed_steps": 0, "batch_size": 16}
    return env, warmed_up(folder / "run", env=env, warm_start=warm)
