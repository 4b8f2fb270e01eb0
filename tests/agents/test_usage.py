"""What an episode of an evaluation says of who played it and what it took, and what an evaluation makes of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rlvr.agents import Conversation, RandomAgent, Reply, Rollout, evaluate, summarise, task_requests
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.evaluation.journal import Journal
from rlvr.agents.models.openai import usage_of
from rlvr.agents.revision import revision_of
from rlvr.cli import main

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        pass

    def do_POST(self) -> None:
        server: Any = self.server
        self.rfile.read(int(self.headers["Content-Length"]))
        if server.barrier is not None:
            server.barrier.wait(timeout=60)
        choice = {"message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}
        answer = {"choices": [choice], "model": "m-2026-01-01", "system_fingerprint": "fp1", "usage": server.usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Any]:
    running: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.usage, running.barrier = USAGE, None
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def words(server: Any, record: Path, *more: object) -> list[str]:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    played = ["eval", "--env", "Countdown", "--model", "m", "--endpoint", url, "--out", record]
    return [str(word) for word in (*played, *more)]


def test_a_record_says_who_played_and_what_it_took(server, tmp_path, capsys):
    record = tmp_path / "a.jsonl"
    assert main(words(server, record, "--episodes", 2, "--price", "1000,2000", "--temperature", 0.5)) == 0
    out = capsys.readouterr().out
    assert "used: 200 prompt tokens (80 cached), 20 completion tokens (8 reasoning), " in out
    assert "; costs 0.2400\n" in out
    for line in record.read_text().splitlines():
        episode = json.loads(line)
        seconds = [episode["usage"].pop(name) for name in ("model_seconds", "env_seconds", "ended")]
        assert min(seconds) > 0
        tokens = {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 40, "reasoning_tokens": 4}
        assert episode["usage"] == tokens | {"cost": pytest.approx(0.12)}
        assert episode["turns"][0]["stop"] == "stop"
        sampling = {"temperature": 0.5, "max_tokens": 512, "seed": 0}
        url = f"http://127.0.0.1:{server.server_port}/v1"
        who = {"model": "m", "endpoint": url, "sampling": sampling, "revision": "m-2026-01-01 fp1"}
        assert episode["agent"] == who
    assert [e.sampled_tokens for e in read_episodes(record)] == [10, 10]


def test_costs_are_those_of_all_episodes_right_after_a_resume(server, tmp_path, capsys):
    record = tmp_path / "a.jsonl"
    assert main(words(server, record, "--episodes", 2)) == 0  # nobody has named a price
    assert "; costs" not in capsys.readouterr().out
    assert main(words(server, record, "--episodes", 3, "--price", "1000,2000", "--json")) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["usage"]["cost"] == pytest.approx(0.36)
    assert result["usage"]["prompt_tokens"] == 300
    assert result["endpoint"] == {"calls": 1, "failed": 0, "requests": 1}
    assert result["new_episodes"] == 1


RESTED = {"completion_tokens": 7, "reasoning_tokens": 0}
PRICED = {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        (None, {}),
        ([], {}),
        ({"prompt_tokens": "7", "completion_tokens": True, "prompt_tokens_details": 3}, {}),
        ({"prompt_tokens": -1, "completion_tokens": float("nan"), "cost": float("inf")}, {}),
        ({"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 0}}, RESTED),
        (PRICED, PRICED),  # the endpoint's own cost goes before the price
    ],
)
def test_what_an_endpoint_does_not_say_is_not_known(usage, known):
    assert usage_of(usage, (1.0, 2.0)) == known


def test_environments_of_one_evaluation_are_asked_for_at_once(server, tmp_path, capsys):
    server.barrier = threading.Barrier(4)  # nobody is answered before four have asked
    more = ("--env", "UrnDraws", "--episodes", 2, "--concurrency", 4, "--deadline", 90, "--json")
    assert main(words(server, tmp_path / "a.jsonl", *more)) == 0
    results = json.loads(capsys.readouterr().out)
    assert [(r["env"], r["valid"], r["new_episodes"]) for r in results] == [
        ("rlvr/Countdown-v0", 2, 2),
        ("rlvr/UrnDraws-v0", 2, 2),
    ]


def test_more_samples_play_only_the_rest(tmp_path, capsys):
    played = ["eval", "--env", "Countdown", "--agent", "random", "--episodes", "3", "--out", str(tmp_path / "a.jsonl")]
    assert main([*played, "--samples", "2"]) == 0
    before = (tmp_path / "a.jsonl").read_bytes()
    assert main([*played, "--samples", "4"]) == 0
    after = (tmp_path / "a.jsonl").read_bytes()
    assert after.startswith(before)
    assert sorted((e.index, e.sample) for e in read_episodes(tmp_path / "a.jsonl")) == [
        (index, sample) for index in range(3) for sample in range(4)
    ]
    capsys.readouterr()
    assert main([*played, "--samples", "2", "--json"]) == 0  # fewer are what they were
    assert (json.loads(capsys.readouterr().out)[0]["episodes"], (tmp_path / "a.jsonl").read_bytes()) == (6, after)


def test_a_local_model_counts_the_tokens_that_it_was_given_and_gave(tmp_path, capsys):
    record = tmp_path / "a.jsonl"
    played = ["eval", "--env", "GuessNumber", "--model", "rlvr/tiny", "--episodes", "2", "--max-new-tokens", "4"]
    assert main([*played, "--out", str(record)]) == 0
    assert "used: " in capsys.readouterr().out
    for episode in read_episodes(record):
        firsts = [0, *(turn.end for turn in episode.turns[:-1])]
        sampled = [sum(episode.tokens.mask[: turn.end]) for turn in episode.turns]
        assert episode.usage["completion_tokens"] == sampled[-1] == episode.tokens.sampled
        ends = [turn.end for turn in episode.turns]
        prompts = [end - sum(episode.tokens.mask[first:end]) for first, end in zip(firsts, ends, strict=True)]
        assert episode.usage["prompt_tokens"] == sum(prompts)
        assert (episode.agent["model"], episode.agent["revision"]) == ("rlvr/tiny", None)
        assert episode.agent["sampling"]["max_new_tokens"] == 4


def test_the_revision_of_a_folder_changes_with_its_weights(tmp_path):
    assert revision_of(str(tmp_path)) is None
    weights = bytearray(1 << 22)
    (tmp_path / "model.safetensors").write_bytes(weights)
    before = revision_of(str(tmp_path))
    (tmp_path / "README.md").write_text("other")
    assert revision_of(str(tmp_path)) == before
    weights[-1] = 1
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert revision_of(str(tmp_path)) != before
    assert revision_of("no name of a model") is None


def test_records_of_before_say_nothing_of_it():
    (episode,) = Rollout("rlvr/Countdown-v0", RandomAgent())(task_requests(None, 1))
    record = episode.to_dict()
    assert "agent" not in record
    assert "usage" not in record
    result = summarise([Episode.from_dict(record)])
    assert result.usage == {}
    assert "used" not in str(result)


def test_a_reply_in_the_journal_keeps_what_it_took(tmp_path):
    reply = Reply("4", usage={"prompt_tokens": 3.0, "cost": 0.5}, model="m-1")
    asked = Conversation("k", [{"role": "user", "content": "?"}])
    journal = Journal(tmp_path / "j.jsonl")
    journal.write(asked, reply)
    journal.close([])
    assert Journal(tmp_path / "j.jsonl").reply_to(asked) == reply


def test_whoever_has_no_description_is_named_by_its_class(tmp_path):
    evaluate(Rollout("rlvr/Countdown-v0", RandomAgent()), task_requests(None, 1), record=tmp_path / "a.jsonl")
    (episode,) = read_episodes(tmp_path / "a.jsonl")
    assert (episode.agent, episode.usage) == ({"model": "RandomAgent"}, {})
