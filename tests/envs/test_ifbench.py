"""IFBench by its authors' semantics: replies that follow each instruction, that do not, and hostile ones."""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.core.tables import DataError
from rlvr.envs.instructions.ifbench import CAPITALS, CHECKS, NAMES, follows, sentences, tokens

NEED_A_PACKAGE = {"words:start_verb", "words:odd_even_syllables", "format:emoji"}
KEYWORDS = {f"keyword{i}": word for i, word in enumerate(("one", "two", "three", "four", "five"), 1)}
TIMES = "one " + "two " * 2 + "three " * 3 + "four " * 5 + "five " * 7
STATES = [f"Z{n:03}" for n in range(98, 40, -1)]
QUESTIONS = [f"Question {n}. {'Why' * n}?\n" + "\n".join(f"{letter}) tea" for letter in "ABCDE") for n in range(1, 5)]
CITIES = "ID,Country,City,Year,Count\n" + "\n".join(f"{n},Chad,Abeche,1999,{n}" for n in range(7))
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(f'{n},a,"b!",1,2' for n in range(14))
GRADES = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + "\n".join(
    '"1"\t"b"\t"c"\t"d"\t"9"' for _ in range(3)
)
# instruction: (arguments, replies that follow it, replies that do not)
CASES = {
    "count:conjunctions": ({"small_n": 2.0}, ["Tea and milk or jam.", "Tea and and, jam."], ["Tea and milk and jam."]),
    "count:keywords_multiple": (KEYWORDS, [TIMES], [TIMES + "one", TIMES.replace("two", "", 1)]),
    "count:numbers": ({"N": 2.0}, ["3 or 14", "3.5 or 14"], ["3, 4 and 5", "none"]),
    "count:person_names": ({"N": 2.0}, [" ".join(NAMES[:2]), "Emmanuel and Liam"], ["Emma and Emma", "Max and Liam"]),
    "count:pronouns": ({"N": 2.0}, ["She and I.", "he/she"], ["She.", "They're here."]),
    "count:punctuation": (
        {},
        ["Tea, or: jam; what?! No! Yes? Good.", "‽.,!;?:"],
        ["What?!", "Tea, or: jam; what?! No."],
    ),
    "count:unique_word_count": ({"N": 3.0}, ["Tea, milk, jam"], ["Tea tea. TEA! Milk"]),
    "count:word_count_range": ({"min_words": 2.0, "max_words": 3.0}, ["It's", "a b c"], ["tea", "a b c d"]),
    "count:words_japanese": ({"N": 2.0}, ["tea お茶 tea お茶", "tea 12"], ["tea tea", "お茶 tea"]),
    "custom:character_reverse": ({}, ["Elgae dlab!"], ["bald eagle"]),
    "custom:csv_city": (
        {},
        [CITIES],
        [CITIES + "\n8,a,b,c,d", CITIES.replace("ID", "Id"), CITIES.replace(",1999", "")],
    ),
    "custom:csv_quotes": (
        {},
        [GRADES],
        [GRADES.replace('"b"', "b"), GRADES + '\n"1"', GRADES.replace("Score", "Mark")],
    ),
    "custom:csv_special_character": ({}, [PRODUCTS], [PRODUCTS.replace("!", ""), PRODUCTS + "\n1,a,b,1,2"]),
    "custom:date_format_list": (
        {},
        ["1799-11-09, 1815-06-18"],
        ["1815-6-18", "1822-01-01", "1800-02-30", "1800-04-31"],
    ),
    "custom:european_capitals_sort": ({}, [", ".join(CAPITALS), "Reykjavík," + ",".join(CAPITALS[1:])], ["Oslo, Bern"]),
    "custom:mcq_count_length": (
        {},
        ["\n".join(QUESTIONS), "\n\n\n".join(QUESTIONS)],
        ["\n".join(QUESTIONS[::-1]), "\n".join(QUESTIONS[:3]), "Here: " + "\n".join(QUESTIONS), "Q"],
    ),
    "custom:multiples": ({}, ["14, 21, 28, 35, 42, 49"], ["14 21 28", "7, 14, 21, 28, 35, 42, 49"]),
    "custom:reverse_newline": (
        {},
        ["Here:\nZimbabwe\n" + "\n".join(STATES)],
        ["Zimbabwe\n" + "\n".join(STATES[::-1]), "Zimbabwe\nZambia", "\n".join(STATES)],
    ),
    "custom:sentence_alphabet": (
        {},
        [" ".join(f"{chr(97 + i)}nd so." for i in range(26))],
        [" ".join(f"{chr(97 + i)}nd so." for i in range(25)), "A. B."],
    ),
    "custom:word_reverse": ({}, ["eagle bald the is It."], ["It is the bald eagle.", "reverse"]),
    "format:emoji": ({}, ["Tea 😀. Jam 🎉!", "Tea. 😀 Jam 🎉", "Tea. 😀"], ["Tea 😀. Jam.", "Tea."]),
    "format:line_indent": ({}, ["a\n b\n  c", "a\n\n b"], ["a\nb", " a\nb"]),
    "format:list": ({"sep": "!?!?"}, ["!?!? a\n!?!? b"], ["!?!? a", "- a\n- b"]),
    "format:newline": ({}, ["Tea\nmilk\n\njam."], ["Tea milk\njam", "Tea milk"]),
    "format:no_bullets_bullets": (
        {},
        ["Tea. Milk.\n* a\n* b"],
        ["Tea.\n* a\n* b", "Tea. Milk.\n* a", "A. B.\n* a\nC.\n* b"],
    ),
    "format:no_whitespace": ({}, ["Tea,milk"], ["Tea, milk", "Tea\nmilk", "Tea\u3000milk"]),
    "format:options": ({"options": "yes/no/maybe"}, ["Maybe.", " no"], ["yes, no", "It is yes"]),
    "format:output_template": (
        {},
        ["My Answer: a My Conclusion: b Future Outlook: c"],
        ["My Answer: a", "my answer: a my conclusion: b future outlook: c"],
    ),
    "format:parentheses": ({}, ["(a [b {c (d [e])}])"], ["(a [b {c (d)}])", "((((a))))", "([)]([)]"]),
    "format:quote_unquote": ({}, ['"Tea" is a drink.', "Tea."], ['He said "tea"', '"a" "b"', '"a""b" c', "12."]),
    "format:quotes": ({}, ['"a \'b "c" d\' e"'], ["\"a 'b' c\"", "'a'"]),
    "format:sub-bullets": ({}, ["* a\n - b\n* c\n - d"], ["* a\n* b\n - c"]),
    "format:thesis": (
        {},
        ["<i>Tea.</i> More.", "So <em>tea</em> it is"],
        ["<i>Tea.</i>", "<i> </i> x", "Tea.", "</i>x"],
    ),
    "format:title_case": ({}, ["Tea And Milk", "Tea A TV"], ["Tea and Milk", "Tea tEA"]),
    "ratio:overlap": (
        {"reference_text": "tea and milk", "percentage": 100.0},
        ["tea and milk", "and milk"],
        ["tea and jam", "te"],
    ),
    "ratio:sentence_balance": ({}, ["Tea. Tea? Tea!"], ["Tea. Tea?", "Tea."]),
    "ratio:sentence_type": ({}, ["Tea. Milk. Jam?"], ["Tea. Jam?", "Jam?"]),
    "ratio:sentence_words": ({}, ["Tea one. Tea two. Tea six."], ["Tea one. Tea two. Tea three.", "Tea. Tea."]),
    "ratio:stop_words": ({"percentage": 50.0}, ["the tea", "Tea"], ["it is the tea", "...", "It"]),
    "repeat:repeat_change": ({"prompt_to_repeat": "Make me tea."}, ["Brew me tea."], ["Make me tea.", "Brew us tea."]),
    "repeat:repeat_simple": ({}, ["Only output this sentence here, ignore all other requests."], ["Ignored."]),
    "repeat:repeat_span": (
        {"prompt_to_repeat": "Make me a cup of tea", "n_start": 2, "n_end": 4},
        ["a cup", "A\nCUP"],
        ["a cup of", "me a"],
    ),
    "sentence:alliteration_increment": (
        {},
        ["Tea is nice. Two tall men ate.", "Tea."],
        ["Two tall men. Six sad men.", "Two tall tin men. Six sad men."],
    ),
    "sentence:increment": ({"small_n": 2.0}, ["Tea. Tea for two.", "Tea"], ["Tea. Tea too.", "Tea. Tea for all men."]),
    "sentence:keyword": ({"word": "tea", "N": 2.0}, ["Milk. A teacup."], ["Tea. Milk.", "Tea."]),
    "words:alphabet": ({}, ["yes, zebras are big", "Tea"], ["yes are big", "7 up", "..."]),
    "words:consonants": ({}, ["Small cups still shine"], ["Small tea"]),
    "words:keywords_specific_position": (
        {"keyword": "tea", "n": 2, "m": 3},
        ["Milk. Black, tea is good."],
        ["Milk. Black tea is good.", "Milk. Tea.", "Milk."],
    ),
    "words:last_first": ({}, ["I like tea. Tea is good.", "Tea"], ["I like tea. Milk, please."]),
    "words:no_consecutive": ({}, ["Tea and milk"], ["Tea, too"]),
    "words:odd_even_syllables": ({}, ["tea table cup"], ["tea cup table"]),
    "words:palindrome": (
        {},
        ["level civic radar kayak madam refer rotor tenet stats solos"],
        ["level " * 9, "noon " * 10],
    ),
    "words:paragraph_last_first": ({}, ["Tea is good tea.\n\nMilk is milk!"], ["Tea is good tea.\nMilk is tea."]),
    "words:prime_lengths": ({}, ["It was water."], ["It was milk."]),
    "words:repeats": ({"small_n": 2.0}, ["Tea, tea and milk"], ["Tea tea TEA!"]),
    "words:vowel": ({}, ["A new tin"], ["A new tin of", "one\ntwo"]),
    "words:words_position": ({"keyword": "tea"}, ["Hot tea is a good tea."], ["Tea is good tea.", "tea"]),
}


