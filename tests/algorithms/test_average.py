"""The average of the weights, and a KL term whose coefficient falls."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlvr.agents.models.tiny import load_policy
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.runs.checkpoints import latest_checkpoint
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, differences, small, stop_and_resume

FALLING = {
    "learner": {"ema": 0.5, "kl_coef_end": 0.04},
    "overrides": {"aggregation": "token_mean", "kl_coef": 0.4, "entropy_coef": 0.01},
    "evaluation": {"episodes": 4},
}


def learner(ema: float, dtype: str = "float32") -> Learner:
    model, tokenizer = load_policy("rlvr/tiny", dtype=dtype, tiny={"hidden": 16, "layers": 1})
    return Learner(model, PRESETS["grpo"], pad_id=tokenizer.pad_token_id, max_length=8, ema=ema)


def walk(made: Learner, steps: int) -> list[list[torch.Tensor]]:
    """Move the weights at random, and let the average follow; the weights at the start and after each step."""
    generator = torch.Generator().manual_seed(0)
    found = [[p.detach().clone() for p in made.model.parameters()]]
    for _ in range(steps):
        with torch.no_grad():
            for parameter in made.model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter.dtype) * 0.1)
        made.update_average()
        found.append([p.detach().clone() for p in made.model.parameters()])
    return found


@pytest.mark.parametrize("ema", [0.3, 0.9, 0.99])
def test_the_average_is_the_closed_form_of_its_recursion(ema: float):
    made = learner(ema)
    made.begin_average()
    weights = walk(made, 7)
    shares = [ema**7, *((1 - ema) * ema ** (7 - step) for step in range(1, 8))]
    assert sum(shares) == pytest.approx(1)
    for at, average in enumerate(made.average_weights().values()):
        wanted = sum(share * values[at].double() for share, values in zip(shares, weights, strict=True))
        torch.testing.assert_close(average.double(), wanted, rtol=1e-5, atol=1e-6)


def test_a_policy_is_the_average_for_a_while_alone_even_if_something_fails():
    made = learner(0.9)
    made.begin_average()
    last = walk(made, 3)[-1]
    average = list(made.average_weights().values())
    with made.averaged():
        assert all(torch.equal(p, a) for p, a in zip(made.model.parameters(), average, strict=True))
        assert not torch.equal(next(made.model.parameters()), last[0])
    assert all(torch.equal(p, w) for p, w in zip(made.model.parameters(), last, strict=True))
    with pytest.raises(RuntimeError, match="broke"), made.averaged():
        raise RuntimeError("broke")
    assert all(torch.equal(p, w) for p, w in zip(made.model.parameters(), last, strict=True))


def test_an_average_of_half_precision_keeps_what_rounding_would_lose():
    made = learner(0.999, "bfloat16")
    made.begin_average()
    before = {name: value.clone() for name, value in made.average_weights().items()}
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.mul_(1.25)
    made.update_average()
    for name, value in made.average_weights().items():
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, before[name] * (0.999 + 0.001 * 1.25), rtol=1e-5, atol=1e-8)
    with made.averaged():
        assert {p.dtype for p in made.model.parameters()} == {torch.bfloat16}


def test_without_an_average_the_policy_is_the_last_weights():
    made = learner(0.0)
    made.begin_average()
    last = walk(made, 2)[-1]
    assert made.average_weights() == {}
    with made.averaged():
        assert all(torch.equal(p, w) for p, w in zip(made.model.parameters(), last, strict=True))


def test_a_run_evaluates_and_saves_the_average_while_the_coefficient_of_its_kl_falls(tmp_path: Path, monkeypatch):
    callback = Callback()
    trainer = Trainer(small(tmp_path / "run", **FALLING), callback)
    measured, figures = [], trainer.games.figures

    def noted(*arguments):  # within an evaluation
        measured.append({name: p.detach().clone() for name, p in trainer.model.named_parameters()})
        return figures(*arguments)

    monkeypatch.setattr(trainer.games, "figures", noted)
    trainer.run()
    checkpoint, faults = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert checkpoint is not None
    assert not faults
    saved = dict(load_policy(tmp_path / "run" / "policy")[0].named_parameters())
    last = dict(trainer.learner.model.named_parameters())
    assert saved.keys() == measured[-1].keys() == checkpoint.average.keys() == checkpoint.model.keys()
    for name, average in checkpoint.average.items():
        assert torch.equal(saved[name], average)
        assert torch.equal(measured[-1][name], average)
        assert torch.equal(last[name], checkpoint.model[name])
    assert any(not torch.equal(average, checkpoint.model[name]) for name, average in checkpoint.average.items())

    records = callback.of("train")
    assert [record["kl_coef"] for record in records] == pytest.approx([0.4 * 0.1 ** (step / 3) for step in range(4)])
    assert records[-1]["ref_kl_k3"] > 0
    for record in records:  # the loss has the coefficient that is logged
        regularised = record["kl_coef"] * record["ref_kl_k3"] - 0.01 * record["entropy"]
        assert record["regulariser_loss"] == pytest.approx(regularised, rel=1e-5)


def test_a_run_with_an_average_and_a_falling_kl_goes_on_as_if_it_had_not_stopped(tmp_path: Path, monkeypatch):
    changes = {**FALLING, "steps": 4, "checkpoint_every": 2}
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "run", 3, monkeypatch, **changes)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "reinforce", "learner": {"kl_coef_end": 0.1}}, "kl_coef_end 0.1 needs a KL term, and reinforce"),
        ({"learner": {"kl_coef_end": 0}}, "learner.kl_coef_end: .* greater than 0"),
        ({"learner": {"ema": 1.0}}, "learner.ema: .* less than 1"),
        ({"learner": {"ema": 0.9}, "sampler": "vllm"}, "learner.ema goes with sampler: transformers .* not with vllm"),
        (
            {"algorithm": "scalerl", "learner": {"ema": 0.9}, "schedule": "async"},
            "learner.ema goes with .* not with transformers and async",
        ),
    ],
)
def test_an_average_or_a_falling_kl_that_cannot_be_is_refused(changes: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        load_config(changes)
