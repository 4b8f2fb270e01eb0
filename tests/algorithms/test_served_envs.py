"""A run whose environments are on servers is the same run, and a server that dies costs episodes, not the run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters.serving.serve import EnvServer
from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.sampling import env_source as source
from rlvr.algorithms.sampling.collect import NoValidEpisodeError
from rlvr.algorithms.train.run import Trainer
from rlvr.cli import main

from ..children import start
from .runs import GUESS, Callback, differences, small

NOWHERE = "http://127.0.0.1:9"
TOKEN = "a token of many characters"
SERVING = """
import sys
from rlvr.adapters.serving.serve import EnvServer
with EnvServer("rlvr/GuessNumber-v0", expert=True, limit=64, token=None) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[list[str]]:
    with EnvServer(GUESS, expert=True, limit=64, token=None) as one, EnvServer(GUESS, expert=True, token=None) as other:
        yield [one.url, other.url]


def on(servers: list[str], **more: Any) -> dict[str, Any]:
    return {"env": {"id": GUESS, "system": False, "servers": servers, **more}}


def train(out: Path, **changes: Any) -> Callback:
    callback = Callback()
    Trainer(small(out, **changes), callback).run()
    return callback


@pytest.mark.slow
def test_a_run_on_two_servers_is_the_run_in_one_process(servers: list[str], tmp_path: Path):
    """Demonstrations, training and evaluation, one server that is away among those named."""
    train(tmp_path / "here")
    train(tmp_path / "there", **on([servers[0], NOWHERE, servers[1]]))
    assert differences(tmp_path / "here", tmp_path / "there") == []


def test_the_command_trains_on_servers_without_leave_to_run_code(servers, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("RLVR_ALLOW_CODE", raising=False)
    flags = ["--env.id", GUESS, "--env.servers", json.dumps(servers), "--out", str(tmp_path / "run"), "--dry-run"]
    assert main(["train", *flags]) == 0, capsys.readouterr().err


@pytest.mark.slow
def test_levels_and_splits_are_those_of_the_run(servers: list[str], tmp_path: Path):
    changes = {"env": {"level": 2}, "steps": 1, "evaluation": {"split": "test"}}
    train(tmp_path / "here", **changes)
    train(tmp_path / "there", **{**changes, **on(servers, level=2)})
    assert differences(tmp_path / "here", tmp_path / "there") == []


@pytest.mark.slow
def test_a_killed_server_costs_the_episodes_that_were_there(servers: list[str], tmp_path: Path):
    process = start([sys.executable, "-c", SERVING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    class Kills(Callback):
        def step(self, record: dict[str, Any]) -> None:
            super().step(record)
            if record["phase"] == "train" and record["step"] == 2:
                process.kill()
                process.wait()

    try:
        callback = Kills()
        config = small(tmp_path / "run", **on([servers[0], process.stdout.readline().strip()]))
        Trainer(config, callback).run()
    finally:
        process.kill()
        process.communicate()
    assert [record["step"] for record in callback.of("train")] == [1, 2, 3, 4]
    folder = tmp_path / "run" / "episodes"
    valid = [[e.valid for e in read_episodes(folder / f"train-00000{step}.jsonl")] for step in range(1, 5)]
    assert all(valid[0] + valid[1] + valid[3]), "none but those that met the dead server"
    assert 0 < sum(valid[2]) <= len(valid[2]) == 16


@pytest.mark.slow
def test_a_server_that_drains_costs_nothing(servers: list[str], tmp_path: Path):
    """One after another, as in a rolling restart: the run is the run in one process."""
    train(tmp_path / "here")
    with EnvServer(GUESS, expert=True, limit=64, token=None, drain=300.0) as first:
        drained: list[int] = []

        class Drains(Callback):
            def step(self, record: dict[str, Any]) -> None:
                super().step(record)
                if record["phase"] == "train" and record["step"] == 2:
                    drained.append(first.sessions.metrics.episodes)
                    first.drain()

        Trainer(small(tmp_path / "there", **on([first.url, servers[0]])), Drains()).run()
        assert first.sessions.metrics.episodes == drained[0] > 0
        assert first.sessions.metrics.cut == 0
    assert differences(tmp_path / "here", tmp_path / "there") == []


@pytest.mark.slow
def test_a_run_waits_for_its_servers(tmp_path: Path):
    """All are restarted at once, and the run is the run in one process."""
    train(tmp_path / "here")
    running = [EnvServer(GUESS, expert=True, limit=64, token=None).__enter__()]
    port, url = running[0].port, running[0].url

    class Restarts(Callback):
        def step(self, record: dict[str, Any]) -> None:
            super().step(record)
            if record["phase"] == "train" and record["step"] == 2:
                running.pop().__exit__()
                threading.Timer(1.0, begin).start()

    def begin() -> None:
        running.append(EnvServer(GUESS, expert=True, limit=64, token=None, port=port).__enter__())

    Trainer(small(tmp_path / "there", **on([url])), Restarts()).run()
    running.pop().__exit__()
    assert differences(tmp_path / "here", tmp_path / "there") == []


@pytest.mark.slow
def test_a_run_whose_servers_are_gone_ends_and_goes_on_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It would spend its steps on nothing, within seconds."""
    monkeypatch.setattr(source, "OUTAGE_SECONDS", 0.2)
    server = EnvServer(GUESS, expert=True, limit=64, token=None).__enter__()

    class Kills(Callback):
        def step(self, record: dict[str, Any]) -> None:
            super().step(record)
            if record["phase"] == "train" and record["step"] == 2:
                server.__exit__()

    there = small(tmp_path / "there", steps=8, checkpoint_every=2, **on([server.url]))
    callback = Kills()
    with pytest.raises(NoValidEpisodeError, match=r"no episode of 3 steps in a row was valid.*there is no server at"):
        Trainer(there, callback).run()
    steps = [(record["step"], record["invalid"]) for record in callback.of("train")]
    assert steps == [(1, 0), (2, 0), (3, 16), (4, 16), (5, 16)]
    with EnvServer(GUESS, expert=True, limit=64, token=None, port=server.port):
        Trainer(there, callback := Callback(), resume=True).run()
    assert callback.of("train")[-1]["step"] == 8
    assert not any(record["invalid"] for record in callback.of("train"))


def test_a_token_is_read_from_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OURS", TOKEN.replace(" ", "-"))
    with EnvServer(GUESS, token=TOKEN.replace(" ", "-"), limit=32) as server:
        changes = {**on([server.url.partition("?")[0]], token_env="OURS"), "steps": 1, "warm_start": {"steps": 0}}
        changes["warm_start"]["mixed_steps"] = 0
        callback = train(tmp_path / "run", **changes)
    assert len(callback.of("train")) == 1
    assert TOKEN.replace(" ", "-") not in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"env": {"servers": ["http://a:1/?token=secret"]}}, "env.token_env"),
        ({"env": {"servers": [NOWHERE], "settings": {"turns": 3}}}, "rlvr serve"),
        ({"env": {"token_env": "OURS"}}, "env.servers"),
        ({"env": {"servers": [NOWHERE]}, "warm_start": {"random_steps": 2}}, "random_steps"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], why: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=why):
        small(tmp_path / "run", **changes)


def test_servers_that_are_not_there_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OURS", raising=False)
    with pytest.raises(ConfigError, match="OURS, which is not set"):
        Trainer(small(tmp_path / "run", **on([NOWHERE], token_env="OURS")), Callback())
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9") as caught:
        Trainer(small(tmp_path / "other", **on([NOWHERE, NOWHERE])), Callback())
    assert "\n" not in str(caught.value)
