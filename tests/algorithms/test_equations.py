"""Each part of a loss has its equation above the code: formula, shape, paper. And a formula names every bound."""

from __future__ import annotations

import inspect
import io
import re
import sys
import tokenize
from pathlib import Path

import pytest

from rlvr.algorithms import ADVANTAGES, AGGREGATIONS, CLIP_RULES
from rlvr.algorithms.losses import kl, likelihood, preference, values
from rlvr.algorithms.recipe.loss_parts import CORRECTIONS
from rlvr.algorithms.recipe.presets import PRESETS

ROOT = Path(__file__).parents[2]
EQUATION = re.compile(r"#.* (=|<-) .*\[[A-Z\], .\->]*\]")
SOURCE = re.compile(r"\d{4}\.\d{4,5}|\b(?:19|20)\d\d\b|prime-rl|Tinker|RLHF|PPO|RLOO|maximum likelihood")


def equations(source: str) -> list[str]:
    """Comment lines of a source that hold a formula and a shape."""
    return [line.strip() for line in source.splitlines() if EQUATION.search(line)]


PARTS = {
    **{f"clip {rule.name}": type(rule) for rule in CLIP_RULES.values()},
    **{f"correction {rule.name}": rule.weight for rule in CORRECTIONS.values()},
    **{f"aggregation {each.name}": type(each) for each in AGGREGATIONS.values()},
    "KL": kl.kl_estimate,
    "KL in the loss": kl.kl_loss,
    "KL in the reward": kl.reward_kl,
    "likelihood": likelihood.nll_loss,
    "VeriFree": likelihood.verifree_loss,
    "DPO": preference.dpo_loss,
    "LN-DPO": preference.ln_dpo_loss,
    "SimPO": preference.simpo_loss,
    "value loss": values.value_loss,
}


@pytest.mark.parametrize("part", PARTS)
def test_a_kernel_has_its_equation_with_shape_and_source(part: str):
    found = equations(inspect.getsource(PARTS[part]))
    assert any(SOURCE.search(line) for line in found), found


@pytest.mark.parametrize("name", ADVANTAGES)
def test_an_advantage_has_its_equation_with_shape_and_its_own_source(name: str):
    module = sys.modules[_home(name)]
    found = equations(inspect.getsource(module))
    assert any(ADVANTAGES[name].source in line for line in found), (module.__name__, ADVANTAGES[name].source)


def _home(name: str) -> str:
    """The module whose object the advantage is."""
    package = "rlvr.algorithms.advantages."
    (home,) = [
        module
        for module, content in sys.modules.items()
        if module.startswith(package)
        and not module.endswith(("compute", "token_rewards"))
        and any(value is ADVANTAGES[name] for value in vars(content).values())
    ]
    return home


def test_what_is_no_equation_is_not_taken_for_one():
    assert not equations("x = 1  # [B, T]\n# the mean over tokens, 2402.03300\n")
    assert equations("# A_i = R_i - mean_g     [B]  Dr. GRPO, 2503.20783\n")


def test_eight_per_cent_of_the_lines_carry_a_comment():
    commented = lines = 0
    for path in (ROOT / "algorithms").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        commented += len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})
        lines += sum(bool(line.strip()) for line in text.splitlines())
    assert commented >= 0.08 * lines, f"{commented} of {lines}"


@pytest.mark.parametrize("name", ["cispo", "topr"])
def test_a_formula_names_the_lower_bound_where_there_is_one(name: str):
    preset = PRESETS[name]
    assert "clip(r, 0.5, " in preset.replace(ratio_min=0.5).formula
    assert "min(r, " in preset.formula
