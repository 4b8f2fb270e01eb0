"""`rlvr eval` against a real server with the nine faults of servers: a clear sentence or a retry, and nothing lost."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.agents.evaluation.records import read_episodes
from rlvr.cli import main

from .dripping import drip

ENV, TASKS = "rlvr/Countdown-v0", 4
KEY = "sk-right"
HTML = b"<!doctype html><title>Sign in</title>"

# What the user reads of each fault.
SENTENCES = {
    "address": "could not be reached: ConnectionRefusedError",
    "path": "answered with status 404: <!doctype html><title>Sign in</title>; is the address right? It usually ends in",
    "key": "answered with status 401: no key; no key was sent; --api-key-env NAME sends one",
    "busy": "answered with status 429: slow down; the next try would be after the deadline of 1 s",
    "failing": "answered with status 500: out of memory",
    "drip": "did not answer within the deadline of 1 s",
    "torn": "sent a reply that is not a JSON object (application/json, '{\"choices\": [{",
    "html": "sent a reply that is not a JSON object (text/html, '<!doctype html><title>Sign in</title>')",
    "null": "sent a reply without choices, with status 200: the model behind has failed",
}  # fmt: skip
EVERY_TASK = ("address", "path", "key")  # the others befall some calls alone
TRIED_AGAIN = ("busy", "failing", "torn", "html", "null")


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        task = self.server.tasks.index(body["messages"][-1]["content"])
        with self.server.lock:
            self.server.calls[task] += 1
            sick = self.server.sick(task, self.server.calls[task])
        message = {"role": "assistant", "content": self.server.answers[task]}
        good = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        if not sick:
            self.reply(good)
            return
        match self.server.fault:
            case "path":
                self.reply(HTML, 404, Content_Type="text/html")
            case "key":
                right = self.headers["Authorization"] == f"Bearer {KEY}"
                self.reply(good) if right else self.reply(b'{"error": {"message": "no key"}}', 401)
            case "busy":
                self.reply(b'{"error": "slow down"}', 429, Retry_After=self.server.retry_after)
            case "failing":
                self.reply(b'{"error": "out of memory"}', 500)
            case "drip":
                self.drip(good)
            case "torn":
                self.reply(good[:30])
            case "html":
                self.reply(HTML, Content_Type="text/html")
            case "null":
                self.reply(b'{"choices": null, "error": {"message": "the model behind has failed"}}')

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, text in ({"Content_Type": "application/json"} | headers).items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drip(self, good: bytes) -> None:
        """A byte now and then, for as long as the test lasts."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(good) + 100_000))
        self.end_headers()
        drip(self, b" ", self.server.stopped)


class Server(ThreadingHTTPServer):
    """Knows the right answers, and answers calls that are sick with its fault."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, fault: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.fault, self.retry_after = fault, "3600"
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.calls: Counter[int] = Counter()
        self.sick: Any = lambda task, call: task % 2 == 0 or fault in EVERY_TASK
        env: Any = gym.make(ENV, split="test").unwrapped
        self.tasks, self.answers = [], []
        for index in range(TASKS):
            self.tasks.append(env.reset(seed=0, options={"index": index})[0])
            self.answers.append(env.solve())
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass

    def end(self) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.param)
    yield server
    server.end()


def evaluate(server: Server, record: Path, capsys: Any, *more: str) -> tuple[int, str, str]:
    words = ["eval", "--env", ENV, "--episodes", str(TASKS), "--model", "m", "--out", str(record)]
    words += ["--endpoint", f"http://127.0.0.1:{server.server_port}/v1", "--deadline", "1", *more]
    status = main(words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("server", SENTENCES, indirect=True)
def test_a_fault_is_a_sentence_and_no_wrong_answer_and_the_same_command_plays_what_it_cost(
    server: Server, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    record, fault = tmp_path / "episodes.jsonl", server.fault
    lost = TASKS if fault in EVERY_TASK else TASKS // 2
    if fault == "address":
        server.end()  # nobody listens there any more
    status, out, err = evaluate(server, record, capsys)
    assert status == int(lost == TASKS)  # 1: nothing was measured
    assert f"env_error {lost}" in out
    assert ("nothing is known of the success" if lost == TASKS else "success 2/2 = 1.000") in out
    begins = f"rlvr: {lost} episodes failed through no fault of the policy and are not counted; the first: agent: http:"
    assert err.startswith(begins)
    assert SENTENCES[fault] in err
    assert err.count("\n") == 1
    kept = read_episodes(record)
    assert Counter(episode.verdict.status for episode in kept if episode.verdict) == Counter(
        {"env_error": lost, "correct": TASKS - lost}
    )

    # The server is well again, or the user has given the key: what was not played is, and nothing else.
    before = Counter(server.calls)
    server.sick = lambda task, call: False
    if fault == "address":
        server = Server(fault, server.server_port)
        server.sick = lambda task, call: False
    if fault == "key":
        server.sick = lambda task, call: True
        monkeypatch.setenv("THE_KEY", KEY)
    key = ["--api-key-env", "THE_KEY"] if fault == "key" else []
    try:
        status, out, err = evaluate(server, record, capsys, *key)
    finally:
        if fault == "address":
            server.end()
    assert (status, err) == (0, "")
    assert "success 4/4 = 1.000" in out
    assert "env_error" not in out
    assert server.calls - before == Counter(range(TASKS) if lost == TASKS else (0, 2))


@pytest.mark.parametrize("server", TRIED_AGAIN, indirect=True)
def test_a_fault_that_passes_is_tried_again_in_the_same_call(server: Server, tmp_path: Path, capsys: Any) -> None:
    server.sick = lambda task, call: call == 1
    server.retry_after = "0.1"
    status, out, err = evaluate(server, tmp_path / "episodes.jsonl", capsys, "--deadline", "60")
    assert (status, err) == (0, "")
    assert "success 4/4 = 1.000" in out
    assert "4 calls in 8 requests, 4 of them again" in out
    assert server.calls == Counter(dict.fromkeys(range(TASKS), 2))


@pytest.mark.parametrize("server", ["failing"], indirect=True)
def test_what_is_not_known_is_null_in_json(server: Server, tmp_path: Path, capsys: Any) -> None:
    server.sick = lambda task, call: True
    status, out, _ = evaluate(server, tmp_path / "episodes.jsonl", capsys, "--json")
    [result] = json.loads(out)
    assert (status, result["valid"], result["success"], result["reward"]) == (1, 0, None, None)
    assert (result["low"], result["high"]) == (0.0, 1.0)
