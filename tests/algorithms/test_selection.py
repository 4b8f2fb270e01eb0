"""What enters a batch: filters, refills, pass rates, truncated rows, best rows."""

from __future__ import annotations

import json

import pytest
import torch

from rlvr.algorithms import policy_loss
from rlvr.algorithms.advantages import group_mean
from rlvr.algorithms.filters.selection import (
    PassRates,
    best_of_n,
    fill_batch,
    has_reward_variance,
    keep_correct,
    mixed_outcome,
)
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import make, take


def test_a_group_has_reward_variance_when_its_rewards_differ():
    rewards, group = [0.1, 0.1, 0.1, 0.0, 1.0, 0.2, 0.3, 1.0], [0, 0, 0, 1, 1, 2, 2, 3]
    assert has_reward_variance(rewards, group).tolist() == [False] * 3 + [True] * 4 + [False]
    assert mixed_outcome(rewards, group).tolist() == [False] * 3 + [True] * 2 + [False] * 3


def test_filtering_without_refill_raises_the_step():
    """Groups that teach nothing only shrink the step; dropping them leaves the direction."""
    batch = make("ragged")
    rewards = torch.tensor([1.0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0], dtype=torch.float64)  # group 11 all wrong
    batch["advantages"] = group_mean(rewards, batch["group"])
    kept = take(batch, has_reward_variance(rewards, batch["group"]).nonzero()[:, 0])
    assert len(kept["mask"]) == 9
    whole = policy_loss(batch["new"], batch, PRESETS["dr_grpo"])[0]
    filtered = policy_loss(kept["new"], kept, PRESETS["dr_grpo"])[0]
    torch.testing.assert_close(filtered * 9 / 12, whole)


def test_fill_batch_refills_until_full():
    stream = iter(range(100))
    asked = []

    def draw(n: int) -> list[int]:
        asked.append(n)
        return [next(stream) for _ in range(n)]

    filled = fill_batch(draw, 4, lambda x: x % 3 == 0, over_sampling=1.5)
    assert filled.groups == [0, 3, 6, 9]
    assert (filled.rounds, filled.drawn) == (len(asked), sum(asked))
    assert asked[0] == 6
    assert filled.kept_fraction == pytest.approx((len(filled.groups) + len(filled.left_over)) / filled.drawn)


def test_fill_batch_keeps_what_is_over_and_gives_up():
    filled = fill_batch(lambda n: range(3 * n), 2, lambda x: True)
    assert (filled.groups, filled.left_over) == ([0, 1], [2, 3, 4, 5])
    nothing = fill_batch(lambda n: range(n), 2, lambda x: False, max_rounds=3)
    assert (nothing.groups, nothing.rounds, nothing.kept_fraction) == ([], 3, 0.0)
    queue = iter([1, 2, 3])
    active = fill_batch(lambda n: [next(queue)], 3, lambda x: True)  # one finished group at a time
    assert active.groups == [1, 2, 3]
    with pytest.raises(ValueError, match="must be at least 1"):
        fill_batch(lambda n: [], 0, lambda x: True)


def test_pass_rates():
    rates = PassRates()
    rates.record("easy", [1.0] * 10)
    rates.record("hard", [0.0, 0.0, 1.0, 0.0])
    rates.record(("set", 7), [1.0])
    assert rates.rate("easy") == 1.0
    assert rates.rate("hard") == 0.25
    assert rates.rate("new", unseen=0.5) == 0.5
    assert [rates.retired(p) for p in ("easy", "hard", "new")] == [True, False, False]
    assert rates.between(["easy", "hard", "new"]) == ["hard"]
    assert rates.weights(["easy", "hard", "new"]) == pytest.approx([0.0, 0.75 / 1.75, 1 / 1.75])
    assert rates.weights(["easy"]) == [1.0]
    assert rates.weights(["easy", "hard"], floor=0.25) == pytest.approx([0.25, 0.75])
    again = PassRates.restore(json.loads(json.dumps(rates.state())))
    assert again == rates
    with pytest.raises(ValueError, match="count successes"):
        rates.record("hard", [1.5])


def test_overlong_filter_keeps_the_reward_in_the_group_mean():
    """With "mask" the truncated failure still lowers the mean, so the success is worth something."""
    batch = make("plain")
    two = {k: v[:2].detach() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
    rewards, group = torch.tensor([1.0, 0.0]), [0, 0]
    two["mask"] = two["mask"] & torch.tensor([[True], [False]])
    assert group_mean(rewards, group)[0] == 0.5
    two["advantages"] = group_mean(rewards, group)
    loss, stats = policy_loss(two["old_logprobs"], two, PRESETS["dr_grpo"])
    assert loss.item() == pytest.approx(-0.5 * 7 / (2 * 9))  # still B = 2
    assert stats["n_empty_sequences"] == 1


def test_correct_rows_once_and_the_best_of_n():
    rewards, group = [1.0, 1.0, 0.0, 1.0, 0.2, 0.1], [0, 0, 0, 1, 2, 2]
    assert keep_correct(rewards, threshold=0.5).tolist() == [True, True, False, True, False, False]
    texts = ["a", "a", "b", "a", "c", "d"]
    assert keep_correct(rewards, texts, threshold=0.5).tolist() == [True, False, False, False, False, False]
    by_prompt = list(zip(group, texts, strict=True))
    assert keep_correct(rewards, by_prompt, threshold=0.5).tolist() == [True, False, False, True, False, False]
    assert best_of_n(rewards, group).tolist() == [True, False, False, True, True, False]
    assert best_of_n(rewards, group, [9, 3, 1, 1, 1, 1]).tolist() == [False, True, False, True, True, False]
