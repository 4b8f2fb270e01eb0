"""The corpus of benchmarks/forms.py, a little of each family: right replies are paid, wrong ones and doubts are not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TEXTS = 120


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module("forms")
    for name in ("forms", "form_lists", "form_values", "natural_forms", "results"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_natural_forms_are_paid_and_doubts_are_not(forms: Any) -> None:
    for families in forms.FAMILIES.values():
        for family in families():
            counts, misread = forms.measured(family, TEXTS, seed=1)
            assert not [text.reply for text in misread if not text.right], family.name
            lost = [text.reply for text in misread if text.right]
            assert counts["right"] == TEXTS, family.name
            assert len(lost) <= 0.035 * TEXTS, (family.name, lost)  # a sample; the figure is of 3,000


def test_a_wrong_grader_is_noticed(forms: Any) -> None:
    family = forms.values.decimals()
    blind = family._replace(draw=lambda rng: (*family.draw(rng)[:2], lambda reply: True))
    assert forms.measured(blind, 20, seed=1)[0]["false"] == 40
    deaf = family._replace(draw=lambda rng: (*family.draw(rng)[:2], lambda reply: False))
    assert forms.measured(deaf, 20, seed=1)[0]["paid"] == 0
