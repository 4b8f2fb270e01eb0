"""Choices, countdown, formats, actions, JSON and question answering: what the hostile set does not say already."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rlvr.envs.rewards import BadOption, agrade, grade, grade_batch
from rlvr.envs.rewards.graders.action import match_action, read_action
from rlvr.envs.rewards.graders.json_schema import NotJSON, load, same_json
from rlvr.envs.rewards.grading import BUILT_IN


class City(BaseModel):
    city: str
    n: int


# -- choice


@given(st.permutations(["London", "Paris", "Rome", "Bern"]), st.integers(0, 3))
def test_a_shuffled_choice_is_found_by_letter_and_by_text(options: list[str], place: int) -> None:
    letter, text = "ABCD"[place], options[place]
    for answer in (letter, text, f"{letter}) {text}", f"({letter}) {text}.", f"\\text{{{text}}}"):
        for other in "ABCD":
            verdict = grade("choice", f"\\boxed{{{answer}}}", other, options=options)
            assert verdict.reward == float(other == letter)


@given(
    st.lists(st.sampled_from("ABCD"), min_size=2, max_size=6), st.sampled_from([" ", ", ", " or ", "/", "", "\n", ") "])
)
def test_several_letters_are_no_choice(letters: list[str], separator: str) -> None:
    for gold in "ABCD":
        assert grade("choice", f"\\boxed{{{separator.join(letters)}}}", gold).reward == 0


def test_choice_options_are_checked() -> None:
    assert grade("choice", "\\boxed{3}", "3", letters="1234").reward == 1
    assert grade("choice", "\\boxed{a}", "a", letters="aA").reward == 1
    assert grade("choice", "\\boxed{A}", "a", letters="aA").reward == 0
    assert grade("choice", "\\boxed{A}", "E").status == "verifier_error"
    for letters, options in (("A", None), ("AA", None), ("AB", ["x"]), ("AB", "xy")):
        with pytest.raises(BadOption):
            grade("choice", "\\boxed{A}", "A", letters=letters, options=options)


# -- countdown


def solution(numbers: list[int], rng: random.Random) -> tuple[str, Any]:
    """A random expression over all numbers, and its value in Python's own arithmetic of fractions."""
    from fractions import Fraction

    parts = [(str(number), Fraction(number)) for number in numbers]
    while len(parts) > 1:
        rng.shuffle(parts)
        (left, a), (right, b) = parts.pop(), parts.pop()
        operator = rng.choice("+-*/" if b else "+-*")
        value = {"+": a + b, "-": a - b, "*": a * b}.get(operator)
        parts.append((f"({left} {operator} {right})", a / b if value is None else value))
    return parts[0]


@given(st.lists(st.integers(1, 99), min_size=2, max_size=6), st.integers(0, 10**6))
def test_countdown_solutions_and_their_mutations(numbers: list[int], seed: int) -> None:
    text, value = solution(numbers, random.Random(seed))
    if value.denominator != 1:
        target = int(value) + 1
        assert grade("countdown", f"<answer>{text}</answer>", {"numbers": numbers, "target": target}).reward == 0
        return
    reference = {"numbers": numbers, "target": int(value)}
    assert grade("countdown", f"<answer>{text}</answer>", reference).reward == 1
    assert grade("countdown", f"<answer>{text} = {value}</answer>", reference).reward == 1
    assert grade("countdown", f"<answer>{text} + 0</answer>", reference).reward == 0
    assert grade("countdown", f"<answer>{value}</answer>", reference).reward == 0
    assert grade("countdown", f"<answer>{text}</answer>", reference | {"target": int(value) + 1}).reward == 0
    assert grade("countdown", f"<answer>{text}</answer>", reference | {"numbers": [*numbers, 1]}).reward == 0
    assert (
        grade("countdown", f"<answer>{text}</answer>", reference | {"numbers": [*numbers, 1]}, use_all=False).reward
        == 1
    )


@pytest.mark.parametrize(
    "reference", [None, {}, {"numbers": [1]}, {"numbers": "12", "target": 3}, {"numbers": [1, 2.5], "target": 3}, "65"]
)
def test_a_bad_countdown_reference_is_a_fault_of_ours(reference: Any) -> None:
    assert grade("countdown", "<answer>1+2</answer>", reference).status == "verifier_error"


