"""One environment over several servers, and what of a task is asked for when a server is connected to."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters import connect
from rlvr.adapters.serving.serve import EnvServer

GUESS = "rlvr/GuessNumber-v0"


@pytest.fixture
def guess():
    with EnvServer(GUESS, {"level": 3}, limit=8, token=None) as server:
        yield server


def test_environments_begin_at_one_server_after_another(guess: EnvServer):
    with EnvServer(GUESS, {"level": 3}, limit=8, token=None) as other:
        envs = [connect([guess.url, other.url]) for _ in range(4)]
        try:
            told = [env.reset(seed=5) for env in envs]
            assert all(answer == told[0] for answer in told)
            assert (len(guess.sessions), len(other.sessions)) == (2, 2)
            more = envs[0].spawn()
            envs.append(more)
            assert more.reset(seed=5) == told[0]
        finally:
            for env in envs:
                env.close()


@pytest.mark.parametrize("why", ["away", "full", "draining"])
def test_a_server_without_a_place_is_passed_over(guess: EnvServer, why: str):
    with EnvServer(GUESS, {"level": 3}, limit=1, token=None) as other, connect(other.url) as last:
        last.reset(seed=0)
        if why == "draining":
            last.close()
            other.sessions.draining = True
        urls = [guess.url, "http://127.0.0.1:9" if why == "away" else other.url]
        for _ in range(4):  # whoever's turn it is
            with connect(urls) as env:
                assert env.reset(seed=1) == gym.make(GUESS, level=3).reset(seed=1)
                env.reset(seed=2)


def test_split_and_level_are_asked_for(guess: EnvServer):
    with connect(guess.url, split="test", level=1) as env, gym.make(GUESS, level=1, split="test") as direct:
        assert (env.split, env.level) == ("test", 1)
        assert env.reset(seed=4) == direct.reset(seed=4)
        assert env.reset(seed=4, options={"level": 2}) == direct.reset(seed=4, options={"level": 2})
    made = gym.make("rlvr.adapters.serving.connect:rlvr-served/Environment-v0", url=guess.url, level=1, split="test")
    assert made.reset(seed=4) == gym.make(GUESS, level=1, split="test").reset(seed=4)
    made.close()
    with pytest.raises(ValueError, match="an empty list"):
        connect([])


def test_a_table_has_the_split_that_is_served(tmp_path):
    table = tmp_path / "rows.jsonl"
    table.write_text('{"question": "1 + 1?", "answer": "#### 2"}\n')
    with EnvServer("rlvr/GSM8K-v0", {"data_files": str(table)}, limit=2, token=None) as server:
        assert connect(server.url, split="train").size == 1
        with pytest.raises(ValueError, match="serves the split 'train' of a table, not 'test'"):
            connect(server.url, split="test")


def test_the_answer_without_its_work_is_served_to_those_who_may_ask():
    with EnvServer("rlvr/Calculator-v0", expert=True, limit=1, token=None) as server, connect(server.url) as env:
        direct = gym.make("rlvr/Calculator-v0")
        env.reset(seed=3)
        direct.reset(seed=3)
        assert env.direct_answer() == direct.unwrapped.direct_answer()
    with EnvServer("rlvr/Calculator-v0", limit=1, token=None) as server, connect(server.url) as env:
        env.reset(seed=3)
        with pytest.raises(PermissionError, match="--expert"):
            env.direct_answer()


FILES = """
import resource, sys
from rlvr.adapters import connect
url, hard = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
envs = []
try:
    for seed in range(40):
        envs.append(connect(url))
        envs[-1].reset(seed=seed)
except ConnectionError as error:
    print(error)
for env in envs[:10]:
    env.step("no number")
print(len(envs))
"""


@pytest.mark.parametrize("hard", [64, 4096])
def test_a_connection_for_each_of_many_episodes_has_its_files(hard: int):
    """Four for a connection: a soft limit of 1,024, which is common, is less than the 256 episodes of a run take."""
    with EnvServer(GUESS, limit=64, token=None) as server:
        told = subprocess.run(
            [sys.executable, "-c", FILES, server.url, str(hard)], capture_output=True, text=True, timeout=120
        )
    *said, count = told.stdout.splitlines()
    if hard == 4096:
        assert (said, count, told.stderr) == ([], "40", "")
    else:
        assert said == [
            f"no connection to {server.url}: this process may have 64 files open, and a connection takes some: "
            "raise the limit (ulimit -n)"
        ]
        assert 10 <= int(count) < 20


def test_a_server_may_have_a_file_for_each_of_its_connections(child):
    command = [sys.executable, "-m", "rlvr", "serve", GUESS, "--port", "0", "--no-token", "--sessions", "80"]
    with child(
        ["sh", "-c", 'ulimit -Sn 64 && exec "$@"', "sh", *command], stdout=subprocess.PIPE, text=True
    ) as process:
        url = process.stdout.readline().split()[2]
        envs = [connect(url) for _ in range(80)]
        assert len({env.reset(seed=1)[0] for env in envs}) == 1
        for env in envs:
            env.close()
