"""A right value in any natural form is paid; a wrong value, a hedge or a part too many in none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.mathematics.arithmetic import LongDivision
from rlvr.envs.mathematics.common import NumberList
from rlvr.envs.mathematics.linear_algebra import Matrix
from rlvr.envs.rewards.dressing import plain
from rlvr.envs.tasks.answers import Board, ListAnswerTask
from rlvr.envs.tasks.questions import Question
from rlvr.envs.tasks.readings import LONGEST, readings

Task = NumberList | ListAnswerTask | Board | Matrix
Form = Callable[[Sequence[Any]], str]

# What may stand around any answer.
AROUND = [
    "{}", " {} ", "${}$", "$${}$$", r"\({}\)", r"\[{}\]", "**{}**", "*{}*", "__{}__", "`{}`", "{}.", "`{}`.", "**{}**.",
    "${}$.", "$**{}**$", "The answer is {}", "The answer is {}.", "The answer is: {}", "the final answer is {}",
    "Answer: {}", "answer: **{}**", "**Answer: {}**", "The solution is ${}$.", "So the answer is {}.",
    "Thus, the answer is {}", "Therefore the final answer is `{}`.", "Result: {}", "result = {}",
    "The correct answer is {}",
    r"\text{{{}}}", r"\mathrm{{{}}}", r"\mathbf{{{}}}", "```\n{}\n```", "```text\n{}\n```", "My answer is {}.",
    r"\displaystyle {}", r"\quad {} \quad", "{} ", "The result is {}",
]  # fmt: skip
# How a list may be written.
LISTS: list[Form] = [
    lambda parts: ", ".join(map(str, parts)),
    lambda parts: ",".join(map(str, parts)),
    lambda parts: " ".join(map(str, parts)),
    lambda parts: "; ".join(map(str, parts)),
    lambda parts: "\n".join(map(str, parts)),
    lambda parts: f"[{', '.join(map(str, parts))}]",
    lambda parts: f"({', '.join(map(str, parts))})",
    lambda parts: "{" + ", ".join(map(str, parts)) + "}",
    lambda parts: r"\{" + ", ".join(map(str, parts)) + r"\}",
    lambda parts: r"\left\{" + ", ".join(map(str, parts)) + r"\right\}",
    lambda parts: rf"\left({', '.join(map(str, parts))}\right)",
    lambda parts: rf"\left[ {', '.join(map(str, parts))} \right]",
    lambda parts: rf"\big({', '.join(map(str, parts))}\big)",
    lambda parts: r",\ ".join(map(str, parts)),
    lambda parts: r",\, ".join(map(str, parts)),
    lambda parts: r" \to ".join(map(str, parts)),
    lambda parts: r" \rightarrow ".join(map(str, parts)),
    lambda parts: " -> ".join(map(str, parts)),
    lambda parts: "→".join(map(str, parts)),
    lambda parts: f"{', '.join(map(str, parts[:-1]))} and {parts[-1]}",
    lambda parts: f"{', '.join(map(str, parts[:-1]))}, and {parts[-1]}",
    lambda parts: rf"\begin{{pmatrix}} {' & '.join(map(str, parts))} \end{{pmatrix}}",
    lambda parts: r"\begin{bmatrix} " + r" \\ ".join(map(str, parts)) + r" \end{bmatrix}",
    lambda parts: repr(list(map(str, parts))),
    lambda parts: ", ".join(f"\\text{{{part}}}" for part in parts),
    lambda parts: ", ".join(str(part).replace("-", "\u2212") for part in parts),
]
# How a grid may be written.
GRIDS: list[Form] = [
    lambda rows: "\n".join(" ".join(map(str, row)) for row in rows),
    lambda rows: "\n".join(", ".join(map(str, row)) for row in rows),
    lambda rows: "; ".join(" ".join(map(str, row)) for row in rows),
    lambda rows: r" \\ ".join(" ".join(map(str, row)) for row in rows),
    lambda rows: r" \\ ".join(" & ".join(map(str, row)) for row in rows).join((r"\begin{pmatrix} ", r" \end{pmatrix}")),
    lambda rows: r" \\ ".join(" & ".join(map(str, row)) for row in rows).join(
        (r"\begin{bmatrix} ", r" \\ \end{bmatrix}")
    ),
    lambda rows: r" \\ ".join(" & ".join(map(str, row)) for row in rows).join((r"\begin{matrix} ", r" \end{matrix}")),
    lambda rows: r" \\ ".join(" & ".join(map(str, row)) for row in rows).join(
        (r"\left[\begin{array}{ccc} ", r" \end{array}\right]")
    ),
    lambda rows: r" \\ ".join(" & ".join(map(str, row)) for row in rows).join(
        (r"\left(\begin{array}{rrr} ", r" \end{array}\right)")
    ),
    lambda rows: "[" + ", ".join("[" + ", ".join(map(str, row)) + "]" for row in rows) + "]",
    lambda rows: "[" + ",\n".join("[" + ", ".join(map(str, row)) + "]" for row in rows) + "]",
    lambda rows: "((" + "), (".join(", ".join(map(str, row)) for row in rows) + "))",
    lambda rows: "```\n" + "\n".join(" ".join(map(str, row)) for row in rows) + "\n```",
]


def paid(task: Task, gold: Any, text: str, question: str = "") -> bool:
    return task.judge(Question(question, gold), f"I worked it out.\n\\boxed{{{text}}}").reward == 1.0


def written(form: Form, around: str, value: Sequence[Any]) -> str:
    return around.format(form(value))


@pytest.mark.parametrize("around", AROUND)
def test_any_list_in_any_dress_is_paid(around: str) -> None:
    for form in LISTS:
        if ("text{" in around or "math" in around) and ("\\" in form([1, 2]) or "{" in form([1, 2])):
            continue  # nested braces in \text{...} are no natural answer
        for task, gold in ((NumberList(), (-53, 31, 23)), (ListAnswerTask(), ("Ann", "knave", "7"))):
            text = written(form, around, gold)
            assert paid(task, gold, text), text
            assert not paid(task, (*gold[:-1], 24), text), text


@pytest.mark.parametrize("around", AROUND)
def test_any_grid_in_any_dress_is_paid(around: str) -> None:
    grid = ((1, 2, 3), (4, 5, 6))
    for form in GRIDS:
        text = written(form, around, grid)
        if "text" in around or "math" in around or ("```" in around and "```" in form(grid)) or "`{" in around:
            continue  # several lines stand in no one-line markup
        assert paid(Board(), ("123", "456"), text), text
        assert paid(Matrix(), grid, text), text
        assert not paid(Board(), ("123", "457"), text), text
        assert not paid(Matrix(), ((1, 2, 3), (4, 5, 7)), text), text


# How a list may be written whose parts have marks of their own.
MARKED: list[Form] = [
    lambda parts: ", ".join(f"${part}$" for part in parts),
    lambda parts: ", ".join(f"**{part}**" for part in parts),
    lambda parts: " ".join(f"`{part}`" for part in parts),
    lambda parts: "\n".join(f"{n}. {part}" for n, part in enumerate(parts, 1)),
    lambda parts: "\n".join(f"{n}) {part}" for n, part in enumerate(parts, 1)),
    lambda parts: "\n".join(f"* {part}" for part in parts),
    lambda parts: "\n".join(f"\u2022 {part}" for part in parts),
    lambda parts: " & ".join(map(str, parts)),
    lambda parts: f'"{", ".join(map(str, parts))}"',
    lambda parts: f"\u201c{', '.join(map(str, parts))}\u201d",
    lambda parts: f"= {', '.join(map(str, parts))}",
    lambda parts: rf"\underline{{{', '.join(map(str, parts))}}}",
    lambda parts: rf"\langle {', '.join(map(str, parts))} \rangle",
    lambda parts: rf"\lbrack {', '.join(map(str, parts))} \rbrack",
]
MARKED_ROWS: list[Form] = [
    lambda rows: "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows),
    lambda rows: "\n".join(f"Row {n}: {' '.join(map(str, row))}" for n, row in enumerate(rows, 1)),
    lambda rows: "\n".join(f"{n}. {' '.join(map(str, row))}" for n, row in enumerate(rows, 1)),
    lambda rows: str([" ".join(map(str, row)) for row in rows]),
    lambda rows: '"' + "\n".join(" ".join(map(str, row)) for row in rows) + '"',
]


@pytest.mark.parametrize("form", MARKED)
def test_parts_may_have_marks_of_their_own(form: Form) -> None:
    for task, gold in ((NumberList(), (-53, 31, 23)), (ListAnswerTask(), ("Ann", "knave", "7"))):
        assert paid(task, gold, form(gold)), form(gold)
        for wrong in ((*gold[:-1], 24), (*gold, gold[0]), gold[:-1], gold[::-1]):
            assert not paid(task, gold, form(wrong)), form(wrong)


@pytest.mark.parametrize("form", MARKED_ROWS)
def test_rows_may_have_marks_of_their_own(form: Form) -> None:
    grid = ((1, 2, 3), (4, 5, 6))
    assert paid(Board(), ("123", "456"), form(grid)), form(grid)
    assert paid(Matrix(), grid, form(grid)), form(grid)
    for wrong in (((1, 2, 3), (4, 5, 7)), grid[::-1], grid[:1]):
        assert not paid(Board(), ("123", "456"), form(wrong)), form(wrong)
        assert not paid(Matrix(), grid, form(wrong)), form(wrong)


@pytest.mark.parametrize(
    "text",
    ["- 2\n- 3", "1. 2\n3. 3", "2. 2\n1. 3", "**2** or **3**", "~~2~~, 2, 3", "$2$, $3$, $4$", '"2, 3" or "3, 2"'],
)
def test_marks_that_may_mean_something_are_not_dropped(text: str) -> None:
    assert not paid(NumberList(), (2, 3), text)


def test_hyphens_before_words_are_bullets() -> None:
    assert paid(ListAnswerTask(), ("Sat", "22", "50"), "- Sat\n- 22\n- 50")
    assert not paid(ListAnswerTask(), ("22", "50"), "- 22\n- 50")


@given(
    st.lists(st.integers(-999, 999), min_size=2, max_size=6),
    st.integers(-999, 999),
    st.sampled_from(LISTS),
    st.sampled_from([around for around in AROUND if "text" not in around and "math" not in around]),
)
def test_a_right_value_is_paid_in_any_form_and_a_wrong_one_in_none(
    gold: list[int], other: int, form: Form, around: str
) -> None:
    assert paid(NumberList(), tuple(gold), written(form, around, gold))
    for wrong in ([*gold[:-1], other], [*gold[:-1], gold[-1] + 1], [*gold, other], gold[::-1]):
        if wrong != gold and len(wrong) > 1:
            assert not paid(NumberList(), tuple(gold), written(form, around, wrong))


@pytest.mark.parametrize(
    ("task", "gold", "text", "question"),
    [
        (NumberList(), (-11, 7), "x = -11, y = 7", "Answer with the whole numbers x, y in this order."),
        (NumberList(), (-11, 7), "$x = -11$ and y = 7".replace("$", ""), "What are x and y?"),
        (NumberList(), (-11, 7, 2), "x=-11\ny=7\nz=2", "Answer with x, y, z."),
        (ListAnswerTask(), ("knight", "knave"), "Ann: knight, Ben: knave", "What are Ann, Ben?"),
        (ListAnswerTask(), ("knight", "knave"), "Ann is a knight, Ben is a knave".replace(" a ", " "), "Are Ann, Ben?"),
        (ListAnswerTask(), ("160",), "160 days", "How many days after it?"),
        (ListAnswerTask(), ("160",), r"160 \text{ days}", "How many days after it?"),
        (ListAnswerTask(), ("Mon",), "Monday", ""),
        (ListAnswerTask(), ("10100011",), "1010 0011", ""),
        (Matrix(), (("1/2", "-3/4"),), r"\begin{pmatrix} \frac{1}{2} & -\frac{3}{4} \end{pmatrix}", ""),
    ],
)
def test_labels_units_and_longer_names(task: Task, gold: Any, text: str, question: str) -> None:
    from fractions import Fraction

    if isinstance(task, Matrix):
        gold = tuple(tuple(map(Fraction, row)) for row in gold)
    assert paid(task, gold, text, question)


def test_times_of_day() -> None:
    class Arrival(ListAnswerTask):
        clock = True

    for text in ("Mon, 16, 0", "Mon, 16, 00", "Monday, 16:00", "Mon 16:00", "**Mon, 16, 00**"):
        assert paid(Arrival(), ("Mon", 16, 0), text), text
    for text in ("Mon, 16, 10", "Mon, 16", "Tue, 16, 00", "Mon, 16, 000", "Mon, 16, 00, 00", "Mon 16:00 or 17:00"):
        assert not paid(Arrival(), ("Mon", 16, 0), text), text


@pytest.mark.parametrize(
    ("gold", "text", "question"),
    [
        ((-11, 7), "y = -11, x = 7", "Answer with x, y in this order."),  # labels that say another thing
        ((-11, 7), "x = -11, y = 7", "Answer with y, x in this order."),
        ((-11, 7), "x = -11, y = 7", "Answer with x, y, z."),
        ((-11, 7), "x = -11, x = 7", "Answer with x, x."),
        ((5,), "4 or 5", ""), ((5,), "not 5", ""), ((5,), "The answer is not 5", ""), ((5,), "5?", ""),
        ((5,), "5 and 6", ""), ((5,), "5, 6", ""), ((5,), "maybe 5", ""), ((5,), "5 days", "How many hours?"),
        ((5,), "at least 5", ""), ((5,), "~ 5 or 6", ""), ((1, 2), "1, 2 or 2, 1", ""), ((1, 2), "{1, 2}, {2, 1}", ""),
        ((1, 2), r"\frac{1}{2}", ""), ((1, 2), "1, 2, ...", ""), ((3,), "1 + 2", ""), ((12,), "1 2", ""),
        ((1, 2), "12", ""), ((0, 1), r"\begin{vmatrix} 0 & 1 \end{vmatrix}", ""), ((5,), r"\sqrt{25}", ""),
        ((5,), "-5", ""), ((5,), "5%", ""), ((1, 2), "[1, 2", ""), ((1, 2), "1, 2)", ""), ((5,), "5!", ""),
    ],
)  # fmt: skip
def test_what_says_something_else_is_not_paid(gold: tuple[int, ...], text: str, question: str) -> None:
    for around in AROUND[:20]:
        assert not paid(NumberList(), gold, around.format(text), question), around.format(text)


@given(st.text(max_size=300))
def test_any_text_has_readings_and_the_first_is_itself(text: str) -> None:
    found = list(readings(text, text))
    assert found[:1] == ([text] if text else found[:1])
    assert len(found) <= 16


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["$", "**", "`", "[", "(1),(", "\\text{", "\\frac{1}{", "a and ", "x = ", "->", "\\\\", ". ", "'"]
)
def test_readings_take_time_that_grows_no_faster_than_the_text(unit: str) -> None:
    """Counted in characters handled: a reading is never longer than its answer by more than half."""
    text = (unit * LONGEST)[:LONGEST]
    assert all(len(reading) <= 1.5 * len(text) for reading in readings(text))
    assert len(plain(text)) <= 1.5 * len(text)


def test_quotient_and_remainder_with_commas_between_thousands() -> None:
    task = LongDivision()
    question = "Divide 1141305 by 88. Answer with the quotient and the remainder, in this order: q, r."
    forms = [
        "{q:,}, {r}", "{q:,} remainder {r}", "{q:,} R {r}", "{q:,} r{r}", "q = {q:,}, r = {r}", "{q:,}; {r}",
        "Quotient: {q:,}, Remainder: {r}", r"{q:,}\text{{ remainder }}{r}", "{q:,} rem. {r}",
        "**{q:,} remainder {r}**", "quotient {q:,} and remainder {r}", "{q}, {r}",
    ]  # fmt: skip
    for form in forms:
        text = form.format(q=12_969, r=33)
        assert paid(task, (12_969, 33), text, question), text
        for q, r in ((12_969, 34), (12_968, 33), (33, 12_969), (12_969_033, 3)):
            assert not paid(task, (12_969, 33), form.format(q=q, r=r), question), form.format(q=q, r=r)
    for text in (
        "12,969,33", "12,969,033", "12,969 33", "12,969, 33 or 12,969, 34", "12,969, 33?", "not 12,969, 33",
        "12,969, 33, 12,970, 1", "12,96, 33", "1 2,969, 33", "12,969 remainder 33 or 34", "12,969 remainder -33",
        "remainder 33, quotient 12,968", "12,969.375", "12,969, 0x21", "about 12,969, 33", "12,969 remainder 33%",
    ):  # fmt: skip
        assert not paid(task, (12_969, 33), text, question), text
    assert paid(task, (12, 969), "12,969", question)  # two numbers without a blank, as before
    assert paid(task, (12_969, 1_033), "12,969, 1,033", question)
