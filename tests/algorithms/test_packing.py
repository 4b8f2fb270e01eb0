"""Sequences are packed without padding, and a prompt of several goes through the model once.

The log-probabilities and the gradient are those of each sequence by itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import (
    AttentionInterface,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
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
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import load_policy
from rlvr.algorithms.learner import scoring
from rlvr.algorithms.learner.batch import TrainingBatch, pad
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.learner.scoring import Scorer, has_plain_head, why_not_packed, why_not_shared
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
    return torch.cat([scores.logprobs.detach().flatten(), scores.entropy.detach().flatten()]), gradient_of(model)


def gradient_of(model) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def one_by_one(model, padded, logprob_grads) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by transformers alone: each sequence in a pass of its own."""
    model.zero_grad()
    logprobs, entropy = torch.zeros(2, *padded.ids.shape)
    for row, length in enumerate(padded.lengths):
        ids = padded.ids[row, :length]
        chances = torch.log_softmax(model(input_ids=ids[None], use_cache=False).logits[0, :-1] / 0.7, -1)
        wanted = padded.mask[row, 1:length]
        new = torch.where(wanted, chances.gather(1, ids[1:, None])[:, 0], 0.0)
        spread = torch.where(wanted, -(chances.exp() * chances).sum(-1), 0.0)
        ((new + 0.1 * spread) * logprob_grads[row, 1:length]).sum().backward()
        logprobs[row, 1:length], entropy[row, 1:length] = new.detach(), spread.detach()
    return torch.cat([logprobs.flatten(), entropy.flatten()]), gradient_of(model)


def assert_equal(result, expected, atol: float = 1e-6) -> None:
    torch.testing.assert_close(result[0], expected[0], rtol=1e-6, atol=atol)
    assert float((result[1] - expected[1]).norm()) <= 1e-5 * float(expected[1].norm())


@given(groups, st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_ragged_groups_have_the_gradient_of_each_sequence_alone(model, drawn, recompute: bool, share: bool):
    padded = pad(build(drawn))
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    packed = scored(model, padded.ids, padded.mask, logprob_grads, share, recompute=recompute)
    assert_equal(packed, one_by_one(model, padded, logprob_grads))


@given(groups, st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_sequence_attends_to_another(drawn, share: bool):
    """The tokens of one sequence change, and the others' log-probabilities do not, to the bit."""
    model, padded = tiny(), pad(build(drawn))
    before = Scorer(model, share)(padded.ids, padded.mask).logprobs
    last = padded.lengths[-1] - 1
    padded.ids[-1, last] = (padded.ids[-1, last] + 1) % 250
    after = Scorer(model, share)(padded.ids, padded.mask).logprobs
    others = [row for row in range(len(padded) - 1) if not torch.equal(padded.ids[row], padded.ids[-1])]
    assert torch.equal(before[others], after[others])
    if padded.mask[-1, last]:
        assert before[-1, last] != after[-1, last]


@given(groups, st.booleans())
@settings(max_examples=25, deadline=None)
def test_what_goes_through_the_model_has_no_padding(drawn, share: bool):
    model, padded, passed = tiny(), pad(build(drawn)), []
    Scorer(model, share)(padded.ids, padded.mask)  # the trials, before passes are counted
    with counting_tokens(model, passed), torch.no_grad():
        Scorer(model, share)(padded.ids, padded.mask)
    distinct = {bytes(row.tolist()) + bytes(mask.tolist()): number
                for number, (row, mask) in enumerate(zip(padded.ids, padded.mask, strict=True))}  # fmt: skip
    ends = {row: int(padded.mask[row].nonzero()[-1]) for row in distinct.values()}
    starts = {row: int(padded.mask[row].nonzero()[0]) - 1 for row in distinct.values()}
    expected = sum(ends.values())
    if share:
        prompts = {row: bytes(padded.ids[row, : starts[row]].tolist()) for row in ends}
        expected -= sum(map(len, prompts.values())) - sum(map(len, {*prompts.values()}))
    assert passed == [expected]


def test_kernels_that_make_masks_from_positions_are_packed_too():
    """Eager attention: transformers sees where positions begin anew."""
    model, padded = tiny(), pad(build([(9, [[(3, 2), (4, 0)], [(5, 0)], [(2, 0)]]), (4, [[(6, 0)], [(1, 0)]])]))
    model.set_attn_implementation("eager")
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    assert why_not_packed(model) == ""
    assert why_not_shared(model) == "attention is eager, take sdpa or flash"
    passed: list[int] = []
    with counting_tokens(model, passed):
        packed = scored(model, padded.ids, padded.mask, logprob_grads, True)
    assert_equal(packed, one_by_one(model, padded, logprob_grads))
    assert passed[-1] == sum(int(row.nonzero()[-1]) for row in padded.mask)


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
    has_plain_head(model, torch.ones(1, 4, dtype=torch.long))  # the trials, before passes are counted
    why_not_packed(model)
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
    assert sum(whole.passed) == passes * 3 * (4 * 29 + 3 + 5 + 4 + 5)
    assert sum(shared.passed) == passes * 3 * (29 + 3 + 5 + 4 + 5), "a group stays in one micro-batch"
    assert max(shared.passed) <= 150


def test_padding_stays_within_the_positions_of_the_model():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**GPT2, n_positions=64)).eval()
    padded = pad(build([(50, [[(10, 0)]] * 8), (30, [[(30, 0)]] * 8)]))
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    shared = scored(model, padded.ids, padded.mask, logprob_grads, True)
    assert_equal(shared, one_by_one(model, padded, logprob_grads), 1e-5)


