"""`rlvr serve-model` as a real process: `rlvr eval` plays over HTTP the episodes that it plays with the policy here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("transformers")

import torch

from rlvr.adapters.serving.generate_server import CHAT_PATH, ChatServer
from rlvr.adapters.testing import nothing_left, score
from rlvr.agents.conversation import Conversation, Message
from rlvr.agents.evaluation.records import read_episodes
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.cli import main

KEY = "sk-served"
# As Qwen3's leaves out the thinking of earlier replies.
FORGETFUL = """\
{%- for message in messages -%}
{%- set text = message['content'] -%}
{%- if message['role'] == 'assistant' and not loop.last and '<tool_call>' not in text -%}
{%- set text = text[:4] -%}
{%- endif -%}
{{- '<|' + message['role'] + '|>' + text + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"""


def lively_policy(end: float) -> Any:
    """Random weights whose replies are no loop of one token, and end where ``end`` is large; a forgetful tokenizer."""
    model, tokenizer = tiny_policy(hidden=32, layers=2, seed=5)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(30)
            layer.mlp.down_proj.weight.mul_(30)
            layer.self_attn.q_proj.weight.mul_(4)
            layer.mlp.gate_proj.weight.mul_(4)
        model.model.embed_tokens.weight[tokenizer.eos_token_id].mul_(end)
    tokenizer.chat_template = FORGETFUL
    return model, tokenizer


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "mine"
    model, tokenizer = lively_policy(end=1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Served(NamedTuple):
    process: subprocess.Popen[str]
    url: str


@pytest.fixture(scope="module")
def served(checkpoint: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "rlvr", "serve-model", str(checkpoint), "--port", "0", "--api-key-env", "KEY"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"KEY": KEY})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"mine at (http://127\.0\.0\.1:\d+/v1) \(Ctrl-C ends it\)\n", line)
        assert found, line
        yield Served(process, found[1])
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "env",
    [
        "Countdown",
        pytest.param("GuessNumber", marks=pytest.mark.slow),
        pytest.param("Calculator", marks=pytest.mark.slow),
    ],
)
def test_eval_over_http_plays_the_episodes_that_it_plays_here(
    env: str, served: Served, checkpoint: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """One turn, many turns, and tools: at temperature 0 every byte of every reply is the same."""
    monkeypatch.setenv("THE_KEY", KEY)
    played = ["eval", "--env", env, "--episodes", "4", "--max-new-tokens", "24"]
    here = [*played, "--model", str(checkpoint), "--batch-size", "1", "--out", str(tmp_path / "here.jsonl")]
    there = [*played, "--model", "mine", "--endpoint", served.url, "--api-key-env", "THE_KEY", "--tool-messages"]
    assert main(here) == 0
    assert main([*there, "--concurrency", "1", "--out", str(tmp_path / "there.jsonl")]) == 0
    a, b = ({e.key: e for e in read_episodes(tmp_path / f"{name}.jsonl")} for name in ("here", "there"))
    assert a.keys() == b.keys()
    for key, episode in a.items():
        assert [turn.action for turn in episode.turns] == [turn.action for turn in b[key].turns]
        assert [turn.stop for turn in episode.turns] == [turn.stop for turn in b[key].turns]
        assert (episode.verdict.status, episode.reward) == (b[key].verdict.status, b[key].reward)
    actions = {turn.action for episode in a.values() for turn in episode.turns}
    assert len(actions) > 1  # not one text for all
    assert sum(episode.tokens.sampled for episode in a.values()) > 24


def test_without_its_key_a_server_serves_nobody(served: Served, capsys: Any) -> None:
    words = ["eval", "--env", "Countdown", "--episodes", "1", "--model", "mine", "--endpoint", served.url]
    assert main(words) == 1
    assert "status 401" in (err := capsys.readouterr().err)
    assert "--api-key-env NAME sends one" in err


def test_a_port_that_is_taken_is_named(served: Served, checkpoint: Path, capsys: Any) -> None:
    port = served.url.split(":")[2].removesuffix("/v1")
    handler = signal.getsignal(signal.SIGINT)
    assert main(["serve-model", str(checkpoint), "--port", port]) == 2
    assert f"port {port} cannot be listened at (Address already in use): give another --port" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is handler  # a process that calls the command keeps its Ctrl-C


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--host", "0.0.0.0"], "--host and --options are vLLM's"),
        (["--options", "{}"], "--host and --options are vLLM's"),
        (["--engine", "vllm", "--options", "[1]"], "--options takes a JSON object"),
        (["--engine", "vllm", "--options", '{"middleware": "x.y"}'], "--allow-code"),
        (["--engine", "vllm", "--device", "cuda"], "--device is the other engine's"),
        (["--engine", "vllm", "--host", "0.0.0.0", "--no-key"], "--no-key serves everybody"),
        (["--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
        (["--max-length", "1"], "max_length=1 must be at least 2"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(more: list[str], said: str, checkpoint: Path, capsys: Any) -> None:
    assert main(["serve-model", str(checkpoint), "--port", "0", *more]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


# the server in this process


@pytest.fixture(scope="module")
def policy() -> Any:
    return lively_policy(end=3)


@pytest.fixture(scope="module")
def server(policy: Any) -> Iterator[ChatServer]:
    with nothing_left(), ChatServer(*policy, max_length=512) as running:
        yield running


def ask(server: ChatServer, messages: Any, **fields: Any) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.api_key}"}
    data = json.dumps({"messages": messages, "max_tokens": 8, **fields}).encode()
    request = urllib.request.Request(server.url + CHAT_PATH, data, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def test_tokens_and_logprobs_are_those_of_one_forward_pass(server: ChatServer, policy: Any) -> None:
    answer = ask(server, user("Say something"), temperature=1.0, seed=3, logprobs=True, return_token_ids=True)
    (choice,) = answer["choices"]
    prompt, ids = answer["prompt_token_ids"], choice["token_ids"]
    assert prompt == server.renderer.render(Conversation("k", user("Say something")))
    content = choice["logprobs"]["content"]
    assert [entry["logprob"] for entry in content] == pytest.approx(
        score(policy[0], prompt + ids)[len(prompt) :], abs=1e-5
    )
    assert answer["usage"] == {
        "prompt_tokens": len(prompt),
        "completion_tokens": len(ids),
        "total_tokens": len(prompt) + len(ids),
    }
    again = ask(server, user("Say something"), temperature=1.0, seed=3, n=2, return_token_ids=True)["choices"]
    assert again[0]["token_ids"] == ids != again[1]["token_ids"]


def test_a_reply_is_what_the_agent_of_this_process_says(server: ChatServer, policy: Any) -> None:
    agent = TransformersAgent(*policy, max_new_tokens=8, greedy=True)
    ended = set()
    for text in ("2+2?", "What is it?", "a", "Numbers: 3 5 7. Target: 8.", "é", "Guess", "x" * 40, "<|end|>"):
        [reply] = agent.act([Conversation("k", user(text))])
        (choice,) = ask(server, user(text), temperature=0)["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == (reply.text, reply.stop)
        ended.add(reply.stop)
    assert ended == {"stop", "length"}


def test_a_conversation_goes_on_with_the_tokens_that_were_sampled(server: ChatServer) -> None:
    first = ask(server, user("One"), temperature=1.0, seed=1, return_token_ids=True)
    (choice,) = first["choices"]
    said = [*user("One"), choice["message"], *user("Two")]
    sampled = first["prompt_token_ids"] + choice["token_ids"]
    assert ask(server, said, return_token_ids=True)["prompt_token_ids"][: len(sampled)] == sampled
    # Of a reply that it never gave, it has the template's text alone.
    other = [*user("One"), {"role": "assistant", "content": "x"}, *user("Two")]
    assert ask(server, other, return_token_ids=True)["prompt_token_ids"] != sampled


def test_one_text_of_two_token_sequences_is_read_as_text(server: ChatServer) -> None:
    for seed in range(100):
        ended = ask(server, user(f"Text {seed}"), temperature=1.0, seed=seed, return_token_ids=True)
        if ended["choices"][0]["finish_reason"] == "stop" and len(ended["choices"][0]["token_ids"]) > 1:
            break
    (choice,) = ended["choices"]
    # The same text without the token that ends it.
    limit = len(choice["token_ids"]) - 1
    cut = ask(server, user(f"Text {seed}"), temperature=1.0, seed=seed, max_tokens=limit, return_token_ids=True)
    (other,) = cut["choices"]
    assert other["message"] == choice["message"]
    assert other["token_ids"] == choice["token_ids"][:limit]
    conversation = [*user(f"Text {seed}"), choice["message"], *user("Two")]
    written = server.renderer.render(Conversation("k", conversation))
    assert ask(server, conversation, return_token_ids=True)["prompt_token_ids"] == written


def test_calls_and_parts_become_the_text_that_the_template_is_shown(server: ChatServer) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "sum", "arguments": '{"b":  "\\u00fc", "a": 1}'}}
    messages = [
        *user("One"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "2"}]},
    ]
    prompt = ask(server, messages, return_token_ids=True)["prompt_token_ids"]
    text = server.renderer.tokenizer.decode(prompt)
    assert '<tool_call>\n{"name": "sum", "arguments": {"b":  "\\u00fc", "a": 1}}\n</tool_call>' in text
    assert "<|tool|>2<|end|>" in text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stream": True}, "stream is not supported"),
        ({"stop": ["x"]}, "stop=['x'] is not supported"),
        ({"skip_special_tokens": False}, "skip_special_tokens=false is not supported"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 5, "logprobs": True}, "top_logprobs=5 is not supported"),
        ({"temperature": -1}, "temperature=-1.0 must be above 0"),
        ({"max_tokens": 0}, "max_tokens=0 must be at least 1"),
        ({"messages": []}, "messages must be a list of objects"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "a role is system, user, assistant or tool"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "reads text alone"),
        ({"messages": [{"role": "user", "content": 5}]}, "a content must be a text"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "no new message"),
        ({"messages": user("x" * 600)}, "the maximum context length is 512 tokens"),
        ({"tools": "x"}, "tools must be a list"),
        ({"model": "gpt"}, "'gpt' is not served here"),
    ],
)
def test_what_a_request_may_not_ask_is_one_sentence(fields: dict[str, Any], said: str, server: ChatServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(server, **({"messages": user("x")} | fields))
    with caught.value as error:
        assert error.code in (400, 404)
        assert said in json.loads(error.read())["error"]["message"]


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("no-such-host.invalid", "--host no-such-host.invalid is no address"),
        ("192.0.2.1", "is not an address of this machine"),
    ],
)
def test_a_host_that_is_wrong_is_blamed_and_not_the_port(host, message):
    from rlvr.cli.serve_model import _free_port

    with pytest.raises(ValueError, match=message) as raised:
        _free_port(host, 0)
    assert "--port" not in str(raised.value)
