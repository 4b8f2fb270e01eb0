"""Continuous batching: a slot whose sequence has ended is given the next prompt, and no reply depends on others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from rlvr.agents.models import sampling
from rlvr.agents.models import slots as sampler
from rlvr.agents.models.sampling import Sampling, uniforms
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import sample, sample_each
from rlvr.algorithms.learner.scoring import sequence_logprobs

ENDS = list(range(0, 403, 12))  # about one token in twelve ends a reply
LIMIT = 40


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_policy(hidden=32, layers=2)[0]


def prompts_of(count: int) -> list[list[int]]:
    draw = np.random.default_rng(0)
    return [draw.integers(5, 90, size=3 + 4 * (number % 5)).tolist() for number in range(count)]


def drawn(model: Any, prompts: list[list[int]], slots: int | None = None, limits: list[int] | None = None):
    limits = limits or [LIMIT] * len(prompts)
    return sample(model, prompts, limits, noise_of(prompts, limits), ENDS, Sampling(), slots)


def noise_of(prompts: list[list[int]], limits: list[int]) -> list[np.ndarray]:
    both = zip(prompts, limits, strict=True)
    return [uniforms(1, str(index), len(prompt), limit) for index, (prompt, limit) in enumerate(both)]


def assert_same(replies, expected) -> None:
    assert [ids for ids, _ in replies] == [ids for ids, _ in expected]
    for (_, logprobs), (_, others) in zip(replies, expected, strict=True):
        np.testing.assert_allclose(logprobs, others, atol=1e-5)


@pytest.mark.parametrize("slots", [1, 3, 7, 24, 100])
def test_replies_do_not_depend_on_how_many_are_sampled_at_once(model, slots: int):
    prompts = prompts_of(24)
    assert_same(drawn(model, prompts, slots), drawn(model, prompts))


def other_cache(name: str) -> Any:
    """A model whose cache is the library's: a window of 8 columns, in all layers or in some, or convolutions."""
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 403}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        if name == "sliding":
            return MistralForCausalLM(MistralConfig(**sizes, sliding_window=8)).eval()
        if name == "mixed":
            return Gemma2ForCausalLM(Gemma2Config(**sizes, sliding_window=8)).eval()
        return Lfm2ForCausalLM(Lfm2Config(**sizes, layer_types=["conv", "full_attention"])).eval()


@pytest.mark.parametrize("slots", [1, 3, 7])
@pytest.mark.parametrize("name", ["sliding", "mixed", "convolutions"])
def test_one_batch_follows_another_where_none_can_join(name: str, slots: int):
    """Sequences that have ended are dropped while others wait; these wait until all of the batch have ended."""
    other, prompts = other_cache(name), prompts_of(12)
    limits = [1 + 5 * (index % 4) for index in range(12)]
    expected = [
        (ids, logprobs)
        for prompt, limit, noise in zip(prompts, limits, noise_of(prompts, limits), strict=True)
        for ids, logprobs in sample(other, [prompt], [limit], [noise], ENDS, Sampling())
    ]
    assert_same(drawn(other, prompts, slots, limits), expected)


def test_log_probabilities_in_slots_that_were_used_before_are_the_learners(model):
    prompts = prompts_of(16)
    for prompt, (ids, logprobs) in zip(prompts, drawn(model, prompts, 3), strict=True):
        with torch.no_grad():
            expected = sequence_logprobs(model, torch.tensor([prompt + ids]))[0, len(prompt) :]
        np.testing.assert_allclose(logprobs, expected, atol=1e-5)


def test_a_slot_is_refilled_as_soon_as_its_sequence_has_ended(model, monkeypatch):
    """One long reply and many short ones in two slots: the short ones pass through the other slot meanwhile."""
    steps: list[int] = []
    step = sampler._Slots.step

    def note(self, last: np.ndarray, lengths: np.ndarray, left: np.ndarray, noise: np.ndarray) -> Any:
        steps.append(int((left > 0).sum()))
        return step(self, last, lengths, left, noise)

    monkeypatch.setattr(sampler._Slots, "step", note)
    prompts = [[7, 8, 9, 10, 11]] + [[5, 6]] * 9
    limits = [37] + [4] * 9
    sample(model, prompts, limits, noise_of(prompts, limits), [], Sampling(), 2)
    assert len(steps) == 36, "as many steps as the long reply takes, and no more"
    assert sum(steps) == 36 + 9 * 3, "and each short reply takes its own"


