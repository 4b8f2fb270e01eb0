"""`rlvr serve-model --engine vllm`, a real vLLM on the CPU: `rlvr eval` plays the same with it and with the policy.

`make test-vllm` builds an environment that holds vLLM and runs this file in it.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("vllm")

from rlvr.agents.evaluation.records import read_episodes
from rlvr.agents.models.tiny import tiny_policy
from rlvr.cli import main
from rlvr.envs.endpoint import Endpoint

from ..children import wait_for_server
from .test_serve_model import lively_policy

pytestmark = [pytest.mark.vllm, pytest.mark.foreign, pytest.mark.slow, pytest.mark.timeout(1_200)]

KEY = "sk-served"
HALF = "\ufffd"  # a character that the token limit cut, which vLLM leaves out at the end of a text
VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "KEY": KEY}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, whose policy says more than one text."""
    run = tmp_path_factory.mktemp("runs") / "mine"
    model, _ = lively_policy(end=1)
    _, tokenizer = tiny_policy(hidden=32, layers=2, seed=5)
    for part in (model, tokenizer):
        part.save_pretrained(run / "policy")
    (run / "config.yaml").write_text("algorithm: grpo\n")
    return run


@pytest.fixture(scope="module")
def url(checkpoint: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "rlvr", "serve-model", str(checkpoint), "--engine", "vllm", "--port", "0"]
    command += ["--api-key-env", "KEY", "--max-length", "1024", "--options", '{"enforce_eager": true}']
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | VARIABLES)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(
            r"mine at (http://127\.0\.0\.1:([1-9]\d*)/v1), once vLLM has started \(Ctrl-C ends it\)\n", line
        )
        assert found, line
        wait_for_server(process, Endpoint(found[1], "mine", KEY, deadline=60.0))
        yield found[1]
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(found[2])), timeout=5).close()


@pytest.mark.parametrize("env", ["Countdown", "GuessNumber", "Calculator"])
def test_eval_over_http_plays_the_episodes_that_it_plays_here(
    env: str, url: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn, many turns, and tools, at temperature 0: the first reply of each episode is the same.

    vLLM's template renders the history anew, so that a text which was sampled as two sequences of tokens may lead
    elsewhere in the turns after it.
    """
    monkeypatch.setenv("THE_KEY", KEY)
    played = ["eval", "--env", env, "--episodes", "4", "--max-new-tokens", "24"]
    here = [*played, "--model", str(checkpoint / "policy"), "--batch-size", "1", "--out", str(tmp_path / "here.jsonl")]
    there = [*played, "--model", "mine", "--endpoint", url, "--api-key-env", "THE_KEY", "--tool-messages"]
    assert main(here) == 0
    assert main([*there, "--concurrency", "1", "--out", str(tmp_path / "there.jsonl")]) == 0
    a, b = ({e.key: e for e in read_episodes(tmp_path / f"{name}.jsonl")} for name in ("here", "there"))
    assert a.keys() == b.keys()
    for key, episode in a.items():
        mine, its = episode.turns[0], b[key].turns[0]
        assert (mine.action.rstrip(HALF), mine.stop) == (its.action.rstrip(HALF), its.stop)
        assert b[key].valid
        if len(episode.turns) == 1 and mine.action == its.action:
            assert (episode.verdict, episode.reward) == (b[key].verdict, b[key].reward)
    assert any(episode.turns[0].action for episode in a.values())


def test_without_its_key_the_server_serves_nobody(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--env", "Countdown", "--episodes", "1", "--model", "mine", "--endpoint", url]) == 1
    assert "status 401" in (err := capsys.readouterr().err)
    assert "--api-key-env NAME sends one" in err


def test_a_port_that_is_taken_is_named_before_vllm_starts(
    url: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = url.split(":")[2].removesuffix("/v1")
    assert main(["serve-model", str(checkpoint), "--engine", "vllm", "--port", port]) == 2
    err = capsys.readouterr().err
    assert f"port {port} cannot be listened at (Address already in use): give another --port" in err
