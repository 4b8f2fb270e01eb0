"""A prompt that several samples begin with goes through the model once; the gradient is that of whole sequences."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import load_policy
from rlvr.algorithms.data.batch import TrainingBatch, pad, shared_prompt_batches
from rlvr.algorithms.presets import PRESETS
from rlvr.algorithms.train.learner import Learner
from rlvr.algorithms.train.optimiser import Optimiser
from rlvr.algorithms.train.scoring import Scorer, can_share_prompts, has_plain_head

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


def scored(model, ids, mask, slopes, share: bool, **options) -> tuple[torch.Tensor, torch.Tensor]:
    model.zero_grad()
    scores = Scorer(model, share)(ids, mask, 0.7, entropy=True, **options)
    ((scores.logprobs + 0.1 * scores.entropy) * slopes).sum().backward()
    found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat([scores.logprobs.detach().flatten(), scores.entropy.detach().flatten()]), torch.cat(found)


@given(groups, st.booleans())
@settings(max_examples=25, deadline=None)
def test_ragged_groups_have_the_gradient_of_whole_sequences(model, drawn, recompute: bool):
    padded = pad(build(drawn))
    slopes = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    whole = scored(model, padded.ids, padded.mask, slopes, False)
    shared = scored(model, padded.ids, padded.mask, slopes, True, recompute=recompute)
    torch.testing.assert_close(shared[0], whole[0], rtol=0, atol=1e-5)
    assert float((shared[1] - whole[1]).norm()) <= 1e-5 * float(whole[1].norm())


def batch_of_groups(prompt: int = 30, groups: int = 3) -> TrainingBatch:
    sequences = build([(prompt, [[(n, 0)] for n in (3, 5, 4, 5)]) for _ in range(groups)])
    batch = TrainingBatch.of(sequences, [index // 4 for index in range(len(sequences))], 40)
    return batch.having(advantages=torch.linspace(-1, 1, len(sequences)))


def updated(share: bool, recompute: bool = False, budget: int = 60, kl: float = 0.0) -> SimpleNamespace:
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
    assert max(shared.passed) <= 60


def test_where_it_is_off_or_spares_nothing_the_update_is_the_same_to_the_bit():
    off, alone = updated(False, budget=1), updated(True, budget=1)  # one sequence at a time shares nothing
    assert off.passed == alone.passed
    assert torch.equal(off.gradient, alone.gradient)
    assert not torch.equal(updated(False).gradient, updated(True).gradient)


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


class Forgetful(LlamaForCausalLM):
    """A model that ignores the positions it is given."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        inner = self.model.forward
        self.model.forward = lambda *args, position_ids=None, **given: inner(*args, **given)


MODELS = {
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(**GPT2)), True),
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS)), True),
    "mistral, all tokens": (lambda: MistralForCausalLM(MistralConfig(**SMALL, **HEADS, sliding_window=None)), True),
    "mistral, a window": (lambda: MistralForCausalLM(MistralConfig(**SMALL, **HEADS, sliding_window=8)), False),
    "rotations by length": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL, **HEADS, rope_parameters=DYNAMIC)), False),
    "positions ignored": (lambda: Forgetful(LlamaConfig(**SMALL, **HEADS)), False),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_shares_where_its_attention_allows_it_and_is_right_either_way(name: str):
    torch.manual_seed(0)
    make, expected = MODELS[name]
    model = make().eval()
    assert can_share_prompts(model) is expected
    padded = pad(build([(15, [[(3, 2), (4, 0)], [(5, 0)], [(2, 0)]]), (4, [[(6, 0)], [(1, 0)]])]))
    slopes = torch.randn(padded.ids.shape, generator=torch.Generator().manual_seed(0)) * padded.mask
    whole, shared = (scored(model, padded.ids, padded.mask, slopes, share) for share in (False, True))
    assert torch.equal(whole[1], shared[1]) is not expected
    torch.testing.assert_close(shared[0], whole[0], rtol=0, atol=1e-5)
    assert float((shared[1] - whole[1]).norm()) <= 1e-5 * float(whole[1].norm())


@given(groups, st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_micro_batches_of_prompts_hold_each_sequence_once_within_the_budget(drawn, budget: int):
    padded = pad(build(drawn))
    prompts = padded.prompts()
    found = shared_prompt_batches(prompts, padded.lengths, budget)
    assert sorted(index for batch, _ in found for index in batch) == list(range(len(padded)))
    for batch, tokens in found:
        own = {prompts[index] for index in batch}
        starts = {index: len(prompts[index]) // 8 for index in batch}
        rest = max(padded.lengths[index] - starts[index] for index in batch)
        assert tokens == (len(own) * max(starts.values()) + len(batch) * rest)
        assert tokens <= budget or len(batch) == 1
    chosen = [index for batch, _ in padded.micro_batches(budget, share_prompts=True) for index in batch]
    assert sorted(chosen) == list(range(len(padded)))