@contextmanager
def counting_tokens(model, passed: list[int]):
    """Notes the tokens of each pass of the body."""
    hook = model.base_model.register_forward_pre_hook(
        lambda _, ids, given: passed.append(given.get("input_ids", *ids).numel()), with_kwargs=True
    )
    try:
        yield
    finally:
        hook.remove()


def flash_like(module, query, key, value, attention_mask, scaling=None, **options):
    """As flash kernels are: half precision alone, no mask, and causal from the last query and key backwards."""
    assert query.dtype == torch.bfloat16
    assert attention_mask is None
    positions = options.get("position_ids")
    assert positions is None or bool((positions.diff() == 1).all()), "a kernel would pack by them in its own way"
    ahead = key.shape[2] - query.shape[2]
    mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(ahead)
    return sdpa_attention_forward(module, query, key, value, mask[None, None], scaling=scaling)


@pytest.mark.parametrize("share", [False, True])
def test_kernels_of_half_precision_are_packed_without_a_mask(share: bool):
    AttentionInterface.register("flash_like", flash_like)
    model, padded = tiny().to(torch.bfloat16), pad(build([(15, [[(3, 2), (4, 0)], [(5, 0)]]), (4, [[(6, 0)]])]))
    expected = Scorer(model, share)(padded.ids, padded.mask).logprobs
    flash = tiny().to(torch.bfloat16)
    flash.config._attn_implementation = "flash_like"
    assert why_not_shared(flash) == ""
    logprobs = Scorer(flash, share)(padded.ids, padded.mask).logprobs
    torch.testing.assert_close(logprobs, expected, rtol=0, atol=0.05)
    assert flash.config._attn_implementation == "flash_like"


