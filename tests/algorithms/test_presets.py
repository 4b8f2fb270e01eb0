"""The table of algorithms: its constants, the choices it refuses, and that it needs no torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS, table
from rlvr.algorithms.recipe.loss_parts import Correction, icepop, off_policy_mask, tis
from rlvr.algorithms.recipe.presets import PRESETS, Preset

# name: (advantage, level, anchor, aggregation) as published; the constants of the losses are checked in test_losses.
TABLE = {
    "reinforce": ("raw", "none", "old", "seq_mean_token_sum"),
    "reinforce_baseline": ("group_mean", "none", "old", "seq_mean_token_sum"),
    "rloo": ("rloo", "none", "old", "seq_mean_token_sum"),
    "rloo_trl": ("rloo", "product", "old", "sequence_mean"),
    "loop": ("rloo", "token", "old", "token_mean"),
    "reinforce_pp": ("reinforce_pp", "token", "old", "token_mean"),
    "reinforce_pp_baseline": ("reinforce_pp_baseline", "token", "old", "token_mean"),
    "ppo": ("gae", "token", "old", "token_mean"),
    "grpo": ("group_z", "token", "old", "seq_mean_token_mean"),
    "dr_grpo": ("group_mean", "token", "old", "seq_mean_token_sum_norm"),
    "dapo": ("group_z", "token", "old", "token_mean"),
    "dapo_prompt_mean": ("group_z", "token", "old", "prompt_mean"),
    "lite_ppo": ("batch_std", "token", "old", "token_mean"),
    "cispo": ("group_z", "token", "old", "token_mean"),
    "scalerl": ("scalerl", "token", "behaviour", "prompt_mean"),
    "prime": ("group_mean", "token", "behaviour", "token_mean"),
    "importance_sampling": ("group_mean", "token", "behaviour", "sum"),
    "seq_is": ("group_mean", "product", "behaviour", "seq_mean_token_sum"),
    "topr": ("group_mean", "product", "behaviour", "sequence_mean"),
    "gspo": ("group_z", "sequence", "old", "sequence_mean"),
    "gspo_token": ("group_z", "sequence_token", "old", "seq_mean_token_mean"),
    "gmpo": ("group_z", "sequence", "old", "sequence_mean"),
    "clip_cov": ("group_z", "token", "old", "token_mean"),
    "kl_cov": ("group_z", "token", "old", "token_mean"),
    "sapo": ("group_z", "token", "old", "seq_mean_token_mean"),
    "kimi": ("group_mean", "product", "old", "sequence_mean"),
    "intellect2": ("group_z", "token", "old", "token_mean"),
    "olmorl": ("group_mean", "token", "old", "token_mean"),
    "tis": ("group_z", "token", "old", "token_mean"),
    "seq_tis": ("group_z", "token", "old", "token_mean"),
    "icepop": ("group_z", "token", "old", "token_mean"),
    "seq_mis": ("group_z", "token", "old", "token_mean"),
    "geo_mask_tis": ("group_mean", "token", "old", "token_mean"),
    "grpo_offpolicy_mask": ("group_z", "token", "old", "seq_mean_token_mean"),
    "grpo_unbiased_kl": ("group_z", "token", "old", "seq_mean_token_mean"),
    "maxrl": ("maxrl", "token", "behaviour", "token_mean"),
    "gem_rebn": ("rebn", "token", "old", "seq_mean_token_sum_norm"),
    "gem_ppo": ("turn_gae", "token", "old", "seq_mean_token_sum_norm"),
    "gdpo": ("gdpo", "token", "old", "seq_mean_token_mean"),
    "turn_rloo": ("turn_rloo", "token", "old", "seq_mean_token_sum_norm"),
    "gigpo": ("gigpo", "token", "old", "token_mean"),
    "gigpo_state": ("gigpo_state", "token", "old", "token_mean"),
    "spiral": ("rae", "token", "old", "seq_mean_token_sum_norm"),
    "marshal": ("role_turns", "token", "old", "token_mean"),
    "vineppo": ("vine", "token", "old", "token_mean"),
    "brpo": ("brpo", "token", "old", "seq_mean_token_sum_norm"),
    "seed_grpo": ("seed", "token", "old", "seq_mean_token_mean"),
    "gfpo": ("gfpo", "token", "old", "seq_mean_token_mean"),
    "passk": ("passk", "token", "old", "seq_mean_token_mean"),
    "grpo_process": ("process", "token", "old", "seq_mean_token_mean"),
}


@pytest.mark.parametrize("name", TABLE)
def test_rows_of_the_table(name: str):
    p = PRESETS[name]
    assert p.name == name
    assert (p.advantage, p.ratio_level, p.ratio_denominator, p.aggregation) == TABLE[name]
    assert p.arxiv
    assert p.note


def test_kl_in_the_reward_is_part_of_the_row():
    assert {n: p.kl_coef for n, p in PRESETS.items() if p.kl_in == "reward"} == {
        "rloo": 0.03, "rloo_trl": 0.05, "reinforce_pp": 0.001, "ppo": 0.0,
    }  # fmt: skip


REFUSED = {
    "k1 in the loss": ("grpo", {"kl": "k1"}, "expected gradient of zero"),
    "sampler ratio and TIS": ("scalerl", {"corrections": (tis(),)}, "apply the correction twice"),
    "two weights": ("tis", {"corrections": (tis(), icepop())}, "twice"),
    "bypass of a corrected preset": ("icepop", {"ratio_denominator": "behaviour"}, "apply the correction twice"),
    "GSPO by tokens": ("gspo", {"aggregation": "token_mean"}, "it is not GSPO"),
    "GSPO-token by tokens": ("gspo_token", {"aggregation": "token_mean"}, "must be 'seq_mean_token_mean'"),
    "rows of tokens": ("ppo", {"aggregation": "sequence_mean"}, "mean of a loss per sequence"),
    "negative distance": ("ppo", {"clip_low": -0.2}, "distances >= 0"),
    "dual clip inside": ("ppo", {"dual_clip": 1.1}, "above 1 \\+ clip_high"),
    "dual clip of a cap": ("cispo", {"dual_clip": 3.0}, "needs clip='ppo'"),
    "cap without a number": ("cispo", {"ratio_max": float("inf")}, "absolute cap"),
    "empty band": ("prime", {"ratio_min": 9.0}, "ratio_min < ratio_max"),
    "KL without estimator": ("dapo", {"kl_coef": 0.1}, "needs an estimator"),
    "negative KL": ("grpo", {"kl_coef": -0.1}, ">= 0"),
    "k3 in the reward": ("grpo", {"kl_in": "reward"}, "is k1"),
    "unbiased KL without ratio": ("reinforce", {"kl": "k3_unbiased"}, "ratio_level='none'"),
    "clip and level": ("sapo", {"ratio_level": "sequence"}, "works on a ratio of level token"),
    "typo": ("grpo", {"aggregation": "token_maen"}, "did you mean 'token_mean'"),
    "filter": ("grpo", {"filters": ("dynamic_samplign",)}, "did you mean 'dynamic_sampling'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_choices_that_make_no_algorithm_are_refused(case: str):
    name, change, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        PRESETS[name].replace(**change)


def test_bounds_of_a_correction_are_checked():
    with pytest.raises(ValueError, match="above high"):
        Correction("icepop", 5.0, 0.5)
    with pytest.raises(ValueError, match="did you mean 'icepop'"):
        Correction("icepopp")


def test_but_changes_a_copy_and_knows_its_choices():
    free = PRESETS["grpo"].replace(kl_coef=0.0)
    assert PRESETS["grpo"].kl_coef == 0.04
    assert PRESETS["grpo"].needs == {"old_logprobs", "ref_logprobs"}
    assert free.needs == {"old_logprobs"}
    with pytest.raises(TypeError, match="no choice 'kl_coeff'; did you mean 'kl_coef'"):
        PRESETS["grpo"].replace(kl_coeff=0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        free.kl_coef = 1.0
    with pytest.raises(TypeError):
        PRESETS["mine"] = free


def test_a_mask_by_the_drift_is_no_weight():
    """It may stand beside a ratio to the sampler: nothing is multiplied twice."""
    assert PRESETS["scalerl"].replace(corrections=(off_policy_mask(0.2),)).needs == {"behaviour_logprobs", "group"}


def test_every_preset_has_a_formula_and_a_line_in_the_table():
    text = table()
    lines = text.splitlines()
    for name, preset in PRESETS.items():
        line = next(line for line in lines if line.split(" ")[0] == name)
        for cell in (preset.advantage, preset.aggregation, preset.arxiv):
            assert cell in line
        assert "A" in preset.formula
    for name in ALGORITHMS:
        assert any(line.startswith(name + " ") for line in lines)
    assert "1 - 0.0003, 1 + 0.0004" in PRESETS["gspo"].formula
    assert "at most -4 A where A < 0" in PRESETS["intellect2"].formula


def test_a_new_algorithm_is_one_row():
    mine = Preset("mine", "maxrl", clip="sapo", aggregation="seq_mean_token_sum_norm", arxiv="none", note="a test")
    assert mine.needs == {"old_logprobs", "max_length"}


def test_the_table_needs_no_torch_and_the_rest_says_what_to_install():
    program = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import rlvr.algorithms as a
assert a.ALGORITHMS["grpo"].kl_coef == 0.04 and "grpo" in dir(a) or "PRESETS" in dir(a)
uses = (
    lambda: a.grpo_loss(None, None, None, None),
    lambda: a.compute_advantages([1.0], [0], a.PRESETS["grpo"]),
)
for use in uses:
    try:
        use()
    except ImportError as error:
        assert 'pip install "rlvr[train]"' in str(error), error
    else:
        raise SystemExit("no error without torch")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_unknown_names_are_attribute_errors():
    import rlvr.algorithms

    for name in ("polcy_loss", "grpoo_loss", "PRESET"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(rlvr.algorithms, name)
    assert {"policy_loss", "PRESETS", "compute_advantages"} <= set(dir(rlvr.algorithms))
    for name in dir(rlvr.algorithms):
        assert getattr(rlvr.algorithms, name) is not None
