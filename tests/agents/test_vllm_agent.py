"""The vLLM agent against a real vLLM on the CPU: in this process, and a server on the loopback.

`make test-vllm` builds an environment that holds vLLM and runs this file in it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

pytest.importorskip("vllm")

import torch

from rlvr.agents import Conversation, Reply, Rollout, RolloutRequest, evaluate, task_requests
from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.evaluation.records import read_episodes
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.models.vllm import LocalEngine, ServerEngine, VLLMAgent
from rlvr.envs.endpoint import Endpoint

from ..children import wait_for_server

pytestmark = [pytest.mark.vllm, pytest.mark.foreign, pytest.mark.slow, pytest.mark.timeout(1_200)]

GUESS = "rlvr/GuessNumber-v0"
LENGTH = 1_024
ENGINE = {"dtype": "float32", "enforce_eager": True, "max_model_len": LENGTH}
# The engine's arithmetic is not the model's own: what one forward pass may differ by, in nats.
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy whose distributions are far from flat, so that a wrong log-probability is seen."""
    path = build_tiny(tmp_path_factory.mktemp("policy") / "tiny", seed=1)
    model: Any
    model, _ = load_policy(path)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.0)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def policy(folder: Path) -> tuple[Any, Any]:
    return load_policy(folder)


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[LocalEngine]:
    engine = LocalEngine(folder, **ENGINE)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def endpoint(folder: Path) -> Iterator[Endpoint]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # What `vllm serve` runs: its own command does not start from the wheel for the CPU, which has another name.
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(folder),
        "--api-key",
        "secret",
    ]
    command += ["--served-model-name", "tiny", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--enable-scale-out", "--logprobs-mode", "processed_logprobs"]
    command += ["--dtype", "float32", "--enforce-eager", "--max-model-len", str(LENGTH)]
    process = subprocess.Popen(command)
    endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", "tiny", "secret", deadline=300.0, max_tokens=12)
    try:
        wait_for_server(process, endpoint)
        yield endpoint
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module", params=["local", "server"])
def engine(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        return request.getfixturevalue("local")
    return ServerEngine(request.getfixturevalue("endpoint"))


def make(engine: Any, policy: tuple[Any, Any], **options: Any) -> VLLMAgent:
    return VLLMAgent(engine, policy[1], **{"max_new_tokens": 12, "seed": 3, **options})


def conversations(count: int = 6) -> list[Conversation]:
    return [Conversation(f"task{i}/0", [{"role": "user", "content": "2+2? " * (i // 2 + 1)}]) for i in range(count)]


def act(agent: Any, batch: list[Conversation]) -> list[Reply]:
    """The agent's replies, appended to their conversations as the rollout does."""
    replies: list[Reply] = agent.act(batch)
    for conversation, reply in zip(batch, replies, strict=True):
        if reply.stop != "context":
            conversation.append_reply(reply)
    return replies


def play(agent: Any, batch: list[Conversation], turns: int = 3) -> list[Conversation]:
    """Let the agent speak ``turns`` times, with a tool's words in between."""
    for turn in range(turns):
        for conversation, reply in zip(batch, act(agent, batch), strict=True):
            assert reply.stop in ("stop", "length"), reply
            conversation.messages.append({"role": "tool", "content": f"result {turn} <|end|>"})
    return batch


def recomputed(model: Any, ids: list[int], temperature: float = 1.0) -> torch.Tensor:
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0] / temperature
    return logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]]


def largest_difference(model: Any, batch: list[Conversation], temperature: float = 1.0) -> float:
    """Between what was recorded and one forward pass over the final sequence; checks masks on the way."""
    worst = 0.0
    for conversation in batch:
        tokens = conversation.tokens
        recorded, mask = torch.tensor(tokens.logprobs[1:]), torch.tensor(tokens.mask[1:])
        assert tokens.sampled > 0
        assert not recorded[mask == 0].any()
        expected = recomputed(model, tokens.ids, temperature)
        worst = max(worst, float((recorded - expected)[mask == 1].abs().max()))
    return worst


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_recorded_logprobs_are_those_of_one_forward_pass(engine, policy, temperature, record_property):
    batch = play(make(engine, policy, temperature=temperature), conversations())
    difference = largest_difference(policy[0], batch, temperature)
    record_property("largest_difference", difference)
    print(f"\nlargest difference to one forward pass, temperature {temperature}: {difference:.1e}")
    assert difference < TOLERANCE
    assert len({tuple(conversation.tokens.ids) for conversation in batch}) == len(batch)


def test_what_the_tool_said_is_masked_and_special_tokens_in_it_are_plain(engine, policy):
    tokenizer = policy[1]
    for conversation in play(make(engine, policy), conversations(2)):
        tokens = conversation.tokens
        told = tokenizer.decode([token for token, mine in zip(tokens.ids, tokens.mask, strict=True) if not mine])
        said = tokenizer.decode([token for token, mine in zip(tokens.ids, tokens.mask, strict=True) if mine])
        assert "result 0 <|end|>" in told
        assert "result 1 <|end|>" in told
        assert "result" not in said


def test_the_likeliest_tokens_are_the_transformers_agents(engine, policy):
    ours = play(make(engine, policy, greedy=True), conversations())
    theirs = play(TransformersAgent(*policy, max_new_tokens=12, greedy=True), conversations())
    assert [c.tokens.ids for c in ours] == [c.tokens.ids for c in theirs]
    assert [c.tokens.mask for c in ours] == [c.tokens.mask for c in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.tokens.logprobs == pytest.approx(other.tokens.logprobs, abs=TOLERANCE)


def test_seed_and_key_decide_the_episode(engine, policy):
    once, again = (play(make(engine, policy), conversations()) for _ in range(2))
    assert [c.tokens.ids for c in once] == [c.tokens.ids for c in again]
    assert [c.messages for c in once] == [c.messages for c in again]
    alone = play(make(engine, policy), conversations()[2:3])
    assert alone[0].tokens.ids == once[2].tokens.ids
    others = play(make(engine, policy, seed=4), conversations())
    assert all(one.tokens.ids != other.tokens.ids for one, other in zip(once, others, strict=True))
    assert once[0].tokens.ids != once[1].tokens.ids  # the same prompt under another key


def test_a_cut_to_the_likeliest_is_in_the_logprobs(engine, policy):
    batch = play(make(engine, policy, top_k=3), conversations(2), turns=1)
    for conversation in batch:
        tokens = conversation.tokens
        with torch.no_grad():
            logits = policy[0](torch.tensor([tokens.ids])).logits[0]
        likeliest = logits.topk(3).values.logsumexp(-1)[:-1]
        expected = logits[range(len(tokens) - 1), tokens.ids[1:]] - likeliest
        mask = torch.tensor(tokens.mask[1:]) == 1
        torch.testing.assert_close(torch.tensor(tokens.logprobs[1:])[mask], expected[mask], atol=TOLERANCE, rtol=0)


def test_limits_of_a_turn_and_of_an_episode(engine, policy):
    agent = make(engine, policy, max_new_tokens=5, max_length=30)
    [conversation] = conversations(1)
    [reply] = act(agent, [conversation])
    assert reply.tokens <= 5
    conversation.messages.append({"role": "user", "content": "x" * 40})
    before = list(conversation.tokens.ids)
    assert agent.act([conversation])[0].stop == "context"
    assert conversation.tokens.ids == before
    assert make(engine, policy, max_length=10 * LENGTH).max_length == LENGTH


def test_replies_stop_at_the_end_token(engine, policy):
    """Greedy replies of a policy that is taught nothing never end; sampled ones do, here and there."""
    agent = make(engine, policy, max_new_tokens=200, temperature=2.0)
    batch = conversations(12)
    replies = act(agent, batch)
    ended = [c for c, reply in zip(batch, replies, strict=True) if reply.stop == "stop"]
    assert ended
    for conversation in ended:
        assert conversation.tokens.ids[-1] == policy[1].eos_token_id
        assert conversation.tokens.mask[-1] == 1
        assert policy[1].eos_token_id not in conversation.tokens.ids[-200:-1][conversation.tokens.mask.index(1) :]


def test_partial_replies_and_thinking_budgets_work_as_in_the_base(engine, policy):
    agent = make(engine, policy, segment=4, greedy=True)
    [conversation] = conversations(1)
    stops = []
    while not stops or stops[-1] == "pause":
        stops.append(act(agent, [conversation])[0].stop)
    whole = play(make(engine, policy, greedy=True), conversations(1), turns=1)[0]
    assert stops.count("pause") == 2
    assert conversation.tokens.ids == whole.tokens.ids
    phrase = ThinkingBudget("</think>", 4, 4)
    thought = play(make(engine, policy, greedy=True, thinking_budget=phrase), conversations(1), turns=1)[0]
    assert largest_difference(policy[0], [thought]) < TOLERANCE


def test_whole_episodes_in_an_environment(engine, policy):
    requests = [RolloutRequest(seed=0, index=index) for index in range(4)]
    episodes = [Rollout(GUESS, make(engine, policy))(requests) for _ in range(2)]
    for episode, again in zip(*episodes, strict=True):
        assert (episode.tokens.ids, episode.tokens.mask) == (again.tokens.ids, again.tokens.mask)
        assert episode.messages() == again.messages()
        assert episode.valid
        assert len(episode.turns) > 1
        assert episode.turns[-1].end == len(episode.tokens)


def test_new_weights_are_sampled_with(local, policy):
    model = policy[0]
    agent = make(local, policy)
    old = {name: tensor.clone() for name, tensor in model.named_parameters()}
    try:
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.mul_(1.5)
        assert largest_difference(model, play(agent, conversations(2), turns=1)) > 0.1  # a stale sampler is seen
        local.update_weights((name, tensor.detach()) for name, tensor in model.named_parameters())
        assert largest_difference(model, play(agent, conversations())) < TOLERANCE
    finally:
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                tensor.copy_(old[name])
        local.update_weights(old.items())
    assert largest_difference(model, play(agent, conversations(2))) < TOLERANCE


def test_an_engine_that_records_raw_logprobs_is_refused(local, policy):
    """Raw ones are those of greedy decoding, whatever the temperature and the cut."""

    class Raw:
        limit = LENGTH

        def generate(self, prompts: Any, options: Any) -> Any:
            greedy = [{**given, "temperature": 0.0, "top_k": 0} for given in options]
            return local.generate(prompts, greedy)

    for cut in ({}, {"top_k": 3}):
        with pytest.raises(ValueError, match="processed_logprobs"):
            make(Raw(), policy, **cut)


# the server


def test_the_server_speaks_to_the_chat_agent_too(endpoint, policy):
    agent = OpenAIAgent(endpoint, concurrency=4, seed=1)
    batch = conversations(4)
    replies = agent.act(batch)
    assert [reply.stop for reply in replies] == ["length"] * 4
    greedy = TransformersAgent(*policy, max_new_tokens=12, greedy=True).act(conversations(4))
    # Its temperature is 0 by default. A server keeps back bytes that end in the middle of a character.
    assert [reply.text.rstrip("\ufffd") for reply in replies] == [reply.text.rstrip("\ufffd") for reply in greedy]
    assert agent.usage.completion_tokens == 4 * 12
    long = Conversation("long", [{"role": "user", "content": "x" * 2 * LENGTH}])
    assert agent.act([long])[0].stop == "context"
    episodes = Rollout(GUESS, agent)([RolloutRequest(seed=0, index=index) for index in range(3)])
    assert all(episode.valid and len(episode.turns) > 1 for episode in episodes)


def test_a_server_that_serves_something_else_or_wants_a_key(endpoint):
    with pytest.raises(ValueError, match=r"serves tiny, .* not 'huge'"):
        ServerEngine(Endpoint(endpoint.base_url, "huge", "secret"))
    with pytest.raises(RuntimeError, match="status 401"):
        ServerEngine(Endpoint(endpoint.base_url, "tiny", "wrong"))


def test_the_command_line_takes_both(endpoint, folder, capsys, monkeypatch):
    from rlvr.cli import main

    monkeypatch.setenv("RLVR_TEST_KEY", "secret")
    common = ["eval", "--env", GUESS, "--episodes", "3", "--max-new-tokens", "8", "--api-key-env", "RLVR_TEST_KEY"]
    for policy in (["--model", "tiny"], ["--vllm", str(folder)]):
        assert main([*common, "--endpoint", endpoint.base_url, *policy]) == 0
        assert "verdicts:" in capsys.readouterr().out


def test_loading_and_closing(endpoint, folder):
    with VLLMAgent.load(folder, engine=endpoint, max_new_tokens=4, greedy=True) as agent:
        [reply] = agent.act(conversations(1))
    assert reply.tokens == 4
    with pytest.raises(FileNotFoundError, match="no folder with a tokenizer"):
        VLLMAgent.load("/nowhere/at-all", engine=endpoint, max_new_tokens=4)


def test_eval_keeps_each_episode_as_its_reply_ends(local, policy, tmp_path):
    """The agent of an engine in this process has a ``submit`` that is None."""
    record = tmp_path / "episodes.jsonl"
    agent = make(local, policy)
    result = evaluate(Rollout(GUESS, agent), task_requests(None, 3), record=record)
    assert (result.valid, len(read_episodes(record))) == (3, 3)
    batch = conversations()
    each = list(agent.act_each(batch))
    assert dict(each) == dict(enumerate(agent.act(batch)))
    replies = agent.act_each(batch)
    next(replies)
    replies.close()  # what was under way is no longer
    assert not local.llm.llm_engine.has_unfinished_requests()
