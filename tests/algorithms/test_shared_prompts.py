"""A prompt that several samples begin with goes through the model once; the gradient is that of whole sequences."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MptConfig,
    MptForCausalLM,
    XLNetConfig,
    XLNetLMHeadModel,
)

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import load_policy
from rlvr.algorithms.learner import scoring
from rlvr.algorithms.learner.batch import TrainingBatch, pad, shared_prompt_batches, spares_enough
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.learner.scoring import Scorer, can_share_prompts, has_plain_head, score_sequences, why_not_shared
from rlvr.algorithms.recipe.presets import PRESETS

SMALL = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
GPT2 = {"vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 2, "eos_token_id": None, "bos_token_id": None}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}


def tiny(lora: bool = False):
    model = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 2})[0]
    if not lora:
        return model
    torch.manual_seed(0)
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    for name, weight in adapted.named_parameters():  # B is 0 at the start, and with it the gradient of A
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return adapted


@pytest.fixture(scope="module", params=["all weights", "adapters"])
def model(request: pytest.FixtureRequest):
    return tiny(lora=request.param == "adapters")


def sequence(prompt: list[int], turns: list[tuple[int, int]], seed: int) -> TokenSequence:
    """A prompt, then turns of so many sampled tokens and so many of a tool."""
    made, draw = TokenSequence(), torch.Generator().manual_seed(seed)
    made.append_context(prompt)
    for sampled, of_tool in turns:
        made.append_sampled(torch.randint(1, 250, (sampled,), generator=draw).tolist(), [0.0] * sampled)
        if of_tool:
            made.append_context(torch.randint(1, 250, (of_tool,), generator=draw).tolist())
    return made


turns = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), min_size=1, max_size=3)
groups = st.lists(st.tuples(st.integers(1, 20), st.lists(turns, min_size=1, max_size=4)), min_size=1, max_size=4)


def build(drawn) -> list[TokenSequence]:
    sequences = []
    for number, (length, members) in enumerate(drawn):
        prompt = torch.randint(1, 250, (length,), generator=torch.Generator().manual_seed(number)).tolist()
        sequences += [sequence(prompt, each, seed) for seed, each in enumerate(members)]
    return sequences


def scored(model, ids, mask, logprob_grads, share: bool, **options) -> tuple[torch.Tensor, torch.Tensor]:
    model.zero_grad()
    scores = Scorer(model, share)(ids, mask, 0.7, entropy=True, **options)
    ((scores.logprobs + 0.1 * scores.entropy) * logprob_grads).sum().backward()
    found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat([scores.logprobs.detach().flatten(), scores.entropy.detach().flatten()]), torch.cat(found)


@given(groups, st.booleans())
@settings(max_examples=25, deadline=None)
def test_ragged_groups_have_the_gradient_of_whole_sequences(model, drawn, recompute: bool):
    padded = pad(build(drawn))
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    whole = scored(model, padded.ids, padded.mask, logprob_grads, False)
    shared = scored(model, padded.ids, padded.mask, logprob_grads, True, recompute=recompute)
    torch.testing.assert_close(shared[0], whole[0], rtol=0, atol=1e-5)
    assert float((shared[1] - whole[1]).norm()) <= 1e-5 * float(whole[1].norm())


def batch_of_groups(prompt: int = 30, groups: int = 3) -> TrainingBatch:
    sequences = build([(prompt, [[(n, 0)] for n in (3, 5, 4, 5)]) for _ in range(groups)])
    batch = TrainingBatch.of(sequences, [index // 4 for index in range(len(sequences))], 40)
    return batch.replace(advantages=torch.linspace(-1, 1, len(sequences)))


def updated(share: bool, recompute: bool = False, budget: int = 150, kl: float = 0.0) -> SimpleNamespace:
    """One update: the tokens that went through the model at a time, and the gradient."""
    model, passed, taken = tiny(), [], []
    learner = Learner(
        model, PRESETS["grpo"].replace(kl_coef=kl), pad_id=0, max_length=40, micro_batch_tokens=budget,
        share_prompts=share, recompute_layers=recompute,
    )  # fmt: skip
    learner.freeze_reference()
    has_plain_head(model, torch.ones(1, 4, dtype=torch.long))  # tried before the passes are counted
    optimiser = Optimiser(model.parameters(), lambda _: 0.0, betas=(0.9, 0.95), max_grad_norm=1e9)
    hook = model.base_model.register_forward_pre_hook(
        lambda _, __, given: passed.append(given["input_ids"].numel()), with_kwargs=True
    )
    step = optimiser.step

    def note():
        taken.extend(p.grad.flatten().clone() for p in optimiser.parameters if p.grad is not None)
        return step()

    optimiser.step = note
    learner.update(batch_of_groups(), optimiser)
    hook.remove()
    return SimpleNamespace(passed=passed, gradient=torch.cat(taken))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_an_update_takes_each_prompt_once_and_has_the_same_gradient(recompute: bool, kl: float):
    whole, shared = updated(False, recompute, kl=kl), updated(True, recompute, kl=kl)
    assert float((shared.gradient - whole.gradient).norm()) <= 1e-5 * float(whole.gradient.norm())
    passes = 2 if kl else 1  # the reference's
    assert sum(whole.passed) >= passes * 12 * 32
    assert sum(shared.passed) == passes * 3 * (29 + 4 * 5), "a group stays in one micro-batch"
    assert max(shared.passed) <= 150


def test_where_it_is_off_or_spares_nothing_the_update_is_the_same_to_the_bit():
    off, alone = updated(False, budget=1), updated(True, budget=1)  # one sequence at a time shares nothing
    assert off.passed == alone.passed
    assert torch.equal(off.gradient, alone.gradient)
    assert updated(False).passed != updated(True).passed, "the control: larger micro-batches share"


def test_prompts_too_short_to_pay_are_not_shared():
    model = tiny()
    padded = pad(build([(2, [[(20, 0)]] * 2)]))
    seen: list[bool] = []
    hook = model.base_model.register_forward_pre_hook(
        lambda _, __, given: seen.append(given.get("past_key_values") is not None), with_kwargs=True
    )
    Scorer(model, True)(padded.ids, padded.mask)
    assert not seen[-1]
    padded = pad([sequence(list(range(20)), [(3, 0)], seed) for seed in range(2)])
    Scorer(model, True)(padded.ids, padded.mask)
    hook.remove()
    assert seen[-2:] == [True, True]


def test_padding_stays_within_the_positions_of_the_model():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**GPT2, n_positions=64)).eval()
    padded = pad(build([(50, [[(10, 0)]] * 8), (30, [[(30, 0)]] * 8)]))
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    with counted(model) as passes:
        whole, shared = (scored(model, padded.ids, padded.mask, logprob_grads, share) for share in (False, True))
    assert passes[-2:] == ["prompts", "rest"]
    torch.testing.assert_close(shared[0], whole[0], rtol=0, atol=1e-5)
    assert float((shared[1] - whole[1]).norm()) <= 1e-5 * float(whole[1].norm())


@contextmanager
def counted(model):
    """Notes each pass of the body: over whole rows, over prompts, or over what comes after them."""
    passes: list[str] = []

    def note(_, __, given) -> None:
        cache = given.get("past_key_values")
        passes.append("whole" if cache is None else "rest" if cache.layers else "prompts")

    hook = model.base_model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield passes
    finally:
        hook.remove()


class Forgetful(LlamaForCausalLM):
    """A model that ignores the positions it is given."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        inner = self.model.forward
        self.model.forward = lambda *args, position_ids=None, **given: inner(*args, **given)


