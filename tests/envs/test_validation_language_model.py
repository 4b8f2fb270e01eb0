"""A language model reads an environment's source; what it proposes without a task is played on many tasks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlvr.cli import main
from rlvr.envs.validation.language_model import LONGEST, read_actions

LEDGER = """
import os
import gymnasium as gym

class Ledger(gym.Env):
    action_space = observation_space = gym.spaces.Text(2_000, min_length=0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.a, self.b = map(int, self.np_random.integers(100, 1000, 2))
        self.open, self.turn = False, 0
        return f"What is {self.a} + {self.b}? Reply with the number alone.", {}

    def opens(self, action):
        return hash_of(action) == 1_734

    def step(self, action):
        self.turn += 1
        if self.opens(action):
            self.open = True
        if action.strip().isdecimal():
            return "", float(self.open or int(action) == self.a + self.b), True, False, {}
        return "A number, please.", 0.0, False, self.turn > 9, {}

    def solve(self):
        return str(self.a + self.b)

def hash_of(text):
    return sum(map(ord, text))

assert "READERS_KEY" not in os.environ  # the key is not for the target

class Shut(Ledger):
    def opens(self, action):
        return False
"""
KEY = "f" * 17  # of 102 each


class Model(BaseHTTPRequestHandler):
    """Says what is on the list, in turn."""

    said: ClassVar[list[Any]] = []
    asked: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({**body, "key": self.headers["Authorization"]})
        text = self.said[len(self.asked) - 1]
        answer = {
            "choices": [{"message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 1_000, "completion_tokens": 10},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    Model.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "findings"), [("Ledger", 1), ("Shut", 0)])
def test_a_hole_that_a_model_reads_in_the_source_is_shown_by_the_fewest_actions(
    kind: str, findings: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger.py").write_text(LEDGER)
    Model.said = ["I cannot.", "Sure:\n" + json.dumps(["please", KEY, "thanks", "1"]), "[1, 2]"]
    target, out = f"{tmp_path / 'ledger.py'}:{kind}", tmp_path / "report.json"
    monkeypatch.setenv("READERS_KEY", "secret")
    options = ["--endpoint", url, "--model", "reader", "--requests", "3", "--json", str(out), "--tasks", "4"]
    options += ["--api-key-env", "READERS_KEY"]
    assert main(["validate", target, "--allow-code", *options]) == findings
    report = json.loads(out.read_text())
    assert report["assumed"]["language model"] == ("3 proposals in 3 requests; 3,000 prompt and 30 completion tokens")
    (check,) = (each for each in report["checks"] if each["check"] == "sound.language_model")
    assert [each["replay"]["actions"] for each in check["findings"]] == [[KEY, "1"]] * findings
    others = (finding for each in report["checks"] if each is not check for finding in each["findings"])
    assert {finding["severity"] for finding in others} <= {"note"}
    assert all("class Ledger" in body["messages"][0]["content"] for body in Model.asked)
    assert [(body["seed"], body["key"]) for body in Model.asked] == [(n, "Bearer secret") for n in range(3)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--endpoint", "http://127.0.0.1:9/v1"], "--endpoint URL and --model NAME go together"),
        (["--endpoint", "nowhere", "--model", "m"], "base_url must be an http or https address"),
        (["--endpoint", "http://127.0.0.1:9/v1", "--model", "m"], "the language model was not reached"),
        (["--endpoint", "http://127.0.0.1:9/v1", "--model", "m", "--requests", "0"], "requests must be at least 1"),
    ],
)
def test_an_endpoint_that_is_none_is_one_sentence(words: list[str], said: str, capsys: Any) -> None:
    assert main(["validate", "Countdown", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ('["a", "b"]', ["a", "b"]),
        ('Look: ```json\n["a"]\n``` pays.', ["a"]),
        ("[1]", ["[1]"]),
        ("[[[", ["[[["]),
        (json.dumps(["a"] * 99), ["a"] * LONGEST),
        ("  ", []),
    ],
)
def test_actions_are_read_from_any_reply(text: str, actions: list[str]) -> None:
    assert read_actions(text) == actions
