"""The sampler: what it records is what the model computes, whatever else is in the batch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.models import sampling
from rlvr.agents.models.sampling import Sampling, choose_tokens, uniforms
from rlvr.agents.models.tiny import tiny_policy, tiny_tokenizer
from rlvr.agents.models.transformers import TransformersAgent, sample
from rlvr.algorithms.learner.batch import token_budget_batches
from rlvr.algorithms.learner.head import score_hidden, score_logits
from rlvr.algorithms.learner.scoring import has_plain_head, score_sequences, sequence_logprobs

WIDTHS = {"vocab_size": 262, "max_position_embeddings": 256, "pad_token_id": 256, "eos_token_id": 257}
WIDTHS |= {"bos_token_id": None}
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8}


def make_model(name: str):
    """A small model with weights large enough that its distributions are far from flat."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        if name == "qwen3":
            return sharpen(tiny_policy(hidden=64, words=())[0], 3.0)
        if name == "llama":
            config = LlamaConfig(**SMALL, **WIDTHS, num_key_value_heads=2)
            return sharpen(LlamaForCausalLM(config), 6.0)
        if name == "gpt2":
            return sharpen(GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, **WIDTHS)), 6.0)
        if name == "bloom":  # positions by a bias that it makes from a mask of two dimensions
            sizes = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "eos_token_id": 257}
            return sharpen(BloomForCausalLM(BloomConfig(vocab_size=262, **sizes)), 6.0)
        if name == "hybrid":  # the library's cache: convolutions beside attention
            kinds = ["conv", "full_attention"]
            config = Lfm2Config(**SMALL, **WIDTHS, num_key_value_heads=2, layer_types=kinds)
            return sharpen(Lfm2ForCausalLM(config), 4.0)
        if name == "sliding":  # the library's cache: a window of 8 columns
            config = MistralConfig(**SMALL, **WIDTHS, num_key_value_heads=2, sliding_window=8)
            return sharpen(MistralForCausalLM(config), 6.0)
        config = Gemma2Config(**SMALL, **WIDTHS, num_key_value_heads=2, sliding_window=8)
        config.final_logit_softcapping = 2.0
        return sharpen(Gemma2ForCausalLM(config), 6.0)


def sharpen(model, factor: float):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    return model.eval()


MODELS = ("qwen3", "llama", "gpt2", "bloom", "hybrid", "sliding", "gemma2")


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return make_model(request.param)


@pytest.fixture(scope="module")
def qwen3():
    return make_model("qwen3")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer(())