NEO = {"vocab_size": 300, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "initializer_range": 0.3}
LOCAL = {**NEO, "attention_types": [[["global", "local"], 1]]}
MPT = {"vocab_size": 300, "d_model": 32, "n_layers": 2, "n_heads": 2}

MODELS = {
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(**GPT2)), True),
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS)), True),
    "mistral, all tokens": (lambda: MistralForCausalLM(MistralConfig(**SMALL, **HEADS, sliding_window=None)), True),
    "mistral, a window": (lambda: MistralForCausalLM(MistralConfig(**SMALL, **HEADS, sliding_window=8)), False),
    "rotations by length": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS, rope_parameters=DYNAMIC)), False),
    "positions ignored": (lambda: Forgetful(LlamaConfig(**SMALL, **HEADS)), False),
    "gpt-neo, a window": (lambda: GPTNeoForCausalLM(GPTNeoConfig(**LOCAL, window_size=4)), False),
    "gpt-neo, a long window": (lambda: GPTNeoForCausalLM(GPTNeoConfig(**LOCAL, window_size=12)), False),
    "mpt, alibi": (lambda: MptForCausalLM(MptConfig(**MPT)), False),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_shares_where_its_attention_allows_it_and_is_right_either_way(name: str):
    torch.manual_seed(0)
    make, expected = MODELS[name]
    model = make().eval()
    assert can_share_prompts(model) is expected
    padded = pad(build([(15, [[(3, 2), (4, 0)], [(5, 0)], [(2, 0)]]), (4, [[(6, 0)], [(1, 0)]])]))
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    whole = scored(model, padded.ids, padded.mask, logprob_grads, False)
    with counted(model) as passes:
        shared = scored(model, padded.ids, padded.mask, logprob_grads, True)
    assert passes[-2:] == ["prompts", "rest"] if expected else passes[-1] == "whole"
    torch.testing.assert_close(shared[0], whole[0], rtol=0, atol=1e-5)
    assert float((shared[1] - whole[1]).norm()) <= 1e-5 * float(whole[1].norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_half_precision_hides_no_wrong_result_and_the_trial_leaves_the_weights(name: str, dtype: torch.dtype):
    torch.manual_seed(0)
    make, expected = MODELS[name]
    model = make().to(dtype).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert can_share_prompts(model) is expected
    for key, value in model.state_dict().items():
        assert value.dtype == before[key].dtype
        assert torch.equal(value, before[key])


def test_the_trial_of_adapters_in_half_precision_is_in_float32():
    model = tiny(lora=True).to(torch.bfloat16)
    assert can_share_prompts(model.get_base_model())
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


def learner_of(model, share: bool = True) -> Learner:
    return Learner(model, PRESETS["grpo"], pad_id=0, max_length=40, share_prompts=share)


def test_a_learner_that_does_not_share_says_why():
    torch.manual_seed(0)
    window = MODELS["mistral, a window"][0]()
    assert learner_of(window).unshared == (
        "learner.share_prompts has no effect, prompts are not shared: "
        "the model attends within a window (sliding_window 8)"
    )
    assert "other results" in learner_of(MODELS["positions ignored"][0]()).unshared
    assert learner_of(window, share=False).unshared == learner_of(tiny()).unshared == ""


@pytest.mark.parametrize(("results", "shared"), [([True], True), ([False, False, True], True), ([False] * 3, False)])
def test_tokens_with_large_rounding_do_not_forbid_it(monkeypatch, results: list[bool], shared: bool):
    """Control tokens stand first in SmolLM2's vocabulary, and rounding is 30 times as large for them as for others."""
    torch.manual_seed(0)
    model, tried = LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS)), []

    def trial(model: torch.nn.Module, tokens: list[int]) -> bool:
        tried.append(tokens)
        return results[len(tried) - 1]

    monkeypatch.setattr(scoring, "_shares", trial)
    assert (why_not_shared(model) == "") == shared
    assert len(tried) == len(results)
    for tokens in tried:
        assert len({*tokens}) == 7
        assert 20 < tokens[0] < 150 < tokens[-1] < 300  # of 300