def test_replies_of_one_step_end_in_the_order_of_their_slots(model):
    prompts = prompts_of(12)
    limits = [1 + index % 3 for index in range(12)]
    ended = list(sample_each(model, prompts, limits, noise_of(prompts, limits), [], Sampling(), 4))
    assert sorted(index for index, _ in ended) == list(range(12))
    assert [len(ids) for index, (ids, _) in sorted(ended)] == limits


@pytest.fixture
def static(monkeypatch) -> None:
    """Steps as a GPU replays them, without the graph: all columns, halves of the slots, a look at every fourth."""
    monkeypatch.setattr(sampler, "replays", lambda *_: True)
    monkeypatch.setattr(sampler, "kept_bytes", lambda *_: 2**30)
    monkeypatch.setattr(sampling, "STATIC_COLUMNS", 16)  # the cache grows again and again


def kept_graphs(model: Any) -> set[tuple[int, int]]:
    return {key[:2] for key in sampling.KEPT[model].graphs}


@pytest.mark.parametrize("slots", [1, 5, 6, 20])
def test_steps_of_static_shapes_give_the_same_replies(model, slots: int, request):
    prompts = prompts_of(20)
    limits = [1 + 3 * (index % 13) for index in range(20)]
    expected = drawn(model, prompts, 6, limits)
    request.getfixturevalue("static")
    for _ in range(2):  # the second time in the memory of the first
        assert_same(drawn(model, prompts, slots, limits), expected)
    assert all(count in (1, 2, 3, 4, 6, 8, 12, 24) for count, _ in kept_graphs(model))


def test_static_steps_draw_as_others_do_with_what_cuts_the_vocabulary(model, request):
    prompts, limits = prompts_of(9), [LIMIT] * 9
    for settings in (Sampling(temperature=0.7, top_k=9), Sampling(top_p=0.8), Sampling(greedy=True)):
        expected = sample(model, prompts, limits, noise_of(prompts, limits), ENDS, settings, 4)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampler, "replays", lambda *_: True)
            assert_same(sample(model, prompts, limits, noise_of(prompts, limits), ENDS, settings, 4), expected)


def test_a_graph_is_kept_until_what_it_reads_has_moved_or_its_adapter_is_another(static):
    """New weights are written in place; an adapter that is switched off is no constant of a graph."""
    from peft import LoraConfig, get_peft_model

    prompts = prompts_of(4)
    policy = get_peft_model(tiny_policy(hidden=32, layers=1)[0], LoraConfig(r=2, init_lora_weights=False))
    adapted = drawn(policy, prompts)
    memory = sampling.KEPT[policy]
    with torch.no_grad():
        for weight in policy.parameters():
            weight.mul_(1.01)
    moved = drawn(policy, prompts)
    assert sampling.KEPT[policy] is memory
    assert moved != adapted
    with policy.disable_adapter():
        assert drawn(policy, prompts) != moved
        assert sampling.KEPT[policy] is not memory
    assert drawn(policy, prompts) == moved
    memory = sampling.KEPT[policy]
    for weight in policy.parameters():
        weight.data = weight.data.clone()
    assert drawn(policy, prompts) == moved
    assert sampling.KEPT[policy] is not memory


def test_two_calls_at_once_have_memory_of_their_own(model, static):
    prompts, limits = prompts_of(6), [LIMIT] * 6
    expected = drawn(model, prompts)
    each = [sample_each(model, prompts, limits, noise_of(prompts, limits), ENDS, Sampling(), 3) for _ in range(2)]
    ended: list[dict[int, Any]] = [{}, {}]
    for pairs in zip(*each, strict=True):
        for replies, (index, reply) in zip(ended, pairs, strict=True):
            replies[index] = reply
    for replies in ended:
        assert_same([replies[index] for index in range(6)], expected)


def test_prompts_of_many_lengths_under_a_large_vocabulary_are_read_in_parts(model, monkeypatch):
    prompts = prompts_of(15)
    expected = drawn(model, prompts)
    monkeypatch.setattr(sampler, "LOGITS_AT_ONCE", 3 * 403)
    assert_same(drawn(model, prompts), expected)


def test_the_seed_of_a_reply_is_its_own_wherever_it_begins(model):
    prompts = prompts_of(10)
    limits = [1 + 3 * (index % 4) for index in range(10)]
    assert_same(drawn(model, prompts, 2, limits), drawn(model, prompts, 9, limits))
