"""What programs that play as agents are checked for: their tokens are the policy's own, and a step learns from them."""

from __future__ import annotations

import pytest


def check_capture(tokens, model):
    """Each token in the loss has the log-probability that the model gives it where it stands."""
    import torch

    with torch.inference_mode():
        scores = model(torch.tensor([tokens.ids])).logits[0, :-1].float().log_softmax(-1)
    positions = [index for index, sampled in enumerate(tokens.mask) if sampled]
    exact = scores[[index - 1 for index in positions], [tokens.ids[index] for index in positions]]
    assert exact.tolist() == pytest.approx([tokens.logprobs[index] for index in positions], abs=1e-4)


def check_step(trainer, sample):
    """A step on the sample changes the weights."""
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.learn(sample)
    pairs = zip(before, trainer.model.parameters(), strict=True)
    assert any(not old.equal(new) for old, new in pairs)