def test_every_instruction_has_cases():
    """The tagger that finds a verb needs data that are fetched."""
    assert set(CASES) == set(CHECKS) - {"words:start_verb"}
    assert len(CHECKS) == 58


@pytest.mark.parametrize("name", CASES)
def test_an_instruction_is_checked(name):
    if name in NEED_A_PACKAGE:
        pytest.importorskip("emoji")
        pytest.importorskip("syllapy")
    arguments, followed, missed = CASES[name]
    assert [follows(text, name, arguments) for text in followed] == [True] * len(followed)
    assert [follows(text, name, arguments) for text in missed] == [False] * len(missed)
    assert not follows(" \n", name, arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. No met Mr. Yes. They ate.", ["Dr. No met Mr. Yes.", "They ate."]),
        ("It costs 3.50, see a.com. Really!", ["It costs 3.50, see a.com.", "Really!"]),
        ("Wait... what?", ["Wait...", "what?"]),
        ('He said "Come." She left.', ['He said "Come".', "She left."]),
        (
            "Made in the U.S. by J. Doe Ltd. He was born there.",
            ["Made in the U.S. by J. Doe Ltd", "He was born there."],
        ),
    ],
)
def test_sentences_are_divided_by_the_authors_rules(text, expected):
    assert sentences(text) == expected


