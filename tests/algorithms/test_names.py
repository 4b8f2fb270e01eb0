"""One name for one thing: a wrong one is an error with the nearest, and nobody compares the name of a part."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path

import pytest
import torch

from rlvr.algorithms import (
    ADVANTAGES,
    ALGORITHMS,
    CLIP_RULES,
    compute_advantages,
    count_denominators,
    nll_loss,
    policy_loss,
)
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import make

ROOM = Path(__file__).parents[2] / "algorithms"
OLD = [{"level": "none"}, {"clip": "cap"}, {"ratio_denominator": "sampler"}, {"kl_place": "loss"}, {"k": 3}]


@pytest.mark.parametrize("change", OLD, ids=str)
def test_names_that_are_none_are_refused(change: dict):
    with pytest.raises((TypeError, ValueError), match=next(iter(change))):
        PRESETS["gfpo"].replace(**change)


@pytest.mark.parametrize("function", [partial(policy_loss, preset=PRESETS["grpo"]), nll_loss])
@pytest.mark.parametrize(("wrong", "right"), [("sequence_ids", "sequence_id"), ("old_logprob", "old_logprobs")])
def test_a_batch_is_closed(function, wrong: str, right: str):
    """An entry that nobody reads would change the loss in silence."""
    batch = make("plain")
    with pytest.raises(TypeError, match=f"no entry '{wrong}'; did you mean '{right}'"):
        function(batch["new"], {**batch, wrong: batch["mask"]})
    with pytest.raises(TypeError, match=f"no entry '{wrong}'"):
        count_denominators({**batch, wrong: None})


def test_advantages_take_a_closed_batch_too():
    rewards, group = torch.tensor([1.0, 0.0]), torch.tensor([0, 0])
    assert compute_advantages(rewards, group, PRESETS["grpo"], {"old_logprobs": None}).shape == (2,)
    with pytest.raises(TypeError, match="no entry 'length'; did you mean"):
        compute_advantages(rewards, group, PRESETS["grpo"], {"length": rewards})


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
