"""Advantages against the formulas in plain loops, numbers of the papers, and the two rules that hold everywhere."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.algorithms import advantages as adv
from rlvr.algorithms.advantages import ADVANTAGES, RoleBaselines, brpo, budget_probs, compute_advantages
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.recipe.presets import PRESETS

from . import reference as ref

REWARDS = [1.0, 0.0, 0.0, 1.0, 0.3, 0.7, 0.1, 0.1, 0.1, 0.0, 0.0, 1.0]
GROUP = [4, 9, 9, 4, 4, 9, 2, 2, 2, 7, 7, 7]  # interleaved; group 2 has no spread


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def equal(given, expected) -> None:
    torch.testing.assert_close(given, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_every_advantage_says_all_of_itself():
    entries = {field.name for field in dataclasses.fields(AdvantageInputs)}
    for name, advantage in ADVANTAGES.items():
        assert advantage.name == name
        assert advantage.formula
        assert advantage.source
        assert set(advantage.needs) <= entries


BY_GROUP = {
    "group_mean": (adv.group_mean, ref.centred),
    "group_z": (adv.group_z, ref.z_score),
    "rloo": (adv.rloo, ref.leave_one_out),
    "maxrl": (adv.maxrl, lambda v: [x / (sum(v) / len(v)) for x in ref.centred(v)]),
}


@pytest.mark.parametrize("name", BY_GROUP)
def test_group_estimators(name: str):
    ours, theirs = BY_GROUP[name]
    equal(ours(REWARDS, GROUP), ref.per_group(REWARDS, GROUP, theirs))


@pytest.mark.parametrize("name", BY_GROUP)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 1e6, 1e-9]), st.integers(0, 4)), min_size=1, max_size=25
    )
)
def test_group_estimators_on_any_groups(name: str, rows: list[tuple[float, int]]):
    rewards, group = (list(x) for x in zip(*rows, strict=True))
    ours, theirs = BY_GROUP[name]
    given = quiet(ours, rewards, group)
    expected = torch.tensor(ref.per_group(rewards, group, theirs), dtype=torch.float64)
    torch.testing.assert_close(given, expected, rtol=1e-6, atol=1e-6)


PART = st.sampled_from([0.0, 1.0, 0.5, -3.0, 100.0, 0.1])


@given(
    rows=st.lists(st.tuples(PART, PART, PART, st.integers(0, 3)), min_size=1, max_size=20),
    weights=st.tuples(*[st.sampled_from([0.0, 1.0, 0.25, -2.0])] * 3),
)
def test_gdpo_is_its_definition(rows: list[tuple[float, float, float, int]], weights: tuple[float, ...]):
    parts, group = [row[:3] for row in rows], [row[3] for row in rows]
    per_part = [ref.per_group(list(part), group, ref.z_score) for part in zip(*parts, strict=True)]
    total = [sum(w * s for w, s in zip(weights, scores, strict=True)) for scores in zip(*per_part, strict=True)]
    mean = sum(total) / len(total)
    std = math.sqrt(sum((x - mean) ** 2 for x in total) / (len(total) - 1)) if len(total) > 1 else 0.0
    expected = torch.tensor([(x - mean) / (std + 1e-6) for x in total], dtype=torch.float64)
    torch.testing.assert_close(quiet(adv.gdpo, parts, weights, group), expected, rtol=1e-6, atol=1e-6)


def test_gdpo_tells_equal_sums_apart_and_leaves_groups_without_spread_at_0():
    """The paper's example: with two rewards of 0 or 1, GRPO gives (0, 1), (0, 2) and (1, 2) the same advantages."""
    parts = [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.1, 0.1], [0.1, 0.1], [0.1, 0.1]]
    group = [0, 0, 1, 1, 2, 2, 2]
    by_sum = adv.group_z([sum(each) for each in parts], group)
    given = adv.gdpo(parts, (1.0, 1.0), group)
    assert by_sum[1].item() == pytest.approx(by_sum[3].item(), abs=1e-5)
    assert given[3].item() == pytest.approx(2 * given[1].item())
    assert given[4:].tolist() == [0.0] * 3
    with pytest.raises(ValueError, match=r"reward_parts must be \[B, 3\], a column for each weight, not \[7, 2\]"):
        adv.gdpo(parts, (1.0, 1.0, 1.0), group)


