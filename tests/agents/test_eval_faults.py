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
from rlvr.agents.models.calls import FIRST_CALLS, MOST_IN_A_ROW, UNNAMED_CALLS, FailuresInARow
from rlvr.cli import main
from rlvr.envs.endpoint import EndpointError

from .dripping import drip

ENV, TASKS, MANY = "rlvr/Countdown-v0", 4, 30
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
            case "given":
                status, answer = self.server.given
                if task not in list(self.server.calls)[: self.server.answers_to]:
                    self.server.stopped.wait()
                self.reply(answer, status, Content_Type="text/html" if answer == HTML else "application/json")
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
        self.fault, self.retry_after, self.given = fault, "3600", (200, b"")
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.calls: Counter[int] = Counter()
        self.answers_to = MANY  # tasks; calls for later ones wait for the end of the test
        self.sick: Any = lambda task, call: task % 2 == 0 or fault in (*EVERY_TASK, "given")
        env: Any = gym.make(ENV, split="test").unwrapped
        self.tasks, self.answers = [], []
        for index in range(MANY if fault == "given" else TASKS):
            self.tasks.append(env.reset(seed=0, options={"index": index})[0])
            self.answers.append(env.solve())
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

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
    assert SENTENCES[fault] in err
    assert err.count("\n") == 1 + (fault not in EVERY_TASK)
    kept = Counter(episode.verdict.status for episode in read_episodes(record) if episode.verdict)
    if fault in EVERY_TASK:
        assert err.startswith(f"rlvr: {ENV} was stopped: 3 calls in a row failed alike and no call was answered before")
        assert f"the same command goes on with {record}" in err
        assert out == ""
        assert kept.keys() == {"env_error"}
    else:
        assert f"env_error {lost}" in out
        assert "success 2/2 = 1.000" in out
        begins = f"rlvr: {lost} episodes failed through no fault of the policy and are not counted; the first: agent: "
        assert err.startswith(begins)
        assert "rlvr: warning: rlvr/Countdown-v0: 2 of 4 episodes (50.0%)" in err
        assert "2/4 = 0.500 over all" in out
        assert kept == Counter({"env_error": lost, "correct": TASKS - lost})

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
    after = server.calls - before
    if fault in EVERY_TASK:
        assert after.keys() == set(range(TASKS))  # a call that was under way when the first run ended may be among them
    else:
        assert after == Counter((0, 2))


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


WRONG = {
    "path": (404, HTML, "answered with status 404: <!doctype html>"),
    "site": (200, HTML, "sent a reply that is not a JSON object (text/html"),
    "moved": (308, b"", "answered with status 308"),
    "model": (404, b'{"error": {"message": "The model `m` does not exist."}}', "The model `m` does not exist."),
    "old model": (400, b'{"error": {"message": "model m is not known"}}', "model m is not known"),
    "key": (401, b'{"error": {"message": "no key"}}', "no key; no key was sent; --api-key-env NAME sends one"),
    "option": (
        400,
        b'{"error": {"message": "Unsupported parameter: \'max_tokens\'. Use \'max_completion_tokens\'."}}',
        "max_tokens is a field of each request, which request={'max_tokens': None} leaves out, on the command line "
        "--options '{\"max_tokens\": null}'",
    ),
    "param": (
        400,
        b'{"error": {"message": "Unsupported value.", "param": "temperature"}}',
        "Unsupported value. (temperature); temperature is a field of each request",
    ),
    "extra input": (
        422,
        b'{"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}',
        "seed is a field of each request",
    ),
}


@pytest.fixture
def plain_server() -> Iterator[Server]:
    server = Server("given")
    yield server
    server.end()


def evaluate_many(server: Server, record: Path, capsys: Any, *more: str) -> tuple[int, str, str]:
    return evaluate(server, record, capsys, "--episodes", str(MANY), "--concurrency", "4", *more)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_server_that_no_episode_can_be_played_with_is_given_up_after_a_few_calls(
    plain_server: Server, wrong: str, tmp_path: Path, capsys: Any
) -> None:
    status, body, sentence = WRONG[wrong]
    plain_server.given, plain_server.answers_to = (status, body), 4
    code, out, err = evaluate_many(
        plain_server, tmp_path / "e.jsonl", capsys, "--deadline", "30", "--temperature", "0.5", "--json"
    )
    assert code == 1
    (stopped,) = json.loads(out)
    assert sentence.removesuffix("; --api-key-env NAME sends one") in stopped["stopped"]
    assert (stopped["valid"], stopped["success"]) == (0, None)
    assert err.count("\n") == 1
    assert sentence in err
    assert 3 <= len(plain_server.calls) <= 4 + 4  # those that were answered, and those that waited then
    assert 1 <= len(read_episodes(tmp_path / "e.jsonl")) <= 4


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_always_refuses_in_the_same_words_is_given_up_whatever_they_are(
    plain_server: Server, status: int, tmp_path: Path, capsys: Any
) -> None:
    plain_server.given = (status, b'{"error": {"message": "computer says no"}}')
    plain_server.sick = lambda task, call: True
    code, _, err = evaluate_many(plain_server, tmp_path / "e.jsonl", capsys, "--concurrency", "1")
    assert code == 1
    assert f"{UNNAMED_CALLS} calls in a row failed alike and no call was answered before or since" in err
    assert "computer says no" in err
    assert UNNAMED_CALLS <= len(plain_server.calls) < MANY  # those of episodes that had begun are made, too