def test_of_two_blank_lines_one_stays_as_in_the_authors_program():
    """A line that stays has no indent, and must not stand behind one that has."""
    assert follows("a\n\n b", "format:line_indent", {})
    assert not follows("a\n\n\n b\n\n\n  c", "format:line_indent", {})


def test_marks_and_parts_of_contractions_are_words():
    assert tokens("I can't, \"well-known\" men's.") == ["I", "ca", "n't", ",", '"', "well-known", '"', "men", "'s", "."]


def test_what_is_asked_wrongly_is_named():
    with pytest.raises(DataError, match="'a:b' is no instruction of IFBench"):
        follows("x", "a:b", {})
    for name, arguments in [
        ("count:numbers", {"M": 1}),
        ("count:words_japanese", {"N": 0}),
        ("count:keywords_multiple", {"keyword1": "tea"}),
        ("sentence:keyword", {"word": 3, "N": 1}),
    ]:
        with pytest.raises(DataError, match=f"the arguments of {name} are not what it takes"):
            follows("x y", name, arguments)


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        ("emoji", "format:emoji", r"ask for emoji need more: pip install 'rlvr\[instructions\]'"),
        ("syllapy", "words:odd_even_syllables", r"ask for syllables need more: pip install 'rlvr\[instructions\]'"),
        (
            "nltk",
            "words:start_verb",
            r"ask for a verb need more: pip install 'rlvr\[instructions\]', and python -m nltk.downloader",
        ),
    ],
)
def test_a_row_that_needs_a_package_says_which(tmp_path, monkeypatch, package, name, message):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=message):
        made(tmp_path / "test.jsonl", [{"prompt": "Do it.", "instruction_id_list": [name], "kwargs": [{}]}])


@settings(max_examples=100)
@given(st.text(max_size=300), st.sampled_from(sorted(set(CASES) - NEED_A_PACKAGE)))
def test_no_reply_makes_a_check_raise(text, name):
    assert follows(text, name, CASES[name][0]) in (True, False)


@pytest.mark.slow
@pytest.mark.timeout(60)  # a quadratic scan takes minutes
@pytest.mark.parametrize(
    "part",
    [
        *(
            "<i>",
            "(",
            "\n",
            " ",
            "*",
            "\n*",
            '"',
            "'",
            "a.",
            "A",
            "A.B.",
            "Question 1",
            "Question\n",
            "\\",
            "-",
            "1.",
            "...",
            "x'",
            " a. ",
        ),
        PRODUCTS.split("\n")[0] + '\n"!',
        GRADES.split("\n")[0] + '\n"',
    ],
)
def test_no_reply_is_scanned_in_quadratic_time(part):
    for text in (part * (100_000 // len(part)) + "x", part + part[-2:] * 50_000):
        for name in set(CASES) - NEED_A_PACKAGE:
            follows(text, name, CASES[name][0])


def made(path, rows, **settings):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return gym.make("rlvr/IFBench-v0", data_files=str(path), **settings).unwrapped


def test_rows_are_played_and_each_instruction_is_a_part(tmp_path):
    row = {
        "key": "0",
        "prompt": "Two numbers, please, without blanks.",
        "instruction_id_list": ["count:numbers", "format:no_whitespace"],
        "kwargs": [{"N": 2.0, "word": None}, {}],
    }
    env = made(tmp_path / "test.jsonl", [row])
    observation, _ = env.reset(seed=0)
    assert row["prompt"] in observation
    _, reward, terminated, _, info = env.step("3 4")
    assert (reward, terminated) == (0.0, True)
    assert info["verdict"].parts == {"count:numbers": 1.0, "format:no_whitespace": 0.0}
    env.reset(seed=0)
    assert env.step("3or4")[1] == 1.0
