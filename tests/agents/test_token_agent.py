"""`VLLMAgent` over vLLM's wire format without vLLM: our own generate server speaks it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch

from rlvr.adapters.serving.generate_server import GenerateServer
from rlvr.agents import Conversation, Rollout, RolloutRequest
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.models.vllm import LocalEngine, ServerEngine, VLLMAgent, seed_of
from rlvr.envs.endpoint import Endpoint, EndpointError

GUESS = "rlvr/GuessNumber-v0"


@pytest.fixture(scope="module")
def policy() -> tuple[Any, Any]:
    model, tokenizer = tiny_policy(hidden=64, layers=1, max_positions=512)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 if parameter.dim() > 1 else 1.0)
    return model, tokenizer


@pytest.fixture
def server(policy: tuple[Any, Any]) -> Iterator[GenerateServer]:
    with GenerateServer(policy[0], end_ids=[policy[1].eos_token_id], name="tiny", api_key="k") as server:
        yield server


def agent(server: GenerateServer, policy: tuple[Any, Any], **options: Any) -> VLLMAgent:
    engine = ServerEngine(Endpoint(f"{server.url}/v1", "tiny", "k", deadline=60.0, retries=0))
    return VLLMAgent(engine, policy[1], **{"max_new_tokens": 8, **options})


def test_episodes_over_the_wire(server: GenerateServer, policy: tuple[Any, Any]) -> None:
    requests = [RolloutRequest(seed=0, index=index) for index in range(3)]
    once, again = (Rollout(GUESS, agent(server, policy, temperature=0.7))(requests) for _ in range(2))
    # Requests arrive in other batches, whose arithmetic rounds differently; the tokens are the same.
    assert [episode.tokens.ids for episode in once] == [episode.tokens.ids for episode in again]
    assert [episode.messages() for episode in once] == [episode.messages() for episode in again]
    for episode in once:
        ids, mask = episode.tokens.ids, torch.tensor(episode.tokens.mask[1:]) == 1
        with torch.no_grad():
            scores = (policy[0](torch.tensor([ids])).logits[0] / 0.7).log_softmax(-1)
        expected = scores[range(len(ids) - 1), ids[1:]]
        torch.testing.assert_close(torch.tensor(episode.tokens.logprobs[1:])[mask], expected[mask], atol=1e-4, rtol=0)
        assert len(episode.turns) > 1


def test_the_likeliest_tokens_are_the_transformers_agents(server: GenerateServer, policy: tuple[Any, Any]) -> None:
    requests = [RolloutRequest(seed=0, index=index) for index in range(3)]
    ours = Rollout(GUESS, agent(server, policy, greedy=True))(requests)
    theirs = Rollout(GUESS, TransformersAgent(*policy, max_new_tokens=8, greedy=True))(requests)
    assert [episode.tokens.ids for episode in ours] == [episode.tokens.ids for episode in theirs]


def test_a_server_that_dies_makes_episodes_invalid(server: GenerateServer, policy: tuple[Any, Any]) -> None:
    asked = agent(server, policy)
    conversation = Conversation("k", [{"role": "user", "content": "2+2?"}])
    server.close()
    [reply] = asked.act([conversation])
    assert reply.stop == "error"
    assert reply.error.startswith(server.url)
    assert not conversation.tokens.ids
    [episode] = Rollout(GUESS, asked)([RolloutRequest(seed=0)])
    assert not episode.valid
    with pytest.raises(EndpointError, match="could not be reached"):
        agent(server, policy)


def test_logprobs_that_leave_the_cut_out_are_refused(server: GenerateServer, policy: tuple[Any, Any]) -> None:
    """Our own sampler records those of the whole vocabulary, as its learner wants them."""
    with pytest.raises(ValueError, match="processed_logprobs"):
        agent(server, policy, top_k=3)


class Scripted:
    """An engine that says what it is told to."""

    limit = 64
    concurrency = 1

    def __init__(self, *said: Any) -> None:
        self.said = list(said)

    def generate(self, prompts: Any, options: Any) -> list[Any]:
        return [self.said.pop(0) for _ in prompts]

    def close(self) -> None: ...


COLD, GREEDY = ([5, 6], [-0.1, -0.2]), ([5, 6], [-2.0, -3.0])


def test_raw_logprobs_are_refused(policy: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="processed_logprobs"):
        VLLMAgent(Scripted(GREEDY, GREEDY), policy[1], max_new_tokens=4)
    with pytest.raises(ValueError, match="processed_logprobs"):
        VLLMAgent(Scripted(COLD, GREEDY), policy[1], max_new_tokens=4, top_p=0.9)
    with pytest.raises(EndpointError, match="on fire"):
        VLLMAgent(Scripted("on fire", COLD), policy[1], max_new_tokens=4)


def test_one_failure_leaves_the_others(policy: tuple[Any, Any]) -> None:
    asked = VLLMAgent(Scripted(COLD, GREEDY, GREEDY, "lost", ([65], [-1.0])), policy[1], max_new_tokens=4)
    batch = [Conversation(key, [{"role": "user", "content": "x"}]) for key in "abc"]
    replies = asked.act(batch)
    assert [reply.stop for reply in replies] == ["length", "error", "length"]
    assert [reply.completion is not None for reply in replies] == [True, False, True]
    assert not any(conversation.tokens for conversation in batch)  # whoever drives the episode appends
    assert replies[1].error == "lost"


def test_wrong_options(server: GenerateServer, policy: tuple[Any, Any]) -> None:
    for name, value in {"temperature": 0.0, "top_p": 0.0, "top_k": 0, "max_new_tokens": 0, "max_length": 0}.items():
        with pytest.raises(ValueError, match=name):
            VLLMAgent(Scripted(COLD, GREEDY), policy[1], **{"max_new_tokens": 4, name: value})
    with pytest.raises(ValueError, match="build_tiny"):
        VLLMAgent.load("rlvr/tiny", max_new_tokens=4)
    with pytest.raises(ValueError, match="serves tiny, not 'huge'"):
        ServerEngine(Endpoint(server.url, "huge", "k"))


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is here")
def test_without_vllm_the_error_names_the_version() -> None:
    with pytest.raises(ImportError, match=r"vllm==0\.32\.0"):
        LocalEngine("anything")


def test_seeds() -> None:
    seeds = {seed_of(seed, key, position) for seed in (0, 1) for key in ("a", "\ud800") for position in (0, 1)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)