def test_a_server_that_ends_in_the_middle_stops_the_evaluation_and_loses_nothing(
    plain_server: Server, tmp_path: Path, capsys: Any
) -> None:
    record, answered = tmp_path / "e.jsonl", 10
    plain_server.sick = lambda task, call: plain_server.calls.total() > answered
    plain_server.given = (401, b'{"error": {"message": "the credit is used up"}}')
    code, out, err = evaluate_many(plain_server, record, capsys, "--concurrency", "1")
    assert code == 1
    assert f"{MOST_IN_A_ROW} calls in a row failed alike and no call was answered since; the last: http" in err
    assert "the credit is used up" in err
    kept = {episode.index for episode in read_episodes(record) if episode.success}
    assert f"{len(kept)} new episodes before the server failed\nsuccess {len(kept)}/{len(kept)} = 1.000" in out

    paid = set(list(plain_server.calls)[:answered])
    assert kept <= paid  # the other replies are in the journal
    before = Counter(plain_server.calls)
    plain_server.sick = lambda task, call: False
    code, out, err = evaluate_many(plain_server, record, capsys, "--concurrency", "1")
    assert (code, err) == (0, "")
    assert f"success {MANY}/{MANY} = 1.000" in out
    assert (plain_server.calls - before).keys() == {*range(MANY)} - paid


def test_a_fault_of_most_conversations_stops_nothing(plain_server: Server, tmp_path: Path, capsys: Any) -> None:
    """The control: as many failures of the same kind, with answers between them."""
    plain_server.given = (400, b'{"error": {"message": "this text is not allowed"}}')
    plain_server.sick = lambda task, call: task % 10 != 0
    code, out, err = evaluate_many(plain_server, tmp_path / "e.jsonl", capsys, "--concurrency", "1")
    assert code == 0
    assert f"env_error {MANY - 3}" in out
    assert "success 3/3 = 1.000" in out
    assert f"{MANY - 3} episodes failed through no fault of the policy" in err


FILTERED = b'{"error": {"message": "The prompt was filtered: please modify it", "code": "content_filter"}}'


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_refusals_of_the_first_conversations_stop_nothing(
    plain_server: Server, status: int, tmp_path: Path, capsys: Any
) -> None:
    plain_server.given = (status, FILTERED)
    plain_server.sick = lambda task, call: task < 20
    code, out, _ = evaluate_many(plain_server, tmp_path / "e.jsonl", capsys, "--concurrency", "1")
    assert code == 0
    assert f"success {MANY - 20}/{MANY - 20} = 1.000" in out
    assert plain_server.calls.keys() == set(range(MANY))


@pytest.mark.parametrize("status", [400, 404])
def test_a_record_that_lacks_refused_conversations_alone_is_summed_up_again(
    plain_server: Server, status: int, tmp_path: Path, capsys: Any
) -> None:
    """The second run meets nothing but refusals, and the first has shown that the server answers."""
    plain_server.given = (status, b'{"error": {"message": "the api key allows no such text"}}')
    plain_server.sick = lambda task, call: task >= 10
    for calls in (1, 2):
        code, out, err = evaluate_many(plain_server, tmp_path / "e.jsonl", capsys, "--concurrency", "1")
        assert code == 0
        assert "success 10/10 = 1.000" in out
        assert f"env_error {MANY - 10}" in out
        assert f"{MANY - 10} episodes failed through no fault of the policy" in err
        assert all(plain_server.calls[task] == calls for task in range(10, MANY))


