"""The pages on algorithms say what the code does: every block and table is the registry's, word for word."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import rlvr.algorithms
from rlvr.algorithms import advantages
from rlvr.algorithms.filters import selection
from rlvr.algorithms.losses import corrections, kl, likelihood, preference, values
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "algorithms"
MODULES = (advantages, corrections, kl, likelihood, preference, selection, values, rlvr.algorithms)


@pytest.fixture(scope="module")
def writer():
    """The script that writes the pages."""
    spec = importlib.util.spec_from_file_location("algorithm_pages", ROOT / "benchmarks" / "algorithm_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_registries_say(writer):
    """If this fails, run `make docs`."""
    assert (PAGES / "table.md").read_text() == writer.table()
    for page in PAGES.glob("*.md"):
        assert page.read_text() == writer.refreshed(page.read_text()), page.name


def test_the_examples_are_what_the_registry_says(writer):
    """If this fails, run `make docs`."""
    examples = {path.stem: path.read_text() for path in (ROOT / "examples" / "algorithms").glob("*.yaml")}
    assert examples == {name: writer.example(algorithm) for name, algorithm in ALGORITHMS.items()}


def test_make_docs_writes_pages_and_examples():
    (recipe,) = re.findall(r"^docs:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "benchmarks/algorithm_pages.py" in recipe


def test_every_algorithm_is_listed(writer):
    names = set(re.findall(r"^\| `(\w+)` \|", writer.table(), re.MULTILINE))
    assert set(ALGORITHMS) <= names


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_functions_and_pages_that_are_named_exist(page: Path):
    text = page.read_text()
    if page.name == "table.md":  # names of presets, not of functions
        return
    for name in re.findall(
        r"`([a-z_]+_(?:loss|rows|worst_pairs|batch|targets|value|steps|kl|solved|summaries))`", text
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
