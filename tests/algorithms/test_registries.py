"""What is registered from outside stands beside what is built in: by name, as an object, as module:name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rlvr.algorithms as algorithms
from rlvr.algorithms import (
    ADVANTAGES,
    AGGREGATIONS,
    ALGORITHMS,
    CLIP_RULES,
    FILTERS,
    PRESETS,
    Advantage,
    Aggregation,
    Clipped,
    ClipRule,
    Correction,
    CorrectionRule,
    EpisodeFilter,
    compute_advantages,
    policy_loss,
    register_advantage,
    register_aggregation,
    register_clip_rule,
    register_correction,
    register_filter,
    register_preset,
)
from rlvr.algorithms.config import ConfigError, TrainConfig, load_config, to_yaml
from rlvr.algorithms.recipe.loss_parts import CORRECTIONS
from rlvr.algorithms.recipe.presets import Preset
from rlvr.envs.core.code_rule import settings_are_data

from .cases import make
from .test_collect import collector


@pytest.fixture(autouse=True)
def clean():
    """What a test registers is gone after it."""
    registries = (ADVANTAGES, AGGREGATIONS, CLIP_RULES, CORRECTIONS, FILTERS, PRESETS)
    before = [dict(registry._values) for registry in registries]
    yield
    for registry, values in zip(registries, before, strict=True):
        registry._values = values


def centred(inputs, choices):
    """A_i = 2 (R_i - mean R)"""
    rewards = inputs.rewards
    return 2 * (rewards - rewards.mean())


class Halved(ClipRule):
    name = "halved"

    def loss(self, t, p):
        never = torch.zeros_like(t.sequences.mask)
        return Clipped(-t.advantages * t.log_ratio.exp() / 2, never, never)

    def formula(self, p):
        return "-A r / 2"


def test_an_advantage_a_clip_rule_and_a_correction_of_ones_own_by_name():
    register_advantage(centred)
    register_clip_rule(Halved())
    register_correction(CorrectionRule("half", "1/2", lambda x, sequences, bounds: torch.full_like(x.new, 0.5)))
    mine = register_preset(Preset("mine", "centred", clip="halved", corrections=(Correction("half"),)))
    assert ALGORITHMS["mine"] is PRESETS["mine"] is mine
    assert next(iter(ALGORITHMS)) == "reinforce"
    assert compute_advantages([1.0, 0.0], [0, 0], mine).tolist() == [1, -1]
    batch = make("plain")
    plain = policy_loss(batch["new"], batch, PRESETS["mine"].replace(clip="none", corrections=()))[0]
    loss = policy_loss(batch["new"], batch, mine)[0]
    assert torch.allclose(loss, plain / 4)
    assert "-A r / 2" in algorithms.mine_loss.__doc__
    assert "A_i = 2 (R_i - mean R)" in algorithms.mine_loss.__doc__


def test_an_object_stands_where_a_name_does():
    preset = PRESETS["grpo"].replace(advantage=centred, clip=Halved())
    assert (preset.advantage, preset.clip) == ("centred", "halved")
    assert PRESETS["grpo"].replace(advantage=centred) == PRESETS["grpo"].replace(advantage="centred")
    config = TrainConfig(algorithm=preset.replace(name="mine"), overrides={"advantage": centred, "kl_coef": 0.1})
    assert (config.algorithm, config.preset().advantage, config.preset().kl_coef) == ("mine", "centred", 0.1)
    assert "advantage: centred" in to_yaml(config)


def test_two_objects_that_are_alike_are_one():
    first, second = (PRESETS["grpo"].replace(clip=Halved()) for _ in range(2))
    assert first == second
    other = Halved()
    other.share = 3
    with pytest.raises(ValueError, match="a clip rule 'halved' already"):
        PRESETS["grpo"].replace(clip=other)


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        (register_advantage, Advantage("group_z", "A", centred, ""), "advantage 'group_z' already"),
        (register_preset, Preset("grpo"), "preset 'grpo' already"),
        (register_preset, Preset("sft"), "algorithm 'sft' already"),
        (register_advantage, Advantage("two words", "A", centred, ""), "letters, digits and _"),
        (register_advantage, Advantage("empty", "A", None, ""), "'empty' needs compute"),
        (register_advantage, 3, "an object of .*Advantage, not 3"),
        (register_clip_rule, ClipRule(), "has no name"),
        (register_clip_rule, type("Bare", (ClipRule,), {"name": "bare"})(), "'bare' has no loss"),
        (register_correction, CorrectionRule("empty", "", None), "'empty' needs weight"),
        (register_filter, EpisodeFilter(), "has no name"),
        (
            register_filter,
            type("Again", (EpisodeFilter,), {"name": "zero_gradient"})(),
            "filter 'zero_gradient' already",
        ),
        (register_aggregation, type("Bare", (Aggregation,), {"name": "bare"})(), "'bare' has no reduce"),
        (register_preset, "grpo", "an object of .*Preset, not 'grpo'"),
    ],
)
def test_what_cannot_be_registered_says_why_in_one_sentence(register, value, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        register(value)
    assert "\n" not in str(error.value)
    assert PRESETS["grpo"].kl_coef == 0.04


MODULE = """
from rlvr.algorithms import PRESETS

