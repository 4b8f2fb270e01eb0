"""Random text and mutated gold answers: no grader raises, none is slow, none calls its own fault the model's.

RLVR_FUZZ=1000000 raises the number of random texts for each grader; mutated answers are a tenth of it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from rlvr.envs.rewards import grade

COUNT = int(os.environ.get("RLVR_FUZZ", "2000"))
LIMIT_SECONDS = 0.2
PIECES = [
    "\\boxed{", "}", "{", "<think>", "</think>", "<answer>", "</answer>", "#### ", "Answer: ", "The answer is ",
    "\n", " ", ".", ",", "\\frac{1}{2}", "\\frac", "\\sqrt{2}", "\\sqrt[3]{", "^", "_", "!", "%", "\\%", "$",
    "72", "-", "+", "*", "/", "=", "(", ")", "[", "]", "|", "\\{", "\\}", "\\pi", "\\infty", "x", "e", "i",
    "\\text{", "\\text{ cm}", " or ", " and ", "\\cup", "\\pm", "<", ">", "\\le", "\\begin{pmatrix}",
    "\\end{pmatrix}", "&", "\\\\", "\\sin", "\\log_2", "\\binom", "°", "½", "²", "٧", "７", "\u200b",
    "\x00", "\ud800", "B", "(B)", "up", "{\"a\": 1}", "```json\n", "```", "<|im_end|>", "<tool_response>", "19",
    "36", "55", "7", "999999", "^{9^{9^9}}", "1e999", "\\overline{3}", "0.", "\\left", "\\right", "'", "\"",
    "\\", "\t", "é", "漢", "\\int", "\\sum", "\\circ",
]  # fmt: skip
GRADED: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "number": ("72", "\\boxed{72}", {}),
    "math": ("\\frac{\\sqrt{3}}{2} + x^2", "\\boxed{x^2 + \\frac{\\sqrt{3}}{2}}", {}),
    "choice": ("B", "\\boxed{B}", {"letters": "ABCD"}),
    "countdown": ({"numbers": [19, 36, 55, 7], "target": 65}, "<answer>55 + 36 - 19 - 7</answer>", {}),
    "format": (None, "<think>a</think><answer>b</answer>", {}),
    "action": ("up", "\\boxed{up}", {"legal": ["up", "down", "left"]}),
    "json": ({"a": [1, "x", None]}, '```json\n{"a": [1, "x", null]}\n```', {"schema": {"type": "object"}}),
    "exact": ("Paris", "<answer>Paris</answer>", {}),
    "f1": ("the city of Paris", "<answer>city of Paris</answer>", {}),
}


def random_text(rng: random.Random) -> str:
    if rng.random() < 0.2:
        return "".join(
            chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x110000)))) for _ in range(rng.randrange(60))
        )
    text = "".join(rng.choices(PIECES, k=rng.randrange(1, 25)))
    return f"\\boxed{{{text}}}" if rng.random() < 0.5 else text


def mutated(gold: str, rng: random.Random) -> str:
    text = gold
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(text) + 1)
        cut = rng.randrange(3)
        text = text[:place] + rng.choice(PIECES + [""] * 20) + text[place + cut :]
    return text


def check(kind: str, make: Callable[[random.Random], str], count: int) -> int:
    """Grade ``count`` texts; returns how many earned the full reward."""
    reference, _, options = GRADED[kind]
    rng = random.Random(f"{kind}:{count}")
    paid = 0
    for _ in range(count):
        text = make(rng)
        start = time.process_time()
        verdict = grade(kind, text, reference, **options)
        took = time.process_time() - start
        if took > LIMIT_SECONDS and "computer algebra" not in verdict.reason:
            again = time.process_time()
            grade(kind, text, reference, **options)
            assert min(took, time.process_time() - again) < LIMIT_SECONDS, (kind, text)
        assert verdict.valid, (kind, text, verdict)
        assert 0.0 <= verdict.reward <= 1.0
        paid += verdict.reward == 1.0
    return paid


@pytest.mark.parametrize("kind", sorted(GRADED))
def test_random_text(kind: str) -> None:
    paid = check(kind, random_text, COUNT)
    assert paid <= max(1, COUNT // 20)


@pytest.mark.parametrize("kind", sorted(GRADED))
def test_mutated_gold_answers(kind: str) -> None:
    reference, gold, options = GRADED[kind]
    assert grade(kind, gold, reference, **options).reward == 1.0
    check(kind, lambda rng: mutated(gold, rng), max(200, COUNT // 10))
