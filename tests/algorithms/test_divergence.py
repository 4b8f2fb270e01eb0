"""Distillation by a divergence from the teacher over its likeliest tokens, in the place of the policy term."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.algorithms import policy_loss
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.learner.scoring import score_sequences
from rlvr.algorithms.losses.kl import divergence
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.runs.explain import explain
from rlvr.algorithms.train.run import Trainer
from rlvr.envs.core.verdict import Verdict

from .runs import Callback, differences, small, stop_and_resume

KINDS = ("forward_kl", "reverse_kl", "jsd")
QUICK = {
    "steps": 2, "prompts": 2, "group_size": 4, "env": {"id": "rlvr/Calculator-v0", "level": 1},
    "sampling": {"max_new_tokens": 16, "max_length": 1600},
}  # fmt: skip


def by_definition(policy: list[float], teacher: list[float], kind: str) -> float:
    """Of two lists of probabilities that add up to 1."""

    def kl(p: list[float], q: list[float]) -> float:
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a)

    if kind == "jsd":
        middle = [(p + q) / 2 for p, q in zip(policy, teacher, strict=True)]
        return (kl(policy, middle) + kl(teacher, middle)) / 2
    return kl(teacher, policy) if kind == "forward_kl" else kl(policy, teacher)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32), events=st.integers(1, 6))
def test_a_divergence_is_that_of_its_definition_and_masked_tokens_have_none(kind, seed, events):
    generator = torch.Generator().manual_seed(seed)
    logs = (3 * torch.randn(2, 2, 5, events, generator=generator, dtype=torch.float64)).log_softmax(-1)
    mask = torch.rand(2, 5, generator=generator) < 0.7
    garbage = torch.where(mask[..., None], logs, torch.nan)
    values = divergence(garbage[0], garbage[1], mask, kind)
    for b, t in ((b, t) for b in range(2) for t in range(5)):
        expected = by_definition(*(row[b, t].exp().tolist() for row in logs), kind) if mask[b, t] else 0.0
        assert float(values[b, t]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_over_the_whole_vocabulary_the_gradient_is_that_of_the_divergence_itself(kind):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(1, 4, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = (2 * torch.randn(1, 4, 7, generator=generator, dtype=torch.float64)).log_softmax(-1)
    mask = torch.tensor([[False, True, True, True]])
    (given_gradient,) = torch.autograd.grad(divergence(logits.log_softmax(-1), teacher, mask, kind).sum(), logits)
    p, q = logits.softmax(-1), teacher.exp()
    m = (p + q) / 2
    of = {
        "forward_kl": q * (q.log() - p.log()),
        "reverse_kl": p * (p.log() - q.log()),
        "jsd": (p * (p / m).log() + q * (q / m).log()) / 2,
    }[kind]
    (expected,) = torch.autograd.grad(of[mask].sum(), logits)
    torch.testing.assert_close(given_gradient, expected, rtol=1e-6, atol=1e-6)


# the tokens that are named


def test_named_and_likeliest_tokens_are_scored_by_the_models_own_logits(tmp_path):
    trainer = Trainer(small(tmp_path, algorithm="grpo", **QUICK), Callback())
    trainer.prepare()
    try:
        model, vocabulary = trainer.model, trainer.model.config.vocab_size
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(vocabulary, (3, 12), generator=generator)
        ids[1] = ids[0]  # equal rows, other names
        mask = torch.rand(3, 12, generator=generator) < 0.6
        mask[:, 0] = False
        named = torch.randint(vocabulary, (3, 12, 5), generator=generator)
        logs = (model(ids).logits.float() / 0.7).log_softmax(-1)
        others = torch.ones(3, 12, vocabulary).scatter(-1, named, 0)
        rest = (logs[:, :-1].exp() * others[:, 1:]).sum(-1, keepdim=True).log()
        expected = torch.zeros(3, 12, 6)
        expected[:, 1:] = torch.cat([logs[:, :-1].gather(-1, named[:, 1:]), rest], -1)
        expected = torch.where(mask[..., None], expected, 0)
        scores = trainer.learner.scorer(ids, mask, 0.7, named=named)
        torch.testing.assert_close(scores.named.logprobs, expected, rtol=1e-5, atol=1e-5)
        weight = torch.randn(3, 12, 6, generator=generator)
        gradients = [
            torch.autograd.grad((weight * column).sum(), [*model.parameters()], allow_unused=True)
            for column in (scores.named.logprobs, expected)
        ]
        for ours, theirs in zip(*gradients, strict=True):
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        top = score_sequences(model, ids, mask, 0.7, top=4).named
        for b, t in mask.nonzero().tolist():
            best = logs[b, t - 1].topk(4)
            torch.testing.assert_close(top.logprobs[b, t, :4], best.values, rtol=1e-5, atol=1e-5)
            assert float(top.logprobs[b, t].detach().exp().sum()) == pytest.approx(1, abs=1e-5)
            torch.testing.assert_close(logs[b, t - 1][top.ids[b, t]], best.values, rtol=1e-5, atol=1e-5)
    finally:
        trainer.close()


def test_the_whole_vocabulary_leaves_no_rest(tmp_path):
    trainer = run_of(tmp_path)
    try:
        ids = torch.arange(8)[None]
        top = score_sequences(trainer.model, ids, top=10**6).named.logprobs[:, 1:]
        assert top.shape[-1] == trainer.model.config.vocab_size + 1
        whole = divergence(top, top.roll(1, 1), torch.ones(1, 7, dtype=torch.bool), "reverse_kl")
        cut = divergence(top[..., :-1], top[..., :-1].roll(1, 1), torch.ones(1, 7, dtype=torch.bool), "reverse_kl")
        torch.testing.assert_close(whole, cut)
    finally:
        trainer.close()


# in a run


def run_of(folder: Path, **changes) -> Trainer:
    trainer = Trainer(small(folder, **QUICK | {"algorithm": "sdpo"} | changes), Callback())
    trainer.prepare()
    return trainer


@pytest.mark.parametrize("learner", [{}, {"micro_batch_tokens": 300}, {"share_prompts": True}], ids=str)
def test_a_step_goes_down_the_divergence_from_the_policy_behind_hints(tmp_path, learner):
    overrides = {"divergence": "jsd", "divergence_top": 10}
    trainer = run_of(tmp_path, overrides=overrides, learner=learner | {"lr": 1e-3})
    try:
        collected = trainer.collect().collected
        collected.episodes[1].verdict = Verdict(1.0, "correct")
        batch, _ = trainer.method.credit(collected)
        mask = batch.inputs.mask
        assert mask.any()
        assert batch.inputs.teacher_top.shape == (*mask.shape, 10)
        # the sampled tokens' own advantage is the teacher's log-probability, where the teacher names the token
        ids = batch.padded.ids
        for b, t in mask.nonzero().tolist():
            if ids[b, t] in batch.inputs.teacher_top[b, t]:
                at = batch.inputs.teacher_top[b, t].tolist().index(int(ids[b, t]))
                ratio = batch.inputs.teacher_top_logprobs[b, t, at] - batch.inputs.behaviour_logprobs[b, t]
                assert float(ratio) == pytest.approx(float(batch.inputs.advantages[b, t]), abs=1e-5)

        def loss() -> float:
            with torch.no_grad():
                scores = trainer.learner.scores(batch.padded, 1.0, named=batch.inputs.teacher_top)
            entries = {**vars(batch.inputs), "top_logprobs": scores.named.logprobs}
            entries = {name: value for name, value in entries.items() if value is not None}
            value, _ = policy_loss(scores.logprobs, entries, trainer.learner.preset, count_denominators(batch.inputs))
            terms = divergence(scores.named.logprobs, batch.inputs.teacher_top_logprobs, mask, "jsd")
            assert float(value) == pytest.approx(float(terms.sum() / mask.sum()), abs=1e-6)
            return float(value)

        before = loss()
        metrics = trainer.method.update(trainer.method.score(batch), trainer.optimiser)
        assert metrics["policy_loss"] == pytest.approx(before, abs=1e-6)
        assert loss() < before
    finally:
        trainer.close()


def test_a_run_by_divergence_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    changes = QUICK | {"algorithm": "sdpo", "overrides": {"divergence": "reverse_kl"}, "checkpoint_every": 1}
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "broken", 1, monkeypatch, **changes)
    assert differences(tmp_path / "whole", tmp_path / "broken") == []
    text = explain(tmp_path / "whole", "0")
    assert "reverse_kl of the teacher and the policy over 20 tokens" in text
    assert "weight       of no token alone" in text


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("grpo", {"divergence": "jsd"}, "divergence='jsd' is one from a teacher; advantage='group_z' has none"),
        ("sdpo", {"divergence": "js"}, "jsd"),
        ("sdpo", {"divergence": "jsd", "divergence_top": 0}, "divergence_top is a number of tokens from 1, not 0"),
        ("sdpo", {"divergence": "jsd", "entropy_share": 0.5}, "stands in the place of the policy term"),
    ],
)
def test_a_divergence_that_does_not_go_with_the_rest_is_refused(name, changes, message):
    with pytest.raises(ValueError, match=message):
        PRESETS[name].replace(**changes)