def test_countdown_operators_are_an_option() -> None:
    reference = {"numbers": [2, 3], "target": 6}
    assert grade("countdown", "<answer>2*3</answer>", reference).reward == 1
    assert grade("countdown", "<answer>2*3</answer>", reference, operators="+-").reward == 0
    with pytest.raises(BadOption, match="operators"):
        grade("countdown", "<answer>2*3</answer>", reference, operators="^")


# -- format


@given(st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "x", " "]), max_size=8))
def test_only_one_arrangement_of_tags_is_the_format(pieces: list[str]) -> None:
    tags = [piece for piece in pieces if piece.startswith("<")]
    expected = tags == ["<think>", "</think>", "<answer>", "</answer>"]
    if expected:
        spans = "".join("|" if piece.startswith("<") else piece for piece in pieces).split("|")
        expected = [bool(span.strip()) for span in spans] == [False, True, False, True, False]
    assert grade("format", "".join(pieces), None).reward == float(expected)


def test_format_options_are_checked() -> None:
    for tags in ((), "think", ("a b",), ("a", "a"), ("<a>",)):
        with pytest.raises(BadOption):
            grade("format", "x", None, tags=tags)


# -- action


@given(st.lists(st.text(alphabet="abcUD 012,", min_size=1, max_size=8), min_size=1, max_size=6, unique=True))
def test_every_legal_action_is_read_back_and_no_other(names: list[str]) -> None:
    legal = sorted({" ".join(name.split()) for name in names} - {""})
    for action in legal:
        assert match_action(action, legal) == action
        assert read_action(f"\\boxed{{{action}}}", legal)[0] == action
    for left, right in itertools.permutations(legal, 2):
        joined = f"{left} or {right}"
        assert match_action(joined, legal) is None


def test_bare_actions_are_an_option() -> None:
    assert read_action("up", ["up", "down"]) == ("up", "")
    assert read_action("up", ["up", "down"], bare=False)[0] is None
    assert grade("action", "\\boxed{up}", "left", legal=["up"]).status == "verifier_error"
    for legal in ((), "up"):
        with pytest.raises(BadOption, match="legal"):
            grade("action", "\\boxed{up}", "up", legal=legal)


# -- JSON


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@given(json_values, json_values)
def test_json_values_equal_themselves_alone(value: Any, other: Any) -> None:
    text = json.dumps(value)
    assert same_json(load(text), value)
    assert same_json(value, other) == (json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True))
    if value is not None:
        assert grade("json", f"```json\n{text}\n```", value).reward == 1