def conversations(count: int, start: int = 0) -> list[Conversation]:
    """Prompts of different lengths, some of them equal, each with a key of its own."""
    return [
        Conversation(f"task{i}/0", [{"role": "user", "content": "2+2? " * (i // 2 % 5)}])
        for i in range(start, start + count)
    ]


def act(agent: Any, batch: list[Conversation]) -> list[Reply]:
    """The agent's replies, appended to their conversations as the rollout does."""
    replies: list[Reply] = agent.act(batch)
    for conversation, reply in zip(batch, replies, strict=True):
        if reply.stop != "context":
            conversation.append_reply(reply)
    return replies


def play(agent: TransformersAgent, batch: list[Conversation], turns: int = 3) -> list[list[str]]:
    """Let the agent speak ``turns`` times, with a tool's words in between."""
    said: list[list[str]] = [[] for _ in batch]
    for turn in range(turns):
        for conversation, reply, texts in zip(batch, act(agent, batch), said, strict=True):
            texts.append(reply.text)
            conversation.messages.append({"role": "tool", "content": f"result {turn} of {conversation.key} <|end|>"})
    return said


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_logprobs_are_those_of_one_forward_pass(model, tokenizer, temperature):
    agent = TransformersAgent(model, tokenizer, max_new_tokens=12, temperature=temperature, seed=3)
    batch = conversations(9)
    play(agent, batch)
    for conversation in batch:
        tokens = conversation.tokens
        assert sum(tokens.mask) > 0
        with torch.no_grad():
            logits = model(torch.tensor([tokens.ids])).logits[0] / temperature
        expected = logits.log_softmax(-1)[range(len(tokens) - 1), tokens.ids[1:]]
        mask = torch.tensor(tokens.mask[1:])
        recorded = torch.tensor(tokens.logprobs[1:])
        assert torch.equal(recorded[mask == 0], torch.zeros(int((mask == 0).sum())))
        torch.testing.assert_close(recorded[mask == 1], expected[mask == 1], atol=1e-4, rtol=0)


def test_the_learners_logprobs_are_the_samplers(model, tokenizer):
    batch = conversations(6)
    play(TransformersAgent(model, tokenizer, max_new_tokens=12, temperature=0.8), batch)
    longest = max(len(c.tokens) for c in batch)
    ids, mask, recorded = (
        torch.tensor([row + [filler] * (longest - len(row)) for row in rows])
        for rows, filler in (
            ([c.tokens.ids for c in batch], 5),
            ([c.tokens.mask for c in batch], 0),
            ([c.tokens.logprobs for c in batch], 0.0),
        )
    )
    scored = sequence_logprobs(model, ids, mask, 0.8)
    assert scored.shape == ids.shape
    torch.testing.assert_close(scored, recorded, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_an_episode_does_not_depend_on_its_batch(model, tokenizer):
    agent = TransformersAgent(model, tokenizer, max_new_tokens=12, seed=7)
    together = conversations(10)
    play(agent, together)
    reversed_order = conversations(10)[::-1]
    play(TransformersAgent(model, tokenizer, max_new_tokens=12, seed=7, max_sequences=3), reversed_order)
    for one, other in zip(together, reversed_order[::-1], strict=True):
        assert one.tokens.ids == other.tokens.ids
        assert one.messages == other.messages
    alone = conversations(1, start=4)
    play(agent, alone)
    assert alone[0].tokens.ids == together[4].tokens.ids


def test_seed_and_key_decide_the_sample(qwen3, tokenizer):
    def ids(seed: int, key: str) -> list[int]:
        conversation = Conversation(key, [{"role": "user", "content": "2+2?"}])
        act(TransformersAgent(qwen3, tokenizer, max_new_tokens=12, seed=seed), [conversation])
        return conversation.tokens.ids

    assert ids(1, "a") == ids(1, "a")
    assert len({tuple(ids(seed, key)) for seed, key in itertools.product((1, 2), ("a", "b"))}) == 4


def test_the_agent_leaves_the_generators_and_the_mode_alone(qwen3, tokenizer):
    agent = TransformersAgent(qwen3, tokenizer, max_new_tokens=4)
    qwen3.train()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    agent.act(conversations(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert qwen3.training
    assert qwen3.config._attn_implementation == "sdpa"
    qwen3.eval()
    agent.act(conversations(2))
    assert not qwen3.training


def test_the_contract_with_the_rollout(qwen3, tokenizer):
    agent = TransformersAgent(qwen3, tokenizer, max_new_tokens=6)
    batch = conversations(30)
    assert [reply.tokens > 0 for reply in agent.act(batch)] == [True] * 30
    assert batch == conversations(30)  # an agent changes nothing
    replies = act(agent, batch)
    for conversation, reply in zip(batch, replies, strict=True):
        assert conversation.rendered == len(conversation.messages) == 2
        tokens = conversation.tokens
        assert len(tokens.ids) == len(tokens.mask) == len(tokens.logprobs)
        assert reply.tokens == tokens.sampled
        assert tokens.mask == [0] * (len(tokens) - reply.tokens) + [1] * reply.tokens
        ended = tokens.ids[-1] == tokenizer.eos_token_id
        assert reply.stop == ("stop" if ended else "length")
        assert ended or reply.tokens == 6
        assert reply.text == tokenizer.decode(tokens.ids[-reply.tokens :], skip_special_tokens=True)
    assert agent.act([]) == []


def favour(model, token: int, amount: float):
    """The model, with a bias of its output layer towards one token."""
    bias = torch.zeros(model.lm_head.out_features)
    bias[token] = amount
    model.lm_head.bias = torch.nn.Parameter(bias)
    return model


@pytest.mark.parametrize("name", ["llama", "sliding"])
def test_rows_that_end_early_are_dropped_without_touching_the_others(name, tokenizer):
    # End tokens are likely here, so that rows end at many different steps and compaction happens often.
    model = favour(make_model(name), tokenizer.eos_token_id, 4.0)
    agent = TransformersAgent(model, tokenizer, max_new_tokens=40, seed=2)
    batch = conversations(24)
    replies = act(agent, batch)
    assert {r.stop for r in replies} >= {"stop"}
    assert len({r.tokens for r in replies}) > 5
    for i, conversation in enumerate(batch):
        alone = conversations(1, start=i)
        act(agent, alone)
        assert alone[0].tokens.ids == conversation.tokens.ids
        np.testing.assert_allclose(alone[0].tokens.logprobs, conversation.tokens.logprobs, atol=1e-4)


def test_rows_that_all_end_in_the_same_column_are_ended_and_not_cut(tokenizer):
    model = favour(make_model("llama"), tokenizer.eos_token_id, 1e4)
    for limit in (1, 5):
        batch = conversations(8)
        replies = act(TransformersAgent(model, tokenizer, max_new_tokens=limit), batch)
        assert [(r.text, r.stop, r.tokens) for r in replies] == [("", "stop", 1)] * 8
        assert all(c.tokens.ids[-1] == tokenizer.eos_token_id for c in batch)


def test_rows_that_all_reach_the_limit_are_cut(tokenizer):
    model = favour(make_model("llama"), ord("a"), 1e4)
    for limit in (1, 5):
        replies = act(TransformersAgent(model, tokenizer, max_new_tokens=limit), conversations(8))
        assert [(r.text, r.stop, r.tokens) for r in replies] == [("a" * limit, "length", limit)] * 8


def test_a_reply_that_grows_past_the_first_columns_of_the_cache(tokenizer):
    model = make_model("llama")
    batch = conversations(3)
    favour(model, tokenizer.eos_token_id, -1e4)
    act(TransformersAgent(model, tokenizer, max_new_tokens=200), batch)
    for conversation in batch:
        ids = torch.tensor([conversation.tokens.ids])
        assert conversation.tokens.sampled == 200
        scored = sequence_logprobs(model, ids, torch.tensor([conversation.tokens.mask])).detach()
        np.testing.assert_allclose(scored[0], conversation.tokens.logprobs, atol=1e-4)


def test_no_room_in_the_context(qwen3, tokenizer):
    lengths = {}
    for max_length in range(1, 12):
        batch = conversations(2, start=1)  # of 3 and of 8 tokens
        before = [c.tokens.to_dict() for c in batch]
        agent = TransformersAgent(qwen3, tokenizer, max_new_tokens=4, max_length=max_length)
        replies = act(agent, batch)
        for conversation, reply, tokens in zip(batch, replies, before, strict=True):
            if reply.stop == "context":
                assert (reply.text, reply.tokens, conversation.rendered) == ("", 0, 0)
                assert conversation.tokens.to_dict() == tokens
            else:
                assert len(conversation.tokens) <= max_length
        lengths[max_length] = [reply.stop == "context" for reply in replies]
    assert lengths[3] == [True, True]
    assert lengths[4] == [False, True]
    assert lengths[11] == [False, False]


def test_the_models_own_length_bounds_the_context(tokenizer):
    agent = TransformersAgent(make_model("gpt2"), tokenizer, max_new_tokens=400, max_length=1000)
    assert agent.max_length == 256
    batch = conversations(2)
    act(agent, batch)
    assert all(len(c.tokens) <= 256 for c in batch)


def test_greedy_takes_the_likeliest_token_and_records_the_learners_logprobs(qwen3, tokenizer):
    batch = conversations(5)
    act(TransformersAgent(qwen3, tokenizer, max_new_tokens=8, greedy=True), batch)
    for conversation in batch:
        tokens = conversation.tokens
        with torch.no_grad():
            logits = qwen3(torch.tensor([tokens.ids])).logits[0]
        start = len(tokens) - tokens.sampled
        assert tokens.ids[start:] == logits[start - 1 : -1].argmax(-1).tolist()
        expected = logits.log_softmax(-1)[range(start - 1, len(tokens) - 1), tokens.ids[start:]]
        np.testing.assert_allclose(tokens.logprobs[start:], expected, atol=1e-4)


def test_many_lengths_under_a_large_vocabulary(qwen3, tokenizer, monkeypatch):
    usual = conversations(8)
    agent = TransformersAgent(qwen3, tokenizer, max_new_tokens=8)
    act(agent, usual)
    monkeypatch.setattr("rlvr.agents.models.slots.LOGITS_AT_ONCE", 1)
    frugal = conversations(8)
    act(agent, frugal)
    for one, other in zip(usual, frugal, strict=True):
        assert one.tokens.ids == other.tokens.ids
        np.testing.assert_allclose(one.tokens.logprobs, other.tokens.logprobs, atol=1e-4)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_every_attention_implementation_gives_the_same(tokenizer, attention):
    model = make_model("qwen3")
    model.set_attn_implementation(attention)
    batch = conversations(8)
    act(TransformersAgent(model, tokenizer, max_new_tokens=8), batch)
    expected = conversations(8)
    act(TransformersAgent(make_model("qwen3"), tokenizer, max_new_tokens=8), expected)
    assert [c.tokens.ids for c in batch] == [c.tokens.ids for c in expected]


def test_prompts_of_one_token():
    model = make_model("llama")
    noise = [uniforms(0, str(i), 1, 3) for i in range(2)]
    (ids, logprobs), (longer, _) = sample(model, [[7], [7, 8, 9]], [3, 2], noise, [], Sampling())
    assert (len(ids), len(longer)) == (3, 2)
    scored = sequence_logprobs(model, torch.tensor([[7, *ids]])).detach()
    np.testing.assert_allclose(scored[0, 1:], logprobs, atol=1e-4)


def test_a_model_without_attention_is_refused_and_not_sampled_wrongly():
    config = MambaConfig(vocab_size=262, hidden_size=32, num_hidden_layers=2)
    with pytest.raises(ValueError, match="MambaForCausalLM does not use transformers' key-value cache"):
        sample(MambaForCausalLM(config), [[1, 2]], [3], [uniforms(0, "a", 2, 3)], [], Sampling())


def test_a_policy_under_an_adapter(tokenizer):
    peft = pytest.importorskip("peft")
    base = make_model("llama")
    plain = sequence_logprobs(base, torch.tensor([[5, 6, 7, 8]])).detach()
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.constant_(parameter, 0.5)
    batch = conversations(4)
    act(TransformersAgent(model, tokenizer, max_new_tokens=6), batch)
    for conversation in batch:
        tokens = conversation.tokens
        scored = sequence_logprobs(model, torch.tensor([tokens.ids]), torch.tensor([tokens.mask]))
        np.testing.assert_allclose(scored[0].detach(), tokens.logprobs, atol=1e-4)
    scored.sum().backward()
    assert {name.split(".")[-3] for name, p in model.named_parameters() if p.grad is not None} == {"lora_A", "lora_B"}
    adapted = sequence_logprobs(model, torch.tensor([[5, 6, 7, 8]])).detach()
    assert not torch.allclose(adapted, plain)
    with model.disable_adapter():
        torch.testing.assert_close(sequence_logprobs(model, torch.tensor([[5, 6, 7, 8]])).detach(), plain)


@pytest.mark.parametrize("name", ["qwen3", "sliding"])
def test_half_precision_stays_near(name, tokenizer):
    model = make_model(name).to(torch.bfloat16)
    batch = conversations(8)
    play(TransformersAgent(model, tokenizer, max_new_tokens=8), batch)
    for conversation in batch:
        tokens = conversation.tokens
        scored = sequence_logprobs(model, torch.tensor([tokens.ids]), torch.tensor([tokens.mask])).detach()
        assert (scored[0] - torch.tensor(tokens.logprobs)).abs().mean() < 0.1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0 must be at least 1"),
        ({"max_length": 0}, "max_length=0"),
        ({"max_sequences": 0}, "max_sequences=0"),
        ({"temperature": 0.0}, "use greedy"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": 0}, "top_k"),
    ],
)
def test_options_out_of_range_are_refused(qwen3, tokenizer, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        TransformersAgent(qwen3, tokenizer, **{"max_new_tokens": 4, **options})


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_an_error_that_says_so(tokenizer, number, greedy):
    """Unnoticed, they make the sampler index beyond its vocabulary, which on a GPU ends the process."""
    model = make_model("qwen3")
    fine = TransformersAgent(model, tokenizer, max_new_tokens=4, greedy=greedy)
    assert len(fine.act(conversations(3))) == 3
    with torch.no_grad():
        model.model.norm.weight.fill_(number)
    with pytest.raises(FloatingPointError, match="the model's logits are NaN or infinite in 3 of 3 sequences"):
        fine.act(conversations(3))


def test_a_vocabulary_with_tokens_that_are_masked_out_is_sampled_from():
    logits = torch.zeros(2, 5)
    logits[:, :4] = float("-inf")
    tokens, logprobs = choose_tokens(logits, torch.tensor([0.0, 0.999], dtype=torch.float64))
    assert tokens.tolist() == [4, 4]
    assert logprobs.tolist() == [0.0, 0.0]


# noise and choice


def test_noise_belongs_to_its_position():
    whole = uniforms(3, "task", 0, 50)
    assert ((whole >= 0) & (whole < 1)).all()
    for start in range(20):
        np.testing.assert_array_equal(uniforms(3, "task", start, 30), whole[start : start + 30])
    assert not np.array_equal(uniforms(4, "task", 0, 50), whole)
    assert not np.array_equal(uniforms(3, "task ", 0, 50), whole)
    assert len(uniforms(0, "\ud800", 0, 2)) == 2


def test_choice_follows_the_distribution():
    generator = np.random.default_rng(0)
    logits = torch.tensor([[2.0, 0.0, -1.0, 1.0, float("-inf")]])
    for options, weights in (
        ({}, [1, 1, 1, 1, 1]),
        ({"temperature": 0.5}, [1, 1, 1, 1, 1]),
        ({"top_k": 2}, [1, 0, 0, 1, 0]),
        ({"top_p": 0.9}, [1, 1, 0, 1, 0]),
        ({"top_p": 0.6}, [1, 0, 0, 0, 0]),
    ):
        count = 20_000
        noise = torch.from_numpy(generator.random(count))
        tokens, logprobs = choose_tokens(logits.expand(count, -1), noise, **options)
        full = (logits[0] / options.get("temperature", 1.0)).softmax(-1)
        expected = full * torch.tensor(weights)
        expected /= expected.sum()
        found = torch.bincount(tokens, minlength=5) / count
        torch.testing.assert_close(found, expected, atol=0.015, rtol=0)
        torch.testing.assert_close(logprobs, full.log()[tokens])


def test_the_ends_of_the_noise_never_choose_what_cannot_be():
    logits = torch.tensor([[float("-inf"), 0.0, 1.0, float("-inf"), float("-inf")]]).expand(3, -1)
    noise = torch.tensor([0.0, 1 - 2**-53, 0.5], dtype=torch.float64)
    assert choose_tokens(logits, noise)[0].tolist() == [1, 2, 2]


LARGE_VOCABULARY = 10_007  # a prime: its blocks do not fill it


def test_a_token_of_a_large_vocabulary_is_where_the_distribution_function_reaches_the_noise():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(4, LARGE_VOCABULARY, generator=generator)
    logits[1, 40:9000] = float("-inf")
    for temperature in (1.0, 0.7):
        exact = (logits.double() / temperature).softmax(-1)
        reached = exact.cumsum(-1)
        for noise in torch.linspace(0, 1 - 2**-53, 200, dtype=torch.float64):
            tokens, logprobs = choose_tokens(logits, noise.expand(4), temperature=temperature)
            chosen = exact.gather(1, tokens[:, None])[:, 0]
            end = reached.gather(1, tokens[:, None])[:, 0]
            assert (chosen > 0).all()
            assert (noise <= end + 1e-6).all()
            assert (noise >= end - chosen - 1e-6).all()
            torch.testing.assert_close(logprobs.double(), chosen.log(), atol=5e-6, rtol=0)


def test_a_token_of_a_large_vocabulary_does_not_depend_on_the_batch(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    logits, noise = torch.randn(7, LARGE_VOCABULARY, generator=generator), torch.rand(7, dtype=torch.float64)
    together = choose_tokens(logits, noise)
    alone = [choose_tokens(logits[i : i + 1], noise[i : i + 1]) for i in range(7)]
    assert together[0].tolist() == [tokens.item() for tokens, _ in alone]
    assert together[1].tolist() == [logprobs.item() for _, logprobs in alone]
    monkeypatch.setattr(sampling, "IN_CACHE", 2 * LARGE_VOCABULARY)  # two sequences at a time
    assert torch.equal(choose_tokens(logits, noise)[0], together[0])


@pytest.mark.parametrize("size", [10, LARGE_VOCABULARY])
def test_an_empty_batch_has_no_tokens(size):
    tokens, logprobs = choose_tokens(torch.zeros(0, size), torch.zeros(0, dtype=torch.float64))
    assert (tokens.shape, logprobs.shape) == ((0,), (0,))


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_p": 0.5}, {"greedy": True}], ids=str)
def test_a_large_vocabulary_is_cut_to_the_likeliest(options):
    logits = torch.full((1, LARGE_VOCABULARY), -20.0)
    logits[0, [5, 6000, 10_006]] = torch.tensor([1.0, 2.0, 1.5])
    for noise in (0.0, 0.3, 0.6, 1 - 2**-53):
        tokens, logprobs = choose_tokens(logits, torch.tensor([noise], dtype=torch.float64), **options)
        allowed = {"top_k": [5, 6000, 10_006], "top_p": [6000, 10_006], "greedy": [6000]}[next(iter(options))]
        assert tokens.item() in allowed
        torch.testing.assert_close(logprobs, logits.log_softmax(-1)[0, tokens])


@pytest.mark.parametrize("options", [{}, {"top_p": 0.5}, {"top_k": 3}, {"greedy": True}], ids=str)
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_one_number_that_is_none_in_a_large_vocabulary_is_found(number, options):
    logits = torch.zeros(3, LARGE_VOCABULARY)
    logits[1, 9_000] = number
    with pytest.raises(FloatingPointError, match="in 1 of 3 sequences"):
        choose_tokens(logits, torch.full((3,), 0.5, dtype=torch.float64), **options)


# scoring


def by_hand(model, ids: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = model(ids).logits.float() / temperature
    scores = logits.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    return torch.cat([torch.zeros(len(ids), 1), scores], 1)


def test_scores_are_shifted_so_that_each_stands_at_its_token(model):
    ids = torch.randint(0, 256, (3, 9), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sequence_logprobs(model, ids, None, 0.7), by_hand(model, ids, 0.7))
    mask = torch.zeros_like(ids)
    mask[:, 0] = mask[1, 4] = mask[2, 8] = 1
    scored = sequence_logprobs(model, ids, mask)
    expected = by_hand(model, ids, 1.0) * mask
    torch.testing.assert_close(scored, expected)
    assert not scored[:, 0].any()


def test_entropy(model):
    ids = torch.randint(0, 256, (2, 6), generator=torch.Generator().manual_seed(0))
    scores = score_sequences(model, ids, temperature=0.7, entropy=True)
    logits = model(ids).logits / 0.7
    expected = torch.distributions.Categorical(logits=logits).entropy()[:, :-1]
    torch.testing.assert_close(scores.entropy[:, 1:], expected)
    assert score_sequences(model, ids).entropy is None


def test_only_models_with_a_plain_head_take_the_short_way():
    found = {name: has_plain_head(make_model(name), torch.tensor([[1, 2, 3]])) for name in MODELS}
    assert found == {name: name != "gemma2" for name in MODELS}


def test_nothing_to_score_still_takes_part_in_a_backward_pass(qwen3):
    ids = torch.zeros(2, 4, dtype=torch.long)
    sequence_logprobs(qwen3, ids, torch.zeros_like(ids)).sum().backward()
    qwen3.zero_grad()
    assert sequence_logprobs(qwen3, ids[:, :1]).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_piecewise_scores_and_gradients_equal_the_whole(bias, entropy):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 5, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(11, 5, generator=generator, dtype=torch.float64).requires_grad_()
    offset = torch.randn(11, generator=generator, dtype=torch.float64).requires_grad_() if bias else None
    targets = torch.randint(0, 11, (7,), generator=generator)
    slopes = torch.randn(2, 7, generator=generator)
    inputs = [hidden, weight] + ([offset] if bias else [])

    def gradients(scores):
        total = (scores.logprobs * slopes[0]).sum()
        if entropy:
            total = total + (scores.entropy * slopes[1]).sum()
        return torch.autograd.grad(total, inputs)

    logits = torch.nn.functional.linear(hidden, weight, offset)
    whole = score_logits(logits, targets, 0.7, entropy=entropy)
    pieces = score_hidden(hidden, weight, offset, targets, 0.7, entropy=entropy, logits_at_once=33)
    for one, other in zip(whole, pieces, strict=True):
        if one is not None:
            torch.testing.assert_close(one, other)
    for one, other in zip(gradients(whole), gradients(pieces), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_bad_arguments_of_scoring(qwen3):
    ids = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="temperature"):
        sequence_logprobs(qwen3, ids, None, 0.0)
    with pytest.raises(ValueError, match="one shape"):
        sequence_logprobs(qwen3, ids, ids[:, 1:])


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 200))
@settings(deadline=None)
def test_token_budget_batches(lengths, budget):
    batches = token_budget_batches(lengths, budget)
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget
    ordered = [lengths[i] for batch in batches for i in batch]
    assert ordered == sorted(lengths, reverse=True)


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ValueError, match="budget of 0"):
        token_budget_batches([1], 0)


@pytest.mark.parametrize("options", [{}, {"max_sequences": 3}, {"greedy": True}, {"max_length": 20}])
def test_replies_come_as_they_end_and_are_those_of_a_batch(qwen3, tokenizer, options):
    agent = TransformersAgent(qwen3, tokenizer, **{"max_new_tokens": 16, "seed": 3, **options})
    batch = [Conversation(f"task{i}/0", [{"role": "user", "content": "2+2? " * (i // 3 + 1)}]) for i in range(9)]
    each = list(agent.act_each(batch))
    assert dict(each) == dict(enumerate(agent.act(batch)))
    lengths = [reply.tokens for _, reply in each]
    if "max_sequences" not in options:
        assert lengths == sorted(lengths)


def test_between_two_replies_the_model_is_as_it_was(qwen3, tokenizer):
    agent = TransformersAgent(qwen3, tokenizer, max_new_tokens=16, seed=3)
    qwen3.train()
    replies = agent.act_each([Conversation(f"{i}", [{"role": "user", "content": "2+2?"}]) for i in range(4)])
    next(replies)
    assert qwen3.training
    assert not torch.is_inference_mode_enabled()
    assert qwen3.config._attn_implementation == "sdpa"
    replies.close()
    qwen3.eval()
