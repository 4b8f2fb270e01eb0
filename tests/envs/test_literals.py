"""Objects that a data set published as the ``str`` of a Python value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core import json_text
from rlvr.envs.core.json_text import load_json_or_literal
from rlvr.envs.core.tables import look_up

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=4) | st.lists(JSON, max_size=4))
def test_the_text_of_a_python_value_is_read_as_the_value(value: Any) -> None:
    assert load_json_or_literal(str(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a': __import__('os')}",
        "{'a': open}",
        "{1, 2}",
        "[b'a']",
        "[1j]",
        "['a', 1e999]",
        "{'a': 9**9**9}",
        "['a' * 10**9]",
        "[" * 150 + "]" * 150,
        "[" * 100_000,
        "{'a': " + "-" * 100_000 + "1}",
        "['" + "\\d" * 3 + "', f'{1}']",
        "{'a': \x00}",
        "[" + "9" * 5_000 + ", 'a']",
    ],
)
def test_what_is_no_value_of_json_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="it is ") as caught:
        load_json_or_literal(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_literal_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_COMMAS", 10)
    with pytest.raises(ValueError, match="too large"):
        load_json_or_literal("['a'" + ", 1" * 11 + "]")


def test_a_path_reaches_into_a_literal() -> None:
    row = {"verification_info": "{'language': 'python', 'test_cases': [{'input': \"it's\"}]}"}
    assert look_up(row, "verification_info.language") == "python"
    assert look_up(row, "verification_info.test_cases.0.input") == "it's"
    assert look_up({"a": "{'b': open}"}, "a.b") is None
