"""Whole replies of chat models: the right value is paid, the wrong one and a doubt are not; each line once failed."""

from __future__ import annotations

from datetime import date
from typing import Any

import gymnasium as gym
import pytest

from rlvr.envs.rewards import grade
from rlvr.envs.tasks.dates import in_iso

RIGHT: list[tuple[str, str, str]] = [  # kind, reply, reference
    *[
        ("number", reply, "42")
        for reply in (
            "The answer is 42!",
            "The answer is (42).",
            "The answer is [42]",
            "The answer is 42:",
            "Answer: 42;",
            "Answer: 42,",
            "The answer is 42\u3002",
            "Answer: **42**!",
            "### Answer\n42",
            "### Answer\n\n42",
            "**Answer**\n\n42",
            "# Answer\n42",
            "Final Answer\n\n**42**",
            "The answer is therefore 42",
            "The answer is thus 42.",
            "The answer is simply $42$.",
            "The answer would be 42.",
            "The answer must be 42.",
            "The answer to this problem is 42.",
            "**Answer** \u2014 42",
            "Answer - 42",
            "__Answer:__ 42",
            "Answer: 42 \u2705",
            "#### 42;",
            "#### Answer\n42",
            "The answer is 42! Good luck.",
            "The answer is as follows:\n42",
            "Answer: 42. A common wrong answer is 43.",
            "\\boxed 42",
            "\\boxed{42}!",
            "\\boxed{P(A \\mid B) = 42}",
            "\\boxed{g(f(3)) = 42}",
            "\\boxed{E[X] = 42}",
            "\\boxed{f^{-1}(2) = 42}",
        )
    ],
    *[
        ("number", f"\\boxed{{{text}}}", "1000")
        for text in (
            "1{\\,}000",
            "1\\ 000",
            "1\\;000",
            "1~000",
            "1\u00a0000",
            "1\u202f000",
            "1{,}000",
            "1,\\!000",
            "1,000",
        )
    ],
    *[
        ("math", f"\\boxed{{{text}}}", "1000")
        for text in (
            "1{\\,}000",
            "1\\ 000",
            "1\\;000",
            "1~000",
            "1\u00a0000",
            "1\u202f000",
            "1{,}000",
            "1,\\!000",
            "1,000",
        )
    ],
    *[
        (kind, f"\\boxed{{{text}}}", "7/3")
        for kind in ("number", "math")
        for text in ("2\\,\\frac13", "2 \\frac{1}{3}", "2\\;\\tfrac{1}{3}", "2\u00a01/3", "7\\over3")
    ],
    *[("number", f"\\boxed{{{text}}}", "-3/4") for text in ("-(3/4)", "-\\left(\\frac34\\right)", "\u2212(3/4)")],
    *[("math", f"\\boxed{{{text}}}", "42") for text in ("P(A \\mid B) = 42", "g(f(3)) = 42", "\\gcd(84, 126) = 42")],
    ("math", "\\boxed{P(A|B) = \\frac{1}{3}}", "\\frac13"),
    ("math", "\\boxed{3 - 2\\mathrm{i}}", "3-2i"),
    ("math", "Answer: 7*x**2 - 3*x", "7x^2-3x"),
    ("math", "Answer: {1, 2, 5}", "\\{1,2,5\\}"),
    ("math", "\\boxed{[[1, 2], [3, 4]]}", "\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}"),
    ("math", "Answer: 5 \\mathrm{\\ m}", "5"),
    ("math", "Answer: 5 km/h!", "5"),
    ("math", "Answer: **5**!", "5"),
    ("exact", "The answer is *Paris*. It lies on the Seine.", "Paris"),
    ("exact", "Answer: \u201cParis\u201d.", "Paris"),
]
WRONG: list[tuple[str, str, str]] = [
    *[
        ("number", reply, "42")
        for reply in (
            "The answer is 42?",
            "The answer is therefore not 42.",
            "The answer is therefore 42 or 43",
            "Wrong answer: 42",
            "A possible answer: 42",
            "~~Answer: 42~~",
            "### Wrong Answer\n42",
            "### Answer\n\nnot 42",
            "### Answer\n\n42 or 43",
            "The answer is 42. Or 43.",
            "The answer is 42! Or 43!",
            "The answer is 42. Wait, it is 43.",
            "Is the answer 42?",
            "The answer is 42!?",
            "42 is not the answer.",
            "The answer could be 42.",
            "The answer might be 42.",
            "Answer: 42\nAnswer: 43",
            "\\boxed{22 dollars / 42 dollars}",
            "\\boxed{42 dollars / 43 dollars}",
            "\\boxed{[42, 43]}",
            "### Answer\n42\n\n### Answer\n43",
            "If the answer is 42, so be it.",
            "Answer:\n42\nor\n43",
            "4 {\\,}2",
            "The answer\nto life is 42",
        )
    ],
    ("math", "The answer is not f(2) = 25.", "25"),
    ("math", "\\boxed{not S(4) = 752}", "752"),
    ("math", "Answer: 5!", "5"),
    ("math", "\\boxed{[[1, 2], [3, 5]]}", "\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}"),
    ("math", "\\boxed{5m}", "5"),
    ("exact", "Answer: Paris?", "Paris"),
    ("exact", "Answer: ~~Paris~~", "Paris"),
    ("exact", "<answer>yes?</answer>", "yes"),
]
CHOICES = (
    "C",
    "C.",
    "**C**",
    "(C)",
    "C) amplitude",
    "**C. amplitude**",
    "c",
    "Option C",
    "The correct option is C.",
    "C!",
    "I choose C.",
    "It swings.\n\nThe correct choice is (C) amplitude.",
    "Answer: C;",
    "\\text{C}",
    "C: amplitude",
    "Answer: C \u2705",
)
NO_CHOICES = (
    "C?",
    "Answer: c: b",
    "C or B",
    "not C",
    "B or C",
    "B",
    "C, B",
    "C) amplitude or B) period",
    "C is not the answer.",
    "Maybe C",
    "#### C. amplitude or B. period",
    "The answer C - amplitude is wrong.",
    "C) amplitude?",
    "Answer: C. amplitude?",
    "Answer:\nC (amplitude)\nor\nB (period)",
    "Answer: C (amplitude), B (period)",
    "C because A, B and D are too long, or so",
    "C stands for something. It may be right, it may be wrong.",
    "The correct option is not C.",
    "Answer: C \u274c",
)
DATES = (
    "May 7, 2042",
    "7 May 2042",
    "May 7th, 2042",
    "the 7th of May, 2042",
    "2042/5/7",
    "2042.05.07",
    "Wed, May 7, 2042",
    "2042-05-07 (Wednesday)",
    "2042 May 7",
    "7-May-2042",
    "2042-May-07",
    "7th May 2042",
    "on Wednesday, May 7, 2042",
)
NO_DATES = (
    "May 8, 2042",
    "7/5/2042",
    "05/07/2042",
    "Thursday, May 7, 2042",
    "May 2042",
    "2042-05-07 or 2042-05-08",
    "May 7 or 8, 2042",
    "May 7, 2042?",
    "not May 7, 2042",
    "2042-05-07 (Friday)",
    "2042-13-07",
    "May 37, 2042",
)


