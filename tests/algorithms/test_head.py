"""The output layer: the ways through it give one result; half precision, float32 logits, gradients known beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import load_policy
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.learner import head
from rlvr.algorithms.learner.batch import Padded, TrainingBatch
from rlvr.algorithms.learner.head import score_hidden, score_logits, use_float32
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.learner.scoring import sequence_logprobs
from rlvr.algorithms.losses.policy import policy_loss
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import make

N, V, H = 150, 37, 8  # three chunks of at least 64 tokens


def inputs(dtype: torch.dtype = torch.float32, bias: bool = True) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, weight, offset = (torch.randn(s, generator=generator) for s in ((N, H), (V, H), (V,)))
    leaves = [t.to(dtype).requires_grad_() for t in (hidden, weight, offset)]
    return leaves if bias else [*leaves[:2], None], torch.randint(0, V, (N,), generator=generator)


def gradients(scores, leaves, logprob_grads: torch.Tensor) -> list[torch.Tensor]:
    return list(
        torch.autograd.grad((scores.logprobs * logprob_grads).sum(), [leaf for leaf in leaves if leaf is not None])
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_gradient_made_in_the_forward_pass_is_the_gradient(bias: bool, temperature: float):
    leaves, targets = inputs(bias=bias)
    logprob_grads = torch.randn(N, generator=torch.Generator().manual_seed(1))
    logits = F.linear(*leaves)
    whole = score_logits(logits, targets, temperature)
    known = score_hidden(*leaves, targets, temperature, logprob_grads=logprob_grads, logits_at_once=64)
    assert "ScoreChunks" in known.logprobs.grad_fn.name(), "the way under test was taken"
    torch.testing.assert_close(known.logprobs, whole.logprobs, rtol=1e-5, atol=1e-5)
    for one, other in zip(
        gradients(known, leaves, logprob_grads), gradients(whole, leaves, logprob_grads), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_slopes_that_follow_from_the_log_probabilities_are_the_gradient():
    """As a KL term's do: each token's from its own log-probability, known once its chunk has been scored."""
    leaves, targets = inputs()
    whole = score_logits(F.linear(*leaves), targets, 0.7)
    # near the policy: one slope of e^26 would leave the rounding of the others alone to compare
    ref = whole.logprobs.detach() + torch.randn(N, generator=torch.Generator().manual_seed(1))
    asked = []

    def of(logprobs: torch.Tensor, which: slice) -> torch.Tensor:
        asked.append(which)
        return 1.0 - torch.exp(ref[which] - logprobs)  # of k3, against a reference

    known = score_hidden(*leaves, targets, 0.7, logprob_grads=of, logits_at_once=64)
    found = []
    for scores in (known, whole):
        loss = (torch.expm1(ref - scores.logprobs) + scores.logprobs - ref).sum()
        found.append(torch.autograd.grad(loss, leaves))
    assert len(asked) == 3
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_how_many_rows_a_core_holds_changes_no_bit(bias: bool, temperature: float, monkeypatch: pytest.MonkeyPatch):
    logprob_grads = torch.randn(N, generator=torch.Generator().manual_seed(1))
    found = []
    for numbers in (1, 10 * V, N * V):  # one row, ten, all
        monkeypatch.setattr(head, "IN_CORE", numbers)
        leaves, targets = inputs(bias=bias)
        scores = score_hidden(*leaves, targets, temperature, logprob_grads=logprob_grads, logits_at_once=64)
        found.append([scores.logprobs.detach(), *gradients(scores, leaves, logprob_grads)])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_a_loss_that_asks_for_another_gradient_is_an_error():
    leaves, targets = inputs()
    logprob_grads = torch.ones(N)
    known = score_hidden(*leaves, targets, 1.0, logprob_grads=logprob_grads, logits_at_once=64)
    with pytest.raises(RuntimeError, match="another gradient"):
        gradients(known, leaves, 2 * logprob_grads)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("entropy", [False, True])
def test_half_precision_a_block_at_a_time_equals_the_whole(dtype: torch.dtype, entropy: bool):
    leaves, targets = inputs(dtype)
    whole = score_logits(F.linear(*leaves), targets, 1.0, entropy=entropy)
    blocks = score_hidden(*leaves, targets, 1.0, entropy=entropy, logits_at_once=10 * N)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(blocks.logprobs, whole.logprobs, rtol=0, atol=8 * rounding)  # of logits of about 10
    logprob_grads = torch.ones(N)
    for one, other in zip(
        gradients(blocks, leaves, logprob_grads), gradients(whole, leaves, logprob_grads), strict=True
    ):
        assert one.dtype == dtype
        assert float((one - other).float().norm() / other.float().norm()) < 2 * rounding
    if entropy:
        torch.testing.assert_close(blocks.entropy, whole.entropy, rtol=0, atol=16 * rounding)


@pytest.mark.parametrize("at_once", [10 * N, 2**22])
def test_logits_in_float32_are_not_rounded(at_once: int):
    leaves, targets = inputs(torch.bfloat16)
    exact = score_logits(F.linear(*(leaf.float() for leaf in leaves)), targets, 1.0).logprobs
    wide = score_hidden(*leaves, targets, 1.0, in_float32=True, logits_at_once=at_once).logprobs
    rounded = score_hidden(*leaves, targets, 1.0, logits_at_once=at_once).logprobs
    torch.testing.assert_close(wide, exact, rtol=1e-5, atol=1e-5)
    assert float((rounded - exact).detach().abs().max()) > 1e-3


def test_the_switch_acts_on_the_sampler_and_on_the_learner():
    model, tokenizer = load_policy("rlvr/tiny", dtype="bfloat16", tiny={"hidden": 32, "layers": 1})
    use_float32(model)
    ids = torch.randint(0, 256, (4, 20), generator=torch.Generator().manual_seed(0))
    sampled = model(ids).logits
    assert sampled.dtype == torch.float32
    expected = sampled.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    learner = Learner(model, PRESETS["reinforce"], pad_id=tokenizer.pad_token_id, max_length=32)
    torch.testing.assert_close(sequence_logprobs(learner.model, ids)[:, 1:], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_slopes_are_known_where_nothing_but_the_policy_itself_is_compared_with(name: str):
    """Whatever the log-probabilities are, in a batch's only step the loss's gradient is what the learner foretells."""
    preset, batch = PRESETS[name], make("tools")
    mask, width = batch["mask"], batch["mask"].shape[1]
    entries = {k: v.detach().nan_to_num() if torch.is_tensor(v) else v for k, v in batch.items()}
    new = entries.pop("new")
    inputs = LossInputs(**{k: v for k, v in entries.items() if k != "old_logprobs"})
    padded = Padded(torch.zeros(mask.shape, dtype=torch.long), mask, (width,) * len(mask))
    model, _ = load_policy("rlvr/tiny", tiny={"hidden": 8, "layers": 1, "heads": 1, "kv_heads": 1})
    learner = Learner(model, preset, pad_id=0, max_length=9)
    denominators = count_denominators(inputs)
    known = learner._logprob_grads(TrainingBatch(padded, inputs), denominators, 2.0)
    assert (known is None) == bool("behaviour_logprobs" in preset.needs or preset.entropy_coef)
    if known is None:
        return
    new = new.requires_grad_()
    loss, _ = policy_loss(new, replace(inputs, old_logprobs=new.detach()), preset, denominators)
    (logprob_grads,) = torch.autograd.grad(2.0 * loss, new)
    assert callable(known) == ("ref_logprobs" in preset.needs)
    if not callable(known):
        torch.testing.assert_close(known.double(), logprob_grads, rtol=1e-5, atol=1e-7)
        return
    # With a KL term a token's gradient follows from its own log-probability, whatever stands at the others.
    logprobs = torch.where(mask, new.detach(), 0.0)
    torch.testing.assert_close(known(logprobs), logprob_grads, rtol=1e-9, atol=1e-12)
    even = torch.arange(width) % 2 == 0
    for own in (even, ~even):
        found = known(torch.where(own, logprobs, 0.0))
        torch.testing.assert_close(found[:, own], logprob_grads[:, own], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kl", ["none", "k2", "k3", "k3_unbiased"])
def test_an_update_is_the_same_with_slopes_known_or_not(monkeypatch: pytest.MonkeyPatch, kl: str):
    sequences = []
    for seed in range(8):
        ids = torch.randint(0, 256, (30,), generator=torch.Generator().manual_seed(seed)).tolist()
        sequence = TokenSequence()
        sequence.append_context(ids[:5])
        sequence.append_sampled(ids[5:], [0.0] * 25)
        sequences.append(sequence)
    sequences.append(sequences[0])  # goes through the model once
    batch = TrainingBatch.of(sequences, [0] * 4 + [1] * 5, 40).replace(advantages=torch.linspace(-1, 1, 9))
    ref = -torch.rand(batch.padded.ids.shape, generator=torch.Generator().manual_seed(9)) * 8  # far from the policy
    batch = batch.replace(ref_logprobs=ref)
    preset = PRESETS["grpo"].replace(kl=kl, kl_coef=0.0 if kl == "none" else 0.3)
    taken, ways = [], []
    known = head.score_hidden
    monkeypatch.setattr(
        "rlvr.algorithms.learner.scoring.score_hidden",
        lambda *given, **options: (found := known(*given, **options), ways.append(found.logprobs.grad_fn.name()))[0],
    )
    for at_once in (1, 2**24):
        monkeypatch.setattr("rlvr.algorithms.learner.head.IN_CACHE", at_once)
        monkeypatch.setattr("rlvr.algorithms.learner.head.LOGITS_AT_ONCE", at_once)
        model, tokenizer = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 1})
        learner = Learner(model, preset, pad_id=tokenizer.pad_token_id, max_length=40)
        optimiser = Optimiser(model.parameters(), lambda _: 0.0, betas=(0.9, 0.95), max_grad_norm=1e9)
        taken.append(learner.update(batch, optimiser))
    assert ["ScoreChunks" in way for way in ways] == [True, False]
    assert taken[0]["grad_norm"] == pytest.approx(taken[1]["grad_norm"], rel=1e-5)
    assert taken[0]["loss"] == pytest.approx(taken[1]["loss"], abs=1e-6)


@pytest.mark.parametrize("at_once", [1, 2**22])
def test_the_policy_is_its_own_reference_to_the_bit(monkeypatch: pytest.MonkeyPatch, at_once: int):
    """Before the first update: AdamW would make steps of the learning rate of what rounding leaves of a KL of 0."""
    monkeypatch.setattr("rlvr.algorithms.learner.head.IN_CACHE", at_once)
    monkeypatch.setattr("rlvr.algorithms.learner.head.LOGITS_AT_ONCE", at_once)
    sequences = []
    for seed in range(6):
        ids = torch.randint(0, 256, (60,), generator=torch.Generator().manual_seed(seed)).tolist()
        sequences.append(TokenSequence())
        sequences[-1].append_context(ids[:5])
        sequences[-1].append_sampled(ids[5:], [0.0] * 55)
    model, tokenizer = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 1})
    learner = Learner(model, PRESETS["grpo"], pad_id=tokenizer.pad_token_id, max_length=80)
    learner.freeze_reference()
    batch = TrainingBatch.of(sequences, [0] * 3 + [1] * 3, 80).replace(advantages=torch.zeros(6))
    taken = learner.update(batch, Optimiser(model.parameters(), lambda _: 0.0, betas=(0.9, 0.95)))
    assert taken["grad_norm"] == 0.0