def test_a_record_with_an_episode_of_each_task_is_summed_up_though_the_server_answers_no_more(
    plain_server: Server, tmp_path: Path, capsys: Any
) -> None:
    plain_server.given = (400, FILTERED)
    plain_server.sick = lambda task, call: task >= 10
    evaluate_many(plain_server, tmp_path / "e.jsonl", capsys, "--concurrency", "1")
    plain_server.given = (401, b'{"error": {"message": "the credit is used up"}}')
    before = plain_server.calls.total()
    code, out, err = evaluate_many(plain_server, tmp_path / "e.jsonl", capsys, "--concurrency", "1")
    assert code == 0
    assert "success 10/10 = 1.000" in out
    assert f"{MANY - 10} episodes failed through no fault of the policy" in err
    assert plain_server.calls.total() - before >= MOST_IN_A_ROW


@pytest.mark.parametrize("json_too", [False, True])
def test_without_a_file_what_had_ended_is_printed_and_said_to_be_lost(
    plain_server: Server, json_too: bool, capsys: Any
) -> None:
    plain_server.given = (401, b'{"error": {"message": "the credit is used up"}}')
    plain_server.sick = lambda task, call: task >= 10
    words = ["eval", "--env", ENV, "--episodes", str(MANY), "--model", "m", "--concurrency", "1"]
    words += ["--endpoint", f"http://127.0.0.1:{plain_server.server_port}/v1", *["--json"] * json_too]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "--out FILE would have kept the episodes that had ended" in err
    if json_too:
        (stopped,) = json.loads(out)
        assert (stopped["valid"], stopped["success"]) == (10, 1.0)
        assert "the credit is used up" in stopped["stopped"]
    else:
        assert "10 new episodes before the server failed\nsuccess 10/10 = 1.000" in out


FOR_ALL = {
    "refused": EndpointError("http://h could not be reached: ConnectionRefusedError", lasting=True),
    "401": EndpointError("http://h 401", 401, lasting=True, detail="your account was flagged"),
    "403": EndpointError("http://h 403", 403, lasting=True),
    "308": EndpointError("http://h 308", 308, lasting=True),
    "html": EndpointError("http://h no JSON object (text/html)", 200, lasting=True),
    "no model": EndpointError("http://h 404", 404, lasting=True, detail="The model `big-1` does not exist."),
}
UNLESS_ANSWERED = {
    "404": EndpointError("http://models/v1 404", 404, lasting=True, detail="Not Found"),
    "400 of the model": EndpointError("http://h 400", 400, lasting=True, detail="big-1 is not served here"),
    "400 by its code": EndpointError("http://h 400", 400, "model_not_found", lasting=True, detail="bad request"),
    "400 of the key": EndpointError("http://h 400", 400, lasting=True, detail="API key not valid."),
    "400 of a field": EndpointError("http://h 400", 400, lasting=True, detail="no 'max_tokens' here"),
    "422 of a field": EndpointError("http://h 422", 422, lasting=True, detail="body.max_tokens: too many"),
    "no completion": EndpointError("http://h sent no chat completion", code="no_completion", lasting=True),
}
UNNAMED_UNLESS_ANSWERED = {
    "400": EndpointError("http://models/v1 400", 400, lasting=True, detail="this text is not allowed"),
    "a word of it": EndpointError("http://h 400", 400, lasting=True, detail="more than my_max_tokens_limit"),
    "400 without a word": EndpointError("http://h 400", 400, lasting=True),
    "422": EndpointError("http://h 422", 422, lasting=True, detail="big-1 takes no such text"),
}
OF_ONE_CALL = {
    "413": EndpointError("http://h 413", 413, lasting=True),
    "filter": EndpointError("http://h 400", 400, lasting=True, detail="filtered by the policy of big-1"),
    "moderation": EndpointError("http://h 403", 403, lasting=True, detail="flagged by moderation"),
    "held back": EndpointError("http://h held the reply back (content_filter)", code="content_filter"),
    "429": EndpointError("http://h 429", 429),
    "500": EndpointError("http://h 500", 500),
    "late": EndpointError("http://h did not answer in time", code="deadline"),
}


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("name", [*FOR_ALL, *UNLESS_ANSWERED, *UNNAMED_UNLESS_ANSWERED, *OF_ONE_CALL])
def test_causes_of_the_whole_server_count_alone(name: str, answered: bool) -> None:
    failures = FailuresInARow(4, "big-1", ["max_tokens"])
    if answered:
        failures.answered()
    found = (FOR_ALL | UNLESS_ANSWERED | UNNAMED_UNLESS_ANSWERED | OF_ONE_CALL)[name]
    calls = 0
    while not failures.given_up and calls < 100:
        failures.failed(found)
        calls += 1
    first = MOST_IN_A_ROW if answered else UNNAMED_CALLS if name in UNNAMED_UNLESS_ANSWERED else FIRST_CALLS
    if name in OF_ONE_CALL or (answered and name not in FOR_ALL):
        assert not failures.given_up
    else:
        assert calls == first
