"""`policy_loss` equals the reference for every preset on every kind of batch; what must not change it does not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.algorithms import merge_stats, policy_loss
from rlvr.algorithms.core.sequences import Denominators, SequenceIndex, count_denominators
from rlvr.algorithms.losses.aggregation import aggregate
from rlvr.algorithms.recipe.loss_parts import AGGREGATIONS, geo_mask, icepop, seq_tis, tis
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import KINDS, as_lists, make, pack, take
from .reference import LIVE_ROWS_ONLY, ROWS, loss_and_gradient, row_of

ONE_PER_ROW = {name for name, preset in PRESETS.items() if preset.per_sequence and preset.clip_rule.one_advantage}
LOGPROBS = ("old_logprobs", "behaviour_logprobs", "ref_logprobs")
close = {"rtol": 1e-9, "atol": 1e-9}


def combinations(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Kinds of batches and presets; one ratio per row takes one advantage per sequence."""
    return [(k, name) for k in kinds for name in PRESETS if k != "token_advantages" or name not in ONE_PER_ROW]


def run(batch: dict, name: str, **kwargs) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """(loss, gradient, stats)"""
    preset = PRESETS[name] if isinstance(name, str) else name
    loss, stats = policy_loss(batch["new"], batch, preset, **kwargs)
    (gradient,) = torch.autograd.grad(loss, batch["new"])
    return loss.detach(), gradient, stats


def test_the_reference_knows_the_published_presets():
    assert set(ROWS) <= set(PRESETS)
    assert len(ROWS) >= 47
    published = {name: PRESETS[name] for name in ROWS}
    assert {name for name, preset in published.items() if not preset.count_empty_sequences} == LIVE_ROWS_ONLY


@pytest.mark.parametrize("name", ROWS)
def test_what_the_reference_derives_for_a_new_preset_is_right_for_the_published_ones(name: str):
    assert row_of(PRESETS[name]) == ROWS[name]


def test_the_reference_derives_a_preset_of_known_parts():
    mine = PRESETS["grpo"].replace(name="mine", clip="cispo", ratio_max=2.0, kl_coef=0.1, aggregation="prompt_mean")
    for kind in ("plain", "tools", "empty_rows"):
        batch = make(kind)
        expected, logprob_grads = loss_and_gradient(mine, as_lists(batch))
        loss, gradient, _ = run(batch, mine)
        torch.testing.assert_close(loss.item(), expected, **close)
        torch.testing.assert_close(gradient, torch.tensor(logprob_grads, dtype=torch.float64), **close)


@pytest.mark.parametrize(("kind", "name"), combinations(KINDS))
def test_equals_the_reference(kind: str, name: str):
    for seed in range(4):
        batch = make(kind, seed)
        expected, logprob_grads = loss_and_gradient(PRESETS[name], as_lists(batch))
        loss, gradient, _ = run(batch, name)
        torch.testing.assert_close(loss.item(), expected, **close)
        torch.testing.assert_close(gradient, torch.tensor(logprob_grads, dtype=torch.float64), **close)


numbers = st.floats(-4, 4).map(lambda x: round(x, 3))


@st.composite
def any_batch(draw) -> dict:
    rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 5))

    def column(of: st.SearchStrategy) -> st.SearchStrategy:
        return st.lists(st.lists(of, min_size=width, max_size=width), min_size=rows, max_size=rows)

    batch = {
        key: torch.tensor(draw(column(numbers)), dtype=torch.float64)
        for key in ("new", "old_logprobs", "behaviour_logprobs", "ref_logprobs")
    }
    mask = torch.tensor(draw(column(st.booleans())))
    mask[draw(st.integers(0, rows - 1)), draw(st.integers(0, width - 1))] = True
    batch["new"].requires_grad_()
    group = draw(st.lists(st.integers(-2, 2), min_size=rows, max_size=rows))
    advantages = draw(st.lists(st.sampled_from([-1.5, -0.3, 0.0, 0.7, 2.0]), min_size=rows, max_size=rows))
    more = {
        "mask": mask,
        "covariant": torch.tensor(draw(column(st.booleans()))),
        "group": torch.tensor(group),
        "max_length": draw(st.integers(1, 9)),
    }
    return batch | more | {"advantages": torch.tensor(advantages, dtype=torch.float64)}