def test_json_against_pydantic_models() -> None:
    good = '{"city": "Paris", "n": 3}'
    assert grade("json", good, City).reward == 1
    assert grade("json", good, City(city="Paris", n=3), schema=City).reward == 1
    assert grade("json", good, City(city="Rome", n=3), schema=City).reward == 0
    assert grade("json", '{"city": "Paris", "n": "3"}', City).reward == 0
    assert grade("json", '{"city": "Paris", "n": "3"}', None, schema=City, strict=False).reward == 1
    assert "n:" in grade("json", '{"city": "Paris", "n": null}', City).reason
    assert grade("json", "[1, 2]", None, schema=list[int]).reward == 1
    assert grade("json", "{}", None).status == "verifier_error"


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, [1, 2], True),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, [1, 2, 3], False),
        ({"type": "array", "items": {"type": "integer"}}, [1, "2"], False),
        ({"enum": ["a", 1]}, 1, True),
        ({"enum": ["a", 1]}, True, False),
        ({"const": 1}, 1.0, True),
        ({"type": ["string", "null"], "maxLength": 2}, None, True),
        ({"type": ["string", "null"], "maxLength": 2}, "abc", False),
        ({"anyOf": [{"type": "string"}, {"type": "number", "minimum": 3}]}, 2, False),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "1"}, False),
    ],
)
def test_json_schemas(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert grade("json", json.dumps(value), None, schema=schema).reward == float(fits)


def test_a_json_schema_that_is_not_understood_is_refused_not_ignored() -> None:
    for schema in ({"pattern": "a+"}, {"type": "int"}, {"items": {"format": "date"}}):
        with pytest.raises(BadOption, match="schema"):
            grade("json", "[1]", None, schema=schema)


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", "NaN", "[1,]", '{"a": 1, "a": 1}', "1e999", "[" * 99, "9" * 5000]
)
def test_not_json(text: str) -> None:
    with pytest.raises(NotJSON):
        load(text)


# -- question answering


def test_f1_is_partial_between_nothing_and_everything() -> None:
    assert grade("f1", "<answer>Barack Obama</answer>", "Barack Obama").status == "correct"
    half = grade("f1", "<answer>Obama</answer>", ["Barack Obama", "x"])
    assert (half.status, half.reward) == ("partial", pytest.approx(2 / 3))
    assert half.parts == {"f1": half.reward}
    assert grade("f1", "<answer>Obama</answer>", "Barack Obama", minimum=0.9).reward == 0
    assert grade("f1", "<answer>Merkel</answer>", "Barack Obama").status == "wrong"
    assert grade("f1", "<answer>" + "Obama " * 201 + "</answer>", "Barack Obama").status == "unparsable"
    assert grade("exact", "<answer>The  Eiffel-Tower!</answer>", "eiffeltower").reward == 1
    assert grade("exact", "<answer>The X</answer>", "X", normalize=False).reward == 0
    assert grade("exact", "<answer>X</answer>", []).status == "verifier_error"
    with pytest.raises(BadOption, match="minimum"):
        grade("f1", "<answer>X</answer>", "X", minimum=2.0)


# -- all of them


def test_a_batch_is_the_grades_in_order_and_so_is_asyncio() -> None:
    texts, golds = ["\\boxed{1}", "2", "\\boxed{3}"], ["1", "2", None]
    singles = [grade("number", text, gold) for text, gold in zip(texts, golds, strict=True)]
    assert grade_batch("number", texts, golds) == singles

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(agrade("number", t, g) for t, g in zip(texts, golds, strict=True)))

    assert asyncio.run(all_of_them()) == singles


def test_importing_the_graders_is_light() -> None:
    """No grader of the fast kinds may pull in computer algebra or a tensor library."""
    kinds = [address.partition(":")[0] for kind, address in BUILT_IN.items() if kind != "code"]
    script = f"import sys\nfor name in {kinds}: __import__(name)\n" + (
        "bad = {'sympy', 'math_verify', 'torch', 'transformers', 'datasets', 'pandas', 'mpmath'} & set(sys.modules)\n"
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("said", "reference"),
    [
        ("-8", "8"), ("8", "-8"), ("\u22128", "8"), ("-.5", ".5"), ("1.5", "15"), ("1,5", "15"), ("3/4", "34"),
        ("1:30", "130"), ("10^2", "102"), ("3-4", "34"), ("about 1.5", "about 15"), ("$-8", "$8"),
    ],
)  # fmt: skip
def test_another_number_is_another_text(said, reference):
    for name in ("exact", "f1"):
        assert grade(name, f"<answer>{said}</answer>", reference).reward < 1, name
        assert grade(name, f"<answer>{said}</answer>", said).reward == 1, name


@pytest.mark.parametrize(
    ("said", "reference"),
    [
        ("1,000", "1000"), ("1,234,567 people", "1234567 people"), ("10.", "10"), ("- 8", "8"), ("(8)", "8"),
        ("+8", "8"), ("\u20138", "-8"), ("$8", "8"), ("COVID-19", "covid19"), ("No. 5", "no 5"), ("U.S.", "US"),
        ("1990\u201395", "1990-95"),
    ],
)  # fmt: skip
def test_marks_that_leave_a_number_what_it_is_count_for_nothing(said, reference):
    for name in ("exact", "f1"):
        assert grade(name, f"<answer>{said}</answer>", reference).reward == 1, name


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_integers_are_equal_texts_only_if_they_are_equal(one, other):
    assert grade("exact", f"<answer>{one}</answer>", str(other)).reward == (one == other)


@pytest.mark.parametrize("body", ["(probably)", "(most likely)", "(I think)", ": maybe", "(my best guess)", "- unsure"])
def test_a_doubt_behind_a_letter_is_no_answer(body: str) -> None:
    assert grade("choice", f"\\boxed{{B {body}}}", "B").reward == 0
    assert grade("choice", "\\boxed{(B)^2}", "B").reward == grade("choice", "\\boxed{(B)_1}", "B").reward == 0
    assert grade("choice", "\\boxed{B) Likely outcomes}", "B").reward == 1