@given(st.permutations(range(12)))
def test_order_of_rows_does_not_matter(order: list[int]):
    for estimator in (adv.group_mean, adv.group_z, adv.rloo, adv.batch_std, adv.scalerl, adv.maxrl):
        shuffled = estimator([REWARDS[i] for i in order], [GROUP[i] for i in order])
        torch.testing.assert_close(shuffled, estimator(REWARDS, GROUP)[list(order)])


@pytest.mark.parametrize("value", [0.1, 0.7, 1e-8, -3.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_give_exactly_zero(value: float, dtype: torch.dtype):
    """0.1 is not a binary fraction: mean and std of equal rewards are off by rounding, and 0/0 becomes -0.94 or so."""
    for n in (2, 3, 7, 10, 13):
        rewards, group = torch.full((n,), value, dtype=dtype), [0] * n
        estimators = [adv.group_mean, adv.group_z, adv.rloo, adv.batch_std, adv.scalerl]
        for estimator in estimators + ([adv.maxrl] if value > 0 else []):
            assert (estimator(rewards, group) == 0).all(), estimator


ONES = ("group_mean", "group_z", "rloo", "batch_std", "scalerl", "maxrl", "passk_max")


@pytest.mark.parametrize("name", ONES)
def test_a_group_of_one_gets_zero_and_a_warning(name: str):
    with pytest.warns(UserWarning, match="1 of 2 groups have one sequence"):
        given = compute_advantages([1.0, 0.0, 1.0], [3, 5, 5], PRESETS["grpo"].replace(advantage=name))
    assert given[0] == 0
    assert given[1:].abs().sum() > 0


def test_published_numbers():
    """One success in eight: 2.475 with the sample std, 2.646 with the population's. RLOO is N/(N-1) (R - mean)."""
    rewards, group = [1.0] + [0.0] * 7, [0] * 8
    assert adv.group_z(rewards, group)[0].item() == pytest.approx(2.4749, abs=1e-4)
    assert adv.group_z(rewards, group, sample=False)[0].item() == pytest.approx(2.6457, abs=1e-4)
    torch.testing.assert_close(adv.rloo(rewards, group), 8 / 7 * adv.group_mean(rewards, group))


def test_batch_and_scalerl_std():
    centred = ref.per_group(REWARDS, GROUP, ref.centred)
    equal(adv.batch_std(REWARDS, GROUP), [x / (ref.std(REWARDS) + 1e-6) for x in centred])
    live = [x for x, g in zip(centred, GROUP, strict=True) if g != 2]
    equal(adv.scalerl(REWARDS, GROUP), [x / (ref.std(live) + 1e-6) for x in centred])


def test_maxrl_weighs_hard_prompts_and_refuses_negative_rewards():
    rewards, group = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0], [0] * 4 + [1] * 4
    given = adv.maxrl(rewards, group)
    assert given[0] == 3.0
    assert given[4].item() == pytest.approx(1 / 3)
    assert (adv.maxrl([0.0, 0.0], [0, 0]) == 0).all()
    with pytest.raises(ValueError, match="must be >= 0"):
        adv.maxrl([1.0, -1.0], [0, 0])


def test_opo_weighs_by_length():
    given = adv.opo([1.0, 0.0, 0.0], [0, 0, 0], [10, 20, 70])
    equal(given, [0.9, -0.1, -0.1])


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_passk_is_the_definition(n: int):
    """A row's advantage is (mean over the k-sets that hold it - P) / s, a set's reward being its maximum."""
    for good in range(n + 1):
        rewards = [1.0] * good + [0.0] * (n - good)
        for k in range(1, n + 1):
            sets = list(combinations(range(n), k))
            best = [max(rewards[i] for i in s) for s in sets]
            mean = sum(best) / len(best)
            spread = math.sqrt(mean * (1 - mean))
            expected = [
                (sum(b for b, s in zip(best, sets, strict=True) if i in s) / math.comb(n - 1, k - 1) - mean) / spread
                if spread > 1e-12
                else 0.0
                for i in range(n)
            ]
            equal(adv.passk(rewards, [0] * n, k), expected)


def test_passk_refuses_what_it_cannot_count():
    with pytest.raises(ValueError, match="0 or 1"):
        adv.passk([0.5, 1.0], [0, 0], 1)
    with pytest.raises(ValueError, match="k=3 with 2 sequences"):
        adv.passk([0.0, 1.0], [0, 0], 3)


def test_passk_max_rewards_only_the_best():
    given = adv.passk_max([0.2, 0.9, 0.5, 1.0, 1.0, 0.0], [0, 0, 0, 1, 1, 1])
    equal(given, [0.0, 0.4, 0.0, 0.0, 0.0, 0.0])


def test_gfpo_keeps_the_short_or_the_efficient():
    rewards, group, lengths = [1.0, 0.0, 1.0, 0.0], [0] * 4, [9, 2, 3, 4]
    assert adv.gfpo_keep(rewards, group, lengths, 2).tolist() == [False, True, True, False]
    assert adv.gfpo_keep(rewards, group, lengths, 2, metric="efficiency").tolist() == [True, False, True, False]
    given = adv.gfpo(rewards, group, lengths, 3)
    equal(given, [0.0, *ref.z_score([0.0, 1.0, 0.0])])
    with pytest.raises(ValueError, match="allowed: length, efficiency"):
        adv.gfpo_keep(rewards, group, lengths, 2, metric="size")


def test_seed_grpo_trusts_groups_that_agree():
    rewards, group = [1.0, 0.0, 1.0, 0.0] * 2, [0] * 4 + [1] * 4
    clusters = [0, 1, 0, 1, 0, 1, 2, 3]  # entropies log 2 / log 4 and 1
    equal(adv.semantic_entropy(clusters, group), [0.5] * 4 + [1.0] * 4)
    z = ref.z_score([1.0, 0.0, 1.0, 0.0])
    equal(adv.seed_grpo(rewards, group, clusters), [x / 2 for x in z] + [0.0] * 4)
    equal(
        adv.seed_grpo(rewards, group, clusters, alpha=0.5, shape="focal"), [x * 0.5625 for x in z] + [x / 4 for x in z]
    )
    equal(adv.seed_grpo(rewards, group, clusters, shape="exp")[:4], [x * math.exp(-0.5) for x in z])
    with pytest.raises(ValueError, match="allowed: linear"):
        adv.seed_grpo(rewards, group, clusters, shape="cubic")


def test_role_baselines_are_read_before_they_move():
    baselines = RoleBaselines(decay=0.75)
    first = baselines.advantages([1.0, -1.0, 1.0], [("nim", 0), ("nim", 1), ("nim", 0)])
    equal(first, [1.0, -1.0, 0.75])
    assert baselines.values == {("nim", 0): 0.4375, ("nim", 1): -0.25}
    again = RoleBaselines()
    again.load_state_dict(json.loads(json.dumps(baselines.state_dict())))
    equal(again.advantages([0.0], [("nim", 1)]), [0.25])
    with pytest.raises(ValueError, match="1 roles for 2 rewards"):
        baselines.advantages([1.0, 2.0], ["a"])


def brpo_by_loops(scores, group, probs):
    """The formulas of AnytimeReasoner, slice by slice."""
    total = len(probs)
    out = []
    for i, row in enumerate(scores):
        peers = [scores[j] for j in range(len(scores)) if group[j] == group[i]]
        line = []
        for s in range(total):
            tail = sum(p * x for p, x in zip(probs[s:], row[s:], strict=True))
            mean = sum(sum(p * x for p, x in zip(probs[s:], o[s:], strict=True)) for o in peers) / len(peers)
            weights = [2.0**j for j in range(s)]
            before = sum(w * x for w, x in zip(weights, row[:s], strict=True)) / sum(weights) if s else 0.0
            line.append(tail - (s * before * sum(probs[s:]) + (total - s) * mean) / total)
        out.append(line)
    return out


@pytest.mark.parametrize("prior", ["uniform", "linear", "base"])
def test_brpo(prior: str):
    gen = torch.Generator().manual_seed(3)
    scores = torch.rand(6, 4, generator=gen, dtype=torch.float64)
    group = [0, 1, 0, 1, 1, 0]
    probs = budget_probs([2000, 4000, 6000, 8000], prior)
    assert sum(probs) == pytest.approx(1.0)
    equal(brpo(scores, group, probs), brpo_by_loops(scores.tolist(), group, probs))
    with pytest.raises(ValueError, match="positive and increasing"):
        budget_probs([4000, 2000])


def test_kl_in_the_reward_of_a_row():
    """rloo: R - beta sum k1, then leave-one-out."""
    mask = torch.tensor([[True, True, False], [True, False, True]])
    old, reference = (
        torch.tensor([[-1.0, -2.0, 9.0], [-1.0, 9.0, -1.0]]),
        torch.tensor([[-2.0, -2.5, 0.0], [-1.5, 0.0, -1.0]]),
    )
    batch = {"mask": mask, "old_logprobs": old, "ref_logprobs": reference}
    given = compute_advantages([1.0, 0.0], [0, 0], PRESETS["rloo"], batch)
    first, second = 1.0 - 0.03 * 1.5, 0.0 - 0.03 * 0.5
    equal(given, [first - second, second - first])
    with pytest.raises(KeyError, match=r"needs 'ref_logprobs'.*kl_coef=0\.0"):
        compute_advantages([1.0, 0.0], [0, 0], PRESETS["rloo"], batch | {"ref_logprobs": None})
    equal(compute_advantages([1.0, 0.0], [0, 0], PRESETS["rloo"].replace(kl_coef=0.0)), [1.0, -1.0])


def test_reinforce_pp_baseline_whitens_over_tokens():
    mask = torch.arange(5) < torch.tensor([[5], [2], [3], [1]])
    rewards, group = [1.0, 0.0, 0.4, 0.1], [0, 0, 1, 1]
    rows = [[a] * 5 for a in ref.per_group(rewards, group, ref.centred)]
    given = compute_advantages(rewards, group, PRESETS["reinforce_pp_baseline"], {"mask": mask})
    equal(given, ref.whiten_tokens(rows, mask.tolist()))


FED_FROM_THE_BATCH = {
    "reinforce_pp": "mask", "reinforce_pp_baseline": "mask", "ppo": "values", "gem_rebn": "turn_rewards",
    "gem_ppo": "turn_rewards", "spiral": "role_baselines", "marshal": "turn_rewards", "vineppo": "step_values",
    "turn_rloo": "turn_rewards", "gigpo": "turn_rewards", "gigpo_state": "turn_rewards", "brpo": "budget_scores",
    "seed_grpo": "clusters", "gfpo": "mask", "grpo_process": "step_rewards", "opo": "mask",
    "on_policy_distillation": "teacher_logprobs", "sdpo": "teacher_logprobs", "gdpo": "reward_parts",
}  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_missing_is_named(name: str):
    """With rewards and groups alone a preset gives [B], or names the entry it needs."""
    preset = PRESETS[name].replace(pass_k=2, group_keep=2)
    preset = preset.replace(kl_coef=0.0) if preset.kl_in == "reward" else preset
    rewards, group = [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1]
    if name in FED_FROM_THE_BATCH:
        with pytest.raises(KeyError, match=f"of preset '{name}' needs '{FED_FROM_THE_BATCH[name]}'"):
            compute_advantages(rewards, group, preset)
    else:
        assert compute_advantages(rewards, group, preset).shape == (4,)


@pytest.mark.parametrize(
    "name", [name for name in PRESETS if {"zero_gradient", "dynamic_sampling"} & {*PRESETS[name].filters}]
)
def test_groups_without_spread_are_dropped_only_where_they_have_no_gradient(name: str):
    preset = PRESETS[name].replace(kl_coef=0.0) if PRESETS[name].kl_in == "reward" else PRESETS[name]
    equal(compute_advantages([1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1], preset), [0.0] * 4)


BAD = {
    "NaN": ([1.0, float("nan")], [0, 0], r"rewards\[1\] is not finite"),
    "shape": ([[1.0, 0.0]], [0, 0], "one per sequence"),
    "groups": ([1.0, 0.0], [0], "one id per sequence"),
    "float ids": ([1.0, 0.0], torch.tensor([0.0, 0.0]), "integer ids"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rewards_are_refused(case: str):
    rewards, group, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        compute_advantages(rewards, group, PRESETS["grpo"])