@settings(max_examples=100)
@given(name=st.sampled_from(list(PRESETS)), batch=any_batch())
def test_equals_the_reference_on_any_batch(name: str, batch: dict):
    expected, logprob_grads = loss_and_gradient(PRESETS[name], as_lists(batch))
    loss, gradient, stats = run(batch, name)
    torch.testing.assert_close(loss.item(), expected, **close)
    torch.testing.assert_close(gradient, torch.tensor(logprob_grads, dtype=torch.float64), **close)
    assert all(math.isfinite(value) for value in stats.values())


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", ["plain", "tools", "empty_rows", "far_sampler"])
def test_float32_is_close(kind: str, name: str):
    batch = make(kind, dtype=torch.float32)
    expected, logprob_grads = loss_and_gradient(PRESETS[name], as_lists(batch))
    loss, gradient, _ = run(batch, name)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.item(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(gradient, torch.tensor(logprob_grads, dtype=torch.float32), rtol=1e-4, atol=1e-4)


def test_half_precision_is_computed_in_float32():
    batch = make("ragged", dtype=torch.bfloat16)
    wide = {
        k: v.detach().float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in batch.items()
    }
    loss, gradient, _ = run(batch, "grpo")
    expected, _, _ = run(wide | {"new": wide["new"].requires_grad_()}, "grpo")
    assert loss.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", ["tools", "empty_rows"])
def test_micro_batches_add_up(kind: str, name: str):
    """Prompts are cut across micro-batches on purpose."""
    batch = make(kind)
    whole, gradient, stats = run(batch, name)
    denominators = count_denominators(batch)
    order = [5, 0, 9, 2, 7, 1, 11, 3, 4, 10, 6, 8]
    total, parts = 0.0, []
    rebuilt = torch.zeros_like(gradient)
    for rows in (order[:5], order[5:6], order[6:]):
        loss, part, more = run(take(batch, rows), name, denominators=denominators)
        total, rebuilt[rows] = total + loss, part
        parts.append(more)
    torch.testing.assert_close(total, whole, **close)
    torch.testing.assert_close(rebuilt, gradient, **close)
    merged = merge_stats(parts)
    assert merged["n_tokens"] == batch["mask"].sum()
    for key in ("loss", "ratio_mean", "ratio_min", "ratio_max", "behaviour_kl_k3", "behaviour_ess"):
        assert merged[key] == pytest.approx(float(stats[key]), rel=1e-9, abs=1e-9), key


@pytest.mark.parametrize(("kind", "name"), combinations(["tools", "empty_rows", "token_advantages"]))
def test_packed_rows_are_rows(kind: str, name: str):
    batch = make(kind)
    whole, gradient, _ = run(batch, name)
    packed, order = pack(batch)
    loss, logprob_grads, _ = run(packed, name)
    torch.testing.assert_close(loss, whole, **close)
    torch.testing.assert_close(logprob_grads, gradient.reshape(-1)[order], **close)


def test_packed_rows_may_name_groups_and_advantages_per_token():
    batch = make("tools")
    packed, _ = pack(batch)
    rows = packed["sequence_id"]
    with pytest.raises(ValueError, match=r"sequence_id runs from 0 to 12 .* there are 12 sequences"):
        policy_loss(packed["new"], packed | {"sequence_id": torch.where(rows == 11, 12, rows)}, PRESETS["grpo"])
    with pytest.raises(ValueError, match="sequence_id has shape"):
        policy_loss(packed["new"], packed | {"sequence_id": rows[:, 1:]}, PRESETS["grpo"])
    per_token = packed | {"group": batch["group"][rows], "advantages": batch["advantages"][rows]}
    for name in ("dapo_prompt_mean", "gspo", "kimi"):
        torch.testing.assert_close(run(per_token, name)[0], run(packed, name)[0])


@pytest.mark.parametrize("name", PRESETS)
def test_order_of_rows_and_width_do_not_matter(name: str):
    batch = make("ragged")
    whole, gradient, _ = run(batch, name)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    loss, logprob_grads, _ = run(take(batch, order), name)
    torch.testing.assert_close(loss, whole, **close)
    torch.testing.assert_close(logprob_grads, gradient[order], **close)
    wider = {
        k: torch.cat([v.detach(), torch.zeros(12, 5, dtype=v.dtype)], 1) if getattr(v, "dim", int)() == 2 else v
        for k, v in batch.items()
    }
    wider["new"].requires_grad_()
    torch.testing.assert_close(run(wider, name)[0], whole, **close)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masked_positions_change_nothing(name: str, dtype: torch.dtype):
    batch = make("tools", dtype=dtype)
    clean = {
        k: torch.where(batch["mask"], v.detach(), -1.0) if getattr(v, "dim", int)() == 2 and k != "mask" else v
        for k, v in batch.items()
    }
    clean["new"].requires_grad_()
    loss, gradient, stats = run(batch, name)
    expected, logprob_grads, _ = run(clean, name)
    assert torch.equal(loss, expected)
    assert torch.equal(gradient, logprob_grads)
    assert (gradient[~batch["mask"]] == 0).all()
    assert all(math.isfinite(value) for value in stats.values())


@pytest.mark.parametrize("name", PRESETS)
def test_on_policy_only_the_denominator_is_left(name: str):
    """new = old = sampler and no KL: d loss / d new_t = -A_t / D for every clip rule, ratio and correction."""
    batch = make("tools")
    batch["old_logprobs"] = batch["behaviour_logprobs"] = batch["new"].detach()
    batch["covariant"][:] = False  # clip_cov takes the gradient of what it chooses
    preset = PRESETS[name].replace(kl_coef=0.0)
    loss, _ = policy_loss(batch["new"], batch, preset)
    (gradient,) = torch.autograd.grad(loss, batch["new"])
    mask, lengths = batch["mask"], batch["mask"].sum(1, keepdim=True)
    tokens = torch.tensor([mask[batch["group"] == g].sum() for g in batch["group"].tolist()])[:, None]
    divisor = {
        "token_mean": mask.sum(),
        "seq_mean_token_mean": 12 * lengths,
        "seq_mean_token_sum": 12,
        "seq_mean_token_sum_norm": 12 * 9,
        "prompt_mean": 4 * tokens,
        "sequence_mean": 12 * lengths if preset.ratio_level == "sequence" else 12,
        "sum": 1,
    }[preset.aggregation]
    expected = torch.where(mask, -batch["advantages"][:, None] / divisor, 0)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-15)