def centred(inputs, choices):
    return inputs.rewards - inputs.rewards.mean()

preset = PRESETS["dr_grpo"].replace(name="preset", advantage=centred)
"""


def test_module_and_name_in_yaml_under_the_code_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "registry_parts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    values = {"algorithm": "registry_parts:preset", "overrides": {"advantage": "registry_parts:centred"}}
    config = load_config(values)
    assert compute_advantages([1.0, 0.0], [0, 0], config.preset()).tolist() == [0.5, -0.5]
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config
    with settings_are_data(), pytest.raises(ConfigError, match="--allow-code"):
        load_config(values)
    with pytest.raises(ConfigError, match="names no function"):
        load_config({"algorithm": "registry_parts:absent"})
    with pytest.raises(ConfigError, match="an object of"):
        load_config({"algorithm": "registry_parts:centred"})


PLUGINS = {
    "good": "from rlvr.algorithms import PRESETS, register_preset\n"
    'register_preset(PRESETS["grpo"].replace(name="of_a_package"))\n',
    "twice": "from rlvr.algorithms import PRESETS, register_preset\n"
    'register_preset(PRESETS["grpo"].replace(lam=0.5))\n',
    "broken": "raise OSError('no disk')\n",
}
USER = """
import warnings
from rlvr.algorithms import ALGORITHMS
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert ALGORITHMS["grpo"].lam == 1 and not caught  # nothing is loaded for what is there
    assert ALGORITHMS["of_a_package"].kl_coef == 0.04
    assert len(list(ALGORITHMS)) == len(set(ALGORITHMS)) and "of_a_package" in list(ALGORITHMS)
texts = [str(each.message) for each in caught]
assert len(texts) == 2, texts
assert "plug-in 'broken'" in texts[0] and "no disk" in texts[0] and "\\n" not in texts[0]
assert "plug-in 'twice'" in texts[1] and "'grpo' already" in texts[1]
"""


def test_entry_points_register_when_a_name_is_asked_for_and_a_broken_one_is_a_warning(tmp_path: Path):
    points = "".join(f"{name} = plug_in_{name}\n" for name in PLUGINS)
    for name, text in PLUGINS.items():
        (tmp_path / f"plug_in_{name}.py").write_text(text)
    folder = tmp_path / "plug_ins-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-ins\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[rlvr.algorithms]\n{points}")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{USER}"
    subprocess.run([sys.executable, "-c", code], check=True)


class PerMember(Aggregation):
    name, formula = "per_member", "sum / 7"

    def reduce(self, x):
        # L = sum / 7
        return x.sums.sum() / 7


class LastOfGroup(EpisodeFilter):
    name, reason = "last_of_group", "not the last"

    def keeps(self, episodes, rewards, config):
        return [episode.sample == config.group_size - 1 for episode in episodes]

    def added_rewards(self, episodes, config, step):
        return [0.5] * len(episodes)


class TooFew(EpisodeFilter):
    name = "too_few"

    def keeps(self, episodes, rewards, config):
        return [True]


def test_an_aggregation_of_ones_own():
    register_aggregation(PerMember())
    batch = make("plain")
    summed = policy_loss(batch["new"], batch, PRESETS["dr_grpo"].replace(aggregation="sum"))[0]
    loss = policy_loss(batch["new"], batch, PRESETS["dr_grpo"].replace(aggregation="per_member"))[0]
    assert torch.allclose(loss, summed / 7)
    assert "sum / 7 of" in PRESETS["dr_grpo"].replace(aggregation="per_member").formula
    with pytest.raises(ValueError, match="a loss per sequence"):
        PRESETS["gspo"].replace(aggregation="per_member")
    shaped = type("Shaped", (PerMember,), {"name": "shaped", "reduce": lambda self, x: x.sums})()
    with pytest.raises(ValueError, match="'shaped' gives one number"):
        policy_loss(batch["new"], batch, PRESETS["dr_grpo"].replace(aggregation=shaped))


def test_a_filter_of_ones_own_and_one_that_returns_another_length():
    gathered, _ = collector(lambda index, sample: (sample == 0, 3, False), [LastOfGroup()])
    step = gathered(1)
    assert {episode.sample for episode in step.episodes} == {3}
    assert step.rewards == [0.5] * 3
    assert step.stats["shaping"] == 0.5
    assert step.played[0].training["dropped"] == "last_of_group: not the last"
    wrong, _ = collector(lambda index, sample: (True, 3, False), [TooFew()])
    with pytest.raises(ValueError, match="'too_few' returns 1 values in keeps for 12 episodes"):
        wrong(1)
    with pytest.raises(ConfigError, match="no filter 'last_of_grup'; did you mean 'last_of_group'"):
        load_config({"selection": {"filters": ["last_of_grup"]}})
