"""The pages on algorithms say what the code does: every preset's block is its advantage and formula, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rlvr.algorithms
from rlvr.algorithms import advantages
from rlvr.algorithms.advantages import returns
from rlvr.algorithms.data import selection
from rlvr.algorithms.losses import corrections, entropy, kl, likelihood, preference, values
from rlvr.algorithms.presets import ADVANTAGES, PRESETS

PAGES = Path(__file__).parents[2] / "docs" / "algorithms"
BLOCK = re.compile(r"```text\n(\w+)\nA = (.*)\nL = (.*)\n```")
MODULES = (advantages, corrections, entropy, kl, likelihood, preference, returns, selection, values, rlvr.algorithms)


def test_every_preset_stands_on_a_page_as_it_is():
    blocks = {name: (a, loss) for page in PAGES.glob("*.md") for name, a, loss in BLOCK.findall(page.read_text())}
    assert set(blocks) == set(PRESETS)
    for name, (advantage, loss) in blocks.items():
        assert advantage == ADVANTAGES[PRESETS[name].advantage], name
        assert loss == PRESETS[name].formula, name


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_functions_and_pages_that_are_named_exist(page: Path):
    text = page.read_text()
    for name in re.findall(
        r"`([a-z_]+_(?:loss|keep|rows|worst_pairs|batch|targets|value|steps|kl|solved|summaries))`", text
    ):
        assert any(hasattr(module, name) for module in MODULES), name
    for link in re.findall(r"\]\(([\w.-]+\.md)\)", text):
        assert (PAGES / link).exists(), link


def test_the_example_runs():
    code = re.search(r"```python\n(.*?)```", (PAGES / "README.md").read_text(), re.DOTALL).group(1)
    scope: dict = {}
    exec(code, scope)
    assert scope["new"].grad.abs().sum() > 0
    assert scope["preset"].kl_coef == 0