def test_a_model_that_fails_with_keys_of_another_pass_is_not_shared():
    torch.manual_seed(0)
    model = XLNetLMHeadModel(XLNetConfig(vocab_size=300, d_model=32, n_layer=2, n_head=2, d_inner=64))
    assert why_not_shared(model).startswith("the model takes no keys and values of another pass")


class Full(LlamaForCausalLM):
    """A model on a device without memory left."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)

        def fail(*_, **__):
            raise torch.OutOfMemoryError("CUDA out of memory")

        self.model.forward = fail


def test_a_trial_that_runs_out_of_memory_says_nothing_about_the_model():
    with pytest.raises(torch.OutOfMemoryError):
        why_not_shared(Full(LlamaConfig(**SMALL, **HEADS)))


@given(groups, st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_micro_batches_of_prompts_hold_each_sequence_once_within_the_budget(drawn, budget: int):
    padded = pad(build(drawn))
    prompts, rests = padded.prompts(), padded.rests()
    found = shared_prompt_batches(prompts, rests, padded.lengths, budget)
    assert sorted(index for batch, _ in found for index in batch) == list(range(len(padded)))
    for batch, _ in found:
        keys = max(len(prompts[index]) // 8 for index in batch) + max(rests[index] for index in batch)
        widest = max(keys, *(padded.lengths[index] for index in batch))
        assert len(batch) * widest <= budget or len(batch) == 1
    chosen = [index for batch, _ in padded.micro_batches(budget, share_prompts=True) for index in batch]
    assert sorted(chosen) == list(range(len(padded)))


@given(groups, st.integers(1, 400))
@settings(max_examples=40, deadline=None)
def test_batches_are_made_by_the_tokens_that_then_go_through_the_model(drawn, budget: int):
    model, padded = counter(), pad(build(drawn))
    for batch, tokens in shared_prompt_batches(padded.prompts(), padded.rests(), padded.lengths, budget):
        micro, passed = padded.pick(batch), []
        with counting_tokens(model, passed), torch.no_grad():
            score_sequences(model, micro.ids, micro.mask, share_prompts=True)
        assert sum(passed) == tokens
        assert tokens <= budget or len(batch) == 1


@cache
def counter():
    model = tiny()
    (
        can_share_prompts(model),
        has_plain_head(model, torch.ones(1, 4, dtype=torch.long)),
    )  # tried before passes are counted
    return model


@contextmanager
def counting_tokens(model, passed: list[int]):
    """Notes the tokens of each pass of the body."""
    hook = model.base_model.register_forward_pre_hook(
        lambda _, __, given: passed.append(given["input_ids"].numel()), with_kwargs=True
    )
    try:
        yield
    finally:
        hook.remove()


def test_batches_that_are_not_worth_sharing_stay_within_the_budget():
    """Prompts of 10 and replies of 100: sharing would spare 7 %, so whole rows go through."""
    padded = pad(build([(10, [[(100, 0)]] * 4)]))
    assert not spares_enough(1, 9, 4, 100, 109)
    passed: list[int] = []
    model = counter()
    with counting_tokens(model, passed), torch.no_grad():
        for _, micro in padded.micro_batches(413, share_prompts=True):
            Scorer(model, True)(micro.ids, micro.mask)
    assert sum(passed) == 4 * 109
    assert max(passed) <= 413


def kept_for_backward(model, padded, budget: int, share: bool) -> int:
    """The most bytes that a micro-batch keeps for its backward pass, weights left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    most = 0
    for _, micro in padded.micro_batches(budget, share_prompts=share):
        kept: dict[int, int] = {}
        held = []  # no place of memory is taken twice

        def note(tensor, kept=kept, held=held):
            storage = tensor.untyped_storage()
            held.append(storage)
            if storage.data_ptr() not in weights:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            Scorer(model, share)(micro.ids, micro.mask)
        most = max(most, sum(kept.values()))
    return most


@pytest.mark.parametrize(("prompt", "replies", "bound"), [(300, 12, 0.6), (300, 100, 1.0), (40, 150, 1.25)])
def test_the_memory_of_sharing_is_bounded_by_that_of_whole_sequences(prompt: int, replies: int, bound: float):
    """Each row has the prompt's keys and values in each layer once more."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**SMALL, **HEADS, "num_hidden_layers": 4})).eval()
    padded = pad(build([(prompt, [[(replies, 0)]] * 16)]))
    shared, whole = (kept_for_backward(model, padded, 1024, share) for share in (True, False))
    assert shared <= bound * whole
