"""Sums of micro-batches' gradients: the same bits in any order, however they are dealt to processes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.algorithms.learner.optimiser import PIECE, Accumulation, Optimiser, ShardedAccumulation, square_sum

NUMBERS = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)
GRADIENTS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=2, max_size=7)


def parameter(dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(3, dtype=dtype))


def added(gradients: list[list[float]], dtype: torch.dtype, of: torch.dtype = torch.float32) -> torch.Tensor:
    """The sum of one backward pass after another."""
    p = parameter(of)
    accumulation = Accumulation([p], dtype)
    for gradient in gradients:
        accumulation.before_backward()
        (p * torch.tensor(gradient, dtype=of)).sum().backward()
    (total,) = accumulation.gradients()
    assert p.grad is None
    assert accumulation.sums == [None]
    return total


@given(GRADIENTS, st.randoms(use_true_random=False))
def test_a_float64_sum_is_the_same_in_any_order(gradients, random):
    total = added(gradients, torch.float64)
    assert total.dtype == torch.float32
    exact = [math.fsum(torch.tensor(column).tolist()) for column in zip(*gradients, strict=True)]
    torch.testing.assert_close(total.double(), torch.tensor(exact).double(), rtol=2**-23, atol=1e-12)
    random.shuffle(gradients)
    assert torch.equal(added(gradients, torch.float64), total)


@given(GRADIENTS, st.integers(1, 3))
def test_what_processes_add_up_by_their_shards_is_the_sum_of_one(gradients, size):
    """As FSDP2 does: in each pass the sum over processes, in float64, which the hook turns into that of all passes."""
    p = parameter()
    accumulation = ShardedAccumulation([p], torch.float64)
    add = accumulation.hook(0)
    for start in range(0, len(gradients), size):
        accumulation.before_backward()
        assert p.grad is None
        reduced = sum(torch.tensor(gradient, dtype=torch.float64) for gradient in gradients[start : start + size])
        add(reduced)
        p.grad = reduced.float()
    (total,) = accumulation.gradients()
    assert torch.equal(total, added(gradients, torch.float64))
    assert not accumulation.parts


def test_float32_sums_depend_on_the_order_and_these_do_not():
    gradients = [[1e8, 0.0, 0.0], [1.0, 0.0, 0.0], [-1e8, 0.0, 0.0]]
    ways = [gradients, gradients[::-1], [gradients[0], gradients[2], gradients[1]]]
    assert {float(added(way, torch.float64)[0]) for way in ways} == {1.0}
    assert len({float(added(way, torch.float32)[0]) for way in ways}) == 2


@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
def test_gradients_of_half_precision_add_up_in_a_wider_one(wide: torch.dtype):
    """In bfloat16 256 + 1 is 256."""
    gradients = [[256.0, 0.0, 0.0]] + [[1.0, 0.0, 0.0]] * 8
    assert added(gradients, wide, torch.bfloat16).tolist() == [264.0, 0.0, 0.0]


def test_one_pass_is_the_gradient_itself():
    assert torch.equal(added([[0.1, 0.2, 0.3]], torch.float64), torch.tensor([0.1, 0.2, 0.3]))


def test_what_has_no_gradient_has_no_sum():
    used, unused = parameter(), parameter()
    accumulation = Accumulation([used, unused], torch.float64)
    for _ in range(2):
        accumulation.before_backward()
        used.sum().backward()
    total, none = accumulation.gradients()
    assert torch.equal(total, torch.full((3,), 2.0))
    assert none is None
    assert accumulation.gradients() == [None, None]


def test_what_was_thrown_away_is_in_no_later_sum():
    p = parameter()
    accumulation = Accumulation([p], torch.float64)
    optimiser = Optimiser([p], lambda _: 0.0, betas=(0.9, 0.95), max_grad_norm=math.inf, accumulation=accumulation)
    for _ in range(3):
        optimiser.backward((p * 7).sum())
    optimiser.clear()
    optimiser.backward(p.sum())
    optimiser.backward(p.sum())
    assert optimiser.step()["grad_norm"] == pytest.approx(2 * math.sqrt(3))
    sharded = ShardedAccumulation([p], torch.float64)
    sharded.hook(0)(torch.ones(3, dtype=torch.float64))
    sharded.clear()
    first = torch.ones(3, dtype=torch.float64)
    sharded.hook(0)(first)
    assert torch.equal(first, torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE + 1])
def test_the_sum_of_squares_is_that_of_all_pieces(size: int):
    tensor = torch.randn(size, generator=torch.Generator().manual_seed(size))
    total = square_sum(tensor)
    assert total.dtype == torch.float64
    assert float(total) == pytest.approx(float(tensor.double().square().sum()), rel=1e-12)
    assert float(square_sum(torch.full((2,), 3e38))) == pytest.approx(1.8e77)  # no overflow, as in float32