WORKED = {
    "token_mean": 0.416667, "seq_mean_token_mean": 1.25, "seq_mean_token_sum": 1.25, "seq_mean_token_sum_norm": 0.15625,
    "prompt_mean": 0.875, "sum": 5.0,
}  # fmt: skip


@pytest.mark.parametrize("how", WORKED)
def test_worked_example_of_the_aggregations(how: str):
    """Two prompts, rows of 2, 6 | 3, 1 tokens whose losses are 1, -1 | 2, 3; budget 8. The sum is 2 - 6 + 6 + 3."""
    mask = torch.arange(6) < torch.tensor([[2], [6], [3], [1]])
    group = torch.tensor([0, 0, 1, 1])
    loss = torch.tensor([[1.0], [-1.0], [2.0], [3.0]]).expand(4, 6)
    denominators = count_denominators({"mask": mask, "group": group, "max_length": 8})
    assert aggregate(loss, SequenceIndex(mask), AGGREGATIONS[how], denominators, group).item() == pytest.approx(
        WORKED[how], rel=1e-5
    )


def test_empty_rows_count_or_leave():
    batch = make("empty_rows")
    live = batch["mask"].any(1)
    kept = take(batch, live.nonzero()[:, 0])
    for name in ("grpo", "dr_grpo", "reinforce", "gspo", "dapo_prompt_mean"):
        preset = PRESETS[name]
        counted = policy_loss(batch["new"], batch, preset)[0]
        left_out = policy_loss(batch["new"], batch, preset.replace(count_empty_sequences=False))[0]
        without = policy_loss(kept["new"], kept, preset)[0]
        torch.testing.assert_close(left_out, without)
        share = 3 / 4 if name == "dapo_prompt_mean" else 8 / 12
        torch.testing.assert_close(counted, without * share)


