"""`rlvr loadtest` against servers that run: what it counts is what the servers counted."""

from __future__ import annotations

import json
import math
import socket
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters import connect
from rlvr.adapters.fleet.loadtest import LoadReport, batched, single
from rlvr.adapters.serving.connection import RemoteError
from rlvr.adapters.serving.serve import EnvServer
from rlvr.cli import main

GUESS, COUNTDOWN = "rlvr/GuessNumber-v0", "rlvr/Countdown-v0"
TOKEN = "sixteen-or-more-letters"


def counted(server: EnvServer, env_id: str = GUESS) -> tuple[int, int]:
    metrics = server.tables[env_id].metrics
    return metrics.items["step", ""], metrics.opened


def test_a_trainers_load_is_counted_over_all_servers():
    with EnvServer(GUESS, token=None, limit=40) as one, EnvServer(GUESS, token=None, limit=40) as other:
        report = batched([one.url, other.url], 30, 0.5, action="no number")
        steps = counted(one)[0] + counted(other)[0]
        assert counted(one)[1] == counted(other)[1] == 15
    assert report.steps == steps - 30  # the first of each is not measured
    assert report.steps >= 30
    assert report.faults == 0
    assert report.episodes > 0
    assert report.quantile(0.5) <= report.quantile(0.99) <= max(report.waits)


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_many_clients_load_is_counted(pause: float):
    with EnvServer([GUESS, COUNTDOWN], token=TOKEN, limit=50) as server:
        report = single([server.url], 45, 0.5, pause=pause, token=TOKEN, env=GUESS, action="no number")
        assert counted(server) == (report.steps, 45)
        assert counted(server, COUNTDOWN) == (0, 0)
    assert len(report.waits) == report.steps >= 45
    assert report.faults == 0


def test_the_command_prints_figures_and_fails_on_faults(capsys, monkeypatch):
    monkeypatch.setenv("LOAD_TOKEN", TOKEN)
    with EnvServer(GUESS, {"max_turns": 1000}, token=TOKEN, limit=4, session_steps=3) as server:
        command = ["loadtest", server.url, "--sessions", "4", "--seconds", "0.3", "--token-env", "LOAD_TOKEN"]
        assert (
            main([*command, "--single", "--pause", "0", "--json", "--action", "no number"]) == 1
        )  # it runs out of steps
        figures = json.loads(capsys.readouterr().out)
        assert figures["faults"] >= 4
        assert figures["steps"] == 12
    with EnvServer([GUESS, COUNTDOWN], token=None, limit=4) as server:
        assert main(["loadtest", server.url, "--sessions", "4", "--seconds", "0.2", "--serves", "Countdown"]) == 0
        assert main(["loadtest", server.url, "--seconds", "0.2", "--serves", "Sudoku"]) == 2
        assert "'rlvr/Sudoku-v0' is not served here" in capsys.readouterr().err
    with EnvServer(GUESS, token=None, limit=4) as server:
        assert main(["loadtest", server.url, "--sessions", "4", "--seconds", "0.2"]) == 0
        assert "4 sessions" in capsys.readouterr().out
        assert main(["loadtest", server.url, "--sessions", "5", "--seconds", "0.2", "--single"]) == 2
        assert "opens no 5 sessions" in capsys.readouterr().err
    assert main(["loadtest", "http://127.0.0.1:9", "--seconds", "1"]) == 2
    assert main(["loadtest", "http://127.0.0.1:9", "--seconds", "0"]) == 2
    assert main(["loadtest", "http://127.0.0.1:9", "--token-env", "NOT_SET_ANYWHERE"]) == 2


def test_many_clients_of_a_name_go_to_every_server_behind_it(monkeypatch: pytest.MonkeyPatch):
    real = socket.getaddrinfo

    def lookup(host: Any, *args: Any, **others: Any) -> Any:
        addresses = ["127.0.0.1", "127.0.0.2"] if host == "fleet.test" else [host]
        return [entry for address in addresses for entry in real(address, *args, **others)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    settings = {"limit": 40, "token": TOKEN, "hosts": ["fleet.test"]}
    with EnvServer(GUESS, **settings) as one, EnvServer(GUESS, **settings, host="127.0.0.2", port=one.port) as two:
        url = f"dns+http://fleet.test:{one.port}"
        report = single([url], 40, 0.3, pause=0.0, token=TOKEN, action="no number")
        assert (counted(one)[1], counted(two)[1]) == (20, 20)
        assert report.steps == counted(one)[0] + counted(two)[0] >= 40
        assert report.faults == 0
    with pytest.raises(ConnectionError, match=r"there is no server at dns\+http://no-such-name\.invalid:1"):
        single(["dns+http://no-such-name.invalid:1"], 2, 0.1)


def test_more_connections_than_a_server_takes_are_one_sentence():
    with EnvServer(GUESS, limit=400, token=None) as server:
        server._app.max_connections = 1
        with connect(server.url), pytest.raises(RemoteError, match="there are 1 connections already"):
            single([server.url], 1, 0.1)
        server._app.max_connections = 5
        with pytest.raises(ConnectionError, match=r"takes no more connections: .*503"):
            single([server.url], 400, 0.1)


def test_quantiles_of_nothing_and_of_some():
    assert math.isnan(LoadReport("x", 1).quantile(0.5))
    report = LoadReport("x", 1, waits=[0.3, 0.1, 0.2])
    assert [report.quantile(share) for share in (0.0, 0.5, 0.99)] == [0.1, 0.2, 0.3]