class Forgetful(LlamaForCausalLM):
    """A model that ignores the positions it is given."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        inner = self.model.forward
        self.model.forward = lambda *args, position_ids=None, **given: inner(*args, **given)


class Silent(MistralForCausalLM):
    """A model whose attention is not told of the window, but given a mask alone."""

    def __init__(self, config: MistralConfig) -> None:
        super().__init__(config)
        for layer in self.model.layers:
            layer.self_attn.forward = partial(self._without_window, layer.self_attn.forward, layer.self_attn)

    @staticmethod
    def _without_window(forward, attention, *args, **given):
        window, attention.config.sliding_window = attention.config.sliding_window, None
        try:
            return forward(*args, **given)
        finally:
            attention.config.sliding_window = window


GEMMA = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"], "head_dim": 8}
NEO = {"vocab_size": 300, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "initializer_range": 0.3}
LOCAL = {**NEO, "attention_types": [[["global", "local"], 1]]}
MPT = {"vocab_size": 300, "d_model": 32, "n_layers": 2, "n_heads": 2}

MODELS = {
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(**GPT2)), True),
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS)), True),
    "mistral, all tokens": (lambda: MistralForCausalLM(MistralConfig(**SMALL, **HEADS, sliding_window=None)), True),
    "mistral, a window": (lambda: MistralForCausalLM(MistralConfig(**SMALL, **HEADS, sliding_window=8)), True),
    "gemma 3, windows in turn": (lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SMALL, **HEADS, **GEMMA)), True),
    "a window kept from attention": (lambda: Silent(MistralConfig(**SMALL, **HEADS, sliding_window=8)), False),
    "rotations by length": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS, rope_parameters=DYNAMIC)), False),
    "positions ignored": (lambda: Forgetful(LlamaConfig(**SMALL, **HEADS)), False),
    "gpt-neo, a window": (lambda: GPTNeoForCausalLM(GPTNeoConfig(**LOCAL, window_size=4)), False),
    "gpt-neo, a long window": (lambda: GPTNeoForCausalLM(GPTNeoConfig(**LOCAL, window_size=12)), False),
    "mpt, alibi": (lambda: MptForCausalLM(MptConfig(**MPT)), False),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_packed_where_its_attention_allows_it_and_is_right_either_way(name: str):
    torch.manual_seed(0)
    make, expected = MODELS[name]
    model = make().eval()
    assert (why_not_packed(model) == "") is expected
    padded = pad(build([(15, [[(3, 2), (4, 0)], [(5, 0)], [(2, 0)]]), (4, [[(6, 0)], [(1, 0)]])]))
    logprob_grads = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    passed: list[int] = []
    with counting_tokens(model, passed):
        shared = scored(model, padded.ids, padded.mask, logprob_grads, True)
    assert (passed[-1] < sum(padded.lengths)) is expected
    if not name.startswith(("rotations", "positions")):  # there, a sequence alone is another thing
        assert_equal(shared, one_by_one(model, padded, logprob_grads), 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_half_precision_hides_no_wrong_result_and_the_trial_leaves_the_weights(name: str, dtype: torch.dtype):
    torch.manual_seed(0)
    make, expected = MODELS[name]
    model = make().to(dtype).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert (why_not_packed(model) == "") is expected
    for key, value in model.state_dict().items():
        assert value.dtype == before[key].dtype
        assert torch.equal(value, before[key])


def test_the_trial_of_adapters_in_half_precision_is_in_float32():
    model = tiny(lora=True).to(torch.bfloat16)
    assert why_not_packed(model.get_base_model()) == ""
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


def learner_of(model, share: bool = True) -> Learner:
    return Learner(model, PRESETS["grpo"], pad_id=0, max_length=40, share_prompts=share)


def test_a_learner_that_does_not_share_says_why():
    torch.manual_seed(0)
    window = MODELS["gpt-neo, a window"][0]()
    assert learner_of(window).unshared == (
        "learner.share_prompts has no effect, prompts are not shared: the model attends within a window (window_size 4)"
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

    monkeypatch.setattr(scoring, "_packs", trial)
    monkeypatch.setattr(scoring, "_windows_agree", lambda *_: True)
    assert (why_not_packed(model) == "") == shared
    assert len(tried) == len(results)
    for tokens in tried:
        assert len({*tokens}) == 7
        assert 20 < tokens[0] < 150 < tokens[-1] < 300  # of 300


def test_a_model_that_takes_no_positions_is_not_packed():
    torch.manual_seed(0)
    model = XLNetLMHeadModel(XLNetConfig(vocab_size=300, d_model=32, n_layer=2, n_head=2, d_inner=64))
    assert "packed sequences" in why_not_packed(model)


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


@given(groups, st.integers(1, 400), st.booleans())
@settings(max_examples=60, deadline=None)
def test_packed_micro_batches_hold_each_sequence_once_within_the_budget(drawn, budget: int, share: bool):
    padded = pad(build(drawn))
    batches = [indices for indices, _ in padded.micro_batches(budget, packed=True, share_prompts=share)]
    assert sorted(index for batch in batches for index in batch) == list(range(len(padded)))
    sizes = [sum(padded.lengths[index] for index in batch) for batch in batches]
    assert all(size <= budget or len(batch) == 1 for size, batch in zip(sizes, batches, strict=True))
    for size, following in zip(sizes, batches[1:], strict=False):
        assert size + padded.lengths[following[0]] > budget, "a batch is as full as the next sequence allows"


def test_members_of_a_group_stay_together_where_prompts_are_shared():
    padded = pad(build([(30, [[(n, 0)] for n in (3, 9, 4, 8)]), (30, [[(n, 0)] for n in (5, 2, 9, 1)])]))
    together = [indices for indices, _ in padded.micro_batches(160, packed=True, share_prompts=True)]
    assert [{index // 4 for index in batch} for batch in together] == [{0}, {1}]
    apart = [indices for indices, _ in padded.micro_batches(160, packed=True)]
    assert {0, 1} in [{index // 4 for index in batch} for batch in apart]


def kept_for_backward(model, padded, budget: int, share: bool) -> int:
    """The most bytes that a micro-batch keeps for its backward pass, weights left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    most = 0
    for _, micro in padded.micro_batches(budget, packed=True, share_prompts=share):
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
