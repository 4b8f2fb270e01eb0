"""The extraction contract: which text is the final answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.rewards import BadOption
from rlvr.envs.rewards.extraction import (
    MARKERS,
    MAX_ANSWER_CHARS,
    MAX_COMPLETION_CHARS,
    TAG_FIRST,
    extract,
    first_sentence,
    visible_text,
)


@pytest.mark.parametrize(
    ("completion", "answer", "marker"),
    [
        ("\\boxed{1} then \\boxed{2}", "2", "boxed"),
        ("\\boxed{1} <answer>2</answer> #### 3\nAnswer: 4", "1", "boxed"),
        ("<answer>2</answer> #### 3\nAnswer: 4", "2", "tag"),
        ("Answer: 4\n#### 3", "3", "hash"),
        ("#### 3\nAnswer: 4", "4", "line"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}", "boxed"),
        ("\\boxed{a \\} b}", "a \\} b", "boxed"),
        ("\\boxed{1 \\boxed{2} 3}", "1 {2} 3", "boxed"),
        ("<answer>a</answer><answer>b</answer>", "b", "tag"),
        ("<answer>a<answer>b</answer>", "b", "tag"),
        ("<answer>a</answer> b</answer>", "a", "tag"),
        ("**Final Answer:** **7**.", "7.", "line"),
        ("#### 7\nmore", "7", "hash"),
        ("text ####7", "7", "hash"),
        ("I put it in \\boxed, as asked: \\boxed{7}; see \\boxed.", "7", "boxed"),
    ],
)
def test_what_counts_as_the_answer(completion: str, answer: str, marker: str) -> None:
    found = extract(completion)
    assert (found.answer, found.marker) == (answer, marker)


@pytest.mark.parametrize(
    "completion",
    ["", "7", "\\boxed{7", "\\boxed{}", "<answer>7", "<answer> </answer>", "##### 7", "Answer:"],
)
def test_no_answer(completion: str) -> None:
    found = extract(completion)
    assert found.answer is None
    assert found.reason


@pytest.mark.parametrize(
    ("completion", "visible"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a", ""),
        ("a<think>b", "a"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>b<think>c", "b"),
        ("<thinking>a</thinking>b", "b"),
        ("<THINK>a</Think>b", "b"),
        ("a<|im_end|>b", "a"),
        ("a</s>b", "a"),
        ("a<tool_response>b</tool_response>c", "ac"),
        ("a<tool_response>b", "a"),
        ("a < b > c", "a < b > c"),
        ("İ<think>a</THINK>b", "b"),
    ],
)
def test_what_is_visible(completion: str, visible: str) -> None:
    assert visible_text(completion) == visible


def test_markers_are_an_option() -> None:
    text = "\\boxed{1} <answer>2</answer>"
    assert extract(text, TAG_FIRST).answer == "2"
    assert extract(text, ("tag",)).answer == "2"
    assert extract(text, ("hash",)).answer is None
    for bad in ((), ("box",), "boxed"):
        with pytest.raises(BadOption, match="markers"):
            extract(text, bad)


def test_caps_are_named() -> None:
    assert f"{MAX_COMPLETION_CHARS:,}" in extract("a" * (MAX_COMPLETION_CHARS + 1)).reason
    assert f"{MAX_ANSWER_CHARS:,}" in extract("#### " + "1" * (MAX_ANSWER_CHARS + 1)).reason
    assert extract("#### " + "1" * MAX_ANSWER_CHARS).answer is not None


def test_a_sentence_ends_at_its_full_stop_only_in_running_text() -> None:
    assert first_sentence(extract("The answer is 7.5. It was hard.")) == "7.5"
    assert first_sentence(extract("\\boxed{7. 5}")) == "7. 5"


@given(st.text(), st.sampled_from(MARKERS))
def test_any_text_has_at_most_one_answer(text: str, marker: str) -> None:
    found = extract(text, (marker,))
    assert (found.answer is None) == bool(found.reason)
    assert found.answer is None or (found.answer in text.replace("\\boxed", "").replace("\\fbox", "") and found.answer)


@given(st.text(alphabet=st.characters(blacklist_characters="{}\\"), min_size=1).filter(lambda s: s.strip()))
def test_a_box_gives_back_what_was_put_in(text: str) -> None:
    if "<" not in text:
        assert extract(f"so \\boxed{{{text}}}").answer == text.strip()


@given(st.text())
def test_nothing_before_the_end_of_thinking_counts(text: str) -> None:
    assert extract(f"<think>{text}\\boxed{{7}}</think>").answer is None


def test_an_or_between_paragraphs_offers_a_second_answer() -> None:
    assert extract("Answer: 5\n\nor\n\n6").answer == "5\n\nor\n\n6"
    assert extract("Answer: 5\n\nAlternatively:\n6").answer == "5\n\nAlternatively:\n6"
    assert extract("Answer: 5\n\nOr you may check it.").answer == "5"
    assert extract("Answer:\n12\n34").block == "12\n34"
    assert extract("Answer:\n12\n34\n\nor\n\n13\n24").block == ""
