"""IFEval by the semantics of its authors' program; faults that other programs have; hostile replies."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.core.tables import DataError
from rlvr.envs.instructions.ifeval import CHECKS, NEED_LANGDETECT, compare, follows, split_sentences, word_tokens

AT_LEAST, LESS = {"relation": "at least"}, {"relation": "less than"}
# instruction: (arguments, replies that follow it, replies that do not)
CASES = {
    "keywords:existence": ({"keywords": ["tea", "cup"]}, ["A TEACUP."], ["A cup."]),
    "keywords:frequency": ({"keyword": "tea", "frequency": 2, **AT_LEAST}, ["Tea, tea.", "A teacup of tea."], ["Tea."]),
    "keywords:forbidden_words": ({"forbidden_words": ["tea"]}, ["A teacup."], ["A cup of Tea!"]),
    "keywords:letter_frequency": ({"letter": "T", "let_frequency": 2, "let_relation": "at least"}, ["Tt"], ["T"]),
    "length_constraints:number_sentences": ({"num_sentences": 2, **AT_LEAST}, ["One. Two."], ["Dr. No came."]),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2},
        ["One\n***\nTwo", "***\nOne\n***\nTwo\n***"],
        ["One\n\nTwo", "One\n***\n***\nTwo"],
    ),
    "length_constraints:number_words": ({"num_words": 3, **LESS}, ["One two."], ["It's two."]),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "come"},
        ["One.\n\nCome, all.", "One.\n\n'Come' all."],
        ["One.\n\nAll come.", "Come.", "One.\n\nCome.\n\nThree."],
    ),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, ["[a] and [b]", "[[a] [b]"], ["[a\n] [b]"]),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, ["Bye.\nP.S. Tea.", "p. s. x"], ["PS: tea"]),
    "detectable_format:number_bullet_lists": (
        {"num_bullets": 2},
        ["* a\n* b", "- a\n  * b", "*\na\n* b", "\n\n* a\n- b"],
        ["* a", "* a\n* b\n* c", "** a\n* b", "*\n* b"],
    ),
    "detectable_format:constrained_response": ({}, ["So: My answer is no."], ["My answer is No."]),
    "detectable_format:number_highlighted_sections": ({"num_highlights": 2}, ["*a* and *b*", "**a**, *b*"], ["*a*"]),
    "detectable_format:multiple_sections": (
        {"section_spliter": "Day", "num_sections": 2},
        ["Day 1 a Day 2 b"],
        ["Day 1 a day 2 b"],
    ),
    "detectable_format:json_format": ({}, ['{"a": 1}', "```json\n[1]\n```", "3"], ["{a: 1}", "[" * 9_000]),
    "detectable_format:title": ({}, ["<<tea>> x", "a << b >>"], ["<<>>", "<< >>", "<<a\nb>>"]),
    "combination:two_responses": ({}, ["a******b", "******a******b******"], ["a******a", "a******b******c", "a***b"]),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Say tea."}, ["say TEA. Yes."], ["Yes. Say tea."]),
    "startend:end_checker": ({"end_phrase": "See you."}, ["Bye, see you.", '"See you."'], ["See you. Bye."]),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "at least"},
        ["TEA for ALL", "I can, I will", "CAN'T"],
        ["TEA for all"],
    ),
    "punctuation:no_comma": ({}, ["Tea."], ["Well, tea."]),
    "startend:quotation": ({}, ['"Tea."', ' "Tea." \n'], ["“Tea.”", '"Tea.', '"']),
}


def test_every_instruction_that_needs_no_language_has_cases():
    assert set(CASES) | NEED_LANGDETECT == set(CHECKS)
    assert len(CHECKS) == 25


@pytest.mark.parametrize("name", CASES)
def test_an_instruction_is_checked(name):
    arguments, followed, missed = CASES[name]
    assert [follows(text, name, arguments) for text in followed] == [True] * len(followed)
    assert [follows(text, name, arguments) for text in missed] == [False] * len(missed)


@pytest.mark.parametrize("name", CASES)
def test_an_empty_reply_follows_nothing(name):
    """Less than three words is no achievement of a reply without any, and 0 is not what 0 is compared with."""
    arguments = dict(CASES[name][0])
    assert not follows("", name, arguments)
    assert not follows(" \n", name, arguments)


def test_nought_is_a_number_and_not_a_missing_one():
    assert follows("Tea.", "keywords:frequency", {"keyword": "milk", "frequency": 0, **AT_LEAST})
    assert not follows("Milk.", "keywords:frequency", {"keyword": "tea", "frequency": 0, **LESS})
    assert follows("None here.", "detectable_format:number_bullet_lists", {"num_bullets": 0})
    assert not follows("- one", "detectable_format:number_bullet_lists", {"num_bullets": 0})


def test_keywords_are_texts_and_no_patterns():
    assert follows("C++ (new)", "keywords:existence", {"keywords": ["c++", "(new"]})
    assert not follows("CCC", "keywords:existence", {"keywords": ["C+"]})
    assert follows("abc", "keywords:forbidden_words", {"forbidden_words": ["a.c"]})


def test_a_mark_is_counted_where_a_row_names_one():
    assert follows(
        "#a #b", "keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. No met Mr. Yes. They ate.", 2),
        ("It costs 3.50 euros. Really!", 2),
        ("“Come.” He left.", 2),
        ("J. S. Bach wrote it.", 1),
        ("Wait... what?", 1),
        ("We met at 6 p.m. Then we ate.", 2),
    ],
)
def test_sentences_are_divided_as_by_a_reader(text, count):
    assert len(split_sentences(text)) == count


def test_contractions_are_two_tokens():
    assert word_tokens('I can\'t, "U.S." says') == ["I", "ca", "n't", "U.S.", "says"]


def test_a_relation_or_an_argument_that_is_unknown_is_named():
    with pytest.raises(DataError, match="'less than' or 'at least', got 'more than'"):
        compare(1, 1, "more than")
    with pytest.raises(DataError, match="'a:b' is no instruction of IFEval"):
        follows("x", "a:b", {})
    with pytest.raises(DataError, match=r"arguments of punctuation:no_comma .*number"):
        follows("x", "punctuation:no_comma", {"number": 3})


@settings(max_examples=60)
@given(st.text(max_size=300), st.sampled_from(sorted(CASES)))
def test_no_reply_makes_a_check_raise(text, name):
    assert follows(text, name, CASES[name][0]) in (True, False)


@pytest.mark.slow
@pytest.mark.timeout(20)  # a quadratic scan takes minutes
@pytest.mark.parametrize("part", ["<<", "[", "\n", " ", "*", "*\n", "p. ", '"', "***", "a.", "A", "Day ", "\\", "'"])
def test_no_reply_is_scanned_in_quadratic_time(part):
    text = part * (400_000 // len(part)) + "x"
    for name, (arguments, *_) in CASES.items():
        follows(text, name, arguments)


# rows


def made(path, rows, **settings):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return gym.make("rlvr/IFEval-v0", data_files=str(path), disable_env_checker=True, **settings).unwrapped


ROW = {
    "key": 1,
    "prompt": "Use tea twice and no comma.",
    "instruction_id_list": ["keywords:frequency", "keywords:frequency", "punctuation:no_comma"],
    "kwargs": [
        {"keyword": "tea", "frequency": 2, "relation": "at least", "num_words": None},
        {"keyword": "tea", "frequency": 3, "relation": "less than"},
        {},
    ],
}


def test_an_instruction_that_a_row_has_twice_counts_twice(tmp_path):
    env = made(tmp_path / "test.jsonl", [ROW])
    parts = {}
    for text in ("Tea and tea.", "Tea.", "Tea tea tea."):
        env.reset(seed=0)
        _, reward, _, _, info = env.step(text)
        parts[text] = (reward, *info["verdict"].parts.values())
    assert parts == {
        "Tea and tea.": (1.0, 1.0, 1.0, 1.0),
        "Tea.": (0.0, 0.0, 1.0, 1.0),
        "Tea tea tea.": (0.0, 1.0, 0.0, 1.0),
    }
    assert list(info["verdict"].parts) == ["keywords:frequency", "keywords:frequency 2", "punctuation:no_comma"]


def test_a_thought_is_no_part_of_the_reply(tmp_path):
    env = made(tmp_path / "test.jsonl", [ROW])
    env.reset(seed=0)
    assert env.step("<think>Well, tea, tea, tea</think>Tea and tea.")[1] == 1.0


def test_a_row_without_a_solution_has_no_expert(tmp_path):
    env = made(tmp_path / "test.jsonl", [ROW])
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="no reply to show"):
        env.solve()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instruction_id_list": ["a:b"], "kwargs": [{}]}, "row 0: 'a:b' is no instruction"),
        ({"instruction_id_list": [], "kwargs": []}, "row 0: there is no instruction"),
        ({"kwargs": [{}]}, "3 instructions and 1 sets of arguments"),
        ({"kwargs": "[1"}, "row 0: "),
        ({"kwargs": {"a": 1}}, "lists, got dict"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"x": 1}]}, "are not what it takes"),
        ({"prompt": " "}, "prompt must be text"),
    ],
)
def test_a_bad_row_is_refused_when_it_is_read(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        made(tmp_path / "test.jsonl", [ROW | change])


def test_a_language_needs_langdetect_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "langdetect", None)
    row = ROW | {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "de"}]}
    with pytest.raises(ImportError, match=r"need langdetect: pip install 'rlvr\[instructions\]'"):
        made(tmp_path / "test.jsonl", [row])
