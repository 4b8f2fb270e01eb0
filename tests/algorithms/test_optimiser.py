"""AdamW with its guard: checked against the formula, exact when restored, unharmed by what is not finite."""

from __future__ import annotations

import math

import pytest
import torch

from rlvr.algorithms.learner.optimiser import PATIENCE, Optimiser, schedule


def parameters(seed: int = 0) -> list[torch.nn.Parameter]:
    gen = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=gen)) for shape in ((3, 4), (5,))]


def give(owned: list[torch.nn.Parameter], step: int, scale: float = 1.0) -> None:
    gen = torch.Generator().manual_seed(1_000 + step)
    for parameter in owned:
        parameter.grad = scale * torch.randn(parameter.shape, generator=gen)


def make(owned: list[torch.nn.Parameter], lr: float = 0.1, **settings) -> Optimiser:
    return Optimiser(owned, lambda step: lr / (step + 1), betas=(0.9, 0.95), **settings)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_is_adamw_with_clipping(weight_decay: float):
    owned = parameters()
    optimiser = make(owned, weight_decay=weight_decay, max_grad_norm=1.0)
    weights = torch.cat([p.detach().flatten().double() for p in owned])
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(4):
        give(owned, step, scale=10.0 if step % 2 else 0.01)
        gradient = torch.cat([p.grad.flatten().double() for p in owned])
        norm = gradient.norm()
        stats = optimiser.step()
        gradient *= min(1.0, 1.0 / (float(norm) + 1e-6))
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * gradient**2
        rate = 0.1 / (step + 1)
        weights = weights * (1 - rate * weight_decay)
        unbiased = first / (1 - 0.9 ** (step + 1)), second / (1 - 0.95 ** (step + 1))
        weights = weights - rate * unbiased[0] / (unbiased[1].sqrt() + 1e-8)
        now = torch.cat([p.detach().flatten().double() for p in owned])
        torch.testing.assert_close(now, weights, rtol=1e-5, atol=1e-6)
        assert stats == {"grad_norm": pytest.approx(float(norm)), "lr": rate, "refused": 0.0}
        assert all(p.grad is None for p in owned)