def test_denominators_merge_and_do_not_shrink_with_rejected_tokens():
    batch = make("far_sampler")
    parts = [count_denominators(take(batch, rows)) for rows in ([0, 4, 8], [1, 2, 3], [5, 6, 7, 9, 10, 11])]
    assert Denominators.merge(parts) == count_denominators(batch)
    loss, _, stats = run(batch, "icepop")
    assert 0 < stats["correction_zero_frac"] < 1
    half = dataclasses.replace(count_denominators(batch), n_tokens=2 * int(batch["mask"].sum()))
    torch.testing.assert_close(run(batch, "icepop", denominators=half)[0], loss / 2)


def test_extreme_ratios_are_exact_or_loud_in_float32():
    """A held token takes a constant, so exp may overflow beside it; a token without a bound raises."""
    new = torch.full((2, 3), -1.0, requires_grad=True)
    old = torch.full((2, 3), -200.0)
    batch = {
        "mask": torch.ones(2, 3, dtype=torch.bool),
        "old_logprobs": old,
        "behaviour_logprobs": old,
        "ref_logprobs": new.detach(),
    }
    up = batch | {"advantages": torch.tensor([1.0, 0.0]), "group": torch.tensor([0, 0]), "max_length": 3}
    for name in ("ppo", "grpo", "gspo", "intellect2", "cispo", "scalerl", "prime", "sapo", "gmpo", "topr", "dppo"):
        preset = PRESETS[name].replace(behaviour_penalty=0.0)
        loss, stats = policy_loss(new, up, preset)
        (gradient,) = torch.autograd.grad(loss, new)
        assert loss.isfinite(), name
        assert gradient.isfinite().all(), name
        assert all(math.isfinite(value) for value in stats.values()), name
    down = up | {"advantages": torch.tensor([-1.0, 0.0])}
    assert policy_loss(new, down, PRESETS["intellect2"])[0].item() == pytest.approx(
        2.0
    )  # dual clip: 4 on half the tokens
    with pytest.raises(FloatingPointError, match=r"overflows torch.float32: \|new - old\| <= 199"):
        policy_loss(new, down, PRESETS["ppo"])


@pytest.mark.parametrize("name", PRESETS)
def test_zero_advantage_gives_zero_policy_gradient(name: str):
    batch = make("tools")
    batch["advantages"] = torch.zeros(12, dtype=torch.float64)
    whole = run(batch, name)[1]
    assert bool((whole != 0).any()) is PRESETS[name].acts_without_advantage
    loss, _ = policy_loss(batch["new"], batch, PRESETS[name].replace(kl_coef=0.0, behaviour_penalty=0.0, tau=0.0))
    (gradient,) = torch.autograd.grad(loss, batch["new"])
    assert loss == 0
    assert (gradient == 0).all()


def test_entropy_bonus_and_kl_beside_a_row_loss():
    """Their denominators are those of the row loss: B |y| beside a geometric mean, B beside a product."""
    batch = make("tools")
    batch["entropy"] = torch.where(batch["mask"], torch.rand(12, 7, dtype=torch.float64), float("nan")).requires_grad_()
    for name, lengths in (("gspo", batch["mask"].sum(1, keepdim=True)), ("kimi", torch.ones(12, 1))):
        loss, stats = policy_loss(batch["new"], batch, PRESETS[name].replace(entropy_coef=0.1))
        (slope,) = torch.autograd.grad(loss, batch["entropy"])
        torch.testing.assert_close(slope, torch.where(batch["mask"], -0.1 / 12 / lengths.double(), 0))
        assert stats["loss"] == stats["policy_loss"] + stats["regulariser_loss"]
    plain = policy_loss(batch["new"], batch, PRESETS["gspo"])[0]
    with_kl = policy_loss(batch["new"], batch, PRESETS["gspo"].replace(kl="k2", kl_coef=0.5))[0]
    d = torch.where(batch["mask"], batch["new"] - batch["ref_logprobs"], 0)
    expected = (0.25 * d.square().sum(1) / batch["mask"].sum(1)).mean()
    torch.testing.assert_close(with_kl - plain, expected)


@pytest.mark.parametrize("name", PRESETS)
def test_only_the_policy_gets_a_gradient(name: str):
    """Columns and advantages that still hang on a graph are constants of the loss."""
    batch = make("plain")
    others = [
        batch[key].requires_grad_() for key in ("old_logprobs", "behaviour_logprobs", "ref_logprobs", "advantages")
    ]
    loss, stats = policy_loss(batch["new"], batch, PRESETS[name])
    assert torch.autograd.grad(loss, others, allow_unused=True) == (None,) * 4
    assert not any(value.requires_grad for value in stats.values())