@pytest.mark.parametrize(("kind", "reply", "reference"), RIGHT)
def test_a_right_value_in_a_whole_reply_is_paid(kind: str, reply: str, reference: str) -> None:
    assert grade(kind, reply, reference).status == "correct"


@pytest.mark.parametrize(("kind", "reply", "reference"), WRONG)
def test_a_doubt_in_a_whole_reply_is_not_paid(kind: str, reply: str, reference: str) -> None:
    assert grade(kind, reply, reference).reward == 0


@pytest.mark.parametrize("known", [False, True])
def test_a_reply_that_is_nothing_but_a_choice(known: bool) -> None:
    options: dict[str, Any] = {"options": ["frequency", "period", "amplitude", "phase"]} if known else {}
    for reply in CHOICES:
        assert grade("choice", reply, "C", **options).status == "correct", reply
    for reply in NO_CHOICES:
        assert grade("choice", reply, "C", **options).reward == 0, reply
    assert grade("choice", "amplitude", "C", **options).reward == known


def test_dates_in_any_form_whose_day_nobody_can_mistake() -> None:
    env: Any = gym.make("rlvr/DateArithmetic-v0", level=3).unwrapped
    env.reset(seed=5)
    state = env.get_state().state._replace(answer=(date(2042, 5, 7),))
    for text in DATES:
        for reply in (f"\\boxed{{{text}}}", f"The answer is {text}.", f"### Answer\n\n**{text}**", f"Answer: {text}!"):
            assert env.task.apply(state, reply)[1].reward == 1, reply
    for text in NO_DATES:
        assert env.task.apply(state, f"\\boxed{{{text}}}")[1].reward == 0, text
    assert in_iso("from May 7, 2042 to 8 June 2043") == "from 2042-05-07 to 2043-06-08"


@pytest.mark.parametrize(
    "form",
    [
        "{0} (Ben), {1} (Tom), {2} (Eva), {3} (Leo)",
        "{0} for Ben, {1} for Tom, {2} for Eva, {3} for Leo",
        "Ben {0}, Tom {1}, Eva {2}, Leo {3}",
        "Ben - {0}, Tom - {1}, Eva - {2}, Leo - {3}",
        "Ben: {0}; Tom: {1}; Eva: {2}; Leo: {3}",
        "- Ben: {0}\n- Tom: {1}\n- Eva: {2}\n- Leo: {3}",
        "* **Ben**: {0}\n* **Tom**: {1}\n* **Eva**: {2}\n* **Leo**: {3}",
    ],
)
def test_named_lists(form: str) -> None:
    env: Any = gym.make("rlvr/AgeProblems-v0", level=3).unwrapped
    env.reset(seed=5)
    state = env.get_state().state
    values = (96, 85, 27, 15)
    for shape in ("\\boxed{{{}}}", "Answer:\n{}", "### Answer\n\n{}", "**Answer:**\n\n{}"):
        assert env.task.apply(state, shape.format(form.format(*values)))[1].reward == 1
        assert env.task.apply(state, shape.format(form.format(*values[::-1])))[1].reward == 0
    swapped = form.replace("Ben", "Xyz").replace("Tom", "Ben").replace("Xyz", "Tom").format(*values)
    assert env.task.apply(state, f"\\boxed{{{swapped}}}")[1].reward == 0
