"""One name for one thing: old names warn with the new one, and nobody compares the name of a part."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from rlvr.algorithms import ADVANTAGES, ALGORITHMS, CLIP_RULES, LossInputs, policy_loss
from rlvr.algorithms.config import load_config
from rlvr.algorithms.presets import PRESETS, Preset

from .cases import make

ROOM = Path(__file__).parents[2] / "algorithms"
VALUES = [("clip", "cap", "cispo"), ("clip", "tv", "dppo"), ("ratio_denominator", "sampler", "behaviour")]


@pytest.mark.parametrize(("choice", "old", "new"), VALUES)
def test_old_values_of_choices_warn(choice: str, old: str, new: str):
    changes = {"ratio_max": 5.0} if new == "cispo" else {}
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(PRESETS["ppo"].replace(**{choice: old}, **changes), choice) == new


def test_old_choices_warn_wherever_they_stand():
    with pytest.warns(DeprecationWarning, match="ratio_level"):
        made = Preset("mine", level="none", clip="none")
    assert made.ratio_level == "none"
    with pytest.warns(DeprecationWarning, match="ratio_level"):
        assert made.level == "none"
    with pytest.warns(DeprecationWarning, match="replace"):
        assert made.but(gamma=0.5).gamma == 0.5
    for name, new in (("gfpo", "group_keep"), ("passk", "pass_k"), ("vineppo", "continuations")):
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(PRESETS[name].replace(k=3), new) == 3
    with pytest.warns(DeprecationWarning, match="kl_in"):
        assert PRESETS["grpo"].kl_place == PRESETS["grpo"].replace(kl_place="loss").kl_in == "loss"
    with pytest.raises(AttributeError, match="no choice 'levle'"):
        _ = made.levle


def test_old_entries_of_a_batch_warn_and_mean_the_same():
    batch = make("plain")
    old = {
        {"old_logprobs": "old", "behaviour_logprobs": "sampler", "ref_logprobs": "ref"}.get(k, k): batch[k]
        for k in batch
    }
    with pytest.warns(DeprecationWarning, match="behaviour_logprobs"):
        loss = policy_loss(batch["new"], old, PRESETS["grpo"])[0]
    assert torch.equal(loss, policy_loss(batch["new"], batch, PRESETS["grpo"])[0])
    assert torch.equal(loss, policy_loss(batch["new"], LossInputs.of(batch), PRESETS["grpo"])[0])


def test_old_fields_of_a_config_warn():
    with pytest.warns(DeprecationWarning, match="thinking_phrase"):
        assert load_config({"sampling": {"interruption": "qwen3"}}).sampling.thinking_phrase == "qwen3"
    with pytest.warns(DeprecationWarning, match="direct_answer_share"):
        load_config({"warm_start": {"shortcut_share": 0.5}})
    with pytest.warns(DeprecationWarning, match="thinking_budget"):
        assert load_config({"selection": {"filters": ["interruptions"]}}).filters() == ("thinking_budget",)


def compared(path: Path) -> list[tuple[int, str]]:
    """Names of algorithms, advantages and clip rules that a file compares something with."""
    names = (set(ALGORITHMS) | set(ADVANTAGES) | set(CLIP_RULES)) - {"none"}
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            found += [
                (node.lineno, constant.value)
                for constant in ast.walk(node)
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str) and constant.value in names
            ]
    return found


def test_nobody_compares_the_name_of_an_algorithm_an_advantage_or_a_clip_rule(tmp_path: Path):
    assert {str(path): compared(path) for path in ROOM.rglob("*.py") if compared(path)} == {}
    planted = tmp_path / "planted.py"
    planted.write_text('if preset.advantage == "brpo" or clip in ("ppo", "cispo"): ...')
    assert len(compared(planted)) == 3


def test_no_folder_of_the_room_holds_more_than_fifteen_files():
    for folder in {path.parent for path in ROOM.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= 15, folder