def test_only_what_is_trained_is_owned():
    owned = parameters()
    owned[0].requires_grad_(False)
    assert make(owned).parameters == [owned[1]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(bad: float):
    owned, twin = parameters(), parameters()
    optimiser, other = make(owned, lr=0.1), make(twin, lr=0.1)
    optimiser.lr = other.lr = lambda step: 0.1
    for step in range(6):
        give(owned, step)
        give(twin, step)
        if step in (1, 4):
            before = [p.detach().clone() for p in owned]
            state = optimiser.tensors()
            state = {name: value.clone() for name, value in state.items()}
            owned[1].grad[2] = bad
            assert optimiser.step() == {"grad_norm": 0.0, "lr": 0.1, "refused": 1.0}
            assert all(torch.equal(p, b) for p, b in zip(owned, before, strict=True))
            assert all(torch.equal(value, state[name]) for name, value in optimiser.tensors().items())
            assert all(p.grad is None for p in owned)
        else:
            assert optimiser.step()["refused"] == 0.0
            other.step()
    assert all(torch.equal(p, q) for p, q in zip(owned, twin, strict=True)), "as if the bad steps had not been"


def test_five_in_a_row_are_the_end_and_four_are_not():
    owned = parameters()
    optimiser = make(owned)
    before = [p.detach().clone() for p in owned]
    for step in range(PATIENCE - 1):
        give(owned, step, scale=math.nan)
        optimiser.step()
    give(owned, 9, scale=0.0)
    optimiser.step()
    for step in range(PATIENCE - 1):
        give(owned, step, scale=math.nan)
        optimiser.step()
    give(owned, 0, scale=math.nan)
    with pytest.raises(FloatingPointError, match=r"5 losses or gradients in a row.*lower the learning rate"):
        optimiser.step()
    assert all(torch.equal(p, b) for p, b in zip(owned, before, strict=True))


def test_restored_it_goes_on_bit_for_bit():
    owned = parameters()
    optimiser = make(owned, weight_decay=0.01)
    for step in range(3):
        give(owned, step)
        optimiser.step()
    give(owned, 3, scale=math.nan)
    optimiser.step()
    tensors, counters = optimiser.tensors(), optimiser.state_dict()
    twin = [torch.nn.Parameter(p.detach().clone()) for p in owned]
    other = make(twin, weight_decay=0.01)
    other.load_state_dict(dict(counters), {name: value.clone() for name, value in tensors.items()})
    assert (other.steps, other.refused) == (4, 1)
    for step in range(4, 7):
        for holder in (owned, twin):
            give(holder, step)
        assert optimiser.step() == other.step()
    assert all(torch.equal(p, q) for p, q in zip(owned, twin, strict=True))


def test_a_state_without_steps_can_be_saved_and_loaded():
    empty = make(parameters())
    tensors, counters = empty.tensors(), empty.state_dict()
    assert (tensors, counters) == ({}, {"steps": 0, "refused": 0})
    make(parameters()).load_state_dict(counters, tensors)


def test_the_learning_rate_rises_and_then_stays_or_falls_to_a_tenth():
    constant = schedule(1.0, warmup=3, total=13, decay=False)
    assert [constant(step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    falling = schedule(1.0, warmup=3, total=13, decay=True)
    rates = [falling(step) for step in range(15)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[12:] == pytest.approx([0.1, 0.1, 0.1])
    assert schedule(1.0, warmup=0, total=1, decay=True)(0) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_updates_move_weights_of_half_precision(dtype: torch.dtype):
    """At 1e-6 a single update is lost in the rounding of the weight; the float32 master adds them up."""
    start = torch.randn(1000, generator=torch.Generator().manual_seed(0)).clamp(min=0.5)
    half, full = torch.nn.Parameter(start.to(dtype)), torch.nn.Parameter(start.to(dtype).float())
    optimisers = [Optimiser([p], lambda step: 1e-6, betas=(0.9, 0.95)) for p in (half, full)]
    plain = torch.nn.Parameter(start.to(dtype))
    lost = torch.optim.AdamW([plain], lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0)
    for _ in range(2000):
        for p in (half, full, plain):
            p.grad = torch.ones_like(p) / 100
        for optimiser in (*optimisers, lost):
            optimiser.step()
    assert optimisers[0].masters[0].dtype == torch.float32
    assert all(value.dtype == torch.float32 for value in optimisers[0].tensors().values())
    assert torch.equal(half, full.to(dtype)), "half precision follows float32"
    assert (half != start.to(dtype)).float().mean() > 0.3
    assert (plain != start.to(dtype)).float().mean() < 0.3, "without the master most of it would be lost"


def test_float16_finds_its_scale_and_keeps_it_in_a_checkpoint():
    """A gradient that overflows leaves the step out and halves the scale; that is no refusal that counts to the end."""
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float16))
    optimiser = Optimiser([p], lambda _: 0.1, betas=(0.9, 0.95))
    seen = []
    for _ in range(8):
        scale = optimiser.scale
        optimiser.backward((p.float() * 20.0).sum())
        seen.append((scale, optimiser.step()["refused"]))
    assert seen[:5] == [(2.0**15, 1.0), (2.0**14, 1.0), (2.0**13, 1.0), (2.0**12, 1.0), (2.0**11, 0.0)]
    assert {refused for _, refused in seen[4:]} == {0.0}
    assert p.isfinite().all()
    assert (p < 1).all()
    other = Optimiser([torch.nn.Parameter(p.detach().clone())], lambda _: 0.1, betas=(0.9, 0.95))
    other.load_state_dict(optimiser.state_dict(), optimiser.tensors())
    assert (other.scale, other.since_overflow) == (2.0**11, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types_are_not_scaled(dtype: torch.dtype):
    optimiser = Optimiser([torch.nn.Parameter(torch.ones(3, dtype=dtype))], lambda _: 0.1, betas=(0.9, 0.95))
    assert optimiser.scale == 1.0
    assert "scale" not in optimiser.state_dict()


def test_a_phase_begins_with_the_masters_of_the_one_before():
    """Unless the parameters were given other values in between."""
    p = torch.nn.Parameter(torch.linspace(-1, 1, 50).to(torch.bfloat16))
    first = Optimiser([p], lambda step: 1e-5, betas=(0.9, 0.95))
    p.grad = torch.full_like(p, 0.1)
    first.step()
    kept = first.masters[0].detach().clone()
    assert not torch.equal(kept, p.float())
    second = Optimiser([p], lambda step: 1e-5, betas=(0.9, 0.95), masters=first.masters)
    assert torch.equal(second.masters[0], kept)
    with torch.no_grad():
        p.add_(1.0)
    third = Optimiser([p], lambda step: 1e-5, betas=(0.9, 0.95), masters=second.masters)
    assert torch.equal(third.masters[0], p.float())


def test_masters_come_back_bit_for_bit():
    def fresh() -> tuple[torch.nn.Parameter, Optimiser]:
        p = torch.nn.Parameter(torch.linspace(-1, 1, 50).to(torch.bfloat16))
        return p, Optimiser([p], lambda step: 1e-5, betas=(0.9, 0.95))

    (owned, optimiser), (twin, other) = fresh(), fresh()
    for step in range(6):
        if step == 3:
            with torch.no_grad():
                twin.copy_(owned)
            tensors = {name: value.clone() for name, value in optimiser.tensors().items()}
            other.load_state_dict(optimiser.state_dict(), tensors)
        for p, holder in ((owned, optimiser), (twin, other)):
            if step >= 3 or p is owned:
                p.grad = torch.full_like(p, 0.1 * (step + 1))
                holder.step()
    assert torch.equal(owned, twin)
    assert torch.equal(optimiser.masters[0], other.masters[0])
    with pytest.raises(ValueError, match="another dtype"):
        other.load_state_dict(optimiser.state_dict(), {})