def test_stats_say_what_happened():
    new = torch.tensor([[0.5, -0.5, 0.0, 9.9]]).log_softmax(1).detach()
    old = new - torch.tensor([[0.3, -0.3, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False]])
    batch = {
        "mask": mask,
        "advantages": torch.tensor([[1.0, -1.0, 1.0, 0.0]]),
        "old_logprobs": old,
        "behaviour_logprobs": old - 0.1,
    }
    _, stats = policy_loss(new, batch, PRESETS["ppo"])
    assert float(stats["clip_frac_high"]) == pytest.approx(1 / 3)
    assert float(stats["clip_frac_low"]) == pytest.approx(1 / 3)
    assert float(stats["ratio_max"]) == pytest.approx(math.exp(0.3))
    assert float(stats["ratio_min"]) == pytest.approx(math.exp(-0.3))
    assert float(stats["behaviour_kl_k1"]) == pytest.approx(-0.1, rel=1e-4)
    assert float(stats["behaviour_kl_k3"]) == pytest.approx(math.exp(0.1) - 1 - 0.1, rel=1e-3)
    assert float(stats["behaviour_ess"]) == pytest.approx(1.0)
    assert stats["n_tokens"] == 3


REFUSED = {
    "no old": ("grpo", {"old_logprobs": None}, "'grpo' needs 'old_logprobs'"),
    "no reference": ("grpo", {"ref_logprobs": None}, r"needs 'ref_logprobs' .* \.replace\(kl_coef=0\.0\)"),
    "no sampler": ("scalerl", {"behaviour_logprobs": None}, "needs 'behaviour_logprobs'"),
    "no sampler for a correction": ("tis", {"behaviour_logprobs": None}, "needs 'behaviour_logprobs'"),
    "no advantages": ("grpo", {"advantages": None}, "needs 'advantages'"),
    "no mask": ("grpo", {"mask": None}, "needs 'mask'"),
    "no constant": ("dr_grpo", {"max_length": None}, "Dr. GRPO.*needs 'max_length'"),
    "bad constant": ("dr_grpo", {"max_length": 0}, "must be a positive number"),
    "no groups": ("dapo_prompt_mean", {"group": None}, "needs 'group'"),
    "all masked": ("grpo", {"mask": torch.zeros(12, 7, dtype=torch.bool)}, "all sequences are masked"),
    "a weight as mask": ("grpo", {"mask": torch.full((12, 7), 0.5)}, "other than 0 and 1"),
    "width": ("grpo", {"old_logprobs": torch.zeros(12, 6)}, r"old_logprobs has shape \(12, 6\)"),
    "advantages of another shape": ("grpo", {"advantages": torch.zeros(7)}, r"shape \(7,\)"),
    "advantages per token for rows": ("gspo", {"advantages": torch.randn(12, 7)}, "one advantage per sequence"),
    "NaN advantages": ("grpo", {"advantages": torch.full((12,), float("nan"))}, "advantages is nan"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_traps_are_refused(case: str):
    name, change, message = REFUSED[case]
    batch = {k: v for k, v in (make("plain") | change).items() if v is not None}
    with pytest.raises(ValueError, match=message):
        policy_loss(batch["new"], batch, PRESETS[name])


@pytest.mark.parametrize("key", ["new", "old_logprobs", "behaviour_logprobs", "ref_logprobs"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_log_probs_that_are_not_finite_are_refused(key: str, value: float):
    batch = make("plain")
    batch[key] = batch[key].detach().clone()
    batch[key][3, 2] = value
    with pytest.raises(ValueError, match=rf"{key} is .* at trained position \[3, 2\]"):
        policy_loss(batch["new"], batch, PRESETS["grpo"])


def test_no_reference_is_fine_without_kl():
    batch = make("plain")
    del batch["ref_logprobs"]
    loss, _ = policy_loss(batch["new"], batch, PRESETS["grpo"].replace(kl_coef=0.0))
    assert loss.isfinite()


def test_a_micro_batch_may_be_empty_when_the_batch_is_not():
    batch = make("empty_rows")
    denominators = count_denominators(batch)
    for name in PRESETS:
        loss, gradient, stats = run(take(batch, [6, 7, 8]), name, denominators=denominators)
        assert loss == 0
        assert (gradient == 0).all()
        assert all(math.isfinite(value) for value in stats.values())


def test_choices_can_be_combined():
    """A row of one's own: leave-one-out advantage, CISPO's cap, Dr. GRPO's constant, sequence TIS, unbiased KL."""
    batch = make("tools")
    preset = PRESETS["cispo"].replace(
        name="mine",
        aggregation="seq_mean_token_sum_norm",
        corrections=(seq_tis(2.0), geo_mask(0.9, 1.1)),
        kl="k3_unbiased",
        kl_coef=0.1,
    )
    assert policy_loss(batch["new"], batch, preset)[0].isfinite()
    gspo = PRESETS["gspo"].replace(corrections=(seq_tis(1.5),))
    rho = torch.where(batch["mask"], batch["old_logprobs"] - batch["behaviour_logprobs"], 0).sum(1).exp().clamp(max=1.5)
    weighted = batch | {"advantages": batch["advantages"] * rho}
    torch.testing.assert_close(
        policy_loss(batch["new"], batch, gspo)[0], policy_loss(batch["new"], weighted, PRESETS["gspo"])[0]
    )
    for correction in (tis(), icepop()):
        with pytest.raises(ValueError, match="use seq_tis or seq_mis"):
            PRESETS["gspo"].replace(corrections=(correction,))


OBSERVED = ("grpo", "gspo", "dppo", "kimi", "ppo", "gigpo")


def observed(kind: str, seed: int) -> dict:
    """A batch in which some tokens that were not sampled are observations, with log-probabilities of their own."""
    batch = make(kind, seed)
    gen = torch.Generator().manual_seed(seed)
    observations = ~batch["mask"] & (torch.rand(batch["mask"].shape, generator=gen) > 0.3)
    numbers = -2 + torch.randn(batch["mask"].shape, generator=gen, dtype=torch.float64)
    batch["new"] = torch.where(observations, numbers, batch["new"].detach()).requires_grad_()
    return batch | {"observations": observations}


@pytest.mark.parametrize("name", OBSERVED)
@pytest.mark.parametrize("kind", ["tools", "ragged", "empty_rows"])
def test_observations_add_their_own_mean_of_cross_entropy(kind: str, name: str):
    """ECHO, 2605.24517: L + lambda (1 / N_o) sum -log pi(o), whatever the loss is; N_o counts the whole batch."""
    preset = PRESETS[name].replace(observation_coef=0.05)
    for seed in range(3):
        batch = observed(kind, seed)
        expected, logprob_grads = loss_and_gradient(PRESETS[name], as_lists(batch))
        new, where = batch["new"].tolist(), batch["observations"].nonzero().tolist()
        expected += 0.05 * sum(-new[i][t] for i, t in where) / len(where)
        for i, t in where:
            logprob_grads[i][t] = -0.05 / len(where)
        loss, gradient, stats = run(batch, preset)
        torch.testing.assert_close(loss.item(), expected, **close)
        torch.testing.assert_close(gradient, torch.tensor(logprob_grads, dtype=torch.float64), **close)
        whole = count_denominators(batch)
        parts = [run(take(batch, rows), preset, denominators=whole) for rows in ([0, 3, 5, 1], [*range(6, 12), 2, 4])]
        torch.testing.assert_close(sum(loss.item() for loss, *_ in parts), expected, **close)
        assert merge_stats([stats for *_, stats in parts])["observation_loss"] == pytest.approx(
            stats["observation_loss"].item()
        )
        packed, _ = pack(batch)
        torch.testing.assert_close(run(packed, preset)[0].item(), expected, **close)


def test_observations_are_asked_for_and_never_unlearned():
    with pytest.raises(KeyError, match=r"needs 'observations'.*observation_coef=0\.0"):
        run(make("tools"), PRESETS["grpo"].replace(observation_coef=0.05))
    with pytest.raises(ValueError, match="not unlearned"):
        PRESETS["grpo"].replace(observation_coef=-1.0)
    nothing = observed("plain", 0)  # all tokens were sampled
    preset = PRESETS["grpo"].replace(observation_coef=0.05)
    torch.testing.assert_close(run(nothing, preset)[0], run(nothing, "grpo")[0])
