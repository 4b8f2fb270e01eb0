"""What reads the entropy: the mask of uncertain tokens, Clip-Cov and KL-Cov, the coefficient that follows a target."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from rlvr.algorithms import merge_stats, policy_loss
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.learner.entropy import EntropyTarget, uncertain_tokens
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.runs.explain import recomputed_weights
from rlvr.algorithms.train.run import Trainer

from .cases import as_lists, make, pack, take
from .reference import loss_and_gradient
from .runs import Callback, differences, small, stop_and_resume

KINDS = ("plain", "tools", "empty_rows", "token_advantages", "extreme")
close = {"rtol": 1e-9, "atol": 1e-9}


def entropies(batch: dict, seed: int) -> torch.Tensor:
    """[B, T] any numbers, garbage where nothing is trained."""
    values = torch.rand(batch["mask"].shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.where(batch["mask"], values, float("nan"))


def trained(batch: dict) -> list[tuple[int, int]]:
    return [(i, t) for i, row in enumerate(batch["mask"].tolist()) for t, on in enumerate(row) if on]


@pytest.mark.parametrize("name", ["reinforce", "grpo", "dapo", "cispo", "scalerl", "dppo", "sapo", "tis", "clip_cov"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_keeps_the_policy_term_of_the_most_uncertain_tokens_alone(kind: str, name: str):
    """A token of advantage 0 has no policy term in these presets; KL and denominators are those of all tokens."""
    preset = PRESETS[name].replace(entropy_share=0.2)
    for seed in range(3):
        batch = make(kind, seed)
        given, places = entropies(batch, seed), trained(batch)
        kept = sorted(places, key=lambda at: -given[at].item())[: math.ceil(0.2 * len(places))]
        uncertain = uncertain_tokens(given, batch["mask"], 0.2)
        assert sorted(kept) == [tuple(at) for at in uncertain.nonzero().tolist()]
        lists = as_lists(batch)
        rows = [
            row if isinstance(row, list) else [row] * len(m)
            for row, m in zip(*map(lists.get, ("advantages", "mask")), strict=True)
        ]
        lists["advantages"] = [[x if (i, t) in kept else 0.0 for t, x in enumerate(row)] for i, row in enumerate(rows)]
        expected, logprob_grads = loss_and_gradient(PRESETS[name], lists)
        batch["uncertain"] = uncertain
        loss, stats = policy_loss(batch["new"], batch, preset)
        (gradient,) = torch.autograd.grad(loss, batch["new"])
        torch.testing.assert_close(loss.item(), expected, **close)
        torch.testing.assert_close(gradient, torch.tensor(logprob_grads, dtype=torch.float64), **close)
        if name not in ("grpo", "dppo", "tis"):  # whose loss is more than the policy term, or has another weight
            assert stats["correction_zero_frac"].item() == pytest.approx(1 - len(kept) / len(places))
        whole = count_denominators(batch)
        cut = [take(batch, rows) for rows in ([0, 3, 5, 1], [*range(6, 12), 2, 4])]
        parts = [policy_loss(one["new"], one, preset, whole) for one in cut]
        assert merge_stats([stats for _, stats in parts])["loss"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if kind != "token_advantages":
            packed, _ = pack(batch)
            torch.testing.assert_close(policy_loss(packed["new"], packed, preset)[0].item(), expected, **close)


def covariances(batch: dict) -> dict[tuple[int, int], float]:
    """(log pi - mean) (A - mean) of every trained token."""
    lists, places = as_lists(batch), trained(batch)
    given = {at: lists["advantages"][at[0]] for at in places}
    given = {at: x[at[1]] if isinstance(x, list) else x for at, x in given.items()}
    logs = {at: lists["old_logprobs"][at[0]][at[1]] for at in places}
    means = [sum(values.values()) / len(places) for values in (given, logs)]
    return {at: (given[at] - means[0]) * (logs[at] - means[1]) for at in places}


def choose(batch: dict, preset: Any, seed: int = 0) -> set[tuple[int, int]]:
    advantages = batch["advantages"]
    wide = advantages if advantages.dim() == 2 else advantages[:, None].expand(batch["mask"].shape)
    chosen = preset.clip_rule.choose(batch["old_logprobs"], wide, batch["mask"], preset, seed)
    return {tuple(at) for at in chosen.nonzero().tolist()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [1e-4, 0.1, 1.0])
def test_covariance_chooses_tokens_as_the_paper_does(kind: str, share: float):
    low, high = 0.05, 0.9
    kl, clip = (PRESETS[name].replace(cov_share=share) for name in ("kl_cov", "clip_cov"))
    clip = clip.replace(cov_bounds=(low, high))
    for seed in range(3):
        batch = make(kind, seed)
        given = covariances(batch)
        count = max(1, int(share * len(given)))
        assert choose(batch, kl) == set(sorted(given, key=lambda at: -given[at])[:count])
        between = {at for at, x in given.items() if low < x < high}
        drawn = choose(batch, clip, seed)
        assert drawn <= between
        assert len(drawn) == min(count, len(between))
        assert drawn == choose(batch, clip, seed), "the draw follows from the seed"
        if 1 < len(drawn) < len(between):
            assert any(drawn != choose(batch, clip, other) for other in range(10, 16))


def test_choices_that_leave_nothing_or_do_not_go_together_are_refused():
    for changes, text in (
        ({"entropy_share": 0.0}, "entropy_share is a share above 0"),
        ({"cov_share": 1.5}, "cov_share is a share of the trained tokens"),
        ({"cov_bounds": (5.0, 1.0)}, "cov_bounds are the lower and the upper one"),
    ):
        with pytest.raises(ValueError, match=text):
            PRESETS["clip_cov"].replace(**changes)
    with pytest.raises(ValueError, match="leaves tokens out, but this loss is per sequence"):
        PRESETS["gspo"].replace(entropy_share=0.2)
    batch, preset = make("plain"), PRESETS["grpo"].replace(entropy_share=0.2)
    with pytest.raises(KeyError, match=r"needs 'uncertain'.*entropy_share=1\.0"):
        policy_loss(batch["new"], batch, preset)
    with pytest.raises(ConfigError, match="sets a term of a policy loss, and sft is none"):
        load_config({"algorithm": "sft", "learner": {"entropy_target": 0.5}})


def test_the_coefficient_rises_below_the_target_and_acts_nowhere_else():
    """Skywork-OR1: alpha_k = c_k where H_k <= target, and c begins at 0."""
    control = EntropyTarget(0.5, 0.01)
    given = [control(entropy) for entropy in (0.4, 0.3, 0.6, 0.5, 0.2, 0.9, 0.9, 0.9, 0.1, 0.1)]
    assert given == pytest.approx([0.0, 0.01, 0.0, 0.01, 0.01, 0.0, 0.0, 0.0, 0.0, 0.01])
    again = EntropyTarget(0.5, 0.01)
    again.load_state_dict(control.state_dict())
    assert again(0.1) == control(0.1) == pytest.approx(0.02)


BOTH = {
    "clip_cov": {"cov_share": 0.1, "cov_bounds": (-9.0, 9.0), "entropy_share": 0.3},
    "kl_cov": {"cov_share": 0.1, "entropy_share": 0.3},
}


@pytest.mark.parametrize("name", BOTH)
def test_tokens_are_chosen_in_the_whole_batch_by_the_policy_before_the_update(tmp_path: Path, name: str):
    """By the model's own logits, whatever the size of a micro-batch; and `rlvr explain` finds the weights again."""
    overrides = BOTH[name]
    config = small(tmp_path / "run", algorithm=name, overrides=overrides, learner={"micro_batch_tokens": 64})
    run = Trainer(config, Callback())
    try:
        run.prepare()
        sample = run.collect()
        sample.collected.rewards = [float(i % 3 == 0) for i in range(len(sample.collected.rewards))]
        batch, _ = run.method.credit(sample.collected)
        scored = run.method.score(batch)
        mask, given = scored.inputs.mask, torch.full(scored.inputs.mask.shape, torch.nan, dtype=torch.float64)
        old = given.clone()
        for i, episode in enumerate(sample.collected.episodes):
            ids = episode.tokens.ids
            with torch.no_grad():
                logs = run.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)[:-1]
            given[i, 1 : len(ids)] = -(logs.exp() * logs).sum(-1)
            old[i, 1 : len(ids)] = logs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
        lowest = given[mask].sort(descending=True).values[math.ceil(0.3 * int(mask.sum())) - 1]
        sure = (given - lowest).abs() > 1e-5  # float32 here, float64 there
        assert torch.equal((scored.inputs.uncertain & sure), (mask & (given > lowest) & sure))
        if name == "kl_cov":
            found = {"mask": mask, "old_logprobs": old, "advantages": batch.inputs.advantages.double()}
            values = covariances(found)
            chosen = [values[tuple(at)] for at in scored.inputs.covariant.nonzero().tolist()]
            assert sum(chosen) == pytest.approx(sum(sorted(values.values())[-len(chosen) :]), abs=1e-4)
        assert int(scored.inputs.covariant.sum()) >= max(1, int(0.1 * int(mask.sum())))
        metrics = run.method.update(scored, run.optimiser)
        assert metrics["correction_zero_frac"] == pytest.approx(0.7, abs=0.1)
        for episode in sample.collected.episodes:
            noted = episode.training["weights"]
            if "logprobs" in episode.training:
                assert recomputed_weights(run.learner.preset, episode) == pytest.approx(noted, abs=1e-5)
    finally:
        run.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_a_run_with_all_of_it_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    learner = {"entropy_target": 20.0, "entropy_step": 0.02, "minibatches": 2}
    changes = {"algorithm": name, "overrides": BOTH[name], "learner": learner}
    callback = Callback()
    Trainer(small(tmp_path / "whole", **changes), callback).run()
    steps = callback.of("train")
    assert [step["entropy_coef"] for step in steps] == pytest.approx([0.0, 0.02, 0.04, 0.06])
    assert all(step["entropy"] > 0 for step in steps)
    stop_and_resume(tmp_path / "broken", 3, monkeypatch, **changes)
    assert differences(tmp_path / "broken", tmp_path / "whole") == []
