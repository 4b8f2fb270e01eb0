"""A turn reads what is new alone: keys and values of a conversation stay with it, under the weights that made them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

from rlvr.agents.conversation import Conversation
from rlvr.agents.models import slots
from rlvr.agents.models.sampling import Sampling, uniforms
from rlvr.agents.models.slots import Prefix, weights_mark
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent, sample, sample_each

ENDS = list(range(0, 403, 12))
LIMIT = 12


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_policy(hidden=32, layers=2)[0]


@pytest.fixture
def tokens_read(model, monkeypatch) -> list[int]:
    """How many tokens each pass over prompts reads, padding included."""
    read: list[int] = []
    padded = slots._Batch._padded

    def note(self, prompts, *, left: bool):
        ids = padded(self, prompts, left=left)
        read.append(ids.numel())
        return ids

    monkeypatch.setattr(slots._Batch, "_padded", note)
    return read


def turn(model: Any, prompts: list[list[int]], at_once: int | None, prefixes: list[Prefix | None] | None) -> list[Any]:
    noise = [uniforms(1, str(index), len(prompt), LIMIT) for index, prompt in enumerate(prompts)]
    limits = [LIMIT] * len(prompts)
    if prefixes is None:
        return sample(model, prompts, limits, noise, ENDS, Sampling(), at_once)
    done = dict(sample_each(model, prompts, limits, noise, ENDS, Sampling(), at_once, prefixes))
    return [done[index] for index in range(len(prompts))]


def play(model: Any, count: int, turns: int, at_once: int | None, prefixes: list[Prefix | None] | None) -> list[Any]:
    """Conversations of several turns, with messages of other lengths between them; the replies of all."""
    draw = np.random.default_rng(3)
    prompts = [draw.integers(5, 90, size=4 + 3 * (number % 4)).tolist() for number in range(count)]
    replies = []
    for _ in range(turns):
        replies += (said := turn(model, prompts, at_once, prefixes))
        for prompt, (ids, _) in zip(prompts, said, strict=True):
            prompt += [*ids, *draw.integers(5, 90, size=int(draw.integers(1, 9))).tolist()]
    return replies


def assert_same(replies: list[Any], expected: list[Any]) -> None:
    assert [ids for ids, _ in replies] == [ids for ids, _ in expected]
    for (_, logprobs), (_, others) in zip(replies, expected, strict=True):
        np.testing.assert_allclose(logprobs, others, atol=1e-5)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("at_once", [1, 3, None])
def test_replies_are_those_of_conversations_that_are_read_whole(model, at_once, static, monkeypatch):
    monkeypatch.setattr(slots, "replays", lambda *_: static)
    assert_same(play(model, 7, 4, at_once, [None] * 7), play(model, 7, 4, at_once, None))


def test_a_turn_reads_what_is_new_alone(model, tokens_read):
    play(model, 7, 4, None, [None] * 7)
    first, *later = tokens_read
    assert first == 7 * 13
    assert len(later) == 3
    assert all(tokens <= 7 * 9 for tokens in later), "at most 8 new ones each, and the last that was sampled"


def test_some_go_on_and_others_begin(model):
    prefixes: list[Prefix | None] = [None] * 3
    first = [[7, 8, 9], [10, 11, 12, 13], [5, 6]]
    said = turn(model, first, None, prefixes)
    prompts = [[*prompt, *ids, 20, 21] for prompt, (ids, _) in zip(first, said, strict=True)]
    prompts[1] = [30, 31, 32]  # another conversation than its prefix is of
    prefixes[2] = None
    assert_same(turn(model, prompts, None, prefixes), turn(model, prompts, None, None))


@pytest.mark.parametrize("kind", ["eager", "positions", "window", "bfloat16"])
def test_models_of_other_kinds(kind):
    sizes: dict[str, Any] = {"vocab_size": 403, "hidden_size": 32, "num_attention_heads": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        if kind == "positions":
            other: Any = GPT2LMHeadModel(GPT2Config(vocab_size=403, n_embd=32, n_layer=2, n_head=4, n_positions=256))
        else:
            sizes |= {"intermediate_size": 48, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 8}
            sizes |= {"sliding_window": 8 if kind == "window" else None}
            sizes |= {"attn_implementation": "eager" if kind == "eager" else "sdpa"}
            other = MistralForCausalLM(MistralConfig(**sizes))
    other.eval()
    if kind == "bfloat16":  # one rounding more or less: the tokens may differ, and no number may be wrong
        for ids, logprobs in play(other.to(torch.bfloat16), 5, 3, None, [None] * 5):
            assert ids
            assert np.isfinite(logprobs).all()
        return
    assert_same(play(other, 5, 3, None, [None] * 5), play(other, 5, 3, None, None))


@pytest.mark.parametrize("way", ["in place", "behind torch's back", "moved", "adapter"])
def test_what_other_weights_had_read_is_read_anew(way, tokens_read):
    from peft import LoraConfig, get_peft_model

    policy: Any = tiny_policy(hidden=32, layers=1)[0]
    if way == "adapter":
        policy = get_peft_model(policy, LoraConfig(r=2, init_lora_weights=False))
    prefixes: list[Prefix | None] = [None]
    ((ids, _),) = turn(policy, [[7, 8, 9]], None, prefixes)
    prompt = [7, 8, 9, *ids, 20, 21]
    before = weights_mark(policy)
    assert before == weights_mark(policy)
    if way == "adapter":
        policy.disable_adapter_layers()
    for weight in policy.parameters():
        if way == "in place":
            with torch.no_grad():
                weight.mul_(1.01)
        elif way == "behind torch's back":
            weight.data.numpy()[...] *= 1.01
        elif way == "moved":
            weight.data = weight.data.clone()
    assert weights_mark(policy) != before
    tokens_read.clear()
    after = turn(policy, [prompt], None, prefixes)
    assert tokens_read == [len(prompt)]
    assert_same(after, turn(policy, [prompt], None, None))


def test_prefixes_hold_no_more_than_they_may_and_go_with_their_conversations(model, tokens_read, monkeypatch):
    gc.collect()
    held = sum(prefix.size for prefix in slots.PREFIXES)
    prefixes: list[Prefix | None] = [None] * 4
    said = turn(model, [[number, 8, 9] for number in range(5, 9)], None, prefixes)
    sizes = [prefix.size for prefix in prefixes if prefix]
    assert len(sizes) == 4
    prefixes.clear()
    gc.collect()
    assert sum(prefix.size for prefix in slots.PREFIXES) == held

    monkeypatch.setattr(slots, "PREFIX_BYTES", held + 2 * max(sizes))
    prefixes = [None] * 4
    turn(model, [[number, 8, 9] for number in range(5, 9)], None, prefixes)
    assert 2 <= sum(prefix is not None for prefix in prefixes) < 4
    prompts = [[number, 8, 9, *ids, 20] for number, (ids, _) in zip(range(5, 9), said, strict=True)]
    assert_same(turn(model, prompts, None, prefixes), turn(model, prompts, None, None))


def test_a_conversation_keeps_what_its_agent_has_read(tokens_read):
    agent = TransformersAgent(*tiny_policy(hidden=32, layers=1), max_new_tokens=6)
    conversation = Conversation("one", [{"role": "user", "content": "What is 12 + 30?"}])
    for answer in ("It is not.", "Nor that."):
        (reply,) = agent.act([conversation])
        conversation.append_reply(reply)
        conversation.messages.append({"role": "user", "content": answer})
    (reply,) = agent.act([conversation])
    whole = Conversation("one", conversation.messages, conversation.tokens, conversation.rendered)
    (expected,) = agent.act([whole])
    assert tokens_read[2] < tokens_read[1] + tokens_read[0] < tokens_read[3]
    assert reply.completion is not None
    assert expected.completion is not None
    assert reply.completion.ids == expected.completion.ids
    np.testing.assert_allclose(reply.completion.logprobs, expected.completion.logprobs, atol=1e-5)
